//! Walkers of several homes at one server: admission, and the order of service.

use std::time::Duration;

use super::super::message::MESSAGE_BYTES_MAX;
use super::bench::{Bench, job};
use super::changes::{chunk, held, plan};
use super::*;
use crate::core::{Instant, NodeId, Wire, decode_exact, encode_to_bytes};
use crate::graphshare::{Holding, OpenRequest};

/// Of a bench, server 0 to 7 are servers of the graph.
const CLIENT: NodeId = NodeId(20);
const OTHER: NodeId = NodeId(21);

fn ring() -> Graph {
    Graph::from_edges(4, (0..4).flat_map(|v| [(v, (v + 1) % 4), ((v + 1) % 4, v)])).unwrap()
}

/// `count` walkers of a home's job, of `steps` steps each.
fn walkers(home: NodeId, job: u64, count: u64, steps: u32) -> Message {
    let (kind, trail) = (Kind::Uniform, Trail::None);
    let head = Arc::new(Head { home, job, plan: 0, kind, trail });
    let walker = |walk| Traveller {
        token: walk,
        walker: Walker::new(1, walk, 0, Length::Steps(steps)),
        ..Traveller::NONE
    };
    Message::Walkers { head, walkers: (0..count).map(walker).collect() }
}

/// A walker leaves at once.
fn at_once() -> Config {
    let bundle = BundleConfig { walkers_max: 1, ..BundleConfig::default() };
    Config { bundle, ..Config::default() }
}

/// Walks that went home to this node since it was asked last, and whether they are marked.
fn returned(bench: &mut Bench, home: NodeId) -> Vec<bool> {
    let ended = bench.sent().into_iter().filter_map(|(to, message)| match message {
        Message::Ended { walks, .. } if to == home => Some(walks),
        _ => None,
    });
    ended.flatten().map(|walk| walk.is_marked).collect()
}

#[test]
fn walkers_come_from_their_home_or_from_a_server_of_the_graph() {
    let mut bench = Bench::new(Config::default(), &ring(), &[0; 4]);
    let mut refused = 0;
    // A stranger names another client, a server, or a node that does not exist.
    for home in [CLIENT, NodeId(0), NodeId(3), NodeId(77)] {
        bench.receive_from(OTHER, walkers(home, 1, 38, Length::STEPS_MAX));
        refused += 38;
        assert_eq!(bench.count("walker_of_stranger"), refused, "of {home}");
        assert_eq!((bench.server.held(), bench.server.census().refused), (0, refused));
    }
    bench.receive_from(CLIENT, walkers(CLIENT, 1, 2, 5));
    bench.receive_from(NodeId(3), walkers(CLIENT, 1, 2, 5));
    bench.receive_from(NodeId(3), walkers(NodeId(4), 1, 2, 5));
    assert_eq!((bench.server.held(), bench.server.census().refused), (6, refused));
    assert_eq!(bench.server.queues().map(|(length, _)| length).collect::<Vec<_>>(), [2, 4]);
}

