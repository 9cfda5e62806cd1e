//! Groups: members that agree on who they are, and broadcast to each other.

mod events;
mod request;
mod request_all;
mod send;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use paceline_net::{Closed, Pending, TrySubmitError};
use paceline_proto::chain::{self, RejectReason, Topology, Urgency};
use paceline_proto::detector;
use paceline_proto::group::{self, Command, Config};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::Host;
use crate::join_error::JoinError;
use crate::joining::{Beginning, Joining, expect_of};
use crate::member::{MemberHandle, Role};
use events::GroupReport;

pub use events::{Delivery, DirectDelivery, Event, Events};
use request::Requesting;
pub use request::{PreparedRequest, Request, RequestError};
pub use request_all::{MemberOutcome, PreparedRequestAll, Replies, RequestAllError};
use send::Sending;
pub use send::{SendError, Sent, TrySendError};

/// Why a message was not accepted; nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
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
    /// The host has stopped.
    #[error("the host has stopped")]
    Closed,
}

/// Why a message was not accepted at once; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TryBroadcastError {
    /// Too many bytes wait already; returns the message.
    #[error("the send queue is full")]
    WouldBlock(Bytes),
    /// It cannot be accepted later either.
    #[error(transparent)]
    Refused(#[from] BroadcastError),
}

/// Founds or joins a group; made by [`Host::group`].
pub struct GroupBuilder {
    joining: Joining,
    config: Config,
}

impl GroupBuilder {
    pub(crate) fn new(host: Host, name: &str) -> GroupBuilder {
        GroupBuilder {
            joining: Joining::new(host, name),
            config: Config::new(chain::Config::for_groups(), detector::Config::new()),
        }
    }

    /// Changes the configuration of the broadcast. All members need the same.
    pub fn with_broadcast(
        mut self,
        change: impl FnOnce(chain::Config) -> chain::Config,
    ) -> GroupBuilder {
        self.config = self.config.with_broadcast(change);
        self
    }

    /// Changes the configuration of the agreement on views.
    pub fn with_views(mut self, change: impl FnOnce(Config) -> Config) -> GroupBuilder {
        self.config = change(self.config);
        self
    }

    /// The service's weight on the host's link, 1 to 1,000 or the nearest of these. While several
    /// services of the host have something to send, each gets a share in proportion, as
    /// [`HostBuilder::link_rate`](crate::HostBuilder::link_rate) says. Default 1.
    pub fn weight(mut self, weight: u32) -> GroupBuilder {
        self.joining.weight = weight;
        self
    }

    /// How long joining may take. Default 10 s.
    pub fn within(mut self, time: Duration) -> GroupBuilder {
        self.joining.within = time;
        self
    }

    /// Creates the group: this node is its first member. Use only for the very first member, or
    /// after every member was lost: a second group that is created never merges with the first.
    ///
    /// # Errors
    /// If a knob is out of range, or there is no tokio runtime.
    pub async fn bootstrap(self) -> Result<(Group, Events), JoinError> {
        self.enter(Beginning::Alone).await
    }

    /// Joins by asking members at these addresses, each in a form of
    /// [`PeerSource`](crate::PeerSource). Names and files are asked again until the node is in a
    /// view; then this returns.
    ///
    /// # Errors
    /// If a peer has none of the forms, a host cannot be resolved, none answers in time, or the
    /// node is refused.
    pub async fn join(
        self,
        peers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(Group, Events), JoinError> {
        let peers = self.joining.resolve(peers, JoinError::NoPeer).await?;
        self.enter(Beginning::With(peers)).await
    }

    /// Joins as [`join`](Self::join) does; if there is no group, creates it with the other hosts
    /// that do the same, once `hosts` of them see each other, this one included (2 to 64, at most
    /// `members_max`, the same number at all). The host with the least id creates it. For hosts
    /// that start at the same time, without a designated first one.
    ///
    /// One group is created, whatever messages are lost and whichever hosts pause or crash, if
    /// `hosts` is more than half of all starts before the hosts are members; a host that starts
    /// again before that counts twice. Further hosts join the group. A host that hears of a group
    /// creates none. [`within`](Self::within) counts for all of it.
    ///
    /// # Errors
    /// As [`join`](Self::join); if `hosts` is out of range, or too few hosts see each other in
    /// time.
    pub async fn expect(
        self,
        hosts: u32,
        peers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(Group, Events), JoinError> {
        let expect = expect_of(hosts, self.config.members_max())?;
        let peers = self.joining.resolve(peers, JoinError::NoPeer).await?;
        self.enter(Beginning::Expecting(expect, peers)).await
    }

    async fn enter(self, beginning: Beginning) -> Result<(Group, Events), JoinError> {
        let config = self.config.build()?;
        let outcomes = Arc::new(Outcomes::new(&config));
        let report = |node| GroupReport::new(node, outcomes.clone());
        let protocol = group::Group::new(&config);
        let (member, reader) =
            self.joining.enter("group", beginning, protocol, config, report).await?;
        let (topology, urgency) = (None, Urgency::Throughput);
        let group = Group { member, outcomes, topology, urgency };
        Ok((group, Events::new(reader)))
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
/// [`Events`] are dropped the host stops, without leaving.
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
