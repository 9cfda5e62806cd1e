//! Files in folders of the user.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use paceline_graph::files::open_unlinked;

use crate::error::CliError;

/// When a file must be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// Whenever the system writes it.
    Later,
    /// Before it has its name: it outlives a loss of power.
    Now,
}

/// Writes a file whole, under another name first, or leaves the one that is there.
pub fn replace(path: &Path, bytes: &[u8], persist: Persist) -> Result<(), CliError> {
    let new = behind(path, ".new");
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = open_unlinked(&new, options.write(true).create(true).truncate(true))?;
        file.write_all(bytes)?;
        if persist == Persist::Now { file.sync_all() } else { Ok(()) }
    };
    write().map_err(|error| failed(&new, &error))?;
    fs::rename(&new, path).map_err(|error| failed(path, &error))?;
    if persist == Persist::Now {
        sync_folder(path);
    }
    Ok(())
}

/// Puts the name of a file on the disk.
fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Not every system does that for a folder; the file itself is there.
    let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
}

/// Writes what a command was asked to put into a file: whole, or into the device or pipe that is
/// there.
pub fn write_out(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        let written = open_unlinked(path, OpenOptions::new().write(true));
        let written = written.and_then(|mut file| file.write_all(bytes));
        return written.map_err(|error| failed(path, &error));
    }
    replace(path, bytes, Persist::Now)
}

/// The path with something behind its name.
pub fn behind(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// That something was not possible with a file.
pub fn failed(path: &Path, error: &dyn std::error::Error) -> CliError {
    CliError::Failed(format!("{}: {error}", path.display()))
}
