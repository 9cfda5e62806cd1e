//! Elements of type, length and value, and the numbers in them.
//!
//! Source: NDN packet format 0.3, "Type-Length-Value (TLV) encoding".

use std::ops::Range;

use bytes::BufMut;

use crate::core::DecodeError;

/// Type numbers of network packets.
///
/// Source: NDN packet format 0.3, "TLV-TYPE number assignments".
#[allow(missing_docs, reason = "each is named as in the specification")]
pub mod kind {
    pub const INTEREST: u32 = 0x05;
    pub const DATA: u32 = 0x06;
    pub const NAME: u32 = 0x07;

    pub const IMPLICIT_DIGEST: u32 = 0x01;
    pub const PARAMETERS_DIGEST: u32 = 0x02;
    pub const GENERIC: u32 = 0x08;
    pub const KEYWORD: u32 = 0x20;
    pub const SEGMENT: u32 = 0x32;
    pub const BYTE_OFFSET: u32 = 0x34;
    pub const VERSION: u32 = 0x36;
    pub const TIMESTAMP: u32 = 0x38;
    pub const SEQUENCE_NUMBER: u32 = 0x3a;

    pub const CAN_BE_PREFIX: u32 = 0x21;
    pub const MUST_BE_FRESH: u32 = 0x12;
    pub const FORWARDING_HINT: u32 = 0x1e;
    pub const NONCE: u32 = 0x0a;
    pub const LIFETIME: u32 = 0x0c;
    pub const HOP_LIMIT: u32 = 0x22;
    pub const PARAMETERS: u32 = 0x24;
    pub const SIGNATURE_NONCE: u32 = 0x26;
    pub const SIGNATURE_TIME: u32 = 0x28;
    pub const INTEREST_SIGNATURE_INFO: u32 = 0x2c;
    pub const INTEREST_SIGNATURE_VALUE: u32 = 0x2e;

    pub const META_INFO: u32 = 0x14;
    pub const CONTENT_TYPE: u32 = 0x18;
    pub const FRESHNESS: u32 = 0x19;
    pub const FINAL_BLOCK_ID: u32 = 0x1a;
    pub const CONTENT: u32 = 0x15;
    pub const SIGNATURE_INFO: u32 = 0x16;
    pub const SIGNATURE_VALUE: u32 = 0x17;
    pub const SIGNATURE_TYPE: u32 = 0x1b;
    pub const KEY_LOCATOR: u32 = 0x1c;
    pub const KEY_DIGEST: u32 = 0x1d;
}

