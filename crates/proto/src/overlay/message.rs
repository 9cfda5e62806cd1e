use std::fmt::{self, Display};
use std::sync::Arc;

use bytes::{BufMut, Bytes};

use super::record::{
    Answer, CANDIDATES_MAX, CopyAnswer, ITEMS_MAX, Keyed, MESSAGE_BYTES_MAX, MISSING_MAX,
    NODES_MAX, NodeStat, PutAnswer, PutIfAnswer, PutIfItem, PutItem, Record, ScanAnswer, Successor,
    Version, check_ascending, check_range,
};
use super::walk::{By, Walks};
use super::{Key, TableQuery, Walk};
use crate::core::Rng;
use crate::core::field::{
    Address, Field, Late, Length, List, check_room, fields, messages, take_count,
};
use crate::core::{ADDRESS_BYTES_MAX, DecodeError, NodeId, Payload, take_u8, take_u16};

/// What nodes of an overlay send each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What is said.
    pub body: Body,
    /// Where nodes that it names are.
    pub addresses: Addresses,
}

/// Nodes and what a driver of sockets needs to reach them. In the simulator there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(pub Option<Arc<[(NodeId, Bytes)]>>);

/// Keys for which a node is responsible, from the first to the second, if it says so.
type Range = Option<Box<(Key, Key)>>;

/// The form of [`Addresses`], if there are any.
pub(super) type AddressList = List<ADDRESSES_MAX, 0, (NodeId, Address<ADDRESS_BYTES_MAX, 1>)>;

const ADDRESSES_MAX: usize = 256;

fields! {
    /// One key that a bundle is to reach.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Target by By<W: Walks> {
        /// The key.
        pub key: Key,
        /// What the router notes of the way.
        pub walk: Walk as By<W>,
    }
}

fields! {
    /// Why targets are looked up.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Purpose as "purpose" {
        /// To learn who is responsible.
        0 => Locate,
        /// To read.
        1 => Get,
        /// The same as `Locate`, for the table's sake. Counted apart.
        2 => Upkeep,
        /// Delivers this to the responsible node.
        3 => Send(value: Arc<Payload> as Arc<Length<MESSAGE_BYTES_MAX>>),
    }
}

/// The payload to deliver follows the targets.
impl Late for Purpose {
    fn values(&self) -> impl Iterator<Item = &Payload> {
        let value = if let Purpose::Send(value) = self { Some(&**value) } else { None };
        value.into_iter()
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut Payload> {
        let value = if let Purpose::Send(value) = self { Arc::get_mut(value) } else { None };
        value.into_iter()
    }
}

fields! {
    /// A bundle on its way.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Route by By<W: Walks> {
        /// The sender's number for this message.
        pub exchange: u32,
        /// How many more hops it may make, this one included.
        pub ttl: u8,
        /// Who gets the results.
        pub initiator: NodeId,
        /// The initiator is a member of the overlay, not a client.
        pub is_member: bool,
        /// The initiator's number for the request.
        pub tag: u64,
        /// What for.
        pub purpose: Purpose,
        /// What it is to reach, by ascending key.
        pub targets: Arc<[Target]> as List<ITEMS_MAX, 0, By<W>> where check_targets;
        .. purpose
    }
}

/// A node's answer to [`Body::Find`].
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The asker's number.
    pub exchange: u32,
    /// Consecutive targets that go the same way, in order. They cover the targets asked for.
    pub segments: Vec<Segment>,
    /// What became of the targets of segments without nodes, in order.
    pub ended: Vec<Answer>,
    /// The nodes of all segments, in order.
    pub nodes: Vec<NodeId>,
    /// The walks of the targets of segments with nodes, in order.
    pub walks: Vec<Walk>,
    /// The range of keys for which this node is responsible, if it reports it.
    pub range: Option<Box<(Key, Key)>>,
}

fields! {
    /// Consecutive targets of a bundle that go the same way.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Segment {
        /// How many targets.
        pub targets: u16,
        /// How many candidates, the best first; 0 if the targets ended.
        pub nodes: u8,
    }
}

fields! {
    impl enum TableQuery as "table query" {
        0 => Neighbours,
        1 => Row(row: u8 where check_row, key: Key),
        2 => Nearest(key: Key),
    }
}

