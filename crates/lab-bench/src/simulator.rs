//! How many nanoseconds an event takes the simulator, and how many bytes a node.
//!
//! Three loads over growing sizes: a chain that passes blocks from node to node, the hold model
//! (pop the earliest, push one later) on the simulator's radix heap, and the same on the standard
//! library's binary heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use paceline_lab::machine::resident_bytes;
use paceline_lab::{LabError, Progress};
use paceline_proto::chain::{Chain, Command, Config, Topology};
use paceline_proto::core::{Instant, NodeId, Payload, Rng, View};
use paceline_sim::{RadixHeap, Sim, SimConfig};
use serde::Serialize;

/// One row: a load at a size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The load: `chain`, `hold` (radix heap) or `hold-binary-heap`.
    pub what: &'static str,
    /// Nodes; null for a queue alone.
    pub nodes: Option<u32>,
    /// Events pending: at most on the way, or held.
    pub pending: u64,
    /// Events handled in the timed part.
    pub events: u64,
    /// Nanoseconds an event, or a hold: the best of the repetitions.
    pub ns_per_event: f64,
    /// The same for the first wave of blocks, which also gets all memory from the system. Null
    /// for a queue.
    pub ns_per_event_first: Option<f64>,
    /// Bytes a node that the driver holds beyond the protocol's own state; for a queue, bytes an
    /// event pending. Null where it is not known.
    pub bytes_per_node: Option<f64>,
    /// Bytes of the protocol's own struct.
    pub protocol_bytes: Option<usize>,
    /// Growth of the process's resident memory over the whole run, a node: all there is.
    pub resident_bytes_per_node: Option<f64>,
}

/// What is measured, and how large it grows.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The largest number of nodes, and of events pending. Sizes grow tenfold from 1,000.
    pub nodes_max: u32,
    /// Blocks that go down the chain.
    pub blocks: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { nodes_max: 1_000_000, blocks: 8 }
    }
}

const BLOCK_BYTES: u32 = 1_000;
const RATE_BITS_PER_SECOND: u64 = 1_000_000_000;

/// Waves of blocks down each chain, each to its end: received, acknowledged, freed.
const WAVES: u32 = 3;
/// Small chains are repeated until at least this many events were timed.
const EVENTS_MIN: u64 = 8_000_000;
const HOLDS: u64 = 2_000_000;

/// Runs the loads over sizes from 1,000 to `nodes_max`.
pub fn run(settings: Settings, progress: &dyn Progress) -> Result<Vec<Row>, LabError> {
    let sizes = super::sizes(settings.nodes_max);
    progress.start(3 * sizes.len() as u64, "simulator");
    let mut rows = Vec::new();
    let loads: [&dyn Fn(u32) -> Row; 3] =
        [&|n| chain(n, settings.blocks), &hold_radix, &hold_binary];
    for load in loads {
        for &size in &sizes {
            if progress.stopped() {
                let total = 3 * sizes.len();
                return Err(LabError::Stopped { finished: rows.len(), total });
            }
            rows.push(load(size));
            progress.inc(1);
        }
    }
    progress.finish();
    Ok(rows)
}

/// One origin's blocks down a chain of all nodes.
fn chain(nodes: u32, blocks: u32) -> Row {
    let mut best: Option<Row> = None;
    let mut events = 0;
    while events < EVENTS_MIN {
        let row = chain_once(nodes, blocks);
        events += row.events;
        // Memory is measured at the first repetition: later ones reuse what it got.
        best = Some(match best {
            None => row,
            Some(best) => Row { ns_per_event: best.ns_per_event.min(row.ns_per_event), ..best },
        });
    }
    best.expect("there is at least one repetition")
}

