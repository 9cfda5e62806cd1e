//! Durable files on a disk that tears, loses, fills, rots and fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_check::seeds;
use paceline_proto::core::{Payload, Rng};
use paceline_proto::overlay::{Key, Record, Stamp, Version};
use tokio::sync::mpsc;

use super::disk::{Write, write_all};
use super::faulty_disk::{Acted, Call, DiskFault, FaultyDisk};
use super::file::tests::{Held, held};
use super::file::{File, read_file};
use super::head::{FLAGS_AT, NUMBERS_AT, flags_of_newer};

/// Keys that are written.
const KEYS: u32 = 150;

/// How openings ended.
#[derive(Default)]
struct Outcomes {
    intact: u64,
    set_aside: u64,
    refused: u64,
    /// Openings of files whose head named the older of two commits.
    newer_unnamed: u64,
}

/// A host's file and its disk, through several starts.
struct Host {
    rng: Rng,
    disk: FaultyDisk,
    path: PathBuf,
    /// What was acknowledged.
    kept: Held,
    /// What there is if the batch counts whose writing failed.
    unsure: Option<Held>,
    written: u64,
    outcomes: Outcomes,
}

impl Host {
    fn new(seed: u64, folder: &Path) -> Host {
        Host {
            rng: Rng::new(seed, 1),
            disk: FaultyDisk::new(folder, Rng::new(seed, 2)),
            path: folder.join("host.redb"),
            kept: Held::new(),
            unsure: None,
            written: 0,
            outcomes: Outcomes::default(),
        }
    }

    fn record(&mut self, key: Key) -> Record {
        self.written += 1;
        let version = Version { count: self.written, by: 3 };
        let stamp = Stamp { version, writer: 9, write: 11 << 32 | 5 };
        let length = match self.rng.below(40) {
            0 => 60_000,
            1..5 => 6_000,
            _ => self.rng.below(400) as usize,
        };
        let value =
            (!self.rng.chance(0.1)).then(|| Payload::from(vec![self.written as u8; length]));
        Record { key, stamp, lifetime_ms: 3_600_000, value }
    }

    /// Writes a batch as a host does. True if it was acknowledged.
    fn write(&mut self, file: &File) -> Result<bool, String> {
        let (sender, waiting) = mpsc::channel(64);
        let (mut next, mut last) = (self.kept.clone(), 0);
        for _ in 0..1 + self.rng.below(20) {
            let key = Key::of(&self.rng.below(KEYS).to_be_bytes());
            let write = if self.rng.chance(0.2) {
                next.remove(&key);
                Write::Erase(key)
            } else {
                let record = self.record(key);
                last = record.stamp.version.count;
                next.extend(held([record.clone()]));
                Write::Keep(last, record)
            };
            sender.try_send(write).map_err(|_| "the queue is shorter than a batch")?;
        }
        drop(sender);
        let acknowledged = AtomicU64::new(0);
        let written = |number| acknowledged.store(number, Ordering::Relaxed);
        let ended = seeds::caught(|| Ok(write_all(file, waiting, written)))?;
        let acknowledged = acknowledged.into_inner();
        match ended {
            Ok(()) if acknowledged == last => (self.kept, self.unsure) = (next, None),
            Err(_) if acknowledged == 0 => self.unsure = Some(next),
            ended => {
                return Err(format!("{ended:?}, and {acknowledged} of {last} was acknowledged"));
            }
        }
        Ok(self.unsure.is_none())
    }

