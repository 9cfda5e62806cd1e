use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};
use paceline_proto::walk::{
    Census, Config, JobId, Message, Server, Trail, Traveller, UnderWay, Vertex,
};

use super::job::JobLedger;
use super::queue::{Change, Queue};
use super::world::World;
use super::{Broken, Rule};

/// An attempt at a walk: its home, the number of its job, its token.
pub(super) type Key = (NodeId, u64, u64);

/// Copies of attempts: how many steps each has taken.
pub(super) type Copies = BTreeMap<Key, Vec<u32>>;

fn copies_of(copies: &Copies, key: Key) -> &[u32] {
    copies.get(&key).map_or(&[], Vec::as_slice)
}

/// A walker that is at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    key: Key,
    steps: u32,
    /// Where it is and was before, if it is in the queue; else it waits for company to leave.
    queued: Option<(Vertex, Vertex)>,
}

/// What goes in and out in a call.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// What came, to go on.
    pub(super) came: Copies,
    pub(super) came_count: usize,
    /// What came home.
    pub(super) home: Vec<Key>,
    /// What left, to go on or home.
    pub(super) left: BTreeMap<Key, u32>,
    /// Walks that were reported.
    pub(super) told: Vec<(JobId, u64, u8)>,
    /// A job that the application cancels.
    pub(super) cancelled: Option<JobId>,
    /// A job that the application requests, and why the server must refuse it, if it must.
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
    held: Copies,
    /// The same, in the order in which the node has them.
    listed: Vec<Sight>,
    /// Since when what waits for company does.
    waiting: BTreeMap<Key, Instant>,
    under_way: Vec<UnderWay>,
    /// How many of each job.
    under_way_of: BTreeMap<JobId, usize>,
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
        Message::Ended { .. } | Message::Graph(..) | Message::Barrier(_) => None,
    };
    let home = match message {
        Message::Ended { job, walks, .. } => {
            Some(walks.iter().map(move |walk| ((to, *job, walk.token), walk.steps)))
        }
        Message::Walkers { .. } | Message::Graph(..) | Message::Barrier(_) => None,
    };
    on.into_iter().flatten().chain(home.into_iter().flatten())
}

impl NodeLedger {
    /// Steps that an attempt had taken when it came to be here, which now has taken `steps`. Of
    /// several copies, the one that was next to that.
    pub(super) fn steps_before(&self, call: &Call, key: Key, steps: u32) -> usize {
        let (held, came) = (copies_of(&self.held, key), copies_of(&call.came, key));
        if held.len() + came.len() > 2 {
            return steps as usize;
        }
        let copies = held.iter().chain(came).copied();
        copies.filter(|&before| before <= steps).max().unwrap_or(0) as usize
    }

