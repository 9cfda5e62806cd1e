//! The configuration of a network.

use std::sync::Arc;

use paceline_proto::core::{LinkFaults, Loss, NodeId, Overhead};
use paceline_proto::host::LinkRate;

use crate::tcp::{HEAD_BYTES, Streams};
use crate::wires::Wires;

/// The shape of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// One cut-through switch, one port a node.
    #[default]
    Star,
    /// A link of its own for each ordered pair of nodes.
    Mesh,
}

/// How a message to a group leaves its sender. On a mesh, whose links have nothing in common, both
/// are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multicast {
    /// Once: the switch makes the copies, as it does for IP multicast.
    #[default]
    Native,
    /// Once for each receiver, one after another.
    FanOut,
}

/// Bytes on the wire for a segment of this payload; for an acknowledgement without one.
pub(crate) fn charge_segment(overhead: Overhead, payload_bytes: u64) -> u64 {
    match overhead {
        Overhead::None => payload_bytes,
        Overhead::Ethernet => payload_bytes + HEAD_BYTES,
    }
}

/// The network of a run.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// Its shape. Default a star.
    pub shape: Shape,
    /// Bits a second of each port or link; `None` for no limit. Default none.
    pub rate_bits_per_second: Option<u64>,
    /// Bits a second of the ports of these nodes, in place of `rate_bits_per_second`, in both
    /// directions; the slower port of a path counts. Only on a star, and not with streams that
    /// behave as TCP. Default none.
    pub port_rates: Vec<(NodeId, u64)>,
    /// What framing costs. Default Ethernet.
    pub overhead: Overhead,
    /// How streams behave. Default lossless.
    pub streams: Streams,
    /// Bytes waiting at a receiver's port (star) or before a link (mesh) beyond which a datagram is
    /// dropped. A stream is never cut by it; see
    /// `streams`. Default no limit.
    pub queue_bytes_max: Option<u64>,
    /// What links do to messages. Default nothing.
    pub link: LinkFaults,
    /// Which nodes are linked: a message between others is dropped. The delay of a wire adds to the
    /// link's. Default none: every node reaches every other.
    pub wires: Option<Arc<Wires>>,
    /// How messages to groups leave. Default once.
    pub multicast: Multicast,
    /// How a node loses datagrams that have reached it, in its receive buffer. Each node has one
    /// loss process, which takes a step for each copy that arrives, from any sender. Default none.
    pub receive_loss: Loss,
}

impl NetworkConfig {
    /// Bits a second of this node's port; `None` for no limit.
    pub(crate) fn rate_of(&self, node: NodeId) -> Option<u64> {
        let own = self.port_rates.iter().find(|&&(slow, _)| slow == node);
        own.map(|&(_, rate)| rate).or(self.rate_bits_per_second)
    }

    /// The rate of a node's port, for a [host](paceline_proto::host::Host) whose services share it.
    /// `None` without a limit, and in a mesh, where each pair of nodes has a link of its own.
    pub fn link_rate(&self) -> Option<LinkRate> {
        let rate = self.rate_bits_per_second.filter(|_| self.shape == Shape::Star)?;
        Some(LinkRate { bytes_per_second: rate / 8, overhead: self.overhead })
    }
}
