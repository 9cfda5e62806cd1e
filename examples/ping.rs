//! The smallest protocol: one node asks, the other answers. The same state machine runs in the
//! simulator and on real UDP sockets: `cargo run --release -p paceline --example ping`.

use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use bytes::{BufMut, Bytes, BytesMut};
use paceline::net::{Bound, NodeConfig, Roster};
use paceline::proto::core::*;
use paceline_sim::{Observer, Reply, Sim, SimConfig};

/// What goes over the wire: a tag and a number.
#[derive(Clone)]
enum Message {
    Ping(u64),
    Pong(u64),
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        9
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        let (tag, number) = match self {
            Message::Ping(number) => (0, number),
            Message::Pong(number) => (1, number),
        };
        head.put_u8(tag);
        head.put_u64(*number);
        None
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        match (take_u8(bytes)?, take_u64(bytes)?) {
            (0, number) => Ok(Message::Ping(number)),
            (1, number) => Ok(Message::Pong(number)),
            (tag, _) => Err(DecodeError::UnknownTag(tag)),
        }
    }
}

/// A node: when it asked, if it did.
#[derive(Default)]
struct Ping {
    asked: Option<Instant>,
}

impl Protocol for Ping {
    type Message = Message;
    type Timer = ();
    type Command = NodeId; // ask this node
    type Event = Duration; // how long the answer took
    type Shared = ();

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.asked = Some(cx.now);
        let number = cx.rng.next_u64();
        cx.send(peer, Lane::Datagram, Message::Ping(number));
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Ping(number) => cx.send(from, Lane::Datagram, Message::Pong(number)),
            Message::Pong(_) => {
                self.asked.take().into_iter().for_each(|at| cx.deliver(cx.now - at))
            }
        }
    }
}

/// An application that prints what it receives.
struct Print;

impl Observer<Ping> for Print {
    fn on_event(&mut self, _: Instant, node: NodeId, took: &Duration, _: &mut Reply<Ping>) {
        println!("simulator: {node} got its answer after {took:?}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = SimConfig::new(2, 1);
    config.network.link.delay = Duration::from_micros(250);
    let mut sim = Sim::<Ping>::new(config, Arc::new(()), |_| Ping::default());
    sim.command_at(Instant::ZERO, NodeId(0), NodeId(1));
    sim.run_until(Instant::MAX, &mut Print);

    let bind =
        |id| Bound::bind("127.0.0.1:0".parse().unwrap(), NodeConfig::new("ping", NodeId(id)));
    let (a, b) = (bind(0)?, bind(1)?);
    let roster = Roster::new([(NodeId(0), a.local_addr()), (NodeId(1), b.local_addr())])?;
    let (asker, mut answers) = a.start(roster.clone(), Ping::default(), Arc::new(()))?;
    let (_answerer, _) = b.start(roster, Ping::default(), Arc::new(()))?;
    let started = WallClock::now();
    asker.command(NodeId(1))?;
    let took = answers.recv().await.ok_or("the node stopped")?;
    println!("sockets:   n0 got its answer after {took:?} ({:?} in all)", started.elapsed());
    Ok(())
}
