//! Values in numbered places, under ids that outlive them safely.

use std::marker::PhantomData;

/// Names a value for as long as it is in its place. A place that is used again has another
/// generation, so that an id of an earlier value finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotId {
    /// The place, from 0 on.
    pub place: u32,
    /// Tells the value from others that had the place before or have it later.
    pub generation: u32,
}

/// How a place and a generation make an id, which may travel in messages.
pub trait SlotKey: Copy {
    /// Bits of a generation. Those of a place repeat after as many uses.
    const GENERATION_BITS: u32;

    /// The id of the value that is in `place` as the one of this generation.
    fn new(place: u32, generation: u32) -> Self;

    /// The place.
    fn place(self) -> u32;

    /// The generation.
    fn generation(self) -> u32;
}

impl SlotKey for SlotId {
    const GENERATION_BITS: u32 = 32;

    fn new(place: u32, generation: u32) -> SlotId {
        SlotId { place, generation }
    }

    fn place(self) -> u32 {
        self.place
    }

    fn generation(self) -> u32 {
        self.generation
    }
}

/// A table of values, each under an id. Each place is aligned as `Align` is.
#[derive(Clone, Debug)]
pub struct Slots<T, Id = SlotId, Align = ()> {
    places: Vec<Place<T, Align>>,
    // The place that was freed last, or `NONE`; each names the one that was freed before it.
    free: u32,
    len: u32,
    first_generation: u32,
    id: PhantomData<Id>,
}

#[derive(Clone, Debug)]
struct Place<T, Align> {
    generation: u32,
    next_free: u32,
    value: Option<T>,
    _align: [Align; 0],
}

const NONE: u32 = u32::MAX;

impl<T, Id, Align> Default for Slots<T, Id, Align> {
    fn default() -> Self {
        Slots { places: Vec::new(), free: NONE, len: 0, first_generation: 0, id: PhantomData }
    }
}

impl<T, Id: SlotKey, Align> Slots<T, Id, Align> {
    const GENERATION_MAX: u32 = u32::MAX >> (32 - Id::GENERATION_BITS);

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the generation of the first use of each place, so that ids differ from those of an
    /// earlier table, such as that of the node before it restarted. The first one set stands.
    pub fn set_first_generation(&mut self, generation: u32) {
        if self.places.is_empty() && self.first_generation == 0 {
            self.first_generation = generation & Self::GENERATION_MAX;
        }
    }

    /// A generation that no place has had, for the table that takes the place of this one.
    pub fn unused_generation(&self) -> u32 {
        let uses = |place: &Place<T, Align>| {
            place.generation.wrapping_sub(self.first_generation) & Self::GENERATION_MAX
        };
        let most = self.places.iter().map(uses).max().unwrap_or(0);
        self.first_generation.wrapping_add(most).wrapping_add(1) & Self::GENERATION_MAX
    }

    /// Inserts a value and returns its id. The caller must hold fewer values than ids can address.
    pub fn insert(&mut self, value: T) -> Id {
        self.len += 1;
        if self.free == NONE {
            let generation = self.first_generation;
            let place = Place { generation, next_free: NONE, value: Some(value), _align: [] };
            self.places.push(place);
            return Id::new(self.places.len() as u32 - 1, generation);
        }
        let at = self.free;
        let place = &mut self.places[at as usize];
        self.free = place.next_free;
        place.value = Some(value);
        Id::new(at, place.generation)
    }

    /// The value of this id, if it is still there.
    pub fn get(&self, id: Id) -> Option<&T> {
        let place = self.places.get(id.place() as usize)?;
        place.value.as_ref().filter(|_| place.generation == id.generation())
    }

