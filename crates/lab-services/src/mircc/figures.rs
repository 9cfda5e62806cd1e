//! The published figures of MIRCC beside what the protocol measures.

use paceline_lab::experiment::Experiment;
use paceline_lab::figure::{self, Figure, Scale};
use paceline_lab::parallel::costliest_first;
use paceline_lab::run::RunResult;
use paceline_lab::scenario::Scenario;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};
use paceline_proto::mircc::{Algorithm, Multipath};

use super::abilene::{self, Times};
use super::measured::{Measured, controller_name};
use super::{Fetching, Measure, mix, settling, worked};
use crate::catalog::CATALOG;

/// How far a rate may be from the oracle's, as a share.
const NEAR: f64 = 0.03;

/// The figures that a scenario asks for.
pub(super) fn figures_of_run(
    scenario: &Scenario,
    measured: &Measured,
) -> Result<Vec<Figure>, LabError> {
    Ok(match measured.settings.measure {
        Measure::Rates | Measure::Times => Vec::new(),
        Measure::Convergence => settling::convergence(&scenario.name, measured)?,
        Measure::Settling => settling::distances(&scenario.name, measured)?,
        Measure::LowRate => low_rate(measured),
        Measure::Visit => visit(&scenario.name, measured),
        Measure::Mix => mix::figures(&scenario.name, measured)?,
    })
}

/// Before, during and after a second consumer's visit.
fn visit(name: &str, measured: &Measured) -> Vec<Figure> {
    let Measured { settings, held, .. } = measured;
    let joint = settings.graph.links().iter().find(|link| link.name == "la");
    let Some(joint) = joint.map(|link| link.rates[0].bits_per_second() as f64 / 1e6) else {
        return Vec::new();
    };
    let mut figures = Vec::new();
    let is_rcp = settings.config.controller.algorithm == Algorithm::Rcp;
    for (time, held) in ["before", "during", "after"].into_iter().zip(held) {
        let mode = match settings.multipath {
            Multipath::Dual => "",
            Multipath::Best => "/best",
            Multipath::Sum => "/sum",
        };
        let is_compared = settings.multipath != Multipath::Dual || is_rcp;
        let id = |what: &str| format!("{name}{mode}/{time}/{what}");
        let figure = |what: &str, rate: f64| Figure::new(id(what), rate, "Mbit/s");
        let near = |figure: Figure, expected: f64| match (is_compared, expected > 0.0) {
            (true, _) => figure,
            (false, true) => figure.with_band(expected * (1.0 - NEAR), expected * (1.0 + NEAR)),
            // What is left for a flow of which there is nothing left is what keeps stamps fresh.
            (false, false) => figure.with_band(0.0, 0.01 * joint),
        };
        let mbit = |rate: f64| rate / 1e6;
        let totals = held.totals();
        let oracle = (held.dual.totals(), held.dual.secondary_totals());
        if !is_compared {
            let [primary, secondary] = held.measured[0].map(mbit);
            figures.push(near(figure("c1-primary", primary), mbit(held.dual.primary[0])));
            figures.push(near(figure("c1-secondary", secondary), mbit(oracle.1[0])));
        }
        let max_min = |place: usize| {
            format!("multipath max-min: {}", figure::number(mbit(held.max_min[place])))
        };
        let first = near(figure("c1-total", mbit(totals[0])), mbit(oracle.0[0]));
        figures.push(first.with_note(max_min(0)));
        // Only while the second consumer is there has it a rate to show.
        if let Some(&total) = totals.get(1) {
            let second = near(figure("c2-total", mbit(total)), mbit(oracle.0[1]));
            figures.push(second.with_note(max_min(1)));
        }
        if !is_compared {
            let load = mbit(totals.iter().sum());
            let is_full = oracle.0.iter().sum::<f64>() / 1e6 > 0.94 * joint;
            let link = figure("joint-link", load);
            figures.push(if is_full { link.with_band(0.94 * joint, 0.96 * joint) } else { link });
        }
    }
    if measured.settings.multipath != Multipath::Dual {
        figures.retain(|figure| !figure.id.contains("/after/"));
    }
    figures
}

/// The share of a slow link that flows use.
fn low_rate(measured: &Measured) -> Vec<Figure> {
    let Measured { settings, held, .. } = measured;
    let middle = settings.graph.links().iter().find(|link| link.name == "middle");
    let Some((held, middle)) = held.first().zip(middle) else { return Vec::new() };
    let share = held.totals().iter().sum::<f64>() / middle.rates[0].bits_per_second() as f64;
    let id = format!("mircc/low-rate/{}", controller_name(settings));
    vec![Figure::new(id, share, "of C")]
}

