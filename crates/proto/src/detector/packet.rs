//! The detector's datagrams. Integers are big-endian.
//!
//! - Gossip: tag 0, source, its refutations (2 bytes), destination, message tag (1), probe number
//!   (1, if any), third party (if any), count (2, not in all), claims.
//! - Ping: tag 1, the incarnation that is asked (8), nonce (8).
//! - Pong: tag 2, the incarnation that answers (8), nonce (8).
//!
//! An identity is node (8), incarnation (8) and generation (1 to 5: seven bits a byte, lowest
//! first, the top bit says that more follow). A claim is an identity, how often it had refuted (2),
//! and its state (1).

use bytes::{Buf, BufMut, Bytes, BytesMut};
use foca::{Codec, Header, Message, State};

use super::identity::Identity;
use crate::core::{DecodeError, Member, NodeId};

const GOSSIP: u8 = 0;
const PING: u8 = 1;
const PONG: u8 = 2;

/// The shortest identity, encoded.
const IDENTITY_BYTES_MIN: usize = 8 + RUN_BYTES_MIN;
/// The same without its node.
const RUN_BYTES_MIN: usize = 8 + 1;
/// The shortest claim, encoded.
const CLAIM_BYTES_MIN: usize = IDENTITY_BYTES_MIN + 3;

/// A claim about a member's state.
pub(super) type Claim = foca::Member<Identity>;

/// A datagram of the detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// A message of the SWIM protocol, with what its sender claims of others.
    Gossip { header: Header<Identity>, claims: Vec<Claim> },
    /// A direct question: is this incarnation alive?
    Ping { incarnation: u64, nonce: u64 },
    /// The answer of this incarnation.
    Pong { incarnation: u64, nonce: u64 },
}

/// The nodes between which a datagram goes. Records name them, so the datagram does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub from: NodeId,
    pub to: NodeId,
}

/// Who reads a header.
#[derive(Clone, Copy)]
enum Reader {
    /// Another node: both ends are without their nodes.
    Peer,
    /// Foca.
    Foca,
}

impl Packet {
    /// Reads exactly one datagram.
    pub fn decode(bytes: &[u8], ends: Ends) -> Result<Packet, DecodeError> {
        let mut rest = bytes;
        let tag = bytes.first().copied();
        let packet = match tag.ok_or(DecodeError::Truncated { need: 1, have: 0 })? {
            GOSSIP => {
                let header = take_header(&mut rest, Some(ends))?;
                Packet::Gossip { claims: take_claims(&header, &mut rest)?, header }
            }
            tag @ (PING | PONG) => {
                need(&rest, 17)?;
                rest.advance(1);
                let (incarnation, nonce) = (rest.get_u64(), rest.get_u64());
                match tag {
                    PING => Packet::Ping { incarnation, nonce },
                    _ => Packet::Pong { incarnation, nonce },
                }
            }
            tag => return Err(DecodeError::UnknownTag(tag)),
        };
        if rest.is_empty() { Ok(packet) } else { Err(DecodeError::Trailing(rest.len())) }
    }

    /// Reads what foca wrote.
    pub fn of_foca(bytes: &[u8]) -> Result<Packet, DecodeError> {
        let mut rest = bytes;
        let header = take_header(&mut rest, None)?;
        Ok(Packet::Gossip { claims: take_claims(&header, &mut rest)?, header })
    }

    /// The datagram.
    pub fn encode(&self) -> Bytes {
        self.encode_for(Reader::Peer)
    }

    /// What foca reads.
    pub fn encode_for_foca(&self) -> Bytes {
        self.encode_for(Reader::Foca)
    }

    fn encode_for(&self, reader: Reader) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Packet::Gossip { header, claims } => {
                put_header(header, reader, &mut out);
                if carries_claims(&header.message) {
                    out.put_u16(u16::try_from(claims.len()).expect("as many as came in"));
                    for claim in claims {
                        put_claim(claim, &mut out);
                    }
                }
            }
            Packet::Ping { incarnation, nonce } | Packet::Pong { incarnation, nonce } => {
                out.put_u8(if matches!(self, Packet::Ping { .. }) { PING } else { PONG });
                out.put_u64(*incarnation);
                out.put_u64(*nonce);
            }
        }
        out.freeze()
    }
}

