use std::time::Duration;

use paceline_proto::core::View;
use paceline_proto::core::field::Field;
use paceline_proto::core::knobs::{ABOVE_ZERO, knobs};
use paceline_proto::slingshot::{self, Supply};

knobs! {
    /// The knobs of [`Gossip`](super::Gossip), shared by all members.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// How long a round takes: how often a member sends digests. The time of recovery is
        /// proportional to it, the number of digests inversely. Source: the paper's experiments,
        /// 100 ms.
        gossip_every / with_gossip_every: Duration = Duration::from_millis(100), ABOVE_ZERO..;
        /// Members to which the digest of a round goes, drawn at random. Source: the paper, one.
        fanout / with_fanout: usize [members] = 1, 1..=64;
        /// How many rounds a packet is kept, and how many a missing one is waited for before it is
        /// reported lost. At a fanout of 1 a loss outlives `n` rounds with a probability of about
        /// e^-n.
        rounds_held / with_rounds_held: u32 [rounds] = 10, 1..=1000;
        /// Packets that a member solicits in a round, at most, of all gossipers.
        solicit_max / with_solicit_max: usize [packets] = 256, 1..=4096;
        /// Packets that a member retransmits in a round, at most, to all members.
        retransmit_max / with_retransmit_max: usize [packets] = 256, 1..=65_536;
    }
    with { base: slingshot::Config = slingshot::Config::default(); }
    rules: |config| config.base.check();
}

impl Config {
    /// Gossip among these members and groups, with these bounds.
    pub fn new(base: slingshot::Config) -> Config {
        Config { base, ..Config::default() }
    }

    /// Members, groups and bounds.
    pub fn base(&self) -> &slingshot::Config {
        &self.base
    }

    /// The members of view 0.
    pub fn roster(&self) -> &View {
        self.base.roster()
    }

    /// How long a packet is kept, and a missing one waited for: the rounds held.
    pub fn held_for(&self) -> Duration {
        self.gossip_every.saturating_mul(self.rounds_held)
    }

    /// The largest payload, bytes, where a datagram carries `datagram_bytes_max`: a retransmission
    /// of it must fit. 0 if nothing does.
    pub fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
        datagram_bytes_max.saturating_sub(1 + Supply::BYTES_MIN).min(usize::from(u16::MAX))
    }
}
