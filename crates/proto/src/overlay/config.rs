use std::time::Duration;

use super::record::{HEAD_BYTES_MAX, ITEMS_MAX, MESSAGE_BYTES_MAX};
use super::{Algorithm, Router, Shape, Space};
use crate::core::knobs::{ABOVE_ZERO, MIB, knobs, words};
use crate::core::{ConfigError, NodeId, Terms};
use crate::parts::rtt::Rtt;

/// Whether a node pings the least recently heard node of a full part of its table when it learns of
/// another node that fits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingPolicy {
    /// At most once per received message, for any number of targets.
    Suppressed,
    /// Each time that a message mentions a node, as in the implementation whose messages were
    /// counted (Shudo 2017): the sender and the requester of each bundle, more than once; the
    /// sender of each ping; and, for each target of a result, the node where it ended, a cost that
    /// bundling does not reduce. Requesters enter the table without having been heard from
    /// directly. Sends the most messages.
    EachMention,
    /// Never.
    Off,
}

words! {
    PingPolicy { "suppressed" => Suppressed, "each-mention" => EachMention, "off" => Off }
}

knobs! {
    /// Settings that all nodes of an overlay must share, and their timeouts.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// Nodes that hold a copy of each record; where copies are kept at successors, at most one
        /// more than these ([`Algorithm::copies_max`]).
        copies / with_copies: usize [nodes] = 1, 1..=16;
        /// Whether nodes of full tables are pinged.
        ping / with_ping: PingPolicy = PingPolicy::Suppressed;
        /// Whether results carry the key range of their node, so that the requester contacts it
        /// directly next time. Costs 40 bytes a result.
        has_ranges / with_ranges: bool = false;
        /// Nodes that an iterative look-up of one key by Kademlia asks concurrently: its alpha. A
        /// bundle asks one for each part, and the other algorithms one. The published experiments
        /// ask one; 3 is usual. Multiplies the number of messages by this.
        parallel / with_parallel: u8 [nodes] = 1, 1..=8;
        /// Timeout for the reply of one node. Without a value it follows measured round-trip times,
        /// between 50 ms and `ack_after_max`.
        ack_after / with_ack_after: Option<Duration> = None, ABOVE_ZERO..;
        /// Timeout after which a requester asks for missing results again.
        answer_within / with_answer_within: Duration = Duration::from_secs(3), ABOVE_ZERO..;
        /// Maximum number of requests for a key before it fails, those aside that nodes put off
        /// because they know no route, have too much to do or are not certain. A key fails in any
        /// case after `attempts` times `answer_within`, or the key of a write once a failure near
        /// it must be settled: `upkeep_every_max`, six times `upkeep_every` and 16 timeouts of
        /// one node.
        attempts / with_attempts: u8 [times] = 4, 1..=100;
        /// Interval of table upkeep. Without a value never: for filled tables that do not change;
        /// without pings such tables do not even learn which nodes sent a message.
        upkeep_every / with_upkeep_every: Option<Duration>
            = Some(Duration::from_secs(1)), ABOVE_ZERO..;
        /// Maximum interval of table upkeep, once nothing changes.
        upkeep_every_max / with_upkeep_every_max: Duration = Duration::from_secs(8), ABOVE_ZERO..;
        /// Minimum interval between comparisons of replicas; eight times as long when nothing
        /// changes.
        sync_every / with_sync_every: Duration = Duration::from_secs(4), ABOVE_ZERO..;
        /// Hops that a bundle may make.
        ttl / with_ttl: u8 [hops; library] = 160, 1..=255;
        /// The maximum and initial timeout for the reply of one node.
        ack_after_max / with_ack_after_max: Duration [time; library]
            = Duration::from_secs(2), ABOVE_ZERO..;
        /// Minimum number of copies for a write to succeed after failures of nodes have left fewer
        /// nodes than copies. In an overlay that never had as many nodes, all nodes suffice.
        copies_required / with_copies_required: u8 [nodes; library] = 2, 1..=16;
        /// The largest value.
        value_bytes_max / with_value_bytes_max: usize [bytes; library]
            = VALUE_BYTES_MAX, 0..=VALUE_BYTES_MAX;
        /// Bytes of values and keys that a node stores.
        store_bytes_max / with_store_bytes_max: usize [bytes; library] = 64 * MIB;
        /// Records that a node stores.
        store_records_max / with_store_records_max: usize [records; library] = 1 << 20;
        /// The maximum lifetime of a record; longer lifetimes are reduced to it.
        lifetime_max / with_lifetime_max: Duration [time; library]
            = Duration::from_secs(30 * 24 * 3600), ABOVE_ZERO..=LIFETIME_MAX;
        /// Bytes of values in the answer to one bundle; for the rest the requester has to ask
        /// again.
        answer_bytes_max / with_answer_bytes_max: usize [bytes; library] = MIB;
        /// Maximum number of messages in flight of a node. Beyond it bundles are refused.
        in_flight_max / with_in_flight_max: usize [messages; library] = 16_384, 16..=65_535;
        /// How long a node tries to join.
        join_within / with_join_within: Duration [time; library]
            = Duration::from_secs(30), ABOVE_ZERO..;
        /// How long a leaving node tries to hand over its records.
        leave_within / with_leave_within: Duration [time; library]
            = Duration::from_secs(10), ABOVE_ZERO..;
        /// Whether the node reports records to the application to write to disk.
        is_durable / with_durable: bool [flag; library] = false;
        /// Whether a durable node answers for records only once the application says that they are
        /// on disk ([`Command::Persisted`](super::Command)); the same at all nodes. A write takes
        /// as long as the disk; writes detect a failed node 0.5 s later.
        awaits_disk / with_awaits_disk: bool [flag; library] = false;
        /// Addresses of nodes that a node remembers.
        addresses_max / with_addresses_max: usize [addresses; library] = 8192;
    }
    with {
        space: Space = Space::new(0);
        algorithm: Algorithm = Algorithm::default();
        shape: Shape = Shape::default();
    }
    rules: |config| config.check_sizes();
}

