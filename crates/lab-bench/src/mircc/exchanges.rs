use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use paceline_lab::LabError;
use paceline_lab::machine::thread_cpu;
use paceline_net::{BoundFaces, Events, FaceNode, FacesConfig, Hosted};
use paceline_proto::core::{Context, Lane, NodeId, Payload, Protocol};
use paceline_proto::mircc::{Command, Config, Event, FaceConfig, Forwarder, Setup};
use paceline_proto::ndn::{Body, Data, Interest, Meta, Name, Packet, Signer};
use serde::Serialize;

use super::Settings;

/// What is configured of the forwarder's faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No rates: Interests and Data go as they come.
    Plain,
    /// Rates, so that Interests are shaped, links paced, and Data stamped.
    Stamped,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Plain, Kind::Stamped];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Stamped => "stamped",
        }
    }

    fn face(self) -> FaceConfig {
        match self {
            Kind::Plain => FaceConfig::default(),
            // More than loopback carries: what is measured is what it costs, not what it lets by.
            Kind::Stamped => FaceConfig::of_rate(100_000_000_000),
        }
    }
}

/// What a forwarder on loopback does in a second of one core: an exchange is an Interest that comes
/// in and goes out, and its Data that comes in and goes out.
#[derive(Clone, Debug, Serialize)]
pub struct Exchanges {
    /// What is configured of its faces.
    pub faces: Kind,
    /// Exchanges of the measured time.
    pub exchanges: u64,
    /// Measured time.
    pub seconds: f64,
    /// Processor time of the forwarder's thread meanwhile, user and system, seconds. What the
    /// kernel does for a receiver happens on loopback at its sender's expense.
    pub cpu_seconds: f64,
    /// Exchanges in a second of a core.
    pub exchanges_per_core_second: f64,
    /// Pending Interests when the time began and when it ended.
    pub pending: [usize; 2],
    /// Datagrams in a train that it received, and in one that it sent.
    pub datagrams_per_call: [f64; 2],
    /// Interests whose Data did not come in time.
    pub lost: u64,
}

/// Bytes of content of a Data.
const CONTENT_BYTES: u32 = 1_000;
/// Interests on their way, beside those that the producer keeps waiting.
const UNDER_WAY: usize = 1_024;
/// Interests that are sent at once until the required number is under way.
const RAMP: usize = 512;
const TICK: Duration = Duration::from_millis(2);
/// Ticks without an answer after which what was under way is lost, and asked for again.
const STALLED_TICKS: u32 = 100;
/// Until all are pending, and the first of them are answered.
const WARM_UP: Duration = Duration::from_secs(2);

/// Runs it: a consumer and a producer in threads of their own keep the forwarder busy.
pub(super) fn run(kind: Kind, settings: Settings) -> Result<Exchanges, LabError> {
    let waiting = settings.pending - UNDER_WAY;
    let (producer, forwarder, consumer) = (bind()?, bind()?, bind()?);
    let (producer_addr, forwarder_addr) = (producer.local_addr(), forwarder.local_addr());
    let name: Name = "/bench/file".parse().expect("a name");
    let _producer = start(producer, vec![], Producer { waiting, asked: VecDeque::new() })?;
    let (told, running) = mpsc::channel();
    let measured = std::thread::spawn({
        let name = name.clone();
        move || {
            runtime()?.block_on(async {
                let config = Config { signer: Signer::Null, ..Config::default().on_sockets() };
                let setup = Setup {
                    faces: vec![(NodeId(0), kind.face())],
                    stranger: kind.face(),
                    routes: vec![(name, NodeId(0), 0)],
                    ..Setup::default()
                };
                let protocol = Forwarder::new(setup, &config);
                let started = forwarder.start(&[producer_addr], protocol, Arc::new(config));
                let (node, mut events) = started.map_err(failed)?;
                let _ = told.send(());
                let mut measuring = Measuring { node: &node, events: &mut events };
                tokio::time::sleep(WARM_UP).await;
                measuring.run(kind, settings).await
            })
        }
    });
    if running.recv().is_err() {
        return joined(measured);
    }
    let consumer = start(consumer, vec![forwarder_addr], Consumer::new(name, settings.pending))?;
    let outcome = joined(measured);
    drop(consumer);
    outcome
}

fn joined(
    thread: std::thread::JoinHandle<Result<Exchanges, LabError>>,
) -> Result<Exchanges, LabError> {
    thread
        .join()
        .unwrap_or_else(|_| Err(LabError::Run("the thread of the forwarder failed".into())))
}

/// The forwarder, from within its thread.
struct Measuring<'a> {
    node: &'a FaceNode<Forwarder>,
    events: &'a mut Events<Forwarder>,
}

