use std::sync::Arc;

use bytes::Bytes;
use paceline_net::Node;
use paceline_proto::core::{GroupId, NodeId, View};
use paceline_proto::group::{self, Refusal};
use paceline_proto::multicast::{self, Command, Multicast as Protocol};
use paceline_proto::slingshot::{self, How, Rate, RejectReason};

use crate::reader::{Reader, Report, TryRecvError};

/// Packets and other events that are read before room for more of them is made.
const CONSUMED_TOGETHER: usize = 64;

/// A message that reached this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The group that it was sent to.
    pub group: GroupId,
    /// Who sent it.
    pub sender: NodeId,
    /// The sender's incarnation: another number after each start.
    pub incarnation: u64,
    /// The number of its first packet among the packets of its sender to the group: 0, 1, 2, ...
    pub seq: u64,
    /// How many packets it has: 1 unless it is longer than
    /// [`Multicast::packet_bytes_max`](super::Multicast::packet_bytes_max).
    pub packets: u32,
    /// What was sent.
    pub payload: Bytes,
    /// Whether it came from its sender, by repairs, or from another member on request; of several
    /// packets the least direct way of any of them.
    pub how: How,
    /// True if that took longer than the deadline, from the first sign of any of its packets.
    pub is_late: bool,
}

/// What the group reports to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message: at most once, as it was sent, as soon as it is whole or in its sender's order.
    Packet(Packet),
    /// Packets that are lost for good: those of one message of which some came, or those of any
    /// number of messages of which none came.
    Lost {
        /// The group that they were sent to.
        group: GroupId,
        /// Who sent them.
        sender: NodeId,
        /// The sender's incarnation.
        incarnation: u64,
        /// The number of the first.
        first: u64,
        /// The number after the last.
        end: u64,
        /// How many of them came: above 0 only for one message of several packets.
        came: u32,
    },
    /// The application read events too slowly: these packets were neither delivered nor reported
    /// lost.
    Overrun {
        /// How many.
        packets: u64,
    },
    /// Conditions have changed, and a new rate of fire was chosen for them.
    Tuned {
        /// The rate of fire from now on.
        rate: Rate,
        /// True if the target can be expected to be met; else the rate is the best there is.
        is_within_reach: bool,
        /// Of a million lost packets, how many are expected to be repaired in time.
        expected_ppm: u32,
        /// Of a million packets, how many did not come from their sender.
        loss_ppm: u32,
        /// Packets of all senders in a second.
        packets_per_second: u32,
    },
    /// A receiver wants a lower rate than `rate_min`: this node, a sender with
    /// `rate_control = "tfmcc"`, does not follow it until it wants more. It is sent what the others
    /// are sent, and reports what it loses.
    Slow {
        /// The group.
        group: GroupId,
        /// The receiver.
        member: NodeId,
        /// The rate that it wants.
        bytes_per_second: u32,
    },
    /// A view was installed: these are the members from now on.
    View(Arc<View>),
    /// Too few members are reachable to agree on another view. Packets go on within this one.
    LostPrimary,
    /// Enough members are reachable again, and the view is the same.
    RegainedPrimary,
    /// The others continued without this node. It rejoins under another incarnation; a view follows
    /// when it has.
    Excluded,
    /// The node has left.
    Left,
    /// A member says that this node may not join at present. It goes on asking.
    JoinRefused(Refusal),
    /// A packet or a change was refused after all.
    Rejected(RejectReason),
}

/// The receiving side of a member: packets, losses, and the views between.
///
/// A slow reader loses packets, and [`Event::Overrun`] says how many: senders do not wait for a
/// reader, since a late packet is of no use.
pub struct Events {
    reader: Reader<MulticastReport>,
}

impl Events {
    pub(super) fn new(reader: Reader<MulticastReport>) -> Events {
        Events { reader }
    }

    /// The next event; `None` once the service has ended and all were received.
    pub async fn recv(&mut self) -> Option<Event> {
        self.reader.recv().await
    }

