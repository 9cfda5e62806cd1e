use std::time::Duration;

use paceline_proto::core::View;
use paceline_proto::core::knobs::{ABOVE_ZERO, knobs};
use paceline_proto::slingshot::{self, Data};

knobs! {
    /// The knobs of [`Ack`](super::Ack), shared by all members.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// Retransmission timeout: how long a sender waits for acknowledgements before it sends the
        /// packet again to each member whose one has not come. A round trip of a cluster takes
        /// 0.2 ms.
        retry_after / with_retry_after: Duration = Duration::from_millis(2), ABOVE_ZERO..;
        /// Retransmissions of a packet to a member, at most.
        resends_max / with_resends_max: u8 [times] = 50, 1..=255;
        /// Retransmissions a second, at most.
        resends_per_second / with_resends_per_second: u32 [packets] = 20_000, 1..=10_000_000;
        /// Packets of this member that wait for acknowledgements, at most; of further ones the
        /// oldest is not retransmitted any more.
        pending_max / with_pending_max: usize [packets; library] = 4096, 1..;
    }
    with { base: slingshot::Config = slingshot::Config::default(); }
    rules: |config| config.base.check();
}

impl Config {
    /// Acknowledgements among these members and groups, with these bounds.
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

    /// The largest payload, bytes, where a datagram carries `datagram_bytes_max`. 0 if nothing
    /// fits.
    pub fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
        datagram_bytes_max.saturating_sub(Data::HEAD_BYTES).min(usize::from(u16::MAX))
    }
}
