use std::time::Duration;

use super::{ControllerConfig, FLOOR_SHARE, Interval, RateController, join_rate};

/// Gain of the spare capacity.
const ALPHA: f64 = 0.4;
/// Gain of the queue.
const BETA: f64 = 0.4;
/// The longest interval, unless another one is set.
const SLOT: Duration = Duration::from_millis(10);
/// The least rate, in packets a round trip.
const FLOOR_PACKETS: f64 = 0.01;

/// RCP's controller, which has one class: what MIRCC was compared with.
///
/// Source: Dukkipati, *Rate Control Protocol (RCP): Congestion control to make flows complete
/// quickly*, Stanford 2008, equation 2.2, with its constants.
#[derive(Clone, Debug)]
pub struct Rcp {
    capacity: f64,
    headroom: f64,
    slot: Duration,
    rate: f64,
    join: f64,
}

impl Rcp {
    /// A controller of an interface of this capacity, bit/s, at which nothing has been seen.
    pub fn new(config: &ControllerConfig, capacity_bits_per_second: f64) -> Rcp {
        Rcp {
            capacity: capacity_bits_per_second,
            headroom: config.headroom,
            slot: config.interval.unwrap_or(SLOT),
            rate: config.headroom * capacity_bits_per_second,
            join: config.headroom * capacity_bits_per_second,
        }
    }
}

impl RateController for Rcp {
    fn update(&mut self, seen: &Interval) {
        let target = self.headroom * seen.left_of(self.capacity);
        let round_trip = seen.round_trip.as_secs_f64();
        if round_trip <= 0.0 {
            return;
        }
        let arrivals = seen.primary_bits_per_second + seen.secondary_bits_per_second;
        self.join = join_rate(target, arrivals, self.rate).max(FLOOR_SHARE * target).min(target);
        let queue = (seen.primary_queue_bits + seen.secondary_queue_bits) / round_trip;
        let turns = seen.length.as_secs_f64() / round_trip;
        self.rate *= 1.0 + turns * (ALPHA * (target - arrivals) - BETA * queue) / target;
        let floor = (FLOOR_PACKETS * seen.data_bits / round_trip).min(target);
        self.rate = self.rate.max(floor).min(target);
    }

    fn primary_bits_per_second(&self) -> f64 {
        self.rate
    }

    fn secondary_bits_per_second(&self) -> Option<f64> {
        None
    }

    fn join_bits_per_second(&self) -> f64 {
        self.join
    }

    fn interval(&self, round_trip: Duration) -> Duration {
        round_trip.min(self.slot)
    }

    fn is_at_rest(&self) -> bool {
        self.rate >= self.headroom * self.capacity
    }
}
