//! A scenario on real sockets with a process for each node: the parent's side.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_proto::core::{Counters, Instant, NodeId};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::control::{FromChild, ToChild};
use super::sockets::{Sockets, runtime};
use super::{Outcome, Service};
use crate::LabError;
use crate::progress::Progress;
use crate::scenario::{Fault, Scenario};

/// How long a child may take to bind, start, or hand in what it noted.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// From the order to go until the run begins: time for it to reach every child.
const GO_AFTER: Duration = Duration::from_millis(50);
/// The most processes of one run.
const NODES_MAX: u32 = 64;

struct Process {
    node: NodeId,
    child: Child,
    orders: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
    is_killed: bool,
}

impl Process {
    async fn order(&mut self, order: &ToChild) -> Result<(), LabError> {
        let mut line = serde_json::to_string(order).expect("an order has text keys only");
        line.push('\n');
        let written = self.orders.write_all(line.as_bytes()).await;
        written.map_err(|error| LabError::Run(format!("{} is gone: {error}", self.node)))
    }

    async fn report(&mut self) -> Result<FromChild, LabError> {
        let gone = |why: String| LabError::Run(format!("the process of {} {why}", self.node));
        let line = self.reports.next_line().await.map_err(|error| gone(error.to_string()))?;
        let line = line.ok_or_else(|| gone("ended early".to_owned()))?;
        match serde_json::from_str(&line).map_err(|error| gone(format!("said {line}: {error}")))? {
            FromChild::Failed { problem } => Err(gone(format!("failed: {problem}"))),
            report => Ok(report),
        }
    }

    async fn answer(&mut self) -> Result<FromChild, LabError> {
        let node = self.node;
        let late = |_| LabError::Run(format!("the process of {node} does not answer"));
        tokio::time::timeout(ANSWER_WITHIN, self.report()).await.map_err(late)?
    }
}

/// How the processes of a run are started, and where they listen.
pub struct Launch<'a> {
    /// The command that becomes the node: `paceline node --control`, wherever it shall run.
    pub command: &'a dyn Fn(NodeId) -> std::process::Command,
    /// The node's sockets.
    pub sockets: &'a dyn Fn(NodeId) -> Sockets,
}

/// Runs a service with a process for each node. A crash is a SIGKILL; a process that crashed does not come back in
/// this milestone, since the roster is fixed.
pub fn run_processes<S>(
    service: &S,
    scenario: &Arc<Scenario>,
    seed: u64,
    launch: &Launch<'_>,
    progress: &dyn Progress,
) -> Result<(S::Ledger, Outcome), LabError>
where
    S: Service,
{
    let nodes = scenario.topology.nodes;
    if nodes > NODES_MAX {
        let problem = format!("{nodes} processes, at most {NODES_MAX}");
        return Err(LabError::Unsupported(problem));
    }
    if scenario.faults.iter().any(|fault| matches!(fault.fault, Fault::Restart(_))) {
        let problem = "a restarted process cannot rejoin a fixed roster".to_owned();
        return Err(LabError::Unsupported(problem));
    }
    runtime()?.block_on(async {
        let mut ledger = service.ledger();
        let mut processes = Vec::new();
        for node in (0..nodes).map(NodeId) {
            processes.push(spawn(launch, node)?);
        }
        prepare(&mut processes, scenario, seed, launch).await?;
        let at = SystemTime::now() + GO_AFTER;
        let at_unix_nanos = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        for process in &mut processes {
            process.order(&ToChild::Go { at_unix_nanos }).await?;
        }
        let started = tokio::time::Instant::now() + GO_AFTER;
        wait(&mut processes, scenario, started, progress).await?;
        let ended = Instant::ZERO + started.elapsed();
        let mut counters = Counters::default();
        let mut seen: Vec<(String, u64)> = Vec::new();
        let mut cpu = Duration::ZERO;
        for process in processes.iter_mut().filter(|process| !process.is_killed) {
            process.order(&ToChild::Finish).await?;
            loop {
                match process.answer().await? {
                    FromChild::Finished { part, counters, cpu: used } => {
                        cpu += used;
                        let imported = service.import(&mut ledger, process.node, part);
                        imported.map_err(|error| LabError::Run(error.to_string()))?;
                        seen.extend(counters);
                        break;
                    }
                    FromChild::Done => {}
                    other => return Err(LabError::Run(format!("{other:?} out of turn"))),
                }
            }
            // It ends by itself; waiting for it leaves no zombie behind.
            let _ = process.child.wait().await;
        }
        for (name, n) in seen {
            counters.add(interned(name), n);
        }
        Ok((
            ledger,
            Outcome {
                is_stopped: false,
                ended,
                events: 0,
                digest: None,
                driver_bytes_per_node: None,
                counters,
                cpu: Some(cpu),
            },
        ))
    })
}

