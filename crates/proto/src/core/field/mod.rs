//! Messages and their parts, each declared once.
//!
//! [`messages!`] declares what the nodes of a protocol send each other, [`fields!`] a part of such
//! messages. From the declaration come the type, its form in bytes ([`Field`], [`Wire`]), the line
//! for a trace, and for tests a generator and the rows of the documentation's tables. Both macros
//! share the grammar of a field:
//!
//! ```text
//! name: Type [as Layout] [where check] [= computed]
//! ```
//!
//! - `as Layout`: the form in bytes, where it is not the type's own: [`List`], [`Address`],
//!   [`ToEnd`], [`Length`], [`ChecksumBefore`], [`ChecksumBehind`], or a type of the protocol that
//!   implements [`Field<Type>`](Field).
//! - `where check`: a `fn(&Type) -> Result<(), DecodeError>`, called as soon as the field is read.
//! - `= computed`: a `fn(&Struct) -> Type` that gives the only right value: a checksum. A message
//!   with another value is refused.
//!
//! A `; .. name` behind the fields stands for values of the field of that name, which follow all
//! fields ([`Late`]); in the place of the field are their lengths ([`Length`]).
//!
//! Integers are big-endian. Only the last field of a message may carry a payload; the compiler
//! checks this.
//!
//! [`Wire`]: super::Wire

mod declare;
mod late;
mod layouts;
#[cfg(test)]
mod tests;

/// For what the macros declare in other crates.
#[doc(hidden)]
pub use bytes;
use bytes::{BufMut, Bytes};

use super::Rng;
use super::{DecodeError, Payload};
#[doc(inline)]
pub use declare::{fields, messages};
#[doc(hidden)]
pub use declare::{has_payload, layout_of, wire};
pub(crate) use late::Valued;
pub use late::{Late, Length};
pub use layouts::{Address, ChecksumBefore, ChecksumBehind, List, Own, Summed, ToEnd, take_items};
pub(crate) use layouts::{check_room, take_count};

/// The form in bytes of a `T`: of the type itself, or as a layout gives it to others.
pub trait Field<T = Self> {
    /// Fewest bytes that a value takes, without its payload; if the form has one length, that.
    const BYTES_MIN: usize;
    /// Whether a payload may follow the other bytes of a value.
    const HAS_PAYLOAD: bool = false;

    /// The bytes of this value, payload included.
    fn bytes(value: &T) -> usize;

    /// Writes all but the payload, and returns the payload that follows.
    fn put<'a>(value: &'a T, head: &mut impl BufMut) -> Option<&'a Payload>;

    /// Reads a value; a payload is all that is left. `name` is the field's, for the error.
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<T, DecodeError>;

    /// For tests: a value that can be encoded; small and large numbers are as likely as all others.
    fn any(rng: &mut Rng) -> T;

    /// For tests: the field as the documentation writes it, its name and its bytes.
    fn layout(name: &str) -> String {
        format!("{} {}", error_name(name), Self::BYTES_MIN)
    }
}

/// An enum of which each variant begins with its tag.
pub trait Tagged<T = Self>: Field<T> {
    /// Writes all but the payload, the tag by `put_tag`, and returns the payload that follows.
    fn put_tagged<'a, B: BufMut>(
        value: &'a T,
        head: &mut B,
        put_tag: impl FnOnce(u8, &mut B),
    ) -> Option<&'a Payload>;

    /// Reads what follows this tag.
    fn take_tagged(tag: u8, bytes: &mut Bytes) -> Result<T, DecodeError>;
}

/// The name of a field in errors and documents: that of a flag goes without its `is_`.
pub(crate) fn error_name(name: &str) -> &str {
    name.strip_prefix("is_").unwrap_or(name)
}

/// The least of these lengths.
#[doc(hidden)]
pub const fn least(lengths: &[usize]) -> usize {
    let (mut least, mut i) = (usize::MAX, 0);
    while i < lengths.len() {
        if lengths[i] < least {
            least = lengths[i];
        }
        i += 1;
    }
    least
}

/// Whether the last of these fields has a payload.
///
/// # Panics
/// If one before the last has: what follows it could not be found again.
#[doc(hidden)]
pub const fn only_last(has_payload: &[bool]) -> bool {
    let mut i = 0;
    while i + 1 < has_payload.len() {
        assert!(!has_payload[i], "only the last field may have a payload");
        i += 1;
    }
    !has_payload.is_empty() && has_payload[has_payload.len() - 1]
}

/// A generated value that passes a check.
#[doc(hidden)]
pub fn any_that<T>(mut any: impl FnMut() -> T, check: impl Fn(&T) -> Result<(), DecodeError>) -> T {
    (0..10_000)
        .map(|_| any())
        .find(|value| check(value).is_ok())
        .expect("one of ten thousand values is in range")
}

/// A row of a table of messages in the documentation.
#[derive(Debug)]
pub struct MessageRow {
    /// The message's first byte.
    pub tag: u8,
    /// The name of its variant.
    pub name: &'static str,
    /// The fields behind the tag, as the table has them.
    pub fields: String,
    /// Fewest bytes of a message, with its tag.
    pub bytes_min: usize,
}
