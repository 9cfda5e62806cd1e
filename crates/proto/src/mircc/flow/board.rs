//! The state of an object's segments: not yet asked for, under way, or received.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::track::{Reordering, Sent, Track, TrackId};
use crate::core::Instant;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    /// Asked for at this time, for the `tries`-th time, as number `serial` of this track.
    Out { at: Instant, tries: u8, track: TrackId, serial: u64 },
    /// Must be asked for again.
    Lost { tries: u8 },
    /// Here.
    Done,
}

/// A segment that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// The time since it was asked for, if that was once only.
    pub(super) round_trip: Option<Duration>,
    /// The last Interest for it, and the time since that left; none if it was taken for lost.
    pub(super) answers: Option<(Answered, Duration)>,
}

/// An Interest that was answered: its number on its track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) track: TrackId,
    serial: u64,
}

/// Interests that are taken for lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    pub(super) count: usize,
    /// When the last of them left.
    pub(super) last_at: Option<Instant>,
}

/// The segments of one object.
#[derive(Debug)]
pub(super) struct Board {
    // All below are here.
    base: u64,
    segments: VecDeque<Segment>,
    // One past the last; none while that is not known.
    end: Option<u64>,
    window_max: usize,
    lost: BTreeSet<u64>,
    // In the order of the Interests. A segment that was asked for again, or that is here, leaves a
    // stale entry behind.
    asked: VecDeque<(u64, Instant)>,
    // By `TrackId::index`.
    tracks: Vec<Track>,
    out: usize,
    // Those that the application has already.
    had: Vec<Range<u64>>,
}

impl Board {
    /// No segment was asked for. `had` are here already; sorted, without overlaps.
    pub(super) fn new(end: Option<u64>, window_max: usize, had: Vec<Range<u64>>) -> Board {
        let mut board = Board {
            base: 0,
            segments: VecDeque::new(),
            end,
            window_max,
            lost: BTreeSet::new(),
            asked: VecDeque::new(),
            tracks: Vec::new(),
            out: 0,
            had,
        };
        board.skip_had();
        board
    }

    /// The next segment to ask for, lost ones first; `None` at the end or at the window's limit.
    pub(super) fn next(&mut self) -> Option<u64> {
        if let Some(&first) = self.lost.first() {
            return Some(first);
        }
        self.skip_had();
        let next = self.base + self.segments.len() as u64;
        let is_there = self.end.is_none_or(|end| next < end);
        (is_there && self.segments.len() < self.window_max).then_some(next)
    }

    /// Notes the Interest for the segment that [`Board::next`] returned. Returns the number of its
    /// tries.
    pub(super) fn ask(&mut self, segment: u64, now: Instant, track: TrackId) -> u8 {
        let place = (segment - self.base) as usize;
        let serial = self.track_mut(track).map_or(0, |track| track.send(segment, now));
        let mut tries = 1;
        if place == self.segments.len() {
            self.segments.push_back(Segment::Out { at: now, tries, track, serial });
        } else {
            if let Segment::Lost { tries: before } = self.segments[place] {
                tries = before.saturating_add(1);
            }
            self.segments[place] = Segment::Out { at: now, tries, track, serial };
        }
        self.lost.remove(&segment);
        self.asked.push_back((segment, now));
        self.out += 1;
        tries
    }

    /// A segment has arrived; none if it was here, or was never asked for.
    pub(super) fn done(&mut self, segment: u64, now: Instant) -> Option<Arrived> {
        let place = usize::try_from(segment.checked_sub(self.base)?).ok()?;
        let held = self.segments.get_mut(place)?;
        let arrived = match *held {
            Segment::Done => return None,
            Segment::Out { at, tries, track, serial } => {
                self.out -= 1;
                let since = now.since(at);
                let round_trip = (tries == 1).then_some(since);
                Arrived { round_trip, answers: Some((Answered { track, serial }, since)) }
            }
            Segment::Lost { .. } => {
                self.lost.remove(&segment);
                Arrived { round_trip: None, answers: None }
            }
        };
        *held = Segment::Done;
        while self.segments.front() == Some(&Segment::Done) {
            self.segments.pop_front();
            self.base += 1;
        }
        Some(arrived)
    }

