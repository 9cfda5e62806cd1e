//! Members that break the rules, and configurations that cannot work.

use super::*;

/// A repair by node 3 whose second name is changed. Its packets are 1.0, and 2.1 that is missing.
fn with_name(change: impl FnOnce(&mut Name)) -> Bench {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.data(2, 0);
    bench.told();
    let packets = [packet(G, 1, 0), packet(G, 2, 1)];
    let mut named = packets.clone().map(|packet| name_of(&packet));
    change(&mut named[1]);
    let (mut names, mut sum) = (NamesBuilder::default(), Sum::default());
    packets.iter().for_each(|packet| sum.add(&packet.payload));
    named.iter().for_each(|name| names.push(*name));
    let repair = Repair::new(ViewId(0), 0, Ages::default(), names.build(), sum.take_coded());
    bench.message(3, Message::Repair(repair));
    bench
}

#[test]
fn a_repair_that_names_what_cannot_be_leaves_nothing_but_a_count() {
    type Change = fn(&mut Name);
    let cases: [(Change, &str); 7] = [
        (|name| name.rank = 4, "slingshot_unknown_name"),
        (|name| name.rank = u16::MAX, "slingshot_unknown_name"),
        (|name| name.group = GroupId(1), "slingshot_foreign_group"),
        (|name| name.seq = 5000, "slingshot_name_too_far"),
        (|name| name.seq = u32::MAX / 2, "slingshot_name_too_far"),
        (|name| (name.rank, name.seq) = (0, 0), "slingshot_name_not_sent"),
        (|name| (name.rank, name.seq) = (1, 0), "slingshot_name_mismatch"),
    ];
    for (change, counter) in cases {
        let mut bench = with_name(change);
        assert!(bench.told().is_empty(), "{counter}");
        assert_eq!(bench.count(counter), 1, "{counter}");
        let node = &bench.node;
        assert_eq!((node.packets_missing(), node.repairs_parked()), (0, 0), "{counter}");
    }
    assert_eq!(with_name(|_| ()).told(), ["g0/n2.1 recovered after 0ns"], "the same, unchanged");
}

#[test]
fn what_is_computed_and_is_not_what_was_named_is_dropped() {
    let mut bench = with_name(|name| name.checksum ^= 1);
    assert!(bench.told().is_empty());
    assert_eq!(bench.count("slingshot_recovered_wrong"), 1);
    assert_eq!(bench.node.packets_missing(), 1, "it can still come");
    bench.data(2, 1);
    assert_eq!(bench.told(), ["g0/n2.1 direct"]);
}

#[test]
fn forged_lengths_are_no_packet() {
    for lengths in [0xffff, 0] {
        let mut bench = Bench::new(published(4));
        bench.data(1, 0);
        bench.data(2, 0);
        bench.told();
        let Message::Repair(good) = repair_of(&[packet(G, 1, 0), packet(G, 2, 1)], 0) else {
            unreachable!("a repair")
        };
        bench.message(3, Message::Repair(Repair { lengths, ..good }));
        assert!(bench.told().is_empty());
        let wrong =
            bench.count("slingshot_repair_wrong") + bench.count("slingshot_recovered_wrong");
        assert_eq!((wrong, bench.node.repairs_parked()), (1, 0), "{lengths}");
    }
}

#[test]
fn a_packet_named_under_another_checksum_than_it_has_is_delivered_as_its_sender_sent_it() {
    let mut bench = Bench::new(published(4));
    (1..3).for_each(|node| bench.data(node, 0));
    let mut forged = packet(G, 1, 1);
    forged.checksum ^= 0xff;
    bench.told();
    bench.message(3, repair_of(&[forged, packet(G, 2, 1)], 0));
    bench.data(1, 1);
    assert_eq!(bench.told(), ["g0/n1.1 direct"]);
    assert_eq!(bench.count("slingshot_name_mismatch"), 1);
    assert_eq!(bench.node.repairs_parked(), 0, "the repair was of something else");
}

#[test]
fn more_names_than_an_exclusive_or_may_have_are_refused() {
    let mut bench = Bench::new(published(4));
    let packets: Vec<Data> = (0..33).map(|seq| packet(G, 1, seq)).collect();
    bench.message(2, repair_of(&packets, 0));
    assert_eq!(bench.count("slingshot_too_many_names"), 1);
    assert_eq!((bench.node.packets_missing(), bench.node.flows()), (0, 0));
}

