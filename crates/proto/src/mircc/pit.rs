//! The pending Interest table (PIT): for each Interest its askers, and the next hops that have it.

use std::hash::{Hash, Hasher as _};
use std::time::Duration;

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

use super::choice::{Choice, spilled_bytes};
use super::face_id::{FaceId, NextHop};
use super::shaper::Rank;
use crate::core::{Instant, Rng};
use crate::ndn::{Class, Name, Token};

/// Names an entry for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryId {
    slot: u32,
    generation: u32,
}

/// The origin of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A neighbour.
    Face(FaceId),
    /// A flow of this node.
    Flow(u64),
    /// A single question of this node's application.
    Question(u64),
}

/// An asker that waits for the Data.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) asker: Asker,
    pub(super) nonce: u32,
    pub(super) class: Class,
    pub(super) token: Option<Token>,
    pub(super) expires_at: Instant,
}

/// A neighbour to which the Interest was sent, or will be once the shaper lets it pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    pub(super) face: FaceId,
    pub(super) nonce: u32,
    pub(super) rank: Rank,
    /// When it left last; none if it never did.
    pub(super) left_at: Option<Instant>,
    /// When it left first; until then, when the face was given it.
    pub(super) first_left_at: Instant,
    /// True while it waits to leave.
    pub(super) is_waiting: bool,
}

impl Passing {
    /// The face is given the Interest now.
    pub(super) fn new(now: Instant, face: FaceId, nonce: u32, rank: Rank) -> Passing {
        Passing { face, nonce, rank, left_at: None, first_left_at: now, is_waiting: true }
    }
}

/// A name and its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashed<'n> {
    pub(super) name: &'n Name,
    pub(super) hash: u64,
}

/// The fields beside the name by which Interests differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selectors {
    pub(super) can_be_prefix: bool,
    pub(super) must_be_fresh: bool,
}

impl Selectors {
    // Of an entry, out of that of its name.
    fn hash(self, name: u64) -> u64 {
        name ^ (self.number() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn number(self) -> usize {
        usize::from(self.can_be_prefix) | usize::from(self.must_be_fresh) << 1
    }
}

/// A pending Interest.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Name,
    pub(super) name_hash: u64,
    pub(super) selectors: Selectors,
    pub(super) asking: SmallVec<[Asking; 1]>,
    pub(super) passing: SmallVec<[Passing; 1]>,
    /// True once it was noted that the Data is overdue.
    pub(super) is_overdue: bool,
    /// True while a second look at it is due.
    is_rearmed: bool,
    /// True if its prefix has several next hops.
    pub(super) has_alternatives: bool,
    /// The next hops that had it, where a strategy chose among several.
    pub(super) choice: Option<Box<Choice>>,
    /// True if its name was asked for before, so that the Data may be worth keeping.
    pub(super) is_wanted: bool,
    /// When it expires, unless it is answered. May only be postponed: the entry is checked at the
    /// earlier time.
    pub(super) expires_at: Instant,
    hash: u64,
    // Bytes of memory beside the entry itself, as of the last `weigh`.
    beside: usize,
    // The list of the entries of one turn of the wheel, or `NONE`.
    turn: u32,
    before: u32,
    after: u32,
    generation: u32,
    is_used: bool,
}

const NONE: u32 = u32::MAX;

/// The resolution of the ends of entries.
pub(super) const TICK: Duration = Duration::from_millis(50);
const TURNS: usize = 128;
/// Room kept for what an entry comes to hold after it was admitted: a token, next hops tried.
const BESIDE_BYTES: usize = 1 << 10;
/// The longest name, bytes of its components, that an Interest may have. Ours: the neighbour
/// chooses the name, and the table keeps it while it is pending. NDN's own limit is that of a
/// packet; names by its conventions are far shorter.
pub const PENDING_NAME_BYTES_MAX: usize = 2_048;
/// A repeated Interest is passed on again only after this time.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The longest that an entry may live.
pub(super) const LIFETIME_MAX: Duration = Duration::from_secs(4);

/// The pending Interest table, bounded by its owner.
pub(super) struct Pit {
    keys: (u64, u64),
    table: HashTable<u32>,
    // An entry that ends stays where it is, for the next to use.
    slots: Vec<Entry>,
    free: Vec<u32>,
    // Sum over the entries of what they take beside themselves.
    beside: usize,
    // By selectors: most of the time only one kind is pending.
    pending: [u32; 4],
    turns: [u32; TURNS],
    // The tick up to which all is done.
    tick: u64,
}

/// The result of a tick.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The Data is overdue; the entry stays.
    Overdue(EntryId),
    /// The same, once more: another next hop was tried.
    OverdueAgain(EntryId),
    /// The entry's time is over.
    Expired(EntryId),
}

