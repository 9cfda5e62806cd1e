//! The walks of a job that are under way: all of them, in a list with a deadline each.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::Instant;
use crate::graphshare::Vertex;
use crate::parts::slots::{SlotKey, Slots};

/// How fine deadlines are.
const TICK: Duration = Duration::from_millis(1);
/// Bits of a token that name the attempt, and those that name the walk in its place.
const ATTEMPT_BITS: u32 = 8;
const GENERATION_BITS: u32 = 28;
/// The most walks in a list: each has a place of its own.
pub(super) const FLIGHTS_MAX: usize = 1 << (64 - GENERATION_BITS - ATTEMPT_BITS);

/// A walk under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Its number in the job.
    pub walk: u64,
    /// Where it began.
    pub source: Vertex,
    /// Steps until its end.
    pub length: u32,
    /// How often it was begun, this time included.
    pub attempt: u8,
    /// True while the walk is lost and waits to be sent again. It still ends if its latest walker
    /// comes home after all.
    pub is_waiting: bool,
    /// When it was begun, this time.
    pub sent: Instant,
    /// When it was begun first.
    pub first_sent: Instant,
}

impl Flight {
    /// When this attempt began; known only for the first and the latest attempt.
    pub fn begun(&self, attempt: u8) -> Option<Instant> {
        match attempt {
            1 => Some(self.first_sent),
            _ => (attempt == self.attempt).then_some(self.sent),
        }
    }
}

/// Each flight has a cache line of its own, since places are accessed in any order.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct CacheLine;

/// All walks under way. A token names a place, its generation and the attempt. Whichever walker of
/// a walk comes home first ends the walk, since all its walkers take the same path. A walker that
/// comes later finds its place free or under another generation, and is ignored.
#[derive(Clone, Debug, Default)]
pub struct Flights {
    slots: Slots<Flight, WalkId, CacheLine>,
    /// Steps of all of them, and one for each.
    steps: u64,
    /// Tokens by the tick in which they are due.
    due: BTreeMap<u64, Vec<u64>>,
}

impl Flights {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Steps of all walks until their ends, and one for each walk.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// All of them, each with the token of its latest attempt.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Flight)> {
        self.slots.iter().map(|(slot, flight)| (token(slot, flight.attempt), flight))
    }

    /// Enters a walk, and returns the token for its walker. The caller must hold fewer than
    /// `FLIGHTS_MAX` walks.
    pub fn begin(&mut self, flight: Flight) -> u64 {
        self.steps += u64::from(flight.length) + 1;
        token(self.slots.insert(flight), flight.attempt)
    }

    /// Starts the next attempt of a walk: its state and its next token. `None` if the walk has
    /// ended.
    pub fn begin_again(&mut self, token: u64, now: Instant) -> Option<(u64, Flight)> {
        let flight = self.flight_mut(token)?;
        flight.attempt += 1;
        (flight.sent, flight.is_waiting) = (now, false);
        let walk = token >> ATTEMPT_BITS << ATTEMPT_BITS;
        Some((walk | u64::from(flight.attempt), *flight))
    }

    /// Marks a walk that will be sent again later.
    pub fn set_waiting(&mut self, token: u64) {
        if let Some(flight) = self.flight_mut(token) {
            flight.is_waiting = true;
        }
    }

    /// The walk of a token, if it has not ended, whichever attempt the token is of.
    pub fn flight(&self, token: u64) -> Option<&Flight> {
        self.slots.get(walk_of(token)).filter(|flight| attempt_of(token) <= flight.attempt)
    }

    fn flight_mut(&mut self, token: u64) -> Option<&mut Flight> {
        self.slots.get_mut(walk_of(token)).filter(|flight| attempt_of(token) <= flight.attempt)
    }

    /// The walk of a token that it waits for to come home: the token of its latest attempt.
    pub fn awaited(&self, token: u64) -> Option<&Flight> {
        let is_awaited =
            |flight: &&Flight| attempt_of(token) == flight.attempt && !flight.is_waiting;
        self.flight(token).filter(is_awaited)
    }

    /// Prefetches the places of these tokens: among many walks under way each access is a cache
    /// miss, and misses overlap if they are issued together.
    pub fn touch(&self, tokens: impl Iterator<Item = u64>) {
        let read = tokens.filter_map(|token| self.slots.generation(walk_of(token).place()));
        std::hint::black_box(read.fold(0, |all, generation| all ^ generation));
    }

    /// Takes a walk out.
    pub fn end(&mut self, token: u64) -> Option<Flight> {
        self.steps -= u64::from(self.flight(token)?.length) + 1;
        self.slots.remove(walk_of(token))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.due.clear();
        self.steps = 0;
    }

    /// Sets when to check a walk.
    pub fn set_deadline(&mut self, token: u64, at: Instant) {
        // Rounded up: never early.
        let tick = at.as_nanos().div_ceil(TICK.as_nanos() as u64);
        self.due.entry(tick).or_default().push(token);
    }

    /// When to check the next walk; the deadline may belong to a walk that has ended.
    pub fn next_deadline(&self) -> Option<Instant> {
        let (tick, _) = self.due.first_key_value()?;
        Some(Instant::from_nanos(tick.saturating_mul(TICK.as_nanos() as u64)))
    }

    /// Takes those out of the list of deadlines that are due and still awaited. They stay so.
    pub fn take_due(&mut self, now: Instant, due: &mut Vec<u64>) {
        while self.next_deadline().is_some_and(|at| at <= now) {
            let (_, tokens) = self.due.pop_first().expect("there is a next deadline");
            due.extend(tokens.into_iter().filter(|&token| self.awaited(token).is_some()));
        }
    }

    /// Bytes that the list holds.
    pub fn memory_bytes(&self) -> usize {
        let due: usize = self.due.values().map(|tokens| tokens.capacity() * 8 + 64).sum();
        self.slots.heap_bytes() + due
    }
}

