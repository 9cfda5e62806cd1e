//! Status: what a host runs, asked of it over its port.
//!
//! A host answers while a [`StatusServer`] is there ([`Host::answer_status`]). Any host of the
//! cluster can ask ([`Host::ask_status`]); a host reads its own by [`Host::status`].

mod ask;
mod registry;
mod report;

use std::sync::Arc;
use std::time::Duration;

use paceline_net::record::ServiceNumber;
use paceline_net::{Events, Node, StartError};
use paceline_proto::status::{Command, Event, Status};
use tokio::task::JoinHandle;

use crate::Host;
use crate::peers::{self, PeerError, Peers};

use ask::Found;
pub use ask::StatusError;
pub use paceline_proto::status::Standing;
pub(crate) use registry::{Attached, Described, Describing, Registry};
pub use report::{HostStatus, ServiceStatus};

/// The kind of the service that answers; it has no name.
const KIND: &str = "status";

/// Answers those who ask for the status of a host, until it is dropped. The host runs on while it
/// is there.
#[derive(Debug)]
pub struct StatusServer(JoinHandle<()>);

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Host {
    /// Answers hosts of the cluster that ask for the status of this one.
    ///
    /// # Errors
    /// If it does so already, has stopped, or there is no tokio runtime.
    pub fn answer_status(&self) -> Result<StatusServer, StartError> {
        tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (node, events) = self.start_status()?;
        Ok(StatusServer(tokio::spawn(answer(self.clone(), node, events))))
    }

    /// The status of this host.
    pub async fn status(&self) -> HostStatus {
        HostStatus::new(self.id(), self.report().await)
    }

    /// Asks the host at this address, in a form of [`PeerSource`](crate::PeerSource), for its
    /// status. `within` is the time for its answer. If several hosts are found there, the first one
    /// that answers counts.
    ///
    /// # Errors
    /// If the address has none of the forms or cannot be resolved, no host answers in time, or this
    /// host answers questions itself.
    pub async fn ask_status(
        &self,
        peer: impl AsRef<str>,
        within: Duration,
    ) -> Result<HostStatus, StatusError> {
        let peer = peer.as_ref();
        let forms = peers::parse(&[peer]).map_err(PeerError::from)?;
        let no_address = StatusError::NoAddress(peer.to_owned());
        let mut peers = Peers::resolve(forms, self.resolver(), no_address).await?;
        let (node, mut events) = self.start_status()?;
        // An answer to an earlier question of this host has another number.
        let number = node.incarnation();
        node.command(Command::Ask { number })?;
        node.seek(peers.addresses())?;
        let mut found = Found::default();
        let answered = peers.seek_until(&node, ask::answer(&mut events, &mut found));
        let answered = tokio::time::timeout(within, answered).await;
        node.stop().await;
        match (answered, found.0) {
            (Ok(status), _) => Ok(status?),
            (Err(_), Some(host)) => {
                Err(StatusError::NoStatus { host, peers: peers.listed(), within })
            }
            (Err(_), None) => Err(StatusError::Unanswered { peers: peers.listed(), within }),
        }
    }

    fn start_status(&self) -> Result<(Node<Status>, Events<Status>), StartError> {
        self.endpoint()?.start(ServiceNumber::of(KIND, ""), Status::new(), Arc::new(()))
    }
}

/// Answers questions one after another, in the order in which they came.
async fn answer(host: Host, node: Node<Status>, mut events: Events<Status>) {
    while let Some(event) = events.recv().await {
        if let Event::Asked { from, number } = event {
            let report = host.report().await;
            // If the host has stopped, the events end.
            let _ = node.command(Command::Answer { to: from, number, report });
        }
    }
}
