//! Proof of addresses: in an open membership only short questions go to an address, until its owner
//! has repeated a nonce that was sent there.
//!
//! The address of a node in a Hello, or in a message of another node, is a *hint*. Once the
//! protocol sends to the node, the driver sends a question there and holds the messages back. They
//! leave when the nonce comes back, and are dropped when it does not in time. The driver dials no
//! stream to a hinted address, and a hint does not replace a proven address: the driver asks at the
//! hinted one, and the answer is a claim like any other (see [`claims`](super::claims)).
//!
//! An address that does not answer gets [`ASKS_FIRST`] questions of 32 bytes: together less than
//! three times the Hello or the message that named it. While the protocol continues to send, one
//! more question follows at intervals that grow to [`RETRY_MAX`]. A node that knows this one at
//! another address answers there, and sends a question here: each such question allows one more, up
//! to [`ASKS_MAX`].

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{Instant, NodeId, PeerState};
use paceline_proto::parts::token_bucket::TokenBucket;

use super::datagrams::{Content, Datagram};
use super::peers::Proof;
use super::{Deadline, Driver, Notice};
use crate::counters;
use crate::datagrams::write;
use crate::nonces::NONCE_BYTES;
use crate::record::{HEADER_BYTES, Header, SESSION_BYTES, Session};
use crate::streams::outgoing::{NotifiedState, Phase};

/// Nodes that are asked at once.
const OPEN_MAX: usize = 1024;
/// Bytes that wait for the proof of one node, and of all nodes.
const WAITING_BYTES_MAX: usize = 1 << 20;
const WAITING_BYTES_IN_ALL_MAX: usize = 16 << 20;
/// Questions to an address, the first time.
const ASKS_FIRST: u32 = 3;
/// Questions to an address that does not answer and asks in turn.
const ASKS_MAX: u32 = 12;
/// Wait for an answer before the second question; it doubles.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How long the answer may take.
const PROVE_WITHIN: Duration = Duration::from_millis(1500);
/// How long an address that a hint names has to take over from the proven one, once it has
/// answered, and how often it is asked meanwhile.
const CLAIM_WITHIN: Duration = Duration::from_secs(3);
const CLAIM_EVERY: Duration = Duration::from_millis(250);
/// Wait before a node that has not answered is asked again; it doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(8);
/// How often open proofs are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Depth of the buckets of questions and of answers, as the time that their rates take to fill
/// them.
const BURST: Duration = Duration::from_secs(1);
/// Between two questions that hints cause, on average; a second's worth at once.
const HINT_EVERY: Duration = Duration::from_nanos(1_000_000_000 / 256);
/// Between two answers to nodes that are not known, likewise.
const ANSWER_EVERY: Duration = Duration::from_nanos(1_000_000_000 / 1024);

/// A node that is being asked to prove an address.
#[derive(Debug)]
pub(super) struct OpenProof {
    addr: SocketAddr,
    asked: u32,
    asks_max: u32,
    next_at: Instant,
    until: Instant,
    /// It has repeated a nonce; whether it replaces the proven address is still open.
    is_echoed: bool,
    datagrams: Vec<Bytes>,
    /// Bytes of the waiting datagrams, and of the messages in the queue of its stream.
    bytes: usize,
    datagram_bytes: usize,
    wants_stream: bool,
}

/// Open proofs, and the messages that wait for them.
pub(crate) struct Proofs {
    open: BTreeMap<NodeId, OpenProof>,
    bytes: usize,
    datagram_bytes: usize,
    hints: TokenBucket,
    answers: TokenBucket,
    is_armed: bool,
}

impl Proofs {
    pub(crate) fn new() -> Proofs {
        Proofs {
            open: BTreeMap::new(),
            bytes: 0,
            datagram_bytes: 0,
            hints: TokenBucket::full(BURST),
            answers: TokenBucket::full(BURST),
            is_armed: false,
        }
    }

