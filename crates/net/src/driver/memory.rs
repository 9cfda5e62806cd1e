//! The bound on the bytes that a node holds for all its peers together, and the order of eviction.
//!
//! The order is documented at [`NodeConfig::with_memory_bytes_max`]. The cheapest to send is
//! evicted first: a record that was begun and not continued.
//!
//! [`NodeConfig::with_memory_bytes_max`]: crate::NodeConfig::with_memory_bytes_max

use paceline_proto::parts::link_share::Path;

use super::Driver;
use super::peers::Proof;
use crate::chassis::Drive;
use crate::counters;
use crate::streams::incoming::{Incoming, Speaker};
use crate::streams::outgoing::Phase;

/// How well a peer is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// No roster names it and this node has no stream to it, or it has not said Hello.
    Stranger,
    /// Any other.
    Known,
}

impl Driver {
    /// Evicts in that order until the rest is within the bound.
    pub(super) fn keep_within_memory(&mut self) {
        while self.held().of_peers() > self.config.memory_bytes_max {
            let has_evicted = self.evict_record(Standing::Stranger)
                || self.evict_proof()
                || self.evict_queue(Standing::Stranger)
                || self.evict_datagrams()
                || self.evict_record(Standing::Known)
                || self.evict_queue(Standing::Known);
            if !has_evicted {
                return;
            }
        }
    }

    fn standing(&mut self, place: usize) -> Standing {
        let outgoing = &self.peers.at(place).outgoing;
        match outgoing.phase {
            _ if !self.config.is_open => Standing::Known,
            Phase::Established(_) => Standing::Known,
            _ => Standing::Stranger,
        }
    }

    /// Closes the stream whose unfinished record was begun first.
    fn evict_record(&mut self, standing: Standing) -> bool {
        let mut oldest = None;
        for slot in 0..self.incoming.len() {
            let Some(incoming) = &self.incoming[slot] else { continue };
            let Some(begun_at) = incoming.begun_at() else { continue };
            let of = match incoming.speaker {
                Speaker::Unknown | Speaker::Opening { .. } => Standing::Stranger,
                Speaker::Peer { peer, .. } => self.standing(peer),
            };
            if of == standing && oldest.is_none_or(|(first, _)| begun_at < first) {
                oldest = Some((begun_at, slot));
            }
        }
        let Some((_, slot)) = oldest else { return false };
        self.chassis.counters.add(counters::MEMORY_RECORD_CLOSED, 1);
        self.close_incoming(slot);
        true
    }

    /// Drops the messages that wait for the oldest open proof.
    fn evict_proof(&mut self) -> bool {
        let Some(node) = self.proofs.oldest_waited_for() else { return false };
        self.chassis.counters.add(counters::MEMORY_PROOF_DROPPED, 1);
        self.give_up_proof(node);
        true
    }

    /// Breaks the stream with the longest queue.
    fn evict_queue(&mut self, standing: Standing) -> bool {
        let mut longest = (0, None);
        for place in 0..self.peers.len() {
            let peer = self.peers.at(place);
            let (path, queued) = (Path::stream(peer.node), peer.outgoing.queued_bytes());
            let bytes = queued + self.link.share.path_bytes(path);
            if bytes > longest.0 && self.standing(place) == standing {
                longest = (bytes, Some(place));
            }
        }
        let Some(place) = longest.1 else { return false };
        self.chassis.counters.add(counters::MEMORY_QUEUE_BROKEN, 1);
        match self.peers.at(place).proof {
            Proof::Proven => self.lose_outgoing(place),
            Proof::Hinted => self.lose_unproven(place),
        }
        true
    }

    /// Drops the oldest of the datagrams that wait for the socket, or all that wait for the link.
    fn evict_datagrams(&mut self) -> bool {
        let dropped = match self.datagrams.queue.drop_oldest() {
            0 => self.link.share.discard_datagrams(),
            dropped => dropped,
        };
        self.chassis.counters.add(counters::MEMORY_DATAGRAM_DROPPED, dropped as u64);
        dropped > 0
    }

    /// Closes an accepted stream.
    pub(super) fn close_incoming(&mut self, slot: usize) -> Option<Incoming> {
        let incoming = self.incoming[slot].take()?;
        if let Speaker::Peer { peer, .. } = incoming.speaker
            && self.peers.at(peer).incoming == Some(slot)
        {
            self.peers.at(peer).incoming = None;
        }
        Some(incoming)
    }
}
