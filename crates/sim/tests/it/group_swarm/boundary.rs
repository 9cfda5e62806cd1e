//! Stops one node of a group in the middle of what it does: between two messages of the agreement.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use paceline_check::checkers::group::{GroupLedger, Host};
use paceline_check::{Tamper, Wrapped};
use paceline_proto::core::{Context, Instant, MembershipCommand, NodeId, Outgoing, Rng, ViewId};
use paceline_proto::group::{Command, Config, Event, Message, Role};
use paceline_sim::{Fault, FaultSupport, Observer, Reply, Sim, SimConfig};

use super::{Application, HEAL, Scenario, at, join, message};

/// Founds the group, so it is the oldest member, who proposes.
pub const LEADER: NodeId = NodeId(0);
/// Crashes or leaves, if that is what changes the view.
const OTHER: NodeId = NodeId(4);
/// Joins, if that is what changes the view.
const JOINER: NodeId = NodeId(5);
/// Members before the change.
const MEMBERS: u32 = 5;
/// When the view begins to change.
const TRIGGER: Duration = Duration::from_secs(3);

/// What changes the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Crash,
    Join,
    Leave,
    /// The leader itself leaves.
    LeaderLeaves,
}

/// Where the leader stops, counted from the trigger on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// It has sent this many control messages, and sends nothing after them.
    Sent(usize),
    /// It has handled this many control messages, and does not handle the next one.
    Handled(usize),
}

/// How the leader stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// For good.
    Crash,
    /// For so long; then it sends what it was about to send.
    Pause(Duration),
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub seed: u64,
    pub trigger: Trigger,
    /// Where and how the leader stops; `None` for a run in which it does not.
    pub stop: Option<(Boundary, Stop)>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, {:?}, {:?}", self.seed, self.trigger, self.stop)
    }
}

/// The control messages of the leader, from the trigger on.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Sent, with the receiver.
    pub sent: Vec<String>,
    /// Handled, with the sender.
    pub handled: Vec<String>,
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Ran {
    pub log: Log,
    /// The view in the end.
    pub view: ViewId,
    /// How long after the stop all were in that view.
    pub converged_after: Duration,
    pub excluded: Vec<NodeId>,
}

/// True for what members say about views, and for the blocks of a flush.
pub fn is_control(message: &Message) -> bool {
    !matches!(
        message,
        Message::Chain(_)
            | Message::Detector(_)
            | Message::Direct(_)
            | Message::Correlated(_)
            | Message::DirectAck { .. }
            | Message::DirectProbe { .. }
    )
}

/// Stops a node at a boundary: of what a handler wants sent, the rest does not leave.
pub struct Stopping {
    stop: Option<(Boundary, Stop)>,
    log: Log,
    stopped_at: Option<Instant>,
    held: Vec<Outgoing<Message>>,
}

impl Stopping {
    fn new(stop: Option<(Boundary, Stop)>) -> Stopping {
        Stopping { stop, log: Log::default(), stopped_at: None, held: Vec::new() }
    }

    fn is_dead(&self) -> bool {
        self.stopped_at.is_some() && matches!(self.stop, Some((_, Stop::Crash)))
    }

    /// True while the driver does not know yet that the node pauses.
    fn is_stopping(&self, now: Instant) -> bool {
        self.stopped_at == Some(now)
    }

    fn is_boundary(&self, boundary: Boundary) -> bool {
        self.stopped_at.is_none() && self.stop.is_some_and(|(wanted, _)| wanted == boundary)
    }
}

/// The leader's control messages count from the trigger on.
fn counts<P: Host>(cx: &Context<'_, P>, message: &Message) -> bool {
    cx.node == LEADER && cx.now >= Instant::ZERO + TRIGGER && is_control(message)
}

impl<P: Host> Tamper<P> for Stopping {
    fn starts(&mut self, _: &mut P, _: &mut Context<'_, P>) -> bool {
        !self.is_dead()
    }

