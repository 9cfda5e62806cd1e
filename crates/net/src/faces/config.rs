//! The configuration of a node with faces.

use std::net::SocketAddr;
use std::time::Duration;

use paceline_proto::ndn::PACKET_BYTES_MAX;

use super::range::AddressRange;
use crate::config::{CommonConfig, common_setters};

/// The longest payload of a UDP datagram over IPv4.
const UDP_BYTES_MAX: usize = 65_507;

/// The configuration of a node with faces: the listening address is required, the rest has
/// defaults.
#[derive(Clone, Debug)]
pub struct FacesConfig {
    pub(crate) bind_addr: SocketAddr,
    pub(crate) common: CommonConfig,
    pub(crate) faces_max: usize,
    pub(crate) accepts_unknown: bool,
    pub(crate) faces_allowed: Vec<AddressRange>,
    pub(crate) unproven_bytes_per_second: u64,
    pub(crate) face_idle_after: Duration,
    pub(crate) face_yields_after: Duration,
    pub(crate) datagram_bytes_max: usize,
    pub(crate) datagram_send_bytes: Option<u32>,
}

impl FacesConfig {
    /// The configuration of a node that listens at this UDP address. Port 0 takes a free one.
    pub fn new(bind_addr: SocketAddr) -> FacesConfig {
        FacesConfig {
            bind_addr,
            common: CommonConfig::default(),
            faces_max: 1_024,
            accepts_unknown: false,
            faces_allowed: AddressRange::LOOPBACK.to_vec(),
            unproven_bytes_per_second: 100_000,
            face_idle_after: Duration::from_secs(300),
            face_yields_after: Duration::from_secs(10),
            datagram_bytes_max: PACKET_BYTES_MAX,
            datagram_send_bytes: None,
        }
    }

    common_setters!();

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

    /// Send buffer of the UDP socket, in bytes (`SO_SNDBUF`). Default: the kernel's own.
    pub fn with_datagram_send_bytes(mut self, bytes: Option<u32>) -> Self {
        self.datagram_send_bytes = bytes;
        self
    }
}