messages! {
    /// What one node says to another.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Body by By<W: Walks> {
        /// A bundle goes on.
        0 => Route(route: Route as By<W>) [
            "route {} of {} ttl {}:{}",
            route.purpose, route.initiator, route.ttl,
            Each(|| route.targets.iter().map(|target| Short(target.key)))
        ],
        /// The answer: the bundle is in my care.
        1 => Ack {
            /// The sender's number of the bundle.
            exchange: u32,
        } ["ack"],
        /// Directly to the initiator: the outcome of targets that ended here.
        2 => Result {
            /// The initiator's number.
            tag: u64,
            /// The range of keys for which this node is responsible, if it reports it.
            range: Option<Box<(Key, Key)>>,
            /// Each target and what became of it.
            answers: Vec<(Key, Answer)> as List<ITEMS_MAX>;
            .. answers
        } ["result:{}", Each(|| answers.iter().map(|(key, answer)| Pair(Short(*key), answer)))],
        /// Who comes next for these targets?
        3 => Find {
            /// The asker's number.
            exchange: u32,
            /// The asker is a member of the overlay.
            is_member: bool,
            /// The asker's number for the request, for answers that follow.
            tag: u64,
            /// What for.
            purpose: Purpose,
            /// The targets, by ascending key.
            targets: Arc<[Target]> as List<ITEMS_MAX, 0, By<W>> where check_targets;
            .. purpose
        } ["find {purpose}:{}", Each(|| targets.iter().map(|target| Short(target.key)))],
        /// The answer.
        4 => Found(found: Box<Found> as Box<By<W>>) ["found:{found}"],
        /// Write these, to the responsible node.
        5 => Put {
            /// The writer's number of this message.
            exchange: u32,
            /// The writer is a member of the overlay.
            is_member: bool,
            /// The writer's run and the number of its request.
            write: u64,
            /// What.
            items: Arc<[PutItem]> as List<ITEMS_MAX> where check_ascending;
            .. items
        } ["put:{}", Each(|| items.iter().map(|item| Short(item.key)))],
        /// The answer, item by item.
        6 => PutReply {
            /// The writer's number.
            exchange: u32,
            /// In the order of the items. Empty for a repeated put whose write is in progress.
            answers: Vec<PutAnswer> as List<ITEMS_MAX>,
        } ["put reply: {answers:?}"],
        /// Hold copies of these.
        7 => Copy {
            /// The sender's number.
            exchange: u32,
            /// What.
            records: Arc<[Record]> as List<ITEMS_MAX> where check_ascending;
            .. records
        } [
            "copy:{}",
            Each(|| records.iter().map(|it| Pair(Short(it.key), it.stamp.version)))
        ],
        /// The answer, record by record.
        8 => CopyReply {
            /// The sender's number.
            exchange: u32,
            /// In the order of the records. Empty for repeated copies that are not on disk yet.
            answers: Vec<CopyAnswer> as List<ITEMS_MAX>,
        } ["copy reply: {answers:?}"],
        /// What do you hold under these keys?
        9 => Fetch {
            /// The asker's number.
            exchange: u32,
            /// The keys, ascending.
            keys: Arc<[Key]> as List<ITEMS_MAX> where check_ascending,
        } ["fetch:{}", Each(|| keys.iter().map(|&key| Short(key)))],
        /// The answer: what there is.
        10 => Fetched {
            /// The asker's number.
            exchange: u32,
            /// Whether the reply is complete; otherwise the records exceed one reply.
            is_whole: bool,
            /// By ascending key; keys without a record are left out.
            records: Vec<Record> as List<ITEMS_MAX> where check_ascending;
            .. records
        } ["fetched:{}", Each(|| records.iter().map(|record| Short(record.key)))],
        /// I hold these.
        11 => Summary {
            /// The sender's number.
            exchange: u32,
            /// Keys, ascending, and the version of each record.
            entries: Arc<[(Key, Version)]> as List<ITEMS_MAX> where check_ascending,
        } ["summary:{}", Each(|| entries.iter().map(|&(key, _)| Short(key)))],
        /// The answer: places in the summary.
        12 => SummaryReply {
            /// The sender's number.
            exchange: u32,
            /// Where I hold nothing, or something older.
            lacking: Vec<u16> as List<ITEMS_MAX>,
            /// Where I hold something newer.
            newer: Vec<u16> as List<ITEMS_MAX>,
            /// Records that the receiver should drop: the sender is responsible, and the replica
            /// set holds them.
            surplus: Vec<u16> as List<ITEMS_MAX>,
        } ["summary reply: lacking {lacking:?}, newer {newer:?}, surplus {surplus:?}"],
        /// A query about the receiver's table.
        13 => Ask {
            /// The asker's number.
            exchange: u32,
            /// The asker is a member of the overlay.
            is_member: bool,
            /// The query.
            query: TableQuery,
        } ["ask {query:?}"],
        /// The answer.
        14 => Answer {
            /// The asker's number.
            exchange: u32,
            /// Nodes.
            nodes: Vec<NodeId> as List<NODES_MAX>,
        } ["answer: {} nodes", nodes.len()],
        /// I may be your neighbour.
        15 => Notify ["notify"],
        /// Are you there?
        16 => Ping {
            /// The asker's number.
            exchange: u32,
        } ["ping"],
        /// Yes.
        17 => Pong {
            /// The asker's number.
            exchange: u32,
        } ["pong"],
        /// The reply of a node that is not a member to a request that needs a member.
        18 => NotMember {
            /// The asker's number.
            exchange: u32,
        } ["no member"],
        /// I leave.
        19 => Goodbye ["goodbye"],
        /// The sender misses these nodes: they failed, and may hold the only copies of records near
        /// the receiver. The receiver is among them if it failed and restarted.
        20 => Missing {
            /// The nodes, those nearest to the receiver first.
            nodes: Vec<NodeId> as List<MISSING_MAX>,
        } ["missing:{}", Each(|| nodes.iter())],
        /// Write these if their conditions hold, to the responsible node.
        21 => PutIf {
            /// The writer's number of this message.
            exchange: u32,
            /// The writer is a member of the overlay.
            is_member: bool,
            /// The writer's run and the number of its request.
            write: u64,
            /// What.
            items: Arc<[PutIfItem]> as List<ITEMS_MAX> where check_ascending;
            .. items
        } ["put if:{}", Each(|| items.iter().map(|it| Pair(Short(it.item.key), it.expect)))],
        /// The answer, item by item.
        22 => PutIfReply {
            /// The writer's number.
            exchange: u32,
            /// In the order of the items. Empty for a repeated put whose write is in progress.
            answers: Vec<PutIfAnswer> as List<ITEMS_MAX>,
        } ["put if reply: {answers:?}"],
        /// Hold copies of these unless you hold something newer than they replace. `CopyReply`
        /// answers.
        23 => CopyIf {
            /// The sender's number.
            exchange: u32,
            /// What.
            records: Arc<[Successor]> as List<ITEMS_MAX> where check_ascending;
            .. records
        } [
            "copy if:{}",
            Each(|| records.iter().map(|it| {
                Pair(Short(it.record.key), Pair(it.base, it.record.stamp.version))
            }))
        ],
        /// Which records are there in this range of keys? To the node responsible for the first.
        24 => Scan {
            /// The asker's number.
            exchange: u32,
            /// The asker is a member of the overlay.
            is_member: bool,
            /// The first and the last key.
            range: (Key, Key) where check_range,
        } ["scan {}", Pair(Short(range.0), Short(range.1))],
        /// The answer.
        25 => ScanReply {
            /// The asker's number.
            exchange: u32,
            /// How far the records go, or why there are none.
            answer: ScanAnswer,
            /// By ascending key; tombstones are left out.
            records: Vec<Record> as List<ITEMS_MAX> where check_ascending;
            .. records
        } ["scan reply, {answer}:{}", Each(|| records.iter().map(|record| Short(record.key)))],
        /// What do you hold in this range of keys?
        26 => List {
            /// The asker's number.
            exchange: u32,
            /// The first and the last key.
            range: (Key, Key) where check_range,
        } ["list {}", Pair(Short(range.0), Short(range.1))],
        /// The answer.
        27 => Listed {
            /// The asker's number.
            exchange: u32,
            /// The last key that the entries cover.
            until: Key,
            /// Keys, ascending, and the version of each record.
            entries: Vec<(Key, Version)> as List<ITEMS_MAX> where check_ascending,
        } [
            "listed to {}:{}",
            Short(*until), Each(|| entries.iter().map(|&(key, _)| Short(key)))
        ],
        /// What is your state? To the node responsible for the key.
        28 => Stat {
            /// The asker's number.
            exchange: u32,
            /// The asker is a member of the overlay.
            is_member: bool,
            /// The key.
            key: Key,
        } ["stat {}", Short(*key)],
        /// The answer.
        29 => StatReply {
            /// The asker's number.
            exchange: u32,
            /// The last key, from the one asked for on, that the node is responsible for; none if
            /// it is not responsible for that one.
            until: Option<Key>,
            /// Its state.
            stat: Box<NodeStat>,
        } ["stat reply: {} values", stat.values],
    }
}

