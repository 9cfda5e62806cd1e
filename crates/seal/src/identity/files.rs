//! Keys and certificates in files.
//!
//! Files with secrets are made with mode 0600, and refused if others than their owner can read
//! them. No file that exists is overwritten. Each error names the file, the reason, and what mends
//! it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;
use zeroize::Zeroizing;

use super::document::{DocumentError, KeyDocument, KeyDocumentKind, KeyForm, has_secret};

/// The longest file that is read: a revocation list of some 20,000 hosts.
const BYTES_MAX: usize = 1 << 20;
/// The longest file with a secret.
const SECRET_BYTES_MAX: usize = 16 << 10;

/// Who may read a file that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner only.
    Owner,
    /// Anyone whom the system lets.
    Anyone,
}

/// Reads a file of one kind.
///
/// # Errors
/// If it is not there, is of another kind, is damaged, or has a secret that others can read.
pub fn read<T: KeyForm>(path: &Path) -> Result<T, FileError> {
    let document = match read_any(path) {
        Err(FileError::Io { path, error }) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FileError::Missing { path, wanted: T::KIND });
        }
        read => read?,
    };
    let found = document.kind();
    T::from_document(document).ok_or_else(|| FileError::Kind {
        path: path.to_owned(),
        found,
        wanted: T::KIND,
    })
}

/// Reads a file of any kind.
///
/// # Errors
/// If the file is missing or damaged, is of an unknown kind, or has a secret that others can read.
pub fn read_any(path: &Path) -> Result<KeyDocument, FileError> {
    let failed = |error| FileError::Io { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(failed)?;
    // A text that grows while it is read leaves copies behind.
    let length = file.metadata().map_err(failed)?.len();
    let capacity = usize::try_from(length).unwrap_or(BYTES_MAX);
    let mut text =
        Zeroizing::new(String::with_capacity(capacity.clamp(SECRET_BYTES_MAX, BYTES_MAX) + 1));
    let refused = |error| FileError::Document { path: path.to_owned(), error };
    let read = (&mut file).take(BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => refused(DocumentError::Kind),
        _ => failed(error),
    })?;
    if text.len() > BYTES_MAX {
        return Err(FileError::Length { path: path.to_owned() });
    }
    if has_secret(&text) {
        check_mode(path, &file)?;
    }
    KeyDocument::from_pem(&text).map_err(refused)
}

/// Makes a file, which must not exist.
///
/// # Errors
/// If it exists, or cannot be written; then no part of it is left.
pub fn create(path: &Path, text: &str, readers: Readers) -> Result<(), FileError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;

        options.mode(if readers == Readers::Owner { 0o600 } else { 0o644 });
    }
    #[cfg(not(unix))]
    let _ = readers;
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => FileError::Exists { path: path.to_owned() },
        _ => FileError::Io { path: path.to_owned(), error },
    })?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // The first error says more than one of the removal.
        let _ = std::fs::remove_file(path);
        FileError::Io { path: path.to_owned(), error }
    })
}

#[cfg(unix)]
fn check_mode(path: &Path, file: &File) -> Result<(), FileError> {
    use std::os::unix::fs::MetadataExt;

    let failed = |error| FileError::Io { path: path.to_owned(), error };
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(FileError::Mode { path: path.to_owned(), mode });
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_mode(_: &Path, _: &File) -> Result<(), FileError> {
    Ok(())
}

/// Why a file was not read or made.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system says why.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is no such file.
    #[error("{}: no such file; `{}` makes a {wanted}", path.display(), wanted.command())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        wanted: KeyDocumentKind,
    },
    /// There is such a file, which could be the only copy of a key.
    #[error("{}: it exists, and is not overwritten; move it away, or give another name",
        path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Others than its owner can read a secret.
    #[error("{}: not only its owner can read it (mode {mode:03o}); run `chmod 600 {}`",
        path.display(), path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is longer than any file of these kinds.
    #[error("{}: it has more than {BYTES_MAX} bytes; give the file that `paceline key` wrote",
        path.display())]
    Length {
        /// The file.
        path: PathBuf,
    },
    /// It is of another kind than asked for.
    #[error("{}: it is a {found}, and a {wanted} is needed; `{}` makes one",
        path.display(), wanted.command())]
    Kind {
        /// The file.
        path: PathBuf,
        /// What is in it.
        found: KeyDocumentKind,
        /// What should be in it.
        wanted: KeyDocumentKind,
    },
    /// It is damaged, or of no kind.
    #[error("{}: {error}; copy the file that `paceline key` wrote again", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// Why it is refused.
        error: DocumentError,
    },
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::super::{ClusterKey, HostKey};
    use super::*;
    use crate::{Secret, Suite};

    fn said(error: FileError) -> String {
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    }

    #[test]
    fn a_secret_is_made_for_its_owner_and_refused_if_others_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.key");
        let key = HostKey::generate(&Secret::new([1; 32]));
        create(&path, &key.to_pem(), Readers::Owner).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read::<HostKey>(&path).unwrap().id(), key.id());
        for mode in [0o640, 0o604, 0o660, 0o601, 0o777] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let text = said(read_any(&path).unwrap_err());
            assert!(text.contains(&format!("mode {mode:03o}")), "{text}");
            assert!(text.ends_with(&format!("run `chmod 600 {}`", path.display())), "{text}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        assert!(read_any(&path).is_ok());
    }

    #[test]
    fn a_file_that_exists_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.key");
        fs::write(&path, "the only copy").unwrap();
        let text = said(create(&path, "another", Readers::Owner).unwrap_err());
        assert!(text.contains("host.key: it exists"), "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "the only copy");
        // Nor the target of a link that leads nowhere yet.
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        create(&link, "secret", Readers::Owner).unwrap_err();
        assert!(!target.exists());
    }

    #[test]
    fn a_file_that_is_missing_damaged_or_of_another_kind_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("given");
        let text = said(read::<ClusterKey>(&path).unwrap_err());
        assert!(text.contains("given: no such file; `paceline key new` makes a"), "{text}");
        let public = HostKey::generate(&Secret::new([1; 32])).public();
        create(&path, &public.to_pem(), Readers::Anyone).unwrap();
        let text = said(read::<ClusterKey>(&path).unwrap_err());
        let expected = "given: it is a public key of a host, and a cluster key is needed";
        assert!(text.contains(expected), "{text}");
        fs::write(&path, [0xff; 40]).unwrap();
        let text = said(read_any(&path).unwrap_err());
        assert!(text.contains("given: it is no key, certificate or revocation list"), "{text}");
        let key = ClusterKey::generate(Secret::new([1; 32]), Suite::Aes256Gcm).to_pem();
        fs::write(&path, &key[..key.len() / 2]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let text = said(read_any(&path).unwrap_err());
        assert!(text.contains("given: its PEM block is damaged"), "{text}");
        fs::write(&path, "x".repeat(BYTES_MAX + 1)).unwrap();
        let text = said(read_any(&path).unwrap_err());
        assert!(text.contains("more than 1048576 bytes"), "{text}");
    }
}
