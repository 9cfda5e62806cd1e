//! Ages of packets in repairs, and the rate of fire that follows a target.

use super::*;
use crate::slingshot::Ages;
use crate::slingshot::tuner::Target;

#[test]
fn ages_between_the_first_and_the_last_are_even_and_long_ones_are_cut() {
    let ages = Ages::new(ms(8), ms(0));
    assert_eq!(
        (0..5).map(|place| ages.at(place, 5)).collect::<Vec<_>>(),
        [ms(8), ms(6), ms(4), ms(2), ms(0)]
    );
    assert_eq!(Ages::new(ms(3), ms(3)).at(0, 1), Duration::from_micros(2_992));
    assert_eq!(Ages::new(ms(9_000), ms(0)).at(0, 2), 65_535 * Duration::from_micros(16));
}

/// A packet of node 2 is lost here; node 3 had it 6 ms before it sends the repair that brings it.
#[test]
fn the_time_of_a_recovery_runs_from_when_others_had_the_packet() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.pass(ms(20));
    bench.data(2, 0);
    bench.told();
    let mut names = NamesBuilder::default();
    let mut sum = Sum::default();
    for (from, seq) in [(1, 1), (2, 0)] {
        let data = packet(G, from, seq);
        names.push(Name { group: G, rank: from as u16, seq: seq as u32, checksum: data.checksum });
        sum.add(&data.payload);
    }
    let ages = Ages::new(Duration::from_micros(6_400), ms(0));
    let repair = Repair::new(ViewId(0), 0, ages, names.build(), sum.take_coded());
    bench.message(3, Message::Repair(repair));
    assert_eq!(bench.told(), ["g0/n1.1 recovered after 6.4ms"]);
}

fn steered(members: u32) -> Config {
    let target = Target::new(0.95, ms(10), 0.5);
    published(members).with_target(Some(target)).build().expect("the target can be stated")
}

/// Sixteen members' packets for `seconds` seconds, of which every `loses`-th is lost.
fn traffic(bench: &mut Bench, seconds: u64, first: u64, loses: u64) {
    let mut number = 0;
    for round in 0..seconds * 60 {
        for from in 1..16 {
            number += 1;
            if !u64::from(from + 7 * number as u32).is_multiple_of(loses) {
                bench.data(from, first + round);
            }
            bench.pass(Duration::from_micros(1_111));
        }
    }
}

#[test]
fn the_rate_of_fire_is_chosen_for_what_is_measured() {
    let mut bench = Bench::new(steered(16));
    let first = bench.node.rate();
    traffic(&mut bench, 2, 0, 100);
    let gentle = bench.node.rate();
    assert_ne!(gentle, first);
    assert!(bench.told().iter().any(|line| line.starts_with("tuned to") && line.ends_with("true")));
    // Five times the loss needs more.
    traffic(&mut bench, 8, 120, 20);
    let harsh = bench.node.rate();
    let price = |rate: Rate| rate.c as f64 / rate.r as f64;
    assert!(price(harsh) > price(gentle), "{gentle:?}, then {harsh:?}");
    assert!(bench.count("slingshot_retuned") >= 2);
    // Idle costs nothing: one last look, and then no timer.
    bench.pass(ms(5_000));
    bench.outbox.timers.clear();
    bench.pass(ms(5_000));
    assert_eq!(bench.outbox.timers.len(), 0);
}

#[test]
fn a_target_out_of_reach_is_told() {
    let target = Target::new(0.999, ms(1), 0.2);
    let mut bench = Bench::new(published(16).with_target(Some(target)));
    traffic(&mut bench, 2, 0, 50);
    let told = bench.told();
    assert!(told.iter().any(|line| line.starts_with("tuned to") && line.ends_with("false")));
}

/// The loss, in a million, and the packets a second that the member was tuned for, each time.
fn tuned_for(bench: &mut Bench) -> Vec<(u32, u32)> {
    let tuned = |event| match event {
        Event::Tuned { loss_ppm, packets_per_second, .. } => Some((loss_ppm, packets_per_second)),
        _ => None,
    };
    bench.outbox.events.drain(..).filter_map(tuned).collect()
}

#[test]
fn few_packets_do_not_say_that_much_is_lost() {
    let mut bench = Bench::new(steered(16));
    (1..9).for_each(|from| bench.data(from, 0));
    bench.data(1, 2);
    bench.pass(ms(1_000));
    let tuned = tuned_for(&mut bench);
    assert!(matches!(tuned[..], [(loss, _)] if loss < 20_000), "{tuned:?}");
}

