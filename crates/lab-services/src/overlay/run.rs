use paceline_lab::LabError;
use paceline_lab::experiment::Experiment;
use paceline_lab::figure::Figure;
use paceline_lab::run::{Metric, RunResult, Sample, WorldKind};
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{Outcome, Trial};

use super::figures::{MESSAGES, figures};
use super::measured::Measured;
use super::tree::Tree;
use super::{Action, Measure, Requests, Settings, Tables, Tally};

impl Experiment for Requests {
    type Watch = Tree;
    type Measured = Measured;

    fn prepare(scenario: &Scenario, seed: u64, world: WorldKind) -> Result<Self, LabError> {
        if world == WorldKind::Sim {
            return Ok(Requests::new(Settings::read_to_judge(scenario, seed)?));
        }
        let settings = Settings::read(scenario, seed)?;
        if settings.plan.tables == Tables::Ideal {
            let problem = "tables = \"ideal\" are filled in the simulator only";
            return Err(LabError::Unsupported(problem.to_owned()));
        }
        Ok(Requests::new(settings))
    }

    fn watch(&self) -> Tree {
        Tree::new(self.settings.config.space(), self.settings.measure == Measure::Tree)
    }

    fn judge(
        self,
        _trial: &Trial<'_>,
        outcome: Outcome,
        tree: Option<Tree>,
    ) -> Result<Measured, LabError> {
        let Requests { settings, ledger, .. } = self;
        Ok(Measured { settings, ledger, outcome, tree })
    }

    fn result(_: &Trial<'_>, measured: &Measured) -> Result<RunResult, LabError> {
        Ok(run_result(measured))
    }

    fn figures(_: &Trial<'_>, measured: &Measured) -> Result<Vec<Figure>, LabError> {
        Ok(figures(measured))
    }
}

/// Besides the messages of requests, what one phase counted of these is part of the series.
const COUNTED: [&str; 5] =
    ["overlay_ping", "overlay_pong", "overlay_lookups", "overlay_hops", "overlay_targets_ended"];

fn run_result(measured: &Measured) -> RunResult {
    let Measured { settings, ledger, outcome, tree } = measured;
    let tallies = ledger.tallies();
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>() as f64;
    let (asked, answered) = (sum(|tally| tally.asked), sum(Tally::answered));
    let mut summary = vec![
        Metric::new("keys_asked", asked, ""),
        Metric::new("keys_done", sum(|tally| tally.done), ""),
        Metric::new("keys_absent", sum(|tally| tally.absent), ""),
        Metric::new("keys_wrong", sum(|tally| tally.wrong), ""),
        Metric::new("keys_failed", sum(|tally| tally.failed), ""),
        Metric::new("keys_unanswered", asked - answered, ""),
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
    summary.extend(outcome.driver_bytes());
    let mut series = Vec::new();
    for (number, phase) in settings.plan.phases.iter().enumerate() {
        for counter in MESSAGES.into_iter().chain(COUNTED) {
            let counted = ledger.counted(number, counter, &outcome.counters) as f64;
            series.push(Sample::overall(phase.begins.as_secs_f64(), counter, counted));
        }
    }
    let drawings = match tree {
        Some(tree) if settings.measure == Measure::Tree => {
            tree.drawings(&settings.plan, settings.config.ttl())
        }
        _ => Vec::new(),
    };
    RunResult { series, drawings, ..outcome.result(summary) }
}

#[cfg(test)]
mod tests {
    use paceline_proto::overlay::Algorithm;

    use crate::catalog::CATALOG;

    use super::*;

    fn figures(sets: &[&str]) -> Vec<paceline_lab::figure::Figure> {
        let file = CATALOG.load("overlay/packets").unwrap().with_sets(sets).unwrap();
        Requests::run(&Trial::simulated(&file.resolve().unwrap(), 1)).unwrap().figures
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
            let file = CATALOG.load("overlay/packets").unwrap().with_sets(sets).unwrap();
            let result = Requests::run(&Trial::simulated(&file.resolve().unwrap(), 1)).unwrap();
            let packets = |id: &str| id.starts_with("overlay/packets/");
            let figures: Vec<_> = result.figures.iter().filter(|f| packets(&f.id)).collect();
            assert_eq!(figures.len(), 4, "both styles, random and clustered");
            for figure in figures {
                assert_eq!(figure.measured, 1.0, "{}: {}", figure.id, figure.note);
            }
        }
    }
}
