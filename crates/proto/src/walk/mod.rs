//! Random walkers over a graph that servers share: each one a message, queues that warn early,
//! sources that slow down.
//!
//! The parts of the graph, their supply and their changes are [`graphshare`](crate::graphshare)'s.
//!
//! Source: Takizawa and Kaneko, *Autonomous congestion control with random early detection for
//! asynchronous processing of random walkers*, IEICE Tech. Rep. IN2022-18, 2022 (its slides).

mod admission;
mod barrier;
mod bundler;
mod census;
mod chance;
mod config;
pub mod counters;
mod flights;
mod homes;
mod inspect;
mod interface;
mod job_table;
mod kind;
mod message;
mod prefetch;
mod recording;
mod red;
mod rtt;
mod run;
mod runs;
mod steps;
mod waits;
mod walker;
mod window;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::core::{ConfigError, Context, Instant, NodeId, PeerState, Protocol};
use crate::graphshare::{GraphEvent, GraphMessage, GraphShare, Host, Replaced, Usage};
use crate::parts::deadline::Deadline;
use bundler::{BundleItem, Bundler, Worker};
use homes::{HOMES_MAX, HomeId, Homes};
use job_table::{JobSlot, JobTable};
use message::{DETOURS_MAX, MESSAGE_BYTES_MAX, ended_head_bytes};
use prefetch::PREFETCHED;
use recording::RecordingPart;
use run::{Due, EndedAt, Loss, Run};
use runs::Runs;
use steps::Steps;

pub use barrier::Barrier;
pub use census::Census;
pub use chance::{Chance, KindError, Length};
pub use config::{Config, Control, Generation, PacedConfig, Recovery, StepConfig, WindowConfig};
pub use interface::{Command, Event, Job, JobId, JobReport, Refusal, Sources, UnderWay, Walk};
pub use kind::{Kind, Node2Vec, Step};
pub use message::{Ended, Head, Message, Stop, Trail, Traveller};
pub use red::{Red, Verdict, probability};
pub use waits::Waits;
pub use walker::{NOWHERE, Walker};

pub use crate::graphshare::{
    Adjacency, Alias, AliasScratch, BundleConfig, Discipline, Graph, GraphError, Owners, Part,
    PassConfig, QueueConfig, Row, Vertex,
};

/// Walks that are begun in a turn, at most.
const GENERATED_MAX: usize = 1024;

/// The timers of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The worker is done with a walker, or may go on.
    Work,
    /// A walk may be due to begin.
    Generate,
    /// A walk may be overdue.
    Deadline,
    /// Time to ask servers for their parts, or to send vertices and edits again.
    Upkeep,
    /// A walker may have waited for company as long as it may.
    Leave,
}

/// A walker in the queue.
#[derive(Clone, Debug)]
struct QueuedWalker {
    job: JobSlot,
    /// Whose queue it waits in.
    home: HomeId,
    traveller: Traveller,
}

/// How a walker names its job.
#[derive(Clone, Copy)]
enum JobOf<'a> {
    /// It has come, or is begun, and is not counted among those here.
    Arriving(&'a Arc<Head>),
    /// It was served, and is counted.
    Served(JobSlot),
}

/// A server of walks, and the home of those that its application asks for.
///
/// Any node can be a home. What it does for the graph, as a server or as a client without vertices,
/// is up to its [`GraphShare`].
#[derive(Debug)]
pub struct Server {
    config: Config,
    /// How walkers pass the server if no client asks for something else.
    own_pass: PassConfig,
    graph: GraphShare,
    jobs: JobTable,
    homes: Homes,
    /// The walker that the worker serves, and until when, where the service time is emulated.
    serving: Option<(QueuedWalker, Instant)>,
    bundler: Bundler,
    runs: Runs,
    /// Walks that are done in this turn.
    done: Vec<(JobId, Walk)>,
    armed: Armed,
    census: Census,
    /// Until when the queue's area is counted.
    counted: Instant,
    /// How many walkers the queue dropped, for each of at most `HOMES_MAX` homes.
    dropped: BTreeMap<NodeId, u64>,
    /// Where it walks in supersteps.
    steps: Option<Box<Steps>>,
}

/// Labels that a server can read in the time of a step.
const LABELS_OF_STEP: u64 = 256;

/// For when timers are set.
#[derive(Debug, Default)]
struct Armed {
    /// Whether the worker runs already: walkers that arrive join the queue.
    is_working: bool,
    generate: Deadline,
    deadline: Deadline,
    upkeep: Deadline,
    leave: Deadline,
}

