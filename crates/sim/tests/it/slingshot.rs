//! Time-critical multicast at the paper's setting: 64 members, each sending a kilobyte every 64 ms.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, LinkFaults, Loss, NodeId, Payload, View};
use paceline_proto::slingshot::{Code, Command, Config, Event, How, Order, Pull, Rate, Slingshot};
use paceline_sim::{Codec, Multicast, NetworkConfig, Observer, Reply, Sim, SimConfig};

const PACKET_BYTES: u32 = 1024;

/// What became of every packet at every receiver.
struct Ledger {
    nodes: usize,
    // A sender's packets go to these in turn.
    groups: u64,
    every: Duration,
    direct: u64,
    recovered: Vec<Duration>,
    pulled: Vec<Duration>,
    lost: u64,
    // By sender, receiver and number.
    told: Vec<bool>,
    // The numbers that are judged, of each sender. A receiver cannot verify recovered packets of a
    // sender that it never heard, so it delivers the first with the second; the last are sent when
    // the group falls silent.
    judged: Range<u64>,
}

impl Ledger {
    /// The number of a packet among all of its sender.
    fn number(&self, group: GroupId, seq: u64) -> u64 {
        seq * self.groups + u64::from(group.0)
    }

    fn sent_at(&self, sender: NodeId, number: u64) -> Instant {
        let phase = self.every * sender.index() as u32 / self.nodes as u32;
        Instant::ZERO + phase + self.every * number as u32
    }

    fn missed(&self) -> u64 {
        let all = (self.judged.end - self.judged.start) * (self.nodes * (self.nodes - 1)) as u64;
        all - self.direct
    }

    fn print(&self, name: &str, sim: &Sim<'_, Slingshot>) {
        let ten = Duration::from_millis(10);
        println!(
            "{name}: {} missed, {:.2} % recovered ({:.2} % in 10 ms, mean {:.2} ms), \
             {:.2} % pulled (mean {:.2} ms), {} lost",
            self.missed(),
            100.0 * self.share(&self.recovered, Duration::MAX),
            100.0 * self.share(&self.recovered, ten),
            mean_ms(&self.recovered),
            100.0 * self.share(&self.pulled, Duration::MAX),
            mean_ms(&self.pulled),
            self.lost
        );
        println!("    {:?}", sim.counters().sorted());
    }

    fn share(&self, times: &[Duration], within: Duration) -> f64 {
        times.iter().filter(|&&time| time <= within).count() as f64 / self.missed() as f64
    }
}

impl Observer<Slingshot> for Ledger {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<Slingshot>) {
        match event {
            Event::Delivered { group, sender, seq, payload, how, .. } => {
                assert_eq!(payload.len(), PACKET_BYTES as usize);
                let number = self.number(*group, *seq);
                if !self.judged.contains(&number) {
                    return;
                }
                let pair = sender.index() * self.nodes + node.index();
                let told = &mut self.told[pair * self.judged.end as usize + number as usize];
                assert!(!*told, "{node} was told {group}/{sender}.{seq} twice");
                *told = true;
                let took = at.since(self.sent_at(*sender, number));
                match how {
                    How::Direct => self.direct += 1,
                    How::Recovered { .. } => self.recovered.push(took),
                    How::Pulled { .. } => self.pulled.push(took),
                }
            }
            Event::Lost { group, first, end, .. } => {
                let numbers = (*first..*end).map(|seq| self.number(*group, seq));
                self.lost += numbers.filter(|number| self.judged.contains(number)).count() as u64;
            }
            _ => {}
        }
    }
}

/// How a run differs from the paper's.
struct Setting {
    config: Config,
    loss: Loss,
    seconds: u64,
    codec: Codec,
    multicast: Multicast,
    /// Of all members.
    groups: u64,
}

impl Setting {
    fn new(config: Config) -> Setting {
        let loss = Loss::Independent(0.01);
        let (codec, multicast) = (Codec::Typed, Multicast::Native);
        Setting { config, loss, seconds: 10, codec, multicast, groups: 1 }
    }

    fn run(self, name: &str) -> (Ledger, Sim<'static, Slingshot>) {
        let Setting { config, loss, seconds, codec, multicast, groups } = self;
        let nodes = config.roster().len();
        let config = config.with_groups((0..groups as u32).map(|group| (GroupId(group), None)));
        let config = config.build().expect("within the ranges");
        let mut sim_config = SimConfig::new(nodes, 1);
        sim_config.codec = codec;
        // Room for the names of the longest window: jumbo frames.
        sim_config.datagram_bytes_max = 2700;
        sim_config.network = NetworkConfig {
            link: LinkFaults {
                delay: Duration::from_micros(50),
                jitter: Duration::from_micros(50),
                ..LinkFaults::default()
            },
            receive_loss: loss,
            multicast,
            ..NetworkConfig::default()
        };
        let shared = config.clone();
        let mut sim = Sim::new(sim_config, Arc::new(config), move |_| Slingshot::new(&shared));
        let every = Duration::from_millis(nodes as u64);
        let packets = seconds * 1000 / nodes as u64;
        let judged = groups..packets - 8 * groups;
        let mut ledger = Ledger {
            nodes,
            groups,
            every,
            direct: 0,
            recovered: Vec::new(),
            pulled: Vec::new(),
            lost: 0,
            told: vec![false; nodes * nodes * judged.end as usize],
            judged,
        };
        for node in (0..nodes as u64).map(NodeId) {
            for number in 0..packets {
                let at = ledger.sent_at(node, number);
                let group = GroupId((number % groups) as u32);
                let payload = Payload::Zeros(PACKET_BYTES);
                sim.command_at(at, node, Command::Multicast { group, payload, ticket: 0 });
            }
        }
        sim.run_until(Instant::ZERO + Duration::from_secs(seconds + 10), &mut ledger);
        ledger.print(name, &sim);
        (ledger, sim)
    }
}

