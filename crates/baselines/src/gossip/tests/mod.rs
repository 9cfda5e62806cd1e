//! The rules of gossip, each by one member.

mod codec;

use paceline_proto::core::{GroupId, ViewId};
use paceline_proto::slingshot::{self, Command, Name, NamesBuilder, Supply};

use super::*;
use crate::bench::{self, G, INCARNATION, ms, packet, roster};

type Bench = bench::Bench<Gossip>;

fn config(members: u32) -> Config {
    Config::new(slingshot::Config::new(roster(members)))
}

impl Bench {
    fn gossip(config: Config) -> Bench {
        let config = config.build().expect("within the ranges");
        let node = Gossip::new(&config);
        Bench::new(config, node)
    }

    /// Packets of a member with these numbers, from itself.
    fn data(&mut self, from: u32, numbers: impl IntoIterator<Item = u64>) {
        for seq in numbers {
            self.message(from, Message::Data(packet(G, from, seq)));
        }
    }

    /// Lets the member's next round begin.
    fn begin_round(&mut self) {
        let rounds = self.outbox.timers.iter().filter(|(_, timer)| *timer == Timer::Gossip);
        let (at, _) = rounds.min_by_key(|(at, _)| *at).expect("a round is due");
        let after = at.since(self.now);
        self.pass(after);
    }
}

/// A member's packets that are held, with runs from the last one backwards.
fn origin(rank: u16, last: u32, runs: &[u16]) -> Origin {
    Origin { rank, life: 100 + u32::from(rank), last, runs: runs.to_vec() }
}

fn digest(round: u32, origins: &[Origin]) -> Message {
    Message::Digest { round, view: ViewId(0), group: G, origins: origins.to_vec() }
}

/// Of these packets, by rank and number.
fn solicit(round: u32, packets: &[(u16, u32)]) -> Message {
    let mut names = NamesBuilder::default();
    packets.iter().for_each(|&(rank, seq)| {
        names.push(Name { group: G, rank, seq, checksum: 0 });
    });
    Message::Solicit { round, view: ViewId(0), names: names.build() }
}

fn retransmission(rank: u16, seq: u64) -> Message {
    let data = packet(G, rank.into(), seq);
    Message::Retransmission(Supply { view: ViewId(0), rank, data })
}

#[test]
fn a_round_sends_a_digest_of_all_that_is_held_to_one_member() {
    let mut bench = Bench::gossip(config(4));
    bench.command(Command::multicast("own"));
    bench.data(1, [0, 1, 2, 5, 6]);
    bench.data(2, [7]);
    assert_eq!(bench.sent(), ["g0: data g0 seq 0 3 B"]);
    bench.begin_round();
    let sent = bench.sent();
    let (to, said) = sent[0].split_once(": ").unwrap();
    assert!(["n1", "n2", "n3"].contains(&to), "{to}");
    assert_eq!(said, "digest round 1 v0 g0: 0.0-0 1.5-6.0-2 2.7-7");
    assert_eq!(sent.len(), 1);
    bench.pass(ms(99));
    assert!(bench.sent().is_empty(), "one digest a round");
    bench.pass(ms(1));
    assert!(bench.sent()[0].contains("digest round 2"));
}

#[test]
fn a_digest_goes_to_fanout_members_and_every_member_is_drawn() {
    let mut bench = Bench::gossip(config(5).with_fanout(2).with_rounds_held(100));
    bench.data(1, [0]);
    let mut drawn = std::collections::BTreeMap::new();
    for _ in 0..90 {
        bench.begin_round();
        let sent = bench.sent();
        assert_eq!(sent.len(), 2);
        assert_ne!(sent[0][..2], sent[1][..2], "two members");
        sent.iter().for_each(|line| *drawn.entry(line[..2].to_owned()).or_insert(0) += 1);
    }
    assert_eq!(drawn.len(), 4, "{drawn:?}");
    assert!(drawn.values().all(|&times| times > 20), "{drawn:?}");
}

#[test]
fn who_misses_a_packet_of_a_digest_solicits_it_the_most_recent_first() {
    let mut bench = Bench::gossip(config(4));
    bench.data(1, [0, 3]);
    bench.pass(ms(1));
    bench.data(2, [0, 2]);
    bench.sent();
    // The gossiper misses 1.1, too, and its digest shows 2.3.
    bench.message(3, digest(9, &[origin(1, 3, &[2, 1, 1]), origin(2, 3, &[4])]));
    assert_eq!(bench.sent(), ["n3: solicit round 9 v0: g0/2.3 g0/2.1 g0/1.2"]);
    assert_eq!((bench.node.packets_missing(), bench.count("gossip_solicited")), (4, 3));
    bench.message(3, retransmission(2, 1));
    bench.message(3, retransmission(1, 2));
    assert_eq!(bench.told()[4..], ["n2.1 pulled after 0ns", "n1.2 pulled after 1ms"]);
}

#[test]
fn a_packet_is_solicited_once_in_a_round_and_again_in_the_next() {
    let mut bench = Bench::gossip(config(4));
    bench.data(1, [0, 2]);
    bench.begin_round();
    bench.sent();
    let holds = [origin(1, 2, &[3])];
    bench.message(2, digest(5, &holds));
    bench.message(3, digest(8, &holds));
    assert_eq!(bench.sent(), ["n2: solicit round 5 v0: g0/1.1"]);
    bench.begin_round();
    bench.sent();
    bench.message(3, digest(9, &holds));
    assert_eq!(bench.sent(), ["n3: solicit round 9 v0: g0/1.1"]);
}

