//! Reports: one self-contained HTML file, for screen and paper.

mod html;
mod sweep;

use std::collections::BTreeMap;

use crate::figure::{Figure, number};
use crate::machine::Machine;
use crate::plot::{Axis, Mark, Plot};
use crate::run::{Metric, Run, Sample, WorldKind};
use crate::scenario::Catalog;

/// What a report shows, from top to bottom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// A sentence below the title.
    pub about: String,
    /// What ran: names and values.
    pub facts: Vec<(String, String)>,
    /// What it ran on.
    pub machine: Option<Machine>,
    /// Sections, each with its own heading.
    pub sections: Vec<Section>,
    /// The scenario, at the end, so that a reader can repeat the run.
    pub scenario_toml: Option<String>,
}

/// A part of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// A paragraph below the heading; empty for none.
    pub text: String,
    /// Figures, as a table.
    pub figures: Vec<Figure>,
    /// Numbers without a band, as a table.
    pub metrics: Vec<Metric>,
    /// Plots.
    pub plots: Vec<Plot>,
}

impl Report {
    /// The report of one run: its figures, its summary, and its series over time. The catalog is
    /// that of the run's scenario.
    pub fn of_run(run: &Run, catalog: &'static Catalog) -> Report {
        let manifest = &run.manifest;
        let fact = |name: &str, value: String| (name.to_owned(), value);
        let world = match manifest.world {
            WorldKind::Sim => "simulator",
            WorldKind::Sockets => "sockets",
        };
        let mut facts = vec![
            fact("protocol", manifest.service.clone()),
            fact("world", world.to_owned()),
            fact("seed", manifest.seed.to_string()),
            fact("events", manifest.events.to_string()),
        ];
        facts.extend(manifest.digest.clone().map(|digest| fact("digest", digest)));
        facts.push(fact("took", format!("{} s", number(manifest.wall_s))));
        facts.push(fact("written", manifest.written.clone()));
        facts.push(fact("Paceline", manifest.paceline.clone()));
        let result = &run.result;
        let section = |heading: &str| Section { heading: heading.to_owned(), ..Section::default() };
        let sections = [
            Section { figures: result.figures.clone(), ..section("Figures") },
            Section { metrics: result.summary.clone(), ..section("Summary") },
            Section { plots: result.drawings.clone(), ..section("What happened") },
            Section {
                plots: with_faults(series_plots(&result.series), run, catalog),
                ..section("Over time")
            },
        ];
        Report {
            title: manifest.scenario.clone(),
            about: manifest.about.clone(),
            facts,
            machine: Some(manifest.machine.clone()),
            sections: sections.into_iter().filter(|section| !section.is_empty()).collect(),
            scenario_toml: Some(run.scenario_toml.clone()),
        }
    }

    /// The report as one HTML document without scripts or anything from elsewhere.
    pub fn to_html(&self) -> String {
        html::document(self)
    }
}

impl Section {
    fn is_empty(&self) -> bool {
        self.text.is_empty()
            && self.figures.is_empty()
            && self.metrics.is_empty()
            && self.plots.is_empty()
    }
}

/// Faults that a caption names.
const FAULTS_NAMED_MAX: usize = 12;

/// The plots over time of a run, with the faults of its scenario marked and named.
fn with_faults(plots: Vec<Plot>, run: &Run, catalog: &'static Catalog) -> Vec<Plot> {
    let scenario = catalog.parse("run.toml", &run.scenario_toml);
    let faults = scenario.and_then(|file| file.resolve()).map(|scenario| scenario.faults);
    let end = run.result.series.iter().map(|sample| sample.time_s).fold(0.0, f64::max);
    let faults: Vec<(f64, String)> = faults
        .unwrap_or_default()
        .iter()
        .map(|timed| (timed.at.as_secs_f64(), timed.fault.describe()))
        .filter(|(at, _)| *at <= end)
        .collect();
    if faults.is_empty() {
        return plots;
    }
    let named = faults.iter().take(FAULTS_NAMED_MAX);
    let named: Vec<String> = named.map(|(at, what)| format!("{} s {what}", number(*at))).collect();
    let mut caption = format!("Faults: {}", named.join("; "));
    if faults.len() > FAULTS_NAMED_MAX {
        caption.push_str(&format!("; and {} more", faults.len() - FAULTS_NAMED_MAX));
    }
    let mark = |plot: Plot| {
        let times = faults.iter().map(|&(at, _)| (at, f64::NAN));
        plot.with_layer("faults", Mark::Rules, times).with_caption(format!("{caption}."))
    };
    plots.into_iter().map(mark).collect()
}

/// Nodes that a plot over time shows one by one; more are summed up as least, mean and most.
const NODES_SHOWN_MAX: usize = 6;

type ByNode = BTreeMap<Option<u32>, Vec<(f64, f64)>>;

/// One plot over time for each metric of a series.
pub fn series_plots(series: &[Sample]) -> Vec<Plot> {
    let mut metrics: BTreeMap<&str, ByNode> = BTreeMap::new();
    for sample in series {
        let nodes = metrics.entry(&sample.metric).or_default();
        nodes.entry(sample.node).or_default().push((sample.time_s, sample.value));
    }
    let plots = metrics.into_iter().map(|(metric, nodes)| {
        let plot = Plot::new(metric.replace('_', " "), Axis::new("time", "s"), Axis::default());
        let count = nodes.len();
        if count <= NODES_SHOWN_MAX {
            return nodes.into_iter().fold(plot, |plot, (node, points)| match node {
                Some(node) => plot.with_line(format!("node {node}"), points),
                None if count == 1 => plot.with_line("", points),
                None => plot.with_line("all", points),
            });
        }
        let [low, mean, high] = envelope(nodes.values());
        plot.with_line("most", high)
            .with_line(format!("mean of {count} nodes"), mean)
            .with_line("least", low)
    });
    plots.collect()
}

/// Least, mean and most of all nodes, over slots of time so that nodes need not sample in step.
fn envelope<'a>(nodes: impl Iterator<Item = &'a Vec<(f64, f64)>>) -> [Vec<(f64, f64)>; 3] {
    const SLOTS: f64 = 100.0;
    let points: Vec<(f64, f64)> = nodes.flatten().copied().filter(|p| p.1.is_finite()).collect();
    let end = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let mut slots: BTreeMap<u64, (f64, f64, f64, f64, f64)> = BTreeMap::new();
    for (time, value) in points {
        let slot = if end > 0.0 { (time / end * SLOTS) as u64 } else { 0 };
        let entry = slots.entry(slot).or_insert((0.0, 0.0, 0.0, value, value));
        *entry = (
            entry.0 + 1.0,
            entry.1 + time,
            entry.2 + value,
            entry.3.min(value),
            entry.4.max(value),
        );
    }
    let line = |pick: fn(&(f64, f64, f64, f64, f64)) -> f64| {
        slots.values().map(|slot| (slot.1 / slot.0, pick(slot))).collect()
    };
    [line(|slot| slot.3), line(|slot| slot.2 / slot.0), line(|slot| slot.4)]
}

#[cfg(test)]
mod tests;
