use std::fmt;

/// A driver's handle for a node: dense in the simulator, the roster's id on sockets.
///
/// A handle is local to a cluster's roster. What must survive restarts is named by incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The handle as an index into dense tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The node of this number, where nodes are numbered from 0.
impl From<u32> for NodeId {
    fn from(number: u32) -> NodeId {
        NodeId(number.into())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A set of nodes that hear what is sent to it: those that have joined. The number is the
/// application's choice and goes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

/// A node's membership of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    /// It hears what is sent to the group.
    Joined,
    /// It does not.
    Left,
}

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// May be lost, duplicated, reordered or late. At most `Context::datagram_bytes_max` bytes.
    Datagram,
    /// First in, first out and intact until the peer goes [`PeerState::Down`]; then an unknown
    /// suffix of what was sent is lost. The driver opens the stream at the first send.
    Stream,
}

/// The state of a peer, as the driver reports it.
///
/// A peer is presumed up until the driver says otherwise, so a run of a million nodes starts
/// silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerState {
    /// Reachable again. What is sent from now on travels on a fresh stream.
    Up {
        /// The peer's incarnation; another one than before means that the peer restarted.
        incarnation: u64,
    },
    /// Silent for longer than usual.
    Suspect,
    /// The stream to the peer broke, or the peer is gone. Sends on the stream lane are discarded
    /// until `Up`.
    Down,
}

/// The state of a member, as a failure detector sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// Answers, or no member has found otherwise yet.
    Up,
    /// Did not answer, neither this member nor others, and has not refuted it yet.
    Suspect,
    /// Did not refute in time, or left with a goodbye. It may come back up.
    Down,
}
