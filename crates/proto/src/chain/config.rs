use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::Topology;
use crate::core::View;

/// The knobs of [`Chain`](super::Chain), shared by all members of a group.
///
/// Block size, window and the largest message must be equal at all members: they bound what a
/// member accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(super) roster: Arc<View>,
    needs_roster: bool,
    pub(super) topology: Option<Topology>,
    pub(super) block_bytes_max: usize,
    pub(super) message_bytes_max: usize,
    pub(super) window_blocks: usize,
    pub(super) window_bytes: usize,
    pub(super) hop_bytes: usize,
    pub(super) queue_bytes: usize,
    pub(super) queue_time: Duration,
    pub(super) ack_blocks: usize,
    pub(super) ack_after: Duration,
    pub(super) resync_after: Duration,
}

/// Why a configuration cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The roster names nobody.
    #[error("the roster has no members")]
    EmptyRoster,
    /// A time is zero: the member would wake without end.
    #[error("{knob} is zero, expected a time above zero")]
    NoTime {
        /// The knob's name.
        knob: &'static str,
    },
    /// A time is too short.
    #[error("{knob} is {value:?}, expected at least {least:?}")]
    TooShort {
        /// The knob's name.
        knob: &'static str,
        /// Its value.
        value: Duration,
        /// The shortest time.
        least: Duration,
    },
    /// A knob is outside its range.
    #[error("{knob} is {value}, expected {expected}")]
    OutOfRange {
        /// The knob's name.
        knob: &'static str,
        /// Its value.
        value: usize,
        /// The range.
        expected: &'static str,
    },
}

/// The least `ack_after`: acknowledgements are not to take a link from what they acknowledge.
const ACK_AFTER_MIN: Duration = Duration::from_micros(100);

impl Config {
    /// The defaults, without a roster: views say who is a member ([`crate::group`]).
    pub fn for_groups() -> Config {
        Config { needs_roster: false, ..Config::new(View::roster([])) }
    }

    /// The defaults, for the members of this roster (view 0).
    pub fn new(roster: View) -> Config {
        Config {
            roster: Arc::new(roster),
            needs_roster: true,
            topology: Some(Topology::Chain),
            block_bytes_max: 64 * 1024,
            message_bytes_max: 16 * 1024 * 1024,
            window_blocks: 4096,
            window_bytes: 1024 * 1024,
            hop_bytes: 32 * 1024,
            queue_bytes: 64 * 1024,
            queue_time: Duration::from_micros(500),
            ack_blocks: 32,
            ack_after: Duration::from_millis(50),
            resync_after: Duration::from_millis(50),
        }
    }

    /// The topology of broadcasts that ask for none; `None` lets the planner choose for each
    /// message. Default the chain.
    pub fn with_topology(mut self, topology: Option<Topology>) -> Config {
        self.topology = topology;
        self
    }

    /// Largest block, bytes. 1 to 65,536, default 65,536. A longer message is cut: a block is
    /// forwarded only when wholly received, so larger blocks mean more latency a hop.
    pub fn with_block_bytes_max(mut self, bytes: usize) -> Config {
        self.block_bytes_max = bytes;
        self
    }

    /// Largest message, bytes. At most 65,535 blocks, default 16 MiB. Bounds what a receiver
    /// assembles for one origin.
    pub fn with_message_bytes_max(mut self, bytes: usize) -> Config {
        self.message_bytes_max = bytes;
        self
    }

    /// Blocks of one origin that some member's application has not consumed yet, at most.
    /// 2 to 1,048,576, default 4,096: a whole window of messages of 256 bytes.
    pub fn with_window_blocks(mut self, blocks: usize) -> Config {
        self.window_blocks = blocks;
        self
    }

    /// The same in bytes. At least two blocks, or a pipeline of pairs would stand still. Default
    /// 1 MiB. For each origin a member holds at most this, what its application has not consumed of
    /// as much again, and two messages: one in assembly, one delivered.
    pub fn with_window_bytes(mut self, bytes: usize) -> Config {
        self.window_bytes = bytes;
        self
    }

    /// Room of a hop, bytes. Blocks are handed to the driver while less than half is taken, the
    /// others wait for their turn; and a member yields to what it passes on until another origin
    /// has got this much more than itself. At least 4, default 32 KiB. Smaller means less latency
    /// under load; more means fewer wake-ups.
    pub fn with_hop_bytes(mut self, bytes: usize) -> Config {
        self.hop_bytes = bytes;
        self
    }

