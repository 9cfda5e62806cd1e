//! Mapping of the application's keys and values to those of the overlay.
//!
//! An overlay has keys of 160 bits. The application's key is hashed to one, and stored before the
//! value to detect collisions: its length in two bytes, big-endian, the key, the value.

use bytes::{BufMut, Bytes, BytesMut};
use paceline_proto::core::Payload;
use paceline_proto::overlay::Key;

use super::error::KeyError;
use super::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Checks a key and returns its hash.
pub fn place(name: &[u8]) -> Result<Key, KeyError> {
    match name.len() {
        0 => Err(KeyError::Empty),
        1..=KEY_BYTES_MAX => Ok(Key::of(name)),
        bytes => Err(KeyError::TooLong { bytes }),
    }
}

/// A value as it is stored.
pub fn wrap(name: &[u8], value: &[u8]) -> Result<Payload, KeyError> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(KeyError::ValueTooLarge { bytes: value.len() });
    }
    let mut stored = BytesMut::with_capacity(2 + name.len() + value.len());
    stored.put_u16(name.len() as u16);
    stored.put_slice(name);
    stored.put_slice(value);
    Ok(stored.freeze().into())
}

/// Key and value, of what is stored.
pub fn split(stored: &Payload) -> Option<(Bytes, Bytes)> {
    let stored = stored.to_bytes();
    let end = 2 + usize::from(u16::from_be_bytes([*stored.first()?, *stored.get(1)?]));
    (end <= stored.len()).then(|| (stored.slice(2..end), stored.slice(end..)))
}

/// The value under this key, of what is stored. None if it is another key's.
pub fn unwrap(name: &[u8], stored: &Payload) -> Option<Bytes> {
    let (key, value) = split(stored)?;
    (key == name).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_under_its_own_key_only() {
        let stored = wrap(b"key", b"value").unwrap();
        assert_eq!(unwrap(b"key", &stored).unwrap(), "value");
        assert_eq!(unwrap(b"other", &stored), None);
        assert_eq!(unwrap(b"ke", &stored), None);
        for cut in [&b""[..], b"\0", b"\0\x09key"] {
            assert_eq!(unwrap(b"key", &Bytes::copy_from_slice(cut).into()), None);
        }
        assert_eq!(unwrap(b"k", &wrap(b"k", b"").unwrap()).unwrap(), "");
    }

    #[test]
    fn keys_and_values_of_wrong_sizes_are_refused() {
        assert_eq!(place(b""), Err(KeyError::Empty));
        assert_eq!(place(&[0; 513]), Err(KeyError::TooLong { bytes: 513 }));
        assert!(place(&[0; 512]).is_ok());
        let largest = vec![0; VALUE_BYTES_MAX + 1];
        assert!(wrap(&[0; 512], &largest[1..]).is_ok());
        let bytes = largest.len();
        assert_eq!(wrap(b"k", &largest), Err(KeyError::ValueTooLarge { bytes }));
    }
}
