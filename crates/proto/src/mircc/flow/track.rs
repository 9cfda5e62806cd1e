//! Interests that left one after another by one path, and which of them later ones overtook.

use std::collections::VecDeque;
use std::time::Duration;

use super::{NO_PATH, PATHS_MAX};
use crate::core::Instant;
use crate::ndn::Class;

/// An Interest is taken for lost once one that left this many later on the same track is answered.
/// Source: RFC 9002, section 6.1.1, kPacketThreshold.
const OVERTAKEN_BY: u64 = 3;

/// Names a track: Interests of one class by one path are answered in the order in which they left,
/// but for losses and reordering. Secondary Interests wait behind primary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrackId {
    /// The path, or `NO_PATH` without a label.
    pub(super) path: u8,
    pub(super) class: Class,
    /// True of Interests that discover paths: each goes another way, so they have no order.
    pub(super) discovers: bool,
}

impl TrackId {
    /// Where the track is kept; none if its Interests have no order.
    pub(super) fn index(self) -> Option<usize> {
        let path = if self.path == NO_PATH { 0 } else { usize::from(self.path) + 1 };
        (!self.discovers).then_some(path * 2 + usize::from(self.class == Class::Secondary))
    }

    /// The track that is kept there.
    pub(super) fn of_index(index: usize) -> TrackId {
        let path = (index / 2).checked_sub(1).filter(|&path| path < PATHS_MAX);
        TrackId {
            path: path.map_or(NO_PATH, |path| path as u8),
            class: if index.is_multiple_of(2) { Class::Primary } else { Class::Secondary },
            discovers: false,
        }
    }
}

/// How long an Interest that others overtook is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reordering {
    /// From its departure on, if enough others did.
    pub(super) resend_after_min: Duration,
    /// From its departure on, however few did. Source: RFC 9002, section 6.1.2.
    pub(super) overdue_after: Duration,
}

/// An Interest that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) segment: u64,
    pub(super) serial: u64,
    pub(super) at: Instant,
}

/// The Interests of a track in the order in which they left. An Interest that was answered, or
/// whose segment was asked for again, leaves a stale entry behind.
#[derive(Debug, Default)]
pub(super) struct Track {
    sent: VecDeque<Sent>,
    next: u64,
    // The latest that was answered.
    answered: Option<u64>,
}

impl Track {
    /// An Interest leaves. Returns its number.
    pub(super) fn send(&mut self, segment: u64, at: Instant) -> u64 {
        let serial = self.next;
        self.next += 1;
        self.sent.push_back(Sent { segment, serial, at });
        serial
    }

    /// An Interest was answered.
    pub(super) fn note_answered(&mut self, serial: u64) {
        self.answered = self.answered.max(Some(serial));
    }

    /// The first that was not dropped.
    pub(super) fn first(&self) -> Option<Sent> {
        self.sent.front().copied()
    }

    /// The first is under way no longer.
    pub(super) fn drop_first(&mut self) {
        self.sent.pop_front();
    }

    /// When an Interest counts as lost; `None` if no later one was answered.
    pub(super) fn lost_at(&self, sent: Sent, reordering: Reordering) -> Option<Instant> {
        let later = self.answered?.checked_sub(sent.serial).filter(|&later| later > 0)?;
        let overdue_after = reordering.overdue_after.max(reordering.resend_after_min);
        let after = if later >= OVERTAKEN_BY { reordering.resend_after_min } else { overdue_after };
        Some(sent.at + after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_track_has_its_own_place() {
        let mut places = Vec::new();
        for path in (0..PATHS_MAX as u8).chain([NO_PATH]) {
            for class in [Class::Primary, Class::Secondary] {
                let track = TrackId { path, class, discovers: false };
                let place = track.index().expect("it has an order");
                assert_eq!(TrackId::of_index(place), track);
                places.push(place);
                assert_eq!(TrackId { discovers: true, ..track }.index(), None);
            }
        }
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 2 * (PATHS_MAX + 1));
    }

    #[test]
    fn three_later_ones_are_a_loss_and_fewer_only_after_some_time() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let [resend_after_min, overdue_after] = [15, 40].map(Duration::from_millis);
        let reordering = Reordering { resend_after_min, overdue_after };
        let mut track = Track::default();
        (0..5).for_each(|number| {
            track.send(100 + number, at(number));
        });
        let first = track.first().expect("it left");
        let lost_at = |track: &Track| track.lost_at(first, reordering);
        assert_eq!(lost_at(&track), None);
        track.note_answered(0);
        assert_eq!(lost_at(&track), None);
        track.note_answered(2);
        assert_eq!(lost_at(&track), Some(at(40)));
        track.note_answered(3);
        track.note_answered(1);
        assert_eq!(lost_at(&track), Some(at(15)));
        track.drop_first();
        assert_eq!(track.first().map(|sent| sent.segment), Some(101));
    }
}
