//! Walks over the whole table: all its records, and all its hosts.

use std::collections::{HashSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::NodeId;
use paceline_proto::overlay::{
    Key, NodeDescription, Operation, Outcome, Page, Record, Scan as PageOf, Version,
};

use super::entry::split;
use super::error::KeyError;
use super::{Dht, DhtStat, Role};

/// A record that a scan found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanEntry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The version of the value, for [`Dht::put_if`].
    pub version: Version,
    /// How much longer the value is kept, if it is not written again.
    pub lifetime: Duration,
}

/// The state of a host of the table, as the host itself sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStat {
    /// The host.
    pub host: NodeId,
    /// What it knows and holds. Its role is [`Role::Member`].
    pub stat: DhtStat,
    /// Marks of removed values that it holds; each is kept for 10 minutes.
    pub removed: usize,
    /// Hosts whose arrival or departure changes what it holds; at most 64.
    pub neighbours: Vec<NodeId>,
}

/// The entries of a table, or of a range of it, in the order of the hashes of their keys
/// ([`Dht::scan`]).
///
/// It holds one page at a time, of at most 1,024 entries and 64 KiB, and asks for the next once
/// that has been read.
pub struct Scan {
    dht: Dht,
    // Where the next page begins; `None` after the last.
    next: Option<Key>,
    last: Key,
    more_at: Option<NodeId>,
    page: VecDeque<(Key, ScanEntry)>,
    foreign: u64,
}

impl Scan {
    fn new(dht: Dht, range: &RangeInclusive<Key>) -> Scan {
        let next = Some(*range.start()).filter(|_| !range.is_empty());
        let (last, page) = (*range.end(), VecDeque::new());
        Scan { dht, next, last, more_at: None, page, foreign: 0 }
    }

    /// The next entry; `None` after the last. Dropping the future loses nothing: the next call goes
    /// on at the same place.
    ///
    /// # Errors
    /// As [`Dht::get`], if a page could not be had. The scan stays where it is, and the next call
    /// tries again: [`KeyError::Unsettled`], [`KeyError::Busy`], [`KeyError::NoRoute`] and
    /// [`KeyError::TimedOut`] may pass.
    pub async fn next(&mut self) -> Option<Result<ScanEntry, KeyError>> {
        loop {
            if let Some((_, entry)) = self.page.pop_front() {
                return Some(Ok(entry));
            }
            let first = self.next?;
            let page = PageOf { first, last: self.last, at: self.more_at };
            match self.dht.ask_one(Operation::Scan(page)).await {
                Ok(Outcome::Page(page)) => self.take(*page),
                Ok(_) => return Some(Err(KeyError::NoRoute)),
                Err(error) => {
                    self.more_at = None;
                    return Some(Err(error));
                }
            }
        }
    }

    fn take(&mut self, page: Page) {
        self.next = (page.until < self.last).then(|| page.until + Key::from(1));
        self.more_at = page.more_at;
        for record in page.records {
            match entry(&record) {
                Some(entry) => self.page.push_back((record.key, entry)),
                None => self.foreign += 1,
            }
        }
    }

    /// The hash from which a scan would have to go on to return all that this one has not returned;
    /// `None` if it is over. [`Dht::scan_range`] takes it.
    pub fn position(&self) -> Option<Key> {
        self.page.front().map(|(key, _)| *key).or(self.next)
    }

    /// Records that were left out, because what is stored is no key and value of this library.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
}

/// Key and value of a record, if these are what is stored.
fn entry(record: &Record) -> Option<ScanEntry> {
    let (key, value) = split(record.value.as_ref()?)?;
    let lifetime = Duration::from_millis(record.lifetime_ms.into());
    let entry = ScanEntry { key, value, version: record.stamp.version, lifetime };
    (Key::of(&entry.key) == record.key).then_some(entry)
}

/// The hosts of a table ([`Dht::hosts`]).
pub struct Hosts {
    dht: Dht,
    // Where the next host is looked for; `None` after the last.
    next: Option<Key>,
    // With some algorithms the keys of one host are several ranges.
    seen: HashSet<NodeId>,
}

impl Hosts {
    /// The state of the next host; `None` after the last.
    ///
    /// # Errors
    /// As [`Dht::stat_of`]. The next call tries again.
    pub async fn next(&mut self) -> Option<Result<HostStat, KeyError>> {
        loop {
            let place = self.next?;
            match self.dht.describe(place).await {
                Err(error) => return Some(Err(error)),
                Ok(described) => {
                    let until = described.until;
                    self.next = (until < Key::MAX).then(|| until + Key::from(1));
                    if self.seen.insert(described.node) {
                        return Some(Ok(host_stat(described)));
                    }
                }
            }
        }
    }
}

fn host_stat(described: NodeDescription) -> HostStat {
    let stat = described.stat;
    let [contacts, missing, values, removed] =
        [stat.contacts, stat.missing, stat.values, stat.removed].map(|count| count as usize);
    let bytes = usize::try_from(stat.bytes).unwrap_or(usize::MAX);
    let is_settled = stat.is_settled;
    HostStat {
        host: described.node,
        stat: DhtStat { role: Role::Member, contacts, is_settled, missing, values, bytes },
        removed,
        neighbours: stat.neighbours,
    }
}

impl Dht {
    /// All entries of the table, in the order of the hashes of their keys ([`Key::of`]): keys are
    /// hashed, so their own order is not known to the table.
    ///
    /// Each key is returned once at most. An entry that was acknowledged before the scan began, and
    /// neither written nor removed until it ends, is returned, also if hosts join, leave or fail
    /// meanwhile: as with [`Dht::get`], a page is put off while failed hosts may hold its records
    /// alone. Of an entry that is written, removed or ends during the scan, the scan returns a
    /// value that it had at some time during the scan, or leaves it out. While the network is split
    /// the scan returns what hosts on its side hold.
    ///
    /// Each page is a look-up and a request; the host that answers it first asks its neighbours
    /// what they hold that it lacks.
    pub fn scan(&self) -> Scan {
        self.scan_range(Key::ZERO..=Key::MAX)
    }

    /// Like [`Dht::scan`], of the entries whose keys have hashes in this range.
    pub fn scan_range(&self, range: RangeInclusive<Key>) -> Scan {
        Scan::new(self.clone(), &range)
    }

    /// All hosts of the table, each with its state, in the order of their places in it. A host that
    /// joins or leaves meanwhile may be left out. A look-up and a request for each, or a few with
    /// algorithms other than Chord and Koorde.
    pub fn hosts(&self) -> Hosts {
        Hosts { dht: self.clone(), next: Some(Key::ZERO), seen: HashSet::new() }
    }

    /// The state of any host of the table; `None` if the table has no such host, or the host is
    /// joining or leaving.
    ///
    /// # Errors
    /// If the host could not be found, or did not answer.
    pub async fn stat_of(&self, host: NodeId) -> Result<Option<HostStat>, KeyError> {
        // A host is responsible for the place at which it lies.
        let described = self.describe(self.shared.space.key(host)).await?;
        Ok(Some(described).filter(|described| described.node == host).map(host_stat))
    }

    /// The state of the host that is responsible for a place.
    async fn describe(&self, place: Key) -> Result<NodeDescription, KeyError> {
        match self.ask_one(Operation::Stat(place)).await? {
            Outcome::Described(described) => Ok(*described),
            _ => Err(KeyError::NoRoute),
        }
    }
}
