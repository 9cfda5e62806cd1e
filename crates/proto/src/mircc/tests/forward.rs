//! The way of Interests.

use super::*;

#[test]
fn an_interest_goes_to_the_next_hop_and_its_data_back_to_who_asked() {
    let mut bench = Bench::plain();
    bench.from(1, interest("/a/seg=0", 7));
    let sent = bench.packets();
    assert_eq!((sent.len(), sent[0].0, nonce(&sent[0].1)), (1, 2, 7));
    assert_eq!(bench.node.pending(), 1);
    bench.from(2, data("/a/seg=0"));
    let label = bench.face(2).label;
    assert_eq!(bench.sent(), [format!("1: data /a/seg=0 by {label}")]);
    assert_eq!(bench.node.pending(), 0);
}

#[test]
fn who_asks_for_the_same_waits_with_the_first_and_each_gets_its_own() {
    let mut bench = Bench::plain();
    let token = |byte| Token::new(&[byte]);
    let mut first = interest("/a/seg=0", 1);
    first.header.token = token(1);
    let mut second = interest("/a/seg=0", 2);
    (second.header.token, second.header.class) = (token(2), Class::Secondary);
    bench.from(1, first);
    bench.from(3, second);
    assert_eq!(bench.sent(), ["2: ask /a/seg=0"]);
    assert_eq!((bench.face(1).pending, bench.face(3).pending), (1, 0));
    bench.from(2, data("/a/seg=0"));
    let mut sent = bench.packets();
    sent.sort_by_key(|&(to, _)| to);
    let headers = sent.iter().map(|(to, packet)| {
        let header = &packet.header;
        (*to, header.class, header.token.clone())
    });
    let expected = [(1, Class::Primary, token(1)), (3, Class::Secondary, token(2))];
    assert!(headers.eq(expected));
    bench.from(2, data("/a/seg=0"));
    assert_eq!((bench.sent(), bench.count("mircc_unsolicited")), (vec![], 1));
}

#[test]
fn who_asks_again_is_passed_on_again_but_not_at_once() {
    let mut bench = Bench::plain();
    bench.from(1, interest("/a/seg=0", 1));
    bench.pass(ms(9));
    bench.from(1, interest("/a/seg=0", 2));
    assert_eq!(bench.sent(), ["2: ask /a/seg=0"]);
    bench.pass(ms(1));
    bench.from(1, interest("/a/seg=0", 3));
    let sent = bench.packets();
    assert_eq!((sent.len(), nonce(&sent[0].1)), (1, 3));
    // Late Data for the first is welcome.
    bench.from(2, data("/a/seg=0"));
    assert_eq!(bench.packets().len(), 1);
}

#[test]
fn a_copy_that_the_link_made_is_neither_passed_on_nor_refused() {
    let mut bench = Bench::plain();
    bench.from(1, interest("/a/seg=0", 1));
    bench.pass(ms(20));
    bench.from(1, interest("/a/seg=0", 1));
    assert_eq!(bench.sent(), ["2: ask /a/seg=0"]);
    assert_eq!(bench.count("mircc_duplicate_interest"), 1);
    bench.from(2, data("/a/seg=0"));
    assert_eq!(bench.packets().len(), 1);
}

#[test]
fn an_interest_that_comes_back_is_refused_also_later() {
    let mut bench = Bench::plain();
    bench.from(1, interest("/a/seg=0", 1));
    bench.from(2, interest("/a/seg=0", 1));
    bench.from(3, interest("/a/seg=0", 1));
    let refused = ["2: nack 100 /a/seg=0", "3: nack 100 /a/seg=0"];
    assert_eq!(bench.sent(), ["2: ask /a/seg=0", refused[0], refused[1]]);
    // Asked for again under another nonce, the first one is still known.
    bench.from(1, interest("/a/seg=0", 2));
    bench.from(3, interest("/a/seg=0", 1));
    assert_eq!(bench.sent(), [refused[1]]);
    bench.from(2, data("/a/seg=0"));
    bench.packets();
    bench.from(3, interest("/a/seg=0", 2));
    assert_eq!(bench.sent(), [refused[1]]);
    assert_eq!(bench.count("mircc_loops"), 4);
}

