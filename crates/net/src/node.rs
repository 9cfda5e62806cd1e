//! Starting a node, and the handles to a running one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use paceline_proto::core::{Protocol, View};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::admission::Admission;
use crate::config::{Exposure, NodeConfig};
use crate::driver::{Control, Driver, Input, Parts};
use crate::emulate::EmulateChange;
use crate::error::{BindError, Closed, StartError, TrySubmitError};
use crate::multicast::{MulticastUse, Way};
use crate::record::{ClusterTag, Session};
use crate::roster::Roster;
use crate::stats::{SharedStats, Stats};

/// Connections that the kernel holds until they are accepted.
const LISTEN_BACKLOG: i32 = 1024;
/// Attempts to find a port number that is free for TCP and for UDP.
const PORT_ATTEMPTS: usize = 16;

/// A protocol that a node can run: its parts may move to the node's task.
///
/// Implemented for every protocol that qualifies.
pub trait Hosted:
    Protocol<
        Message: Send + 'static,
        Timer: Send + 'static,
        Command: Send + 'static,
        Event: Send + 'static,
        Shared: Send + Sync + 'static,
    > + Send
    + 'static
{
}

impl<P> Hosted for P where
    P: Protocol<
            Message: Send + 'static,
            Timer: Send + 'static,
            Command: Send + 'static,
            Event: Send + 'static,
            Shared: Send + Sync + 'static,
        > + Send
        + 'static
{
}

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
    /// plaintext beyond it, or there is to be multicast and none is possible.
    pub fn bind(addr: SocketAddr, config: NodeConfig) -> Result<Bound, BindError> {
        if !addr.ip().is_loopback() && config.exposure == Exposure::LoopbackOnly {
            return Err(BindError::Plaintext { addr });
        }
        let mut attempts = if addr.port() == 0 { PORT_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            match bind_both(addr, &config) {
                Ok((listener, udp, local_addr)) => {
                    let multicast = Way::open(&udp, &config)
                        .map_err(|source| BindError::Multicast { addr, source })?;
                    return Ok(Bound { listener, udp, local_addr, multicast, config });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts > 0 => {}
                Err(source) => return Err(bind_error(addr, source)),
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

    /// The same sockets, in the cluster of this name.
    pub fn in_cluster(mut self, name: &str) -> Bound {
        self.config.cluster = name.to_owned();
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
        let node = self.config.node;
        if roster.addr(node).is_none() {
            return Err(StartError::NotAMember { node });
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let session = Session::start().map_err(StartError::Random)?;
        let seed = match self.config.seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(StartError::Random)?,
        };
        let (inputs, inputs_out) = mpsc::unbounded_channel();
        let (controls, controls_out) = mpsc::unbounded_channel();
        let (events, events_out) = mpsc::unbounded_channel();
        let multicast = self.multicast.describe(ClusterTag::of(&self.config.cluster));
        let handles = Arc::new(Handles {
            admission: Admission::default(),
            stats: SharedStats::default(),
            local_addr: self.local_addr,
            incarnation: session.incarnation(),
            datagram_receive_bytes: SockRef::from(&self.udp).recv_buffer_size().unwrap_or(0),
            multicast,
        });
        let driver = Driver::start(Parts {
            protocol,
            shared,
            config: self.config,
            seed,
            session,
            roster,
            listener: TcpListener::from_std(self.listener)?,
            udp: self.udp,
            multicast: self.multicast,
            inputs: inputs_out,
            controls: controls_out,
            events,
            handles: Arc::clone(&handles),
        })?;
        runtime.spawn(async {
            // Fairness is the driver's own: each of its turns is bounded and ends in a yield.
            let ended = tokio::task::unconstrained(driver).await;
            // The driver is gone by now, and its ports are free.
            ended.tell();
        });
        let node = Node { inputs, controls, handles };
        Ok((node, Events { events: events_out }))
    }
}

/// What driver and handles share.
#[derive(Debug)]
pub(crate) struct Handles {
    pub(crate) admission: Admission,
    pub(crate) stats: SharedStats,
    local_addr: SocketAddr,
    incarnation: u64,
    datagram_receive_bytes: usize,
    multicast: MulticastUse,
}

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Stream bytes that could not be handed to the kernel in time.
    pub abandoned_bytes: usize,
}

/// A handle to a running node. Clones lead to the same node; when the last one is dropped the
/// node flushes its streams and stops.
pub struct Node<P: Protocol> {
    inputs: mpsc::UnboundedSender<Input<P>>,
    controls: mpsc::UnboundedSender<Control>,
    handles: Arc<Handles>,
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
        if self.inputs.is_closed() {
            return Err(TrySubmitError::Closed(command));
        }
        if !self.handles.admission.try_take(bytes) {
            return Err(TrySubmitError::WouldBlock(command));
        }
        self.inputs.send(Input::Command(command, bytes)).map_err(|unsent| match unsent.0 {
            Input::Command(command, _) => TrySubmitError::Closed(command),
            Input::View(_) => unreachable!("a command was sent"),
        })
    }

    /// Submits a command as soon as the protocol admits it. Dropping the future before it is
    /// ready submits nothing.
    ///
    /// # Errors
    /// If the node has stopped; the command is dropped.
    pub async fn submit(&self, command: P::Command, bytes: usize) -> Result<(), Closed> {
        self.handles.admission.take(bytes).await;
        self.inputs.send(Input::Command(command, bytes)).map_err(|_| Closed)
    }

    /// Like [`Node::submit`], but makes the command only once it is admitted: for commands that
    /// say when they were accepted.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn submit_with(
        &self,
        bytes: usize,
        make: impl FnOnce() -> P::Command,
    ) -> Result<(), Closed> {
        self.handles.admission.take(bytes).await;
        self.inputs.send(Input::Command(make(), bytes)).map_err(|_| Closed)
    }

    /// Passes a command that needs no admission: the return of credits, a query.
    ///
    /// The queue to the protocol does not bound these, so their number must be bounded by
    /// something else, such as the events they answer.
    ///
    /// # Errors
    /// If the node has stopped; the command is dropped.
    pub fn command(&self, command: P::Command) -> Result<(), Closed> {
        self.inputs.send(Input::Command(command, 0)).map_err(|_| Closed)
    }

    /// Installs a view, in order with the commands.
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn install_view(&self, view: Arc<View>) -> Result<(), Closed> {
        self.inputs.send(Input::View(view)).map_err(|_| Closed)
    }

    /// Looks for members at these addresses until they answer; the protocol is told of each as a
    /// peer that is up. Needs [`NodeConfig::with_open_membership`].
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn seek(&self, seeds: Vec<SocketAddr>) -> Result<(), Closed> {
        self.controls.send(Control::Seeds(seeds)).map_err(|_| Closed)
    }

    /// Changes what the node emulates, from its next turn on.
    ///
    /// # Errors
    /// If the node has stopped.
    pub fn emulate(&self, change: EmulateChange) -> Result<(), Closed> {
        self.controls.send(Control::Emulate(change)).map_err(|_| Closed)
    }

    /// Stops the node: it goes on until its streams are flushed, at most `stop_within`, and
    /// closes its sockets. Returns at once if it has already stopped.
    pub async fn stop(&self) -> Stopped {
        let stopped = Stopped { abandoned_bytes: 0 };
        let (reply, answer) = oneshot::channel();
        match self.controls.send(Control::Stop(reply)) {
            Ok(()) => answer.await.unwrap_or(stopped),
            Err(_) => stopped,
        }
    }

    /// What the node has counted, as of the end of its last turn.
    pub fn stats(&self) -> Stats {
        self.handles.stats.snapshot()
    }

    /// The address that the node listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.handles.local_addr
    }

    /// What the kernel granted for datagrams that have arrived and wait, in bytes: on Linux twice
    /// what was asked for, at most twice `net.core.rmem_max`. 0 if it did not say.
    pub fn datagram_receive_bytes(&self) -> usize {
        self.handles.datagram_receive_bytes
    }

    /// How messages to groups leave: what [`NodeConfig::with_multicast`] came to on this machine.
    /// While links are emulated ([`Node::emulate`]) they leave as copies whatever this says.
    pub fn multicast(&self) -> &MulticastUse {
        &self.handles.multicast
    }

    /// The random number by which protocols know this run of the node. Never 0.
    pub fn incarnation(&self) -> u64 {
        self.handles.incarnation
    }
}

