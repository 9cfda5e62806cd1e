//! Broken streams, restarts, slow readers and emulated faults.

use crate::support;

use std::time::Duration;

use paceline_net::{Bound, EmulateChange, Peers};
use paceline_proto::core::{Lane, LinkFaults, Loss, NodeId, PeerState};
use support::{Order, Report, Running, bind_all, config, pair, start};

fn up(report: &Report) -> Option<u64> {
    match report {
        Report::Peer(_, PeerState::Up { incarnation }) => Some(*incarnation),
        _ => None,
    }
}

fn down(report: &Report) -> Option<()> {
    matches!(report, Report::Peer(_, PeerState::Down)).then_some(())
}

#[tokio::test]
async fn a_restarted_peer_gives_down_then_up_then_fresh_traffic() {
    let (mut bound, roster) = bind_all(2, |config| config);
    let mut b = start(bound.pop().expect("two"), &roster);
    let mut a = start(bound.pop().expect("two"), &roster);
    a.send(1, Lane::Stream, 1, "before");
    assert_eq!(b.message().await.number, 1);
    let (addr, old) = (b.node.local_addr(), b.node.incarnation());
    b.node.stop().await;
    a.find(down).await;
    a.send(1, Lane::Stream, 2, "while down");
    a.counted("stream_discarded", 1).await;
    drop(b);

    let mut b = start(Bound::bind(addr, config(1)).expect("the same port"), &roster);
    assert_eq!(a.find(up).await, b.node.incarnation());
    assert_ne!(b.node.incarnation(), old);
    a.send(1, Lane::Stream, 3, "after");
    assert_eq!(b.message().await.number, 3);
}

