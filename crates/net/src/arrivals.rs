//! What arrives at a UDP socket: batches of datagrams.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::stats::Traffic;
use crate::sys;

/// Receive buffers handed to the kernel at once. Each takes a whole train.
const RECEIVES: usize = 8;
/// Size of a receive buffer: the longest datagram, or the longest train that the kernel joins.
const RECEIVE_BYTES: usize = 64 << 10;

/// A datagram that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Who sent it, by its own account.
    pub(crate) from: SocketAddr,
    /// The address that it was sent to, where the system tells.
    pub(crate) to: Option<IpAddr>,
    /// What it holds.
    pub(crate) record: Bytes,
}

/// Whether more may be waiting in the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Perhaps.
    More,
    /// No; the kernel will signal, or a later turn asks.
    Blocked,
}

/// When to ask the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Once it has signalled, if arrivals do.
    IfSignalled,
    /// Now: something has arrived elsewhere that was sent later.
    Now,
}

/// The receiving side of a UDP socket.
pub(crate) struct Arrivals {
    socket: UdpSocket,
    state: UdpSocketState,
    // Signals for reading. Not for writing: the kernel would signal whenever a datagram has left.
    signals: Option<AsyncFd<UdpSocket>>,
    waker: Waker,
    buffers: Box<[u8]>,
}

impl Arrivals {
    /// Takes over a bound socket that does not block.
    pub(crate) fn new(socket: UdpSocket, waker: Waker) -> io::Result<Arrivals> {
        Ok(Arrivals {
            state: UdpSocketState::new((&socket).into())?,
            signals: Some(sys::register_udp(&socket, Interest::READABLE)?),
            socket,
            waker,
            // Zeroed memory that is never touched costs no page.
            buffers: vec![0; RECEIVES * RECEIVE_BYTES].into_boxed_slice(),
        })
    }

    /// The socket, and what it can do.
    pub(crate) fn socket(&self) -> (&UdpSocket, &UdpSocketState) {
        (&self.socket, &self.state)
    }

    /// Whether arrivals are to signal. If not, the driver asks with each turn.
    ///
    /// True if they have just begun to: those that came before are still to be asked for.
    pub(crate) fn signal(&mut self, wanted: bool) -> bool {
        if wanted == self.signals.is_some() {
            return false;
        }
        // Without a free descriptor the driver goes on asking.
        self.signals =
            if wanted { sys::register_udp(&self.socket, Interest::READABLE).ok() } else { None };
        self.signals.is_some()
    }

    /// True if arrivals signal.
    pub(crate) fn is_signalling(&self) -> bool {
        self.signals.is_some()
    }

    /// Receives one batch and appends its datagrams, each with a share of a fresh buffer.
    pub(crate) fn receive(
        &mut self,
        ask: Ask,
        traffic: &mut Traffic,
        out: &mut Vec<Arrived>,
    ) -> Received {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            let mut signal = None;
            if let Some(signals) = self.signals.as_ref().filter(|_| ask == Ask::IfSignalled) {
                match signals.poll_read_ready(&mut cx) {
                    Poll::Ready(Ok(ready)) => signal = Some(ready),
                    Poll::Ready(Err(_)) | Poll::Pending => return Received::Blocked,
                }
            }
            let mut metas = [RecvMeta::default(); RECEIVES];
            let mut chunks = self.buffers.chunks_exact_mut(RECEIVE_BYTES);
            let mut slices: [IoSliceMut<'_>; RECEIVES] = std::array::from_fn(|_| {
                IoSliceMut::new(chunks.next().expect("one chunk for each receive"))
            });
            let result = self.state.recv((&self.socket).into(), &mut slices, &mut metas);
            traffic.datagram_receives += 1;
            let received = match result {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match &mut signal {
                    Some(signal) => {
                        signal.clear_ready();
                        continue;
                    }
                    None => return Received::Blocked,
                },
                // Left behind by an earlier send: the call has cleared it.
                Err(_) => return Received::More,
            };
            let is_last = received < RECEIVES;
            if let Some(signal) = &mut signal
                && is_last
            {
                // A short batch emptied the socket: what comes later signals anew.
                signal.clear_ready();
            }
            for (meta, slice) in metas[..received].iter().zip(&slices) {
                let mut bytes = Bytes::copy_from_slice(&slice[..meta.len]);
                traffic.datagram_bytes_in += meta.len as u64;
                while !bytes.is_empty() {
                    let one = bytes.split_to(meta.stride.clamp(1, bytes.len()));
                    traffic.datagrams_in += 1;
                    out.push(Arrived { from: meta.addr, to: meta.dst_ip, record: one });
                }
            }
            // Where it signals, the next call registers for that.
            let is_over = is_last && signal.is_none();
            return if is_over { Received::Blocked } else { Received::More };
        }
    }
}
