use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

use super::tlv::{self, Element, Reader, kind};
use crate::core::DecodeError;

/// Most components that a name has before its segment number.
///
/// Ours: a forwarder looks up each prefix of a name, so their number is what an Interest costs.
pub const NAME_COMPONENTS_MAX: usize = 64;
/// Most bytes that these have. With the rest of an Interest they fit into the 8,800 bytes that
/// forwarders take for a packet.
pub const NAME_BYTES_MAX: usize = 8_192;

/// A name: components, each of a type and some bytes.
///
/// Where the last one is a segment number it is held as a number and the others as shared bytes. So
/// the names of one object's segments share their memory, and making one allocates nothing.
///
/// The order is the canonical one: component by component, the shorter first.
/// Source: NDN packet format 0.3, "Name" and "Canonical order".
#[derive(Clone)]
pub struct Name {
    /// The encoded components without the last segment number, each in its shortest form. If
    /// `segment` is `None`, the last one is not a segment number in shortest form.
    prefix: Bytes,
    segment: Option<u64>,
}

impl Name {
    /// The name without components, the prefix of all names.
    pub const fn root() -> Name {
        Name { prefix: Bytes::new(), segment: None }
    }

    /// This name and one more component.
    pub fn component(&self, kind: u16, value: &[u8]) -> Result<Name, NameError> {
        check_component(u32::from(kind), value.len()).map_err(|_| NameError::Component(kind))?;
        if u32::from(kind) == kind::SEGMENT
            && self.segment.is_none()
            && let Some(segment) = shortest_integer(value)
        {
            return Ok(Name { prefix: self.prefix.clone(), segment: Some(segment) });
        }
        let added = tlv::element_len(u32::from(kind), value.len());
        let mut prefix = BytesMut::with_capacity(self.encoded_len() + added);
        self.write(&mut prefix);
        tlv::put_element(&mut prefix, u32::from(kind), value);
        let segment = (u32::from(kind) == kind::SEGMENT).then(|| shortest_integer(value)).flatten();
        if segment.is_some() {
            prefix.truncate(prefix.len() - added);
        }
        if prefix.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        let name = Name { prefix: prefix.freeze(), segment };
        if name.component_count() - usize::from(segment.is_some()) > NAME_COMPONENTS_MAX {
            return Err(NameError::TooManyComponents);
        }
        Ok(name)
    }

    /// This name and a component of the generic type.
    pub fn generic(&self, value: &[u8]) -> Result<Name, NameError> {
        self.component(kind::GENERIC as u16, value)
    }

    /// This name and a keyword, such as `metadata`.
    pub fn keyword(&self, word: &str) -> Result<Name, NameError> {
        self.component(kind::KEYWORD as u16, word.as_bytes())
    }

    /// This name and a version number.
    pub fn version(&self, version: u64) -> Result<Name, NameError> {
        let mut value = Vec::with_capacity(8);
        tlv::put_integer(&mut value, version);
        self.component(kind::VERSION as u16, &value)
    }

    /// This name with a segment number at its end, in place of the one that it has. Shares the
    /// bytes.
    pub fn with_segment(&self, segment: u64) -> Name {
        Name { prefix: self.prefix.clone(), segment: Some(segment) }
    }

    /// This name without the segment number at its end. Shares the bytes.
    pub fn without_segment(&self) -> Name {
        match self.segment {
            None => self.clone(),
            Some(_) => self.of_prefix(self.prefix.len()),
        }
    }

    /// The first `count` components, or all where there are fewer. Shares the bytes.
    pub fn truncated(&self, count: usize) -> Name {
        let mut reader = Reader::new(&self.prefix);
        for _ in 0..count {
            if !matches!(reader.element(), Ok(Some(_))) {
                return self.clone();
            }
        }
        self.of_prefix(reader.position())
    }

    /// The same name in memory of its own. A decoded name shares the bytes of its datagram, and
    /// keeps all of them alive.
    pub fn detached(&self) -> Name {
        Name { prefix: Bytes::copy_from_slice(&self.prefix), segment: self.segment }
    }

    /// The name before a digest of whole Data at its end, and that digest.
    pub fn implicit_digest(&self) -> Option<(Name, [u8; 32])> {
        // Type and length are two bytes, and 32 follow.
        let at = self.prefix.len().checked_sub(34)?;
        let (head, digest) = self.prefix[at..].split_at(2);
        if self.segment.is_some() || head != [kind::IMPLICIT_DIGEST as u8, 32] {
            return None;
        }
        // The same bytes could also be the end of a longer component.
        let last = self.components().last()?;
        let digest =
            digest.try_into().ok().filter(|_| last.kind == kind::IMPLICIT_DIGEST as u16)?;
        Some((self.of_prefix(at), digest))
    }

