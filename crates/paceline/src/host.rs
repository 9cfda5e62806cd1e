use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paceline_net::{
    BindError, Bound, Endpoint, Exposure, Multicast, NodeConfig, Roster, StartError, Stats,
};
use paceline_proto::core::{ConfigError, NodeId};
use paceline_proto::detector;
use paceline_seal::identity::{ClusterKey, HostKey, Identity, IdentityError, UnixTime};
use paceline_seal::{HandshakeError, Secret};
use rand::TryRng;
use rand::rngs::{SysError, SysRng};
use thiserror::Error;

use crate::builder::ServiceBuilder;
use crate::dht::DhtBuilder;
use crate::group::GroupBuilder;
use crate::leaving::LEAVE_WITHIN;
use crate::multicast::MulticastBuilder;
use crate::peers::{self, PeerError, PeerSource, Resolver};
use crate::status::Registry;
use crate::walks::WalksBuilder;

/// Why a host cannot start. No port is left open.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostError {
    /// The sockets could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The host was bound and could not run: there is no tokio runtime, or the operating system
    /// refused something.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A peer has none of the forms.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A knob of the failure detector is out of range.
    #[error(transparent)]
    Detector(#[from] ConfigError),
    /// The operating system gives no random bytes for an id or a key.
    #[error("cannot get random bytes from the operating system: {0}")]
    Random(SysError),
    /// The host cannot certify itself.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// This processor cannot run the handshake or the cipher of the cluster.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// A host with a key has the id that follows from it.
    #[error("a host with a key has the id that follows from it: leave out `id`")]
    IdOfKey,
    /// Others could not reach the address.
    #[error("{address} is the listening address, which others cannot reach: set `advertise`")]
    Unreachable {
        /// The address.
        address: SocketAddr,
    },
}

/// Ids that are not given are below 2^53: readers of JSON may keep numbers as 64-bit floats (RFC
/// 7493, section 2.2). Of 10,000 hosts two have the same with a chance of 1 in 180 million.
const ID_BITS: u32 = 53;

/// Where a host has its id from.
#[derive(Clone, Copy, Debug)]
enum Id {
    Random,
    OfAddress,
    Given(NodeId),
}

/// What a host needs to start; made by [`Host::builder`].
#[derive(Debug)]
pub struct HostBuilder {
    cluster: String,
    id: Id,
    bind: SocketAddr,
    advertise: Option<SocketAddr>,
    socket_buffer_bytes: Option<u32>,
    datagram_bytes_max: Option<usize>,
    events_bytes_max: Option<usize>,
    memory_bytes_max: Option<usize>,
    link_rate: Option<u64>,
    ip_multicast: Multicast,
    exposure: Exposure,
    cluster_key: Option<ClusterKey>,
    host_key: Option<HostKey>,
    identity: Option<Identity>,
    detector: detector::Config,
    resolver: Resolver,
    peers: Vec<String>,
    stop_within: Duration,
}

impl HostBuilder {
    /// The address to listen on, by TCP and UDP. Default 127.0.0.1 and any free port.
    pub fn bind(mut self, address: SocketAddr) -> HostBuilder {
        self.bind = address;
        self
    }

    /// The address at which others reach this host, if it is not the one it listens on: behind
    /// address translation, or when it listens everywhere.
    pub fn advertise(mut self, address: SocketAddr) -> HostBuilder {
        self.advertise = Some(address);
        self
    }

    /// Hosts that the services of this one ask to join them, each in a form of [`PeerSource`],
    /// unless a service names others ([`ServiceBuilder::peers`](crate::ServiceBuilder::peers)).
    /// Replaces those of an earlier call. Default none.
    pub fn peers(mut self, peers: impl IntoIterator<Item = impl AsRef<str>>) -> HostBuilder {
        self.peers = peers.into_iter().map(|peer| peer.as_ref().to_owned()).collect();
        self
    }

    /// The host's id, unique in the cluster. Default: drawn at random.
    pub fn id(mut self, id: NodeId) -> HostBuilder {
        self.id = Id::Given(id);
        self
    }

