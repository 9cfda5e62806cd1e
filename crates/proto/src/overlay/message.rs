use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{Key, Topic, Walk};
use crate::core::{NodeId, Payload};

/// Most targets of one bundle, and items of any list in a message.
pub const ITEMS_MAX: usize = 1024;
/// Most bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Most bytes that a message takes beyond one value: what a value must leave of
/// [`MESSAGE_BYTES_MAX`].
pub const HEAD_BYTES_MAX: usize = 1 << 10;
/// Longest address of a node, bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;
/// Most nodes that one answer names.
pub const NODES_MAX: usize = 4096;
/// Most failed nodes that one message names.
pub const MISSING_MAX: usize = 64;
/// Most candidates that a node names for one target.
pub const CANDIDATES_MAX: usize = 8;

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

/// One key that a bundle is to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The key.
    pub key: Key,
    /// What the router notes of the way.
    pub walk: Walk,
}

/// Why targets are looked up.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// To learn who is responsible.
    Locate,
    /// To read.
    Get,
    /// The same as `Locate`, for the table's sake. Counted apart.
    Upkeep,
    /// To deliver this to whoever is responsible.
    Send(Arc<Payload>),
}

/// A bundle on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The sender's number for this message.
    pub exchange: u32,
    /// How many more hops it may make, this one included.
    pub ttl: u8,
    /// Who gets the results.
    pub initiator: NodeId,
    /// The initiator is a member of the overlay, not a guest.
    pub is_member: bool,
    /// The initiator's number for the request.
    pub tag: u64,
    /// What for.
    pub purpose: Purpose,
    /// What it is to reach, by ascending key.
    pub targets: Arc<[Target]>,
}

/// The age of a record: of two, the greater is the newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// One more than that of the record it replaces.
    pub count: u64,
    /// The node that gave it.
    pub by: u32,
}

/// Which write made a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// How old it is.
    pub version: Version,
    /// The node that wrote.
    pub writer: u32,
    /// The writer's run (upper half) and the number of its request in it (lower half).
    pub write: u64,
}

/// A value on its way between nodes that hold it, or the mark that it was removed.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Under which key.
    pub key: Key,
    /// Which write made it.
    pub stamp: Stamp,
    /// Milliseconds until it is forgotten.
    pub lifetime_ms: u32,
    /// The value; `None` if it was removed.
    pub value: Option<Payload>,
}

/// What shall be written under one key.
#[derive(Clone, Debug, PartialEq)]
pub struct PutItem {
    /// The key.
    pub key: Key,
    /// Milliseconds until it is forgotten.
    pub lifetime_ms: u32,
    /// Earlier writes of the same writer have got no higher version count than this, as far as it
    /// remembers.
    pub after: u64,
    /// The value; `None` removes.
    pub value: Option<Payload>,
}

/// What became of a target at the node where it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The node is responsible.
    Here,
    /// The application there has it.
    Delivered,
    /// The value.
    Found {
        /// Its age.
        version: Version,
        /// The value.
        value: Payload,
    },
    /// No replica holds a value.
    Absent,
    /// The node asks the other replicas; the answer follows as a result.
    Later,
    /// The answers together were too large: ask again for this one.
    Again,
    /// No hop goes on from here.
    NoRoute,
    /// The node has too much to do.
    Busy,
    /// The node has nothing, and others may: who its neighbours are has just changed.
    Unsettled,
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
    /// Keys for which this node is responsible, from the first to the second, if it says so.
    pub range: Option<Box<(Key, Key)>>,
}

/// Consecutive targets of a bundle that go the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// How many targets.
    pub targets: u16,
    /// How many candidates, the best first; 0 if the targets ended.
    pub nodes: u8,
}

/// What became of an item of [`Body::Put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutAnswer {
    /// So many nodes hold it.
    Stored(u8),
    /// The node is not responsible.
    Elsewhere,
    /// The value is too large.
    TooLarge,
    /// There is no room.
    OverQuota,
    /// Too few replicas answered.
    Unreplicated,
    /// A later write of the same writer is there already.
    Superseded,
    /// The node has too much to do.
    Busy,
    /// Another node may be responsible: who this one's neighbours are has just changed.
    Unsettled,
    /// This many nodes hold it: all there are, and fewer than there were before some failed.
    Short(u8),
}

