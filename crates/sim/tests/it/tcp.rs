//! Streams that behave as TCP behind ports that drop, seen by a protocol that only sends.

use crate::post;

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, Lane, LinkFaults, Loss, NodeId, PeerState};
use paceline_sim::{
    Congestion, Fault, FaultSupport, NetworkConfig, Sim, SimConfig, Streams, TcpConfig,
};
use post::{A, B, C, Heard, Log, Order, Post, send};

const CONGESTION: [Congestion; 2] = [Congestion::Reno, Congestion::Cubic];

/// Payload bytes of a segment, and the nanoseconds that a full one takes at 1 Gbit/s.
const MSS: usize = 1448;
const SEGMENT_NANOS: u64 = 1538 * 8;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// Four nodes on 1 Gbit ports that each buffer this many bytes.
fn sim(port_bytes_max: u64, congestion: Congestion, link: LinkFaults) -> Sim<'static, Post> {
    seeded(port_bytes_max, congestion, link, 7)
}

fn seeded(
    port_bytes_max: u64,
    congestion: Congestion,
    link: LinkFaults,
    seed: u64,
) -> Sim<'static, Post> {
    let mut config = SimConfig::new(4, seed);
    config.network = NetworkConfig {
        rate_bits_per_second: Some(1_000_000_000),
        streams: Streams::Tcp(TcpConfig { port_bytes_max, congestion }),
        link,
        ..NetworkConfig::default()
    };
    config.faults = FaultSupport::Any;
    Sim::new(config, Arc::new(()), |_| Post)
}

fn run(mut sim: Sim<Post>) -> (Log, Sim<Post>) {
    let mut log = Log::default();
    sim.run_until(Instant::ZERO + Duration::from_secs(600), &mut log);
    (log, sim)
}

fn numbers(log: &Log, node: NodeId, from: NodeId) -> Vec<u64> {
    log.parcels(node, from).iter().map(|&(_, number)| number).collect()
}

/// Fast retransmits, time-outs, segments sent again.
fn recoveries(sim: &Sim<Post>) -> [u64; 3] {
    ["sim_tcp_fast_retransmits", "sim_tcp_time_outs", "sim_tcp_resent"]
        .map(|name| sim.counters().count(name))
}

#[test]
fn every_parcel_arrives_once_and_in_order_whatever_the_link_does_to_packets() {
    let link = LinkFaults {
        delay: ms(1),
        jitter: ms(3),
        loss: Loss::Independent(0.05),
        duplicate: 0.1,
        reorder: 0.1,
        ..LinkFaults::default()
    };
    for congestion in CONGESTION {
        for seed in 0..5 {
            let mut sim = seeded(20_000, congestion, link, seed);
            for burst in 0..20 {
                let bytes = [8, 100, MSS, 9000, 70_000][burst as usize % 5];
                sim.command_at(at(burst * 7), A, send(C, Lane::Stream, burst * 10, 10, bytes));
                sim.command_at(at(burst * 5), B, send(C, Lane::Stream, burst * 10, 10, bytes));
                sim.command_at(at(burst * 5), C, send(A, Lane::Stream, burst * 10, 10, bytes));
            }
            let (log, sim) = run(sim);
            for (node, from) in [(C, A), (C, B), (A, C)] {
                let expected: Vec<u64> = (0..200).collect();
                assert_eq!(numbers(&log, node, from), expected, "{congestion:?}, seed {seed}");
            }
            let [fast, time_outs, resent] = recoveries(&sim);
            assert!(fast > 0 && time_outs > 0 && resent > fast, "nothing was recovered");
            assert!(sim.counters().count("sim_lost") > 0);
            assert_eq!(sim.events_pending(), 0, "a timer runs on");
        }
    }
}

#[test]
fn a_stream_alone_fills_its_link_and_loses_nothing() {
    for congestion in CONGESTION {
        let mut sim = sim(64 << 10, congestion, LinkFaults::default());
        let parcels = 10_000;
        sim.command_at(at(0), A, send(B, Lane::Stream, 0, parcels, MSS));
        let (log, sim) = run(sim);
        let took = log.parcels(B, A).last().expect("all arrive").0;
        let least = Duration::from_nanos(parcels * SEGMENT_NANOS);
        assert!(took >= least && took < least + ms(1), "{took:?} against {least:?}");
        assert_eq!(recoveries(&sim), [0; 3]);
    }
}