    /// The segment number at the end.
    pub fn segment(&self) -> Option<u64> {
        self.segment
    }

    /// The encoded components before the segment number. Equal for all segments of an object.
    pub fn prefix_bytes(&self) -> &Bytes {
        &self.prefix
    }

    /// The components, the segment number included.
    pub fn components(&self) -> Components<'_> {
        Components { reader: Reader::new(&self.prefix), segment: self.segment }
    }

    /// How many components there are. Counts them.
    pub fn component_count(&self) -> usize {
        self.components().count()
    }

    /// True if there are no components.
    pub fn is_root(&self) -> bool {
        self.prefix.is_empty() && self.segment.is_none()
    }

    /// True if this name begins with all components of `prefix`.
    pub fn starts_with(&self, prefix: &Name) -> bool {
        // Where bytes of components begin with bytes of components, so do the components: each
        // has one form, and its length is in it.
        match prefix.segment {
            None => self.prefix.starts_with(&prefix.prefix),
            Some(_) if same_bytes(&self.prefix, &prefix.prefix) => self.segment == prefix.segment,
            Some(segment) => {
                let rest = self.prefix.strip_prefix(&prefix.prefix[..]);
                rest.is_some_and(|rest| rest.starts_with(&SegmentBytes::new(segment)))
            }
        }
    }

    /// True if `other` begins with all components of this name.
    pub fn is_prefix_of(&self, other: &Name) -> bool {
        other.starts_with(self)
    }

    /// Bytes of the components, without the type and length around them.
    pub fn encoded_len(&self) -> usize {
        self.prefix.len()
            + self.segment.map_or(0, |segment| tlv::integer_element_len(kind::SEGMENT, segment))
    }

    /// Bytes of the whole element.
    pub fn element_len(&self) -> usize {
        tlv::element_len(kind::NAME, self.encoded_len())
    }

    /// Writes the components.
    pub fn write(&self, out: &mut impl BufMut) {
        out.put_slice(&self.prefix);
        if let Some(segment) = self.segment {
            out.put_slice(&SegmentBytes::new(segment));
        }
    }

    /// Writes the whole element.
    pub fn write_element(&self, out: &mut impl BufMut) {
        tlv::put_head(out, kind::NAME, self.encoded_len());
        self.write(out);
    }

    /// Reads the components that are the value of `element` of `bytes`, and shares these.
    pub fn read(bytes: &Bytes, element: &Element<'_>) -> Result<Name, DecodeError> {
        Name::read_within(bytes, Reader::within(element), element.end())
    }

    fn read_within(bytes: &Bytes, mut reader: Reader<'_>, end: usize) -> Result<Name, DecodeError> {
        let start = reader.position();
        let mut count = 0;
        let mut last = None;
        while let Some(component) = reader.element()? {
            check_component(component.kind, component.value.len())?;
            count += 1;
            // One more for the segment number.
            if count > NAME_COMPONENTS_MAX + 1 {
                return Err(out_of_range("components of a name", count));
            }
            last = Some(component);
        }
        let (end, segment) = match last {
            Some(last) if last.kind == kind::SEGMENT => match shortest_integer(last.value) {
                Some(segment) => (last.start, Some(segment)),
                None => (end, None),
            },
            _ => (end, None),
        };
        if count > NAME_COMPONENTS_MAX && segment.is_none() {
            return Err(out_of_range("components of a name", count));
        }
        if end - start > NAME_BYTES_MAX {
            return Err(out_of_range("bytes of a name", end - start));
        }
        Ok(Name { prefix: bytes.slice(start..end), segment })
    }

    /// The first bytes of the prefix, which are components, as a name.
    fn of_prefix(&self, end: usize) -> Name {
        let reader = Reader::new(&self.prefix[..end]);
        let name = Name::read_within(&self.prefix, reader, end);
        name.expect("components of a name are components")
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::root()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.segment == other.segment && same_bytes(&self.prefix, &other.prefix)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.prefix.hash(state);
        self.segment.hash(state);
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        if same_bytes(&self.prefix, &other.prefix) {
            return self.segment.cmp(&other.segment);
        }
        // Types and lengths in their shortest form are in order as bytes, so the whole names are.
        // Where one prefix ends within the other, its segment number stands against the rest.
        let common = self.prefix.len().min(other.prefix.len());
        let (head, other_head) = (&self.prefix[..common], &other.prefix[..common]);
        head.cmp(other_head).then_with(|| {
            let (mine, theirs) = (self.tail(common), other.tail(common));
            // Equal where the longer prefix ends in that very number: its own one is still to come.
            let longer = self.prefix.len().cmp(&other.prefix.len());
            mine.as_slice().cmp(theirs.as_slice()).then(longer)
        })
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Name {
    /// What follows the first bytes of the prefix, as far as it decides an order: the rest of the
    /// prefix, or the segment number if the prefix ends there.
    fn tail(&self, from: usize) -> ComponentValue<'_> {
        match (&self.prefix[from..], self.segment) {
            ([], Some(segment)) => ComponentValue::Segment(SegmentBytes::new(segment)),
            (rest, _) => ComponentValue::Slice(rest),
        }
    }
}

