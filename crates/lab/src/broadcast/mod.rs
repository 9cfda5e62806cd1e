//! The broadcast service in the lab: its scenarios, its ledger and its figures.

mod content;
mod figures;
mod ledger;
mod report;
mod run;
mod scenario;

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::chain::{Chain, Command, Config, Event};
use paceline_proto::core::{Instant, NodeId, Protocol, View};

pub use content::{Content, Messages, Reading, Verdict};
pub use figures::{REPRODUCTION, figures};
pub use ledger::{Ledger, NodeLedger, Received, Window};
pub use run::run;
pub(crate) use scenario::KEYS;
pub use scenario::{Measure, Plan, Senders};

use crate::world::Service;

/// A broadcast scenario, ready to run in either world.
#[derive(Debug)]
pub struct Broadcast {
    shared: Arc<Config>,
    view: Arc<View>,
    plan: Plan,
    messages: Messages,
}

impl Broadcast {
    /// The scenario's plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The messages that its applications exchange.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// An empty ledger for a run of it.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.view.len() as u32, self.plan.window)
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

    fn active_nodes(&self) -> Vec<NodeId> {
        self.plan.senders.nodes(self.view.len() as u32)
    }

    fn due(&self, _node: NodeId, number: u64) -> Option<Instant> {
        if self.plan.messages.is_some_and(|limit| number >= limit) {
            return None;
        }
        let pause = self.plan.interval.unwrap_or(Duration::ZERO);
        let after = Duration::from_nanos((pause.as_nanos() as u64).saturating_mul(number));
        let at = Instant::ZERO + self.plan.start + after;
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
    ) -> Option<(Duration, Command)> {
        let Event::Delivered { origin, end, payload, .. } = event else { return None };
        ledger.delivered(&self.messages, at, node, *origin, payload);
        let after = match self.plan.read_bytes_per_second {
            None => Duration::ZERO,
            Some(rate) => ledger.read_at(at, node, payload.len(), rate) - at,
        };
        Some((after, Command::Consumed { origin: *origin, end: *end }))
    }

    fn is_done(&self, ledger: &Ledger) -> bool {
        let Some(limit) = self.plan.messages else { return false };
        let senders = self.plan.senders.count(self.view.len() as u32);
        ledger.deliveries() == limit * senders * self.view.len() as u64
    }
}
