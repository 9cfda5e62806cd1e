//! The thread that writes the file of a durable host.
//!
//! It writes all pending records in one transaction, which synchronises the disk once, and reports
//! the last one written: acknowledgements may wait for that.

use std::collections::BTreeMap;
use std::io;

use paceline_proto::overlay::{Key, Record};
use tokio::sync::{mpsc, oneshot};

use super::error::DiskError;
use super::file::{FILE_THREAD, File, explain};

/// Writes that may wait; beyond them the node's events wait.
const WAITING_MAX: usize = 1024;
/// Most writes in one transaction.
const BATCH_MAX: usize = 4096;

/// A change of the file.
pub enum Write {
    /// Replaces an older record. `written` gets the number once the record is on disk.
    Keep(u64, Record),
    /// The host no longer holds the key.
    Erase(Key),
}

/// The thread, seen from the node.
pub struct Disk {
    writes: Option<mpsc::Sender<Write>>,
    ended: oneshot::Receiver<Result<(), DiskError>>,
    path: std::path::PathBuf,
}

impl Disk {
    /// Starts to write. `written` is called with the number of the last record on disk.
    pub fn start(file: File, written: impl Fn(u64) + Send + 'static) -> Result<Disk, DiskError> {
        let (writes, waiting) = mpsc::channel(WAITING_MAX);
        let (end, ended) = oneshot::channel();
        let path = file.path().to_owned();
        let write = move || {
            let result = write_all(&file, waiting, written);
            let failed = |error| DiskError { file: file.path().to_owned(), reason: explain(error) };
            let result = result.map_err(failed);
            // The file is closed before the result is sent.
            drop(file);
            // The receiver may have stopped waiting.
            let _ = end.send(result);
        };
        let thread = std::thread::Builder::new().name(FILE_THREAD.to_owned());
        let spawned: io::Result<_> = thread.spawn(write);
        spawned.map_err(|error| DiskError { file: path.clone(), reason: error.to_string() })?;
        Ok(Disk { writes: Some(writes), ended, path })
    }

    /// Queues one write; waits while the queue is full. False if the thread has ended.
    pub async fn write(&self, write: Write) -> bool {
        match &self.writes {
            Some(writes) => writes.send(write).await.is_ok(),
            None => false,
        }
    }

    /// Waits until the thread has ended, and returns its error if it could not write. After a panic
    /// of the thread, its pending writes are lost.
    pub async fn ended(&mut self) -> Result<(), DiskError> {
        (&mut self.ended).await.unwrap_or_else(|_| {
            let reason = "a defect of the database ended writing; the last writes may be missing";
            Err(DiskError { file: self.path.clone(), reason: reason.to_owned() })
        })
    }

    /// Waits until all is written, and closes the file.
    pub async fn close(mut self) -> Result<(), DiskError> {
        self.writes = None;
        self.ended().await
    }
}

/// Writes pending changes, a batch at a time, until the sender is dropped.
pub fn write_all(
    file: &File,
    mut waiting: mpsc::Receiver<Write>,
    written: impl Fn(u64),
) -> Result<(), redb::Error> {
    while let Some(first) = waiting.blocking_recv() {
        // Of several writes of a key the last counts.
        let mut batch: BTreeMap<Key, Option<Record>> = BTreeMap::new();
        let (mut next, mut count, mut last) = (Some(first), 0, None);
        while let Some(write) = next {
            match write {
                Write::Keep(number, record) => {
                    last = Some(number);
                    batch.insert(record.key, Some(record));
                }
                Write::Erase(key) => drop(batch.insert(key, None)),
            }
            count += 1;
            next = if count < BATCH_MAX { waiting.try_recv().ok() } else { None };
        }
        file.write(batch)?;
        if let Some(number) = last {
            written(number);
        }
    }
    Ok(())
}
