//! Properties of every encoding, for the tests of each protocol's messages.
//!
//! [`laws!`] makes them the property tests of a protocol, which need the crate `proptest`. Nothing
//! else calls this module.

use std::fmt::Debug;

use bytes::Bytes;
use thiserror::Error;

use super::field::MessageRow;
use super::{DecodeError, Wire, decode_exact, encode_to_bytes};

/// A property that does not hold, with the values that show it.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Broken(String);

/// Messages, or parts of them, as their declaration draws them.
#[cfg(test)]
pub(crate) fn any_of<M: super::field::Field + Debug>()
-> impl proptest::strategy::Strategy<Value = M> {
    use proptest::prelude::*;
    any::<u64>().prop_map(|seed| M::any(&mut super::Rng::new(seed, 0)))
}

/// The message of these bytes.
///
/// # Errors
/// As [`decode_exact`].
pub fn decode<M: Wire>(bytes: &[u8]) -> Result<M, DecodeError> {
    decode_exact(Bytes::copy_from_slice(bytes))
}

/// A message's bytes as hexadecimal digits, in which tests hold encodings.
pub fn hex(message: &impl Wire) -> String {
    encode_to_bytes(message).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A message is as long as it says, and is read and written again as it was.
///
/// # Errors
/// If it is not.
pub fn survives<M: Wire + Debug + PartialEq>(message: &M) -> Result<(), Broken> {
    let bytes = encode_to_bytes(message);
    let (length, told) = (bytes.len(), message.wire_len());
    ensure(length == told, || format!("{length} bytes, {told} announced: {message:?}"))?;
    let decoded = decode(&bytes);
    ensure(decoded.as_ref() == Ok(message), || format!("{decoded:?}, expected {message:?}"))?;
    let again = decoded.map(|decoded: M| encode_to_bytes(&decoded));
    ensure(again.as_ref() == Ok(&bytes), || format!("{again:?}, expected {bytes:?}"))
}

/// It is refused wherever it is cut short, and if it goes on.
///
/// # Errors
/// If it is accepted.
pub fn ends_where_it_ends<M: Wire>(message: &M) -> Result<(), Broken> {
    let bytes = encode_to_bytes(message);
    for length in 0..bytes.len() {
        let is_refused = decode::<M>(&bytes[..length]).is_err();
        ensure(is_refused, || format!("{length} of {} bytes are a message", bytes.len()))?;
    }
    let is_refused = decode::<M>(&[&bytes[..], &[0]].concat()).is_err();
    ensure(is_refused, || "a message with a byte behind it is a message".to_owned())
}

/// Bytes are a message in its only form, or refused.
///
/// # Errors
/// If they are another form of a message.
pub fn has_one_form<M: Wire>(bytes: &[u8]) -> Result<(), Broken> {
    decode::<M>(bytes).map_or(Ok(()), |message| {
        let form = encode_to_bytes(&message);
        ensure(form == bytes, || format!("{bytes:?}, another form of {form:?}"))
    })
}

fn ensure(holds: bool, broken: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken(broken())) }
}

/// Checks the tables of messages in a page of the documentation, which begin with the columns tag,
/// message, fields and bytes: each row says what the declaration says. Returns the tags that have a
/// row.
///
/// A cell of fields in prose, such as `the frame below`, is not compared; nor is what the bytes
/// have beside the fewest.
///
/// # Panics
/// If a row says something else.
pub fn documented(rows: &[MessageRow], page: &str) -> Vec<u8> {
    let (mut tags, mut is_in_table) = (Vec::new(), false);
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if cells.starts_with(&["", "tag", "message"]) {
            is_in_table = true;
        } else if cells.len() < 5 {
            is_in_table = false;
        } else if let (true, Ok(tag)) = (is_in_table, cells[1].parse::<u8>()) {
            let row = rows.iter().find(|row| row.tag == tag).expect("a tag of the declaration");
            assert_eq!(cells[2], format!("`{}`", row.name), "{line}");
            if !cells[3].starts_with("the ") {
                assert_eq!(cells[3], row.fields, "{line}");
            }
            let bytes = cells[4].split([' ', ';']).next();
            assert_eq!(bytes, Some(&*row.bytes_min.to_string()), "{line}");
            tags.push(tag);
        }
    }
    tags
}

/// The section of a page under a heading, up to the next heading of its level or above.
///
/// # Panics
/// If the page has no such heading.
pub fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let level = heading.len() - heading.trim_start_matches('#').len();
    let begin = page.find(&format!("\n{heading}\n")).expect("a heading of the page");
    let rest = &page[begin + heading.len() + 2..];
    let mut heads = rest.match_indices("\n#").map(|(place, _)| place + 1);
    let is_above =
        |&place: &usize| rest[place..].bytes().take_while(|&byte| byte == b'#').count() <= level;
    &rest[..heads.find(is_above).unwrap_or(rest.len())]
}

/// What every encoding keeps, as property tests: of a strategy that draws messages, and of bytes
/// behind these tags. The crate that uses it depends on `proptest`.
#[doc(hidden)]
#[macro_export]
macro_rules! laws {
    ($Message:ty, $any_message:expr, $tags:expr) => {
        proptest::proptest! {
            #[test]
            fn every_message_survives_its_encoding(message in $any_message) {
                $crate::core::laws::survives(&message)?;
            }

            #[test]
            fn a_message_cut_short_or_too_long_is_refused(message in $any_message) {
                $crate::core::laws::ends_where_it_ends(&message)?;
            }

            #[test]
            fn a_message_with_one_byte_changed_is_another_in_its_only_form_or_refused(
                message in $any_message,
                place in proptest::prelude::any::<proptest::sample::Index>(),
                byte in proptest::prelude::any::<u8>(),
            ) {
                let mut bytes = $crate::core::encode_to_bytes(&message).to_vec();
                let place = place.index(bytes.len());
                bytes[place] = byte;
                $crate::core::laws::has_one_form::<$Message>(&bytes)?;
            }

            #[test]
            fn arbitrary_bytes_are_a_message_in_its_only_form_or_refused(
                tag in $tags,
                tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120),
            ) {
                $crate::core::laws::has_one_form::<$Message>(&[&[tag][..], &tail].concat())?;
            }
        }
    };
}

#[doc(inline)]
pub use laws;
