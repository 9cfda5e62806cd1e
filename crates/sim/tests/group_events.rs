//! What a member tells its application when things are not as they should be.

mod group_swarm;
mod seeds;

use std::sync::Arc;
use std::time::Duration;

use group_swarm::{Scenario, at, config, honest, join, message};
use paceline_proto::core::{Instant, NodeId};
use paceline_proto::group::{Command, Config, Event, Group};
use paceline_sim::checkers::group::GroupLedger;
use paceline_sim::{FaultSupport, Observer, Reply, Sim, SimConfig};

const IDLER: NodeId = NodeId(2);

/// Consumes at once, but for one node, which never does; notes the rest.
#[derive(Default)]
struct Idle {
    events: Vec<(Instant, NodeId, Event)>,
    delivered: u64,
}

impl Observer<Group> for Idle {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<Group>) {
        match event {
            Event::Delivered { view, origin, end, .. } => {
                self.delivered += u64::from(node == NodeId(1));
                if node != IDLER {
                    let consumed = Command::Consumed { view: *view, origin: *origin, end: *end };
                    reply.command(Duration::ZERO, node, consumed);
                }
            }
            event => self.events.push((at, node, event.clone())),
        }
    }
}

/// Four members; node 0 sends more than a window, and node 2 reads nothing.
fn run(config: Config) -> Idle {
    let scenario = Scenario::new(1, 4);
    let mut sim_config = SimConfig::new(4, 1);
    sim_config.network = scenario.network.clone();
    sim_config.faults = FaultSupport::Any;
    let mut sim = Sim::new(sim_config, Arc::new(config.clone()), honest(&config));
    sim.command_at(at(1), NodeId(0), Command::Bootstrap { address: bytes::Bytes::new() });
    for node in 1..4 {
        sim.command_at(at(2), NodeId(node), join([0]));
    }
    for number in 0..100 {
        sim.command_at(at(500 + number), NodeId(0), message(NodeId(0), number, 4000));
    }
    let mut observers = (GroupLedger::new(&config), Idle::default());
    sim.run_until(at(8_000), &mut observers);
    assert_eq!(observers.0.violation(), None);
    observers.1
}

fn lagging(idle: &Idle) -> Vec<(Instant, NodeId, Vec<NodeId>)> {
    let of = |(at, node, event): &(Instant, NodeId, Event)| match event {
        Event::Lagging { members } => Some((*at, *node, members.clone())),
        _ => None,
    };
    idle.events.iter().filter_map(of).collect()
}

#[test]
fn whoever_does_not_read_is_named_to_the_sender_that_it_holds_back() {
    let idle = run(config());
    let [(when, sender, ref members)] = lagging(&idle)[..] else {
        panic!("{:?}", lagging(&idle));
    };
    assert_eq!((sender, members.as_slice()), (NodeId(0), &[IDLER][..]));
    assert!(when >= at(1_500) && when <= at(1_700), "{when}");
    assert!(idle.delivered < 40, "the window held: {}", idle.delivered);
}

#[test]
fn by_policy_it_is_taken_for_down_and_the_others_go_on() {
    let policy = Some(Duration::from_secs(2));
    let idle = run(config().with_expel_after(policy).build().unwrap());
    assert_eq!(idle.delivered, 100);
    let excluded = idle.events.iter().filter(|(_, _, event)| *event == Event::Excluded);
    let excluded: Vec<NodeId> = excluded.map(|&(_, node, _)| node).collect();
    assert!(excluded.iter().all(|&node| node == IDLER) && !excluded.is_empty(), "{excluded:?}");
}
