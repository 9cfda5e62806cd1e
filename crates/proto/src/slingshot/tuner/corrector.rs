use super::choose::front;
use super::{Choice, Code, Conditions, Setting, Target};

/// Moves from setting to setting as measurements require.
///
/// The settings worth their price are a ladder, the cheapest one lowest. If too little is recovered
/// in time, it moves one rung up. If the rung below is expected to suffice, it moves one down. The
/// expectation of a rung is its prediction, corrected by the error of the present rung's
/// prediction, as a factor of the odds.
///
/// The order of the rungs is that of the conditions it began with. When the loss or the rate is
/// measured to be another one, a new corrector finds the cheapest setting at once.
///
/// It does not oscillate. A step needs a difference well beyond the counting error. A step up
/// counts only the latest losses, so that it reacts fast to worse conditions; a step down counts
/// many, and is taken only if the lower setting meets the margin. Each time that a step down is
/// taken back, the next one waits for twice as many losses.
#[derive(Clone, Debug)]
pub struct Corrector {
    target: Target,
    ladder: Vec<Choice>,
    rung: usize,
    latest: Tally,
    long: Tally,
    /// The report after a step is partly about the setting before.
    is_settling: bool,
    /// The last step went down.
    is_on_trial: bool,
    /// Losses that must be counted before a step down.
    patience: u64,
}

/// Losses that must be counted before anything is decided.
const LOSSES_MIN: u64 = 50;
/// Of the latest losses and of many, where older ones begin to fade.
const LATEST_MAX: u64 = 400;
const LONG_MAX: u64 = 8_000;
/// Losses before the first step down, and at most.
const PATIENCE: u64 = 500;
const PATIENCE_MAX: u64 = LONG_MAX / 2;
/// Standard errors that a difference must exceed. It is tested repeatedly, so chance would exceed
/// two.
const ERRORS: f64 = 2.5;
/// A rung misses at most this part of what the one below it misses. Smaller steps would be taken by
/// chance.
const RUNG: f64 = 0.9;

impl Corrector {
    /// Begins with what [`choose`](super::choose) would take, or the best there is if none is
    /// expected to meet the target. None if no setting's overhead is allowed.
    pub fn new(target: Target, conditions: &Conditions, codes: &[Code]) -> Option<Corrector> {
        let front = front(&target, conditions, codes);
        let meets = |choice: &Choice| choice.in_time >= target.share_with_margin();
        let first = front.iter().position(meets).unwrap_or(front.len().checked_sub(1)?);
        let (ladder, rung) = ladder(&front, first);
        Some(Corrector {
            target,
            ladder,
            rung,
            latest: Tally::default(),
            long: Tally::default(),
            is_settling: false,
            is_on_trial: false,
            patience: PATIENCE,
        })
    }

    /// The setting in force.
    pub fn setting(&self) -> Setting {
        self.ladder[self.rung].setting
    }

    /// What the setting in force is expected to recover in time, as predicted.
    pub fn expected_in_time(&self) -> f64 {
        self.ladder[self.rung].in_time
    }

    /// True if that meets the target.
    pub fn is_within_reach(&self) -> bool {
        self.expected_in_time() >= self.target.share_with_margin()
    }

    /// The packets of an interval that were lost and whose time is up, and how many of them had
    /// been recovered in time. Returns the new setting if it has changed.
    pub fn observe(&mut self, lost: u64, in_time: u64) -> Option<Setting> {
        if std::mem::take(&mut self.is_settling) {
            return None;
        }
        self.latest.count(lost, in_time, LATEST_MAX);
        self.long.count(lost, in_time, LONG_MAX);
        let high = |tally: &Tally| tally.share() + ERRORS * tally.error();
        if self.latest.lost >= LOSSES_MIN
            && high(&self.latest).min(high(&self.long)) < self.target.share
        {
            if self.is_on_trial {
                self.patience = (self.patience * 2).min(PATIENCE_MAX);
            }
            return self.step_to((self.rung + 1).min(self.ladder.len() - 1));
        }
        if self.long.lost < self.patience {
            return None;
        }
        let low = self.long.share() - ERRORS * self.long.error();
        let below = self.rung.checked_sub(1)?;
        let is_enough = self.expected(below, low) >= self.target.share_with_margin();
        if is_enough { self.step_to(below) } else { None }
    }

    /// What a rung will recover in time, if the present one recovers this share.
    fn expected(&self, rung: usize, measured: f64) -> f64 {
        let odds = |share: f64| share / (1.0 - share).max(1e-9);
        let correction = odds(measured) / odds(self.ladder[self.rung].in_time).max(1e-9);
        let corrected = odds(self.ladder[rung].in_time) * correction;
        corrected / (1.0 + corrected)
    }

    fn step_to(&mut self, rung: usize) -> Option<Setting> {
        self.latest = Tally::default();
        self.long = Tally::default();
        if rung == self.rung {
            return None;
        }
        self.is_on_trial = rung < self.rung;
        self.is_settling = true;
        self.rung = rung;
        Some(self.setting())
    }
}

/// Losses, and how many of them were recovered in time.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    lost: u64,
    in_time: u64,
}

