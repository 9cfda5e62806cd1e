//! Pauses, partitions, restarts, goodbyes, and questions on demand.

use super::*;

#[test]
fn a_member_that_stood_still_blames_nobody() {
    for nodes in [2, 5] {
        for seed in 0..30 {
            let mut net = Net::new(nodes, seed);
            net.run_for(ms(2000) + Duration::from_millis(seed * 7));
            net.pause(0, ms(2000));
            net.run_for(ms(7000));
            let wrong = net.downs().into_iter().find(|finding| finding.of != 0);
            assert_eq!(wrong, None, "{nodes} nodes, seed {seed}");
            net.assert_all_up();
        }
    }
}

#[test]
fn a_suspicion_does_not_run_out_while_its_holder_stands_still() {
    for seed in 0..30 {
        let mut net = Net::new(2, seed);
        net.run_for(ms(1000));
        net.cut_off(0);
        while net.found(0, 1, Health::Suspect).is_none() {
            net.run_for(ms(1));
        }
        net.cut.clear();
        net.pause(0, ms(2000));
        net.run_for(ms(7000));
        assert_eq!(net.found(0, 1, Health::Down), None, "seed {seed}");
        net.assert_all_up();
    }
}

#[test]
fn an_answer_that_waits_in_the_socket_counts() {
    for seed in 0..30 {
        let mut net = Net::new(2, seed);
        net.run_for(ms(2000) + Duration::from_millis(seed * 7));
        net.pause(0, ms(400));
        net.run_for(ms(3000));
        assert_eq!(net.found(0, 1, Health::Suspect), None, "seed {seed}");
    }
}

#[test]
fn a_slow_member_finds_a_crash_all_the_same() {
    for seed in 0..10 {
        let mut net = Net::new(2, seed);
        net.nodes[0].turn = ms(300);
        net.run_for(ms(10_000));
        net.crash(1);
        net.run_for(ms(30_000));
        assert_eq!(net.health(0, 1), Health::Down, "seed {seed}");
    }
}

#[test]
fn a_member_that_is_always_slow_puts_nobody_down() {
    for seed in 0..20 {
        let mut net = Net::new(5, seed);
        // Its answers are late by more than a whole probe takes, now and then.
        net.nodes[0].turn = ms(300);
        net.run_for(ms(20_000));
        let wrong = net.downs().into_iter().find(|finding| finding.of != 0);
        assert_eq!(wrong, None, "seed {seed}");
        assert!(net.nodes[0].detector.around.local.score() > 0, "seed {seed}");
    }
}

#[test]
fn after_a_partition_all_come_back_in_their_incarnation() {
    for (nodes, seed) in [2, 4].into_iter().flat_map(|n| (0..30).map(move |seed| (n, seed))) {
        let mut net = Net::new(nodes, seed);
        net.run_for(ms(2000));
        net.cut_off(0);
        net.run_for(ms(6000));
        for other in 1..nodes {
            assert_eq!(net.health(other, 0), Health::Down, "seed {seed}");
            assert_eq!(net.health(0, other), Health::Down, "seed {seed}");
        }
        net.cut.clear();
        let healed_at = net.now;
        net.run_for(ms(5000));
        net.assert_all_up();
        for finding in net.findings.iter().filter(|finding| finding.at > healed_at) {
            assert_eq!(finding.incarnation, member(finding.of).incarnation);
        }
        // And it stays so.
        let findings = net.findings.len();
        net.run_for(ms(5000));
        assert_eq!(net.findings.len(), findings, "seed {seed}");
    }
}

#[test]
fn halves_that_lost_each_other_find_each_other() {
    for seed in 0..20 {
        let mut net = Net::new(6, seed);
        for (a, b) in (0..3).flat_map(|a| (3..6).map(move |b| (a, b))) {
            net.cut.insert((a, b));
        }
        net.run_for(ms(6000));
        assert_eq!(net.health(0, 5), Health::Down);
        assert_eq!(net.health(0, 1), Health::Up);
        net.cut.clear();
        net.loss = 0.05;
        net.run_for(ms(5000));
        net.assert_all_up();
    }
}