#[test]
fn slow_start_doubles_what_a_long_path_carries_each_round_trip() {
    let link = LinkFaults { delay: ms(10), ..LinkFaults::default() };
    let mut sim = sim(1 << 20, Congestion::Reno, link);
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 310, MSS));
    let (log, _) = run(sim);
    let rounds: Vec<usize> = (0..5u64)
        .map(|round| {
            let from = ms(10 + 20 * round);
            let arrived = log.parcels(B, A);
            arrived.iter().filter(|(when, _)| (from..from + ms(20)).contains(when)).count()
        })
        .collect();
    assert_eq!(rounds, [10, 20, 40, 80, 160]);
}

/// Cuts the way from A to B for one segment at this time.
fn cut_one(sim: &mut Sim<Post>, at_nanos: u64) {
    let instant = |nanos| Instant::ZERO + Duration::from_nanos(nanos);
    sim.fault_at(instant(at_nanos), Fault::Block(A, B));
    sim.fault_at(instant(at_nanos + SEGMENT_NANOS - 1), Fault::Heal);
}

#[test]
fn a_segment_lost_in_the_middle_is_sent_again_without_a_time_out() {
    for congestion in CONGESTION {
        let mut sim = sim(1 << 20, congestion, LinkFaults::default());
        sim.command_at(at(0), A, send(B, Lane::Stream, 0, 100, MSS));
        cut_one(&mut sim, 40 * SEGMENT_NANOS - 100);
        let (log, sim) = run(sim);
        assert_eq!(numbers(&log, B, A), (0..100).collect::<Vec<_>>());
        assert_eq!(recoveries(&sim), [1, 0, 1], "{congestion:?}");
        assert!(log.parcels(B, A)[99].0 < ms(3), "{congestion:?}");
    }
}

#[test]
fn a_lost_tail_waits_for_the_time_out_of_200_ms() {
    let mut sim = sim(1 << 20, Congestion::Cubic, LinkFaults::default());
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 21, MSS));
    cut_one(&mut sim, 20 * SEGMENT_NANOS - 100);
    let (log, sim) = run(sim);
    assert_eq!(recoveries(&sim), [0, 1, 1]);
    let [.., (before, 19), (last, 20)] = log.parcels(B, A)[..] else { panic!("{:?}", log.0) };
    assert!(before < ms(1), "{before:?}");
    assert!((ms(200)..ms(203)).contains(&last), "{last:?}");
}

#[test]
fn time_outs_double_while_nothing_passes() {
    let mut sim = sim(1 << 20, Congestion::Cubic, LinkFaults::default());
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 2, MSS));
    sim.fault_at(at(900_000), Fault::Block(A, B));
    sim.command_at(at(1_000_000), A, send(B, Lane::Stream, 2, 1, MSS));
    sim.fault_at(at(3_900_000), Fault::Heal);
    let (log, sim) = run(sim);
    // 0.2 + 0.4 + 0.8 + 1.6 s after it was sent.
    let arrived = log.parcels(B, A)[2].0;
    assert!((ms(4000)..ms(4005)).contains(&arrived), "{arrived:?}");
    assert_eq!(recoveries(&sim), [0, 4, 4]);
}

#[test]
fn two_streams_into_one_shallow_port_lose_and_share_it() {
    for congestion in CONGESTION {
        for seed in 0..4 {
            let mut sim = seeded(64 << 10, congestion, LinkFaults::default(), seed);
            for sender in [A, B] {
                sim.command_at(at(0), sender, send(C, Lane::Stream, 0, 200_000, MSS));
            }
            let mut log = Log::default();
            sim.run_until(at(3_000_000), &mut log);
            let count = |from| numbers(&log, C, from).len() as f64;
            let (a, b) = (count(A), count(B));
            let most = 3e9 / SEGMENT_NANOS as f64;
            assert!(a.max(b) / a.min(b) < 1.35, "{congestion:?}, seed {seed}: {a} and {b}");
            assert!(a + b > 0.95 * most && a + b <= most, "{congestion:?}: {} of {most}", a + b);
            assert!(sim.counters().count("sim_port_full") > 0);
            let [fast, time_outs, _] = recoveries(&sim);
            assert!(fast > 100 && time_outs < 5, "{congestion:?}: {fast} and {time_outs}");
        }
    }
}

