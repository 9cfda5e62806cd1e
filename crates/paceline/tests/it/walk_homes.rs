//! A job on a server that a hostile node sends walkers to, over loopback sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline::net::record::ServiceNumber;
use paceline::net::{Bound, Events, Node, NodeConfig, Roster};
use paceline::proto::core::{Context, Lane, Protocol, Rng};
use paceline::proto::graphshare::GraphMessage;
use paceline::proto::walk::{
    Graph, Head, Job, JobId, JobReport, Kind, Length, Message, Sources, Step, Trail, Traveller,
    Walk, Walker,
};
use paceline::walks::{SharedGraph, Walked};
use paceline::{Host, NodeId, WalkServer, Walks};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(120);
const SERVER: NodeId = NodeId(1);
const CLIENT: NodeId = NodeId(2);
const ROGUE: NodeId = NodeId(3);
const VERTICES: u32 = 1000;
/// Walkers that fit a datagram.
const CROWD: u64 = 38;

async fn server() -> WalkServer {
    let host = Host::builder("test").id(SERVER).start().await.unwrap();
    host.walks("walks").serve().await.unwrap()
}

async fn client(server: &WalkServer) -> Walks {
    let host = Host::builder("test").id(CLIENT).start().await.unwrap();
    let walks = host.walks("walks").within(SOON);
    walks.peers([server.local_addr().to_string()]).connect().await.unwrap()
}

fn graph() -> SharedGraph {
    let mut rng = Rng::new(5, 1);
    let edges = (0..VERTICES * 4).map(|edge| (edge / 4, rng.below(VERTICES)));
    let graph = Graph::from_edges(VERTICES, edges.collect::<Vec<_>>()).unwrap();
    SharedGraph { graph: Arc::new(graph), weights: None, owners: vec![0; VERTICES as usize] }
}

/// Walks of 2,000 steps, so that the server has work all the while and the client little.
fn job(walks: u32) -> Job {
    Job {
        id: JobId(0),
        seed: 3,
        kind: Kind::Uniform,
        length: Length::Steps(2_000),
        sources: Sources::Range(0..VERTICES),
        walks,
        trail: Trail::None,
        first: 0,
        in_flight_max: usize::MAX,
    }
}

fn end_in_memory(graph: &Graph, job: &Job, walk: &Walk) -> u32 {
    let mut walker = Walker::new(job.seed, walk.walk, walk.source, job.length);
    while let Step::To(_) = job.kind.step(&mut walker, graph) {}
    walker.at
}

/// Does the job, and checks where each tenth walk ends. `meanwhile` is called again and again.
async fn run(walks: &Walks, job: Job, mut meanwhile: impl FnMut()) -> JobReport {
    let graph = graph().graph;
    let mut walking = walks.run(job.clone()).unwrap();
    let mut tick = tokio::time::interval(Duration::from_millis(2));
    loop {
        let next = tokio::select! {
            _ = tick.tick() => {
                meanwhile();
                continue;
            }
            next = tokio::time::timeout(SOON, walking.next()) => next.unwrap().unwrap(),
        };
        match next {
            Some(Walked::Done(walk)) if walk.walk % 10 == 0 => {
                assert_eq!(walk.end, end_in_memory(&graph, &job, &walk), "walk {}", walk.walk);
            }
            Some(Walked::Done(_)) => {}
            Some(other) => panic!("{other:?}"),
            None => break,
        }
    }
    let (report, _) = walking.report().expect("it has ended");
    assert_eq!((report.finished, report.failed), (report.walks, 0));
    *report
}

/// A node that speaks the protocol: it sends the messages of its commands, and delivers those that
/// it receives.
struct Rogue;

impl Protocol for Rogue {
    type Message = Message;
    type Timer = ();
    type Command = Message;
    type Event = Message;
    type Shared = ();

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, message: Message) {
        cx.send(SERVER, Lane::Datagram, message);
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: Message) {
        cx.deliver(message);
    }
}

struct Hostile {
    node: Node<Rogue>,
    events: Events<Rogue>,
    plan: u64,
    sent: u64,
}

impl Hostile {
    /// A node that no one has named to the server, and that asks it which graph it has.
    async fn start(server: &WalkServer) -> Hostile {
        let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let config = NodeConfig::new("test", ROGUE).with_open_membership();
        let service = ServiceNumber::of("walks", "walks");
        let bound = Bound::bind(anywhere, config).unwrap().for_service(service);
        let members = [(SERVER, server.local_addr()), (ROGUE, bound.local_addr())];
        let roster = Roster::new(members).unwrap();
        let (node, mut events) = bound.start(roster, Rogue, Arc::new(())).unwrap();
        loop {
            node.command(Message::Graph(0, Box::new(GraphMessage::Who))).unwrap();
            let told = tokio::time::timeout(Duration::from_millis(100), events.recv()).await;
            if let Ok(Some(Message::Graph(plan, _))) = told {
                return Hostile { node, events, plan, sent: 0 };
            }
        }
    }

