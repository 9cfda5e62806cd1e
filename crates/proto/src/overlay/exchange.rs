use super::message::Body;
use crate::core::{Instant, NodeId};

/// Things in places that have names: a name is used again only after many others.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    // The first free place, or `NONE`.
    free: u16,
    len: u16,
    // What names of the first use of a place begin with.
    salt: u16,
}

#[derive(Clone, Debug)]
struct Place<T> {
    generation: u16,
    // The next free place while this one is free.
    next: u16,
    thing: Option<T>,
}

const NONE: u16 = u16::MAX;

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { places: Vec::new(), free: NONE, len: 0, salt: 0 }
    }
}

impl<T> Slab<T> {
    /// Names differ from those of another salt: nothing of an earlier run is taken for an answer.
    /// The first salt stands.
    pub(super) fn set_salt(&mut self, salt: u16) {
        if self.places.is_empty() && self.salt == 0 {
            self.salt = salt;
        }
    }

    /// A salt for the slab that takes the place of this one.
    pub(super) fn next_salt(&self) -> u16 {
        let generations = self.places.iter().map(|place| place.generation.wrapping_sub(self.salt));
        self.salt.wrapping_add(generations.max().unwrap_or(0)).wrapping_add(1)
    }

    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    /// Puts a thing in and returns its name; at most 65,535 things are in at once.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        debug_assert!(self.len < NONE, "callers keep to their bounds");
        let index = if self.free == NONE {
            self.places.push(Place { generation: self.salt, next: NONE, thing: None });
            (self.places.len() - 1) as u16
        } else {
            self.free
        };
        let place = &mut self.places[usize::from(index)];
        if self.free == index {
            self.free = place.next;
        }
        place.thing = Some(thing);
        self.len += 1;
        u32::from(place.generation) << 16 | u32::from(index)
    }

    fn place(&self, name: u32) -> Option<usize> {
        let index = (name & 0xffff) as usize;
        let place = self.places.get(index)?;
        (place.generation == (name >> 16) as u16 && place.thing.is_some()).then_some(index)
    }

    pub(super) fn get(&self, name: u32) -> Option<&T> {
        self.places[self.place(name)?].thing.as_ref()
    }

    pub(super) fn get_mut(&mut self, name: u32) -> Option<&mut T> {
        let index = self.place(name)?;
        self.places[index].thing.as_mut()
    }

    pub(super) fn remove(&mut self, name: u32) -> Option<T> {
        let index = self.place(name)?;
        let place = &mut self.places[index];
        let thing = place.thing.take();
        place.generation = place.generation.wrapping_add(1);
        place.next = self.free;
        self.free = index as u16;
        self.len -= 1;
        thing
    }

    /// Bytes of memory it holds, without what things hold themselves.
    pub(super) fn heap_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place<T>>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let name =
            |(index, place): (usize, &Place<T>)| u32::from(place.generation) << 16 | index as u32;
        self.places
            .iter()
            .enumerate()
            .filter_map(move |(index, place)| Some((name((index, place)), place.thing.as_ref()?)))
    }
}

/// A message whose answer is awaited.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// Who is to answer.
    pub to: NodeId,
    /// How often it was sent.
    pub sends: u8,
    /// How many nodes were tried before this one.
    pub tries: u8,
    /// When it was sent first.
    pub sent_at: Instant,
    /// When it counts as unanswered.
    pub due_at: Instant,
    /// What the answer is for.
    pub cause: Cause,
    /// What was said.
    pub body: Body,
    /// What a look-up that asks hop by hop needs to go on.
    pub trail: Option<Box<Trail>>,
}

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A bundle of another, or an own one: it is in the message.
    Relay {
        /// Who handed it over; this node itself if it began here.
        from: NodeId,
    },
    /// A request of this node, by its name.
    Request(u32),
    /// A job done for others, by its name.
    Job(u32),
    /// Replicas compare what they hold.
    Sync,
    /// The table.
    Table,
    /// Whether a node that was given up is there again.
    Lost,
    /// The node whose place in the table another may have if there is no answer.
    Ping(NodeId),
}

/// Where a look-up has been.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail {
    /// Hops made, this one included.
    pub hops: u8,
    /// Who named the nodes.
    pub named_by: Option<NodeId>,
    /// Other nodes that may be asked for the same targets.
    pub others: Vec<NodeId>,
}
