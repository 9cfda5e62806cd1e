//! A node in a process of its own: `paceline node --control`.
//!
//! JSON lines. The parent writes [`ToChild`], the child [`FromChild`]: prepare, bound, start,
//! started, go, done, finish, finished. The child ends when its standard input does.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_net::Roster;
use paceline_proto::core::{Counters, NodeId};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::Start;
use super::application::{Application, SharedWorkload};
use super::counters::DATAGRAM_RECEIVE_BYTES;
use super::node::{Clock, Hosting};
use super::sockets::{Sockets, bind, noted_at, start};
use crate::LabError;
use crate::scenario::{Catalog, Scenario};

/// What the parent tells a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToChild {
    /// Which scenario, and which of its nodes.
    Prepare { name: String, scenario: String, node: u64, seed: u64, sockets: Sockets },
    /// Where all nodes are.
    Start { roster: Vec<(u64, SocketAddr)> },
    /// The run begins, or began, at this time, in nanoseconds since 1970.
    Go { at_unix_nanos: u64, is_again: bool },
    /// The run is over.
    Finish,
}

/// What a child tells its parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromChild {
    /// The sockets are bound.
    Bound { address: SocketAddr },
    /// The node runs.
    Started,
    /// The node has got every event that the plan expects.
    Done,
    /// What was noted, and counted.
    Finished { part: serde_json::Value, counters: Vec<(String, u64)>, cpu: Duration },
    /// It cannot be done.
    Failed { problem: String },
}

/// A node that its parent has given a scenario: which service it is, the scenario says.
pub struct Prepared {
    runtime: Runtime,
    orders: mpsc::UnboundedReceiver<String>,
    scenario: Scenario,
    node: NodeId,
    seed: u64,
    sockets: Sockets,
}

impl Prepared {
    /// Waits for the parent's first order, on standard input. `None` if the parent is gone. The
    /// scenario is of one of these services.
    pub fn by_parent(catalog: &'static Catalog) -> Result<Option<Prepared>, LabError> {
        // One node needs only one thread.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| LabError::Run(error.to_string()))?;
        let (lines, mut orders) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let prepared = runtime.block_on(async {
            match next_order(&mut orders).await? {
                Some(ToChild::Prepare { name, scenario, node, seed, sockets }) => {
                    let scenario = catalog.parse(&name, &scenario)?.resolve()?;
                    Ok(Some((scenario, NodeId(node), seed, sockets)))
                }
                Some(_) => Err(LabError::Run("an order out of sequence".to_owned())),
                None => Ok(None),
            }
        });
        let prepared = report_failure(prepared)?;
        Ok(prepared.map(|(scenario, node, seed, sockets)| Prepared {
            runtime,
            orders,
            scenario,
            node,
            seed,
            sockets,
        }))
    }

    /// What the parent runs.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The run's seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs the node as the parent says, and reports to it on standard output, also if the
    /// service could not be made.
    pub(super) fn serve(self, hosting: Result<Hosting, LabError>) -> Result<(), LabError> {
        let Prepared { runtime, mut orders, scenario, node, seed, sockets } = self;
        let served = hosting.and_then(|hosting| {
            runtime.block_on(serve(hosting, &scenario, node, seed, sockets, &mut orders))
        });
        report_failure(served)
    }
}

/// Reports an error to the parent.
fn report_failure<T>(result: Result<T, LabError>) -> Result<T, LabError> {
    if let Err(error) = &result {
        report(&FromChild::Failed { problem: error.to_string() });
    }
    result
}

async fn serve(
    hosting: Hosting,
    scenario: &Scenario,
    id: NodeId,
    seed: u64,
    sockets: Sockets,
    orders: &mut mpsc::UnboundedReceiver<String>,
) -> Result<(), LabError> {
    let bound = bind(&hosting, scenario, id, seed, &sockets)?;
    report(&FromChild::Bound { address: bound.local_addr() });

    let Some(ToChild::Start { roster }) = next_order(orders).await? else { return Ok(()) };
    let roster = Roster::new(roster.into_iter().map(|(id, address)| (NodeId(id), address)));
    let roster = roster.map_err(|error| LabError::Run(error.to_string()))?;
    let (node, events) = start(&hosting, scenario, bound, roster, id)?;
    report(&FromChild::Started);

    let Some(ToChild::Go { at_unix_nanos, is_again }) = next_order(orders).await? else {
        return Ok(());
    };
    let at = UNIX_EPOCH + Duration::from_nanos(at_unix_nanos);
    let now = (tokio::time::Instant::now(), SystemTime::now());
    let started = match at.duration_since(now.1) {
        Ok(ahead) => now.0 + ahead,
        Err(behind) => now.0 - behind.duration(),
    };
    let clock = Clock::starting_at(started);
    let cpu_before = crate::machine::process_cpu();
    let workload = Arc::new(SharedWorkload::new(hosting.service, clock));
    let start = if is_again { Start::Again } else { Start::First };
    let application = Application { workload: workload.clone(), id, node: node.clone(), start };
    application.spawn(events, scenario);
    let mut is_reported = false;
    let mut marks = workload.with(|service| service.marks()).into_iter().map(noted_at).peekable();
    // An earlier process at this place counted for itself.
    while is_again && marks.next_if(|&mark| mark < clock.now()).is_some() {
        workload.with(|service| service.note_mark(&Counters::default()));
    }
    let note_mark = || {
        let counters = node.counters();
        workload.with(|service| service.note_mark(&counters));
    };
    loop {
        let next_mark = marks.peek().copied();
        tokio::select! {
            () = clock.sleep_until(next_mark.unwrap_or_default()), if next_mark.is_some() => {
                marks.next();
                note_mark();
            }
            order = next_order(orders) => match order? {
                Some(ToChild::Finish) => break,
                Some(_) => return Err(LabError::Run("an order out of sequence".to_owned())),
                None => return Ok(()),
            },
            () = workload.progress.notified(), if !is_reported => {
                if workload.with(|service| service.is_done_at(id)) {
                    is_reported = true;
                    report(&FromChild::Done);
                }
            }
        }
    }
    // Marks that were not reached, so that the parts of all processes have as many.
    marks.for_each(|_| note_mark());
    let granted = (DATAGRAM_RECEIVE_BYTES.name(), node.datagram_receive_bytes() as u64);
    let counters = node.counters().sorted().into_iter().chain([granted]);
    let counters = counters.map(|(name, n)| (name.to_owned(), n)).collect();
    let part = workload.with(|service| service.parts().export(id));
    let cpu = crate::machine::process_cpu().saturating_sub(cpu_before);
    node.stop().await;
    report(&FromChild::Finished { part, counters, cpu });
    Ok(())
}

/// The parent's next order; none if it is gone.
async fn next_order(
    orders: &mut mpsc::UnboundedReceiver<String>,
) -> Result<Option<ToChild>, LabError> {
    let Some(line) = orders.recv().await else { return Ok(None) };
    let order = serde_json::from_str(&line);
    order.map(Some).map_err(|error| LabError::Run(format!("not an order: {error}: {line}")))
}

fn report(message: &FromChild) {
    let line = serde_json::to_string(message).expect("a report has text keys only");
    let mut out = std::io::stdout().lock();
    // An error means that the parent is gone.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
