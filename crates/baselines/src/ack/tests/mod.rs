//! The rules of acknowledgements and retransmissions, each by one member.

mod codec;

use paceline_proto::core::GroupId;
use paceline_proto::slingshot::{self, Command};

use super::*;
use crate::bench::{self, G, INCARNATION, ms, packet, roster};

type Bench = bench::Bench<Ack>;

fn config(members: u32) -> Config {
    Config::new(slingshot::Config::new(roster(members)))
}

impl Bench {
    fn ack(config: Config) -> Bench {
        let config = config.build().expect("within the ranges");
        let node = Ack::new(&config);
        Bench::new(config, node)
    }

    fn acknowledged(&mut self, by: u32, seq: u64) {
        let ack = Message::Ack { group: G, incarnation: INCARNATION, seq };
        self.message(by, ack);
    }
}

#[test]
fn every_packet_is_acknowledged_also_the_second_time() {
    let mut bench = Bench::ack(config(3));
    bench.message(1, Message::Data(packet(G, 1, 0)));
    bench.message(1, Message::Again(packet(G, 1, 0)));
    assert_eq!(bench.sent(), ["n1: ack g0 seq 0"; 2]);
    assert_eq!(bench.told(), ["n1.0 direct"]);
    bench.message(1, Message::Data(packet(G, 1, 2)));
    bench.now += ms(2);
    bench.message(1, Message::Again(packet(G, 1, 1)));
    assert_eq!(bench.told(), ["n1.2 direct", "n1.1 pulled after 2ms"]);
}

#[test]
fn only_members_that_have_not_acknowledged_are_sent_a_packet_again() {
    let mut bench = Bench::ack(config(4));
    bench.command(Command::multicast("own"));
    assert_eq!(bench.sent(), ["g0: data g0 seq 0 3 B"]);
    bench.acknowledged(2, 0);
    bench.pass(ms(2));
    let again = "again data g0 seq 0 3 B";
    assert_eq!(bench.sent(), [format!("n1: {again}"), format!("n3: {again}")]);
    bench.acknowledged(3, 0);
    bench.pass(ms(2));
    assert_eq!(bench.sent(), [format!("n1: {again}")]);
    bench.acknowledged(1, 0);
    assert_eq!(bench.node.packets_pending(), 0);
    bench.pass(ms(100));
    assert!(bench.sent().is_empty() && bench.outbox.timers.is_empty(), "at rest");
}

#[test]
fn a_silent_member_is_given_up_and_a_parted_one_is_forgotten() {
    let mut bench = Bench::ack(config(3).with_resends_max(2));
    bench.command(Command::multicast("own"));
    bench.sent();
    bench.acknowledged(1, 0);
    bench.pass(ms(50));
    assert_eq!(bench.sent().len(), 2);
    assert_eq!((bench.count("ack_given_up"), bench.node.packets_pending()), (1, 0));
    bench.command(Command::multicast("own"));
    bench.acknowledged(1, 1);
    bench.view(1, &[(0, INCARNATION), (1, 101)]);
    assert_eq!(bench.node.packets_pending(), 0, "the third has left");
}

#[test]
fn what_waits_for_acknowledgements_is_bounded() {
    let mut bench = Bench::ack(config(2).with_pending_max(3));
    (0..5).for_each(|_| bench.command(Command::multicast("own")));
    assert_eq!((bench.node.packets_pending(), bench.count("ack_pending_full")), (3, 2));
    bench.sent();
    bench.pass(ms(2));
    let again = bench.sent();
    assert_eq!(again.len(), 3, "{again:?}");
    assert!(again[0].contains("seq 2"), "the oldest were dropped: {again:?}");
}

#[test]
fn what_never_comes_is_reported_lost_in_time() {
    let base = slingshot::Config::new(roster(2)).with_deadline(ms(20)).with_lost_after(ms(50));
    let mut bench = Bench::ack(Config::new(base));
    bench.message(1, Message::Data(packet(G, 1, 0)));
    bench.message(1, Message::Data(packet(G, 1, 3)));
    bench.told();
    bench.pass(ms(49));
    assert!(bench.told().is_empty());
    bench.pass(ms(1));
    assert_eq!(bench.told(), ["n1.1..3 lost"]);
    bench.message(1, Message::Again(packet(G, 1, 1)));
    assert!(bench.told().is_empty(), "too late");
}

#[test]
fn acknowledgements_of_another_life_or_of_nothing_are_counted() {
    let mut bench = Bench::ack(config(2));
    bench.command(Command::multicast("own"));
    bench.message(1, Message::Ack { group: G, incarnation: INCARNATION - 1, seq: 0 });
    bench.acknowledged(1, 9);
    assert_eq!((bench.count("ack_other_incarnation"), bench.count("ack_unneeded")), (1, 1));
    assert_eq!(bench.node.packets_pending(), 1);
    bench.message(1, Message::Ack { group: GroupId(7), incarnation: INCARNATION, seq: 0 });
    assert_eq!(bench.count("ack_foreign_group"), 1);
}
