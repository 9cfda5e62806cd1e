use std::time::Duration;

use super::{Code, Conditions, Setting, predict};

/// The recovery target of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Of the packets that a member loses, this share shall be recovered in time. In (0, 1).
    pub share: f64,
    /// In this time.
    pub within: Duration,
    /// Repairs may be this share of all packets sent, c / (r + c).
    pub overhead_max: f64,
    /// How much better than `share` a prediction must be: this part of the misses that `share`
    /// allows must remain unused. Default 0.2, so that a share of 0.95 is met by a prediction of
    /// 0.96.
    pub margin: f64,
}

/// A setting, and its expected effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The rate of fire and its code.
    pub setting: Setting,
    /// The share of lost packets recovered within the target's time.
    pub in_time: f64,
    /// The share recovered in total.
    pub recovered: f64,
    /// The mean time until a packet is recovered.
    pub mean: Duration,
    /// Bytes of repairs sent for each packet received.
    pub bytes_per_packet: f64,
}

/// No setting meets the target.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Unreachable {
    /// Every setting sends more repairs than that.
    #[error("no rate of fire has an overhead that low: the lowest is {least:.3} of all packets")]
    Overhead {
        /// The smallest c / (r + c) there is.
        least: f64,
    },
    /// Even the best one recovers too little in time.
    #[error(
        "at most {:.1} % of lost packets can be expected in time, by {}",
        best.in_time * 100.0,
        best.setting
    )]
    InTime {
        /// The setting that recovers most in time within the allowed overhead.
        best: Choice,
    },
}

/// The largest r and c that are tried.
pub const FIRE_MAX: u8 = 16;

/// The cheapest setting, in bytes of repairs, that is expected to meet the target, with r and c up
/// to 16 and one of `codes`.
///
/// Cost: a few hundred predictions for each code. That takes about 0.2 ms for the exclusive or, and
/// 10 ms for a window of 32 packets; longer windows take longer in proportion.
pub fn choose(
    target: &Target,
    conditions: &Conditions,
    codes: &[Code],
) -> Result<Choice, Unreachable> {
    let needed = target.share_with_margin();
    cheapest(settings(target, conditions, codes), needed, |choice| choice.in_time)
}

/// The first of these that reaches what is needed by this measure.
pub(super) fn cheapest(
    settings: Vec<Choice>,
    needed: f64,
    measure: impl Fn(&Choice) -> f64,
) -> Result<Choice, Unreachable> {
    let mut best: Option<(f64, Choice)> = None;
    for choice in settings {
        let reached = measure(&choice);
        if reached >= needed {
            return Ok(choice);
        }
        if best.is_none_or(|(most, _)| reached > most) {
            best = Some((reached, choice));
        }
    }
    match best {
        Some((_, best)) => Err(Unreachable::InTime { best }),
        None => Err(Unreachable::Overhead { least: 1.0 / f64::from(FIRE_MAX + 1) }),
    }
}

/// What a prediction must reach for this share, if this part of the misses that it allows must
/// remain unused.
pub(super) fn with_margin(share: f64, margin: f64) -> f64 {
    1.0 - (1.0 - share) * (1.0 - margin)
}

impl Target {
    /// Recover this share of lost packets in this time, with repairs being at most this share of
    /// all packets.
    pub fn new(share: f64, within: Duration, overhead_max: f64) -> Target {
        Target { share, within, overhead_max, margin: 0.2 }
    }

    /// What a prediction must reach.
    pub(super) fn share_with_margin(&self) -> f64 {
        with_margin(self.share, self.margin)
    }
}

/// All settings, the cheapest first. Those whose overhead is not allowed are left out.
pub(super) fn settings(target: &Target, conditions: &Conditions, codes: &[Code]) -> Vec<Choice> {
    // A repair goes to c distinct others.
    let c_max = conditions.members.saturating_sub(1).clamp(1, u32::from(FIRE_MAX)) as u8;
    let mut choices: Vec<Choice> = codes
        .iter()
        .flat_map(|&code| (1..=FIRE_MAX).map(move |r| (r, code)))
        .flat_map(|(r, code)| (1..=c_max).map(move |c| Setting { r, c, code }))
        // A window that is shorter than r would leave packets out.
        .filter(|setting| u32::from(setting.r) <= setting.packets_in_repair())
        .filter(|setting| setting.overhead() <= target.overhead_max)
        .map(|setting| expect(setting, target, conditions))
        .collect();
    choices.sort_by(|a, b| {
        let by_price = a.bytes_per_packet.total_cmp(&b.bytes_per_packet);
        by_price.then(b.in_time.total_cmp(&a.in_time)).then(a.setting.r.cmp(&b.setting.r))
    });
    choices
}

