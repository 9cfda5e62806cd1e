//! The published figures of repairs by receivers beside what the protocol measures.

use std::time::Duration;

use super::report::sections;
use super::run::measured;
use super::{Measures, Settings};
use crate::LabError;
use crate::figure::{self, Figure, Reproduction, Scale, number};
use crate::parallel::costliest_first;
use crate::progress::{Progress, Quiet};
use crate::scenario::{Scenario, ScenarioFile};

/// What a figure shows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The share of lost packets that repairs brought back.
    Recovered,
    /// The mean time that it took.
    MeanMs,
    /// The share within ten milliseconds.
    WithinTenMs,
    /// The time by which 97 % of all that was lost was back.
    UntilMs,
    /// Repairs, as a share of packets.
    Overhead,
}

/// A figure that a run is asked for.
#[derive(Clone, Debug)]
struct Ask {
    id: String,
    what: What,
    // The band, if the run is the one that belongs to the id.
    low: f64,
    high: f64,
    paper: Option<f64>,
}

/// A scenario with overrides, and the figures that come of it.
struct Job {
    scenario: &'static str,
    sets: Vec<String>,
    // What makes it small.
    quick: Vec<&'static str>,
    asks: Vec<Ask>,
}

impl Ask {
    fn new(id: impl Into<String>, what: What, low: f64, high: f64) -> Ask {
        Ask { id: id.into(), what, low, high, paper: None }
    }

    /// A share of recovered packets, by its middle and the width of its band to each side.
    fn recovered(id: impl Into<String>, middle: f64, by: f64) -> Ask {
        Ask::new(id, What::Recovered, middle - by, middle + by)
    }

    fn with_paper(self, paper: f64) -> Ask {
        Ask { paper: Some(paper), ..self }
    }

    /// The band of a run of this scale: small runs see few losses.
    fn band(&self, scale: Scale) -> (f64, f64) {
        let (low, high) = (self.low, self.high);
        match (scale, self.what) {
            (Scale::Full, _) => (low, high),
            (Scale::Quick, What::Recovered | What::WithinTenMs) => (low - 0.04, high + 0.04),
            (Scale::Quick, What::MeanMs | What::UntilMs) => (0.75 * low, 1.33 * high),
            (Scale::Quick, What::Overhead) => (low - 0.01, high + 0.01),
        }
    }

    fn figure(&self, settings: &Settings, measures: &Measures) -> Figure {
        let (value, unit) = match self.what {
            What::Recovered => (measures.recovered(), "of lost"),
            What::MeanMs => (measures.mean_ms(), "ms"),
            What::WithinTenMs => (measures.recovered_within(TEN_MS), "of lost"),
            What::UntilMs => (measures.time_until_ms(0.97), "ms"),
            What::Overhead => (measures.overhead, "of packets"),
        };
        let figure = Figure::new(&self.id, value, unit).with_note(self.note(settings, measures));
        match self.paper {
            Some(paper) => figure.with_paper(paper),
            None => figure,
        }
    }

    // What the closed form says, and what a reader should see beside the figure.
    fn note(&self, settings: &Settings, measures: &Measures) -> String {
        let Some(predicted) = settings.predicted() else {
            return format!("no repairs are sent; {} packets lost", measures.lost);
        };
        let ms = |time: Duration| number(time.as_secs_f64() * 1e3);
        let until = |share| predicted.time_until(share).map_or("none".to_owned(), ms);
        match self.what {
            What::Recovered => {
                let by_one = if settings.is_bursty { ", for losses one by one" } else { "" };
                let (mean, t97) = (measures.mean_ms(), measures.time_until_ms(0.97));
                format!(
                    "closed form {}{by_one}; {} of {} lost; mean {} ms, 97 % by {} ms",
                    number(predicted.recovered()),
                    measures.recovered_ms.len(),
                    measures.lost,
                    number(mean),
                    number(t97),
                )
            }
            What::MeanMs => format!("closed form {} ms", ms(predicted.mean())),
            What::WithinTenMs => {
                format!("closed form {}", number(predicted.recovered_within(TEN_MS)))
            }
            What::UntilMs => format!(
                "closed form {} ms; 93 % by {} ms, closed form {} ms",
                until(0.97),
                number(measures.time_until_ms(0.93)),
                until(0.93),
            ),
            What::Overhead => {
                let rate = settings.config.rate();
                format!(
                    "closed form {}: repairs sent beside packets received",
                    number(rate.c as f64 / (rate.r + rate.c) as f64)
                )
            }
        }
    }
}

