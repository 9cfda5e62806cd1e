//! Views, and many groups on one node.

use super::*;

fn members(nodes: impl IntoIterator<Item = u32>) -> Option<Arc<[NodeId]>> {
    Some(nodes.into_iter().map(NodeId::from).collect())
}

/// Group 0 of nodes 0 to 3, group 1 of nodes 0, 1, 2, 4.
fn overlapping() -> Config {
    let groups = [(GroupId(0), members(0..4)), (GroupId(1), members([0, 1, 2, 4]))];
    published(5).with_groups(groups)
}

#[test]
fn packets_of_several_groups_are_repaired_together_for_those_who_are_in_all_of_them() {
    let mut bench = Bench::new(overlapping());
    let packets = [packet(GroupId(0), 1, 0), packet(GroupId(1), 1, 0), packet(GroupId(0), 1, 1)];
    packets.iter().for_each(|packet| bench.message(1, Message::Data(packet.clone())));
    let regions: Vec<(usize, usize)> = bench.node.regions().collect();
    assert_eq!(regions, [(2, 2), (1, 1), (1, 1)], "nodes 1 and 2; node 3; node 4");
    let sent = bench.messages();
    // Two of three others of each group are in that region, so it is that share of c.
    assert!(sent.len() <= 1);
    if let Some((to, repair)) = sent.first() {
        assert!([1, 2].contains(&to.0));
        assert_eq!(*repair, repair_of(&packets, Coefficients::XOR));
    }
    assert_eq!(bench.node.packets_binned(), 3, "two of group 0 for node 3, one of 1 for node 4");
}

#[test]
fn each_group_costs_the_configured_overhead_however_the_groups_overlap() {
    let mut bench = Bench::new(overlapping());
    for seq in 0..3000 {
        for group in [GroupId(0), GroupId(1)] {
            bench.message(1, Message::Data(packet(group, 1, seq)));
        }
        bench.outbox.events.clear();
    }
    // 6,000 packets at one repair for three.
    let repairs = bench.count("slingshot_repairs");
    assert!((1_900..2_100).contains(&repairs), "{repairs}");
}

#[test]
fn no_repair_goes_to_a_region_whose_only_member_sent_the_packets() {
    let mut bench = Bench::new(published(2).with_flush_after(Some(ms(10))));
    (0..30).for_each(|seq| bench.data(1, seq));
    bench.pass(ms(100));
    assert!(bench.messages().is_empty(), "the other member has sent all packets itself");
    assert_eq!((bench.node.packets_binned(), bench.count("slingshot_repairs")), (0, 0));
}

#[test]
fn with_a_third_member_packets_are_protected_until_it_has_left() {
    let mut bench = Bench::new(published(3));
    (0..30).for_each(|seq| bench.data(1, seq));
    assert_eq!(bench.messages().len(), 10, "the third member may lack any of them");
    bench.view(1, &[(0, INCARNATION), (1, 101)]);
    (30..60).for_each(|seq| bench.data(1, seq));
    assert!(bench.messages().is_empty());
    assert_eq!(bench.node.packets_binned(), 0);
    bench.view(2, &[(0, INCARNATION), (1, 101), (2, 102)]);
    (60..90).for_each(|seq| bench.data(1, seq));
    assert_eq!(bench.messages().len(), 10, "it is back");
}

#[test]
fn of_overlapping_groups_only_the_regions_of_other_members_than_the_sender_count() {
    let mut bench = Bench::new(overlapping());
    // Node 3 is alone in a region of group 0, and node 4 in one of group 1.
    (0..3_000).for_each(|seq| bench.data(3, seq));
    let to: std::collections::BTreeSet<NodeId> =
        bench.messages().into_iter().map(|(to, _)| to).collect();
    assert_eq!(to, [1, 2].map(NodeId).into());
}

#[test]
fn a_repair_of_several_groups_recovers_a_packet_of_any() {
    let mut bench = Bench::new(overlapping());
    bench.message(1, Message::Data(packet(GroupId(0), 1, 0)));
    bench.message(2, Message::Data(packet(GroupId(1), 2, 0)));
    bench.told();
    let packets = [packet(GroupId(0), 1, 0), packet(GroupId(1), 2, 1), packet(GroupId(1), 2, 0)];
    bench.message(1, repair_of(&packets, Coefficients::XOR));
    assert_eq!(bench.told(), ["g1/n2.1 recovered after 0ns"]);
}

