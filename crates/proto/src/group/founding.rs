//! The agreement of hosts on the first view of their group: Paxos (Lamport, *The Part-Time
//! Parliament*, TOCS 1998, section 2), for one value.
//!
//! Each host that gathers is an acceptor. A quorum is any `expect` of them. The value is a
//! [`Founding`]: the members of the first view.
//!
//! # Why two groups are never created
//!
//! Any two quorums share a host if `expect` is more than half of the hosts that ever gather. A
//! first view is decided once a quorum has accepted it under one ballot. A later proposer needs the
//! promises of a quorum. The host that is in both quorums names the view that it accepted, and the
//! proposer must propose that view again. So all ballots from then on have one value. A host that
//! starts again has forgotten its promises and therefore counts as another host. No clock is
//! involved: a proposer that pauses between its promises and its proposal finds its ballot outbid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::message::{Ballot, Contact, Founding, FoundingBallot};
use crate::core::{Instant, NodeId};

/// What a host accepted last, and at which ballot.
type AcceptedFounding = Option<(FoundingBallot, Arc<Founding>)>;

/// What a host has promised and accepted since it began to gather.
#[derive(Debug, Default)]
pub(super) struct FoundingAcceptor {
    promised: Option<FoundingBallot>,
    accepted: AcceptedFounding,
}

impl FoundingAcceptor {
    /// Promises to take part in no attempt before this one. Returns what was accepted before, or
    /// the higher ballot that was promised.
    pub(super) fn prepare(
        &mut self,
        ballot: FoundingBallot,
    ) -> Result<AcceptedFounding, FoundingBallot> {
        self.promise(ballot)?;
        Ok(self.accepted.clone())
    }

    /// Accepts a first view, unless a higher ballot was promised, which it returns.
    pub(super) fn accept(
        &mut self,
        ballot: FoundingBallot,
        founding: Arc<Founding>,
    ) -> Result<(), FoundingBallot> {
        self.promise(ballot)?;
        self.accepted = Some((ballot, founding));
        Ok(())
    }

    fn promise(&mut self, ballot: FoundingBallot) -> Result<(), FoundingBallot> {
        match self.promised {
            Some(promised) if promised > ballot => Err(promised),
            _ => {
                self.promised = Some(ballot);
                Ok(())
            }
        }
    }
}

/// An attempt of this host to create the group.
#[derive(Debug)]
pub(super) struct FoundingAttempt {
    pub(super) ballot: FoundingBallot,
    expect: usize,
    promises: BTreeMap<NodeId, (Contact, AcceptedFounding)>,
    /// What is proposed, once `expect` hosts have promised.
    pub(super) founding: Option<Arc<Founding>>,
    accepted: BTreeSet<NodeId>,
    pub(super) since: Instant,
    pub(super) repeat_at: Instant,
}

impl FoundingAttempt {
    pub(super) fn new(ballot: FoundingBallot, expect: usize, now: Instant) -> FoundingAttempt {
        FoundingAttempt {
            ballot,
            expect,
            promises: BTreeMap::new(),
            founding: None,
            accepted: BTreeSet::new(),
            since: now,
            repeat_at: now,
        }
    }

    /// True if the host has answered the present step.
    pub(super) fn has_answered(&self, node: NodeId) -> bool {
        match self.founding {
            None => self.promises.contains_key(&node),
            Some(_) => self.accepted.contains(&node),
        }
    }

    /// A host has promised. Returns the proposal if this was the last promise that it needs.
    pub(super) fn note_promise(
        &mut self,
        contact: Contact,
        accepted: AcceptedFounding,
    ) -> Option<Arc<Founding>> {
        if self.founding.is_some() {
            return None;
        }
        self.promises.insert(contact.member.node, (contact, accepted));
        if self.promises.len() < self.expect {
            return None;
        }
        let accepted = self.promises.values().filter_map(|(_, accepted)| accepted.as_ref());
        let founding = match accepted.max_by_key(|(ballot, _)| *ballot) {
            // It may have been decided.
            Some((_, founding)) => founding.clone(),
            None => Arc::new(self.proposal()),
        };
        self.founding = Some(founding.clone());
        Some(founding)
    }

