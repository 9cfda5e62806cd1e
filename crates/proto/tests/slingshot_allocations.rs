//! What a member of a multicast takes from the allocator once it runs: nothing for what it
//! receives, a buffer for what it computes.
//!
//! In a test binary of its own, whose allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{
    Backlog, Context, Counters, GroupId, Instant, NodeId, Outbox, Payload, Protocol, Rng, View,
    ViewId, decode_exact, encode_to_bytes,
};
use paceline_proto::parts::fec::Sum;
use paceline_proto::slingshot::{
    Ages, Command, Config, Data, Event, Framing, How, Message, NO_RANK, Name, NamesBuilder, Pull,
    Pulse, Rate, RateControl, Repair, Report, RoundTripsBuilder, Slingshot, Timer, checksum,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread how often it was asked.
struct Counting;

// SAFETY: each call is the system's, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct NoBacklog;

impl Backlog for NoBacklog {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

const MEMBERS: u32 = 17;

/// Member 0, which the others send a packet each millisecond in turn.
struct Bench {
    config: Config,
    node: Slingshot,
    outbox: Outbox<Slingshot>,
    counters: Counters,
    timers: Vec<(Instant, Timer)>,
    rng: Rng,
    now: Instant,
    allocations: u64,
    recovered: u64,
    /// The stamp and the round of the last Pulse that was sent, until it is answered.
    pulsed: Option<(u32, u32)>,
}

impl Bench {
    fn new(config: Config) -> Bench {
        let config = config.with_keep(Duration::from_millis(500)).build().expect("within ranges");
        let mut bench = Bench {
            node: Slingshot::new(&config),
            config,
            outbox: Outbox::default(),
            counters: Counters::default(),
            timers: Vec::new(),
            rng: Rng::new(1, 1),
            now: Instant::ZERO,
            allocations: 0,
            recovered: 0,
            pulsed: None,
        };
        bench.call(|node, cx| node.handle_start(cx));
        bench
    }

    fn call(&mut self, handler: impl FnOnce(&mut Slingshot, &mut Context<'_, Slingshot>)) {
        let mut cx = Context {
            now: self.now,
            node: NodeId(0),
            incarnation: 7,
            host: None,
            shared: &self.config,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &NoBacklog,
            datagram_bytes_max: 1400,
        };
        let before = ALLOCATIONS.get();
        handler(&mut self.node, &mut cx);
        self.allocations += ALLOCATIONS.get() - before;
        // The driver sends what is to be sent, and the application drops what it is told.
        let outbox = &mut self.outbox;
        let is_recovered =
            |event: &Event| matches!(event, Event::Delivered { how: How::Recovered { .. }, .. });
        self.recovered += outbox.events.iter().filter(|event| is_recovered(event)).count() as u64;
        for (_, message) in &outbox.group_sends {
            if let Message::Pulse(pulse) = message {
                self.pulsed = Some((pulse.stamp_us, pulse.round));
            }
        }
        outbox.sends.clear();
        outbox.events.clear();
        outbox.group_sends.clear();
        outbox.links.memberships.clear();
        outbox.counters.drain_into(&mut self.counters);
        self.timers.append(&mut outbox.timers);
    }

    fn arrive(&mut self, from: u32, bytes: Bytes) {
        self.call(|node, cx| {
            let message = decode_exact(bytes).expect("it was encoded");
            node.handle_message(cx, NodeId::from(from), message);
        });
    }

    /// Runs for this many milliseconds. Every `lost`th packet is lost, and a repair of it arrives.
    fn run(&mut self, from_ms: u64, to_ms: u64, lost: Option<u64>) {
        for number in from_ms..to_ms {
            self.now = Instant::from_nanos(number * 1_000_000);
            while let Some(due) = self.timers.iter().position(|&(at, _)| at <= self.now) {
                let (_, timer) = self.timers.swap_remove(due);
                self.call(|node, cx| node.handle_timer(cx, timer));
            }
            let is_lost = |number: u64| lost.is_some_and(|lost| number % lost == 3);
            if !is_lost(number) {
                let packet = datagram(&Message::Data(packet(number)));
                self.arrive(sender(number), packet);
            }
            if number % 8 == 7 {
                let first = number - 7;
                let by = (1..MEMBERS).find(|&node| !(first..=number).any(|n| sender(n) == node));
                let repair = datagram(&repair(first..number + 1));
                self.arrive(by.expect("eight packets are of eight members"), repair);
            }
        }
    }
}

fn sender(number: u64) -> u32 {
    1 + (number % u64::from(MEMBERS - 1)) as u32
}

fn packet(number: u64) -> Data {
    let payload = Payload::from(vec![number as u8; 1024]);
    let (group, seq) = (GroupId(0), number / u64::from(MEMBERS - 1));
    let incarnation = 100 + u64::from(sender(number));
    let checksum = checksum(group, incarnation, seq, &payload);
    Data { group, incarnation, seq, framing: Framing::Whole, checksum, payload }
}

fn repair(numbers: std::ops::Range<u64>) -> Message {
    let (mut names, mut sum) = (NamesBuilder::default(), Sum::default());
    for number in numbers {
        let Data { group, seq, checksum, payload, .. } = packet(number);
        names.push(Name { group, rank: sender(number) as u16, seq: seq as u32, checksum });
        sum.add(&payload);
    }
    Message::Repair(Repair::new(ViewId(0), 0, Ages::default(), names.build(), sum.take_coded()))
}

/// As a driver has it: a part of a larger buffer that is shared already.
fn datagram(message: &Message) -> Bytes {
    let encoded = encode_to_bytes(message);
    let shared = encoded.clone();
    drop(encoded);
    shared
}

/// Half of the numbers is sent by this member, which has congestion control, and the others answer
/// its Pulses; the other half comes from members that announce their rate as well.
fn run_paced(bench: &mut Bench, from_ms: u64, to_ms: u64) {
    for number in from_ms..to_ms {
        bench.run(number, number + 1, None);
        let payload = Payload::Zeros(1_024);
        let command = Command::Multicast { group: GroupId(0), payload, ticket: 0 };
        bench.call(|node, cx| node.handle_command(cx, command));
        if let Some((stamp_us, round)) = bench.pulsed.take() {
            for from in 1..MEMBERS {
                let report = Report {
                    group: GroupId(0),
                    incarnation: 7,
                    stamp_us,
                    held_us: 0,
                    round,
                    loss: 1 << 20,
                    received: 1_000_000,
                    wanted: 2_000_000,
                    is_lossless: false,
                    is_followed: false,
                };
                bench.arrive(from, datagram(&Message::Report(report)));
            }
        }
        if number % 10 == 0 {
            let times = (0..16).map(|rank| (rank, 10_000));
            let pulse = Pulse {
                group: GroupId(0),
                incarnation: 100 + u64::from(sender(number)),
                view: ViewId(0),
                stamp_us: number as u32,
                next: number / u64::from(MEMBERS - 1),
                round: (number / 40) as u32,
                allowed: 1_000_000,
                round_trip_max_us: 10_000,
                limiting: if number % 20 == 0 { 0 } else { NO_RANK },
                is_slow_start: false,
                suppression: u32::MAX,
                round_trips: RoundTripsBuilder::default().build(times),
            };
            bench.arrive(sender(number), datagram(&Message::Pulse(pulse)));
        }
    }
}

fn configs() -> [Config; 2] {
    let roster = || View::roster((0..MEMBERS).map(NodeId::from));
    let rate = Rate { r: 8, c: 3 };
    let whole = Config::new(roster()).with_rate(rate).with_pull(Some(Pull::default()));
    [Config::published(roster(), rate), whole]
}

#[test]
fn packets_and_repairs_cost_no_allocation_once_all_buffers_have_grown() {
    for config in configs() {
        let mut bench = Bench::new(config);
        bench.run(0, 3_000, Some(50));
        bench.allocations = 0;
        bench.run(3_000, 6_000, None);
        let received = bench.counters.count("slingshot_repairs_received");
        assert!(received > 700 && bench.counters.count("slingshot_repairs") > 1_000);
        assert_eq!(bench.allocations, 0, "for 3,000 packets and 375 repairs");
    }
}

#[test]
fn pulses_and_reports_cost_no_allocation_once_all_buffers_have_grown() {
    for config in configs() {
        let mut bench = Bench::new(config.with_rate_control(RateControl::Tfmcc));
        run_paced(&mut bench, 0, 3_000);
        bench.allocations = 0;
        run_paced(&mut bench, 3_000, 6_000);
        for counter in ["pulses", "reports_received", "pulses_received", "reports"] {
            assert!(bench.counters.count(&format!("slingshot_{counter}")) > 100, "{counter}");
        }
        assert_eq!(bench.allocations, 0, "for 6,000 packets");
    }
}

#[test]
fn a_recovered_packet_costs_its_own_buffer_and_no_more() {
    for config in configs() {
        let mut bench = Bench::new(config);
        bench.run(0, 3_000, Some(50));
        (bench.allocations, bench.recovered) = (0, 0);
        bench.run(3_000, 6_000, Some(50));
        assert_eq!(bench.recovered, 60);
        // The bytes, and what counts who shares them.
        let allocations = bench.allocations;
        assert!((60..=120).contains(&allocations), "{allocations} for 60 recovered packets");
    }
}