fn mean_ms(times: &[Duration]) -> f64 {
    times.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e3 / times.len().max(1) as f64
}

fn roster(nodes: u32) -> View {
    View::roster((0..nodes).map(NodeId::from))
}

fn published(nodes: u32, r: usize, c: usize) -> Config {
    Config::published(roster(nodes), Rate::new(r, c).expect("within the ranges"))
}

/// Mean five, one percent of all.
const BURSTS: Loss =
    Loss::GilbertElliott { good_to_bad: 0.2 / 99.0, bad_to_good: 0.2, bad_loss: 1.0 };

#[test]
fn eight_three_recovers_what_the_closed_form_says_in_two_milliseconds() {
    let setting = Setting { seconds: 30, ..Setting::new(published(64, 8, 3)) };
    let (ledger, _) = setting.run("XOR (8,3)");
    let share = ledger.share(&ledger.recovered, Duration::MAX);
    let within = ledger.share(&ledger.recovered, Duration::from_millis(10));
    let mean = mean_ms(&ledger.recovered);
    assert!((0.927..0.941).contains(&share), "{share}");
    assert!((1.8..2.2).contains(&mean), "{mean}");
    assert!((0.912..0.936).contains(&within), "{within}");
    // Every packet that was missed is recovered or reported lost.
    assert_eq!(ledger.missed(), ledger.recovered.len() as u64 + ledger.lost);
}

#[test]
fn with_the_second_phase_all_is_delivered() {
    let config = published(64, 8, 3).with_pull(Some(Pull::default()));
    let (ledger, sim) = Setting::new(config).run("XOR (8,3) and questions");
    assert_eq!(ledger.lost, 0);
    let delivered = (ledger.recovered.len() + ledger.pulled.len()) as u64;
    assert_eq!(ledger.missed(), delivered);
    let asked = sim.counters().count("slingshot_asked");
    assert!(asked < ledger.missed() / 5, "{asked} questions");
}

#[test]
fn a_random_linear_code_recovers_nearly_all_at_the_same_overhead() {
    let config = published(64, 8, 3).with_code(Code::Rlc { window: 32 });
    let (ledger, _) = Setting::new(config).run("RLC 32 (8,3)");
    assert!(ledger.share(&ledger.recovered, Duration::MAX) > 0.997);
    assert!((2.2..2.8).contains(&mean_ms(&ledger.recovered)));
}

#[test]
fn bursts_defeat_one_bin_and_neither_staggered_bins_nor_a_random_linear_code() {
    let codes = [
        (Code::Xor { stagger: 1 }, 10, "XOR, bursts", 0.14..0.19),
        (Code::Xor { stagger: 16 }, 10, "16 staggered bins, bursts", 0.87..0.93),
        // Half as long: this one is slow.
        (Code::Rlc { window: 128 }, 5, "RLC 128, bursts", 0.99..1.01),
    ];
    for (code, seconds, name, expected) in codes {
        let config = published(64, 8, 3).with_code(code);
        let (ledger, _) = Setting { loss: BURSTS, seconds, ..Setting::new(config) }.run(name);
        let share = ledger.share(&ledger.recovered, Duration::MAX);
        assert!(expected.contains(&share), "{name}: {share}");
    }
}

#[test]
fn bytes_and_values_take_the_same_steps_and_fan_out_delivers_the_same() {
    let run = |codec, multicast| {
        let config = Config::new(roster(8)).with_order(Order::Fifo);
        let setting = Setting { codec, multicast, seconds: 3, ..Setting::new(config) };
        setting.run("n = 8, in order")
    };
    let (typed, first) = run(Codec::Typed, Multicast::Native);
    let (_, second) = run(Codec::CheckWire, Multicast::Native);
    assert_eq!(first.digest(), second.digest());
    let (fan_out, _) = run(Codec::Typed, Multicast::FanOut);
    for ledger in [typed, fan_out] {
        assert!(ledger.missed() > 50 && ledger.lost == 0);
        assert_eq!(ledger.missed(), (ledger.recovered.len() + ledger.pulled.len()) as u64);
    }
}

/// Ricochet's lateral error correction: the bins of groups that have their members in common fill
/// from all of them.
#[test]
fn groups_of_the_same_members_repair_each_other_sooner_at_the_same_overhead() {
    let run = |regions_max, name| {
        let config = published(32, 8, 3).with_regions_max(regions_max);
        let setting = Setting { groups: 8, seconds: 20, ..Setting::new(config) };
        let (ledger, sim) = setting.run(name);
        let share = ledger.share(&ledger.recovered, Duration::MAX);
        (share, mean_ms(&ledger.recovered), sim.counters().count("slingshot_repairs"))
    };
    let (alone, alone_ms, alone_repairs) = run(1, "8 groups, each for itself");
    let (together, together_ms, repairs) = run(32, "8 groups together");
    assert!(alone > 0.85 && together > 0.92, "{alone} {together}");
    assert!(together_ms * 4.0 < alone_ms, "{together_ms} ms and {alone_ms} ms");
    assert!(repairs.abs_diff(alone_repairs) < repairs / 50, "{repairs} and {alone_repairs}");
}