    /// Accepted bytes that may wait at their origin, at most, before `try_broadcast` answers
    /// `WouldBlock`. Default 64 KiB. How many may wait below that is a matter of time, see
    /// [`Config::with_queue_time`].
    pub fn with_queue_bytes(mut self, bytes: usize) -> Config {
        self.queue_bytes = bytes;
        self
    }

    /// How long accepted bytes may wait at their origin, at the pace at which own blocks leave.
    /// Default 500 us. It adds to the latency under load; less means that the application has to be
    /// woken for fewer messages at a time. Where less than 4 KiB leave within it nothing waits: the
    /// next message is admitted once it can leave at once.
    pub fn with_queue_time(mut self, time: Duration) -> Config {
        self.queue_time = time;
        self
    }

    /// A member acknowledges at the latest after this many blocks: to their origin, and to the
    /// sender of a hop. To their origin also after half of `window_bytes`. Default 32.
    /// However few, none goes to an origin for less than 1,000 bytes of payload and less than 16
    /// blocks (half of `window_blocks`, if that is less), and none to the sender of a hop for fewer
    /// frames than that: it takes a link for longer than a small block does.
    pub fn with_ack_blocks(mut self, blocks: usize) -> Config {
        self.ack_blocks = blocks;
        self
    }

    /// And at the latest after this time. Default 50 ms, at least 100 us. Acknowledgements return
    /// credits and free memory; no message waits for them while the window is open.
    pub fn with_ack_after(mut self, after: Duration) -> Config {
        self.ack_after = after;
        self
    }

    /// How long a sender waits for its successor's answer before it asks again where to resume a
    /// broken hop. Default 50 ms.
    pub fn with_resync_after(mut self, after: Duration) -> Config {
        self.resync_after = after;
        self
    }

    /// Checks the knobs against each other.
    pub fn build(self) -> Result<Config, ConfigError> {
        let check = |knob, value: usize, ok: bool, expected| {
            if ok { Ok(()) } else { Err(ConfigError::OutOfRange { knob, value, expected }) }
        };
        if self.needs_roster && self.roster.is_empty() {
            return Err(ConfigError::EmptyRoster);
        }
        let (block, window) = (self.block_bytes_max, self.window_blocks);
        check("block_bytes_max", block, (1..=65_536).contains(&block), "1 to 65536")?;
        let message = self.message_bytes_max;
        let blocks = self.message_blocks_max();
        check("message_bytes_max", message, (1..=65_535).contains(&blocks), "1 to 65535 blocks")?;
        check("window_blocks", window, (2..=1 << 20).contains(&window), "2 to 1048576")?;
        let bytes = self.window_bytes;
        check("window_bytes", bytes, bytes / 2 >= block, "at least two blocks")?;
        check("hop_bytes", self.hop_bytes, self.hop_bytes >= 4, "at least 4")?;
        check("queue_bytes", self.queue_bytes, self.queue_bytes >= 1, "at least 1")?;
        let ack = self.ack_blocks;
        check("ack_blocks", ack, (1..=window / 2).contains(&ack), "1 to half of window_blocks")?;
        let (value, least) = (self.ack_after, ACK_AFTER_MIN);
        if value < least {
            return Err(ConfigError::TooShort { knob: "ack_after", value, least });
        }
        if self.resync_after.is_zero() {
            return Err(ConfigError::NoTime { knob: "resync_after" });
        }
        Ok(self)
    }

    /// The members of view 0.
    pub fn roster(&self) -> &Arc<View> {
        &self.roster
    }

    /// The topology of broadcasts that ask for none; `None` if the planner chooses.
    pub fn topology(&self) -> Option<Topology> {
        self.topology
    }

    /// Largest message, bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    /// Largest block, bytes.
    pub fn block_bytes_max(&self) -> usize {
        self.block_bytes_max
    }

    /// Blocks of the largest message.
    pub fn message_blocks_max(&self) -> usize {
        self.message_bytes_max.div_ceil(self.block_bytes_max)
    }

    /// Room of a hop, bytes.
    pub fn hop_bytes(&self) -> usize {
        self.hop_bytes
    }

    /// The pause before a broken hop is asked about again.
    pub fn resync_after(&self) -> Duration {
        self.resync_after
    }

    /// Blocks of one origin in flight, at most.
    pub fn window_blocks(&self) -> usize {
        self.window_blocks
    }

    /// Bytes of one origin in flight, at most.
    pub fn window_bytes(&self) -> usize {
        self.window_bytes
    }
}
