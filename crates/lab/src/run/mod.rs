//! The result of a run.

mod manifest;
mod series;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use manifest::{FORMAT, Manifest, Run, WorldKind};
pub(crate) use series::table as csv_table;
pub use series::{parse_series, series_csv};

use crate::figure::{Figure, null_is_nan};
use crate::plot::Plot;

/// What one run gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResult {
    /// Numbers with a band or a published counterpart.
    pub figures: Vec<Figure>,
    /// Numbers that sum up the run, in the order to show them.
    pub summary: Vec<Metric>,
    /// What was measured along the way, in order of time.
    pub series: Vec<Sample>,
    /// Drawings of what happened, where a scenario asks for them.
    pub drawings: Vec<Plot>,
    /// Events that the run took; 0 where there is no such count.
    pub events: u64,
    /// Digest of all that happened, in hexadecimal; none where a run is not reproducible to the
    /// bit.
    pub digest: Option<String>,
    /// Digest of what applications delivered: equal in both worlds.
    pub deliveries: Option<String>,
    /// Senders that got nothing through to all members in the measured time, where others did.
    pub starved: Vec<u64>,
    /// Seconds that it took on the wall.
    pub wall_s: f64,
}

impl Figure {
    /// Says which run it came from.
    pub fn with_run(mut self, scenario: impl Into<String>, seed: u64, run: &RunResult) -> Figure {
        self.scenario = scenario.into();
        self.seed = seed;
        self.events = run.events;
        self.digest = run.digest.clone();
        self
    }
}

/// One number that sums up a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name: `throughput`, `latency_p99`.
    pub metric: Cow<'static, str>,
    /// The number. NaN if nothing was measured.
    #[serde(deserialize_with = "null_is_nan")]
    pub value: f64,
    /// Its unit; empty for a count or ratio.
    pub unit: Cow<'static, str>,
}

impl Metric {
    /// A number with a name and a unit.
    pub fn new(
        metric: impl Into<Cow<'static, str>>,
        value: f64,
        unit: impl Into<Cow<'static, str>>,
    ) -> Metric {
        Metric { metric: metric.into(), value, unit: unit.into() }
    }
}

/// One number measured at a time of the run: a row of `series.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Seconds since the run began.
    pub time_s: f64,
    /// The node it was measured at; none if it is the whole run's.
    pub node: Option<u32>,
    /// What was measured; ends in its unit: `queue_bytes`, `latency_ms`.
    pub metric: Cow<'static, str>,
    /// The number.
    pub value: f64,
}

impl Sample {
    /// A number measured at a node.
    pub fn at_node(
        time_s: f64,
        node: u32,
        metric: impl Into<Cow<'static, str>>,
        value: f64,
    ) -> Sample {
        Sample { time_s, node: Some(node), metric: metric.into(), value }
    }

    /// A number of the whole run.
    pub fn overall(time_s: f64, metric: impl Into<Cow<'static, str>>, value: f64) -> Sample {
        Sample { time_s, node: None, metric: metric.into(), value }
    }
}
