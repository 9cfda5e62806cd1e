//! A stream that a peer dialled to this node: it is read and cut into records, and only a Hello is
//! written to it.

use std::io;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use paceline_proto::core::Instant;
use paceline_seal::ReceiveLane;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::record::{HEADER_BYTES, LENGTH_BYTES, Refusal};
use crate::stats::Traffic;
use crate::streams::gather::Gather;
use crate::streams::pool::{ReadBuffer, ReadPool};
use crate::sys;
use crate::tally::TallyPart;

/// The sender on an accepted stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// No Hello has come yet.
    Unknown,
    /// This peer has said Hello, and no sealed record has come yet: the Hello may be a repeat.
    Opening {
        /// Its place in the peer table.
        peer: usize,
        /// The tag that all its records must carry.
        session: u32,
    },
    /// This peer, in the session with this tag.
    Peer {
        /// Its place in the peer table.
        peer: usize,
        /// The tag that all its records must carry.
        session: u32,
    },
}

impl Speaker {
    /// The peer that has said Hello: its place, and the tag of its session.
    pub(crate) fn peer(self) -> Option<(usize, u32)> {
        match self {
            Speaker::Unknown => None,
            Speaker::Opening { peer, session } | Speaker::Peer { peer, session } => {
                Some((peer, session))
            }
        }
    }

    /// True until the peer has proven who it is.
    pub(crate) fn is_half_open(self) -> bool {
        match self {
            Speaker::Unknown | Speaker::Opening { .. } => true,
            Speaker::Peer { .. } => false,
        }
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Bytes read.
    Bytes(usize),
    /// None; the kernel will signal.
    Blocked,
    /// The peer closed the stream, or it broke.
    Closed,
    /// The connection is one of TLS: it carries a handshake, and no records.
    Handshake,
}

/// An incomplete record: the next one of the stream with this number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unfinished {
    /// Streams accepted before its stream.
    pub(crate) number: u64,
    /// Records of the stream before it.
    pub(crate) sequence: u64,
    /// Its time is over, except for a last turn of reading.
    pub(crate) is_last_call: bool,
}

/// The reason for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadCause {
    /// A signal of the kernel, if there was one.
    Signal,
    /// The time for which a busy stream may gather is over.
    Deadline,
}

/// An accepted stream.
pub(crate) struct Incoming {
    pub(crate) stream: TcpStream,
    pub(crate) speaker: Speaker,
    /// Opens the records of a sealed stream.
    pub(crate) lane: Option<Box<ReceiveLane>>,
    /// Streams accepted before this one: tells it from others in the same slot.
    pub(crate) number: u64,
    /// Records read so far: the sequence number that the next one must have.
    pub(crate) sequence: u64,
    /// A deadline watches over the incomplete record.
    pub(crate) is_watched: bool,
    buffer: Option<ReadBuffer>,
    // The size of the buffer while it waits for the rest of a record.
    held: TallyPart,
    // When the incomplete record was begun, and its number.
    begun: Option<(Instant, u64)>,
    gather: Gather,
    waker: Waker,
}

impl Incoming {
    /// A stream on which nothing was read.
    pub(crate) fn new(
        stream: TcpStream,
        number: u64,
        gather: Gather,
        held: TallyPart,
        waker: Waker,
    ) -> Incoming {
        Incoming {
            stream,
            speaker: Speaker::Unknown,
            lane: None,
            number,
            sequence: 0,
            is_watched: false,
            buffer: None,
            held,
            begun: None,
            gather,
            waker,
        }
    }

    /// Notes the bytes read in a turn, and adapts the mark at which the kernel signals.
    pub(crate) fn note_read(&mut self, bytes: usize, cause: ReadCause, now: Instant) {
        let mark = match cause {
            ReadCause::Signal if bytes == 0 => None,
            ReadCause::Signal => self.gather.note_read(bytes, now),
            ReadCause::Deadline => {
                self.gather.give_up(now);
                Some(1)
            }
        };
        if let Some(mark) = mark {
            // If it fails the mark stays, and the deadline still reads the stream.
            let _ = sys::set_readable_bytes(&self.stream, mark);
        }
    }

    /// When the stream must be read without a signal; [`Instant::MAX`] if not at all.
    pub(crate) fn gathers_until(&self) -> Instant {
        self.gather.until()
    }

