//! V6: a proposal that every member asked has accepted may be decided, and every later attempt
//! proposes the same, whichever members crash in between.

use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::core::{NodeId, ViewId};
use paceline_proto::group::{Ballot, Group};

use super::{Broken, Rule};

/// A proposal at one ballot.
#[derive(Debug)]
struct Attempt {
    // The ballot at which the proposal was first made.
    name: Ballot,
    asked: BTreeSet<NodeId>,
    accepted: BTreeSet<NodeId>,
}

impl Attempt {
    fn is_accepted_by_all(&self) -> bool {
        self.asked.is_subset(&self.accepted)
    }
}

/// What a node was last seen to propose and to have accepted.
#[derive(Debug, Default)]
struct Seen {
    view: ViewId,
    proposed: Option<Ballot>,
    accepted: Option<Ballot>,
}

/// How views end: the attempts of each, and what they were followed by.
#[derive(Debug, Default)]
pub(super) struct Endings {
    attempts: BTreeMap<ViewId, BTreeMap<Ballot, Attempt>>,
    // The name of the proposal that made each view.
    made: BTreeMap<ViewId, Ballot>,
    seen: BTreeMap<NodeId, Seen>,
}

impl Endings {
    pub(super) fn after_call(&mut self, node: NodeId, group: &Group) -> Result<(), Broken> {
        let view = group.view().id();
        let seen = self.seen.entry(node).or_default();
        if seen.view != view {
            *seen = Seen { view, ..Seen::default() };
            if view != ViewId(0) {
                self.note_installed(node, view, group.made_at())?;
            }
        }
        let seen = self.seen.entry(node).or_default();
        let mut has_news = false;
        if let Some((ballot, asked, proposal)) = group.proposed()
            && seen.proposed.replace(ballot) != Some(ballot)
        {
            let (name, asked) = (proposal.made_at, asked.collect());
            let attempt = Attempt { name, asked, accepted: BTreeSet::new() };
            self.attempts.entry(view).or_default().insert(ballot, attempt);
            has_news = true;
        }
        if let Some((ballot, _)) = group.accepted()
            && seen.accepted.replace(ballot) != Some(ballot)
        {
            let attempts = self.attempts.entry(view).or_default();
            if let Some(attempt) = attempts.get_mut(&ballot) {
                attempt.accepted.insert(node);
            }
            has_news = true;
        }
        if has_news { self.check(view) } else { Ok(()) }
    }

    fn note_installed(
        &mut self,
        node: NodeId,
        view: ViewId,
        made_at: Ballot,
    ) -> Result<(), Broken> {
        let first = *self.made.entry(view).or_insert(made_at);
        if first != made_at {
            let what = format!("{view} was made at {made_at} here and at {first} elsewhere");
            return Err((Rule::Adoption, what));
        }
        let ended = ViewId(view.0 - 1);
        let Some(attempts) = self.attempts.get_mut(&ended) else { return Ok(()) };
        // A proposer that installs its own proposal has accepted it, perhaps in the same call.
        for (ballot, attempt) in attempts {
            if ballot.proposer == node && attempt.name == made_at {
                let others = attempt.asked.iter().filter(|&&asked| asked != node);
                if others.into_iter().all(|asked| attempt.accepted.contains(asked)) {
                    attempt.accepted.insert(node);
                }
            }
        }
        self.check(ended)
    }

    fn check(&self, view: ViewId) -> Result<(), Broken> {
        let Some(attempts) = self.attempts.get(&view) else { return Ok(()) };
        let next = ViewId(view.0 + 1);
        for (&ballot, attempt) in attempts.iter().filter(|(_, it)| it.is_accepted_by_all()) {
            // Its proposer alone knows whether it was decided: one that goes on to another proposal
            // has given it up.
            let mut later = attempts.range(ballot..).filter(|(_, it)| it.name != attempt.name);
            let Some((&other, replaced)) = later.next() else {
                let gave_up = |made: Ballot| made.proposer == ballot.proposer && made > ballot;
                let made = self.made.get(&next).filter(|&&made| made != attempt.name);
                if let Some(made) = made.filter(|&&made| !gave_up(made)) {
                    let what = format!("{view}: all accepted {ballot}, {next} was made at {made}");
                    return Err((Rule::Adoption, what));
                }
                continue;
            };
            if other.proposer != ballot.proposer {
                let what = format!(
                    "{view}: all accepted {} at {ballot}, {} is proposed at {other}",
                    attempt.name, replaced.name
                );
                return Err((Rule::Adoption, what));
            }
        }
        Ok(())
    }
}
