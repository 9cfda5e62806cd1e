//! What a node is set to.

use std::time::Duration;

use thiserror::Error;

use super::controller::ControllerConfig;
use super::shaper::ShaperConfig;
use crate::ndn::Signer;

/// What all nodes of a run share.
#[derive(Clone, Debug)]
pub struct Config {
    /// How stamped rates are computed.
    pub controller: ControllerConfig,
    /// How Interests are held back.
    pub shaper: ShaperConfig,
    /// Bytes that a packet costs on the link beside its own. Default 42: Ethernet 14, IPv4 20,
    /// UDP 8, as a shaped port counts them.
    pub frame_bytes: usize,
    /// How much of lost time the pacing of links, Interests and consumers makes up for at once.
    /// Default 0, for drivers whose timers are exact; on sockets some milliseconds.
    pub catch_up: Duration,
    /// Interests pending at a node. Default 65,536.
    pub pending_max: usize,
    /// Bytes of memory that the table of these may hold, names included. Default none: 1 KiB for
    /// each of `pending_max`, 1 MiB at least; 64 MiB with its default.
    pub pending_bytes_max: Option<usize>,
    /// Bytes of Data that a node keeps for others. Default 0.
    pub store_bytes_max: usize,
    /// How long a packet may wait at a face before Data is marked. Default 5 ms.
    pub mark_after: Duration,
    /// Segments that a flow may have under way or out of order. Default 16,384.
    pub window_max: usize,
    /// How often at most a path that carries nothing is tried, so that its stamps stay true.
    /// Default 100 ms.
    pub probe_every: Duration,
    /// How often a flow looks for further paths. Default 1 s.
    pub discover_every: Duration,
    /// What a flow spends on trying paths that it does not use, as a share of the rate that is
    /// stamped there; each is tried every 5 s all the same. In `(0, 1]`, default 0.01.
    pub probe_share: f64,
    /// How much better, as a factor, another path must be to become the primary one. Default 1.1.
    pub switch_gain: f64,
    /// Whether a consumer's Interests tell its round trip, by which forwarders choose how often
    /// they set rates. Default yes.
    pub tells_round_trip: bool,
    /// How objects that a node publishes are signed. Default the digest of each Data.
    pub signer: Signer,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            controller: ControllerConfig::default(),
            shaper: ShaperConfig::default(),
            frame_bytes: 42,
            catch_up: Duration::ZERO,
            pending_max: 1 << 16,
            pending_bytes_max: None,
            store_bytes_max: 0,
            mark_after: Duration::from_millis(5),
            window_max: 1 << 14,
            probe_every: Duration::from_millis(100),
            discover_every: Duration::from_secs(1),
            probe_share: 0.01,
            switch_gain: 1.1,
            tells_round_trip: true,
            signer: Signer::Digest,
        }
    }
}

/// Default bytes of the table of pending Interests for each entry: twice what an entry with a name
/// of usual length takes.
const PENDING_BYTES: usize = 1 << 10;
/// Least default of the table's bytes, however few entries it may have.
const PENDING_BYTES_MIN: usize = 1 << 20;

/// Why a configuration is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A share is not above 0 and at most 1.
    #[error("`{0}` is a share: above 0, at most 1")]
    Share(&'static str),
    /// Something that must be more is zero.
    #[error("`{0}` must be above 0")]
    Zero(&'static str),
    /// The shaper lets less pass than flows are told to send.
    #[error("the shaper's headroom must be above the controller's, or Interests queue for ever")]
    Headroom,
    /// The gain is below 1.
    #[error("`switch_gain` must be at least 1")]
    SwitchGain,
}

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

    /// Looks whether the settings make sense.
    ///
    /// # Errors
    /// If one is out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let share = |value: f64, name| match value > 0.0 && value <= 1.0 {
            true => Ok(()),
            false => Err(ConfigError::Share(name)),
        };
        share(self.controller.headroom, "controller.headroom")?;
        share(self.shaper.headroom, "shaper.headroom")?;
        share(self.probe_share, "probe_share")?;
        if self.controller.queue_weight != 0.0 {
            share(self.controller.queue_weight, "controller.queue_weight")?;
        }
        let above_zero = [
            ("shaper.queue_max", self.shaper.queue_max == 0),
            ("pending_max", self.pending_max == 0),
            ("pending_bytes_max", self.pending_bytes_max == Some(0)),
            ("window_max", self.window_max == 0),
            ("probe_every", self.probe_every.is_zero()),
            ("discover_every", self.discover_every.is_zero()),
            ("controller.interval", self.controller.interval.is_some_and(|i| i.is_zero())),
        ];
        if let Some((name, _)) = above_zero.into_iter().find(|&(_, is_zero)| is_zero) {
            return Err(ConfigError::Zero(name));
        }
        // At full headroom there is nothing to choose between.
        if self.shaper.headroom <= self.controller.headroom && self.controller.headroom < 1.0 {
            return Err(ConfigError::Headroom);
        }
        if self.switch_gain.is_nan() || self.switch_gain < 1.0 {
            return Err(ConfigError::SwitchGain);
        }
        Ok(())
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
