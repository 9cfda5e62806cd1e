//! The figures that a run of a scenario gives, with the bands of the published ones.

use paceline_lab::LabError;
use paceline_lab::figure::{Figure, Scale};
use paceline_lab::scenario::Scenario;

use super::ask::Ask;
use super::jobs::{Job, KEPT, jobs, large_sizes_drawn};
use super::{Measures, Settings, Setup};

/// True if two scenarios describe the same run. How long packets are kept does not matter beyond
/// what the runs of the figures need.
pub(super) fn is_same(a: &Scenario, b: &Scenario) -> Result<bool, LabError> {
    let settings = |scenario| {
        let mut settings = Settings::read(scenario)?;
        if let Setup::Slingshot(config) = &mut settings.setup
            && config.keep() >= KEPT
        {
            *config = config.clone().with_keep(KEPT);
        }
        Ok::<_, LabError>(settings)
    };
    let has_faults = !a.faults.is_empty() || !b.faults.is_empty();
    Ok(a.topology == b.topology && !has_faults && settings(a)? == settings(b)?)
}

/// The bands for a run of a scenario, if `reproduce slingshot` makes one of the same topology and
/// settings, by whichever scenario, that is no longer: those of the full size or, of a shorter
/// run, those of the small one. Also if the run is one of [`large_sizes_drawn`].
pub(super) fn job_of_run(scenario: &Scenario) -> Result<Option<(Job, Scale)>, LabError> {
    for job in jobs().into_iter().chain(large_sizes_drawn()) {
        let mut own = job.load(&[])?;
        if own.topology != scenario.topology {
            continue;
        }
        let full = own.duration;
        let least = job.load(job.quick(Scale::Quick))?.duration;
        own.duration = scenario.duration;
        // At another duration its settings may be impossible, and are then not those of this run.
        if scenario.duration >= least && is_same(scenario, &own).unwrap_or(false) {
            let scale = if scenario.duration < full { Scale::Quick } else { Scale::Full };
            return Ok(Some((job, scale)));
        }
    }
    Ok(None)
}

/// The figures of a run, judged by the bands of [`job_of_run`].
pub(super) fn figures_of_run(
    scenario: &Scenario,
    settings: &Settings,
    measures: &Measures,
) -> Result<Vec<Figure>, LabError> {
    let Some((job, scale)) = job_of_run(scenario)? else { return Ok(Vec::new()) };
    Ok(job.asks.iter().map(|ask| banded(ask, scale, settings, measures)).collect())
}

/// Those of a run on sockets that do not depend on the network's times.
pub(super) fn figures_of_sockets(
    scenario: &Scenario,
    settings: &Settings,
    measures: &Measures,
) -> Result<Vec<Figure>, LabError> {
    let Some((job, scale)) = job_of_run(scenario)? else { return Ok(Vec::new()) };
    let asks = job.asks.iter().filter(|ask| ask.is_for_sockets());
    Ok(asks.map(|ask| banded(ask, scale, settings, measures)).collect())
}

fn banded(ask: &Ask, scale: Scale, settings: &Settings, measures: &Measures) -> Figure {
    let (low, high) = ask.band(scale);
    ask.figure(settings, measures).with_band(low, high)
}
