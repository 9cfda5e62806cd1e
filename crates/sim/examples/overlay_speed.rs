//! How many messages of an overlay the simulator handles a second.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, LinkFaults, NodeId, Payload, Rng};
use paceline_proto::overlay::{
    Chord, Command, Config, Item, Kademlia, Key, Koorde, Operation, Oracle, Overlay, Pastry,
    PingPolicy, Router, Space, Style, Tapestry,
};
use paceline_sim::{NetworkConfig, Sim, SimConfig};

fn measure<R: Router>(nodes: u32, keys: u32, bundle: usize, style: Style) {
    let space = Space::new(1);
    let config = Config::new(space).with_upkeep_every(None).with_ping(PingPolicy::Off);
    let config = config.build().expect("within the ranges");
    let oracle = Oracle::new(space, (0..nodes).map(NodeId));
    let mut sim_config = SimConfig::new(nodes as usize, 1);
    sim_config.network = NetworkConfig {
        link: LinkFaults { delay: Duration::from_millis(1), ..LinkFaults::default() },
        ..NetworkConfig::default()
    };
    let shared = config.clone();
    let begun = std::time::Instant::now();
    let mut sim = Sim::new(sim_config, Arc::new(config), |node| {
        let mut router = R::new(space, node);
        router.fill(oracle.ring());
        Overlay::with_router(&shared, node, router)
    });
    let filled = begun.elapsed();
    let mut rng = Rng::new(1, 2);
    let all: Vec<Key> = (0..keys).map(|n| Key::of(&n.to_be_bytes())).collect();
    let mut at = Instant::ZERO;
    for round in 0..2 {
        for (id, chunk) in (0..).zip(all.chunks(bundle)) {
            let item = |&key: &Key| Item {
                key,
                value: Payload::Zeros(8),
                lifetime: Duration::from_secs(60_000),
            };
            let operation = match round {
                0 => Operation::Put(chunk.iter().map(item).collect()),
                _ => Operation::Get(chunk.to_vec()),
            };
            at += Duration::from_micros(100);
            sim.command_at(at, NodeId(rng.below(nodes)), Command::Request { id, operation, style });
        }
        at += Duration::from_secs(2);
    }
    let begun = std::time::Instant::now();
    let events = sim.run_until(Instant::MAX, &mut ());
    let elapsed = begun.elapsed();
    let names =
        ["route", "ack", "result", "find", "found", "put", "put_reply", "ping", "pong", "upkeep"];
    let messages: u64 =
        names.iter().map(|name| sim.counters().count(&format!("overlay_{name}"))).sum();
    println!(
        "{} {style:?} bundles of {bundle}: fill {filled:.2?}, {messages} messages, {events} events \
         in {elapsed:.2?}: {:.2} M messages/s, {:.0} ns a message",
        R::NAME,
        messages as f64 / elapsed.as_secs_f64() / 1e6,
        elapsed.as_nanos() as f64 / messages as f64,
    );
}

fn main() {
    for style in [Style::Recursive, Style::Iterative] {
        for bundle in [1, 10] {
            measure::<Chord>(1000, 50_000, bundle, style);
            measure::<Koorde>(1000, 50_000, bundle, style);
            measure::<Pastry>(1000, 50_000, bundle, style);
            measure::<Tapestry>(1000, 50_000, bundle, style);
            measure::<Kademlia>(1000, 50_000, bundle, style);
        }
    }
}
