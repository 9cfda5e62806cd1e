//! Why a host does not enter a service although its peers answer: they run another one, or none.

use std::time::Duration;

use paceline_net::{Hosted, Mismatch, Node, PeerMismatch};

use crate::join_error::JoinError;
use crate::peers::Peers;

/// How often a host that enters looks whether a peer runs another service of the name.
const DIFFERS_EVERY: Duration = Duration::from_millis(100);
/// How long it then waits for peers that run the same one.
const DIFFERS_AFTER: Duration = Duration::from_secs(1);

/// Waits until as many peers run another service under the name of this one, and gives others a
/// second to answer.
pub(crate) async fn differs<P: Hosted>(node: &Node<P>, peers: usize) {
    let differs = |peer: &PeerMismatch| matches!(peer.mismatch, Mismatch::Differs(_));
    while node.mismatches().into_iter().filter(differs).count() < peers {
        tokio::time::sleep(DIFFERS_EVERY).await;
    }
    tokio::time::sleep(DIFFERS_AFTER).await;
}

/// Asks the peers until the service is entered; `None` if its time ends before, or all peers run
/// another service under its name.
pub(crate) async fn entered<P: Hosted, T>(
    node: &Node<P>,
    peers: &mut Peers,
    within: Duration,
    entering: impl Future<Output = T>,
) -> Option<T> {
    let differ = differs(node, peers.all());
    tokio::select! {
        biased;
        result = peers.seek_until(node, entering) => Some(result),
        () = differ => None,
        () = tokio::time::sleep(within) => None,
    }
}

/// Why no host let this one enter: a peer runs another service under this name, or none, or no peer
/// answered.
pub(crate) fn unanswered<P: Hosted>(
    node: &Node<P>,
    service: String,
    peers: String,
    within: Duration,
) -> JoinError {
    let mut not_run = Vec::new();
    for peer in node.mismatches() {
        match peer.mismatch {
            Mismatch::Differs(difference) => {
                let (host, address) = (peer.node, peer.address);
                return JoinError::Differs { service, host, address, difference };
            }
            Mismatch::NotRun => not_run.push(format!("{} at {}", peer.node, peer.address)),
        }
    }
    match not_run.is_empty() {
        true => JoinError::Unanswered { service, peers, within },
        false => JoinError::NotRun { service, hosts: not_run.join(", "), within },
    }
}
