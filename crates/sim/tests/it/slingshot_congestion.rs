//! Congestion control of the multicast: one slow link, a shared bottleneck, receivers that come,
//! go, or fall behind.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, Lane, LinkFaults, NodeId, Payload, View};
use paceline_proto::slingshot::{Command, Config, Event, Follow, Message, RateControl, Slingshot};
use paceline_sim::{
    Fault, FaultSupport, Multicast, NetworkConfig, Observer, Overhead, Reply, Sim, SimConfig,
};

const G: GroupId = GroupId(0);
const MBIT: u64 = 1_000_000;
/// Payload of a packet, and its bytes with the head.
const PAYLOAD_BYTES: u32 = 1_300;
const PACKET_BYTES: f64 = 1_325.0;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Repairs are off: what receivers send each other is not controlled, and would take a third of the
/// slow link.
fn config(members: u32) -> Config {
    let roster = View::roster((0..members).map(NodeId::from));
    Config::new(roster)
        .with_repairs(false)
        .with_pull(None)
        .with_heartbeat_after(None)
        .with_rate_control(RateControl::Tfmcc)
}

/// Links of 100 Mbit/s, but for those of these nodes.
fn sim(config: Config, slow: &[(u32, u64)], tagged: &[u32]) -> Sim<'static, Slingshot> {
    let config = config.build().expect("within the ranges");
    let mut sim_config = SimConfig::new(config.roster().len(), 1);
    sim_config.datagram_bytes_max = 1_440;
    sim_config.faults = FaultSupport::Any;
    sim_config.network = NetworkConfig {
        rate_bits_per_second: Some(100 * MBIT),
        port_rates: slow.iter().map(|&(node, rate)| (NodeId::from(node), rate)).collect(),
        overhead: Overhead::None,
        queue_bytes_max: Some(64 << 10),
        multicast: Multicast::Native,
        link: LinkFaults { delay: Duration::from_millis(2), ..LinkFaults::default() },
        ..NetworkConfig::default()
    };
    let (shared, tagged) = (config.clone(), tagged.to_vec());
    Sim::new(sim_config, Arc::new(config), move |node| {
        let is_tagged = tagged.iter().any(|&tagged| NodeId::from(tagged) == node);
        Slingshot::new(&shared.clone().with_followed(is_tagged))
    })
}

/// Applications that always have something to send, and what they see.
#[derive(Default)]
struct Load {
    /// Bytes of packets that each node sent, and the receivers that it reported slow.
    sent: Vec<u64>,
    pulses: u64,
    reports: u64,
    delivered: u64,
    slow: Vec<(NodeId, NodeId)>,
}

fn packet() -> Command {
    Command::Multicast { group: G, payload: Payload::Zeros(PAYLOAD_BYTES), ticket: 1 }
}

impl Observer<Slingshot> for Load {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<Slingshot>) {
        match event {
            Event::Sent { .. } => reply.command(Duration::ZERO, node, packet()),
            Event::Slow { member, .. } => self.slow.push((node, *member)),
            Event::Delivered { .. } => self.delivered += 1,
            _ => {}
        }
    }

    fn on_send_group(&mut self, _: Instant, from: NodeId, _: GroupId, message: &Message) {
        match message {
            Message::Data(data) => {
                let place = from.index();
                self.sent.resize(self.sent.len().max(place + 1), 0);
                self.sent[place] += 25 + data.payload.len() as u64;
            }
            Message::Pulse(_) => self.pulses += 1,
            _ => {}
        }
    }

    fn on_send(&mut self, _: Instant, _: NodeId, _: NodeId, _: Lane, message: &Message) {
        self.reports += u64::from(matches!(message, Message::Report(_)));
    }
}

impl Load {
    fn start(sim: &mut Sim<'_, Slingshot>, sender: u32) {
        (0..8).for_each(|_| sim.command_at(at(10), NodeId::from(sender), packet()));
    }

