//! The dead nonce list: Interests that were answered here, so that a copy that returns is known for
//! a loop.

use std::ops::Range;

use crate::core::mix;

/// Names and nonces that are remembered at least and at most, powers of two.
const REMEMBERED_MIN: usize = 1 << 8;
const REMEMBERED_MAX: usize = 1 << 18;

/// Places that a name and nonce may have. With one, the next to come could take the place of what
/// ended a moment ago, and its copy on the way would be taken for new.
const WAYS: usize = 4;

/// Names with nonces, of bounded number; a later one takes the place of the oldest of a few. There
/// are several times as many as there are pending Interests, so that a loop is noticed that takes
/// longer than a Data does.
///
/// Source: the dead nonce list of NFD, developer's guide, section 3.5.
#[derive(Debug, Default)]
pub(super) struct Nonces {
    // Made with the first.
    hashes: Vec<u64>,
}

impl Nonces {
    /// Remembers an Interest by the hash of its name, while `pending` Interests are pending.
    pub(super) fn add(&mut self, name_hash: u64, nonce: u32, pending: usize) {
        if self.hashes.len() < (pending * 4).clamp(REMEMBERED_MIN, REMEMBERED_MAX) {
            self.grow(pending * 8);
        }
        self.put(hash(name_hash, nonce));
    }

    /// True if the Interest was here, as far as is remembered.
    pub(super) fn contains(&self, name_hash: u64, nonce: u32) -> bool {
        let hash = hash(name_hash, nonce);
        !self.hashes.is_empty() && self.hashes[self.places(hash)].contains(&hash)
    }

    /// Bytes of memory it holds.
    pub(super) fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }

    /// The newest comes first. An Interest that ends once more moves to the front: with a second
    /// place it would push out another one.
    fn put(&mut self, hash: u64) {
        let places = self.places(hash);
        let places = &mut self.hashes[places];
        let oldest = places.iter().position(|&known| known == hash).unwrap_or(WAYS - 1);
        places[..=oldest].rotate_right(1);
        places[0] = hash;
    }

    fn places(&self, hash: u64) -> Range<usize> {
        let first = hash as usize & (self.hashes.len() - WAYS);
        first..first + WAYS
    }

    fn grow(&mut self, wanted: usize) {
        let places = wanted.next_power_of_two().clamp(REMEMBERED_MIN, REMEMBERED_MAX);
        let old = std::mem::replace(&mut self.hashes, vec![0; places]);
        old.into_iter().rev().filter(|&hash| hash != 0).for_each(|hash| self.put(hash));
    }
}

fn hash(name_hash: u64, nonce: u32) -> u64 {
    // Zero stands for none.
    mix(name_hash ^ u64::from(nonce).rotate_left(32)) | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interest_is_known_again_by_name_and_nonce() {
        let mut nonces = Nonces::default();
        let [a, b] = [0x1234_5678_9abc_def0, 0xfedc_ba98];
        assert!(!nonces.contains(a, 7));
        nonces.add(a, 7, 1);
        assert!(nonces.contains(a, 7));
        assert!(!nonces.contains(a, 8) && !nonces.contains(b, 7));
        (0..100_000).for_each(|nonce| nonces.add(b, nonce, 1));
        assert!(nonces.contains(b, 99_999) && !nonces.contains(a, 7));
    }

    #[test]
    fn what_ended_just_now_is_remembered_whatever_the_hashes() {
        let mut nonces = Nonces::default();
        for nonce in 0..1_000_000 {
            nonces.add(7, nonce, 1);
            assert!(nonces.contains(7, nonce.saturating_sub(8)), "{nonce}");
        }
    }

    #[test]
    fn an_interest_that_ends_more_than_once_takes_one_place() {
        let mut nonces = Nonces::default();
        nonces.add(7, 0, 1);
        // Of the same places as the first: as many as there is room for.
        let places = nonces.places(hash(7, 0));
        let shares = |&nonce: &u32| nonces.places(hash(7, nonce)) == places;
        let others: Vec<u32> = (1..).filter(shares).take(WAYS - 1).collect();
        for &nonce in others.iter().chain(&others) {
            nonces.add(7, nonce, 1);
            nonces.add(7, nonce, 1);
        }
        assert!(nonces.contains(7, 0));
        assert!(others.iter().all(|&nonce| nonces.contains(7, nonce)));
        // One that ends again is the newest: the next to come takes the place of another.
        nonces.add(7, 0, 1);
        let shares = |&nonce: &u32| nonces.places(hash(7, nonce)) == places;
        let next = (others[WAYS - 2] + 1..).find(shares).expect("there are many");
        nonces.add(7, next, 1);
        assert!(nonces.contains(7, 0) && !nonces.contains(7, others[0]));
    }

    #[test]
    fn growing_forgets_nothing() {
        let mut nonces = Nonces::default();
        (0..20).for_each(|nonce| nonces.add(7, nonce, 1));
        nonces.add(7, 20, 10_000);
        assert!((0..=20).all(|nonce| nonces.contains(7, nonce)));
        assert_eq!(nonces.memory_bytes(), 131_072 * 8);
    }
}
