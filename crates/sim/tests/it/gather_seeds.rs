//! Hosts that start together create one group, under random faults.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::gather_swarm::{Run, Trouble, run_all};

use paceline_check::Swarm;
use paceline_proto::core::{NodeId, Rng};

#[test]
fn five_starts_of_which_three_create_the_group_create_one() {
    run_all("3 of 5, links and pauses", |seed| Run::draw(seed, 5, 3, Trouble::Network));
}

#[test]
fn five_starts_of_which_three_create_the_group_create_one_although_a_host_crashes() {
    run_all("3 of 5, a crash", |seed| Run::draw(seed, 5, 3, Trouble::Crash));
}

/// Any number of starts of which more than half create the group.
#[test]
fn any_majority_creates_one_group() {
    run_all("2 to 5 of up to 5, links and pauses", |seed| {
        let mut rng = Rng::new(seed, 0x3a1);
        let expect = 2 + rng.below(4);
        let most = (2 * expect - 1).min(5);
        let hosts = expect + rng.below(most - expect + 1);
        Run::draw(seed, hosts, expect, Trouble::Network)
    });
}

/// The restart is a sixth start: four are still more than half.
#[test]
fn a_host_that_starts_again_counts_as_another_start() {
    run_all("4 of 5, a restart", |seed| Run::draw(seed, 5, 4, Trouble::Restart));
}

#[test]
fn without_faults_the_host_with_the_least_id_creates_the_group_within_two_seconds() {
    for seed in 0..20 {
        let outcome = Run::draw(seed, 5, 3, Trouble::Nothing).run_honest().unwrap();
        assert_eq!(outcome.founders.len(), 3, "{outcome:?}");
        let least = outcome.founders.iter().map(|member| member.node).min();
        assert_eq!(outcome.founders[0].node, least.unwrap(), "{outcome:?}");
        assert!(outcome.whole_at_ms < 2_000, "{outcome:?}");
        assert_eq!(outcome.attempts, 1, "{outcome:?}");
    }
    // All known from the first moment on.
    let all = Run::draw(1, 3, 3, Trouble::Nothing).run_honest().unwrap();
    assert_eq!(all.founders[0].node, NodeId(0));
}
