use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};
use paceline_proto::walk::{Census, Config, JobId, Message, Server, Trail, UnderWay};

use super::job::JobLedger;
use super::queue::{Change, Queue};
use super::world::World;
use super::{Broken, Rule};

/// An attempt at a walk: its home, the number of its job, its token.
pub(super) type Key = (NodeId, u64, u64);

/// Copies of an attempt at a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copies {
    pub(super) count: u32,
    /// The fewest and the most steps that one of them has taken.
    steps: (u32, u32),
}

impl Copies {
    /// One more, which has taken so many steps.
    pub(super) fn add(&mut self, steps: u32) {
        let (least, most) = if self.count == 0 { (steps, steps) } else { self.steps };
        self.count += 1;
        self.steps = (least.min(steps), most.max(steps));
    }
}

/// What goes in and out in a call.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// What came, to go on.
    pub(super) came: BTreeMap<Key, Copies>,
    pub(super) came_count: usize,
    /// What came home.
    pub(super) home: Vec<Key>,
    /// What left, to go on or home.
    pub(super) left: BTreeMap<Key, u32>,
    /// Walks that were told of.
    pub(super) told: Vec<(JobId, u64, u8)>,
    /// A job that is to be given up.
    pub(super) cancelled: Option<JobId>,
    /// A job that is to be begun, and why it is not to be, if it is not.
    pub(super) asked: Option<(JobId, Option<&'static str>)>,
    pub(super) is_refused: bool,
    pub(super) is_work: bool,
    /// News of a peer, of which a server makes nothing.
    pub(super) is_news: bool,
    /// A message of a stranger.
    pub(super) is_foreign: bool,
}

/// What is known of a node in its present life.
#[derive(Debug, Default)]
pub(super) struct NodeLedger {
    pub(super) jobs: BTreeMap<JobId, JobLedger>,
    held: BTreeMap<Key, Copies>,
    /// Since when what waits for company does.
    waiting: BTreeMap<Key, Instant>,
    under_way: Vec<UnderWay>,
    /// Of the servers as homes, and of each client.
    queues: Vec<Queue>,
    census: Census,
    pub(super) is_down: bool,
    /// How long it stood still, all in all.
    pub(super) stood: Duration,
}

/// What became of walkers in a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) generated: u64,
    pub(super) dropped: u64,
    pub(super) lost: u64,
    pub(super) refused: u64,
    pub(super) marked: u64,
}

/// What each walker of a message is, and how many steps it has taken.
pub(super) fn travellers(to: NodeId, message: &Message) -> impl Iterator<Item = (Key, u32)> + '_ {
    let on = match message {
        Message::Walkers { head, walkers } => Some(walkers.iter().map(move |traveller| {
            ((head.home, head.job, traveller.token), traveller.walker.steps)
        })),
        Message::Ended { .. } | Message::Upkeep(..) | Message::Barrier(_) => None,
    };
    let home = match message {
        Message::Ended { job, walks, .. } => {
            Some(walks.iter().map(move |walk| ((to, *job, walk.token), walk.steps)))
        }
        Message::Walkers { .. } | Message::Upkeep(..) | Message::Barrier(_) => None,
    };
    on.into_iter().flatten().chain(home.into_iter().flatten())
}

impl NodeLedger {
    /// Steps that an attempt had taken when it came to be here, which now has taken `steps`. Of
    /// several copies, the one that was next to that.
    pub(super) fn steps_before(&self, call: &Call, key: Key, steps: u32) -> usize {
        let copies = [self.held.get(&key), call.came.get(&key)];
        let copies = || copies.into_iter().flatten();
        if copies().map(|copies| copies.count).sum::<u32>() > 2 {
            return steps as usize;
        }
        let of = copies().flat_map(|copies| [copies.steps.0, copies.steps.1]);
        of.filter(|&before| before <= steps).max().unwrap_or(0) as usize
    }

    /// Walkers that are here.
    pub(super) fn held(&self) -> u64 {
        self.held.values().map(|copies| u64::from(copies.count)).sum()
    }

