use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use crate::core::ConfigError;
use crate::core::knobs::{ABOVE_ZERO, knobs};

knobs! {
    /// The knobs of a [`Detector`](super::Detector).
    ///
    /// A crashed member is down after the time until some member probes it (`probe_every` on
    /// average, five times that in one case of a hundred, in a large group), three times
    /// `probe_trip`, and `suspect_for`. With the defaults, those of a local network with 2 to 64
    /// members, that is
    /// 0.7 s on average. Members need not agree on the knobs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Time between two probes of this host. At least three of `probe_trip`. A probe is two
        /// datagrams of 90 bytes with their headers, so at rest a host sends and receives 360 bytes
        /// in this time, however many hosts there are.
        probe_every / with_probe_every: Duration
            = Duration::from_millis(180), Duration::from_millis(1)..=HOUR;
        /// How long a reply may take before the member asks others to probe; they and a second
        /// attempt get twice this time. The default covers the round trip of a local network and a
        /// scheduling delay.
        probe_trip / with_probe_trip: Duration = Duration::from_millis(50), ABOVE_ZERO..=HOUR;
        /// Time in which a suspected member can refute before it is down. It learns of the
        /// suspicion at the start and then every `spread_every`.
        suspect_for / with_suspect_for: Duration = Duration::from_millis(350), ABOVE_ZERO..=HOUR;
    }
    rules: Config::rules;
}

const HOUR: Duration = Duration::from_secs(3600);

/// How long a member that [`Detector::probe`](super::Detector::probe) names has to answer one of
/// two pings, the second half-way.
pub(super) const ASK_FOR: Duration = Duration::from_millis(300);
/// How often news is passed to a few random members while there is any. Fresh news is passed on at
/// once besides. Costs nothing at rest.
pub(super) const SPREAD_EVERY: Duration = Duration::from_millis(100);
/// How often one of the members that are down, in turn, is sent an announcement. This is what heals
/// a partition.
pub(super) const RECALL_EVERY: Duration = Duration::from_millis(500);
/// A poll that is late by more than this shows that this member was paused: the time does not
/// count.
pub(super) const STALL_MIN: Duration = Duration::from_millis(100);
/// The largest datagram, bytes; larger ones are refused. Equal at all members.
pub(super) const DATAGRAM_BYTES_MAX: usize = 1100;
/// Members that are asked to probe on behalf of one, and to which news is passed at a time.
const HELPERS: NonZeroUsize = NonZeroUsize::new(3).expect("above zero");
/// Datagrams of a member that carry a piece of news: enough for a few hundred members.
const REPEATS: NonZeroU8 = NonZeroU8::new(10).expect("above zero");

impl Config {
    /// The defaults.
    pub fn new() -> Config {
        Config::default()
    }

    fn rules(&self) -> Result<(), ConfigError> {
        let every = self.probe_every;
        let is_long = every >= self.probe_trip * 3;
        ConfigError::unless(is_long, "probe_every", every, "at least three of probe_trip")
    }

    /// foca's configuration. foca runs only the probes: it stops periodic work when the last member
    /// goes down, so this module does the rest. A member that is down stays known until it is
    /// unwatched.
    pub(super) fn foca(&self) -> foca::Config {
        foca::Config {
            probe_period: self.probe_every,
            probe_rtt: self.probe_trip,
            num_indirect_probes: HELPERS,
            max_transmissions: REPEATS,
            suspect_to_down_after: self.suspect_for,
            remove_down_after: None,
            max_packet_size: NonZeroUsize::new(DATAGRAM_BYTES_MAX).expect("above zero"),
            notify_down_members: true,
            periodic_announce: None,
            periodic_announce_to_down_members: None,
            periodic_gossip: None,
        }
    }
}
