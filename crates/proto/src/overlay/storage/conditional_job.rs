//! Conditional writes that are under way.

use super::Routing;
use crate::core::NodeId;
use crate::overlay::Key;
use crate::overlay::record::{PutIfAnswer, PutIfItem, Successor};

/// Conditional items that are being written.
#[derive(Clone, Debug)]
pub(super) struct ConditionalJob {
    // The writer, and its number; if the writer is this node, the number of its request.
    pub(super) from: NodeId,
    pub(super) exchange: u32,
    pub(super) write: u64,
    pub(super) items: Vec<Conditional>,
    pub(super) waiting: u32,
    pub(super) rounds: u8,
}

#[derive(Clone, Debug)]
pub(super) struct Conditional {
    pub(super) item: PutIfItem,
    pub(super) progress: Progress,
}

#[derive(Clone, Debug)]
pub(super) enum Progress {
    /// The other replicas are asked what they hold. These have answered.
    Asking(Vec<NodeId>),
    /// The condition held. These other nodes hold the record.
    Writing(Successor, Vec<NodeId>),
    /// It has its answer.
    Decided(PutIfAnswer),
}

impl ConditionalJob {
    /// True if it is this message of this writer.
    pub(super) fn is_of(&self, from: NodeId, exchange: u32) -> bool {
        (self.from, self.exchange) == (from, exchange)
    }

    /// Answers the writer.
    pub(super) fn end(self, routing: &mut Routing<'_>) {
        let answer = |progress| match progress {
            // The job always decides these before it ends.
            Progress::Asking(_) => PutIfAnswer::Busy,
            Progress::Writing(..) => PutIfAnswer::Unreplicated,
            Progress::Decided(answer) => answer,
        };
        let answers =
            self.items.into_iter().map(|it| (it.item.item.key, answer(it.progress))).collect();
        routing.answer_put_if(self.from, self.exchange, answers);
    }

    /// The item under a key.
    pub(super) fn item_mut(&mut self, key: Key) -> Option<&mut Conditional> {
        let place = self.items.binary_search_by_key(&key, |it| it.item.item.key).ok()?;
        Some(&mut self.items[place])
    }
}
