//! The report of the overlay figures: their plots.

use paceline_lab::experiment::Experiment;
use paceline_lab::figure::{Figure, Settings};
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::report::Section;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};
use paceline_proto::overlay::Algorithm;

use super::Requests;
use crate::catalog::CATALOG;

const PACKETS: &str = "Messages to put and then get all keys in bundles of ten, relative to the \
    messages one by one. Adjacent keys share all of their route except the last hops, so that ten \
    cost little more than one; random keys share only the first hops, and more of them on longer \
    routes. The published worst case of 34 % is that of Kademlia, whose full buckets ping. With a \
    ping at each mention of a node, as in the published implementation, the measured share is \
    lower than published; without these pings it is far lower. The published figure is not \
    reproduced.";

const TIME: &str = "Time in which one node gets all keys, with each request sent after the reply \
    to the one before. A bundle is complete with its last reply; ten clients have ten requests \
    outstanding.";

const BUNDLES: &str = "Forwardings of clustered bundles against their size, on Chord. The lower \
    bound for a bundle of b keys is 1 / b.";

const TREE: &str = "Sixteen keys that one of 128 nodes gets on Chord. Every arrow is a message \
    from a node to the next hop; nodes are drawn at their positions on the ring. A bundle is split \
    where the routes of its keys diverge.";

/// The sections of the report of `reproduce overlay`.
pub(super) fn sections(
    figures: &[Figure],
    settings: &Settings,
    _: &dyn Progress,
) -> Result<Vec<Section>, LabError> {
    let mut sections = Vec::new();
    let mut add = |heading: &str, text: &str, plots: Vec<Plot>| {
        let (heading, text) = (heading.to_owned(), text.to_owned());
        sections.push(Section { heading, text, plots, ..Section::default() });
    };
    let packets = ["recursive", "iterative"].map(|style| packets(figures, style));
    add("Messages", PACKETS, packets.into_iter().flatten().collect());
    add("Time", TIME, time(figures).into_iter().collect());
    add("Bundle size", BUNDLES, bundles(figures).into_iter().collect());
    let scenario = CATALOG.load("overlay/tree")?.resolve()?;
    let seed = settings.seed.unwrap_or(scenario.seed);
    add("How a bundle spreads", TREE, Requests::run(&Trial::simulated(&scenario, seed))?.drawings);
    sections.retain(|section| !section.plots.is_empty());
    Ok(sections)
}

fn measured(figures: &[Figure], id: &str) -> f64 {
    figures.iter().find(|figure| figure.id == id).map_or(f64::NAN, |figure| figure.measured)
}

fn published(figures: &[Figure], id: &str) -> f64 {
    let figure = figures.iter().find(|figure| figure.id == id);
    figure.and_then(|figure| figure.paper).unwrap_or(f64::NAN)
}

fn packets(figures: &[Figure], style: &str) -> Option<Plot> {
    let names: Vec<String> = Algorithm::ALL
        .map(|algorithm| algorithm.name().to_owned())
        .into_iter()
        .chain(["kademlia-ping".to_owned()])
        .filter(|name| {
            measured(figures, &format!("overlay/packets/{name}/{style}/clustered")).is_finite()
        })
        .collect();
    if names.is_empty() {
        return None;
    }
    let ids = |grouping: &'static str| {
        names.iter().map(move |name| format!("overlay/packets/{name}/{style}/{grouping}"))
    };
    let plot = Plot::bars(format!("Messages, {style}"), names.clone(), Axis::new("of serial", ""))
        .with_group("random", ids("random").map(|id| measured(figures, &id)))
        .with_group("clustered", ids("clustered").map(|id| measured(figures, &id)))
        .with_paper_group("published", ids("clustered").map(|id| published(figures, &id)));
    Some(plot)
}

fn time(figures: &[Figure]) -> Option<Plot> {
    let ways = ["bundle-random", "bundle-clustered", "clients-10", "both"];
    let id = |algorithm: &str, way: &str| format!("overlay/time/{algorithm}/{way}");
    let names: Vec<&str> = Algorithm::ALL
        .map(Algorithm::name)
        .into_iter()
        .filter(|name| measured(figures, &id(name, ways[0])).is_finite())
        .collect();
    if names.is_empty() {
        return None;
    }
    let axis = Axis::new("of serial, one client", "").with_log();
    let mut plot = Plot::bars("Time of 10,000 gets", ways, axis);
    for name in &names {
        plot = plot.with_group(*name, ways.map(|way| measured(figures, &id(name, way))));
    }
    let paper = ways.map(|way| published(figures, &id("chord", way)));
    Some(plot.with_paper_group("published, Chord", paper))
}

fn bundles(figures: &[Figure]) -> Option<Plot> {
    let of = |figure: &Figure| {
        let size = figure.id.strip_prefix("overlay/bundle/")?.parse::<f64>().ok()?;
        Some((size, figure.measured))
    };
    let points: Vec<(f64, f64)> = figures.iter().filter_map(of).collect();
    if points.is_empty() {
        return None;
    }
    let limit: Vec<(f64, f64)> = points.iter().map(|&(size, _)| (size, 1.0 / size)).collect();
    let x = Axis::new("keys of a bundle", "").with_log();
    let y = Axis::new("forwardings, of serial", "").with_log();
    Some(
        Plot::new("Forwardings against bundle size", x, y)
            .with_line("clustered", points)
            .with_paper("1 / b", limit),
    )
}
