//! Structured overlays in the lab: requests in bundles, by five algorithms, in both worlds.

mod expected;
mod figures;
mod ledger;
mod measured;
mod plan;
mod report;
mod run;
mod scenario;
mod tree;
mod worked;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_lab::reproduce::Reproduction;
use paceline_lab::world::{Answer, Parts, Service, Start, Workload};
use paceline_proto::core::{Counters, Instant, MembershipCommand, NodeId, Protocol};
use paceline_proto::overlay::{Command, Config, Event, Key, Oracle, Overlay};
use paceline_sim::Codec;

pub use ledger::{Ledger, Tally};
pub use plan::{Action, Grouping, Pace, Phase, Plan, Tables};
pub use scenario::{Measure, Settings};

/// The figures of collective forwarding as `paceline reproduce overlay` shows them.
pub const REPRODUCTION: Reproduction = Reproduction {
    name: "overlay",
    about: "Collective forwarding on five structured overlays: how many messages, and how much \
            time, bundles save. Shudo, Message Bundling on Structured Overlays, ISCC 2017.",
    figures: figures::reproduce,
    sections: report::sections,
};

/// An overlay scenario, ready to run in either world.
#[derive(Debug)]
pub struct Requests {
    shared: Arc<Config>,
    settings: Settings,
    // All nodes, where tables are filled.
    oracle: Option<Oracle>,
    // By requester: its bundles, in order, and how many keys they have.
    bundles: BTreeMap<NodeId, (Vec<u32>, usize)>,
    ledger: Ledger,
}

impl Requests {
    /// The scenario that these settings describe.
    pub fn new(settings: Settings) -> Requests {
        let (plan, nodes) = (&settings.plan, settings.nodes);
        let space = settings.config.space();
        let oracle = (plan.tables == Tables::Ideal)
            .then(|| Oracle::new(space, (0..nodes).map(NodeId::from)));
        let mut bundles: BTreeMap<NodeId, (Vec<u32>, usize)> = BTreeMap::new();
        for bundle in 0..plan.bundles() {
            let (listed, keys) = bundles.entry(plan.requester(bundle, nodes)).or_default();
            listed.push(bundle);
            *keys += plan.contents(bundle).1.len();
        }
        let ledger = Ledger::new(plan.phases.len());
        let shared = Arc::new(settings.config.clone());
        Requests { shared, settings, oracle, bundles, ledger }
    }

    /// What the scenario does and measures.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn plan(&self) -> &Plan {
        &self.settings.plan
    }

    fn bundle(&self, node: NodeId, number: u64) -> Option<u32> {
        self.bundles.get(&node)?.0.get(usize::try_from(number).ok()?).copied()
    }
}

impl Workload for Requests {
    fn codec(&self) -> Codec {
        if self.settings.check_wire { Codec::CheckWire } else { Codec::Typed }
    }

    fn is_ready(&self, node: NodeId) -> bool {
        self.plan().pace != Pace::Closed || self.ledger.open_at(node) == 0
    }

    fn active_nodes(&self) -> Vec<NodeId> {
        self.bundles.keys().copied().collect()
    }

    fn due(&self, node: NodeId, number: u64) -> Option<Instant> {
        Some(Instant::ZERO + self.plan().due(self.bundle(node, number)?))
    }

    fn work_bytes(&self, _node: NodeId, _number: u64) -> usize {
        Key::BYTES * self.plan().bundle
    }

    fn marks(&self) -> Vec<Duration> {
        self.plan().phases.iter().map(|phase| phase.begins).collect()
    }

    fn note_mark(&mut self, counters: &Counters) {
        self.ledger.marks.push(counters.clone());
    }

    fn is_done(&self) -> bool {
        self.ledger.done() == self.plan().phases.len() * self.plan().keys.len()
    }

    fn is_done_at(&self, node: NodeId) -> bool {
        self.ledger.done_at(node) == self.bundles.get(&node).map_or(0, |&(_, keys)| keys)
    }

    fn parts(&self) -> &dyn Parts {
        &self.ledger
    }

    fn parts_mut(&mut self) -> &mut dyn Parts {
        &mut self.ledger
    }
}

impl Service for Requests {
    type Protocol = Overlay;

    fn shared(&self) -> &Arc<Config> {
        &self.shared
    }

    fn protocol(&self, node: NodeId) -> Overlay {
        match &self.oracle {
            None => Overlay::new(&self.shared, node),
            Some(oracle) => {
                let mut router = self.shared.router(node);
                router.fill(oracle.ring());
                Overlay::with_router(&self.shared, node, router)
            }
        }
    }

    fn begin(&self, node: NodeId, start: Start) -> Option<Answer<Self>> {
        if self.oracle.is_some() && start == Start::First {
            return None;
        }
        // A world knows where its nodes are.
        let address = Bytes::new();
        if node == NodeId(0) && start == Start::First {
            return Some((Duration::ZERO, MembershipCommand::Bootstrap { address }.into()));
        }
        let nodes = self.settings.nodes;
        let peers = match start {
            // Any that is there already.
            Start::First => vec![NodeId(node.0 / 2)],
            Start::Again => {
                (1..=4).map(|step| NodeId((node.0 + step) % u64::from(nodes))).collect()
            }
        };
        let after = match start {
            Start::First => self.plan().join_every * node.index() as u32,
            Start::Again => Duration::ZERO,
        };
        Some((after, MembershipCommand::Join { address, peers }.into()))
    }

    fn leave(&self) -> Option<Command> {
        Some(MembershipCommand::Leave.into())
    }

    fn submit(&mut self, at: Instant, node: NodeId, number: u64) -> Command {
        let bundle = self.bundle(node, number).expect("what is due exists");
        let (phase, keys) = self.plan().contents(bundle);
        let keys = keys.len();
        self.ledger.submitted(phase, at, node, keys);
        let (operation, style) = (self.plan().operation(bundle), self.plan().phases[phase].style);
        Command::Request { id: u64::from(bundle), operation, style }
    }

    fn observe(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &<Overlay as Protocol>::Event,
        _answers: &mut Vec<Answer<Self>>,
    ) {
        let (plan, ledger) = (&self.settings.plan, &mut self.ledger);
        match event {
            Event::Outcome { id, outcomes } => {
                let phase = plan.phase_of(*id as u32);
                for (key, outcome) in outcomes {
                    let is_right = plan.is_right(phase, *key, outcome);
                    ledger.answered(phase, at, node, outcome, is_right);
                }
            }
            Event::Rejected { id, .. } => {
                let (phase, keys) = plan.contents(*id as u32);
                ledger.rejected(phase, at, node, keys.len());
            }
            Event::Delivered { keys, payload, .. } => {
                if let Some(bundle) = plan.bundle_sent(payload) {
                    let (phase, sent) = plan.contents(bundle);
                    let known = keys.iter().filter(|key| sent.contains(key)).count();
                    ledger.delivered(phase, known, keys.len() - known);
                }
            }
            Event::Joined => ledger.joined += 1,
            Event::JoinFailed { .. } => ledger.joins_failed += 1,
            _ => {}
        }
    }
}
