//! Congestion control: one sender and one receiver by hand.

use super::*;
use crate::core::{Wire, encode_to_bytes};

fn tfmcc(members: u32) -> Config {
    Config { heartbeat_after: None, ..published(members) }
        .with_rate_control(RateControl::Tfmcc)
        .with_keep(ms(100))
}

/// The Pulses among what was sent to groups since the last call.
fn pulses(bench: &mut Bench) -> Vec<Pulse> {
    let pulse = |(_, message)| match message {
        Message::Pulse(pulse) => Some(pulse),
        _ => None,
    };
    bench.outbox.group_sends.drain(..).filter_map(pulse).collect()
}

/// The reports that were sent since the last call.
fn reports(bench: &mut Bench) -> Vec<Report> {
    let report = |(to, message)| match message {
        Message::Report(report) => {
            assert_eq!(to, NodeId(1));
            Some(report)
        }
        _ => None,
    };
    bench.messages().into_iter().filter_map(report).collect()
}

/// A report of a receiver to this sender, about its last Pulse, 1 ms after it came.
fn answer(bench: &Bench, pulse: &Pulse) -> Report {
    let elapsed = (bench.now.as_nanos() / 1_000) as u32 - pulse.stamp_us;
    Report {
        group: G,
        incarnation: INCARNATION,
        stamp_us: pulse.stamp_us,
        held_us: elapsed.saturating_sub(1_000),
        round: pulse.round,
        loss: 0,
        received: 1_000_000,
        wanted: 2_000_000,
        is_lossless: true,
        is_followed: false,
    }
}

/// Sends packets of 500 bytes, one each 5 ms, and has each receiver answer the Pulses as `report`
/// changes it. Returns the last Pulse.
fn run(
    bench: &mut Bench,
    millis: u64,
    mut report: impl FnMut(u32, Report) -> Option<Report>,
) -> Pulse {
    let members = bench.config.roster().len() as u32;
    let mut last = None;
    for _ in 0..millis.div_ceil(5) {
        bench.command(Command::multicast(Payload::Zeros(500)));
        bench.pass(ms(5));
        for pulse in pulses(bench) {
            for node in 1..members {
                let answer = answer(bench, &pulse);
                if let Some(report) = report(node, answer) {
                    bench.message(node, Message::Report(report));
                }
            }
            last = Some(pulse);
        }
    }
    last.expect("there were Pulses")
}

/// What a receiver reports that has lost this share, and receives this rate.
fn lossy(report: Report, loss: f64, received: u32) -> Report {
    let loss = (loss * f64::from(u32::MAX)) as u32;
    Report { loss, received, is_lossless: false, ..report }
}

fn allowed(bench: &Bench) -> u32 {
    bench.node.allowed_rate(G).expect("there were packets")
}

fn pulse(from: u32, next: u64, round: u32) -> Pulse {
    Pulse {
        group: G,
        incarnation: 100 + u64::from(from),
        view: ViewId(0),
        stamp_us: 77,
        next,
        round,
        allowed: 1_000_000,
        round_trip_max_us: 20_000,
        limiting: NO_RANK,
        is_slow_start: false,
        suppression: u32::MAX,
        round_trips: RoundTripsBuilder::default().build(std::iter::empty()),
    }
}

#[test]
fn with_a_fixed_rate_there_is_no_pulse_and_no_state() {
    let mut bench = Bench::new(published(4));
    bench.command(Command::multicast(Payload::Zeros(20_000)));
    bench.send("packet");
    bench.pass(ms(500));
    assert!(pulses(&mut bench).is_empty());
    assert_eq!((bench.node.allowed_rate(G), bench.count("slingshot_pulses")), (None, 0));
    // What was not asked for is dropped.
    let report = answer(&bench, &pulse(0, 0, 0));
    bench.message(1, Message::Report(report));
    assert_eq!(bench.count("slingshot_report_unasked"), 1);
}

