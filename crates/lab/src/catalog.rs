//! The services of this laboratory, for the readers of scenarios and for the worlds.

use crate::counters::SETS;
use crate::kinds::KINDS;
use crate::scenario::Catalog;
use crate::scenarios::SCENARIOS;

/// All kinds, built-in scenarios and counters.
pub static CATALOG: Catalog = Catalog { kinds: KINDS, scenarios: SCENARIOS, counters: SETS };