#[test]
fn a_new_incarnation_ends_the_old_one_and_is_a_member_of_its_own() {
    for seed in 0..20 {
        let mut net = Net::new(4, seed);
        net.run_for(ms(2000));
        // It restarts at once, before any member could have suspected it.
        let restarted = Member { incarnation: 77, ..member(2) };
        let config = Config::new().build().expect("within the ranges");
        net.nodes[2] = Net::node(&config, restarted, seed);
        let all: Vec<Member> = [member(0), member(1), restarted, member(3)].to_vec();
        net.call(2, |detector, now, out| detector.watch(now, &all, out));
        // Too short for a time-out: its first words are enough.
        net.run_for(ms(300));
        for by in [0, 1, 3] {
            assert_eq!(net.health(by, 2), Health::Down, "seed {seed}");
        }
        net.run_for(ms(2000));
        // The other members answered its probes meanwhile, though none watched it.
        for of in [0, 1, 3] {
            assert_eq!(net.health(2, of), Health::Up, "seed {seed}");
        }
        let old = |f: &Finding| f.incarnation == member(2).incarnation && f.health == Health::Up;
        assert!(!net.findings.iter().any(old), "seed {seed}: the old incarnation came back");
        net.findings.clear();
        for by in [0, 1, 3] {
            net.call(by, |detector, now, out| detector.watch(now, &all, out));
            assert_eq!(net.health(by, 2), Health::Up);
        }
        net.run_for(ms(5000));
        assert_eq!(net.findings, [], "seed {seed}");
        net.crash(2);
        net.run_for(ms(3000));
        let found = net.downs();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|f| (f.of, f.incarnation) == (2, 77)), "{found:?}");
    }
}

#[test]
fn who_watches_later_takes_up_a_member_that_came_back_before() {
    let mut net = Net::new(3, 5);
    net.run_for(ms(1000));
    // Node 2 was down once, so it has a later generation than node 0 will assume.
    net.cut_off(2);
    net.run_for(ms(4000));
    net.cut.clear();
    net.run_for(ms(4000));
    net.assert_all_up();
    let (few, all) = ([member(1)], [member(1), member(2)]);
    net.call(0, |detector, now, out| detector.watch(now, &few, out));
    net.call(2, |detector, now, out| detector.watch(now, &few, out));
    net.run_for(ms(1000));
    net.findings.clear();
    net.call(0, |detector, now, out| detector.watch(now, &all, out));
    net.run_for(ms(5000));
    assert_eq!(net.findings, []);
    assert!(net.count("detector_stranger") > 0);
    assert_eq!(net.nodes[2].detector.health(NodeId(0)), None);
}

#[test]
fn a_question_makes_a_dead_member_suspect_and_then_down() {
    for nodes in [2, 5, 32] {
        for seed in 0..20 {
            let mut net = Net::new(nodes, seed);
            net.run_for(ms(2000));
            net.crash(1);
            let asked_at = net.now;
            net.call(0, |detector, now, out| detector.probe(now, NodeId(1), out));
            net.run_for(ms(5000));
            let suspect = net.found(0, 1, Health::Suspect).expect("it is suspected");
            assert!(suspect - asked_at <= ms(400), "seed {seed}: {:?}", suspect - asked_at);
            let down = net.found_down_by_all(1).expect("it goes down");
            assert!(down - asked_at <= ms(800), "seed {seed}: {:?}", down - asked_at);
        }
    }
}

#[test]
fn a_question_is_no_suspicion_of_a_member_that_answers() {
    for seed in 0..20 {
        let mut net = Net::new(3, seed);
        for _ in 0..20 {
            net.call(0, |detector, now, out| {
                detector.probe(now, NodeId(1), out);
                // A second probe during the first one sends nothing.
                let sends = out.sends.len();
                detector.probe(now, NodeId(1), out);
                assert_eq!(out.sends.len(), sends);
            });
            net.run_for(ms(100));
        }
        assert_eq!(net.findings, [], "seed {seed}");
    }
}

#[test]
fn who_says_goodbye_is_down_at_once() {
    let mut net = Net::new(5, 1);
    net.loss = 0.1;
    net.run_for(ms(2000));
    net.findings.clear();
    net.call(3, |detector, now, out| detector.leave(now, out));
    assert_eq!(net.nodes[3].detector.deadline(), Instant::MAX);
    let left_at = net.now;
    net.run_for(ms(300));
    let all = net.found_down_by_all(3).expect("all heard it");
    assert!(all - left_at <= ms(300), "{:?}", all - left_at);
    net.run_for(ms(3000));
    assert!(net.findings.iter().all(|f| f.of == 3 && f.health == Health::Down));
}

#[test]
fn a_member_behind_one_broken_link_stays_up() {
    for seed in 0..20 {
        let mut net = Net::new(4, seed);
        net.cut.insert((0, 1));
        net.run_for(ms(20_000));
        assert_eq!(net.downs(), [], "seed {seed}");
    }
}
