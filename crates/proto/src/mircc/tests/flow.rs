//! A consumer's flow: when its Interests leave, and by which path.

use super::*;
use crate::core::Wire;

/// A consumer whose neighbour 1 leads to all names.
fn consumer() -> Bench {
    Bench::new(Config::default(), &[(1, FaceConfig::default(), &["/"])])
}

fn fetch(multipath: Multipath) -> Fetch {
    Fetch { segments: Some(10_000), multipath, ..Fetch::new(1, name("/o")) }
}

/// A Data that came by the path 500, with these stamps.
fn answer(segment: u64, primary: u64, secondary: u64) -> Packet {
    answer_by(500, segment, primary, secondary)
}

fn answer_by(hop: u16, segment: u64, primary: u64, secondary: u64) -> Packet {
    stamped(labelled(data(&format!("/o/seg={segment}")), &[hop]), primary, secondary)
}

/// The time that a Data takes at `mbit` Mbit/s, ns.
fn gap(packet: &Packet, mbit: u64) -> u64 {
    (packet.wire_len() as u64 + 42) * 8_000 / mbit
}

/// When labelled Interests left, microseconds.
fn labelled_at(departures: &[(u64, String)]) -> Vec<u64> {
    let labelled = departures.iter().filter(|(_, line)| line.ends_with("by 500"));
    labelled.map(|&(micros, _)| micros).collect()
}

#[test]
fn from_the_first_data_on_interests_leave_exactly_at_the_stamped_rate() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(Multipath::Best)));
    assert_eq!(bench.sent(), ["1: ask /o/seg=0"]);
    bench.pass(ms(10));
    bench.from(1, answer(0, 8, 1));
    assert_eq!(bench.told(), ["flow 1: segment 0"]);
    let gap = |mbit| gap(&answer(0, 8, 1), mbit);
    let times = labelled_at(&bench.departures(ms(20)));
    let expected: Vec<u64> = (0..20).map(|step| step * gap(8) / 1_000).collect();
    assert_eq!(times[..17], expected[..17]);
    // A lower stamp holds at once, counted from the last one that left.
    let last = times[times.len() - 1];
    bench.from(1, answer(1, 2, 1));
    let times = labelled_at(&bench.departures(ms(20)));
    let first = last + gap(2) / 1_000 - 20_000;
    assert!(times[0].abs_diff(first) <= 1, "{times:?} {first}");
    assert!((times[1] - times[0]).abs_diff(gap(2) / 1_000) <= 1, "{times:?}");
}

#[test]
fn paths_are_looked_for_more_often_at_first_than_later() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(Multipath::Best)));
    bench.pass(ms(10));
    bench.from(1, answer(0, 1, 1));
    bench.packets();
    let left = bench.departures(ms(90));
    let looked: Vec<u64> = left
        .iter()
        .filter(|(_, line)| !line.contains(" by "))
        .map(|&(micros, _)| micros / 1_000)
        .collect();
    // Each half round trip, eight of them with the two before.
    assert_eq!(looked, [5, 10, 15, 20, 25, 30]);
}

/// When discovery Interests leave a consumer at 8 Mbit/s in two seconds, ms, if the `new`th finds a
/// second path. From the `answered`th on they get no answer.
fn discoveries(new: Option<usize>, answered: usize) -> Vec<u64> {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(Multipath::Best)));
    bench.pass(ms(10));
    bench.from(1, answer(0, 8, 1));
    bench.packets();
    let mut left = Vec::new();
    for step in 0..400 {
        for (_, packet) in bench.packets() {
            let Body::Interest(interest) = &packet.body else { panic!("it asks") };
            let segment = interest.name.segment().expect("of a segment");
            let discovers = packet.header.label.is_empty();
            if discovers {
                left.push(step * 5);
                if left.len() >= answered {
                    continue;
                }
            }
            let is_new = discovers && new == Some(left.len());
            bench.from(1, answer_by(if is_new { 600 } else { 500 }, segment, 8, 1));
        }
        bench.pass(ms(5));
    }
    left
}

#[test]
fn discovery_takes_an_eighth_of_the_rate_until_64_answers_bring_no_new_path() {
    let left = discoveries(Some(12), usize::MAX);
    // The first ones follow each other by half a round trip, and then by 8 x 9.2 kbit at 8 Mbit/s.
    let gaps: Vec<u64> = left.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[10..70].iter().all(|gap| (5..=10).contains(gap)), "{gaps:?}");
    // 64 after the one that found a path, and then one a second.
    assert!((76..=78).contains(&left.len()), "{} {gaps:?}", left.len());
}

