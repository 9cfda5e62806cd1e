//! The walks of a job.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use paceline_proto::walk::{Graph, Kind, KindError, Length, Vertex, Walker};
use thiserror::Error;

/// Walks over a graph: of one kind, the same number from each source.
///
/// A job is lazy: it runs when [`Job::paths`] (a stream of blocks), [`Job::keep`] (all at once),
/// [`Job::ends`] or [`Job::visits`] is called.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub(super) graph: &'a Graph,
    pub(super) kind: &'a Kind,
    pub(super) length: Length,
    seed: u64,
    pub(super) sources: Option<&'a [Vertex]>,
    walks_per_source: u32,
    pub(super) threads: usize,
    stop: Option<&'a AtomicBool>,
    pub(super) progress: Option<&'a (dyn Fn(Progress) + Sync)>,
}

/// Why a job is invalid. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JobError {
    /// Its kind of walk is invalid on this graph.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// The source of a walk is not a vertex of the graph.
    #[error("a walk starts at vertex {0}, but there are only {1} vertices")]
    Source(Vertex, u32),
    /// All paths at once exceed the largest array.
    #[error("paths of {0} vertices in total do not fit memory at once: read them in blocks")]
    TooLong(u128),
}

/// The progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Walks that have ended.
    pub walks: u64,
    /// Walks of the job.
    pub walks_total: u64,
    /// Steps taken.
    pub steps: u64,
}

/// The result of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Walks that were handed out.
    pub walks: u64,
    /// Steps they took.
    pub steps: u64,
    /// False if the job was stopped before its end.
    pub is_complete: bool,
}

impl<'a> Job<'a> {
    /// One walk from each vertex, with as many threads as there are processors.
    pub fn new(
        graph: &'a Graph,
        kind: &'a Kind,
        length: Length,
        seed: u64,
    ) -> Result<Job<'a>, JobError> {
        kind.check(graph.is_labelled())?;
        if length.steps_max() > Length::STEPS_MAX {
            return Err(KindError::Steps(length.steps_max()).into());
        }
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let (sources, stop, progress) = (None, None, None);
        let walks_per_source = 1;
        Ok(Job { graph, kind, length, seed, sources, walks_per_source, threads, stop, progress })
    }

    /// Replaces the sources, in this order. A vertex that occurs twice is two sources.
    pub fn with_sources(self, sources: &'a [Vertex]) -> Result<Job<'a>, JobError> {
        let vertices = self.graph.vertices();
        match sources.iter().find(|&&source| source >= vertices) {
            Some(&source) => Err(JobError::Source(source, vertices)),
            None => Ok(Job { sources: Some(sources), ..self }),
        }
    }

    /// Walks from each source. Default 1; 0 gives no walks.
    pub fn with_walks_per_source(self, walks_per_source: u32) -> Job<'a> {
        Job { walks_per_source, ..self }
    }

    /// Number of threads, at least 1. It does not change the paths.
    pub fn with_threads(self, threads: usize) -> Job<'a> {
        Job { threads: threads.max(1), ..self }
    }

    /// Ends early once this is true, within the time of a block: some milliseconds.
    pub fn with_stop(self, stop: &'a AtomicBool) -> Job<'a> {
        Job { stop: Some(stop), ..self }
    }

    /// Calls this with the progress after each block, from several threads.
    pub fn with_progress(self, progress: &'a (dyn Fn(Progress) + Sync)) -> Job<'a> {
        Job { progress: Some(progress), ..self }
    }

    /// How many walks there are.
    pub fn walks(&self) -> u64 {
        let sources = self.sources.map_or(u64::from(self.graph.vertices()), |s| s.len() as u64);
        sources * u64::from(self.walks_per_source)
    }

    /// How many of them begin at each source.
    pub fn walks_per_source(&self) -> u32 {
        self.walks_per_source
    }

    /// Where a walk begins.
    pub fn source(&self, walk: u64) -> Vertex {
        let source = walk / u64::from(self.walks_per_source);
        self.sources.map_or(source as Vertex, |sources| sources[source as usize])
    }

    #[inline(always)]
    pub(super) fn walker(&self, walk: u64) -> Walker {
        Walker::new(self.seed, walk, self.source(walk), self.length)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}
