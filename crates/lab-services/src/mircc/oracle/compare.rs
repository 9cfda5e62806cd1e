/// Fairness of rates: 1 if all are equal, 1/n if one of n has all; 1 for no rates, or all zero.
/// Source: Jain, Chiu and Hawe, *A Quantitative Measure of Fairness*, DEC-TR-301, 1984.
pub fn jain_index(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (rates.len() as f64 * squares) }
}

/// The largest distance of a measured rate from the expected one, relative to the expected one:
/// 0.05 means that the farthest is 5 % off. Infinite if something was measured where nothing is
/// expected, or the lists differ in length: what was not measured cannot be near.
pub fn distance_max(measured: &[f64], expected: &[f64]) -> f64 {
    if measured.len() != expected.len() {
        return f64::INFINITY;
    }
    let distance = |(&measured, &expected): (&f64, &f64)| {
        if measured == expected { 0.0 } else { ((measured - expected) / expected).abs() }
    };
    let distances = measured.iter().zip(expected).map(distance);
    // `f64::max` would pass over a rate that is not a number.
    distances.fold(0.0, |most, each| if each.is_nan() || each > most { each } else { most })
}
