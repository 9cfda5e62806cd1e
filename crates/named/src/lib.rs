//! Named data at a fair rate: files under names, fetched over one path or several.
//!
//! A [`Forwarder`] is a UDP socket with faces (the addresses of its neighbours) and routes (the
//! faces that lead to names with a prefix). It speaks NDN, so other NDN programs can be its
//! neighbours. Each face of known rate stamps the rate of a flow on the Data that passes, and
//! consumers fetch at exactly that rate: [`paceline_proto::mircc`].
//!
//! [`Forwarder::serve`] publishes the files of a folder, [`Forwarder::fetch`] gets one,
//! [`Forwarder::ping`] and [`Forwarder::trace`] examine the paths. Any forwarder does all of these,
//! and forwards Interests and Data of its neighbours.
//!
//! # Names
//! The file `notes/today.txt` of a folder served under `/p` is
//! `/p/notes/today.txt/v=VERSION/seg=NUMBER`. The version is the time of the last change,
//! nanoseconds since 1970. An Interest for `/p/notes/today.txt` that takes longer names is answered
//! with the first segment of the present version; one for `/p/notes/today.txt/32=metadata` with the
//! name of the version, the sizes and the digest of the file. Source: Realtime Data Retrieval, and
//! the metadata of ndn6-file-server.
//!
//! # Trust
//! Data is signed with its digest, which only detects damage, or with an Ed25519 key that the
//! consumer knows. Nothing is encrypted, and the rates and paths that forwarders report are not
//! signed at all. So a forwarder listens on loopback only, unless
//! [`ForwarderBuilder::insecure_plaintext`] says otherwise. Beyond loopback it sends strangers at
//! most three times the bytes received from them, since their addresses may be forged, unless
//! [`ForwarderBuilder::faces_allowed`] names their range.
#![forbid(unsafe_code)]

mod builder;
mod control;
mod error;
pub mod fetch;
mod metadata;
mod pending;
mod probe;
mod register;
mod rib;
pub mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paceline_net::{FaceNode, Stats};
use paceline_proto::core::NodeId;
use paceline_proto::mircc::{self, Command, Forwarder as Protocol};
use tokio::time::Instant;

use builder::is_same;
use pending::PendingExchanges;
use rib::OperatorRoutes;

pub use builder::ForwarderBuilder;
pub use error::{AskError, ForwarderError, RegisterError};
pub use fetch::{Fetch, FetchError, Fetched, Fetching, Progress, Undecoded, UndecodedFrom, Whole};
pub use metadata::{Digest, FileMetadata, MetadataError};
pub use probe::{Hop, Reply};
pub use register::Registration;
pub use serve::{Serve, ServeCounts, ServeError, Serving};

pub use paceline_net::{AddressRange, RangeError};
pub use paceline_proto::core::ConfigError;
pub use paceline_proto::mircc::{
    Config, Controller, ControllerConfig, FaceConfig, FaceCounts, FaceReport, FlowCounts,
    FlowReport, Multipath, Pace, PathReport, Question, Strategy, Undecodable,
};
pub use paceline_proto::ndn::{
    Data, Interest, KeyError, NackReason, Name, NameError, PathLabel, Signer, Stamps, Trust,
    VerifyError,
};

/// A running forwarder. Clones are of the same; it stops when the last one is dropped and no
/// serving or fetch is left.
#[derive(Clone)]
pub struct Forwarder {
    shared: Arc<Shared>,
}

/// State shared by the clones of a handle, its servings and its fetches.
struct Shared {
    node: FaceNode<Protocol>,
    pending: Arc<PendingExchanges>,
    // Those of the operator, not those that neighbours registered.
    routes: Mutex<BTreeSet<(Name, NodeId)>>,
    numbers: AtomicU64,
}

/// The answer to an Interest.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The Data. It is not verified.
    pub data: Data,
    /// The path that it came by, from here on.
    pub path: PathLabel,
    /// What may be sent on that path.
    pub stamps: Stamps,
    /// The time since it was asked for.
    pub round_trip: Duration,
}

/// The state of a forwarder.
#[derive(Clone, Debug)]
pub struct Report {
    /// Where it listens.
    pub address: SocketAddr,
    /// Tables, faces and flows.
    pub state: mircc::Report,
    /// The addresses of its faces.
    pub addresses: BTreeMap<NodeId, SocketAddr>,
    /// What it has counted.
    pub stats: Stats,
}

impl Report {
    /// The faces with their addresses. One that has just closed has none.
    pub fn faces(&self) -> impl Iterator<Item = (SocketAddr, &FaceReport)> {
        let address = |face: &FaceReport| self.addresses.get(&face.peer).copied();
        self.state.faces.iter().filter_map(move |face| Some((address(face)?, face)))
    }