#[test]
fn packets_of_one_packet_are_paced_too_and_an_idle_sender_is_silent() {
    let mut bench = Bench::new(tfmcc(4));
    (0..10).for_each(|_| bench.command(Command::multicast(Payload::Zeros(475))));
    // 500 bytes in 100 ms, and one Pulse each 100 ms.
    let sent = bench.outbox.group_sends.len();
    assert_eq!((sent, bench.node.queued().0), (2, 9), "a Pulse, and the first packet");
    assert_eq!(allowed(&bench), 5_000);
    bench.pass(ms(2_000));
    assert_eq!(bench.node.queued(), (0, 0));
    let sent = pulses(&mut bench);
    assert!((7..=10).contains(&sent.len()), "{}", sent.len());
    assert!(sent.iter().all(|pulse| pulse.is_slow_start && pulse.limiting == NO_RANK));
    bench.pass(ms(10_000));
    assert!(bench.outbox.group_sends.is_empty() && bench.outbox.timers.is_empty());
}

#[test]
fn a_sender_alone_in_its_group_is_not_limited() {
    let mut bench = Bench::new(tfmcc(1));
    (0..20).for_each(|_| bench.command(Command::multicast(Payload::Zeros(475))));
    assert_eq!((bench.node.queued().0, bench.count("slingshot_pulses")), (0, 0));
    assert_eq!(bench.node.allowed_rate(G), None);
}

#[test]
fn slow_start_doubles_what_the_slowest_receives_until_the_first_loss() {
    let mut bench = Bench::new(tfmcc(4));
    let rate = |node: u32| 400_000 + 100_000 * node;
    run(&mut bench, 20, |node, report| Some(Report { received: rate(node), ..report }));
    assert_eq!(allowed(&bench), 438_000, "the initial window in a round trip of 10 ms");
    run(&mut bench, 200, |node, report| Some(Report { received: rate(node), ..report }));
    assert_eq!(allowed(&bench), 1_000_000);
    assert_eq!(bench.node.limiting_receiver(G), Some(NodeId(1)));
    // Loss: the rate is what the equation gives, and falls at once.
    let last = run(&mut bench, 50, |node, report| {
        Some(if node == 3 { lossy(report, 0.01, 700_000) } else { report })
    });
    assert!(!last.is_slow_start && last.limiting == 3);
    let expected = 525.0 / 0.01 * 11.233;
    assert!((f64::from(allowed(&bench)) / expected - 1.0).abs() < 0.01, "{}", allowed(&bench));
}

#[test]
fn the_rate_rises_by_one_packet_a_round_trip_and_falls_at_once() {
    let mut bench = Bench::new(tfmcc(3));
    run(&mut bench, 100, |_, report| Some(lossy(report, 0.02, 300_000)));
    let low = allowed(&bench);
    run(&mut bench, 100, |_, report| Some(lossy(report, 0.002, 300_000)));
    let raised = f64::from(allowed(&bench) - low);
    // 100 ms are ten round trips of 10 ms: ten times a packet in 10 ms.
    assert!((raised / 525_000.0 - 1.0).abs() < 0.15, "{raised}");
    run(&mut bench, 10, |_, report| Some(lossy(report, 0.02, 300_000)));
    assert_eq!(allowed(&bench), low);
}

#[test]
fn who_leaves_or_falls_silent_limits_no_longer() {
    for leaves in [true, false] {
        let mut bench = Bench::new(tfmcc(4));
        let limited =
            |node, report| Some(lossy(report, if node == 2 { 0.05 } else { 0.001 }, 300_000));
        run(&mut bench, 100, limited);
        assert_eq!(bench.node.limiting_receiver(G), Some(NodeId(2)));
        let low = allowed(&bench);
        if leaves {
            bench.view(1, &[(0, INCARNATION), (1, 101), (3, 103)]);
            assert_ne!(bench.node.limiting_receiver(G), Some(NodeId(2)));
        }
        run(&mut bench, 300, |node, report| limited(node, report).filter(|_| node != 2));
        assert_ne!(bench.node.limiting_receiver(G), Some(NodeId(2)), "{leaves}");
        assert!(allowed(&bench) > 3 * low, "{leaves}: {low} {}", allowed(&bench));
    }
}

#[test]
fn without_any_report_the_rate_falls_to_a_packet_a_second_and_no_further() {
    let mut bench = Bench::new(tfmcc(4));
    run(&mut bench, 200, |_, report| Some(lossy(report, 0.001, 300_000)));
    let before = allowed(&bench);
    (0..3).for_each(|_| bench.command(Command::multicast(Payload::Zeros(1_000_000))));
    run(&mut bench, 600, |_, _| None);
    assert!(allowed(&bench) < before, "{before} {}", allowed(&bench));
    bench.pass(ms(300_000));
    assert!((1_000..1_250).contains(&allowed(&bench)), "{}", allowed(&bench));
}