#[test]
fn without_a_route_but_back_an_interest_is_refused() {
    let mut bench = Bench::plain();
    bench.from(1, interest("/b/seg=0", 1));
    bench.from(2, interest("/a/seg=0", 2));
    assert_eq!(bench.sent(), ["1: nack 150 /b/seg=0", "2: nack 150 /a/seg=0"]);
    assert_eq!(bench.node.pending(), 0);
    let peer = NodeId(3);
    bench.command(Command::AddRoute { prefix: name("/b"), peer, cost: 1 });
    bench.from(1, interest("/b/seg=0", 3));
    bench.command(Command::RemoveRoute { prefix: name("/b"), peer });
    bench.from(1, interest("/b/seg=1", 4));
    assert_eq!(bench.sent(), ["3: ask /b/seg=0", "1: nack 150 /b/seg=1"]);
}

#[test]
fn an_interest_goes_no_further_than_it_may_and_leaves_nothing_behind() {
    let mut bench = Bench::plain();
    bench.from(1, asking("/a/seg=0", 1, |interest| interest.hop_limit = Some(0)));
    bench.from(1, asking("/a/seg=0", 2, |interest| interest.hop_limit = Some(1)));
    assert_eq!((bench.sent(), bench.count("mircc_hop_limit")), (vec![], 2));
    assert_eq!((bench.node.pending(), bench.face(1).pending), (0, 0));
    // So a later Interest for the name still passes.
    bench.from(3, asking("/a/seg=0", 3, |interest| interest.hop_limit = Some(2)));
    let sent = bench.packets();
    let Body::Interest(passed) = &sent[0].1.body else { panic!("{sent:?}") };
    assert_eq!(passed.hop_limit, Some(1));
    // Nor does it end what was passed on.
    bench.pass(ms(20));
    bench.from(3, asking("/a/seg=0", 4, |interest| interest.hop_limit = Some(1)));
    assert_eq!(bench.node.pending(), 1);
}

#[test]
fn an_entry_ends_with_its_lifetime_and_no_later_than_a_tick_after() {
    for (lifetime_ms, ends_ms) in [(300, 300), (4_000, 4_000), (60_000, 4_000)] {
        let mut bench = Bench::plain();
        bench.from(1, asking("/a/seg=0", 1, |interest| interest.lifetime_ms = Some(lifetime_ms)));
        bench.pass(ms(ends_ms - 1));
        assert_eq!(bench.node.pending(), 1, "{lifetime_ms}");
        bench.pass(ms(51));
        assert_eq!(bench.node.pending(), 0, "{lifetime_ms}");
        bench.packets();
        bench.from(2, data("/a/seg=0"));
        assert_eq!((bench.sent(), bench.count("mircc_expired")), (vec![], 1));
    }
}

#[test]
fn a_later_asker_puts_the_end_off_and_an_earlier_one_whose_time_is_over_gets_nothing() {
    let mut bench = Bench::plain();
    bench.from(1, asking("/a/seg=0", 1, |interest| interest.lifetime_ms = Some(500)));
    bench.pass(ms(400));
    bench.from(3, asking("/a/seg=0", 2, |interest| interest.lifetime_ms = Some(1_000)));
    bench.pass(ms(900));
    assert_eq!(bench.node.pending(), 1);
    bench.packets();
    bench.from(2, data("/a/seg=0"));
    let label = bench.face(2).label;
    assert_eq!(bench.sent(), [format!("3: data /a/seg=0 by {label}")]);
    // The same of a refusal.
    bench.from(1, asking("/a/seg=1", 3, |interest| interest.lifetime_ms = Some(500)));
    bench.pass(ms(400));
    bench.from(3, asking("/a/seg=1", 4, |interest| interest.lifetime_ms = Some(1_000)));
    bench.pass(ms(900));
    bench.packets();
    bench.from(2, nack("/a/seg=1", 3, NackReason::NoRoute));
    assert_eq!(bench.sent(), [format!("3: nack 150 /a/seg=1 by {label}")]);
}

#[test]
fn who_asked_long_ago_may_be_asked_though_others_still_wait() {
    let any = FaceConfig::default();
    let faces: [(u32, FaceConfig, &[&str]); 3] =
        [(1, any, &[]), (2, any, &["/a"]), (3, any, &["/a"])];
    let mut bench = Bench::new(Config::default(), &faces);
    let lives = |nonce, lifetime| {
        asking("/a/seg=0", nonce, |interest| interest.lifetime_ms = Some(lifetime))
    };
    bench.from(3, lives(1, 1_000));
    assert_eq!(bench.sent(), ["2: ask /a/seg=0"]);
    let asked = |bench: &mut Bench, nonces: std::ops::Range<u32>| {
        for nonce in nonces {
            bench.pass(ms(100));
            bench.from(1, lives(nonce, 2_000));
        }
        bench.packets().into_iter().filter(|(to, _)| *to == 3).count()
    };
    assert_eq!(asked(&mut bench, 2..10), 0);
    bench.pass(ms(300));
    assert!(asked(&mut bench, 10..30) > 0);
}

