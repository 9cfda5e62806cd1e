//! Messages of several packets through networks that lose, reorder and duplicate packets, and how
//! many of 1 MiB are whole within their deadline at the tuner's setting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_check::checkers::slingshot::SlingshotLedger;
use paceline_proto::core::{GroupId, Instant, LinkFaults, Loss, NodeId, Payload, View};
use paceline_proto::slingshot::tuner::{Code, Conditions, Messages};
use paceline_proto::slingshot::{Command, Config, Event, Order, Slingshot};
use paceline_sim::{
    Fault, FaultSupport, Multicast, NetworkConfig, Observer, Reply, Sim, SimConfig,
};

/// Of the datagrams: those of Ethernet, without the headers of IP, UDP and the node.
const DATAGRAM_BYTES_MAX: usize = 1_440;
const MIB: usize = 1 << 20;

fn roster(members: u32) -> View {
    View::roster((0..members).map(NodeId::from))
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn payload(bytes: usize, number: usize) -> Payload {
    Payload::from(Vec::from_iter((0..bytes).map(|at| (at * 13 + number) as u8)))
}

fn sim(
    config: &Config,
    members: u32,
    seed: u64,
    network: NetworkConfig,
) -> Sim<'static, Slingshot> {
    let mut sim_config = SimConfig::new(members as usize, seed);
    sim_config.datagram_bytes_max = DATAGRAM_BYTES_MAX;
    sim_config.faults = FaultSupport::Any;
    sim_config.network = network;
    let shared = config.clone();
    Sim::new(sim_config, Arc::new(config.clone()), move |_| Slingshot::new(&shared))
}

/// What members reported of messages.
#[derive(Default)]
struct Told {
    whole: u64,
    late: u64,
    /// Messages of which some packets came, and packets of which nothing else came.
    lost_in_part: u64,
    lost_packets: u64,
    /// How many packets messages lacked that were lost in part.
    missing: BTreeMap<u64, u64>,
}

impl Observer<Slingshot> for Told {
    fn on_event(&mut self, _: Instant, _: NodeId, event: &Event, _: &mut Reply<Slingshot>) {
        match event {
            Event::Delivered { is_late, .. } => {
                self.whole += 1;
                self.late += u64::from(*is_late);
            }
            Event::Lost { came: 0, first, end, .. } => self.lost_packets += end - first,
            Event::Lost { came, first, end, .. } => {
                self.lost_in_part += 1;
                *self.missing.entry(end - first - u64::from(*came)).or_default() += 1;
            }
            _ => {}
        }
    }
}

fn network(loss: Loss, is_rough: bool) -> NetworkConfig {
    let micros = Duration::from_micros;
    let link = match is_rough {
        true => LinkFaults {
            delay: micros(50),
            jitter: micros(300),
            duplicate: 0.05,
            reorder: 0.05,
            reorder_delay: micros(3_000),
            ..LinkFaults::default()
        },
        false => LinkFaults { delay: micros(50), jitter: micros(50), ..LinkFaults::default() },
    };
    NetworkConfig {
        link,
        receive_loss: loss,
        multicast: Multicast::Native,
        ..NetworkConfig::default()
    }
}

/// Every size beside every boundary, through every network, in both orders: the checker knows what
/// each message must be, and that each is delivered or reported lost once.
#[test]
fn messages_of_all_sizes_are_whole_or_reported_lost_whatever_the_network_does() {
    let bursts = |share: f64| {
        let bad_to_good = 0.2;
        let good_to_bad = share * bad_to_good / (1.0 - share);
        Loss::GilbertElliott { good_to_bad, bad_to_good, bad_loss: 1.0 }
    };
    let losses = [
        Loss::None,
        Loss::Independent(0.01),
        Loss::Independent(0.05),
        bursts(0.01),
        bursts(0.05),
        Loss::Independent(0.2),
        bursts(0.2),
    ];
    let mut seed = 0u64;
    for (loss, order) in losses
        .into_iter()
        .flat_map(|loss| [Order::Unordered, Order::Fifo].map(|order| (loss, order)))
    {
        seed += 1;
        let config = Config::new(roster(5)).with_order(order).build().expect("within the ranges");
        let packet = config.payload_bytes_max(DATAGRAM_BYTES_MAX);
        let sizes = [0, 1, packet, packet + 1, 2 * packet, 64 << 10, MIB / 4, MIB];
        let mut sim = sim(&config, 5, seed, network(loss, seed.is_multiple_of(2)));
        // Two senders at once.
        for sender in 0..2 {
            for (number, bytes) in sizes.into_iter().enumerate() {
                let when = at(100 * number as u64 + 7 * u64::from(sender));
                let (group, ticket) = (GroupId(0), number as u64 + 1);
                let payload = payload(bytes, number);
                let command = Command::Multicast { group, payload, ticket };
                sim.command_at(when, NodeId::from(sender), command);
            }
        }
        let mut observers = (SlingshotLedger::new(&config, None), Told::default());
        sim.run_until(at(20_000), &mut observers);
        let (mut ledger, told) = observers;
        ledger
            .check_quiescent(&sim)
            .unwrap_or_else(|broken| panic!("{loss:?} {order:?}: {broken}"));
        println!(
            "{loss:?} {order:?}: of 64 {} whole, {} late, {} lost in part, {} packets alone",
            told.whole, told.late, told.lost_in_part, told.lost_packets
        );
        if loss == Loss::None || loss == Loss::Independent(0.01) {
            assert_eq!((told.whole, told.lost_in_part), (64, 0), "{loss:?} {order:?}");
        }
    }
}

