//! An honest job beside a node that sends servers walkers of a million steps, again and again.
//!
//! A hop takes a server 4 us of simulated time, so the load from others shows in the job's
//! duration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Context, Instant, Lane, LinkFaults, NodeId, Outbox, Protocol, Rng};
use paceline_proto::graphshare::{GraphCommand, GraphEvent, Supply};
use paceline_proto::walk::{
    Command, Config, Event, Graph, Head, Job, JobId, JobReport, Kind, Length, Message, Owners,
    Server, Sources, Timer, Trail, Traveller, Vertex, Walker,
};
use paceline_sim::{Observer, Reply, Sim, SimConfig};

const SERVERS: u32 = 3;
const CLIENT: NodeId = NodeId(SERVERS as u64);
const STRANGER: NodeId = NodeId(SERVERS as u64 + 1);
const VERTICES: u32 = 300;
const PLAN: u64 = 77;
const JOB: JobId = JobId(1);
/// Walkers of 2^20 steps that fit a datagram of 1,200 bytes.
const CROWD: u64 = 38;

/// What the stranger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// It sends nothing.
    Nothing,
    /// It sends walkers whose home is the client, a server, or no node: by turns, every
    /// millisecond.
    Forge,
    /// Walkers of its own, every millisecond.
    Flood,
    /// Walkers of its own, once; then it is gone.
    Vanish,
}

/// A node that speaks the protocol and is up to no good.
struct Stranger {
    act: Act,
    sent: u64,
}

impl Stranger {
    fn act(&mut self, cx: &mut Context<'_, Node>) {
        // The walkers of one that vanishes have credit, also if all come to one server.
        let steps = match self.act {
            Act::Vanish => 1 << 17,
            _ => Length::STEPS_MAX,
        };
        let round = self.sent / CROWD;
        let home = match self.act {
            Act::Nothing => return,
            Act::Forge => [CLIENT, NodeId(0), NodeId(2), NodeId(99)][round as usize / 3 % 4],
            Act::Flood | Act::Vanish => STRANGER,
        };
        for server in 0..SERVERS {
            let head =
                Head { home, job: round, plan: PLAN, kind: Kind::Uniform, trail: Trail::None };
            let walker = |walk| Traveller {
                token: self.sent + walk,
                // Each vertex of a server is one of three.
                walker: Walker::new(1, self.sent + walk, server, Length::Steps(steps)),
                path: Vec::new(),
                drawn: 0,
                is_marked: false,
                detours: 0,
            };
            let walkers = (0..CROWD).map(walker).collect();
            let message = Message::Walkers { head: Arc::new(head), walkers };
            cx.send(NodeId::from(server), Lane::Datagram, message);
            self.sent += CROWD;
        }
        if self.act != Act::Vanish {
            cx.set_timer(Duration::from_millis(1), Timer::Generate);
        }
    }
}

/// A server, a client, or the stranger.
enum Node {
    Honest(Box<Server>, Box<Outbox<Server>>),
    Stranger(Stranger),
}

impl Node {
    fn call(
        &mut self,
        cx: &mut Context<'_, Node>,
        handler: impl FnOnce(&mut Server, &mut Context<'_, Server>),
    ) {
        match self {
            Node::Honest(server, outbox) => {
                handler(server, &mut cx.nest(cx.incarnation, &(), outbox, 0));
                outbox.pass_to(cx.outbox, |message| message, |timer| timer);
                cx.outbox.events.append(&mut outbox.events);
            }
            Node::Stranger(stranger) => stranger.act(cx),
        }
    }
}

impl Protocol for Node {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = ();

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        // What comes to the stranger is of no interest to it.
        if let Node::Honest(..) = self {
            self.call(cx, |server, cx| server.handle_message(cx, from, message));
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        self.call(cx, |server, cx| server.handle_timer(cx, timer));
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        self.call(cx, |server, cx| server.handle_command(cx, command));
    }
}

/// The client's application: the events that it got.
#[derive(Default)]
struct Recorder {
    is_supplied: bool,
    paths: BTreeMap<u64, Vec<Vertex>>,
    report: Option<JobReport>,
}

impl Observer<Node> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<Node>) {
        assert_eq!(node, CLIENT, "only the client is told anything");
        match event {
            Event::Graph(GraphEvent::Supplying(..)) => {}
            Event::Graph(GraphEvent::Supplied(_)) => self.is_supplied = true,
            Event::Walks(job, walks) => {
                reply.command(Duration::ZERO, CLIENT, Command::Consumed(*job, walks.len()));
                for walk in walks {
                    let before = self.paths.insert(walk.walk, walk.path.clone());
                    assert!(before.is_none(), "walk {} is reported twice", walk.walk);
                }
            }
            Event::Ended(_, report, _) => self.report = Some(**report),
            other => panic!("{other:?}"),
        }
    }
}

