//! The events by which a member reports trouble to its application.

use crate::group_swarm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use group_swarm::{Scenario, at, config, honest, join, message};
use paceline_check::checkers::group::GroupLedger;
use paceline_proto::core::{Instant, MembershipCommand, NodeId, ViewId};
use paceline_proto::group::{Command, Config, Event, Group};
use paceline_sim::{FaultSupport, Observer, Reply, Sim, SimConfig};

const IDLER: NodeId = NodeId(2);

/// Consumes at once, but for one node, which does not; notes the rest.
#[derive(Default)]
struct Idle {
    events: Vec<(Instant, NodeId, Event)>,
    delivered: u64,
    // By origin, the idle node's deliveries: the bytes, and where the last message ended.
    unread: BTreeMap<NodeId, (usize, ViewId, u64)>,
    // From some time on it reads as well.
    is_over: bool,
}

impl Observer<Group> for Idle {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<Group>) {
        match event {
            Event::Delivered { view, origin, end, payload, .. } => {
                self.delivered += u64::from(node == NodeId(1));
                if node == IDLER && !self.is_over {
                    let (bytes, ..) = self.unread.get(origin).copied().unwrap_or_default();
                    self.unread.insert(*origin, (bytes + payload.len(), *view, *end));
                } else {
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
    sim.command_at(
        at(1),
        NodeId(0),
        MembershipCommand::Bootstrap { address: bytes::Bytes::new() }.into(),
    );
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
fn a_member_that_does_not_read_is_named_to_the_sender_that_waits_for_it() {
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

#[test]
fn a_reader_that_stands_still_through_many_views_holds_one_window_of_each_origin() {
    const CHANGES: u64 = 10;
    let config = config();
    let scenario = Scenario::new(1, 4);
    let mut sim_config = SimConfig::new(5, 1);
    sim_config.network = scenario.network.clone();
    sim_config.faults = FaultSupport::Any;
    let mut sim = Sim::new(sim_config, Arc::new(config.clone()), honest(&config));
    sim.command_at(
        at(1),
        NodeId(0),
        MembershipCommand::Bootstrap { address: bytes::Bytes::new() }.into(),
    );
    for node in 1..4 {
        sim.command_at(at(2), NodeId(node), join([0]));
    }
    // A fifth node comes and goes, and each time the view changes, while three members have more
    // to send than a window for each view.
    for change in 0..CHANGES {
        let command = if change % 2 == 0 { join([0]) } else { MembershipCommand::Leave.into() };
        sim.command_at(at(3_000 + change * 2_000), NodeId(4), command);
    }
    let count = 40 * (CHANGES + 1);
    for node in [0, 1, 3].map(NodeId) {
        for number in 0..count {
            sim.command_at(at(1_000 + number * 50), node, message(node, number, 4000));
        }
    }
    let mut observers = (GroupLedger::new(&config), Idle::default());
    sim.run_until(at(25_000), &mut observers);
    assert_eq!(observers.0.violation(), None);
    let views = observers.0.views().count() as u64;
    assert!(views > CHANGES, "only {views} views");
    let told = lagging(&observers.1);
    assert!(told.iter().all(|(_, _, members)| members == &[IDLER]), "{told:?}");
    let window = config.chain().window_bytes();
    for (&origin, &(bytes, ..)) in &observers.1.unread {
        assert!(bytes <= window, "{bytes} bytes of {origin} unread, the window is {window}");
        assert!(bytes > window / 2, "{bytes} bytes of {origin}: the window was not used");
        assert!(told.iter().any(|&(_, node, _)| node == origin), "{origin} was not told");
    }
    assert_eq!(observers.1.unread.len(), 3);

    // Once it consumes its deliveries, of any view, all accepted messages arrive.
    observers.1.is_over = true;
    for (&origin, &(_, view, end)) in &observers.1.unread {
        sim.command_at(at(25_010), IDLER, Command::Consumed { view, origin, end });
    }
    sim.run_until(at(35_000), &mut observers);
    assert_eq!(observers.0.violation(), None);
    assert_eq!(observers.1.delivered, 3 * count);
    let members = [0, 1, 2, 3].map(NodeId);
    observers.0.check_converged(&sim, &members).unwrap_or_else(|broken| panic!("{broken}"));
}
