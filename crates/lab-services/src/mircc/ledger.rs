//! The ledger of flows: the segments that they received, and when.

use std::time::Duration;

use paceline_proto::core::{Instant, mix};
use paceline_proto::mircc::FlowCounts;
use paceline_proto::ndn::Class;
use serde::{Deserialize, Serialize};

/// How exactly times are kept.
pub const BIN: Duration = Duration::from_millis(10);

/// What one flow received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// When it began, in nanoseconds.
    began: Option<u64>,
    /// When it ended, by itself or stopped.
    ended: Option<u64>,
    /// True if it has all its segments.
    pub is_whole: bool,
    // By bins from the first: bytes on the link by primary and by secondary Interests.
    bins: Vec<[u32; 2]>,
    first_bin: u64,
    /// Changes of the granted rate for primary Interests: time, and rate in bit/s.
    pub stamped_rates: Vec<(u64, u64)>,
    /// Segments, and their bytes of content.
    pub segments: u64,
    content_bytes: u64,
    // Of their numbers.
    hash: u64,
    /// Interests that nothing came for in time, and that were refused.
    pub lost: (u64, u64),
}

/// What all flows of a run received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    flows: Vec<Flow>,
    open: usize,
    /// What should not have happened, the first such thing.
    pub broken: Option<String>,
}

/// What one process notes of its flows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part {
    flows: Vec<(u64, Flow)>,
    broken: Option<String>,
}

impl Ledger {
    /// An empty ledger for `flows` flows.
    pub fn new(flows: usize) -> Ledger {
        Ledger { flows: vec![Flow::default(); flows], open: flows, broken: None }
    }

    /// The flows, by number.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// A flow begins.
    pub fn began(&mut self, flow: u64, at: Instant) {
        self.flows[flow as usize].began = Some(at.as_nanos());
    }

    /// A flow is stopped.
    pub fn stopped(&mut self, flow: u64, at: Instant) {
        self.end(flow, at);
    }

    /// A flow has all its segments.
    pub fn ended(&mut self, flow: u64, at: Instant, counts: &FlowCounts) {
        let held = &mut self.flows[flow as usize];
        held.is_whole = true;
        held.lost = (counts.timeouts + counts.overtaken, counts.nacks);
        self.end(flow, at);
    }

    /// A segment has come: its number, its class, its bytes on the link and of content, and the
    /// rate that it granted.
    pub fn received(
        &mut self,
        flow: u64,
        at: Instant,
        (number, class, (link_bytes, content_bytes)): (u64, Class, (usize, usize)),
        stamped_rate: Option<u64>,
    ) {
        let flow = &mut self.flows[flow as usize];
        let bin = at.as_nanos() / BIN.as_nanos() as u64;
        if flow.bins.is_empty() {
            flow.first_bin = bin;
        }
        let place = bin.saturating_sub(flow.first_bin) as usize;
        if place >= flow.bins.len() {
            flow.bins.resize(place + 1, [0; 2]);
        }
        flow.bins[place][usize::from(class == Class::Secondary)] += link_bytes as u32;
        flow.segments += 1;
        flow.content_bytes += content_bytes as u64;
        flow.hash = flow.hash.wrapping_add(mix(number));
        if let Some(rate) = stamped_rate
            && flow.stamped_rates.last().is_none_or(|&(_, last)| last != rate)
        {
            flow.stamped_rates.push((at.as_nanos(), rate));
        }
    }

    /// Something is wrong.
    pub fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// True once all flows have ended, or something broke. Flows that are stopped leave the others
    /// to the end of the scenario.
    pub fn is_done(&self, is_open_ended: bool) -> bool {
        self.broken.is_some() || (self.open == 0 && !is_open_ended)
    }

    /// True if a flow has ended.
    pub fn has_ended(&self, flow: u64) -> bool {
        self.broken.is_some() || self.flows[flow as usize].ended.is_some()
    }

    /// What is noted of some flows.
    pub fn part(&self, flows: impl Iterator<Item = u64>) -> Part {
        let mut flows: Vec<u64> = flows.collect();
        flows.sort_unstable();
        flows.dedup();
        let flows = flows.into_iter().map(|flow| (flow, self.flows[flow as usize].clone()));
        Part { flows: flows.collect(), broken: self.broken.clone() }
    }

    /// Takes in what another process noted.
    pub fn merge(&mut self, part: Part) {
        for (number, flow) in part.flows {
            if let Some(held) = self.flows.get_mut(number as usize) {
                self.open -= usize::from(held.ended.is_none() && flow.ended.is_some());
                *held = flow;
            }
        }
        if let Some(broken) = part.broken {
            self.breaks(broken);
        }
    }

    /// Digest of how much each flow received, and of which numbers.
    pub fn deliveries(&self) -> String {
        let of = |sum: u64, (flow, held): (u64, &Flow)| {
            mix(sum ^ mix(flow ^ mix(held.content_bytes ^ mix(held.segments ^ held.hash))))
        };
        format!("{:016x}", (0u64..).zip(&self.flows).fold(0, of))
    }

    fn end(&mut self, flow: u64, at: Instant) {
        let held = &mut self.flows[flow as usize];
        if held.ended.is_none() {
            held.ended = Some(at.as_nanos());
            self.open -= 1;
        }
    }
}

impl Flow {
    /// How long it took, if it ended with all its segments.
    pub fn took(&self) -> Option<Duration> {
        let (began, ended) = self.began.zip(self.ended.filter(|_| self.is_whole))?;
        Some(Duration::from_nanos(ended - began))
    }

    /// When it ended.
    pub fn ended(&self) -> Option<Duration> {
        self.ended.map(Duration::from_nanos)
    }

    /// Mean rate from one time to another, bit/s on the link: of primary Interests and of
    /// secondary ones. Times are taken in whole bins.
    pub fn rates(&self, from: Duration, until: Duration) -> [f64; 2] {
        let bin = |at: Duration| (at.as_nanos() / BIN.as_nanos()) as u64;
        let (from, until) = (bin(from), bin(until));
        let seconds = (until - from) as f64 * BIN.as_secs_f64();
        let place = |bin: u64| (bin.saturating_sub(self.first_bin) as usize).min(self.bins.len());
        let bins = &self.bins[place(from)..place(until)];
        let sum = |class: usize| bins.iter().map(|bin| f64::from(bin[class])).sum::<f64>();
        [0, 1].map(|class| sum(class) * 8.0 / seconds)
    }

    /// The same of both.
    pub fn rate(&self, from: Duration, until: Duration) -> f64 {
        self.rates(from, until).iter().sum()
    }

    /// Bits on the link that it received until then.
    pub fn bits(&self, until: Duration) -> f64 {
        self.rate(Duration::ZERO, until) * until.as_secs_f64()
    }

    /// Mean rate of content over its life, bit/s: what a file's user sees.
    pub fn goodput(&self, until: Duration) -> Option<f64> {
        let began = Duration::from_nanos(self.began?);
        let seconds = self.ended().unwrap_or(until).saturating_sub(began).as_secs_f64();
        (seconds > 0.0).then(|| self.content_bytes as f64 * 8.0 / seconds)
    }
}