    /// Runs until this time, and gives the bytes a second that each node sent meanwhile.
    fn rates(&mut self, sim: &mut Sim<'_, Slingshot>, until: Instant) -> Vec<f64> {
        let (before, since) = (self.sent.clone(), sim.now());
        sim.run_until(until, self);
        let seconds = until.since(since).as_secs_f64();
        let before = before.into_iter().chain(std::iter::repeat(0));
        self.sent.iter().zip(before).map(|(&now, before)| (now - before) as f64 / seconds).collect()
    }
}

/// One of eight receivers is behind 10 Mbit/s.
#[test]
fn the_rate_settles_at_that_of_the_slowest_link() {
    let mut sim = sim(config(9), &[(8, 10 * MBIT)], &[]);
    let mut load = Load::default();
    Load::start(&mut sim, 0);
    load.rates(&mut sim, at(3_000));
    let full = sim.counters().count("sim_queue_full");
    let rate = load.rates(&mut sim, at(23_000))[0];
    let full = (sim.counters().count("sim_queue_full") - full) as f64;
    let lost = full * PACKET_BYTES / (20.0 * rate);
    println!("{rate:.0} bytes a second, {lost:.4} of the packets lost at the slow link");
    assert!((0.8..=1.0).contains(&(rate / 1_250_000.0)), "{rate}");
    assert!(lost < 0.02, "{lost} of the packets");
    assert_eq!(sim.node(NodeId(0)).limiting_receiver(G), Some(NodeId(8)));
    assert!(load.slow.is_empty());
}

/// With repairs and the second phase the same link carries these as well: nothing is lost that they
/// do not bring back.
#[test]
fn the_rate_leaves_room_for_repairs() {
    let roster = View::roster((0..9).map(NodeId::from));
    let config = Config::new(roster).with_rate_control(RateControl::Tfmcc);
    let mut sim = sim(config, &[(8, 10 * MBIT)], &[]);
    let mut load = Load::default();
    Load::start(&mut sim, 0);
    load.rates(&mut sim, at(3_000));
    let (delivered, lost) = (load.delivered, sim.counters().count("slingshot_lost"));
    let rate = load.rates(&mut sim, at(13_000))[0];
    let lost = sim.counters().count("slingshot_lost") - lost;
    let lost = lost as f64 / (load.delivered - delivered) as f64;
    println!("{rate:.0} bytes a second, {lost:.5} of the packets lost for good");
    // Three repairs for each eight packets.
    assert!((0.8..=1.0).contains(&(rate * 11.0 / 8.0 / 1_250_000.0)), "{rate}");
    assert!(lost < 0.001, "{lost}");
}

/// Two senders, and one receiver whose link is slower than theirs.
#[test]
fn two_senders_share_a_bottleneck() {
    let mut sim = sim(config(3), &[(2, 10 * MBIT)], &[]);
    let mut load = Load::default();
    Load::start(&mut sim, 0);
    (0..8).for_each(|_| sim.command_at(at(2_000), NodeId(1), packet()));
    load.rates(&mut sim, at(10_000));
    let rates = load.rates(&mut sim, at(40_000));
    println!("{rates:?}");
    let ratio = rates[0] / rates[1];
    assert!((0.5..=2.0).contains(&ratio), "{rates:?}");
    // What is sent, of which some is lost at the bottleneck.
    assert!((0.8..=1.05).contains(&((rates[0] + rates[1]) / 1_250_000.0)), "{rates:?}");
}

