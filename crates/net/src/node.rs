//! Starting a node, and the handles to a running one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use paceline_proto::core::{NodeId, View, mix};
use paceline_proto::host::{Input, NodeParts};
use rand::TryRng;
use rand::rngs::SysRng;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::TcpListener;

use crate::chassis::Task;
use crate::chassis::ends::{Control, Stopped};
use crate::chassis::machine::Hosted;
use crate::chassis::services::ServiceEnds;
use crate::config::NodeConfig;
use crate::datagrams::multicast::{MulticastUse, Way};
use crate::description::ServiceDescription;
use crate::driver::{Driver, Order, Parts};
use crate::emulate::EmulateChange;
use crate::error::{BindError, Closed, StartError};
use crate::events::Events;
use crate::handle::{Handle, Kind, NodeEnds, WeakHandle};
use crate::nonces::Nonces;
use crate::record::{ClusterTag, ServiceNumber, Session};
use crate::roster::Roster;
use crate::stats::Stats;

/// Connections that the kernel holds until they are accepted.
const LISTEN_BACKLOG: i32 = 1024;
/// Attempts to find a port number that is free for TCP and for UDP.
const PORT_ATTEMPTS: usize = 16;

/// Sockets that are bound and not used yet: one TCP port and the UDP port of the same number.
///
/// Bind first where addresses must be known before the roster is, as with port 0.
#[derive(Debug)]
pub struct Bound {
    listener: std::net::TcpListener,
    udp: std::net::UdpSocket,
    local_addr: SocketAddr,
    multicast: Way,
    config: NodeConfig,
}

