//! The UDP socket: trains of equal datagrams out in one call, batches in.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use paceline_proto::core::Counters;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::record::Header;
use crate::stats::Traffic;
use crate::sys;

/// Receive buffers handed to the kernel at once. Each takes a whole train.
const RECEIVES: usize = 8;
/// Size of a receive buffer: the longest datagram, or the longest train that the kernel joins.
const RECEIVE_BYTES: usize = 64 << 10;
/// Most bytes of one train.
const TRAIN_BYTES_MAX: usize = 60_000;
/// Most datagrams of one train.
const TRAIN_LENGTH_MAX: usize = 64;
/// Spent train buffers that are kept.
const SPARE_MAX: usize = 64;

/// Datagrams for one address, all but the last of one size.
#[derive(Debug)]
struct Train {
    to: SocketAddr,
    segment_bytes: usize,
    bytes: BytesMut,
}

impl Train {
    fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.segment_bytes)
    }

    fn takes(&self, to: SocketAddr, bytes: usize) -> bool {
        self.to == to
            && bytes <= self.segment_bytes
            && self.bytes.len().is_multiple_of(self.segment_bytes)
            && self.bytes.len() + bytes <= TRAIN_BYTES_MAX
            && self.datagrams() < TRAIN_LENGTH_MAX
    }
}

/// The UDP socket and what waits for it.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    // Signals for reading. Not for writing: the kernel would signal whenever a datagram has left.
    arrivals: Option<AsyncFd<UdpSocket>>,
    // While the kernel takes no more: signals when it does.
    room: Option<AsyncFd<UdpSocket>>,
    state: UdpSocketState,
    waker: Waker,
    trains: VecDeque<Train>,
    queued_bytes: usize,
    queue_bytes_max: usize,
    spare: Vec<BytesMut>,
    buffers: Box<[u8]>,
    sequence: u64,
}

/// Whether more may be waiting in the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Perhaps.
    More,
    /// No; the kernel will signal, or a later turn asks.
    Blocked,
}

