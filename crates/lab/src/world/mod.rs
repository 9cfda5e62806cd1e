//! The two worlds in which a scenario runs, and what a service brings to both.
//!
//! A [`Service`] says what each node's application does and what to note of what it is told. A
//! world carries that out: [`simulate`] in simulated time, the sockets on loopback in real time.
//! The protocol, its configuration, the workload and the ledger are the same objects in both.

mod application;
mod child;
mod control;
mod processes;
mod run;
mod sim;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Counters, Instant, NodeId, Protocol, View};
use paceline_sim::Wires;

pub(crate) use child::node_command;
pub use control::Prepared;
pub(crate) use processes::interned;
pub use processes::{Launch, run_processes};
pub use run::{Simulated, run_on_loopback, simulate_traced};
pub use sim::{network_config, simulate};
pub use sockets::{Sockets, run_sockets};

/// A protocol with the application of a scenario on top.
pub trait Service: Sync + Sized {
    /// The protocol.
    type Protocol: Protocol;
    /// What is noted of the run.
    type Ledger;

    /// What all nodes share.
    fn shared(&self) -> &Arc<<Self::Protocol as Protocol>::Shared>;

    /// A node's protocol before it starts.
    fn protocol(&self, node: NodeId) -> Self::Protocol;

    /// The view that every node installs at the start.
    fn view(&self) -> Option<Arc<View>>;

    /// An empty ledger.
    fn ledger(&self) -> Self::Ledger;

    /// Who reaches whom in the simulator, where not all do; the protocol then paces its links by
    /// itself, and `[topology]` says only what else happens on them.
    fn wires(&self) -> Option<Arc<Wires>> {
        None
    }

    /// What a node's application asks for when the node starts, and how long after.
    fn begin(&self, _node: NodeId, _start: Start) -> Option<Answer<Self>> {
        None
    }

    /// What a node's application asks for to be a member no more; none if there is no such thing.
    fn leave(&self) -> Option<<Self::Protocol as Protocol>::Command> {
        None
    }

    /// True if the node's application may submit its next piece of work, as far as it was told.
    fn is_ready(&self, _ledger: &Self::Ledger, _node: NodeId) -> bool {
        true
    }

    /// The nodes whose application submits something.
    fn active_nodes(&self) -> Vec<NodeId>;

    /// When the node's application wants to submit its `number`-th piece of work, counted from 0;
    /// `None` if there is no more.
    fn due(&self, node: NodeId, number: u64) -> Option<Instant>;

    /// Makes that piece of work and notes that it is submitted now.
    fn submit(
        &self,
        ledger: &mut Self::Ledger,
        at: Instant,
        node: NodeId,
        number: u64,
    ) -> <Self::Protocol as Protocol>::Command;

    /// Notes what a node's application was told, and adds to `answers` what it answers, after
    /// which time. An answer may replace an earlier one that it includes.
    fn observe(
        &self,
        ledger: &mut Self::Ledger,
        at: Instant,
        node: NodeId,
        event: &<Self::Protocol as Protocol>::Event,
        answers: &mut Vec<Answer<Self>>,
    );

    /// Bytes that the application's `number`-th piece of work counts against admission.
    fn work_bytes(&self, node: NodeId, number: u64) -> usize;

    /// Times, in ascending order, at which what was counted until then is noted, in both worlds.
    /// On sockets it is noted 100 ms earlier.
    fn marks(&self) -> Vec<Duration> {
        Vec::new()
    }

    /// One of those times has come. `counters` are those of all nodes of this process.
    fn note_mark(&self, _ledger: &mut Self::Ledger, _counters: &Counters) {}

    /// True once nothing more is to be measured at any node.
    fn is_done(&self, ledger: &Self::Ledger) -> bool;

    /// True once nothing more is to be measured at this node.
    fn is_done_at(&self, ledger: &Self::Ledger, node: NodeId) -> bool;

    /// What the ledger says of one node, to be sent to another process.
    fn export(&self, ledger: &Self::Ledger, node: NodeId) -> serde_json::Value;

    /// Takes in what another process noted of its node.
    fn import(
        &self,
        ledger: &mut Self::Ledger,
        node: NodeId,
        part: serde_json::Value,
    ) -> Result<(), serde_json::Error>;
}

/// How long before a mark counters are noted on sockets, so that a process that is scheduled late
/// does not count what follows the mark before it. Phases are farther apart than this.
const MARK_LEAD: Duration = Duration::from_millis(100);

/// Which start of a node it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The first, with the run.
    First,
    /// One after a fault.
    Again,
}

/// A command that an application gives in answer to an event, and after which time.
pub type Answer<S> = (Duration, <<S as Service>::Protocol as Protocol>::Command);

/// Adds an answer. One that is given at once takes the place of an earlier such one that it
/// includes.
pub(crate) fn answer<C>(
    answers: &mut Vec<(Duration, C)>,
    (after, command): (Duration, C),
    includes: impl Fn(&C) -> bool,
) {
    let earlier = answers.iter_mut().find(|(at, earlier)| at.is_zero() && includes(earlier));
    match earlier.filter(|_| after.is_zero()) {
        Some(earlier) => earlier.1 = command,
        None => answers.push((after, command)),
    }
}

/// How a run in a world went, beside the ledger.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// When the last thing happened.
    pub ended: Instant,
    /// True if the user stopped it before its end.
    pub is_stopped: bool,
    /// Events handled; 0 on sockets.
    pub events: u64,
    /// Hash of all that happened, in hexadecimal; none on sockets.
    pub digest: Option<String>,
    /// What protocols and drivers counted.
    pub counters: Counters,
    /// Bytes a node that the simulator held besides the protocol's state, at the end.
    pub driver_bytes_per_node: Option<f64>,
    /// Processor time of all nodes, where each is a process.
    pub cpu: Option<Duration>,
}
