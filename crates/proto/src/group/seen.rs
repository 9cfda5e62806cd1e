//! A member's state as seen from outside, for checkers and for debugging.

use bytes::Bytes;

use super::Group;
use super::message::{Ballot, Proposal};
use crate::core::{Member, NodeId};
use crate::detector::Detector;

impl Group {
    /// The members whose addresses are known, by their rank in the view.
    pub fn contacts(&self) -> impl Iterator<Item = Member> {
        self.contacts.iter().map(|contact| contact.member)
    }

    /// The addresses that members of the view gave, by rank; empty if their applications gave none.
    pub fn addresses(&self) -> impl Iterator<Item = (NodeId, &Bytes)> {
        self.contacts.iter().map(|contact| (contact.member.node, &contact.address))
    }

    /// The nodes of which something is noted that ends with the view: that they leave, have
    /// not answered an attempt yet, or are taken for down.
    pub fn noted(&self) -> impl Iterator<Item = NodeId> {
        let noted =
            self.leavers.iter().chain(self.unanswered.keys()).chain(&self.expelled).copied();
        noted.chain(self.watch.noted())
    }

    /// The members that the failure detector watches for this one, by node.
    pub fn watched(&self) -> Vec<Member> {
        self.watch.watched()
    }

    /// The member's own failure detector; `None` before it joined for the first time, and where its
    /// host has one.
    pub fn detector(&self) -> Option<&Detector> {
        self.watch.detector()
    }

    /// The ballot at which the proposal of the present view was first made.
    pub fn made_at(&self) -> Ballot {
        self.made_at
    }

    /// The undecided proposal of this member: the ballot, the nodes that must accept, itself among
    /// them, and the proposal.
    pub fn proposed(&self) -> Option<(Ballot, impl Iterator<Item = NodeId>, &Proposal)> {
        let proposer = self.proposer.as_ref()?;
        let asked = proposer.asked.iter().map(|&rank| self.view.node(rank as usize));
        Some((proposer.ballot, asked, proposer.proposal.as_deref()?))
    }

    /// The last proposal that this member accepted for the end of its view, and its ballot.
    pub fn accepted(&self) -> Option<(Ballot, &Proposal)> {
        self.acceptor.accepted.as_ref().map(|(ballot, proposal)| (*ballot, &**proposal))
    }
}
