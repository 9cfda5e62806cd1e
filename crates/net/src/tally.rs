//! Sums of bytes that many parts of a node hold, each of which knows only its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A sum of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<AtomicUsize>);

impl Tally {
    /// A part of the sum, 0 at first.
    pub(crate) fn part(&self) -> TallyPart {
        TallyPart { tally: self.clone(), bytes: 0 }
    }

    /// The sum.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// What one holder adds to a sum, for as long as it exists.
#[derive(Debug)]
pub(crate) struct TallyPart {
    tally: Tally,
    bytes: usize,
}

impl TallyPart {
    /// Sets the bytes that the holder has now.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            // Only the driver's task writes, so nothing comes in between.
            let others = self.tally.bytes() - self.bytes;
            self.tally.0.store(others + bytes, Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for TallyPart {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_as_long_as_it_exists() {
        let tally = Tally::default();
        let (mut one, mut other) = (tally.part(), tally.part());
        one.set(10);
        other.set(5);
        one.set(7);
        assert_eq!(tally.bytes(), 12);
        drop(one);
        assert_eq!(tally.bytes(), 5);
        drop(other);
        assert_eq!(tally.bytes(), 0);
    }
}
