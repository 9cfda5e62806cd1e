//! The builder of a service: what is configured alike for every kind, and how a host enters it.

use std::time::Duration;

use crate::Host;
use crate::join_error::JoinError;
use crate::joining::{Beginning, Joining, expect_of};

/// Configures a service of a host, and enters it; made by [`Host::group`], [`Host::multicast`],
/// [`Host::dht`] and [`Host::walks`].
///
/// A host enters
/// - a group and a multicast by [`bootstrap`](Self::bootstrap), [`join`](Self::join) or
///   [`expect`](Self::expect),
/// - a table by [`bootstrap`](Self::bootstrap), [`join`](Self::join) or [`visit`](Self::visit),
/// - walks by [`serve`](Self::serve) or [`connect`](Self::connect).
///
/// Settings of one kind of service are methods of [`GroupBuilder`](crate::GroupBuilder),
/// [`MulticastBuilder`](crate::MulticastBuilder), [`DhtBuilder`](crate::DhtBuilder) and
/// [`WalksBuilder`](crate::WalksBuilder), which are names for the builders of the four kinds.
#[must_use = "a service is entered by `join`, `bootstrap` and the like"]
#[derive(Debug)]
pub struct ServiceBuilder<S> {
    pub(crate) joining: Joining,
    pub(crate) settings: S,
}

impl<S> ServiceBuilder<S> {
    pub(crate) fn new(host: Host, name: &str, settings: S) -> ServiceBuilder<S> {
        ServiceBuilder { joining: Joining::new(host, name), settings }
    }

    /// Hosts to ask, each in a form of [`PeerSource`](crate::PeerSource), in place of those of
    /// [`HostBuilder::peers`](crate::HostBuilder::peers). A form that is wrong fails at
    /// [`join`](Self::join).
    pub fn peers(mut self, peers: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let peers = peers.into_iter().map(|peer| peer.as_ref().to_owned());
        self.joining.peers = Some(peers.collect());
        self
    }

    /// How long entering the service may take. Default 10 s.
    pub fn within(mut self, time: Duration) -> Self {
        self.joining.within = time;
        self
    }

    /// How long leaving the service may take; a service that has not left by then ends as in a
    /// crash. Default 15 s. A host of a table hands over its records for at most this long. Servers
    /// and clients of walks have nothing to leave.
    pub fn leave_within(mut self, time: Duration) -> Self {
        self.joining.leave_within = Some(time);
        self
    }

    /// The service's weight on the host's link, 1 to 1,000 or the nearest of these. While several
    /// services of the host have something to send, each gets a share in proportion, as
    /// [`HostBuilder::link_rate`](crate::HostBuilder::link_rate) says. Default 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.joining.weight = weight;
        self
    }
}

/// A kind of service with members.
pub trait Joins: Sized {
    /// What a member has of its service: its handle, for groups with the stream of events.
    type Joined;

    #[doc(hidden)]
    fn begin(
        self,
        joining: Joining,
        beginning: Beginning,
    ) -> impl Future<Output = Result<Self::Joined, JoinError>> + Send;
}

/// A kind of service that hosts create together.
pub trait Expects: Joins {
    #[doc(hidden)]
    fn members_max(&self) -> usize;
}

impl<S: Joins> ServiceBuilder<S> {
    /// Creates the service: this host is its first member. Use only for the very first host, or
    /// after all members were lost: a second service of the same name that is created never merges
    /// with the first. Peers are not asked.
    ///
    /// # Errors
    /// If a knob is out of range, the host runs a service of this kind and name or has stopped, or
    /// the file of a durable table cannot be used.
    pub async fn bootstrap(self) -> Result<S::Joined, JoinError> {
        self.settings.begin(self.joining, Beginning::Alone).await
    }

    /// Joins by asking the [peers](Self::peers). Names and files are asked again until the host is
    /// a member; then this returns. A host of a table has then found its place, and takes its part
    /// of the stored values.
    ///
    /// # Errors
    /// As [`bootstrap`](Self::bootstrap); if no peer is given, a peer has none of the forms or
    /// cannot be resolved, none answers in time, or the host is refused.
    pub async fn join(self) -> Result<S::Joined, JoinError> {
        let peers = self.joining.resolve().await?;
        self.settings.begin(self.joining, Beginning::With(peers)).await
    }
}

impl<S: Expects> ServiceBuilder<S> {
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
    pub async fn expect(self, hosts: u32) -> Result<S::Joined, JoinError> {
        let expect = expect_of(hosts, self.settings.members_max())?;
        let peers = self.joining.resolve().await?;
        self.settings.begin(self.joining, Beginning::Expecting(expect, peers)).await
    }
}
