//! Records, items and answers in messages, and the bounds of messages.

use std::fmt;
use std::str::FromStr;

use crate::core::Rng;
use bytes::{BufMut, Bytes};

use super::Key;
use crate::core::field::{Field, Length, List, Valued, fields};
use crate::core::{DecodeError, NodeId, Payload, take_u8};

/// Most targets of one bundle, and items of any list in a message.
pub const ITEMS_MAX: usize = 1024;
/// Most bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Most bytes that a message takes beyond one value: what a value must leave of
/// [`MESSAGE_BYTES_MAX`].
pub const HEAD_BYTES_MAX: usize = 1 << 10;
/// Most nodes that one answer names.
pub const NODES_MAX: usize = 4096;
/// Most failed nodes that one message names.
pub const MISSING_MAX: usize = 64;
/// Most neighbours that a node names in its state.
pub const NEIGHBOURS_MAX: usize = 64;
/// Most candidates that a node names for one target.
pub const CANDIDATES_MAX: usize = 8;

fields! {
    /// The age of a record: of two, the greater is the newer.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Version {
        /// One more than that of the record it replaces.
        pub count: u64,
        /// The node that gave it.
        pub by: u64,
    }
}

fields! {
    /// Which write made a record.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Stamp {
        /// How old it is.
        pub version: Version,
        /// The node that wrote.
        pub writer: u64,
        /// The writer's run (upper half) and the number of its request in it (lower half).
        pub write: u64,
    }
}

fields! {
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
        pub value: Option<Payload> as Length<MESSAGE_BYTES_MAX>,
    }
}

fields! {
    /// A record to hold in place of what a conditional write was compared with.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Successor {
        /// The version that the write replaces; zero if it replaces nothing.
        pub base: Version,
        /// The record.
        pub record: Record,
    }
}

fields! {
    /// What shall be written under one key.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PutItem {
        /// The key.
        pub key: Key,
        /// Milliseconds until it is forgotten.
        pub lifetime_ms: u32,
        /// Earlier writes of the same writer have got no higher version count than this, as far as
        /// it remembers.
        pub after: u64,
        /// The value; `None` removes.
        pub value: Option<Payload> as Length<MESSAGE_BYTES_MAX>,
    }
}

fields! {
    /// The condition of a conditional write.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Expect as "condition" {
        /// The key has no value.
        0 => Absent,
        /// The value of the key has this version.
        1 => Version(version: Version),
    }
}

fields! {
    /// What shall be written under one key if the condition holds.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PutIfItem {
        /// The condition.
        pub expect: Expect,
        /// What.
        pub item: PutItem,
    }
}

fields! {
    /// What became of an item of [`Body::PutIf`](super::Body::PutIf).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PutIfAnswer as "conditional answer" {
        /// It is written.
        0 => Stored {
            /// Its version.
            version: Version,
            /// The number of nodes that hold it.
            copies: u8,
        },
        /// It is written on all nodes there are, but they are fewer than before some failed.
        1 => Short {
            /// Its version.
            version: Version,
            /// The number of nodes that hold it.
            copies: u8,
        },
        /// Not written: the value of the key has this version.
        2 => Differs(version: Version),
        /// Not written: the key has no value.
        3 => Absent,
        /// Not written: the node is not responsible.
        4 => Elsewhere,
        /// Not written: the value is too large.
        5 => TooLarge,
        /// There is no room, here or at a replica.
        6 => OverQuota,
        /// Too few replicas answered. It may be written.
        7 => Unreplicated,
        /// Not written: the node has too much to do.
        8 => Busy,
        /// Not written: another node may be responsible, or may hold a value.
        9 => Unsettled,
        /// A replica has the record of another node that took a write at the same time. Both may be
        /// found; this one is not acknowledged.
        10 => Conflict,
    }
}

fields! {
    /// What became of a target at the node where it ended.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Answer as "answer" {
        /// The node is responsible.
        0 => Here,
        /// The application there has it.
        1 => Delivered,
        /// The value.
        2 => Found {
            /// Its age.
            version: Version,
            /// The value.
            value: Payload as Length<MESSAGE_BYTES_MAX>,
        },
        /// No replica holds a value.
        3 => Absent,
        /// The node asks the other replicas; the answer follows as a result.
        4 => Later,
        /// The answers together were too large: ask again for this one.
        5 => Again,
        /// No hop goes on from here.
        6 => NoRoute,
        /// The node has too much to do.
        7 => Busy,
        /// The node has nothing, and others may: who its neighbours are has just changed.
        8 => Unsettled,
    }
}