#[test]
fn what_is_parked_is_bounded_in_repairs_packets_and_bytes() {
    let config = published(4).with_parked_max(5).with_parked_packets_max(128);
    let mut bench = Bench::new(config);
    bench.data(1, 0);
    bench.data(2, 0);
    for seq in 1..200 {
        bench.repair(3, &[(1, 2 * seq - 1), (1, 2 * seq)]);
    }
    assert_eq!(bench.node.repairs_parked(), 5);
    assert_eq!(bench.count("slingshot_repair_evicted"), 194);
    let config = published(4).with_parked_max(1024).with_parked_bytes_max(1 << 16);
    let mut bench = Bench::new(config.with_parked_packets_max(4096));
    let large = |seq| packet_with(G, 1, seq, Payload::Zeros(1000));
    for seq in 1..200 {
        bench.message(3, repair_of(&[large(2 * seq - 1), large(2 * seq)], 0));
    }
    assert_eq!(bench.node.repairs_parked(), 65);
}

/// The sender itself announces more packets than can exist.
#[test]
fn a_sender_that_claims_absurd_numbers_costs_a_report_and_a_window() {
    let most = u64::MAX / 2;
    for order in [Order::Unordered, Order::Fifo] {
        let mut bench = Bench::new(published(4).with_order(order).with_window_packets(64));
        bench.data(1, 0);
        bench.message(1, heartbeat(1, most));
        let jumped = format!("g0/n1.1..{} lost", most - 64);
        assert_eq!(bench.told(), ["g0/n1.0 direct", &jumped], "{order:?}");
        assert_eq!(bench.node.packets_missing(), 64);
        bench.pass(ms(500));
        assert_eq!(bench.told(), [format!("g0/n1.{}..{most} lost", most - 64)], "{order:?}");
        bench.data(1, 1);
        assert_eq!((bench.told().len(), bench.count("slingshot_too_old")), (0, 1));
        bench.data(2, most);
        assert_eq!(bench.told(), [format!("g0/n2.{most} direct")], "{order:?}");
    }
}

#[test]
fn an_application_that_never_drains_costs_no_more_than_its_bounds() {
    for order in [Order::Unordered, Order::Fifo] {
        let config = published(4).with_order(order).with_unread_max(Some(8));
        let mut bench = Bench::new(config.with_heartbeat_after(None).with_packets_max(100));
        for seq in 0..10_000 {
            // Every fifth is missing; some of these are repaired, the others given up.
            if seq % 5 != 0 {
                bench.data(1, seq);
            } else if seq % 10 == 0 {
                bench.repair(2, &[(1, seq)]);
            }
            bench.pass(ms(1));
            bench.outbox.sends.clear();
        }
        bench.pass(ms(1_000));
        assert_eq!(bench.told().len(), 8, "{order:?}");
        let told = ["direct", "recovered", "lost"].map(|way| format!("slingshot_{way}"));
        let told: u64 = told.iter().map(|counter| bench.count(counter)).sum();
        let (held, overrun) = (bench.node.packets_held().0, bench.count("slingshot_overrun"));
        assert!(held <= 100 && bench.node.packets_missing() == 0, "{order:?}: {held}");
        assert!(overrun > 9_900 && told + overrun >= 10_000, "{order:?}: {told} {overrun}");
    }
}

#[test]
fn what_is_missing_is_bounded_and_the_rest_is_lost_at_once() {
    let mut bench = Bench::new(published(4).with_missing_max(10));
    bench.data(1, 0);
    bench.data(1, 100);
    assert_eq!(bench.node.packets_missing(), 10);
    assert_eq!(bench.count("slingshot_missing_overflow"), 89);
    assert_eq!(bench.told(), ["g0/n1.0 direct", "g0/n1.11..100 lost", "g0/n1.100 direct"]);
    bench.pass(ms(500));
    assert_eq!(bench.told(), ["g0/n1.1..11 lost"]);
}

#[test]
fn senders_are_bounded_too() {
    let mut bench = Bench::new(published(4).with_flows_max(2));
    (1..4).for_each(|node| bench.data(node, 0));
    assert_eq!(bench.told(), ["g0/n1.0 direct", "g0/n2.0 direct"]);
    assert_eq!((bench.node.flows(), bench.count("slingshot_flows_full")), (2, 1));
}

#[test]
fn a_stranger_and_an_echo_are_counted_and_dropped() {
    let mut bench = Bench::new(published(3));
    bench.message(7, Message::Data(packet(G, 7, 0)));
    bench.message(0, Message::Data(packet(G, 0, 0)));
    bench.message(1, Message::Data(packet(GroupId(4), 1, 0)));
    assert!(bench.told().is_empty() && bench.node.flows() == 0);
    for counter in ["slingshot_foreign_sender", "slingshot_own_echo", "slingshot_foreign_group"] {
        assert_eq!(bench.count(counter), 1, "{counter}");
    }
}

