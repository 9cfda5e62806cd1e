//! The claim of one run to an id that another run has, and its outcome.

use std::time::Duration;

use paceline_proto::core::Instant;

/// Silence during questions, after which the run at the known address counts as ended.
const HOLDER_SILENT: Duration = Duration::from_secs(1);
/// Fewest questions to that run before its silence counts.
const PROBES_MIN: u32 = 3;
/// A claim that is not repeated within this time is forgotten.
const CLAIM_KEPT: Duration = Duration::from_secs(3);

/// Another run claims the id from another address than the known one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Claim {
    since: Instant,
    last: Instant,
    /// Questions sent to the known address since then.
    pub(super) probes: u32,
    /// When the known run last answered such a question.
    answered_at: Instant,
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The known run has not answered yet, and has time left.
    Wait,
    /// The known run answered.
    Refused,
    /// The known run is silent.
    Granted,
}

impl Claim {
    /// Renews the claim. The caller then asks the known run, unless it has just done so.
    pub(super) fn renew(&mut self, now: Instant) {
        if self.probes == 0 || now.since(self.last) > CLAIM_KEPT {
            *self = Claim { since: now, ..Claim::default() };
        }
        self.last = now;
    }

    /// Notes that the known run has answered.
    pub(super) fn note_answer(&mut self, now: Instant) {
        self.answered_at = now;
    }

    pub(super) fn verdict(&self, heard_at: Instant, now: Instant) -> Verdict {
        let silent_since = self.since.max(heard_at).max(self.answered_at);
        if now.since(silent_since) >= HOLDER_SILENT && self.probes >= PROBES_MIN {
            Verdict::Granted
        } else if self.answered_at >= self.since {
            Verdict::Refused
        } else {
            Verdict::Wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// A claim that is renewed every 200 ms, each time with a question to the known run.
    fn renewed(claim: &mut Claim, millis: std::ops::Range<u64>) {
        for now in millis.step_by(200) {
            claim.renew(at(now));
            claim.probes += 1;
        }
    }

    #[test]
    fn a_claim_is_granted_after_a_second_in_which_the_known_run_was_asked_and_silent() {
        let mut claim = Claim::default();
        renewed(&mut claim, 5000..5900);
        assert_eq!(claim.verdict(at(4990), at(5900)), Verdict::Wait);
        assert_eq!(claim.verdict(at(4990), at(6000)), Verdict::Granted);
        assert_eq!(claim.verdict(at(5200), at(6000)), Verdict::Wait, "a late datagram");
    }

    #[test]
    fn a_claim_is_refused_while_the_known_run_answers_and_granted_once_it_stops() {
        let mut claim = Claim::default();
        renewed(&mut claim, 5000..5300);
        claim.note_answer(at(5300));
        assert_eq!(claim.verdict(at(0), at(5400)), Verdict::Refused);
        assert_eq!(claim.verdict(at(0), at(6299)), Verdict::Refused);
        renewed(&mut claim, 5400..6200);
        assert_eq!(claim.verdict(at(0), at(6300)), Verdict::Granted);
    }

    #[test]
    fn silence_counts_only_after_three_questions_and_a_claim_dropped_begins_again() {
        let mut claim = Claim::default();
        renewed(&mut claim, 5000..5300);
        assert_eq!(claim.verdict(at(0), at(7000)), Verdict::Wait, "asked twice");
        renewed(&mut claim, 9000..9100);
        assert_eq!(claim.verdict(at(0), at(9500)), Verdict::Wait);
        assert_eq!((claim.since, claim.probes), (at(9000), 1));
    }
}
