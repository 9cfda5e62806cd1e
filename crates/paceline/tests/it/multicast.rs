//! Multicast in time over loopback sockets, all hosts in this process.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use paceline::multicast::{Event, Events, GroupId, How, Order, Rate};
use paceline::net::{EmulateChange, Peers};
use paceline::proto::core::{LinkFaults, Loss};
use paceline::proto::slingshot::{Config, RejectReason};
use paceline::{Host, Multicast, MulticastBuilder, MulticastError, NodeId};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(30);

async fn builder(id: u32) -> MulticastBuilder {
    Host::builder("test").id(NodeId::from(id)).start().await.unwrap().multicast("prices")
}

type Member = (Multicast, Events);

/// A group of `members` members, once each knows of all.
async fn group(members: u32, change: impl Fn(Config) -> Config) -> Vec<Member> {
    let mut group = vec![builder(0).await.with_repairs(&change).bootstrap().await.unwrap()];
    for id in 1..members {
        let peer = group[0].0.local_addr().to_string();
        group.push(builder(id).await.with_repairs(&change).peers([peer]).join().await.unwrap());
    }
    for (_, events) in &mut group {
        view_of(events, members as usize).await;
    }
    group
}

async fn next(events: &mut Events) -> Event {
    tokio::time::timeout(SOON, events.recv()).await.expect("in time").expect("it runs")
}

async fn view_of(events: &mut Events, members: usize) {
    while !matches!(next(events).await, Event::View(view) if view.len() == members) {}
}