/// What became of an item of [`Body::Put`](super::Body::Put).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutAnswer {
    /// The number of nodes that hold it.
    Stored(u8),
    /// The node is not responsible.
    Elsewhere,
    /// The value is too large.
    TooLarge,
    /// There is no room.
    OverQuota,
    /// Too few replicas answered.
    Unreplicated,
    /// A later write of the same writer is stored already.
    Superseded,
    /// The node has too much to do.
    Busy,
    /// Another node may be responsible: this one's neighbours have just changed.
    Unsettled,
    /// The number of nodes that hold it: all there are, but fewer than before some failed.
    Short(u8),
}

fields! {
    /// What became of a record of [`Body::Copy`](super::Body::Copy).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CopyAnswer as "copy answer" {
        /// It is here, or was already.
        0 => Held,
        /// A newer one is here.
        1 => Newer(stamp: Stamp),
        /// There is no room.
        2 => OverQuota,
        /// This node is not responsible for the key.
        3 => Far,
    }
}

fields! {
    /// The answer to [`Body::Scan`](super::Body::Scan).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ScanAnswer as "scan answer" {
        /// All records from the first key of the range to `until`.
        0 => Page {
            /// The last key of the page.
            until: Key,
            /// The page ends where the range does, or the keys that the node is responsible for.
            /// Otherwise the node has more.
            is_whole: bool,
        },
        /// The node is not responsible for the first key.
        1 => Elsewhere,
        /// The node has too much to do, or a node that may hold records did not answer.
        2 => Busy,
        /// Other nodes may hold records that this one does not know of.
        3 => Unsettled,
    }
}

fields! {
    /// What a node knows, holds and lacks.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct NodeStat {
        /// Other nodes in its table.
        pub contacts: u32,
        /// True if the node is a member, its neighbours have not changed for long enough, and fewer
        /// nodes are missing than a record has copies.
        pub is_settled: bool,
        /// Nodes that failed and are missing: they may hold the only copies of a record.
        pub missing: u32,
        /// Values stored there. A value whose time is over counts until it is swept, within
        /// seconds.
        pub values: u32,
        /// Marks of removed values stored there, which are kept for 10 minutes.
        pub removed: u32,
        /// Bytes of the stored records, including keys and marks.
        pub bytes: u64,
        /// The nodes whose arrival or departure changes what it holds, at most
        /// [`NEIGHBOURS_MAX`].
        pub neighbours: Vec<NodeId> as List<NEIGHBOURS_MAX>,
    }
}

/// Lists of these are in order.
pub(super) trait Keyed {
    fn key(&self) -> Key;
}

/// A range of keys has its first key first.
pub(super) fn check_range((first, last): &(Key, Key)) -> Result<(), DecodeError> {
    match first <= last {
        true => Ok(()),
        false => Err(DecodeError::OutOfRange { field: "range", value: 0 }),
    }
}

/// Lists of keys ascend: one form for one set, and no key twice.
pub(super) fn check_ascending<T: Keyed>(items: &[T]) -> Result<(), DecodeError> {
    match (1..items.len()).find(|&place| items[place - 1].key() >= items[place].key()) {
        Some(place) => Err(DecodeError::OutOfRange { field: "order", value: place as u64 }),
        None => Ok(()),
    }
}

impl Keyed for Key {
    fn key(&self) -> Key {
        *self
    }
}

impl Keyed for Record {
    fn key(&self) -> Key {
        self.key
    }
}

impl Keyed for Successor {
    fn key(&self) -> Key {
        self.record.key
    }
}

impl Keyed for PutItem {
    fn key(&self) -> Key {
        self.key
    }
}

impl Keyed for PutIfItem {
    fn key(&self) -> Key {
        self.item.key
    }
}

impl Keyed for (Key, Version) {
    fn key(&self) -> Key {
        self.0
    }
}

impl Valued for Record {
    fn value(&self) -> Option<&Payload> {
        self.value.as_ref()
    }

    fn value_mut(&mut self) -> Option<&mut Payload> {
        self.value.as_mut()
    }
}

impl Valued for Successor {
    fn value(&self) -> Option<&Payload> {
        self.record.value()
    }

    fn value_mut(&mut self) -> Option<&mut Payload> {
        self.record.value_mut()
    }
}

impl Valued for PutItem {
    fn value(&self) -> Option<&Payload> {
        self.value.as_ref()
    }

