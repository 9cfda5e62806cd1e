//! A group of detectors on a network in memory, under virtual time: crashes, losses, pauses,
//! partitions and restarts, and their cost.

mod alone;
mod faults;
mod hostile;
mod parts;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::core::{Instant, Member, NodeId, Rng};

use bytes::Bytes;

/// UDP and IP headers and the record header, bytes a datagram.
const HEADERS_BYTES: u64 = 28 + 32;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A node of the network.
struct Node {
    detector: Detector,
    output: Output,
    /// It serves nothing until then.
    paused_until: Instant,
    /// It serves something only at multiples of this.
    turn: Duration,
    has_crashed: bool,
    /// Datagrams that wait while it is paused.
    waiting: Vec<(NodeId, Bytes)>,
    /// Bytes sent and received, headers included.
    bytes: u64,
}

/// What a node found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Finding {
    at: Instant,
    by: u32,
    of: u32,
    incarnation: u64,
    health: Health,
}

/// Detectors with links between them: 0.1 to 1 ms, and losses.
struct Net {
    seed: u64,
    now: Instant,
    rng: Rng,
    nodes: Vec<Node>,
    loss: f64,
    /// Pairs between which nothing passes, in either order.
    cut: BTreeSet<(u32, u32)>,
    in_flight: BTreeMap<(Instant, u64), (u32, u32, Bytes)>,
    sent: u64,
    findings: Vec<Finding>,
}

impl Net {
    fn new(nodes: u32, seed: u64) -> Net {
        Net::with(nodes, seed, &Config::new())
    }

    /// All watch all others from the beginning.
    fn with(nodes: u32, seed: u64, config: &Config) -> Net {
        let config = config.clone().build().expect("within the ranges");
        let mut net = Net {
            seed,
            now: Instant::ZERO,
            rng: Rng::new(seed, 99),
            nodes: Vec::new(),
            loss: 0.0,
            cut: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            sent: 0,
            findings: Vec::new(),
        };
        for node in 0..nodes {
            net.nodes.push(Net::node(&config, member(node), seed));
        }
        let all: Vec<Member> = (0..nodes).map(member).collect();
        for node in 0..nodes {
            net.call(node, |detector, now, out| detector.watch(now, &all, out));
        }
        net
    }

    fn node(config: &Config, me: Member, seed: u64) -> Node {
        Node {
            detector: Detector::new(config.clone(), me, seed),
            output: Output::default(),
            paused_until: Instant::ZERO,
            turn: Duration::ZERO,
            has_crashed: false,
            waiting: Vec::new(),
            bytes: 0,
        }
    }

    /// Calls a detector and carries out what it asks for.
    fn call(&mut self, node: u32, call: impl FnOnce(&mut Detector, Instant, &mut Output)) {
        let served = &mut self.nodes[node as usize];
        call(&mut served.detector, self.now, &mut served.output);
        for change in served.output.changes.drain(..) {
            let Member { node: of, incarnation } = change.member;
            let health = change.health;
            let finding =
                Finding { at: self.now, by: node, of: of.index() as u32, incarnation, health };
            self.findings.push(finding);
        }
        let sends: Vec<_> = served.output.sends.drain(..).collect();
        for (to, bytes) in sends {
            assert!(bytes.len() <= 1100, "{} bytes", bytes.len());
            self.nodes[node as usize].bytes += HEADERS_BYTES + bytes.len() as u64;
            let is_lost = self.rng.chance(self.loss);
            let delay = Duration::from_nanos(u64::from(100_000 + self.rng.below(900_000)));
            if !is_lost && !self.is_cut(node, to.index() as u32) {
                self.in_flight
                    .insert((self.now + delay, self.sent), (node, to.index() as u32, bytes));
                self.sent += 1;
            }
        }
    }

    fn is_cut(&self, a: u32, b: u32) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    /// When a node that has to do something at `at` does it.
    fn served_at(&self, node: u32, at: Instant) -> Instant {
        let node = &self.nodes[node as usize];
        let at = at.max(node.paused_until).max(self.now);
        let turn = node.turn.as_nanos() as u64;
        Instant::from_nanos(at.as_nanos().next_multiple_of(turn.max(1)))
    }

