//! The tuner against the protocol: predictions match runs, and a member with a target meets it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, LinkFaults, Loss, NodeId, Payload, View};
use paceline_proto::slingshot::tuner::{
    Choice, Code, Conditions, Setting, Target, Unreachable, choose,
};
use paceline_proto::slingshot::{self, Command, Config, Event, How, Pull, Rate, Slingshot};
use paceline_sim::{
    Fault, FaultSupport, Multicast, NetworkConfig, Observer, Reply, Sim, SimConfig,
};

/// One way between members, on average: 50 to 100 microseconds.
const LATENCY: Duration = Duration::from_micros(75);
/// Of a run, at least; so that a share of 95 % is measured to half a point.
const LOSSES_MIN: f64 = 3_000.0;

/// A group whose members send in turn.
#[derive(Clone, Copy)]
struct Group {
    members: u32,
    loss: f64,
    packets_per_second: u32,
    packet_bytes: u32,
}

impl Group {
    fn conditions(&self) -> Conditions {
        Conditions {
            latency: LATENCY,
            packet_bytes: self.packet_bytes.into(),
            id_bytes: 10.0,
            ..Conditions::new(self.members, self.loss, self.packets_per_second.into())
        }
    }

    fn roster(&self) -> View {
        View::roster((0..self.members).map(NodeId::from))
    }

    fn sent_at(&self, packet: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1) * packet as u32 / self.packets_per_second
    }

    /// The members, and their packets of these numbers.
    fn sim(&self, config: Config, packets: u64, seed: u64) -> Sim<'static, Slingshot> {
        let config = config.build().expect("within the ranges");
        let mut sim_config = SimConfig::new(self.members as usize, seed);
        // Room for the names of a window.
        sim_config.datagram_bytes_max = 2_000;
        sim_config.faults = FaultSupport::Any;
        sim_config.network = NetworkConfig {
            link: link(Loss::None),
            receive_loss: Loss::Independent(self.loss),
            multicast: Multicast::Native,
            ..NetworkConfig::default()
        };
        let shared = config.clone();
        let mut sim = Sim::new(sim_config, Arc::new(config), move |_| Slingshot::new(&shared));
        for packet in 0..packets {
            let sender = NodeId::from((packet % u64::from(self.members)) as u32);
            let (group, payload) = (GroupId(0), Payload::Zeros(self.packet_bytes));
            let command = Command::Multicast { group, payload, ticket: 0 };
            sim.command_at(self.sent_at(packet), sender, command);
        }
        sim
    }

    /// What this setting does, alone.
    fn measure(&self, setting: Setting, within: Duration, seed: u64) -> Measured {
        let lost_with_each = self.loss * f64::from(self.members - 1);
        // Bins are in step at first, and no longer once each member has lost some packets.
        let first = (10.0 / self.loss) as u64 + 16 * u64::from(self.members);
        let judged = first..first + (1.05 * LOSSES_MIN / lost_with_each) as u64;
        // What comes later completes the last bins.
        let packets = judged.end + 8 * 32;
        let rate = Rate { r: setting.r.into(), c: setting.c.into() };
        let config = Config::published(self.roster(), rate).with_setting(setting);
        let mut sim = self.sim(config, packets, seed);
        let mut measured = Measured { group: *self, judged, within, direct: 0, in_time: 0 };
        sim.run_until(Instant::MAX, &mut measured);
        measured
    }
}

/// How members reach each other.
fn link(loss: Loss) -> LinkFaults {
    let delay = Duration::from_micros(50);
    LinkFaults { delay, jitter: delay, loss, ..LinkFaults::default() }
}

/// What became of the packets of a run.
struct Measured {
    group: Group,
    /// These packets of all senders.
    judged: Range<u64>,
    within: Duration,
    direct: u64,
    in_time: u64,
}

impl Measured {
    fn lost(&self) -> u64 {
        (self.judged.end - self.judged.start) * u64::from(self.group.members - 1) - self.direct
    }

    fn share(&self) -> f64 {
        self.in_time as f64 / self.lost() as f64
    }
}

impl Observer<Slingshot> for Measured {
    fn on_event(&mut self, at: Instant, _: NodeId, event: &Event, _: &mut Reply<Slingshot>) {
        let Event::Delivered { sender, seq, how, .. } = event else { return };
        let packet = seq * u64::from(self.group.members) + sender.0;
        if !self.judged.contains(&packet) {
            return;
        }
        let expected_at = self.group.sent_at(packet) + LATENCY;
        match how {
            How::Direct => self.direct += 1,
            _ => self.in_time += u64::from(at.since(expected_at) <= self.within),
        }
    }
}

fn ms(millis: f64) -> Duration {
    Duration::from_secs_f64(millis / 1e3)
}