impl Tally {
    /// Counts more; at `lost_max` all that was counted weighs half.
    fn count(&mut self, lost: u64, in_time: u64, lost_max: u64) {
        if self.lost >= lost_max {
            self.lost /= 2;
            self.in_time /= 2;
        }
        self.lost += lost;
        self.in_time += in_time.min(lost);
    }

    fn share(&self) -> f64 {
        self.in_time as f64 / self.lost.max(1) as f64
    }

    /// The standard error of the share, with a little added so that it is never zero.
    fn error(&self) -> f64 {
        let (share, lost) = (self.share(), self.lost.max(1) as f64);
        ((share * (1.0 - share) + 1.0 / lost) / lost).sqrt()
    }
}

/// The ladder: the first setting, and settings above and below it that differ noticeably; and the
/// rung of the first.
fn ladder(front: &[Choice], first: usize) -> (Vec<Choice>, usize) {
    let missed = |choice: &Choice| 1.0 - choice.in_time;
    let mut ladder = vec![front[first]];
    for below in front[..first].iter().rev() {
        if missed(below) * RUNG > missed(&ladder[ladder.len() - 1]) {
            ladder.push(*below);
        }
    }
    ladder.reverse();
    let rung = ladder.len() - 1;
    for above in &front[first + 1..] {
        if missed(above) < missed(&ladder[ladder.len() - 1]) * RUNG {
            ladder.push(*above);
        }
    }
    (ladder, rung)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::predict;
    use super::*;
    use crate::core::Rng;

    const CODES: [Code; 1] = [Code::Xor];

    fn target() -> Target {
        Target::new(0.93, Duration::from_millis(12), 0.6)
    }

    fn group(loss: f64) -> Conditions {
        Conditions::new(64, loss, 1_000.0)
    }

    /// Reports of 20 losses each, drawn from what the setting in force does under `truth`.
    /// Returns the steps, and the share of all that was recovered in time.
    fn run(corrector: &mut Corrector, truth: &Conditions, reports: u32) -> (Vec<Setting>, f64) {
        let mut rng = Rng::new(1, 1);
        let (mut steps, mut total) = (Vec::new(), 0);
        for _ in 0..reports {
            let prediction = predict(corrector.setting(), truth);
            let share = prediction.recovered_within(target().within);
            let in_time = (0..20).filter(|_| rng.chance(share)).count() as u64;
            total += in_time;
            steps.extend(corrector.observe(20, in_time));
        }
        (steps, total as f64 / f64::from(20 * reports))
    }

    #[test]
    fn it_stays_where_the_prediction_is_right() {
        let mut corrector = Corrector::new(target(), &group(0.01), &CODES).expect("allowed");
        let (steps, share) = run(&mut corrector, &group(0.01), 5_000);
        assert!(steps.is_empty(), "{steps:?}");
        assert!(share > 0.93);
    }

    #[test]
    fn it_climbs_until_the_target_is_met_and_stays_there() {
        let mut corrector = Corrector::new(target(), &group(0.01), &CODES).expect("allowed");
        let (steps, _) = run(&mut corrector, &group(0.05), 2_000);
        assert!(!steps.is_empty());
        let (steps, share) = run(&mut corrector, &group(0.05), 5_000);
        assert!(share > 0.93, "{share}");
        assert!(steps.len() <= 4, "it swings: {steps:?}");
    }

    #[test]
    fn it_comes_down_when_less_would_do() {
        let mut corrector = Corrector::new(target(), &group(0.10), &CODES).expect("allowed");
        let dear = corrector.setting().repairs_per_packet();
        run(&mut corrector, &group(0.01), 5_000);
        assert!(corrector.setting().repairs_per_packet() < dear);
        let (steps, share) = run(&mut corrector, &group(0.01), 5_000);
        assert!(share > 0.93, "{share}");
        assert!(steps.len() <= 4, "it swings: {steps:?}");
        // Its ladder is for another loss; even so not much is paid beyond what would be chosen.
        let choice = super::super::choose(&target(), &group(0.01), &CODES).expect("it can be met");
        let (paid, enough) = (corrector.setting(), choice.setting);
        assert!(paid.overhead() < enough.overhead() + 0.1, "{paid}, where {enough} would do");
    }

    #[test]
    fn at_the_top_it_stays() {
        let hard = Target::new(0.999, Duration::from_millis(2), 0.2);
        let mut corrector = Corrector::new(hard, &group(0.01), &CODES).expect("allowed");
        let best = corrector.setting();
        for _ in 0..100 {
            assert_eq!(corrector.observe(100, 10), None);
        }
        assert_eq!(corrector.setting(), best);
        assert!(
            Corrector::new(Target { overhead_max: 0.01, ..hard }, &group(0.01), &CODES).is_none()
        );
    }

    #[test]
    fn few_losses_decide_nothing() {
        let mut corrector = Corrector::new(target(), &group(0.01), &CODES).expect("allowed");
        assert_eq!(corrector.observe(LOSSES_MIN - 1, 0), None);
        assert_eq!(corrector.observe(0, 0), None);
        assert!(corrector.observe(1, 0).is_some(), "now there are enough");
        assert_eq!(
            corrector.observe(1_000, 0),
            None,
            "this report is about the setting before too"
        );
    }
}
