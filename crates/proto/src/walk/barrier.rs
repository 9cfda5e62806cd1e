//! What servers that walk in supersteps tell each other beside walkers, and its form in bytes.

use bytes::{BufMut, Bytes, BytesMut};

use crate::core::{DecodeError, take_u8, take_u32, take_u64};

/// A message of the barrier between two supersteps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// To the coordinator: the sender has all walkers for the superstep after this one.
    Ready {
        /// The superstep that is complete at the sender; 0 before the first one.
        superstep: u32,
        /// Walks of the sender's own job that are not done.
        left: u64,
    },
    /// From the coordinator: all servers begin this superstep.
    Go {
        /// The superstep.
        superstep: u32,
    },
    /// To each other server: the sender has served its walkers. All that leave it for the receiver
    /// were sent before, on the same stream.
    Sent {
        /// The superstep.
        superstep: u32,
        /// How many walkers that were, without ended walks.
        walkers: u64,
    },
}

const READY: u8 = 0;
const GO: u8 = 1;
const SENT: u8 = 2;

impl Barrier {
    /// Its bytes.
    pub(super) fn wire_len(self) -> usize {
        1 + 4
            + match self {
                Barrier::Go { .. } => 0,
                Barrier::Ready { .. } | Barrier::Sent { .. } => 8,
            }
    }

    pub(super) fn encode(self, head: &mut BytesMut) {
        let (tag, superstep, count) = match self {
            Barrier::Ready { superstep, left } => (READY, superstep, Some(left)),
            Barrier::Go { superstep } => (GO, superstep, None),
            Barrier::Sent { superstep, walkers } => (SENT, superstep, Some(walkers)),
        };
        head.put_u8(tag);
        head.put_u32(superstep);
        if let Some(count) = count {
            head.put_u64(count);
        }
    }

    pub(super) fn decode(bytes: &mut Bytes) -> Result<Barrier, DecodeError> {
        let tag = take_u8(bytes)?;
        if tag > SENT {
            return Err(DecodeError::UnknownTag(tag));
        }
        let superstep = take_u32(bytes)?;
        Ok(match tag {
            READY => Barrier::Ready { superstep, left: take_u64(bytes)? },
            GO => Barrier::Go { superstep },
            _ => Barrier::Sent { superstep, walkers: take_u64(bytes)? },
        })
    }
}
