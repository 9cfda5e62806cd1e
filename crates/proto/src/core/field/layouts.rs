//! The forms in bytes of numbers, names, lists, and what else protocols share.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use bytes::{BufMut, Bytes};

use super::{Field, error_name};
use crate::core::Rng;
use crate::core::{
    DecodeError, GroupId, Member, NodeId, Payload, ViewId, split, take_u8, take_u16, take_u32,
    take_u64,
};

/// A count (two bytes), then the items: at least `MIN`, at most `MAX` of them, each in its own form
/// or in that of `Item`.
///
/// The count is checked against the bytes that are there before anything is allocated.
pub struct List<const MAX: usize, const MIN: usize = 0, Item = Own>(PhantomData<Item>);

/// The form of the type itself.
pub struct Own;

/// A length (one byte), then the bytes of an address, at least `MIN`, at most `MAX`. Decoding
/// copies them, since a slice would keep the whole buffer of which it is a part.
pub struct Address<const MAX: usize, const MIN: usize = 0>;

/// Bytes up to the end of the message.
pub struct ToEnd;

/// The value's checksum (four bytes), then the value.
pub struct ChecksumBefore;

/// The value, then its checksum (four bytes).
pub struct ChecksumBehind;

/// A value whose checksum goes with it and is not kept.
pub trait Summed {
    /// The checksum that the value has.
    fn checksum(&self) -> u32;

    /// Refuses the value if it came with another checksum.
    #[inline]
    fn check(self, checksum: u32) -> Result<Self, DecodeError>
    where
        Self: Sized,
    {
        if self.checksum() == checksum { Ok(self) } else { Err(DecodeError::Checksum) }
    }
}

/// Numbers, and types made of one number.
macro_rules! number {
    ($($type:ty: $bits:ty = $take:ident, $put:ident, |$number:ident| $to:expr, $from:expr;)*) => {$(
        impl Field for $type {
            const BYTES_MIN: usize = size_of::<$bits>();

            #[inline]
            fn bytes(_: &$type) -> usize {
                size_of::<$bits>()
            }

            #[inline]
            fn put<'a>(&$number: &'a $type, head: &mut impl BufMut) -> Option<&'a Payload> {
                head.$put($to);
                None
            }

            #[inline]
            fn take(bytes: &mut Bytes, _: &'static str) -> Result<$type, DecodeError> {
                $take(bytes).map($from)
            }

            fn any(rng: &mut Rng) -> $type {
                let near = <$bits>::from(rng.below(5) as u8);
                $from(match rng.below(4) {
                    0 => near,
                    1 => <$bits>::MAX - near,
                    _ => rng.next_u64() as $bits,
                })
            }
        }
    )*};
}

number! {
    u8: u8 = take_u8, put_u8, |number| number, u8::from;
    u16: u16 = take_u16, put_u16, |number| number, u16::from;
    u32: u32 = take_u32, put_u32, |number| number, u32::from;
    u64: u64 = take_u64, put_u64, |number| number, u64::from;
    NodeId: u64 = take_u64, put_u64, |node| node.0, NodeId;
    GroupId: u32 = take_u32, put_u32, |group| group.0, GroupId;
    ViewId: u64 = take_u64, put_u64, |view| view.0, ViewId;
}

super::fields! { impl Member { node: NodeId, incarnation: u64 } }

/// The bits of the number.
impl Field for f32 {
    const BYTES_MIN: usize = 4;

    #[inline]
    fn bytes(_: &f32) -> usize {
        4
    }

    #[inline]
    fn put<'a>(number: &'a f32, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u32(number.to_bits());
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, _: &'static str) -> Result<f32, DecodeError> {
        take_u32(bytes).map(f32::from_bits)
    }

    fn any(rng: &mut Rng) -> f32 {
        // What is no number is not equal to itself.
        Some(f32::from_bits(rng.next_u32())).filter(|number| !number.is_nan()).unwrap_or(0.5)
    }
}

/// One byte, 0 or 1.
impl Field for bool {
    const BYTES_MIN: usize = 1;

    #[inline]
    fn bytes(_: &bool) -> usize {
        1
    }

    #[inline]
    fn put<'a>(flag: &'a bool, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u8((*flag).into());
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<bool, DecodeError> {
        match take_u8(bytes)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::OutOfRange { field: error_name(name), value: value.into() }),
        }
    }

    fn any(rng: &mut Rng) -> bool {
        rng.below(2) == 1
    }
}

/// One byte that says whether a value follows.
impl<T: Field> Field for Option<T> {
    const BYTES_MIN: usize = 1;
    const HAS_PAYLOAD: bool = T::HAS_PAYLOAD;

    #[inline]
    fn bytes(value: &Option<T>) -> usize {
        1 + value.as_ref().map_or(0, T::bytes)
    }

    #[inline]
    fn put<'a>(value: &'a Option<T>, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u8(value.is_some().into());
        value.as_ref().and_then(|value| T::put(value, head))
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<Option<T>, DecodeError> {
        bool::take(bytes, name)?.then(|| T::take(bytes, name)).transpose()
    }

