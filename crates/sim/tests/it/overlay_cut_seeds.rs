//! Overlays where links are cut permanently, in addition to the faults of `overlay_seeds`.
//! Afterwards the hosts among which all links work write and read: each request ends in time, a
//! value that is read was written there, and nearly all that they store is found. Where every host
//! is either reached by all others or by none, no stored key is called absent, neither there nor by
//! hosts that were cut off. Hosts that reach different sets of hosts may disagree about the owner
//! of a key, and a few keys are called absent.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::overlay_swarm;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use overlay_swarm::{Application, BEGIN, CUT_ANSWER, FAULTS, HEAL, Scenario, at, honest};
use paceline_check::checkers::overlay::{OverlayLedger, Terms};
use paceline_check::cuts::{Cuts, SEVERED};
use paceline_check::{Swarm, seeds};
use paceline_proto::core::{Instant, NodeId, Payload, Rng};
use paceline_proto::overlay::{Command, Event, Item, Key, Operation, Outcome, Overlay, Style};
use paceline_sim::{Observer, Reply, Sim};

/// Hosts of a run at most.
const HOSTS_MAX: u32 = 14;
/// Keys that each host of the core writes.
const KEYS: u32 = 4;
/// Hosts of the core that ask, at most.
const ASKING: usize = 6;
/// Requests of the core have this number and higher ones.
const FIRST: u64 = 3_000_000;

/// The outcomes that hosts of the core got for their requests.
#[derive(Default)]
struct Recorder(BTreeMap<(NodeId, u64), BTreeMap<Key, Outcome>>);

impl Observer<Overlay> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<Overlay>) {
        match event {
            Event::Outcome { id, outcomes } if *id >= FIRST => {
                self.0.entry((node, *id)).or_default().extend(outcomes.iter().cloned());
            }
            Event::Rejected { id, reason } if *id >= FIRST => panic!("{node}: {reason:?}"),
            _ => {}
        }
    }
}

type Observers = (OverlayLedger, (Application, Recorder));

/// What became of the work of the core: severed messages, writes, of them stored, reads of what was
/// stored, of them found, of them called absent; and how many of these keys were asked for by hosts
/// that the core does not reach.
type Measured = [u64; 7];

struct Run<'a> {
    scenario: &'a Scenario,
    sim: Sim<'static, Overlay>,
    observers: Observers,
    core: Vec<NodeId>,
    is_partial: bool,
}

impl Run<'_> {
    /// The first [`ASKING`] of these hosts make a request. Returns the outcomes that each received.
    fn ask(
        &mut self,
        id: u64,
        hosts: &[NodeId],
        operation: impl Fn(NodeId) -> Operation,
    ) -> Result<BTreeMap<NodeId, BTreeMap<Key, Outcome>>, String> {
        let asking: Vec<NodeId> = hosts.iter().copied().take(ASKING).collect();
        for (number, &node) in (0..).zip(&asking) {
            let style = if number % 2 == 0 { Style::Recursive } else { Style::Iterative };
            let command = Command::Request { id, operation: operation(node), style };
            self.sim.command_at(self.sim.now(), node, command);
        }
        let until = self.sim.now() + Duration::from_millis(CUT_ANSWER + 500);
        self.sim.run_until(until, &mut self.observers);
        if let Some(violation) = self.observers.0.violation() {
            return Err(violation.to_string());
        }
        let mut recorded = BTreeMap::new();
        for node in asking {
            let outcomes = self.observers.1.1.0.remove(&(node, id)).unwrap_or_default();
            let open = operation(node).keys().count() - outcomes.len();
            if open > 0 {
                return Err(format!("{node}: {open} keys of request {id} have no outcome"));
            }
            recorded.insert(node, outcomes);
        }
        Ok(recorded)
    }

    fn run(mut self) -> Result<Measured, String> {
        self.sim.run_until(at(FAULTS + HEAL), &mut self.observers);
        let members = self.scenario.members(&self.sim);
        let (core, others): (Vec<NodeId>, Vec<NodeId>) =
            members.into_iter().partition(|node| self.core.contains(node));
        self.observers.1.0.is_over = true;
        let fresh = |node: NodeId| (0..KEYS).map(move |number| fresh_key(node, number));
        let item = |key: Key| {
            let value = Payload::from(key.to_bytes().to_vec());
            Item { key, value, lifetime: Duration::from_secs(600) }
        };
        let puts =
            self.ask(FIRST, &core, |node| Operation::Put(fresh(node).map(item).collect()))?;
        let is_stored = |recorded: &Outcome| matches!(recorded, Outcome::Stored { .. });
        let puts: BTreeMap<Key, Outcome> = puts.into_values().flatten().collect();
        let stored = puts.values().filter(|recorded| is_stored(recorded)).count();
        // What a host that is cut off has written, others cannot know.
        let writers = core.iter().filter(|node| **node < NodeId::from(self.scenario.writers));
        let core_keys: BTreeSet<Key> =
            writers.flat_map(|node| overlay_swarm::keys_of(node.index() as u32)).collect();
        let old: Vec<Key> = self.observers.0.keys().filter(|key| !puts.contains_key(key)).collect();
        let keys: Vec<Key> = puts.keys().copied().chain(old).collect();
        let gets = self.ask(FIRST + 1, &core, |_| Operation::Get(keys.clone()))?;
        let (mut reads, mut found, mut absent) = (0, 0, 0);
        for (node, recorded) in gets {
            for (key, outcome) in recorded {
                let is_fresh = puts.get(&key).is_some_and(is_stored);
                reads += u64::from(is_fresh);
                found += u64::from(is_fresh && matches!(outcome, Outcome::Found { .. }));
                absent += u64::from(is_fresh && outcome == Outcome::Absent);
                let is_core = is_fresh || core_keys.contains(&key);
                if is_core && outcome == Outcome::Absent && !self.is_partial {
                    self.observers.0.check_absent(self.sim.now(), node, key);
                }
            }
        }
        let mut beyond = 0;
        let fresh = puts.iter().filter(|(_, recorded)| is_stored(recorded)).map(|(key, _)| *key);
        let fresh: Vec<Key> = fresh.collect();
        if !self.is_partial && !fresh.is_empty() {
            let gets = self.ask(FIRST + 2, &others, |_| Operation::Get(fresh.clone()))?;
            for (node, recorded) in gets {
                beyond += recorded.len() as u64;
                for key in recorded.into_iter().filter(|(_, recorded)| *recorded == Outcome::Absent)
                {
                    self.observers.0.check_absent(self.sim.now(), node, key.0);
                }
            }
        }
        if let Some(violation) = self.observers.0.violation() {
            return Err(violation.to_string());
        }
        // Zero, if no message used these links: the sum over all seeds is checked below.
        let severed = self.sim.counters().count(SEVERED);
        Ok([severed, puts.len() as u64, stored as u64, reads, found, absent, beyond])
    }
}

