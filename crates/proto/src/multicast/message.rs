use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::core::{DecodeError, Payload, Wire, take_u8};
use crate::{group, slingshot};

/// Bytes before a message of the group or of the multicast.
pub(super) const TAG_BYTES: usize = 1;

/// What members send to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Of the group.
    Group(group::Message),
    /// Of the multicast.
    Slingshot(slingshot::Message),
}

/// A line for a trace.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Group(message) => message.fmt(f),
            Message::Slingshot(message) => message.fmt(f),
        }
    }
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        TAG_BYTES
            + match self {
                Message::Group(message) => message.wire_len(),
                Message::Slingshot(message) => message.wire_len(),
            }
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        match self {
            Message::Group(message) => {
                head.put_u8(0);
                message.encode(head)
            }
            Message::Slingshot(message) => {
                head.put_u8(1);
                message.encode(head)
            }
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        Ok(match take_u8(bytes)? {
            0 => Message::Group(group::Message::decode(bytes)?),
            1 => Message::Slingshot(slingshot::Message::decode(bytes)?),
            tag => return Err(DecodeError::UnknownTag(tag)),
        })
    }
}