    /// The node after a call. What became of its walkers.
    pub(super) fn close(
        &mut self,
        (at, node): (Instant, NodeId),
        server: &Server,
        call: &Call,
        (config, world, foreign): (&Config, &World, &BTreeSet<Key>),
        mut is_fresh: impl FnMut(Key) -> bool,
    ) -> Result<Tally, Broken> {
        let census = server.census();
        let change = since(&self.census, &census);
        self.census = census;
        let mut under_way: Vec<UnderWay> = server.under_way().collect();
        under_way.sort_unstable_by_key(|of| (of.of, of.walk));
        let held = self.look(node, server, call, (world, foreign))?;

        // What is here or has left was here, came, or is new.
        let (mut gone, mut fresh) = (Vec::new(), 0);
        let known = self.held.keys().chain(call.came.keys()).chain(held.keys());
        let mut keys: Vec<Key> = known.chain(call.left.keys()).copied().collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let count = |of: &BTreeMap<Key, Copies>| of.get(&key).map_or(0, |copies| copies.count);
            let before = count(&self.held) + count(&call.came);
            let after = count(&held) + call.left.get(&key).copied().unwrap_or(0);
            if before == 0 && after == 1 && key.0 == node && is_fresh(key) {
                let is_own = |of: &UnderWay| (of.job, of.token) == (key.1, key.2);
                if !under_way.iter().any(is_own) {
                    let what = format!("a walker of no walk under way, token {:x}", key.2);
                    return Err((Rule::Copies, what));
                }
                fresh += 1;
            } else if after > before {
                let (home, token) = (key.0, key.2);
                let what = format!("{after} copies of {token:x} of {home}, where {before} were");
                return Err((Rule::Copies, what));
            }
            gone.extend((after..before).map(|_| key));
        }
        let dropped = change.dropped_early + change.dropped_full;
        let ended_here = change.ended - change.returned.min(change.ended);
        let counted = dropped + change.lost + change.refused + ended_here;
        if gone.len() as u64 + change.generated != counted + fresh {
            let what = format!(
                "{} walkers are gone and {} were generated, of which {fresh} are seen; {dropped} \
                 dropped, {} lost, {} refused and {ended_here} ended here are counted: {gone:x?}",
                gone.len(),
                change.generated,
                change.lost,
                change.refused,
            );
            return Err((Rule::Conservation, what));
        }
        self.check_told(call, &mut gone)?;
        self.check_waiting(at, server, call, config)?;
        let queues = server.queues().map(|(length, average)| Queue { length, average });
        let after: Vec<Queue> = queues.collect();
        if server.queue_len() != after.iter().map(|queue| queue.length).sum::<usize>() {
            let what = format!("{} walkers wait, in {after:?}", server.queue_len());
            return Err((Rule::Queue, what));
        }
        let queued = Change {
            before: &self.queues,
            after: &after,
            entered_max: call.came_count + change.generated as usize,
            is_worked: call.is_work,
        };
        queued.check(&config.queue, &change)?;
        self.queues = after;
        self.held = held;
        self.under_way = under_way;
        self.check_jobs(at, call, config)?;
        let Census { generated, lost, refused, marked, .. } = change;
        Ok(Tally { generated, dropped, lost, refused, marked })
    }

    /// What is here now.
    fn look(
        &self,
        node: NodeId,
        server: &Server,
        call: &Call,
        (world, foreign): (&World, &BTreeSet<Key>),
    ) -> Result<BTreeMap<Key, Copies>, Broken> {
        let mut held: BTreeMap<Key, Copies> = BTreeMap::new();
        let mut enter = |key, steps| held.entry(key).or_default().add(steps);
        for (head, traveller) in server.queued() {
            let key = (head.home, head.job, traveller.token);
            world.check_queued(node, &head.kind, &traveller.walker)?;
            if head.trail == Trail::Vertices && !foreign.contains(&key) {
                let from = self.steps_before(call, key, traveller.walker.steps);
                let way = (traveller.walker.source, &*traveller.path);
                world.check_here(node, &head.kind, way, from)?;
            }
            enter(key, traveller.walker.steps);
        }
        for (to, message) in server.leaving() {
            travellers(to, message).for_each(|(key, steps)| enter(key, steps));
        }
        Ok(held)
    }

    /// Walks that are told of have come home in this call.
    fn check_told(&self, call: &Call, gone: &mut Vec<Key>) -> Result<(), Broken> {
        let mut home: Vec<Key> = call.home.iter().copied().chain(gone.drain(..)).collect();
        for (job, walk, attempt) in &call.told {
            let is_it = |of: &&UnderWay| (of.of, of.walk, of.attempt) == (*job, *walk, *attempt);
            let of = self.under_way.iter().find(is_it);
            let came = of.and_then(|of| {
                home.iter().position(|&(_, job, token)| job == of.job && of.is_of(token))
            });
            let Some(came) = came else {
                let what = format!("walk {walk} is told of, and no walker of it came home");
                return Err((Rule::Copies, what));
            };
            home.swap_remove(came);
        }
        Ok(())
    }

    fn check_waiting(
        &mut self,
        at: Instant,
        server: &Server,
        call: &Call,
        config: &Config,
    ) -> Result<(), Broken> {
        let leaving = server.leaving().flat_map(|(to, message)| travellers(to, message));
        let before = std::mem::take(&mut self.waiting);
        // If one has left, it is another copy that waits.
        let since = |key| before.get(&key).copied().filter(|_| !call.left.contains_key(&key));
        self.waiting = leaving.map(|(key, _)| (key, since(key).unwrap_or(at))).collect();
        if self.waiting.is_empty() {
            return Ok(());
        }
        if server.queued().next().is_none() {
            let what = format!("{} wait for company, and nobody comes", self.waiting.len());
            return Err((Rule::Bundle, what));
        }
        let deadline = config.bundle.deadline;
        match self.waiting.values().min() {
            Some(&since) if at.since(since) >= deadline && !call.is_news => {
                let what = format!("one waits since {since}, at most {deadline:?}");
                Err((Rule::Bundle, what))
            }
            _ => Ok(()),
        }
    }

    fn check_jobs(&mut self, at: Instant, call: &Call, config: &Config) -> Result<(), Broken> {
        let NodeLedger { jobs, under_way, stood, .. } = self;
        if let Some(of) = under_way.iter().find(|of| !jobs.contains_key(&of.of)) {
            let what = format!("walk {} is under way, and its job is over", of.walk);
            return Err((Rule::Copies, what));
        }
        for (id, job) in jobs.iter_mut() {
            let from = under_way.partition_point(|of| of.of < *id);
            let to = under_way.partition_point(|of| of.of <= *id);
            job.look(at, &under_way[from..to], (config, *stood))?;
            if job.is_over() {
                let what = format!("job {} goes on with {}", id.0, job.progress());
                return Err((Rule::Completion, what));
            }
        }
        if let Some(id) = call.cancelled.filter(|id| jobs.contains_key(id)) {
            return Err((Rule::Completion, format!("job {} was cancelled, and goes on", id.0)));
        }
        match call.asked {
            Some((id, Some(why))) if !call.is_refused => {
                Err((Rule::Completion, format!("job {} is not refused: {why}", id.0)))
            }
            Some((id, None)) if call.is_refused => {
                Err((Rule::Completion, format!("job {} is refused, and can be done", id.0)))
            }
            _ => Ok(()),
        }
    }
}

/// What was counted from one census to the next.
fn since(before: &Census, after: &Census) -> Census {
    let less = |of: fn(&Census) -> u64| of(after).saturating_sub(of(before));
    Census {
        generated: less(|census| census.generated),
        arrived: less(|census| census.arrived),
        departed: less(|census| census.departed),
        ended: less(|census| census.ended),
        returned: less(|census| census.returned),
        came_home: less(|census| census.came_home),
        dropped_early: less(|census| census.dropped_early),
        dropped_full: less(|census| census.dropped_full),
        lost: less(|census| census.lost),
        refused: less(|census| census.refused),
        marked: less(|census| census.marked),
        visits: less(|census| census.visits),
        ..*after
    }
}
