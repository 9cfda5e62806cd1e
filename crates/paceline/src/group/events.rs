use std::sync::Arc;

use bytes::Bytes;
use paceline_net::Node;
use paceline_proto::core::{Member, NodeId, View, ViewId};
use paceline_proto::group::{Command, Event as GroupEvent, Group, Refusal, SendFailure};

use super::{BroadcastError, Outcomes, Request};
use crate::reader::{Reader, Report, TryRecvError};

/// Messages that are consumed before their credit goes back together.
const CONSUMED_TOGETHER: usize = 8;

/// A message that reached this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The view in which it was sent and is delivered.
    pub view: ViewId,
    /// Who sent it.
    pub origin: NodeId,
    /// The origin's incarnation: another number after each start.
    pub incarnation: u64,
    /// Its number among the messages of its origin in this view: 0, 1, 2, ...
    pub seq: u64,
    /// The message.
    pub payload: Bytes,
}

impl Delivery {
    /// Who sent it, as [`Group::send_to`](crate::Group::send_to) wants it for an answer.
    pub fn sender(&self) -> Member {
        Member { node: self.origin, incarnation: self.incarnation }
    }
}

/// A message that was sent to this member alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectDelivery {
    /// The view in which it was sent and is delivered.
    pub view: ViewId,
    /// Who sent it.
    pub from: Member,
    /// The message.
    pub payload: Bytes,
}

/// What the group reports to a member, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A message.
    Delivered(Delivery),
    /// A message to this member alone: once, and of each sender in the order in which it sent.
    Direct(DirectDelivery),
    /// A request of a member, which may be this one: once, and in the order of that member's other
    /// messages to this one alone. If it is dropped without a reply it is refused.
    Request(Request),
    /// A view was installed. Members that go from one view to the next together have delivered the
    /// same messages in between.
    View(Arc<View>),
    /// Too few members are reachable to decide anything: nothing is accepted until that changes.
    LostPrimary,
    /// Enough members are reachable again, and the view is the same.
    RegainedPrimary,
    /// This member cannot send, because the applications of these members do not read their events.
    Lagging(Vec<NodeId>),
    /// The others continued without this node. It rejoins under another incarnation; a view follows
    /// when it has. Its own messages that it has not delivered yet are lost.
    Excluded,
    /// The node has left.
    Left,
    /// A member says that this node may not join at present. It goes on asking.
    JoinRefused(Refusal),
    /// A message that had been admitted was not accepted after all; nothing of it was sent.
    Rejected(BroadcastError),
    /// A message or a reply to one member was not delivered, or it is not known whether it was.
    Undelivered {
        /// To whom it was sent.
        to: Member,
        /// The number that [`Sent`](crate::Sent) gave it.
        ticket: u64,
        /// Why.
        failure: SendFailure,
    },
}

/// The receiving side of a member. It delivers each message of every member, this one included,
/// once, in the order of its sender, and the views between.
///
/// A request for the next event acknowledges the last one. A slow reader slows the senders down;
/// nothing is lost. A member that leaves as many views unread as
/// [`HostBuilder::events_bytes_max`](crate::HostBuilder::events_bytes_max) allows receives nothing
/// further and is excluded; once it reads it rejoins.
pub struct Events {
    reader: Reader<GroupReport>,
}

impl Events {
    pub(super) fn new(reader: Reader<GroupReport>) -> Events {
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

    /// The next message, other events passed over, of which requests are refused; `None` once the
    /// host has stopped.
    pub async fn delivery(&mut self) -> Option<Delivery> {
        loop {
            if let Event::Delivered(delivery) = self.recv().await? {
                return Some(delivery);
            }
        }
    }
}

/// What a member reads, and what it has yet to acknowledge of it.
pub(super) struct GroupReport {
    node: Node<Group>,
    outcomes: Arc<Outcomes>,
    // Consumed messages that are not reported to the protocol yet: by view and origin, the end of
    // the consumed range.
    consumed: Vec<((ViewId, NodeId), u64)>,
    // The same of messages to this member alone, by sender.
    consumed_direct: Vec<(Member, u64)>,
    consumed_messages: usize,
}

impl GroupReport {
    pub(super) fn new(node: Node<Group>, outcomes: Arc<Outcomes>) -> GroupReport {
        let (consumed, consumed_direct) = (Vec::new(), Vec::new());
        GroupReport { node, outcomes, consumed, consumed_direct, consumed_messages: 0 }
    }

