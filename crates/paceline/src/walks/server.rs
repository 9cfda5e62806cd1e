use std::net::SocketAddr;
use std::sync::Arc;

use paceline_net::{Events, Node, Stats};
use paceline_proto::core::NodeId;
use paceline_proto::walk::Server;
use tokio::task::JoinHandle;

/// A server of walks. Clones are of the same; when the last one is dropped the server stops.
#[derive(Clone)]
pub struct WalkServer {
    node: Node<Server>,
    id: NodeId,
    /// Drains the server's events.
    _reader: Arc<Reader>,
}

/// Drains events, which a server does not need: walks return to clients.
struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl WalkServer {
    pub(super) fn new(node: Node<Server>, mut events: Events<Server>, id: NodeId) -> WalkServer {
        let reader = tokio::spawn(async move { while events.recv().await.is_some() {} });
        WalkServer { node, id, _reader: Arc::new(Reader(reader)) }
    }

    /// This host's id.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The address that the host listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.node.local_addr()
    }

    /// What it counted.
    pub fn stats(&self) -> Stats {
        self.node.stats()
    }

    /// Ends the server. It is no member, so there is nothing to leave. Its part of the graph and
    /// the walkers at it are lost; their homes start those walks again.
    pub async fn stop(&self) {
        self.node.stop().await;
    }
}
