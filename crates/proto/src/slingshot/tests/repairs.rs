//! The first phase: bins, repairs and recovered packets.

use super::*;

#[test]
fn a_full_bin_goes_to_distinct_others_and_is_empty_then() {
    let mut bench = Bench::new(Config::published(roster(6), Rate { r: 2, c: 3 }));
    bench.data(1, 0);
    assert!(bench.sent().is_empty());
    bench.data(2, 0);
    let repairs = bench.messages();
    let mut receivers: Vec<u64> = repairs.iter().map(|(to, _)| to.0).collect();
    receivers.sort_unstable();
    receivers.dedup();
    assert_eq!(receivers.len(), 3, "{receivers:?}");
    assert!(!receivers.contains(&0), "not to itself");
    let expected = repair_of(&[packet(G, 1, 0), packet(G, 2, 0)], Coefficients::XOR);
    assert!(repairs.iter().all(|(_, repair)| *repair == expected));
    bench.data(1, 1);
    bench.data(1, 2);
    let again = repair_of(&[packet(G, 1, 1), packet(G, 1, 2)], Coefficients::XOR);
    assert_eq!(bench.messages()[0].1, again);
    assert_eq!((bench.count("slingshot_repairs"), bench.count("slingshot_direct")), (6, 4));
}

#[test]
fn every_other_member_is_drawn_as_often() {
    let mut bench = Bench::new(Config::published(roster(8), Rate { r: 1, c: 2 }));
    let mut drawn = [0u32; 8];
    for seq in 0..3500 {
        bench.data(1, seq);
        bench.messages().iter().for_each(|(to, _)| drawn[to.index()] += 1);
    }
    // 1,000 each; the standard deviation is 27.
    assert_eq!(drawn[0], 0);
    assert!(drawn[1..].iter().all(|count| (890..1110).contains(count)), "{drawn:?}");
}

#[test]
fn its_own_packets_are_not_in_its_repairs() {
    let mut bench = Bench::new(published(4));
    bench.send("own");
    bench.data(1, 0);
    bench.data(1, 1);
    assert_eq!(bench.sent(), ["g0: data g0 seq 0 3 B"]);
    bench.data(1, 2);
    let sent = bench.sent();
    assert!(sent[0].ends_with("g0/1.0 g0/1.1 g0/1.2"), "{sent:?}");
}

#[test]
fn a_repair_with_one_packet_missing_recovers_it_whatever_the_lengths() {
    for lost in 0..3 {
        let mut bench = Bench::new(published(4));
        let packets = [(1, 3), (2, 4), (3, 5)];
        // Each sender is known already.
        (1..4).for_each(|node| (0..u64::from(node) + 2).for_each(|seq| bench.data(node, seq)));
        for (place, &(node, seq)) in packets.iter().enumerate() {
            if place != lost {
                bench.data(node, seq);
            }
        }
        bench.told();
        bench.repair(3, &packets);
        let (node, seq) = packets[lost];
        assert_eq!(bench.told(), [format!("g0/n{node}.{seq} recovered after 0ns")]);
        bench.data(node, seq);
        assert!(bench.told().is_empty(), "not twice");
        assert_eq!(bench.count("slingshot_overtaken"), 1);
    }
}

#[test]
fn a_repair_of_what_is_there_is_dropped() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.data(2, 0);
    bench.told();
    bench.repair(3, &[(1, 0), (2, 0)]);
    assert!(bench.told().is_empty());
    assert_eq!(bench.count("slingshot_repair_unneeded"), 1);
    assert_eq!(bench.node.repairs_parked(), 0);
}

#[test]
fn a_repair_with_more_missing_waits_for_an_arrival() {
    let mut bench = Bench::new(published(4));
    (1..4).for_each(|node| bench.data(node, 0));
    bench.repair(3, &[(1, 1), (2, 1)]);
    assert_eq!((bench.node.repairs_parked(), bench.node.packets_missing()), (1, 2));
    bench.told();
    bench.now += ms(3);
    bench.data(2, 1);
    assert_eq!(bench.told(), ["g0/n2.1 direct", "g0/n1.1 recovered after 3ms"]);
    assert_eq!((bench.node.repairs_parked(), bench.node.packets_missing()), (0, 0));
}

#[test]
fn what_is_recovered_makes_other_repairs_usable() {
    let mut bench = Bench::new(published(4));
    (1..4).for_each(|node| bench.data(node, 0));
    bench.told();
    bench.repair(3, &[(1, 1), (2, 1)]);
    bench.repair(2, &[(2, 1), (3, 1)]);
    assert!(bench.told().is_empty());
    bench.repair(2, &[(3, 1), (3, 0)]);
    let mut told = bench.told();
    told.sort();
    let expected = [1, 2, 3].map(|node| format!("g0/n{node}.1 recovered after 0ns"));
    assert_eq!(told, expected);
}

