//! A peer that speaks the protocol and breaks its rules.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use paceline::net::{Bound, NodeConfig, Roster};
use paceline::proto::chain::{Chain, Config, Frame, Lengths, Message};
use paceline::proto::core::{Context, Lane, Payload, Protocol};
use paceline::{NodeId, Topology, ViewId};

/// Sends the messages of its commands.
struct Rogue;

impl Protocol for Rogue {
    type Message = Message;
    type Timer = ();
    type Command = Vec<Message>;
    type Event = ();
    type Shared = Config;

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, messages: Vec<Message>) {
        messages.into_iter().for_each(|message| cx.send(NodeId(1), Lane::Stream, message));
    }

    fn handle_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, _: Message) {}
}

fn frame(seq: u64, link: u64) -> Frame {
    let frame = Frame {
        view: ViewId(0),
        origin: 0,
        incarnation: 7,
        seq,
        index: 0,
        count: 1,
        topology: Topology::Chain,
        checksum: 0,
        stable_lag: 0,
        link,
        hops_left: 0,
        lengths: Lengths::default(),
        payload: Payload::from("hello"),
    };
    Frame { checksum: frame.computed_checksum(), ..frame }
}

/// What a member counts after a rogue sent it these messages.
async fn counted(messages: Vec<Message>, counter: &str) -> u64 {
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let bind = |id| Bound::bind(anywhere, NodeConfig::new("rogue", NodeId(id))).unwrap();
    let (rogue, honest) = (bind(0), bind(1));
    let members = [(NodeId(0), rogue.local_addr()), (NodeId(1), honest.local_addr())];
    let roster = Roster::new(members).unwrap();
    let config = Config::new(roster.view()).with_window_blocks(16).with_ack_blocks(8);
    let config = config.build().unwrap();
    let view = Arc::new(roster.view());
    let shared = Arc::new(config.clone());
    let (host, _events) = honest.start(roster.clone(), Chain::new(&config), shared).unwrap();
    host.install_view(view).unwrap();
    let (rogue, _) = rogue.start(roster, Rogue, Arc::new(config)).unwrap();
    rogue.command(messages).unwrap();
    for _ in 0..500 {
        let count = host.stats().counters.count(counter);
        if count > 0 {
            return count;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{counter} was not counted: {:?}", host.stats().counters);
}

#[tokio::test]
async fn a_peer_beyond_its_credit_is_counted_and_disconnected() {
    // The application does not read: the credit is 16 blocks, and the 17th exceeds it.
    let messages: Vec<Message> = (0..17).map(|n| Message::Data(frame(n, n))).collect();
    assert_eq!(counted(messages.clone(), "chain_beyond_credit").await, 1);
    assert!(counted(messages, "stream_disconnected").await > 0);
}

#[tokio::test]
async fn a_frame_of_another_view_is_counted_and_dropped() {
    let foreign = Frame { view: ViewId(3), ..frame(0, 0) };
    let foreign = Frame { checksum: foreign.computed_checksum(), ..foreign };
    assert_eq!(counted(vec![Message::Data(foreign)], "chain_foreign_view").await, 1);
}

#[tokio::test]
async fn a_damaged_frame_is_counted_and_the_connection_closed() {
    let damaged = Frame { checksum: 1, ..frame(0, 0) };
    assert_eq!(counted(vec![Message::Data(damaged)], "record_undecodable").await, 1);
}

#[tokio::test]
async fn a_frame_of_an_origin_outside_the_view_is_counted_and_dropped() {
    let foreign = Frame { origin: 9, ..frame(0, 0) };
    let foreign = Frame { checksum: foreign.computed_checksum(), ..foreign };
    assert_eq!(counted(vec![Message::Data(foreign)], "chain_foreign_origin").await, 1);
}
