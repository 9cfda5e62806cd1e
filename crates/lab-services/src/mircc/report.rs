//! The report of MIRCC: the plots of the slides.

use std::time::Duration;

use paceline_lab::experiment::Experiment;
use paceline_lab::figure::{self, Figure, Scale};
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::report::Section;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};

use super::ledger::{BIN, Ledger};
use super::measured::Measured;
use super::{Fetching, Settings};
use crate::catalog::CATALOG;

const VISIT: &str = "Consumer 1 fetches over two paths behind one link; consumer 2 fetches over \
    one path during the middle third. Alone, consumer 1 sends primary Interests at the rate of its \
    better path, and secondary Interests at the remaining rate of the shared link. While both \
    fetch, no rate remains, and both get the same. Slides 16 and 25.";

const SETTLING: &str = "Flows arrive at a link of 100 Mbit/s and leave it. MIRCC corrects the \
    whole difference once a round trip; RCP makes many small corrections. Slide 10.";

const SLOW: &str = "The transmission of a Data takes 9 ms here, so that a round trip has three. \
    The stamped rates oscillate by more than 5 %, and the mean rates that flows receive are near \
    their shares. Slide 10.";

const MIX: &str = "A short or long flow starts every half second, behind two branches. Slide 17.";

const TIMES: &str = "Eight consumers of the Abilene backbone fetch an object each: over one path, \
    and over all paths whose next hops are loop-free alternates (RFC 5286). Slide 18.";

/// Points of each line of a plot.
const POINTS: u32 = 300;

/// Rates of flows over a run: totals, and both classes of one that has several paths.
pub(super) fn rates_plot(
    title: &str,
    settings: &Settings,
    ledger: &Ledger,
    until: Duration,
) -> Plot {
    let x = Axis::new("time", "s");
    let y = Axis::new("rate", "Mbit/s");
    let step = (until / POINTS).max(BIN * 5);
    let times = || (0..POINTS).map(|place| step * place).filter(|&from| from + step <= until);
    let line = |flow: usize, pick: fn([f64; 2]) -> f64| {
        let held = &ledger.flows()[flow];
        let rate = move |from: Duration| pick(held.rates(from, from + step)) / 1e6;
        times().map(move |from| ((from + step).as_secs_f64(), rate(from))).collect::<Vec<_>>()
    };
    let mut plot = Plot::new(title, x, y);
    // More lines than that say nothing.
    for flow in 0..settings.plan.steps.len().min(8) {
        let name = format!("C{}", flow + 1);
        plot = plot.with_line(format!("{name} total"), line(flow, |[a, b]| a + b));
        let has_both = ledger.flows()[flow].rates(Duration::ZERO, until)[1] > 1e4;
        if has_both && settings.plan.steps.len() <= 3 {
            plot = plot.with_line(format!("{name} primary"), line(flow, |[a, _]| a));
            plot = plot.with_line(format!("{name} secondary"), line(flow, |[_, b]| b));
        }
    }
    plot
}

