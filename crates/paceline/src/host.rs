use std::net::SocketAddr;
use std::sync::Arc;

use paceline_net::{BindError, Bound, Exposure, Node, NodeConfig, Roster, StartError, Stats};
use paceline_proto::chain::{Chain, Config, ConfigError};
use paceline_proto::core::NodeId;
use thiserror::Error;

use crate::group::{Deliveries, Group};

/// Why a host did not start.
#[derive(Debug, Error)]
pub enum HostError {
    /// A knob of the group is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The sockets could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The node could not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// What a host needs to start; made by [`Host::builder`].
#[derive(Debug)]
pub struct HostBuilder {
    roster: Roster,
    node: NodeId,
    config: NodeConfig,
    group: Config,
    bind: Option<SocketAddr>,
}

impl HostBuilder {
    /// The address to listen on, if it is not the roster's (behind address translation, or
    /// `0.0.0.0`).
    pub fn bind(mut self, address: SocketAddr) -> HostBuilder {
        self.bind = Some(address);
        self
    }

    /// Changes the configuration of the sockets.
    pub fn with_node(mut self, change: impl FnOnce(NodeConfig) -> NodeConfig) -> HostBuilder {
        self.config = change(self.config);
        self
    }

    /// Changes the configuration of the group. All members need the same.
    pub fn with_group(mut self, change: impl FnOnce(Config) -> Config) -> HostBuilder {
        self.group = change(self.group);
        self
    }

    /// Allows addresses beyond loopback though nothing is encrypted or authenticated: anybody
    /// who reaches the port can read and forge messages.
    pub fn insecure_plaintext(mut self) -> HostBuilder {
        self.config = self.config.with_exposure(Exposure::InsecurePlaintext);
        self
    }

    /// Binds the sockets and starts, on the present tokio runtime.
    ///
    /// # Errors
    /// If a knob is out of range, an address cannot be bound, or the roster does not name the node.
    pub fn start(self) -> Result<Host, HostError> {
        let group = self.group.build()?;
        let address = self.bind.or(self.roster.addr(self.node));
        let address = address.ok_or(StartError::NotAMember { node: self.node })?;
        let bound = Bound::bind(address, self.config)?;
        Host::on(bound, self.roster, group)
    }
}

/// A member of a cluster, on sockets of its own.
pub struct Host {
    node: Node<Chain>,
    group: Group,
    deliveries: Deliveries,
}

impl Host {
    /// A host for member `node` of this roster. Members of another cluster name are refused.
    pub fn builder(cluster: impl Into<String>, roster: Roster, node: NodeId) -> HostBuilder {
        let config = NodeConfig::new(cluster, node);
        let group = Config::new(roster.view());
        HostBuilder { roster, node, config, group, bind: None }
    }

    /// A host on sockets that are bound already.
    ///
    /// # Errors
    /// If the roster does not name the node, or there is no tokio runtime.
    pub fn on(bound: Bound, roster: Roster, config: Config) -> Result<Host, HostError> {
        let view = Arc::new(roster.view());
        let shared = Arc::new(config.clone());
        let (node, events) = bound.start(roster, Chain::new(&config), shared)?;
        node.install_view(view).map_err(|_| StartError::NoRuntime)?;
        let group = Group::new(node.clone(), &config);
        let deliveries = Deliveries::new(node.clone(), events);
        Ok(Host { node, group, deliveries })
    }

    /// The group of all members of the roster: the sending side and the receiving side.
    pub fn group(self) -> (Group, Deliveries) {
        (self.group, self.deliveries)
    }

    /// The node underneath.
    pub fn node(&self) -> &Node<Chain> {
        &self.node
    }

    /// What the node counted.
    pub fn stats(&self) -> Stats {
        self.node.stats()
    }
}
