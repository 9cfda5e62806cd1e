//! The built-in scenarios.

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/", $name, ".toml")),
        )),*]
    };
}

/// The scenarios that are part of the binary, by name: `scenarios/<name>.toml`. A test fails if a
/// file there is not in this table.
pub(crate) static SCENARIOS: &[(&str, &str)] = scenarios![
    "chain/all-but-one",
    "chain/faults",
    "chain/gain",
    "chain/incast",
    "chain/latency",
    "chain/neighbours",
    "chain/rounds",
    "chain/six",
    "chain/soak-32k",
    "chain/ten",
    "chain/throughput",
    "chain/tour",
    "group/drop-out",
    "group/join-storm",
    "group/leader-killed",
    "group/origin-dies",
    "group/partition-2-2",
    "group/partition-3-1",
    "group/paused",
    "group/rolling-restart",
    "hosts/five",
    "mircc/abilene",
    "mircc/convergence",
    "mircc/diamond-1",
    "mircc/diamond-2",
    "mircc/low-rate",
    "mircc/slide-10",
    "mircc/slingshot-15-10-10",
    "mircc/slingshot-15-12-9",
    "overlay/bundle",
    "overlay/churn",
    "overlay/multicast",
    "overlay/packets",
    "overlay/time",
    "overlay/tree",
    "slingshot/ack",
    "slingshot/bursts",
    "slingshot/digest-pull",
    "slingshot/gossip",
    "slingshot/group-size",
    "slingshot/groups",
    "slingshot/messages",
    "slingshot/nak",
    "slingshot/paper",
    "slingshot/repair",
    "slingshot/second-phase",
    "slingshot/sender-fec",
    "slingshot/senders",
    "slingshot/slow",
    "slingshot/srm",
    "slingshot/throughput",
    "slingshot/tunability",
    "walk/crossings",
    "walk/e1",
    "walk/e2",
    "walk/e3",
    "walk/synchronous",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::catalog::CATALOG;

    #[test]
    fn every_scenario_file_of_the_repository_is_compiled_in_and_resolves() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut found = Vec::new();
        for folder in std::fs::read_dir(&root).unwrap() {
            for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
                let path = file.unwrap().path().with_extension("");
                found.push(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
            }
        }
        found.sort();
        assert_eq!(CATALOG.scenario_names().collect::<Vec<_>>(), found);
        for name in CATALOG.scenario_names() {
            let scenario = CATALOG.load(name).unwrap().resolve();
            assert_eq!(scenario.map_err(|error| error.to_string()).unwrap().name, name);
        }
    }
}
