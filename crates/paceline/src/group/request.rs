//! Requests to one member, and the replies.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use paceline_net::{Node, Pending};
use paceline_proto::core::Member;
use paceline_proto::group::{self, Answer, Command, Config, RequestFailure, SendFailure};
use thiserror::Error;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{BroadcastError, Group, Outcomes, SendError, Sent};
use crate::lock;

/// How long a request may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Why there is no reply to a request. With [`RequestFailure::NotSent`] nothing was sent; with any
/// other failure the member may have handled it, or may still do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It was not sent, or ended without a reply: the failure says which.
    #[error(transparent)]
    Failed(#[from] RequestFailure),
    /// The member or its host has stopped. The request may have been handled.
    #[error("the service or its host has stopped")]
    Closed,
}

impl From<SendFailure> for RequestError {
    fn from(failure: SendFailure) -> RequestError {
        RequestError::Failed(failure.into())
    }
}

impl From<BroadcastError> for RequestError {
    fn from(error: BroadcastError) -> RequestError {
        match SendError::from(error) {
            SendError::Failed(failure) => failure.into(),
            SendError::Closed => RequestError::Closed,
        }
    }
}

/// A request of a member to this one. [`Request::reply`] answers it. If it is dropped without a
/// reply, the caller hears at once that there will be none ([`RequestFailure::Refused`]). Until
/// then it counts against the bounds of the caller, and keeps this member running as a handle does.
pub struct Request {
    from: Member,
    id: u64,
    payload: Bytes,
    node: Node<group::Group>,
    outcomes: Arc<Outcomes>,
    is_answered: bool,
}

impl Request {
    pub(super) fn new(
        (from, id): (Member, u64),
        payload: Bytes,
        node: Node<group::Group>,
        outcomes: Arc<Outcomes>,
    ) -> Request {
        Request { from, id, payload, node, outcomes, is_answered: false }
    }

    /// The member that made it.
    pub fn from(&self) -> Member {
        self.from
    }

    /// The request.
    pub fn bytes(&self) -> &Bytes {
        &self.payload
    }

    /// Replies, as soon as there is room: replies share the window of
    /// [`Group::send_to`](crate::Group::send_to), and its order. Once this returns the reply is
    /// accepted; it reaches the caller unless one of the two leaves, crashes or is excluded before,
    /// and the caller reads it if it still waits. The application must read the
    /// [`Events`](crate::Events) meanwhile.
    ///
    /// # Errors
    /// If the reply is too large, in which case the request is refused, or the host has stopped.
    pub async fn reply(mut self, payload: impl Into<Bytes>) -> Result<Sent, SendError> {
        let payload = payload.into();
        let (bytes, bytes_max) = (payload.len(), self.outcomes.message_bytes_max);
        if bytes > bytes_max {
            return Err(SendFailure::TooLarge { bytes, bytes_max }.into());
        }
        let sending = &self.outcomes.sending;
        let sent = sending.open_when_there_is_room(self.from, bytes).await?;
        self.is_answered = true;
        if self.answer(Answer::Reply(payload.into()), sent.ticket()).is_err() {
            self.outcomes.sending.close();
            return Err(SendError::Closed);
        }
        Ok(sent)
    }

    fn answer(&self, answer: Answer, ticket: u64) -> Result<(), paceline_net::Closed> {
        self.node.command(Command::Answer { to: self.from, id: self.id, answer, ticket })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.is_answered {
            // After a stop a view without this member ends the request at its caller.
            let _ = self.answer(Answer::Refusal, 0);
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { from, id, payload, .. } = self;
        write!(f, "Request {{ from: {from:?}, id: {id}, {} B }}", payload.len())
    }
}

/// Equal if they are the same request.
impl PartialEq for Request {
    fn eq(&self, other: &Request) -> bool {
        (self.from, self.id) == (other.from, other.id)
    }
}

impl Eq for Request {}

/// A request that is sent when it is awaited; made by [`Group::request`].
#[must_use = "a request is sent when it is awaited"]
pub struct PreparedRequest {
    group: Group,
    to: Member,
    payload: Bytes,
    within: Duration,
}

impl PreparedRequest {
    /// How long it may take, the wait for room included. Default 10 s.
    pub fn within(self, time: Duration) -> PreparedRequest {
        PreparedRequest { within: time, ..self }
    }
}

impl IntoFuture for PreparedRequest {
    type Output = Result<Bytes, RequestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.group.ask(self.to, self.payload, self.within).await })
    }
}

impl Group {
    /// Sends a request to one member, in the incarnation that a view named, and waits for its
    /// reply. The member receives it as [`Event::Request`](crate::Event::Request), at most once,
    /// and in the order in which this member sends to that one alone. The member may be this one.
    ///
    /// While the member has not answered
    /// [`requests_max`](crate::ViewsConfig::with_requests_max) requests of this member, or as many
    /// bytes of them as allowed, the request waits. The application must read the
    /// [`Events`](crate::Events) meanwhile: they bring the reply. If the future is dropped the
    /// request ends here; the member may handle it all the same.
    ///
    /// ```no_run
    /// # async fn example(group: paceline::Group) -> Result<(), paceline::RequestError> {
    /// # use std::time::Duration;
    /// let oldest = group.view().expect("in a view").members()[0];
    /// let reply = group.request(oldest, "your load?").within(Duration::from_secs(2)).await?;
    /// # drop(reply); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When it is awaited. If it cannot be sent
    /// ([`RequestFailure::NotSent`]); if the member refuses, leaves or does not answer in time; if
    /// this node leaves or is excluded; if the host has stopped.
    pub fn request(&self, to: Member, payload: impl Into<Bytes>) -> PreparedRequest {
        PreparedRequest { group: self.clone(), to, payload: payload.into(), within: WITHIN }
    }

