//! How a host starts a service, and enters it by asking peers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_net::{Closed, Events, Hosted, Node, StartError};
use paceline_proto::core::knobs::Value;
use paceline_proto::core::{ConfigError, MembershipCommand, NodeId};
use paceline_proto::group::{Expect, Gather};

use crate::Host;
use crate::join_error::JoinError;
use crate::leaving::LEAVE_WITHIN;
use crate::member::MemberHandle;
use crate::peers::{self, PeerError, PeerSource, Peers};
use crate::reader::{Reader, Report};
use crate::status::Registry;

/// How a service begins on a host.
pub enum Beginning {
    /// The host creates it.
    Alone,
    /// It asks members.
    With(Peers),
    /// It asks members, and if there are none it creates the service with other hosts.
    Expecting(Expect, Peers),
}

/// What is configured alike of every service.
#[derive(Debug)]
pub struct Joining {
    host: Host,
    name: String,
    /// Replaces the host's peers.
    pub(crate) peers: Option<Vec<String>>,
    /// How long entering the service may take.
    pub(crate) within: Duration,
    /// How long leaving it may take.
    pub(crate) leave_within: Option<Duration>,
    /// The service's weight on the host's link.
    pub(crate) weight: u32,
}

impl Joining {
    pub(crate) fn new(host: Host, name: &str) -> Joining {
        let (name, within) = (name.to_owned(), Duration::from_secs(10));
        Joining { host, name, peers: None, within, leave_within: None, weight: 1 }
    }

    /// The services of the host, and this one's name.
    pub(crate) fn registered(&self) -> (Registry, String) {
        (self.host.registry().clone(), self.name.clone())
    }

    pub(crate) fn id(&self) -> NodeId {
        self.host.id()
    }

    /// Where others reach the host, as protocols pass it on.
    pub(crate) fn address(&self) -> Bytes {
        Bytes::from(self.host.address().to_string())
    }

    /// The forms of the service's peers.
    ///
    /// # Errors
    /// If a peer of the builder has none of the forms of [`PeerSource`].
    pub(crate) fn forms(&self) -> Result<Vec<PeerSource>, PeerError> {
        match &self.peers {
            Some(forms) => Ok(peers::parse(forms)?),
            None => Ok(self.host.peers().to_vec()),
        }
    }

    /// Asks each source of peers once.
    ///
    /// # Errors
    /// If no peer is given, or a peer cannot be used.
    pub(crate) async fn resolve(&self) -> Result<Peers, JoinError> {
        Peers::resolve(self.forms()?, self.host.resolver(), JoinError::NoPeer).await
    }

    /// The longest message, bytes, that a datagram carries.
    pub(crate) fn datagram_message_bytes_max(&self) -> usize {
        self.host.datagram_message_bytes_max()
    }

    /// Starts the node. `kind` separates services of one name: hosts of another kind refuse it.
    pub(crate) fn start<P: Hosted>(
        self,
        kind: &str,
        protocol: P,
        shared: P::Shared,
    ) -> Result<(Node<P>, Events<P>), StartError> {
        let service = (kind, &*self.name);
        let (node, events) =
            self.host.endpoint()?.start_named(service, protocol, Arc::new(shared))?;
        node.set_weight(self.weight).map_err(|Closed| StartError::Closed)?;
        self.host.registry().add(kind, &self.name, node.observer());
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
        let leave_within = self.leave_within.unwrap_or(LEAVE_WITHIN);
        let (registry, name) = self.registered();
        let (node, events) = self.start(kind, protocol, shared)?;
        let member = MemberHandle::new(node, id, leave_within);
        registry.attach(kind, &name, member.registered());
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
        let service = format!("{kind} {name}");
        reader.first_view(node, (service, within), &mut peers, expect).await?;
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
