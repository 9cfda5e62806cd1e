//! The tables `[protocol]`, `[workload]` and `[measure]` of an overlay scenario.

use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::scenario::{Scenario, Table};
use paceline_proto::core::mix;
use paceline_proto::overlay::{Algorithm, Config, PingPolicy, Shape, Space, Style};

use super::plan::{Action, Grouping, Pace, Phase, Plan, Tables};
use crate::catalog::CATALOG;

/// Which figures a scenario gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// None but the summary.
    Outcomes,
    /// Messages in bundles over messages one by one; hops; look-ups.
    Packets,
    /// Time in bundles, or with several clients, over time one by one.
    Time,
    /// Forwardings in bundles over forwardings one by one.
    Bundle,
    /// Keys that were stored and not found again.
    Lost,
    /// Messages that deliver a payload to many keys, in bundles over one by one.
    Multicast,
    /// None: a drawing of how bundles spread.
    Tree,
}

/// What an overlay scenario does and measures.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the nodes agree on.
    pub config: Config,
    /// Whether they ping each time that a node is named.
    pub pings_each: bool,
    /// Whether nothing is set that bands do not allow for: a built-in scenario with its own
    /// values, except the algorithm, the numbers of nodes and keys, the bundle and the pings.
    pub is_as_published: bool,
    /// Whether messages pass through their encoding in the simulator.
    pub check_wire: bool,
    /// How many nodes.
    pub nodes: u32,
    /// The requests.
    pub plan: Plan,
    /// Which figures.
    pub measure: Measure,
}

const MEASURES: [(&str, Measure); 7] = [
    ("multicast", Measure::Multicast),
    ("outcomes", Measure::Outcomes),
    ("packets", Measure::Packets),
    ("time", Measure::Time),
    ("bundle", Measure::Bundle),
    ("lost", Measure::Lost),
    ("tree", Measure::Tree),
];

const STYLES: [(&str, &[Style]); 3] = [
    ("recursive", &[Style::Recursive]),
    ("iterative", &[Style::Iterative]),
    ("both", &[Style::Recursive, Style::Iterative]),
];

const GROUPINGS: [(&str, &[Grouping]); 4] = [
    ("serial", &[Grouping::Serial]),
    ("random", &[Grouping::Random]),
    ("clustered", &[Grouping::Clustered]),
    ("all", &[Grouping::Serial, Grouping::Random, Grouping::Clustered]),
];

const ACTIONS: [(&str, &[Action]); 4] = [
    ("put", &[Action::Put]),
    ("get", &[Action::Get]),
    ("put-get", &[Action::Put, Action::Get]),
    ("send", &[Action::Send]),
];

impl Settings {
    /// Reads a scenario of kind `overlay`.
    pub fn read(scenario: &Scenario, seed: u64) -> Result<Settings, LabError> {
        let nodes = scenario.topology.nodes;
        let mut protocol = scenario.protocol();
        let algorithms = Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
        let algorithm = protocol.choice_or("algorithm", &algorithms, "chord")?;
        let tables = [("joined", Tables::Joined), ("ideal", Tables::Ideal)];
        let tables = protocol.choice_or("tables", &tables, "joined")?;
        let space = Space::new(mix(seed));
        let config = read_config(&mut protocol, (space, algorithm), tables)?;
        let check_wire = protocol.boolean_or("check_wire", false)?;
        protocol.finish()?;
        let mut workload = scenario.workload();
        let plan = read_plan(&mut workload, nodes, seed, tables)?;
        workload.finish()?;
        let mut table = scenario.measure();
        let measure = table.choice_or("figures", &MEASURES, "outcomes")?;
        table.finish()?;
        let pings_each = config.ping() == PingPolicy::EachMention;
        let is_as_published = false;
        Ok(Settings { config, pings_each, is_as_published, check_wire, nodes, plan, measure })
    }

    /// Reads a scenario, and compares it with the built-in one of its name.
    pub fn read_to_judge(scenario: &Scenario, seed: u64) -> Result<Settings, LabError> {
        let settings = Settings::read(scenario, seed)?;
        let reference = CATALOG.load(&scenario.name).and_then(|file| file.resolve());
        let is_as_published = reference.is_ok_and(|reference| {
            let is_read = Settings::read(&reference, seed).is_ok();
            is_read && fixed_keys(&reference).eq(&fixed_keys(scenario))
        });
        Ok(Settings { is_as_published, ..settings })
    }
}