#[test]
fn what_was_recovered_is_not_put_into_bins() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.data(2, 0);
    bench.repair(3, &[(1, 0), (1, 1)]);
    assert_eq!(bench.told().len(), 3);
    assert_eq!(bench.node.packets_binned(), 2);
}

#[test]
fn its_own_packets_can_be_taken_out_of_repairs() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.send("own packet");
    bench.told();
    let payload = Payload::from("own packet");
    let checksum = checksum(G, INCARNATION, 0, &payload);
    let lost = packet(G, 1, 1);
    let (mut names, mut sum) = (NamesBuilder::default(), Sum::default());
    names.push(Name { group: G, rank: 0, seq: 0, checksum });
    names.push(name_of(&lost));
    sum.add(&payload);
    sum.add(&lost.payload);
    let repair = Repair::new(ViewId(0), 0, Ages::default(), names.build(), sum.take_coded());
    bench.message(2, Message::Repair(repair));
    assert_eq!(bench.told(), ["g0/n1.1 recovered after 0ns"]);
}

#[test]
fn a_packet_recovered_before_its_sender_was_heard_is_delivered_once_it_is() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.told();
    bench.repair(3, &[(1, 0), (2, 0)]);
    assert!(bench.told().is_empty(), "the incarnation of its sender is unknown");
    bench.now += ms(64);
    bench.data(2, 1);
    assert_eq!(bench.told(), ["g0/n2.1 direct", "g0/n2.0 recovered after 64ms"]);
}

#[test]
fn a_partial_bin_is_sent_after_a_time_and_a_full_one_does_not_count_for_the_next() {
    let mut bench = Bench::new(published(4).with_flush_after(Some(ms(10))));
    (0..3).for_each(|seq| bench.data(1, seq));
    assert_eq!(bench.sent().len(), 1);
    bench.now += ms(4);
    bench.data(1, 3);
    bench.pass(ms(9));
    assert!(bench.sent().is_empty(), "ten milliseconds from its own first packet");
    bench.pass(ms(1));
    let sent = bench.sent();
    assert!(sent.len() == 1 && sent[0].ends_with(": g0/1.3"), "{sent:?}");
    assert_eq!(bench.count("slingshot_repairs_partial"), 1);
    bench.pass(ms(1000));
    assert!(bench.sent().is_empty() && bench.outbox.timers.is_empty(), "at rest");
}

#[test]
fn staggered_bins_take_packets_in_turn() {
    let config = published(4).with_code(Code::Xor { stagger: 3 });
    let mut bench = Bench::new(config);
    (0..9).for_each(|seq| bench.data(1, seq));
    let sent: Vec<String> = bench.sent();
    let named: Vec<&str> = sent.iter().map(|line| line.split(" B: ").nth(1).unwrap()).collect();
    assert_eq!(named, ["g0/1.0 g0/1.3 g0/1.6", "g0/1.1 g0/1.4 g0/1.7", "g0/1.2 g0/1.5 g0/1.8"]);
}

