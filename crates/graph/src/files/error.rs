//! Errors of files.

use std::path::{Path, PathBuf};

use paceline_proto::walk::GraphError;
use thiserror::Error;

use crate::Printable;

/// Why a graph cannot be read from a file or written to one. No partial result is left.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Compressed data is damaged or ends too early.
    #[error("{}: damaged or truncated after line {line}: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The last line that could be read whole.
        line: u64,
        /// What the decompressor says.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{}: line {line}: `{found}`: {wanted}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Its text, or the beginning.
        found: String,
        /// The fault, and what is expected.
        wanted: String,
    },
    /// The content is invalid.
    #[error("{}: {wrong}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The fault, and what is expected.
        wrong: String,
    },
    /// The file is empty.
    #[error("{}: the file has no edges", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An earlier run left an unfinished file, which must not be overwritten.
    #[error(
        "{}: an earlier run left the file unfinished: resume that run, or remove the file and its \
         journal, which has the same name and .json",
        path.display()
    )]
    Unfinished {
        /// The file that is there.
        path: PathBuf,
    },
    /// Its rows are not a valid graph.
    #[error("{}: {source}", path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: GraphError,
    },
}

/// Characters of a line that an error repeats.
const FOUND_CHARACTERS_MAX: usize = 60;

impl FileError {
    pub(crate) fn system(path: &Path, source: std::io::Error) -> FileError {
        FileError::System { path: path.to_owned(), source }
    }

    pub(crate) fn content(path: &Path, wrong: impl Into<String>) -> FileError {
        FileError::Content { path: path.to_owned(), wrong: wrong.into() }
    }

    pub(super) fn line(
        path: &Path,
        line: u64,
        found: &[u8],
        wanted: impl Into<String>,
    ) -> FileError {
        let (path, found, wanted) = (path.to_owned(), excerpt(found), wanted.into());
        FileError::Line { path, line, found, wanted }
    }

    pub(crate) fn without_parquet(path: &Path) -> FileError {
        FileError::content(path, "this program was built without Parquet: other formats work")
    }

    pub(super) fn graph(path: &Path, source: GraphError) -> FileError {
        FileError::Graph { path: path.to_owned(), source }
    }
}

/// How a line begins, for a message: at most `FOUND_CHARACTERS_MAX` characters, with escapes for
/// what would change a terminal's state.
pub(crate) fn excerpt(line: &[u8]) -> String {
    let line = line.trim_ascii();
    // A character has at most four bytes.
    let beginning = &line[..line.len().min(4 * FOUND_CHARACTERS_MAX)];
    let shown = Printable::line(beginning).to_string();
    let mut characters = shown.chars();
    let mut found: String = characters.by_ref().take(FOUND_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        found.push('…');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_by_its_beginning_and_changes_no_terminal() {
        assert_eq!(excerpt(b" 1 2\n"), "1 2");
        assert_eq!(excerpt(b"\x1b[2J\x07 \xff\xc3\xa4"), "\\x1b[2J\\x07 \\xffä");
        let long = excerpt(&[b'x'; 500]);
        assert_eq!(long.chars().count(), FOUND_CHARACTERS_MAX + 1);
        assert!(long.ends_with('…'));
    }
}
