use crate::core::field::messages;
use crate::{group, slingshot};

/// Bytes before a message of the group or of the multicast.
pub(super) const TAG_BYTES: usize = 1;

messages! {
    /// What members send to each other.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// Of the group.
        0 => Group(message: group::Message) ["{message}"],
        /// Of the multicast.
        1 => Slingshot(message: slingshot::Message) ["{message}"],
    }
}
