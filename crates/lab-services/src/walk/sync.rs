//! Global synchronisation: whether servers speed up and slow down together, pair by pair.
//!
//! The published claim is about servers that all generate walkers, at the time scale on which a
//! server learns of congestion. So only the time in which all servers generate counts, a bin is
//! about as long as a walk takes (the delay of the control loop), and pairs are not averaged: one
//! positive and one negative correlation are not "none".

use std::time::Duration;

use paceline_proto::core::Instant;

/// Width of the bins in which generations are counted, at the start of a run.
const BIN: Duration = Duration::from_micros(250);
/// Bins a server at most; with more, neighbouring bins are merged and all are twice as wide.
const BINS_MAX: usize = 1 << 20;
/// Fewest bins from which a correlation is computed.
const BINS_MIN: usize = 30;

/// How many walkers each server generates, over time.
#[derive(Clone, Debug)]
pub struct Rates {
    width: Duration,
    servers: Vec<Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    bins: Vec<u32>,
    generated: u64,
    first: Option<Instant>,
    last: Instant,
}

/// Two servers and how their rates go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The servers, by their places from 0.
    pub servers: (usize, usize),
    /// Pearson correlation of the walkers that the two generate in a bin, -1 to 1. 0 where one of
    /// them always generates the same number.
    pub correlation: f64,
}

/// All pairs of servers of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Synchronisation {
    /// Width of a bin.
    pub bin: Duration,
    /// Bins in which all servers generate.
    pub bins: usize,
    /// One entry a pair, in the order of the servers.
    pub pairs: Vec<Pair>,
}

impl Rates {
    /// No generation yet, at this number of servers.
    pub fn new(servers: usize) -> Rates {
        Rates { width: BIN, servers: vec![Counts::default(); servers] }
    }

    /// A server has generated this many walkers since its start.
    pub fn note(&mut self, at: Instant, server: usize, generated: u64) {
        let counts = &mut self.servers[server];
        let new = generated - counts.generated;
        if new == 0 {
            return;
        }
        counts.generated = generated;
        counts.first.get_or_insert(at);
        counts.last = at;
        let mut bin = (at.as_nanos() / self.width.as_nanos() as u64) as usize;
        while bin >= BINS_MAX {
            self.merge();
            bin /= 2;
        }
        let counts = &mut self.servers[server];
        if bin >= counts.bins.len() {
            counts.bins.resize(bin + 1, 0);
        }
        counts.bins[bin] += new as u32;
    }

    /// Makes all bins twice as wide.
    fn merge(&mut self) {
        self.width *= 2;
        for counts in &mut self.servers {
            counts.bins = counts.bins.chunks(2).map(|two| two.iter().sum()).collect();
        }
    }

    /// The time in which all servers generate: from the first generation of the server that begins
    /// last to the last generation of the server that ends first.
    pub fn active(&self) -> Option<(Instant, Instant)> {
        let first = self.servers.iter().map(|counts| counts.first).collect::<Option<Vec<_>>>()?;
        let first = first.into_iter().max()?;
        let last = self.servers.iter().map(|counts| counts.last).min()?;
        (last > first).then_some((first, last))
    }

    /// The correlation of each pair while all servers generate, in bins of about this width.
    /// None if that time has fewer than 30 such bins.
    pub fn synchronisation(&self, width: Duration) -> Option<Synchronisation> {
        let (from, to) = self.active()?;
        let nanos = self.width.as_nanos() as f64;
        let merged = (width.as_nanos() as f64 / nanos).round().max(1.0) as usize;
        let begin = (from.as_nanos() as f64 / nanos).ceil() as usize;
        let end = (to.as_nanos() as f64 / nanos).floor() as usize;
        let bins = end.saturating_sub(begin) / merged;
        if bins < BINS_MIN {
            return None;
        }
        let rates: Vec<Vec<f64>> = self
            .servers
            .iter()
            .map(|counts| {
                let active = &counts.bins[begin..begin + bins * merged];
                active.chunks(merged).map(|bin| f64::from(bin.iter().sum::<u32>())).collect()
            })
            .collect();
        let pairs = (0..rates.len()).flat_map(|one| (one + 1..rates.len()).map(move |o| (one, o)));
        let pair = |servers: (usize, usize)| {
            let correlation = correlation(&rates[servers.0], &rates[servers.1]);
            Pair { servers, correlation }
        };
        let bin = self.width * merged as u32;
        Some(Synchronisation { bin, bins, pairs: pairs.map(pair).collect() })
    }
}

