//! `paceline bench broadcast`: a process for each member, on loopback or in a network lab of
//! namespaces with shaped ports. Alone, or in pairs of runs beside another implementation.

mod comparison;
mod jgroups;
mod peer;

use std::path::Path;
use std::time::Duration;

use paceline_lab::machine::load_average;
use paceline_lab::scenario::{Rate, Scenario};
use paceline_lab::world::{Launch, Outcome, Sockets, Trial, Workload, node_command, run_processes};
use paceline_lab::{LabError, Progress};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::chain::Broadcast;
use paceline_lab_services::group::GroupScenario;
use paceline_netlab::Plan as LabPlan;
use paceline_proto::chain::Topology;
use paceline_proto::core::NodeId;
use serde::Serialize;

use crate::netns;

pub use comparison::{BroadcastComparison, Peer, compare};
pub use peer::PeerRow;

/// How members know each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// Members of a fixed roster, without joins and leaves.
    #[default]
    Fixed,
    /// They join a group, watch each other, and would agree on another view.
    Group,
}

/// Where the members run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On loopback; nothing is shaped.
    Loopback,
    /// Each in a network namespace of its own behind a port of this rate. Linux, root.
    Netns(Rate),
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    /// Members, 2 to 64.
    pub nodes: u32,
    /// How they know each other.
    pub membership: Membership,
    /// Where.
    pub place: Place,
    /// The nodes that send, in the form of the scenarios' key `senders`: `"all"`, `2`, `[0, 2]`.
    pub senders: String,
    /// The nodes that send a message each 100 ms, in the same form; `None` for no node.
    pub quiet: Option<String>,
    /// How; `None` lets the planner choose.
    pub topology: Option<Topology>,
    /// Bytes of a message. Default 8,000.
    pub message_bytes: usize,
    /// Measured time; a second of warm-up comes before.
    pub duration: Duration,
    /// SO_SNDBUF and SO_RCVBUF, if not the kernel's choice.
    pub socket_buffer_bytes: Option<u32>,
    /// Overrides of the scenario: `protocol.hop_bytes=64KiB`.
    pub sets: Vec<String>,
}

/// What was measured. Latencies are from acceptance to each remote delivery.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRow {
    /// Members.
    pub nodes: u32,
    /// `fixed` or `group`.
    pub membership: &'static str,
    /// Rate of each port; null on loopback.
    pub rate_mbit: Option<f64>,
    /// `one`, `all`, `k2` for two neighbours, `all-but-one`, `at-0-2`.
    pub senders: String,
    /// The topology's name, or `auto`.
    pub topology: &'static str,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Seconds measured: fewer than planned if the user stopped it.
    pub seconds: f64,
    /// Megabytes that a member delivered in a second, own included: the mean over members.
    pub mb_per_node_per_s: f64,
    /// The most that the links carry; null on loopback.
    pub limit_mb_per_node_per_s: Option<f64>,
    /// Measured over limit.
    pub limit_share: Option<f64>,
    /// Median latency.
    pub p50_ms: f64,
    /// 99th percentile of the latency.
    pub p99_ms: f64,
    /// 99th percentile of the latency of messages of quiet members; null without any.
    pub quiet_p99_ms: Option<f64>,
    /// Messages of quiet members that reached all.
    pub quiet_messages: u64,
    /// Processor seconds of all members for each gigabyte that all of them together delivered.
    pub cpu_s_per_gb: f64,
    /// Most over fewest messages that two senders got through to all; null with one sender. A
    /// sender that got none through counts as one message.
    pub fairness: Option<f64>,
    /// Senders that got no message through to all.
    pub starved: Vec<u64>,
    /// Messages lost or damaged: always 0, or the run failed.
    pub faults: u64,
    /// Seconds in which some member delivered nothing.
    pub seconds_without_progress: u64,
    /// Load average of the last minute when the run ended.
    pub load: f64,
}

/// Warm-up before the measured time: connections, windows, TCP's slow start.
const WARMUP: Duration = Duration::from_secs(1);
/// Until the members of a group have joined.
const JOINING: Duration = Duration::from_secs(1);

/// Runs one bench; `program` is this program, started again as `program node --control`.
pub fn run(
    plan: &BenchPlan,
    program: &Path,
    progress: &dyn Progress,
) -> Result<BenchRow, LabError> {
    let scenario = scenario(plan)?;
    match plan.membership {
        Membership::Fixed => {
            let mut broadcast = Broadcast::read(&scenario)?;
            let outcome = measure(plan, &mut broadcast, &scenario, program, progress)?;
            row(plan, &broadcast, &outcome)
        }
        Membership::Group => {
            let mut members = GroupScenario::read(&scenario)?;
            let outcome = measure(plan, &mut members, &scenario, program, progress)?;
            let ledger = members.broadcast().ledger();
            let all = ledger.nodes().iter().all(|node| {
                node.views.last().is_some_and(|view| view.members.len() == plan.nodes as usize)
            });
            if !all || ledger.nodes().iter().any(|node| node.excluded > 0) {
                return Err(LabError::Run(
                    "a member was excluded, or missing from the last view".to_owned(),
                ));
            }
            row(plan, members.broadcast(), &outcome)
        }
    }
}

