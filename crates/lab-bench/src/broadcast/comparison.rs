use std::path::Path;

use paceline_lab::{LabError, Progress};
use serde::Serialize;

use super::jgroups::Installation;
use super::peer::{PeerPlan, PeerRow};
use super::{BenchPlan, BenchRow, run};

/// Another implementation of broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// JGroups, by TCP and DAISYCHAIN.
    JGroups,
}

/// A run of Paceline and one of the peer, right after it.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Paceline's.
    pub paceline: BenchRow,
    /// The peer's.
    pub peer: PeerRow,
}

/// A figure over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number the mean of the middle two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Spread {
    /// Of these values. Of none, not a number.
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        let median = (at(last / 2) + at(values.len() / 2)) / 2.0;
        Spread { median, least: at(0), greatest: at(last) }
    }
}

/// A figure of both.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The figure's name, a key of both rows.
    pub figure: &'static str,
    /// Paceline's runs.
    pub paceline: Spread,
    /// The peer's.
    pub peer: Spread,
    /// Paceline's over the peer's, pair by pair.
    pub ratio: Spread,
}

/// Paceline beside another implementation.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Which.
    pub peer: Peer,
    /// Its version and what it ran on.
    pub version: String,
    /// The runs, in their order.
    pub pairs: Vec<Pair>,
    /// The figures of all runs.
    pub figures: Vec<Compared>,
}

/// The figures that are compared. Those of links are left out where these are not shaped.
type Figure = (&'static str, fn(&BenchRow) -> Option<f64>, fn(&PeerRow) -> Option<f64>);
const FIGURES: [Figure; 5] = [
    ("mb_per_node_per_s", |ours| Some(ours.mb_per_node_per_s), |row| Some(row.mb_per_node_per_s)),
    ("limit_share", |ours| ours.limit_share, |row| row.limit_share),
    ("p50_ms", |ours| Some(ours.p50_ms), |row| Some(row.p50_ms)),
    ("p99_ms", |ours| Some(ours.p99_ms), |row| Some(row.p99_ms)),
    ("cpu_s_per_gb", |ours| Some(ours.cpu_s_per_gb), |row| Some(row.cpu_s_per_gb)),
];

impl Comparison {
    fn of(peer: Peer, version: String, pairs: Vec<Pair>) -> Comparison {
        let compared = |&(figure, ours, theirs): &Figure| {
            let values: Vec<(f64, f64)> = pairs
                .iter()
                .filter_map(|pair| ours(&pair.paceline).zip(theirs(&pair.peer)))
                .collect();
            (!values.is_empty()).then(|| Compared {
                figure,
                paceline: Spread::of(values.iter().map(|(ours, _)| *ours)),
                peer: Spread::of(values.iter().map(|(_, theirs)| *theirs)),
                ratio: Spread::of(values.iter().map(|(ours, theirs)| ours / theirs)),
            })
        };
        let figures = FIGURES.iter().filter_map(compared).collect();
        Comparison { peer, version, pairs, figures }
    }
}

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
) -> Result<Comparison, LabError> {
    let Peer::JGroups = peer;
    let peer_plan = PeerPlan::of(plan)?;
    let installation = Installation::find()?;
    installation.check(&peer_plan)?;
    let mut version = String::new();
    let mut complete = Vec::new();
    for number in 1..=pairs {
        let label = format!("JGroups, pair {number} of {pairs}");
        let mut pair = || {
            let paceline = run(plan, program, progress)?;
            if progress.stopped() {
                return Err(LabError::StoppedEarly);
            }
            let (of, peer) = installation.run(&peer_plan, progress, &label)?;
            version = of;
            Ok(Pair { paceline, peer })
        };
        match pair() {
            Ok(pair) => complete.push(pair),
            Err(LabError::StoppedEarly) if !complete.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Comparison::of(peer, version, complete))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_median_least_and_greatest() {
        let of = |values: &[f64]| {
            let Spread { median, least, greatest } = Spread::of(values.iter().copied());
            [median, least, greatest]
        };
        assert_eq!(of(&[3.0, 1.0, 2.0]), [2.0, 1.0, 3.0]);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), [2.5, 1.0, 4.0]);
        assert_eq!(of(&[7.0]), [7.0, 7.0, 7.0]);
        assert!(of(&[])[0].is_nan());
    }

    fn pair(paceline_mb: f64, peer_mb: f64, limit_share: Option<f64>) -> Pair {
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
        let comparison = Comparison::of(Peer::JGroups, "5".to_owned(), pairs);
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
        let comparison = Comparison::of(Peer::JGroups, "5".to_owned(), pairs);
        assert!(comparison.figures.iter().all(|compared| compared.figure != "limit_share"));
        assert_eq!(comparison.figures.len(), FIGURES.len() - 1);
    }
}
