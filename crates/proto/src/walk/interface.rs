//! What an application says to a server of walks, and hears from it.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;

use super::graph::Vertex;
use super::kind::{Kind, KindError, Length};
use super::message::Stop;
use super::server::Census;

/// The application's name for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Where walks begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// At each of these neighbouring vertices.
    Range(std::ops::Range<Vertex>),
    /// At each of these.
    List(Arc<[Vertex]>),
}

impl Sources {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Sources::Range(range) => range.len(),
            Sources::List(list) => list.len(),
        }
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The source of this place.
    pub fn vertex(&self, place: usize) -> Vertex {
        match self {
            Sources::Range(range) => range.start + place as Vertex,
            Sources::List(list) => list[place],
        }
    }
}

/// Walks to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The application's name for it.
    pub id: JobId,
    /// Seed of its walks: same seed, same paths.
    pub seed: u64,
    /// How walks choose.
    pub kind: Kind,
    /// When they end.
    pub length: Length,
    /// Where they begin.
    pub sources: Sources,
    /// Walks from each source. Walk `k` of the source at place `i` has the number
    /// `i * walks + k`.
    pub walks: u32,
    /// Whether paths are wanted, or only where walks end.
    pub keeps_paths: bool,
    /// The most walks of it under way; [`usize::MAX`] for what the server is set to.
    pub in_flight_max: usize,
}

/// What the local application asks for.
#[derive(Clone, Debug)]
pub enum Command {
    /// Do these walks.
    Run(Box<Job>),
    /// Give a job up. What is under way is dropped when it comes home.
    Cancel(JobId),
    /// So many walks of a job were consumed.
    Consumed(JobId, usize),
}

/// A walk that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// Its number in its job.
    pub walk: u64,
    /// Where it began.
    pub source: Vertex,
    /// Where it ended.
    pub end: Vertex,
    /// Steps that it took.
    pub steps: u32,
    /// Why it ended.
    pub stop: Stop,
    /// How often it was begun.
    pub attempts: u8,
    /// The vertices after its source, if its job keeps paths.
    pub path: Vec<Vertex>,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobReport {
    /// Walks that were asked for.
    pub walks: u64,
    /// Walks that are done.
    pub finished: u64,
    /// Walks that were given up: too many attempts, or too long.
    pub failed: u64,
    /// Walkers that were generated, all attempts.
    pub generated: u64,
    /// Steps of the walks that are done.
    pub steps: u64,
    /// Walkers that the server itself dropped and heard of at once.
    pub direct: u64,
    /// Walkers that were presumed lost because they took too long.
    pub timeouts: u64,
    /// Walkers that came home after they were given up or no longer needed.
    pub late: u64,
    /// Walkers that came home marked.
    pub marked: u64,
    /// From its beginning to its end.
    pub took: Duration,
}

impl JobReport {
    /// Walkers beyond one for each walk.
    pub fn additional(&self) -> u64 {
        self.generated.saturating_sub(self.walks)
    }
}

/// What the local application is told.
#[derive(Clone, Debug)]
pub enum Event {
    /// Walks are done. It says [`Command::Consumed`] once it has no more need of their room.
    Walks(JobId, SmallVec<[Walk; 1]>),
    /// A walk was given up after so many attempts.
    Failed(JobId, u64, u8),
    /// A job has ended: all its walks are done or given up, or it was cancelled. With where the
    /// walkers of all jobs have gone at this server until then.
    Ended(JobId, Box<JobReport>, Box<Census>),
    /// A job was not begun.
    Refused(JobId, Refusal),
}

/// Why a job was not begun. The application is at fault; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There are as many as there may be.
    #[error("{0} jobs are running, which is the most")]
    TooManyJobs(usize),
    /// A job of this name is running.
    #[error("a job of this name is running")]
    Running,
    /// The kind of walk makes no sense here.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// A source is no vertex.
    #[error("source {0} is no vertex: there are {1}")]
    NoSuchSource(Vertex, u32),
    /// Nothing is asked for.
    #[error("no walks are asked for: sources and walks are at least 1 each")]
    NoWalks,
}
