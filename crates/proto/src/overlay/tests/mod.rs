//! Routers driven without messages: an action runs at once, and a node that asks a failed node
//! forgets it.

mod codec;
mod figures;
mod hostile;
mod node;
mod parts;
mod repair;
mod routes;

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::core::{NodeId, Rng, mix};

/// The same tests for each algorithm.
macro_rules! for_each_router {
    ($($test:ident),* $(,)?) => {
        for_each_router!(@ chord Chord $($test)*);
        for_each_router!(@ koorde Koorde $($test)*);
        for_each_router!(@ pastry Pastry $($test)*);
        for_each_router!(@ tapestry Tapestry $($test)*);
        for_each_router!(@ kademlia Kademlia $($test)*);
    };
    (@ $module:ident $router:ident $($test:ident)*) => {
        mod $module {
            $(#[test]
            fn $test() {
                super::$test::<$crate::overlay::$router>();
            })*
        }
    };
}
pub(crate) use for_each_router;

/// What a test knows of an algorithm beyond its routing.
pub(super) trait Checked: Router + Clone {
    const ALGORITHM: Algorithm;

    fn new(space: Space, own: NodeId, shape: Shape) -> Self;

    /// What a table must be like at any time.
    fn check_form(&self, space: Space, own: NodeId);

    /// What of a settled table is the same as of an ideal one.
    fn check_same(&self, ideal: &Self, space: Space, own: NodeId);
}

/// Nodes and their tables.
pub(super) struct Net<R: Router> {
    pub space: Space,
    pub nodes: BTreeMap<NodeId, R>,
    pub turn: u64,
    pub asks: usize,
    /// The node that the others join, should none have joined.
    founder: Option<NodeId>,
    rng: Rng,
}

/// Where a message went.
pub(super) struct Way {
    pub end: NodeId,
    pub path: Vec<NodeId>,
}

impl<R: Checked> Net<R> {
    pub fn new(seed: u64) -> Net<R> {
        let (space, rng) = (Space::new(seed), Rng::new(seed, 1));
        Net { space, nodes: BTreeMap::new(), turn: 0, asks: 0, founder: None, rng }
    }

    /// Nodes with ideal tables.
    pub fn ideal(seed: u64, count: u32) -> Net<R> {
        let mut net = Net::new(seed);
        let oracle = Oracle::new(net.space, (0..count).map(NodeId::from));
        for node in (0..count).map(NodeId::from) {
            let mut router = R::new(net.space, node, Shape::default());
            router.fill(oracle.ring());
            net.nodes.insert(node, router);
        }
        net
    }

    /// Nodes that joined one after the other, each through any earlier one, with some turns of
    /// upkeep between and after.
    pub fn joined(seed: u64, count: u32) -> Net<R> {
        let mut net = Net::new(seed);
        for node in 0..count {
            net.join(NodeId::from(node));
            net.settle(u64::from(node % 4 == 3));
        }
        net.settle(TURNS);
        net
    }

    pub fn join(&mut self, node: NodeId) {
        let mut members: Vec<NodeId> = self.nodes.keys().copied().collect();
        members.retain(|node| self.nodes[node].has_joined());
        if members.is_empty() {
            self.founder = self.nodes.keys().next().copied();
            members.extend(self.founder);
        }
        let mut router = R::new(self.space, node, Shape::default());
        let mut out = Vec::new();
        if let Some(&via) = members.get(self.rng.below(members.len() as u32) as usize) {
            let key = self.space.key(node);
            let end = self.route(via, key).end;
            router.on_found(key, end, &mut out);
        }
        self.nodes.insert(node, router);
        self.work(node, out);
    }

    // A joiner whose helpers have failed asks again.
    fn rejoin(&mut self) {
        let lost = |(&node, router): (&NodeId, &R)| (!router.has_joined()).then_some(node);
        for node in self.nodes.iter().filter_map(lost).collect::<Vec<_>>() {
            if self.nodes.len() > 1 {
                self.nodes.remove(&node);
                self.join(node);
            }
        }
    }

    /// Runs turns of upkeep at all nodes.
    pub fn settle(&mut self, turns: u64) {
        for _ in 0..turns {
            for node in self.nodes.keys().copied().collect::<Vec<_>>() {
                let mut out = Vec::new();
                let router = self.nodes.get_mut(&node).expect("a node of this test");
                router.upkeep(self.turn, &mut out);
                self.work(node, out);
            }
            self.rejoin();
            self.turn += 1;
        }
    }

    /// Crashes a third of the nodes without notice. Each table keeps them until it detects that.
    pub fn crash_a_third(&mut self) {
        let mut members: Vec<NodeId> = self.nodes.keys().copied().collect();
        for _ in 0..members.len() / 3 {
            let gone = members.swap_remove(self.rng.below(members.len() as u32) as usize);
            self.nodes.remove(&gone);
        }
    }

