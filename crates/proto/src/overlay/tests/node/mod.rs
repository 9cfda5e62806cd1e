//! Nodes without a network: transcripts of the messages that they send.

mod addresses;
mod bounds;
mod bundles;
mod codec;
mod conditional;
mod patience;
mod scan;
mod storage;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::*;
use crate::core::{Backlog, Context, Instant, NodeId, Outbox, Payload, Protocol, Rng};

/// A table that a test writes: for each of the first bytes of keys, where it goes.
#[derive(Clone, Debug)]
pub(super) struct Scripted {
    /// The first byte of a key, and the nodes to which it may go, the best first. Any other key
    /// belongs to this node.
    pub ways: BTreeMap<u8, Vec<NodeId>>,
    pub replicas: Vec<NodeId>,
    pub full: Option<NodeId>,
    /// Nodes whose notices were accepted.
    pub notices: Vec<NodeId>,
}

impl Scripted {
    fn new(own: NodeId) -> Scripted {
        Scripted { ways: BTreeMap::new(), replicas: vec![own], full: None, notices: vec![] }
    }
}

impl Router for Scripted {
    // Whose distances it has, and whose walks.
    fn algorithm(&self) -> Algorithm {
        Algorithm::Kademlia
    }

    // Nodes whose keys begin with eight ones are near to nothing.
    fn advances(&self, _: Key, _: (Key, Walk), to: (Key, Walk)) -> bool {
        to.0.to_bytes()[0] != 0xff
    }

    fn next_hop(&self, key: Key, _: &mut Walk) -> Step {
        let byte = key.to_bytes()[0];
        let hop = self.ways.get(&byte).and_then(|nodes| nodes.first());
        let until = key.last_of_prefix(8);
        Step { hop: hop.map_or(Hop::Here, |&node| Hop::Via(node)), until }
    }

    fn candidates(&self, key: Key, _: &mut Walk, count: usize, out: &mut Vec<NodeId>) {
        let ways = self.ways.get(&key.to_bytes()[0]);
        out.extend(ways.into_iter().flatten().take(count));
    }

    fn replicas(&self, _: Key, count: usize, out: &mut Vec<NodeId>) {
        out.extend(self.replicas.iter().take(count));
    }

    fn learn(&mut self, _: NodeId) -> Option<NodeId> {
        self.full
    }

    fn forget(&mut self, node: NodeId) {
        self.ways.values_mut().for_each(|nodes| nodes.retain(|&it| it != node));
        self.replicas.retain(|&it| it != node);
    }

    fn upkeep(&mut self, _: u64, _: &mut Vec<RouterAction>) {}

    fn answer_query(&self, _: TableQuery, out: &mut Vec<NodeId>) {
        out.extend(&self.replicas);
    }

    fn on_answer(&mut self, _: NodeId, _: TableQuery, _: &[NodeId], _: &mut Vec<RouterAction>) {}

    fn on_found(&mut self, _: Key, _: NodeId, _: &mut Vec<RouterAction>) {}

    fn on_notify(&mut self, by: NodeId, _: &mut Vec<RouterAction>) {
        self.notices.push(by);
    }

    fn has_joined(&self) -> bool {
        true
    }

    fn contacts(&self, out: &mut Vec<NodeId>) {
        out.extend(self.ways.values().flatten());
    }

    fn fill(&mut self, _: &[(Key, NodeId)]) {}

    fn heap_bytes(&self) -> usize {
        0
    }
}

/// A key with this first byte.
pub(super) fn key(byte: u8) -> Key {
    let mut bytes = [0; Key::BYTES];
    (bytes[0], bytes[Key::BYTES - 1]) = (byte, byte);
    Key::from_bytes(bytes)
}

pub(super) fn n(node: u32) -> NodeId {
    NodeId::from(node)
}

struct NoBacklog;

