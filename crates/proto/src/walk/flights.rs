//! The walks of a job that are under way: all of them, in a list with a deadline each.

use std::collections::BTreeMap;
use std::time::Duration;

use super::graph::Vertex;
use crate::core::Instant;

/// How fine deadlines are.
const TICK: Duration = Duration::from_millis(1);

/// A walk under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Its number in the job.
    pub walk: u64,
    /// Where it began.
    pub source: Vertex,
    /// Steps that it is to take.
    pub length: u32,
    /// How often it was begun, this time included.
    pub attempt: u8,
    /// When it was begun, this time.
    pub sent: Instant,
    /// When it was begun first.
    pub first_sent: Instant,
}

/// A place in the list: the flight and its serial number, or a free one.
#[derive(Clone, Debug)]
struct Slot {
    serial: u32,
    flight: Option<Flight>,
}

/// All walks under way. A token names a place and a serial number: who comes back late, after his
/// walk was begun anew, is not taken for the one that counts.
#[derive(Clone, Debug, Default)]
pub struct Flights {
    slots: Vec<Slot>,
    free: Vec<u32>,
    serial: u32,
    /// Tokens by the tick in which they are due.
    due: BTreeMap<u64, Vec<u64>>,
}

impl Flights {
    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All of them, each with its token.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Flight)> {
        let slots = (0u64..).zip(&self.slots);
        slots.filter_map(|(place, slot)| {
            Some((place << 32 | u64::from(slot.serial), slot.flight.as_ref()?))
        })
    }

    /// Enters a walk, and returns the token it is to carry.
    pub fn begin(&mut self, flight: Flight) -> u64 {
        self.serial = self.serial.wrapping_add(1);
        let slot = Slot { serial: self.serial, flight: Some(flight) };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        u64::from(place) << 32 | u64::from(self.serial)
    }

    /// The walk of a token, if it is under way.
    pub fn flight(&self, token: u64) -> Option<&Flight> {
        let slot = self.slots.get((token >> 32) as usize)?;
        slot.flight.as_ref().filter(|_| slot.serial == token as u32)
    }

    /// Reads the places of these tokens together, so that they are near once each is asked for:
    /// among many walks under way each is a read of memory, which do not wait for each other.
    pub fn touch(&self, tokens: impl Iterator<Item = u64>) {
        let slots = tokens.filter_map(|token| self.slots.get((token >> 32) as usize));
        std::hint::black_box(slots.fold(0, |read, slot| read ^ slot.serial));
    }

    /// Takes a walk out.
    pub fn end(&mut self, token: u64) -> Option<Flight> {
        self.flight(token)?;
        self.free.push((token >> 32) as u32);
        self.slots[(token >> 32) as usize].flight.take()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.free.clear();
        self.slots.clear();
        self.due.clear();
    }

    /// Sets when a walk is to be looked at.
    pub fn set_deadline(&mut self, token: u64, at: Instant) {
        // Rounded up: never early.
        let tick = at.as_nanos().div_ceil(TICK.as_nanos() as u64);
        self.due.entry(tick).or_default().push(token);
    }

    /// When the next walk is to be looked at; some that have ended may be among those counted.
    pub fn next_deadline(&self) -> Option<Instant> {
        let (tick, _) = self.due.first_key_value()?;
        Some(Instant::from_nanos(tick.saturating_mul(TICK.as_nanos() as u64)))
    }

    /// Takes those out of the list of deadlines that are due and still under way. They stay under
    /// way.
    pub fn take_due(&mut self, now: Instant, due: &mut Vec<u64>) {
        while self.next_deadline().is_some_and(|at| at <= now) {
            let (_, tokens) = self.due.pop_first().expect("there is a next deadline");
            due.extend(tokens.into_iter().filter(|&token| self.flight(token).is_some()));
        }
    }

    /// Bytes that the list holds.
    pub fn memory_bytes(&self) -> usize {
        let due: usize = self.due.values().map(|tokens| tokens.capacity() * 8 + 64).sum();
        self.slots.capacity() * size_of::<Slot>() + self.free.capacity() * 4 + due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(walk: u64) -> Flight {
        let at = Instant::ZERO;
        Flight { walk, source: 0, length: 3, attempt: 1, sent: at, first_sent: at }
    }

    #[test]
    fn a_token_of_an_earlier_attempt_is_nobodys() {
        let mut flights = Flights::default();
        let first = flights.begin(flight(1));
        assert_eq!(flights.end(first), Some(flight(1)));
        let second = flights.begin(flight(2));
        assert_eq!(first >> 32, second >> 32, "the place is used again");
        assert_eq!(flights.end(first), None);
        assert_eq!(flights.flight(second), Some(&flight(2)));
        assert_eq!(flights.under_way(), 1);
        assert_eq!(flights.end(u64::MAX), None);
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
        assert_eq!(flights.under_way(), 2);
    }
}
