//! Forwarding strategies: where Interests without a label go, and where after a failure.

use super::*;

/// Node 1 asks; 2, 3 and 4 lead to `/a`, in this order of cost.
fn ways() -> Bench {
    let any = FaceConfig::default();
    let mut bench = Bench::new(Config::default(), &[(1, any, &[]), (9, any, &[])]);
    for (cost, peer) in (1..).zip([2, 3, 4]) {
        bench.command(Command::AddFace(NodeId(peer), any));
        bench.command(Command::AddRoute { prefix: name("/a"), peer: NodeId(peer), cost });
    }
    bench
}

fn adopt(bench: &mut Bench, strategy: Strategy) {
    bench.command(Command::SetStrategy { prefix: name("/a"), strategy });
}

/// The same Interest, under a nonce of its own.
fn ask(bench: &mut Bench, segment: u64) -> Vec<String> {
    let uri = format!("/a/seg={segment}");
    bench.from(1, interest(&uri, 1_000 + segment as u32));
    bench.sent()
}

fn seg(segment: u64) -> String {
    format!("/a/seg={segment}")
}

#[test]
fn an_interest_takes_the_cheapest_next_hop() {
    let mut bench = ways();
    for segment in 0..20 {
        assert_eq!(ask(&mut bench, segment), [format!("2: ask {}", seg(segment))]);
        bench.from(2, data(&seg(segment)));
        bench.packets();
    }
}

#[test]
fn an_interest_that_discovers_paths_takes_each_next_hop_by_chance_and_goes_on_as_such() {
    let mut bench = ways();
    for segment in 0..60 {
        let mut discovering = interest(&seg(segment), 7);
        discovering.header.discovers = true;
        bench.from(1, discovering);
    }
    let sent = bench.packets();
    assert!(sent.iter().all(|(_, packet)| packet.header.discovers));
    for peer in [2, 3, 4] {
        let count = sent.iter().filter(|(to, _)| *to == peer).count();
        assert!((10..=32).contains(&count), "{peer}: {count}");
    }
}

#[test]
fn a_dead_route_delays_one_interest_by_little_more_than_a_second_and_no_other() {
    let mut bench = ways();
    assert_eq!(ask(&mut bench, 0), ["2: ask /a/seg=0"]);
    let left = bench.departures(ms(1_500));
    let [(micros, line)] = &left[..] else { panic!("{left:?}") };
    assert!((1_000_000..=1_150_000).contains(micros), "{micros}");
    assert_eq!(line, "3: ask /a/seg=0");
    assert_eq!((bench.count("mircc_hop_down"), bench.count("mircc_failed_over")), (1, 1));
    bench.from(3, data("/a/seg=0"));
    assert_eq!(bench.packets().len(), 1);
    for segment in 1..20 {
        assert_eq!(ask(&mut bench, segment)[0], format!("3: ask {}", seg(segment)));
        bench.from(3, data(&seg(segment)));
        bench.packets();
    }
}

#[test]
fn all_hops_are_tried_one_after_another_and_then_the_entry_ends_with_its_time() {
    let mut bench = ways();
    ask(&mut bench, 0);
    let left: Vec<String> = bench.departures(ms(5_000)).into_iter().map(|(_, line)| line).collect();
    assert_eq!(left, ["3: ask /a/seg=0", "4: ask /a/seg=0"]);
    assert_eq!((bench.node.pending(), bench.count("mircc_expired")), (0, 1));
}

#[test]
fn a_lost_interest_is_no_failure_of_a_hop_that_answers_others() {
    let mut bench = ways();
    ask(&mut bench, 0);
    for segment in 1..40 {
        bench.pass(ms(50));
        assert_eq!(ask(&mut bench, segment), [format!("2: ask {}", seg(segment))]);
        bench.from(2, data(&seg(segment)));
        bench.packets();
    }
    assert_eq!(bench.count("mircc_hop_down"), 0);
    // Asked for again it goes there again.
    bench.from(1, interest("/a/seg=0", 7));
    assert_eq!(bench.sent(), ["2: ask /a/seg=0"]);
}

#[test]
fn a_consumer_that_sends_again_before_that_gets_another_hop_if_the_first_is_silent() {
    let mut bench = ways();
    ask(&mut bench, 0);
    bench.pass(ms(200));
    bench.from(1, interest("/a/seg=0", 7));
    assert_eq!(bench.sent(), ["3: ask /a/seg=0"]);
    bench.from(3, data("/a/seg=0"));
    assert_eq!(bench.packets().len(), 1);
}

