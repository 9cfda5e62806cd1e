//! How a group behaves when members join, leave and crash, compared with reports by users of
//! another system.

use std::time::Duration;

use paceline_lab::experiment::Experiment;
use paceline_lab::figure::{Figure, Scale, Settings};
use paceline_lab::scenario::{Fault, Scenario};
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};
use paceline_proto::core::Instant;

use super::measured::Measured;
use super::{GroupScenario, Measure};
use crate::catalog::CATALOG;
use crate::chain::NodeLedger;

/// From a crash until the others notice, at most, by default.
const DETECTION_S_MAX: f64 = 1.5;
/// From then until they go on.
const REPAIR_S_MAX: f64 = 0.2;
/// Until many nodes that ask at once are members.
const JOIN_S_MAX: f64 = 10.0;
/// Until a group is whole after a partition.
const HEAL_S_MAX: f64 = 5.0;

/// The figures that a scenario asks for.
pub(super) fn figures(scenario: &Scenario, measured: &Measured) -> Vec<Figure> {
    let name = &scenario.name;
    let time = |what: &str, seconds: f64, at_most: f64| {
        Figure::new(format!("{name}/{what}-s"), seconds, "s").with_band(0.0, at_most)
    };
    let stall_max = DETECTION_S_MAX + REPAIR_S_MAX;
    let first = match measured.members.measure() {
        Measure::Deliveries => return Vec::new(),
        Measure::Stall => {
            let silence = measured.ledger().attendants().map(|node| node.silence_nanos_max).max();
            let longest = silence.map(|nanos| nanos.max(measured.ledger().latency().max()));
            let longest = longest.map_or(f64::NAN, |nanos| nanos as f64 / 1e9);
            time("stall", longest, stall_max).with_note(
                "the longest latency of a message or gap between deliveries at a surviving member; \
                 at most 1.5 s to detect the crash and 0.2 s to repair",
            )
        }
        Measure::Joining => time("join", joined_after(scenario, measured), JOIN_S_MAX)
            .with_note("from the first request until all members are in one view"),
        Measure::Healing => time("heal", healed_after(scenario, measured), HEAL_S_MAX).with_note(
            "from the end of the partition until all members are in one view; users of JGroups \
             report 48 to 101",
        ),
        Measure::Repair => time("repair", repaired_after(scenario, measured), stall_max).with_note(
            "from the crash until every other member has the message that was in flight",
        ),
    };
    let (missing, damaged) = measured.ledger().faults();
    let (lost, note) = match measured.members.broadcast().plan().messages {
        Some(_) => (
            missing + damaged,
            "accepted from a surviving member, and lost, duplicated or out of order at another \
             surviving member",
        ),
        // What was not delivered at the end was on its way.
        None => (damaged, "delivered twice, out of order or altered"),
    };
    let lost = Figure::new(format!("{name}/lost"), lost as f64, "messages");
    vec![first, lost.with_band(0.0, 0.0).with_note(note)]
}

fn crash_at(scenario: &Scenario) -> Option<Instant> {
    let crash = scenario.faults.iter().find(|fault| matches!(fault.fault, Fault::Crash(_)));
    crash.map(|fault| Instant::ZERO + fault.at)
}

/// When the node first installed a view of this size after this time.
fn whole_at(node: &NodeLedger, members: usize, after: Instant) -> f64 {
    let views = node.views.iter().filter(|view| view.at_nanos >= after.as_nanos());
    let whole = views.filter(|view| view.members.len() == members).map(|view| view.at_nanos);
    whole.min().map_or(f64::NAN, |nanos| Instant::from_nanos(nanos).as_secs_f64())
}

/// The largest, or NaN if one is.
fn latest(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(0.0, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
}

fn joined_after(scenario: &Scenario, measured: &Measured) -> f64 {
    let count = scenario.topology.nodes as usize;
    let nodes = measured.ledger().nodes().iter();
    let whole = latest(nodes.map(|node| whole_at(node, count, Instant::ZERO)));
    whole - measured.members.join_after.as_secs_f64()
}

fn healed_after(scenario: &Scenario, measured: &Measured) -> f64 {
    let ends = |fault: &Fault| matches!(fault, Fault::Heal | Fault::Resume(_));
    let heals = scenario.faults.iter().filter(|fault| ends(&fault.fault));
    let healed = Instant::ZERO + heals.map(|fault| fault.at).max().unwrap_or(Duration::ZERO);
    let count = scenario.topology.nodes as usize;
    let nodes = measured.ledger().nodes().iter();
    // A node that kept the complete view counts as healed at once.
    let whole = latest(nodes.map(|node| match node.views.last() {
        Some(last) if last.members.len() == count && last.at_nanos < healed.as_nanos() => {
            healed.as_secs_f64()
        }
        _ => whole_at(node, count, healed),
    }));
    whole - healed.as_secs_f64()
}

fn repaired_after(scenario: &Scenario, measured: &Measured) -> f64 {
    let Some(crash) = crash_at(scenario) else { return f64::NAN };
    let first = |node: &NodeLedger| {
        node.first_nanos.map_or(f64::NAN, |nanos| Instant::from_nanos(nanos).as_secs_f64())
    };
    latest(measured.ledger().attendants().map(first)) - crash.as_secs_f64()
}

/// The scenarios behind the figures, those that run at both scales first.
pub(super) const SCENARIOS: [&str; 8] = [
    "group/drop-out",
    "group/origin-dies",
    "group/leader-killed",
    "group/join-storm",
    "group/partition-3-1",
    "group/partition-2-2",
    "group/rolling-restart",
    "group/paused",
];

pub(super) fn reproduce(
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    progress.start(SCENARIOS.len() as u64, "group");
    for name in SCENARIOS {
        if progress.stopped() {
            break;
        }
        let file = CATALOG.load(name)?.with_sets(&settings.sets)?;
        let scenario = file.resolve()?;
        let seed = settings.seed.unwrap_or(scenario.seed);
        let result = GroupScenario::run(&Trial::simulated(&scenario, seed))?;
        let note = |figure: Figure| match settings.scale {
            // They take less than a second in all.
            Scale::Quick => {
                let note = format!("{}; at full size also in quick runs", figure.note);
                figure.with_note(note)
            }
            Scale::Full => figure,
        };
        figures.extend(result.figures.into_iter().map(note));
        progress.inc(1);
    }
    progress.finish();
    Ok(figures)
}
