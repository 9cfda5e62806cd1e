//! The simulated network, seen by a protocol that only sends and listens.

use crate::post;

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, Lane, LinkFaults, Loss, Membership, NodeId, PeerState};
use paceline_sim::{
    Codec, Fault, FaultSupport, Multicast, NetworkConfig, Overhead, Shape, Sim, SimConfig, Trace,
};
use post::{A, B, C, Heard, Log, Order, Post, send};

/// One byte takes one microsecond.
const RATE_BITS_PER_SECOND: u64 = 8_000_000;

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + us(micros)
}

fn sim(shape: Shape, link: LinkFaults) -> Sim<'static, Post> {
    sim_on(NetworkConfig { shape, link, ..NetworkConfig::default() })
}

fn sim_on(network: NetworkConfig) -> Sim<'static, Post> {
    let mut config = SimConfig::new(3, 7);
    config.network = NetworkConfig {
        rate_bits_per_second: Some(RATE_BITS_PER_SECOND),
        overhead: Overhead::None,
        ..network
    };
    config.codec = Codec::CheckWire;
    config.faults = FaultSupport::Any;
    Sim::new(config, Arc::new(()), |_| Post)
}

fn run(mut sim: Sim<Post>) -> (Log, Sim<Post>) {
    let mut log = Log::default();
    sim.run_until(Instant::MAX, &mut log);
    (log, sim)
}

#[test]
fn an_idle_path_through_the_switch_costs_one_transmission() {
    for shape in [Shape::Star, Shape::Mesh] {
        let mut sim = sim(shape, LinkFaults::default());
        sim.command_at(at(10), A, send(B, Lane::Stream, 0, 1, 1000));
        let (log, _) = run(sim);
        assert_eq!(log.parcels(B, A), [(us(1010), 0)], "{shape:?}");
    }
}

#[test]
fn two_senders_to_one_receiver_queue_at_its_port_and_not_on_a_mesh() {
    for (shape, second) in [(Shape::Star, 2000), (Shape::Mesh, 1000)] {
        let mut sim = sim(shape, LinkFaults::default());
        sim.command_at(at(0), A, send(C, Lane::Stream, 0, 1, 1000));
        sim.command_at(at(0), B, send(C, Lane::Stream, 0, 1, 1000));
        let (log, _) = run(sim);
        assert_eq!(log.parcels(C, A), [(us(1000), 0)], "{shape:?}");
        assert_eq!(log.parcels(C, B), [(us(second), 0)], "{shape:?}");
    }
}

#[test]
fn one_sender_to_two_receivers_queues_at_its_own_port_and_not_on_a_mesh() {
    for (shape, second) in [(Shape::Star, 2000), (Shape::Mesh, 1000)] {
        let mut sim = sim(shape, LinkFaults::default());
        sim.command_at(at(0), A, send(B, Lane::Stream, 0, 1, 1000));
        sim.command_at(at(0), A, send(C, Lane::Stream, 0, 1, 1000));
        let (log, _) = run(sim);
        assert_eq!(log.parcels(B, A), [(us(1000), 0)], "{shape:?}");
        assert_eq!(log.parcels(C, A), [(us(second), 0)], "{shape:?}");
    }
}

#[test]
fn ports_are_full_duplex() {
    let mut sim = sim(Shape::Star, LinkFaults::default());
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 3, 1000));
    sim.command_at(at(0), B, send(A, Lane::Stream, 0, 3, 1000));
    let (log, _) = run(sim);
    let expected = [(us(1000), 0), (us(2000), 1), (us(3000), 2)];
    assert_eq!(log.parcels(B, A), expected);
    assert_eq!(log.parcels(A, B), expected);
}

#[test]
fn loss_delays_a_stream_and_keeps_its_order_but_thins_out_datagrams() {
    for shape in [Shape::Star, Shape::Mesh] {
        let link = LinkFaults { loss: Loss::Independent(0.3), ..LinkFaults::default() };
        let mut sim = sim(shape, link);
        sim.command_at(at(0), A, send(B, Lane::Stream, 0, 100, 100));
        sim.command_at(at(0), A, send(C, Lane::Datagram, 0, 100, 100));
        let (log, sim) = run(sim);
        let numbers: Vec<u64> = log.parcels(B, A).iter().map(|&(_, number)| number).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "{shape:?}");
        assert!(log.parcels(B, A)[99].0 > us(200_000), "a loss costs a resend time-out");
        let arrived = log.parcels(C, A).len() as u64;
        assert!((50..90).contains(&arrived), "{arrived} of 100 datagrams arrived");
        assert_eq!(sim.counters().count("sim_lost"), 100 - arrived);
    }
}

