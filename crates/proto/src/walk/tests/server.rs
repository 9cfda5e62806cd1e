//! A server by hand: the rules of queues, bundles, homes and their losses.

use std::time::Duration;

use smallvec::smallvec;

use super::super::message::DETOURS_MAX;
use super::bench::{Bench, job};
use super::*;
use crate::core::NodeId;

const MILLI: Duration = Duration::from_millis(1);

/// A ring of four vertices.
fn ring() -> Graph {
    Graph::from_edges(4, (0..4).flat_map(|v| [(v, (v + 1) % 4), ((v + 1) % 4, v)])).unwrap()
}

fn head(kind: Kind) -> Arc<Head> {
    Arc::new(Head { home: NodeId(1), job: 17, plan: 0, kind, trail: Trail::None })
}

fn traveller(walker: Walker) -> Traveller {
    Traveller { token: 5, walker, path: Vec::new(), drawn: 0, is_marked: false, detours: 0 }
}

#[test]
fn a_walker_that_owners_send_round_in_a_circle_is_dropped_in_the_end() {
    // This server believes that server 1 has vertex 2, and server 1 sends it here.
    let mut bench = Bench::new(Config::default(), &ring(), &[0, 0, 1, 1]);
    let mut going = traveller(Walker::new(1, 1, 2, Length::Steps(5)));
    for turn in 0..u32::from(DETOURS_MAX) {
        let walkers = smallvec![going.clone()];
        bench.receive(Message::Walkers { head: head(Kind::Uniform), walkers });
        let sent = bench.sent_walkers();
        assert_eq!(sent.len(), 1, "at turn {turn}");
        going = sent[0].clone();
    }
    bench.receive(Message::Walkers { head: head(Kind::Uniform), walkers: smallvec![going] });
    assert!(bench.sent().is_empty());
    assert_eq!(bench.count("walker_lost"), 1);
    assert_eq!(bench.server.census().lost, 1);
}

/// Candidates of node2vec are judged where the vertex before is, and may be rejected many times.
#[test]
fn a_walk_that_rejects_many_candidates_is_not_taken_for_one_that_goes_round_in_a_circle() {
    // 1 leads to 2 and back, 2 to many others to which 1 does not lead: each of these is accepted
    // once in a hundred times.
    let others = 3..200;
    let edges = [(1, 2), (0, 1)].into_iter().chain(others.map(|vertex| (2, vertex)));
    let graph = Graph::from_edges(200, edges).unwrap();
    let kind = Kind::Node2Vec(Node2Vec::new(1.0, 100.0).unwrap());
    let mut owners = vec![0; 200];
    owners[1] = 1;
    let mut turns_most = 0;
    for walk in 0..50 {
        let mut servers =
            [0, 1].map(|node| Bench::at(NodeId(node), Config::default(), &graph, &owners));
        let going = traveller(Walker::new(1, walk, 1, Length::Steps(2)));
        let head = Head { home: NodeId(2), ..(*head(kind.clone())).clone() };
        let mut message = Message::Walkers { head: Arc::new(head), walkers: smallvec![going] };
        let (mut to, mut turns) = (NodeId(1), 0);
        while to != NodeId(2) {
            let server = &mut servers[to.index()];
            server.receive(message);
            server.until(Duration::ZERO);
            (to, message) = server.sent().pop().expect("neither lost nor kept");
            turns += 1;
        }
        assert!(matches!(message, Message::Ended { .. }));
        turns_most = turns_most.max(turns);
    }
    assert!(turns_most > 2 * u32::from(DETOURS_MAX), "{turns_most} turns are too few to show it");
}

