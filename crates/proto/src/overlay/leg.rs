use bytes::{BufMut, Bytes, BytesMut};

use super::Key;
use crate::core::{DecodeError, Payload, Wire, take_u8};

/// How far a message has come on a ring. One byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leg {
    /// On its way.
    #[default]
    Way,
    /// The sender believed the receiver to be responsible. Should it not be, the message goes only
    /// where it comes nearer to whoever is, and so cannot go in circles.
    Last,
}

impl Leg {
    /// How far a message has to go on a ring: up to its key from below, and on the last leg back
    /// to it from above.
    pub(super) fn remaining(self, key: Key, at: Key) -> (Key, Key) {
        match self {
            Leg::Way => (Key::from(1), at.clockwise_to(key)),
            Leg::Last => (Key::ZERO, key.clockwise_to(at)),
        }
    }
}

impl Wire for Leg {
    fn wire_len(&self) -> usize {
        1
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.put_u8(*self as u8);
        None
    }

    fn decode(bytes: &mut Bytes) -> Result<Leg, DecodeError> {
        match take_u8(bytes)? {
            0 => Ok(Leg::Way),
            1 => Ok(Leg::Last),
            value => Err(DecodeError::OutOfRange { field: "leg", value: value.into() }),
        }
    }
}