impl From<Body> for Message {
    fn from(body: Body) -> Message {
        Message { body, addresses: Addresses::default() }
    }
}

impl Addresses {
    /// The nodes and their addresses.
    pub fn iter(&self) -> impl Iterator<Item = &(NodeId, Bytes)> {
        self.0.iter().flat_map(|addresses| addresses.iter())
    }
}

impl Found {
    /// True if it answers for `targets` targets, and its lists are as long as its segments say.
    pub(super) fn covers(&self, targets: usize) -> bool {
        let (mut ended, mut nodes, mut walks) = (0, 0, 0);
        for segment in &self.segments {
            nodes += usize::from(segment.nodes);
            *(if segment.nodes == 0 { &mut ended } else { &mut walks }) +=
                usize::from(segment.targets);
        }
        ended + walks == targets
            && ended == self.ended.len()
            && walks == self.walks.len()
            && nodes == self.nodes.len()
    }
}

impl Body {
    /// Gives the message its number, if it has one of its sender's.
    pub(super) fn number(&mut self, number: u32) {
        match self {
            Body::Route(Route { exchange, .. })
            | Body::Find { exchange, .. }
            | Body::Put { exchange, .. }
            | Body::PutIf { exchange, .. }
            | Body::Copy { exchange, .. }
            | Body::CopyIf { exchange, .. }
            | Body::Fetch { exchange, .. }
            | Body::Summary { exchange, .. }
            | Body::Ask { exchange, .. }
            | Body::Scan { exchange, .. }
            | Body::List { exchange, .. }
            | Body::Stat { exchange, .. }
            | Body::Ping { exchange } => *exchange = number,
            _ => {}
        }
    }
}