impl Pit {
    /// An empty table. The random numbers keep others from choosing names that collide.
    pub(super) fn new(rng: &mut Rng) -> Pit {
        Pit {
            keys: (rng.next_u64(), rng.next_u64()),
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            beside: 0,
            pending: [0; 4],
            turns: [NONE; TURNS],
            tick: 0,
        }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The entry of this name and these selectors.
    pub(super) fn find(&self, name: Hashed<'_>, selectors: Selectors) -> Option<EntryId> {
        let slots = &self.slots;
        let is_it = |&slot: &u32| slots[slot as usize].is(name.name, selectors);
        self.table.find(selectors.hash(name.hash), is_it).map(|&slot| self.id(slot))
    }

    /// A name with the hash by which this node's tables know it.
    pub(super) fn hashed<'n>(&self, name: &'n Name) -> Hashed<'n> {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        name.hash(&mut hasher);
        Hashed { name, hash: hasher.finish() }
    }

    /// The entries that a Data of this name satisfies.
    pub(super) fn matching(&self, name: &Name) -> SmallVec<[EntryId; 2]> {
        let mut found = SmallVec::new();
        for must_be_fresh in [false, true] {
            let exact = Selectors { can_be_prefix: false, must_be_fresh };
            if self.pending[exact.number()] > 0 {
                found.extend(self.find(self.hashed(name), exact));
            }
            let prefix = Selectors { can_be_prefix: true, must_be_fresh };
            if self.pending[prefix.number()] > 0 {
                let shorter = (0..=name.component_count()).map(|count| name.truncated(count));
                found.extend(shorter.filter_map(|name| self.find(self.hashed(&name), prefix)));
                if name.segment().is_some() {
                    found.extend(self.find(self.hashed(name), prefix));
                }
            }
        }
        found
    }

    /// Adds an entry without an asker. It lives until it is [scheduled](Pit::schedule).
    pub(super) fn add(
        &mut self,
        now: Instant,
        Hashed { name, hash: name_hash }: Hashed<'_>,
        selectors: Selectors,
    ) -> EntryId {
        let hash = selectors.hash(name_hash);
        if self.table.is_empty() {
            self.tick = tick_of(now);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Entry::unused());
            // All may end at once.
            self.free.reserve_exact(self.slots.capacity());
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.name = name.clone();
        entry.passing.clear();
        (entry.name_hash, entry.hash, entry.selectors) = (name_hash, hash, selectors);
        (entry.is_overdue, entry.is_wanted, entry.is_used) = (false, false, true);
        (entry.is_rearmed, entry.has_alternatives, entry.choice) = (false, false, None);
        entry.expires_at = now;
        entry.beside = 0;
        self.pending[selectors.number()] += 1;
        let slots = &self.slots;
        self.table.insert_unique(hash, slot, |&slot| slots[slot as usize].hash);
        let id = self.id(slot);
        self.weigh(id);
        id
    }

    /// Updates the account of the memory that an entry holds.
    pub(super) fn weigh(&mut self, id: EntryId) {
        let Some(entry) = self.get_mut(id) else { return };
        let now = entry.memory_beside();
        let before = std::mem::replace(&mut entry.beside, now);
        self.beside = self.beside - before + now;
    }

    /// Keeps the entry until `expires_at` at least. If the Data has not come by `overdue_at`, the
    /// entry is checked then.
    pub(super) fn schedule(&mut self, id: EntryId, overdue_at: Instant, expires_at: Instant) {
        // Next hops and askers have come since.
        self.weigh(id);
        let Some(entry) = self.get_mut(id) else { return };
        entry.expires_at = entry.expires_at.max(expires_at);
        // Where there is a choice each next hop has its time.
        entry.is_rearmed = entry.is_overdue && entry.choice.is_some();
        let is_due_once = entry.is_overdue && !entry.is_rearmed;
        let look_at = if is_due_once { entry.expires_at } else { overdue_at.min(entry.expires_at) };
        let turn = self.turn_of(tick_of(look_at) + 1);
        if self.slots[id.slot as usize].turn != turn {
            self.unlink(id.slot);
            self.link(id.slot, turn);
        }
    }

    /// The entry, if it is still there.
    pub(super) fn get(&self, id: EntryId) -> Option<&Entry> {
        let entry = &self.slots[id.slot as usize];
        (entry.is_used && entry.generation == id.generation).then_some(entry)
    }

    /// The entry, to be changed.
    pub(super) fn get_mut(&mut self, id: EntryId) -> Option<&mut Entry> {
        let entry = &mut self.slots[id.slot as usize];
        (entry.is_used && entry.generation == id.generation).then_some(entry)
    }

    /// Removes an entry. What it was asked for can be read until another is added.
    pub(super) fn remove(&mut self, id: EntryId) -> Option<&mut Entry> {
        self.get(id)?;
        self.unlink(id.slot);
        let entry = &mut self.slots[id.slot as usize];
        entry.is_used = false;
        entry.generation = entry.generation.wrapping_add(1);
        entry.choice = None;
        self.beside -= std::mem::take(&mut entry.beside);
        self.pending[entry.selectors.number()] -= 1;
        let hash = entry.hash;
        if let Ok(place) = self.table.find_entry(hash, |&slot| slot == id.slot) {
            place.remove();
        }
        self.free.push(id.slot);
        Some(&mut self.slots[id.slot as usize])
    }

    /// When the next tick is due; none while nothing is pending.
    pub(super) fn next_tick(&self, now: Instant) -> Option<Instant> {
        (!self.table.is_empty())
            .then(|| Instant::from_nanos((tick_of(now) + 1) * TICK.as_nanos() as u64))
    }

    /// Adds what has become due until now. Expired entries are the caller's to remove.
    pub(super) fn tick(&mut self, now: Instant, due: &mut Vec<Due>) {
        let until = tick_of(now);
        // After a long pause each turn is looked at once.
        let from = self.tick.max(until.saturating_sub(TURNS as u64));
        for tick in from + 1..=until {
            let mut slot = self.turns[tick as usize % TURNS];
            while slot != NONE {
                let id = self.id(slot);
                let entry = self.get_mut(id).expect("what is linked is there");
                slot = entry.after;
                if entry.expires_at <= now {
                    due.push(Due::Expired(id));
                } else {
                    let was_overdue = std::mem::replace(&mut entry.is_overdue, true);
                    let was_rearmed = std::mem::take(&mut entry.is_rearmed);
                    let expires_at = entry.expires_at;
                    let turn = self.turn_of(tick_of(expires_at) + 1);
                    self.unlink(id.slot);
                    self.link(id.slot, turn);
                    match (was_overdue, was_rearmed) {
                        (false, _) => due.push(Due::Overdue(id)),
                        (true, true) => due.push(Due::OverdueAgain(id)),
                        (true, false) => {}
                    }
                }
            }
        }
        self.tick = until;
    }

    /// A random entry of a neighbour: of a few that are drawn, its entry that ends first; `None` if
    /// none of those drawn is the neighbour's.
    pub(super) fn sample(&self, face: FaceId, rng: &mut Rng) -> Option<EntryId> {
        const DRAWS: u32 = 64;
        let drawn = (0..DRAWS).filter_map(|_| {
            let slot = rng.below(self.slots.len() as u32);
            let entry = self.slots.get(slot as usize).filter(|entry| entry.is_used)?;
            let is_its = entry.asking.first()?.asker == Asker::Face(face);
            is_its.then_some((entry.expires_at, slot))
        });
        drawn.min().map(|(_, slot)| self.id(slot))
    }

    /// Bytes of memory it holds, names included. Names that share bytes count as if they did not.
    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Entry>();
        let free = self.free.capacity() * size_of::<u32>();
        self.table.allocation_size() + slots + free + self.beside
    }

    /// Bytes of memory that its entries take, without places that are free.
    pub(super) fn entries_bytes(&self) -> usize {
        self.table.len() * size_of::<Entry>() + self.beside
    }

    /// True if the table, with one more entry of this name, takes at most this many bytes.
    pub(super) fn has_room_for(&self, name: &Name, bytes_max: usize) -> bool {
        // Both double when they grow.
        let slots = match self.free.is_empty() && self.slots.len() == self.slots.capacity() {
            true => self.slots.capacity().max(4) * (size_of::<Entry>() + size_of::<u32>()),
            false => 0,
        };
        let is_table_full = self.table.len() == self.table.capacity();
        let table = if is_table_full { self.table.allocation_size().max(64) } else { 0 };
        let entry = name.prefix_bytes().len() + BESIDE_BYTES;
        self.memory_bytes() + entry + slots + table <= bytes_max
    }

    /// True if one more asker of an entry fits into this many bytes.
    pub(super) fn has_room_for_asker(&self, id: EntryId, bytes_max: usize) -> bool {
        let Some(entry) = self.get(id) else { return false };
        let asking = &entry.asking;
        let grows = if asking.len() < asking.capacity() { 0 } else { 2 * asking.len().max(4) };
        let bytes = grows * size_of::<Asking>() + Token::BYTES_MAX;
        self.memory_bytes() + bytes <= bytes_max
    }

    fn id(&self, slot: u32) -> EntryId {
        EntryId { slot, generation: self.slots[slot as usize].generation }
    }

    fn turn_of(&self, tick: u64) -> u32 {
        (tick.max(self.tick + 1).min(self.tick + TURNS as u64) % TURNS as u64) as u32
    }

    fn link(&mut self, slot: u32, turn: u32) {
        let first = std::mem::replace(&mut self.turns[turn as usize], slot);
        let entry = &mut self.slots[slot as usize];
        (entry.turn, entry.before, entry.after) = (turn, NONE, first);
        if first != NONE {
            self.slots[first as usize].before = slot;
        }
    }

    fn unlink(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let (before, after) = (entry.before, entry.after);
        let turn = std::mem::replace(&mut entry.turn, NONE);
        if turn == NONE {
            return;
        }
        match before {
            NONE => self.turns[turn as usize] = after,
            before => self.slots[before as usize].after = after,
        }
        if after != NONE {
            self.slots[after as usize].before = before;
        }
    }
}

