//! The ledger of scans: which values were stored all the time while a node scanned the overlay, and
//! which records the pages of its scan had.

use std::collections::BTreeMap;

use paceline_proto::core::{Instant, Lane, NodeId};
use paceline_proto::overlay::{Command, Event, Key, Operation, Outcome, Page, Scan};

use super::overlay::{Host, OverlayLedger, Stable, hash};
use super::report::{Report, Violation, rules};
use paceline_sim::{Fault, Input, Observer, Reply};

rules! {
    /// What an overlay promises of scans.
    pub enum Rule {
        /// D11: the pages of a scan have ascending keys, and no key twice.
        Once => "D11 once",
        /// D12: a scan has every value that was acknowledged before it began and not written since,
        /// unless failed nodes took it with them; and no value that was removed before it began.
        Complete => "D12 complete",
        /// D13: a value of a page was written under its key.
        Written => "D13 written",
    }
}

/// A scan that is under way.
struct Progress {
    // The request for the next page, and where that begins.
    id: u64,
    first: Key,
    begun_at: Instant,
    stable: BTreeMap<Key, Stable>,
    found: BTreeMap<Key, u64>,
}

/// Watches the values of an overlay, and scans of all keys, from its first node on.
///
/// A request for a page from key 0 begins a scan of its node; each of its next requests for a page
/// goes on where the page before ended.
pub struct ScanLedger {
    values: OverlayLedger,
    // Scans that begin earlier may miss values.
    complete_from: Instant,
    scans: BTreeMap<NodeId, Progress>,
    pages: u64,
    records: u64,
    completed: u64,
    report: Report<Rule>,
}

impl ScanLedger {
    /// A ledger over that of the values. Scans that begin before `complete_from` may miss values:
    /// so may reads, while links are cut.
    pub fn new(values: OverlayLedger, complete_from: Instant) -> ScanLedger {
        ScanLedger {
            values,
            complete_from,
            scans: BTreeMap::new(),
            pages: 0,
            records: 0,
            completed: 0,
            report: Report::default(),
        }
    }

    /// The ledger of the values.
    pub fn values(&self) -> &OverlayLedger {
        &self.values
    }

    /// The first broken promise.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// Scans that were completed, pages, and records in these.
    pub fn totals(&self) -> [u64; 3] {
        [self.completed, self.pages, self.records]
    }

    fn begin_page(&mut self, at: Instant, node: NodeId, id: u64, scan: Scan) {
        if scan.first == Key::ZERO {
            let (stable, found) = (self.values.stable(), BTreeMap::new());
            let progress = Progress { id, first: scan.first, begun_at: at, stable, found };
            self.scans.insert(node, progress);
        } else if let Some(progress) = self.scans.get_mut(&node) {
            (progress.id, progress.first) = (id, scan.first);
        }
    }

    fn end_page(&mut self, at: Instant, node: NodeId, id: u64, page: &Page) {
        let Some(progress) = self.scans.get_mut(&node).filter(|progress| progress.id == id) else {
            return;
        };
        self.pages += 1;
        self.records += page.records.len() as u64;
        for record in &page.records {
            let value = record.value.as_ref().map_or(0, hash);
            let last = progress.found.last_key_value().map(|(&key, _)| key);
            if last >= Some(record.key) {
                let what = format!("{} comes after {last:?}", record.key);
                return self.report.note(at, node, (Rule::Once, what));
            }
            progress.found.insert(record.key, value);
            if !self.values.is_written(record.key, value) {
                let what = format!("{}: a value that no node wrote there", record.key);
                return self.report.note(at, node, (Rule::Written, what));
            }
        }
        if page.until == Key::MAX
            && let Some(progress) = self.scans.remove(&node)
        {
            self.completed += 1;
            if progress.begun_at >= self.complete_from {
                self.end_scan(at, node, &progress);
            }
        }
    }

    fn end_scan(&mut self, at: Instant, node: NodeId, progress: &Progress) {
        let now = self.values.stable();
        for (key, stable) in &progress.stable {
            if now.get(key) != Some(stable) {
                continue;
            }
            let found = progress.found.get(key).copied();
            if found != stable.hash {
                let (begun, held) = (progress.begun_at, self.values.holders(*key));
                let what = format!(
                    "{key}: {found:?} since {begun}, but {:?} was stored, held by {held:?}",
                    stable.hash
                );
                return self.report.note(at, node, (Rule::Complete, what));
            }
        }
    }
}

impl<P: Host> Observer<P> for ScanLedger {
    fn before_call(&mut self, at: Instant, node: NodeId, protocol: &P, input: &Input<'_, P>) {
        self.values.before_call(at, node, protocol, input);
        if let Input::Command(Command::Request { id, operation, .. }) = input
            && let Operation::Scan(scan) = operation
        {
            self.begin_page(at, node, *id, *scan);
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &P::Message) {
        Observer::<P>::on_send(&mut self.values, at, from, to, lane, message);
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        self.values.on_event(at, node, event, reply);
        match event {
            Event::Outcome { id, outcomes } => {
                for (_, outcome) in outcomes {
                    if let Outcome::Page(page) = outcome {
                        self.end_page(at, node, *id, page);
                    }
                }
            }
            Event::Left => drop(self.scans.remove(&node)),
            _ => {}
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.values.after_call(at, node, protocol, reply);
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        Observer::<P>::on_fault(&mut self.values, at, fault);
        if let Fault::Crash(node) = fault {
            self.scans.remove(node);
        }
    }
}