    /// Reads once.
    pub(crate) fn fill(
        &mut self,
        cause: ReadCause,
        pool: &mut ReadPool,
        traffic: &mut Traffic,
    ) -> Filled {
        let mut cx = Context::from_waker(&self.waker);
        let mut received = 0;
        while received == 0 {
            match self.stream.poll_read_ready(&mut cx) {
                Poll::Pending if cause == ReadCause::Deadline => {
                    return self.fill_unsignalled(pool, traffic);
                }
                Poll::Pending => return Filled::Blocked,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Filled::Closed,
            }
            let buffer = &mut self.buffer.get_or_insert_with(|| pool.take()).bytes;
            let spare = buffer.capacity() - buffer.len();
            let result = self.stream.try_io(Interest::READABLE, || {
                received = sys::receive_into(&self.stream, buffer)?;
                // A short read emptied the socket: later data, or the end, signals again.
                if received > 0 && received < spare {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            traffic.stream_reads += 1;
            match result {
                Ok(()) if received == 0 => return Filled::Closed,
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Filled::Closed,
            }
        }
        traffic.stream_bytes_in += received as u64;
        Filled::Bytes(received)
    }

    fn fill_unsignalled(&mut self, pool: &mut ReadPool, traffic: &mut Traffic) -> Filled {
        let buffer = &mut self.buffer.get_or_insert_with(|| pool.take()).bytes;
        traffic.stream_reads += 1;
        match sys::receive_into(&self.stream, buffer) {
            Ok(0) => Filled::Closed,
            Ok(received) => {
                traffic.stream_bytes_in += received as u64;
                Filled::Bytes(received)
            }
            // An error signals as well, and the next read returns it.
            Err(_) => Filled::Blocked,
        }
    }

    /// Splits the next whole record off what was read, without its length.
    ///
    /// # Errors
    /// If the announced length is impossible.
    pub(crate) fn next_record(
        &mut self,
        record_bytes_max: usize,
    ) -> Result<Option<BytesMut>, Refusal> {
        let Some(buffer) = &mut self.buffer else {
            return Ok(None);
        };
        let Some(length) = announced(&buffer.bytes) else {
            return Ok(None);
        };
        if length < HEADER_BYTES {
            return Err(Refusal::Malformed);
        }
        if length > record_bytes_max {
            return Err(Refusal::Oversized);
        }
        if buffer.bytes.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        let mut record = buffer.bytes.split_to(LENGTH_BYTES + length);
        record.advance(LENGTH_BYTES);
        Ok(Some(record))
    }

    /// The first byte of what was read and not split off.
    pub(crate) fn first_byte(&self) -> Option<u8> {
        self.buffer.as_ref()?.bytes.first().copied()
    }

    /// The connection, and what was read from it and not split off.
    pub(crate) fn into_connection(self) -> (TcpStream, Bytes) {
        let read = self.buffer.map(|buffer| Bytes::copy_from_slice(&buffer.bytes));
        (self.stream, read.unwrap_or_default())
    }

    /// True if part of a record is left, once all whole ones are split off.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| !buffer.bytes.is_empty())
    }

    /// Notes when the incomplete record was begun, if there is one.
    pub(crate) fn note_unfinished(&mut self, now: Instant) {
        let since = match self.begun {
            Some((since, number)) if number == self.sequence => since,
            _ => now,
        };
        self.begun = self.has_unfinished().then_some((since, self.sequence));
    }

    /// When the incomplete record was begun.
    pub(crate) fn begun_at(&self) -> Option<Instant> {
        self.begun.map(|(at, _)| at)
    }

    /// After all whole records are split off: makes room for the rest of a begun one, or gives
    /// the buffer back.
    pub(crate) fn settle(&mut self, pool: &mut ReadPool) {
        let Some(mut buffer) = self.buffer.take() else {
            return;
        };
        let unread = buffer.bytes.len();
        if unread == 0 {
            self.held.set(0);
            return pool.put(buffer);
        }
        let whole = LENGTH_BYTES + announced(&buffer.bytes).unwrap_or(HEADER_BYTES);
        pool.make_room(&mut buffer, whole.saturating_sub(unread));
        self.held.set(buffer.bytes.capacity());
        self.buffer = Some(buffer);
    }
}

fn announced(unread: &[u8]) -> Option<usize> {
    let length = unread.first_chunk::<LENGTH_BYTES>()?;
    Some(u32::from_be_bytes(*length) as usize)
}