    /// Packets to strangers that were withheld, because these are not
    /// [proven](ForwarderBuilder::faces_allowed) and the packet exceeded three times the bytes
    /// received from there or the rate of the network.
    pub fn withheld(&self) -> u64 {
        let count = |name| self.stats.counters.count(name);
        count("faces_unproven_allowance") + count("faces_unproven_rate")
    }

    /// The flow of this number, if it is still running.
    pub fn flow(&self, flow: u64) -> Option<&FlowReport> {
        self.state.flows.iter().find(|report| report.flow == flow)
    }
}

impl Forwarder {
    /// Starts the configuration of a forwarder.
    pub fn builder() -> ForwarderBuilder {
        ForwarderBuilder::new()
    }

    fn new(shared: Arc<Shared>) -> Forwarder {
        Forwarder { shared }
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.node.local_addr()
    }

    /// Adds a neighbour. If the address has a face already, this one replaces it, and the routes of
    /// the old one end.
    ///
    /// # Errors
    /// If no face can have the address, or the forwarder has stopped.
    pub async fn add_face(
        &self,
        address: SocketAddr,
        face: FaceConfig,
    ) -> Result<(), ForwarderError> {
        let id = self.shared.node.open(address).await?;
        self.command(Command::AddFace(id, face))
    }

    /// Removes a neighbour, and the routes to it. False if there was none. A stranger returns with
    /// its next packet.
    ///
    /// # Errors
    /// If the forwarder has stopped.
    pub async fn remove_face(&self, address: SocketAddr) -> Result<bool, ForwarderError> {
        match self.face_at(address) {
            None => Ok(false),
            Some(id) => self.shared.node.close(id).await.map_err(|_| ForwarderError::Closed),
        }
    }

    /// Adds a route for names with a prefix to a neighbour, at no cost.
    ///
    /// # Errors
    /// If the address is no face, or the forwarder has stopped.
    pub fn add_route(&self, prefix: Name, address: SocketAddr) -> Result<(), ForwarderError> {
        self.add_route_with_cost(prefix, address, 0)
    }

    /// Adds a route at a cost: any unit, lower is preferred. Changes the cost of an existing route.
    ///
    /// # Errors
    /// If the address is no face, or the forwarder has stopped.
    pub fn add_route_with_cost(
        &self,
        prefix: Name,
        address: SocketAddr,
        cost: u32,
    ) -> Result<(), ForwarderError> {
        match self.face_at(address) {
            None => Err(ForwarderError::NoFace { prefix, address }),
            Some(peer) => {
                self.shared.routes().insert((prefix.clone(), peer));
                self.command(Command::AddRoute { prefix, peer, cost })?;
                self.shared.pending.routes_added.notify_one();
                Ok(())
            }
        }
    }

    /// Sets how Interests for names with a prefix choose among next hops. Default
    /// [`Strategy::BestRoute`].
    ///
    /// # Errors
    /// If the forwarder has stopped.
    pub fn set_strategy(&self, prefix: Name, strategy: Strategy) -> Result<(), ForwarderError> {
        self.command(Command::SetStrategy { prefix, strategy })
    }

    /// Removes a route.
    ///
    /// # Errors
    /// If the address is no face, or the forwarder has stopped.
    pub fn remove_route(&self, prefix: Name, address: SocketAddr) -> Result<(), ForwarderError> {
        match self.face_at(address) {
            None => Err(ForwarderError::NoFace { prefix, address }),
            Some(peer) => {
                self.shared.routes().remove(&(prefix.clone(), peer));
                self.command(Command::RemoveRoute { prefix, peer })
            }
        }
    }

    /// The state of the forwarder.
    ///
    /// # Errors
    /// If it has stopped.
    pub async fn report(&self) -> Result<Report, ForwarderError> {
        let id = self.shared.number();
        let report = self.shared.pending.expect_report(id);
        self.command(Command::Report(id))?;
        let state = report.await.map_err(|_| ForwarderError::Closed)?;
        Ok(Report {
            address: self.local_addr(),
            state,
            addresses: self.shared.node.faces().into_iter().collect(),
            stats: self.shared.node.stats(),
        })
    }

    /// Sends one Interest and waits for its answer.
    ///
    /// # Errors
    /// If it is refused, or nothing comes within its lifetime, or the forwarder has stopped.
    pub async fn ask(&self, interest: Interest, path: PathLabel) -> Result<Answer, AskError> {
        self.ask_by(interest, Way::By(path)).await
    }

