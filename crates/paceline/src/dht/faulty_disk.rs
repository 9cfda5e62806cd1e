//! A disk that tears and loses writes, fills, rots and fails, below the files of durable hosts.
//!
//! A process reads and writes real files: they are what the kernel caches. Beside each stands what
//! is on the disk, and what was written since the last synchronisation. A power failure replaces
//! the files by what a disk may hold then.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_proto::core::Rng;
use redb::{DatabaseError, StorageBackend};

use super::storage::Storage;

/// A call of the database on its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    Write,
    SetLen,
    Sync,
}

/// A fault that is to come.
#[derive(Clone, Copy, Debug)]
pub enum DiskFault {
    /// From this write, change of length or synchronisation on nothing reaches the disk.
    PowerFailure { after: u32 },
    /// A file has room up to this byte. The length may be set beyond it, if holes are allowed.
    Full { bytes: u64, allows_holes: bool },
    /// This call of its kind fails, and as many that follow it.
    Error { call: Call, after: u32, times: u32 },
}

/// How often faults acted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acted {
    /// Power failures that kept some pending writes, and cut or dropped others.
    pub torn: u64,
    /// Power failures that dropped all pending writes.
    pub lost: u64,
    /// Power failures that undid names of files.
    pub names_undone: u64,
    /// Writes and changes of length without room.
    pub full: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and changes of length that failed.
    pub write_errors: u64,
    /// Synchronisations that failed.
    pub sync_errors: u64,
    /// Bits that flipped.
    pub flipped: u64,
    /// Ranges that were zeroed or filled with garbage.
    pub overwritten: u64,
}

/// The disk, with all files of one folder.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Mutex<State>>);

struct State {
    folder: PathBuf,
    /// What is on the disk, by inode.
    images: BTreeMap<u64, Image>,
    /// The names that are on the disk, and their inodes.
    names: BTreeMap<OsString, u64>,
    fault: Option<DiskFault>,
    /// The names that there were when the power failed.
    names_at_failure: Option<BTreeMap<OsString, u64>>,
    acted: Acted,
    rng: Rng,
}

/// A file on the disk.
#[derive(Default)]
struct Image {
    synced: Vec<u8>,
    /// Changes since the last synchronisation, in their order.
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

/// A file of a disk, as the database has it.
pub struct FaultyFile {
    disk: FaultyDisk,
    inode: u64,
    file: fs::File,
}

impl FaultyDisk {
    pub fn new(folder: &Path, rng: Rng) -> FaultyDisk {
        FaultyDisk(Arc::new(Mutex::new(State {
            folder: folder.to_owned(),
            images: BTreeMap::new(),
            names: BTreeMap::new(),
            fault: None,
            names_at_failure: None,
            acted: Acted::default(),
            rng,
        })))
    }

    /// Lets this fault come, in the place of another.
    pub fn arm(&self, fault: Option<DiskFault>) {
        self.lock().fault = fault;
    }

    pub fn acted(&self) -> Acted {
        self.lock().acted
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.lock().names_at_failure.is_some()
    }

    /// The process ends here and now: nothing that it does from now on reaches a file.
    pub fn kill(&self) {
        self.lock().switch_off();
    }

    /// After [`FaultyDisk::kill`]: the files are as the process left them.
    pub fn start_again(&self) {
        self.lock().names_at_failure = None;
    }

    /// After the power failed: the folder holds what a disk may hold then.
    pub fn power_on(&self) {
        self.lock().power_on();
    }

    /// Damages a file that is on the disk in full and not open: `harm` changes its bytes.
    pub fn rot(&self, path: &Path, harm: impl FnOnce(&mut Rng, &mut [u8], &mut Acted)) {
        let mut state = self.lock();
        let state = &mut *state;
        let mut bytes = fs::read(path).expect("the file is there");
        harm(&mut state.rng, &mut bytes, &mut state.acted);
        fs::write(path, &bytes).expect("the file can be written");
        let inode = fs::metadata(path).expect("the file is there").ino();
        state.images.insert(inode, Image { synced: bytes, pending: Vec::new() });
    }

    // A panic of the database while the lock is held leaves the state intact.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for FaultyDisk {
    type Backend = FaultyFile;

    fn backend(&self, file: fs::File) -> Result<FaultyFile, DatabaseError> {
        let metadata = file.metadata().map_err(redb::StorageError::from)?;
        let inode = metadata.ino();
        let mut state = self.lock();
        if metadata.len() == 0 {
            // The inode may have been another file's.
            state.images.insert(inode, Image::default());
        }
        assert!(state.images.contains_key(&inode), "a file that this disk did not write");
        drop(state);
        Ok(FaultyFile { disk: self.clone(), inode, file })
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.lock();
        assert_eq!(folder, state.folder);
        state.pass(Call::Sync)?;
        state.names = names(folder);
        Ok(())
    }
}

impl State {
    fn switch_off(&mut self) {
        self.names_at_failure.get_or_insert_with(|| names(&self.folder));
    }

    /// Lets a call through, or fails it.
    fn pass(&mut self, call: Call) -> io::Result<()> {
        if self.names_at_failure.is_some() {
            return Err(io::Error::other("there is no power"));
        }
        match &mut self.fault {
            Some(DiskFault::PowerFailure { after }) if call != Call::Read => {
                if *after == 0 {
                    self.fault = None;
                    self.switch_off();
                    return Err(io::Error::other("the power failed"));
                }
                *after -= 1;
            }
            Some(DiskFault::Error { call: fails, after, times }) if *fails == call => {
                if *after > 0 {
                    *after -= 1;
                    return Ok(());
                }
                *times -= 1;
                if *times == 0 {
                    self.fault = None;
                }
                match call {
                    Call::Read => self.acted.read_errors += 1,
                    Call::Write | Call::SetLen => self.acted.write_errors += 1,
                    Call::Sync => self.acted.sync_errors += 1,
                }
                // EIO
                return Err(io::Error::from_raw_os_error(5));
            }
            _ => {}
        }
        Ok(())
    }

