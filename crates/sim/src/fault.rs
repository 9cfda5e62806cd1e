//! Faults that a scenario injects at given times.

use std::time::Duration;

use paceline_proto::core::{LinkFaults, NodeId};

/// Something that goes wrong, or is mended.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The node stops at once and forgets everything.
    Crash(NodeId),
    /// The node crashes within a handler call: the next one that sends more than `sends` messages,
    /// once that many have left. The crash discards its other messages, its timers and its counts;
    /// the application gets all of the call's events or none. Observers see a [`Fault::Crash`] then
    /// (`sim_crashed_amid`).
    CrashAmid {
        /// Which node.
        node: NodeId,
        /// Messages that leave, those to groups first.
        sends: usize,
        /// Whether the application gets the call's events.
        tells: bool,
    },
    /// A crashed node restarts, under a new incarnation.
    Restart(NodeId),
    /// The node handles nothing for this long; what arrives waits, datagrams up to a socket buffer.
    Pause(NodeId, Duration),
    /// A paused node goes on now.
    Resume(NodeId),
    /// Messages pass only inside a group. Nodes that no group names form one together. Datagrams
    /// across are lost, streams stall.
    Partition(Vec<Vec<NodeId>>),
    /// Nothing passes from the first node to the second; the other way is untouched.
    Block(NodeId, NodeId),
    /// All partitions and blocks end.
    Heal,
    /// Nothing passes from the first node to the second from now on: [`Fault::Heal`] does not mend
    /// it. Datagrams are lost and streams stall, each counted as `sim_severed`.
    Sever(NodeId, NodeId),
    /// The stream from the first node to the second breaks; it is up again after this time.
    Reset(NodeId, NodeId, Duration),
    /// The links from each of `from` to each of `to` behave like this from now on.
    Link {
        /// Senders; `None` for every node.
        from: Option<Vec<NodeId>>,
        /// Receivers; `None` for every node.
        to: Option<Vec<NodeId>>,
        /// How they behave.
        link: LinkFaults,
    },
}