#[test]
fn after_silence_a_sender_begins_again_at_the_initial_window() {
    let mut bench = Bench::new(tfmcc(4));
    run(&mut bench, 300, |_, report| Some(lossy(report, 0.000_1, 300_000)));
    let before = allowed(&bench);
    bench.pass(ms(2_500));
    run(&mut bench, 5, |_, _| None);
    assert_eq!(allowed(&bench), before / 4, "halved twice");
    bench.pass(ms(60_000));
    run(&mut bench, 5, |_, _| None);
    assert_eq!(allowed(&bench), 438_000);
}

#[test]
fn a_receiver_that_wants_too_little_is_named_and_not_followed_until_it_wants_more() {
    let mut bench = Bench::new(tfmcc(4).with_rate_min(Some(50_000)));
    run(&mut bench, 400, |node, report| {
        Some(lossy(report, if node == 2 { 0.5 } else { 0.001 }, 300_000))
    });
    let told: Vec<String> =
        bench.told().into_iter().filter(|line| line.contains("is slow")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("n2 of g0 is slow: "), "{told:?}");
    assert_eq!(bench.count("slingshot_slow_receivers"), 1);
    assert!(allowed(&bench) > 500_000, "{}", allowed(&bench));
    run(&mut bench, 400, |_, report| Some(lossy(report, 0.01, 300_000)));
    assert_eq!(bench.count("slingshot_followed_again"), 1);
    assert!(allowed(&bench) < 600_000, "{}", allowed(&bench));
}

#[test]
fn the_fastest_or_tagged_receivers_can_be_followed() {
    let losses = |node| [0.0, 0.02, 0.005, 0.05][node as usize];
    for (follow, limiting) in [(Follow::Slowest, 3), (Follow::Fastest, 2), (Follow::Tagged, 1)] {
        let mut bench = Bench::new(tfmcc(4).with_follow(follow).with_rate_min(Some(10_000)));
        run(&mut bench, 400, |node, report| {
            Some(Report { is_followed: node == 1, ..lossy(report, losses(node), 300_000) })
        });
        assert_eq!(bench.node.limiting_receiver(G), Some(NodeId(limiting)), "{follow:?}");
    }
    // While none is tagged, the rate is the least.
    let mut bench = Bench::new(tfmcc(4).with_follow(Follow::Tagged));
    run(&mut bench, 400, |_, report| Some(lossy(report, 0.001, 300_000)));
    assert_eq!(allowed(&bench), 5_250, "what it began with");
}

#[test]
fn one_rogue_receiver_cannot_stop_a_sender() {
    type Lie = fn(u32, Report) -> Report;
    let lies: [Lie; 5] = [
        |_, report| lossy(report, 1.0, 0),
        |_, report| Report { received: 0, wanted: 1, ..report },
        |_, report| Report { held_us: 0, ..lossy(report, 0.9, 1) },
        |round, report| lossy(report, if round % 6 < 3 { 1.0 } else { 1e-6 }, 0),
        |_, report| Report { is_followed: true, ..lossy(report, 1.0, u32::MAX) },
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let mut bench = Bench::new(tfmcc(4).with_rate_min(Some(100_000)));
        for _ in 0..40 {
            run(&mut bench, 50, |node, report| {
                Some(if node == 2 { lie(report.round, report) } else { lossy(report, 0.001, 1) })
            });
            assert!(allowed(&bench) >= 100_000, "lie {number}: {}", allowed(&bench));
        }
    }
}