#[test]
fn a_supply_cannot_start_a_sender_anew() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.told();
    let payload = Payload::from("old");
    let checksum = checksum(G, 55, 1, &payload);
    let framing = Framing::Whole;
    let data = Data { group: G, incarnation: 55, seq: 1, framing, checksum, payload };
    bench.message(2, Message::Supply(Supply { view: ViewId(0), rank: 1, data: data.clone() }));
    assert_eq!(bench.count("slingshot_other_incarnation"), 1);
    bench.message(2, Message::Supply(Supply { view: ViewId(0), rank: 9, data: data.clone() }));
    bench.message(2, Message::Supply(Supply { view: ViewId(5), rank: 1, data }));
    assert_eq!(bench.count("slingshot_foreign_view"), 2);
    assert!(bench.told().is_empty());
}

#[test]
fn a_group_of_one_and_more_copies_than_members_send_to_those_there_are() {
    let mut bench = Bench::new(Config::published(roster(1), Rate { r: 1, c: 3 }));
    bench.send("alone");
    assert_eq!(bench.sent(), ["g0: data g0 seq 0 5 B"]);
    let mut bench = Bench::new(Config::published(roster(3), Rate { r: 1, c: 5 }));
    bench.data(1, 0);
    assert_eq!(bench.sent().len(), 2);
    assert_eq!(bench.count("slingshot_copies_too_many"), 3);
}

#[test]
fn a_flood_of_forged_repairs_holds_no_more_than_its_bounds() {
    let mut rng = Rng::new(9, 9);
    for code in [Code::Xor { stagger: 2 }, Code::Rlc { window: 16 }] {
        let config = published(6).with_code(code).with_order(Order::Fifo).with_window_packets(64);
        let config = config.with_pull(Some(Pull::default())).with_missing_max(100);
        let mut bench = Bench::new(config.with_lost_after(ms(200)));
        for turn in 0..20_000u64 {
            let from = 1 + rng.below(5);
            let mut names = NamesBuilder::default();
            for _ in 0..1 + rng.below(8) {
                let (rank, seq) = (rng.below(8) as u16, turn as u32 / 100 + rng.below(80));
                names.push(Name { group: G, rank, seq, checksum: rng.below(3) });
            }
            let body = Payload::from(vec![rng.below(256) as u8; rng.below(40) as usize]);
            let coded = crate::parts::fec::Coded { lengths: rng.below(60), body };
            match rng.below(6) {
                0 => bench.data(from, turn / 100 + u64::from(rng.below(4))),
                1 => {
                    let data = packet(G, from, turn / 100 + u64::from(rng.below(70)));
                    let rank = from as u16;
                    let supply = Supply { view: ViewId(0), rank, data };
                    bench.message(1, Message::Supply(supply));
                }
                2 => bench.message(from, Message::Ask { view: ViewId(0), names: names.build() }),
                3 => bench.message(from, heartbeat(from, turn / 100 + u64::from(rng.below(90)))),
                _ => {
                    let repair = Repair::new(
                        ViewId(0),
                        turn as u32 % 3,
                        Ages::default(),
                        names.build(),
                        coded,
                    );
                    bench.message(from, Message::Repair(repair));
                }
            }
            if turn % 7 == 0 {
                bench.pass(ms(1));
            }
            bench.outbox.sends.clear();
            let node = &bench.node;
            assert!(node.packets_missing() <= 100 && node.repairs_parked() <= 64);
        }
        // Each packet is delivered or reported lost, once and in order, without a gap.
        let mut next = std::collections::BTreeMap::new();
        bench.pass(ms(1000));
        for event in bench.outbox.events.drain(..) {
            let (sender, first, end) = match event {
                Event::Delivered { sender, seq, .. } => (sender, seq, seq + 1),
                Event::Lost { sender, first, end, .. } => (sender, first, end),
                other => panic!("{other:?}"),
            };
            let expected = next.entry(sender).or_insert(first);
            assert_eq!(*expected, first, "{sender}");
            *expected = end;
        }
        assert_eq!(bench.node.packets_missing(), 0);
    }
}