    /// A segment that was asked for will not come. Returns the path that it was asked for by; none
    /// if it is not under way.
    pub(super) fn mark_lost(&mut self, segment: u64) -> Option<u8> {
        let place = usize::try_from(segment.checked_sub(self.base)?).ok()?;
        let held = self.segments.get_mut(place)?;
        let Segment::Out { tries, track, .. } = *held else { return None };
        *held = Segment::Lost { tries };
        self.out -= 1;
        self.lost.insert(segment);
        Some(track.path)
    }

    /// Takes for lost the Interest that left last of those under way. False if none is.
    pub(super) fn lose_newest(&mut self) -> bool {
        while let Some((segment, at)) = self.asked.pop_back() {
            if self.is_out(segment, at) {
                return self.mark_lost(segment).is_some();
            }
        }
        false
    }

    /// An Interest was answered, and so those that left before it on its track were overtaken.
    pub(super) fn note_answered(&mut self, answered: Answered) {
        if let Some(track) = self.track_mut(answered.track) {
            track.note_answered(answered.serial);
        }
    }

    /// Takes for lost the Interests of a track that others overtook.
    pub(super) fn lose_overtaken(
        &mut self,
        now: Instant,
        track: TrackId,
        reordering: Reordering,
    ) -> Losses {
        let mut losses = Losses::default();
        let Some(index) = track.index() else { return losses };
        while let Some(first) = self.first_of(index) {
            if self.tracks[index].lost_at(first, reordering).is_none_or(|at| at > now) {
                break;
            }
            self.mark_lost(first.segment);
            losses.count += 1;
            losses.last_at = losses.last_at.max(Some(first.at));
        }
        losses
    }

    /// When the first overtaken Interest of a track counts as lost; `None` if no Interest was
    /// overtaken.
    pub(super) fn overtaken_at(
        &mut self,
        track: TrackId,
        reordering: Reordering,
    ) -> Option<Instant> {
        let index = track.index()?;
        let first = self.first_of(index)?;
        self.tracks[index].lost_at(first, reordering)
    }

    /// The tracks that Interests left on.
    pub(super) fn tracks(&self) -> impl Iterator<Item = TrackId> + use<> {
        (0..self.tracks.len()).map(TrackId::of_index)
    }

    // The first Interest of a track that is under way.
    fn first_of(&mut self, index: usize) -> Option<Sent> {
        loop {
            let first = self.tracks.get(index)?.first()?;
            if self.is_serial_out(first, index) {
                return Some(first);
            }
            self.tracks[index].drop_first();
        }
    }

    fn is_serial_out(&self, sent: Sent, index: usize) -> bool {
        let Some(place) = sent.segment.checked_sub(self.base) else { return false };
        let held = self.segments.get(place as usize);
        let is_it = |track: TrackId, serial| track.index() == Some(index) && serial == sent.serial;
        matches!(held, Some(&Segment::Out { track, serial, .. }) if is_it(track, serial))
    }

    fn track_mut(&mut self, track: TrackId) -> Option<&mut Track> {
        let index = track.index()?;
        if self.tracks.len() <= index {
            self.tracks.resize_with(index + 1, Track::default);
        }
        Some(&mut self.tracks[index])
    }

    /// Takes for lost all segments asked for before `since`; returns their number.
    pub(super) fn expire(&mut self, since: Instant) -> usize {
        let mut count = 0;
        while let Some((segment, _)) = self.oldest().filter(|&(_, at)| at <= since) {
            self.asked.pop_front();
            count += usize::from(self.mark_lost(segment).is_some());
        }
        count
    }

    /// When the oldest that is under way was asked for.
    pub(super) fn oldest_at(&mut self) -> Option<Instant> {
        self.oldest().map(|(_, at)| at)
    }

    fn oldest(&mut self) -> Option<(u64, Instant)> {
        while let Some(&(segment, at)) = self.asked.front() {
            if self.is_out(segment, at) {
                return Some((segment, at));
            }
            self.asked.pop_front();
        }
        None
    }

    fn is_out(&self, segment: u64, since: Instant) -> bool {
        let Some(place) = segment.checked_sub(self.base) else { return false };
        let held = self.segments.get(place as usize);
        matches!(held, Some(Segment::Out { at, .. }) if *at == since)
    }

    /// The object ends before this segment. False if more is here or was asked for.
    pub(super) fn end_at(&mut self, end: u64) {
        if self.end.is_none_or(|known| end < known) {
            self.end = Some(end);
            // Segments beyond the end do not exist.
            let keep = end.saturating_sub(self.base) as usize;
            while self.segments.len() > keep {
                match self.segments.pop_back() {
                    Some(Segment::Out { .. }) => self.out -= 1,
                    Some(Segment::Lost { .. }) => {
                        self.lost.remove(&(self.base + self.segments.len() as u64));
                    }
                    _ => {}
                }
            }
        }
    }