    /// The next event if there is one now.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if no event waits; [`TryRecvError::Closed`] if the service has
    /// ended and the application has received all its events.
    pub fn try_recv(&mut self) -> Result<Event, TryRecvError> {
        self.reader.try_recv()
    }

    /// The next packet, other events passed over; `None` once the host has stopped.
    pub async fn packet(&mut self) -> Option<Packet> {
        loop {
            if let Event::Packet(packet) = self.recv().await? {
                return Some(packet);
            }
        }
    }
}

/// What a member reads, and what it has yet to acknowledge of it.
pub(super) struct MulticastReport {
    node: Node<Protocol>,
    /// Read, and not reported to the protocol yet.
    consumed: usize,
}

impl MulticastReport {
    pub(super) fn new(node: Node<Protocol>) -> MulticastReport {
        MulticastReport { node, consumed: 0 }
    }

    fn slingshot_event(&mut self, event: slingshot::Event) -> Option<Event> {
        use slingshot::Event as E;
        let consumed = match event {
            E::Delivered { packets, .. } => packets as usize,
            E::Lost { .. } | E::Overrun { .. } => 1,
            E::Tuned { .. } | E::Slow { .. } | E::Sent { .. } | E::Rejected { .. } => 0,
        };
        if consumed > 0 {
            self.consumed += consumed;
            if self.consumed >= CONSUMED_TOGETHER {
                self.acknowledge();
            }
        }
        Some(match event {
            E::Delivered { group, sender, incarnation, seq, packets, payload, how, is_late } => {
                let payload = payload.to_bytes();
                Event::Packet(Packet {
                    group,
                    sender,
                    incarnation,
                    seq,
                    packets,
                    payload,
                    how,
                    is_late,
                })
            }
            E::Lost { group, sender, incarnation, first, end, came } => {
                Event::Lost { group, sender, incarnation, first, end, came }
            }
            E::Overrun { packets } => Event::Overrun { packets },
            E::Tuned { rate, is_within_reach, expected_ppm, loss_ppm, packets_per_second } => {
                Event::Tuned { rate, is_within_reach, expected_ppm, loss_ppm, packets_per_second }
            }
            E::Slow { group, member, bytes_per_second } => {
                Event::Slow { group, member, bytes_per_second }
            }
            E::Rejected { reason, .. } => Event::Rejected(reason),
            E::Sent { .. } => return None,
        })
    }

    fn group_event(event: group::Event) -> Option<Event> {
        use group::Event as E;
        Some(match event {
            E::View(view) => Event::View(view),
            E::LostPrimary => Event::LostPrimary,
            E::RegainedPrimary => Event::RegainedPrimary,
            E::Excluded => Event::Excluded,
            E::Left => Event::Left,
            E::JoinRefused { refusal } => Event::JoinRefused(refusal),
            // Of the broadcast, in which nothing is sent here.
            E::Delivered { .. }
            | E::Direct { .. }
            | E::Request { .. }
            | E::Replied { .. }
            | E::RequestFailed { .. }
            | E::RequestSettled { .. }
            | E::Lagging { .. }
            | E::Stable { .. }
            | E::Received { .. }
            | E::Undelivered { .. }
            | E::Rejected { .. } => return None,
        })
    }
}

impl Report for MulticastReport {
    type Protocol = Protocol;
    type Event = Event;

    fn of_group(event: &multicast::Event) -> Option<&group::Event> {
        match event {
            multicast::Event::Group(event) => Some(event),
            multicast::Event::Slingshot(_) => None,
        }
    }

    fn report(&mut self, event: multicast::Event) -> Option<Event> {
        match event {
            multicast::Event::Slingshot(event) => self.slingshot_event(event),
            multicast::Event::Group(event) => MulticastReport::group_event(event),
        }
    }

    fn acknowledge(&mut self) {
        if self.consumed > 0 {
            let events = std::mem::take(&mut self.consumed);
            // After a stop no sender needs the room.
            let consumed = slingshot::Command::Consumed { events };
            let _ = self.node.command(Command::Slingshot(consumed));
        }
    }
}