/// What became of a record of [`Body::Copy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyAnswer {
    /// It is here, or was already.
    Held,
    /// A newer one is here.
    Newer(Stamp),
    /// There is no room.
    OverQuota,
    /// The key is none of this node's.
    Far,
}

/// What one node says to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A bundle goes on.
    Route(Route),
    /// The answer: the bundle is in my care.
    Ack {
        /// The sender's number of the bundle.
        exchange: u32,
    },
    /// Straight to the initiator: what became of targets that ended here.
    Result {
        /// The initiator's number.
        tag: u64,
        /// Each target and what became of it.
        answers: Vec<(Key, Answer)>,
        /// Keys for which this node is responsible, from the first to the second, if it says so.
        range: Option<Box<(Key, Key)>>,
    },
    /// Who comes next for these targets?
    Find {
        /// The asker's number.
        exchange: u32,
        /// The asker is a member of the overlay.
        is_member: bool,
        /// The asker's number for the request, for answers that follow.
        tag: u64,
        /// What for.
        purpose: Purpose,
        /// The targets, by ascending key.
        targets: Arc<[Target]>,
    },
    /// The answer.
    Found(Box<Found>),
    /// Write these, to the responsible node.
    Put {
        /// The writer's number of this message.
        exchange: u32,
        /// The writer is a member of the overlay.
        is_member: bool,
        /// The writer's run and the number of its request.
        write: u64,
        /// What.
        items: Arc<[PutItem]>,
    },
    /// The answer, item by item.
    PutReply {
        /// The writer's number.
        exchange: u32,
        /// In the order of the items. None to a put that came again while it is being written.
        answers: Vec<PutAnswer>,
    },
    /// Hold copies of these.
    Copy {
        /// The sender's number.
        exchange: u32,
        /// What.
        records: Arc<[Record]>,
    },
    /// The answer, record by record.
    CopyReply {
        /// The sender's number.
        exchange: u32,
        /// In the order of the records. None to copies that came again before they are on disk.
        answers: Vec<CopyAnswer>,
    },
    /// What do you hold under these keys?
    Fetch {
        /// The asker's number.
        exchange: u32,
        /// The keys, ascending.
        keys: Arc<[Key]>,
    },
    /// The answer: what there is.
    Fetched {
        /// The asker's number.
        exchange: u32,
        /// By ascending key; keys without a record are left out.
        records: Vec<Record>,
        /// It is all that there is; otherwise there was too much for one answer.
        is_whole: bool,
    },
    /// I hold these.
    Summary {
        /// The sender's number.
        exchange: u32,
        /// Keys, ascending, and the age of what is held under them.
        entries: Arc<[(Key, Version)]>,
    },
    /// The answer: places in the summary.
    SummaryReply {
        /// The sender's number.
        exchange: u32,
        /// Where I hold nothing, or something older.
        lacking: Vec<u16>,
        /// Where I hold something newer.
        newer: Vec<u16>,
        /// Where you are to hold nothing: I am responsible, and it is held by those that are to.
        surplus: Vec<u16>,
    },
    /// About your table.
    Ask {
        /// The asker's number.
        exchange: u32,
        /// The asker is a member of the overlay.
        is_member: bool,
        /// What about it.
        topic: Topic,
    },
    /// The answer.
    Told {
        /// The asker's number.
        exchange: u32,
        /// Nodes.
        nodes: Vec<NodeId>,
    },
    /// I may be your neighbour.
    Notify,
    /// Are you there?
    Ping {
        /// The asker's number.
        exchange: u32,
    },
    /// Yes.
    Pong {
        /// The asker's number.
        exchange: u32,
    },
    /// The answer of a node that is no member of the overlay to what only a member can do.
    NotMember {
        /// The asker's number.
        exchange: u32,
    },
    /// I leave.
    Goodbye,
    /// I miss these nodes: they failed, and may hold the only copies of something near you. You are
    /// among them if you failed and were started again.
    Missing {
        /// The nodes, those nearest to the receiver first.
        nodes: Vec<NodeId>,
    },
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
    /// True if it answers for so many targets, and its lists are as long as its segments say.
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
            | Body::Copy { exchange, .. }
            | Body::Fetch { exchange, .. }
            | Body::Summary { exchange, .. }
            | Body::Ask { exchange, .. }
            | Body::Ping { exchange } => *exchange = number,
            _ => {}
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.count, self.by)
    }
}

