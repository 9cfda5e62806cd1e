//! Sending by UDP: trains of datagrams, many of them with one call.

pub(crate) mod arrivals;
pub(crate) mod multicast;
pub(crate) mod queue;
pub(crate) mod trains;

use std::io;
use std::net::UdpSocket;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use paceline_proto::core::Counters;
use paceline_proto::host::Encode;
use paceline_proto::parts::link_share::PORT_BYTES;
use quinn_udp::Transmit;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::counters;
use crate::datagrams::arrivals::Arrivals;
use crate::datagrams::queue::SendQueue;
use crate::datagrams::trains::TRAIN_LENGTH_MAX;
use crate::stats::Traffic;
use crate::sys::{self, Part};

/// The UDP socket and its send queue.
pub(crate) struct Datagrams {
    /// The same socket's other direction.
    pub(crate) arrivals: Arrivals,
    // Present while the kernel's send buffer is full; signals when it has room.
    room: Option<AsyncFd<UdpSocket>>,
    waker: Waker,
    /// What waits to be sent.
    pub(crate) queue: SendQueue,
    /// Whether each datagram leaves with a call of its own.
    is_alone: bool,
}

impl Datagrams {
    /// Takes over a non-blocking bound socket. One call sends at most `together_max` datagrams, or
    /// several such trains if that is more than one.
    pub(crate) fn new(
        socket: UdpSocket,
        (queue_bytes_max, together_max): (usize, usize),
        waker: Waker,
    ) -> io::Result<Datagrams> {
        Ok(Datagrams {
            arrivals: Arrivals::new(socket, waker.clone())?,
            room: None,
            waker,
            queue: SendQueue::new(queue_bytes_max, together_max.clamp(1, TRAIN_LENGTH_MAX)),
            is_alone: together_max <= 1,
        })
    }