impl Server {
    /// A server with this part of a graph.
    pub fn new(config: Config, part: Part) -> Result<Server, ConfigError> {
        let graph = GraphShare::fixed(part, config.graph_bytes_max);
        Server::with_graph(config, graph)
    }

    /// A server `me` that waits for a client to give it a part of a graph.
    pub fn awaiting(config: Config, me: NodeId) -> Result<Server, ConfigError> {
        let graph = GraphShare::awaiting(me, config.graph_bytes_max);
        Server::with_graph(config, graph)
    }

    /// A client `me`: it has no vertices, gives servers their parts, and is a home of walks.
    pub fn client(config: Config, me: NodeId) -> Result<Server, ConfigError> {
        let graph = GraphShare::client(me, config.graph_bytes_max);
        Server::with_graph(config, graph)
    }

    fn with_graph(config: Config, graph: GraphShare) -> Result<Server, ConfigError> {
        config.check()?;
        let steps = match config.generation {
            Generation::Supersteps(config) => Some(Box::new(Steps::new(config))),
            Generation::Paced(_) | Generation::Window(_) => None,
        };
        Ok(Server {
            own_pass: PassConfig { queue: config.queue, bundle: config.bundle },
            config,
            graph,
            jobs: JobTable::default(),
            homes: Homes::default(),
            serving: None,
            bundler: Bundler::default(),
            runs: Runs::default(),
            done: Vec::new(),
            armed: Armed::default(),
            census: Census::default(),
            counted: Instant::ZERO,
            dropped: BTreeMap::new(),
            steps,
        })
    }

    fn census_now(&mut self, now: Instant) -> Box<Census> {
        self.count_queue(now);
        Box::new(self.census())
    }

    fn begin(&mut self, cx: &mut Context<'_, Server>, job: Job) -> Result<(), Refusal> {
        if self.runs.len() >= self.config.jobs_max {
            return Err(Refusal::TooManyJobs(self.config.jobs_max));
        }
        if self.runs.iter().any(|(_, run)| run.job.id == job.id) {
            return Err(Refusal::Running);
        }
        if self.graph.part().servers().is_empty() {
            return Err(Refusal::NoGraph);
        }
        job.kind.check(self.graph.part().is_labelled())?;
        if job.length.steps_max() > Length::STEPS_MAX {
            return Err(KindError::Steps(job.length.steps_max()).into());
        }
        if job.walks == 0 || job.sources.is_empty() {
            return Err(Refusal::NoWalks);
        }
        if job.first >= job.walks_in_all() {
            return Err(Refusal::First(job.first, job.walks_in_all()));
        }
        let vertices = self.graph.part().vertices();
        let mut sources = (0..job.sources.len()).map(|place| job.sources.vertex(place));
        if let Some(source) = sources.find(|&source| source >= vertices) {
            return Err(Refusal::NoSuchSource(source, vertices));
        }
        let head = Arc::new(Head {
            home: cx.node,
            job: cx.rng.next_u64(),
            plan: self.graph.plan(),
            kind: job.kind.clone(),
            trail: job.trail,
        });
        let bytes = MESSAGE_BYTES_MAX - head.bundle_bytes() - head.walker_bytes(&Traveller::NONE);
        let steps_max = bytes.min(MESSAGE_BYTES_MAX - ended_head_bytes()) / 4;
        let steps_max = steps_max.checked_div(job.trail.words()).unwrap_or(usize::MAX);
        if job.length.steps_max() as usize > steps_max {
            return Err(Refusal::TooLong(job.length.steps_max(), steps_max as u32));
        }
        if self.steps.is_some() {
            return self.begin_steps(cx, job, head);
        }
        let key = head.job;
        self.runs.insert(key, Run::new(&self.config, job, head, cx.now));
        Ok(())
    }

