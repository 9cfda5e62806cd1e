//! The runs behind the figures.

use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::figure::{self, Scale};
use paceline_lab::scenario::{Keys, Scenario};

use super::ask::{Ask, What};
use super::{KINDS, throughput};
use crate::catalog::CATALOG;

/// A scenario with overrides, and the figures that come of it.
pub(super) struct Job {
    pub scenario: &'static str,
    pub sets: Vec<String>,
    // What makes it small.
    quick: Vec<&'static str>,
    pub asks: Vec<Ask>,
}

impl Job {
    pub fn new(
        scenario: &'static str,
        sets: Vec<String>,
        quick: &[&'static str],
        asks: Vec<Ask>,
    ) -> Job {
        Job { scenario, sets, quick: quick.to_vec(), asks }
    }

    /// What makes it small at this scale.
    pub fn quick(&self, scale: Scale) -> &[&'static str] {
        match scale {
            Scale::Full => &[],
            Scale::Quick => &self.quick,
        }
    }

    pub fn load(&self, more: &[&str]) -> Result<Scenario, LabError> {
        let sets = self.sets.iter().map(String::as_str).chain(more.iter().copied());
        CATALOG.load(self.scenario)?.with_sets(sets)?.resolve()
    }

    /// The same with the user's settings.
    pub fn load_with(&self, quick: &[&str], user: &[String]) -> Result<Scenario, LabError> {
        let sets = self.sets.iter().map(String::as_str);
        load(self.scenario, &sets.chain(quick.iter().copied()).collect::<Vec<_>>(), user)
    }
}

/// A scenario with these settings, and the user's last, as far as they are of its protocol; of the
/// former those are left out that the latter make impossible.
pub(super) fn load(name: &str, sets: &[&str], user: &[String]) -> Result<Scenario, LabError> {
    let kind = sets.iter().filter(|set| set.starts_with("protocol.kind="));
    let kind = CATALOG.load(name)?.with_sets(kind)?.resolve()?.service;
    let user = || user.iter().filter(|set| !is_of_another(kind, set));
    let has = |key: &str| user().any(|set| key_of(set) == key);
    let members = user().rev().find(|set| key_of(set) == "nodes");
    let members = members.and_then(|set| set.split_once('=')?.1.trim().parse::<u64>().ok());
    let sets = sets.iter().filter_map(|set| match key_of(set) {
        "window" | "stagger" if has("code") => None,
        // It is for the rate and the bins of the figures.
        "keep" if user().next().is_some() => None,
        key @ ("senders" | "group_size") => {
            let nodes: u64 = set.split_once('=')?.1.parse().ok()?;
            Some(format!("{key}={}", nodes.min(members.unwrap_or(nodes))))
        }
        _ => Some((*set).to_owned()),
    });
    let sets: Vec<String> = sets.chain(user().cloned()).collect();
    CATALOG.load(name)?.with_sets(sets.iter().map(String::as_str))?.resolve()
}

/// The recovered share at (8,3), 1 % loss and at least 32 members: 93.4 % and 0.7 points.
const PAPER: (f64, f64) = (0.934, 0.007);

/// Repairs of these runs name nothing older than 128 packets at 1,000 a second. What is kept for
/// longer costs memory, and so time, and changes nothing.
pub(super) const KEEP: &str = "keep=300ms";
/// The same as a time.
pub(super) const KEPT: Duration = Duration::from_millis(300);

/// What makes most runs small: some 6,000 losses of 64 members, so that 0.3 points are a standard
/// deviation of a recovered share.
const QUICK: [&str; 3] = ["duration=10s", "warmup=500ms", "drain=50ms"];

fn id(id: &str) -> String {
    format!("slingshot/{id}")
}

fn mean(name: &str, ms: f64, by: f64) -> Ask {
    Ask::new(id(name), What::MeanMs, ms - by, ms + by)
}

fn rate(r: u32, c: u32) -> Vec<String> {
    vec![format!("r={r}"), format!("c={c}")]
}

/// Runs of Slingshot keep packets no longer than [`KEEP`].
fn job(
    scenario: &'static str,
    mut sets: Vec<String>,
    quick: &[&'static str],
    asks: Vec<Ask>,
) -> Job {
    sets.push(KEEP.to_owned());
    Job::new(scenario, sets, quick, asks)
}

pub(super) fn jobs() -> Vec<Job> {
    let mut jobs = rates_of_fire();
    jobs.extend(published_pair());
    jobs.extend(sizes_and_senders());
    jobs.extend(overlapping_groups());
    jobs.extend(losses_and_codes());
    jobs.extend(partial_bins());
    jobs.extend(second_phases());
    jobs.extend(rivals());
    jobs.extend(
        throughput::searches()
            .into_iter()
            .map(|(sets, quick, ask)| Job::new("slingshot/throughput", sets, &[quick], vec![ask])),
    );
    jobs
}

/// The published setting, and others of the tunability curve.
fn rates_of_fire() -> Vec<Job> {
    let (middle, by) = PAPER;
    let published = vec![
        Ask::recovered(id("recovered/r8-c3"), middle, by).with_paper(0.935),
        mean("mean-ms/r8-c3", 2.0, 0.2).with_paper(3.5),
        Ask::new(id("within10ms/r8-c3"), What::WithinMs(10), 0.912, 0.936).with_paper(0.93),
        Ask::new(id("overhead/r8-c3"), What::Overhead, 0.27, 0.276),
        Ask::recovered(id("senders/64"), middle, by),
        mean("senders-mean-ms/64", 2.0, 0.2),
    ];
    let mut jobs = vec![job("slingshot/paper", Vec::new(), &QUICK, published)];
    for (r, c, share, ms) in
        [(8, 5, 0.986, 1.28), (11, 3, 0.926, 2.9), (15, 4, 0.955, 3.4), (4, 3, 0.941, 0.8)]
    {
        let setting = format!("r{r}-c{c}");
        let overhead = f64::from(c) / f64::from(r + c);
        let asks = vec![
            Ask::recovered(id(&format!("recovered/{setting}")), share, by),
            mean(&format!("mean-ms/{setting}"), ms, 0.3),
            Ask::around(id(&format!("overhead/{setting}")), What::Overhead, overhead, 0.003),
        ];
        jobs.push(job("slingshot/tunability", rate(r, c), &QUICK, asks));
    }
    let ask = Ask::new(id("t97-ms/r14-c5"), What::UntilMs, f64::NEG_INFINITY, 25.0);
    jobs.push(job("slingshot/tunability", rate(14, 5), &QUICK, vec![ask.with_paper(25.0)]));
    jobs
}

/// Settings around those that give both published points, 93 % within 10 ms and 97 % within 25 ms,
/// with the shares that they bring back within these times: the cheapest that gives both is (13,5),
/// (16,6) and (10,4) miss one of them by a few tenths of a point.
const PAIRS: [(u32, u32, f64, f64); 6] = [
    (9, 4, 0.958, 0.971),
    (10, 4, 0.951, 0.969),
    (12, 5, 0.951, 0.977),
    (13, 5, 0.940, 0.974),
    (14, 6, 0.955, 0.987),
    (16, 6, 0.937, 0.982),
];

fn published_pair() -> Vec<Job> {
    let of = |&(r, c, in_10_ms, in_25_ms): &(u32, u32, f64, f64)| {
        let ask = |ms, share, paper| {
            let id = id(&format!("pair-{ms}ms/r{r}-c{c}"));
            Ask::around(id, What::WithinMs(ms), share, 0.007).with_paper(paper)
        };
        let asks = vec![ask(10, in_10_ms, 0.93), ask(25, in_25_ms, 0.97)];
        job("slingshot/tunability", rate(r, c), &QUICK, asks)
    };
    PAIRS.iter().map(of).collect()
}

fn sizes_and_senders() -> Vec<Job> {
    let (middle, by) = PAPER;
    let mut jobs = Vec::new();
    for (nodes, low, high) in [
        (4, 0.975, 0.987),
        (8, 0.950, 0.966),
        (16, 0.936, 0.951),
        (32, middle - by, middle + by),
        (64, middle - by, middle + by),
        (128, middle - by, middle + by),
        (256, middle - by, middle + by),
        (512, middle - by, middle + by),
        (1024, middle - by, middle + by),
    ] {
        // Few members lose little in a second, and many much.
        let (full, quick) = match nodes {
            0..=16 => ("duration=402s", "duration=43s"),
            17..=64 => ("duration=42s", "duration=12s"),
            65..=128 => ("duration=20s", "duration=6s"),
            129..=256 => ("duration=10s", "duration=3s"),
            _ => ("duration=6s", "duration=1500ms"),
        };
        // In large groups it takes some seconds until each of drawn senders was heard.
        let spacing = if nodes > 128 { "even" } else { "drawn" };
        let spacing = format!("spacing={spacing}");
        let sets = vec![format!("topology.nodes={nodes}"), full.to_owned(), spacing];
        let ask = Ask::new(id(&format!("group-size/n{nodes}")), What::Recovered, low, high);
        // It is the senders that cost memory: each member keeps books of each.
        let senders = if nodes > 128 { &["senders=64"][..] } else { &[] };
        let quick = [&[quick, "warmup=300ms", "drain=50ms"], senders].concat();
        jobs.push(job("slingshot/group-size", sets, &quick, vec![ask]));
    }
    for senders in [1, 4, 16] {
        let shares = Ask::recovered(id(&format!("senders/{senders}")), middle, by);
        let asks = vec![shares, mean(&format!("senders-mean-ms/{senders}"), 2.0, 0.2)];
        jobs.push(job("slingshot/senders", vec![format!("senders={senders}")], &QUICK, asks));
    }
    jobs
}

/// The large sizes as `slingshot/group-size` has them: with drawn senders, which every member hears
/// early enough only in a run as long as the scenario's. `reproduce` leaves them out: even turns
/// give the same shares in a seventh of the time.
pub(super) fn large_sizes_drawn() -> Vec<Job> {
    let (middle, by) = PAPER;
    let of = |nodes: u32| {
        let sets = vec![format!("topology.nodes={nodes}")];
        let share = Ask::recovered(id(&format!("group-size/n{nodes}")), middle, by);
        job("slingshot/group-size", sets, &[], vec![share])
    };
    [256, 512, 1024].map(of).into()
}

/// The same packets, spread over many groups of all members, or of half of them each.
fn overlapping_groups() -> Vec<Job> {
    let of = |(groups, size): (u32, u32)| {
        let name = format!("{groups}-of-{size}");
        let share = id(&format!("groups/recovered/{name}"));
        let time = id(&format!("groups/mean-ms/{name}"));
        let asks = match size {
            // What one group of all members gives.
            64 => vec![
                Ask::around(share, What::Recovered, PAPER.0, 0.01),
                Ask::around(time, What::MeanMs, 2.0, 0.3),
            ],
            // Each loss is repaired by c members on average here as well, later: a region of few
            // members gets few packets.
            _ => vec![
                match groups {
                    16 => Ask::around(share, What::Recovered, PAPER.0, 0.01),
                    // Most bins stay partial until the run ends: no lower end.
                    _ => Ask::new(share, What::Recovered, f64::NEG_INFINITY, PAPER.0 + 0.01),
                },
                Ask::new(time, What::MeanMs, 2.0 - 0.3, f64::INFINITY),
            ],
        };
        let groups = format!("groups={groups}");
        let sets = vec!["senders=4".to_owned(), groups, format!("group_size={size}")];
        job("slingshot/groups", sets, &["duration=20s", "drain=50ms"], asks)
    };
    [(1, 64), (16, 64), (256, 64), (1024, 64), (16, 32), (256, 32)].map(of).into()
}

fn losses_and_codes() -> Vec<Job> {
    let by = PAPER.1;
    let mut jobs = Vec::new();
    for (percent, share_3, share_5) in [(2, 0.920, 0.977), (5, 0.855, 0.952), (10, 0.738, 0.895)] {
        for (c, share) in [(3, share_3), (5, share_5)] {
            let mut sets = rate(8, c);
            sets.push(format!("receive_loss={percent}%"));
            let ask = Ask::recovered(id(&format!("loss/{percent}/r8-c{c}")), share, by);
            jobs.push(job("slingshot/tunability", sets, &QUICK, vec![ask]));
        }
    }
    const QUICK_BURSTS: [&str; 3] = ["duration=8s", "warmup=500ms", "drain=50ms"];
    // Sixteen bins are in step for some tens of seconds.
    const QUICK_BINS: [&str; 2] = ["duration=30s", "drain=50ms"];
    for (name, sets, quick, low, high) in [
        ("xor", &["code=xor"][..], &QUICK_BURSTS[..], 0.15, 0.18),
        ("stagger16", &["code=xor", "stagger=16"], &QUICK_BINS, 0.88, 0.92),
        ("rlc128", &["code=rlc", "window=128"], &QUICK_BURSTS, 0.996, 1.0),
    ] {
        let sets = sets.iter().map(|&set| set.to_owned()).collect();
        let ask = Ask::new(id(&format!("burst5/{name}")), What::Recovered, low, high);
        jobs.push(job("slingshot/bursts", sets, quick, vec![ask]));
    }
    for (c, low) in [(3, 0.998), (2, 0.997)] {
        let mut sets = rate(8, c);
        sets.extend(["code=rlc", "window=32"].map(str::to_owned));
        let ask = Ask::new(id(&format!("rlc32/r8-c{c}")), What::Recovered, low, 1.0);
        jobs.push(job("slingshot/tunability", sets, &QUICK, vec![ask]));
    }
    jobs
}

/// What it costs that a bin which does not fill within 10 ms is sent as it is.
fn partial_bins() -> Vec<Job> {
    let of = |name: &str, sets: [&str; 2], asks: [Ask; 2], overhead: f64| {
        let overhead =
            Ask::around(format!("slingshot/slow/overhead/{name}"), What::Overhead, overhead, 0.005);
        let asks = [&asks[..], &[overhead]].concat();
        let sets = sets.map(str::to_owned).to_vec();
        Job { scenario: "slingshot/slow", sets, quick: vec!["duration=102s"], asks }
    };
    let share = |name: &str| format!("slingshot/slow/recovered/{name}");
    let time = |name: &str| format!("slingshot/slow/mean-ms/{name}");
    let banded = |name: &str, recovered, ms| {
        [
            Ask::around(share(name), What::Recovered, recovered, 0.01),
            Ask::around(time(name), What::MeanMs, ms, 0.3),
        ]
    };
    let scaled =
        [Ask::shown(share("scaled"), What::Recovered), Ask::shown(time("scaled"), What::MeanMs)];
    let whole = 3.0 / 11.0;
    vec![
        of("all", ["flush_after=10ms", "partial_copies=all"], banded("all", 0.95, 3.95), 0.512),
        of("scaled", ["flush_after=10ms", "partial_copies=scaled"], scaled, whole),
        of("full", ["flush_after=0s", "partial_copies=all"], banded("full", 0.944, 8.1), whole),
    ]
}

/// What repairs leave is asked for: of the sender, as published, or of holders first.
fn second_phases() -> Vec<Job> {
    // Most of the time passes until the loss is known: of what no parked repair names, by the next
    // packet of its sender, 64 ms later.
    let of = |ask: &str| {
        let asks = vec![
            Ask::new(id(&format!("phase2/{ask}")), What::Back, 1.0, 1.0),
            Ask::around(id(&format!("phase2-mean-ms/{ask}")), What::BackMeanMs, 5.7, 0.6),
            Ask::around(id(&format!("phase2-t99-ms/{ask}")), What::BackMs(0.99), 70.0, 4.0),
        ];
        job("slingshot/second-phase", vec![format!("pull_from={ask}")], &["duration=10s"], asks)
    };
    let reported = vec![Ask::new(id("told/repair"), What::Reported, 1.0, 1.0)];
    let repair = job("slingshot/repair", Vec::new(), &[], reported);
    vec![of("sender"), of("holders"), repair]
}

/// SRM, and requests to the member that names a missing packet.
fn rivals() -> Vec<Job> {
    // They keep packets by a rule of their own.
    let job = |scenario, sets: &[&str], quick: &[&'static str], asks: Vec<Ask>| {
        Job::new(scenario, sets.iter().map(|&set| set.to_owned()).collect(), quick, asks)
    };
    let far = vec![
        Ask::new("srm/min-s/d1s", What::BackSeconds(0.0), 3.0, 3.1).with_paper(2.2),
        Ask::new("srm/t93-s/d1s", What::BackSeconds(0.93), 4.80, 4.92).with_paper(4.85),
        Ask::new("srm/t97-s/d1s", What::BackSeconds(0.97), 4.93, 5.05).with_paper(5.1),
    ];
    let quick = ["duration=11s", "drain=10s", "warmup=150ms"];
    let mut jobs = vec![job("slingshot/srm", &[], &quick, far)];
    for (senders, low, high) in [(1, 1.3, 1.6), (4, 4.2, 4.8), (64, 62.0, 68.0)] {
        let median = |id: String, low, high| Ask::new(id, What::BackMs(0.5), low, high);
        let mut asks = vec![median(format!("srm/senders-median-ms/{senders}"), low, high)];
        if senders == 64 {
            asks.insert(0, median("srm/median-ms/true-distance".to_owned(), 63.4, 65.4));
        }
        let senders = format!("senders={senders}");
        let sets = [&*senders, "distance=75us", "duration=9s", "drain=3s"];
        let quick = ["duration=2700ms", "drain=2s", "warmup=150ms"];
        jobs.push(job("slingshot/srm", &sets, &quick, asks));
    }
    // Detected by the sender's next packet, or by the sender's timeout.
    for (kind, senders, ms, by) in
        [("nak", 1, 1.7, 0.2), ("nak", 64, 64.7, 0.4), ("ack", 64, 2.0, 0.1)]
    {
        let median = Ask::around(format!("{kind}/median-ms/{senders}"), What::BackMs(0.5), ms, by);
        let mut asks = vec![median];
        if senders == 64 {
            let extra = format!("{kind}/extra/{senders}");
            // Heartbeats after the last packet are a larger share of a shorter run.
            asks.push(match kind {
                "ack" => Ask::around(extra, What::Extra, 1.04, 0.005),
                _ => Ask::shown(extra, What::Extra),
            });
        }
        let scenario = if kind == "ack" { "slingshot/ack" } else { "slingshot/nak" };
        let senders = format!("senders={senders}");
        jobs.push(job(scenario, &[&senders], &["duration=6s"], asks));
    }
    for (senders, ms, by) in [(1, 3.6, 0.3), (64, 226.0, 8.0)] {
        let asks = vec![
            Ask::new(format!("fec/recovered/{senders}"), What::Recovered, 0.998, 1.0),
            Ask::around(format!("fec/mean-ms/{senders}"), What::MeanMs, ms, by),
        ];
        let senders = format!("senders={senders}");
        jobs.push(job("slingshot/sender-fec", &[&senders], &["duration=12s"], asks));
    }
    // A loss outlives ten rounds once in 15,000 times.
    let asks = vec![
        Ask::new("gossip/back/64", What::Back, 0.9995, 1.0),
        Ask::around("gossip/median-ms/64", What::BackMs(0.5), 72.4, 1.5),
        Ask::around("gossip/t97-ms/64", What::BackMs(0.97), 366.0, 12.0),
    ];
    jobs.push(job("slingshot/gossip", &[], &["duration=8s"], asks));
    let asks = vec![Ask::new("pull/digest8", What::Back, 1.0, 1.0)];
    let quick = ["duration=4s", "warmup=300ms"];
    jobs.push(job("slingshot/digest-pull", &[], &quick, asks));
    jobs
}

/// True if this is a knob of protocols of multicast in time, and not of this one.
fn is_of_another(kind: &str, set: &str) -> bool {
    let key = key_of(set);
    let has = |keys: Keys| keys.all().any(|(_, known)| known == key);
    !has(CATALOG.keys(kind)) && KINDS.iter().any(|&known| has(CATALOG.keys(known)))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::figures::job_of_run;
    use super::super::{Measures, Settings, run};
    use super::*;
    use paceline_lab::sweep::Plan;
    use paceline_lab::world::Trial;

    #[test]
    fn each_id_is_asked_for_once_and_each_job_can_run_at_both_scales() {
        let jobs = jobs();
        let ids: Vec<&str> = jobs.iter().flat_map(|job| &job.asks).map(|ask| &*ask.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert_eq!(
            ids.len(),
            6 + 13 + 12 + 9 + 6 + 6 + 3 + 2 + 9 + 7 + 7 + 5 + 4 + 1 + 12 + 10 + 3
        );
        for job in &jobs {
            for quick in [Scale::Full, Scale::Quick].map(|scale| job.quick(scale)) {
                let scenario = job.load(quick).unwrap();
                Settings::read(&scenario).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    #[test]
    fn neighbouring_settings_that_are_swapped_are_out_of_their_bands() {
        let measured = |name: &str| {
            let id = format!("slingshot/recovered/{name}");
            let job = jobs().into_iter().find(|job| job.asks.iter().any(|ask| ask.id == id));
            let job = job.unwrap_or_else(|| panic!("there is no {id}"));
            let scenario = job.load(job.quick(Scale::Quick)).unwrap();
            let settings = Settings::read(&scenario).unwrap();
            let seed = scenario.seed;
            let (measures, _) =
                run::measured(&settings, &Trial::simulated(&scenario, seed)).unwrap();
            let own = job.asks.into_iter().filter(|ask| ask.id.ends_with(name));
            (own.collect::<Vec<Ask>>(), measures)
        };
        let settings = ["r8-c3", "r8-c5", "r11-c3", "r15-c4", "r4-c3"].map(measured);
        let is_within = |asks: &[Ask], measures: &Measures| {
            asks.iter().all(|ask| {
                let (low, high) = ask.band(Scale::Quick);
                (low..=high).contains(&ask.value(measures).0)
            })
        };
        for (place, (asks, _)) in settings.iter().enumerate() {
            for (other, (_, measures)) in settings.iter().enumerate() {
                let id = &asks[0].id;
                assert_eq!(is_within(asks, measures), place == other, "{id}: {other} for {place}");
            }
        }
    }

    #[test]
    fn each_cell_of_the_sweeps_over_sizes_and_senders_has_a_verdict() {
        for name in ["slingshot/group-size", "slingshot/senders"] {
            let plan = Plan::new(&CATALOG.load(name).unwrap()).unwrap();
            for cell in plan.cells() {
                let job = job_of_run(&cell.scenario).unwrap();
                let asks = job.map(|(job, _)| job.asks).unwrap_or_default();
                assert!(asks.iter().any(|ask| ask.high.is_finite()), "{name}: {}", cell.key);
            }
        }
    }

    #[test]
    fn no_band_of_a_share_ends_above_one() {
        for ask in jobs().iter().flat_map(|job| &job.asks) {
            let is_share = matches!(ask.what, What::Recovered | What::WithinMs(_) | What::Back);
            for scale in [Scale::Full, Scale::Quick] {
                let is_shown = ask.high == f64::INFINITY;
                assert!(!is_share || is_shown || ask.band(scale).1 <= 1.0, "{}", ask.id);
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
            assert_eq!(read.plan.nodes, 2);
            assert!((scenario.topology.receive_loss.mean() - 0.05).abs() < 1e-12);
        }
    }
}