/// Counters are named by constants. A child's names come as text: each is kept once, for good.
fn interned(name: String) -> &'static str {
    use std::collections::BTreeSet;
    use std::sync::{Mutex, PoisonError};
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let kept: &'static str = Box::leak(name.into_boxed_str());
    names.insert(kept);
    kept
}

fn spawn(launch: &Launch<'_>, node: NodeId) -> Result<Process, LabError> {
    let command = (launch.command)(node);
    let program = command.get_program().to_owned();
    let mut command = Command::from(command);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let failed = |error| LabError::Run(format!("cannot start {}: {error}", program.display()));
    let mut child = child.map_err(failed)?;
    let orders = child.stdin.take().expect("standard input is piped");
    let reports = child.stdout.take().expect("standard output is piped");
    let reports = BufReader::new(reports).lines();
    Ok(Process { node, child, orders, reports, is_killed: false })
}

async fn prepare(
    processes: &mut [Process],
    scenario: &Scenario,
    seed: u64,
    launch: &Launch<'_>,
) -> Result<(), LabError> {
    let text = scenario.to_toml();
    let mut roster = Vec::new();
    for process in &mut *processes {
        let (name, scenario, node) = (scenario.name.clone(), text.clone(), process.node.0);
        let sockets = (launch.sockets)(process.node);
        process.order(&ToChild::Prepare { name, scenario, node, seed, sockets }).await?;
    }
    for process in &mut *processes {
        match process.answer().await? {
            FromChild::Bound { address } => roster.push((process.node.0, address)),
            other => return Err(LabError::Run(format!("{other:?} in place of an address"))),
        }
    }
    for process in &mut *processes {
        process.order(&ToChild::Start { roster: roster.clone() }).await?;
    }
    for process in processes {
        process.answer().await?;
    }
    Ok(())
}

/// Waits until every process is done or the time is up, killing those that are to crash.
async fn wait(
    processes: &mut [Process],
    scenario: &Scenario,
    started: tokio::time::Instant,
    progress: &dyn Progress,
) -> Result<(), LabError> {
    let mut crashes: Vec<(Duration, NodeId)> = Vec::new();
    for fault in &scenario.faults {
        if let Fault::Crash(nodes) = &fault.fault {
            crashes.extend(nodes.iter().map(|&node| (fault.at, node)));
        }
    }
    let mut waiting: Vec<usize> = (0..processes.len()).collect();
    let until = started + scenario.duration;
    while !waiting.is_empty() && tokio::time::Instant::now() < until && !progress.stopped() {
        while let Some(place) =
            crashes.iter().position(|&(at, _)| started + at <= tokio::time::Instant::now())
        {
            let (_, node) = crashes.swap_remove(place);
            let process = &mut processes[node.index()];
            process.is_killed = true;
            let _ = process.child.kill().await;
            waiting.retain(|&index| index != node.index());
        }
        let mut still = Vec::new();
        for &index in &waiting {
            let process = &mut processes[index];
            match tokio::time::timeout(Duration::from_millis(5), process.report()).await {
                Ok(Ok(FromChild::Done)) => {}
                Ok(Ok(other)) => return Err(LabError::Run(format!("{other:?} out of turn"))),
                Ok(Err(error)) => return Err(error),
                Err(_) => still.push(index),
            }
        }
        waiting = still;
    }
    Ok(())
}
