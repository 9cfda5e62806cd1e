//! A file that is not whole yet: its content, and a note of its segments.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paceline_proto::ndn::{Data, Name};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::metadata::segments;
use super::{FetchError, beside};

/// How often the note is written.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How long another process may take to release the lock.
const LOCK_WITHIN: Duration = Duration::from_millis(500);
/// Bytes that are read at once for the digest.
const PART_BYTES: usize = 1 << 18;
/// The format of a note. Other formats are ignored.
const FORMAT: u32 = 1;
/// The longest note that is read: one of a transfer with many gaps.
const NOTE_BYTES_MAX: u64 = 16 << 20;

/// Why a file cannot be written.
#[derive(Debug)]
pub enum PartError {
    /// Another fetch writes it.
    Busy(PathBuf),
    /// An error of the operating system.
    Disk(PathBuf, io::Error),
}

/// The layout of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name of the version.
    pub name: Name,
    /// Bytes of each segment but the last.
    pub segment_bytes: u64,
    /// How many segments, if known.
    pub segments: Option<u64>,
    /// Bytes of the file, if known.
    pub bytes: Option<u64>,
}

/// The note: the received segments.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    format: u32,
    name: String,
    segment_bytes: u64,
    segments: Option<u64>,
    bytes: Option<u64>,
    /// Ranges of segments: the first, and the one after the last.
    had: Vec<(u64, u64)>,
}

/// The result for a file with all of its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It has its final name.
    Whole,
    /// Its digest is not the announced one: it was deleted.
    OtherDigest,
    /// The caller stopped before the digest was known; the file is kept.
    Stopped,
}

/// A file that is not whole yet, locked against other fetches.
#[derive(Debug)]
pub struct Part {
    out: PathBuf,
    path: PathBuf,
    note: PathBuf,
    file: File,
    plan: Plan,
    had: Vec<Range<u64>>,
    received_bytes: u64,
    resumed_bytes: u64,
    saved_at: Instant,
}

impl Part {
    /// Resumes an earlier attempt at the same version, or starts from the beginning.
    pub fn open(out: &Path, plan: Plan, resumes: bool) -> Result<Part, PartError> {
        let (path, note) = (beside(out, ".part"), beside(out, ".part.json"));
        let failed = |source| PartError::Disk(path.clone(), source);
        let file = match open_locked(&path).map_err(failed)? {
            Some(file) => file,
            None => return Err(PartError::Busy(out.to_owned())),
        };
        let mut part = Part {
            out: out.to_owned(),
            path: path.clone(),
            note,
            file,
            plan,
            had: Vec::new(),
            received_bytes: 0,
            resumed_bytes: 0,
            saved_at: Instant::now(),
        };
        let there = part.file.metadata().map_err(failed)?.len();
        if !(resumes && part.take_note(there)?) {
            part.file.set_len(0).map_err(failed)?;
            part.save()?;
        }
        Ok(part)
    }

