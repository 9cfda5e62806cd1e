//! The ledger of a group with dynamic membership: its views, and the deliveries in each.

mod calm;
mod direct;
mod endings;
mod flow;
mod layers;
mod ledger;
mod lives;
mod transmissions;

pub use layers::Layers;
pub use ledger::{GroupLedger, Host, Rule};

/// What a part of the ledger found.
type Broken = super::report::Broken<Rule>;
