//! The bug planted for each promise of named data at a fair rate is caught.
//!
//! Every node has the bug. `Sabotage` tampers with what goes into an honest node and what comes
//! out, or the node has another configuration than the ledger; scenarios are drawn as for the
//! seeds.

use crate::mircc_swarm;

use std::sync::Arc;
use std::time::Duration;

use mircc_swarm::{Scenario, object_name};
use paceline_check::checkers::mircc::{MirccLedger, Node, Rule, Share};
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{
    Context, Instant, Lane, LinkFaults, Loss, NodeId, Outgoing, Payload, Wire, mix,
};
use paceline_proto::mircc::{
    Command, Config, Event, FaceConfig, Fetch, FlowCounts, Forwarder, Object, Pace, Setup, Timer,
};
use paceline_proto::ndn::{Body, Class, Data, NackReason, Name, Packet, Signer, Stamps, Trust};
use paceline_sim::{Fault, FaultSupport, Sim, SimConfig, Wires};

/// What nodes do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The link out is taken for twice as fast as it is.
    FastLink,
    /// A packet now and then is thrown away, and counted nowhere.
    LoseSilently,
    /// Of what waits for the link there is no end.
    LongQueue,
    /// Nor of Interests that wait for room for their Data.
    LongShaper,
    /// Interests leave for three times the Data that the link carries.
    FastShaper,
    /// Data goes to who asked, twice.
    ForwardTwice,
    /// Data goes to a neighbour who did not ask as well.
    ForwardToAll,
    /// An Interest is refused that was passed on as well.
    RefuseAnyway,
    /// Pending Interests are never looked at.
    NeverExpire,
    /// There may be more of them than was configured.
    ManyPending,
    /// A stamp is raised on its way.
    RaiseStamp,
    /// The face's own rate is not looked at: stamps go on as they came.
    KeepStamp,
    /// Every stamp is more than any link here carries.
    AbsurdStamp,
    ZeroStamp,
    /// Consumers take stamps for twice what they are.
    PaceTwice,
    /// And their own limit for none.
    ForgetLimit,
    TellTwice,
    AlterContent,
    /// A segment is delivered with the content of the one before.
    WrongContent,
    DropSegment,
    /// A fetch is reported complete when it is not.
    EndEarly,
    /// Interests are not known again by their nonces.
    ForgetNonces,
    /// In the queue the two classes are one.
    OneClass,
    /// A packet that comes now and then is not looked at, and counted nowhere.
    IgnoreSilently,
    /// The store keeps more than was configured.
    LargeStore,
    /// Flows do not look what was lost.
    NeverResend,
    /// A timer is set again for ever.
    RearmForEver,
}

struct Sabotage {
    bug: Bug,
    seen: u64,
    /// Neighbours that this node heard of.
    peers: Vec<NodeId>,
    kept: Option<Data>,
    /// What the Data was stamped with that this call is about.
    came: Option<Stamps>,
    is_consumer: bool,
    /// Whether the timer that is set for ever was set, and has fired.
    rearmed: Option<bool>,
}

impl Sabotage {
    fn new(bug: Bug) -> Sabotage {
        let (peers, kept, came) = (Vec::new(), None, None);
        Sabotage { bug, seen: 0, peers, kept, came, is_consumer: false, rearmed: None }
    }

    fn often(&mut self, every: u64) -> bool {
        self.seen += 1;
        self.seen.is_multiple_of(every)
    }

    fn tamper_with_sends(&mut self, sends: &mut Vec<Outgoing<Box<Packet>>>) {
        match self.bug {
            Bug::LoseSilently => sends.retain(|_| !self.often(50)),
            Bug::ForwardTwice => {
                let again = sends.iter().find(|send| matches!(send.message.body, Body::Data(_)));
                sends.extend(again.cloned());
            }
            Bug::ForwardToAll => {
                let data = sends.iter().find(|send| matches!(send.message.body, Body::Data(_)));
                if let Some(send) = data.cloned()
                    && let Some(&to) = self.peers.iter().find(|&&peer| peer != send.to)
                {
                    sends.push(Outgoing { to, ..send });
                }
            }
            _ => sends.iter_mut().for_each(|send| self.tamper_with_packet(&mut send.message)),
        }
    }