#[test]
fn a_port_that_holds_all_that_comes_drops_nothing() {
    let mut sim = sim(8 << 20, Congestion::Cubic, LinkFaults::default());
    for sender in [A, B] {
        sim.command_at(at(0), sender, send(C, Lane::Stream, 0, 1000, MSS));
    }
    let (_, sim) = run(sim);
    assert_eq!((sim.counters().count("sim_port_full"), recoveries(&sim)), (0, [0; 3]));
}

#[test]
fn a_datagram_waits_for_a_burst_of_the_stream_and_not_for_the_whole_stream() {
    let mut sim = sim(1 << 20, Congestion::Cubic, LinkFaults::default());
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 1000, MSS));
    sim.command_at(at(1000), A, send(C, Lane::Datagram, 0, 1, 1000));
    let (log, _) = run(sim);
    let arrived = log.parcels(C, A)[0].0;
    // 64 KiB are 46 segments.
    let most = Duration::from_nanos(1_000_000 + 47 * SEGMENT_NANOS);
    assert!(arrived < most, "{arrived:?}");
}

#[test]
fn a_full_port_drops_datagrams_too() {
    let mut sim = sim(4096, Congestion::Cubic, LinkFaults::default());
    for sender in [A, B] {
        sim.command_at(at(0), sender, send(C, Lane::Datagram, 0, 20, 1000));
    }
    let (log, sim) = run(sim);
    let arrived = numbers(&log, C, A).len() + numbers(&log, C, B).len();
    assert_eq!(sim.counters().count("sim_port_full"), 40 - arrived as u64);
    assert!((20..30).contains(&arrived), "half of what two ports send, and the buffer: {arrived}");
}

#[test]
fn a_node_hears_when_little_of_its_stream_is_unsent() {
    let mut sim = sim(1 << 20, Congestion::Cubic, LinkFaults::default());
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 100, MSS));
    sim.command_at(at(1), A, Order::Watch { to: B, below_bytes: 10 * MSS });
    let (log, _) = run(sim);
    let [(when, backlog_bytes)] = log.drained()[..] else { panic!("{:?}", log.drained()) };
    assert_eq!(backlog_bytes, 9 * MSS);
    assert!(when >= Duration::from_nanos(90 * SEGMENT_NANOS), "{when:?}");
}

#[test]
fn a_reset_loses_a_suffix_and_what_is_sent_afterwards_begins_anew() {
    let mut sim = sim(1 << 20, Congestion::Cubic, LinkFaults::default());
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 100, MSS));
    sim.fault_at(at(500), Fault::Reset(A, B, ms(1)));
    sim.command_at(at(600), A, send(B, Lane::Stream, 500, 1, 100));
    sim.command_at(at(2000), A, send(B, Lane::Stream, 600, 3, 9000));
    let (log, sim) = run(sim);
    let mut heard = numbers(&log, B, A);
    assert_eq!(heard.split_off(heard.len() - 3), [600, 601, 602]);
    assert!(!heard.is_empty() && heard.len() < 60);
    assert_eq!(heard, (0..heard.len() as u64).collect::<Vec<_>>());
    assert_eq!(sim.counters().count("sim_sent_while_down"), 1);
    let told = log.0.iter().filter(|(_, node, heard)| {
        *node == A && matches!(heard, Heard::Peer { peer: B, state: PeerState::Down })
    });
    assert_eq!(told.count(), 1);
}

#[test]
fn a_crash_cuts_off_what_was_sent_and_a_restart_is_heard() {
    let mut sim = sim(1 << 20, Congestion::Cubic, LinkFaults::default());
    sim.command_at(at(0), A, send(B, Lane::Stream, 0, 100, MSS));
    sim.fault_at(at(500), Fault::Crash(A));
    sim.fault_at(at(10_000), Fault::Restart(A));
    sim.command_at(at(20_000), A, send(B, Lane::Stream, 900, 5, 3000));
    let (log, sim) = run(sim);
    let mut heard = numbers(&log, B, A);
    assert_eq!(heard.split_off(heard.len() - 5), [900, 901, 902, 903, 904]);
    assert!(heard.len() < 60, "{}", heard.len());
    assert_eq!(sim.events_pending(), 0);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let digest = |seed| {
        let mut sim = seeded(16 << 10, Congestion::Cubic, LinkFaults::default(), seed);
        for sender in [A, B] {
            sim.command_at(at(0), sender, send(C, Lane::Stream, 0, 2000, MSS));
        }
        run(sim).1.digest().to_string()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}
