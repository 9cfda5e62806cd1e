use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::Topology;
use crate::core::{DecodeError, Payload, ViewId, Wire, take_u8, take_u16, take_u32, take_u64};

/// One block of one origin on one hop.
///
/// ```text
///  0 tag 1 = 0     1 view 8        9 origin rank 4   13 incarnation 8   21 seq 8
/// 29 index 2      31 count 2      33 topology 1      34 checksum 4
/// 38 stable lag 4 42 link seq 8   50 hops left 4     54 payload ...
/// ```
///
/// The checksum (CRC-32) covers bytes 1 to 33 and the payload: what stays the same on every hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The view it was sent in.
    pub view: ViewId,
    /// The origin's rank in that view.
    pub origin: u32,
    /// The origin's incarnation.
    pub incarnation: u64,
    /// The block's number at its origin: 0, 1, 2, ...
    pub seq: u64,
    /// The block's place in its message.
    pub index: u16,
    /// Blocks of the message, at least 1.
    pub count: u16,
    /// How the message spreads.
    pub topology: Topology,
    /// Computed by the origin, checked by every receiver.
    pub checksum: u32,
    /// Blocks before this one of the origin that are with every member: `seq` minus this lag.
    pub stable_lag: u32,
    /// The frame's number on this hop.
    pub link: u64,
    /// Times the block may still be forwarded. An origin in a view of N sets at most N - 2; a
    /// receiver takes up to N - 1.
    pub hops_left: u32,
    /// The block's bytes.
    pub payload: Payload,
}

impl Frame {
    /// Bytes of a frame before its payload.
    pub const HEAD_BYTES: usize = 54;

    /// The checksum that the fields and payload should have.
    pub fn computed_checksum(&self) -> u32 {
        let mut head = [0u8; 33];
        let mut fields = &mut head[..];
        self.encode_fixed(&mut fields);
        self.payload.checksum_after(&head)
    }

    fn encode_fixed(&self, head: &mut impl BufMut) {
        head.put_u64(self.view.0);
        head.put_u32(self.origin);
        head.put_u64(self.incarnation);
        head.put_u64(self.seq);
        head.put_u16(self.index);
        head.put_u16(self.count);
        head.put_u8(self.topology.code());
    }

    pub(crate) fn encode(&self, head: &mut BytesMut) {
        self.encode_fixed(head);
        head.put_u32(self.checksum);
        head.put_u32(self.stable_lag);
        head.put_u64(self.link);
        head.put_u32(self.hops_left);
    }

    pub(crate) fn decode(bytes: &mut Bytes) -> Result<Frame, DecodeError> {
        let mut frame = Frame {
            view: ViewId(take_u64(bytes)?),
            origin: take_u32(bytes)?,
            incarnation: take_u64(bytes)?,
            seq: take_u64(bytes)?,
            index: take_u16(bytes)?,
            count: take_u16(bytes)?,
            topology: {
                let code = take_u8(bytes)?;
                let value = u64::from(code);
                Topology::from_code(code)
                    .ok_or(DecodeError::OutOfRange { field: "topology", value })?
            },
            checksum: take_u32(bytes)?,
            stable_lag: take_u32(bytes)?,
            link: take_u64(bytes)?,
            hops_left: take_u32(bytes)?,
            payload: Payload::Zeros(0),
        };
        if frame.index >= frame.count {
            return Err(DecodeError::OutOfRange { field: "index", value: frame.index.into() });
        }
        if frame.seq > u64::MAX / 2 || frame.seq < u64::from(frame.index) {
            return Err(DecodeError::OutOfRange { field: "seq", value: frame.seq });
        }
        frame.payload = Payload::Bytes(std::mem::take(bytes));
        if frame.computed_checksum() != frame.checksum {
            return Err(DecodeError::Checksum);
        }
        Ok(frame)
    }
}

/// What members of a group send to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A block. On the stream lane, as are [`Message::Skip`] and [`Message::Resync`], which keep
    /// their place among blocks; everything else travels as a datagram, off the data's credits.
    Data(Frame),
    /// To an origin: how far its blocks have come here.
    Ack {
        /// The view.
        view: ViewId,
        /// The origin's incarnation.
        incarnation: u64,
        /// All blocks below this number are here.
        received: u64,
        /// The credit: all blocks below this number were consumed or moved to assembly.
        consumed: u64,
    },
    /// From an origin at rest: every block below this number is with every member.
    Stable {
        /// The view.
        view: ViewId,
        /// The origin's incarnation.
        incarnation: u64,
        /// The number.
        stable: u64,
    },
    /// To the sender of a hop: all frames below this link number have come.
    LinkAck {
        /// The view.
        view: ViewId,
        /// The number.
        next: u64,
    },
    /// From the sender of a hop that was broken: where shall I go on?
    Resync {
        /// The view.
        view: ViewId,
        /// The link number of its next new frame.
        next: u64,
    },
    /// The answer: at this link number.
    Resume {
        /// The view.
        view: ViewId,
        /// The number.
        next: u64,
    },
    /// From an origin whose window is closed: how far are its blocks? Answered by [`Message::Ack`].
    Probe {
        /// The view.
        view: ViewId,
        /// The origin's incarnation.
        incarnation: u64,
    },
    /// In place of a frame that need not be sent again, since every member has its block.
    Skip {
        /// The view.
        view: ViewId,
        /// The link number it had.
        link: u64,
    },
    /// To an origin: what was delivered here of its blocks in earlier views and is not consumed.
    Owed {
        /// The present view.
        view: ViewId,
        /// The origin's incarnation.
        incarnation: u64,
        /// Blocks.
        blocks: u64,
        /// Bytes.
        bytes: u64,
    },
}

