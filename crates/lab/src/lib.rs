//! Scenario files, sweeps, run folders, the papers' figures and reports.
//!
//! Nothing in these modules knows a protocol: [`scenario`] reads what to run, [`sweep`] runs it
//! over a grid, [`run`] keeps what came out, [`figure`] compares it with what was published and
//! [`report`] shows it. The functions of this file are the one place where a protocol is chosen by
//! name.
#![forbid(unsafe_code)]

pub mod bench;
pub mod chain;
mod error;
pub mod figure;
pub mod group;
mod machine;
pub mod mircc;
pub mod overlay;
mod parallel;
mod progress;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod scenario;
pub mod slingshot;
pub mod standing;
pub mod sweep;
pub mod table;
pub mod tour;
pub mod walk;
pub mod world;

pub use error::LabError;
pub use machine::Machine;
pub use progress::{Progress, Quiet};

use std::path::Path;
use std::sync::Arc;

use chain::Broadcast;
use figure::Reproduction;
use group::Members;
use paceline_sim::Streams;
use run::RunResult;
use scenario::Scenario;
use world::Prepared;

/// What `paceline reproduce` knows, by name.
pub const REPRODUCTIONS: &[Reproduction] = &[
    chain::REPRODUCTION,
    group::REPRODUCTION,
    overlay::REPRODUCTION,
    slingshot::REPRODUCTION,
    mircc::REPRODUCTION,
    walk::REPRODUCTION,
];

/// Takes scenario, seed, where a trace goes, and whom to tell how far it is.
type Simulate = fn(&Scenario, u64, Option<&Path>, &dyn Progress) -> Outcome;
/// Takes scenario, seed, the program that becomes a node, and whom to tell how far it is.
type RunOnSockets = fn(Arc<Scenario>, u64, Option<&Path>, &dyn Progress) -> Outcome;
type Outcome = Result<RunResult, LabError>;

/// A service that the lab can run.
struct Registered {
    /// `[protocol] kind`.
    name: &'static str,
    /// The keys that its own tables accept, so that an override may leave out the table's name.
    keys: scenario::Keys,
    simulate: Simulate,
    run_on_sockets: RunOnSockets,
    serve: fn(Prepared) -> Result<(), LabError>,
}

/// The one place where a protocol is chosen by name.
const REGISTERED: &[Registered] = &[
    Registered {
        name: "chain",
        keys: chain::KEYS,
        simulate: chain::run,
        run_on_sockets: chain::run_on_sockets,
        serve: |prepared| {
            let service = Broadcast::read(prepared.scenario());
            prepared.serve(service)
        },
    },
    Registered {
        name: "group",
        keys: group::KEYS,
        simulate: group::run,
        run_on_sockets: group::run_on_sockets,
        serve: |prepared| {
            let service = Members::read(prepared.scenario());
            prepared.serve(service)
        },
    },
    Registered {
        name: "overlay",
        keys: overlay::KEYS,
        simulate: overlay::run,
        run_on_sockets: overlay::run_on_sockets,
        serve: overlay::serve,
    },
    Registered {
        name: "mircc",
        keys: mircc::KEYS,
        simulate: mircc::run,
        run_on_sockets: mircc::run_on_sockets,
        serve: mircc::serve,
    },
    Registered {
        name: "walk",
        keys: walk::KEYS,
        simulate: walk::run,
        run_on_sockets: walk::run_on_sockets,
        serve: walk::serve,
    },
    timely("slingshot", slingshot::KEYS),
    timely("srm", slingshot::SRM_KEYS),
    timely("nak", slingshot::NAK_KEYS),
    timely("digest-pull", slingshot::DIGEST_KEYS),
    timely("sender-fec", slingshot::FEC_KEYS),
    timely("ack", slingshot::ACK_KEYS),
];

/// A protocol of multicast in time: they run the same scenarios.
const fn timely(name: &'static str, keys: scenario::Keys) -> Registered {
    Registered {
        name,
        keys,
        simulate: slingshot::run,
        run_on_sockets: slingshot::run_on_sockets,
        serve: slingshot::serve,
    }
}

fn registered(name: &str) -> Result<&'static Registered, LabError> {
    let known = REGISTERED.iter().find(|registered| registered.name == name);
    known.ok_or_else(|| {
        let names: Vec<&str> = REGISTERED.iter().map(|registered| registered.name).collect();
        LabError::Unsupported(format!("`{name}` is not there yet; there is {}", names.join(", ")))
    })
}

/// Runs a scenario in the simulator.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<RunResult, LabError> {
    simulate_watched(scenario, seed, None, &Quiet)
}

/// The same, saying how far it is, and writing what happens to a file if there is one. Once the
/// user stops it, what was measured until then is given, with the metric `stopped_early` and
/// without a digest.
pub fn simulate_watched(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    (registered(scenario.service)?.simulate)(scenario, seed, trace, progress)
}

/// Runs a scenario on loopback sockets. With a `program` every node is a process of its own,
/// started as `program node --control`; else all nodes run in this one.
pub fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    if scenario.topology.streams != Streams::Lossless {
        let problem = "streams = \"tcp\" is a model of the simulator, and sockets have the \
                       kernel's TCP; use --on sim, or --set streams=lossless";
        return Err(LabError::Unsupported(problem.to_owned()));
    }
    (registered(scenario.service)?.run_on_sockets)(scenario, seed, program, progress)
}

/// Runs one node of a scenario as a parent process says: `paceline node --control`.
pub fn serve_control() -> Result<(), LabError> {
    match Prepared::by_parent()? {
        Some(prepared) => (registered(prepared.scenario().service)?.serve)(prepared),
        None => Ok(()),
    }
}

/// The keys that a service's own tables accept.
pub(crate) fn service_keys(service: &str) -> scenario::Keys {
    registered(service).map_or(scenario::Keys::NONE, |registered| registered.keys)
}
