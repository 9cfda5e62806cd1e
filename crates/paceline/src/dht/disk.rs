//! The file of a durable host: the records that it holds, by key, in a redb database.
//!
//! A thread writes what the node tells, all that has gathered in one transaction. Each entry is
//! the version's count and node, the writer and its write, when it ends in milliseconds since 1970,
//! all big-endian, a byte that says whether there is a value, and the value.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, Bytes};
use paceline_proto::core::Payload;
use paceline_proto::overlay::{Key, Record, Stamp, Version};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::{mpsc, oneshot};

use super::entry::split;
use super::error::DiskError;

const RECORDS: TableDefinition<'_, &[u8; Key::BYTES], &[u8]> = TableDefinition::new("records-1");
/// Writes that may wait; then the node's events wait.
const WAITING_MAX: usize = 1024;
/// Writes of one transaction.
const BATCH_MAX: usize = 4096;
/// Bytes of pages that the database keeps in memory.
const CACHE_BYTES: usize = 16 << 20;
/// Bytes before a value.
const HEAD_BYTES: usize = 8 + 4 + 4 + 8 + 8 + 1;

/// What is done to the file.
pub enum Write {
    /// In the place of an older record.
    Keep(Record),
    /// It is held here no longer.
    Erase(Key),
}

/// Reads the file of a durable host that has stopped: each key and value in it, with an age of
/// which the greater is the newer. Without a value the key was removed.
///
/// # Errors
/// If there is no such file, it is none, or a host has it open.
pub fn read_file(
    path: impl AsRef<Path>,
    mut told: impl FnMut((u64, u32), &Key, Option<(Bytes, Bytes)>),
) -> Result<(), DiskError> {
    let path = path.as_ref();
    let database = Database::open(path).map_err(|error| failed(path, error))?;
    let file = File { database, path: path.to_owned() };
    file.read(1, |records| {
        for record in records {
            let Version { count, by } = record.stamp.version;
            told((count, by), &record.key, record.value.as_ref().and_then(split));
        }
    })?;
    Ok(())
}

/// The file, and the thread that writes it.
pub struct Disk {
    writes: mpsc::Sender<Write>,
    ended: oneshot::Receiver<Result<(), DiskError>>,
}

/// A database that was opened and is not written yet.
pub struct File {
    database: Database,
    path: PathBuf,
}

impl File {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> Result<File, DiskError> {
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create(path);
        let database = opened.map_err(|error| failed(path, error))?;
        let file = File { database, path: path.to_owned() };
        file.prepare().map_err(|error| failed(path, error))?;
        Ok(file)
    }

    fn prepare(&self) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(RECORDS)?;
        Ok(transaction.commit()?)
    }

    /// Tells what the file holds, without what has expired, in parts of up to `count` records.
    pub fn read(&self, count: usize, told: impl FnMut(Vec<Record>)) -> Result<usize, DiskError> {
        self.read_all(count, told).map_err(|error| failed(&self.path, error))
    }

    fn read_all(
        &self,
        count: usize,
        mut told: impl FnMut(Vec<Record>),
    ) -> Result<usize, redb::Error> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        let (now, mut part, mut total) = (now_ms(), Vec::new(), 0);
        for entry in table.iter()? {
            let (key, bytes) = entry?;
            if let Some(record) = decode(*key.value(), bytes.value(), now) {
                part.push(record);
                total += 1;
            }
            if part.len() >= count {
                told(std::mem::take(&mut part));
            }
        }
        if !part.is_empty() {
            told(part);
        }
        Ok(total)
    }

    /// Starts to write.
    pub fn start(self) -> Disk {
        let (writes, waiting) = mpsc::channel(WAITING_MAX);
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let written = self.write_all(waiting).map_err(|error| failed(&self.path, error));
            drop(self.database);
            // Nobody may wait for it.
            let _ = end.send(written);
        });
        Disk { writes, ended }
    }

    fn write_all(&self, mut waiting: mpsc::Receiver<Write>) -> Result<(), redb::Error> {
        let mut bytes = Vec::new();
        while let Some(first) = waiting.blocking_recv() {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(RECORDS)?;
                let now = now_ms();
                let (mut next, mut count) = (Some(first), 1);
                while let Some(write) = next {
                    match write {
                        Write::Keep(record) => {
                            encode(&record, now, &mut bytes);
                            table.insert(&record.key.to_bytes(), bytes.as_slice())?;
                        }
                        Write::Erase(key) => drop(table.remove(&key.to_bytes())?),
                    }
                    next = if count < BATCH_MAX { waiting.try_recv().ok() } else { None };
                    count += 1;
                }
            }
            // By default it is on the disk once this returns.
            transaction.commit()?;
        }
        Ok(())
    }
}

