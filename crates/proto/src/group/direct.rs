//! A block of a message to one member, and its form in bytes.

use bytes::{BufMut, Bytes, BytesMut};

use crate::core::{DecodeError, Payload, ViewId, take_u16, take_u32, take_u64};

/// One block of a message from one member to one other.
///
/// ```text
///  0 tag 1 = 15    1 view 8       9 sender's incarnation 8    17 receiver's incarnation 8
/// 25 number 8     33 index 2     35 count 2    37 checksum 4  41 payload ...
/// ```
///
/// The checksum (CRC-32) covers bytes 1 to 36 and the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The view it was sent in. What was not acknowledged in a view is sent again in the next one.
    pub view: ViewId,
    /// The sender's incarnation.
    pub sender: u64,
    /// The incarnation for which it is meant.
    pub receiver: u64,
    /// The block's number between these two: 0, 1, 2, ..., through all views.
    pub number: u64,
    /// The block's place in its message.
    pub index: u16,
    /// Blocks of the message, at least 1.
    pub count: u16,
    /// Computed by the sender, checked by the receiver.
    pub checksum: u32,
    /// The block's bytes.
    pub payload: Payload,
}

impl Direct {
    /// Bytes of a block before its payload. What a message takes of a window is its payload and as
    /// much for each block; what it takes of a queue, its payload and as much once.
    pub const HEAD_BYTES: usize = 41;

    /// The checksum that the fields and the payload should have.
    pub fn computed_checksum(&self) -> u32 {
        let mut head = [0u8; 36];
        let mut fields = &mut head[..];
        self.encode_fixed(&mut fields);
        self.payload.checksum_after(&head)
    }

    fn encode_fixed(&self, head: &mut impl BufMut) {
        head.put_u64(self.view.0);
        head.put_u64(self.sender);
        head.put_u64(self.receiver);
        head.put_u64(self.number);
        head.put_u16(self.index);
        head.put_u16(self.count);
    }

    pub(super) fn encode(&self, head: &mut BytesMut) {
        self.encode_fixed(head);
        head.put_u32(self.checksum);
    }

    pub(super) fn decode(bytes: &mut Bytes) -> Result<Direct, DecodeError> {
        let mut block = Direct {
            view: ViewId(take_u64(bytes)?),
            sender: take_u64(bytes)?,
            receiver: take_u64(bytes)?,
            number: take_u64(bytes)?,
            index: take_u16(bytes)?,
            count: take_u16(bytes)?,
            checksum: take_u32(bytes)?,
            payload: Payload::Zeros(0),
        };
        if block.index >= block.count {
            return Err(DecodeError::OutOfRange { field: "index", value: block.index.into() });
        }
        if block.number > u64::MAX / 2 {
            return Err(DecodeError::OutOfRange { field: "number", value: block.number });
        }
        block.payload = Payload::Bytes(std::mem::take(bytes));
        if block.computed_checksum() != block.checksum {
            return Err(DecodeError::Checksum);
        }
        Ok(block)
    }
}
