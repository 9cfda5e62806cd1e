//! The ledger of walks, as their homes report them.

use paceline_lab::world;
use paceline_proto::core::{Instant, NodeId, mix};
use paceline_proto::walk::{Census, JobReport, Walk};
use serde::{Deserialize, Serialize};

/// Lengths counted separately, hops; longer walks count with the longest.
const HOPS_MAX: usize = 256;

/// Parts of a home's walks of which each is timed.
const PARTS: u64 = 256;

/// What one home heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Home {
    /// When its job began and ended, nanoseconds.
    began: u64,
    ended: Option<u64>,
    /// Walks that are done, and their hops.
    pub walks: u64,
    /// Hops of all these.
    pub hops: u64,
    /// Walks by their hops.
    pub by_hops: Vec<u64>,
    /// Walkers that it generated.
    pub generated: u64,
    /// Walks that were asked for.
    pub asked: u64,
    /// Walkers that its own server dropped and it heard of at once.
    pub direct: u64,
    /// Walkers that it presumed lost.
    pub timeouts: u64,
    /// Walkers that came home marked.
    pub marked: u64,
    /// Walkers that its queue dropped, of all homes, until its own job ended.
    pub dropped: u64,
    /// Walkers that its queue marked.
    pub queue_marked: u64,
    /// Walkers that its worker served.
    pub visits: u64,
    /// Walkers that left it for other servers.
    pub departed: u64,
    /// Walks that ended at it and went home elsewhere.
    pub returned: u64,
    /// How long walkers waited for company there, in the form of the protocol's `Waits`.
    pub waits: Vec<u64>,
    /// When each part of its walks was done, nanoseconds.
    parts: Vec<u64>,
    /// Of its queue: walkers times seconds.
    pub queue_area: f64,
    // Of walks and their paths, whatever their order.
    hash: u64,
    // What should not have happened, as far as its process knows.
    broken: Option<String>,
}

/// What all homes heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    homes: Vec<Home>,
    open: usize,
    /// What should not have happened, the first such thing.
    pub broken: Option<String>,
}

impl Ledger {
    /// An empty ledger for `homes` homes.
    pub fn new(homes: usize) -> Ledger {
        Ledger { homes: vec![Home::default(); homes], open: homes, broken: None }
    }

    /// All homes, by node.
    pub fn homes(&self) -> &[Home] {
        &self.homes
    }

    /// One of them.
    pub fn home(&self, node: NodeId) -> &Home {
        &self.homes[node.index()]
    }

    /// A home starts its job of `asked` walks.
    pub fn began(&mut self, node: NodeId, at: Instant, asked: u64) {
        let home = &mut self.homes[node.index()];
        (home.began, home.asked) = (at.as_nanos(), asked);
    }

    /// Walks of a home are done.
    pub fn done(&mut self, node: NodeId, at: Instant, walks: &[Walk]) {
        let home = &mut self.homes[node.index()];
        for walk in walks {
            home.walks += 1;
            home.hops += u64::from(walk.steps);
            let hops = (walk.steps as usize).min(HOPS_MAX);
            if hops >= home.by_hops.len() {
                home.by_hops.resize(hops + 1, 0);
            }
            home.by_hops[hops] += 1;
            let path = walk
                .path
                .iter()
                .fold(mix(walk.walk), |hash, &vertex| mix(hash ^ u64::from(vertex)));
            home.hash = home.hash.wrapping_add(mix(path ^ u64::from(walk.end)));
        }
        let done = (home.walks * PARTS).checked_div(home.asked).unwrap_or(0).min(PARTS) as usize;
        if done > home.parts.len() {
            home.parts.resize(done, at.as_nanos());
        }
    }

    /// A home's job has ended.
    pub fn ended(&mut self, node: NodeId, at: Instant, report: &JobReport, census: &Census) {
        let home = &mut self.homes[node.index()];
        home.ended = Some(at.as_nanos());
        home.generated = report.generated;
        home.asked = report.walks;
        home.direct = report.direct;
        home.timeouts = report.timeouts;
        home.marked = report.marked;
        home.dropped = census.dropped_early + census.dropped_full;
        home.queue_marked = census.marked;
        home.visits = census.visits;
        home.departed = census.departed;
        home.returned = census.returned;
        home.waits = census.waits.counts().to_vec();
        home.queue_area = census.queue_area as f64 / 1e9;
        self.open -= 1;
    }

    /// Something happened that should not have.
    pub fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// True once all jobs have ended.
    pub fn is_done(&self) -> bool {
        self.open == 0 || self.broken.is_some()
    }

