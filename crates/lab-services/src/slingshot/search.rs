//! Throughput: the highest rate at which enough packets arrive in time, found by runs of the same
//! scenario at several rates.

use std::ops::RangeInclusive;
use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::run::{Metric, RunResult};
use paceline_lab::scenario::{Scenario, Table};
use paceline_proto::core::Lane;

use super::{Measures, Settings};

/// What is searched for: `[measure] throughput_within` and the keys beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// A packet is in time if it is delivered within this time of its sending.
    pub within: Duration,
    /// The share of packets at receivers that must be in time. Default 99.9 %.
    pub share: f64,
    /// The rates between which it is searched, packets a second of all senders.
    pub rates: RangeInclusive<f64>,
}

/// Until a rate is found that passes, each next one is lower by this factor.
const STEP: f64 = 1.25;
/// The search ends once the lowest rate that failed is at most this factor above the highest that
/// passed.
const PRECISION: f64 = 1.01;

/// The rate at which packets of these bytes, without their headers, fill the link of a member that
/// receives them, packets a second of all senders. Where all send, no member receives its own.
pub(super) fn link_rate(scenario: &Scenario, senders: u32, packet_bytes: usize) -> f64 {
    let topology = &scenario.topology;
    let bytes = topology.overhead.charge(Lane::Datagram, packet_bytes);
    let received = match senders == topology.nodes {
        true => 1.0 - 1.0 / f64::from(senders),
        false => 1.0,
    };
    topology.rate.bits_per_second() as f64 / (8 * bytes) as f64 / received
}

impl Search {
    /// Reads the keys of `[measure]`; none if no throughput is searched for.
    pub(super) fn read(
        table: &mut Table<'_>,
        scenario: &Scenario,
        senders: u32,
        packet_bytes: usize,
    ) -> Result<Option<Search>, LabError> {
        let Some(within) = table.duration_optional("throughput_within")? else {
            let others = ["throughput_share", "rate_min", "rate_max"];
            return match others.into_iter().find(|key| table.has(key)) {
                None => Ok(None),
                Some(key) => {
                    let problem = format!("`{key}` applies only to a search for the throughput");
                    Err(table.error(key, problem, "together with `throughput_within`"))
                }
            };
        };
        let share = table.probability_or("throughput_share", 0.999)?;
        // Below one a second and above a million no scenario can offer packets.
        let most = link_rate(scenario, senders, packet_bytes).clamp(1.0, 1e6);
        let rate_max = table.frequency_or("rate_max", (most * 10.0).round() / 10.0)?;
        let rate_min = table.frequency_or("rate_min", (rate_max * 0.5).round() / 10.0)?;
        if !(rate_min > 0.0 && rate_min <= rate_max && rate_max <= 1e6) {
            let problem = format!("the range of rates from {rate_min}/s to {rate_max}/s is empty");
            return Err(table.error("rate_min", problem, "above zero, and up to `rate_max`"));
        }
        Ok(Some(Search { within, share, rates: rate_min..=rate_max }))
    }

    /// Runs the scenario at several rates, and gives what the run at the highest one that passed
    /// measured or, if none passed, the run at the lowest.
    pub(super) fn run(
        &self,
        scenario: &Scenario,
        mut run: impl FnMut(&Settings, Scenario) -> Result<(Measures, RunResult), LabError>,
    ) -> Result<(Measures, RunResult), LabError> {
        // Invalid settings at the lowest rate are reported before any run.
        Settings::read(&at_rate(scenario, *self.rates.start())?)?;
        let mut probes: Vec<(f64, f64)> = Vec::new();
        let mut kept: Option<(bool, Measures, RunResult)> = None;
        let (mut events, mut wall_s, mut is_stopped) = (0, 0.0, false);
        let found = highest(self.rates.clone(), |rate| {
            if is_stopped {
                return Ok(false);
            }
            let probe = at_rate(scenario, rate)?;
            let (measures, result) = run(&Settings::read(&probe)?, probe)?;
            events += result.events;
            wall_s += result.wall_s;
            is_stopped = result.summary.iter().any(|metric| metric.metric == "stopped_early");
            let share = measures.in_time();
            probes.push((rate, share));
            let is_enough = share >= self.share && !is_stopped;
            // Rates that pass ascend, and those that fail before them descend.
            if is_enough || kept.as_ref().is_none_or(|(passed, ..)| !passed) {
                kept = Some((is_enough, measures, result));
            }
            Ok(is_enough)
        })?;
        let (_, mut measures, mut result) = kept.expect("the highest rate was tried");
        // A search that was stopped has found nothing.
        measures.throughput = if is_stopped { f64::NAN } else { found.unwrap_or(0.0) };
        (result.events, result.wall_s) = (events, wall_s);
        result.summary.splice(0..0, self.summary(&measures, &probes));
        result.drawings.insert(0, self.plot(probes));
        Ok((measures, result))
    }

