//! Random networks: links with rates and delays, and routes to names.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use paceline_proto::core::{NodeId, Rng};
use paceline_proto::mircc::FaceConfig;
use paceline_sim::Wires;

/// What all names begin with.
pub const PREFIX: &str = "/p";

/// A link, as its two ends see it.
#[derive(Clone, Debug)]
pub struct Edge {
    pub ends: [u32; 2],
    pub faces: [FaceConfig; 2],
    pub delay: Duration,
}

#[derive(Clone, Debug, Default)]
pub struct Topology {
    pub kind: &'static str,
    pub nodes: u32,
    pub edges: Vec<Edge>,
    pub consumers: Vec<u32>,
    pub producers: Vec<u32>,
    /// Neighbours that get no Interests, the last nodes.
    pub strangers: Vec<u32>,
    /// By node: neighbours that lead to the producers, or are said to.
    pub next_hops: BTreeMap<u32, Vec<u32>>,
}

impl Topology {
    pub fn draw(rng: &mut Rng) -> Topology {
        let mut topology = Topology::default();
        match rng.below(5) {
            0 => topology.line(rng),
            1 => topology.dumbbell(rng),
            2 => topology.slingshot(rng),
            3 => topology.diamond(rng),
            _ => topology.graph(rng),
        }
        topology
    }

    /// Links `count` strangers, each to one of the nodes.
    pub fn add_strangers(&mut self, rng: &mut Rng, count: u32) {
        let nodes = self.nodes;
        for _ in 0..count {
            let (stranger, neighbour) = (self.add(), rng.below(nodes));
            self.link(rng, stranger, neighbour);
            self.strangers.push(stranger);
        }
    }

    pub fn wires(&self) -> Wires {
        let mut wires = Wires::new();
        for edge in &self.edges {
            wires.join(NodeId::from(edge.ends[0]), NodeId::from(edge.ends[1]), edge.delay);
        }
        wires
    }

    /// The faces of a node, by neighbour.
    pub fn faces(&self, node: u32) -> impl Iterator<Item = (NodeId, FaceConfig)> {
        self.edges.iter().flat_map(move |edge| {
            let ends = [0, 1].into_iter().filter(move |&end| edge.ends[end] == node);
            ends.map(|end| (NodeId::from(edge.ends[1 - end]), edge.faces[end]))
        })
    }

    pub fn next_hops(&self, node: u32) -> impl Iterator<Item = NodeId> {
        self.next_hops.get(&node).into_iter().flatten().map(|&next| NodeId::from(next))
    }

    fn add(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes - 1
    }

    fn link(&mut self, rng: &mut Rng, one: u32, other: u32) {
        // From 0.5 to 100 Mbit/s, as many slow ones as fast ones.
        let rate = |rng: &mut Rng| (0.5e6 * 200f64.powf(rng.unit())) as u64;
        let there = rate(rng);
        let back = if rng.chance(0.2) { rate(rng) } else { there };
        let known = |rng: &mut Rng, rate| (!rng.chance(0.03)).then_some(rate);
        let queue = |rng: &mut Rng| match rng.below(4) {
            0 => 5_000 + rng.below(20_000) as usize,
            _ => 256 << 10,
        };
        let mut face = |out, back| FaceConfig {
            out_bits_per_second: known(rng, out),
            in_bits_per_second: known(rng, back),
            queue_bytes_max: queue(rng),
        };
        let faces = [face(there, back), face(back, there)];
        let delay = Duration::from_micros(u64::from(100 + rng.below(15_000)));
        self.edges.push(Edge { ends: [one, other], faces, delay });
    }

    fn route(&mut self, node: u32, next: u32) {
        self.next_hops.entry(node).or_default().push(next);
    }

    fn line(&mut self, rng: &mut Rng) {
        self.kind = "line";
        let consumer = self.add();
        let mut last = consumer;
        for _ in 0..1 + rng.below(4) {
            let next = self.add();
            self.link(rng, last, next);
            self.route(last, next);
            last = next;
        }
        (self.consumers, self.producers) = (vec![consumer], vec![last]);
    }