    /// Begins walks that are due, and sees to it that it is called again.
    fn generate(&mut self, cx: &mut Context<'_, Server>) {
        let mut next = None;
        let mut begun = 0;
        let jobs: SmallVec<[u64; 4]> = self.runs.iter().map(|(key, _)| key).collect();
        // Servers drop walkers beyond a home's credit. The jobs share one half of it; the other
        // half is for second walkers of walks whose first one was late and not lost.
        let credit = self.config.home_steps_max / 2;
        let mut left = credit.saturating_sub(self.runs.iter().map(|(_, run)| run.steps()).sum());
        for job in jobs {
            let Some(run) = self.runs.get_mut(job) else { continue };
            let (head, steps) = (run.head.clone(), run.steps());
            let steps_max = (credit / self.runs.len() as u64).min(steps.saturating_add(left));
            while let Some(run) = self.runs.get_mut(job) {
                match run.due(&self.config, cx.now, steps_max) {
                    Due::Now if begun < GENERATED_MAX => {
                        let traveller = run.generate(&self.config, cx.now);
                        begun += 1;
                        self.census.generated += 1;
                        let source = traveller.walker.at;
                        self.route_arrival(cx, (&head, HomeId::SERVERS), traveller, source);
                    }
                    Due::Now => {
                        next = Some(cx.now);
                        break;
                    }
                    Due::At(at) => {
                        next = Some(next.map_or(at, |next: Instant| next.min(at)));
                        break;
                    }
                    Due::Nothing => break,
                }
            }
            let begun = self.runs.get(job).map_or(0, |run| run.steps().saturating_sub(steps));
            left = left.saturating_sub(begun);
        }
        if let Some(at) = next {
            self.armed.generate.set(cx, at, Timer::Generate);
        }
    }

    /// A walker that was served goes to where the edges of `vertex` are.
    fn route_served(&mut self, cx: &mut Context<'_, Server>, queued: QueuedWalker, vertex: Vertex) {
        let owner = self.graph.part().owner(vertex);
        if owner == Some(cx.node) {
            return match &mut self.steps {
                Some(steps) => steps.stay(queued),
                None => self.enter(cx, queued),
            };
        }
        self.depart(cx, owner, JobOf::Served(queued.job), queued.traveller);
        self.jobs.leave(queued.job);
    }

    /// Sends a walker to the server that has the edges that it needs, which is not this one.
    fn depart(
        &mut self,
        cx: &mut Context<'_, Server>,
        owner: Option<NodeId>,
        job: JobOf<'_>,
        traveller: Traveller,
    ) {
        let Some(owner) = owner else {
            return self.count_lost(cx);
        };
        self.census.departed += 1;
        let head = match job {
            JobOf::Arriving(head) => head,
            JobOf::Served(job) => self.jobs.head(job),
        };
        match &mut self.steps {
            Some(steps) => steps.leave(owner, head, traveller),
            None => {
                let config = &self.config.bundle;
                self.bundler.send(cx, config, owner, head, BundleItem::Walker(traveller));
            }
        }
    }

    /// A walker is dropped because no server has the edges that it needs.
    fn count_lost(&mut self, cx: &mut Context<'_, Server>) {
        self.census.lost += 1;
        cx.count(counters::WALKER_LOST, 1);
    }

    /// A walker comes to the queue.
    fn enter(&mut self, cx: &mut Context<'_, Server>, mut queued: QueuedWalker) {
        self.count_queue(cx.now);
        let queue = &self.config.queue;
        let is_full = self.homes.waiting() >= queue.limit;
        let makes_room = is_full && self.homes.longest_beyond(queued.home).is_some();
        let length = match is_full && !makes_room {
            true => self.homes.waiting(),
            false => self.homes.length(queued.home),
        };
        let red = self.homes.red(queued.home);
        match red.judge(queue, cx.now, length, self.config.service, cx.rng) {
            Verdict::Enter => {}
            Verdict::Mark => {
                self.census.marked += 1;
                let head = self.jobs.head(queued.job);
                if head.home != cx.node {
                    queued.traveller.is_marked = true;
                } else if let Some(run) = self.runs.get_mut(head.job) {
                    run.on_local_mark(cx.now, queued.traveller.token);
                }
            }
            Verdict::Early => {
                self.census.dropped_early += 1;
                cx.count(counters::WALKER_DROPPED_EARLY, 1);
                return self.on_dropped(cx, queued);
            }
            Verdict::Full => return self.drop_full(cx, queued),
        }
        if makes_room && let Some(last) = self.homes.cut_longest(queued.home) {
            self.drop_full(cx, last);
        }
        if self.config.service.is_zero() {
            self.homes.push(queued);
            if !std::mem::replace(&mut self.armed.is_working, true) {
                cx.set_timer(std::time::Duration::ZERO, Timer::Work);
            }
        } else if self.serving.is_none() && !self.armed.is_working {
            self.serving = Some((queued, cx.now + self.config.service));
            cx.set_timer(self.config.service, Timer::Work);
        } else {
            self.homes.push(queued);
        }
        self.census.queue_max = self.census.queue_max.max(self.homes.waiting() as u64);
    }

