//! What a figure shows of a run, and its notes.

use std::time::Duration;

use paceline_baselines::srm::Distance;
use paceline_lab::figure::{Figure, Scale, number};

use super::{Measures, Settings, Setup, closed};

/// What a figure shows of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// The share of lost packets that repairs brought back.
    Recovered,
    /// The mean time that it took.
    MeanMs,
    /// The share recovered within this many milliseconds.
    WithinMs(u64),
    /// The time by which 97 % of all that was lost was back.
    UntilMs,
    /// Repairs, as a share of packets.
    Overhead,
    /// All messages but packets of their senders, for each of these that was received.
    Extra,
    /// The share of all packets that were delivered or reported lost.
    Reported,
    /// The share that came back in whatever way.
    Back,
    /// The mean time of these.
    BackMeanMs,
    /// The time by which this share of all that was lost came back in whatever way; by which the
    /// first did, if it is 0.
    BackMs(f64),
    /// The same in seconds.
    BackSeconds(f64),
    /// The highest rate at which enough packets are in time.
    Throughput,
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

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Ask {
    pub fn new(id: impl Into<String>, what: What, low: f64, high: f64) -> Ask {
        Ask { id: id.into(), what, low, high, paper: None }
    }

    /// A figure that is shown without a verdict.
    pub fn shown(id: impl Into<String>, what: What) -> Ask {
        Ask::new(id, what, f64::NEG_INFINITY, f64::INFINITY)
    }

    /// A share of recovered packets, by its middle and the width of its band to each side.
    pub fn recovered(id: impl Into<String>, middle: f64, by: f64) -> Ask {
        Ask::new(id, What::Recovered, middle - by, middle + by)
    }

    /// A number by its middle and the width of its band to each side.
    pub fn around(id: impl Into<String>, what: What, middle: f64, by: f64) -> Ask {
        Ask::new(id, what, middle - by, middle + by)
    }

    pub fn with_paper(self, paper: f64) -> Ask {
        Ask { paper: Some(paper), ..self }
    }

    /// True if a run on loopback sockets can show it: it does not depend on the network's times.
    pub fn is_for_sockets(&self) -> bool {
        matches!(self.what, What::Reported)
    }

    /// The band of a run of this scale. Small runs see few losses: a band is wider by about two
    /// standard deviations of what they measure, so that a neighbouring setting stays outside the
    /// bands of a setting. No share is above 1.
    pub fn band(&self, scale: Scale) -> (f64, f64) {
        let (low, high) = (self.low, self.high);
        match (scale, self.what) {
            (Scale::Full, _) | (_, What::Back | What::Reported) => (low, high),
            (_, What::Recovered | What::WithinMs(_)) if high <= 1.0 => {
                (low - 0.006, (high + 0.006).min(1.0))
            }
            (_, What::Recovered | What::WithinMs(_)) => (low, high),
            (_, What::MeanMs) => (low - 0.05, high + 0.05),
            (
                _,
                What::UntilMs
                | What::BackMeanMs
                | What::BackMs(_)
                | What::BackSeconds(_)
                | What::Throughput,
            ) => (0.98 * low, 1.02 * high),
            (_, What::Overhead | What::Extra) => (low - 0.001, high + 0.001),
        }
    }

    /// The number, and its unit.
    pub fn value(&self, measures: &Measures) -> (f64, &'static str) {
        match self.what {
            What::Recovered => (measures.recovered(), "of lost"),
            What::MeanMs => (measures.mean_ms(), "ms"),
            What::WithinMs(ms) => (measures.recovered_within(millis(ms)), "of lost"),
            What::UntilMs => (measures.time_until_ms(0.97), "ms"),
            What::Overhead => (measures.overhead, "of packets"),
            What::Extra => (measures.extra, "per packet"),
            What::Reported => (measures.reported_share(), "of packets"),
            What::Back => (measures.back(), "of lost"),
            What::BackMeanMs => (measures.back_mean_ms(), "ms"),
            What::BackMs(share) => (measures.time_until_back_ms(share), "ms"),
            What::BackSeconds(share) => (measures.time_until_back_ms(share) / 1e3, "s"),
            What::Throughput => (measures.throughput, "packets/s"),
        }
    }

    pub fn figure(&self, settings: &Settings, measures: &Measures) -> Figure {
        let (value, unit) = self.value(measures);
        let figure = Figure::new(&self.id, value, unit).with_note(self.note(settings, measures));
        match self.paper {
            Some(paper) => figure.with_paper(paper),
            None => figure,
        }
    }

    // What the closed form says, and what a reader should see beside the figure.
    fn note(&self, settings: &Settings, measures: &Measures) -> String {
        match self.what {
            What::Reported => format!(
                "{} lost, of which {} were recovered and {} reported lost",
                measures.lost,
                measures.recovered_ms.len() + measures.pulled_ms.len(),
                measures.reported,
            ),
            What::Back | What::BackMeanMs | What::Extra => note_of_back(settings, measures),
            What::BackMs(share) => note_of_time(settings, measures, share, 1e3, "ms"),
            What::BackSeconds(share) => note_of_time(settings, measures, share, 1.0, "s"),
            What::Throughput => note_of_throughput(settings, measures),
            _ => self.note_of_repairs(settings, measures),
        }
    }

    fn note_of_repairs(&self, settings: &Settings, measures: &Measures) -> String {
        let Some(config) = settings.setup.repairs() else {
            return format!("no closed form; {}", note_of_recovered(measures));
        };
        let Some(predicted) = settings.predicted() else {
            return format!(
                "no closed form for bursts, partial bins and several groups; {}",
                note_of_recovered(measures)
            );
        };
        let ms = |time: Duration| number(time.as_secs_f64() * 1e3);
        let until = |share| {
            let time = predicted.time_until(share);
            reached(time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3))
        };
        match self.what {
            What::MeanMs => format!("closed form {} ms", ms(predicted.mean())),
            What::WithinMs(ms) => format!(
                "closed form {}; overhead {}",
                number(predicted.recovered_within(millis(ms))),
                number(measures.overhead),
            ),
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
            _ => format!(
                "closed form {}; {}",
                number(predicted.recovered()),
                note_of_recovered(measures)
            ),
        }
    }
}

