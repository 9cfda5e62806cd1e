use std::time::Duration;

use crate::core::View;
use crate::slingshot::config::check;
use crate::slingshot::{self, ConfigError, Data};

/// The knobs of [`Ack`](super::Ack), shared by all members.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(super) base: slingshot::Config,
    pub(super) retry_after: Duration,
    pub(super) resends_max: u8,
    pub(super) pending_max: usize,
    pub(super) resends_per_second: u32,
}

impl Config {
    /// Acknowledgements among these members and groups, with these bounds.
    pub fn new(base: slingshot::Config) -> Config {
        Config {
            base,
            retry_after: Duration::from_millis(2),
            resends_max: 50,
            pending_max: 4096,
            resends_per_second: 20_000,
        }
    }

    /// Retransmission timeout: how long a sender waits for acknowledgements before it sends the
    /// packet again to each member whose one has not come. Above zero, default 2 ms: a round trip
    /// of a cluster takes 0.2 ms.
    pub fn with_retry_after(mut self, after: Duration) -> Config {
        self.retry_after = after;
        self
    }

    /// Retransmissions of a packet to a member, at most. 1 to 255, default 50.
    pub fn with_resends_max(mut self, times: u8) -> Config {
        self.resends_max = times;
        self
    }

    /// Packets of this member that wait for acknowledgements, at most; of further ones the oldest
    /// is not retransmitted any more. At least 1, default 4,096.
    pub fn with_pending_max(mut self, packets: usize) -> Config {
        self.pending_max = packets;
        self
    }

    /// Retransmissions a second, at most. At least 1, default 20,000.
    pub fn with_resends_per_second(mut self, packets: u32) -> Config {
        self.resends_per_second = packets;
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
        check("resends_max", self.resends_max.into(), self.resends_max > 0, "1 to 255")?;
        check("pending_max", self.pending_max, self.pending_max > 0, "at least 1")?;
        let per_second = self.resends_per_second as usize;
        check("resends_per_second", per_second, per_second > 0, "at least 1")?;
        Ok(self)
    }

    /// The retransmission timeout.
    pub fn retry_after(&self) -> Duration {
        self.retry_after
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
