use super::Conditions;

/// The share of lost packets that exclusive ors recover, by packets since the loss: the first
/// number is for repairs that the lost packet itself completes elsewhere.
///
/// Let Y be a packet that is at distance d < r from X, before or after. If B has it, Y does not
/// matter. If B lost it too, repairs with X and without Y help as before; one with both helps if B
/// recovers Y first, which takes a repair with Y and without X. Of the places that a bin with X may
/// begin at, d leave Y out and r - d do not. So with A, C, A' the expected repairs with X only,
/// both, and Y only, X is recovered with probability
///
///   g = 1 - e(A) + e(A) (1 - e(C)) (1 - e(A')).
///
/// With h = 1 - e(l) for a loss without neighbours, each of the 2 (r - 1) neighbours, as if on its
/// own, leaves the share 1 - p + p g / h of it:
///
///   P = h * product over neighbours of (1 - p + p g / h).
///
/// The sender of Y, one of the n - 2 helpers, leaves Y out of its bin too, so that this share of C
/// goes to A and to A'. B does not lose its own packets: p is less by 1 / (n - 1).
///
/// By m packets after the loss only the bins that are full by then count, so A, C and A' grow
/// with m, and h is 1 - e(l min(m, r) / r). A neighbour that came later is recovered from bins
/// that fill up to r - 1 packets later than those with X.
pub fn recovered_by_packets(r: u8, c: u8, conditions: &Conditions) -> Vec<f64> {
    let loss = conditions.loss_in_range();
    let r = usize::from(r.max(1));
    let expected = f64::from(c.max(1)) * (1.0 - loss).powi(2);
    // e, of a number of the r places that a bin may begin at.
    let none = |places: f64| conditions.none_comes(expected * places / r as f64);
    let helpers = conditions.helpers();
    if helpers < 1.0 {
        return vec![0.0];
    }
    let loss_beside = loss * helpers / conditions.others();
    let share = |by: usize| {
        let full = by.min(r);
        let alone = 1.0 - none(full as f64);
        let beside = |only_x: usize, both: usize, only_y: usize| {
            let parted = both as f64 / helpers;
            let none_with_x = none(only_x as f64 + parted);
            let with_y = (1.0 - none(both as f64 - parted)) * (1.0 - none(only_y as f64 + parted));
            let recovered = 1.0 - none_with_x + none_with_x * with_y;
            1.0 - loss_beside + loss_beside * recovered / alone
        };
        let neighbours = (1..r).map(|d| {
            // The bins with X and without a later Y are the first to fill up, and those without
            // an earlier one the last.
            let later = beside(full.min(d), full.saturating_sub(d), by.saturating_sub(r).min(d));
            let earlier = beside(full.saturating_sub(r - d), full.min(r - d), d);
            later * earlier
        });
        alone * neighbours.product::<f64>()
    };
    // At a loss of one half the product may fall a little with time; a recovered packet stays
    // recovered.
    (1..2 * r)
        .scan(0.0, |most, by| {
            *most = share(by).max(*most);
            Some(*most)
        })
        .collect()
}