#[test]
fn jitter_reorders_datagrams_and_not_streams_and_duplicates_only_datagrams() {
    let link = LinkFaults { jitter: us(5_000), duplicate: 0.5, ..LinkFaults::default() };
    let mut sim = sim(Shape::Star, link);
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 50, 100));
    sim.command_at(at(0), A, send(C, Lane::Datagram, 0, 50, 100));
    let (log, _) = run(sim);
    let stream: Vec<u64> = log.parcels(B, A).iter().map(|&(_, number)| number).collect();
    assert_eq!(stream, (0..50).collect::<Vec<_>>());
    let datagrams: Vec<u64> = log.parcels(C, A).iter().map(|&(_, number)| number).collect();
    assert!(datagrams.len() > 60 && !datagrams.is_sorted(), "{datagrams:?}");
}

#[test]
fn a_partition_stalls_streams_and_drops_datagrams_until_it_heals() {
    for shape in [Shape::Star, Shape::Mesh] {
        let mut sim = sim(shape, LinkFaults::default());
        sim.fault_at(at(0), Fault::Partition(vec![vec![A], vec![B]]));
        sim.command_at(at(10), A, send(B, Lane::Stream, 0, 2, 100));
        sim.command_at(at(10), A, send(B, Lane::Datagram, 10, 2, 100));
        sim.command_at(at(10), A, Order::Watch { to: B, below_bytes: 1 });
        sim.fault_at(at(5000), Fault::Heal);
        sim.command_at(at(6000), A, send(B, Lane::Datagram, 20, 1, 100));
        let (log, sim) = run(sim);
        let expected = [(us(5100), 0), (us(5200), 1), (us(6100), 20)];
        assert_eq!(log.parcels(B, A), expected, "{shape:?}");
        assert_eq!(sim.counters().count("sim_partitioned"), 2);
        assert_eq!(log.drained().len(), 1, "{shape:?}: what stalled counts until it is sent");
        assert!(log.drained()[0].0 >= us(5000), "{shape:?}");
    }
}

#[test]
fn a_blocked_direction_leaves_the_other_one_alone() {
    let mut sim = sim(Shape::Star, LinkFaults::default());
    sim.fault_at(at(0), Fault::Block(A, B));
    sim.command_at(at(10), A, send(B, Lane::Datagram, 0, 1, 100));
    sim.command_at(at(10), B, send(A, Lane::Datagram, 0, 1, 100));
    let (log, _) = run(sim);
    assert_eq!((log.parcels(B, A).len(), log.parcels(A, B).len()), (0, 1));
}

#[test]
fn a_paused_node_hears_everything_when_it_wakes_but_its_socket_holds_only_so_many_datagrams() {
    let mut sim = sim(Shape::Star, LinkFaults::default());
    sim.fault_at(at(0), Fault::Pause(B, us(1_000_000)));
    sim.command_at(at(10), A, send(B, Lane::Stream, 0, 3, 100));
    sim.command_at(at(1000), A, send(B, Lane::Datagram, 10, 300, 1000));
    let (log, sim) = run(sim);
    let heard = log.parcels(B, A);
    assert!(heard.iter().all(|&(when, _)| when == us(1_000_000)));
    assert_eq!(heard.len(), 3 + 212, "a receive buffer of 212,992 bytes");
    assert_eq!(sim.counters().count("sim_socket_full"), 300 - 212);
}

