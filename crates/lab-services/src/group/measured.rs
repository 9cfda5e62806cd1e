use paceline_lab::world::Outcome;

use super::GroupScenario;
use super::tracks::Tracks;
use crate::chain::Ledger;

/// What a run measured.
pub struct Measured {
    /// The service, with what it noted.
    pub members: GroupScenario,
    /// How it went.
    pub outcome: Outcome,
    /// What messages did, in the simulator.
    pub tracks: Option<Tracks>,
}

impl Measured {
    /// The deliveries of each node.
    pub fn ledger(&self) -> &Ledger {
        self.members.broadcast().ledger()
    }
}
