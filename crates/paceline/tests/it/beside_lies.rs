//! Honest traffic beside a stranger that sends a thousand well-formed lies a second, on loopback.

use crate::support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use paceline::net::record::ServiceNumber;
use paceline::proto::core::{Member, NodeId, Protocol, Rng, Wire};
use paceline::proto::{group, overlay};
use paceline::{Algorithm, Event, Host};
use paceline_check::lies::{Draw, Known, Source};
use support::builder;
use support::stranger::{Stranger, encoded};
use tokio::task::JoinSet;

/// Between two lies.
const EVERY: Duration = Duration::from_millis(1);
/// How long a rate is measured.
const SPAN: Duration = Duration::from_secs(2);
/// Spans without lies, each beside one with them.
const PAIRS: usize = 7;

/// A stranger that lies while `is_on` is true.
struct Liar {
    is_on: Arc<AtomicBool>,
    lies: Arc<AtomicU64>,
}

impl Liar {
    /// Knows these nodes and where they are.
    async fn start<M: Draw + Wire>(
        stranger: Stranger,
        to: Vec<(Member, SocketAddr)>,
        algorithm: Algorithm,
    ) -> Liar {
        for (_, addr) in &to {
            stranger.proves_itself(*addr).await;
        }
        let liar = Liar { is_on: Arc::default(), lies: Arc::default() };
        let (is_on, lies) = (liar.is_on.clone(), liar.lies.clone());
        std::thread::spawn(move || {
            let mut known = Known { view: 4, algorithm, ..Known::default() };
            to.iter().for_each(|(member, _)| known.note(*member));
            let mut rng = Rng::new(3, 5);
            let node = NodeId(stranger.id);
            let me = Member { node, incarnation: stranger.session.incarnation() };
            let mut next = Instant::now();
            // Until the process ends.
            loop {
                next += EVERY;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                let (_, addr) = to[rng.below(to.len() as u32) as usize];
                stranger.answer(addr);
                if is_on.load(Relaxed) {
                    let lie =
                        M::draw(&mut Source { is_member: false, rng: &mut rng, known: &known, me });
                    let bytes = encoded(&lie);
                    if bytes.len() < 1100 {
                        stranger.say(addr, paceline::net::record::Kind::Message, &bytes);
                        lies.fetch_add(1, Relaxed);
                    }
                }
            }
        });
        liar
    }

    /// The median over pairs of what is done in a span with lies by what is done in one without.
    async fn share(&self, done: &AtomicU64) -> f64 {
        let mut shares = Vec::new();
        for _ in 0..PAIRS {
            let [mut alone, mut beside] = [0; 2];
            for (is_on, count) in [(false, &mut alone), (true, &mut beside)] {
                self.is_on.store(is_on, Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
                let before = done.load(Relaxed);
                tokio::time::sleep(SPAN).await;
                *count = done.load(Relaxed) - before;
            }
            println!("{alone} alone, {beside} beside {} lies", self.lies.load(Relaxed));
            shares.push(beside as f64 / alone as f64);
        }
        assert!(self.lies.load(Relaxed) > 900 * (SPAN.as_secs() * PAIRS as u64), "it did not lie");
        shares.sort_by(f64::total_cmp);
        shares[PAIRS / 2]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time on a machine without other load, half a minute: run it in release"]
async fn a_group_keeps_its_rate_beside_a_thousand_lies_a_second() {
    let host = async |id| Host::builder("test").id(NodeId(id)).start().await.unwrap();
    let (first, events) = host(1).await.group("g").bootstrap().await.unwrap();
    let peer = first.local_addr().to_string();
    let mut members = vec![(first, events)];
    for id in 2..=3 {
        members.push(host(id).await.group("g").peers([&peer]).join().await.unwrap());
    }
    let delivered = Arc::new(AtomicU64::new(0));
    let mut groups = Vec::new();
    for (group, mut events) in members {
        groups.push(group);
        let delivered = delivered.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                delivered.fetch_add(u64::from(matches!(event, Event::Delivered(_))), Relaxed);
            }
        });
    }
    let view = groups[1].view().unwrap();
    let addr = |group: &paceline::Group| group.local_addr();
    let to = view.members().iter().copied().zip(groups.iter().map(addr)).collect();
    let liar = Liar::start::<group::Message>(
        Stranger::new(groups[0].node().number(), 200),
        to,
        Algorithm::default(),
    )
    .await;
    let sender = groups[0].clone();
    tokio::spawn(async move { while sender.broadcast(vec![7; 8000]).await.is_ok() {} });
    let share = liar.share(&delivered).await;
    println!("group: {share:.3}");
    assert!(share >= 0.95, "{share:.3}");
    assert_eq!(groups[1].view().unwrap().len(), 3);
}

/// The share of its rate that a table keeps.
async fn table(algorithm: Algorithm) -> f64 {
    let builder = async |id| builder(id).await.algorithm(algorithm);
    let first = builder(1).await.bootstrap().await.unwrap();
    let mut hosts = vec![first];
    for id in 2..=3 {
        hosts.push(
            builder(id).await.peers([hosts[0].local_addr().to_string()]).join().await.unwrap(),
        );
    }
    for number in 0..100 {
        hosts[0].put(format!("key {number}"), format!("value {number}")).await.unwrap();
    }
    // Any incarnation does: hosts tell theirs only to each other.
    let member = |id| Member { node: NodeId(id), incarnation: 1 };
    let to = (1..).map(member).zip(hosts.iter().map(|host| host.local_addr())).collect();
    let terms = overlay::Overlay::terms(&overlay::Config::default().with_algorithm(algorithm));
    let number = ServiceNumber::of(&format!("dht/{algorithm}"), "table").on(&terms);
    let stranger = Stranger::new(number, 9000);
    let liar = Liar::start::<overlay::Message>(stranger, to, algorithm).await;
    let read = Arc::new(AtomicU64::new(0));
    let mut readers = JoinSet::new();
    for task in 0..32_usize {
        let (host, read) = (hosts[task % 3].clone(), read.clone());
        readers.spawn(async move {
            for number in (task..).map(|number| number % 100) {
                match host.get(format!("key {number}")).await {
                    Ok(Some(value)) if value == format!("value {number}") => {
                        read.fetch_add(1, Relaxed);
                    }
                    other => panic!("key {number}: {other:?}"),
                }
            }
        });
    }
    let share = liar.share(&read).await;
    println!("{algorithm}: {share:.3}");
    assert!(readers.try_join_next().is_none(), "all read what was stored");
    liar.is_on.store(false, Relaxed);
    share
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time on a machine without other load, three minutes: run it in release"]
async fn a_table_of_any_algorithm_keeps_its_rate_beside_a_thousand_lies_a_second() {
    let mut low = Vec::new();
    for algorithm in Algorithm::ALL {
        let share = table(algorithm).await;
        if share < 0.95 {
            low.push((algorithm, share));
        }
    }
    assert!(low.is_empty(), "{low:?}");
}
