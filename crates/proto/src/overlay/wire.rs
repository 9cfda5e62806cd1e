//! The wire format of messages: a tag, whose top bit says that addresses follow it; the fields; and
//! last the values of all items, of which the last is handed out as the payload.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::message::{AddressList, Addresses, Body, Message};
use super::walk::By;
use super::{Algorithm, KoordeWalk, Leg, Walk};
use crate::core::field::{Field, Tagged};
use crate::core::{DecodeError, Payload, Wire, take_u8};

const HAS_ADDRESSES: u8 = 0x80;

/// Walks are written and measured as they are, whatever the algorithm.
type Form = By<()>;

// Not more than one payload in a message, and nothing behind it.
const _: bool = <Form as Field<Body>>::HAS_PAYLOAD;

impl Wire for Message {
    #[inline]
    fn wire_len(&self) -> usize {
        self.addresses.0.as_ref().map_or(0, AddressList::bytes) + Form::bytes(&self.body)
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        Form::put_tagged(&self.body, head, |tag, head| match &self.addresses.0 {
            None => head.put_u8(tag),
            Some(addresses) => {
                head.put_u8(tag | HAS_ADDRESSES);
                AddressList::put(addresses, head);
            }
        })
    }

    /// Reads walks as those of [`Algorithm::default`]; [`Message::decode_for`] reads others.
    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        decode(Algorithm::default(), bytes)
    }
}

impl Message {
    /// Decodes one message of an overlay with this algorithm and refuses bytes left over. Walks
    /// have the form of [`Algorithm::first_walk`], of which the bytes say nothing.
    pub fn decode_for(algorithm: Algorithm, mut bytes: Bytes) -> Result<Message, DecodeError> {
        let message = decode(algorithm, &mut bytes)?;
        if bytes.is_empty() { Ok(message) } else { Err(DecodeError::Trailing(bytes.len())) }
    }
}

fn decode(algorithm: Algorithm, bytes: &mut Bytes) -> Result<Message, DecodeError> {
    let tag = take_u8(bytes)?;
    let addresses = match tag & HAS_ADDRESSES {
        0 => Addresses::default(),
        _ => take_addresses(bytes)?,
    };
    let tag = tag & !HAS_ADDRESSES;
    let body = match algorithm.first_walk() {
        Walk::None => By::<()>::take_tagged(tag, bytes),
        Walk::Leg(_) => By::<Leg>::take_tagged(tag, bytes),
        Walk::Koorde(_) => By::<KoordeWalk>::take_tagged(tag, bytes),
    };
    Ok(Message { body: body?, addresses })
}

fn take_addresses(bytes: &mut Bytes) -> Result<Addresses, DecodeError> {
    let addresses: Arc<[_]> = AddressList::take(bytes, "address")?;
    match addresses.is_empty() {
        true => Err(DecodeError::OutOfRange { field: "addresses", value: 0 }),
        false => Ok(Addresses(Some(addresses))),
    }
}
