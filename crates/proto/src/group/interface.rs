//! The commands and the events of a member, for its application and its driver.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::message::{EXPECT_MAX, Refusal};
use crate::chain::{self, RejectReason, Topology, Urgency};
use crate::core::{Member, MembershipCommand, NodeId, Payload, View, ViewId};

/// Number of hosts that it takes to create a group: 2 to 64 ([`EXPECT_MAX`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expect(u32);

impl Expect {
    /// `None` if the number is out of range.
    pub fn new(hosts: u32) -> Option<Expect> {
        (2..=EXPECT_MAX as u32).contains(&hosts).then_some(Expect(hosts))
    }

    /// The number of hosts.
    pub fn hosts(self) -> u32 {
        self.0
    }
}

/// Become a member, and create the group with other hosts that do the same if there is none. In
/// place of [`MembershipCommand::Bootstrap`] and [`MembershipCommand::Join`].
///
/// The hosts create one group only, whatever messages are lost and whichever hosts stop, if
/// `expect` is more than half of the hosts that this is said to before they are in a group. A host
/// that starts again counts as another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// This node's address; empty in the simulator.
    pub address: Bytes,
    /// Other hosts, as in [`MembershipCommand::Join`]. Each tells the others which ones it knows.
    pub peers: Vec<NodeId>,
    /// Number of hosts that it takes, this one included; the same at all of them.
    pub expect: Expect,
}

/// A command of the application to its member.
#[derive(Clone, Debug)]
pub enum Command {
    /// Enter the group, or leave it once what was sent is with the others.
    Membership(MembershipCommand),
    /// Enter the group, or create it with others.
    Gather(Gather),
    /// Send this to every member, this one included.
    Broadcast {
        /// The message.
        payload: Payload,
        /// The topology to use; `None` for the configured one.
        topology: Option<Topology>,
        /// What the planner, if it chooses the topology, optimises for.
        urgency: Urgency,
        /// Echoed in [`Event::Stable`] and [`Event::Rejected`]; 0 if the application does not want
        /// to hear of the former.
        ticket: u64,
    },
    /// Send this to one other member.
    SendTo {
        /// The member, as a view named it: no other incarnation of its node receives the message.
        to: Member,
        /// The message.
        payload: Payload,
        /// Echoed in [`Event::Received`] and [`Event::Undelivered`]; 0 if the application does not
        /// want to hear of the former.
        ticket: u64,
    },
    /// Send this to one member, which may be this one, and wait for its answer.
    Request {
        /// The member, as a view named it.
        to: Member,
        /// The request.
        payload: Payload,
        /// After this time the request ends without an answer.
        within: Duration,
        /// The request's number, echoed in the events about it and named in the answer. Not that of
        /// a request that has not ended, or that has timed out or was cancelled and is not settled.
        ticket: u64,
    },
    /// The application no longer waits for the answer to this request: no event but
    /// [`Event::RequestSettled`] follows. The callee may handle it all the same.
    CancelRequest {
        /// The request.
        ticket: u64,
    },
    /// Answer a request of a member.
    Answer {
        /// The member.
        to: Member,
        /// The request's number in [`Event::Request`].
        id: u64,
        /// The answer.
        answer: Answer,
        /// Of a reply, as in [`Command::SendTo`].
        ticket: u64,
    },
    /// The application is done with all messages of this origin up to the one that ended at `end`.
    Consumed {
        /// The view in which they were delivered.
        view: ViewId,
        /// The origin.
        origin: NodeId,
        /// The `end` of the last message consumed.
        end: u64,
    },
    /// The application is done with all messages that this member sent to it alone, requests and
    /// replies among them, up to the one that ended at `end`.
    ConsumedDirect {
        /// The member.
        from: Member,
        /// The `end` of the last message consumed.
        end: u64,
    },
}

impl Command {
    /// A broadcast the configured way.
    pub fn broadcast(payload: impl Into<Payload>) -> Command {
        let payload = payload.into();
        Command::Broadcast { payload, topology: None, urgency: Urgency::Throughput, ticket: 0 }
    }
}

impl From<Gather> for Command {
    fn from(command: Gather) -> Command {
        Command::Gather(command)
    }
}

impl From<MembershipCommand> for Command {
    fn from(command: MembershipCommand) -> Command {
        Command::Membership(command)
    }
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The reply.
    Reply(Payload),
    /// There will be no reply.
    Refusal,
}

impl Answer {
    /// Bytes of the reply.
    pub(super) fn len(&self) -> usize {
        match self {
            Answer::Reply(payload) => payload.len(),
            Answer::Refusal => 0,
        }
    }
}