    /// Walks a second of all homes while the middle half of all walks were done: neither their
    /// beginning nor their end counts, nor that a home is alone when others are done.
    pub fn walks_per_second(&self) -> f64 {
        let mut parts: Vec<(u64, f64)> = Vec::new();
        for home in &self.homes {
            let walks = home.asked as f64 / PARTS as f64;
            parts.extend(home.parts.iter().map(|at| (at.saturating_sub(home.began), walks)));
        }
        parts.sort_by_key(|&(at, _)| at);
        let all: u64 = self.homes.iter().map(|home| home.asked).sum();
        // When as many of all were done.
        let at = |share: f64| {
            let mut done = 0.0;
            let part = parts.iter().find(|(_, walks)| {
                done += walks;
                done >= share * all as f64
            });
            part.map(|&(at, _)| (at, done))
        };
        match (at(0.25), at(0.75)) {
            (Some((from, before)), Some((to, after))) if to > from => {
                (after - before) * 1e9 / (to - from) as f64
            }
            _ => f64::NAN,
        }
    }

    /// A number for all walks and their paths, whatever their order.
    pub fn deliveries(&self) -> String {
        let all = self.homes.iter().fold(0u64, |sum, home| sum.wrapping_add(home.hash));
        format!("{all:016x}")
    }
}

impl world::Ledger for Ledger {
    type Part = Home;

    fn part(&self, node: NodeId) -> Home {
        Home { broken: self.broken.clone(), ..self.home(node).clone() }
    }

    fn merge(&mut self, node: NodeId, mut home: Home) {
        if let Some(what) = home.broken.take() {
            self.breaks(what);
        }
        self.open -= usize::from(home.ended.is_some());
        self.homes[node.index()] = home;
    }
}

impl Home {
    /// When its job ended, if it has, seconds.
    pub fn ended_s(&self) -> Option<f64> {
        self.ended.map(|nanos| nanos as f64 / 1e9)
    }

    /// Walkers beyond one for each walk.
    pub fn additional(&self) -> u64 {
        self.generated.saturating_sub(self.asked)
    }

    /// Mean length of its server's queue until its job ended, walkers.
    pub fn queue_mean(&self) -> f64 {
        self.ended_s().map_or(f64::NAN, |ended| self.queue_area / ended)
    }
}

/// A count of all homes.
pub(super) fn sum(ledger: &Ledger, of: impl Fn(&Home) -> u64) -> u64 {
    ledger.homes().iter().map(of).sum()
}

/// Walkers beyond one for each walk, of all homes.
pub(super) fn additional(ledger: &Ledger) -> u64 {
    sum(ledger, Home::additional)
}

/// When the last server's walks were done.
pub(super) fn time(ledger: &Ledger) -> f64 {
    ledger.homes().iter().filter_map(Home::ended_s).fold(0.0, f64::max)
}

/// The server whose part of the graph is dense.
pub(super) fn last(ledger: &Ledger) -> &Home {
    ledger.homes().last().expect("there are two servers at least")
}

/// Hops of a walk, on average.
pub(super) fn mean_hops(ledger: &Ledger) -> f64 {
    sum(ledger, |home| home.hops) as f64 / sum(ledger, |home| home.walks) as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use paceline_proto::walk::Stop;

    use super::*;
    use paceline_lab::world::Ledger as _;

    #[test]
    fn what_is_broken_in_another_process_is_told_here() {
        let mut child = Ledger::new(2);
        child.breaks("n1 abandoned walk 3".to_owned());
        let mut parent = Ledger::new(2);
        parent.merge(NodeId(0), Ledger::new(2).part(NodeId(0)));
        assert_eq!(parent.broken, None);
        parent.merge(NodeId(1), child.part(NodeId(1)));
        assert_eq!(parent.broken.as_deref(), Some("n1 abandoned walk 3"));
    }

    fn walk(walk: u64) -> Walk {
        Walk {
            walk,
            source: 0,
            end: 0,
            steps: 1,
            stop: Stop::Length,
            attempts: 1,
            path: Vec::new(),
            versions: Vec::new(),
        }
    }

    #[test]
    fn the_rate_is_that_of_the_middle_half() {
        let mut ledger = Ledger::new(1);
        ledger.began(NodeId(0), Instant::ZERO, 1024);
        assert!(ledger.walks_per_second().is_nan());
        // The first quarter take a second each, the others ten milliseconds.
        let mut at = Instant::ZERO;
        for number in 0..1024 {
            at += Duration::from_millis(if number < 256 { 1000 } else { 10 });
            ledger.done(NodeId(0), at, &[walk(number)]);
        }
        let rate = ledger.walks_per_second();
        assert!((rate - 100.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn homes_that_are_fast_one_after_the_other_are_not_twice_as_fast() {
        let mut ledger = Ledger::new(2);
        let milli = Duration::from_millis;
        for node in 0..2 {
            // Both began a second late by their own clock.
            ledger.began(NodeId(node), Instant::ZERO + milli(1000), 2048);
            let all: Vec<Walk> = (0..2048).map(walk).collect();
            for (number, some) in (0..).zip(all.chunks(8)) {
                let at = Instant::ZERO + milli(1000 + (node * 256 + number) * 8);
                ledger.done(NodeId(node), at, some);
            }
        }
        let rate = ledger.walks_per_second();
        assert!((rate - 1000.0).abs() < 1e-6, "{rate}");
    }
}
