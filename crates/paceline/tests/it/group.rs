//! Groups on real loopback sockets.

use std::time::{Duration, Instant};

use bytes::Bytes;
use paceline::net::EmulateChange;
use paceline::{
    BroadcastConfig, BroadcastError, Event, Events, Group, Host, JoinError, Member, NodeId,
    Refusal, SendError, SendFailure, Topology, TryBroadcastError, TrySendError,
};

type Change = fn(BroadcastConfig) -> BroadcastConfig;

async fn host(id: u32) -> Host {
    Host::builder("test").id(NodeId::from(id)).start().await.unwrap()
}

/// A group of this many members in this process, each in the same view.
async fn cluster(members: u32, change: Change) -> (Vec<Group>, Vec<Events>) {
    let (first, events) =
        host(0).await.group("g").with_broadcast(change).bootstrap().await.unwrap();
    let peer = first.local_addr().to_string();
    let joining: Vec<_> = (1..members)
        .map(|id| {
            let peer = peer.clone();
            let joins = async move {
                host(id).await.group("g").with_broadcast(change).peers([peer]).join().await.unwrap()
            };
            tokio::spawn(joins)
        })
        .collect();
    let (mut groups, mut all_events) = (vec![first], vec![events]);
    for joined in joining {
        let (group, events) = joined.await.unwrap();
        groups.push(group);
        all_events.push(events);
    }
    for events in &mut all_events {
        view_of(events, members as usize).await;
    }
    (groups, all_events)
}

/// Waits for a view of this many members.
async fn view_of(events: &mut Events, members: usize) {
    let wanted = async {
        loop {
            if let Event::View(view) = events.recv().await.expect("the host runs")
                && view.len() == members
            {
                return;
            }
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(20), wanted).await;
    found.unwrap_or_else(|_| panic!("no view of {members} members"));
}

/// The next messages of each member, `count` in all, as `(origin, text)`.
async fn receive(events: &mut Events, count: usize) -> Vec<(u64, String)> {
    let mut received = Vec::new();
    while received.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(20), events.delivery()).await;
        let delivery = next.expect("a message comes in time").expect("the host runs");
        let text = String::from_utf8(delivery.payload.to_vec()).unwrap();
        received.push((delivery.origin.0, text));
    }
    received
}

#[tokio::test]
async fn every_member_gets_every_message_in_the_order_of_its_sender() {
    for topology in Topology::ALL {
        let (groups, deliveries) = cluster(4, |config| config).await;
        for (id, group) in groups.iter().enumerate() {
            let group = group.with_topology(topology);
            for number in 0..20 {
                group.broadcast(format!("{id}-{number}")).await.unwrap();
            }
        }
        for mut deliveries in deliveries {
            let received = receive(&mut deliveries, 80).await;
            for id in 0..4 {
                let of_one: Vec<_> = received.iter().filter(|(origin, _)| *origin == id).collect();
                let expected: Vec<_> =
                    (0..20).map(|number| (id, format!("{id}-{number}"))).collect();
                assert_eq!(of_one, expected.iter().collect::<Vec<_>>(), "{topology}");
            }
        }
    }
}

