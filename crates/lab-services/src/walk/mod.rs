//! Random walkers in the lab: the paper's experiments, and other settings.

mod curves;
mod exact;
mod figures;
mod ledger;
mod measured;
mod orders;
mod report;
mod run;
mod settings;
mod sync;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use paceline_lab::reproduce::Reproduction;
use paceline_lab::world::{Answer, Parts, Service, Workload};
use paceline_proto::core::{Instant, NodeId};
use paceline_proto::walk::{Command, Event, Job, JobId, Part, Server, Sources};
use paceline_sim::Codec;

pub use ledger::{Home, Ledger};
pub use measured::Measured;
pub use settings::{Measure, Method, Settings};

/// The figures of walks as `paceline reproduce walk` shows them.
pub const REPRODUCTION: Reproduction = Reproduction {
    name: "walk",
    about: "Random walkers as messages: queues that signal congestion early, sources that reduce \
            their rate. Takizawa and Kaneko, IEICE Technical Report IN2022-18, 2022.",
    figures: figures::reproduce,
    sections: report::sections,
};

/// A scenario of walks, ready to run in either world: each server is the home of the walks from
/// its own vertices.
#[derive(Debug)]
pub struct Walking {
    shared: Arc<()>,
    settings: Settings,
    ledger: Ledger,
}

impl Walking {
    /// The scenario that these settings describe.
    pub fn new(settings: Settings) -> Walking {
        let ledger = Ledger::new(settings.owners.servers().len());
        Walking { shared: Arc::new(()), settings, ledger }
    }

    /// What the scenario does and measures.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl Workload for Walking {
    fn codec(&self) -> Codec {
        if self.settings.check_wire { Codec::CheckWire } else { Codec::Typed }
    }

    fn active_nodes(&self) -> Vec<NodeId> {
        self.settings.owners.servers().to_vec()
    }

    fn due(&self, _node: NodeId, number: u64) -> Option<Instant> {
        (number == 0).then_some(Instant::ZERO)
    }

    fn is_done(&self) -> bool {
        self.ledger.is_done()
    }

    fn is_done_at(&self, node: NodeId) -> bool {
        self.ledger.home(node).ended_s().is_some() || self.ledger.broken.is_some()
    }

    fn parts(&self) -> &dyn Parts {
        &self.ledger
    }

    fn parts_mut(&mut self) -> &mut dyn Parts {
        &mut self.ledger
    }
}

impl Service for Walking {
    type Protocol = Server;

    fn shared(&self) -> &Arc<()> {
        &self.shared
    }

    fn protocol(&self, node: NodeId) -> Server {
        let Settings { graph, owners, .. } = &self.settings;
        let part = Part::new(node, Arc::clone(graph), Arc::clone(owners));
        Server::new(self.settings.config_of(node), part).expect("settings are checked")
    }

    fn submit(&mut self, at: Instant, node: NodeId, _number: u64) -> Command {
        let Settings { kind, length, walks, trail, seed, block, .. } = &self.settings;
        self.ledger.began(node, at, u64::from(*block) * u64::from(*walks));
        let first = node.index() as u32 * block;
        Command::Run(Box::new(Job {
            id: JobId(0),
            // Walks of one home have numbers of their own; so have jobs seeds of their own.
            seed: seed.wrapping_mul(0x1_0000).wrapping_add(node.0),
            kind: kind.clone(),
            length: *length,
            sources: Sources::Range(first..first + block),
            walks: *walks,
            trail: *trail,
            first: 0,
            in_flight_max: usize::MAX,
        }))
    }

    fn observe(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &Event,
        answers: &mut Vec<Answer<Self>>,
    ) {
        let ledger = &mut self.ledger;
        match event {
            Event::Walks(job, walks) => {
                ledger.done(node, at, walks);
                if self.settings.config.results_max < usize::MAX {
                    answers.push((Duration::ZERO, Command::Consumed(*job, walks.len())));
                }
            }
            Event::Failed(_, walk, attempts) => {
                ledger.breaks(format!("{node} abandoned walk {walk} after {attempts} attempts"));
            }
            Event::Ended(_, report, census) => ledger.ended(node, at, report, census),
            Event::Refused(_, why) => ledger.breaks(format!("{node} refused its job: {why}")),
            _ => ledger.breaks(format!("{node} reported a graph that it has from the start")),
        }
    }
}
