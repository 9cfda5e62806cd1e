use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_net::Roster;
use paceline_proto::core::{MembershipCommand, View, ViewId};
use paceline_proto::multicast::{Command, Config, Multicast as Protocol};
use paceline_proto::{chain, detector, group, slingshot};

use super::events::Events;
use super::{Multicast, Status};
use crate::Host;
use crate::group::{JoinError, resolve};

/// Default bound on unread packets and reports of losses.
const UNREAD_MAX: usize = 16_384;

/// A group that multicasts in time, to be founded or joined; made by [`Host::multicast`].
pub struct MulticastBuilder {
    host: Host,
    name: String,
    group: group::Config,
    slingshot: slingshot::Config,
    within: Duration,
}

impl MulticastBuilder {
    pub(crate) fn new(host: Host, name: &str) -> MulticastBuilder {
        MulticastBuilder {
            host,
            name: name.to_owned(),
            group: group::Config::new(chain::Config::for_groups(), detector::Config::new()),
            slingshot: slingshot::Config::new(View::new(ViewId(0), []))
                .with_unread_max(Some(UNREAD_MAX)),
            within: Duration::from_secs(10),
        }
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

    /// Changes the configuration of the failure detector.
    pub fn with_detector(
        mut self,
        change: impl FnOnce(detector::Config) -> detector::Config,
    ) -> MulticastBuilder {
        self.group = self.group.with_detector(change);
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

    /// How long joining may take. Default 10 s.
    pub fn within(mut self, time: Duration) -> MulticastBuilder {
        self.within = time;
        self
    }

    /// Creates the group: this node is its first member. Use only for the very first member, or
    /// after every member was lost: a second group that is created never merges with the first.
    ///
    /// # Errors
    /// If a knob is out of range, or there is no tokio runtime.
    pub async fn bootstrap(self) -> Result<(Multicast, Events), JoinError> {
        let (within, address) = (self.within, self.address());
        let (multicast, events) = self.start()?;
        multicast
            .command(MembershipCommand::Bootstrap { address }.into())
            .map_err(|_| JoinError::Closed)?;
        multicast.first_view(events, within, "this node").await
    }

    /// Joins by asking these members (`host:port`; a name stands for all its addresses). Returns
    /// once the node is in a view.
    ///
    /// # Errors
    /// If a seed cannot be resolved, none answers in time, or the node is refused.
    pub async fn join(
        self,
        seeds: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(Multicast, Events), JoinError> {
        let names: Vec<String> = seeds.into_iter().map(|seed| seed.as_ref().to_owned()).collect();
        let seeds = resolve(&names).await?;
        let (within, address) = (self.within, self.address());
        let (multicast, events) = self.start()?;
        let join = MembershipCommand::Join { address, seeds: Vec::new() }.into();
        multicast.command(join).map_err(|_| JoinError::Closed)?;
        multicast.node().seek(seeds).map_err(|_| JoinError::Closed)?;
        multicast.first_view(events, within, &names.join(", ")).await
    }

    fn address(&self) -> Bytes {
        Bytes::from(self.host.address.to_string())
    }

    fn start(self) -> Result<(Multicast, Events), JoinError> {
        let config = Config::new(self.group, self.slingshot)?;
        let Host { bound, id, cluster, address } = self.host;
        let bound = bound.in_cluster(&format!("{cluster}/{}", self.name));
        let roster = Roster::new([(id, address)]).expect("one member is not named twice");
        let payload_bytes_max = config.payload_bytes_max(bound.datagram_message_bytes_max());
        let protocol = Protocol::new(&config);
        let (node, events) = bound.start(roster, protocol, Arc::new(config))?;
        let status = Arc::new(Status::default());
        let events = Events::new(node.clone(), events, status.clone());
        Ok((Multicast::new(node, id, status, payload_bytes_max), events))
    }
}
