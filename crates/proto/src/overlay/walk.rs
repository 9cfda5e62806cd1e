use bytes::{Bytes, BytesMut};

use super::{Algorithm, KoordeWalk, Leg};
use crate::core::{DecodeError, Wire};

/// What a message carries of its way so far.
///
/// Nothing in the bytes says which form it has: all walks of an overlay have the form of its
/// [`Algorithm`], and are read as such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walk {
    /// Nothing, in no bytes: Tapestry and Kademlia.
    #[default]
    None,
    /// Chord and Pastry. One byte.
    Leg(Leg),
    /// Koorde. One to nine bytes.
    Koorde(KoordeWalk),
}

impl Walk {
    /// The leg; the first one if this is the walk of another algorithm.
    pub(super) fn leg(self) -> Leg {
        if let Walk::Leg(leg) = self { leg } else { Leg::default() }
    }

    /// The walk by Koorde; its start if this is the walk of another algorithm.
    pub(super) fn koorde(self) -> KoordeWalk {
        if let Walk::Koorde(walk) = self { walk } else { KoordeWalk::default() }
    }

    /// The exact encoded length in bytes.
    pub(super) fn wire_len(&self) -> usize {
        match self {
            Walk::None => 0,
            Walk::Leg(leg) => leg.wire_len(),
            Walk::Koorde(walk) => walk.wire_len(),
        }
    }

    pub(super) fn encode(&self, head: &mut BytesMut) {
        match self {
            Walk::None => {}
            Walk::Leg(leg) => _ = leg.encode(head),
            Walk::Koorde(walk) => _ = walk.encode(head),
        }
    }

    /// Reads a walk in the form of an algorithm.
    pub(super) fn decode(algorithm: Algorithm, bytes: &mut Bytes) -> Result<Walk, DecodeError> {
        Ok(match algorithm.first_walk() {
            Walk::None => Walk::None,
            Walk::Leg(_) => Walk::Leg(Leg::decode(bytes)?),
            Walk::Koorde(_) => Walk::Koorde(KoordeWalk::decode(bytes)?),
        })
    }
}
