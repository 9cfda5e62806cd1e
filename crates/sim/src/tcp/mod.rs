//! Streams that behave as TCP: segments, congestion windows, losses at full ports, time-outs.
//!
//! Congestion control is RFC 5681 (Reno) or RFC 9438 (CUBIC); loss recovery RFC 6675, by selective
//! acknowledgements; the retransmission timer RFC 6298 with Linux's least time-out of 200 ms. There
//! is no handshake, no closing and no ECN, and the receiver's application consumes data at once.
//!
//! A stream is one direction between two nodes. It carries messages back to back, and delivers each
//! when its last byte has arrived in order.

mod congestion;
mod receiver;
mod sender;

use std::collections::{BTreeMap, VecDeque};

use paceline_proto::core::{CounterId, Instant, NodeId, Rng};
use paceline_proto::parts::slab::Slab;

pub use congestion::Congestion;
pub(crate) use congestion::MSS;
use receiver::{Ack, Receiver};
use sender::Sender;

use crate::counters;

/// Ethernet, IP and TCP around the payload of a segment, timestamps, preamble and gap included:
/// what `Overhead::Ethernet` charges a full one. An acknowledgement is nothing else.
pub(crate) const HEAD_BYTES: u64 = 90;

/// Payload bytes of one stream that leave a host back to back while its windows allow: what a host
/// hands to its interface at once, to be cut into segments there (TSO).
const BURST_BYTES: u64 = 64 << 10;

/// How streams behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// A message waits for its ports and is never lost. One event for each message.
    #[default]
    Lossless,
    /// As TCP does; see [`TcpConfig`]. Two events for each segment.
    Tcp(TcpConfig),
}

/// Streams as TCP behind ports of a switch that drop. Needs a star.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Bytes that each output port of the switch buffers, for all that goes to its node together:
    /// segments, acknowledgements, datagrams. What finds no room is dropped. At least 2 KiB, more
    /// than a full frame.
    pub port_bytes_max: u64,
    /// Congestion control. Default CUBIC.
    pub congestion: Congestion,
}

/// What is on its way, or due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packet {
    Segment { stream: u32, epoch: u32, start: u64, end: u64 },
    Ack { stream: u32, epoch: u32, ack: Ack },
    ResendTimer { stream: u32 },
    AckTimer { stream: u32 },
}

/// A packet for the port of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: NodeId,
    pub(crate) payload_bytes: u64,
    pub(crate) packet: Packet,
}

/// What waits for the port of a node besides streams.
#[derive(Debug)]
pub(crate) enum Waiting<Q> {
    Message(Q),
    Ack(Outgoing),
}

/// The next thing for a port.
#[derive(Debug)]
pub(crate) enum Turn<Q> {
    Message(Q),
    Packet(Outgoing),
}

/// A message whose last byte has come in order.
#[derive(Debug)]
pub(crate) struct Delivered<M> {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) message: M,
    pub(crate) bytes: usize,
}

/// One direction between two nodes.
#[derive(Debug)]
struct Stream<M> {
    from: NodeId,
    to: NodeId,
    // Raised by each reset; packets of an older one are void.
    epoch: u32,
    sender: Sender,
    receiver: Receiver,
    // With the byte at which each ends, and its length.
    messages: VecDeque<(u64, usize, M)>,
    // It has its place in the line of its node's port.
    is_in_line: bool,
    // When the queue holds an event for each timer.
    resend_event: Option<Instant>,
    ack_event: Option<Instant>,
}

/// What waits for the port of a node.
#[derive(Debug)]
struct Line<Q> {
    waiting: VecDeque<Waiting<Q>>,
    // Streams that may have something to send.
    streams: VecDeque<u32>,
    // Bytes that the stream whose turn it is may still send before the next one's.
    burst_left: u64,
    // An event comes when the port is free.
    is_awaited: bool,
}

impl<Q> Default for Line<Q> {
    fn default() -> Self {
        let (waiting, streams) = (VecDeque::new(), VecDeque::new());
        Line { waiting, streams, burst_left: 0, is_awaited: false }
    }
}

/// All streams of a run; `Q` is what else waits for ports.
pub(crate) struct Tcp<M, Q> {
    pub(crate) config: TcpConfig,
    streams: Vec<Stream<M>>,
    by_ends: BTreeMap<(NodeId, NodeId), u32>,
    lines: Vec<Line<Q>>,
    // By node: what reaches a host is seen in order, whatever its processing takes.
    pub(crate) seen_until: Vec<Instant>,
    pub(crate) rng: Rng,
    packets: Slab<Packet>,
    /// Packets and timers for the queue of events: when, and the number to hand back.
    pub(crate) due: Vec<(Instant, u32)>,
    /// Nodes for whose ports something waits and nothing is awaited yet.
    pub(crate) starts: Vec<NodeId>,
    /// Messages that have come whole.
    pub(crate) delivered: Vec<Delivered<M>>,
    /// What happened: names of counters and how often.
    pub(crate) counted: Vec<(CounterId, u64)>,
}

