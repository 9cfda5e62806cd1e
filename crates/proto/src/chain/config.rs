use std::sync::Arc;
use std::time::Duration;

use super::Topology;
use crate::core::knobs::{ABOVE_ZERO, KIB, MIB, knobs};
use crate::core::{ConfigError, View};

knobs! {
    /// The knobs of [`Chain`](super::Chain), shared by all members of a group.
    ///
    /// Block size, window and the largest message must be equal at all members: they bound what a
    /// member accepts.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// Largest block. A longer message is cut: a block is forwarded only when wholly received,
        /// so larger blocks mean more latency a hop.
        block_bytes_max / with_block_bytes_max: usize [bytes] = 64 * KIB, 1..=64 * KIB;
        /// Largest message, of 65,535 blocks at most. Bounds what a receiver assembles for one
        /// origin.
        message_bytes_max / with_message_bytes_max: usize [bytes] = 16 * MIB, 1..;
        /// Blocks of one origin that some member's application has not consumed yet, at most. The
        /// default is a whole window of messages of 256 bytes.
        window_blocks / with_window_blocks: usize [blocks] = 4096, 2..=1 << 20;
        /// The same in bytes. At least two blocks, or a pipeline of pairs would stand still. For
        /// each origin a member holds at most this, what its application has not consumed of as
        /// much again, and two messages: one in assembly, one delivered.
        window_bytes / with_window_bytes: usize [bytes] = MIB, 2..;
        /// Bytes of a hop that are under way. Blocks are handed to the driver while less than half
        /// is taken, the others wait for their turn; and a member yields to what it passes on until
        /// another origin has got this much more than itself. Smaller means less latency under
        /// load; larger means fewer wake-ups.
        hop_bytes / with_hop_bytes: usize [bytes] = 32 * KIB, 4..;
        /// Accepted bytes that may wait at their origin, at most, before `try_broadcast` answers
        /// `WouldBlock`. How many may wait below that is a matter of time, see `queue_time`.
        queue_bytes / with_queue_bytes: usize [bytes] = 64 * KIB, 1..;
        /// How long accepted bytes may wait at their origin, at the pace at which own blocks leave.
        /// It adds to the latency under load; less means that the application has to be woken for
        /// fewer messages at a time. Where less than 4 KiB leave within it nothing waits: the next
        /// message is admitted once it can leave at once.
        queue_time / with_queue_time: Duration = Duration::from_micros(500);
        /// A member acknowledges at the latest after this many blocks: to their origin, and to the
        /// sender of a hop. To their origin also after half of `window_bytes`. At most half of
        /// `window_blocks`. However few, none goes to an origin for less than 1,000 bytes of
        /// payload and less than 16 blocks (half of `window_blocks`, if that is less), and none to
        /// the sender of a hop for fewer frames than that: it takes a link for longer than a small
        /// block does.
        ack_blocks / with_ack_blocks: usize [blocks] = 32, 1..=1 << 19;
        /// And at the latest after this time. Acknowledgements return credits and free memory; no
        /// message waits for them while the window is open.
        ack_after / with_ack_after: Duration = Duration::from_millis(50), ACK_AFTER_MIN..;
        /// How long a sender waits for its successor's answer before it asks again where to resume
        /// a broken hop.
        resync_after / with_resync_after: Duration = Duration::from_millis(50), ABOVE_ZERO..;
    }
    with {
        roster: Arc<View> = Arc::new(View::roster([]));
        needs_roster: bool = true;
        topology: Option<Topology> = Some(Topology::Chain);
    }
    rules: Config::rules;
}

/// The least `ack_after`: acknowledgements are not to take a link from what they acknowledge.
const ACK_AFTER_MIN: Duration = Duration::from_micros(100);

impl Config {
    /// The defaults, without a roster: views name the members ([`crate::group`]).
    pub fn for_groups() -> Config {
        Config { needs_roster: false, ..Config::default() }
    }

    /// The defaults, for the members of this roster (view 0).
    pub fn new(roster: View) -> Config {
        Config { roster: Arc::new(roster), ..Config::default() }
    }

    /// The topology of broadcasts that ask for none; `None` lets the planner choose for each
    /// message. Default the chain.
    pub fn with_topology(mut self, topology: Option<Topology>) -> Config {
        self.topology = topology;
        self
    }

    fn rules(&self) -> Result<(), ConfigError> {
        let unless = ConfigError::unless;
        let (members, needs) = (self.roster.len(), self.needs_roster);
        unless(members > 0 || !needs, "roster", members, "at least one member")?;
        let blocks = self.message_blocks_max();
        let message = self.message_bytes_max;
        unless(blocks <= 65_535, "message_bytes_max", message, "at most 65535 blocks")?;
        let (bytes, block) = (self.window_bytes, self.block_bytes_max);
        unless(bytes / 2 >= block, "window_bytes", bytes, "at least two blocks")?;
        let (ack, half) = (self.ack_blocks, self.window_blocks / 2);
        unless(ack <= half, "ack_blocks", ack, "at most half of window_blocks")
    }

    /// The members of view 0.
    pub fn roster(&self) -> &Arc<View> {
        &self.roster
    }

    /// The topology of broadcasts that ask for none; `None` if the planner chooses.
    pub fn topology(&self) -> Option<Topology> {
        self.topology
    }

    /// Blocks of the largest message.
    pub fn message_blocks_max(&self) -> usize {
        self.message_bytes_max.div_ceil(self.block_bytes_max)
    }
}