impl Datagrams {
    /// Takes over a bound socket that does not block.
    pub(crate) fn new(
        socket: UdpSocket,
        queue_bytes_max: usize,
        waker: Waker,
    ) -> io::Result<Datagrams> {
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Datagrams {
            arrivals: Some(sys::register_udp(&socket, Interest::READABLE)?),
            socket,
            room: None,
            state,
            waker,
            trains: VecDeque::new(),
            queued_bytes: 0,
            queue_bytes_max,
            spare: Vec::new(),
            // Zeroed memory that is never touched costs no page.
            buffers: vec![0; RECEIVES * RECEIVE_BYTES].into_boxed_slice(),
            sequence: 0,
        })
    }

    /// Queues one datagram of `bytes` bytes; `write` appends what follows the header.
    pub(crate) fn push(
        &mut self,
        to: SocketAddr,
        mut header: Header,
        bytes: usize,
        counters: &mut Counters,
        write: impl FnOnce(&mut BytesMut),
    ) {
        header.sequence = self.sequence;
        self.sequence += 1;
        if !self.trains.back().is_some_and(|train| train.takes(to, bytes)) {
            let buffer = self.spare.pop().unwrap_or_default();
            self.trains.push_back(Train { to, segment_bytes: bytes, bytes: buffer });
        }
        let train = self.trains.back_mut().expect("just pushed");
        let before = train.bytes.len();
        train.bytes.extend_from_slice(&header.encode());
        write(&mut train.bytes);
        debug_assert_eq!(train.bytes.len() - before, bytes, "`wire_len` is exact");
        self.queued_bytes += bytes;
        while self.queued_bytes > self.queue_bytes_max && self.trains.len() > 1 {
            let oldest = self.trains.pop_front().expect("more than one");
            counters.add("datagram_queue_overflow", oldest.datagrams() as u64);
            self.finish(oldest);
        }
    }

    /// Sends what waits, as far as the kernel takes it.
    pub(crate) fn flush(&mut self, traffic: &mut Traffic, counters: &mut Counters) {
        if let Some(room) = &self.room {
            let mut cx = Context::from_waker(&self.waker);
            if room.poll_write_ready(&mut cx).is_pending() {
                return;
            }
            self.room = None;
        }
        while let Some(train) = self.trains.front() {
            let segments_max = self.state.max_gso_segments().max(1);
            let part_bytes = train.bytes.len().min(train.segment_bytes * segments_max);
            let transmit = Transmit {
                destination: train.to,
                ecn: None,
                contents: &train.bytes[..part_bytes],
                segment_size: (part_bytes > train.segment_bytes).then_some(train.segment_bytes),
                src_ip: None,
            };
            let result = self.state.try_send((&self.socket).into(), &transmit);
            traffic.datagram_sends += 1;
            let datagrams = part_bytes.div_ceil(train.segment_bytes) as u64;
            match result {
                Ok(()) => {
                    traffic.datagrams_out += datagrams;
                    traffic.datagram_bytes_out += part_bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.await_room().is_ready() {
                        continue;
                    }
                    return;
                }
                Err(_) if datagrams > 1 && self.state.max_gso_segments() < segments_max => {
                    // The kernel or the interface cannot cut trains: they go one by one from now.
                    tracing::info!("segmentation offload is not available, sending one by one");
                    continue;
                }
                // A datagram may be lost. The usual cause is a port that nobody listens on yet.
                Err(_) => counters.add("datagram_send_failed", datagrams),
            }
            self.queued_bytes -= part_bytes;
            let train = self.trains.front_mut().expect("it was just sent from");
            if part_bytes < train.bytes.len() {
                drop(train.bytes.split_to(part_bytes));
            } else {
                let mut sent = self.trains.pop_front().expect("it was just sent");
                sent.bytes.clear();
                self.finish(sent);
            }
        }
    }

    /// Whether arrivals are to signal. If not, the driver asks with each turn.
    ///
    /// True if they have just begun to: those that came before are still to be asked for.
    pub(crate) fn signal_arrivals(&mut self, wanted: bool) -> bool {
        if wanted == self.arrivals.is_some() {
            return false;
        }
        // Without a free descriptor the driver goes on asking.
        self.arrivals =
            if wanted { sys::register_udp(&self.socket, Interest::READABLE).ok() } else { None };
        self.arrivals.is_some()
    }

    /// True if arrivals signal.
    pub(crate) fn signals_arrivals(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Receives one batch and appends its datagrams and where they came from, each with a share of
    /// a fresh buffer.
    pub(crate) fn receive(
        &mut self,
        traffic: &mut Traffic,
        out: &mut Vec<(SocketAddr, Bytes)>,
    ) -> Received {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            let mut signal = None;
            if let Some(arrivals) = &self.arrivals {
                match arrivals.poll_read_ready(&mut cx) {
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
                    out.push((meta.addr, one));
                }
            }
            // Where it signals, the next call registers for that.
            let is_over = is_last && self.arrivals.is_none();
            return if is_over { Received::Blocked } else { Received::More };
        }
    }

    /// Asks the kernel to signal once it takes datagrams again; ready if it does already.
    fn await_room(&mut self) -> Poll<()> {
        let mut cx = Context::from_waker(&self.waker);
        let Ok(room) = sys::register_udp(&self.socket, Interest::WRITABLE) else {
            // No descriptor is free: what waits is tried again with the next turn.
            return Poll::Pending;
        };
        let ready = room.poll_write_ready(&mut cx).map(drop);
        self.room = ready.is_pending().then_some(room);
        ready
    }

    /// True if nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.trains.is_empty()
    }

    fn finish(&mut self, train: Train) {
        self.queued_bytes = self.queued_bytes.saturating_sub(train.bytes.len());
        let mut buffer = train.bytes;
        buffer.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_proto::core::NodeId;

    use super::*;
    use crate::record::{ClusterTag, HEADER_BYTES, Kind};

    const HEADER: Header = Header {
        kind: Kind::Message,
        cluster: ClusterTag(1),
        sender: NodeId(2),
        session: 3,
        sequence: 0,
    };

    async fn socket(queue_bytes_max: usize) -> Datagrams {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_nonblocking(true).expect("a socket");
        Datagrams::new(socket, queue_bytes_max, Waker::noop().clone()).expect("set up")
    }

    fn push(from: &mut Datagrams, to: SocketAddr, bytes: usize, counters: &mut Counters) {
        from.push(to, HEADER, HEADER_BYTES + bytes, counters, |out| {
            out.extend_from_slice(&[7; 1000][..bytes]);
        });
    }

    #[tokio::test]
    async fn equal_datagrams_to_one_address_share_a_train_and_a_longer_one_starts_another() {
        let (mut from, to) = (socket(1 << 20).await, socket(1 << 20).await);
        let addr = to.socket.local_addr().expect("bound");
        let mut counters = Counters::default();
        for bytes in [500, 500, 100, 500, 501] {
            push(&mut from, addr, bytes, &mut counters);
        }
        let trains: Vec<usize> = from.trains.iter().map(Train::datagrams).collect();
        assert_eq!(trains, [3, 1, 1], "a shorter one ends its train");
        let mut traffic = Traffic::default();
        while !from.is_empty() {
            from.flush(&mut traffic, &mut counters);
            tokio::task::yield_now().await;
        }
        assert_eq!((traffic.datagrams_out, from.queued_bytes), (5, 0));
        assert!(counters.is_empty(), "{counters:?}");
    }

    #[tokio::test]
    async fn a_full_queue_drops_the_oldest_and_counts_it() {
        let mut from = socket(1200).await;
        let addrs: Vec<SocketAddr> = [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        let mut counters = Counters::default();
        for &addr in &addrs {
            push(&mut from, addr, 500, &mut counters);
        }
        let kept: Vec<SocketAddr> = from.trains.iter().map(|train| train.to).collect();
        assert_eq!(kept, addrs[1..]);
        assert_eq!(counters.count("datagram_queue_overflow"), 1);
        assert_eq!(from.queued_bytes, 2 * (HEADER_BYTES + 500));
    }
}
