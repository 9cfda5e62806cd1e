//! The rules of the paper, each by one member.

mod codec;
mod hostile;

use std::time::Duration;

use paceline_proto::core::{Instant, NodeId, ViewId, Wire};
use paceline_proto::slingshot::{Command, Name, NamesBuilder, Supply};

use super::*;
use crate::bench::{self, G, ms, packet, roster};

type Bench = bench::Bench<Srm>;

/// Every distance.
const D: Duration = Duration::from_secs(1);

/// Session messages that come too seldom to be seen.
fn config(members: u32) -> Config {
    Config::published(roster(members))
        .with_distance(Distance::Fixed(D))
        .with_session_every(Duration::from_secs(1_000_000))
}

impl Bench {
    fn srm(config: Config) -> Bench {
        let config = config.build().expect("within the ranges");
        let node = Srm::new(&config);
        Bench::new(config, node)
    }

    fn data(&mut self, from: u32, seq: u64) {
        self.message(from, Message::Data(packet(G, from, seq)));
    }

    fn request(&mut self, from: u32, sender: u16, seq: u32) {
        self.message(from, request(sender, seq));
    }

    fn repair(&mut self, from: u32, sender: u32, seq: u64) {
        let supply = Supply { view: ViewId(0), rank: sender as u16, data: packet(G, sender, seq) };
        self.message(from, Message::Repair { distance_us: 1, supply });
    }

    /// Time until the last armed timer of this kind is due.
    fn due(&self, is_kind: impl Fn(&Timer) -> bool) -> f64 {
        let last = self.outbox.timers.iter().rev().find(|(_, timer)| is_kind(timer));
        last.expect("one is armed").0.since(self.now).as_secs_f64()
    }

    fn request_due(&self) -> f64 {
        self.due(|timer| matches!(timer, Timer::Request(..)))
    }

    fn answer_due(&self) -> f64 {
        self.due(|timer| matches!(timer, Timer::Answer(..)))
    }
}

fn request(sender: u16, seq: u32) -> Message {
    let mut names = NamesBuilder::default();
    names.push(Name { group: G, rank: sender, seq, checksum: 0 });
    Message::Request { view: ViewId(0), distance_us: 1, names: names.build() }
}

/// All of these are within the range and some are near its ends.
fn assert_spread(times: &[f64], least: f64, most: f64) {
    assert!(times.iter().all(|time| (least..=most).contains(time)), "{times:?}");
    let near = (most - least) / 20.0;
    assert!(times.iter().any(|&time| time < least + near), "{times:?}");
    assert!(times.iter().any(|&time| time > most - near), "{times:?}");
}

#[test]
fn a_gap_is_asked_for_after_two_to_four_distances() {
    let mut bench = Bench::srm(config(4));
    let times = (0..200).map(|turn| {
        bench.data(1, 2 * turn);
        bench.data(1, 2 * turn + 2);
        bench.request_due()
    });
    assert_spread(&times.collect::<Vec<f64>>(), 2.0, 4.0);
    assert_eq!(bench.node.packets_missing(), 200);
}

#[test]
fn a_request_goes_to_the_group_and_the_repair_ends_it() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.pass(ms(1_900));
    assert!(bench.sent().is_empty());
    bench.pass(ms(2_100));
    assert_eq!(bench.sent(), ["g0: request v0: g0/1.1"]);
    bench.repair(3, 1, 1);
    assert_eq!(bench.told(), ["n1.0 direct", "n1.2 direct", "n1.1 pulled after 4s"]);
    bench.pass(ms(100_000));
    assert!(bench.sent().is_empty());
    assert_eq!(bench.node.packets_missing(), 0);
}

