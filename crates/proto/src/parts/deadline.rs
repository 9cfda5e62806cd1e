//! A kind of timer and the instant for which it is armed.
//!
//! Drivers do not cancel timers, and a protocol arms a kind of timer at most once at a time
//! ([`Protocol`], "The contract"). A [`Deadline`] ensures that. It arms a
//! timer only if no armed one fires in time, and it distinguishes a timer that fires at the
//! deadline from one that was armed for an earlier instant. On the latter a handler only sets the
//! deadline again, from its own state.

use std::time::Duration;

use crate::core::{Context, Instant, Protocol};

/// When a kind of timer fires next, if it is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    // `Instant::MAX` while no timer is armed.
    armed_for: Instant,
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline::UNARMED
    }
}

impl Deadline {
    /// No timer is armed.
    pub const UNARMED: Deadline = Deadline { armed_for: Instant::MAX };

    /// Arms `timer` for `at`, or for now if that is past, unless it is armed for that instant or
    /// an earlier one. [`Instant::MAX`] arms nothing.
    pub fn set<P: Protocol>(&mut self, cx: &mut Context<'_, P>, at: Instant, timer: P::Timer) {
        if let Some(at) = self.arm(cx.now, at) {
            cx.outbox.timers.push((at, timer));
        }
    }

    /// Arms `timer` for `after` from now on, as [`Deadline::set`] does.
    pub(crate) fn set_after<P: Protocol>(
        &mut self,
        cx: &mut Context<'_, P>,
        after: Duration,
        timer: P::Timer,
    ) {
        self.set(cx, cx.now + after, timer);
    }

    /// [`Deadline::set`] for a part that has no outbox: returns the instant for which its protocol
    /// has to arm the timer, `None` if it must arm none.
    pub(crate) fn arm(&mut self, now: Instant, at: Instant) -> Option<Instant> {
        let at = at.max(now);
        (at < self.armed_for).then(|| {
            self.armed_for = at;
            at
        })
    }

    /// The timer has fired: true, and it is no longer armed, if that is the fire that counts.
    pub fn fired(&mut self, now: Instant) -> bool {
        let counts = self.armed_for <= now;
        if counts {
            self.armed_for = Instant::MAX;
        }
        counts
    }

    /// True while a timer is armed that has not fired.
    pub fn is_armed(self) -> bool {
        self.armed_for != Instant::MAX
    }

    /// How long ago the timer was due, if it has not fired: how long the driver did not run. Zero
    /// if it is not due.
    pub(crate) fn late_by(self, now: Instant) -> Duration {
        now.since(self.armed_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_timer_is_armed_once_until_it_fires() {
        let mut deadline = Deadline::default();
        assert!(!deadline.is_armed());
        assert_eq!(deadline.arm(at(0), at(10)), Some(at(10)));
        assert_eq!(deadline.arm(at(1), at(10)), None);
        assert_eq!(deadline.arm(at(1), at(11)), None, "the first fire sets it again");
        assert!(deadline.is_armed());
        assert!(deadline.fired(at(12)), "a driver may be late");
        assert!(!deadline.is_armed() && !deadline.fired(at(12)));
        assert_eq!(deadline.arm(at(12), at(13)), Some(at(13)));
    }

    #[test]
    fn an_earlier_instant_replaces_a_later_one_whose_fire_does_not_count() {
        let mut deadline = Deadline::UNARMED;
        assert_eq!(deadline.arm(at(0), at(30)), Some(at(30)));
        assert_eq!(deadline.arm(at(0), at(10)), Some(at(10)));
        assert!(deadline.fired(at(10)));
        assert_eq!(deadline.arm(at(10), at(40)), Some(at(40)));
        // The timer that was armed for 30 cannot be cancelled.
        assert!(!deadline.fired(at(30)) && deadline.is_armed());
        assert!(deadline.fired(at(40)));
    }

    #[test]
    fn what_is_past_is_due_now_and_armed_once() {
        let mut deadline = Deadline::UNARMED;
        assert_eq!(deadline.arm(at(10), at(3)), Some(at(10)));
        assert_eq!(deadline.arm(at(10), at(3)), None);
        // The driver is late, and another input comes first.
        assert_eq!(deadline.arm(at(12), at(3)), None);
        assert_eq!(
            (deadline.late_by(at(9)), deadline.late_by(at(12)).as_millis()),
            (Duration::ZERO, 2)
        );
        assert!(deadline.fired(at(12)));
    }

    #[test]
    fn never_arms_nothing() {
        let mut deadline = Deadline::UNARMED;
        assert_eq!(deadline.arm(at(1), Instant::MAX), None);
        assert!(!deadline.is_armed() && !deadline.fired(Instant::from_nanos(u64::MAX - 1)));
        assert_eq!(deadline.late_by(Instant::MAX), Duration::ZERO);
    }
}
