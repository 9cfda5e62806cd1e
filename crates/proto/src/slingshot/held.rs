//! A held packet: its source, and how it came.

use crate::core::{GroupId, Instant, NodeId, Payload};

/// Whose packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) group: GroupId,
    pub(super) sender: NodeId,
    /// `None` until a packet of it came or the view names it.
    pub(super) incarnation: Option<u64>,
}

/// The way by which a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Direct,
    Recovered,
    Pulled,
}

/// A held packet.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) payload: Payload,
    pub(super) checksum: u32,
    /// When it should have come according to other members; else the first sign of it.
    pub(super) since: Instant,
    pub(super) arrived: Instant,
    pub(super) way: Way,
}
