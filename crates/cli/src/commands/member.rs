//! Shared code of `node` and `broadcast`: joining a group.

use std::convert::Infallible;
use std::io::BufRead;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::time::Duration;

use paceline::status::StatusServer;
use paceline::{
    BroadcastError, Event, Events, Expects, Group, Host, HostBuilder, HostError, JoinError,
    LeaveError, NodeId, PeerFormError, PeerSource, ServiceBuilder, View, ViewsConfig,
};
use serde::Serialize;
use tokio::sync::mpsc;

use super::sealing::SealArgs;
use super::topology::{self, Choice};
use crate::error::CliError;
use crate::files;
use crate::parse;
use crate::signals;

/// Lines of standard input that are read ahead.
pub const LINES_AHEAD: usize = 16;
/// How long a member that goes waits for the others to let it.
pub const LEAVE_WITHIN: Duration = Duration::from_secs(3);

/// What to do about a node that knows of no member.
const NO_MEMBER: &str = "no member to ask: pass --peer HOST:PORT to join a group, or --bootstrap \
                         to create a new one";

/// Which host of what, and where.
#[derive(Clone, Debug, clap::Args)]
pub struct HostArgs {
    /// The group's name, or the table's [default: main]
    #[arg(long, value_name = "NAME", env = "PACELINE_GROUP")]
    group: Option<String>,

    /// Where to find members, may be repeated: HOST:PORT; dns:NAME:PORT (A and AAAA records);
    /// dns:_SERVICE._PROTOCOL.NAME (SRV records); file:PATH (one a line, # comments); env:VARIABLE
    /// (with commas). Names and files are asked again until this node has joined [env:
    /// PACELINE_PEERS, unless --bootstrap]
    #[arg(long = "peer", value_name = "PEER", value_delimiter = ',', value_parser = peer)]
    pub peers: Vec<String>,

    #[command(flatten)]
    former: FormerSeed,

    /// Create the group. Use only for the very first member, and after all members were lost
    #[arg(long, conflicts_with = "peers")]
    pub bootstrap: bool,

    /// Join the group at --peer. If no member answers, create it once N nodes with this option see
    /// each other: 2 to 64, the same number at all nodes. For nodes that start together; they
    /// create one group if N is more than half of them
    #[arg(long, value_name = "N", conflicts_with = "bootstrap")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=64))]
    pub expect: Option<u32>,

    /// The address to listen on, by TCP and UDP [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDR", env = "PACELINE_BIND", value_parser = parse::address)]
    pub bind: Option<SocketAddr>,

    /// The address at which others reach this node, if it is another
    #[arg(long, value_name = "ADDR", env = "PACELINE_ADVERTISE", value_parser = parse::address)]
    pub advertise: Option<SocketAddr>,

    /// This node's number, another for each node [default: drawn at random, or of its key]
    #[arg(long, value_name = "K")]
    pub id: Option<u64>,

    /// The cluster's name: nodes of another one are refused [default: paceline]
    #[arg(long, value_name = "NAME", env = "PACELINE_CLUSTER")]
    pub cluster: Option<String>,

    /// How long joining may take [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse::seconds)]
    pub join_within: Option<Duration>,

    /// Memory for the send queues to all other nodes, and for incomplete records; above it unproven
    /// peers lose theirs first [default: 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub peer_memory: Option<usize>,

    #[command(flatten)]
    pub sealing: SealArgs,
}

/// The cluster of a node that names none.
pub const CLUSTER: &str = "paceline";
/// How long joining may take, unless the user says otherwise.
const JOIN_WITHIN: Duration = Duration::from_secs(10);

/// `--seed HOST:PORT`, as `--peer` was called.
#[derive(Clone, Debug, clap::Args)]
pub struct FormerSeed {
    #[arg(long, hide = true, value_name = "HOST:PORT", value_parser = former_seed)]
    seed: Option<Infallible>,
}

fn former_seed(_: &str) -> Result<Infallible, &'static str> {
    Err("the option is `--peer` now, and a seed is the root of random numbers")
}

/// Which member of which group, and where.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub host: HostArgs,

    /// How messages spread; all members need the same [default: chain]
    #[arg(long, value_name = "TOPOLOGY", value_parser = topology::parse)]
    topology: Option<Choice>,
}

/// A member that runs, and answers `paceline status`.
pub struct Member {
    /// Its sending side.
    pub group: Group,
    /// Its events.
    pub events: Events,
    /// Its host.
    pub host: AnsweringHost,
}

/// A host that answers `paceline status`.
pub struct AnsweringHost {
    host: Host,
    _status: StatusServer,
}

impl AnsweringHost {
    /// This host, from now on; call it inside the runtime.
    pub fn new(host: Host) -> Result<AnsweringHost, CliError> {
        let status = host.answer_status();
        let _status = status.map_err(|error| CliError::Failed(error.to_string()))?;
        Ok(AnsweringHost { host, _status })
    }