    /// Opens the file and compares what it holds; `None` if that was refused.
    fn open(&mut self, may_be_damaged: bool) -> Result<Option<File>, String> {
        let head = fs::File::open(&self.path).ok().and_then(|file| flags_of_newer(&file).ok()?);
        let before = self.disk.acted();
        let opened = File::open_on(&self.disk, &self.path);
        let opened = opened.and_then(|(file, damaged)| Ok((file.read()?, file, damaged)));
        let (records, file, damaged) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.outcomes.refused += 1;
                if error.reason.contains("it is kept as") {
                    (self.kept, self.unsure) = (Held::new(), None);
                }
                let after = self.disk.acted();
                let is_due = self.disk.is_off() || may_be_damaged || errors(after) > errors(before);
                return if is_due { Ok(None) } else { Err(format!("refused: {error}")) };
            }
        };
        let found = held(records);
        match damaged {
            Some(damaged) => {
                self.outcomes.set_aside += 1;
                let name = damaged.kept_as.to_string_lossy().into_owned();
                if !may_be_damaged {
                    return Err(format!("set aside: {damaged}"));
                }
                if !found.is_empty() || !damaged.kept_as.exists() || !name.contains(".damaged-") {
                    return Err(format!("{} rows found, the file kept as {name}", found.len()));
                }
                // The next one may be set aside in the same millisecond.
                fs::remove_file(damaged.kept_as).map_err(|error| error.to_string())?;
            }
            None => {
                self.outcomes.intact += 1;
                self.outcomes.newer_unnamed += u64::from(head.is_some());
                if found != self.kept && Some(&found) != self.unsure.as_ref() {
                    return Err(difference(&found, &self.kept));
                }
            }
        }
        (self.kept, self.unsure) = (found, None);
        Ok(Some(file))
    }

    /// Starts once, with this fault, and ends. The files are then as the next start finds them.
    fn live(&mut self, fault: Option<DiskFault>) -> Result<(), String> {
        // An open database has most of its pages in memory.
        let is_read = matches!(fault, Some(DiskFault::Error { call: Call::Read, .. }));
        let is_early = self.rng.chance(0.3) || is_read;
        self.disk.arm(fault.filter(|_| is_early));
        let file = self.open(false)?;
        if !is_early {
            self.disk.arm(fault);
        }
        if let Some(file) = &file {
            for _ in 0..1 + self.rng.below(12) {
                if !self.write(file)? {
                    break;
                }
            }
        }
        let fails = self.disk.is_off() || self.rng.chance(0.3);
        if fails {
            self.disk.kill();
            drop(file);
            self.disk.power_on();
        } else if self.rng.chance(0.5) {
            self.disk.kill();
            drop(file);
            self.disk.start_again();
        } else {
            drop(file);
        }
        // Without room or reads the next start may be refused, and changes nothing.
        let goes_on = matches!(fault, Some(DiskFault::Full { .. })) && self.rng.chance(0.5);
        if goes_on && !fails {
            drop(self.open(false)?);
        }
        self.disk.arm(None);
        Ok(())
    }

    fn draw_fault(&mut self) -> Option<DiskFault> {
        let rng = &mut self.rng;
        match rng.below(8) {
            0..3 => Some(DiskFault::PowerFailure { after: rng.below(60) }),
            3..5 => Some(DiskFault::Full {
                bytes: u64::from(rng.below(1_400_000)),
                allows_holes: rng.chance(0.7),
            }),
            5..7 => {
                let calls = [Call::Read, Call::Write, Call::SetLen, Call::Sync, Call::Sync];
                Some(DiskFault::Error {
                    call: calls[rng.below(5) as usize],
                    after: rng.below(12),
                    times: if rng.chance(0.5) { 1 } else { 1_000 },
                })
            }
            _ => None,
        }
    }

    /// Damages the file at rest, reads it as a dump does, and opens it.
    fn rot(&mut self) -> Result<(), String> {
        self.disk.rot(&self.path, harm);
        let mut dump = BTreeMap::new();
        let dumped = read_file(&self.path, |(count, _), key, _| {
            dump.insert(*key, count);
        });
        let versions = |held: &Held| -> BTreeMap<Key, u64> {
            held.iter().map(|(key, (stamp, _))| (*key, stamp.version.count)).collect()
        };
        let mut right = Some(&self.kept).into_iter().chain(&self.unsure);
        if dumped.is_ok() && !right.any(|held| versions(held) == dump) {
            return Err("the dump is of another state".to_owned());
        }
        let Some(file) = self.open(true)? else { return Ok(()) };
        // The host goes on with what it has.
        if !self.write(&file)? {
            return Err("it cannot be written after it was opened".to_owned());
        }
        drop(file);
        self.open(false)?.ok_or("it was refused afterwards")?;
        Ok(())
    }
}

fn errors(acted: Acted) -> u64 {
    acted.full + acted.read_errors + acted.write_errors + acted.sync_errors
}

