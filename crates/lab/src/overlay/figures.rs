//! The published figures of collective forwarding beside what the protocol measures.

use paceline_proto::core::Counters;
use paceline_proto::overlay::Style;

use super::report::sections;
use super::worked;
use super::{Action, Algorithm, Grouping, Ledger, Measure, Settings, run};
use crate::LabError;
use crate::figure::{self, Figure, Reproduction, Scale};
use crate::parallel::costliest_first;
use crate::progress::{Progress, Quiet};
use crate::scenario::ScenarioFile;

/// What a run measured.
pub(super) struct Measured<'a> {
    pub settings: &'a Settings,
    pub ledger: &'a Ledger,
    pub counters: &'a Counters,
}

/// The counters of the messages of requests.
pub(super) const MESSAGES: [&str; 7] = [
    "overlay_route",
    "overlay_ack",
    "overlay_result",
    "overlay_find",
    "overlay_found",
    "overlay_put",
    "overlay_put_reply",
];

/// What phases of one kind counted together.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    // All messages of requests: two an edge and one a place where targets end, or two an edge.
    messages: u64,
    // Bundles handed from node to node.
    forward: u64,
    pings: u64,
    lookups: u64,
    hops: u64,
    ended: u64,
}

impl Measured<'_> {
    fn counted(&self, style: Style, grouping: Grouping, actions: &[Action]) -> Option<Counted> {
        let phases = self.settings.plan.phases.iter().enumerate();
        let mut phases = phases
            .filter(|(_, p)| {
                (p.style, p.grouping) == (style, grouping) && actions.contains(&p.action)
            })
            .map(|(number, _)| number)
            .peekable();
        phases.peek()?;
        let mut sum = Counted::default();
        for phase in phases {
            let count = |name: &str| self.ledger.counted(phase, name, self.counters);
            sum.forward += count("overlay_route") + count("overlay_find");
            sum.messages += MESSAGES.into_iter().map(count).sum::<u64>();
            sum.pings += count("overlay_ping") + count("overlay_pong");
            sum.lookups += count("overlay_lookups");
            sum.hops += count("overlay_hops");
            sum.ended += count("overlay_targets_ended");
        }
        Some(sum)
    }

    // Keys that were not stored or not found, of phases that were to do both.
    fn not_done(&self) -> u64 {
        self.ledger.tallies().iter().map(|tally| tally.asked - tally.done).sum()
    }

    // A figure of a run in which something was not found says nothing.
    fn judged(&self, figure: Figure) -> Figure {
        match self.not_done() {
            0 => figure,
            n => Figure {
                pass: false,
                note: format!("{n} keys not done; {}", figure.note),
                ..figure
            },
        }
    }

    // Gives a figure its band, if the run is one to which it belongs: the published one, which has
    // so many keys, or the quick one, whose bands are wider.
    fn banded(&self, figure: Figure, keys: usize, full: (f64, f64), quick: (f64, f64)) -> Figure {
        let (nodes, count) = (self.settings.nodes, self.settings.plan.keys.len());
        match (nodes, count) {
            (1000, count) if count == keys => figure.with_band(full.0, full.1),
            QUICK => {
                let note = format!("{}; 200 nodes, 2,000 keys, a wider band", figure.note);
                figure.with_band(quick.0, quick.1).with_note(note)
            }
            _ => figure,
        }
    }
}

/// Nodes and keys of quick runs.
const QUICK: (u32, usize) = (200, 2000);

fn style_name(style: Style) -> &'static str {
    match style {
        Style::Recursive => "recursive",
        Style::Iterative => "iterative",
    }
}

const BOTH: [Action; 2] = [Action::Put, Action::Get];

/// The figures that a scenario asks for.
pub(super) fn figures(measured: &Measured<'_>) -> Vec<Figure> {
    match measured.settings.measure {
        Measure::Outcomes | Measure::Tree => Vec::new(),
        Measure::Packets => packets(measured),
        Measure::Time => time(measured),
        Measure::Bundle => bundle(measured),
        Measure::Lost => vec![lost(measured)],
    }
}

