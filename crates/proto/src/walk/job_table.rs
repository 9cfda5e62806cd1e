//! The jobs of the walkers that are here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::message::Head;
use crate::core::NodeId;

/// The most known jobs: for a new job, one without a walker here is forgotten.
const JOBS_MAX: usize = 4096;
/// The most of these for one home: beyond it, a job of that home is forgotten.
const JOBS_OF_HOME_MAX: usize = 1024;

/// A known job's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobSlot(u32);

/// A server's record of the jobs whose walkers it holds.
#[derive(Debug, Default)]
pub(super) struct JobTable {
    slots: Vec<Slot>,
    index: BTreeMap<(NodeId, u64), u32>,
    /// The place of the last look-up.
    latest: u32,
}

#[derive(Debug)]
struct Slot {
    head: Arc<Head>,
    /// Walkers of it that are here.
    here: u32,
}

impl JobTable {
    /// Counts a walker of this job in; none if there are too many jobs.
    pub(super) fn enter(&mut self, head: &Arc<Head>) -> Option<JobSlot> {
        let place = match self.slots.get(self.latest as usize) {
            Some(slot) if is_same(&slot.head, head) => self.latest,
            _ => self.place(head)?,
        };
        self.latest = place;
        self.slots[place as usize].here += 1;
        Some(JobSlot(place))
    }

    /// Counts one out.
    pub(super) fn leave(&mut self, slot: JobSlot) {
        self.slots[slot.0 as usize].here -= 1;
    }

    /// The fields that all walkers of a job share.
    pub(super) fn head(&self, slot: JobSlot) -> &Arc<Head> {
        &self.slots[slot.0 as usize].head
    }

    fn place(&mut self, head: &Arc<Head>) -> Option<u32> {
        if let Some(&place) = self.index.get(&(head.home, head.job)) {
            // The sender describes the job. While walkers of the job are here, the first
            // description stands.
            let slot = &mut self.slots[place as usize];
            if slot.here == 0 {
                slot.head = head.clone();
            }
            return (*slot.head == **head).then_some(place);
        }
        let slot = Slot { head: head.clone(), here: 0 };
        let own = self.index.range((head.home, 0)..=(head.home, u64::MAX));
        let is_idle = |place: &u32| self.slots[*place as usize].here == 0;
        let has_most = own.clone().count() >= JOBS_OF_HOME_MAX;
        let place = if !has_most && self.slots.len() < JOBS_MAX {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let place = match has_most {
                true => own.map(|(_, &place)| place).find(is_idle)? as usize,
                false => self.slots.iter().position(|slot| slot.here == 0)?,
            };
            let old = std::mem::replace(&mut self.slots[place], slot);
            self.index.remove(&(old.head.home, old.head.job));
            place
        } as u32;
        self.index.insert((head.home, head.job), place);
        Some(place)
    }
}

fn is_same(a: &Arc<Head>, b: &Arc<Head>) -> bool {
    Arc::ptr_eq(a, b) || **a == **b
}