/// The components of a name, in order.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    reader: Reader<'a>,
    segment: Option<u64>,
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    fn next(&mut self) -> Option<Component<'a>> {
        // The bytes were checked when the name was made.
        if let Ok(Some(element)) = self.reader.element() {
            let value = ComponentValue::Slice(element.value);
            return Some(Component { kind: element.kind as u16, value });
        }
        let mut number = SegmentBytes::new(self.segment.take()?);
        number.from = 2;
        Some(Component { kind: kind::SEGMENT as u16, value: ComponentValue::Segment(number) })
    }
}

/// One component of a name.
#[derive(Clone, Debug)]
pub struct Component<'a> {
    kind: u16,
    value: ComponentValue<'a>,
}

impl Component<'_> {
    /// Its type.
    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// Its bytes.
    pub fn value(&self) -> &[u8] {
        self.value.as_slice()
    }

    /// Its bytes as a number, if they are one in its shortest form.
    pub fn number(&self) -> Option<u64> {
        shortest_integer(self.value())
    }
}

impl PartialEq for Component<'_> {
    fn eq(&self, other: &Component<'_>) -> bool {
        self.kind == other.kind && self.value() == other.value()
    }
}

impl Eq for Component<'_> {}

#[derive(Clone, Debug)]
enum ComponentValue<'a> {
    Slice(&'a [u8]),
    Segment(SegmentBytes),
}

impl ComponentValue<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            ComponentValue::Slice(slice) => slice,
            ComponentValue::Segment(bytes) => bytes,
        }
    }
}

/// The component of a segment number, written out.
#[derive(Clone, Debug)]
struct SegmentBytes {
    bytes: [u8; 10],
    from: u8,
    len: u8,
}

impl SegmentBytes {
    fn new(segment: u64) -> SegmentBytes {
        let mut bytes = [0; 10];
        let len = tlv::integer_element_len(kind::SEGMENT, segment);
        tlv::put_integer_element(&mut &mut bytes[..], kind::SEGMENT, segment);
        SegmentBytes { bytes, from: 0, len: len as u8 }
    }
}

impl Deref for SegmentBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[usize::from(self.from)..usize::from(self.len)]
    }
}

/// Why there is no such name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// More than [`NAME_BYTES_MAX`].
    #[error("name has more than {NAME_BYTES_MAX} bytes")]
    TooLong,
    /// More than [`NAME_COMPONENTS_MAX`].
    #[error("name has more than {NAME_COMPONENTS_MAX} components")]
    TooManyComponents,
    /// A component of this type does not exist or has another length.
    #[error("component of type {0} has an invalid type or length")]
    Component(u16),
    /// The text does not begin with `/`.
    #[error("name does not begin with `/`")]
    Relative,
    /// Two slashes with nothing between, or one or two dots: an empty component is written `...`.
    #[error("name has a component without content")]
    Empty,
    /// A `%` without two hexadecimal digits.
    #[error("name has a `%` without two hexadecimal digits")]
    Percent,
    /// What is before `=` is neither a number from 1 to 65,535 nor a word that stands for one.
    #[error("name has a component of unknown type")]
    Kind,
    /// What is after `seg=` or the like is not a number.
    #[error("invalid number in name component")]
    Number,
    /// What is after `sha256digest=` or the like is not 64 hexadecimal digits.
    #[error("invalid digest in name component")]
    Digest,
}

/// The number that a value is, if that is its shortest form.
fn shortest_integer(value: &[u8]) -> Option<u64> {
    tlv::integer(value).filter(|&integer| tlv::integer_len(integer) == value.len())
}

/// Types go to 65,535; digests have 32 bytes.
#[inline]
fn check_component(kind: u32, len: usize) -> Result<(), DecodeError> {
    match kind {
        kind::IMPLICIT_DIGEST | kind::PARAMETERS_DIGEST if len != 32 => {
            Err(out_of_range("bytes of a digest", len))
        }
        1..=0xffff => Ok(()),
        _ => Err(out_of_range("component type", kind as usize)),
    }
}

#[cold]
fn out_of_range(field: &'static str, value: usize) -> DecodeError {
    DecodeError::OutOfRange { field, value: value as u64 }
}

/// Names of one object mostly share their bytes, and then need no comparison.
fn same_bytes(a: &Bytes, b: &Bytes) -> bool {
    a.len() == b.len() && (a.as_ptr() == b.as_ptr() || a == b)
}
