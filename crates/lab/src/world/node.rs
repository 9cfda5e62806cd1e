//! A node on sockets, whatever its protocol is.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline_net::{Bound, Closed, EmulateChange, Roster, StartError};
use paceline_proto::core::{Counters, Instant, NodeId, View};

use super::{Start, Workload};

/// A service on sockets: what it says without its protocol, and how its nodes are started.
pub(super) struct Hosting {
    pub(super) service: Arc<Mutex<dyn Workload>>,
    pub(super) start: StartNode,
}

type StartNode = Box<dyn Fn(NodeId, Bound, Roster) -> Result<Started, StartError>>;

/// A node that has started, and what its protocol tells the application.
pub(super) type Started = (Arc<dyn RunningNode>, Box<dyn NodeEvents>);

/// Gives a node a command that was made for it.
pub(super) type Order = Box<dyn FnOnce() -> Result<(), Closed> + Send>;

pub(super) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A node that runs on sockets, whatever its protocol is.
pub(super) trait RunningNode: Send + Sync {
    /// What its application asks for at its start, and how long after.
    fn begin(&self, start: Start) -> Option<(Duration, Order)>;

    /// What makes it leave; none where nodes do not leave.
    fn leave(&self) -> Option<Order>;

    /// Submits a piece of work of this size as soon as it is admitted.
    fn submit(&self, clock: Clock, number: u64, bytes: usize) -> Pending<'_, Result<(), Closed>>;

    /// Installs a view.
    fn install_view(&self, view: Arc<View>) -> Result<(), Closed>;

    /// Changes what it emulates.
    fn emulate(&self, change: EmulateChange) -> Result<(), Closed>;

    /// What it counted.
    fn counters(&self) -> Counters;

    /// The kernel's buffer for datagrams that arrive, bytes.
    fn datagram_receive_bytes(&self) -> usize;

    /// Stops it.
    fn stop(&self) -> Pending<'_, ()>;
}

/// What the protocol of a node tells its application.
pub(super) trait NodeEvents: Send {
    /// Waits for events and notes them. True if the node is done; none once it has stopped.
    fn note(&mut self, clock: Clock) -> Pending<'_, Option<bool>>;

    /// How long after the events were noted the next answer to them is given; none after the last.
    fn answer_after(&self) -> Option<Duration>;

    /// Gives that answer.
    fn answer(&mut self) -> Result<(), Closed>;
}

/// The run's beginning on the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// When it began, or begins.
    pub(super) started: tokio::time::Instant,
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