fn supply() -> Supply {
    let mut rng = Rng::new(5, 9);
    let edges = (0..VERTICES * 5).map(|edge| (edge / 5, rng.below(VERTICES)));
    let graph = Graph::from_edges(VERTICES, edges.collect::<Vec<_>>());
    let owners = (0..VERTICES).map(|vertex| (vertex % SERVERS) as u16).collect();
    let owners = Owners::new((0..SERVERS).map(NodeId::from).collect(), owners);
    Supply {
        id: PLAN,
        graph: Arc::new(graph.expect("edges lead to vertices")),
        weights: None,
        owners: Arc::new(owners.expect("each vertex has a server")),
        addresses: Vec::new(),
        replaces: false,
        pass: None,
    }
}

/// What a run came to.
struct Outcome {
    report: JobReport,
    paths: BTreeMap<u64, Vec<Vertex>>,
    /// Walkers that the stranger sent.
    sent: u64,
    counts: BTreeMap<&'static str, u64>,
    /// Walkers that servers hold at the end, of homes other than the client.
    foreign: usize,
    /// The most that they held during the job.
    foreign_most: usize,
}

impl Outcome {
    fn count(&self, counter: &str) -> u64 {
        self.counts.get(counter).copied().unwrap_or(0)
    }
}

/// Runs a job of `walks` walks of 100 steps from each vertex, which begins `after` the stranger.
fn run(act: Act, walks: u32, service: Duration, after: Duration) -> Outcome {
    let mut config = SimConfig::new(SERVERS as usize + 2, 1);
    config.network.link = LinkFaults { delay: Duration::from_micros(50), ..LinkFaults::default() };
    let mut sim = Sim::new(config, Arc::new(()), |node| {
        let config =
            Config { service, walk_time_max: Duration::from_secs(3_600), ..Config::default() };
        let server = match node {
            CLIENT => Server::client(config, node),
            STRANGER => return Node::Stranger(Stranger { act, sent: 0 }),
            _ => Server::awaiting(config, node),
        };
        Node::Honest(Box::new(server.expect("within the ranges")), Box::default())
    });
    let mut recorded = Recorder::default();
    sim.command_at(Instant::ZERO, CLIENT, Command::Graph(GraphCommand::Supply(Box::new(supply()))));
    while !recorded.is_supplied {
        assert!(sim.step(&mut recorded), "nothing is left to do");
    }
    let job = Job {
        id: JOB,
        seed: 7,
        kind: Kind::Uniform,
        length: Length::Steps(100),
        sources: Sources::Range(0..VERTICES),
        walks,
        trail: Trail::Vertices,
        first: 0,
        in_flight_max: usize::MAX,
    };
    // Any command lets the stranger begin.
    sim.command_at(sim.now(), STRANGER, Command::Cancel(JOB));
    sim.command_at(sim.now() + after, CLIENT, Command::Run(Box::new(job)));
    let until = sim.now() + after + Duration::from_secs(60);
    let (mut foreign_most, mut steps) = (0, 0u32);
    while recorded.report.is_none() && sim.now() < until {
        assert!(sim.step(&mut recorded), "all stands still after {} walks", recorded.paths.len());
        steps += 1;
        if steps.is_multiple_of(256) {
            foreign_most = foreign_most.max(foreign(&sim));
        }
    }
    let report =
        recorded.report.unwrap_or_else(|| panic!("{} walks are done", recorded.paths.len()));
    let Node::Stranger(stranger) = sim.node(STRANGER) else { panic!("it is the stranger") };
    let counters =
        ["walker_of_stranger", "walker_beyond_credit", "walker_forgotten", "walker_of_silent_home"];
    let counts = counters.map(|name| (name, sim.counters().count(name)));
    let foreign = foreign(&sim);
    Outcome {
        report,
        paths: recorded.paths,
        sent: stranger.sent,
        counts: counts.into_iter().collect(),
        foreign,
        foreign_most,
    }
}

