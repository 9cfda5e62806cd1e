use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use thiserror::Error;

/// The knobs of a [`Detector`](super::Detector).
///
/// A crashed member is down after the time until somebody probes it (`probe_every` on average, five
/// times that in one case of a hundred, in a large group), three times `probe_trip`, and
/// `suspect_for`. With the defaults that is 0.7 s on average. Members need not agree on the knobs,
/// except that what one sends another must take (`datagram_bytes_max`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) probe_every: Duration,
    pub(super) probe_trip: Duration,
    pub(super) suspect_for: Duration,
    pub(super) ask_for: Duration,
    pub(super) spread_every: Duration,
    pub(super) recall_every: Duration,
    pub(super) stall_min: Duration,
    pub(super) helpers: usize,
    pub(super) repeats: u8,
    pub(super) datagram_bytes_max: usize,
}

/// Why a configuration cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A time is outside its range.
    #[error("{knob} is {value:?}, expected {expected}")]
    Time {
        /// The knob's name.
        knob: &'static str,
        /// Its value.
        value: Duration,
        /// The range.
        expected: &'static str,
    },
    /// A number is outside its range.
    #[error("{knob} is {value}, expected {expected}")]
    OutOfRange {
        /// The knob's name.
        knob: &'static str,
        /// Its value.
        value: usize,
        /// The range.
        expected: &'static str,
    },
}

impl Default for Config {
    fn default() -> Config {
        Config {
            probe_every: Duration::from_millis(180),
            probe_trip: Duration::from_millis(50),
            suspect_for: Duration::from_millis(350),
            ask_for: Duration::from_millis(300),
            spread_every: Duration::from_millis(100),
            recall_every: Duration::from_millis(500),
            stall_min: Duration::from_millis(100),
            helpers: 3,
            repeats: 10,
            datagram_bytes_max: 1100,
        }
    }
}

impl Config {
    /// The defaults: a local network, 2 to 64 members.
    pub fn new() -> Config {
        Config::default()
    }

    /// Time between two probes of this member. 1 ms to 1 h, at least three trips; default 180 ms.
    /// A probe is two datagrams of 85 bytes with their headers, so at rest a member sends and
    /// receives 340 bytes in this time, however large the group.
    pub fn with_probe_every(mut self, every: Duration) -> Config {
        self.probe_every = every;
        self
    }

    /// How long an answer may take before others are asked to probe, and they and a second try get
    /// twice this. Above zero, default 50 ms: a local network's round trip, and a process that had
    /// to wait for its turn.
    pub fn with_probe_trip(mut self, trip: Duration) -> Config {
        self.probe_trip = trip;
        self
    }

    /// How long a suspected member has to refute before it is down. Above zero, default 350 ms. It
    /// is told once at the start and then every `spread_every`.
    pub fn with_suspect_for(mut self, time: Duration) -> Config {
        self.suspect_for = time;
        self
    }

    /// How long a member that [`Detector::probe`](super::Detector::probe) names has to answer one
    /// of two pings, the second half-way. At least 2 ns, default 300 ms.
    pub fn with_ask_for(mut self, time: Duration) -> Config {
        self.ask_for = time;
        self
    }

    /// How often news is passed to a few random members while there is any. Above zero, default
    /// 100 ms. Fresh news is passed on at once besides. Costs nothing at rest.
    pub fn with_spread_every(mut self, every: Duration) -> Config {
        self.spread_every = every;
        self
    }

    /// How often one of the members that are down, in turn, is told that we look for it. Above
    /// zero, default 500 ms. This is what heals a partition.
    pub fn with_recall_every(mut self, every: Duration) -> Config {
        self.recall_every = every;
        self
    }

    /// A poll that comes later than its deadline by more than this means that this member stood
    /// still: the time does not count. Above zero, default 100 ms.
    pub fn with_stall_min(mut self, stall: Duration) -> Config {
        self.stall_min = stall;
        self
    }

    /// How many members are asked to probe on our behalf, and to how many news is passed at a time.
    /// 1 to 16, default 3.
    pub fn with_helpers(mut self, helpers: usize) -> Config {
        self.helpers = helpers;
        self
    }

    /// How many datagrams of a member carry a piece of news. 1 to 255, default 10: enough for a few
    /// hundred members.
    pub fn with_repeats(mut self, repeats: u8) -> Config {
        self.repeats = repeats;
        self
    }

    /// The largest datagram, bytes; larger ones are refused. 128 to 65,507, default 1100.
    pub fn with_datagram_bytes_max(mut self, bytes: usize) -> Config {
        self.datagram_bytes_max = bytes;
        self
    }

    /// Checks the knobs against each other.
    pub fn build(self) -> Result<Config, ConfigError> {
        const HOUR: Duration = Duration::from_secs(3600);
        let times = [
            ("probe_every", self.probe_every),
            ("probe_trip", self.probe_trip),
            ("suspect_for", self.suspect_for),
            ("ask_for", self.ask_for),
            ("spread_every", self.spread_every),
            ("recall_every", self.recall_every),
            ("stall_min", self.stall_min),
        ];
        for (knob, value) in times {
            if value.is_zero() || value > HOUR {
                return Err(ConfigError::Time { knob, value, expected: "above zero, 1 h at most" });
            }
        }
        let time = |knob, value, ok, expected| {
            if ok { Ok(()) } else { Err(ConfigError::Time { knob, value, expected }) }
        };
        let every = self.probe_every;
        time("probe_every", every, every >= Duration::from_millis(1), "at least 1 ms")?;
        time("probe_every", every, every >= self.probe_trip * 3, "at least three of probe_trip")?;
        time("ask_for", self.ask_for, self.ask_for.as_nanos() >= 2, "at least 2 ns")?;
        let check = |knob, value, ok, expected| {
            if ok { Ok(()) } else { Err(ConfigError::OutOfRange { knob, value, expected }) }
        };
        check("helpers", self.helpers, (1..=16).contains(&self.helpers), "1 to 16")?;
        check("repeats", usize::from(self.repeats), self.repeats > 0, "1 to 255")?;
        let bytes = self.datagram_bytes_max;
        check("datagram_bytes_max", bytes, (128..=65_507).contains(&bytes), "128 to 65507")?;
        Ok(self)
    }

    /// What foca is told. Everything periodic but the probes is ours, because foca stops it when
    /// the last member is down; a member that is down stays known until it is no longer watched.
    pub(super) fn foca(&self) -> foca::Config {
        let helpers = NonZeroUsize::new(self.helpers).expect("checked by build");
        foca::Config {
            probe_period: self.probe_every,
            probe_rtt: self.probe_trip,
            num_indirect_probes: helpers,
            max_transmissions: NonZeroU8::new(self.repeats).expect("checked by build"),
            suspect_to_down_after: self.suspect_for,
            remove_down_after: None,
            max_packet_size: NonZeroUsize::new(self.datagram_bytes_max).expect("checked by build"),
            notify_down_members: true,
            periodic_announce: None,
            periodic_announce_to_down_members: None,
            periodic_gossip: None,
        }
    }
}
