//! The stream that a node dials to one peer: its connection, its queue, its backlog.
//!
//! Data flows from the dialler to the acceptor only; the acceptor sends just its Hello. The dialler
//! writes nothing but its own Hello before that reply, so a failed attempt loses nothing.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use paceline_proto::core::{Instant, Rng};
use paceline_proto::host::{Encode, Encoded, ServicePlace};
use paceline_proto::parts::spans::Spans;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::{TcpSocket, TcpStream};

use super::share::Share;
use crate::config::NodeConfig;
use crate::record::{HEADER_BYTES, Header, LENGTH_BYTES, SESSION_BYTES, ServiceNumber};
use crate::session::{OPENING_BYTES, StreamNonce};
use crate::stats::Traffic;
use crate::streams::queue::{Cover, WriteQueue};
use crate::sys;
use crate::tally::TallyPart;

/// Most bytes written to one stream in a row.
const FLUSH_BYTES_MAX: usize = 1 << 20;
/// Wait before the second attempt; it doubles up to [`REDIAL_MAX`].
const REDIAL_FIRST: Duration = Duration::from_millis(20);
/// Failures in a row after which a node that no roster names is no longer dialled.
const HOPELESS_AFTER: u32 = 20;
/// Longest wait between attempts.
const REDIAL_MAX: Duration = Duration::from_secs(1);

/// Length of the longest Hello that opens a stream.
const HELLO_BYTES_MAX: usize = LENGTH_BYTES
    + HEADER_BYTES
    + if OPENING_BYTES > SESSION_BYTES { OPENING_BYTES } else { SESSION_BYTES };

type Connect = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// The state of a peer of which the protocol was last notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifiedState {
    /// Up, or nothing yet: sends are queued.
    Up,
    /// Down: sends are discarded until the stream stands again.
    Down,
}

/// The state of the connection.
pub(crate) enum Phase {
    /// Nothing was ever sent.
    Idle,
    /// The last attempt failed; a deadline is set for the next.
    Waiting,
    /// The handshake of TCP.
    Connecting(Connect),
    /// Connected; our Hello, this one, is written, and the reply is awaited.
    Greeting { stream: TcpStream, hello: Hello, reply: Vec<u8> },
    /// The peer has answered: records may be written.
    Established(Established),
}

/// The Hello that opens a stream.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    /// With its length.
    pub(crate) record: Bytes,
    /// Of a sealed stream: its session, and this node's nonce.
    pub(crate) sealed: Option<(u32, StreamNonce)>,
}

/// A stream that carries records.
pub(crate) struct Established {
    pub(crate) stream: TcpStream,
    /// The tag of the peer's session: the run of the peer that is connected.
    pub(crate) session: u32,
    since: Instant,
    /// `None` if the kernel's buffer has a fixed size, or the kernel tunes it.
    share: Option<Share>,
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All is written, or the kernel's buffer is full and will signal.
    Settled,
    /// The turn's share is written and more waits.
    More,
}

/// A message that emulated faults hold back.
pub(crate) struct HeldBack {
    until: Instant,
    service: ServiceNumber,
    message: Encoded,
}

/// The stream to one peer.
pub(crate) struct Outgoing {
    pub(crate) phase: Phase,
    pub(crate) notified_state: NotifiedState,
    pub(crate) queue: WriteQueue,
    /// Held back by emulated faults, in order.
    pub(crate) held: VecDeque<HeldBack>,
    held_bytes: usize,
    // The bytes of the backlog.
    queued: TallyPart,
    // Whose the bytes of the queue are.
    spans: Spans,
    // The services that wait for their backlog to fall, and below what.
    drains: Vec<((ServicePlace, ServiceNumber), usize)>,
    /// Dials so far: identifies the attempt of a deadline.
    pub(crate) attempt: u64,
    failures: u32,
    // Records on the present or coming connection; the Hello is number 0.
    sequence: u64,
    waker: Waker,
}

