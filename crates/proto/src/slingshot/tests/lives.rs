//! Senders not heard yet, or restarted: claims of other members are not announcements of the
//! sender.

use super::*;

#[test]
fn what_only_repairs_have_named_is_not_told_lost_and_can_still_come() {
    for order in [Order::Unordered, Order::Fifo] {
        let mut bench = Bench::new(published(4).with_order(order));
        (1..3).for_each(|node| bench.data(node, 0));
        bench.told();
        bench.repair(3, &[(1, 3), (1, 4), (2, 0)]);
        assert_eq!(bench.node.packets_missing(), 4);
        bench.pass(ms(500));
        assert_eq!((bench.told().len(), bench.node.packets_missing()), (0, 0));
        bench.data(1, 1);
        assert_eq!(bench.told(), ["g0/n1.1 direct"], "{order:?}");
    }
}

#[test]
fn what_is_doubtful_is_missed_again_once_its_sender_says_that_it_is() {
    let unordered = vec!["g0/n1.2..4 lost", "g0/n1.1..2 lost"];
    for (order, lost) in [(Order::Unordered, unordered), (Order::Fifo, vec!["g0/n1.1..4 lost"])] {
        let mut bench = Bench::new(published(4).with_order(order));
        (1..3).for_each(|node| bench.data(node, 0));
        bench.repair(3, &[(1, 1), (2, 1)]);
        bench.pass(ms(200));
        bench.repair(3, &[(1, 3), (1, 4)]);
        bench.pass(ms(300));
        assert_eq!(bench.node.packets_missing(), 3, "one is given up, the later ones not yet");
        bench.told();
        bench.message(1, heartbeat(1, 4));
        assert_eq!(bench.node.packets_missing(), 4);
        bench.pass(ms(500));
        assert_eq!(bench.told(), lost, "{order:?}");
        assert_eq!(bench.node.packets_missing(), 0);
    }
}

/// A repair of packets of the former incarnation comes before the first packet of the present one.
#[test]
fn a_sender_is_heard_from_its_first_packet_whatever_others_say_of_its_former_life() {
    for order in [Order::Unordered, Order::Fifo] {
        let mut bench = Bench::new(published(4).with_order(order));
        bench.data(2, 0);
        bench.repair(3, &[(1, 300), (1, 301), (2, 0)]);
        bench.told();
        (0..3).for_each(|seq| bench.data(1, seq));
        assert_eq!(bench.told(), [0, 1, 2].map(|seq| format!("g0/n1.{seq} direct")), "{order:?}");
        assert_eq!(bench.count("slingshot_begun_anew"), 1);
        bench.pass(ms(500));
        assert!(bench.told().is_empty() && bench.node.packets_missing() == 0);
    }
}

#[test]
fn names_go_no_further_than_a_window_beyond_the_senders_own_word() {
    let mut bench = Bench::new(published(4).with_window_packets(32));
    (1..3).for_each(|node| bench.data(node, 0));
    bench.repair(3, &[(1, 20), (1, 21)]);
    bench.repair(3, &[(1, 33), (2, 0)]);
    assert_eq!(bench.count("slingshot_name_too_far"), 1);
    bench.told();
    bench.data(1, 1);
    assert_eq!(bench.told(), ["g0/n1.1 direct"], "the window has not moved past it");
}

#[test]
fn what_was_computed_is_told_once_any_member_vouches_for_its_sender() {
    let mut bench = Bench::new(published(4).with_pull(Some(Pull::default())));
    bench.repair(3, &[(1, 0)]);
    bench.repair(3, &[(1, 1), (1, 2)]);
    assert_eq!((bench.told().len(), bench.node.packets_unverified()), (0, 1));
    let supply = Supply { view: ViewId(0), rank: 1, data: packet(G, 1, 1) };
    bench.message(2, Message::Supply(supply));
    let mut told = bench.told();
    told.sort();
    let recovered = [0, 2].map(|seq| format!("g0/n1.{seq} recovered after 0ns"));
    assert_eq!(told, [&recovered[0], "g0/n1.1 pulled after 0ns", &recovered[1]]);
    assert_eq!(bench.node.packets_unverified(), 0);
}

#[test]
fn what_was_computed_of_a_sender_that_is_never_heard_is_not_kept_for_ever() {
    let mut bench = Bench::new(published(4));
    (0..80).for_each(|seq| bench.repair(3, &[(1, seq)]));
    assert_eq!(bench.node.packets_unverified(), 64);
    bench.pass(ms(500));
    assert_eq!((bench.node.packets_unverified(), bench.node.packets_missing()), (0, 0));
}
