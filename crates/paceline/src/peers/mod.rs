//! Where a host finds its peers: addresses, names, files, variables.

mod dns;
mod source;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use paceline_net::{Hosted, Node};
use thiserror::Error;

pub(crate) use dns::Resolver;
pub use source::{PeerFormError, PeerSource};

/// The most addresses that a host looks for: as many as its driver asks at once.
const ADDRESSES_MAX: usize = 64;
/// Pause after the first round of questions; each further one is half as long again.
const ASK_AFTER: Duration = Duration::from_millis(500);
const ASK_AFTER_MAX: Duration = Duration::from_secs(4);
/// After that many rounds the pause is the longest.
const ROUNDS_COUNTED_MAX: i32 = 10;
/// Time for the answer of one source.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Why the peers that were named cannot be used: the caller, a file or a name server is at fault.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PeerError {
    /// It has none of the [forms](PeerSource).
    #[error("peer {0}")]
    Form(#[from] PeerFormError),
    /// The host is not known.
    #[error("peer `{peer}` cannot be resolved: {source}")]
    Unresolved {
        /// The peer.
        peer: String,
        /// Why.
        source: io::Error,
    },
    /// Servers of walks were named by DNS records, which have no order.
    #[error(
        "{peer}: vertices are divided by the order of the servers, and DNS records have none: name \
         each by HOST:PORT, also in a file or a variable"
    )]
    WithoutOrder {
        /// The peer, as it was named.
        peer: String,
    },
    /// A file cannot be read, or a line of it has none of the forms; or a variable is not set, or
    /// has none of the forms.
    #[error("peers of `{list}`: {problem}")]
    List {
        /// The file or the variable, as it was named.
        list: String,
        /// Why.
        problem: String,
    },
}

/// Reads the forms of peers.
pub(crate) fn parse<T: AsRef<str>>(forms: &[T]) -> Result<Vec<PeerSource>, PeerFormError> {
    forms.iter().map(|form| form.as_ref().parse()).collect()
}

/// The hosts that are named by `HOST:PORT`, in the order of the forms, and of files and variables
/// in their place.
///
/// # Errors
/// If a list cannot be read, or there are forms of DNS records, which have no order.
pub(crate) fn in_order(forms: Vec<PeerSource>) -> Result<Vec<String>, PeerError> {
    let mut hosts = Vec::new();
    for form in forms {
        let listed = match form {
            PeerSource::File(path) => read_file(&path)?,
            PeerSource::Variable(name) => read_variable(&name)?,
            form => vec![form],
        };
        for source in listed {
            match source {
                PeerSource::Host(host) => hosts.push(host),
                source => {
                    return Err(PeerError::WithoutOrder { peer: source.to_string() });
                }
            }
        }
    }
    Ok(hosts)
}

/// The peers to ask, and where further ones may come from.
#[derive(Default)]
pub struct Peers {
    // As they were named; and with the peers that a variable lists in its place.
    forms: Vec<PeerSource>,
    sources: Vec<PeerSource>,
    resolver: Resolver,
    // Found so far.
    addresses: Vec<SocketAddr>,
    // What the sources that gave no address in the last round said.
    failures: Vec<String>,
    is_full: bool,
    rounds: i32,
}

impl Peers {
    /// Asks all sources once. Fails with `no_peer` if the forms name no source.
    ///
    /// # Errors
    /// If a host cannot be resolved, or a list cannot be read. A name without records is no error:
    /// it may have some later.
    pub(crate) async fn resolve<E: From<PeerError>>(
        forms: Vec<PeerSource>,
        resolver: Resolver,
        no_peer: E,
    ) -> Result<Peers, E> {
        let mut sources = Vec::new();
        for form in &forms {
            match form {
                PeerSource::Variable(name) => sources.extend(read_variable(name)?),
                form => sources.push(form.clone()),
            }
        }
        if sources.is_empty() {
            return Err(no_peer);
        }
        let mut peers = Peers { forms, sources, resolver, ..Peers::default() };
        for source in peers.sources.clone() {
            match (peers.ask(&source).await, source) {
                (Ok(()), _) => {}
                (Err(Failure::Lookup(source)), PeerSource::Host(peer)) => {
                    return Err(PeerError::Unresolved { peer, source }.into());
                }
                (Err(Failure::List(error)), _) => return Err(error.into()),
                (Err(failure), source) => peers.failures.push(failure.of(&source)),
            }
        }
        Ok(peers)
    }

    /// The addresses found so far.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// How many there are, at least one; more than any number while further ones may come.
    pub(crate) fn all(&self) -> usize {
        let may_change = self.sources.iter().any(PeerSource::may_change);
        if may_change { usize::MAX } else { self.addresses.len().max(1) }
    }

