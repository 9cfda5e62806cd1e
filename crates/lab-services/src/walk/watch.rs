//! Observations that need the simulator: queues over time, datagrams, and dropped walkers by home
//! and server.

use std::time::Duration;

use paceline_proto::core::{Instant, Lane, NodeId};
use paceline_proto::walk::{Message, Server};
use paceline_sim::{Observer, Reply};

use super::sync::Rates;

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
    /// Messages that were sent.
    pub messages: u64,
    /// By server: walkers that its worker has served, of all homes, until the end of the run.
    pub visits: Vec<u64>,
    /// How many walkers each server generates, over time.
    pub rates: Rates,
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
    /// No sample yet, of this number of servers.
    pub fn new(servers: usize) -> Watch {
        Watch {
            every: Duration::from_millis(1),
            next: vec![Instant::ZERO; servers],
            samples: vec![Vec::new(); servers],
            dropped: vec![vec![0; servers]; servers],
            messages: 0,
            visits: vec![0; servers],
            rates: Rates::new(servers),
        }
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
        let counts = server.counts();
        self.visits[node.index()] = counts.visits;
        self.rates.note(at, node.index(), counts.generated);
        if at >= self.next[node.index()] {
            self.sample(at, node.index(), server);
        }
    }
}