    fn tamper_with_packet(&mut self, packet: &mut Packet) {
        let is_data = matches!(packet.body, Body::Data(_));
        let bytes = packet.wire_len();
        let header = &mut packet.header;
        let stamps = &mut header.stamps;
        let is_stamped = is_data && stamps.primary().is_some();
        match (self.bug, &mut packet.body) {
            (Bug::RaiseStamp, _) if is_stamped => stamps.primary_bits_per_second *= 2,
            (Bug::KeepStamp, _) if is_stamped => {
                let before = std::mem::replace(stamps, self.came.unwrap_or(*stamps));
                if packet.wire_len() != bytes {
                    packet.header.stamps = before;
                }
            }
            (Bug::AbsurdStamp, _) if is_data => stamps.primary_bits_per_second = 1 << 60,
            (Bug::ZeroStamp, _) if is_stamped => stamps.secondary_bits_per_second = 0,
            // What came in with another nonce goes on with the one that it had.
            (Bug::ForgetNonces, Body::Interest(interest)) => interest.nonce &= NONCE,
            (Bug::ForgetNonces, Body::Nack(_, interest)) => interest.nonce &= NONCE,
            (Bug::OneClass, Body::Interest(_)) if header.round_trip_micros == IS_SECONDARY => {
                (header.class, header.round_trip_micros) = (Class::Secondary, None);
            }
            _ => {}
        }
    }

    fn tamper_with_events(&mut self, events: &mut Vec<Event>) {
        match self.bug {
            Bug::TellTwice => {
                let again = events.iter().find(|event| matches!(event, Event::Segment { .. }));
                events.extend(again.cloned());
            }
            Bug::DropSegment => {
                let is_one = |event: &Event| matches!(event, Event::Segment { number: 3, .. });
                events.retain(|event| !is_one(event));
            }
            Bug::EndEarly => {
                let ended = events.iter().find_map(|event| match event {
                    Event::Segment { flow, number: 7, .. } => Some(*flow),
                    _ => None,
                });
                if let Some(flow) = ended {
                    let counts = FlowCounts::default();
                    events.push(Event::Fetched { flow, counts });
                }
            }
            Bug::AlterContent => events.iter_mut().for_each(|event| {
                if let Event::Segment { data, .. } = event {
                    *data = altered(data);
                }
            }),
            Bug::WrongContent => events.iter_mut().for_each(|event| {
                if let Event::Segment { data, .. } = event
                    && let Some(kept) = self.kept.replace(data.clone())
                {
                    *data = kept;
                }
            }),
            _ => {}
        }
    }
}

/// Nonces are drawn from fewer, so that the rest of the bits can tell copies apart.
const NONCE: u32 = 0x00ff_ffff;

/// What a secondary Interest has instead of its class while it waits: a field as long, so that the
/// bytes on links are the same.
const IS_SECONDARY: Option<u32> = Some(0);

fn altered(data: &Data) -> Data {
    let mut content = data.content().to_bytes().to_vec();
    if let Some(first) = content.first_mut() {
        *first ^= 1;
    }
    Data::new(data.name().clone(), *data.meta(), Payload::from(content), &Signer::Null)
}