const TEN_MS: Duration = Duration::from_millis(10);

/// The recovered share at (8,3), 1 % loss and at least 32 members: 93.4 % and 0.7 points.
const PAPER: (f64, f64) = (0.934, 0.007);

fn jobs() -> Vec<Job> {
    const QUICK: [&str; 3] = ["duration=4s", "warmup=300ms", "drain=50ms"];
    let (middle, by) = PAPER;
    let mut jobs = Vec::new();
    let mut add = |scenario, sets: &[String], quick: &[&'static str], asks: Vec<Ask>| {
        let (sets, quick) = (sets.to_vec(), quick.to_vec());
        jobs.push(Job { scenario, sets, quick, asks });
    };
    let id = |id: &str| format!("slingshot/{id}");
    let mean = |name: &str| Ask::new(id(name), What::MeanMs, 1.8, 2.2);
    let published = vec![
        Ask::recovered(id("recovered/r8-c3"), middle, by).with_paper(0.935),
        mean("mean-ms/r8-c3").with_paper(3.5),
        Ask::new(id("within10ms/r8-c3"), What::WithinTenMs, 0.912, 0.936).with_paper(0.93),
        Ask::new(id("overhead/r8-c3"), What::Overhead, 0.27, 0.276),
        Ask::recovered(id("group-size/n64"), middle, by),
        Ask::recovered(id("senders/64"), middle, by),
        mean("senders-mean-ms/64"),
    ];
    add("slingshot/paper", &[], &QUICK, published);
    let rate = |r: u32, c: u32| vec![format!("r={r}"), format!("c={c}")];
    for (r, c, share) in [(8, 5, 0.986), (11, 3, 0.926), (15, 4, 0.955), (4, 3, 0.941)] {
        let ask = Ask::recovered(id(&format!("recovered/r{r}-c{c}")), share, by);
        add("slingshot/tunability", &rate(r, c), &QUICK, vec![ask]);
    }
    let ask = Ask::new(id("t97-ms/r14-c5"), What::UntilMs, f64::NEG_INFINITY, 25.0);
    add("slingshot/tunability", &rate(14, 5), &QUICK, vec![ask.with_paper(25.0)]);
    for (nodes, low, high) in [
        (4, 0.975, 0.987),
        (8, 0.950, 0.966),
        (16, 0.936, 0.951),
        (32, middle - by, middle + by),
        (128, middle - by, middle + by),
        (256, middle - by, middle + by),
        (512, middle - by, middle + by),
        (1024, middle - by, middle + by),
    ] {
        // Few members lose little in a second, and many much.
        let (full, quick) = match nodes {
            0..=16 => ("duration=402s", "duration=25s"),
            17..=64 => ("duration=62s", "duration=8s"),
            65..=128 => ("duration=42s", "duration=3s"),
            129..=256 => ("duration=22s", "duration=2s"),
            257..=512 => ("duration=12s", "duration=1700ms"),
            _ => ("duration=9s", "duration=1500ms"),
        };
        let sets = [format!("topology.nodes={nodes}"), full.to_owned()];
        let ask = Ask::new(id(&format!("group-size/n{nodes}")), What::Recovered, low, high);
        add("slingshot/group-size", &sets, &[quick, "warmup=300ms", "drain=50ms"], vec![ask]);
    }
    for senders in [1, 4, 16] {
        let shares = Ask::recovered(id(&format!("senders/{senders}")), middle, by);
        let asks = vec![shares, mean(&format!("senders-mean-ms/{senders}"))];
        add("slingshot/senders", &[format!("senders={senders}")], &QUICK, asks);
    }
    for (percent, share_3, share_5) in [(2, 0.920, 0.977), (5, 0.855, 0.952), (10, 0.738, 0.895)] {
        for (c, share) in [(3, share_3), (5, share_5)] {
            let mut sets = rate(8, c);
            sets.push(format!("receive_loss={percent}%"));
            let ask = Ask::recovered(id(&format!("loss/{percent}/r8-c{c}")), share, by);
            add("slingshot/tunability", &sets, &QUICK, vec![ask]);
        }
    }
    const QUICK_BURSTS: [&str; 3] = ["duration=6s", "warmup=300ms", "drain=50ms"];
    for (name, sets, low, high) in [
        ("xor", &["code=xor"][..], 0.15, 0.18),
        ("stagger16", &["code=xor", "stagger=16"], 0.88, 0.92),
        ("rlc128", &["code=rlc", "window=128"], 0.996, f64::INFINITY),
    ] {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        let ask = Ask::new(id(&format!("burst5/{name}")), What::Recovered, low, high);
        add("slingshot/bursts", &sets, &QUICK_BURSTS, vec![ask]);
    }
    for (c, low) in [(3, 0.998), (2, 0.997)] {
        let mut sets = rate(8, c);
        sets.extend(["code=rlc", "window=32"].map(str::to_owned));
        let name = format!("rlc32/r8-c{c}");
        let ask = Ask::new(id(&name), What::Recovered, low, f64::INFINITY);
        add("slingshot/tunability", &sets, &QUICK, vec![ask]);
    }
    jobs
}