fn chain_once(nodes: u32, blocks: u32) -> Row {
    let resident = resident_bytes();
    let view = View::roster((0..nodes).map(NodeId::from));
    let config = Config::new(view.clone())
        .with_topology(Some(Topology::Chain))
        .with_block_bytes_max(BLOCK_BYTES as usize)
        // A hop takes about 9 microseconds: a wave is through before it is acknowledged.
        .with_ack_after(Duration::from_secs(100))
        .with_queue_bytes(1 << 20)
        .build();
    let shared = Arc::new(config.expect("these settings are in range"));
    let mut config = SimConfig::new(nodes as usize, 1);
    config.network.rate_bits_per_second = Some(RATE_BITS_PER_SECOND);
    let make = shared.clone();
    let mut sim = Sim::new(config, shared, move |_| Chain::new(&make));
    let view = Arc::new(view);
    for node in (0..nodes).map(NodeId::from) {
        sim.view_at(Instant::ZERO, node, view.clone());
    }
    sim.run_until(Instant::ZERO, &mut ());
    let mut waves = Vec::new();
    let (mut events, mut pending) = (0, 0);
    for _ in 0..WAVES {
        for _ in 0..blocks {
            let command = Command::broadcast(Payload::Zeros(BLOCK_BYTES));
            sim.command_at(sim.now(), NodeId(0), command);
        }
        let started = WallClock::now();
        // Up to where the acknowledgements begin, the fullest moment of the queue.
        let on_their_way = sim.run_until(sim.now() + Duration::from_secs(99), &mut ());
        pending = pending.max(sim.events_pending() as u64);
        let handled = on_their_way + sim.run_until(Instant::MAX, &mut ());
        waves.push(started.elapsed().as_nanos() as f64 / handled as f64);
        events += handled;
    }
    let origin = sim.node(NodeId(0));
    assert_eq!(origin.blocks_stable(), u64::from(WAVES * blocks), "every block reaches every node");
    let per_node = |bytes: u64| bytes as f64 / f64::from(nodes);
    let grown = resident_bytes().zip(resident).map(|(after, before)| after.saturating_sub(before));
    Row {
        what: "chain",
        nodes: Some(nodes),
        pending,
        events,
        ns_per_event: waves.iter().copied().fold(f64::INFINITY, f64::min),
        ns_per_event_first: Some(waves[0]),
        bytes_per_node: Some(sim.driver_bytes_per_node()),
        protocol_bytes: Some(size_of::<Chain>()),
        resident_bytes_per_node: grown.map(per_node),
    }
}

/// The farthest that an event lies ahead, in the hold model.
const AHEAD: u64 = 1_000_000_000;

fn hold_radix(pending: u32) -> Row {
    let mut heap = RadixHeap::default();
    let mut rng = Rng::new(1, 1);
    for item in 0..pending {
        heap.push(rng.next_u64() % AHEAD, item);
    }
    let ns = best_hold(|| {
        let (time, item) = heap.pop().expect("what is popped is pushed again");
        heap.push(time + rng.next_u64() % AHEAD, item);
    });
    let bytes = heap.memory_bytes() as f64 / f64::from(pending);
    hold_row("hold", pending, ns, Some(bytes))
}

fn hold_binary(pending: u32) -> Row {
    let mut heap = BinaryHeap::with_capacity(pending as usize);
    let mut rng = Rng::new(1, 1);
    let mut sequence = 0u64;
    for item in 0..pending {
        heap.push(Reverse((rng.next_u64() % AHEAD, sequence, item)));
        sequence += 1;
    }
    let ns = best_hold(|| {
        let Reverse((time, _, item)) = heap.pop().expect("what is popped is pushed again");
        // Equal times must come in order here too.
        heap.push(Reverse((time + rng.next_u64() % AHEAD, sequence, item)));
        sequence += 1;
    });
    let bytes = heap.capacity() * size_of::<Reverse<(u64, u64, u32)>>();
    hold_row("hold-binary-heap", pending, ns, Some(bytes as f64 / f64::from(pending)))
}

fn hold_row(what: &'static str, pending: u32, ns_per_event: f64, bytes: Option<f64>) -> Row {
    Row {
        what,
        nodes: None,
        pending: u64::from(pending),
        events: HOLDS,
        ns_per_event,
        ns_per_event_first: None,
        bytes_per_node: bytes,
        protocol_bytes: None,
        resident_bytes_per_node: None,
    }
}

/// Nanoseconds a hold: the best of four parts, after a warm-up of one.
fn best_hold(mut hold: impl FnMut()) -> f64 {
    let part = HOLDS / 4;
    let mut best = f64::INFINITY;
    for number in 0..5 {
        let started = WallClock::now();
        for _ in 0..part {
            hold();
        }
        let ns = started.elapsed().as_nanos() as f64 / part as f64;
        best = if number == 0 { best } else { best.min(ns) };
    }
    best
}
