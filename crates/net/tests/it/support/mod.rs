//! A protocol that does what the test says and reports what it sees, and clusters of it.

pub mod oracle;
pub mod relay;
pub mod stranger;

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use paceline_net::{Bound, Events, Node, NodeConfig, Roster};
use paceline_proto::core::{
    Context, DecodeError, GroupId, Instant, Lane, Membership, NodeId, Payload, PeerState, Protocol,
    Wire, take_u8, take_u64,
};

paceline_proto::counters! {
    /// What the protocol of these tests counts.
    COUNTERS = "post" {
        /// Arrived.
        RECEIVED = "post_received", [messages];
    }
}

/// Longer than anything here takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq)]
pub struct TestMessage {
    pub lane: Lane,
    pub number: u64,
    pub payload: Payload,
}

impl Wire for TestMessage {
    fn wire_len(&self) -> usize {
        9 + self.payload.len()
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.put_u8(match self.lane {
            Lane::Datagram => 0,
            Lane::Stream => 1,
        });
        head.put_u64(self.number);
        Some(&self.payload)
    }

    fn decode(bytes: &mut Bytes) -> Result<TestMessage, DecodeError> {
        let lane = match take_u8(bytes)? {
            0 => Lane::Datagram,
            1 => Lane::Stream,
            tag => return Err(DecodeError::UnknownTag(tag)),
        };
        let number = take_u64(bytes)?;
        let payload = Payload::Bytes(std::mem::take(bytes));
        Ok(TestMessage { lane, number, payload })
    }
}

#[derive(Clone, Debug)]
pub enum Order {
    Send(NodeId, TestMessage),
    SendGroup(GroupId, TestMessage),
    Set(GroupId, Membership),
    AwaitDrain(NodeId, usize),
    AskBacklog(NodeId),
    SetTimer(Duration, u32),
    Disconnect(NodeId),
    /// A hint of where this node is.
    Learn(NodeId, String),
    /// Takes up room that `Admit` gives back.
    Fill(usize),
    Admit(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    TestMessage(NodeId, TestMessage),
    Peer(NodeId, PeerState),
    Drained(NodeId, usize),
    Backlog(usize),
    Timer(u32, Instant, Instant),
    View(usize),
    Filled,
    /// A group was joined or left.
    Set,
}

#[derive(Default)]
pub struct Post {
    pub admitted_bytes: Option<usize>,
    pub due: Instant,
}

impl Protocol for Post {
    type Message = TestMessage;
    type Timer = u32;
    type Command = Order;
    type Event = Report;
    type Shared = ();

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        cx.deliver(Report::Peer(peer, state));
    }

    fn handle_view(&mut self, cx: &mut Context<'_, Self>, view: &Arc<paceline_proto::core::View>) {
        cx.deliver(Report::View(view.len()));
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: TestMessage) {
        cx.count(RECEIVED, 1);
        cx.deliver(Report::TestMessage(from, message));
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: u32) {
        cx.deliver(Report::Timer(timer, self.due, cx.now));
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, order: Order) {
        match order {
            Order::Send(to, message) => cx.send(to, message.lane, message),
            Order::SendGroup(group, message) => cx.send_group(group, message),
            Order::Set(group, Membership::Joined) => {
                cx.join_group(group);
                cx.deliver(Report::Set);
            }
            Order::Set(group, Membership::Left) => {
                cx.leave_group(group);
                cx.deliver(Report::Set);
            }
            Order::AwaitDrain(to, below_bytes) => cx.notify_drained(to, below_bytes),
            Order::AskBacklog(to) => {
                let backlog_bytes = cx.backlog_bytes(to);
                cx.deliver(Report::Backlog(backlog_bytes));
            }
            Order::SetTimer(after, timer) => {
                self.due = cx.now + after;
                cx.set_timer(after, timer);
            }
            Order::Disconnect(peer) => cx.disconnect(peer),
            Order::Learn(node, address) => cx.outbox.links.contacts.push((node, address.into())),
            Order::Fill(bytes) => {
                let admitted = self.admitted_bytes.as_mut().expect("a bounded post");
                *admitted = admitted.saturating_sub(bytes);
                cx.deliver(Report::Filled);
            }
            Order::Admit(bytes) => *self.admitted_bytes.as_mut().expect("a bounded post") += bytes,
        }
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        let backlog_bytes = cx.backlog_bytes(to);
        cx.deliver(Report::Drained(to, backlog_bytes));
    }

    fn admission(&self) -> usize {
        self.admitted_bytes.unwrap_or(usize::MAX)
    }

    fn event_bytes(event: &Report) -> usize {
        let more = match event {
            Report::TestMessage(_, message) => message.payload.len(),
            _ => 0,
        };
        size_of::<Report>() + more
    }
}

pub struct Running {
    pub node: Node<Post>,
    pub events: Events<Post>,
}

impl Running {
    pub fn order(&self, order: Order) {
        self.node.command(order).expect("the node runs");
    }

    pub fn send(&self, to: u32, lane: Lane, number: u64, payload: impl Into<Payload>) {
        let payload = payload.into();
        let message = TestMessage { lane, number, payload };
        self.order(Order::Send(NodeId::from(to), message));
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

    pub async fn message(&mut self) -> TestMessage {
        self.find(|report| match report {
            Report::TestMessage(_, message) => Some(message.clone()),
            _ => None,
        })
        .await
    }

    pub async fn numbers(&mut self, count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        for _ in 0..count {
            numbers.push(self.message().await.number);
        }
        numbers
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

pub fn config(node: u32) -> NodeConfig {
    NodeConfig::new("test", NodeId::from(node)).with_seed(7)
}

pub fn bind(config: NodeConfig) -> Bound {
    Bound::bind("127.0.0.1:0".parse().unwrap(), config).expect("a free port")
}

pub fn start(bound: Bound, roster: &Roster) -> Running {
    start_with(bound, roster, Post::default())
}

pub fn start_with(bound: Bound, roster: &Roster, post: Post) -> Running {
    let (node, events) = bound.start(roster.clone(), post, Arc::new(())).expect("started");
    Running { node, events }
}

/// As many bound nodes, and the roster of all.
pub fn bind_all(count: u32, adjust: impl Fn(NodeConfig) -> NodeConfig) -> (Vec<Bound>, Roster) {
    let bound: Vec<Bound> = (0..count).map(|node| bind(adjust(config(node)))).collect();
    let addrs = (0..).map(NodeId).zip(bound.iter().map(Bound::local_addr));
    let roster = Roster::new(addrs).expect("distinct members");
    (bound, roster)
}

/// As many running nodes.
pub fn cluster(count: u32) -> Vec<Running> {
    let (bound, roster) = bind_all(count, |config| config);
    bound.into_iter().map(|bound| start(bound, &roster)).collect()
}

/// Two running nodes.
pub fn pair() -> (Running, Running) {
    let mut nodes = cluster(2);
    let second = nodes.pop().expect("two nodes");
    (nodes.pop().expect("two nodes"), second)
}