#[tokio::test]
async fn a_large_message_is_cut_and_delivered_whole() {
    let (groups, deliveries) = cluster(3, |config| config).await;
    let message: Bytes = (0..5_000_000u32).map(|i| (i % 251) as u8).collect::<Vec<u8>>().into();
    groups[1].broadcast(message.clone()).await.unwrap();
    for mut deliveries in deliveries {
        assert_eq!(deliveries.delivery().await.unwrap().payload, message);
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_and_an_empty_one_is_not() {
    let (groups, mut deliveries) = cluster(2, |config| config.with_message_bytes_max(100)).await;
    let refused = groups[0].broadcast(vec![0; 101]).await;
    assert_eq!(refused, Err(BroadcastError::TooLarge { bytes: 101, bytes_max: 100 }));
    groups[0].broadcast(Bytes::new()).await.unwrap();
    assert!(deliveries[1].delivery().await.unwrap().payload.is_empty());
}

#[tokio::test]
async fn a_slow_reader_slows_its_sender_and_loses_nothing() {
    const MESSAGE: usize = 4000;
    let small: Change = |config| {
        let config = config.with_block_bytes_max(16 * 1024).with_window_bytes(64 * 1024);
        config.with_queue_bytes(16 * 1024)
    };
    let (groups, mut deliveries) = cluster(3, small).await;
    let slow = deliveries.pop().unwrap();
    for mut fast in deliveries {
        tokio::spawn(async move { while fast.recv().await.is_some() {} });
    }
    // The third member's application does not read: the window must stop the sender.
    let mut accepted = 0u32;
    let mut refusals = 0;
    while refusals < 50 {
        let message = [accepted.to_be_bytes().to_vec(), vec![0; MESSAGE - 4]].concat();
        match groups[0].try_broadcast(message) {
            Ok(()) => {
                accepted += 1;
                refusals = 0;
            }
            Err(TryBroadcastError::WouldBlock(_)) => {
                refusals += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(accepted < 1000, "the slow reader delays no other member");
    }
    assert!(accepted as usize * MESSAGE >= 64 * 1024, "the window was not used: {accepted}");
    // Once it reads, all that was accepted comes, and more is accepted.
    let group = groups[0].clone();
    let more = tokio::spawn(async move {
        for number in accepted..accepted + 200 {
            let message = [number.to_be_bytes().to_vec(), vec![0; MESSAGE - 4]].concat();
            group.broadcast(message).await.unwrap();
        }
    });
    let mut slow = slow;
    for number in 0..accepted + 200 {
        let delivery = slow.delivery().await.unwrap();
        assert_eq!(delivery.payload[..4], number.to_be_bytes());
    }
    more.await.unwrap();
}

#[tokio::test]
async fn a_hop_that_breaks_again_and_again_resumes_and_loses_nothing() {
    let (groups, deliveries) = cluster(4, |config| config).await;
    let nodes: Vec<_> = groups.iter().map(|group| group.node().clone()).collect();
    let ring = groups[0].members();
    let rank = |id: u32| ring.iter().position(|&node| node == NodeId::from(id)).unwrap();
    let after: Vec<NodeId> = (0..4).map(|id| ring[(rank(id) + 1) % 4]).collect();
    let sender = groups[0].clone();
    let breaking = nodes.clone();
    tokio::spawn(async move {
        for number in 0..3000 {
            sender.broadcast(format!("{number:01000}")).await.unwrap();
            // In the midst of the stream, one hop after the other.
            if number % 250 == 125 {
                let from = number / 250 % 3;
                breaking[from].emulate(EmulateChange::Reset(after[from])).unwrap();
            }
        }
    });
    // All read at once, since a member that does not read holds the sender back.
    let readers: Vec<_> = deliveries
        .into_iter()
        .map(|mut deliveries| tokio::spawn(async move { receive(&mut deliveries, 3000).await }))
        .collect();
    for reader in readers {
        for (number, (origin, text)) in reader.await.unwrap().into_iter().enumerate() {
            assert_eq!((origin, text), (0, format!("{number:01000}")));
        }
    }
    let resumed = nodes.iter().map(|node| node.stats().counters.count("chain_hop_resumed"));
    assert!(resumed.sum::<u64>() > 0, "no hop was broken while it was in use");
}

#[tokio::test]
async fn a_group_of_one_delivers_to_itself() {
    let (groups, mut deliveries) = cluster(1, |config| config).await;
    for topology in Topology::ALL {
        groups[0].with_topology(topology).broadcast("alone").await.unwrap();
        assert_eq!(deliveries[0].delivery().await.unwrap().payload, "alone");
    }
}

#[tokio::test]
async fn a_member_that_crashes_is_out_of_the_view_soon_and_nothing_is_lost() {
    let (groups, mut events) = cluster(4, |config| config).await;
    let victim = groups[2].clone();
    for number in 0..50 {
        groups[1].broadcast(format!("before {number}")).await.unwrap();
    }
    victim.stop().await;
    let crashed = Instant::now();
    for number in 0..50 {
        groups[3].broadcast(format!("after {number}")).await.unwrap();
    }
    events.remove(2);
    for events in &mut events {
        let (mut texts, mut members) = (Vec::new(), 4);
        while texts.len() < 100 || members != 3 {
            let next = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
            match next.expect("in time").expect("the host runs") {
                Event::Delivered(message) => {
                    texts.push(String::from_utf8(message.payload.to_vec()).unwrap());
                }
                Event::View(view) => members = view.len(),
                other => panic!("{other:?}"),
            }
        }
        for (origin, count) in [("before", 50), ("after", 50)] {
            let of_one: Vec<&String> = texts.iter().filter(|t| t.starts_with(origin)).collect();
            let expected: Vec<String> = (0..count).map(|n| format!("{origin} {n}")).collect();
            assert_eq!(of_one, expected.iter().collect::<Vec<_>>());
        }
    }
    // Generous: tests share the machine.
    assert!(crashed.elapsed() < Duration::from_secs(10), "{:?}", crashed.elapsed());
}

#[tokio::test]
async fn a_member_that_leaves_is_told_and_so_are_the_others() {
    let (groups, mut events) = cluster(3, |config| config).await;
    groups[0].broadcast("farewell").await.unwrap();
    groups[0].leave().await.unwrap();
    let mut own = events.remove(0);
    let mut has_delivered = false;
    loop {
        match own.recv().await.unwrap() {
            Event::Left => break,
            Event::Delivered(_) => has_delivered = true,
            _ => {}
        }
    }
    assert!(has_delivered);
    assert_eq!(groups[0].broadcast("too late").await, Err(BroadcastError::NotAMember));
    for events in &mut events {
        assert_eq!(receive(events, 1).await, [(0, "farewell".to_owned())]);
        view_of(events, 2).await;
    }
}

#[tokio::test]
async fn a_receipt_tells_when_a_message_is_with_every_member_or_never_will_be() {
    let (groups, mut events) = cluster(3, |config| config).await;
    let mut own = events.remove(0);
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(event) = own.recv().await {
            let _ = told.send(event);
        }
    });
    let first = groups[0].broadcast_with_receipt("one").await.unwrap();
    let second = groups[0].broadcast_with_receipt("two").await.unwrap();
    first.stable().await.unwrap();
    second.stable().await.unwrap();
    for events in &mut events {
        let told = [(0, "one".to_owned()), (0, "two".to_owned())];
        assert_eq!(receive(events, 2).await, told, "it was there before the receipt said so");
    }
    // A member that dies does not keep a receipt open.
    groups[1].stop().await;
    let third = groups[0].broadcast_with_receipt("three").await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), third.stable()).await.unwrap().unwrap();
    groups[0].leave().await.unwrap();
    while heard.recv().await != Some(Event::Left) {}
    let refused = groups[0].broadcast_with_receipt("four").await.err();
    assert_eq!(refused, Some(BroadcastError::NotAMember));
}

