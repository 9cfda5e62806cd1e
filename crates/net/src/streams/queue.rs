//! The write queue of a stream: heads packed together, payloads shared.
//!
//! Records wait as they are. On a sealed stream the next ones are copied and sealed when they are
//! written, since the keys of the stream are not known before it stands.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use paceline_proto::core::Payload;
use paceline_proto::host::Encode;
use paceline_seal::{SendLane, TAG_BYTES};

use crate::record::{HEADER_BYTES, Header, LENGTH_BYTES};
use crate::session;

/// Payloads below this are copied next to their head: cheaper than a slice of their own.
const COPY_BELOW_BYTES: usize = 1 << 10;
/// Heads are packed into pieces of this size.
const ARENA_BYTES: usize = 16 << 10;
/// Sealed bytes that wait for a write, but for the rest of a record.
const SEALED_BYTES: usize = 64 << 10;
/// Segments for which an empty queue keeps room, so that a burst to a peer does not hold memory for
/// good.
const SEGMENTS_KEPT: usize = 256;
/// Most slices one write hands to the kernel.
const SLICES_MAX: usize = 128;
/// Most bytes one write hands to the kernel.
const WRITE_BYTES_MAX: usize = 256 << 10;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Encoded records in order, ready for vectored writes.
#[derive(Default)]
pub(crate) struct WriteQueue {
    segments: VecDeque<Bytes>,
    // Follows the last segment. Its bytes are split off when a payload or a write needs them.
    arena: BytesMut,
    queued_bytes: usize,
    cover: Cover,
    // Sealed and not yet written: before the first segment.
    sealed: BytesMut,
}

/// Whether the records of a stream are sealed.
#[derive(Default)]
pub(crate) enum Cover {
    /// They are not.
    #[default]
    Plain,
    /// They will be: each takes the bytes of a tag more.
    Awaited,
    /// They are, by this lane of the session with this tag.
    Sealed(Box<SendLane>, u32),
}

impl Cover {
    /// By how much it makes a record longer.
    fn bytes(&self) -> usize {
        match self {
            Cover::Plain => 0,
            Cover::Awaited | Cover::Sealed(..) => TAG_BYTES,
        }
    }
}

impl WriteQueue {
    /// An empty queue of a stream that is not connected.
    pub(crate) fn new(cover: Cover) -> WriteQueue {
        WriteQueue { cover, ..WriteQueue::default() }
    }

    /// Seals what is written from now on.
    pub(crate) fn seal_with(&mut self, lane: SendLane, session: u32) {
        self.cover = Cover::Sealed(Box::new(lane), session);
    }

    /// The length on a stream of the record that carries this message.
    pub(crate) fn record_bytes(message: &dyn Encode) -> usize {
        LENGTH_BYTES + HEADER_BYTES + message.wire_len()
    }

    /// Appends a message as one record.
    pub(crate) fn push(&mut self, header: &Header, message: &dyn Encode) {
        let body_bytes = message.wire_len();
        let before = self.queued_bytes;
        self.push_head(header, body_bytes);
        let head_from = self.arena.len();
        if let Some(payload) = message.encode(&mut self.arena) {
            self.queued_bytes += self.arena.len() - head_from;
            self.push_payload(payload);
        } else {
            self.queued_bytes += self.arena.len() - head_from;
        }
        debug_assert_eq!(
            self.queued_bytes - before,
            LENGTH_BYTES + HEADER_BYTES + body_bytes + self.cover.bytes(),
            "`wire_len` is exact"
        );
    }

    /// Fills `slices` with the next bytes to write, at most `bytes_max`; returns the number of
    /// slices and their bytes.
    pub(crate) fn next_write<'a>(
        &'a mut self,
        slices: &mut [IoSlice<'a>; SLICES_MAX],
        bytes_max: usize,
    ) -> (usize, usize) {
        self.close_arena();
        let bytes_max = bytes_max.min(WRITE_BYTES_MAX);
        if !matches!(self.cover, Cover::Plain) {
            self.seal_next();
            let piece = &self.sealed[..self.sealed.len().min(bytes_max)];
            slices[0] = IoSlice::new(piece);
            return (1, piece.len());
        }
        let (mut count, mut bytes) = (0, 0);
        for (slice, segment) in slices.iter_mut().zip(&self.segments) {
            if bytes >= bytes_max {
                break;
            }
            let piece = &segment[..segment.len().min(bytes_max - bytes)];
            *slice = IoSlice::new(piece);
            count += 1;
            bytes += piece.len();
        }
        (count, bytes)
    }

