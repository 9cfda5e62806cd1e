//! The configuration of a node, and what it has in common with that of a node with faces.

use std::net::IpAddr;
use std::time::Duration;

use paceline_proto::core::NodeId;
use paceline_proto::detector;
use paceline_seal::identity::{ClusterKey, Identity};
use paceline_seal::{HandshakeError, TAG_BYTES};
use rand::TryRng;
use rand::rngs::SysRng;

use crate::datagrams::multicast::Multicast;
use crate::datagrams::trains::TRAIN_LENGTH_MAX;
use crate::error::StartError;
use crate::handshakes::Sealing;
use crate::record::{ClusterTag, GROUP_BYTES, HEADER_BYTES, ServiceNumber};

/// Bytes of a datagram of a node before a message in it that goes to a group.
pub const DATAGRAM_HEAD_BYTES: usize = HEADER_BYTES + GROUP_BYTES;

/// Where a node without a key may listen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// On loopback addresses only. The default, since records are neither sealed nor signed.
    #[default]
    LoopbackOnly,
    /// Anywhere: any host that reaches the port can read and forge traffic. The flag
    /// `--insecure-plaintext` of the command line. The node logs a warning at its start and each
    /// hour.
    InsecurePlaintext,
    /// The same without warnings, in a network that no other host reaches: the namespaces of a lab.
    IsolatedPlaintext,
    /// Anywhere: the node has an identity and seals.
    Sealed,
}

/// The settings of a node of either kind.
#[derive(Clone, Debug)]
pub(crate) struct CommonConfig {
    pub(crate) exposure: Exposure,
    pub(crate) datagram_queue_bytes_max: usize,
    pub(crate) datagram_receive_bytes: u32,
    pub(crate) events_bytes_max: usize,
    pub(crate) stop_within: Duration,
    pub(crate) seed: Option<u64>,
}

impl Default for CommonConfig {
    fn default() -> CommonConfig {
        CommonConfig {
            exposure: Exposure::default(),
            datagram_queue_bytes_max: 4 << 20,
            datagram_receive_bytes: 8 << 20,
            events_bytes_max: 16 << 20,
            stop_within: Duration::from_secs(1),
            seed: None,
        }
    }
}

impl CommonConfig {
    /// True if a node may have this address.
    pub(crate) fn allows(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.exposure != Exposure::LoopbackOnly
    }

    /// The seed of the node's random numbers, drawn if none is set, and the runtime that the node
    /// starts in.
    pub(crate) fn seed_and_runtime(&self) -> Result<(u64, tokio::runtime::Handle), StartError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => SysRng.try_next_u64().map_err(StartError::Random)?,
        };
        Ok((seed, runtime))
    }
}

