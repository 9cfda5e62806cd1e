//! How services leave, and how their host ends with them.

use std::pin::Pin;
use std::time::Duration;

use paceline_net::{Closed, Hosted, Node};
use paceline_proto::core::MembershipCommand;
use thiserror::Error;
use tokio::task::JoinSet;

use crate::{DiskError, Host};

/// How long leaving a service may take, unless its builder says otherwise.
pub(crate) const LEAVE_WITHIN: Duration = Duration::from_secs(15);

/// Why a service did not leave in order. It has ended in any case.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The other members had not let it go by then, such as those of a group without a quorum. They
    /// detect a crash.
    #[error("it had not left within {within:?}: the other members detect a crash")]
    TimedOut {
        /// How long was waited.
        within: Duration,
    },
    /// The file of a durable table could not be written. What its error names as written is in the
    /// file, and other hosts hold copies.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It had ended before, or its host had stopped: others have detected a crash, unless it had
    /// left.
    #[error("the service or its host has stopped")]
    Closed,
}

impl From<Closed> for LeaveError {
    fn from(Closed: Closed) -> LeaveError {
        LeaveError::Closed
    }
}

/// The future of a service that leaves.
pub(crate) type Leaving<'a> = Pin<Box<dyn Future<Output = Result<(), LeaveError>> + Send + 'a>>;

/// Leaves, then ends the service. The application need not read the events.
pub(crate) async fn leave<P>(node: &Node<P>, within: Duration) -> Result<(), LeaveError>
where
    P: Hosted<Command: From<MembershipCommand>>,
{
    let left = depart(node, within).await;
    node.stop().await;
    left
}

/// Leaves; the service goes on without being a member.
pub(crate) async fn depart<P>(node: &Node<P>, within: Duration) -> Result<(), LeaveError>
where
    P: Hosted<Command: From<MembershipCommand>>,
{
    node.command(MembershipCommand::Leave.into())?;
    match tokio::time::timeout(within, node.departed()).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(LeaveError::Closed),
        Err(_) => Err(LeaveError::TimedOut { within }),
    }
}

/// How a host ended; returned by [`Host::stop`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostStopped {
    /// The services that did not leave in order. To their other members it looks like a crash.
    pub not_left: Vec<NotLeft>,
    /// Bytes to other hosts that the kernel had not taken when the ports were closed.
    pub abandoned_bytes: usize,
}

impl HostStopped {
    /// True if all services have left, and all bytes were sent.
    pub fn is_orderly(&self) -> bool {
        self.not_left.is_empty() && self.abandoned_bytes == 0
    }
}

/// A service that did not leave in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotLeft {
    /// Its kind, as in the status of a host: `group`, `multicast`, `dht/chord` and the like.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub error: LeaveError,
}

impl Host {
    /// Leaves all services at the same time, sends what is queued, and closes the ports. Services
    /// that have not left after [`stop_within`](crate::HostBuilder::stop_within) end without; what
    /// is queued then has one second more. No service starts from now on. Applications may go on
    /// reading events; a group whose members wait for this one to read may not let it go otherwise.
    ///
    /// Returns at once, and reports nothing, if the host has already stopped.
    pub async fn stop(&self) -> HostStopped {
        self.refuse_services();
        let within = self.stop_within();
        let mut leaving = JoinSet::new();
        for (kind, name, service) in self.registry().attached() {
            leaving.spawn(async move {
                let left = tokio::time::timeout(within, service.leave()).await;
                let error = match left.unwrap_or(Err(LeaveError::TimedOut { within })) {
                    // One that was closed meanwhile was ended by its own handle.
                    Ok(()) | Err(LeaveError::Closed) => return None,
                    Err(error) => error,
                };
                Some(NotLeft { kind, name, error })
            });
        }
        let mut not_left: Vec<NotLeft> = leaving.join_all().await.into_iter().flatten().collect();
        not_left.sort_by(|one, other| (&one.kind, &one.name).cmp(&(&other.kind, &other.name)));
        let abandoned_bytes = self.close().await;
        HostStopped { not_left, abandoned_bytes }
    }

    /// Ends all services without leaving them, sends what is queued for at most one second, and
    /// closes the ports. To other members it looks like a crash of the services that have not left.
    pub async fn abort(&self) {
        self.refuse_services();
        self.close().await;
    }
}