    /// Loads the note. False if it is invalid or of another object.
    fn take_note(&mut self, there: u64) -> Result<bool, PartError> {
        let opened = open_unlinked(&self.note, OpenOptions::new().read(true));
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file.map_err(|error| PartError::Disk(self.note.clone(), error))?,
        };
        let mut text = String::new();
        if file.take(NOTE_BYTES_MAX).read_to_string(&mut text).is_err() {
            return Ok(false);
        }
        let note = serde_json::from_str::<Note>(&text).ok();
        Ok(note.is_some_and(|note| self.take_up(&note, there)))
    }

    /// Applies a note. False if it is invalid or of another object.
    fn take_up(&mut self, note: &Note, there: u64) -> bool {
        let plan = &self.plan;
        let is_same = note.format == FORMAT
            && note.name == plan.name.to_string()
            && note.segment_bytes == plan.segment_bytes
            && fits(note.segments, plan.segments)
            && fits(note.bytes, plan.bytes);
        let plan = Plan {
            segments: plan.segments.or(note.segments),
            bytes: plan.bytes.or(note.bytes),
            ..plan.clone()
        };
        let (mut before, mut total) = (0, 0u64);
        for &(first, end) in &note.had {
            // The ranges must be disjoint, in order, and within the present file.
            let bytes_to = end.saturating_mul(plan.segment_bytes);
            let is_last = plan.segments == Some(end);
            let bytes_to = if is_last { plan.bytes.unwrap_or(bytes_to) } else { bytes_to };
            let is_within = plan.segments.is_none_or(|segments| end <= segments);
            let is_apart = before == 0 || first > before;
            if !(is_same && is_apart && first < end && is_within && bytes_to <= there) {
                return false;
            }
            total += bytes_to - first * plan.segment_bytes;
            before = end;
        }
        self.had = note.had.iter().map(|&(first, end)| first..end).collect();
        (self.received_bytes, self.resumed_bytes) = (total, total);
        self.plan = plan;
        is_same
    }

    /// Writes a segment in its place.
    pub fn write(&mut self, number: u64, data: &Data) -> Result<(), FetchError> {
        let content = data.content();
        let (bytes, expected) = (content.len() as u64, self.plan.segment_bytes);
        if self.plan.segments.is_none()
            && let Some(last) = data.final_segment()
        {
            self.plan.segments = last.checked_add(1);
        }
        let is_last =
            self.plan.segments.is_some_and(|segments| number.checked_add(1) == Some(segments));
        let is_within = self.plan.segments.is_none_or(|segments| number < segments);
        let fits = is_within && if is_last { bytes <= expected } else { bytes == expected };
        let from = number.checked_mul(expected);
        let total = from.and_then(|from| from.checked_add(bytes));
        let (Some(from), Some(total)) = (from.filter(|_| fits), total) else {
            let name = self.plan.name.clone();
            return Err(FetchError::Uneven { name, segment: number, bytes, expected });
        };
        if is_last {
            if self.plan.bytes.is_some_and(|said| said != total) {
                let (name, expected) =
                    (self.plan.name.clone(), self.plan.bytes.unwrap_or(0) - from);
                return Err(FetchError::Uneven { name, segment: number, bytes, expected });
            }
            self.plan.bytes = Some(total);
        }
        if self.note_had(number) {
            write_at(&self.file, &content.to_bytes(), from).map_err(|e| self.failed(e))?;
            self.received_bytes += bytes;
        }
        Ok(())
    }

    /// Writes the note, if the last one is old enough.
    pub fn save_now_and_then(&mut self) -> Result<(), PartError> {
        if self.saved_at.elapsed() < SAVE_EVERY { Ok(()) } else { self.save() }
    }

    /// Synchronises the file, and then writes the note.
    pub fn save(&mut self) -> Result<(), PartError> {
        self.file.sync_data().map_err(|e| self.failed(e))?;
        let note = Note {
            format: FORMAT,
            name: self.plan.name.to_string(),
            segment_bytes: self.plan.segment_bytes,
            segments: self.plan.segments,
            bytes: self.plan.bytes,
            had: self.had.iter().map(|range| (range.start, range.end)).collect(),
        };
        let text = serde_json::to_string(&note).expect("numbers and text are JSON");
        replace(&self.note, &beside(&self.out, ".part.json.new"), text.as_bytes())?;
        self.saved_at = Instant::now();
        Ok(())
    }

    /// Completes the file: if its digest is this, or none was announced, the file gets its final
    /// name. If the digest differs, deletes the file. Takes a while for a large file.
    pub fn finish(
        mut self,
        digest: Option<[u8; 32]>,
        is_stopped: impl Fn() -> bool,
    ) -> Result<Finished, PartError> {
        let bytes = self.bytes();
        self.file.set_len(bytes).map_err(|e| self.failed(e))?;
        if let Some(expected) = digest {
            let Some(digest) = self.digest(is_stopped).map_err(|e| self.failed(e))? else {
                self.save()?;
                return Ok(Finished::Stopped);
            };
            if digest != expected {
                // With the note gone, the next attempt starts from the beginning.
                let removed = std::fs::remove_file(&self.note);
                removed.map_err(|e| PartError::Disk(self.note.clone(), e))?;
                std::fs::remove_file(&self.path).map_err(|e| self.failed(e))?;
                return Ok(Finished::OtherDigest);
            }
        }
        self.file.sync_all().map_err(|e| self.failed(e))?;
        std::fs::rename(&self.path, &self.out)
            .map_err(|source| PartError::Disk(self.out.clone(), source))?;
        // A leftover note is harmless.
        let _ = std::fs::remove_file(&self.note);
        Ok(Finished::Whole)
    }

    /// The path of the finished file.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// The layout, as far as it is known.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many segments there are, if known.
    pub fn segments(&self) -> Option<u64> {
        let of_bytes = |bytes| segments(bytes, self.plan.segment_bytes);
        self.plan.segments.or(self.plan.bytes.map(of_bytes))
    }

    /// The received segments, in order.
    pub fn had(&self) -> Vec<Range<u64>> {
        self.had.clone()
    }

    /// Bytes received; the size of the file, once it is complete.
    pub fn bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Of these, bytes from an earlier attempt.
    pub fn resumed_bytes(&self) -> u64 {
        self.resumed_bytes
    }

    /// Marks a segment as received; false if it already was.
    fn note_had(&mut self, number: u64) -> bool {
        let place = self.had.partition_point(|range| range.end < number);
        match self.had.get_mut(place) {
            Some(range) if range.contains(&number) => return false,
            Some(range) if range.end == number => range.end += 1,
            Some(range) if range.start == number + 1 => {
                range.start = number;
                return true;
            }
            _ => {
                self.had.insert(place, number..number + 1);
                return true;
            }
        }
        if self.had.get(place + 1).is_some_and(|next| next.start == self.had[place].end) {
            self.had[place].end = self.had.remove(place + 1).end;
        }
        true
    }

    /// `None` if the caller stopped it.
    fn digest(&mut self, is_stopped: impl Fn() -> bool) -> io::Result<Option<[u8; 32]>> {
        use std::io::Seek;

        self.file.rewind()?;
        let (mut sha, mut part) = (Sha256::new(), vec![0; PART_BYTES]);
        while !is_stopped() {
            match self.file.read(&mut part)? {
                0 => return Ok(Some(sha.finalize().into())),
                read => sha.update(&part[..read]),
            }
        }
        Ok(None)
    }

    fn failed(&self, source: io::Error) -> PartError {
        PartError::Disk(self.path.clone(), source)
    }
}

