use bytes::{Buf, BufMut, Bytes};

use super::list::List;
use super::place::Place;
use super::shape::{DEGREE_MAX, SUCCESSORS_MAX};
use super::{
    Algorithm, Hop, Key, Leg, Router, RouterAction, Shape, Space, Step, TableQuery, Walk,
    keep_distinct, keep_nearest,
};
use crate::core::Rng;
use crate::core::field::{Field, wire};
use crate::core::{DecodeError, NodeId, Payload, split, take_u8};

/// Most edges at a node: to the last node at or before the end of an edge, and as many after it as
/// the graph has degree.
const EDGES_MAX: usize = 1 + DEGREE_MAX;
/// Bits of a key that a walk shifts in at most: enough for 2^32 nodes by far.
const BITS_MAX: u32 = 64;
/// Turns between two look-ups of the edges from the outside, should all known ones mislead.
const TURNS_A_SEARCH: u64 = 16;

/// Koorde: Chord's ring, and on it a walk through the de Bruijn graph of degree 2, or of another
/// power of two ([`Shape::degree`]).
///
/// The message follows an imaginary node. Each step doubles it and shifts in one bit of the key (of
/// degree 4 two bits, of degree 8 three), until it is the key. It is at home at the last node at or
/// before it; from there the edges lead to the node before the doubled place, and to as many nodes
/// after that one as the graph has degree. Where the imaginary node is not at home with the
/// receiver, the successor list leads on; should an edge have overshot, because a better one died,
/// the message goes back. The walk begins with the imaginary node at home here that has the fewest
/// bits left to shift in. Source: Kaashoek and Karger, *Koorde: A Simple Degree-optimal Distributed
/// Hash Table*, IPTPS 2003.
///
/// A node takes a constant number of entries, all in place. Imaginary nodes of neighbouring keys
/// lie beside each other, so one look-up answers for all keys up to the first whose imaginary node
/// lies beyond the next known node.
#[derive(Clone, Debug)]
pub struct Koorde {
    place: Place,
    /// The last node at or before the double of this one's key, and those after it. This node may
    /// be among them. Of a joiner, whomever it heard from.
    edges: List<EDGES_MAX>,
    // How many bits of a key one edge shifts in: the logarithm of the graph's degree.
    bits: u8,
}

/// The imaginary node that a message follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KoordeWalk {
    /// None yet: the message was not sent on.
    #[default]
    Start,
    /// The node that begins with these `left` bits and goes on with the key's first bits. The
    /// `left` last bits of the key remain to be shifted in.
    Imaginary {
        /// The first bits, as a number below 2^`left`.
        prefix: u64,
        /// How many bits are left, at most 64.
        left: u8,
        /// Where on the ring the node lies at which it is at home.
        side: Side,
    },
    /// The sender believed the receiver to be responsible.
    Last,
}

/// Where the home of an imaginary node lies, seen from the receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Here or ahead.
    Ahead,
    /// Behind: an edge led too far.
    Behind,
}

const BEHIND: u8 = 0x80;
const START: u8 = 0xfe;
const LAST: u8 = 0xff;

wire!(KoordeWalk);

impl Field for KoordeWalk {
    const BYTES_MIN: usize = 1;

    #[inline]
    fn bytes(walk: &KoordeWalk) -> usize {
        match walk {
            KoordeWalk::Imaginary { left, .. } => 1 + prefix_bytes(*left),
            KoordeWalk::Start | KoordeWalk::Last => 1,
        }
    }

