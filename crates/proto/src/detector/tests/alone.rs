//! One detector, driven by hand: its time-outs to the millisecond, and what it lets in.

use foca::{Header, Message, State};

use super::*;
use crate::detector::identity::Identity;
use crate::detector::packet::{Claim, Ends, Packet};

/// Member 0, which watches some that never answer.
struct Alone {
    detector: Detector,
    out: Output,
    now: Instant,
}

impl Alone {
    fn new(others: u32) -> Alone {
        let config = Config::new().build().expect("within the ranges");
        let mut detector = Detector::new(config, member(0), 1);
        let (mut out, now) = (Output::default(), Instant::ZERO + ms(1000));
        let members: Vec<Member> = (1..=others).map(member).collect();
        detector.watch(now, &members, &mut out);
        Alone { detector, out, now }
    }

    /// Polls at each deadline until something changes, and returns what.
    fn until_change(&mut self) -> (Instant, Health) {
        while self.out.changes.is_empty() {
            self.now = self.detector.deadline();
            assert!(self.now < Instant::MAX);
            self.detector.poll(self.now, &mut self.out);
        }
        (self.now, self.out.changes.remove(0).health)
    }

    fn receive(&mut self, from: u32, message: Message<Identity>, claims: Vec<Claim>) {
        self.receive_for(Identity::first(member(0)), from, message, claims);
    }

    fn receive_for(
        &mut self,
        dst: Identity,
        from: u32,
        message: Message<Identity>,
        claims: Vec<Claim>,
    ) {
        let src = Identity::first(member(from));
        let header = Header { src, src_incarnation: 0, dst, message };
        let bytes = Packet::Gossip { header, claims }.encode();
        let Alone { detector, out, now } = self;
        detector.receive(*now, NodeId::from(from), &bytes, out).expect("it is well-formed");
    }

    /// The datagrams since the last time that went to this node.
    fn sent_to(&mut self, node: u32) -> Vec<Packet> {
        let sends = self.out.sends.drain(..).filter(|(to, _)| *to == NodeId::from(node));
        let ends = Ends { from: NodeId(0), to: NodeId::from(node) };
        sends.map(|(_, bytes)| Packet::decode(&bytes, ends).expect("we sent it")).collect()
    }
}

fn is_ping(packet: &Packet) -> bool {
    matches!(packet, Packet::Gossip { header: Header { message: Message::Ping(_), .. }, .. })
}

fn tells_of(packet: &Packet, node: u32, state: State) -> bool {
    let Packet::Gossip { claims, .. } = packet else { return false };
    claims.iter().any(|claim| *claim == Claim::new(Identity::first(member(node)), 0, state))
}

#[test]
fn a_silent_member_is_asked_twice_suspected_after_three_trips_and_then_down() {
    let mut alone = Alone::new(1);
    let asked_at = alone.detector.deadline();
    let (suspected_at, health) = alone.until_change();
    assert_eq!((health, suspected_at - asked_at), (Health::Suspect, ms(150)));
    let sent = alone.sent_to(1);
    // The third one begins the next probe.
    assert_eq!(sent.iter().filter(|packet| is_ping(packet)).count(), 3);
    assert_eq!(sent[0], sent[1]);
    let (down_at, health) = alone.until_change();
    assert_eq!((health, down_at - suspected_at), (Health::Down, ms(350)));
}

#[test]
fn a_suspected_member_is_notified_four_times() {
    let mut alone = Alone::new(20);
    let now = alone.now;
    alone.detector.probe(now, NodeId(7), &mut alone.out);
    while alone.detector.health(NodeId(7)) == Some(Health::Up) {
        alone.out.changes.clear();
        alone.until_change();
    }
    let mut told = 0;
    while alone.detector.health(NodeId(7)) == Some(Health::Suspect) {
        let direct = |packet: &&Packet| {
            let Packet::Gossip { header, claims } = packet else { return false };
            header.message == Message::Gossip && claims.len() == 1
        };
        let sent = alone.sent_to(7);
        told += sent.iter().filter(direct).filter(|p| tells_of(p, 7, State::Suspect)).count();
        alone.out.changes.clear();
        alone.now = alone.detector.deadline();
        alone.detector.poll(alone.now, &mut alone.out);
    }
    assert!(told >= 4, "{told}");
    assert_eq!(alone.detector.health(NodeId(7)), Some(Health::Down));
}

#[test]
fn a_suspicion_takes_longer_once_we_turn_out_to_be_slow() {
    let mut alone = Alone::new(1);
    let (suspected_at, _) = alone.until_change();
    // A stall of 400 ms, in which the suspicion would have ended.
    alone.now = alone.detector.deadline() + ms(400);
    let now = alone.now;
    alone.detector.poll(now, &mut alone.out);
    assert_eq!(alone.detector.around.local.score(), 1);
    let (down_at, health) = alone.until_change();
    // The lost time and one trip, and the suspicion twice as long.
    assert_eq!((health, down_at - suspected_at), (Health::Down, ms(400 + 50 + 2 * 350)));
}