    fn admits(
        &mut self,
        _: &mut P,
        cx: &mut Context<'_, P>,
        from: NodeId,
        message: &mut Message,
    ) -> usize {
        if counts(cx, message) && !self.is_dead() {
            if self.is_boundary(Boundary::Handled(self.log.handled.len())) {
                self.stopped_at = Some(cx.now);
            }
            self.log.handled.push(format!("{} from {from}: {message}", cx.now));
        }
        // Before a pause the message is handled, and its answers wait; before a crash it is lost.
        usize::from(!self.is_dead())
    }

    fn fires(&mut self, _: &mut P, _: &mut Context<'_, P>, _: P::Timer) -> bool {
        !self.is_dead()
    }

    fn commands(&mut self, _: &mut P, _: &mut Context<'_, P>, _: &mut Command) -> bool {
        !self.is_dead()
    }

    fn hears(&self) -> bool {
        !self.is_dead()
    }

    /// The application gets its events before any message leaves: the strictest order for a node
    /// that stops in between.
    fn tamper(&mut self, _: &mut P, cx: &mut Context<'_, P>) {
        let mut sends = std::mem::take(&mut self.held);
        sends.append(&mut cx.outbox.sends);
        if self.is_stopping(cx.now) {
            self.held = sends;
            return;
        }
        let mut sends = sends.into_iter();
        for send in sends.by_ref() {
            if counts(cx, &send.message) {
                if self.is_boundary(Boundary::Sent(self.log.sent.len())) {
                    self.stopped_at = Some(cx.now);
                    self.held.push(send);
                    break;
                }
                self.log.sent.push(format!("{} to {}: {}", cx.now, send.to, send.message));
            }
            cx.outbox.sends.push(send);
        }
        self.held.extend(sends);
    }
}

/// A node that may stop.
type Node<P> = Wrapped<P>;

/// The part of it that stops it.
fn stopping<P: Host>(node: &Node<P>) -> &Stopping {
    node.tamper().expect("each node has one")
}

/// Ends `run_until` when the leader has stopped, and notes who is excluded.
#[derive(Default)]
struct Watch {
    has_stopped: bool,
    excluded: Vec<NodeId>,
}

impl<P: Host> Observer<Node<P>> for Watch {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<Node<P>>) {
        if *event == Event::Excluded {
            self.excluded.push(node);
        }
    }

    fn after_call(
        &mut self,
        _: Instant,
        node: NodeId,
        protocol: &Node<P>,
        reply: &mut Reply<Node<P>>,
    ) {
        if node == LEADER && !self.has_stopped && stopping(protocol).stopped_at.is_some() {
            self.has_stopped = true;
            reply.stop();
        }
    }
}

impl Case {
    /// A group of five on a slow and jittery network, all sending before, in and after the change.
    fn scenario(&self) -> Scenario {
        let nodes = if self.trigger == Trigger::Join { MEMBERS + 1 } else { MEMBERS };
        let mut scenario = Scenario::new(self.seed, nodes);
        scenario.network.link.jitter = Duration::from_micros(300);
        // The joiner comes with the trigger.
        scenario.acts.truncate(MEMBERS as usize);
        let mut rng = Rng::new(self.seed, 0xb0);
        for node in (0..MEMBERS).map(NodeId::from) {
            for number in 0..120 {
                let bytes = [12, 1000, 6000][rng.below(3) as usize];
                let when = 2500 + u64::from(rng.below(2000));
                scenario
                    .acts
                    .push((at(when), super::Act::Command(node, message(node, number, bytes))));
            }
        }
        scenario
    }

    fn trigger<P: Host>(&self, sim: &mut Sim<'_, Node<P>>) {
        let when = Instant::ZERO + TRIGGER;
        match self.trigger {
            Trigger::Crash => sim.fault_at(when, Fault::Crash(OTHER)),
            Trigger::Join => sim.command_at(when, JOINER, join(0..MEMBERS)),
            Trigger::Leave => sim.command_at(when, OTHER, MembershipCommand::Leave.into()),
            Trigger::LeaderLeaves => sim.command_at(when, LEADER, MembershipCommand::Leave.into()),
        }
    }

    /// By then the change is over, if the leader lives. A crash has to be detected first.
    fn changed(&self) -> Instant {
        let takes = if self.trigger == Trigger::Crash { 1500 } else { 250 };
        Instant::ZERO + TRIGGER + Duration::from_millis(takes)
    }