/// Pearson's correlation of two rows of the same length.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let count = one.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (a, b) = (mean(one), mean(other));
    let together: f64 = one.iter().zip(other).map(|(x, y)| (x - a) * (y - b)).sum();
    let spread = |values: &[f64], mean: f64| -> f64 {
        values.iter().map(|value| (value - mean) * (value - mean)).sum()
    };
    let spreads = (spread(one, a) * spread(other, b)).sqrt();
    if spreads > 0.0 { together / spreads } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of servers whose walkers in each bin of 1 ms are these.
    fn rates(of: &[&dyn Fn(u64) -> u64], bins: u64) -> Rates {
        let mut rates = Rates::new(of.len());
        for (server, of) in of.iter().enumerate() {
            let mut generated = 0;
            for bin in 0..bins {
                generated += of(bin);
                let at = Instant::from_nanos(bin * 1_000_000 + 500_000);
                rates.note(at, server, generated);
            }
        }
        rates
    }

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn pairs_that_speed_up_together_or_by_turns_are_told_apart_and_not_averaged() {
        let fast = |bin: u64| if bin % 4 < 2 { 30 } else { 10 };
        let slow = |bin: u64| if bin % 4 < 2 { 10 } else { 30 };
        let found = rates(&[&fast, &fast, &slow], 200).synchronisation(MILLI).unwrap();
        let correlations: Vec<f64> = found.pairs.iter().map(|pair| pair.correlation).collect();
        assert_eq!(found.pairs[1].servers, (0, 2));
        assert!(correlations[0] > 0.999, "{correlations:?}");
        assert!(correlations[1] < -0.999 && correlations[2] < -0.999, "{correlations:?}");
        let even = rates(&[&fast, &|_| 7], 200).synchronisation(MILLI).unwrap();
        assert_eq!(even.pairs[0].correlation, 0.0);
    }

    #[test]
    fn the_time_in_which_not_all_generate_does_not_count() {
        // Independent while both generate; then the one stops and the other goes twice as fast.
        let one = |bin: u64| if bin < 400 { 10 + bin % 2 } else { 0 };
        let other = |bin: u64| if bin < 400 { 10 + bin / 2 % 2 } else { 40 };
        let rates = rates(&[&one, &other], 800);
        let found = rates.synchronisation(MILLI).unwrap();
        assert!(found.bins <= 400, "{}", found.bins);
        assert!(found.pairs[0].correlation.abs() < 0.05, "{:?}", found.pairs);
        let all: Vec<f64> = (0..800).map(|bin| one(bin) as f64).collect();
        let others: Vec<f64> = (0..800).map(|bin| other(bin) as f64).collect();
        assert!(correlation(&all, &others) < -0.9, "the whole run would say the opposite");
    }

    #[test]
    fn too_short_a_time_gives_no_number() {
        let rates = rates(&[&|_| 5, &|_| 5], 20);
        assert_eq!(rates.synchronisation(MILLI), None);
        assert_eq!(Rates::new(2).active(), None);
    }

    #[test]
    fn long_runs_take_no_more_memory() {
        let mut rates = Rates::new(1);
        for second in 0..2_000 {
            rates.note(Instant::ZERO + Duration::from_secs(second), 0, second + 1);
        }
        let counts = &rates.servers[0];
        assert!(counts.bins.len() <= BINS_MAX);
        assert_eq!(counts.bins.iter().map(|&count| u64::from(count)).sum::<u64>(), 2_000);
    }
}
