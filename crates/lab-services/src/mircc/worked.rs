//! The worked examples of slide 23: the shipped controller, step by step.

use std::time::Duration;

use paceline_lab::figure::Figure;
use paceline_proto::mircc::{ControllerConfig, Interval, Mircc, RateController};

/// Intervals of a recursion.
const STEPS: u32 = 500;
/// Capacity of the link, bit/s.
const CAPACITY: f64 = 10e9;
/// What a flow of one small packet a second sends, bit/s.
const CBR: f64 = 8_000.0;

/// A set of flows that share a link: what each would send, bit/s.
struct Example {
    id: &'static str,
    demands: Vec<f64>,
    // The published rate, at full use of the link.
    paper: f64,
}

fn examples() -> Vec<Example> {
    let all = f64::INFINITY;
    vec![
        Example { id: "4-elastic", demands: vec![all; 4], paper: 2.5e9 },
        Example { id: "1-plus-3x1g", demands: vec![all, 1e9, 1e9, 1e9], paper: 7.0e9 },
        Example { id: "idle", demands: Vec::new(), paper: CAPACITY },
        Example { id: "100-cbr", demands: vec![CBR; 100], paper: CAPACITY },
    ]
}

/// The rate that is left to elastic flows: exact.
fn expected(demands: &[f64], target: f64) -> f64 {
    let elastic = demands.iter().filter(|demand| demand.is_infinite()).count();
    let rest: f64 = demands.iter().filter(|demand| demand.is_finite()).sum();
    if elastic == 0 { target } else { (target - rest) / elastic as f64 }
}

/// The figures of the worked examples.
pub(super) fn figures() -> Vec<Figure> {
    let mut figures = Vec::new();
    for Example { id, demands, paper } in examples() {
        for (name, headroom) in [("eta1", 1.0), ("eta095", 0.95)] {
            let config = ControllerConfig { headroom, ..ControllerConfig::default() };
            let mut mircc = Mircc::new(&config, CAPACITY);
            for _ in 0..STEPS {
                let rate = mircc.primary_bits_per_second();
                mircc.update(&Interval {
                    length: Duration::from_millis(28),
                    round_trip: Duration::from_millis(28),
                    primary_bits_per_second: demands.iter().map(|d| d.min(rate)).sum(),
                    ..Interval::default()
                });
            }
            let expected = expected(&demands, headroom * CAPACITY);
            let figure = Figure::new(
                format!("mircc/worked/{id}/{name}"),
                mircc.primary_bits_per_second(),
                "bit/s",
            );
            let figure = figure
                .with_band(expected * 0.999, expected * 1.001)
                .with_note(format!("N = {:.2}", mircc.flows()));
            figures.push(if headroom == 1.0 { figure.with_paper(paper) } else { figure });
        }
    }
    figures
}
