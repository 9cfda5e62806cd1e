//! A block of a request to one member or of the answer to one, and its form in bytes.

use super::direct::Direct;
use crate::core::Payload;
use crate::core::field::{Field, fields};

fields! {
    /// What a message to one member is, if its application did not send it by
    /// [`Command::SendTo`](super::Command::SendTo).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Correlation as "correlation" {
        /// A request.
        0 => Request,
        /// The reply to a request.
        1 => Reply,
        /// The answer that there will be no reply. Its payload is empty.
        2 => Refusal,
    }
}

fields! {
    /// Which request a message belongs to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CorrelationId {
        /// The request itself, or one of the two answers.
        pub correlation: Correlation,
        /// The number of the request among those of the member that made it.
        pub id: u64,
    }
}

fields! {
    /// One block of a request or of the answer to one. All blocks of a message have the same head;
    /// that of the last one counts. They are numbered together with the blocks of other messages
    /// between the two members.
    ///
    /// ```text
    /// 0 tag 1 = 28    1 correlation 1    2 id 8    10 checksum 4    14 the block, without its tag
    /// ```
    ///
    /// The checksum (CRC-32) covers bytes 1 to 9 and the checksum of the block.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Correlated {
        /// The request.
        pub head: CorrelationId,
        /// Computed by the sender, checked by the receiver.
        pub checksum: u32 = Correlated::computed_checksum,
        /// The block.
        pub block: Direct,
    }
}

impl Correlated {
    /// The block of a request or of an answer.
    pub fn new(head: CorrelationId, block: Direct) -> Correlated {
        let correlated = Correlated { head, checksum: 0, block };
        Correlated { checksum: correlated.computed_checksum(), ..correlated }
    }

    /// The checksum that the head should have.
    pub fn computed_checksum(&self) -> u32 {
        let mut head = [0u8; CorrelationId::BYTES_MIN + 4];
        let (fields, block) = head.split_at_mut(CorrelationId::BYTES_MIN);
        CorrelationId::put(&self.head, &mut &mut *fields);
        block.copy_from_slice(&self.block.checksum.to_be_bytes());
        Payload::Zeros(0).checksum_after(&head)
    }
}
