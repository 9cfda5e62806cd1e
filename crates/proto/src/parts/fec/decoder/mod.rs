//! Repairs in, lost packets out.

mod equation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::mem;

use self::equation::{Equation, Term};
use super::{Coded, Coefficients, Sum, gf256};
use crate::core::Payload;

/// Computes lost packets from repairs.
///
/// A repair with missing packets is an equation: a known sum of unknown packets, each times its
/// coefficient. The decoder keeps such equations until packets that arrive, or other repairs, solve
/// them. It holds no packets itself: its owner does.
///
/// With [`Method::Eliminate`] an unknown is found as soon as the equations determine it. They are
/// kept in reduced echelon form, with unknowns ordered by when they were first missed: the first
/// unknown of an equation, its *lead*, is in no other equation. So an equation with a single
/// unknown is solved. The oldest unknown of all is a lead, so dropping its equation forgets that
/// unknown and nothing else.
///
/// An unknown may be a packet that the owner once had and no longer keeps. It is recovered again,
/// and the owner ignores it.
///
/// Cost: a repair of which nothing is missing is one question for each packet. One that says
/// nothing new costs no work on bytes. Any other takes one [`gf256::multiply_add`] for each packet
/// that it names, and at most two for each equation that is held.
#[derive(Debug)]
pub struct Decoder<Id> {
    method: Method,
    bounds: Bounds,
    /// By age of the repair if they are peeled, in no order if they are eliminated.
    equations: Vec<Equation<Id>>,
    /// When each unknown was first missed, as a running number. Some may be in no equation any
    /// more, until the next sweep.
    ages: BTreeMap<Id, u64>,
    unknowns_ever: u64,
    evicted: u64,
    contradictions: u64,
    /// Equations that are over, for their buffers.
    spare: Vec<Equation<Id>>,
    /// Which equations a new one was reduced by, and by how much; for its buffer.
    steps: Vec<(usize, u8)>,
}

/// How equations are solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// An equation waits until one unknown is left: the *special buffer* of Slingshot (2005).
    Peel,
    /// Gaussian elimination: what the equations determine is computed.
    Eliminate,
}

/// How much a decoder holds at most. When a bound is reached, the oldest goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Equations. Default 64.
    pub equations_max: usize,
    /// Unknown packets in all equations together. A repair that misses more is refused. Default
    /// 256.
    pub unknowns_max: usize,
    /// Bytes of all equations' sums, whether in memory or `Payload::Zeros`, so that simulated
    /// payloads meet the same bound. Default 1 MiB.
    pub bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { equations_max: 64, unknowns_max: 256, bytes_max: 1 << 20 }
    }
}

/// What became of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// No packet of it is missing.
    NothingMissing,
    /// It follows from the equations that are held.
    Redundant,
    /// It misses more packets than [`Bounds::unknowns_max`]. Nothing has changed.
    TooManyMissing,
    /// It was an equation: it waits, or something was recovered.
    Used,
}

