//! The bug planted for each promise of servers of walks is caught.
//!
//! Every node has the bug. `Sabotage` tampers with what goes into an honest server and what comes
//! out, or the server has another configuration than the ledger; scenarios are drawn as for the
//! seeds.

use crate::walk_swarm;

use std::sync::Arc;
use std::time::Duration;

use paceline_check::checkers::walk::Rule;
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{Context, NodeId};
use paceline_proto::walk::{
    Command, Config, Discipline, Event, Generation, Graph, Message, Owners, PacedConfig, Part,
    QueueConfig, Recovery, Server, Stop, Timer,
};
use walk_swarm::Scenario;

/// What nodes do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// Of the walkers of a message one never leaves.
    LoseWalker,
    /// What comes is thrown away now and then, and counted nowhere.
    IgnoreWalker,
    /// A message comes in twice.
    AdmitTwice,
    /// And leaves twice.
    SendTwice,
    /// Walks are reported twice.
    TellTwice,
    /// A walk is reported with an attempt that has not come home.
    TellAnother,
    /// A finished walk is reported as given up.
    FailAfterwards,
    /// Where others should not, they replace what gets lost.
    Replace,
    /// A vertex of a path is another one.
    AlterPath,
    /// A path ends a step early.
    ShortenPath,
    /// A walk that has all its steps ends in a dead end.
    ClaimDeadEnd,
    /// Servers take steps from whatever vertex.
    StepAnywhere,
    /// A walker that leaves draws other numbers from then on.
    DrawAnew,
    /// Servers take some edges for others.
    OtherEdge,
    /// Servers ignore deadlines.
    NeverMissed,
    /// Servers do no work.
    NeverWork,
    /// The application does not hear that a job has ended.
    KeepEnd,
    /// Nor that it was not begun.
    KeepRefusal,
    /// A walk is given up at its first loss.
    GiveUpEarly,
    /// A walk is restarted for ever.
    NeverGiveUp,
    /// A job goes on after it was cancelled.
    IgnoreCancel,
    /// The queue has no end.
    LongQueue,
    /// It drops what it should mark.
    DropMarked,
    /// It drops early.
    DropEarly,
    /// It never drops early.
    DropLate,
    /// Walkers wait for company for too long.
    WaitLong,
    /// More travel together than may.
    TravelTogether,
    /// More are under way, or done, than are consumed.
    ForgetCredits,
    /// More walks are under way than the job allows.
    ForgetLimit,
    /// A report is about more walks than were done.
    AddToReport,
    /// And about fewer walkers than were generated.
    HideAttempts,
    /// A timer is set again and again.
    RearmForEver,
}

/// Whatever a bug does, it does to each third of its chances.
const EACH: u64 = 3;

struct Sabotage {
    bug: Bug,
    chances: u64,
}

impl Sabotage {
    fn new(bug: Bug) -> Sabotage {
        Sabotage { bug, chances: 0 }
    }

    fn takes_chance(&mut self) -> bool {
        self.chances += 1;
        self.chances.is_multiple_of(EACH)
    }

    fn tamper_with_message(&mut self, message: &mut Message) {
        match (self.bug, message) {
            (Bug::LoseWalker, Message::Walkers { walkers, .. }) if walkers.len() > 1 => {
                walkers.pop();
            }
            (Bug::DrawAnew, Message::Walkers { walkers, .. }) => {
                walkers.iter_mut().for_each(|traveller| traveller.walker.state ^= 0x5555);
            }
            _ => {}
        }
    }