    /// Stops it, once its services have ended: what they have queued leaves before.
    pub async fn stop(self) {
        self.host.stop().await;
    }
}

impl Args {
    /// Starts the member, with the settings of a node file if there is one; returns once it is in a
    /// view.
    pub fn start(
        &self,
        runtime: &Runtime,
        settings: Option<ViewsConfig>,
    ) -> Result<Member, CliError> {
        let host = &self.host;
        let starting = host.builder()?.peers(host.peers()?).start();
        let started = runtime.block_on(starting).map_err(explain_host)?;
        let group = started.group(host.group());
        let mut group = group.within(host.join_within()).leave_within(LEAVE_WITHIN);
        if let Some(settings) = settings {
            group = group.with_views(|_| settings);
        }
        if let Some(Choice(topology)) = self.topology {
            group = group.with_broadcast(|config| config.with_topology(topology));
        }
        let joined = runtime.block_on(unless_stopped(host.enter(group)));
        let (group, events) = joined?.map_err(explain)?;
        let host = runtime.block_on(async { AnsweringHost::new(started) })?;
        Ok(Member { group, events, host })
    }
}

impl HostArgs {
    /// The name of the group, or of the table.
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or("main")
    }

    /// True if an option names the group, and not a variable that may be meant for other commands.
    pub fn names_group(&self) -> bool {
        self.group.is_some() && self.group != std::env::var("PACELINE_GROUP").ok()
    }

    /// How long joining may take.
    pub fn join_within(&self) -> Duration {
        self.join_within.unwrap_or(JOIN_WITHIN)
    }

    /// The address to listen on.
    fn bind(&self) -> SocketAddr {
        self.bind.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The members to ask: as stated, or else those of the environment.
    pub fn peers(&self) -> Result<Vec<String>, CliError> {
        if self.bootstrap { Ok(Vec::new()) } else { peers_or_environment(&self.peers) }
    }

    /// Creates a group or joins it, as the options say.
    pub async fn enter<S: Expects>(
        &self,
        service: ServiceBuilder<S>,
    ) -> Result<S::Joined, JoinError> {
        match self.expect {
            _ if self.bootstrap => service.bootstrap().await,
            Some(hosts) => service.expect(hosts).await,
            None => service.join().await,
        }
    }

    /// The host of a server that keeps its node number across restarts: the number is a hash of its
    /// address, unless one is given.
    pub fn builder_by_address(&self) -> Result<HostBuilder, CliError> {
        let builder = self.builder()?;
        Ok(if self.id.is_some() { builder } else { builder.id_of_address() })
    }

    /// The same host for the `place`-th worker of a process: ports and ids follow on each other,
    /// and the file of a host key has the place behind its name. None if there is no such port or
    /// id.
    pub fn of_worker(&self, place: u16) -> Option<HostArgs> {
        let mut host = self.clone();
        let on = |address: SocketAddr| match address.port() {
            // Any port is another one each time.
            0 => Some(address),
            port => Some(SocketAddr::new(address.ip(), port.checked_add(place)?)),
        };
        host.bind = Some(on(self.bind())?);
        host.advertise = match self.advertise {
            Some(address) => Some(on(address)?),
            None => None,
        };
        if let Some(path) = &self.sealing.host_key
            && place > 0
        {
            host.sealing.host_key = Some(files::behind(path, &format!(".{place}")));
        }
        host.id = match self.id {
            Some(id) => Some(id.checked_add(place.into())?),
            None => None,
        };
        Some(host)
    }

    /// What the host needs to start.
    ///
    /// # Errors
    /// If a file of keys cannot be used.
    pub fn builder(&self) -> Result<HostBuilder, CliError> {
        let cluster = self.cluster.as_deref().unwrap_or(CLUSTER);
        let mut builder = Host::builder(cluster).bind(self.bind());
        if let Some(address) = self.advertise {
            builder = builder.advertise(address);
        }
        if let Some(id) = self.id {
            builder = builder.id(NodeId(id));
        }
        if let Some(bytes) = self.peer_memory {
            builder = builder.memory_bytes_max(bytes);
        }
        self.sealing.apply(builder)
    }
}

/// Checks the form of a peer.
pub fn peer(text: &str) -> Result<String, PeerFormError> {
    text.trim().parse().map(|source: PeerSource| source.to_string())
}

