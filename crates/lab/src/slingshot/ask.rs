//! What a figure shows of a run, and what is said beside it.

use std::time::Duration;

use super::{Measures, Settings, closed};
use crate::figure::{Figure, Scale, number};

/// What a figure shows of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// The share of lost packets that repairs brought back.
    Recovered,
    /// The mean time that it took.
    MeanMs,
    /// The share within ten milliseconds.
    WithinTenMs,
    /// The time by which 97 % of all that was lost was back.
    UntilMs,
    /// Repairs, as a share of packets.
    Overhead,
    /// The share that came back in whatever way.
    Back,
    /// The time by which this share of all that was lost came back in whatever way; by which the
    /// first did, if it is 0.
    BackMs(f64),
    /// The same in seconds.
    BackSeconds(f64),
}

/// A figure that a run is asked for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub id: String,
    pub what: What,
    // The band, if the run is the one that belongs to the id.
    pub low: f64,
    pub high: f64,
    pub paper: Option<f64>,
}

const TEN_MS: Duration = Duration::from_millis(10);

impl Ask {
    pub fn new(id: impl Into<String>, what: What, low: f64, high: f64) -> Ask {
        Ask { id: id.into(), what, low, high, paper: None }
    }

    /// A share of recovered packets, by its middle and the width of its band to each side.
    pub fn recovered(id: impl Into<String>, middle: f64, by: f64) -> Ask {
        Ask::new(id, What::Recovered, middle - by, middle + by)
    }

    pub fn with_paper(self, paper: f64) -> Ask {
        Ask { paper: Some(paper), ..self }
    }

    /// The band of a run of this scale: small runs see few losses.
    pub fn band(&self, scale: Scale) -> (f64, f64) {
        let (low, high) = (self.low, self.high);
        match (scale, self.what) {
            (Scale::Full, _) | (_, What::Back) => (low, high),
            (_, What::Recovered | What::WithinTenMs) => (low - 0.04, high + 0.04),
            (_, What::MeanMs | What::UntilMs) => (0.75 * low, 1.33 * high),
            (_, What::BackMs(_) | What::BackSeconds(_)) => (0.9 * low, 1.1 * high),
            (_, What::Overhead) => (low - 0.01, high + 0.01),
        }
    }

    pub fn figure(&self, settings: &Settings, measures: &Measures) -> Figure {
        let (value, unit) = match self.what {
            What::Recovered => (measures.recovered(), "of lost"),
            What::MeanMs => (measures.mean_ms(), "ms"),
            What::WithinTenMs => (measures.recovered_within(TEN_MS), "of lost"),
            What::UntilMs => (measures.time_until_ms(0.97), "ms"),
            What::Overhead => (measures.overhead, "of packets"),
            What::Back => (measures.back(), "of lost"),
            What::BackMs(share) => (measures.time_until_back_ms(share), "ms"),
            What::BackSeconds(share) => (measures.time_until_back_ms(share) / 1e3, "s"),
        };
        let figure = Figure::new(&self.id, value, unit).with_note(self.note(settings, measures));
        match self.paper {
            Some(paper) => figure.with_paper(paper),
            None => figure,
        }
    }

    // What the closed form says, and what a reader should see beside the figure.
    fn note(&self, settings: &Settings, measures: &Measures) -> String {
        match self.what {
            What::Back => note_of_back(settings, measures),
            What::BackMs(share) => note_of_time(settings, measures, share, 1e3, "ms"),
            What::BackSeconds(share) => note_of_time(settings, measures, share, 1.0, "s"),
            _ => self.note_of_repairs(settings, measures),
        }
    }

    fn note_of_repairs(&self, settings: &Settings, measures: &Measures) -> String {
        let (Some(predicted), Some(config)) = (settings.predicted(), settings.setup.repairs())
        else {
            return format!("no repairs are sent; {} packets lost", measures.lost);
        };
        let ms = |time: Duration| number(time.as_secs_f64() * 1e3);
        let until = |share| {
            let time = predicted.time_until(share);
            reached(time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3))
        };
        match self.what {
            What::MeanMs => format!("closed form {} ms", ms(predicted.mean())),
            What::WithinTenMs => {
                format!("closed form {}", number(predicted.recovered_within(TEN_MS)))
            }
            What::UntilMs => format!(
                "closed form {}; 93 % {}, closed form {}",
                until(0.97),
                reached(measures.time_until_ms(0.93)),
                until(0.93),
            ),
            What::Overhead => {
                let rate = config.rate();
                format!(
                    "closed form {}: repairs sent beside packets received",
                    number(rate.c as f64 / (rate.r + rate.c) as f64)
                )
            }
            _ => {
                let by_one = if settings.is_bursty { ", for losses one by one" } else { "" };
                format!(
                    "closed form {}{by_one}; {} of {} lost; mean {} ms, 97 % {}",
                    number(predicted.recovered()),
                    measures.recovered_ms.len(),
                    measures.lost,
                    number(measures.mean_ms()),
                    reached(measures.time_until_ms(0.97)),
                )
            }
        }
    }
}

/// By when a share is back, in milliseconds; it may never be.
fn reached(ms: f64) -> String {
    if ms.is_finite() { format!("by {} ms", number(ms)) } else { "never".to_owned() }
}

fn note_of_back(settings: &Settings, measures: &Measures) -> String {
    let closed = match closed::digest_mean(settings) {
        Some(mean) => format!(", closed form {} ms", number(mean.as_secs_f64() * 1e3)),
        None => String::new(),
    };
    format!(
        "{} lost; mean {} ms{closed}; 97 % {}; {} % extra packets",
        measures.lost,
        number(measures.back_mean_ms()),
        reached(measures.time_until_back_ms(0.97)),
        number(100.0 * measures.extra),
    )
}

fn note_of_time(
    settings: &Settings,
    measures: &Measures,
    share: f64,
    per_second: f64,
    unit: &str,
) -> String {
    let closed = match closed::srm_time(settings, share) {
        Some(time) => format!("closed form {} {unit}; ", number(time.as_secs_f64() * per_second)),
        None => String::new(),
    };
    format!("{closed}{} lost; overhead {}", measures.lost, number(measures.overhead))
}
