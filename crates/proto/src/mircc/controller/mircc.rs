use std::time::Duration;

use super::{ControllerConfig, FLOOR_SHARE, Interval, RateController, join_rate};

/// The secondary pool is never taken for smaller than this share of the capacity.
const SECONDARY_POOL_SHARE: f64 = 0.05;

/// MIRCC's controller, for both classes of traffic.
///
/// Source: Mahdian, Arianfar, Gibson, Oran, *MIRCC: Multipath-aware ICN Rate-based Congestion
/// Control*, ACM ICN 2016, slides 14 and 22.
#[derive(Clone, Debug)]
pub struct Mircc {
    capacity: f64,
    headroom: f64,
    queue_weight: f64,
    fixed_interval: Option<Duration>,
    primary: Class,
    secondary: Class,
    join: f64,
}

/// One class: its rate, and what arrived in the interval before.
#[derive(Clone, Copy, Debug)]
struct Class {
    rate: f64,
    arrivals: f64,
}

impl Class {
    /// The recursion of slide 22. Base rate and excess rate, with N = pool / R(t-T), add up to
    /// R(t) = R(t-T) (1 + (target - y - beta q / d) / pool), where the pool is max(C, y).
    fn update(&mut self, arrivals: f64, spare: f64, capacity: f64, queue: f64, weight: f64) {
        // beta(t) = max(beta', (y(t) - y(t-T)) / y(t)): a queue that a sudden rise has made weighs
        // more.
        let rise = if arrivals > 0.0 { (arrivals - self.arrivals) / arrivals } else { 0.0 };
        let beta = weight.max(rise);
        let pool = capacity.max(arrivals);
        self.rate *= 1.0 + (spare - beta * queue) / pool;
        self.arrivals = arrivals;
    }

    fn clamp(&mut self, low: f64, high: f64) {
        self.rate = self.rate.max(low).min(high);
    }
}

impl Mircc {
    /// A controller of an interface of this capacity, bit/s, at which nothing has been seen: the
    /// primary class may use all, the secondary one has still to find out.
    pub fn new(config: &ControllerConfig, capacity_bits_per_second: f64) -> Mircc {
        let capacity = capacity_bits_per_second;
        let class = |rate| Class { rate, arrivals: 0.0 };
        Mircc {
            capacity,
            headroom: config.headroom,
            queue_weight: config.queue_weight,
            fixed_interval: config.interval,
            primary: class(config.headroom * capacity),
            secondary: class(FLOOR_SHARE * capacity),
            join: config.headroom * capacity,
        }
    }

    /// N(t) of slide 22: how many flows at the full rate would make the traffic that was last seen.
    pub fn flows(&self) -> f64 {
        self.capacity.max(self.primary.arrivals) / self.primary.rate
    }
}

impl RateController for Mircc {
    fn update(&mut self, seen: &Interval) {
        // Data shares the link with Interests of the other way.
        let capacity = seen.left_of(self.capacity);
        let target = self.headroom * capacity;
        let round_trip = seen.round_trip.as_secs_f64();
        let (primary, secondary) = (seen.primary_bits_per_second, seen.secondary_bits_per_second);
        let per_trip = |bits: f64| if round_trip > 0.0 { bits / round_trip } else { 0.0 };
        let primary_queue = per_trip(seen.primary_queue_bits);
        let both_queues = per_trip(seen.primary_queue_bits + seen.secondary_queue_bits);

        self.join = join_rate(target, primary, self.primary.rate);
        let spare = target - primary;
        self.primary.update(primary, spare, capacity, primary_queue, self.queue_weight);
        // The secondary class gets what the primary one leaves of the target. With a target of
        // eta (C - y_p) instead, both would add up to more than eta C.
        let pool = (capacity - primary).max(SECONDARY_POOL_SHARE * capacity);
        let spare = target - primary - secondary;
        self.secondary.update(secondary, spare, pool, both_queues, self.queue_weight);

        let floor = FLOOR_SHARE * self.capacity;
        // At most the target, not the capacity: else a path that is idle looks better than it is,
        // and flows flap between equal paths.
        self.primary.clamp(floor, target);
        self.secondary.clamp(floor, target);
        self.join = self.join.max(floor).min(target);
    }

    fn primary_bits_per_second(&self) -> f64 {
        self.primary.rate
    }

    fn secondary_bits_per_second(&self) -> Option<f64> {
        Some(self.secondary.rate)
    }

    fn join_bits_per_second(&self) -> f64 {
        self.join
    }

    fn interval(&self, round_trip: Duration) -> Duration {
        self.fixed_interval.unwrap_or(round_trip)
    }

    fn is_at_rest(&self) -> bool {
        let target = self.headroom * self.capacity;
        self.primary.rate >= target && self.secondary.rate >= target
    }
}