/// The sender of a message crashes in the middle of it: the others report it once and keep
/// nothing.
#[test]
fn a_message_whose_sender_crashes_is_reported_lost_once_at_each_member() {
    for order in [Order::Unordered, Order::Fifo] {
        let config = Config::new(roster(4)).with_order(order).build().expect("within the ranges");
        let mut sim = sim(&config, 4, 1, network(Loss::Independent(0.01), false));
        sim.command_at(at(10), NodeId(0), Command::multicast(payload(100, 0)));
        sim.command_at(at(20), NodeId(0), Command::multicast(payload(MIB, 1)));
        sim.fault_at(at(60), Fault::Crash(NodeId(0)));
        let mut observers = (SlingshotLedger::new(&config, None), Told::default());
        sim.run_until(at(10_000), &mut observers);
        let (mut ledger, told) = observers;
        ledger.check_quiescent(&sim).expect("nothing is kept");
        assert_eq!((told.whole, told.lost_in_part), (3, 3), "{order:?}");
    }
}

/// A member that starts in the middle of a message hears its end, and reports nothing of it.
#[test]
fn a_member_that_starts_in_the_middle_of_a_message_is_told_of_the_next_one() {
    for order in [Order::Unordered, Order::Fifo] {
        let config = Config::new(roster(4)).with_order(order).build().expect("within the ranges");
        let mut sim = sim(&config, 4, 1, network(Loss::Independent(0.01), false));
        sim.fault_at(at(5), Fault::Crash(NodeId(3)));
        for number in 0..2 {
            let command = Command::multicast(payload(MIB / 2, number));
            sim.command_at(at(20 + 100 * number as u64), NodeId(0), command);
        }
        sim.fault_at(at(40), Fault::Restart(NodeId(3)));
        let mut observers = (SlingshotLedger::new(&config, None), Told::default());
        sim.run_until(at(10_000), &mut observers);
        let (mut ledger, told) = observers;
        ledger.check_quiescent(&sim).expect("nothing is missed");
        assert_eq!((told.whole, told.lost_in_part, told.lost_packets), (5, 0, 0), "{order:?}");
    }
}

/// The goal: of messages of 1 MiB at 1 % loss at least 99.9 % are whole within their deadline, at
/// the setting that the tuner chooses for that, by repairs alone.
#[test]
fn at_the_tuners_setting_messages_of_a_mebibyte_are_whole_in_time() {
    const MEMBERS: u32 = 17;
    let messages: u64 = if cfg!(debug_assertions) { 8 } else { 640 };
    let linear = Code::Linear { window: 32 };
    let base = Config::new(roster(MEMBERS)).with_pull(None);
    let (deadline, loss) = (base.deadline(), 0.01);
    let rate = f64::from(base.message_bytes_per_second());
    // With the names of a window in each repair.
    let names = base.clone().with_code(paceline_proto::slingshot::Code::Rlc { window: 32 });
    let packet_bytes = names.payload_bytes_max(DATAGRAM_BYTES_MAX);
    let packets = MIB.div_ceil(packet_bytes - 8) as u32;
    let conditions = Conditions {
        packet_bytes: packet_bytes as f64,
        id_bytes: 10.0,
        ..Conditions::new(MEMBERS, loss, rate / (packet_bytes + 25) as f64)
    };
    let wanted = Messages { packets, share: 0.999, within: deadline };
    let choice = wanted.choose(&conditions, 0.3, &[Code::Xor, linear]).expect("there is time left");
    let choice = choice.expect("it can be met");
    println!("{packets} packets: {choice:?}");
    let expected = wanted.whole(&conditions, &choice);
    let config = base.with_setting(choice.setting).build().expect("within the ranges");
    let mut sim = sim(&config, MEMBERS, 5, network(Loss::Independent(loss), false));
    let whole = payload(MIB, 0);
    for number in 0..messages {
        sim.command_at(at(10 + 250 * number), NodeId(0), Command::multicast(whole.clone()));
    }
    let mut told = Told::default();
    sim.run_until(Instant::MAX, &mut told);
    let all = messages * u64::from(MEMBERS - 1);
    let in_time = (told.whole - told.late) as f64 / all as f64;
    let repairs = sim.counters().count("slingshot_repairs") as f64;
    println!(
        "{}: {} whole, {} late, {} lost in part, {} packets alone, {:?}",
        choice.setting, told.whole, told.late, told.lost_in_part, told.lost_packets, told.missing
    );
    println!(
        "{}: {:.3} % of {all} whole within {deadline:?}, {:.3} % expected; {:.3} repairs a packet",
        choice.setting,
        100.0 * in_time,
        100.0 * expected,
        repairs / (f64::from(packets) * all as f64)
    );
    assert!(in_time >= 0.999, "{in_time}");
}
