//! What a message contains, as the ledgers keep it.

use paceline_proto::core::{Payload, mix};

/// The hash of a payload.
pub(super) fn hash(payload: &Payload) -> u64 {
    // A step of FxHash a word, as quick as the payload can be read.
    const FACTOR: u64 = 0x51_7c_c1_b7_27_22_0a_95;
    let mut hash = payload.len() as u64;
    payload.for_each_chunk(|chunk| {
        for word in chunk.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            let word = u64::from_le_bytes(bytes);
            hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
        }
    });
    mix(hash)
}