/// The setters of [`CommonConfig`], for a configuration that has it as `common`.
macro_rules! common_setters {
    () => {
        /// Where the node may listen. Any host that reaches the port can read and forge what a
        /// protocol does not protect itself. Default: loopback only.
        pub fn with_exposure(mut self, exposure: $crate::Exposure) -> Self {
            self.common.exposure = exposure;
            self
        }

        /// Bytes of datagrams that may wait for the socket; the oldest are dropped. Default 4 MiB.
        pub fn with_datagram_queue_bytes_max(mut self, bytes: usize) -> Self {
            self.common.datagram_queue_bytes_max = bytes;
            self
        }

        /// Receive buffer of a UDP socket, in bytes (`SO_RCVBUF`), unless
        /// [`NodeConfig::with_socket_buffer_bytes`](crate::NodeConfig::with_socket_buffer_bytes)
        /// sets it. Datagrams beyond it are lost, and a small datagram counts as about a kilobyte
        /// more than its size. The kernel may grant less:
        /// [`Handle::datagram_receive_bytes`](crate::Handle::datagram_receive_bytes). Default 8
        /// MiB.
        pub fn with_datagram_receive_bytes(mut self, bytes: u32) -> Self {
            self.common.datagram_receive_bytes = bytes;
            self
        }

        /// Bytes of unread events at which the node stops reading its peers or faces, until half of
        /// them are received. It counts events that no credit of the protocol bounds and that the
        /// application has not asked for ([`Protocol::event_bytes`]). Default 16 MiB, at least 1.
        ///
        /// A turn may add the events of one more read, 256 KiB of a stream. Datagrams that arrive
        /// meanwhile wait in the receive buffer, and are lost beyond its size. A node that does not
        /// read is silent: peers with a failure detector suspect it in time.
        ///
        /// [`Protocol::event_bytes`]: paceline_proto::core::Protocol::event_bytes
        pub fn with_events_bytes_max(mut self, bytes: usize) -> Self {
            self.common.events_bytes_max = bytes.max(1);
            self
        }

        /// How long a stopping node keeps sending what is queued. Default 1 s.
        pub fn with_stop_within(mut self, within: std::time::Duration) -> Self {
            self.common.stop_within = within;
            self
        }

        /// Seed of the protocol's and the emulator's random numbers. Default: drawn at start.
        pub fn with_seed(mut self, seed: u64) -> Self {
            self.common.seed = Some(seed);
            self
        }
    };
}
pub(crate) use common_setters;

/// The configuration of a node: its cluster and id are required, the rest has defaults.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub(crate) node: NodeId,
    pub(crate) cluster: String,
    pub(crate) service: ServiceNumber,
    pub(crate) common: CommonConfig,
    pub(crate) stream_unsent_bytes: u32,
    pub(crate) stream_delay: Duration,
    pub(crate) socket_buffer_bytes: Option<u32>,
    pub(crate) record_bytes_max: usize,
    pub(crate) link_rate_bits_per_second: Option<u64>,
    pub(crate) stream_queue_bytes_max: usize,
    pub(crate) stream_read_bytes: usize,
    pub(crate) datagram_bytes_max: usize,
    pub(crate) datagrams_together_max: usize,
    pub(crate) multicast: Multicast,
    pub(crate) memory_bytes_max: usize,
    pub(crate) half_open_max: usize,
    pub(crate) hello_within: Duration,
    pub(crate) record_within: Duration,
    pub(crate) is_open: bool,
    pub(crate) sealing: Option<Sealing>,
    pub(crate) detector: detector::Config,
}

impl NodeConfig {
    /// The configuration of member `node` of the cluster called `cluster`.
    pub fn new(cluster: impl Into<String>, node: NodeId) -> NodeConfig {
        NodeConfig {
            node,
            cluster: cluster.into(),
            service: ServiceNumber::default(),
            common: CommonConfig::default(),
            stream_unsent_bytes: 64 << 10,
            stream_delay: Duration::from_millis(9),
            socket_buffer_bytes: None,
            record_bytes_max: 1 << 20,
            link_rate_bits_per_second: None,
            stream_queue_bytes_max: 64 << 20,
            stream_read_bytes: 256 << 10,
            datagram_bytes_max: 1200,
            datagrams_together_max: TRAIN_LENGTH_MAX,
            multicast: Multicast::default(),
            memory_bytes_max: 1 << 30,
            half_open_max: 64,
            hello_within: Duration::from_secs(5),
            record_within: Duration::from_secs(10),
            is_open: false,
            sealing: None,
            detector: detector::Config::new(),
        }
    }

    common_setters!();

    /// Unsent bytes the kernel holds for each stream (`TCP_NOTSENT_LOWAT`). Default 64 KiB.
    ///
    /// Less shortens the queue that a protocol cannot reorder; more saves wake-ups.
    pub fn with_stream_unsent_bytes(mut self, bytes: u32) -> Self {
        self.stream_unsent_bytes = bytes.max(2);
        self
    }

