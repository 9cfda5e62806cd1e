//! How the file of a durable host reaches its disk.

use std::fs;
use std::io;
use std::path::Path;

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};

/// What a durable host needs of a file system besides names and opening; tests give one that fails.
pub trait Storage: Sync {
    /// How the database reads and writes a file.
    type Backend: StorageBackend;

    /// Gives an open file to a database.
    fn backend(&self, file: fs::File) -> Result<Self::Backend, DatabaseError>;

    /// Returns once the names in a folder are on disk. Until then a file that was made or renamed
    /// may be gone after a power failure, though its content was synchronised.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The file system of the machine.
pub struct FileSystem;

impl Storage for FileSystem {
    type Backend = FileBackend;

    fn backend(&self, file: fs::File) -> Result<FileBackend, DatabaseError> {
        FileBackend::new(file)
    }

    #[cfg(unix)]
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }

    /// Elsewhere a folder cannot be opened, and its file system keeps a journal of names.
    #[cfg(not(unix))]
    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }
}
