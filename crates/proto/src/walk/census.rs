//! Where a server's walkers have gone.

use super::waits::Waits;

/// Where walkers have gone, all counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Generated here.
    pub generated: u64,
    /// Came from other servers, to go on.
    pub arrived: u64,
    /// Left for other servers, to go on.
    pub departed: u64,
    /// Ended here, wherever their home is.
    pub ended: u64,
    /// Of these, sent home elsewhere.
    pub returned: u64,
    /// Came home from elsewhere.
    pub came_home: u64,
    /// Dropped by the queue before it was full.
    pub dropped_early: u64,
    /// Dropped by the queue because it was full.
    pub dropped_full: u64,
    /// Dropped because no server has the edges that they need.
    pub lost: u64,
    /// Refused: not what a walker can be.
    pub refused: u64,
    /// Marked by the queue.
    pub marked: u64,
    /// Taken from the queue: visits, and the waits for edges that are elsewhere.
    pub visits: u64,
    /// Most walkers in the queue at a time.
    pub queue_max: u64,
    /// Walkers in the queue times the time that they were there, walker-nanoseconds: divided by a
    /// time it is the queue's mean length.
    pub queue_area: u64,
    /// How long walkers waited for company before they left, on and home.
    pub waits: Waits,
}
