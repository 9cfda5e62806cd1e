use paceline_lab::world::Outcome;

use super::ledger::Ledger;
use super::scenario::Settings;
use super::tree::Tree;

/// What a run measured.
pub struct Measured {
    /// What the scenario does and measures.
    pub settings: Settings,
    /// What became of the keys.
    pub ledger: Ledger,
    /// How it went.
    pub outcome: Outcome,
    /// How bundles spread, in the simulator.
    pub tree: Option<Tree>,
}
