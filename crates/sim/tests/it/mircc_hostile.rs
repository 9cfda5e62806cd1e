//! Dishonest neighbours: an honest consumer behind the same forwarder and the same link keeps most
//! of its share, and the forwarder keeps its bounds.

use crate::mircc_lies;

use std::sync::Arc;
use std::time::Duration;

use paceline_check::checkers::mircc::MirccLedger;
use paceline_check::{Tamper, Wrapped};
use paceline_proto::core::{
    Context, Instant, Lane, NodeId, Payload, Rng, decode_exact, encode_to_bytes,
};
use paceline_proto::mircc::{
    Command, Config, Event, FaceConfig, Fetch, Forwarder, Object, Setup, Timer,
};
use paceline_proto::ndn::{
    Body, Class, Data, Header, Interest, Meta, NackReason, Name, Packet, PathLabel, Signer, Trust,
};
use paceline_sim::{Observer, Reply, Sim, SimConfig, Wires};

paceline_proto::counters! {
    /// What the driver of faces would count.
    COUNTERS = "faces" {
        /// Not decodable.
        UNDECODABLE = "faces_undecodable", [datagrams];
    }
}

const HONEST: NodeId = NodeId(0);
const ATTACKER: NodeId = NodeId(1);
const FIRST: NodeId = NodeId(2);
const SECOND: NodeId = NodeId(3);
const PRODUCER: NodeId = NodeId(4);
/// Says nothing.
const SILENT: NodeId = NodeId(5);

/// What an honest consumer gets alone, bit/s of Data.
const ALONE: f64 = 9.5e6;

/// The last segment of what the attacker leads to.
const BAD_FINAL: u64 = 1 << 20;

/// When the attack begins, and when it is over: seconds.
const BEGINS_S: u64 = 2;
const ENDS_S: u64 = 22;

/// What the attacker does, every millisecond or with each packet that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    /// Sends nothing but what an honest consumer would.
    None,
    /// Requests this many names that do not exist.
    Flood(u32),
    /// The same, of the secondary class.
    FloodSecondary(u32),
    /// Names to which any Data would be an answer, with the most components allowed.
    FloodPrefixes(u32),
    /// Interests that may go one hop, or two.
    FloodHops(u32),
    /// Interests without a route, or with a path label that no node assigned.
    FloodLabels(u32),
    /// Unsolicited Data.
    Unsolicited(u32),
    /// Refuses what the honest consumer asks for.
    ForgeNacks(u32),
    /// Datagrams that say false things of their own lengths.
    Malformed(u32),
    /// Asks for names that a node answers for which says nothing.
    FloodSilent(u32),
    /// What the node does that the attacker asks.
    Silence,
    /// Says of itself that it is very near, or very far.
    NearTrip,
    FarTrip,
    /// Says that its path has twelve hops.
    LongLabel,
    /// As the next hop for a name: gives Data that is not signed as it says.
    WrongDigest,
    /// As the next hop for a name: stamps this on Data.
    Stamp(u64),
    /// As the next hop for a name: sends every Interest back.
    Loop,
}

struct Attacker {
    attack: Attack,
    number: u64,
    fired: bool,
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

impl Attacker {
    fn packets(&mut self, rng: &mut Rng, out: &mut Vec<Packet>) {
        let count = match self.attack {
            Attack::Flood(count)
            | Attack::FloodSecondary(count)
            | Attack::FloodPrefixes(count)
            | Attack::FloodHops(count)
            | Attack::FloodLabels(count)
            | Attack::FloodSilent(count)
            | Attack::Unsolicited(count)
            | Attack::ForgeNacks(count) => count,
            _ => 0,
        };
        for _ in 0..count {
            self.number += 1;
            out.push(self.packet(rng));
        }
    }

