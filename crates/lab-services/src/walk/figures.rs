//! The published figures of random walkers beside what the protocol measures.

use paceline_lab::experiment::Experiment;
use paceline_lab::figure::{self, Figure, Scale};
use paceline_lab::parallel::costliest_first;
use paceline_lab::run::RunResult;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};

use super::curves::{Curves, keep};
use super::ledger::{Ledger, additional, last, mean_hops, sum, time};
use super::measured::Measured;
use super::orders::{self, with_published};
use super::{Measure, Method, Walking, exact};
use paceline_proto::walk::{Generation, PacedConfig};

use crate::catalog::CATALOG;

/// The methods whose queues experiment 2 shows. The slides plot them; their text gives no mean.
const QUEUES: [Method; 2] = [Method::RqRg, Method::TailRg];

/// The slides' additional walks in experiment 3, with RED and with tail drop, by A:B and B:C.
const PUBLISHED_CELLS: [[[f64; 3]; 3]; 2] = [
    [[20e3, 32e3, 23e3], [89e3, 71e3, 33e3], [146e3, 62e3, 37e3]],
    [[136e3, 176e3, 173e3], [218e3, 222e3, 225e3], [256e3, 241e3, 261e3]],
];

/// A:B and B:C of experiment 3.
pub(super) const RATIOS: [u32; 3] = [2, 5, 10];

/// Walks from each vertex in experiment 3, as far as the slides' text tells: it gives 1,000
/// vertices a server and the ratios. The number of walks, and A = 0.01, are ours.
const CELL_WALKS: u32 = 1_000;

/// The figures that a scenario asks for, of its own method.
pub(super) fn figures_of_run(measured: &Measured) -> Vec<Figure> {
    let name = measured.settings.method.name();
    match measured.settings.measure {
        Measure::E1 => experiment_1(name, measured),
        Measure::E2 => vec![queue_figure(name, measured)],
        Measure::E3 => {
            let id = format!("walk/e3/additional/{name}");
            vec![Figure::new(id, additional(&measured.ledger) as f64, "walks")]
        }
    }
}

fn experiment_1(name: &str, measured: &Measured) -> Vec<Figure> {
    let ledger = &measured.ledger;
    let id = |what: &str| format!("walk/e1/{name}/{what}");
    let dropped = sum(ledger, |home| home.dropped);
    let marked = sum(ledger, |home| home.queue_marked);
    let drops = format!("{dropped} dropped, {marked} marked by queues");
    vec![
        Figure::new(id("time-s"), time(ledger), "s").with_note(calibrated(measured)),
        Figure::new(id("additional"), additional(ledger) as f64, "walks").with_note(drops),
        Figure::new(id("queue-mean"), last(ledger).queue_mean(), "walkers"),
    ]
}

/// What of a method's time was set and not found.
fn calibrated(measured: &Measured) -> String {
    match (measured.settings.method, measured.settings.config.generation) {
        (Method::RqSleep1, Generation::Paced(PacedConfig { interval, gap, .. })) => format!(
            "calibrated, not a result: one walk in {} us ({} us + {} us), chosen so that this \
             method takes the published 69 s",
            (interval + gap).as_micros(),
            interval.as_micros(),
            gap.as_micros()
        ),
        _ => String::new(),
    }
}

fn queue_figure(name: &str, measured: &Measured) -> Figure {
    let queue = last(&measured.ledger).queue_mean();
    Figure::new(format!("walk/e2/{name}/queue-mean"), queue, "walkers")
}

fn exact_hops(measured: &Measured) -> f64 {
    exact::mean_hops(&measured.settings.graph, measured.settings.length)
}

fn bias(name: &str, measured: &Measured, exact: f64) -> Figure {
    let hops = mean_hops(&measured.ledger);
    Figure::new(format!("walk/bias/{name}/mean-hops"), hops, "hops")
        .with_note(format!("{} is exact on the graph that was drawn", figure::number(exact)))
}

