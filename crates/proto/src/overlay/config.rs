use std::time::Duration;

use thiserror::Error;

use super::message::{HEAD_BYTES_MAX, ITEMS_MAX, MESSAGE_BYTES_MAX};
use super::{Router, Shape, Space};

/// Whether a node asks the longest silent node of a full part of its table if it is still there,
/// when another that would fit there is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingPolicy {
    /// At most once for each message that comes, however many targets it carries.
    Suppressed,
    /// Each time that a node is named, as in the implementation whose messages were counted
    /// (Shudo 2017): its sender and its requester for each bundle, more than once; whoever pings;
    /// and, for each target of a result, the node where it ended, which is what bundles do not
    /// save. Requesters are taken into the table on the word of others. Costs most messages.
    EachMention,
    /// Never.
    Off,
}

/// What all nodes of an overlay must agree on, and how patient they are.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) space: Space,
    pub(super) shape: Shape,
    pub(super) parallel: u8,
    pub(super) ttl: u8,
    pub(super) ack_after: Option<Duration>,
    pub(super) ack_after_min: Duration,
    pub(super) ack_after_max: Duration,
    pub(super) sends: u8,
    pub(super) candidates: u8,
    pub(super) answer_within: Duration,
    pub(super) attempts: u8,
    pub(super) ping: PingPolicy,
    pub(super) has_ranges: bool,
    pub(super) ranges_max: usize,
    pub(super) copies: u8,
    pub(super) copies_required: u8,
    pub(super) value_bytes_max: usize,
    pub(super) store_bytes_max: usize,
    pub(super) store_records_max: usize,
    pub(super) lifetime_max: Duration,
    pub(super) tombstone_lifetime: Duration,
    pub(super) answer_bytes_max: usize,
    pub(super) in_flight_max: usize,
    pub(super) requests_max: usize,
    pub(super) upkeep_every: Option<Duration>,
    pub(super) upkeep_every_max: Duration,
    pub(super) sync_every: Duration,
    pub(super) join_within: Duration,
    pub(super) leave_within: Duration,
    pub(super) is_durable: bool,
    pub(super) awaits_disk: bool,
    pub(super) addresses_max: usize,
}

/// Why a configuration cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A knob is outside its range.
    #[error("{knob} is {value}, which must be {expected}")]
    OutOfRange {
        /// The knob.
        knob: &'static str,
        /// Its value.
        value: usize,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A time that must pass is zero.
    #[error("{knob} is no time at all")]
    NoTime {
        /// The knob.
        knob: &'static str,
    },
}

macro_rules! knobs {
    ($($(#[$doc:meta])* $with:ident: $field:ident, $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $with(mut self, value: $type) -> Config {
            self.$field = value;
            self
        }
    )*};
}

impl Config {
    /// The defaults, for an overlay whose nodes lie in this space.
    pub fn new(space: Space) -> Config {
        Config {
            space,
            shape: Shape::default(),
            parallel: 1,
            ttl: 160,
            ack_after: None,
            ack_after_min: Duration::from_millis(50),
            ack_after_max: Duration::from_secs(2),
            sends: 3,
            candidates: 8,
            answer_within: Duration::from_secs(3),
            attempts: 4,
            ping: PingPolicy::Suppressed,
            has_ranges: false,
            ranges_max: 1024,
            copies: 1,
            copies_required: 2,
            value_bytes_max: MESSAGE_BYTES_MAX - HEAD_BYTES_MAX,
            store_bytes_max: 64 << 20,
            store_records_max: 1 << 20,
            lifetime_max: Duration::from_secs(30 * 24 * 3600),
            tombstone_lifetime: Duration::from_secs(600),
            answer_bytes_max: 1 << 20,
            in_flight_max: 16_384,
            requests_max: 4096,
            upkeep_every: Some(Duration::from_secs(1)),
            upkeep_every_max: Duration::from_secs(8),
            sync_every: Duration::from_secs(4),
            join_within: Duration::from_secs(30),
            leave_within: Duration::from_secs(10),
            is_durable: false,
            awaits_disk: false,
            addresses_max: 8192,
        }
    }

