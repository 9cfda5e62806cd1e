//! The folder in which a local cluster keeps its list of processes and their logs.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paceline_graph::files::open_unlinked;

use super::process::{Process, find};
use crate::error::CliError;
use crate::files::{Persist, failed, replace};
use crate::ui::Ui;

/// Says that `up` made the folder.
const MARKER: &str = ".paceline-cluster";
const MARKER_TEXT: &str = "Made by `paceline up`; `paceline down` removes it.\n";
/// Locked by the command that changes the folder, whose number it holds.
const LOCK: &str = "lock";
const LIST: &str = "nodes.json";
/// How long another command may keep the folder.
const LOCK_WITHIN: Duration = Duration::from_secs(10);
/// How long another command may take to make the folder, or to remove it when it is empty.
const CHANGED_WITHIN: Duration = Duration::from_millis(500);
/// How often to look whether the folder is free.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A cluster's folder, which no other command changes meanwhile.
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder, or takes the one that an earlier `up` made.
    ///
    /// # Errors
    /// If another program made the folder, or another command locks it.
    pub fn make(path: &Path, ui: &Ui) -> Result<Folder, CliError> {
        let begun = Instant::now();
        loop {
            fs::create_dir_all(path).map_err(|error| failed(path, &error))?;
            let real = match path.canonicalize() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                real => real.map_err(|error| failed(path, &error))?,
            };
            let there = names(&real)?;
            if !is_marked(&real) && !there.iter().all(|name| is_of_beginning(&real, name)) {
                // Unless another `up` or `down` has just changed it.
                if names(&real)? == there || begun.elapsed() >= LOCK_WITHIN {
                    return Err(not_ours(path, "name another --cluster or --state"));
                }
                continue;
            }
            let Some(lock) = lock(&real, begun, ui)? else { continue };
            if !is_marked(&real) {
                // What `up` does from here on is in a folder that is its own, whenever it ends.
                replace(&real.join(MARKER), MARKER_TEXT.as_bytes(), Persist::Now)?;
            }
            return Ok(Folder { path: real, _lock: lock });
        }
    }

    /// Takes the folder; `None` if it does not exist.
    ///
    /// # Errors
    /// If `up` did not make it, or another command does not let it go.
    pub fn take(path: &Path, ui: &Ui) -> Result<Option<Folder>, CliError> {
        let begun = Instant::now();
        loop {
            let real = match path.canonicalize() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                real => real.map_err(|error| failed(path, &error))?,
            };
            if !is_marked(&real) {
                let is_nearly_gone = names(&real)?.iter().all(|name| is_of_beginning(&real, name));
                if begun.elapsed() < CHANGED_WITHIN && is_nearly_gone {
                    std::thread::sleep(LOOK_EVERY);
                    continue;
                }
                return Err(not_ours(path, "remove by hand the files that are not needed"));
            }
            if let Some(lock) = lock(&real, begun, ui)? {
                return Ok(Some(Folder { path: real, _lock: lock }));
            }
        }
    }

    /// The processes that run.
    pub fn processes(&self, ui: &Ui) -> Result<Vec<Process>, CliError> {
        processes(&self.path, ui)
    }

    /// Keeps the list of processes.
    pub fn write(&self, processes: &[Process]) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(processes)
            .map_err(|error| CliError::Failed(format!("cannot write JSON: {error}")))?;
        replace(&self.path.join(LIST), text.as_bytes(), Persist::Now)
    }

    /// The log of the process at this port.
    pub fn log(&self, port: u16) -> PathBuf {
        self.path.join(format!("{port}.log"))
    }

    /// Where the process at this port says what it holds.
    pub fn stat(&self, port: u16) -> PathBuf {
        self.path.join(format!("{port}.json"))
    }

    /// Removes what `up` made, and the folder if nothing else is in it. Otherwise the folder stays
    /// one of `up`, and the answer is what else is in it.
    pub fn remove(self) -> Result<Vec<OsString>, CliError> {
        let (ours, others): (Vec<_>, Vec<_>) =
            names(&self.path)?.into_iter().partition(|name| is_ours(&self.path, name));
        for name in ours.iter().filter(|name| *name != LOCK && *name != MARKER) {
            remove_file(&self.path.join(name))?;
        }
        if others.is_empty() {
            remove_file(&self.path.join(MARKER))?;
        }
        // The last step but one: until then the lock keeps other processes from changing the
        // folder.
        remove_file(&self.path.join(LOCK))?;
        if others.is_empty() {
            match fs::remove_dir(&self.path) {
                // Another `up` has begun since the lock was removed.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                removed => removed.map_err(|error| failed(&self.path, &error))?,
            }
        }
        Ok(others)
    }
}

