use std::time::Duration;

use foca::Timer;

use super::identity::Identity;
use crate::core::{Instant, NodeId};

/// Something to do later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Others are asked to probe: foca's `SendIndirectProbe`.
    AskHelpers(Timer<Identity>),
    /// A direct ping went unanswered for half of its time, or all of it.
    Asked(NodeId),
    /// A probe ends and the next one begins: foca's `ProbeRandomMember`.
    NextProbe(Timer<Identity>),
    /// A suspected member did not refute: foca's `ChangeSuspectToDown`. `since` is when the
    /// suspicion began.
    Condemn { since: Instant, timer: Timer<Identity> },
    /// News is passed on.
    Spread,
    /// A member that is down is looked for.
    Recall,
}

impl Task {
    /// The order of tasks that are due at one instant. foca needs `AskHelpers` before a probe ends.
    fn order(&self) -> u8 {
        match self {
            Task::AskHelpers(_) => 0,
            Task::Asked(_) => 1,
            Task::NextProbe(_) => 2,
            Task::Condemn { .. } => 3,
            Task::Spread => 4,
            Task::Recall => 5,
        }
    }

    /// True for tasks that foca asked for; they are void when foca restarts.
    fn is_focas(&self) -> bool {
        matches!(self, Task::AskHelpers(_) | Task::NextProbe(_) | Task::Condemn { .. })
    }
}

/// Tasks and when each is due. Short: at most two tasks a member and a handful more.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    // In the order in which they were added; ties go by kind, then by that order.
    tasks: Vec<(Instant, Task)>,
}

impl Schedule {
    /// Adds a task.
    pub fn add(&mut self, at: Instant, task: Task) {
        self.tasks.push((at, task));
    }

    /// When the first task is due; [`Instant::MAX`] if the schedule is empty.
    pub fn first(&self) -> Instant {
        self.tasks.iter().map(|&(at, _)| at).min().unwrap_or(Instant::MAX)
    }

    /// Takes the first task that is due at `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<Task> {
        let keyed = self.tasks.iter().enumerate().map(|(i, (at, task))| (*at, task.order(), i));
        let (_, _, place) = keyed.min().filter(|&(at, _, _)| at <= now)?;
        Some(self.tasks.remove(place).1)
    }

    /// True if such a task waits.
    pub fn has(&self, is_it: impl Fn(&Task) -> bool) -> bool {
        self.tasks.iter().any(|(_, task)| is_it(task))
    }

    /// Drops such tasks.
    pub fn drop_where(&mut self, is_it: impl Fn(&Task) -> bool) {
        self.tasks.retain(|(_, task)| !is_it(task));
    }

    /// Drops what foca asked for.
    pub fn drop_focas(&mut self) {
        self.drop_where(Task::is_focas);
    }

    /// Everything comes later by `delay`.
    pub fn shift(&mut self, delay: Duration) {
        for (at, task) in &mut self.tasks {
            *at += delay;
            if let Task::Condemn { since, .. } = task {
                *since += delay;
            }
        }
    }

    /// The end of the present probe, at `at` instead.
    pub fn move_next_probe(&mut self, to: impl Fn(Instant) -> Instant) {
        for (at, task) in &mut self.tasks {
            if matches!(task, Task::NextProbe(_)) {
                *at = to(*at);
            }
        }
    }

    /// The members whose suspicion runs here, with how often they had refuted when it began.
    pub fn condemned(&self) -> impl Iterator<Item = (&Identity, u16)> {
        self.tasks.iter().filter_map(|(_, task)| match task {
            Task::Condemn {
                timer: Timer::ChangeSuspectToDown { member_id, incarnation, .. },
                ..
            } => Some((member_id, *incarnation)),
            _ => None,
        })
    }

    /// The nodes for which something is due.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let asked = self.tasks.iter().filter_map(|(_, task)| match task {
            Task::Asked(node) => Some(*node),
            _ => None,
        });
        asked.chain(self.condemned().map(|(id, _)| id.member.node))
    }

    /// Drops the suspicion of this node; true if one was running.
    pub fn acquit(&mut self, node: NodeId) -> bool {
        let before = self.tasks.len();
        self.drop_where(|task| match task {
            Task::Condemn { timer: Timer::ChangeSuspectToDown { member_id, .. }, .. } => {
                member_id.member.node == node
            }
            _ => false,
        });
        self.tasks.len() < before
    }
}