/// Foca's codec: what it encodes is a whole datagram of ours, its tag included, but that it names
/// both ends.
pub(super) struct GossipCodec;

impl Codec<Identity> for GossipCodec {
    type Error = DecodeError;

    fn encode_header(
        &mut self,
        header: &Header<Identity>,
        mut out: impl BufMut,
    ) -> Result<(), DecodeError> {
        room(&out, header_bytes(header))?;
        put_header(header, Reader::Foca, &mut out);
        Ok(())
    }

    fn decode_header(&mut self, mut bytes: impl Buf) -> Result<Header<Identity>, DecodeError> {
        take_header(&mut bytes, None)
    }

    fn encode_member(&mut self, claim: &Claim, mut out: impl BufMut) -> Result<(), DecodeError> {
        room(&out, identity_bytes(*claim.id()) + 3)?;
        put_claim(claim, &mut out);
        Ok(())
    }

    fn decode_member(&mut self, mut bytes: impl Buf) -> Result<Claim, DecodeError> {
        take_claim(&mut bytes)
    }
}

/// Whether claims follow a header with this message. Foca reads none after an announcement, and
/// writes none after a courtesy to the dead.
fn carries_claims(message: &Message<Identity>) -> bool {
    !matches!(message, Message::Announce | Message::TurnUndead | Message::Broadcast)
}

/// The length of a header.
fn header_bytes(header: &Header<Identity>) -> usize {
    let fields = match header.message {
        Message::Ping(_) | Message::Ack(_) => 1,
        Message::PingReq { target: third, .. }
        | Message::IndirectPing { origin: third, .. }
        | Message::IndirectAck { target: third, .. }
        | Message::ForwardedAck { origin: third, .. } => 1 + identity_bytes(third),
        _ => 0,
    };
    1 + identity_bytes(header.src) + 2 + identity_bytes(header.dst) + 1 + fields
}

fn put_header(header: &Header<Identity>, reader: Reader, out: &mut impl BufMut) {
    let put_end = |end, out: &mut _| match reader {
        Reader::Peer => put_run(end, out),
        Reader::Foca => put_identity(end, out),
    };
    out.put_u8(GOSSIP);
    put_end(header.src, out);
    out.put_u16(header.src_incarnation);
    put_end(header.dst, out);
    let (tag, number, third) = match header.message {
        Message::Ping(number) => (0, Some(number), None),
        Message::Ack(number) => (1, Some(number), None),
        Message::PingReq { target, probe_number } => (2, Some(probe_number), Some(target)),
        Message::IndirectPing { origin, probe_number } => (3, Some(probe_number), Some(origin)),
        Message::IndirectAck { target, probe_number } => (4, Some(probe_number), Some(target)),
        Message::ForwardedAck { origin, probe_number } => (5, Some(probe_number), Some(origin)),
        Message::Announce => (6, None, None),
        Message::Feed => (7, None, None),
        Message::Gossip => (8, None, None),
        Message::Broadcast => (9, None, None),
        Message::TurnUndead => (10, None, None),
    };
    out.put_u8(tag);
    if let Some(number) = number {
        out.put_u8(number);
    }
    if let Some(third) = third {
        put_identity(third, out);
    }
}

/// Reads a header, which names its ends unless they are given.
fn take_header(bytes: &mut impl Buf, ends: Option<Ends>) -> Result<Header<Identity>, DecodeError> {
    need(bytes, 1)?;
    let tag = bytes.get_u8();
    if tag != GOSSIP {
        return Err(DecodeError::UnknownTag(tag));
    }
    let take_end = |node: Option<NodeId>, bytes: &mut _| match node {
        Some(node) => take_run(node, bytes),
        None => take_identity(bytes),
    };
    let src = take_end(ends.map(|ends| ends.from), bytes)?;
    need(bytes, 2)?;
    let src_incarnation = bytes.get_u16();
    let dst = take_end(ends.map(|ends| ends.to), bytes)?;
    let message = take_message(bytes)?;
    Ok(Header { src, src_incarnation, dst, message })
}