impl Backlog for NoBacklog {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

/// Nodes, and messages between them that arrive at once.
pub(super) struct Net {
    pub config: Config,
    pub nodes: BTreeMap<NodeId, Overlay>,
    /// Nodes that do not answer.
    pub silent: Vec<NodeId>,
    pub now: Instant,
    pub events: Vec<(NodeId, Event)>,
    /// One line a message.
    pub sent: Vec<String>,
    pub counters: crate::core::Counters,
    timers: Vec<(Instant, NodeId, Timer)>,
    queue: VecDeque<(NodeId, NodeId, Message)>,
    rng: Rng,
}

pub(super) fn config() -> Config {
    let config = Config::new(Space::new(1)).with_algorithm(Algorithm::Kademlia);
    config.with_upkeep_every(None).with_ping(PingPolicy::Off)
}

impl Net {
    /// Nodes with these ways: node, first bytes of keys, where these go.
    pub fn new(config: Config, ways: &[(u32, &[u8], &[u32])]) -> Net {
        let config = config.build().expect("within the ranges");
        let mut tables: BTreeMap<NodeId, Scripted> = BTreeMap::new();
        for &(node, bytes, to) in ways {
            for node in to.iter().copied().chain([node]).map(NodeId::from) {
                let empty = Scripted::new(node);
                tables.entry(node).or_insert(empty);
            }
            let table = tables.get_mut(&n(node)).expect("just put in");
            let to: Vec<NodeId> = to.iter().copied().map(NodeId::from).collect();
            table.ways.extend(bytes.iter().map(|&byte| (byte, to.clone())));
        }
        let node = |(node, table)| (node, Overlay::with_router(&config, node, Box::new(table)));
        Net {
            nodes: tables.into_iter().map(node).collect(),
            config,
            silent: Vec::new(),
            now: Instant::ZERO + Duration::from_secs(1),
            events: Vec::new(),
            sent: Vec::new(),
            counters: Default::default(),
            timers: Vec::new(),
            queue: VecDeque::new(),
            rng: Rng::new(1, 1),
        }
    }

    /// The table of a node.
    pub fn table(&mut self, node: u32) -> &mut Scripted {
        let node = self.nodes.get_mut(&n(node)).expect("a node of this test");
        let router: &mut dyn Any = &mut *node.router;
        router.downcast_mut().expect("nodes of this test have such tables")
    }

    pub fn call(
        &mut self,
        node: NodeId,
        handler: impl FnOnce(&mut Overlay, &mut Context<'_, Overlay>),
    ) {
        let mut outbox = Outbox::default();
        let mut cx = Context {
            now: self.now,
            node,
            incarnation: 77,
            host: None,
            shared: &self.config,
            rng: &mut self.rng,
            outbox: &mut outbox,
            backlog: &NoBacklog,
            datagram_bytes_max: 1200,
        };
        handler(self.nodes.get_mut(&node).expect("a node of this test"), &mut cx);
        for send in outbox.sends {
            self.sent.push(format!("{node} -> {}: {}", send.to, send.message));
            self.queue.push_back((node, send.to, send.message));
        }
        self.events.extend(outbox.events.into_iter().map(|event| (node, event)));
        self.timers.extend(outbox.timers.into_iter().map(|(at, timer)| (at, node, timer)));
        outbox.counters.drain_into(&mut self.counters);
    }

    /// Delivers messages until none is in flight.
    pub fn deliver(&mut self) {
        while let Some((from, to, message)) = self.queue.pop_front() {
            if self.nodes.contains_key(&to) && !self.silent.contains(&to) {
                self.call(to, |node, cx| node.handle_message(cx, from, message));
            }
        }
    }

    /// Messages that are on their way and are taken out of it.
    pub fn intercept(&mut self) -> Vec<(NodeId, NodeId, Message)> {
        self.queue.drain(..).collect()
    }

    /// A message that is not sent by a node of the test.
    pub fn forge(&mut self, from: u32, to: u32, body: Body) {
        self.call(n(to), |node, cx| node.handle_message(cx, n(from), body.into()));
        self.deliver();
    }

    /// Lets time pass, timer by timer.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.timers.sort_by_key(|&(at, node, _)| (at, node));
            match self.timers.first().copied().filter(|&(at, ..)| at <= end) {
                None => break,
                Some((at, node, timer)) => {
                    self.timers.remove(0);
                    self.now = at.max(self.now);
                    self.call(node, |node, cx| node.handle_timer(cx, timer));
                    self.deliver();
                }
            }
        }
        self.now = end;
    }

    pub fn request(&mut self, node: u32, id: u64, operation: Operation, style: Style) {
        let command = Command::Request { id, operation, style };
        self.call(n(node), |node, cx| node.handle_command(cx, command));
        self.deliver();
    }

    pub fn outcomes(&mut self) -> BTreeMap<Key, Outcome> {
        let mut outcomes = BTreeMap::new();
        for (_, event) in std::mem::take(&mut self.events) {
            if let Event::Outcome { outcomes: reported, .. } = event {
                for (key, outcome) in reported {
                    assert_eq!(outcomes.insert(key, outcome), None, "{key} has two outcomes");
                }
            }
        }
        outcomes
    }

    /// Messages sent whose line has this in it.
    pub fn count(&self, text: &str) -> usize {
        self.sent.iter().filter(|line| line.contains(text)).count()
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.counters.count(&format!("overlay_{name}"))
    }
}

pub(super) fn put(byte: u8, value: &'static str) -> Item {
    Item { key: key(byte), value: Payload::from(value), lifetime: Duration::from_secs(60) }
}
