//! Groups: members that agree on who they are, and broadcast to each other.

mod events;
mod request;
mod request_all;
mod send;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use paceline_net::{Closed, Pending, TrySubmitError};
use paceline_proto::chain::{self, RejectReason, Topology, Urgency};
use paceline_proto::detector;
use paceline_proto::group::{self, Command, Config};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::builder::{Expects, Joins, ServiceBuilder};
use crate::join_error::JoinError;
use crate::joining::{Beginning, Joining};
use crate::member::{MemberHandle, Role};
use events::GroupReport;

pub use events::{Delivery, DirectDelivery, Event, Events};
use request::Requesting;
pub use request::{PreparedRequest, Request, RequestError};
pub use request_all::{MemberOutcome, PreparedRequestAll, Replies, RequestAllError};
use send::Sending;
pub use send::{SendError, Sent, TrySendError};

/// Why a message was not accepted; nothing was sent. With `TooLarge` the caller is at fault, else
/// this host: it is cut off from too many others, no member at present, or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BroadcastError {
    /// It is larger than the group allows.
    #[error("message of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The group's limit.
        bytes_max: usize,
    },
    /// Too few members are reachable to decide anything.
    #[error("too few members are reachable: the group may continue without this node")]
    LostPrimary,
    /// The node is not a member at present: it was excluded and rejoins, or it has left.
    #[error("this node is not a member of the group")]
    NotAMember,
    /// The member or its host has stopped.
    #[error("the service or its host has stopped")]
    Closed,
}

/// Why a message was not accepted at once; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryBroadcastError {
    /// Too many bytes wait already; returns the message.
    #[error("the send queue is full")]
    WouldBlock(Bytes),
    /// It cannot be accepted later either.
    #[error(transparent)]
    Refused(#[from] BroadcastError),
}

/// Configures a group and enters it; made by [`Host::group`](crate::Host::group).
pub type GroupBuilder = ServiceBuilder<GroupSettings>;

/// What is configured of a group alone.
#[derive(Debug)]
pub struct GroupSettings {
    config: Config,
}

impl Default for GroupSettings {
    fn default() -> GroupSettings {
        GroupSettings { config: Config::new(chain::Config::for_groups(), detector::Config::new()) }
    }
}

impl GroupBuilder {
    /// Changes the configuration of the broadcast. All members need the same.
    pub fn with_broadcast(
        mut self,
        change: impl FnOnce(chain::Config) -> chain::Config,
    ) -> GroupBuilder {
        self.settings.config = self.settings.config.with_broadcast(change);
        self
    }

    /// Changes the configuration of the agreement on views.
    pub fn with_views(mut self, change: impl FnOnce(Config) -> Config) -> GroupBuilder {
        self.settings.config = change(self.settings.config);
        self
    }
}

impl Joins for GroupSettings {
    type Joined = (Group, Events);

    async fn begin(
        self,
        joining: Joining,
        beginning: Beginning,
    ) -> Result<(Group, Events), JoinError> {
        let config = self.config.build()?;
        let outcomes = Arc::new(Outcomes::new(&config));
        let report = |node| GroupReport::new(node, outcomes.clone());
        let protocol = group::Group::new(&config);
        let (member, reader) = joining.enter("group", beginning, protocol, config, report).await?;
        let (topology, urgency) = (None, Urgency::Throughput);
        let group = Group { member, outcomes, topology, urgency };
        Ok((group, Events::new(reader)))
    }
}

impl Expects for GroupSettings {
    fn members_max(&self) -> usize {
        self.config.members_max()
    }
}

/// The messages whose outcomes the application may wait for.
#[derive(Debug)]
pub(crate) struct Outcomes {
    tickets: AtomicU64,
    receipts: Pending<u64, oneshot::Sender<Result<(), BroadcastError>>>,
    pub(crate) sending: Sending,
    pub(crate) requesting: Requesting,
    message_bytes_max: usize,
}

impl Outcomes {
    fn new(config: &Config) -> Outcomes {
        Outcomes {
            tickets: AtomicU64::default(),
            receipts: Pending::default(),
            sending: Sending::new(config.direct_window_bytes()),
            requesting: Requesting::new(config),
            message_bytes_max: config.chain().message_bytes_max(),
        }
    }

    /// Keeps a receipt until the outcome of the message is known.
    fn receipt(&self) -> (u64, Receipt) {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        (ticket, Receipt { outcome: self.receipts.expect(ticket) })
    }

    pub(crate) fn resolve(&self, ticket: u64, outcome: Result<(), BroadcastError>) {
        self.receipts.answer(&ticket, outcome);
    }

    /// Ends all receipts: a node that is no member does not learn the outcomes.
    pub(crate) fn end_receipts(&self) {
        self.receipts.take_all();
    }
}

