//! Deliveries and loss reports to the application.

use super::*;

#[test]
fn a_member_joins_its_group_and_sends_to_it_and_does_not_hear_itself() {
    let mut bench = Bench::new(published(4));
    assert_eq!(bench.outbox.links.memberships, [(G, Membership::Joined)]);
    let payload = Payload::from("hello");
    bench.command(Command::Multicast { group: G, payload, ticket: 9 });
    bench.send("again");
    assert_eq!(bench.sent(), ["g0: data g0 seq 0 5 B", "g0: data g0 seq 1 5 B"]);
    assert_eq!(bench.told(), ["sent 9 as 0"]);
    assert_eq!(bench.node.packets_sent(G), 2);
}

#[test]
fn packets_are_told_as_they_come_unless_order_is_asked_for() {
    let of = |order| {
        let mut bench = Bench::new(published(4).with_order(order));
        bench.data(1, 0);
        bench.data(1, 2);
        bench.data(2, 0);
        bench.data(1, 3);
        let before = bench.told();
        bench.data(1, 1);
        (before, bench.told())
    };
    let direct = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("g0/{name} direct")).collect()
    };
    assert_eq!(
        of(Order::Unordered),
        (direct(&["n1.0", "n1.2", "n2.0", "n1.3"]), direct(&["n1.1"]))
    );
    assert_eq!(of(Order::Fifo), (direct(&["n1.0", "n2.0"]), direct(&["n1.1", "n1.2", "n1.3"])));
}

#[test]
fn a_gap_is_reported_lost_after_its_time_and_never_delivered_then() {
    let mut bench = Bench::new(published(4).with_deadline(ms(50)).with_lost_after(ms(80)));
    bench.data(1, 0);
    bench.data(1, 3);
    bench.told();
    bench.pass(ms(79));
    assert!(bench.told().is_empty());
    bench.pass(ms(1));
    assert_eq!(bench.told(), ["g0/n1.1..3 lost"]);
    bench.data(1, 1);
    bench.repair(2, &[(1, 2), (1, 3)]);
    assert!(bench.told().is_empty());
    assert_eq!(bench.count("slingshot_after_lost"), 1);
    assert_eq!(bench.count("slingshot_lost"), 2);
    assert_eq!(bench.node.progress(G, NodeId(1)), Some((4, 4)));
}

#[test]
fn what_takes_longer_than_the_deadline_is_flagged_late() {
    let mut bench = Bench::new(published(4).with_deadline(ms(50)).with_lost_after(ms(80)));
    bench.data(1, 0);
    bench.data(1, 3);
    bench.told();
    bench.pass(ms(50));
    bench.data(1, 1);
    bench.pass(ms(1));
    bench.repair(2, &[(1, 2), (1, 3)]);
    assert_eq!(bench.told(), ["g0/n1.1 direct", "g0/n1.2 recovered after 51ms, late"]);
    assert_eq!(bench.count("slingshot_late"), 1);
}

#[test]
fn in_order_what_waits_for_a_lost_packet_is_told_after_the_loss() {
    let config = published(4).with_order(Order::Fifo).with_lost_after(ms(80));
    let mut bench = Bench::new(config.with_deadline(ms(80)));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.data(1, 4);
    bench.told();
    bench.pass(ms(80));
    let expected = ["g0/n1.1..2 lost", "g0/n1.2 direct", "g0/n1.3..4 lost", "g0/n1.4 direct"];
    assert_eq!(bench.told(), expected);
}

#[test]
fn a_sender_that_has_just_begun_is_missed_from_its_first_packet_on_and_an_old_one_is_not() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 3);
    bench.data(2, 1000);
    bench.pass(ms(500));
    assert_eq!(bench.told(), ["g0/n1.3 direct", "g0/n2.1000 direct", "g0/n1.0..3 lost"]);
    bench.data(2, 999);
    assert!(bench.told().is_empty());
    assert_eq!(bench.count("slingshot_too_old"), 1);
}

#[test]
fn a_heartbeat_tells_of_packets_at_the_end() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.told();
    bench.message(1, heartbeat(1, 1));
    assert_eq!(bench.node.packets_missing(), 0);
    bench.message(1, heartbeat(1, 3));
    assert_eq!(bench.node.packets_missing(), 2);
    bench.pass(ms(500));
    assert_eq!(bench.told(), ["g0/n1.1..3 lost"]);
}

#[test]
fn a_silent_sender_says_how_much_it_has_sent_a_few_times() {
    let config = published(4).with_heartbeat_after(Some(ms(100))).with_heartbeats_max(3);
    let mut bench = Bench::new(config);
    bench.send("a");
    bench.pass(ms(60));
    bench.send("b");
    bench.sent();
    bench.pass(ms(99));
    assert!(bench.sent().is_empty());
    bench.pass(ms(1));
    assert_eq!(bench.sent(), ["g0: heartbeat g0 next 2"]);
    bench.pass(ms(199));
    assert!(bench.sent().is_empty());
    bench.pass(ms(1));
    bench.pass(ms(400));
    assert_eq!(bench.sent(), ["g0: heartbeat g0 next 2"; 2]);
    bench.pass(ms(100_000));
    assert!(bench.sent().is_empty() && bench.outbox.timers.is_empty(), "at rest");
    bench.send("c");
    bench.pass(ms(100));
    assert_eq!(bench.sent(), ["g0: data g0 seq 2 1 B", "g0: heartbeat g0 next 3"]);
}