    /// Walkers that are here.
    pub(super) fn held(&self) -> u64 {
        self.listed.len() as u64
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
        let under_way: Vec<UnderWay> = server.under_way().collect();
        let turns = Changes::new(&self.under_way, &under_way);
        let (listed, Changes { less, more }) = self.look(node, server, call, (world, foreign))?;

        // Each walker that is here or has left was here, came, or is new. How many copies there are
        // has changed only for keys in the changes and in the call.
        let mut changes: BTreeMap<Key, (usize, usize)> = BTreeMap::new();
        less.iter().for_each(|sight| changes.entry(sight.key).or_default().0 += 1);
        more.iter().for_each(|sight| changes.entry(sight.key).or_default().1 += 1);
        for &key in call.came.keys().chain(call.left.keys()) {
            changes.entry(key).or_default();
        }
        let (mut gone, mut fresh) = (Vec::new(), 0);
        for (key, (less, more)) in changes {
            let held = copies_of(&self.held, key).len();
            let before = held + copies_of(&call.came, key).len();
            let after = held - less + more + call.left.get(&key).map_or(0, |&left| left as usize);
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
        self.check_told(call, &turns, &mut gone)?;
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
        less.iter().for_each(|sight| remove(&mut self.held, sight));
        for sight in &more {
            self.held.entry(sight.key).or_default().push(sight.steps);
        }
        self.listed = listed;
        self.under_way = under_way;
        self.check_jobs(at, call, (&turns, config))?;
        let Census { generated, lost, refused, marked, .. } = change;
        Ok(Tally { generated, dropped, lost, refused, marked })
    }

    /// Lists the walkers that are here now, and what has changed. The node may serve those that are
    /// new here.
    fn look(
        &self,
        node: NodeId,
        server: &Server,
        call: &Call,
        (world, foreign): (&World, &BTreeSet<Key>),
    ) -> Result<(Vec<Sight>, Changes<Sight>), Broken> {
        let mut listed = Vec::with_capacity(self.listed.len() + call.came_count);
        let mut comparison = Comparison::new(&self.listed);
        for (head, traveller) in server.queued() {
            let Traveller { token, walker, path, .. } = traveller;
            let key = (head.home, head.job, *token);
            let queued = Some((walker.at, walker.previous));
            let sight = Sight { key, steps: walker.steps, queued };
            listed.push(sight);
            if !comparison.is_new(&sight) {
                continue;
            }
            world.check_queued(node, &head.kind, walker)?;
            if head.trail == Trail::Vertices && !foreign.contains(&key) {
                let from = self.steps_before(call, key, walker.steps);
                world.check_here(node, &head.kind, (walker.source, path), from)?;
            }
        }
        for (to, message) in server.leaving() {
            for (key, steps) in travellers(to, message) {
                let sight = Sight { key, steps, queued: None };
                comparison.is_new(&sight);
                listed.push(sight);
            }
        }
        Ok((listed, comparison.end()))
    }

    /// Checks that each reported walk came home in this call.
    fn check_told(
        &self,
        call: &Call,
        turns: &Changes<UnderWay>,
        gone: &mut Vec<Key>,
    ) -> Result<(), Broken> {
        let mut home: Vec<Key> = call.home.iter().copied().chain(gone.drain(..)).collect();
        for (job, walk, attempt) in &call.told {
            let is_it = |of: &&UnderWay| (of.of, of.walk, of.attempt) == (*job, *walk, *attempt);
            let of = turns.less.iter().chain(&self.under_way).find(is_it);
            let came = of.and_then(|of| {
                home.iter().position(|&(_, job, token)| job == of.job && of.is_of(token))
            });
            let Some(came) = came else {
                let what = format!("walk {walk} is reported, and no walker of it returned");
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
            let what =
                format!("{} walkers wait in a bundle that does not leave", self.waiting.len());
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

    fn check_jobs(
        &mut self,
        at: Instant,
        call: &Call,
        (turns, config): (&Changes<UnderWay>, &Config),
    ) -> Result<(), Broken> {
        let NodeLedger { jobs, under_way_of, stood, .. } = self;
        for of in &turns.less {
            if let Entry::Occupied(mut count) = under_way_of.entry(of.of) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        turns.more.iter().for_each(|of| *under_way_of.entry(of.of).or_default() += 1);
        if let Some(id) = under_way_of.keys().find(|id| !jobs.contains_key(id)) {
            let what = format!("walks of job {} are under way, and it is over", id.0);
            return Err((Rule::Copies, what));
        }
        for (id, job) in jobs.iter_mut() {
            let less = turns.less.iter().filter(|of| of.of == *id);
            let more = turns.more.iter().filter(|of| of.of == *id);
            job.look(at, (less, more), (config, *stood))?;
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

/// The difference of two lists. An item that moved may be both in `less` and in `more`, then as
/// often in each.
#[derive(Debug)]
struct Changes<T> {
    less: Vec<T>,
    more: Vec<T>,
}

impl<T: Copy + PartialEq> Changes<T> {
    fn new(before: &[T], after: &[T]) -> Changes<T> {
        let mut comparison = Comparison::new(before);
        for item in after {
            comparison.is_new(item);
        }
        comparison.end()
    }
}

/// Compares the items of a list, one after the other, with those of an earlier list.
struct Comparison<'a, T> {
    rest: &'a [T],
    changes: Changes<T>,
}

/// How many items of the earlier list are searched for the next item of the later one.
const AHEAD_MAX: usize = 512;

impl<'a, T: Copy + PartialEq> Comparison<'a, T> {
    fn new(before: &'a [T]) -> Comparison<'a, T> {
        Comparison { rest: before, changes: Changes { less: Vec::new(), more: Vec::new() } }
    }

    /// Takes the next item of the later list. True if it is not among the next [`AHEAD_MAX`] items
    /// of the earlier list; otherwise the items before it there are gone.
    fn is_new(&mut self, item: &T) -> bool {
        let ahead = &self.rest[..self.rest.len().min(AHEAD_MAX)];
        let Some(place) = ahead.iter().position(|other| other == item) else {
            self.changes.more.push(*item);
            return true;
        };
        self.changes.less.extend_from_slice(&self.rest[..place]);
        self.rest = &self.rest[place + 1..];
        false
    }

    fn end(mut self) -> Changes<T> {
        self.changes.less.extend_from_slice(self.rest);
        self.changes
    }
}

/// Removes one copy that has taken as many steps as this one.
fn remove(copies: &mut Copies, sight: &Sight) {
    if let Entry::Occupied(mut of) = copies.entry(sight.key) {
        if let Some(place) = of.get().iter().position(|&steps| steps == sight.steps) {
            of.get_mut().swap_remove(place);
        }
        if of.get().is_empty() {
            of.remove();
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
