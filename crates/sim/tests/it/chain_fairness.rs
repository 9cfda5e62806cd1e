//! Saturating members share the ring: each sender gets an equal share, at any rank and with
//! messages of any size.
//!
//! Bytes count at the last member that a sender's messages reach, so messages that still wait
//! within the group do not count.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use paceline_proto::chain::{Chain, Command, Config, Event, Frame, Message, Topology, fair_shares};
use paceline_proto::core::{Instant, Lane, NodeId, Payload, Protocol, Rng, View, Wire};
use paceline_sim::{Input, Observer, Overhead, Reply, Sim, SimConfig};

const RATE_BITS_PER_SECOND: u64 = 200_000_000;
const WARMUP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(1);

/// What a member's application submits.
#[derive(Clone, Copy, Debug)]
struct Sender {
    node: u32,
    bytes: u32,
    /// Time between two messages; none for as fast as they are admitted.
    interval: Option<Duration>,
}

impl Sender {
    fn saturating(node: u32) -> Sender {
        Sender { node, bytes: 8000, interval: None }
    }
}

/// What a run measured of a sender.
#[derive(Clone, Debug, Default)]
struct Share {
    /// Bytes on the wire, delivered within the measured time at the member reached last.
    bytes: f64,
    /// Times from acceptance to delivery there, in order.
    latencies: Vec<Duration>,
}

impl Share {
    fn quantile(&self, quantile: f64) -> Duration {
        let place = (self.latencies.len() as f64 * quantile) as usize;
        self.latencies.get(place.min(self.latencies.len() - 1)).copied().unwrap_or_default()
    }
}

/// A message on its way.
struct Open {
    accepted: Instant,
    // Members that were not given it.
    missing: usize,
}

/// Bytes and messages of blocks, by number.
type Blocks = BTreeMap<u64, (usize, usize)>;

struct Applications {
    senders: BTreeMap<NodeId, Sender>,
    // A command of this node is on its way.
    is_sending: Vec<bool>,
    due: BTreeMap<NodeId, Instant>,
    // By origin: its messages that some member was not given, and the number of the first.
    open: Vec<(u64, VecDeque<Open>)>,
    // By member and origin: messages delivered.
    delivered: Vec<Vec<u64>>,
    // By origin: the end of its last message that all members were given, and of the blocks from
    // there on their bytes on a hop and their messages.
    carried: Vec<(u64, Blocks)>,
    shares: BTreeMap<NodeId, Share>,
}

impl Applications {
    fn new(members: usize, senders: &[Sender]) -> Applications {
        let by_node = senders.iter().map(|sender| (NodeId::from(sender.node), *sender)).collect();
        Applications {
            senders: by_node,
            is_sending: vec![false; members],
            due: BTreeMap::new(),
            open: (0..members).map(|_| (0, VecDeque::new())).collect(),
            delivered: vec![vec![0; members]; members],
            carried: (0..members).map(|_| (0, BTreeMap::new())).collect(),
            shares: senders.iter().map(|one| (NodeId::from(one.node), Share::default())).collect(),
        }
    }

    /// A message of `origin` was delivered; the last of its deliveries counts.
    fn note(&mut self, at: Instant, node: NodeId, origin: NodeId, end: u64) {
        let number = &mut self.delivered[node.index()][origin.index()];
        let (first, open) = &mut self.open[origin.index()];
        let message = &mut open[(*number - *first) as usize];
        *number += 1;
        message.missing -= 1;
        if message.missing > 0 {
            return;
        }
        let Open { accepted, .. } = open.pop_front().expect("messages arrive in order");
        *first += 1;
        // With its head, or its part of one, as each hop carries it.
        let (begins, blocks) = &mut self.carried[origin.index()];
        let own = blocks.range(*begins..end.max(*begins + 1)).map(|(_, &block)| block);
        let bytes: f64 = own.map(|(bytes, messages)| bytes as f64 / messages as f64).sum();
        *blocks = blocks.split_off(&end);
        *begins = end;
        if at >= Instant::ZERO + WARMUP {
            let share = self.shares.get_mut(&origin).expect("only senders send");
            share.bytes += bytes;
            share.latencies.push(at - accepted);
        }
    }
}

impl Observer<Chain> for Applications {
    fn before_call(&mut self, at: Instant, node: NodeId, _: &Chain, input: &Input<'_, Chain>) {
        if let Input::Command(Command::Broadcast { .. }) = input {
            self.is_sending[node.index()] = false;
            let missing = self.delivered.len();
            self.open[node.index()].1.push_back(Open { accepted: at, missing });
        }
    }

