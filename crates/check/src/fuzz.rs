//! Fuzz targets. Bytes become a message for a decoder, or a sequence of random well-formed messages
//! and timers for a single node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{
    Backlog, Context, DecodeError, Instant, Lane, Member, MembershipCommand, NodeId, Outbox,
    Protocol, Rng, View, Wire, decode_exact, encode_to_bytes,
};
use paceline_proto::overlay::{Algorithm, Key, Overlay};
use paceline_proto::{chain, detector, group, mircc, multicast, ndn, overlay, slingshot, walk};

use crate::Spoken;
use crate::lies::{Draw, Known, Source};

/// The largest datagram of a node.
const DATAGRAM_BYTES_MAX: usize = 1_200;
/// Nodes that a node alone takes for others: these numbers from 1 on.
const OTHERS: u32 = 5;
/// Messages that one call may send.
const SENDS_MAX: usize = 1 << 16;
/// Timers that fire in a row.
const TIMERS_MAX: u32 = 100;

/// Something that takes bytes, and panics if they break a promise.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Feeds it.
    pub feed: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "decode-chain", feed: decode::<chain::Message> },
    Target { name: "decode-group", feed: decode::<group::Message> },
    Target { name: "decode-multicast", feed: decode::<multicast::Message> },
    Target { name: "decode-slingshot", feed: decode::<slingshot::Message> },
    Target { name: "decode-chord", feed: |input| decode_overlay(Algorithm::Chord, input) },
    Target { name: "decode-koorde", feed: |input| decode_overlay(Algorithm::Koorde, input) },
    Target { name: "decode-walk", feed: decode::<walk::Message> },
    Target { name: "decode-ndn", feed: decode_ndn },
    Target { name: "node-chain", feed: node_chain },
    Target { name: "node-group", feed: node_group },
    Target { name: "node-slingshot", feed: node_slingshot },
    Target { name: "node-chord", feed: |input| node_overlay(Algorithm::Chord, input) },
    Target { name: "node-koorde", feed: |input| node_overlay(Algorithm::Koorde, input) },
    Target { name: "node-pastry", feed: |input| node_overlay(Algorithm::Pastry, input) },
    Target { name: "node-tapestry", feed: |input| node_overlay(Algorithm::Tapestry, input) },
    Target { name: "node-kademlia", feed: |input| node_overlay(Algorithm::Kademlia, input) },
    Target { name: "node-walk", feed: node_walk },
    Target { name: "node-forwarder", feed: node_forwarder },
];

/// Feeds one of the targets, which the first byte chooses.
pub fn feed_any(input: &[u8]) {
    if let Some((&first, rest)) = input.split_first() {
        (TARGETS[usize::from(first) % TARGETS.len()].feed)(rest);
    }
}

/// Bytes as they are after an even first byte. After an odd one a drawn message, damaged: three
/// bytes change one of its, and one that is left over cuts it short.
fn damaged<M: Draw>(input: &[u8], known: &Known) -> Bytes {
    let Some((mode, rest)) = input.split_first().filter(|(mode, _)| **mode % 2 == 1) else {
        return Bytes::copy_from_slice(input.get(1..).unwrap_or_default());
    };
    let (seed, changes) = rest.split_at(rest.len().min(8));
    let seed = seed.iter().fold(u64::from(*mode), |seed, &byte| seed << 8 ^ u64::from(byte));
    let me = Member { node: NodeId(9), incarnation: 77 };
    let mut rng = Rng::new(seed, 0xf022);
    let message = M::draw(&mut Source { rng: &mut rng, known, me, is_member: false });
    let mut bytes = encode_to_bytes(&message).to_vec();
    let changes = changes.chunks_exact(3);
    let rest = changes.remainder().first();
    for change in changes {
        let place = usize::from(change[0]) << 8 | usize::from(change[1]);
        if let Some(place) = place.checked_rem(bytes.len()) {
            bytes[place] ^= change[2];
        }
    }
    if let Some(&cut) = rest {
        bytes.truncate(bytes.len().saturating_sub(cut.into()));
    }
    Bytes::from(bytes)
}