#[test]
fn a_reset_loses_a_suffix_and_tells_the_sender_down_and_up() {
    for shape in [Shape::Star, Shape::Mesh] {
        let mut sim = sim(shape, LinkFaults::default());
        sim.command_at(at(0), A, send(B, Lane::Stream, 0, 10, 100));
        sim.command_at(at(1), A, Order::Watch { to: B, below_bytes: 1 });
        sim.fault_at(at(350), Fault::Reset(A, B, us(1000)));
        sim.command_at(at(400), A, send(B, Lane::Stream, 50, 1, 100));
        sim.command_at(at(2000), A, send(B, Lane::Stream, 60, 1, 100));
        let incarnation = sim.incarnation(B);
        let (log, _) = run(sim);
        let numbers: Vec<u64> = log.parcels(B, A).iter().map(|&(_, number)| number).collect();
        assert_eq!(numbers, [0, 1, 2, 60], "{shape:?}");
        let peers: Vec<_> = log
            .0
            .iter()
            .filter_map(|(when, node, heard)| match heard {
                Heard::Peer { peer, state } => Some((*when, *node, *peer, *state)),
                _ => None,
            })
            .collect();
        let up = PeerState::Up { incarnation };
        assert_eq!(peers, [(at(350), A, B, PeerState::Down), (at(1350), A, B, up)], "{shape:?}");
        assert_eq!(log.drained().len(), 1, "{shape:?}: what was lost waits no more");
    }
}

#[test]
fn a_crash_cuts_off_what_was_sent_and_a_restart_has_a_new_incarnation() {
    for shape in [Shape::Star, Shape::Mesh] {
        let mut sim = sim(shape, LinkFaults { delay: us(100), ..LinkFaults::default() });
        let before = sim.incarnation(A);
        sim.command_at(at(0), A, send(B, Lane::Stream, 0, 10, 100));
        sim.command_at(at(0), A, send(B, Lane::Datagram, 20, 10, 100));
        sim.fault_at(at(250), Fault::Crash(A));
        sim.fault_at(at(300), Fault::Restart(A));
        sim.command_at(at(9000), A, send(B, Lane::Stream, 90, 1, 100));
        let (log, sim) = run(sim);
        let numbers: Vec<u64> = log.parcels(B, A).iter().map(|&(_, number)| number).collect();
        assert_eq!(numbers, [0, 90], "{shape:?}: nothing of the old incarnation after the crash");
        let after = sim.incarnation(A);
        assert_ne!(before, after);
        let told: Vec<_> = log.0.iter().filter(|(_, node, _)| *node == B).map(|e| &e.2).collect();
        assert!(told.contains(&&Heard::Peer { peer: A, state: PeerState::Down }), "{shape:?}");
        let up = PeerState::Up { incarnation: after };
        assert!(told.contains(&&Heard::Peer { peer: A, state: up }), "{shape:?}");
        let started = Heard::Started { incarnation: after };
        assert_eq!(log.0.iter().filter(|entry| entry.2 == started).count(), 1, "{shape:?}");
    }
}

#[test]
fn a_node_hears_once_when_its_backlog_has_fallen_even_if_more_was_sent_meanwhile() {
    for shape in [Shape::Star, Shape::Mesh] {
        let mut sim = sim(shape, LinkFaults::default());
        sim.command_at(at(0), A, send(B, Lane::Stream, 0, 10, 100));
        sim.command_at(at(1), A, Order::Watch { to: B, below_bytes: 250 });
        sim.command_at(at(2), A, send(B, Lane::Stream, 10, 10, 100));
        let (log, _) = run(sim);
        let [(when, backlog_bytes)] = log.drained()[..] else { panic!("{:?}", log.drained()) };
        assert!(backlog_bytes < 250, "{shape:?}: {backlog_bytes}");
        assert!((us(1700)..us(1800)).contains(&when), "{shape:?}: {when:?}");
    }
}

#[test]
fn a_node_that_has_no_backlog_hears_at_once() {
    for shape in [Shape::Star, Shape::Mesh] {
        let mut sim = sim(shape, LinkFaults::default());
        sim.command_at(at(5), A, Order::Watch { to: B, below_bytes: 0 });
        let (log, _) = run(sim);
        assert_eq!(log.drained(), [(us(5), 0)], "{shape:?}");
    }
}

/// All nodes in the group.
fn joined(network: NetworkConfig) -> Sim<'static, Post> {
    let mut sim = sim_on(network);
    for node in [A, B, C] {
        sim.command_at(at(0), node, Order::SetMembership(Membership::Joined));
    }
    sim
}

fn send_group(first: u64, parcels: u64, bytes: usize) -> Order {
    Order::SendGroup { first, parcels, bytes }
}