/// These peers, or if there are none those of `PACELINE_PEERS`.
///
/// Not an environment variable of the argument: a variable that is set for one command must not
/// conflict with `--bootstrap` of another.
pub fn peers_or_environment(peers: &[String]) -> Result<Vec<String>, CliError> {
    if !peers.is_empty() {
        return Ok(peers.to_vec());
    }
    let Ok(variable) = std::env::var("PACELINE_PEERS") else {
        return match std::env::var_os("PACELINE_SEEDS") {
            Some(_) => Err(CliError::Input("PACELINE_SEEDS is PACELINE_PEERS now".to_owned())),
            None => Ok(Vec::new()),
        };
    };
    let words = variable.split(',').filter(|word| !word.trim().is_empty());
    let wrong = |error| CliError::Input(format!("PACELINE_PEERS: {error}"));
    words.map(|word| peer(word).map_err(wrong)).collect()
}

/// Why a host did not start.
pub fn explain_host(error: HostError) -> CliError {
    CliError::Input(error.to_string())
}

/// Why a node did not become a member.
pub fn explain(error: JoinError) -> CliError {
    match error {
        JoinError::Closed => CliError::Failed(error.to_string()),
        JoinError::NoPeer => CliError::Input(NO_MEMBER.to_owned()),
        error => CliError::Input(error.to_string()),
    }
}

/// A view, as a line of JSON.
#[derive(Serialize)]
pub struct ViewLine {
    view: u64,
    members: Vec<u64>,
}

impl ViewLine {
    /// Of this one.
    pub fn new(view: &View) -> ViewLine {
        let members = view.members().iter().map(|member| member.node.0).collect();
        ViewLine { view: view.id().0, members }
    }
}

/// A view in readable form.
pub fn describe_view(view: &View) -> String {
    let members: Vec<String> =
        view.members().iter().map(|member| member.node.to_string()).collect();
    format!("view {}: {}", view.id(), members.join(" "))
}

/// Reads lines of standard input until the receiver is dropped.
pub fn read_lines(lines: mpsc::Sender<Vec<u8>>) {
    // A read cannot be given up, so it has a thread of its own.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n').map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
}

/// What an event that is not a message says to people.
pub fn describe(event: &Event) -> Option<String> {
    Some(match event {
        Event::Delivered(_) | Event::Direct(_) | Event::Request(_) => return None,
        Event::View(view) => describe_view(view),
        Event::LostPrimary => "too few members are reachable: no message is accepted".to_owned(),
        Event::RegainedPrimary => "enough members are reachable again".to_owned(),
        Event::Lagging(members) => {
            let members: Vec<String> = members.iter().map(NodeId::to_string).collect();
            format!("waiting for {} to read", members.join(" "))
        }
        Event::Excluded => {
            "the other members continued without this node: joining again".to_owned()
        }
        Event::Left => "left".to_owned(),
        Event::JoinRefused(refusal) => format!("cannot join yet: {refusal}"),
        Event::Rejected(BroadcastError::LostPrimary) => {
            "a message was not accepted: too few members are reachable".to_owned()
        }
        Event::Rejected(error) => format!("a message was not accepted: {error}"),
        Event::Undelivered { to, failure, .. } => {
            format!("a message to {} may not have arrived: {failure}", to.node)
        }
    })
}

/// Leaves the group, and reads events until then. False if the others had not let it go in time.
pub async fn leave(group: Group, mut events: Events) -> bool {
    let reading = async { while events.recv().await.is_some() {} };
    let (left, ()) = tokio::join!(group.leave(), reading);
    matches!(left, Ok(()) | Err(LeaveError::Closed))
}

/// The runtime of one member: one thread.
pub struct Runtime(tokio::runtime::Runtime);

pub fn runtime() -> Result<Runtime, CliError> {
    Runtime::build(tokio::runtime::Builder::new_current_thread())
}

/// A runtime of as many threads as there are cores: where several busy hosts are in one process.
pub fn wide_runtime() -> Result<Runtime, CliError> {
    Runtime::build(tokio::runtime::Builder::new_multi_thread())
}

impl Runtime {
    fn build(mut builder: tokio::runtime::Builder) -> Result<Runtime, CliError> {
        let built = builder.enable_all().build();
        built.map(Runtime).map_err(|error| CliError::Failed(format!("cannot start: {error}")))
    }

    /// Runs the runtime until the future is done. tokio's scheduler is compiled once, not for each
    /// command's future.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut output = None;
        {
            let whole = pin!(async { output = Some(future.await) });
            let whole: Pin<&mut dyn Future<Output = ()>> = whole;
            self.0.block_on(whole);
        }
        output.expect("block_on returns when the future is done")
    }
}

/// Returns when the user asks to stop, or when standard output is closed.
pub async fn stop_asked() {
    tokio::select! {
        () = signals::asked() => {}
        () = signals::output_closed() => {}
    }
}

/// What a future gives, unless the user asks to stop before: joining, and requests to others, wait
/// for as long as they may.
pub async fn unless_stopped<T>(future: impl Future<Output = T>) -> Result<T, CliError> {
    tokio::select! {
        value = future => Ok(value),
        () = signals::asked() => Err(CliError::Stopped),
    }
}