    fn tamper_with_event(&mut self, event: &mut Event) {
        match (self.bug, event) {
            (Bug::TellAnother, Event::Walks(_, walks)) => {
                walks.iter_mut().for_each(|walk| walk.attempts = walk.attempts.wrapping_add(1));
            }
            (Bug::AlterPath, Event::Walks(_, walks)) => {
                for walk in walks.iter_mut().filter(|walk| walk.path.len() > 1) {
                    walk.path[0] = (walk.path[0] + 1) % 3;
                }
            }
            (Bug::ShortenPath, Event::Walks(_, walks)) => {
                for walk in walks.iter_mut().filter(|walk| walk.path.len() > 1) {
                    walk.path.pop();
                    walk.steps -= 1;
                    walk.end = walk.path.last().copied().unwrap_or(walk.source);
                }
            }
            (Bug::ClaimDeadEnd, Event::Walks(_, walks)) => {
                walks.iter_mut().for_each(|walk| walk.stop = Stop::DeadEnd);
            }
            (Bug::AddToReport, Event::Ended(_, report, _)) => report.finished += 1,
            (Bug::HideAttempts, Event::Ended(_, report, _)) => {
                report.generated = report.generated.saturating_sub(1);
            }
            _ => {}
        }
    }
}

impl Tamper<Server> for Sabotage {
    fn admits(
        &mut self,
        _: &mut Server,
        _: &mut Context<'_, Server>,
        _: NodeId,
        message: &mut Message,
    ) -> usize {
        let goes_on = matches!(message, Message::Walkers { .. });
        match self.bug {
            Bug::IgnoreWalker if goes_on => usize::from(!self.takes_chance()),
            Bug::AdmitTwice if goes_on => 2,
            _ => 1,
        }
    }

    fn commands(
        &mut self,
        _: &mut Server,
        _: &mut Context<'_, Server>,
        command: &mut Command,
    ) -> bool {
        match command {
            Command::Run(job) if self.bug == Bug::ForgetLimit => job.in_flight_max = usize::MAX,
            Command::Cancel(_) => return self.bug != Bug::IgnoreCancel,
            _ => {}
        }
        true
    }

    fn fires(&mut self, _: &mut Server, _: &mut Context<'_, Server>, timer: Timer) -> bool {
        match self.bug {
            Bug::NeverMissed => timer != Timer::Deadline,
            Bug::NeverWork => timer != Timer::Work,
            _ => true,
        }
    }

    fn tamper(&mut self, _: &mut Server, cx: &mut Context<'_, Server>) {
        let outbox = &mut *cx.outbox;
        outbox.sends.iter_mut().for_each(|send| self.tamper_with_message(&mut send.message));
        outbox.events.iter_mut().for_each(|event| self.tamper_with_event(event));
        match self.bug {
            Bug::SendTwice => outbox.sends.extend(outbox.sends.clone()),
            Bug::TellTwice => outbox.events.extend(outbox.events.clone()),
            Bug::FailAfterwards => {
                let walks = outbox.events.iter().find_map(|event| match event {
                    Event::Walks(job, walks) => Some((*job, walks[0].walk)),
                    _ => None,
                });
                let is_last = matches!(outbox.events.last(), Some(Event::Ended(..)));
                if let Some((job, walk)) = walks.filter(|_| !is_last) {
                    outbox.events.push(Event::Failed(job, walk, 255));
                }
            }
            Bug::KeepEnd => outbox.events.retain(|event| !matches!(event, Event::Ended(..))),
            Bug::KeepRefusal => outbox.events.retain(|event| !matches!(event, Event::Refused(..))),
            Bug::RearmForEver => {
                outbox.timers.push((cx.now + Duration::from_millis(10), Timer::Generate));
            }
            _ => {}
        }
    }
}

/// The graph with an edge of each row taken for the one before it.
fn with_other_edges(scenario: &Scenario) -> Graph {
    let mut edges = scenario.edges.clone();
    for edge in (1..edges.len()).step_by(2) {
        let (before, after) = (edges[edge - 1], &mut edges[edge]);
        if before.0 == after.0 {
            after.1 = before.1;
        }
    }
    Scenario { edges, ..scenario.clone() }.graph()
}

