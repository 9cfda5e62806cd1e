//! The state of a pending Interest that has several next hops.

use smallvec::{Array, SmallVec};

use super::face_id::NextHop;
use super::strategy::Tried;
use crate::core::Instant;
use crate::ndn::{Class, InterestExtra};

/// The state of a pending Interest that several next hops could answer.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) tried: Tried,
    pub(super) kept: Option<Kept>,
}

/// The parts of an Interest that its entry does not have.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) extra: Option<Box<InterestExtra>>,
    pub(super) hop_limit: Option<u8>,
    pub(super) class: Class,
    pub(super) round_trip_micros: Option<u32>,
}

impl Choice {
    /// Bytes of memory it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let extra = self.kept.as_ref().and_then(|kept| kept.extra.as_deref());
        let extra = extra.map_or(0, |extra| size_of::<InterestExtra>() + extra.encoded_len());
        size_of::<Choice>() + spilled_bytes(&self.tried) + extra
    }

    pub(super) fn note(&mut self, now: Instant, hops: impl IntoIterator<Item = NextHop>) {
        for hop in hops {
            match self.tried.iter_mut().find(|(tried, _)| *tried == hop) {
                Some((_, at)) => *at = now,
                None => self.tried.push((hop, now)),
            }
        }
    }
}

/// Bytes of memory that a list has taken beside its own place.
pub(super) fn spilled_bytes<A: Array>(list: &SmallVec<A>) -> usize {
    if list.spilled() { list.capacity() * size_of::<A::Item>() } else { 0 }
}
