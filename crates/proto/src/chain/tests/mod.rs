//! One member, driven by hand: what goes in, and every output read beside it.

mod codec;
mod hop;
mod member;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::core::{
    Backlog, Context, Instant, Lane, NodeId, Outbox, Payload, PeerState, Protocol, Rng, View,
    ViewId,
};

/// The incarnation of the member under test; that of rank i's frames is `100 + i`.
const INCARNATION: u64 = 7;

/// Bytes that wait for each peer, as the test says.
#[derive(Default)]
struct FakeBacklog(BTreeMap<NodeId, usize>);

impl Backlog for FakeBacklog {
    fn backlog_bytes(&self, to: NodeId) -> usize {
        self.0.get(&to).copied().unwrap_or(0)
    }
}

/// A member and what surrounds it.
struct Bench {
    node: NodeId,
    config: Config,
    chain: Chain,
    outbox: Outbox<Chain>,
    backlog: FakeBacklog,
    rng: Rng,
    now: Instant,
}

/// Blocks of ten bytes, a window of four.
fn config(members: u32) -> Config {
    Config::new(View::roster((0..members).map(NodeId::from)))
        .with_block_bytes_max(10)
        .with_message_bytes_max(50)
        .with_window_blocks(4)
        .with_window_bytes(40)
        .with_hop_bytes(1000)
        .with_queue_bytes(30)
        .with_ack_blocks(2)
        .with_ack_after(ACK_AFTER)
}

impl Bench {
    /// Member `node` of a ring of `members`, in view 0.
    fn new(members: u32, node: u32) -> Bench {
        Bench::with(config(members), node)
    }

    fn with(config: Config, node: u32) -> Bench {
        let config = config.build().expect("within the ranges");
        let mut bench = Bench {
            node: NodeId::from(node),
            chain: Chain::new(&config),
            config,
            outbox: Outbox::default(),
            backlog: FakeBacklog::default(),
            rng: Rng::new(1, 1),
            now: Instant::ZERO,
        };
        let view: Arc<View> = bench.config.roster().clone();
        bench.call(|chain, cx| chain.handle_start(cx));
        bench.call(|chain, cx| chain.handle_view(cx, &view));
        bench
    }

    fn call(&mut self, handler: impl FnOnce(&mut Chain, &mut Context<'_, Chain>)) {
        let mut cx = Context {
            now: self.now,
            node: self.node,
            incarnation: INCARNATION,
            host: None,
            shared: &self.config,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &self.backlog,
            datagram_bytes_max: 1200,
        };
        handler(&mut self.chain, &mut cx);
    }

    fn message(&mut self, from: u32, message: Message) {
        self.call(|chain, cx| chain.handle_message(cx, NodeId::from(from), message));
    }

    fn broadcast(&mut self, bytes: u32) {
        let command = Command::broadcast(Payload::Zeros(bytes));
        self.call(|chain, cx| chain.handle_command(cx, command));
    }

    fn consume(&mut self, origin: u32, end: u64) {
        let command = Command::Consumed { origin: NodeId::from(origin), end };
        self.call(|chain, cx| chain.handle_command(cx, command));
    }

    fn peer(&mut self, peer: u32, state: PeerState) {
        self.call(|chain, cx| chain.handle_peer(cx, NodeId::from(peer), state));
    }

    /// The acknowledgement of a member for this member's blocks.
    fn ack(&mut self, from: u32, received: u64, consumed: u64) {
        let message =
            Message::Ack { view: ViewId(0), incarnation: INCARNATION, received, consumed };
        self.message(from, message);
    }

    /// Moves on to the earliest timer and fires it. Panics if none is armed.
    fn fire(&mut self) -> Timer {
        let place = (0..self.outbox.timers.len()).min_by_key(|&i| self.outbox.timers[i].0);
        let (at, timer) = self.outbox.timers.remove(place.expect("a timer is armed"));
        self.now = self.now.max(at);
        self.call(|chain, cx| chain.handle_timer(cx, timer));
        timer
    }

    /// Messages sent since the last call, one line each.
    fn sent(&mut self) -> Vec<String> {
        let line = |send: crate::core::Outgoing<Message>| {
            let is_stream = matches!(
                send.message,
                Message::Data(_) | Message::Skip { .. } | Message::Resync { .. }
            );
            assert_eq!(send.lane == Lane::Stream, is_stream, "{:?}", send.message);
            let what = match send.message {
                Message::Data(frame) => {
                    assert_eq!(frame.checksum, frame.computed_checksum());
                    let Frame { origin, seq, link, hops_left, .. } = frame;
                    format!("block {origin}.{seq} link {link} hops {hops_left}")
                }
                Message::Ack { received, consumed, .. } => format!("ack {received} {consumed}"),
                Message::Stable { stable, .. } => format!("stable {stable}"),
                Message::LinkAck { next, .. } => format!("link-ack {next}"),
                Message::Resync { next, .. } => format!("resync {next}"),
                Message::Resume { next, .. } => format!("resume {next}"),
                Message::Probe { .. } => "probe".to_string(),
                Message::Skip { link, .. } => format!("skip {link}"),
                Message::Unconsumed { blocks, bytes, .. } => format!("unconsumed {blocks} {bytes}"),
            };
            format!("{}: {what}", send.to)
        };
        self.outbox.sends.drain(..).map(line).collect()
    }

    /// Messages delivered since the last call: origin, number, bytes.
    fn delivered(&mut self) -> Vec<(u64, u64, usize)> {
        let delivered = self.outbox.events.drain(..).map(|event| match event {
            Event::Delivered { origin, seq, payload, .. } => (origin.0, seq, payload.len()),
            Event::Rejected { reason } => panic!("{reason}"),
        });
        delivered.collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.outbox.counters.count(name)
    }
}

/// A one-block message of ten bytes of this origin, as its predecessor in a ring of four sends it.
fn frame(origin: u32, seq: u64, link: u64) -> Frame {
    let frame = Frame {
        view: ViewId(0),
        origin,
        incarnation: 100 + u64::from(origin),
        seq,
        index: 0,
        count: 1,
        topology: Topology::Chain,
        checksum: 0,
        stable_lag: 0,
        link,
        hops_left: 2,
        lengths: Lengths::default(),
        payload: Payload::Zeros(10),
    };
    signed(frame)
}

/// The frame with the checksum that it should have.
fn signed(frame: Frame) -> Frame {
    Frame { checksum: frame.computed_checksum(), ..frame }
}

const UP: PeerState = PeerState::Up { incarnation: 1 };
const ACK_AFTER: Duration = Duration::from_millis(5);
