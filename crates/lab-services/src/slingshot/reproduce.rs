//! The published figures of repairs by receivers beside what the protocol measures.

use paceline_lab::figure::{self, Figure, Scale};
use paceline_lab::parallel::costliest_first;
use paceline_lab::scenario::Scenario;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};

use super::ask::Ask;
use super::figures::is_same;
use super::jobs::{Job, jobs, overrides};
use super::run::measured;
use super::{Settings, Setup};

/// The order in which figures are shown, by the first parts of their ids.
const ORDER: [&str; 38] = [
    "slingshot/recovered",
    "slingshot/mean-ms",
    "slingshot/within10ms",
    "slingshot/t97-ms",
    "slingshot/pair-10ms",
    "slingshot/pair-25ms",
    "slingshot/overhead",
    "slingshot/group-size",
    "slingshot/senders",
    "slingshot/senders-mean-ms",
    "slingshot/groups/recovered",
    "slingshot/groups/mean-ms",
    "slingshot/loss",
    "slingshot/burst5",
    "slingshot/rlc32",
    "slingshot/slow/recovered",
    "slingshot/slow/mean-ms",
    "slingshot/slow/overhead",
    "slingshot/phase2",
    "slingshot/phase2-mean-ms",
    "slingshot/phase2-t99-ms",
    "slingshot/told",
    "srm/min-s",
    "srm/t93-s",
    "srm/t97-s",
    "srm/median-ms",
    "srm/senders-median-ms",
    "nak/median-ms",
    "nak/extra",
    "ack/median-ms",
    "ack/extra",
    "gossip/back",
    "gossip/median-ms",
    "gossip/t97-ms",
    "fec/recovered",
    "fec/mean-ms",
    "pull",
    "throughput",
];

fn place(figure: &Figure) -> (usize, u64) {
    let rest = |group: &&str| figure.id.strip_prefix(*group)?.strip_prefix('/');
    let group = ORDER.iter().position(|group| rest(group).is_some()).unwrap_or(ORDER.len());
    let rest = ORDER.get(group).and_then(rest).unwrap_or_default();
    // Sizes in their order, all else as it was asked for.
    let size = rest.split(['/', '-']).next().unwrap_or_default().trim_start_matches('n').parse();
    (group, size.unwrap_or(0))
}

pub(super) fn reproduce(
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
        let (measures, result) = measured(&of_run, &Trial::simulated(scenario, seed))?;
        let is_own = is_same(scenario, &job.load(job.quick(settings.scale))?)?;
        let figure = |ask: &Ask| {
            let figure = ask.figure(&of_run, &measures);
            let figure = match (is_own, settings.scale) {
                // In another run the share may never come back. The time is then no number, and the
                // figure still passes.
                (false, _) => {
                    let note = format!("not the run of the band; {}", figure.note);
                    Figure { pass: true, ..figure.with_note(note) }
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
    let load = |job| Ok((job, Job::load_with(job, job.quick(settings.scale), &user)?));
    let loaded = jobs.iter().map(load).collect::<Result<Vec<_>, LabError>>()?;
    // Invalid settings are reported before any run.
    loaded.iter().try_for_each(|(_, scenario)| Settings::read(scenario).map(|_| ()))?;
    let cost = |(_, scenario): &(&Job, Scenario)| cost(scenario);
    let measured = costliest_first(&loaded, cost, run_one);
    let mut figures = measured.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    figures.sort_by_key(place);
    progress.finish();
    Ok(figures)
}

/// About how long a run takes, beside others.
pub(super) fn cost(scenario: &Scenario) -> u64 {
    let Ok(settings) = Settings::read(scenario) else { return 0 };
    // Of SRM most losses cost many repairs to the whole group.
    let times = if matches!(settings.setup, Setup::Srm(_)) { 6 } else { 1 };
    let packets = match &settings.search {
        // The highest rates are tried first, and each next one costs less.
        Some(search) => 5 * (search.rates.end() * scenario.duration.as_secs_f64()) as u64,
        None => settings.plan.packets,
    };
    packets * u64::from(settings.plan.nodes) * times
}
