//! Requests to one member, and to all, on real loopback sockets.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use paceline::net::EmulateChange;
use paceline::{
    Event, Events, Group, Host, Member, NodeId, Quorum, Request, RequestAllError, RequestError,
    RequestFailure, SendFailure, ViewsConfig,
};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

type Change = fn(ViewsConfig) -> ViewsConfig;

/// A member, and what its application has not handled yet.
struct Peer {
    group: Group,
    requests: UnboundedReceiver<Request>,
    views: UnboundedReceiver<usize>,
}

impl Peer {
    /// Reads all events.
    fn new(group: Group, mut events: Events) -> Peer {
        let ((asks, requests), (tells, views)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    Event::Request(request) => drop(asks.send(request)),
                    Event::View(view) => drop(tells.send(view.len())),
                    _ => {}
                }
            }
        });
        Peer { group, requests, views }
    }

    async fn view_of(&mut self, members: usize) {
        let wanted = async { while self.views.recv().await.expect("runs") != members {} };
        timeout(SOON, wanted).await.expect("a view in time");
    }

    async fn asked(&mut self) -> Request {
        timeout(SOON, self.requests.recv()).await.expect("a request in time").expect("it runs")
    }

    fn member(&self, id: u32) -> Member {
        let view = self.group.view().expect("in a view");
        view.members()[view.rank(NodeId::from(id)).expect("in the view")]
    }

    /// Replies to all with its id and the request.
    fn echo(mut self) -> Group {
        let group = self.group.clone();
        tokio::spawn(async move {
            while let Some(request) = self.requests.recv().await {
                let text = String::from_utf8_lossy(request.bytes()).into_owned();
                let _ = request.reply(format!("{}: {text}", self.group.id())).await;
            }
        });
        group
    }
}

async fn cluster(members: u32, change: Change) -> Vec<Peer> {
    let host = async |id: u32| Host::builder("test").id(NodeId::from(id)).start().await.unwrap();
    let group = host(0).await.group("g").with_views(change);
    let (group, events) = group.bootstrap().await.unwrap();
    let peer = group.local_addr().to_string();
    let mut peers = vec![Peer::new(group, events)];
    for id in 1..members {
        let joined =
            host(id).await.group("g").with_views(change).peers([&peer]).join().await.unwrap();
        peers.push(Peer::new(joined.0, joined.1));
    }
    for peer in &mut peers {
        peer.view_of(members as usize).await;
    }
    peers
}

fn failed<T>(failure: RequestFailure) -> Result<T, RequestError> {
    Err(RequestError::Failed(failure))
}

#[tokio::test]
async fn replies_reach_the_requests_they_answer_whatever_their_order() {
    let mut peers = cluster(2, |config| config).await;
    let caller = peers[0].group.clone();
    let to = peers[0].member(1);
    let large: Bytes = vec![7; 500_000].into();
    let asking: Vec<_> = (0..50u32)
        .map(|number| {
            let payload = if number == 20 { large.clone() } else { format!("{number}").into() };
            let request = caller.request(to, payload);
            tokio::spawn(async move { request.await })
        })
        .collect();
    let mut asked = Vec::new();
    for _ in 0..50 {
        asked.push(peers[1].asked().await);
    }
    for request in asked.into_iter().rev() {
        assert_eq!(request.from(), peers[0].member(0));
        let reply = [b"re: ", &request.bytes()[..]].concat();
        request.reply(reply).await.unwrap();
    }
    for (number, asking) in asking.into_iter().enumerate() {
        let payload = if number == 20 { large.clone() } else { format!("{number}").into() };
        let reply = timeout(SOON, asking).await.expect("in time").unwrap().unwrap();
        assert!(reply == [b"re: ", &payload[..]].concat(), "request {number}");
    }
    let itself = caller.request(peers[0].member(0), "me");
    let itself = tokio::spawn(async move { itself.await });
    peers[0].asked().await.reply("myself").await.unwrap();
    assert_eq!(itself.await.unwrap().unwrap(), "myself");
}

#[tokio::test]
async fn a_request_that_is_dropped_or_not_answered_or_whose_caller_gives_up_ends() {
    let mut peers = cluster(2, |config| config.with_requests_max(2)).await;
    let (caller, to) = (peers[0].group.clone(), peers[0].member(1));
    let refused = tokio::spawn({
        let request = caller.request(to, "dropped");
        async move { request.await }
    });
    drop(peers[1].asked().await);
    assert_eq!(refused.await.unwrap(), failed(RequestFailure::Refused));

    // Two that the callee keeps take all room, also once the caller no longer waits.
    let late = caller.request(to, "late").within(Duration::from_millis(50)).await;
    assert_eq!(late, failed(RequestFailure::TimedOut));
    let kept = peers[1].asked().await;
    let dropped = timeout(Duration::from_millis(50), caller.request(to, "given up")).await;
    assert!(dropped.is_err());
    let given_up = peers[1].asked().await;
    let third = caller.request(to, "no room").within(Duration::from_millis(50)).await;
    assert_eq!(third, failed(RequestFailure::TimedOut));
    assert!(peers[1].requests.try_recv().is_err(), "it was not sent");
    let third = tokio::spawn({
        let request = caller.request(to, "room");
        async move { request.await }
    });
    let sent = kept.reply("too late").await.unwrap();
    timeout(SOON, sent.delivered()).await.expect("in time").unwrap();
    let asked = peers[1].asked().await;
    assert_eq!(asked.bytes(), "room");
    drop(given_up);
    asked.reply("answered").await.unwrap();
    assert_eq!(timeout(SOON, third).await.expect("in time").unwrap().unwrap(), "answered");
}

