//! Random walkers over a partitioned graph: each one a message, queues that warn early, sources
//! that slow down.
//!
//! Source: Takizawa and Kaneko, *Autonomous congestion control with random early detection for
//! asynchronous processing of random walkers*, IEICE Tech. Rep. IN2022-18, 2022 (its slides).

mod admission;
mod ahead;
mod barrier;
mod bundler;
mod census;
mod chance;
mod config;
pub mod counters;
mod editor;
mod flights;
mod holder;
mod homes;
mod interface;
mod kind;
mod known;
mod message;
mod noting;
mod red;
mod rtt;
mod run;
mod runs;
mod seen;
mod steps;
mod supplier;
mod waits;
mod walker;
mod window;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::core::{ConfigError, Context, Instant, Lane, NodeId, PeerState, Protocol};
use crate::graphshare::ADDRESS_BYTES_MAX;
use crate::parts::deadline::Deadline;
use ahead::AHEAD;
use bundler::{Bundler, Cargo};
use editor::Editor;
use holder::Holder;
use homes::{HOMES_MAX, HomeId, Homes};
use known::{Known, SlotId};
use message::{DETOURS_MAX, MESSAGE_BYTES_MAX, ended_head_bytes};
use noting::Noting;
use run::{Due, From, Lost, Run};
use runs::Runs;
use steps::Steps;
use supplier::Supplier;

pub use barrier::Barrier;
pub use census::Census;
pub use chance::{Chance, KindError, Length};
pub use config::{Config, Control, Generation, PacedConfig, Recovery, StepConfig, WindowConfig};
pub use interface::{
    Command, Edit, EditError, Event, Job, JobId, JobReport, Refusal, Sources, Supply, SupplyFault,
    UnderWay, Walk,
};
pub use kind::{Kind, Node2Vec, Step};
pub use message::{Ended, Head, Message, Stop, Trail, Traveller};
pub use red::{Red, Verdict, probability};
pub use waits::Waits;
pub use walker::{NOWHERE, Walker};

pub use crate::graphshare::{
    Adjacency, Alias, AliasScratch, BundleConfig, Change, Chunk, Discipline, EditFault, Given,
    Graph, GraphError, Holding, Opening, Outcome, OwnRow, Owners, Part, PassConfig, Plan, Position,
    QueueConfig, Reception, Row, Upkeep, Vertex,
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
    job: SlotId,
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
    Served(SlotId),
}