    /// Reserves room for a message that waits for this node's proof.
    fn reserve(&mut self, node: NodeId, bytes: usize) -> Option<&mut OpenProof> {
        let open = self.open.get_mut(&node)?;
        let has_room = open.bytes + bytes <= WAITING_BYTES_MAX
            && self.bytes + bytes <= WAITING_BYTES_IN_ALL_MAX;
        if !has_room {
            return None;
        }
        open.bytes += bytes;
        self.bytes += bytes;
        Some(open)
    }

    /// True if a node is asked, and messages wait for its answer.
    pub(super) fn is_open(&self, node: NodeId) -> bool {
        self.open.contains_key(&node)
    }

    /// Lets the messages for a node wait for a handshake that begins now.
    pub(super) fn extend(&mut self, node: NodeId, now: Instant) {
        if let Some(open) = self.open.get_mut(&node) {
            open.until = open.until.max(now + PROVE_WITHIN);
        }
    }

    /// True if an unknown node may be answered now; counts the answer.
    pub(super) fn admits_answer(&mut self, now: Instant) -> bool {
        self.answers.try_take_whole(now, ANSWER_EVERY)
    }

    /// Ends the proof of the node.
    pub(super) fn close(&mut self, node: NodeId) -> Option<OpenProof> {
        let open = self.open.remove(&node)?;
        self.bytes -= open.bytes;
        self.datagram_bytes -= open.datagram_bytes;
        Some(open)
    }

    /// Bytes of the datagrams that wait; messages on streams are in the queues of these.
    pub(super) fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// Of the nodes for which datagrams wait, the one with the earliest deadline.
    pub(super) fn oldest_waited_for(&self) -> Option<NodeId> {
        let waited_for = self.open.iter().filter(|(_, open)| open.datagram_bytes > 0);
        waited_for.min_by_key(|(_, open)| open.until).map(|(&node, _)| node)
    }

    /// The node with the earliest deadline.
    fn oldest(&self) -> Option<NodeId> {
        self.open.iter().min_by_key(|(_, open)| open.until).map(|(&node, _)| node)
    }
}

impl Driver {
    /// The address to which a repeated nonce was sent, if it was made for this node: the source of
    /// the record, `addr`, or a sought one whose id was not known.
    pub(super) fn proven_at(
        &self,
        node: NodeId,
        from: SocketAddr,
        addr: SocketAddr,
        body: &[u8],
    ) -> Option<SocketAddr> {
        let nonce = body[SESSION_BYTES..].get(..NONCE_BYTES)?;
        let admits = |node, addr| self.nonces.admits(node, addr, nonce, self.chassis.now);
        let is_sought = || self.is_sought(from) && admits(self.config.node, from);
        if admits(node, from) || is_sought() {
            return Some(from);
        }
        admits(node, addr).then_some(addr)
    }

    /// Whether a node may be at this address, given this node's own exposure.
    fn may_be_at(&mut self, addr: SocketAddr) -> bool {
        let is_broadcast = matches!(addr.ip(), IpAddr::V4(ip) if ip.is_broadcast());
        if addr.port() == 0
            || addr.ip().is_unspecified()
            || addr.ip().is_multicast()
            || is_broadcast
        {
            self.chassis.counters.add(counters::PEER_BAD_ADDRESS, 1);
            return false;
        }
        if !self.config.common.allows(addr.ip()) {
            self.chassis.counters.add(counters::PEER_HINT_NOT_LOOPBACK, 1);
            return false;
        }
        true
    }

