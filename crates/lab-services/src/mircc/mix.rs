//! Short and long flows together: slide 17.

use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::figure::{self, Figure};

use super::Step;
use super::fluid;
use super::ledger::{BIN, Flow};
use super::measured::Measured;
use super::windows::Oracles;

/// How many seconds after a long flow began it is to fill the links.
const FILLS_AFTER: Duration = Duration::from_secs(1);

/// Links in use while there is something to fetch, and how long short flows took.
pub(super) fn figures(name: &str, measured: &Measured) -> Result<Vec<Figure>, LabError> {
    let oracles = Oracles::new(&measured.settings)?;
    let utilisation = utilisation(name, measured, &oracles)?;
    let completion = short_completion(name, measured, &oracles)?;
    let [short, long] = [false, true].map(|is_long| mean_rate(name, measured, is_long));
    Ok(vec![utilisation, completion, short, long])
}

fn utilisation(name: &str, measured: &Measured, oracles: &Oracles) -> Result<Figure, LabError> {
    let Measured { settings, ledger, .. } = measured;
    // One flow of each consumer finds all the room that there is.
    let mut consumers: Vec<usize> = Vec::new();
    let mut one_each = Vec::new();
    for (flow, step) in settings.plan.steps.iter().enumerate() {
        if !consumers.contains(&step.consumer) {
            consumers.push(step.consumer);
            one_each.push(flow);
        }
    }
    let capacity: f64 = oracles.max_min(&one_each)?.iter().sum();
    let bin = BIN * 10;
    let (mut received, mut room) = (0.0, 0.0);
    for number in 0..(settings.duration.as_nanos() / bin.as_nanos()) as u32 {
        let (from, until) = (bin * number, bin * (number + 1));
        let fills = |(flow, step): (usize, &Step)| {
            let ended = ledger.flows()[flow].ended().unwrap_or(settings.duration);
            step.is_long && step.begins + FILLS_AFTER <= from && until < ended
        };
        if settings.plan.steps.iter().enumerate().any(fills) {
            received += ledger.flows().iter().map(|flow| flow.rate(from, until)).sum::<f64>();
            room += capacity;
        }
    }
    let used = received / room;
    let note =
        format!("of eta C, {} Mbit/s, while a long flow is there", figure::number(capacity / 1e6));
    Ok(Figure::new(format!("{name}/utilisation"), used, "")
        .with_band(0.93, f64::INFINITY)
        .with_note(note))
}

/// The times of short flows, without the round trip until their first Data, over those that their
/// max-min shares of one path would take.
fn short_completion(
    name: &str,
    measured: &Measured,
    oracles: &Oracles,
) -> Result<Figure, LabError> {
    let Measured { settings, ledger, .. } = measured;
    let (steps, flows) = (&settings.plan.steps, ledger.flows());
    let bits = bits_of(measured);
    let ideal = fluid::completions(steps, &bits, |active| oracles.single(active))?;
    let short = || steps.iter().enumerate().filter(|(_, step)| !step.is_long);
    let trip = oracles.round_trip();
    let took = |flow: usize| Some((flows[flow].took()?.saturating_sub(trip)).as_secs_f64());
    let ratios: Vec<f64> =
        short().filter_map(|(flow, _)| Some(took(flow)? / ideal[flow])).collect();
    let whole = ratios.len();
    let mean = ratios.iter().sum::<f64>() / whole.max(1) as f64;
    let note = format!(
        "{whole} of {} short flows ended; beyond a round trip, against shares of one path",
        short().count()
    );
    Ok(Figure::new(format!("{name}/short-completion"), mean, "of ideal").with_note(note))
}

/// Bits on the link that each flow has to receive, by the mean size of what came.
pub(super) fn bits_of(measured: &Measured) -> Vec<f64> {
    let Measured { settings, ledger, outcome, .. } = measured;
    let flows = ledger.flows();
    let until = Duration::from_nanos(outcome.ended.as_nanos());
    let segments: u64 = flows.iter().map(|flow| flow.segments).sum();
    let bits: f64 = flows.iter().map(|flow| flow.bits(until)).sum();
    let data_bits = bits / segments.max(1) as f64;
    let steps = settings.plan.steps.iter();
    steps.map(|step| step.segments.unwrap_or(0) as f64 * data_bits).collect()
}

/// The mean rate of short flows, or of long ones, from their beginning to their end.
fn mean_rate(name: &str, measured: &Measured, is_long: bool) -> Figure {
    let Measured { settings, ledger, .. } = measured;
    let rate = |step: &Step, flow: &Flow| {
        let lived = flow.ended().unwrap_or(settings.duration).saturating_sub(step.begins);
        flow.bits(settings.duration) / lived.as_secs_f64()
    };
    let flows = || {
        let flows = settings.plan.steps.iter().zip(ledger.flows());
        flows.filter(|(step, _)| step.is_long == is_long)
    };
    let count = flows().count();
    let mean = flows().map(|(step, flow)| rate(step, flow)).sum::<f64>() / count.max(1) as f64;
    let ended = flows().filter(|(_, flow)| flow.is_whole).count();
    let what = if is_long { "long" } else { "short" };
    Figure::new(format!("{name}/{what}-rate"), mean / 1e6, "Mbit/s")
        .with_note(format!("{ended} of {count} ended"))
}