impl Tamper<Forwarder> for Sabotage {
    fn admits(
        &mut self,
        _: &mut Forwarder,
        _: &mut Context<'_, Forwarder>,
        from: NodeId,
        packet: &mut Box<Packet>,
    ) -> usize {
        if !self.peers.contains(&from) {
            self.peers.push(from);
        }
        match (self.bug, &mut packet.body) {
            (Bug::PaceTwice, Body::Data(_)) if self.is_consumer => {
                let (bytes, before) = (packet.wire_len(), packet.header.stamps);
                packet.header.stamps = Stamps {
                    primary_bits_per_second: before.primary_bits_per_second.saturating_mul(2),
                    secondary_bits_per_second: before.secondary_bits_per_second.saturating_mul(2),
                };
                // Not if that would be seen by the bytes that came.
                if packet.wire_len() != bytes {
                    packet.header.stamps = before;
                }
            }
            (Bug::KeepStamp, Body::Data(_)) => self.came = Some(packet.header.stamps),
            (Bug::IgnoreSilently, _) => return usize::from(!self.often(50)),
            (Bug::ForgetNonces, Body::Interest(interest)) => {
                self.seen += 1;
                interest.nonce = interest.nonce & NONCE | (mix(self.seen) as u32) & !NONCE;
            }
            (Bug::OneClass, Body::Interest(_))
                if packet.header.class == Class::Secondary
                    && packet.header.round_trip_micros.is_none() =>
            {
                let header = &mut packet.header;
                (header.class, header.round_trip_micros) = (Class::Primary, IS_SECONDARY);
            }
            _ => {}
        }
        1
    }

    fn commands(
        &mut self,
        _: &mut Forwarder,
        _: &mut Context<'_, Forwarder>,
        command: &mut Command,
    ) -> bool {
        let Command::Fetch(fetch) = command else { return true };
        self.is_consumer = true;
        if self.bug == Bug::ForgetLimit {
            fetch.bits_per_second_max = None;
        }
        true
    }

    fn fires(&mut self, _: &mut Forwarder, _: &mut Context<'_, Forwarder>, timer: Timer) -> bool {
        if timer == Timer::Local {
            self.rearmed = self.rearmed.map(|_| true);
        }
        match self.bug {
            Bug::NeverExpire => timer != Timer::Pending,
            Bug::NeverResend => !matches!(timer, Timer::Resend(_)),
            _ => true,
        }
    }

    fn tamper(&mut self, _: &mut Forwarder, cx: &mut Context<'_, Forwarder>) {
        if self.bug == Bug::RefuseAnyway {
            let passed = cx.outbox.sends.iter().find_map(|send| match &send.message.body {
                Body::Interest(interest) => Some((send.message.header.clone(), interest.clone())),
                _ => None,
            });
            if let Some((header, interest)) = passed
                && let Some(&to) = self.peers.first()
            {
                let body = Body::Nack(NackReason::NoRoute, Box::new(interest));
                let refusal = Box::new(Packet { header, body });
                for _ in 0..2 {
                    cx.send(to, Lane::Datagram, refusal.clone());
                }
            }
        }
        self.tamper_with_sends(&mut cx.outbox.sends);
        self.tamper_with_events(&mut cx.outbox.events);
        self.came = None;
        if self.bug == Bug::RearmForEver && self.rearmed != Some(false) {
            self.rearmed = Some(false);
            cx.set_timer(Duration::from_secs(10), Timer::Local);
        }
    }
}

/// A node that has the bug, or an honest one.
fn sabotaged(mut setup: Setup, config: &Config, bug: Option<Bug>) -> Wrapped<Forwarder> {
    let mut config = config.clone();
    for (_, face) in &mut setup.faces {
        match bug {
            Some(Bug::FastLink) => {
                face.out_bits_per_second = face.out_bits_per_second.map(|rate| rate * 2);
            }
            Some(Bug::LongQueue) => face.queue_bytes_max = 10 << 20,
            _ => {}
        }
    }
    match bug {
        Some(Bug::FastShaper) => config.shaper.headroom *= 3.0,
        Some(Bug::LongShaper) => config.shaper.queue_max = 10_000,
        Some(Bug::LargeStore) if config.store_bytes_max > 0 => config.store_bytes_max = 100 << 20,
        Some(Bug::ManyPending) => config.pending_max = 1 << 16,
        _ => {}
    }
    let node = Forwarder::new(setup, &config);
    Wrapped::new(node, bug.map(Sabotage::new)).with_shared(config)
}

fn verdict(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let scenario = Scenario::draw(seed);
    let config = scenario.config.clone();
    scenario.run_with(|_, setup| sabotaged(setup, &config, bug)).map(|_| ())
}

