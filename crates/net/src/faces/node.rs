//! Starting a node with faces, and the handle to a running one.

use std::net::SocketAddr;
use std::sync::Arc;

use paceline_proto::core::{Instant, LinkFaults, NodeId, Protocol};
use socket2::SockRef;
use tokio::sync::oneshot;

use super::LOCAL;
use super::config::FacesConfig;
use super::driver::{FaceDriver, Order, Parts};
use super::table::{Directory, FaceTable};
use crate::chassis::{Crew, Task};
use crate::config::Exposure;
use crate::emulate::Peers;
use crate::error::{BindError, Closed, FaceError, StartError, TrySubmitError};
use crate::events::Events;
use crate::handle::{Handle, Hosted, Input, Stopped, connect};
use crate::stats::Stats;

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
        if !addr.ip().to_canonical().is_loopback() && config.exposure == Exposure::LoopbackOnly {
            return Err(BindError::Plaintext { addr });
        }
        let bind = || {
            let udp = std::net::UdpSocket::bind(addr)?;
            udp.set_nonblocking(true)?;
            let socket = SockRef::from(&udp);
            if let Some(bytes) = config.datagram_send_bytes {
                socket.set_send_buffer_size(bytes as usize)?;
            }
            socket.set_recv_buffer_size(config.datagram_receive_bytes as usize)?;
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
    /// knows by their places in the list. It presumes them up and is told nothing of them.
    ///
    /// # Errors
    /// If a face cannot have its address, or another one has it, or there is no runtime.
    pub fn start<P: Hosted>(
        self,
        faces: &[SocketAddr],
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Result<(FaceNode<P>, Events<P>), StartError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let seed = match self.config.seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(StartError::Random)?,
        };
        // No run of the node has incarnation 0, which stands for one that is not known.
        let incarnation = getrandom::u64().map_err(StartError::Random)?.max(1);
        let allowed = self.config.faces_allowed.clone();
        let mut table = FaceTable::new(self.local_addr, self.config.faces_max, allowed);
        for &addr in faces {
            let (_, is_new) = table.open(addr, Instant::ZERO)?;
            if !is_new {
                return Err(FaceError::Twice { addr }.into());
            }
        }
        let (handle, events, ends) =
            connect(&self.udp, self.local_addr, self.config.events_bytes_max);
        let directory = table.directory();
        let crew = Crew { protocol, shared, node: LOCAL, incarnation, seed };
        let driver =
            FaceDriver::start(Parts { crew, ends, config: self.config, udp: self.udp, table })?;
        Task::spawn(driver, &runtime);
        Ok((FaceNode { handle, directory }, events))
    }
}

/// A handle to a running node with faces. Clones lead to the same node; when the last one is
/// dropped the node sends what is queued and stops.
pub struct FaceNode<P: Protocol> {
    handle: Handle<P, Order>,
    directory: Directory,
}

impl<P: Hosted> FaceNode<P> {
    /// Submits a command that counts `bytes` against what the protocol admits. While anything is
    /// admitted one more command passes, whatever its size.
    ///
    /// # Errors
    /// Gives the command back if nothing is admitted, or the node has stopped.
    pub fn try_submit(
        &self,
        command: P::Command,
        bytes: usize,
    ) -> Result<(), TrySubmitError<P::Command>> {
        self.handle.try_submit(command, bytes)
    }

    /// Submits a command as soon as the protocol admits it. Dropping the future before it is
    /// ready submits nothing.
    ///
    /// # Errors
    /// If the node has stopped; the command is dropped.
    pub async fn submit(&self, command: P::Command, bytes: usize) -> Result<(), Closed> {
        self.handle.submit_with(bytes, || command).await
    }

    /// Like [`FaceNode::submit`], but makes the command only once it is admitted: for commands that
    /// say when they were accepted.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn submit_with(
        &self,
        bytes: usize,
        make: impl FnOnce() -> P::Command,
    ) -> Result<(), Closed> {
        self.handle.submit_with(bytes, make).await
    }

    /// Passes a command that needs no admission: the return of credits, a query.
    ///
    /// The queue to the protocol does not bound these, so their number must be bounded by
    /// something else, such as the events they answer.
    ///
    /// # Errors
    /// If the node has stopped; the command is dropped.
    pub fn command(&self, command: P::Command) -> Result<(), Closed> {
        self.handle.input(Input::Command(command, 0))
    }

    /// Opens a static face while the node runs. The protocol is told that it is up, unless the
    /// address has a face already; then that one is meant, and stays.
    ///
    /// # Errors
    /// If no face can have the address, or the node has stopped.
    pub async fn open(&self, addr: SocketAddr) -> Result<NodeId, FaceError> {
        let (reply, answer) = oneshot::channel();
        self.handle.order(Order::Open { addr, reply }).map_err(|Closed| FaceError::Closed)?;
        answer.await.unwrap_or(Err(FaceError::Closed))
    }

    /// Closes a face, a static one as well; the protocol is told that it is down. False if there
    /// was none. Where strangers are accepted its address may open another.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn close(&self, node: NodeId) -> Result<bool, Closed> {
        let (reply, answer) = oneshot::channel();
        self.handle.order(Order::Close { node, reply })?;
        answer.await.map_err(|_| Closed)
    }

    /// The address of a face that is open, IPv4 in its own form.
    pub fn addr(&self, node: NodeId) -> Option<SocketAddr> {
        self.directory.addr(node)
    }

    /// All faces that are open, with their addresses, by number.
    pub fn faces(&self) -> Vec<(NodeId, SocketAddr)> {
        self.directory.faces()
    }

    /// Puts faults on what is sent to faces, in place of earlier ones, from the next turn on;
    /// [`LinkFaults::default`] removes them. The model is the simulator's.
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn emulate(&self, to: Peers, faults: LinkFaults) -> Result<(), Closed> {
        self.handle.order(Order::Emulate { to, faults })
    }

    /// Stops the node: it goes on until what it has queued is sent, at most `stop_within`, and
    /// closes its socket. Returns at once if it has already stopped.
    pub async fn stop(&self) -> Stopped {
        self.handle.stop().await
    }

    /// What the node has counted, as of the end of its last turn.
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// The address that the node listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.common.local_addr
    }

    /// What the kernel granted for datagrams that have arrived and wait, in bytes: on Linux twice
    /// what was asked for, at most twice `net.core.rmem_max`. 0 if it did not say.
    pub fn datagram_receive_bytes(&self) -> usize {
        self.handle.common.datagram_receive_bytes
    }
}

impl<P: Protocol> Clone for FaceNode<P> {
    fn clone(&self) -> Self {
        FaceNode { handle: self.handle.clone(), directory: self.directory.clone() }
    }
}