#[test]
fn a_setting_that_is_chosen_meets_its_target_and_one_out_of_reach_does_not() {
    // Members, loss in percent, packets a second, their bytes; share in percent, within
    // milliseconds, overhead in percent.
    let cases = [
        (64, 1.0, 1_000, 1_000, 93.0, 10.0, 30.0),
        (64, 1.0, 1_000, 200, 97.0, 25.0, 40.0),
        (64, 1.0, 1_000, 1_000, 99.0, 1.0, 30.0),
        (32, 0.5, 200, 1_000, 95.0, 60.0, 35.0),
        (16, 0.5, 5_000, 100, 96.0, 2.0, 40.0),
        (16, 5.0, 500, 1_000, 95.0, 40.0, 40.0),
        (16, 2.0, 20_000, 100, 90.0, 1.0, 30.0),
        (48, 5.0, 10_000, 100, 99.9, 2.0, 30.0),
        (32, 3.0, 50_000, 1_000, 99.0, 1.0, 40.0),
        (64, 5.0, 50_000, 200, 90.0, 0.3, 50.0),
    ];
    let mut out_of_reach = 0;
    let mut wrong = Vec::new();
    for (seed, case) in (1..).zip(cases) {
        let (members, percent, packets_per_second, packet_bytes, share, within, overhead) = case;
        let group = Group { members, loss: percent / 100.0, packets_per_second, packet_bytes };
        let target = Target::new(share / 100.0, ms(within), overhead / 100.0);
        let codes = [Code::Xor, Code::Linear { window: 32 }];
        let chosen = choose(&target, &group.conditions(), &codes);
        let (is_reached, choice) = match &chosen {
            Ok(choice) => (true, choice),
            Err(Unreachable::InTime { best }) => (false, best),
            Err(refused) => panic!("{case:?}: {refused}"),
        };
        out_of_reach += u32::from(!is_reached);
        let Choice { setting, in_time: expected, .. } = *choice;
        let measured = group.measure(setting, target.within, seed);
        let share = measured.share();
        let line = format!(
            "{case:?}: {setting}, within reach: {is_reached}, {:.2} % expected, {:.2} % of {} lost",
            100.0 * expected,
            100.0 * share,
            measured.lost()
        );
        println!("{line}");
        let is_right = (share >= target.share) == is_reached && measured.lost() >= 3_000;
        if !is_right || (share - expected).abs() > 0.02 {
            wrong.push(line);
        }
    }
    assert!(out_of_reach >= 2);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What became of the packets that were sent in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    direct: u64,
    /// By the simulator's clock, and by the members' own.
    in_time: u64,
    in_time_measured: u64,
    /// Recovered, or reported lost.
    missed_measured: u64,
}

/// A group whose members keep to a target, second by second.
struct Steered {
    group: Group,
    within: Duration,
    seconds: Vec<Second>,
    /// How often the members changed their rate of fire since this was last set to 0, and their
    /// last event.
    tuned: u32,
    last: Option<Event>,
    /// How often their rates of fire were other ones than a second before, in each second.
    changes: Vec<u32>,
}

impl Steered {
    /// The share in time of the packets of these seconds, the same as the members measured it, and
    /// the share of packets that were lost.
    fn shares(&self, seconds: Range<usize>) -> (f64, f64, f64) {
        let mut sum = Second::default();
        let count = seconds.len() as u64;
        for second in &self.seconds[seconds] {
            sum.direct += second.direct;
            sum.in_time += second.in_time;
            sum.in_time_measured += second.in_time_measured;
            sum.missed_measured += second.missed_measured;
        }
        let rate = u64::from(self.group.packets_per_second);
        let all = rate * count * u64::from(self.group.members - 1);
        let lost = (all - sum.direct) as f64;
        let measured = sum.in_time_measured as f64 / sum.missed_measured as f64;
        (sum.in_time as f64 / lost, measured, lost / all as f64)
    }