#[test]
fn each_request_doubles_the_wait_up_to_a_limit_and_in_the_end_the_packet_is_lost() {
    let mut bench = Bench::srm(config(4).with_backoffs_max(2));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.told();
    let mut due = vec![bench.request_due()];
    for _ in 0..4 {
        bench.pass(Duration::from_secs_f64(bench.request_due()));
        due.push(bench.request_due());
    }
    let ranges = [2.0..4.0, 4.0..8.0, 8.0..16.0, 8.0..16.0, 8.0..16.0];
    for (due, range) in due.iter().zip(ranges) {
        assert!(range.contains(due), "{due:?}");
    }
    assert_eq!(bench.sent().len(), 4);
    bench.pass(ms(60_000));
    assert_eq!(bench.told(), ["n1.1..2 lost"]);
    bench.sent();
    bench.pass(ms(100_000));
    assert!(bench.sent().is_empty(), "no member requests the lost packet");
}

#[test]
fn a_heard_request_puts_off_the_own_one_once_a_round() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.request(2, 1, 1);
    let due = bench.request_due();
    assert!((4.0..8.0).contains(&due), "{due}");
    assert_eq!(bench.count("srm_backoffs"), 1);
    // Another one of the same round does nothing.
    bench.pass(ms(1_000));
    bench.request(3, 1, 1);
    assert_eq!(bench.count("srm_backoffs"), 1);
    assert_eq!(bench.count("srm_request_duplicate"), 1);
    bench.pass(Duration::from_secs_f64(due - 1.0) - ms(1));
    assert!(bench.sent().is_empty(), "the first time does not count any more");
    // One in the second half of the wait is of the next round.
    bench.request(3, 1, 1);
    assert_eq!(bench.count("srm_backoffs"), 2);
    let due = bench.request_due();
    assert!((8.0..16.0).contains(&due), "{due}");
}

#[test]
fn a_request_tells_of_a_packet_that_was_not_known() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.request(2, 1, 1);
    assert_eq!(bench.node.packets_missing(), 1);
    let due = bench.request_due();
    assert!((4.0..8.0).contains(&due), "it waits as who has heard a request: {due}");
}

#[test]
fn who_has_the_packet_repairs_after_one_to_two_distances() {
    let mut bench = Bench::srm(config(4));
    let times = (0..200).map(|seq| {
        bench.data(1, seq.into());
        bench.request(2, 1, seq);
        bench.answer_due()
    });
    assert_spread(&times.collect::<Vec<f64>>(), 1.0, 2.0);
    bench.pass(ms(2_000));
    let sent = bench.sent();
    assert_eq!(sent.len(), 200);
    assert!(sent.iter().all(|line| line.starts_with("g0: repair v0: g0/1.")), "{sent:?}");
}

#[test]
fn a_heard_repair_cancels_the_own_one() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.request(2, 1, 0);
    bench.repair(3, 1, 0);
    assert_eq!(bench.count("srm_suppressed"), 1);
    bench.pass(ms(10_000));
    assert!(bench.sent().is_empty());
    assert_eq!(bench.told(), ["n1.0 direct"]);
}

#[test]
fn who_has_repaired_is_deaf_for_three_distances() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.request(2, 1, 0);
    bench.request(3, 1, 0);
    assert_eq!(bench.count("srm_request_known"), 1);
    bench.pass(Duration::from_secs_f64(bench.answer_due()));
    assert_eq!(bench.sent().len(), 1);
    bench.pass(ms(2_999));
    bench.request(3, 1, 0);
    assert_eq!(bench.count("srm_request_deaf"), 1);
    bench.pass(ms(1));
    assert_eq!(bench.node.answers(), 0);
    bench.request(3, 1, 0);
    bench.pass(ms(2_000));
    assert_eq!(bench.sent().len(), 1, "it hears again");
}

#[test]
fn who_hears_a_repair_is_deaf_as_well() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.repair(3, 1, 0);
    bench.request(2, 1, 0);
    assert_eq!(bench.count("srm_request_deaf"), 1);
    // So is who was repaired.
    bench.repair(3, 1, 1);
    bench.request(2, 1, 1);
    assert_eq!(bench.count("srm_request_deaf"), 2);
    bench.pass(ms(3_000));
    assert_eq!(bench.node.answers(), 0);
}