/// The outcome of an accepted message; made by [`Group::broadcast_with_receipt`].
#[derive(Debug)]
pub struct Receipt {
    outcome: oneshot::Receiver<Result<(), BroadcastError>>,
}

impl Receipt {
    /// Waits until the message is with every member of the view. The application must read the
    /// [`Events`] meanwhile.
    ///
    /// # Errors
    /// If it was not accepted after all, or this node is no longer a member and cannot learn the
    /// outcome.
    pub async fn stable(self) -> Result<(), BroadcastError> {
        self.outcome.await.unwrap_or(Err(BroadcastError::NotAMember))
    }
}

impl From<Closed> for BroadcastError {
    fn from(Closed: Closed) -> BroadcastError {
        BroadcastError::Closed
    }
}

impl From<RejectReason> for BroadcastError {
    fn from(reason: RejectReason) -> BroadcastError {
        match reason {
            RejectReason::TooLarge { bytes, bytes_max } => {
                BroadcastError::TooLarge { bytes, bytes_max }
            }
            RejectReason::NotAMember => BroadcastError::NotAMember,
            RejectReason::LostPrimary => BroadcastError::LostPrimary,
        }
    }
}

/// A member's handle: its sending side. Clones send as the same member; when the last one and the
/// [`Events`] are dropped the member ends without leaving.
#[derive(Clone)]
pub struct Group {
    member: MemberHandle<group::Group>,
    outcomes: Arc<Outcomes>,
    topology: Option<Topology>,
    urgency: Urgency,
}

impl Deref for Group {
    type Target = MemberHandle<group::Group>;

    fn deref(&self) -> &MemberHandle<group::Group> {
        &self.member
    }
}

impl Group {
    /// The same group, sending with this topology whatever is configured.
    pub fn with_topology(&self, topology: Topology) -> Group {
        Group { topology: Some(topology), ..self.clone() }
    }

    /// The same group; where the planner chooses, it optimises for this urgency.
    pub fn with_urgency(&self, urgency: Urgency) -> Group {
        Group { urgency, ..self.clone() }
    }

    /// Sends a message to every member, this one included, as soon as it is admitted. Once this
    /// returns the message is accepted: it reaches every member that stays one, as long as this
    /// node does. During a network split an accepted message may come back as [`Event::Rejected`].
    ///
    /// # Errors
    /// If the message is too large, the node is not a member, too few members are reachable, or
    /// the host has stopped.
    pub async fn broadcast(&self, payload: impl Into<Bytes>) -> Result<(), BroadcastError> {
        let payload = payload.into();
        let bytes = self.checked_len(&payload)?;
        Ok(self.node().submit(self.message(payload, 0), bytes).await?)
    }

    /// Like [`Group::broadcast`]; the receipt resolves once every member has the message.
    ///
    /// # Errors
    /// As [`Group::broadcast`].
    pub async fn broadcast_with_receipt(
        &self,
        payload: impl Into<Bytes>,
    ) -> Result<Receipt, BroadcastError> {
        let payload = payload.into();
        let bytes = self.checked_len(&payload)?;
        let (ticket, receipt) = self.outcomes.receipt();
        self.node().submit(self.message(payload, ticket), bytes).await?;
        Ok(receipt)
    }

    /// Sends a message if it is admitted now.
    ///
    /// # Errors
    /// [`TryBroadcastError::WouldBlock`] gives it back if too much waits.
    pub fn try_broadcast(&self, payload: impl Into<Bytes>) -> Result<(), TryBroadcastError> {
        let payload = payload.into();
        let bytes = self.checked_len(&payload)?;
        match self.node().try_submit(self.message(payload.clone(), 0), bytes) {
            Ok(()) => Ok(()),
            Err(TrySubmitError::WouldBlock(_)) => Err(TryBroadcastError::WouldBlock(payload)),
            Err(TrySubmitError::Closed(_)) => Err(BroadcastError::Closed.into()),
        }
    }

    pub(crate) fn sending(&self) -> &Sending {
        &self.outcomes.sending
    }

    pub(crate) fn checked_len(&self, payload: &Bytes) -> Result<usize, BroadcastError> {
        match self.member.standing().role() {
            Role::Member => {}
            Role::WithoutPrimary => return Err(BroadcastError::LostPrimary),
            Role::Outside => return Err(BroadcastError::NotAMember),
        }
        let (bytes, bytes_max) = (payload.len(), self.outcomes.message_bytes_max);
        if bytes > bytes_max {
            return Err(BroadcastError::TooLarge { bytes, bytes_max });
        }
        Ok(bytes)
    }

    fn message(&self, payload: Bytes, ticket: u64) -> Command {
        let (topology, urgency) = (self.topology, self.urgency);
        Command::Broadcast { payload: payload.into(), topology, urgency, ticket }
    }
}