/// Bands of messages in bundles over messages one by one: recursive, put and get.
fn packets_band(algorithm: Algorithm, pings: bool, grouping: Grouping) -> (f64, f64) {
    match (algorithm, grouping) {
        (Algorithm::Chord, Grouping::Random) => (0.65, 0.84),
        (Algorithm::Chord, _) => (0.098, 0.115),
        (Algorithm::Koorde, Grouping::Random) => (0.65, 0.72),
        (Algorithm::Koorde, _) => (0.104, 0.115),
        (Algorithm::Pastry | Algorithm::Tapestry, Grouping::Random) => (0.90, 0.95),
        (Algorithm::Pastry, _) => (0.108, 0.118),
        (Algorithm::Tapestry, _) => (0.108, 0.120),
        (Algorithm::Kademlia, Grouping::Random) if pings => (0.93, 0.97),
        (Algorithm::Kademlia, _) if pings => (0.22, 0.38),
        (Algorithm::Kademlia, Grouping::Random) => (0.93, 0.98),
        (Algorithm::Kademlia, _) => (0.120, 0.140),
    }
}

/// Hops of a message on its own, 1,000 nodes.
fn hops_band(algorithm: Algorithm) -> (f64, f64) {
    match algorithm {
        Algorithm::Chord => (4.9, 6.8),
        Algorithm::Koorde => (11.5, 17.4),
        Algorithm::Pastry => (2.4, 2.7),
        Algorithm::Tapestry => (2.4, 2.7),
        Algorithm::Kademlia => (1.8, 2.05),
    }
}

fn packets(measured: &Measured<'_>) -> Vec<Figure> {
    let settings = measured.settings;
    let (algorithm, pings) = (settings.algorithm, settings.pings_each);
    let name = match pings {
        true => format!("{algorithm}-ping"),
        false => algorithm.name().to_owned(),
    };
    let mut figures = Vec::new();
    for style in [Style::Recursive, Style::Iterative] {
        let Some(serial) = measured.counted(style, Grouping::Serial, &BOTH) else { continue };
        for grouping in [Grouping::Random, Grouping::Clustered] {
            let Some(bundled) = measured.counted(style, grouping, &BOTH) else { continue };
            let all = |counted: Counted| {
                (counted.messages + if pings { counted.pings } else { 0 }) as f64
            };
            let forward = bundled.forward as f64 / serial.forward as f64;
            let id = format!("overlay/packets/{name}/{}/{}", style_name(style), grouping.name());
            let counts = match style {
                Style::Recursive => "bundles, acknowledgements and results",
                Style::Iterative => "questions and answers",
            };
            let mut figure =
                Figure::new(id, all(bundled) / all(serial), "of serial").with_note(format!(
                    "put and get; {counts}, puts and their answers{}: {} over {}; forwardings \
                     alone {forward:.3}",
                    if pings { ", pings" } else { "" },
                    all(bundled),
                    all(serial),
                ));
            if style == Style::Recursive && settings.plan.bundle == 10 {
                let (low, high) = packets_band(algorithm, pings, grouping);
                // With fewer keys a node more bundles end at several.
                let quick = match grouping {
                    Grouping::Random => (low - 0.05, 1.0),
                    _ => (low, high + if pings { 0.2 } else { 0.11 }),
                };
                figure = measured.banded(figure, 50_000, (low, high), quick);
            }
            let published = match (algorithm, grouping) {
                (Algorithm::Chord, Grouping::Clustered) => Some(0.12),
                (Algorithm::Kademlia, Grouping::Clustered) if pings => Some(0.34),
                _ => None,
            };
            let figure = match published.filter(|_| style == Style::Recursive) {
                Some(paper) => figure.with_paper(paper),
                None => figure,
            };
            figures.push(measured.judged(figure));
        }
    }
    if pings {
        return figures;
    }
    if let Some(serial) = measured.counted(Style::Recursive, Grouping::Serial, &[Action::Get]) {
        let hops = serial.hops as f64 / serial.ended as f64;
        let figure = Figure::new(format!("overlay/hops/{algorithm}"), hops, "hops")
            .with_note("of a get on its own, recursive");
        let (low, high) = hops_band(algorithm);
        let figure = measured.banded(figure, 50_000, (low, high), (0.6 * low, high));
        figures.push(measured.judged(figure));
        let clustered = measured.counted(Style::Recursive, Grouping::Clustered, &[Action::Get]);
        if let Some(clustered) = clustered {
            let nodes = f64::from(measured.settings.nodes);
            let ratio = clustered.messages as f64 / serial.messages as f64;
            let note = format!(
                "messages handled a node, get: {:.1} in clustered bundles, {:.1} one by one; \
                 look-ups in its table: {:.1} and {:.1}",
                clustered.messages as f64 / nodes,
                serial.messages as f64 / nodes,
                clustered.lookups as f64 / nodes,
                serial.lookups as f64 / nodes,
            );
            let figure = Figure::new(format!("overlay/load/{algorithm}"), ratio, "of serial");
            figures.push(measured.judged(figure.with_note(note)));
        }
    }
    figures
}