#[test]
fn packets_are_kept_for_a_time_and_in_a_number() {
    let config = published(4).with_keep(ms(100)).with_packets_max(4);
    let mut bench = Bench::new(config);
    (0..6).for_each(|seq| bench.data(1, seq));
    assert_eq!(bench.node.packets_held().0, 4);
    assert_eq!(bench.count("slingshot_evicted_early"), 2);
    bench.pass(ms(100));
    bench.data(2, 0);
    assert_eq!(bench.node.packets_held().0, 1);
    bench.repair(3, &[(1, 5), (1, 6)]);
    assert_eq!(bench.count("slingshot_name_too_old"), 1, "5 cannot be taken out any more");
    assert_eq!(bench.node.packets_missing(), 0);
}

#[test]
fn an_eviction_in_order_gives_up_what_the_packet_waits_for() {
    let config = published(4).with_order(Order::Fifo).with_packets_max(2);
    let mut bench = Bench::new(config);
    [0, 2, 3].iter().for_each(|&seq| bench.data(1, seq));
    assert_eq!(bench.told(), ["g0/n1.0 direct"]);
    bench.data(1, 4);
    let expected = ["g0/n1.1..2 lost", "g0/n1.2 direct", "g0/n1.3 direct", "g0/n1.4 direct"];
    assert_eq!(bench.told(), expected);
}

#[test]
fn a_jump_beyond_the_window_loses_what_is_left_behind_as_one_report() {
    for order in [Order::Unordered, Order::Fifo] {
        let config = published(4).with_window_packets(32).with_order(order);
        let mut bench = Bench::new(config);
        bench.data(1, 0);
        bench.data(1, 2);
        bench.data(1, 1_000_000);
        bench.pass(ms(500));
        bench.pass(ms(1));
        let mut told = bench.told();
        told.sort();
        let mut expected = [
            "g0/n1.0 direct",
            "g0/n1.1..2 lost",
            "g0/n1.1000000 direct",
            "g0/n1.2 direct",
            "g0/n1.3..999969 lost",
            "g0/n1.999969..1000000 lost",
        ];
        expected.sort_unstable();
        assert_eq!(told, expected, "{order:?}");
        assert_eq!(bench.count("slingshot_lost"), 999_998, "{order:?}");
    }
}

#[test]
fn an_application_that_does_not_drain_is_told_how_much_it_missed() {
    let config = published(4).with_unread_max(Some(3));
    let mut bench = Bench::new(config.with_lost_after(ms(200)));
    (0..5).for_each(|seq| bench.data(1, seq));
    bench.data(1, 7);
    bench.pass(ms(200));
    assert_eq!(bench.told(), ["g0/n1.0 direct", "g0/n1.1 direct", "g0/n1.2 direct"]);
    assert_eq!(bench.count("slingshot_overrun"), 5, "3, 4, 7, and 5 and 6 that were lost");
    bench.command(Command::Consumed { events: 2 });
    bench.data(1, 8);
    bench.data(1, 9);
    assert_eq!(bench.told(), ["overrun 5", "g0/n1.8 direct"]);
    assert_eq!(bench.count("slingshot_overrun"), 6);
}

#[test]
fn a_restarted_sender_is_another_one() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.told();
    let payload = Payload::from("again");
    let checksum = checksum(G, 555, 0, &payload);
    let framing = Framing::Whole;
    let restarted = Data { group: G, incarnation: 555, seq: 0, framing, checksum, payload };
    bench.message(1, Message::Data(restarted));
    let events: Vec<Event> = bench.outbox.events.drain(..).collect();
    let lost =
        Event::Lost { group: G, sender: NodeId(1), incarnation: 101, first: 1, end: 2, came: 0 };
    assert_eq!(events[0], lost, "nothing more will come of the old one");
    assert!(matches!(events[1], Event::Delivered { incarnation: 555, seq: 0, .. }));
    assert_eq!((events.len(), bench.node.flows()), (2, 1));
}

/// A repair that others made of a packet may be here before the packet is.
#[test]
fn a_packet_that_a_repair_overtook_is_told_once_and_protected_like_any_other() {
    for order in [Order::Unordered, Order::Fifo] {
        let mut bench = Bench::new(published(4).with_order(order));
        bench.data(1, 0);
        bench.data(2, 0);
        bench.told();
        bench.sent();
        bench.repair(3, &[(1, 0), (2, 1)]);
        assert_eq!(bench.told(), ["g0/n2.1 recovered after 0ns"], "{order:?}");
        assert_eq!(bench.node.packets_binned(), 2);
        bench.data(2, 1);
        assert_eq!(bench.told(), [""; 0]);
        assert_eq!(
            (bench.count("slingshot_overtaken"), bench.count("slingshot_duplicate")),
            (1, 0)
        );
        // The third packet fills the bin.
        let sent = bench.sent();
        assert!(sent.len() == 1 && sent[0].ends_with(": g0/1.0 g0/2.0 g0/2.1"), "{sent:?}");
        bench.data(2, 1);
        assert_eq!((bench.count("slingshot_duplicate"), bench.node.packets_binned()), (1, 0));
    }
}
