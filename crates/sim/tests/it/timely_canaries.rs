//! The bug planted for each promise of Slingshot's rivals is caught, in each of them.

use crate::timely_swarm;

use paceline_check::checkers::timely::Rule;
use paceline_check::seeds;
use timely_swarm::faulty::Bug;
use timely_swarm::{Baseline, Scenario};

#[test]
fn every_planted_bug_is_caught_in_each_baseline_by_the_rule_it_was_planted_for() {
    for baseline in Baseline::ALL {
        let planted = [
            (Bug::AlterPayload, Rule::Integrity),
            (Bug::DeliverTwice, Rule::Once),
            (Bug::DropRecovered, Rule::Accounting),
            (Bug::SwapOrder, Rule::Order),
        ];
        println!("{baseline:?}");
        seeds::catch_all(planted, |seed, bug| Scenario::draw(seed, baseline).run(bug).map(|_| ()));
    }
}
