//! What a report says of walks: plots like those of the slides, and those they leave out.

use super::figures::RATIOS;
use super::ledger::Home;
use super::run::{Measured, measured};
use super::{Measure, Method};
use crate::LabError;
use crate::figure::{self, Figure, Scale};
use crate::progress::{Progress, Quiet};
use crate::report::{Axis, Plot, Section};
use crate::scenario::ScenarioFile;

const METHODS: &str = "Three servers, a hundred vertices each, 10,000 walks from every vertex. RED \
    with sources that pause (rq-rg) takes little longer than sources that never pause, and loses \
    little more than sources that always do. What RED would drop can be marked instead \
    (mark-exact): no walk is lost, and none is done in the place of another.";

const QUEUE: &str = "The queue of server 3, which three of five visits go to. RED keeps it short; \
    with tail drop it is full most of the time.";

const WHERE: &str = "Nearly all walkers are dropped where the graph is dense, whoever sent them.";

const TOPOLOGY: &str = "Additional walks, thousands, by how many times B is A and C is B.";

const BIAS: &str = "Where other walks take the place of those that were lost, short walks finish \
    more often than long ones. Walks that are done again keep their length.";

/// The drawings of a run.
pub(super) fn drawings(measured: &Measured) -> Vec<Plot> {
    let mut plots = vec![lengths(&[measured])];
    if measured.settings.measure != Measure::E3 {
        plots.extend(queues(&[measured]));
    }
    plots
}

/// The queue of the last server over time.
fn queues(runs: &[&Measured]) -> Option<Plot> {
    let plot =
        Plot::new("Queue of the last server", Axis::new("time", "s"), Axis::new("walkers", ""));
    let mut is_empty = true;
    let plot = runs.iter().fold(plot, |plot, measured| {
        let Some(samples) = measured.watch.as_ref().and_then(|watch| watch.samples.last()) else {
            return plot;
        };
        is_empty = false;
        let points = samples.iter().map(|sample| (sample.at.as_secs_f64(), sample.queue as f64));
        plot.with_line(measured.settings.method.name(), points.collect::<Vec<_>>())
    });
    (!is_empty).then_some(plot)
}

/// How many hops the walks have that finished, beside what is drawn for them.
fn lengths(runs: &[&Measured]) -> Plot {
    let x = Axis::new("hops", "");
    let plot = Plot::new("Lengths of finished walks", x, Axis::new("share of walks", ""));
    let plot = runs.iter().fold(plot, |plot, measured| {
        let homes = measured.ledger.homes();
        let walks: u64 = homes.iter().map(|home| home.walks).sum();
        let count =
            |hops: usize| -> u64 { homes.iter().filter_map(|home| home.by_hops.get(hops)).sum() };
        let points: Vec<(f64, f64)> =
            (0..16).map(|hops| (hops as f64, count(hops) as f64 / walks.max(1) as f64)).collect();
        plot.with_line(measured.settings.method.name(), points)
    });
    match runs.first().map(|measured| measured.settings.length) {
        Some(paceline_proto::walk::Length::Geometric { end, .. }) => {
            let end = end.probability();
            let share = |hops: i32| (f64::from(hops), end * (1.0 - end).powi(hops));
            plot.with_line("drawn", (0..16).map(share).collect::<Vec<_>>())
        }
        _ => plot,
    }
}

/// The sections of the report of `reproduce walk`.
pub(super) fn sections(
    figures: &[Figure],
    settings: &figure::Settings,
    progress: &dyn Progress,
) -> Result<Vec<Section>, LabError> {
    let walks = if settings.scale == Scale::Quick { "walks=300" } else { "walks=2000" };
    let run = |method: Method| -> Result<Measured, LabError> {
        let method = format!("method={}", method.name());
        let sets = [method.as_str(), walks];
        let scenario = ScenarioFile::load("walk/e2")?.with_sets(sets)?.resolve()?;
        let measured = measured(&scenario, scenario.seed, None, &Quiet)?;
        progress.inc(1);
        Ok(measured)
    };
    progress.start(4, "curves");
    let red = run(Method::RqRg)?;
    let tail = run(Method::TailRg)?;
    let free = run(Method::RqSleep0)?;
    let mark = run(Method::MarkExact)?;
    progress.finish();
    let section = |heading: &str, text: &str, plots: Vec<Plot>| Section {
        heading: heading.to_owned(),
        text: text.to_owned(),
        plots,
        ..Section::default()
    };
    Ok(vec![
        section("Experiment 1", METHODS, methods(figures)),
        section("Experiment 2", QUEUE, queues(&[&red, &tail, &mark]).into_iter().collect()),
        section("Where walkers are dropped", WHERE, vec![dropped(&[&red, &tail, &free])]),
        section("Experiment 3", TOPOLOGY, vec![cells(figures, "red"), cells(figures, "tail")]),
        section("Bias", BIAS, vec![lengths(&[&red, &tail, &free, &mark])]),
    ])
}

/// Bars of experiment 1: times and additional walks, measured and published.
fn methods(figures: &[Figure]) -> Vec<Plot> {
    let of = |what: &str| -> Vec<&Figure> {
        let is_it = |figure: &&Figure| {
            let parts: Vec<&str> = figure.id.split('/').collect();
            parts.len() == 4 && parts[..2] == ["walk", "e1"] && parts[3] == what
        };
        figures.iter().filter(is_it).collect()
    };
    let bars = |title: &str, what: &str, axis: Axis| {
        let figures = of(what);
        let names = figures.iter().filter_map(|figure| figure.id.split('/').nth(2));
        let measured: Vec<f64> = figures.iter().map(|figure| figure.measured).collect();
        let paper: Vec<f64> =
            figures.iter().map(|figure| figure.paper.unwrap_or(f64::NAN)).collect();
        Plot::bars(title, names.map(str::to_owned), axis)
            .with_group("measured", measured)
            .with_group("paper", paper)
    };
    vec![
        bars("Time", "time-s", Axis::new("time", "s")),
        bars("Additional walks", "additional", Axis::new("walks", "")),
    ]
}

/// Where walkers were dropped.
fn dropped(runs: &[&Measured]) -> Plot {
    let servers = runs.first().map_or(0, |measured| measured.ledger.homes().len());
    let names = (1..=servers).map(|server| format!("server {server}"));
    let plot = Plot::bars("Dropped walkers", names, Axis::new("walkers", ""));
    runs.iter().fold(plot, |plot, measured| {
        let homes = measured.ledger.homes().iter();
        let counts: Vec<f64> = homes.map(|home: &Home| home.dropped as f64).collect();
        plot.with_group(measured.settings.method.name(), counts)
    })
}

/// Additional walks of experiment 3, by A:B and B:C.
fn cells(figures: &[Figure], method: &str) -> Plot {
    let value = |b: u32, c: u32| {
        let id = format!("walk/e3/additional/a1-b{b}-c{c}/{method}");
        let found = figures.iter().find(|figure| figure.id == id);
        found.map_or(f64::NAN, |figure| figure.measured / 1e3)
    };
    let columns = RATIOS.map(|c| format!("B:C = 1:{c}"));
    let rows = RATIOS.map(|b| (format!("1:{b}"), RATIOS.map(|c| value(b, c)).to_vec()));
    Plot::heat(format!("With {method}, by A:B"), columns, rows)
}
