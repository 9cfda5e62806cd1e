//! A consumer asks a producer through a forwarder, on loopback; prints what an exchange costs the
//! forwarder.
//!
//! `cargo run --release -p paceline-net --example face_exchanges -- 5 2048 1100 64 0`: seconds,
//! questions under way, bytes of an answer, of a question, and by how many bytes every other one of
//! these is shorter, which cuts trains into pairs.
//!
//! An exchange is a question and its answer: two datagrams into the forwarder and two out. Each
//! node has a thread. CPU is the forwarder's thread's, user and system; what the kernel does for a
//! receiver happens on loopback at its sender's expense.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use paceline_net::{BoundFaces, FaceNode, FacesConfig, Hosted};
use paceline_proto::core::{
    Context, DecodeError, Lane, NodeId, Payload, Protocol, Wire, take_u8, take_u64,
};
use tokio::runtime::Runtime;

const PIT_ENTRIES: usize = 64 << 10;
const WARM_UP: Duration = Duration::from_millis(500);
/// After this long without an answer the window is asked again.
const STALLED_AFTER: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Question,
    Answer,
}

#[derive(Clone)]
struct Packet {
    kind: Kind,
    number: u64,
    filler: Payload,
}

impl Wire for Packet {
    fn wire_len(&self) -> usize {
        9 + self.filler.len()
    }
    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.put_u8(self.kind as u8);
        head.put_u64(self.number);
        Some(&self.filler)
    }
    fn decode(bytes: &mut Bytes) -> Result<Packet, DecodeError> {
        let kind = match take_u8(bytes)? {
            0 => Kind::Question,
            1 => Kind::Answer,
            tag => return Err(DecodeError::UnknownTag(tag)),
        };
        let number = take_u64(bytes)?;
        Ok(Packet { kind, number, filler: Payload::Bytes(std::mem::take(bytes)) })
    }
}

/// Forwards questions to its first face, and each answer to the face that asked.
struct Forwarder {
    asked_by: Vec<NodeId>,
}

impl Protocol for Forwarder {
    type Message = Packet;
    type Timer = ();
    type Command = ();
    type Event = ();
    type Shared = ();

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, packet: Packet) {
        let entry = &mut self.asked_by[packet.number as usize % PIT_ENTRIES];
        let to = match packet.kind {
            Kind::Question => {
                *entry = from;
                NodeId(0)
            }
            Kind::Answer => *entry,
        };
        cx.send(to, Lane::Datagram, packet);
    }
}

/// Answers each question.
struct Producer {
    fillers: [Payload; 2],
}

impl Protocol for Producer {
    type Message = Packet;
    type Timer = ();
    type Command = ();
    type Event = ();
    type Shared = ();

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, packet: Packet) {
        let filler = self.fillers[packet.number as usize % 2].clone();
        cx.send(from, Lane::Datagram, Packet { kind: Kind::Answer, filler, ..packet });
    }
}

/// Keeps as many questions under way.
struct Consumer {
    window: u64,
    asked: u64,
    answered: u64,
    answered_when_looked: u64,
    fillers: [Payload; 2],
}

impl Consumer {
    fn ask(&mut self, cx: &mut Context<'_, Self>) {
        let filler = self.fillers[self.asked as usize % 2].clone();
        let packet = Packet { kind: Kind::Question, number: self.asked, filler };
        self.asked += 1;
        cx.send(NodeId(0), Lane::Datagram, packet);
    }
}

impl Protocol for Consumer {
    type Message = Packet;
    type Timer = ();
    type Command = ();
    type Event = ();
    type Shared = ();

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        (0..self.window).for_each(|_| self.ask(cx));
        cx.set_timer(STALLED_AFTER, ());
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, _from: NodeId, _packet: Packet) {
        self.answered += 1;
        self.ask(cx);
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        if self.answered == self.answered_when_looked {
            println!("nothing came: what was under way is lost");
            (0..self.window).for_each(|_| self.ask(cx));
        }
        self.answered_when_looked = self.answered;
        cx.set_timer(STALLED_AFTER, ());
    }
}

fn bind(is_forwarder: bool) -> BoundFaces {
    let addr = "127.0.0.1:0".parse().expect("an address");
    let config = FacesConfig::new(addr).with_accepts_unknown(is_forwarder);
    BoundFaces::bind(config).expect("a free port")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Runs a node in a thread of its own.
fn run<P: Hosted<Shared = ()>>(
    bound: BoundFaces,
    faces: Vec<SocketAddr>,
    protocol: P,
) -> FaceNode<P> {
    let (started, node) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let (node, mut events) = bound.start(&faces, protocol, Arc::new(())).expect("started");
            started.send(node).expect("the main thread waits");
            events.recv().await;
        });
    });
    node.recv().expect("a node")
}

fn thread_cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let mut next = |default: u64| arguments.next().unwrap_or(default);
    let (seconds, window) = (next(3), next(2048));
    let (answer_bytes, question_bytes, shorter_bytes) = (next(1100), next(64), next(0));
    let filler = |bytes: u64| Payload::from(vec![7; (bytes as usize).saturating_sub(9)]);
    let fillers = |bytes: u64| [filler(bytes), filler(bytes.saturating_sub(shorter_bytes))];
    let (producer, forwarder, consumer) = (bind(true), bind(true), bind(false));
    let (producer_addr, forwarder_addr) = (producer.local_addr(), forwarder.local_addr());
    let _producer = run(producer, vec![], Producer { fillers: fillers(answer_bytes) });
    let thread = std::thread::Builder::new().name("forwarder".to_owned());
    let measured = thread.spawn(move || {
        runtime().block_on(async {
            let protocol = Forwarder { asked_by: vec![NodeId(0); PIT_ENTRIES] };
            let started = forwarder.start(&[producer_addr], protocol, Arc::new(()));
            let (node, _events) = started.expect("started");
            tokio::time::sleep(WARM_UP).await;
            let (from, cpu_from, before) =
                (Instant::now(), thread_cpu_seconds(), node.stats().traffic);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let cpu = thread_cpu_seconds() - cpu_from;
            (from.elapsed().as_secs_f64(), cpu, before, node.stats())
        })
    });
    let measured = measured.expect("a thread");
    let _consumer = run(
        consumer,
        vec![forwarder_addr],
        Consumer {
            window,
            asked: 0,
            answered: 0,
            answered_when_looked: 0,
            fillers: fillers(question_bytes),
        },
    );
    let (elapsed, cpu, before, stats) = measured.join().expect("a measurement");
    let after = stats.traffic;
    let exchanges = (after.datagrams_out - before.datagrams_out) as f64 / 2.0;
    let each = |datagrams: u64, calls: u64| datagrams as f64 / calls.max(1) as f64;
    println!(
        "{:.0} exchanges/s, {:.0} exchanges a CPU second of the forwarder ({:.0} % of a core)",
        exchanges / elapsed,
        exchanges / cpu,
        100.0 * cpu / elapsed,
    );
    println!(
        "{:.0} datagrams a receive call, {:.0} a send call, {:.0} a turn",
        each(
            after.datagrams_in - before.datagrams_in,
            after.datagram_receives - before.datagram_receives
        ),
        each(
            after.datagrams_out - before.datagrams_out,
            after.datagram_sends - before.datagram_sends
        ),
        each(after.datagrams_in - before.datagrams_in, after.turns - before.turns),
    );
    println!("{:?}", stats.counters.sorted());
}
