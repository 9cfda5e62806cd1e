/// Values in numbered slots; the slot that was freed last is the next to be filled.
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps a value and gives the number of its slot.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
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

    /// Gives a value back and frees its slot.
    pub(crate) fn take(&mut self, slot: u32) -> T {
        let value = self.slots[slot as usize].take().expect("a queued event is stored");
        self.free.push(slot);
        value
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }
}