impl Keyed for Target {
    fn key(&self) -> Key {
        self.key
    }
}

/// A bundle has targets.
fn check_targets(targets: &[Target]) -> Result<(), DecodeError> {
    if targets.is_empty() {
        return Err(DecodeError::OutOfRange { field: "targets", value: 0 });
    }
    check_ascending(targets)
}

fn check_row(&row: &u8) -> Result<(), DecodeError> {
    match u32::from(row) < Key::DIGITS {
        true => Ok(()),
        false => Err(DecodeError::OutOfRange { field: "row", value: row.into() }),
    }
}

/// By hand, since what follows a segment depends on it, and the lists are those of all segments.
impl<W: Walks> Field<Found> for By<W> {
    const BYTES_MIN: usize = 4 + Range::BYTES_MIN + 2;
    const HAS_PAYLOAD: bool = true;

    fn bytes(found: &Found) -> usize {
        let segments = Segment::BYTES_MIN * found.segments.len();
        let ended = found.ended.iter().map(Answer::bytes).sum::<usize>();
        let nodes = NodeId::BYTES_MIN * found.nodes.len();
        let walks = found.walks.iter().map(By::<W>::bytes).sum::<usize>();
        let head = 4 + Range::bytes(&found.range) + 2;
        head + segments + ended + nodes + walks + found.ended.late_bytes()
    }

