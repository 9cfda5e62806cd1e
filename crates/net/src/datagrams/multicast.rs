//! How messages to groups leave, and the socket that IP multicast arrives at.
//!
//! A cluster has one multicast port and [`ADDRESSES`] addresses: the kernel lets a socket join 20
//! by default. Groups share them, and the number of the group in each record tells them apart. Both
//! come from the cluster's tag, 14 bits of it: clusters on one network rarely share an address, and
//! where they do the header's tag keeps them apart.
//!
//! What leaves goes through the node's own UDP socket, so its sender is known by the address of the
//! roster, and behind the Hellos that introduce it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::task::Waker;
use std::time::Duration;

use paceline_proto::core::GroupId;
use rand::TryRng;
use rand::rngs::SysRng;
use socket2::{Domain, SockRef, Socket, Type};

use crate::datagrams::arrivals::Arrivals;
use crate::record::{ClusterTag, ServiceNumber};

/// Addresses of a cluster.
pub(crate) const ADDRESSES: usize = 16;
/// The organisation-local scope (RFC 2365), which clusters share: 2^14 blocks of [`ADDRESSES`].
const SCOPE: Ipv4Addr = Ipv4Addr::new(239, 192, 0, 0);
/// Bits of the cluster's tag that choose the block.
const BLOCK_BITS: u32 = 14;
/// Destination of the probe: the local scope, not used by clusters.
const PROBE_SCOPE: [u8; 2] = [239, 255];
/// Attempts of the probe, and how long each waits.
const PROBES: usize = 3;
const PROBE_WITHIN: Duration = Duration::from_millis(50);

/// How a node's messages to groups leave.
///
/// All nodes of a cluster need the same value: only nodes that have joined on their sockets hear a
/// node that sends by multicast. All hear a node that sends copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multicast {
    /// A copy to each known peer, which drops it unless it has joined.
    #[default]
    FanOut,
    /// IP multicast on the interface that has the node's address, IPv4 only. Binding fails where
    /// that does not work.
    Native {
        /// The cluster's UDP port for multicast, shared by all nodes of a machine. Not 0, and no
        /// node's own port.
        port: u16,
        /// Routers that a datagram may pass, plus one (`IP_MULTICAST_TTL`). 1 stays on the link.
        ttl: u8,
    },
    /// Like `Native` where it works, else like `FanOut`:
    /// [`Node::multicast`](crate::Node::multicast) reports which. The node only tests that its own
    /// datagram leaves the interface's stack and comes back. It does not detect switches that do
    /// not forward, or a peer that fell back.
    Auto {
        /// As for `Native`.
        port: u16,
        /// As for `Native`.
        ttl: u8,
    },
}

impl Multicast {
    /// Native multicast on this port, which stays on the link.
    pub const fn native(port: u16) -> Multicast {
        Multicast::Native { port, ttl: 1 }
    }

    /// Multicast on this port where it works, which stays on the link.
    pub const fn auto(port: u16) -> Multicast {
        Multicast::Auto { port, ttl: 1 }
    }
}

/// How a running node's messages to groups leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MulticastUse {
    /// As copies, as configured.
    FanOut,
    /// By IP multicast.
    Native {
        /// The first of the cluster's 16 addresses, and the port.
        first: SocketAddrV4,
        /// The receive buffer that the kernel granted, in bytes; 0 if unknown.
        receive_bytes: usize,
    },
    /// As copies, since multicast does not work here.
    FellBack {
        /// The reason.
        reason: String,
    },
}

impl MulticastUse {
    /// The same for another service.
    pub(crate) fn of(&self, whose: Whose) -> MulticastUse {
        match self {
            MulticastUse::Native { first, receive_bytes } => MulticastUse::Native {
                first: SocketAddrV4::new(first_address(whose), first.port()),
                receive_bytes: *receive_bytes,
            },
            other => other.clone(),
        }
    }
}

/// A multicast socket that has joined nothing yet.
#[derive(Debug)]
pub(crate) struct Opened {
    socket: UdpSocket,
    interface: Ipv4Addr,
    port: u16,
}

/// The multicast of a node that is bound.
#[derive(Debug)]
pub(crate) enum Way {
    FanOut,
    Native(Opened),
    FellBack(String),
}

