//! Multicast in time: each member gets a message soon, or learns that it is lost.
//!
//! A message leaves once, as a datagram or several, and members repair each other's losses within
//! milliseconds ([`proto::slingshot`](paceline_proto::slingshot)). Membership and failure detection
//! are those of a [`Group`](crate::Group).

mod builder;
mod error;
mod events;

use std::ops::Deref;

use bytes::Bytes;
use paceline_net::TrySubmitError;
use paceline_proto::core::NodeId;
use paceline_proto::multicast::{Command, Multicast as Protocol};
use paceline_proto::slingshot::{self, RejectReason};

use crate::member::{MemberHandle, Role};

pub use builder::MulticastBuilder;
pub use error::MulticastError;
pub use events::{Event, Events, Packet};
pub use paceline_proto::core::GroupId;
pub use paceline_proto::slingshot::tuner;
pub use paceline_proto::slingshot::{
    Code, Config, Follow, How, Order, Pull, PullFrom, Rate, RateControl,
};

/// A member's handle: its sending side. Clones send as the same member; when the last one and the
/// [`Events`] are dropped the member ends without leaving.
#[derive(Clone)]
pub struct Multicast {
    member: MemberHandle<Protocol>,
    packet_bytes_max: usize,
    message_bytes_max: usize,
}

impl Deref for Multicast {
    type Target = MemberHandle<Protocol>;

    fn deref(&self) -> &MemberHandle<Protocol> {
        &self.member
    }
}

impl Multicast {
    /// Sends a message to all other members, as soon as it is admitted. One of at most
    /// [`packet_bytes_max`](Multicast::packet_bytes_max) leaves at once, as a datagram, unless
    /// [`rate_control`](Config::with_rate_control) paces it. A longer one leaves in several, at
    /// [`message_bytes_per_second`](Config::with_message_bytes_per_second), and those to the same
    /// group wait until it has left. Receivers repair losses, and get a message whole or not at
    /// all.
    ///
    /// # Errors
    /// If the message is longer than [`message_bytes_max`](Multicast::message_bytes_max), the node
    /// is not a member at present, or the host has stopped.
    pub async fn send(&self, payload: impl Into<Bytes>) -> Result<(), MulticastError> {
        self.send_to(GroupId(0), payload).await
    }

    /// Sends a message to the other members of one of the groups that this node is in. This call
    /// does not check the group: a message to another group comes back as [`Event::Rejected`].
    ///
    /// # Errors
    /// As [`Multicast::send`].
    pub async fn send_to(
        &self,
        group: GroupId,
        payload: impl Into<Bytes>,
    ) -> Result<(), MulticastError> {
        let (command, bytes) = self.message(group, payload.into())?;
        Ok(self.node().submit(command, bytes).await?)
    }

    /// Sends a message to all other members if it is admitted now.
    ///
    /// # Errors
    /// [`MulticastError::WouldBlock`] if too much waits; else as [`Multicast::send`].
    pub fn try_send(&self, payload: impl Into<Bytes>) -> Result<(), MulticastError> {
        let (command, bytes) = self.message(GroupId(0), payload.into())?;
        self.node().try_submit(command, bytes).map_err(|error| match error {
            TrySubmitError::WouldBlock(_) => MulticastError::WouldBlock,
            TrySubmitError::Closed(_) => MulticastError::Closed,
        })
    }

    /// Sets the members of a group, as far as they are in the view. If this node is one of them it
    /// joins, else it leaves; without members the group is forgotten. All members must set the
    /// same. Group 0 has all members of the view unless this is called for it. Several groups need
    /// [`Config::with_overlap`](slingshot::Config::with_overlap).
    ///
    /// # Errors
    /// If the host has stopped. What cannot be done comes back as [`Event::Rejected`].
    pub fn set_members(
        &self,
        group: GroupId,
        members: impl IntoIterator<Item = NodeId>,
    ) -> Result<(), MulticastError> {
        let members = members.into_iter().collect();
        self.command(slingshot::Command::Members { group, members })
    }

    /// Repairs are made at this rate of fire from now on.
    ///
    /// # Errors
    /// If the host has stopped. What cannot be done comes back as [`Event::Rejected`].
    pub fn set_rate(&self, rate: Rate) -> Result<(), MulticastError> {
        self.command(slingshot::Command::SetRate(rate))
    }

    /// The longest message that takes one packet, bytes: a repair of such packets, with their
    /// names, fits a datagram.
    pub fn packet_bytes_max(&self) -> usize {
        self.packet_bytes_max
    }

    /// The longest message, bytes ([`Config::message_bytes_limit`]).
    pub fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    fn command(&self, command: slingshot::Command) -> Result<(), MulticastError> {
        Ok(self.node().command(Command::Slingshot(command))?)
    }

    fn message(&self, group: GroupId, payload: Bytes) -> Result<(Command, usize), MulticastError> {
        if self.member.standing().role() == Role::Outside {
            return Err(MulticastError::not_a_member(group));
        }
        let (bytes, bytes_max) = (payload.len(), self.message_bytes_max);
        if bytes > bytes_max {
            return Err(RejectReason::TooLarge { bytes, bytes_max }.into());
        }
        let payload = payload.into();
        let command = slingshot::Command::Multicast { group, payload, ticket: 0 };
        // Empty messages count as well, so that their number is bounded.
        Ok((Command::Slingshot(command), bytes.max(1)))
    }
}
