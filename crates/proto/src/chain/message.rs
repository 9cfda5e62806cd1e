use std::sync::Arc;

use bytes::{BufMut, Bytes};

use super::Topology;
use crate::core::field::{Field, List, fields, messages};
use crate::core::{DecodeError, Payload, Rng, ViewId};

/// The most messages in one block.
pub(super) const MESSAGES_MAX: usize = 1024;

/// What a message in a block with others takes of a window beside its bytes: members keep account
/// of each message until it is consumed.
const MESSAGE_BYTES: usize = 64;

/// The lengths of the messages of a block that has several of them; of one with a message or a part
/// of one, nothing.
///
/// A count (two bytes), then the lengths, two bytes each. The count is 0, or 2 to 1,024.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths(Option<Arc<[u16]>>);

impl Lengths {
    /// The lengths of 2 to 1,024 messages.
    pub fn of(lengths: Vec<u16>) -> Lengths {
        debug_assert!((2..=MESSAGES_MAX).contains(&lengths.len()), "{} messages", lengths.len());
        Lengths(Some(lengths.into()))
    }

    /// The lengths, in the order of the messages, if there are several.
    pub fn several(&self) -> Option<&[u16]> {
        self.0.as_deref()
    }

    /// Bytes beyond those of a block with one message.
    pub(super) fn bytes_more(&self) -> usize {
        2 * self.several().map_or(0, <[u16]>::len)
    }

    /// What a block with these messages takes of a window beside its payload.
    pub(super) fn window_bytes(&self) -> usize {
        self.several().map_or(0, <[u16]>::len) * MESSAGE_BYTES
    }

    fn sum(&self) -> Option<usize> {
        self.several().map(|lengths| lengths.iter().map(|&length| usize::from(length)).sum())
    }
}

/// What a message takes of the room of a block that it shares with others.
pub(super) fn shared_bytes(message_bytes: usize) -> usize {
    message_bytes + MESSAGE_BYTES
}

type Several = List<MESSAGES_MAX>;

impl Field for Lengths {
    const BYTES_MIN: usize = 2;

    #[inline]
    fn bytes(value: &Lengths) -> usize {
        Lengths::BYTES_MIN + value.bytes_more()
    }

    #[inline]
    fn put<'a>(value: &'a Lengths, head: &mut impl BufMut) -> Option<&'a Payload> {
        match &value.0 {
            None => head.put_u16(0),
            Some(lengths) => _ = <Several as Field<Arc<[u16]>>>::put(lengths, head),
        }
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<Lengths, DecodeError> {
        let lengths = <Several as Field<Vec<u16>>>::take(bytes, name)?;
        match lengths.len() {
            0 => Ok(Lengths::default()),
            1 => Err(DecodeError::OutOfRange { field: "count", value: 1 }),
            _ => Ok(Lengths(Some(lengths.into()))),
        }
    }

    fn any(rng: &mut Rng) -> Lengths {
        let count = [0, 0, 0, 2 + rng.below(3)][rng.below(4) as usize];
        let lengths: Vec<u16> = (0..count).map(|_| u16::any(rng)).collect();
        Lengths((count > 0).then(|| lengths.into()))
    }

    fn layout(name: &str) -> String {
        format!("count 2, {name} 2 each")
    }
}

fields! {
    /// One block of one origin on one hop.
    ///
    /// ```text
    ///  0 tag 1 = 0     1 view 8        9 origin rank 4   13 incarnation 8   21 seq 8
    /// 29 index 2      31 count 2      33 topology 1      34 checksum 4
    /// 38 stable lag 4 42 link seq 8   50 hops left 4     54 messages 2
    /// 56 length of each message 2 (if there are several)    payload ...
    /// ```
    ///
    /// The checksum (CRC-32) covers bytes 1 to 33, those from 54 on and the payload: what stays the
    /// same on every hop.
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
        pub checksum: u32 = Frame::computed_checksum,
        /// Blocks before this one of the origin that are with every member: `seq` minus this lag.
        pub stable_lag: u32,
        /// The frame's number on this hop.
        pub link: u64,
        /// Times the block may still be forwarded. An origin in a view of N sets at most N - 2; a
        /// receiver takes up to N - 1.
        pub hops_left: u32,
        /// Of a block with several whole messages, their lengths.
        pub lengths: Lengths,
        /// The block's bytes.
        pub payload: Payload,
    }
    where Frame::check_place
}

impl Frame {
    /// Bytes of a frame with one message or a part of one before its payload.
    pub const HEAD_BYTES: usize = 1 + Frame::BYTES_MIN;
    // Of the head without the tag: what a hop changes.
    const CHANGED: std::ops::Range<usize> = 33..53;