impl<M, Q> Tcp<M, Q> {
    pub(crate) fn new(config: TcpConfig, nodes: usize, seed: u64) -> Tcp<M, Q> {
        Tcp {
            config,
            streams: Vec::new(),
            by_ends: BTreeMap::new(),
            lines: (0..nodes).map(|_| Line::default()).collect(),
            seen_until: vec![Instant::ZERO; nodes],
            rng: Rng::new(seed, 0x7c9),
            packets: Slab::default(),
            due: Vec::new(),
            starts: Vec::new(),
            delivered: Vec::new(),
            counted: Vec::new(),
        }
    }

    /// The application of `from` writes a message to its stream to `to`.
    pub(crate) fn write(&mut self, from: NodeId, to: NodeId, message: M, bytes: usize) {
        let number = self.stream_between(from, to);
        let stream = &mut self.streams[number as usize];
        // A message without bytes would end where the one before it does.
        let end = stream.sender.write(bytes.max(1) as u64);
        stream.messages.push_back((end, bytes, message));
        self.line_up(number);
    }

    /// A datagram waits for the port of a node.
    pub(crate) fn wait(&mut self, from: NodeId, message: Q) {
        self.lines[from.index()].waiting.push_back(Waiting::Message(message));
        self.await_port(from);
    }

    fn stream_between(&mut self, from: NodeId, to: NodeId) -> u32 {
        let (streams, congestion) = (&mut self.streams, self.config.congestion);
        *self.by_ends.entry((from, to)).or_insert_with(|| {
            streams.push(Stream {
                from,
                to,
                epoch: 0,
                sender: Sender::new(congestion),
                receiver: Receiver::default(),
                messages: VecDeque::new(),
                is_in_line: false,
                resend_event: None,
                ack_event: None,
            });
            streams.len() as u32 - 1
        })
    }

    fn line_up(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        let node = stream.from;
        if !stream.is_in_line {
            stream.is_in_line = true;
            self.lines[node.index()].streams.push_back(number);
        }
        self.await_port(node);
    }

    fn await_port(&mut self, node: NodeId) {
        let line = &mut self.lines[node.index()];
        if !line.is_awaited {
            line.is_awaited = true;
            self.starts.push(node);
        }
    }

    /// What leaves next by the free port of a node: of each stream in turn what its windows allow,
    /// up to [`BURST_BYTES`], and between two bursts all that waits besides. None if nothing waits;
    /// then nothing is awaited.
    pub(crate) fn next_turn(&mut self, now: Instant, node: NodeId) -> Option<Turn<Q>> {
        loop {
            let line = &mut self.lines[node.index()];
            if line.burst_left == 0
                && let Some(waiting) = line.waiting.pop_front()
            {
                match waiting {
                    Waiting::Message(message) => return Some(Turn::Message(message)),
                    Waiting::Ack(ack) if self.is_current(&ack.packet) => {
                        return Some(Turn::Packet(ack));
                    }
                    Waiting::Ack(_) => continue,
                }
            }
            let Some(&number) = line.streams.front() else {
                line.burst_left = 0;
                if !line.waiting.is_empty() {
                    continue;
                }
                line.is_awaited = false;
                return None;
            };
            let stream = &mut self.streams[number as usize];
            let Some((start, end)) = stream.sender.next_segment(now) else {
                stream.is_in_line = false;
                line.streams.pop_front();
                line.burst_left = 0;
                continue;
            };
            if line.burst_left == 0 {
                line.burst_left = BURST_BYTES;
            }
            line.burst_left = line.burst_left.saturating_sub(end - start);
            if line.burst_left == 0 {
                line.streams.rotate_left(1);
            }
            let (to, epoch) = (stream.to, stream.epoch);
            let counted = stream.sender.take_recoveries();
            if counted.resent > 0 {
                self.counted.push((counters::TCP_RESENT, counted.resent));
            }
            self.arm_resend(number);
            let packet = Packet::Segment { stream: number, epoch, start, end };
            return Some(Turn::Packet(Outgoing { to, payload_bytes: end - start, packet }));
        }
    }

    /// A packet will be where it goes at this time.
    pub(crate) fn schedule(&mut self, at: Instant, packet: Packet) {
        let slot = self.packets.insert(packet);
        self.due.push((at, slot));
    }

