use std::ops::Range;

use super::cells::Cells;
use super::shape::BUCKET_MAX;
use super::{
    Algorithm, Hop, Key, Router, RouterAction, Shape, Space, Step, TableQuery, Walk, keep_nearest,
};
use crate::core::{NodeId, mix};

/// Nodes named by another node that are tried at a time for one bucket.
const TRIED_A_TIME: usize = 3;
/// Buckets refreshed per turn.
const BUCKETS_A_TURN: u64 = 2;

/// Kademlia: a key belongs to the node nearest to it by exclusive or.
///
/// Bucket i holds up to k nodes ([`Shape::bucket`]) that share the first i bits with this one and
/// not the next, the one heard from longest ago first. A full bucket takes no new node while its
/// first node answers. Source: Maymounkov and Mazières, *Kademlia: A Peer-to-peer Information
/// System Based on the XOR Metric*, IPTPS 2002.
///
/// A message goes to the known node nearest to its key. Where bucket i is empty there is no such
/// node: a joiner makes itself known to the k nodes nearest to it, for whom its own bucket may
/// have been empty.
#[derive(Clone, Debug)]
pub struct Kademlia {
    space: Space,
    own: NodeId,
    // Nodes of a bucket: k.
    k: u8,
    /// By bits shared, then by when they were last heard from.
    buckets: Cells,
}

impl Kademlia {
    /// The table of a node that knows no other yet.
    pub fn new(space: Space, own: NodeId, shape: Shape) -> Kademlia {
        Kademlia { space, own, k: shape.bucket, buckets: Cells::default() }
    }

    /// The buckets' nodes, the farthest bucket first.
    pub fn entries(&self) -> &[NodeId] {
        self.buckets.all()
    }

    fn key(&self) -> Key {
        self.space.key(self.own)
    }

    fn k(&self) -> usize {
        self.k.into()
    }

    fn bucket_of(&self) -> impl Fn(NodeId) -> u16 + use<> {
        let (space, own) = (self.space, self.key());
        move |node| (own ^ space.key(node)).leading_zeros() as u16
    }

    fn bucket(&self, bucket: u16) -> Range<usize> {
        self.buckets.range(bucket..bucket + 1, self.bucket_of())
    }

    // The number of buckets, up to the deepest one that is not empty.
    fn buckets(&self) -> u16 {
        let bucket_of = self.bucket_of();
        self.buckets.all().last().map_or(0, |&node| bucket_of(node) + 1)
    }

    // The first bucket, from this one on, whose nodes are nearer to the key than this node.
    fn nearer(&self, key: Key, mut bucket: u16) -> Option<(u16, &[NodeId])> {
        let apart = self.key() ^ key;
        let bucket_of = self.bucket_of();
        loop {
            // Those that differ from this node in a bit in which the key differs too.
            bucket += apart.shifted_left(bucket.into()).leading_zeros() as u16;
            let (at, _) = self.buckets.first_from(bucket, &bucket_of)?;
            if at == bucket {
                return Some((at, self.buckets.cell(at, &bucket_of)));
            }
            bucket = at;
        }
    }

    // The known nodes nearest to the key, this one not among them.
    fn nearest(&self, key: Key, count: usize, out: &mut Vec<NodeId>) {
        let start = out.len();
        let middle = ((self.key() ^ key).leading_zeros() as u16).min(self.buckets());
        let Range { start: from, end } = self.bucket(middle);
        let all = self.buckets.all();
        // The bucket in which the key is; those beyond; those before, ever farther from the key.
        out.extend(&all[from..end]);
        if out.len() - start < count {
            out.extend(&all[end..]);
        }
        for bucket in (0..middle).rev() {
            if out.len() - start >= count {
                break;
            }
            out.extend(&all[self.bucket(bucket)]);
        }
        keep_nearest(Algorithm::Kademlia, &self.space, key, count, start, out);
    }

