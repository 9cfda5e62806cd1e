//! The tables `[protocol]`, `[workload]` and `[measure]` of a group scenario.

use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::scenario::{Scenario, Table};
use paceline_proto::core::{NodeId, View};
use paceline_proto::group::Config;
use paceline_proto::{chain, detector};

use super::{GroupScenario, absentees};
use crate::chain::{Broadcast, Plan, read_protocol, read_window, read_workload};

/// Which figures a scenario gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// None but the summary.
    Deliveries,
    /// The longest time in which no remaining member delivered anything.
    Stall,
    /// How long it takes until all that asked to join are in one view.
    Joining,
    /// How long it takes after the last partition until all are in one view again.
    Healing,
    /// What became of the first message, on its way when a member crashed; drawn in the report.
    Repair,
}

const MEASURES: [(&str, Measure); 5] = [
    ("deliveries", Measure::Deliveries),
    ("stall", Measure::Stall),
    ("joining", Measure::Joining),
    ("healing", Measure::Healing),
    ("repair", Measure::Repair),
];

impl GroupScenario {
    /// Reads a scenario of kind `group`.
    pub fn read(scenario: &Scenario) -> Result<GroupScenario, LabError> {
        let nodes = scenario.topology.nodes;
        let mut protocol = scenario.protocol();
        let (chain, topology, check_wire) =
            read_protocol(&mut protocol, chain::Config::for_groups())?;
        let config = read_membership(&mut protocol, chain.clone(), nodes)?;
        protocol.finish()?;
        let mut workload = scenario.workload();
        let plan = read_workload(&mut workload, scenario, &chain)?;
        if !plan.spread.is_zero() {
            let problem = "`spread` applies to broadcasts among a fixed roster; members of a group \
                           join at their own times";
            return Err(workload.error("spread", problem, "`join_after` or `start`"));
        }
        let join_after = workload.duration_or("join_after", Duration::ZERO)?;
        workload.finish()?;
        let mut table = scenario.measure();
        let measure = table.choice_or("figures", &MEASURES, "deliveries")?;
        let window = read_window(&mut table, scenario)?;
        table.finish()?;
        let plan = Plan { topology, window, check_wire, ..plan };
        let view = View::roster((0..nodes).map(NodeId::from));
        Ok(GroupScenario {
            shared: config.into(),
            broadcast: Broadcast::new(chain, view, plan).attended(absentees(scenario)),
            attendance: absentees(scenario),
            nodes,
            join_after,
            measure,
        })
    }
}

fn read_membership(
    table: &mut Table<'_>,
    chain: chain::Config,
    nodes: u32,
) -> Result<Config, LabError> {
    let mut detector = detector::Config::new();
    table.knobs(&mut detector)?;
    // All nodes of the scenario may be members.
    let members_max = (nodes as usize).max(Config::default().members_max());
    let mut config = Config::new(chain, detector).with_members_max(members_max);
    table.knobs(&mut config)?;
    config.build().map_err(|error| table.refused(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::CATALOG;

    #[test]
    fn every_key_can_be_set_without_its_table_and_is_read() {
        let text = "[topology]\nnodes = 3\n[protocol]\nkind = \"group\"";
        for (table, key) in crate::catalog::CATALOG.keys("group").all() {
            let scenario = CATALOG.parse("t.toml", text).unwrap();
            // No key accepts a value of this type, so the code that reads the key reports an error.
            let path = format!("{table}.{key}=1979-05-27");
            let set = scenario.with_sets([&path]).unwrap();
            let error = GroupScenario::read(&set.resolve().unwrap()).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}`")), "{path}: {error}");
            assert!(!error.contains("unknown key"), "{path}: {error}");
        }
    }

    #[test]
    fn a_knob_of_the_detector_that_cannot_work_is_named() {
        let text = "[topology]\nnodes = 3\n[protocol]\nkind = \"group\"\nprobe_every = \"100ms\"";
        let scenario = CATALOG.parse("t.toml", text).unwrap().resolve().unwrap();
        let said = GroupScenario::read(&scenario).unwrap_err().to_string();
        assert!(said.starts_with("t.toml:5:15: probe_every is 100ms"), "{said}");
    }

    #[test]
    fn a_time_after_which_links_are_dead_is_read_and_kept_within_its_range() {
        let read = |time: &str| {
            let text = format!(
                "[topology]\nnodes = 3\n[protocol]\nkind = \"group\"\nlink_dead_after = \"{time}\""
            );
            let scenario = CATALOG.parse("t.toml", &text).unwrap().resolve().unwrap();
            GroupScenario::read(&scenario).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(read("7s"), Ok(()));
        let said = read("999ms").unwrap_err();
        assert!(
            said.starts_with("t.toml:5:19: link_dead_after is 999ms, expected 1s to 1h"),
            "{said}"
        );
    }
}
