//! The published order of the methods of experiment 1, and the distances between them.

use paceline_lab::figure::{Figure, Scale, number};

use super::Method;
use super::ledger::{Ledger, additional, last, time};

/// Experiment 1 as the slides give it, with 10,000 walks a vertex: seconds, and walkers beyond the
/// walks asked for. They state 49 s and 20,000 of RQ + RG and the others as differences from it.
pub(super) const PUBLISHED: [(Method, f64, f64); 5] = [
    (Method::RqRg, 49.0, 20e3),
    (Method::RqSleep0, 44.0, 3.15e6),
    (Method::RqSleep1, 69.0, 0.0),
    (Method::TailRg, 50.0, 140e3),
    (Method::RqRgNoDirect, 51.0, 60e3),
];

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Time,
    Additional,
    Queue,
}

impl Quantity {
    fn name(self) -> &'static str {
        match self {
            Quantity::Time => "time",
            Quantity::Additional => "additional",
            Quantity::Queue => "queue",
        }
    }

    fn of(self, ledger: &Ledger) -> f64 {
        match self {
            Quantity::Time => time(ledger),
            Quantity::Additional => additional(ledger) as f64,
            Quantity::Queue => last(ledger).queue_mean(),
        }
    }

    /// The published value; none where the slides give no number.
    fn published(self, method: Method) -> Option<f64> {
        let &(_, time, additional) = PUBLISHED.iter().find(|(of, ..)| *of == method)?;
        match self {
            Quantity::Time => Some(time),
            Quantity::Additional => Some(additional),
            Quantity::Queue => None,
        }
    }
}

/// A ratio of two methods, with the bands of both scales. Bands are about what this implementation
/// gives, whatever was published, and their distance to it is several times the spread of five
/// seeds (1,000 walks a vertex) or a tenth (10,000). The note says whether the order is the
/// published one.
struct Ratio {
    of: Quantity,
    one: Method,
    other: Method,
    full: (f64, f64),
    quick: (f64, f64),
}

const fn ratio(
    of: Quantity,
    (one, other): (Method, Method),
    full: (f64, f64),
    quick: (f64, f64),
) -> Ratio {
    Ratio { of, one, other, full, quick }
}

const RATIOS: [Ratio; 10] = {
    use Method::{RqRg, RqRgNoDirect, RqSleep0, RqSleep1, TailRg};
    use Quantity::{Additional, Queue, Time};
    [
        ratio(Time, (RqRg, RqSleep0), (1.13, 1.24), (1.15, 1.19)),
        ratio(Time, (RqRg, TailRg), (0.93, 0.99), (0.94, 0.98)),
        ratio(Time, (RqRg, RqRgNoDirect), (1.02, 1.2), (0.9, 1.1)),
        ratio(Time, (RqRg, RqSleep1), (0.58, 0.66), (0.6, 0.65)),
        ratio(Additional, (RqRg, RqSleep0), (0.05, 0.075), (0.05, 0.07)),
        ratio(Additional, (RqRg, TailRg), (0.12, 0.165), (0.11, 0.15)),
        ratio(Additional, (RqRg, RqRgNoDirect), (0.05, 0.1), (0.08, 0.95)),
        ratio(Additional, (RqRg, RqSleep1), (350.0, 700.0), (40.0, 70.0)),
        ratio(Additional, (RqRgNoDirect, TailRg), (1.6, 2.4), (0.1, 1.3)),
        ratio(Queue, (RqRg, TailRg), (0.17, 0.225), (0.15, 0.2)),
    ]
};

