//! Nodes that no roster names: which are let in, which are refused, and what each learns.

use crate::support;

use std::time::Duration;

use paceline_net::record::{Kind, Session};
use paceline_proto::core::Lane;
use support::stranger::{MESSAGE, Stranger, open_node};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stranger_is_let_in_once_it_has_said_hello() {
    let mut node = open_node();
    let (addr, stranger) = (node.node.local_addr(), Stranger::new(9, 1000));
    stranger.say(addr, Kind::Message, &MESSAGE);
    // Before that the node asks for its proof, and accepts no message.
    assert!(stranger.hears(Kind::Who).is_empty());
    node.counted("record_unknown_session", 1).await;
    // Strangers are answered one at a time.
    tokio::time::sleep(Duration::from_millis(50)).await;
    stranger.say(addr, Kind::Who, &[]);
    assert_eq!(stranger.hears(Kind::Hello).len(), 16);
    stranger.meets(addr);
    stranger.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_node_with_the_id_of_one_that_is_there_is_refused_and_told_so() {
    let mut node = open_node();
    let (addr, first) = (node.node.local_addr(), Stranger::new(9, 1000));
    first.proves_itself(&node).await;
    first.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
    let second = first.restarted();
    second.hello(addr);
    // It is where it says, but the first answers too.
    second.answers(addr);
    first.answers(addr);
    tokio::time::sleep(Duration::from_millis(50)).await;
    second.hello(addr);
    second.answers(addr);
    assert_eq!(second.hears(Kind::Taken)[0], 0);
    node.counted("record_id_in_use", 1).await;
    assert_eq!((node.count("peer_moved"), node.count("peer_restarted")), (0, 0));
    // The first run continues.
    first.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_whose_clock_was_set_back_is_refused_and_told_so() {
    let node = open_node();
    let addr = node.node.local_addr();
    // Said hello and where it is, never heard of again.
    Stranger::new(9, 5000).proves_itself(&node).await;
    let back = Stranger { session: Session::new(4000, 77), ..Stranger::new(9, 0) };
    tokio::time::sleep(Duration::from_millis(50)).await;
    back.hello(addr);
    // A refusal names the nonce that it answers: no other sender knows it.
    let nonce = back.answers(addr);
    assert_eq!(back.hears(Kind::Taken), [&[1], &nonce[..]].concat());
    node.counted("record_old_session", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_restarts_at_another_address_is_moved_there_once_it_has_answered() {
    let mut node = open_node();
    let (addr, first) = (node.node.local_addr(), Stranger::new(9, 1000));
    first.proves_itself(&node).await;
    first.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
    let second = first.restarted();
    drop(first);
    second.claims(&node).await;
    assert_eq!(node.count("peer_restarted"), 1);
    second.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
    // What the node sends goes to the new address.
    node.send(9, Lane::Datagram, 1, "to you");
    assert_eq!(second.hears(Kind::Message)[9..], *b"to you");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_forger_who_cannot_see_the_nonce_moves_nobody() {
    let mut node = open_node();
    let (addr, victim) = (node.node.local_addr(), Stranger::new(9, 1000));
    victim.meets(addr);
    victim.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
    let forger = victim.restarted();
    // For longer than silence needs to be; the victim does not answer either.
    for round in 0..40u8 {
        forger.hello(addr);
        forger.repeat(addr, &[round; 8]);
        forger.say(addr, Kind::Message, &MESSAGE);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(node.count("peer_challenged") > 0);
    assert_eq!((node.count("peer_moved"), node.count("peer_restarted")), (0, 0));
    // A nonce is for one address: what the victim was asked is worth nothing elsewhere.
    let probe = Stranger { session: forger.session, ..Stranger::new(9, 0) };
    probe.hello(addr);
    let nonce = probe.hears(Kind::Who);
    forger.repeat(addr, &nonce);
    victim.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
    assert_eq!((node.count("peer_moved"), node.count("peer_restarted")), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_address_that_has_proven_nothing_gets_no_more_than_three_times_what_it_sent() {
    let mut node = open_node();
    let (addr, victim) = (node.node.local_addr(), Stranger::new(9, 1000));
    victim.meets(addr);
    victim.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
    let unproven = victim.restarted();
    let mut sent = 0;
    for _ in 0..20 {
        unproven.hello(addr);
        unproven.say(addr, Kind::Message, &MESSAGE);
        unproven.say(addr, Kind::Who, &[]);
        sent += 48 + 41 + 32;
    }
    node.send(9, Lane::Datagram, 1, vec![0; 1000]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    unproven.socket.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 2000];
    let mut received = 0;
    while let Ok((bytes, _)) = unproven.socket.recv_from(&mut buffer) {
        received += bytes;
    }
    assert!(received > 0 && received <= 3 * sent, "{received} bytes for {sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_new_run_at_the_same_address_proves_it_too_and_waits_for_nothing() {
    let mut node = open_node();
    let (addr, first) = (node.node.local_addr(), Stranger::new(9, 1000));
    first.meets(addr);
    first.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
    let second = Stranger { session: Session::new(2000, 77), ..first };
    second.hello(addr);
    second.say(addr, Kind::Message, &MESSAGE);
    node.counted("record_unknown_session", 1).await;
    assert_eq!(node.count("peer_restarted"), 0, "a Hello alone says nothing");
    second.answers(addr);
    node.counted("peer_restarted", 1).await;
    second.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_new_run_elsewhere_that_only_asks_is_answered_once_the_run_before_is_silent() {
    let node = open_node();
    let (addr, first) = (node.node.local_addr(), Stranger::new(9, 1000));
    first.proves_itself(&node).await;
    let second = first.restarted();
    let asks = async || {
        second.say(addr, Kind::Who, b"a nonce!");
        tokio::time::sleep(Duration::from_millis(50)).await;
        second.answers_all(addr);
    };
    // While the run before answers, it is refused.
    for _ in 0..30 {
        asks().await;
        first.answers_all(addr);
    }
    assert_eq!(node.count("peer_moved"), 0);
    for _ in 0..50 {
        asks().await;
    }
    assert_eq!(node.count("peer_moved"), 1);
    second.asks(addr);
    assert_ne!(second.tag.get(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_later_start_that_has_proven_nothing_keeps_nobody_out() {
    let mut node = open_node();
    let addr = node.node.local_addr();
    // Forged, perhaps.
    Stranger::new(9, 5000).hello(addr);
    let true_one = Stranger::new(9, 4000);
    true_one.proves_itself(&node).await;
    assert_eq!(node.count("peer_restarted"), 1);
    true_one.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
    assert_eq!(node.count("record_old_session"), 0);
    node.send(9, Lane::Datagram, 1, "to you");
    assert_eq!(true_one.hears(Kind::Message)[9..], *b"to you");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_session_is_no_secret_and_moves_nobody_who_answers() {
    let mut node = open_node();
    let (addr, first) = (node.node.local_addr(), Stranger::new(9, 1000));
    first.proves_itself(&node).await;
    // A node tells its session to any sender of a Who. This one also receives at its own address.
    let thief = Stranger { session: first.session, ..Stranger::new(9, 0) };
    let unknown = Stranger { session: Session::new(1, 1), ..Stranger::new(9, 0) };
    let unknown = Stranger { socket: thief.socket.try_clone().expect("a socket"), ..unknown };
    for _ in 0..30 {
        unknown.say(addr, Kind::Message, &MESSAGE);
        let nonce = thief.hears(Kind::Who);
        thief.repeat(addr, &nonce);
        // The owner is asked, and answers.
        first.answers_all(addr);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(node.count("peer_moved"), 0);
    assert!(node.count("peer_challenged") > 30, "the owner was asked");
    node.send(9, Lane::Datagram, 1, "to you");
    assert_eq!(first.hears(Kind::Message)[9..], *b"to you");
    first.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
}