#[test]
fn a_walk_is_given_up_after_the_longest_time_that_it_may_take_whatever_its_attempts_would_take() {
    let config = Config { walk_time_max: 1500 * MILLI, ..Config::default() };
    let mut bench = Bench::new(config, &ring(), &[1; 4]);
    bench.run(&job(1, 2, 1, 5));
    bench.until(999 * MILLI);
    assert_eq!(bench.sent_walkers().len(), 1);
    bench.until(1024 * MILLI);
    assert_eq!(bench.sent_walkers().len(), 1, "and once more when it is looked at after a second");
    bench.until(1499 * MILLI);
    assert!(bench.told().is_empty());
    bench.until(1501 * MILLI);
    assert_eq!(bench.told(), ["walk 0 of 1 failed after 2", "job 1 ended: 0 + 1 of 1"]);
}

#[test]
fn lost_walks_that_others_replace_are_forgotten_in_the_end_and_do_not_fill_their_home_for_ever() {
    let config = Config { results_max: 3, walk_time_max: 100 * MILLI, ..Config::paper() };
    let mut bench = Bench::new(config, &ring(), &[1; 4]);
    bench.run(&job(1, 2, 5, 5));
    bench.until(99 * MILLI);
    assert_eq!(bench.sent_walkers().len(), 3, "no more than three are under way");
    bench.until(105 * MILLI);
    assert_eq!(bench.sent_walkers().len(), 3, "and others when these are too old");
}

#[test]
fn a_job_ends_at_once_with_a_last_walk_that_its_own_server_drops() {
    let queue = QueueConfig { limit: 1, discipline: Discipline::TailDrop, ..QueueConfig::paper() };
    let config = Config { queue, attempts_max: 1, ..Config::exact() };
    let mut bench = Bench::new(config, &ring(), &[0; 4]);
    let foreign = || {
        let walkers = smallvec![traveller(Walker::new(1, 1, 2, Length::Steps(9)))];
        Message::Walkers { head: head(Kind::Uniform), walkers }
    };
    let micros = Duration::from_micros;
    // One is served while the job's own waits; it then finds no room, and nor does the job's own
    // when another has come.
    bench.receive(foreign());
    bench.run(&job(1, 2, 1, 9));
    bench.until(micros(4));
    bench.receive(foreign());
    assert!(bench.told().is_empty());
    bench.until(micros(8));
    assert_eq!(bench.told(), ["walk 0 of 1 failed after 1", "job 1 ended: 0 + 1 of 1"]);
}

#[test]
fn a_walk_that_finds_its_own_queue_full_waits_before_it_is_begun_anew() {
    let queue = QueueConfig { limit: 2, discipline: Discipline::TailDrop, ..QueueConfig::paper() };
    let config = Config { queue, service: Duration::from_micros(4), ..Config::default() };
    let mut bench = Bench::new(config, &ring(), &[0; 4]);
    bench.run(&job(1, 2, 20, 5));
    assert!(bench.told().is_empty(), "none has used up its attempts");
    bench.until(30_000 * MILLI);
    assert_eq!(bench.told().pop().unwrap(), "job 1 ended: 20 + 0 of 20");
    assert!(bench.count("walker_dropped_full") > 10);
}

/// Walks that are three vertices away at server 1, and so much company that a walker has at most.
fn bundling(walkers_max: usize, deadline: Duration) -> Config {
    Config { bundle: BundleConfig { walkers_max, deadline }, ..Config::default() }
}

#[test]
fn walkers_leave_together_when_their_message_is_full_and_the_others_when_nothing_else_is_to_do() {
    let mut bench = Bench::new(bundling(4, MILLI), &ring(), &[1; 4]);
    bench.run(&job(1, 2, 10, 5));
    let sizes: Vec<usize> = bench.sent().iter().map(|(_, message)| message.walkers()).collect();
    assert_eq!(sizes, [4, 4, 2]);
    // As many as fit in a datagram: 17 bytes of head and 29 of each.
    let mut bench = Bench::new(bundling(1024, MILLI), &ring(), &[1; 4]);
    bench.run(&job(1, 2, 50, 5));
    let sizes: Vec<usize> = bench.sent().iter().map(|(_, message)| message.walkers()).collect();
    assert_eq!(sizes, [40, 10]);
}

