//! The configuration of a node with faces.

use std::net::SocketAddr;
use std::time::Duration;

use paceline_proto::ndn::PACKET_BYTES_MAX;

use super::range::AddressRange;
use crate::config::{EVENTS_BYTES_MAX, Exposure};

/// The longest payload of a UDP datagram over IPv4.
const UDP_BYTES_MAX: usize = 65_507;

/// The configuration of a node with faces: the listening address is required, the rest has
/// defaults.
#[derive(Clone, Debug)]
pub struct FacesConfig {
    pub(crate) bind_addr: SocketAddr,
    pub(crate) exposure: Exposure,
    pub(crate) faces_max: usize,
    pub(crate) accepts_unknown: bool,
    pub(crate) faces_allowed: Vec<AddressRange>,
    pub(crate) unproven_bytes_per_second: u64,
    pub(crate) face_idle_after: Duration,
    pub(crate) face_yields_after: Duration,
    pub(crate) datagram_bytes_max: usize,
    pub(crate) datagram_queue_bytes_max: usize,
    pub(crate) datagram_send_bytes: Option<u32>,
    pub(crate) datagram_receive_bytes: u32,
    pub(crate) events_bytes_max: usize,
    pub(crate) stop_within: Duration,
    pub(crate) seed: Option<u64>,
}

impl FacesConfig {
    /// The configuration of a node that listens at this UDP address. Port 0 takes a free one.
    pub fn new(bind_addr: SocketAddr) -> FacesConfig {
        FacesConfig {
            bind_addr,
            exposure: Exposure::default(),
            faces_max: 1_024,
            accepts_unknown: false,
            faces_allowed: AddressRange::LOOPBACK.to_vec(),
            unproven_bytes_per_second: 100_000,
            face_idle_after: Duration::from_secs(300),
            face_yields_after: Duration::from_secs(10),
            datagram_bytes_max: PACKET_BYTES_MAX,
            datagram_queue_bytes_max: 4 << 20,
            datagram_send_bytes: None,
            datagram_receive_bytes: 8 << 20,
            events_bytes_max: EVENTS_BYTES_MAX,
            stop_within: Duration::from_secs(1),
            seed: None,
        }
    }

    /// Where the node may listen. Any host that reaches the port can read and forge what a protocol
    /// does not protect itself. Default: loopback only.
    pub fn with_exposure(mut self, exposure: Exposure) -> Self {
        self.exposure = exposure;
        self
    }

    /// Largest number of dynamic faces: those that a datagram from an unknown address opened.
    /// Default 1,024. At the limit a new face replaces the unproven one heard from longest ago; a
    /// proven one yields to proven ones only, after [some
    /// silence](FacesConfig::with_face_yields_after).
    pub fn with_faces_max(mut self, faces: usize) -> Self {
        self.faces_max = faces;
        self
    }

    /// Whether a message from an unknown address opens a dynamic face, as a forwarder needs. A
    /// plain consumer drops it. Default: no.
    ///
    /// The source address of a datagram can be forged, and the answer then goes to a host that did
    /// not ask. A dynamic face is therefore *unproven* unless its address is
    /// [allowed](FacesConfig::with_faces_allowed).
    pub fn with_accepts_unknown(mut self, accepts: bool) -> Self {
        self.accepts_unknown = accepts;
        self
    }

    /// Replaces the ranges of addresses in which dynamic faces are proven. List only networks that
    /// filter forged source addresses at their border (RFC 2827). Default 127.0.0.0/8 and ::1.
    ///
    /// Any other dynamic face is sent at most three times the bytes received from it, in payload
    /// and on the wire (RFC 9000, section 8.1), within
    /// [its network's rate](FacesConfig::with_unproven_bytes_per_second), and it closes at once
    /// when a new face needs its place. The application's own faces are proven.
    pub fn with_faces_allowed(mut self, ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        self.faces_allowed = ranges.into_iter().collect();
        self
    }

    /// Rate at which all unproven faces of one network, a /24 of IPv4 or a /48 of IPv6, are sent
    /// datagrams: bytes a second on the wire, IP and UDP headers included. Bursts of one second's
    /// worth pass. Default 100,000; 0 sends them nothing.
    pub fn with_unproven_bytes_per_second(mut self, bytes: u64) -> Self {
        self.unproven_bytes_per_second = bytes;
        self
    }

    /// Silence after which a dynamic face closes. Default 300 s.
    pub fn with_face_idle_after(mut self, after: Duration) -> Self {
        self.face_idle_after = after.max(Duration::from_millis(1));
        self
    }

    /// Silence after which a proven dynamic face makes room for another proven one, when there are
    /// [`faces_max`](FacesConfig::with_faces_max) and all are proven: the one heard from longest
    /// ago closes. Default 10 s.
    ///
    /// A smaller value lets new faces displace others sooner; a larger one keeps new faces waiting.
    pub fn with_face_yields_after(mut self, after: Duration) -> Self {
        self.face_yields_after = after;
        self
    }

    /// The longest datagram, in bytes, that is sent or received. Default 8,800, the longest packet
    /// of NDN.
    ///
    /// A datagram longer than a link's packets hold, usually 1,472 bytes, travels in IP fragments
    /// and is lost with any of them.
    pub fn with_datagram_bytes_max(mut self, bytes: usize) -> Self {
        self.datagram_bytes_max = bytes.clamp(16, UDP_BYTES_MAX);
        self
    }

    /// Bytes of datagrams that may wait for the socket; the oldest are dropped. Default 4 MiB.
    pub fn with_datagram_queue_bytes_max(mut self, bytes: usize) -> Self {
        self.datagram_queue_bytes_max = bytes;
        self
    }

    /// Send buffer of the UDP socket, in bytes (`SO_SNDBUF`). Default: the kernel's own.
    pub fn with_datagram_send_bytes(mut self, bytes: Option<u32>) -> Self {
        self.datagram_send_bytes = bytes;
        self
    }

    /// Receive buffer of the UDP socket, in bytes (`SO_RCVBUF`). Datagrams beyond it are lost. The
    /// kernel may grant less:
    /// [`FaceNode::datagram_receive_bytes`](crate::FaceNode::datagram_receive_bytes). Default 8
    /// MiB.
    pub fn with_datagram_receive_bytes(mut self, bytes: u32) -> Self {
        self.datagram_receive_bytes = bytes;
        self
    }

    /// Bytes of events waiting for the application at which the node stops reading datagrams, until
    /// half of them are received. Default 16 MiB, at least 1.
    ///
    /// It counts the same events as [`NodeConfig::with_events_bytes_max`]. Datagrams that come
    /// meanwhile wait in the receive buffer, and are lost beyond its size.
    ///
    /// [`NodeConfig::with_events_bytes_max`]: crate::NodeConfig::with_events_bytes_max
    pub fn with_events_bytes_max(mut self, bytes: usize) -> Self {
        self.events_bytes_max = bytes.max(1);
        self
    }

    /// How long a stopping node keeps sending what is queued. Default 1 s.
    pub fn with_stop_within(mut self, within: Duration) -> Self {
        self.stop_within = within;
        self
    }

    /// Seed of the protocol's and the emulator's random numbers. Default: drawn at start.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}
