use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::core::{Instant, Payload};
use crate::overlay::Key;
use crate::overlay::record::{Record, Stamp, Version};

/// What a node stores: records with an age, each for a time.
#[derive(Clone, Debug, Default)]
pub struct Store {
    records: BTreeMap<Key, Held>,
    // Of the records, those that are no tombstones.
    values: usize,
    bytes: usize,
    changes: u64,
    // Where the next search for expired records begins.
    swept: Option<Key>,
}

/// A record that is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Which write made it.
    pub stamp: Stamp,
    /// When it is forgotten.
    pub expires_at: Instant,
    /// The value; `None` if it was removed.
    pub value: Option<Payload>,
    // The neighbourhood in which all other replicas confirmed to hold it; 0 for none.
    pub(super) settled_in: u64,
    // When it was stored here.
    pub(super) stored_at: Instant,
}

/// What became of a record that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It is stored.
    New,
    /// It was stored before.
    Known,
    /// A newer one is stored.
    Newer(Stamp),
    /// There is no room.
    OverQuota,
}

impl Store {
    /// The record under a key, unless its time is over.
    pub fn get(&self, key: Key, now: Instant) -> Option<&Held> {
        self.records.get(&key).filter(|held| held.expires_at > now)
    }

    /// All records, by key, those among them whose time is over and that were not swept yet.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Held)> {
        self.records.iter().map(|(&key, held)| (key, held))
    }

    /// The number of records, tombstones included.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The number of values: records that are no tombstones.
    pub fn values(&self) -> usize {
        self.values
    }

    /// The records in a range of keys, by key, as [`Store::iter`] gives them.
    pub(super) fn range(&self, (first, last): (Key, Key)) -> impl Iterator<Item = (Key, &Held)> {
        self.records.range(first..=last).map(|(&key, held)| (key, held))
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Another number whenever something changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Stores a record unless there is a newer one, or no room.
    pub(super) fn accept(
        &mut self,
        record: &Record,
        now: Instant,
        bytes_max: usize,
        records_max: usize,
    ) -> Accepted {
        let old = self.records.get(&record.key);
        if let Some(old) = old.filter(|old| old.expires_at > now) {
            if old.stamp == record.stamp {
                return Accepted::Known;
            }
            // Two writes may have got one version, from a node that lost its memory in between.
            if old.stamp.version >= record.stamp.version {
                return Accepted::Newer(old.stamp);
            }
        }
        let freed = old.map_or(0, Held::bytes);
        let is_more = old.is_none();
        let was_value = old.is_some_and(|old| old.value.is_some());
        let held = Held {
            stamp: record.stamp,
            expires_at: now + Duration::from_millis(record.lifetime_ms.into()),
            value: record.value.clone(),
            settled_in: 0,
            stored_at: now,
        };
        let bytes = self.bytes - freed + held.bytes();
        // A tombstone frees room rather than takes it.
        if held.value.is_some() || is_more {
            let records = self.records.len() + usize::from(is_more);
            if bytes > bytes_max || records > records_max {
                return Accepted::OverQuota;
            }
        }
        self.bytes = bytes;
        self.values = self.values + usize::from(held.value.is_some()) - usize::from(was_value);
        self.changes += 1;
        let held = Held { value: held.value.map(unshared), ..held };
        self.records.insert(record.key, held);
        Accepted::New
    }

    /// Removes the record under a key if its version is at most `version`; false if there is no
    /// such record.
    pub(super) fn drop_record(&mut self, key: Key, version: Version) -> bool {
        match self.records.get(&key) {
            Some(held) if held.stamp.version <= version => {
                let held = self.records.remove(&key).expect("just seen");
                self.note_removed(&held);
                true
            }
            _ => false,
        }
    }

    /// Others hold it too, as long as the neighbourhood is this one.
    pub(super) fn settle(&mut self, key: Key, version: Version, neighbourhood: u64) {
        if let Some(held) = self.records.get_mut(&key)
            && held.stamp.version == version
        {
            held.settled_in = neighbourhood;
        }
    }

    /// The record as it is sent to others.
    pub(super) fn record(&self, key: Key, now: Instant) -> Option<Record> {
        let held = self.get(key, now)?;
        let lifetime = held.expires_at.since(now).as_millis();
        Some(Record {
            key,
            stamp: held.stamp,
            lifetime_ms: lifetime.clamp(1, u128::from(u32::MAX)) as u32,
            value: held.value.clone(),
        })
    }

    /// Keys and ages of up to `count` records from `from` on, and where the next go on; `None`
    /// after the last.
    pub(super) fn page(
        &self,
        from: Option<Key>,
        count: usize,
        now: Instant,
    ) -> (Vec<(Key, Version)>, Option<Key>) {
        let from = from.unwrap_or(Key::ZERO);
        let mut range = self.records.range(from..);
        let mut page = Vec::new();
        for (&key, held) in range.by_ref().take(count) {
            if held.expires_at > now {
                page.push((key, held.stamp.version));
            }
        }
        (page, range.next().map(|(&key, _)| key))
    }

    fn note_removed(&mut self, held: &Held) {
        self.bytes -= held.bytes();
        self.values -= usize::from(held.value.is_some());
        self.changes += 1;
    }

    /// Erases expired records among the next `count` records; calls `erased` for each.
    pub(super) fn sweep(&mut self, count: usize, now: Instant, mut erased: impl FnMut(Key)) {
        let from = self.swept.unwrap_or(Key::ZERO);
        let mut range = self.records.range(from..);
        let mut expired = Vec::new();
        for (&key, held) in range.by_ref().take(count) {
            if held.expires_at <= now {
                expired.push(key);
            }
        }
        self.swept = range.next().map(|(&key, _)| key);
        for key in expired {
            if let Some(held) = self.records.remove(&key) {
                self.note_removed(&held);
                erased(key);
            }
        }
    }
}