/// Ratios of methods, each with its band, and how many of the published orders hold. `of` gives
/// what a method's run noted.
pub(super) fn figures<'a>(
    of: impl Fn(Method) -> Option<&'a Ledger>,
    scale: Scale,
) -> Vec<(Method, Figure)> {
    let mut figures = Vec::new();
    for Ratio { of: quantity, one, other, full, quick } in &RATIOS {
        let (Some(a), Some(b)) = (of(*one), of(*other)) else { continue };
        let value = quantity.of(a) / quantity.of(b);
        let name = quantity.name();
        let id = format!("walk/e1/ratio/{name}/{}-vs-{}", one.name(), other.name());
        let (low, high) = if scale == Scale::Quick { *quick } else { *full };
        let figure = Figure::new(id, value, "").with_band(low, high);
        let published = quantity.published(*one).zip(quantity.published(*other));
        let (paper, note) = match published {
            Some((a, b)) => {
                let verdict = match (value < 1.0) == (a < b) {
                    true => "the published order holds",
                    false => "THE PUBLISHED ORDER IS REVERSED",
                };
                ((b > 0.0).then_some(a / b), format!("published {a} to {b}: {verdict}"))
            }
            None => (None, "the slides give no number".to_owned()),
        };
        let figure = figure.with_note(note);
        figures.push((*one, paper.into_iter().fold(figure, Figure::with_paper)));
    }
    for quantity in [Quantity::Time, Quantity::Additional] {
        if let Some(figure) = kept(quantity, &of) {
            figures.push((Method::RqRg, figure));
        }
    }
    figures
}

/// Of the pairs of published methods, those in the published order.
fn kept<'a>(quantity: Quantity, of: &impl Fn(Method) -> Option<&'a Ledger>) -> Option<Figure> {
    let (mut kept, mut pairs, mut reversed) = (0, 0, Vec::new());
    for (place, &(one, ..)) in PUBLISHED.iter().enumerate() {
        for &(other, ..) in &PUBLISHED[place + 1..] {
            let measured = (quantity.of(of(one)?), quantity.of(of(other)?));
            let published = (quantity.published(one)?, quantity.published(other)?);
            pairs += 1;
            if (measured.0 < measured.1) == (published.0 < published.1) {
                kept += 1;
            } else {
                reversed.push(format!("{} and {}", one.name(), other.name()));
            }
        }
    }
    // Without direct notification a run may be in either of two states, see docs/protocols/walk.md:
    // its pairs with RQ + RG and tail drop may be reversed.
    let least = match quantity {
        Quantity::Time => 8.0,
        _ => 9.0,
    };
    let note = match reversed.is_empty() {
        true => "all pairs of methods are in the published order".to_owned(),
        false => format!("reversed: {}", reversed.join("; ")),
    };
    let id = format!("walk/e1/order/{}", quantity.name());
    let figure = Figure::new(id, f64::from(kept), format!("of {pairs}"));
    Some(figure.with_paper(f64::from(pairs)).with_band(least, f64::from(pairs)).with_note(note))
}

/// The published seconds and additional walkers, beside a run of as many walks a vertex; of runs of
/// another size only a note, since totals of different sizes are not comparable.
pub(super) fn with_published(figure: Figure, method: Method, walks: u32) -> Figure {
    let Some(&(_, time, additional)) = PUBLISHED.iter().find(|(of, ..)| *of == method) else {
        return figure;
    };
    let (published, unit) = match figure.id.rsplit('/').next() {
        Some("time-s") => (time, " s"),
        Some("additional") => (additional, ""),
        _ => return figure,
    };
    if walks == WALKS {
        return figure.with_paper(published);
    }
    let earlier = if figure.note.is_empty() { String::new() } else { format!("{}; ", figure.note) };
    let published = number(published);
    let note = format!(
        "{earlier}published: {published}{unit} with {WALKS} walks a vertex, where this run has \
         {walks}"
    );
    figure.with_note(note)
}

/// Walks from each vertex in experiment 1 as published.
pub(super) const WALKS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_compared_with_published_ones_of_the_same_size_only() {
        let figure = || Figure::new("walk/e1/rq-rg/time-s", 42.0, "s");
        assert_eq!(with_published(figure(), Method::RqRg, 10_000).paper, Some(49.0));
        let small = with_published(figure(), Method::RqRg, 1_000);
        assert_eq!(small.paper, None);
        assert!(small.note.contains("49 s with 10000 walks a vertex"), "{}", small.note);
        let queue = Figure::new("walk/e1/rq-rg/queue-mean", 12.0, "walkers");
        assert_eq!(with_published(queue.clone(), Method::RqRg, 10_000), queue);
    }
}
