//! The two worlds in which a scenario runs, and the interface of a service to both.
//!
//! A [`Service`] defines what each node's application does, and notes the events that it gets. A
//! world runs it: [`simulate`] in simulated time, [`run_on_sockets`] in real time. The protocol,
//! its configuration, the workload and the ledger are the same objects in both.
//!
//! The protocol-independent part is the object-safe [`Workload`]; code that uses it is compiled
//! once. Commands and events stay inside `typed`, the only file that is compiled for each protocol.

mod application;
mod child;
mod control;
pub mod counters;
mod hosts;
mod node;
mod processes;
mod sim;
mod sockets;
mod typed;

use std::fmt::{Debug, Display};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paceline_net::Hosted;
use paceline_proto::core::{Counters, Instant, NodeId, Protocol, View};
use paceline_proto::detector;
use paceline_sim::{Codec, Wires};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::progress::{Progress, Quiet};
use crate::run::{Metric, RunResult, WorldKind};
use crate::scenario::Scenario;

pub use child::node_command;
pub use control::Prepared;
pub use hosts::{HostedService, hosted, simulate_hosts};
pub use processes::{Launch, run_processes};
pub use sim::network_config;
pub use sockets::Sockets;
pub use typed::{run_on_sockets, serve, simulate};

/// What the worlds need of a service whatever its protocol is.
pub trait Workload: Send {
    /// The view that every node installs at the start.
    fn view(&self) -> Option<Arc<View>> {
        None
    }

    /// Which nodes are linked in the simulator, where not all are; the protocol then paces its
    /// links by itself, and `[topology]` says only what else happens on them.
    fn wires(&self) -> Option<Arc<Wires>> {
        None
    }

    /// How the failure detector of a host of this service is configured, if the service needs one
    /// and the host runs it.
    fn detector(&self) -> Option<detector::Config> {
        None
    }

    /// Whether messages pass through their encoding in the simulator. Default [`Codec::Typed`].
    fn codec(&self) -> Codec {
        Codec::Typed
    }

    /// True if the node's application may submit its next piece of work, given the events so far.
    fn is_ready(&self, _node: NodeId) -> bool {
        true
    }

    /// The nodes whose application submits something.
    fn active_nodes(&self) -> Vec<NodeId>;

    /// When the node's application wants to submit its `number`-th piece of work, counted from 0;
    /// `None` after the last.
    fn due(&self, node: NodeId, number: u64) -> Option<Instant>;

    /// Bytes that the application's `number`-th piece of work counts against admission. Default 0.
    fn work_bytes(&self, _node: NodeId, _number: u64) -> usize {
        0
    }

    /// Times, in ascending order, at which what was counted until then is noted, in both worlds.
    /// On sockets it is noted 100 ms earlier.
    fn marks(&self) -> Vec<Duration> {
        Vec::new()
    }

    /// One of those times has come. `counters` are those of all nodes of this process.
    fn note_mark(&mut self, _counters: &Counters) {}

    /// True once the measurement is complete at every node.
    fn is_done(&self) -> bool;

    /// True once the measurement is complete at this node.
    fn is_done_at(&self, node: NodeId) -> bool;

    /// What was noted, for the process of a node to hand in and for its parent to collect.
    fn parts(&self) -> &dyn Parts;

    /// See [`Workload::parts`].
    fn parts_mut(&mut self) -> &mut dyn Parts;
}

/// A protocol with the application of a scenario on top, and what is noted of its run.
pub trait Service: Workload + Sized + 'static {
    /// The protocol.
    type Protocol: Hosted + Protocol<Message: Display, Timer: Debug>;

    /// What all nodes share.
    fn shared(&self) -> &Arc<<Self::Protocol as Protocol>::Shared>;

    /// A node's protocol before it starts.
    fn protocol(&self, node: NodeId) -> Self::Protocol;

    /// What a node's application asks for when the node starts, and how long after.
    fn begin(&self, _node: NodeId, _start: Start) -> Option<Answer<Self>> {
        None
    }

    /// The command by which a node leaves; `None` where nodes do not leave.
    fn leave(&self) -> Option<<Self::Protocol as Protocol>::Command> {
        None
    }

    /// Makes the node's `number`-th piece of work and notes that it is submitted now.
    fn submit(
        &mut self,
        at: Instant,
        node: NodeId,
        number: u64,
    ) -> <Self::Protocol as Protocol>::Command;

    /// Notes an event of a node's application, and adds its responses to `answers`, each with its
    /// delay. An answer may replace an earlier one that it includes.
    fn observe(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &<Self::Protocol as Protocol>::Event,
        answers: &mut Vec<Answer<Self>>,
    );
}

