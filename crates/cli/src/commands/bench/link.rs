use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use paceline::walks::{Graph, Job, Length, SharedGraph, Sources};
use paceline::{Dht, Event, Group, Host, Multicast, NodeId, WalkServer, Walks};
use paceline_lab::Machine;
use paceline_lab::scenario::Rate;
use paceline_lab::scenario::units::parse_rate;
use paceline_lab::table::table;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::commands::Outcome;
use crate::commands::member::{explain, explain_host, unless_stopped, wide_runtime};
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Share the link of a host between a group, a multicast, a table and walks, by weight
///
/// Two hosts are in this process, on loopback, and the link of the first has a rate. Its services
/// have more to send than that: each should get its weight of the link. Then the group sends less
/// than its part, beside a table that keeps to its part, and beside one that floods: the group's
/// 99th percentile should not double.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The rate of the link, 1Mbit to 1Gbit
    #[arg(long, value_name = "RATE", default_value = "100Mbit", value_parser = rate)]
    rate: Rate,

    /// Weights of the group, the multicast, the table and the walks, each 1 to 100
    #[arg(long, value_name = "W,W,W,W", default_value = "1,1,1,1")]
    weights: Weights,

    /// Measured time of each step, after two seconds of warm-up
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse::seconds)]
    seconds: Duration,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench link
  paceline bench link --weights 4,3,2,1 --json
  paceline bench link --rate 20Mbit --seconds 30s

The rate is the one that the host is configured with (`link_rate`): it lets no more out, headers of
UDP, TCP, IP and Ethernet included. A part of a service is its bytes over those of all four. On
loopback a message passes a link that rests at once, whatever it would take on a real one: at low
rates latencies beside a table that keeps to its part are shorter than there.";

const WARM_UP: Duration = Duration::from_secs(2);
/// Longer than anything takes while the link is full.
const SOON: Duration = Duration::from_secs(60);
/// Of a graph in which each step leads to the other server.
const VERTICES: u32 = 1_000;
/// A block.
const GROUP_BYTES: usize = 8_000;
const PACKET_BYTES: usize = 1_000;
const VALUE_BYTES: usize = 4_000;
/// What a write takes of the link, with heads and look-ups, about.
const WRITE_BYTES: f64 = 4_800.0;
/// What a table that floods has under way, as long as its part of the link takes for it, at most
/// 128 writes: replies that wait longer are asked for again.
const UNDER_WAY: Duration = Duration::from_millis(150);
const WRITES_MAX: usize = 128;
/// Jobs that run at once, walks of each from every vertex, and their steps. Walks are short, so
/// that jobs notice soon that a link is full; after long ones the link may be empty for seconds.
/// Those that are under way when a job is given up still walk to their ends.
const JOBS: usize = 48;
const WALKS: u32 = 100;
const STEPS: u32 = 5;
/// A service that sends less of the link is at rest.
const REST: f64 = 0.02;
/// What a group sends of its part of the link beside a table, and what a table that keeps to its
/// part does.
const OF_ITS_PART: [f64; 2] = [0.6, 0.9];

/// The weights of the services, in the order of [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Weights([u32; 4]);

impl Weights {
    /// Of all four.
    fn parts(self) -> [f64; 4] {
        self.0.map(|weight| f64::from(weight) / f64::from(self.0.iter().sum::<u32>()))
    }
}

const NAMES: [&str; 4] = ["group", "multicast", "table", "walks"];
const GROUP: usize = 0;
const TABLE: usize = 2;

impl FromStr for Weights {
    type Err = String;

    fn from_str(text: &str) -> Result<Weights, String> {
        let weights: Result<Vec<u32>, _> =
            text.split(',').map(|part| part.trim().parse()).collect();
        let weights = weights.ok().and_then(|weights| <[u32; 4]>::try_from(weights).ok());
        let weights = weights.filter(|weights| weights.iter().all(|of| (1..=100).contains(of)));
        weights
            .map(Weights)
            .ok_or_else(|| format!("`{text}` is not four numbers from 1 to 100, such as 4,3,2,1"))
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [group, multicast, table, walks] = self.0;
        write!(f, "{group},{multicast},{table},{walks}")
    }
}

/// How many writes a table has under way at once when it floods, if this is its part of the link.
fn writes(rate: Rate, part: f64) -> usize {
    let bytes = part * rate.bytes_per_second() as f64 * UNDER_WAY.as_secs_f64();
    ((bytes / WRITE_BYTES) as usize).clamp(8, WRITES_MAX)
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = parse_rate(text)?;
    let is_within = (1_000_000..=1_000_000_000).contains(&rate.bits_per_second());
    is_within.then_some(rate).ok_or_else(|| "expected 1Mbit to 1Gbit".to_owned())
}

