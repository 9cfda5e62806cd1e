//! The broadcast service in the lab: its scenarios, its ledger and its figures.

mod bins;
mod compare;
mod content;
mod figures;
mod ledger;
mod report;
mod ring;
mod rounds;
mod run;
mod scenario;

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::chain::{Chain, Command, Config, Event, Topology, fair_shares};
use paceline_proto::core::{Instant, NodeId, Protocol, View};

pub use content::{Content, Messages, Reading, Verdict};
pub use figures::{REPRODUCTION, figures};
pub use ledger::{Attendance, Installed, Ledger, NodeLedger, Received, Window};
pub(crate) use run::summed_up;
pub use run::{run, run_on_sockets};
pub(crate) use scenario::{
    KEYS, MEASURE_KEYS, PROTOCOL_KEYS, RENAMED, WORKLOAD_KEYS, read_protocol, read_window,
    read_workload,
};
pub use scenario::{Measure, Plan};

use crate::world::{Answer, Service, answer};

/// A broadcast scenario, ready to run in either world.
#[derive(Debug)]
pub struct Broadcast {
    shared: Arc<Config>,
    view: Arc<View>,
    plan: Plan,
    messages: Messages,
    // By node, how much later than the others it begins; empty for not at all.
    starts: Vec<Duration>,
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

    /// The messages that its applications exchange.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }
}

impl Service for Broadcast {
    type Protocol = Chain;
    type Ledger = Ledger;

    fn shared(&self) -> &Arc<Config> {
        &self.shared
    }

    fn protocol(&self, _node: NodeId) -> Chain {
        Chain::new(&self.shared)
    }

    fn view(&self) -> Option<Arc<View>> {
        Some(self.view.clone())
    }

    fn ledger(&self) -> Ledger {
        let ledger = Ledger::new(self.view.len() as u32, self.plan.window, Attendance::Full);
        ledger.with_senders(self.saturating_nodes(), &self.plan.quiet)
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

    fn submit(&self, ledger: &mut Ledger, at: Instant, node: NodeId, number: u64) -> Command {
        ledger.accepted(at, node);
        Command::broadcast(self.messages.make(node, number, at))
    }

    fn observe(
        &self,
        ledger: &mut Ledger,
        at: Instant,
        node: NodeId,
        event: &<Chain as Protocol>::Event,
        answers: &mut Vec<Answer<Self>>,
    ) {
        let Event::Delivered { origin, incarnation, end, payload, .. } = event else { return };
        ledger.delivered(&self.messages, at, node, (*origin, *incarnation), payload);
        let after = self.reads_for(ledger, at, node, payload.len());
        let consumed = Command::Consumed { origin: *origin, end: *end };
        // A reader that takes no time has consumed all before it: one credit for the batch.
        answer(
            answers,
            (after, consumed),
            |earlier| matches!(earlier, Command::Consumed { origin: other, .. } if other == origin),
        );
    }

    fn work_bytes(&self, _node: NodeId, _number: u64) -> usize {
        self.plan.message_bytes
    }

    fn is_done(&self, ledger: &Ledger) -> bool {
        let due = self.due_at_each();
        due.is_some_and(|due| ledger.deliveries() == due * self.view.len() as u64)
    }

    fn is_done_at(&self, ledger: &Ledger, node: NodeId) -> bool {
        self.due_at_each().is_some_and(|due| ledger.deliveries_at(node) == due)
    }

    fn export(&self, ledger: &Ledger, node: NodeId) -> serde_json::Value {
        serde_json::to_value(ledger.part(node)).expect("a ledger has text keys only")
    }

    fn import(
        &self,
        ledger: &mut Ledger,
        node: NodeId,
        part: serde_json::Value,
    ) -> Result<(), serde_json::Error> {
        ledger.merge(node, serde_json::from_value(part)?);
        Ok(())
    }
}

impl Broadcast {
    /// The senders that are not quiet.
    pub(crate) fn saturating_nodes(&self) -> Vec<NodeId> {
        let senders = self.plan.senders.nodes(self.view.len() as u32);
        senders.into_iter().filter(|node| !self.plan.quiet.contains(node)).collect()
    }

    /// How long a node's application is busy with a message of this size that it is told now.
    pub(crate) fn reads_for(
        &self,
        ledger: &mut Ledger,
        at: Instant,
        node: NodeId,
        bytes: usize,
    ) -> Duration {
        match self.plan.read_bytes_per_second {
            None => Duration::ZERO,
            Some(rate) => ledger.read_at(at, node, bytes, rate) - at,
        }
    }

    /// The most that links which each carry `link` let a node be told, own messages included, in
    /// the unit of `link`, quiet members left out. Where the planner chooses it is the chain's.
    pub fn limit(&self, link: f64) -> f64 {
        let nodes = self.view.len();
        let topology = self.plan.topology.unwrap_or(Topology::Chain);
        let blocks = self.plan.message_bytes.div_ceil(self.shared.block_bytes_max()).max(1);
        let senders: Vec<usize> = self.saturating_nodes().iter().map(|node| node.index()).collect();
        link * fair_shares(topology, nodes, &senders, blocks).iter().sum::<f64>()
    }

    /// Messages that each node is to be told in all, if there is an end.
    fn due_at_each(&self) -> Option<u64> {
        Some(self.plan.messages? * self.active_nodes().len() as u64)
    }
}
