use std::time::Duration;

use paceline_proto::core::knobs::{ABOVE_ZERO, knobs, words};
use paceline_proto::core::{ConfigError, View};
use paceline_proto::slingshot;

use super::message::REPAIR_HEAD_BYTES;

/// The distance to other members, of which the timers are multiples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// One fixed one-way distance for all members. On a LAN the latency is close enough. Above
    /// zero.
    Fixed(Duration),
    /// Estimated from session messages.
    Estimated {
        /// The distance before the first estimate. Above zero, default 1 s as in ns-2.
        first: Duration,
    },
}

knobs! {
    /// What the timers are drawn from, in distances.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Factors {
        /// The least time to a request. Source: C1 of the paper.
        pub c1: f64 = 2.0, 0.0..=1000.0;
        /// What is drawn on top of it. Source: C2 of the paper.
        pub c2: f64 = 2.0, 0.0..=1000.0;
        /// The least time to a repair. Source: D1 of the paper.
        pub d1: f64 = 1.0, 0.0..=1000.0;
        /// What is drawn on top of it. Source: D2 of the paper.
        pub d2: f64 = 1.0, 0.0..=1000.0;
    }
}

/// How the factors are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timers {
    /// Fixed factors.
    Fixed(Factors),
    /// From how many duplicates come and how long recovery takes, by the rules of ns-2. A request
    /// then waits for three times as long after each backoff, and not for twice.
    Adaptive,
}

/// The members whose last packet a session message reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// All members, as in the paper. In a large group some session message follows each packet
    /// closely, and shows its loss long before the next packet of its sender does.
    All,
    /// Only the sender of the message, so that only the sender's next packet shows a loss.
    Own,
}

words! { Reports { "all" => All, "own" => Own } }

knobs! {
    /// The knobs of [`Srm`](super::Srm), shared by all members.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// How often a member sends a session message to each of its groups.
        session_every / with_session_every: Duration = Duration::from_secs(1), ABOVE_ZERO..;
        /// Of which members session messages say how far they got. Of all, as in the paper, by
        /// default.
        reports / with_reports: Reports = Reports::All;
        /// How often the time to a request doubles, because it was made or another member made it.
        /// After that it stays as long. The default is the limit of ns-2.
        backoffs_max / with_backoffs_max: u8 [times; library] = 5, 1..=16;
        /// Packets whose repairs wait, or that have just been repaired, at most; requests for
        /// further ones are not heard.
        answers_max / with_answers_max: usize [packets; library] = 4096, 1..;
    }
    with {
        base: slingshot::Config = slingshot::Config::default();
        distance: Distance = Distance::Estimated { first: Duration::from_secs(1) };
        timers: Timers = Timers::Fixed(Factors::default());
    }
    rules: Config::rules;
}

impl Config {
    /// The paper's timers, for these members and groups, with these bounds.
    ///
    /// Packets should be kept, and not be given up, for longer than their recovery takes: with
    /// distances of a second that is a minute, and the bounds on packets and bytes must allow for
    /// it ([`Config::published`]).
    pub fn new(base: slingshot::Config) -> Config {
        Config { base, ..Config::default() }
    }

    /// The system as it was published, for one group of these members: packets are kept for a
    /// minute, 65,536 or 64 MiB of them at most, and then given up where they are missing.
    pub fn published(roster: View) -> Config {
        let base = slingshot::Config::new(roster)
            .with_keep(Duration::from_secs(60))
            .with_lost_after(Duration::from_secs(60))
            .with_packets_max(1 << 16)
            .with_bytes_max(64 << 20);
        Config::new(base)
    }

    /// The distance to other members. Default: estimated, and 1 s before that.
    pub fn with_distance(mut self, distance: Distance) -> Config {
        self.distance = distance;
        self
    }

    /// How the factors of the timers are found. Default fixed: 2, 2, 1, 1.
    pub fn with_timers(mut self, timers: Timers) -> Config {
        self.timers = timers;
        self
    }

    fn rules(&self) -> Result<(), ConfigError> {
        self.base.check()?;
        let distance = match self.distance {
            Distance::Fixed(distance) | Distance::Estimated { first: distance } => distance,
        };
        ConfigError::unless(!distance.is_zero(), "distance", distance, "above 0")?;
        match &self.timers {
            Timers::Fixed(factors) => factors.check(),
            Timers::Adaptive => Ok(()),
        }
    }

    /// How far other members are.
    pub fn distance(&self) -> Distance {
        self.distance
    }

    /// How the factors of the timers are found.
    pub fn timers(&self) -> Timers {
        self.timers
    }

    /// Members, groups and bounds.
    pub fn base(&self) -> &slingshot::Config {
        &self.base
    }

    /// The largest payload, bytes, where a datagram carries `datagram_bytes_max`: its repair must
    /// fit as well. 0 if nothing does.
    pub fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
        datagram_bytes_max.saturating_sub(REPAIR_HEAD_BYTES).min(usize::from(u16::MAX))
    }
}
