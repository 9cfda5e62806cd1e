//! Starting, admission, and the cost of rest.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use paceline_net::{BindError, Bound, Exposure, Node, StartError, TrySubmitError};
use paceline_proto::core::{Lane, NodeId};
use support::{Order, Post, Report, bind, bind_all, config, pair, start_with};

#[tokio::test]
async fn a_port_in_use_is_named_with_the_remedy() {
    let taken = bind(config(0));
    let error = Bound::bind(taken.local_addr(), config(1)).expect_err("taken");
    assert!(matches!(error, BindError::PortInUse { addr } if addr == taken.local_addr()));
    let text = error.to_string();
    assert!(text.contains(&taken.local_addr().port().to_string()), "{text}");
    assert!(text.contains("choose another port"), "{text}");
}

#[tokio::test]
async fn beyond_loopback_plaintext_must_be_allowed() {
    let anywhere = "0.0.0.0:0".parse().unwrap();
    let error = Bound::bind(anywhere, config(0)).expect_err("refused");
    assert!(error.to_string().contains("`--insecure-plaintext`"), "{error}");
    let allowed = config(0).with_exposure(Exposure::InsecurePlaintext);
    Bound::bind(anywhere, allowed).expect("allowed");
}

#[tokio::test]
async fn a_node_must_be_in_its_roster() {
    let (_bound, roster) = bind_all(1, |config| config);
    let result = Node::start(config(7), roster, Post::default(), Arc::new(()));
    let error = result.err().expect("refused");
    assert!(matches!(error, StartError::NotAMember { node: NodeId(7) }), "{error}");
}

#[test]
fn a_node_needs_a_runtime() {
    let (mut bound, roster) = bind_all(1, |config| config);
    let result = bound.remove(0).start(roster, Post::default(), Arc::new(()));
    assert!(matches!(result.err(), Some(StartError::NoRuntime)));
}

#[tokio::test]
async fn submission_blocks_at_the_bound_and_wakes_when_it_rises() {
    let (mut bound, roster) = bind_all(1, |config| config);
    let post = Post { admitted_bytes: Some(100), ..Post::default() };
    let mut a = start_with(bound.remove(0), &roster, post);
    a.node.try_submit(Order::Fill(60), 60).expect("100 are admitted");
    assert_eq!(a.next().await, Report::Filled);
    a.node.try_submit(Order::Fill(60), 60).expect("40 are left, so one more of any size");
    let refused = a.node.try_submit(Order::Fill(1), 1);
    assert!(matches!(refused, Err(TrySubmitError::WouldBlock(Order::Fill(1)))));
    assert_eq!(a.next().await, Report::Filled);
    let submitted = tokio::spawn({
        let node = a.node.clone();
        async move { node.submit(Order::Fill(5), 5).await }
    });
    tokio::task::yield_now().await;
    assert!(!submitted.is_finished());
    a.order(Order::Admit(50));
    submitted.await.expect("no panic").expect("the node runs");
    assert_eq!(a.next().await, Report::Filled);
}

#[tokio::test]
async fn a_waiting_submission_ends_when_the_node_stops() {
    let (mut bound, roster) = bind_all(1, |config| config);
    let post = Post { admitted_bytes: Some(0), ..Post::default() };
    let a = start_with(bound.remove(0), &roster, post);
    let submit = a.node.submit(Order::Fill(1), 1);
    let (submitted, _) = tokio::join!(submit, a.node.stop());
    assert!(submitted.is_err());
    let late = a.node.try_submit(Order::Fill(1), 1);
    assert!(matches!(late, Err(TrySubmitError::Closed(Order::Fill(1)))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_is_free_again_once_its_node_has_stopped() {
    let (mut bound, roster) = bind_all(1, |config| config);
    let addr = bound[0].local_addr();
    for _ in 0..50 {
        let next = bound.pop().expect("bound");
        let node = start_with(next, &roster, Post::default());
        node.node.stop().await;
        bound.push(Bound::bind(addr, config(0)).expect("the port is free"));
    }
}

#[tokio::test]
async fn dropping_all_handles_stops_the_node_and_ends_its_events() {
    let (a, mut b) = pair();
    a.send(1, Lane::Stream, 1, "last words");
    drop(a.node);
    assert_eq!(b.message().await.number, 1);
    let mut events = a.events;
    assert!(tokio::time::timeout(support::PATIENCE, events.recv()).await.expect("ends").is_none());
}

#[tokio::test]
async fn a_node_at_rest_makes_no_turns() {
    let (a, mut b) = pair();
    for number in 0..10 {
        a.send(1, Lane::Stream, number, "");
        a.send(1, Lane::Datagram, number, "");
    }
    b.numbers(20).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let turns = |node: &support::Running| node.node.stats().traffic.turns;
    let before = (turns(&a), turns(&b));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((turns(&a), turns(&b)), before);
}

#[tokio::test]
async fn stats_tell_what_went_through_the_sockets() {
    let (a, mut b) = pair();
    a.send(1, Lane::Stream, 1, vec![0; 5000]);
    b.message().await;
    let (sent, received) = (a.node.stats().traffic, b.node.stats().traffic);
    assert_eq!((sent.stream_messages_out, received.stream_messages_in), (1, 1));
    assert_eq!(sent.stream_bytes_out, (4 + 32 + 9 + 5000) as u64);
    assert!(received.stream_bytes_in > 5000 && received.stream_reads > 0);
}