impl Outgoing {
    /// True if nothing is connected, dialled, or waits to be.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.queued_bytes() == 0
    }

    /// A stream that is not dialled yet.
    pub(crate) fn new(cover: Cover, queued: TallyPart, waker: Waker) -> Outgoing {
        Outgoing {
            phase: Phase::Idle,
            notified_state: NotifiedState::Up,
            queue: WriteQueue::new(cover),
            held: VecDeque::new(),
            held_bytes: 0,
            queued,
            spans: Spans::default(),
            drains: Vec::new(),
            attempt: 0,
            failures: 0,
            sequence: 1,
            waker,
        }
    }

    /// The waker of this stream, for its replacement.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Starts an attempt to connect.
    pub(crate) fn dial(&mut self, addr: SocketAddr, config: &NodeConfig) {
        self.attempt += 1;
        let (buffer, unsent) = (config.socket_buffer_bytes, config.stream_unsent_bytes);
        self.phase = Phase::Connecting(Box::pin(connect(addr, buffer, unsent)));
    }

    /// Notes a failed attempt; returns how long to wait before the next.
    pub(crate) fn fail(&mut self, rng: &mut Rng) -> Duration {
        self.phase = Phase::Waiting;
        let wait = REDIAL_FIRST.saturating_mul(1 << self.failures.min(10)).min(REDIAL_MAX);
        self.failures += 1;
        // A quarter of jitter, so that members restarted together do not dial together.
        wait.mul_f64(0.75 + 0.25 * rng.unit())
    }

    /// True after many failures in a row, about a quarter of a minute.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.failures >= HOPELESS_AFTER
    }

    /// Stops dialling until the next send, and drops the backlog; returns its bytes. If there were
    /// any, the peer is down.
    pub(crate) fn give_up(&mut self) -> usize {
        self.phase = Phase::Idle;
        self.failures = 0;
        let lost = self.drop_queued();
        if lost > 0 {
            self.notified_state = NotifiedState::Down;
        }
        lost
    }

    fn drop_queued(&mut self) -> usize {
        let lost = self.queued_bytes();
        self.queue.clear();
        self.spans.clear();
        self.held = VecDeque::new();
        self.held_bytes = 0;
        self.queued.set(0);
        self.sequence = 1;
        lost
    }

    /// Drops the connection and the backlog; returns its bytes.
    pub(crate) fn abandon(&mut self, now: Instant) -> usize {
        // A connection that breaks at once counts as one more failure. Otherwise a peer that
        // accepts and closes would be dialled without end.
        if let Phase::Established(link) = &self.phase
            && now.since(link.since) >= REDIAL_MAX
        {
            self.failures = 0;
        }
        self.phase = Phase::Waiting;
        self.notified_state = NotifiedState::Down;
        self.drop_queued()
    }

    /// Moves the attempt on, with this Hello if it connects now. Ready with the peer's Hello, an
    /// unread record, and this node's, once the peer's came whole: it has the same length.
    pub(crate) fn poll_hello(&mut self, hello: &Hello) -> Poll<io::Result<(Bytes, Hello)>> {
        let mut cx = Context::from_waker(&self.waker);
        if let Phase::Connecting(connect) = &mut self.phase {
            let stream = ready!(connect.as_mut().poll(&mut cx))?;
            // A new connection accepts these bytes at once, or is not worth keeping.
            if stream.try_write(&hello.record)? != hello.record.len() {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let reply = Vec::with_capacity(hello.record.len());
            self.phase = Phase::Greeting { stream, hello: hello.clone(), reply };
        }
        let Phase::Greeting { stream, hello, reply } = &mut self.phase else {
            return Poll::Pending;
        };
        while reply.len() < hello.record.len() {
            ready!(stream.poll_read_ready(&mut cx))?;
            let mut piece = [0; HELLO_BYTES_MAX];
            let wanted = hello.record.len() - reply.len();
            match stream.try_read(&mut piece[..wanted]) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => reply.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let mut answer = Bytes::copy_from_slice(reply);
        let length = answer.get_u32() as usize;
        if length != answer.len() {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        Poll::Ready(Ok((answer, hello.clone())))
    }

    /// Lets records flow: the peer's Hello was accepted.
    pub(crate) fn establish(&mut self, session: u32, now: Instant, config: &NodeConfig) {
        let phase = std::mem::replace(&mut self.phase, Phase::Waiting);
        if let Phase::Greeting { stream, .. } = phase {
            self.notified_state = NotifiedState::Up;
            let share = match config.socket_buffer_bytes {
                Some(_) => None,
                // A socket that accepts no size keeps the kernel's.
                None => Share::new(&stream, config.stream_delay, now).ok().flatten(),
            };
            self.phase = Phase::Established(Established { stream, session, since: now, share });
        }
    }

    /// Notices that the peer closed the stream. The acceptor sends nothing after its Hello, so
    /// anything readable is an end or a fault.
    pub(crate) fn check_open(&mut self) -> io::Result<()> {
        let Phase::Established(link) = &self.phase else {
            return Ok(());
        };
        let mut cx = Context::from_waker(&self.waker);
        while let Poll::Ready(ready) = link.stream.poll_read_ready(&mut cx) {
            ready?;
            match link.stream.try_read(&mut [0; 1]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Appends a message to the queue.
    pub(crate) fn push(&mut self, mut header: Header, message: &dyn Encode) {
        header.sequence = self.sequence;
        self.sequence += 1;
        let before = self.queue.len();
        self.spans.keep_last(before);
        self.queue.push(&header, message);
        self.spans.push(header.service, self.queue.len() - before);
        self.queued.set(self.queued_bytes());
    }

    /// Holds a message back until `until`, or until the one before it is released.
    pub(crate) fn hold(
        &mut self,
        until: Instant,
        service: ServiceNumber,
        message: Encoded,
    ) -> Instant {
        let until = self.held.back().map_or(until, |last| last.until.max(until));
        self.held_bytes += WriteQueue::record_bytes(&message);
        self.held.push_back(HeldBack { until, service, message });
        self.queued.set(self.queued_bytes());
        until
    }

    /// The next message whose time has come.
    pub(crate) fn release(&mut self, now: Instant) -> Option<(ServiceNumber, Encoded)> {
        self.held.front().filter(|held| held.until <= now)?;
        let HeldBack { service, message, .. } = self.held.pop_front()?;
        self.held_bytes -= WriteQueue::record_bytes(&message);
        self.queued.set(self.queued_bytes());
        Some((service, message))
    }

    /// Writes the backlog until the kernel's buffer is full.
    pub(crate) fn flush(&mut self, now: Instant, traffic: &mut Traffic) -> io::Result<Flushed> {
        let flushed = self.write_queued(now, traffic);
        self.queued.set(self.queued_bytes());
        flushed
    }

    fn write_queued(&mut self, now: Instant, traffic: &mut Traffic) -> io::Result<Flushed> {
        let Phase::Established(link) = &mut self.phase else {
            return Ok(Flushed::Settled);
        };
        let room = match &mut link.share {
            Some(share) => share.room(&link.stream, self.queue.len(), now)?,
            None => Some(usize::MAX),
        };
        let Some(room) = room else {
            return Ok(Flushed::Settled);
        };
        let mut cx = Context::from_waker(&self.waker);
        let mut flushed = 0;
        while !self.queue.is_empty() && flushed < room {
            if flushed >= FLUSH_BYTES_MAX {
                return Ok(Flushed::More);
            }
            match link.stream.poll_write_ready(&mut cx) {
                Poll::Pending => break,
                Poll::Ready(ready) => ready?,
            }
            let written = link.write(&mut self.queue, room - flushed)?;
            flushed += written;
            traffic.stream_writes += 1;
            traffic.stream_bytes_out += written as u64;
        }
        if let Some(share) = &mut link.share {
            share.note_flush(flushed, self.queue.len(), now);
            share.follow(&link.stream, now)?;
        }
        Ok(Flushed::Settled)
    }

    /// The earliest instant at which a flush may find room.
    pub(crate) fn refill_from(&self) -> Instant {
        self.share().map_or(Instant::ZERO, Share::refill_from)
    }

    /// The latest instant for the next flush of the backlog, with or without a signal;
    /// [`Instant::MAX`] if the kernel signals or nothing waits.
    pub(crate) fn refill_by(&self) -> Instant {
        self.share().map_or(Instant::MAX, Share::refill_by)
    }

    fn share(&self) -> Option<&Share> {
        match &self.phase {
            Phase::Established(link) => link.share.as_ref(),
            _ => None,
        }
    }

    /// Bytes queued that the kernel has not taken yet.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queue.len() + self.held_bytes
    }

    /// Bytes of one service that are queued; of all, if it shares the link with no other.
    pub(crate) fn backlog_of(&self, service: ServiceNumber, is_shared: bool) -> usize {
        match is_shared {
            true => self.spans.of(service, self.queue.len()) + self.held_bytes,
            false => self.queued_bytes(),
        }
    }

    /// Remembers that a service waits for its backlog to fall below this.
    pub(crate) fn await_drain(
        &mut self,
        service: (ServicePlace, ServiceNumber),
        below_bytes: usize,
    ) {
        let below_bytes = below_bytes.max(1);
        match self.drains.iter_mut().find(|(waiting, _)| *waiting == service) {
            Some((_, below)) => *below = below_bytes,
            None => self.drains.push((service, below_bytes)),
        }
    }

    /// Moves the services whose backlog is reached into `into`; `backlog` says what it is. For the
    /// others the last write was refused or a message is held back, so that the kernel or a
    /// deadline signals before that.
    pub(crate) fn take_drained(
        &mut self,
        into: &mut Vec<ServicePlace>,
        backlog: impl Fn(&Outgoing, ServiceNumber) -> usize,
    ) {
        // A peer that is down accepts nothing: the requests stay until it is up.
        if self.drains.is_empty() || self.notified_state == NotifiedState::Down {
            return;
        }
        let mut drains = std::mem::take(&mut self.drains);
        drains.retain(|&((place, number), below_bytes)| {
            let is_reached = backlog(self, number) < below_bytes;
            into.extend(is_reached.then_some(place));
            !is_reached
        });
        self.drains = drains;
    }

    /// Makes the later close an abort: the peer sees a reset, not an end.
    pub(crate) fn set_abortive(&self) {
        if let Phase::Greeting { stream, .. } | Phase::Established(Established { stream, .. }) =
            &self.phase
        {
            abort_on_close(stream);
        }
    }
}

impl Established {
    fn write(&mut self, queue: &mut WriteQueue, room: usize) -> io::Result<usize> {
        let mut written = 0;
        let mut slices = WriteQueue::slices();
        let packet_bytes_max = self.share.as_ref().map_or(usize::MAX, Share::write_bytes_max);
        let (count, bytes) = queue.next_write(&mut slices, packet_bytes_max.min(room));
        let result = self.stream.try_io(Interest::WRITABLE, || {
            written = if bytes < packet_bytes_max {
                SockRef::from(&self.stream).send_vectored(&slices[..count])?
            } else {
                sys::send_last(&self.stream, &slices[..count])?
            };
            // The kernel signals after a short write as after a refused one, so a short write
            // clears the readiness and the second, refused call is saved.
            if written < bytes {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if let Some(share) = &mut self.share {
            share.note_write(bytes, written);
        }
        queue.advance(written);
        Ok(written)
    }
}

/// Makes the later close of a stream an abort.
pub(crate) fn abort_on_close(stream: &TcpStream) {
    // Best effort: an ordinary close is the fallback.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

async fn connect(
    addr: SocketAddr,
    buffer_bytes: Option<u32>,
    unsent_bytes_max: u32,
) -> io::Result<TcpStream> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(bytes) = buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    let stream = socket.connect(addr).await?;
    stream.set_nodelay(true)?;
    sys::set_unsent_bytes_max(&stream, unsent_bytes_max)?;
    Ok(stream)
}
