//! Walkers that wait at a server: a queue for each home, served by deficit round robin in steps.
//!
//! A home that starts more walkers, or longer ones, delays its own walkers and no others. The cost
//! of a turn is known only after it was taken, so a home is charged then, and skips turns until it
//! has paid off its debt.
//!
//! Source: Shreedhar and Varghese, *Efficient Fair Queuing Using Deficit Round Robin*, SIGCOMM
//! 1995; RFC 8290 (FQ-CoDel) for a discipline per queue and drops from the longest one.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::counters;
use super::prefetch::PREFETCHED;
use super::red::Red;
use super::walker::Walker;
use super::{QueuedWalker, Server};
use crate::core::{Context, Instant, NodeId};

/// Most homes that have a queue, without the servers of the graph, and of which dropped walkers are
/// counted one by one.
pub(super) const HOMES_MAX: usize = 1024;
/// Steps of a home in each round: one of each walker whose reads of memory overlap.
const QUANTUM: i64 = PREFETCHED as i64;
/// Time after which a home that says nothing is forgotten. A client asks each server once a second
/// while its walks are under way.
pub(super) const SILENT: Duration = Duration::from_secs(10);
/// How often silent homes are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most queues whose memory is kept while no walkers wait in them, and for how many walkers it may
/// be in all, unless it is a single queue's.
const SPARE_MAX: usize = 8;
const SPARE_ROOM: usize = 1 << 16;

/// A home's place at a server. It stays the home's own while walkers of it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HomeId(u32);

