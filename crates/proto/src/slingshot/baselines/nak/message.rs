use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::core::{DecodeError, GroupId, Payload, ViewId, Wire, take_u8, take_u32, take_u64};
use crate::slingshot::message::take_seq;
use crate::slingshot::{Data, Names, Supply};

/// What members send to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet, to a group.
    ///
    /// ```text
    ///  0 tag 1 = 0    1 a packet as in `Data` ...
    /// ```
    Data(Data),
    /// A packet, to a group, and what its sender has received.
    ///
    /// ```text
    ///  0 tag 1 = 1    1 view 8    9 names ...    a packet as in `Data` ...
    /// ```
    Digest {
        /// The view in which the senders of the packets have these ranks.
        view: ViewId,
        /// The last packets that the sender has received.
        names: Names,
        /// The packet.
        data: Data,
    },
    /// To a member that should have these packets: which of them does it have?
    ///
    /// ```text
    ///  0 tag 1 = 2    1 view 8    9 names ...
    /// ```
    Ask {
        /// The view.
        view: ViewId,
        /// The packets.
        names: Names,
    },
    /// From a silent sender, to a group: so many packets it has sent.
    ///
    /// ```text
    ///  0 tag 1 = 3    1 group 4    5 incarnation 8    13 next 8
    /// ```
    Heartbeat {
        /// The group.
        group: GroupId,
        /// The sender's incarnation.
        incarnation: u64,
        /// The number of its next packet.
        next: u64,
    },
    /// The answer to a question, a message for each packet.
    ///
    /// ```text
    ///  0 tag 1 = 4    1 view 8    9 rank 2    11 a packet as in `Data` ...
    /// ```
    Supply(Supply),
}

/// Bytes that so many names of one group, and their view, add to a packet.
pub(super) const fn digest_bytes(names: usize) -> usize {
    if names == 0 { 0 } else { 8 + Names::bytes(names, 1) }
}

/// A line for a trace: what it is, and its numbers.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Data(data) => data.fmt(f),
            Message::Digest { view, names, data } => write!(f, "{data}, has {view}:{names}"),
            Message::Ask { view, names } => write!(f, "ask {view}:{names}"),
            Message::Heartbeat { group, next, .. } => write!(f, "heartbeat {group} next {next}"),
            Message::Supply(supply) => write!(f, "supply {supply}"),
        }
    }
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        match self {
            Message::Data(data) => Data::HEAD_BYTES + data.payload.len(),
            Message::Digest { names, data, .. } => {
                8 + names.as_bytes().len() + Data::HEAD_BYTES + data.payload.len()
            }
            Message::Ask { names, .. } => 9 + names.as_bytes().len(),
            Message::Heartbeat { .. } => 21,
            Message::Supply(supply) => 1 + Supply::HEAD_BYTES + supply.data.payload.len(),
        }
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        match self {
            Message::Data(data) => {
                head.put_u8(0);
                data.encode_fixed(head);
                Some(&data.payload)
            }
            Message::Digest { view, names, data } => {
                head.put_u8(1);
                head.put_u64(view.0);
                head.put_slice(names.as_bytes());
                data.encode_fixed(head);
                Some(&data.payload)
            }
            Message::Ask { view, names } => {
                head.put_u8(2);
                head.put_u64(view.0);
                head.put_slice(names.as_bytes());
                None
            }
            Message::Heartbeat { group, incarnation, next } => {
                head.put_u8(3);
                head.put_u32(group.0);
                head.put_u64(*incarnation);
                head.put_u64(*next);
                None
            }
            Message::Supply(supply) => {
                head.put_u8(4);
                supply.encode_fixed(head);
                Some(&supply.data.payload)
            }
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        Ok(match take_u8(bytes)? {
            0 => Message::Data(Data::decode(bytes)?),
            1 => Message::Digest {
                view: ViewId(take_u64(bytes)?),
                names: Names::decode(bytes)?,
                data: Data::decode(bytes)?,
            },
            2 => Message::Ask { view: ViewId(take_u64(bytes)?), names: Names::decode(bytes)? },
            3 => Message::Heartbeat {
                group: GroupId(take_u32(bytes)?),
                incarnation: take_u64(bytes)?,
                next: take_seq(bytes)?,
            },
            4 => Message::Supply(Supply::decode(bytes)?),
            tag => return Err(DecodeError::UnknownTag(tag)),
        })
    }
}
