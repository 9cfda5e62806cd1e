use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::core::{Instant, Lane, NodeId, Wire};
use paceline_proto::walk::{Command, Config, Event, Message, Timer, Trail, Traveller};

use super::super::report::{Report, Violation};
use super::job::{JobLedger, refusal};
use super::node::{Call, Key, NodeLedger, Tally, travellers};
use super::world::World;
use super::{Broken, Node, Rule};
use paceline_sim::{Fault, Input, Observer, Reply, Sim};

/// What was seen, over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Walks that were reported to the application.
    pub finished: u64,
    /// Reported walks that were started more than once.
    pub repeated: u64,
    /// Walks that were given up.
    pub failed: u64,
    /// Steps of the reported walks.
    pub steps: u64,
    /// Jobs that ended.
    pub ended: u64,
    /// Jobs that were refused.
    pub refused_jobs: u64,
    /// Walkers that were generated.
    pub generated: u64,
    /// Walkers that queues dropped.
    pub dropped: u64,
    /// Walkers that queues marked.
    pub marked: u64,
    /// Walkers that servers dropped because no server has the rows that they need.
    pub lost: u64,
    /// Walkers that were refused.
    pub refused: u64,
    /// Walkers that were sent, to go on or home.
    pub sent: u64,
    /// Walkers that a crash took with it.
    pub crashed: u64,
    /// Walkers that arrived once more than they were sent.
    pub doubled: u64,
    /// Walkers in messages of more than one.
    pub bundled: u64,
    /// Walkers that came home after their job, or another attempt at their walk, was over.
    pub late: u64,
}

/// What is between two nodes of an attempt at a walk.
#[derive(Clone, Copy, Debug, Default)]
struct OnWire {
    sent: u32,
    arrived: u32,
}

/// Counters of walkers that are not let in.
const REFUSED: [&str; 7] = [
    "walker_refused",
    "walk_job_refused",
    "walker_of_other_graph",
    "walker_of_stranger",
    "walker_beyond_credit",
    "walker_beyond_homes",
    "walker_of_silent_home",
];

/// Watches servers of walks.
///
/// Cost: of each call a comparison for each walker that its node holds and each walk that it has
/// under way, and a search for each that has changed.
#[derive(Debug)]
pub struct WalkLedger {
    world: World,
    /// What each node is set to, by number.
    configs: Vec<Config>,
    datagram_bytes_max: usize,
    /// Most times that a message arrives.
    arrivals_max: u32,
    nodes: Vec<NodeLedger>,
    /// Tokens that were seen.
    seen: BTreeSet<Key>,
    wire: BTreeMap<(Key, NodeId, NodeId, bool), OnWire>,
    /// Walkers that strangers sent: the ledger does not know where they were before.
    foreign: BTreeSet<Key>,
    call: Call,
    totals: Totals,
    report: Report<Rule>,
}

impl WalkLedger {
    /// A ledger for nodes that are set to this, by number; nodes with higher numbers are strangers,
    /// of which it sees only what they send to the others. `doubles`: whether the network may
    /// deliver a datagram twice.
    pub fn new(
        world: World,
        configs: Vec<Config>,
        datagram_bytes_max: usize,
        doubles: bool,
    ) -> WalkLedger {
        WalkLedger {
            world,
            nodes: configs.iter().map(|_| NodeLedger::default()).collect(),
            configs,
            datagram_bytes_max,
            arrivals_max: if doubles { 2 } else { 1 },
            seen: BTreeSet::new(),
            wire: BTreeMap::new(),
            foreign: BTreeSet::new(),
            call: Call::default(),
            totals: Totals::default(),
            report: Report::default(),
        }
    }

    /// The first promise that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// What was seen so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// True if a job was requested and has not ended.
    pub fn is_busy(&self) -> bool {
        self.nodes.iter().any(|node| !node.jobs.is_empty())
    }

    /// Checks that every job has ended. Call it after the faults and enough time to recover.
    pub fn check_complete(&mut self, at: Instant) -> Result<(), Violation<Rule>> {
        let open = (0..).map(NodeId).zip(&self.nodes);
        let open = open.filter_map(|(node, held)| Some((node, held.jobs.iter().next()?)));
        if let Some((node, (id, job))) = open.take(1).next() {
            let what = format!("job {} has not ended: {}", id.0, job.progress());
            self.fail(at, node, (Rule::Completion, what));
        }
        self.report.verdict()
    }

