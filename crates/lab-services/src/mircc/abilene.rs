//! Several paths against one on the Abilene backbone: slide 18.

use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::figure::{self, Figure, Scale};
use paceline_lab::run::RunResult;

use super::measured::Measured;
use super::topology::Routing;
use super::windows::Oracles;
use super::{fluid, mix};

/// Times over several paths, over those over one: at most. Of small objects round trips are more
/// of the time, and several paths gain less.
const RATIO_MAX: f64 = 0.85;
const RATIO_MAX_QUICK: f64 = 0.98;

/// What one run took.
pub(super) struct Times {
    routing: Routing,
    seed: u64,
    run: RunResult,
    /// Of each consumer: its name, and the seconds of its flows, as measured and as fluid shares
    /// would take.
    consumers: Vec<(String, f64, f64)>,
}

impl Times {
    /// The times of a run in which all flows end.
    pub(super) fn of(
        name: &str,
        seed: u64,
        measured: &Measured,
        run: RunResult,
    ) -> Result<Times, LabError> {
        let Measured { settings, ledger, .. } = measured;
        let took = ledger.flows().iter().map(|flow| flow.took());
        let Some(took) = took.collect::<Option<Vec<_>>>() else {
            return Err(LabError::Run(format!("{name}, seed {seed}: not all flows ended")));
        };
        let oracles = Oracles::new(settings)?;
        let steps = &settings.plan.steps;
        let bits = mix::bits_of(measured);
        let ideal = fluid::completions(steps, &bits, |active| oracles.fluid(active))?;
        let names = settings.graph.consumers().iter();
        let mut consumers: Vec<_> = names.map(|one| (one.name.clone(), 0.0, 0.0)).collect();
        for ((step, took), ideal) in steps.iter().zip(took).zip(ideal) {
            consumers[step.consumer].1 += Duration::as_secs_f64(&took);
            consumers[step.consumer].2 += ideal;
        }
        Ok(Times { routing: settings.routing, seed, run, consumers })
    }

    fn sum(&self) -> f64 {
        self.consumers.iter().map(|(_, took, _)| took).sum()
    }

    fn ideal(&self) -> f64 {
        self.consumers.iter().map(|(.., ideal)| ideal).sum()
    }
}

/// Times over several paths, over times over one: of all consumers together, beside the same of
/// fluid shares, and of each.
pub(super) fn figures(times: &[Times], scale: Scale) -> Vec<Figure> {
    let of = |is_single: bool| {
        times.iter().filter(move |one| (one.routing == Routing::Single) == is_single)
    };
    let pairs = || of(false).zip(of(true));
    let Some(first) = of(false).next() else { return Vec::new() };
    let figure = |what: &str, ratio: f64| {
        Figure::new(format!("mircc/abilene/{what}"), ratio, "of single path").with_run(
            "mircc/abilene",
            first.seed,
            &first.run,
        )
    };
    let total = |value: fn(&Times) -> f64| {
        of(false).map(value).sum::<f64>() / of(true).map(value).sum::<f64>()
    };
    let won = pairs().filter(|(multi, single)| multi.sum() < single.sum()).count();
    let lost = pairs().filter(|(multi, single)| multi.sum() > single.sum()).count();
    let ideal = figure::number(total(Times::ideal));
    let ratio = figure("ratio", total(Times::sum)).with_note(format!(
        "sum of delivery times; fluid shares of two classes would give {ideal}; several paths \
         faster in {won} seeds, slower in {lost}"
    ));
    let most = if scale == Scale::Full { RATIO_MAX } else { RATIO_MAX_QUICK };
    let ratio = ratio.with_band(0.0, most);
    let pass = ratio.pass && won > lost;
    let mut figures = vec![Figure { pass, ..ratio }];
    for (place, (name, ..)) in first.consumers.iter().enumerate() {
        let took = |one: &Times| one.consumers[place].1;
        let sum = |is_single: bool| of(is_single).map(took).sum::<f64>();
        let gained = pairs().filter(|(multi, single)| took(multi) < took(single)).count();
        let lost = pairs().filter(|(multi, single)| took(multi) > took(single)).count();
        let note = format!("faster in {gained} seeds, slower in {lost}");
        let id = format!("consumer-{name}");
        figures.push(figure(&id, sum(false) / sum(true)).with_note(note));
    }
    figures
}