/// Walkers of other homes than the client's that wait at servers.
fn foreign(sim: &Sim<'_, Node>) -> usize {
    let held = |node: u32| match sim.node(NodeId::from(node)) {
        Node::Honest(server, _) => server.queued().filter(|(head, _)| head.home != CLIENT).count(),
        Node::Stranger(_) => 0,
    };
    (0..SERVERS).map(held).sum()
}

const SERVICE: Duration = Duration::from_micros(4);

fn alone() -> Outcome {
    let alone = run(Act::Nothing, 10, SERVICE, Duration::ZERO);
    assert_eq!((alone.report.finished, alone.report.failed), (3_000, 0));
    alone
}

#[test]
fn walkers_that_a_stranger_sends_in_the_name_of_others_cost_a_job_nothing() {
    let (alone, beside) = (alone(), run(Act::Forge, 10, SERVICE, Duration::ZERO));
    let share = beside.report.took.as_secs_f64() / alone.report.took.as_secs_f64();
    let refused = beside.count("walker_of_stranger");
    println!("{share:.3} times as long, {} walkers sent, {refused} refused", beside.sent);
    assert!(share < 1.1, "{share} times as long");
    assert_eq!(beside.paths, alone.paths);
    // Those of the last round may be under way.
    assert!(refused > 1_000 && beside.sent - refused <= CROWD * u64::from(SERVERS));
    assert_eq!(beside.foreign, 0);
}

#[test]
fn a_home_that_floods_servers_with_long_walks_takes_no_more_than_its_half() {
    let (alone, beside) = (alone(), run(Act::Flood, 10, SERVICE, Duration::ZERO));
    let share = beside.report.took.as_secs_f64() / alone.report.took.as_secs_f64();
    println!("{share:.3} times as long, {} walkers sent: {:?}", beside.sent, beside.counts);
    assert!(share < 2.2, "{share} times as long");
    assert_eq!(beside.paths, alone.paths);
    assert!(beside.foreign_most > 0 && beside.count("walker_beyond_credit") > 1_000);
    // What has credit at each server, and one that it serves.
    let most = Config::default().home_steps_max / u64::from(Length::STEPS_MAX) + 2;
    assert!(beside.foreign_most as u64 <= u64::from(SERVERS) * most);
}

#[test]
fn a_home_that_is_gone_is_forgotten_by_all_servers_after_ten_seconds() {
    let slow = Duration::from_micros(100);
    let later = Duration::from_secs(14);
    let alone = run(Act::Nothing, 1, slow, later);
    let beside = run(Act::Vanish, 1, slow, later);
    let share = beside.report.took.as_secs_f64() / alone.report.took.as_secs_f64();
    println!("{share:.3} times as long, {} walkers sent: {:?}", beside.sent, beside.counts);
    assert!(share < 1.05, "{share} times as long");
    assert_eq!((&beside.paths, beside.foreign), (&alone.paths, 0));
    // A walker is dropped where it waits, or by a server that another one passes it on to.
    let dropped = beside.count("walker_forgotten") + beside.count("walker_of_silent_home");
    assert_eq!((dropped, beside.sent), (beside.sent, CROWD * u64::from(SERVERS)));
}