    fn on_send(&mut self, _: Instant, from: NodeId, _: NodeId, _: Lane, message: &Message) {
        let Message::Data(frame) = message else { return };
        let (begins, blocks) = &mut self.carried[from.index()];
        if frame.origin as usize == from.index() && frame.seq >= *begins {
            let messages = frame.lengths.several().map_or(1, <[u16]>::len);
            blocks.insert(frame.seq, (message.wire_len(), messages));
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<Chain>) {
        let Event::Delivered { origin, end, .. } = event else { panic!("{event:?}") };
        self.note(at, node, *origin, *end);
        reply.command(Duration::ZERO, node, Command::Consumed { origin: *origin, end: *end });
    }

    fn after_call(&mut self, at: Instant, node: NodeId, chain: &Chain, reply: &mut Reply<Chain>) {
        let Some(sender) = self.senders.get(&node) else { return };
        if self.is_sending[node.index()] || chain.admission() == 0 {
            return;
        }
        let due = self.due.entry(node).or_default();
        let after = if *due > at { *due - at } else { Duration::ZERO };
        *due = at.max(*due) + sender.interval.unwrap_or_default();
        self.is_sending[node.index()] = true;
        reply.command(after, node, Command::broadcast(Payload::Zeros(sender.bytes)));
    }
}

/// Runs these senders in a group of this many members; gives each one's share.
fn run(members: u32, topology: Topology, senders: &[Sender]) -> BTreeMap<NodeId, Share> {
    run_for(members, topology, senders, MEASURED)
}

fn run_for(
    members: u32,
    topology: Topology,
    senders: &[Sender],
    measured: Duration,
) -> BTreeMap<NodeId, Share> {
    let view = View::roster((0..members).map(NodeId::from));
    let shared = Config::new(view.clone()).with_topology(Some(topology));
    let shared = match topology {
        Topology::Pipeline => shared.with_block_bytes_max(4096),
        _ => shared,
    };
    let shared = shared.build().unwrap();
    let mut config = SimConfig::new(members as usize, 1);
    config.network.rate_bits_per_second = Some(RATE_BITS_PER_SECOND);
    config.network.overhead = Overhead::None;
    config.network.link.delay = Duration::from_micros(50);
    let member = shared.clone();
    let mut sim = Sim::new(config, Arc::new(shared), move |_| Chain::new(&member));
    let view = Arc::new(view);
    (0..members).for_each(|node| sim.view_at(Instant::ZERO, NodeId::from(node), view.clone()));
    let mut applications = Applications::new(members as usize, senders);
    sim.run_until(Instant::ZERO + WARMUP + measured, &mut applications);
    let mut shares = applications.shares;
    shares.values_mut().for_each(|share| share.latencies.sort());
    shares
}

/// Most over least served of the senders, and the sum over the link's rate.
fn fairness(shares: &BTreeMap<NodeId, Share>) -> (f64, f64) {
    let bytes = shares.values().map(|share| share.bytes);
    let (least, most) = bytes
        .clone()
        .fold((f64::MAX, 0.0), |(low, high): (f64, f64), bytes| (low.min(bytes), high.max(bytes)));
    let link = RATE_BITS_PER_SECOND as f64 / 8.0 * MEASURED.as_secs_f64();
    (most / least, bytes.sum::<f64>() / link)
}

/// `k` of `members` nodes, neighbours or drawn.
fn drawn(rng: &mut Rng, members: u32, k: u32) -> Vec<u32> {
    let mut nodes: Vec<u32> = (0..members).collect();
    if rng.chance(0.3) {
        nodes.rotate_left(rng.below(members) as usize);
    } else {
        (1..nodes.len()).rev().for_each(|i| nodes.swap(i, rng.below(i as u32 + 1) as usize));
    }
    nodes.truncate(k as usize);
    nodes
}

/// Runs `one` for each job, on all processors.
fn in_parallel<J: Sync, R: Send>(jobs: &[J], one: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let chunk = jobs.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let handles: Vec<_> = jobs
            .chunks(chunk)
            .map(|jobs| scope.spawn(|| jobs.iter().map(&one).collect::<Vec<R>>()))
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("no run panics")).collect()
    })
}

#[test]
fn any_number_of_senders_at_any_positions_get_equal_shares_of_the_whole_ring() {
    let mut rng = Rng::new(22, 0xfa1);
    let jobs: Vec<(u32, Vec<u32>)> = [4, 8, 10, 32]
        .into_iter()
        .flat_map(|members| (2..=members).map(move |k| (members, k)))
        .map(|(members, k)| (members, drawn(&mut rng, members, k)))
        .collect();
    let results = in_parallel(&jobs, |(members, nodes)| {
        let senders: Vec<Sender> = nodes.iter().map(|&node| Sender::saturating(node)).collect();
        let shares = run(*members, Topology::Chain, &senders);
        let (unfairness, sum) = fairness(&shares);
        // A member delivers its own messages, too; no hop carries those of its successor.
        let is_all = nodes.len() == *members as usize;
        let limit = if is_all { f64::from(*members) / f64::from(members - 1) } else { 1.0 };
        (unfairness, sum / limit)
    });
    for ((members, nodes), (unfairness, share)) in jobs.iter().zip(&results) {
        let what = format!("{} of {members}, {nodes:?}", nodes.len());
        assert!(*unfairness <= 1.1, "{what}: the most served got {unfairness:.3} times the least");
        assert!(*share >= 0.97, "{what}: {share:.3} of what the links carry");
    }
}

