use paceline_proto::core::{View, ViewId};
use paceline_proto::multicast::{Config, Multicast as Protocol};
use paceline_proto::{chain, detector, group, slingshot};

use super::Multicast;
use super::events::{Events, MulticastReport};
use crate::builder::{Expects, Joins, ServiceBuilder};
use crate::join_error::JoinError;
use crate::joining::{Beginning, Joining};

/// Default bound on unread packets and reports of losses.
const UNREAD_MAX: usize = 16_384;

/// Configures a group that multicasts in time, and enters it; made by
/// [`Host::multicast`](crate::Host::multicast).
pub type MulticastBuilder = ServiceBuilder<MulticastSettings>;

/// What is configured of a multicast alone.
#[derive(Debug)]
pub struct MulticastSettings {
    group: group::Config,
    slingshot: slingshot::Config,
}

impl Default for MulticastSettings {
    fn default() -> MulticastSettings {
        MulticastSettings {
            group: group::Config::new(chain::Config::for_groups(), detector::Config::new()),
            slingshot: MulticastBuilder::repairs(),
        }
    }
}

impl MulticastBuilder {
    /// The configuration of the multicast that a builder begins with, for programs that read one
    /// before there is a host.
    pub fn repairs() -> slingshot::Config {
        slingshot::Config::new(View::new(ViewId(0), [])).with_unread_max(Some(UNREAD_MAX))
    }

    /// Changes the configuration of the multicast: rate of fire, code, order, target, times and
    /// bounds. The code, the largest number of packets in a repair and whether groups overlap must
    /// be the same at all members.
    pub fn with_repairs(
        mut self,
        change: impl FnOnce(slingshot::Config) -> slingshot::Config,
    ) -> MulticastBuilder {
        self.settings.slingshot = change(self.settings.slingshot);
        self
    }

    /// Changes the configuration of the agreement on views.
    pub fn with_views(
        mut self,
        change: impl FnOnce(group::Config) -> group::Config,
    ) -> MulticastBuilder {
        self.settings.group = change(self.settings.group);
        self
    }
}

impl Joins for MulticastSettings {
    type Joined = (Multicast, Events);

    async fn begin(
        self,
        joining: Joining,
        beginning: Beginning,
    ) -> Result<(Multicast, Events), JoinError> {
        let config = Config::new(self.group, self.slingshot)?;
        let datagram_bytes_max = joining.datagram_message_bytes_max();
        let packet_bytes_max = config.payload_bytes_max(datagram_bytes_max);
        let message_bytes_max = config.message_bytes_limit(datagram_bytes_max);
        let protocol = Protocol::new(&config);
        let entered = joining.enter("multicast", beginning, protocol, config, MulticastReport::new);
        let (member, reader) = entered.await?;
        Ok((Multicast { member, packet_bytes_max, message_bytes_max }, Events::new(reader)))
    }
}

impl Expects for MulticastSettings {
    fn members_max(&self) -> usize {
        self.group.members_max()
    }
}
