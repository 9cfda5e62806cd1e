//! Walks on servers that share the graph.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use paceline::proto::walk::{Generation, PacedConfig, Recovery};
use paceline::walks::{
    Config, Job, JobReport, PassConfig, SharedGraph, Sources, Vertex, Walked, Walking,
};
use paceline::{Host, JoinError, PeerSource, Walks, WalksError};
use paceline_graph::walk::Paths;
use paceline_lab::Progress;
use paceline_lab_services::walk::Method;
use tokio::sync::mpsc;

use super::outputs::Outputs;
use super::plan::Plan;
use crate::commands::graph::{By, divide};
use crate::commands::member::{explain_host, runtime, unless_stopped};
use crate::commands::sealing::SealArgs;
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Which servers walk, and what each has.
#[derive(Debug, clap::Args)]
pub struct ServersArgs {
    /// Walk on these servers, HOST:PORT, instead of this machine: each receives its part of the
    /// graph, unless it has it. HOST:PORT-PORT names all workers of a process
    #[arg(long, value_name = "HOST:PORT", env = "PACELINE_WALK_SERVERS", value_delimiter = ',')]
    servers: Vec<String>,

    /// How the graph is partitioned among the servers
    #[arg(long, value_name = "WAY", default_value = "hash")]
    by: By,

    /// Partition it by this file of parts, in the format of METIS: part 0 to the first server
    #[arg(long, value_name = "FILE", requires = "servers", conflicts_with = "by")]
    partition: Option<PathBuf>,

    /// How queues and sources behave: the policy of the servers' queues, and how this client starts
    /// walks
    #[arg(long, value_name = "METHOD", default_value = "network", requires = "servers")]
    method: MethodName,

    /// Replace another graph or partition at the servers; walks over it end
    #[arg(long, requires = "servers")]
    replace: bool,

    /// The name under which servers serve walks
    #[arg(long, value_name = "NAME", default_value = "main", env = "PACELINE_GROUP")]
    group: String,

    /// The cluster's name
    #[arg(long, value_name = "NAME", default_value = "paceline", env = "PACELINE_CLUSTER")]
    cluster: String,

    /// The address to listen on for finished walks
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", env = "PACELINE_BIND")]
    #[arg(value_parser = parse::address)]
    bind: SocketAddr,

    /// How long servers may take to reply, and how long they may make no progress with their parts
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::seconds)]
    servers_within: Duration,

    #[command(flatten)]
    sealing: SealArgs,
}

/// A method, without those that need a source on the server where a walker is dropped
/// (rq-rg-nodirect) or no client at all (synchronous).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MethodName {
    /// What each server is set to: queues mark from 4,096 walkers on, bundles, a window
    Network,
    /// Short queues that mark from 5 walkers on, a walker a datagram, a window
    Window,
    /// The same queues, sources that pause at marks
    MarkExact,
    /// The paper's queues: RED drops from 5 walkers on; sources pause after losses
    RqRg,
    /// RED drops, sources never pause
    RqSleep0,
    /// RED drops, sources always pause
    RqSleep1,
    /// Queues drop at 100 walkers, sources pause after losses
    #[value(alias = "tail-rg")]
    Tail,
}

impl MethodName {
    fn method(self) -> Method {
        match self {
            MethodName::Network => Method::Network,
            MethodName::Window => Method::Window,
            MethodName::MarkExact => Method::MarkExact,
            MethodName::RqRg => Method::RqRg,
            MethodName::RqSleep0 => Method::RqSleep0,
            MethodName::RqSleep1 => Method::RqSleep1,
            MethodName::Tail => Method::TailRg,
        }
    }

    /// What servers are asked to do; none for what they are set to.
    fn pass(self) -> Option<PassConfig> {
        let Config { queue, bundle, .. } = self.method().config();
        (self != MethodName::Network).then_some(PassConfig { queue, bundle })
    }

