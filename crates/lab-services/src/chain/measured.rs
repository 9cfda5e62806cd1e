use paceline_lab::world::Outcome;

use super::compare::Compared;
use super::ring::Hops;
use super::{Broadcast, Ledger};

/// What a run measured.
pub struct Measured {
    /// The service, with what it noted.
    pub broadcast: Broadcast,
    /// How it went.
    pub outcome: Outcome,
    /// The hops, in the simulator.
    pub hops: Option<Hops>,
    /// Bytes a node and second of sending to each in turn, where a gain is measured.
    pub baseline: Option<f64>,
    /// Runs beside each other, where figures compare them.
    pub compared: Vec<Compared>,
}

impl Measured {
    /// The deliveries of each node.
    pub fn ledger(&self) -> &Ledger {
        self.broadcast.ledger()
    }
}
