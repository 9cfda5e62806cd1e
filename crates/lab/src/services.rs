//! The services that the lab runs, one row each: the one place where a protocol is chosen by name.

use crate::LabError;
use crate::chain::{self, Broadcast};
use crate::experiment::Experiment;
use crate::group::{self, Members};
use crate::mircc::{self, Fetching};
use crate::overlay::{self, Requests};
use crate::reproduce::Reproduction;
use crate::run::RunResult;
use crate::scenario::{Diagnostic, Keys, Scenario};
use crate::slingshot;
use crate::walk::{self, Walking};
use crate::world::{Prepared, Trial};

/// A service of the lab.
pub struct Row {
    /// The values of `[protocol] kind` that it runs, each with the keys that its own tables accept,
    /// so that an override may leave out the table's name.
    pub(crate) kinds: &'static [(&'static str, Keys)],
    /// True if its nodes send each other streams.
    pub(crate) sends_streams: bool,
    /// Its published figures.
    pub reproduction: Reproduction,
    run: fn(&Trial<'_>) -> Result<RunResult, LabError>,
    serve: fn(Prepared) -> Result<(), LabError>,
}

/// All services, in the order in which their figures are shown.
pub static SERVICES: [Row; 6] = [
    Row {
        kinds: &[("chain", chain::KEYS)],
        sends_streams: true,
        reproduction: chain::REPRODUCTION,
        run: Broadcast::run,
        serve: Broadcast::serve,
    },
    Row {
        kinds: &[("group", group::KEYS)],
        sends_streams: true,
        reproduction: group::REPRODUCTION,
        run: Members::run,
        serve: Members::serve,
    },
    Row {
        kinds: &[("overlay", overlay::KEYS)],
        sends_streams: true,
        reproduction: overlay::REPRODUCTION,
        run: Requests::run,
        serve: Requests::serve,
    },
    Row {
        kinds: &slingshot::KINDS,
        sends_streams: false,
        reproduction: slingshot::REPRODUCTION,
        run: slingshot::run,
        serve: slingshot::serve,
    },
    Row {
        kinds: &[("mircc", mircc::KEYS)],
        sends_streams: false,
        reproduction: mircc::REPRODUCTION,
        run: Fetching::run,
        serve: Fetching::serve,
    },
    Row {
        kinds: &[("walk", walk::KEYS)],
        sends_streams: true,
        reproduction: walk::REPRODUCTION,
        run: Walking::run,
        serve: Walking::serve,
    },
];

/// The values of `[protocol] kind`.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    SERVICES.iter().flat_map(|row| row.kinds).map(|&(kind, _)| kind)
}

/// The row of the service that runs this kind.
pub(crate) fn row(kind: &str) -> Option<&'static Row> {
    SERVICES.iter().find(|row| row.kinds.iter().any(|&(known, _)| known == kind))
}

/// The keys that the own tables of this kind accept.
pub(crate) fn keys(kind: &str) -> Keys {
    let mut kinds = SERVICES.iter().flat_map(|row| row.kinds);
    kinds.find(|&&(known, _)| known == kind).map_or(Keys::NONE, |&(_, keys)| keys)
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
        Diagnostic::new(format!("nothing to reproduce is called `{name}`"))
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
    (row_of(trial.scenario).run)(trial)
}

/// Runs one node of a scenario as a parent process says: `paceline node --control`.
///
/// # Errors
/// Those that the parent is told of.
pub fn serve_control() -> Result<(), LabError> {
    match Prepared::by_parent()? {
        Some(prepared) => (row_of(prepared.scenario()).serve)(prepared),
        None => Ok(()),
    }
}

fn row_of(scenario: &Scenario) -> &'static Row {
    row(scenario.service).expect("a scenario is of a kind that was found here")
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
            "nothing to reproduce is called `chian`\n = did you mean `chain`?\n = known: chain, \
             group, overlay, slingshot, mircc, walk"
        );
    }

    #[test]
    fn each_kind_and_each_reproduction_is_there_once() {
        let all: Vec<&str> = kinds().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let names: BTreeSet<&str> = reproductions().map(|one| one.name).collect();
        assert_eq!(names.len(), SERVICES.len());
    }
}