#[test]
fn reports_that_cannot_be_are_counted_and_change_nothing() {
    let mut bench = Bench::new(tfmcc(4));
    let last = run(&mut bench, 100, |_, report| Some(lossy(report, 0.01, 300_000)));
    let (before, good) = (allowed(&bench), lossy(answer(&bench, &last), 0.5, 1));
    let cases: [(&str, Report); 7] = [
        ("slingshot_report_wrong", Report { wanted: 0, ..good }),
        ("slingshot_report_wrong", Report { loss: 0, ..good }),
        ("slingshot_report_wrong", Report { is_lossless: true, ..good }),
        ("slingshot_report_wrong", Report { round: good.round.wrapping_add(1), ..good }),
        ("slingshot_report_wrong", Report { stamp_us: good.stamp_us + 1_000_000, ..good }),
        ("slingshot_report_wrong", Report { held_us: 60_000_000, ..good }),
        ("slingshot_other_incarnation", Report { incarnation: 8, ..good }),
    ];
    for (counter, report) in cases {
        let counted = bench.count(counter);
        bench.message(2, Message::Report(report));
        assert_eq!(bench.count(counter), counted + 1, "{report:?}");
        assert_eq!(allowed(&bench), before, "{report:?}");
    }
    bench.message(9, Message::Report(good));
    assert_eq!(bench.count("slingshot_foreign_sender"), 1);
    bench.message(2, Message::Report(Report { group: GroupId(5), ..good }));
    assert_eq!((bench.count("slingshot_foreign_group"), allowed(&bench)), (1, before));
    bench.message(2, Message::Report(good));
    assert!(allowed(&bench) < before, "it is sound");
}

#[test]
fn a_receiver_of_a_small_group_reports_once_a_round_and_the_limiting_one_each_pulse() {
    let mut bench = Bench::new(published(4));
    for round in 0..3 {
        (0..4).for_each(|_| bench.message(1, Message::Pulse(pulse(1, 0, round))));
        assert_eq!(reports(&mut bench).len(), 1, "round {round}");
    }
    (0..4).for_each(|_| bench.message(1, Message::Pulse(Pulse { limiting: 0, ..pulse(1, 0, 2) })));
    let sent = reports(&mut bench);
    assert_eq!(sent.len(), 4);
    let expected = (101, 77, 2, true, 0);
    let Report { incarnation, stamp_us, round, is_lossless, held_us, .. } = sent[0];
    assert_eq!((incarnation, stamp_us, round, is_lossless, held_us), expected);
    // One of an earlier round came late.
    bench.message(1, Message::Pulse(Pulse { limiting: 0, ..pulse(1, 0, 1) }));
    assert!(reports(&mut bench).is_empty());
}

#[test]
fn a_receiver_of_a_large_group_waits_and_is_silent_once_a_lower_rate_is_announced() {
    let mut waited = Vec::new();
    for round in 0..40 {
        let mut bench = Bench::new(published(17));
        bench.rng = Rng::new(round.into(), 1);
        bench.message(1, Message::Pulse(pulse(1, 0, round)));
        assert!(reports(&mut bench).is_empty(), "it waits");
        let until = bench.now + ms(120);
        bench.pass(ms(120));
        let sent = reports(&mut bench);
        assert_eq!(sent.len(), 1, "within six round trips of 20 ms");
        assert!(sent[0].held_us <= 120_000 && bench.now == until);
        waited.push(sent[0].held_us);
        // Nothing more in this round, and in the next one it is suppressed.
        bench.message(1, Message::Pulse(pulse(1, 0, round)));
        bench.message(1, Message::Pulse(Pulse { suppression: 1, ..pulse(1, 0, round + 1) }));
        bench.pass(ms(500));
        assert!(reports(&mut bench).is_empty());
        bench.message(1, Message::Pulse(pulse(1, 0, round + 2)));
        bench.message(1, Message::Pulse(Pulse { suppression: 1, ..pulse(1, 0, round + 2) }));
        bench.pass(ms(500));
        assert!(reports(&mut bench).is_empty(), "cancelled");
    }
    waited.sort_unstable();
    assert!(waited[0] + 20_000 < waited[39], "{waited:?}");
}

#[test]
fn what_a_repair_brought_is_lost_and_what_was_overtaken_is_not() {
    let mut bench = Bench::new(published(4));
    bench.message(1, Message::Pulse(pulse(1, 0, 0)));
    bench.data(2, 0);
    for seq in 0..40 {
        bench.now += ms(1);
        if seq == 30 {
            // A repair is faster than the packet itself.
            bench.repair(3, &[(1, 30), (2, 0)]);
        }
        bench.data(1, seq);
    }
    reports(&mut bench);
    bench.message(1, Message::Pulse(pulse(1, 40, 1)));
    let report = reports(&mut bench)[0];
    assert!(report.is_lossless && report.loss == 0 && report.received > 0);
    assert_eq!(bench.count("slingshot_overtaken"), 1);
    // Only a repair brings the other one.
    let mut bench = Bench::new(published(4));
    bench.message(1, Message::Pulse(pulse(1, 0, 0)));
    bench.data(2, 0);
    for seq in (0..40).filter(|&seq| seq != 20) {
        bench.now += ms(1);
        bench.data(1, seq);
    }
    bench.repair(3, &[(1, 20), (2, 0)]);
    assert!(bench.told().iter().any(|line| line.starts_with("g0/n1.20 recovered")));
    reports(&mut bench);
    bench.message(1, Message::Pulse(pulse(1, 40, 1)));
    let report = reports(&mut bench)[0];
    assert!(!report.is_lossless && report.loss > 0 && report.wanted > 0, "it was lost");
}