    /// The peers as they were named, in one line, and what is wrong with them.
    pub(crate) fn listed(&self) -> String {
        let forms: Vec<String> = self.forms.iter().map(PeerSource::to_string).collect();
        let mut line = forms.join(", ");
        let limit = self.is_full.then(|| format!("the first {ADDRESSES_MAX} addresses"));
        for remark in self.failures.iter().chain(&limit) {
            line.push_str(&format!(" ({remark})"));
        }
        line
    }

    /// Has the node look for peers at further addresses until it has entered.
    pub(crate) async fn seek_until<P: Hosted, T>(
        &mut self,
        node: &Node<P>,
        entered: impl Future<Output = T>,
    ) -> T {
        let mut entered = pin!(entered);
        loop {
            tokio::select! {
                biased;
                result = &mut entered => return result,
                // When the node has stopped, `entered` ends.
                more = self.more() => drop(node.seek(more)),
            }
        }
    }

    /// Waits, then asks the sources that may have changed. Returns the addresses that are new.
    /// Does not return while no source can change.
    async fn more(&mut self) -> Vec<SocketAddr> {
        let sources: Vec<PeerSource> =
            self.sources.iter().filter(|source| source.may_change()).cloned().collect();
        if sources.is_empty() {
            return std::future::pending().await;
        }
        let pause = ASK_AFTER.mul_f64(1.5f64.powi(self.rounds)).min(ASK_AFTER_MAX);
        tokio::time::sleep(pause).await;
        self.rounds = (self.rounds + 1).min(ROUNDS_COUNTED_MAX);
        let known = self.addresses.len();
        let mut failures = Vec::new();
        for source in sources {
            if let Err(failure) = self.ask(&source).await {
                failures.push(failure.of(&source));
            }
        }
        self.failures = failures;
        self.addresses[known..].to_vec()
    }

    /// Asks a source, and adds the addresses that it gives.
    async fn ask(&mut self, source: &PeerSource) -> Result<(), Failure> {
        let PeerSource::File(path) = source else { return self.ask_one(source).await };
        let mut failed = Ok(());
        for one in read_file(path).map_err(Failure::List)? {
            // A peer that is not known does not hide the others.
            if let Err(failure) = self.ask_one(&one).await {
                failed = Err(Failure::Listed(failure.of(&one)));
            }
        }
        failed
    }

    async fn ask_one(&mut self, source: &PeerSource) -> Result<(), Failure> {
        let asked = tokio::time::timeout(ANSWER_WITHIN, self.look_up(source)).await;
        let found = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        if found.is_empty() {
            return Err(Failure::Lookup(io::Error::other("no addresses")));
        }
        self.add(found);
        Ok(())
    }

    async fn look_up(&self, source: &PeerSource) -> io::Result<Vec<SocketAddr>> {
        match source {
            PeerSource::Host(host) => Ok(tokio::net::lookup_host(host.as_str()).await?.collect()),
            PeerSource::Addresses { name, port } => self.resolver.addresses(name, *port).await,
            PeerSource::Services(name) => self.resolver.services(name).await,
            PeerSource::File(_) | PeerSource::Variable(_) => Ok(Vec::new()),
        }
    }

    fn add(&mut self, found: Vec<SocketAddr>) {
        for address in found {
            if self.addresses.contains(&address) {
                continue;
            }
            if self.addresses.len() >= ADDRESSES_MAX {
                self.is_full = true;
                return;
            }
            self.addresses.push(address);
        }
    }
}

/// Why a source gave nothing.
enum Failure {
    Lookup(io::Error),
    // Of a peer in a file, in words.
    Listed(String),
    List(PeerError),
}

impl Failure {
    /// In words.
    fn of(self, source: &PeerSource) -> String {
        match self {
            Failure::Lookup(error) => format!("{source}: {error}"),
            Failure::Listed(what) => what,
            Failure::List(error) => error.to_string(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Lookup(error)
    }
}

/// The file is local and short: reading it takes the runtime no longer than a page fault does.
fn read_file(path: &Path) -> Result<Vec<PeerSource>, PeerError> {
    let read = || -> Result<Vec<PeerSource>, String> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
        let read = file.take(source::FILE_READ_MAX).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        source::read_lines(&bytes)
    };
    read().map_err(|problem| PeerError::List { list: format!("file:{}", path.display()), problem })
}

fn read_variable(name: &str) -> Result<Vec<PeerSource>, PeerError> {
    let read = match std::env::var(name) {
        Ok(text) => source::read_list(&text),
        Err(std::env::VarError::NotPresent) => Err("the variable is not set".to_owned()),
        Err(std::env::VarError::NotUnicode(_)) => Err("the variable is not UTF-8".to_owned()),
    };
    read.map_err(|problem| PeerError::List { list: format!("env:{name}"), problem })
}
