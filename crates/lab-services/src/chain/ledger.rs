//! The ledger of a broadcast run: the deliveries of each node, their order, and their times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hdrhistogram::Histogram;
use paceline_lab::run::{Metric, Sample};
use paceline_lab::world;
use paceline_proto::core::{Instant, NodeId, Payload, View, mix};
use serde::{Deserialize, Serialize};

use super::bins::Bins;
use super::content::{Messages, Verdict};

/// Latencies are kept in nanoseconds up to this many, with three digits.
const LATENCY_NANOS_MAX: u64 = 3_600_000_000_000;

/// What one node delivered from one origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that were not what must have come next.
    pub damaged: u64,
    /// A hash of the messages in their order.
    pub order: u64,
    /// The number of the first message: more than 0 if the node came later than the origin.
    pub first: u64,
    /// The number of the message that must come next.
    pub next: u64,
    /// The run of the origin that sent the last one.
    pub incarnation: u64,
    /// Messages within the measured time.
    pub measured: u64,
}

/// A view as one node installed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// When, in nanoseconds.
    pub at_nanos: u64,
    /// Its number.
    pub view: u64,
    /// Its members.
    pub members: Vec<u64>,
}

/// One node's part of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLedger {
    /// Messages that its application submitted and its member accepted.
    pub accepted: u64,
    /// Its deliveries, by origin.
    pub received: BTreeMap<u64, Received>,
    /// Bytes delivered within the measured time.
    pub measured_bytes: u64,
    /// Bytes delivered in each second of the run.
    pub bytes_by_second: Vec<u64>,
    /// Bytes delivered over the run, in bins that fit it.
    pub bytes: Bins,
    /// Times of its first and last delivery, in nanoseconds.
    pub first_nanos: Option<u64>,
    /// See `first_nanos`.
    pub last_nanos: u64,
    /// The longest time between two consecutive deliveries, in nanoseconds.
    pub silence_nanos_max: u64,
    /// Messages that its application submitted and that the group rejected: no member delivered
    /// them.
    pub rejected: u64,
    /// Views that it installed; none with a fixed roster.
    pub views: Vec<Installed>,
    /// How often the others went on without it.
    pub excluded: u64,
}

/// What one process noted of its node, with all latencies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    node: NodeLedger,
    // Nanoseconds and how often.
    latency: Vec<(u64, u64)>,
    quiet_latency: Vec<(u64, u64)>,
}

/// The part of a run whose numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From here.
    pub from: Instant,
    /// Up to here.
    pub until: Instant,
}

/// Which messages of an origin a node delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// All nodes deliver all messages.
    Full,
    /// Nodes come and go and miss what is sent meanwhile. These are known to: nothing counts as
    /// missing that one of them sends or is sent.
    Broken(BTreeSet<NodeId>),
}

/// The ledger of a run.
#[derive(Debug)]
pub struct Ledger {
    attendance: Attendance,
    senders: Vec<NodeId>,
    // Nodes whose application may submit, where nodes come and go.
    ready: BTreeSet<NodeId>,
    window: Window,
    nodes: Vec<NodeLedger>,
    // When each active node's messages were accepted, until everybody has them.
    accepted_at: BTreeMap<NodeId, Vec<Instant>>,
    latency: Histogram<u64>,
    // Senders that send seldom, and the latencies of what they send.
    quiet: BTreeSet<NodeId>,
    quiet_latency: Histogram<u64>,
    delivered: u64,
    // Until when each slow reader is busy with its deliveries.
    reads_until: BTreeMap<NodeId, Instant>,
}

