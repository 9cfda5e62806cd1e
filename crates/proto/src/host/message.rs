use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::machine::{Encode, Encoded};
use crate::core::{DecodeError, GroupId, Payload, ServiceNumber, Wire, take_u8, take_u32};

/// Most bytes that precede a service's message.
pub const HEAD_BYTES_MAX: usize = 4 + 1 + 4;

const TO_NODE: u8 = 0;
const TO_GROUP: u8 = 1;

/// A message of one of a host's services, in its form on the wire.
///
/// Its form: the service's number (4), then a byte 0, or a byte 1 and the number of the service's
/// group that it was sent to (4), then the service's message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Whose it is.
    pub service: ServiceNumber,
    /// The group of that service to which it was sent.
    pub group: Option<GroupId>,
    /// The service's message.
    pub content: Encoded,
    /// It has waited for the link, so its service sent it in an earlier call. Not on the wire.
    pub has_waited: bool,
}

impl Message {
    /// A message that is sent now.
    pub fn new(service: ServiceNumber, group: Option<GroupId>, content: Encoded) -> Message {
        Message { service, group, content, has_waited: false }
    }
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        let group = if self.group.is_some() { 4 } else { 0 };
        5 + group + Encode::wire_len(&self.content)
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.put_u32(self.service.0);
        match self.group {
            None => head.put_u8(TO_NODE),
            Some(group) => {
                head.put_u8(TO_GROUP);
                head.put_u32(group.0);
            }
        }
        self.content.encode(head)
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        let service = ServiceNumber(take_u32(bytes)?);
        let group = match take_u8(bytes)? {
            TO_NODE => None,
            TO_GROUP => Some(GroupId(take_u32(bytes)?)),
            tag => return Err(DecodeError::UnknownTag(tag)),
        };
        let content = Encoded::from(std::mem::take(bytes));
        Ok(Message { service, group, content, has_waited: false })
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {:08x}", self.service.0)?;
        if let Some(group) = self.group {
            write!(f, " {group}")?;
        }
        write!(f, " {} B", Encode::wire_len(&self.content))
    }
}
