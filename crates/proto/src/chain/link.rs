use std::collections::VecDeque;

use super::Cx;
use super::fair_queue::{FairQueue, Waiting};
use super::lag::Lag;
use super::message::Message;
use crate::core::{Lane, NodeId, ViewId};

/// A block that was sent on one hop and is not yet acknowledged: its name, not its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) origin: u32,
    pub(super) seq: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// Blocks leave as the hop has room.
    Open,
    /// The stream broke. Blocks wait.
    Down,
    /// The stream is back; the peer was asked where to go on.
    Resyncing,
}

/// The sending end of a hop.
#[derive(Debug)]
pub(super) struct OutLink {
    pub(super) peer: NodeId,
    pub(super) state: LinkState,
    // The blocks whose turn has not come. Made when the first has to wait.
    queue: Option<Box<FairQueue>>,
    /// How far this member's own blocks are behind others here. Made when it first sends.
    pub(super) lag: Option<Box<Lag>>,
    // The link number of the first frame in `sent`, and how many frames are in it.
    base: u64,
    len: u64,
    // Blocks of one origin that follow each other are one entry: a million nodes that each forward
    // one origin's blocks hold one.
    sent: VecDeque<Run>,
}

/// Blocks of one origin, in order and without a gap.
#[derive(Clone, Copy, Debug)]
struct Run {
    origin: u32,
    count: u32,
    first: u64,
}

impl OutLink {
    pub(super) fn new(peer: NodeId) -> OutLink {
        let (state, sent) = (LinkState::Open, VecDeque::new());
        OutLink { peer, state, queue: None, lag: None, base: 0, len: 0, sent }
    }

    /// True if blocks wait for their turn.
    pub(super) fn has_queue(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| !queue.is_empty())
    }

    /// True if of the frames that were not acknowledged all have blocks of this origin.
    pub(super) fn carries_only(&self, origin: u32) -> bool {
        self.sent.iter().all(|run| run.origin == origin)
    }

    /// Blocks of this origin that wait for their turn, and their bytes.
    pub(super) fn waiting_of(&self, origin: u32) -> (usize, usize) {
        self.queue.as_ref().map_or((0, 0), |queue| queue.waiting_of(origin))
    }

    /// Lets a block wait for its turn.
    pub(super) fn push(&mut self, block: Waiting) {
        self.queue.get_or_insert_default().push(block);
    }

    /// The origins of the blocks that wait for their turn.
    pub(super) fn waiting_origins(&self) -> impl Iterator<Item = u32> {
        self.queue.iter().flat_map(|queue| queue.origins())
    }

    /// Takes the block whose turn it is, of the origins that may leave.
    pub(super) fn pop(&mut self, may_leave: impl Fn(u32) -> bool) -> Option<Waiting> {
        self.queue.as_mut()?.pop(may_leave)
    }

    /// The number of the next new frame.
    pub(super) fn next(&self) -> u64 {
        self.base + self.len
    }

    /// Notes a frame and gives its number.
    pub(super) fn note(&mut self, sent: Sent) -> u64 {
        self.len += 1;
        match self.sent.back_mut() {
            Some(run)
                if run.origin == sent.origin
                    && run.first + u64::from(run.count) == sent.seq
                    && run.count < u32::MAX =>
            {
                run.count += 1;
            }
            _ => {
                // Most members have one run: no room for four.
                if self.sent.is_empty() {
                    self.sent.reserve_exact(1);
                }
                self.sent.push_back(Run { origin: sent.origin, count: 1, first: sent.seq });
            }
        }
        self.next() - 1
    }

    /// The peer has everything below `next`. False if that was never sent.
    pub(super) fn acknowledge(&mut self, next: u64) -> bool {
        if next > self.next() {
            return false;
        }
        let mut gone = next.saturating_sub(self.base);
        self.base += gone;
        self.len -= gone;
        while gone > 0 {
            let run = self.sent.front_mut().expect("runs hold as many frames as were noted");
            let part = gone.min(u64::from(run.count));
            run.first += part;
            run.count -= part as u32;
            gone -= part;
            if run.count == 0 {
                self.sent.pop_front();
            }
        }
        true
    }

    /// Frames that were sent and that the peer has not acknowledged.
    pub(super) fn unacknowledged_count(&self) -> u64 {
        self.len
    }

    /// Frames that the peer has acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.base
    }

    /// The blocks that the peer has not acknowledged, with their link numbers.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = (u64, Sent)> {
        let frames = self.sent.iter().flat_map(|run| {
            let (origin, first) = (run.origin, run.first);
            (0..u64::from(run.count)).map(move |n| Sent { origin, seq: first + n })
        });
        (self.base..).zip(frames)
    }
}

/// The receiving end of a hop.
#[derive(Debug)]
pub(super) struct InLink {
    pub(super) peer: NodeId,
    /// The number of the next frame.
    pub(super) expected: u64,
    /// The last acknowledgement.
    pub(super) acknowledged: u64,
}

impl InLink {
    pub(super) fn new(peer: NodeId) -> InLink {
        InLink { peer, expected: 0, acknowledged: 0 }
    }

    /// Acknowledges all frames that have come.
    pub(super) fn send_ack(&mut self, cx: &mut Cx<'_>, view: ViewId) {
        self.acknowledged = self.expected;
        cx.send(self.peer, Lane::Datagram, Message::LinkAck { view, next: self.expected });
    }
}

/// A link end that is found by its peer.
pub(super) trait LinkEnd {
    fn peer(&self) -> NodeId;
    fn open(peer: NodeId) -> Self;
}

impl LinkEnd for OutLink {
    fn peer(&self) -> NodeId {
        self.peer
    }
    fn open(peer: NodeId) -> Self {
        OutLink::new(peer)
    }
}

impl LinkEnd for InLink {
    fn peer(&self) -> NodeId {
        self.peer
    }
    fn open(peer: NodeId) -> Self {
        InLink::new(peer)
    }
}

/// The link end towards `peer`, made at first use. `links` is sorted by peer.
pub(super) fn link_to<L: LinkEnd>(links: &mut Vec<L>, peer: NodeId) -> &mut L {
    let place = match links.binary_search_by_key(&peer, LinkEnd::peer) {
        Ok(place) => place,
        Err(place) => {
            // Most members have one hop: no room for four.
            links.reserve_exact(1);
            links.insert(place, L::open(peer));
            place
        }
    };
    &mut links[place]
}

/// The link end towards `peer`, if there is one.
pub(super) fn known_link<L: LinkEnd>(links: &mut [L], peer: NodeId) -> Option<&mut L> {
    let place = links.binary_search_by_key(&peer, LinkEnd::peer).ok()?;
    Some(&mut links[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_exactly_the_frames_that_were_noted() {
        let mut link = OutLink::new(NodeId(1));
        let noted = [(3, 0), (3, 1), (5, 0), (3, 2), (3, 3), (3, 4), (3, 6), (5, 1)];
        for (number, (origin, seq)) in (0u64..).zip(noted) {
            assert_eq!(link.note(Sent { origin, seq }), number);
        }
        for next in 0..=8 {
            assert!(link.acknowledge(next));
            let held: Vec<(u64, (u32, u64))> =
                link.unacknowledged().map(|(n, sent)| (n, (sent.origin, sent.seq))).collect();
            let expected: Vec<_> = (0u64..).zip(noted).skip(next as usize).collect();
            assert_eq!(held, expected);
            assert_eq!(link.next(), 8);
        }
        assert!(!link.acknowledge(9) && link.acknowledge(2), "old news changes nothing");
    }
}
