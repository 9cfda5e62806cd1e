//! A held packet: its source, and how it came.

use super::fragment::Fragment;
use super::message::Framing;
use crate::core::{GroupId, Instant, NodeId, Payload};

/// Whose packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The group to which they are sent.
    pub group: GroupId,
    /// The member that sends them.
    pub sender: NodeId,
    /// The sender's. `None` until a packet of it came or the view names it.
    pub incarnation: Option<u64>,
}

/// The way by which a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From its sender.
    Direct,
    /// Computed from repairs.
    Recovered,
    /// From a member that was asked, or that sent it again.
    Pulled,
}

/// A held packet.
#[derive(Debug)]
pub struct Held {
    /// Its bytes.
    pub payload: Payload,
    /// See [`checksum`](super::checksum).
    pub checksum: u32,
    /// Its head, if it is a part of a message.
    pub fragment: Option<Fragment>,
    /// When it should have come according to other members; else the first sign of it.
    pub since: Instant,
    /// When this member first knew of it.
    pub noted: Instant,
    /// When it came.
    pub arrived: Instant,
    /// The way by which it came.
    pub way: Way,
}

impl Held {
    /// Whether it is a message or a part of one.
    pub fn framing(&self) -> Framing {
        if self.fragment.is_some() { Framing::Fragment } else { Framing::Whole }
    }
}