#[test]
fn walkers_of_a_busy_server_wait_for_company_until_their_deadline() {
    let micros = Duration::from_micros;
    let config = Config { service: micros(4), ..bundling(64, micros(10)) };
    let mut bench = Bench::new(config, &ring(), &[0, 0, 1, 1]);
    // It has a walk of its own to do, to and fro between 0 and 1 most of the time.
    let walkers = (0..20).map(|walk| Traveller {
        token: walk,
        ..traveller(Walker::new(1, walk, 0, Length::Steps(50)))
    });
    bench.receive(Message::Walkers { head: head(Kind::Uniform), walkers: walkers.collect() });
    assert_eq!(bench.server.queue_len(), 19);
    bench.run(&Job { in_flight_max: 1, ..job(1, 2, 5, 5) });
    assert_eq!(bench.server.leaving().count(), 1);
    bench.until(micros(8));
    assert!(bench.sent().is_empty());
    bench.until(micros(12));
    assert!(!bench.sent().is_empty(), "the tenth microsecond is over");
    assert!(bench.server.queue_len() > 10, "and there is still much to do");
}

#[test]
fn a_walker_does_not_wait_longer_for_company_than_it_may_because_a_hop_takes_long() {
    let micros = Duration::from_micros;
    let config = Config { service: MILLI, ..bundling(64, micros(10)) };
    let mut bench = Bench::new(config, &ring(), &[0, 0, 1, 1]);
    let walkers = smallvec![traveller(Walker::new(1, 1, 0, Length::Steps(50)))];
    bench.receive(Message::Walkers { head: head(Kind::Uniform), walkers });
    bench.run(&job(1, 2, 3, 5));
    bench.until(micros(9));
    assert!(bench.sent().is_empty());
    bench.until(micros(10));
    assert_eq!(bench.sent_walkers().len(), 3, "one hop is still being taken");
    let waits = bench.server.census().waits;
    assert_eq!(waits.counts().iter().sum::<u64>(), 3);
    assert_eq!(waits.quantile(0.01, micros(10)), Some(micros(10)));
    assert_eq!(waits.quantile(1.0, micros(10)), Some(micros(10)));
}

#[test]
fn a_walker_leaves_before_its_time_is_up_if_the_server_may_look_too_late() {
    let micros = Duration::from_micros;
    let config = Config { turn_hops: 1, ..bundling(64, micros(100)) };
    let mut bench = Bench::new(config, &ring(), &[0, 0, 1, 1]);
    // Its own walkers keep it busy, in turns of a hop.
    let walkers = (0..40).map(|walk| traveller(Walker::new(1, walk, 0, Length::Steps(500))));
    bench.receive(Message::Walkers { head: head(Kind::Uniform), walkers: walkers.collect() });
    bench.run(&Job { in_flight_max: 1, ..job(1, 2, 5, 5) });
    let turn = |bench: &mut Bench, at| {
        bench.now = crate::core::Instant::ZERO + micros(at);
        bench.turn();
        !bench.sent().is_empty()
    };
    assert!(!turn(&mut bench, 30));
    assert!(!turn(&mut bench, 60));
    assert!(turn(&mut bench, 90), "the next turn is due at 120");
    assert!(bench.server.queue_len() > 10);
}

