//! The published figures come out of running the protocol, whatever the parameters.

use std::sync::Arc;

use paceline_lab::Quiet;
use paceline_lab::figure::{Figure, Scale, Settings, table};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::services::reproduction;
use paceline_lab_services::{run_on_sockets, simulate};

fn figures(scale: Scale, sets: &[&str]) -> Vec<Figure> {
    let sets = sets.iter().map(|set| set.to_string()).collect();
    let settings = Settings { scale, sets, ..Settings::default() };
    (reproduction("chain").unwrap().figures)(&settings, &Quiet).unwrap()
}

#[test]
fn every_published_figure_is_inside_its_band() {
    let figures = figures(Scale::Quick, &[]);
    print!("{}", table(&figures));
    assert_eq!(figures.len(), 41);
    assert!(figures.iter().all(|figure| figure.pass), "{}", table(&figures));
    let transmissions =
        figures.iter().find(|figure| figure.id == "chain/transmissions/n6").unwrap();
    assert_eq!(transmissions.note, "in the order D-E-F-A-B-C");
}

#[test]
fn only_numbers_that_were_published_stand_in_the_column_of_the_paper() {
    let figures = figures(Scale::Quick, &[]);
    let of = |figure: &Figure| figure.paper.map(|paper| (figure.id.clone(), paper));
    let papers: Vec<(String, f64)> = figures.iter().filter_map(of).collect();
    let expected = [
        ("chain/rounds/unicast/x2-n4", 6.0),
        ("chain/rounds/unicast/x10-n10", 90.0),
        ("chain/rounds/chain/x2-n4", 4.0),
        ("chain/rounds/chain/x10-n10", 18.0),
        ("chain/transmissions/n5", 5.0),
        ("chain/throughput/unicast/all/n4-1gbit-8k", 73.0),
        ("chain/throughput/chain/all/n4-1gbit-8k", 107.0),
        ("chain/incast/unicast/16kib", 73.0),
        ("chain/incast/chain/16kib", 107.0),
        ("chain/incast/gap/16kib", 107.0 / 73.0),
    ];
    for (id, paper) in expected {
        assert!(papers.contains(&(id.to_owned(), paper)), "{id} {paper}: {papers:?}");
    }
    assert_eq!(papers.len(), expected.len(), "{papers:?}");
}

#[test]
fn sockets_refuse_streams_that_only_the_simulator_has() {
    let scenario = CATALOG.load("chain/incast").unwrap().resolve().unwrap();
    let refused = run_on_sockets(Arc::new(scenario), 1, None, &Quiet).unwrap_err().to_string();
    assert!(refused.contains("streams = \"tcp\" is a model of the simulator"), "{refused}");
}

#[test]
fn other_sizes_give_the_same_ids_from_the_same_scenario() {
    for (topology, blocks, nodes, rounds) in [
        ("chain", 7, 5, 10.0),
        ("unicast", 3, 6, 15.0),
        ("tree", 2, 9, 8.0),
        ("pipeline", 40, 13, 43.0),
    ] {
        let sets =
            [format!("topology={topology}"), format!("blocks={blocks}"), format!("nodes={nodes}")];
        let scenario = CATALOG.load("chain/rounds").unwrap().with_sets(sets).unwrap().resolve();
        let result = simulate(&scenario.unwrap(), 3).unwrap();
        let figure = &result.figures[0];
        assert_eq!(figure.id, format!("chain/rounds/{topology}/x{blocks}-n{nodes}"));
        assert_eq!(figure.measured, rounds, "{}", figure.id);
    }
}

#[test]
fn digests_are_equal_again_and_through_the_codec() {
    for name in ["chain/faults", "chain/ten", "chain/six"] {
        let run = |sets: &[&str]| {
            let scenario = CATALOG.load(name).unwrap().with_sets(sets).unwrap().resolve().unwrap();
            simulate(&scenario, 5).unwrap()
        };
        let (first, again, codec) = (run(&[]), run(&[]), run(&["protocol.check_wire=true"]));
        assert!(first.digest.is_some());
        assert_eq!(first.digest, again.digest, "{name}");
        assert_eq!(first.digest, codec.digest, "{name} through the codec");
        assert_eq!(first.deliveries, codec.deliveries, "{name}");
        let missing =
            first.summary.iter().find(|metric| metric.metric == "messages_missing").unwrap();
        assert_eq!(missing.value, 0.0, "{name}: {:?}", first.summary);
    }
}
