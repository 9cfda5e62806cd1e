//! The report of time-critical multicast: the plots of its figures, and the curves behind them.

use std::time::Duration;

use paceline_lab::figure::{self, Figure, Scale};
use paceline_lab::parallel::costliest_first;
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::report::Section;
use paceline_lab::scenario::Scenario;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};

use super::jobs::{KEEP, load, overrides};
use super::reproduce::cost;
use super::run::{measured, recovery_times};
use super::{Measures, Settings};

const TUNABILITY: &str = "A member that has received r packets sends one repair of them to c \
    others: c / (r + c) of all packets are repairs. More copies recover more of the lost packets; \
    fewer packets in a repair recover them sooner. 64 members, 1,000 packets a second, 1 % lost.";

const TIMES: &str = "Share of lost packets recovered, by time since their expected arrival. A \
    curve that ends below one leaves the remaining packets to a second phase. SRM waits for the \
    next packet of the same sender, here 64 ms, and for its timers. The slides state no timers: \
    the distance of one second is fitted so that 93 % and 97 % are recovered at the published \
    times. The published first repair, 2.2 s, cannot result from it, because no repair comes \
    before (C1 + D1) d = 3 s. With the true distance of 75 us the timers are a small part of the \
    time.";

const SIZES: &str = "On average c members repair each loss, at any group size. In small groups the \
    number of repairs varies less, so that more packets are recovered.";

const BURSTS: &str = "Bursts are five losses in a row on average. With one bin, several packets of \
    a repair are missing; with 16 bins, one packet of each; linear combinations of the last 128 \
    packets recover all missing packets once as many combinations have arrived. Combinations of \
    the last 32 recover almost all single losses, also with two copies instead of three.";

/// Runs whose times of recovery are drawn: their names, and what they are.
const NAMED: [(&str, &str, &[&str]); 11] = [
    ("(8,3)", "slingshot/tunability", &["r=8", "c=3"]),
    ("(8,5)", "slingshot/tunability", &["r=8", "c=5"]),
    ("(14,5)", "slingshot/tunability", &["r=14", "c=5"]),
    ("(8,3) over the last 32", "slingshot/tunability", &["r=8", "c=3", "code=rlc", "window=32"]),
    (
        "(8,3) and questions",
        "slingshot/tunability",
        &["r=8", "c=3", "pull=true", "heartbeat_after=100ms"],
    ),
    ("digests and questions", "slingshot/digest-pull", &["drain=10s"]),
    ("ACK", "slingshot/ack", &[]),
    ("NAK", "slingshot/nak", &[]),
    ("FEC by senders, (8,3)", "slingshot/sender-fec", &[]),
    ("SRM, true distance", "slingshot/srm", &["distance=75us", "drain=10s"]),
    ("SRM, distance of 1 s", "slingshot/srm", &["drain=10s"]),
];
/// Those of them that are compared with each other.
const COMPARED: [&str; 7] = [
    "(8,3)",
    "digests and questions",
    "ACK",
    "NAK",
    "FEC by senders, (8,3)",
    "SRM, true distance",
    "SRM, distance of 1 s",
];

/// Rates of fire of the curves.
const R: [u32; 7] = [4, 6, 8, 10, 12, 14, 16];
const C: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// The sections of the report of `reproduce slingshot`.
pub(super) fn sections(
    figures: &[Figure],
    settings: &figure::Settings,
    progress: &dyn Progress,
) -> Result<Vec<Section>, LabError> {
    let mut sections = Vec::new();
    let mut add = |heading: &str, text: &str, plots: Vec<Plot>| {
        let (heading, text) = (heading.to_owned(), text.to_owned());
        sections.push(Section { heading, text, plots, ..Section::default() });
    };
    let curves = Curves::measure(settings, progress)?;
    add("Rate of fire", TUNABILITY, curves.tunability());
    add("Time of recovery", TIMES, curves.times());
    add("Group size and senders", SIZES, sizes(figures));
    add("Bursts and codes", BURSTS, codes(figures));
    sections.retain(|section| !section.plots.is_empty());
    Ok(sections)
}

/// A number of a run.
type Of = fn(&Measures) -> f64;

/// What runs of their own measured for curves.
struct Curves {
    // By rate of fire, where the run was one of the grid.
    grid: Vec<((u32, u32), Measures)>,
    named: Vec<(&'static str, Measures)>,
}

impl Curves {
    fn measure(settings: &figure::Settings, progress: &dyn Progress) -> Result<Curves, LabError> {
        let (user, mut jobs) = (overrides(settings), Vec::new());
        // What is drawn side by side must not be made equal by the user's settings.
        let has = |keys: &[&str]| {
            let key = |set: &String| set.split('=').next().unwrap_or_default().to_owned();
            let last = |set: &String| key(set).rsplit('.').next().unwrap_or_default().to_owned();
            user.iter().any(|set| keys.contains(&last(set).as_str()))
        };
        let rates = R.into_iter().flat_map(|r| C.into_iter().map(move |c| (r, c)));
        let is_grid_wanted = settings.scale == Scale::Full && !has(&["r", "c"]);
        let rates: Vec<(u32, u32)> = rates.filter(|_| is_grid_wanted).collect();
        for (r, c) in &rates {
            let [r, c] = [format!("r={r}"), format!("c={c}")];
            let sets = [&*r, &*c, KEEP, "duration=6s", "warmup=1s", "drain=50ms"];
            jobs.push(load("slingshot/tunability", &sets, &user)?);
        }
        let is_wanted = !has(&["r", "c", "code", "window", "stagger", "pull", "repairs"]);
        let named: Vec<_> = NAMED.iter().filter(|_| is_wanted).collect();
        for (_, scenario, sets) in &named {
            // The rivals' scenarios are as long as their recovery needs.
            let duration = match (*scenario, settings.scale) {
                ("slingshot/tunability", Scale::Full) => &["duration=12s", "warmup=500ms"][..],
                ("slingshot/tunability", Scale::Quick) => &["duration=2s", "warmup=500ms"],
                (_, Scale::Full) => &["duration=16s"],
                (_, Scale::Quick) => &["duration=10700ms", "warmup=150ms"],
            };
            jobs.push(load(scenario, &[sets, duration].concat(), &user)?);
        }
        progress.start(jobs.len() as u64, "slingshot: curves");
        let run_one = |scenario: &Scenario| -> Result<Measures, LabError> {
            if progress.stopped() {
                return Ok(Measures::default());
            }
            let seed = settings.seed.unwrap_or(scenario.seed);
            let (measures, _) =
                measured(&Settings::read(scenario)?, &Trial::simulated(scenario, seed))?;
            progress.inc(1);
            Ok(measures)
        };
        let measures = costliest_first(&jobs, cost, run_one);
        let mut measures = measures.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
        progress.finish();
        Ok(Curves {
            grid: rates.into_iter().zip(measures.by_ref()).collect(),
            named: named.into_iter().map(|(name, ..)| *name).zip(measures).collect(),
        })
    }

