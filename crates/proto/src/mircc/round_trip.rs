//! Round-trip times of a path or a next hop, and when something is taken for lost.

use std::time::Duration;

use crate::parts::rtt::Rtt;

/// Round-trip times: the estimate, and the shortest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    rtt: Rtt,
    least: Option<Duration>,
}

/// The shortest time after which something is taken for lost.
const LOST_AFTER_MIN: Duration = Duration::from_millis(100);
/// The longest; also the time while no round trip is known.
pub(super) const LOST_AFTER_MAX: Duration = Duration::from_secs(1);

impl RoundTrip {
    /// Takes in a round trip.
    pub(in crate::mircc) fn note(&mut self, sample: Duration) {
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
        self.rtt.sample(sample);
    }

    /// The mean, once there is one.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// The shortest one.
    pub(super) fn least(&self) -> Option<Duration> {
        self.least
    }

    /// How long most round trips take at most, once there is a mean. Source: RFC 9002, sections
    /// 6.1.2 and 6.2.1.
    pub(super) fn overdue_after(&self) -> Option<Duration> {
        self.mean().map(|mean| self.rtt.timeout(mean * 9 / 8, Duration::MAX))
    }

    /// After how long without an answer something is lost.
    pub(super) fn lost_after(&self) -> Duration {
        let twice = self.mean().unwrap_or_default() * 2;
        self.rtt.timeout(twice.max(LOST_AFTER_MIN), twice.max(LOST_AFTER_MAX))
    }
}
