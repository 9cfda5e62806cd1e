//! Walks in supersteps: the bulk-synchronous engine that the paper compares its own with.
//!
//! In a superstep each server takes one step with every walker that it has. Then it sends the
//! walkers that leave it, in as few messages as possible, and waits until all servers have done so.
//! A server that is done early waits for the slowest one. The first server is the coordinator: it
//! counts the servers that are ready and starts the next superstep.
//!
//! Source: the slides' description of synchronous engines (a master server is needed; a server that
//! is done early waits for the slow ones); Valiant, *A Bridging Model for Parallel Computation*,
//! 1990. A baseline: it needs streams that do not break, and a server that stops, stops all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::Barrier;
use super::config::StepConfig;
use super::counters;
use super::homes::HomeId;
use super::interface::{Event, Job, JobReport, Refusal, Walk};
use super::message::{Ended, Head, MESSAGE_BYTES_MAX, Message, Traveller, ended_head_bytes};
use super::walker::Walker;
use super::{JobOf, QueuedWalker, Server, Timer};
use crate::core::{Context, Instant, Lane, NodeId};
use crate::graphshare::{BundleConfig, Vertex};

type Cx<'a> = Context<'a, Server>;

/// The state of a server in supersteps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It waits for the coordinator.
    #[default]
    Waiting,
    /// It serves its walkers.
    Serving,
    /// It has sent its walkers and waits for those of the others.
    Exchanging,
}

/// The state of a server that walks in supersteps.
#[derive(Debug)]
pub(super) struct Steps {
    config: StepConfig,
    job: Option<StepJob>,
    /// The superstep that was begun last; 0 before the first.
    superstep: u32,
    phase: Phase,
    /// Walkers for the next superstep, and for the one after: other servers may be ahead by one.
    next: Vec<QueuedWalker>,
    early: Vec<QueuedWalker>,
    leaving: BTreeMap<NodeId, Leaving>,
    peers: BTreeMap<NodeId, Peer>,
    /// At the coordinator: the servers that are ready, and how many walks each has left.
    ready: BTreeMap<NodeId, u64>,
    /// Walkers that are served when the timer fires.
    turn: usize,
}

/// Walkers for another server at the end of the superstep, by job.
#[derive(Debug, Default)]
struct Leaving {
    walkers: BTreeMap<(NodeId, u64), (Arc<Head>, Vec<Traveller>)>,
    ended: BTreeMap<(NodeId, u64), (Arc<Head>, Vec<Ended>)>,
}

/// The progress of another server.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// The superstep whose walkers have all come.
    sent: u32,
    /// Walkers that came after it.
    received: u64,
}

/// The job of a server's own application. A walker's token is the number of its walk.
#[derive(Debug)]
struct StepJob {
    job: Job,
    head: Arc<Head>,
    next: u64,
    under_way: BTreeSet<u64>,
    report: JobReport,
    began: Instant,
    is_reported: bool,
}

impl Steps {
    pub(super) fn new(config: StepConfig) -> Steps {
        Steps {
            config,
            job: None,
            superstep: 0,
            phase: Phase::default(),
            next: Vec::new(),
            early: Vec::new(),
            leaving: BTreeMap::new(),
            peers: BTreeMap::new(),
            ready: BTreeMap::new(),
            turn: 0,
        }
    }

    /// Walkers that are here beside those in the queue.
    pub(super) fn held(&self) -> usize {
        let leaving = self.leaving.values().flat_map(|leaving| leaving.walkers.values());
        let leaving: usize = leaving.map(|(_, walkers)| walkers.len()).sum();
        self.next.len() + self.early.len() + leaving
    }

    /// A walker stays for the next superstep.
    pub(super) fn stay(&mut self, queued: QueuedWalker) {
        self.next.push(queued);
    }

    /// A walker leaves at the end of this superstep.
    pub(super) fn leave(&mut self, to: NodeId, head: &Arc<Head>, traveller: Traveller) {
        let leaving = self.leaving.entry(to).or_default();
        let key = (head.home, head.job);
        let (_, walkers) =
            leaving.walkers.entry(key).or_insert_with(|| (Arc::clone(head), Vec::new()));
        walkers.push(traveller);
    }