    // A key in the range of a bucket, another one each turn.
    fn sample(&self, bucket: u16, turn: u64) -> Key {
        let own = self.key();
        let low = mix(turn ^ own.prefix(64).rotate_left(u32::from(bucket)));
        let noise = Key::from(low).shifted_left(96) + Key::from(mix(low));
        own ^ Key::power_of_two(Key::BITS - 1 - u32::from(bucket))
            ^ noise.shifted_right(u32::from(bucket) + 1)
    }
}

impl Router for Kademlia {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Kademlia
    }

    fn next_hop(&self, key: Key, _walk: &mut Walk) -> Step {
        let Some((bucket, nodes)) = self.nearer(key, 0) else {
            // Every key that has the same bits where there are buckets.
            return Step { hop: Hop::Here, until: key.last_of_prefix(self.buckets().into()) };
        };
        let mut keys = [Key::ZERO; BUCKET_MAX];
        let keys = &mut keys[..nodes.len()];
        keys.iter_mut().zip(nodes).for_each(|(key, &node)| *key = self.space.key(node));
        let nearest = (0..keys.len()).min_by_key(|&place| key ^ keys[place]);
        let place = nearest.expect("a bucket that was found has a node");
        let (node, at) = (nodes[place], keys[place]);
        // The same node is nearest for keys that agree with it wherever it parts from another.
        let others = keys.iter().filter(|&&other| other != at);
        let parts = others.map(|&other| (at ^ other).leading_zeros() + 1).max();
        let fixed = parts.unwrap_or(0).max(u32::from(bucket) + 1);
        Step { hop: Hop::Via(node), until: key.last_of_prefix(fixed) }
    }

    fn candidates(&self, key: Key, _walk: &mut Walk, count: usize, out: &mut Vec<NodeId>) {
        let start = out.len();
        let mut bucket = 0;
        while let Some((at, nodes)) = self.nearer(key, bucket) {
            out.extend(nodes);
            if out.len() - start >= count {
                break;
            }
            bucket = at + 1;
        }
        keep_nearest(Algorithm::Kademlia, &self.space, key, count, start, out);
    }

    fn replicas(&self, key: Key, count: usize, out: &mut Vec<NodeId>) {
        let start = out.len();
        self.nearest(key, count, out);
        out.push(self.own);
        keep_nearest(Algorithm::Kademlia, &self.space, key, count, start, out);
    }

    fn learn(&mut self, node: NodeId) -> Option<NodeId> {
        if node == self.own {
            return None;
        }
        let bucket = self.bucket_of()(node);
        let range = self.bucket(bucket);
        let nodes = &self.buckets.all()[range.clone()];
        if let Some(at) = nodes.iter().position(|&entry| entry == node) {
            self.buckets.rotate(range.start + at..range.end);
        } else if nodes.len() < self.k() {
            self.buckets.insert(range.end, node);
        } else {
            return nodes.first().copied();
        }
        None
    }

    fn forget(&mut self, node: NodeId) {
        if let Some(at) = self.buckets.all().iter().position(|&entry| entry == node) {
            self.buckets.remove(at..at + 1);
        }
    }

    fn upkeep(&mut self, turn: u64, out: &mut Vec<RouterAction>) {
        let Some(deepest) = self.buckets().checked_sub(1) else { return };
        let mut ask = |node, key| out.push(RouterAction::Ask(node, TableQuery::Nearest(key)));
        // Look for new neighbours, and refresh a few buckets in turn.
        let start =
            self.bucket(deepest).start.min(self.buckets.all().len().saturating_sub(self.k()));
        let near = &self.buckets.all()[start..];
        ask(near[(turn % near.len() as u64) as usize], self.key());
        let count = u64::from(deepest) + 1;
        for number in 0..BUCKETS_A_TURN.min(count) {
            let bucket = (turn.wrapping_mul(BUCKETS_A_TURN).wrapping_add(number) % count) as u16;
            let key = self.sample(bucket, turn);
            let range = self.bucket(bucket);
            // Ask the least recently seen node of the bucket; if the bucket is empty, ask the known
            // node nearest to the key.
            match self.buckets.all().get(range.start).filter(|_| !range.is_empty()) {
                Some(&first) => ask(first, key),
                None => {
                    let mut nearest = Vec::new();
                    self.nearest(key, 1, &mut nearest);
                    nearest.into_iter().for_each(|node| ask(node, key));
                }
            }
        }
    }

    fn answer_query(&self, query: TableQuery, out: &mut Vec<NodeId>) {
        match query {
            TableQuery::Nearest(key) => self.nearest(key, self.k(), out),
            TableQuery::Neighbours => self.nearest(self.key(), self.k(), out),
            TableQuery::Row(..) => {}
        }
    }

    fn on_answer(
        &mut self,
        from: NodeId,
        query: TableQuery,
        nodes: &[NodeId],
        out: &mut Vec<RouterAction>,
    ) {
        let own = self.key();
        let bucket_of = self.bucket_of();
        // All of its neighbourhood has to know a joiner; of nodes farther away a few are enough.
        let near = self.buckets.all().len().checked_sub(self.k());
        let near = near.map_or(0, |place| bucket_of(self.buckets.all()[place]));
        let is_near = query == TableQuery::Nearest(own);
        let mut tried: Vec<(u16, NodeId)> = Vec::new();
        for &node in nodes.iter().filter(|&&node| node != self.own && node != from) {
            // Named nodes may have failed: they enter once they answer.
            let bucket = bucket_of(node);
            let known = &self.buckets.all()[self.bucket(bucket)];
            let count = tried.iter().filter(|&&(other, _)| other == bucket).count();
            let is_new = !known.contains(&node) && !tried.contains(&(bucket, node));
            let room = self.k() - known.len();
            let wanted = match is_near {
                true if bucket >= near => room,
                true => usize::from(known.is_empty()),
                false => room.min(TRIED_A_TIME),
            };
            if is_new && count < wanted {
                tried.push((bucket, node));
                out.push(RouterAction::Ask(node, TableQuery::Nearest(own)));
            }
        }
    }

    fn on_found(&mut self, key: Key, node: NodeId, out: &mut Vec<RouterAction>) {
        if key == self.key() && node != self.own {
            // Its first buckets are this node's as well.
            let shared = (key ^ self.space.key(node)).leading_zeros() as u16;
            out.push(RouterAction::Ask(node, TableQuery::Nearest(key)));
            out.extend((0..=shared).map(|bucket| {
                RouterAction::Ask(node, TableQuery::Nearest(self.sample(bucket, 0)))
            }));
        }
    }

    fn on_notify(&mut self, by: NodeId, _out: &mut Vec<RouterAction>) {
        self.learn(by);
    }

    fn has_joined(&self) -> bool {
        !self.buckets.all().is_empty()
    }

    fn contacts(&self, out: &mut Vec<NodeId>) {
        out.extend(self.buckets.all());
    }

    fn fill(&mut self, ring: &[(Key, NodeId)]) {
        let own = self.key();
        let mut entries = Vec::new();
        let mut outer = ring;
        for bucket in 0..Key::BITS {
            if outer.len() <= 1 {
                break;
            }
            // The half with this node in it, and the other one.
            let bit = Key::power_of_two(Key::BITS - 1 - bucket);
            let border = own.last_of_prefix(bucket) - (bit - Key::from(1));
            let (lower, upper) = outer.split_at(outer.partition_point(|&(key, _)| key < border));
            let (inner, other) = if own < border { (lower, upper) } else { (upper, lower) };
            let count = other.len().min(self.k());
            let seed = mix(own.prefix(64) ^ u64::from(bucket));
            entries.extend((0..count).map(|number| {
                // One at random out of each of as many equal parts.
                let (from, to) = (other.len() * number / count, other.len() * (number + 1) / count);
                let at = mix(seed ^ number as u64) % (to - from) as u64;
                other[from + at as usize].1
            }));
            outer = inner;
        }
        self.buckets.replace(entries);
    }

    fn heap_bytes(&self) -> usize {
        self.buckets.heap_bytes()
    }
}