impl HomeId {
    /// The servers of the graph. They share a queue, because they trust each other.
    pub(super) const SERVERS: HomeId = HomeId(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a server does not let walkers of a home in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmitError {
    /// Walkers of [`HOMES_MAX`] other homes wait.
    TooMany,
    /// It has been silent for too long.
    Silent,
}

/// The homes of walkers that wait, or have waited.
#[derive(Debug)]
pub(super) struct Homes {
    /// By place; the servers of the graph have the first one.
    homes: Vec<Home>,
    index: BTreeMap<NodeId, HomeId>,
    /// The home of the latest message: the next one often has the same.
    latest: Option<(NodeId, HomeId)>,
    /// Homes with walkers, in the order of their turns. A home whose queue is empty leaves the list
    /// when its turn comes.
    active: VecDeque<HomeId>,
    /// Walkers that wait, of all homes.
    waiting: usize,
    /// Queues that have run empty, whose memory the next homes use: clients that come one after
    /// another need the memory of one queue.
    spare: Vec<VecDeque<QueuedWalker>>,
    /// Whether silent homes are forgotten. Without a plan clients send nothing that would show that
    /// they are alive.
    forgets: bool,
    looked: Instant,
}

/// A server's record of a home.
#[derive(Debug)]
struct Home {
    node: Option<NodeId>,
    /// When its latest own message came.
    heard: Instant,
    /// When its latest walker came, let in or not.
    came: Instant,
    queue: VecDeque<QueuedWalker>,
    red: Red,
    /// Steps that walkers in the queue have left.
    steps: u64,
    /// Steps that it may still take in this round; below 0, its debt.
    deficit: i64,
    is_active: bool,
}

impl Home {
    fn new(node: Option<NodeId>, heard: Instant) -> Home {
        Home {
            node,
            heard,
            came: heard,
            queue: VecDeque::new(),
            red: Red::default(),
            steps: 0,
            deficit: 0,
            is_active: false,
        }
    }

    fn is_silent(&self, now: Instant) -> bool {
        now.since(self.heard) > SILENT
    }
}

/// Credit that a waiting walker uses: its remaining steps, and the turn in which it ends.
pub(super) fn credit_of(walker: &Walker) -> u64 {
    u64::from(walker.steps_left) + 1
}

impl Default for Homes {
    fn default() -> Homes {
        Homes {
            homes: vec![Home::new(None, Instant::ZERO)],
            index: BTreeMap::new(),
            latest: None,
            active: VecDeque::new(),
            waiting: 0,
            spare: Vec::new(),
            forgets: false,
            looked: Instant::ZERO,
        }
    }
}

impl Homes {
    /// The queue for walkers of a client. `is_heard`: the client itself sent them, and not another
    /// server.
    pub(super) fn admit(
        &mut self,
        node: NodeId,
        now: Instant,
        is_heard: bool,
    ) -> Result<HomeId, AdmitError> {
        let id = match self.latest.filter(|&(latest, _)| latest == node) {
            Some((_, id)) => id,
            None => match self.index.get(&node) {
                Some(&id) => id,
                None => self.place(node, now)?,
            },
        };
        self.latest = Some((node, id));
        let home = &mut self.homes[id.index()];
        // After a pause, a job of it may have begun at another server. Without one, that server has
        // not noticed yet that the home is gone.
        let is_pause = now.since(std::mem::replace(&mut home.came, now)) > SILENT;
        if is_heard || is_pause {
            home.heard = now;
        } else if self.forgets && home.is_silent(now) {
            return Err(AdmitError::Silent);
        }
        Ok(id)
    }

    /// A message of this node came. If it is a home, it is alive.
    pub(super) fn hear(&mut self, node: NodeId, now: Instant) {
        if let Some(id) = self.index.get(&node) {
            self.homes[id.index()].heard = now;
        }
    }

    /// Makes a place for a new home. If all are taken, it replaces the home without walkers that
    /// has been silent the longest.
    fn place(&mut self, node: NodeId, now: Instant) -> Result<HomeId, AdmitError> {
        let id = if self.homes.len() <= HOMES_MAX {
            self.homes.push(Home::new(Some(node), now));
            HomeId(self.homes.len() as u32 - 1)
        } else {
            let homes = (0..).zip(&self.homes).skip(1);
            let idle = homes.filter(|(_, home)| home.queue.is_empty());
            let (id, _) = idle.min_by_key(|(_, home)| home.heard).ok_or(AdmitError::TooMany)?;
            let home = &mut self.homes[id as usize];
            let new = Home { is_active: home.is_active, ..Home::new(Some(node), now) };
            if let Some(old) = std::mem::replace(home, new).node {
                self.index.remove(&old);
            }
            self.latest = None;
            HomeId(id)
        };
        self.index.insert(node, id);
        Ok(id)
    }

    /// Whether walkers of a home may have `steps` more steps left here. Servers have no limit.
    pub(super) fn has_credit(&self, id: HomeId, steps: u64, most: u64) -> bool {
        id == HomeId::SERVERS || self.homes[id.index()].steps.saturating_add(steps) <= most
    }

    /// A walker waits for its turn.
    pub(super) fn push(&mut self, queued: QueuedWalker) {
        let id = queued.home;
        let home = &mut self.homes[id.index()];
        if !home.is_active {
            home.is_active = true;
            home.queue = self.spare.pop().unwrap_or_default();
            self.active.push_back(id);
        }
        home.steps += credit_of(&queued.traveller.walker);
        home.queue.push_back(queued);
        self.waiting += 1;
    }

    /// The home whose turn it is; none if no walker waits.
    pub(super) fn turn(&mut self) -> Option<HomeId> {
        while let Some(&id) = self.active.front() {
            let home = &mut self.homes[id.index()];
            if home.queue.is_empty() {
                // Credit of a round expires, debt does not.
                home.deficit = home.deficit.min(0);
                home.is_active = false;
                let queue = std::mem::take(&mut home.queue);
                self.active.pop_front();
                self.set_aside(queue);
            } else if self.active.len() == 1 {
                // Without competition there is no debt.
                home.deficit = QUANTUM;
                return Some(id);
            } else if home.deficit > 0 {
                return Some(id);
            } else {
                home.deficit += QUANTUM;
                self.active.rotate_left(1);
            }
        }
        None
    }

    /// Keeps the memory of a queue that has run empty, unless enough is kept.
    fn set_aside(&mut self, queue: VecDeque<QueuedWalker>) {
        let room = self.spare_room() + queue.capacity();
        let has_room = self.spare.len() < SPARE_MAX && room <= SPARE_ROOM;
        if queue.capacity() > 0 && (has_room || self.spare.is_empty()) {
            self.spare.push(queue);
        }
    }

    /// The walker of a home that has waited longest.
    pub(super) fn pop(&mut self, id: HomeId) -> Option<QueuedWalker> {
        let home = &mut self.homes[id.index()];
        // The credit is read before the walker leaves the queue: read after, the compiler copies
        // the walker twice.
        home.steps -= credit_of(&home.queue.front()?.traveller.walker);
        self.waiting -= 1;
        home.queue.pop_front()
    }

    /// The walker whose turn it is.
    pub(super) fn next(&mut self) -> Option<QueuedWalker> {
        let id = self.turn()?;
        self.pop(id)
    }

    /// Charges a home for a turn that has cost as much as `steps` steps.
    pub(super) fn charge(&mut self, id: HomeId, steps: u64) {
        self.homes[id.index()].deficit -= steps as i64;
    }

    /// Takes the latest walker of the longest queue, if that queue stays at least as long as this
    /// home's with one more.
    pub(super) fn cut_longest(&mut self, id: HomeId) -> Option<QueuedWalker> {
        let longest = self.longest_beyond(id)?;
        let home = &mut self.homes[longest.index()];
        home.steps -= credit_of(&home.queue.back()?.traveller.walker);
        self.waiting -= 1;
        home.queue.pop_back()
    }

    /// The longest queue, if it is longer than this home's with one more walker.
    pub(super) fn longest_beyond(&self, id: HomeId) -> Option<HomeId> {
        let longest = self.active.iter().max_by_key(|id| (self.length(**id), id.0)).copied()?;
        (self.length(longest) > self.length(id) + 1).then_some(longest)
    }

    /// Takes the walkers of silent homes. Returns the number of these homes, and the walkers.
    pub(super) fn take_silent(&mut self, now: Instant) -> (usize, Vec<QueuedWalker>) {
        let pause = now.since(self.looked);
        if !self.forgets || pause < LOOK_EVERY {
            return (0, Vec::new());
        }
        self.looked = now;
        let (mut silent, mut gone) = (0, Vec::new());
        for home in &mut self.homes[1..] {
            // After a pause of this process messages may wait unread.
            if pause > LOOK_EVERY * 2 {
                home.heard = home.heard.max(now - (SILENT - LOOK_EVERY * 2));
            }
            if home.queue.is_empty() || !home.is_silent(now) {
                continue;
            }
            silent += 1;
            home.steps = 0;
            self.waiting -= home.queue.len();
            gone.extend(home.queue.drain(..));
        }
        (silent, gone)
    }

    /// True if this home has been silent so long that the server forgets it.
    pub(super) fn is_silent(&self, id: HomeId, now: Instant) -> bool {
        self.forgets && id != HomeId::SERVERS && self.homes[id.index()].is_silent(now)
    }

    /// Takes all walkers and forgets all homes, for another graph. `forgets`: whether its silent
    /// homes are forgotten.
    pub(super) fn reset(&mut self, forgets: bool) -> Vec<QueuedWalker> {
        let mut gone = Vec::new();
        for place in 0..self.homes.len() {
            let mut queue = std::mem::take(&mut self.homes[place].queue);
            gone.extend(queue.drain(..));
            self.set_aside(queue);
        }
        self.homes.truncate(1);
        let servers = &mut self.homes[0];
        (servers.steps, servers.deficit, servers.is_active) = (0, 0, false);
        (self.waiting, self.latest, self.forgets) = (0, None, forgets);
        self.index.clear();
        self.active.clear();
        gone
    }

    /// Resets the discipline of each queue.
    pub(super) fn reset_red(&mut self) {
        self.homes.iter_mut().for_each(|home| home.red = Red::default());
    }

    /// Tells the disciplines of empty queues the time: their averages decay.
    pub(super) fn on_empty(&mut self, now: Instant) {
        let empty = self.homes.iter_mut().filter(|home| home.queue.is_empty());
        empty.for_each(|home| home.red.on_empty(now));
    }

    /// The discipline of a home's queue.
    pub(super) fn red(&mut self, id: HomeId) -> &mut Red {
        &mut self.homes[id.index()].red
    }

    /// Walkers of a home that wait.
    pub(super) fn length(&self, id: HomeId) -> usize {
        self.homes[id.index()].queue.len()
    }

    /// Walkers that wait, of all homes.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// True if no walker waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Waiting walkers of a home, in the order of service.
    pub(super) fn of(&self, id: HomeId) -> impl Iterator<Item = &QueuedWalker> {
        self.homes[id.index()].queue.iter()
    }

    /// Waiting walkers, home by home.
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedWalker> {
        self.homes.iter().flat_map(|home| &home.queue)
    }

    /// Length and average of each queue, by place.
    pub(super) fn queues(&self) -> impl Iterator<Item = (usize, f64)> {
        self.homes.iter().map(|home| (home.queue.len(), home.red.average()))
    }

    /// Bytes that the queues have.
    pub(super) fn memory_bytes(&self) -> usize {
        self.room() * size_of::<QueuedWalker>() + self.homes.capacity() * size_of::<Home>()
    }

    /// Walkers for which all queues have memory.
    fn room(&self) -> usize {
        self.homes.iter().map(|home| home.queue.capacity()).sum::<usize>() + self.spare_room()
    }

    /// Walkers for which queues that have run empty have memory.
    fn spare_room(&self) -> usize {
        self.spare.iter().map(VecDeque::capacity).sum()
    }
}

impl Server {
    /// Drops the walkers of silent homes.
    pub(super) fn forget_silent(&mut self, cx: &mut Context<'_, Server>) {
        let (homes, queued) = self.homes.take_silent(cx.now);
        if homes > 0 {
            cx.count(counters::HOME_FORGOTTEN, homes as u64);
        }
        queued.into_iter().for_each(|queued| self.forget(cx, queued));
    }

    /// Drops a walker of a silent home.
    pub(super) fn forget(&mut self, cx: &mut Context<'_, Server>, queued: QueuedWalker) {
        self.jobs.leave(queued.job);
        self.census.lost += 1;
        cx.count(counters::WALKER_FORGOTTEN, 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::job_table::JobTable;
    use super::super::kind::Kind;
    use super::super::message::{Head, Trail, Traveller};
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn queued(home: HomeId, token: u64, steps_left: u32) -> QueuedWalker {
        let (kind, trail) = (Kind::Uniform, Trail::None);
        let head = Arc::new(Head { home: NodeId(1), job: 1, plan: 0, kind, trail });
        let job = JobTable::default().enter(&head).expect("there is room");
        let walker = Walker { steps_left, ..Walker::default() };
        QueuedWalker { job, home, traveller: Traveller { token, walker, ..Traveller::NONE } }
    }

    fn enter(homes: &mut Homes, node: u32, walkers: u64) -> HomeId {
        let id = homes.admit(NodeId::from(node), at(0), true).expect("there is room");
        (0..walkers).for_each(|token| homes.push(queued(id, token, 9)));
        id
    }

    /// Serves walkers, each of which comes again, whose turns cost this much by home. What each
    /// home's turns have cost.
    fn serve(homes: &mut Homes, costs: &[(HomeId, u64)], turns: usize) -> Vec<u64> {
        let mut paid = vec![0; costs.len()];
        for _ in 0..turns {
            let queued = homes.next().expect("all come again");
            let place = costs.iter().position(|&(id, _)| id == queued.home).expect("a known home");
            paid[place] += costs[place].1;
            homes.charge(queued.home, costs[place].1);
            homes.push(queued);
        }
        paid
    }

    #[test]
    fn homes_get_equal_shares_of_steps_whatever_their_turns_cost_and_however_many_walkers_wait() {
        let mut homes = Homes::default();
        let cost_max = 2048;
        let costs = [(1, 1, 1), (2, 5_000, 1), (3, 20, 7), (4, 300, cost_max)];
        let costs = costs.map(|(node, walkers, cost)| (enter(&mut homes, node, walkers), cost));
        let paid = serve(&mut homes, &costs, 200_000);
        let (least, most) = (paid.iter().min().unwrap(), paid.iter().max().unwrap());
        assert!(most - least <= cost_max + QUANTUM as u64, "{paid:?}");
        assert!(*least > 40_000, "{paid:?}");
    }

    #[test]
    fn walkers_of_one_home_are_served_in_the_order_in_which_they_came() {
        let mut homes = Homes::default();
        let (one, _) = (enter(&mut homes, 1, 100), enter(&mut homes, 2, 100));
        let served = std::iter::from_fn(|| {
            let queued = homes.next()?;
            homes.charge(queued.home, 3);
            Some(queued)
        });
        let tokens: Vec<u64> =
            served.filter(|of| of.home == one).map(|of| of.traveller.token).collect();
        assert_eq!(tokens, (0..100).collect::<Vec<_>>());
        assert!(homes.is_empty());
    }

    #[test]
    fn a_home_that_was_alone_owes_nothing_and_one_that_was_away_has_saved_nothing() {
        let mut homes = Homes::default();
        let alone = enter(&mut homes, 1, 1);
        serve(&mut homes, &[(alone, 1_000)], 1_000);
        let other = enter(&mut homes, 2, 1);
        let paid = serve(&mut homes, &[(alone, 1), (other, 1)], 10_000);
        assert!(paid[0].abs_diff(paid[1]) <= 1_000 + 2 * QUANTUM as u64, "{paid:?}");
    }

    #[test]
    fn credit_is_what_the_walkers_that_wait_have_left_of_steps() {
        let mut homes = Homes::default();
        let (one, other) = (enter(&mut homes, 1, 3), enter(&mut homes, 2, 5));
        assert!(homes.has_credit(one, 10, 40) && !homes.has_credit(one, 11, 40));
        homes.pop(one).expect("three wait");
        assert!(homes.has_credit(one, 20, 40) && !homes.has_credit(one, 21, 40));
        let last = homes.cut_longest(one).expect("five are more than three");
        assert_eq!((last.home, last.traveller.token), (other, 4));
        assert!(homes.has_credit(other, 0, 40) && !homes.has_credit(other, 1, 40));
        assert!(homes.cut_longest(other).is_none(), "no queue is longer");
        assert!(homes.has_credit(HomeId::SERVERS, u64::MAX, 0), "servers trust each other");
        assert_eq!(homes.waiting(), 6);
    }

    #[test]
    fn homes_are_as_many_as_may_be_and_only_those_without_walkers_give_way() {
        let mut homes = Homes::default();
        for node in 0..HOMES_MAX as u32 {
            enter(&mut homes, node, u64::from(node != 7 && node != 8));
        }
        homes.hear(NodeId(7), at(1));
        let most = homes.memory_bytes();
        let new = homes.admit(NodeId(5_000), at(2), true).expect("8 has no walkers");
        homes.push(queued(new, 0, 1));
        assert!(homes.index.contains_key(&NodeId(7)) && !homes.index.contains_key(&NodeId(8)));
        let new = homes.admit(NodeId(5_001), at(2), true).expect("nor has 7");
        homes.push(queued(new, 0, 1));
        assert_eq!(homes.admit(NodeId(5_002), at(2), true), Err(AdmitError::TooMany));
        assert_eq!((homes.homes.len(), homes.index.len()), (1 + HOMES_MAX, HOMES_MAX));
        assert!(homes.memory_bytes() <= most + 16 * size_of::<QueuedWalker>());
        let served = std::iter::from_fn(|| homes.next()).count();
        assert_eq!((served, homes.waiting()), (HOMES_MAX, 0));
    }

    #[test]
    fn homes_that_come_one_after_the_other_use_the_memory_of_one_queue() {
        let mut homes = Homes::default();
        let mut most = Vec::new();
        for node in 1..=100 {
            enter(&mut homes, node, 50_000);
            most.push(homes.room());
            match node % 3 {
                0 => drop(homes.reset(true)),
                _ => while homes.next().is_some() {},
            }
        }
        assert!(most.iter().all(|&room| room == most[0]), "{most:?}");
    }

    #[test]
    fn little_memory_is_kept_of_queues_that_have_run_empty() {
        let mut homes = Homes::default();
        for walkers in [10, 50_000] {
            (1..=20).for_each(|node| _ = enter(&mut homes, node, walkers));
            while homes.next().is_some() {}
            assert!(homes.homes.iter().all(|home| home.queue.capacity() == 0));
            let kept = homes.spare_room();
            assert!((10..=SPARE_ROOM).contains(&kept) && homes.spare.len() <= SPARE_MAX);
        }
        // One that is larger is kept if it is the only one.
        homes.spare.clear();
        enter(&mut homes, 1, SPARE_ROOM as u64 + 1);
        while homes.next().is_some() {}
        assert!(homes.spare_room() > SPARE_ROOM);
    }

    #[test]
    fn a_home_that_is_silent_is_forgotten_with_its_walkers_until_it_is_heard() {
        let mut homes = Homes::default();
        assert!(homes.reset(true).is_empty());
        let (dead, alive) = (enter(&mut homes, 1, 3), enter(&mut homes, 2, 2));
        for second in 1..=10 {
            homes.hear(NodeId(2), at(second));
            homes.hear(NodeId(99), at(second));
            assert_eq!(homes.take_silent(at(second)).0, 0);
        }
        homes.hear(NodeId(2), at(11));
        let (silent, gone) = homes.take_silent(at(11));
        assert_eq!((silent, gone.len(), homes.waiting()), (1, 3, 2));
        assert!(homes.has_credit(dead, 7, 7) && homes.is_silent(dead, at(11)));
        assert!(!homes.is_silent(alive, at(11)));
        // It was before walkers came that it was heard last.
        enter(&mut homes, 3, 0);
        assert_eq!(homes.admit(NodeId(3), at(11), false).map(|_| ()), Ok(()), "after a pause");
        for second in 12..=21 {
            assert_eq!(homes.admit(NodeId(3), at(second), false).map(|_| ()), Ok(()));
        }
        // Servers that have not noticed yet pass its walkers on.
        assert_eq!(homes.admit(NodeId(3), at(22), false), Err(AdmitError::Silent));
        assert_eq!(homes.admit(NodeId(3), at(30), false), Err(AdmitError::Silent));
        assert!(homes.admit(NodeId(3), at(31), true).is_ok(), "it says something itself");
        assert!(homes.admit(NodeId(3), at(32), false).is_ok());
    }

    #[test]
    fn a_server_that_stood_still_listens_before_it_forgets() {
        let mut homes = Homes::default();
        homes.reset(true);
        enter(&mut homes, 1, 1);
        homes.take_silent(at(1));
        assert_eq!(homes.take_silent(at(100)).0, 0, "what was said meanwhile is not read yet");
        assert_eq!(homes.take_silent(at(101)).0, 0);
        assert_eq!(homes.take_silent(at(103)).0, 1);
        // Of a graph that was there from the start clients say nothing while walks are under way.
        homes.reset(false);
        enter(&mut homes, 1, 1);
        (104..200).for_each(|second| assert_eq!(homes.take_silent(at(second)).0, 0));
    }
}
