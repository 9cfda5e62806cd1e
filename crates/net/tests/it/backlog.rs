//! The true backlog and the notice of its end, against a reader that stops reading.

use crate::support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use paceline_net::Roster;
use paceline_net::record::{
    ClusterTag, HEADER_BYTES, Header, Kind, LENGTH_BYTES, SESSION_BYTES, ServiceNumber, Session,
};
use paceline_proto::core::{Lane, NodeId};
use support::{Order, Report, Running, bind, config, start};

/// A node that has dialled us, and the stream on which it waits for nothing but our reading.
async fn dialled_by_a_node() -> (Running, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let bound = bind(config(0));
    let members = [(NodeId(0), bound.local_addr()), (NodeId(1), listener.local_addr().unwrap())];
    let a = start(bound, &Roster::new(members).expect("two members"));
    a.send(1, Lane::Stream, 0, "dial");
    let greeted = tokio::task::spawn_blocking(move || {
        let (mut stream, _) = listener.accept().expect("dialled");
        stream
            .read_exact(&mut [0; LENGTH_BYTES + HEADER_BYTES + SESSION_BYTES])
            .expect("its Hello");
        let session = Session::new(1, 1);
        let header = Header {
            kind: Kind::Hello,
            epoch: 0,
            service: ServiceNumber::NODE,
            cluster: ClusterTag::of("test"),
            sender: NodeId(1),
            session: session.tag(),
            sequence: 0,
        };
        let hello = [
            &((HEADER_BYTES + SESSION_BYTES) as u32).to_be_bytes()[..],
            &header.encode(),
            session.as_bytes(),
        ]
        .concat();
        stream.write_all(&hello).expect("answered");
        stream
    });
    (a, greeted.await.expect("no panic"))
}

fn read_all(mut stream: TcpStream) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    })
}

async fn backlog(a: &mut Running) -> usize {
    a.order(Order::AskBacklog(NodeId(1)));
    a.find(|report| match report {
        Report::Backlog(bytes) => Some(*bytes),
        _ => None,
    })
    .await
}

async fn fill(a: &mut Running, bytes: usize) {
    for number in 0..bytes / 100_000 {
        a.send(1, Lane::Stream, number as u64, vec![0; 100_000]);
    }
    assert!(backlog(a).await > 0);
}

#[tokio::test]
async fn a_slow_reader_shows_as_backlog_and_its_reading_as_a_drain() {
    // From far above the kernel's mark to the last byte.
    for below_bytes in [1_000_000, 100_000, 40_000, 10_000, 1] {
        let (mut a, stream) = dialled_by_a_node().await;
        fill(&mut a, 20_000_000).await;
        a.order(Order::AwaitDrain(NodeId(1), below_bytes));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(backlog(&mut a).await >= below_bytes);
        let reader = read_all(stream);
        let drained = a
            .find(|report| match report {
                Report::Drained(_, backlog_bytes) => Some(*backlog_bytes),
                Report::Backlog(_) => None,
                other => panic!("{other:?}"),
            })
            .await;
        assert!(drained < below_bytes, "{drained} is not below {below_bytes}");
        // The stream is as usable as before.
        fill(&mut a, 5_000_000).await;
        a.order(Order::AwaitDrain(NodeId(1), 1));
        a.find(|report| matches!(report, Report::Drained(..)).then_some(())).await;
        a.node.stop().await;
        reader.join().expect("the reader ends");
    }
}

#[tokio::test]
async fn a_drain_that_is_reached_already_is_told_at_once() {
    let (mut a, _stream) = dialled_by_a_node().await;
    a.order(Order::AwaitDrain(NodeId(1), 1));
    assert!(matches!(a.next().await, Report::Drained(_, 0)));
}

#[tokio::test]
async fn waiting_for_a_drain_does_not_poll() {
    let (mut a, _stream) = dialled_by_a_node().await;
    fill(&mut a, 20_000_000).await;
    a.order(Order::AwaitDrain(NodeId(1), 10_000));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = a.node.stats().traffic.turns;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The kernel probes the closed window and may get a few bytes through, which it signals.
    assert!(a.node.stats().traffic.turns - before <= 2);
}