#[test]
fn every_planted_bug_is_caught_by_the_rule_it_was_planted_for() {
    let planted = [
        (Bug::FastLink, Rule::Link),
        (Bug::LoseSilently, Rule::Link),
        (Bug::LongQueue, Rule::Link),
        (Bug::LongShaper, Rule::Link),
        (Bug::FastShaper, Rule::Link),
        (Bug::ForwardTwice, Rule::Balance),
        (Bug::ForwardToAll, Rule::Balance),
        (Bug::RefuseAnyway, Rule::Balance),
        (Bug::NeverExpire, Rule::Balance),
        (Bug::ManyPending, Rule::Balance),
        (Bug::RaiseStamp, Rule::Rate),
        (Bug::KeepStamp, Rule::Rate),
        (Bug::AbsurdStamp, Rule::Rate),
        (Bug::ZeroStamp, Rule::Rate),
        (Bug::PaceTwice, Rule::Rate),
        (Bug::ForgetLimit, Rule::Rate),
        (Bug::TellTwice, Rule::Content),
        (Bug::AlterContent, Rule::Content),
        (Bug::WrongContent, Rule::Content),
        (Bug::DropSegment, Rule::Content),
        (Bug::EndEarly, Rule::Content),
        (Bug::ForgetNonces, Rule::Loop),
        (Bug::OneClass, Rule::Priority),
        (Bug::LargeStore, Rule::Memory),
        (Bug::IgnoreSilently, Rule::Counts),
        (Bug::NeverResend, Rule::Completion),
        (Bug::RearmForEver, Rule::Quiescence),
    ];
    seeds::catch_all(planted, verdict);
}

/// Two consumers share a link of 20 Mbit/s, of which one's Interests get lost at this rate. What
/// the link carries, as a share of that, and how much that swings from one round trip to the next.
fn shared(loss: f64) -> Result<(f64, f64), String> {
    let [left, producer, first, second] = [0, 1, 2, 3].map(NodeId);
    let name: Name = "/p".parse().expect("a name");
    let mut setups = vec![Setup::default(); 4];
    let mut wires = Wires::new();
    let mut link = |one: NodeId, other: NodeId, mbit: u64, millis| {
        let face = FaceConfig::of_rate(mbit * 1_000_000);
        setups[one.index()].faces.push((other, face));
        setups[other.index()].faces.push((one, face));
        setups[one.index()].routes.push((name.clone(), other, 1));
        wires.join(one, other, Duration::from_millis(millis));
    };
    link(left, producer, 20, 10);
    link(first, left, 100, 1);
    link(second, left, 100, 1);
    let object = |number| Object {
        name: object_name(number),
        content: Payload::Zeros(20_000_000),
        segment_bytes: 1_000,
        freshness: None,
    };
    setups[producer.index()].objects = vec![object(0), object(1)];
    let config = Config { signer: Signer::Null, ..Config::default() };
    let mut ledger = MirccLedger::new(&config, setups.clone(), None);
    let mut sim_config = SimConfig::of_forwarders(4, 1, wires);
    sim_config.faults = FaultSupport::Any;
    let shared = Arc::new(config.clone());
    let make = |node: NodeId| Forwarder::new(setups[node.index()].clone(), &config);
    let mut sim = Sim::new(sim_config, shared, make);
    let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
    for (number, consumer) in [first, second].into_iter().enumerate() {
        let fetch = Fetch::new(1, object_name(number));
        let fetch = Fetch { trust: Trust::Anything, ..fetch };
        sim.command_at(at(0), consumer, Command::Fetch(fetch));
    }
    let lossy = LinkFaults { loss: Loss::Independent(loss), ..LinkFaults::default() };
    let (from, to) = (Some(vec![second]), Some(vec![left]));
    sim.fault_at(at(1_500), Fault::Link { from, to, link: lossy });
    let round_trip = Duration::from_millis(24);
    ledger.measure(producer, left, round_trip);
    sim.run_until(at(1_000), &mut ledger);
    for consumer in [first, second] {
        ledger.expect_share(at(1_000), consumer, 1, Share { bits_per_second: 9.5e6, round_trip });
    }
    sim.run_until(at(4_000), &mut ledger);
    match ledger.violation() {
        Some(violation) => Err(violation.to_string()),
        None => {
            let used = ledger.used(producer, left).expect("it is measured");
            let (from, until) = (at(2_000), at(4_000));
            Ok((used.bits_per_second(from, until) / 20e6, used.swing(from, until)))
        }
    }
}