/// A run behind figures.
struct Job {
    scenario: &'static str,
    sets: Vec<String>,
    seed: Option<u64>,
    // About how long it takes, beside the others.
    cost: u64,
    gives: Gives,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gives {
    Figures,
    // Times of all flows, over several paths or one.
    Times,
}

enum Given {
    Figures(Vec<Figure>),
    Times(Times),
    Nothing,
}

/// Seeds of figures that chance has a part in.
const MIX_SEEDS: u64 = 5;
const ABILENE_SEEDS: u64 = 40;
const ABILENE_SEEDS_QUICK: u64 = 10;

fn jobs(settings: &figure::Settings) -> Vec<Job> {
    let quick = settings.scale == Scale::Quick;
    let mut jobs = Vec::new();
    let mut add = |scenario, sets: &[&str], seed, cost, gives| {
        let sets = sets.iter().map(|&set| set.to_owned()).collect();
        jobs.push(Job { scenario, sets, seed, cost, gives });
    };
    let short: &[&str] = if quick { &["step=5s", "duration=15s"] } else { &[] };
    for scenario in ["mircc/slingshot-15-12-9", "mircc/slingshot-15-10-10"] {
        add(scenario, short, None, 2, Gives::Figures);
    }
    for mode in ["multipath=best", "multipath=sum"] {
        let sets = [&[mode], short].concat();
        add("mircc/slingshot-15-12-9", &sets, None, 2, Gives::Figures);
    }
    for controller in ["controller=mircc", "controller=rcp"] {
        let short: &[&str] = if quick { &["step=1s", "duration=8s"] } else { &[] };
        add("mircc/convergence", &[&[controller], short].concat(), None, 10, Gives::Figures);
    }
    for controller in ["controller=mircc", "controller=rcp"] {
        add("mircc/slide-10", &[controller], None, 1, Gives::Figures);
        let short: &[&str] = if quick { &["duration=30s"] } else { &[] };
        add("mircc/low-rate", &[&[controller], short].concat(), None, 1, Gives::Figures);
    }
    let seeds = if quick { 1 } else { MIX_SEEDS };
    for (scenario, cost) in [("mircc/diamond-1", 60), ("mircc/diamond-2", 15)] {
        let short: &[&str] = if quick { &["duration=12s"] } else { &[] };
        for seed in 1..=seeds {
            add(scenario, short, Some(seed), cost, Gives::Figures);
        }
    }
    let seeds = if quick { ABILENE_SEEDS_QUICK } else { ABILENE_SEEDS };
    for seed in 1..=seeds {
        for routing in ["routing=single", "routing=alternates"] {
            let segments = "segments=[200, 800, 3000]";
            let sets = if quick { vec![routing, segments] } else { vec![routing] };
            add("mircc/abilene", &sets, Some(seed), 12, Gives::Times);
        }
    }
    jobs
}

pub(super) fn reproduce(
    settings: &figure::Settings,
    progress: &dyn Progress,
) -> Result<Vec<Figure>, LabError> {
    let jobs = jobs(settings);
    progress.start(jobs.len() as u64 + 1, "mircc");
    let run_one = |job: &Job| -> Result<Given, LabError> {
        if progress.stopped() {
            return Ok(Given::Nothing);
        }
        let given = run_job(job, settings)?;
        progress.inc(1);
        Ok(given)
    };
    let given = costliest_first(&jobs, |job| job.cost, run_one);
    let given = given.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut figures = worked::figures();
    let mut times = Vec::new();
    for given in given {
        match given {
            Given::Figures(found) => figures.extend(found),
            Given::Times(found) => times.push(found),
            Given::Nothing => {}
        }
    }
    let mut figures = over_seeds(figures);
    compare_controllers(&mut figures);
    figures.extend(abilene::figures(&times, settings.scale));
    progress.inc(1);
    progress.finish();
    Ok(figures)
}

fn run_job(job: &Job, settings: &figure::Settings) -> Result<Given, LabError> {
    // The user's settings come last, as far as the scenario has such a key.
    let sets = job.sets.iter().map(String::as_str);
    let file = CATALOG.load(job.scenario)?.with_sets(sets)?;
    let file = file.with_sets(settings.sets.iter().filter(|set| takes(job.scenario, set)))?;
    let scenario = file.resolve()?;
    let seed = settings.seed.or(job.seed).unwrap_or(scenario.seed);
    let measured = Fetching::measure(&Trial::simulated(&scenario, seed))?;
    let run = RunResult {
        events: measured.outcome.events,
        digest: measured.outcome.digest.clone(),
        ..RunResult::default()
    };
    Ok(match job.gives {
        Gives::Figures => {
            let figures = figures_of_run(&scenario, &measured)?.into_iter();
            Given::Figures(figures.map(|f| f.with_run(&scenario.name, seed, &run)).collect())
        }
        Gives::Times => Given::Times(Times::of(&scenario.name, seed, &measured, run)?),
    })
}

/// Keys of networks, which only their own scenarios take.
const NETWORK_KEYS: [(&str, &[&str]); 4] = [
    ("mircc/slingshot", &["joint", "left", "right", "second", "hop_delay"]),
    (
        "mircc/diamond",
        &["bottleneck", "upper", "lower", "hop_delay", "short", "long", "long_share"],
    ),
    ("mircc/abilene", &["bottleneck", "host_rate", "host_delay", "segments"]),
    ("mircc/", &["bottleneck", "host_rate", "host_delay", "hop_delay", "flows"]),
];

/// True unless the override is of another network than the scenario's.
fn takes(scenario: &str, set: &str) -> bool {
    let key = set.split('=').next().unwrap_or_default().trim();
    let key = key.rsplit('.').next().unwrap_or_default();
    let own = NETWORK_KEYS.iter().find(|(name, _)| scenario.starts_with(name));
    let is_of_networks = NETWORK_KEYS.iter().any(|(_, keys)| keys.contains(&key));
    !is_of_networks || own.is_some_and(|(_, keys)| keys.contains(&key))
}

/// One figure of those that several seeds gave: their mean, and the first seed's run.
fn over_seeds(figures: Vec<Figure>) -> Vec<Figure> {
    let mut merged: Vec<(Figure, Vec<f64>)> = Vec::new();
    for figure in figures {
        match merged.iter_mut().find(|(known, _)| known.id == figure.id) {
            Some((_, values)) => values.push(figure.measured),
            None => {
                let value = figure.measured;
                merged.push((figure, vec![value]));
            }
        }
    }
    let merge = |(mut figure, values): (Figure, Vec<f64>)| {
        if values.len() < 2 {
            return figure;
        }
        figure.measured = values.iter().sum::<f64>() / values.len() as f64;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let [least, most] = [least, most].map(figure::number);
        let note = format!("mean of {} seeds, {least} to {most}; {}", values.len(), figure.note);
        let (low, high) = (figure.low, figure.high);
        figure = figure.with_note(note);
        match (low, high) {
            (None, None) => figure,
            (low, high) => {
                figure.with_band(low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY))
            }
        }
    };
    merged.into_iter().map(merge).collect()
}