impl Held {
    fn bytes(&self) -> usize {
        Key::BYTES + self.value.as_ref().map_or(0, Payload::len)
    }
}

/// The same bytes without the rest of the message that they came in.
fn unshared(value: Payload) -> Payload {
    match value {
        Payload::Bytes(bytes) => Payload::Bytes(Bytes::copy_from_slice(&bytes)),
        Payload::Zeros(len) => Payload::Zeros(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(byte: u8) -> Key {
        Key::from_bytes([byte; Key::BYTES])
    }

    fn record(byte: u8, count: u64, value: Option<&'static str>) -> Record {
        let version = Version { count, by: 1 };
        Record {
            key: key(byte),
            stamp: Stamp { version, writer: 9, write: count },
            lifetime_ms: 60_000,
            value: value.map(Payload::from),
        }
    }

    #[test]
    fn the_newer_record_stays_and_a_removed_one_does_not_come_back() {
        let mut store = Store::default();
        let now = Instant::ZERO;
        let mut accept = |record: &Record| store.accept(record, now, 1000, 10);
        let (first, second) = (record(1, 1, Some("a")), record(1, 2, Some("b")));
        assert_eq!(accept(&first), Accepted::New);
        assert_eq!(accept(&first), Accepted::Known);
        assert_eq!(accept(&second), Accepted::New);
        assert_eq!(accept(&first), Accepted::Newer(second.stamp));
        let removed = record(1, 3, None);
        assert_eq!(accept(&removed), Accepted::New);
        assert_eq!(accept(&second), Accepted::Newer(removed.stamp));
        // Of one age and another write: a node gave it that had lost its memory.
        let twin =
            Record { stamp: Stamp { write: 77, ..removed.stamp }, ..record(1, 3, Some("c")) };
        assert_eq!(accept(&twin), Accepted::Newer(removed.stamp));
        assert_eq!(store.bytes(), Key::BYTES);
        assert_eq!(store.get(key(1), now).map(|held| held.value.clone()), Some(None));
        // Its time over, it is as if it had never been.
        let later = now + 2 * MINUTE;
        assert_eq!(store.get(key(1), later), None);
        assert_eq!(store.accept(&first, later, 1000, 10), Accepted::New);
        let mut swept = Vec::new();
        store.sweep(10, later + 2 * MINUTE, |key| swept.push(key));
        assert_eq!((swept, store.len(), store.bytes()), (vec![key(1)], 0, 0));
    }
}