/// What is noted of a run, node by node.
pub trait Ledger {
    /// What is noted of one node.
    type Part: Serialize + DeserializeOwned;

    /// What was noted of this node.
    fn part(&self, node: NodeId) -> Self::Part;

    /// Takes in what another process noted of its node.
    fn merge(&mut self, node: NodeId, part: Self::Part);
}

/// A [`Ledger`] as the processes of a run exchange it. Implemented for every ledger.
pub trait Parts {
    /// What was noted of this node, as JSON.
    fn export(&self, node: NodeId) -> serde_json::Value;

    /// Takes in what another process exported of its node.
    fn import(&mut self, node: NodeId, part: serde_json::Value) -> Result<(), serde_json::Error>;
}

impl<L: Ledger> Parts for L {
    fn export(&self, node: NodeId) -> serde_json::Value {
        serde_json::to_value(self.part(node)).expect("a part has text keys only")
    }

    fn import(&mut self, node: NodeId, part: serde_json::Value) -> Result<(), serde_json::Error> {
        self.merge(node, serde_json::from_value(part)?);
        Ok(())
    }
}

/// One run of a scenario: which, and where.
#[derive(Clone, Copy)]
pub struct Trial<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The root of all randomness.
    pub seed: u64,
    /// Where it runs.
    pub world: World<'a>,
    /// Where it says how far it is, and asks whether to go on.
    pub progress: &'a dyn Progress,
}

/// Where a scenario runs.
#[derive(Clone, Copy)]
pub enum World<'a> {
    /// In the simulator.
    Simulator {
        /// The file for a trace, if one is wanted.
        trace: Option<&'a Path>,
    },
    /// On loopback sockets.
    Loopback {
        /// The program that runs a node, each in a process of its own; without it all nodes run in
        /// this process.
        program: Option<&'a Path>,
    },
    /// On sockets with a process for each node, started like this.
    Processes(&'a Launch<'a>),
}

impl<'a> Trial<'a> {
    /// A run in the simulator, without a trace, that reports no progress.
    pub fn simulated(scenario: &'a Scenario, seed: u64) -> Trial<'a> {
        Trial { scenario, seed, world: World::Simulator { trace: None }, progress: &Quiet }
    }

    /// Which of the two worlds it is.
    pub fn kind(&self) -> WorldKind {
        match self.world {
            World::Simulator { .. } => WorldKind::Sim,
            World::Loopback { .. } | World::Processes(_) => WorldKind::Sockets,
        }
    }
}

/// How long before a mark counters are noted on sockets, so that a process that is scheduled late
/// does not count what follows the mark before it. Phases are farther apart than this.
const MARK_LEAD: Duration = Duration::from_millis(100);

/// The longest pause; a scenario's pauses end by a fault of their own.
const UNTIL_RESUMED: Duration = Duration::from_secs(1 << 24);

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
pub fn answer<C>(
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

/// The result of a run in a world, without the notes of its service.
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

impl Outcome {
    /// The result of a run with this summary, which ends with what every run counts: whether it was
    /// stopped, and all counters.
    pub fn result(&self, mut summary: Vec<Metric>) -> RunResult {
        if self.is_stopped {
            summary.push(Metric::new("stopped_early", 1.0, ""));
        }
        let counters = self.counters.sorted();
        summary.extend(counters.into_iter().map(|(name, n)| Metric::new(name, n as f64, "")));
        let digest = self.digest.clone();
        RunResult { summary, events: self.events, digest, ..RunResult::default() }
    }

    /// The memory that the simulator took, for a summary.
    pub fn driver_bytes(&self) -> Option<Metric> {
        Some(Metric::new("driver_bytes_per_node", self.driver_bytes_per_node?, "B"))
    }

    /// The processor time of all processes over the run, in cores, for a summary.
    pub fn processor_time(&self) -> Option<Metric> {
        let of_run = self.cpu?.as_secs_f64() / self.ended.as_secs_f64();
        Some(Metric::new("processor_time", of_run, "cores"))
    }
}

/// The service of a run, whose tasks share it.
fn lock<T: ?Sized>(service: &Mutex<T>) -> MutexGuard<'_, T> {
    service.lock().unwrap_or_else(PoisonError::into_inner)
}