    /// A walk that has ended goes home at the end of this superstep.
    pub(super) fn return_home(&mut self, head: &Arc<Head>, ended: Ended) {
        let leaving = self.leaving.entry(head.home).or_default();
        let key = (head.home, head.job);
        let (_, walks) = leaving.ended.entry(key).or_insert_with(|| (Arc::clone(head), Vec::new()));
        walks.push(ended);
    }

    /// A walk of its own job is done; none if no such walk is under way.
    pub(super) fn on_ended(&mut self, key: u64, ended: Ended) -> Option<(super::JobId, Walk)> {
        let own = self.job.as_mut().filter(|own| own.head.job == key)?;
        if !own.under_way.remove(&ended.token) {
            return None;
        }
        own.report.finished += 1;
        own.report.steps += u64::from(ended.steps);
        let (path, versions) = own.job.trail.read(ended.path);
        let walk = Walk {
            walk: ended.token,
            source: own.source(ended.token),
            end: ended.at,
            steps: ended.steps,
            stop: ended.stop,
            attempts: 1,
            path,
            versions,
        };
        Some((own.job.id, walk))
    }
}

impl StepJob {
    fn source(&self, walk: u64) -> Vertex {
        self.job.sources.vertex((walk / u64::from(self.job.walks)) as usize)
    }

    fn left(&self) -> u64 {
        self.report.walks - self.report.finished
    }
}

impl Server {
    /// The application's job: its walks begin with the first superstep.
    pub(super) fn begin_steps(
        &mut self,
        cx: &mut Cx<'_>,
        job: Job,
        head: Arc<Head>,
    ) -> Result<(), Refusal> {
        let is_server = self.graph.part().is_server(cx.node);
        let Some(steps) = &mut self.steps else { return Err(Refusal::NoGraph) };
        if !is_server {
            return Err(Refusal::NoServer);
        }
        if steps.job.is_some() {
            return Err(Refusal::TooManyJobs(1));
        }
        let report = JobReport { walks: job.walks_in_all() - job.first, ..JobReport::default() };
        steps.job = Some(StepJob {
            next: job.first,
            job,
            head,
            under_way: BTreeSet::new(),
            report,
            began: cx.now,
            is_reported: false,
        });
        self.say_ready(cx);
        Ok(())
    }

    /// Something about the barrier.
    pub(super) fn on_barrier(&mut self, cx: &mut Cx<'_>, from: NodeId, barrier: Barrier) {
        let is_server = self.graph.part().is_server(from);
        let Some(steps) = self.steps.as_mut().filter(|_| is_server) else {
            cx.count(counters::BARRIER_REFUSED, 1);
            return;
        };
        match barrier {
            Barrier::Ready { superstep, left } => self.on_ready(cx, from, superstep, left),
            Barrier::Go { superstep } if self.graph.part().servers().first() == Some(&from) => {
                self.on_go(cx, superstep);
            }
            Barrier::Go { .. } => cx.count(counters::BARRIER_REFUSED, 1),
            Barrier::Sent { superstep, walkers } => {
                let peer = steps.peers.entry(from).or_default();
                if superstep != peer.sent + 1 || superstep > steps.superstep + 1 {
                    cx.count(counters::BARRIER_REFUSED, 1);
                    return;
                }
                if peer.received != walkers {
                    // A stream broke: these walks are lost, and the job does not end.
                    cx.count(counters::EXCHANGE_INCOMPLETE, 1);
                }
                *peer = Peer { sent: superstep, received: 0 };
                self.look_complete(cx);
            }
        }
    }