#[tokio::test]
async fn without_a_quorum_nothing_is_accepted() {
    let (groups, mut events) = cluster(3, |config| config).await;
    groups[1].stop().await;
    groups[2].stop().await;
    while events[0].recv().await.expect("the host runs") != Event::LostPrimary {}
    assert_eq!(groups[0].broadcast("alone").await, Err(BroadcastError::LostPrimary));
    let refused = TryBroadcastError::Refused(BroadcastError::LostPrimary);
    assert_eq!(groups[0].try_broadcast("alone"), Err(refused));
}

#[tokio::test]
async fn who_cannot_join_is_told_why() {
    let (groups, _events) = cluster(2, |config| config).await;
    let peer = groups[0].local_addr().to_string();
    let soon = Duration::from_millis(1500);
    let error = |joined: Result<(Group, Events), JoinError>| joined.err().expect("no member");

    let elsewhere = Host::builder("another").start().await.unwrap();
    let joined = elsewhere.group("g").within(soon).peers([&peer]).join().await;
    assert!(matches!(error(joined), JoinError::Unanswered { .. }), "another cluster");
    let joined = host(7).await.group("another").within(soon).peers([&peer]).join().await;
    assert!(matches!(error(joined), JoinError::NotRun { .. }), "another group");
    let joined = host(7).await.group("g").within(soon).peers(["127.0.0.1:1"]).join().await;
    let text = error(joined).to_string();
    assert!(text.contains("127.0.0.1:1") && text.contains("is one running"), "{text}");

    let joined = host(7).await.group("g").peers(["no such host.invalid:1"]).join().await;
    assert!(matches!(error(joined), JoinError::Peer(_)));
    let joined = host(7).await.group("g").peers(["127.0.0.1"]).join().await;
    assert!(error(joined).to_string().contains("expected HOST:PORT"));
    let joined = host(7).await.group("g").peers([] as [&str; 0]).join().await;
    assert!(matches!(error(joined), JoinError::NoPeer));
}

#[tokio::test]
async fn a_second_member_with_the_same_id_is_refused_and_the_first_goes_on() {
    let (groups, mut events) = cluster(3, |config| config).await;
    let peer = groups[0].local_addr().to_string();
    let joined = host(1).await.group("g").within(Duration::from_secs(3)).peers([peer]).join().await;
    let refused = joined.err().expect("refused");
    assert!(matches!(refused, JoinError::Refused { refusal: Refusal::IdInUse }), "{refused}");
    groups[1].broadcast("still here").await.unwrap();
    for events in &mut events {
        assert_eq!(receive(events, 1).await, [(1, "still here".to_owned())]);
    }
}

