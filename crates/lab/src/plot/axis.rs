use serde::{Deserialize, Serialize};

/// How numbers lie along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// Equal steps, equal lengths.
    #[default]
    Linear,
    /// Equal factors, equal lengths. Numbers that are not above zero are left out.
    Log,
}

/// One axis of a plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What is measured along it.
    pub label: String,
    /// In which unit; empty for a count or ratio.
    pub unit: String,
    /// How numbers lie along it.
    pub scale: Scale,
    /// What it must at least show. Otherwise it fits its data, from zero if linear.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis that fits its data.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), ..Axis::default() }
    }

    /// Makes the axis logarithmic.
    pub fn with_log(mut self) -> Axis {
        self.scale = Scale::Log;
        self
    }

    /// Sets what the axis must at least show.
    pub fn with_range(mut self, low: f64, high: f64) -> Axis {
        self.range = Some((low, high));
        self
    }

    /// Label and unit: `throughput (MB/s)`.
    pub fn title(&self) -> String {
        match (self.label.as_str(), self.unit.as_str()) {
            (label, "") => label.to_owned(),
            ("", unit) => unit.to_owned(),
            (label, unit) => format!("{label} ({unit})"),
        }
    }

    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// The axis fitted to its data, with some air.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>) -> Fitted {
        let (mut low, mut high) = self.range.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        let mut distinct: Vec<f64> = Vec::new();
        for value in values.filter(|&value| self.shows(value)) {
            (low, high) = (low.min(value), high.max(value));
            if distinct.len() <= TICKS_MAX && !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        let log = self.scale == Scale::Log;
        if low > high {
            (low, high) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        let fixed = |end: f64| self.range.is_some_and(|range| range.0 == end || range.1 == end);
        if log {
            low = if fixed(low) { low } else { low / 1.15 };
            high = if fixed(high) { high } else { high * 1.15 };
        } else {
            // The axis includes zero unless a range is set.
            if self.range.is_none() && low > 0.0 {
                low = 0.0;
            }
            high = if fixed(high) { high } else { high + 0.06 * (high - low) };
        }
        if low == high {
            high = if log { low * 10.0 } else { low + 1.0 };
        }
        // A few measured values on a log axis, such as 2, 4, 8 nodes, are the best ticks there are.
        let ticks = (log && (2..=TICKS_MAX).contains(&distinct.len())).then_some(distinct);
        Fitted { scale: self.scale, low, high, ticks }
    }
}

const TICKS_MAX: usize = 8;

/// An axis with its range.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    ticks: Option<Vec<f64>>,
}

impl Fitted {
    /// Drops ticks taken from the data: right for an axis of results, not of settings.
    pub(super) fn with_plain_ticks(mut self) -> Fitted {
        self.ticks = None;
        self
    }

    /// Where a value lies: 0 at the lower end, 1 at the upper one.
    pub(super) fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// Round numbers within the range, about `count` of them if linear.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        match (&self.ticks, self.scale) {
            (Some(ticks), _) => ticks.clone(),
            (None, Scale::Linear) => linear_ticks(self.low, self.high, count),
            (None, Scale::Log) => log_ticks(self.low, self.high),
        }
    }
}

fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|nice| nice * power);
    let step = step.into_iter().find(|&step| step >= rough * 0.999).unwrap_or(10.0 * power);
    let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(|n| n as f64 * step).collect()
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let span = (high / low).log10();
    let within: &[f64] = if span < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (span / 8.0).ceil().max(1.0) as i32;
    decades
        .filter(|decade| decade.rem_euclid(every) == 0)
        .flat_map(|decade| within.iter().map(move |nice| nice * 10f64.powi(decade)))
        .filter(|tick| (low..=high).contains(tick))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_within_the_range() {
        assert_eq!(linear_ticks(0.0, 106.0, 6), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(linear_ticks(-1.0, 1.0, 5), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(log_ticks(0.9, 12.0), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(log_ticks(1.0, 1e4), [1.0, 10.0, 100.0, 1e3, 1e4]);
    }

    #[test]
    fn an_axis_fits_its_data_and_survives_none() {
        let fit = |axis: Axis, values: &[f64]| {
            let fitted = axis.fit(values.iter().copied());
            (fitted.low, fitted.high)
        };
        assert_eq!(fit(Axis::new("x", ""), &[50.0, 100.0]), (0.0, 106.0));
        assert_eq!(fit(Axis::new("x", ""), &[]), (0.0, 1.06));
        assert_eq!(fit(Axis::new("x", ""), &[f64::NAN, 0.0]), (0.0, 1.0));
        assert_eq!(fit(Axis::new("x", "").with_range(0.0, 1.0), &[0.5]), (0.0, 1.0));
        let (low, high) = fit(Axis::new("x", "").with_log(), &[0.0, -1.0, 2.0, 64.0]);
        assert!(low > 1.0 && low < 2.0 && high > 64.0 && high < 80.0);
    }

    #[test]
    fn few_values_on_a_log_axis_are_its_ticks() {
        let fitted = Axis::new("nodes", "").with_log().fit([2.0, 4.0, 8.0, 4.0].into_iter());
        assert_eq!(fitted.ticks(5), [2.0, 4.0, 8.0]);
    }
}
