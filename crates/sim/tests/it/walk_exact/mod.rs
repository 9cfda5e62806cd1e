//! The exact distribution of walks: the probability of each end and each length, by iteration over
//! all states.

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