    /// A first view of the hosts that have promised.
    fn proposal(&self) -> Founding {
        let me = self.ballot.proposer.node;
        let contacts = self.promises.values().map(|(contact, _)| contact.clone());
        let (own, others): (Vec<Contact>, Vec<Contact>) =
            contacts.partition(|contact| contact.member.node == me);
        let made_at = Ballot { round: self.ballot.round, proposer: me };
        Founding { made_at, members: [own, others].concat() }
    }

    /// A host has accepted the proposal. Returns the first view if that decides it.
    pub(super) fn note_accepted(&mut self, node: NodeId) -> Option<Arc<Founding>> {
        let founding = self.founding.as_ref()?;
        self.accepted.insert(node);
        (self.accepted.len() >= self.expect).then(|| founding.clone())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::core::Member;

    fn contact(node: u32) -> Contact {
        let member = Member { node: NodeId::from(node), incarnation: 7 };
        Contact { member, host: 0, token: 0, address: Bytes::new() }
    }

    fn ballot(round: u32, node: u32) -> FoundingBallot {
        FoundingBallot { round, proposer: contact(node).member }
    }

    fn nodes(founding: &Founding) -> Vec<u64> {
        founding.members.iter().map(|contact| contact.member.node.0).collect()
    }

    #[test]
    fn the_first_view_has_its_proposer_first_and_exactly_the_hosts_that_promised() {
        let mut attempt = FoundingAttempt::new(ballot(1, 3), 3, Instant::ZERO);
        assert_eq!(attempt.note_promise(contact(3), None), None);
        assert_eq!(attempt.note_promise(contact(3), None), None);
        assert_eq!(attempt.note_promise(contact(8), None), None);
        let founding = attempt.note_promise(contact(1), None).unwrap();
        assert_eq!(nodes(&founding), [3, 1, 8]);
        assert_eq!(attempt.note_promise(contact(2), None), None);
        assert_eq!(attempt.note_accepted(NodeId(1)), None);
        assert_eq!(attempt.note_accepted(NodeId(1)), None);
        assert_eq!(attempt.note_accepted(NodeId(2)), None);
        assert_eq!(attempt.note_accepted(NodeId(9)), Some(founding));
    }

    #[test]
    fn a_proposer_adopts_what_was_accepted_at_the_highest_ballot() {
        let founding = |round, node| {
            let made_at = Ballot { round, proposer: NodeId::from(node) };
            Arc::new(Founding { made_at, members: vec![contact(node)] })
        };
        let mut attempt = FoundingAttempt::new(ballot(9, 3), 3, Instant::ZERO);
        attempt.note_promise(contact(3), Some((ballot(2, 5), founding(2, 5))));
        attempt.note_promise(contact(4), Some((ballot(3, 4), founding(1, 6))));
        let adopted = attempt.note_promise(contact(5), None);
        assert_eq!(adopted, Some(founding(1, 6)));
    }

    #[test]
    fn a_host_that_has_promised_answers_no_lower_ballot() {
        let mut acceptor = FoundingAcceptor::default();
        let made_at = Ballot { round: 1, proposer: NodeId(1) };
        let founding = Arc::new(Founding { made_at, members: vec![contact(1)] });
        assert_eq!(acceptor.prepare(ballot(1, 1)), Ok(None));
        assert_eq!(acceptor.prepare(ballot(1, 1)), Ok(None));
        assert_eq!(acceptor.accept(ballot(1, 1), founding.clone()), Ok(()));
        assert_eq!(acceptor.prepare(ballot(1, 2)), Ok(Some((ballot(1, 1), founding.clone()))));
        assert_eq!(acceptor.prepare(ballot(1, 1)), Err(ballot(1, 2)));
        assert_eq!(acceptor.accept(ballot(1, 1), founding), Err(ballot(1, 2)));
    }

    #[test]
    fn two_runs_of_a_host_have_different_ballots() {
        let again = FoundingBallot {
            proposer: Member { incarnation: 8, ..contact(1).member },
            ..ballot(1, 1)
        };
        let mut acceptor = FoundingAcceptor::default();
        assert_eq!(acceptor.prepare(again), Ok(None));
        assert_eq!(acceptor.prepare(ballot(1, 1)), Err(again));
    }
}