    fn value_mut(&mut self) -> Option<&mut Payload> {
        self.value.as_mut()
    }
}

impl Valued for PutIfItem {
    fn value(&self) -> Option<&Payload> {
        self.item.value()
    }

    fn value_mut(&mut self) -> Option<&mut Payload> {
        self.item.value_mut()
    }
}

impl Valued for Answer {
    fn value(&self) -> Option<&Payload> {
        if let Answer::Found { value, .. } = self { Some(value) } else { None }
    }

    fn value_mut(&mut self) -> Option<&mut Payload> {
        if let Answer::Found { value, .. } = self { Some(value) } else { None }
    }
}

impl Valued for (Key, Answer) {
    fn value(&self) -> Option<&Payload> {
        self.1.value()
    }

    fn value_mut(&mut self) -> Option<&mut Payload> {
        self.1.value_mut()
    }
}

/// By hand, since all are as long: a code and the number of copies, 0 if the answer has none.
impl Field for PutAnswer {
    const BYTES_MIN: usize = 2;

    #[inline]
    fn bytes(_: &PutAnswer) -> usize {
        2
    }

    #[inline]
    fn put<'a>(answer: &'a PutAnswer, head: &mut impl BufMut) -> Option<&'a Payload> {
        let (code, copies) = match *answer {
            PutAnswer::Stored(copies) => (0, copies),
            PutAnswer::Elsewhere => (1, 0),
            PutAnswer::TooLarge => (2, 0),
            PutAnswer::OverQuota => (3, 0),
            PutAnswer::Unreplicated => (4, 0),
            PutAnswer::Superseded => (5, 0),
            PutAnswer::Busy => (6, 0),
            PutAnswer::Unsettled => (7, 0),
            PutAnswer::Short(copies) => (8, copies),
        };
        head.put_slice(&[code, copies]);
        None
    }

    fn take(bytes: &mut Bytes, _: &'static str) -> Result<PutAnswer, DecodeError> {
        let (code, copies) = (take_u8(bytes)?, take_u8(bytes)?);
        let out_of_range =
            |field, value: u8| Err(DecodeError::OutOfRange { field, value: value.into() });
        if !matches!(code, 0 | 8) && copies != 0 {
            return out_of_range("copies", copies);
        }
        Ok(match code {
            0 => PutAnswer::Stored(copies),
            1 => PutAnswer::Elsewhere,
            2 => PutAnswer::TooLarge,
            3 => PutAnswer::OverQuota,
            4 => PutAnswer::Unreplicated,
            5 => PutAnswer::Superseded,
            6 => PutAnswer::Busy,
            7 => PutAnswer::Unsettled,
            8 => PutAnswer::Short(copies),
            code => return out_of_range("put answer", code),
        })
    }

    fn any(rng: &mut Rng) -> PutAnswer {
        let code = rng.below(9) as u8;
        let copies = if matches!(code, 0 | 8) { u8::any(rng) } else { 0 };
        PutAnswer::take(&mut Bytes::from(vec![code, copies]), "answer").expect("a code in range")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.count, self.by)
    }
}

/// What is no [`Version`]: expected is the form of its `Display`, `v3.17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidVersion;

impl fmt::Display for InvalidVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a version as `get` prints it, such as v3.17")
    }
}

impl std::error::Error for InvalidVersion {}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Version, InvalidVersion> {
        let parts = text.strip_prefix('v').and_then(|rest| rest.split_once('.'));
        let (count, by) = parts.ok_or(InvalidVersion)?;
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().map_err(|_| InvalidVersion),
            false => Err(InvalidVersion),
        };
        Ok(Version { count: number(count)?, by: number(by)? })
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Absent => f.write_str("absent"),
            Expect::Version(version) => version.fmt(f),
        }
    }
}

impl fmt::Display for ScanAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScanAnswer::Page { is_whole: true, .. } => "page",
            ScanAnswer::Page { is_whole: false, .. } => "page, more here",
            ScanAnswer::Elsewhere => "elsewhere",
            ScanAnswer::Busy => "busy",
            ScanAnswer::Unsettled => "unsettled",
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Here => "here",
            Answer::Delivered => "delivered",
            Answer::Found { .. } => "found",
            Answer::Absent => "absent",
            Answer::Later => "later",
            Answer::Again => "again",
            Answer::NoRoute => "no route",
            Answer::Busy => "busy",
            Answer::Unsettled => "unsettled",
        })
    }
}
