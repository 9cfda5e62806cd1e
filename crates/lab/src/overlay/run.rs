use std::path::Path;
use std::sync::Arc;
use std::time::Instant as WallClock;

use paceline_sim::Codec;

use super::figures::{MESSAGES, Measured, figures};
use super::tree::Tree;
use super::{Action, Ledger, Measure, Requests, Settings, Tables, Tally};
use crate::LabError;
use crate::progress::Progress;
use crate::run::{Metric, RunResult, Sample};
use crate::scenario::Scenario;
use crate::world::{Outcome, Prepared, Simulated, run_on_loopback, simulate_traced};

/// Runs an overlay scenario in the simulator, and writes a trace of it to a file if there is one.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let requests = Requests::new(Settings::read_to_judge(scenario, seed)?);
    let started = WallClock::now();
    let settings = requests.settings();
    let codec = if settings.check_wire { Codec::CheckWire } else { Codec::Typed };
    let simulated = Simulated { scenario, seed, codec, trace };
    let mut tree = Tree::new(settings.config.space());
    let (ledger, outcome) = match settings.measure {
        Measure::Tree => simulate_traced(&requests, &simulated, &mut tree, progress)?,
        _ => simulate_traced(&requests, &simulated, &mut (), progress)?,
    };
    let mut result = result(settings, scenario, seed, &ledger, &outcome);
    if settings.measure == Measure::Tree {
        result.drawings = tree.drawings(&settings.plan, settings.config.ttl());
    }
    result.wall_s = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Runs an overlay scenario on loopback sockets: with a process for each node if there is a
/// program to start, else all in this one.
pub fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let settings = Settings::read(&scenario, seed)?;
    if settings.plan.tables == Tables::Ideal {
        let problem = "tables = \"ideal\" are filled in the simulator only";
        return Err(LabError::Unsupported(problem.to_owned()));
    }
    let requests = Arc::new(Requests::new(settings));
    let started = WallClock::now();
    let (ledger, outcome) = run_on_loopback(&requests, &scenario, seed, program, progress)?;
    let mut result = result(requests.settings(), &scenario, seed, &ledger, &outcome);
    result.wall_s = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Runs one node of an overlay scenario as a parent process says.
pub fn serve(prepared: Prepared) -> Result<(), LabError> {
    let settings = Settings::read(prepared.scenario(), prepared.seed());
    prepared.serve(settings.map(Requests::new))
}

/// Besides the messages of requests, what one phase counted of these is part of the series.
const COUNTED: [&str; 5] =
    ["overlay_ping", "overlay_pong", "overlay_lookups", "overlay_hops", "overlay_targets_ended"];

fn result(
    settings: &Settings,
    scenario: &Scenario,
    seed: u64,
    ledger: &Ledger,
    outcome: &Outcome,
) -> RunResult {
    let tallies = ledger.tallies();
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>() as f64;
    let (asked, told) = (sum(|tally| tally.asked), sum(Tally::told));
    let mut summary = vec![
        Metric::new("keys_asked", asked, ""),
        Metric::new("keys_done", sum(|tally| tally.done), ""),
        Metric::new("keys_absent", sum(|tally| tally.absent), ""),
        Metric::new("keys_wrong", sum(|tally| tally.wrong), ""),
        Metric::new("keys_failed", sum(|tally| tally.failed), ""),
        Metric::new("keys_unanswered", asked - told, ""),
        Metric::new("ended", outcome.ended.as_secs_f64(), "s"),
    ];
    for (number, (phase, tally)) in settings.plan.phases.iter().zip(tallies).enumerate() {
        let action = match phase.action {
            Action::Put => "put",
            Action::Get => "get",
            Action::Send => "send",
        };
        let rate = tally.done as f64 / tally.seconds();
        let name = format!("{number}_{action}_{}_rate", phase.grouping.name());
        summary.push(Metric::new(name, rate, "keys/s"));
    }
    if let Some(bytes) = outcome.driver_bytes_per_node {
        summary.push(Metric::new("driver_bytes_per_node", bytes, "B"));
    }
    if outcome.is_stopped {
        summary.push(Metric::new("stopped_early", 1.0, ""));
    }
    let counters = outcome.counters.sorted();
    summary.extend(counters.into_iter().map(|(name, n)| Metric::new(name, n as f64, "")));
    let mut series = Vec::new();
    for (number, phase) in settings.plan.phases.iter().enumerate() {
        for counter in MESSAGES.into_iter().chain(COUNTED) {
            let counted = ledger.counted(number, counter, &outcome.counters) as f64;
            series.push(Sample::overall(phase.begins.as_secs_f64(), counter, counted));
        }
    }
    let mut result = RunResult {
        summary,
        series,
        events: outcome.events,
        digest: outcome.digest.clone(),
        ..RunResult::default()
    };
    let measured = Measured { settings, ledger, counters: &outcome.counters };
    let figures = figures(&measured).into_iter();
    result.figures = figures.map(|f| f.with_run(&scenario.name, seed, &result)).collect();
    result
}

#[cfg(test)]
mod tests {
    use paceline_proto::overlay::Algorithm;

    use crate::progress::Quiet;
    use crate::scenario::ScenarioFile;

    use super::*;

    fn figures(sets: &[&str]) -> Vec<crate::figure::Figure> {
        let file = ScenarioFile::load("overlay/packets").unwrap().with_sets(sets).unwrap();
        run(&file.resolve().unwrap(), 1, None, &Quiet).unwrap().figures
    }

    #[test]
    fn copies_and_what_keeps_them_do_not_count_as_hops_of_gets() {
        let hops = |copies: &str| {
            let figures = figures(&["nodes=60", "keys=300", "style=recursive", copies]);
            figures.iter().find(|figure| figure.id == "overlay/hops/chord").unwrap().measured
        };
        assert_eq!(hops("copies=3"), hops("copies=1"));
    }

    #[test]
    fn figures_have_bands_in_runs_as_published_and_in_no_others() {
        let quick = ["nodes=200", "keys=2000"];
        for set in ["window=100", "copies=3", "ranges=true", "delay=2ms", "successors=4"] {
            let figures = figures(&[&quick[..], &[set]].concat());
            assert_eq!(figures.len(), 6, "{set}");
            for figure in figures {
                assert_eq!(figure.verdict(), "shown", "{set}: {}", figure.id);
                assert_eq!(figure.paper, None, "{set}: {}", figure.id);
            }
        }
        for figure in figures(&quick) {
            let is_shown = figure.id == "overlay/load/chord";
            let verdict = figure.verdict();
            assert!(is_shown || verdict == "ok" || verdict == "differs", "{figure:?}");
        }
    }

    #[test]
    fn a_bundle_of_one_key_takes_the_messages_of_the_key_alone() {
        for algorithm in Algorithm::ALL {
            let algorithm = format!("algorithm={algorithm}");
            // Without pings tables learn nothing, so that the order of keys makes no difference.
            let ideal = ["tables=ideal", "ping=off", &algorithm];
            let sets = ["bundle=1", "nodes=60", "keys=300"].into_iter().chain(ideal);
            let file = ScenarioFile::load("overlay/packets").unwrap().with_sets(sets).unwrap();
            let result = run(&file.resolve().unwrap(), 1, None, &Quiet).unwrap();
            let packets = |id: &str| id.starts_with("overlay/packets/");
            let figures: Vec<_> = result.figures.iter().filter(|f| packets(&f.id)).collect();
            assert_eq!(figures.len(), 4, "both styles, random and clustered");
            for figure in figures {
                assert_eq!(figure.measured, 1.0, "{}: {}", figure.id, figure.note);
            }
        }
    }
}
