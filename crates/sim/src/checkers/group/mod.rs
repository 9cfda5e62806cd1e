//! The ledger of a group whose members come and go: which views there were, and what was delivered
//! in them.

mod ledger;

pub use ledger::{GroupLedger, Host, Rule};