#[test]
fn one_path_that_16_discovery_interests_have_not_left_is_the_only_one() {
    let left = discoveries(None, usize::MAX);
    assert!((16..=18).contains(&left.len()), "{left:?}");
}

#[test]
fn discovery_interests_without_an_answer_count_a_quarter() {
    let left = discoveries(None, 9);
    // Eight answers, and 32 without.
    assert!((40..=42).contains(&left.len()), "{} {left:?}", left.len());
}

#[test]
fn the_primary_class_takes_the_best_path_and_the_secondary_each_at_its_own_rate() {
    let counts = |multipath| {
        let mut bench = consumer();
        bench.command(Command::Fetch(fetch(multipath)));
        bench.pass(ms(40));
        bench.from(1, answer_by(500, 0, 8, 1));
        // The first Interest without a label after that is answered by the other path.
        bench.packets();
        bench.pass(ms(1));
        bench.from(1, answer_by(600, 1, 4, 2));
        bench.packets();
        let left = bench.departures(ms(90));
        let count = |end: &str| left.iter().filter(|(_, line)| line.ends_with(end)).count();
        [" secondary by 500", " secondary by 600", " by 500", " by 600"].map(count)
    };
    // In 90 ms, of Data of 9.2 kbit.
    let around = |count: usize, mbit: f64| {
        let expected = mbit * 90.0 / 9.2;
        assert!((count as f64 - expected).abs() <= 2.5, "{count} instead of {expected}");
    };
    let [secondary, other, first, second] = counts(Multipath::Dual);
    around(first - secondary, 8.0);
    around(secondary, 1.0);
    around(other, 2.0);
    assert_eq!(second, other);
    let [secondary, other, first, second] = counts(Multipath::Sum);
    assert_eq!((secondary, other), (0, 0));
    around(first, 8.0);
    around(second, 4.0);
    let [secondary, other, first, second] = counts(Multipath::Best);
    assert_eq!((secondary, other), (0, 0));
    around(first, 8.0);
    assert!(second <= 1, "a probe only: {second}");
}

#[test]
fn paths_are_not_looked_for_with_each_data_while_no_round_trip_is_known() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(Multipath::Best)));
    // A segment that was asked for twice gives no round-trip sample.
    bench.pass(ms(1_100));
    assert_eq!(bench.packets().len(), 2);
    bench.from(1, answer(0, 8, 1));
    bench.packets();
    bench.pass(ms(20));
    let asked = bench.packets();
    assert!(asked.len() > 10 && asked.iter().all(|(_, packet)| !packet.header.label.is_empty()));
    let mut looked = 0;
    for (_, packet) in asked {
        let Body::Interest(interest) = packet.body else { panic!("it asks") };
        let segment = interest.name.segment().expect("of a segment");
        // A refusal first, so that it is asked for once more.
        bench.from(1, nack(&format!("/o/seg={segment}"), interest.nonce, NackReason::Duplicate));
        bench.pass(ms(2));
        bench.from(1, answer(segment, 8, 1));
        let unlabelled = |packet: &Packet| packet.header.label.is_empty();
        looked += bench.packets().iter().filter(|(_, packet)| unlabelled(packet)).count();
    }
    assert!(looked <= 3, "{looked}");
}

#[test]
fn a_flow_that_finds_its_own_table_full_waits_for_an_answer_or_part_of_a_round_trip() {
    let config = Config { pending_max: 4, ..Config::default() };
    let mut bench = Bench::new(config, &[(1, FaceConfig::default(), &["/"])]);
    bench.command(Command::Fetch(fetch(Multipath::Best)));
    bench.pass(ms(40));
    bench.from(1, answer(0, 100, 1));
    bench.packets();
    let refused = |bench: &Bench| bench.count("mircc_refused_full");
    bench.pass(ms(30));
    // At 100 Mbit/s a Data is due each 0.1 ms.
    assert!((1..=8).contains(&refused(&bench)), "{}", refused(&bench));
    assert_eq!(bench.node.pending(), 4);
    bench.packets();
    bench.from(1, answer(1, 100, 1));
    bench.pass(ms(1));
    assert_eq!((bench.packets().len(), bench.node.pending()), (1, 4));
}

