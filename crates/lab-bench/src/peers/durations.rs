use std::collections::BTreeMap;

/// Durations in microseconds, and how often each was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durations(BTreeMap<u64, u64>);

impl Durations {
    /// Adds all of these.
    pub(crate) fn add(&mut self, others: &Durations) {
        others.0.iter().for_each(|(&micros, &count)| *self.0.entry(micros).or_default() += count);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// How many are no longer than this.
    pub(crate) fn count_within(&self, micros_max: u64) -> u64 {
        self.0.range(..=micros_max).map(|(_, &count)| count).sum()
    }

    /// The least duration that this share of all does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut passed = 0;
        self.0.iter().find_map(|(&micros, &count)| {
            passed += count;
            (passed >= rank).then_some(micros)
        })
    }

    /// The same in milliseconds. Not a number if there are none.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        self.quantile(share).map_or(f64::NAN, |micros| micros as f64 / 1e3)
    }

    /// The mean in milliseconds. Not a number if there are none.
    pub(crate) fn mean_ms(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|(&micros, &count)| micros as f64 * count as f64).sum();
        sum / self.count() as f64 / 1e3
    }
}

impl FromIterator<(u64, u64)> for Durations {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(counted: I) -> Durations {
        Durations(counted.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_least_duration_that_the_share_does_not_exceed() {
        let durations: Durations = [(1, 1), (2, 1), (3, 98)].into_iter().collect();
        let at = |share| durations.quantile(share);
        assert_eq!([at(0.0), at(0.01), at(0.02), at(0.03)], [Some(1), Some(1), Some(2), Some(3)]);
        assert_eq!((at(1.0), Durations::default().quantile(0.5)), (Some(3), None));
        assert!(Durations::default().quantile_ms(0.5).is_nan());
    }

    #[test]
    fn durations_of_members_are_added() {
        let mut all: Durations = [(1_000, 1), (2_000, 1)].into_iter().collect();
        all.add(&[(2_000, 1), (7_000, 1)].into_iter().collect());
        assert_eq!((all.count(), all.count_within(2_000), all.count_within(999)), (4, 3, 0));
        assert_eq!(all.mean_ms(), 3.0);
    }
}
