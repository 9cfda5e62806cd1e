use std::time::Duration;

use bytes::Bytes;

use super::Key;
use super::record::{Expect, NodeStat, Record, Version};
use crate::core::{MembershipCommand, NodeId, Payload};

/// What the application asks of its node.
#[derive(Clone, Debug)]
pub enum Command {
    /// Enter the overlay, or hand over the stored records and leave it. The first member alone is
    /// responsible for everything.
    Membership(MembershipCommand),
    /// Become a client, which asks members, but forwards and stores nothing. It asks the members
    /// that the driver finds at the addresses of peers.
    Visit {
        /// Where the driver of another node reaches this one.
        address: Bytes,
    },
    /// One bundle.
    Request {
        /// Echoed in [`Event::Outcome`] and [`Event::Rejected`].
        id: u64,
        /// What to do with which keys, at most 1,024 and none twice. Each gets one outcome.
        operation: Operation,
        /// How the bundle travels.
        style: Style,
    },
    /// Records from this node's disk, after a restart: those of [`Event::Persist`], with their
    /// remaining lifetimes. They go to the nodes now responsible; newer versions are not
    /// overwritten.
    Restore {
        /// The records.
        records: Vec<Record>,
    },
    /// Records from [`Event::Persist`] are on disk.
    Persisted {
        /// The number of the last of them: all before it are too.
        number: u64,
    },
    /// Failed nodes will not return, and the stored records are all that remain: a key without a
    /// record is absent, even if only failed nodes may have held it.
    AcceptLosses,
    /// Report the state of this node, by [`Event::Described`].
    Describe {
        /// Echoed.
        id: u64,
    },
}

impl From<MembershipCommand> for Command {
    fn from(command: MembershipCommand) -> Command {
        Command::Membership(command)
    }
}

/// What a request does.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Find the nodes responsible for keys.
    Locate(Vec<Key>),
    /// Read values.
    Get(Vec<Key>),
    /// Write values.
    Put(Vec<Item>),
    /// Write values whose conditions hold.
    PutIf(Vec<(Expect, Item)>),
    /// Remove values.
    Remove(Vec<Key>),
    /// Deliver a payload to the applications of all nodes responsible for these keys, along one
    /// tree: once for each key. A node that several branches reach delivers once per branch.
    Send {
        /// The keys.
        keys: Vec<Key>,
        /// The payload.
        payload: Payload,
    },
    /// Read one page of the records in a range of keys. Its outcome stands under the first key.
    Scan(Scan),
    /// Describe the node responsible for a key.
    Stat(Key),
}

/// A value to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Under which key.
    pub key: Key,
    /// The value.
    pub value: Payload,
    /// How long the value is kept.
    pub lifetime: Duration,
}

/// A page to read: the records in a range of keys, from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The first key.
    pub first: Key,
    /// The last key, at least the first.
    pub last: Key,
    /// The node to ask before the responsible one is looked up: [`Page::more_at`] of the page
    /// before.
    pub at: Option<NodeId>,
}

/// Records of a range of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// All records from the first key of the range to `until`, by ascending key; at most 1,024, and
    /// 64 KiB. Removed ones are left out, so there may be none.
    pub records: Vec<Record>,
    /// The last key of the page: the next one begins after it.
    pub until: Key,
    /// The node that answered, if it has more of the range than the page holds.
    pub more_at: Option<NodeId>,
}

/// The state of the node that is responsible for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// The node.
    pub node: NodeId,
    /// The last key, from the one asked for on, for which it is responsible.
    pub until: Key,
    /// Its state.
    pub stat: NodeStat,
}

/// How a bundle travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Each hop forwards it.
    Recursive,
    /// The requester asks each hop for the next.
    Iterative,
}

/// What a node tells its application.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The node is a member.
    Joined,
    /// The node is a member no longer.
    Left,
    /// The node did not become a member, and no longer tries.
    JoinFailed {
        /// Why.
        reason: JoinFailure,
    },
    /// Outcomes of some keys of a request. Each key is reported once, possibly over several events.
    Outcome {
        /// The request's.
        id: u64,
        /// Keys, each with its outcome.
        outcomes: Vec<(Key, Outcome)>,
    },
    /// A request was not accepted; nothing was sent.
    Rejected {
        /// The request's.
        id: u64,
        /// Why.
        reason: RejectReason,
    },
    /// A payload for the keys of this node.
    Delivered {
        /// The node that sent it.
        origin: NodeId,
        /// The destination keys for which this node is responsible.
        keys: Vec<Key>,
        /// The payload.
        payload: Payload,
    },
    /// The state of the node when [`Command::Describe`] came.
    Described {
        /// The command's.
        id: u64,
        /// The node's role in the overlay.
        role: Role,
        /// Other nodes in its table.
        contacts: usize,
        /// True if the node is a member, its neighbours have not changed for long enough, and fewer
        /// nodes are missing than a record has copies.
        is_settled: bool,
        /// Nodes that failed and are missing: they may hold the only copies of a record.
        missing: usize,
        /// Values stored here.
        values: usize,
        /// Bytes of the stored records, including keys and tombstones.
        bytes: usize,
    },
    /// Write this record to disk, in the place of an older one under its key. Only if the node is
    /// configured to be durable.
    Persist {
        /// The number of records in these events so far, for [`Command::Persisted`].
        number: u64,
        /// The record.
        record: Record,
    },
    /// Erase the record under this key from disk. Only if the node is configured to be durable.
    Erase {
        /// The key.
        key: Key,
    },
}