#[test]
fn the_rate_rises_once_the_slow_receiver_is_gone() {
    for crashes in [true, false] {
        let mut sim = sim(config(9), &[(8, 10 * MBIT)], &[]);
        let mut load = Load::default();
        Load::start(&mut sim, 0);
        let before = load.rates(&mut sim, at(6_000))[0];
        if crashes {
            sim.fault_at(at(6_000), Fault::Crash(NodeId(8)));
        } else {
            let members: Arc<[NodeId]> = (0..8u32).map(NodeId::from).collect();
            for node in 0..9u32 {
                let members = members.clone();
                let command = Command::Members { group: G, members };
                sim.command_at(at(6_000), NodeId::from(node), command);
            }
        }
        load.rates(&mut sim, at(8_000));
        let after = load.rates(&mut sim, at(14_000))[0];
        println!("crashes {crashes}: {before}, then {after}");
        assert!(after > 4.0 * before, "crashes {crashes}: {before}, then {after}");
        assert_ne!(sim.node(NodeId(0)).limiting_receiver(G), Some(NodeId(8)));
    }
}

/// The least rate is 1 Mbit/s by default.
#[test]
fn a_receiver_that_is_too_slow_is_named_and_does_not_slow_the_others() {
    let mut sim = sim(config(9), &[(8, MBIT / 10)], &[]);
    let mut load = Load::default();
    Load::start(&mut sim, 0);
    load.rates(&mut sim, at(20_000));
    let rate = load.rates(&mut sim, at(30_000))[0];
    println!("{rate} {:?}", load.slow);
    assert_eq!(load.slow, [(NodeId(0), NodeId(8))]);
    assert!(rate > 6_000_000.0, "{rate}");
}

#[test]
fn the_fastest_or_the_tagged_receivers_are_followed() {
    for (follow, least, most) in
        [(Follow::Slowest, 0.8, 1.0), (Follow::Fastest, 5.0, 10.0), (Follow::Tagged, 3.0, 5.0)]
    {
        let slow = [(7, 40 * MBIT), (8, 10 * MBIT)];
        let mut sim = sim(config(9).with_follow(follow), &slow, &[3, 7]);
        let mut load = Load::default();
        Load::start(&mut sim, 0);
        load.rates(&mut sim, at(6_000));
        let rate = load.rates(&mut sim, at(14_000))[0] / 1_250_000.0;
        println!("{follow:?}: {rate}");
        assert!((least * 0.8..=most).contains(&rate), "{follow:?}: {rate}");
    }
}

#[test]
fn a_large_group_reports_little() {
    let mut sim = sim(config(65), &[(40, 20 * MBIT)], &[]);
    let mut load = Load::default();
    Load::start(&mut sim, 0);
    load.rates(&mut sim, at(5_000));
    let (pulses, reports) = (load.pulses, load.reports);
    let rate = load.rates(&mut sim, at(15_000))[0];
    let reports = (load.reports - reports) as f64 / (load.pulses - pulses) as f64;
    println!("{rate}, {reports} reports a pulse");
    assert!((0.8..=1.0).contains(&(rate / 2_500_000.0)), "{rate}");
    assert!(reports < 5.0, "{reports} of 64 receivers answer each Pulse");
}

#[test]
fn without_congestion_control_there_is_no_pulse_and_an_idle_sender_is_silent() {
    let mut fixed = sim(config(9).with_rate_control(RateControl::Fixed), &[], &[]);
    let mut load = Load::default();
    fixed.command_at(at(10), NodeId(0), Command::multicast(Payload::Zeros(100_000)));
    fixed.run_until(at(5_000), &mut load);
    assert_eq!((load.pulses, load.reports, load.delivered), (0, 0, 8));
    // One message, and then nothing: no Pulse, no report, no timer.
    let mut idle = sim(config(9), &[], &[]);
    let mut load = Load::default();
    idle.command_at(at(10), NodeId(0), Command::multicast(Payload::Zeros(100_000)));
    idle.run_until(at(5_000), &mut load);
    let (pulses, handled) = (load.pulses, idle.events_handled());
    assert!(pulses > 0 && load.delivered == 8);
    idle.run_until(at(100_000), &mut load);
    assert_eq!((load.pulses, idle.events_handled()), (pulses, handled));
}