/// Bytes of a number of variable length: 1, 3, 5 or 9.
pub const fn number_len(number: u64) -> usize {
    match number {
        0..=252 => 1,
        253..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Writes a number of variable length, in its shortest form.
pub fn put_number(out: &mut impl BufMut, number: u64) {
    match number_len(number) {
        1 => out.put_u8(number as u8),
        3 => {
            out.put_u8(253);
            out.put_u16(number as u16);
        }
        5 => {
            out.put_u8(254);
            out.put_u32(number as u32);
        }
        _ => {
            out.put_u8(255);
            out.put_u64(number);
        }
    }
}

/// Bytes of a whole element whose value has `value_len` bytes.
pub const fn element_len(kind: u32, value_len: usize) -> usize {
    number_len(kind as u64) + number_len(value_len as u64) + value_len
}

/// Writes the type and the length of an element.
#[inline]
pub fn put_head(out: &mut impl BufMut, kind: u32, value_len: usize) {
    // In one piece where both are short: each one put costs a look at the room that is left.
    match (kind, value_len) {
        (0..=252, 0..=252) => out.put_slice(&[kind as u8, value_len as u8]),
        (253..=0xffff, 0..=252) => {
            out.put_slice(&[253, (kind >> 8) as u8, kind as u8, value_len as u8]);
        }
        _ => {
            put_number(out, u64::from(kind));
            put_number(out, value_len as u64);
        }
    }
}

/// Writes an element.
pub fn put_element(out: &mut impl BufMut, kind: u32, value: &[u8]) {
    put_head(out, kind, value.len());
    out.put_slice(value);
}

/// Bytes of a non-negative integer as a value: 1, 2, 4 or 8.
pub const fn integer_len(integer: u64) -> usize {
    match integer {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// Writes a non-negative integer as a value, in its shortest form.
pub fn put_integer(out: &mut impl BufMut, integer: u64) {
    match integer_len(integer) {
        1 => out.put_u8(integer as u8),
        2 => out.put_u16(integer as u16),
        4 => out.put_u32(integer as u32),
        _ => out.put_u64(integer),
    }
}

/// Writes an element whose value is a non-negative integer.
pub fn put_integer_element(out: &mut impl BufMut, kind: u32, integer: u64) {
    put_head(out, kind, integer_len(integer));
    put_integer(out, integer);
}

/// Bytes of an element whose value is a non-negative integer.
pub const fn integer_element_len(kind: u32, integer: u64) -> usize {
    element_len(kind, integer_len(integer))
}

/// The non-negative integer that a value is: 1, 2, 4 or 8 bytes, big-endian.
pub fn integer(value: &[u8]) -> Option<u64> {
    match *value {
        [byte] => Some(u64::from(byte)),
        [a, b] => Some(u64::from(u16::from_be_bytes([a, b]))),
        [a, b, c, d] => Some(u64::from(u32::from_be_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Some(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

/// The same, or an error if the field's length is not 1, 2, 4 or 8 bytes.
pub fn integer_field(field: &'static str, value: &[u8]) -> Result<u64, DecodeError> {
    integer(value).ok_or(DecodeError::OutOfRange { field, value: value.len() as u64 })
}

/// True if a receiver that does not know the type must refuse what it is in.
///
/// Source: NDN packet format 0.3, "Considerations for evolvability of TLV-based encoding".
pub const fn is_critical(kind: u32) -> bool {
    kind <= 31 || kind & 1 == 1
}

/// Skips an element that is unknown or misplaced, or refuses it where it is critical.
pub fn skip(kind: u32) -> Result<(), DecodeError> {
    if is_critical(kind) { Err(DecodeError::Unexpected(u64::from(kind))) } else { Ok(()) }
}

/// One element among the bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its type, above zero.
    pub kind: u32,
    /// Its value.
    pub value: &'a [u8],
    /// Where its type number begins.
    pub start: usize,
    /// Where its value begins.
    pub from: usize,
}

impl Element<'_> {
    /// Where it ends.
    #[inline]
    pub fn end(&self) -> usize {
        self.from + self.value.len()
    }

    /// Where its value is.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.from..self.end()
    }
}

/// Reads elements one after another, each only after its length was held against what is there.
///
/// Positions are those in the bytes of the whole packet. It does not descend: the elements of a
/// value are read by another reader.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads all elements of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, at: 0 }
    }

    /// Reads the elements of a value.
    pub fn within(element: &Element<'a>) -> Reader<'a> {
        Reader { rest: element.value, at: element.from }
    }

    /// The next element; none at the end.
    #[inline(always)]
    pub fn element(&mut self) -> Result<Option<Element<'a>>, DecodeError> {
        let (kind, len, head) = match *self.rest {
            [] => return Ok(None),
            // Almost every element of a network packet: both numbers in a byte each.
            [kind @ 1..=252, len @ 0..=252, ..] => (u32::from(kind), usize::from(len), 2),
            _ => long_head(self.rest)?,
        };
        let Some((value, rest)) = self.rest[head..].split_at_checked(len) else {
            return Err(DecodeError::Truncated { need: len, have: self.rest.len() - head });
        };
        let element = Element { kind, value, start: self.at, from: self.at + head };
        self.at += head + len;
        self.rest = rest;
        Ok(Some(element))
    }

    /// Where the next element begins.
    pub fn position(&self) -> usize {
        self.at
    }
}

/// Type and length of the first element, and how many bytes they are.
#[inline(never)]
fn long_head(bytes: &[u8]) -> Result<(u32, usize, usize), DecodeError> {
    // Data of more than 252 bytes, and fields of a hop.
    if let [kind @ 1..=252, 253, high @ 1..=255, low, ..] = *bytes {
        return Ok((u32::from(kind), usize::from(u16::from_be_bytes([high, low])), 4));
    }
    if let [253, high @ 1..=255, low, len @ 0..=252, ..] = *bytes {
        return Ok((u32::from(u16::from_be_bytes([high, low])), usize::from(len), 4));
    }
    let mut at = 0;
    let kind = number(bytes, &mut at)?;
    if kind == 0 || kind > u64::from(u32::MAX) {
        return Err(DecodeError::OutOfRange { field: "type", value: kind });
    }
    let len = number(bytes, &mut at)?;
    Ok((kind as u32, usize::try_from(len).unwrap_or(usize::MAX), at))
}

/// Reads a number of variable length at a position and moves that on.
#[inline]
fn number(bytes: &[u8], at: &mut usize) -> Result<u64, DecodeError> {
    let (number, len) = match bytes[*at..] {
        [number @ 0..=252, ..] => (u64::from(number), 1),
        [253, a, b, ..] => (u64::from(u16::from_be_bytes([a, b])), 3),
        [254, a, b, c, d, ..] => (u64::from(u32::from_be_bytes([a, b, c, d])), 5),
        [255, a, b, c, d, e, f, g, h, ..] => (u64::from_be_bytes([a, b, c, d, e, f, g, h]), 9),
        ref rest => {
            let need = match rest.first() {
                Some(255) => 9,
                Some(254) => 5,
                Some(253) => 3,
                _ => 1,
            };
            return Err(DecodeError::Truncated { need, have: rest.len() });
        }
    };
    if number_len(number) != len {
        return Err(DecodeError::OutOfRange {
            field: "longer than shortest number",
            value: number,
        });
    }
    *at += len;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_each_border_have_their_shortest_form_and_no_other() {
        for (number, len) in [
            (0, 1),
            (252, 1),
            (253, 3),
            (0xffff, 3),
            (0x1_0000, 5),
            (0xffff_ffff, 5),
            (0x1_0000_0000, 9),
            (u64::MAX, 9),
        ] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            assert_eq!((bytes.len(), number_len(number)), (len, len));
            let mut at = 0;
            assert_eq!(super::number(&bytes, &mut at), Ok(number));
            assert_eq!(at, len);
        }
        for long in [&[253, 0, 252][..], &[254, 0, 0, 255, 255], &[255, 0, 0, 0, 0, 255, 0, 0, 0]] {
            let refused = super::number(long, &mut 0);
            assert!(matches!(refused, Err(DecodeError::OutOfRange { .. })), "{refused:?}");
        }
    }

    #[test]
    fn all_numbers_of_up_to_three_bytes_read_back_and_no_others_do() {
        for number in 0..=0xffff {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut at = 0;
            assert_eq!((super::number(&bytes, &mut at), at), (Ok(number), number_len(number)));
        }
        let read = |bytes: [u8; 3]| {
            let mut at = 0;
            super::number(&bytes, &mut at).ok().map(|number| (number, at))
        };
        for number in 0..=u16::MAX {
            let [a, b] = number.to_be_bytes();
            assert_eq!(read([253, a, b]), (number > 252).then_some((u64::from(number), 3)));
        }
        for byte in 0..=252 {
            assert_eq!(read([byte, 255, 255]), Some((u64::from(byte), 1)));
        }
    }

    #[test]
    fn the_shortcuts_for_common_elements_read_what_the_numbers_say() {
        let numbers = |bytes: &[u8]| {
            let mut at = 0;
            let kind = number(bytes, &mut at).ok().filter(|kind| (1..1 << 32).contains(kind))?;
            let len = usize::try_from(number(bytes, &mut at).ok()?).ok()?;
            (bytes.len() - at >= len).then_some((kind as u32, len, at))
        };
        let edges = [0, 1, 127, 252, 253, 255];
        let mut bytes = vec![0; 70_000];
        for [a, b] in (0..=u16::MAX).map(u16::to_be_bytes) {
            for [c, d] in edges.iter().flat_map(|&c| edges.map(|d| [c, d])) {
                bytes[..4].copy_from_slice(&[a, b, c, d]);
                let read = Reader::new(&bytes).element().ok().flatten();
                let read = read.map(|element| (element.kind, element.value.len(), element.from));
                assert_eq!(read, numbers(&bytes), "{a} {b} {c} {d}");
            }
        }
    }

    #[test]
    fn integers_are_written_shortest_and_read_in_all_four_lengths() {
        for (integer, len) in [(0, 1), (255, 1), (256, 2), (0x1_0000, 4), (1 << 32, 8)] {
            let mut bytes = Vec::new();
            put_integer(&mut bytes, integer);
            assert_eq!((bytes.len(), super::integer(&bytes)), (len, Some(integer)));
        }
        assert_eq!(integer(&[0, 0, 0, 7]), Some(7));
        assert_eq!([0, 3, 5, 9].map(|len| integer(&vec![0; len])), [None; 4]);
    }

    #[test]
    fn a_length_past_the_end_is_refused_whatever_it_says() {
        for bytes in [
            &[8, 1][..],
            &[8],
            &[8, 253, 1],
            &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255],
            &[253],
            &[254, 0, 1, 0, 0],
        ] {
            let refused = Reader::new(bytes).element();
            assert!(matches!(refused, Err(DecodeError::Truncated { .. })), "{bytes:?} {refused:?}");
        }
        assert_eq!(
            Reader::new(&[0, 0]).element(),
            Err(DecodeError::OutOfRange { field: "type", value: 0 })
        );
    }
}
