//! Random walkers in the lab: the paper's experiments, and what they say of other settings.

mod exact;
mod figures;
mod ledger;
mod orders;
mod report;
mod run;
mod settings;
mod sync;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId, View};
use paceline_proto::walk::{Command, Event, Job, JobId, Part, Server, Sources};

pub use figures::REPRODUCTION;
pub use ledger::{Home, Ledger};
pub(crate) use run::run_processes_of;
pub use run::{run, run_on_sockets, serve};
pub(crate) use settings::KEYS;
pub use settings::{Measure, Method, Settings};

use crate::world::{Answer, Service};

/// A scenario of walks, ready to run in either world: each server is the home of the walks from
/// its own vertices.
#[derive(Debug)]
pub struct Walking {
    shared: Arc<()>,
    settings: Settings,
}

impl Walking {
    /// The scenario that these settings describe.
    pub fn new(settings: Settings) -> Walking {
        Walking { shared: Arc::new(()), settings }
    }

    /// What the scenario does and measures.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl Service for Walking {
    type Protocol = Server;
    type Ledger = Ledger;

    fn shared(&self) -> &Arc<()> {
        &self.shared
    }

    fn protocol(&self, node: NodeId) -> Server {
        let Settings { graph, owners, .. } = &self.settings;
        let part = Part::new(node, Arc::clone(graph), Arc::clone(owners));
        Server::new(self.settings.config_of(node), part).expect("settings are checked")
    }

    fn view(&self) -> Option<Arc<View>> {
        None
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(self.settings.owners.servers().len())
    }

    fn active_nodes(&self) -> Vec<NodeId> {
        self.settings.owners.servers().to_vec()
    }

    fn due(&self, _node: NodeId, number: u64) -> Option<Instant> {
        (number == 0).then_some(Instant::ZERO)
    }

    fn submit(&self, ledger: &mut Ledger, at: Instant, node: NodeId, _number: u64) -> Command {
        let Settings { kind, length, walks, trail, seed, block, .. } = &self.settings;
        ledger.began(node, at, u64::from(*block) * u64::from(*walks));
        let first = node.0 * block;
        Command::Run(Box::new(Job {
            id: JobId(0),
            // Walks of one home have numbers of their own; so have jobs seeds of their own.
            seed: seed.wrapping_mul(0x1_0000).wrapping_add(u64::from(node.0)),
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
        &self,
        ledger: &mut Ledger,
        at: Instant,
        node: NodeId,
        event: &Event,
        answers: &mut Vec<Answer<Self>>,
    ) {
        match event {
            Event::Walks(job, walks) => {
                ledger.done(node, at, walks);
                if self.settings.config.results_max < usize::MAX {
                    answers.push((Duration::ZERO, Command::Consumed(*job, walks.len())));
                }
            }
            Event::Failed(_, walk, attempts) => {
                ledger.breaks(format!("{node} gave up walk {walk} after {attempts} attempts"));
            }
            Event::Ended(_, report, census) => ledger.ended(node, at, report, census),
            Event::Refused(_, why) => ledger.breaks(format!("{node} refused its walks: {why}")),
            _ => ledger.breaks(format!("{node} tells of a graph that it has from the start")),
        }
    }

    fn work_bytes(&self, _node: NodeId, _number: u64) -> usize {
        0
    }

    fn is_done(&self, ledger: &Ledger) -> bool {
        ledger.is_done()
    }

    fn is_done_at(&self, ledger: &Ledger, node: NodeId) -> bool {
        ledger.home(node).ended_s().is_some() || ledger.broken.is_some()
    }

    fn export(&self, ledger: &Ledger, node: NodeId) -> serde_json::Value {
        serde_json::to_value(ledger.exported(node)).expect("a part has text keys only")
    }

    fn import(
        &self,
        ledger: &mut Ledger,
        node: NodeId,
        part: serde_json::Value,
    ) -> Result<(), serde_json::Error> {
        ledger.merge(node, serde_json::from_value(part)?);
        Ok(())
    }
}
