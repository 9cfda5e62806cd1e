use std::fmt;
use std::num::NonZeroU16;

use bytes::BufMut;

use crate::core::DecodeError;

/// A path, as the hops that lie on it: for each forwarder which of its next hops it takes.
///
/// The label grows at the front while Data goes back to the consumer. Interests that the consumer
/// sends along the same path use it up from the front. Each forwarder chooses the numbers of its
/// own hops, so only that forwarder can interpret them.
///
/// Source: path labels are RFC 9531; the form is ours.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PathLabel {
    /// The farthest hop first, zeros behind: growing and shrinking move nothing.
    hops: [u16; PathLabel::HOPS_MAX],
    /// How many hops, or [`UNUSABLE`].
    len: u8,
}

/// Stands for a path with more hops than there is room for.
const UNUSABLE: u8 = u8::MAX;

impl PathLabel {
    /// Most hops of a path.
    pub const HOPS_MAX: usize = 12;

    /// Where a path begins, at the producer, and where it is used up.
    pub const EMPTY: PathLabel = PathLabel { hops: [0; PathLabel::HOPS_MAX], len: 0 };

    /// A path that was too long. It stays so whatever is added.
    pub const UNUSABLE: PathLabel = PathLabel { hops: [0; PathLabel::HOPS_MAX], len: UNUSABLE };

    /// The path with these hops, the nearest first.
    pub fn of_hops(hops: &[NonZeroU16]) -> PathLabel {
        let mut label = PathLabel::EMPTY;
        hops.iter().rev().for_each(|&hop| label.push_front(hop));
        label
    }

    /// Adds the hop over which Data came back.
    pub fn push_front(&mut self, hop: NonZeroU16) {
        match self.hops.get_mut(usize::from(self.len)) {
            Some(free) => {
                *free = hop.get();
                self.len += 1;
            }
            None => *self = PathLabel::UNUSABLE,
        }
    }

    /// Takes the hop over which an Interest goes on. `None` if the path is used up or unusable.
    pub fn pop_front(&mut self) -> Option<NonZeroU16> {
        if !self.is_usable() {
            return None;
        }
        self.len = self.len.checked_sub(1)?;
        NonZeroU16::new(std::mem::take(&mut self.hops[usize::from(self.len)]))
    }

    /// The hops, the nearest first. None if the path is unusable.
    pub fn hops(&self) -> impl ExactSizeIterator<Item = u16> + '_ {
        self.hops[..self.len()].iter().rev().copied()
    }

    /// How many hops.
    pub fn len(&self) -> usize {
        if self.is_usable() { usize::from(self.len) } else { 0 }
    }

    /// True if no hop was added, or all were taken.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// False if the path had too many hops.
    pub fn is_usable(&self) -> bool {
        self.len != UNUSABLE
    }

    /// Writes the value of the field: two bytes a hop. An unusable one has none.
    pub(super) fn write(&self, out: &mut impl BufMut) {
        self.hops().for_each(|hop| out.put_u16(hop));
    }

    /// Reads that value.
    pub(super) fn read(value: &[u8]) -> Result<PathLabel, DecodeError> {
        if value.is_empty() {
            return Ok(PathLabel::UNUSABLE);
        }
        if value.len() % 2 == 1 || value.len() > 2 * PathLabel::HOPS_MAX {
            return Err(out_of_range(value.len() as u64));
        }
        let mut label = PathLabel::EMPTY;
        for pair in value.chunks_exact(2).rev() {
            let hop = u16::from_be_bytes([pair[0], pair[1]]);
            label.push_front(NonZeroU16::new(hop).ok_or(out_of_range(0))?);
        }
        Ok(label)
    }
}

fn out_of_range(value: u64) -> DecodeError {
    DecodeError::OutOfRange { field: "path label", value }
}

impl Default for PathLabel {
    fn default() -> PathLabel {
        PathLabel::EMPTY
    }
}

/// The nearest hop first: `3.1.2`; `-` if it is empty, `?` if unusable.
impl fmt::Display for PathLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_usable() {
            return f.write_str("?");
        }
        if self.is_empty() {
            return f.write_str("-");
        }
        self.hops().enumerate().try_for_each(|(place, hop)| {
            let dot = if place > 0 { "." } else { "" };
            write!(f, "{dot}{hop}")
        })
    }
}

impl fmt::Debug for PathLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(number: u16) -> NonZeroU16 {
        NonZeroU16::new(number).unwrap()
    }

    #[test]
    fn interests_take_the_hops_that_data_added_the_last_one_first() {
        let mut label = PathLabel::EMPTY;
        (1..=3).for_each(|number| label.push_front(hop(number)));
        assert_eq!(label, PathLabel::of_hops(&[hop(3), hop(2), hop(1)]));
        assert_eq!(label.to_string(), "3.2.1");
        assert_eq!(label.pop_front(), Some(hop(3)));
        assert_eq!(label, PathLabel::of_hops(&[hop(2), hop(1)]));
        assert_eq!((label.pop_front(), label.pop_front()), (Some(hop(2)), Some(hop(1))));
        assert_eq!((label.pop_front(), label), (None, PathLabel::EMPTY));
    }

    #[test]
    fn a_path_with_too_many_hops_is_unusable_and_stays_so() {
        let mut label = PathLabel::EMPTY;
        (1..=12).for_each(|number| label.push_front(hop(number)));
        assert!(label.is_usable());
        label.push_front(hop(13));
        assert_eq!(label, PathLabel::UNUSABLE);
        label.push_front(hop(1));
        assert_eq!((label.pop_front(), label), (None, PathLabel::UNUSABLE));
        assert_eq!((label.len(), label.is_empty()), (0, false));
    }

    #[test]
    fn a_label_survives_its_encoding_and_others_are_refused() {
        for hops in [&[7][..], &[1, 65_535], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]] {
            let label = PathLabel::of_hops(&hops.iter().copied().map(hop).collect::<Vec<_>>());
            let mut bytes = Vec::new();
            label.write(&mut bytes);
            assert_eq!(bytes.len(), 2 * hops.len());
            assert_eq!(PathLabel::read(&bytes), Ok(label));
        }
        assert_eq!(PathLabel::read(&[]), Ok(PathLabel::UNUSABLE));
        for refused in [&[1][..], &[0, 0], &[0, 1, 0, 0], &[1; 26], &[1; 3]] {
            assert!(PathLabel::read(refused).is_err(), "{refused:?}");
        }
    }
}
