//! Messages to one member: the backlog for each, and their outcomes.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Mutex;

use bytes::Bytes;
use paceline_net::Pending;
use paceline_proto::core::Member;
use paceline_proto::group::{Command, Direct, SendFailure};
use thiserror::Error;
use tokio::sync::{Notify, oneshot};

use super::{BroadcastError, Group};
use crate::lock;

/// Why a message to one member was not accepted or not delivered. [`SendFailure`] says who is at
/// fault, and whether nothing was sent or the message may have been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// It was not sent, or its delivery is unknown: the failure says which.
    #[error(transparent)]
    Failed(#[from] SendFailure),
    /// The member or its host has stopped. A message that was accepted may have been delivered.
    #[error("the service or its host has stopped")]
    Closed,
}

/// Why a message to one member was not accepted at once; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// Too many bytes wait for this member already; returns the message.
    #[error("the send queue of the member is full")]
    WouldBlock(Bytes),
    /// It cannot be accepted later either.
    #[error(transparent)]
    Refused(#[from] SendError),
}

impl From<BroadcastError> for SendError {
    fn from(error: BroadcastError) -> SendError {
        SendError::Failed(match error {
            BroadcastError::TooLarge { bytes, bytes_max } => {
                SendFailure::TooLarge { bytes, bytes_max }
            }
            BroadcastError::LostPrimary => SendFailure::LostPrimary,
            BroadcastError::NotAMember => SendFailure::NotAMember,
            BroadcastError::Closed => return SendError::Closed,
        })
    }
}

/// A message or a reply to one member that was accepted; made by [`Group::send_to`] and
/// [`Request::reply`](crate::Request::reply). It may be dropped: a
/// failure is also an [`Event::Undelivered`](crate::Event::Undelivered).
#[derive(Debug)]
pub struct Sent {
    ticket: u64,
    outcome: oneshot::Receiver<Result<(), SendError>>,
}

impl Sent {
    /// The number of the message in events.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Waits until the member has delivered it to its application. This node's application must
    /// read its [`Events`](crate::Events) meanwhile.
    ///
    /// # Errors
    /// If one of the two stopped being a member before that was known, or the host has stopped.
    pub async fn delivered(self) -> Result<(), SendError> {
        self.outcome.await.unwrap_or(Err(SendError::Closed))
    }
}

impl Group {
    /// Sends a message to one other member, in the incarnation that a view named, as soon as there
    /// is room. Once this returns it is accepted: it is delivered once, in the order in which this
    /// member sends to that one, unless one of the two leaves, crashes or is excluded before. Then
    /// [`Event::Undelivered`](crate::Event::Undelivered) says so.
    ///
    /// The application must read the [`Events`](crate::Events) meanwhile: they signal when there is
    /// room.
    ///
    /// # Errors
    /// If the message is too large, the addressee is not another member of the view, this node is
    /// no member, too few members are reachable, or the host has stopped.
    pub async fn send_to(
        &self,
        member: Member,
        payload: impl Into<Bytes>,
    ) -> Result<Sent, SendError> {
        let mut payload = payload.into();
        loop {
            let mut has_room = pin!(self.sending().room.notified());
            has_room.as_mut().enable();
            payload = match self.try_send_to(member, payload) {
                Ok(sent) => return Ok(sent),
                Err(TrySendError::Refused(error)) => return Err(error),
                Err(TrySendError::WouldBlock(payload)) => payload,
            };
            has_room.await;
        }
    }

    /// Sends a message to one other member if there is room now.
    ///
    /// # Errors
    /// [`TrySendError::WouldBlock`] gives it back if too much waits for this member.
    pub fn try_send_to(
        &self,
        member: Member,
        payload: impl Into<Bytes>,
    ) -> Result<Sent, TrySendError> {
        let payload = payload.into();
        self.checked_len(&payload).map_err(SendError::from)?;
        let is_other = member.node != self.id();
        if !is_other || !self.view().is_some_and(|view| view.contains(member)) {
            return Err(SendError::from(SendFailure::NotInView).into());
        }
        let Some(sent) = self.sending().open(member, payload.len())? else {
            return Err(TrySendError::WouldBlock(payload));
        };
        let ticket = sent.ticket;
        let command = Command::SendTo { to: member, payload: payload.into(), ticket };
        if self.node().command(command).is_err() {
            self.sending().close();
            return Err(SendError::Closed.into());
        }
        Ok(sent)
    }
}

/// Unanswered messages to single members.
#[derive(Debug)]
pub(crate) struct Sending {
    window_bytes: usize,
    open: Pending<u64, Open>,
    queue: Mutex<Queue>,
    room: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: HashMap<Member, usize>,
    ticket: u64,
}

#[derive(Debug)]
struct Open {
    to: Member,
    bytes: usize,
    reply_to: oneshot::Sender<Result<(), SendError>>,
}

impl Sending {
    pub(crate) fn new(window_bytes: usize) -> Sending {
        let (open, queue) = (Pending::default(), Mutex::default());
        Sending { window_bytes, open, queue, room: Notify::new() }
    }

    /// Counts a message, as the protocol does; `None` if the window is full.
    fn open(&self, to: Member, payload_bytes: usize) -> Result<Option<Sent>, SendError> {
        let mut queue = lock(&self.queue);
        if self.open.is_closed() {
            return Err(SendError::Closed);
        }
        let bytes = payload_bytes + Direct::HEAD_BYTES;
        let queued = queue.bytes.entry(to).or_default();
        if *queued >= self.window_bytes {
            return Ok(None);
        }
        *queued += bytes;
        queue.ticket += 1;
        let ticket = queue.ticket;
        let (reply_to, outcome) = oneshot::channel();
        // A table that is closed meanwhile ends the receiver.
        let _ = self.open.add(ticket, Open { to, bytes, reply_to });
        Ok(Some(Sent { ticket, outcome }))
    }

    /// Counts a message once the window has room.
    pub(crate) async fn open_when_there_is_room(
        &self,
        to: Member,
        payload_bytes: usize,
    ) -> Result<Sent, SendError> {
        loop {
            let mut has_room = pin!(self.room.notified());
            has_room.as_mut().enable();
            if let Some(sent) = self.open(to, payload_bytes)? {
                return Ok(sent);
            }
            has_room.await;
        }
    }

    /// Resolves a message with its outcome; returns its addressee.
    pub(crate) fn resolve(&self, ticket: u64, outcome: Result<(), SendError>) -> Option<Member> {
        let Open { to, bytes, reply_to } = self.open.remove(&ticket)?;
        let mut queue = lock(&self.queue);
        if let Some(queued) = queue.bytes.get_mut(&to) {
            *queued -= bytes;
            if *queued == 0 {
                queue.bytes.remove(&to);
            }
        }
        drop(queue);
        // The receiver may have stopped waiting.
        let _ = reply_to.send(outcome);
        self.room.notify_waiters();
        Some(to)
    }

    /// Ends all open messages: no further outcomes come.
    pub(crate) fn close(&self) {
        self.open.close();
        self.room.notify_waiters();
    }
}
