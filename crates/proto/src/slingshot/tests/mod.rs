//! One member, driven by hand: what goes in, and every output read beside it.

mod codec;
mod congestion;
mod delivery;
mod groups;
mod hostile;
mod lives;
mod messages;
mod pull;
mod repairs;
mod senders;
mod steering;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::core::{
    Backlog, Context, GroupId, Instant, Lane, Member, Membership, NodeId, Outbox, Payload,
    Protocol, Rng, View, ViewId,
};
use crate::parts::fec::{Coefficients, Sum};

/// The incarnation of the member under test; that of node i is `100 + i`.
const INCARNATION: u64 = 7;
const G: GroupId = GroupId(0);

/// A host that still holds this many bytes of datagrams for each receiver.
struct Holding(usize);

impl Backlog for Holding {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }

    fn datagram_backlog_bytes(&self) -> usize {
        self.0
    }
}

/// A member and what surrounds it.
struct Bench {
    config: Config,
    node: Slingshot,
    outbox: Outbox<Slingshot>,
    rng: Rng,
    now: Instant,
    /// Bytes of datagrams that the host holds.
    held: usize,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn roster(members: u32) -> View {
    View::roster((0..members).map(NodeId::from))
}

/// The published system, three packets a repair to one member.
fn published(members: u32) -> Config {
    Config::published(roster(members), Rate { r: 3, c: 1 })
}

impl Bench {
    /// Node 0 of this many members.
    fn new(config: Config) -> Bench {
        let config = config.build().expect("within the ranges");
        let mut bench = Bench {
            node: Slingshot::new(&config),
            config,
            outbox: Outbox::default(),
            rng: Rng::new(1, 1),
            now: Instant::ZERO,
            held: 0,
        };
        bench.call(|node, cx| node.handle_start(cx));
        bench
    }

    fn call(&mut self, handler: impl FnOnce(&mut Slingshot, &mut Context<'_, Slingshot>)) {
        let mut cx = Context {
            now: self.now,
            node: NodeId(0),
            incarnation: INCARNATION,
            host: None,
            shared: &self.config,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &Holding(self.held),
            datagram_bytes_max: 1200,
        };
        handler(&mut self.node, &mut cx);
    }

    fn message(&mut self, from: u32, message: Message) {
        self.call(|node, cx| node.handle_message(cx, NodeId::from(from), message));
    }

    fn command(&mut self, command: Command) {
        self.call(|node, cx| node.handle_command(cx, command));
    }

    fn send(&mut self, payload: &'static str) {
        self.command(Command::multicast(payload));
    }

    /// A packet of another node to group 0.
    fn data(&mut self, from: u32, seq: u64) {
        self.message(from, Message::Data(packet(G, from, seq)));
    }

    /// A repair of these packets (sender and number) of group 0.
    fn repair(&mut self, from: u32, packets: &[(u32, u64)]) {
        let packets: Vec<Data> = packets.iter().map(|&(node, seq)| packet(G, node, seq)).collect();
        self.message(from, repair_of(&packets, Coefficients::XOR));
    }

    fn view(&mut self, id: u64, members: &[(u32, u64)]) {
        let members = members
            .iter()
            .map(|&(node, incarnation)| Member { node: NodeId::from(node), incarnation });
        let view = Arc::new(View::new(ViewId(id), members));
        self.call(|node, cx| node.handle_view(cx, &view));
    }

    /// Moves on to the earliest timer and fires it. Panics if none is armed.
    fn fire(&mut self) -> Timer {
        let place = (0..self.outbox.timers.len()).min_by_key(|&i| self.outbox.timers[i].0);
        let (at, timer) = self.outbox.timers.remove(place.expect("a timer is armed"));
        self.now = self.now.max(at);
        self.call(|node, cx| node.handle_timer(cx, timer));
        timer
    }

    /// Fires all timers that are due until this much time has passed.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.outbox.timers.iter().any(|&(at, _)| at <= until) {
            self.fire();
        }
        self.now = until;
    }