    fn any(rng: &mut Rng) -> Option<T> {
        bool::any(rng).then(|| T::any(rng))
    }

    fn layout(name: &str) -> String {
        format!("whether 1, {}", T::layout(name))
    }
}

/// The form of another type: that of a value for the pointer to it, in the value's own form or in
/// that of a layout.
macro_rules! same {
    ($(<$($T:ident),*> $layout:ty = $form:ident, $whole:ty, $new:path;)*) => {$(
        impl<$($T),*> Field<$whole> for $layout
        where
            $form: Field<T>,
        {
            const BYTES_MIN: usize = $form::BYTES_MIN;
            const HAS_PAYLOAD: bool = $form::HAS_PAYLOAD;

            #[inline]
            fn bytes(value: &$whole) -> usize {
                $form::bytes(value)
            }

            #[inline]
            fn put<'a>(value: &'a $whole, head: &mut impl BufMut) -> Option<&'a Payload> {
                $form::put(value, head)
            }

            #[inline]
            fn take(bytes: &mut Bytes, name: &'static str) -> Result<$whole, DecodeError> {
                $form::take(bytes, name).map($new)
            }

            fn any(rng: &mut Rng) -> $whole {
                $new($form::any(rng))
            }

            fn layout(name: &str) -> String {
                $form::layout(name)
            }
        }
    )*};
}

same! {
    <T, Item> Arc<Item> = Item, Arc<T>, Arc::new;
    <T, Item> Box<Item> = Item, Box<T>, Box::new;
    <T> Own = T, T, std::convert::identity;
}

/// One after the other.
macro_rules! tuple {
    ($($part:ident $value:ident $place:tt),*) => {
        impl<$($part: Field<$value>, $value),*> Field<($($value,)*)> for ($($part,)*) {
            const BYTES_MIN: usize = 0 $(+ $part::BYTES_MIN)*;
            const HAS_PAYLOAD: bool = super::only_last(&[$($part::HAS_PAYLOAD),*]);

            #[inline]
            fn bytes(value: &($($value,)*)) -> usize {
                0 $(+ $part::bytes(&value.$place))*
            }

            #[inline]
            fn put<'a>(value: &'a ($($value,)*), head: &mut impl BufMut) -> Option<&'a Payload> {
                let payload = None;
                $(let payload = payload.or($part::put(&value.$place, head));)*
                payload
            }

            #[inline]
            fn take(bytes: &mut Bytes, name: &'static str) -> Result<($($value,)*), DecodeError> {
                Ok(($($part::take(bytes, name)?,)*))
            }

            fn any(rng: &mut Rng) -> ($($value,)*) {
                ($($part::any(rng),)*)
            }

            fn layout(name: &str) -> String {
                [$($part::layout(name)),*].join(", ")
            }
        }
    };
}

tuple!(A T 0, B U 1);
tuple!(A T 0, B U 1, C V 2);
tuple!(A T 0, B U 1, C V 2, D W 3);

/// All that is left of the message.
impl Field for Payload {
    const BYTES_MIN: usize = 0;
    const HAS_PAYLOAD: bool = true;

    #[inline]
    fn bytes(value: &Payload) -> usize {
        value.len()
    }

    #[inline]
    fn put<'a>(value: &'a Payload, _: &mut impl BufMut) -> Option<&'a Payload> {
        Some(value)
    }

    #[inline]
    fn take(bytes: &mut Bytes, _: &'static str) -> Result<Payload, DecodeError> {
        Ok(Payload::Bytes(std::mem::take(bytes)))
    }

    fn any(rng: &mut Rng) -> Payload {
        Payload::Bytes(ToEnd::any(rng))
    }

    fn layout(name: &str) -> String {
        name.to_owned()
    }
}

impl Field<Bytes> for ToEnd {
    const BYTES_MIN: usize = 0;
    // What follows would be taken for a part of it.
    const HAS_PAYLOAD: bool = true;

    #[inline]
    fn bytes(value: &Bytes) -> usize {
        value.len()
    }

    #[inline]
    fn put<'a>(value: &'a Bytes, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_slice(value);
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, _: &'static str) -> Result<Bytes, DecodeError> {
        Ok(std::mem::take(bytes))
    }

    fn any(rng: &mut Rng) -> Bytes {
        (0..rng.below(200)).map(|_| rng.next_u32() as u8).collect()
    }

    fn layout(name: &str) -> String {
        name.to_owned()
    }
}

impl<T: Field + Summed> Field<T> for ChecksumBefore {
    const BYTES_MIN: usize = 4 + T::BYTES_MIN;
    const HAS_PAYLOAD: bool = T::HAS_PAYLOAD;

    #[inline]
    fn bytes(value: &T) -> usize {
        4 + T::bytes(value)
    }