    /// Makes the id a hash of the address at which others reach the host, so that it stays the same
    /// across restarts. It is drawn at random if the port of that address is 0, and follows from
    /// the key of a host that has one.
    pub fn id_of_address(mut self) -> HostBuilder {
        self.id = Id::OfAddress;
        self
    }

    /// Kernel send and receive buffer of every socket, bytes. Default: the kernel's choice.
    pub fn socket_buffer_bytes(mut self, bytes: u32) -> HostBuilder {
        self.socket_buffer_bytes = Some(bytes);
        self
    }

    /// The longest datagram, bytes of UDP payload. Default 1,200, which fits every usual path;
    /// 1,472 fits Ethernet, up to 65,000 loopback. IP cuts longer ones, lost with any part.
    pub fn datagram_bytes_max(mut self, bytes: usize) -> HostBuilder {
        self.datagram_bytes_max = Some(bytes);
        self
    }

    /// Bytes of unread events that other hosts cause, mostly views; messages have bounds of their
    /// own. At this many the host reads nothing from other hosts until half are received; if that
    /// lasts they suspect it. Default 16 MiB.
    pub fn events_bytes_max(mut self, bytes: usize) -> HostBuilder {
        self.events_bytes_max = Some(bytes);
        self
    }

    /// Bytes that the host may hold for all others together, in queues and in incomplete records.
    /// Default 1 GiB, at least 1 MiB. What is dropped beyond it, and in which order:
    /// [`NodeConfig::with_memory_bytes_max`](paceline_net::NodeConfig::with_memory_bytes_max).
    pub fn memory_bytes_max(mut self, bytes: usize) -> HostBuilder {
        self.memory_bytes_max = Some(bytes);
        self
    }

    /// The rate of the host's link, bits a second on an Ethernet, at least 64,000. The host sends
    /// no faster, and its services share the rate by their weights ([`GroupBuilder::weight`]),
    /// whatever they send to whom: none raises the delay of another by more than its turn. Default
    /// unknown: then services share each stream to a host, and datagrams leave at once.
    pub fn link_rate(mut self, bits_per_second: u64) -> HostBuilder {
        self.link_rate = Some(bits_per_second);
        self
    }

    /// How packets to a group leave: once, by IP multicast, or as a copy to each member. All hosts
    /// of a cluster need the same. Default copies, which need nothing of the network.
    pub fn ip_multicast(mut self, multicast: Multicast) -> HostBuilder {
        self.ip_multicast = multicast;
        self
    }

    /// Changes the configuration of the failure detector, which watches the hosts of all groups of
    /// this host. A host that crashes is out of the views of all its groups after the same time,
    /// however many they are. Default: for a local network, 0.7 s on average.
    pub fn detector(
        mut self,
        change: impl FnOnce(detector::Config) -> detector::Config,
    ) -> HostBuilder {
        self.detector = change(self.detector);
        self
    }

    /// The name server for peers of the form `dns:`. Default: the system's resolver for address
    /// records, which also reads `/etc/hosts`; the servers in `/etc/resolv.conf` for SRV records.
    pub fn dns_server(mut self, address: SocketAddr) -> HostBuilder {
        self.resolver = Resolver::of_server(address);
        self
    }

    /// How long [`Host::stop`] waits for services to leave. Default 15 s.
    pub fn stop_within(mut self, time: Duration) -> HostBuilder {
        self.stop_within = time;
        self
    }

    /// Seals what the host sends, and takes only what hosts with the same cluster key have sealed.
    /// The host certifies its own key ([`host_key`](HostBuilder::host_key)) with the cluster key,
    /// and again each half day. It may listen beyond loopback. Default: nothing is sealed.
    pub fn cluster_key(mut self, key: ClusterKey) -> HostBuilder {
        self.cluster_key = Some(key);
        self
    }

    /// The key of the host, from which its id follows; only for a host with a
    /// [`cluster_key`](HostBuilder::cluster_key). Default: drawn at random, so that the host has
    /// another id at each start.
    pub fn host_key(mut self, key: HostKey) -> HostBuilder {
        self.host_key = Some(key);
        self
    }

