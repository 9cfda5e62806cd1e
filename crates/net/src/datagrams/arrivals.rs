//! Datagrams that arrive at a UDP socket, in batches.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::stats::Traffic;
use crate::sys;

/// Receive buffers handed to the kernel at once. Each takes a whole train.
const RECEIVES: usize = 8;
/// Size of a receive buffer: the longest datagram, or the longest train that the kernel joins.
const RECEIVE_BYTES: usize = 64 << 10;
/// A datagram of at least this length leaves in the buffer that it was received into; a shorter one
/// is copied, so that a retained datagram does not retain much more.
const LEAVE_BYTES_MIN: usize = RECEIVE_BYTES / 4;
/// Buffers that left and are remembered; the rest is freed with the last datagram in it.
const SPENT_MAX: usize = 32;
/// How many of these are looked at, the oldest first, before a new buffer is made.
const LOOKS_MAX: usize = 4;

/// Datagrams of one sender that arrived together: one, or a train that the kernel joined.
///
/// Iterates over them; each shares the train's buffer.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The source address, which may be forged.
    pub(crate) from: SocketAddr,
    /// The destination address, where the system reports it.
    pub(crate) to: Option<IpAddr>,
    bytes: Bytes,
    // Length of each but the last.
    stride: usize,
}

impl Arrived {
    /// How many datagrams are left.
    pub(crate) fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.stride)
    }
}

impl Iterator for Arrived {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        match self.bytes.len() {
            0 => None,
            // What is left needs no share of its own.
            left if left <= self.stride => Some(std::mem::take(&mut self.bytes)),
            _ => Some(self.bytes.split_to(self.stride)),
        }
    }
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
    /// Now: something that was sent later has arrived at another socket.
    Now,
}

/// The receiving side of a UDP socket.
pub(crate) struct Arrivals {
    socket: UdpSocket,
    state: UdpSocketState,
    // Signals for reading. Not for writing: the kernel would signal whenever a datagram has left.
    signals: Option<AsyncFd<UdpSocket>>,
    waker: Waker,
    buffers: Buffers,
}

/// Buffers that the kernel writes into.
struct Buffers {
    receiving: [BytesMut; RECEIVES],
    // Whole ones. Once its datagrams are gone a buffer is used again, without an allocation or a
    // page fault.
    spent: VecDeque<Bytes>,
}

impl Buffers {
    fn new() -> Buffers {
        // Zeroed memory that is never touched costs no page.
        let receiving = std::array::from_fn(|_| BytesMut::zeroed(RECEIVE_BYTES));
        Buffers { receiving, spent: VecDeque::new() }
    }

    /// The first bytes of a buffer.
    fn take(&mut self, place: usize, bytes: usize) -> Bytes {
        if bytes < LEAVE_BYTES_MIN {
            return Bytes::copy_from_slice(&self.receiving[place][..bytes]);
        }
        let fresh = self.fresh();
        let whole = std::mem::replace(&mut self.receiving[place], fresh).freeze();
        let taken = whole.slice(..bytes);
        self.spent.push_back(whole);
        if self.spent.len() > SPENT_MAX {
            self.spent.pop_front();
        }
        taken
    }

    fn fresh(&mut self) -> BytesMut {
        for _ in 0..LOOKS_MAX.min(self.spent.len()) {
            match self.spent.pop_front().map(Bytes::try_into_mut) {
                Some(Ok(buffer)) => return buffer,
                Some(Err(held)) => self.spent.push_back(held),
                None => break,
            }
        }
        BytesMut::zeroed(RECEIVE_BYTES)
    }
}

impl Arrivals {
    /// Takes over a bound socket that does not block.
    pub(crate) fn new(socket: UdpSocket, waker: Waker) -> io::Result<Arrivals> {
        Ok(Arrivals {
            state: UdpSocketState::new((&socket).into())?,
            signals: Some(sys::register_udp(&socket, Interest::READABLE)?),
            socket,
            waker,
            buffers: Buffers::new(),
        })
    }

    /// The socket, and what it can do.
    pub(crate) fn socket(&self) -> (&UdpSocket, &UdpSocketState) {
        (&self.socket, &self.state)
    }

    /// Sets whether arrivals signal. If not, the driver asks with each turn.
    ///
    /// True if they have just begun to signal: earlier ones must still be asked for.
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

    /// Receives one batch and appends what arrived, each train in a fresh buffer.
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
            let mut slices =
                self.buffers.receiving.each_mut().map(|buffer| IoSliceMut::new(buffer));
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
                // A short batch emptied the socket: the next datagram signals again.
                signal.clear_ready();
            }
            for (place, meta) in metas[..received].iter().enumerate() {
                let bytes = self.buffers.take(place, meta.len);
                let stride = meta.stride.max(1);
                let arrived = Arrived { from: meta.addr, to: meta.dst_ip, bytes, stride };
                traffic.datagram_bytes_in += meta.len as u64;
                traffic.datagrams_in += arrived.datagrams() as u64;
                out.push(arrived);
            }
            // Where it signals, the next call registers for that.
            let is_over = is_last && signal.is_none();
            return if is_over { Received::Blocked } else { Received::More };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_nobody_keeps_a_datagram_of_it() {
        let mut buffers = Buffers::new();
        let taken = |buffers: &mut Buffers| {
            let bytes = buffers.take(0, LEAVE_BYTES_MIN);
            (bytes.as_ptr(), bytes)
        };
        let (first, held) = taken(&mut buffers);
        let (second, freed) = taken(&mut buffers);
        drop(freed);
        // Each call puts another one in place for the next.
        let addresses = [(); 4].map(|()| taken(&mut buffers).0);
        assert!(!addresses.contains(&first), "a datagram still holds a part of it");
        assert!(addresses.contains(&second));
        drop(held);
        let addresses = [(); 8].map(|()| taken(&mut buffers).0);
        assert!(addresses.contains(&first));
        assert!(buffers.spent.len() <= 4);
    }

    #[test]
    fn what_is_short_is_copied_and_its_buffer_stays() {
        let mut buffers = Buffers::new();
        let before = buffers.receiving[3].as_ptr();
        buffers.receiving[3][..2].copy_from_slice(b"ab");
        assert_eq!(buffers.take(3, 2), "ab");
        assert_eq!(buffers.take(3, LEAVE_BYTES_MIN - 1).len(), LEAVE_BYTES_MIN - 1);
        assert_eq!((buffers.receiving[3].as_ptr(), buffers.spent.len()), (before, 0));
    }

    #[test]
    fn a_train_is_taken_apart_at_its_stride() {
        let train = |bytes: &'static [u8], stride| Arrived {
            from: ([127, 0, 0, 1], 1).into(),
            to: None,
            bytes: Bytes::from_static(bytes),
            stride,
        };
        assert_eq!(train(b"aabbc", 2).datagrams(), 3);
        assert_eq!(train(b"aabbc", 2).collect::<Vec<_>>(), ["aa", "bb", "c"]);
        assert_eq!(train(b"aabb", 2).collect::<Vec<_>>(), ["aa", "bb"]);
        assert_eq!(train(b"a", 9).collect::<Vec<_>>(), ["a"]);
        assert_eq!((train(b"", 1).datagrams(), train(b"", 1).count()), (0, 0));
    }
}