    fn packet(&self, rng: &mut Rng) -> Packet {
        let number = self.number;
        let mut interest = Interest::new(name("/p/none").with_segment(number), rng.next_u32());
        let mut header = Header::default();
        match self.attack {
            Attack::FloodSecondary(_) => header.class = Class::Secondary,
            Attack::FloodPrefixes(_) => {
                let mut long = name("/p");
                for part in 0..60 {
                    long = long.generic(&[part, number as u8]).expect("not too long");
                }
                interest.name = long.generic(&number.to_be_bytes()).expect("not too long");
                interest.can_be_prefix = true;
            }
            Attack::FloodHops(_) => interest.hop_limit = Some(1 + (number % 2) as u8),
            Attack::FloodSilent(_) => interest.name = name("/silent").with_segment(number),
            Attack::FloodLabels(_) if number.is_multiple_of(2) => {
                interest.name = name("/q").with_segment(number);
            }
            Attack::FloodLabels(_) => {
                header.label.push_front(std::num::NonZeroU16::MIN);
            }
            Attack::Unsolicited(_) => {
                let name = name("/p/0").with_segment(number % 30_000);
                let content = Payload::Zeros(1_000);
                return Packet::from(Data::new(name, Meta::default(), content, &Signer::Null));
            }
            Attack::ForgeNacks(_) => {
                interest.name = name("/p/0").with_segment(number % 30_000);
                let body = Body::Nack(NackReason::NoRoute, Box::new(interest));
                return Packet { header, body };
            }
            _ => {}
        }
        Packet { header, body: Body::Interest(interest) }
    }

    /// What a driver makes of a datagram with false lengths; none if it drops it.
    fn malformed(&mut self, rng: &mut Rng) -> Option<Packet> {
        self.number += 1;
        let prefix = name(if self.number.is_multiple_of(2) { "/p/none" } else { "/p/0" });
        let bytes = mircc_lies::lying(rng, prefix.with_segment(self.number % 30_000));
        let packet: Packet = decode_exact(bytes).ok()?;
        // What goes on from here is read there as the same.
        let again = encode_to_bytes(&packet);
        assert_eq!(decode_exact::<Packet>(again).as_ref(), Ok(&packet));
        Some(packet)
    }

    /// What it answers an Interest with that was passed on to it.
    fn answer(&self, interest: &Interest) -> Option<Packet> {
        let content = Payload::Zeros(1_000);
        let meta = Meta { final_segment: Some(BAD_FINAL), ..Meta::default() };
        let mut packet = match self.attack {
            Attack::WrongDigest => {
                // The digest is that of another one.
                let data = Data::new(interest.name.clone(), meta, content, &Signer::Digest);
                let mut bytes = data.to_bytes().to_vec();
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
                let decoded: Packet = decode_exact(bytes.into()).expect("it is a Data");
                decoded
            }
            Attack::Stamp(_) => {
                Packet::from(Data::new(interest.name.clone(), meta, content, &Signer::Digest))
            }
            Attack::Loop => Packet::from(interest.clone()),
            _ => return None,
        };
        if let Attack::Stamp(stamp) = self.attack {
            packet.header.stamps.primary_bits_per_second = stamp;
            packet.header.stamps.secondary_bits_per_second = stamp;
            packet.header.join_rates.push_front(Some(stamp));
        }
        Some(packet)
    }
}

impl Tamper<Forwarder> for Attacker {
    fn admits(
        &mut self,
        _: &mut Forwarder,
        cx: &mut Context<'_, Forwarder>,
        from: NodeId,
        packet: &mut Box<Packet>,
    ) -> usize {
        if self.attack == Attack::Silence {
            return 0;
        }
        let Body::Interest(interest) = &packet.body else { return 1 };
        if let Some(answer) = self.answer(interest) {
            cx.send(from, Lane::Datagram, Box::new(answer));
            return 0;
        }
        1
    }

    fn tamper(&mut self, _: &mut Forwarder, cx: &mut Context<'_, Forwarder>) {
        for send in &mut cx.outbox.sends {
            let header = &mut send.message.header;
            match self.attack {
                Attack::NearTrip => header.round_trip_micros = Some(0),
                Attack::FarTrip => header.round_trip_micros = Some(u32::MAX),
                Attack::LongLabel => {
                    let hop = std::num::NonZeroU16::MIN;
                    header.label = PathLabel::of_hops(&[hop; PathLabel::HOPS_MAX]);
                }
                _ => {}
            }
        }
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        if cx.now == Instant::ZERO {
            return cx.set_timer(Duration::from_secs(BEGINS_S), Timer::Local);
        }
        if self.fired && cx.now < at(ENDS_S) {
            self.fired = false;
            let mut packets = Vec::new();
            self.packets(cx.rng, &mut packets);
            if let Attack::Malformed(count) = self.attack {
                for _ in 0..count {
                    match self.malformed(cx.rng) {
                        Some(packet) => packets.push(packet),
                        None => cx.count(UNDECODABLE, 1),
                    }
                }
            }
            for packet in packets {
                cx.send(FIRST, Lane::Datagram, Box::new(packet));
            }
            cx.set_timer(Duration::from_millis(1), Timer::Local);
        }
    }