#[test]
fn groups_come_and_go_at_run_time() {
    let mut bench = Bench::new(published(5).with_overlap(true).with_groups_max(2));
    let set = |bench: &mut Bench, group: u32, nodes: &[u32]| {
        let members = nodes.iter().copied().map(NodeId::from).collect();
        bench.command(Command::Members { group: GroupId(group), members });
    };
    bench.outbox.links.memberships.clear();
    set(&mut bench, 5, &[0, 1, 9, 2]);
    assert_eq!(bench.outbox.links.memberships.pop(), Some((GroupId(5), Membership::Joined)));
    let expected = [0, 1, 2].map(NodeId);
    assert_eq!(bench.node.members(GroupId(5)), Some(&expected[..]), "9 is not in the view");
    bench.message(1, Message::Data(packet(GroupId(5), 1, 0)));
    bench.message(1, Message::Data(packet(GroupId(5), 1, 2)));
    assert_eq!(bench.told(), ["g5/n1.0 direct", "g5/n1.2 direct"]);
    set(&mut bench, 6, &[0, 1]);
    assert_eq!(bench.told(), ["rejected 0: there are 2 groups already"]);
    set(&mut bench, 5, &[0, 2]);
    assert_eq!(bench.told(), ["g5/n1.1..2 lost"], "what a member that left still owes");
    bench.message(1, Message::Data(packet(GroupId(5), 1, 3)));
    assert_eq!(bench.count("slingshot_foreign_sender"), 1);
    set(&mut bench, 5, &[1, 2]);
    assert_eq!(bench.outbox.links.memberships.pop(), Some((GroupId(5), Membership::Left)));
    let payload = Payload::from("x");
    bench.command(Command::Multicast { group: GroupId(5), payload: payload.clone(), ticket: 3 });
    set(&mut bench, 5, &[]);
    bench.command(Command::Multicast { group: GroupId(5), payload, ticket: 4 });
    let expected = ["rejected 3: this node is not a member of g5", "rejected 4: g5 is not known"];
    assert_eq!(bench.told(), expected);
    bench.message(1, Message::Data(packet(GroupId(5), 1, 4)));
    assert_eq!(bench.count("slingshot_foreign_group"), 1);
}

/// Sets the members of group 0 at node 0.
fn set(bench: &mut Bench, nodes: &[u32]) {
    let members = nodes.iter().copied().map(NodeId::from).collect();
    bench.command(Command::Members { group: G, members });
}

#[test]
fn who_comes_back_to_a_group_is_not_told_again_what_was_told() {
    // Without others; without itself; without anybody, so that the group is forgotten.
    for gone in [&[0u32, 2][..], &[1, 2], &[]] {
        for order in [Order::Unordered, Order::Fifo] {
            let mut bench = Bench::new(published(3).with_order(order));
            bench.data(1, 0);
            bench.data(1, 1);
            bench.data(1, 3);
            set(&mut bench, gone);
            bench.told();
            set(&mut bench, &[0, 1, 2]);
            // Late copies, what others name, and what they answer.
            (0..4).for_each(|seq| bench.data(1, seq));
            bench.repair(2, &[(1, 1)]);
            let supply = Supply { view: ViewId(0), rank: 1, data: packet(G, 1, 2) };
            bench.message(2, Message::Supply(supply));
            bench.message(1, heartbeat(1, 4));
            assert!(bench.told().is_empty(), "{order:?} {gone:?}");
            assert_eq!(bench.count("slingshot_too_old"), 4);
            bench.data(1, 5);
            bench.repair(2, &[(1, 4)]);
            let mut told = bench.told();
            told.sort();
            let expected = ["g0/n1.4 recovered after 0ns", "g0/n1.5 direct"];
            assert_eq!(told, expected, "{order:?} {gone:?}");
        }
    }
}

#[test]
fn what_a_sender_sent_while_it_was_not_in_the_group_is_not_missed() {
    let mut bench = Bench::new(published(3));
    bench.data(1, 0);
    set(&mut bench, &[1, 2]);
    set(&mut bench, &[0, 1, 2]);
    bench.told();
    bench.data(1, 100);
    assert_eq!((bench.told(), bench.node.packets_missing()), (vec!["g0/n1.100 direct".into()], 0));
}

#[test]
fn who_started_anew_while_it_was_away_is_told_from_its_beginning() {
    let mut bench = Bench::new(published(3));
    (0..5).for_each(|seq| bench.data(1, seq));
    set(&mut bench, &[0, 2]);
    set(&mut bench, &[0, 1, 2]);
    bench.told();
    let payload = Payload::from("again");
    let checksum = checksum(G, 9, 0, &payload);
    let framing = Framing::Whole;
    let data = Data { group: G, incarnation: 9, seq: 0, framing, checksum, payload };
    bench.message(1, Message::Data(data));
    assert!(matches!(
        bench.outbox.events.pop(),
        Some(Event::Delivered { incarnation: 9, seq: 0, .. })
    ));
}

#[test]
fn no_number_is_used_twice_for_a_group_that_was_left_or_forgotten() {
    let mut bench = Bench::new(published(3).with_pull(Some(Pull::default())));
    bench.send("zero");
    bench.send("one");
    for gone in [&[1u32, 2][..], &[]] {
        set(&mut bench, gone);
        set(&mut bench, &[0, 1, 2]);
    }
    bench.send("two");
    let sent = bench.sent();
    assert_eq!(sent.last().map(String::as_str), Some("g0: data g0 seq 2 3 B"), "{sent:?}");
    // It answers with what it has, under the name that it bears.
    let mut names = NamesBuilder::default();
    (0..3).for_each(|seq| names.push(Name { group: G, rank: 0, seq, checksum: 0 }));
    bench.message(1, Message::Ask { view: ViewId(0), names: names.build() });
    assert_eq!(bench.sent(), ["n1: supply v0: g0/0.2 3 B"]);
}

