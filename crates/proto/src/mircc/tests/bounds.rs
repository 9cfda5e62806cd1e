//! What waits is bounded, and goes at its rate.

use super::*;

#[test]
fn data_leaves_at_the_rate_of_the_link_and_what_finds_no_room_is_dropped() {
    let any = FaceConfig::default();
    let out = FaceConfig { queue_bytes_max: 4_000, ..mbit(1) };
    // Marks have bytes of their own.
    let config = Config { mark_after: ms(1_000), ..Config::default() };
    let mut bench = Bench::new(config, &[(1, out, &[]), (2, any, &["/a"])]);
    for segment in 0..6 {
        let uri = format!("/a/seg={segment}");
        bench.from(1, interest(&uri, segment));
        bench.from(2, data(&uri));
    }
    let first = bench.packets().into_iter().find(|(to, _)| *to == 1).expect("the link was free");
    let bytes = crate::core::Wire::wire_len(&first.1) + 42;
    let face = bench.face(1);
    assert_eq!((face.packets_waiting, face.bytes_waiting), (3, 3 * bytes));
    assert_eq!((face.counts.dropped, face.counts.data_out), (2, 6));
    assert_eq!(face.counts.bytes_out, 4 * bytes as u64);
    let times: Vec<u64> = bench.departures(ms(100)).iter().map(|(micros, _)| *micros).collect();
    let airtime = bytes as u64 * 8;
    assert_eq!(times, [airtime, 2 * airtime, 3 * airtime]);
    assert_eq!(bench.face(1).bytes_waiting, 0);
}

#[test]
fn interests_wait_for_room_for_their_data_and_too_many_are_refused() {
    let any = FaceConfig::default();
    let mut config = Config::default();
    config.shaper.queue_max = 2;
    let mut bench = Bench::new(config, &[(1, any, &[]), (2, mbit(1), &["/a"])]);
    let ask = |bench: &mut Bench, segment: u32, class| {
        let mut packet = interest(&format!("/a/seg={segment}"), segment);
        packet.header.class = class;
        bench.from(1, packet);
        bench.sent()
    };
    assert_eq!(ask(&mut bench, 0, Class::Primary), ["2: ask /a/seg=0"]);
    assert!(ask(&mut bench, 1, Class::Secondary).is_empty());
    assert!(ask(&mut bench, 2, Class::Primary).is_empty());
    let refused = |segment: u32, label| format!("1: nack 50 /a/seg={segment} by {label}");
    let label = bench.face(2).label;
    assert_eq!(ask(&mut bench, 3, Class::Secondary), [refused(3, label)]);
    // A primary Interest evicts a secondary one, but no Interest evicts a primary one.
    assert_eq!(ask(&mut bench, 4, Class::Primary), [refused(1, label)]);
    assert_eq!(ask(&mut bench, 5, Class::Primary), [refused(5, label)]);
    assert_eq!((bench.face(2).counts.refused, bench.face(2).interests_waiting), (3, 2));
    let left = bench.departures(ms(100));
    let lines: Vec<&str> = left.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(lines, ["2: ask /a/seg=2", "2: ask /a/seg=4"]);
    assert!(left[1].0 - left[0].0 > 1_000, "as long as a Data takes, more or less: {left:?}");
}

#[test]
fn who_asks_again_as_primary_does_not_wait_behind_others_because_the_first_was_secondary() {
    let any = FaceConfig::default();
    let mut bench = Bench::new(Config::default(), &[(1, any, &[]), (2, mbit(1), &["/a"])]);
    let ask = |bench: &mut Bench, segment: u32, nonce, class| {
        let mut packet = interest(&format!("/a/seg={segment}"), nonce);
        packet.header.class = class;
        bench.from(1, packet);
    };
    ask(&mut bench, 0, 1, Class::Primary);
    ask(&mut bench, 1, 2, Class::Secondary);
    for segment in 2..20 {
        ask(&mut bench, segment, segment, Class::Primary);
    }
    bench.pass(ms(20));
    let before = bench.face(2).interests_waiting;
    ask(&mut bench, 1, 100, Class::Secondary);
    assert_eq!(bench.face(2).interests_waiting, before, "there is one already");
    ask(&mut bench, 1, 101, Class::Primary);
    assert_eq!(bench.face(2).interests_waiting, before + 1);
    bench.pass(ms(1_000));
    // It leaves in its turn, once.
    let left = bench.packets();
    let left: Vec<u32> = left.iter().filter(|(to, _)| *to == 2).map(|(_, p)| nonce(p)).collect();
    let place = left.iter().position(|&nonce| nonce == 101).expect("it leaves");
    assert_eq!((left.len(), place, bench.face(2).interests_waiting), (20, 19, 0));
    bench.from(2, data("/a/seg=1"));
    assert_eq!(bench.packets().len(), 1);
}