#[test]
fn pulses_that_cannot_be_are_counted_and_leave_no_trace() {
    let mut bench = Bench::new(published(4));
    let times = |times: &[(u16, u32)]| RoundTripsBuilder::default().build(times.iter().copied());
    let good = || pulse(1, 0, 0);
    let cases: [(&str, u32, Pulse); 7] = [
        ("slingshot_pulse_wrong", 1, Pulse { limiting: 4, ..good() }),
        ("slingshot_pulse_wrong", 1, Pulse { round_trips: times(&[(4, 10)]), ..good() }),
        ("slingshot_pulse_wrong", 1, Pulse { round_trips: times(&[(2, 0)]), ..good() }),
        ("slingshot_pulse_wrong", 1, Pulse { round_trips: times(&[(2, u32::MAX)]), ..good() }),
        ("slingshot_foreign_view", 1, Pulse { view: ViewId(3), ..good() }),
        ("slingshot_foreign_group", 1, Pulse { group: GroupId(3), ..good() }),
        ("slingshot_foreign_sender", 7, good()),
    ];
    for (counter, from, pulse) in cases {
        let counted = bench.count(counter);
        bench.message(from, Message::Pulse(pulse));
        assert_eq!(bench.count(counter), counted + 1, "{counter}");
        assert_eq!((bench.node.flows(), reports(&mut bench).len()), (0, 0), "{counter}");
    }
    bench.view(1, &[(0, INCARNATION), (1, 101), (2, 102)]);
    bench.message(1, Message::Pulse(Pulse { incarnation: 55, view: ViewId(1), ..good() }));
    assert_eq!(bench.count("slingshot_other_incarnation"), 1);
    bench.message(1, Message::Pulse(Pulse { view: ViewId(1), ..good() }));
    assert_eq!((bench.node.flows(), reports(&mut bench).len()), (1, 1));
}

#[test]
fn a_pulse_is_bounded_and_fits_the_datagram() {
    let mut builder = RoundTripsBuilder::default();
    let many = builder.build((0..100).map(|rank| (rank, 1 + u32::from(rank))));
    assert_eq!(many.iter().len(), 16);
    let message = Message::Pulse(Pulse { round_trips: many, ..pulse(1, 0, 0) });
    assert_eq!((message.wire_len(), encode_to_bytes(&message).len()), (155, 155));
    assert!(size_of::<Message>() <= 136, "{}", size_of::<Message>());
}

/// What is held is judged by the rate that is reached: the allowed one may be far above it.
#[test]
fn a_sender_that_its_host_holds_up_does_not_fill_the_host() {
    let mut bench = Bench::new(tfmcc(2).with_message_bytes_per_second(100_000_000));
    let received = |report: Report, loss| lossy(report, loss, 50_000);
    run(&mut bench, 500, |_, report| Some(received(report, 0.01)));
    run(&mut bench, 20_000, |_, report| Some(received(report, 1e-6)));
    assert!(allowed(&bench) > 1_000_000, "{}", allowed(&bench));
    let sent = |bench: &mut Bench, held| {
        bench.held = held;
        bench.outbox.group_sends.clear();
        bench.command(Command::multicast(Payload::Zeros(475)));
        bench.pass(ms(5));
        bench.outbox.group_sends.iter().any(|(_, message)| matches!(message, Message::Data(_)))
    };
    // Twice 50,000 bytes a second for 2 ms, and a packet of 500.
    assert!(!sent(&mut bench, 701) && !sent(&mut bench, 100_000));
    assert!(sent(&mut bench, 700));
}