fn take_message(bytes: &mut impl Buf) -> Result<Message<Identity>, DecodeError> {
    need(bytes, 1)?;
    let tag = bytes.get_u8();
    if (0..=5).contains(&tag) {
        need(bytes, 1)?;
        let probe_number = bytes.get_u8();
        return Ok(match tag {
            0 => Message::Ping(probe_number),
            1 => Message::Ack(probe_number),
            2 => Message::PingReq { target: take_identity(bytes)?, probe_number },
            3 => Message::IndirectPing { origin: take_identity(bytes)?, probe_number },
            4 => Message::IndirectAck { target: take_identity(bytes)?, probe_number },
            _ => Message::ForwardedAck { origin: take_identity(bytes)?, probe_number },
        });
    }
    match tag {
        6 => Ok(Message::Announce),
        7 => Ok(Message::Feed),
        8 => Ok(Message::Gossip),
        // Tag 9 is foca's message for application data, which this protocol does not use.
        10 => Ok(Message::TurnUndead),
        tag => Err(DecodeError::UnknownTag(tag)),
    }
}

fn take_claims(header: &Header<Identity>, bytes: &mut &[u8]) -> Result<Vec<Claim>, DecodeError> {
    if !carries_claims(&header.message) {
        return Ok(Vec::new());
    }
    need(bytes, 2)?;
    let count = usize::from(bytes.get_u16());
    // Before anything is allocated for them.
    need(bytes, count * CLAIM_BYTES_MIN)?;
    (0..count).map(|_| take_claim(bytes)).collect()
}

fn put_claim(claim: &Claim, out: &mut impl BufMut) {
    put_identity(*claim.id(), out);
    out.put_u16(claim.incarnation());
    out.put_u8(match claim.state() {
        State::Alive => 0,
        State::Suspect => 1,
        State::Down => 2,
    });
}

fn take_claim(bytes: &mut impl Buf) -> Result<Claim, DecodeError> {
    let identity = take_identity(bytes)?;
    need(bytes, 3)?;
    let refutations = bytes.get_u16();
    let state = match bytes.get_u8() {
        0 => State::Alive,
        1 => State::Suspect,
        2 => State::Down,
        other => {
            return Err(DecodeError::OutOfRange { field: "state", value: u64::from(other) });
        }
    };
    Ok(Claim::new(identity, refutations, state))
}

fn identity_bytes(identity: Identity) -> usize {
    let bits = u32::BITS - identity.generation.leading_zeros();
    16 + bits.div_ceil(7).max(1) as usize
}

fn put_identity(identity: Identity, out: &mut impl BufMut) {
    out.put_u64(identity.member.node.0);
    put_run(identity, out);
}

/// An identity without its node.
fn put_run(identity: Identity, out: &mut impl BufMut) {
    out.put_u64(identity.member.incarnation);
    let mut generation = identity.generation;
    while generation > 0x7f {
        out.put_u8(generation as u8 | 0x80);
        generation >>= 7;
    }
    out.put_u8(generation as u8);
}

fn take_identity(bytes: &mut impl Buf) -> Result<Identity, DecodeError> {
    need(bytes, IDENTITY_BYTES_MIN)?;
    let node = NodeId(bytes.get_u64());
    take_run(node, bytes)
}

fn take_run(node: NodeId, bytes: &mut impl Buf) -> Result<Identity, DecodeError> {
    need(bytes, RUN_BYTES_MIN)?;
    let member = Member { node, incarnation: bytes.get_u64() };
    let mut generation = 0u64;
    for shift in [0, 7, 14, 21, 28] {
        need(bytes, 1)?;
        let byte = bytes.get_u8();
        generation |= u64::from(byte & 0x7f) << shift;
        // A zero that adds nothing would be a second form of the same number.
        if byte & 0x80 == 0 && (byte != 0 || shift == 0) {
            break;
        }
        if byte & 0x80 == 0 || shift == 28 {
            generation = u64::MAX;
            break;
        }
    }
    let refused = DecodeError::OutOfRange { field: "generation", value: generation };
    Ok(Identity { member, generation: u32::try_from(generation).map_err(|_| refused)? })
}

fn need(bytes: &impl Buf, need: usize) -> Result<(), DecodeError> {
    let have = bytes.remaining();
    if have < need { Err(DecodeError::Truncated { need, have }) } else { Ok(()) }
}

/// Foca asks for what does not fit and takes the error as the end of the packet.
fn room(out: &impl BufMut, need: usize) -> Result<(), DecodeError> {
    let have = out.remaining_mut();
    if have < need { Err(DecodeError::Truncated { need, have }) } else { Ok(()) }
}
