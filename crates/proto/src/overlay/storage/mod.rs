//! Storage of records: writes, reads, comparison of replicas, persistence, and nodes that failed.

pub(super) mod losses;
pub(super) mod persist;
mod read;
mod read_job;
pub(super) mod replicate;
pub(super) mod store;
pub(super) mod sync;