/// All settings worth their price: each recovers more in time than every cheaper one. The cheapest
/// first. Those whose overhead is not allowed are left out.
pub(super) fn front(target: &Target, conditions: &Conditions, codes: &[Code]) -> Vec<Choice> {
    let mut choices = settings(target, conditions, codes);
    // The cheapest one stays in any case, even if it recovers nothing: two members cannot repair
    // each other.
    let mut best = -1.0;
    choices.retain(|choice| {
        let is_better = choice.in_time > best;
        best = choice.in_time.max(best);
        is_better
    });
    choices
}

fn expect(setting: Setting, target: &Target, conditions: &Conditions) -> Choice {
    let prediction = predict(setting, conditions);
    Choice {
        setting,
        in_time: prediction.recovered_within(target.within),
        recovered: prediction.recovered(),
        mean: prediction.mean(),
        bytes_per_packet: setting.repair_bytes_per_packet(conditions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: Code = Code::Linear { window: 32 };

    fn group() -> Conditions {
        Conditions::new(64, 0.01, 1_000.0)
    }

    fn target(share: f64, within_ms: u64, overhead_max: f64) -> Target {
        Target::new(share, Duration::from_millis(within_ms), overhead_max)
    }

    #[test]
    fn no_cheaper_setting_would_do() {
        let (conditions, target) = (group(), target(0.97, 25, 0.4));
        let choice = choose(&target, &conditions, &[Code::Xor]).expect("the paper's own does");
        assert!(choice.in_time >= 0.976, "the margin is kept: {choice:?}");
        for r in 1..=16 {
            for c in 1..=16 {
                let setting = Setting { r, c, code: Code::Xor };
                let is_cheaper =
                    setting.repair_bytes_per_packet(&conditions) < choice.bytes_per_packet;
                if is_cheaper && setting.overhead() <= 0.4 {
                    let in_time = predict(setting, &conditions).recovered_within(target.within);
                    assert!(in_time < 0.976, "{setting} recovers {in_time}");
                }
            }
        }
    }

    #[test]
    fn the_linear_code_is_taken_where_it_is_cheaper() {
        let (conditions, target) = (group(), target(0.99, 30, 0.4));
        let [with, without] = [&[Code::Xor, LINEAR][..], &[Code::Xor]]
            .map(|codes| choose(&target, &conditions, codes).expect("both can"));
        assert_eq!(with.setting.code, LINEAR);
        assert!(with.bytes_per_packet < without.bytes_per_packet);
        // With little time there are few repairs, and none that a longer window could help.
        let hurry = Target::new(0.9, Duration::from_micros(2_500), 0.6);
        let choice = choose(&hurry, &conditions, &[Code::Xor, LINEAR]).expect("(3,3) or so");
        assert_eq!(choice.setting.code, Code::Xor, "{choice:?}");
    }

    #[test]
    fn what_no_setting_can_do_is_said_beforehand() {
        let codes = [Code::Xor, LINEAR];
        let refused = choose(&target(0.99, 1, 0.3), &group(), &codes);
        let Err(Unreachable::InTime { best }) = refused else { panic!("{refused:?}") };
        assert!(best.in_time < 0.99 && best.setting.overhead() <= 0.3, "{best:?}");
        let message = refused.expect_err("as above").to_string();
        assert!(message.contains(&best.setting.to_string()), "{message}");

        let refused = choose(&target(0.9, 1_000, 0.05), &group(), &codes);
        assert_eq!(refused, Err(Unreachable::Overhead { least: 1.0 / 17.0 }));
    }

    #[test]
    fn a_setting_never_repairs_to_more_members_than_there_are() {
        for members in [0, 1, 2, 3, 5] {
            let conditions = Conditions { members, ..group() };
            let front = front(&target(0.9, 100, 1.0), &conditions, &[Code::Xor, LINEAR]);
            let c_max = front.iter().map(|choice| u32::from(choice.setting.c)).max();
            assert!(c_max.is_some_and(|c| c <= members.saturating_sub(1).max(1)), "{c_max:?}");
        }
    }

    #[test]
    fn each_step_of_the_front_costs_more_and_recovers_more() {
        let front = front(&target(0.9, 10, 0.5), &group(), &[Code::Xor, LINEAR]);
        assert!(front.len() > 5);
        for pair in front.windows(2) {
            assert!(pair[0].bytes_per_packet <= pair[1].bytes_per_packet, "{pair:?}");
            assert!(pair[0].in_time < pair[1].in_time, "{pair:?}");
        }
    }
}