#[derive(Serialize)]
struct Share {
    service: &'static str,
    weight: u32,
    bytes_per_s: f64,
    /// Of the bytes of all four.
    share: f64,
    /// The share over that of the weights.
    of_weight: f64,
}

/// The group's latency from sending to delivery, beside a table.
#[derive(Serialize)]
struct Beside {
    /// `fair` or `flooding`.
    table: &'static str,
    /// Of the services in their order.
    bytes_per_s: [f64; 4],
    messages: usize,
    p50_ms: f64,
    p99_ms: f64,
}

#[derive(Serialize)]
struct Document {
    machine: Machine,
    rate_mbit: f64,
    seconds: f64,
    shares: Vec<Share>,
    /// The bytes of all four over what the link takes.
    of_link: f64,
    beside: Vec<Beside>,
    /// The 99th percentile beside the table that floods, over that beside the other.
    p99_ratio: f64,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let document = wide_runtime()?.block_on(unless_stopped(measure(&args, ui)))??;
    ui.document(&document)?;
    let row = |share: &Share| {
        [
            share.service.to_owned(),
            share.weight.to_string(),
            format!("{:.2}", share.bytes_per_s / 1e6),
            format!("{:.1} %", 100.0 * share.share),
            format!("{:.2}", share.of_weight),
        ]
    };
    let rows: Vec<[String; 5]> = document.shares.iter().map(row).collect();
    ui.print(&table(["service", "weight", "MB/s", "of all", "of its weight"], &rows))?;
    ui.print(&format!(
        "\nAll four want more than their parts. Together they take {:.1} % of {} Mbit/s.\n\n",
        100.0 * document.of_link,
        document.rate_mbit
    ))?;
    let row = |beside: &Beside| {
        [
            beside.table.to_owned(),
            format!("{:.2}", beside.bytes_per_s[TABLE] / 1e6),
            format!("{:.2}", beside.bytes_per_s[GROUP] / 1e6),
            format!("{:.2}", beside.p50_ms),
            format!("{:.2}", beside.p99_ms),
        ]
    };
    let rows: Vec<[String; 5]> = document.beside.iter().map(row).collect();
    ui.print(&table(["table", "MB/s", "group MB/s", "p50 ms", "p99 ms"], &rows))?;
    ui.print(&format!(
        "\nThe group's latency from sending to delivery beside the table; the 99th percentile \
         beside the one that floods is {:.2} times the other.\n",
        document.p99_ratio
    ))?;
    ui.print(&format!("{}\n", document.machine.describe()))?;
    Ok(Outcome::Done)
}

async fn measure(args: &Args, ui: &Ui) -> Result<Document, CliError> {
    let mut pair = Pair::start(args).await?;
    ui.note("all four services have more to send than the link takes");
    let sent = pair.shares(args).await;
    pair.rest(args).await;
    let mut beside = Vec::new();
    for (name, is_flooding) in [("fair", false), ("flooding", true)] {
        ui.note(&format!("the group beside a {name} table"));
        beside.push(pair.beside(args, name, is_flooding).await);
    }
    pair.stop().await;
    let (rate, seconds) = (args.rate.bits_per_second() as f64, args.seconds.as_secs_f64());
    let (all, weights, of_all) = (sent.iter().sum::<f64>(), args.weights.0, args.weights.parts());
    let share = |(at, service): (usize, &'static str)| Share {
        service,
        weight: weights[at],
        bytes_per_s: sent[at],
        share: sent[at] / all,
        of_weight: sent[at] / all / of_all[at],
    };
    Ok(Document {
        machine: Machine::observe(),
        rate_mbit: rate / 1e6,
        seconds,
        shares: NAMES.into_iter().enumerate().map(share).collect(),
        of_link: all * 8.0 / rate,
        p99_ratio: beside[1].p99_ms / beside[0].p99_ms,
        beside,
    })
}

/// The services on the host whose link is measured.
struct Services {
    log: Group,
    feed: Multicast,
    stock: Dht,
    web: WalkServer,
    walkers: Walks,
}

impl Services {
    /// What each has sent, bytes on the link.
    fn sent(&self) -> [u64; 4] {
        let stats = [self.log.stats(), self.feed.stats(), self.stock.stats(), self.web.stats()];
        stats.map(|stats| stats.counters.count("host_link_sent"))
    }

    /// What each sends within this time, bytes a second.
    async fn rates_over(&self, time: Duration) -> [f64; 4] {
        let (before, begun) = (self.sent(), Instant::now());
        sleep(time).await;
        let (after, seconds) = (self.sent(), begun.elapsed().as_secs_f64());
        std::array::from_fn(|at| (after[at] - before[at]) as f64 / seconds)
    }
}

/// When messages of the group were sent, and how long they took.
struct Clock {
    begun: Instant,
    took: Mutex<Vec<Duration>>,
}