    /// Checks that servers hold no walkers, have no work left, and counted what the ledger saw.
    /// Call it when no event is left, or should be.
    pub fn check_rest<P: Node>(&mut self, sim: &Sim<'_, P>) -> Result<(), Violation<Rule>> {
        let at = sim.now();
        if sim.events_pending() > 0 {
            let what = format!("{} events are pending", sim.events_pending());
            self.fail(at, NodeId(0), (Rule::Quiescence, what));
        }
        for node in (0..self.nodes.len() as u64).map(NodeId) {
            let (seen, held) = (self.nodes[node.index()].held(), sim.node(node).server().held());
            if sim.is_alive(node) && (seen, held) != (0, 0) {
                self.fail(
                    at,
                    node,
                    (Rule::Quiescence, format!("{held} walkers are held, {seen} seen")),
                );
            }
        }
        let count = |name| sim.counters().count(name);
        let dropped = count("walker_dropped_full") + count("walker_dropped_early");
        let refused = REFUSED.into_iter().map(count).sum();
        let lost = count("walker_lost") + count("walker_forgotten");
        let counted = (dropped, lost, refused);
        let Totals { dropped, lost, refused, .. } = self.totals;
        if counted != (dropped, lost, refused) {
            let what = format!("{counted:?} counted, {:?} seen", (dropped, lost, refused));
            self.fail(at, NodeId(0), (Rule::Conservation, what));
        }
        self.report.verdict()
    }

    fn is_stranger(&self, node: NodeId) -> bool {
        node.index() >= self.nodes.len()
    }

    fn fail(&mut self, at: Instant, node: NodeId, broken: Broken) {
        self.report.note(at, node, broken);
    }

    fn receive(&mut self, node: NodeId, from: NodeId, message: &Message) -> Result<(), Broken> {
        let is_home = matches!(message, Message::Ended { .. });
        let is_stranger = self.is_stranger(from);
        for (key, steps) in travellers(node, message) {
            let on_wire = self.wire.entry((key, from, node, is_home)).or_default();
            on_wire.arrived += 1;
            if is_stranger {
                self.foreign.insert(key);
            } else if on_wire.arrived > on_wire.sent * self.arrivals_max {
                let what = format!("{:x} came, and {from} did not send it", key.2);
                return Err((Rule::Conservation, what));
            }
            self.totals.doubled += u64::from(!is_stranger && on_wire.arrived > on_wire.sent);
            if is_home {
                self.call.home.push(key);
            } else {
                self.call.came.entry(key).or_default().push(steps);
                self.call.came_count += 1;
            }
        }
        Ok(())
    }

    fn command(&mut self, at: Instant, node: NodeId, command: &Command) {
        let (held, config) = (&mut self.nodes[node.index()], &self.configs[node.index()]);
        match command {
            Command::Run(job) => {
                let running = held.jobs.values().map(JobLedger::job);
                let why = refusal(job, config, &self.world, running);
                self.call.asked = Some((job.id, why));
                if why.is_none() {
                    held.jobs.insert(job.id, JobLedger::new((**job).clone(), config, at));
                }
            }
            Command::Cancel(id) => {
                self.call.cancelled = Some(*id).filter(|id| held.jobs.contains_key(id));
            }
            Command::Consumed(id, count) => {
                if let Some(job) = held.jobs.get_mut(id) {
                    job.consume(*count);
                }
            }
            // The graph of these runs is complete from the start and does not change.
            Command::Graph(_) => {}
        }
    }

    fn check_send(
        &mut self,
        (from, to, lane): (NodeId, NodeId, Lane),
        message: &Message,
    ) -> Result<(), Broken> {
        // What strangers say of graphs, and of walkers on others, is answered.
        if self.call.is_foreign && matches!(message, Message::Graph(..)) {
            return Ok(());
        }
        let config = &self.configs[from.index()];
        let (walkers, bytes) = (message.walkers(), message.wire_len());
        let (walkers_max, bytes_max) = (config.bundle.walkers_max, self.datagram_bytes_max);
        let is_long = bytes > bytes_max;
        if walkers == 0 || walkers > walkers_max || is_long && walkers > 1 {
            let what = format!("{walkers} walkers in {bytes} bytes, at most {walkers_max}");
            return Err((Rule::Bundle, what));
        }
        if is_long != (lane == Lane::Stream) {
            return Err((Rule::Bundle, format!("{bytes} bytes as {lane:?}")));
        }
        self.totals.sent += walkers as u64;
        self.totals.bundled += if walkers > 1 { walkers as u64 } else { 0 };
        let held = &self.nodes[from.index()];
        match message {
            Message::Walkers { head, walkers } if head.trail == Trail::Vertices => {
                let key = |traveller: &Traveller| (head.home, head.job, traveller.token);
                for traveller in walkers.iter().filter(|it| !self.foreign.contains(&key(it))) {
                    let key = key(traveller);
                    let steps = held.steps_before(&self.call, key, traveller.walker.steps);
                    let way = (traveller.walker.source, &*traveller.path);
                    // Of a walker that came by the codec, the source is not known.
                    self.world.check_here(from, &head.kind, way, steps)?;
                }
            }
            _ => {}
        }
        let is_home = matches!(message, Message::Ended { .. });
        for (key, _) in travellers(to, message) {
            *self.call.left.entry(key).or_default() += 1;
            self.wire.entry((key, from, to, is_home)).or_default().sent += 1;
        }
        Ok(())
    }

