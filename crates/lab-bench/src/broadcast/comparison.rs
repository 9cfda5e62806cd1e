use std::path::Path;

use paceline_lab::{LabError, Progress};
use serde::Serialize;

use super::jgroups::JGroups;
use super::peer::{PeerPlan, PeerRow};
use super::{BenchPlan, BenchRow, run};
use crate::peers::{Comparison, Figure, Peers};

/// Another implementation of broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// JGroups, by TCP and DAISYCHAIN.
    JGroups,
}

/// Paceline beside another implementation of broadcast.
pub type BroadcastComparison = Comparison<Peer, BenchRow, PeerRow>;

/// The figures that are compared. Those of links are left out where these are not shaped.
const FIGURES: [Figure<BenchRow, PeerRow>; 5] = [
    ("mb_per_node_per_s", |ours| Some(ours.mb_per_node_per_s), |row| Some(row.mb_per_node_per_s)),
    ("limit_share", |ours| ours.limit_share, |row| row.limit_share),
    ("p50_ms", |ours| Some(ours.p50_ms), |row| Some(row.p50_ms)),
    ("p99_ms", |ours| Some(ours.p99_ms), |row| Some(row.p99_ms)),
    ("cpu_s_per_gb", |ours| Some(ours.cpu_s_per_gb), |row| Some(row.cpu_s_per_gb)),
];

/// Runs Paceline and the peer in turn, on the same network. What the user stops keeps the pairs
/// that are complete.
///
/// # Errors
/// [`LabError::Unsupported`] if the peer is not installed, before anything runs.
pub fn compare(
    plan: &BenchPlan,
    peer: Peer,
    pairs: u32,
    program: &Path,
    progress: &dyn Progress,
) -> Result<BroadcastComparison, LabError> {
    let Peer::JGroups = peer;
    let peer_plan = PeerPlan::of(plan)?;
    let installation = JGroups::find(&peer_plan)?;
    let peers = Peers {
        paceline: || run(plan, program, progress),
        peer: |label: &str| installation.run(&peer_plan, progress, label),
    };
    Comparison::run((peer, installation.name()), pairs, peers, &FIGURES, progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Pair, Spread};

    fn pair(paceline_mb: f64, peer_mb: f64, limit_share: Option<f64>) -> Pair<BenchRow, PeerRow> {
        let paceline = BenchRow {
            nodes: 4,
            membership: "fixed",
            rate_mbit: limit_share.map(|_| 100.0),
            senders: "one".to_owned(),
            topology: "chain",
            message_bytes: 200,
            seconds: 5.0,
            mb_per_node_per_s: paceline_mb,
            limit_mb_per_node_per_s: limit_share.map(|_| 12.0),
            limit_share,
            p50_ms: 5.0,
            p99_ms: 10.0,
            quiet_p99_ms: None,
            quiet_messages: 0,
            cpu_s_per_gb: 2.0,
            fairness: None,
            starved: Vec::new(),
            faults: 0,
            seconds_without_progress: 0,
            load: 0.5,
        };
        let peer = PeerRow {
            seconds: 5.0,
            mb_per_node_per_s: peer_mb,
            limit_mb_per_node_per_s: paceline.limit_mb_per_node_per_s,
            limit_share,
            p50_ms: 50.0,
            p99_ms: 100.0,
            send_p99_ms: 20.0,
            cpu_s_per_gb: 20.0,
            fairness: None,
            load: 0.5,
        };
        Pair { paceline, peer }
    }

    #[test]
    fn ratios_are_of_the_runs_of_a_pair() {
        let pairs = vec![pair(8.0, 4.0, Some(0.5)), pair(9.0, 9.0, Some(0.5))];
        let comparison = Comparison::of(Peer::JGroups, "5".to_owned(), pairs, &FIGURES);
        let rate = &comparison.figures[0];
        assert_eq!((rate.figure, rate.paceline.median, rate.peer.median), (FIGURES[0].0, 8.5, 6.5));
        assert_eq!(rate.ratio, Spread { median: 1.5, least: 1.0, greatest: 2.0 });
        assert_eq!(comparison.figures.len(), FIGURES.len());
        let latency = &comparison.figures[2];
        assert_eq!((latency.figure, latency.ratio.median), ("p50_ms", 0.1));
    }

    #[test]
    fn links_that_are_not_shaped_have_no_limit_to_compare_with() {
        let pairs = vec![pair(8.0, 4.0, None)];
        let comparison = Comparison::of(Peer::JGroups, "5".to_owned(), pairs, &FIGURES);
        assert!(comparison.figures.iter().all(|compared| compared.figure != "limit_share"));
        assert_eq!(comparison.figures.len(), FIGURES.len() - 1);
    }
}
