//! The outputs of walks: files, and counts.

use std::path::PathBuf;

use paceline_graph::corpus::{Corpus, Earlier, Format, Tops, Visits};
use paceline_graph::files::FileError;
use paceline_graph::walk::{Lengths, Paths};

use super::plan::Plan;
use crate::commands::graph::{failed, writable};
use crate::error::CliError;

/// Which files to write.
#[derive(Debug, clap::Args)]
pub struct OutputArgs {
    /// Write all walks to this file
    #[arg(long, value_name = "FILE", help = OUT_HELP)]
    out: Option<PathBuf>,

    /// Resume the --out file that an earlier run left unfinished (.txt and .csv)
    #[arg(long, requires = "out")]
    resume: bool,

    /// Write to this file at which vertices most walks of each source end, and their share, as CSV
    #[arg(long, value_name = "FILE")]
    ends: Option<PathBuf>,

    /// The number of these vertices for each source
    #[arg(long, value_name = "K", default_value_t = 10, requires = "ends")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    top_k: u32,

    /// Write to this file how often walks visited each vertex, as CSV
    #[arg(long, value_name = "FILE")]
    visits: Option<PathBuf>,
}

/// A build offers the formats that it writes.
#[cfg(not(feature = "parquet"))]
const OUT_HELP: &str = "Write all walks to this file: .txt has a walk a line, as word2vec reads \
    it; .csv a vertex a line; .npy is a NumPy array of int64, a walk a row, -1 after shorter \
    walks; .txt.gz and .csv.gz are compressed";
#[cfg(feature = "parquet")]
const OUT_HELP: &str = "Write all walks to this file: .txt has a walk a line, as word2vec reads \
    it; .csv a vertex a line; .npy is a NumPy array of int64, a walk a row, -1 after shorter \
    walks; .parquet a walk a row; .txt.gz and .csv.gz are compressed";

/// The same formats, for an error.
#[cfg(not(feature = "parquet"))]
const FORMATS: &str = ".txt, .csv or .npy";
#[cfg(feature = "parquet")]
const FORMATS: &str = ".txt, .csv, .npy or .parquet";

impl OutputArgs {
    /// Finds what cannot be written, before a graph is read.
    pub fn check(&self) -> Result<(), CliError> {
        let files = [&self.out, &self.ends, &self.visits];
        let files: Vec<&PathBuf> = files.into_iter().flatten().collect();
        for (place, file) in files.iter().enumerate() {
            writable(file)?;
            if files[..place].contains(file) {
                let wrong = format!("{}: two outputs cannot use the same file", file.display());
                return Err(CliError::Input(wrong));
            }
        }
        let Some(out) = &self.out else { return Ok(()) };
        let wrong = |what: &str| Err(CliError::Input(format!("{}: {what}", out.display())));
        match Format::named(out) {
            None => wrong(&format!(
                "the name has no known ending: expected {FORMATS}, or .gz after the ending of a \
                text format"
            )),
            Some(Format::Parquet) if cfg!(not(feature = "parquet")) => wrong(&format!(
                "this build cannot write Parquet: use {FORMATS}, or build with `--features \
                 paceline-cli/parquet`"
            )),
            Some(_) if self.resume && !Format::is_resumable(out) => {
                wrong("only uncompressed .txt and .csv can be resumed")
            }
            Some(_) => Ok(()),
        }
    }
}

/// Takes walks in the order of their numbers, as blocks of paths; [`Outputs::first`] is the first
/// that is needed. A path without any vertex is of a walk that could not be walked.
pub struct Outputs<'a> {
    corpus: Option<Corpus<'a>>,
    /// Whether another run can go on with it.
    keeps: bool,
    tops: Option<Tops<'a>>,
    visits: Option<Visits<'a>>,
    lengths: Lengths,
}

impl<'a> Outputs<'a> {
    /// Begins all files, or goes on with them.
    pub fn open(args: &'a OutputArgs, plan: &'a Plan) -> Result<Outputs<'a>, CliError> {
        let input = |error: FileError| CliError::Input(error.to_string());
        let ids = &plan.named.ids;
        let tops = args
            .ends
            .as_deref()
            .map(|ends| Tops::create(ends, plan.walks_per_source, args.top_k as usize, ids));
        let tops = tops.transpose().map_err(input)?;
        let visits = args.visits.as_deref().map(|visits| Visits::create(visits, ids));
        let visits = visits.transpose().map_err(input)?;
        // Last: what it begins stays, and wants to be gone on with.
        let corpus = match args.out.as_deref() {
            None => None,
            Some(out) if Format::is_resumable(out) => {
                let earlier = if args.resume { Earlier::Resume } else { Earlier::Refuse };
                let corpus = Corpus::resumable(out, Format::of(out), ids, &plan.origin(), earlier);
                Some(corpus.map_err(|error| explained(&error))?)
            }
            Some(out) => Some(Corpus::create(out, Format::of(out), ids).map_err(input)?),
        };
        let lengths = Lengths::new(plan.seed, plan.asked.length);
        let keeps = args.out.as_deref().is_some_and(Format::is_resumable);
        Ok(Outputs { corpus, keeps, tops, visits, lengths })
    }

    /// Walks that an earlier run has written down.
    pub fn resumed_after(&self) -> u64 {
        self.corpus.as_ref().map_or(0, Corpus::walks)
    }

    /// The number of the first walk that is needed. What is counted over all walks wants all of
    /// them, also those that an earlier run has written down.
    pub fn first(&self) -> u64 {
        if self.tops.is_some() || self.visits.is_some() { 0 } else { self.resumed_after() }
    }

    /// Takes the next walks.
    pub fn append(&mut self, paths: &Paths) -> Result<(), CliError> {
        self.lengths.append(paths);
        if let Some(corpus) = &mut self.corpus {
            corpus.append(paths).map_err(|error| {
                let hint = "\n  = the complete walks are kept: --resume continues once there is \
                    room";
                let hint = if self.keeps { hint } else { "" };
                CliError::Failed(format!("{error}{hint}"))
            })?;
        }
        if let Some(tops) = &mut self.tops {
            tops.append(paths).map_err(|error| failed(&error))?;
        }
        if let Some(visits) = &mut self.visits {
            visits.append(paths);
        }
        Ok(())
    }

    /// Gives all files their names, once all walks have come.
    pub fn finish(self) -> Result<Lengths, CliError> {
        if let Some(corpus) = self.corpus {
            corpus.finish().map_err(|error| failed(&error))?;
        }
        if let Some(tops) = self.tops {
            tops.finish().map_err(|error| failed(&error))?;
        }
        if let Some(visits) = self.visits {
            visits.finish().map_err(|error| failed(&error))?;
        }
        Ok(self.lengths)
    }

    /// Leaves what another run can go on with, under the name that is returned; nothing else.
    pub fn suspend(self) -> Result<(Lengths, Option<PathBuf>), CliError> {
        let kept = self.corpus.map(Corpus::suspend).transpose().map_err(|error| failed(&error))?;
        Ok((self.lengths, kept.flatten()))
    }
}

/// Adds a hint that names the option of the command line.
fn explained(error: &FileError) -> CliError {
    let hint = match error {
        FileError::Unfinished { .. } => "\n  = --resume continues it",
        _ => "",
    };
    CliError::Input(format!("{error}{hint}"))
}
