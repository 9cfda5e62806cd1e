//! The entry of a digest for the packets of one sender.

use std::fmt;
use std::ops::Range;

use paceline_proto::core::DecodeError;
use paceline_proto::core::field::{List, fields};
use paceline_proto::slingshot::flow::{Flow, Slot};

/// The maximum number of runs of one sender in a digest: those of 64 gaps. Older ones are left out.
const RUNS_MAX: usize = 129;

fields! {
    /// The packets of one sender that a gossiper holds.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Origin {
        /// The sender's rank in the view of the digest.
        pub rank: u16,
        /// The lower half of the sender's incarnation.
        pub life: u32,
        /// The lower half of the number of the last packet that is held.
        pub last: u32,
        /// How many packets in a row are held, then how many are not, and so on in turn, from the
        /// last one backwards. It ends with a run that is held, and no run is empty.
        pub runs: Vec<u16> as List<RUNS_MAX, 1> where alternate,
    }
}

fn alternate(runs: &[u16]) -> Result<(), DecodeError> {
    let out_of_range = |value| Err(DecodeError::OutOfRange { field: "runs", value });
    match runs.len() % 2 {
        0 => out_of_range(runs.len() as u64),
        _ if runs.contains(&0) => out_of_range(0),
        _ => Ok(()),
    }
}

impl Origin {
    /// The held packets of the sender of this rank; `None` if there are none.
    pub(super) fn of(rank: usize, flow: &Flow) -> Option<Origin> {
        let life = flow.source.incarnation? as u32;
        let is_held = |&seq: &u64| matches!(flow.slot(seq), Some(Slot::Held(_)));
        let last = (flow.base()..flow.next()).rev().find(is_held)?;
        let mut runs: Vec<u16> = vec![0];
        for seq in (flow.base()..=last).rev() {
            // Runs at even places are of packets that are held.
            if is_held(&seq) != (runs.len() % 2 == 1) {
                if runs.len() == RUNS_MAX {
                    break;
                }
                runs.push(0);
            }
            let run = runs.last_mut().expect("there is always one");
            let Some(longer) = run.checked_add(1) else { break };
            *run = longer;
        }
        if runs.len().is_multiple_of(2) {
            runs.pop();
        }
        Some(Origin { rank: rank as u16, life, last: last as u32, runs })
    }

    /// The numbers of the packets that are held, where the last one is this, the latest run first.
    pub(super) fn held(&self, last: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut end = Some(last + 1);
        let runs = self.runs.iter().map_while(move |&run| {
            let run_end = end?;
            end = run_end.checked_sub(run.into());
            Some(end.unwrap_or(0)..run_end)
        });
        runs.step_by(2)
    }
}

/// For a line of a trace: the rank, and the numbers that are held.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rank)?;
        self.held(self.last.into()).try_for_each(|run| write!(f, ".{}-{}", run.start, run.end - 1))
    }
}

/// For a line of a trace: each behind a space.
pub(super) struct Lines<'a>(pub(super) &'a [Origin]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|origin| write!(f, " {origin}"))
    }
}
