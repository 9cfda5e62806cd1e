//! Which numbers were seen (RFC 4303, section 3.4.3), in a ring of words (RFC 6479).

/// Remembers the numbers of a lane that were accepted: the highest, and which below it.
///
/// `WORDS` words of 64 bits accept each number once that is less than 64 (`WORDS` - 1) below the
/// highest. Smaller numbers are refused, whether they were seen or not.
#[derive(Clone, Debug)]
pub struct Window<const WORDS: usize> {
    // One past the highest number that was accepted.
    next: u64,
    words: [u64; WORDS],
}

impl<const WORDS: usize> Window<WORDS> {
    /// How far below the highest number one may be and is still told from a repeated one.
    pub const REACH: u64 = 64 * (WORDS as u64 - 1);

    /// A window that has seen nothing.
    pub fn new() -> Window<WORDS> {
        const { assert!(WORDS >= 2) };
        Window { next: 0, words: [0; WORDS] }
    }

    /// True if this number was not accepted yet, and is not too old to tell.
    pub fn admits(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        let (word, bit) = Self::place(number);
        self.next - 1 - number < Self::REACH && self.words[word] & bit == 0
    }

    /// Notes an accepted number, which the window admits.
    pub fn accept(&mut self, number: u64) {
        debug_assert!(self.admits(number) && number < u64::MAX);
        let (word, bit) = Self::place(number);
        if number >= self.next {
            // Words between the one of the highest number so far and that of this one are of
            // numbers out of reach now.
            let passed = match self.next.checked_sub(1) {
                Some(highest) => number / 64 - highest / 64,
                None => WORDS as u64,
            };
            for back in 0..passed.min(WORDS as u64) {
                self.words[(word + WORDS - back as usize) % WORDS] = 0;
            }
            self.next = number + 1;
        }
        self.words[word] |= bit;
    }

    fn place(number: u64) -> (usize, u64) {
        ((number / 64 % WORDS as u64) as usize, 1 << (number % 64))
    }
}

impl<const WORDS: usize> Default for Window<WORDS> {
    fn default() -> Self {
        Window::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_admitted_once_and_down_to_the_reach_only() {
        let mut window = Window::<17>::new();
        assert_eq!(Window::<17>::REACH, 1024);
        window.accept(5000);
        assert!(!window.admits(5000) && window.admits(4999) && window.admits(5001));
        assert!(window.admits(5000 - 1023) && !window.admits(5000 - 1024));
        window.accept(5000 - 1023);
        assert!(!window.admits(5000 - 1023));
        window.accept(u64::MAX - 1);
        assert!(!window.admits(5001) && !window.admits(u64::MAX - 1));
        assert!(window.admits(u64::MAX - 1024));
    }

    proptest! {
        /// Against a set of all numbers that were accepted.
        #[test]
        fn the_window_is_the_set_of_what_was_accepted(
            steps in prop::collection::vec((0_u64..4, 0_u64..400), 1..400)
        ) {
            let mut window = Window::<3>::new();
            let mut seen = BTreeSet::new();
            let mut highest = 0_u64;
            for (leap, offset) in steps {
                let number = match leap {
                    // Near the highest, at the edge of the reach, far ahead, any old one.
                    0 => (highest + offset % 8).saturating_sub(4),
                    1 => (highest + offset % 5).saturating_sub(Window::<3>::REACH + 2),
                    2 => highest + offset,
                    _ => highest.saturating_sub(offset),
                };
                let is_old = !seen.is_empty() && number + Window::<3>::REACH <= highest;
                let expected = !is_old && !seen.contains(&number);
                prop_assert_eq!(window.admits(number), expected, "{} after {}", number, highest);
                if expected {
                    window.accept(number);
                    seen.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