    /// Runs for some seconds, in which a packet of a thousand bytes is sent each so often; the loss
    /// becomes another one at the given second.
    fn run(group: Group, config: Config, seconds: u64, other_loss: (u64, f64)) -> Steered {
        let target = *config.target().expect("it is what this is about");
        let mut steered = Steered {
            group,
            within: target.within,
            seconds: vec![Second::default(); seconds as usize + 1],
            tuned: 0,
            last: None,
            changes: Vec::new(),
        };
        let packets = seconds * u64::from(group.packets_per_second);
        let mut sim = group.sim(config, packets, 1);
        // What the link loses beside the receivers.
        let beside = 1.0 - (1.0 - other_loss.1) / (1.0 - group.loss);
        let fault = Fault::Link { from: None, to: None, link: link(Loss::Independent(beside)) };
        sim.fault_at(Instant::ZERO + Duration::from_secs(other_loss.0), fault);
        let nodes = || (0..group.members).map(NodeId::from);
        let mut rates: Vec<Rate> = nodes().map(|node| sim.node(node).rate()).collect();
        for second in 1..=seconds {
            let until = Instant::ZERO + Duration::from_secs(second);
            sim.run_until(until, &mut steered);
            let now: Vec<Rate> = nodes().map(|node| sim.node(node).rate()).collect();
            let changed = rates.iter().zip(&now).filter(|(before, now)| before != now).count();
            steered.changes.push(changed as u32);
            rates = now;
        }
        // Idle costs nothing: only a finite number of events is left.
        sim.run_until(Instant::MAX, &mut steered);
        assert!(sim.now() < Instant::ZERO + Duration::from_secs(seconds + 20));
        let of = |count: &str| sim.counters().count(count);
        println!("{:?} at the end, {:?}", rates[0], steered.changes);
        println!("{} and {}", of("slingshot_retuned"), of("slingshot_corrected"));
        for second in (0..seconds as usize).step_by(5) {
            println!("{second}: {:.4?}", steered.shares(second..second + 5));
        }
        steered
    }
}

impl Observer<Slingshot> for Steered {
    fn on_event(&mut self, at: Instant, _: NodeId, event: &Event, _: &mut Reply<Slingshot>) {
        let number = |sender: NodeId, seq: u64| seq * u64::from(self.group.members) + sender.0;
        match event {
            Event::Delivered { sender, seq, how, .. } => {
                let packet = number(*sender, *seq);
                let second = packet / u64::from(self.group.packets_per_second);
                let second = &mut self.seconds[second as usize];
                let (How::Recovered { after } | How::Pulled { after }) = *how else {
                    second.direct += 1;
                    return;
                };
                let took = at.since(self.group.sent_at(packet) + LATENCY);
                second.in_time += u64::from(took <= self.within);
                second.in_time_measured += u64::from(after <= self.within);
                second.missed_measured += 1;
            }
            Event::Lost { sender, first, end, .. } => {
                for packet in (*first..*end).map(|seq| number(*sender, seq)) {
                    let second = packet / u64::from(self.group.packets_per_second);
                    self.seconds[second as usize].missed_measured += 1;
                }
            }
            Event::Tuned { .. } => {
                self.tuned += 1;
                self.last = Some(event.clone());
            }
            _ => {}
        }
    }
}

const STEERED: Group =
    Group { members: 32, loss: 0.01, packets_per_second: 1_000, packet_bytes: 1_000 };

/// Members begin at a rate of fire that is far too low.
fn steered(code: slingshot::Code, target: Target) -> Config {
    let rate = Rate::new(16, 1).expect("within the ranges");
    Config::published(STEERED.roster(), rate).with_code(code).with_target(Some(target))
}

fn keeps_to_its_target(code: slingshot::Code) {
    let target = Target::new(0.95, ms(15.0), 0.5);
    let steered = Steered::run(STEERED, steered(code, target), 40, (15, 0.04));
    let (before, _, _) = steered.shares(0..1);
    assert!(before < 0.8, "{before}: the rate at the start would have done");
    for (seconds, loss) in [(5..15, 0.01), (22..40, 0.04)] {
        let (share, measured, lost) = steered.shares(seconds.clone());
        assert!((lost / loss - 1.0).abs() < 0.05, "{lost} in {seconds:?}");
        assert!(share >= target.share, "{share} in {seconds:?}");
        assert!((share - measured).abs() < 0.02, "{share}, by their own measure {measured}");
    }
    for second_half in [10..15, 28..40] {
        let changes: u32 = steered.changes[second_half.clone()].iter().sum();
        let each = f64::from(changes) / 32.0;
        assert!(each <= 1.0, "{each} changes of each member in {second_half:?}");
    }
}

#[test]
fn members_find_the_rate_of_fire_for_their_target_and_again_when_more_is_lost() {
    keeps_to_its_target(slingshot::Code::Xor { stagger: 1 });
}

#[test]
fn with_a_random_linear_code_they_find_it_too() {
    keeps_to_its_target(slingshot::Code::Rlc { window: 32 });
}

#[test]
fn what_is_asked_for_counts_as_in_time() {
    let target = Target::new(0.95, ms(15.0), 0.5);
    let config = steered(slingshot::Code::Xor { stagger: 1 }, target);
    let config = config.with_pull(Some(Pull::default()));
    let steered = Steered::run(STEERED, config, 20, (0, 0.02));
    let (share, measured, _) = steered.shares(6..20);
    assert!(share >= target.share, "{share}");
    assert!((share - measured).abs() < 0.02, "{share}, by their own measure {measured}");
}
