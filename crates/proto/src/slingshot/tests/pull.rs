//! The second phase: requests for packets that repairs did not recover.

use super::*;

/// One packet a repair, so that nothing is parked; asks after 5 ms and again after 10.
fn config(members: u32) -> Config {
    published(members).with_rate(Rate { r: 8, c: 1 }).with_pull(Some(Pull::default()))
}

/// The same, and holders are asked before senders.
fn holders(members: u32) -> Config {
    config(members).with_pull(Some(Pull { from: PullFrom::Holders, ..Pull::default() }))
}

fn receiver(line: &str) -> &str {
    line.split(':').next().expect("a receiver")
}

#[test]
fn by_default_the_sender_is_asked_each_time_for_a_packet_named_by_any_member() {
    let mut bench = Bench::new(config(5));
    (1..3).for_each(|node| bench.data(node, 0));
    bench.repair(4, &[(1, 1), (2, 1)]);
    bench.pass(ms(4));
    assert!(bench.sent().is_empty(), "repairs may still come");
    bench.pass(ms(1));
    assert_eq!(bench.sent(), ["n1: ask v0: g0/1.1", "n2: ask v0: g0/2.1"]);
    bench.pass(ms(10));
    assert_eq!(bench.sent(), ["n1: ask v0: g0/1.1", "n2: ask v0: g0/2.1"], "no answer came");
    let mut bench = Bench::new(config(5));
    bench.data(1, 0);
    bench.message(1, heartbeat(1, 2));
    bench.pass(ms(35));
    let asked = bench.sent();
    assert_eq!(asked, ["n1: ask v0: g0/1.1"; 4], "after 5, 15, 25 and 35 ms");
}

#[test]
fn who_named_a_packet_is_asked_first_then_another_member_then_its_sender() {
    let mut bench = Bench::new(holders(5));
    (1..3).for_each(|node| bench.data(node, 0));
    bench.repair(4, &[(1, 1), (2, 1)]);
    bench.pass(ms(4));
    assert!(bench.sent().is_empty(), "repairs may still come");
    bench.pass(ms(1));
    assert_eq!(bench.sent(), ["n4: ask v0: g0/1.1 g0/2.1"]);
    bench.data(2, 1);
    bench.told();
    bench.repair(3, &[(1, 1), (2, 1), (2, 0)]);
    assert_eq!(bench.node.packets_missing(), 0, "solved meanwhile");
    let mut bench = Bench::new(holders(5));
    bench.data(1, 0);
    bench.message(1, heartbeat(1, 2));
    bench.pass(ms(5));
    bench.pass(ms(10));
    let first: Vec<String> = bench.sent();
    assert!(first.iter().all(|line| !["n0", "n1"].contains(&receiver(line))), "{first:?}");
    assert_eq!(first.len(), 2);
    bench.pass(ms(20));
    let then = bench.sent();
    assert!(then.iter().all(|line| receiver(line) == "n1") && then.len() == 2, "{then:?}");
}

#[test]
fn a_question_is_answered_with_the_packet_and_the_answer_is_delivered() {
    let mut bench = Bench::new(config(4));
    (0..3).for_each(|seq| bench.data(1, seq));
    bench.send("mine");
    bench.sent();
    let mut names = NamesBuilder::default();
    names.push(Name { checksum: 0, ..name_of(&packet(G, 1, 1)) });
    names.push(name_of(&packet(G, 1, 2)));
    names.push(Name { group: G, rank: 0, seq: 0, checksum: 0 });
    names.push(Name { group: G, rank: 1, seq: 9, checksum: 0 });
    bench.message(3, Message::Ask { view: ViewId(0), names: names.build() });
    let supplies = bench.messages();
    assert!(supplies.iter().all(|(to, _)| *to == NodeId(3)));
    let shown: Vec<String> = supplies.iter().map(|(_, message)| message.to_string()).collect();
    assert_eq!(shown[0], "supply v0: g0/1.1 15 B");
    assert_eq!(shown[2], "supply v0: g0/0.0 4 B");
    assert_eq!((shown.len(), bench.count("slingshot_ask_unknown")), (3, 1));

    let mut other = Bench::new(config(4));
    other.data(1, 0);
    other.data(1, 3);
    other.told();
    other.now += ms(7);
    supplies[..2].iter().for_each(|(_, supply)| other.message(2, supply.clone()));
    assert_eq!(other.told(), ["g0/n1.1 pulled after 7ms", "g0/n1.2 pulled after 7ms"]);
    other.message(2, supplies[0].1.clone());
    assert!(other.told().is_empty());
    assert_eq!(other.count("slingshot_supply_unneeded"), 1);
}