    /// Walkers come from another server.
    pub(super) fn on_step_walkers(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        head: &Arc<Head>,
        walkers: impl Iterator<Item = Traveller>,
    ) {
        let is_server = self.graph.part().is_server(from);
        let (home, held_max) = (HomeId::SERVERS, self.graph.part().servers().len());
        let mut refused = 0;
        for traveller in walkers {
            self.census.arrived += 1;
            let is_sound = is_server && self.is_plausible(head, &traveller);
            let Some(steps) = self.steps.as_mut().filter(|_| is_sound) else {
                refused += 1;
                continue;
            };
            let peer = steps.peers.entry(from).or_default();
            peer.received += 1;
            let is_early = peer.sent + 1 > steps.superstep;
            let held = self.homes.waiting() + steps.next.len() + steps.early.len();
            let has_room = held < steps.config.active_max.saturating_mul(held_max);
            match self.jobs.enter(head).filter(|_| has_room) {
                Some(job) if is_early => steps.early.push(QueuedWalker { job, home, traveller }),
                Some(job) => steps.next.push(QueuedWalker { job, home, traveller }),
                None => refused += 1,
            }
        }
        self.census.refused += refused;
        if refused > 0 {
            cx.count(counters::WALKER_REFUSED, refused);
        }
    }

    fn say_ready(&mut self, cx: &mut Cx<'_>) {
        let Some(steps) = &self.steps else { return };
        let (superstep, left) = (steps.superstep, steps.job.as_ref().map_or(0, StepJob::left));
        match self.graph.part().servers().first() {
            Some(&first) if first == cx.node => self.on_ready(cx, first, superstep, left),
            Some(&first) => {
                let ready = Message::Barrier(Barrier::Ready { superstep, left });
                cx.send(first, Lane::Stream, ready);
            }
            None => {}
        }
    }

    /// At the coordinator: once all are ready and walks are left, all go on.
    fn on_ready(&mut self, cx: &mut Cx<'_>, from: NodeId, superstep: u32, left: u64) {
        let servers = self.graph.part().servers();
        let Some(steps) = &mut self.steps else { return };
        if servers.first() != Some(&cx.node) || superstep != steps.superstep {
            cx.count(counters::BARRIER_REFUSED, 1);
            return;
        }
        steps.ready.insert(from, left);
        if steps.ready.len() < servers.len() {
            return;
        }
        let left: u64 = std::mem::take(&mut steps.ready).into_values().fold(0, u64::saturating_add);
        if left == 0 {
            return;
        }
        let superstep = superstep + 1;
        let me = cx.node;
        for &server in servers.iter().filter(|&&server| server != me) {
            cx.send(server, Lane::Stream, Message::Barrier(Barrier::Go { superstep }));
        }
        self.on_go(cx, superstep);
    }

    /// The coordinator starts a superstep.
    fn on_go(&mut self, cx: &mut Cx<'_>, superstep: u32) {
        self.count_queue(cx.now);
        let Some(steps) = &mut self.steps else { return };
        if superstep != steps.superstep + 1 || steps.phase != Phase::Waiting {
            cx.count(counters::BARRIER_REFUSED, 1);
            return;
        }
        (steps.superstep, steps.phase) = (superstep, Phase::Serving);
        steps.next.drain(..).for_each(|queued| self.homes.push(queued));
        std::mem::swap(&mut steps.next, &mut steps.early);
        self.begin_walks(cx);
        self.census.queue_max = self.census.queue_max.max(self.homes.waiting() as u64);
        self.serve_on(cx);
    }

    /// Begins walks of the own job, up to the most under way.
    fn begin_walks(&mut self, cx: &mut Cx<'_>) {
        let Some(steps) = &mut self.steps else { return };
        let Some(own) = &mut steps.job else { return };
        let mut begun = Vec::new();
        while own.under_way.len() < steps.config.active_max && own.next < own.job.walks_in_all() {
            let (walk, source) = (own.next, own.source(own.next));
            own.next += 1;
            own.under_way.insert(walk);
            own.report.generated += 1;
            let walker = Walker::new(own.job.seed, walk, source, own.job.length);
            begun.push(Traveller { token: walk, walker, ..Traveller::NONE });
        }
        let head = Arc::clone(&own.head);
        self.census.generated += begun.len() as u64;
        for traveller in begun {
            let at = traveller.walker.at;
            let owner = self.graph.part().owner(at);
            if owner != Some(cx.node) {
                self.depart(cx, owner, JobOf::Arriving(&head), traveller);
            } else if let Some(job) = self.jobs.enter(&head) {
                self.homes.push(QueuedWalker { job, home: HomeId::SERVERS, traveller });
            }
        }
    }

