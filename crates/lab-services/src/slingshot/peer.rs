//! The service's view of a protocol: the commands and events of its applications.

use std::fmt::{Debug, Display};
use std::ops::Range;

use paceline_baselines::{ack, gossip, nak, srm};
use paceline_net::Hosted;
use paceline_proto::core::{Counters, GroupId, NodeId, Payload, Protocol, Wire};
use paceline_proto::slingshot::flow::Way;
use paceline_proto::slingshot::{self, Command, Event, Slingshot};

/// A protocol that multicasts packets to one group of all nodes, and takes commands as Slingshot
/// does.
pub trait Timely:
    Hosted + Protocol<Message: Wire + Display, Timer: Debug, Command = Command> + Sized
{
    /// A member before it starts.
    fn member(shared: &Self::Shared) -> Self;

    /// What an event says.
    fn packet_event(event: &Self::Event) -> PacketEvent<'_>;

    /// What a message is.
    fn kind(message: &Self::Message) -> Kind;

    /// How many repairs all members sent, as they count, where packets are not seen. A repair to a
    /// group of `nodes` nodes counts as one to each other node.
    fn repairs_sent(shared: &Self::Shared, counters: &Counters, nodes: u32) -> u64;
}

/// The command that sends a packet to all others of a group.
pub fn multicast(group: GroupId, payload: Payload) -> Command {
    Command::Multicast { group, payload, ticket: 0 }
}

/// What an event of Slingshot's says; those it is compared with have the same.
pub fn packet_event(event: &Event) -> PacketEvent<'_> {
    match event {
        Event::Delivered { sender, payload, how, is_late, .. } => {
            PacketEvent::Packet { sender: *sender, payload, way: how.way(), is_late: *is_late }
        }
        Event::Lost { group, sender, first, end, .. } => {
            PacketEvent::Lost { group: *group, sender: *sender, seqs: *first..*end }
        }
        Event::Rejected { reason, .. } => PacketEvent::Rejected(reason.to_string()),
        Event::Overrun { .. } | Event::Sent { .. } | Event::Tuned { .. } | Event::Slow { .. } => {
            PacketEvent::Other
        }
    }
}

/// An event that an application gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketEvent<'a> {
    /// A packet.
    Packet {
        /// Its sender.
        sender: NodeId,
        /// What is in it.
        payload: &'a Payload,
        /// How it came.
        way: Way,
        /// True if the protocol says that it is past its deadline.
        is_late: bool,
    },
    /// Packets of this sender will not come.
    Lost {
        /// The group that they were sent to.
        group: GroupId,
        /// Their sender.
        sender: NodeId,
        /// Their numbers among those of the sender to the group.
        seqs: Range<u64>,
    },
    /// A packet came from its sender that had come by another way before.
    Overtaken {
        /// The group that it was sent to.
        group: GroupId,
        /// Its sender.
        sender: NodeId,
        /// Its number among those of the sender to the group.
        seq: u64,
    },
    /// A packet of its own was not sent, for this reason.
    Rejected(String),
    /// Nothing that is measured.
    Other,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet from its sender, with its group and its number there.
    Data(GroupId, u64),
    /// What brings lost packets back: of Slingshot what it sends unasked.
    Repair,
    /// A question, news, an answer of Slingshot's second phase.
    Other,
}

impl Timely for Slingshot {
    fn member(shared: &slingshot::Config) -> Slingshot {
        Slingshot::new(shared)
    }

    fn packet_event(event: &Event) -> PacketEvent<'_> {
        packet_event(event)
    }

    fn kind(message: &slingshot::Message) -> Kind {
        use slingshot::Message;
        match message {
            Message::Data(data) => Kind::Data(data.group, data.seq),
            Message::Repair(_) => Kind::Repair,
            Message::Ask { .. }
            | Message::Heartbeat(_)
            | Message::Supply(_)
            | Message::Pulse(_)
            | Message::Report(_) => Kind::Other,
        }
    }

    fn repairs_sent(_: &slingshot::Config, counters: &Counters, _: u32) -> u64 {
        counters.count("slingshot_repairs")
    }
}

impl Timely for srm::Srm {
    fn member(shared: &srm::Config) -> srm::Srm {
        srm::Srm::new(shared)
    }

    fn packet_event(event: &Event) -> PacketEvent<'_> {
        packet_event(event)
    }

    fn kind(message: &srm::Message) -> Kind {
        use srm::Message;
        match message {
            Message::Data(data) => Kind::Data(data.group, data.seq),
            Message::Repair { .. } => Kind::Repair,
            Message::Request { .. } | Message::Session(_) => Kind::Other,
        }
    }

    fn repairs_sent(_: &srm::Config, counters: &Counters, nodes: u32) -> u64 {
        counters.count("srm_repairs") * u64::from(nodes - 1)
    }
}

impl Timely for nak::Nak {
    fn member(shared: &nak::Config) -> nak::Nak {
        nak::Nak::new(shared)
    }

    fn packet_event(event: &Event) -> PacketEvent<'_> {
        packet_event(event)
    }

    fn kind(message: &nak::Message) -> Kind {
        use nak::Message;
        match message {
            Message::Data(data) | Message::Digest { data, .. } => Kind::Data(data.group, data.seq),
            Message::Supply(_) => Kind::Repair,
            Message::Ask { .. } | Message::Heartbeat(_) => Kind::Other,
        }
    }

    fn repairs_sent(shared: &nak::Config, counters: &Counters, nodes: u32) -> u64 {
        let copies = match shared.answer() {
            nak::Answer::Unicast => 1,
            nak::Answer::Group { .. } => u64::from(nodes - 1),
        };
        counters.count("nak_supplied") * copies
    }
}

impl Timely for ack::Ack {
    fn member(shared: &ack::Config) -> ack::Ack {
        ack::Ack::new(shared)
    }

    fn packet_event(event: &Event) -> PacketEvent<'_> {
        packet_event(event)
    }

    fn kind(message: &ack::Message) -> Kind {
        use ack::Message;
        match message {
            Message::Data(data) => Kind::Data(data.group, data.seq),
            Message::Again(_) => Kind::Repair,
            Message::Ack { .. } => Kind::Other,
        }
    }

    fn repairs_sent(_: &ack::Config, counters: &Counters, _: u32) -> u64 {
        counters.count("ack_resent")
    }
}

impl Timely for gossip::Gossip {
    fn member(shared: &gossip::Config) -> gossip::Gossip {
        gossip::Gossip::new(shared)
    }

    fn packet_event(event: &Event) -> PacketEvent<'_> {
        packet_event(event)
    }

    fn kind(message: &gossip::Message) -> Kind {
        use gossip::Message;
        match message {
            Message::Data(data) => Kind::Data(data.group, data.seq),
            Message::Retransmission(_) => Kind::Repair,
            Message::Digest { .. } | Message::Solicit { .. } => Kind::Other,
        }
    }

    fn repairs_sent(_: &gossip::Config, counters: &Counters, _: u32) -> u64 {
        counters.count("gossip_retransmitted")
    }
}
