//! Several groups of hosts that share one failure detector.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, Lane, MembershipCommand, NodeId, ServiceNumber, View};
use paceline_proto::detector;
use paceline_proto::group::{self, Group};
use paceline_proto::host::{Command, Host, Message};
use paceline_sim::{Fault, FaultSupport, Observer, Sim, SimConfig};

const HOSTS: u32 = 5;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn number(group: u32) -> ServiceNumber {
    ServiceNumber(group + 1)
}

/// Hosts that run this many groups, each of which all hosts but the last one join, and that in
/// `of_last` the last one as well.
fn hosts(groups: u32, of_last: std::ops::Range<u32>, seed: u64) -> Sim<'static, Host> {
    let shared = Arc::new(group::Config::default().build().expect("the defaults"));
    let make = move |_| {
        (0..groups).fold(Host::new(detector::Config::default()), |host, group| {
            host.with_service(number(group), Group::new(&shared), Arc::clone(&shared))
        })
    };
    let mut config = SimConfig::new(HOSTS as usize, seed);
    config.faults = FaultSupport::Any;
    let mut sim = Sim::new(config, Arc::new(()), make);
    for node in 0..HOSTS {
        for group in 0..groups {
            if node < HOSTS - 1 || of_last.contains(&group) {
                join(&mut sim, node, group, at(1 + u64::from(node)));
            }
        }
    }
    sim.run_until(at(5_000), &mut ());
    sim
}

fn join(sim: &mut Sim<'_, Host>, node: u32, group: u32, when: Instant) {
    let address = bytes::Bytes::new();
    let command = match node {
        0 => MembershipCommand::Bootstrap { address },
        _ => MembershipCommand::Join { address, peers: vec![NodeId(0)] },
    };
    let command = group::Command::Membership(command);
    sim.command_at(when, NodeId::from(node), Command::new(number(group), command));
}

fn view(sim: &Sim<'_, Host>, node: u32, group: u32) -> Arc<View> {
    let host = sim.node(NodeId::from(node));
    let machine = host.service::<Group>(number(group)).expect("every host runs every group");
    machine.protocol().view().clone()
}

fn members(sim: &Sim<'_, Host>, node: u32, group: u32) -> usize {
    view(sim, node, group).len()
}

/// How many messages were sent.
#[derive(Default)]
struct Sends {
    of_detector: u64,
    of_services: u64,
}

impl Observer<Host> for Sends {
    fn on_send(&mut self, _: Instant, _: NodeId, _: NodeId, _: Lane, message: &Message) {
        match message.service {
            ServiceNumber::NODE => self.of_detector += 1,
            _ => self.of_services += 1,
        }
    }
}

#[test]
fn traffic_at_rest_does_not_depend_on_the_number_of_groups() {
    let at_rest = |groups: u32| {
        let mut sim = hosts(groups, 0..groups, 1);
        for node in 0..HOSTS {
            assert!((0..groups).all(|group| members(&sim, node, group) == HOSTS as usize));
        }
        sim.run_until(at(10_000), &mut ());
        let (mut sends, before) = (Sends::default(), sim.events_handled());
        sim.run_until(at(30_000), &mut sends);
        assert_eq!(sends.of_services, 0, "groups at rest say nothing");
        (sends.of_detector, sim.events_handled() - before)
    };
    let (one, hundred) = (at_rest(1), at_rest(100));
    // Five hosts, each with a probe in 180 ms: two datagrams.
    assert!((1_050..1_150).contains(&one.0), "{one:?}");
    for (hundred, one) in [(hundred.0, one.0), (hundred.1, one.1)] {
        let ratio = hundred as f64 / one as f64;
        assert!((0.98..1.02).contains(&ratio), "{hundred} and {one}");
    }
}

#[test]
fn a_crashed_host_is_out_of_all_views_after_the_same_time() {
    let mut sim = hosts(10, 0..5, 2);
    let crash = NodeId::from(HOSTS - 1);
    sim.fault_at(at(6_000), Fault::Crash(crash));
    let mut out_at = [None; 5];
    for ms in (6_000..9_000).step_by(10) {
        sim.run_until(at(ms), &mut ());
        for (group, out_at) in (0..).zip(&mut out_at) {
            if out_at.is_none() && members(&sim, 0, group) == HOSTS as usize - 1 {
                *out_at = Some(ms);
            }
        }
    }
    let out_at: Vec<u64> = out_at.iter().map(|at| at.expect("it crashed")).collect();
    let (first, last) = (out_at.iter().min().unwrap(), out_at.iter().max().unwrap());
    assert!(*last < 8_500 && last - first <= 50, "{out_at:?}");
    for group in 5..10 {
        let unchanged = view(&sim, 0, group).id();
        assert_eq!(view(&sim, 1, group).id(), unchanged);
        assert_eq!(members(&sim, 0, group), HOSTS as usize - 1, "it was in no view of this one");
    }
}

/// A host stands still until the others have gone on without it, in every group that it is in, and
/// the groups are idle: nothing but the hosts' comparison says so.
#[test]
fn a_host_that_was_left_out_while_it_stood_still_comes_back_to_every_group() {
    for seed in 0..20 {
        let mut sim = hosts(6, 0..3, seed);
        let paused = NodeId::from(HOSTS - 1);
        sim.fault_at(at(6_000), Fault::Pause(paused, Duration::from_secs(4)));
        sim.run_until(at(9_900), &mut ());
        for group in 0..3 {
            assert_eq!(
                members(&sim, 0, group),
                HOSTS as usize - 1,
                "seed {seed}: the others go on"
            );
            assert_eq!(members(&sim, HOSTS - 1, group), HOSTS as usize, "seed {seed}");
        }
        sim.run_until(at(20_000), &mut ());
        assert!(sim.counters().count("group_hosts_differ") > 0, "seed {seed}: they were told");
        assert_eq!(
            sim.counters().count("group_member_absent"),
            0,
            "seed {seed}: no member is accused"
        );
        for group in 0..3 {
            for node in 0..HOSTS {
                let id = view(&sim, node, group).id();
                let members = members(&sim, node, group);
                assert_eq!(members, HOSTS as usize, "seed {seed}, group {group}, {node}, {id}");
            }
        }
    }
}

#[test]
fn a_restarted_host_is_back_in_every_group() {
    for seed in 0..20 {
        let mut sim = hosts(4, 0..4, seed);
        let (host, down) = (NodeId::from(HOSTS - 1), at(6_000));
        sim.fault_at(down, Fault::Crash(host));
        // Some start again before the others have noticed.
        let up = down + Duration::from_millis(100 * (seed + 1));
        sim.fault_at(up, Fault::Restart(host));
        for group in 0..4 {
            join(&mut sim, HOSTS - 1, group, up + Duration::from_millis(1));
        }
        sim.run_until(at(14_000), &mut ());
        for group in 0..4 {
            let incarnation = view(&sim, HOSTS - 1, group).members().last().copied();
            for node in 0..HOSTS {
                let view = view(&sim, node, group);
                assert_eq!(view.len(), HOSTS as usize, "seed {seed}, group {group}, n{node}");
                assert_eq!(view.members().last().copied(), incarnation);
            }
        }
    }
}