    #[inline]
    fn put<'a>(value: &'a T, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u32(value.checksum());
        T::put(value, head)
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<T, DecodeError> {
        let checksum = take_u32(bytes)?;
        T::take(bytes, name)?.check(checksum)
    }

    fn any(rng: &mut Rng) -> T {
        T::any(rng)
    }

    fn layout(name: &str) -> String {
        format!("checksum 4, {}", T::layout(name))
    }
}

impl<T: Field + Summed> Field<T> for ChecksumBehind {
    const BYTES_MIN: usize = T::BYTES_MIN + 4;
    const HAS_PAYLOAD: bool = super::only_last(&[T::HAS_PAYLOAD, false]);

    #[inline]
    fn bytes(value: &T) -> usize {
        T::bytes(value) + 4
    }

    #[inline]
    fn put<'a>(value: &'a T, head: &mut impl BufMut) -> Option<&'a Payload> {
        T::put(value, head);
        head.put_u32(value.checksum());
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<T, DecodeError> {
        let value = T::take(bytes, name)?;
        value.check(take_u32(bytes)?)
    }

    fn any(rng: &mut Rng) -> T {
        T::any(rng)
    }

    fn layout(name: &str) -> String {
        format!("{}, checksum 4", T::layout(name))
    }
}

impl<const MAX: usize, const MIN: usize> Field<Bytes> for Address<MAX, MIN> {
    const BYTES_MIN: usize = 1 + MIN;

    #[inline]
    fn bytes(value: &Bytes) -> usize {
        1 + value.len()
    }

    #[inline]
    fn put<'a>(value: &'a Bytes, head: &mut impl BufMut) -> Option<&'a Payload> {
        debug_assert!((MIN..=MAX).contains(&value.len()), "an address of {} bytes", value.len());
        head.put_u8(value.len() as u8);
        head.put_slice(value);
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<Bytes, DecodeError> {
        let length = usize::from(take_u8(bytes)?);
        if !(MIN..=MAX).contains(&length) {
            return Err(DecodeError::OutOfRange { field: name, value: length as u64 });
        }
        Ok(Bytes::copy_from_slice(&split(bytes, length)?))
    }

    fn any(rng: &mut Rng) -> Bytes {
        let length = MIN as u32 + rng.below((MAX - MIN) as u32 + 1);
        (0..length).map(|_| rng.next_u32() as u8).collect()
    }

    fn layout(name: &str) -> String {
        format!("{name} length 1, {name}")
    }
}

/// Reads how many items a list has.
#[inline]
pub(crate) fn take_count(bytes: &mut Bytes, min: usize, max: usize) -> Result<usize, DecodeError> {
    let count = usize::from(take_u16(bytes)?);
    if !(min..=max).contains(&count) {
        return Err(DecodeError::OutOfRange { field: "count", value: count as u64 });
    }
    Ok(count)
}

/// Refuses bytes that are fewer than these.
#[inline]
pub(crate) fn check_room(bytes: &Bytes, need: usize) -> Result<(), DecodeError> {
    if bytes.len() < need {
        return Err(DecodeError::Truncated { need, have: bytes.len() });
    }
    Ok(())
}

/// Reads this many items. The count is checked against the bytes that are there before anything is
/// allocated.
pub fn take_items<T, Item: Field<T>>(
    bytes: &mut Bytes,
    count: usize,
    name: &'static str,
) -> Result<Vec<T>, DecodeError> {
    check_room(bytes, count * Item::BYTES_MIN)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(Item::take(bytes, name)?);
    }
    Ok(items)
}

impl<C, T, Item, const MAX: usize, const MIN: usize> Field<C> for List<MAX, MIN, Item>
where
    C: Deref<Target = [T]> + From<Vec<T>>,
    Item: Field<T>,
{
    const BYTES_MIN: usize = 2 + MIN * Item::BYTES_MIN;
    const HAS_PAYLOAD: bool = super::only_last(&[Item::HAS_PAYLOAD, false]);

    #[inline]
    fn bytes(value: &C) -> usize {
        2 + value.iter().map(Item::bytes).sum::<usize>()
    }

    #[inline]
    fn put<'a>(value: &'a C, head: &mut impl BufMut) -> Option<&'a Payload> {
        debug_assert!((MIN..=MAX).contains(&value.len()), "a list of {}", value.len());
        head.put_u16(value.len() as u16);
        for item in value.iter() {
            Item::put(item, head);
        }
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, name: &'static str) -> Result<C, DecodeError> {
        let count = take_count(bytes, MIN, MAX)?;
        take_items::<T, Item>(bytes, count, name).map(C::from)
    }

    fn any(rng: &mut Rng) -> C {
        let count = MIN as u32 + rng.below(6.min((MAX - MIN) as u32 + 1));
        (0..count).map(|_| Item::any(rng)).collect::<Vec<T>>().into()
    }

    fn layout(name: &str) -> String {
        let item = Item::layout(name);
        match item.contains(", ") {
            true => format!("count 2, {name} ({item}) each"),
            false => format!("count 2, {item} each"),
        }
    }
}
