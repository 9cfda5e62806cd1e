use paceline_lab::world::Outcome;
use paceline_proto::mircc::Algorithm;

use super::ledger::Ledger;
use super::settings::Settings;
use super::windows::Held;

/// What a run measured.
pub struct Measured {
    /// What the scenario does and measures.
    pub settings: Settings,
    /// What flows received.
    pub ledger: Ledger,
    /// How it went.
    pub outcome: Outcome,
    /// Its windows, each beside the oracles.
    pub held: Vec<Held>,
}

/// The name of the controller that runs, in ids of figures.
pub(super) fn controller_name(settings: &Settings) -> &'static str {
    match settings.config.controller.algorithm {
        Algorithm::Mircc => "mircc",
        Algorithm::Rcp => "rcp",
    }
}