impl<P: Protocol> Clone for Node<P> {
    fn clone(&self) -> Self {
        Node {
            inputs: self.inputs.clone(),
            controls: self.controls.clone(),
            handles: Arc::clone(&self.handles),
        }
    }
}

/// What the protocol tells the application, in order.
///
/// The queue behind it has no bound of its own. A protocol bounds it by its credits: it delivers
/// no more than the application has made room for by consuming. Dropping it discards what comes.
pub struct Events<P: Protocol> {
    events: mpsc::UnboundedReceiver<P::Event>,
}

impl<P: Protocol> Events<P> {
    /// The next event; `None` once the node has stopped and all were received.
    pub async fn recv(&mut self) -> Option<P::Event> {
        self.events.recv().await
    }

    /// The next event if there is one now.
    pub fn try_recv(&mut self) -> Option<P::Event> {
        self.events.try_recv().ok()
    }

    /// Waits for an event, then appends up to `limit` of them to `events`. Returns how many; 0
    /// once the node has stopped and all were received.
    pub async fn recv_many(&mut self, events: &mut Vec<P::Event>, limit: usize) -> usize {
        self.events.recv_many(events, limit).await
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
    if config.socket_buffer_bytes.is_none() {
        socket.set_recv_buffer_size(config.datagram_receive_bytes as usize)?;
    }
    Ok((listener, udp, local_addr))
}

fn set_buffers(socket: &SockRef<'_>, config: &NodeConfig) -> io::Result<()> {
    if let Some(bytes) = config.socket_buffer_bytes {
        socket.set_send_buffer_size(bytes as usize)?;
        socket.set_recv_buffer_size(bytes as usize)?;
    }
    Ok(())
}

fn bind_error(addr: SocketAddr, source: io::Error) -> BindError {
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::PortInUse { addr },
        io::ErrorKind::AddrNotAvailable => BindError::NotLocal { addr },
        _ => BindError::Io { addr, source },
    }
}