fn fresh_key(node: NodeId, number: u32) -> Key {
    Key::of(&[&b"core"[..], &node.0.to_be_bytes(), &number.to_be_bytes()].concat())
}

fn run_with(scenario: &Scenario, cuts: &Cuts) -> Result<Measured, String> {
    scenario.judged(|| {
        let terms = Terms { repaired_within: None, has_strangers: false };
        let ledger = OverlayLedger::new(&scenario.config, terms);
        let mut sim = scenario.sim(honest(&scenario.config))?;
        for (when, fault) in cuts.faults() {
            sim.fault_at(when, fault);
        }
        let observers = (ledger, (Application::new(scenario), Recorder::default()));
        let core = cuts.core.iter().copied().collect();
        Run { scenario, sim, observers, core, is_partial: cuts.is_partial }.run()
    })
}

/// Skips seeds with too few hosts to cut one off, or too many for a short run.
fn run(seed: u64) -> Result<Measured, String> {
    let mut scenario = Scenario::draw(seed);
    scenario.suite = "overlay_cut_seeds";
    let mut rng = Rng::new(seed, 0x5e7e);
    let when = at(BEGIN + u64::from(rng.below((FAULTS - BEGIN) as u32)));
    let Some(cuts) = Cuts::draw(&mut rng, scenario.nodes, when) else {
        return Ok([0; 7]);
    };
    if scenario.nodes > HOSTS_MAX {
        return Ok([0; 7]);
    }
    let judged = run_with(&scenario, &cuts);
    judged.map_err(|what| format!("{what}\n{cuts:?}"))
}

/// Too few hosts were left that reach each other to hold copies; or one of two holders was cut off
/// and the other came back empty, and the key was called absent; or it had been removed before the
/// cut and was written again beyond it.
#[test]
fn seeds_that_failed_once_serve() {
    seeds::run_found(&[3_641, 9_203, 9_616, 3_226, 10_295, 17_057], run);
}

#[test]
fn seeds_serve_the_hosts_whose_links_work() {
    let (count, [severed, puts, stored, reads, found, absent, beyond]) = seeds::run_all(run);
    println!(
        "{count} seeds: {severed} messages severed, {stored} of {puts} writes stored, {found} of \
         {reads} reads found, {absent} called absent, {beyond} asked for by hosts cut off"
    );
    if count >= 100 {
        assert!(
            severed > 100 * count && reads > 20 * count && beyond > count,
            "the seeds tested nothing"
        );
        assert!(stored * 10 > puts * 8, "the core stored {stored} of {puts}");
        assert!(found * 100 > reads * 95, "the core found {found} of {reads}");
        assert!(absent * 100 < reads, "{absent} of {reads} stored keys were called absent");
    }
}