#[test]
fn a_sender_repairs_its_own_packets() {
    let mut bench = Bench::srm(config(4));
    bench.command(Command::Multicast { group: G, payload: "packet".into(), ticket: 5 });
    assert_eq!(bench.told(), ["sent 5 as 0"]);
    bench.request(2, 0, 0);
    bench.pass(ms(2_000));
    assert_eq!(bench.sent(), ["g0: data g0 seq 0 6 B", "g0: repair v0: g0/0.0 6 B"]);
}

fn session(from: u32, next: u64) -> Session {
    Session {
        view: ViewId(0),
        group: G,
        incarnation: 100 + u64::from(from),
        next,
        stamp: 0,
        reached: Vec::new(),
        echoes: Vec::new(),
    }
}

#[test]
fn a_session_message_shows_what_was_missed_of_its_sender_and_of_others() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.data(2, 0);
    bench.message(1, Message::Session(session(1, 2)));
    assert_eq!(bench.node.packets_missing(), 1);
    let reached = vec![Reached { rank: 2, life: 102, last: 2 }];
    bench.message(1, Message::Session(Session { reached, ..session(1, 2) }));
    assert_eq!(bench.node.packets_missing(), 3);
    // A report on another incarnation of a member is ignored.
    let reached = vec![Reached { rank: 2, life: 103, last: 9 }];
    bench.message(1, Message::Session(Session { reached, ..session(1, 2) }));
    assert_eq!(bench.node.packets_missing(), 3);
    let due = bench.request_due();
    assert!((2.0..4.0).contains(&due), "{due}");
}

#[test]
fn echoes_of_session_messages_give_the_distance() {
    let estimated = Distance::Estimated { first: D };
    let mut bench =
        Bench::srm(config(3).with_distance(estimated).with_session_every(Duration::from_secs(1)));
    let distance = |bench: &Bench| bench.node.distance(&bench.config, NodeId(1));
    assert_eq!(distance(&bench), D);
    bench.pass(ms(1_000));
    let stamp = match &bench.outbox.group_sends[..] {
        [(G, Message::Session(session))] => session.stamp,
        other => panic!("{other:?}"),
    };
    // The message took 40 ms there and back, of the 940 since.
    bench.now = Instant::from_nanos(stamp) + ms(940);
    let echoes = vec![Echo { rank: 0, stamp, held_us: 900_000 }];
    bench.message(1, Message::Session(Session { echoes, stamp: 77, ..session(1, 0) }));
    assert_eq!(distance(&bench), ms(20));
    // The answer carries what the distance estimate needs.
    bench.outbox.group_sends.clear();
    bench.pass(ms(1_000));
    let (_, Message::Session(own)) = &bench.outbox.group_sends[0] else { panic!("a session") };
    assert_eq!((own.echoes.len(), own.echoes[0].rank, own.echoes[0].stamp), (1, 1, 77));
    // An echo that has been held for longer than it was away is not believed.
    let echoes = vec![Echo { rank: 0, stamp, held_us: 3_000_000 }];
    bench.message(1, Message::Session(Session { echoes, ..session(1, 0) }));
    assert_eq!((distance(&bench), bench.count("srm_echo_wrong")), (ms(20), 1));
}

#[test]
fn session_messages_of_a_large_group_take_turns() {
    let every = Duration::from_secs(1);
    let mut bench = Bench::srm(config(200).with_session_every(every));
    for node in 1..200 {
        bench.data(node, 0);
        bench.message(node, Message::Session(session(node, 1)));
    }
    let mut told = std::collections::BTreeSet::new();
    for _ in 0..5 {
        bench.pass(every);
        for (_, message) in bench.outbox.group_sends.drain(..) {
            assert!(message.wire_len() <= 1200);
            let Message::Session(session) = message else { panic!("{message}") };
            assert_eq!(session.reached.len(), session.echoes.len());
            told.extend(session.reached.iter().map(|reached| reached.rank));
        }
    }
    assert_eq!(told.len(), 199);
}