#[test]
fn with_a_rate_for_each_path_what_tries_one_is_no_more_than_that() {
    // A Data takes 92 ms, and after 90 ms a path is tried.
    let config = Config { probe_every: ms(90), ..Config::default() };
    let mut bench = Bench::new(config, &[(1, FaceConfig::default(), &["/"])]);
    bench.command(Command::Fetch(fetch(Multipath::Sum)));
    let slow = |hop, segment| {
        let mut packet = answer_by(hop, segment, 1, 1);
        packet.header.stamps.primary_bits_per_second = 100_000;
        packet
    };
    bench.pass(ms(40));
    bench.from(1, slow(500, 0));
    bench.pass(ms(1));
    bench.from(1, slow(600, 1));
    bench.packets();
    let left = bench.departures(ms(920));
    for end in [" by 500", " by 600"] {
        let count = left.iter().filter(|(_, line)| line.ends_with(end)).count();
        assert!((9..=11).contains(&count), "{count}{end}");
    }
}

#[test]
fn only_a_path_that_is_clearly_better_becomes_the_best() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(Multipath::Best)));
    bench.pass(ms(40));
    bench.from(1, answer_by(500, 0, 10, 1));
    bench.pass(ms(2));
    let best = |bench: &Bench| {
        let flow = bench.node.report().flows.remove(0);
        let best = flow.paths.iter().find(|path| path.is_best).expect("there is a best path");
        (best.label.hops().nth(1), flow.counts.switches)
    };
    // Nor at once: others may see the same, and would come along.
    bench.from(1, answer_by(600, 1, 20, 1));
    assert_eq!(best(&bench), (Some(500), 0));
    // For some time both paths bring what was asked for last, with these rates.
    let later = |bench: &mut Bench, first: u64, second: u64| {
        for _ in 0..40 {
            bench.pass(ms(40));
            let asked = bench.packets().into_iter().rev().take(2);
            for ((_, packet), (hop, rate)) in asked.zip([(500, first), (600, second)]) {
                let Body::Interest(interest) = packet.body else { panic!("it asks") };
                let segment = interest.name.segment().expect("of a segment");
                bench.from(1, answer_by(hop, segment, rate, 1));
            }
        }
        best(bench)
    };
    assert_eq!(later(&mut bench, 10, 11), (Some(500), 0));
    assert_eq!(later(&mut bench, 10, 12), (Some(600), 1));
    assert_eq!(later(&mut bench, 13, 12), (Some(600), 1));
}

#[test]
fn what_others_have_on_a_path_is_no_reason_to_move_but_what_they_leave_is() {
    // After these answers of both paths, where path 600 leaves so much for one more: which is best.
    let best = |stamp: u64, join: Option<u64>| {
        let mut bench = consumer();
        bench.command(Command::Fetch(fetch(Multipath::Best)));
        bench.pass(ms(40));
        bench.from(1, answer_by(500, 0, 10, 1));
        for _ in 0..40 {
            bench.pass(ms(40));
            let asked = bench.packets().into_iter().rev().take(2);
            for ((_, packet), (hop, rate)) in asked.zip([(500, 10), (600, stamp)]) {
                let Body::Interest(interest) = packet.body else { panic!("it asks") };
                let segment = interest.name.segment().expect("of a segment");
                let mut packet = answer_by(hop, segment, rate, 1);
                let join = if hop == 600 { join } else { None };
                packet.header.join_rates.push_front(join.map(|mbit| mbit * 1_000_000));
                bench.from(1, packet);
            }
        }
        let flow = bench.node.report().flows.remove(0);
        let best = flow.paths.iter().find(|path| path.is_best).expect("there is a best path");
        best.label.hops().nth(1)
    };
    assert_eq!(best(20, Some(10)), Some(500));
    assert_eq!(best(20, Some(11)), Some(500));
    assert_eq!(best(20, Some(12)), Some(600));
    // Nor is it more than the stamp, and a hop that knows none says nothing.
    assert_eq!(best(10, Some(90)), Some(500));
    assert_eq!(best(20, None), Some(600));
}