    fn tunability(&self) -> Vec<Plot> {
        if self.grid.is_empty() {
            return Vec::new();
        }
        let share = || Axis::new("of lost", "").with_range(0.4, 1.0);
        let plots: [(&str, Axis, Of); 5] = [
            ("Recovered", share(), Measures::recovered),
            ("Within 10 ms; published: 0.93", share(), |measures| {
                measures.recovered_within(Duration::from_millis(10))
            }),
            ("Within 25 ms; published: 0.97", share(), |measures| {
                measures.recovered_within(Duration::from_millis(25))
            }),
            ("Mean time of recovery", Axis::new("time", "ms"), Measures::mean_ms),
            ("Overhead", Axis::new("repairs, of all packets", ""), |measures| measures.overhead),
        ];
        let plot = |(title, y, of): (&str, Axis, Of)| {
            R.iter().fold(Plot::new(title, Axis::new("c", "members"), y), |plot, r| {
                let of_r = self.grid.iter().filter(|((known, _), _)| known == r);
                let points = of_r.map(|((_, c), measures)| (f64::from(*c), of(measures)));
                plot.with_line(format!("r = {r}"), points)
            })
        };
        plots.into_iter().map(plot).collect()
    }

    fn times(&self) -> Vec<Plot> {
        let runs = |is_wanted: fn(&str) -> bool| -> Vec<(&str, &Measures)> {
            let runs = self.named.iter().map(|(name, measures)| (*name, measures));
            runs.filter(|(name, _)| is_wanted(name)).collect()
        };
        let plots = [
            ("Slingshot and its rivals", runs(|name| COMPARED.contains(&name))),
            ("Rates of fire and codes", runs(|name| name.starts_with('('))),
        ];
        let plots = plots.into_iter().filter(|(_, runs)| !runs.is_empty());
        plots.map(|(title, runs)| recovery_times(title, &runs)).collect()
    }
}

fn numbered(figures: &[Figure], prefix: &str) -> Vec<(f64, f64)> {
    let of = |figure: &Figure| {
        Some((figure.id.strip_prefix(prefix)?.parse::<f64>().ok()?, figure.measured))
    };
    figures.iter().filter_map(of).collect()
}

fn sizes(figures: &[Figure]) -> Vec<Plot> {
    let plot = |title: &str, label: &str, y: Axis, points: Vec<(f64, f64)>| {
        let x = Axis::new(label, "").with_log();
        (!points.is_empty()).then(|| Plot::new(title, x, y).with_line("(8,3)", points))
    };
    let share = || Axis::new("of lost", "").with_range(0.9, 1.0);
    let plots = [
        plot("Recovered", "members", share(), numbered(figures, "slingshot/group-size/n")),
        plot("Recovered", "senders", share(), numbered(figures, "slingshot/senders/")),
        plot(
            "Mean time of recovery",
            "senders",
            Axis::new("time", "ms").with_range(0.0, 4.0),
            numbered(figures, "slingshot/senders-mean-ms/"),
        ),
    ];
    plots.into_iter().flatten().collect()
}

fn codes(figures: &[Figure]) -> Vec<Plot> {
    let plots: [(&str, &[(&str, &str)]); 2] = [
        (
            "Recovered of bursts, (8,3)",
            &[
                ("one bin", "slingshot/burst5/xor"),
                ("16 bins", "slingshot/burst5/stagger16"),
                ("the last 128", "slingshot/burst5/rlc128"),
            ],
        ),
        (
            "Recovered of losses one by one",
            &[
                ("(8,3)", "slingshot/recovered/r8-c3"),
                ("(8,3), the last 32", "slingshot/rlc32/r8-c3"),
                ("(8,2), the last 32", "slingshot/rlc32/r8-c2"),
            ],
        ),
    ];
    let plot = |(title, bars): (&str, &[(&str, &str)])| {
        let measured = |&(name, id): &(&str, &str)| {
            let figure = figures.iter().find(|figure| figure.id == id)?;
            Some((name.to_owned(), figure.measured))
        };
        let (names, shares): (Vec<String>, Vec<f64>) = bars.iter().filter_map(measured).unzip();
        let plot = Plot::bars(title, names, Axis::new("of lost", ""));
        (!shares.is_empty()).then(|| plot.with_group("measured", shares))
    };
    plots.into_iter().filter_map(plot).collect()
}