#[tokio::test]
async fn datagrams_flow_again_after_the_receiver_restarted() {
    let (mut bound, roster) = bind_all(2, |config| config);
    let mut b = start(bound.pop().expect("two"), &roster);
    let a = start(bound.pop().expect("two"), &roster);
    a.send(1, Lane::Datagram, 1, "introduced by a Hello");
    assert_eq!(b.message().await.number, 1);
    let addr = b.node.local_addr();
    b.node.stop().await;
    drop(b);

    let mut b = start(Bound::bind(addr, config(1)).expect("the same port"), &roster);
    // The first is dropped, and answered by a question for the session.
    a.send(1, Lane::Datagram, 2, "unknown session");
    b.counted("record_unknown_session", 1).await;
    let message = loop {
        a.send(1, Lane::Datagram, 3, "known session");
        tokio::select! {
            message = b.message() => break message,
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    };
    assert_eq!(message.number, 3);
}

#[tokio::test]
async fn an_idle_dialler_notices_that_its_peer_stopped() {
    let (mut a, mut b) = pair();
    a.send(1, Lane::Stream, 1, "hello");
    b.message().await;
    b.node.stop().await;
    a.find(down).await;
}

#[tokio::test]
async fn a_disconnected_peer_comes_back_on_a_fresh_stream() {
    let (mut a, mut b) = pair();
    a.send(1, Lane::Stream, 1, "");
    b.message().await;
    a.order(Order::Disconnect(NodeId(1)));
    a.find(down).await;
    assert_eq!(a.find(up).await, b.node.incarnation());
    a.send(1, Lane::Stream, 2, "");
    assert_eq!(b.message().await.number, 2);
}

#[tokio::test]
async fn a_reset_breaks_the_streams_of_both_ends() {
    let (mut a, mut b) = pair();
    a.send(1, Lane::Stream, 1, "");
    b.message().await;
    b.send(0, Lane::Stream, 1, "");
    a.message().await;
    a.node.emulate(EmulateChange::Reset(NodeId(1))).expect("the node runs");
    a.find(down).await;
    b.find(down).await;
    a.find(up).await;
    b.find(up).await;
    a.send(1, Lane::Stream, 2, "");
    assert_eq!(b.message().await.number, 2);
}

#[tokio::test]
async fn a_partition_stalls_streams_and_drops_datagrams_until_it_heals() {
    let (a, mut b) = pair();
    a.send(1, Lane::Stream, 1, "");
    b.message().await;
    a.node.emulate(EmulateChange::Partition(vec![NodeId(1)])).expect("the node runs");
    a.send(1, Lane::Stream, 2, "");
    a.send(1, Lane::Datagram, 3, "");
    a.counted("emulated_loss", 1).await;
    b.send(0, Lane::Datagram, 4, "");
    a.counted("emulated_loss", 2).await;
    assert_eq!(b.count("post_received"), 1);
    a.node.emulate(EmulateChange::Partition(vec![])).expect("the node runs");
    assert_eq!(b.message().await.number, 2);
    assert_eq!(a.count("stream_broken"), 0);
}

#[tokio::test]
async fn a_partition_stalls_what_is_received_too() {
    let (a, mut b) = pair();
    a.send(1, Lane::Stream, 1, "");
    b.message().await;
    b.node.emulate(EmulateChange::Partition(vec![NodeId(0)])).expect("the node runs");
    // Seen by the node once a datagram of the same peer is lost to it.
    while b.count("emulated_loss") == 0 {
        a.send(1, Lane::Datagram, 0, "");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let before = b.count("post_received");
    a.send(1, Lane::Stream, 2, "");
    while a.node.stats().traffic.stream_messages_out < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(b.count("post_received"), before);
    b.node.emulate(EmulateChange::Clear).expect("the node runs");
    while b.message().await.number != 2 {}
}

fn lossy(share: f64) -> EmulateChange {
    EmulateChange::Faults {
        to: Peers::All,
        faults: LinkFaults {
            loss: Loss::Independent(share),
            stream_resend_after: Duration::from_millis(5),
            ..LinkFaults::default()
        },
    }
}

#[tokio::test]
async fn emulated_loss_drops_datagrams_and_only_delays_a_stream() {
    let (a, mut b) = pair();
    a.node.emulate(lossy(0.5)).expect("the node runs");
    for number in 0..100 {
        a.send(1, Lane::Datagram, number, "");
        a.send(1, Lane::Stream, number, "");
    }
    let (mut streamed, mut datagrams) = (Vec::new(), 0);
    while streamed.len() < 100 {
        let message = b.message().await;
        match message.lane {
            Lane::Stream => streamed.push(message.number),
            Lane::Datagram => datagrams += 1,
        }
    }
    assert_eq!(streamed, (0..100).collect::<Vec<_>>());
    let lost = a.count("emulated_loss");
    assert!((20..80).contains(&lost), "{lost} of 100 lost");
    assert!(datagrams + lost <= 100);
}

#[tokio::test]
async fn a_delayed_link_to_one_peer_leaves_others_alone() {
    let mut nodes = support::cluster(3);
    let faults = LinkFaults { delay: Duration::from_secs(3600), ..LinkFaults::default() };
    let change = EmulateChange::Faults { to: Peers::One(NodeId(1)), faults };
    nodes[0].node.emulate(change).expect("the node runs");
    nodes[0].send(1, Lane::Stream, 1, "");
    nodes[0].send(1, Lane::Datagram, 1, "");
    nodes[0].send(2, Lane::Stream, 2, "");
    assert_eq!(nodes[2].message().await.number, 2);
    assert_eq!(nodes[1].count("post_received"), 0);
}

#[tokio::test]
async fn a_paused_node_handles_nothing_and_stop_ends_the_pause() {
    let (a, b) = pair();
    b.node.emulate(EmulateChange::Pause(Duration::from_secs(3600))).expect("the node runs");
    a.send(1, Lane::Stream, 1, "");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(b.count("post_received"), 0);
    b.node.stop().await;
}

#[tokio::test]
async fn a_pause_ends_by_itself() {
    let (a, mut b) = pair();
    b.node.emulate(EmulateChange::Pause(Duration::from_millis(30))).expect("the node runs");
    a.send(1, Lane::Stream, 1, "");
    assert_eq!(b.message().await.number, 1);
}

#[tokio::test]
async fn a_graceful_stop_flushes_what_is_queued() {
    let (mut bound, roster) = bind_all(2, |config| config.with_stop_within(support::PATIENCE));
    let mut b = start(bound.pop().expect("two"), &roster);
    let a = start(bound.pop().expect("two"), &roster);
    for number in 0..500 {
        a.send(1, Lane::Stream, number, vec![1; 10_000]);
    }
    let (stopped, numbers) = tokio::join!(a.node.stop(), b.numbers(500));
    assert_eq!(stopped.abandoned_bytes, 0);
    assert_eq!(numbers, (0..500).collect::<Vec<_>>());
    assert!(a.node.command(Order::Fill(0)).is_err());
    assert_eq!(a.node.stop().await.abandoned_bytes, 0);
}

#[tokio::test]
async fn a_stop_that_cannot_flush_says_how_much_it_abandoned() {
    let (mut bound, roster) =
        bind_all(2, |config| config.with_stop_within(Duration::from_millis(20)));
    drop(bound.pop());
    let a = start(bound.pop().expect("one"), &roster);
    a.send(1, Lane::Stream, 1, vec![0; 100]);
    assert!(a.node.stop().await.abandoned_bytes > 100);
}

#[tokio::test]
async fn a_queue_past_its_bound_breaks_the_stream() {
    let (mut bound, roster) = bind_all(2, |config| config.with_stream_queue_bytes_max(50_000));
    drop(bound.pop());
    let mut a: Running = start(bound.pop().expect("one"), &roster);
    for number in 0..6 {
        a.send(1, Lane::Stream, number, vec![0; 10_000]);
    }
    a.find(down).await;
    a.counted("stream_queue_overflow", 1).await;
}

/// The numbers of those of `MESSAGES` that reach the second node though it loses on arrival.
async fn reaching(loss: Loss) -> Vec<u64> {
    const MESSAGES: u64 = 200;
    let (a, mut b) = pair();
    b.node.emulate(EmulateChange::ReceiveLoss(loss)).expect("the node runs");
    for number in 0..MESSAGES {
        a.send(1, Lane::Datagram, number, "");
    }
    let mut numbers = Vec::new();
    while numbers.len() as u64 + b.count("emulated_receive_loss") < MESSAGES {
        match tokio::time::timeout(Duration::from_millis(5), b.message()).await {
            Ok(message) => numbers.push(message.number),
            Err(_) => assert_eq!(a.count("datagram_send_failed"), 0),
        }
    }
    // Streams have no end buffer, and neither have Hellos: without one nothing was accepted.
    a.send(1, Lane::Stream, MESSAGES, "");
    assert_eq!(b.message().await.number, MESSAGES);
    assert_eq!(b.count("record_unknown_session"), 0);
    numbers
}

#[tokio::test]
async fn loss_at_the_end_buffer_is_drawn_by_the_seed_and_counted() {
    let first = reaching(Loss::Independent(0.25)).await;
    assert!((120..180).contains(&first.len()), "{} of 200", first.len());
    assert_eq!(reaching(Loss::Independent(0.25)).await, first);
    let bursts = Loss::GilbertElliott { good_to_bad: 0.05, bad_to_good: 0.2, bad_loss: 1.0 };
    let in_bursts = reaching(bursts).await;
    assert_eq!(reaching(bursts).await, in_bursts);
    let gaps = in_bursts.windows(2).filter(|pair| pair[1] - pair[0] > 2).count();
    assert!(gaps > 0, "losses come in runs");
    assert_eq!(reaching(Loss::None).await.len(), 200);
}
