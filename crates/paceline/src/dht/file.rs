//! The file of a durable host: the records that it holds, by key, in a redb database.
//!
//! A damaged file is not trusted. Opening a file checks all of its pages and rows; a damaged one is
//! set aside under another name, and the host starts empty. A new file gets its name once it is
//! complete, so a crash never leaves one that looks damaged.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::iter;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use paceline_proto::overlay::{Key, Record, Version};
use redb::{
    Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError,
    TableHandle, TransactionError, WriteTransaction,
};

use super::entry::split;
use super::error::{DamagedFile, DiskError};
use super::head::{FLAGS_AT, flags_of_newer};
use super::row::{Row, now_ms};
use super::snapshot::Snapshot;
use super::storage::{FileSystem, Storage};

/// Reads a row of a table; `None` if it is damaged.
type Decoder = fn([u8; Key::BYTES], &[u8]) -> Option<Row>;
type Table = TableDefinition<'static, &'static [u8; Key::BYTES], &'static [u8]>;

const RECORDS: Table = TableDefinition::new("records-3");
/// The tables of the formats before, the newest first. They are moved when the file is opened.
const OLD_RECORDS: [(Table, Decoder); 2] = [
    (TableDefinition::new("records-2"), Row::decode_second),
    (TableDefinition::new("records-1"), Row::decode_first),
];
/// Bytes of pages that the database keeps in memory.
const CACHE_BYTES: usize = 16 << 20;
/// What a redb file begins with.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// The name of the threads that read and write files of durable hosts. A panic in one, as a damaged
/// file may cause in the database, becomes an error: a panic hook need not report it.
pub const FILE_THREAD: &str = "paceline-dht-file";

/// Reads the file of a durable host that has stopped: each key and value in it, with a version; the
/// greater version is the newer. A key without a value was removed. Does not change the file.
///
/// # Errors
/// If there is no such file, it is damaged or of another format, or a host has it open.
pub fn read_file(
    path: impl AsRef<Path>,
    mut take: impl FnMut((u64, u64), &Key, Option<(Bytes, Bytes)>),
) -> Result<(), DiskError> {
    let path = path.as_ref();
    let read = guarded(|| {
        let mut records = Vec::new();
        check_kind(path)?;
        let file = fs::File::open(path).map_err(other)?;
        let flags = flags_to_write(&file)?;
        // Rows before the damage are not reported either: they may be outdated.
        read_snapshot(file, flags, |row| records.extend(row.live(now_ms())))?;
        Ok(records)
    });
    for record in read.map_err(|fault| fault.of(path))? {
        let Version { count, by } = record.stamp.version;
        take((count, by), &record.key, record.value.as_ref().and_then(split));
    }
    Ok(())
}

/// A database that was opened and found whole, and is not written yet.
pub struct File {
    database: Database,
    path: PathBuf,
}

impl File {
    /// Opens the file, or makes it. A damaged one is set aside first.
    pub fn open(path: &Path) -> Result<(File, Option<DamagedFile>), DiskError> {
        File::open_on(&FileSystem, path)
    }

    /// As [`File::open`], on this storage.
    pub fn open_on(
        storage: &impl Storage,
        path: &Path,
    ) -> Result<(File, Option<DamagedFile>), DiskError> {
        let named = |fault: Fault| fault.of(path);
        let reason = match guarded(|| File::open_whole(storage, path)) {
            Ok(file) => return Ok((file, None)),
            Err(Fault::Damaged(reason)) => reason,
            Err(fault) => return Err(named(fault)),
        };
        // The damaged file keeps its name until another is whole: what this start cannot report,
        // the next one does.
        let replaced = guarded(|| {
            let (database, new) = make(storage, path)?;
            Ok((database, set_aside(path, &new).map_err(other)?))
        });
        let (database, kept_as) = replaced.map_err(|fault| {
            let why = named(fault).reason;
            named(Fault::Damaged(format!("{reason}; cannot replace the file: {why}")))
        })?;
        let damaged = DamagedFile { file: path.to_owned(), kept_as, reason };
        match storage.sync_folder(folder(path)) {
            Ok(()) => Ok((File { database, path: path.to_owned() }, Some(damaged))),
            Err(error) => Err(named(Fault::Other(format!("{error}; {damaged}")))),
        }
    }

