use std::marker::PhantomData;

use bytes::{BufMut, Bytes};

use super::{KoordeWalk, Leg};
use crate::core::Rng;
use crate::core::field::Field;
use crate::core::{DecodeError, Payload};

/// What a message carries of its way so far.
///
/// Nothing in the bytes says which form it has: all walks of an overlay have the form of its
/// [`Algorithm`](super::Algorithm), and are read as such.
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
    #[inline]
    pub(super) fn wire_len(&self) -> usize {
        match self {
            Walk::None => 0,
            Walk::Leg(leg) => Leg::bytes(leg),
            Walk::Koorde(walk) => KoordeWalk::bytes(walk),
        }
    }
}

/// The wire form of messages with walks, for an algorithm whose walks have the form `W`.
pub(crate) struct By<W>(PhantomData<W>);

/// The form of the walks of an algorithm.
pub(crate) trait Walks: Sized {
    fn take(bytes: &mut Bytes) -> Result<Walk, DecodeError>;

    fn any(rng: &mut Rng) -> Walk;
}

/// Fewest bytes: those of the algorithms without walks.
impl<W: Walks> Field<Walk> for By<W> {
    const BYTES_MIN: usize = 0;

    #[inline]
    fn bytes(walk: &Walk) -> usize {
        walk.wire_len()
    }

    #[inline]
    fn put<'a>(walk: &'a Walk, head: &mut impl BufMut) -> Option<&'a Payload> {
        match walk {
            Walk::None => None,
            Walk::Leg(leg) => Leg::put(leg, head),
            Walk::Koorde(walk) => KoordeWalk::put(walk, head),
        }
    }

    #[inline]
    fn take(bytes: &mut Bytes, _: &'static str) -> Result<Walk, DecodeError> {
        W::take(bytes)
    }

    fn any(rng: &mut Rng) -> Walk {
        W::any(rng)
    }

    fn layout(_: &str) -> String {
        "walk 0 to 9".to_owned()
    }
}

impl Walks for () {
    #[inline]
    fn take(_: &mut Bytes) -> Result<Walk, DecodeError> {
        Ok(Walk::None)
    }

    fn any(_: &mut Rng) -> Walk {
        Walk::None
    }
}

impl Walks for Leg {
    #[inline]
    fn take(bytes: &mut Bytes) -> Result<Walk, DecodeError> {
        <Leg as Field>::take(bytes, "walk").map(Walk::Leg)
    }

    fn any(rng: &mut Rng) -> Walk {
        Walk::Leg(<Leg as Field>::any(rng))
    }
}

impl Walks for KoordeWalk {
    #[inline]
    fn take(bytes: &mut Bytes) -> Result<Walk, DecodeError> {
        <KoordeWalk as Field>::take(bytes, "walk").map(Walk::Koorde)
    }

    fn any(rng: &mut Rng) -> Walk {
        Walk::Koorde(<KoordeWalk as Field>::any(rng))
    }
}