/// The member of this number, as the view names it.
fn member(group: &Group, id: u32) -> Member {
    let view = group.view().expect("in a view");
    *view.members().iter().find(|member| member.node == NodeId::from(id)).expect("in the view")
}

/// The next messages to this member alone, as `(sender, text)`.
async fn receive_direct(events: &mut Events, count: usize) -> Vec<(u64, String)> {
    let mut received = Vec::new();
    while received.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
        match next.expect("a message comes in time").expect("the host runs") {
            Event::Direct(message) => {
                let text = String::from_utf8(message.payload.to_vec()).unwrap();
                received.push((message.from.node.0, text));
            }
            Event::Delivered(message) => panic!("{message:?}"),
            _ => {}
        }
    }
    received
}

/// Reads on, and passes on what may matter.
fn read(mut events: Events) -> tokio::sync::mpsc::UnboundedReceiver<Event> {
    let (told, heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            let _ = told.send(event);
        }
    });
    heard
}

#[tokio::test]
async fn a_message_to_one_member_comes_to_it_alone_in_order_and_its_sender_is_told() {
    let (groups, mut events) = cluster(3, |config| config).await;
    let mut others = events.split_off(1);
    let mut heard = read(events.remove(0));
    let (first, second) = (member(&groups[0], 1), member(&groups[0], 2));
    let mut sent = Vec::new();
    for number in 0..200 {
        sent.push(groups[0].send_to(first, format!("one {number}")).await.unwrap());
        sent.push(groups[0].send_to(second, format!("two {number}")).await.unwrap());
    }
    for (events, name) in others.iter_mut().zip(["one", "two"]) {
        let expected: Vec<_> = (0..200).map(|number| (0, format!("{name} {number}"))).collect();
        assert_eq!(receive_direct(events, 200).await, expected);
    }
    for message in sent {
        let told = tokio::time::timeout(Duration::from_secs(10), message.delivered()).await;
        told.expect("in time").unwrap();
    }
    // An answer to the sender of a broadcast.
    groups[0].broadcast("who is there?").await.unwrap();
    let asked = others[1].delivery().await.unwrap();
    groups[2].send_to(asked.sender(), "I am").await.unwrap();
    loop {
        if let Event::Direct(message) = heard.recv().await.unwrap() {
            assert_eq!((message.from.node, &message.payload[..]), (NodeId(2), &b"I am"[..]));
            return;
        }
    }
}

#[tokio::test]
async fn a_large_message_to_one_member_is_cut_and_streams_that_break_lose_nothing() {
    let (groups, mut events) = cluster(3, |config| config).await;
    let mut reader = events.pop().unwrap();
    let _told: Vec<_> = events.into_iter().map(read).collect();
    let to = member(&groups[0], 2);
    let large: Bytes = (0..3_000_000u32).map(|i| (i % 251) as u8).collect::<Vec<u8>>().into();
    let (sender, payload) = (groups[0].clone(), large.clone());
    tokio::spawn(async move {
        for number in 0..400u32 {
            let payload = if number == 100 { payload.clone() } else { format!("{number}").into() };
            sender.send_to(to, payload).await.unwrap();
            if number % 40 == 20 {
                sender.node().emulate(EmulateChange::Reset(to.node)).unwrap();
            }
        }
    });
    let mut number = 0u32;
    while number < 400 {
        let next = tokio::time::timeout(Duration::from_secs(20), reader.recv()).await;
        if let Event::Direct(message) = next.expect("in time").expect("the host runs") {
            let expected = if number == 100 { large.clone() } else { format!("{number}").into() };
            assert!(message.payload == expected, "message {number}");
            number += 1;
        }
    }
}

