//! Groups: members that agree on who they are, and broadcast to each other.

mod events;
mod send;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use paceline_net::{Hosted, Node, Roster, StartError, Stats, TrySubmitError};
use paceline_proto::chain::{self, RejectReason, Topology, Urgency};
use paceline_proto::core::{ConfigError, MembershipCommand, NodeId, View};
use paceline_proto::detector;
use paceline_proto::group::{self, Command, Config, Refusal};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::Host;

pub use events::{Delivery, DirectDelivery, Event, Events};
use send::Sending;
pub use send::{SendError, Sent, TrySendError};

/// Why a node did not become a member.
#[derive(Debug, Error)]
pub enum JoinError {
    /// A knob is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The node could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No seed was given.
    #[error("no seed: name a member, or found the group with `bootstrap`")]
    NoSeed,
    /// A seed is no address, or its name is not known.
    #[error("seed `{seed}` cannot be resolved: {source}; expected HOST:PORT")]
    Unresolved {
        /// The seed.
        seed: String,
        /// Why.
        source: io::Error,
    },
    /// No member answered in time.
    #[error(
        "no member of the group answered at {seeds} within {within:?}: is one running there, with \
         the same cluster and group name?"
    )]
    Unanswered {
        /// The seeds.
        seeds: String,
        /// How long was waited.
        within: Duration,
    },
    /// A member refused.
    #[error("refused: {refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// A member knows a later start of this id.
    #[error(
        "a later start of this id is known: the clock of this machine was set back, or is behind \
         that of the machine where the id was used; mend the clock or use another id"
    )]
    ClockBehind,
    /// The host has stopped.
    #[error("the host has stopped")]
    Closed,
}

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
    #[error("too few members are reachable: the group may go on elsewhere, without this node")]
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
    #[error("as much waits as is admitted")]
    WouldBlock(Bytes),
    /// It cannot be accepted later either.
    #[error(transparent)]
    Refused(#[from] BroadcastError),
}

/// Founds or joins a group; made by [`Host::group`].
pub struct GroupBuilder {
    host: Host,
    name: String,
    config: Config,
    within: Duration,
}