    /// The value of this id, to be changed.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let place = self.places.get_mut(id.place() as usize)?;
        place.value.as_mut().filter(|_| place.generation == id.generation())
    }

    /// Takes the value of this id out.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let place = self.places.get_mut(id.place() as usize)?;
        if place.generation != id.generation() {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1) & Self::GENERATION_MAX;
        place.next_free = self.free;
        self.free = id.place();
        self.len -= 1;
        Some(value)
    }

    /// Removes all values. Places are used again from the first on.
    pub fn clear(&mut self) {
        (self.free, self.len) = (NONE, 0);
        for (place, held) in self.places.iter_mut().enumerate().rev() {
            if held.value.take().is_some() {
                held.generation = held.generation.wrapping_add(1) & Self::GENERATION_MAX;
            }
            held.next_free = self.free;
            self.free = place as u32;
        }
    }

    /// The generation of a place: what a look at it reads first.
    pub fn generation(&self, place: u32) -> Option<u32> {
        self.places.get(place as usize).map(|place| place.generation)
    }

    /// All values, by place.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        (0..).zip(&self.places).filter_map(|(place, held)| {
            Some((Id::new(place, held.generation), held.value.as_ref()?))
        })
    }

    /// All values, by place, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.value.as_mut())
    }

    /// Bytes of memory that it holds, without what values hold themselves.
    pub fn heap_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place<T, Align>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An id of four bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Short(u8);

    impl SlotKey for Short {
        const GENERATION_BITS: u32 = 2;

        fn new(place: u32, generation: u32) -> Short {
            Short((place << 2 | generation) as u8)
        }

        fn place(self) -> u32 {
            u32::from(self.0 >> 2)
        }

        fn generation(self) -> u32 {
            u32::from(self.0 & 3)
        }
    }

    #[test]
    fn an_id_finds_its_own_value_and_none_that_took_its_place() {
        let mut slots: Slots<&str> = Slots::default();
        let (a, b) = (slots.insert("a"), slots.insert("b"));
        assert_eq!((a.place, b.place, slots.len()), (0, 1, 2));
        assert_eq!((slots.remove(a), slots.remove(a)), (Some("a"), None));
        assert_eq!(slots.get(a), None);
        let c = slots.insert("c");
        assert_eq!((c.place, c.generation), (0, 1));
        assert!(slots.get(a).is_none() && slots.get_mut(a).is_none() && slots.remove(a).is_none());
        *slots.get_mut(c).unwrap() = "d";
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(c, &"d"), (b, &"b")]);
        assert_eq!((slots.iter_mut().count(), slots.len()), (2, 2));
        assert_eq!(slots.get(SlotId { place: 7, generation: 0 }), None);
    }

    #[test]
    fn the_place_that_was_freed_last_is_used_first() {
        let mut slots: Slots<u32> = Slots::default();
        let ids: Vec<SlotId> = (0..4).map(|value| slots.insert(value)).collect();
        [1, 3, 0].into_iter().for_each(|nth: usize| assert!(slots.remove(ids[nth]).is_some()));
        let places: Vec<u32> = (0..4).map(|value| slots.insert(value).place).collect();
        assert_eq!(places, [0, 3, 1, 4]);
    }

    #[test]
    fn no_id_of_before_finds_anything_once_all_are_removed() {
        let mut slots: Slots<u32> = Slots::default();
        let before: Vec<SlotId> = (0..3).map(|value| slots.insert(value)).collect();
        slots.remove(before[1]);
        slots.clear();
        assert_eq!((slots.len(), slots.iter().count()), (0, 0));
        let after: Vec<SlotId> = (0..4).map(|value| slots.insert(value)).collect();
        assert_eq!(after.iter().map(|id| id.place).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(before.iter().all(|&id| slots.get(id).is_none()));
        assert_eq!((slots.generation(0), slots.generation(4)), (Some(1), None));
    }

    #[test]
    fn generations_have_as_many_bits_as_their_ids_have_room_for() {
        let mut slots: Slots<(), Short> = Slots::default();
        let mut generations = Vec::new();
        for _ in 0..5 {
            let id = slots.insert(());
            generations.push(id.generation());
            slots.remove(id);
        }
        assert_eq!(generations, [0, 1, 2, 3, 0]);
    }

    #[test]
    fn a_table_that_replaces_another_gives_none_of_its_ids() {
        let mut slots: Slots<(), Short> = Slots::default();
        assert_eq!(slots.unused_generation(), 1);
        slots.set_first_generation(7);
        slots.set_first_generation(1);
        let first = slots.insert(());
        assert_eq!((first.generation(), slots.unused_generation()), (3, 0), "of two bits");
        slots.remove(first);
        let second = slots.insert(());
        slots.set_first_generation(2);
        assert_eq!((second.generation(), slots.unused_generation()), (0, 1));
    }

    #[test]
    fn places_are_aligned_as_asked() {
        #[repr(align(64))]
        struct Line;
        let mut slots: Slots<[u64; 5], SlotId, Line> = Slots::default();
        (0..4).for_each(|_| {
            slots.insert([0; 5]);
        });
        assert_eq!(slots.heap_bytes(), 4 * 64);
        assert!(slots.iter().all(|(_, value)| value.as_ptr() as usize / 64 * 64 + 64
            >= value.as_ptr() as usize + size_of::<[u64; 5]>()));
    }
}
