//! The commands of an application to its member, and the events that it gets.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::Rate;
use super::held::Way;
use crate::core::{GroupId, NodeId, Payload};

/// What the application asks of its member.
#[derive(Clone, Debug)]
pub enum Command {
    /// Send this message to every other member of the group.
    Multicast {
        /// The group.
        group: GroupId,
        /// The message, at most
        /// [`Config::message_bytes_limit`](super::Config::message_bytes_limit). One longer than
        /// [`Config::payload_bytes_max`](super::Config::payload_bytes_max) takes several packets.
        payload: Payload,
        /// Echoed in [`Event::Sent`] and [`Event::Rejected`]; 0 if the application wants no
        /// [`Event::Sent`].
        ticket: u64,
    },
    /// Set the members of a group; those in the view take part. This node joins the group if it is
    /// one of them, and leaves it otherwise. An empty list removes the group.
    Members {
        /// The group.
        group: GroupId,
        /// Its members, in any order. Every member must be given the same list.
        members: Arc<[NodeId]>,
    },
    /// Repairs are made at this rate of fire from now on.
    SetRate(Rate),
    /// The application has consumed more deliveries and loss reports.
    Consumed {
        /// How many. A message counts as often as it has packets ([`Event::Delivered`]).
        events: usize,
    },
}

impl Command {
    /// A message to group 0, without an [`Event::Sent`].
    pub fn multicast(payload: impl Into<Payload>) -> Command {
        Command::Multicast { group: GroupId(0), payload: payload.into(), ticket: 0 }
    }
}

/// What a member tells its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message: at most once, whole, and as it was sent.
    Delivered {
        /// The group that it was sent to.
        group: GroupId,
        /// Who sent it.
        sender: NodeId,
        /// The sender's incarnation.
        incarnation: u64,
        /// The number of its first packet among the packets of its sender to the group.
        seq: u64,
        /// How many packets it has; their numbers follow each other.
        packets: u32,
        /// What was sent.
        payload: Payload,
        /// How it came; of several packets the least direct way of any of them.
        how: How,
        /// True if that took longer than the deadline.
        is_late: bool,
    },
    /// Packets that will no longer be delivered: those of one message of which some came, or those
    /// of any number of messages of which none came.
    Lost {
        /// The group that they were sent to.
        group: GroupId,
        /// Who sent them.
        sender: NodeId,
        /// The sender's incarnation; 0 if it is not known, since nothing has come from it yet.
        incarnation: u64,
        /// The number of the first.
        first: u64,
        /// The number after the last.
        end: u64,
        /// How many of them came: above 0 only for one message of several packets.
        came: u32,
    },
    /// The application did not keep up: packets were neither delivered nor reported lost.
    Overrun {
        /// How many.
        packets: u64,
    },
    /// The conditions have changed, and a new rate of fire was chosen for them.
    Tuned {
        /// The rate of fire from now on. It may change again as results come in.
        rate: Rate,
        /// True if the target can be expected to be met; else the rate is the best there is.
        is_within_reach: bool,
        /// The share of lost packets expected in time, in parts per million.
        expected_ppm: u32,
        /// The share of packets that did not come from their sender, in parts per million.
        loss_ppm: u32,
        /// Packets of all senders in a second.
        packets_per_second: u32,
    },
    /// A receiver wants a lower rate than `rate_min`: this member, a sender with
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
    /// A message of this member is on its way: its first packet has left.
    Sent {
        /// The command's.
        ticket: u64,
        /// The number of that packet among those of this member to the group.
        seq: u64,
    },
    /// A command was not carried out.
    Rejected {
        /// The command's; 0 if it has none.
        ticket: u64,
        /// Why.
        reason: RejectReason,
    },
}

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// From its sender.
    Direct,
    /// Computed from repairs; of several packets at least one.
    Recovered {
        /// Time from when it should have come, as far as repairs say; else from the first sign. Of
        /// several packets: from the first sign of any of them here.
        after: Duration,
    },
    /// From a member that was asked; of several packets at least one.
    Pulled {
        /// Time from when it should have come, as far as repairs say; else from the first sign. Of
        /// several packets: from the first sign of any of them here.
        after: Duration,
    },
}

impl How {
    pub(super) fn new(way: Way, after: Duration) -> How {
        match way {
            Way::Direct => How::Direct,
            Way::Recovered => How::Recovered { after },
            Way::Pulled => How::Pulled { after },
        }
    }

    /// The way alone.
    pub fn way(self) -> Way {
        match self {
            How::Direct => Way::Direct,
            How::Recovered { .. } => Way::Recovered,
            How::Pulled { .. } => Way::Pulled,
        }
    }
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RejectReason {
    /// The message is longer than one may be.
    #[error("message of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Messages of several packets, and those behind them, leave no room in the queue.
    #[error("{queued_bytes} bytes wait to be sent, at most {bytes_max} may")]
    QueueFull {
        /// What waits.
        queued_bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// There is no such group.
    #[error("{0} is not known")]
    UnknownGroup(GroupId),
    /// This node is not in the group, or not in the view.
    #[error("this node is not a member of {0}")]
    NotAMember(GroupId),
    /// There are too many groups.
    #[error("there are {groups_max} groups already")]
    TooManyGroups {
        /// The limit.
        groups_max: usize,
    },
    /// A second group, where the configuration leaves no room in repairs for several.
    #[error("members were configured to be in one group only")]
    NoOverlap,
    /// A repair would name more packets than was configured.
    #[error("a repair of {r} packets, at most {r_max} are allowed")]
    RateTooLarge {
        /// The rejected rate.
        r: usize,
        /// The limit.
        r_max: usize,
    },
}

/// Why the driver wakes a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A bin has waited long enough.
    Flush,
    /// A missing packet is due to be requested or given up.
    Gap,
    /// The heartbeat of a silent sender is due.
    Heartbeat,
    /// The measurements are due for evaluation.
    Steer,
    /// The next packet that is paced may leave.
    Pace,
    /// A message of several packets has been incomplete for too long.
    Close,
    /// A report to a sender is due.
    Report,
}