    /// How the client begins walks. Lost walks are done again with every method, since every walk
    /// is wanted; the paper begins others in their place.
    fn generation(self) -> Generation {
        match self.method().config().generation {
            Generation::Paced(paced) => {
                Generation::Paced(PacedConfig { recovery: Recovery::Reexecute, ..paced })
            }
            other => other,
        }
    }
}

/// Walks that have come before others of lower numbers, at most: they wait here to be written.
const EARLY_MAX: usize = 1 << 18;
/// Vertices of a block of paths, about.
const BLOCK_VERTICES: usize = 1 << 16;
/// Blocks that wait to be written.
const BLOCKS_AHEAD: usize = 4;
/// How often to look whether the user asks to stop, or a server is silent.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl ServersArgs {
    /// True if servers walk.
    pub fn are_named(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Walks; what servers did, and none if it was stopped.
    pub fn walk(
        &self,
        plan: &Plan,
        outputs: &mut Outputs<'_>,
        ui: &Ui,
    ) -> Result<Option<JobReport>, CliError> {
        let within = self.servers_within;
        let servers = named(&self.servers)?;
        let graph = self.share(plan, servers.len() as u16)?;
        let first = outputs.first();
        let bar = ui.progress();
        let (blocks, mut written) = mpsc::channel(BLOCKS_AHEAD);
        let runtime = runtime()?;
        std::thread::scope(|scope| {
            // The node has a thread of its own: writing must not keep it from its datagrams.
            let walking = scope.spawn(|| {
                runtime.block_on(async {
                    let Some(walks) = self.connect(&graph, &servers, within, ui).await? else {
                        return Ok(None);
                    };
                    let walked = walk(&walks, plan, first, blocks, ui).await;
                    walks.stop().await;
                    walked
                })
            });
            let (mut has_begun, mut failed) = (false, None);
            while let Some(paths) = written.blocking_recv() {
                if !std::mem::replace(&mut has_begun, true) {
                    bar.start(plan.walks() - first, "walks");
                }
                bar.inc(Paths::len(&paths) as u64);
                if let Err(error) = outputs.append(&paths) {
                    failed = Some(error);
                    break;
                }
            }
            // Closes the channel, so that the sender of paths sees that the writer has ended.
            drop(written);
            bar.finish();
            let walked = match walking.join() {
                Ok(walked) => walked,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            failed.map_or(walked, Err)
        })
    }

    /// The graph, and which server is to have which vertex.
    fn share(&self, plan: &Plan, servers: u16) -> Result<SharedGraph, CliError> {
        let named = &plan.named;
        let partition = divide(&named.graph, self.partition.as_deref(), servers, self.by)?;
        if partition.parts() > servers {
            let (parts, file) = (partition.parts(), self.partition.clone().unwrap_or_default());
            let wrong = format!("{}: {parts} parts for {servers} servers", file.display());
            return Err(CliError::Input(wrong));
        }
        Ok(SharedGraph {
            graph: Arc::new(named.graph.clone()),
            weights: named.weights.clone().map(Arc::new),
            owners: partition.owners().to_vec(),
        })
    }

    /// Servers that have their parts; none if it was stopped.
    async fn connect(
        &self,
        graph: &SharedGraph,
        servers: &[String],
        within: Duration,
        ui: &Ui,
    ) -> Result<Option<Walks>, CliError> {
        let host = Host::builder(&self.cluster).bind(self.bind).peers(servers);
        let host = self.sealing.apply(host)?.start().await.map_err(explain_host)?;
        let generation = self.method.generation();
        let config = |config| Config { results_max: EARLY_MAX, generation, ..config };
        let builder = host.walks(&self.group).within(within).with_config(config);
        let builder = match self.method.pass() {
            Some(pass) => builder.with_pass(pass),
            None => builder,
        };
        let Ok(walks) = unless_stopped(builder.connect()).await else { return Ok(None) };
        let walks = walks.map_err(explain_join)?;
        if walks.servers().iter().all(|server| server.ip().is_loopback()) {
            ui.note(
                "all servers are on this machine: without --servers the same walks need no network \
                 and much less time",
            );
        }
        ui.note(&format!("{} servers reply; each receives its part", servers.len()));
        let all = graph.owners.len() as u64 * servers.len() as u64;
        let supply = async {
            match self.replace {
                true => walks.replace_graph(graph, within).await,
                false => walks.supply(graph, within).await,
            }
        };
        let supplied = shown(supply, &walks, all, ui).await;
        let Some(supplied) = supplied else {
            walks.stop().await;
            return Ok(None);
        };
        supplied.map_err(|error| match error {
            WalksError::OtherGraph(server) => CliError::Input(format!(
                "{server} has another graph, or another --method: --replace replaces them, and \
                 ends walks of other clients over that graph"
            )),
            error => explain(error),
        })?;
        Ok(Some(walks))
    }
}

/// Servers one by one: those of a range of ports, `HOST:7001-7004`, are four.
fn named(servers: &[String]) -> Result<Vec<String>, CliError> {
    let mut named = Vec::new();
    for server in servers {
        let range = server.rsplit_once(':').and_then(|(host, ports)| {
            let (first, last) = ports.split_once('-')?;
            Some((host, first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
        });
        match range {
            Some((_, first, last)) if first > last => {
                let wrong = format!("--servers {server}: the ports are in descending order");
                return Err(CliError::Input(wrong));
            }
            Some((host, first, last)) => {
                named.extend((first..=last).map(|port| format!("{host}:{port}")));
            }
            None => match server.parse() {
                Ok(PeerSource::Host(_)) | Err(_) => named.push(server.clone()),
                Ok(_) => {
                    let wrong = format!("--servers {server}: expected HOST:PORT or HOST:PORT-PORT");
                    return Err(CliError::Input(wrong));
                }
            },
        }
    }
    Ok(named)
}

/// Waits for the supply of `all` vertices to all servers, with a progress bar; `None` if the user
/// stopped it.
async fn shown<T>(supply: impl Future<Output = T>, walks: &Walks, all: u64, ui: &Ui) -> Option<T> {
    let bar = ui.progress();
    bar.start(all, "vertices, by server");
    let mut supply = pin!(supply);
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut reached = 0;
    let supplied = loop {
        tokio::select! {
            supplied = &mut supply => break Some(supplied),
            _ = look.tick() => {
                let before = std::mem::replace(&mut reached, walks.supplied());
                bar.inc(reached - before);
                if ui.is_stopped() {
                    break None;
                }
            }
        }
    };
    bar.finish();
    supplied
}

/// Why there is no connection to the servers.
fn explain_join(error: JoinError) -> CliError {
    match error {
        JoinError::Closed => CliError::Failed(error.to_string()),
        JoinError::Unanswered { peers, within, .. } => CliError::Input(format!(
            "no reply from {peers} within {within:?}: is `paceline node --service walk` running \
             there?"
        )),
        error => CliError::Input(error.to_string()),
    }
}

/// Maps an error to its exit status and message.
fn explain(error: WalksError) -> CliError {
    match error {
        WalksError::Closed | WalksError::SupplyTime(_) => CliError::Failed(error.to_string()),
        error => CliError::Input(error.to_string()),
    }
}

/// Hands out walks in the order of their numbers.
async fn walk(
    walks: &Walks,
    plan: &Plan,
    first: u64,
    blocks: mpsc::Sender<Paths>,
    ui: &Ui,
) -> Result<Option<JobReport>, CliError> {
    let sources = match &plan.sources {
        None => Sources::Range(0..plan.named.graph.vertices()),
        Some(sources) => Sources::List(sources.as_slice().into()),
    };
    let job = Job::new(plan.asked.length, sources)
        .with_seed(plan.seed)
        .with_kind(plan.asked.kind.clone())
        .with_walks(plan.walks_per_source)
        .with_first(first);
    if first >= plan.walks() {
        return Ok(Some(JobReport::default()));
    }
    let mut walking = walks.run(job).map_err(explain)?.with_own_credit();
    let mut order = Order::new(first);
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut silent = Vec::new();
    loop {
        tokio::select! {
            walked = walking.next() => match walked.map_err(explain)? {
                Some(Walked::Done(walk)) => {
                    order.take(walk.walk, walk.source, &walk.path);
                    if order.is_full() && !order.hand_out(&blocks, &mut walking).await {
                        return Ok(None);
                    }
                }
                Some(Walked::Failed { walk, attempts }) => {
                    return Err(given_up(walks, walk, attempts));
                }
                None => break,
            },
            _ = look.tick() => {
                if ui.is_stopped() {
                    order.hand_out(&blocks, &mut walking).await;
                    return Ok(None);
                }
                note_silent(walks, &mut silent, ui);
                if !order.hand_out(&blocks, &mut walking).await {
                    return Ok(None);
                }
            }
        }
    }
    order.hand_out(&blocks, &mut walking).await;
    Ok(walking.report().map(|(report, _)| *report))
}

fn given_up(walks: &Walks, walk: u64, attempts: u8) -> CliError {
    let silent: Vec<String> = walks.silent().iter().map(SocketAddr::to_string).collect();
    let why = match silent.is_empty() {
        true => String::new(),
        false => format!(": {} does not reply", silent.join(", ")),
    };
    CliError::Failed(format!("walk {walk} was abandoned after {attempts} attempts{why}"))
}

/// Says which servers have fallen silent since it was asked last, and which are back.
fn note_silent(walks: &Walks, known: &mut Vec<SocketAddr>, ui: &Ui) {
    let silent = walks.silent();
    for server in silent.iter().filter(|server| !known.contains(server)) {
        ui.note(&format!("{server} does not reply; walkers for it wait"));
    }
    for server in known.iter().filter(|server| !silent.contains(server)) {
        ui.note(&format!("{server} replies again"));
    }
    *known = silent;
}

/// Walks in the order of their numbers, whatever the order in which they come.
struct Order {
    next: u64,
    /// Walks that have come before others of lower numbers.
    early: BTreeMap<u64, Vec<Vertex>>,
    ready: Paths,
}

impl Order {
    fn new(first: u64) -> Order {
        Order { next: first, early: BTreeMap::new(), ready: Paths::empty(first) }
    }

    fn take(&mut self, walk: u64, source: Vertex, path: &[Vertex]) {
        let mut whole = Vec::with_capacity(path.len() + 1);
        whole.push(source);
        whole.extend_from_slice(path);
        if walk != self.next {
            self.early.insert(walk, whole);
            return;
        }
        self.ready.push(&whole);
        self.next += 1;
        while let Some(path) = self.early.remove(&self.next) {
            self.ready.push(&path);
            self.next += 1;
        }
    }

    /// True if there is a block to be written.
    fn is_full(&self) -> bool {
        self.ready.vertices().len() >= BLOCK_VERTICES
    }

    /// Sends the finished paths, and frees credit for as many walks; false if the receiver is gone.
    async fn hand_out(&mut self, blocks: &mpsc::Sender<Paths>, walking: &mut Walking) -> bool {
        if self.ready.is_empty() {
            return !blocks.is_closed();
        }
        let paths = std::mem::replace(&mut self.ready, Paths::empty(self.next));
        walking.consumed(paths.len());
        blocks.send(paths).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_names_each_of_its_servers() {
        let named = |server: &str| named(&[server.to_owned(), "b:1".to_owned()]);
        assert_eq!(named("a:7001-7003").unwrap(), ["a:7001", "a:7002", "a:7003", "b:1"]);
        assert_eq!(named("[::1]:7-7").unwrap(), ["[::1]:7", "b:1"]);
        assert_eq!(named("some-host:7001").unwrap(), ["some-host:7001", "b:1"]);
        assert!(named("a:9-7").is_err() && named("file:servers").is_err());
    }
}
