use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use paceline_net::{
    BindError, Bound, Endpoint, Exposure, Multicast, NodeConfig, Roster, StartError, Stats,
};
use paceline_proto::core::{ConfigError, NodeId};
use paceline_proto::detector;
use rand::TryRng;
use rand::rngs::{SysError, SysRng};
use thiserror::Error;

use crate::dht::DhtBuilder;
use crate::group::GroupBuilder;
use crate::lock;
use crate::multicast::MulticastBuilder;
use crate::peers::Resolver;
use crate::status::Registry;
use crate::walks::WalksBuilder;

/// Why a host cannot start.
#[derive(Debug, Error)]
pub enum HostError {
    /// The sockets could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A knob of the failure detector is out of range.
    #[error(transparent)]
    Detector(#[from] ConfigError),
    /// The operating system gives no random bytes for an id.
    #[error("cannot get random bytes from the operating system: {0}")]
    Random(SysError),
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
    detector: detector::Config,
    resolver: Resolver,
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

    /// The host's id, unique in the cluster. Default: drawn at random.
    pub fn id(mut self, id: NodeId) -> HostBuilder {
        self.id = Id::Given(id);
        self
    }

    /// Makes the id a hash of the address at which others reach the host, so that it stays the same
    /// across restarts. It is drawn at random if the port of that address is 0.
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

    /// Allows addresses beyond loopback although nothing is encrypted or authenticated: any host
    /// that reaches the port can read and forge messages.
    pub fn insecure_plaintext(mut self) -> HostBuilder {
        self.exposure = Exposure::InsecurePlaintext;
        self
    }

    /// Binds the sockets.
    ///
    /// # Errors
    /// If the address cannot be bound, others could not reach it, or a knob of the failure detector
    /// is out of range.
    pub fn start(self) -> Result<Host, HostError> {
        let reached_at = self.advertise.unwrap_or(self.bind);
        let id = match self.id {
            Id::Given(id) => id,
            Id::OfAddress if reached_at.port() != 0 => {
                let hash = blake3::hash(reached_at.to_string().as_bytes());
                short_id(u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("32 bytes")))
            }
            Id::OfAddress | Id::Random => {
                short_id(SysRng.try_next_u64().map_err(HostError::Random)?)
            }
        };
        let mut config = NodeConfig::new(&self.cluster, id)
            .with_detector(self.detector.build()?)
            .with_exposure(self.exposure)
            .with_socket_buffer_bytes(self.socket_buffer_bytes)
            .with_multicast(self.ip_multicast)
            .with_open_membership();
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
        let state = Arc::new(Mutex::new(State::Bound(Box::new(bound))));
        let resolver = self.resolver;
        let registry = Registry::default();
        Ok(Host { state, id, address, datagram_message_bytes_max, resolver, registry })
    }
}

fn short_id(bits: u64) -> NodeId {
    NodeId(bits >> (u64::BITS - ID_BITS))
}

/// A host of a cluster: one TCP and one UDP port, for any number of services of any kind. Clones
/// are the same host.
///
/// Services of one kind and name on several hosts are one service; a host runs one of each kind and
/// name. The host stops once all its handles and those of its services are dropped.
#[derive(Clone, Debug)]
pub struct Host {
    state: Arc<Mutex<State>>,
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) datagram_message_bytes_max: usize,
    pub(crate) resolver: Resolver,
    pub(crate) registry: Registry,
}

/// Whether a host has begun to run: with its first service, inside a runtime.
#[derive(Debug)]
enum State {
    Bound(Box<Bound>),
    Running(Endpoint),
    Stopped,
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
            detector: detector::Config::new(),
            resolver: Resolver::default(),
        }
    }

    /// The host's id.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Where others reach the host.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The running node, started if it is not.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, StartError> {
        let mut state = lock(&self.state);
        let bound = match std::mem::replace(&mut *state, State::Stopped) {
            State::Bound(bound) => bound,
            State::Running(endpoint) => {
                *state = State::Running(endpoint.clone());
                return Ok(endpoint);
            }
            State::Stopped => return Err(StartError::Closed),
        };
        if tokio::runtime::Handle::try_current().is_err() {
            *state = State::Bound(bound);
            return Err(StartError::NoRuntime);
        }
        let own = [(self.id, self.address)];
        let roster = Roster::new(own).expect("one node is not named twice");
        let endpoint = bound.open(roster)?;
        *state = State::Running(endpoint.clone());
        Ok(endpoint)
    }

    /// What the host has counted until now, without the counts of its services' protocols. Nothing
    /// before its first service starts and after the host has stopped.
    pub fn stats(&self) -> Stats {
        match &*lock(&self.state) {
            State::Running(endpoint) => endpoint.stats(),
            State::Bound(_) | State::Stopped => Stats::default(),
        }
    }

    /// Ends all services without leaving them, sends what is queued, for a bounded time, and closes
    /// the ports. To other members of a group it looks like a crash, unless it has left before.
    pub async fn stop(&self) {
        let before = std::mem::replace(&mut *lock(&self.state), State::Stopped);
        if let State::Running(endpoint) = before {
            endpoint.stop().await;
        }
    }

    /// Configures the group of this name, to create it or join it. Members of a group of another
    /// name refuse each other.
    pub fn group(&self, name: impl AsRef<str>) -> GroupBuilder {
        GroupBuilder::new(self.clone(), name.as_ref())
    }

    /// Configures the group of this name whose members multicast in time, to create it or join it.
    pub fn multicast(&self, name: impl AsRef<str>) -> MulticastBuilder {
        MulticastBuilder::new(self.clone(), name.as_ref())
    }

    /// Configures the distributed hash table of this name, to create it, join it or visit it.
    pub fn dht(&self, name: impl AsRef<str>) -> DhtBuilder {
        DhtBuilder::new(self.clone(), name.as_ref())
    }

    /// Configures random walks over the graph of the servers of this name, as a server or a client.
    pub fn walks(&self, name: impl AsRef<str>) -> WalksBuilder {
        WalksBuilder::new(self.clone(), name.as_ref())
    }
}