/// How much sooner MIRCC settles than RCP at least, and how much more of a slow link it uses.
const SOONER: f64 = 0.75;
const MORE: f64 = 0.04;

fn compare_controllers(figures: &mut Vec<Figure>) {
    let measured = |figures: &[Figure], id: &str| {
        figures.iter().find(|figure| figure.id == id).map(|figure| figure.measured)
    };
    let mut place = 0;
    while place < figures.len() {
        let id = figures[place].id.clone();
        let Some(step) = id.strip_suffix("/rcp").filter(|step| step.contains("/convergence/"))
        else {
            place += 1;
            continue;
        };
        if let Some(own) = measured(figures, &format!("{step}/mircc")) {
            let rcp = &figures[place];
            let ratio = Figure {
                id: format!("{step}/ratio"),
                measured: own / rcp.measured,
                unit: String::new(),
                ..rcp.clone()
            };
            figures.insert(place + 1, ratio.with_band(0.0, SOONER).with_note("MIRCC over RCP"));
        }
        place += 2;
    }
    let [own, rcp] = ["mircc/low-rate/mircc", "mircc/low-rate/rcp"].map(|id| measured(figures, id));
    if let Some((own, rcp)) = own.zip(rcp) {
        for figure in figures.iter_mut() {
            let note = format!("MIRCC {} more than RCP", figure::number(own - rcp));
            let judged = match figure.id.as_str() {
                "mircc/low-rate/mircc" => figure.clone().with_band(rcp + MORE, 1.0),
                "mircc/low-rate/rcp" => figure.clone().with_band(0.0, own - MORE),
                _ => continue,
            };
            *figure = judged.with_note(note);
        }
    }
}