#[tokio::test]
async fn a_member_that_leaves_or_is_gone_ends_the_requests_to_it() {
    let mut peers = cluster(4, |config| config).await;
    let (caller, to) = (peers[0].group.clone(), peers[0].member(1));
    let stranger = Member { node: to.node, incarnation: to.incarnation ^ 1 };
    let not_there = failed(RequestFailure::NotSent(SendFailure::NotInView));
    assert_eq!(caller.request(stranger, "who?").await, not_there);
    let ask = |to| {
        let request = caller.request(to, "wait").within(Duration::from_secs(60));
        tokio::spawn(async move { request.await })
    };
    let of_one_that_leaves = ask(to);
    let held = peers[1].asked().await;
    peers[1].group.leave().await.unwrap();
    let ended = timeout(SOON, of_one_that_leaves).await.expect("in time").unwrap();
    assert_eq!(ended, failed(RequestFailure::Departed));
    drop(held);
    let to = peers[0].member(2);
    let of_one_that_stands_still = ask(to);
    let held = peers[2].asked().await;
    peers[2].group.node().emulate(EmulateChange::Pause(Duration::from_secs(60))).unwrap();
    let ended = timeout(SOON, of_one_that_stands_still).await.expect("in time").unwrap();
    assert_eq!(ended, failed(RequestFailure::Departed));
    drop(held);
    assert_eq!(caller.request(to, "still there?").await, not_there);
    let own = ask(peers[0].member(3));
    peers[3].asked().await.reply("here").await.unwrap();
    assert_eq!(timeout(SOON, own).await.expect("in time").unwrap().unwrap(), "here");
    let pending = ask(peers[0].member(3));
    let _held = peers[3].asked().await;
    peers[0].group.leave().await.unwrap();
    let ended = timeout(SOON, pending).await.expect("in time").unwrap();
    assert_eq!(ended, failed(RequestFailure::Parted));
}

#[tokio::test]
async fn a_request_to_all_ends_with_its_quorum_and_names_those_that_did_not_reply() {
    let mut peers = cluster(4, |config| config).await;
    // The last one keeps what it is asked.
    let mut silent = peers.pop().expect("four");
    let gone = peers[0].member(2);
    let group = peers[0].group.clone();
    let groups: Vec<Group> = peers.into_iter().map(Peer::echo).collect();
    for (quorum, replies) in [(Quorum::First, 1), (Quorum::Majority, 3), (Quorum::Count(2), 2)] {
        let got = timeout(SOON, group.request_all("load", quorum)).await.expect("in time");
        let got = got.unwrap();
        assert_eq!((got.iter().count(), got.outcomes().len()), (replies, 4), "{quorum:?}");
        for (member, reply) in got.iter() {
            assert_eq!(reply, format!("{}: load", member.node).as_bytes());
        }
        drop(silent.asked().await);
    }
    let missed = group.request_all("too many", Quorum::Count(5)).await;
    assert_eq!(missed, Err(RequestAllError::TooFewMembers { needed: 5, members: 4 }));
    let all = group.request_all("all", Quorum::All).within(Duration::from_secs(1)).await;
    let Err(RequestAllError::Missed { needed: 4, replies }) = all else { panic!("{all:?}") };
    let failures: BTreeMap<u64, RequestFailure> =
        replies.failures().map(|(member, failure)| (member.node.0, failure)).collect();
    assert_eq!(failures, BTreeMap::from([(3, RequestFailure::TimedOut)]));
    let held = silent.asked().await;
    let pending = group.request_all("who?", Quorum::All).within(Duration::from_secs(60));
    let pending = tokio::spawn(async move { pending.await });
    let asked = silent.asked().await;
    drop((held, asked));
    let missed = timeout(SOON, pending).await.expect("in time").unwrap();
    let Err(RequestAllError::Missed { replies, .. }) = missed else { panic!("{missed:?}") };
    assert!(replies.failures().any(|(_, failure)| failure == RequestFailure::Refused), "{replies}");
    groups[2].leave().await.unwrap();
    silent.view_of(3).await;
    while group.members().len() != 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let majority = group.request_all("still", Quorum::Majority).await.unwrap();
    assert!(majority.outcomes().iter().all(|(member, _)| *member != gone));
}
