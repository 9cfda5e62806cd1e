//! Numbers of packets.

use crate::core::DecodeError;

/// Highest number that a packet may have.
pub(super) const SEQ_MAX: u64 = u64::MAX / 2;

/// Refuses a number that no packet has: one above half of all.
///
/// # Errors
/// With the number, as the field `seq`.
pub fn check_seq(&seq: &u64) -> Result<(), DecodeError> {
    match seq {
        0..=SEQ_MAX => Ok(()),
        value => Err(DecodeError::OutOfRange { field: "seq", value }),
    }
}
