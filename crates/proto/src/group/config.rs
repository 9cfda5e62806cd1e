use std::ops::RangeInclusive;
use std::time::Duration;

use thiserror::Error;

use crate::{chain, detector};

/// What all members of a group must agree on, and how patient they are.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) chain: chain::Config,
    pub(super) detector: detector::Config,
    pub(super) members_max: usize,
    pub(super) answer_within: Duration,
    pub(super) repeat_every: Duration,
    pub(super) join_every: Duration,
    pub(super) gather_joins: Duration,
    pub(super) early_bytes_max: usize,
    pub(super) direct_window_bytes: usize,
    pub(super) lag_after: Duration,
    pub(super) expel_after: Option<Duration>,
    pub(super) link_dead_after: Duration,
}

/// What [`Config::with_link_dead_after`] accepts.
const LINK_DEAD_AFTER: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);

/// Why a configuration cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A knob of the broadcast or of the agreement is out of range.
    #[error(transparent)]
    Knob(#[from] chain::ConfigError),
    /// A knob of the detector is out of range.
    #[error(transparent)]
    Detector(#[from] detector::ConfigError),
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
}

impl Config {
    /// The defaults, around this broadcast and this detector. The broadcast's roster is not used.
    pub fn new(chain: chain::Config, detector: detector::Config) -> Config {
        Config {
            chain,
            detector,
            members_max: 64,
            answer_within: Duration::from_secs(2),
            repeat_every: Duration::from_millis(100),
            join_every: Duration::from_millis(250),
            gather_joins: Duration::from_millis(50),
            early_bytes_max: 64 << 20,
            direct_window_bytes: 256 << 10,
            lag_after: Duration::from_secs(1),
            expel_after: None,
            link_dead_after: Duration::from_secs(5),
        }
    }

    /// Most members. 1 to 1,024, default 64.
    pub fn with_members_max(mut self, members: usize) -> Config {
        self.members_max = members;
        self
    }

    /// How long a member that the detector calls alive may leave a proposal unanswered before the
    /// next attempt is made without it. Default 2 s. The members after the oldest take over when
    /// that has not acted for as long.
    pub fn with_answer_within(mut self, time: Duration) -> Config {
        self.answer_within = time;
        self
    }

    /// How often an unanswered message of the agreement is repeated. Default 100 ms.
    pub fn with_repeat_every(mut self, time: Duration) -> Config {
        self.repeat_every = time;
        self
    }

    /// How often a node asks to join. Default 250 ms.
    pub fn with_join_every(mut self, time: Duration) -> Config {
        self.join_every = time;
        self
    }

    /// How long the oldest member waits for more to join before it proposes a view. Default 50 ms.
    pub fn with_gather_joins(mut self, time: Duration) -> Config {
        self.gather_joins = time;
        self
    }

    /// Bytes of the next view's blocks that a member keeps until it has installed that view.
    /// Default 64 MiB; beyond it the stream they come on is broken and resumes.
    pub fn with_early_bytes_max(mut self, bytes: usize) -> Config {
        self.early_bytes_max = bytes;
        self
    }

    /// Bytes of messages to one other member ([`Command::SendTo`](super::Command::SendTo)) that
    /// were sent and that its application has not consumed, at most. As much again may wait at the
    /// sender, and one message more. At least 1, default 256 KiB. Must be equal at all members. A
    /// receiver holds so much of each member that sends to it, and two messages more: one in
    /// assembly, one delivered.
    pub fn with_direct_window_bytes(mut self, bytes: usize) -> Config {
        self.direct_window_bytes = bytes;
        self
    }

    /// How long a sender stands still for want of a member's credit before its application is told
    /// who that is. Default 1 s.
    pub fn with_lag_after(mut self, time: Duration) -> Config {
        self.lag_after = time;
        self
    }

    /// How long it stands still before that member is taken for down, and the view goes on without
    /// it. Default `None`: never; whoever does not read holds its senders for ever.
    pub fn with_expel_after(mut self, time: Option<Duration>) -> Config {
        self.expel_after = time;
        self
    }

    /// How long a link that has something to carry may make no progress before its end reports it
    /// as dead, and the view goes on without one of its two ends. 1 s to 1 h, default 5 s. Both
    /// ends may be alive, as the detector sees it, and the link between them be cut, in one
    /// direction or both. A shorter time excludes members behind links that only stall.
    pub fn with_link_dead_after(mut self, time: Duration) -> Config {
        self.link_dead_after = time;
        self
    }

    /// Changes the configuration of the broadcast.
    pub fn with_broadcast(mut self, change: impl FnOnce(chain::Config) -> chain::Config) -> Config {
        self.chain = change(self.chain);
        self
    }

    /// Changes the configuration of the detector.
    pub fn with_detector(
        mut self,
        change: impl FnOnce(detector::Config) -> detector::Config,
    ) -> Config {
        self.detector = change(self.detector);
        self
    }

    /// Checks the knobs, those of broadcast and detector too.
    pub fn build(mut self) -> Result<Config, ConfigError> {
        self.chain = self.chain.build()?;
        self.detector = self.detector.build()?;
        let times = [
            ("answer_within", self.answer_within),
            ("repeat_every", self.repeat_every),
            ("join_every", self.join_every),
            ("lag_after", self.lag_after),
            ("expel_after", self.expel_after.unwrap_or(Duration::MAX)),
        ];
        for (knob, time) in times {
            if time.is_zero() {
                return Err(chain::ConfigError::NoTime { knob }.into());
            }
        }
        if !LINK_DEAD_AFTER.contains(&self.link_dead_after) {
            let (knob, expected) = ("link_dead_after", "1 s to 1 h");
            return Err(ConfigError::Time { knob, value: self.link_dead_after, expected });
        }
        if self.direct_window_bytes == 0 {
            let (knob, expected) = ("direct_window_bytes", "at least 1");
            return Err(chain::ConfigError::OutOfRange { knob, value: 0, expected }.into());
        }
        let (members, max) = (self.members_max, super::MEMBERS_MAX);
        if !(1..=max).contains(&members) {
            let (knob, expected) = ("members_max", "1 to 1024");
            let error = chain::ConfigError::OutOfRange { knob, value: members, expected };
            return Err(error.into());
        }
        Ok(self)
    }

    /// Bytes of messages to one other member in flight, at most.
    pub fn direct_window_bytes(&self) -> usize {
        self.direct_window_bytes
    }

    /// The configuration of the broadcast.
    pub fn chain(&self) -> &chain::Config {
        &self.chain
    }

    /// How long a proposer waits for answers, and a member for its turn after the one before it.
    pub fn answer_within(&self) -> Duration {
        self.answer_within
    }

    /// How long whoever does not read holds its senders before it is taken for down, if ever.
    pub fn expel_after(&self) -> Option<Duration> {
        self.expel_after
    }
}
