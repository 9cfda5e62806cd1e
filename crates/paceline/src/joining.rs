//! How a host starts a service, and enters it by asking peers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_net::record::ServiceNumber;
use paceline_net::{Closed, Events, Hosted, Node, StartError};
use paceline_proto::core::knobs::Value;
use paceline_proto::core::{ConfigError, MembershipCommand, NodeId};
use paceline_proto::group::{Expect, Gather};

use crate::Host;
use crate::join_error::JoinError;
use crate::member::MemberHandle;
use crate::peers::{PeerError, Peers};
use crate::reader::{Reader, Report};
use crate::status::Registry;

/// How a member of a group begins.
pub(crate) enum Beginning {
    /// It is the first member.
    Alone,
    /// It asks members.
    With(Peers),
    /// It asks members, and if there are none it creates the group with other hosts.
    Expecting(Expect, Peers),
}

/// What the builder of every service has: the host, the service's name, and how long entering it
/// may take.
#[derive(Debug)]
pub(crate) struct Joining {
    host: Host,
    name: String,
    pub(crate) within: Duration,
    /// The service's weight on the host's link.
    pub(crate) weight: u32,
}

impl Joining {
    pub(crate) fn new(host: Host, name: &str) -> Joining {
        Joining { host, name: name.to_owned(), within: Duration::from_secs(10), weight: 1 }
    }

    /// The services of the host, and this one's name.
    pub(crate) fn registered(&self) -> (Registry, String) {
        (self.host.registry.clone(), self.name.clone())
    }

    pub(crate) fn id(&self) -> NodeId {
        self.host.id
    }

    /// Where others reach the host, as protocols pass it on.
    pub(crate) fn address(&self) -> Bytes {
        Bytes::from(self.host.address.to_string())
    }

    /// Parses the peers and asks each source once. Fails with `no_peer` if no peer is given.
    pub(crate) async fn resolve<E: From<PeerError>>(
        &self,
        peers: impl IntoIterator<Item = impl AsRef<str>>,
        no_peer: E,
    ) -> Result<Peers, E> {
        Peers::resolve(peers, self.host.resolver, no_peer).await
    }

    /// The longest message, bytes, that a datagram carries.
    pub(crate) fn datagram_message_bytes_max(&self) -> usize {
        self.host.datagram_message_bytes_max
    }

    /// Starts the node. `kind` separates services of one name: hosts of another kind refuse it.
    pub(crate) fn start<P: Hosted>(
        self,
        kind: &str,
        protocol: P,
        shared: P::Shared,
    ) -> Result<(Node<P>, Events<P>), StartError> {
        let number = ServiceNumber::of(kind, &self.name);
        let (node, events) = self.host.endpoint()?.start(number, protocol, Arc::new(shared))?;
        node.set_weight(self.weight).map_err(|Closed| StartError::Closed)?;
        self.host.registry.add(kind, &self.name, node.observer());
        Ok((node, events))
    }

    /// Starts a member and founds its group, or joins it. Returns once it is in a view, which is
    /// the first event.
    pub(crate) async fn enter<P, R>(
        self,
        kind: &str,
        beginning: Beginning,
        protocol: P,
        shared: P::Shared,
        report: impl FnOnce(Node<P>) -> R,
    ) -> Result<(MemberHandle<P>, Reader<R>), JoinError>
    where
        P: Hosted<Command: From<MembershipCommand> + From<Gather>>,
        R: Report<Protocol = P>,
    {
        let (within, id, address) = (self.within, self.id(), self.address());
        let (registry, name) = self.registered();
        let (node, events) = self.start(kind, protocol, shared)?;
        let member = MemberHandle::new(node, id);
        registry.describe_by(kind, &name, member.watched());
        let node = member.node();
        let mut reader = Reader::new(events, member.standing().clone(), report(node.clone()));
        let (command, mut peers, expect) = match beginning {
            Beginning::Alone => {
                (MembershipCommand::Bootstrap { address }.into(), Peers::default(), None)
            }
            Beginning::With(peers) => {
                let join = MembershipCommand::Join { address, peers: Vec::new() };
                (join.into(), peers, None)
            }
            Beginning::Expecting(expect, peers) => {
                let gather = Gather { address, peers: Vec::new(), expect };
                (gather.into(), peers, Some(expect))
            }
        };
        node.command(command)?;
        node.seek(peers.addresses())?;
        reader.first_view(node, within, &mut peers, expect).await?;
        Ok((member, reader))
    }
}

/// Checks a number of hosts that create a group of at most `members_max`.
pub(crate) fn expect_of(hosts: u32, members_max: usize) -> Result<Expect, ConfigError> {
    let refused = |expected| {
        Err(ConfigError::Invalid { knob: "expect", value: Value::Integer(hosts.into()), expected })
    };
    match Expect::new(hosts) {
        None => refused("2 to 64"),
        Some(_) if hosts as usize > members_max => refused("at most members_max"),
        Some(expect) => Ok(expect),
    }
}