impl Way {
    /// Opens the multicast socket of a node that `udp` is bound for, if it is configured, with a
    /// receive buffer of `receive_bytes`; not if there is a reason against it.
    pub(crate) fn open(
        udp: &UdpSocket,
        multicast: Multicast,
        receive_bytes: usize,
        against: Option<&'static str>,
    ) -> io::Result<Way> {
        let open = |port, ttl| match against {
            Some(reason) => Err(io::Error::other(reason)),
            None => Opened::open(udp, port, ttl, receive_bytes),
        };
        match multicast {
            Multicast::FanOut => Ok(Way::FanOut),
            Multicast::Native { port, ttl } => open(port, ttl).map(Way::Native),
            Multicast::Auto { port, ttl } => match open(port, ttl) {
                Ok(opened) => Ok(Way::Native(opened)),
                Err(error) => {
                    tracing::info!(%error, "no IP multicast, sending copies");
                    Ok(Way::FellBack(error.to_string()))
                }
            },
        }
    }

    /// Describes it for the application.
    pub(crate) fn describe(&self, whose: Whose) -> MulticastUse {
        match self {
            Way::FanOut => MulticastUse::FanOut,
            Way::Native(opened) => MulticastUse::Native {
                first: SocketAddrV4::new(first_address(whose), opened.port),
                receive_bytes: SockRef::from(&opened.socket).recv_buffer_size().unwrap_or(0),
            },
            Way::FellBack(reason) => MulticastUse::FellBack { reason: reason.clone() },
        }
    }

    /// The native multicast, if it is in use.
    pub(crate) fn start(
        self,
        cluster: ClusterTag,
        waker: Waker,
    ) -> io::Result<Option<MulticastSocket>> {
        let Way::Native(Opened { socket, interface, port }) = self else {
            return Ok(None);
        };
        Ok(Some(MulticastSocket {
            arrivals: Arrivals::new(socket, waker)?,
            interface,
            cluster,
            port,
            joined: BTreeMap::new(),
        }))
    }
}

impl Opened {
    fn open(udp: &UdpSocket, port: u16, ttl: u8, receive_bytes: usize) -> io::Result<Opened> {
        let unusable = |reason| io::Error::new(io::ErrorKind::Unsupported, reason);
        let SocketAddr::V4(own) = udp.local_addr()? else {
            return Err(unusable("the node's address is not an IPv4 address"));
        };
        if port == 0 {
            return Err(unusable("port 0 cannot be shared"));
        }
        let interface = *own.ip();
        let out = SockRef::from(udp);
        out.set_multicast_if_v4(&interface)?;
        // Other nodes of this machine are to hear it. Its own come back and are dropped.
        out.set_multicast_loop_v4(true)?;
        let into = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        into.set_reuse_address(true)?;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        into.set_reuse_port(true)?;
        // Else what any process of the machine has joined arrives here, from any interface.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        into.set_multicast_all_v4(false)?;
        into.set_recv_buffer_size(receive_bytes)?;
        into.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
        let opened = Opened { socket: into.into(), interface, port };
        opened.probe(udp)?;
        out.set_multicast_ttl_v4(ttl.into())?;
        opened.socket.set_nonblocking(true)?;
        Ok(opened)
    }