#[test]
fn a_path_that_carries_nothing_is_tried_for_a_hundredth_of_its_rate() {
    // When a path with a stamp of `mbit` Mbit/s is first probed, ms after it was found.
    let tried = |mbit| {
        let mut bench = consumer();
        bench.command(Command::Fetch(fetch(Multipath::Best)));
        bench.pass(ms(10));
        bench.from(1, answer_by(500, 0, 20, 1));
        bench.packets();
        bench.pass(ms(1));
        bench.from(1, answer_by(600, 1, mbit, 1));
        bench.packets();
        let left = bench.departures(ms(990));
        left.iter().find(|(_, line)| line.ends_with(" by 600")).map(|&(micros, _)| micros / 1_000)
    };
    // A Data has 9.2 kbit.
    let first = tried(1).expect("it is tried");
    assert!((880..=960).contains(&first), "{first}");
    let second = tried(4).expect("it is tried");
    assert!((220..=240).contains(&second), "{second}");
    // Never more often than each 100 ms.
    let third = tried(19).expect("it is tried");
    assert!((98..=102).contains(&third), "{third}");
}

#[test]
fn a_refusal_lowers_the_rate_and_never_raises_it() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(Multipath::Best)));
    bench.pass(ms(10));
    bench.from(1, answer(0, 8, 2));
    bench.packets();
    bench.pass(ms(5));
    let asked: Vec<Packet> = bench.packets().into_iter().map(|(_, packet)| packet).collect();
    let asked: Vec<&Packet> =
        asked.iter().filter(|packet| !packet.header.label.is_empty()).collect();
    let mut refuse = |packet: &Packet, stamps: Option<(u64, u64)>| {
        let Body::Interest(interest) = &packet.body else { panic!("{packet:?}") };
        let mut refusal = nack(&interest.name.to_string(), interest.nonce, NackReason::Congestion);
        if let Some((primary, secondary)) = stamps {
            refusal = stamped(refusal, primary, secondary);
        }
        bench.from(1, refusal);
        let stamps = bench.node.report().flows[0].paths[0].stamps;
        (stamps.primary_bits_per_second, stamps.secondary_bits_per_second)
    };
    // A forwarder that refuses knows the hops towards this node, not the one behind it.
    assert_eq!(refuse(asked[0], Some((95, 90))), (8_000_000, 2_000_000));
    assert_eq!(refuse(asked[1], Some((5, 90))), (5_000_000, 2_000_000));
    assert_eq!(refuse(asked[2], None), (5_000_000, 2_000_000));
    assert_eq!(bench.node.report().flows[0].counts.nacks, 3);
}

#[test]
fn where_nobody_stamps_a_window_paces_until_somebody_does() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(Multipath::Dual)));
    bench.pass(ms(10));
    let mut asked = bench.packets();
    let mut sizes = Vec::new();
    for _ in 0..4 {
        for (_, packet) in std::mem::take(&mut asked) {
            let Body::Interest(interest) = packet.body else { panic!("it asks") };
            bench.from(1, data(&interest.name.to_string()));
        }
        bench.pass(ms(10));
        asked = bench.packets();
        sizes.push(asked.len());
    }
    assert_eq!(sizes, [3, 6, 12, 24]);
    let Body::Interest(interest) = &asked[0].1.body else { panic!("it asks") };
    bench.from(1, answer(interest.name.segment().unwrap(), 8, 1));
    let times = labelled_at(&bench.departures(ms(5)));
    assert!(times.len() >= 4, "{times:?}");
}

#[test]
fn where_the_stamps_end_a_window_takes_over_again() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(Multipath::Dual)));
    bench.pass(ms(10));
    bench.from(1, answer(0, 8, 1));
    // The path is silent for long enough to be given up.
    bench.pass(ms(6_000));
    assert!(bench.node.report().flows[0].paths.is_empty());
    for _ in 0..3 {
        for (_, packet) in bench.packets() {
            let Body::Interest(interest) = packet.body else { panic!("it asks") };
            bench.from(1, data(&interest.name.to_string()));
        }
    }
    let asked = bench.packets().len();
    assert!(asked >= 8, "{asked} under way");
}

#[test]
fn what_an_earlier_flow_of_a_number_asked_for_is_not_told_as_the_later_one_s() {
    let mut bench = consumer();
    bench.command(Command::Fetch(Fetch::new(1, name("/old"))));
    bench.command(Command::Fetch(Fetch::new(1, name("/new"))));
    let old = bench.packets().remove(0).1;
    bench.from(1, data_of("/old/seg=0", Some(0)));
    assert!(bench.told().is_empty());
    bench.from(1, nack("/old/seg=0", nonce(&old), NackReason::NoRoute));
    bench.from(1, data_of("/new/seg=0", Some(0)));
    assert_eq!(bench.told(), ["flow 1: segment 0", "flow 1: all 1"]);
}