/// The order in which figures are shown, by the first part of their ids.
const ORDER: [&str; 11] = [
    "recovered",
    "mean-ms",
    "within10ms",
    "t97-ms",
    "overhead",
    "group-size",
    "senders",
    "senders-mean-ms",
    "loss",
    "burst5",
    "rlc32",
];

fn place(figure: &Figure) -> (usize, u64) {
    let mut parts = figure.id.split('/').skip(1);
    let first = parts.next().unwrap_or_default();
    let group = ORDER.iter().position(|&known| known == first).unwrap_or(ORDER.len());
    // Sizes in their order, all else as it was asked for.
    let size = parts.next().unwrap_or_default().trim_start_matches('n').parse();
    (group, size.unwrap_or(0))
}

impl Job {
    fn load(&self, more: &[&str]) -> Result<Scenario, LabError> {
        let sets = self.sets.iter().map(String::as_str).chain(more.iter().copied());
        ScenarioFile::load(self.scenario)?.with_sets(sets)?.resolve()
    }

    // The user's settings come last; what they make impossible is left out of the job's own.
    fn load_with(&self, quick: &[&str], user: &[String]) -> Result<Scenario, LabError> {
        let has = |key: &str| user.iter().any(|set| key_of(set) == key);
        let members = user.iter().rev().find(|set| key_of(set) == "nodes");
        let members = members.and_then(|set| set.split_once('=')?.1.trim().parse::<u64>().ok());
        let own = self.sets.iter().filter_map(|set| match key_of(set) {
            "window" | "stagger" if has("code") => None,
            "senders" => {
                let senders: u64 = set.split_once('=')?.1.parse().ok()?;
                Some(format!("senders={}", senders.min(members.unwrap_or(senders))))
            }
            _ => Some(set.clone()),
        });
        let own: Vec<String> = own.collect();
        let sets = own.iter().map(String::as_str).chain(quick.iter().copied());
        let sets = sets.chain(user.iter().map(String::as_str));
        ScenarioFile::load(self.scenario)?.with_sets(sets)?.resolve()
    }
}

/// The key of an override, without its table.
fn key_of(set: &str) -> &str {
    let key = set.split('=').next().unwrap_or_default();
    key.rsplit('.').next().unwrap_or_default().trim()
}

/// The user's overrides: members, loss and rate are those of the group here, not of links.
pub(super) fn overrides(settings: &figure::Settings) -> Vec<String> {
    let full = |set: &String| match set.split_once('=') {
        Some((key, value)) => match key.trim() {
            "members" => format!("topology.nodes={value}"),
            "loss" => format!("topology.receive_loss={value}"),
            "rate" => format!("workload.rate={value}"),
            _ => set.clone(),
        },
        None => set.clone(),
    };
    settings.sets.iter().map(full).collect()
}

fn is_same(a: &Scenario, b: &Scenario) -> Result<bool, LabError> {
    let same_settings = || Ok::<_, LabError>(Settings::read(a)? == Settings::read(b)?);
    Ok(a.topology == b.topology && a.faults.is_empty() && b.faults.is_empty() && same_settings()?)
}