    /// Sends a datagram to a random multicast address, no further than this machine, and waits for
    /// it.
    fn probe(&self, udp: &UdpSocket) -> io::Result<()> {
        let random = SysRng.try_next_u64().map_err(io::Error::other)?.to_be_bytes();
        let group = Ipv4Addr::new(PROBE_SCOPE[0], PROBE_SCOPE[1], random[0], random[1]);
        let into = SockRef::from(&self.socket);
        SockRef::from(udp).set_multicast_ttl_v4(0)?;
        into.join_multicast_v4(&group, &self.interface)?;
        self.socket.set_read_timeout(Some(PROBE_WITHIN))?;
        let mut came = [0; 16];
        for _ in 0..PROBES {
            udp.send_to(&random, (group, self.port))?;
            match self.socket.recv(&mut came) {
                Ok(8) if came[..8] == random => {
                    return into.leave_multicast_v4(&group, &self.interface);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let reason = format!("multicast sent at {} does not loop back", self.interface);
        Err(io::Error::new(io::ErrorKind::TimedOut, reason))
    }
}

/// Multicast in use: the socket it arrives at, and what is joined on it.
pub(crate) struct MulticastSocket {
    pub(crate) arrivals: Arrivals,
    interface: Ipv4Addr,
    cluster: ClusterTag,
    port: u16,
    // Groups that the node has joined, by the first address of their service's block and their
    // place in it.
    joined: BTreeMap<Ipv4Addr, [u32; ADDRESSES]>,
}

impl MulticastSocket {
    /// Where messages to a group of a service are sent.
    pub(crate) fn address(&self, service: ServiceNumber, group: GroupId) -> SocketAddr {
        let first = first_address((self.cluster, service));
        SocketAddrV4::new(nth(first, slot(group)), self.port).into()
    }

    /// True if the address belongs to a service that has joined a group.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        let place = u32::from(address) % ADDRESSES as u32;
        self.joined.contains_key(&Ipv4Addr::from(u32::from(address) - place))
    }

    /// Joins a group of a service that was not joined before.
    pub(crate) fn join(&mut self, service: ServiceNumber, group: GroupId) -> io::Result<()> {
        let (first, slot) = (first_address((self.cluster, service)), slot(group));
        let joined = &mut self.joined.entry(first).or_default()[slot];
        *joined += 1;
        if *joined > 1 {
            return Ok(());
        }
        let address = nth(first, slot);
        SockRef::from(self.arrivals.socket().0).join_multicast_v4(&address, &self.interface)
    }

    /// Leaves a group that was joined.
    pub(crate) fn leave(&mut self, service: ServiceNumber, group: GroupId) -> io::Result<()> {
        let (first, slot) = (first_address((self.cluster, service)), slot(group));
        let joined = &mut self.joined.entry(first).or_default()[slot];
        *joined = joined.saturating_sub(1);
        if *joined > 0 {
            return Ok(());
        }
        let address = nth(first, slot);
        SockRef::from(self.arrivals.socket().0).leave_multicast_v4(&address, &self.interface)
    }
}

/// The cluster and the service that multicast.
type Whose = (ClusterTag, ServiceNumber);

/// Each service of a cluster has a block of addresses, by the exclusive or of both.
fn first_address((cluster, service): Whose) -> Ipv4Addr {
    let block = (cluster.0 ^ service.0) >> (32 - BLOCK_BITS);
    Ipv4Addr::from(u32::from(SCOPE) + block * ADDRESSES as u32)
}

fn nth(first: Ipv4Addr, slot: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(first) + slot as u32)
}

/// Which of the addresses a group has: the exclusive or of its number's half bytes, so that numbers
/// that follow one another, or differ in one place, do not share one.
fn slot(group: GroupId) -> usize {
    let by_half_byte = (0..8).map(|place| group.0 >> (4 * place) & 0xf);
    by_half_byte.fold(0, |folded, half_byte| folded ^ half_byte) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_groups_and_multiples_of_sixteen_have_addresses_of_their_own() {
        for step in [1, 16, 256, 1 << 28] {
            let mut slots: Vec<usize> = (0..16).map(|nth| slot(GroupId(nth * step))).collect();
            slots.sort_unstable();
            assert_eq!(slots, (0..16).collect::<Vec<_>>(), "{step}");
        }
        assert!(slot(GroupId(u32::MAX)) < ADDRESSES);
    }

    #[test]
    fn the_addresses_of_a_cluster_lie_in_the_organisation_local_scope() {
        let first = |cluster, service| first_address((ClusterTag(cluster), ServiceNumber(service)));
        assert_eq!(first(0, 0), Ipv4Addr::new(239, 192, 0, 0));
        let last = first(0, u32::MAX);
        assert_eq!(nth(last, ADDRESSES - 1), Ipv4Addr::new(239, 195, 255, 255));
        let of = |cluster, service| {
            first_address((ClusterTag::of(cluster), ServiceNumber::of("multicast", service)))
        };
        for (a, b) in [(of("a", "b"), of("c", "b")), (of("a", "b"), of("a", "c"))] {
            assert!(u32::from(a).abs_diff(u32::from(b)) >= ADDRESSES as u32);
        }
    }
}
