//! temporary
use paceline_proto::chain::{Chain, Command, Config, Topology};
use paceline_proto::core::{Instant, NodeId, Payload, Rng, View};
use paceline_sim::{RadixHeap, Sim, SimConfig};
use std::sync::Arc;
use std::time::Duration;
fn main() {
    let n: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    for _ in 0..(1_000_000 / n) {
        let blocks = 16u32;
        let view = View::roster((0..n).map(NodeId));
        let shared = Arc::new(
            Config::new(view.clone())
                .with_topology(Some(Topology::Chain))
                .with_block_bytes_max(1000)
                .with_ack_after(Duration::from_secs(3600))
                .with_queue_bytes(1 << 20)
                .build()
                .unwrap(),
        );
        let mut config = SimConfig::new(n as usize, 1);
        config.network.rate_bits_per_second = Some(1_000_000_000);
        let make = shared.clone();
        let t = std::time::Instant::now();
        let mut sim = Sim::new(config, shared, move |_| Chain::new(&make));
        let view = Arc::new(view);
        for node in 0..n {
            sim.view_at(Instant::ZERO, NodeId(node), view.clone());
        }
        sim.run_until(Instant::ZERO, &mut ());
        let setup = t.elapsed();
        for _ in 0..blocks {
            sim.command_at(Instant::ZERO, NodeId(0), Command::broadcast(Payload::Zeros(1000)));
        }
        let t = std::time::Instant::now();
        let events = sim.run_until(Instant::from_nanos(3_000_000_000_000), &mut ());
        let e = t.elapsed();
        if true {println!(
            "n={n} setup {:?} events {events} {:.1} ns/event driver {:.1} B/node P {} B message {} queue {} B stable {}",
            setup,
            e.as_nanos() as f64 / events as f64,
            sim.driver_bytes_per_node(),
            size_of::<Chain>(),
            size_of::<paceline_proto::chain::Message>(),
            sim.queue_bytes(),
            sim.node(NodeId(0)).blocks_stable()
        );}
    }
    for pending in [1_000u32; 0] {
        let mut heap = RadixHeap::default();
        let mut rng = Rng::new(1, 1);
        for i in 0..pending {
            heap.push(rng.next_u64() % 1_000_000_000, i);
        }
        let t = std::time::Instant::now();
        let holds = 5_000_000;
        for _ in 0..holds {
            let (time, item) = heap.pop().unwrap();
            heap.push(time + (rng.next_u64() % 1_000_000_000), item);
        }
        println!("pending {pending}: {:.1} ns/hold", t.elapsed().as_nanos() as f64 / holds as f64);
    }
}
