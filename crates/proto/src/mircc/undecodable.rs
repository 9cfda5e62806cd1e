//! Packets of a neighbour that could not be decoded, by reason.

use crate::core::DecodeError;

/// The most reasons with a count of their own, for each face.
const REASONS_MAX: usize = 4;

/// Packets from a neighbour that could not be decoded, by reason.
///
/// A consumer whose producer uses something that is not supported here would else learn only that
/// nothing came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undecodable {
    /// All such packets.
    pub packets: u64,
    reasons: [Option<(DecodeError, u64)>; REASONS_MAX],
}

impl Undecodable {
    /// The first reasons, each as it was met first, with the number of packets. The packets of
    /// further reasons count only among [all](Undecodable::packets).
    pub fn reasons(&self) -> impl Iterator<Item = (DecodeError, u64)> {
        self.reasons.iter().flatten().copied()
    }

    /// What was counted here and not yet in `before`, which was read earlier.
    pub fn since(&self, before: &Undecodable) -> Undecodable {
        let packets = self.packets.saturating_sub(before.packets);
        let mut since = Undecodable { packets, ..Undecodable::default() };
        let places = self.reasons.iter().zip(&before.reasons).zip(&mut since.reasons);
        for ((now, before), since) in places {
            let count = |reason: &Option<(DecodeError, u64)>| reason.map_or(0, |(_, count)| count);
            let more = count(now).saturating_sub(count(before));
            *since = now.filter(|_| more > 0).map(|(error, _)| (error, more));
        }
        since
    }

    /// Another one, for this reason.
    pub(super) fn note(&mut self, error: DecodeError) {
        self.packets += 1;
        for place in &mut self.reasons {
            match place {
                None => return *place = Some((error, 1)),
                Some((known, count)) if is_same(*known, error) => return *count += 1,
                Some(_) => {}
            }
        }
    }
}

/// True if two errors name the same thing. Lengths and values are the sender's choice.
fn is_same(one: DecodeError, other: DecodeError) -> bool {
    match (one, other) {
        (DecodeError::OutOfRange { field, .. }, DecodeError::OutOfRange { field: of, .. }) => {
            field == of
        }
        (DecodeError::Truncated { .. }, DecodeError::Truncated { .. })
        | (DecodeError::Trailing(_), DecodeError::Trailing(_)) => true,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_by_what_cannot_be_read_and_a_few_such_things_are_named() {
        let mut held = Undecodable::default();
        (0..9).for_each(|have| held.note(DecodeError::Truncated { need: 9, have }));
        held.note(DecodeError::Unexpected(99));
        let before = held;
        held.note(DecodeError::Unexpected(99));
        (0..1_000).for_each(|kind| held.note(DecodeError::Unexpected(kind)));
        let reasons: Vec<_> = held.reasons().collect();
        assert_eq!((held.packets, reasons.len()), (1_011, REASONS_MAX));
        assert_eq!(reasons[0], (DecodeError::Truncated { need: 9, have: 0 }, 9));
        assert_eq!(reasons[1], (DecodeError::Unexpected(99), 3));
        let since = held.since(&before);
        assert_eq!(since.packets, 1_001);
        assert_eq!(since.reasons().next(), Some((DecodeError::Unexpected(99), 2)));
    }
}
