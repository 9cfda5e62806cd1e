//! The services of this laboratory, for the readers of scenarios and for the worlds.

use paceline_lab::scenario::Catalog;

use crate::counters::SETS;
use crate::kinds::KINDS;
use crate::scenarios::SCENARIOS;

/// All kinds, built-in scenarios and counters.
pub static CATALOG: Catalog = Catalog { kinds: KINDS, scenarios: SCENARIOS, counters: SETS };