/// Bytes are a message in its only form, as long as it says, or refused.
fn decode<M: Draw>(input: &[u8]) {
    let bytes = damaged::<M>(input, &known());
    has_one_form(&bytes, decode_exact::<M>(bytes.clone()));
}

/// The same of an overlay's bytes, which are read as its algorithm has it.
fn decode_overlay(algorithm: Algorithm, input: &[u8]) {
    let bytes = damaged::<overlay::Message>(input, &Known { algorithm, ..known() });
    has_one_form(&bytes, overlay::Message::decode_for(algorithm, bytes.clone()));
}

fn has_one_form<M: Draw>(bytes: &Bytes, decoded: Result<M, DecodeError>) {
    if let Ok(message) = decoded {
        assert_eq!(encode_to_bytes(&message), *bytes, "{} has two forms", message.kind());
        assert_eq!(message.wire_len(), bytes.len(), "{} is not so long", message.kind());
    }
}

/// What is skipped in packets of others is not written again: the first form that is written is the
/// only one.
fn decode_ndn(input: &[u8]) {
    let bytes = damaged::<Box<ndn::Packet>>(input, &known());
    if let Ok(packet) = decode_exact::<ndn::Packet>(bytes) {
        survives(&packet, decode_exact);
    }
}

/// What a node sends is read again as it was.
fn survives<M: Draw>(message: &M, decode: impl FnOnce(Bytes) -> Result<M, DecodeError>) {
    let bytes = encode_to_bytes(message);
    assert_eq!(message.wire_len(), bytes.len(), "{} is not so long", message.kind());
    match decode(bytes.clone()) {
        Ok(again) => assert_eq!(encode_to_bytes(&again), bytes, "{}", message.kind()),
        Err(error) => panic!("{} is sent, and cannot be read: {error}", message.kind()),
    }
}

fn known() -> Known {
    let mut known = Known { view: 3, groups: 2, vertices: 20, steps_max: 300, ..Known::default() };
    for node in 0..=OTHERS {
        known.note(Member { node: NodeId::from(node), incarnation: 100 + u64::from(node) });
    }
    known.keys = (0..9u8).map(|number| Key::of(&[number])).collect();
    known.names = ["/p/0", "/p/1"].map(|name| name.parse().expect("a name")).to_vec();
    known
}

struct NoBacklog;

impl Backlog for NoBacklog {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

/// A node whose neighbours only lie.
struct Alone<'a, P: Protocol> {
    node: P,
    shared: &'a P::Shared,
    known: Known,
    rng: Rng,
    now: Instant,
    timers: Vec<(Instant, P::Timer)>,
}

