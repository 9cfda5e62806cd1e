//! The rules of requests and answers, each at one member.

mod codec;

use std::time::Duration;

use paceline_proto::core::{GroupId, NodeId, ViewId, Wire};
use paceline_proto::slingshot::{
    self, Command, Heartbeat, Name, Names, NamesBuilder, Order, Supply, checksum,
};

use super::*;
use crate::bench::{self, G, ms, packet, roster};

type Bench = bench::Bench<Nak>;

fn base(members: u32) -> slingshot::Config {
    slingshot::Config::new(roster(members))
}

impl Bench {
    fn nak(config: Config) -> Bench {
        let config = config.build().expect("within the ranges");
        let node = Nak::new(&config);
        Bench::new(config, node)
    }

    fn data(&mut self, from: u32, seq: u64) {
        self.message(from, Message::Data(packet(G, from, seq)));
    }

    /// A packet whose sender has these.
    fn digest(&mut self, from: u32, seq: u64, has: &[(u32, u64)]) {
        let message =
            Message::Digest { view: ViewId(0), names: names(has), data: packet(G, from, seq) };
        self.message(from, message);
    }

    fn ask(&mut self, from: u32, packets: &[(u32, u64)]) {
        self.message(from, Message::Ask { view: ViewId(0), names: names(packets) });
    }

    fn supply(&mut self, from: u32, sender: u32, seq: u64) {
        let data = packet(G, sender, seq);
        self.message(from, Message::Supply(Supply { view: ViewId(0), rank: sender as u16, data }));
    }

    fn asked_after(&self) -> Duration {
        let last = self.outbox.timers.iter().rev().find(|(_, t)| matches!(t, Timer::Ask(_)));
        last.expect("something is to be asked for").0.since(self.now)
    }
}

fn names(packets: &[(u32, u64)]) -> Names {
    let mut names = NamesBuilder::default();
    for &(sender, seq) in packets {
        let checksum = packet(G, sender, seq).checksum;
        names.push(Name { group: G, rank: sender as u16, seq: seq as u32, checksum });
    }
    names.build()
}

#[test]
fn a_gap_is_asked_of_the_sender_after_a_backoff() {
    let mut bench = Bench::nak(Config::sender(base(4)));
    let times = (0..200u64).map(|turn| {
        bench.data(1, 2 * turn);
        bench.data(1, 2 * turn + 2);
        bench.asked_after()
    });
    let times: Vec<Duration> = times.collect();
    assert!(times.iter().all(|&time| time <= ms(1)), "{times:?}");
    assert!(times.iter().any(|&time| time > Duration::from_micros(950)), "{times:?}");
    assert!(times.iter().any(|&time| time < Duration::from_micros(50)), "{times:?}");
    bench.pass(ms(1));
    assert_eq!(bench.sent().len(), 200);
}

#[test]
fn what_is_missed_together_is_asked_for_together() {
    let mut bench = Bench::nak(Config::sender(base(4)));
    bench.data(1, 0);
    bench.data(1, 4);
    bench.pass(ms(1));
    assert_eq!(bench.sent(), ["n1: ask v0: g0/1.1 g0/1.2 g0/1.3"]);
    bench.supply(1, 1, 2);
    bench.pass(ms(2));
    assert_eq!(bench.sent(), ["n1: ask v0: g0/1.1 g0/1.3"]);
}

#[test]
fn a_question_is_repeated_and_in_the_end_the_packet_is_lost() {
    let mut bench = Bench::nak(Config::sender(base(4)).with_asks_max(3));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.told();
    bench.pass(ms(1));
    assert_eq!(bench.sent().len(), 1);
    bench.pass(ms(4));
    assert_eq!(bench.sent(), ["n1: ask v0: g0/1.1"; 2]);
    assert!(bench.told().is_empty());
    bench.pass(ms(2));
    assert_eq!(bench.told(), ["n1.1..2 lost"]);
    bench.supply(1, 1, 1);
    assert_eq!(bench.count("nak_unneeded"), 1);
    assert_eq!(bench.node.batches(), 0);
    assert!(bench.told().is_empty() && bench.sent().is_empty());
}

