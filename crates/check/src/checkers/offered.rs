//! Whether an application that wants to submit is admitted: a promise about offered load, not only
//! about admitted load.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};

/// A time in which an application submits whatever its member admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The member.
    pub node: NodeId,
    /// From when.
    pub from: Instant,
    /// Until when.
    pub until: Instant,
}

/// A time in which the applications of some members submit whatever is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// From when.
    pub from: Instant,
    /// Until when.
    pub until: Instant,
    /// The members.
    pub senders: Vec<NodeId>,
    /// Bytes of each message.
    pub message_bytes: u32,
}

impl Phase {
    /// True if this member's application submits now.
    pub fn has(&self, at: Instant, node: NodeId) -> bool {
        self.from <= at && at < self.until && self.senders.contains(&node)
    }

    /// What the members of these phases are offered.
    pub fn offers(phases: &[Phase]) -> Vec<Offer> {
        let offers = phases.iter().flat_map(|phase| {
            let &Phase { from, until, .. } = phase;
            phase.senders.iter().map(move |&node| Offer { node, from, until })
        });
        offers.collect()
    }
}

impl Offer {
    /// True if one of these offers is for the node now.
    pub(super) fn is_made(offers: &[Offer], at: Instant, node: NodeId) -> bool {
        offers.iter().any(|offer| offer.node == node && offer.from <= at && at < offer.until)
    }
}

/// Watches the admission of members whose applications want to submit.
#[derive(Debug, Default)]
pub struct Offered {
    offers: Vec<Offer>,
    within: Duration,
    // Since when a member that is offered load admits none.
    closed_since: BTreeMap<NodeId, Instant>,
}

impl Offered {
    /// In each of these times the member is to admit something at least every `within`.
    pub fn new(offers: Vec<Offer>, within: Duration) -> Offered {
        Offered { offers, within, closed_since: BTreeMap::new() }
    }

    /// Says what is wrong with a member that admits this much now.
    pub fn check(&mut self, at: Instant, node: NodeId, admission: usize) -> Result<(), String> {
        if admission > 0 || !Offer::is_made(&self.offers, at, node) {
            self.closed_since.remove(&node);
            return Ok(());
        }
        let since = *self.closed_since.entry(node).or_insert(at);
        if at.since(since) <= self.within {
            return Ok(());
        }
        Err(format!(
            "wants to submit and has been admitted nothing since {since}, longer than {:?}",
            self.within
        ))
    }
}
