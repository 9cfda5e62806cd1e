//! A protocol of questions and answers on raw datagrams, and nodes that run it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use paceline_net::{BoundFaces, Events, FaceNode, FacesConfig};
use paceline_proto::core::{
    Context, DecodeError, Instant, Lane, NodeId, Payload, PeerState, Protocol, Wire, take_u8,
    take_u32,
};

/// Longer than anything here takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(10);
pub const QUESTION: u8 = 1;
pub const ANSWER: u8 = 2;

#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub tag: u8,
    pub number: u32,
    pub filler: Payload,
}

pub fn note(tag: u8, number: u32) -> Note {
    Note { tag, number, filler: Payload::Zeros(0) }
}

impl Wire for Note {
    fn wire_len(&self) -> usize {
        5 + self.filler.len()
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.put_u8(self.tag);
        head.put_u32(self.number);
        Some(&self.filler)
    }

    fn decode(bytes: &mut Bytes) -> Result<Note, DecodeError> {
        match take_u8(bytes)? {
            tag @ (QUESTION | ANSWER) => {
                let number = take_u32(bytes)?;
                Ok(Note { tag, number, filler: Payload::Bytes(std::mem::take(bytes)) })
            }
            tag => Err(DecodeError::UnknownTag(tag)),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Order {
    Ask(NodeId, u32),
    /// Sends this many questions at once, each of this length.
    AskMany(NodeId, u32, usize),
    #[cfg_attr(debug_assertions, expect(dead_code, reason = "its test is of release builds"))]
    Send(NodeId, Lane, Note),
    SetTimers(Vec<(Duration, u32)>),
    Disconnect(NodeId),
    Admit(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    Asked(NodeId, u32),
    Answered(NodeId, u32, usize),
    Peer(NodeId, PeerState),
    Rang { timer: u32, due: Instant, at: Instant },
    Started(NodeId),
}

/// Answers each question with its number and filler.
#[derive(Default)]
pub struct Oracle {
    pub admitted_bytes: usize,
}

impl Protocol for Oracle {
    type Message = Note;
    type Timer = (u32, Instant);
    type Command = Order;
    type Event = Report;
    type Shared = ();

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        cx.deliver(Report::Started(cx.node));
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        cx.deliver(Report::Peer(peer, state));
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, note: Note) {
        if note.tag == QUESTION {
            cx.deliver(Report::Asked(from, note.number));
            cx.send(from, Lane::Datagram, Note { tag: ANSWER, ..note });
        } else {
            cx.deliver(Report::Answered(from, note.number, note.filler.len()));
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, (timer, due): (u32, Instant)) {
        cx.deliver(Report::Rang { timer, due, at: cx.now });
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, order: Order) {
        match order {
            Order::Ask(to, number) => cx.send(to, Lane::Datagram, note(QUESTION, number)),
            Order::AskMany(to, count, bytes) => {
                for number in 0..count {
                    let filler = Payload::Zeros(bytes as u32);
                    cx.send(to, Lane::Datagram, Note { tag: QUESTION, number, filler });
                }
            }
            Order::Send(to, lane, note) => cx.send(to, lane, note),
            Order::SetTimers(timers) => {
                for (after, timer) in timers {
                    cx.set_timer(after, (timer, cx.now + after));
                }
            }
            Order::Disconnect(peer) => cx.disconnect(peer),
            Order::Admit(bytes) => self.admitted_bytes = bytes,
        }
    }

    fn admission(&self) -> usize {
        self.admitted_bytes
    }
}

pub struct Running {
    pub node: FaceNode<Oracle>,
    pub events: Events<Oracle>,
}

impl Running {
    pub fn order(&self, order: Order) {
        self.node.command(order).expect("the node runs");
    }

    pub async fn next(&mut self) -> Report {
        let next = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        next.expect("an event in time").expect("the node runs")
    }

    /// The next report that `pick` takes; others are skipped.
    pub async fn find<T>(&mut self, pick: impl Fn(&Report) -> Option<T>) -> T {
        loop {
            if let Some(found) = pick(&self.next().await) {
                return found;
            }
        }
    }

    pub async fn answer(&mut self) -> (NodeId, u32, usize) {
        self.find(|report| match *report {
            Report::Answered(from, number, bytes) => Some((from, number, bytes)),
            _ => None,
        })
        .await
    }

    /// Asks, and says who answered what.
    pub async fn ask(&mut self, to: u32, number: u32) -> (NodeId, u32) {
        self.order(Order::Ask(NodeId::from(to), number));
        let (from, number, _) = self.answer().await;
        (from, number)
    }

    pub async fn peer(&mut self) -> (NodeId, PeerState) {
        self.find(|report| match *report {
            Report::Peer(peer, state) => Some((peer, state)),
            _ => None,
        })
        .await
    }

    pub fn count(&self, counter: &str) -> u64 {
        self.node.stats().counters.count(counter)
    }

    /// Waits until a counter is at least this.
    pub async fn counted(&self, counter: &str, at_least: u64) {
        let wait = async {
            while self.count(counter) < at_least {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        let counted = self.node.stats().counters.sorted();
        assert!(waited.is_ok(), "{counter} stays below {at_least}: {counted:?}");
    }
}

pub const UP: PeerState = PeerState::Up { incarnation: 0 };

pub fn loopback() -> FacesConfig {
    FacesConfig::new("127.0.0.1:0".parse().unwrap()).with_seed(7)
}

pub fn bind(config: FacesConfig) -> BoundFaces {
    BoundFaces::bind(config).expect("a free port")
}

pub fn start(bound: BoundFaces, faces: &[SocketAddr]) -> Running {
    let (node, events) = bound.start(faces, Oracle::default(), Arc::new(())).expect("started");
    Running { node, events }
}

/// A node that lets strangers in, and where it is.
pub fn open_node(adjust: impl Fn(FacesConfig) -> FacesConfig) -> (Running, SocketAddr) {
    let node = start(bind(adjust(loopback().with_accepts_unknown(true))), &[]);
    let addr = node.node.local_addr();
    (node, addr)
}
