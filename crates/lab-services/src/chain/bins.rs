//! Amounts over time in bins that fit the run, however long it turns out to be.

use paceline_proto::core::Instant;
use serde::{Deserialize, Serialize};

/// Most bins: the run covers more than half of them.
const BINS_MAX: usize = 64;
/// Width of the bins of the shortest runs, nanoseconds.
const WIDTH_FIRST: u64 = 1 << 10;

/// Amounts by bin. When time passes the last bin, neighbours are joined and bins double.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bins {
    width_nanos: u64,
    amounts: Vec<u64>,
}

impl Default for Bins {
    fn default() -> Bins {
        Bins { width_nanos: WIDTH_FIRST, amounts: Vec::new() }
    }
}

impl Bins {
    /// Adds an amount at a time.
    pub fn add(&mut self, at: Instant, amount: u64) {
        while at.as_nanos() / self.width_nanos >= BINS_MAX as u64 {
            self.widen();
        }
        let bin = (at.as_nanos() / self.width_nanos) as usize;
        if self.amounts.len() <= bin {
            self.amounts.resize(bin + 1, 0);
        }
        self.amounts[bin] += amount;
    }

    /// Width of a bin, nanoseconds.
    pub fn width_nanos(&self) -> u64 {
        self.width_nanos
    }

    /// Number of bins up to the last amount.
    pub fn len(&self) -> usize {
        self.amounts.len()
    }

    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.amounts.is_empty()
    }

    /// The same in bins at least as wide as these.
    pub fn at_width(&self, width_nanos: u64) -> Bins {
        let mut wider = self.clone();
        while wider.width_nanos < width_nanos {
            wider.widen();
        }
        wider
    }

    /// The middle of each of the first `bins` bins in seconds, and its amount a second.
    pub fn rates(&self, bins: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
        let width_s = self.width_nanos as f64 / 1e9;
        (0..bins).map(move |bin| {
            let amount = self.amounts.get(bin).copied().unwrap_or(0);
            ((bin as f64 + 0.5) * width_s, amount as f64 / width_s)
        })
    }

    fn widen(&mut self) {
        self.width_nanos *= 2;
        self.amounts = self.amounts.chunks(2).map(|pair| pair.iter().sum()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_fit_the_run_and_lose_nothing() {
        for nanos in [1_000, 61_600_000, 30_000_000_000, u64::MAX / 4] {
            let mut bins = Bins::default();
            for step in 0..1000 {
                bins.add(Instant::from_nanos(nanos / 1000 * step), 3);
            }
            assert_eq!(bins.amounts.iter().sum::<u64>(), 3000);
            let is_short = nanos < WIDTH_FIRST * 32;
            assert!(
                bins.len() <= BINS_MAX && (is_short || bins.len() > BINS_MAX / 2 - 1),
                "{nanos}"
            );
        }
    }

    #[test]
    fn a_steady_rate_is_flat_at_every_width() {
        let mut bins = Bins::default();
        (0..10_000).for_each(|milli| bins.add(Instant::from_nanos(milli * 1_000_000), 5));
        let (width, len) = (bins.width_nanos(), bins.len());
        let rates: Vec<(f64, f64)> = bins.rates(len - 1).collect();
        assert!(rates.iter().all(|&(_, rate)| (rate - 5000.0).abs() < 100.0), "{rates:?}");
        let wider = bins.at_width(width * 2);
        assert_eq!((wider.width_nanos(), wider.len()), (width * 2, len.div_ceil(2)));
    }
}