#[test]
fn what_is_pulled_makes_parked_repairs_usable() {
    let mut bench = Bench::new(config(4));
    (1..3).for_each(|node| bench.data(node, 0));
    bench.repair(3, &[(1, 1), (2, 1)]);
    bench.told();
    let supply = Supply { view: ViewId(0), rank: 1, data: packet(G, 1, 1) };
    bench.message(3, Message::Supply(supply));
    assert_eq!(bench.told(), ["g0/n1.1 pulled after 0ns", "g0/n2.1 recovered after 0ns"]);
}

#[test]
fn a_packet_that_nobody_has_is_given_up_at_its_time() {
    let mut bench = Bench::new(config(4).with_deadline(ms(50)).with_lost_after(ms(50)));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.told();
    bench.pass(ms(50));
    assert_eq!(bench.told(), ["g0/n1.1..2 lost"]);
    let asked = bench.sent().len() as u64;
    assert_eq!((asked, bench.count("slingshot_asked")), (5, 5), "after 5, 15, 25, 35, 45 ms");
    bench.pass(ms(1000));
    assert!(bench.sent().is_empty() && bench.outbox.timers.is_empty(), "at rest");
}

#[test]
fn in_a_group_of_two_the_sender_is_asked() {
    for config in [config(2), holders(2)] {
        let mut bench = Bench::new(config);
        bench.data(1, 0);
        bench.data(1, 2);
        bench.pass(ms(5));
        assert_eq!(bench.sent(), ["n1: ask v0: g0/1.1"]);
    }
}

#[test]
fn what_is_given_up_before_it_would_be_asked_for_is_given_up_in_time() {
    let mut bench = Bench::new(config(4).with_deadline(ms(1)).with_lost_after(ms(3)));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.told();
    bench.pass(ms(3));
    assert_eq!((bench.told(), bench.sent()), (vec!["g0/n1.1..2 lost".into()], vec![]));
}

#[test]
fn questions_and_answers_are_rationed() {
    let pull = Pull { asks_max: 10, supplies_per_second: 100, ..Pull::default() };
    let mut bench = Bench::new(config(2).with_pull(Some(pull)));
    bench.data(1, 0);
    bench.data(1, 41);
    bench.pass(ms(5));
    let asked: usize = bench.sent().iter().map(|line| line.matches("g0/").count()).sum();
    assert_eq!((asked, bench.count("slingshot_ask_deferred")), (10, 30));
    (1..41).for_each(|seq| bench.data(1, seq));
    let mut names = NamesBuilder::default();
    (0..40).for_each(|seq| names.push(name_of(&packet(G, 1, seq))));
    bench.message(1, Message::Ask { view: ViewId(0), names: names.build() });
    let sent = bench.sent();
    let supplied = sent.iter().filter(|line| line.contains("supply")).count();
    assert_eq!((supplied, bench.count("slingshot_ask_refused")), (10, 30));
}

#[test]
fn without_a_second_phase_nobody_asks_and_nobody_answers() {
    let mut bench = Bench::new(published(3));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.pass(ms(499));
    assert!(bench.sent().is_empty());
    let mut names = NamesBuilder::default();
    names.push(name_of(&packet(G, 1, 0)));
    bench.message(2, Message::Ask { view: ViewId(0), names: names.build() });
    assert!(bench.sent().is_empty());
    assert_eq!(bench.count("slingshot_ask_refused"), 1);
}