#[test]
fn no_more_is_solicited_in_a_round_than_configured() {
    let mut bench = Bench::gossip(config(3).with_solicit_max(3));
    bench.data(1, [0, 5]);
    bench.message(2, digest(1, &[origin(1, 5, &[6])]));
    assert_eq!(bench.sent(), ["n2: solicit round 1 v0: g0/1.4 g0/1.3 g0/1.2"]);
    assert_eq!(bench.count("gossip_solicit_deferred"), 1);
    bench.message(2, digest(2, &[origin(1, 5, &[6])]));
    assert!(bench.sent().is_empty());
    bench.begin_round();
    bench.sent();
    bench.message(2, digest(3, &[origin(1, 5, &[6])]));
    assert_eq!(bench.sent(), ["n2: solicit round 3 v0: g0/1.4 g0/1.3 g0/1.2"]);
}

#[test]
fn a_solicitation_is_answered_in_its_round_only() {
    let mut bench = Bench::gossip(config(3));
    bench.data(1, [0, 1]);
    bench.begin_round();
    bench.sent();
    bench.message(2, solicit(1, &[(1, 1), (1, 7)]));
    assert_eq!(bench.sent(), ["n2: retransmission v0: g0/1.1 15 B"]);
    assert_eq!(bench.count("gossip_ask_unknown"), 1);
    bench.begin_round();
    bench.sent();
    bench.message(2, solicit(1, &[(1, 1)]));
    bench.message(2, solicit(3, &[(1, 1)]));
    assert!(bench.sent().is_empty());
    assert_eq!(bench.count("gossip_solicit_late"), 2);
}

#[test]
fn no_more_is_retransmitted_in_a_round_than_configured() {
    let mut bench = Bench::gossip(config(3).with_retransmit_max(3));
    bench.data(1, 0..6);
    bench.begin_round();
    bench.sent();
    bench.message(2, solicit(1, &[(1, 5), (1, 4)]));
    bench.message(2, solicit(1, &[(1, 3), (1, 2)]));
    assert_eq!((bench.sent().len(), bench.count("gossip_retransmit_refused")), (3, 1));
    bench.begin_round();
    bench.sent();
    bench.message(2, solicit(2, &[(1, 2)]));
    assert_eq!(bench.sent().len(), 1, "the next round begins from zero");
}

#[test]
fn after_its_rounds_a_packet_is_forgotten_and_a_missing_one_is_lost() {
    let mut bench = Bench::gossip(config(3).with_rounds_held(3));
    bench.data(1, [0, 3]);
    bench.pass(ms(299));
    assert_eq!(bench.told(), ["n1.0 direct", "n1.3 direct"]);
    assert_eq!(bench.node.packets_held().0, 2);
    bench.pass(ms(101));
    assert_eq!(bench.told(), ["n1.1..3 lost"]);
    assert_eq!(bench.node.packets_held(), (0, 0));
    bench.message(2, retransmission(1, 1));
    assert!(bench.told().is_empty(), "too late");
    bench.sent();
    bench.pass(ms(1_000));
    assert!(bench.sent().is_empty() && bench.outbox.timers.is_empty(), "at rest");
}

#[test]
fn a_digest_is_a_sign_of_packets_that_never_came() {
    let mut bench = Bench::gossip(config(3));
    bench.message(2, digest(4, &[origin(1, 1, &[2])]));
    assert_eq!(bench.sent(), ["n2: solicit round 4 v0: g0/1.1 g0/1.0"]);
    // A member ignores entries for its own packets and for other incarnations of a sender.
    bench.message(2, digest(4, &[origin(0, 3, &[1])]));
    bench.message(2, retransmission(1, 0));
    let other_life = Origin { life: 5, ..origin(1, 9, &[10]) };
    bench.message(2, digest(4, &[other_life]));
    assert!(bench.sent().is_empty());
    assert_eq!(bench.count("gossip_other_incarnation"), 1);
}

#[test]
fn a_digest_that_does_not_fit_is_sent_as_several() {
    let mut bench = Bench::gossip(config(200));
    (1..200).for_each(|member| bench.data(member, [0]));
    bench.begin_round();
    let sends: Vec<_> = bench.outbox.sends.drain(..).collect();
    let told: usize = sends.iter().map(|send| origins_of(&send.message)).sum();
    assert_eq!((sends.len(), told), (3, 199));
    assert!(sends.iter().all(|send| send.to == sends[0].to), "all to the member that was drawn");
}

fn origins_of(message: &Message) -> usize {
    use paceline_proto::core::Wire;
    let Message::Digest { origins, .. } = message else { panic!("{message}") };
    assert!(message.wire_len() <= 1200, "{} bytes", message.wire_len());
    origins.len()
}

#[test]
fn of_many_gaps_a_digest_tells_the_latest() {
    let mut bench = Bench::gossip(config(3));
    bench.data(1, (0..200).map(|number| 2 * number));
    bench.begin_round();
    let sent = bench.sent();
    let numbers = sent[0].split('.').skip(1).collect::<Vec<_>>();
    assert_eq!((numbers.len(), numbers[0], numbers[64]), (65, "398-398", "270-270"));
}

#[test]
fn who_has_left_gets_no_digest_and_no_answer() {
    let mut bench = Bench::gossip(config(3));
    bench.data(1, [0]);
    bench.view(1, &[(0, INCARNATION), (1, 101)]);
    bench.begin_round();
    assert_eq!(bench.sent(), ["n1: digest round 1 v1 g0: 1.0-0"]);
    bench.message(2, solicit(1, &[(1, 0)]));
    assert!(bench.sent().is_empty());
    assert_eq!(bench.count("gossip_foreign_sender"), 1);
    bench.message(
        1,
        Message::Digest {
            round: 1,
            view: ViewId(1),
            group: GroupId(7),
            origins: vec![origin(1, 0, &[1])],
        },
    );
    assert_eq!(bench.count("gossip_foreign_group"), 1);
}