#[test]
fn a_heartbeat_shows_that_the_last_packet_was_missed() {
    let mut bench = Bench::nak(Config::sender(base(2)));
    bench.data(1, 0);
    bench.message(1, Message::Heartbeat(Heartbeat { group: G, incarnation: 101, next: 2 }));
    bench.pass(ms(1));
    assert_eq!(bench.sent(), ["n1: ask v0: g0/1.1"]);
}

#[test]
fn a_silent_sender_says_how_much_it_has_sent() {
    let mut bench = Bench::nak(Config::sender(base(2)));
    bench.command(Command::multicast("packet"));
    bench.pass(ms(99));
    assert_eq!(bench.sent(), ["g0: data g0 seq 0 6 B"]);
    bench.pass(ms(1));
    assert_eq!(bench.sent(), ["g0: heartbeat g0 next 1"]);
    bench.command(Command::multicast("packet"));
    bench.pass(ms(60_000));
    assert_eq!(bench.sent()[1..], ["g0: heartbeat g0 next 2"; 4], "and then it is silent");
    assert!(bench.outbox.timers.is_empty());
}

#[test]
fn a_digest_is_asked_of_who_sent_it_at_once() {
    let mut bench = Bench::nak(Config::digest(base(4)));
    bench.data(1, 0);
    bench.digest(2, 0, &[(1, 0), (1, 1)]);
    assert_eq!(bench.sent(), ["n2: ask v0: g0/1.1"]);
    // Another holder is asked only if the first one does not answer.
    bench.digest(3, 0, &[(1, 1)]);
    assert!(bench.sent().is_empty());
    bench.pass(ms(2));
    assert_eq!(bench.sent(), ["n3: ask v0: g0/1.1"]);
    bench.told();
    bench.supply(3, 1, 1);
    assert_eq!(bench.told(), ["n1.1 pulled after 2ms"]);
    bench.pass(ms(100));
    assert!(bench.sent().is_empty());
}

#[test]
fn a_gap_that_a_digest_names_before_its_backoff_is_over_is_asked_for_once() {
    let mut bench = Bench::nak(Config::digest(base(4)).with_backoff(ms(1)));
    bench.data(1, 0);
    bench.data(1, 3);
    bench.digest(2, 0, &[(1, 1)]);
    assert_eq!(bench.sent(), ["n2: ask v0: g0/1.1"]);
    bench.pass(ms(1));
    assert_eq!(bench.sent(), ["n1: ask v0: g0/1.2"]);
}

#[test]
fn a_packet_names_the_last_eight_that_its_sender_received() {
    let mut bench = Bench::nak(Config::digest(base(4)));
    bench.command(Command::multicast("first"));
    for seq in 0..10 {
        bench.data(1, seq);
    }
    bench.command(Command::multicast("second"));
    let names: String = (2..10).map(|seq| format!(" g0/1.{seq}")).collect();
    let digested = format!("g0: data g0 seq 1 6 B, has v0:{names}");
    assert_eq!(bench.sent(), ["g0: data g0 seq 0 5 B".to_string(), digested]);
    let (payload, bytes_max) = ("x", bench.config.payload_bytes_max(1200));
    bench.command(Command::multicast(payload));
    let (_, message) = bench.outbox.group_sends.pop().expect("it was sent");
    assert_eq!(message.wire_len() - 1, 1200 - bytes_max);
}

#[test]
fn who_has_the_packet_answers_who_asked() {
    let mut bench = Bench::nak(Config::digest(base(4)));
    bench.data(1, 0);
    bench.ask(2, &[(1, 0), (1, 1)]);
    assert_eq!(bench.sent(), ["n2: supply v0: g0/1.0 10 B"]);
    assert_eq!(bench.count("nak_ask_unknown"), 1);
    assert_eq!(bench.node.packets_missing(), 0, "a question is no sign of a packet");
}

