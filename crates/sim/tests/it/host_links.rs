//! Services of a host that share its link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use paceline_proto::core::{
    Context, DecodeError, Instant, Lane, NodeId, Payload, Protocol, ServiceNumber, Wire, take_u64,
};
use paceline_proto::detector;
use paceline_proto::host::{Encode, Host, Message};
use paceline_sim::{Observer, Overhead, Sim, SimConfig};

const HOSTS: u64 = 5;
const RATE: u64 = 100_000_000;
/// A service that sends by stream has this much on its way to each node, at least.
const AHEAD_BYTES: usize = 64 << 10;

/// A message of any length that says when it was submitted.
#[derive(Clone, Debug)]
struct Stamped {
    at: Instant,
    payload: Payload,
}

impl Wire for Stamped {
    fn wire_len(&self) -> usize {
        8 + self.payload.len()
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.put_u64(self.at.as_nanos());
        Some(&self.payload)
    }

    fn decode(bytes: &mut Bytes) -> Result<Stamped, DecodeError> {
        let at = Instant::from_nanos(take_u64(bytes)?);
        Ok(Stamped { at, payload: Payload::Zeros(std::mem::take(bytes).len() as u32) })
    }
}

/// What a service of host 0 sends.
#[derive(Clone, Copy, Debug)]
struct Load {
    lane: Lane,
    bytes: usize,
    /// To how many of the others, in turn.
    peers: u64,
    /// Bits a second on the wire, whatever leaves of it. By stream without end if it is more than
    /// the link's.
    rate: u64,
}

impl Load {
    fn stream(bytes: usize, peers: u64) -> Load {
        Load { lane: Lane::Stream, bytes, peers, rate: u64::MAX }
    }

    fn datagrams(bytes: usize, peers: u64, rate: u64) -> Load {
        Load { lane: Lane::Datagram, bytes, peers, rate }
    }

    /// The time between two messages.
    fn gap(&self) -> Duration {
        let head_bytes = 13;
        let bytes = Overhead::Ethernet.charge(self.lane, head_bytes + self.bytes);
        Duration::from_nanos(bytes * 8_000_000_000 / self.rate)
    }
}

/// A service that sends its load and notes how long messages took.
struct Loaded {
    sent: u64,
    due: Instant,
    trips: Vec<Duration>,
}

impl Loaded {
    fn send(&mut self, cx: &mut Context<'_, Loaded>, to: NodeId) {
        let payload = Payload::Zeros(cx.shared.bytes as u32);
        cx.send(to, cx.shared.lane, Stamped { at: cx.now, payload });
        self.sent += 1;
    }

    fn fill(&mut self, cx: &mut Context<'_, Loaded>, to: NodeId) {
        while cx.backlog_bytes(to) < AHEAD_BYTES {
            self.send(cx, to);
        }
        cx.notify_drained(to, AHEAD_BYTES / 2);
    }
}

/// Another host.
fn peer(number: u64) -> NodeId {
    NodeId(1 + number % (HOSTS - 1))
}

impl Protocol for Loaded {
    type Message = Stamped;
    type Timer = ();
    type Command = ();
    type Event = ();
    type Shared = Load;

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        if cx.node != NodeId(0) {
            return;
        }
        if cx.shared.lane == Lane::Stream && cx.shared.rate > RATE {
            (0..cx.shared.peers).for_each(|number| self.fill(cx, peer(number)));
        } else {
            cx.set_timer(Duration::ZERO, ());
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        let gap = cx.shared.gap();
        self.due = self.due.max(Instant::ZERO + gap);
        while self.due <= cx.now {
            let to = peer(self.sent % cx.shared.peers);
            self.send(cx, to);
            self.due += gap;
        }
        cx.set_timer(self.due.since(cx.now).max(Duration::from_millis(1)), ());
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: Stamped) {
        self.trips.push(cx.now.since(message.at));
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        self.fill(cx, to);
    }
}

/// Bytes on the wire of each service of host 0 in ten seconds.
#[derive(Debug, Default)]
struct Shares(BTreeMap<ServiceNumber, u64>);

impl Observer<Host> for Shares {
    fn on_send(&mut self, at: Instant, from: NodeId, _: NodeId, lane: Lane, message: &Message) {
        let seconds = at.as_nanos() / 1_000_000_000;
        if from == NodeId(0) && (1..11).contains(&seconds) && message.service.0 != 0 {
            let bytes = Overhead::Ethernet.charge(lane, Encode::wire_len(message));
            *self.0.entry(message.service).or_default() += bytes;
        }
    }
}

