//! Verification tags: a node accepts messages in the name of a peer only from a sender that
//! receives at the peer's address.
//!
//! In an open membership a node sends each peer a tag of its own, to the peer's address, with the
//! Hello that echoes a nonce of that peer. The peer's messages carry the tag, and so does the Hello
//! of a stream that it dials. The session alone proves nothing: a node sends it to any address that
//! asks.
//!
//! A tag is a keyed hash of id and address, so a node stores none for strangers. When a node
//! restarts, or sees a peer at another address, its tag for the peer changes: it refuses the peer's
//! messages and sends a Who, and the peer answers that with a Who of its own.

use std::time::Duration;

use super::Driver;
use super::datagrams::may;
use super::peers::Proof;
use crate::nonces::{NONCE_BYTES, TAG_BYTES};
use crate::record::{Header, SESSION_BYTES};

/// Age from which a tag may be out of date, when its peer sends a Who.
const TAG_FRESH: Duration = Duration::from_secs(1);

impl Driver {
    /// The verification tag that records of this peer to this node alone must carry.
    pub(super) fn own_tag(&mut self, place: usize) -> u32 {
        if !self.config.is_open {
            return 0;
        }
        let nonces = &self.nonces;
        let peer = self.peers.at(place);
        let (node, addr) = (peer.node, peer.addr);
        match peer.own_tag {
            Some((known, tag)) if known == addr => tag,
            _ => peer.own_tag.insert((addr, nonces.verification_tag(node, addr))).1,
        }
    }

    /// The header of records to this peer alone.
    pub(super) fn header_to(&mut self, place: usize) -> Header {
        if let Some(session) = &self.peers.at(place).keys.present {
            return Header { session: session.tag, ..self.header };
        }
        let tag = self.peers.at(place).told_tag.map_or(0, |(tag, _)| tag);
        Header { session: self.header.session ^ tag, ..self.header }
    }

    /// Notes the tag that comes with a Hello that echoes a nonce of this node.
    pub(super) fn note_tag(&mut self, place: usize, body: &[u8]) {
        let tag =
            body.get(SESSION_BYTES + NONCE_BYTES..).and_then(<[u8]>::first_chunk::<TAG_BYTES>);
        if let Some(&tag) = tag {
            self.peers.at(place).told_tag = Some((u32::from_be_bytes(tag), self.chassis.now));
        }
    }

    /// A peer has sent a Who with this header from its own address. It may refuse this node's
    /// messages because its tag for this node has changed, so it is asked for the present one.
    pub(super) fn renew_tag(&mut self, place: usize, header: &Header) {
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        let (node, addr) = (peer.node, peer.addr);
        let is_known_run = peer.session.is_some_and(|(_, tag)| tag == header.session);
        let is_fresh = peer.told_tag.is_some_and(|(_, at)| now.since(at) < TAG_FRESH);
        if (!is_known_run || !is_fresh) && may(&mut peer.probe_after, now) {
            self.challenge(node, addr);
        }
    }

    /// Handles a failed attempt to dial this peer. Its tag may have changed, so this node asks for
    /// it; of a node that seals the session may be gone.
    pub(super) fn renew_after_failure(&mut self, place: usize) {
        if self.config.sealing.is_some() {
            return self.renew_session(place);
        }
        let peer = self.peers.at(place);
        let (node, addr) = (peer.node, peer.addr);
        if peer.proof == Proof::Proven {
            self.challenge(node, addr);
        }
    }
}