#[test]
fn members_that_begin_to_watch_at_once_do_not_probe_at_once() {
    let net = Net::new(5, 1);
    let first: BTreeSet<Instant> = net.nodes.iter().map(|n| n.detector.deadline()).collect();
    assert_eq!(first.len(), 5);
}

#[test]
fn claims_of_who_is_not_watched_go_no_further() {
    let mut alone = Alone::new(3);
    let other = Identity::first(Member { incarnation: 9, ..member(2) });
    let unknown = Identity::first(member(50));
    let claims = [other, unknown].map(|id| Claim::new(id, 3, State::Suspect)).to_vec();
    alone.receive(1, Message::Gossip, claims);
    alone.receive(1, Message::PingReq { target: unknown, probe_number: 1 }, Vec::new());
    assert_eq!(alone.detector.foca.iter_membership_state().count(), 3);
    assert_eq!(alone.detector.known(NodeId(50)), None);
    assert_eq!((alone.sent_to(50), &alone.out.changes), (Vec::new(), &Vec::new()));
    let known = alone.detector.known(NodeId(2)).expect("it is watched");
    assert_eq!(known, Claim::alive(Identity::first(member(2))));
    assert_eq!(alone.out.counters.count("detector_unwatched_target"), 1);
}

#[test]
fn a_suspicion_of_ourselves_is_refuted_to_the_one_who_says_so() {
    let mut alone = Alone::new(8);
    let me = Identity::first(member(0));
    for (claimed, refuted) in [(0, 1), (0, 1), (5, 6), (5, 6)] {
        alone.receive(8, Message::Gossip, vec![Claim::new(me, claimed, State::Suspect)]);
        let answers = alone.sent_to(8);
        let Some(Packet::Gossip { header, .. }) = answers.last() else { panic!("no answer") };
        assert_eq!((header.src, header.src_incarnation), (me, refuted));
    }
    // A suspicion that was refuted before does not count against this member again.
    assert_eq!(alone.detector.around.local.score(), 2);
}

#[test]
fn declared_down_a_member_returns_in_its_next_generation_and_probes_on() {
    for through in ["message", "claim"] {
        let mut alone = Alone::new(2);
        let me = Identity::first(member(0));
        match through {
            "message" => alone.receive(1, Message::TurnUndead, Vec::new()),
            _ => alone.receive(1, Message::Gossip, vec![Claim::down(me)]),
        }
        let answers = alone.sent_to(1);
        let Some(Packet::Gossip { header, .. }) = answers.last() else { panic!("no answer") };
        assert_eq!(header.src, Identity { generation: 1, ..me });
        let is_probing = |detector: &Detector| detector.deadline() <= alone.now + ms(180);
        assert!(is_probing(&alone.detector), "{through}");
        let (_, health) = alone.until_change();
        assert_eq!(health, Health::Suspect, "{through}");
    }
}

#[test]
fn a_later_generation_that_others_take_us_for_is_overtaken() {
    for through in ["claim", "ping"] {
        let mut alone = Alone::new(2);
        let me = Identity::first(member(0));
        let mut name = |generation: u32, from: u32| {
            let named = Identity { generation, ..me };
            match through {
                "claim" => alone.receive(from, Message::Gossip, vec![Claim::alive(named)]),
                _ => alone.receive_for(named, from, Message::Ping(1), Vec::new()),
            }
            let answers = alone.sent_to(from);
            let Some(Packet::Gossip { header, .. }) = answers.last() else { panic!("no answer") };
            header.src
        };
        assert_eq!(name(7, 1), Identity { generation: 8, ..me }, "{through}");
        assert_eq!(name(7, 2), Identity { generation: 8, ..me }, "{through}");
        assert_eq!(name(1032, 1), Identity { generation: 1033, ..me }, "{through}");
        // No honest member believes that: there would be few generations left.
        for far in [2058, u32::MAX - 1, u32::MAX] {
            assert_eq!(name(far, 1), Identity { generation: 1033, ..me }, "{through}");
        }
        assert_eq!(alone.out.counters.count("detector_generation_overtaken"), 2);
        let (_, health) = alone.until_change();
        assert_eq!(health, Health::Suspect, "it probes on");
    }
}

#[test]
fn a_generation_far_ahead_of_what_the_member_says_is_not_believed() {
    let mut alone = Alone::new(3);
    let named = |generation| Identity { generation, ..Identity::first(member(2)) };
    for generation in [1025, u32::MAX] {
        alone.receive(1, Message::Gossip, vec![Claim::down(named(generation))]);
    }
    assert_eq!(alone.detector.known(NodeId(2)), Some(Claim::alive(named(0))));
    assert_eq!(alone.out.counters.count("detector_generation_ahead"), 2);
    alone.receive(1, Message::Gossip, vec![Claim::down(named(1024))]);
    assert_eq!(alone.detector.health(NodeId(2)), Some(Health::Down));
}
