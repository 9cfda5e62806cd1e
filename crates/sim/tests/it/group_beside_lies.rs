//! A saturated group keeps its rate while a stranger sends it a thousand well-formed lies a second.

use crate::group_swarm;

use std::time::Duration;

use group_swarm::{Outcome, Scenario, at};
use paceline_check::checkers::offered::Phase;
use paceline_check::lies::Known;
use paceline_check::{Lies, Strangers};
use paceline_proto::core::NodeId;
use paceline_proto::group::Group;
use paceline_sim::Shape;

const NODES: u32 = 4;
/// When members send, milliseconds.
const SENDING: (u64, u64) = (1000, 2500);

/// What was delivered, and the lies that were sent.
fn run(senders: u32, message_bytes: u32, strangers: u32) -> (u64, u64) {
    let mut scenario = Scenario::new(7, NODES);
    scenario.suite = "group_beside_lies";
    scenario.network.shape = Shape::Star;
    let (from, until) = (at(SENDING.0), at(SENDING.1));
    let senders = (0..senders).map(NodeId::from).collect();
    scenario.phases.push(Phase { from, until, senders, message_bytes });
    scenario.strangers = strangers;
    let lies = Lies { every: Duration::from_millis(1), until };
    let all = Strangers::new(NODES, Known::default(), lies);
    let config = scenario.config.clone();
    let ran = scenario.run(move |node| all.wrap(node, Group::new(&config)));
    let Outcome { deliveries, lies, .. } = ran.unwrap_or_else(|broken| panic!("{broken}"));
    (deliveries, lies)
}

#[test]
fn a_saturated_group_keeps_its_rate_beside_a_thousand_lies_a_second() {
    for senders in [1, NODES] {
        for message_bytes in [100, 4096, 20_000] {
            let (alone, none) = run(senders, message_bytes, 0);
            let (beside, lies) = run(senders, message_bytes, 1);
            let share = beside as f64 / alone as f64;
            println!(
                "{senders} senders of {message_bytes} bytes: {alone} and {beside}, {share:.3}"
            );
            assert_eq!(none, 0);
            assert!(lies > 2000, "{lies} lies");
            assert!(alone > 1000, "{senders} senders of {message_bytes} bytes: {alone}");
            assert!(share >= 0.95, "{senders} senders of {message_bytes} bytes: {share:.3}");
        }
    }
}
