//! Keeping to a target: the rate of fire follows what is measured.

use std::time::Duration;

use super::config::check;
use super::interface::{Event, Timer};
use super::slingshot::{Cx, Slingshot};
use super::tuner::{self, Conditions, Corrector, Target, Unreachable, choose};
use super::{Config, ConfigError, Rate};
use crate::core::Instant;

/// How often a member looks at what it has measured.
const TURN: Duration = Duration::from_secs(1);
/// Losses that must be counted before another loss than that assumed is believed in.
const LOSSES_MIN: f64 = 60.0;
/// Packets and losses of earlier turns count for this much less with each turn.
const FADES: f64 = 0.8;
/// What the loss or the rate must differ by, as a factor, for the settings to be looked for anew.
const DIFFERS: f64 = 1.4;
/// The least loss that is reckoned with: none at all is never certain.
const LOSS_MIN: f64 = 1e-4;

/// What a member counted since the last turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Packets that came from their senders, and their bytes.
    pub(super) direct: u64,
    pub(super) direct_bytes: u64,
    /// Own packets.
    pub(super) own: u64,
    /// Packets that did not, and what became of them is known.
    pub(super) missed: u64,
    /// Of these, those that came in time.
    pub(super) in_time: u64,
}

/// How a member keeps to its target.
#[derive(Debug)]
pub(super) struct Steering {
    target: Target,
    code: tuner::Code,
    /// What the settings were looked for under.
    conditions: Conditions,
    corrector: Option<Corrector>,
    /// Of this and earlier turns, the earlier ones counting less: packets and losses.
    heard: f64,
    missed: f64,
    /// Packets a second of all senders, the same way.
    rate: Option<f64>,
    since: Instant,
    pub(super) is_armed: bool,
}

impl Steering {
    pub(super) fn new(config: &Config) -> Option<Steering> {
        let target = config.target?;
        let conditions = Conditions {
            id_bytes: if config.has_overlap { 11.0 } else { 10.0 },
            ..Conditions::new(0, 0.0, 0.0)
        };
        Some(Steering {
            target,
            code: config.code.for_tuner(),
            conditions,
            corrector: None,
            heard: 0.0,
            missed: 0.0,
            rate: None,
            since: Instant::ZERO,
            is_armed: false,
        })
    }

    /// The conditions as measured, if they are other ones than the settings were looked for under.
    fn changed(&mut self, members: usize, tally: Tally, passed: Duration) -> Option<Conditions> {
        let packets = (tally.direct + tally.missed + tally.own) as f64;
        let now = packets / passed.as_secs_f64().max(1e-3);
        let rate = self.rate.map_or(now, |before| 0.5 * before + 0.5 * now);
        self.rate = Some(rate);
        self.heard = self.heard * FADES + (tally.direct + tally.missed) as f64;
        self.missed = self.missed * FADES + tally.missed as f64;
        let known = self.conditions;
        let differs = |new: f64, old: f64| new > old * DIFFERS || new * DIFFERS < old;
        let measured = (self.missed / self.heard.max(1.0)).max(LOSS_MIN);
        // What few losses say is within chance of what was assumed.
        let expected = self.heard * known.loss;
        let is_believed = self.missed.max(expected) >= LOSSES_MIN;
        let is_first = self.corrector.is_none();
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let is_other = is_first
            || members != known.members
            || differs(rate, known.packets_per_second)
            || (is_believed && differs(measured, known.loss));
        is_other.then(|| Conditions {
            members,
            loss: if is_first || is_believed { measured } else { known.loss },
            packets_per_second: rate,
            packet_bytes: match tally.direct {
                0 => known.packet_bytes,
                packets => tally.direct_bytes as f64 / packets as f64,
            },
            ..known
        })
    }
}

impl Slingshot {
    /// Packets are under way: what becomes of them will be looked at.
    pub(super) fn arm_steering(&mut self, cx: &mut Cx<'_>) {
        let Some(steering) = self.steering.as_mut().filter(|steering| !steering.is_armed) else {
            return;
        };
        let tally = &self.ledger.tally;
        if tally.direct + tally.own + tally.missed > 0 {
            steering.is_armed = true;
            steering.since = cx.now;
            cx.set_timer(TURN, Timer::Steer);
        }
    }

    /// Looks at what was measured since the last turn, and changes the rate of fire if that is
    /// called for.
    pub(super) fn steer(&mut self, cx: &mut Cx<'_>) {
        let Some(steering) = &mut self.steering else { return };
        steering.is_armed = false;
        let tally = std::mem::take(&mut self.ledger.tally);
        let passed = cx.now.since(steering.since);
        let members = self.view.len();
        if members < 2 || tally.direct + tally.missed == 0 {
            return;
        }
        let setting = match steering.changed(members, tally, passed) {
            Some(conditions) => {
                let (target, codes) = (steering.target, [steering.code]);
                steering.conditions = conditions;
                steering.corrector = Corrector::new(target, &conditions, &codes);
                let expected = choose(&target, &conditions, &codes);
                let in_time = match &expected {
                    Ok(choice) => Some(choice.in_time),
                    Err(Unreachable::InTime { best }) => Some(best.in_time),
                    Err(Unreachable::Overhead { .. }) => None,
                };
                let setting = steering.corrector.as_ref().map(Corrector::setting);
                if let (Some(setting), Some(in_time)) = (setting, in_time) {
                    cx.count("slingshot_retuned", 1);
                    cx.deliver(Event::Tuned {
                        rate: Rate { r: setting.r.into(), c: setting.c.into() },
                        is_within_reach: expected.is_ok(),
                        expected_ppm: (in_time * 1e6) as u32,
                        loss_ppm: (conditions.loss * 1e6) as u32,
                        packets_per_second: conditions.packets_per_second as u32,
                    });
                }
                setting
            }
            None => {
                let corrector = steering.corrector.as_mut();
                let setting = corrector.and_then(|c| c.observe(tally.missed, tally.in_time));
                if setting.is_some() {
                    cx.count("slingshot_corrected", 1);
                }
                setting
            }
        };
        if let Some(setting) = setting {
            self.set_rate(Rate { r: setting.r.into(), c: setting.c.into() });
        }
    }
}

/// Checks a target.
pub(super) fn check_target(target: &Target) -> Result<(), ConfigError> {
    let percent = |share: f64| (share * 100.0) as usize;
    let is_share = |share: f64| share > 0.0 && share < 1.0;
    let (share, overhead) = (target.share, target.overhead_max);
    check("target.share", percent(share), is_share(share), "above 0 and below 100 %")?;
    let expected = "above 0 and below 100 %";
    check("target.overhead_max", percent(overhead), is_share(overhead), expected)?;
    let margin = target.margin;
    check("target.margin", percent(margin), (0.0..1.0).contains(&margin), "0 to below 100 %")?;
    if target.within.is_zero() {
        return Err(ConfigError::NoTime { knob: "target.within" });
    }
    Ok(())
}