fn note_of_recovered(measures: &Measures) -> String {
    format!(
        "{} of {} lost; mean {} ms, 97 % {}",
        measures.recovered_ms.len(),
        measures.lost,
        number(measures.mean_ms()),
        reached(measures.time_until_ms(0.97)),
    )
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

fn note_of_throughput(settings: &Settings, measures: &Measures) -> String {
    let Some(search) = &settings.search else {
        return "not searched for".to_owned();
    };
    let percent = |share: f64| number(100.0 * share);
    let found = if measures.throughput > 0.0 { "at it" } else { "at the lowest rate" };
    format!(
        "{found} {} % in time at receivers, {} % of packets at all of them; wanted {} % within {} \
         ms; rates from {}/s to {}/s",
        percent(measures.in_time()),
        percent(measures.in_time_at_all()),
        percent(search.share),
        number(search.within.as_secs_f64() * 1e3),
        number(*search.rates.start()),
        number(*search.rates.end()),
    )
}

fn note_of_time(
    settings: &Settings,
    measures: &Measures,
    share: f64,
    per_second: f64,
    unit: &str,
) -> String {
    let time = closed::srm_time(settings, share).or_else(|| closed::gossip_time(settings, share));
    let closed = match time {
        Some(time) => format!("closed form {} {unit}; ", number(time.as_secs_f64() * per_second)),
        None => String::new(),
    };
    // The published run had other timers: they were not published.
    let fitted = match &settings.setup {
        Setup::Srm(config) => match config.distance() {
            Distance::Fixed(d) if d >= Duration::from_millis(100) => "d and reports are fitted; ",
            _ => "",
        },
        _ => "",
    };
    format!("{fitted}{closed}{} lost; overhead {}", measures.lost, number(measures.overhead))
}
