use std::time::Duration;

use super::choose::{cheapest, settings, with_margin};
use super::{Choice, Code, Conditions, Setting, Target, Unreachable};

/// Messages of several packets, of which a share shall be whole in time.
///
/// A message is whole once all its packets have come. Packets are lost independently with
/// probability p, and a lost one is recovered with probability s, so a message of m packets is
/// whole with probability (1 - p (1 - s))^m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Messages {
    /// Packets of each, m.
    pub packets: u32,
    /// Of the messages at receivers, this share shall be whole in time. In (0, 1).
    pub share: f64,
    /// In this time after the first sign of any of their packets.
    pub within: Duration,
}

impl Messages {
    /// How long the packets of one take to leave, if its sender sends all packets of the group.
    pub fn takes(&self, conditions: &Conditions) -> Duration {
        let seconds = f64::from(self.packets) / conditions.packets_per_second;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The target for packets with which the messages meet theirs, with repairs being at most this
    /// share of all packets. `None` if the packets take as long as the messages may.
    ///
    /// Each packet gets the time that the last one has, which the others exceed.
    pub fn target(&self, conditions: &Conditions, overhead_max: f64) -> Option<Target> {
        let within = self.within.checked_sub(self.takes(conditions))?;
        // The probability that a packet neither comes nor is recovered, at most.
        let missed_max = 1.0 - self.share.powf(1.0 / f64::from(self.packets.max(1)));
        let share = 1.0 - missed_max / conditions.loss.max(f64::MIN_POSITIVE);
        // Where packets are lost less often than that, any setting will do.
        let share = share.clamp(1e-6, 1.0 - 1e-9);
        (!within.is_zero()).then(|| Target::new(share, within, overhead_max))
    }

    /// The cheapest setting with which the messages are expected to meet their target, with repairs
    /// being at most this share of all packets. `None` if the packets take as long as the messages
    /// may. A fifth of the misses that the target allows remains unused, as in [`Target::new`].
    ///
    /// # Errors
    /// With the setting that leaves most messages whole in time, if that is not enough.
    pub fn choose(
        &self,
        conditions: &Conditions,
        overhead_max: f64,
        codes: &[Code],
    ) -> Option<Result<Choice, Unreachable>> {
        let target = self.target(conditions, overhead_max)?;
        let needed = with_margin(self.share, target.margin);
        let settings = settings(&target, conditions, codes);
        Some(cheapest(settings, needed, |choice| self.whole(conditions, choice)))
    }

    /// The share of messages that are whole in time by repairs alone, with this setting, if nothing
    /// follows a message for a while. What is asked for comes on top.
    pub fn whole(&self, conditions: &Conditions, choice: &Choice) -> f64 {
        let loss = conditions.loss_in_range();
        let comes = 1.0 - loss * (1.0 - choice.in_time);
        let ends = 1.0 - loss * self.unrepaired_at_end(conditions, choice.setting);
        comes.powf(f64::from(self.packets)) * ends.max(0.0)
    }

    /// Of the packets at the end of a message, how many no repair brings that each is lost.
    ///
    /// A packet is in window / r repairs of each member if others follow it. After the last one a
    /// member sends what is in its bin, and no more: the packet k before the last is in 1 + k / r.
    /// With the exclusive or it is in one repair of each member wherever it is.
    fn unrepaired_at_end(&self, conditions: &Conditions, setting: Setting) -> f64 {
        let Code::Linear { window } = setting.code else { return 0.0 };
        let others = conditions.others();
        let from_each = f64::from(setting.c) * (1.0 - conditions.loss_in_range()).powi(2) / others;
        let none = (1.0 - from_each).clamp(0.0, 1.0).powf((others - 1.0).max(0.0));
        let last = self.packets.min(u32::from(window));
        let repairs = |k: u32| 1.0 + f64::from(k) / f64::from(setting.r.max(1));
        (0..last).map(|k| none.powf(repairs(k))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: Code = Code::Linear { window: 32 };

    /// 1 MiB in packets of 1,338 bytes at 100 Mbit/s.
    const MESSAGES: Messages =
        Messages { packets: 789, share: 0.999, within: Duration::from_millis(200) };

    fn group(loss: f64) -> Conditions {
        Conditions { packet_bytes: 1_338.0, ..Conditions::new(17, loss, 9_000.0) }
    }

    #[test]
    fn the_target_for_packets_is_that_of_the_messages() {
        let conditions = group(0.01);
        let target = MESSAGES.target(&conditions, 0.3).expect("112 ms are left");
        assert_eq!(target.within.as_millis(), 112);
        let miss = 1.0 - (1.0 - 0.01 * (1.0 - target.share)).powi(789);
        assert!((miss - 0.001).abs() < 1e-9, "{miss}");
        assert!((0.9998..0.9999).contains(&target.share), "{target:?}");
        let none = MESSAGES.target(&Conditions { packets_per_second: 3_900.0, ..conditions }, 0.3);
        assert_eq!(none, None, "they take 202 ms");
        let rare = MESSAGES.target(&group(1e-7), 0.3).expect("packets are hardly ever lost");
        assert!(rare.share < 0.01, "{rare:?}");
    }

    #[test]
    fn a_mebibyte_at_one_percent_loss_is_whole_with_the_linear_code() {
        let conditions = group(0.01);
        let choice = |code| MESSAGES.choose(&conditions, 0.3, &[code]).expect("there is time");
        let (xor, linear) = (choice(Code::Xor), choice(LINEAR));
        println!("{xor:?}\n{linear:?}");
        assert!(xor.is_err(), "peeling leaves more: {xor:?}");
        let choice = linear.expect("with less than 30 % of repairs");
        assert!(MESSAGES.whole(&conditions, &choice) >= 0.9992, "{choice:?}");
    }

    #[test]
    fn the_end_of_a_message_wants_more_copies_than_its_middle() {
        let conditions = group(0.01);
        let target = MESSAGES.target(&conditions, 0.3).expect("there is time");
        let of = |r, c| {
            let all = settings(&target, &conditions, &[LINEAR]);
            let is_it = |choice: &&Choice| (choice.setting.r, choice.setting.c) == (r, c);
            *all.iter().find(is_it).expect("its overhead is allowed")
        };
        // As many repairs of a packet in the middle, and a quarter of them at the end.
        let (few, many) = (of(3, 1), of(12, 4));
        assert!(few.in_time > 0.9998 && many.in_time > 0.9998, "{few:?} {many:?}");
        let unrepaired = |choice: Choice| MESSAGES.unrepaired_at_end(&conditions, choice.setting);
        assert!((1.2..1.6).contains(&unrepaired(few)), "{}", unrepaired(few));
        assert!(unrepaired(many) < 0.1, "{}", unrepaired(many));
        assert!(MESSAGES.whole(&conditions, &few) < 0.99);
    }
}
