//! A block of a message to one member, and its form in bytes.

use crate::core::field::{Field, fields};
use crate::core::{DecodeError, Payload, ViewId};

fields! {
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
        /// The view it was sent in. What was not acknowledged in a view is sent again in the next
        /// one.
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
        pub checksum: u32 = Direct::computed_checksum,
        /// The block's bytes.
        pub payload: Payload,
    }
    where Direct::check_place
}

impl Direct {
    /// Bytes of a block before its payload. What a message takes of a window is its payload and as
    /// much for each block; what it takes of a queue, its payload and as much once.
    pub const HEAD_BYTES: usize = 1 + Direct::BYTES_MIN;

    /// The checksum that the fields and the payload should have.
    pub fn computed_checksum(&self) -> u32 {
        let mut head = [0u8; Direct::BYTES_MIN];
        Direct::put(self, &mut &mut head[..]);
        self.payload.checksum_after(&head[..36])
    }

    fn check_place(&self) -> Result<(), DecodeError> {
        if self.index >= self.count {
            return Err(DecodeError::OutOfRange { field: "index", value: self.index.into() });
        }
        if self.number > u64::MAX / 2 {
            return Err(DecodeError::OutOfRange { field: "number", value: self.number });
        }
        Ok(())
    }
}
