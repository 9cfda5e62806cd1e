use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId, Rng};

use super::reader::Table;
use crate::LabError;

/// The part of `[workload]` that most services share: who sends how much, and when.
///
/// | key | meaning |
/// |---|---|
/// | `senders` | how many nodes send, from node 0 on; default 1 |
/// | `messages` | how many each sends; default 1000 |
/// | `size` | bytes of each; default 8 KB |
/// | `frequency` | messages a second a sender; without it each sends as fast as it may |
/// | `spacing` | `"even"` or `"poisson"`; default even |
/// | `start` | when the first is sent; default 0 |
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// How many nodes send: those from 0 on.
    pub senders: u32,
    /// Messages that each sends.
    pub messages: u64,
    /// Bytes of each message.
    pub message_bytes: u64,
    /// Messages a second a sender; none: as fast as it may.
    pub frequency: Option<f64>,
    /// How messages are spread over time.
    pub spacing: Spacing,
    /// When the first is sent.
    pub start: Duration,
}

/// How messages are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// At equal intervals; senders take turns within one.
    Even,
    /// At exponentially distributed intervals.
    Poisson,
}

/// A message to submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// Who sends it.
    pub node: NodeId,
    /// Which of the sender's messages it is, from 0.
    pub index: u64,
}

impl Traffic {
    /// Reads the keys above from `[workload]`; the service reads its own and finishes the table.
    pub fn read(table: &mut Table<'_>, nodes: u32) -> Result<Traffic, LabError> {
        let senders = table.integer_or("senders", 1..=nodes, 1)?;
        let messages = table.integer_or("messages", 1..=u64::MAX, 1000)?;
        let message_bytes = table.size_or("size", 8000u64)?;
        let frequency = table.frequency_optional("frequency")?;
        if frequency == Some(0.0) {
            return Err(table.error("frequency", "`frequency` is zero", "above zero, or no key"));
        }
        let spacings = [("even", Spacing::Even), ("poisson", Spacing::Poisson)];
        let spacing = table.choice_or("spacing", &spacings, "even")?;
        let start = table.duration_or("start", Duration::ZERO)?;
        Ok(Traffic {
            senders,
            messages,
            message_bytes,
            frequency,
            spacing,
            start,
        })
    }

    /// The messages in order of time, drawn from a stream of random numbers of their own.
    ///
    /// Without a frequency all are due at the start, the senders taking turns; the caller holds
    /// them back until the protocol admits them.
    pub fn arrivals(&self, seed: u64) -> Arrivals<'_> {
        let start = Instant::ZERO + self.start;
        let interval_s = self.frequency.map_or(0.0, f64::recip);
        let mut next = Vec::new();
        for sender in 0..self.senders {
            let mut rng = Rng::new(seed, STREAM ^ u64::from(sender));
            let offset_s = match self.spacing {
                Spacing::Even => interval_s * f64::from(sender) / f64::from(self.senders),
                Spacing::Poisson => rng.exponential(interval_s),
            };
            let at = start + Duration::from_secs_f64(offset_s);
            next.push(Next { at, index: 0, rng });
        }
        let due = (0u32..)
            .zip(&next)
            .map(|(sender, next)| Reverse((next.at, next.index, sender)));
        let due = due.collect();
        Arrivals {
            traffic: self,
            interval_s,
            next,
            due,
        }
    }
}

/// Keeps workload draws apart from those of nodes and links.
const STREAM: u64 = 0x776f_726b_0000_0000;

/// See [`Traffic::arrivals`].
#[derive(Debug)]
pub struct Arrivals<'a> {
    traffic: &'a Traffic,
    interval_s: f64,
    next: Vec<Next>,
    due: BinaryHeap<Reverse<(Instant, u64, u32)>>,
}

#[derive(Debug)]
struct Next {
    at: Instant,
    index: u64,
    rng: Rng,
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let Reverse((at, index, sender)) = self.due.pop()?;
        let next = &mut self.next[sender as usize];
        next.index += 1;
        let gap_s = match self.traffic.spacing {
            Spacing::Even => self.interval_s,
            Spacing::Poisson => next.rng.exponential(self.interval_s),
        };
        next.at += Duration::from_secs_f64(gap_s);
        if next.index < self.traffic.messages {
            self.due.push(Reverse((next.at, next.index, sender)));
        }
        Some(Arrival {
            at,
            node: NodeId(sender),
            index,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioFile;

    fn traffic(sets: &[&str]) -> Traffic {
        let file = ScenarioFile::load("chain/ten")
            .unwrap()
            .with_sets(sets)
            .unwrap();
        let scenario = file.resolve().unwrap();
        let mut table = scenario.workload();
        let traffic = Traffic::read(&mut table, scenario.topology.nodes).unwrap();
        table.finish().unwrap();
        traffic
    }

    #[test]
    fn even_traffic_takes_turns_at_its_frequency() {
        let sets = [
            "senders=2",
            "messages=2",
            "workload.frequency=1000/s",
            "workload.start=1s",
        ];
        let arrivals: Vec<_> = traffic(&sets)
            .arrivals(1)
            .map(|a| (a.at.as_nanos() / 1000, a.node.0, a.index))
            .collect();
        let expected = [
            (1_000_000, 0, 0),
            (1_000_500, 1, 0),
            (1_001_000, 0, 1),
            (1_001_500, 1, 1),
        ];
        assert_eq!(arrivals, expected);
    }

    #[test]
    fn poisson_traffic_has_its_mean_and_repeats_with_its_seed() {
        let sets = [
            "messages=10000",
            "workload.frequency=100/s",
            "workload.spacing=poisson",
        ];
        let traffic = traffic(&sets);
        let arrivals: Vec<_> = traffic.arrivals(1).collect();
        let end = arrivals.last().unwrap().at.as_secs_f64();
        assert!((95.0..105.0).contains(&end), "{end}");
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at));
        assert!(traffic.arrivals(1).eq(arrivals.iter().copied()));
        assert!(!traffic.arrivals(2).eq(arrivals.iter().copied()));
    }

    #[test]
    fn without_a_frequency_all_is_due_at_once_and_senders_take_turns() {
        let traffic = traffic(&["senders=3", "messages=2"]);
        let nodes: Vec<_> = traffic.arrivals(1).map(|a| (a.at, a.node.0)).collect();
        let expected = [0, 1, 2, 0, 1, 2].map(|node| (Instant::ZERO, node));
        assert_eq!(nodes, expected);
    }
}
