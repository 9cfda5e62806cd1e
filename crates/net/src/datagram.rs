//! What leaves by UDP: trains of equal datagrams, each in one call.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use paceline_proto::core::Counters;
use quinn_udp::Transmit;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::arrivals::Arrivals;
use crate::record::Header;
use crate::stats::Traffic;
use crate::sys;

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
    /// The same socket's other direction.
    pub(crate) arrivals: Arrivals,
    // While the kernel takes no more: signals when it does.
    room: Option<AsyncFd<UdpSocket>>,
    waker: Waker,
    trains: VecDeque<Train>,
    queued_bytes: usize,
    queue_bytes_max: usize,
    spare: Vec<BytesMut>,
    sequence: u64,
}

impl Datagrams {
    /// Takes over a bound socket that does not block.
    pub(crate) fn new(
        socket: UdpSocket,
        queue_bytes_max: usize,
        waker: Waker,
    ) -> io::Result<Datagrams> {
        Ok(Datagrams {
            arrivals: Arrivals::new(socket, waker.clone())?,
            room: None,
            waker,
            trains: VecDeque::new(),
            queued_bytes: 0,
            queue_bytes_max,
            spare: Vec::new(),
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
            let (socket, state) = self.arrivals.socket();
            let segments_max = state.max_gso_segments().max(1);
            let part_bytes = train.bytes.len().min(train.segment_bytes * segments_max);
            let transmit = Transmit {
                destination: train.to,
                ecn: None,
                contents: &train.bytes[..part_bytes],
                segment_size: (part_bytes > train.segment_bytes).then_some(train.segment_bytes),
                src_ip: None,
            };
            let result = state.try_send(socket.into(), &transmit);
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
                Err(_) if datagrams > 1 && state.max_gso_segments() < segments_max => {
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

    /// Asks the kernel to signal once it takes datagrams again; ready if it does already.
    fn await_room(&mut self) -> Poll<()> {
        let mut cx = Context::from_waker(&self.waker);
        let Ok(room) = sys::register_udp(self.arrivals.socket().0, Interest::WRITABLE) else {
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
        let addr = to.arrivals.socket().0.local_addr().expect("bound");
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
