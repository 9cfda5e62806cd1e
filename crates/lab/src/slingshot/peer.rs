//! What the service must know of a protocol: all that its applications say and are told.

use std::ops::Range;

use paceline_proto::core::{GroupId, NodeId, Payload, Protocol, Wire};
use paceline_proto::slingshot::{Command, Config, Event, How, Message, Slingshot};

use super::Settings;

/// A protocol that multicasts packets to one group of all nodes.
pub trait Timely: Protocol<Message: Wire> + Sized {
    /// The counter of repairs that were sent, where packets are not seen.
    const REPAIRS_SENT: &'static str;

    /// What all members share, as a scenario says.
    fn shared(settings: &Settings) -> Self::Shared;

    /// A member before it starts.
    fn member(shared: &Self::Shared) -> Self;

    /// The command that sends a packet to all others.
    fn multicast(payload: Payload) -> Self::Command;

    /// What an event says.
    fn told(event: &Self::Event) -> Told<'_>;

    /// What a message is.
    fn kind(message: &Self::Message) -> Kind;
}

/// What an application is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// A packet.
    Packet {
        /// Who sent it.
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
        /// Who sent them.
        sender: NodeId,
        /// Their numbers among those of the sender.
        numbers: Range<u64>,
    },
    /// A packet of its own was not sent, for this reason.
    Rejected(String),
    /// Nothing that is measured.
    Other,
}

/// How a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From its sender.
    Direct,
    /// Computed from repairs.
    Recovered,
    /// From a member that was asked.
    Pulled,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet from its sender, with its number.
    Data(u64),
    /// A repair that was not asked for.
    Repair,
    /// A question, an answer, news.
    Other,
}

impl Timely for Slingshot {
    const REPAIRS_SENT: &'static str = "slingshot_repairs";

    fn shared(settings: &Settings) -> Config {
        settings.config.clone()
    }

    fn member(shared: &Config) -> Slingshot {
        Slingshot::new(shared)
    }

    fn multicast(payload: Payload) -> Command {
        Command::Multicast { group: GroupId(0), payload, ticket: 0 }
    }

    fn told(event: &Event) -> Told<'_> {
        match event {
            Event::Delivered { sender, payload, how, is_late, .. } => Told::Packet {
                sender: *sender,
                payload,
                way: match how {
                    How::Direct => Way::Direct,
                    How::Recovered { .. } => Way::Recovered,
                    How::Pulled { .. } => Way::Pulled,
                },
                is_late: *is_late,
            },
            Event::Lost { sender, first, end, .. } => {
                Told::Lost { sender: *sender, numbers: *first..*end }
            }
            Event::Rejected { reason, .. } => Told::Rejected(reason.to_string()),
            Event::Overrun { .. } | Event::Sent { .. } | Event::Tuned { .. } => Told::Other,
        }
    }

    fn kind(message: &Message) -> Kind {
        match message {
            Message::Data(data) => Kind::Data(data.seq),
            Message::Repair(_) => Kind::Repair,
            Message::Ask { .. } | Message::Heartbeat { .. } | Message::Supply(_) => Kind::Other,
        }
    }
}
