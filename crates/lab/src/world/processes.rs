//! A scenario on real sockets with a process for each node: the parent's side.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_proto::core::{Counters, Instant, NodeId};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::child::{Line, Process};
use super::control::{FromChild, ToChild};
use super::counters::add_named;
use super::sockets::{LOOK_EVERY, Sockets, runtime};
use super::{Outcome, Parts, Trial, Workload};
use crate::LabError;
use crate::progress::{Progress, Seconds};
use crate::scenario::{Fault, Scenario};

/// How long the children may take to bind, start, or hand in what they noted.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How long they may take to hand it in once the user asked to stop.
const HAND_IN_WITHIN_ONCE_STOPPED: Duration = Duration::from_secs(3);
/// From the order to go until the run begins: time for it to reach every child.
const GO_AFTER: Duration = Duration::from_millis(50);
/// The most processes of one run.
const NODES_MAX: u32 = 64;

/// How the processes of a run are started, and where they listen.
pub struct Launch<'a> {
    /// The command that becomes the node: `paceline node --control`, wherever it shall run.
    pub command: &'a dyn Fn(NodeId) -> std::process::Command,
    /// The node's sockets.
    pub sockets: &'a dyn Fn(NodeId) -> Sockets,
}

/// Runs a service with a process for each node.
///
/// A crash in the scenario is a SIGKILL, and a restart another process at the same address; what
/// the one before it noted is lost. One that ends otherwise fails the run, with its last lines of
/// standard error. Once the user asks to stop, what was noted until then is collected. No process
/// outlives the call.
pub fn run_processes(
    service: &mut dyn Workload,
    trial: &Trial<'_>,
    launch: &Launch<'_>,
) -> Result<Outcome, LabError> {
    let nodes = trial.scenario.topology.nodes;
    if nodes > NODES_MAX {
        let problem = format!("{nodes} processes, at most {NODES_MAX}");
        return Err(LabError::Unsupported(problem));
    }
    runtime()?.block_on(async {
        let mut processes = Processes::new(trial, launch);
        let ran = processes.run(service).await;
        processes.end().await;
        ran
    })
}

/// The processes of a run.
struct Processes<'a> {
    scenario: &'a Scenario,
    seed: u64,
    launch: &'a Launch<'a>,
    // Where the nodes listen, since all are bound.
    roster: Vec<(u64, SocketAddr)>,
    // By node.
    all: Vec<Process>,
    // Those that still have to hand in what they noted: not crashed, not finished.
    alive: BTreeSet<NodeId>,
    sender: mpsc::UnboundedSender<Line>,
    lines: mpsc::UnboundedReceiver<Line>,
    // Of other processes, read while one was heard out.
    held: VecDeque<Line>,
    progress: &'a dyn Progress,
}