    fn dumbbell(&mut self, rng: &mut Rng) {
        self.kind = "dumbbell";
        let (left, right) = (self.add(), self.add());
        self.link(rng, left, right);
        self.route(left, right);
        for _ in 0..1 + rng.below(4) {
            let consumer = self.add();
            self.link(rng, consumer, left);
            self.route(consumer, left);
            self.consumers.push(consumer);
        }
        for _ in 0..1 + rng.below(2) {
            let producer = self.add();
            self.link(rng, right, producer);
            self.route(right, producer);
            self.producers.push(producer);
        }
    }

    fn slingshot(&mut self, rng: &mut Rng) {
        self.kind = "slingshot";
        let [c1, c2, e1, f2, e4, e3] = [(); 6].map(|()| self.add());
        for (one, other) in [(c1, e1), (c2, e1), (e1, f2), (f2, e4), (f2, e3)] {
            self.link(rng, one, other);
            self.route(one, other);
        }
        (self.consumers, self.producers) = (vec![c1, c2], vec![e4, e3]);
    }

    fn diamond(&mut self, rng: &mut Rng) {
        self.kind = "diamond";
        let [e0, e1, f2, f3, f4, f5, e6] = [(); 7].map(|()| self.add());
        for (one, other) in [(e0, f2), (e1, f2), (f2, f3), (f2, f4), (f3, f5), (f4, f5), (f5, e6)] {
            self.link(rng, one, other);
            self.route(one, other);
        }
        for edge in [e0, e1] {
            for _ in 0..1 + rng.below(2) {
                let consumer = self.add();
                self.link(rng, consumer, edge);
                self.route(consumer, edge);
                self.consumers.push(consumer);
            }
        }
        self.producers = vec![e6];
    }

    /// A tree with some more links. A node's next hops are those that are nearer to a producer, and
    /// others as well, which make loops.
    fn graph(&mut self, rng: &mut Rng) {
        self.kind = "graph";
        let inner = 3 + rng.below(6);
        for node in 0..inner {
            self.add();
            if node > 0 {
                let other = rng.below(node);
                self.link(rng, node, other);
            }
        }
        for _ in 0..1 + rng.below(4) {
            let (one, other) = (rng.below(inner), rng.below(inner));
            let known = self
                .edges
                .iter()
                .any(|edge| edge.ends == [one, other] || edge.ends == [other, one]);
            if one != other && !known {
                self.link(rng, one, other);
            }
        }
        for _ in 0..1 + rng.below(2) {
            let (producer, at) = (self.add(), rng.below(inner));
            self.link(rng, producer, at);
            self.producers.push(producer);
        }
        for _ in 0..1 + rng.below(3) {
            let (consumer, at) = (self.add(), rng.below(inner));
            self.link(rng, consumer, at);
            self.consumers.push(consumer);
        }
        if rng.chance(0.3) {
            self.consumers.push(rng.below(inner));
        }
        let far = self.hops_to_producers();
        let loops = [0.0, 0.2, 1.0][rng.below(3) as usize];
        for node in 0..self.nodes {
            let neighbours: Vec<u32> =
                self.faces(node).map(|(peer, _)| peer.index() as u32).collect();
            for next in neighbours {
                let is_nearer = far[next as usize] < far[node as usize];
                if is_nearer || far[node as usize] > 0 && rng.chance(loops) {
                    self.route(node, next);
                }
            }
        }
    }

    fn hops_to_producers(&self) -> Vec<u32> {
        let mut far = vec![u32::MAX; self.nodes as usize];
        let mut next: VecDeque<u32> = self.producers.iter().copied().collect();
        next.iter().for_each(|&producer| far[producer as usize] = 0);
        while let Some(node) = next.pop_front() {
            for (peer, _) in self.faces(node) {
                let peer = peer.index() as u32;
                if far[peer as usize] == u32::MAX {
                    far[peer as usize] = far[node as usize] + 1;
                    next.push_back(peer);
                }
            }
        }
        far
    }
}
