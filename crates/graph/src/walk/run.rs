//! How threads divide the walks of a job.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use paceline_proto::walk::{Kind, Length, Vertex};

use super::ground::Ground;
use super::job::{Job, JobError, Progress, Summary};
use super::kernel::Kernel;
use super::paths::{Paths, Rows};
use super::waiting::Block;
use crate::memory;

/// Entries of a block of paths; 4 MiB.
const BLOCK_ENTRIES: u64 = 1 << 20;

/// Walks of a block. Fewer would leave a thread without enough of them under way.
const BLOCK_WALKS: std::ops::RangeInclusive<u64> = 64..=1 << 16;

impl Job<'_> {
    /// Hands out all paths, in blocks of a few megabytes in the order of the walks.
    ///
    /// `sink` runs on the calling thread; while it is slow the threads wait, each with at most two
    /// blocks. Its error ends the job and is returned.
    pub fn paths<E>(&self, sink: impl FnMut(&Paths) -> Result<(), E>) -> Result<Summary, E> {
        self.paths_from(0, sink)
    }

    /// Like [`Job::paths`], from walk number `first` on: the rest of a job that was stopped.
    pub fn paths_from<E>(
        &self,
        first: u64,
        mut sink: impl FnMut(&Paths) -> Result<(), E>,
    ) -> Result<Summary, E> {
        let ground = Ground::new(self.graph);
        let blocks = Blocks::new(self, first);
        let threads = self.threads.min(blocks.count() as usize).max(1);
        let (filled, arriving) = mpsc::channel::<(u64, Paths, u64)>();
        let (emptied, spare) = mpsc::channel::<Paths>();
        for _ in 0..2 * threads {
            emptied.send(Paths::empty(0)).expect("its receiver is below");
        }
        let spare = Mutex::new(spare);
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..threads {
                let (filled, ground, spare) = (filled.clone(), &ground, &spare);
                let (blocks, failed) = (&blocks, &failed);
                scope.spawn(move || {
                    loop {
                        // A buffer first and then a block: so the lowest block that is not handed
                        // out yet always has one, and the threads cannot wait for each other.
                        let (mut paths, block) = {
                            let spare = spare.lock().expect("no thread fails with it");
                            if failed.load(Ordering::Relaxed) || self.is_stopped() {
                                return;
                            }
                            let Ok(paths) = spare.recv() else { return };
                            let Some(block) = blocks.next() else { return };
                            (paths, block)
                        };
                        let steps = self.fill(ground, blocks.walks(block), &mut paths);
                        blocks.report(self, block, steps);
                        if filled.send((block, paths, steps)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(filled);
            let mut summary = Summary::default();
            let mut early = BTreeMap::new();
            let mut due = 0;
            // At the return, also after an error, the channel of buffers closes and the threads
            // end.
            let emptied = emptied;
            for (block, paths, steps) in arriving {
                early.insert(block, (paths, steps));
                while let Some((paths, steps)) = early.remove(&due) {
                    if let Err(error) = sink(&paths) {
                        failed.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                    due += 1;
                    summary.walks += paths.len() as u64;
                    summary.steps += steps;
                    // The receiver is gone once the last block is under way.
                    let _ = emptied.send(paths);
                }
            }
            summary.is_complete = summary.walks == self.walks().saturating_sub(first);
            Ok(summary)
        })
    }

    /// All paths at once. Takes 4 bytes for each vertex of each; walks whose length is drawn take 8
    /// more each, and so do all if many sources are dead ends. If the job is stopped, the paths not
    /// walked yet are empty.
    pub fn keep(&self) -> Result<(Paths, Summary), JobError> {
        let ground = Ground::new(self.graph);
        let walks = self.walks();
        // Each may take a place beside its entries, of which it has one at least.
        count_of::<u64>(u128::from(walks) + 1)?;
        let rows = self.rows(0..walks);
        let mut vertices = memory::zeros(count_of::<Vertex>(rows.entries(walks))?);
        let blocks = Blocks::new(self, 0);
        let mut rest = &mut vertices[..];
        let parts: Vec<_> = (0..blocks.count())
            .map(|block| {
                let walks = blocks.walks(block);
                let entries = (rows.entries(walks.end) - rows.entries(walks.start)) as usize;
                let (part, behind) = std::mem::take(&mut rest).split_at_mut(entries);
                rest = behind;
                (block, part)
            })
            .collect();
        let queue = Mutex::new(parts.into_iter());
        let (done, steps) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..self.threads.min(blocks.count() as usize) {
                scope.spawn(|| {
                    let take = || queue.lock().expect("no thread fails with it").next();
                    while let Some((block, part)) = take() {
                        if self.is_stopped() {
                            part.fill(paceline_proto::walk::NOWHERE);
                            continue;
                        }
                        let walks = blocks.walks(block);
                        done.fetch_add(walks.end - walks.start, Ordering::Relaxed);
                        let walks = Block::new(walks, &rows, 0);
                        let taken = Kernel::new(self, &ground).fill(walks, part);
                        blocks.report(self, block, taken);
                        steps.fetch_add(taken, Ordering::Relaxed);
                    }
                });
            }
        });
        let (done, steps) = (done.into_inner(), steps.into_inner());
        let summary = Summary { walks: done, steps, is_complete: done == walks };
        Ok((Paths { first: 0, rows, vertices }, summary))
    }

    /// Hands blocks of paths to threads, each with a state of its own, and returns those states.
    /// Which thread gets which block is not determined.
    pub(super) fn fold<S: Send>(
        &self,
        state: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &Paths) + Sync,
    ) -> (Vec<S>, Summary) {
        let ground = Ground::new(self.graph);
        let blocks = Blocks::new(self, 0);
        let (done, steps) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = || {
            let mut state = state();
            let mut paths = Paths::empty(0);
            while !self.is_stopped()
                && let Some(block) = blocks.next()
            {
                let taken = self.fill(&ground, blocks.walks(block), &mut paths);
                each(&mut state, &paths);
                blocks.report(self, block, taken);
                done.fetch_add(paths.len() as u64, Ordering::Relaxed);
                steps.fetch_add(taken, Ordering::Relaxed);
            }
            state
        };
        let states = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, S>| match thread.join() {
                Ok(state) => state,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        let (done, steps) = (done.into_inner(), steps.into_inner());
        (states, Summary { walks: done, steps, is_complete: done == self.walks() })
    }

    /// Walks these walks into `paths`, and returns the number of steps.
    fn fill(&self, ground: &Ground<'_>, walks: Range<u64>, paths: &mut Paths) -> u64 {
        let count = walks.end - walks.start;
        let first = walks.start;
        (paths.first, paths.rows) = (first, self.rows(walks.clone()));
        paths.vertices.resize(paths.rows.entries(count) as usize, 0);
        let block = Block::new(walks, &paths.rows, first);
        Kernel::new(self, ground).fill(block, &mut paths.vertices)
    }

    /// Where the paths of these walks go: one behind the other, with room for all steps unless the
    /// source is a dead end.
    fn rows(&self, walks: Range<u64>) -> Rows {
        let each = u64::from(self.walks_per_source()).max(1);
        let nths = (walks.start / each) as usize..walks.end.div_ceil(each) as usize;
        let offsets = self.graph.offsets();
        if matches!(self.kind, Kind::Restart(_)) {
            // At a dead end they go back to the source.
            return self.rows_by(walks, each, nths.map(|_| true));
        }
        let leads_on = |row: &[u64]| row[0] < row[1];
        match self.sources {
            None => {
                let offsets = &offsets[nths.start..=nths.end];
                self.rows_by(walks, each, offsets.windows(2).map(leads_on))
            }
            Some(sources) => {
                let row = |&source: &Vertex| leads_on(&offsets[source as usize..][..2]);
                self.rows_by(walks, each, sources[nths].iter().map(row))
            }
        }
    }

    /// The same, with `each` walks from each source, and whether it leads on.
    fn rows_by(
        &self,
        walks: Range<u64>,
        each: u64,
        leads_on: impl Iterator<Item = bool> + Clone,
    ) -> Rows {
        let count = walks.end - walks.start;
        if let Length::Steps(steps) = self.length {
            let idle = leads_on.clone().filter(|leads_on| !leads_on).count() as u128;
            let spared = idle * u128::from(each) * u128::from(steps) * size_of::<Vertex>() as u128;
            if spared <= u128::from(count) * size_of::<u64>() as u128 {
                return Rows::Stride(steps as usize + 1);
            }
        }
        let mut places: Vec<u64> = memory::zeros(count as usize + 1);
        let (mut place, mut walk) = (0, walks.start);
        let mut ends = places[1..].iter_mut();
        for leads_on in leads_on {
            let next = (walk / each + 1) * each;
            for end in ends.by_ref().take((next - walk) as usize) {
                let steps = match self.length {
                    Length::Steps(steps) => steps,
                    Length::Geometric { .. } => self.walker(walk).steps_left,
                };
                // Without a branch, which could not be foreseen.
                place += 1 + u64::from(leads_on) * u64::from(steps);
                *end = place;
                walk += 1;
            }
        }
        Rows::At(places)
    }

    /// Steps of a walk, about.
    fn steps_expected(&self) -> u64 {
        match self.length {
            Length::Steps(steps) => u64::from(steps),
            Length::Geometric { end, steps_max } => {
                (1.0 / end.probability()).min(f64::from(steps_max)) as u64
            }
        }
    }
}

/// Converts a number of entries, if an array can hold them.
fn count_of<T>(entries: u128) -> Result<usize, JobError> {
    let most = isize::MAX as u128 / size_of::<T>() as u128;
    let count = usize::try_from(entries).ok().filter(|_| entries <= most);
    count.ok_or(JobError::TooLong(entries))
}

/// A job's walks in portions for a thread.
struct Blocks {
    first: u64,
    walks: u64,
    walks_per_block: u64,
    next: AtomicU64,
    walks_done: AtomicU64,
    steps_done: AtomicU64,
}

impl Blocks {
    /// Of the walks from number `first` on.
    fn new(job: &Job<'_>, first: u64) -> Blocks {
        let fitting = BLOCK_ENTRIES / (job.steps_expected() + 1);
        let walks_per_block = fitting.clamp(*BLOCK_WALKS.start(), *BLOCK_WALKS.end());
        let walks = job.walks();
        let first = first.min(walks);
        Blocks {
            first,
            walks,
            walks_per_block,
            next: AtomicU64::new(0),
            walks_done: AtomicU64::new(first),
            steps_done: AtomicU64::new(0),
        }
    }

    fn count(&self) -> u64 {
        (self.walks - self.first).div_ceil(self.walks_per_block)
    }

    fn walks(&self, block: u64) -> Range<u64> {
        let first = self.first + block * self.walks_per_block;
        first..(first + self.walks_per_block).min(self.walks)
    }

    fn next(&self) -> Option<u64> {
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        (block < self.count()).then_some(block)
    }

    fn report(&self, job: &Job<'_>, block: u64, steps: u64) {
        let Some(progress) = job.progress else { return };
        let Range { start, end } = self.walks(block);
        let walks = self.walks_done.fetch_add(end - start, Ordering::Relaxed) + (end - start);
        let steps = self.steps_done.fetch_add(steps, Ordering::Relaxed) + steps;
        progress(Progress { walks, walks_total: self.walks, steps });
    }
}