    /// Sends walkers of this home, with `steps` steps each.
    fn send(&mut self, home: NodeId, steps: u32) {
        let (plan, kind, trail) = (self.plan, Kind::Uniform, Trail::None);
        let job = self.sent / CROWD % 8;
        let head = Arc::new(Head { home, job, plan, kind, trail });
        let walker = |walk| Traveller {
            token: walk,
            walker: Walker::new(1, walk, walk as u32 % VERTICES, Length::Steps(steps)),
            path: Vec::new(),
            drawn: 0,
            is_marked: false,
            detours: 0,
        };
        let walkers = (self.sent..self.sent + CROWD).map(walker).collect();
        self.node.command(Message::Walkers { head, walkers }).unwrap();
        self.sent += CROWD;
    }

    /// Its own walks that have returned since the last call.
    fn returned(&mut self) -> u64 {
        let events = std::iter::from_fn(|| self.events.try_recv());
        events.map(|message| message.walkers() as u64).sum()
    }
}

/// A server, its client, and a hostile node.
async fn all_three() -> (WalkServer, Walks, Hostile) {
    let server = server().await;
    let client = client(&server).await;
    client.supply(&graph(), SOON).await.unwrap();
    let hostile = Hostile::start(&server).await;
    (server, client, hostile)
}

fn count(server: &WalkServer, counter: &'static str) -> u64 {
    server.stats().counters.count(counter)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_walker_that_a_node_sends_in_the_name_of_another_is_served() {
    let (server, client, mut hostile) = all_three().await;
    let mut names = [CLIENT, SERVER, NodeId(99)].into_iter().cycle();
    let forge = || hostile.send(names.next().unwrap(), Length::STEPS_MAX);
    let report = run(&client, job(10), forge).await;
    let sent = hostile.sent;
    let refused = count(&server, "walker_of_stranger");
    // Datagrams may get lost, or be under way.
    assert!(refused > 10 * CROWD && refused <= sent, "{refused} of {sent}");
    assert_eq!(hostile.returned(), 0);
    assert_eq!(report.steps, u64::from(VERTICES) * 10 * 2_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_home_with_many_walkers_takes_no_more_steps_than_an_honest_job() {
    let (server, client, mut hostile) = all_three().await;
    // Two thousand walkers are under way throughout; the job begins with 256.
    let (steps, most, mut home) = (2_000, 2_000, 0);
    let report = run(&client, job(10), || {
        home += hostile.returned();
        while hostile.sent - home < most {
            hostile.send(ROGUE, steps);
        }
    });
    let report = report.await;
    let taken = home * u64::from(steps);
    println!("{taken} steps beside {}, {:?}", report.steps, report.took);
    assert!(taken <= report.steps * 12 / 10, "{taken} steps beside {}", report.steps);
    assert!(taken >= report.steps / 10, "it did nothing: {taken} steps beside {}", report.steps);
    assert_eq!(count(&server, "walker_of_stranger"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time on a machine without other load, 2 to 3 minutes: run it in release"]
async fn a_datagram_of_long_walkers_delays_a_job_of_twenty_seconds_by_a_tenth_at_most() {
    let (server, client, mut hostile) = all_three().await;
    let short = run(&client, job(10), || ()).await;
    // Aims at 24 s, because the machine may do the next job faster.
    let walks = (10.0 * 24.0 / short.took.as_secs_f64()).ceil() as u32;
    let timed = async |hostile: Option<&mut Hostile>| {
        if let Some(hostile) = hostile {
            hostile.send(ROGUE, Length::STEPS_MAX);
        }
        let began = Instant::now();
        run(&client, job(walks), || ()).await;
        began.elapsed().as_secs_f64()
    };
    // By turns, so that a machine that gets slower or faster does so for both.
    let (mut alone, mut beside) = (vec![timed(None).await], Vec::new());
    for _ in 0..2 {
        beside.push(timed(Some(&mut hostile)).await);
        alone.push(timed(None).await);
    }
    let mean = |seconds: &[f64]| seconds.iter().sum::<f64>() / seconds.len() as f64;
    let usual = mean(&alone);
    let share = mean(&beside) / usual;
    let rate = short.steps as f64 * f64::from(walks) / 10.0 / usual / 1e6;
    println!("{alone:.1?} s alone, {rate:.1} million steps/s; {beside:.1?} s beside: {share:.3}");
    let is_long = alone.iter().all(|&seconds| seconds >= 20.0);
    assert!(is_long && share <= 1.1, "{share:.3} times {alone:.1?} s");
    let (returned, refused) = (hostile.returned(), count(&server, "walker_beyond_credit"));
    println!("{returned} hostile walks are over, {refused} were beyond the credit");
    assert!(returned >= 2 && refused < 2 * CROWD, "what it sent did nothing");
    assert_eq!(returned + refused, 2 * CROWD);
}