    /// The protocol has learned where a node is: a hint, from any source.
    pub(super) fn learn_address(&mut self, node: NodeId, address: &Bytes) {
        let text = std::str::from_utf8(address).ok();
        let Some(addr) = text.and_then(|text| text.parse::<SocketAddr>().ok()) else {
            return self.chassis.counters.add(counters::PEER_BAD_ADDRESS, 1);
        };
        if node == self.config.node || !self.may_be_at(addr) {
            return;
        }
        let Some(place) =
            self.peers.place_or_insert(node, addr, self.chassis.now, &self.chassis.ready)
        else {
            return self.chassis.counters.add(counters::PEER_TABLE_FULL, 1);
        };
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        if peer.addr == addr {
            return;
        }
        if peer.proof == Proof::Proven {
            if now < peer.ask_after || self.proofs.open.contains_key(&node) {
                return;
            }
            // Its own answer from there is a claim; the word of another node has no effect.
            peer.ask_after = now + RETRY_FIRST;
            return self.open_proof(node, addr, ASKS_FIRST);
        }
        // Asks at the latest hint. A nonce that was sent to an earlier one still proves that
        // address.
        peer.addr = addr;
        peer.ask_after = Instant::ZERO;
        peer.challenged_at = Instant::ZERO;
        if let Some(open) = self.proofs.open.get_mut(&node) {
            open.addr = addr;
            open.asked = open.asked.min(open.asks_max - 1);
            open.next_at = now;
            self.look_at_proof(node);
        }
    }

    /// Begins to ask a node whether it is at this address.
    fn open_proof(&mut self, node: NodeId, addr: SocketAddr, asks_max: u32) {
        if self.proofs.open.len() >= OPEN_MAX
            && let Some(oldest) = self.proofs.oldest()
        {
            self.chassis.counters.add(counters::PROOF_TABLE_FULL, 1);
            self.give_up_proof(oldest);
        }
        let challenged_at = self.peers.place(node).map_or(Instant::ZERO, |place| {
            let peer = self.peers.at(place);
            if peer.addr == addr { peer.challenged_at } else { Instant::ZERO }
        });
        // Its Hello has just been answered with a question.
        let is_asked = challenged_at != Instant::ZERO
            && self.chassis.now.since(challenged_at) < ASK_AGAIN
            && asks_max > 1;
        let open = OpenProof {
            addr,
            asked: u32::from(is_asked),
            asks_max,
            next_at: if is_asked { challenged_at + ASK_AGAIN } else { self.chassis.now },
            until: self.chassis.now + PROVE_WITHIN,
            is_echoed: false,
            datagrams: Vec::new(),
            bytes: 0,
            datagram_bytes: 0,
            wants_stream: false,
        };
        self.proofs.open.insert(node, open);
        self.look_at_proof(node);
        if !self.proofs.is_armed {
            self.proofs.is_armed = true;
            self.deadlines.set(self.chassis.now + LOOK_EVERY, Deadline::Proofs);
        }
    }

    /// Whether a message may wait for the proof of a peer. Starts the proof. False for a while
    /// after the peer did not answer.
    fn may_wait_for(&mut self, place: usize) -> bool {
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        let (node, addr) = (peer.node, peer.addr);
        if self.proofs.open.contains_key(&node) {
            return true;
        }
        if now < peer.ask_after {
            return false;
        }
        let asks_max = if peer.proofs_failed == 0 { ASKS_FIRST } else { 1 };
        self.open_proof(node, addr, asks_max);
        true
    }

    /// Keeps a datagram until the peer's address is proven.
    pub(super) fn hold_datagram(&mut self, place: usize, content: &Content<'_>) {
        let bytes = HEADER_BYTES
            + match content {
                Content::Message { bytes, .. } => *bytes,
                Content::Record(record) => record.len(),
            };
        let node = self.peers.at(place).node;
        if !self.may_wait_for(place) || self.proofs.reserve(node, bytes).is_none() {
            return self.chassis.counters.add(counters::PROOF_DROPPED, 1);
        }
        let record = match content {
            Content::Message { service, message, bytes } => {
                let header = Header { service: *service, ..self.header };
                self.record(header, *bytes, |out| write(*message, out))
            }
            Content::Record(record) => record.clone(),
        };
        self.chassis.counters.add(counters::PROOF_WAITED_FOR, 1);
        let open = self.proofs.open.get_mut(&node).expect("room was reserved in it");
        open.datagrams.push(record);
        open.datagram_bytes += bytes;
        self.proofs.datagram_bytes += bytes;
    }