    /// Like [`cluster_key`](HostBuilder::cluster_key), for a host that a CA has certified: no key
    /// of the cluster is on its machine.
    pub fn identity(mut self, identity: Identity) -> HostBuilder {
        self.identity = Some(identity);
        self
    }

    /// Allows addresses beyond loopback although nothing is encrypted or authenticated: any host
    /// that reaches the port can read and forge messages. Without effect on a host that seals.
    pub fn insecure_plaintext(mut self) -> HostBuilder {
        self.exposure = Exposure::InsecurePlaintext;
        self
    }

    /// Binds the ports and starts the host: it answers other hosts from now on.
    ///
    /// # Errors
    /// If the address cannot be bound, others could not reach it, a peer has none of the forms, a
    /// knob of the failure detector is out of range, the host cannot certify itself, or there is no
    /// tokio runtime.
    pub async fn start(self) -> Result<Host, HostError> {
        let peers = peers::parse(&self.peers).map_err(PeerError::from)?;
        let reached_at = self.advertise.unwrap_or(self.bind);
        let identity = match (&self.cluster_key, self.identity) {
            (Some(cluster), _) => {
                let key = match self.host_key {
                    Some(key) => key,
                    None => random_key()?,
                };
                Some(Identity::self_certified(cluster, key, UnixTime::now())?)
            }
            (None, identity) => identity,
        };
        let id = match (self.id, &identity) {
            (Id::Given(_), Some(_)) => return Err(HostError::IdOfKey),
            (Id::OfAddress | Id::Random, Some(identity)) => NodeId(identity.id().get()),
            (Id::Given(id), None) => id,
            (Id::OfAddress, None) if reached_at.port() != 0 => {
                let hash = blake3::hash(reached_at.to_string().as_bytes());
                short_id(u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("32 bytes")))
            }
            (Id::OfAddress | Id::Random, None) => {
                short_id(SysRng.try_next_u64().map_err(HostError::Random)?)
            }
        };
        let mut config = NodeConfig::new(&self.cluster, id)
            .with_detector(self.detector.build()?)
            .with_exposure(self.exposure)
            .with_socket_buffer_bytes(self.socket_buffer_bytes)
            .with_multicast(self.ip_multicast)
            .with_open_membership();
        if let Some(identity) = &identity {
            config = match self.cluster_key {
                Some(cluster) => config.with_cluster_key(identity, cluster)?,
                None => config.with_identity(identity)?,
            };
        }
        if let Some(bytes) = self.datagram_bytes_max {
            config = config.with_datagram_bytes_max(bytes);
        }
        if let Some(bytes) = self.events_bytes_max {
            config = config.with_events_bytes_max(bytes);
        }
        if let Some(bytes) = self.memory_bytes_max {
            config = config.with_memory_bytes_max(bytes);
        }
        if let Some(bits_per_second) = self.link_rate {
            config = config.with_link_rate(bits_per_second);
        }
        let bound = Bound::bind(self.bind, config)?;
        let address = self.advertise.unwrap_or(bound.local_addr());
        if address.ip().is_unspecified() || address.port() == 0 {
            return Err(HostError::Unreachable { address });
        }
        let datagram_message_bytes_max = bound.datagram_message_bytes_max();
        let exposure = if identity.is_some() { Exposure::Sealed } else { self.exposure };
        let roster = Roster::new([(id, address)]).expect("one node is not named twice");
        let shared = Shared {
            endpoint: bound.open(roster)?,
            is_stopping: AtomicBool::new(false),
            id,
            address,
            exposure,
            datagram_message_bytes_max,
            resolver: self.resolver,
            peers,
            stop_within: self.stop_within,
            registry: Registry::default(),
        };
        Ok(Host { shared: Arc::new(shared) })
    }
}

fn random_key() -> Result<HostKey, HostError> {
    let random = Secret::draw(|bytes| SysRng.try_fill_bytes(bytes)).map_err(HostError::Random)?;
    Ok(HostKey::generate(&random))
}

fn short_id(bits: u64) -> NodeId {
    NodeId(bits >> (u64::BITS - ID_BITS))
}

