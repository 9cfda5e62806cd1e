//! Windows in which rates have settled, compared with the oracles.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::time::Duration;

use paceline_lab::LabError;
use paceline_proto::core::{Payload, Wire};
use paceline_proto::mircc::Config;
use paceline_proto::ndn::{Body, Data, Header, Interest, Meta, Packet, PathLabel, Stamps};

use super::Settings;
use super::ledger::Ledger;
use super::oracle::{DualClass, Flow, Problem, distance_max};
use super::topology::Flows;

/// Round trips after a change until rates count, and the least such time.
const SETTLE_TRIPS: u32 = 40;
const SETTLE_MIN: Duration = Duration::from_secs(1);
/// Paths of a consumer that are looked at.
const PATHS_MAX: usize = 16;
/// Choices of paths of which each is tried for a fixed point.
const CHOICES_MAX: usize = 4_096;
/// Means over this time are compared with fixed points, and how near they must be.
const PART: Duration = Duration::from_millis(500);
const NEAR: f64 = 0.15;

/// Turns until capacities and rates fit each other: each is ten times as exact as the one before.
const TURNS: u32 = 6;
/// Lower rates count as zero, bit/s.
const RATE_MIN: f64 = 1.0;

/// What packets take of a link, beside a Data some hops from where it was made.
#[derive(Clone, Copy, Debug)]
struct Shares {
    /// An Interest.
    interest: f64,
    /// A Data on its first link, where it has neither stamps nor a label yet.
    fresh_data: f64,
}

impl Shares {
    /// Those of packets three hops from the consumer, and from the producer.
    fn new(settings: &Settings) -> Shares {
        let name = super::object_name("/prefix", 1).with_segment(10_000);
        let mut label = PathLabel::EMPTY;
        (0..3).for_each(|_| label.push_front(NonZeroU16::MAX));
        let mut interest = Interest::new(name.clone(), 0);
        interest.lifetime_ms = Some(1_000);
        let header = Header { label, round_trip_micros: Some(20_000), ..Header::default() };
        let interest = Packet { header, body: Body::Interest(interest) };
        let content = Payload::Zeros(settings.segment_bytes as u32);
        let meta = Meta { content_type: None, freshness_ms: None, final_segment: Some(1 << 20) };
        let data = Data::new(name, meta, content, &settings.config.signer);
        let fresh = Packet::from(data.clone());
        let rate = 10_000_000;
        let stamps = Stamps { primary_bits_per_second: rate, secondary_bits_per_second: rate };
        let header = Header { stamps, label, ..Header::default() };
        let data = Packet { header, body: Body::Data(data) };
        let bytes = |packet: &Packet| (packet.wire_len() + settings.config.frame_bytes) as f64;
        let of = |packet: &Packet| bytes(packet) / bytes(&data);
        Shares { interest: of(&interest), fresh_data: of(&fresh) }
    }
}

/// A time in which the same flows are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// From when on rates count.
    pub from: Duration,
    /// When the next change is.
    pub until: Duration,
    /// The flows that are there.
    pub flows: Vec<usize>,
}

/// What a window's flows should have, bit/s, and what they had.
#[derive(Clone, Debug)]
pub struct Held {
    /// The window.
    pub window: Window,
    /// What each flow received by primary and by secondary Interests.
    pub measured: Vec<[f64; 2]>,
    /// What it would have if primaries share first, and secondaries what they leave: of several
    /// such allocations that which is nearest.
    pub dual: DualClass,
    /// What it would have if totals were shared max-min over all paths.
    pub max_min: Vec<f64>,
    /// Whether rates stayed where they were during the window.
    pub steadiness: Steadiness,
}

/// How the means of half seconds lie beside the dual-class fixed points of a window's flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steadiness {
    /// Half seconds of the window.
    pub parts: u32,
    /// Those in which each flow is within 15 % of some fixed point.
    pub near: u32,
    /// How often one of these is near another fixed point than the one before it.
    pub changes: u32,
}

impl Steadiness {
    /// Follows totals of one half second after the other beside fixed points. The one that was
    /// near last counts as long as it is near.
    fn follow(parts: impl Iterator<Item = Vec<f64>>, points: &[Vec<f64>]) -> Steadiness {
        let mut found = Steadiness::default();
        let mut last: Option<usize> = None;
        for totals in parts {
            found.parts += 1;
            let distance = |point: usize| distance_max(&totals, &points[point]);
            let nearest = || {
                let order = |&a: &usize, &b: &usize| distance(a).total_cmp(&distance(b));
                (0..points.len()).min_by(order).filter(|&point| distance(point) <= NEAR)
            };
            let stays = last.filter(|&point| distance(point) <= NEAR);
            let Some(point) = stays.or_else(nearest) else { continue };
            found.near += 1;
            found.changes += u32::from(last.is_some_and(|last| last != point));
            last = Some(point);
        }
        found
    }
}