#[test]
fn a_second_group_needs_room_in_repairs() {
    let mut bench = Bench::new(published(5));
    let members: Arc<[NodeId]> = (0..3).map(NodeId).collect();
    bench.command(Command::Members { group: GroupId(1), members });
    assert_eq!(bench.told(), ["rejected 0: members were configured to be in one group only"]);
}

#[test]
fn a_view_takes_members_away_and_says_what_is_lost_of_them() {
    let mut bench = Bench::new(published(4));
    bench.data(1, 0);
    bench.data(2, 0);
    bench.data(2, 2);
    bench.told();
    bench.view(3, &[(0, INCARNATION), (1, 101), (3, 103)]);
    assert_eq!(bench.told(), ["g0/n2.1..2 lost"]);
    bench.data(2, 3);
    assert_eq!(bench.count("slingshot_foreign_sender"), 1);
    bench.data(1, 1);
    assert_eq!(bench.told(), ["g0/n1.1 direct"]);
    assert_eq!(bench.node.members(G), Some(&[0, 1, 3].map(NodeId)[..]));
    bench.view(2, &[(0, INCARNATION)]);
    assert_eq!(bench.count("slingshot_stale_view"), 1);
}

#[test]
fn a_repair_of_the_view_before_is_understood_and_of_an_older_one_is_not() {
    let mut bench = Bench::new(published(4));
    (1..4).for_each(|node| bench.data(node, 0));
    bench.told();
    // Node 1 has another rank from now on.
    bench.view(1, &[(0, INCARNATION), (3, 103), (2, 102), (1, 101)]);
    bench.repair(2, &[(1, 1), (2, 0)]);
    assert_eq!(bench.told(), ["g0/n1.1 recovered after 0ns"]);
    bench.view(2, &[(0, INCARNATION), (3, 103), (2, 102), (1, 101)]);
    bench.repair(2, &[(1, 2), (2, 0)]);
    assert!(bench.told().is_empty());
    assert_eq!(bench.count("slingshot_foreign_view"), 1);
}

#[test]
fn where_the_view_names_incarnations_nothing_of_another_is_taken() {
    let mut bench = Bench::new(published(3));
    bench.view(1, &[(0, INCARNATION), (1, 99), (2, 102)]);
    bench.data(1, 0);
    assert!(bench.told().is_empty());
    assert_eq!(bench.count("slingshot_other_incarnation"), 1);
    bench.repair(2, &[(1, 0)]);
    assert!(bench.told().is_empty());
    assert_eq!(bench.count("slingshot_recovered_wrong"), 1);
}

#[test]
fn a_packet_recovered_before_its_sender_was_heard_is_delivered_at_once_if_the_view_names_it() {
    let mut bench = Bench::new(published(3));
    bench.view(1, &[(0, INCARNATION), (1, 101), (2, 102)]);
    bench.repair(2, &[(1, 0)]);
    assert_eq!(bench.told(), ["g0/n1.0 recovered after 0ns"]);
}

#[test]
fn outside_the_view_a_node_neither_sends_nor_hears() {
    let mut bench = Bench::new(published(3));
    bench.view(1, &[(1, 101), (2, 102)]);
    assert_eq!(bench.outbox.links.memberships.last(), Some(&(G, Membership::Left)));
    bench.send("x");
    bench.data(1, 0);
    assert_eq!(bench.told(), ["rejected 0: this node is not a member of g0"]);
    assert_eq!(bench.count("slingshot_foreign_group"), 1);
}

#[test]
fn a_thousand_groups_of_a_thousand_members_cost_a_packet_a_bounded_number_of_bins() {
    let mut rng = Rng::new(3, 3);
    let groups: Vec<_> = (0..1024)
        .map(|group| {
            let others = (1..1024).filter(|_| rng.chance(0.02));
            let with_me: Vec<u32> = std::iter::once(0).chain(others).collect();
            (GroupId(group), members(with_me))
        })
        .collect();
    let senders: Vec<NodeId> =
        groups.iter().map(|(_, members)| members.as_ref().unwrap()[1]).collect();
    let config = published(1024).with_groups(groups).with_rate(Rate { r: 8, c: 3 });
    let mut bench = Bench::new(config.with_regions_max(8));
    for seq in 0..16 {
        for (group, sender) in (0..).map(GroupId).zip(&senders) {
            let number = sender.index() as u32;
            bench.message(number, Message::Data(packet(group, number, seq)));
        }
        assert_eq!(bench.outbox.events.len(), 1024);
        bench.outbox.events.clear();
    }
    // 16,384 packets, each in 8 bins at most.
    let (binned, repairs) = (bench.node.packets_binned(), bench.count("slingshot_repairs"));
    assert!(binned <= 8 * 7 * 1024, "{binned}");
    let expected = 16_384 * 3 / 8;
    assert!((expected * 8 / 10..=expected * 11 / 10).contains(&repairs), "{repairs} of {expected}");
    assert_eq!(bench.node.flows(), 1024);
}
