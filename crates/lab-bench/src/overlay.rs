//! The largest structured overlay that can be simulated, and how the cost grows with size.
//!
//! Over growing sizes, by Chord and by Kademlia: tables are filled, values are put under all keys,
//! and then, timed, all are got in bundles.

use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use paceline_lab::machine::resident_bytes;
use paceline_lab::{LabError, Progress};
use paceline_lab_services::overlay::{Action, Grouping, Pace, Phase, Plan, Tables};
use paceline_proto::core::{Instant, NodeId};
use paceline_proto::overlay::{
    Algorithm, Command, Config, Event, Key, Oracle, Outcome, Overlay, Space, Style,
};
use paceline_sim::{Observer, Reply, Sim, SimConfig};
use serde::Serialize;

/// One row: an algorithm at a size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The algorithm.
    pub algorithm: &'static str,
    /// Nodes.
    pub nodes: u32,
    /// Keys put, then got.
    pub keys: usize,
    /// Keys that were got as they were put.
    pub found: usize,
    /// Seconds to make all nodes and fill their tables.
    pub fill_seconds: f64,
    /// Seconds to put values under all keys.
    pub put_seconds: f64,
    /// Seconds to get them.
    pub get_seconds: f64,
    /// Events handled while getting.
    pub events: u64,
    /// Events a second.
    pub events_per_second: f64,
    /// Nanoseconds an event.
    pub ns_per_event: f64,
    /// Messages a key while getting: bundles, their acknowledgements and results.
    pub messages_per_key: f64,
    /// Hops that a key makes on its way.
    pub hops_per_key: f64,
    /// Bytes of a node: its state, its table, what it keeps, and what the simulator keeps for it.
    pub bytes_per_node: f64,
    /// Bytes of its table, which are among them.
    pub table_bytes_per_node: f64,
    /// Growth of the process's resident memory up to when all keys were got, a node. Null where
    /// the system does not say.
    pub resident_bytes_per_node: Option<f64>,
}

/// What is measured, and how large it grows.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The largest number of nodes. Sizes grow tenfold from 1,000.
    pub nodes_max: u32,
    /// Keys.
    pub keys: usize,
    /// Keys of a bundle.
    pub bundle: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { nodes_max: 1_000_000, keys: 100_000, bundle: 10 }
    }
}

const SEED: u64 = 1;
const DELAY: Duration = Duration::from_millis(1);
const EVERY: Duration = Duration::from_micros(50);
/// Steps of the bar for each row: half of them while tables are filled.
const STEPS: u32 = 100;

/// Runs both algorithms over sizes from 1,000 to `nodes_max`.
pub fn run(settings: Settings, progress: &dyn Progress) -> Result<Vec<Row>, LabError> {
    let sizes = super::sizes(settings.nodes_max);
    let algorithms = [Algorithm::Chord, Algorithm::Kademlia];
    let total = sizes.len() * algorithms.len();
    progress.start(total as u64 * u64::from(STEPS), "overlay");
    let mut rows = Vec::with_capacity(total);
    for algorithm in algorithms {
        for &nodes in &sizes {
            let Some(row) = measure(algorithm, nodes, settings, progress) else {
                return Err(LabError::Stopped { finished: rows.len(), total });
            };
            rows.push(row);
        }
    }
    progress.finish();
    Ok(rows)
}

