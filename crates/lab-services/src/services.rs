//! The services that the lab runs, one row each: the one place where a protocol is chosen by name.

use paceline_lab::LabError;
use paceline_lab::experiment::Experiment;
use paceline_lab::reproduce::Reproduction;
use paceline_lab::run::{RunResult, WorldKind};
use paceline_lab::scenario::{Diagnostic, Scenario};
use paceline_lab::world::{HostedService, Prepared, Trial, simulate_hosts};

use crate::catalog::CATALOG;
use crate::chain::{self, Broadcast};
use crate::group::{self, GroupScenario};
use crate::mircc::{self, Fetching};
use crate::overlay::{self, Requests};
use crate::several::not_hosted;
use crate::slingshot;
use crate::walk::{self, Walking};

/// A service of the lab.
pub struct Row {
    /// The values of `[protocol] kind` that it runs.
    pub(crate) kinds: &'static [&'static str],
    /// Small scenarios, from which [`schema`](crate::schema::schema) learns its keys.
    pub(crate) samples: &'static [Sample],
    /// Reads the tables of a scenario, to ask for all of its keys.
    pub(crate) read: fn(&Scenario) -> Result<(), LabError>,
    /// Its published figures.
    pub reproduction: Reproduction,
    // The service as one of several on the same nodes; none if its nodes run nothing else.
    hosted: Option<Hosted>,
    run: fn(&Trial<'_>) -> Result<RunResult, LabError>,
    serve: fn(Prepared) -> Result<(), LabError>,
}

/// Reads the scenario of one of several services on the same nodes.
type Hosted = for<'s> fn(&'s Scenario, u64) -> Result<Box<dyn HostedService + 's>, LabError>;

impl Row {
    /// True if its nodes may run other services as well.
    pub(crate) fn is_hosted(&self) -> bool {
        self.hosted.is_some()
    }
}

/// A small scenario: its number of nodes, and what follows `[topology]` and `[protocol]`.
pub(crate) type Sample = (u32, &'static str);

/// Two numbers of nodes: bounds that depend on them differ.
const PLAIN: &[Sample] = &[(3, ""), (5, "")];

/// All services, in the order in which their figures are shown.
pub static SERVICES: [Row; 6] = [
    Row {
        kinds: &["chain"],
        samples: PLAIN,
        read: |scenario| Broadcast::read(scenario).map(drop),
        reproduction: chain::REPRODUCTION,
        hosted: Some(Broadcast::hosted),
        run: Broadcast::run,
        serve: Broadcast::serve,
    },
    Row {
        kinds: &["group"],
        samples: PLAIN,
        read: |scenario| GroupScenario::read(scenario).map(drop),
        reproduction: group::REPRODUCTION,
        hosted: Some(GroupScenario::hosted),
        run: GroupScenario::run,
        serve: GroupScenario::serve,
    },
    Row {
        kinds: &["overlay"],
        samples: &[(3, "[workload]\nclients = 1\n"), (5, "[workload]\nclients = 1\n")],
        read: |scenario| overlay::Settings::read(scenario, 1).map(drop),
        reproduction: overlay::REPRODUCTION,
        hosted: Some(Requests::hosted),
        run: Requests::run,
        serve: Requests::serve,
    },
    Row {
        kinds: slingshot::KINDS,
        // Also with a search for the throughput.
        samples: &[
            (3, ""),
            (5, ""),
            (3, "[measure]\nthroughput_within = \"20ms\"\n"),
            (5, "[measure]\nthroughput_within = \"20ms\"\n"),
        ],
        read: |scenario| slingshot::Settings::read(scenario).map(drop),
        reproduction: slingshot::REPRODUCTION,
        hosted: Some(slingshot::hosted),
        run: slingshot::run,
        serve: slingshot::serve,
    },
    Row {
        kinds: &["mircc"],
        samples: &[(10, "[workload]\nnetwork = \"dumbbell\"\n")],
        read: |scenario| mircc::Settings::read(scenario, 1).map(drop),
        reproduction: mircc::REPRODUCTION,
        hosted: None,
        run: Fetching::run,
        serve: Fetching::serve,
    },
    Row {
        kinds: &["walk"],
        samples: PLAIN,
        read: |scenario| walk::Settings::read(scenario, 1).map(drop),
        reproduction: walk::REPRODUCTION,
        hosted: Some(Walking::hosted),
        run: Walking::run,
        serve: Walking::serve,
    },
];

/// The row of the service that runs this kind.
pub(crate) fn row(kind: &str) -> Option<&'static Row> {
    SERVICES.iter().find(|row| row.kinds.contains(&kind))
}

