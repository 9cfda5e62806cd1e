//! Verification tags: a node that knows a peer's id and session, which are public, but not the tag
//! that the peer alone was given, cannot send in its name.

use crate::support;

use std::time::Duration;

use paceline_net::record::Kind;
use paceline_net::{Bound, Roster};
use paceline_proto::core::{Lane, NodeId};
use support::stranger::{MESSAGE, Stranger, open_node};
use support::{Order, bind, config, start};

/// A node with the same id and session as this one, at another address.
fn forger_of(peer: &Stranger) -> Stranger {
    Stranger { session: peer.session, ..Stranger::new(peer.id, 0) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_datagram_is_taken_in_the_name_of_a_peer_from_who_only_knows_its_session() {
    let mut node = open_node();
    let (addr, peer) = (node.node.local_addr(), Stranger::new(9, 1000));
    peer.proves_itself(&node).await;
    let forger = forger_of(&peer);
    // The tag that it gets at its own address is not valid in the name of the peer.
    forger.say(addr, Kind::Who, b"a nonce!");
    for tag in [0, 1, forger.session.tag()] {
        forger.tag.set(tag);
        for kind in [Kind::Message, Kind::Group, Kind::Bundle] {
            let refused = node.count("record_unknown_session");
            forger.say(addr, kind, &MESSAGE);
            node.counted("record_unknown_session", refused + 1).await;
        }
    }
    // Nor is a tag that it gets under another id.
    let own = Stranger { socket: forger.socket, ..Stranger::new(10, 1000) };
    own.meets(addr);
    let forger = Stranger { session: peer.session, id: 9, ..own };
    let refused = node.count("record_unknown_session");
    forger.say(addr, Kind::Message, &MESSAGE);
    node.counted("record_unknown_session", refused + 1).await;
    assert_eq!(node.count("post_received"), 0);
    // The peer is heard all the time.
    peer.say(addr, Kind::Message, &MESSAGE);
    node.message().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_stream_in_the_name_of_a_peer_takes_the_place_of_its_own() {
    let mut node = open_node();
    let peer = Stranger::new(9, 1000);
    peer.proves_itself(&node).await;
    let mut stream = peer.dials(node.node.local_addr()).expect("let in");
    let forger = forger_of(&peer);
    for _ in 0..3 {
        assert!(forger.dials(node.node.local_addr()).is_err(), "a forger was let in");
    }
    node.counted("record_unknown_session", 3).await;
    peer.writes_message(&mut stream);
    node.message().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_restarts_tells_its_peers_new_tags() {
    let zero = bind(config(0).with_open_membership());
    let addr = zero.local_addr();
    let alone = |id, addr| Roster::new([(NodeId(id), addr)]).expect("one member");
    let node = start(zero, &alone(0, addr));
    let one = bind(config(1).with_open_membership());
    let one_addr = one.local_addr();
    let one = start(one, &alone(1, one_addr));
    one.order(Order::Learn(NodeId(0), addr.to_string()));
    let mut node = node;
    for (round, lane) in [Lane::Datagram, Lane::Stream].into_iter().enumerate() {
        one.send(0, lane, 1, "before");
        node.message().await;
        node.node.stop().await;
        // Peers order the runs of a node by start time, in milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let again = Bound::bind(addr, config(0).with_open_membership()).expect("its port");
        node = start(again, &alone(0, addr));
        // The node refuses the peer's old tag; then the peer asks, and gets a new one.
        let mut sent = 0;
        while node.count("post_received") == 0 {
            one.send(0, lane, 2, "after");
            sent += 1;
            assert!(sent < 500, "round {round}: {:?}", node.node.stats().counters.sorted());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        node.message().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refusal_that_answers_nothing_is_not_believed() {
    let node = open_node();
    let (addr, forger) = (node.node.local_addr(), Stranger::new(9, 1000));
    for body in [&[][..], &[0], &[1], b"\0a nonce!"] {
        forger.say(addr, Kind::Taken, body);
    }
    node.counted("taken_unasked", 4).await;
    assert_eq!((node.count("peer_id_taken"), node.count("peer_later_start_known")), (0, 0));
    // One that answers what the node has repeated is.
    forger.say(addr, Kind::Who, b"a nonce!");
    forger.hears(Kind::Hello);
    forger.say(addr, Kind::Taken, b"\0a nonce!");
    forger.say(addr, Kind::Taken, b"\x01a nonce!");
    node.counted("peer_id_taken", 1).await;
    node.counted("peer_later_start_known", 1).await;
}