impl Bound {
    /// Binds both sockets. Port 0 takes a number that is free for both.
    ///
    /// # Errors
    /// If the port is taken, or the address is not loopback and the configuration does not allow
    /// plaintext beyond it, or the configuration requires multicast and the interface has none.
    pub fn bind(addr: SocketAddr, config: NodeConfig) -> Result<Bound, BindError> {
        if !config.common.allows(addr.ip()) {
            return Err(BindError::Unsealed { addr });
        }
        let mut attempts = if addr.port() == 0 { PORT_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            match bind_both(addr, &config) {
                Ok((listener, udp, local_addr)) => {
                    // Members of a group have no key in common yet.
                    let is_sealed = config.sealing.is_some();
                    let against = is_sealed.then_some("a node with an identity sends copies only");
                    let receive_bytes = config.receive_buffer_bytes();
                    let multicast = Way::open(&udp, config.multicast, receive_bytes, against)
                        .map_err(|source| BindError::Multicast { addr, source })?;
                    return Ok(Bound { listener, udp, local_addr, multicast, config });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts > 0 => {}
                Err(source) => return Err(BindError::refused(addr, source)),
            }
        }
    }

    /// The address that both sockets have.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The longest message, bytes, that a datagram carries.
    pub fn datagram_message_bytes_max(&self) -> usize {
        self.config.datagram_message_bytes_max()
    }

    /// The same sockets, for the service of this number.
    pub fn for_service(mut self, number: ServiceNumber) -> Bound {
        self.config.service = number;
        self
    }

    /// Starts the node on the current tokio runtime. The roster must name it; the address that
    /// the roster gives for it is what peers dial and may differ from the bound one.
    ///
    /// # Errors
    /// If the roster does not name the node, or there is no runtime.
    pub fn start<P: Hosted>(
        self,
        roster: Roster,
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Result<(Node<P>, Events<P>), StartError> {
        let number = self.config.service;
        let (endpoint, parts) = self.assemble(roster)?;
        let incarnation = parts.session.incarnation();
        let (node, events, service) =
            endpoint.service((number, None), incarnation, parts.seed, protocol, shared)?;
        endpoint.run(Parts { service: Some(service), ..parts })?;
        Ok((node, events))
    }

    /// Starts a node without a service on the current tokio runtime. The roster must name it, as
    /// for [`Bound::start`].
    ///
    /// # Errors
    /// If the roster does not name the node, or there is no runtime.
    pub fn open(self, roster: Roster) -> Result<Endpoint, StartError> {
        let (endpoint, parts) = self.assemble(roster)?;
        endpoint.run(parts)?;
        Ok(endpoint)
    }

    fn assemble(self, roster: Roster) -> Result<(Endpoint, Parts), StartError> {
        let node = self.config.node;
        if roster.addr(node).is_none() {
            return Err(StartError::NotAMember { node });
        }
        let (seed, runtime) = self.config.common.seed_and_runtime()?;
        let session = Session::start().map_err(StartError::Random)?;
        let mut key = [0; 32];
        SysRng.try_fill_bytes(&mut key).map_err(StartError::Random)?;
        let cluster = self.config.cluster_tag();
        let multicast = Arc::new(self.multicast.describe((cluster, self.config.service)));
        let kept = Arc::new(());
        let socket = (&self.udp, self.local_addr);
        let events_bytes_max = self.config.common.events_bytes_max;
        let (ends, driver_ends) = NodeEnds::new(socket, events_bytes_max, Arc::downgrade(&kept));
        let endpoint = Endpoint { _kept: kept, ends, node, seed, cluster, multicast, runtime };
        let parts = Parts {
            ends: driver_ends,
            service: None,
            config: self.config,
            seed,
            session,
            nonces: Nonces::new(key),
            roster,
            listener: TcpListener::from_std(self.listener)?,
            udp: self.udp,
            multicast: self.multicast,
        };
        Ok((endpoint, parts))
    }
}

/// A running node on which services start and end: one TCP and one UDP port, one session and one
/// table of peers for all of them. Clones lead to the same node; when the last one is dropped, and
/// the last handle of a service, the node flushes its streams and stops.
///
/// Each message names its service by a [`ServiceNumber`], and a node delivers it to its own service
/// of that number. A node that runs none drops the message (`record_unknown_service`). All services
/// learn when the stream to a peer breaks; only the one that [seeks](Node::seek) an address learns
/// which node is there.
#[derive(Clone, Debug)]
pub struct Endpoint {
    // While a clone of it is there the node stays without a service.
    _kept: Arc<()>,
    ends: NodeEnds<Order>,
    node: NodeId,
    seed: u64,
    cluster: ClusterTag,
    // As the first service sees it.
    multicast: Arc<MulticastUse>,
    runtime: tokio::runtime::Handle,
}

impl Endpoint {
    /// Starts a service of which peers learn nothing but its number.
    ///
    /// # Errors
    /// If the node runs a service of this number, or has stopped.
    pub fn start<P: Hosted>(
        &self,
        number: ServiceNumber,
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Result<(Node<P>, Events<P>), StartError> {
        self.start_service((number, None), protocol, shared)
    }

    /// Starts the service of this kind and name. It hears those of peers that have the same
    /// [`terms`](paceline_proto::core::Protocol::terms); others learn how theirs differs
    /// ([`Node::mismatches`]).
    ///
    /// # Errors
    /// If the node runs a service of this kind and name with these terms, or has stopped.
    pub fn start_named<P: Hosted>(
        &self,
        (kind, name): (&str, &str),
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Result<(Node<P>, Events<P>), StartError> {
        let (kind, name, terms) = (kind.to_owned(), name.to_owned(), P::terms(&shared));
        let description = ServiceDescription { kind, name, terms };
        self.start_service((description.number(), Some(description)), protocol, shared)
    }

    fn start_service<P: Hosted>(
        &self,
        service: (ServiceNumber, Option<ServiceDescription>),
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Result<(Node<P>, Events<P>), StartError> {
        let random = || SysRng.try_next_u64().map_err(StartError::Random);
        // A service that ends and starts again is another incarnation, in the same session.
        let incarnation = random()?.max(1);
        let seed = mix(self.seed ^ u64::from(service.0.0));
        let (node, events, service) = self.service(service, incarnation, seed, protocol, shared)?;
        self.ends.order(Order::Start(service)).map_err(|Closed| StartError::Closed)?;
        Ok((node, events))
    }

    /// Ends all services, flushes the streams for at most `stop_within`, and closes the sockets.
    /// Returns at once if the node has already stopped.
    pub async fn stop(&self) -> Stopped {
        self.ends.stop(|reply| Control::StopNode(Some(reply))).await
    }

    /// The node's counts at the end of its last turn, without those of its services' protocols.
    pub fn stats(&self) -> Stats {
        self.ends.stats()
    }

    /// The address that the node listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.ends.common.local_addr
    }

    fn service<P: Hosted>(
        &self,
        (number, description): (ServiceNumber, Option<ServiceDescription>),
        incarnation: u64,
        seed: u64,
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Result<(Node<P>, Events<P>, ServiceEnds), StartError> {
        let multicast = Arc::new(self.multicast.of((self.cluster, number)));
        let kind = Member { incarnation, multicast };
        let parts = NodeParts { protocol, shared, node: self.node, incarnation, seed };
        let taken = StartError::ServiceTaken { number };
        self.ends.service(kind, (number, description), parts).ok_or(taken)
    }

    fn run(&self, parts: Parts) -> Result<(), StartError> {
        Task::spawn(Box::new(Driver::start(parts)?), &self.runtime);
        Ok(())
    }
}

/// A handle to a service of a running node. Clones lead to the same service; it ends when the last
/// one is dropped. With it a node that was started for this service flushes its streams and stops.
pub type Node<P> = Handle<P, Member>;

/// Leads to a service of a running node and does not keep it; made by [`Node::downgrade`].
pub type WeakNode<P> = WeakHandle<P, Member>;

/// The kind of a node that is a member of a cluster, and its constant properties.
#[derive(Clone, Debug)]
pub struct Member {
    incarnation: u64,
    multicast: Arc<MulticastUse>,
}

impl Kind for Member {
    type Order = Order;
}

impl<P: Hosted> Node<P> {
    /// Binds the node's address in the roster and starts it there.
    ///
    /// # Errors
    /// If the roster does not name the node, or the address cannot be bound.
    pub fn start(
        config: NodeConfig,
        roster: Roster,
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Result<(Node<P>, Events<P>), StartError> {
        let node = config.node;
        let addr = roster.addr(node).ok_or(StartError::NotAMember { node })?;
        Bound::bind(addr, config)?.start(roster, protocol, shared)
    }

    /// Installs a view, in order with the commands.
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn install_view(&self, view: Arc<View>) -> Result<(), Closed> {
        self.input(Input::View(view), 0)
    }

    /// Sends to these addresses until members answer; the protocol learns of each as a peer that is
    /// up. Needs [`NodeConfig::with_open_membership`].
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn seek(&self, addresses: Vec<SocketAddr>) -> Result<(), Closed> {
        self.order(Order::Seek(self.number, addresses))
    }

    /// Gives the service a weight, 1 to 1,000, among those of its node; others have 1. While
    /// several have something to send, each gets a share of the link in proportion.
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn set_weight(&self, weight: u32) -> Result<(), Closed> {
        self.order(Order::Weigh(self.number, weight))
    }

    /// Changes what the node emulates, from its next turn on.
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn emulate(&self, change: EmulateChange) -> Result<(), Closed> {
        self.order(Order::Emulate(change))
    }

    /// How messages to groups leave: the result of [`NodeConfig::with_multicast`] on this machine.
    /// While links are emulated ([`Node::emulate`]) they leave as copies in any case.
    pub fn multicast(&self) -> &MulticastUse {
        &self.kind.multicast
    }

    /// The random number by which protocols know this run of the node. Never 0.
    pub fn incarnation(&self) -> u64 {
        self.kind.incarnation
    }
}

type Sockets = (std::net::TcpListener, std::net::UdpSocket, SocketAddr);

fn bind_both(addr: SocketAddr, config: &NodeConfig) -> io::Result<Sockets> {
    let tcp = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    // So that a restarted member gets its port back at once.
    tcp.set_reuse_address(true)?;
    tcp.set_nonblocking(true)?;
    set_buffers(&SockRef::from(&tcp), config)?;
    tcp.bind(&addr.into())?;
    tcp.listen(LISTEN_BACKLOG)?;
    let listener = std::net::TcpListener::from(tcp);
    let local_addr = listener.local_addr()?;
    let udp = std::net::UdpSocket::bind(local_addr)?;
    udp.set_nonblocking(true)?;
    let socket = SockRef::from(&udp);
    set_buffers(&socket, config)?;
    socket.set_recv_buffer_size(config.receive_buffer_bytes())?;
    Ok((listener, udp, local_addr))
}

fn set_buffers(socket: &SockRef<'_>, config: &NodeConfig) -> io::Result<()> {
    if let Some(bytes) = config.socket_buffer_bytes {
        socket.set_send_buffer_size(bytes as usize)?;
        socket.set_recv_buffer_size(bytes as usize)?;
    }
    Ok(())
}