/// A home may use a number again before it is forgotten, for walkers that carry something else.
#[test]
fn walkers_of_one_number_that_carry_different_trails_leave_in_messages_of_their_own() {
    let mut bench = Bench::new(Config::default(), &ring(), &[0, 1, 1, 1]);
    let mut sent = Vec::new();
    for trail in [Trail::Vertices, Trail::None, Trail::Versions, Trail::Vertices] {
        for steps in [2, 0] {
            let Message::Walkers { head, walkers } = walkers(CLIENT, 1, 3, steps) else { return };
            let head = Arc::new(Head { trail, ..Head::clone(&head) });
            bench.receive_from(CLIENT, Message::Walkers { head, walkers });
            let until = bench.now.since(Instant::ZERO) + Duration::from_millis(10);
            bench.until(until);
            sent.extend(bench.sent().into_iter().map(|(to, message)| (to, trail, message)));
        }
    }
    let mut ways = [0, 0];
    for (to, of, message) in sent {
        let bytes = encode_to_bytes(&message);
        assert_eq!(bytes.len(), message.wire_len(), "{message:?}");
        let (trail, walkers) = match decode_exact(bytes).expect("a server sends what decodes") {
            Message::Walkers { head, walkers } => (head.trail, walkers.len()),
            Message::Ended { trail, walks, .. } => (trail, walks.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!(trail, of);
        ways[usize::from(to == CLIENT)] += walkers;
    }
    assert_eq!(ways, [12, 12], "on to another server, and home");
}

#[test]
fn a_few_short_walks_do_not_wait_for_many_long_ones_of_another_home() {
    let mut bench = Bench::new(at_once(), &ring(), &[0; 4]);
    for job in 0..6 {
        bench.receive_from(OTHER, walkers(OTHER, job, 38, Length::STEPS_MAX));
    }
    bench.receive_from(CLIENT, walkers(CLIENT, 1, 10, 100));
    let (mut turns, mut home) = (0, 0);
    while home < 10 && turns < 1_000 {
        bench.turn();
        turns += 1;
        home += returned(&mut bench, CLIENT).len();
    }
    // 1,010 hops in turns of 256, half of which are the other's.
    assert!((4..=9).contains(&turns), "{turns} turns");
}

#[test]
fn a_turn_with_many_rejected_candidates_is_charged_for_them() {
    // 1 leads to 2 and back, 2 to many others, each of which is accepted once in a hundred times.
    let edges = (3..200).flat_map(|vertex| [(2, vertex), (vertex, 1)]);
    let graph = Graph::from_edges(200, edges.chain([(1, 2), (0, 0)])).unwrap();
    let kind = Kind::Node2Vec(Node2Vec::new(1.0, 100.0).unwrap());
    let mut bench = Bench::new(Config::default(), &graph, &[0; 200]);
    let head = Head { home: OTHER, job: 1, plan: 0, kind, trail: Trail::None };
    let going = |walk| Traveller {
        token: walk,
        walker: Walker::new(1, walk, 1, Length::Steps(30_000)),
        ..Traveller::NONE
    };
    let walkers_of_other = (0..64).map(going).collect();
    bench.receive_from(OTHER, Message::Walkers { head: Arc::new(head), walkers: walkers_of_other });
    bench.receive_from(CLIENT, walkers(CLIENT, 1, 38, 100_000));
    (0..200).for_each(|_| bench.turn());
    let steps = |home: NodeId| -> u64 {
        let of = bench.server.queued().filter(|(head, _)| head.home == home);
        of.map(|(_, traveller)| u64::from(traveller.walker.steps)).sum()
    };
    let (cheap, dear) = (steps(CLIENT), steps(OTHER));
    assert!(dear > 100 && cheap > 20 * dear, "{cheap} steps beside {dear}");
}

#[test]
fn walkers_beyond_their_homes_credit_are_refused_and_others_are_not() {
    let mut bench = Bench::new(Config::default(), &ring(), &[0; 4]);
    for job in 0..10 {
        bench.receive_from(OTHER, walkers(OTHER, job, 38, Length::STEPS_MAX));
        bench.receive_from(NodeId(3), walkers(OTHER, job, 38, Length::STEPS_MAX));
    }
    // Each needs a step more, for the turn in which it ends.
    let most = Config::default().home_steps_max / (u64::from(Length::STEPS_MAX) + 1);
    assert_eq!(bench.server.queue_len() as u64, most);
    assert_eq!(bench.count("walker_beyond_credit"), 760 - most);
    assert_eq!(bench.server.census().refused, 760 - most);
    bench.receive_from(CLIENT, walkers(CLIENT, 1, 38, 80));
    bench.receive_from(NodeId(3), walkers(NodeId(3), 1, 38, Length::STEPS_MAX));
    assert_eq!(bench.server.queue_len() as u64, most + 76);
    let less = Config { home_steps_max: 1 << 21, ..Config::default() };
    let mut bench = Bench::new(less, &ring(), &[0; 4]);
    bench.receive_from(OTHER, walkers(OTHER, 1, 38, Length::STEPS_MAX));
    assert_eq!((bench.server.queue_len(), bench.count("walker_beyond_credit")), (1, 37));
    assert!(Config { home_steps_max: (1 << 21) - 1, ..Config::default() }.check().is_err());
    assert!(Config { home_steps_max: (1 << 48) + 1, ..Config::default() }.check().is_err());
}

#[test]
fn a_home_begins_no_more_walks_than_half_its_credit_is_for() {
    let mut bench = Bench::new(Config::default(), &ring(), &[1; 4]);
    let long = |id| Job { trail: Trail::None, ..job(id, 2, 500, Length::STEPS_MAX) };
    bench.run(&long(1));
    bench.until(Duration::from_millis(100));
    // The last one of them begins while there is a step left.
    let half = Config::default().home_steps_max / 2;
    let half = half.div_ceil(u64::from(Length::STEPS_MAX) + 1) as usize;
    assert_eq!((bench.sent_walkers().len(), bench.server.in_flight()), (half, half));
    // Another job waits for its share; one with short walks would not fill it.
    bench.run(&long(2));
    bench.until(Duration::from_millis(200));
    assert_eq!(bench.server.in_flight(), half + 1, "each job may always have one");
    let mut bench = Bench::new(Config::default(), &ring(), &[1; 4]);
    bench.run(&Job { trail: Trail::None, ..job(1, 2, 5_000, 80) });
    bench.until(Duration::from_millis(100));
    let in_flight = bench.server.in_flight();
    assert!(in_flight > half, "{in_flight}, as the window allows it");
}

#[test]
fn a_crowd_of_one_home_marks_and_drops_its_own_walkers_only() {
    let queue = QueueConfig { min_th: 5, max_th: 50, limit: 200, ..QueueConfig::default() };
    let mut bench = Bench::new(Config { queue, ..at_once() }, &ring(), &[0; 4]);
    for job in 0..10 {
        bench.receive_from(OTHER, walkers(OTHER, job, 38, 1_000));
    }
    let full = bench.server.census();
    assert_eq!((bench.server.queue_len(), full.dropped_full), (200, 180));
    assert!(full.marked >= 150);
    // The others find room: the last ones of the longest queue make it.
    bench.receive_from(CLIENT, walkers(CLIENT, 1, 4, 10));
    let census = bench.server.census();
    assert_eq!((bench.server.queue_len(), census.dropped_full), (200, 184));
    let dropped: Vec<_> = bench.server.dropped().collect();
    assert_eq!(dropped, [(OTHER, 184)]);
    assert_eq!(census.marked, full.marked);
    (0..2).for_each(|_| bench.turn());
    assert_eq!(returned(&mut bench, CLIENT), [false; 4]);
}

#[test]
fn a_path_that_would_fit_no_message_at_its_end_is_refused_at_its_beginning() {
    let mut bench = Bench::new(Config::default(), &ring(), &[0; 4]);
    let mut send = |trail: Trail, steps: usize| {
        let head = Head { home: CLIENT, job: 1, plan: 0, kind: Kind::Uniform, trail };
        let walker = Walker::new(1, 1, 0, Length::Steps(steps as u32));
        let walkers = [Traveller { token: 1, walker, ..Traveller::NONE }].into_iter().collect();
        let before = bench.count("walker_refused");
        bench.receive_from(CLIENT, Message::Walkers { head: Arc::new(head), walkers });
        bench.until(Duration::from_secs(1));
        bench.count("walker_refused") == before
    };
    assert!(send(Trail::Vertices, MESSAGE_BYTES_MAX / 4 - 100));
    assert!(!send(Trail::Vertices, MESSAGE_BYTES_MAX / 4 + 1));
    assert!(!send(Trail::Versions, MESSAGE_BYTES_MAX / 8 + 1));
    assert!(send(Trail::None, Length::STEPS_MAX as usize / 8));
}

#[test]
fn one_home_does_not_take_the_places_of_all_jobs() {
    let mut bench = Bench::new(Config::default(), &ring(), &[0; 4]);
    for job in 0..5_000 {
        bench.receive_from(OTHER, walkers(OTHER, job, 1, 1_000));
    }
    assert_eq!((bench.server.queue_len(), bench.count("walk_job_refused")), (1_024, 3_976));
    bench.receive_from(CLIENT, walkers(CLIENT, 1, 1, 1_000));
    assert_eq!(bench.server.queue_len(), 1_025);
    // Once walks of its jobs are over, it may have others.
    bench.until(Duration::from_secs(1));
    bench.receive_from(OTHER, walkers(OTHER, 9_999, 1, 1_000));
    assert_eq!(bench.server.queue_len(), 1);
}

#[test]
fn walkers_of_a_client_that_is_silent_for_ten_seconds_are_dropped() {
    let mut bench = Bench::awaiting(Config::default());
    held(&mut bench, 5, GraphMessage::Open(OpenRequest { plan: plan(5), replaces: false }));
    assert_eq!(held(&mut bench, 5, GraphMessage::Chunk(chunk())), Holding::Whole);
    let of_plan = |home, steps| {
        let Message::Walkers { head, walkers } = walkers(home, 1, 38, steps) else {
            unreachable!("it is made of walkers")
        };
        Message::Walkers { head: Arc::new(Head { plan: 5, ..(*head).clone() }), walkers }
    };
    // Vertex 0 has edges to a vertex of the other server: walkers leave, and are brought again.
    let mut forgotten = 0;
    for tenth in 0..120u64 {
        bench.now = Instant::ZERO + Duration::from_millis(100 * tenth);
        if tenth == 0 {
            bench.receive_from(OTHER, of_plan(OTHER, 1_000));
        }
        let ask = Message::Graph(5, Box::new(GraphMessage::Ask));
        bench.receive_from(CLIENT, ask);
        // More than leave in the turn.
        for home in [OTHER, CLIENT, OTHER, CLIENT, OTHER, CLIENT] {
            bench.receive_from(NodeId(1), of_plan(home, 1_000));
        }
        bench.turn();
        bench.sent();
        forgotten = bench.count("walk_home_forgotten");
        assert!(forgotten == 0 || tenth > 100, "at {tenth} tenths of a second");
    }
    assert_eq!(forgotten, 1);
    assert!(bench.count("walker_forgotten") > 0);
    assert_eq!(bench.count("walker_of_silent_home") % 38, 0);
    assert!(bench.count("walker_of_silent_home") > 0);
    let homes: Vec<NodeId> = bench.server.queued().map(|(head, _)| head.home).collect();
    assert!(homes.contains(&CLIENT) && !homes.contains(&OTHER));
    // It is heard again.
    bench.receive_from(OTHER, of_plan(OTHER, 1_000));
    assert!(bench.server.queued().any(|(head, _)| head.home == OTHER));
}
