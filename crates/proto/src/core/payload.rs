use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Application bytes: real ones, or a run of zeros that takes no memory.
///
/// A million-node run carries `Zeros`; sockets carry `Bytes`. A protocol treats both alike, so
/// it cannot tell which world it is in. Cloning and slicing share the bytes.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Real bytes, shared.
    Bytes(Bytes),
    /// This many zero bytes.
    Zeros(u32),
}

impl Payload {
    /// How many bytes.
    pub fn len(&self) -> usize {
        match self {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Zeros(len) => *len as usize,
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of `range`, shared.
    ///
    /// # Panics
    /// If the range ends past the payload.
    pub fn slice(&self, range: Range<usize>) -> Payload {
        match self {
            Payload::Bytes(bytes) => Payload::Bytes(bytes.slice(range)),
            Payload::Zeros(len) => {
                assert!(range.end <= *len as usize, "slice past the end of a payload");
                Payload::Zeros((range.end - range.start) as u32)
            }
        }
    }

    /// The payloads end to end. One payload is returned as it is; several are copied once.
    pub fn concat(parts: &[Payload]) -> Payload {
        if let [only] = parts {
            return only.clone();
        }
        let len = parts.iter().map(Payload::len).sum();
        if parts.iter().all(|part| matches!(part, Payload::Zeros(_))) {
            return Payload::Zeros(len as u32);
        }
        let mut whole = BytesMut::with_capacity(len);
        parts.iter().for_each(|part| part.for_each_chunk(|chunk| whole.extend_from_slice(chunk)));
        Payload::Bytes(whole.freeze())
    }

    /// Calls `f` with the bytes in order, in pieces of at most 4 KiB where they are zeros.
    pub fn for_each_chunk(&self, mut f: impl FnMut(&[u8])) {
        static ZEROS: [u8; 4096] = [0; 4096];
        match self {
            Payload::Bytes(bytes) => f(bytes),
            Payload::Zeros(len) => {
                let mut left = *len as usize;
                while left > 0 {
                    let piece = left.min(ZEROS.len());
                    f(&ZEROS[..piece]);
                    left -= piece;
                }
            }
        }
    }

    /// CRC-32 of these bytes and then the payload's.
    pub fn checksum_after(&self, head: &[u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(head);
        self.for_each_chunk(|chunk| crc.update(chunk));
        crc.finalize()
    }

    /// The payload as real bytes; zeros are written out.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Payload::Bytes(bytes) => bytes.clone(),
            Payload::Zeros(len) => Bytes::from(vec![0; *len as usize]),
        }
    }
}

/// Equal if the bytes are equal, however they are held.
impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        match (self, other) {
            (Payload::Bytes(a), Payload::Bytes(b)) => a == b,
            (Payload::Zeros(a), Payload::Zeros(b)) => a == b,
            (Payload::Bytes(bytes), Payload::Zeros(len))
            | (Payload::Zeros(len), Payload::Bytes(bytes)) => {
                bytes.len() == *len as usize && bytes.iter().all(|&byte| byte == 0)
            }
        }
    }
}

impl Eq for Payload {}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Payload {
        Payload::Bytes(bytes)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload::Bytes(bytes.into())
    }
}

impl From<&'static str> for Payload {
    fn from(text: &'static str) -> Payload {
        Payload::Bytes(Bytes::from_static(text.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_written_out_zeros_are_the_same_payload() {
        let zeros = Payload::Zeros(5000);
        assert_eq!(zeros, Payload::Bytes(zeros.to_bytes()));
        assert_eq!(zeros.slice(10..20), Payload::Zeros(10));
        assert_ne!(zeros, Payload::Bytes(Bytes::from_static(b"x")));
        let mut len = 0;
        zeros.for_each_chunk(|chunk| len += chunk.len());
        assert_eq!(len, 5000);
    }

    #[test]
    fn concat_joins_in_order() {
        let parts = [Payload::from("ab"), Payload::Zeros(1), Payload::from("c")];
        assert_eq!(Payload::concat(&parts), Payload::Bytes(Bytes::from_static(b"ab\0c")));
        assert_eq!(Payload::concat(&[Payload::Zeros(3), Payload::Zeros(4)]), Payload::Zeros(7));
        assert!(Payload::concat(&[]).is_empty());
    }
}