/// Bands of the time in bundles over that one by one, 10,000 gets, 1 ms a hop.
fn time_band(algorithm: Algorithm, what: &str) -> Option<(f64, f64)> {
    let around = |middle: f64, by: f64| Some((middle - by, middle + by));
    match (what, algorithm) {
        ("bundle-random", Algorithm::Chord) => around(0.131, 0.004),
        ("bundle-random", Algorithm::Koorde) => around(0.123, 0.008),
        ("bundle-random", Algorithm::Pastry) => around(0.114, 0.008),
        ("bundle-random", Algorithm::Tapestry | Algorithm::Kademlia) => around(0.119, 0.008),
        ("bundle-clustered", Algorithm::Chord) => Some((0.098, 0.106)),
        ("bundle-clustered", _) => Some((0.098, 0.112)),
        ("both", _) => Some((0.009, 0.08)),
        _ => None,
    }
}

/// Ratios to the time of one client that gets keys one by one.
fn time(measured: &Measured<'_>) -> Vec<Figure> {
    let algorithm = measured.settings.algorithm;
    let seconds = |grouping: Grouping, clients: u32| {
        let phases = measured.settings.plan.phases.iter().zip(measured.ledger.tallies());
        let mut gets = phases.filter(|(phase, _)| {
            (phase.grouping, phase.clients, phase.action) == (grouping, Some(clients), Action::Get)
        });
        Some(gets.next()?.1.seconds())
    };
    let Some(serial) = seconds(Grouping::Serial, 1) else { return Vec::new() };
    let ways = [
        ("bundle-random", Grouping::Random, 1),
        ("bundle-clustered", Grouping::Clustered, 1),
        ("clients-10", Grouping::Serial, 10),
        ("both", Grouping::Random, 10),
    ];
    let ratio = |&(what, grouping, clients): &(&str, Grouping, u32)| {
        let seconds = seconds(grouping, clients)?;
        let id = format!("overlay/time/{algorithm}/{what}");
        let mut note = format!("{seconds:.2} s over {serial:.2} s, gets");
        if (algorithm, what) == (Algorithm::Chord, "bundle-clustered") {
            note.push_str(
                "; below 0.1 is not reachable by latency alone: the published 0.095 has processor \
                 time a message in it",
            );
        }
        let figure = Figure::new(id, seconds / serial, "of serial").with_note(note);
        let figure = match time_band(algorithm, what) {
            Some((low, high)) if measured.settings.plan.bundle == 10 => {
                measured.banded(figure, 10_000, (low, high), (0.9 * low, 1.15 * high))
            }
            _ => figure,
        };
        let figure = match (algorithm, what) {
            (Algorithm::Chord, "bundle-random") => figure.with_paper(0.130),
            (Algorithm::Chord, "bundle-clustered") => figure.with_paper(0.095),
            (Algorithm::Chord, "both") => figure.with_paper(0.0703),
            _ => figure,
        };
        Some(measured.judged(figure))
    };
    ways.iter().filter_map(ratio).collect()
}

fn bundle(measured: &Measured<'_>) -> Vec<Figure> {
    let settings = measured.settings;
    let counted = |grouping| measured.counted(Style::Recursive, grouping, &BOTH);
    let Some((serial, bundled)) = counted(Grouping::Serial).zip(counted(Grouping::Clustered))
    else {
        return Vec::new();
    };
    let size = settings.plan.bundle;
    let ratio = bundled.forward as f64 / serial.forward as f64;
    let figure =
        Figure::new(format!("overlay/bundle/{size}"), ratio, "of serial").with_note(format!(
            "forwardings in clustered bundles of {size}; no less than {:.3}",
            1.0 / size as f64
        ));
    let band = match size {
        5 => Some((0.195, 0.22)),
        20 => Some((0.052, 0.061)),
        50 => Some((0.024, 0.030)),
        100 => Some((0.015, 0.019)),
        _ => None,
    };
    let figure = match band.filter(|_| settings.algorithm == Algorithm::Chord) {
        Some((low, high)) => measured.banded(figure, 50_000, (low, high), (low, high + 0.05)),
        None => figure,
    };
    vec![measured.judged(figure)]
}

fn lost(measured: &Measured<'_>) -> Figure {
    let phases = measured.settings.plan.phases.iter().zip(measured.ledger.tallies());
    let gets = phases.filter(|(phase, _)| phase.action == Action::Get);
    let lost: u64 = gets.map(|(_, tally)| tally.absent + tally.wrong).sum();
    let failed: u64 = measured.ledger.tallies().iter().map(|tally| tally.failed).sum();
    Figure::new(format!("overlay/lost/{}", measured.settings.algorithm), lost as f64, "keys")
        .with_band(0.0, 0.0)
        .with_note(format!("stored and not found again; {failed} were given up and told so"))
}