#[test]
fn a_neighbour_has_no_more_pending_than_its_share_and_makes_way_for_who_has_less() {
    let any = FaceConfig::default();
    let config = Config { pending_max: 60, ..Config::default() };
    let faces: [(u32, FaceConfig, &[&str]); 4] =
        [(1, any, &[]), (2, any, &["/a"]), (3, any, &[]), (4, any, &[])];
    let mut bench = Bench::new(config, &faces);
    let ask = |bench: &mut Bench, from: u32, number: u32| {
        bench.from(from, interest(&format!("/a/seg={number}"), number));
        bench.sent()
    };
    // Twice its share.
    for number in 0..40 {
        let sent = ask(&mut bench, 1, number);
        let expected = if number < 30 { "2: ask" } else { "1: nack 50" };
        assert!(sent[0].starts_with(expected), "{number}: {sent:?}");
    }
    assert_eq!(bench.count("mircc_refused_face"), 10);
    for number in 100..130 {
        assert_eq!(ask(&mut bench, 3, number).len(), 1);
    }
    assert_eq!(bench.node.pending(), 60);
    // The table is full: a neighbour with less than its share takes places of the one with most, up
    // to its share.
    for number in 200..230 {
        let sent = ask(&mut bench, 4, number);
        assert_eq!(bench.node.pending(), 60);
        if number < 215 {
            assert!(sent.len() == 2 && sent[0].contains("nack 50"), "{number}: {sent:?}");
        } else {
            assert_eq!(sent, [format!("4: nack 50 /a/seg={number}")]);
        }
    }
    assert_eq!(bench.face(4).pending, 15);
    // So does the node itself, which has none yet.
    bench.command(Command::Ask(Box::new(question(1, "/a/own"))));
    assert_eq!((bench.node.pending(), bench.sent().len(), bench.told().len()), (60, 2, 0));
}

#[test]
fn the_node_s_own_interests_keep_to_the_bound_too() {
    let any = FaceConfig::default();
    let config = Config { pending_max: 20, ..Config::default() };
    let mut bench = Bench::new(config, &[(2, any, &["/a"])]);
    for number in 0..30 {
        bench.command(Command::Ask(Box::new(question(number, &format!("/a/seg={number}")))));
    }
    assert_eq!((bench.node.pending(), bench.packets().len()), (20, 20));
    let told = bench.told();
    assert_eq!((told.len(), told[0].as_str()), (10, "question 20: nack 50"));
}

/// Neighbours 1 and 3 ask by a link of 1 Mbit/s to neighbour 2, which refuses all Interests of 1.
fn flooded() -> Bench {
    let any = FaceConfig::default();
    let faces: [(u32, FaceConfig, &[&str]); 3] =
        [(1, any, &[]), (2, mbit(1), &["/a"]), (3, any, &[])];
    let mut bench = Bench::new(Config::default(), &faces);
    for number in 0..40 {
        bench.from(1, interest(&format!("/a/none/seg={number}"), number));
        bench.pass(ms(20));
        bench.packets();
        bench.from(2, nack(&format!("/a/none/seg={number}"), number, NackReason::NoRoute));
    }
    assert!(bench.face(2).has_deprioritized);
    bench.pass(ms(1_000));
    bench.packets();
    bench
}

#[test]
fn who_asks_in_vain_waits_behind_all_others_and_is_no_demand() {
    let mut bench = flooded();
    let ask = |bench: &mut Bench, from: u32, number: u32, class| {
        let mut packet = interest(&format!("/a/seg={number}"), number);
        packet.header.class = class;
        bench.from(from, packet);
    };
    let before = bench.count("mircc_deprioritized");
    (0..4).for_each(|number| ask(&mut bench, 1, number, Class::Primary));
    (4..6).for_each(|number| ask(&mut bench, 3, number, Class::Secondary));
    (6..8).for_each(|number| ask(&mut bench, 3, number, Class::Primary));
    bench.pass(ms(100));
    let left = bench.packets();
    let left: Vec<u32> = left.iter().filter(|(to, _)| *to == 2).map(|(_, p)| nonce(p)).collect();
    assert_eq!(left, [0, 6, 7, 4, 5, 1, 2, 3]);
    assert_eq!(bench.count("mircc_deprioritized") - before, 4);
}

