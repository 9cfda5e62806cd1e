//! The published round counts, from running the protocol.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::chain::{Chain, Command, Config, Event, Frame, Topology};
use paceline_proto::core::{Instant, NodeId, Payload, View};
use paceline_sim::{Observer, Overhead, Reply, Sim, SimConfig};

const BLOCK_BYTES: usize = 1000;

#[derive(Default)]
struct LastDelivery {
    at: Instant,
    count: usize,
}

impl Observer<Chain> for LastDelivery {
    fn on_event(&mut self, at: Instant, _: NodeId, event: &Event, _: &mut Reply<Chain>) {
        assert!(matches!(event, Event::Delivered { .. }), "{event:?}");
        self.at = at;
        self.count += 1;
    }
}

/// Rounds until all members have `blocks` blocks of member `origin`.
fn rounds(topology: Topology, members: usize, blocks: usize, origin: u32) -> f64 {
    let view = View::roster((0..members as u64).map(NodeId));
    let shared = Config::new(view.clone())
        .with_topology(Some(topology))
        .with_block_bytes_max(BLOCK_BYTES)
        .with_queue_bytes(BLOCK_BYTES * blocks)
        .with_ack_blocks(128)
        .with_ack_after(Duration::from_secs(10))
        .build()
        .unwrap();
    let mut config = SimConfig::new(members, 1);
    config.network.rate_bits_per_second = Some(1_000_000_000);
    config.network.overhead = Overhead::None;
    let chain = Chain::new(&shared);
    let mut sim = Sim::new(config, Arc::new(shared.clone()), move |_| Chain::new(&shared));
    drop(chain);
    let view = Arc::new(view);
    for node in 0..members as u32 {
        sim.view_at(Instant::ZERO, NodeId::from(node), view.clone());
    }
    let payload = Payload::Zeros((BLOCK_BYTES * blocks) as u32);
    sim.command_at(Instant::ZERO, NodeId::from(origin), Command::broadcast(payload));
    let mut last = LastDelivery::default();
    sim.run_until(Instant::from_nanos(5_000_000_000), &mut last);
    assert_eq!(last.count, members, "{topology} {members} {blocks}: {:?}", sim.counters());
    let round = (Frame::HEAD_BYTES + BLOCK_BYTES) as f64 * 8.0;
    last.at.as_nanos() as f64 / round
}

#[test]
fn rounds_are_exactly_those_of_the_closed_forms() {
    for (blocks, members) in
        [(1, 10), (2, 4), (10, 10), (100, 64), (7, 23), (1, 2), (5, 3), (33, 33)]
    {
        for topology in Topology::ALL {
            let expected = topology.rounds(members, blocks as u64) as f64;
            let measured = rounds(topology, members, blocks, (members / 2) as u32);
            assert_eq!(measured, expected, "{topology}, {blocks} blocks, {members} members");
        }
    }
}
