//! What walks do exactly: the chances of each end and each length, by going through all states step
//! by step; and the test of counts against them.

use paceline_proto::walk::{Graph, Kind, Length};

/// A graph, edge by edge in the order of its rows.
pub struct Rows {
    pub vertices: u32,
    pub edges: Vec<(u32, u32)>,
    pub weights: Vec<f32>,
    pub labels: Vec<u8>,
}

impl Rows {
    pub fn graph(&self) -> Graph {
        let graph = Graph::from_edges(self.vertices, self.edges.iter().copied());
        let graph = graph.and_then(|graph| graph.with_weights(&self.weights));
        graph.and_then(|graph| graph.with_labels(self.labels.clone())).expect("it is a graph")
    }

    fn row(&self, from: usize) -> impl Iterator<Item = (usize, f64, u8)> + '_ {
        let begin = self.edges.partition_point(|edge| (edge.0 as usize) < from);
        let row =
            (begin..self.edges.len()).take_while(move |&at| self.edges[at].0 as usize == from);
        row.map(|at| (self.edges[at].1 as usize, f64::from(self.weights[at]), self.labels[at]))
    }

    /// Where the `step`-th step goes from `at`, where the walk came to from `previous`, with which
    /// weights.
    fn ways(
        &self,
        kind: &Kind,
        step: usize,
        (source, previous, at): (usize, Option<usize>, usize),
    ) -> Vec<(usize, f64)> {
        let row = self.row(at);
        match kind {
            Kind::Uniform => row.map(|(to, _, _)| (to, 1.0)).collect(),
            Kind::Weighted => row.map(|(to, weight, _)| (to, weight)).collect(),
            Kind::Node2Vec(bias) => {
                let factor = |to: usize| match previous {
                    None => 1.0,
                    Some(previous) if previous == to => 1.0 / bias.p(),
                    Some(previous) if self.row(previous).any(|(near, _, _)| near == to) => 1.0,
                    Some(_) => 1.0 / bias.q(),
                };
                row.map(|(to, weight, _)| (to, weight * factor(to))).collect()
            }
            Kind::Metapath(labels) => {
                let wanted = labels[step % labels.len()];
                row.filter(|&(_, _, label)| label == wanted).map(|(to, _, _)| (to, 1.0)).collect()
            }
            Kind::Restart(back) => {
                let row: Vec<usize> = row.map(|(to, _, _)| to).collect();
                if row.is_empty() {
                    return vec![(source, 1.0)];
                }
                let on = (1.0 - back.probability()) / row.len() as f64;
                let ways = row.into_iter().map(|to| (to, on));
                ways.chain([(source, back.probability())]).collect()
            }
        }
    }
}

/// Walks expected, of one from each vertex.
pub struct Exact {
    /// By the vertex at which they end.
    pub ends: Vec<f64>,
    /// By the steps that they take.
    pub steps: Vec<f64>,
}

