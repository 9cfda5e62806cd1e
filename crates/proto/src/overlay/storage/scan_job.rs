//! A page that a node collects for a scan.

use std::collections::BTreeMap;

use crate::core::NodeId;
use crate::overlay::Key;
use crate::overlay::record::{Record, Version};

/// A page that is being collected.
#[derive(Clone, Debug)]
pub(super) struct ScanJob {
    // The asker, and its number; if the asker is this node, the number of its request.
    pub(super) asker: NodeId,
    pub(super) exchange: u32,
    pub(super) first: Key,
    // The last key of the page, as far as known: lists of neighbours may end before.
    pub(super) until: Key,
    // The last key that the page can have.
    pub(super) end: Key,
    // Answers that have not come.
    pub(super) waiting: usize,
    // The newest version of each record that this node lacks, and a node that holds it.
    pub(super) lacking: BTreeMap<Key, (Version, NodeId)>,
    // Fetched, but not stored here for lack of room.
    pub(super) homeless: BTreeMap<Key, Record>,
    // A node that may hold records did not answer.
    pub(super) is_uncertain: bool,
}