/// The figures of a run: of the one that `reproduce slingshot` makes of the same scenario and the
/// same settings, if there is one.
pub(super) fn figures_of_run(
    scenario: &Scenario,
    settings: &Settings,
    measures: &Measures,
) -> Result<Vec<Figure>, LabError> {
    for job in jobs().iter().filter(|job| job.scenario == scenario.name) {
        if is_same(scenario, &job.load(&[])?)? {
            let banded = |ask: &Ask| ask.figure(settings, measures).with_band(ask.low, ask.high);
            return Ok(job.asks.iter().map(banded).collect());
        }
    }
    Ok(Vec::new())
}

/// The figures of repairs by receivers as `paceline reproduce slingshot` shows them.
pub const REPRODUCTION: Reproduction = Reproduction {
    name: "slingshot",
    about: "Multicast in time: how much of what receivers lose the repairs of others bring back, \
            and how soon. Balakrishnan, Pleisch, Birman, Slingshot, NCA 2005.",
    figures: reproduce,
    sections,
};

fn reproduce(
    settings: &figure::Settings,
    progress: &dyn Progress,
) -> Result<Vec<Figure>, LabError> {
    let jobs = jobs();
    let user = overrides(settings);
    progress.start(jobs.len() as u64, "slingshot");
    let run_one = |(job, scenario): &(&Job, Scenario)| -> Result<Vec<Figure>, LabError> {
        if progress.stopped() {
            return Ok(Vec::new());
        }
        let of_run = Settings::read(scenario)?;
        let seed = settings.seed.unwrap_or(scenario.seed);
        let (measures, result) = measured(&of_run, scenario, seed, None, &Quiet)?;
        let is_own = is_same(scenario, &job.load(quick_of(job, settings.scale))?)?;
        let figure = |ask: &Ask| {
            let figure = ask.figure(&of_run, &measures);
            let figure = match (is_own, settings.scale) {
                (false, _) => {
                    let note = format!("not the run of the band; {}", figure.note);
                    figure.with_note(note)
                }
                (true, scale) => {
                    let (low, high) = ask.band(scale);
                    let wider =
                        if scale == Scale::Quick { "; a small run, a wider band" } else { "" };
                    let note = format!("{}{wider}", figure.note);
                    figure.with_band(low, high).with_note(note)
                }
            };
            figure.with_run(&scenario.name, seed, &result)
        };
        progress.inc(1);
        Ok(job.asks.iter().map(figure).collect())
    };
    let load = |job| Ok((job, Job::load_with(job, quick_of(job, settings.scale), &user)?));
    let loaded = jobs.iter().map(load).collect::<Result<Vec<_>, LabError>>()?;
    // What is wrong with the settings is said before anything runs.
    loaded.iter().try_for_each(|(_, scenario)| Settings::read(scenario).map(|_| ()))?;
    let cost = |(_, scenario): &(&Job, Scenario)| cost(scenario);
    let measured = costliest_first(&loaded, cost, run_one);
    let mut figures = measured.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    figures.sort_by_key(place);
    progress.finish();
    Ok(figures)
}

fn quick_of(job: &Job, scale: Scale) -> &[&'static str] {
    match scale {
        Scale::Full => &[],
        Scale::Quick => &job.quick,
    }
}

/// About how long a run takes, beside others.
pub(super) fn cost(scenario: &Scenario) -> u64 {
    u64::from(scenario.topology.nodes) * scenario.duration.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_id_is_asked_for_once_and_each_job_can_run_at_both_scales() {
        let jobs = jobs();
        let ids: Vec<&str> = jobs.iter().flat_map(|job| &job.asks).map(|ask| &*ask.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert_eq!(ids.len(), 9 + 9 + 8 + 6 + 3 + 2);
        for job in &jobs {
            for quick in [&[][..], &job.quick] {
                let scenario = job.load(quick).unwrap();
                Settings::read(&scenario).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    #[test]
    fn whatever_the_user_sets_each_job_can_run() {
        let sets = ["members=2", "r=3", "c=1", "loss=5%", "rate=300/s", "code=xor"];
        let settings = figure::Settings {
            sets: sets.map(str::to_owned).to_vec(),
            ..figure::Settings::default()
        };
        let user = overrides(&settings);
        for job in &jobs() {
            let scenario = job.load_with(&[], &user).unwrap();
            let read = Settings::read(&scenario).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((read.plan.nodes, read.conditions.loss), (2, 0.05));
        }
    }
}