    #[inline]
    fn put<'a>(walk: &'a KoordeWalk, head: &mut impl BufMut) -> Option<&'a Payload> {
        match walk {
            KoordeWalk::Start => head.put_u8(START),
            KoordeWalk::Last => head.put_u8(LAST),
            KoordeWalk::Imaginary { prefix, left, side } => {
                head.put_u8(if *side == Side::Behind { BEHIND | *left } else { *left });
                head.put_uint(*prefix, prefix_bytes(*left));
            }
        }
        None
    }

    fn take(bytes: &mut Bytes, _: &'static str) -> Result<KoordeWalk, DecodeError> {
        let (left, side) = match take_u8(bytes)? {
            START => return Ok(KoordeWalk::Start),
            LAST => return Ok(KoordeWalk::Last),
            left if left >= BEHIND => (left - BEHIND, Side::Behind),
            left => (left, Side::Ahead),
        };
        if u32::from(left) > BITS_MAX {
            return Err(DecodeError::OutOfRange { field: "bits left", value: left.into() });
        }
        let len = prefix_bytes(left);
        let prefix = split(bytes, len)?.get_uint(len);
        if prefix.checked_shr(left.into()).unwrap_or(0) != 0 {
            return Err(DecodeError::OutOfRange { field: "prefix", value: prefix });
        }
        Ok(KoordeWalk::Imaginary { prefix, left, side })
    }

    fn any(rng: &mut Rng) -> KoordeWalk {
        let left = rng.below(BITS_MAX + 1) as u8;
        let prefix = rng.next_u64().checked_shr(64 - u32::from(left)).unwrap_or(0);
        let side = if bool::any(rng) { Side::Ahead } else { Side::Behind };
        match rng.below(4) {
            0 => KoordeWalk::Start,
            1 => KoordeWalk::Last,
            _ => KoordeWalk::Imaginary { prefix, left, side },
        }
    }
}

fn prefix_bytes(left: u8) -> usize {
    usize::from(left).div_ceil(8)
}

// The imaginary node of a walk to `key`.
pub(super) fn imaginary(key: Key, prefix: u64, left: u8) -> Key {
    Key::from(prefix).shifted_left(Key::BITS - u32::from(left)) + key.shifted_right(left.into())
}

// The walk after some bits were shifted in: as many first bits of the prefix go.
fn shifted(prefix: u64, left: u8, bits: u8) -> (u64, u8) {
    let left = left.saturating_sub(bits);
    (prefix & !(u64::MAX.checked_shl(left.into()).unwrap_or(0)), left)
}

// The last key whose imaginary node, with `left` bits left to shift in, lies at most `room` above
// that of this key.
fn last_key(key: Key, left: u32, room: Key) -> Key {
    let (at, most) = (key.shifted_right(left), Key::MAX.shifted_right(left));
    let end = if room > most - at { most } else { at + room };
    end.shifted_left(left).last_of_prefix(Key::BITS - left)
}

impl Koorde {
    /// The table of a node that knows no other yet.
    pub fn new(space: Space, own: NodeId, shape: Shape) -> Koorde {
        let edges = List::new(1 + usize::from(shape.degree));
        let place = Place::new(space, own, shape.successors);
        Koorde { place, edges, bits: shape.degree.trailing_zeros() as u8 }
    }

    /// The nodes that follow on the ring, as far as known.
    pub fn successors(&self) -> &[NodeId] {
        &self.place.successors
    }

    /// The node before this one on the ring, if known.
    pub fn predecessor(&self) -> Option<NodeId> {
        self.place.predecessor
    }

    /// The last known node at or before the double of this one's key, and those after it.
    pub fn edges(&self) -> &[NodeId] {
        &self.edges
    }

    // Where the edges lead.
    fn doubled(&self) -> Key {
        self.place.key().shifted_left(self.bits.into())
    }

    // The steps of a walk, until it leaves this node, and up to which key they are the same.
    fn step_far(&self, key: Key, walk: &mut KoordeWalk) -> Step {
        let own = self.place.key();
        let Some(&next) = self.place.successors.first() else {
            return Step { hop: Hop::Here, until: key };
        };
        // From there on ring neighbours suffice.
        let mut until = Step::through(Hop::Here, key, self.place.up_to_own(key, own)).until;
        let (mut prefix, mut left, mut side) = match *walk {
            KoordeWalk::Imaginary { prefix, left, side } => (prefix, left, side),
            KoordeWalk::Start | KoordeWalk::Last => self.start(key, &mut until),
        };
        let hop = loop {
            let at = imaginary(key, prefix, left);
            until = until.min(last_key(key, left.into(), self.room_at(at)));
            let is_home = match (side, self.place.predecessor) {
                (Side::Ahead, _) => own.clockwise_to(at) < self.place.distance_to(next),
                (Side::Behind, Some(node)) => {
                    let before = self.place.space.key(node);
                    if before.clockwise_to(at) < before.clockwise_to(own) {
                        side = Side::Ahead;
                    }
                    break Some(node);
                }
                // No other node is known to be nearer.
                (Side::Behind, None) => true,
            };
            if !is_home || left == 0 {
                side = Side::Ahead;
                break self.before_on_ring(at);
            }
            (prefix, left) = shifted(prefix, left, self.bits);
            let at = imaginary(key, prefix, left);
            until = until.min(last_key(key, left.into(), self.room_at(at)));
            match self.edge_to(at) {
                Some((node, to)) if node == self.place.own => side = to,
                Some((node, to)) => {
                    side = to;
                    break Some(node);
                }
                // No de Bruijn edge is known: only the ring remains.
                None => (prefix, left, side) = (0, 0, Side::Ahead),
            }
        };
        *walk = KoordeWalk::Imaginary { prefix, left, side };
        Step { hop: hop.map_or(Hop::Here, Hop::Via), until }
    }