    knobs! {
        /// Sizes of routing tables. Default [`Shape::default`].
        with_shape: shape, Shape;
        /// Nodes that an iterative look-up of one key by Kademlia asks at once: its alpha. A bundle
        /// asks one for each part, and the other algorithms one. 1 to 8, default 1 as in the
        /// published experiments; 3 is usual. Costs as many times the messages.
        with_parallel: parallel, u8;
        /// Hops that a bundle may make. 1 to 255, default 160.
        with_ttl: ttl, u8;
        /// How long to wait for the answer of one node. Default `None`: by how long answers have
        /// taken so far, between `ack_after_min` and `ack_after_max`.
        with_ack_after: ack_after, Option<Duration>;
        /// The shortest such wait. Default 50 ms.
        with_ack_after_min: ack_after_min, Duration;
        /// The longest, and the first. Default 2 s.
        with_ack_after_max: ack_after_max, Duration;
        /// How often a message is sent to a node that does not answer before the node counts as
        /// gone. 1 to 10, default 3.
        with_sends: sends, u8;
        /// How many nodes are tried in the place of one that is gone. 1 to 8, default 8.
        with_candidates: candidates, u8;
        /// How long a requester waits for results before it asks for the rest again. Default 3 s.
        with_answer_within: answer_within, Duration;
        /// How often a requester asks for a key before it gives it up. 1 to 100, default 4.
        with_attempts: attempts, u8;
        /// Whether nodes of full tables are pinged. Default once for each message.
        with_ping: ping, PingPolicy;
        /// Whether results tell which keys their node is responsible for, so that the requester
        /// goes there directly next time. Costs 40 bytes a result. Default no.
        with_ranges: has_ranges, bool;
        /// Ranges that a requester remembers. At least 1, default 1,024; about 100 bytes each.
        with_ranges_max: ranges_max, usize;
        /// Nodes that hold a copy of each record. 1 to 16, default 1; where copies are kept at
        /// successors, at most one more than these ([`Config::check_for`]).
        with_copies: copies, u8;
        /// On how many nodes a write of this one must be to count as done, where nodes failed and
        /// fewer are left than hold a copy each. Where there never were as many, all there are
        /// suffice. 1 to 16, default 2.
        with_copies_required: copies_required, u8;
        /// The largest value, bytes. At most 64,512, the default.
        with_value_bytes_max: value_bytes_max, usize;
        /// Bytes of values and keys that a node stores. Default 64 MiB.
        with_store_bytes_max: store_bytes_max, usize;
        /// Records that a node stores. Default 1 Mi.
        with_store_records_max: store_records_max, usize;
        /// The longest that a record lives; longer is cut to it. At most 49 days, default 30.
        with_lifetime_max: lifetime_max, Duration;
        /// How long it is remembered that a record was removed: longer than a node that holds the
        /// record may be out of reach. At most 49 days, default 10 minutes.
        with_tombstone_lifetime: tombstone_lifetime, Duration;
        /// Bytes of values in the answer to one bundle; for the rest the requester has to ask
        /// again. Default 1 MiB.
        with_answer_bytes_max: answer_bytes_max, usize;
        /// Messages whose answer a node may wait for. 16 to 65,535, default 16,384. Beyond it
        /// bundles are refused.
        with_in_flight_max: in_flight_max, usize;
        /// Requests of the application that may be open. 1 to 65,535, default 4,096.
        with_requests_max: requests_max, usize;
        /// How often the table is looked after. `None` for never: for tables that were filled and
        /// do not change; without pings they are not even told who was heard from. Default 1 s.
        with_upkeep_every: upkeep_every, Option<Duration>;
        /// How seldom, once nothing changes. Default 8 s.
        with_upkeep_every_max: upkeep_every_max, Duration;
        /// How often, at most, replicas compare what they hold. Default 4 s; eight times as long
        /// when nothing changes.
        with_sync_every: sync_every, Duration;
        /// How long a node tries to join. Default 30 s.
        with_join_within: join_within, Duration;
        /// How long a node that leaves tries to hand over what it holds. Default 10 s.
        with_leave_within: leave_within, Duration;
        /// Whether the application is told what to write to disk. Default no.
        with_durable: is_durable, bool;
        /// Whether a durable node answers for records only once the application says that they are
        /// on disk ([`Command::Persisted`](super::Command)); the same at all nodes. Default no. A
        /// write takes as long as the disk; a node that is gone is noticed 0.5 s later by writes.
        with_awaits_disk: awaits_disk, bool;
        /// Addresses of nodes that a node remembers. Default 8,192.
        with_addresses_max: addresses_max, usize;
    }