impl Message {
    /// The view it belongs to.
    pub fn view(&self) -> ViewId {
        match self {
            Message::Data(frame) => frame.view,
            Message::Ack { view, .. }
            | Message::Stable { view, .. }
            | Message::LinkAck { view, .. }
            | Message::Resync { view, .. }
            | Message::Resume { view, .. }
            | Message::Probe { view, .. }
            | Message::Skip { view, .. }
            | Message::Owed { view, .. } => *view,
        }
    }

    /// True if it keeps its place among blocks.
    pub fn is_on_stream(&self) -> bool {
        matches!(self, Message::Data(_) | Message::Skip { .. } | Message::Resync { .. })
    }

    /// True if it is not repeated at once, so that a member that has not begun the view yet had
    /// better keep it.
    pub fn waits_for_view(&self) -> bool {
        self.is_on_stream() || matches!(self, Message::Owed { .. })
    }
}

/// A line for a trace: what it is, and its numbers.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Data(frame) => {
                let Frame { view, origin, seq, index, count, topology, link, hops_left, .. } =
                    frame;
                let (part, bytes) = (index + 1, frame.payload.len());
                write!(
                    f,
                    "data {view} origin {origin} seq {seq} ({part}/{count}) {topology} link {link} "
                )?;
                write!(f, "hops {hops_left} stable -{} {bytes} B", frame.stable_lag)
            }
            Message::Ack { view, received, consumed, .. } => {
                write!(f, "ack {view} received {received} consumed {consumed}")
            }
            Message::Stable { view, stable, .. } => write!(f, "stable {view} {stable}"),
            Message::LinkAck { view, next } => write!(f, "link-ack {view} next {next}"),
            Message::Resync { view, next } => write!(f, "resync {view} next {next}"),
            Message::Resume { view, next } => write!(f, "resume {view} next {next}"),
            Message::Skip { view, link } => write!(f, "skip {view} link {link}"),
            Message::Probe { view, .. } => write!(f, "probe {view}"),
            Message::Owed { view, blocks, bytes, .. } => {
                write!(f, "owed {view} {blocks} blocks {bytes} B")
            }
        }
    }
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        match self {
            Message::Data(frame) => Frame::HEAD_BYTES + frame.payload.len(),
            Message::Ack { .. } | Message::Owed { .. } => 33,
            Message::Stable { .. } => 25,
            Message::LinkAck { .. }
            | Message::Resync { .. }
            | Message::Resume { .. }
            | Message::Skip { .. }
            | Message::Probe { .. } => 17,
        }
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        let mut put = |tag: u8, words: &[u64]| {
            head.put_u8(tag);
            words.iter().for_each(|&word| head.put_u64(word));
        };
        match self {
            Message::Data(frame) => {
                put(0, &[]);
                frame.encode(head);
                return Some(&frame.payload);
            }
            Message::Ack { view, incarnation, received, consumed } => {
                put(1, &[view.0, *incarnation, *received, *consumed]);
            }
            Message::Stable { view, incarnation, stable } => {
                put(2, &[view.0, *incarnation, *stable])
            }
            Message::LinkAck { view, next } => put(3, &[view.0, *next]),
            Message::Resync { view, next } => put(4, &[view.0, *next]),
            Message::Resume { view, next } => put(5, &[view.0, *next]),
            Message::Skip { view, link } => put(6, &[view.0, *link]),
            Message::Probe { view, incarnation } => put(7, &[view.0, *incarnation]),
            Message::Owed { view, incarnation, blocks, bytes } => {
                put(8, &[view.0, *incarnation, *blocks, *bytes]);
            }
        }
        None
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        let tag = take_u8(bytes)?;
        if tag == 0 {
            return Ok(Message::Data(Frame::decode(bytes)?));
        }
        if tag > 8 {
            return Err(DecodeError::UnknownTag(tag));
        }
        let view = ViewId(take_u64(bytes)?);
        let first = take_u64(bytes)?;
        Ok(match tag {
            1 => Message::Ack {
                view,
                incarnation: first,
                received: take_u64(bytes)?,
                consumed: take_u64(bytes)?,
            },
            2 => Message::Stable { view, incarnation: first, stable: take_u64(bytes)? },
            3 => Message::LinkAck { view, next: first },
            4 => Message::Resync { view, next: first },
            5 => Message::Resume { view, next: first },
            6 => Message::Skip { view, link: first },
            7 => Message::Probe { view, incarnation: first },
            _ => Message::Owed {
                view,
                incarnation: first,
                blocks: take_u64(bytes)?,
                bytes: take_u64(bytes)?,
            },
        })
    }
}