fn text(sender: u64, number: u64) -> Bytes {
    Bytes::from(format!("packet {number} of n{sender}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_gets_what_the_others_send_and_what_is_lost_comes_from_a_receiver() {
    const MEMBERS: u32 = 5;
    const PACKETS: u64 = 400;
    let mut group =
        group(MEMBERS, |config| config.with_rate(Rate { r: 5, c: 2 }).with_order(Order::Fifo))
            .await;
    for (member, _) in &group {
        let faults = LinkFaults { loss: Loss::Independent(0.05), ..LinkFaults::default() };
        member.node().emulate(EmulateChange::Faults { to: Peers::All, faults }).unwrap();
    }
    let sending = group.iter().map(|(member, _)| {
        let member = member.clone();
        tokio::spawn(async move {
            for number in 0..PACKETS {
                member.send(text(member.id().0, number)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    });
    let sending: Vec<_> = sending.collect();
    let (mut repaired, mut lost) = (0, 0);
    for (own, (_, events)) in (0..).zip(&mut group) {
        let mut ends: BTreeMap<NodeId, u64> = BTreeMap::new();
        while ends.len() < MEMBERS as usize - 1 || ends.values().any(|&end| end < PACKETS) {
            let (sender, first, end) = match next(events).await {
                Event::Packet(packet) => {
                    assert_eq!(packet.payload, text(packet.sender.0, packet.seq));
                    repaired += u64::from(packet.how != How::Direct);
                    (packet.sender, packet.seq, packet.seq + 1)
                }
                Event::Lost { sender, first, end, .. } => {
                    lost += end - first;
                    (sender, first, end)
                }
                Event::View(_) => continue,
                event => panic!("{event:?}"),
            };
            assert_ne!(sender, NodeId(own));
            assert_eq!(ends.insert(sender, end).unwrap_or(0), first, "of {sender}, in order");
        }
    }
    for task in sending {
        task.await.unwrap();
    }
    let copies = PACKETS * u64::from(MEMBERS * (MEMBERS - 1));
    assert!(repaired > copies / 40, "{repaired} of {copies} came by repair");
    assert!(lost * 50 < repaired, "{lost} lost, {repaired} repaired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_up_to_a_mebibyte_come_whole_although_packets_are_lost() {
    let patient = |config: Config| {
        let config = config.with_deadline(Duration::from_secs(5));
        config.with_lost_after(Duration::from_secs(5)).with_keep(Duration::from_secs(5))
    };
    let mut group = group(4, patient).await;
    for (member, _) in &group {
        let faults = LinkFaults { loss: Loss::Independent(0.01), ..LinkFaults::default() };
        member.node().emulate(EmulateChange::Faults { to: Peers::All, faults }).unwrap();
    }
    let packet = group[0].0.packet_bytes_max();
    assert_eq!(group[0].0.message_bytes_max(), 1 << 20);
    let sizes = [0, 1, packet, packet + 1, 1 << 16, 1 << 20, 3, 1 << 20];
    let bytes = |sender: u64, size: usize| {
        Bytes::from_iter((0..size).map(|at| (at as u64 * 7 + size as u64 + sender) as u8))
    };
    let sending = group.iter().take(2).map(|(member, _)| {
        let member = member.clone();
        tokio::spawn(async move {
            for size in sizes {
                member.send(bytes(member.id().0, size)).await.unwrap();
            }
        })
    });
    let sending: Vec<_> = sending.collect();
    for (own, (_, events)) in (0..).zip(&mut group) {
        let mut left: BTreeMap<(u64, usize), usize> = BTreeMap::new();
        for sender in (0..2).filter(|&sender| sender != own) {
            sizes.iter().for_each(|&size| *left.entry((sender, size)).or_default() += 1);
        }
        while left.values().any(|&left| left > 0) {
            match next(events).await {
                Event::Packet(message) => {
                    let (sender, size) = (message.sender.0, message.payload.len());
                    assert!(message.payload == bytes(sender, size), "{size} bytes of {sender}");
                    assert_eq!(message.packets > 1, size > packet);
                    let left = left.get_mut(&(sender, size)).expect("one of these was sent");
                    *left = left.checked_sub(1).expect("once");
                }
                Event::View(_) => {}
                event => panic!("{event:?}"),
            }
        }
    }
    for task in sending {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_member_that_stops_leaves_the_view_and_the_others_go_on() {
    let mut group = group(3, |config| config).await;
    let (gone, _) = group.pop().unwrap();
    gone.stop().await;
    assert_eq!(gone.send("late").await, Err(MulticastError::Closed));
    for (_, events) in &mut group {
        view_of(events, 2).await;
    }
    group[0].0.send("hello").await.unwrap();
    let packet = tokio::time::timeout(SOON, group[1].1.packet()).await.unwrap().unwrap();
    assert_eq!((packet.sender, &packet.payload[..]), (NodeId(0), &b"hello"[..]));
    let (leaver, mut events) = group.pop().unwrap();
    leaver.leave().await.unwrap();
    while next(&mut events).await != Event::Left {}
    let refused = leaver.send("late").await;
    assert_eq!(refused, Err(MulticastError::Refused(RejectReason::NotAMember(GroupId(0)))));
    view_of(&mut group[0].1, 1).await;
}

#[tokio::test]
async fn groups_of_some_members_overlap_and_what_cannot_be_is_refused() {
    let mut group = group(3, |config| config.with_overlap(true)).await;
    let ids = |list: &[u32]| list.iter().copied().map(NodeId::from).collect::<Vec<_>>();
    for (member, _) in &group {
        member.set_members(GroupId(1), ids(&[0, 1])).unwrap();
        member.set_members(GroupId(2), ids(&[0, 2])).unwrap();
    }
    // A member drops packets of a group that it does not know yet: send until one arrives.
    for (to, receiver) in [(1, 1), (2, 2)] {
        let sender = group[0].0.clone();
        let sending = tokio::spawn(async move {
            loop {
                sender.send_to(GroupId(to), "to some").await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let events = &mut group[receiver].1;
        let packet = tokio::time::timeout(SOON, events.packet()).await.unwrap().unwrap();
        assert_eq!(packet.group, GroupId(to));
        sending.abort();
    }
    let (member, events) = &mut group[1];
    member.send_to(GroupId(2), "not mine").await.unwrap();
    let rejected = Event::Rejected(RejectReason::NotAMember(GroupId(2)));
    while next(events).await != rejected {}
    let (bytes, bytes_max) = (member.message_bytes_max() + 1, member.message_bytes_max());
    let refused = member.send(vec![0; bytes]).await;
    assert_eq!(refused, Err(RejectReason::TooLarge { bytes, bytes_max }.into()));
    assert!(member.send(vec![0; bytes_max]).await.is_ok());
}

#[tokio::test]
async fn who_does_not_read_is_told_how_much_it_missed() {
    let mut group = group(2, |config| config.with_unread_max(Some(100))).await;
    for number in 0..1_000 {
        group[0].0.send(text(0, number)).await.unwrap();
        if number % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let stats = group[1].0.clone();
    let all_came = async {
        while stats.stats().counters.count("slingshot_overrun") < 850 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, all_came).await.expect("the bound holds");
    let (mut told, mut missed) = (0, 0);
    while told + missed < 1_000 {
        match next(&mut group[1].1).await {
            Event::Packet(_) => told += 1,
            Event::Overrun { packets } => missed += packets,
            Event::Lost { first, end, .. } => told += end - first,
            event => panic!("{event:?}"),
        }
    }
    assert!(told <= 150 && missed >= 850, "{told} told, {missed} missed");
}

/// A host knows all that its services work with, and a multicast has to do with its members only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_go_to_members_and_not_to_other_hosts_that_the_sender_knows() {
    const PACKETS: u64 = 100;
    let host = |id: u64| Host::builder("test").id(NodeId(id)).start();
    let [a, b, c] = [host(1).await.unwrap(), host(2).await.unwrap(), host(3).await.unwrap()];
    let peer = || [a.address().to_string()];
    let table = a.dht("stock").bootstrap().await.unwrap();
    let other = c.dht("stock").peers(peer()).join().await.unwrap();
    table.put("key", "value").await.unwrap();
    assert_eq!(other.get("key").await.unwrap().as_deref(), Some(&b"value"[..]));

    let (prices, mut own) = a.multicast("prices").bootstrap().await.unwrap();
    let (_kept, mut events) = b.multicast("prices").peers(peer()).join().await.unwrap();
    view_of(&mut own, 2).await;
    for number in 0..PACKETS {
        prices.send(text(1, number)).await.unwrap();
    }
    let mut came = 0;
    while came < PACKETS {
        came += u64::from(matches!(next(&mut events).await, Event::Packet(_)));
    }
    // The table still works over the same sockets, so what was sent to this host has come.
    assert_eq!(other.get("key").await.unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(c.stats().counters.count("record_unknown_service"), 0);
}
