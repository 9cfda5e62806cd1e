//! The end of a view: members stop sending and accepting blocks, and all deliver every block that
//! some survivor has.
//!
//! The group agrees on when a view ends and at which blocks ([`crate::group`]).

use super::counters;
use super::flow::Room;
use super::message::Frame;
use super::{Chain, Cx};
use crate::core::ViewId;

/// How far one origin's blocks have arrived here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The origin's rank.
    pub origin: usize,
    /// The origin's incarnation.
    pub incarnation: u64,
    /// All blocks from this on and below `end` are held here.
    pub first: u64,
    /// All blocks below this have come here.
    pub end: u64,
}

impl Chain {
    /// Ends the view here: from now on no block is sent, taken from a hop or forwarded. The next
    /// view opens it again.
    pub fn freeze(&mut self) {
        self.is_frozen = true;
        self.queue_bytes_left = 0;
    }

    /// True between [`Chain::freeze`] and the next view.
    pub fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// For each origin that has sent blocks: the number up to which they have arrived. They are
    /// delivered, except those of an incomplete message.
    pub fn reached(&self) -> impl Iterator<Item = Reached> {
        self.flows.iter().map(|flow| Reached {
            origin: flow.rank as usize,
            incarnation: flow.incarnation,
            first: flow.stable.min(flow.received),
            end: flow.received,
        })
    }

    /// All blocks below this of the origin of this rank are here.
    pub fn reached_of(&self, origin: usize) -> u64 {
        self.flow_index(origin as u32).map_or(0, |place| self.flows[place].received)
    }

    /// A block for a member that lacks it; `None` if it was freed here or never arrived.
    pub fn flushed_block(&self, view: ViewId, origin: usize, seq: u64) -> Option<Frame> {
        if view != self.view.id() {
            return None;
        }
        let flow = self.flow_index(origin as u32).ok()?;
        self.flows[flow].frame(view, seq, 0)
    }

    /// Takes a block that another survivor has, and delivers what it completes. False if it is not
    /// the next one of its origin.
    pub fn take_flushed(&mut self, cx: &mut Cx<'_>, frame: Frame) -> bool {
        let is_foreign = frame.view != self.view.id() || frame.origin as usize >= self.members();
        if is_foreign || self.rank.is_none() {
            cx.count(counters::FOREIGN_VIEW, 1);
            return false;
        }
        let Some(place) = self.flow_of(cx, frame.origin, frame.incarnation) else { return false };
        let flow = &mut self.flows[place];
        let block_bytes = frame.payload.len() + frame.lengths.window_bytes();
        if frame.seq < flow.received || block_bytes > cx.shared.block_bytes_max {
            return false;
        }
        // What the giver knows is stable need not be held beside what it gives.
        flow.free(frame.seq.saturating_sub(u64::from(frame.stable_lag)));
        // The end of the view is agreed: bytes have no say. But an origin sends no block a window
        // beyond what is granted here, and a place is kept for each block before the one given.
        let room = Room {
            window_blocks: cx.shared.window_blocks,
            window_bytes: usize::MAX >> 1,
            unconsumed_bytes_max: usize::MAX,
        };
        self.take_in_with(cx, place, frame, room).is_ok()
    }
}
