//! One member by itself, and all that comes to it.

use std::time::Duration;

use paceline_proto::core::{
    Backlog, Context, GroupId, Instant, NodeId, Outbox, Payload, Protocol, Rng, ViewId,
};
use paceline_proto::parts::fec::{Coefficients, Sum};
use paceline_proto::slingshot::{
    Ages, Command, Config, Data, Framing, Message, Name, NamesBuilder, Repair, Slingshot, checksum,
};

/// The member.
const ME: NodeId = NodeId(0);
/// Different contents of packets.
const CONTENTS: usize = 16;
/// Senders of all groups together: each is heard often enough for repairs of its packets.
const SENDERS: u32 = 4_096;
const DATAGRAM_BYTES_MAX: usize = 1_500;

/// Whose packets come, and which repairs.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The members of each group: node 0 and others.
    pub groups: Vec<Vec<u32>>,
    /// Nodes there are.
    pub nodes: u32,
    /// Packets of all groups, and how many of them in a second.
    pub packets: u32,
    pub packets_per_second: u32,
    /// Bytes of each.
    pub packet_bytes: usize,
    /// The share of all datagrams that is lost at each receiver.
    pub loss: f64,
}

/// What comes to the member, and when.
pub struct Arrivals {
    messages: Vec<(Instant, NodeId, Message)>,
    /// Packets of others, and those of them that do not come.
    pub packets: u64,
    pub lost: u64,
}

/// What another member has for this one.
#[derive(Clone, Default)]
struct Bin {
    packets: Vec<u32>,
    since: Instant,
}

impl Traffic {
    /// The packets, and repairs as the other members send them. Each has one bin of packets of all
    /// groups that it shares with this member, as if no third member shared just these groups. With
    /// a single group this is what the protocol does, as this member sees it.
    pub fn arrivals(&self, config: &Config) -> Arrivals {
        let mut rng = Rng::new(1, 1);
        let contents: Vec<Payload> = (0..CONTENTS)
            .map(|_| {
                Payload::from(
                    (0..self.packet_bytes).map(|_| rng.next_u32() as u8).collect::<Vec<_>>(),
                )
            })
            .collect();
        let every = Duration::from_secs(1) / self.packets_per_second;
        let senders = SENDERS / self.groups.len() as u32;
        let mut arrivals = Arrivals { messages: Vec::new(), packets: 0, lost: 0 };
        let mut bins = vec![Bin::default(); self.nodes as usize];
        let mut next: Vec<Vec<u64>> =
            self.groups.iter().map(|group| vec![0; group.len()]).collect();
        let mut sent: Vec<(NodeId, Data)> = Vec::with_capacity(self.packets as usize);
        for number in 0..self.packets {
            let now = Instant::ZERO + every * number;
            let place = rng.below(self.groups.len() as u32) as usize;
            let members = &self.groups[place];
            let of_sender = 1 + rng.below(senders.min(members.len() as u32 - 1)) as usize;
            let sender = NodeId::from(members[of_sender]);
            let (group, incarnation) = (GroupId(place as u32), 100 + sender.0);
            let seq = next[place][of_sender];
            next[place][of_sender] += 1;
            let payload = contents[number as usize % CONTENTS].clone();
            let checksum = checksum(group, incarnation, seq, &payload);
            let framing = Framing::Whole;
            let data = Data { group, incarnation, seq, framing, checksum, payload };
            sent.push((sender, data.clone()));
            arrivals.packets += 1;
            if rng.chance(self.loss) {
                arrivals.lost += 1;
            } else {
                arrivals.messages.push((now, sender, Message::Data(data)));
            }
            let for_us = config.rate().c as f64 / (members.len() - 1) as f64 * (1.0 - self.loss);
            for &other in &members[1..] {
                if NodeId::from(other) == sender || rng.chance(self.loss) {
                    continue;
                }
                let bin = &mut bins[other as usize];
                let waits = now.since(bin.since);
                let is_late = config.flush_after().is_some_and(|after| waits >= after);
                if is_late && !bin.packets.is_empty() {
                    if rng.chance(for_us) {
                        arrivals.messages.push((now, NodeId::from(other), repair(bin, &sent, now)));
                    }
                    bin.packets.clear();
                }
                if bin.packets.is_empty() {
                    bin.since = now;
                }
                bin.packets.push(number);
                if bin.packets.len() == config.rate().r {
                    if rng.chance(for_us) {
                        arrivals.messages.push((now, NodeId::from(other), repair(bin, &sent, now)));
                    }
                    bin.packets.clear();
                }
            }
        }
        arrivals
    }
}

/// The repair of what is in a bin.
fn repair(bin: &Bin, sent: &[(NodeId, Data)], now: Instant) -> Message {
    let (mut names, mut sum) = (NamesBuilder::default(), Sum::default());
    for &packet in &bin.packets {
        let (sender, Data { group, seq, checksum, payload, .. }) = &sent[packet as usize];
        let (rank, seq) = (sender.0 as u16, *seq as u32);
        names.push(Name { group: *group, rank, seq, checksum: *checksum });
        sum.add(payload);
    }
    let ages = Ages::new(now.since(bin.since), Duration::ZERO);
    let (names, coded) = (names.build(), sum.take_coded());
    Message::Repair(Repair::new(ViewId(0), Coefficients::XOR, ages, names, coded))
}

/// The member, and what its driver has.
pub struct Member {
    config: Config,
    pub node: Slingshot,
    pub outbox: Outbox<Slingshot>,
    rng: Rng,
    now: Instant,
}

struct NoBacklog;

impl Backlog for NoBacklog {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

impl Member {
    /// In these groups.
    pub fn new(config: Config, groups: &[Vec<u32>]) -> Member {
        let node = Slingshot::new(&config);
        let (outbox, rng, now) = (Outbox::default(), Rng::new(1, 1), Instant::ZERO);
        let mut member = Member { config, node, outbox, rng, now };
        member.call(|node, cx| node.handle_start(cx));
        for (group, members) in (0..).map(GroupId).zip(groups) {
            let members = members.iter().copied().map(NodeId::from).collect();
            member.call(|node, cx| node.handle_command(cx, Command::Members { group, members }));
        }
        member
    }

    fn call(&mut self, handler: impl FnOnce(&mut Slingshot, &mut Context<'_, Slingshot>)) {
        let mut cx = Context {
            now: self.now,
            node: ME,
            incarnation: 7,
            host: None,
            shared: &self.config,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &NoBacklog,
            datagram_bytes_max: DATAGRAM_BYTES_MAX,
        };
        handler(&mut self.node, &mut cx);
    }

    /// Handles what arrives, and its timers when they are due. What it sends is dropped.
    pub fn handle(&mut self, arrivals: &Arrivals) {
        for (at, from, message) in &arrivals.messages {
            let due =
                |outbox: &Outbox<Slingshot>| outbox.timers.iter().position(|&(due, _)| due <= *at);
            while let Some(place) = due(&self.outbox) {
                let (due, timer) = self.outbox.timers.swap_remove(place);
                self.now = self.now.max(due);
                self.call(|node, cx| node.handle_timer(cx, timer));
            }
            self.now = *at;
            let message = message.clone();
            self.call(|node, cx| node.handle_message(cx, *from, message));
            self.outbox.sends.clear();
            self.outbox.group_sends.clear();
            self.outbox.events.clear();
        }
    }
}