#[test]
fn walkers_that_cannot_be_are_refused_and_counted() {
    let mut bench = Bench::new(Config::default(), &ring(), &[0; 4]);
    let good = Walker::new(1, 1, 2, Length::Steps(5));
    let mut refused = 0;
    let mut refuse = |kind: Kind, trail: Trail, change: &dyn Fn(&mut Traveller)| {
        let mut bad = traveller(good);
        change(&mut bad);
        let head = Arc::new(Head { trail, ..(*head(kind)).clone() });
        bench.receive(Message::Walkers { head, walkers: smallvec![bad] });
        refused += 1;
        assert_eq!(bench.count("walker_refused"), refused);
        assert_eq!((bench.server.census().refused, bench.server.held()), (refused, 0));
    };
    refuse(Kind::Uniform, Trail::None, &|bad| bad.walker.at = 4);
    refuse(Kind::Uniform, Trail::None, &|bad| bad.walker.previous = 4);
    refuse(Kind::Uniform, Trail::None, &|bad| bad.walker.candidate = 4);
    refuse(Kind::Uniform, Trail::None, &|bad| bad.walker.source = 4);
    refuse(Kind::Uniform, Trail::None, &|bad| bad.detours = DETOURS_MAX + 1);
    refuse(Kind::Uniform, Trail::Vertices, &|bad| bad.path = vec![1]);
    // The graph has no labels.
    refuse(Kind::Metapath(Arc::from([1])), Trail::None, &|_| {});
}

#[test]
fn a_walker_whose_job_is_said_to_be_two_things_is_refused() {
    let config = Config { service: MILLI, ..Config::default() };
    let mut bench = Bench::new(config, &ring(), &[0; 4]);
    for kind in [Kind::Uniform, Kind::Weighted] {
        let walkers = smallvec![traveller(Walker::new(1, 1, 2, Length::Steps(5)))];
        bench.receive(Message::Walkers { head: head(kind), walkers });
    }
    assert_eq!((bench.count("walk_job_refused"), bench.server.held()), (1, 1));
}

#[test]
fn a_job_that_cannot_be_done_is_refused_with_the_reason() {
    let config = Config { jobs_max: 2, ..Config::default() };
    let mut bench = Bench::new(config, &ring(), &[1; 4]);
    let good = job(1, 2, 1, 5);
    let mut refuse = |job: Job| {
        bench.run(&job);
        bench.told().pop().unwrap_or_default()
    };
    assert_eq!(
        refuse(Job { walks: 0, ..good.clone() }),
        "job 1 refused: no walks are asked for: sources and walks are at least 1 each"
    );
    assert!(refuse(Job { sources: Sources::Range(2..2), ..good.clone() }).contains("no walks"));
    assert_eq!(
        refuse(Job { sources: Sources::Range(3..5), ..good.clone() }),
        "job 1 refused: source 4 is not a vertex: there are 4"
    );
    assert_eq!(
        refuse(Job { kind: Kind::Metapath(Arc::from([1])), ..good.clone() }),
        "job 1 refused: the graph's edges have no labels, which a metapath goes by"
    );
    assert_eq!(
        refuse(Job { length: Length::Steps(Length::STEPS_MAX + 1), ..good.clone() }),
        "job 1 refused: walks of 1048577 steps: 1048576 are the most"
    );
    assert_eq!(refuse(good.clone()), "");
    assert_eq!(refuse(good.clone()), "job 1 refused: a job of this name is running");
    assert_eq!(refuse(Job { id: JobId(2), ..good.clone() }), "");
    assert_eq!(
        refuse(Job { id: JobId(3), ..good }),
        "job 3 refused: 2 jobs are running, which is the most"
    );
}

/// The answer to a message of walkers, each of which ends where it is.
fn complete(message: &Message) -> Message {
    let Message::Walkers { head, walkers } = message else { panic!("{message}") };
    let end = |going: &Traveller| Ended {
        token: going.token,
        at: going.walker.at,
        steps: 0,
        stop: Stop::DeadEnd,
        is_marked: false,
        path: vec![],
    };
    Message::Ended { job: head.job, trail: head.trail, walks: walkers.iter().map(end).collect() }
}

