//! Counts unanswered Interests, so that a flood of Interests for missing content does not take a
//! link.
//!
//! An Interest that is refused at once leaves no entry in the PIT, but it takes its part of the
//! link all the same: forwarders count its Data as demand, stamp lower rates for others, and let it
//! out before Interests that wait. So a face deprioritizes a neighbour if more of its Interests
//! remain unanswered there than are answered. Its Interests then wait behind all others, take what
//! these leave, and count as no demand. None is refused for that: the neighbour may be a forwarder
//! with honest consumers among others. Such a forwarder deprioritizes the flooding consumer itself.
//! After the pushback of Afanasyev et al., *Interest flooding attack and countermeasures in named
//! data networking*, IFIP Networking 2013, which refuses by shares.

use std::collections::BTreeMap;

use super::face_id::FaceId;
use crate::core::Instant;

/// How many more of a neighbour's Interests may remain unanswered at a face than are answered.
/// Random losses of a link must not lower priority.
const DEPRIORITIZED_FROM: f64 = 32.0;
/// The count stops here: this many answers, or [less time](FORGOTTEN_PER_SECOND), restore the
/// priority of any neighbour.
const COUNT_MAX: f64 = 64.0;
/// Unanswered Interests that are forgotten each second.
const FORGOTTEN_PER_SECOND: f64 = 4.0;

#[derive(Clone, Copy, Debug)]
struct Count {
    count: f64,
    at: Instant,
}

impl Count {
    fn pass(&mut self, now: Instant) {
        let forgotten = now.since(self.at).as_secs_f64() * FORGOTTEN_PER_SECOND;
        (self.count, self.at) = ((self.count - forgotten).max(0.0), now);
    }
}

/// Unanswered Interests at one face, by the neighbour that sent them. A neighbour whose count is
/// zero has no entry.
#[derive(Debug, Default)]
pub(super) struct UnansweredInterests {
    counts: BTreeMap<FaceId, Count>,
}

impl UnansweredInterests {
    /// True if this neighbour's Interests mostly remain unanswered.
    pub(super) fn is_deprioritized(&self, now: Instant, asker: FaceId) -> bool {
        let Some(mut held) = self.counts.get(&asker).copied() else { return false };
        held.pass(now);
        held.count >= DEPRIORITIZED_FROM
    }

    /// An Interest was refused for good, or its Data is overdue.
    pub(super) fn count(&mut self, now: Instant, asker: FaceId) {
        let held = self.counts.entry(asker).or_insert(Count { count: 0.0, at: now });
        held.pass(now);
        held.count = (held.count + 1.0).min(COUNT_MAX);
    }

    /// The Data for an Interest has come.
    pub(super) fn answer(&mut self, now: Instant, asker: FaceId) {
        let Some(held) = self.counts.get_mut(&asker) else { return };
        held.pass(now);
        held.count -= 1.0;
        if held.count <= 0.0 {
            self.counts.remove(&asker);
        }
    }

    /// Forgets a neighbour that is gone.
    pub(super) fn forget(&mut self, asker: FaceId) {
        self.counts.remove(&asker);
    }

    /// Bytes of memory it holds.
    pub(super) fn memory_bytes(&self) -> usize {
        self.counts.len() * size_of::<(FaceId, Count)>()
    }

    /// True if some neighbour is deprioritized, or was when its last Interest came.
    pub(super) fn any_deprioritized(&self) -> bool {
        self.counts.values().any(|held| held.count >= DEPRIORITIZED_FROM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: FaceId = FaceId::first(1);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_neighbour_with_as_many_answers_as_timeouts_keeps_its_priority() {
        let mut held = UnansweredInterests::default();
        for _ in 0..10_000 {
            held.count(at(0), ASKER);
            assert!(!held.is_deprioritized(at(0), ASKER));
            held.answer(at(0), ASKER);
        }
        assert!(held.counts.is_empty());
    }

    #[test]
    fn a_neighbour_without_answers_loses_its_priority_until_answers_or_time_restore_it() {
        let flooded = || {
            let mut held = UnansweredInterests::default();
            (0..31).for_each(|_| held.count(at(0), ASKER));
            assert!(!held.is_deprioritized(at(0), ASKER));
            (0..1_000).for_each(|_| held.count(at(0), ASKER));
            assert!(held.is_deprioritized(at(0), ASKER));
            assert!(!held.is_deprioritized(at(0), FaceId::first(2)));
            assert!(held.any_deprioritized());
            held
        };
        let mut held = flooded();
        (0..32).for_each(|_| held.answer(at(0), ASKER));
        assert!(held.is_deprioritized(at(0), ASKER));
        held.answer(at(0), ASKER);
        assert!(!held.is_deprioritized(at(0), ASKER));
        let held = flooded();
        assert!(
            held.is_deprioritized(at(7_900), ASKER) && !held.is_deprioritized(at(8_100), ASKER)
        );
        let mut held = flooded();
        held.forget(ASKER);
        assert!(!held.is_deprioritized(at(0), ASKER) && !held.any_deprioritized());
    }
}
