//! Values in numbered slots, of which each is taken once.

/// Values in numbered slots; the slot that was freed last is the next to be filled. A number names
/// no value once its value was taken: where one may come later, use slots with generations.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Inserts a value, and returns the number of its slot.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(value);
                slot
            }
            None => {
                self.slots.push(Some(value));
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Takes the value out of a slot, which must hold one.
    #[inline]
    pub fn take(&mut self, slot: u32) -> T {
        let value = self.slots[slot as usize].take().expect("the slot holds a value");
        self.free.push(slot);
        value
    }

    /// The value in a slot, if it holds one.
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// Bytes of memory that it holds, without what values hold themselves.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_once_its_value_is_taken() {
        let mut slab = Slab::default();
        assert_eq!(['a', 'b', 'c'].map(|value| slab.insert(value)), [0, 1, 2]);
        assert_eq!((slab.get(1), slab.get(3)), (Some(&'b'), None));
        assert_eq!((slab.take(1), slab.get(1)), ('b', None));
        assert_eq!(slab.insert('d'), 1);
        assert_eq!([0, 1, 2].map(|slot| slab.take(slot)), ['a', 'd', 'c']);
    }
}
