//! The report of the group's figures, and the drawings of a repaired message.

use paceline_lab::experiment::Experiment;
use paceline_lab::figure::{Figure, Settings};
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::report::Section;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};

use super::GroupScenario;
use super::figures::SCENARIOS;
use crate::catalog::CATALOG;

const DROP_OUT: &str = "On a chain every member forwards what it receives. In the published \
    design, when a member crashes, all members behind it lose the blocks in flight at that member. \
    Here the others agree on the next view, and exchange missing blocks before they install it \
    (flush).";

const ORIGIN_DIES: &str = "Here the origin crashes when only its successor has the message. The \
    flush passes the message on, and all members have delivered it when the next view begins.";

const STALLS: &str = "How long surviving members delivered nothing, or were in different views. \
    This includes the time to detect the crash: at most 1.5 s.";

/// The sections of the report of `reproduce group`.
pub(super) fn sections(
    figures: &[Figure],
    settings: &Settings,
    _: &dyn Progress,
) -> Result<Vec<Section>, LabError> {
    let mut sections = Vec::new();
    for (name, heading, text) in [
        ("group/drop-out", "A member drops out", DROP_OUT),
        ("group/origin-dies", "The sender drops out", ORIGIN_DIES),
    ] {
        let scenario = CATALOG.load(name)?.with_sets(&settings.sets)?.resolve()?;
        let seed = settings.seed.unwrap_or(scenario.seed);
        let plots = GroupScenario::run(&Trial::simulated(&scenario, seed))?.drawings;
        let (heading, text) = (heading.to_owned(), text.to_owned());
        sections.push(Section { heading, text, plots, ..Section::default() });
    }
    let times: Vec<&Figure> = figures.iter().filter(|figure| figure.unit == "s").collect();
    let names = SCENARIOS.iter().filter_map(|name| {
        let short = name.strip_prefix("group/")?;
        times.iter().any(|figure| figure.id.starts_with(*name)).then_some(short)
    });
    let plot = Plot::bars("Time until the group delivers again", names, Axis::new("", "s"))
        .with_group("measured", times.iter().map(|figure| figure.measured));
    let (heading, text) = ("Standing still".to_owned(), STALLS.to_owned());
    sections.push(Section { heading, text, plots: vec![plot], ..Section::default() });
    sections.retain(|section| !section.plots.is_empty());
    Ok(sections)
}
