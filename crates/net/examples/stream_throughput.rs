//! Four nodes in one process pass 8,000-byte messages along a chain; prints rate and CPU cost.
//!
//! `cargo run --release -p paceline-net --example stream_throughput -- one 5 2`: who sends (one or
//! all), seconds, threads.
//!
//! Each message is received by every member but its origin and forwarded by every member but the
//! last, as in a chain broadcast. CPU is user and system time of the whole process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use paceline_net::{Bound, NodeConfig, Roster};
use paceline_proto::core::{Context, DecodeError, Lane, NodeId, Payload, Protocol, Wire, take_u8};

const MEMBERS: u32 = 4;
const MESSAGE_BYTES: usize = 8000;
const BACKLOG_BYTES_MAX: usize = 256 << 10;
/// Messages of one origin under way.
const WINDOW: usize = 256;
const CREDIT_EVERY: usize = 16;
/// In place of the hops: a credit for the origin.
const CREDIT: u8 = u8::MAX;

#[derive(Clone)]
struct Frame {
    hops_left: u8,
    payload: Payload,
}

impl Wire for Frame {
    fn wire_len(&self) -> usize {
        1 + self.payload.len()
    }
    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.put_u8(self.hops_left);
        Some(&self.payload)
    }
    fn decode(bytes: &mut Bytes) -> Result<Frame, DecodeError> {
        let hops_left = take_u8(bytes)?;
        let payload = Payload::Bytes(std::mem::take(bytes));
        Ok(Frame { hops_left, payload })
    }
}

/// Sends while its window and the backlog to its successor allow; forwards whatever comes.
struct Rider {
    payload: Payload,
    credits: usize,
    unreported: usize,
}

impl Rider {
    fn successor(cx: &Context<'_, Self>) -> NodeId {
        NodeId((cx.node.0 + 1) % u64::from(MEMBERS))
    }

    fn inject(&mut self, cx: &mut Context<'_, Self>) {
        let successor = Rider::successor(cx);
        let mut backlog_bytes = cx.backlog_bytes(successor);
        while self.credits > 0 && backlog_bytes < BACKLOG_BYTES_MAX {
            let frame = Frame { hops_left: MEMBERS as u8 - 2, payload: self.payload.clone() };
            backlog_bytes += frame.wire_len();
            self.credits -= 1;
            cx.send(successor, Lane::Stream, frame);
        }
        if self.credits > 0 {
            cx.notify_drained(successor, BACKLOG_BYTES_MAX / 2);
        }
    }
}

impl Protocol for Rider {
    type Message = Frame;
    type Timer = ();
    type Command = ();
    type Event = ();
    type Shared = ();

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        self.inject(cx);
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, _from: NodeId, mut frame: Frame) {
        let successor = Rider::successor(cx);
        match frame.hops_left {
            CREDIT => {
                self.credits += CREDIT_EVERY;
                self.inject(cx);
            }
            // The last member's successor is the origin.
            0 => {
                self.unreported += 1;
                if self.unreported == CREDIT_EVERY {
                    self.unreported = 0;
                    let credit = Frame { hops_left: CREDIT, payload: Payload::Zeros(0) };
                    cx.send(successor, Lane::Stream, credit);
                }
            }
            _ => {
                frame.hops_left -= 1;
                cx.send(successor, Lane::Stream, frame);
            }
        }
    }

    fn handle_timer(&mut self, _cx: &mut Context<'_, Self>, (): ()) {}

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, _to: NodeId) {
        self.inject(cx);
    }
}

fn cpu_seconds() -> f64 {
    let usage = {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel fills the structure; all zeros is a valid value of it as well.
        unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        }
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let all_send = arguments.next().is_some_and(|word| word == "all");
    let seconds: f64 = arguments.next().map_or(3.0, |word| word.parse().expect("seconds"));
    let threads = arguments.next().map_or(2, |word| word.parse().expect("threads"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let bound: Vec<Bound> = (0..MEMBERS)
            .map(|node| NodeConfig::new("throughput", NodeId::from(node)))
            .map(|config| Bound::bind("127.0.0.1:0".parse().unwrap(), config).expect("a port"))
            .collect();
        let addrs = (0..).map(NodeId).zip(bound.iter().map(Bound::local_addr));
        let roster = Roster::new(addrs).expect("distinct members");
        let nodes: Vec<_> = bound
            .into_iter()
            .enumerate()
            .map(|(rank, bound)| {
                let rider = Rider {
                    payload: Payload::from(vec![rank as u8; MESSAGE_BYTES]),
                    credits: if all_send || rank == 0 { WINDOW } else { 0 },
                    unreported: 0,
                };
                bound.start(roster.clone(), rider, Arc::new(())).expect("started").0
            })
            .collect();
        let received =
            || nodes.iter().map(|node| node.stats().traffic.stream_bytes_in).sum::<u64>();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (from, cpu_from, bytes_from) = (Instant::now(), cpu_seconds(), received());
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        let elapsed = from.elapsed().as_secs_f64();
        let (cpu, bytes) = (cpu_seconds() - cpu_from, (received() - bytes_from) as f64);
        let receivers = if all_send { MEMBERS } else { MEMBERS - 1 };
        println!(
            "{:.0} MB/s received a member, {:.2} CPU s per GB received, {:.0} % CPU",
            bytes / elapsed / f64::from(receivers) / 1e6,
            cpu / (bytes / 1e9),
            cpu / elapsed * 100.0
        );
        for (rank, node) in nodes.iter().enumerate() {
            let traffic = node.stats().traffic;
            println!(
                "member {rank}: {} turns, {} bytes a read, {} bytes a write",
                traffic.turns,
                traffic.stream_bytes_in / traffic.stream_reads.max(1),
                traffic.stream_bytes_out / traffic.stream_writes.max(1),
            );
        }
    });
}