    fn fires(&mut self, _: &mut Forwarder, _: &mut Context<'_, Forwarder>, timer: Timer) -> bool {
        self.fired |= timer == Timer::Local;
        true
    }
}

/// What came of an attack.
struct Outcome {
    /// What the honest consumer got while it lasted, as a share of what it would alone.
    honest: f64,
    pending_max: usize,
    counters: Vec<(&'static str, u64)>,
}

impl Outcome {
    fn count(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| *known == name).map_or(0, |&(_, count)| count)
    }
}

#[derive(Default)]
struct Watch {
    bytes: u64,
    pending_max: usize,
}

impl Observer<Wrapped<Forwarder>> for Watch {
    fn on_event(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &Event,
        _: &mut Reply<Wrapped<Forwarder>>,
    ) {
        let during = BEGINS_S..ENDS_S;
        if let Event::Segment { flow: 0, link_bytes, .. } = event
            && node == HONEST
            && during.contains(&(at.as_nanos() / 1_000_000_000))
        {
            self.bytes += *link_bytes as u64;
        }
    }

    fn after_call(
        &mut self,
        _: Instant,
        node: NodeId,
        protocol: &Wrapped<Forwarder>,
        _: &mut Reply<Wrapped<Forwarder>>,
    ) {
        if node == FIRST {
            let pending = protocol.node().pending();
            self.pending_max = self.pending_max.max(pending);
        }
    }
}

fn run(attack: Attack, config: Config) -> Outcome {
    let mut setups = vec![Setup::default(); 6];
    let mut wires = Wires::new();
    let mut link = |one: NodeId, other: NodeId, mbit: u64, millis| {
        let face = FaceConfig::of_rate(mbit * 1_000_000);
        setups[one.index()].faces.push((other, face));
        setups[other.index()].faces.push((one, face));
        setups[one.index()].routes.push((Name::root(), other, 1));
        wires.join(one, other, Duration::from_millis(millis));
    };
    link(HONEST, FIRST, 100, 1);
    link(ATTACKER, FIRST, 100, 1);
    link(FIRST, SECOND, 10, 5);
    link(SECOND, PRODUCER, 100, 1);
    link(SECOND, SILENT, 100, 1);
    setups[SECOND.index()].routes = vec![(name("/p"), PRODUCER, 1), (name("/silent"), SILENT, 1)];
    setups[FIRST.index()].routes.push((name("/bad"), ATTACKER, 1));
    let object = |uri| Object {
        name: name(uri),
        content: Payload::Zeros(30_000_000),
        segment_bytes: 1_000,
        freshness: None,
    };
    setups[PRODUCER.index()].objects = vec![object("/p/0"), object("/p/own")];
    let config = Config { signer: Signer::Digest, ..config };
    config.check().expect("within the ranges");
    let sim_config = SimConfig::of_forwarders(6, 1, wires);
    // What the attacker gives is true to its name, or not signed as it says.
    let mut published = setups.clone();
    published[PRODUCER.index()].objects.push(Object {
        content: Payload::Zeros((BAD_FINAL as u32 + 1) * 1_000),
        ..object("/bad/1")
    });
    let ledger = MirccLedger::new(&config, published, [ATTACKER, SILENT]);
    let make = |node: NodeId| {
        let attack = match node {
            ATTACKER => Some(attack),
            SILENT => Some(Attack::Silence),
            _ => None,
        };
        let attacker = attack.map(|attack| Attacker { attack, number: 0, fired: false });
        let forwarder = Forwarder::new(setups[node.index()].clone(), &config);
        Wrapped::new(forwarder, attacker)
    };
    let mut sim = Sim::new(sim_config, Arc::new(config.clone()), make);
    let mut fetch = |at: u64, node, flow, uri| {
        let fetch = Fetch { trust: Trust::Digest, ..Fetch::new(flow, name(uri)) };
        let at = Instant::from_nanos(at * 1_000_000_000);
        sim.command_at(at, node, Command::Fetch(fetch));
    };
    fetch(0, HONEST, 0, "/p/0");
    match attack {
        Attack::None | Attack::NearTrip | Attack::FarTrip | Attack::LongLabel => {
            fetch(BEGINS_S, ATTACKER, 0, "/p/own");
        }
        Attack::WrongDigest | Attack::Stamp(_) | Attack::Loop => {
            fetch(BEGINS_S, HONEST, 1, "/bad/1");
        }
        _ => {}
    }
    let mut observer = (ledger, Watch::default());
    sim.run_until(Instant::from_nanos(ENDS_S * 1_000_000_000), &mut observer);
    assert_eq!(observer.0.violation(), None, "{attack:?}");
    let seconds = (ENDS_S - BEGINS_S) as f64;
    let outcome = Outcome {
        honest: observer.1.bytes as f64 * 8.0 / seconds / ALONE,
        pending_max: observer.1.pending_max,
        counters: sim.counters().sorted(),
    };
    let Outcome { honest, pending_max, counters } = &outcome;
    println!("{attack:?}: {honest:.3}, {pending_max} pending, {counters:?}");
    outcome
}

/// Each counted by one of these.
fn holds(attack: Attack, share: f64, counted: &[&str]) {
    holds_with(attack, share, counted, Config::default());
}

fn holds_with(attack: Attack, share: f64, counted: &[&str], config: Config) {
    let pending_max = config.pending_max;
    let outcome = run(attack, config);
    assert!(outcome.honest >= 0.8 * share, "{attack:?}: {:.3} of {share}", outcome.honest);
    assert!(outcome.pending_max <= pending_max, "{attack:?}: {} pending", outcome.pending_max);
    for name in counted {
        assert!(outcome.count(name) > 0, "{attack:?}: no {name} in {:?}", outcome.counters);
    }
}

#[test]
fn a_consumer_that_plays_by_the_rules_gets_its_half() {
    holds(Attack::None, 0.5 / 0.8, &[]);
}

#[test]
fn a_flood_of_names_that_there_are_not_is_stopped_where_it_comes_in() {
    for count in [1, 5, 50] {
        holds(Attack::Flood(count), 1.0, &["mircc_deprioritized"]);
        holds(Attack::FloodSecondary(count), 1.0, &["mircc_deprioritized"]);
    }
    holds(Attack::FloodPrefixes(5), 1.0, &["mircc_deprioritized"]);
}

#[test]
fn interests_that_cannot_get_far_do_no_harm() {
    holds(Attack::FloodHops(20), 1.0, &["mircc_hop_limit"]);
    holds(Attack::FloodLabels(20), 1.0, &["mircc_unknown_label"]);
}

#[test]
fn interests_that_nobody_answers_are_bounded_and_then_few() {
    for count in [1, 20] {
        holds(Attack::FloodSilent(count), 1.0, &["mircc_refused_face", "mircc_expired"]);
    }
}

#[test]
fn a_table_that_overflows_keeps_room_for_who_asks_for_little() {
    let config = |pending_max| Config { pending_max, ..Config::default() };
    holds_with(Attack::Flood(20), 1.0, &["mircc_refused_face"], config(400));
    // Of a table of 30 it may have 20, and the honest one, which needs 21 alone, a third at least:
    // that is its share.
    for attack in [Attack::Flood(20), Attack::FloodSilent(20)] {
        holds_with(attack, 10.0 / 21.0, &["mircc_refused_face", "mircc_refused_full"], config(30));
    }
}

#[test]
fn datagrams_that_lie_about_their_lengths_are_dropped_or_read_as_what_they_are() {
    let counted = ["faces_undecodable", "mircc_unsolicited", "mircc_unsolicited_nack"];
    holds(Attack::Malformed(20), 1.0, &counted);
}

#[test]
fn data_and_refusals_that_nobody_waits_for_are_dropped() {
    holds(Attack::Unsolicited(5), 1.0, &["mircc_unsolicited"]);
    holds(Attack::ForgeNacks(20), 1.0, &["mircc_unsolicited_nack"]);
}

#[test]
fn a_false_round_trip_or_label_changes_little() {
    for attack in [Attack::NearTrip, Attack::FarTrip, Attack::LongLabel] {
        holds(attack, 0.5, &[]);
    }
}

#[test]
fn a_false_next_hop_harms_only_who_asks_it() {
    holds(Attack::WrongDigest, 1.0, &[]);
    holds(Attack::Loop, 1.0, &[]);
    for stamp in [0, 1, u64::MAX, u64::MAX - 1] {
        holds(Attack::Stamp(stamp), 1.0, &[]);
    }
}