impl Exact {
    pub fn of(rows: &Rows, kind: &Kind, length: Length) -> Exact {
        let count = rows.vertices as usize;
        // No walk of these tests is this long, but for one in 10^19.
        let steps_max = length.steps_max().min(200) as usize;
        let mut exact = Exact { ends: vec![0.0; count], steps: vec![0.0; steps_max + 1] };
        // What a step hangs on: of the kinds that do not care where a walk came from or began, the
        // walks from all vertices are taken together.
        let second_order = matches!(kind, Kind::Node2Vec(_));
        let by_source = matches!(kind, Kind::Restart(_));
        let sources: Vec<Vec<usize>> = match by_source {
            true => (0..count).map(|source| vec![source]).collect(),
            false => vec![(0..count).collect()],
        };
        let place = |previous: Option<usize>, at| match previous.filter(|_| second_order) {
            Some(previous) => (previous + 1) * count + at,
            None => at,
        };
        for sources in sources {
            let states = if second_order { (count + 1) * count } else { count };
            let mut alive = vec![0.0; states];
            sources.iter().for_each(|&source| alive[source] += 1.0);
            for step in 0..=steps_max {
                let ends_here = match length {
                    Length::Steps(steps) => f64::from(u8::from(step as u32 == steps)),
                    Length::Geometric { .. } if step == steps_max => 1.0,
                    Length::Geometric { end, .. } => end.probability(),
                };
                let mut next = vec![0.0; states];
                for (state, &mass) in alive.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
                    let at = state % count;
                    let previous = (state >= count).then(|| state / count - 1);
                    let ways = rows.ways(kind, step, (sources[0], previous, at));
                    let total: f64 = ways.iter().map(|(_, weight)| weight).sum();
                    let ended = if total > 0.0 { mass * ends_here } else { mass };
                    exact.ends[at] += ended;
                    exact.steps[step] += ended;
                    for (to, weight) in ways {
                        next[place(Some(at), to)] += (mass - ended) * weight / total;
                    }
                }
                alive = next;
            }
        }
        exact
    }

    /// The mean number of steps and its deviation.
    pub fn steps_mean(&self) -> (f64, f64) {
        let all: f64 = self.steps.iter().sum();
        let moment = |power: i32| {
            let terms = self.steps.iter().enumerate();
            terms.map(|(steps, share)| (steps as f64).powi(power) * share / all).sum::<f64>()
        };
        (moment(1), (moment(2) - moment(1).powi(2)).sqrt())
    }
}

/// The chance that counts are further from what is expected than these, if that is what they are
/// drawn from: Pearson's test. Counts of which few are expected are taken together.
pub fn chi_square(bins: impl Iterator<Item = (u64, f64)>) -> f64 {
    let (mut sum, mut freedom, mut rest) = (0.0, -1.0, (0.0, 0.0));
    let mut add = |seen: f64, expected: f64| {
        sum += (seen - expected).powi(2) / expected;
        freedom += 1.0;
    };
    for (seen, expected) in bins {
        if expected == 0.0 && seen > 0 {
            return 0.0;
        }
        if expected >= 8.0 {
            add(seen as f64, expected);
        } else {
            rest = (rest.0 + seen as f64, rest.1 + expected);
        }
    }
    if rest.1 > 0.0 {
        add(rest.0, rest.1);
    }
    // All in one bin: there is nothing that could be off.
    if freedom < 1.0 {
        f64::from(u8::from(sum < 1e-9))
    } else {
        upper_gamma(freedom / 2.0, sum / 2.0)
    }
}

/// The regularised upper incomplete gamma function Q(a, x). Source: Press et al., *Numerical
/// Recipes*, section 6.2: a series below a + 1, a continued fraction above.
fn upper_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-15 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return (1.0 - scale * sum).clamp(0.0, 1.0);
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut fraction = d;
    for i in 1..10_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (scale * fraction).clamp(0.0, 1.0)
}

/// Lanczos's approximation, good to 1e-13.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series = (1..).zip(TERMS).map(|(i, term)| term / (x + f64::from(i)));
    let sum: f64 = 0.999_999_999_999_809_9 + series.sum::<f64>();
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_of_counts_knows_its_tables() {
        // From tables of the chi-square distribution.
        for (freedom, value, chance) in
            [(1.0, 3.841, 0.05), (5.0, 11.070, 0.05), (10.0, 29.588, 0.001), (20.0, 10.851, 0.95)]
        {
            let found = upper_gamma(freedom / 2.0, value / 2.0);
            assert!((found / chance - 1.0).abs() < 2e-3, "{found} for {chance}");
        }
        let fair = [(100, 100.0), (110, 100.0), (90, 100.0)];
        assert!(chi_square(fair.into_iter()) > 0.3);
        let unfair = [(140, 100.0), (80, 100.0), (80, 100.0)];
        assert!(chi_square(unfair.into_iter()) < 1e-4);
        assert_eq!(chi_square([(1, 0.0), (99, 100.0)].into_iter()), 0.0);
    }
}