    /// The most latency that a busy stream may add at a hop to save wake-ups. Default 9 ms. Linux;
    /// elsewhere the kernel decides.
    ///
    /// The kernel's send buffer follows the path: beyond what the path holds it has the bytes that
    /// leave in this time, or 108 kB if these leave sooner, but at least the bytes of a fifth of
    /// the time. A protocol cannot reorder the bytes in it. The receiver reads a stream of 8 MB/s
    /// or more when the bytes of two thirds of this time have arrived, 72 kB at most. A slower
    /// stream is written and read at once.
    ///
    /// A smaller value reduces latency and costs processor time. A value below the scheduling delay
    /// of a busy machine costs rate as well.
    pub fn with_stream_delay(mut self, delay: Duration) -> Self {
        self.stream_delay = delay;
        self
    }

    /// The failure detector, which watches hosts for all services. `config` is what
    /// [`Config::build`](detector::Config::build) returned. Default: that of a local network.
    pub fn with_detector(mut self, config: detector::Config) -> Self {
        self.detector = config;
        self
    }

    /// Kernel send and receive buffer of every socket, in bytes (`SO_SNDBUF`, `SO_RCVBUF`).
    /// Default: the send buffers of streams follow their paths ([`NodeConfig::with_stream_delay`]),
    /// the kernel tunes the others.
    pub fn with_socket_buffer_bytes(mut self, bytes: Option<u32>) -> Self {
        self.socket_buffer_bytes = bytes;
        self
    }

    /// The longest record on a stream, header included. Default 1 MiB.
    ///
    /// A peer that announces a longer one is disconnected; a read buffer may grow to this.
    pub fn with_record_bytes_max(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes.clamp(HEADER_BYTES + 16, u32::MAX as usize);
        self
    }

    /// The rate of the node's link, bits a second on an Ethernet, at least 64,000. The node sends
    /// no faster, and its services share that by weight
    /// ([`Node::set_weight`](crate::Node::set_weight)), whatever they send to whom. Default
    /// unknown: then services share only each stream to a peer.
    pub fn with_link_rate(mut self, bits_per_second: u64) -> Self {
        self.link_rate_bits_per_second = Some(bits_per_second.max(64_000));
        self
    }

    /// Bytes that may wait for one peer in user space. Default 64 MiB.
    ///
    /// Credits of the protocol keep the queue far below; a peer beyond it is disconnected.
    pub fn with_stream_queue_bytes_max(mut self, bytes: usize) -> Self {
        self.stream_queue_bytes_max = bytes;
        self
    }

    /// Size of a read buffer. Default 256 KiB.
    ///
    /// Received payloads are slices of it: one retained slice keeps the whole buffer alive.
    pub fn with_stream_read_bytes(mut self, bytes: usize) -> Self {
        self.stream_read_bytes = bytes.max(4 << 10);
        self
    }

    /// The most datagrams to one peer that the kernel is handed as one (`UDP_SEGMENT`), 1 to 64.
    /// Default 64. With 1 each leaves with a system call of its own: it shows what that costs.
    pub fn with_datagrams_together_max(mut self, datagrams: usize) -> Self {
        self.datagrams_together_max = datagrams.clamp(1, TRAIN_LENGTH_MAX);
        self
    }

    /// The longest datagram, record header included. Default 1,200, which fits every usual path.
    pub fn with_datagram_bytes_max(mut self, bytes: usize) -> Self {
        self.datagram_bytes_max = bytes.clamp(DATAGRAM_HEAD_BYTES + TAG_BYTES + 16, 65_000);
        self
    }

    /// How messages to groups leave. Default: as a copy to each peer.
    ///
    /// A multicast socket asks for as much receive buffer as the node's own
    /// ([`NodeConfig::with_datagram_receive_bytes`]).
    pub fn with_multicast(mut self, multicast: Multicast) -> Self {
        self.multicast = multicast;
        self
    }

