//! A session with a peer: the keys under which the two hosts seal what they send each other.
//!
//! A node with an identity sends and accepts messages sealed only. A sealed record is
//!
//! ```text
//! 0  header (32), authenticated     32  body, encrypted     tag (16)
//! ```
//!
//! Its header carries the tag of the session of the two hosts, its epoch is the generation of the
//! key, and its sequence number counts the records of the lane: of all datagrams from one host to
//! the other, or of one stream. Hello, Who and Taken by datagram stay plain: they prove addresses,
//! and decide nothing between hosts that have a session.
//!
//! A session begins with a handshake over TCP ([`handshakes`](crate::handshakes)). A stream that
//! carries records opens with two Hellos, whose bodies are a nonce (16) and the proof of the
//! session (16) over header and nonces. The key of the stream depends on both nonces.

use std::fmt;

use paceline_proto::core::{Instant, NodeId};
use paceline_seal::{
    Agreed, OpenError, Order, PROOF_BYTES, PairSecret, ReceiveLane, STREAM_NONCE_BYTES, SendLane,
    Suite, TAG_BYTES, Unavailable,
};

use crate::record::{HEADER_BYTES, Header, Kind, Refusal};

/// Length of the body of a Hello that opens a sealed stream.
pub(crate) const OPENING_BYTES: usize = STREAM_NONCE_BYTES + PROOF_BYTES;

/// A nonce of one side of a stream.
pub(crate) type StreamNonce = [u8; STREAM_NONCE_BYTES];

/// The host that dialled a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialler {
    /// This one.
    Own,
    /// The peer.
    Peer,
}

/// A session with one peer.
pub(crate) struct PairSession {
    /// What headers carry.
    pub(crate) tag: u32,
    /// Who dialled the handshake.
    pub(crate) dialler: Dialler,
    /// When the handshake ended, or another session took the place of this one.
    pub(crate) since: Instant,
    own: NodeId,
    peer: NodeId,
    suite: Suite,
    secret: PairSecret,
    sending: SendLane,
    receiving: ReceiveLane,
}

impl PairSession {
    /// The session of node `own` with the peer of a handshake.
    ///
    /// # Errors
    /// If this processor cannot run the suite of the cluster.
    pub(crate) fn new(
        (own, dialler): (NodeId, Dialler),
        suite: Suite,
        agreed: &Agreed,
        since: Instant,
    ) -> Result<PairSession, Unavailable> {
        let peer = NodeId(agreed.peer.id.get());
        let secret = agreed.secret.clone();
        let sending = SendLane::new(suite, secret.datagrams(own.0, peer.0))?;
        let receiving = ReceiveLane::new(suite, secret.datagrams(peer.0, own.0), Order::Any)?;
        let [a, b, c, d, ..] = agreed.name;
        let tag = u32::from_be_bytes([a, b, c, d]);
        Ok(PairSession { tag, dialler, since, own, peer, suite, secret, sending, receiving })
    }

    /// Seals a datagram for the peer: a record, then room for the tag.
    pub(crate) fn seal(&mut self, record: &mut [u8]) {
        seal(&mut self.sending, record);
    }

    /// Opens the rest of a datagram of the peer, whose header was split off, in place; what is left
    /// of `rest` is the body.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn open<'a>(
        &mut self,
        header: &Header,
        rest: &'a mut [u8],
    ) -> Result<&'a mut [u8], Refusal> {
        open(&mut self.receiving, header, rest)
    }

    /// The body of a Hello with this header for the peer: it opens a stream, or answers the peer's
    /// Hello of nonce `answered`.
    pub(crate) fn opening(
        &self,
        header: &Header,
        nonce: &StreamNonce,
        answered: Option<&StreamNonce>,
    ) -> [u8; OPENING_BYTES] {
        let header = header.encode();
        let proof = self.secret.proof(self.own.0, self.peer.0, &parts(&header, nonce, answered));
        let mut body = [0; OPENING_BYTES];
        body[..STREAM_NONCE_BYTES].copy_from_slice(nonce);
        body[STREAM_NONCE_BYTES..].copy_from_slice(&proof);
        body
    }

    /// The nonce in the body of such a Hello, if it is the peer's.
    pub(crate) fn opened(
        &self,
        header: &Header,
        body: &[u8],
        answered: Option<&StreamNonce>,
    ) -> Option<StreamNonce> {
        let (nonce, proof) = body.split_first_chunk::<STREAM_NONCE_BYTES>()?;
        let header = header.encode();
        let parts = parts(&header, nonce, answered);
        self.secret.admits(self.peer.0, self.own.0, &parts, proof).then_some(*nonce)
    }

    /// The lane of a stream that this node has dialled.
    pub(crate) fn sending(&self, dialler: &StreamNonce, acceptor: &StreamNonce) -> SendLane {
        let key = self.secret.stream(self.own.0, self.peer.0, dialler, acceptor);
        SendLane::new(self.suite, key).expect("the session has the same suite")
    }

    /// The lane of a stream that the peer has dialled.
    pub(crate) fn receiving(&self, dialler: &StreamNonce, acceptor: &StreamNonce) -> ReceiveLane {
        let key = self.secret.stream(self.peer.0, self.own.0, dialler, acceptor);
        ReceiveLane::new(self.suite, key, Order::InTurn).expect("the session has the same suite")
    }

    /// True once another handshake is due.
    pub(crate) fn is_worn(&self) -> bool {
        self.receiving.is_worn()
    }
}

impl fmt::Debug for PairSession {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PairSession({:08x} with {})", self.tag, self.peer)
    }
}

/// What the proof in a Hello is a hash of.
fn parts<'a>(
    header: &'a [u8],
    nonce: &'a StreamNonce,
    answered: Option<&'a StreamNonce>,
) -> [&'a [u8]; 3] {
    [header, nonce, answered.map_or(&[], |answered| answered)]
}

/// Seals the next record of a lane in place: header, body, room for the tag.
pub(crate) fn seal(lane: &mut SendLane, record: &mut [u8]) {
    Header::write_number(record, lane.number());
    let (header, rest) = record.split_at_mut(HEADER_BYTES);
    let (body, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
    tag.copy_from_slice(&lane.seal(header, body));
}

/// Opens a record of a lane in place: the body, then the tag. Returns the body.
pub(crate) fn open<'a>(
    lane: &mut ReceiveLane,
    header: &Header,
    rest: &'a mut [u8],
) -> Result<&'a mut [u8], Refusal> {
    let (body, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or(Refusal::Malformed)?;
    lane.open(header.number(), &header.encode(), body, tag).map_err(|error| match error {
        OpenError::Generation => Refusal::ForeignEpoch,
        OpenError::Replayed => Refusal::Replayed,
        OpenError::Forged => Refusal::Forged,
    })?;
    Ok(body)
}

/// True if records of this kind are plain between nodes that seal.
pub(crate) fn is_plain(kind: Kind) -> bool {
    match kind {
        Kind::Hello | Kind::Who | Kind::Taken => true,
        Kind::Message | Kind::Group | Kind::Bundle | Kind::Service => false,
    }
}