#[test]
fn a_configuration_that_cannot_work_says_which_knob() {
    let cases: [(Config, &str); 14] = [
        (published(4).with_rate(Rate { r: 0, c: 1 }), "r is 0, expected 1 to 32"),
        (published(4).with_rate(Rate { r: 1, c: 33 }), "c is 33, expected 1 to 32"),
        (published(4).with_r_max(2), "r_max is 2, expected at least `r`, and at most 32"),
        (published(4).with_code(Code::Xor { stagger: 0 }), "stagger is 0, expected 1 to 64"),
        (
            published(4).with_code(Code::Rlc { window: 2 }),
            "window is 2, expected at least 2, `r`, and at most 128",
        ),
        (published(70_000), "roster is 70000, expected at most 65536 members"),
        (published(4).with_window_packets(31), "window_packets is 31, expected 32 to 65536"),
        (published(4).with_parked_max(0), "parked_max is 0, expected 1 to 1024"),
        (published(4).with_bytes_max(1), "bytes_max is 1, expected at least 65536"),
        (published(4).with_heartbeats_max(0), "heartbeats_max is 0, expected 1 to 16"),
        (published(4).with_keep(Duration::ZERO), "keep is 0s, expected above 0"),
        (
            published(4).with_flush_after(Some(Duration::ZERO)),
            "flush_after is 0s, expected above 0",
        ),
        (published(4).with_lost_after(ms(7)), "lost_after is 7ms, expected at least the deadline"),
        (
            published(4).with_groups([(G, None), (G, None)]),
            "groups is 0, expected each group configured once",
        ),
    ];
    for (config, expected) in cases {
        assert_eq!(config.build().expect_err(expected).to_string(), expected);
    }
    assert!(Rate::new(33, 1).is_err() && Rate::new(32, 32).is_ok());
}

/// A member makes up a packet of another one, far ahead. Receivers then refuse what that sender
/// sends: they have reported it lost, and it may be a late copy. They accept it again once no other
/// member has named a later packet for five seconds.
#[test]
fn who_others_speak_of_falsely_is_heard_again_and_nothing_of_it_is_told_twice() {
    for (order, keep) in [Order::Unordered, Order::Fifo]
        .into_iter()
        .flat_map(|order| [ms(1_000), ms(20_000)].map(|keep| (order, keep)))
    {
        let mut bench = Bench::new(published(4).with_order(order).with_keep(keep));
        (0..3).for_each(|seq| bench.data(1, seq));
        bench.repair(3, &[(1, 99), (1, 2)]);
        let supply = Supply { view: ViewId(0), rank: 1, data: packet(G, 1, 100) };
        bench.repair(3, &[(1, 100), (1, 2)]);
        bench.message(3, Message::Supply(supply));
        bench.pass(ms(1_600));
        let what = format!("{order:?}, kept {keep:?}");
        let told = bench.told().join(" ");
        assert!(told.contains("g0/n1.100 recovered") && told.contains(" lost"), "{what}: {told}");
        bench.data(1, 3);
        assert!(bench.told().is_empty(), "{what}: it may be a late copy");
        // A late copy of a packet that the sender announced is not delivered again.
        bench.pass(ms(4_000));
        (0..4).for_each(|seq| bench.data(1, seq));
        assert!(bench.told().is_empty() && bench.count("slingshot_gone_back") == 0, "{what}");
        (5..8).for_each(|seq| bench.data(1, seq));
        let expected = [5, 6, 7].map(|seq| format!("g0/n1.{seq} direct"));
        assert_eq!(bench.told(), expected, "{what}");
        (0..8).for_each(|seq| bench.data(1, seq));
        assert_eq!(bench.count("slingshot_gone_back"), 1, "{what}");
        assert!(bench.told().is_empty(), "{what}");
        // It continues as before: gaps are missed, and claims of others count.
        bench.data(1, 9);
        bench.repair(2, &[(1, 8)]);
        let mut told = bench.told();
        told.sort();
        assert_eq!(told, ["g0/n1.8 recovered after 0ns", "g0/n1.9 direct"], "{what}");
        assert_eq!(bench.node.packets_missing(), 0);
    }
}

/// The same by a pause: repairs brought what its sender's own datagrams, which came before it and
/// were read after it, bring again.
#[test]
fn packets_whose_datagrams_come_long_after_repairs_brought_them_are_told_once() {
    for order in [Order::Unordered, Order::Fifo] {
        let mut bench = Bench::new(published(4).with_order(order));
        bench.data(1, 0);
        bench.data(2, 0);
        (1..6).for_each(|seq| bench.repair(3, &[(1, seq), (2, 0)]));
        let told = bench.told();
        assert_eq!(told.len(), 7, "{told:?}");
        bench.pass(ms(6_000));
        // Packets that came long ago are dropped.
        (1..3).for_each(|seq| bench.data(2, seq));
        bench.told();
        for seq in [2, 1, 3] {
            bench.data(1, seq);
        }
        // Two of them come by repairs once more.
        bench.repair(3, &[(1, 4), (2, 2)]);
        bench.repair(3, &[(1, 5), (2, 2)]);
        bench.data(1, 6);
        assert_eq!(bench.told(), ["g0/n1.6 direct"], "{order:?}");
        assert_eq!(bench.count("slingshot_gone_back"), 1);
        assert_eq!(bench.node.packets_missing(), 0);
    }
}