    fn put<'a>(found: &'a Found, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u32(found.exchange);
        Range::put(&found.range, head);
        head.put_u16(found.segments.len() as u16);
        let (mut ended, mut nodes) = (&found.ended[..], &found.nodes[..]);
        let mut walks = &found.walks[..];
        for segment in &found.segments {
            Segment::put(segment, head);
            let of_targets = usize::from(segment.targets);
            if segment.nodes == 0 {
                let (these, rest) = ended.split_at(of_targets);
                these.iter().for_each(|answer| _ = Answer::put(answer, head));
                ended = rest;
            } else {
                let (these, rest) = nodes.split_at(segment.nodes.into());
                these.iter().for_each(|node| _ = NodeId::put(node, head));
                nodes = rest;
                let (these, rest) = walks.split_at(of_targets);
                these.iter().for_each(|walk| _ = By::<W>::put(walk, head));
                walks = rest;
            }
        }
        found.ended.put_late(head)
    }

    fn take(bytes: &mut Bytes, _: &'static str) -> Result<Found, DecodeError> {
        let exchange = u32::take(bytes, "exchange")?;
        let range = <Range as Field>::take(bytes, "range")?;
        let count = take_count(bytes, 0, ITEMS_MAX)?;
        check_room(bytes, Segment::BYTES_MIN * count)?;
        let segments = Vec::with_capacity(count);
        let (ended, nodes, walks) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Found { exchange, segments, ended, nodes, walks, range };
        let mut total = 0;
        for _ in 0..count {
            let (targets, nodes) = (take_u16(bytes)?, take_u8(bytes)?);
            total += usize::from(targets);
            if targets == 0 || total > ITEMS_MAX {
                return Err(DecodeError::OutOfRange { field: "targets", value: targets.into() });
            }
            if usize::from(nodes) > CANDIDATES_MAX {
                return Err(DecodeError::OutOfRange { field: "nodes", value: nodes.into() });
            }
            found.segments.push(Segment { targets, nodes });
            if nodes == 0 {
                for _ in 0..targets {
                    found.ended.push(Answer::take(bytes, "answer")?);
                }
            } else {
                check_room(bytes, NodeId::BYTES_MIN * usize::from(nodes))?;
                for _ in 0..nodes {
                    found.nodes.push(NodeId::take(bytes, "node")?);
                }
                for _ in 0..targets {
                    found.walks.push(By::<W>::take(bytes, "walk")?);
                }
            }
        }
        found.ended.take_late(bytes)?;
        Ok(found)
    }

    fn any(rng: &mut Rng) -> Found {
        let (exchange, range) = (u32::any(rng), Range::any(rng));
        let (segments, ended, nodes, walks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut found = Found { exchange, segments, ended, nodes, walks, range };
        for _ in 0..rng.below(4) {
            let (targets, nodes) = (1 + rng.below(3) as u16, rng.below(3) as u8);
            found.segments.push(Segment { targets, nodes });
            found.nodes.extend((0..nodes).map(|_| NodeId::any(rng)));
            for _ in 0..targets {
                if nodes == 0 {
                    found.ended.push(Answer::any(rng));
                } else {
                    found.walks.push(By::<W>::any(rng));
                }
            }
        }
        found
    }

    fn layout(_: &str) -> String {
        "exchange 4, whether 1, range 20, range 20, count 2, (targets 2, nodes 1, \
         an answer for each target or node 4 each and a walk for each target) each, values of ended"
            .to_owned()
    }
}

impl Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Purpose::Locate => "locate",
            Purpose::Get => "get",
            Purpose::Upkeep => "upkeep",
            Purpose::Send(_) => "send",
        })
    }
}

impl Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body.fmt(f)
    }
}

/// One word for each target that ended, then how many go on, and to which nodes.
impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut ended, mut nodes) = (self.ended.iter(), self.nodes.iter());
        for segment in &self.segments {
            if segment.nodes == 0 {
                let mut words = ended.by_ref().take(segment.targets.into());
                words.try_for_each(|word| write!(f, " {word}"))?;
            } else {
                let best = nodes.by_ref().take(segment.nodes.into());
                let best: Vec<String> = best.map(NodeId::to_string).collect();
                write!(f, " {} to {}", segment.targets, best.join("|"))?;
            }
        }
        Ok(())
    }
}

/// The first eight digits of a key.
struct Short(Key);

impl Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.to_bytes();
        bytes[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One and the other.
struct Pair<A, B>(A, B);

impl<A: Display, B: Display> Display for Pair<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// Each behind a space.
struct Each<F>(F);

impl<I: Iterator<Item: Display>, F: Fn() -> I> Display for Each<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)().try_for_each(|item| write!(f, " {item}"))
    }
}
