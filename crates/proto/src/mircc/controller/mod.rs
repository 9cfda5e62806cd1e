//! The stamping rate R(t): the rate of each flow through an interface.
//!
//! Each face has one controller, in the node at which the Data of the face arrives. It sees only
//! aggregates: the Interests that left by the face, as bits of the Data that they bring back, and
//! the Interests that waited. It keeps no state for a flow.

mod mircc;
mod rcp;

use std::time::Duration;

pub use mircc::Mircc;
pub use rcp::Rcp;

use crate::core::knobs::{ABOVE_ZERO, knobs};

/// The smallest rate that is ever stamped, as a share of the capacity.
pub(super) const FLOOR_SHARE: f64 = 0.001;

/// Data is left this share of a link, whatever Interests take.
const DATA_SHARE_MIN: f64 = 0.05;

/// An interface's measurements in one interval. Interests count as the Data that they bring back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Its length.
    pub length: Duration,
    /// The share of the link that carries Data which the neighbour's own Interests take, bit/s.
    pub interests_bits_per_second: f64,
    /// Arrivals of the primary class, y_p, bit/s.
    pub primary_bits_per_second: f64,
    /// Arrivals of the secondary class, y_s, bit/s.
    pub secondary_bits_per_second: f64,
    /// Primary Interests that wait in the shaper, q_p, bits.
    pub primary_queue_bits: f64,
    /// Secondary Interests that wait in the shaper, q_s, bits.
    pub secondary_queue_bits: f64,
    /// Longest round trip of the flows that pass, d.
    pub round_trip: Duration,
    /// Mean size of a Data, bits on the link.
    pub data_bits: f64,
}

impl Interval {
    /// The rest of a link's capacity that Data may take.
    fn left_of(&self, capacity: f64) -> f64 {
        (capacity - self.interests_bits_per_second).max(DATA_SHARE_MIN * capacity)
    }
}

/// The rate that one more flow would get at an interface, bit/s, from aggregates. It is the larger
/// of an equal share beside the N = max(target, y) / R flows that now send `arrivals` at the rate
/// `rate`, and of all that these leave.
///
/// N is that of slide 22 with the target eta C in place of C: N is the number of flows then if all
/// of them are limited here, since their arrivals settle at the target.
fn join_rate(target: f64, arrivals: f64, rate: f64) -> f64 {
    let flows = target.max(arrivals) / rate;
    (target / (flows + 1.0)).max(target - arrivals)
}

/// Computes the rates that an interface stamps.
pub trait RateController {
    /// Takes in an interval and sets the rates for the next.
    fn update(&mut self, seen: &Interval);

    /// The rate of a flow's primary class, bit/s. Finite, above zero, at most the capacity.
    fn primary_bits_per_second(&self) -> f64;

    /// The rate of a subflow's secondary class, bit/s; `None` if the controller has no such class.
    fn secondary_bits_per_second(&self) -> Option<f64>;

    /// The rate that the primary class of one more flow would get, bit/s. Finite, above zero, at
    /// most the capacity.
    fn join_bits_per_second(&self) -> f64;

    /// The length of the next interval, for flows of this round trip.
    fn interval(&self, round_trip: Duration) -> Duration;

    /// True if an update without arrivals would change nothing.
    fn is_at_rest(&self) -> bool;
}

/// The controller of a node's interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// MIRCC. The default.
    #[default]
    Mircc,
    /// RCP, as it was published for IP: what MIRCC is compared with.
    Rcp,
}

knobs! {
    /// The settings of a controller.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ControllerConfig {
        /// The share of the capacity that is granted to flows: eta of MIRCC, gamma of RCP. The
        /// remaining capacity drains queues.
        pub headroom: f64 = 0.95, f64::MIN_POSITIVE..=1.0;
        /// MIRCC: the least weight of the queue, beta'.
        pub queue_weight: f64 = 0.1, 0.0..=1.0;
        /// Length of an update interval of MIRCC, and maximum length of RCP, which uses a shorter
        /// round trip. Without a value the round trip of the flows, and 10 ms.
        ///
        /// On one bottleneck MIRCC also settles with half and a quarter of a round trip, and
        /// sooner; with a ninth or less it does not, nor where round trips differ and the interval
        /// is a small part of the longest. With intervals of many round trips a flow that arrives
        /// is refused for long: at 1 Mbit/s, a round trip of 28 ms and intervals of 250 ms its rate
        /// is 70 % off.
        pub interval: Option<Duration> = None, ABOVE_ZERO..;
        /// Lower bound of the round trip. The default is for drivers with exact timers. On sockets
        /// use some milliseconds: packets arrive in bursts there, and in an interval shorter than a
        /// burst the rate follows the burst and then collapses.
        pub round_trip_min: Duration [time; library] = Duration::from_micros(100);
        /// Lower bound of the number of Data that the link carries in a round trip, for the same
        /// reason.
        pub round_trip_data_min: f64 [data; library] = 0.0;
    }
    with {
        /// Which one. Default MIRCC.
        algorithm: Algorithm = Algorithm::Mircc;
    }
}

/// One of the controllers, chosen at run time.
#[derive(Clone, Debug)]
pub enum Controller {
    /// MIRCC.
    Mircc(Mircc),
    /// RCP.
    Rcp(Rcp),
}

impl Controller {
    /// A controller of an interface of this capacity, bit/s, at which nothing has been seen.
    pub fn new(config: &ControllerConfig, capacity_bits_per_second: f64) -> Controller {
        match config.algorithm {
            Algorithm::Mircc => Controller::Mircc(Mircc::new(config, capacity_bits_per_second)),
            Algorithm::Rcp => Controller::Rcp(Rcp::new(config, capacity_bits_per_second)),
        }
    }
}

impl RateController for Controller {
    fn update(&mut self, seen: &Interval) {
        match self {
            Controller::Mircc(mircc) => mircc.update(seen),
            Controller::Rcp(rcp) => rcp.update(seen),
        }
    }

    fn primary_bits_per_second(&self) -> f64 {
        match self {
            Controller::Mircc(mircc) => mircc.primary_bits_per_second(),
            Controller::Rcp(rcp) => rcp.primary_bits_per_second(),
        }
    }

    fn secondary_bits_per_second(&self) -> Option<f64> {
        match self {
            Controller::Mircc(mircc) => mircc.secondary_bits_per_second(),
            Controller::Rcp(rcp) => rcp.secondary_bits_per_second(),
        }
    }

    fn join_bits_per_second(&self) -> f64 {
        match self {
            Controller::Mircc(mircc) => mircc.join_bits_per_second(),
            Controller::Rcp(rcp) => rcp.join_bits_per_second(),
        }
    }

    fn interval(&self, round_trip: Duration) -> Duration {
        match self {
            Controller::Mircc(mircc) => mircc.interval(round_trip),
            Controller::Rcp(rcp) => rcp.interval(round_trip),
        }
    }

    fn is_at_rest(&self) -> bool {
        match self {
            Controller::Mircc(mircc) => mircc.is_at_rest(),
            Controller::Rcp(rcp) => rcp.is_at_rest(),
        }
    }
}

#[cfg(test)]
mod tests;
