//! How many replies a request to all members of a view waits for.

use super::interface::RequestFailure;
use crate::core::{Member, View};

/// The replies that a request to all members waits for. All members of the view count, also the
/// one that asks, which gets the request as the others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// The first reply.
    First,
    /// Replies of more than half of the members.
    Majority,
    /// Replies of all members.
    All,
    /// This many replies; 0 means 1.
    Count(usize),
}

impl Quorum {
    /// Replies that it takes in a view of this many members; may be more than the members.
    pub fn replies_needed(self, members: usize) -> usize {
        match self {
            Quorum::First => 1,
            Quorum::Majority => members / 2 + 1,
            Quorum::All => members.max(1),
            Quorum::Count(replies) => replies.max(1),
        }
    }
}

/// Whether a request to all members is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes more replies, and enough members may still reply.
    Open,
    /// Enough members have replied.
    Met,
    /// Too few members are left that may still reply.
    Missed,
}

/// The outcomes of a request to all members of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally<R> {
    // By rank in the view; `None` while a member has not answered.
    outcomes: Vec<(Member, Option<Result<R, RequestFailure>>)>,
    needed: usize,
    replies: usize,
    open: usize,
}

impl<R> Tally<R> {
    /// No member has answered.
    pub fn new(view: &View, quorum: Quorum) -> Tally<R> {
        let members = view.members();
        let outcomes = members.iter().map(|&member| (member, None)).collect();
        let needed = quorum.replies_needed(members.len());
        Tally { outcomes, needed, replies: 0, open: members.len() }
    }

    /// The request to a member has ended. Only its first outcome counts, and none of a member
    /// outside of the view.
    pub fn note(&mut self, member: Member, outcome: Result<R, RequestFailure>) {
        let place = self.outcomes.iter_mut().find(|(of, known)| *of == member && known.is_none());
        let Some((_, known)) = place else { return };
        self.open -= 1;
        self.replies += usize::from(outcome.is_ok());
        *known = Some(outcome);
    }

    /// Whether it is over.
    pub fn verdict(&self) -> Verdict {
        if self.replies >= self.needed {
            Verdict::Met
        } else if self.replies + self.open < self.needed {
            Verdict::Missed
        } else {
            Verdict::Open
        }
    }

    /// Replies that it takes.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// The members of the view, oldest first, each with its outcome; `None` for one that has not
    /// answered.
    pub fn into_outcomes(self) -> Vec<(Member, Option<Result<R, RequestFailure>>)> {
        self.outcomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{NodeId, ViewId};

    fn member(node: u64) -> Member {
        Member { node: NodeId(node), incarnation: 7 }
    }

    fn tally(members: u64, quorum: Quorum) -> Tally<u64> {
        Tally::new(&View::new(ViewId(1), (0..members).map(member)), quorum)
    }

    /// After these outcomes, by node: a reply or none.
    fn verdict(members: u64, quorum: Quorum, outcomes: &[(u64, bool)]) -> Verdict {
        let mut tally = tally(members, quorum);
        for &(node, is_reply) in outcomes {
            let outcome = if is_reply { Ok(node) } else { Err(RequestFailure::Departed) };
            tally.note(member(node), outcome);
        }
        tally.verdict()
    }

    #[test]
    fn a_quorum_is_met_with_its_replies_and_missed_once_too_few_can_reply() {
        let (yes, no) = (true, false);
        assert_eq!(verdict(3, Quorum::First, &[(0, no), (1, no)]), Verdict::Open);
        assert_eq!(verdict(3, Quorum::First, &[(0, no), (1, yes)]), Verdict::Met);
        assert_eq!(verdict(3, Quorum::First, &[(0, no), (1, no), (2, no)]), Verdict::Missed);
        assert_eq!(verdict(4, Quorum::Majority, &[(0, yes), (1, yes)]), Verdict::Open);
        assert_eq!(verdict(4, Quorum::Majority, &[(0, yes), (1, yes), (3, yes)]), Verdict::Met);
        assert_eq!(verdict(4, Quorum::Majority, &[(0, no), (1, no)]), Verdict::Missed);
        assert_eq!(verdict(5, Quorum::Majority, &[(0, no), (1, no), (2, yes)]), Verdict::Open);
        assert_eq!(verdict(2, Quorum::All, &[(1, no)]), Verdict::Missed);
        assert_eq!(verdict(2, Quorum::All, &[(1, yes), (0, yes)]), Verdict::Met);
        assert_eq!(verdict(2, Quorum::Count(3), &[]), Verdict::Missed);
        assert_eq!(verdict(2, Quorum::Count(0), &[]), Verdict::Open);
    }

    #[test]
    fn the_first_outcome_of_a_member_counts_and_none_of_a_stranger() {
        let mut tally = tally(2, Quorum::All);
        tally.note(member(1), Err(RequestFailure::TimedOut));
        tally.note(member(1), Ok(5));
        tally.note(member(9), Ok(6));
        tally.note(Member { node: NodeId(0), incarnation: 8 }, Ok(7));
        assert_eq!((tally.verdict(), tally.needed()), (Verdict::Missed, 2));
        let expected = vec![(member(0), None), (member(1), Some(Err(RequestFailure::TimedOut)))];
        assert_eq!(tally.into_outcomes(), expected);
    }
}
