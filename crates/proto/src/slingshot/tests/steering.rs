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

/// Sixteen members' packets, of which every `loses`-th does not come, for so many seconds.
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
