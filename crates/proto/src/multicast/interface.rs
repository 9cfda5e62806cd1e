//! The commands of an application to its member, and the events that it gets.

use crate::core::MembershipCommand;
use crate::{group, slingshot};

/// What the application asks of its member.
#[derive(Clone, Debug)]
pub enum Command {
    /// Enter the group or leave it.
    Membership(MembershipCommand),
    /// Enter the group, or create it with others.
    Gather(group::Gather),
    /// Of the multicast: packets, groups of some of the members, the rate of fire.
    Slingshot(slingshot::Command),
}

impl From<group::Gather> for Command {
    fn from(command: group::Gather) -> Command {
        Command::Gather(command)
    }
}

impl From<MembershipCommand> for Command {
    fn from(command: MembershipCommand) -> Command {
        Command::Membership(command)
    }
}

/// What a member tells its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Of the group: its views, and what became of this node.
    Group(group::Event),
    /// Of the multicast: packets, and losses.
    Slingshot(slingshot::Event),
}

/// Why the driver wakes a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Of the group.
    Group(group::Timer),
    /// Of the multicast.
    Slingshot {
        /// The life of the member that set the timer; timers of a former life are ignored.
        life: u32,
        /// The timer that it set.
        timer: slingshot::Timer,
    },
}
