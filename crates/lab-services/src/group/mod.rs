//! Groups in the lab: members that join, leave, crash and are cut off, while messages flow.
//!
//! The workload, the messages and the ledger are those of [`crate::chain`]; what differs is
//! that nodes are members only once they have joined.

mod figures;
mod measured;
mod report;
mod run;
mod scenario;
mod tracks;

use std::sync::Arc;
use std::time::Duration;

use paceline_lab::reproduce::Reproduction;
use paceline_lab::scenario::{Fault, Scenario};
use paceline_lab::world::{Answer, Parts, Service, Start, Workload, answer};
use paceline_proto::core::{Instant, MembershipCommand, NodeId, Protocol};
use paceline_proto::detector;
use paceline_proto::group::{Command, Config, Event, Group};
use paceline_sim::Codec;

pub use scenario::Measure;

use crate::chain::{Attendance, Broadcast};

/// The group's figures as `paceline reproduce group` shows them.
pub const REPRODUCTION: Reproduction = Reproduction {
    name: "group",
    about: "Members that join, leave, crash and are partitioned: how long the others stall, and \
            that no message is lost.",
    figures: figures::reproduce,
    sections: report::sections,
};

/// A group scenario, ready to run in either world.
#[derive(Debug)]
pub struct GroupScenario {
    shared: Arc<Config>,
    broadcast: Broadcast,
    attendance: Attendance,
    nodes: u32,
    // From the start of a node until it asks to join.
    join_after: Duration,
    measure: Measure,
}

impl GroupScenario {
    /// What the members send each other.
    pub fn broadcast(&self) -> &Broadcast {
        &self.broadcast
    }

    /// Which figures the scenario gives.
    pub fn measure(&self) -> Measure {
        self.measure
    }
}

/// Nodes that a scenario stops, or has leave.
fn absentees(scenario: &Scenario) -> Attendance {
    let absent = scenario.faults.iter().filter_map(|fault| match &fault.fault {
        Fault::Crash(nodes) | Fault::Restart(nodes) | Fault::Leave(nodes) => Some(nodes.clone()),
        _ => None,
    });
    Attendance::Broken(absent.flatten().collect())
}

impl Workload for GroupScenario {
    fn codec(&self) -> Codec {
        self.broadcast.codec()
    }

    fn detector(&self) -> Option<detector::Config> {
        Some(self.shared.detector().clone())
    }

    fn is_ready(&self, node: NodeId) -> bool {
        self.broadcast.ledger().is_ready(node)
    }

    fn active_nodes(&self) -> Vec<NodeId> {
        self.broadcast.active_nodes()
    }

    fn due(&self, node: NodeId, number: u64) -> Option<Instant> {
        self.broadcast.due(node, number)
    }

    fn work_bytes(&self, node: NodeId, number: u64) -> usize {
        self.broadcast.work_bytes(node, number)
    }

    fn is_done(&self) -> bool {
        // Nodes that come and go decide how many messages there are.
        self.attends_all() && self.broadcast.is_done()
    }

    fn is_done_at(&self, node: NodeId) -> bool {
        self.attends_all() && self.broadcast.is_done_at(node)
    }

    fn parts(&self) -> &dyn Parts {
        self.broadcast.parts()
    }

    fn parts_mut(&mut self) -> &mut dyn Parts {
        self.broadcast.parts_mut()
    }
}

impl Service for GroupScenario {
    type Protocol = Group;

    fn shared(&self) -> &Arc<Config> {
        &self.shared
    }

    fn protocol(&self, _node: NodeId) -> Group {
        Group::new(&self.shared)
    }

    fn begin(&self, node: NodeId, start: Start) -> Option<Answer<Self>> {
        // A world knows where its nodes are.
        let address = bytes::Bytes::new();
        if node == NodeId(0) && start == Start::First {
            return Some((Duration::ZERO, MembershipCommand::Bootstrap { address }.into()));
        }
        let peers =
            (0..self.nodes).map(NodeId::from).filter(|&other| other != node).take(PEERS_ASKED_MAX);
        let after = if start == Start::First { self.join_after } else { Duration::ZERO };
        Some((after, MembershipCommand::Join { address, peers: peers.collect() }.into()))
    }

    fn leave(&self) -> Option<Command> {
        Some(MembershipCommand::Leave.into())
    }

    fn submit(&mut self, at: Instant, node: NodeId, number: u64) -> Command {
        Command::broadcast(self.broadcast.message(at, node, number))
    }

    fn observe(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &<Group as Protocol>::Event,
        answers: &mut Vec<Answer<Self>>,
    ) {
        let ledger = self.broadcast.ledger_mut();
        match event {
            Event::Delivered { view, origin, incarnation, end, payload, .. } => {
                let after = self.broadcast.deliver(at, node, (*origin, *incarnation), payload);
                let consumed = Command::Consumed { view: *view, origin: *origin, end: *end };
                // A reader that takes no time has consumed all before it: one credit for the batch.
                answer(answers, (after, consumed), |earlier| match earlier {
                    Command::Consumed { view: same, origin: other, .. } => {
                        (same, other) == (view, origin)
                    }
                    _ => false,
                });
            }
            Event::View(view) => ledger.note_view(at, node, view),
            Event::LostPrimary => ledger.set_ready(node, false),
            Event::RegainedPrimary => ledger.set_ready(node, true),
            Event::Excluded => ledger.note_excluded(node),
            Event::Left => ledger.set_ready(node, false),
            Event::Rejected { .. } => ledger.rejected(node),
            _ => {}
        }
    }
}

/// Members that a node asks to be let in.
const PEERS_ASKED_MAX: usize = 8;

impl GroupScenario {
    fn attends_all(&self) -> bool {
        self.attendance == Attendance::Broken(Default::default())
    }
}