    /// True if lost segments wait for retransmission.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// How many are under way.
    pub(super) fn out(&self) -> usize {
        self.out
    }

    /// One past the last segment, once that is known.
    pub(super) fn end(&self) -> Option<u64> {
        self.end
    }

    /// True if all are here.
    pub(super) fn is_complete(&mut self) -> bool {
        self.skip_had();
        self.end.is_some_and(|end| self.base >= end)
    }

    // What the application has already is here as soon as its turn comes.
    fn skip_had(&mut self) {
        loop {
            let next = self.base + self.segments.len() as u64;
            let found = self.had.partition_point(|range| range.end <= next);
            let Some(range) = self.had.get(found).filter(|range| range.contains(&next)) else {
                return;
            };
            if self.segments.is_empty() {
                self.base = range.end;
            } else if self.segments.len() < self.window_max {
                self.segments.push_back(Segment::Done);
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ndn::Class;

    const BY_0: TrackId = TrackId { path: 0, class: Class::Primary, discovers: false };

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn ask(board: &mut Board, millis: u64) -> Option<u64> {
        let segment = board.next()?;
        board.ask(segment, at(millis), BY_0);
        Some(segment)
    }

    #[test]
    fn lost_segments_come_first_and_a_resent_one_gives_no_round_trip() {
        let mut board = Board::new(Some(4), 10, vec![]);
        assert_eq!([0, 1, 2].map(|millis| ask(&mut board, millis)), [Some(0), Some(1), Some(2)]);
        assert_eq!([1, 1, 7].map(|segment| board.mark_lost(segment)), [Some(0), None, None]);
        assert_eq!(ask(&mut board, 10), Some(1));
        assert_eq!(board.done(1, at(14)).unwrap().round_trip, None);
        assert_eq!(board.done(2, at(15)).unwrap().round_trip, Some(Duration::from_millis(13)));
        assert_eq!((board.done(1, at(16)), board.done(3, at(16))), (None, None));
        assert_eq!((board.out(), board.oldest_at()), (1, Some(at(0))));
        assert_eq!(board.expire(at(0)), 1);
        assert_eq!([20, 21, 22].map(|millis| ask(&mut board, millis)), [Some(0), Some(3), None]);
        assert!(board.done(0, at(30)).is_some() && !board.is_complete());
        assert!(board.done(3, at(30)).is_some() && board.is_complete());
    }

    #[test]
    fn a_segment_that_was_taken_for_lost_and_comes_is_here() {
        let mut board = Board::new(Some(1), 10, vec![]);
        ask(&mut board, 0);
        board.mark_lost(0);
        assert!(board.done(0, at(5)).is_some());
        assert!(board.is_complete() && board.next().is_none());
    }

    #[test]
    fn the_window_bounds_what_is_out_of_order() {
        let mut board = Board::new(None, 3, vec![]);
        assert_eq!([1, 2, 3, 4].map(|millis| ask(&mut board, millis)).iter().flatten().count(), 3);
        board.done(1, at(5));
        assert_eq!(board.next(), None);
        board.done(0, at(6));
        assert_eq!((board.next(), board.out()), (Some(3), 1));
    }

    #[test]
    fn what_is_there_already_is_not_asked_for() {
        let mut board = Board::new(Some(8), 100, vec![0..2, 3..5, 7..8]);
        let asked: Vec<u64> = std::iter::from_fn(|| ask(&mut board, 1)).collect();
        assert_eq!(asked, [2, 5, 6]);
        asked.iter().for_each(|&segment| {
            board.done(segment, at(9));
        });
        assert!(board.is_complete());
        assert!(Board::new(Some(2), 10, vec![0..1, 1..2]).is_complete());
    }

    #[test]
    fn an_end_that_becomes_known_ends_the_asking() {
        let mut board = Board::new(None, 100, vec![]);
        (0..10).for_each(|millis| {
            ask(&mut board, millis);
        });
        board.mark_lost(8);
        board.end_at(5);
        assert_eq!((board.out(), board.next()), (5, None));
        (0..5).for_each(|segment| {
            board.done(segment, at(20));
        });
        assert!(board.is_complete() && board.oldest_at().is_none());
    }
}