#[test]
fn who_was_asked_long_ago_does_not_keep_a_refusal_back() {
    let any = FaceConfig::default();
    let faces: [(u32, FaceConfig, &[&str]); 3] =
        [(1, any, &[]), (2, any, &["/a"]), (3, any, &["/a"])];
    let mut bench = Bench::new(Config::default(), &faces);
    let [second, third] = [2, 3].map(|peer| bench.face(peer).label.get());
    bench.from(1, labelled(interest("/a/seg=0", 1), &[second]));
    for nonce in 2..6 {
        bench.pass(ms(1_000));
        bench.from(1, labelled(interest("/a/seg=0", nonce), &[third]));
        bench.packets();
        bench.from(3, nack("/a/seg=0", nonce, NackReason::NoRoute));
        // The other may still answer.
        assert_eq!(bench.packets().len(), 0, "{nonce}");
    }
    bench.pass(ms(1_000));
    bench.from(1, labelled(interest("/a/seg=0", 7), &[third]));
    bench.packets();
    bench.from(3, nack("/a/seg=0", 7, NackReason::NoRoute));
    assert_eq!((bench.packets().len(), bench.node.pending()), (1, 0));
}

#[test]
fn whose_interests_bring_nothing_is_noticed_once_each() {
    let mut bench = Bench::plain();
    bench.from(1, interest("/a/seg=0", 1));
    // Asked for again and again, it is still one.
    for nonce in 2..40 {
        bench.pass(ms(100));
        bench.from(1, interest("/a/seg=0", nonce));
    }
    bench.pass(ms(5_000));
    let answered = bench.face(1).answered;
    assert!((answered - 63.0 / 64.0).abs() < 1e-9, "{answered}");
    bench.from(1, interest("/a/seg=1", 50));
    bench.from(2, nack("/a/seg=1", 50, NackReason::NoRoute));
    bench.from(1, interest("/a/seg=2", 51));
    bench.from(2, nack("/a/seg=2", 51, NackReason::Congestion));
    let answered = bench.face(1).answered;
    assert!((answered - (63.0f64 / 64.0).powi(2)).abs() < 1e-9, "{answered}");
}

#[test]
fn a_face_that_goes_takes_its_routes_along_and_what_waits_for_it_is_refused() {
    let slow = FaceConfig::of_rate(10_000);
    let any = FaceConfig::default();
    let mut bench = Bench::new(Config::default(), &[(1, any, &[]), (2, slow, &["/a"])]);
    for segment in 0..3 {
        bench.from(1, interest(&format!("/a/seg={segment}"), segment));
    }
    assert_eq!(bench.sent(), ["2: ask /a/seg=0"]);
    assert_eq!(bench.face(2).interests_waiting, 2);
    bench.command(Command::RemoveFace(NodeId(2)));
    assert_eq!(bench.sent(), ["1: nack 150 /a/seg=1", "1: nack 150 /a/seg=2"]);
    bench.from(2, data("/a/seg=0"));
    assert_eq!(bench.count("mircc_unknown_neighbour"), 1);
    // What had left runs out.
    assert_eq!(bench.node.pending(), 1);
    bench.pass(ms(4_050));
    assert_eq!(bench.node.pending(), 0);
    bench.from(1, interest("/a/seg=3", 9));
    assert_eq!(bench.sent(), ["1: nack 150 /a/seg=3"]);
}

#[test]
fn a_stranger_gets_a_face_and_one_that_is_down_has_none() {
    let mut bench = Bench::plain();
    bench.from(9, interest("/a/seg=0", 1));
    assert_eq!((bench.sent(), bench.count("mircc_unknown_neighbour")), (vec![], 1));
    bench.call(|node, cx| node.handle_peer(cx, NodeId(9), PeerState::Up { incarnation: 1 }));
    bench.from(9, interest("/a/seg=0", 2));
    assert_eq!(bench.sent(), ["2: ask /a/seg=0"]);
    bench.call(|node, cx| node.handle_peer(cx, NodeId(9), PeerState::Down));
    bench.from(2, data("/a/seg=0"));
    assert_eq!(bench.sent(), Vec::<String>::new());
}