    fn summary(&self, measures: &Measures, probes: &[(f64, f64)]) -> [Metric; 4] {
        [
            Metric::new("throughput", measures.throughput, "packets/s"),
            Metric::new("in_time", measures.in_time(), ""),
            Metric::new("in_time_at_all_receivers", measures.in_time_at_all(), ""),
            Metric::new("rates_tried", probes.len() as f64, ""),
        ]
    }

    fn plot(&self, mut probes: Vec<(f64, f64)>) -> Plot {
        probes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let x = Axis::new("offered rate", "packets/s").with_log();
        let y = Axis::new("in time", "of packets at receivers").with_range(0.9, 1.0);
        let needed: Vec<(f64, f64)> = probes.iter().map(|&(rate, _)| (rate, self.share)).collect();
        Plot::new("Packets in time at each rate that was tried", x, y)
            .with_line("measured", probes)
            .with_line("needed", needed)
    }
}

/// The scenario at another rate.
fn at_rate(scenario: &Scenario, rate: f64) -> Result<Scenario, LabError> {
    scenario.with_sets([format!("workload.rate={rate}/s")])
}

/// The highest rate that passes, to within [`PRECISION`]; none if none does. From the top, because
/// a rate may be too low as well: repairs that wait for further packets then come too late.
fn highest(
    rates: RangeInclusive<f64>,
    mut passes: impl FnMut(f64) -> Result<bool, LabError>,
) -> Result<Option<f64>, LabError> {
    let round = |rate: f64| (rate * 10.0).round() / 10.0;
    let (least, mut failed) = (*rates.start(), *rates.end());
    if passes(failed)? {
        return Ok(Some(failed));
    }
    let mut passed = loop {
        if failed <= least {
            return Ok(None);
        }
        let next = round(failed / STEP).max(least);
        if passes(next)? {
            break next;
        }
        failed = next;
    };
    while failed / passed > PRECISION {
        let middle = round((failed * passed).sqrt());
        if middle <= passed || middle >= failed {
            break;
        }
        match passes(middle)? {
            true => passed = middle,
            false => failed = middle,
        }
    }
    Ok(Some(passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(passing: RangeInclusive<f64>) -> (Option<f64>, Vec<f64>) {
        let mut tried = Vec::new();
        let found = highest(100.0..=2000.0, |rate| {
            tried.push(rate);
            Ok(passing.contains(&rate))
        });
        (found.unwrap(), tried)
    }

    #[test]
    fn the_highest_rate_that_passes_is_found_to_a_hundredth() {
        for end in [101.0, 400.0, 777.7, 1500.0, 1999.0] {
            let (rate, tried) = found(80.0..=end);
            let rate = rate.unwrap();
            assert!(rate <= end && end / rate <= PRECISION + 1e-3, "{end}: {tried:?}");
        }
    }

    #[test]
    fn rates_below_those_that_pass_are_not_mistaken_for_the_end() {
        let (rate, tried) = found(600.0..=900.0);
        assert!((890.0..=900.0).contains(&rate.unwrap()), "{tried:?}");
    }

    #[test]
    fn where_all_or_no_rates_pass_the_ends_are_tried() {
        assert_eq!(found(0.0..=2000.0), (Some(2000.0), vec![2000.0]));
        let (rate, tried) = found(0.0..=50.0);
        assert_eq!((rate, tried.last()), (None, Some(&100.0)));
    }
}
