use bytes::Bytes;

use super::NodeId;

/// Longest address of a node in a message of a group or an overlay, bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// How an application has its node enter and leave a group or an overlay.
///
/// An address is where the driver of another node reaches this one: empty in the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipCommand {
    /// Create it: this node is its first and only member. For the first start, and for a restart
    /// after every member was lost.
    Bootstrap {
        /// This node's address.
        address: Bytes,
    },
    /// Become a member.
    Join {
        /// This node's address.
        address: Bytes,
        /// Nodes to ask, any members. On sockets the list may be empty: the node asks those that
        /// the driver finds at the peers' addresses.
        peers: Vec<NodeId>,
    },
    /// Stop being a member.
    Leave,
}
