use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::core::{DecodeError, GroupId, Payload, Wire, take_u8, take_u32, take_u64};
use crate::slingshot::Data;
use crate::slingshot::message::take_seq;

/// What members send to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet, to a group.
    ///
    /// ```text
    ///  0 tag 1 = 0    1 a packet as in `Data` ...
    /// ```
    Data(Data),
    /// A packet from its sender to one member, again.
    ///
    /// ```text
    ///  0 tag 1 = 1    1 a packet as in `Data` ...
    /// ```
    Again(Data),
    /// To the sender of a packet: it has arrived.
    ///
    /// ```text
    ///  0 tag 1 = 2    1 group 4    5 incarnation 8    13 seq 8
    /// ```
    Ack {
        /// The packet's group.
        group: GroupId,
        /// The incarnation of its sender.
        incarnation: u64,
        /// Its number.
        seq: u64,
    },
}

/// A line for a trace: what it is, and its numbers.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Data(data) => data.fmt(f),
            Message::Again(data) => write!(f, "again {data}"),
            Message::Ack { group, seq, .. } => write!(f, "ack {group} seq {seq}"),
        }
    }
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        match self {
            Message::Data(data) | Message::Again(data) => Data::HEAD_BYTES + data.payload.len(),
            Message::Ack { .. } => 21,
        }
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        match self {
            Message::Data(data) | Message::Again(data) => {
                head.put_u8(u8::from(matches!(self, Message::Again(_))));
                data.encode_fixed(head);
                Some(&data.payload)
            }
            Message::Ack { group, incarnation, seq } => {
                head.put_u8(2);
                head.put_u32(group.0);
                head.put_u64(*incarnation);
                head.put_u64(*seq);
                None
            }
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        Ok(match take_u8(bytes)? {
            0 => Message::Data(Data::decode(bytes)?),
            1 => Message::Again(Data::decode(bytes)?),
            2 => Message::Ack {
                group: GroupId(take_u32(bytes)?),
                incarnation: take_u64(bytes)?,
                seq: take_seq(bytes)?,
            },
            tag => return Err(DecodeError::UnknownTag(tag)),
        })
    }
}
