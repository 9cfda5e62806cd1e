//! A read that asks other replicas.

use crate::core::NodeId;
use crate::overlay::Key;
use crate::overlay::record::Record;

/// Keys that are being requested from other replicas.
#[derive(Clone, Debug)]
pub(super) struct ReadJob {
    pub(super) initiator: NodeId,
    pub(super) tag: u64,
    pub(super) keys: Vec<Key>,
    pub(super) asked: Vec<(NodeId, Key)>,
    // Found, but not stored here for lack of room.
    pub(super) found: Vec<Record>,
    // Requested, and not answered.
    pub(super) unanswered: Vec<Key>,
    pub(super) waiting: u32,
    pub(super) rounds: u8,
}
