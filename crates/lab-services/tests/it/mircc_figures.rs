//! The published figures of MIRCC come out of running the protocol.

use paceline_lab::Quiet;
use paceline_lab::figure::{Figure, Scale, Settings, table};
use paceline_lab_services::services::reproduction;

fn figures() -> Vec<Figure> {
    let mircc = reproduction("mircc").expect("it is one of them");
    let settings = Settings { scale: Scale::Quick, ..Settings::default() };
    (mircc.figures)(&settings, &Quiet).expect("it runs")
}

#[test]
fn every_published_figure_is_inside_its_band() {
    let figures = figures();
    print!("{}", table(&figures));
    assert!(figures.iter().all(|figure| figure.pass), "{}", table(&figures));
    // A figure is a run: what a run did not see has none.
    let is_worked = |figure: &Figure| figure.id.starts_with("mircc/worked/");
    for figure in figures.iter().filter(|figure| !is_worked(figure)) {
        assert!(figure.digest.is_some(), "{}", figure.id);
        assert!(figure.low != figure.high || figure.low.is_none(), "{} is a constant", figure.id);
    }
}
