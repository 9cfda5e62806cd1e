//! One node's application on sockets: it submits due work as the node admits it, notes events, and
//! applies the scenario's faults to its own links.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline_net::{EmulateChange, Peers};
use paceline_proto::core::{Instant, NodeId};
use tokio::sync::Notify;

use super::node::{Clock, NodeEvents, RunningNode};
use super::{Start, UNTIL_RESUMED, Workload, lock};
use crate::scenario::{Fault, Scenario, TimedFault};

/// What the applications of one process share.
pub(super) struct SharedWorkload {
    service: Arc<Mutex<dyn Workload>>,
    pub(super) clock: Clock,
    /// Notified whenever the run may have become complete.
    pub(super) progress: Notify,
    // Notified whenever an application may have become ready to submit.
    ready: Notify,
}

impl SharedWorkload {
    pub(super) fn new(service: Arc<Mutex<dyn Workload>>, clock: Clock) -> SharedWorkload {
        SharedWorkload { service, clock, progress: Notify::new(), ready: Notify::new() }
    }

    pub(super) fn with<T>(&self, f: impl FnOnce(&mut dyn Workload) -> T) -> T {
        f(&mut *lock(&self.service))
    }

    /// Waits until the node's application may submit.
    async fn wait_until_ready(&self, id: NodeId) {
        loop {
            let mut notified = std::pin::pin!(self.ready.notified());
            // From here on no notice is missed.
            notified.as_mut().enable();
            if self.with(|service| service.is_ready(id)) {
                return;
            }
            notified.await;
        }
    }
}

/// The application of one node.
#[derive(Clone)]
pub(super) struct Application {
    pub(super) workload: Arc<SharedWorkload>,
    pub(super) id: NodeId,
    pub(super) node: Arc<dyn RunningNode>,
    pub(super) start: Start,
}

impl Application {
    /// Runs it, in tasks of their own.
    pub(super) fn spawn(self, events: Box<dyn NodeEvents>, scenario: &Scenario) {
        let (faults, nodes) = (scenario.faults.clone(), scenario.topology.nodes);
        tokio::spawn(self.clone().emulate_all(faults, nodes));
        tokio::spawn(self.clone().begin());
        tokio::spawn(self.clone().observe_all(events));
        tokio::spawn(self.submit_all());
    }

    /// Submits the application's first command.
    async fn begin(self) {
        let from = self.workload.clock.started.max(tokio::time::Instant::now());
        let Some((after, order)) = self.node.begin(self.start) else { return };
        tokio::time::sleep_until(from + after).await;
        // A stopped node needs no command.
        let _ = order();
    }

    /// Submits all that the application has to submit: after a restart, from now on.
    async fn submit_all(self) {
        let Application { workload, id, node, start } = self;
        tokio::time::sleep_until(workload.clock.started).await;
        if !workload.with(|service| service.active_nodes().contains(&id)) {
            return;
        }
        let first = match start {
            Start::First => 0,
            Start::Again => workload.with(|service| next_due(service, id, 0, workload.clock.now())),
        };
        for number in first.. {
            let next = workload
                .with(|service| Some((service.due(id, number)?, service.work_bytes(id, number))));
            let Some((due, bytes)) = next else { return };
            if due > workload.clock.now() {
                workload.clock.sleep_until(due).await;
            }
            workload.wait_until_ready(id).await;
            if node.submit(workload.clock, number, bytes).await.is_err() {
                return;
            }
            // A time limit may have passed while the member waited to be admitted.
            if number % 64 == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Notes the events of the application's node, and responds to them.
    async fn observe_all(self, mut events: Box<dyn NodeEvents>) {
        let workload = self.workload;
        while let Some(is_done) = events.note(workload.clock).await {
            workload.ready.notify_waiters();
            // The run cannot be done before its nodes are, and each notification costs a wake-up.
            if is_done {
                workload.progress.notify_one();
            }
            let noted = tokio::time::Instant::now();
            while let Some(after) = events.answer_after() {
                if after > Duration::ZERO {
                    tokio::time::sleep_until(noted + after).await;
                }
                if events.answer().is_err() {
                    return;
                }
            }
        }
    }

    /// Puts the scenario's faults on the node's links, each at its time. What stops or starts whole
    /// processes is not among them.
    async fn emulate_all(self, faults: Vec<TimedFault>, nodes: u32) {
        let Application { workload, id, node, .. } = self;
        let since = workload.clock.now() - Instant::ZERO;
        for fault in &faults {
            let leaves = match &fault.fault {
                Fault::Leave(all) if all.contains(&id) && fault.at >= since => node.leave(),
                _ => None,
            };
            let change = emulated(&fault.fault, id, nodes);
            if change.is_empty() && leaves.is_none() {
                continue;
            }
            workload.clock.sleep_until(Instant::ZERO + fault.at).await;
            if leaves.is_some_and(|leave| leave().is_err()) {
                return;
            }
            for change in change {
                if node.emulate(change).is_err() {
                    return;
                }
            }
        }
    }
}

/// The first piece of work from this one on that is not past. Where pieces are not due at times of
/// their own, none is past.
pub(super) fn next_due(service: &dyn Workload, node: NodeId, from: u64, now: Instant) -> u64 {
    let is_past = |&number: &u64| {
        let due = service.due(node, number);
        due.is_some_and(|due| due < now && service.due(node, number + 1) != Some(due))
    };
    (from..).find(|number| !is_past(number)).unwrap_or(from)
}

/// What a fault changes at one node.
fn emulated(fault: &Fault, id: NodeId, nodes: u32) -> Vec<EmulateChange> {
    match fault {
        Fault::Crash(_) | Fault::Restart(_) | Fault::Leave(_) => Vec::new(),
        Fault::Pause(paused) if paused.contains(&id) => vec![EmulateChange::Pause(UNTIL_RESUMED)],
        Fault::Resume(paused) if paused.contains(&id) => vec![EmulateChange::Pause(Duration::ZERO)],
        Fault::Pause(_) | Fault::Resume(_) => Vec::new(),
        Fault::Partition(groups) => {
            let group = |node: NodeId| groups.iter().position(|group| group.contains(&node));
            let others = (0..nodes).map(NodeId::from).filter(|&peer| group(peer) != group(id));
            vec![EmulateChange::Partition(others.collect())]
        }
        Fault::Heal => vec![EmulateChange::Partition(Vec::new())],
        Fault::Reset { from, to } if *from == id => vec![EmulateChange::Reset(*to)],
        Fault::Reset { from, to } if *to == id => vec![EmulateChange::Reset(*from)],
        Fault::Reset { .. } => Vec::new(),
        Fault::Link { from, to, faults } => {
            if from.as_ref().is_some_and(|from| !from.contains(&id)) {
                return Vec::new();
            }
            let change = |to| EmulateChange::Faults { to, faults: *faults };
            match to {
                None => vec![change(Peers::All)],
                Some(to) => to.iter().map(|&peer| change(Peers::One(peer))).collect(),
            }
        }
    }
}