impl<P: Spoken> Alone<'_, P> {
    /// Starts it and feeds it: four bytes are a message, or time that passes.
    fn run(node: P, shared: &P::Shared, first: Option<P::Command>, input: &[u8]) {
        let (rng, now) = (Rng::new(1, 2), Instant::ZERO + Duration::from_secs(1));
        let mut alone = Alone { node, shared, known: known(), rng, now, timers: Vec::new() };
        alone.call(|node, cx| node.handle_start(cx));
        if let Some(command) = first {
            alone.call(|node, cx| node.handle_command(cx, command));
        }
        for (place, chunk) in input.chunks_exact(4).enumerate() {
            let [what, who, high, low] = [0, 1, 2, 3].map(|at| chunk[at]);
            if what % 8 == 0 {
                alone.pass(Duration::from_millis(1) * (1 << (who % 16)));
                continue;
            }
            let sender = alone.known.members[1 + usize::from(who) % OTHERS as usize];
            let seed = u64::from(high) << 8 | u64::from(low);
            let mut rng = Rng::new(seed, place as u64);
            let mut source =
                Source { rng: &mut rng, known: &alone.known, me: sender, is_member: false };
            let message = P::Message::draw(&mut source);
            alone.call(|node, cx| node.handle_message(cx, sender.node, message));
        }
    }

    /// Time passes, and what timers are due fire.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        for _ in 0..TIMERS_MAX {
            let due = self.timers.iter().position(|&(at, _)| at <= self.now);
            let Some(place) = due else { return };
            let (_, timer) = self.timers.swap_remove(place);
            self.call(|node, cx| node.handle_timer(cx, timer));
        }
    }

    fn call(&mut self, handler: impl FnOnce(&mut P, &mut Context<'_, P>)) {
        let mut outbox = Outbox::default();
        let me = self.known.members[0];
        let mut cx = Context {
            now: self.now,
            node: me.node,
            incarnation: me.incarnation,
            host: None,
            shared: self.shared,
            rng: &mut self.rng,
            outbox: &mut outbox,
            backlog: &NoBacklog,
            datagram_bytes_max: DATAGRAM_BYTES_MAX,
        };
        handler(&mut self.node, &mut cx);
        let count = outbox.sends.len() + outbox.group_sends.len();
        assert!(count <= SENDS_MAX, "{count} messages of one call");
        for send in &outbox.sends {
            survives(&send.message, |bytes| P::decode(self.shared, bytes));
            let length = send.message.wire_len();
            let fits = send.lane == Lane::Stream || length <= DATAGRAM_BYTES_MAX;
            assert!(fits, "a datagram of {length} bytes: {}", send.message.kind());
        }
        for (_, message) in &outbox.group_sends {
            survives(message, |bytes| P::decode(self.shared, bytes));
        }
        self.timers.append(&mut outbox.timers);
        self.node.publish(me, &mut self.known);
    }
}

fn roster() -> View {
    View::roster((0..=OTHERS).map(NodeId::from))
}

fn node_chain(input: &[u8]) {
    let config = chain::Config::new(roster()).build().expect("the defaults");
    Alone::run(chain::Chain::new(&config), &config, None, input);
}

fn node_group(input: &[u8]) {
    let config = group::Config::new(chain::Config::for_groups(), detector::Config::default());
    let config = config.build().expect("the defaults");
    let found = MembershipCommand::Bootstrap { address: Bytes::new() }.into();
    Alone::run(group::Group::new(&config), &config, Some(found), input);
}

fn node_slingshot(input: &[u8]) {
    let config = slingshot::Config::new(roster()).build().expect("the defaults");
    Alone::run(slingshot::Slingshot::new(&config), &config, None, input);
}

fn node_overlay(algorithm: Algorithm, input: &[u8]) {
    let config = overlay::Config::new(overlay::Space::new(1)).with_algorithm(algorithm);
    let found = MembershipCommand::Bootstrap { address: Bytes::new() }.into();
    Alone::run(Overlay::new(&config, NodeId(0)), &config, Some(found), input);
}

fn node_walk(input: &[u8]) {
    let vertices = 20u32;
    let edges = (0..vertices).flat_map(|one| [1, 7].map(|hop| (one, (one + hop) % vertices)));
    let graph = Arc::new(walk::Graph::from_edges(vertices, edges).expect("edges of vertices"));
    let servers = vec![NodeId(0), NodeId(1)];
    let owners = (0..vertices).map(|vertex| (vertex % 2) as u16).collect();
    let owners = Arc::new(walk::Owners::new(servers, owners).expect("each has a server"));
    let part = walk::Part::new(NodeId(0), graph, owners);
    let server = walk::Server::new(walk::Config::default(), part).expect("the defaults");
    Alone::run(server, &(), None, input);
}

fn node_forwarder(input: &[u8]) {
    let config = mircc::Config::default();
    let faces =
        (1..=OTHERS).map(|node| (NodeId::from(node), mircc::FaceConfig::default())).collect();
    let route = |name: &str, node| (name.parse().expect("a name"), NodeId(node), 1);
    let routes = vec![route("/p", 1), route("/p", 2), route("/p/1", 3)];
    let setup = mircc::Setup { faces, routes, ..mircc::Setup::default() };
    Alone::run(mircc::Forwarder::new(setup, &config), &config, None, input);
}
