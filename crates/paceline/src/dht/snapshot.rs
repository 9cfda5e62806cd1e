//! A file that a database may write to, while the file itself does not change.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// Bytes that are kept together once one of them was written.
const PAGE: usize = 4096;

/// The content of a file, with writes in memory. Locks the file against writers while it is open.
#[derive(Debug)]
pub struct Snapshot(Mutex<Content>);

#[derive(Debug)]
struct Content {
    file: File,
    len: u64,
    written: BTreeMap<u64, Vec<u8>>,
}

impl Snapshot {
    /// The content of a file; `None` if another process has it open for writing.
    pub fn new(file: File) -> io::Result<Option<Snapshot>> {
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        let len = file.metadata()?.len();
        Ok(Some(Snapshot(Mutex::new(Content { file, len, written: BTreeMap::new() }))))
    }

    // A panic while the lock is held leaves the state intact.
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    /// The page that begins there, as it is now.
    fn page(&mut self, start: u64) -> io::Result<Vec<u8>> {
        if let Some(page) = self.written.get(&start) {
            return Ok(page.clone());
        }
        let mut page = Vec::with_capacity(PAGE);
        self.file.seek(SeekFrom::Start(start))?;
        (&mut self.file).take(PAGE as u64).read_to_end(&mut page)?;
        page.resize(PAGE, 0);
        Ok(page)
    }
}

/// The pages that hold `length` bytes from `offset` on: where each begins, which of its bytes, and
/// which of the others' these are.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let inside = (at % PAGE as u64) as usize;
        let count = (PAGE - inside).min(length - done);
        let part = (at - inside as u64, inside, done..done + count);
        done += count;
        (count > 0).then_some(part)
    })
}

impl StorageBackend for Snapshot {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut content = self.lock();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > content.len) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        for (start, inside, part) in parts(offset, out.len()) {
            let page = content.page(start)?;
            let count = part.len();
            out[part].copy_from_slice(&page[inside..inside + count]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut content = self.lock();
        if len < content.len {
            // What is cut off reads as zeros should the file grow again.
            let (first, inside) = (len - len % PAGE as u64, (len % PAGE as u64) as usize);
            let mut page = content.page(first)?;
            page[inside..].fill(0);
            content.written.insert(first, page);
            for start in (first + PAGE as u64..content.len).step_by(PAGE) {
                content.written.insert(start, vec![0; PAGE]);
            }
        }
        content.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.lock();
        for (start, inside, part) in parts(offset, data.len()) {
            let mut page = content.page(start)?;
            let count = part.len();
            page[inside..inside + count].copy_from_slice(&data[part]);
            content.written.insert(start, page);
        }
        content.len = content.len.max(offset + data.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_read_back_and_the_file_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let before: Vec<u8> = (0..10_000u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &before).unwrap();
        let snapshot = Snapshot::new(File::open(&path).unwrap()).unwrap().unwrap();
        let mut expected = before.clone();
        snapshot.write(4000, &[7; 300]).unwrap();
        expected[4000..4300].fill(7);
        snapshot.set_len(5000).unwrap();
        snapshot.set_len(20_000).unwrap();
        expected.truncate(5000);
        expected.resize(20_000, 0);
        snapshot.write(19_990, &[9; 10]).unwrap();
        expected[19_990..].fill(9);
        let mut read = vec![0; 20_000];
        snapshot.read(0, &mut read).unwrap();
        assert_eq!((read, snapshot.len().unwrap()), (expected, 20_000));
        assert!(snapshot.read(19_999, &mut [0; 2]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