/// Two hosts, and what reads the events of their services.
struct Pair {
    hosts: Vec<Host>,
    services: Arc<Services>,
    clock: Arc<Clock>,
    readers: JoinSet<()>,
}

impl Pair {
    async fn start(args: &Args) -> Result<Pair, CliError> {
        let host = |id: u64| Host::builder("bench").id(NodeId(id));
        let a = host(1).link_rate(args.rate.bits_per_second());
        let a = a.start().await.map_err(explain_host)?;
        let b = host(2).start().await.map_err(explain_host)?;
        let [log, feed, stock, web] = args.weights.0;
        let peer = || [a.address().to_string()];
        let mut readers = JoinSet::new();
        let clock = Arc::new(Clock { begun: Instant::now(), took: Mutex::default() });

        let (log, mut events) = a.group("log").weight(log).bootstrap().await.map_err(explain)?;
        readers.spawn(async move { while events.recv().await.is_some() {} });
        let (_, mut events) = b.group("log").peers(peer()).join().await.map_err(explain)?;
        let timed = clock.clone();
        readers.spawn(async move {
            while let Some(event) = events.recv().await {
                if let Event::Delivered(delivery) = event {
                    timed.note(&delivery.payload);
                }
            }
        });
        let feed = a.multicast("feed").weight(feed).bootstrap().await.map_err(explain)?;
        let (feed, mut events) = feed;
        readers.spawn(async move { while events.recv().await.is_some() {} });
        let other = b.multicast("feed").peers(peer()).join().await.map_err(explain)?;
        let mut events = other.1;
        readers.spawn(async move { while events.recv().await.is_some() {} });
        let stock = a.dht("stock").weight(stock).bundles_in_flight(WRITES_MAX);
        let stock = stock.bootstrap().await.map_err(explain)?;
        let other_stock = b.dht("stock").peers(peer()).join().await.map_err(explain)?;
        settle(&stock).await?;
        let web = a.walks("web").weight(web).serve().await.map_err(explain)?;
        let other_web = b.walks("web").serve().await.map_err(explain)?;

        let servers = [a.address().to_string(), b.address().to_string()];
        let client = host(3).start().await.map_err(explain_host)?;
        let walkers = client.walks("web").within(SOON).peers(servers);
        let walkers = walkers.connect().await.map_err(explain)?;
        let edges = (0..VERTICES).map(|vertex| (vertex, (vertex + 1) % VERTICES));
        let graph = Graph::from_edges(VERTICES, edges).expect("a circle is a graph");
        let owners = (0..VERTICES).map(|vertex| (vertex % 2) as u16).collect();
        let supplied = walkers.supply(&SharedGraph::new(graph, owners), SOON).await;
        supplied.map_err(|error| CliError::Failed(error.to_string()))?;
        readers.spawn(async move {
            let _kept = (other.0, other_stock, other_web);
            std::future::pending::<()>().await;
        });
        let services = Arc::new(Services { log, feed, stock, web, walkers });
        Ok(Pair { hosts: vec![a, b, client], services, clock, readers })
    }

    async fn stop(mut self) {
        self.readers.shutdown().await;
        for host in self.hosts {
            host.abort().await;
        }
    }