fn numbers(log: &Log, node: NodeId, from: NodeId) -> Vec<u64> {
    log.parcels(node, from).iter().map(|&(_, number)| number).collect()
}

#[test]
fn what_is_sent_to_a_group_goes_to_those_who_have_joined_and_not_to_its_sender() {
    for multicast in [Multicast::Native, Multicast::FanOut] {
        let mut sim = sim_on(NetworkConfig { multicast, ..NetworkConfig::default() });
        let set = Order::SetMembership;
        sim.command_at(at(0), A, send_group(0, 1, 100));
        sim.command_at(at(1000), B, set(Membership::Joined));
        sim.command_at(at(1001), A, send_group(1, 1, 100));
        sim.command_at(at(2000), A, set(Membership::Joined));
        sim.command_at(at(2000), C, set(Membership::Joined));
        sim.command_at(at(2001), A, send_group(2, 1, 100));
        sim.command_at(at(3000), B, set(Membership::Left));
        sim.command_at(at(3001), A, send_group(3, 1, 100));
        let (log, _) = run(sim);
        assert_eq!(numbers(&log, B, A), [1, 2], "{multicast:?}");
        assert_eq!(numbers(&log, C, A), [2, 3], "{multicast:?}");
        assert!(numbers(&log, A, A).is_empty(), "{multicast:?}");
    }
}

#[test]
fn multicast_leaves_its_port_once_and_fan_out_once_for_each_receiver() {
    let after = |shape, multicast| {
        let mut sim = joined(NetworkConfig { shape, multicast, ..NetworkConfig::default() });
        sim.command_at(at(10), A, send_group(0, 2, 1000));
        sim.command_at(at(10), A, send(B, Lane::Datagram, 7, 1, 1000));
        let (log, _) = run(sim);
        [B, C].map(|node| log.parcels(node, A).iter().map(|&(when, _)| when).collect::<Vec<_>>())
    };
    let native = [vec![us(1010), us(2010), us(3010)], vec![us(1010), us(2010)]];
    assert_eq!(after(Shape::Star, Multicast::Native), native);
    let fan_out = [vec![us(1010), us(3010), us(5010)], vec![us(2010), us(4010)]];
    assert_eq!(after(Shape::Star, Multicast::FanOut), fan_out);
    for multicast in [Multicast::Native, Multicast::FanOut] {
        assert_eq!(after(Shape::Mesh, multicast), native, "each link is sent on by itself");
    }
}

#[test]
fn what_waits_for_the_port_keeps_its_place_whether_it_is_for_a_group_or_a_node() {
    let mut sim = joined(NetworkConfig::default());
    sim.command_at(at(10), A, send(B, Lane::Stream, 0, 1, 1000));
    sim.command_at(at(20), A, send_group(1, 1, 1000));
    sim.command_at(at(30), A, send(B, Lane::Stream, 2, 1, 1000));
    sim.command_at(at(40), A, send_group(3, 1, 1000));
    let (log, _) = run(sim);
    let expected = [(us(1010), 0), (us(2010), 1), (us(3010), 2), (us(4010), 3)];
    assert_eq!(log.parcels(B, A), expected);
    assert_eq!(log.parcels(C, A), [expected[1], expected[3]]);
}

#[test]
fn each_receiver_of_a_group_has_its_own_loss_and_delay() {
    let lossy = LinkFaults { loss: Loss::Independent(0.2), ..LinkFaults::default() };
    let at_receivers = Loss::Independent(0.2);
    let networks = [
        (NetworkConfig { link: lossy, ..NetworkConfig::default() }, "sim_lost"),
        (
            NetworkConfig { receive_loss: at_receivers, ..NetworkConfig::default() },
            "sim_lost_at_receiver",
        ),
    ];
    for (network, counter) in networks {
        let link = LinkFaults { jitter: us(5000), ..network.link };
        let mut sim = joined(NetworkConfig { link, ..network });
        sim.command_at(at(10), A, send_group(0, 1000, 10));
        let (log, sim) = run(sim);
        let (b, c) = (log.parcels(B, A), log.parcels(C, A));
        assert_eq!(sim.counters().count(counter), 2000 - (b.len() + c.len()) as u64);
        let heard = |parcels: &[(Duration, u64)], number| {
            parcels.iter().find(|parcel| parcel.1 == number).map(|parcel| parcel.0)
        };
        let both: Vec<u64> =
            (0..1000).filter(|&n| heard(&b, n).is_some() && heard(&c, n).is_some()).collect();
        let neither = (0..1000).filter(|&n| heard(&b, n).is_none() && heard(&c, n).is_none());
        let neither = neither.count();
        // 640 and 40 of 1000, if they are independent.
        assert!((590..690).contains(&both.len()), "{counter}: both heard {}", both.len());
        assert!((20..65).contains(&neither), "{counter}: neither heard {neither}");
        let together = both.iter().filter(|&&n| heard(&b, n) == heard(&c, n)).count();
        assert!(together < 10, "{counter}: {together} arrived at the same instant");
    }
}