    /// Counts how long the queue was as long as it is.
    fn count_queue(&mut self, now: Instant) {
        let nanos = now.as_nanos() - self.counted.as_nanos();
        let area = nanos.saturating_mul(self.homes.waiting() as u64);
        self.census.queue_area = self.census.queue_area.saturating_add(area);
        self.counted = now;
    }

    /// There is no room for a walker.
    fn drop_full(&mut self, cx: &mut Context<'_, Server>, queued: QueuedWalker) {
        self.census.dropped_full += 1;
        cx.count(counters::WALKER_DROPPED_FULL, 1);
        self.on_dropped(cx, queued);
    }

    fn on_dropped(&mut self, cx: &mut Context<'_, Server>, queued: QueuedWalker) {
        let head = self.jobs.head(queued.job);
        if self.dropped.len() < HOMES_MAX || self.dropped.contains_key(&head.home) {
            *self.dropped.entry(head.home).or_default() += 1;
        }
        if head.home == cx.node
            && let Some(run) = self.runs.get_mut(head.job)
        {
            let lost = run.on_local_drop(&self.config, cx.now, queued.traveller.token);
            if let Loss::Failed(flight) = lost {
                cx.deliver(Event::Failed(run.job.id, flight.walk, flight.attempt));
            }
        }
        self.jobs.leave(queued.job);
    }

    /// The worker goes on.
    fn work(&mut self, cx: &mut Context<'_, Server>) {
        self.count_queue(cx.now);
        self.forget_silent(cx);
        if self.config.service.is_zero() {
            let mut left = self.config.turn_hops;
            while left > 0
                && let Some(home) = self.homes.turn()
            {
                let next = self.homes.of(home).take(PREFETCHED);
                prefetch::rows(self.graph.part(), next.map(|queued| &queued.traveller.walker));
                let hops = left.min(PREFETCHED);
                for _ in 0..hops {
                    let Some(queued) = self.homes.pop(home) else { break };
                    self.hop(cx, queued);
                }
                left -= hops;
            }
            self.armed.is_working = !self.homes.is_empty();
            if self.armed.is_working {
                cx.set_timer(std::time::Duration::ZERO, Timer::Work);
            }
        } else {
            // On sockets a timer is late: what was done meanwhile is done now.
            while let Some((queued, done)) = self.serving.take_if(|(_, done)| *done <= cx.now) {
                self.armed.is_working = true;
                match self.homes.is_silent(queued.home, cx.now) {
                    true => self.forget(cx, queued),
                    false => self.hop(cx, queued),
                }
                self.armed.is_working = false;
                let next = self.homes.next();
                self.serving = next.map(|next| (next, done + self.config.service));
            }
            if let Some((_, done)) = self.serving {
                cx.set_timer(done.since(cx.now), Timer::Work);
            }
        }
        // An average decays while a queue is empty where a hop takes a known time.
        if !self.config.service.is_zero() {
            self.homes.on_empty(cx.now);
        }
    }

    /// A walker is served: it takes a step, or ends.
    fn hop(&mut self, cx: &mut Context<'_, Server>, mut queued: QueuedWalker) {
        self.census.visits += 1;
        let traveller = &mut queued.traveller;
        let head = self.jobs.head(queued.job);
        let (before, at) = (traveller.walker.state, traveller.walker.at);
        let step = match head.trail {
            Trail::Versions => {
                let drawn = Cell::new(traveller.drawn);
                let recording = RecordingPart {
                    part: self.graph.part(),
                    at: traveller.walker.at,
                    drawn: &drawn,
                };
                let step = head.kind.step(&mut traveller.walker, &recording);
                traveller.drawn = drawn.get();
                step
            }
            _ => head.kind.step(&mut traveller.walker, self.graph.part()),
        };
        // A turn may look at many candidates, or at many labels.
        let drawn = traveller.walker.draws_since(before);
        let labels = match head.kind {
            Kind::Metapath(_) => {
                self.graph.part().row(at).map_or(0, |row| row.targets.len() as u64)
            }
            _ => 0,
        };
        self.homes.charge(queued.home, drawn.max(1) + labels / LABELS_OF_STEP);
        match step {
            Step::To(vertex) => {
                traveller.detours = 0;
                if head.trail != Trail::None {
                    traveller.path.push(vertex);
                }
                if head.trail == Trail::Versions {
                    traveller.path.push(traveller.drawn);
                }
                self.route_served(cx, queued, vertex);
            }
            Step::Need(vertex) => {
                // A walker that has judged a candidate has made progress, even if it rejected the
                // candidate: only visits that leave its state unchanged are detours.
                let is_detour = traveller.walker.state == before;
                traveller.detours = if is_detour { traveller.detours + 1 } else { 0 };
                if traveller.detours > DETOURS_MAX {
                    self.jobs.leave(queued.job);
                    return self.count_lost(cx);
                }
                self.route_served(cx, queued, vertex);
            }
            Step::Done => self.end(cx, queued, Stop::Length),
            Step::DeadEnd => self.end(cx, queued, Stop::DeadEnd),
        }
    }

