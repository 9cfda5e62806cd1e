use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use paceline_proto::core::Rng;

use super::*;
use crate::progress::Quiet;
use crate::run::Metric;
use crate::scenario::sample::CATALOG;

const TEXT: &str = r#"name = "grid"
seed = 7
[topology]
nodes = 4
[protocol]
kind = "chain"
topology = "chain"
[sweep]
seeds = 3
"topology.nodes" = [2, 4, 8]
protocol.topology = ["chain", "unicast"]
"#;

fn plan() -> Plan {
    Plan::new(&CATALOG.parse("grid.toml", TEXT).unwrap()).unwrap()
}

fn pretend(scenario: &Scenario, seed: u64) -> Result<RunResult, LabError> {
    let mut protocol = scenario.protocol();
    let topology = protocol.choice("topology", &[("chain", 1), ("unicast", 2)])?;
    protocol.finish()?;
    let nodes = scenario.topology.nodes;
    let draw = Rng::new(seed, u64::from(nodes) * 10 + topology).unit();
    // Cells end in another order than they begin.
    std::thread::yield_now();
    Ok(RunResult {
        summary: vec![Metric::new("rate", draw, "MB/s")],
        events: u64::from(nodes),
        digest: Some(format!("{draw:.6}")),
        ..RunResult::default()
    })
}

fn said(text: &str) -> String {
    let file = CATALOG.parse("grid.toml", text).unwrap();
    let error = Plan::new(&file).map(drop).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    error.to_string()
}

#[test]
fn the_grid_is_every_value_with_every_seed() {
    let plan = plan();
    assert_eq!(plan.cells().len(), 18);
    assert_eq!(plan.cells()[0].key, "topology.nodes=2 protocol.topology=chain seed=7");
    assert_eq!(plan.cells()[17].key, "topology.nodes=8 protocol.topology=unicast seed=9");
    assert_eq!(plan.cells()[17].scenario.topology.nodes, 8);
    let alone = CATALOG.load("chain/ten").unwrap();
    assert_eq!(Plan::new(&alone).unwrap().cells().len(), 1);
}

#[test]
fn results_do_not_depend_on_threads_or_shards() {
    let plan = plan();
    let table = |threads| {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { threads: Some(threads), shard: None };
        let outcome = run(&plan, folder.path(), options, &Quiet, pretend).unwrap();
        assert_eq!((outcome.finished.len(), outcome.resumed), (18, 0));
        fs::read_to_string(outcome.csv).unwrap()
    };
    let one = table(1);
    assert!(
        one.starts_with(
            "topology.nodes,protocol.topology,seed,metric,value,unit\n2,chain,7,rate,0."
        )
    );
    assert_eq!(one.lines().count(), 19);
    assert_eq!(table(2), one);
    assert_eq!(table(7), one);

    let folder = tempfile::tempdir().unwrap();
    let (shared, alone) = (folder.path().join("shared"), folder.path().join("alone"));
    for (shard, folder) in [("1/3", &shared), ("2/3", &alone), ("3/3", &shared)] {
        let options = Options { threads: None, shard: Some(shard.parse().unwrap()) };
        run(&plan, folder, options, &Quiet, pretend).unwrap();
    }
    let merged = merge(&plan, &[shared, alone]).unwrap();
    assert_eq!(sweep_csv(&plan, &merged), one);
}

#[test]
fn a_stopped_sweep_goes_on_where_it_was_and_a_torn_line_is_run_again() {
    struct StopAfter(AtomicUsize);
    impl Progress for StopAfter {
        fn stopped(&self) -> bool {
            self.0
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_err()
        }
    }
    let (plan, folder) = (plan(), tempfile::tempdir().unwrap());
    let stop = StopAfter(AtomicUsize::new(5));
    let error = run(&plan, folder.path(), Options::default(), &stop, pretend).unwrap_err();
    assert_eq!(error.to_string(), "stopped; 5 of 18 finished and are kept");
    assert_eq!(error.exit_status(), 1);

    let cells = folder.path().join("cells.jsonl");
    let text = fs::read_to_string(&cells).unwrap();
    fs::write(&cells, &text[..text.len() - 10]).unwrap();
    let ran = AtomicUsize::new(0);
    let outcome = run(&plan, folder.path(), Options::default(), &Quiet, |scenario, seed| {
        ran.fetch_add(1, Ordering::SeqCst);
        pretend(scenario, seed)
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.resumed, ran.load(Ordering::SeqCst)), (4, 14));
    assert_eq!(outcome.finished.len(), 18);
    let again = run(&plan, folder.path(), Options::default(), &Quiet, |_, _| unreachable!());
    assert_eq!(again.unwrap().finished, outcome.finished);
}