    pub(super) async fn ask(
        &self,
        to: Member,
        payload: Bytes,
        within: Duration,
    ) -> Result<Bytes, RequestError> {
        // Of a time without end there is no deadline.
        let deadline = Instant::now().checked_add(within);
        let requesting = &self.outcomes.requesting;
        let (ticket, outcome) = loop {
            let mut has_room = pin!(requesting.room.notified());
            has_room.as_mut().enable();
            let bytes = self.checked_len(&payload)?;
            if !self.view().is_some_and(|view| view.contains(to)) {
                return Err(SendFailure::NotInView.into());
            }
            if let Some(opened) = requesting.open(to, bytes)? {
                break opened;
            }
            let is_up = match deadline {
                Some(at) => tokio::time::timeout_at(at, has_room).await.is_err(),
                None => {
                    has_room.await;
                    false
                }
            };
            if is_up {
                return Err(RequestFailure::TimedOut.into());
            }
        };
        let mut waiting = Waiting { group: self, ticket, is_over: false };
        let within = deadline.map_or(Duration::MAX, |at| at - Instant::now());
        let command = Command::Request { to, payload: payload.into(), within, ticket };
        if self.node().command(command).is_err() {
            requesting.close();
        }
        let outcome = outcome.await;
        waiting.is_over = true;
        outcome.unwrap_or(Err(RequestError::Closed))
    }
}

/// A request whose caller waits: it is cancelled if the caller stops.
struct Waiting<'a> {
    group: &'a Group,
    ticket: u64,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // After a stop nothing waits.
            let _ = self.group.node().command(Command::CancelRequest { ticket: self.ticket });
        }
    }
}

/// The requests that count against the bounds, as the protocol counts them.
#[derive(Debug)]
pub(crate) struct Requesting {
    requests_max: usize,
    bytes_max: usize,
    open: Pending<u64, Open>,
    loads: Mutex<Loads>,
    room: Notify,
}

#[derive(Debug, Default)]
struct Loads {
    // Requests and bytes, by callee.
    by_member: HashMap<Member, (usize, usize)>,
    ticket: u64,
}

#[derive(Debug)]
struct Open {
    to: Member,
    bytes: usize,
    // `None` once the caller has its outcome.
    reply_to: Option<oneshot::Sender<Result<Bytes, RequestError>>>,
}

/// The ticket of a request, and the receiver of its outcome.
type Opened = (u64, oneshot::Receiver<Result<Bytes, RequestError>>);

impl Requesting {
    pub(super) fn new(config: &Config) -> Requesting {
        Requesting {
            requests_max: config.requests_max(),
            bytes_max: config.requests_bytes_max(),
            open: Pending::default(),
            loads: Mutex::default(),
            room: Notify::new(),
        }
    }

    /// Counts a request; `None` if there is no room.
    fn open(&self, to: Member, bytes: usize) -> Result<Option<Opened>, RequestError> {
        let mut loads = lock(&self.loads);
        if self.open.is_closed() {
            return Err(RequestError::Closed);
        }
        let (requests, held) = loads.by_member.get(&to).copied().unwrap_or_default();
        let fits = held == 0 || held + bytes <= self.bytes_max;
        if requests >= self.requests_max || !fits {
            return Ok(None);
        }
        loads.by_member.insert(to, (requests + 1, held + bytes));
        loads.ticket += 1;
        let ticket = loads.ticket;
        let (reply_to, outcome) = oneshot::channel();
        // A table that is closed meanwhile ends the receiver.
        let _ = self.open.add(ticket, Open { to, bytes, reply_to: Some(reply_to) });
        Ok(Some((ticket, outcome)))
    }

    /// A request has ended; one that timed out counts until it is settled.
    pub(super) fn resolve(&self, ticket: u64, outcome: Result<Bytes, RequestFailure>) {
        let is_settled = outcome != Err(RequestFailure::TimedOut);
        let reply_to = self.open.with(&ticket, |open| open.reply_to.take()).flatten();
        if let Some(reply_to) = reply_to {
            // The caller may have stopped waiting.
            let _ = reply_to.send(outcome.map_err(RequestError::from));
        }
        if is_settled {
            self.settle(ticket);
        }
    }

    /// A request no longer counts.
    pub(super) fn settle(&self, ticket: u64) {
        let Some(Open { to, bytes, .. }) = self.open.remove(&ticket) else { return };
        let mut loads = lock(&self.loads);
        if let Some((requests, held)) = loads.by_member.get_mut(&to) {
            (*requests, *held) = (*requests - 1, *held - bytes);
            if *requests == 0 {
                loads.by_member.remove(&to);
            }
        }
        drop(loads);
        self.room.notify_waiters();
    }

    /// Ends all requests: no further outcomes come.
    pub(super) fn close(&self) {
        self.open.close();
        self.room.notify_waiters();
    }
}
