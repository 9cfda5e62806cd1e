//! The settings of a node.

use std::time::Duration;

use super::controller::ControllerConfig;
use super::shaper::ShaperConfig;
use crate::core::ConfigError;
use crate::core::knobs::{ABOVE_ZERO, knobs};
use crate::ndn::Signer;

knobs! {
    /// What all nodes of a run share.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// Overhead of a packet on the link, bytes. The default is Ethernet's 14, IPv4's 20 and
        /// UDP's 8, as a shaped port counts them.
        pub frame_bytes: usize [bytes] = 42;
        /// Maximum timer delay for which the pacing of links, Interests and consumers compensates
        /// by a burst. Zero where the driver's timers are exact; some milliseconds on sockets.
        pub catch_up: Duration = Duration::ZERO;
        /// Interests pending at a node.
        pub pending_max: usize [interests] = 1 << 16, 1..;
        /// Bytes of memory of the PIT, names included. Without a value 1 KiB for each of
        /// `pending_max`, at least 1 MiB.
        pub pending_bytes_max: Option<usize> [bytes] = None, 1..;
        /// Bytes of the content store.
        pub store_bytes_max: usize [bytes] = 0;
        /// How long a packet may wait at a face before Data is marked.
        pub mark_after: Duration [time; library] = Duration::from_millis(5);
        /// Maximum number of segments of a flow in flight or out of order.
        pub window_max: usize [segments] = 1 << 14, 1..;
        /// Minimum interval between probes of an unused path, which keep its stamped rate current.
        pub probe_every: Duration = Duration::from_millis(100), ABOVE_ZERO..;
        /// How often a flow looks for further paths.
        pub discover_every: Duration = Duration::from_secs(1), ABOVE_ZERO..;
        /// Share of the stamped rate of unused paths that a flow spends on probing them; each is
        /// probed at least every 5 s.
        pub probe_share: f64 = 0.01, f64::MIN_POSITIVE..=1.0;
        /// Factor by which the rate of another path must exceed that of the primary path to replace
        /// it.
        pub switch_gain: f64 = 1.1, 1.0..;
        /// Whether a consumer's Interests carry its round-trip time, from which forwarders derive
        /// the interval between rate updates.
        pub tells_round_trip: bool [flag; library] = true;
    }
    with {
        /// How stamped rates are computed.
        controller: ControllerConfig = ControllerConfig::default();
        /// The hop-by-hop shaper of Interests.
        shaper: ShaperConfig = ShaperConfig::default();
        /// How objects that a node publishes are signed. Default the digest of each Data.
        signer: Signer = Signer::Digest;
    }
    rules: Config::rules;
}

/// Default bytes of the table of pending Interests for each entry: twice what an entry with a name
/// of usual length takes.
const PENDING_BYTES: usize = 1 << 10;
/// Least default of the table's bytes, however few entries it may have.
const PENDING_BYTES_MIN: usize = 1 << 20;

/// How much lost time is made up for where timers are an operating system's: these are late by a
/// fraction of a millisecond, and on a busy machine by as long as others may run, 3 to 4 ms.
const CATCH_UP: Duration = Duration::from_millis(4);
/// Some bursts of catching up. With 10 ms a rate that others have half of the processor's time for
/// is 2 to 4 % lower: each burst that falls into one interval costs two or three of them.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(20);
/// One Data more or less is a tenth then.
const ROUND_TRIP_DATA_MIN: f64 = 10.0;

impl Config {
    /// The same for sockets, where timers are late: lost time is made up for, and rates are set no
    /// more often than every 20 ms, nor than a link carries ten Data.
    pub fn on_sockets(mut self) -> Config {
        self.catch_up = self.catch_up.max(CATCH_UP);
        let controller = &mut self.controller;
        controller.round_trip_min = controller.round_trip_min.max(ROUND_TRIP_MIN);
        controller.round_trip_data_min = controller.round_trip_data_min.max(ROUND_TRIP_DATA_MIN);
        self
    }

    /// Bytes of memory that the table of pending Interests may hold.
    pub fn pending_bytes(&self) -> usize {
        let usual = self.pending_max.saturating_mul(PENDING_BYTES).max(PENDING_BYTES_MIN);
        self.pending_bytes_max.unwrap_or(usual)
    }

    fn rules(&self) -> Result<(), ConfigError> {
        self.controller.check()?;
        self.shaper.check()?;
        // At full headroom there is nothing to choose between.
        let (shaper, controller) = (self.shaper.headroom, self.controller.headroom);
        let holds = shaper > controller || controller >= 1.0;
        let expected = "above the controller's `headroom`, or Interests queue for ever";
        ConfigError::unless(holds, "shaper_headroom", shaper, expected)
    }
}

/// A face: the link to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceConfig {
    /// Rate of the link to the neighbour, bit/s; none if it is not known, and then nothing is
    /// paced. Default none.
    pub out_bits_per_second: Option<u64>,
    /// Rate of the link from the neighbour, bit/s; none if it is not known, and then Interests are
    /// not held back and no rates are stamped. Default none.
    pub in_bits_per_second: Option<u64>,
    /// Bytes that may wait for the link to the neighbour. Default 256 KiB.
    pub queue_bytes_max: usize,
}

impl Default for FaceConfig {
    fn default() -> Self {
        FaceConfig {
            out_bits_per_second: None,
            in_bits_per_second: None,
            queue_bytes_max: 256 << 10,
        }
    }
}

impl FaceConfig {
    /// A link of this rate both ways, bit/s.
    pub fn of_rate(bits_per_second: u64) -> FaceConfig {
        FaceConfig {
            out_bits_per_second: Some(bits_per_second),
            in_bits_per_second: Some(bits_per_second),
            ..FaceConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_sockets_a_burst_of_catching_up_is_a_small_part_of_an_interval() {
        let config = Config::default().on_sockets();
        assert!(config.catch_up * 5 <= config.controller.round_trip_min);
        assert!(config.check().is_ok());
    }

    #[test]
    fn sockets_shorten_nothing() {
        let mut slow = Config { catch_up: Duration::from_secs(1), ..Config::default() };
        slow.controller.round_trip_min = Duration::from_secs(2);
        slow.controller.round_trip_data_min = 100.0;
        let on_sockets = slow.clone().on_sockets();
        assert_eq!(on_sockets.catch_up, slow.catch_up);
        assert_eq!(on_sockets.controller, slow.controller);
    }
}