    /// Bytes that the node may hold for all its peers together: queues of streams, incomplete
    /// records, messages that wait for the proof of an address, and datagrams that wait for the
    /// socket ([`Held`](crate::Held)). Default 1 GiB, at least 1 MiB.
    ///
    /// Beyond it the node drops, in this order: incomplete records of strangers; messages that wait
    /// for proofs; queues of streams to strangers; datagrams; then incomplete records of other
    /// peers, and last queues of streams to them. Of records it drops the one begun first, and
    /// closes its stream; of queues the longest, and its peer is `Down`. A stranger is a peer to
    /// which this node has no stream. Each drop is counted, as `memory_` and its kind.
    pub fn with_memory_bytes_max(mut self, bytes: usize) -> Self {
        self.memory_bytes_max = bytes.max(1 << 20);
        self
    }

    /// Accepted connections that have not said Hello; the oldest is closed. Default 64.
    pub fn with_half_open_max(mut self, connections: usize) -> Self {
        self.half_open_max = connections.max(1);
        self
    }

    /// How long a connection may take to open and say Hello. Default 5 s.
    pub fn with_hello_within(mut self, within: Duration) -> Self {
        self.hello_within = within;
        self
    }

    /// Longest time from a record's first byte to its last, after which its stream is closed: a
    /// node holds `record_bytes_max` for each incomplete record. Default 10 s.
    pub fn with_record_within(mut self, within: Duration) -> Self {
        self.record_within = within;
        self
    }

    /// Admits nodes that the roster does not name, once they have said Hello, and looks for members
    /// at [`Node::seek`](crate::Node::seek)'s addresses. At most 4,096. Default: only members of
    /// the roster.
    pub fn with_open_membership(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Seals all that the node sends to peers and takes only what they have sealed, with this
    /// identity: the node's id is the identity's, its membership is
    /// [open](NodeConfig::with_open_membership) to hosts that the same authority has certified, and
    /// it may listen anywhere. Messages to groups leave as copies. Default: plaintext.
    ///
    /// # Errors
    /// If this processor cannot run the handshake or the cipher of the cluster.
    pub fn with_identity(self, identity: &Identity) -> Result<Self, HandshakeError> {
        self.with_sealing(identity, None)
    }

    /// Like [`NodeConfig::with_identity`], for a host that certified itself with this cluster key:
    /// it does so again when half of the time of its certificate is over.
    ///
    /// # Errors
    /// If this processor cannot run the handshake or the cipher of the cluster.
    pub fn with_cluster_key(
        self,
        identity: &Identity,
        cluster: ClusterKey,
    ) -> Result<Self, HandshakeError> {
        self.with_sealing(identity, Some(cluster))
    }

    fn with_sealing(
        mut self,
        identity: &Identity,
        cluster: Option<ClusterKey>,
    ) -> Result<Self, HandshakeError> {
        self.node = NodeId(identity.id().get());
        self.sealing = Some(Sealing::new(identity, cluster)?);
        self.common.exposure = Exposure::Sealed;
        self.is_open = true;
        Ok(self)
    }

    /// What the headers of its records say of its cluster.
    pub(crate) fn cluster_tag(&self) -> ClusterTag {
        match &self.sealing {
            Some(sealing) => ClusterTag::of_sealed(&self.cluster, &sealing.authority),
            None => ClusterTag::of(&self.cluster),
        }
    }

    /// The longest message, bytes, that a datagram carries, also to a group.
    pub(crate) fn datagram_message_bytes_max(&self) -> usize {
        self.record_bytes_in_datagram_max() - DATAGRAM_HEAD_BYTES
    }

    /// The longest record, bytes, that a datagram carries, but for the tag that seals it.
    pub(crate) fn record_bytes_in_datagram_max(&self) -> usize {
        self.datagram_bytes_max - if self.sealing.is_some() { TAG_BYTES } else { 0 }
    }

    /// The receive buffer that each UDP socket asks the kernel for.
    pub(crate) fn receive_buffer_bytes(&self) -> usize {
        self.socket_buffer_bytes.unwrap_or(self.common.datagram_receive_bytes) as usize
    }
}
