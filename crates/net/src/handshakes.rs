//! Handshakes under way: each is a task of its own on a connection of its own, and its result goes
//! to the driver.
//!
//! The connection carries TLS and nothing else. The greeting of each side is its session (16), its
//! cluster's tag (4) and the port (2) at which it receives.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use paceline_proto::core::NodeId;
use paceline_seal::identity::Identity;
use paceline_seal::{Agreed, Credentials, Handshake, HandshakeError, Suite};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::record::{ClusterTag, Refusal, SESSION_BYTES, Session};

/// First byte of a connection of TLS: a record of its handshake (RFC 8446, section 5.1).
pub(crate) const TLS_HANDSHAKE: u8 = 0x16;
/// Bytes read at once.
const READ_BYTES: usize = 4096;

/// How a node seals: its identity, ready for handshakes.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    pub(crate) credentials: Credentials,
    pub(crate) suite: Suite,
}

impl Sealing {
    /// With this identity.
    ///
    /// # Errors
    /// If this processor cannot run the handshake or the suite of the cluster.
    pub(crate) fn new(identity: &Identity) -> Result<Sealing, HandshakeError> {
        let credentials = Credentials::new(identity)?;
        Ok(Sealing { credentials, suite: identity.suite() })
    }
}

/// What a side says of itself under TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) session: Session,
    pub(crate) cluster: ClusterTag,
    /// The port of its sockets.
    pub(crate) port: u16,
}

impl Greeting {
    /// Its wire form.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.session.as_bytes().to_vec();
        bytes.put_u32(self.cluster.0);
        bytes.put_u16(self.port);
        bytes
    }

    /// Reads the wire form; further bytes are for later versions.
    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Greeting, Refusal> {
        if bytes.len() < SESSION_BYTES + 6 {
            return Err(Refusal::Malformed);
        }
        let session = Session::from_body(&bytes[..SESSION_BYTES]).ok_or(Refusal::Malformed)?;
        bytes.advance(SESSION_BYTES);
        Ok(Greeting { session, cluster: ClusterTag(bytes.get_u32()), port: bytes.get_u16() })
    }
}

/// How a handshake began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Began {
    /// This node dialled the peer at this address.
    Dialled { node: NodeId, addr: SocketAddr },
    /// A connection from this address was accepted.
    Accepted { from: SocketAddr },
}

/// Why there is no session.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The network, or the peer closed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// TLS, or a certificate.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// It took too long.
    #[error("the handshake took longer than {0:?}")]
    TimedOut(Duration),
}

/// How a handshake ended.
pub(crate) struct Ended {
    pub(crate) began: Began,
    pub(crate) result: Result<Agreed, Failure>,
}

/// The handshakes of a node.
pub(crate) struct Handshakes {
    sender: mpsc::UnboundedSender<Ended>,
    receiver: mpsc::UnboundedReceiver<Ended>,
    waker: Waker,
    within: Duration,
    /// Accepted ones that have not ended.
    pub(crate) accepted: usize,
}

impl Handshakes {
    /// None yet. Each may take `within`; `waker` is woken when one ends.
    pub(crate) fn new(within: Duration, waker: Waker) -> Handshakes {
        let (sender, receiver) = mpsc::unbounded_channel();
        Handshakes { sender, receiver, waker, within, accepted: 0 }
    }

    /// Dials a peer and shakes hands with it.
    pub(crate) fn dial(&self, (node, addr): (NodeId, SocketAddr), handshake: Handshake) {
        self.spawn(Began::Dialled { node, addr }, async move {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            run(stream, handshake, Bytes::new()).await
        });
    }

    /// Shakes hands with the node that dialled this connection; `read` was read from it.
    pub(crate) fn accept(&mut self, stream: TcpStream, handshake: Handshake, read: Bytes) {
        let Ok(from) = stream.peer_addr() else { return };
        self.accepted += 1;
        self.spawn(Began::Accepted { from }, run(stream, handshake, read));
    }

    /// The next one that has ended.
    pub(crate) fn next(&mut self) -> Option<Ended> {
        match self.receiver.poll_recv(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(Some(ended)) => {
                self.accepted -= usize::from(matches!(ended.began, Began::Accepted { .. }));
                Some(ended)
            }
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    fn spawn(
        &self,
        began: Began,
        shaking: impl Future<Output = Result<Agreed, Failure>> + Send + 'static,
    ) {
        let (sender, within) = (self.sender.clone(), self.within);
        tokio::spawn(async move {
            let result = match tokio::time::timeout(within, shaking).await {
                Ok(result) => result,
                Err(_) => Err(Failure::TimedOut(within)),
            };
            // The node may have stopped.
            let _ = sender.send(Ended { began, result });
        });
    }
}

/// Carries bytes between a connection and a handshake until that has ended.
async fn run(stream: TcpStream, mut handshake: Handshake, read: Bytes) -> Result<Agreed, Failure> {
    let mut received = handshake.receive(&read);
    let mut buffer = [0; READ_BYTES];
    loop {
        // Also after an error: the peer learns why.
        write_all(&stream, &handshake.send()).await?;
        received?;
        if let Some(agreed) = handshake.finish()? {
            return Ok(agreed);
        }
        let read = read_some(&stream, &mut buffer).await?;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        received = handshake.receive(&buffer[..read]);
    }
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(written) => bytes.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn read_some(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}