/// The longest lifetime: milliseconds on the wire take four bytes.
const LIFETIME_MAX: Duration = Duration::from_millis(u32::MAX as u64);
/// The shortest wait for the answer of one node, where answers tell how long it is.
const ACK_AFTER_MIN: Duration = Duration::from_millis(50);
/// How often a message is sent to a node that does not answer before the node counts as failed.
pub(super) const SENDS: u8 = 3;
/// How many nodes are tried in the place of a failed one.
pub(super) const CANDIDATES: u8 = 8;
/// Ranges that a requester remembers; about 100 bytes each.
pub(super) const RANGES_MAX: usize = 1024;
/// How long a tombstone is kept: longer than a node that holds the record may be out of reach.
pub(super) const TOMBSTONE_LIFETIME: Duration = Duration::from_secs(600);
/// Requests of the application that may be open.
pub(super) const REQUESTS_MAX: usize = 4096;

impl Config {
    /// The defaults, for an overlay whose nodes lie in this space.
    pub fn new(space: Space) -> Config {
        Config { space, ..Config::default() }
    }

    /// Sizes of routing tables. Default [`Shape::default`].
    pub fn with_shape(mut self, shape: Shape) -> Config {
        self.shape = shape;
        self
    }

    /// How nodes find the node responsible for a key. Default [`Algorithm::Chord`].
    pub fn with_algorithm(mut self, algorithm: Algorithm) -> Config {
        self.algorithm = algorithm;
        self
    }

    // Where copies are kept at successors, the responsible node and its successors must be as many
    // as the copies.
    fn check_sizes(&self) -> Result<(), ConfigError> {
        self.shape.check()?;
        let expected = "at most `successors` + 1 with chord and koorde, which keep copies at \
                        successors";
        let holds = self.copies <= self.algorithm.copies_max(&self.shape);
        ConfigError::unless(holds, "copies", self.copies, expected)
    }

    /// How nodes find the node responsible for a key.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What hosts and clients need alike to agree on where keys are, and on the way to them.
    pub(super) fn terms(&self) -> Terms {
        let terms = match self.space.salt() {
            0 => Terms::default(),
            salt => Terms::default().with("space", salt),
        };
        match self.algorithm {
            Algorithm::Koorde => terms.with_knobs(&self.shape, &["degree"]),
            _ => terms,
        }
    }

    /// The table of node `own`, which knows no other node yet.
    pub fn router(&self, own: NodeId) -> Box<dyn Router> {
        self.algorithm.router(self.space, own, self.shape)
    }

    /// Sizes of routing tables.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How long to wait for the answer of one node.
    pub(super) fn patience(&self, rtt: &Rtt<1_000>) -> Duration {
        self.ack_after.unwrap_or_else(|| rtt.timeout(ACK_AFTER_MIN, self.ack_after_max))
    }

    /// How long neighbours must stay the same to count as the right ones.
    pub(super) fn settle_after(&self, rtt: &Rtt<1_000>) -> Duration {
        3 * self.upkeep_every.unwrap_or_default() + 8 * self.patience(rtt)
    }

    /// For how long others may have a node in their tables after this one missed it first: they
    /// look after it as rarely as `upkeep_every_max`, and tell their neighbours.
    pub(super) fn forgotten_after(&self, rtt: &Rtt<1_000>) -> Duration {
        self.upkeep_every_max + self.settle_after(rtt)
    }

    /// How long a request goes on while nodes put it off. A write outlives a failure near its key:
    /// the responsible node accepts none until no neighbour names the failed node any more.
    pub(super) fn put_off_max(&self, is_write: bool, rtt: &Rtt<1_000>) -> Duration {
        let attempts = self.answer_within * self.attempts.into();
        if !is_write || self.upkeep_every.is_none() {
            return attempts;
        }
        attempts.max(self.settle_after(rtt) + self.forgotten_after(rtt))
    }

    /// Where nodes lie.
    pub fn space(&self) -> Space {
        self.space
    }

    /// The largest bundle, items.
    pub fn items_max(&self) -> usize {
        ITEMS_MAX
    }
}

const VALUE_BYTES_MAX: usize = MESSAGE_BYTES_MAX - HEAD_BYTES_MAX;
