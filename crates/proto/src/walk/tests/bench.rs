//! One server, driven by hand: what goes in, and every output read beside it.

use std::time::Duration;

use super::*;
use crate::core::{Backlog, Context, Instant, NodeId, Outbox, Protocol, Rng};

/// No stream is ever behind.
struct Nothing;

impl Backlog for Nothing {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

/// A server and what surrounds it.
pub(super) struct Bench {
    node: NodeId,
    pub server: Server,
    pub outbox: Outbox<Server>,
    rng: Rng,
    pub now: Instant,
}

impl Bench {
    /// Server 0 of a graph of which it has the vertices that `owners` gives it.
    pub fn new(config: Config, graph: &Graph, owners: &[u16]) -> Bench {
        Bench::at(NodeId(0), config, graph, owners)
    }

    /// Another one.
    pub fn at(node: NodeId, config: Config, graph: &Graph, owners: &[u16]) -> Bench {
        let servers = (0..8).map(NodeId).collect();
        let owners = Owners::new(servers, owners.to_vec()).expect("eight servers");
        let part = Part::new(node, Arc::new(graph.clone()), Arc::new(owners));
        Bench {
            node,
            server: Server::new(config, part).expect("within the ranges"),
            outbox: Outbox::default(),
            rng: Rng::new(1, 1),
            now: Instant::ZERO,
        }
    }

    /// Server 0, which waits for a client to give it a part.
    pub fn awaiting(config: Config) -> Bench {
        let server = Server::awaiting(config, NodeId(0)).expect("within the ranges");
        Bench { server, ..Bench::new(config, &Graph::from_edges(0, []).expect("no edges"), &[]) }
    }

    fn call(&mut self, handler: impl FnOnce(&mut Server, &mut Context<'_, Server>)) {
        let mut cx = Context {
            now: self.now,
            node: self.node,
            incarnation: 1,
            host: None,
            shared: &(),
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &Nothing,
            datagram_bytes_max: 1_200,
        };
        handler(&mut self.server, &mut cx);
    }

    pub fn command(&mut self, command: Command) {
        self.call(|server, cx| server.handle_command(cx, command));
    }

    pub fn run(&mut self, job: &Job) {
        self.command(Command::Run(Box::new(job.clone())));
    }

    pub fn receive(&mut self, message: Message) {
        self.receive_from(NodeId(1), message);
    }

    pub fn receive_from(&mut self, from: NodeId, message: Message) {
        self.call(|server, cx| server.handle_message(cx, from, message));
    }

    /// Lets the worker's next timer fire now, however late it is.
    pub fn turn(&mut self) {
        let is_work = |(_, timer): &(Instant, Timer)| *timer == Timer::Work;
        let place = self.outbox.timers.iter().position(is_work).expect("it has something to do");
        self.outbox.timers.remove(place);
        self.call(|server, cx| server.handle_timer(cx, Timer::Work));
    }

    /// Lets timers fire until this time after the start, in order.
    pub fn until(&mut self, after: Duration) {
        let until = Instant::ZERO + after;
        loop {
            let due = self.outbox.timers.iter().enumerate().min_by_key(|(_, (at, _))| *at);
            let Some((place, &(at, timer))) = due.filter(|(_, (at, _))| *at <= until) else {
                break;
            };
            self.outbox.timers.remove(place);
            self.now = self.now.max(at);
            self.call(|server, cx| server.handle_timer(cx, timer));
        }
        self.now = self.now.max(until);
    }

    /// Messages sent since the last call.
    pub fn sent(&mut self) -> Vec<(NodeId, Message)> {
        self.outbox.sends.drain(..).map(|send| (send.to, send.message)).collect()
    }

    /// Walkers that were sent since it was asked last.
    pub fn sent_walkers(&mut self) -> Vec<Traveller> {
        let walkers = |(_, message)| match message {
            Message::Walkers { walkers, .. } => walkers.into_vec(),
            _ => Vec::new(),
        };
        self.sent().into_iter().flat_map(walkers).collect()
    }

    /// Events to the application since the last call, each as a line.
    pub fn told(&mut self) -> Vec<String> {
        let line = |event| match event {
            Event::Walks(job, walks) => {
                let walks: Vec<u64> = walks.iter().map(|walk| walk.walk).collect();
                format!("walks {walks:?} of {}", job.0)
            }
            Event::Failed(job, walk, attempts) => {
                format!("walk {walk} of {} failed after {attempts}", job.0)
            }
            Event::Ended(job, report, _) => {
                let JobReport { finished, failed, walks, .. } = *report;
                format!("job {} ended: {finished} + {failed} of {walks}", job.0)
            }
            Event::Refused(job, why) => format!("job {} refused: {why}", job.0),
            other => format!("{other:?}"),
        };
        self.outbox.events.drain(..).map(line).collect()
    }

    pub fn count(&self, counter: &'static str) -> u64 {
        self.outbox.counters.count(counter)
    }
}

/// Walks of `steps` steps from one vertex.
pub(super) fn job(id: u64, source: Vertex, walks: u32, steps: u32) -> Job {
    Job {
        id: JobId(id),
        seed: 1,
        kind: Kind::Uniform,
        length: Length::Steps(steps),
        sources: Sources::Range(source..source + 1),
        walks,
        trail: Trail::Vertices,
        first: 0,
        in_flight_max: usize::MAX,
    }
}
