//! The runs behind the figures.

use super::ask::{Ask, What};
use super::setup::{DIGEST_KEYS, KEYS, NAK_KEYS, SRM_KEYS};
use crate::LabError;
use crate::figure::{self, Scale};
use crate::scenario::{KnownKeys, Scenario, ScenarioFile};

/// A scenario with overrides, and the figures that come of it.
pub(super) struct Job {
    pub scenario: &'static str,
    pub sets: Vec<String>,
    // What makes it small.
    quick: Vec<&'static str>,
    pub asks: Vec<Ask>,
}

impl Job {
    /// What makes it small at this scale.
    pub fn quick(&self, scale: Scale) -> &[&'static str] {
        match scale {
            Scale::Full => &[],
            Scale::Quick => &self.quick,
        }
    }

    pub fn load(&self, more: &[&str]) -> Result<Scenario, LabError> {
        let sets = self.sets.iter().map(String::as_str).chain(more.iter().copied());
        ScenarioFile::load(self.scenario)?.with_sets(sets)?.resolve()
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
    let kind = ScenarioFile::load(name)?.resolve()?.service;
    let user = || user.iter().filter(|set| !is_of_another(kind, set));
    let has = |key: &str| user().any(|set| key_of(set) == key);
    let members = user().rev().find(|set| key_of(set) == "nodes");
    let members = members.and_then(|set| set.split_once('=')?.1.trim().parse::<u64>().ok());
    let sets = sets.iter().filter_map(|set| match key_of(set) {
        "window" | "stagger" if has("code") => None,
        // It is for the rate and the bins of the figures.
        "keep" if user().next().is_some() => None,
        "senders" => {
            let senders: u64 = set.split_once('=')?.1.parse().ok()?;
            Some(format!("senders={}", senders.min(members.unwrap_or(senders))))
        }
        _ => Some((*set).to_owned()),
    });
    let sets: Vec<String> = sets.chain(user().cloned()).collect();
    ScenarioFile::load(name)?.with_sets(sets.iter().map(String::as_str))?.resolve()
}

/// The recovered share at (8,3), 1 % loss and at least 32 members: 93.4 % and 0.7 points.
const PAPER: (f64, f64) = (0.934, 0.007);

/// Repairs of these runs name nothing older than 128 packets at 1,000 a second. What is kept for
/// longer costs memory, and so time, and changes nothing.
pub(super) const KEEP: &str = "keep=300ms";

pub(super) fn jobs() -> Vec<Job> {
    const QUICK: [&str; 3] = ["duration=2500ms", "warmup=300ms", "drain=50ms"];
    let (middle, by) = PAPER;
    let mut jobs = Vec::new();
    let mut add = |scenario, sets: &[String], quick: &[&'static str], asks: Vec<Ask>| {
        let (mut sets, quick) = (sets.to_vec(), quick.to_vec());
        sets.push(KEEP.to_owned());
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
    // Little more than 97 % comes back at all: few losses would not tell.
    let quick = ["duration=8s", "drain=50ms"];
    add("slingshot/tunability", &rate(14, 5), &quick, vec![ask.with_paper(25.0)]);
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
            0..=16 => ("duration=402s", "duration=12s"),
            17..=64 => ("duration=42s", "duration=4s"),
            65..=128 => ("duration=20s", "duration=2s"),
            129..=256 => ("duration=10s", "duration=1500ms"),
            257..=512 => ("duration=6s", "duration=1200ms"),
            _ => ("duration=6s", "duration=1200ms"),
        };
        // In large groups it takes some seconds until each of drawn senders was heard.
        let spacing = if nodes > 128 { "even" } else { "drawn" };
        let spacing = format!("spacing={spacing}");
        let sets = [format!("topology.nodes={nodes}"), full.to_owned(), spacing];
        let ask = Ask::new(id(&format!("group-size/n{nodes}")), What::Recovered, low, high);
        // It is the senders that cost memory: each member keeps books of each.
        let senders = if nodes > 128 { &["senders=64"][..] } else { &[] };
        let quick = [&[quick, "warmup=300ms", "drain=50ms"], senders].concat();
        add("slingshot/group-size", &sets, &quick, vec![ask]);
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
    const QUICK_BURSTS: [&str; 3] = ["duration=3s", "warmup=300ms", "drain=50ms"];
    // One bin, or a window, is in no step that matters; sixteen bins need the scenario's time.
    const ALONE: [&str; 2] = ["duration=42s", "warmup=1s"];
    for (name, sets, low, high) in [
        ("xor", ["code=xor"].iter().chain(&ALONE), 0.15, 0.18),
        ("stagger16", ["code=xor", "stagger=16"].iter().chain(&[]), 0.88, 0.92),
        ("rlc128", ["code=rlc", "window=128"].iter().chain(&ALONE), 0.996, f64::INFINITY),
    ] {
        let sets: Vec<String> = sets.map(|&set| set.to_owned()).collect();
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
    jobs.extend(rivals());
    jobs
}

/// SRM, and questions to whoever names what is missing.
fn rivals() -> Vec<Job> {
    let job = |scenario, sets: &[&str], quick: &[&'static str], asks: Vec<Ask>| Job {
        scenario,
        sets: sets.iter().map(|&set| set.to_owned()).collect(),
        quick: quick.to_vec(),
        asks,
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
    let asks = vec![Ask::new("pull/digest8", What::Back, 1.0, 1.0)];
    let quick = ["duration=4s", "warmup=300ms"];
    jobs.push(job("slingshot/digest-pull", &[], &quick, asks));
    jobs
}

/// True if this is a knob of protocols of multicast in time, and not of this one.
fn is_of_another(kind: &str, set: &str) -> bool {
    let kinds =
        [("slingshot", KEYS), ("srm", SRM_KEYS), ("nak", NAK_KEYS), ("digest-pull", DIGEST_KEYS)];
    let key = key_of(set);
    let has = |keys: KnownKeys| keys.iter().any(|(_, keys)| keys.contains(&key));
    let is_own = kinds.iter().any(|&(name, keys)| name == kind && has(keys));
    !is_own && kinds.iter().any(|&(_, keys)| has(keys))
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

    use super::super::Settings;
    use super::*;

    #[test]
    fn each_id_is_asked_for_once_and_each_job_can_run_at_both_scales() {
        let jobs = jobs();
        let ids: Vec<&str> = jobs.iter().flat_map(|job| &job.asks).map(|ask| &*ask.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert_eq!(ids.len(), 9 + 9 + 8 + 6 + 3 + 2 + 7 + 1);
        for job in &jobs {
            for quick in [Scale::Full, Scale::Quick].map(|scale| job.quick(scale)) {
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
            assert_eq!(read.plan.nodes, 2);
            assert!((read.conditions.loss - 0.05).abs() < 1e-12);
        }
    }
}