/// A host of a cluster: one TCP and one UDP port, for any number of services of any kind. Clones
/// are the same host.
///
/// Services of one kind and name on several hosts are one service; a host runs one of each kind and
/// name. [`Host::stop`] leaves all of them and ends the host, [`Host::abort`] ends it without
/// leaving. It also ends so once all its handles and those of its services are dropped.
#[derive(Clone, Debug)]
pub struct Host {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    endpoint: Endpoint,
    /// True once no further service may start.
    is_stopping: AtomicBool,
    id: NodeId,
    address: SocketAddr,
    exposure: Exposure,
    datagram_message_bytes_max: usize,
    resolver: Resolver,
    peers: Vec<PeerSource>,
    stop_within: Duration,
    registry: Registry,
}

impl Host {
    /// Configures a host of the cluster of this name. Hosts of other clusters refuse it.
    pub fn builder(cluster: impl Into<String>) -> HostBuilder {
        HostBuilder {
            cluster: cluster.into(),
            id: Id::Random,
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise: None,
            socket_buffer_bytes: None,
            datagram_bytes_max: None,
            events_bytes_max: None,
            memory_bytes_max: None,
            link_rate: None,
            ip_multicast: Multicast::default(),
            exposure: Exposure::default(),
            cluster_key: None,
            host_key: None,
            identity: None,
            detector: detector::Config::new(),
            resolver: Resolver::default(),
            peers: Vec::new(),
            stop_within: LEAVE_WITHIN,
        }
    }

    /// The host's id.
    pub fn id(&self) -> NodeId {
        self.shared.id
    }

    /// Where others reach the host: the address that it listens on, unless
    /// [`advertise`](HostBuilder::advertise) names another.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The address that the host listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.endpoint.local_addr()
    }

    /// Where the host may listen, and whether it seals what it sends.
    pub fn exposure(&self) -> Exposure {
        self.shared.exposure
    }

    /// What the host has counted until now, without the counts of its services' protocols.
    pub fn stats(&self) -> Stats {
        self.shared.endpoint.stats()
    }

    /// Configures the group of this name, to create it or join it. Members of a group of another
    /// name refuse each other.
    pub fn group(&self, name: impl AsRef<str>) -> GroupBuilder {
        ServiceBuilder::new(self.clone(), name.as_ref(), Default::default())
    }

    /// Configures the group of this name whose members multicast in time, to create it or join it.
    pub fn multicast(&self, name: impl AsRef<str>) -> MulticastBuilder {
        ServiceBuilder::new(self.clone(), name.as_ref(), Default::default())
    }

    /// Configures the distributed hash table of this name, to create it, join it or visit it.
    pub fn dht(&self, name: impl AsRef<str>) -> DhtBuilder {
        ServiceBuilder::new(self.clone(), name.as_ref(), Default::default())
    }

    /// Configures random walks over the graph of the servers of this name, as a server or a client.
    pub fn walks(&self, name: impl AsRef<str>) -> WalksBuilder {
        ServiceBuilder::new(self.clone(), name.as_ref(), Default::default())
    }

    /// The running node.
    ///
    /// # Errors
    /// If the host stops or has stopped.
    pub(crate) fn endpoint(&self) -> Result<&Endpoint, StartError> {
        match self.shared.is_stopping.load(Ordering::Acquire) {
            true => Err(StartError::Closed),
            false => Ok(&self.shared.endpoint),
        }
    }

    /// Lets no further service start.
    pub(crate) fn refuse_services(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
    }

    /// Ends all services and closes the ports. Returns the bytes that were not sent.
    pub(crate) async fn close(&self) -> usize {
        self.shared.endpoint.stop().await.abandoned_bytes
    }

    pub(crate) fn datagram_message_bytes_max(&self) -> usize {
        self.shared.datagram_message_bytes_max
    }

    pub(crate) fn resolver(&self) -> Resolver {
        self.shared.resolver
    }

    /// The peers of services that name no others.
    pub(crate) fn peers(&self) -> &[PeerSource] {
        &self.shared.peers
    }

    pub(crate) fn stop_within(&self) -> Duration {
        self.shared.stop_within
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.shared.registry
    }
}