/// An event of a member for its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message: once, whole, in the order in which its origin sent, and in the view it was sent
    /// in.
    Delivered {
        /// The view.
        view: ViewId,
        /// The member that sent it.
        origin: NodeId,
        /// The origin's incarnation.
        incarnation: u64,
        /// Its number among the messages of its origin in this view: 0, 1, 2, ...
        seq: u64,
        /// What [`Command::Consumed`] wants: blocks below this are consumed once the message is.
        end: u64,
        /// The message.
        payload: Payload,
    },
    /// A message to this member alone: once, whole, in the order in which the other sent to it, and
    /// in the view it was sent in.
    Direct {
        /// The view.
        view: ViewId,
        /// The member that sent it.
        from: Member,
        /// The number after its last block: what [`Command::ConsumedDirect`] wants.
        end: u64,
        /// The message.
        payload: Payload,
    },
    /// A request of a member, which may be this one: once, whole, in the order of that member's
    /// other messages to this one alone. [`Command::Answer`] answers it.
    Request {
        /// The view it was sent in.
        view: ViewId,
        /// The member.
        from: Member,
        /// Its number among that member's requests.
        id: u64,
        /// As in [`Event::Direct`]; 0 for a request of this member to itself.
        end: u64,
        /// The request.
        payload: Payload,
    },
    /// A request of this member has ended with a reply.
    Replied {
        /// The request's.
        ticket: u64,
        /// The member that replied.
        from: Member,
        /// As in [`Event::Direct`]; 0 for a reply of this member to itself.
        end: u64,
        /// The reply.
        payload: Payload,
    },
    /// A request of this member has ended without a reply.
    RequestFailed {
        /// The request's.
        ticket: u64,
        /// Why.
        failure: RequestFailure,
    },
    /// The callee has answered a request that had timed out or was cancelled, or is gone: the
    /// request no longer counts against the bounds.
    RequestSettled {
        /// The request's.
        ticket: u64,
    },
    /// A view was installed, with this node in it. What is delivered from now on was sent in it.
    View(Arc<View>),
    /// Too few members are reachable to decide anything: nothing is accepted until that changes.
    LostPrimary,
    /// Enough members are reachable again, and the view is the same.
    RegainedPrimary,
    /// This member cannot send, because these members have not consumed its messages for
    /// `lag_after`: their applications are slow or have stopped. Sent once for each such time.
    Lagging {
        /// The members that lag.
        members: Vec<NodeId>,
    },
    /// The other members continue without this node, which joins again under another incarnation.
    /// Its messages that were not delivered here are lost.
    Excluded,
    /// The node has left.
    Left,
    /// A member says that this node may not join. It goes on asking.
    JoinRefused {
        /// Why.
        refusal: Refusal,
    },
    /// A message of this member is with every member of the view.
    Stable {
        /// The broadcast's.
        ticket: u64,
    },
    /// The addressee has delivered the message to its application.
    Received {
        /// The message's.
        ticket: u64,
    },
    /// A message to one member was not delivered, or it is not known whether it was.
    Undelivered {
        /// The message's.
        ticket: u64,
        /// Why.
        failure: SendFailure,
    },
    /// A broadcast was not accepted; nothing was sent.
    Rejected {
        /// The broadcast's.
        ticket: u64,
        /// Why.
        reason: RejectReason,
    },
}

impl Event {
    /// What peers take up with it, by no credit of this member's and unasked.
    pub(crate) fn bytes(&self) -> usize {
        let more = match self {
            Event::View(view) => {
                size_of::<View>() + view.len() * (size_of::<Member>() + size_of::<(NodeId, u32)>())
            }
            Event::Lagging { members } => size_of_val(members.as_slice()),
            Event::LostPrimary
            | Event::RegainedPrimary
            | Event::Excluded
            | Event::JoinRefused { .. } => 0,
            Event::Delivered { .. }
            | Event::Direct { .. }
            | Event::Request { .. }
            | Event::Replied { .. }
            | Event::RequestFailed { .. }
            | Event::RequestSettled { .. }
            | Event::Left
            | Event::Stable { .. }
            | Event::Received { .. }
            | Event::Undelivered { .. }
            | Event::Rejected { .. } => return 0,
        };
        size_of::<Event>() + more
    }
}

/// Why the driver wakes a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Something of the broadcast.
    Chain(chain::Timer),
    /// The detector, or something to repeat.
    Group,
}

/// The role of a node in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// None: it was not asked to found or join a group, or it has left.
    Outside,
    /// It asks to join.
    Joining,
    /// It is in the view.
    Member,
    /// It is in the view and wants to leave.
    Leaving,
}

/// Why a message to one member was not delivered, as far as its sender knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    /// It is larger than the broadcast's `message_bytes_max`. Nothing was sent.
    #[error("message of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// This node is not a member of the group. Nothing was sent.
    #[error("this node is not a member of the group")]
    NotAMember,
    /// Too few members are reachable. Nothing was sent.
    #[error("too few members are reachable: the group may continue without this node")]
    LostPrimary,
    /// The addressee is not another member of the view, in this incarnation. Nothing was sent.
    #[error("the receiver is not another member of the current view")]
    NotInView,
    /// As much waits for the addressee as may. Nothing was sent.
    #[error("the send queue of the receiver is full")]
    Full,
    /// The addressee waits for no answer to the request. Nothing was sent.
    #[error("the receiver waits for no answer to this request")]
    Unasked,
    /// The addressee crashed, left or was excluded before it acknowledged; whether it was told is
    /// not known.
    #[error("the receiver left before it acknowledged the message")]
    Departed,
    /// This node left or was excluded before the addressee acknowledged; whether that was told is
    /// not known.
    #[error("this node left before the receiver acknowledged the message")]
    Parted,
}

/// Why a request ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFailure {
    /// It was not sent.
    #[error(transparent)]
    NotSent(#[from] SendFailure),
    /// A request with the same ticket has not been settled. Nothing was sent.
    #[error("a request with this number is pending")]
    TicketInUse,
    /// The callee has answered that there will be no reply; it may have handled the request.
    #[error("the member refused the request")]
    Refused,
    /// The callee has not answered in time. It may have handled the request, or may still do so.
    #[error("the member did not reply in time")]
    TimedOut,
    /// The callee crashed, left or was excluded: a view without it is installed. Whether it has
    /// handled the request is not known.
    #[error("the member left before it replied")]
    Departed,
    /// This node left or was excluded. Whether the callee has handled the request is not known.
    #[error("this node left before the member replied")]
    Parted,
}
