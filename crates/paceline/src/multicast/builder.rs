use std::time::Duration;

use paceline_proto::core::{View, ViewId};
use paceline_proto::multicast::{Config, Multicast as Protocol};
use paceline_proto::{chain, detector, group, slingshot};

use super::Multicast;
use super::events::{Events, MulticastReport};
use crate::Host;
use crate::join_error::JoinError;
use crate::joining::{Beginning, Joining, expect_of};

/// Default bound on unread packets and reports of losses.
const UNREAD_MAX: usize = 16_384;

/// A group that multicasts in time, to be founded or joined; made by [`Host::multicast`].
pub struct MulticastBuilder {
    joining: Joining,
    group: group::Config,
    slingshot: slingshot::Config,
}

impl MulticastBuilder {
    pub(crate) fn new(host: Host, name: &str) -> MulticastBuilder {
        MulticastBuilder {
            joining: Joining::new(host, name),
            group: group::Config::new(chain::Config::for_groups(), detector::Config::new()),
            slingshot: MulticastBuilder::repairs(),
        }
    }

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
        self.slingshot = change(self.slingshot);
        self
    }

    /// Changes the configuration of the agreement on views.
    pub fn with_views(
        mut self,
        change: impl FnOnce(group::Config) -> group::Config,
    ) -> MulticastBuilder {
        self.group = change(self.group);
        self
    }

    /// The service's weight on the host's link, 1 to 1,000 or the nearest of these. While several
    /// services of the host have something to send, each gets a share in proportion, as
    /// [`HostBuilder::link_rate`](crate::HostBuilder::link_rate) says. Default 1.
    pub fn weight(mut self, weight: u32) -> MulticastBuilder {
        self.joining.weight = weight;
        self
    }

    /// How long joining may take. Default 10 s.
    pub fn within(mut self, time: Duration) -> MulticastBuilder {
        self.joining.within = time;
        self
    }

    /// Creates the group: this node is its first member. Use only for the very first member, or
    /// after every member was lost: a second group that is created never merges with the first.
    ///
    /// # Errors
    /// If a knob is out of range, or there is no tokio runtime.
    pub async fn bootstrap(self) -> Result<(Multicast, Events), JoinError> {
        self.enter(Beginning::Alone).await
    }

    /// Joins by asking members at these addresses, each in a form of
    /// [`PeerSource`](crate::PeerSource). Names and files are asked again until the node is in a
    /// view; then this returns.
    ///
    /// # Errors
    /// If a peer has none of the forms, a host cannot be resolved, none answers in time, or the
    /// node is refused.
    pub async fn join(
        self,
        peers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(Multicast, Events), JoinError> {
        let peers = self.joining.resolve(peers, JoinError::NoPeer).await?;
        self.enter(Beginning::With(peers)).await
    }

    /// Joins as [`join`](Self::join) does; if there is no group, creates it with the other hosts
    /// that do the same, once `hosts` of them see each other, this one included (2 to 64, at most
    /// `members_max`, the same number at all). The host with the least id creates it. For hosts
    /// that start at the same time, without a designated first one.
    ///
    /// One group is created, whatever messages are lost and whichever hosts pause or crash, if
    /// `hosts` is more than half of all starts before the hosts are members; a host that starts
    /// again before that counts twice. Further hosts join the group. A host that hears of a group
    /// creates none. [`within`](Self::within) counts for all of it.
    ///
    /// # Errors
    /// As [`join`](Self::join); if `hosts` is out of range, or too few hosts see each other in
    /// time.
    pub async fn expect(
        self,
        hosts: u32,
        peers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(Multicast, Events), JoinError> {
        let expect = expect_of(hosts, self.group.members_max())?;
        let peers = self.joining.resolve(peers, JoinError::NoPeer).await?;
        self.enter(Beginning::Expecting(expect, peers)).await
    }

    async fn enter(self, beginning: Beginning) -> Result<(Multicast, Events), JoinError> {
        let config = Config::new(self.group, self.slingshot)?;
        let datagram_bytes_max = self.joining.datagram_message_bytes_max();
        let payload_bytes_max = config.payload_bytes_max(datagram_bytes_max);
        let protocol = Protocol::new(&config);
        let (member, reader) = self
            .joining
            .enter("multicast", beginning, protocol, config, MulticastReport::new)
            .await?;
        Ok((Multicast { member, payload_bytes_max }, Events::new(reader)))
    }
}
