//! Commands of an application to a server of walks, and events to it.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;

use super::census::Census;
use super::chance::{KindError, Length};
use super::flights::{attempt_of, is_same_walk};
use super::kind::Kind;
use super::message::{Stop, Trail};
use crate::graphshare::{GraphCommand, GraphEvent, Vertex};

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

    /// True if there are no sources.
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
    /// The number of the first walk that is wanted: those before it were done earlier.
    pub first: u64,
    /// What of their way walks bring home.
    pub trail: Trail,
    /// The most walks of it under way; [`usize::MAX`] for what the server is set to.
    pub in_flight_max: usize,
}

impl Job {
    /// One uniform walk of this length from each of these sources, which brings home its vertices.
    /// The seed is 0.
    pub fn new(length: Length, sources: Sources) -> Job {
        Job {
            id: JobId(0),
            seed: 0,
            kind: Kind::Uniform,
            length,
            sources,
            walks: 1,
            first: 0,
            trail: Trail::default(),
            in_flight_max: usize::MAX,
        }
    }

    /// Seed of its walks: same seed, same paths. Default 0.
    pub fn with_seed(self, seed: u64) -> Job {
        Job { seed, ..self }
    }

    /// How walks choose edges. Default uniformly.
    pub fn with_kind(self, kind: Kind) -> Job {
        Job { kind, ..self }
    }

    /// Walks from each source. Default 1.
    pub fn with_walks(self, walks: u32) -> Job {
        Job { walks, ..self }
    }

    /// The number of the first walk that is wanted: those before it were done earlier. Default 0.
    pub fn with_first(self, first: u64) -> Job {
        Job { first, ..self }
    }

    /// What of their way walks bring home. Default their vertices.
    pub fn with_trail(self, trail: Trail) -> Job {
        Job { trail, ..self }
    }

    /// The most walks of it under way. Default what the client's configuration says.
    pub fn with_in_flight_max(self, walks: usize) -> Job {
        Job { in_flight_max: walks, ..self }
    }

    /// One more than the number of its last walk.
    pub fn walks_in_all(&self) -> u64 {
        self.sources.len() as u64 * u64::from(self.walks)
    }
}

/// A command of the local application.
#[derive(Clone, Debug)]
pub enum Command {
    /// Do these walks.
    Run(Box<Job>),
    /// Give a job up. What is under way is dropped when it comes home.
    Cancel(JobId),
    /// The application has consumed this many walks of a job.
    Consumed(JobId, usize),
    /// Something about the graph.
    Graph(GraphCommand),
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
    /// The vertices after its source, if its job wants them.
    pub path: Vec<Vertex>,
    /// For each of these, the version of the row that the step to it was taken from, if its job
    /// wants them.
    pub versions: Vec<u32>,
}

/// A walk under way, or lost and waiting to be sent again, as its home knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnderWay {
    /// The application's name for its job.
    pub of: JobId,
    /// The job's number, which its walkers carry.
    pub job: u64,
    /// The name of its latest attempt, which the walker carries.
    pub token: u64,
    /// The walk's number in its job.
    pub walk: u64,
    /// How often it was begun.
    pub attempt: u8,
}

impl UnderWay {
    /// True if a walker with this token is of the same walk: of this attempt or one before it.
    pub fn is_of(&self, token: u64) -> bool {
        is_same_walk(token, self.token) && attempt_of(token) <= self.attempt
    }
}

/// The result of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobReport {
    /// Walks that were requested, without those before the first that is wanted.
    pub walks: u64,
    /// Walks that are done.
    pub finished: u64,
    /// Walks that were given up: too many attempts, or too long.
    pub failed: u64,
    /// Walkers that were generated, all attempts.
    pub generated: u64,
    /// Steps of the walks that are done.
    pub steps: u64,
    /// Walkers that this server itself dropped, and so counted as lost at once.
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

/// A notification to the local application.
#[derive(Clone, Debug)]
pub enum Event {
    /// Walks are done. The application sends [`Command::Consumed`] once it has freed them.
    Walks(JobId, SmallVec<[Walk; 1]>),
    /// A walk failed after this many attempts.
    Failed(JobId, u64, u8),
    /// A job has ended: all its walks are done or given up, or it was cancelled. With where the
    /// walkers of all jobs have gone at this server until then.
    Ended(JobId, Box<JobReport>, Box<Census>),
    /// A job was not begun.
    Refused(JobId, Refusal),
    /// Something about the graph.
    Graph(GraphEvent),
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
    /// A source is not a vertex.
    #[error("source {0} is not a vertex: there are {1}")]
    NoSuchSource(Vertex, u32),
    /// The job has no walks.
    #[error("no walks are asked for: sources and walks are at least 1 each")]
    NoWalks,
    /// All walks are before the first that is wanted.
    #[error("walk {0} is to be the first of {1}")]
    First(u64, u64),
    /// Servers have no graph yet.
    #[error("no servers have been given a graph")]
    NoGraph,
    /// In supersteps only servers have walks of their own.
    #[error("in supersteps a job belongs to a server, and this node has no vertices")]
    NoServer,
    /// Paths that fit no message.
    #[error("walks of {0} steps bring home more than a message holds: {1} steps are the most")]
    TooLong(u32, u32),
}
