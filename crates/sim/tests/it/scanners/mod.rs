//! The runs of `overlay_swarm`, in which nodes also scan all records, page by page, while others
//! write, join, leave and fail.

use crate::overlay_swarm;

use std::collections::BTreeMap;
use std::time::Duration;

use overlay_swarm::{ANSWER, Application, BEGIN, FAULTS, HEAL, Scenario, at};
use paceline_check::checkers::overlay::{Host, OverlayLedger, Terms};
use paceline_check::checkers::scan::ScanLedger;
use paceline_check::swarm::Options;
use paceline_check::{Swarm, Wrapped};
use paceline_proto::core::{Instant, NodeId, Rng};
use paceline_proto::overlay::{
    Command, Config, Event, FailReason, Key, Operation, Outcome as KeyOutcome, Overlay, Scan, Style,
};
use paceline_sim::{Codec, Digest, Fault, Observer, Reply};

/// Ids of requests for pages begin here.
const FIRST: u64 = 5_000_000;

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Survey(Scenario);

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Surveyed {
    pub digest: Digest,
    /// Scans that were completed, their pages, records in these, and scans that were given up.
    pub totals: [u64; 4],
}

impl Survey {
    /// Draws a run. The nodes that scan during faults are those that write in `overlay_swarm`.
    pub fn draw(seed: u64) -> Survey {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "overlay_scan_seeds";
        Survey(scenario)
    }

    /// The configuration of its nodes.
    pub fn config(&self) -> Config {
        self.0.config.clone()
    }

    /// Runs it with nodes made by `make`.
    pub fn run<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Surveyed, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Surveyed, String> {
        let scenario = &self.0;
        let mut sim = scenario.sim(make)?;
        let terms = Terms { repaired_within: None, has_strangers: false };
        let values = OverlayLedger::new(&scenario.config, terms);
        // While links are cut or messages late beyond time-outs, reads may miss values too.
        let quiet = at(FAULTS + HEAL);
        let complete_from = if scenario.has_network_faults { quiet } else { Instant::ZERO };
        let mut watching = (ScanLedger::new(values, complete_from), Scanners::new(scenario));
        sim.run_until(quiet, &mut watching);
        watching.1.application.end();
        let members: Vec<NodeId> = scenario.members(&sim).into_iter().take(6).collect();
        for &node in &members {
            let command = watching.1.begin(node);
            sim.command_at(sim.now(), node, command);
        }
        sim.run_until(at(FAULTS + HEAL + ANSWER), &mut watching);
        let (ledger, scanners) = watching;
        if let Some(violation) = ledger.violation() {
            return Err(violation.to_string());
        }
        if let Some(violation) = ledger.values().violation() {
            return Err(violation.to_string());
        }
        let is_anybody_gone = (0..scenario.nodes).any(|node| !sim.is_alive(NodeId::from(node)));
        for node in members {
            match scanners.ended.get(&node) {
                Some(None) => {}
                // Nodes that failed for good may have held the only copies.
                Some(Some(FailReason::Unsettled)) if is_anybody_gone => {}
                other => return Err(format!("{node}: its last scan ended as {other:?}")),
            }
        }
        let [completed, pages, records] = ledger.totals();
        Ok(Surveyed {
            digest: sim.digest(),
            totals: [completed, pages, records, scanners.given_up],
        })
    }
}

impl Swarm for Survey {
    type Outcome = Surveyed;

    const REPEATED_EVERY: u64 = 16;

    const OPTIONS: Options<Survey> = &[
        ("more than one writer", |run| run.0.writers = 1),
        ("more than one copy", |run| run.0.config = run.0.config.clone().with_copies(1)),
        ("the codec", |run| run.0.codec = Codec::Typed),
    ];

    fn seed(&self) -> u64 {
        self.0.seed
    }

    fn suite(&self) -> &'static str {
        self.0.suite
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn set_codec(&mut self, codec: Codec) {
        self.0.codec = codec;
    }

    fn run_honest(&self) -> Result<Surveyed, String> {
        let config = self.config();
        self.run(move |node| Wrapped::alone(Overlay::new(&config, node)))
    }

    fn digest(outcome: &Surveyed) -> Digest {
        outcome.digest
    }
}

/// The application of `overlay_swarm`, and scans; a node has one open at a time.
struct Scanners {
    application: Application,
    rng: Rng,
    next_id: u64,
    open: BTreeMap<NodeId, u64>,
    // How the last scan of each node ended: `None` if it was completed.
    ended: BTreeMap<NodeId, Option<FailReason>>,
    given_up: u64,
}

impl Scanners {
    fn new(scenario: &Scenario) -> Scanners {
        Scanners {
            application: Application::new(scenario),
            rng: Rng::new(scenario.seed, 0x5ca),
            next_id: FIRST,
            open: BTreeMap::new(),
            ended: BTreeMap::new(),
            given_up: 0,
        }
    }

    /// The request for the first page of a scan.
    fn begin(&mut self, node: NodeId) -> Command {
        self.ended.remove(&node);
        self.ask(node, Key::ZERO, None)
    }

    fn ask(&mut self, node: NodeId, first: Key, at: Option<NodeId>) -> Command {
        let id = self.next_id;
        self.next_id += 1;
        self.open.insert(node, id);
        let style = if self.rng.chance(0.5) { Style::Recursive } else { Style::Iterative };
        let operation = Operation::Scan(Scan { first, last: Key::MAX, at });
        Command::Request { id, operation, style }
    }
}

impl<P: Host> Observer<P> for Scanners {
    fn on_wake(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.application.on_wake(at, node, protocol, reply);
        let is_early = at < overlay_swarm::at(BEGIN);
        let is_ready = protocol.overlay().is_member() && !self.open.contains_key(&node);
        if is_ready && !is_early && self.rng.chance(0.05) {
            reply.command(Duration::ZERO, node, self.begin(node));
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        self.application.on_event(at, node, event, reply);
        let is_open = |id: &u64| self.open.get(&node) == Some(id);
        match event {
            Event::Outcome { id, outcomes } if is_open(id) => {
                self.open.remove(&node);
                match outcomes.first() {
                    Some((_, KeyOutcome::Page(page))) if page.until < Key::MAX => {
                        let next = page.until + Key::from(1);
                        reply.command(Duration::ZERO, node, self.ask(node, next, page.more_at));
                    }
                    Some((_, KeyOutcome::Failed(reason))) => {
                        self.given_up += 1;
                        self.ended.insert(node, Some(*reason));
                    }
                    _ => drop(self.ended.insert(node, None)),
                }
            }
            Event::Rejected { id, .. } if is_open(id) => drop(self.open.remove(&node)),
            Event::Left => drop(self.open.remove(&node)),
            _ => {}
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        Observer::<P>::on_fault(&mut self.application, at, fault);
        if let Fault::Crash(node) = fault {
            self.open.remove(node);
        }
    }
}
