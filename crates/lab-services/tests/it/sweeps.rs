//! A sweep of a service, and its report.

use paceline_lab::Quiet;
use paceline_lab::report::Report;
use paceline_lab::sweep::{self, Options, Plan};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::simulate;

#[test]
fn a_sweep_is_drawn_along_its_numbers_with_a_series_for_each_of_the_rest() {
    let sets = [
        "sweep.topology.nodes=[2, 4]",
        "sweep.protocol.topology=['chain', 'unicast']",
        "sweep.workload.senders=['one']",
        "duration=20ms",
        "measure.warmup=5ms",
    ];
    let file = CATALOG.load("chain/throughput").unwrap().with_sets(sets).unwrap();
    let plan = Plan::new(&file).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let outcome = sweep::run(&plan, folder.path(), Options::default(), &Quiet, simulate).unwrap();
    assert_eq!(outcome.finished.len(), 4);
    let report = Report::of_sweep(&plan, &outcome.finished);
    let figures = &report.sections[0];
    assert_eq!(figures.plots.len(), 1);
    assert_eq!(figures.plots[0].title, "chain/throughput");
    let svg = figures.plots[0].to_svg();
    assert!(svg.contains("chain") && svg.contains("unicast") && svg.contains("nodes"), "{svg}");
    // The folder says by itself what it holds.
    let again = Plan::of_folder(folder.path(), &CATALOG).unwrap();
    assert_eq!(sweep::merge(&again, &[folder.path().to_owned()]).unwrap(), outcome.finished);
}