    // The imaginary node at home here that needs the fewest bits. `until` is cut to the last key
    // that begins with the same one.
    fn start(&self, key: Key, until: &mut Key) -> (u64, u8, Side) {
        let own = self.place.key();
        let room = self.place.successors.first().map(|&next| self.place.distance_to(next));
        let ahead = |left: u32| {
            // The distance to the next imaginary node whose last bits are the key's first bits.
            (key.shifted_right(left) - own).shifted_left(left).shifted_right(left)
        };
        let mut left = 0;
        loop {
            // As keys go up it moves away from this node, and round the ring to it.
            let (distance, round) = (ahead(left), Key::MAX.shifted_right(left));
            let is_home = room.is_some_and(|room| distance < room);
            let end = if is_home { room.unwrap_or_default() - Key::from(1) } else { round };
            *until = (*until).min(last_key(key, left, end.min(round) - distance));
            if is_home || left + u32::from(self.bits) > BITS_MAX {
                return ((own + distance).prefix(left), left as u8, Side::Ahead);
            }
            left += u32::from(self.bits);
        }
    }

    // How far an imaginary node may move up without passing a place at which a step changes: a
    // known node, or the opposite of an edge.
    fn room_at(&self, at: Key) -> Key {
        let half = Key::power_of_two(Key::BITS - 1);
        let known = self.place.successors.iter().chain(&*self.edges).chain(&self.place.predecessor);
        let known = known.map(|&node| self.place.space.key(node));
        let opposite = self.edges.iter().map(|&node| self.place.space.key(node) + half);
        let distances = known.chain(opposite).chain([self.place.key()]).map(|place| place - at);
        let next = distances.filter(|&distance| distance != Key::ZERO).min();
        next.unwrap_or(Key::ZERO) - Key::from(1)
    }

    // The edge from which it is not far, going up, to an imaginary node; or the first one after it.
    fn edge_to(&self, at: Key) -> Option<(NodeId, Side)> {
        let key = |node: &NodeId| self.place.space.key(*node);
        let ahead = self.edges.iter().map(|node| (key(node).clockwise_to(at), *node));
        let half = ahead.filter(|(distance, _)| distance.leading_zeros() > 0);
        let before = half.min_by_key(|&(distance, _)| distance);
        let after = || self.edges.iter().min_by_key(|node| at.clockwise_to(key(node)));
        let before = before.map(|(_, node)| (node, Side::Ahead));
        before.or_else(|| after().map(|&node| (node, Side::Behind)))
    }

    // The last known node ahead that is at or before an imaginary one.
    fn before_on_ring(&self, at: Key) -> Option<NodeId> {
        let own = self.place.key();
        let room = own.clockwise_to(at);
        let known = self.place.successors.iter().chain(&*self.edges);
        let known = known.map(|&node| (own.clockwise_to(self.place.space.key(node)), node));
        let before = known.filter(|&(distance, _)| distance != Key::ZERO && distance <= room);
        before.max_by_key(|&(distance, _)| distance).map(|(_, node)| node)
    }

