//! One node's application on sockets: it submits what is due as it is admitted, notes what it is
//! told, and puts the scenario's faults on its own links.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_net::{EmulateChange, Events, Hosted, Node, Peers};
use paceline_proto::core::{Instant, NodeId};
use tokio::sync::Notify;

use super::{Service, Start};
use crate::scenario::{Fault, Scenario};

/// Events that are taken from the node together.
const EVENTS_TOGETHER: usize = 256;

/// The run's beginning on the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    started: tokio::time::Instant,
}

impl Clock {
    /// A run that began, or begins, at this time.
    pub(super) fn starting_at(started: tokio::time::Instant) -> Clock {
        Clock { started }
    }

    pub(super) fn now(self) -> Instant {
        Instant::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    pub(super) async fn sleep_until(self, at: Instant) {
        tokio::time::sleep_until(self.started + (at - Instant::ZERO)).await;
    }
}

/// What the applications of one process share.
pub(super) struct Desk<S: Service> {
    pub(super) service: Arc<S>,
    pub(super) ledger: Mutex<S::Ledger>,
    pub(super) clock: Clock,
    /// Told whenever the ledger may have become complete.
    pub(super) progress: Notify,
    // Told whenever an application may have become ready to submit.
    ready: Notify,
}

impl<S> Desk<S>
where
    S: Service,
{
    pub(super) fn new(service: Arc<S>, clock: Clock) -> Desk<S> {
        let ledger = Mutex::new(service.ledger());
        Desk { service, ledger, clock, progress: Notify::new(), ready: Notify::new() }
    }

    pub(super) fn with_ledger<T>(&self, f: impl FnOnce(&mut S::Ledger) -> T) -> T {
        f(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the node's application may submit.
    async fn wait_until_ready(&self, id: NodeId) {
        loop {
            let mut told = std::pin::pin!(self.ready.notified());
            // From here on no notice is missed.
            told.as_mut().enable();
            if self.with_ledger(|ledger| self.service.is_ready(ledger, id)) {
                return;
            }
            told.await;
        }
    }
}

/// Asks for what the node's application wants at its start.
pub(super) async fn begin<S>(
    service: Arc<S>,
    started: tokio::time::Instant,
    id: NodeId,
    node: Node<S::Protocol>,
    start: Start,
) where
    S: Service,
    S::Protocol: Hosted,
{
    let Some((after, command)) = service.begin(id, start) else { return };
    tokio::time::sleep_until(started + after).await;
    // A node that has stopped meanwhile needs nothing any more.
    let _ = node.command(command);
}

/// Submits all that the node's application has to submit: after a restart, from now on.
pub(super) async fn submit_all<S>(
    desk: Arc<Desk<S>>,
    id: NodeId,
    node: Node<S::Protocol>,
    start: Start,
) where
    S: Service,
    S::Protocol: Hosted,
{
    if !desk.service.active_nodes().contains(&id) {
        return;
    }
    let first = match start {
        Start::First => 0,
        Start::Again => next_due(&*desk.service, id, 0, desk.clock.now()),
    };
    for number in first.. {
        let Some(due) = desk.service.due(id, number) else { return };
        if due > desk.clock.now() {
            desk.clock.sleep_until(due).await;
        }
        desk.wait_until_ready(id).await;
        let bytes = desk.service.work_bytes(id, number);
        let make = || {
            let now = desk.clock.now();
            desk.with_ledger(|ledger| desk.service.submit(ledger, now, id, number))
        };
        if node.submit_with(bytes, make).await.is_err() {
            return;
        }
        // A time limit may have passed while the member waited to be admitted.
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// The first piece of work from this one on that is not past. Where pieces are not due at times of
/// their own, none is past.
pub(super) fn next_due<S: Service>(service: &S, node: NodeId, from: u64, now: Instant) -> u64 {
    let is_past = |&number: &u64| {
        let due = service.due(node, number);
        due.is_some_and(|due| due < now && service.due(node, number + 1) != Some(due))
    };
    (from..).find(|number| !is_past(number)).unwrap_or(from)
}

/// Notes what the node's application is told, and answers.
pub(super) async fn observe_all<S>(
    desk: Arc<Desk<S>>,
    id: NodeId,
    node: Node<S::Protocol>,
    mut events: Events<S::Protocol>,
) where
    S: Service,
    S::Protocol: Hosted,
{
    let mut batch = Vec::with_capacity(EVENTS_TOGETHER);
    let mut answers = Vec::new();
    while events.recv_many(&mut batch, EVENTS_TOGETHER).await > 0 {
        let is_done = desk.with_ledger(|ledger| {
            for event in batch.drain(..) {
                let now = desk.clock.now();
                desk.service.observe(ledger, now, id, &event, &mut answers);
            }
            desk.service.is_done_at(ledger, id)
        });
        desk.ready.notify_waiters();
        // The run cannot be done before its nodes are, and who waits for it costs a wake-up.
        if is_done {
            desk.progress.notify_one();
        }
        let noted = tokio::time::Instant::now();
        for (after, command) in answers.drain(..) {
            if after > Duration::ZERO {
                tokio::time::sleep_until(noted + after).await;
            }
            if node.command(command).is_err() {
                return;
            }
        }
    }
}

/// Puts the scenario's faults on the node's links, each at its time. What stops or starts whole
/// processes is not among them.
pub(super) async fn emulate_all<S>(
    service: Arc<S>,
    scenario: Arc<Scenario>,
    clock: Clock,
    id: NodeId,
    node: Node<S::Protocol>,
) where
    S: Service,
    S::Protocol: Hosted,
{
    let since = clock.now() - Instant::ZERO;
    for fault in &scenario.faults {
        let leaves = match &fault.fault {
            Fault::Leave(all) if all.contains(&id) && fault.at >= since => service.leave(),
            _ => None,
        };
        let change = emulated(&fault.fault, id, scenario.topology.nodes);
        if change.is_empty() && leaves.is_none() {
            continue;
        }
        clock.sleep_until(Instant::ZERO + fault.at).await;
        if leaves.is_some_and(|leave| node.command(leave).is_err()) {
            return;
        }
        for change in change {
            if node.emulate(change).is_err() {
                return;
            }
        }
    }
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
            let others = (0..nodes).map(NodeId).filter(|&peer| group(peer) != group(id));
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

/// The longest pause; a scenario's pauses end by a fault of their own.
const UNTIL_RESUMED: Duration = Duration::from_secs(1 << 24);
