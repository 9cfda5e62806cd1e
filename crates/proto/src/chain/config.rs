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
        /// Maximum number of blocks of one origin that some member's application has not consumed.
        /// The default is a whole window of messages of 256 bytes.
        window_blocks / with_window_blocks: usize [blocks] = 4096, 2..=1 << 20;
        /// The same in bytes. At least two blocks, or a pipeline of pairs would stall. For each
        /// origin a member holds at most one window of blocks, one window of delivered and
        /// unconsumed data, and two messages: one in assembly, one delivered.
        window_bytes / with_window_bytes: usize [bytes] = MIB, 2..;
        /// Bytes in flight on a hop. The member passes blocks to the driver while less than half of
        /// this is used; other blocks wait. A member also yields to blocks that it forwards until
        /// another origin has sent this much more than itself. Smaller values lower latency under
        /// load; larger ones cause fewer wake-ups.
        hop_bytes / with_hop_bytes: usize [bytes] = 32 * KIB, 4..;
        /// Maximum number of accepted bytes that wait at their origin before `try_broadcast`
        /// returns `WouldBlock`. Below that, `queue_time` limits the queue.
        queue_bytes / with_queue_bytes: usize [bytes] = 64 * KIB, 1..;
        /// Maximum queueing delay of accepted bytes at their origin, at the current send rate of
        /// own blocks. It adds to the latency under load; a smaller value wakes the application for
        /// fewer messages at a time. If less than 4 KiB leave within this time, there is no queue:
        /// the next message is admitted once it can be sent at once. What fills a bundle that waits
        /// for a busy hop is admitted in any case.
        queue_time / with_queue_time: Duration = Duration::from_micros(500);
        /// A member acknowledges at the latest after this many blocks: to their origin, and to the
        /// sender of a hop. To their origin also after half of `window_bytes`. At most half of
        /// `window_blocks`. At any value, an origin gets none for less than 1,000 bytes of payload
        /// and less than 16 blocks (half of `window_blocks`, if that is less), and the sender of a
        /// hop none for fewer frames than that: an acknowledgement takes a link for longer than a
        /// small block.
        ack_blocks / with_ack_blocks: usize [blocks] = 32, 1..=1 << 19;
        /// Maximum delay of an acknowledgement. Acknowledgements return credit and free memory; no
        /// message waits for them while the window is open.
        ack_after / with_ack_after: Duration = Duration::from_millis(50), ACK_AFTER_MIN..;
        /// Time without a reply of the successor after which a sender asks again where to resume a
        /// broken hop.
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

    /// The knobs that must be equal at all members: they bound what a member accepts.
    pub(crate) const TERMS: [&'static str; 4] =
        ["block_bytes_max", "message_bytes_max", "window_blocks", "window_bytes"];

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
