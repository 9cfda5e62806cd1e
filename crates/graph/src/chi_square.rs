//! Pearson's chi-square test of counts against their expectations.

use statrs::function::gamma::checked_gamma_ur;

/// The probability that counts differ from their expectations at least as much as these, if they
/// are drawn from that distribution: Pearson's test of pairs of a count and its expectation.
///
/// Counts with expectations below eight are merged.
pub fn p_value(bins: impl Iterator<Item = (u64, f64)>) -> f64 {
    let (mut sum, mut freedom, mut rest) = (0.0, -1.0, (0.0, 0.0));
    let mut add = |seen: f64, expected: f64| {
        sum += (seen - expected).powi(2) / expected;
        freedom += 1.0;
    };
    for (seen, expected) in bins {
        if expected <= 0.0 && seen > 0 {
            return 0.0;
        }
        if expected >= EXPECTED_MIN {
            add(seen as f64, expected);
        } else {
            rest = (rest.0 + seen as f64, rest.1 + expected);
        }
    }
    if rest.1 > 0.0 {
        add(rest.0, rest.1);
    }
    // With a single bin, only the total can differ.
    if freedom < 1.0 { f64::from(u8::from(sum < 1e-9)) } else { upper_tail(freedom, sum) }
}

/// The chance that a chi-square variable of this many degrees of freedom exceeds `value`.
fn upper_tail(freedom: f64, value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    checked_gamma_ur(freedom / 2.0, value / 2.0).expect("both are above zero")
}

/// Below this expectation the statistic does not follow the distribution that the test assumes.
pub const EXPECTED_MIN: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_of_counts_knows_its_tables() {
        // From tables of the chi-square distribution.
        for (freedom, value, chance) in
            [(1.0, 3.841, 0.05), (5.0, 11.070, 0.05), (10.0, 29.588, 0.001), (20.0, 10.851, 0.95)]
        {
            let found = upper_tail(freedom, value);
            assert!((found / chance - 1.0).abs() < 2e-3, "{found} for {chance}");
        }
    }

    #[test]
    fn fair_counts_pass_and_unfair_ones_do_not() {
        let fair = [(100, 100.0), (110, 100.0), (90, 100.0)];
        assert!(p_value(fair.into_iter()) > 0.3);
        let unfair = [(140, 100.0), (80, 100.0), (80, 100.0)];
        assert!(p_value(unfair.into_iter()) < 1e-4);
        assert_eq!(p_value([(1, 0.0), (99, 100.0)].into_iter()), 0.0);
        assert_eq!(p_value([(7, 7.0)].into_iter()), 1.0);
        assert_eq!(p_value([(7, 8.0)].into_iter()), 0.0);
    }
}
