//! How a host starts a service, and enters it by asking peers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_net::record::ServiceNumber;
use paceline_net::{Events, Hosted, Node, StartError};
use paceline_proto::core::{MembershipCommand, NodeId};

use crate::Host;
use crate::join_error::{JoinError, UnresolvedPeer};
use crate::member::MemberHandle;
use crate::reader::{Reader, Report};

/// The members to ask.
#[derive(Default)]
pub(crate) struct Peers {
    names: Vec<String>,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Peers {
    /// Resolves the names of peers (`host:port`), each to all its addresses; `no_peer` if there is
    /// none.
    pub(crate) async fn resolve<E: From<UnresolvedPeer>>(
        names: impl IntoIterator<Item = impl AsRef<str>>,
        no_peer: E,
    ) -> Result<Peers, E> {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        if names.is_empty() {
            return Err(no_peer);
        }
        let mut addresses = Vec::new();
        for name in &names {
            let unresolved = |source| UnresolvedPeer { peer: name.clone(), source };
            addresses.extend(tokio::net::lookup_host(name.as_str()).await.map_err(unresolved)?);
        }
        Ok(Peers { names, addresses })
    }

    /// The names in one line.
    pub(crate) fn listed(&self) -> String {
        self.names.join(", ")
    }
}

/// What the builder of every service has: the host, the service's name, and how long entering it
/// may take.
#[derive(Debug)]
pub(crate) struct Joining {
    host: Host,
    name: String,
    pub(crate) within: Duration,
}

impl Joining {
    pub(crate) fn new(host: Host, name: &str) -> Joining {
        Joining { host, name: name.to_owned(), within: Duration::from_secs(10) }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.host.id
    }

    /// Where others reach the host, as protocols pass it on.
    pub(crate) fn address(&self) -> Bytes {
        Bytes::from(self.host.address.to_string())
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
        self.host.endpoint()?.start(number, protocol, Arc::new(shared))
    }

    /// Starts a member and founds its group, or joins it if there are peers. Returns once it is in
    /// a view, which is the first event.
    pub(crate) async fn enter<P, R>(
        self,
        kind: &str,
        peers: Option<Peers>,
        protocol: P,
        shared: P::Shared,
        report: impl FnOnce(Node<P>) -> R,
    ) -> Result<(MemberHandle<P>, Reader<R>), JoinError>
    where
        P: Hosted<Command: From<MembershipCommand>>,
        R: Report<Protocol = P>,
    {
        let (within, id, address) = (self.within, self.id(), self.address());
        let (node, events) = self.start(kind, protocol, shared)?;
        let member = MemberHandle::new(node, id);
        let node = member.node();
        let mut reader = Reader::new(events, member.standing().clone(), report(node.clone()));
        let listed = match peers {
            None => {
                node.command(MembershipCommand::Bootstrap { address }.into())?;
                "this node".to_owned()
            }
            Some(peers) => {
                let join = MembershipCommand::Join { address, peers: Vec::new() };
                node.command(join.into())?;
                let listed = peers.listed();
                node.seek(peers.addresses)?;
                listed
            }
        };
        reader.first_view(node, within, &listed).await?;
        Ok((member, reader))
    }
}