/// What `paceline reproduce` knows.
pub fn reproductions() -> impl Iterator<Item = &'static Reproduction> + Clone {
    SERVICES.iter().map(|row| &row.reproduction)
}

/// The published figures of this name, or an error that knows the others.
///
/// # Errors
/// If there are none of this name.
pub fn reproduction(name: &str) -> Result<&'static Reproduction, LabError> {
    let found = reproductions().find(|reproduction| reproduction.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = reproductions().map(|reproduction| reproduction.name).collect();
        Diagnostic::new(format!("there are no figures `{name}` to reproduce"))
            .with_suggestion(name, known.iter().copied())
            .with_note(format!("known: {}", known.join(", ")))
            .into()
    })
}

/// Runs a scenario, in whichever world the trial is for.
///
/// # Errors
/// If a key or value is wrong, the scenario needs another world, or the run fails.
pub fn run(trial: &Trial<'_>) -> Result<RunResult, LabError> {
    match &trial.scenario.services[..] {
        [] => (row_of(trial.scenario).run)(trial),
        services => run_several(services, trial),
    }
}

/// Runs several services on the same nodes.
fn run_several(services: &[Scenario], trial: &Trial<'_>) -> Result<RunResult, LabError> {
    if trial.kind() == WorldKind::Sockets {
        let problem = "a scenario with [[service]] tables runs in the simulator only: --on sim";
        return Err(LabError::Unsupported(problem.to_owned()));
    }
    let hosted = |scenario| hosted(scenario, trial.seed);
    simulate_hosts(services.iter().map(hosted).collect::<Result<_, _>>()?, trial)
}

/// The service of this scenario, as one of several.
fn hosted(scenario: &Scenario, seed: u64) -> Result<Box<dyn HostedService + '_>, LabError> {
    match row_of(scenario).hosted {
        Some(hosted) => hosted(scenario, seed),
        None => Err(not_hosted(scenario)),
    }
}

/// Runs one node of a scenario as a parent process says: `paceline node --control`.
///
/// # Errors
/// The errors that are also reported to the parent.
pub fn serve_control() -> Result<(), LabError> {
    match Prepared::by_parent(&CATALOG)? {
        Some(prepared) => (row_of(prepared.scenario()).serve)(prepared),
        None => Ok(()),
    }
}

fn row_of(scenario: &Scenario) -> &'static Row {
    row(scenario.service).expect("the kind of a resolved scenario is registered here")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_unknown_reproduction_suggests_the_known_one() {
        assert_eq!(reproduction("chain").unwrap().name, "chain");
        let said = reproduction("chian").unwrap_err().to_string();
        assert_eq!(
            said,
            "there are no figures `chian` to reproduce\n = did you mean `chain`?\n = known: chain, \
             group, overlay, slingshot, mircc, walk"
        );
    }

    #[test]
    fn each_kind_and_each_reproduction_is_there_once() {
        let run: Vec<&str> = SERVICES.iter().flat_map(|row| row.kinds).copied().collect();
        assert_eq!(run, CATALOG.kind_names().collect::<Vec<_>>());
        assert_eq!(run.iter().collect::<BTreeSet<_>>().len(), run.len());
        let names: BTreeSet<&str> = reproductions().map(|one| one.name).collect();
        assert_eq!(names.len(), SERVICES.len());
    }
}