    fn consume_direct(&mut self, from: Member, end: u64) {
        self.consumed_messages += 1;
        match self.consumed_direct.iter_mut().find(|(known, _)| *known == from) {
            Some((_, through)) => *through = end,
            None => self.consumed_direct.push((from, end)),
        }
    }
}

impl Report for GroupReport {
    type Protocol = Group;
    type Event = Event;

    fn of_group(event: &GroupEvent) -> Option<&GroupEvent> {
        Some(event)
    }

    fn report(&mut self, event: GroupEvent) -> Option<Event> {
        if self.consumed_messages >= CONSUMED_TOGETHER {
            self.acknowledge();
        }
        Some(match event {
            GroupEvent::Delivered { view, origin, incarnation, seq, end, payload } => {
                self.consumed_messages += 1;
                match self.consumed.iter_mut().find(|(known, _)| *known == (view, origin)) {
                    Some((_, through)) => *through = end,
                    None => self.consumed.push(((view, origin), end)),
                }
                let payload = payload.to_bytes();
                Event::Delivered(Delivery { view, origin, incarnation, seq, payload })
            }
            GroupEvent::Direct { view, from, end, payload } => {
                self.consume_direct(from, end);
                Event::Direct(DirectDelivery { view, from, payload: payload.to_bytes() })
            }
            GroupEvent::Request { from, id, end, payload, .. } => {
                self.consume_direct(from, end);
                let (node, outcomes) = (self.node.clone(), self.outcomes.clone());
                Event::Request(Request::new((from, id), payload.to_bytes(), node, outcomes))
            }
            GroupEvent::Replied { ticket, from, end, payload } => {
                self.consume_direct(from, end);
                self.outcomes.requesting.resolve(ticket, Ok(payload.to_bytes()));
                return None;
            }
            GroupEvent::RequestFailed { ticket, failure } => {
                self.outcomes.requesting.resolve(ticket, Err(failure));
                return None;
            }
            GroupEvent::RequestSettled { ticket } => {
                self.outcomes.requesting.settle(ticket);
                return None;
            }
            GroupEvent::Received { ticket } => {
                self.outcomes.sending.resolve(ticket, Ok(()));
                return None;
            }
            GroupEvent::Undelivered { ticket, failure } => {
                let to = self.outcomes.sending.resolve(ticket, Err(failure.into()))?;
                Event::Undelivered { to, ticket, failure }
            }
            GroupEvent::View(view) => Event::View(view),
            GroupEvent::LostPrimary => Event::LostPrimary,
            GroupEvent::RegainedPrimary => Event::RegainedPrimary,
            GroupEvent::Lagging { members } => Event::Lagging(members),
            GroupEvent::Excluded => {
                self.outcomes.end_receipts();
                Event::Excluded
            }
            GroupEvent::Left => {
                self.outcomes.end_receipts();
                Event::Left
            }
            GroupEvent::JoinRefused { refusal } => Event::JoinRefused(refusal),
            GroupEvent::Stable { ticket } => {
                self.outcomes.resolve(ticket, Ok(()));
                return None;
            }
            GroupEvent::Rejected { ticket, reason } => {
                self.outcomes.resolve(ticket, Err(reason.into()));
                Event::Rejected(reason.into())
            }
        })
    }

    fn acknowledge(&mut self) {
        self.consumed_messages = 0;
        for ((view, origin), end) in self.consumed.drain(..) {
            // After a stop no sender needs the credit.
            let _ = self.node.command(Command::Consumed { view, origin, end });
        }
        for (from, end) in self.consumed_direct.drain(..) {
            let _ = self.node.command(Command::ConsumedDirect { from, end });
        }
    }

    fn close(&mut self) {
        self.outcomes.sending.close();
        self.outcomes.requesting.close();
    }
}