#[test]
fn a_flow_whose_interests_get_lost_is_found_to_starve() {
    let found = shared(0.98).expect_err("one in fifty is no tenth of a share");
    assert!(found.starts_with(&Rule::Starvation.to_string()), "{found}");
}

#[test]
fn a_link_that_has_settled_is_full_and_steady() {
    let (full, swings) = shared(0.0).expect("no promise is broken");
    println!("{full} of the link, {swings} from one round trip to the next");
    assert!(full > 0.95 * 0.95 && swings < 0.2, "{full} {swings}");
}

/// A consumer's link to its forwarder is slow, and the consumer does not know which share of it
/// Interests may take. One flow requests more than the link carries, and stops; another one has a
/// limit. Returns what the ledger finds.
fn limited(pace: Pace, bug: Option<Bug>) -> Result<(), String> {
    let [consumer, forwarder, producer] = [0, 1, 2].map(NodeId);
    let name: Name = "/p".parse().expect("a name");
    let mut setups = vec![Setup::default(); 3];
    let mut wires = Wires::new();
    let mut link = |one: NodeId, other: NodeId, out: u64, back: Option<u64>| {
        let ahead = FaceConfig { in_bits_per_second: back, ..FaceConfig::of_rate(out) };
        setups[one.index()].faces.push((other, ahead));
        setups[other.index()].faces.push((one, FaceConfig::of_rate(50_000_000)));
        setups[one.index()].routes.push((name.clone(), other, 1));
        wires.join(one, other, Duration::from_millis(5));
    };
    link(consumer, forwarder, 1_000_000, None);
    link(forwarder, producer, 50_000_000, Some(50_000_000));
    setups[producer.index()].objects = [0, 1]
        .map(|number| Object {
            name: object_name(number),
            content: Payload::Zeros(20_000_000),
            segment_bytes: 1_000,
            freshness: None,
        })
        .to_vec();
    let mut config = Config { signer: Signer::Null, ..Config::default() };
    config.shaper.queue_max = 10;
    let mut ledger = MirccLedger::new(&config, setups.clone(), None);
    let sim_config = SimConfig::of_forwarders(3, 1, wires);
    let shared = Arc::new(config.clone());
    let make = |node: NodeId| sabotaged(setups[node.index()].clone(), &config, bug);
    let mut sim = Sim::new(sim_config, shared, make);
    let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
    for (number, bits_per_second_max) in [(0, Some(1_000_000)), (1, None)] {
        let fetch = Fetch::new(number as u64, object_name(number));
        let fetch = Fetch { trust: Trust::Anything, bits_per_second_max, ..fetch };
        let fetch = if number == 0 { Fetch { pace, ..fetch } } else { fetch };
        sim.command_at(at(0), consumer, Command::Fetch(fetch));
    }
    sim.command_at(at(3_000), consumer, Command::Stop { flow: 1 });
    sim.run_until(at(3_000), &mut ledger);
    let faces = sim.node(consumer).forwarder().faces();
    let waiting = faces.map(|face| face.packets_waiting).sum::<usize>();
    assert!(waiting > 2_000, "{waiting} packets wait");
    sim.run_until(at(8_000), &mut ledger);
    ledger.violation().map_or(Ok(()), |violation| Err(violation.to_string()))
}

#[test]
fn a_flow_keeps_to_its_limit_although_its_interests_leave_a_queue_one_after_another() {
    for pace in [Pace::Rates, Pace::Cubic] {
        assert_eq!(limited(pace, None), Ok(()), "{pace:?}");
    }
    // The ledger does not compare a window with granted rates, so only the limit is broken.
    let found = limited(Pace::Cubic, Some(Bug::ForgetLimit)).expect_err("there is no limit");
    assert!(found.contains("asks for more than 1000000 bit/s"), "{found}");
}
