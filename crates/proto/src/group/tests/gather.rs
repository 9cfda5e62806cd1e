//! Hosts that create a group together: one host, handler by handler.

use super::*;

const EXPECT: u32 = 3;

/// Calls with host 2, which gathers with others.
fn with_host(call: impl FnOnce(&mut Group, &mut Context<'_, Group>)) {
    let config = Config::new(chain::Config::for_groups(), detector::Config::default());
    let config = config.build().unwrap();
    let mut group = Group::new(&config);
    let mut cx = Context {
        now: Instant::ZERO,
        node: NodeId(2),
        incarnation: 5,
        host: None,
        shared: &config,
        rng: &mut Rng::new(1, 1),
        outbox: &mut Outbox::default(),
        backlog: &NoBacklog,
        datagram_bytes_max: 1_200,
    };
    let expect = Expect::new(EXPECT).unwrap();
    let gather = Gather { address: Bytes::new(), peers: vec![NodeId(3)], expect };
    group.handle_command(&mut cx, Command::Gather(gather));
    assert_eq!(sent(&mut cx), ["n3: gather n2 of 3, 0 seen"]);
    call(&mut group, &mut cx);
}

/// What was sent since the last look.
fn sent(cx: &mut Context<'_, Group>) -> Vec<String> {
    let sends = cx.outbox.sends.drain(..);
    sends.map(|send| format!("{}: {}", send.to, send.message)).collect()
}

fn hear(group: &mut Group, cx: &mut Context<'_, Group>, node: u32) {
    let seen = Vec::new();
    let gather = Message::Gather { contact: contact(node, ""), expect: EXPECT, seen };
    group.handle_message(cx, NodeId::from(node), gather);
}

/// Time passes.
fn pass(group: &mut Group, cx: &mut Context<'_, Group>, ms: u64) {
    cx.now += Duration::from_millis(ms);
    group.handle_timer(cx, Timer::Group);
}

fn founding_ballot(round: u32, node: u32) -> FoundingBallot {
    FoundingBallot { round, proposer: contact(node, "").member }
}

#[test]
fn the_least_id_of_those_that_see_each_other_proposes_and_creates_the_group() {
    with_host(|group, cx| {
        hear(group, cx, 3);
        pass(group, cx, 60);
        assert_eq!(sent(cx), ["n3: gather n2 of 3, 1 seen"], "two are too few");
        hear(group, cx, 4);
        assert_eq!(sent(cx), ["n4: gather n2 of 3, 2 seen"]);
        pass(group, cx, 50);
        assert_eq!(sent(cx), ["n3: gather-prepare f1.n2", "n4: gather-prepare f1.n2"]);
        let ballot = FoundingBallot { round: 1, proposer: group.member() };
        for node in [3, 4] {
            let contact = contact(node, "");
            let promise = Message::GatherPromise { ballot, contact, accepted: None };
            group.handle_message(cx, NodeId::from(node), promise);
        }
        assert_eq!(
            sent(cx),
            ["n3: gather-accept f1.n2: 3 members", "n4: gather-accept f1.n2: 3 members"]
        );
        group.handle_message(cx, NodeId(3), Message::GatherAccepted { ballot });
        group.handle_message(cx, NodeId(3), Message::GatherAccepted { ballot });
        assert_eq!(group.role(), Role::Joining, "two hosts have accepted");
        group.handle_message(cx, NodeId(4), Message::GatherAccepted { ballot });
        assert_eq!(group.role(), Role::Member);
        let members: Vec<u64> = group.view().members().iter().map(|it| it.node.0).collect();
        assert_eq!((group.view().id(), members), (ViewId(1), vec![2, 3, 4]));
        let sends = sent(cx);
        assert!(sends.contains(&"n3: install after v0: 3 members".to_owned()), "{sends:?}");
    });
}

#[test]
fn a_host_waits_for_the_turns_of_lower_ids_that_it_hears() {
    with_host(|group, cx| {
        for node in [1, 3] {
            hear(group, cx, node);
        }
        for _ in 0..8 {
            pass(group, cx, 250);
            hear(group, cx, 1);
            hear(group, cx, 3);
        }
        assert!(sent(cx).iter().all(|line| !line.contains("prepare")));
        pass(group, cx, 60);
        assert!(sent(cx).contains(&"n1: gather-prepare f1.n2".to_owned()));
    });
}

#[test]
fn a_host_that_promised_a_higher_ballot_gives_its_own_attempt_up() {
    with_host(|group, cx| {
        hear(group, cx, 3);
        hear(group, cx, 4);
        pass(group, cx, 50);
        sent(cx);
        let own = FoundingBallot { round: 1, proposer: group.member() };
        let prepare = Message::GatherPrepare { ballot: founding_ballot(1, 3), expect: EXPECT };
        group.handle_message(cx, NodeId(3), prepare);
        assert_eq!(sent(cx), ["n3: gather-promise f1.n3"]);
        for node in [3, 4] {
            let contact = contact(node, "");
            let promise = Message::GatherPromise { ballot: own, contact, accepted: None };
            group.handle_message(cx, NodeId::from(node), promise);
        }
        assert_eq!(sent(cx), Vec::<String>::new());
        let prepare = Message::GatherPrepare { ballot: founding_ballot(0, 4), expect: EXPECT };
        group.handle_message(cx, NodeId(4), prepare);
        assert_eq!(sent(cx), ["n4: gather-rejected f0.n4, f1.n3"]);
    });
}

#[test]
fn a_host_that_hears_of_a_group_creates_none() {
    with_host(|group, cx| {
        hear(group, cx, 3);
        hear(group, cx, 4);
        let challenge = Message::Challenge { token: group.me.token, nonce: 9 };
        group.handle_message(cx, NodeId(7), challenge);
        sent(cx);
        let prepare = Message::GatherPrepare { ballot: founding_ballot(1, 3), expect: EXPECT };
        group.handle_message(cx, NodeId(3), prepare);
        pass(group, cx, 60);
        let sends = sent(cx);
        assert!(sends.iter().all(|line| !line.contains("gather-")), "{sends:?}");
    });
}

#[test]
fn a_member_takes_a_host_that_gathers_for_one_that_asks_to_join() {
    with_member(|group, cx, _| {
        cx.outbox.sends.clear();
        let gather = Message::Gather { contact: contact(9, ""), expect: EXPECT, seen: Vec::new() };
        group.handle_message(cx, NodeId(9), gather);
        assert_eq!(sent(cx), ["n9: challenge"]);
    });
}

#[test]
fn hosts_that_expect_another_number_and_messages_in_a_foreign_name_are_ignored() {
    with_host(|group, cx| {
        let other = Message::Gather { contact: contact(3, ""), expect: 4, seen: Vec::new() };
        group.handle_message(cx, NodeId(3), other);
        hear(group, cx, 3);
        sent(cx);
        let foreign = Message::Gather { contact: contact(4, ""), expect: 3, seen: Vec::new() };
        group.handle_message(cx, NodeId(3), foreign);
        let foreign = Message::GatherPrepare { ballot: founding_ballot(1, 4), expect: EXPECT };
        group.handle_message(cx, NodeId(3), foreign);
        let far = Message::GatherPrepare { ballot: founding_ballot(1 << 17, 3), expect: EXPECT };
        group.handle_message(cx, NodeId(3), far);
        assert_eq!(sent(cx), Vec::<String>::new());
    });
}

#[test]
fn a_host_that_leaves_before_there_is_a_group_takes_no_part_any_longer() {
    with_host(|group, cx| {
        hear(group, cx, 3);
        group.handle_command(cx, MembershipCommand::Leave.into());
        assert!(matches!(cx.outbox.events.last(), Some(Event::Left)));
        sent(cx);
        let prepare = Message::GatherPrepare { ballot: founding_ballot(1, 3), expect: EXPECT };
        group.handle_message(cx, NodeId(3), prepare);
        assert_eq!(sent(cx), Vec::<String>::new());
    });
}

#[test]
fn a_request_names_as_many_hosts_as_fit_a_datagram() {
    with_host(|group, cx| {
        for node in 3..100 {
            hear(group, cx, node);
        }
        assert!(cx.outbox.sends.iter().all(|send| send.message.wire_len() <= 1_200));
        let lanes = cx.outbox.sends.iter().map(|send| send.lane);
        assert!(lanes.into_iter().all(|lane| lane == crate::core::Lane::Datagram));
        assert!(sent(cx).last().unwrap().contains(" of 3, 3"), "about 35 contacts");
    });
}

#[test]
fn numbers_of_hosts_are_2_to_64() {
    let hosts = [1, 2, 64, 65].map(|hosts| Expect::new(hosts).map(Expect::hosts));
    assert_eq!(hosts, [None, Some(2), Some(64), None]);
}
