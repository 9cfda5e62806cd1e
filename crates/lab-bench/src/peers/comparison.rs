use paceline_lab::{LabError, Progress};
use serde::Serialize;

/// A run of Paceline and one of the peer, right after it.
#[derive(Clone, Debug, Serialize)]
pub struct Pair<Ours, Theirs> {
    /// Paceline's.
    pub paceline: Ours,
    /// The peer's.
    pub peer: Theirs,
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
    /// Paceline's over the peer's, pair by pair; null where both are 0.
    pub ratio: Spread,
}

/// A figure that is compared: its name, and its values in both rows, if these have it.
pub(crate) type Figure<Ours, Theirs> =
    (&'static str, fn(&Ours) -> Option<f64>, fn(&Theirs) -> Option<f64>);

/// Paceline beside another implementation.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison<Peer, Ours, Theirs> {
    /// Which.
    pub peer: Peer,
    /// Its version and what it ran on.
    pub version: String,
    /// The runs, in their order.
    pub pairs: Vec<Pair<Ours, Theirs>>,
    /// The figures of all runs.
    pub figures: Vec<Compared>,
}

/// The two that run in turn.
pub(crate) struct Peers<Ours, Theirs> {
    /// Runs Paceline.
    pub(crate) paceline: Ours,
    /// Runs the peer, under this label of the progress, and gives its version and its row.
    pub(crate) peer: Theirs,
}

impl<Peer, Ours, Theirs> Comparison<Peer, Ours, Theirs> {
    /// Runs both in turn. What the user stops keeps the pairs that are complete.
    pub(crate) fn run(
        (peer, name): (Peer, &str),
        pairs: u32,
        mut peers: Peers<
            impl FnMut() -> Result<Ours, LabError>,
            impl FnMut(&str) -> Result<(String, Theirs), LabError>,
        >,
        figures: &[Figure<Ours, Theirs>],
        progress: &dyn Progress,
    ) -> Result<Self, LabError> {
        let mut version = String::new();
        let mut complete = Vec::new();
        for number in 1..=pairs {
            let mut pair = || {
                let paceline = (peers.paceline)()?;
                if progress.stopped() {
                    return Err(LabError::StoppedEarly);
                }
                let label = format!("{name}, pair {number} of {pairs}");
                let (of, peer) = (peers.peer)(&label)?;
                version = of;
                Ok(Pair { paceline, peer })
            };
            match pair() {
                Ok(pair) => complete.push(pair),
                Err(LabError::StoppedEarly) if !complete.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Comparison::of(peer, version, complete, figures))
    }

    /// Compares these figures of the pairs. A figure that no pair has is left out.
    pub(crate) fn of(
        peer: Peer,
        version: String,
        pairs: Vec<Pair<Ours, Theirs>>,
        figures: &[Figure<Ours, Theirs>],
    ) -> Self {
        let compared = |&(figure, ours, theirs): &Figure<Ours, Theirs>| {
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
        let figures = figures.iter().filter_map(compared).collect();
        Comparison { peer, version, pairs, figures }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

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

    /// A row with one figure, and one that it may lack.
    type Row = (f64, Option<f64>);
    const FIGURES: [Figure<Row, Row>; 2] =
        [("rate", |row| Some(row.0), |row| Some(row.0)), ("limit_share", |row| row.1, |row| row.1)];

    #[test]
    fn ratios_are_of_the_runs_of_a_pair_and_a_figure_that_is_missing_is_left_out() {
        let pair =
            |paceline: f64, peer: f64| Pair { paceline: (paceline, None), peer: (peer, None) };
        let pairs = vec![pair(8.0, 4.0), pair(9.0, 9.0)];
        let comparison = Comparison::of("peer", "5".to_owned(), pairs, &FIGURES);
        assert_eq!(comparison.figures.len(), 1);
        let rate = &comparison.figures[0];
        assert_eq!((rate.figure, rate.paceline.median, rate.peer.median), ("rate", 8.5, 6.5));
        assert_eq!(rate.ratio, Spread { median: 1.5, least: 1.0, greatest: 2.0 });
    }

    #[test]
    fn runs_alternate_and_what_is_stopped_keeps_the_complete_pairs() {
        struct StoppedAfter(AtomicU32);
        impl Progress for StoppedAfter {
            fn stopped(&self) -> bool {
                self.0.load(Ordering::Relaxed) == 0
            }
        }
        let run = |runs: u32| {
            let progress = StoppedAfter(AtomicU32::new(runs));
            let ended = || progress.0.fetch_sub(1, Ordering::Relaxed);
            let peers = Peers {
                paceline: || {
                    ended();
                    Ok((1.0, None))
                },
                peer: |label: &str| {
                    ended();
                    Ok((label.to_owned(), (2.0, None)))
                },
            };
            Comparison::run(("peer", "Peer"), 5, peers, &FIGURES, &progress)
        };
        let comparison = run(5).expect("two pairs are complete");
        assert_eq!((comparison.pairs.len(), &*comparison.version), (2, "Peer, pair 2 of 5"));
        assert!(matches!(run(1), Err(LabError::StoppedEarly)));
    }
}
