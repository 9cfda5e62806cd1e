//! Whether counts are what they are expected to be.

/// The chance that counts are further from what is expected than these, if that is what they are
/// drawn from: Pearson's test of pairs of a count and its expectation.
///
/// Counts of which fewer than eight are expected are taken together.
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
    // All in one bin: there is nothing that could be off but their number.
    if freedom < 1.0 {
        f64::from(u8::from(sum < 1e-9))
    } else {
        upper_gamma(freedom / 2.0, sum / 2.0)
    }
}

/// Of less the statistic is not distributed as the test supposes.
pub const EXPECTED_MIN: f64 = 8.0;

/// The regularised upper incomplete gamma function Q(a, x). Source: Press et al., *Numerical
/// Recipes*, section 6.2: a series below a + 1, a continued fraction above.
fn upper_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-15 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return (1.0 - scale * sum).clamp(0.0, 1.0);
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut fraction = d;
    for i in 1..10_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (scale * fraction).clamp(0.0, 1.0)
}

/// Lanczos's approximation, good to 1e-13.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series = (1..).zip(TERMS).map(|(i, term)| term / (x + f64::from(i)));
    let sum: f64 = 0.999_999_999_999_809_9 + series.sum::<f64>();
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_of_counts_knows_its_tables() {
        // From tables of the chi-square distribution.
        for (freedom, value, chance) in
            [(1.0, 3.841, 0.05), (5.0, 11.070, 0.05), (10.0, 29.588, 0.001), (20.0, 10.851, 0.95)]
        {
            let found = upper_gamma(freedom / 2.0, value / 2.0);
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
