//! How far a member's own blocks are behind those of others on a hop.
//!
//! A member whose hop is busy lets what already travels pass: a short queue at each hop is what
//! keeps the latency of a loaded ring low. It yields no longer once another origin has got
//! `bytes_max`, or two of the largest blocks, more than itself, and takes its turns from then on,
//! until it is behind none.

/// The lead of each origin over the member itself on one hop, bytes.
#[derive(Debug, Default)]
pub(super) struct Lag {
    // By rank. Neither a lead nor its opposite exceeds the bound.
    leads: Vec<i64>,
    largest: usize,
    is_behind: bool,
}

impl Lag {
    /// True if the member has yielded enough.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// A block of another origin left on the hop.
    pub(super) fn note_other(&mut self, origin: u32, bytes: usize, bytes_max: usize) {
        let origin = origin as usize;
        if self.leads.len() <= origin {
            self.leads.resize(origin + 1, 0);
        }
        let max = self.bound(bytes, bytes_max);
        self.leads[origin] = (self.leads[origin] + bytes as i64).min(max);
        self.is_behind |= self.leads[origin] == max;
    }

    /// A block of the member itself left.
    pub(super) fn note_own(&mut self, bytes: usize, bytes_max: usize) {
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
        (0..3).for_each(|_| lag.note_other(2, 100, 400));
        assert!(!lag.is_behind());
        (0..3).for_each(|_| lag.note_other(0, 100, 400));
        lag.note_other(2, 100, 400);
        assert!(lag.is_behind());
        (0..9).for_each(|_| lag.note_other(2, 100, 400));
        (0..3).for_each(|_| lag.note_own(100, 400));
        assert!(lag.is_behind(), "origin 2 leads by a hundred");
        lag.note_own(100, 400);
        assert!(!lag.is_behind(), "what is beyond the bound was forgiven");
    }

    #[test]
    fn what_a_member_got_in_idle_times_counts_up_to_the_bound() {
        let mut lag = Lag::default();
        lag.note_other(1, 100, 400);
        (0..50).for_each(|_| lag.note_own(100, 400));
        (0..7).for_each(|_| lag.note_other(1, 100, 400));
        assert!(!lag.is_behind());
        lag.note_other(1, 100, 400);
        assert!(lag.is_behind());
    }

    #[test]
    fn large_blocks_are_counted_in_full() {
        let mut lag = Lag::default();
        for _ in 0..100 {
            lag.note_other(1, 1000, 4);
            lag.note_other(1, 1000, 4);
            assert!(lag.is_behind());
            lag.note_own(1000, 4);
            lag.note_own(1000, 4);
            assert!(!lag.is_behind());
        }
    }
}