    /// Messages sent since the last call, one line each; those to groups first.
    fn sent(&mut self) -> Vec<String> {
        let groups = self.outbox.group_sends.drain(..);
        let to_groups = groups.map(|(group, message)| format!("{group}: {message}"));
        let mut sent: Vec<String> = to_groups.collect();
        for send in self.outbox.sends.drain(..) {
            assert_eq!(send.lane, Lane::Datagram, "{}", send.message);
            sent.push(format!("{}: {}", send.to, send.message));
        }
        sent
    }

    /// The messages that were sent to single nodes since the last time.
    fn messages(&mut self) -> Vec<(NodeId, Message)> {
        self.outbox.sends.drain(..).map(|send| (send.to, send.message)).collect()
    }

    /// Events since the last call, one line each.
    fn told(&mut self) -> Vec<String> {
        let line = |event: Event| match event {
            Event::Delivered {
                group,
                sender,
                incarnation,
                seq,
                packets,
                payload,
                how,
                is_late,
            } => {
                let of_own = packet(group, sender.index() as u32, seq);
                assert_eq!(incarnation, of_own.incarnation);
                let name = match packets {
                    1 => {
                        assert_eq!(payload, of_own.payload);
                        format!("{group}/{sender}.{seq}")
                    }
                    _ => format!("{group}/{sender}.{seq}..{}", seq + u64::from(packets)),
                };
                let how = match how {
                    How::Direct => "direct".to_string(),
                    How::Recovered { after } => format!("recovered after {after:?}"),
                    How::Pulled { after } => format!("pulled after {after:?}"),
                };
                let late = if is_late { ", late" } else { "" };
                format!("{name} {how}{late}")
            }
            Event::Lost { group, sender, first, end, came: 0, .. } => {
                format!("{group}/{sender}.{first}..{end} lost")
            }
            Event::Lost { group, sender, first, end, came, .. } => {
                format!("{group}/{sender}.{first}..{end} lost, {came} came")
            }
            Event::Overrun { packets } => format!("overrun {packets}"),
            Event::Tuned { rate, is_within_reach, .. } => {
                format!("tuned to ({},{}), within reach: {is_within_reach}", rate.r, rate.c)
            }
            Event::Slow { group, member, bytes_per_second } => {
                format!("{member} of {group} is slow: {bytes_per_second}")
            }
            Event::Sent { ticket, seq } => format!("sent {ticket} as {seq}"),
            Event::Rejected { ticket, reason } => format!("rejected {ticket}: {reason}"),
        };
        self.outbox.events.drain(..).map(line).collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.outbox.counters.count(name)
    }
}

/// The packet that node `from` sends under this number: its length and bytes follow from both.
fn packet(group: GroupId, from: u32, seq: u64) -> Data {
    let bytes = 3 + (from as usize * 7).wrapping_add((seq as usize).wrapping_mul(5)) % 40;
    let payload = Payload::from(vec![(from as u8) << 4 ^ seq as u8 ^ group.0 as u8; bytes]);
    packet_with(group, from, seq, payload)
}

fn packet_with(group: GroupId, from: u32, seq: u64, payload: Payload) -> Data {
    let incarnation = 100 + u64::from(from);
    let checksum = checksum(group, incarnation, seq, &payload);
    Data { group, incarnation, seq, framing: Framing::Whole, checksum, payload }
}

/// The repair that a member of view 0 makes of these packets.
fn repair_of(packets: &[Data], seed: u32) -> Message {
    let (mut names, mut sum) = (NamesBuilder::default(), Sum::default());
    for (packet, coefficient) in packets.iter().zip(Coefficients::new(seed)) {
        names.push(name_of(packet));
        sum.add_times(&packet.payload, coefficient);
    }
    Message::Repair(Repair::new(ViewId(0), seed, Ages::default(), names.build(), sum.take_coded()))
}

fn name_of(packet: &Data) -> Name {
    let Data { group, incarnation, seq, checksum, .. } = *packet;
    Name { group, rank: (incarnation - 100) as u16, seq: seq as u32, checksum }
}

fn heartbeat(from: u32, next: u64) -> Message {
    Message::Heartbeat(Heartbeat { group: G, incarnation: 100 + u64::from(from), next })
}
