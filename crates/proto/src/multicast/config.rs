use crate::core::ConfigError;
use crate::{group, slingshot};

/// What members of a group that multicasts in time have in common.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) group: group::Config,
    pub(super) slingshot: slingshot::Config,
}

impl Config {
    /// Of these two. The multicast's roster is ignored: the group's views replace it.
    ///
    /// # Errors
    /// If a knob of either is outside its range.
    pub fn new(group: group::Config, slingshot: slingshot::Config) -> Result<Config, ConfigError> {
        Ok(Config { group: group.build()?, slingshot: slingshot.build()? })
    }

    /// The largest payload, bytes, where a datagram carries `datagram_bytes_max`. 0 if nothing
    /// fits.
    pub fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
        let inner = datagram_bytes_max.saturating_sub(super::message::TAG_BYTES);
        self.slingshot.payload_bytes_max(inner)
    }

    /// The longest message, bytes, where a datagram carries `datagram_bytes_max`:
    /// [`slingshot::Config::message_bytes_limit`].
    pub fn message_bytes_limit(&self, datagram_bytes_max: usize) -> usize {
        let inner = datagram_bytes_max.saturating_sub(super::message::TAG_BYTES);
        self.slingshot.message_bytes_limit(inner)
    }
}