#[test]
fn a_consumer_that_sends_again_early_does_not_hide_a_dead_hop_nor_condemn_a_slow_one() {
    let mut bench = ways();
    ask(&mut bench, 0);
    bench.pass(ms(200));
    bench.from(1, interest("/a/seg=0", 7));
    bench.packets();
    bench.pass(ms(10));
    bench.from(3, data("/a/seg=0"));
    bench.packets();
    assert_eq!(bench.count("mircc_hop_down"), 1);
    assert_eq!(ask(&mut bench, 1), ["3: ask /a/seg=1"]);
    // What comes late after all brings it back.
    bench.pass(ms(50));
    bench.from(2, data("/a/seg=0"));
    assert_eq!(bench.count("mircc_hop_up"), 1);
    assert_eq!(ask(&mut bench, 2), ["2: ask /a/seg=2"]);
}

#[test]
fn a_refusal_for_want_of_a_route_goes_to_the_next_hop_at_once_and_back_only_from_the_last() {
    let mut bench = ways();
    ask(&mut bench, 0);
    bench.from(2, nack("/a/seg=0", 1_000, NackReason::NoRoute));
    assert_eq!(bench.sent(), ["3: ask /a/seg=0"]);
    bench.from(3, nack("/a/seg=0", 1_000, NackReason::Duplicate));
    assert_eq!(bench.sent(), ["4: ask /a/seg=0"]);
    bench.from(4, nack("/a/seg=0", 1_000, NackReason::NoRoute));
    let label = bench.face(4).label;
    assert_eq!(bench.sent(), [format!("1: nack 150 /a/seg=0 by {label}")]);
    assert_eq!(bench.node.pending(), 0);
    // Too much demand is the consumer's to know.
    ask(&mut bench, 1);
    bench.from(2, nack("/a/seg=1", 1_001, NackReason::Congestion));
    let label = bench.face(2).label;
    assert_eq!(bench.sent(), [format!("1: nack 50 /a/seg=1 by {label}")]);
}

#[test]
fn a_search_after_refusals_spares_a_hop_to_which_its_interest_was_steered() {
    let mut bench = ways();
    let label = bench.face(4).label;
    bench.from(1, labelled(interest("/a/seg=0", 7), &[label.get()]));
    assert_eq!(bench.sent(), ["4: ask /a/seg=0"]);
    bench.pass(ms(200));
    bench.from(1, interest("/a/seg=0", 8));
    assert_eq!(bench.sent(), ["2: ask /a/seg=0"]);
    bench.from(2, nack("/a/seg=0", 8, NackReason::NoRoute));
    assert!(bench.sent().is_empty(), "the other hop may still answer");
    bench.from(4, nack("/a/seg=0", 7, NackReason::NoRoute));
    assert_eq!(bench.sent(), ["3: ask /a/seg=0"]);
    // The last hop that had none of them: not back to where it was refused.
    bench.from(3, nack("/a/seg=0", 7, NackReason::NoRoute));
    let label = bench.face(3).label;
    assert_eq!(bench.sent(), [format!("1: nack 150 /a/seg=0 by {label}")]);
    assert_eq!(bench.node.pending(), 0);
}

#[test]
fn a_face_that_goes_leaves_its_interests_to_the_next_hop() {
    let mut bench = ways();
    ask(&mut bench, 0);
    bench.command(Command::RemoveFace(NodeId(2)));
    let left = bench.departures(ms(1_500));
    assert_eq!(left[0].1, "3: ask /a/seg=0");
    assert_eq!(ask(&mut bench, 1), ["3: ask /a/seg=1"]);
}

#[test]
fn a_hop_that_is_down_is_probed_and_used_again_once_it_answers() {
    let mut bench = ways();
    ask(&mut bench, 0);
    bench.pass(ms(1_200));
    bench.from(3, data("/a/seg=0"));
    bench.packets();
    let mut probed = 0;
    for segment in 1..40 {
        bench.pass(ms(100));
        let sent = ask(&mut bench, segment);
        assert_eq!(sent[0], format!("3: ask {}", seg(segment)));
        bench.from(3, data(&seg(segment)));
        bench.packets();
        if sent.len() == 2 {
            assert_eq!(sent[1], format!("2: ask {}", seg(segment)));
            probed = segment;
        }
    }
    assert!(probed > 0);
    // The consumer has its Data, but the forwarder learns that the hop is back.
    bench.from(2, data(&seg(probed)));
    assert_eq!(bench.sent(), Vec::<String>::new());
    assert_eq!((bench.count("mircc_probe_answered"), bench.count("mircc_hop_up")), (1, 1));
    assert_eq!(ask(&mut bench, 50), ["2: ask /a/seg=50"]);
    // Other unsolicited Data has no effect.
    bench.from(2, data("/a/seg=777"));
    assert_eq!(bench.count("mircc_unsolicited"), 1);
}

