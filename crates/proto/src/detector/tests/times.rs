//! Detection times, false suspicions, and costs.

use super::*;

/// Crashes node 0 after a while; how long until all others found it down, over these seeds, sorted.
fn detection_ms(nodes: u32, loss: f64, seeds: u64) -> Vec<u64> {
    let mut times: Vec<u64> = (0..seeds)
        .map(|seed| {
            let mut net = Net::new(nodes, seed);
            net.loss = loss;
            // So that the crash falls anywhere within a probe.
            let crash_at = ms(3000) + Duration::from_micros(u64::from(net.rng.below(200_000)));
            net.run_for(crash_at);
            net.crash(0);
            let crashed_at = net.now;
            net.run_for(ms(10_000));
            let found =
                net.found_down_by_all(0).unwrap_or_else(|| panic!("seed {seed}: not found"));
            let others = net.downs().iter().filter(|finding| finding.of != 0).count();
            assert!(loss > 0.0 || others == 0, "seed {seed}: a living member went down");
            assert_eq!(net.count("detector_timer_refused"), 0);
            (found - crashed_at).as_millis() as u64
        })
        .collect();
    times.sort_unstable();
    times
}

#[test]
fn a_crashed_member_is_down_everywhere_within_a_second_and_a_half() {
    for nodes in [2, 3, 5, 32] {
        let times = detection_ms(nodes, 0.0, 60);
        println!("{nodes} nodes: median {} ms, worst {} ms", times[30], times[59]);
        assert!(times[59] <= 1500, "{nodes} nodes: {times:?}");
    }
}

#[test]
fn with_losses_it_is_down_within_three_seconds() {
    for nodes in [2, 3, 5, 32] {
        let times = detection_ms(nodes, 0.05, 60);
        println!("{nodes} nodes, 5 %: median {} ms, worst {} ms", times[30], times[59]);
        assert!(times[59] <= 3000, "{nodes} nodes: {times:?}");
    }
}

#[test]
fn losses_alone_put_nobody_down() {
    for nodes in [2, 5] {
        for seed in 0..20 {
            let mut net = Net::new(nodes, seed);
            net.loss = 0.05;
            net.run_for(ms(60_000));
            assert_eq!(net.downs(), [], "{nodes} nodes, seed {seed}");
        }
    }
}

#[test]
fn a_group_at_rest_costs_less_than_two_kilobytes_a_second() {
    let mut net = Net::new(5, 1);
    net.run_for(ms(5000));
    for node in &mut net.nodes {
        node.bytes = 0;
    }
    net.run_for(ms(20_000));
    for (i, node) in net.nodes.iter().enumerate() {
        let rate = node.bytes / 20;
        println!("node {i}: {rate} bytes/s both ways");
        assert!(rate < 2000, "node {i}: {rate} bytes/s");
    }
    assert_eq!(net.findings, []);
}

#[test]
fn the_same_seed_gives_the_same_findings_and_another_does_not() {
    let run = |seed| {
        let mut net = Net::new(5, seed);
        net.loss = 0.1;
        net.run_for(ms(5000));
        net.crash(3);
        net.run_for(ms(5000));
        let bytes: Vec<u64> = net.nodes.iter().map(|node| node.bytes).collect();
        (net.findings, bytes)
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
}

#[test]
fn with_nobody_to_watch_nothing_is_ever_due() {
    let mut net = Net::new(1, 1);
    assert_eq!(net.nodes[0].detector.deadline(), Instant::MAX);
    let others = [member(0), member(1)];
    net.call(0, |detector, now, out| detector.watch(now, &others, out));
    assert!(net.nodes[0].detector.deadline() <= net.now + ms(200));
    // Gossip that is not yet sent does not outlive the members that it concerns.
    net.nodes[0].detector.around.spread_soon();
    net.call(0, |detector, now, out| detector.watch(now, &[], out));
    assert_eq!(net.nodes[0].detector.deadline(), Instant::MAX);
    assert_eq!(net.nodes[0].detector.health(NodeId(1)), None);
}
