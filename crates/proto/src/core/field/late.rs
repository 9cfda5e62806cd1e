//! Values that follow all fields of a message, which have their lengths.

use std::sync::Arc;

use bytes::{BufMut, Bytes};

use super::Field;
use crate::core::Rng;
use crate::core::{DecodeError, Payload, split, take_u32};

/// A field of which a part follows all other fields: values, of which its place has the lengths.
/// The last one that is not empty is the payload.
pub trait Late {
    /// The values.
    fn values(&self) -> impl Iterator<Item = &Payload>;

    /// The values of a field that was read: as many zero bytes as each is long.
    fn values_mut(&mut self) -> impl Iterator<Item = &mut Payload>;

    /// Bytes of the part.
    #[inline]
    fn late_bytes(&self) -> usize {
        self.values().map(Payload::len).sum()
    }

    /// Writes all values but the last, which it returns.
    #[inline]
    fn put_late(&self, head: &mut impl BufMut) -> Option<&Payload> {
        let mut last: Option<&Payload> = None;
        for value in self.values().filter(|value| !value.is_empty()) {
            if let Some(before) = last.replace(value) {
                before.for_each_chunk(|chunk| head.put_slice(chunk));
            }
        }
        last
    }

    /// Reads the values.
    #[inline]
    fn take_late(&mut self, bytes: &mut Bytes) -> Result<(), DecodeError> {
        for value in self.values_mut() {
            *value = Payload::Bytes(split(bytes, value.len())?);
        }
        Ok(())
    }
}

/// An item of a list with a late part: it may have a value.
pub(crate) trait Valued: Field + Sized {
    /// The value.
    fn value(&self) -> Option<&Payload>;

    /// The value.
    fn value_mut(&mut self) -> Option<&mut Payload>;

    /// The bytes of the item and its value.
    #[inline]
    fn bytes_with_value(&self) -> usize {
        Self::bytes(self) + self.value().map_or(0, Payload::len)
    }
}

impl<T: Valued> Late for Vec<T> {
    fn values(&self) -> impl Iterator<Item = &Payload> {
        self.iter().filter_map(T::value)
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut Payload> {
        self.iter_mut().filter_map(T::value_mut)
    }
}

impl<T: Valued> Late for Arc<[T]> {
    fn values(&self) -> impl Iterator<Item = &Payload> {
        self.iter().filter_map(T::value)
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut Payload> {
        let items = Arc::get_mut(self).expect("a list that is being read has one owner");
        items.iter_mut().filter_map(T::value_mut)
    }
}

/// The length (four bytes) of a value of at most `MAX` bytes, which follows as a part of what is
/// [`Late`]. Of a value that may be absent all bits are set if it is.
pub struct Length<const MAX: usize>;

/// The length of an absent value.
const ABSENT: u32 = u32::MAX;

impl<const MAX: usize> Length<MAX> {
    fn check(length: u32, name: &'static str) -> Result<Payload, DecodeError> {
        match length as usize <= MAX {
            true => Ok(Payload::Zeros(length)),
            false => Err(DecodeError::OutOfRange { field: name, value: length.into() }),
        }
    }
}

impl<const MAX: usize> Field<Payload> for Length<MAX> {
    const BYTES_MIN: usize = 4;

    #[inline]
    fn bytes(_: &Payload) -> usize {
        4
    }

    #[inline]
    fn put<'a>(value: &'a Payload, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u32(value.len() as u32);
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<Payload, DecodeError> {
        Length::<MAX>::check(take_u32(bytes)?, name)
    }

    fn any(rng: &mut Rng) -> Payload {
        Payload::any(rng)
    }

    fn layout(name: &str) -> String {
        format!("{name} length 4")
    }
}

impl<const MAX: usize> Field<Option<Payload>> for Length<MAX> {
    const BYTES_MIN: usize = 4;

    #[inline]
    fn bytes(_: &Option<Payload>) -> usize {
        4
    }

    #[inline]
    fn put<'a>(value: &'a Option<Payload>, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u32(value.as_ref().map_or(ABSENT, |value| value.len() as u32));
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<Option<Payload>, DecodeError> {
        match take_u32(bytes)? {
            ABSENT => Ok(None),
            length => Length::<MAX>::check(length, name).map(Some),
        }
    }

    fn any(rng: &mut Rng) -> Option<Payload> {
        <Option<Payload>>::any(rng)
    }

    fn layout(name: &str) -> String {
        <Length<MAX> as Field<Payload>>::layout(name)
    }
}