    pub fn oracle(&self) -> Oracle {
        Oracle::new(self.space, self.nodes.keys().copied())
    }

    pub fn key(&mut self) -> Key {
        let words = [(); 3].map(|()| mix(self.rng.next_u64()));
        Key::from(words[0]).shifted_left(96)
            + Key::from(words[1]).shifted_left(32)
            + Key::from(words[2] >> 32)
    }

    pub fn any(&mut self) -> NodeId {
        let at = self.rng.below(self.nodes.len() as u32) as usize;
        *self.nodes.keys().nth(at).expect("below their number")
    }

    /// Sends a message to a key. A node that does not take it is forgotten, and another one tried.
    pub fn route(&mut self, from: NodeId, key: Key) -> Way {
        let (mut at, mut walk) = (from, R::ALGORITHM.first_walk());
        let mut path = vec![from];
        loop {
            let router = self.nodes.get_mut(&at).expect("only live nodes are on a path");
            let mut next = walk;
            match router.next_hop(key, &mut next).hop {
                Hop::Here => return Way { end: at, path },
                Hop::Via(node) if !self.answers(node) => {
                    self.nodes.get_mut(&at).expect("a live node").forget(node);
                }
                Hop::Via(node) => {
                    let from = (self.space.key(at), walk);
                    let to = (self.space.key(node), next);
                    let is_nearer = self.nodes[&at].advances(key, from, to);
                    assert!(is_nearer, "{at:?} to {node:?} is not nearer to {key}");
                    (at, walk) = (node, next);
                    path.push(at);
                    assert!(
                        path.len() <= 161,
                        "{} goes on and on to {key}: {path:?}",
                        R::ALGORITHM
                    );
                }
            }
        }
    }

    /// All tables route as the oracle says, and are well formed.
    pub fn check(&mut self, keys: usize) {
        let oracle = self.oracle();
        for node in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.nodes[&node].check_form(self.space, node);
            for _ in 0..keys {
                let key = self.key();
                self.check_route(&oracle, node, key);
            }
        }
    }

    pub fn check_route(&mut self, oracle: &Oracle, from: NodeId, key: Key) -> usize {
        let way = self.route(from, key);
        let right = oracle.responsible(R::ALGORITHM, key);
        assert_eq!(Some(way.end), right, "{} from {from:?} to {key}: {:?}", R::ALGORITHM, way.path);
        way.path.len() - 1
    }

    fn work(&mut self, node: NodeId, actions: Vec<RouterAction>) {
        let mut queue: VecDeque<(NodeId, RouterAction)> =
            actions.into_iter().map(|action| (node, action)).collect();
        let mut done = 0;
        while let Some((node, action)) = queue.pop_front() {
            done += 1;
            assert!(done < 100_000, "{}: the actions of {node:?} have no end", R::ALGORITHM);
            let mut out = Vec::new();
            let whose = match action {
                RouterAction::Ask(whom, _) | RouterAction::Notify(whom) if whom == node => {
                    panic!("{node:?} asks itself")
                }
                RouterAction::Ask(whom, query) => {
                    self.asks += 1;
                    let mut answer = Vec::new();
                    if self.answers(whom) {
                        self.hear(whom, node);
                        self.nodes[&whom].answer_query(query, &mut answer);
                        self.hear(node, whom);
                        let router = self.nodes.get_mut(&node).expect("it asked");
                        router.on_answer(whom, query, &answer, &mut out);
                    } else {
                        self.nodes.get_mut(&node).expect("it asked").forget(whom);
                    }
                    node
                }
                RouterAction::Find(key) => {
                    let end = self.route(node, key).end;
                    self.nodes.get_mut(&node).expect("it asked").on_found(key, end, &mut out);
                    node
                }
                RouterAction::Notify(whom) => {
                    match self.nodes.get_mut(&whom) {
                        Some(router) => router.on_notify(node, &mut out),
                        None => self.nodes.get_mut(&node).expect("it tells").forget(whom),
                    }
                    whom
                }
            };
            for action in out.into_iter().map(|action| (whose, action)) {
                if !queue.contains(&action) {
                    queue.push_back(action);
                }
            }
        }
    }

    // A node that lost its place counts as failed, unless it is the first node of all.
    fn answers(&self, node: NodeId) -> bool {
        let router = self.nodes.get(&node);
        router.is_some_and(|router| router.has_joined() || self.founder == Some(node))
    }

    fn hear(&mut self, node: NodeId, from: NodeId) {
        let oldest = self.nodes.get_mut(&node).and_then(|router| router.learn(from));
        let Some(oldest) = oldest else { return };
        let is_there = self.nodes.contains_key(&oldest);
        let router = self.nodes.get_mut(&node).expect("it has a full table");
        if is_there {
            router.learn(oldest);
        } else {
            router.forget(oldest);
            router.learn(from);
        }
    }
}

/// Turns of upkeep after which tables are right.
pub(super) const TURNS: u64 = 64;
