use std::time::Duration;

use crate::core::Terms;
use crate::core::knobs::{ABOVE_ZERO, KIB, MIB, knobs};
use crate::{chain, detector};

knobs! {
    /// Settings that all members of a group must share, and their timeouts.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// Most members.
        members_max / with_members_max: usize [members] = 64, 1..=super::MEMBERS_MAX;
        /// Time for a live member to answer a proposal; the next attempt excludes a member that
        /// exceeds it. If the oldest member does not act for this time, the next members take over.
        answer_within / with_answer_within: Duration = Duration::from_secs(2), ABOVE_ZERO..;
        /// How often a node asks to join.
        join_every / with_join_every: Duration = Duration::from_millis(250), ABOVE_ZERO..;
        /// How long the oldest member waits for more to join before it proposes a view, and the
        /// hosts that create a group for more hosts.
        gather_joins / with_gather_joins: Duration = Duration::from_millis(50);
        /// Time that a sender waits for a member's credit before it reports that member to its
        /// application.
        lag_after / with_lag_after: Duration = Duration::from_secs(1), ABOVE_ZERO..;
        /// Time that a sender waits for a member's credit before that member counts as down and
        /// leaves the view. Without a value never: a member that does not read blocks its senders
        /// for ever.
        expel_after / with_expel_after: Option<Duration> = None, ABOVE_ZERO..;
        /// Time without progress after which an end of a link with pending messages reports it as
        /// dead, and one of its two ends leaves the view. Both ends may be alive for the detector
        /// while the link between them is cut, in one direction or both. A shorter time excludes
        /// members behind links that only stall.
        link_dead_after / with_link_dead_after: Duration
            = Duration::from_secs(5), Duration::from_secs(1)..=Duration::from_secs(3600);
        /// Bytes of the next view's blocks that a member keeps until it has installed that view;
        /// beyond it the member closes their stream, which resumes later.
        early_bytes_max / with_early_bytes_max: usize [bytes; library] = 64 * MIB;
        /// Bytes of messages to one other member ([`Command::SendTo`](super::Command::SendTo)) that
        /// its application has not consumed, at most. The same amount and one message may wait at
        /// the sender. Must be equal at all members. A receiver holds this amount for each sender,
        /// and two messages: one in assembly, one delivered.
        direct_window_bytes / with_direct_window_bytes: usize [bytes; library] = 256 * KIB, 1..;
        /// Requests of one member to one other that the latter has not answered, at most. Those
        /// that timed out or were cancelled count until they are answered. Must be equal at all
        /// members.
        requests_max / with_requests_max: usize [requests; library] = 256, 1..=65_536;
        /// Bytes of these requests, at most; a longer one is sent while no other is unanswered.
        /// Must be equal at all members.
        requests_bytes_max / with_requests_bytes_max: usize [bytes; library] = MIB, 1..;
    }
    with {
        chain: chain::Config = chain::Config::for_groups();
        detector: detector::Config = detector::Config::new();
    }
    rules: |config| {
        config.chain.check()?;
        config.detector.check()
    };
}

/// After this time an unanswered message of the agreement is repeated first. The time doubles while
/// the agreement makes no progress: where many groups of the same hosts change at once, repeats
/// would otherwise fill the queues, and answers get lost. Source: RFC 8085, section 3.1.3.
pub(super) const REPEAT_EVERY: Duration = Duration::from_millis(100);
/// How often that time doubles.
pub(super) const REPEAT_DOUBLINGS: u32 = 4;

impl Config {
    /// The defaults, around this broadcast and this detector. The broadcast's roster is not used.
    pub fn new(chain: chain::Config, detector: detector::Config) -> Config {
        Config { chain, detector, ..Config::default() }
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

    /// What all members need alike: what they may have under way to each other.
    pub(crate) fn terms(&self) -> Terms {
        let alike = ["direct_window_bytes", "requests_max", "requests_bytes_max"];
        Terms::default().with_knobs(&self.chain, &chain::Config::TERMS).with_knobs(self, &alike)
    }

    /// The configuration of the failure detector, where the group has one of its own: in a
    /// simulation of this group alone.
    pub fn detector(&self) -> &detector::Config {
        &self.detector
    }

    /// The configuration of the broadcast.
    pub fn chain(&self) -> &chain::Config {
        &self.chain
    }
}
