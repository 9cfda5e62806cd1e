//! What only a simulator sees: queues over time, datagrams, and whose walkers are dropped where.

use std::time::Duration;

use paceline_proto::core::{Instant, Lane, NodeId};
use paceline_proto::walk::{Message, Server};
use paceline_sim::{Observer, Reply};

/// Points of a series, about.
const POINTS_MAX: usize = 2_000;

/// Samples of a run, at equal distances; twice as far apart whenever there are too many.
#[derive(Clone, Debug)]
pub struct Watch {
    every: Duration,
    next: Vec<Instant>,
    /// By server: queue length and walkers generated, sample by sample.
    pub samples: Vec<Vec<Sample>>,
    /// By server, by home: walkers that its queue has dropped.
    pub dropped: Vec<Vec<u64>>,
    /// Messages that left, and their bytes.
    pub messages: u64,
}

/// A server at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Walkers in its queue.
    pub queue: usize,
    /// Walkers that it has generated.
    pub generated: u64,
}

impl Watch {
    /// Nothing yet, of so many servers.
    pub fn new(servers: usize) -> Watch {
        Watch {
            every: Duration::from_millis(1),
            next: vec![Instant::ZERO; servers],
            samples: vec![Vec::new(); servers],
            dropped: vec![vec![0; servers]; servers],
            messages: 0,
        }
    }

    /// How far apart samples are.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Mean correlation of the numbers of walkers that two servers generate from one sample to the
    /// next, over all pairs. 0 where that is always the same number.
    pub fn sync(&self) -> f64 {
        let count = self.samples.iter().map(Vec::len).min().unwrap_or(0);
        let rates: Vec<Vec<f64>> = self
            .samples
            .iter()
            .map(|samples| {
                let pairs = samples[..count].windows(2);
                pairs.map(|pair| (pair[1].generated - pair[0].generated) as f64).collect()
            })
            .collect();
        let mut sum = 0.0;
        let mut pairs = 0;
        for (place, one) in rates.iter().enumerate() {
            for other in &rates[place + 1..] {
                sum += correlation(one, other);
                pairs += 1;
            }
        }
        sum / f64::from(pairs.max(1))
    }

    fn sample(&mut self, at: Instant, node: usize, server: &Server) {
        self.next[node] += self.every;
        let (queue, generated) = (server.queue_len(), server.census().generated);
        self.samples[node].push(Sample { at, queue, generated });
        for (home, count) in server.dropped() {
            self.dropped[node][home.index()] = count;
        }
        if self.samples[node].len() >= POINTS_MAX {
            self.every *= 2;
            let every = self.every.as_nanos() as u64;
            for next in &mut self.next {
                *next = Instant::from_nanos(next.as_nanos().next_multiple_of(every));
            }
            for samples in &mut self.samples {
                let mut place = 0;
                samples.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
            }
        }
    }
}

impl Observer<Server> for Watch {
    fn on_send(&mut self, _: Instant, _: NodeId, _: NodeId, _: Lane, _: &Message) {
        self.messages += 1;
    }

    fn after_call(&mut self, at: Instant, node: NodeId, server: &Server, _: &mut Reply<Server>) {
        if at >= self.next[node.index()] {
            self.sample(at, node.index(), server);
        }
    }
}

fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let count = one.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (a, b) = (mean(one), mean(other));
    let together: f64 = one.iter().zip(other).map(|(x, y)| (x - a) * (y - b)).sum();
    let spread = |values: &[f64], mean: f64| -> f64 {
        values.iter().map(|value| (value - mean) * (value - mean)).sum()
    };
    let spreads = (spread(one, a) * spread(other, b)).sqrt();
    if spreads > 0.0 { together / spreads } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_speed_up_together_are_in_step_and_those_by_turns_are_not() {
        let mut watch = Watch::new(3);
        let totals = [[0, 9, 10, 19, 20], [0, 18, 20, 38, 40], [0, 1, 10, 11, 20]];
        for (samples, totals) in watch.samples.iter_mut().zip(totals) {
            let sample = |generated| Sample { at: Instant::ZERO, queue: 0, generated };
            samples.extend(totals.map(sample));
        }
        assert_eq!(correlation(&[9.0, 1.0], &[18.0, 2.0]), 1.0);
        assert!((watch.sync() - (1.0 - 1.0 - 1.0) / 3.0).abs() < 1e-9);
        assert_eq!(correlation(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
    }
}
