use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

use super::Payload;

/// A message that has a form in bytes: a small head, then at most one payload.
///
/// The payload is handed out rather than copied, so a driver sends it vectored. Integers are
/// big-endian. The encoding is canonical: encoding what was decoded gives the same bytes.
pub trait Wire: Sized {
    /// The exact encoded length in bytes, payload included. The simulator charges this.
    fn wire_len(&self) -> usize;

    /// Writes the head and returns the payload that follows it, if the message has one.
    fn encode(&self, head: &mut BytesMut) -> Option<&Payload>;

    /// Reads one message from exactly `bytes`; a payload shares them.
    ///
    /// Allocates nothing that a length field asks for before the length was checked.
    fn decode(bytes: &mut Bytes) -> Result<Self, DecodeError>;
}

/// A large message that changes hands often is boxed; its form in bytes is the same.
impl<M: Wire> Wire for Box<M> {
    fn wire_len(&self) -> usize {
        (**self).wire_len()
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        (**self).encode(head)
    }

    fn decode(bytes: &mut Bytes) -> Result<Box<M>, DecodeError> {
        M::decode(bytes).map(Box::new)
    }
}

/// Nothing, in no bytes.
impl Wire for () {
    fn wire_len(&self) -> usize {
        0
    }

    fn encode(&self, _head: &mut BytesMut) -> Option<&Payload> {
        None
    }

    fn decode(_bytes: &mut Bytes) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// Why bytes are not a message. The sender misbehaved or the bytes were damaged; no state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end before the message does.
    #[error("message ends after {have} bytes where {need} are needed")]
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there were.
        have: usize,
    },
    /// Bytes are left after the message.
    #[error("{0} bytes follow the message")]
    Trailing(usize),
    /// No message has this tag.
    #[error("unknown message tag {0}")]
    UnknownTag(u8),
    /// A field is outside its range.
    #[error("field `{field}` is out of range: {value}")]
    OutOfRange {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The checksum does not fit the bytes.
    #[error("checksum mismatch")]
    Checksum,
    /// A critical element, which receivers must not skip, is unknown or misplaced.
    #[error("element of type {0} is unknown or misplaced")]
    Unexpected(u64),
    /// Something that belongs into the message is not there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A packet that carries no message.
    #[error("packet without a message")]
    Idle,
}

/// Splits `len` bytes off the front, or says how many are missing.
pub fn split(bytes: &mut Bytes, len: usize) -> Result<Bytes, DecodeError> {
    if bytes.len() < len {
        return Err(DecodeError::Truncated { need: len, have: bytes.len() });
    }
    Ok(bytes.split_to(len))
}

macro_rules! take {
    ($($name:ident: $type:ty = $get:ident),*) => {$(
        #[doc = concat!("Reads a big-endian `", stringify!($type), "`.")]
        pub fn $name(bytes: &mut Bytes) -> Result<$type, DecodeError> {
            let need = size_of::<$type>();
            if bytes.len() < need {
                return Err(DecodeError::Truncated { need, have: bytes.len() });
            }
            Ok(bytes.$get())
        }
    )*};
}

take!(
    take_u8: u8 = get_u8,
    take_u16: u16 = get_u16,
    take_u32: u32 = get_u32,
    take_u64: u64 = get_u64
);

/// The whole message as one buffer.
pub fn encode_to_bytes<M: Wire>(message: &M) -> Bytes {
    let mut bytes = BytesMut::with_capacity(message.wire_len());
    if let Some(payload) = message.encode(&mut bytes) {
        payload.for_each_chunk(|chunk| bytes.extend_from_slice(chunk));
    }
    bytes.freeze()
}

/// Decodes one message and refuses bytes left over.
pub fn decode_exact<M: Wire>(mut bytes: Bytes) -> Result<M, DecodeError> {
    let message = M::decode(&mut bytes)?;
    if bytes.is_empty() { Ok(message) } else { Err(DecodeError::Trailing(bytes.len())) }
}
