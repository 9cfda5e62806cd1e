//! Properties of every encoding, for the tests of each protocol's messages.

use std::fmt::Debug;

use bytes::Bytes;
use proptest::prelude::*;

use super::field::{Field, MessageRow};
use super::{DecodeError, Rng, Wire, decode_exact, encode_to_bytes};

type Checked = Result<(), TestCaseError>;

/// Messages, or parts of them, as their declaration draws them.
pub(crate) fn any_of<M: Field + Debug>() -> impl Strategy<Value = M> {
    any::<u64>().prop_map(|seed| M::any(&mut Rng::new(seed, 0)))
}

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

/// Checks the tables of messages in a page of the documentation, which begin with the columns tag,
/// message, fields and bytes: each row says what the declaration says. Returns the tags that have a
/// row.
///
/// A cell of fields in prose, such as `the frame below`, is not compared; nor is what the bytes
/// have beside the fewest.
pub(crate) fn documented(rows: &[MessageRow], page: &str) -> Vec<u8> {
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
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let level = heading.len() - heading.trim_start_matches('#').len();
    let begin = page.find(&format!("\n{heading}\n")).expect("a heading of the page");
    let rest = &page[begin + heading.len() + 2..];
    let mut heads = rest.match_indices("\n#").map(|(place, _)| place + 1);
    let is_above =
        |&place: &usize| rest[place..].bytes().take_while(|&byte| byte == b'#').count() <= level;
    &rest[..heads.find(is_above).unwrap_or(rest.len())]
}

/// What every encoding keeps, as property tests: of a strategy that draws messages, and of bytes
/// behind these tags.
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

pub(crate) use laws;
