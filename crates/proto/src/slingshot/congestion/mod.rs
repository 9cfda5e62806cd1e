//! Congestion control: the rate at which a sender paces its packets follows its receivers.
//!
//! After TFMCC (RFC 4654), whose receivers measure as those of TFRC do (RFC 5348). Each receiver
//! measures its *loss event rate* ([`loss_history`]) and the rate at which packets come
//! ([`rate_meter`]); with the round-trip time, which the sender measures and announces, the
//! [`equation`] gives the rate that it wants. The sender follows the receiver that wants least, the
//! *current limiting receiver* ([`sender`]). So that a large group does not report at once, reports
//! wait for a random time and are cancelled when a lower rate is announced ([`suppression`]).
//!
//! Departures from RFC 4654: what it puts into each data packet goes into a message of its own
//! (a `Pulse`), about once a round-trip time, so that data packets have no byte more; round-trip
//! times below [`ROUND_TRIP_MIN`] count as that; in groups of up to 16 members every receiver
//! reports once a round; a receiver that wants too little for too long is not followed
//! (`rate_min`).

mod equation;
mod exchange;
mod loss_history;
mod rate_meter;
mod receiver;
mod sender;
mod suppression;

use std::time::Duration;

pub(super) use receiver::Receiver;
pub(super) use sender::Sender;

/// The shortest round-trip time with which rates are computed, and the least time between two
/// `Pulse`s. In a cluster a round trip takes less than the transmission of some packets: the
/// equation then gives a rate that a link carries only if most packets are lost. It is also the
/// granularity of the timers that this protocol uses.
pub(crate) const ROUND_TRIP_MIN: Duration = Duration::from_millis(10);

/// An exponentially weighted moving average: a new sample counts a tenth.
#[derive(Clone, Copy, Debug, Default)]
struct Smoothed(Option<f64>);

impl Smoothed {
    fn sample(&mut self, sample: f64) {
        self.0 = Some(self.0.map_or(sample, |value| 0.9 * value + 0.1 * sample));
    }

    /// At least 1, which it is before the first sample.
    fn value(&self) -> f64 {
        self.0.unwrap_or(1.0).max(1.0)
    }
}
