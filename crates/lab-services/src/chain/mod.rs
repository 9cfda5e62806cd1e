//! The broadcast service in the lab: its scenarios, its ledger and its figures.

mod bins;
mod compare;
mod content;
mod figures;
mod ledger;
mod measured;
mod report;
mod ring;
mod rounds;
mod run;
mod scenario;
mod setting;
mod simulated;

use std::sync::Arc;
use std::time::Duration;

use paceline_lab::reproduce::Reproduction;
use paceline_lab::world::{Answer, Parts, Service, Workload, answer};
use paceline_proto::chain::{Chain, Command, Config, Event, Topology, fair_shares};
use paceline_proto::core::{Instant, NodeId, Payload, Protocol, View};
use paceline_sim::Codec;

pub use content::{Content, Messages, Reading, Verdict};
pub use ledger::{Attendance, Installed, Ledger, NodeLedger, Received, Window};
pub(crate) use run::run_result;
pub use scenario::{Measure, Plan, read_broadcast};
pub(crate) use scenario::{read_protocol, read_window, read_workload};

/// `paceline reproduce chain`.
pub const REPRODUCTION: Reproduction = Reproduction {
    name: "chain",
    about: "DAISYCHAIN (Ban 2010): rounds, transmissions, throughput, gain",
    figures: figures::reproduce,
    sections: report::sections,
};

/// A broadcast scenario, ready to run in either world.
#[derive(Debug)]
pub struct Broadcast {
    shared: Arc<Config>,
    view: Arc<View>,
    plan: Plan,
    messages: Messages,
    // By node, how much later than the others it begins; empty for not at all.
    starts: Vec<Duration>,
    ledger: Ledger,
}

impl Broadcast {
    /// The scenario's plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Members.
    pub fn nodes(&self) -> u64 {
        self.view.len() as u64
    }

    /// What was noted of the run.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// See [`Broadcast::ledger`].
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// The same, with nodes that deliver what `attendance` says.
    pub(crate) fn attended(self, attendance: Attendance) -> Broadcast {
        let ledger = Ledger::new(self.view.len() as u32, self.plan.window, attendance);
        let ledger = ledger.with_senders(self.saturating_nodes(), &self.plan.quiet);
        Broadcast { ledger, ..self }
    }
}

impl Workload for Broadcast {
    fn view(&self) -> Option<Arc<View>> {
        Some(self.view.clone())
    }

    fn codec(&self) -> Codec {
        if self.plan.check_wire { Codec::CheckWire } else { Codec::Typed }
    }

    fn active_nodes(&self) -> Vec<NodeId> {
        let mut nodes = self.saturating_nodes();
        nodes.extend(&self.plan.quiet);
        nodes.sort_unstable();
        nodes
    }

    fn due(&self, node: NodeId, number: u64) -> Option<Instant> {
        if self.plan.messages.is_some_and(|limit| number >= limit) {
            return None;
        }
        let pause = match self.plan.quiet.contains(&node) {
            true => self.plan.quiet_interval,
            false => self.plan.interval.unwrap_or(Duration::ZERO),
        };
        let after = Duration::from_nanos((pause.as_nanos() as u64).saturating_mul(number));
        let later = self.starts.get(node.index()).copied().unwrap_or_default();
        let at = Instant::ZERO + self.plan.start + later + after;
        (at < self.plan.window.until).then_some(at)
    }

    fn work_bytes(&self, _node: NodeId, _number: u64) -> usize {
        self.plan.message_bytes
    }

    fn is_done(&self) -> bool {
        let due = self.due_at_each();
        due.is_some_and(|due| self.ledger.deliveries() == due * self.view.len() as u64)
    }

    fn is_done_at(&self, node: NodeId) -> bool {
        self.due_at_each().is_some_and(|due| self.ledger.deliveries_at(node) == due)
    }

    fn parts(&self) -> &dyn Parts {
        &self.ledger
    }

    fn parts_mut(&mut self) -> &mut dyn Parts {
        &mut self.ledger
    }
}

impl Service for Broadcast {
    type Protocol = Chain;

    fn shared(&self) -> &Arc<Config> {
        &self.shared
    }

    fn protocol(&self, _node: NodeId) -> Chain {
        Chain::new(&self.shared)
    }

    fn submit(&mut self, at: Instant, node: NodeId, number: u64) -> Command {
        Command::broadcast(self.message(at, node, number))
    }

    fn observe(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &<Chain as Protocol>::Event,
        answers: &mut Vec<Answer<Self>>,
    ) {
        let Event::Delivered { origin, incarnation, end, payload, .. } = event else { return };
        let after = self.deliver(at, node, (*origin, *incarnation), payload);
        let consumed = Command::Consumed { origin: *origin, end: *end };
        // A reader that takes no time has consumed all before it: one credit for the batch.
        answer(
            answers,
            (after, consumed),
            |earlier| matches!(earlier, Command::Consumed { origin: other, .. } if other == origin),
        );
    }
}

impl Broadcast {
    /// The senders that are not quiet.
    pub fn saturating_nodes(&self) -> Vec<NodeId> {
        let senders = self.plan.senders.nodes(self.view.len() as u32);
        senders.into_iter().filter(|node| !self.plan.quiet.contains(node)).collect()
    }

    /// A node's next message, noted as accepted now.
    pub(crate) fn message(&mut self, at: Instant, node: NodeId, number: u64) -> Payload {
        self.ledger.accepted(at, node);
        self.messages.make(node, number, at)
    }

    /// Notes that a node delivers a message of this origin and incarnation now. Returns how long
    /// its application is busy with it.
    pub(crate) fn deliver(
        &mut self,
        at: Instant,
        node: NodeId,
        from: (NodeId, u64),
        payload: &Payload,
    ) -> Duration {
        self.ledger.delivered(&self.messages, at, node, from, payload);
        match self.plan.read_bytes_per_second {
            None => Duration::ZERO,
            Some(rate) => self.ledger.read_at(at, node, payload.len(), rate) - at,
        }
    }

    /// The highest rate of deliveries at a node, own messages included, if each link carries
    /// `link`; in the unit of `link`, without quiet members. For a topology that the planner
    /// chooses, it is the chain's.
    pub fn limit(&self, link: f64) -> f64 {
        let nodes = self.view.len();
        let topology = self.plan.topology.unwrap_or(Topology::Chain);
        let blocks = self.plan.message_bytes.div_ceil(self.shared.block_bytes_max()).max(1);
        let senders: Vec<usize> = self.saturating_nodes().iter().map(|node| node.index()).collect();
        link * fair_shares(topology, nodes, &senders, blocks).iter().sum::<f64>()
    }

    /// Messages that each node must deliver in all, if the number is limited.
    fn due_at_each(&self) -> Option<u64> {
        Some(self.plan.messages? * self.active_nodes().len() as u64)
    }
}