#[test]
fn a_failing_cell_is_reported_and_does_not_stop_the_others() {
    let (plan, folder) = (plan(), tempfile::tempdir().unwrap());
    let outcome = run(&plan, folder.path(), Options::default(), &Quiet, |scenario, seed| {
        match scenario.topology.nodes {
            4 => Err(LabError::Run("it broke".into())),
            _ => pretend(scenario, seed),
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.finished.len(), outcome.failed.len()), (12, 6));
    let (key, why) = &outcome.failed[0];
    assert_eq!(
        (key.as_str(), why.as_str()),
        ("topology.nodes=4 protocol.topology=chain seed=7", "it broke")
    );
    let outcome = run(&plan, folder.path(), Options::default(), &Quiet, pretend).unwrap();
    assert_eq!((outcome.finished.len(), outcome.resumed), (18, 12));
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let (plan, folder) = (plan(), tempfile::tempdir().unwrap());
    let here = folder.path().join("sweep");
    run(&plan, &here, Options::default(), &Quiet, pretend).unwrap();
    let other = CATALOG.parse("grid.toml", TEXT).unwrap().with_sets(["rate=10Mbit"]).unwrap();
    let other = Plan::new(&other).unwrap();
    let refused = |plan: &Plan, folder: &Path| {
        let error = run(plan, folder, Options::default(), &Quiet, pretend).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        error.to_string()
    };
    assert!(refused(&other, &here).contains("with other settings outside [sweep]"));
    assert!(refused(&plan, folder.path()).contains("not empty, and not the folder of a sweep"));
    let cells = here.join("cells.jsonl");
    let text = fs::read_to_string(&cells).unwrap();
    fs::write(&cells, format!("nonsense\n{text}")).unwrap();
    assert!(refused(&plan, &here).contains("cells.jsonl: line 1 is not a finished cell"));
}

#[test]
fn more_seeds_extend_a_sweep() {
    let (small, folder) = (plan(), tempfile::tempdir().unwrap());
    run(&small, folder.path(), Options::default(), &Quiet, pretend).unwrap();
    let file = CATALOG.parse("grid.toml", TEXT).unwrap();
    let large = Plan::new(&file.with_sets(["sweep.seeds=4"]).unwrap()).unwrap();
    let outcome = run(&large, folder.path(), Options::default(), &Quiet, pretend).unwrap();
    assert_eq!((outcome.resumed, outcome.finished.len()), (18, 24));
}

#[test]
fn what_is_wrong_in_a_sweep_is_shown_at_its_line() {
    let with = |line: &str| said(&TEXT.replace("seeds = 3", line));
    assert_eq!(
        said(&TEXT.replace("[2, 4, 8]", "[2, 0]")),
        "grid.toml:10:24: `nodes` is out of range: 0
   |
10 | \"topology.nodes\" = [2, 0]
   |                        ^
   = accepted: a whole number from 1 to 4000000"
    );
    assert_eq!(
        said(&TEXT.replace("[2, 4, 8]", "4")),
        "grid.toml:10:20: `topology.nodes` cannot be the plain number 4
   |
10 | \"topology.nodes\" = 4
   |                    ^
   = accepted: a list of different values, such as [2, 4, 8]"
    );
    assert_eq!(
        with("seeds = 0"),
        "grid.toml:9:9: `seeds` cannot be the plain number 0
  |
9 | seeds = 0
  |         ^
  = accepted: a number of seeds, such as 10, or a list of different seeds"
    );
    assert!(with("seed = [1, 2]").ends_with("= seeds are swept with `seeds`"));
    assert!(with("nodes = [1]").starts_with("grid.toml:9:10: `nodes` is not a setting"));
    assert!(with("topology.nodez = [1]").contains("unknown key `nodez` in [topology]"));
    assert!(with("topology.rate = [\"1Mbit\", \"1Mbit\"]").contains("has 1Mbit twice"));
    let many = "topology.queue = [\"1B\", \"2B\"]\nseeds = 1000000";
    assert!(with(many).contains("more than 1000000 cells"));
}

#[test]
fn an_override_of_what_is_swept_goes_to_the_sweep() {
    let with = |set: &str| {
        let file = CATALOG.parse("grid.toml", TEXT).unwrap();
        Plan::new(&file.with_sets([set]).unwrap())
    };
    assert_eq!(with("sweep.topology.nodes=[16]").unwrap().cells().len(), 6);
    assert_eq!(with("sweep.protocol.topology=[\"tree\"]").unwrap().cells().len(), 9);
    assert_eq!(
        with("nodes=16").map(drop).unwrap_err().to_string(),
        "from --set nodes=16: `topology.nodes` is swept\n \
         = accepted: `--set sweep.topology.nodes=[..]`"
    );
}

#[test]
fn a_shard_is_a_part_of_a_whole() {
    assert!("1/1".parse::<Shard>().is_ok());
    for text in ["0/3", "4/3", "1", "a/b", "1/0"] {
        let error = text.parse::<Shard>().unwrap_err();
        assert!(error.to_string().contains("i/n"), "{text}");
    }
}