    fn check_event(&mut self, at: Instant, node: NodeId, event: &Event) -> Result<(), Broken> {
        let (held, config) = (&mut self.nodes[node.index()], &self.configs[node.index()]);
        let over = |id: u64| (Rule::Copies, format!("event of job {id}, which has ended"));
        match event {
            Event::Walks(id, walks) => {
                let job = held.jobs.get_mut(id).ok_or_else(|| over(id.0))?;
                for walk in walks {
                    job.tell(&self.world, walk)?;
                    self.call.told.push((*id, walk.walk, walk.attempts));
                    self.totals.finished += 1;
                    self.totals.repeated += u64::from(walk.attempts > 1);
                    self.totals.steps += u64::from(walk.steps);
                }
                Ok(())
            }
            Event::Failed(id, walk, attempt) => {
                let job = held.jobs.get_mut(id).ok_or_else(|| over(id.0))?;
                self.totals.failed += 1;
                job.fail(at, (*walk, *attempt), config)
            }
            Event::Ended(id, report, _) => {
                let job = held.jobs.remove(id).ok_or_else(|| over(id.0))?;
                self.totals.ended += 1;
                self.totals.late += report.late;
                job.end(at, report, self.call.cancelled == Some(*id))
            }
            Event::Refused(id, why) => {
                self.totals.refused_jobs += 1;
                self.call.is_refused = true;
                match self.call.asked {
                    Some((asked, _)) if asked == *id => Ok(()),
                    _ => Err((Rule::Completion, format!("job {} is refused later: {why}", id.0))),
                }
            }
            _ => Err((Rule::Completion, format!("{event:?} where no client supplies a graph"))),
        }
    }
}

impl<P: Node> Observer<P> for WalkLedger {
    fn before_call(&mut self, at: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        self.call = Call::default();
        match input {
            Input::Message { from, message } => {
                self.call.is_foreign = self.is_stranger(*from);
                if let Err(broken) = self.receive(node, *from, message) {
                    self.fail(at, node, broken);
                }
            }
            Input::Timer(timer) => self.call.is_work = *timer == Timer::Work,
            Input::Command(command) => self.command(at, node, command),
            Input::Peer { .. } => self.call.is_news = true,
            _ => {}
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &Message) {
        if let Err(broken) = self.check_send((from, to, lane), message) {
            self.fail(at, from, broken);
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        if let Err(broken) = self.check_event(at, node, event) {
            self.fail(at, node, broken);
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        let call = std::mem::take(&mut self.call);
        let seen = &mut self.seen;
        let closed = self.nodes[node.index()].close(
            (at, node),
            protocol.server(),
            &call,
            (&self.configs[node.index()], &self.world, &self.foreign),
            |key| seen.insert(key),
        );
        match closed {
            Ok(Tally { generated, dropped, lost, refused, marked }) => {
                self.totals.generated += generated;
                self.totals.dropped += dropped;
                self.totals.lost += lost;
                self.totals.refused += refused;
                self.totals.marked += marked;
            }
            Err(broken) => self.fail(at, node, broken),
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn on_fault(&mut self, _: Instant, fault: &Fault) {
        match fault {
            Fault::Crash(node) if !self.nodes[node.index()].is_down => {
                let held = &mut self.nodes[node.index()];
                self.totals.crashed += held.held();
                *held = NodeLedger::default();
                held.is_down = true;
            }
            Fault::Restart(node) => self.nodes[node.index()].is_down = false,
            Fault::Pause(node, time) => self.nodes[node.index()].stood += *time,
            _ => {}
        }
    }
}
