use super::Conditions;

/// More packets missing at once than this count as this many. In any setting of use it is rare.
const DEBT_MAX: usize = 32;
/// Windows after which a packet that is not recovered counts as lost for good.
const WINDOWS_MAX: usize = 4;
/// A share too small to go on for.
const NEGLIGIBLE: f64 = 1e-7;

/// The share of lost packets that the random linear code recovers, by packets since the loss.
///
/// B can solve its equations when it has as many as unknowns; that two random equations over
/// GF(256) are as good as one is a matter of 1 in 255. So what counts is the *debt*: unknowns less
/// equations. Each packet is lost with probability p, and then the debt grows by one. Then
/// repairs come, l / r on average, and each lessens it by one. A repair whose sender lacks what B
/// lacks is of no use: of d unknowns it lacks all with probability q^d, where q is p and the chance
/// 1 / (n - 1) that it sent a packet itself. Packets that B sent are not counted, nor are they lost
/// by it: repairs that they complete come with the others. X is recovered when the
/// debt is zero: all that was lost since it was last zero is known then.
///
/// Unknowns that have left the windows are in no new repair. They can still be solved for while
/// there are as many equations from before, that is, while the debt is not above the number of
/// unknowns that are in the windows (Hall's condition). That number is binomial, given that it is
/// at least d; when it is d and the oldest leaves, the unknowns older than the windows are lost for
/// good. A packet that is in no equation when it leaves is lost in any case.
///
/// With p = 1 to 10 %, W = 32 and shares above 0.9, simulations agree to 0.7 points.
pub fn recovered_by_packets(r: u8, c: u8, window: u16, conditions: &Conditions) -> Vec<f64> {
    let loss = conditions.loss_in_range();
    let expected = f64::from(c.max(1)) * (1.0 - loss).powi(2) / f64::from(r.max(1));
    // A window holds packets that its owner received, so it spans more sent packets.
    let span = ((f64::from(window) / (1.0 - loss)) as usize).max(1);
    let chain = Chain::new(expected, loss, span, conditions.others());

    let mut before = vec![0.0; chain.states()];
    before[0] = 1.0;
    for _ in 0..2 * span {
        let mut after = chain.repaired(&lost(&before, loss));
        chain.let_go(&mut after, Gone::Forgotten);
        let moved: f64 = before.iter().zip(&after).map(|(b, a)| (b - a).abs()).sum();
        before = after;
        if moved < NEGLIGIBLE {
            break;
        }
    }

    let mut debts = lost(&before, 1.0);
    let (mut recovered, mut by_packets) = (0.0, Vec::new());
    for packet in 0..span * WINDOWS_MAX {
        if packet > 0 {
            debts = lost(&debts, loss);
        }
        debts = chain.repaired(&debts);
        recovered += std::mem::take(&mut debts[0]);
        by_packets.push(f64::min(recovered, 1.0));
        let open: f64 = debts.iter().sum();
        if packet + 1 == span {
            let in_none = chain.no_repair().powi(span as i32);
            let in_some = (1.0 - in_none / open.max(f64::MIN_POSITIVE)).max(0.0);
            debts.iter_mut().for_each(|probability| *probability *= in_some);
        } else if packet >= span {
            chain.let_go(&mut debts, Gone::WithThis);
        }
        if open < NEGLIGIBLE {
            break;
        }
    }
    by_packets
}

/// The debts' probabilities after one more packet was sent.
fn lost(debts: &[f64], loss: f64) -> Vec<f64> {
    let mut after = vec![0.0; debts.len()];
    for (debt, probability) in debts.iter().enumerate() {
        after[debt] += probability * (1.0 - loss);
        after[(debt + 1).min(debts.len() - 1)] += probability * loss;
    }
    after
}

/// What becomes of the packet under study when an unknown that was needed leaves the windows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// It is unaffected: only the debt falls by one.
    Forgotten,
    /// It is lost for good with that unknown.
    WithThis,
}

/// How the debt changes from packet to packet.
struct Chain {
    /// For each debt d, the probabilities of 0 to d - 1 useful repairs.
    fewer: Vec<Vec<f64>>,
    /// For each debt, the probability that a needed unknown leaves.
    leaves: Vec<f64>,
}

impl Chain {
    fn new(expected: f64, loss: f64, span: usize, others: f64) -> Chain {
        let debts = 0..=DEBT_MAX.min(span);
        let lacks = loss + (1.0 - loss) / others;
        let fewer = debts.clone().map(|debt| {
            let useful = (1.0 - lacks.powi(debt as i32)) * 254.0 / 255.0;
            // Each of the others sends at most one repair to B.
            let from_each = (expected * useful / others).min(1.0);
            binomial(others, from_each).take(debt).collect()
        });
        let mut at_least = 1.0;
        let leaves = binomial(span as f64, loss).zip(debts.clone()).map(|(exactly, debt)| {
            let oldest_is_unknown = debt as f64 / span as f64;
            let leaves = exactly * oldest_is_unknown / f64::max(at_least, f64::MIN_POSITIVE);
            at_least -= exactly;
            leaves.clamp(0.0, 1.0)
        });
        Chain { fewer: fewer.collect(), leaves: leaves.collect() }
    }

    fn states(&self) -> usize {
        self.fewer.len()
    }

    /// The probability that one unknown is in no repair that comes with one packet.
    fn no_repair(&self) -> f64 {
        self.fewer[1][0]
    }

    /// The debts' probabilities after the repairs of one packet.
    fn repaired(&self, debts: &[f64]) -> Vec<f64> {
        let mut after = vec![0.0; debts.len()];
        for (debt, (&probability, fewer)) in debts.iter().zip(&self.fewer).enumerate() {
            let mut enough = 1.0;
            for (count, chance) in fewer.iter().enumerate() {
                after[debt - count] += probability * chance;
                enough -= chance;
            }
            after[0] += probability * enough.max(0.0);
        }
        after
    }

    /// The oldest packet leaves the windows.
    fn let_go(&self, debts: &mut [f64], gone: Gone) {
        for debt in 1..debts.len() {
            let leaving = debts[debt] * self.leaves[debt];
            debts[debt] -= leaving;
            if gone == Gone::Forgotten {
                debts[debt - 1] += leaving;
            }
        }
    }
}

/// The probabilities of 0, 1, .. successes in `trials` trials, each with probability `success`.
fn binomial(trials: f64, success: f64) -> impl Iterator<Item = f64> {
    let failure = (1.0 - success).max(f64::MIN_POSITIVE);
    let mut probability = failure.powf(trials);
    (0..).map(move |count| {
        let this = probability;
        let left = (trials - f64::from(count)).max(0.0);
        probability *= left / f64::from(count + 1) * success / failure;
        this
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_probabilities_sum_to_one_and_have_their_mean() {
        for (trials, success) in [(3.0, 0.5), (63.0, 0.004), (36.0, 0.1), (1.0, 0.0)] {
            let all: Vec<f64> = binomial(trials, success).take(64).collect();
            let mean: f64 = all.iter().enumerate().map(|(count, p)| count as f64 * p).sum();
            assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{all:?}");
            assert!((mean - trials * success).abs() < 1e-9, "{mean}");
        }
    }

    #[test]
    fn a_longer_window_recovers_more() {
        let conditions = Conditions::new(64, 0.05, 1_000.0);
        let of = |window| {
            let shares = recovered_by_packets(8, 1, window, &conditions);
            *shares.last().expect("there is a first packet")
        };
        let shares = [16, 32, 64, 128].map(of);
        assert!(shares.is_sorted() && shares[3] > shares[0] + 0.1, "{shares:?}");
    }
}
