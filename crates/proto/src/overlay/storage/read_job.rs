//! A read that asks other replicas.

use crate::core::NodeId;
use crate::overlay::Key;
use crate::overlay::record::Record;

/// Keys that are being requested from other replicas.
#[derive(Clone, Debug)]
pub(in crate::overlay) struct ReadJob {
    pub(in crate::overlay) initiator: NodeId,
    pub(in crate::overlay) tag: u64,
    pub(in crate::overlay) keys: Vec<Key>,
    pub(in crate::overlay) asked: Vec<(NodeId, Key)>,
    // Found, but not stored here for lack of room.
    pub(in crate::overlay) found: Vec<Record>,
    // Requested, and not answered.
    pub(in crate::overlay) unanswered: Vec<Key>,
    pub(in crate::overlay) waiting: u32,
    pub(in crate::overlay) rounds: u8,
}