/// A run behind figures.
struct Job {
    scenario: &'static str,
    sets: Vec<String>,
    // About how many walks it does.
    cost: u64,
    gives: Gives,
}

#[derive(Clone, Copy, PartialEq)]
enum Gives {
    E1(Method),
    E2(Method),
    // Places of A:B and of B:C in `RATIOS`, and the method.
    Cell(usize, usize, Method),
    Bundle(u32),
    Generation(&'static str),
    Servers(u32),
    // Milliseconds that are added to the delay between servers, and the method.
    Delay(u32, Method),
}

/// Delays that are added between servers, milliseconds.
const DELAYS_MS: [u32; 5] = [0, 1, 5, 20, 50];

/// The methods that are compared with and without delays.
const DELAYED: [Method; 3] = [Method::RqRg, Method::MarkExact, Method::Synchronous];

/// What is kept of a run.
struct Given {
    gives: Gives,
    measured: Measured,
    run: RunResult,
    scenario: String,
    seed: u64,
}

fn jobs(settings: &figure::Settings) -> Vec<Job> {
    let quick = settings.scale == Scale::Quick;
    let mut jobs = Vec::new();
    let mut add = |scenario, method: Method, sets: &[String], cost, gives| {
        let mut all = vec![format!("method={}", method.name())];
        all.extend(sets.iter().cloned());
        jobs.push(Job { scenario, sets: all, cost, gives });
    };
    let walks = |full: u64, few: u64| -> (String, u64) {
        let walks = if quick { few } else { full };
        (format!("walks={walks}"), walks)
    };
    let (of_e1, each) = walks(u64::from(orders::WALKS), 1_000);
    for (_, method) in Method::ALL {
        if method.is_of_experiments() {
            add("walk/e1", method, std::slice::from_ref(&of_e1), each * 300, Gives::E1(method));
        }
    }
    // As published, ten times as many; with as many as in experiment 1 it is that experiment.
    if settings.is_long {
        let (of_e2, each) = walks(100_000, 1_000);
        for method in [QUEUES[0], QUEUES[1], Method::Synchronous] {
            add("walk/e2", method, std::slice::from_ref(&of_e2), each * 300, Gives::E2(method));
        }
    }
    let (of_e3, each) = walks(u64::from(CELL_WALKS), 40);
    for (place_b, b) in RATIOS.into_iter().enumerate() {
        for (place_c, c) in RATIOS.into_iter().enumerate() {
            let (b, c) = (0.01 * f64::from(b), 0.01 * f64::from(b * c));
            for method in [Method::RqRg, Method::TailRg, Method::Synchronous] {
                let sets = [format!("B={b}"), format!("C={c}"), of_e3.clone()];
                let gives = Gives::Cell(place_b, place_c, method);
                add("walk/e3", method, &sets, each * 3_000, gives);
            }
        }
    }
    let (of_rest, each) = walks(1_000, 100);
    for bundle in [1, 4, 16, 64] {
        let sets = [format!("walkers_max={bundle}"), "deadline=200us".to_owned(), of_rest.clone()];
        add("walk/e1", Method::MarkExact, &sets, each * 300, Gives::Bundle(bundle));
    }
    for (name, method) in [("gap", Method::MarkExact), ("batch", Method::Window)] {
        let mut sets = vec![of_rest.clone()];
        if method == Method::Window {
            // Queues of a hundred want small windows.
            sets.extend(["first=16", "batch=8", "growth_per_ms=1"].map(str::to_owned));
        }
        add("walk/e1", method, &sets, each * 300, Gives::Generation(name));
    }
    let (of_delays, each) = walks(1_000, 100);
    for added in DELAYS_MS {
        for method in DELAYED {
            let delay = format!("topology.delay={}us", 20 + added * 1_000);
            let gives = Gives::Delay(added, method);
            add("walk/e1", method, &[delay, of_delays.clone()], each * 300, gives);
        }
    }
    let (of_servers, each) = walks(300, 30);
    for servers in [3, 8, 16, 32, 64] {
        let sets = [format!("nodes={servers}"), of_servers.clone()];
        let cost = each * 100 * u64::from(servers);
        add("walk/e1", Method::RqRg, &sets, cost, Gives::Servers(servers));
    }
    jobs
}

pub(super) fn reproduce(
    settings: &figure::Settings,
    progress: &dyn Progress,
) -> Result<Vec<Figure>, LabError> {
    let jobs = jobs(settings);
    progress.start(jobs.len() as u64, "walk");
    let run_one = |job: &Job| -> Result<Option<Given>, LabError> {
        if progress.stopped() {
            return Ok(None);
        }
        let given = run_job(job, settings)?;
        progress.inc(1);
        Ok(Some(given))
    };
    let given = costliest_first(&jobs, |job| job.cost, run_one);
    let given: Vec<Given> =
        given.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
    progress.finish();
    let mut figures = Vec::new();
    experiments_1(&given, settings.scale, &mut figures);
    experiments_2(&given, &mut figures);
    experiments_3(&given, &mut figures);
    open_questions(&given, &mut figures);
    if !settings.sets.is_empty() {
        // What the paper measured is not what was run.
        for figure in &mut figures {
            (figure.low, figure.high, figure.paper) = (None, None, None);
            figure.pass = figure.measured.is_finite() || figure.note == TOO_SHORT;
        }
    }
    keep(settings, curves(&given));
    Ok(figures)
}

/// What the report draws of the runs behind the figures.
fn curves(given: &[Given]) -> Option<Curves> {
    let of = |method| Some(&find(given, Gives::E1(method))?.measured);
    let queue = |method| {
        let long = find(given, Gives::E2(method)).map(|given| &given.measured);
        long.or_else(|| of(method))
    };
    let (red, tail) = (of(Method::RqRg)?, of(Method::TailRg)?);
    let (free, mark) = (of(Method::RqSleep0)?, of(Method::MarkExact)?);
    Some(Curves::of(
        &[red, tail, free, mark],
        &[queue(Method::RqRg)?, queue(Method::TailRg)?, mark],
    ))
}

fn run_job(job: &Job, settings: &figure::Settings) -> Result<Given, LabError> {
    // The user's settings come last.
    let sets = job.sets.iter().chain(&settings.sets);
    let scenario = CATALOG.load(job.scenario)?.with_sets(sets)?.resolve()?;
    let seed = settings.seed.unwrap_or(scenario.seed);
    let measured = Walking::measure(&Trial::simulated(&scenario, seed))?;
    let run = RunResult {
        events: measured.outcome.events,
        digest: measured.outcome.digest.clone(),
        ..RunResult::default()
    };
    Ok(Given { gives: job.gives, measured, run, scenario: scenario.name, seed })
}

impl Given {
    fn of(&self, figure: Figure) -> Figure {
        figure.with_run(&self.scenario, self.seed, &self.run)
    }
}

fn find(given: &[Given], gives: Gives) -> Option<&Given> {
    given.iter().find(|given| given.gives == gives)
}

/// Times, additional walks and queues of each method, what they are beside each other, where
/// walkers are dropped and whose, and what that does to the walks that finish.
fn experiments_1(given: &[Given], scale: Scale, figures: &mut Vec<Figure>) {
    let Some(base) = find(given, Gives::E1(Method::RqRg)) else { return };
    let base_time = time(&base.measured.ledger);
    for (name, method) in Method::ALL {
        let Some(given) = find(given, Gives::E1(method)) else { continue };
        for figure in experiment_1(name, &given.measured) {
            let walks = given.measured.settings.walks;
            let figure = with_published(given.of(figure), method, walks);
            figures.push(match method {
                Method::MarkExact => exact_band(figure, base_time, &given.measured.ledger),
                Method::Synchronous if figure.id.ends_with("/additional") => {
                    figure.with_band(0.0, 0.0)
                }
                Method::Synchronous if figure.id.ends_with("/time-s") => {
                    figure.with_band(0.92 * base_time, 0.98 * base_time)
                }
                _ => figure,
            });
        }
        if method == Method::MarkExact {
            let dropped = sum(&given.measured.ledger, |home| home.dropped) as f64;
            let figure = Figure::new("walk/e1/mark-exact/dropped", dropped, "walkers");
            figures.push(given.of(figure.with_band(0.0, 0.0)));
        }
    }
    let of = |method| find(given, Gives::E1(method));
    let ledgers = |method| of(method).map(|given| &given.measured.ledger);
    for (method, figure) in orders::figures(ledgers, scale) {
        figures.extend(of(method).map(|given| given.of(figure)));
    }
    drops(given, base, figures);
    for (name, method) in
        [("red", Method::RqRg), ("tail", Method::TailRg), ("nodirect", Method::RqRgNoDirect)]
    {
        if let Some(given) = of(method) {
            synchronisation(name, given, figures);
        }
    }
    for method in [Method::RqRg, Method::TailRg, Method::MarkExact, Method::Synchronous] {
        figures.extend(of(method).into_iter().flat_map(|given| idle(method, given)));
    }
    for method in [Method::RqRg, Method::TailRg, Method::MarkExact, Method::Synchronous] {
        let Some(given) = of(method) else { continue };
        let exact = exact_hops(&given.measured);
        let figure = given.of(bias(method.name(), &given.measured, exact));
        figures.push(match method {
            Method::MarkExact | Method::Synchronous => {
                figure.with_band(0.995 * exact, 1.005 * exact)
            }
            _ => figure,
        });
    }
}

/// The share of the run in which each server's worker has nothing to do.
fn idle(method: Method, given: &Given) -> Vec<Figure> {
    let measured = &given.measured;
    let name = method.name();
    let servers = measured.ledger.homes().len();
    let shares = (0..servers).filter_map(|server| {
        let share = measured.idle(server)?;
        let id = format!("walk/e1/idle/{name}/s{}", server + 1);
        let figure = given.of(Figure::new(id, share, ""));
        // The last server is the slowest in each superstep: the others wait for it.
        Some(match method {
            Method::Synchronous if server + 1 == servers => figure.with_band(0.0, 0.02),
            Method::Synchronous => figure.with_band(0.65, 0.78),
            _ => figure,
        })
    });
    shares.collect()
}

/// What is promised of marks with exact walks, beside the time of RQ + RG.
fn exact_band(figure: Figure, base_time: f64, ledger: &Ledger) -> Figure {
    match figure.id.rsplit('/').next() {
        Some("time-s") => figure.with_band(0.97 * base_time, 1.03 * base_time),
        Some("additional") => figure.with_band(0.0, 0.005 * sum(ledger, |home| home.asked) as f64),
        _ => figure,
    }
}

/// Where walkers are dropped, and whose.
fn drops(given: &[Given], base: &Given, figures: &mut Vec<Figure>) {
    let at_last = |ledger: &Ledger| {
        last(ledger).dropped as f64 / sum(ledger, |home| home.dropped).max(1) as f64
    };
    let others = [Method::TailRg, Method::RqSleep0, Method::RqRgNoDirect].into_iter();
    let others = others.filter_map(|method| {
        let ledger = &find(given, Gives::E1(method))?.measured.ledger;
        Some(format!("{} {}", method.name(), figure::number(at_last(ledger))))
    });
    let note = format!("share of dropped walkers; {}", others.collect::<Vec<_>>().join(", "));
    let figure = Figure::new("walk/e1/drops-at-s3", at_last(&base.measured.ledger), "");
    figures.push(base.of(figure.with_band(0.95, 1.0).with_note(note)));
    for (name, method) in [("red", Method::RqRg), ("tail", Method::TailRg)] {
        let Some(given) = find(given, Gives::E1(method)) else { continue };
        let Some(watch) = &given.measured.watch else { continue };
        let by_home = watch.dropped.last().map_or(&[][..], Vec::as_slice);
        let all: u64 = by_home.iter().sum();
        let share = |count: u64| count as f64 / all.max(1) as f64;
        let own = share(by_home.last().copied().unwrap_or(0));
        let shares: Vec<String> =
            by_home.iter().map(|&count| figure::number(share(count))).collect();
        let note = format!("at server 3, of its own walkers; by home: {}", shares.join(", "));
        let id = format!("walk/e1/drop-share-by-origin/{name}");
        figures.push(given.of(Figure::new(id, own, "").with_note(note)));
    }
}

/// How the rates of each pair of servers go together while all generate.
fn synchronisation(name: &str, given: &Given, figures: &mut Vec<Figure>) {
    let measured = &given.measured;
    let walk_time = measured.walk_time();
    let at = |width| measured.watch.as_ref().and_then(|watch| watch.rates.synchronisation(width));
    let Some(found) = at(walk_time) else {
        let servers = measured.ledger.homes().len();
        for (one, other) in (1..=servers).flat_map(|one| (one + 1..=servers).map(move |o| (one, o)))
        {
            let id = format!("walk/e1/sync/{name}/{one}-{other}");
            figures.push(given.of(Figure::new(id, f64::NAN, "").with_note(TOO_SHORT)));
        }
        return;
    };
    let wide = at(walk_time * WIDE);
    let micros = |time: std::time::Duration| figure::number(time.as_secs_f64() * 1e6);
    for (place, pair) in found.pairs.iter().enumerate() {
        let servers = format!("{}-{}", pair.servers.0 + 1, pair.servers.1 + 1);
        let mut note = format!(
            "correlation of the walkers that servers {servers} generate in {} us; a walk takes {} \
             us; {} bins, while all servers generate",
            micros(found.bin),
            micros(walk_time),
            found.bins
        );
        if let Some(wide) = &wide {
            let there = figure::number(wide.pairs[place].correlation);
            note += &format!("; in bins of {} us {there}", micros(wide.bin));
        }
        let id = format!("walk/e1/sync/{name}/{servers}");
        figures.push(given.of(Figure::new(id, pair.correlation, "").with_note(note)));
    }
}

/// The note of a correlation that is not measured.
const TOO_SHORT: &str = "not measured: all servers generate for less than the time of 30 walks";

/// How many times as long the wider bins are in which synchronisation is shown, too.
const WIDE: u32 = 16;

fn experiments_2(given: &[Given], figures: &mut Vec<Figure>) {
    let of = |method| find(given, Gives::E2(method)).or_else(|| find(given, Gives::E1(method)));
    let tail = of(Method::TailRg);
    for method in [QUEUES[0], QUEUES[1], Method::Synchronous] {
        let Some(given) = of(method) else { continue };
        let walks = given.measured.settings.walks;
        let note = format!("{walks} walks a vertex; the slides plot queues and give no mean");
        let figure = given.of(queue_figure(method.name(), &given.measured)).with_note(note);
        figures.push(match (method, tail) {
            (Method::RqRg, Some(tail)) => {
                let tail = last(&tail.measured.ledger).queue_mean();
                figure.with_band(tail / 10.0, tail / 4.0)
            }
            _ => figure,
        });
    }
}

fn experiments_3(given: &[Given], figures: &mut Vec<Figure>) {
    let (mut won, mut falls, mut cells, mut times) = (0, 0, Vec::new(), Vec::new());
    let mut any = None;
    for (place_b, b) in RATIOS.into_iter().enumerate() {
        for (place_c, c) in RATIOS.into_iter().enumerate() {
            let of = |method| find(given, Gives::Cell(place_b, place_c, method));
            let (Some(red), Some(tail)) = (of(Method::RqRg), of(Method::TailRg)) else { return };
            any = Some(red);
            won += i32::from(additional(&red.measured.ledger) < additional(&tail.measured.ledger));
            for (place, (name, given)) in [("red", red), ("tail", tail)].into_iter().enumerate() {
                let id = format!("walk/e3/additional/a1-b{b}-c{c}/{name}");
                let value = additional(&given.measured.ledger) as f64;
                let figure = given.of(Figure::new(id, value, "walks"));
                // Totals of other numbers of walks are not comparable.
                let is_full = given.measured.settings.walks == CELL_WALKS;
                cells.push(match is_full {
                    true => figure.with_paper(PUBLISHED_CELLS[place][place_b][place_c]),
                    false => figure,
                });
            }
        }
        for c in 0..RATIOS.len() {
            times.extend(cell_times(given, (place_b, c)));
        }
        let red = |c| {
            let given = find(given, Gives::Cell(place_b, c, Method::RqRg));
            given.map_or(0, |given| additional(&given.measured.ledger))
        };
        falls += i32::from(red(RATIOS.len() - 1) < red(0));
    }
    if let Some(any) = any {
        let figure = Figure::new("walk/e3/cells-won", f64::from(won), "of 9").with_band(8.0, 9.0);
        let note = "cells in which RED has fewer additional walks than tail drop";
        figures.push(any.of(figure.with_note(note)));
        let note = "values of A:B at which RED's additional walks fall from B:C = 1:2 to 1:10";
        let figure = Figure::new("walk/e3/falls-with-c", f64::from(falls), "of 3").with_paper(2.0);
        figures.push(any.of(figure.with_note(note)));
    }
    figures.extend(cells);
    figures.extend(times);
}

/// How long a graph of experiment 3 takes with the paper's method and in supersteps.
fn cell_times(given: &[Given], (b, c): (usize, usize)) -> Vec<Figure> {
    let of = |method: Method| {
        let given = find(given, Gives::Cell(b, c, method))?;
        let (b, c, name) = (RATIOS[b], RATIOS[c], method.name());
        let id = format!("walk/e3/time/a1-b{b}-c{c}/{name}");
        Some(given.of(Figure::new(id, time(&given.measured.ledger), "s")))
    };
    [Method::RqRg, Method::Synchronous].into_iter().filter_map(of).collect()
}

/// What the slides leave open: walkers in a packet, batches of generation, more servers.
fn open_questions(given: &[Given], figures: &mut Vec<Figure>) {
    for one in given {
        let ledger = &one.measured.ledger;
        let walks = sum(ledger, |home| home.walks) as f64;
        let queue = figure::number(last(ledger).queue_mean());
        let seconds = figure::number(time(ledger));
        figures.push(one.of(match one.gives {
            Gives::Bundle(bundle) => {
                let messages = one.measured.watch.as_ref().map_or(0, |watch| watch.messages);
                let note = format!("{seconds} s, mean queue of server 3 {queue}");
                let id = format!("walk/bundle/{bundle}");
                Figure::new(id, messages as f64 / walks, "packets a walk").with_note(note)
            }
            Gives::Generation(name) => {
                let note = format!("mean queue of server 3 {queue}");
                let figure = Figure::new(format!("walk/generation/{name}"), time(ledger), "s");
                figure.with_note(note)
            }
            Gives::Servers(servers) => {
                let share = additional(ledger) as f64 / walks;
                let note = format!("{seconds} s, mean queue of the last server {queue}");
                let id = format!("walk/servers/{servers}");
                Figure::new(id, share, "additional a walk").with_note(note)
            }
            Gives::Delay(added, method) => {
                let share = figure::number(additional(ledger) as f64 / walks);
                let hops = figure::number(mean_hops(ledger));
                let note = format!("{share} additional a walk, {hops} hops on average");
                let id = format!("walk/delay/{added}ms/{}", method.name());
                Figure::new(id, time(ledger), "s").with_note(note)
            }
            Gives::E1(_) | Gives::E2(_) | Gives::Cell(..) => continue,
        }));
    }
}
