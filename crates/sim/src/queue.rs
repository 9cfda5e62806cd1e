//! The event queue: a monotone radix heap.
//!
//! Simulated time never runs backwards, so no item is earlier than the last popped one. A radix
//! heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990) uses that: an item waits in the bucket of the highest
//! bit in which its time differs from the last popped one, and moves to a lower bucket at most 64
//! times. The cost of a hold (pop and push) hardly grows with the number pending.

/// A priority queue of `(time, item)` whose pops never go back in time.
///
/// Items of equal time come out in the order in which they were pushed.
#[derive(Debug)]
pub struct RadixHeap<T> {
    last: u64,
    len: usize,
    // Items whose time is `last`; those before `front_taken` are gone already.
    front: Vec<(u64, T)>,
    front_taken: usize,
    // Bucket i holds items that differ from `last` first in bit i; bit i of `occupied` says if any.
    buckets: Vec<Vec<(u64, T)>>,
    occupied: u64,
}

impl<T: Copy> Default for RadixHeap<T> {
    fn default() -> Self {
        RadixHeap {
            last: 0,
            len: 0,
            front: Vec::new(),
            front_taken: 0,
            buckets: (0..64).map(|_| Vec::new()).collect(),
            occupied: 0,
        }
    }
}

impl<T: Copy> RadixHeap<T> {
    /// Adds an item.
    ///
    /// # Panics
    /// If `time` is before the last popped time: an event in the past is a bug of the driver.
    pub fn push(&mut self, time: u64, item: T) {
        assert!(time >= self.last, "event at {time} pushed when time was already {}", self.last);
        self.len += 1;
        self.place(time, item);
    }

    /// Takes the earliest item; among equals the one pushed first.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.pop_until(u64::MAX)
    }

    /// Like [`RadixHeap::pop`], if the item's time is no later than this. Otherwise nothing
    /// changes: items of any time from the last popped one on may still be pushed.
    pub fn pop_until(&mut self, until: u64) -> Option<(u64, T)> {
        if self.front_taken == self.front.len() {
            self.advance(until)?;
        } else if self.last > until {
            return None;
        }
        let next = self.front[self.front_taken];
        self.front_taken += 1;
        self.len -= 1;
        Some(next)
    }

    /// How many items are queued.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let items = self.front.capacity() + self.buckets.iter().map(Vec::capacity).sum::<usize>();
        items * size_of::<(u64, T)>()
    }

    fn place(&mut self, time: u64, item: T) {
        if time == self.last {
            self.front.push((time, item));
        } else {
            let bucket = 63 - (time ^ self.last).leading_zeros() as usize;
            self.occupied |= 1 << bucket;
            self.buckets[bucket].push((time, item));
        }
    }

    /// Empties the lowest occupied bucket into the front and the buckets below it, unless all of
    /// its items are later than `until`.
    fn advance(&mut self, until: u64) -> Option<()> {
        if self.occupied == 0 {
            return None;
        }
        let lowest = self.occupied.trailing_zeros() as usize;
        let times = self.buckets[lowest].iter().map(|&(time, _)| time);
        let earliest = times.min().expect("an occupied bucket has items");
        if earliest > until {
            return None;
        }
        self.front.clear();
        self.front_taken = 0;
        self.occupied &= !(1 << lowest);
        let mut moved = std::mem::take(&mut self.buckets[lowest]);
        self.last = earliest;
        // Every lower bucket is empty now, so items of equal time keep their order.
        for &(time, item) in &moved {
            self.place(time, item);
        }
        moved.clear();
        if moved.capacity() <= 4096 {
            self.buckets[lowest] = moved;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pops_in_time_order_and_equals_in_push_order(
            steps in prop::collection::vec((0u64..1 << 40, 0u8..4, any::<bool>()), 1..600)
        ) {
            let mut heap = RadixHeap::default();
            let mut reference: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (number, (jump, scale, is_pop)) in (0u32..).zip(steps) {
                if is_pop {
                    let expected = (!reference.is_empty()).then(|| reference.remove(0));
                    if let Some((time, _)) = expected.filter(|&(time, _)| time > now) {
                        prop_assert_eq!(heap.pop_until(time - 1), None);
                    }
                    prop_assert_eq!(heap.pop(), expected);
                    now = expected.map_or(now, |(time, _)| time);
                } else {
                    // Scales from "mostly equal" to "far apart".
                    let time = now + (jump >> (scale * 13));
                    heap.push(time, number);
                    let place = reference.partition_point(|&(t, _)| t <= time);
                    reference.insert(place, (time, number));
                }
                prop_assert_eq!(heap.len(), reference.len());
            }
            while let Some(popped) = heap.pop() {
                prop_assert_eq!(popped, reference.remove(0));
            }
            prop_assert!(reference.is_empty());
        }
    }

    #[test]
    fn what_was_looked_for_in_vain_moves_nothing_on() {
        let mut heap = RadixHeap::default();
        heap.push(100, 'b');
        assert_eq!(heap.pop_until(50), None);
        heap.push(60, 'a');
        assert_eq!(heap.pop_until(60), Some((60, 'a')));
        assert_eq!((heap.pop_until(99), heap.pop()), (None, Some((100, 'b'))));
    }

    #[test]
    #[should_panic(expected = "pushed when time was already")]
    fn an_event_in_the_past_is_refused() {
        let mut heap = RadixHeap::default();
        heap.push(10, 0u32);
        heap.pop();
        heap.push(9, 0u32);
    }
}
