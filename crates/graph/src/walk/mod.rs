//! Random walks on one machine, with all its cores.
//!
//! A [`Job`] defines the walks. Walk `k` of the `i`-th source has the number
//! `i * walks_per_source + k`, and takes the path that
//! [`Walker::new`](paceline_proto::walk::Walker::new) of that number and
//! [`Kind::step`](paceline_proto::walk::Kind::step) give: the same with any number of threads, and
//! the same as between servers.
//!
//! A step waits for memory: for the vertex's row, then for an edge of it. So a thread has many
//! walks under way at once, and prefetches the data of each a round before it reads them
//! (`kernel.rs`). Source of the idea: Sun et al., *ThunderRW*, VLDB 2021, step interleaving.
//!
//! ```
//! use paceline_graph::generate::Rmat;
//! use paceline_graph::walk::Job;
//! use paceline_proto::walk::{Kind, Length};
//!
//! let graph = Rmat::new(8).generate(1)?;
//! let job = Job::new(&graph, &Kind::Uniform, Length::Steps(80), 7)?.with_walks_per_source(10);
//! let mut longest = 0;
//! let summary = job.paths(|paths| {
//!     longest = paths.iter().map(|(_, path)| path.len()).fold(longest, usize::max);
//!     Ok::<(), std::convert::Infallible>(())
//! })?;
//! assert_eq!((summary.walks, longest), (2560, 81));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod deliberate;
mod ground;
mod job;
mod kernel;
mod lengths;
mod paths;
mod prefetch;
mod run;
mod tally;
mod waiting;

pub use job::{Job, JobError, Progress, Summary};
pub use paceline_proto::walk::{Chance, Kind, KindError, Length, Node2Vec};

pub use lengths::{ExactLengths, Lengths};
pub use paths::{Paths, Rows};
pub use prefetch::random_reads;
pub(crate) use tally::rank;
pub use tally::{Ranked, WalkEnds};

#[cfg(test)]
mod tests;
