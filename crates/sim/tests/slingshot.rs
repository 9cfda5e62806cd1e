//! Multicast in time, at the paper's setting: 64 members, a kilobyte of each every 64 ms.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, LinkFaults, Loss, NodeId, Payload, View};
use paceline_proto::slingshot::{Command, Config, Event, How, Rate, Slingshot};
use paceline_sim::{Codec, NetworkConfig, Observer, Reply, Sim, SimConfig};

const PACKET_BYTES: u32 = 1024;

/// What became of every packet at every receiver.
struct Ledger {
    nodes: usize,
    every: Duration,
    direct: u64,
    recovered: Vec<Duration>,
    pulled: Vec<Duration>,
    lost: u64,
    // By sender, receiver and number.
    told: Vec<bool>,
    // Packets numbered from this one on are sent too late to be judged.
    judged: u64,
}

impl Ledger {
    fn sent_at(&self, sender: NodeId, seq: u64) -> Instant {
        let phase = self.every * sender.0 / self.nodes as u32;
        Instant::ZERO + phase + self.every * seq as u32
    }

    fn missed(&self) -> u64 {
        let all = self.judged * (self.nodes * (self.nodes - 1)) as u64;
        all - self.direct
    }

    fn share(&self, times: &[Duration], within: Duration) -> f64 {
        times.iter().filter(|&&time| time <= within).count() as f64 / self.missed() as f64
    }
}

impl Observer<Slingshot> for Ledger {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<Slingshot>) {
        match event {
            Event::Delivered { sender, seq, payload, how, .. } if *seq < self.judged => {
                assert_eq!(payload.len(), PACKET_BYTES as usize);
                let pair = sender.index() * self.nodes + node.index();
                let told = &mut self.told[pair * self.judged as usize + *seq as usize];
                assert!(!*told, "{node} was told {sender}.{seq} twice");
                *told = true;
                let took = at.since(self.sent_at(*sender, *seq));
                match how {
                    How::Direct => self.direct += 1,
                    How::Recovered { .. } => self.recovered.push(took),
                    How::Pulled { .. } => self.pulled.push(took),
                }
            }
            Event::Lost { first, end, .. } => {
                self.lost += end.min(&self.judged).saturating_sub(*first);
            }
            _ => {}
        }
    }
}

fn run(
    config: Config,
    loss: Loss,
    seconds: u64,
    codec: Codec,
) -> (Ledger, Sim<'static, Slingshot>) {
    let nodes = config.roster().len();
    let config = config.build().expect("within the ranges");
    let mut sim_config = SimConfig::new(nodes, 1);
    sim_config.codec = codec;
    sim_config.datagram_bytes_max = 1400;
    sim_config.network = NetworkConfig {
        link: LinkFaults {
            delay: Duration::from_micros(50),
            jitter: Duration::from_micros(50),
            ..LinkFaults::default()
        },
        receive_loss: loss,
        ..NetworkConfig::default()
    };
    let shared = config.clone();
    let mut sim = Sim::new(sim_config, Arc::new(config), move |_| Slingshot::new(&shared));
    let every = Duration::from_millis(nodes as u64);
    let packets = seconds * 1000 / nodes as u64;
    let mut ledger = Ledger {
        nodes,
        every,
        direct: 0,
        recovered: Vec::new(),
        pulled: Vec::new(),
        lost: 0,
        told: vec![false; nodes * nodes * (packets - 3) as usize],
        judged: packets - 3,
    };
    for node in (0..nodes as u32).map(NodeId) {
        for seq in 0..packets {
            let at = ledger.sent_at(node, seq);
            sim.command_at(at, node, Command::multicast(Payload::Zeros(PACKET_BYTES)));
        }
    }
    sim.run_until(Instant::ZERO + Duration::from_secs(seconds + 10), &mut ledger);
    (ledger, sim)
}

fn mean_ms(times: &[Duration]) -> f64 {
    times.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e3 / times.len().max(1) as f64
}

fn roster(nodes: u32) -> View {
    View::roster((0..nodes).map(NodeId))
}

#[test]
fn eight_three_recovers_what_the_closed_form_says_in_two_milliseconds() {
    let config = Config::published(roster(64), Rate::new(8, 3).unwrap());
    let (ledger, sim) = run(config, Loss::Independent(0.01), 30, Codec::Typed);
    let share = ledger.share(&ledger.recovered, Duration::MAX);
    let within = ledger.share(&ledger.recovered, Duration::from_millis(10));
    let mean = mean_ms(&ledger.recovered);
    println!(
        "{} missed, {:.2} % recovered, {:.2} % within 10 ms, mean {mean:.3} ms, {} lost",
        ledger.missed(),
        100.0 * share,
        100.0 * within,
        ledger.lost
    );
    println!("{:?}", sim.counters().sorted());
    assert!((0.927..0.941).contains(&share), "{share}");
    assert!((1.8..2.2).contains(&mean), "{mean}");
    assert!((0.912..0.936).contains(&within), "{within}");
    // Every packet that was missed is recovered or reported lost.
    assert_eq!(ledger.missed(), ledger.recovered.len() as u64 + ledger.lost);
}
