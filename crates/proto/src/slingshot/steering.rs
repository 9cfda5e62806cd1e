//! Steering to a target: the rate of fire follows measurements.
//!
//! Once a second, while there is traffic, a member evaluates its losses. If the conditions differ
//! from those for which its rate of fire was chosen, it chooses a new one; else a [`Corrector`]
//! adjusts the rate by the share that came in time, by repair or on request. Neither follows noise:
//! a count differs from its expectation only if it does so by the factor [`DIFFERS`] and by
//! [`ERRORS`] standard errors, and counts go back as far as that takes.

use std::time::Duration;

use super::counters;
use super::interface::{Event, Timer};
use super::tuner::{self, Conditions, Corrector, Target};
use super::{Config, Rate};
use super::{Cx, Slingshot};
use crate::core::ConfigError;
use crate::core::Instant;
use crate::parts::deadline::Deadline;

/// How often a member evaluates its measurements.
const TURN: Duration = Duration::from_secs(1);
/// The factor by which loss, rate or members must change before the settings are chosen again.
const DIFFERS: f64 = 1.4;
/// The least significance of such a change, in standard errors.
const ERRORS: f64 = 3.0;
/// The factor by which the weight of earlier turns decays with each turn. The long-run counts decay
/// only while `COUNTED_MIN` remain.
const FADES: f64 = 0.8;
const COUNTED_MIN: f64 = 60.0;
/// If the turn that shows a change has at least this weight, earlier turns are discarded.
const CHANGED_MIN: f64 = 8.0;
/// The lower bound of estimated loss: zero loss is never certain.
const LOSS_MIN: f64 = 1e-4;

/// What a member counted since the last turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Packets that came from their senders, and their bytes.
    pub(super) direct: u64,
    pub(super) direct_bytes: u64,
    /// Own packets.
    pub(super) own: u64,
    /// Packets that did not come from their senders, and whose outcome is known.
    pub(super) missed: u64,
    /// Of these, those that came in time.
    pub(super) in_time: u64,
    /// Repaired packets that later also came from their senders: they were not lost.
    pub(super) overtaken: u64,
    /// When the last one came or was sent.
    pub(super) latest: Instant,
}

impl Tally {
    /// The same counts, with overtaken packets counted as direct ones. Some may have been repaired
    /// in the turn before.
    fn settled(self) -> Tally {
        let not_missed = self.overtaken.min(self.missed);
        Tally {
            direct: self.direct + not_missed,
            missed: self.missed - not_missed,
            in_time: self.in_time.saturating_sub(not_missed),
            overtaken: 0,
            ..self
        }
    }
}

/// How a member keeps to its target.
#[derive(Debug)]
pub(super) struct Steering {
    target: Target,
    code: tuner::Code,
    /// What the setting was chosen under; no members before the first was.
    conditions: Conditions,
    /// Packets of all senders per second, and the share of them that a bin gets.
    rate: f64,
    bin_share: f64,
    /// None if no setting has as little overhead as it may.
    corrector: Option<Corrector>,
    /// The counts of the next turn partly belong to an earlier setting.
    is_settling: bool,
    /// Losses, among packets of others.
    losses: Counts,
    /// Packets of all, among seconds.
    packets: Counts,
    since: Instant,
    next_turn: Deadline,
}

/// The number of events, and the number of opportunities.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    counted: f64,
    among: f64,
}

/// Counts over as many turns as significance needs, and over the last few turns, which show a
/// change first.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    long: Count,
    recent: Count,
}

impl Counts {
    /// Counts a turn. True if the ratio is another one than it was taken to be.
    fn add(&mut self, turn: Count, known: f64) -> bool {
        let fades = if self.long.weight(known) * FADES >= COUNTED_MIN { FADES } else { 1.0 };
        self.long.add(turn, fades);
        self.recent.add(turn, FADES);
        if self.recent.is_other(known) {
            if turn.weight(known) >= CHANGED_MIN {
                self.recent = turn;
            }
            self.long = self.recent;
            return true;
        }
        self.long.is_other(known)
    }
}

impl Count {
    fn add(&mut self, turn: Count, fades: f64) {
        self.counted = self.counted * fades + turn.counted;
        self.among = self.among * fades + turn.among;
    }

    fn is_other(&self, known: f64) -> bool {
        let expected = self.among * known;
        let error = ERRORS * self.weight(known).sqrt();
        differs(self.counted, expected) && (self.counted - expected).abs() > error
    }

    /// What was counted or should have been: its error is the root of this.
    fn weight(&self, known: f64) -> f64 {
        self.counted.max(self.among * known)
    }
}