#[test]
fn senders_of_small_and_of_large_messages_get_equal_bytes_on_the_wire() {
    for nodes in [&[0, 1][..], &[1, 0], &[0, 2], &[0, 1, 2, 3], &[3, 1, 2]] {
        let sizes = nodes.iter().zip([200, 65_536].into_iter().cycle());
        let senders: Vec<Sender> =
            sizes.map(|(&node, bytes)| Sender { bytes, ..Sender::saturating(node) }).collect();
        let (unfairness, share) = fairness(&run(4, Topology::Chain, &senders));
        assert!(unfairness <= 1.1 && share >= 0.97, "{nodes:?}: {unfairness:.3}, {share:.3}");
    }
}

#[test]
fn a_member_that_sends_little_is_no_later_than_those_that_saturate_the_ring() {
    for (members, quiet) in [(4, 0), (4, 2), (8, 5)] {
        let interval = Some(Duration::from_millis(100));
        let senders: Vec<Sender> = (0..members)
            .map(|node| match node == quiet {
                true => Sender { interval, ..Sender::saturating(node) },
                false => Sender::saturating(node),
            })
            .collect();
        let mut shares = run_for(members, Topology::Chain, &senders, Duration::from_secs(10));
        let seldom = shares.remove(&NodeId::from(quiet)).expect("it sends");
        assert!(seldom.latencies.len() >= 90, "{} messages", seldom.latencies.len());
        let p99 = seldom.quantile(0.99);
        let others = shares.values().map(|share| share.quantile(0.99)).max().unwrap_or_default();
        // A round: one message of each origin.
        let round = Duration::from_nanos(
            u64::from(members) * (8000 + Frame::HEAD_BYTES as u64) * 8 * 1_000_000_000
                / RATE_BITS_PER_SECOND,
        );
        assert!(p99 <= others + round, "n{quiet} of {members}: {p99:?}, the others {others:?}");
    }
}

/// A run of drawn senders, and the least of their bytes over their max-min shares.
struct Least {
    members: u32,
    senders: Vec<u32>,
    of_share: f64,
}

/// Runs as many drawn senders as there may be, in groups of several sizes.
fn least_of_max_min(topology: Topology, message_blocks: usize, measured: Duration) -> Vec<Least> {
    let mut rng = Rng::new(22, 0x7ee);
    let jobs: Vec<(u32, Vec<u32>)> = [4, 5, 6, 8, 11, 16]
        .into_iter()
        .flat_map(|members| [2, 3, 3, members / 2, members - 1, members].map(|k| (members, k)))
        .map(|(members, k)| (members, drawn(&mut rng, members, k)))
        .collect();
    let results = in_parallel(&jobs, |(members, nodes)| {
        let bytes = if message_blocks > 1 { message_blocks as u32 * 4096 } else { 8000 };
        let senders = nodes.iter().map(|&node| Sender { bytes, ..Sender::saturating(node) });
        let shares = run_for(*members, topology, &senders.collect::<Vec<_>>(), measured);
        let link = RATE_BITS_PER_SECOND as f64 / 8.0 * measured.as_secs_f64();
        let ranks: Vec<usize> = nodes.iter().map(|&node| node as usize).collect();
        let fair = fair_shares(topology, *members as usize, &ranks, message_blocks);
        let parts = nodes.iter().zip(fair);
        let parts = parts.map(|(&node, fair)| shares[&NodeId::from(node)].bytes / (fair * link));
        parts.fold(f64::MAX, f64::min)
    });
    let least = |((members, senders), of_share)| Least { members, senders, of_share };
    jobs.into_iter().zip(results).map(least).collect()
}

#[test]
fn by_the_tree_each_sender_gets_nine_tenths_of_its_max_min_share() {
    // A window, which a queue on the way may hold or not, is up to 0.8 s of what a sender gets.
    let measured = Duration::from_secs(4);
    for Least { members, senders, of_share } in least_of_max_min(Topology::Tree, 1, measured) {
        assert!(of_share >= 0.92, "{senders:?} of {members}: {of_share:.3} of its share");
    }
}

/// Where some members are silent their downlinks are the bottleneck, and the switch's queue for
/// such a member is in no member's hands: senders compare what they got through, and lower windows.
#[test]
fn by_the_pipeline_each_sender_gets_nine_tenths_of_its_max_min_share() {
    let measured = Duration::from_secs(8); // Messages are long: some tens of each sender.
    for Least { members, senders, of_share } in least_of_max_min(Topology::Pipeline, 64, measured) {
        assert!(of_share >= 0.9, "{senders:?} of {members}: {of_share:.3} of its share");
    }
}
