//! How far a member's own blocks lag behind those of others on a hop.
//!
//! A member with a busy hop lets blocks of other origins pass before its own: short queues at each
//! hop keep the latency of a loaded ring low. It stops yielding once another origin has sent
//! `bytes_max`, or two of the largest blocks, more than itself. It then takes its turns until it is
//! behind none.
//!
//! A lead beyond that bound is written off, and the member loses those turns. Where a driver
//! empties its buffer in bursts, many turns pass before the application can react. Turns lost that
//! way raise a [reserve](Lag::reserve) of bytes that the application is asked for in advance. The
//! reserve falls again while no turns are lost.

/// The lead of each origin over the member itself on one hop, bytes.
#[derive(Debug, Default)]
pub(super) struct Lag {
    // By rank. Neither a lead nor its opposite exceeds the bound.
    leads: Vec<i64>,
    largest: usize,
    is_behind: bool,
    // By how much leads went beyond the bound while no own block waited, since one last left.
    missed: usize,
    reserve: usize,
}

/// The reserve falls by a part in this many of what the member sends.
const RESERVE_DECAY: usize = 16;

impl Lag {
    /// True if the member has yielded enough.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Bytes that the application should have submitted ahead, so that no turn is missed.
    pub(super) fn reserve(&self) -> usize {
        if self.is_behind { self.reserve } else { 0 }
    }

    /// A block of another origin left on the hop, while an own one waited or not.
    pub(super) fn note_other(
        &mut self,
        origin: u32,
        bytes: usize,
        bytes_max: usize,
        own_waits: bool,
    ) {
        let origin = origin as usize;
        if self.leads.len() <= origin {
            self.leads.resize(origin + 1, 0);
        }
        let max = self.bound(bytes, bytes_max);
        let lead = self.leads[origin] + bytes as i64;
        if !own_waits {
            self.missed = self.missed.saturating_add((lead - max).max(0) as usize);
        }
        self.leads[origin] = lead.min(max);
        self.is_behind |= self.leads[origin] == max;
    }

    /// A block of the member itself left. The reserve is at most `reserve_max`.
    pub(super) fn note_own(&mut self, bytes: usize, bytes_max: usize, reserve_max: usize) {
        // Half, because several origins may have gone ahead.
        let missed = std::mem::take(&mut self.missed) / 2;
        let reserve = self.reserve.saturating_add(missed).min(reserve_max);
        self.reserve = reserve.saturating_sub(bytes.div_ceil(RESERVE_DECAY));
        let max = self.bound(bytes, bytes_max);
        let mut most = -max;
        for lead in &mut self.leads {
            *lead = (*lead - bytes as i64).max(-max);
            most = most.max(*lead);
        }
        self.is_behind &= most > 0;
    }

    /// The largest lead that counts: with less than two blocks, a block would be forgiven or
    /// forgotten in part each time.
    fn bound(&mut self, bytes: usize, bytes_max: usize) -> i64 {
        self.largest = self.largest.max(bytes);
        bytes_max.max(2 * self.largest) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_behind_from_the_bound_on_until_it_has_caught_up_with_all() {
        let mut lag = Lag::default();
        (0..3).for_each(|_| lag.note_other(2, 100, 400, true));
        assert!(!lag.is_behind());
        (0..3).for_each(|_| lag.note_other(0, 100, 400, true));
        lag.note_other(2, 100, 400, true);
        assert!(lag.is_behind());
        (0..9).for_each(|_| lag.note_other(2, 100, 400, true));
        (0..3).for_each(|_| lag.note_own(100, 400, 0));
        assert!(lag.is_behind(), "origin 2 leads by a hundred");
        lag.note_own(100, 400, 0);
        assert!(!lag.is_behind(), "what is beyond the bound was forgiven");
    }

    #[test]
    fn what_a_member_got_in_idle_times_counts_up_to_the_bound() {
        let mut lag = Lag::default();
        lag.note_other(1, 100, 400, true);
        (0..50).for_each(|_| lag.note_own(100, 400, 0));
        (0..7).for_each(|_| lag.note_other(1, 100, 400, true));
        assert!(!lag.is_behind());
        lag.note_other(1, 100, 400, true);
        assert!(lag.is_behind());
    }

    #[test]
    fn large_blocks_are_counted_in_full() {
        let mut lag = Lag::default();
        for _ in 0..100 {
            lag.note_other(1, 1000, 4, true);
            lag.note_other(1, 1000, 4, true);
            assert!(lag.is_behind());
            lag.note_own(1000, 4, 0);
            lag.note_own(1000, 4, 0);
            assert!(!lag.is_behind());
        }
    }

    #[test]
    fn what_is_lost_for_want_of_blocks_is_asked_for_ahead_until_nothing_is() {
        let mut lag = Lag::default();
        let others = |lag: &mut Lag, blocks: u32, own_waits: bool| {
            (0..blocks).for_each(|_| lag.note_other(1, 100, 400, own_waits));
        };
        others(&mut lag, 40, true);
        lag.note_own(96, 400, 1000);
        assert_eq!(lag.reserve(), 0, "own blocks waited: their turn would have come");
        others(&mut lag, 40, false);
        lag.note_own(96, 400, 1000);
        assert_eq!(lag.reserve(), 994, "at most 1000, less a part of what left");
        lag.note_own(96, 400, 9000);
        assert_eq!(lag.reserve(), 988);
        (0..20).for_each(|_| lag.note_own(96, 400, 9000));
        assert_eq!(lag.reserve(), 0, "a member that is not behind yields");
    }
}
