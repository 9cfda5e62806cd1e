//! Which faults are in effect, and since when the run is free of faults.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline_proto::core::{Instant, Loss, NodeId};

use paceline_sim::Fault;

/// How long after a fault has ended a member may still be excluded for it: no member detects the
/// end of a fault at once, and a view change that began before goes on, for `answer_within` by
/// default.
const EXCUSED_FOR: Duration = Duration::from_secs(2);

/// The faults of a run, as far as they have taken effect.
#[derive(Debug, Default)]
pub(super) struct Calm {
    is_cut: bool,
    // For good.
    is_severed: bool,
    is_lossy: bool,
    // Nothing was lost or held up by the network after this.
    passing_since: Instant,
    // When each node that stood still goes on, or went on.
    pauses: BTreeMap<NodeId, Instant>,
    // Nothing at all was wrong after this.
    quiet_since: Instant,
}

impl Calm {
    pub(super) fn note(&mut self, at: Instant, fault: &Fault) {
        let mut until = at;
        match fault {
            Fault::Partition(_) | Fault::Block(..) => self.is_cut = true,
            Fault::Heal => self.is_cut = false,
            Fault::Sever(..) => self.is_severed = true,
            Fault::Link { link, .. } if link.loss != Loss::None => self.is_lossy = true,
            Fault::Link { from: None, to: None, .. } => self.is_lossy = false,
            Fault::Pause(node, time) => {
                until = at + *time;
                let goes_on = self.pauses.entry(*node).or_default();
                *goes_on = until.max(*goes_on);
            }
            Fault::Reset(_, _, time) => until = at + *time,
            Fault::Crash(_)
            | Fault::CrashAmid { .. }
            | Fault::Restart(_)
            | Fault::Resume(_)
            | Fault::Link { .. } => {}
        }
        if matches!(
            fault,
            Fault::Partition(_) | Fault::Block(..) | Fault::Heal | Fault::Link { .. }
        ) {
            self.passing_since = at;
        }
        self.quiet_since = self.quiet_since.max(until);
    }

    /// Since when nothing has been wrong: no fault and no consequence of one that the driver knows
    /// of. `None` if something is, or was until later.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        (!self.is_cut && !self.is_severed && !self.is_lossy).then_some(self.quiet_since)
    }

    /// True if the node stood still, or the network lost or held up messages, now or not long ago.
    pub(super) fn excuses(&self, at: Instant, node: NodeId) -> bool {
        let is_recent = |end: Instant| end != Instant::ZERO && at <= end + EXCUSED_FOR;
        self.is_cut
            || self.is_severed
            || self.is_lossy
            || is_recent(self.passing_since)
            || self.pauses.get(&node).is_some_and(|&end| is_recent(end))
    }
}