/// Opens a file, but never through a symbolic link: in a folder where others may create files, a
/// link could redirect the output into a file of their choice.
fn open_unlinked(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let is_link = || path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let refused = || {
        let wrong = "refusing to write through a symbolic link: remove it, or fetch into another \
                     file";
        io::Error::new(io::ErrorKind::InvalidInput, wrong)
    };
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NOFOLLOW);
    #[cfg(not(unix))]
    if is_link() {
        return Err(refused());
    }
    options.open(path).map_err(|error| if is_link() { refused() } else { error })
}

/// Opens a file and locks it; `None` if another process holds the lock.
fn open_locked(path: &Path) -> io::Result<Option<File>> {
    let tried_at = Instant::now();
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_unlinked(path, &mut options)?;
        match file.try_lock() {
            // A process that is about to end, or was just forked, releases it in a moment.
            Err(TryLockError::WouldBlock) if tried_at.elapsed() < LOCK_WITHIN => {
                std::thread::sleep(LOCK_WITHIN / 16);
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
            // Between the two steps another fetch may have completed it, and renamed it.
            Ok(()) if is_at(&file, path)? => return Ok(Some(file)),
            Ok(()) => {}
        }
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let there = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        there => there?,
    };
    let held = file.metadata()?;
    Ok((held.dev(), held.ino()) == (there.dev(), there.ino()))
}

/// Open files cannot be renamed here, so the file is still at its path.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

/// True if both are equal, or one is unknown.
fn fits(one: Option<u64>, other: Option<u64>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// Writes a file in one piece.
pub fn write_whole(out: &Path, content: &[u8]) -> Result<(), PartError> {
    replace(out, &beside(out, ".part"), content)
}

/// Writes a file atomically, under another name first.
fn replace(path: &Path, new: &Path, content: &[u8]) -> Result<(), PartError> {
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = open_unlinked(new, options.write(true).create(true).truncate(true))?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(|source| PartError::Disk(new.to_owned(), source))?;
    std::fs::rename(new, path).map_err(|source| PartError::Disk(path.to_owned(), source))
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], from: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, from)
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut from: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;

    while !bytes.is_empty() {
        let written = file.seek_write(bytes, from)?;
        (bytes, from) = (&bytes[written..], from + written as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
