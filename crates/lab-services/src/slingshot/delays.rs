use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// They are kept in nanoseconds up to this many, with three digits.
const NANOS_MAX: u64 = 60_000_000_000;

/// How long packets took, from sending to delivery.
#[derive(Debug)]
pub struct Delays {
    nanos: Histogram<u64>,
    sum_nanos: u128,
}

/// What one node's process noted of them.
#[derive(Debug, Serialize, Deserialize)]
pub struct DelaysPart {
    // Nanoseconds and how often.
    nanos: Vec<(u64, u64)>,
    sum_nanos: u64,
}

impl Default for Delays {
    fn default() -> Delays {
        let nanos = Histogram::new_with_bounds(1, NANOS_MAX, 3);
        Delays { nanos: nanos.expect("the bounds are in order"), sum_nanos: 0 }
    }
}

impl Delays {
    pub(super) fn record(&mut self, nanos: u64) {
        self.nanos.saturating_record(nanos);
        self.sum_nanos += u128::from(nanos);
    }

    pub(super) fn part(&self) -> DelaysPart {
        let of_bucket = |bucket: hdrhistogram::iterators::IterationValue<u64>| {
            (bucket.value_iterated_to(), bucket.count_at_value())
        };
        DelaysPart {
            nanos: self.nanos.iter_recorded().map(of_bucket).collect(),
            sum_nanos: self.sum_nanos as u64,
        }
    }

    pub(super) fn merge(&mut self, part: DelaysPart) {
        for (nanos, times) in part.nanos {
            self.nanos.saturating_record_n(nanos, times);
        }
        self.sum_nanos += u128::from(part.sum_nanos);
    }

    /// How many packets there are.
    pub fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// How many took no longer than this.
    pub fn count_within(&self, time: Duration) -> u64 {
        self.nanos.count_between(0, time.as_nanos() as u64)
    }

    /// What this share of them did not exceed, ms; 0 if there are none.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.nanos.value_at_quantile(share) as f64 / 1e6
    }

    /// The mean; 0 if there are none.
    pub fn mean_nanos(&self) -> f64 {
        self.sum_nanos as f64 / self.count().max(1) as f64
    }
}