/// The figures of collective forwarding as `paceline reproduce overlay` shows them.
pub const REPRODUCTION: Reproduction = Reproduction {
    name: "overlay",
    about: "Collective forwarding on five structured overlays: how many messages, and how much \
            time, bundles save. Shudo, Message Bundling on Structured Overlays, ISCC 2017.",
    figures: reproduce,
    sections,
};

/// A scenario with overrides, of which figures come.
struct Job {
    scenario: &'static str,
    sets: Vec<String>,
}

impl Job {
    // About how long it takes, beside the others: by styles and hops.
    fn cost(&self) -> u64 {
        let has = |set: &str| self.sets.iter().any(|known| known == set);
        let styles = if self.scenario == "overlay/packets" { 2 } else { 1 };
        styles * if has("algorithm=koorde") || has(EACH_MENTION) { 3 } else { 1 }
    }
}

const EACH_MENTION: &str = "ping=each-mention";

fn jobs(settings: &figure::Settings) -> Vec<Job> {
    let is_set = |key: &str| {
        let dotted = format!("protocol.{key}=");
        let plain = format!("{key}=");
        settings.sets.iter().any(|set| set.starts_with(&dotted) || set.starts_with(&plain))
    };
    let algorithms: Vec<String> = match is_set("algorithm") {
        true => Vec::new(),
        false => Algorithm::ALL.iter().map(|name| format!("algorithm={name}")).collect(),
    };
    let algorithms: Vec<Vec<String>> = match algorithms.is_empty() {
        true => vec![Vec::new()],
        false => algorithms.into_iter().map(|algorithm| vec![algorithm]).collect(),
    };
    let is_bundle_set =
        settings.sets.iter().any(|set| set.starts_with("bundle=") || set.contains(".bundle="));
    let mut jobs = Vec::new();
    let mut add = |scenario, sets: &[String], more: &[&str]| {
        let mut sets = sets.to_vec();
        sets.extend(more.iter().map(|&set| set.to_owned()));
        jobs.push(Job { scenario, sets });
    };
    for algorithm in &algorithms {
        add("overlay/packets", algorithm, &[]);
    }
    let takes_pings =
        algorithms.len() > 1 || settings.sets.iter().any(|set| set.ends_with("algorithm=kademlia"));
    // In ideal tables each ping sets off many more than in those that were joined.
    let is_ideal = settings.sets.iter().any(|set| set.ends_with("tables=ideal"));
    if takes_pings && !is_ideal && !is_set("ping") {
        let ping = ["algorithm=kademlia", EACH_MENTION];
        add("overlay/packets", &[], &ping);
    }
    for algorithm in &algorithms {
        add("overlay/time", algorithm, &[]);
    }
    match is_bundle_set {
        true => add("overlay/bundle", &[], &[]),
        false => {
            for size in ["bundle=5", "bundle=20", "bundle=50", "bundle=100"] {
                add("overlay/bundle", &[], &[size]);
            }
        }
    }
    jobs
}

fn reproduce(
    settings: &figure::Settings,
    progress: &dyn Progress,
) -> Result<Vec<Figure>, LabError> {
    let jobs = jobs(settings);
    progress.start(jobs.len() as u64 + 1, "overlay");
    let quick: &[&str] = match settings.scale {
        Scale::Full => &[],
        Scale::Quick => &["nodes=200", "keys=2000"],
    };
    let run_one = |job: &Job| -> Result<Vec<Figure>, LabError> {
        if progress.stopped() {
            return Ok(Vec::new());
        }
        // The user's settings come last.
        let sets = job.sets.iter().map(String::as_str).chain(quick.iter().copied());
        let sets = sets.chain(settings.sets.iter().map(String::as_str));
        let scenario = ScenarioFile::load(job.scenario)?.with_sets(sets)?.resolve()?;
        let result = run(&scenario, settings.seed.unwrap_or(scenario.seed), None, &Quiet)?;
        progress.inc(1);
        Ok(result.figures)
    };
    let measured = costliest_first(&jobs, Job::cost, run_one);
    let measured = measured.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut figures = vec![worked::figure(settings.seed.unwrap_or(1))?];
    figures.extend(measured.concat());
    progress.inc(1);
    progress.finish();
    Ok(figures)
}
