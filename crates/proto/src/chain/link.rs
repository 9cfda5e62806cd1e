use std::collections::VecDeque;

use crate::core::NodeId;

/// What was sent on one hop and not yet acknowledged: names of blocks, not the blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) origin: u32,
    pub(super) seq: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// Frames go out as they come.
    Open,
    /// The stream broke. Frames are only noted.
    Down,
    /// The stream is back; the peer was asked where to go on.
    Resyncing,
}

/// The sending end of a hop.
#[derive(Debug)]
pub(super) struct OutLink {
    pub(super) peer: NodeId,
    pub(super) state: LinkState,
    // The link number of `sent[0]`.
    base: u64,
    sent: VecDeque<Sent>,
}

impl OutLink {
    pub(super) fn new(peer: NodeId) -> OutLink {
        OutLink { peer, state: LinkState::Open, base: 0, sent: VecDeque::new() }
    }

    /// The number of the next new frame.
    pub(super) fn next(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// Notes a frame and gives its number.
    pub(super) fn note(&mut self, sent: Sent) -> u64 {
        self.sent.push_back(sent);
        self.next() - 1
    }

    /// The peer has everything below `next`. False if that was never sent.
    pub(super) fn acknowledge(&mut self, next: u64) -> bool {
        if next > self.next() {
            return false;
        }
        let gone = next.saturating_sub(self.base) as usize;
        self.sent.drain(..gone);
        self.base += gone as u64;
        true
    }

    /// What the peer has not acknowledged, with its numbers.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = (u64, Sent)> {
        (self.base..).zip(self.sent.iter().copied())
    }
}

/// The receiving end of a hop.
#[derive(Debug)]
pub(super) struct InLink {
    pub(super) peer: NodeId,
    /// The number of the next frame.
    pub(super) expected: u64,
    /// What was last acknowledged.
    pub(super) acknowledged: u64,
}

impl InLink {
    pub(super) fn new(peer: NodeId) -> InLink {
        InLink { peer, expected: 0, acknowledged: 0 }
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