impl Entry {
    fn unused() -> Entry {
        Entry {
            name: Name::root(),
            name_hash: 0,
            selectors: Selectors { can_be_prefix: false, must_be_fresh: false },
            asking: SmallVec::new(),
            passing: SmallVec::new(),
            is_overdue: false,
            is_rearmed: false,
            has_alternatives: false,
            choice: None,
            is_wanted: false,
            hash: 0,
            expires_at: Instant::ZERO,
            beside: 0,
            turn: NONE,
            before: NONE,
            after: NONE,
            generation: 0,
            is_used: false,
        }
    }

    /// A next hop will be passed the Interest in a moment.
    pub(super) fn expect(&mut self, now: Instant, hop: NextHop, nonce: u32, class: Class) {
        let NextHop::Face(face) = hop else { return };
        if self.passing.iter().all(|passing| passing.face != face) {
            self.passing.push(Passing::new(now, face, nonce, class.into()));
        }
    }

    /// Bytes of memory beside the entry itself.
    fn memory_beside(&self) -> usize {
        let tokens = self.asking.iter().flat_map(|asking| &asking.token);
        self.name.prefix_bytes().len()
            + spilled_bytes(&self.asking)
            + spilled_bytes(&self.passing)
            + tokens.map(|token| token.as_bytes().len()).sum::<usize>()
            + self.choice.as_ref().map_or(0, |choice| choice.memory_bytes())
    }

    fn is(&self, name: &Name, selectors: Selectors) -> bool {
        self.selectors == selectors && self.name == *name
    }
}

/// Bytes of memory that an entry of this name takes: its place, and the name.
pub(super) fn entry_bytes(name: &Name) -> usize {
    size_of::<Entry>() + name.prefix_bytes().len()
}

fn tick_of(at: Instant) -> u64 {
    at.as_nanos() / TICK.as_nanos() as u64
}