impl Ledger {
    /// An empty ledger for this many nodes.
    pub fn new(nodes: u32, window: Window, attendance: Attendance) -> Ledger {
        let latency = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3);
        let latency = latency.expect("the bounds are in order");
        Ledger {
            attendance,
            senders: Vec::new(),
            ready: BTreeSet::new(),
            window,
            nodes: vec![NodeLedger::default(); nodes as usize],
            accepted_at: BTreeMap::new(),
            quiet: BTreeSet::new(),
            quiet_latency: latency.clone(),
            latency,
            delivered: 0,
            reads_until: BTreeMap::new(),
        }
    }

    /// The nodes whose applications send as much as they may, and those that send seldom.
    pub fn with_senders(self, senders: Vec<NodeId>, quiet: &[NodeId]) -> Ledger {
        Ledger { senders, quiet: quiet.iter().copied().collect(), ..self }
    }

    /// A node's member accepted a message.
    pub fn accepted(&mut self, at: Instant, node: NodeId) {
        self.nodes[node.index()].accepted += 1;
        self.accepted_at.entry(node).or_default().push(at);
    }

    /// A message that a node's member had accepted came back.
    pub fn rejected(&mut self, node: NodeId) {
        self.nodes[node.index()].rejected += 1;
    }

    /// A node is a member of this view.
    pub fn note_view(&mut self, at: Instant, node: NodeId, view: &View) {
        let members = view.members().iter().map(|member| member.node.0).collect();
        let installed = Installed { at_nanos: at.as_nanos(), view: view.id().0, members };
        self.nodes[node.index()].views.push(installed);
        self.ready.insert(node);
    }

    /// The others go on without a node.
    pub fn note_excluded(&mut self, node: NodeId) {
        self.nodes[node.index()].excluded += 1;
        self.ready.remove(&node);
    }

    /// Whether a node's application may submit; it may after each view.
    pub fn set_ready(&mut self, node: NodeId, is_ready: bool) {
        if is_ready {
            self.ready.insert(node);
        } else {
            self.ready.remove(&node);
        }
    }

    /// See [`Ledger::set_ready`].
    pub fn is_ready(&self, node: NodeId) -> bool {
        self.ready.contains(&node)
    }

    /// A node delivered messages of this origin and incarnation.
    pub fn delivered(
        &mut self,
        messages: &Messages,
        at: Instant,
        node: NodeId,
        (origin, incarnation): (NodeId, u64),
        payload: &Payload,
    ) {
        let ledger = &mut self.nodes[node.index()];
        let received = ledger.received.entry(origin.0).or_default();
        let mut number = received.next;
        if self.attendance != Attendance::Full {
            // Another run of an origin begins where it likes; one run only goes up.
            let from = if received.incarnation == incarnation { received.next } else { 0 };
            number = messages.number(payload).filter(|&number| number >= from).unwrap_or(number);
        }
        if received.messages == 0 {
            received.first = number;
        }
        (received.next, received.incarnation) = (number + 1, incarnation);
        let reading = messages.read(origin, number, payload);
        received.messages += 1;
        received.bytes += payload.len() as u64;
        received.damaged += u64::from(reading.verdict == Verdict::Damaged);
        received.order = mix(received.order ^ mix(number << 32 ^ payload.len() as u64));
        if ledger.first_nanos.is_some() {
            let silence = at.as_nanos().saturating_sub(ledger.last_nanos);
            ledger.silence_nanos_max = ledger.silence_nanos_max.max(silence);
        }
        ledger.first_nanos.get_or_insert(at.as_nanos());
        ledger.last_nanos = at.as_nanos();
        let second = at.as_secs_f64() as usize;
        if ledger.bytes_by_second.len() <= second {
            ledger.bytes_by_second.resize(second + 1, 0);
        }
        ledger.bytes_by_second[second] += payload.len() as u64;
        ledger.bytes.add(at, payload.len() as u64);
        self.delivered += 1;
        if at < self.window.from || at >= self.window.until {
            return;
        }
        ledger.measured_bytes += payload.len() as u64;
        ledger.received.entry(origin.0).or_default().measured += 1;
        let known = self.accepted_at.get(&origin).and_then(|times| times.get(number as usize));
        if let Some(accepted) = reading.accepted.or(known.copied()).filter(|_| node != origin) {
            let latency = match self.quiet.contains(&origin) {
                true => &mut self.quiet_latency,
                false => &mut self.latency,
            };
            latency.saturating_record((at - accepted).as_nanos() as u64);
        }
    }

    /// When a reader of `rate` bytes a second is done with a message that is delivered now.
    pub fn read_at(&mut self, at: Instant, node: NodeId, bytes: usize, rate: f64) -> Instant {
        let until = self.reads_until.entry(node).or_default();
        *until = at.max(*until) + Duration::from_secs_f64(bytes as f64 / rate);
        *until
    }

    /// Messages delivered, counted at every node.
    pub fn deliveries(&self) -> u64 {
        self.delivered
    }

    /// Messages accepted, of all nodes.
    pub fn accepted_total(&self) -> u64 {
        self.nodes.iter().map(|node| node.accepted).sum()
    }

    /// Each node's part.
    pub fn nodes(&self) -> &[NodeLedger] {
        &self.nodes
    }

    /// Latencies from acceptance to each remote delivery within the measured time, nanoseconds,
    /// of messages of all but quiet senders.
    pub fn latency(&self) -> &Histogram<u64> {
        &self.latency
    }

    /// Those of messages of quiet senders; `None` without such senders.
    pub fn quiet_latency(&self) -> Option<&Histogram<u64>> {
        (!self.quiet.is_empty()).then_some(&self.quiet_latency)
    }

    /// Messages of quiet senders that reached all members within the measured time.
    pub fn quiet_messages(&self) -> u64 {
        self.quiet.iter().map(|&sender| self.reached_all(sender)).sum()
    }

    /// Messages delivered at one node.
    pub fn deliveries_at(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].received.values().map(|received| received.messages).sum()
    }

    /// A hash of the messages that each node delivered, in the order of each origin: equal in two
    /// runs, in either world, if every application saw the same.
    pub fn deliveries_digest(&self) -> String {
        let mut digest = 0u64;
        for (node, ledger) in self.nodes.iter().enumerate() {
            for (&origin, received) in &ledger.received {
                let of = mix(received.order ^ mix(received.damaged) ^ received.messages << 1);
                digest = mix(digest ^ mix((node as u64) << 32 | origin) ^ of);
            }
        }
        format!("{digest:016x}")
    }

    /// Accepted messages that some member did not deliver, and damaged messages.
    pub fn faults(&self) -> (u64, u64) {
        let mut missing = 0;
        let mut damaged = 0;
        for (node, ledger) in (0..).zip(&self.nodes) {
            for (origin, sender) in (0..).zip(&self.nodes) {
                let received = ledger.received.get(&origin).copied().unwrap_or_default();
                damaged += received.damaged;
                if self.attends(NodeId(node)) && self.attends(NodeId(origin)) {
                    let sent = sender.accepted.saturating_sub(sender.rejected);
                    missing += sent.saturating_sub(received.first + received.messages);
                }
            }
        }
        (missing, damaged)
    }

    /// True if the node was there all the time.
    pub fn attends(&self, node: NodeId) -> bool {
        let is_known = match &self.attendance {
            Attendance::Full => true,
            Attendance::Broken(known) => !known.contains(&node),
        };
        is_known && self.nodes[node.index()].excluded == 0
    }

    /// Nodes that were there all the time.
    pub fn attendants(&self) -> impl Iterator<Item = &NodeLedger> {
        let nodes = (0..).map(NodeId).zip(&self.nodes);
        nodes.filter(|&(node, _)| self.attends(node)).map(|(_, ledger)| ledger)
    }

    /// Bytes that a node delivered a second within the measured time, own included.
    pub fn bytes_per_node_per_second(&self, ended: Instant) -> f64 {
        let until = self.window.until.min(ended);
        let seconds = (until - self.window.from).as_secs_f64();
        let bytes: u64 = self.nodes.iter().map(|node| node.measured_bytes).sum();
        if seconds > 0.0 { bytes as f64 / self.nodes.len() as f64 / seconds } else { 0.0 }
    }

    /// Messages of each sender that reached all members within the measured time, the members that
    /// come and go left out.
    fn got_through(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let senders = self.senders.iter().filter(|&&sender| self.attends(sender));
        senders.map(|&sender| (sender, self.reached_all(sender)))
    }

    /// Messages of one of them.
    fn reached_all(&self, sender: NodeId) -> u64 {
        let measured = |node: &NodeLedger| {
            node.received.get(&sender.0).map_or(0, |received| received.measured)
        };
        self.attendants().map(measured).min().unwrap_or(0)
    }

    /// Most over fewest messages that two senders got through to all in the measured time, a sender
    /// that got none through counted as one message; 1 with one sender.
    pub fn fairness(&self) -> f64 {
        let counts = self.got_through().map(|(_, count)| count);
        let (fewest, most) = counts.fold((u64::MAX, 0), |(low, high), n| (low.min(n), high.max(n)));
        if most == 0 || fewest == u64::MAX { 1.0 } else { most as f64 / fewest.max(1) as f64 }
    }

    /// Senders that got nothing through to all in the measured time, where others did.
    pub fn starved(&self) -> Vec<NodeId> {
        let is_idle = self.got_through().all(|(_, count)| count == 0);
        let starved = self.got_through().filter(|&(_, count)| count == 0 && !is_idle);
        starved.map(|(sender, _)| sender).collect()
    }

    /// Whole seconds, within the measured time, in which some node delivered nothing.
    pub fn seconds_without_progress(&self, ended: Instant) -> u64 {
        let until = self.window.until.min(ended).as_nanos() / 1_000_000_000;
        let from = self.window.from.as_nanos().div_ceil(1_000_000_000);
        let is_silent = |second: u64| {
            let bytes = |node: &NodeLedger| node.bytes_by_second.get(second as usize).copied();
            self.nodes.iter().any(|node| bytes(node).unwrap_or(0) == 0)
        };
        (from..until).filter(|&second| is_silent(second)).count() as u64
    }

    /// Time of the last delivery.
    pub fn last_delivery(&self) -> Instant {
        Instant::from_nanos(self.nodes.iter().map(|node| node.last_nanos).max().unwrap_or(0))
    }

    /// The numbers that sum the run up.
    pub fn summary(&self, ended: Instant) -> Vec<Metric> {
        // Where no process sees both ends of a message no latency is measured.
        let is_measured = !self.latency.is_empty();
        let ms = |nanos: u64| if is_measured { nanos as f64 / 1e6 } else { f64::NAN };
        let at = |quantile: f64| ms(self.latency.value_at_quantile(quantile));
        let (missing, damaged) = self.faults();
        let rate = self.bytes_per_node_per_second(ended) / 1e6;
        let mut summary = vec![
            Metric::new("messages_accepted", self.accepted_total() as f64, ""),
            Metric::new("messages_delivered", self.delivered as f64, ""),
            Metric::new("messages_missing", missing as f64, ""),
            Metric::new("messages_damaged", damaged as f64, ""),
            Metric::new("throughput", rate, "MB/node/s"),
            Metric::new("latency_p50", at(0.5), "ms"),
            Metric::new("latency_p99", at(0.99), "ms"),
            Metric::new("latency_max", ms(self.latency.max()), "ms"),
            Metric::new("fairness", self.fairness(), "most/fewest"),
            Metric::new("ended", ended.as_secs_f64(), "s"),
        ];
        if let Some(latency) = self.quiet_latency().filter(|latency| !latency.is_empty()) {
            for (name, quantile) in [("quiet_latency_p50", 0.5), ("quiet_latency_p99", 0.99)] {
                let nanos = latency.value_at_quantile(quantile);
                summary.push(Metric::new(name, nanos as f64 / 1e6, "ms"));
            }
        }
        summary
    }

    /// Throughput of every node over the run, in bins of one width; none of a run with fewer
    /// deliveries than bins.
    pub fn series(&self) -> Vec<Sample> {
        let mut series = Vec::new();
        let width = self.nodes.iter().map(|node| node.bytes.width_nanos()).max().unwrap_or(0);
        let binned: Vec<Bins> = self.nodes.iter().map(|node| node.bytes.at_width(width)).collect();
        let bins = binned.iter().map(Bins::len).max().unwrap_or(0);
        if self.delivered < (bins * self.nodes.len()) as u64 {
            // Each bin would hold one message or none.
            return self.view_series(series);
        }
        let rates: Vec<Vec<(f64, f64)>> =
            binned.iter().map(|node| node.rates(bins).collect()).collect();
        for bin in 0..bins {
            for (node, rates) in (0u32..).zip(&rates) {
                let (time_s, rate) = rates[bin];
                series.push(Sample::at_node(time_s, node, "throughput_mb_per_s", rate / 1e6));
            }
        }
        self.view_series(series)
    }

    /// Adds the views that nodes installed.
    fn view_series(&self, mut series: Vec<Sample>) -> Vec<Sample> {
        for (node, ledger) in (0u32..).zip(&self.nodes) {
            for installed in &ledger.views {
                let time_s = Instant::from_nanos(installed.at_nanos).as_secs_f64();
                let members = installed.members.len() as f64;
                series.push(Sample::at_node(time_s, node, "view_members", members));
            }
        }
        series
    }
}

impl world::Ledger for Ledger {
    type Part = Part;

    fn part(&self, node: NodeId) -> Part {
        let recorded = |latency: &Histogram<u64>| {
            let steps = latency.iter_recorded();
            steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
        };
        Part {
            node: self.nodes[node.index()].clone(),
            latency: recorded(&self.latency),
            quiet_latency: recorded(&self.quiet_latency),
        }
    }

    fn merge(&mut self, node: NodeId, part: Part) {
        self.delivered +=
            part.node.received.values().map(|received| received.messages).sum::<u64>();
        self.nodes[node.index()] = part.node;
        for (value, count) in part.latency {
            self.latency.saturating_record_n(value, count);
        }
        for (value, count) in part.quiet_latency {
            self.quiet_latency.saturating_record_n(value, count);
        }
    }
}
