//! The rows of a durable host's file.
//!
//! A row is the first eight bytes of the BLAKE3 hash of its key and of all that follows; the
//! version's count and node, the writer and its write, when the record ends in milliseconds since
//! 1970, all big-endian; a byte that says whether there is a value; and the value. In the format
//! before, nodes have four bytes, and in the first one rows have no hash besides.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BufMut, Bytes};
use paceline_proto::core::Payload;
use paceline_proto::overlay::{Key, Record, Stamp, Version};

/// Bytes of a row's hash.
const CHECK_BYTES: usize = 8;
/// Bytes between the hash and the value, besides those of the two nodes.
const HEAD_BYTES: usize = 8 + 8 + 8 + 1;

/// A record on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// When it ends, milliseconds since 1970.
    pub ends_ms: u64,
    /// The record; [`Row::live`] sets its lifetime when it is read.
    record: Record,
}

impl Row {
    pub fn new(record: Record, now_ms: u64) -> Row {
        Row { ends_ms: now_ms + u64::from(record.lifetime_ms), record }
    }

    pub fn key(&self) -> [u8; Key::BYTES] {
        self.record.key.to_bytes()
    }

    /// The record with what is left of its lifetime, unless that is over.
    pub fn live(self, now_ms: u64) -> Option<Record> {
        let left_ms = self.ends_ms.checked_sub(now_ms).filter(|&left| left > 0)?;
        Some(Record { lifetime_ms: left_ms.min(u32::MAX.into()) as u32, ..self.record })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.put_bytes(0, CHECK_BYTES);
        let Stamp { version, writer, write } = self.record.stamp;
        out.put_u64(version.count);
        out.put_u64(version.by);
        out.put_u64(writer);
        out.put_u64(write);
        out.put_u64(self.ends_ms);
        out.put_u8(self.record.value.is_some().into());
        if let Some(value) = &self.record.value {
            value.for_each_chunk(|chunk| out.extend_from_slice(chunk));
        }
        let check = check(&self.key(), &out[CHECK_BYTES..]);
        out[..CHECK_BYTES].copy_from_slice(&check);
    }

    /// The row under a key; `None` if it is not what was written there.
    pub fn decode(key: [u8; Key::BYTES], bytes: &[u8]) -> Option<Row> {
        Row::read::<8>(key, checked(&key, bytes)?)
    }

    /// A row of the second format.
    pub fn decode_second(key: [u8; Key::BYTES], bytes: &[u8]) -> Option<Row> {
        Row::read::<4>(key, checked(&key, bytes)?)
    }

    /// A row of the first format, which has no hash.
    pub fn decode_first(key: [u8; Key::BYTES], bytes: &[u8]) -> Option<Row> {
        Row::read::<4>(key, bytes)
    }

    /// Reads what follows the hash, where a node takes this many bytes.
    fn read<const NODE_BYTES: usize>(key: [u8; Key::BYTES], mut bytes: &[u8]) -> Option<Row> {
        if bytes.len() < HEAD_BYTES + 2 * NODE_BYTES {
            return None;
        }
        let version = Version { count: bytes.get_u64(), by: bytes.get_uint(NODE_BYTES) };
        let stamp = Stamp { version, writer: bytes.get_uint(NODE_BYTES), write: bytes.get_u64() };
        let ends_ms = bytes.get_u64();
        let value = match bytes.get_u8() {
            0 => None,
            1 => Some(Payload::Bytes(Bytes::copy_from_slice(bytes))),
            _ => return None,
        };
        let record = Record { key: Key::from_bytes(key), stamp, lifetime_ms: 0, value };
        Some(Row { ends_ms, record })
    }
}

/// What follows the hash, if it is the one of all that.
fn checked<'a>(key: &[u8; Key::BYTES], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(CHECK_BYTES)?;
    (head == check(key, rest)).then_some(rest)
}

fn check(key: &[u8; Key::BYTES], rest: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(rest);
    let hash = hasher.finalize();
    *hash.as_bytes().first_chunk().expect("a hash is longer")
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
}

#[cfg(test)]
impl Row {
    /// The row in the second format.
    pub fn encode_second(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        // The upper halves of both nodes.
        bytes.drain(24..28);
        bytes.drain(16..20);
        let check = check(&self.key(), &bytes[CHECK_BYTES..]);
        bytes[..CHECK_BYTES].copy_from_slice(&check);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: Option<&'static str>) -> Record {
        let version = Version { count: 7, by: 3 };
        let stamp = Stamp { version, writer: 9, write: 11 << 32 | 5 };
        let value = value.map(|value| Bytes::from_static(value.as_bytes()).into());
        Record { key: Key::of(b"k"), stamp, lifetime_ms: 1000, value }
    }

    #[test]
    fn a_record_comes_back_with_what_is_left_of_its_lifetime() {
        for value in [Some("v"), Some(""), None] {
            let (record, mut bytes) = (record(value), Vec::new());
            Row::new(record.clone(), 5000).encode(&mut bytes);
            let key = record.key.to_bytes();
            let left = Record { lifetime_ms: 400, ..record.clone() };
            let row = Row::decode(key, &bytes).expect("it is whole");
            assert_eq!(row.clone().live(5600), Some(left.clone()));
            assert_eq!(row.live(6000), None);
            let second = Row::new(record.clone(), 5000).encode_second();
            for old in
                [Row::decode_second(key, &second), Row::decode_first(key, &second[CHECK_BYTES..])]
            {
                assert_eq!(old.expect("it is whole").live(5600), Some(left.clone()));
            }
        }
    }

    #[test]
    fn a_row_with_a_flipped_bit_or_of_another_length_or_key_is_none() {
        let (record, mut bytes) = (record(Some("value")), Vec::new());
        Row::new(record.clone(), 5000).encode(&mut bytes);
        let key = record.key.to_bytes();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Row::decode(key, &bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for length in 0..bytes.len() {
            assert_eq!(Row::decode(key, &bytes[..length]), None, "cut to {length}");
        }
        assert_eq!(Row::decode(Key::of(b"other").to_bytes(), &bytes), None);
        assert!(Row::decode(key, &bytes).is_some());
    }
}