    /// The checksum that the fields and payload should have.
    pub fn computed_checksum(&self) -> u32 {
        if self.lengths.several().is_none() {
            // Without an allocation.
            let mut head = [0u8; Frame::BYTES_MIN];
            Frame::put(self, &mut &mut head[..]);
            head.copy_within(Frame::CHANGED.end.., Frame::CHANGED.start);
            let changed = Frame::CHANGED.len();
            return self.payload.checksum_after(&head[..Frame::BYTES_MIN - changed]);
        }
        let mut head = Vec::with_capacity(Frame::BYTES_MIN + self.lengths.bytes_more());
        Frame::put(self, &mut head);
        head.drain(Frame::CHANGED);
        self.payload.checksum_after(&head)
    }

    fn check_place(&self) -> Result<(), DecodeError> {
        if self.index >= self.count {
            return Err(DecodeError::OutOfRange { field: "index", value: self.index.into() });
        }
        if self.lengths.sum().is_some_and(|sum| self.count > 1 || sum != self.payload.len()) {
            let value = self.payload.len() as u64;
            return Err(DecodeError::OutOfRange { field: "lengths", value });
        }
        if self.seq > u64::MAX / 2 || self.seq < u64::from(self.index) {
            return Err(DecodeError::OutOfRange { field: "seq", value: self.seq });
        }
        Ok(())
    }
}

messages! {
    /// What members of a group send to each other.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// A block. On the stream lane, as are [`Message::Skip`] and [`Message::Resync`], which
        /// keep their place among blocks; everything else travels as a datagram, off the data's
        /// credits.
        0 => Data(frame: Frame) [
            "data {} origin {} seq {} ({}/{}) {} link {} hops {} stable -{} {} B",
            frame.view, frame.origin, frame.seq, frame.index + 1, frame.count, frame.topology,
            frame.link, frame.hops_left, frame.stable_lag, frame.payload.len()
        ],
        /// To an origin: acknowledges its blocks.
        1 => Ack {
            /// The view.
            view: ViewId,
            /// The origin's incarnation.
            incarnation: u64,
            /// All blocks below this number are here.
            received: u64,
            /// The credit: all blocks below this number were consumed or moved to assembly.
            consumed: u64,
        } ["ack {view} received {received} consumed {consumed}"],
        /// From an idle origin: every member has every block below this number.
        2 => Stable {
            /// The view.
            view: ViewId,
            /// The origin's incarnation.
            incarnation: u64,
            /// The number.
            stable: u64,
        } ["stable {view} {stable}"],
        /// To the sender of a hop: all frames below this link number have come.
        3 => LinkAck {
            /// The view.
            view: ViewId,
            /// The number.
            next: u64,
        } ["link-ack {view} next {next}"],
        /// From the sender of a hop that was broken: requests the link number at which to resume.
        4 => Resync {
            /// The view.
            view: ViewId,
            /// The link number of its next new frame.
            next: u64,
        } ["resync {view} next {next}"],
        /// The answer: at this link number.
        5 => Resume {
            /// The view.
            view: ViewId,
            /// The number.
            next: u64,
        } ["resume {view} next {next}"],
        /// In place of a frame that need not be sent again, since every member has its block.
        6 => Skip {
            /// The view.
            view: ViewId,
            /// The link number it had.
            link: u64,
        } ["skip {view} link {link}"],
        /// From an origin whose window is closed: requests an acknowledgement. Answered by
        /// [`Message::Ack`].
        7 => Probe {
            /// The view.
            view: ViewId,
            /// The origin's incarnation.
            incarnation: u64,
        } ["probe {view}"],
        /// To an origin: the amount of its blocks of earlier views that is delivered here and not
        /// consumed.
        8 => Unconsumed {
            /// The present view.
            view: ViewId,
            /// The origin's incarnation.
            incarnation: u64,
            /// Blocks.
            blocks: u64,
            /// Bytes.
            bytes: u64,
        } ["unconsumed {view} {blocks} blocks {bytes} B"],
    }
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
            | Message::Unconsumed { view, .. } => *view,
        }
    }

    /// True if it keeps its place among blocks.
    pub fn is_on_stream(&self) -> bool {
        matches!(self, Message::Data(_) | Message::Skip { .. } | Message::Resync { .. })
    }

    /// True if it is not repeated at once, so that a member that has not begun the view yet had
    /// better keep it.
    pub fn waits_for_view(&self) -> bool {
        self.is_on_stream() || matches!(self, Message::Unconsumed { .. })
    }
}
