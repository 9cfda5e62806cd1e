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
use paceline_proto::core::{Instant, NodeId};
use paceline_proto::parts::token_bucket::TokenBucket;
use paceline_seal::identity::{
    ClusterKey, HostKey, Identity, PUBLIC_KEY_BYTES, SELF_CERTIFIED_FOR, UnixTime,
};
use paceline_seal::{Agreed, Credentials, Handshake, HandshakeError, Suite};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::record::{ClusterTag, Refusal, SESSION_BYTES, Session};

/// First byte of a connection of TLS: a record of its handshake (RFC 8446, section 5.1).
pub(crate) const TLS_HANDSHAKE: u8 = 0x16;
/// Least time between two accepted handshakes, on average: half a millisecond of processor time
/// each, so a tenth of a core. A second's worth at once.
const ACCEPT_EVERY: Duration = Duration::from_millis(5);
const ACCEPT_BURST: Duration = Duration::from_secs(1);
/// Bytes read at once.
const READ_BYTES: usize = 4096;

/// How a node seals: its identity, ready for handshakes.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    credentials: Credentials,
    pub(crate) suite: Suite,
    /// The public key of the authority that certifies the hosts of the cluster.
    pub(crate) authority: [u8; PUBLIC_KEY_BYTES],
    // Of a host that certifies itself: the cluster key, and when its certificate is due.
    renewal: Option<(ClusterKey, UnixTime)>,
    key: HostKey,
}

impl Sealing {
    /// With this identity. If there is a cluster key the host certifies itself again with it.
    ///
    /// # Errors
    /// If this processor cannot run the handshake or the suite of the cluster.
    pub(crate) fn new(
        identity: &Identity,
        cluster: Option<ClusterKey>,
    ) -> Result<Sealing, HandshakeError> {
        let credentials = Credentials::new(identity)?;
        let renewal = cluster.map(|cluster| (cluster, half_time(identity)));
        let key = identity.key().clone();
        let authority = *identity.authority().public_key();
        Ok(Sealing { credentials, suite: identity.suite(), authority, renewal, key })
    }

    /// The credentials for a handshake at this time. A certificate of the host's own is made again
    /// when half of its time is over.
    pub(crate) fn credentials(&mut self, now: UnixTime) -> &Credentials {
        if let Some((cluster, due)) = &mut self.renewal
            && now >= *due
        {
            let renewed = Identity::self_certified(cluster, self.key.clone(), now);
            let made = renewed.map_err(|error| error.to_string()).and_then(|identity| {
                *due = half_time(&identity);
                Credentials::new(&identity).map_err(|error| error.to_string())
            });
            match made {
                Ok(credentials) => self.credentials = credentials,
                // The clock is wrong; it is tried again with the next handshake.
                Err(error) => tracing::warn!(%error, "cannot renew the certificate of this host"),
            }
        }
        &self.credentials
    }
}

/// When half of the time is over that a host certifies for itself.
fn half_time(identity: &Identity) -> UnixTime {
    let until = Duration::from_secs(identity.not_after().as_secs());
    UnixTime::since_unix_epoch(until.saturating_sub(SELF_CERTIFIED_FOR / 2))
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
    // Accepted ones that have not ended, and how often another one may be.
    accepted: usize,
    accepts: TokenBucket,
}

impl Handshakes {
    /// None yet. Each may take `within`; `waker` is woken when one ends.
    pub(crate) fn new(within: Duration, waker: Waker) -> Handshakes {
        let (sender, receiver) = mpsc::unbounded_channel();
        let accepts = TokenBucket::full(ACCEPT_BURST);
        Handshakes { sender, receiver, waker, within, accepted: 0, accepts }
    }

    /// True if one more may be accepted now, while at most `accepted_max` are under way. Counts it.
    pub(crate) fn admits(&mut self, now: Instant, accepted_max: usize) -> bool {
        self.accepted < accepted_max && self.accepts.try_take_whole(now, ACCEPT_EVERY)
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

#[cfg(test)]
mod tests {
    use paceline_seal::Secret;

    use super::*;

    #[test]
    fn a_host_certifies_itself_again_when_half_of_the_time_is_over() {
        let cluster = ClusterKey::generate(Secret::new([1; 32]), Suite::ChaCha20Poly1305);
        let key = HostKey::generate(&Secret::new([2; 32]));
        let now = UnixTime::now();
        let later =
            |time: Duration| UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + time);
        let identity = Identity::self_certified(&cluster, key, now).unwrap();
        let mut sealing = Sealing::new(&identity, Some(cluster)).unwrap();
        let due = |sealing: &Sealing| sealing.renewal.as_ref().unwrap().1;
        let first = due(&sealing);
        sealing.credentials(later(SELF_CERTIFIED_FOR / 2 - Duration::from_secs(1)));
        assert_eq!(due(&sealing), first);
        sealing.credentials(later(SELF_CERTIFIED_FOR / 2));
        assert_eq!(due(&sealing), later(SELF_CERTIFIED_FOR));
    }

    #[test]
    fn a_greeting_reads_back_and_may_have_more_bytes() {
        let greeting = Greeting { session: Session::new(1, 2), cluster: ClusterTag(3), port: 4 };
        let mut bytes = greeting.encode();
        assert_eq!(Greeting::decode(&bytes), Ok(greeting));
        bytes.push(9);
        assert_eq!(Greeting::decode(&bytes), Ok(greeting));
        assert_eq!(Greeting::decode(&bytes[..21]), Err(Refusal::Malformed));
    }
}
