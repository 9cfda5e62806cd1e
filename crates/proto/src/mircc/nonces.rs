//! Interests that were here and are answered, so that one that comes back is known for a loop.

use crate::core::mix;

/// Names and nonces that are remembered at least and at most, powers of two.
const REMEMBERED_MIN: usize = 1 << 11;
const REMEMBERED_MAX: usize = 1 << 18;

/// Names with nonces, of bounded number; a later one takes the place of an earlier one. There are
/// several times as many as there are pending Interests, so that a loop is noticed that takes
/// longer than a Data does.
///
/// Source: the dead nonce list of NFD, developer's guide, section 3.5.
#[derive(Debug, Default)]
pub(super) struct Nonces {
    // Made with the first.
    hashes: Vec<u64>,
}

impl Nonces {
    /// Remembers an Interest by the hash of its name, while so many are pending.
    pub(super) fn add(&mut self, name_hash: u64, nonce: u32, pending: usize) {
        if self.hashes.len() < (pending * 4).clamp(REMEMBERED_MIN, REMEMBERED_MAX) {
            self.grow(pending * 8);
        }
        let hash = hash(name_hash, nonce);
        let place = self.place(hash);
        self.hashes[place] = hash;
    }

    /// True if the Interest was here, as far as is remembered.
    pub(super) fn contains(&self, name_hash: u64, nonce: u32) -> bool {
        let hash = hash(name_hash, nonce);
        !self.hashes.is_empty() && self.hashes[self.place(hash)] == hash
    }

    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.hashes.len() - 1)
    }

    fn grow(&mut self, wanted: usize) {
        let places = wanted.next_power_of_two().clamp(REMEMBERED_MIN, REMEMBERED_MAX);
        let old = std::mem::replace(&mut self.hashes, vec![0; places]);
        for hash in old.into_iter().filter(|&hash| hash != 0) {
            let place = self.place(hash);
            self.hashes[place] = hash;
        }
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
}