    /// Like [`Forwarder::ask`], by a way that need not be a path label.
    async fn ask_by(&self, interest: Interest, way: Way) -> Result<Answer, AskError> {
        let id = self.shared.number();
        let lifetime = interest.lifetime();
        let answer = self.shared.pending.expect_answer(id);
        let question = Question { interest, ..Question::new(id, Name::root()) };
        let question = match way {
            Way::By(path) => Question { path, ..question },
            Way::To(face) => Question { to: Some(face), ..question },
            Way::Any => Question { discovers: true, ..question },
        };
        self.shared.node.command(Command::Ask(Box::new(question)))?;
        match answer.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Some(reason))) => Err(AskError::Refused(reason)),
            Ok(Err(None)) => Err(AskError::Unanswered(lifetime)),
            Err(_) => Err(AskError::Closed),
        }
    }

    /// Repeats an Interest for this long: it or its answer may get lost, or be refused because of
    /// congestion. If several faces lead there, one may have no route while another has, so a
    /// single Nack for that is not final.
    ///
    /// A known path is tried first, and then in turn with the strategies of the forwarders: either
    /// may have failed since.
    async fn ask_within(
        &self,
        interest: &Interest,
        known: PathLabel,
        within: Duration,
    ) -> Result<Answer, AskError> {
        let end = Instant::now() + within;
        let several = self.shared.node.faces().len() > 1 || !known.is_empty();
        let mut no_routes_left = if several { NO_ROUTES_MAX } else { 0 };
        let mut is_steered = false;
        loop {
            is_steered = !is_steered;
            let path = if is_steered { known } else { PathLabel::EMPTY };
            let asked = self.ask(interest.clone(), path).await;
            let is_passing = match &asked {
                Err(AskError::Unanswered(_)) => true,
                Err(AskError::Refused(NackReason::NoRoute)) if no_routes_left > 0 => {
                    no_routes_left -= 1;
                    continue;
                }
                Err(AskError::Refused(reason)) => *reason != NackReason::NoRoute,
                _ => false,
            };
            if !is_passing {
                return asked;
            }
            if Instant::now() >= end {
                return match asked {
                    Err(AskError::Unanswered(_)) => Err(AskError::Unanswered(within)),
                    asked => asked,
                };
            }
            if let Err(AskError::Refused(_)) = asked {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    /// Configures serving the files of a folder under a prefix.
    pub fn serve(&self, folder: impl Into<PathBuf>, prefix: Name) -> Serve {
        Serve::new(self.clone(), folder.into(), prefix)
    }

    /// Configures fetching an object into a file.
    pub fn fetch(&self, name: Name, out: impl Into<PathBuf>) -> Fetch {
        Fetch::new(self.clone(), name, out.into())
    }

    /// What it has counted.
    pub fn stats(&self) -> Stats {
        self.shared.node.stats()
    }

    /// Stops it, with all its servings and fetches.
    pub async fn stop(&self) {
        self.shared.node.stop().await;
    }

    fn face_at(&self, address: SocketAddr) -> Option<NodeId> {
        let faces = self.shared.node.faces();
        faces.into_iter().find(|&(_, face)| is_same(face, address)).map(|(id, _)| id)
    }

    fn command(&self, command: Command) -> Result<(), ForwarderError> {
        self.shared.node.command(command).map_err(|_| ForwarderError::Closed)
    }
}

/// How an Interest of this node is forwarded.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By the path of this label; if it is empty, by the strategies of the forwarders.
    By(PathLabel),
    /// To this face, whatever the routes say.
    To(NodeId),
    /// Any: each forwarder chooses at random, so that paths are discovered.
    Any,
}

/// Most Nacks for want of a route before they count as final.
const NO_ROUTES_MAX: usize = 12;
/// Delay before the next attempt after a temporary refusal.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

impl Shared {
    fn new(
        node: FaceNode<Protocol>,
        pending: Arc<PendingExchanges>,
        routes: BTreeSet<(Name, NodeId)>,
    ) -> Shared {
        Shared { node, pending, routes: Mutex::new(routes), numbers: AtomicU64::new(1) }
    }

    /// The operator's routes: to open faces, and to this node itself.
    fn operator_routes(&self) -> OperatorRoutes {
        let mut routes = self.routes();
        routes.retain(|&(_, face)| self.node.addr(face).is_some());
        let faces = routes.iter().map(|(prefix, face)| (prefix.clone(), Some(*face)));
        faces.chain(self.pending.served().into_iter().map(|prefix| (prefix, None))).collect()
    }

    // A panic while the lock is held leaves the routes intact.
    fn routes(&self) -> MutexGuard<'_, BTreeSet<(Name, NodeId)>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other Interest, report or flow has.
    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