impl Disk {
    /// Hands over one write; waits while too many do.
    pub async fn write(&self, write: Write) -> Result<(), mpsc::error::SendError<Write>> {
        self.writes.send(write).await
    }

    /// Waits until all is written, and closes the file.
    pub async fn close(self) -> Result<(), DiskError> {
        drop(self.writes);
        self.ended.await.unwrap_or(Ok(()))
    }
}

fn encode(record: &Record, now_ms: u64, out: &mut Vec<u8>) {
    out.clear();
    let Stamp { version, writer, write } = record.stamp;
    out.put_u64(version.count);
    out.put_u32(version.by);
    out.put_u32(writer);
    out.put_u64(write);
    out.put_u64(now_ms + u64::from(record.lifetime_ms));
    out.put_u8(record.value.is_some().into());
    if let Some(value) = &record.value {
        value.for_each_chunk(|chunk| out.extend_from_slice(chunk));
    }
}

/// The record, unless its time is over or it is none.
fn decode(key: [u8; Key::BYTES], mut bytes: &[u8], now_ms: u64) -> Option<Record> {
    if bytes.len() < HEAD_BYTES {
        return None;
    }
    let version = Version { count: bytes.get_u64(), by: bytes.get_u32() };
    let stamp = Stamp { version, writer: bytes.get_u32(), write: bytes.get_u64() };
    let left_ms = bytes.get_u64().checked_sub(now_ms).filter(|&left| left > 0)?;
    let has_value = bytes.get_u8() == 1;
    Some(Record {
        key: Key::from_bytes(key),
        stamp,
        lifetime_ms: left_ms.min(u32::MAX.into()) as u32,
        value: has_value.then(|| Payload::Bytes(Bytes::copy_from_slice(bytes))),
    })
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
}

fn failed(path: &Path, error: impl Into<redb::Error>) -> DiskError {
    let reason = match error.into() {
        redb::Error::DatabaseAlreadyOpen => {
            "another process has it open: give each host a file of its own".to_owned()
        }
        error => error.to_string(),
    };
    DiskError { file: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: Option<&'static str>) -> Record {
        let version = Version { count: 7, by: 3 };
        let stamp = Stamp { version, writer: 9, write: 11 << 32 | 5 };
        let value = value.map(|value| Bytes::from_static(value.as_bytes()).into());
        Record { key: Key::of(b"k"), stamp, lifetime_ms: 1000, value }
    }

    #[test]
    fn a_record_comes_back_with_what_is_left_of_its_lifetime() {
        for value in [Some("v"), Some(""), None] {
            let (record, mut bytes) = (record(value), Vec::new());
            encode(&record, 5000, &mut bytes);
            let key = record.key.to_bytes();
            let left = Record { lifetime_ms: 400, ..record };
            assert_eq!(decode(key, &bytes, 5600), Some(left));
            assert_eq!(decode(key, &bytes, 6000), None);
            assert_eq!(decode(key, &bytes[..HEAD_BYTES - 1], 5600), None);
        }
    }
}
