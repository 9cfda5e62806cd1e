use std::time::Duration;

use super::message::digest_bytes;
use crate::core::View;
use crate::slingshot::config::check;
use crate::slingshot::{self, ConfigError, Data, Supply};

/// How a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To who asked.
    Unicast,
    /// To the whole group: where many miss the same packet, one answer serves all.
    Group {
        /// Questions for a packet that come within this time of its answer are taken to have been
        /// on their way before it. Default 5 ms.
        quiet: Duration,
    },
}

/// The knobs of [`Nak`](super::Nak), shared by all members.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(super) base: slingshot::Config,
    pub(super) digest: usize,
    pub(super) backoff: Duration,
    pub(super) retry_after: Duration,
    pub(super) asks_max: u8,
    pub(super) answer: Answer,
    pub(super) answers_max: usize,
    pub(super) supplies_per_second: u32,
}

impl Config {
    /// Questions to the sender, for these members and groups, with these bounds.
    pub fn sender(base: slingshot::Config) -> Config {
        Config {
            base,
            digest: 0,
            backoff: Duration::from_millis(1),
            retry_after: Duration::from_millis(2),
            asks_max: 50,
            answer: Answer::Unicast,
            answers_max: 4096,
            supplies_per_second: 2000,
        }
    }

    /// Each packet names the last eight that its sender has received; who misses one asks it.
    pub fn digest(base: slingshot::Config) -> Config {
        Config { digest: 8, ..Config::sender(base) }
    }

    /// How many packets each packet names as received. 0 to 64, default 8 with
    /// [`Config::digest`], else 0. Each costs 10 bytes of every packet. The same at all members.
    pub fn with_digest(mut self, names: usize) -> Config {
        self.digest = names;
        self
    }

    /// How long a packet that is missed because of a gap or a heartbeat waits for its question, at
    /// most; the time is drawn uniformly. Default 1 ms. One that a digest names is asked for at
    /// once.
    pub fn with_backoff(mut self, backoff: Duration) -> Config {
        self.backoff = backoff;
        self
    }

    /// How long an answer is waited for. Above zero, default 2 ms.
    pub fn with_retry_after(mut self, after: Duration) -> Config {
        self.retry_after = after;
        self
    }

    /// How often a packet is asked for before it is given up. 1 to 255, default 50.
    pub fn with_asks_max(mut self, asks: u8) -> Config {
        self.asks_max = asks;
        self
    }

    /// How a question is answered. Default to who asked.
    pub fn with_answer(mut self, answer: Answer) -> Config {
        self.answer = answer;
        self
    }

    /// Packets that were just answered to a group, at most; for further ones there is no quiet
    /// time. At least 1, default 4,096.
    pub fn with_answers_max(mut self, packets: usize) -> Config {
        self.answers_max = packets;
        self
    }

    /// Packets a second that others are given, at most. Default 2,000.
    pub fn with_supplies_per_second(mut self, packets: u32) -> Config {
        self.supplies_per_second = packets;
        self
    }

    /// Checks the knobs.
    ///
    /// # Errors
    /// With the first that is outside its range.
    pub fn build(mut self) -> Result<Config, ConfigError> {
        self.base = self.base.build()?;
        if self.retry_after.is_zero() {
            return Err(ConfigError::NoTime { knob: "retry_after" });
        }
        check("digest", self.digest, self.digest <= 64, "0 to 64")?;
        check("asks_max", self.asks_max.into(), self.asks_max > 0, "1 to 255")?;
        check("answers_max", self.answers_max, self.answers_max > 0, "at least 1")?;
        Ok(self)
    }

    /// How many packets each packet names as received.
    pub fn digest_names(&self) -> usize {
        self.digest
    }

    /// How long an answer is waited for.
    pub fn retry_after(&self) -> Duration {
        self.retry_after
    }

    /// How a question is answered.
    pub fn answer(&self) -> Answer {
        self.answer
    }

    /// Members, groups and bounds.
    pub fn base(&self) -> &slingshot::Config {
        &self.base
    }

    /// The members of view 0.
    pub fn roster(&self) -> &View {
        self.base.roster()
    }

    /// The largest payload, bytes, where a datagram carries `datagram_bytes_max`, the names of its
    /// digest included. 0 if nothing does.
    pub fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
        let digested = Data::HEAD_BYTES + digest_bytes(self.digest);
        let head = digested.max(1 + Supply::HEAD_BYTES);
        datagram_bytes_max.saturating_sub(head).min(usize::from(u16::MAX))
    }
}
