//! The bound on what a node holds for all its peers together.

use crate::support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use paceline_net::{Node, Roster};
use paceline_proto::core::{Lane, NodeId, PeerState};
use support::stranger::Stranger;
use support::{Order, PATIENCE, Post, Report, Running, bind, config, start};

const MIB: usize = 1 << 20;

/// The most that the node has held, until it is asked for.
struct Watch {
    most: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    fn over(node: &Node<Post>) -> Watch {
        let (most, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let watch = Watch { most: most.clone(), is_over: is_over.clone() };
        let node = node.clone();
        std::thread::spawn(move || {
            while !is_over.load(Relaxed) {
                most.fetch_max(node.stats().held.of_peers(), Relaxed);
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        watch
    }

    fn most(&self) -> usize {
        self.is_over.store(true, Relaxed);
        self.most.load(Relaxed)
    }
}

/// A member that the test plays, where this listener is.
fn member_at(listener: &TcpListener, id: u64) -> Stranger {
    let socket = UdpSocket::bind(listener.local_addr().expect("bound")).expect("the same port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    Stranger { socket, ..Stranger::new(id, 1000) }
}

/// The member says Hello on a stream that it accepts, and reads nothing more.
fn accept_and_stop(listener: &TcpListener, member: &Stranger) -> TcpStream {
    let (mut stream, _) = listener.accept().expect("dialled");
    member.answers_hello(&mut stream);
    stream
}

/// Node 0, open to strangers and bounded; and node 1, known to it.
fn pair(memory_bytes_max: usize) -> (Running, Running) {
    let zero = bind(config(0).with_open_membership().with_memory_bytes_max(memory_bytes_max));
    let one = bind(config(1).with_open_membership());
    let members = [(NodeId(0), zero.local_addr()), (NodeId(1), one.local_addr())];
    let roster = Roster::new(members).expect("two members");
    (start(zero, &roster), start(one, &roster))
}

/// How long node 1 takes to bring node 0 messages, short ones and long ones.
async fn exchange(zero: &mut Running, one: &Running) -> Duration {
    let began = Instant::now();
    for number in 0..400 {
        let bytes = if number % 40 == 0 { 900_000 } else { 10_000 };
        one.send(0, Lane::Stream, number, vec![7; bytes]);
    }
    assert_eq!(zero.numbers(400).await, (0..400).collect::<Vec<u64>>());
    began.elapsed()
}

/// A stream on which a record of 1 MiB is announced, and sent but for 100 bytes.
fn begin_record(to: SocketAddr, of: &Stranger) -> std::io::Result<TcpStream> {
    let mut stream = of.dials(to)?;
    stream.write_all(&(MIB as u32).to_be_bytes())?;
    stream.write_all(&vec![0; MIB - 100])?;
    Ok(stream)
}

/// Begins one such record for each of `strangers` strangers, one after the other.
fn begin_records(to: SocketAddr, strangers: u64) -> Vec<TcpStream> {
    let begin = |id| {
        // A peer that is known by its Hello has a stream taken.
        let stranger = Stranger::new(id, 1000);
        stranger.meets(to);
        std::iter::repeat_with(|| begin_record(to, &stranger)).find_map(Result::ok)
    };
    (100..100 + strangers).filter_map(begin).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_hundred_unfinished_records_stay_within_the_bound_and_members_go_on() {
    const BOUND: usize = 64 * MIB;
    const STRANGERS: u64 = 600;
    const ROUNDS: u32 = 8;
    let (mut zero, one) = pair(BOUND);
    // So that there is a stream to the other member.
    zero.send(1, Lane::Stream, 0, "hello");
    let mut alone = Duration::ZERO;
    for _ in 0..ROUNDS {
        alone += exchange(&mut zero, &one).await;
    }

    let watch = Watch::over(&zero.node);
    let to = zero.node.local_addr();
    let attack = tokio::task::spawn_blocking(move || begin_records(to, STRANGERS));
    let (mut rounds, mut meanwhile) = (0, Duration::ZERO);
    while !attack.is_finished() {
        meanwhile += exchange(&mut zero, &one).await;
        rounds += 1;
    }
    let streams = attack.await.expect("no panic");
    let mut beside = Duration::ZERO;
    for _ in 0..ROUNDS {
        beside += exchange(&mut zero, &one).await;
    }
    println!("{ROUNDS} rounds alone: {alone:?}, {rounds} during the attack: {meanwhile:?}");
    println!("{ROUNDS} rounds beside those that stand: {beside:?}");

    let most = watch.most();
    let counters = zero.node.stats().counters;
    let closed = counters.count("memory_record_closed");
    assert!(most > BOUND / 2, "{most}");
    assert!(most <= BOUND, "{most} bytes, {:?}", counters.sorted());
    assert!(closed >= STRANGERS - 64, "{:?}", counters.sorted());
    assert_eq!(one.count("stream_broken"), 0);
    // The attack takes processor time of its own; those that stand take none.
    assert!(meanwhile / rounds.max(1) < 10 * alone / ROUNDS, "{meanwhile:?} after {alone:?}");
    assert!(beside < 3 * alone, "{beside:?} after {alone:?}");
    drop(streams);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waits_for_strangers_goes_before_the_queue_of_a_member() {
    const BOUND: usize = 16 * MIB;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let zero = bind(config(0).with_open_membership().with_memory_bytes_max(BOUND));
    let members =
        [(NodeId(0), zero.local_addr()), (NodeId(1), listener.local_addr().expect("bound"))];
    let mut zero = start(zero, &Roster::new(members).expect("two members"));
    let watch = Watch::over(&zero.node);
    let backlog = async |zero: &mut Running| {
        zero.order(Order::AskBacklog(NodeId(1)));
        let pick = |report: &Report| match report {
            Report::Backlog(bytes) => Some(*bytes),
            _ => None,
        };
        zero.find(pick).await
    };

    // A member that reads nothing, and takes half a MiB short of the bound.
    zero.send(1, Lane::Stream, 0, "hello");
    let accept = move || accept_and_stop(&listener, &Stranger::new(1, 1000));
    let member = tokio::task::spawn_blocking(accept);
    let member = member.await.expect("no panic");
    while backlog(&mut zero).await < BOUND - MIB / 2 {
        zero.send(1, Lane::Stream, 1, vec![7; 100_000]);
    }
    assert_eq!(zero.count("memory_queue_broken"), 0);

    // Sends to nodes that never answered: the messages that wait for their proofs are dropped.
    let nowhere = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = nowhere.local_addr().expect("bound").to_string();
    for id in 10..14 {
        zero.order(Order::Learn(NodeId::from(id), address.clone()));
        for number in 0..300 {
            zero.send(id, Lane::Datagram, number, vec![7; 1000]);
        }
    }
    zero.counted("memory_proof_dropped", 1).await;
    let held = zero.node.stats().held;
    assert!(held.proofs_bytes < MIB / 2 + MIB / 4, "{held:?}");
    assert_eq!(zero.count("memory_queue_broken"), 0);
    assert!(backlog(&mut zero).await >= BOUND - MIB);

    // Then there is nothing left but the member's queue.
    for number in 0..12 {
        zero.send(1, Lane::Stream, number, vec![7; 100_000]);
    }
    zero.counted("memory_queue_broken", 1).await;
    let down = zero
        .find(|report| match report {
            Report::Peer(NodeId(1), state) => Some(*state),
            _ => None,
        })
        .await;
    assert_eq!(down, PeerState::Down);
    let most = watch.most();
    assert!((BOUND - MIB..=BOUND).contains(&most), "{most}");
    drop(member);
}

/// True if the node has closed the stream.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    match stream.read(&mut [0; 1]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn of_unfinished_records_those_of_strangers_go_and_of_these_the_first() {
    const BOUND: usize = 8 * MIB;
    const STRANGERS: u64 = 12;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let zero = bind(config(0).with_open_membership().with_memory_bytes_max(BOUND));
    let members =
        [(NodeId(0), zero.local_addr()), (NodeId(1), listener.local_addr().expect("bound"))];
    let zero = start(zero, &Roster::new(members).expect("two members"));
    let to = zero.node.local_addr();
    zero.send(1, Lane::Stream, 0, "hello");
    let begun = tokio::task::spawn_blocking(move || {
        let member = member_at(&listener, 1);
        let accepted = accept_and_stop(&listener, &member);
        member.asks(to);
        let member = begin_record(to, &member).expect("a member's stream");
        (accepted, member, begin_records(to, STRANGERS))
    });
    let (accepted, mut member, mut streams) = begun.await.expect("no panic");
    // Each takes a buffer of a MiB and little more.
    zero.counted("memory_record_closed", STRANGERS - 7).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let are_closed: Vec<bool> = streams.iter_mut().map(is_closed).collect();
    let closed = are_closed.iter().filter(|is_closed| **is_closed).count();
    assert!((5..9).contains(&closed), "{are_closed:?}");
    assert!(are_closed[..closed].iter().all(|is_closed| *is_closed), "{are_closed:?}");
    assert!(!is_closed(&mut member), "it was begun before all of them");
    drop(accepted);
}
