//! Digests of whole files, which take long for large files.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::super::metadata::Digest;
use super::opened::Version;

/// Files that may wait for their digest. Further ones are queued at a later request.
const WAITING_MAX: usize = 16;
/// Number of digests in memory.
const KNOWN_MAX: usize = 4_096;
/// Files up to this size are hashed at once, without the thread.
const AT_ONCE_BYTES: u64 = 1 << 20;
/// Bytes that are read at once.
const PART_BYTES: usize = 1 << 18;

/// A version of a file.
type Key = (PathBuf, u64);

/// Known digests: `None` while one is being computed.
type Known = Arc<Mutex<VecDeque<(Key, Option<[u8; 32]>)>>>;

/// Digests of files, computed by a thread that ends with this.
#[derive(Debug)]
pub struct Digests {
    known: Known,
    waiting: SyncSender<Version>,
}

impl Digests {
    pub fn start() -> io::Result<Digests> {
        let known = Known::default();
        let (waiting, versions) = sync_channel(WAITING_MAX);
        let digests = known.clone();
        let thread = std::thread::Builder::new().name("paceline-digest".to_owned());
        thread.spawn(move || compute(&versions, &digests))?;
        Ok(Digests { known, waiting })
    }

    /// The digest of a version; large files have to be asked for again.
    pub fn of(&self, version: &Version) -> Digest {
        let key = (version.path.clone(), version.number);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, digest)) = known.iter().find(|(held, _)| *held == key) {
            return digest.map_or(Digest::Pending, Digest::Known);
        }
        let digest = if version.bytes <= AT_ONCE_BYTES {
            // The file changed while it was read: the next request finds another version.
            let Ok(digest) = digest(version) else { return Digest::Pending };
            Some(digest)
        } else if self.waiting.try_send(version.clone()).is_ok() {
            None
        } else {
            return Digest::Pending;
        };
        if known.len() >= KNOWN_MAX {
            known.pop_front();
        }
        known.push_back((key, digest));
        digest.map_or(Digest::Pending, Digest::Known)
    }
}

fn compute(versions: &Receiver<Version>, known: &Known) {
    for version in versions {
        let digest = digest(&version);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known
            .iter()
            .position(|((path, number), _)| *path == version.path && *number == version.number);
        let Some(place) = place else { continue };
        match digest {
            Ok(digest) => known[place].1 = Some(digest),
            // The file changed meanwhile, and is another version.
            Err(_) => drop(known.remove(place)),
        }
    }
}

fn digest(version: &Version) -> io::Result<[u8; 32]> {
    let (mut sha, mut at) = (Sha256::new(), 0);
    let mut part = vec![0; PART_BYTES.min(version.bytes as usize)];
    while at < version.bytes {
        let length = (version.bytes - at).min(PART_BYTES as u64);
        let part = &mut part[..length as usize];
        version.read(at, part)?;
        sha.update(part);
        at += length;
    }
    Ok(sha.finalize().into())
}
