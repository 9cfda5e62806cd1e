//! How long walks take.

use std::time::Duration;

/// A smoothed time and its deviation. Source: RFC 2988, section 2, and the paper's slides:
/// srtt <- 7/8 srtt + 1/8 t, dev <- 3/4 dev + 1/4 |t - srtt|.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    smoothed_nanos: u64,
    deviation_nanos: u64,
    samples: u64,
}

impl RoundTrip {
    /// Takes a measured time in.
    pub fn sample(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 8).min(u64::MAX / 8);
        if self.samples == 0 {
            (self.smoothed_nanos, self.deviation_nanos) = (nanos, nanos / 2);
        } else {
            self.smoothed_nanos = (7 * self.smoothed_nanos + nanos) / 8;
            let off = self.smoothed_nanos.abs_diff(nanos);
            self.deviation_nanos = (3 * self.deviation_nanos + off) / 4;
        }
        self.samples += 1;
    }

    /// How many times were taken in.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The time after which one is presumed lost: smoothed + 4 deviations.
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(self.smoothed_nanos + 4 * self.deviation_nanos)
    }
}