    /// A walk has ended here.
    fn end(&mut self, cx: &mut Context<'_, Server>, queued: QueuedWalker, stop: Stop) {
        self.census.ended += 1;
        let Traveller { token, walker, path, is_marked, .. } = queued.traveller;
        let (at, steps) = (walker.at, walker.steps);
        let ended = Ended { token, at, steps, stop, is_marked, path };
        let head = self.jobs.head(queued.job);
        if head.home == cx.node {
            let job = head.job;
            self.complete(cx, job, ended, EndedAt::Home);
        } else {
            self.census.returned += 1;
            let config = &self.config.bundle;
            match &mut self.steps {
                Some(steps) => steps.return_home(head, ended),
                None => self.bundler.send(cx, config, head.home, head, BundleItem::Ended(ended)),
            }
        }
        self.jobs.leave(queued.job);
    }

    /// A walk of one of its own jobs is done.
    fn complete(
        &mut self,
        cx: &mut Context<'_, Server>,
        job: u64,
        ended: Ended,
        ended_at: EndedAt,
    ) {
        if let Some(done) = self.steps.as_mut().and_then(|steps| steps.on_ended(job, ended.clone()))
        {
            return self.done.push(done);
        }
        let Some(run) = self.runs.get_mut(job) else {
            cx.count(counters::OF_NO_JOB, 1);
            return;
        };
        if let Some(walk) = run.on_ended(&self.config, cx.now, ended, ended_at) {
            self.done.push((run.job.id, walk));
        }
    }

    /// The end of a call: reports finished walks, begins those that are due, and sends bundles that
    /// are due.
    fn settle(&mut self, cx: &mut Context<'_, Server>) {
        if self.steps.is_some() {
            return self.end_steps(cx);
        }
        if self.runs.is_dirty() {
            self.report_done(cx);
            self.end_runs(cx);
            self.generate(cx);
            // A walk may fail where it begins.
            self.end_runs(cx);
            self.arm_deadline(cx);
            self.runs.clear_dirty();
        }
        let is_idle = self.homes.is_empty() && self.serving.is_none();
        let config = &self.config.bundle;
        let worker = if is_idle {
            Worker::Idle
        } else if self.config.service.is_zero() {
            Worker::Untimed
        } else {
            Worker::Timed
        };
        self.bundler.flush(cx, config, worker);
        self.arm_leave(cx);
        if let Some(at) = self.graph.next_timer(cx.now, self.usage()) {
            self.armed.upkeep.set(cx, at, Timer::Upkeep);
        }
    }

    fn arm_deadline(&mut self, cx: &mut Context<'_, Server>) {
        let next = self.runs.iter().filter_map(|(_, run)| run.next_deadline()).min();
        if let Some(at) = next {
            self.armed.deadline.set(cx, at, Timer::Deadline);
        }
    }

    /// If another part has taken the place of the one before, what was under way over that is lost.
    fn on_graph(&mut self, cx: &mut Context<'_, Server>, replaced: Option<Replaced>) {
        let Some(Replaced { pass }) = replaced else { return };
        self.count_queue(cx.now);
        let serving = self.serving.take().map(|(queued, _)| queued);
        let forgets = self.graph.plan() != 0;
        for queued in serving.into_iter().chain(self.homes.reset(forgets)) {
            self.jobs.leave(queued.job);
            self.census.lost += 1;
            cx.count(counters::WALKER_LOST, 1);
        }
        let PassConfig { queue, bundle } = pass.unwrap_or(self.own_pass);
        (self.config.queue, self.config.bundle) = (queue, bundle);
        self.homes.reset_red();
    }