    // Takes a node's answer about the nodes nearest to the double of this node's key: the last node
    // at or before it, and the nodes after it.
    fn settle(&mut self, from: NodeId, nodes: &[NodeId], out: &mut Vec<RouterAction>) {
        let doubled = self.doubled();
        let distance = |node: NodeId| self.place.space.key(node).clockwise_to(doubled);
        let Some((&before, after)) = nodes.split_first() else { return };
        if before == from {
            let rises = |pair: &[NodeId]| distance(pair[0]) > distance(pair[1]);
            let after = &after[..after.len().min(self.edges.max() - 1)];
            if after.windows(2).all(rises) && !after.contains(&from) {
                self.edges = self.edges.with([from].into_iter().chain(after.iter().copied()));
            }
        } else if before == self.place.own {
            self.edges =
                self.edges.with([before].into_iter().chain(self.place.successors.iter().copied()));
        } else if distance(before) < distance(from) {
            out.push(RouterAction::Ask(before, TableQuery::Nearest(doubled)));
        }
    }

    // One step of a message's walk.
    fn step(&self, key: Key, walk: &mut KoordeWalk) -> Step {
        let mut leg = if *walk == KoordeWalk::Last { Leg::Last } else { Leg::Way };
        if let Some(step) = self.place.step(key, &mut leg) {
            if leg == Leg::Last {
                *walk = KoordeWalk::Last;
            }
            return step;
        }
        if self.place.successors.is_empty() {
            return Step { hop: Hop::Here, until: Key::MAX };
        }
        self.step_far(key, walk)
    }

    // See [`Router::candidates`].
    fn candidates_on(&self, key: Key, walk: &mut KoordeWalk, count: usize, out: &mut Vec<NodeId>) {
        let came = if *walk == KoordeWalk::Last { Leg::Last } else { Leg::Way };
        let mut leg = came;
        if let Some(step) = self.place.step(key, &mut leg) {
            if leg == Leg::Last {
                *walk = KoordeWalk::Last;
            }
            return self.place.candidates(came, step.hop, count, out);
        }
        let came = *walk;
        let Hop::Via(first) = self.step_far(key, walk).hop else { return };
        if count > 0 {
            out.push(first);
        }
        let KoordeWalk::Imaginary { prefix, left, side: Side::Ahead } = *walk else { return };
        // From other nodes the ring leads to the imaginary node too, in more hops. If the imaginary
        // node is still the one that came, they must be nearer to it than this node.
        let at = imaginary(key, prefix, left);
        let distance = |node: NodeId| self.place.space.key(node).clockwise_to(at);
        let room = match came {
            KoordeWalk::Imaginary { left: before, side, .. } if before == left => match side {
                Side::Ahead => distance(self.place.own),
                Side::Behind => return,
            },
            _ => Key::MAX,
        };
        let mut known = [(Key::MAX, NodeId(0)); EDGES_MAX + SUCCESSORS_MAX];
        let mut len = 0;
        for &node in self.edges.iter().chain(&*self.place.successors) {
            let distance = distance(node);
            if node != first && node != self.place.own && distance < room {
                known[len] = (distance, node);
                len += 1;
            }
        }
        known[..len].sort_unstable();
        // A node that is an edge and a successor stands beside itself.
        let mut nodes = known[..len].iter().map(|&(_, node)| node);
        let mut before = None;
        let end = out.len() + count.saturating_sub(1);
        while out.len() < end
            && let Some(node) = nodes.next()
        {
            if before.replace(node) != Some(node) {
                out.push(node);
            }
        }
    }

    // See [`Algorithm::remaining`].
    pub(super) fn remaining(key: Key, at: Key, walk: KoordeWalk) -> (Key, Key) {
        match walk {
            KoordeWalk::Last => Leg::Last.remaining(key, at),
            // First the bits left to shift in; for each, back along the ring and then forwards.
            KoordeWalk::Imaginary { prefix, left, side } => {
                let imaginary = imaginary(key, prefix, left);
                let steps = 1 + 2 * u64::from(left);
                match side {
                    Side::Ahead => (Key::from(steps), at.clockwise_to(imaginary)),
                    Side::Behind => (Key::from(steps + 1), imaginary.clockwise_to(at)),
                }
            }
            KoordeWalk::Start => (Key::MAX, Key::MAX),
        }
    }
}

