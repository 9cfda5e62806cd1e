//! What every encoding keeps, for the tests of each protocol's messages.

use std::fmt::Debug;

use bytes::Bytes;
use proptest::prelude::*;

use super::{DecodeError, Wire, decode_exact, encode_to_bytes};

type Checked = Result<(), TestCaseError>;

pub(crate) fn decode<M: Wire>(bytes: &[u8]) -> Result<M, DecodeError> {
    decode_exact(Bytes::copy_from_slice(bytes))
}

pub(crate) fn hex(message: &impl Wire) -> String {
    encode_to_bytes(message).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A message is as long as it says, and is read and written again as it was.
pub(crate) fn survives<M: Wire + Debug + PartialEq>(message: &M) -> Checked {
    let bytes = encode_to_bytes(message);
    prop_assert_eq!(bytes.len(), message.wire_len());
    let decoded = decode(&bytes);
    prop_assert_eq!(decoded.as_ref(), Ok(message));
    prop_assert_eq!(encode_to_bytes::<M>(&decoded.unwrap()), bytes);
    Ok(())
}

/// It is refused wherever it is cut short, and if it goes on.
pub(crate) fn ends_where_it_ends<M: Wire>(message: &M) -> Checked {
    let bytes = encode_to_bytes(message);
    for len in 0..bytes.len() {
        prop_assert!(decode::<M>(&bytes[..len]).is_err(), "{} of {} bytes", len, bytes.len());
    }
    prop_assert!(decode::<M>(&[&bytes[..], &[0]].concat()).is_err());
    Ok(())
}

/// Bytes are a message in its only form, or refused.
pub(crate) fn has_one_form<M: Wire>(bytes: &[u8]) -> Checked {
    if let Ok(message) = decode::<M>(bytes) {
        prop_assert_eq!(&encode_to_bytes(&message)[..], bytes);
    }
    Ok(())
}