    /// Room for the slices of one write.
    pub(crate) fn slices<'a>() -> [IoSlice<'a>; SLICES_MAX] {
        [IoSlice::new(&[]); SLICES_MAX]
    }

    /// Drops the first `written` bytes.
    pub(crate) fn advance(&mut self, mut written: usize) {
        self.queued_bytes -= written;
        if !matches!(self.cover, Cover::Plain) {
            self.sealed.advance(written);
            if self.queued_bytes == 0 && self.sealed.capacity() > ARENA_BYTES {
                self.sealed = BytesMut::new();
            }
            return;
        }
        while written > 0 {
            let first = self.segments.front_mut().expect("written bytes were queued");
            if first.len() > written {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.segments.pop_front();
        }
        if self.segments.is_empty() && self.segments.capacity() > SEGMENTS_KEPT {
            self.segments = VecDeque::new();
        }
    }

    /// Drops everything, and the room that it took: the connection is gone.
    pub(crate) fn clear(&mut self) {
        let cover = match self.cover {
            Cover::Plain => Cover::Plain,
            Cover::Awaited | Cover::Sealed(..) => Cover::Awaited,
        };
        *self = WriteQueue::new(cover);
    }

    /// Segments for which there is room.
    #[cfg(test)]
    fn room(&self) -> usize {
        self.segments.capacity()
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.queued_bytes
    }

    /// True if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued_bytes == 0
    }

    fn push_head(&mut self, header: &Header, body_bytes: usize) {
        if self.arena.capacity() - self.arena.len() < 2 * COPY_BELOW_BYTES {
            self.close_arena();
            self.arena.reserve(ARENA_BYTES);
        }
        self.arena.put_u32((HEADER_BYTES + body_bytes) as u32);
        self.arena.put_slice(&header.encode());
        self.queued_bytes += LENGTH_BYTES + HEADER_BYTES + self.cover.bytes();
    }

    fn push_payload(&mut self, payload: &Payload) {
        self.queued_bytes += payload.len();
        if payload.len() < COPY_BELOW_BYTES {
            payload.for_each_chunk(|chunk| self.arena.extend_from_slice(chunk));
            return;
        }
        self.close_arena();
        match payload {
            Payload::Bytes(bytes) => self.segments.push_back(bytes.clone()),
            Payload::Zeros(len) => {
                let mut left = *len as usize;
                while left > 0 {
                    let piece = left.min(ZEROS.len());
                    self.segments.push_back(Bytes::from_static(&ZEROS[..piece]));
                    left -= piece;
                }
            }
        }
    }

    fn close_arena(&mut self) {
        if !self.arena.is_empty() {
            self.segments.push_back(self.arena.split().freeze());
        }
    }

    /// Seals the next records, if no sealed bytes are left and the lane is there.
    fn seal_next(&mut self) {
        let Cover::Sealed(lane, tag) = &mut self.cover else { return };
        if !self.sealed.is_empty() {
            return;
        }
        self.sealed.clear();
        while self.sealed.len() < SEALED_BYTES
            && let Some(head) = self.segments.front()
        {
            // A record begins with a segment or within one, and its head is in one piece.
            let length = head.first_chunk().expect("a length is in one piece");
            let mut left = LENGTH_BYTES + u32::from_be_bytes(*length) as usize;
            let from = self.sealed.len();
            self.sealed.reserve(left + TAG_BYTES);
            while left > 0 {
                let segment = self.segments.front_mut().expect("the record is whole");
                let piece = segment.split_to(segment.len().min(left));
                left -= piece.len();
                self.sealed.extend_from_slice(&piece);
                if segment.is_empty() {
                    self.segments.pop_front();
                }
            }
            self.sealed.put_bytes(0, TAG_BYTES);
            let (length, record) = self.sealed[from..].split_at_mut(LENGTH_BYTES);
            length.copy_from_slice(&(record.len() as u32).to_be_bytes());
            Header::write_session_tag(record, *tag);
            session::seal(lane, record);
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_proto::core::{DecodeError, NodeId, Wire};

    use super::*;
    use crate::record::{ClusterTag, Kind, ServiceNumber};

    struct Numbered(u8, Payload);

    impl Wire for Numbered {
        fn wire_len(&self) -> usize {
            1 + self.1.len()
        }
        fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
            head.put_u8(self.0);
            Some(&self.1)
        }
        fn decode(_: &mut Bytes) -> Result<Self, DecodeError> {
            unreachable!("nothing is decoded here")
        }
    }

    const HEADER: Header = Header {
        kind: Kind::Message,
        epoch: 0,
        service: ServiceNumber(5),
        cluster: ClusterTag(1),
        sender: NodeId(2),
        session: 3,
        sequence: 4,
    };

    fn drained(queue: &mut WriteQueue, write_bytes_max: usize) -> Vec<u8> {
        let (mut written, mut is_short) = (Vec::new(), 0);
        while !queue.is_empty() {
            let mut slices = WriteQueue::slices();
            let (count, bytes) = queue.next_write(&mut slices, write_bytes_max);
            assert!(bytes <= write_bytes_max);
            let joined: Vec<u8> = slices[..count].iter().flat_map(|s| s.to_vec()).collect();
            // Every other write is cut short by the kernel.
            let taken = joined.len() - is_short * (joined.len() / 3);
            is_short = 1 - is_short;
            written.extend_from_slice(&joined[..taken]);
            queue.advance(taken);
        }
        written
    }

    #[test]
    fn a_queue_that_was_long_keeps_no_room_once_it_is_empty() {
        let mut queue = WriteQueue::default();
        let fill = |queue: &mut WriteQueue| {
            (0..20_000).for_each(|_| queue.push(&HEADER, &Numbered(1, Payload::Zeros(2000))));
            assert!(queue.room() >= 20_000);
        };
        fill(&mut queue);
        drained(&mut queue, WRITE_BYTES_MAX);
        assert!(queue.room() <= SEGMENTS_KEPT, "written: {}", queue.room());
        fill(&mut queue);
        queue.clear();
        assert!(queue.room() == 0 && queue.is_empty(), "dropped: {}", queue.room());
    }

    #[test]
    fn the_bytes_are_the_same_however_they_are_cut() {
        let messages = [
            Numbered(1, Payload::from("small")),
            Numbered(2, Payload::from(vec![7; 5000])),
            Numbered(3, Payload::Zeros(200_000)),
            Numbered(4, Payload::Zeros(3)),
        ];
        let mut expected = Vec::new();
        for Numbered(number, payload) in &messages {
            expected.put_u32((HEADER_BYTES + 1 + payload.len()) as u32);
            expected.put_slice(&HEADER.encode());
            expected.put_u8(*number);
            expected.put_slice(&payload.to_bytes());
        }
        for write_bytes_max in [1000, 4096, usize::MAX] {
            let mut queue = WriteQueue::default();
            messages.iter().for_each(|message| queue.push(&HEADER, message));
            assert_eq!(queue.len(), expected.len());
            assert!(drained(&mut queue, write_bytes_max) == expected);
        }
    }

    #[test]
    fn a_large_payload_is_shared_not_copied() {
        let payload = Bytes::from(vec![9; 8000]);
        let mut queue = WriteQueue::default();
        queue.push(&HEADER, &Numbered(1, Payload::Bytes(payload.clone())));
        let mut slices = WriteQueue::slices();
        let (count, bytes) = queue.next_write(&mut slices, usize::MAX);
        assert_eq!((count, bytes), (2, LENGTH_BYTES + HEADER_BYTES + 1 + 8000));
        assert_eq!(slices[1].as_ptr(), payload.as_ptr());
    }
}
