//! A file that is written over several runs.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::files::{FileError, keep, open_unlinked, temporary};

/// The parameters that determine the walks of a file, by name: the graph, the kind of walk, the
/// seed and so on. Only a run with the same parameters resumes a file.
pub type Origin = BTreeMap<String, String>;

/// What to do with the unfinished file of an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// Refuse to overwrite it.
    Refuse,
    /// Resume it; begin a new file if an earlier run left none.
    Resume,
}

/// A file named `.partial` after its own name until it is complete, with a journal, in JSON, of how
/// much of it is valid.
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    out: BufWriter<File>,
    journal: Journal,
    noted_at: Instant,
}

/// The journal of a file. It covers only data that is on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Journal {
    version: u32,
    origin: Origin,
    /// Complete walks, from the first on.
    walks: u64,
    /// Bytes that they take.
    bytes: u64,
}

const VERSION: u32 = 1;

/// How often the journal is written, which bounds the loss of a killed run.
const NOTE_EVERY: Duration = Duration::from_secs(2);

/// Bytes written to the system at once.
const WRITE_BYTES: usize = 1 << 20;

impl PartialFile {
    /// Begins a file, or resumes one.
    pub fn open(path: &Path, origin: &Origin, earlier: Earlier) -> Result<PartialFile, FileError> {
        let partial = behind(path, ".partial");
        let journal_path = behind(&partial, ".json");
        let found = match fs::read(&journal_path) {
            // The journal has no file: it was removed, or a run ended while it completed the file.
            Ok(_) if !partial.exists() => None,
            Ok(text) => Some(Journal::parse(&journal_path, &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileError::system(&journal_path, error)),
        };
        if found.is_some() && earlier == Earlier::Refuse {
            return match File::open(&partial).is_ok_and(|file| !is_free(&file)) {
                true => Err(FileError::content(&partial, TAKEN)),
                false => Err(FileError::Unfinished { path: partial }),
            };
        }
        if let Some(found) = &found {
            found.check(&partial, origin)?;
        }
        let is_new = found.is_none();
        let fresh = || Journal { version: VERSION, origin: origin.clone(), walks: 0, bytes: 0 };
        let journal = found.unwrap_or_else(fresh);
        let file = claim(&partial, &journal)?;
        let out = BufWriter::with_capacity(WRITE_BYTES, file);
        let noted_at = Instant::now();
        let mut file = PartialFile { path: path.to_owned(), partial, out, journal, noted_at };
        if is_new {
            file.note()?;
        }
        Ok(file)
    }

    /// The name that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Walks that it has.
    pub fn walks(&self) -> u64 {
        self.journal.walks
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.journal.bytes == 0
    }

    /// Marks all walks before this one as written. Writes the journal from time to time.
    pub fn set_walks(&mut self, walks: u64) -> Result<(), FileError> {
        self.journal.walks = walks;
        if self.noted_at.elapsed() < NOTE_EVERY {
            return Ok(());
        }
        self.note()
    }

    /// Keeps the unfinished file for a later run, and returns its name.
    pub fn suspend(mut self) -> Result<PathBuf, FileError> {
        self.note()?;
        Ok(self.partial)
    }

    /// Gives the file its name, replacing an earlier one.
    pub fn finish(mut self) -> Result<(), FileError> {
        self.note()?;
        let journal = behind(&self.partial, ".json");
        let renamed = fs::rename(&self.partial, &self.path);
        renamed.map_err(|source| FileError::system(&self.path, source))?;
        fs::remove_file(&journal).map_err(|source| FileError::system(&journal, source))
    }

    /// Synchronises the data, and then writes the journal.
    fn note(&mut self) -> Result<(), FileError> {
        let written = self.out.flush().and_then(|()| self.out.get_ref().sync_data());
        written.map_err(|source| FileError::system(&self.partial, source))?;
        let path = behind(&self.partial, ".json");
        let at = |source| FileError::system(&path, source);
        let mut file = temporary(&path)?;
        let text = serde_json::to_vec_pretty(&self.journal).map_err(|error| at(error.into()))?;
        file.write_all(&text).and_then(|()| file.as_file().sync_data()).map_err(at)?;
        keep(&path, file)?;
        self.noted_at = Instant::now();
        Ok(())
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.journal.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Journal {
    fn parse(path: &Path, text: &[u8]) -> Result<Journal, FileError> {
        let wrong = |what: String| {
            let wrong = format!(
                "not a journal of a file of walks ({what}): remove it to start \
                over"
            );
            FileError::content(path, wrong)
        };
        let journal: Journal =
            serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        match journal.version {
            VERSION => Ok(journal),
            version => Err(wrong(format!("version {version}; this build reads {VERSION}"))),
        }
    }

    /// Checks that the file has the same origin.
    fn check(&self, partial: &Path, origin: &Origin) -> Result<(), FileError> {
        let names: std::collections::BTreeSet<&String> =
            self.origin.keys().chain(origin.keys()).collect();
        let value = |of: &Origin, name: &str| of.get(name).cloned().unwrap_or("nothing".into());
        let differing: Vec<String> = names
            .into_iter()
            .map(|name| (name, value(&self.origin, name), value(origin, name)))
            .filter(|(_, there, asked)| there != asked)
            .map(|(name, there, asked)| {
                format!("{name}: the journal has {there}, this job {asked}")
            })
            .collect();
        if differing.is_empty() {
            return Ok(());
        }
        let differing = differing.join("; ");
        let wrong = format!(
            "the journal belongs to another job, which this job cannot resume. \
            {differing}"
        );
        Err(FileError::content(partial, wrong))
    }
}

/// Locks the file for this process, and truncates it to the journal.
fn claim(partial: &Path, journal: &Journal) -> Result<File, FileError> {
    let at = |source| FileError::system(partial, source);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let mut file = open_unlinked(partial, &mut options).map_err(at)?;
    if !is_free(&file) {
        return Err(FileError::content(partial, TAKEN));
    }
    let length = file.metadata().map_err(at)?.len();
    if length < journal.bytes {
        let bytes = journal.bytes;
        let wrong = format!(
            "the file has {length} bytes, and its journal says {bytes}: remove both to start over"
        );
        return Err(FileError::content(partial, wrong));
    }
    file.set_len(journal.bytes).and_then(|()| file.seek(SeekFrom::End(0))).map_err(at)?;
    Ok(file)
}

const TAKEN: &str = "another process is writing to the file";

/// True if this process holds the lock now.
fn is_free(file: &File) -> bool {
    // Not every file system has locks; they only guard against a mistake of the user.
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

fn behind(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
