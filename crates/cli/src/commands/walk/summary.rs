//! The summary of walks at the end of a run.

use std::path::PathBuf;
use std::time::Duration;

use paceline::proto::walk::JobReport;
use paceline_graph::chi_square::EXPECTED_MIN;
use paceline_graph::walk::Lengths;
use paceline_lab::figure::number;
use paceline_lab::table::table;
use serde::Serialize;

use super::plan::Plan;
use crate::error::CliError;
use crate::ui::Ui;

/// The chance below which walks are taken for biased.
const P_MIN: f64 = 1e-3;

/// What was walked.
#[derive(Debug, Serialize)]
pub struct Summary {
    graph: PathBuf,
    vertices: u32,
    edges: u64,
    kind: String,
    seed: u64,
    sources: u64,
    walks_per_source: u32,
    /// Walks that an earlier run had written down.
    resumed_after_walks: u64,
    walks: u64,
    steps: u64,
    seconds: f64,
    steps_per_s: f64,
    mean_hops: f64,
    dead_ends: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bias: Option<Bias>,
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<OnServers>,
    is_complete: bool,
}

/// Lengths beside what is exact, of walks whose length is drawn.
#[derive(Debug, Serialize)]
struct Bias {
    mean_hops_exact: f64,
    /// The chance that such walks are further off, by a chi-square test of their lengths.
    p: f64,
}

/// What it took to walk on servers.
#[derive(Clone, Copy, Debug, Serialize)]
struct OnServers {
    /// Walkers that were sent out, all attempts.
    walkers: u64,
    /// Of these, beyond one for each walk: the others were lost, or late.
    re_executions: u64,
    /// Times that a walk took longer than its time-out.
    timeouts: u64,
    /// Of these, the walks that came home before they were begun again: their time-out was wrong.
    home_before_retry: u64,
    /// Walkers that came home after all, when the walk had been begun again.
    late: u64,
    /// Walkers that came home marked: a queue on their way was long.
    marked: u64,
}

impl From<JobReport> for OnServers {
    fn from(report: JobReport) -> OnServers {
        let JobReport { generated, timeouts, direct, late, marked, .. } = report;
        let re_executions = report.additional();
        // What timed out or was dropped is begun again, unless it comes home first.
        let home_before_retry = (timeouts + direct).saturating_sub(re_executions).min(timeouts);
        OnServers { walkers: generated, re_executions, timeouts, home_before_retry, late, marked }
    }
}

/// What is known beside the lengths of walks.
pub struct Ran {
    pub graph: PathBuf,
    /// The number of the first walk.
    pub first: u64,
    pub resumed_after: u64,
    pub took: Duration,
    /// What the servers' client says, if servers walked.
    pub report: Option<JobReport>,
    pub is_complete: bool,
    /// Whether lengths are tested.
    pub is_tested: bool,
}

impl Summary {
    /// Sums up. Takes time if lengths are tested on a graph with dead ends.
    pub fn of(plan: &Plan, lengths: &Lengths, ran: Ran) -> Summary {
        let walks = lengths.walks();
        // Beyond this no test has an expectation, and the mean does not change.
        let share_min = (EXPECTED_MIN / walks.max(1) as f64).min(1e-6);
        let range = ran.first..ran.first + walks;
        let exact = Some(range).filter(|_| ran.is_tested && walks > 0);
        let exact = exact.and_then(|range| plan.exact_lengths(range, share_min));
        let bias =
            exact.map(|exact| Bias { mean_hops_exact: exact.mean(), p: lengths.p_value(&exact) });
        let (steps, seconds) = (lengths.steps(), ran.took.as_secs_f64());
        Summary {
            graph: ran.graph,
            vertices: plan.named.graph.vertices(),
            edges: plan.named.graph.edges(),
            kind: plan.asked.name.clone(),
            seed: plan.seed,
            sources: plan.sources(),
            walks_per_source: plan.walks_per_source,
            resumed_after_walks: ran.resumed_after,
            walks,
            steps,
            seconds,
            steps_per_s: steps as f64 / seconds.max(1e-9),
            mean_hops: lengths.mean(),
            dead_ends: lengths.dead_ends(),
            bias,
            servers: ran.report.map(OnServers::from),
            is_complete: ran.is_complete,
        }
    }

    /// True unless lengths are other than chance has them.
    pub fn is_unbiased(&self) -> bool {
        self.bias.as_ref().is_none_or(|bias| bias.p >= P_MIN)
    }