/// A walk as its token names it: the place in the upper bits, the generation in the lower.
#[derive(Clone, Copy, Debug)]
struct WalkId(u64);

impl SlotKey for WalkId {
    const GENERATION_BITS: u32 = GENERATION_BITS;

    fn new(place: u32, generation: u32) -> WalkId {
        WalkId(u64::from(place) << GENERATION_BITS | u64::from(generation))
    }

    fn place(self) -> u32 {
        (self.0 >> GENERATION_BITS) as u32
    }

    fn generation(self) -> u32 {
        (self.0 & ((1 << GENERATION_BITS) - 1)) as u32
    }
}

fn token(walk: WalkId, attempt: u8) -> u64 {
    walk.0 << ATTEMPT_BITS | u64::from(attempt)
}

fn walk_of(token: u64) -> WalkId {
    WalkId(token >> ATTEMPT_BITS)
}

/// Which attempt a token is of, from 1 on.
pub(super) fn attempt_of(token: u64) -> u8 {
    token as u8
}

/// True if two tokens are of the same walk.
pub(super) fn is_same_walk(one: u64, other: u64) -> bool {
    one >> ATTEMPT_BITS == other >> ATTEMPT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(walk: u64) -> Flight {
        let (at, is_waiting) = (Instant::ZERO, false);
        Flight { walk, source: 0, length: 3, attempt: 1, is_waiting, sent: at, first_sent: at }
    }

    #[test]
    fn a_token_of_an_earlier_walk_is_nobodys() {
        let mut flights = Flights::default();
        let first = flights.begin(flight(1));
        assert_eq!(flights.end(first), Some(flight(1)));
        let second = flights.begin(flight(2));
        assert_eq!(walk_of(first).place(), walk_of(second).place(), "the place is used again");
        assert_eq!(flights.end(first), None);
        assert_eq!(flights.flight(second), Some(&flight(2)));
        assert_eq!(flights.len(), 1);
        assert_eq!(flights.end(u64::MAX), None);
        flights.clear();
        let third = flights.begin(flight(3));
        assert_eq!((flights.flight(second), flights.flight(third)), (None, Some(&flight(3))));
        assert_eq!((flights.len(), flights.steps(), flights.memory_bytes()), (1, 4, 4 * 64));
    }

    #[test]
    fn whichever_walker_of_a_walk_comes_first_ends_it() {
        let mut flights = Flights::default();
        let first = flights.begin(flight(1));
        let now = Instant::ZERO + Duration::from_secs(1);
        flights.set_waiting(first);
        assert!(flights.awaited(first).is_none() && flights.flight(first).is_some());
        let (second, again) = flights.begin_again(first, now).unwrap();
        assert_eq!((attempt_of(first), attempt_of(second), again.attempt), (1, 2, 2));
        assert_eq!((again.sent, again.first_sent), (now, Instant::ZERO));
        assert!(flights.awaited(first).is_none() && flights.awaited(second).is_some());
        assert_eq!(flights.iter().next(), Some((second, &again)));
        assert_eq!(flights.flight(second + 1), None, "there is no third");
        assert_eq!(flights.end(first), Some(again));
        assert_eq!((flights.end(second), flights.begin_again(second, now)), (None, None));
        assert_eq!(flights.len(), 0);
    }

    #[test]
    fn deadlines_are_never_early_and_skip_who_has_ended() {
        let mut flights = Flights::default();
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        let tokens: Vec<u64> = (0..3).map(|walk| flights.begin(flight(walk))).collect();
        flights.set_deadline(tokens[0], at(1500));
        flights.set_deadline(tokens[1], at(1400));
        flights.set_deadline(tokens[2], at(9000));
        flights.end(tokens[1]);
        let mut due = Vec::new();
        flights.take_due(at(1900), &mut due);
        assert!(due.is_empty());
        assert_eq!(flights.next_deadline(), Some(at(2000)));
        flights.take_due(at(2000), &mut due);
        assert_eq!(due, [tokens[0]]);
        assert_eq!(flights.len(), 2);
    }
}
