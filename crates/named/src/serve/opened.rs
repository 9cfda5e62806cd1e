//! Open files, by path and version.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use cap_std::fs::{Dir, OpenOptions};

/// Number of files held open: a version that was replaced is still served to consumers that began
/// it.
const OPEN_MAX: usize = 64;

/// A version of a file.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its path when it was opened.
    pub path: PathBuf,
    /// When it was last changed, nanoseconds since 1970.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    file: Arc<File>,
}

impl Version {
    /// Opens the present file; `None` if the path does not exist or is not a file.
    fn open(dir: &Dir, path: &Path) -> Option<Version> {
        // Checked first: opening a pipe would wait for its other end.
        if !dir.metadata(path).ok()?.is_file() {
            return None;
        }
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use cap_std::fs::OpenOptionsExt;
            // No effect on files; a pipe that has just replaced the file does not block.
            options.custom_flags(libc::O_NONBLOCK);
        }
        let file = dir.open_with(path, &options).ok()?.into_std();
        let (number, bytes) = look(&file)?;
        Some(Version { path: path.to_owned(), number, bytes, file: Arc::new(file) })
    }

    /// Reads a part.
    ///
    /// # Errors
    /// If it cannot be read whole, or the file is no longer that version.
    pub fn read(&self, from: u64, into: &mut [u8]) -> io::Result<()> {
        read_exact_at(&self.file, into, from)?;
        // Checked after the read, to detect a change during it.
        if self.is_present() { Ok(()) } else { Err(io::ErrorKind::StaleNetworkFileHandle.into()) }
    }

    /// True if the file has not changed since.
    pub fn is_present(&self) -> bool {
        look(&self.file) == Some((self.number, self.bytes))
    }
}

/// Version and size of an open file; `None` if it is not a file.
fn look(file: &File) -> Option<(u64, u64)> {
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some((u64::try_from(changed.as_nanos()).unwrap_or(u64::MAX), metadata.len()))
}

#[cfg(unix)]
fn read_exact_at(file: &File, into: &mut [u8], from: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, from)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut into: &mut [u8], mut from: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;

    while !into.is_empty() {
        match file.seek_read(into, from)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (into, from) = (&mut into[read..], from + read as u64),
        }
    }
    Ok(())
}

/// The open versions, the most recently used last.
#[derive(Debug, Default)]
pub struct Opened(VecDeque<Version>);

impl Opened {
    /// The present version of a file.
    pub fn latest(&mut self, dir: &Dir, path: &Path) -> Option<Version> {
        let version = Version::open(dir, path)?;
        self.keep(version.clone());
        Some(version)
    }

    /// A version of a file; `None` if it is neither open nor the present one.
    pub fn version(&mut self, dir: &Dir, path: &Path, number: u64) -> Option<Version> {
        let held = self.0.iter().position(|held| held.number == number && held.path == path);
        match held.and_then(|place| self.0.remove(place)) {
            Some(version) => {
                self.0.push_back(version.clone());
                Some(version)
            }
            None => self.latest(dir, path).filter(|latest| latest.number == number),
        }
    }

    /// Forgets a version whose file has changed.
    pub fn forget(&mut self, version: &Version) {
        self.0.retain(|held| held.number != version.number || held.path != version.path);
    }

    fn keep(&mut self, version: Version) {
        self.forget(&version);
        if self.0.len() >= OPEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back(version);
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    fn place() -> (tempfile::TempDir, Dir) {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(place.path(), ambient_authority()).unwrap();
        (place, dir)
    }

    /// Writes a file and gives it a time of change of its own, however coarse the clock is.
    fn write(place: &tempfile::TempDir, name: &str, text: &str, second: u64) {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        let at = UNIX_EPOCH + std::time::Duration::from_secs(second);
        File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
    }

    fn text(version: &Version) -> io::Result<String> {
        let mut bytes = vec![0; version.bytes as usize];
        version.read(0, &mut bytes)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_file_that_is_replaced_is_read_to_its_end_and_one_that_is_changed_is_not() {
        let (place, dir) = place();
        let mut opened = Opened::default();
        write(&place, "a", "one", 1);
        let first = opened.latest(&dir, Path::new("a")).unwrap();
        write(&place, "b", "two!", 2);
        std::fs::rename(place.path().join("b"), place.path().join("a")).unwrap();
        let second = opened.latest(&dir, Path::new("a")).unwrap();
        assert_ne!(first.number, second.number);
        for (version, expected) in [(&first, "one"), (&second, "two!")] {
            let held = opened.version(&dir, Path::new("a"), version.number).unwrap();
            assert_eq!(text(&held).unwrap(), expected);
        }
        write(&place, "a", "2.1!", 3);
        assert!(text(&second).is_err(), "what is read is of another version");
        opened.forget(&second);
        assert!(opened.version(&dir, Path::new("a"), second.number).is_none());
        assert_eq!(text(&opened.latest(&dir, Path::new("a")).unwrap()).unwrap(), "2.1!");
    }

    #[test]
    fn only_so_many_files_are_held_open() {
        let (place, dir) = place();
        let mut opened = Opened::default();
        for number in 0..OPEN_MAX + 9 {
            write(&place, &number.to_string(), "x", 1);
            opened.latest(&dir, Path::new(&number.to_string())).unwrap();
        }
        assert_eq!(opened.0.len(), OPEN_MAX);
        assert!(opened.0.iter().all(|held| held.path != Path::new("0")));
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_within_the_folder_and_nowhere_else() {
        let (place, dir) = place();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        std::fs::create_dir(place.path().join("sub")).unwrap();
        write(&place, "sub/inside", "in", 1);
        let link = |target: &Path, name: &str| {
            std::os::unix::fs::symlink(target, place.path().join(name)).unwrap();
        };
        link(Path::new("sub/inside"), "good");
        link(&outside.path().join("secret"), "file");
        link(outside.path(), "folder");
        link(Path::new("../"), "up");
        let mut opened = Opened::default();
        let mut opens = |path: &str| opened.latest(&dir, Path::new(path)).is_some();
        assert!(opens("good") && opens("sub/inside"));
        let up = format!("up/{}/secret", outside.path().file_name().unwrap().display());
        for path in ["file", "folder/secret", &up, "../x", "/etc/passwd", "sub", "none"] {
            assert!(!opens(path), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_no_file_and_nobody_waits_for_its_other_end() {
        let (place, dir) = place();
        let made = std::process::Command::new("mkfifo").arg(place.path().join("pipe")).status();
        assert!(made.unwrap().success());
        assert!(Opened::default().latest(&dir, Path::new("pipe")).is_none());
    }
}