    /// Whether walks of its own are under way over the graph.
    fn usage(&self) -> Usage {
        if self.runs.is_empty() { Usage::Idle } else { Usage::InUse }
    }

    /// Bounds how long walkers wait for company: sets a timer, unless the worker runs before then.
    fn arm_leave(&mut self, cx: &mut Context<'_, Server>) {
        let (Some(oldest), Some((_, done))) = (self.bundler.oldest(), &self.serving) else {
            return;
        };
        let at = oldest + self.config.bundle.deadline;
        if at < *done {
            self.armed.leave.set(cx, at, Timer::Leave);
        }
    }

    fn report_done(&mut self, cx: &mut Context<'_, Server>) {
        let mut walks: SmallVec<[Walk; 1]> = SmallVec::with_capacity(self.done.len());
        let mut of = None;
        for (job, walk) in self.done.drain(..) {
            if let Some(of) = of.filter(|&of| of != job) {
                cx.deliver(Event::Walks(of, std::mem::take(&mut walks)));
            }
            of = Some(job);
            walks.push(walk);
        }
        if let Some(of) = of {
            cx.deliver(Event::Walks(of, walks));
        }
    }

    fn end_runs(&mut self, cx: &mut Context<'_, Server>) {
        while let Some(run) = self.runs.take(Run::is_over) {
            let id = run.job.id;
            let report = Box::new(run.into_report(cx.now));
            cx.deliver(Event::Ended(id, report, self.census_now(cx.now)));
        }
    }
}

impl Protocol for Server {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = ();

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        if let PeerState::Up { .. } = state {
            self.graph.handle_peer_up(cx, peer);
        }
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Walkers { head, walkers } if self.steps.is_some() => {
                self.on_step_walkers(cx, from, &head, walkers.into_iter());
            }
            Message::Barrier(barrier) => self.on_barrier(cx, from, barrier),
            Message::Walkers { head, walkers } => self.on_walkers(cx, from, &head, walkers),
            Message::Ended { job, walks, .. } => {
                if let Some(run) = self.runs.get(job) {
                    run.expect(walks.iter().map(|ended| ended.token));
                }
                for ended in walks {
                    self.census.came_home += 1;
                    self.complete(cx, job, ended, EndedAt::Elsewhere);
                }
            }
            Message::Graph(plan, message) => {
                self.homes.hear(from, cx.now);
                let replaced = self.graph.handle_message(cx, from, plan, *message);
                self.on_graph(cx, replaced);
            }
        }
        self.settle(cx);
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Work if self.steps.is_some() => self.work_steps(cx),
            Timer::Work => self.work(cx),
            // A stale timer finds nothing to do, so every fire is treated alike. After this one,
            // the end of the call sends the bundles that have waited long enough.
            Timer::Leave => {
                self.armed.leave.fired(cx.now);
            }
            Timer::Generate => {
                self.armed.generate.fired(cx.now);
                self.runs.mark_dirty();
            }
            Timer::Deadline => {
                self.armed.deadline.fired(cx.now);
                for run in self.runs.iter_mut() {
                    let id = run.job.id;
                    run.take_overdue(&self.config, cx.now, |flight| {
                        cx.deliver(Event::Failed(id, flight.walk, flight.attempt));
                    });
                }
            }
            Timer::Upkeep => {
                self.armed.upkeep.fired(cx.now);
                self.graph.handle_timer(cx, self.usage());
            }
        }
        self.settle(cx);
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::Run(job) => {
                let id = job.id;
                if let Err(refusal) = self.begin(cx, *job) {
                    cx.deliver(Event::Refused(id, refusal));
                }
            }
            Command::Cancel(id) => {
                if let Some(run) = self.runs.take(|run| run.job.id == id) {
                    let report = Box::new(run.into_report(cx.now));
                    cx.deliver(Event::Ended(id, report, self.census_now(cx.now)));
                }
            }
            Command::Consumed(id, count) => {
                if let Some(run) = self.runs.iter_mut().find(|run| run.job.id == id) {
                    run.on_consumed(count);
                }
            }
            Command::Graph(command) => {
                let replaced = self.graph.handle_command(cx, command);
                self.on_graph(cx, replaced);
            }
        }
        self.settle(cx);
    }
}

impl Host for Server {
    fn graph_message(plan: u64, message: GraphMessage) -> Message {
        Message::Graph(plan, Box::new(message))
    }

    fn graph_event(event: GraphEvent) -> Event {
        Event::Graph(event)
    }
}

#[cfg(test)]
mod tests;