    /// Serves the next walkers of the superstep after the time that they take; at the end, sends
    /// what leaves.
    fn serve_on(&mut self, cx: &mut Cx<'_>) {
        let Some(steps) = &mut self.steps else { return };
        steps.turn = self.homes.waiting().min(self.config.turn_hops);
        if steps.turn > 0 {
            let service = self.config.service * steps.turn as u32;
            cx.set_timer(service, Timer::Work);
            return;
        }
        steps.phase = Phase::Exchanging;
        self.exchange(cx);
        self.look_complete(cx);
    }

    /// The worker is done with a turn of walkers.
    pub(super) fn work_steps(&mut self, cx: &mut Cx<'_>) {
        self.count_queue(cx.now);
        let turn = self.steps.as_mut().map_or(0, |steps| std::mem::take(&mut steps.turn));
        for _ in 0..turn {
            let Some(queued) = self.homes.next() else { break };
            self.hop(cx, queued);
        }
        if turn > 0 {
            self.serve_on(cx);
        }
    }

    /// Sends what leaves, and then says so.
    fn exchange(&mut self, cx: &mut Cx<'_>) {
        let Some(steps) = &mut self.steps else { return };
        let superstep = steps.superstep;
        let mut leaving = std::mem::take(&mut steps.leaving);
        let me = cx.node;
        for &server in self.graph.part().servers().iter().filter(|&&server| server != me) {
            let Leaving { walkers, ended } = leaving.remove(&server).unwrap_or_default();
            let mut sent = 0;
            for (head, walkers) in walkers.into_values() {
                sent += walkers.len() as u64;
                let size = |walker: &Traveller| head.walker_bytes(walker);
                for walkers in chunks(walkers, head.bundle_bytes(), size) {
                    let head = Arc::clone(&head);
                    cx.send(server, Lane::Stream, Message::Walkers { head, walkers });
                }
            }
            for (head, walks) in ended.into_values() {
                let (job, trail) = (head.job, head.trail);
                for walks in chunks(walks, ended_head_bytes(), Ended::bytes) {
                    cx.send(server, Lane::Stream, Message::Ended { job, trail, walks });
                }
            }
            let sent = Barrier::Sent { superstep, walkers: sent };
            cx.send(server, Lane::Stream, Message::Barrier(sent));
        }
    }

    /// Once all other servers have sent their walkers of this superstep, this one is ready.
    fn look_complete(&mut self, cx: &mut Cx<'_>) {
        let servers = self.graph.part().servers();
        let Some(steps) = &mut self.steps else { return };
        let mut others = servers.iter().filter(|&&server| server != cx.node);
        let has_sent = |server: &NodeId| {
            steps.peers.get(server).is_some_and(|peer| peer.sent >= steps.superstep)
        };
        if steps.phase == Phase::Exchanging && others.all(has_sent) {
            steps.phase = Phase::Waiting;
            self.say_ready(cx);
        }
    }

    /// Tells the application once its job is over.
    pub(super) fn end_steps(&mut self, cx: &mut Cx<'_>) {
        self.report_done(cx);
        let over = self.steps.as_mut().and_then(|steps| steps.job.as_mut());
        let Some(own) = over.filter(|own| own.left() == 0 && !own.is_reported) else { return };
        own.is_reported = true;
        let report = JobReport { took: cx.now.since(own.began), ..own.report };
        let id = own.job.id;
        let census = self.census_now(cx.now);
        cx.deliver(Event::Ended(id, Box::new(report), census));
    }
}

/// Rows of entries that fit a message with a head of this many bytes.
fn chunks<T>(
    entries: Vec<T>,
    head_bytes: usize,
    size: impl Fn(&T) -> usize,
) -> Vec<SmallVec<[T; 1]>> {
    let mut rows: Vec<SmallVec<[T; 1]>> = Vec::new();
    let mut bytes = usize::MAX;
    for entry in entries {
        let more = size(&entry);
        let is_full = rows.last().is_none_or(|row| row.len() >= BundleConfig::WALKERS_MAX);
        if is_full || bytes + more > MESSAGE_BYTES_MAX {
            rows.push(SmallVec::new());
            bytes = head_bytes;
        }
        bytes += more;
        if let Some(row) = rows.last_mut() {
            row.push(entry);
        }
    }
    rows
}