#[test]
fn an_answer_to_the_group_is_not_repeated_for_a_while() {
    let answer = Answer::Group { quiet: ms(5) };
    let mut bench = Bench::nak(Config::sender(base(4)).with_answer(answer).with_answers_max(1));
    bench.command(Command::multicast("first"));
    bench.command(Command::multicast("second"));
    bench.sent();
    let ask = |bench: &mut Bench, from: u32, seq: u32| {
        let mut names = NamesBuilder::default();
        names.push(Name { group: G, rank: 0, seq, checksum: 0 });
        bench.message(from, Message::Ask { view: ViewId(0), names: names.build() });
        bench.sent()
    };
    assert_eq!(ask(&mut bench, 1, 0), ["g0: supply v0: g0/0.0 5 B"]);
    assert!(ask(&mut bench, 2, 0).is_empty());
    assert_eq!(bench.count("nak_ask_quiet"), 1);
    assert_eq!(ask(&mut bench, 2, 1).len(), 1);
    assert_eq!(bench.count("nak_answers_full"), 1);
    bench.pass(ms(5));
    assert_eq!(ask(&mut bench, 2, 0).len(), 1);
}

#[test]
fn no_more_is_supplied_than_allowed() {
    let mut bench = Bench::nak(Config::sender(base(4)).with_supplies_per_second(100));
    bench.data(1, 0);
    for _ in 0..30 {
        bench.ask(2, &[(1, 0)]);
    }
    assert_eq!((bench.sent().len(), bench.count("nak_ask_refused")), (10, 20));
}

#[test]
fn in_order_the_packets_after_a_gap_wait_for_it() {
    let mut bench = Bench::nak(Config::sender(base(4).with_order(Order::Fifo)));
    bench.data(1, 0);
    bench.data(1, 2);
    assert_eq!(bench.told(), ["n1.0 direct"]);
    bench.supply(1, 1, 1);
    assert_eq!(bench.told(), ["n1.1 pulled after 0ns", "n1.2 direct"]);
}

#[test]
fn bad_input_is_counted_and_dropped() {
    let mut bench = Bench::nak(Config::digest(base(4)));
    bench.data(1, 0);
    bench.told();
    bench.data(0, 0);
    bench.data(9, 0);
    bench.digest(2, 0, &[(9, 0), (1, 5_000), (0, 3)]);
    bench.ask(2, &[(0, 0)]);
    let wrong = packet(G, 1, 0).checksum ^ 1;
    let mut named = NamesBuilder::default();
    named.push(Name { group: G, rank: 1, seq: 0, checksum: wrong });
    named.push(Name { group: GroupId(3), rank: 1, seq: 0, checksum: 0 });
    bench.message(3, Message::Ask { view: ViewId(0), names: named.build() });
    bench.message(3, Message::Ask { view: ViewId(5), names: names(&[(1, 0)]) });
    bench.supply(2, 9, 0);
    bench.supply(2, 1, 5_000);
    let mut data = packet(G, 1, 1);
    data.incarnation = 5;
    data.checksum = checksum(G, 5, 1, &data.payload);
    bench.message(2, Message::Supply(Supply { view: ViewId(0), rank: 1, data }));
    assert_eq!(bench.told(), ["n2.0 direct"]);
    assert!(bench.sent().is_empty());
    assert_eq!(bench.node.packets_missing(), 0);
    for (counter, times) in [
        ("nak_own_echo", 1),
        ("nak_foreign_sender", 1),
        ("nak_unknown_name", 3),
        ("nak_name_too_far", 1),
        ("nak_name_not_sent", 2),
        ("nak_name_mismatch", 1),
        ("nak_foreign_view", 1),
        ("nak_too_far", 1),
        ("nak_other_incarnation", 1),
    ] {
        assert_eq!(bench.count(counter), times, "{counter}");
    }
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let config = || Config::sender(base(2));
    assert!(config().with_retry_after(Duration::ZERO).build().is_err());
    assert!(config().with_asks_max(0).build().is_err());
    assert!(config().with_digest_names(65).build().is_err());
    assert!(config().with_answers_max(0).build().is_err());
    let refused = Config::digest(base(2).with_window_packets(1)).build();
    assert!(refused.is_err());
    assert_eq!(config().build().expect("the defaults").roster().node(1), NodeId(1));
}