#[test]
fn a_random_linear_code_sends_the_last_packets_after_each_few() {
    let config = published(4).with_code(Code::Rlc { window: 5 });
    let mut bench = Bench::new(config);
    (0..6).for_each(|seq| bench.data(1, seq));
    let repairs = bench.messages();
    assert_eq!(repairs.len(), 2);
    let Message::Repair(second) = &repairs[1].1 else { panic!("{}", repairs[1].1) };
    let seqs: Vec<u32> = second.names.iter().map(|name| name.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
    assert_ne!(second.seed, Coefficients::XOR);
    let packets: Vec<Data> = (1..6).map(|seq| packet(G, 1, seq)).collect();
    assert_eq!(repair_of(&packets, second.seed), repairs[1].1);
}

#[test]
fn a_random_linear_code_recovers_as_many_packets_as_it_has_repairs() {
    let config = published(4).with_code(Code::Rlc { window: 8 });
    let mut bench = Bench::new(config);
    bench.data(1, 0);
    bench.data(1, 5);
    bench.told();
    let packets: Vec<Data> = (0..6).map(|seq| packet(G, 1, seq)).collect();
    for seed in 1..4 {
        bench.message(2, repair_of(&packets, seed));
        assert!(bench.told().is_empty());
    }
    bench.message(3, repair_of(&packets, 4));
    let mut told = bench.told();
    told.sort();
    let expected = [1, 2, 3, 4].map(|seq| format!("g0/n1.{seq} recovered after 0ns"));
    assert_eq!(told, expected);
}

#[test]
fn what_is_old_is_not_encoded_again() {
    let config = published(4).with_code(Code::Rlc { window: 5 }).with_keep(ms(100));
    let mut bench = Bench::new(config);
    bench.data(1, 0);
    bench.now += ms(51);
    bench.data(1, 1);
    bench.data(1, 2);
    let sent = bench.sent();
    assert!(sent[0].ends_with("B: g0/1.1 g0/1.2"), "{sent:?}");
}

#[test]
fn the_rate_can_be_changed_within_what_was_configured() {
    let mut bench = Bench::new(published(6).with_r_max(4));
    bench.data(1, 0);
    bench.data(1, 1);
    bench.command(Command::SetRate(Rate { r: 2, c: 2 }));
    bench.data(1, 2);
    assert_eq!(bench.sent().len(), 2, "three packets in a bin that is full now");
    (3..5).for_each(|seq| bench.data(1, seq));
    assert_eq!(bench.sent().len(), 2);
    bench.told();
    bench.command(Command::SetRate(Rate { r: 5, c: 1 }));
    assert_eq!(bench.told(), ["rejected 0: a repair of 5 packets, at most 4 are allowed"]);
    assert_eq!(bench.node.rate(), Rate { r: 2, c: 2 });
}

#[test]
fn a_packet_of_the_largest_size_fits_a_repair_of_such_packets() {
    for (code, has_overlap) in [
        (Code::Xor { stagger: 1 }, false),
        (Code::Xor { stagger: 1 }, true),
        (Code::Rlc { window: 32 }, true),
    ] {
        let config = published(4).with_code(code).with_overlap(has_overlap);
        let groups = if has_overlap { 2 } else { 1 };
        let members: Arc<[NodeId]> = (0..4).map(NodeId).collect();
        let groups = (0..groups).map(|group| (GroupId(group), Some(members.clone())));
        let config = config.with_groups(groups).with_overlap(has_overlap);
        let mut bench = Bench::new(config);
        let bytes = bench.config.payload_bytes_max(1200);
        assert!(bytes > 600, "{bytes}");
        for seq in 0..32 {
            let group = GroupId(if has_overlap { seq % 2 } else { 0 });
            let payload = Payload::from(vec![seq as u8; bytes]);
            let data = packet_with(group, 1, u64::from(seq / 2), payload);
            bench.message(1, Message::Data(data));
        }
        let longest = bench.messages().iter().map(|(_, m)| crate::core::Wire::wire_len(m)).max();
        assert!(longest.is_some_and(|longest| longest <= 1200), "{longest:?}");
        assert_eq!(bench.count("slingshot_repair_oversized"), 0);
        for (bytes, packets) in [(bytes, 1), (bytes + 1, 2)] {
            bench.sent();
            bench.command(Command::multicast(Payload::from(vec![0; bytes])));
            let sent = bench.sent();
            let data = sent.iter().filter(|line| line.starts_with("g0: data"));
            assert_eq!(data.count(), packets, "{bytes} bytes: {sent:?}");
        }
    }
}

#[test]
fn zeros_are_recovered_as_zeros_and_take_no_memory() {
    let mut bench = Bench::new(published(4));
    let zeros: Vec<Data> =
        (0..3).map(|seq| packet_with(G, 1, seq, Payload::Zeros(1000 + seq as u32))).collect();
    bench.message(1, Message::Data(zeros[0].clone()));
    bench.message(1, Message::Data(zeros[1].clone()));
    bench.message(2, repair_of(&zeros, Coefficients::XOR));
    let last = bench.outbox.events.pop().expect("recovered");
    let Event::Delivered { payload, seq: 2, how: How::Recovered { .. }, .. } = last else {
        panic!("{last:?}")
    };
    assert!(matches!(payload, Payload::Zeros(1002)), "{payload:?}");
}

#[test]
fn what_the_tuner_chooses_can_be_configured() {
    use tuner::{Conditions, Target, choose};
    let conditions = Conditions::new(64, 0.01, 1000.0);
    for code in [tuner::Code::Xor, tuner::Code::Linear { window: 32 }] {
        let target = Target::new(0.9, ms(20), 0.5);
        let choice = choose(&target, &conditions, &[code]).expect("within reach");
        let config = Config::new(roster(64)).with_setting(choice.setting).build();
        let rate = config.expect("within the ranges").rate();
        assert_eq!((rate.r, rate.c), (choice.setting.r.into(), choice.setting.c.into()));
    }
}
