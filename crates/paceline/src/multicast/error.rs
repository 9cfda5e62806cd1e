use paceline_net::Closed;
use paceline_proto::core::GroupId;
use paceline_proto::slingshot::RejectReason;
use thiserror::Error;

/// Why a packet was not sent, or a change not made: nothing was sent, and nothing has changed. The
/// caller is at fault, as the [`RejectReason`] says, or this host is no member or has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MulticastError {
    /// It was refused.
    #[error(transparent)]
    Refused(#[from] RejectReason),
    /// The admission limit is reached: only `try_` calls return this.
    #[error("the send queue is full")]
    WouldBlock,
    /// The member or its host has stopped.
    #[error("the service or its host has stopped")]
    Closed,
}

impl From<Closed> for MulticastError {
    fn from(Closed: Closed) -> MulticastError {
        MulticastError::Closed
    }
}

impl MulticastError {
    pub(super) fn not_a_member(group: GroupId) -> MulticastError {
        MulticastError::Refused(RejectReason::NotAMember(group))
    }
}
