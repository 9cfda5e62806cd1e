//! How rates settle after flows come and go: slide 10.

use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::figure::{self, Figure};
use paceline_proto::mircc::Algorithm;

use super::measured::{Measured, controller_name};
use super::windows::Oracles;

/// How near to its share each flow's rate must be to have settled.
const SETTLED: f64 = 0.05;

/// A time in which the same flows are there, after the first.
struct Change {
    /// `arrive-3`: what happened, and how many flows there are since.
    name: String,
    /// Time until the rate granted to each flow is within 5 % of its share, and stays; `None` if
    /// one does not settle before the next change.
    settled: Option<Duration>,
    /// Largest error of a flow's granted rate in the second half, relative to its share.
    off: f64,
}

fn changes(measured: &Measured) -> Result<Vec<Change>, LabError> {
    let Measured { settings, ledger, .. } = measured;
    let oracles = Oracles::new(settings)?;
    let times = &settings.plan.changes;
    let mut found = Vec::new();
    let mut before = 0;
    for (place, &change) in times.iter().enumerate() {
        let until = times.get(place + 1).copied().unwrap_or(settings.duration);
        let active = settings.plan.active(change);
        let word = if active.len() > before { "arrive" } else { "leave" };
        before = active.len();
        if place == 0 || active.is_empty() {
            continue;
        }
        let half = change + (until - change) / 2;
        let (mut settled, mut off) = (change, 0f64);
        for (&flow, share) in active.iter().zip(oracles.single(&active)?) {
            let rates = &ledger.flows()[flow].stamped_rates;
            // From one granted rate to the next.
            for (place, &(at, rate)) in rates.iter().enumerate() {
                let next = rates.get(place + 1).map_or(until, |&(at, _)| Duration::from_nanos(at));
                let distance = (rate as f64 / share - 1.0).abs();
                if next <= change || Duration::from_nanos(at) >= until {
                    continue;
                }
                if distance > SETTLED {
                    settled = settled.max(next.min(until));
                }
                if next > half {
                    off = off.max(distance);
                }
            }
            let first = rates.first().map_or(until, |&(at, _)| Duration::from_nanos(at));
            settled = settled.max(first.min(until));
        }
        found.push(Change {
            name: format!("{word}-{}", active.len()),
            settled: (settled < until).then_some(settled - change),
            off,
        });
    }
    Ok(found)
}

/// How long after each change the granted rates settle, ms: until the next change if they do not.
pub(super) fn convergence(name: &str, measured: &Measured) -> Result<Vec<Figure>, LabError> {
    let controller = controller_name(&measured.settings);
    let step = measured.settings.plan.changes.windows(2).map(|pair| pair[1] - pair[0]).max();
    let figure = |change: Change| {
        let settled = change.settled.or(step).unwrap_or_default();
        let id = format!("{name}/{}/{controller}", change.name);
        Figure::new(id, settled.as_secs_f64() * 1e3, "ms")
    };
    Ok(changes(measured)?.into_iter().map(figure).collect())
}

/// The error of flows' rates after each change, beside the time in which granted rates settle: on a
/// slow link one Data more or less in an interval is more than 5 %.
pub(super) fn distances(name: &str, measured: &Measured) -> Result<Vec<Figure>, LabError> {
    let controller = controller_name(&measured.settings);
    let mut changes = changes(measured)?;
    let mut figures = Vec::new();
    for held in &measured.held {
        // A change is long enough to be a window, or it has no rates to show.
        let begins = held.window.from;
        let place = measured.settings.plan.changes.iter().filter(|&&change| change < begins);
        let Some(place) = place.count().checked_sub(2).filter(|&place| place < changes.len())
        else {
            continue;
        };
        let change = &mut changes[place];
        let off = figure::number(change.off * 100.0);
        let note = match change.settled {
            Some(settled) => {
                let ms = figure::number(settled.as_secs_f64() * 1e3);
                format!("stamped rates stay within 5 % after {ms} ms")
            }
            None => format!("stamped rates do not settle within 5 %: up to {off} % off"),
        };
        let id = format!("{name}/{}/{controller}", change.name);
        let distance = Figure::new(id, held.distance() * 100.0, "%")
            .with_note(format!("distance of mean rates from shares; {note}"));
        figures.push(match measured.settings.config.controller.algorithm {
            Algorithm::Mircc => distance.with_band(0.0, SETTLED * 100.0),
            // RCP's mean rates are far from shares at these rates.
            Algorithm::Rcp => distance,
        });
    }
    Ok(figures)
}
