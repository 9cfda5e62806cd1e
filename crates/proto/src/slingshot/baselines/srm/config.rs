use std::time::Duration;

use super::message::REPAIR_HEAD_BYTES;
use crate::core::View;
use crate::slingshot::{self, ConfigError};

/// How far other members are: what the timers are multiples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// So far, all of them, one way. On a LAN the latency is near enough. Above zero.
    Fixed(Duration),
    /// As session messages tell.
    Estimated {
        /// Those of which none has told yet. Above zero, default 1 s as in ns-2.
        first: Duration,
    },
}

/// What the timers are drawn from, in distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// The least time to a request. 0 to 1,000, default 2. Source: C1 of the paper.
    pub c1: f64,
    /// What is drawn on top of it. 0 to 1,000, default 2. Source: C2 of the paper.
    pub c2: f64,
    /// The least time to a repair. 0 to 1,000, default 1. Source: D1 of the paper.
    pub d1: f64,
    /// What is drawn on top of it. 0 to 1,000, default 1. Source: D2 of the paper.
    pub d2: f64,
}

impl Default for Factors {
    fn default() -> Factors {
        Factors { c1: 2.0, c2: 2.0, d1: 1.0, d2: 1.0 }
    }
}

/// How the factors are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timers {
    /// They are these.
    Fixed(Factors),
    /// From how many duplicates come and how long recovery takes, by the rules of ns-2. A request
    /// then waits for three times as long after each backoff, and not for twice.
    Adaptive,
}

/// Of whom a session message says how far they got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// Of everybody, as in the paper. In a large group some session message follows each packet
    /// closely, and shows its loss long before the next packet of its sender does.
    All,
    /// Only of who sends it, so that it is the sender's next packet that shows a loss.
    Own,
}

/// The knobs of [`Srm`](super::Srm), shared by all members.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(super) base: slingshot::Config,
    pub(super) distance: Distance,
    pub(super) timers: Timers,
    pub(super) session_every: Duration,
    pub(super) reports: Reports,
    pub(super) backoffs_max: u8,
    pub(super) answers_max: usize,
}

impl Config {
    /// The paper's timers, for these members and groups, with these bounds.
    ///
    /// Packets should be kept, and not be given up, for longer than their recovery takes: with
    /// distances of a second that is a minute, and the bounds on packets and bytes must allow for
    /// it ([`Config::published`]).
    pub fn new(base: slingshot::Config) -> Config {
        Config {
            base,
            distance: Distance::Estimated { first: Duration::from_secs(1) },
            timers: Timers::Fixed(Factors::default()),
            session_every: Duration::from_secs(1),
            reports: Reports::All,
            backoffs_max: 5,
            answers_max: 4096,
        }
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

    /// How far other members are. Default estimated, 1 s until it is.
    pub fn with_distance(mut self, distance: Distance) -> Config {
        self.distance = distance;
        self
    }

    /// How the factors of the timers are found. Default fixed: 2, 2, 1, 1.
    pub fn with_timers(mut self, timers: Timers) -> Config {
        self.timers = timers;
        self
    }

    /// How often a member sends a session message to each of its groups. Above zero, default 1 s.
    pub fn with_session_every(mut self, every: Duration) -> Config {
        self.session_every = every;
        self
    }

    /// Of whom session messages say how far they got. Default of everybody, as in the paper.
    pub fn with_reports(mut self, reports: Reports) -> Config {
        self.reports = reports;
        self
    }

    /// How often the time to a request doubles, because it was made or another member made it. 1
    /// to 16, default 5, the limit of ns-2. After that it stays as long.
    pub fn with_backoffs_max(mut self, backoffs: u8) -> Config {
        self.backoffs_max = backoffs;
        self
    }

    /// Packets whose repairs wait, or that have just been repaired, at most; requests for further
    /// ones are not heard. At least 1, default 4,096.
    pub fn with_answers_max(mut self, packets: usize) -> Config {
        self.answers_max = packets;
        self
    }

    /// Checks the knobs.
    ///
    /// # Errors
    /// With the first that is outside its range.
    pub fn build(mut self) -> Result<Config, ConfigError> {
        self.base = self.base.build()?;
        let distance = match self.distance {
            Distance::Fixed(distance) | Distance::Estimated { first: distance } => distance,
        };
        for (knob, time) in [("distance", distance), ("session_every", self.session_every)] {
            if time.is_zero() {
                return Err(ConfigError::NoTime { knob });
            }
        }
        if let Timers::Fixed(Factors { c1, c2, d1, d2 }) = self.timers {
            for (knob, factor) in [("c1", c1), ("c2", c2), ("d1", d1), ("d2", d2)] {
                let value = factor as usize;
                let is_within = (0.0..=1000.0).contains(&factor);
                slingshot::config::check(knob, value, is_within, "0 to 1000")?;
            }
        }
        let backoffs = usize::from(self.backoffs_max);
        let is_within = (1..=16).contains(&backoffs);
        slingshot::config::check("backoffs_max", backoffs, is_within, "1 to 16")?;
        let answers = self.answers_max;
        slingshot::config::check("answers_max", answers, answers > 0, "at least 1")?;
        Ok(self)
    }

    /// How far other members are.
    pub fn distance(&self) -> Distance {
        self.distance
    }

    /// How the factors of the timers are found.
    pub fn timers(&self) -> Timers {
        self.timers
    }

    /// Of whom session messages say how far they got.
    pub fn reports(&self) -> Reports {
        self.reports
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
