//! The content store: Data that passed, kept to answer later Interests.

use std::time::Duration;

use hashbrown::HashTable;

use super::pit::Hashed;
use crate::core::Instant;
use crate::ndn::{Data, Name};

/// The cost of a stored Data beside its own bytes.
const OVERHEAD_BYTES: usize = 256;
/// Names that are remembered as asked for once.
const SEEN: usize = 1 << 14;
const NONE: u32 = u32::MAX;

/// Data by name, bounded in bytes; the least recently used goes first.
///
/// A Data is admitted at the second Interest for its name, so that Data fetched once does not push
/// out popular Data. Only the exact name finds it.
pub(super) struct Store {
    bytes_max: usize,
    bytes: usize,
    table: HashTable<u32>,
    slots: Vec<Stored>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    // Hashes of names that were asked for; a later one takes the place of an earlier.
    seen: Box<[u64]>,
}

struct Stored {
    data: Option<Data>,
    bytes: usize,
    hash: u64,
    stale_at: Instant,
    newer: u32,
    older: u32,
}

impl Store {
    /// An empty store of at most `bytes_max` bytes; 0 stores nothing.
    pub(super) fn new(bytes_max: usize) -> Store {
        Store {
            bytes_max,
            bytes: 0,
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            seen: if bytes_max > 0 { vec![0; SEEN].into() } else { Box::default() },
        }
    }

    /// The Data of this name, if it is there, and fresh if it must be.
    pub(super) fn find(
        &mut self,
        now: Instant,
        Hashed { name, hash }: Hashed<'_>,
        must_be_fresh: bool,
    ) -> Option<Data> {
        let slots = &self.slots;
        let slot = *self.table.find(hash, |&slot| is(slots, slot, name))?;
        if must_be_fresh && self.slots[slot as usize].stale_at <= now {
            return None;
        }
        self.unlink(slot);
        self.link(slot);
        self.slots[slot as usize].data.clone()
    }

    /// Notes that a name of this hash was asked for; true if it was before, as far as is
    /// remembered.
    pub(super) fn note_asked(&mut self, hash: u64) -> bool {
        if self.bytes_max == 0 {
            return false;
        }
        let seen = &mut self.seen[hash as usize % SEEN];
        std::mem::replace(seen, hash) == hash
    }

    /// Keeps a Data.
    pub(super) fn add(&mut self, now: Instant, hash: u64, data: &Data) {
        let bytes = data.encoded_len() + OVERHEAD_BYTES;
        if bytes > self.bytes_max {
            return;
        }
        let slots = &self.slots;
        if let Some(&slot) = self.table.find(hash, |&slot| is(slots, slot, data.name())) {
            self.remove(slot);
        }
        while self.bytes + bytes > self.bytes_max {
            self.remove(self.oldest);
        }
        let stored = Stored {
            // Not the buffer that it came in, which may be many times as large.
            data: Some(data.detached()),
            bytes,
            hash,
            stale_at: now + data.freshness().unwrap_or(Duration::ZERO),
            newer: NONE,
            older: NONE,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = stored;
                slot
            }
            None => {
                self.slots.push(stored);
                self.slots.len() as u32 - 1
            }
        };
        self.bytes += bytes;
        let slots = &self.slots;
        self.table.insert_unique(hash, slot, |&slot| slots[slot as usize].hash);
        self.link(slot);
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many Data it holds.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let stored = &mut self.slots[slot as usize];
        stored.data = None;
        self.bytes -= stored.bytes;
        if let Ok(place) = self.table.find_entry(stored.hash, |&other| other == slot) {
            place.remove();
        }
        self.free.push(slot);
    }

    fn link(&mut self, slot: u32) {
        let second = std::mem::replace(&mut self.newest, slot);
        let stored = &mut self.slots[slot as usize];
        (stored.newer, stored.older) = (NONE, second);
        match second {
            NONE => self.oldest = slot,
            second => self.slots[second as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Stored { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

fn is(slots: &[Stored], slot: u32, name: &Name) -> bool {
    slots[slot as usize].data.as_ref().is_some_and(|data| data.name() == name)
}
