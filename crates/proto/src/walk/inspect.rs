//! A server's state as seen from outside, for checkers, figures and tests.

use super::Server;
use super::census::Census;
use super::interface::UnderWay;
use super::message::{Head, Message, Traveller};
use crate::core::NodeId;
use crate::graphshare::Part;

impl Server {
    /// Waiting walkers of all homes, without the one that is served.
    pub fn queue_len(&self) -> usize {
        self.homes.waiting()
    }

    /// Length and average of each queue, walkers: first the one that all servers of the graph
    /// share as homes, then one for each client, in the order in which their walkers came first.
    pub fn queues(&self) -> impl Iterator<Item = (usize, f64)> {
        self.homes.queues()
    }

    /// Walkers here: in the queue, with the worker, or waiting for company to leave.
    pub fn held(&self) -> usize {
        let steps = self.steps.as_ref().map_or(0, |steps| steps.held());
        let waiting = self.homes.waiting() + usize::from(self.serving.is_some());
        waiting + self.bundler.walkers() + steps
    }

    /// Walkers with the worker, and in the queue of each home in the order in which it is served.
    pub fn queued(&self) -> impl Iterator<Item = (&Head, &Traveller)> {
        let serving = self.serving.iter().map(|(queued, _)| queued);
        serving
            .chain(self.homes.iter())
            .map(|queued| (&**self.jobs.head(queued.job), &queued.traveller))
    }

    /// Waiting bundles: their receivers, and the messages that would leave now.
    pub fn leaving(&self) -> impl Iterator<Item = (NodeId, &Message)> {
        self.bundler.waiting()
    }

    /// Walks of its own jobs that are under way.
    pub fn under_way(&self) -> impl Iterator<Item = UnderWay> {
        self.runs.iter().flat_map(|(job, run)| {
            let of = run.job.id;
            run.flights().map(move |(token, flight)| UnderWay {
                of,
                job,
                token,
                walk: flight.walk,
                attempt: flight.attempt,
            })
        })
    }

    /// How many walks of its own jobs are under way.
    pub fn in_flight(&self) -> usize {
        self.runs.iter().map(|(_, run)| run.in_flight()).sum()
    }

    /// Where walkers have gone.
    pub fn census(&self) -> Census {
        Census { waits: self.bundler.waits(), ..self.census }
    }

    /// Where walkers have gone, without how long they waited for company.
    pub fn counts(&self) -> &Census {
        &self.census
    }

    /// Walkers that its queue has dropped, by their homes; of the first 1,024 homes.
    pub fn dropped(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.dropped.iter().map(|(&home, &count)| (home, count))
    }

    /// Its vertices.
    pub fn part(&self) -> &Part {
        self.graph.part()
    }

    /// Bytes that it holds, its graph aside.
    pub fn memory_bytes(&self) -> usize {
        self.homes.memory_bytes()
            + self.runs.iter().map(|(_, run)| run.memory_bytes()).sum::<usize>()
    }
}