    /// The time of a packet or timer has come.
    pub(crate) fn handle(&mut self, now: Instant, slot: u32) {
        let packet = self.packets.take(slot);
        match packet {
            Packet::Segment { .. } | Packet::Ack { .. } if !self.is_current(&packet) => {
                self.counted.push((counters::CUT_OFF, 1));
            }
            Packet::Segment { stream, start, end, .. } => self.on_segment(now, stream, start, end),
            Packet::Ack { stream, ack, .. } => {
                let sender = &mut self.streams[stream as usize].sender;
                sender.on_ack(now, &ack);
                let counted = sender.take_recoveries();
                if counted.fast > 0 {
                    self.counted.push((counters::TCP_FAST_RETRANSMITS, counted.fast));
                }
                self.arm_resend(stream);
                self.line_up(stream);
            }
            Packet::ResendTimer { stream: number } => {
                let stream = &mut self.streams[number as usize];
                if stream.resend_event != Some(now) {
                    return;
                }
                stream.resend_event = None;
                if stream.sender.deadline().is_some_and(|deadline| deadline <= now) {
                    stream.sender.on_time_out(now);
                    let counted = stream.sender.take_recoveries();
                    self.counted.push((counters::TCP_TIME_OUTS, counted.time_outs));
                    self.line_up(number);
                }
                self.arm_resend(number);
            }
            Packet::AckTimer { stream: number } => {
                let stream = &mut self.streams[number as usize];
                if stream.ack_event != Some(now) {
                    return;
                }
                stream.ack_event = None;
                match stream.receiver.deadline() {
                    Some(deadline) if deadline <= now => self.acknowledge(number),
                    _ => self.arm_ack(number),
                }
            }
        }
    }

    fn on_segment(&mut self, now: Instant, number: u32, start: u64, end: u64) {
        let stream = &mut self.streams[number as usize];
        let is_urgent = stream.receiver.on_segment(now, start, end);
        while let Some(&(end, ..)) = stream.messages.front()
            && end <= stream.receiver.next()
        {
            let (_, bytes, message) = stream.messages.pop_front().expect("it is the front");
            let (from, to) = (stream.from, stream.to);
            self.delivered.push(Delivered { from, to, message, bytes });
        }
        if is_urgent {
            self.acknowledge(number);
        } else {
            self.arm_ack(number);
        }
    }

    fn acknowledge(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        let ack = stream.receiver.acknowledge();
        let packet = Packet::Ack { stream: number, epoch: stream.epoch, ack };
        let (node, outgoing) = (stream.to, Outgoing { to: stream.from, payload_bytes: 0, packet });
        self.lines[node.index()].waiting.push_back(Waiting::Ack(outgoing));
        self.await_port(node);
    }

    fn is_current(&self, packet: &Packet) -> bool {
        match *packet {
            Packet::Segment { stream, epoch, .. } | Packet::Ack { stream, epoch, .. } => {
                self.streams[stream as usize].epoch == epoch
            }
            Packet::ResendTimer { .. } | Packet::AckTimer { .. } => true,
        }
    }

    /// Sees to it that an event comes no later than the retransmission timer expires. At most one
    /// is awaited; the timer mostly moves on before, and then the event looks again.
    fn arm_resend(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        let Some(deadline) = stream.sender.deadline() else { return };
        if stream.resend_event.is_none_or(|event| deadline < event) {
            stream.resend_event = Some(deadline);
            self.schedule(deadline, Packet::ResendTimer { stream: number });
        }
    }

    fn arm_ack(&mut self, number: u32) {
        let stream = &mut self.streams[number as usize];
        let Some(deadline) = stream.receiver.deadline() else { return };
        if stream.ack_event.is_none_or(|event| deadline < event) {
            stream.ack_event = Some(deadline);
            self.schedule(deadline, Packet::AckTimer { stream: number });
        }
    }

    /// Bytes written to a stream and never sent.
    pub(crate) fn unsent(&self, from: NodeId, to: NodeId) -> usize {
        let number = self.by_ends.get(&(from, to));
        number.map_or(0, |&number| self.streams[number as usize].sender.unsent() as usize)
    }

    /// What waits for the port of a node besides streams and acknowledgements.
    pub(crate) fn messages(&self, node: NodeId) -> impl Iterator<Item = &Q> {
        self.lines[node.index()].waiting.iter().filter_map(|waiting| match waiting {
            Waiting::Message(message) => Some(message),
            Waiting::Ack(_) => None,
        })
    }

    /// Breaks a stream: what has not come whole is lost.
    pub(crate) fn reset(&mut self, from: NodeId, to: NodeId) {
        let Some(&number) = self.by_ends.get(&(from, to)) else { return };
        let stream = &mut self.streams[number as usize];
        stream.epoch += 1;
        stream.sender = Sender::new(self.config.congestion);
        stream.receiver = Receiver::default();
        stream.messages.clear();
    }

    /// Forgets the datagrams and acknowledgements that wait for the port of a node.
    pub(crate) fn discard(&mut self, node: NodeId) {
        self.lines[node.index()].waiting.clear();
    }

    /// Bytes held for streams and for what waits.
    pub(crate) fn memory_bytes(&self) -> usize {
        let messages: usize = self.streams.iter().map(|stream| stream.messages.capacity()).sum();
        let waiting: usize = self.lines.iter().map(|line| line.waiting.capacity()).sum();
        self.streams.capacity() * size_of::<Stream<M>>()
            + messages * size_of::<(u64, usize, M)>()
            + waiting * size_of::<Waiting<Q>>()
            + self.packets.memory_bytes()
    }
}