/// One row; none if it was stopped.
fn measure(
    algorithm: Algorithm,
    nodes: u32,
    settings: Settings,
    progress: &dyn Progress,
) -> Option<Row> {
    let resident = resident_bytes();
    let plan = plan(settings);
    let space = Space::new(SEED);
    let config = Config::new(space).with_algorithm(algorithm).with_upkeep_every(None).build();
    let shared = Arc::new(config.expect("these settings are in range"));
    let mut config = SimConfig::new(nodes as usize, SEED);
    config.network.link.delay = DELAY;

    let started = WallClock::now();
    let oracle = Oracle::new(space, (0..nodes).map(NodeId::from));
    let make = shared.clone();
    let step = (nodes / (STEPS / 2)).max(1);
    let mut sim = Sim::new(config, shared, |node| {
        let number = node.index() as u32;
        if number.is_multiple_of(step) && number / step < STEPS / 2 {
            progress.inc(1);
        }
        let mut router = make.router(node);
        if !progress.stopped() {
            router.fill(oracle.ring());
        }
        Overlay::with_router(&make, node, router)
    });
    let fill_seconds = started.elapsed().as_secs_f64();
    if progress.stopped() {
        return None;
    }

    let mut got = Got { plan: &plan, nodes, found: 0 };
    let put_seconds = phase(&mut sim, &mut got, 0, progress)?;
    let (events, before) = (sim.events_handled(), sim.counters().clone());
    let get_seconds = phase(&mut sim, &mut got, 1, progress)?;
    let events = sim.events_handled() - events;

    let counted = |name: &str| (sim.counters().count(name) - before.count(name)) as f64;
    let messages: f64 =
        ["overlay_route", "overlay_ack", "overlay_result"].map(counted).iter().sum();
    let keys = plan.keys.len();
    let per_key = |count: f64| count / keys as f64;
    let per_node = |bytes: usize| bytes as f64 / f64::from(nodes);
    let all = || (0..nodes).map(|node| sim.node(NodeId::from(node)));
    let tables: usize = all().map(|node| node.router().heap_bytes()).sum();
    let kept: usize = all().map(Overlay::heap_bytes).sum();
    let grown = resident_bytes().zip(resident).map(|(after, before)| after.saturating_sub(before));
    Some(Row {
        algorithm: algorithm.name(),
        nodes,
        keys,
        found: got.found,
        fill_seconds,
        put_seconds,
        get_seconds,
        events,
        events_per_second: events as f64 / get_seconds,
        ns_per_event: get_seconds * 1e9 / events as f64,
        messages_per_key: per_key(messages),
        hops_per_key: per_key(counted("overlay_hops")),
        bytes_per_node: size_of::<Overlay>() as f64
            + sim.driver_bytes_per_node()
            + per_node(tables + kept),
        table_bytes_per_node: per_node(tables),
        resident_bytes_per_node: grown.map(|bytes| per_node(bytes as usize)),
    })
}

/// All keys once, in clustered bundles of random requesters. Returns the seconds that it took;
/// none if it was stopped.
fn phase(
    sim: &mut Sim<'_, Overlay>,
    got: &mut Got<'_>,
    number: usize,
    progress: &dyn Progress,
) -> Option<f64> {
    let plan = got.plan;
    let started = WallClock::now();
    let begins = sim.now();
    let (first, count) = (plan.phases[number].first_bundle, plan.bundles_of(Grouping::Clustered));
    for bundle in first..first + count {
        let operation = plan.operation(bundle);
        let command =
            Command::Request { id: u64::from(bundle), operation, style: Style::Recursive };
        let requester = plan.requester(bundle, got.nodes);
        sim.command_at(begins + EVERY * (bundle - first), requester, command);
    }
    let steps = STEPS / 4;
    for step in 1..=steps {
        let sent = begins + EVERY * count / steps * step;
        sim.run_until(if step < steps { sent } else { Instant::MAX }, got);
        progress.inc(1);
        if progress.stopped() {
            return None;
        }
    }
    Some(started.elapsed().as_secs_f64())
}

fn plan(settings: Settings) -> Plan {
    let keys = Plan::keys(settings.keys, SEED);
    let phase = |action, first_bundle| Phase {
        action,
        style: Style::Recursive,
        grouping: Grouping::Clustered,
        clients: None,
        begins: Duration::ZERO,
        first_bundle,
    };
    let bundles = settings.keys.div_ceil(settings.bundle) as u32;
    Plan {
        tables: Tables::Ideal,
        join_every: Duration::ZERO,
        phases: vec![phase(Action::Put, 0), phase(Action::Get, bundles)],
        pace: Pace::Open(EVERY),
        bundle: settings.bundle,
        sorted: Plan::sorted(&keys, 0),
        keys,
        value_bytes: Key::BYTES,
        lifetime: Duration::from_secs(24 * 3600),
        seed: SEED,
    }
}

/// Counts the values that came.
struct Got<'a> {
    plan: &'a Plan,
    nodes: u32,
    found: usize,
}

impl Observer<Overlay> for Got<'_> {
    fn on_event(
        &mut self,
        _at: Instant,
        _node: NodeId,
        event: &Event,
        _reply: &mut Reply<Overlay>,
    ) {
        let Event::Outcome { id, outcomes } = event else { return };
        let phase = self.plan.phase_of(*id as u32);
        if self.plan.phases[phase].action == Action::Get {
            let is_found =
                |(key, outcome): &&(Key, Outcome)| self.plan.is_right(phase, *key, outcome);
            self.found += outcomes.iter().filter(is_found).count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::Quiet;

    #[test]
    fn every_key_is_got_at_every_size() {
        let settings = Settings { nodes_max: 1_000, keys: 2_000, ..Settings::default() };
        let rows = run(settings, &Quiet).expect("no one stops it");
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!((row.nodes, row.found), (1_000, 2_000), "{}", row.algorithm);
            assert!(row.messages_per_key > 1.0 && row.table_bytes_per_node > 0.0);
        }
    }
}