/// What became of one key of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// This node is responsible.
    Located(NodeId),
    /// The value.
    Found {
        /// Its age.
        version: Version,
        /// The value.
        value: Payload,
    },
    /// There is no value.
    Absent,
    /// The value is written.
    Stored {
        /// The number of replicas that stored it.
        copies: usize,
    },
    /// The value of a conditional write is written.
    StoredAs {
        /// Its version.
        version: Version,
        /// The number of replicas that stored it.
        copies: usize,
    },
    /// The value of a conditional write is not written, and will not be: its condition does not
    /// hold.
    Differs {
        /// The version of the key's value; `None` if the key has no value.
        found: Option<Version>,
    },
    /// The value is removed.
    Removed,
    /// The responsible node has delivered the payload to its application.
    Delivered,
    /// A page of records.
    Page(Box<Page>),
    /// The state of the responsible node.
    Described(Box<NodeDescription>),
    /// It was given up.
    Failed(FailReason),
}

/// Why a key was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// No hop led on.
    NoRoute,
    /// No answer came in time. The request may have been carried out.
    TimedOut,
    /// The value is larger than values may be.
    TooLarge,
    /// The responsible nodes have no room for it.
    OverQuota,
    /// It was to live for no time at all.
    Expired,
    /// Too few nodes took a copy. Reads may find the value nevertheless.
    Unreplicated,
    /// It is written on this many nodes, fewer than [`Config::with_copies_required`] asks for, as
    /// others that would hold it failed. It may be found, and may be lost with the next failure.
    ///
    /// [`Config::with_copies_required`]: super::Config::with_copies_required
    FewCopies {
        /// How many.
        copies: u8,
    },
    /// A later write of this node was there before it.
    Superseded,
    /// An attempt of a conditional write had no answer, and may have been carried out. Either the
    /// condition does not hold now, perhaps because another write has replaced it, or no later
    /// attempt was answered with certainty.
    Indeterminate,
    /// The responsible nodes have too much to do.
    Busy,
    /// Membership near the key kept changing while the request was open, or the only possible
    /// holders failed. No node could confirm that the key has no value, or accept one.
    Unsettled,
    /// The node left, or stopped joining, before an answer came.
    Left,
}

/// Why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The node is no member of the overlay.
    NotMember,
    /// It has no keys, or its range has none.
    Empty,
    /// It has more keys than a bundle may.
    TooManyItems,
    /// It contains a key twice.
    DuplicateKey,
    /// The payload is larger than payloads may be.
    TooLarge,
    /// Too many requests are open.
    Busy,
}

/// Why a node did not become a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinFailure {
    /// The node was given no peers.
    NoPeers,
    /// No node answered as a member.
    Unreachable,
}

/// The role of a node in the overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing.
    Outside,
    /// It learns where it belongs.
    Joining,
    /// It forwards, stores and answers.
    Member,
    /// It still does, and hands over its records.
    Leaving,
    /// It asks, and is no member.
    Client,
}

impl Operation {
    /// The keys, in the order given.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let (keys, items): (&[Key], &[Item]) = match self {
            Operation::Locate(keys) | Operation::Get(keys) | Operation::Remove(keys) => (keys, &[]),
            Operation::Send { keys, .. } => (keys, &[]),
            Operation::Scan(Scan { first: key, .. }) | Operation::Stat(key) => {
                (std::slice::from_ref(key), &[])
            }
            Operation::Put(items) => (&[], items),
            Operation::PutIf(_) => (&[], &[]),
        };
        let conditional = match self {
            Operation::PutIf(items) => &items[..],
            _ => &[],
        };
        let items = items.iter().chain(conditional.iter().map(|(_, item)| item));
        keys.iter().copied().chain(items.map(|item| item.key))
    }
}