impl<'a> Processes<'a> {
    fn new(trial: &Trial<'a>, launch: &'a Launch<'a>) -> Processes<'a> {
        let (sender, lines) = mpsc::unbounded_channel();
        let Trial { scenario, seed, progress, .. } = *trial;
        Processes {
            scenario,
            seed,
            launch,
            roster: Vec::new(),
            all: Vec::new(),
            alive: BTreeSet::new(),
            sender,
            lines,
            held: VecDeque::new(),
            progress,
        }
    }

    async fn run(&mut self, service: &mut dyn Workload) -> Result<Outcome, LabError> {
        let prepared = self.prepare().await;
        if self.progress.stopped() {
            // Ctrl-C reaches the children as well, and may find one that does not heed it yet.
            return Err(LabError::StoppedEarly);
        }
        prepared?;
        let at = SystemTime::now() + GO_AFTER;
        let at_unix_nanos = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        self.order_all(|_| ToChild::Go { at_unix_nanos, is_again: false }).await?;
        let started = tokio::time::Instant::now() + GO_AFTER;
        let is_stopped = self.wait(started, at_unix_nanos).await?;
        let ended = Instant::ZERO + started.elapsed();
        let (counters, cpu) = self.collect(service.parts_mut()).await?;
        let cpu = Some(cpu);
        Ok(Outcome { is_stopped, ended, counters, cpu, ..Outcome::default() })
    }

    /// Starts a process for each node, and each node in its process.
    async fn prepare(&mut self) -> Result<(), LabError> {
        for node in (0..self.scenario.topology.nodes).map(NodeId::from) {
            let command = (self.launch.command)(node);
            self.all.push(Process::spawn(command, node, self.sender.clone())?);
            self.alive.insert(node);
        }
        let (scenario, seed, sockets) = (self.scenario, self.seed, self.launch.sockets);
        let text = scenario.to_toml();
        self.order_all(|node| to_prepare(scenario, &text, node, seed, sockets(node))).await?;
        let mut roster = Vec::new();
        self.answers(Duration::ZERO, |node, report| match report {
            FromChild::Bound { address } => {
                roster.push((node.0, address));
                Ok(Answer::Given)
            }
            other => Err(out_of_turn(&other)),
        })
        .await?;
        self.roster = roster;
        let roster = self.roster.clone();
        self.order_all(|_| ToChild::Start { roster: roster.clone() }).await?;
        self.answers(Duration::ZERO, |_, report| match report {
            FromChild::Started => Ok(Answer::Given),
            other => Err(out_of_turn(&other)),
        })
        .await
    }

    /// Waits until every process is done or the time is up, killing those that are to crash and
    /// starting others in their place. True if the user stopped it before.
    async fn wait(
        &mut self,
        started: tokio::time::Instant,
        at_unix_nanos: u64,
    ) -> Result<bool, LabError> {
        let scenario = self.scenario;
        let mut turns: VecDeque<(Duration, NodeId, Turn)> = VecDeque::new();
        for fault in &scenario.faults {
            let (nodes, turn) = match &fault.fault {
                Fault::Crash(nodes) => (nodes, Turn::Crash),
                Fault::Restart(nodes) => (nodes, Turn::Restart),
                _ => continue,
            };
            turns.extend(nodes.iter().map(|&node| (fault.at, node, turn)));
        }
        let mut waiting = self.alive.clone();
        let mut seconds = Seconds::start(self.progress, scenario.duration, &scenario.name);
        while !waiting.is_empty() && started.elapsed() < scenario.duration {
            if self.progress.stopped() {
                return Ok(true);
            }
            let elapsed = started.elapsed();
            seconds.reach(elapsed);
            // Faults are sorted by their time.
            while let Some(&(_, node, turn)) = turns.front().filter(|&&(at, ..)| at <= elapsed) {
                turns.pop_front();
                waiting.remove(&node);
                self.kill(node).await;
                if turn == Turn::Restart {
                    self.restart(node, at_unix_nanos, &mut waiting).await?;
                }
            }
            let next = turns.front().map_or(scenario.duration, |&(at, ..)| at);
            let at_most = LOOK_EVERY.min(next.saturating_sub(elapsed));
            match self.report(at_most).await? {
                Some((node, FromChild::Done)) => _ = waiting.remove(&node),
                Some((_, other)) => return Err(out_of_turn(&other)),
                None => {}
            }
        }
        Ok(false)
    }

    /// Kills a process, unless that was done before, and hears it out.
    async fn kill(&mut self, node: NodeId) {
        if !self.alive.remove(&node) {
            return;
        }
        self.all[node.index()].kill().await;
        while let Some((from, line)) = self.lines.recv().await {
            match line {
                None if from == node => return,
                _ if from == node => {}
                line => self.held.push_back((from, line)),
            }
        }
    }

    /// Starts another process in the place of one that is gone, at the same address.
    async fn restart(
        &mut self,
        node: NodeId,
        at_unix_nanos: u64,
        waiting: &mut BTreeSet<NodeId>,
    ) -> Result<(), LabError> {
        let command = (self.launch.command)(node);
        self.all[node.index()] = Process::spawn(command, node, self.sender.clone())?;
        self.alive.insert(node);
        let text = self.scenario.to_toml();
        let known = self.roster.iter().find(|&&(known, _)| known == node.0);
        let bind = known.expect("it was bound before").1;
        let sockets = Sockets { bind, ..(self.launch.sockets)(node) };
        let (roster, is_again) = (self.roster.clone(), true);
        for order in [
            to_prepare(self.scenario, &text, node, self.seed, sockets),
            ToChild::Start { roster },
            ToChild::Go { at_unix_nanos, is_again },
        ] {
            if !self.all[node.index()].order(&order).await {
                return Err(self.all[node.index()].exit_error().await);
            }
        }
        let asked = tokio::time::Instant::now();
        while asked.elapsed() < ANSWER_WITHIN && !self.progress.stopped() {
            match self.report(LOOK_EVERY).await? {
                Some((from, FromChild::Started)) if from == node => {
                    waiting.insert(node);
                    return Ok(());
                }
                Some((from, FromChild::Bound { .. })) if from == node => {}
                Some((from, FromChild::Done)) => _ = waiting.remove(&from),
                Some((_, other)) => return Err(out_of_turn(&other)),
                None => {}
            }
        }
        Err(LabError::Run(format!("the process of {node} does not restart")))
    }

    /// Takes in what each process noted and counted, and the processor time of all.
    async fn collect(&mut self, parts: &mut dyn Parts) -> Result<(Counters, Duration), LabError> {
        self.order_all(|_| ToChild::Finish).await?;
        let sets = self.scenario.catalog().counters;
        let mut counters = Counters::default();
        let mut cpu = Duration::ZERO;
        self.answers(HAND_IN_WITHIN_ONCE_STOPPED, |node, report| match report {
            FromChild::Finished { part, counters: counted, cpu: used } => {
                cpu += used;
                let imported = parts.import(node, part);
                imported.map_err(|error| LabError::Run(error.to_string()))?;
                add_named(&mut counters, sets, counted)?;
                Ok(Answer::Last)
            }
            FromChild::Done => Ok(Answer::Beside),
            other => Err(out_of_turn(&other)),
        })
        .await?;
        Ok((counters, cpu))
    }

    async fn order_all(&mut self, order: impl Fn(NodeId) -> ToChild) -> Result<(), LabError> {
        for &node in &self.alive {
            let process = &mut self.all[node.index()];
            if !process.order(&order(node)).await {
                return Err(process.exit_error().await);
            }
        }
        Ok(())
    }

    /// Reads an answer of each process; waits less for it once the user asked to stop.
    async fn answers(
        &mut self,
        within_once_stopped: Duration,
        mut read: impl FnMut(NodeId, FromChild) -> Result<Answer, LabError>,
    ) -> Result<(), LabError> {
        let asked = tokio::time::Instant::now();
        let mut waiting = self.alive.clone();
        while let Some(&next) = waiting.first() {
            let within = match self.progress.stopped() {
                true => within_once_stopped,
                false => ANSWER_WITHIN,
            };
            if asked.elapsed() > within {
                return Err(LabError::Run(format!("the process of {next} does not answer")));
            }
            let Some((node, report)) = self.report(LOOK_EVERY).await? else { continue };
            match read(node, report)? {
                Answer::Beside => continue,
                Answer::Given => {}
                Answer::Last => _ = self.alive.remove(&node),
            }
            waiting.remove(&node);
        }
        Ok(())
    }

    /// The next report of any process, or none within the time. That one ended is an error.
    async fn report(&mut self, at_most: Duration) -> Result<Option<(NodeId, FromChild)>, LabError> {
        let (node, line) = match self.held.pop_front() {
            Some(held) => held,
            None => match timeout(at_most, self.lines.recv()).await {
                Ok(line) => line.expect("this side holds a sender too"),
                Err(_) => return Ok(None),
            },
        };
        let failed = |why: String| LabError::Run(format!("the process of {node} {why}"));
        let Some(line) = line else {
            return match self.alive.contains(&node) {
                true => Err(self.all[node.index()].exit_error().await),
                false => Ok(None),
            };
        };
        match serde_json::from_str(&line) {
            Ok(FromChild::Failed { problem }) => Err(failed(format!("failed: {problem}"))),
            Ok(report) => Ok(Some((node, report))),
            Err(error) => Err(failed(format!("sent an invalid report ({error}): {line}"))),
        }
    }

    /// Leaves no process behind.
    async fn end(mut self) {
        self.all.iter_mut().for_each(Process::dismiss);
        for process in &mut self.all {
            process.wait_or_kill().await;
        }
    }
}

/// What happens to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It is killed.
    Crash,
    /// It is killed, unless it is gone, and another takes its place.
    Restart,
}

fn to_prepare(
    scenario: &Scenario,
    text: &str,
    node: NodeId,
    seed: u64,
    sockets: Sockets,
) -> ToChild {
    let (name, scenario) = (scenario.name.clone(), text.to_owned());
    ToChild::Prepare { name, scenario, node: node.0, seed, sockets }
}

/// What a report is to a question.
enum Answer {
    /// Something else.
    Beside,
    /// The answer.
    Given,
    /// The answer, after which the process ends.
    Last,
}

fn out_of_turn(report: &FromChild) -> LabError {
    LabError::Run(format!("report {report:?} out of sequence"))
}
