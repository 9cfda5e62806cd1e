//! V1 and V4: which members are excluded, and under which incarnation a node runs.

use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::core::{Instant, Member, MembershipCommand, NodeId};
use paceline_proto::group::{Command, Config, Group, Role};

use super::calm::Calm;
use super::{Broken, Rule};
use paceline_sim::Fault;

/// A node from the outside.
#[derive(Debug)]
struct Life {
    incarnation: Option<u64>,
    role: Role,
    has_crashed: bool,
    // Founded or joined a group since it started.
    has_begun: bool,
    // The present call must end under another incarnation.
    is_renewed: bool,
}

impl Default for Life {
    fn default() -> Life {
        let role = Role::Outside;
        Life { incarnation: None, role, has_crashed: false, has_begun: false, is_renewed: false }
    }
}

/// The incarnations of all nodes, and which of them a view need not keep.
#[derive(Debug, Default)]
pub(super) struct Lives {
    lives: BTreeMap<NodeId, Life>,
    seen: BTreeSet<(NodeId, u64)>,
    // Crashed, ordered to leave, or excluded for a reason.
    gone: BTreeSet<(NodeId, u64)>,
    // By policy, the group may exclude a member that does not consume.
    expels: bool,
}

impl Lives {
    pub(super) fn new(config: &Config) -> Lives {
        Lives { expels: config.expel_after().is_some(), ..Lives::default() }
    }

    pub(super) fn note_fault(&mut self, fault: &Fault) {
        match fault {
            Fault::Crash(node) => {
                self.leave(*node);
                self.lives.entry(*node).or_default().has_crashed = true;
            }
            Fault::Restart(node) => {
                let life = self.lives.entry(*node).or_default();
                if std::mem::take(&mut life.has_crashed) {
                    (life.has_begun, life.is_renewed) = (false, true);
                    life.role = Role::Outside;
                }
            }
            _ => {}
        }
    }

    pub(super) fn note_command(&mut self, node: NodeId, command: &Command) {
        match command {
            Command::Membership(
                MembershipCommand::Bootstrap { .. } | MembershipCommand::Join { .. },
            )
            | Command::Gather(_) => {
                let life = self.lives.entry(node).or_default();
                if life.role == Role::Outside {
                    life.is_renewed |= life.has_begun;
                    life.has_begun = true;
                }
            }
            Command::Membership(MembershipCommand::Leave) => self.leave(node),
            _ => {}
        }
    }

    /// The present incarnation of the node goes.
    fn leave(&mut self, node: NodeId) {
        if let Some(incarnation) = self.lives.entry(node).or_default().incarnation {
            self.gone.insert((node, incarnation));
        }
    }

    /// V1: a member that is missing from the next view, or learns that it is excluded, has given
    /// cause.
    fn check_excluded(&mut self, at: Instant, calm: &Calm, member: Member) -> Result<(), Broken> {
        let key = (member.node, member.incarnation);
        let has_cause = self.gone.contains(&key) || calm.excuses(at, member.node) || self.expels;
        if !has_cause {
            let what = format!("{} is excluded, and nothing was wrong with it", member.node);
            return Err((Rule::Exclusion, what));
        }
        self.gone.insert(key);
        Ok(())
    }

    /// A view was installed for the first time.
    pub(super) fn note_successor(
        &mut self,
        at: Instant,
        calm: &Calm,
        before: &[Member],
        next: &[Member],
    ) -> Result<(), Broken> {
        let mut missing = before.iter().filter(|member| !next.contains(member));
        missing.try_for_each(|&member| self.check_excluded(at, calm, member))
    }

    /// A node learned that it is excluded from a view of these members. If most of them have
    /// crashed or left, the rest cannot install another view, so the node may leave this one.
    pub(super) fn note_excluded(
        &mut self,
        at: Instant,
        calm: &Calm,
        node: NodeId,
        view: &[Member],
    ) -> Result<(), Broken> {
        let life = self.lives.entry(node).or_default();
        life.is_renewed = true;
        let Some(incarnation) = life.incarnation else { return Ok(()) };
        let is_gone = |of: &&Member| self.gone.contains(&(of.node, of.incarnation));
        if view.iter().filter(is_gone).count() > view.len() / 2 {
            self.gone.insert((node, incarnation));
        }
        self.check_excluded(at, calm, Member { node, incarnation })
    }

    /// V4: a node that starts, joins again or comes back has an incarnation never seen before.
    pub(super) fn after_call(&mut self, node: NodeId, group: &Group) -> Result<(), Broken> {
        let life = self.lives.entry(node).or_default();
        let incarnation = group.member().incarnation;
        let is_renewed = std::mem::take(&mut life.is_renewed);
        life.role = group.role();
        let before = life.incarnation.replace(incarnation);
        if before == Some(incarnation) {
            if is_renewed {
                let what = format!("restarts and still is {incarnation:#x}");
                return Err((Rule::Incarnation, what));
            }
        } else if !self.seen.insert((node, incarnation)) {
            return Err((Rule::Incarnation, format!("is {incarnation:#x} for the second time")));
        }
        Ok(())
    }
}