    /// Bytes of services that the kernel has not taken, because its buffer was full.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.room.is_some() { self.queue.data.queued_bytes() } else { 0 }
    }

    /// True if no more should be added of what can wait elsewhere: here nothing is overtaken.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.data.queued_bytes() >= PORT_BYTES
    }

    /// True if it is full and the kernel takes nothing.
    pub(crate) fn is_held_up(&self) -> bool {
        self.held_bytes() >= PORT_BYTES
    }

    /// Sends the queue, until the kernel's buffer is full.
    pub(crate) fn flush(&mut self, traffic: &mut Traffic, counters: &mut Counters) {
        if let Some(room) = &self.room {
            let mut cx = Context::from_waker(&self.waker);
            if room.poll_write_ready(&mut cx).is_pending() {
                return;
            }
            self.room = None;
        }
        while !self.queue.is_empty() {
            self.send_many(traffic);
            // The rest is a single part, or the kernel refuses it and gives the reason.
            let (socket, state) = self.arrivals.socket();
            let segments_max = state.max_gso_segments().max(1);
            let Some(part) = self.queue.parts(segments_max).next() else { return };
            let transmit = Transmit {
                destination: part.to,
                ecn: None,
                contents: part.bytes,
                segment_size: part.cut_at(),
                src_ip: None,
            };
            let result = state.try_send(socket.into(), &transmit);
            traffic.datagram_sends += 1;
            let (bytes, datagrams) = (part.bytes.len(), part.datagrams() as u64);
            match result {
                Ok(()) => note_sent(&part, traffic),
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
                // A datagram may be lost. The usual cause is a port that no socket is bound to yet.
                Err(_) => counters.add(counters::DATAGRAM_SEND_FAILED, datagrams),
            }
            self.queue.remove_part(bytes);
        }
    }

    /// Sends many parts with a call while there are several and the kernel takes them.
    fn send_many(&mut self, traffic: &mut Traffic) {
        loop {
            let (socket, state) = self.arrivals.socket();
            let mut parts = [const { None }; sys::SENDS_MAX];
            let mut several = 0;
            for part in self.queue.parts(state.max_gso_segments().max(1)).take(sys::SENDS_MAX) {
                parts[several] = Some(part);
                several += 1;
            }
            if !sys::SENDS_MANY || self.is_alone || several < 2 {
                return;
            }
            traffic.datagram_sends += 1;
            // Why the first was refused comes out once it is sent alone.
            let Ok(sent) = sys::send_many(socket, &parts[..several]) else { return };
            let mut sizes = [0; sys::SENDS_MAX];
            for (part, size) in parts[..sent].iter().flatten().zip(&mut sizes) {
                note_sent(part, traffic);
                *size = part.bytes.len();
            }
            for &size in &sizes[..sent] {
                self.queue.remove_part(size);
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
}

/// Appends a message with its payload.
pub(crate) fn write(message: &dyn Encode, out: &mut BytesMut) {
    if let Some(payload) = message.encode(out) {
        payload.for_each_chunk(|chunk| out.extend_from_slice(chunk));
    }
}

fn note_sent(part: &Part<'_>, traffic: &mut Traffic) {
    traffic.datagrams_out += part.datagrams() as u64;
    traffic.datagram_bytes_out += part.bytes.len() as u64;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn bound() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_nonblocking(true).expect("a socket");
        let addr = socket.local_addr().expect("bound");
        (socket, addr)
    }

    /// Loopback never fills the kernel's buffer, so that is said by hand.
    #[tokio::test]
    async fn what_waits_is_held_up_only_while_the_kernel_takes_nothing() {
        let mut from =
            Datagrams::new(bound().0, (1 << 20, 64), Waker::noop().clone()).expect("set up");
        let (mut traffic, mut counters) = (Traffic::default(), Counters::default());
        let (_to, addr) = bound();
        let mut push = |from: &mut Datagrams, bytes| {
            let counters = &mut counters;
            from.queue.data.push(addr, bytes, counters, |out| out.resize(out.len() + bytes, 7));
        };
        (0..PORT_BYTES / 1_000 + 1).for_each(|_| push(&mut from, 1_000));
        assert_eq!((from.held_bytes(), from.is_full(), from.is_held_up()), (0, true, false));
        let room = sys::register_udp(from.arrivals.socket().0, Interest::WRITABLE);
        from.room = Some(room.expect("a descriptor"));
        assert_eq!((from.held_bytes(), from.is_full(), from.is_held_up()), (17_000, true, true));
        from.queue.remove_part(1_000);
        assert_eq!((from.held_bytes(), from.is_full(), from.is_held_up()), (16_000, false, false));
        while !from.queue.is_empty() {
            from.flush(&mut traffic, &mut counters);
            tokio::task::yield_now().await;
        }
        assert_eq!((from.held_bytes(), from.is_full(), from.is_held_up()), (0, false, false));
    }

    #[tokio::test]
    async fn trains_for_several_addresses_leave_with_one_call_and_arrive_whole() {
        let mut from =
            Datagrams::new(bound().0, (1 << 20, 64), Waker::noop().clone()).expect("set up");
        let (mut traffic, mut counters) = (Traffic::default(), Counters::default());
        let to: Vec<_> = (0..3).map(|_| bound()).collect();
        for length in [500, 500, 100, 500, 501, 1] {
            for (_, addr) in &to {
                from.queue.data.push(*addr, length, &mut counters, |out| {
                    out.extend_from_slice(&[7; 1000][..length]);
                });
            }
        }
        while !from.queue.is_empty() {
            from.flush(&mut traffic, &mut counters);
            tokio::task::yield_now().await;
        }
        assert_eq!(traffic.datagrams_out, 18);
        assert!(!sys::SENDS_MANY || traffic.datagram_sends == 1, "{traffic:?}");
        assert!(counters.is_empty(), "{counters:?}");
        for (socket, _) in &to {
            for length in [500, 500, 100, 500, 501, 1] {
                let mut arrived = [0; 1000];
                assert_eq!(socket.recv(&mut arrived).expect("it came"), length);
            }
        }
    }

    #[tokio::test]
    async fn datagrams_that_are_to_leave_alone_take_a_call_each() {
        let socket = bound().0;
        let mut from = Datagrams::new(socket, (1 << 20, 1), Waker::noop().clone()).expect("set up");
        let (mut traffic, mut counters) = (Traffic::default(), Counters::default());
        let to = bound();
        for _ in 0..3 {
            from.queue.data.push(to.1, 500, &mut counters, |out| out.extend_from_slice(&[7; 500]));
        }
        while !from.queue.is_empty() {
            from.flush(&mut traffic, &mut counters);
            tokio::task::yield_now().await;
        }
        assert_eq!((traffic.datagrams_out, traffic.datagram_sends), (3, 3));
        for _ in 0..3 {
            assert_eq!(to.0.recv(&mut [0; 1000]).expect("it came"), 500);
        }
    }
}