#[test]
fn the_rate_is_not_lowered_by_who_asks_in_vain() {
    let mut bench = flooded();
    for number in 1_000..2_000 {
        bench.from(1, interest(&format!("/a/none/seg={number}"), number));
        bench.pass(ms(1));
        let passed = bench.packets();
        for (_, packet) in passed.iter().filter(|(to, _)| *to == 2) {
            let Body::Interest(asked) = &packet.body else { panic!("it asks") };
            let refusal = Body::Nack(NackReason::NoRoute, Box::new(asked.clone()));
            bench.from(2, Packet { header: Header::default(), body: refusal });
        }
    }
    assert_eq!(bench.face(2).rates_bits_per_second.expect("it is known").0, 950_000.0);
}

#[test]
fn other_neighbours_do_not_wait_behind_a_deprioritized_one() {
    let mut bench = flooded();
    (0..8).for_each(|number| bench.from(1, interest(&format!("/a/seg={number}"), number)));
    // The same name that 1 asked for: it leaves for 3, at once and once.
    bench.from(3, interest("/a/seg=7", 100));
    bench.from(3, interest("/a/seg=8", 101));
    bench.pass(ms(100));
    let left = bench.packets();
    let left: Vec<u32> = left.iter().filter(|(to, _)| *to == 2).map(|(_, p)| nonce(p)).collect();
    assert_eq!(left, [0, 100, 101, 1, 2, 3, 4, 5, 6]);
    bench.from(2, data("/a/seg=7"));
    let to: Vec<u64> = bench.packets().into_iter().map(|(to, _)| to).collect();
    assert_eq!(to, [1, 3]);
}

#[test]
fn answers_restore_priority_and_congestion_does_not_lower_it() {
    let mut bench = flooded();
    for number in 0..40 {
        bench.from(1, interest(&format!("/a/seg={number}"), number));
        bench.pass(ms(20));
        bench.from(2, data(&format!("/a/seg={number}")));
    }
    assert!(!bench.face(2).has_deprioritized);
    bench.packets();
    for number in 1_000..1_100 {
        bench.from(1, interest(&format!("/a/none/seg={number}"), number));
        bench.pass(ms(20));
        bench.from(2, nack(&format!("/a/none/seg={number}"), number, NackReason::Congestion));
    }
    assert!(!bench.face(2).has_deprioritized);
    // Repeated Interests show that no answer came.
    for number in 2_000..2_040 {
        bench.from(1, interest("/a/seg=7000", number));
        bench.pass(ms(20));
    }
    assert!(bench.face(2).has_deprioritized);
}

#[test]
fn who_gets_no_answers_may_have_few_pending() {
    let mut bench = Bench::plain();
    for number in 0..400 {
        bench.from(1, interest(&format!("/a/seg={number}"), number));
    }
    bench.pass(ms(1_100));
    let answered = bench.face(1).answered;
    assert!(answered < 0.01, "{answered}");
    bench.pass(ms(3_000));
    assert_eq!(bench.node.pending(), 0);
    bench.packets();
    for number in 1_000..1_040 {
        bench.from(1, interest(&format!("/a/seg={number}"), number));
        bench.from(3, interest(&format!("/a/seg=9{number}"), number));
    }
    assert_eq!((bench.face(1).pending, bench.face(3).pending), (16, 40));
    // In a table of 30 entries each of three neighbours may have 20, and a neighbour without
    // answers a quarter.
    let any = FaceConfig::default();
    let config = Config { pending_max: 30, ..Config::default() };
    let mut bench = Bench::new(config, &[(1, any, &[]), (2, any, &["/a"]), (3, any, &[])]);
    for number in 0..400 {
        bench.from(1, interest(&format!("/a/seg={number}"), number));
        bench.pass(ms(100));
    }
    assert_eq!(bench.face(1).pending, 5);
}