    /// A group message triggers a Who to a hinted peer only while the peer is asked for the first
    /// time: group messages may go to all known peers, and anyone may have named them.
    pub(super) fn is_group_copy_due(&mut self, place: usize) -> bool {
        let peer = self.peers.at(place);
        peer.proof == Proof::Proven || peer.proofs_failed == 0
    }

    /// Asks a hinted peer for its proof, although no message waits for it.
    pub(super) fn ask_for_proof(&mut self, place: usize) {
        if self.is_group_copy_due(place) {
            self.may_wait_for(place);
        }
    }

    /// Whether a message on a stream may be queued until the peer's address is proven.
    pub(super) fn may_queue_unproven(&mut self, place: usize, bytes: usize) -> bool {
        let node = self.peers.at(place).node;
        if !self.may_wait_for(place) {
            return false;
        }
        let Some(open) = self.proofs.reserve(node, bytes) else { return false };
        open.wants_stream = true;
        self.chassis.counters.add(counters::PROOF_WAITED_FOR, 1);
        true
    }

    /// Requests a stream to a peer whose address is not proven: the driver dials once it is.
    pub(super) fn want_stream(&mut self, place: usize) {
        let node = self.peers.at(place).node;
        if self.may_wait_for(place)
            && let Some(open) = self.proofs.open.get_mut(&node)
        {
            open.wants_stream = true;
        }
    }

    /// Drops the queue for a hinted peer.
    pub(super) fn lose_unproven(&mut self, place: usize) {
        let peer = self.peers.at(place);
        let node = peer.node;
        let was = peer.outgoing.notified_state;
        let queued = peer.outgoing.give_up();
        peer.outgoing.notified_state = NotifiedState::Down;
        let lost_bytes = queued + self.lose_waiting(node);
        self.chassis.counters.add(counters::STREAM_BYTES_LOST, lost_bytes as u64);
        if was == NotifiedState::Up {
            self.notices.push(Notice::all(node, PeerState::Down));
        }
    }

    /// Looks at all open proofs.
    pub(super) fn look_at_proofs(&mut self) {
        self.proofs.is_armed = false;
        let nodes: Vec<NodeId> = self.proofs.open.keys().copied().collect();
        for node in nodes {
            self.look_at_proof(node);
        }
        if !self.proofs.open.is_empty() && !self.proofs.is_armed {
            self.proofs.is_armed = true;
            self.deadlines.set(self.chassis.now + LOOK_EVERY, Deadline::Proofs);
        }
    }

    fn look_at_proof(&mut self, node: NodeId) {
        let now = self.chassis.now;
        let Some(open) = self.proofs.open.get_mut(&node) else { return };
        if now >= open.until {
            return self.give_up_proof(node);
        }
        if now < open.next_at || (open.asked >= open.asks_max && !open.is_echoed) {
            return;
        }
        let addr = open.addr;
        // A Hello is longer than the question that it causes; a hint costs its sender almost
        // nothing.
        let is_paid = open.is_echoed
            || self.peers.place(node).is_some_and(|place| {
                let peer = self.peers.at(place);
                peer.addr == addr && peer.session.is_some()
            });
        if !is_paid && !self.proofs.hints.try_take_whole(now, HINT_EVERY) {
            return self.chassis.counters.add(counters::PROOF_DELAYED, 1);
        }
        let open = self.proofs.open.get_mut(&node).expect("looked at above");
        let wait = if open.is_echoed { CLAIM_EVERY } else { ASK_AGAIN * (1 << open.asked.min(8)) };
        open.asked += 1;
        open.next_at = now + wait;
        self.challenge(node, addr);
    }

    /// Handles a question from an address that has not answered this node's.
    pub(super) fn note_question(&mut self, node: NodeId, from: SocketAddr) {
        let now = self.chassis.now;
        if let Some(open) = self.proofs.open.get_mut(&node)
            && open.addr == from
            && (open.asks_max..ASKS_MAX).contains(&open.asked)
        {
            open.asks_max = open.asked + 1;
            open.next_at = now + CLAIM_EVERY;
            open.until = open.until.max(now + 2 * CLAIM_EVERY);
        }
    }