/// The sections of the report of `reproduce mircc`.
pub(super) fn sections(
    _figures: &[Figure],
    settings: &figure::Settings,
    progress: &dyn Progress,
) -> Result<Vec<Section>, LabError> {
    let is_quick = settings.scale == Scale::Quick;
    let run = |scenario: &str, sets: &[&str], quick: &[&str]| -> Result<Measured, LabError> {
        let quick = if is_quick { quick } else { &[] };
        let sets = sets.iter().chain(quick);
        let scenario = CATALOG.load(scenario)?.with_sets(sets)?.resolve()?;
        Fetching::measure(&Trial::simulated(&scenario, scenario.seed))
    };
    let until = |measured: &Measured| Duration::from_nanos(measured.outcome.ended.as_nanos());
    let rates = |title: &str, measured: &Measured| {
        rates_plot(title, &measured.settings, &measured.ledger, until(measured))
    };
    let mut sections = Vec::new();
    let mut add = |heading: &str, text: &str, plots: Vec<Plot>| {
        let (heading, text) = (heading.to_owned(), text.to_owned());
        sections.push(Section { heading, text, plots, ..Section::default() });
    };
    progress.start(12, "curves");
    let tick = |plot: Plot| {
        progress.inc(1);
        plot
    };
    let short = ["step=5s", "duration=15s"];
    let mut plots = Vec::new();
    for (title, scenario, sets) in [
        ("15-12-9", "mircc/slingshot-15-12-9", &[][..]),
        ("15-10-10", "mircc/slingshot-15-10-10", &[]),
        ("15-12-9, best path only", "mircc/slingshot-15-12-9", &["multipath=best"]),
        ("15-12-9, the sum of paths", "mircc/slingshot-15-12-9", &["multipath=sum"]),
    ] {
        plots.push(tick(rates(title, &run(scenario, sets, &short)?)));
    }
    add("Two paths behind one link", VISIT, plots);
    let mut plots = Vec::new();
    for (title, set) in [("MIRCC", "controller=mircc"), ("RCP", "controller=rcp")] {
        let measured = run("mircc/convergence", &[set], &["step=1s", "duration=8s"])?;
        plots.push(tick(rates(title, &measured)));
    }
    add("Arrivals and departures", SETTLING, plots);
    let mut plots = Vec::new();
    for (title, set) in [("MIRCC", "controller=mircc"), ("RCP", "controller=rcp")] {
        let measured = run("mircc/slide-10", &[set], &["step=5s", "duration=40s"])?;
        plots.push(tick(rates(title, &measured)));
    }
    add("The same at 250 to 1,000 kbit/s", SLOW, plots);
    let mut plots = Vec::new();
    for (title, scenario) in [
        ("all links of 100 Mbit/s", "mircc/diamond-1"),
        ("branches of 15 and 10 Mbit/s", "mircc/diamond-2"),
    ] {
        let mixed = run(scenario, &[], &["duration=12s"])?;
        plots.extend([tick(received(title, &mixed)), completions(title, &mixed)]);
    }
    add("Short and long flows", MIX, plots);
    let small = ["segments=[200, 800, 3000]"];
    let multi = run("mircc/abilene", &["routing=alternates"], &small)?;
    let single = run("mircc/abilene", &["routing=single"], &small)?;
    add("One path and several", TIMES, vec![tick(times(&multi, &single))]);
    progress.finish();
    Ok(sections)
}

/// What flows have received by when.
fn received(title: &str, measured: &Measured) -> Plot {
    let Measured { settings, ledger, .. } = measured;
    let x = Axis::new("time", "s");
    let y = Axis::new("received", "Mbit");
    let step = (settings.duration / 60).max(BIN);
    let flows = settings.plan.steps.iter().zip(ledger.flows()).filter(|(step, _)| step.is_long);
    flows.take(12).zip(1..).fold(
        Plot::new(format!("Long flows, {title}"), x, y),
        |plot, ((begins, flow), number)| {
            let end = flow.ended().unwrap_or(settings.duration);
            let mut sum = 0.0;
            let mut points = vec![(begins.begins.as_secs_f64(), 0.0)];
            let mut from = begins.begins;
            while from < end {
                sum += flow.rate(from, from + step) * step.as_secs_f64() / 1e6;
                from += step;
                points.push((from.as_secs_f64(), sum));
            }
            plot.with_line(format!("{number}"), points)
        },
    )
}

/// How long flows took.
fn completions(title: &str, measured: &Measured) -> Plot {
    let Measured { settings, ledger, .. } = measured;
    let title = format!("Completion times, {title}");
    let plot = Plot::cdf(title, Axis::new("time", "s"));
    [("short", false), ("long", true)].into_iter().fold(plot, |plot, (name, is_long)| {
        let flows = settings.plan.steps.iter().zip(ledger.flows());
        let took: Vec<f64> = flows
            .filter(|(step, _)| step.is_long == is_long)
            .filter_map(|(_, flow)| Some(flow.took()?.as_secs_f64()))
            .collect();
        if took.is_empty() { plot } else { plot.with_cdf(name, &took) }
    })
}

/// How long each consumer took, over several paths and over one.
fn times(multi: &Measured, single: &Measured) -> Plot {
    let names = multi
        .settings
        .plan
        .steps
        .iter()
        .map(|step| multi.settings.graph.consumers()[step.consumer].name.clone());
    let took = |measured: &Measured| -> Vec<f64> {
        let flows = measured.ledger.flows().iter();
        flows.map(|flow| flow.took().map_or(f64::NAN, |took| took.as_secs_f64())).collect()
    };
    Plot::bars("Delivery time", names, Axis::new("time", "s"))
        .with_group("several paths", took(multi))
        .with_group("one path", took(single))
}