#[tokio::test]
async fn a_reader_that_stands_still_holds_its_sender_back_and_nobody_else() {
    const MESSAGE: usize = 8000;
    let (groups, mut events) = cluster(3, |config| config).await;
    let mut slow = events.pop().unwrap();
    let mut fast = events.pop().unwrap();
    let _told = read(events.pop().unwrap());
    let (to_slow, to_fast) = (member(&groups[0], 2), member(&groups[0], 1));
    let (mut accepted, mut refusals) = (0u32, 0);
    while refusals < 50 {
        match groups[0].try_send_to(to_slow, vec![accepted as u8; MESSAGE]) {
            Ok(_) => (accepted, refusals) = (accepted + 1, 0),
            Err(TrySendError::WouldBlock(_)) => {
                refusals += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(error) => panic!("{error}"),
        }
        // A window unread over there, and as much waits here.
        assert!(accepted as usize * MESSAGE < 3 * (256 << 10), "it delays no other member");
    }
    assert!(accepted as usize * MESSAGE > 256 << 10, "the window was not used: {accepted}");
    for number in 0..100 {
        groups[0].send_to(to_fast, format!("{number}")).await.unwrap();
        assert_eq!(receive_direct(&mut fast, 1).await, [(0, format!("{number}"))]);
    }
    let group = groups[0].clone();
    let more = tokio::spawn(async move {
        for number in accepted..accepted + 100 {
            group.send_to(to_slow, vec![number as u8; MESSAGE]).await.unwrap();
        }
    });
    let mut number = 0;
    while number < accepted + 100 {
        let next = tokio::time::timeout(Duration::from_secs(20), slow.recv()).await;
        if let Event::Direct(message) = next.expect("in time").expect("the host runs") {
            assert_eq!(message.payload[..], vec![number as u8; MESSAGE]);
            number += 1;
        }
    }
    more.await.unwrap();
}

#[tokio::test]
async fn messages_to_one_member_go_on_through_views_and_each_comes_once() {
    let (groups, mut events) = cluster(3, |config| config).await;
    let mut reader = events.remove(1);
    let _told: Vec<_> = events.into_iter().map(read).collect();
    let to = member(&groups[0], 1);
    let (sender, leaver) = (groups[0].clone(), groups[2].clone());
    let peer = sender.local_addr().to_string();
    tokio::spawn(async move {
        for number in 0..1000 {
            sender.send_to(to, format!("{number}")).await.unwrap();
            if number == 300 {
                let leaver = leaver.clone();
                tokio::spawn(async move { leaver.leave().await.unwrap() });
            }
            if number % 10 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let joined =
        tokio::spawn(async move { host(7).await.group("g").peers([peer]).join().await.unwrap() });
    let received = receive_direct(&mut reader, 1000).await;
    let expected: Vec<_> = (0..1000).map(|number| (0, format!("{number}"))).collect();
    assert_eq!(received, expected);
    joined.await.unwrap();
    let view = groups[0].view().unwrap();
    assert!(view.contains(to) && view.rank(NodeId(2)).is_none(), "{view:?}");
}

#[tokio::test]
async fn a_sender_learns_that_its_receiver_is_gone_or_never_was() {
    let (groups, mut events) = cluster(4, |config| config.with_message_bytes_max(1000)).await;
    let mut heard = read(events.remove(0));
    let (victim, other) = (member(&groups[0], 2), member(&groups[0], 1));
    let failed = |failure| SendError::Failed(failure);
    let stranger = Member { node: NodeId(2), incarnation: victim.incarnation ^ 1 };
    let refused = groups[0].send_to(stranger, "another incarnation").await.err();
    assert_eq!(refused, Some(failed(SendFailure::NotInView)));
    let refused = groups[0].send_to(member(&groups[0], 0), "oneself").await.err();
    assert_eq!(refused, Some(failed(SendFailure::NotInView)));
    let refused = groups[0].send_to(other, vec![0; 1001]).await.err();
    let too_large = SendFailure::TooLarge { bytes: 1001, bytes_max: 1000 };
    assert_eq!(refused, Some(failed(too_large)));

    // Sent to one that stands still, until the others give it up.
    groups[2].node().emulate(EmulateChange::Pause(Duration::from_secs(60))).unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let sent = groups[0].send_to(victim, "too late").await.unwrap();
    let ticket = sent.ticket();
    let told = tokio::time::timeout(Duration::from_secs(10), sent.delivered()).await;
    assert_eq!(told.expect("in time"), Err(failed(SendFailure::Departed)));
    loop {
        let event = heard.recv().await.expect("the host runs");
        if let Event::Undelivered { to, ticket: told, failure } = event {
            assert_eq!((to, told, failure), (victim, ticket, SendFailure::Departed));
            break;
        }
    }
    let refused = groups[0].send_to(victim, "later still").await.err();
    assert_eq!(refused, Some(failed(SendFailure::NotInView)));

    // Without a quorum nothing is accepted, and after a stop neither.
    groups[1].stop().await;
    groups[3].stop().await;
    while heard.recv().await.expect("the host runs") != Event::LostPrimary {}
    let refused = groups[0].send_to(other, "alone").await.err();
    assert_eq!(refused, Some(failed(SendFailure::LostPrimary)));
    groups[0].stop().await;
    while heard.recv().await.is_some() {}
    assert!(groups[0].send_to(other, "stopped").await.is_err());
}