/// The processes of a folder that run: those of its list, and those whose logs are there. The list
/// may be damaged, or lack a process that was started by an `up` that was killed.
pub fn processes(path: &Path, ui: &Ui) -> Result<Vec<Process>, CliError> {
    let Ok(real) = path.canonicalize() else { return Ok(Vec::new()) };
    let logs = logs(&real)?;
    let mut processes = match read(&real) {
        Ok(listed) => listed,
        Err(why) => {
            let list = real.join(LIST);
            if !cfg!(target_os = "linux") {
                return Err(CliError::Input(format!(
                    "{}: {why}: stop its nodes by hand, and remove {}",
                    list.display(),
                    real.display()
                )));
            }
            ui.warn(&format!("{}: {why}; finding nodes by their logs instead", list.display()));
            Vec::new()
        }
    };
    for process in &mut processes {
        process.log = real.join(format!("{}.log", process.address.port()));
    }
    processes.retain(Process::is_running);
    for found in find(&logs) {
        if processes.iter().all(|process| process.pid != found.pid) {
            processes.push(found);
        }
    }
    Ok(processes)
}

/// Reads the list; an error says what is damaged.
fn read(path: &Path) -> Result<Vec<Process>, String> {
    let text = match fs::read(path.join(LIST)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    serde_json::from_slice(&text).map_err(|error| format!("the list of nodes is damaged ({error})"))
}

fn logs(path: &Path) -> Result<Vec<(u16, PathBuf)>, CliError> {
    let log = |name: OsString| Some((port_of(name.to_str()?.strip_suffix(".log")?)?, name));
    let logs = names(path)?.into_iter().filter_map(log);
    Ok(logs.map(|(port, name)| (port, path.join(name))).collect())
}

/// A port as `up` writes it.
fn port_of(text: &str) -> Option<u16> {
    let port: u16 = text.parse().ok()?;
    (port.to_string() == text).then_some(port)
}

/// True if this is a file that `up` or its nodes make.
fn is_ours(path: &Path, name: &OsString) -> bool {
    let is_file = path.join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let Some(name) = name.to_str().filter(|_| is_file) else { return false };
    let name = name.strip_suffix(".new").unwrap_or(name);
    let port = name.strip_suffix(".log").or(name.strip_suffix(".json"));
    matches!(name, MARKER | LOCK | LIST) || port.is_some_and(|port| port_of(port).is_some())
}

/// True of what is in a folder that `up` has just made, or `down` has nearly removed: the mark, or
/// a lock, which holds the number of a process or nothing yet.
fn is_of_beginning(path: &Path, name: &OsString) -> bool {
    let holds_number = || {
        let text = fs::read(path.join(name)).unwrap_or_default();
        text.iter().all(u8::is_ascii_digit)
    };
    match name.to_str().map(|name| name.strip_suffix(".new").unwrap_or(name)) {
        Some(MARKER) => true,
        Some(LOCK) => holds_number(),
        _ => false,
    }
}

fn is_marked(path: &Path) -> bool {
    path.join(MARKER).symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

fn names(path: &Path) -> Result<Vec<OsString>, CliError> {
    let entries = match fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        // `down` has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries.map_err(|error| failed(path, &error))?,
    };
    let mut names: Vec<OsString> = entries.iter().map(fs::DirEntry::file_name).collect();
    names.sort();
    Ok(names)
}

fn not_ours(path: &Path, remedy: &str) -> CliError {
    CliError::Input(format!(
        "{}: `paceline up` did not make this folder (it has no file `{MARKER}`), so it is not \
         changed: {remedy}",
        path.display()
    ))
}

/// Locks the folder; none if it was removed meanwhile, or the lock was.
fn lock(path: &Path, begun: Instant, ui: &Ui) -> Result<Option<File>, CliError> {
    let place = path.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = match open_unlinked(&place, &mut options) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| failed(&place, &error))?,
    };
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(failed(&place, &error)),
            Err(TryLockError::WouldBlock) if ui.is_stopped() => {
                return Err(CliError::Stopped);
            }
            Err(TryLockError::WouldBlock) if begun.elapsed() >= LOCK_WITHIN => {
                let holder = fs::read_to_string(&place).unwrap_or_default();
                return Err(CliError::Input(format!(
                    "{}: process {} (`up` or `down`) is changing this cluster: wait until it ends, \
                     or stop it",
                    path.display(),
                    holder.trim()
                )));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_EVERY),
        }
    }
    if !is_at(&file, &place) {
        return Ok(None);
    }
    let noted = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    noted.map_err(|error| failed(&place, &error))?;
    Ok(Some(file))
}

/// True if this open file still has that name: `down` may have removed it while this waited.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let there = path.symlink_metadata().ok().map(place);
    there.is_some() && there == file.metadata().ok().map(place)
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

fn remove_file(path: &Path) -> Result<(), CliError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
        _ => Ok(()),
    }
}