impl Held {
    /// Totals of the flows.
    pub fn totals(&self) -> Vec<f64> {
        self.measured.iter().map(|classes| classes.iter().sum()).collect()
    }

    /// The largest distance from the dual-class oracle, as a share.
    pub fn distance(&self) -> f64 {
        distance_max(&self.totals(), &self.dual.totals())
    }

    /// The largest distance from multipath max-min.
    pub fn distance_max_min(&self) -> f64 {
        distance_max(&self.totals(), &self.max_min)
    }
}

/// The network of a scenario as oracles see it.
pub(super) struct Oracles<'a> {
    settings: &'a Settings,
    flows: Flows,
    shares: Shares,
}

impl<'a> Oracles<'a> {
    pub(super) fn new(settings: &'a Settings) -> Result<Oracles<'a>, LabError> {
        let eta = settings.config.controller.headroom;
        let flows = Flows::new(&settings.graph, settings.routing, eta, PATHS_MAX)?;
        Ok(Oracles { settings, flows, shares: Shares::new(settings) })
    }

    /// The longest way there and back.
    pub(super) fn round_trip(&self) -> Duration {
        let delays = self.flows.paths.iter().flatten().map(|path| path.delay * 2);
        delays.max().unwrap_or_default()
    }

    /// How long after a change rates count.
    pub(super) fn settle(&self) -> Duration {
        let trips = self.round_trip() * SETTLE_TRIPS;
        self.settings.settle.unwrap_or(trips.max(SETTLE_MIN))
    }

    /// The windows of the plan that are long enough to settle in.
    pub(super) fn windows(&self) -> Vec<Window> {
        let Settings { plan, duration, .. } = self.settings;
        let ends = plan.changes.iter().skip(1).chain([duration]);
        let window = |(&begins, &until): (&Duration, &Duration)| Window {
            from: begins + self.settle(),
            until: until.min(*duration),
            flows: plan.active(begins),
        };
        let windows = plan.changes.iter().zip(ends).map(window);
        windows.filter(|window| window.from < window.until && !window.flows.is_empty()).collect()
    }

    /// Solves the problem that some flows are. What Interests take of a link is not there for the
    /// Data of the other way, and rates count where Data arrives, when it is a little larger than
    /// it was on its first link: so capacities and rates are found together, in turns.
    pub(super) fn solve<T>(
        &self,
        flows: &[usize],
        solve: impl Fn(&Problem) -> Result<(T, Vec<Vec<f64>>), LabError>,
    ) -> Result<T, LabError> {
        let of = |&flow: &usize| {
            let consumer = self.settings.plan.steps[flow].consumer;
            self.flows.problem.flows()[consumer].clone()
        };
        let flows: Vec<_> = flows.iter().map(of).collect();
        let all = self.flows.problem.capacities();
        let eta = self.settings.config.controller.headroom;
        let mut capacities = all.to_vec();
        let mut turns = 0;
        loop {
            let problem = Problem::new(capacities, flows.clone())?;
            let (solved, split) = solve(&problem)?;
            turns += 1;
            if turns == TURNS {
                return Ok(solved);
            }
            // Ports of a link are numbered one after the other.
            let loads = problem.loads(&split);
            let carried = self.carried(&problem, &split, loads.clone());
            let left = |(port, capacity): (usize, &f64)| {
                let for_data = capacity - eta * self.shares.interest * loads[port ^ 1];
                let counted = if carried[port] > 0.0 { loads[port] / carried[port] } else { 1.0 };
                (for_data * counted).max(0.0)
            };
            capacities = all.iter().enumerate().map(left).collect();
        }
    }

    /// What each link carries, of these loads, when rates count the size of Data where paths end. A
    /// flow alone on a link is stamped at most the link's rate. Its Data is smaller on that link
    /// than where the path ends, so it fills the link a little less.
    fn carried(&self, problem: &Problem, split: &[Vec<f64>], mut carried: Vec<f64>) -> Vec<f64> {
        let mut firsts = vec![Vec::new(); carried.len()];
        let mut users = vec![0; carried.len()];
        for (flow, rates) in problem.flows().iter().zip(split) {
            for (path, &rate) in flow.paths.iter().zip(rates).filter(|&(_, &rate)| rate > RATE_MIN)
            {
                path.iter().for_each(|&port| users[port] += 1);
                // Paths begin at the consumer. What has one link only ends on its first.
                if let [_, .., first] = path[..] {
                    firsts[first].push(rate);
                }
            }
        }
        for (port, rates) in firsts.iter().enumerate().filter(|&(port, _)| users[port] > 1) {
            carried[port] -= rates.iter().sum::<f64>() * (1.0 - self.shares.fresh_data);
        }
        carried
    }

    /// Rates for the flows of a window, on the shortest path of each.
    pub(super) fn single(&self, flows: &[usize]) -> Result<Vec<f64>, LabError> {
        let choice = vec![0; flows.len()];
        self.solve(flows, |problem| {
            let rates = problem.single_path(&choice)?;
            let only = |(rate, flow): (&f64, &Flow)| {
                let mut split = vec![0.0; flow.paths.len()];
                split[0] = *rate;
                split
            };
            let split = rates.iter().zip(problem.flows()).map(only).collect();
            Ok((rates, split))
        })
    }

    /// The gain for which flows move, as oracles see it. A consumer that moves later than usual has
    /// more fixed points, and is held against those of the usual one.
    fn switch_gain(&self) -> f64 {
        self.settings.config.switch_gain.min(Config::default().switch_gain)
    }

    /// Totals of two classes for some flows, as far as links go: without what Interests take, and
    /// for the one fixed point that flows find if they move in turn.
    pub(super) fn fluid(&self, flows: &[usize]) -> Result<Vec<f64>, LabError> {
        let of = |&flow: &usize| {
            let consumer = self.settings.plan.steps[flow].consumer;
            self.flows.problem.flows()[consumer].clone()
        };
        let capacities = self.flows.problem.capacities().to_vec();
        let problem = Problem::new(capacities, flows.iter().map(of).collect())?;
        Ok(problem.dual_class(self.switch_gain()).totals())
    }

    /// Totals for the flows of a window, max-min over all paths.
    pub(super) fn max_min(&self, flows: &[usize]) -> Result<Vec<f64>, LabError> {
        self.solve(flows, |problem| {
            let allocation = problem.multipath()?;
            Ok((allocation.totals, allocation.split))
        })
    }

    /// Holds what was measured in a window against the oracles.
    pub(super) fn hold(&self, ledger: &Ledger, window: Window) -> Result<Held, LabError> {
        let rates = |&flow: &usize| ledger.flows()[flow].rates(window.from, window.until);
        let measured: Vec<[f64; 2]> = window.flows.iter().map(rates).collect();
        let totals: Vec<f64> = measured.iter().map(|classes| classes.iter().sum()).collect();
        let gain = self.switch_gain();
        let dual = self.solve(&window.flows, |problem| {
            let known = problem.dual_class_fixed_points(gain, CHOICES_MAX).unwrap_or_default();
            let all = known.into_iter().chain([problem.dual_class(gain)]);
            let far = |dual: &DualClass| distance_max(&totals, &dual.totals());
            let nearest = all.min_by(|a, b| far(a).total_cmp(&far(b)));
            let nearest = nearest.expect("there is one at least");
            let split = nearest.split();
            Ok((nearest, split))
        })?;
        let max_min = self.max_min(&window.flows)?;
        let steadiness = self.steadiness(ledger, &window)?;
        Ok(Held { window, measured, dual, max_min, steadiness })
    }

    /// Follows the rates of a window, half second by half second.
    fn steadiness(&self, ledger: &Ledger, window: &Window) -> Result<Steadiness, LabError> {
        let gain = self.switch_gain();
        let choices = self.solve(&window.flows, |problem| {
            let known = problem.dual_class_fixed_points(gain, CHOICES_MAX).unwrap_or_default();
            let found = problem.dual_class(gain);
            let split = found.split();
            let all = known.into_iter().chain([found]).map(|point| point.best);
            Ok((all.collect::<BTreeSet<_>>(), split))
        })?;
        let totals = |choice: Vec<usize>| {
            self.solve(&window.flows, |problem| {
                let point = problem.dual_class_on(&choice)?;
                Ok((point.totals(), point.split()))
            })
        };
        let points = choices.into_iter().map(totals).collect::<Result<Vec<_>, _>>()?;
        let count = ((window.until - window.from).as_nanos() / PART.as_nanos()) as u32;
        let parts = (0..count).map(|part| {
            let (from, until) = (window.from + PART * part, window.from + PART * (part + 1));
            window.flows.iter().map(|&flow| ledger.flows()[flow].rate(from, until)).collect()
        });
        Ok(Steadiness::follow(parts, &points))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_counted_when_rates_leave_a_fixed_point_for_another() {
        let points = [vec![10.0, 5.0], vec![5.0, 10.0]];
        let parts = [
            vec![10.0, 5.0],
            vec![9.0, 5.5],
            vec![7.5, 7.5], // On the way: near none.
            vec![5.2, 9.8],
            vec![5.0, 10.0],
            vec![7.0, 9.0],
            vec![5.4, 10.9],
            vec![10.1, 5.0],
        ];
        let found = Steadiness::follow(parts.into_iter(), &points);
        assert_eq!(found, Steadiness { parts: 8, near: 6, changes: 2 });
        let none = Steadiness::follow([vec![1.0, 1.0]].into_iter(), &points);
        assert_eq!(none, Steadiness { parts: 1, near: 0, changes: 0 });
    }
}