#[test]
fn multicast_asks_all_next_hops_and_refuses_when_all_have_refused() {
    let mut bench = ways();
    adopt(&mut bench, Strategy::Multicast);
    let all = |segment| [2, 3, 4].map(|peer| format!("{peer}: ask {}", seg(segment)));
    assert_eq!(ask(&mut bench, 0), all(0));
    bench.from(4, data("/a/seg=0"));
    let label = bench.face(4).label;
    assert_eq!(bench.sent(), [format!("1: data /a/seg=0 by {label}")]);
    assert_eq!(ask(&mut bench, 1), all(1));
    for peer in [2, 3] {
        bench.from(peer, nack("/a/seg=1", 1_001, NackReason::NoRoute));
        assert_eq!(bench.packets().len(), 0);
    }
    bench.from(4, nack("/a/seg=1", 1_001, NackReason::NoRoute));
    assert_eq!((bench.packets().len(), bench.node.pending()), (1, 0));
}

#[test]
fn multicast_spares_a_silent_hop_though_the_consumer_sends_again_before_data_is_overdue() {
    let mut bench = ways();
    adopt(&mut bench, Strategy::Multicast);
    let asked = |bench: &mut Bench, nonce| {
        bench.from(1, interest("/a/seg=0", nonce));
        bench.sent().len()
    };
    assert_eq!(asked(&mut bench, 1), 3);
    // Copies by 3 and 4 meet that by 2 at a node behind them, which answers 2 only.
    for peer in [3, 4] {
        bench.from(peer, nack("/a/seg=0", 1, NackReason::Duplicate));
    }
    for nonce in 2..20 {
        bench.pass(ms(60));
        if asked(&mut bench, nonce) < 3 {
            break;
        }
        for peer in [3, 4] {
            bench.from(peer, nack("/a/seg=0", nonce, NackReason::Duplicate));
        }
    }
    assert_eq!(bench.count("mircc_hop_down"), 1);
    assert_eq!(asked(&mut bench, 30), 0, "within 10 ms");
    bench.pass(ms(60));
    assert_eq!(asked(&mut bench, 31), 2);
    bench.from(3, data("/a/seg=0"));
    assert_eq!(bench.sent().len(), 1);
    // A probe has a nonce of its own, so that it is answered beside the others.
    bench.pass(ms(1_000));
    bench.from(1, interest("/a/seg=1", 40));
    let sent: Vec<_> = bench.packets().iter().map(|(to, sent)| (*to, nonce(sent) == 40)).collect();
    assert_eq!(sent, [(3, true), (4, true), (2, false)]);
}

#[test]
fn a_full_face_does_not_keep_multicast_from_the_others() {
    let any = FaceConfig::default();
    let mut config = Config::default();
    config.shaper.queue_max = 1;
    let slow = FaceConfig::of_rate(10_000);
    let faces: [(u32, FaceConfig, &[&str]); 3] =
        [(1, any, &[]), (2, slow, &["/a"]), (3, any, &["/a"])];
    let mut bench = Bench::new(config, &faces);
    adopt(&mut bench, Strategy::Multicast);
    let to_third = (0..6).flat_map(|segment| ask(&mut bench, segment));
    assert_eq!(to_third.filter(|line| line.starts_with("3: ask")).count(), 6);
    assert!(bench.face(2).counts.refused > 0);
}

#[test]
fn the_adaptive_strategy_settles_on_the_fastest_next_hop() {
    let mut bench = ways();
    adopt(&mut bench, Strategy::Adaptive);
    assert_eq!(ask(&mut bench, 0).len(), 3, "all are measured");
    bench.pass(ms(4));
    bench.from(4, data("/a/seg=0"));
    bench.pass(ms(6));
    bench.from(2, data("/a/seg=0"));
    bench.pass(ms(20));
    bench.from(3, data("/a/seg=0"));
    bench.packets();
    assert_eq!(ask(&mut bench, 1), ["4: ask /a/seg=1"]);
}

#[test]
fn an_interest_with_long_parameters_is_not_kept_for_fail_over_but_one_with_short_is() {
    for (bytes, expected) in [(64, 1), (2_000, 0)] {
        let mut bench = ways();
        let parameters = vec![7; bytes];
        let command = Interest::with_parameters(&name("/a/command"), 5, &parameters).unwrap();
        bench.from(1, Packet::from(command.clone()));
        bench.packets();
        bench.pass(ms(1_500));
        let sent = bench.packets();
        assert_eq!(sent.len(), expected, "{bytes}");
        if let Some((3, Packet { body: Body::Interest(again), .. })) = sent.first() {
            assert_eq!(again.parameters(), command.parameters());
            assert!(again.parameters_fit() && again.nonce != 5);
        }
    }
}

#[test]
fn a_copy_that_comes_back_is_a_loop() {
    let mut bench = ways();
    ask(&mut bench, 0);
    bench.pass(ms(1_500));
    let again = nonce(&bench.packets()[0].1);
    bench.from(9, interest("/a/seg=0", again));
    assert_eq!(bench.sent(), ["9: nack 100 /a/seg=0"]);
    bench.from(3, data("/a/seg=0"));
    bench.packets();
    bench.from(9, interest("/a/seg=0", again));
    assert_eq!((bench.sent().len(), bench.count("mircc_loops")), (1, 2));
}