    pub(super) fn give_up_proof(&mut self, node: NodeId) {
        let Some(open) = self.proofs.close(node) else { return };
        self.chassis.counters.add(counters::PROOF_FAILED, 1);
        self.chassis.counters.add(counters::PROOF_DROPPED, open.datagrams.len() as u64);
        let Some(place) = self.peers.place(node) else { return };
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        if peer.proof == Proof::Proven {
            return;
        }
        let wait = RETRY_FIRST.saturating_mul(1 << peer.proofs_failed.min(3)).min(RETRY_MAX);
        peer.ask_after = now + wait;
        peer.proofs_failed = peer.proofs_failed.saturating_add(1);
        if peer.outgoing.queued_bytes() > 0 {
            self.lose_unproven(place);
        }
    }

    /// Handles a Hello of a peer whose address is not proven. True if its session must be noted.
    pub(super) fn admit_unproven(
        &mut self,
        place: usize,
        from: SocketAddr,
        header: &Header,
        body: &[u8],
        session: Session,
        proven_at: Option<SocketAddr>,
    ) -> bool {
        if let Some(addr) = proven_at {
            self.note_tag(place, body);
            self.note_proven(place, addr, session);
            return true;
        }
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        let known = peer.session.map(|(known, _)| known);
        if known.is_none() && peer.addr != from {
            self.move_hint(place, from);
        }
        let peer = self.peers.at(place);
        peer.ask_after = Instant::ZERO;
        if peer.addr == from {
            peer.challenged_at = now;
        }
        self.challenge(header.sender, from);
        // The known session stays until another one proves its address.
        known.is_none_or(|known| known == session)
    }

    /// A hinted peer has said Hello from this address, which may be forged, but is a better hint
    /// than that of another node.
    pub(super) fn move_hint(&mut self, place: usize, from: SocketAddr) {
        let peer = self.peers.at(place);
        peer.addr = from;
        if let Some(open) = self.proofs.open.get_mut(&peer.node) {
            open.addr = from;
        }
    }

    /// A node has repeated the nonce that was sent to this address: the address is proven, and the
    /// waiting messages leave.
    pub(super) fn note_proven(&mut self, place: usize, addr: SocketAddr, session: Session) {
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        let node = peer.node;
        let is_another = peer.session.is_some_and(|(known, _)| known != session);
        peer.proof = Proof::Proven;
        peer.heard_at = now;
        peer.proofs_failed = 0;
        peer.ask_after = Instant::ZERO;
        if is_another {
            // The known session has proven nothing.
            peer.session = Some((session, session.tag()));
            self.chassis.counters.add(counters::PEER_RESTARTED, 1);
            self.close_incoming_of(place);
        }
        self.chassis.counters.add(counters::PEER_PROVEN, 1);
        self.move_peer(place, addr);
        // It has not had this node's session before.
        self.peers.make_stranger(place);
        let open = self.proofs.close(node);
        let wants_stream = open.as_ref().is_some_and(|open| open.wants_stream);
        for record in open.into_iter().flat_map(|open| open.datagrams) {
            self.queue_datagram(&Datagram { place, content: Content::Record(record) });
        }
        let outgoing = &self.peers.at(place).outgoing;
        let is_wanted = wants_stream || outgoing.queued_bytes() > 0;
        if is_wanted && matches!(outgoing.phase, Phase::Idle) {
            self.dial(place);
        }
    }

    /// A node has answered at a hinted address while it has another proven one. It is asked again
    /// until the claim is decided.
    pub(super) fn note_echo(&mut self, node: NodeId, from: SocketAddr) {
        let now = self.chassis.now;
        if let Some(open) = self.proofs.open.get_mut(&node)
            && open.addr == from
            && !open.is_echoed
        {
            open.is_echoed = true;
            open.next_at = now + CLAIM_EVERY;
            open.until = now + CLAIM_WITHIN;
        }
    }
}