impl Router for Koorde {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Koorde
    }

    fn next_hop(&self, key: Key, walk: &mut Walk) -> Step {
        let mut mine = walk.koorde();
        let step = self.step(key, &mut mine);
        *walk = Walk::Koorde(mine);
        step
    }

    fn candidates(&self, key: Key, walk: &mut Walk, count: usize, out: &mut Vec<NodeId>) {
        let mut mine = walk.koorde();
        self.candidates_on(key, &mut mine, count, out);
        *walk = Walk::Koorde(mine);
    }

    fn replicas(&self, key: Key, count: usize, out: &mut Vec<NodeId>) {
        let start = out.len();
        out.push(self.place.own);
        self.contacts(out);
        keep_nearest(Algorithm::Koorde, &self.place.space, key, count, start, out);
    }

    fn learn(&mut self, node: NodeId) -> Option<NodeId> {
        if self.place.successors.is_empty() && node != self.place.own && self.edges.is_empty() {
            self.edges.push(node);
        }
        None
    }

    fn forget(&mut self, node: NodeId) {
        self.place.forget(node);
        self.edges.remove(node);
        if self.edges[..] == [self.place.own] {
            self.edges = self.edges.with([]);
        }
    }

    fn upkeep(&mut self, turn: u64, out: &mut Vec<RouterAction>) {
        let own = self.place.own;
        let edge = self.edges.iter().copied().find(|&node| node != own);
        self.place.upkeep(edge, out);
        let neighbour = self.place.successors.first().copied();
        if neighbour.is_some() {
            // Neighbours have neighbouring edges.
            let whom = edge.or(neighbour);
            out.extend(
                whom.map(|node| RouterAction::Ask(node, TableQuery::Nearest(self.doubled()))),
            );
            if turn.is_multiple_of(TURNS_A_SEARCH) {
                out.push(RouterAction::Find(self.doubled()));
            }
        }
    }

    fn answer_query(&self, query: TableQuery, out: &mut Vec<NodeId>) {
        match query {
            TableQuery::Neighbours => self.place.neighbours(out),
            TableQuery::Nearest(key) => {
                // The last known node at or before the key, and those after it.
                let start = out.len();
                out.push(self.place.own);
                self.contacts(out);
                keep_nearest(Algorithm::Koorde, &self.place.space, key, usize::MAX, start, out);
                out[start..].rotate_right(1);
                out.truncate(start + 1 + DEGREE_MAX);
            }
            TableQuery::Row(..) => {}
        }
    }

    fn bordering(&self, copies: usize, out: &mut Vec<NodeId>) {
        self.place.bordering(copies, out);
    }

    fn on_answer(
        &mut self,
        from: NodeId,
        query: TableQuery,
        nodes: &[NodeId],
        out: &mut Vec<RouterAction>,
    ) {
        match query {
            TableQuery::Neighbours => self.place.on_neighbours(from, nodes, out),
            TableQuery::Nearest(key) if key == self.doubled() => self.settle(from, nodes, out),
            _ => {}
        }
    }

    fn on_found(&mut self, key: Key, node: NodeId, out: &mut Vec<RouterAction>) {
        if node == self.place.own {
            return;
        }
        if key == self.place.key() {
            if self.place.successors.is_empty() {
                out.push(RouterAction::Ask(node, TableQuery::Neighbours));
            }
        } else if key == self.doubled() {
            out.push(RouterAction::Ask(node, TableQuery::Nearest(key)));
        }
    }

    fn on_notify(&mut self, by: NodeId, out: &mut Vec<RouterAction>) {
        self.place.on_notify(by, out);
    }

    fn has_joined(&self) -> bool {
        !self.place.successors.is_empty()
    }

    fn knows_its_part(&self) -> bool {
        self.place.knows_its_part()
    }

    fn contacts(&self, out: &mut Vec<NodeId>) {
        let start = out.len();
        out.extend(&*self.place.successors);
        out.extend(self.edges.iter().filter(|&&node| node != self.place.own));
        out.extend(self.place.predecessor);
        keep_distinct(start, out);
    }

    fn fill(&mut self, ring: &[(Key, NodeId)]) {
        self.place.fill(ring);
        let doubled = self.doubled();
        let at = ring.partition_point(|&(key, _)| key <= doubled) + ring.len() - 1;
        let edges = (0..ring.len()).map(|steps| ring[(at + steps) % ring.len()].1);
        self.edges = self.edges.with(edges.filter(|_| ring.len() > 1));
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}