/// The plan's broadcast as its scenario has it, not run.
fn with_broadcast<T>(plan: &BenchPlan, read: impl FnOnce(&Broadcast) -> T) -> Result<T, LabError> {
    let scenario = scenario(plan)?;
    Ok(match plan.membership {
        Membership::Fixed => read(&Broadcast::read(&scenario)?),
        Membership::Group => read(GroupScenario::read(&scenario)?.broadcast()),
    })
}

fn measure(
    plan: &BenchPlan,
    service: &mut dyn Workload,
    scenario: &Scenario,
    program: &Path,
    progress: &dyn Progress,
) -> Result<Outcome, LabError> {
    let trial = Trial { progress, ..Trial::simulated(scenario, 1) };
    let buffer_bytes = plan.socket_buffer_bytes;
    match plan.place {
        Place::Loopback => {
            let command = |_| node_command(program);
            let sockets = |_| Sockets { buffer_bytes, ..Sockets::default() };
            let launch = Launch { command: &command, sockets: &sockets };
            run_processes(service, &trial, &launch)
        }
        Place::Netns(rate) => {
            let lab = LabPlan::new(plan.nodes as usize, rate.bits_per_second());
            let lab = netns::build(lab, progress)?;
            let command = |node: NodeId| lab.command_in(node.index(), node_command(program));
            let sockets = |node: NodeId| {
                let bind = netns::bind(&lab, node);
                Sockets { bind, buffer_bytes, ..Sockets::default() }
            };
            let launch = Launch { command: &command, sockets: &sockets };
            run_processes(service, &trial, &launch)
        }
    }
}

/// The bench as a scenario.
fn scenario(plan: &BenchPlan) -> Result<Scenario, LabError> {
    let topology = plan.topology.map_or("auto", Topology::name);
    let senders = &plan.senders;
    let quiet = plan.quiet.as_ref().map_or(String::new(), |quiet| format!("quiet = {quiet}\n"));
    let (nodes, size) = (plan.nodes, plan.message_bytes);
    let (kind, start) = match plan.membership {
        Membership::Fixed => ("chain", Duration::ZERO),
        Membership::Group => ("group", JOINING),
    };
    let duration_ms = (start + WARMUP + plan.duration).as_millis();
    let warmup_ms = (start + WARMUP).as_millis();
    let start_ms = start.as_millis();
    let text = format!(
        "name = \"bench/broadcast\"\nduration = \"{duration_ms}ms\"\n\
         [topology]\nnodes = {nodes}\n\
         [protocol]\nkind = \"{kind}\"\ntopology = \"{topology}\"\n\
         [workload]\nsenders = {senders}\nsize = \"{size}B\"\nstart = \"{start_ms}ms\"\n{quiet}\
         [measure]\nwarmup = \"{warmup_ms}ms\"\n"
    );
    CATALOG.parse("bench broadcast", &text)?.with_sets(&plan.sets)?.resolve()
}

fn row(plan: &BenchPlan, broadcast: &Broadcast, outcome: &Outcome) -> Result<BenchRow, LabError> {
    let ledger = broadcast.ledger();
    let rate = match plan.place {
        Place::Loopback => None,
        Place::Netns(rate) => Some(rate),
    };
    let measured_for = plan.duration.min(outcome.ended - broadcast.plan().window.from);
    if outcome.is_stopped && measured_for.is_zero() {
        return Err(LabError::StoppedEarly);
    }
    let bytes: u64 =
        ledger.nodes().iter().flat_map(|node| node.received.values()).map(|r| r.bytes).sum();
    if bytes == 0 {
        return Err(LabError::Run("no message was delivered".to_owned()));
    }
    // The run ends while messages are on their way: these are not missing. Damage is damage.
    let (_, damaged) = ledger.faults();
    if damaged > 0 {
        return Err(LabError::Run(format!("{damaged} messages were damaged or out of order")));
    }
    let measured = ledger.bytes_per_node_per_second(outcome.ended) / 1e6;
    let limit = rate.map(|rate| {
        let lab = LabPlan::new(plan.nodes as usize, rate.bits_per_second());
        broadcast.limit(lab.limit_mb())
    });
    let cpu = outcome.cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64());
    let ms = |quantile: f64| ledger.latency().value_at_quantile(quantile) as f64 / 1e6;
    let quiet = ledger.quiet_latency().filter(|latency| !latency.is_empty());
    Ok(BenchRow {
        nodes: plan.nodes,
        membership: match plan.membership {
            Membership::Fixed => "fixed",
            Membership::Group => "group",
        },
        rate_mbit: rate.map(|rate| rate.bits_per_second() as f64 / 1e6),
        senders: broadcast.plan().senders.name(plan.nodes),
        topology: plan.topology.map_or("auto", Topology::name),
        message_bytes: plan.message_bytes,
        seconds: measured_for.as_secs_f64(),
        mb_per_node_per_s: measured,
        limit_mb_per_node_per_s: limit,
        limit_share: limit.map(|limit| measured / limit),
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        quiet_p99_ms: quiet.map(|latency| latency.value_at_quantile(0.99) as f64 / 1e6),
        quiet_messages: ledger.quiet_messages(),
        cpu_s_per_gb: cpu / (bytes as f64 / 1e9),
        fairness: (broadcast.saturating_nodes().len() > 1).then(|| ledger.fairness()),
        starved: ledger.starved().iter().map(|node| node.0).collect(),
        faults: damaged,
        seconds_without_progress: ledger.seconds_without_progress(outcome.ended),
        load: load_average().map_or(f64::NAN, |load| load[0]),
    })
}
