use askama::Template;

use super::Report;
use crate::figure::{Figure, number};
use crate::standing::Tally;

/// The report as one HTML document. The template `report.html` defines its layout.
#[derive(Template)]
#[template(path = "report.html")]
struct Document<'a> {
    style: &'static str,
    report: &'a Report,
    /// Whether all figures are in their bands, and what they show; nothing without figures.
    verdict: Option<(Class, String)>,
    machine: Option<String>,
}

/// How a verdict looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Good,
    Bad,
    Neutral,
}

impl Class {
    /// The class in the style sheet.
    fn name(self) -> &'static str {
        match self {
            Class::Good => "ok",
            Class::Bad => "fail",
            Class::Neutral => "",
        }
    }
}

/// The report as one HTML document.
pub(super) fn document(report: &Report) -> String {
    let document = Document {
        style: include_str!("style.css"),
        report,
        verdict: verdict(report),
        machine: report.machine.as_ref().map(|machine| machine.describe()),
    };
    document.render().expect("rendering into memory does not fail")
}

/// What the figures show: how many published values are reproduced, and what is judged by our own
/// bands only. Red if a figure is out of its band.
fn verdict(report: &Report) -> Option<(Class, String)> {
    let all = report.sections.iter().flat_map(|section| &section.figures);
    let failed = all.clone().filter(|figure| !figure.pass).count();
    let said = Tally::of(all).sentence();
    match (said.is_empty(), failed) {
        (true, _) => None,
        (false, 0) => Some((Class::Good, said)),
        (false, count) => {
            let are = if count == 1 { "figure is" } else { "figures are" };
            Some((Class::Bad, format!("{count} {are} out of band. {said}")))
        }
    }
}

/// The verdict on one figure.
fn judged(figure: &Figure) -> (Class, &'static str) {
    match figure.verdict() {
        "FAIL" => (Class::Bad, "\u{2717} out of band"),
        "ok" => (Class::Good, "\u{2713} in band"),
        "differs" => (Class::Neutral, "in band, not the published number"),
        _ => (Class::Neutral, "shown"),
    }
}

/// The published value, or a dash.
fn published(figure: &Figure) -> String {
    figure.paper.map_or("\u{2013}".to_owned(), number)
}