    /// Runs until `end`.
    fn run_until(&mut self, end: Instant) {
        loop {
            let arrival = self.in_flight.keys().next().map_or(Instant::MAX, |&(at, _)| at);
            let turns = (0u32..).zip(&self.nodes).filter(|(_, node)| !node.has_crashed);
            let turns = turns.map(|(i, node)| {
                let waits = !node.waiting.is_empty();
                let wanted = if waits { self.now } else { node.detector.deadline() };
                (if wanted < Instant::MAX { self.served_at(i, wanted) } else { wanted }, i)
            });
            let (turn, node) = turns.min().unwrap_or((Instant::MAX, 0));
            if arrival.min(turn) > end {
                break;
            }
            if arrival <= turn {
                self.now = arrival;
                let (_, (from, to, bytes)) = self.in_flight.pop_first().expect("it was seen");
                self.arrive(from, to, bytes);
            } else {
                self.now = turn;
                let waiting = std::mem::take(&mut self.nodes[node as usize].waiting);
                // The timers first: the harder order for a node that was paused.
                self.call(node, |detector, now, out| detector.poll(now, out));
                for (from, bytes) in waiting {
                    self.deliver(node, from, &bytes);
                }
            }
        }
        self.now = end;
    }

    fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn arrive(&mut self, from: u32, to: u32, bytes: Bytes) {
        let node = &mut self.nodes[to as usize];
        if node.has_crashed {
            return;
        }
        node.bytes += HEADERS_BYTES + bytes.len() as u64;
        if self.served_at(to, self.now) > self.now {
            self.nodes[to as usize].waiting.push((NodeId::from(from), bytes));
        } else {
            self.deliver(to, NodeId::from(from), &bytes);
        }
    }

    fn deliver(&mut self, to: u32, from: NodeId, bytes: &[u8]) {
        self.call(to, |detector, now, out| {
            detector.receive(now, from, bytes, out).expect("a detector sent it");
        });
    }

    fn crash(&mut self, node: u32) {
        self.nodes[node as usize].has_crashed = true;
        self.nodes[node as usize].waiting.clear();
    }

    fn pause(&mut self, node: u32, time: Duration) {
        self.nodes[node as usize].paused_until = self.now + time;
    }

    fn cut_off(&mut self, node: u32) {
        for other in (0..self.nodes.len() as u32).filter(|&other| other != node) {
            self.cut.insert((node.min(other), node.max(other)));
        }
    }

    /// One node's view of another's state.
    fn health(&self, by: u32, of: u32) -> Health {
        let health = self.nodes[by as usize].detector.health(NodeId::from(of));
        health.expect("it is watched")
    }

    /// When the last of the living found this node down.
    fn found_down_by_all(&self, node: u32) -> Option<Instant> {
        let living = (0u32..).zip(&self.nodes).filter(|(i, n)| *i != node && !n.has_crashed);
        living
            .map(|(by, _)| self.found(by, node, Health::Down))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .max()
    }

    /// When one node first found this of another.
    fn found(&self, by: u32, of: u32, health: Health) -> Option<Instant> {
        let is_it = |f: &&Finding| (f.by, f.of, f.health) == (by, of, health);
        self.findings.iter().find(is_it).map(|finding| finding.at)
    }

    fn downs(&self) -> Vec<Finding> {
        self.findings.iter().filter(|f| f.health == Health::Down).copied().collect()
    }

    fn assert_all_up(&self) {
        let nodes = 0..self.nodes.len() as u32;
        for (by, of) in nodes.clone().flat_map(|by| nodes.clone().map(move |of| (by, of))) {
            if by != of
                && !self.nodes[by as usize].has_crashed
                && !self.nodes[of as usize].has_crashed
            {
                assert_eq!(self.health(by, of), Health::Up, "{by} of {of}, seed {}", self.seed);
            }
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.nodes.iter().map(|node| node.output.counters.count(name)).sum()
    }
}

/// Member `node` in its first incarnation.
fn member(node: u32) -> Member {
    Member { node: NodeId::from(node), incarnation: 1000 + u64::from(node) }
}