#[test]
fn walks_that_complete_twice_are_counted_as_late_and_reported_once() {
    let mut bench = Bench::new(bundling(1, MILLI), &ring(), &[1; 4]);
    bench.run(&job(1, 2, 2, 5));
    let sent = bench.sent();
    bench.receive(complete(&sent[0].1));
    bench.receive(complete(&sent[0].1));
    assert_eq!(bench.told(), ["walks [0] of 1"]);
    bench.until(1_500 * MILLI);
    let again = bench.sent();
    assert_eq!(again.len(), 1, "walk 1 is begun again");
    bench.receive(complete(&sent[1].1));
    assert_eq!(bench.outbox.events.len(), 2, "its first walker was not lost, and is as good");
    let ended = bench.outbox.events.iter().find_map(|event| match event {
        Event::Ended(_, report, _) => Some(**report),
        _ => None,
    });
    let JobReport { late, timeouts, generated, .. } = ended.expect("all is done");
    assert_eq!((late, timeouts, generated), (1, 1, 3));
    bench.receive(complete(&again[0].1));
    assert_eq!(bench.count("walk_of_no_job"), 1);
}

#[test]
fn a_walk_is_taken_for_lost_once_one_begun_after_it_is_home_or_it_is_very_late() {
    // Two under way at a time, each begun when the one before has come home.
    let window = WindowConfig { first: 2, most: 2, batch: 1, growth_per_ms: 0 };
    let config = Config { generation: Generation::Window(window), ..bundling(1, MILLI) };
    let mut bench = Bench::new(config, &ring(), &[1; 4]);
    bench.run(&job(1, 2, 8, 5));
    let mut sent: Vec<Message> = bench.sent().into_iter().map(|(_, message)| message).collect();
    for (turn, place) in (1..).zip([1, 1, 1, 0, 1]) {
        bench.until(MILLI * turn);
        let going = sent.remove(place);
        bench.receive(complete(&going));
        sent.extend(bench.sent().into_iter().map(|(_, message)| message));
        assert_eq!(sent.len(), 2);
    }
    // Walk 4 began at 3 ms and is overtaken by walk 5, which began at 4; walk 6 is the latest, and
    // walk 7 waits for room.
    let again = |bench: &mut Bench, walk: u64, until: u32| {
        bench.until(MILLI * until);
        let begun = Walker::new(1, walk, 2, Length::Steps(5));
        bench.sent_walkers().iter().filter(|going| going.walker == begun).count()
    };
    assert_eq!(again(&mut bench, 4, 202), 0);
    assert_eq!(again(&mut bench, 4, 208), 1, "it is looked at every eight milliseconds");
    assert_eq!(again(&mut bench, 6, 800), 0, "perhaps nothing comes home at present");
    assert_eq!(again(&mut bench, 6, 810), 1, "its time is over four times");
}

#[test]
fn nothing_is_begun_while_the_application_has_not_consumed_what_is_done() {
    let config = Config { results_max: 3, ..bundling(1, MILLI) };
    let mut bench = Bench::new(config, &ring(), &[1; 4]);
    bench.run(&job(1, 2, 10, 5));
    let sent = bench.sent();
    assert_eq!(sent.len(), 3);
    sent.iter().for_each(|(_, message)| bench.receive(complete(message)));
    assert!(bench.sent().is_empty());
    bench.command(Command::Consumed(JobId(1), 2));
    assert_eq!(bench.sent().len(), 2);
}

#[test]
fn a_job_that_is_cancelled_ends_at_once_and_another_may_have_its_name() {
    let mut bench = Bench::new(bundling(1, MILLI), &ring(), &[1; 4]);
    bench.run(&job(1, 2, 3, 5));
    let sent = bench.sent();
    bench.receive(complete(&sent[0].1));
    bench.command(Command::Cancel(JobId(1)));
    assert_eq!(bench.told(), ["walks [0] of 1", "job 1 ended: 1 + 0 of 3"]);
    bench.run(&job(1, 2, 1, 5));
    bench.receive(complete(&sent[1].1));
    assert!(bench.told().is_empty(), "walks of the first job are none of the second's");
    assert_eq!(bench.count("walk_of_no_job"), 1);
    bench.command(Command::Cancel(JobId(7)));
    assert!(bench.told().is_empty(), "there is none of that name");
}
