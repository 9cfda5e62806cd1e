//! The jobs of a home.

use std::collections::BTreeMap;

use super::run::Run;

/// The jobs that have begun here and not ended, by the numbers that their walkers carry.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: BTreeMap<u64, Run>,
    is_dirty: bool,
}

impl Runs {
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Run)> {
        self.runs.iter().map(|(&key, run)| (key, run))
    }

    pub(super) fn get(&self, key: u64) -> Option<&Run> {
        self.runs.get(&key)
    }

    /// True if a job may have changed since [`clear_dirty`](Self::clear_dirty). One that has not
    /// needs nothing until a timer of it fires.
    pub(super) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// All jobs have been checked.
    pub(super) fn clear_dirty(&mut self) {
        self.is_dirty = false;
    }

    /// A timer of a job has fired.
    pub(super) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut Run> {
        let run = self.runs.get_mut(&key)?;
        self.is_dirty = true;
        Some(run)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Run> {
        self.is_dirty = true;
        self.runs.values_mut()
    }

    pub(super) fn insert(&mut self, key: u64, run: Run) {
        self.is_dirty = true;
        self.runs.insert(key, run);
    }

    /// Takes out the first job that is so; what becomes of the others does not depend on it.
    pub(super) fn take(&mut self, is_it: impl Fn(&Run) -> bool) -> Option<Run> {
        let (&key, _) = self.runs.iter().find(|(_, run)| is_it(run))?;
        self.runs.remove(&key)
    }
}