impl GroupBuilder {
    pub(crate) fn new(host: Host, name: &str) -> GroupBuilder {
        GroupBuilder {
            host,
            name: name.to_owned(),
            config: Config::new(chain::Config::for_groups(), detector::Config::new()),
            within: Duration::from_secs(10),
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

    /// Changes the configuration of the failure detector.
    pub fn with_detector(
        mut self,
        change: impl FnOnce(detector::Config) -> detector::Config,
    ) -> GroupBuilder {
        self.config = self.config.with_detector(change);
        self
    }

    /// Changes the configuration of the agreement on views.
    pub fn with_views(mut self, change: impl FnOnce(Config) -> Config) -> GroupBuilder {
        self.config = change(self.config);
        self
    }

    /// How long joining may take. Default 10 s.
    pub fn within(mut self, time: Duration) -> GroupBuilder {
        self.within = time;
        self
    }

    /// Creates the group: this node is its first member. Use only for the very first member, or
    /// after every member was lost: a second group that is created never merges with the first.
    ///
    /// # Errors
    /// If a knob is out of range, or there is no tokio runtime.
    pub async fn bootstrap(self) -> Result<(Group, Events), JoinError> {
        let (within, address) = (self.within, self.address());
        let (group, events) = self.start()?;
        group.command(MembershipCommand::Bootstrap { address }.into())?;
        group.first_view(events, within, "this node").await
    }

    /// Joins by asking these members (`host:port`; a name stands for all its addresses). Returns
    /// once the node is in a view.
    ///
    /// # Errors
    /// If a seed cannot be resolved, none answers in time, or the node is refused.
    pub async fn join(
        self,
        seeds: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(Group, Events), JoinError> {
        let names: Vec<String> = seeds.into_iter().map(|seed| seed.as_ref().to_owned()).collect();
        let seeds = resolve(&names).await?;
        let (within, address) = (self.within, self.address());
        let (group, events) = self.start()?;
        group.command(MembershipCommand::Join { address, seeds: Vec::new() }.into())?;
        group.node.seek(seeds).map_err(|_| JoinError::Closed)?;
        group.first_view(events, within, &names.join(", ")).await
    }

    fn address(&self) -> Bytes {
        Bytes::from(self.host.address.to_string())
    }

    fn start(self) -> Result<(Group, Events), JoinError> {
        let config = self.config.build()?;
        let Host { bound, id, cluster, address } = self.host;
        let bound = bound.in_cluster(&format!("{cluster}/{}", self.name));
        let roster = Roster::new([(id, address)]).expect("one member is not named twice");
        let message_bytes_max = config.chain().message_bytes_max();
        let status = Arc::new(Status::new(config.direct_window_bytes()));
        let protocol = group::Group::new(&config);
        let (node, events) = bound.start(roster, protocol, Arc::new(config))?;
        let events = Events::new(node.clone(), events, status.clone());
        let group = Group {
            node,
            id,
            status,
            message_bytes_max,
            topology: None,
            urgency: Urgency::Throughput,
        };
        Ok((group, events))
    }
}

/// Resolves the names of seeds, each once.
pub(crate) async fn resolve(names: &[String]) -> Result<Vec<SocketAddr>, JoinError> {
    if names.is_empty() {
        return Err(JoinError::NoSeed);
    }
    let mut seeds = Vec::new();
    for name in names {
        let unresolved = |source| JoinError::Unresolved { seed: name.clone(), source };
        let found = tokio::net::lookup_host(name.as_str()).await.map_err(unresolved)?;
        seeds.extend(found);
    }
    Ok(seeds)
}

/// What a joining node learns from an event.
pub(crate) enum News {
    View(Arc<View>),
    Refused(Refusal),
    Other,
}

/// The events of such a node.
pub(crate) trait Joining: Send {
    /// The next; `None` once the host has stopped.
    fn news(&mut self) -> impl Future<Output = Option<News>> + Send;
}

/// Waits until the node is in a view; one that is not in time is stopped.
pub(crate) async fn first_view<P: Hosted>(
    node: &Node<P>,
    events: &mut impl Joining,
    within: Duration,
    seeds: &str,
) -> Result<Arc<View>, JoinError> {
    let mut refusal = None;
    let begun = async {
        loop {
            match events.news().await {
                Some(News::View(view)) => return Some(view),
                Some(News::Refused(why)) => refusal = Some(why),
                Some(News::Other) => {}
                None => return None,
            }
        }
    };
    match tokio::time::timeout(within, begun).await {
        Ok(view) => view.ok_or(JoinError::Closed),
        Err(_) => {
            let counters = node.stats().counters;
            if counters.count("peer_id_taken") > 0 {
                refusal = Some(Refusal::IdInUse);
            }
            node.stop().await;
            Err(match refusal {
                None if counters.count("peer_later_start_known") > 0 => JoinError::ClockBehind,
                Some(refusal) => JoinError::Refused { refusal },
                None => JoinError::Unanswered { seeds: seeds.to_owned(), within },
            })
        }
    }
}

/// The state after the latest event.
#[derive(Debug)]
pub(crate) struct Status {
    state: Mutex<State>,
    tickets: AtomicU64,
    pub(crate) sending: Sending,
}

#[derive(Debug, Default)]
struct State {
    view: Option<Arc<View>>,
    refuses: Option<BroadcastError>,
    receipts: HashMap<u64, oneshot::Sender<Result<(), BroadcastError>>>,
}

impl Status {
    fn new(direct_window_bytes: usize) -> Status {
        let sending = Sending::new(direct_window_bytes);
        Status { state: Mutex::default(), tickets: AtomicU64::default(), sending }
    }

    pub(crate) fn note_view(&self, view: &Arc<View>) {
        let mut state = self.lock();
        (state.view, state.refuses) = (Some(view.clone()), None);
    }

    pub(crate) fn note(&self, refuses: Option<BroadcastError>) {
        let mut state = self.lock();
        state.refuses = refuses;
        if refuses == Some(BroadcastError::NotAMember) {
            // This node cannot learn their outcomes.
            state.receipts.clear();
        }
    }

    /// Keeps a receipt until the outcome of the message is known.
    fn receipt(&self) -> (u64, Receipt) {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        let (told, outcome) = oneshot::channel();
        self.lock().receipts.insert(ticket, told);
        (ticket, Receipt { outcome })
    }

    pub(crate) fn resolve(&self, ticket: u64, outcome: Result<(), BroadcastError>) {
        if let Some(told) = self.lock().receipts.remove(&ticket) {
            // The receiver may have stopped waiting.
            let _ = told.send(outcome);
        }
    }

    // A panic while the lock is held leaves the state intact.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    node: Node<group::Group>,
    id: NodeId,
    status: Arc<Status>,
    message_bytes_max: usize,
    topology: Option<Topology>,
    urgency: Urgency,
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
        let submitted = self.node.submit(self.message(payload, 0), bytes).await;
        submitted.map_err(|_| BroadcastError::Closed)
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
        let (ticket, receipt) = self.status.receipt();
        let submitted = self.node.submit(self.message(payload, ticket), bytes).await;
        submitted.map(|()| receipt).map_err(|_| BroadcastError::Closed)
    }

    /// Sends a message if it is admitted now.
    ///
    /// # Errors
    /// [`TryBroadcastError::WouldBlock`] gives it back if too much waits.
    pub fn try_broadcast(&self, payload: impl Into<Bytes>) -> Result<(), TryBroadcastError> {
        let payload = payload.into();
        let bytes = self.checked_len(&payload)?;
        match self.node.try_submit(self.message(payload.clone(), 0), bytes) {
            Ok(()) => Ok(()),
            Err(TrySubmitError::WouldBlock(_)) => Err(TryBroadcastError::WouldBlock(payload)),
            Err(TrySubmitError::Closed(_)) => Err(BroadcastError::Closed.into()),
        }
    }

    /// This member's id.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Where the member listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.node.local_addr()
    }

    /// The latest view that the events reported.
    pub fn view(&self) -> Option<Arc<View>> {
        self.status.lock().view.clone()
    }

    /// The members of that view, oldest first.
    pub fn members(&self) -> Vec<NodeId> {
        self.view().map_or(Vec::new(), |view| view.members().iter().map(|m| m.node).collect())
    }

    /// Leaves the group, after accepted messages have reached the others. [`Event::Left`] follows.
    ///
    /// # Errors
    /// If the host has stopped.
    pub fn leave(&self) -> Result<(), JoinError> {
        self.command(MembershipCommand::Leave.into())
    }

    /// What the node counted.
    pub fn stats(&self) -> Stats {
        self.node.stats()
    }

    /// The node underneath.
    pub fn node(&self) -> &Node<group::Group> {
        &self.node
    }

    /// Sends the backlog, for a bounded time, and stops the host. The others detect a crash, unless
    /// it has left before.
    pub async fn stop(&self) {
        self.node.stop().await;
    }

    fn command(&self, command: Command) -> Result<(), JoinError> {
        self.node.command(command).map_err(|_| JoinError::Closed)
    }

    /// Waits until the node is in a view.
    async fn first_view(
        self,
        mut events: Events,
        within: Duration,
        seeds: &str,
    ) -> Result<(Group, Events), JoinError> {
        let view = first_view(&self.node, &mut events, within, seeds).await?;
        events.put_back(Event::View(view));
        Ok((self, events))
    }

    pub(crate) fn sending(&self) -> &Sending {
        &self.status.sending
    }

    pub(crate) fn checked_len(&self, payload: &Bytes) -> Result<usize, BroadcastError> {
        if let Some(error) = self.status.lock().refuses {
            return Err(error);
        }
        let (bytes, bytes_max) = (payload.len(), self.message_bytes_max);
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
