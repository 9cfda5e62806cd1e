//! Small networks of forwarders, and what their consumers received.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId, Payload};
use paceline_proto::mircc::{
    Command, Config, Event, FaceConfig, Fetch, FlowCounts, Forwarder, Multipath, Object, Pace,
    Setup,
};
use paceline_proto::ndn::{Class, Name, Signer, Trust};
use paceline_sim::{FaultSupport, Observer, Reply, Sim, SimConfig, Wires};

/// Bytes of content of a segment: with all that is around it 1,100 bytes on the link.
pub const SEGMENT_BYTES: usize = 1_000;

/// A network that is being drawn.
#[derive(Default)]
pub struct Net {
    pub nodes: u32,
    pub setups: BTreeMap<NodeId, Setup>,
    pub wires: Wires,
}

impl Net {
    pub fn node(&mut self, name: &str) -> NodeId {
        let node = NodeId::from(self.nodes);
        self.nodes += 1;
        self.setups.insert(node, Setup { name: name.to_owned(), ..Setup::default() });
        node
    }

    pub fn link(&mut self, one: NodeId, other: NodeId, bits_per_second: f64, delay_ms: f64) {
        let face = FaceConfig::of_rate(bits_per_second as u64);
        for (from, to) in [(one, other), (other, one)] {
            self.setups.get_mut(&from).unwrap().faces.push((to, face));
        }
        self.wires.join(one, other, Duration::from_secs_f64(delay_ms / 1e3));
    }

    pub fn route(&mut self, prefix: &str, from: NodeId, to: NodeId) {
        let route = (prefix.parse().unwrap(), to, 1);
        self.setups.get_mut(&from).unwrap().routes.push(route);
    }

    pub fn publish(&mut self, at: NodeId, name: &str, segments: usize) {
        let object = Object {
            name: name.parse().unwrap(),
            content: Payload::Zeros((segments * SEGMENT_BYTES) as u32),
            segment_bytes: SEGMENT_BYTES,
            freshness: None,
        };
        self.setups.get_mut(&at).unwrap().objects.push(object);
    }

    pub fn start(self, seed: u64, config: Config) -> Sim<'static, Forwarder> {
        let mut sim_config = SimConfig::of_forwarders(self.nodes as usize, seed, self.wires);
        sim_config.faults = FaultSupport::Any;
        let config = Arc::new(Config { signer: Signer::Null, ..config });
        let (setups, shared) = (self.setups, Arc::clone(&config));
        Sim::new(sim_config, config, move |node| Forwarder::new(setups[&node].clone(), &shared))
    }
}

pub fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

pub fn fetch(flow: u64, name: &str) -> Fetch {
    Fetch { trust: Trust::Anything, ..Fetch::new(flow, name.parse::<Name>().unwrap()) }
}

pub fn with(flow: u64, name: &str, pace: Pace, multipath: Multipath) -> Command {
    Command::Fetch(Fetch { pace, multipath, ..fetch(flow, name) })
}

/// What came when.
#[derive(Default)]
pub struct Received {
    /// By node: time, class, bytes on the link.
    pub segments: BTreeMap<NodeId, Vec<(Instant, Class, usize)>>,
    pub ended: BTreeMap<(NodeId, u64), (Instant, FlowCounts)>,
    pub failed: Vec<String>,
}

impl Observer<Forwarder> for Received {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<Forwarder>) {
        match event {
            Event::Segment { link_bytes, class, .. } => {
                let bytes = *link_bytes;
                self.segments.entry(node).or_default().push((at, *class, bytes));
            }
            Event::Fetched { flow, counts } => {
                self.ended.insert((node, *flow), (at, *counts));
            }
            Event::Failed { flow, why, .. } => self.failed.push(format!("{node} {flow}: {why}")),
            _ => {}
        }
    }
}

impl Received {
    /// Mbit/s of a class, or of both, from one time to another.
    pub fn rate(&self, node: NodeId, from: f64, until: f64, class: Option<Class>) -> f64 {
        let (from, until) = (at(from), at(until));
        let segments = self.segments.get(&node).into_iter().flatten();
        let bytes: usize = segments
            .filter(|(at, of, _)| *at >= from && *at < until && class.is_none_or(|c| c == *of))
            .map(|&(_, _, bytes)| bytes)
            .sum();
        bytes as f64 * 8.0 / (until - from).as_secs_f64() / 1e6
    }
}
