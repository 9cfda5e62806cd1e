//! The plots of runs of walks in a report.

use std::sync::{Mutex, PoisonError};

use paceline_lab::figure;
use paceline_lab::plot::{Axis, Plot};

use super::Measure;
use super::ledger::Home;
use super::measured::Measured;

/// What is drawn of the runs behind figures, and how large they were.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    /// Queues of the last server, where they were seen.
    pub queues: Option<Plot>,
    /// Where walkers were dropped.
    pub dropped: Plot,
    /// Lengths of walks.
    pub lengths: Plot,
    /// Servers, vertices of each, and walks from every vertex in experiment 1.
    pub sizes: (usize, u32, u32),
}

impl Curves {
    /// Of the runs of experiment 1, at least one, and of those whose queues are shown.
    pub(super) fn of(runs: &[&Measured], queued: &[&Measured]) -> Curves {
        let settings = &runs[0].settings;
        let servers = settings.owners.servers().len();
        // Runs in which walks are done again drop nothing.
        let dropping: Vec<&Measured> = runs.iter().copied().filter(|run| drops(run)).collect();
        Curves {
            queues: queues(queued),
            dropped: dropped(&dropping),
            lengths: lengths(runs),
            sizes: (servers, settings.block, settings.walks),
        }
    }
}

fn drops(run: &Measured) -> bool {
    run.ledger.homes().iter().any(|home| home.dropped > 0)
}

/// The curves of the latest figures, so that a report draws the very runs of its table without
/// running them twice.
static KEPT: Mutex<Option<(figure::Settings, Curves)>> = Mutex::new(None);

/// Keeps what the runs of these settings gave.
pub(super) fn keep(settings: &figure::Settings, curves: Option<Curves>) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    *kept = curves.map(|curves| (settings.clone(), curves));
}

/// What was kept of the runs of these settings.
pub(super) fn kept(settings: &figure::Settings) -> Option<Curves> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.as_ref().filter(|(of, _)| of == settings).map(|(_, curves)| curves.clone())
}

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