/// Damages bytes of a file that lie anywhere, or in its head.
fn harm(rng: &mut Rng, bytes: &mut [u8], acted: &mut Acted) {
    let length = bytes.len() as u32;
    match rng.below(6) {
        0 => {
            let bits = 1 + rng.below(40);
            for _ in 0..bits {
                bytes[rng.below(length) as usize] ^= 1 << rng.below(8);
            }
            acted.flipped += u64::from(bits);
        }
        1 => {
            bytes[rng.below(320) as usize] ^= 1 << rng.below(8);
            acted.flipped += 1;
        }
        2 => {
            bytes[FLAGS_AT as usize] ^= 1 << rng.below(8);
            acted.flipped += 1;
        }
        kind => {
            let unit = if kind == 3 { 512 } else { 4096 };
            let units = if kind == 5 { 4 } else { length / unit };
            let at = (rng.below(units) * unit) as usize;
            let is_garbage = rng.chance(0.3);
            for byte in &mut bytes[at..at + unit as usize] {
                *byte = if is_garbage { rng.below(256) as u8 } else { 0 };
            }
            acted.overwritten += 1;
        }
    }
}

fn difference(found: &Held, kept: &Held) -> String {
    let lost = kept.keys().filter(|key| !found.contains_key(key)).count();
    let added = found.keys().filter(|key| !kept.contains_key(key)).count();
    let wrong = kept.iter().filter(|(key, it)| found.get(key).is_some_and(|has| has != *it));
    format!("{lost} of {} keys are gone, {added} back, {} wrong", kept.len(), wrong.count())
}

const COUNTS: usize = 14;

fn run(seed: u64) -> Result<[u64; COUNTS], String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut host = Host::new(seed, folder.path());
    for _ in 0..1 + host.rng.below(4) {
        let fault = host.draw_fault();
        host.live(fault)?;
    }
    // Where there were nothing but crashes, missing room and errors the file is whole.
    host.live(None)?;
    drop(host.open(false)?);
    if host.rng.chance(0.6) {
        host.live(None)?;
        host.rot()?;
    }
    let Outcomes { intact, set_aside, refused, newer_unnamed } = host.outcomes;
    let acted = host.disk.acted();
    Ok([
        intact,
        set_aside,
        refused,
        newer_unnamed,
        acted.torn,
        acted.lost,
        acted.names_undone,
        acted.full,
        acted.read_errors,
        acted.write_errors,
        acted.sync_errors,
        acted.flipped,
        acted.overwritten,
        host.written,
    ])
}

#[test]
fn acknowledged_records_outlive_disks_that_fail_or_the_damage_is_reported_seeds() {
    let (count, totals) = seeds::run_all(|seed| {
        let replay = || seeds::replay_with("-p paceline --lib dht::failing_disks", seed);
        seeds::caught(|| run(seed)).map_err(|what| format!("{what}\nreplay: {}", replay()))
    });
    let names = [
        "intact",
        "set aside",
        "refused",
        "newer commit not named",
        "torn",
        "lost",
        "names undone",
        "full",
        "failed reads",
        "failed writes",
        "failed syncs",
        "flipped bits",
        "overwritten",
        "records",
    ];
    let acknowledged: Vec<String> =
        names.iter().zip(totals).map(|(name, total)| format!("{total} {name}")).collect();
    println!("{count} seeds: {}", acknowledged.join(", "));
    assert!(count < 100 || totals.iter().all(|&total| total > 0), "{acknowledged:?}");
}

/// A host that wrote batches, until this many were acknowledged.
fn written(seed: u64, folder: &Path, batches: usize) -> (Host, File) {
    let mut host = Host::new(seed, folder);
    let file = host.open(false).unwrap().unwrap();
    for _ in 0..batches {
        assert!(host.write(&file).unwrap());
    }
    (host, file)
}

#[test]
fn a_damaged_file_keeps_its_name_and_is_reported_until_there_is_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let (host, file) = written(1, folder.path(), 3);
    drop(file);
    host.disk.rot(&host.path, |_, bytes, acted| {
        bytes[4096..].fill(0);
        acted.overwritten += 1;
    });
    host.disk.arm(Some(DiskFault::Full { bytes: 100, allows_holes: true }));
    for _ in 0..2 {
        let refused = File::open_on(&host.disk, &host.path).err().unwrap();
        assert!(refused.reason.contains("is damaged") && refused.reason.contains("cannot replace"));
    }
    assert!(host.disk.acted().full >= 2);
    host.disk.arm(None);
    let (_, damaged) = File::open_on(&host.disk, &host.path).unwrap();
    assert!(damaged.unwrap().kept_as.exists());
}

