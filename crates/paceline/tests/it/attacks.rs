//! What nodes that belong to nothing send to a group, and members that come in numbers.

use crate::support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use paceline::net::record::{Kind, ServiceNumber, Session};
use paceline::proto::core::{Member, Protocol, View, Wire};
use paceline::proto::group::{self, Ballot, Config, Contact, Message, Proposal};
use paceline::proto::{chain, detector};
use paceline::{Event, Events, Group, Host, NodeId, ViewId};
use support::stranger::{Stranger, encoded};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(30);
const MEMBERS: u32 = 3;

fn service() -> ServiceNumber {
    let config = Config::new(chain::Config::for_groups(), detector::Config::new());
    ServiceNumber::of("group", "g").on(&group::Group::terms(&config))
}

async fn host(id: u32) -> Host {
    Host::builder("test").id(NodeId::from(id)).start().await.unwrap()
}

/// Members 1 to 3 in one view, and that view.
async fn group() -> (Vec<Group>, Vec<Events>, Arc<View>) {
    let (first, events) = host(1).await.group("g").bootstrap().await.unwrap();
    let peer = first.local_addr().to_string();
    let (mut groups, mut all_events) = (vec![first], vec![events]);
    for id in 2..=MEMBERS {
        let (group, events) =
            host(id).await.group("g").within(SOON).peers([&peer]).join().await.unwrap();
        groups.push(group);
        all_events.push(events);
    }
    for events in &mut all_events {
        view_of(events, MEMBERS as usize).await;
    }
    let view = groups[0].view().expect("in a view");
    (groups, all_events, view)
}

async fn next(events: &mut Events) -> Event {
    let next = tokio::time::timeout(SOON, events.recv()).await;
    next.expect("in time").expect("the host runs")
}

async fn view_of(events: &mut Events, members: usize) {
    loop {
        if let Event::View(view) = next(events).await
            && view.len() == members
        {
            return;
        }
    }
}

/// Every member broadcasts one message, and all deliver all of them. No other event occurs.
async fn exchange(groups: &[Group], events: &mut [Events], round: u32) {
    for group in groups {
        group.broadcast(format!("{round} of {}", group.id())).await.unwrap();
    }
    for events in events {
        let mut told: Vec<Bytes> = Vec::new();
        while told.len() < groups.len() {
            match next(events).await {
                Event::Delivered(delivery) => told.push(delivery.payload),
                other => panic!("{other:?}"),
            }
        }
        told.sort_unstable();
        let expected: Vec<String> =
            groups.iter().map(|group| format!("{round} of {}", group.id())).collect();
        assert_eq!(told, expected);
    }
}

fn contact(stranger: &Stranger) -> Contact {
    let member = Member { node: NodeId(stranger.id), incarnation: stranger.session.incarnation() };
    Contact { member, host: 0, token: 9, address: Bytes::from(stranger.addr().to_string()) }
}

/// Messages of members that have come; questions are answered.
fn heard(stranger: &Stranger, from: &Group) -> usize {
    let mut buffer = [0; 2000];
    let mut messages = 0;
    while let Ok((bytes, _)) = stranger.udp.recv_from(&mut buffer) {
        stranger.answer_question(from.local_addr(), &buffer[..bytes]);
        messages += usize::from(buffer[1] == 1);
    }
    messages
}

