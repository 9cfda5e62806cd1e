//! Values known by small numbers that are used again.

/// A table of values, each in a slot of its own until it is removed.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    values: Vec<T>,
    // Slots whose values were removed.
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { values: Vec::new(), free: Vec::new() }
    }
}

impl<T: Copy> Slots<T> {
    /// Adds a value; returns its slot.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.values[slot as usize] = value;
            return slot;
        }
        self.values.push(value);
        (self.values.len() - 1) as u32
    }

    /// Removes the value in a slot, which must hold one.
    pub(crate) fn remove(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.values[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_once_its_value_is_removed() {
        let mut slots = Slots::default();
        assert_eq!(['a', 'b', 'c'].map(|value| slots.insert(value)), [0, 1, 2]);
        assert_eq!((slots.remove(1), slots.insert('d')), ('b', 1));
        assert_eq!([0, 1, 2].map(|slot| slots.remove(slot)), ['a', 'd', 'c']);
    }
}