    /// Checks the knobs.
    pub fn build(self) -> Result<Config, ConfigError> {
        let ranges = [
            ("ttl", usize::from(self.ttl), 1, 255, "1 to 255"),
            ("parallel", self.parallel.into(), 1, 8, "1 to 8"),
            ("sends", self.sends.into(), 1, 10, "1 to 10"),
            ("candidates", self.candidates.into(), 1, 8, "1 to 8"),
            ("attempts", self.attempts.into(), 1, 100, "1 to 100"),
            ("copies", self.copies.into(), 1, 16, "1 to 16"),
            ("copies_required", self.copies_required.into(), 1, 16, "1 to 16"),
            ("ranges_max", self.ranges_max, 1, usize::MAX, "at least 1"),
            ("in_flight_max", self.in_flight_max, 16, 65_535, "16 to 65535"),
            ("requests_max", self.requests_max, 1, 65_535, "1 to 65535"),
            ("value_bytes_max", self.value_bytes_max, 0, VALUE_BYTES_MAX, "at most 64512"),
        ];
        for (knob, value, least, most, expected) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::OutOfRange { knob, value, expected });
            }
        }
        self.shape.check()?;
        let lifetimes =
            [("lifetime_max", self.lifetime_max), ("tombstone_lifetime", self.tombstone_lifetime)];
        for (knob, time) in lifetimes {
            if time.as_millis() > u128::from(u32::MAX) {
                let value = time.as_secs() as usize;
                let expected = "at most 4294967 seconds";
                return Err(ConfigError::OutOfRange { knob, value, expected });
            }
        }
        let times = [
            ("ack_after", self.ack_after.unwrap_or(Duration::MAX)),
            ("ack_after_min", self.ack_after_min),
            ("ack_after_max", self.ack_after_max),
            ("answer_within", self.answer_within),
            ("lifetime_max", self.lifetime_max),
            ("upkeep_every", self.upkeep_every.unwrap_or(Duration::MAX)),
            ("upkeep_every_max", self.upkeep_every_max),
            ("sync_every", self.sync_every),
            ("join_within", self.join_within),
            ("leave_within", self.leave_within),
        ];
        match times.iter().find(|(_, time)| time.is_zero()) {
            Some(&(knob, _)) => Err(ConfigError::NoTime { knob }),
            None => Ok(self),
        }
    }

    /// Checks the knobs that depend on the algorithm: where copies are kept at successors, the
    /// responsible node and its successors must be as many as the copies.
    pub fn check_for<R: Router>(&self) -> Result<(), ConfigError> {
        if self.copies() > R::copies_max(&self.shape) {
            let (knob, value) = ("copies", self.copies());
            let expected = "at most `successors` + 1 with chord and koorde, which keep copies at \
                            successors";
            return Err(ConfigError::OutOfRange { knob, value, expected });
        }
        Ok(())
    }

    /// Hops that a bundle may make.
    pub fn ttl(&self) -> u8 {
        self.ttl
    }

    /// Whether results tell which keys their node is responsible for.
    pub fn has_ranges(&self) -> bool {
        self.has_ranges
    }

    /// Sizes of routing tables.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Where nodes lie.
    pub fn space(&self) -> Space {
        self.space
    }

    /// Nodes that hold a copy of each record.
    pub fn copies(&self) -> usize {
        self.copies.into()
    }

    /// The largest bundle, items.
    pub fn items_max(&self) -> usize {
        ITEMS_MAX
    }
}

const VALUE_BYTES_MAX: usize = MESSAGE_BYTES_MAX - HEAD_BYTES_MAX;
