use std::time::Duration;

use paceline_proto::core::View;
use paceline_proto::core::field::Field;
use paceline_proto::core::knobs::{ABOVE_ZERO, knobs};
use paceline_proto::slingshot::{self, Data, Supply};

use super::message::digest_bytes;

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To the requester.
    Unicast,
    /// To the whole group: where many miss the same packet, one answer serves all.
    Group {
        /// Requests for a packet that come within this time after its answer count as sent before
        /// it, and are ignored. Default 5 ms.
        quiet: Duration,
    },
}

knobs! {
    /// The knobs of [`Nak`](super::Nak), shared by all members.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// How many packets each packet names as received: none with [`Config::sender`], 8 with
        /// [`Config::digest`]. Each costs 10 bytes of every packet. The same at all members.
        digest_names / with_digest_names: usize [packets] = 8, 0..=64;
        /// How long a packet that is missed because of a gap or a heartbeat waits for its question,
        /// at most; the time is drawn uniformly. One that a digest names is asked for at once.
        backoff / with_backoff: Duration = Duration::from_millis(1);
        /// Timeout for a reply.
        retry_after / with_retry_after: Duration = Duration::from_millis(2), ABOVE_ZERO..;
        /// How often a packet is asked for before it is given up.
        asks_max / with_asks_max: u8 [times] = 50, 1..=255;
        /// Packets that were just answered to a group, at most; for further ones there is no quiet
        /// time.
        answers_max / with_answers_max: usize [packets; library] = 4096, 1..;
        /// Maximum number of packets a second sent to requesters.
        supplies_per_second / with_supplies_per_second: u32 [packets; library] = 2000;
    }
    with {
        base: slingshot::Config = slingshot::Config::default();
        answer: Answer = Answer::Unicast;
    }
    rules: |config| config.base.check();
}

impl Config {
    /// Requests to the sender, for these members and groups, with these bounds.
    pub fn sender(base: slingshot::Config) -> Config {
        Config { base, digest_names: 0, ..Config::default() }
    }

    /// Each packet names the last eight that its sender has received; a member that lacks one asks
    /// that sender.
    pub fn digest(base: slingshot::Config) -> Config {
        Config { base, ..Config::default() }
    }

    /// How a request is answered. Default: to the requester.
    pub fn with_answer(mut self, answer: Answer) -> Config {
        self.answer = answer;
        self
    }

    /// How a request is answered.
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
        let digested = Data::HEAD_BYTES + digest_bytes(self.digest_names);
        let head = digested.max(1 + Supply::BYTES_MIN);
        datagram_bytes_max.saturating_sub(head).min(usize::from(u16::MAX))
    }
}