    /// How many bytes of a file may be used, of the `wanted` ones.
    fn room(&mut self, call: Call, wanted: u64) -> u64 {
        match self.fault {
            Some(DiskFault::Full { bytes, allows_holes }) if wanted > bytes => {
                if call == Call::SetLen && allows_holes {
                    return wanted;
                }
                self.acted.full += 1;
                bytes
            }
            _ => wanted,
        }
    }

    fn image(&mut self, inode: u64) -> &mut Image {
        self.images.get_mut(&inode).expect("it was given to the database")
    }

    fn power_on(&mut self) {
        let seen = self.names_at_failure.take().expect("the power failed");
        let undoes_names = seen != self.names && self.rng.chance(0.5);
        let names = if undoes_names {
            self.acted.names_undone += 1;
            self.names.clone()
        } else {
            seen
        };
        for entry in fs::read_dir(&self.folder).expect("the folder is there") {
            fs::remove_file(entry.expect("it is listed").path()).expect("it can be removed");
        }
        let mut before = std::mem::take(&mut self.images);
        self.names.clear();
        let mut written: BTreeMap<u64, PathBuf> = BTreeMap::new();
        for (name, inode) in names {
            let path = self.folder.join(&name);
            if let Some(first) = written.get(&inode) {
                fs::hard_link(first, &path).expect("both are in the folder");
            } else {
                let image = before.remove(&inode).expect("the disk wrote it");
                let bytes = image.after_failure(&mut self.rng, &mut self.acted);
                fs::write(&path, &bytes).expect("there is room");
                let now = fs::metadata(&path).expect("it was written").ino();
                self.images.insert(now, Image { synced: bytes, pending: Vec::new() });
                written.insert(inode, path.clone());
            }
            self.names.insert(name, fs::metadata(&path).expect("it was written").ino());
        }
    }
}

impl Image {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.synced);
        }
    }

    /// What a disk may hold: changes of length in their order up to any one, as a journal keeps
    /// them; and any of the pending writes, in any order, the last one cut at a byte or a sector.
    fn after_failure(mut self, rng: &mut Rng, acted: &mut Acted) -> Vec<u8> {
        let is_length = |change: &Change| matches!(change, Change::Length(_));
        let (mut lengths, mut writes): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(is_length);
        let pending = writes.len() as u32;
        lengths.truncate(rng.below(lengths.len() as u32 + 1) as usize);
        for at in (1..writes.len()).rev() {
            writes.swap(at, rng.below(at as u32 + 1) as usize);
        }
        // Often all or none.
        let kept = match rng.below(4) {
            0 => 0,
            1 => pending,
            _ => rng.below(pending + 1),
        };
        writes.truncate(kept as usize);
        if let Some(Change::Write(_, bytes)) = writes.last_mut() {
            let unit = if rng.chance(0.5) { 1 } else { 512 };
            let units = (bytes.len() / unit) as u32;
            bytes.truncate(rng.below(units + 1) as usize * unit);
        }
        match (pending, kept) {
            (0, _) => {}
            (_, 0) => acted.lost += 1,
            _ => acted.torn += 1,
        }
        lengths.into_iter().for_each(|change| change.apply(&mut self.synced));
        let length = self.synced.len();
        writes.into_iter().for_each(|change| change.apply(&mut self.synced));
        self.synced.truncate(length);
        self.synced
    }
}

impl Change {
    fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Change::Length(length) => bytes.resize(length as usize, 0),
            Change::Write(offset, written) => {
                let end = offset as usize + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[offset as usize..end].copy_from_slice(&written);
            }
        }
    }
}

impl std::fmt::Debug for FaultyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultyFile({})", self.inode)
    }
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.lock().pass(Call::Read)?;
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.pass(Call::SetLen)?;
        if state.room(Call::SetLen, len) < len {
            return Err(ErrorKind::StorageFull.into());
        }
        self.file.set_len(len)?;
        state.image(self.inode).pending.push(Change::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let passed = state.pass(Call::Sync);
        if passed.is_ok() {
            state.image(self.inode).sync();
        } else if state.names_at_failure.is_none() {
            // The kernel forgets what it could not write: it takes those pages for clean, and the
            // next synchronisation succeeds without them.
            let mut pending = std::mem::take(&mut state.image(self.inode).pending);
            pending.retain(|change| matches!(change, Change::Length(_)) || state.rng.chance(0.5));
            let image = state.image(self.inode);
            image.pending = pending;
            image.sync();
        }
        passed
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        let failed = state.pass(Call::Write).err();
        if state.names_at_failure.is_some() {
            return Err(failed.expect("there is no power"));
        }
        let end = offset + data.len() as u64;
        let room = state.room(Call::Write, end).saturating_sub(offset).min(data.len() as u64);
        let (mut done, mut ended) = (room as usize, Ok(()));
        if let Some(error) = failed {
            (done, ended) = (state.rng.below(data.len() as u32 + 1) as usize, Err(error));
        } else if done < data.len() {
            ended = Err(ErrorKind::StorageFull.into());
        }
        self.file.write_all_at(&data[..done], offset)?;
        state.image(self.inode).pending.push(Change::Write(offset, data[..done].to_vec()));
        ended
    }
}

fn names(folder: &Path) -> BTreeMap<OsString, u64> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let named = entries.map(|entry| {
        let entry = entry.expect("it is listed");
        (entry.file_name(), entry.metadata().expect("it is there").ino())
    });
    named.collect()
}