    /// Bytes a second that each service sends while all have more to send than the link takes.
    async fn shares(&mut self, args: &Args) -> [f64; 4] {
        let mut tasks = JoinSet::new();
        let all = self.services.clone();
        tasks.spawn(async move { while all.log.broadcast(vec![0; GROUP_BYTES]).await.is_ok() {} });
        let all = self.services.clone();
        let packets_per_ms = args.rate.bytes_per_second() as usize / PACKET_BYTES / 1000 + 1;
        tasks.spawn(async move {
            // Datagrams wait for nothing: more than the link takes.
            let mut ticks = interval(Duration::from_millis(1));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                for _ in 0..packets_per_ms {
                    _ = all.feed.send(vec![0; PACKET_BYTES]).await;
                }
            }
        });
        flood(&self.services, writes(args.rate, args.weights.parts()[TABLE]), &mut tasks);
        for job in 0..JOBS {
            let all = self.services.clone();
            tasks.spawn(async move {
                for seed in (job as u64..).step_by(JOBS) {
                    let job = Job::new(Length::Steps(STEPS), Sources::Range(0..VERTICES));
                    let job = job.with_walks(WALKS).with_seed(seed);
                    let Ok(mut walking) = all.walkers.run(job) else { return };
                    while let Ok(Some(_)) = walking.next().await {}
                }
            });
        }
        self.rates(args, tasks).await
    }

    /// Waits until what was under way has come to its end: walkers walk on, and queues are sent.
    async fn rest(&self, args: &Args) {
        const STEP: Duration = Duration::from_millis(250);
        let rate_max = REST * args.rate.bytes_per_second() as f64;
        let begun = Instant::now();
        while begun.elapsed() < SOON {
            if self.services.rates_over(STEP).await.iter().all(|&rate| rate < rate_max) {
                return;
            }
        }
    }

    /// Bytes a second that each service sends while these tasks run, which end then.
    async fn rates(&self, args: &Args, mut tasks: JoinSet<()>) -> [f64; 4] {
        sleep(WARM_UP).await;
        self.clock.took.lock().expect("no panic").clear();
        let rates = self.services.rates_over(args.seconds).await;
        tasks.shutdown().await;
        rates
    }

    async fn beside(&mut self, args: &Args, table: &'static str, is_flooding: bool) -> Beside {
        let [group, _, table_part, _] = args.weights.0.map(f64::from);
        let every = |weight: f64, of_its_part: f64, bytes: f64| {
            let part = weight / (group + table_part);
            let rate = of_its_part * part * args.rate.bits_per_second() as f64 / 8.0;
            let mut ticks = interval(Duration::from_secs_f64(bytes / rate));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            ticks
        };
        let mut tasks = JoinSet::new();
        let (all, clock) = (self.services.clone(), self.clock.clone());
        let mut ticks = every(group, OF_ITS_PART[0], GROUP_BYTES as f64);
        tasks.spawn(async move {
            loop {
                ticks.tick().await;
                if all.log.broadcast(clock.message()).await.is_err() {
                    return;
                }
            }
        });
        if is_flooding {
            let part = table_part / (group + table_part);
            flood(&self.services, writes(args.rate, part), &mut tasks);
        } else {
            let all = self.services.clone();
            let mut ticks = every(table_part, OF_ITS_PART[1], WRITE_BYTES);
            tasks.spawn(async move {
                let mut writes = JoinSet::new();
                for number in 0u64.. {
                    ticks.tick().await;
                    while writes.try_join_next().is_some() {}
                    let all = all.clone();
                    writes.spawn(async move {
                        _ = all.stock.put(number.to_be_bytes(), vec![0; VALUE_BYTES]).await;
                    });
                }
            });
        }
        let rates = self.rates(args, tasks).await;
        let mut took = std::mem::take(&mut *self.clock.took.lock().expect("no panic"));
        took.sort_unstable();
        let ms = |share: f64| {
            let rank = (took.len() as f64 * share).ceil() as usize;
            let at = rank.saturating_sub(1);
            took.get(at).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
        };
        Beside {
            table,
            bytes_per_s: rates,
            messages: took.len(),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
        }
    }
}

/// Writes to both hosts until each write has a copy on the other: they know each other then, and
/// are certain of their parts. Before that a table puts writes off.
async fn settle(stock: &Dht) -> Result<(), CliError> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        let entries =
            (0..WRITES_MAX).map(|number| (format!("settled {number}").into(), "yes".into()));
        let mut written = stock.put_all(entries);
        let mut is_settled = true;
        while let Some(written) = written.next().await {
            is_settled &= written.outcome.is_ok_and(|copies| copies == 2);
        }
        if is_settled {
            return Ok(());
        }
    }
    Err(CliError::Failed(format!("the table is not on both hosts after {} s", SOON.as_secs())))
}

/// Many writers, each with a write under way.
fn flood(services: &Arc<Services>, writers: usize, tasks: &mut JoinSet<()>) {
    for task in 0..writers {
        let all = services.clone();
        tasks.spawn(async move {
            for number in 0u64.. {
                // One that takes too long is one more that waits.
                _ = all.stock.put(format!("{task} {number}"), vec![0; VALUE_BYTES]).await;
            }
        });
    }
}

impl Clock {
    /// A message that says when it was made.
    fn message(&self) -> Vec<u8> {
        let mut message = vec![0; GROUP_BYTES];
        let nanos = self.begun.elapsed().as_nanos() as u64;
        message[..8].copy_from_slice(&nanos.to_be_bytes());
        message
    }

    /// Notes how long one took. Those of the first step say nothing.
    fn note(&self, message: &[u8]) {
        let Some(Ok(nanos)) = message.get(..8).map(<[u8; 8]>::try_from) else { return };
        let sent = Duration::from_nanos(u64::from_be_bytes(nanos));
        if !sent.is_zero() {
            self.took.lock().expect("no panic").push(self.begun.elapsed().saturating_sub(sent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_four_numbers() {
        let weights = Weights::from_str("4, 3,2,1").unwrap();
        assert_eq!((weights, weights.to_string()), (Weights([4, 3, 2, 1]), "4,3,2,1".to_owned()));
        for wrong in ["", "1,2,3", "1,2,3,4,5", "1,2,3,0", "1,2,3,101", "a,b,c,d"] {
            let said = Weights::from_str(wrong).unwrap_err();
            assert!(said.contains("four numbers from 1 to 100"), "{wrong}: {said}");
        }
    }
}