/// Reads and opens a file of these bytes, which may be damaged: true if that was reported. Else
/// the file holds what was kept.
fn is_reported(bytes: &[u8], kept: &Held, what: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.redb");
    fs::write(&path, bytes).unwrap();
    let dumped = read_file(&path, |_, _, _| ());
    let (file, damaged) = File::open(&path).unwrap();
    let found = held(file.read().unwrap());
    if let Some(damaged) = damaged {
        assert!(dumped.is_err() && found.is_empty() && damaged.kept_as.exists(), "{what}");
        return true;
    }
    assert!(dumped.is_ok() && found == *kept, "{what}: {}", difference(&found, kept));
    false
}

/// A file and what it holds.
struct Whole {
    bytes: Vec<u8>,
    kept: Held,
    /// What the file was before the last batches.
    before: Vec<u8>,
}

/// The files of a host that stopped, and of one that was killed.
fn files() -> [Whole; 2] {
    [false, true].map(|is_killed| {
        let folder = tempfile::tempdir().unwrap();
        let (mut host, file) = written(5, folder.path(), 5);
        let before = fs::read(&host.path).unwrap();
        while host.kept.len() < 60 {
            assert!(host.write(&file).unwrap());
        }
        if is_killed {
            host.disk.kill();
        }
        drop(file);
        Whole { bytes: fs::read(&host.path).unwrap(), kept: host.kept, before }
    })
}

#[test]
fn a_flipped_bit_in_the_head_does_not_bring_an_older_commit_back() {
    let names_commit = 8 * FLAGS_AT as usize;
    let numbers = NUMBERS_AT.map(|at| 8 * at..8 * (at + 8));
    for Whole { bytes: whole, kept, .. } in files() {
        let mut reported = 0;
        for bit in (names_commit..names_commit + 8).chain(numbers.clone().into_iter().flatten()) {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_reported = is_reported(&bytes, &kept, &format!("bit {bit}"));
            assert!(bit != names_commit || !is_reported, "both commits are whole");
            reported += u32::from(is_reported);
        }
        assert!(reported > 30, "{reported}: the numbers are part of what a checksum covers");
    }
}

#[test]
fn a_page_that_the_disk_did_not_write_is_noticed() {
    for Whole { bytes: whole, kept, before } in files() {
        let (mut differ, mut reported) = (0, 0);
        // The first page has the head, which names the commit that counts.
        for page in (4096..whole.len().min(before.len())).step_by(4096) {
            let part = page..page + 4096;
            if whole[part.clone()] != before[part.clone()] {
                let mut bytes = whole.clone();
                bytes[part.clone()].copy_from_slice(&before[part]);
                differ += 1;
                reported += u32::from(is_reported(&bytes, &kept, &format!("page at {page}")));
            }
        }
        assert!(reported > 3, "{reported} of {differ} pages: the others are of commits before");
    }
}

#[test]
fn an_empty_file_is_reported() {
    assert!(is_reported(&[], &Held::new(), "empty"));
}

#[test]
fn what_a_failed_synchronisation_left_in_memory_is_not_taken_to_be_on_disk() {
    for after in 0..16 {
        let folder = tempfile::tempdir().unwrap();
        let (mut host, file) = written(after.into(), folder.path(), 2);
        host.disk.arm(Some(DiskFault::Error { call: Call::Sync, after, times: 1 }));
        assert!((0..40).any(|_| !host.write(&file).unwrap()), "no synchronisation failed");
        assert_eq!(host.disk.acted().sync_errors, 1);
        host.disk.kill();
        drop(file);
        // The process starts again, and the memory is that of before.
        host.disk.start_again();
        let file = host.open(false).unwrap();
        host.disk.kill();
        drop(file);
        host.disk.power_on();
        assert!(host.open(false).unwrap().is_some(), "after {after}");
    }
}

#[test]
fn a_file_that_was_just_made_outlives_a_power_failure() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..8 {
        let (mut host, file) = written(seed, folder.path(), 1);
        assert!(!host.kept.is_empty());
        host.disk.kill();
        drop(file);
        host.disk.power_on();
        assert!(host.open(false).unwrap().is_some());
        fs::remove_file(&host.path).unwrap();
    }
}