fn hosts(services: &[(u32, Load)]) -> Sim<'_, Host> {
    let mut config = SimConfig::new(HOSTS as usize, 1);
    config.network.rate_bits_per_second = Some(RATE);
    config.datagram_bytes_max = 9_000;
    let rate = config.network.link_rate();
    assert!(rate.is_some());
    let make = move |_| {
        let host = Host::new(detector::Config::default()).with_link_rate(rate);
        (1..).zip(services).fold(host, |host, (number, &(weight, load))| {
            let loaded = Loaded { sent: 0, due: Instant::ZERO, trips: Vec::new() };
            host.with_weighted_service(ServiceNumber(number), weight, loaded, Arc::new(load))
        })
    };
    Sim::new(config, Arc::new(()), make)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

#[test]
fn services_that_all_have_more_than_the_link_takes_get_their_weights_within_a_tenth() {
    let flood = |bytes, peers| Load::datagrams(bytes, peers, 3 * RATE);
    let loads = [
        [Load::stream(8_000, 1), flood(1_000, 4), Load::stream(60_000, 4), flood(100, 2)],
        [Load::stream(200, 1), Load::stream(8_000, 1), Load::stream(1_000, 1), flood(8_000, 1)],
        [flood(60, 1), flood(1_200, 1), flood(8_000, 4), flood(500, 3)],
        [
            Load::stream(30_000, 4),
            Load::stream(100, 4),
            Load::stream(5_000, 2),
            Load::stream(1_000, 3),
        ],
    ];
    for loads in loads {
        for weights in [[1, 1, 1, 1], [4, 1, 2, 1], [1, 10, 1, 3]] {
            let services: Vec<_> = weights.into_iter().zip(loads).collect();
            let mut shares = Shares::default();
            hosts(&services).run_until(at(11), &mut shares);
            let all: u64 = shares.0.values().sum();
            let link = 10 * RATE / 8;
            assert!(all > link * 97 / 100 && all <= link * 101 / 100, "{services:?}: {shares:?}");
            for (sent, weight) in shares.0.values().zip(weights) {
                let due = all * u64::from(weight) / u64::from(weights.iter().sum::<u32>());
                assert!(sent.abs_diff(due) <= due / 10, "{services:?}: {:?}, not {due}", shares.0);
            }
        }
    }
}

/// The 99th percentile of how long a message of the first service takes, which sends one every 10
/// ms, beside another one.
fn p99_beside(weight: u32, lane: Lane, other: Load) -> Duration {
    let probe = Load { lane, bytes: 500, peers: 1, rate: 500_000 };
    let services = [(1, probe), (weight, other)];
    let mut sim = hosts(&services);
    sim.run_until(at(11), &mut ());
    let host = sim.node(NodeId(1));
    let probe = host.service::<Loaded>(ServiceNumber(1)).expect("every host runs it");
    let mut trips = probe.protocol().trips.clone();
    assert!(trips.len() > 100, "{}", trips.len());
    trips.sort_unstable();
    trips[trips.len() * 99 / 100]
}

#[test]
fn a_service_that_floods_at_most_doubles_the_time_that_a_message_of_another_takes() {
    for bytes in [100, 1_000, 8_000] {
        for lane in [Lane::Stream, Lane::Datagram] {
            // All that the probe leaves.
            let fair = p99_beside(1, lane, Load::datagrams(bytes, 4, 90_000_000));
            let floods = [
                Load::datagrams(bytes, 4, 4 * RATE),
                Load::stream(bytes, 4),
                Load::stream(bytes, 1),
            ];
            for flood in floods {
                let flooded = p99_beside(1, lane, flood);
                assert!(flooded <= 2 * fair, "{lane:?} beside {flood:?}: {flooded:?}, {fair:?}");
            }
        }
    }
}

/// Planted: the turns of a service are so long that the others starve.
#[test]
fn a_service_that_starves_another_is_seen() {
    let fair = p99_beside(1, Lane::Stream, Load::datagrams(1_000, 4, 90_000_000));
    let starved = p99_beside(1_000, Lane::Stream, Load::stream(1_000, 4));
    assert!(starved > 10 * fair, "{starved:?}, {fair:?}");
}