    /// Who shall be in the view in the end.
    fn wanted(&self) -> Vec<NodeId> {
        let is_gone = |node: &NodeId| match self.trigger {
            _ if *node == LEADER => {
                self.trigger == Trigger::LeaderLeaves || matches!(self.stop, Some((_, Stop::Crash)))
            }
            Trigger::Crash | Trigger::Leave => *node == OTHER,
            Trigger::Join | Trigger::LeaderLeaves => false,
        };
        let nodes = if self.trigger == Trigger::Join { MEMBERS + 1 } else { MEMBERS };
        (0..nodes).map(NodeId::from).filter(|node| !is_gone(node)).collect()
    }

    /// Runs the case with nodes made by `make`; an error begins with the rule that was broken.
    pub fn run<P: Host + 'static>(
        self,
        mut make: impl FnMut(NodeId, &Config) -> P + 'static,
    ) -> Result<Ran, String> {
        let scenario = self.scenario();
        let mut config = SimConfig::new(scenario.nodes as usize, self.seed);
        config.network = scenario.network.clone();
        config.faults = FaultSupport::Any;
        let shared = scenario.config.clone();
        let make = move |node| {
            let stopping = Stopping::new(self.stop.filter(|_| node == LEADER));
            Wrapped::new(make(node, &shared), Some(stopping))
        };
        let mut sim = Sim::new(config, Arc::new(scenario.config.clone()), make);
        for (when, act) in &scenario.acts {
            match act.clone() {
                super::Act::Command(node, command) => sim.command_at(*when, node, command),
                super::Act::Fault(fault) => sim.fault_at(*when, fault),
            }
        }
        self.trigger(&mut sim);
        let ledger = GroupLedger::new(&scenario.config);
        let mut observers = (ledger, (Application::new(self.seed), Watch::default()));
        let broken = |ledger: &GroupLedger| match ledger.violation() {
            Some(violation) => Err(format!("{violation}\n{self}")),
            None => Ok(()),
        };
        sim.run_until(self.changed(), &mut observers);
        broken(&observers.0)?;
        let leader = stopping(sim.node(LEADER));
        let (log, stopped_at) = (leader.log.clone(), leader.stopped_at);
        match self.stop {
            None => {}
            Some(_) if stopped_at.is_none() => return Err(format!("never stopped\n{self}")),
            Some((_, Stop::Crash)) => sim.fault_at(sim.now(), Fault::Crash(LEADER)),
            Some((_, Stop::Pause(time))) => sim.fault_at(sim.now(), Fault::Pause(LEADER, time)),
        }
        let wanted = self.wanted();
        let begun = sim.now();
        let mut converged_at = None;
        let mut until = begun;
        while until < begun + HEAL {
            until += Duration::from_millis(50);
            sim.run_until(until, &mut observers);
            broken(&observers.0)?;
            let views: Vec<_> = wanted.iter().map(|&node| sim.node(node).group()).collect();
            let is_one = views
                .iter()
                .all(|group| group.view() == views[0].view() && group.view().len() == wanted.len());
            if !is_one {
                converged_at = None;
            } else if converged_at.is_none() {
                converged_at = Some(until);
            }
        }
        let (ledger, (_, watch)) = &observers;
        ledger.check_converged(&sim, &wanted).map_err(|broken| format!("{broken}\n{self}"))?;
        if self.trigger == Trigger::Leave && sim.node(OTHER).group().role() != Role::Outside {
            return Err(format!("{OTHER} did not get away\n{self}"));
        }
        Ok(Ran {
            log,
            view: sim.node(wanted[0]).group().view().id(),
            converged_after: converged_at.expect("one view").since(begun),
            excluded: watch.excluded.clone(),
        })
    }
}

/// Every boundary of a run in which nothing stopped.
pub fn boundaries(log: &Log) -> Vec<Boundary> {
    let sent = (0..log.sent.len()).map(Boundary::Sent);
    sent.chain((0..log.handled.len()).map(Boundary::Handled)).collect()
}