    /// Prints it.
    pub fn print(&self, ui: &Ui) -> Result<(), CliError> {
        ui.document(self)?;
        let row = |name: &str, value: String, note: String| [name.to_owned(), value, note];
        let sources = format!("{} from each of {} sources", self.walks_per_source, self.sources);
        let rate = number(self.steps_per_s / 1e6);
        let rate = format!("in {} s: {rate} million a second", number(self.seconds));
        let cut = "walks ended at a dead end".to_owned();
        let mut rows = vec![
            row("walks", self.walks.to_string(), sources),
            row("steps", self.steps.to_string(), rate),
            row("steps of a walk", number(self.mean_hops), self.exact()),
            row("dead ends", self.dead_ends.to_string(), cut),
        ];
        if let Some(bias) = &self.bias {
            let note = "the probability of larger deviations; below 0.001 walks are biased";
            rows.push(row("p", number(bias.p), note.to_owned()));
        }
        if let Some(servers) = &self.servers {
            let OnServers { walkers, re_executions, timeouts, home_before_retry, .. } = *servers;
            let marked = format!("{} returned marked", servers.marked);
            let again = "re-executed walks, because their walker was lost or late".to_owned();
            let first = format!("{home_before_retry} of these walks finished before a retry");
            rows.push(row("walkers", walkers.to_string(), marked));
            rows.push(row("re-executions", re_executions.to_string(), again));
            rows.push(row("time-outs", timeouts.to_string(), first));
        }
        ui.print(&format!("{}: {}\n", self.graph.display(), self.kind))?;
        ui.print(&table(["", "", ""], &rows))?;
        if !self.is_unbiased() {
            ui.warn("the lengths of these walks deviate from the expected distribution");
        }
        Ok(())
    }

    fn exact(&self) -> String {
        let exact = self.bias.as_ref().map(|bias| number(bias.mean_hops_exact));
        exact.map_or_else(|| "on average".to_owned(), |exact| format!("where {exact} is exact"))
    }
}

#[cfg(test)]
mod tests {
    use paceline_graph::files::{Options, read_bytes};
    use paceline_graph::walk::{Chance, Job, Kind, Length, Paths};

    use super::super::kind::Asked;
    use super::*;

    /// Walks from 1 and 2 back and forth, with 3 as a dead end; and from some sources twice.
    fn plan() -> Plan {
        let text = b"1 2\n2 1\n2 3\n".to_vec();
        let named = read_bytes(std::path::Path::new("x.tsv"), text, &Options::default());
        let end = Chance::new(0.2).expect("a chance");
        let length = Length::Geometric { end, steps_max: 100 };
        let asked = Asked { kind: Kind::Uniform, length, walks_per_source: 1, name: String::new() };
        let sources = Some(vec![0, 1, 0]);
        Plan { named: named.unwrap(), asked, seed: 3, sources, walks_per_source: 10_000 }
    }

    /// The summary of the walks from number `first` on, without those that are lost.
    fn summary(plan: &Plan, first: u64, is_lost: impl Fn(u64, usize) -> bool) -> Summary {
        let job = Job::new(&plan.named.graph, &plan.asked.kind, plan.asked.length, plan.seed);
        let job = job.unwrap().with_sources(plan.sources.as_deref().unwrap()).unwrap();
        let mut lengths = Lengths::new(plan.seed, plan.asked.length);
        let job = job.with_walks_per_source(plan.walks_per_source);
        let walked = job.paths_from(first, |paths| {
            let mut kept = Paths::empty(paths.first());
            for (walk, path) in paths.iter() {
                kept.push(if is_lost(walk, path.len()) { &[] } else { path });
            }
            lengths.append(&kept);
            Ok::<(), CliError>(())
        });
        walked.unwrap();
        let ran = Ran {
            graph: PathBuf::new(),
            first,
            resumed_after: first,
            took: Duration::from_secs(1),
            report: None,
            is_complete: true,
            is_tested: true,
        };
        Summary::of(plan, &lengths, ran)
    }

    #[test]
    fn lengths_are_tested_against_those_of_the_walks_that_were_walked() {
        let plan = plan();
        // Those of another source have other lengths: what is left of a job is tested by its own.
        for first in [0, 5_000, 10_000, 20_000] {
            let summary = summary(&plan, first, |_, _| false);
            assert_eq!(summary.walks, 30_000 - first);
            assert!(summary.is_unbiased(), "from {first} on: {:?}", summary.bias);
        }
    }

    #[test]
    fn time_outs_of_walks_that_came_home_first_are_no_re_executions() {
        let report = JobReport {
            walks: 100,
            generated: 130,
            timeouts: 50,
            direct: 2,
            ..JobReport::default()
        };
        let servers = OnServers::from(report);
        assert_eq!((servers.re_executions, servers.timeouts), (30, 50));
        assert_eq!(servers.home_before_retry, 22);
        assert_eq!(OnServers::from(JobReport::default()).home_before_retry, 0);
    }

    #[test]
    fn walks_that_lack_the_long_ones_are_biased() {
        let plan = plan();
        let survivors = summary(&plan, 0, |walk, vertices| vertices > 3 && walk % 5 == 0);
        assert!(!survivors.is_unbiased(), "{:?}", survivors.bias);
    }
}