fn sum(groups: &[Group], counter: &str) -> u64 {
    groups.iter().map(|group| group.stats().counters.count(counter)).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_beside_sixty_one_phantom_joiners_goes_on_as_it_was() {
    let (groups, mut events, view) = group().await;
    let phantoms: Vec<Stranger> = (100..161).map(|id| Stranger::new(service(), id)).collect();
    for phantom in &phantoms {
        phantom.proves_itself(groups[0].local_addr()).await;
    }
    let mut messages = 0;
    for round in 0..20 {
        for (place, phantom) in phantoms.iter().enumerate() {
            // They ask the oldest member to join, and do not answer its questions. Every third
            // names the next one, which has not asked to join.
            let named = if place % 3 == 2 { &phantoms[(place + 1) % 61] } else { phantom };
            let join = encoded(&Message::Join(contact(named)));
            phantom.say(groups[0].local_addr(), Kind::Message, &join);
            messages += heard(phantom, &groups[0]);
        }
        exchange(&groups, &mut events, round).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(messages >= 40, "{messages} of them were asked to prove where they are");
    assert!(sum(&groups, "group_foreign_join") >= 20, "{:?}", groups[0].stats());
    for group in &groups {
        assert_eq!(group.view(), Some(view.clone()));
    }
    // Who does answer comes in.
    let peer = groups[0].local_addr().to_string();
    let (fourth, mut own) =
        host(4).await.group("g").within(SOON).peers([&peer]).join().await.unwrap();
    for events in events.iter_mut().chain([&mut own]) {
        view_of(events, 4).await;
    }
    assert_eq!(fourth.members(), [1, 2, 3, 4].map(NodeId));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_views_rounds_and_sessions_of_the_future_change_nothing() {
    let (groups, mut events, view) = group().await;
    let forger = Stranger::new(service(), 200);
    for group in &groups {
        forger.proves_itself(group.local_addr()).await;
    }
    let members: Vec<Member> = view.members().to_vec();
    let contacts = |members: &[Member]| -> Vec<Contact> {
        let of = |&member| Contact { member, host: 0, token: 9, address: Bytes::new() };
        let mut contacts: Vec<Contact> = members.iter().map(of).collect();
        contacts.sort_by_key(|contact| contact.member.node);
        contacts
    };
    let future = Session::new(u64::MAX >> 8, 7);
    for round in 0..20_u32 {
        for (place, group) in groups.iter().enumerate() {
            let to = group.local_addr();
            let victim = members[place];
            let others: Vec<Member> =
                members.iter().copied().filter(|member| *member != victim).collect();
            let ballot = |round| Ballot { round, proposer: NodeId(200) };
            let proposal = Arc::new(Proposal {
                made_at: ballot(u32::MAX),
                is_adopted: false,
                kept: vec![0],
                next: contacts(&others),
                cuts: vec![],
            });
            let lies = [
                // The next view, without the member that gets the message, and with it.
                Message::Install {
                    after: view.id(),
                    made_at: ballot(1),
                    members: contacts(&others),
                },
                Message::Install {
                    after: view.id(),
                    made_at: ballot(1),
                    members: contacts(&members),
                },
                Message::Install {
                    after: ViewId(u64::MAX),
                    made_at: ballot(u32::MAX),
                    members: contacts(&members),
                },
                Message::Prepare {
                    view: view.id(),
                    digest: view.digest(),
                    ballot: ballot(u32::MAX - round),
                },
                Message::Accept { view: view.id(), ballot: ballot(u32::MAX), proposal },
                Message::Rejected { view: view.id(), promised: ballot(u32::MAX) },
                Message::Excluded { view: ViewId(view.id().0 + 1) },
                Message::Installed { view: ViewId(view.id().0 + 1) },
            ];
            for lie in &lies {
                assert!(lie.wire_len() < 1100, "a datagram takes it");
                forger.say(to, Kind::Message, &encoded(lie));
            }
            // A run of another member that begins in the future.
            let other = others[0].node.0;
            forger.say_in(future, other, to, Kind::Hello, future.as_bytes());
            forger.answer(to);
        }
        exchange(&groups, &mut events, round).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(sum(&groups, "record_future_session") >= 40);
    assert!(sum(&groups, "group_foreign_install") >= 40, "{:?}", groups[1].stats());
    assert!(sum(&groups, "group_foreign_proposer") >= 40, "{:?}", groups[1].stats());
    assert_eq!(sum(&groups, "group_excluded"), 0);
    for group in &groups {
        assert_eq!(group.view(), Some(view.clone()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_forger_sends_in_the_name_of_a_member_changes_nothing() {
    let (groups, mut events, view) = group().await;
    let contacts: Vec<Contact> = view
        .members()
        .iter()
        .map(|&member| Contact { member, host: 0, token: 9, address: Bytes::new() })
        .collect();
    // A node tells its session to any sender of a Who.
    let curious = Stranger::new(service(), 300);
    for group in &groups {
        curious.meets(group.local_addr()).await;
    }
    let sessions = curious.sessions.lock().unwrap().clone();
    for round in 0..20 {
        for (group, member) in groups.iter().zip(view.members()) {
            let session = sessions[&group.local_addr()];
            let forger = Stranger { session, id: member.node.0, ..Stranger::new(service(), 300) };
            let leave = Message::Leave { view: view.id(), incarnation: member.incarnation };
            let install = Message::Install {
                after: view.id(),
                made_at: Ballot { round: 1, proposer: member.node },
                members: contacts[..2].into(),
            };
            for other in groups.iter().filter(|other| other.id() != group.id()) {
                let to = other.local_addr();
                forger.say(to, Kind::Message, &encoded(&leave));
                forger.say(to, Kind::Message, &encoded(&install));
                assert!(!forger.dials(to).await, "a stream of the member's was taken over");
            }
        }
        exchange(&groups, &mut events, round).await;
    }
    assert!(sum(&groups, "record_unknown_session") >= 300);
    assert_eq!(sum(&groups, "stream_broken"), 0);
    for group in &groups {
        assert_eq!(group.view(), Some(view.clone()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_hosts_that_join_at_once_are_all_members_soon() {
    const JOINERS: u32 = 32;
    let (first, mut events) = host(0).await.group("g").bootstrap().await.unwrap();
    let peer = first.local_addr().to_string();
    let began = Instant::now();
    let joining: Vec<_> = (1..=JOINERS)
        .map(|id| {
            let peer = peer.clone();
            tokio::spawn(async move {
                host(id).await.group("g").within(SOON).peers([peer]).join().await
            })
        })
        .collect();
    let mut joined = Vec::new();
    for join in joining {
        joined.push(join.await.unwrap().unwrap());
    }
    view_of(&mut events, JOINERS as usize + 1).await;
    for (_, events) in &mut joined {
        view_of(events, JOINERS as usize + 1).await;
    }
    let took = began.elapsed();
    println!("{JOINERS} hosts joined in {took:?}");
    // A view takes about 30 ms here, and half as many as are in come in with each.
    assert!(took < Duration::from_secs(10), "{took:?}");
    first.broadcast("welcome").await.unwrap();
    for (group, events) in &mut joined {
        assert_eq!(group.members().len(), JOINERS as usize + 1);
        let delivery = tokio::time::timeout(SOON, events.delivery()).await.unwrap().unwrap();
        assert_eq!(delivery.payload, "welcome");
    }
}