/// A server of walks, and the home of those that its application asks for.
///
/// Any node can be a home: a node without vertices is a client.
#[derive(Debug)]
pub struct Server {
    config: Config,
    part: Part,
    known: Known,
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
    /// The plan by which the part was supplied; 0 if it was there from the start, or if there is no
    /// part.
    plan: u64,
    /// Whether clients may give it a part.
    takes_graphs: bool,
    /// Whether it gives parts to servers.
    is_client: bool,
    /// Where it is, in a form that drivers of sockets read.
    address: Bytes,
    holder: Holder,
    supplier: Option<Supplier>,
    editor: Editor,
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
        config.check()?;
        let steps = match config.generation {
            Generation::Supersteps(config) => Some(Box::new(Steps::new(config))),
            Generation::Paced(_) | Generation::Window(_) => None,
        };
        Ok(Server {
            config,
            part,
            known: Known::default(),
            homes: Homes::default(),
            serving: None,
            bundler: Bundler::default(),
            runs: Runs::default(),
            done: Vec::new(),
            armed: Armed::default(),
            census: Census::default(),
            counted: Instant::ZERO,
            dropped: BTreeMap::new(),
            plan: 0,
            takes_graphs: false,
            is_client: false,
            address: Bytes::new(),
            holder: Holder::default(),
            supplier: None,
            editor: Editor::default(),
            steps,
        })
    }

    /// A server `me` that waits for a client to give it a part of a graph.
    pub fn awaiting(config: Config, me: NodeId) -> Result<Server, ConfigError> {
        let server = Server::new(config, Part::nothing(me))?;
        Ok(Server { takes_graphs: true, ..server })
    }

    /// A client `me`: it has no vertices, gives servers their parts, and is a home of walks.
    pub fn client(config: Config, me: NodeId) -> Result<Server, ConfigError> {
        let server = Server::new(config, Part::nothing(me))?;
        Ok(Server { is_client: true, ..server })
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
        if self.part.servers().is_empty() {
            return Err(Refusal::NoGraph);
        }
        job.kind.check(self.part.is_labelled())?;
        if job.length.steps_max() > Length::STEPS_MAX {
            return Err(KindError::Steps(job.length.steps_max()).into());
        }
        if job.walks == 0 || job.sources.is_empty() {
            return Err(Refusal::NoWalks);
        }
        if job.first >= job.walks_in_all() {
            return Err(Refusal::First(job.first, job.walks_in_all()));
        }
        let vertices = self.part.vertices();
        let mut sources = (0..job.sources.len()).map(|place| job.sources.vertex(place));
        if let Some(source) = sources.find(|&source| source >= vertices) {
            return Err(Refusal::NoSuchSource(source, vertices));
        }
        let head = Arc::new(Head {
            home: cx.node,
            job: cx.rng.next_u64(),
            plan: self.plan,
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
                        self.bring(cx, (&head, HomeId::SERVERS), traveller, source);
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
    fn pass_on(&mut self, cx: &mut Context<'_, Server>, queued: QueuedWalker, vertex: Vertex) {
        let QueuedWalker { job, home, traveller } = queued;
        let Some(traveller) = self.route(cx, JobOf::Served(job), traveller, vertex) else {
            return self.known.leave(job);
        };
        let queued = QueuedWalker { job, home, traveller };
        match &mut self.steps {
            Some(steps) => steps.stay(queued),
            None => self.enter(cx, queued),
        }
    }

    /// Sends a walker to the server that has the edges of `vertex`. Returns it if this one has
    /// them.
    fn route(
        &mut self,
        cx: &mut Context<'_, Server>,
        job: JobOf<'_>,
        traveller: Traveller,
        vertex: Vertex,
    ) -> Option<Traveller> {
        let owner = self.part.owner(vertex);
        if owner == Some(cx.node) {
            return Some(traveller);
        }
        let Some(owner) = owner else {
            self.count_lost(cx);
            return None;
        };
        self.census.departed += 1;
        let head = match job {
            JobOf::Arriving(head) => head,
            JobOf::Served(job) => self.known.head(job),
        };
        match &mut self.steps {
            Some(steps) => steps.leave(owner, head, traveller),
            None => {
                let config = &self.config.bundle;
                self.bundler.send(cx, config, owner, head, Cargo::Walker(traveller));
            }
        }
        None
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
                let head = self.known.head(queued.job);
                if head.home != cx.node {
                    queued.traveller.is_marked = true;
                } else if let Some(run) = self.runs.get_mut(head.job) {
                    run.on_marked_here(cx.now, queued.traveller.token);
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
        let head = self.known.head(queued.job);
        if self.dropped.len() < HOMES_MAX || self.dropped.contains_key(&head.home) {
            *self.dropped.entry(head.home).or_default() += 1;
        }
        if head.home == cx.node
            && let Some(run) = self.runs.get_mut(head.job)
        {
            let lost = run.on_dropped_here(&self.config, cx.now, queued.traveller.token);
            if let Lost::GivenUp(flight) = lost {
                cx.deliver(Event::Failed(run.job.id, flight.walk, flight.attempt));
            }
        }
        self.known.leave(queued.job);
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
                let next = self.homes.of(home).take(AHEAD);
                ahead::touch(&self.part, next.map(|queued| &queued.traveller.walker));
                let hops = left.min(AHEAD);
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
        let head = self.known.head(queued.job);
        let (before, at) = (traveller.walker.state, traveller.walker.at);
        let step = match head.trail {
            Trail::Versions => {
                let drawn = Cell::new(traveller.drawn);
                let noting = Noting { part: &self.part, at: traveller.walker.at, drawn: &drawn };
                let step = head.kind.step(&mut traveller.walker, &noting);
                traveller.drawn = drawn.get();
                step
            }
            _ => head.kind.step(&mut traveller.walker, &self.part),
        };
        // A turn may look at many candidates, or at many labels.
        let drawn = traveller.walker.draws_since(before);
        let labels = match head.kind {
            Kind::Metapath(_) => self.part.row(at).map_or(0, |row| row.targets.len() as u64),
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
                self.pass_on(cx, queued, vertex);
            }
            Step::Need(vertex) => {
                // A walker that has judged a candidate has made progress, even if it rejected the
                // candidate: only visits that leave its state unchanged are detours.
                let is_detour = traveller.walker.state == before;
                traveller.detours = if is_detour { traveller.detours + 1 } else { 0 };
                if traveller.detours > DETOURS_MAX {
                    self.known.leave(queued.job);
                    return self.count_lost(cx);
                }
                self.pass_on(cx, queued, vertex);
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
        let head = self.known.head(queued.job);
        if head.home == cx.node {
            let job = head.job;
            self.complete(cx, job, ended, From::Here);
        } else {
            self.census.returned += 1;
            let config = &self.config.bundle;
            match &mut self.steps {
                Some(steps) => steps.return_home(head, ended),
                None => self.bundler.send(cx, config, head.home, head, Cargo::Ended(ended)),
            }
        }
        self.known.leave(queued.job);
    }

    /// A walk of one of its own jobs is done.
    fn complete(&mut self, cx: &mut Context<'_, Server>, job: u64, ended: Ended, from: From) {
        if let Some(done) = self.steps.as_mut().and_then(|steps| steps.on_ended(job, ended.clone()))
        {
            return self.done.push(done);
        }
        let Some(run) = self.runs.get_mut(job) else {
            cx.count(counters::OF_NO_JOB, 1);
            return;
        };
        if let Some(walk) = run.on_ended(&self.config, cx.now, ended, from) {
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
            self.tell_done(cx);
            self.end_runs(cx);
            self.generate(cx);
            // A walk may fail where it begins.
            self.end_runs(cx);
            self.arm_deadline(cx);
            self.runs.clear_dirty();
        }
        let is_idle = self.homes.is_empty() && self.serving.is_none();
        let config = &self.config.bundle;
        // Where hops take a time that is known there is a timer.
        let is_timed = !self.config.service.is_zero();
        self.bundler.flush(cx, config, (is_idle, is_timed));
        self.arm_leave(cx);
        if self.plan != 0 {
            self.arm_upkeep(cx);
        }
    }

    fn arm_deadline(&mut self, cx: &mut Context<'_, Server>) {
        let next = self.runs.iter().filter_map(|(_, run)| run.next_deadline()).min();
        if let Some(at) = next {
            self.armed.deadline.set(cx, at, Timer::Deadline);
        }
    }

    fn arm_upkeep(&mut self, cx: &mut Context<'_, Server>) {
        let next = [self.look_at(), self.editor.next_at(cx.now), self.give_again_at(cx.now)];
        if let Some(at) = next.into_iter().flatten().min() {
            self.armed.upkeep.set(cx, at, Timer::Upkeep);
        }
    }

    /// Another part takes the place of this one: what was under way over the old one is lost.
    fn replace_part(&mut self, cx: &mut Context<'_, Server>, plan: u64, part: Part) {
        self.count_queue(cx.now);
        let serving = self.serving.take().map(|(queued, _)| queued);
        for queued in serving.into_iter().chain(self.homes.reset(plan != 0)) {
            self.known.leave(queued.job);
            self.census.lost += 1;
            cx.count(counters::WALKER_LOST, 1);
        }
        (self.plan, self.part) = (plan, part);
    }

    /// Bytes of a graph, and of changes to it, that may be here.
    fn graph_bytes_max(&self) -> usize {
        self.config.graph_bytes_max
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

    fn tell_done(&mut self, cx: &mut Context<'_, Server>) {
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
        // A driver has found which node is at the address of a server.
        let is_looking = self.is_client && self.supplier.is_none();
        if is_looking && matches!(state, PeerState::Up { .. }) {
            cx.send(peer, Lane::Datagram, Message::Upkeep(0, Box::new(Upkeep::Who)));
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
                    self.complete(cx, job, ended, From::Elsewhere);
                }
            }
            Message::Upkeep(plan, upkeep) => {
                self.homes.hear(from, cx.now);
                self.on_upkeep(cx, from, plan, *upkeep);
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
                self.look_after_servers(cx);
                self.look_after_edits(cx);
                self.give_again(cx);
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
            Command::Serve(address) => {
                self.address = address;
                self.address.truncate(ADDRESS_BYTES_MAX);
            }
            Command::Supply(supply) => self.supply(cx, *supply),
            Command::Edit(id, edits) => self.edit(cx, id, edits),
        }
        self.settle(cx);
    }
}

#[cfg(test)]
mod tests;