/// What a node with the bug is set to.
fn missettings(config: &Config, bug: Bug) -> Config {
    let QueueConfig { limit, max_th, .. } = config.queue;
    let queue = match bug {
        Bug::LongQueue => QueueConfig { limit: limit * 10, ..config.queue },
        Bug::DropMarked if config.queue.discipline == Discipline::RedMark => {
            QueueConfig { discipline: Discipline::RedDrop, min_th: 0, max_th: 1, ..config.queue }
        }
        Bug::DropEarly => QueueConfig { min_th: 0, max_th: 1, max_p: 1.0, ..config.queue },
        Bug::DropLate => QueueConfig { min_th: max_th * 20, max_th: max_th * 40, ..config.queue },
        _ => config.queue,
    };
    let mut config = Config { queue, ..*config };
    match bug {
        Bug::GiveUpEarly => config.attempts_max = 1,
        Bug::NeverGiveUp => {
            config.attempts_max = 255;
            config.walk_time_max = Duration::from_secs(3_600);
        }
        Bug::WaitLong => config.bundle.deadline += Duration::from_millis(100),
        Bug::TravelTogether => config.bundle.walkers_max = 1_024,
        Bug::ForgetCredits => config.results_max = usize::MAX,
        Bug::Replace => {
            config.generation = Generation::Paced(PacedConfig {
                recovery: Recovery::Regenerate,
                ..PacedConfig::default()
            });
        }
        _ => {}
    }
    config
}

fn verdict(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let scenario = Scenario::draw(seed);
    let (_, owners, _) = scenario.world();
    let make = |node: NodeId, config: Config, part: Part| {
        let Some(bug) = bug else {
            return Wrapped::alone(Server::new(config, part).expect("possible"));
        };
        let part = match bug {
            Bug::OtherEdge => {
                let graph = Arc::new(with_other_edges(&scenario));
                Part::new(node, graph, owners.clone())
            }
            Bug::StepAnywhere => {
                let all = vec![0; scenario.vertices as usize];
                let own = Owners::new(vec![node], all).expect("all are its own");
                Part::new(node, Arc::new(scenario.graph()), Arc::new(own))
            }
            _ => part,
        };
        let server = Server::new(missettings(&config, bug), part).expect("possible");
        Wrapped::new(server, Some(Sabotage::new(bug)))
    };
    scenario.run_with(make).map(|_| ())
}

#[test]
fn every_planted_bug_is_caught_by_the_rule_it_was_planted_for() {
    let planted = [
        (Bug::LoseWalker, Rule::Conservation),
        (Bug::IgnoreWalker, Rule::Conservation),
        (Bug::AdmitTwice, Rule::Copies),
        (Bug::SendTwice, Rule::Copies),
        (Bug::TellTwice, Rule::Copies),
        (Bug::TellAnother, Rule::Copies),
        (Bug::FailAfterwards, Rule::Copies),
        (Bug::Replace, Rule::Copies),
        (Bug::AlterPath, Rule::Legality),
        (Bug::ShortenPath, Rule::Legality),
        (Bug::ClaimDeadEnd, Rule::Legality),
        (Bug::StepAnywhere, Rule::Legality),
        (Bug::DrawAnew, Rule::Reference),
        (Bug::OtherEdge, Rule::Reference),
        (Bug::NeverMissed, Rule::Completion),
        (Bug::NeverWork, Rule::Completion),
        (Bug::KeepEnd, Rule::Completion),
        (Bug::KeepRefusal, Rule::Completion),
        (Bug::GiveUpEarly, Rule::Completion),
        (Bug::NeverGiveUp, Rule::Completion),
        (Bug::IgnoreCancel, Rule::Completion),
        (Bug::LongQueue, Rule::Queue),
        (Bug::DropMarked, Rule::Queue),
        (Bug::DropEarly, Rule::Queue),
        (Bug::DropLate, Rule::Queue),
        (Bug::WaitLong, Rule::Bundle),
        (Bug::TravelTogether, Rule::Bundle),
        (Bug::ForgetCredits, Rule::Credits),
        (Bug::ForgetLimit, Rule::Credits),
        (Bug::AddToReport, Rule::Report),
        (Bug::HideAttempts, Rule::Report),
        (Bug::RearmForEver, Rule::Quiescence),
    ];
    seeds::catch_all(planted, verdict);
}
