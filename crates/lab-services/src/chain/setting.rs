//! The part of a figure's id that describes the run, and the limit that follows from link counts.

use paceline_lab::scenario::Scenario;
use paceline_proto::chain::{Frame, Topology};
use paceline_proto::core::Lane;

use super::Broadcast;

pub(super) fn topology_name(broadcast: &Broadcast) -> &'static str {
    broadcast.plan().topology.map_or("auto", Topology::name)
}

/// The most bytes that a node can deliver in a second, own included.
pub fn limit_bytes_per_second(broadcast: &Broadcast, scenario: &Scenario) -> f64 {
    let (plan, network) = (broadcast.plan(), &scenario.topology);
    let block = plan.message_bytes.min(broadcast.shared.block_bytes_max());
    let charged = network.overhead.charge(Lane::Stream, Frame::HEAD_BYTES + block);
    let link = network.rate.bits_per_second() as f64 / 8.0 * block as f64 / charged as f64;
    broadcast.limit(link)
}

/// `n4-1gbit-8k`: nodes, rate and message size.
pub(super) fn setting(scenario: &Scenario, message_bytes: usize) -> String {
    let rate = scenario.topology.rate.bits_per_second();
    let rate = match rate {
        r if r % 1_000_000_000 == 0 => format!("{}gbit", r / 1_000_000_000),
        r if r % 1_000_000 == 0 => format!("{}mbit", r / 1_000_000),
        r => format!("{r}bit"),
    };
    let size = match message_bytes {
        b if b >= 1000 && b % 1000 == 0 => format!("{}k", b / 1000),
        b if b >= 1024 && b % 1024 == 0 => format!("{}ki", b / 1024),
        b => format!("{b}b"),
    };
    format!("n{}-{rate}-{size}", scenario.topology.nodes)
}