#[test]
fn losses_at_a_receiver_come_in_bursts_over_all_that_reaches_it() {
    let bursts = Loss::GilbertElliott { good_to_bad: 0.02, bad_to_good: 0.2, bad_loss: 1.0 };
    let mut sim = joined(NetworkConfig { receive_loss: bursts, ..NetworkConfig::default() });
    for turn in 0..2000 {
        let sender = if turn % 2 == 0 { A } else { B };
        sim.command_at(at(10 + 10 * turn), sender, send_group(turn, 1, 10));
    }
    let (log, _) = run(sim);
    let heard: std::collections::BTreeSet<u64> =
        numbers(&log, C, A).into_iter().chain(numbers(&log, C, B)).collect();
    let lost: Vec<u64> = (0..2000).filter(|turn| !heard.contains(turn)).collect();
    let runs = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let mean = lost.len() as f64 / runs as f64;
    assert!((3.5..6.5).contains(&mean), "{} lost in {runs} runs", lost.len());
}

#[test]
fn a_crash_leaves_every_group() {
    let mut sim = joined(NetworkConfig::default());
    sim.fault_at(at(10), Fault::Crash(B));
    sim.fault_at(at(20), Fault::Restart(B));
    sim.command_at(at(30), A, send_group(0, 1, 100));
    sim.command_at(at(1000), B, Order::SetMembership(Membership::Joined));
    sim.command_at(at(1010), A, send_group(1, 1, 100));
    let (log, _) = run(sim);
    assert_eq!(numbers(&log, B, A), [1]);
    assert_eq!(numbers(&log, C, A), [0, 1]);
}

#[test]
fn a_group_is_cut_by_a_partition_like_any_pair() {
    for multicast in [Multicast::Native, Multicast::FanOut] {
        let mut sim = joined(NetworkConfig { multicast, ..NetworkConfig::default() });
        sim.fault_at(at(5), Fault::Partition(vec![vec![A, B], vec![C]]));
        sim.command_at(at(10), A, send_group(0, 1, 100));
        sim.fault_at(at(1000), Fault::Heal);
        sim.command_at(at(1010), A, send_group(1, 1, 100));
        let (log, sim) = run(sim);
        assert_eq!((numbers(&log, B, A), numbers(&log, C, A)), (vec![0, 1], vec![1]));
        assert_eq!(sim.counters().count("sim_partitioned"), 1, "{multicast:?}");
    }
}

#[test]
fn a_parcel_too_long_for_a_datagram_reaches_nobody() {
    let mut sim = joined(NetworkConfig::default());
    sim.command_at(at(10), A, send_group(0, 1, 1201));
    let (log, sim) = run(sim);
    assert!(numbers(&log, B, A).is_empty());
    assert_eq!(sim.counters().count("sim_datagram_oversized"), 1);
}

#[test]
fn a_trace_shows_who_joined_and_what_was_sent_to_a_group() {
    let mut rows = Vec::new();
    let mut trace = Trace::new(&mut rows);
    let mut sim = joined(NetworkConfig::default());
    sim.command_at(at(10), A, send_group(4, 1, 100));
    sim.run_until(Instant::MAX, &mut trace);
    trace.finish().expect("no errors");
    let rows = String::from_utf8(rows).expect("text");
    assert!(rows.contains("0,1,join,g9,\"\"\n"), "{rows}");
    assert!(rows.contains("10000,0,send-group,g9,\"parcel 4\"\n"), "{rows}");
    assert!(rows.contains("110000,2,receive,0,\"parcel 4\"\n"), "{rows}");
}