impl<Id: Copy + Ord> Decoder<Id> {
    /// Without equations.
    pub fn new(method: Method, bounds: Bounds) -> Decoder<Id> {
        Decoder {
            method,
            bounds,
            equations: Vec::new(),
            ages: BTreeMap::new(),
            unknowns_ever: 0,
            evicted: 0,
            contradictions: 0,
            spare: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// A repair came: the sum of the packets `ids`, in this order, times the seed's coefficients
    /// ([`Coefficients::XOR`] for an exclusive or). `known` gives a packet that is there. What
    /// can be computed is appended to `recovered`; the owner must know it from then on.
    pub fn add_repair<'p>(
        &mut self,
        ids: &[Id],
        seed: u32,
        coded: &Coded,
        mut known: impl FnMut(Id) -> Option<&'p Payload>,
        recovered: &mut Vec<(Id, Payload)>,
    ) -> Added {
        let named = || ids.iter().copied().zip(Coefficients::new(seed));
        let mut equation = self.spare.pop().unwrap_or_default();
        let missing = named().filter(|&(id, _)| known(id).is_none());
        equation.terms.extend(missing.map(|(id, coefficient)| Term { age: 0, id, coefficient }));
        if equation.terms.is_empty() || equation.terms.len() > self.bounds.unknowns_max {
            let is_complete = equation.terms.is_empty();
            self.discard(equation);
            return if is_complete { Added::NothingMissing } else { Added::TooManyMissing };
        }
        for term in &mut equation.terms {
            term.age = *self.ages.entry(term.id).or_insert_with(|| {
                self.unknowns_ever += 1;
                self.unknowns_ever
            });
        }
        equation.order();

        let mut steps = mem::take(&mut self.steps);
        steps.clear();
        if self.method == Method::Eliminate {
            for (number, held) in self.equations.iter().enumerate() {
                if let Some(times) = equation.times_to_cancel(held, held.lead()) {
                    equation.add_terms_times(held, times);
                    steps.push((number, times));
                }
            }
        }
        // Bytes are touched only now, when something is left of the terms.
        let is_new = !equation.terms.is_empty();
        if is_new {
            equation.sum.add_coded(coded);
            for (id, coefficient) in named() {
                if let Some(packet) = known(id) {
                    equation.sum.add_times(packet, coefficient);
                }
            }
            for &(number, times) in &steps {
                equation.sum.add_sum_times(&self.equations[number].sum, times);
            }
            self.insert(equation);
            self.solve(recovered);
        } else {
            self.discard(equation);
        }
        self.steps = steps;
        self.keep_bounds();
        if is_new { Added::Used } else { Added::Redundant }
    }

    /// A packet came by another way than from this decoder. What can be computed now is appended
    /// to `recovered`.
    ///
    /// Cost: if no equation misses it, one look into a map of the unknowns.
    pub fn add_packet(&mut self, id: Id, packet: &Payload, recovered: &mut Vec<(Id, Payload)>) {
        let Some(age) = self.ages.remove(&id) else { return };
        self.substitute(age, packet);
        self.solve(recovered);
        self.keep_bounds();
    }

    /// Gives a packet up. What the equations say about the others is kept where it can be.
    pub fn forget(&mut self, id: Id) {
        let Some(age) = self.ages.remove(&id) else { return };
        match self.method {
            Method::Peel => {
                while let Some(number) = self.equations.iter().position(|held| held.has(age)) {
                    let equation = self.equations.remove(number);
                    self.discard(equation);
                }
            }
            Method::Eliminate => {
                // Equations with earlier leads keep theirs when this one is added to them.
                let having = self.equations.iter().enumerate().filter(|(_, held)| held.has(age));
                let last = having.max_by_key(|(_, held)| held.lead()).map(|(number, _)| number);
                let Some(last) = last else { return };
                let equation = self.equations.swap_remove(last);
                self.cancel(&equation, age);
                self.discard(equation);
            }
        }
        self.keep_bounds();
    }

    /// Equations held.
    pub fn equations(&self) -> usize {
        self.equations.len()
    }

    /// Unknown packets that it has numbered: at least those of the equations held.
    pub fn unknowns(&self) -> usize {
        self.ages.len()
    }

    /// Bytes of the equations' sums, whether in memory or zeros.
    pub fn bytes(&self) -> usize {
        self.equations.iter().map(|held| held.sum.len()).sum()
    }

    /// Equations dropped so far to keep the bounds.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Equations so far that led to a contradiction: a repair's sum was wrong, or a packet differs
    /// from the one that the repair's sender had.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }

    /// Takes an equation in whose terms no lead of another is.
    fn insert(&mut self, equation: Equation<Id>) {
        if self.method == Method::Eliminate {
            self.cancel(&equation, equation.lead());
        }
        self.equations.push(equation);
    }

    /// Adds an equation to all others that contain the unknown of this age, which cancels it there.
    /// Their sums grow to the length of its own, so the caller must enforce the bounds afterwards.
    fn cancel(&mut self, equation: &Equation<Id>, age: u64) {
        for held in &mut self.equations {
            if let Some(times) = held.times_to_cancel(equation, age) {
                held.add_terms_times(equation, times);
                held.sum.add_sum_times(&equation.sum, times);
            }
        }
    }

    /// An unknown is known now.
    fn substitute(&mut self, age: u64, packet: &Payload) {
        let mut number = 0;
        while number < self.equations.len() {
            let held = &mut self.equations[number];
            let was_lead = held.lead() == age;
            let Some(coefficient) = held.remove(age) else {
                number += 1;
                continue;
            };
            held.sum.add_times(packet, coefficient);
            if held.terms.is_empty() {
                let equation = self.equations.remove(number);
                self.discard(equation);
            } else if was_lead && self.method == Method::Eliminate {
                // The next unknown becomes the lead. This one is in no other equation.
                let equation = self.equations.swap_remove(number);
                self.insert(equation);
                return;
            } else {
                number += 1;
            }
        }
    }

    /// Recovers what is alone in an equation, until nothing is.
    fn solve(&mut self, recovered: &mut Vec<(Id, Payload)>) {
        while let Some(number) = self.equations.iter().position(|held| held.terms.len() == 1) {
            let mut equation = self.equations.remove(number);
            let Term { age, id, coefficient } = equation.terms[0];
            match self.quotient(&mut equation.sum, coefficient) {
                Some(packet) => {
                    self.ages.remove(&id);
                    self.substitute(age, &packet);
                    recovered.push((id, packet));
                }
                None => self.contradictions += 1,
            }
            self.discard(equation);
        }
    }

    /// The packet whose product with the coefficient is the sum.
    fn quotient(&mut self, sum: &mut Sum, coefficient: u8) -> Option<Payload> {
        if coefficient == 1 {
            return sum.take_packet();
        }
        let inverse = gf256::inverse(coefficient).expect("no term has the coefficient zero");
        let mut divided = self.spare.pop().unwrap_or_default();
        divided.sum.add_sum_times(sum, inverse);
        let packet = divided.sum.take_packet();
        self.discard(divided);
        packet
    }

    fn keep_bounds(&mut self) {
        while self.equations.len() > self.bounds.equations_max
            || self.bytes() > self.bounds.bytes_max
        {
            self.evict();
        }
        if self.ages.len() > self.bounds.unknowns_max {
            self.sweep();
            while self.ages.len() > self.bounds.unknowns_max {
                self.evict();
                self.sweep();
            }
        }
    }

    /// Drops the oldest equation.
    fn evict(&mut self) {
        let oldest = match self.method {
            Method::Peel => (!self.equations.is_empty()).then_some(0),
            Method::Eliminate => {
                let leads = self.equations.iter().map(Equation::lead).enumerate();
                leads.min_by_key(|&(_, lead)| lead).map(|(number, _)| number)
            }
        };
        if let Some(oldest) = oldest {
            let equation = self.equations.remove(oldest);
            self.discard(equation);
            self.evicted += 1;
        }
    }

    /// Forgets the ages of what is in no equation.
    fn sweep(&mut self) {
        let equations = &self.equations;
        self.ages.retain(|_, age| equations.iter().any(|held| held.has(*age)));
    }

    fn discard(&mut self, mut equation: Equation<Id>) {
        equation.clear();
        if self.spare.len() <= SPARE_MAX {
            self.spare.push(equation);
        }
    }
}

/// Equations kept for their buffers. More are seldom made between two that end.
const SPARE_MAX: usize = 8;
