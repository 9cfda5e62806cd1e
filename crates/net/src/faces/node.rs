//! Starting a node with faces, and the handle to a running one.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use paceline_proto::core::{Instant, LinkFaults, NodeId, Protocol};
use paceline_proto::host::NodeParts;
use rand::TryRng;
use rand::rngs::SysRng;
use socket2::SockRef;
use tokio::sync::oneshot;

use super::LOCAL;
use super::config::FacesConfig;
use super::driver::{FaceDriver, Order, Parts};
use super::table::{Directory, FaceTable};
use crate::chassis::Task;
use crate::chassis::machine::Hosted;
use crate::emulate::Peers;
use crate::error::{BindError, Closed, FaceError, StartError};
use crate::events::Events;
use crate::handle::{Handle, Kind, NodeEnds};
use crate::record::ServiceNumber;

/// A UDP socket that is bound and not used yet.
///
/// Bind first where addresses must be known before the faces are, as with port 0.
#[derive(Debug)]
pub struct BoundFaces {
    udp: std::net::UdpSocket,
    local_addr: SocketAddr,
    config: FacesConfig,
}

impl BoundFaces {
    /// Binds the socket.
    ///
    /// # Errors
    /// If the port is taken, or the address is not loopback and the configuration does not allow
    /// plaintext beyond it.
    pub fn bind(config: FacesConfig) -> Result<BoundFaces, BindError> {
        let addr = config.bind_addr;
        if !config.common.allows(addr.ip().to_canonical()) {
            return Err(BindError::Plaintext { addr });
        }
        let bind = || {
            let udp = std::net::UdpSocket::bind(addr)?;
            udp.set_nonblocking(true)?;
            let socket = SockRef::from(&udp);
            if let Some(bytes) = config.datagram_send_bytes {
                socket.set_send_buffer_size(bytes as usize)?;
            }
            socket.set_recv_buffer_size(config.common.datagram_receive_bytes as usize)?;
            let local_addr = udp.local_addr()?;
            Ok((udp, local_addr))
        };
        let (udp, local_addr) = bind().map_err(|source| BindError::refused(addr, source))?;
        Ok(BoundFaces { udp, local_addr, config })
    }

    /// The address that the socket has.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The longest message, bytes, that a datagram carries.
    pub fn datagram_message_bytes_max(&self) -> usize {
        self.config.datagram_bytes_max
    }

    /// Starts the node on the current tokio runtime with these static faces, which the protocol
    /// knows by their places in the list. It presumes them up and gets no notification of them.
    ///
    /// # Errors
    /// If a face cannot have its address, or another one has it, or there is no runtime.
    pub fn start<P: Hosted>(
        self,
        faces: &[SocketAddr],
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Result<(FaceNode<P>, Events<P>), StartError> {
        let (seed, runtime) = self.config.common.seed_and_runtime()?;
        // Incarnation 0 stands for an unknown one, so no run of the node has it.
        let incarnation = SysRng.try_next_u64().map_err(StartError::Random)?.max(1);
        let allowed = self.config.faces_allowed.clone();
        let mut table = FaceTable::new(self.local_addr, self.config.faces_max, allowed);
        for &addr in faces {
            let (_, is_new) = table.open(addr, Instant::ZERO)?;
            if !is_new {
                return Err(FaceError::Twice { addr }.into());
            }
        }
        let parts = NodeParts { protocol, shared, node: LOCAL, incarnation, seed };
        let (kind, socket) = (Faces(table.directory()), (&self.udp, self.local_addr));
        let (node, ends) = NodeEnds::new(socket, self.config.common.events_bytes_max, Weak::new());
        let service = node.service(kind, (ServiceNumber::default(), None), parts);
        let (handle, events, service) = service.expect("the node has no other service");
        let parts = Parts { ends, service, config: self.config, seed, udp: self.udp, table };
        Task::spawn(Box::new(FaceDriver::start(parts)?), &runtime);
        Ok((handle, events))
    }
}

/// A handle to a running node with faces. Clones lead to the same node; when the last one is
/// dropped the node sends what is queued and stops.
pub type FaceNode<P> = Handle<P, Faces>;

/// The kind of a node with faces, and the addresses of open faces.
#[derive(Clone, Debug)]
pub struct Faces(Directory);

impl Kind for Faces {
    type Order = Order;
}

impl<P: Protocol> FaceNode<P> {
    /// Opens a static face while the node runs, and notifies the protocol that it is up. If the
    /// address has a face already, returns that one.
    ///
    /// # Errors
    /// If no face can have the address, or the node has stopped.
    pub async fn open(&self, addr: SocketAddr) -> Result<NodeId, FaceError> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Open { addr, reply }).map_err(|Closed| FaceError::Closed)?;
        answer.await.unwrap_or(Err(FaceError::Closed))
    }

    /// Closes a face, static or not, and notifies the protocol that it is down. False if there was
    /// no such face. Where strangers are accepted its address may open another.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn close(&self, node: NodeId) -> Result<bool, Closed> {
        let (reply, answer) = oneshot::channel();
        self.order(Order::Close { node, reply })?;
        answer.await.map_err(|_| Closed)
    }

    /// The address of a face that is open, IPv4 in its own form.
    pub fn addr(&self, node: NodeId) -> Option<SocketAddr> {
        self.kind.0.addr(node)
    }

    /// All faces that are open, with their addresses, by number.
    pub fn faces(&self) -> Vec<(NodeId, SocketAddr)> {
        self.kind.0.faces()
    }

    /// Sets faults on the links to faces, replacing earlier ones, from the next turn on;
    /// [`LinkFaults::default`] removes them. The model is the simulator's.
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn emulate(&self, to: Peers, faults: LinkFaults) -> Result<(), Closed> {
        self.order(Order::Emulate { to, faults })
    }
}
