use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::scenario::Diagnostic;

/// Why a scenario, sweep, reproduction or report did not come to its end.
///
/// The variants up to [`LabError::Unsupported`] are the caller's to mend: nothing ran and nothing
/// was written. The others happened while something ran.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// The input is at fault: a scenario file, an override, a name. Prints as a compiler would,
    /// over several lines.
    #[error("{0}")]
    Input(Box<Diagnostic>),
    /// A file of the caller's could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder is not what it was taken for: foreign, of another version, or damaged.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// The folder, or the file in it.
        path: PathBuf,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The place to write to is taken; nothing was overwritten.
    #[error(
        "{} already exists and is not empty; choose another folder or remove it",
        path.display()
    )]
    Exists {
        /// The place.
        path: PathBuf,
    },
    /// The request makes sense, and this build or this world cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// A result could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The run began and failed.
    #[error("{0}")]
    Run(String),
    /// The user stopped it. What had finished is kept.
    #[error("stopped; {finished} of {total} finished and are kept")]
    Stopped {
        /// Pieces of work that finished.
        finished: usize,
        /// Pieces of work that there were.
        total: usize,
    },
    /// The user stopped it before there was anything to keep.
    #[error("stopped before anything was measured")]
    StoppedEarly,
}

impl LabError {
    /// The exit status of a command that ends in this error: 2 if the input is at fault, 1 if what
    /// ran failed.
    pub fn exit_status(&self) -> u8 {
        match self {
            LabError::Input(_)
            | LabError::Read { .. }
            | LabError::Folder { .. }
            | LabError::Exists { .. }
            | LabError::Unsupported(_) => 2,
            LabError::Write { .. }
            | LabError::Run(_)
            | LabError::Stopped { .. }
            | LabError::StoppedEarly => 1,
        }
    }

    /// Adds the path of a file that could not be read to the system's error.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        move |source| LabError::Read { path, source }
    }

    /// Adds the path of a file that could not be written to the system's error.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        move |source| LabError::Write { path, source }
    }

    pub(crate) fn folder(path: &Path, problem: impl Into<String>) -> LabError {
        LabError::Folder { path: path.to_owned(), problem: problem.into() }
    }
}

impl From<Diagnostic> for LabError {
    fn from(diagnostic: Diagnostic) -> LabError {
        LabError::Input(Box::new(diagnostic))
    }
}
