//! Storage of records: a state machine inside a node.
//!
//! # Records
//!
//! The responsible node of a key gives each write a version, stores the record and answers once the
//! other replicas hold copies ([`replicate`]). A read that finds nothing asks the other replicas
//! ([`read`]). Replicas compare versions periodically ([`sync`]). An answer may have to wait for
//! the disk ([`persist`]). A key without a record is absent only if no failed node may hold one
//! ([`losses`]). A conditional write asks the other replicas before it is decided
//! ([`conditional`]). A scan asks all neighbours which records they hold ([`scan`]).
//!
//! # Interface
//!
//! Storage does not know how messages travel, nor how tables are kept. Routing gives it inputs,
//! each with a [`Routing`]: the table, which names the responsible node and the replicas of a key,
//! and a list of [`StorageAction`]s, to which storage appends what it asks for: a message to a
//! replica, a look-up of responsible nodes, the answer to a requester. The inputs are
//!
//! - messages and requests: [`Storage::read`], [`Storage::admit_write`] with [`Storage::write`] or
//!   [`Storage::write_if`], [`Storage::scan`], [`Storage::receive_copy`],
//!   [`Storage::receive_fetch`], [`Storage::receive_list`], [`Storage::receive_summary`],
//!   [`Storage::receive_missing`];
//! - answers to what it asked for: [`Storage::copies_answered`], [`Storage::fetched`],
//!   [`Storage::listed`], [`Storage::summary_answered`], [`Storage::owners_found`],
//!   [`Storage::unanswered`];
//! - turns of the timer of upkeep: [`Storage::begin_sync`] and [`Storage::compare_page`],
//!   [`Storage::review_losses`] and [`Storage::retire_losses`];
//! - nodes that failed, answered, or said goodbye: [`Storage::note_loss`],
//!   [`Storage::note_found`], [`Storage::note_empty`], [`Storage::note_goodbye`],
//!   [`Storage::note_named`]; a change of the table: [`Storage::hurry`];
//! - the node's membership: [`Storage::begin_join`], [`Storage::begin_membership`],
//!   [`Storage::end_membership`];
//! - commands of the application: [`Storage::restore`], [`Storage::persisted`],
//!   [`Storage::accept_losses`].

mod conditional;
mod conditional_job;
mod losses;
mod persist;
mod read;
mod read_job;
mod replicate;
mod routing;
mod scan;
mod scan_job;
mod store;
mod sync;

use crate::core::Instant;
use crate::overlay::Key;
use crate::overlay::exchange::Numbered;
use crate::overlay::record::Record;
use conditional::Decided;
use losses::Losses;
use persist::Persisting;
use replicate::Job;
use sync::Sync;

pub(super) use replicate::Admission;
pub(super) use routing::{Routing, StorageAction};
pub use store::{Held, Store};
pub(super) use sync::PAGES;

/// The storage of one node. Takes no memory at a node that only forwards.
#[derive(Default)]
pub(super) struct Storage {
    state: Option<Box<State>>,
}

#[derive(Default)]
struct State {
    store: Store,
    // Reads and writes for requesters that wait for other replicas.
    jobs: Numbered<Job>,
    sync: Sync,
    losses: Losses,
    // What became of the last conditional writes, for those that come again.
    decided: Decided,
    persisting: Persisting,
}

impl Storage {
    /// The records, unless nothing was ever stored and no node failed.
    pub fn store(&self) -> Option<&Store> {
        self.state_if_any().map(|state| &state.store)
    }

    /// True if no record is stored.
    pub fn is_empty(&self) -> bool {
        self.store().is_none_or(Store::is_empty)
    }

    /// Reads and writes that wait for other replicas.
    pub fn jobs_open(&self) -> usize {
        self.state_if_any().map_or(0, |state| state.jobs.len())
    }

    /// Bytes on the heap that are kept between events, without those of records.
    pub fn heap_bytes(&self) -> usize {
        self.state_if_any().map_or(0, |state| size_of::<State>() + state.jobs.heap_bytes())
    }

    /// The table or the records changed: compare soon.
    pub fn hurry(&mut self) {
        self.state().sync.hurry();
    }

    /// Drops all records, and returns how many there were.
    pub fn drop_records(&mut self) -> usize {
        self.state.as_mut().map_or(0, |state| std::mem::take(&mut state.store).len())
    }

    /// The node is no longer a member: drops all but the records.
    pub fn end_membership(&mut self) {
        let state = self.state();
        let jobs = std::mem::take(&mut state.jobs);
        // Late answers to earlier jobs must not match later ones.
        state.jobs.set_first_generation(jobs.unused_generation());
        state.sync = Sync::default();
        state.losses = Losses::default();
        state.decided = Decided::default();
        state.persisting.drop_answers();
    }

    fn state(&mut self) -> &mut State {
        self.state.get_or_insert_default()
    }

    fn state_if_any(&self) -> Option<&State> {
        self.state.as_deref()
    }

    /// The record under a key, as it is stored.
    fn held(&self, key: Key, now: Instant) -> Option<&Held> {
        self.store()?.get(key, now)
    }

    /// The record under a key, as it is sent to others.
    fn record(&self, key: Key, now: Instant) -> Option<Record> {
        self.store()?.record(key, now)
    }
}