fn differs(new: f64, old: f64) -> bool {
    new > old * DIFFERS || new * DIFFERS < old
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
            rate: 0.0,
            bin_share: 1.0,
            corrector: None,
            is_settling: false,
            losses: Counts::default(),
            packets: Counts::default(),
            since: Instant::ZERO,
            next_turn: Deadline::UNARMED,
        })
    }

    /// The conditions as measured, if they are other ones than the setting was chosen under.
    /// `members` are those of a group, and a bin gets `bin_share` of the packets.
    fn changed(
        &mut self,
        members: usize,
        bin_share: f64,
        tally: Tally,
        now: Instant,
    ) -> Option<Conditions> {
        let known = self.conditions;
        let is_first = known.members == 0;
        let heard = tally.direct + tally.missed;
        let losses = Count { counted: tally.missed as f64, among: heard as f64 };
        let is_loss_other = self.losses.add(losses, known.loss);
        // As if one of a hundred packets more had been lost, for when there are few.
        let loss = (self.losses.long.counted + 1.0) / (self.losses.long.among + 100.0);
        let loss = loss.max(LOSS_MIN);
        let is_loss_other = is_loss_other && differs(loss, known.loss);

        let seconds = now.since(self.since).as_secs_f64().max(1e-3);
        let packets = Count { counted: (heard + tally.own) as f64, among: seconds };
        // If the traffic has stopped meanwhile, the turn is no sample of its rate.
        let is_whole = now.since(tally.latest) <= TURN / 4;
        let is_rate_other = (is_first || is_whole) && self.packets.add(packets, self.rate);

        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let others = |members: u32| f64::from(members.saturating_sub(1));
        let copies = self.corrector.as_ref().map_or(0, |corrector| corrector.setting().c);
        let are_members_other = differs(others(members), others(known.members))
            || u32::from(copies) >= members
            || differs(bin_share, self.bin_share);
        if !(is_first || is_loss_other || is_rate_other || are_members_other) {
            return None;
        }
        if is_first || is_rate_other {
            self.rate = self.packets.long.counted / self.packets.long.among;
        }
        self.bin_share = bin_share;
        Some(Conditions {
            members,
            loss: if is_first || is_loss_other { loss } else { known.loss },
            packets_per_second: self.rate * bin_share,
            packet_bytes: match tally.direct {
                0 => known.packet_bytes,
                packets => tally.direct_bytes as f64 / packets as f64,
            },
            ..known
        })
    }
}

impl Slingshot {
    /// Packets are under way: arms the timer for their evaluation.
    pub(super) fn arm_steering(&mut self, cx: &mut Cx<'_>) {
        let Some(steering) = &mut self.steering else { return };
        if steering.next_turn.is_armed() {
            return;
        }
        let tally = &self.ledger.tally;
        if tally.direct + tally.own + tally.missed > 0 {
            steering.since = cx.now;
            steering.next_turn.set_after(cx, TURN, Timer::Steer);
        }
    }

    /// Evaluates the measurements since the last turn, and changes the rate of fire if needed.
    pub(super) fn steer(&mut self, cx: &mut Cx<'_>) {
        let Some(steering) = self.steering.as_mut() else { return };
        if !steering.next_turn.fired(cx.now) {
            return;
        }
        let tally = std::mem::take(&mut self.ledger.tally).settled();
        let joined = self.groups.iter().filter(|group| group.is_joined);
        let (groups, members) = joined
            .fold((0, 0), |(groups, members), group| (groups + 1, members + group.members.len()));
        let members = members.div_ceil(groups.max(1));
        if members < 2 || tally.direct + tally.missed == 0 {
            return;
        }
        let bin_share = self.bins.region_share() / cx.shared.code.bins() as f64;
        let setting = match steering.changed(members, bin_share, tally, cx.now) {
            Some(conditions) => {
                steering.conditions = conditions;
                steering.is_settling = true;
                steering.corrector = Corrector::new(steering.target, &conditions, &[steering.code]);
                let chosen = steering.corrector.as_ref().map(|corrector| {
                    let in_time = corrector.expected_in_time();
                    (corrector.setting(), in_time, corrector.is_within_reach())
                });
                let rate = chosen.map_or(self.rate, |(setting, ..)| Rate::of(setting));
                cx.count(counters::RETUNED, 1);
                cx.deliver(Event::Tuned {
                    rate,
                    is_within_reach: chosen.is_some_and(|(.., is_within_reach)| is_within_reach),
                    expected_ppm: chosen.map_or(0, |(_, in_time, _)| (in_time * 1e6) as u32),
                    loss_ppm: (conditions.loss * 1e6) as u32,
                    packets_per_second: steering.rate as u32,
                });
                Some(rate)
            }
            None if std::mem::take(&mut steering.is_settling) => None,
            None => {
                let corrector = steering.corrector.as_mut();
                let setting = corrector.and_then(|c| c.observe(tally.missed, tally.in_time));
                if setting.is_some() {
                    cx.count(counters::CORRECTED, 1);
                }
                setting.map(Rate::of)
            }
        };
        if let Some(rate) = setting {
            self.set_rate(rate);
        }
    }
}

impl Rate {
    fn of(setting: tuner::Setting) -> Rate {
        Rate { r: setting.r.into(), c: setting.c.into() }
    }
}

/// Checks a target.
pub(super) fn check_target(target: &Target) -> Result<(), ConfigError> {
    let is_share = |share: f64| share > 0.0 && share < 1.0;
    let (share, overhead) = (target.share, target.overhead_max);
    let expected = "above 0 and below 1";
    ConfigError::unless(is_share(share), "target.share", share, expected)?;
    ConfigError::unless(is_share(overhead), "target.overhead_max", overhead, expected)?;
    let margin = target.margin;
    ConfigError::unless((0.0..1.0).contains(&margin), "target.margin", margin, "0 to below 1")?;
    ConfigError::unless(!target.within.is_zero(), "target.within", target.within, "above 0")
}