#[test]
fn where_nothing_is_lost_the_rate_comes_to_rest() {
    let mut bench = Bench::new(steered(16));
    traffic(&mut bench, 60, 0, u64::MAX);
    let tuned = tuned_for(&mut bench);
    assert!((1..=5).contains(&tuned.len()), "{tuned:?}");
    assert!(tuned.last().is_some_and(|&(loss, _)| loss < 500), "{tuned:?}");
    traffic(&mut bench, 60, 3_600, u64::MAX);
    assert_eq!(tuned_for(&mut bench), []);
    // However long that was, losses are noticed at once.
    traffic(&mut bench, 6, 7_200, 100);
    let tuned = tuned_for(&mut bench);
    assert!(tuned.last().is_some_and(|&(loss, _)| (6_000..15_000).contains(&loss)), "{tuned:?}");
}

#[test]
fn traffic_that_comes_and_goes_has_one_rate() {
    let mut bench = Bench::new(steered(16));
    for round in 0..30 {
        traffic(&mut bench, 3, 180 * round, 100);
        bench.pass(ms(2_500));
    }
    let tuned = tuned_for(&mut bench);
    assert!(tuned.len() <= 4, "{tuned:?}");
    assert!(tuned.iter().all(|&(_, rate)| (700..1_100).contains(&rate)), "{tuned:?}");
}

#[test]
fn a_member_more_or_less_is_no_other_group_and_half_of_them_are() {
    let mut bench = Bench::new(steered(16));
    traffic(&mut bench, 4, 0, 100);
    assert!(!tuned_for(&mut bench).is_empty());
    let view = |members: u32| (0..members).map(|node| (node, 0)).collect::<Vec<_>>();
    bench.view(1, &view(15));
    traffic(&mut bench, 4, 240, 100);
    assert_eq!(tuned_for(&mut bench).len(), 0);
    bench.view(2, &view(8));
    traffic(&mut bench, 2, 480, 100);
    assert_eq!(tuned_for(&mut bench).len(), 1);
}

#[test]
fn alone_a_member_looks_at_nothing_and_two_cannot_repair_each_other() {
    let mut bench = Bench::new(steered(1));
    let before = bench.node.rate();
    bench.send("no receiver");
    bench.pass(ms(10_000));
    assert_eq!((bench.node.rate(), bench.told().len()), (before, 0));
    let mut bench = Bench::new(steered(2));
    (0..100).for_each(|seq| bench.data(1, seq));
    bench.pass(ms(2_000));
    let told = bench.told();
    assert!(told.iter().any(|line| line.starts_with("tuned to") && line.ends_with("false")));
}

#[test]
fn what_was_asked_for_counts_as_in_time() {
    let config = steered(4).with_pull(Some(Pull::default()));
    let mut bench = Bench::new(config);
    bench.data(1, 0);
    bench.data(1, 2);
    bench.pass(ms(6));
    let supply = Supply { view: ViewId(0), rank: 1, data: packet(G, 1, 1) };
    bench.message(2, Message::Supply(supply));
    let tally = bench.node.ledger.tally;
    assert_eq!((tally.direct, tally.missed, tally.in_time), (2, 1, 1));
}

#[test]
fn bins_in_turn_fill_more_slowly() {
    let rate_of = |stagger| {
        let mut bench = Bench::new(steered(16).with_code(Code::Xor { stagger }));
        traffic(&mut bench, 2, 0, 100);
        bench.node.rate()
    };
    // In 10 ms a bin of sixteen gets less than one packet: only (1,1) and its like would do.
    assert!(rate_of(16).r < rate_of(1).r);
}

#[test]
fn a_target_must_be_one() {
    let build = |target| published(4).with_target(Some(target)).build().map(|_| ());
    for target in [
        Target::new(1.0, ms(10), 0.3),
        Target::new(0.9, ms(10), 0.0),
        Target::new(0.9, ms(0), 0.3),
        Target { margin: 1.0, ..Target::new(0.9, ms(10), 0.3) },
        Target::new(f64::NAN, ms(10), 0.3),
    ] {
        assert!(build(target).is_err(), "{target:?}");
    }
    assert_eq!(build(Target::new(0.9, ms(10), 0.3)), Ok(()));
}