impl Measuring<'_> {
    async fn run(&mut self, kind: Kind, settings: Settings) -> Result<Exchanges, LabError> {
        let pending = self.pending().await?;
        let (began, cpu_before, before) = (Instant::now(), thread_cpu(), self.node.stats());
        tokio::time::sleep(settings.duration).await;
        let cpu = thread_cpu().saturating_sub(cpu_before).as_secs_f64();
        let (seconds, after) = (began.elapsed().as_secs_f64(), self.node.stats());
        let pending = [pending, self.pending().await?];
        let (traffic, earlier) = (after.traffic, before.traffic);
        let each = |datagrams: u64, calls: u64| datagrams as f64 / calls.max(1) as f64;
        let received = traffic.datagrams_in - earlier.datagrams_in;
        let sent = traffic.datagrams_out - earlier.datagrams_out;
        let lost = after.counters.count("mircc_expired") - before.counters.count("mircc_expired");
        // Each is an Interest and a Data out.
        let exchanges = sent / 2;
        Ok(Exchanges {
            faces: kind,
            exchanges,
            seconds,
            cpu_seconds: cpu,
            exchanges_per_core_second: exchanges as f64 / cpu.max(f64::MIN_POSITIVE),
            pending,
            datagrams_per_call: [
                each(received, traffic.datagram_receives - earlier.datagram_receives),
                each(sent, traffic.datagram_sends - earlier.datagram_sends),
            ],
            lost,
        })
    }

    async fn pending(&mut self) -> Result<usize, LabError> {
        self.node.command(Command::Report(1)).map_err(failed)?;
        while let Some(event) = self.events.recv().await {
            if let Event::Report { report, .. } = event {
                return Ok(report.pending);
            }
        }
        Err(LabError::Run("the forwarder has stopped".to_owned()))
    }
}

fn bind() -> Result<BoundFaces, LabError> {
    let addr = SocketAddr::from(([127, 0, 0, 1], 0));
    BoundFaces::bind(FacesConfig::new(addr).with_accepts_unknown(true)).map_err(failed)
}

fn runtime() -> Result<tokio::runtime::Runtime, LabError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> LabError {
    LabError::Run(error.to_string())
}

/// Runs a node in a thread of its own, until the handle is dropped.
fn start<P>(bound: BoundFaces, faces: Vec<SocketAddr>, protocol: P) -> Result<FaceNode<P>, LabError>
where
    P: Hosted<Shared = ()>,
{
    let (told, started) = mpsc::channel();
    std::thread::spawn(move || {
        let run = || {
            let runtime = runtime()?;
            let (node, mut events) = runtime
                .block_on(async { bound.start(&faces, protocol, Arc::new(())) })
                .map_err(failed)?;
            let _ = told.send(Ok(node));
            // Ends with the node, which ends with its handle.
            runtime.block_on(async { while events.recv().await.is_some() {} });
            Ok(())
        };
        if let Err(error) = run() {
            let _ = told.send(Err(error));
        }
    });
    started.recv().map_err(failed)?
}

/// Answers Interests in order, and keeps `waiting` of them pending.
struct Producer {
    waiting: usize,
    asked: VecDeque<Name>,
}

impl Protocol for Producer {
    type Message = Box<Packet>;
    type Timer = ();
    type Command = ();
    type Event = ();
    type Shared = ();

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, packet: Box<Packet>) {
        let Body::Interest(interest) = packet.body else { return };
        // Of a buffer that holds many, a name is a small part.
        self.asked.push_back(interest.name.detached());
        if self.asked.len() <= self.waiting {
            return;
        }
        if let Some(name) = self.asked.pop_front() {
            let content = Payload::Zeros(CONTENT_BYTES);
            let data = Data::new(name, Meta::default(), content, &Signer::Null);
            cx.send(from, Lane::Datagram, Box::new(Packet::from(data)));
        }
    }
}

/// Keeps as many questions pending.
struct Consumer {
    name: Name,
    pending: usize,
    asked: u64,
    answered: u64,
    answered_before: u64,
    stalled: u32,
}

impl Consumer {
    fn new(name: Name, pending: usize) -> Consumer {
        Consumer { name, pending, asked: 0, answered: 0, answered_before: 0, stalled: 0 }
    }

    fn ask(&mut self, cx: &mut Context<'_, Self>) {
        let mut interest = Interest::new(self.name.with_segment(self.asked), cx.rng.next_u32());
        interest.lifetime_ms = Some(4_000);
        self.asked += 1;
        cx.send(NodeId(0), Lane::Datagram, Box::new(Packet::from(interest)));
    }
}

impl Protocol for Consumer {
    type Message = Box<Packet>;
    type Timer = ();
    type Command = ();
    type Event = ();
    type Shared = ();

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        cx.set_timer(TICK, ());
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, _: Box<Packet>) {
        self.answered += 1;
        self.ask(cx);
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        let pending = self.asked - self.answered;
        if pending < self.pending as u64 {
            (0..RAMP).for_each(|_| self.ask(cx));
        } else if self.answered == self.answered_before {
            self.stalled += 1;
            if self.stalled.is_multiple_of(STALLED_TICKS) {
                (0..UNDER_WAY).for_each(|_| self.ask(cx));
            }
        } else {
            self.stalled = 0;
        }
        self.answered_before = self.answered;
        cx.set_timer(TICK, ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_pending_as_there_are_to_be_and_few_are_lost() {
        for kind in Kind::ALL {
            let settings = Settings { rounds: 0, duration: Duration::from_secs(1), pending: 8_192 };
            let exchanges = run(kind, settings).expect("it runs");
            for pending in exchanges.pending {
                assert!((6_000..=8_192 + 2 * RAMP).contains(&pending), "{exchanges:?}");
            }
            assert!(exchanges.exchanges > 1_000, "{exchanges:?}");
            assert!(exchanges.lost < exchanges.exchanges / 10, "{exchanges:?}");
        }
    }
}