/// The values of a scenario that bands do not allow for, one a line.
fn fixed_keys(scenario: &Scenario) -> Vec<String> {
    const FREE: [&str; 8] =
        ["name", "about", "algorithm", "nodes", "keys", "bundle", "ping", "check_wire"];
    let text = scenario.to_toml_with_seed(0);
    let is_free = |line: &&str| line.split(" = ").next().is_some_and(|key| FREE.contains(&key));
    text.lines().filter(|line| !is_free(line)).map(str::to_owned).collect()
}

fn read_config(
    table: &mut Table<'_>,
    (space, algorithm): (Space, Algorithm),
    tables: Tables,
) -> Result<Config, LabError> {
    let mut config = Config::new(space).with_algorithm(algorithm);
    table.knobs(&mut config)?;
    let mut shape = Shape::default();
    table.knobs(&mut shape)?;
    let mut config = config.with_shape(shape);
    if tables == Tables::Ideal {
        // There is nothing to look after.
        config = config.with_upkeep_every(None);
    }
    config.build().map_err(|error| table.refused(&error))
}

fn read_plan(
    table: &mut Table<'_>,
    nodes: u32,
    seed: u64,
    tables: Tables,
) -> Result<Plan, LabError> {
    let keys = Plan::keys(table.integer_or("keys", 1..=10_000_000usize, 1000)?, seed);
    let sorted = Plan::sorted(&keys, table.integer_or("window", 0..=10_000_000usize, 0)?);
    let value_bytes = usize::try_from(table.size_or("size", 8u64)?).unwrap_or(usize::MAX);
    let bundle = table.integer_or("bundle", 1..=1024usize, 10)?;
    let actions = table.choice_or("actions", &ACTIONS, "put-get")?;
    let styles = table.choice_or("style", &STYLES, "recursive")?;
    let groupings = table.choice_or("grouping", &GROUPINGS, "all")?;
    let clients = table.counts_optional("clients", nodes)?;
    let every = table.duration_optional("every")?;
    let pace = every.map_or(Pace::Closed, Pace::Open);
    if pace == Pace::Closed && clients.is_none() {
        let problem = "without `every` a client sends a bundle after the reply to the one before";
        return Err(table.error("clients", problem, "`clients`, or `every`, or both"));
    }
    let length = table.duration_optional("phase")?;
    // A few nodes have their places and tables sooner than a thousand.
    let joining = match tables {
        Tables::Ideal => Duration::ZERO,
        Tables::Joined if nodes <= 64 => Duration::from_secs(20),
        Tables::Joined => Duration::from_secs(120),
    };
    let join_every = table.duration_or("join_every", Duration::from_millis(10))?;
    let lifetime = table.duration_or("lifetime", Duration::from_secs(24 * 3600))?;
    let mut plan = Plan {
        tables,
        join_every,
        phases: Vec::new(),
        pace,
        bundle,
        keys,
        sorted,
        value_bytes,
        lifetime,
        seed: mix(seed ^ 0x0ace),
    };
    let mut begins = table.duration_or("start", joining)?;
    let mut first_bundle = 0;
    let clients = match clients {
        None => vec![None],
        Some(listed) => listed.into_iter().map(Some).collect(),
    };
    for &clients in &clients {
        for (&style, &grouping) in
            styles.iter().flat_map(|style| groupings.iter().map(move |grouping| (style, grouping)))
        {
            for &action in actions {
                let phase = Phase { action, style, grouping, clients, begins, first_bundle };
                let bundles = plan.bundles_of(grouping);
                plan.phases.push(phase);
                first_bundle += bundles;
                begins += match (length, pace) {
                    (Some(length), _) => length,
                    (None, Pace::Open(every)) => every * bundles + Duration::from_secs(2),
                    (None, Pace::Closed) => Duration::from_millis(100) * bundles.max(100),
                };
            }
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_copies_than_successors_keep_are_refused_where_they_are_kept_there() {
        let read = |sets: &[&str]| {
            let text = "[topology]\nnodes = 20\n[protocol]\nkind = \"overlay\"\n[workload]\n\
                        clients = 1";
            let file = CATALOG.parse("t.toml", text).unwrap().with_sets(sets).unwrap();
            Settings::read(&file.resolve().unwrap(), 1).map(|_| ())
        };
        for algorithm in ["chord", "koorde"] {
            let algorithm = format!("protocol.algorithm={algorithm}");
            assert!(read(&[&algorithm, "successors=4", "copies=5"]).is_ok());
            let error = read(&[&algorithm, "successors=4", "copies=6"]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("copies is 6, expected at most `successors` + 1"), "{text}");
            assert_eq!(error.exit_status(), 2);
        }
        assert!(read(&["protocol.algorithm=kademlia", "successors=4", "copies=6"]).is_ok());
    }
}
