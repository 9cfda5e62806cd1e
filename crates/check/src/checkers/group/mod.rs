//! The ledger of a group with dynamic membership: its views, and the deliveries in each.

mod calm;
mod content;
mod direct;
mod endings;
mod flow;
mod layers;
mod ledger;
mod lives;
mod requests;
mod transmissions;

pub use layers::Layers;
pub use ledger::{GroupLedger, Host, Rule};
pub use requests::RequestTotals;

/// What a part of the ledger found.
type Broken = super::report::Broken<Rule>;
