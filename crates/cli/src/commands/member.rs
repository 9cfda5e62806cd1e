//! What `node` and `broadcast` share: becoming a member of a group.

use std::net::SocketAddr;
use std::path::PathBuf;

use paceline::{Deliveries, Group, Host, HostError, NodeId, Roster};
use tokio::runtime::Runtime;

use super::topology::{self, Choice};
use crate::error::CliError;

/// Which member of which group, and where.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The members: a file with lines of `ID HOST:PORT`, the same for all, in ring order
    #[arg(long, value_name = "FILE", requires = "id")]
    roster: Option<PathBuf>,

    /// Which of them this is
    #[arg(long, value_name = "K", requires = "roster")]
    id: Option<u32>,

    /// The address to listen on, if it is not the roster's
    #[arg(long, value_name = "ADDR", env = "PACELINE_BIND")]
    bind: Option<SocketAddr>,

    /// The cluster's name: members of another one are refused
    #[arg(long, value_name = "NAME", default_value = "paceline", env = "PACELINE_CLUSTER")]
    cluster: String,

    /// How messages spread; all members need the same [default: chain]
    #[arg(long, value_name = "TOPOLOGY", value_parser = topology::parse)]
    topology: Option<Choice>,

    /// Allow addresses beyond loopback though nothing is encrypted or authenticated: whoever
    /// reaches the port can read and forge messages
    #[arg(long)]
    insecure_plaintext: bool,
}

/// A member that runs.
pub struct Member {
    /// Its sending side.
    pub group: Group,
    /// Its receiving side.
    pub deliveries: Deliveries,
    /// Its number.
    pub id: NodeId,
    /// Where it listens.
    pub address: SocketAddr,
    /// How many members there are.
    pub members: usize,
}

impl Args {
    /// True if the user named a roster.
    pub fn has_roster(&self) -> bool {
        self.roster.is_some()
    }

    /// Starts the member. Without a roster it is a group of its own.
    pub fn start(&self, runtime: &Runtime) -> Result<Member, CliError> {
        let input = |error: &dyn std::error::Error| CliError::Input(error.to_string());
        let id = NodeId(self.id.unwrap_or(0));
        let roster = match (&self.roster, self.bind) {
            (Some(file), _) => Roster::from_file(file).map_err(|error| input(&error))?,
            (None, Some(address)) => Roster::new([(id, address)]).map_err(|error| input(&error))?,
            (None, None) => {
                return Err(CliError::Input("--roster FILE --id K, or --bind ADDR".to_owned()));
            }
        };
        let members = roster.len();
        let mut builder = Host::builder(&self.cluster, roster, id);
        if let Some(address) = self.bind {
            builder = builder.bind(address);
        }
        if self.insecure_plaintext {
            builder = builder.insecure_plaintext();
        }
        if let Some(Choice(topology)) = self.topology {
            builder = builder.with_group(|config| config.with_topology(topology));
        }
        let _inside = runtime.enter();
        let host = builder.start().map_err(|error: HostError| input(&error))?;
        let address = host.node().local_addr();
        let (group, deliveries) = host.group();
        Ok(Member { group, deliveries, id, address, members })
    }
}

/// The runtime of one member: one thread.
pub fn runtime() -> Result<Runtime, CliError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| CliError::Failed(format!("cannot start: {error}")))
}

/// Returns when the user asks to stop.
pub async fn stop_asked() {
    let terminated = async {
        #[cfg(unix)]
        if let Ok(mut term) =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        {
            term.recv().await;
            return;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
