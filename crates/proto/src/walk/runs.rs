//! The jobs of a home.

use std::collections::BTreeMap;

use super::run::Run;

/// The jobs that have begun here and not ended, by the numbers that their walkers carry.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: BTreeMap<u64, Run>,
    is_stirred: bool,
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

    /// True if a job may be otherwise than when [`calm`](Self::calm) was called last. Nothing is
    /// to be done for jobs that are not, until their timers come.
    pub(super) fn is_stirred(&self) -> bool {
        self.is_stirred
    }

    /// All that is to be done now is done.
    pub(super) fn calm(&mut self) {
        self.is_stirred = false;
    }

    /// A timer of theirs has come.
    pub(super) fn stir(&mut self) {
        self.is_stirred = true;
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut Run> {
        let run = self.runs.get_mut(&key)?;
        self.is_stirred = true;
        Some(run)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Run> {
        self.is_stirred = true;
        self.runs.values_mut()
    }

    pub(super) fn insert(&mut self, key: u64, run: Run) {
        self.is_stirred = true;
        self.runs.insert(key, run);
    }

    /// Takes out the first job that is so; what becomes of the others does not depend on it.
    pub(super) fn take(&mut self, is_it: impl Fn(&Run) -> bool) -> Option<Run> {
        let (&key, _) = self.runs.iter().find(|(_, run)| is_it(run))?;
        self.runs.remove(&key)
    }
}