    fn open_whole(storage: &impl Storage, path: &Path) -> Result<File, Fault> {
        let database = if path.try_exists().map_err(other)? {
            open_database(storage, path)?
        } else {
            let (database, new) = make(storage, path)?;
            give_name(&new, path)?;
            database
        };
        // An earlier run may have made or renamed the file, and stopped before this.
        storage.sync_folder(folder(path)).map_err(other)?;
        Ok(File { database, path: path.to_owned() })
    }

    /// What the file holds, without what has expired.
    pub fn read(&self) -> Result<Vec<Record>, DiskError> {
        let read = guarded(|| {
            let (now, mut records) = (now_ms(), Vec::new());
            read_rows(&self.database, |row| records.extend(row.live(now)))?;
            Ok(records)
        });
        read.map_err(|fault| fault.of(&self.path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a batch in one transaction: a record replaces the older one under its key, and `None`
    /// removes the key. The batch is on disk once this returns.
    pub fn write(
        &self,
        writes: impl IntoIterator<Item = (Key, Option<Record>)>,
    ) -> Result<(), redb::Error> {
        let transaction = begin(&self.database)?;
        {
            let mut table = transaction.open_table(RECORDS)?;
            let (now, mut bytes) = (now_ms(), Vec::new());
            for (key, record) in writes {
                match record {
                    Some(record) => {
                        Row::new(record, now).encode(&mut bytes);
                        table.insert(&key.to_bytes(), bytes.as_slice())?;
                    }
                    None => drop(table.remove(&key.to_bytes())?),
                }
            }
        }
        // By default a commit synchronises the disk.
        Ok(transaction.commit()?)
    }
}

/// Why a file was not opened or read.
enum Fault {
    /// The content is damaged.
    Damaged(String),
    /// Something else, which leaves the file as it is.
    Other(String),
}

impl Fault {
    fn of(self, path: &Path) -> DiskError {
        let reason = match self {
            Fault::Damaged(reason) => format!("the file is damaged: {reason}"),
            Fault::Other(reason) => reason,
        };
        DiskError { file: path.to_owned(), reason }
    }
}

impl From<redb::Error> for Fault {
    fn from(error: redb::Error) -> Fault {
        let is_damage = match &error {
            redb::Error::Corrupted(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::RepairAborted => true,
            redb::Error::Io(error) => {
                matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
            }
            _ => false,
        };
        if is_damage { Fault::Damaged(error.to_string()) } else { Fault::Other(explain(error)) }
    }
}

macro_rules! faults {
    ($($error:ident),*) => {$(
        impl From<redb::$error> for Fault {
            fn from(error: redb::$error) -> Fault {
                Fault::from(redb::Error::from(error))
            }
        }
    )*};
}

faults!(DatabaseError, StorageError, TransactionError, TableError, CommitError);

/// The reason, and a remedy if there is one.
pub fn explain(error: redb::Error) -> String {
    match error {
        redb::Error::DatabaseAlreadyOpen => {
            "another process has it open: give each host its own file".to_owned()
        }
        error => error.to_string(),
    }
}

/// Runs `read` on a thread of its own. A panic of the database means that the file is damaged.
fn guarded<T: Send>(read: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
    let ended = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(FILE_THREAD.to_owned());
        builder.spawn_scoped(scope, read).map(|thread| thread.join())
    });
    match ended {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => Err(Fault::Damaged("the database cannot read it".to_owned())),
        Err(error) => Err(Fault::Other(format!("cannot start a thread: {error}"))),
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Begins a transaction.
///
/// A single-phase commit writes its pages and the mark that makes it valid together: after a crash
/// the database takes damaged pages for an interrupted commit, and silently returns to the one
/// before it. A two-phase commit writes the pages first: if they do not match, they are damaged.
fn begin(database: &Database) -> Result<WriteTransaction, TransactionError> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

/// Checks the pages of a database.
fn checked(mut database: Database) -> Result<Database, Fault> {
    if !database.check_integrity()? {
        return Err(Fault::Damaged("its pages do not match their checksums".to_owned()));
    }
    Ok(database)
}

/// Opens a file that is there, if it is whole.
fn open_database(storage: &impl Storage, path: &Path) -> Result<Database, Fault> {
    check_kind(path)?;
    let file = fs::File::options().read(true).write(true).open(path).map_err(other)?;
    let flags = flags_to_write(&file)?;
    let backend = storage.backend(file)?;
    if let Some(flags) = flags {
        write_again(&backend).map_err(other)?;
        backend.write(FLAGS_AT, &[flags]).map_err(other)?;
        backend.sync_data().map_err(other)?;
    }
    let database = checked(builder().create_with_backend(backend)?)?;
    move_old_rows(&database)?;
    read_rows(&database, |_| ())?;
    Ok(database)
}

/// Writes all that a file holds again, and synchronises it. Where a synchronisation failed, the
/// kernel may hold pages that are not on disk and that it takes for clean.
fn write_again(backend: &impl StorageBackend) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 20];
    let (mut at, end) = (0, backend.len()?);
    while at < end {
        let count = (end - at).min(bytes.len() as u64);
        let part = &mut bytes[..count as usize];
        backend.read(at, part)?;
        backend.write(at, part)?;
        at += count;
    }
    backend.sync_data()
}

/// Makes an empty file, which does not have its name yet: the database, and where it is.
fn make(storage: &impl Storage, path: &Path) -> Result<(Database, PathBuf), Fault> {
    let new = with_suffix(path, ".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(other(error)),
        _ => {}
    }
    let file = fs::File::options().read(true).write(true).create_new(true).open(&new);
    let backend = storage.backend(file.map_err(other)?)?;
    let database = builder().create_with_backend(backend)?;
    move_old_rows(&database)?;
    Ok((database, new))
}

/// Gives a new file its name, unless another host made one meanwhile.
fn give_name(new: &Path, path: &Path) -> Result<(), Fault> {
    match fs::hard_link(new, path) {
        Ok(()) => fs::remove_file(new).map_err(other),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(redb::Error::DatabaseAlreadyOpen.into())
        }
        // A file system without links.
        Err(_) => fs::rename(new, path).map_err(other),
    }
}

/// Gives a damaged file another name, which is returned, and its own to a new file.
fn set_aside(path: &Path, new: &Path) -> io::Result<PathBuf> {
    let kept_as = with_suffix(path, &format!(".damaged-{}", now_ms()));
    if fs::hard_link(path, &kept_as).is_err() {
        // A file system without links.
        fs::rename(path, &kept_as)?;
    }
    fs::rename(new, path)?;
    Ok(kept_as)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The flags to be written into the head before a database opens the file: where it names the
/// older of two commits that are both whole.
fn flags_to_write(file: &fs::File) -> Result<Option<u8>, Fault> {
    let Some(flags) = flags_of_newer(file).map_err(other)? else { return Ok(None) };
    let is_whole = |flags| {
        let file = file.try_clone().map_err(other)?;
        guarded(|| read_snapshot(file, flags, |_| ()))
    };
    // Else the number that looks lower may be what is damaged.
    is_whole(None)?;
    match is_whole(Some(flags)) {
        Ok(()) => Ok(Some(flags)),
        // The host stopped while it wrote the newer one.
        Err(Fault::Damaged(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Checks a file that is not being written, with these flags in its head, and reads its rows. Does
/// not change the file.
fn read_snapshot(file: fs::File, flags: Option<u8>, take: impl FnMut(Row)) -> Result<(), Fault> {
    let Some(snapshot) = Snapshot::new(file).map_err(other)? else {
        return Err(redb::Error::DatabaseAlreadyOpen.into());
    };
    if let Some(flags) = flags {
        snapshot.write(FLAGS_AT, &[flags]).map_err(other)?;
    }
    read_rows(&checked(builder().create_with_backend(snapshot)?)?, take)
}

/// A file of another kind was named by mistake: it must not be touched.
fn check_kind(path: &Path) -> Result<(), Fault> {
    let mut head = Vec::new();
    match fs::File::open(path) {
        Ok(file) => file.take(MAGIC.len() as u64).read_to_end(&mut head).map_err(other)?,
        // It is made, or the database says why not.
        Err(_) => return Ok(()),
    };
    if head.is_empty() {
        return Err(Fault::Damaged("it is empty".to_owned()));
    }
    // The first page may have been zeroed, or cut off.
    let is_ours = MAGIC.starts_with(&head) || head.iter().all(|&byte| byte == 0);
    if is_ours {
        return Ok(());
    }
    let reason = "it is not a file of a durable host, and was not changed: name another file, or \
                  move this one away";
    Err(Fault::Other(reason.to_owned()))
}

fn other(error: io::Error) -> Fault {
    Fault::Other(error.to_string())
}

/// Moves rows of the formats before to this one.
fn move_old_rows(database: &Database) -> Result<(), Fault> {
    let transaction = begin(database)?;
    {
        let mut table = transaction.open_table(RECORDS)?;
        for (name, decode) in OLD_RECORDS {
            if !transaction.list_tables()?.any(|table| table.name() == name.name()) {
                continue;
            }
            let old = transaction.open_table(name)?;
            let mut bytes = Vec::new();
            for entry in old.iter()? {
                let (key, row) = entry?;
                let row = decode(*key.value(), row.value()).ok_or_else(no_row)?;
                row.encode(&mut bytes);
                table.insert(key.value(), bytes.as_slice())?;
            }
            drop(old);
            transaction.delete_table(name)?;
        }
    }
    Ok(transaction.commit()?)
}

fn no_row() -> Fault {
    Fault::Damaged("a row does not match its checksum".to_owned())
}

/// Reads all rows, those of the oldest format last.
fn read_rows(database: &Database, mut take: impl FnMut(Row)) -> Result<(), Fault> {
    let transaction = database.begin_read()?;
    let current: (Table, Decoder) = (RECORDS, Row::decode);
    for (name, decode) in iter::once(current).chain(OLD_RECORDS) {
        let table = match transaction.open_table(name) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        for entry in table.iter()? {
            let (key, row) = entry?;
            take(decode(*key.value(), row.value()).ok_or_else(no_row)?);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use paceline_proto::core::{Payload, Rng};
    use paceline_proto::overlay::{Stamp, Version};

    use super::*;

    const COUNT: u32 = 400;

    fn record(number: u32) -> Record {
        let version = Version { count: 1 + u64::from(number), by: 3 };
        let stamp = Stamp { version, writer: 9, write: 11 << 32 | 5 };
        let bytes = vec![number as u8; [3, 100, 900, 6000][number as usize % 4]];
        let value = (!number.is_multiple_of(9)).then(|| Payload::from(bytes));
        Record { key: Key::of(&number.to_be_bytes()), stamp, lifetime_ms: 3_600_000, value }
    }

    /// What a file should hold.
    pub type Held = BTreeMap<Key, (Stamp, Option<Bytes>)>;

    /// Records as they are compared.
    pub fn held(records: impl IntoIterator<Item = Record>) -> Held {
        let entry = |record: Record| {
            let value = record.value.map(|value| value.to_bytes());
            (record.key, (record.stamp, value))
        };
        records.into_iter().map(entry).collect()
    }

    /// The file of a host that has stopped, and what it was like if the host had been killed.
    fn filled(path: &Path) -> (Held, [Vec<u8>; 2]) {
        let (file, damaged) = File::open(path).unwrap();
        assert_eq!(damaged, None);
        let write = |number| (record(number).key, Some(record(number)));
        file.write((0..COUNT).map(write)).unwrap();
        file.write((0..10).map(|number| (record(number).key, None))).unwrap();
        let killed = fs::read(path).unwrap();
        drop(file);
        (held((10..COUNT).map(record)), [fs::read(path).unwrap(), killed])
    }

    /// Opens a file that may be damaged: true if it was set aside. What is in it is right.
    fn opens(path: &Path, expected: &Held, what: &str) -> bool {
        let mut read = Vec::new();
        let dumped = read_file(path, |age, key, entry| read.push((age, *key, entry)));
        let (file, damaged) = File::open(path).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = held(file.read().unwrap());
        let Some(damaged) = damaged else {
            assert_eq!(found, *expected, "{what}");
            assert!(dumped.is_ok() && read.len() == expected.len(), "{what}: {dumped:?}");
            return false;
        };
        assert!(found.is_empty(), "{what}");
        assert!(damaged.kept_as.exists() && damaged.file == path, "{what}");
        assert!(dumped.is_err() && read.is_empty(), "{what}: what is damaged was read");
        // The host goes on with it.
        file.write([(record(1).key, Some(record(1)))]).unwrap();
        assert_eq!(held(file.read().unwrap()), held([record(1)]), "{what}");
        fs::remove_file(damaged.kept_as).unwrap();
        true
    }

    #[test]
    fn of_a_damaged_file_nothing_wrong_is_read_and_the_host_starts_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.redb");
        let (expected, files) = filled(&path);
        for (bytes, end) in files.iter().zip(["stopped", "killed"]) {
            fs::write(&path, bytes).unwrap();
            assert!(!opens(&path, &expected, end));
            damage(bytes, &path, &expected, end);
        }
    }

    fn damage(bytes: &[u8], path: &Path, expected: &Held, end: &str) {
        let mut rng = Rng::new(19, 4);
        let (length, mut set_aside) = (bytes.len(), 0);
        let place = |rng: &mut Rng| 16 + rng.below((length - 16) as u32) as usize;
        for round in 0..60 {
            let mut damaged = bytes.to_vec();
            let what = match round % 4 {
                0 => {
                    let bits = 1 + rng.below(8);
                    (0..bits).for_each(|_| damaged[place(&mut rng)] ^= 1 << rng.below(8));
                    format!("{bits} bits flipped")
                }
                1 => {
                    let page = rng.below((length / 4096) as u32) as usize * 4096;
                    damaged[page..page + 4096].fill(0);
                    format!("the page at {page} zeroed")
                }
                2 => {
                    let page = rng.below((length / 4096 - 1) as u32) as usize * 4096 + 4096;
                    damaged[page..page + 4096].iter_mut().for_each(|it| *it = rng.below(256) as u8);
                    format!("garbage at {page}")
                }
                _ => {
                    damaged.truncate(1 + rng.below(length as u32 - 1) as usize);
                    format!("cut to {}", damaged.len())
                }
            };
            fs::write(path, &damaged).unwrap();
            set_aside += u32::from(opens(path, expected, &format!("{end}, {what}")));
        }
        assert!(set_aside > 20, "{end}: {set_aside} of 60 were noticed: what was damaged?");
        for page in 0..4 {
            let mut damaged = bytes.to_vec();
            damaged[page * 4096..(page + 1) * 4096].fill(0);
            fs::write(path, &damaged).unwrap();
            opens(path, expected, &format!("{end}, page {page} zeroed"));
        }
    }

    #[test]
    fn every_bit_of_a_value_that_flips_on_disk_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.redb");
        let (expected, files) = filled(&path);
        // A value that no other one has in it.
        let value = record(11).value.unwrap().to_bytes();
        for (bytes, end) in files.iter().zip(["stopped", "killed"]) {
            // The pages of a commit before may hold it too.
            let holds = |at: &usize| bytes[*at..].starts_with(&value);
            let places: Vec<usize> = (0..bytes.len()).filter(holds).collect();
            assert!(!places.is_empty(), "{end}");
            for offset in [0, value.len() / 2, value.len() - 1] {
                let mut damaged = bytes.clone();
                places.iter().for_each(|at| damaged[at + offset] ^= 4);
                fs::write(&path, &damaged).unwrap();
                assert!(opens(&path, &expected, &format!("{end}, a bit of byte {offset} flipped")));
            }
        }
    }

    #[test]
    fn rows_of_the_formats_before_are_read_and_moved() {
        for (name, _) in OLD_RECORDS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file.redb");
            let database = Database::create(&path).unwrap();
            let transaction = database.begin_write().unwrap();
            for number in 0..50 {
                let row = Row::new(record(number), now_ms());
                let mut bytes = row.encode_second();
                if name.name() == "records-1" {
                    // Without the hash.
                    bytes.drain(..8);
                }
                let mut table = transaction.open_table(name).unwrap();
                table.insert(&row.key(), bytes.as_slice()).unwrap();
            }
            transaction.commit().unwrap();
            drop(database);
            let expected = held((0..50).map(record));
            for _ in 0..2 {
                assert!(!opens(&path, &expected, name.name()));
            }
        }
    }

    #[test]
    fn a_file_of_another_kind_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        fs::write(&path, "what to buy").unwrap();
        let said = File::open(&path).err().unwrap().to_string();
        assert!(said.contains("notes.txt: it is not a file of a durable host"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "what to buy");
        let (_file, damaged) = File::open(&folder.path().join("new")).unwrap();
        assert_eq!(damaged, None);
        let twice = File::open(&folder.path().join("new")).err().unwrap();
        assert!(twice.reason.contains("its own file"), "{twice}");
    }
}