/// The first eight digits of a key.
struct Short(Key);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.to_bytes();
        bytes[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, keys: &mut dyn Iterator<Item = Key>| {
            for key in keys {
                write!(f, " {}", Short(key))?;
            }
            Ok(())
        };
        match &self.body {
            Body::Route(route) => {
                let word = purpose_word(&route.purpose);
                write!(f, "route {word} of {} ttl {}:", route.initiator, route.ttl)?;
                list(f, &mut route.targets.iter().map(|target| target.key))
            }
            Body::Ack { .. } => write!(f, "ack"),
            Body::Result { answers, .. } => {
                write!(f, "result:")?;
                for (key, answer) in answers {
                    write!(f, " {} {}", Short(*key), answer_word(answer))?;
                }
                Ok(())
            }
            Body::Find { purpose, targets, .. } => {
                write!(f, "find {}:", purpose_word(purpose))?;
                list(f, &mut targets.iter().map(|target| target.key))
            }
            Body::Found(found) => {
                write!(f, "found:")?;
                let (mut ended, mut nodes) = (found.ended.iter(), found.nodes.iter());
                for segment in &found.segments {
                    if segment.nodes == 0 {
                        let words = ended.by_ref().take(segment.targets.into()).map(answer_word);
                        words.into_iter().try_for_each(|word| write!(f, " {word}"))?;
                    } else {
                        let best = nodes.by_ref().take(segment.nodes.into());
                        let best: Vec<String> = best.map(NodeId::to_string).collect();
                        write!(f, " {} to {}", segment.targets, best.join("|"))?;
                    }
                }
                Ok(())
            }
            Body::Put { items, .. } => {
                write!(f, "put:")?;
                list(f, &mut items.iter().map(|item| item.key))
            }
            Body::PutReply { answers, .. } => write!(f, "put reply: {answers:?}"),
            Body::Copy { records, .. } => {
                write!(f, "copy:")?;
                records.iter().try_for_each(|record| {
                    write!(f, " {} {}", Short(record.key), record.stamp.version)
                })
            }
            Body::CopyReply { answers, .. } => write!(f, "copy reply: {answers:?}"),
            Body::Fetch { keys, .. } => {
                write!(f, "fetch:")?;
                list(f, &mut keys.iter().copied())
            }
            Body::Fetched { records, .. } => {
                write!(f, "fetched:")?;
                list(f, &mut records.iter().map(|record| record.key))
            }
            Body::Summary { entries, .. } => {
                write!(f, "summary:")?;
                list(f, &mut entries.iter().map(|&(key, _)| key))
            }
            Body::SummaryReply { lacking, newer, surplus, .. } => {
                write!(f, "summary reply: lacking {lacking:?}, newer {newer:?}")?;
                write!(f, ", surplus {surplus:?}")
            }
            Body::Ask { topic, .. } => write!(f, "ask {topic:?}"),
            Body::Told { nodes, .. } => write!(f, "told {} nodes", nodes.len()),
            Body::Notify => write!(f, "notify"),
            Body::Ping { .. } => write!(f, "ping"),
            Body::Pong { .. } => write!(f, "pong"),
            Body::NotMember { .. } => write!(f, "no member"),
            Body::Goodbye => write!(f, "goodbye"),
            Body::Missing { nodes } => {
                write!(f, "missing:")?;
                nodes.iter().try_for_each(|node| write!(f, " {node}"))
            }
        }
    }
}

fn purpose_word(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Locate => "locate",
        Purpose::Get => "get",
        Purpose::Upkeep => "upkeep",
        Purpose::Send(_) => "send",
    }
}

fn answer_word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Here => "here",
        Answer::Delivered => "delivered",
        Answer::Found { .. } => "found",
        Answer::Absent => "absent",
        Answer::Later => "later",
        Answer::Again => "again",
        Answer::NoRoute => "no route",
        Answer::Busy => "busy",
        Answer::Unsettled => "unsettled",
    }
}
