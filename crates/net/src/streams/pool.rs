//! Read buffers, used again once no slice of them is left.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Spent buffers that are remembered; the rest is freed with its last slice.
const SPENT_MAX: usize = 32;
/// How many of the oldest spent buffers are looked at before a new one is made.
const LOOKS_MAX: usize = 4;

/// Gives out read buffers of one size.
///
/// A spent buffer is remembered by an empty slice at its start; when that slice is the last one
/// left, the whole buffer can be written again without an allocation or a page fault.
#[derive(Debug)]
pub(crate) struct ReadPool {
    buffer_bytes: usize,
    // Given back before it was full: the next reader continues in it.
    partial: Option<ReadBuffer>,
    spent: VecDeque<Bytes>,
}

/// A buffer being filled, and the slice that remembers it.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    /// Bytes received and not yet split off, then spare capacity.
    pub(crate) bytes: BytesMut,
    origin: Bytes,
}

impl ReadPool {
    /// A pool of buffers of `buffer_bytes`.
    pub(crate) fn new(buffer_bytes: usize) -> ReadPool {
        ReadPool { buffer_bytes, partial: None, spent: VecDeque::new() }
    }

    /// An empty buffer with spare capacity.
    pub(crate) fn take(&mut self) -> ReadBuffer {
        match self.partial.take() {
            Some(buffer) => buffer,
            None => self.fresh(0),
        }
    }

    /// Takes back a buffer without unread bytes.
    pub(crate) fn put(&mut self, buffer: ReadBuffer) {
        let spare = buffer.bytes.capacity() - buffer.bytes.len();
        if self.partial.is_none() && spare >= self.buffer_bytes / 4 {
            self.partial = Some(buffer);
        } else {
            self.retire(buffer.origin);
        }
    }

    /// Makes sure that `need` more bytes fit behind the unread ones, and that a read is worth its
    /// system call. Copies the unread bytes, less than one record, if it takes another buffer.
    pub(crate) fn make_room(&mut self, buffer: &mut ReadBuffer, need: usize) {
        let spare = buffer.bytes.capacity() - buffer.bytes.len();
        if spare >= need.max(self.buffer_bytes / 8) {
            return;
        }
        let mut fresh = self.fresh(buffer.bytes.len() + need);
        fresh.bytes.extend_from_slice(&buffer.bytes);
        let spent = std::mem::replace(buffer, fresh);
        drop(spent.bytes);
        self.retire(spent.origin);
    }

    fn fresh(&mut self, bytes: usize) -> ReadBuffer {
        if bytes <= self.buffer_bytes {
            for _ in 0..LOOKS_MAX.min(self.spent.len()) {
                let Some(oldest) = self.spent.pop_front() else {
                    break;
                };
                match oldest.try_into_mut() {
                    Ok(buffer) if buffer.capacity() >= self.buffer_bytes => {
                        return ReadBuffer::new(buffer);
                    }
                    Ok(_) => {}
                    Err(held) => self.spent.push_back(held),
                }
            }
        }
        ReadBuffer::new(BytesMut::with_capacity(bytes.max(self.buffer_bytes)))
    }

    fn retire(&mut self, origin: Bytes) {
        self.spent.push_back(origin);
        if self.spent.len() > SPENT_MAX {
            self.spent.pop_front();
        }
    }
}

impl ReadBuffer {
    fn new(mut bytes: BytesMut) -> ReadBuffer {
        bytes.clear();
        let origin = bytes.split_to(0).freeze();
        ReadBuffer { bytes, origin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_buffer_returns_once_its_last_slice_is_gone() {
        let mut pool = ReadPool::new(4096);
        let mut buffer = pool.take();
        let start = buffer.bytes.as_ptr();
        buffer.bytes.extend_from_slice(&[1; 4000]);
        let slice = buffer.bytes.split_to(3990).freeze();
        pool.make_room(&mut buffer, 100);
        assert_eq!(&buffer.bytes[..], [1; 10]);
        assert_ne!(buffer.bytes.as_ptr(), start);

        let other = pool.take();
        assert_ne!(other.bytes.as_ptr(), start, "a slice of it is still held");
        drop(slice);
        let again = pool.take();
        assert_eq!(again.bytes.as_ptr(), start);
        assert!(again.bytes.capacity() >= 4096);
    }

    #[test]
    fn a_record_longer_than_a_buffer_gets_room() {
        let mut pool = ReadPool::new(4096);
        let mut buffer = pool.take();
        buffer.bytes.extend_from_slice(&[2; 50]);
        pool.make_room(&mut buffer, 100_000);
        assert_eq!(buffer.bytes.len(), 50);
        assert!(buffer.bytes.capacity() >= 100_050);
    }
}
