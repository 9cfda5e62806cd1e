//! The runs of `overlay_swarm`, in which nodes also compete for keys: each reads the version of a
//! value and replaces it by a conditional write.

use crate::overlay_swarm;

use std::collections::BTreeMap;
use std::time::Duration;

use overlay_swarm::{ANSWER, BEGIN, FAULTS, HEAL, Scenario, at};
use paceline_check::checkers::conditional::ConditionalLedger;
use paceline_check::checkers::overlay::{Host, OverlayLedger, Terms};
use paceline_check::swarm::Options;
use paceline_check::{Swarm, Wrapped};
use paceline_proto::core::{Instant, NodeId, Payload, Rng};
use paceline_proto::overlay::{
    Command, Config, Event, Expect, Item, Key, Operation, Outcome as KeyOutcome, Overlay, Style,
    Version,
};
use paceline_sim::{Codec, Digest, Observer, Reply};

/// Keys that nodes compete for.
const KEYS: u32 = 4;
/// Ids of requests begin here, and those of the last ones there.
const FIRST: u64 = 3_000_000;
const LAST: u64 = 4_000_000;

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Contest(Scenario);

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Contested {
    pub digest: Digest,
    /// Conditional writes that were acknowledged, refused, and without a certain outcome.
    pub totals: [u64; 3],
}

fn keys() -> Vec<Key> {
    (0..KEYS).map(|number| Key::of(&[b'c', number as u8])).collect()
}

impl Contest {
    /// Draws a run. The nodes that compete are those that write in `overlay_swarm`.
    pub fn draw(seed: u64) -> Contest {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "overlay_conditional_seeds";
        Contest(scenario)
    }

    /// The configuration of its nodes.
    pub fn config(&self) -> Config {
        self.0.config.clone()
    }

    /// Runs it with nodes made by `make`.
    pub fn run<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Contested, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Contested, String> {
        let scenario = &self.0;
        let mut sim = scenario.sim(make)?;
        let terms = Terms { repaired_within: None, has_strangers: false };
        let values = OverlayLedger::new(&scenario.config, terms);
        let contenders = Contenders::new(scenario.seed);
        let mut watching = ((values, ConditionalLedger::default()), contenders);
        sim.run_until(at(FAULTS + HEAL), &mut watching);
        watching.1.is_over = true;
        for (id, node) in (LAST..).zip(scenario.members(&sim)).take(6) {
            let operation = Operation::Get(keys());
            let command = Command::Request { id, operation, style: Style::Recursive };
            sim.command_at(sim.now(), node, command);
        }
        sim.run_until(at(FAULTS + HEAL + ANSWER), &mut watching);
        let ((values, ledger), contenders) = &mut watching;
        for (when, node, key, outcome) in std::mem::take(&mut contenders.answers) {
            ledger.check_read(when, node, key, &outcome);
        }
        if let Some(violation) = ledger.violation() {
            return Err(violation.to_string());
        }
        if let Some(violation) = values.violation() {
            return Err(violation.to_string());
        }
        Ok(Contested { digest: sim.digest(), totals: ledger.totals() })
    }
}

impl Swarm for Contest {
    type Outcome = Contested;

    const REPEATED_EVERY: u64 = 16;

    const OPTIONS: Options<Contest> = &[
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

    fn run_honest(&self) -> Result<Contested, String> {
        let config = self.config();
        self.run(move |node| Wrapped::alone(Overlay::new(&config, node)))
    }

    fn digest(outcome: &Contested) -> Digest {
        outcome.digest
    }
}

/// Reads and conditional writes; a node has one request open at a time.
struct Contenders {
    rng: Rng,
    next_id: u64,
    open: BTreeMap<NodeId, (u64, usize)>,
    // What each node knows of each key.
    known: BTreeMap<(NodeId, Key), Option<Version>>,
    is_over: bool,
    answers: Vec<(Instant, NodeId, Key, KeyOutcome)>,
}

impl Contenders {
    fn new(seed: u64) -> Contenders {
        Contenders {
            rng: Rng::new(seed, 0xca5),
            next_id: FIRST,
            open: BTreeMap::new(),
            known: BTreeMap::new(),
            is_over: false,
            answers: Vec::new(),
        }
    }

    fn operation(&mut self, node: NodeId) -> Operation {
        let mut keys = keys();
        keys.retain(|_| self.rng.chance(0.4));
        if keys.is_empty() {
            keys.push(self::keys()[0]);
        }
        if self.rng.chance(0.3) {
            return Operation::Get(keys);
        }
        let id = self.next_id;
        let item = |key| {
            let known = self.known.get(&(node, key)).copied().flatten();
            let expect = known.map_or(Expect::Absent, Expect::Version);
            let value = Payload::from(id.to_be_bytes().to_vec());
            (expect, Item { key, value, lifetime: Duration::from_secs(600) })
        };
        Operation::PutIf(keys.into_iter().map(item).collect())
    }

    fn learn(&mut self, node: NodeId, key: Key, outcome: &KeyOutcome) {
        let version = match *outcome {
            KeyOutcome::Found { version, .. } | KeyOutcome::StoredAs { version, .. } => {
                Some(version)
            }
            KeyOutcome::Differs { found } => found,
            KeyOutcome::Absent => None,
            _ => return,
        };
        self.known.insert((node, key), version);
    }
}

impl<P: Host> Observer<P> for Contenders {
    fn on_wake(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        if at < overlay_swarm::at(FAULTS) {
            reply.wake(Duration::from_millis(5 + u64::from(self.rng.below(60))), node);
        }
        let is_early = at < overlay_swarm::at(BEGIN);
        if !protocol.overlay().is_member() || is_early || self.open.contains_key(&node) {
            return;
        }
        let operation = self.operation(node);
        let id = self.next_id;
        self.next_id += 1;
        self.open.insert(node, (id, operation.keys().count()));
        let style = if self.rng.chance(0.5) { Style::Recursive } else { Style::Iterative };
        reply.submit(Command::Request { id, operation, style });
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        match event {
            Event::Outcome { id, outcomes } => {
                for (key, outcome) in outcomes {
                    self.learn(node, *key, outcome);
                    if self.is_over {
                        self.answers.push((at, node, *key, outcome.clone()));
                    }
                }
                if let Some((open, left)) = self.open.get_mut(&node)
                    && open == id
                {
                    *left = left.saturating_sub(outcomes.len());
                    if *left == 0 {
                        self.open.remove(&node);
                    }
                }
            }
            Event::Rejected { id, .. } if self.open.get(&node).is_some_and(|it| it.0 == *id) => {
                self.open.remove(&node);
            }
            Event::Left => drop(self.open.remove(&node)),
            _ => {}
        }
    }

    fn on_fault(&mut self, _: Instant, fault: &paceline_sim::Fault) {
        if let paceline_sim::Fault::Crash(node) = fault {
            self.open.remove(node);
        }
    }
}
