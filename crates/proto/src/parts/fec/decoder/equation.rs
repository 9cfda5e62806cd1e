use std::mem;

use super::super::{Sum, gf256};

/// Unknown packets, each times its coefficient, whose sum is known.
#[derive(Debug)]
pub struct Equation<Id> {
    /// By age, each unknown once, no coefficient zero. The first is the lead.
    pub terms: Vec<Term<Id>>,
    pub sum: Sum,
    /// For the result of a merge.
    merged: Vec<Term<Id>>,
}

/// One unknown packet of an equation.
#[derive(Clone, Copy, Debug)]
pub struct Term<Id> {
    /// When the packet was first missed, as a running number.
    pub age: u64,
    pub id: Id,
    pub coefficient: u8,
}

impl<Id> Default for Equation<Id> {
    fn default() -> Equation<Id> {
        Equation { terms: Vec::new(), sum: Sum::default(), merged: Vec::new() }
    }
}

impl<Id: Copy> Equation<Id> {
    pub fn clear(&mut self) {
        self.terms.clear();
        self.sum.clear();
    }

    /// Orders terms that came in any order, perhaps with an unknown named twice.
    pub fn order(&mut self) {
        self.terms.sort_unstable_by_key(|term| term.age);
        self.terms.dedup_by(|again, first| {
            let is_same = again.age == first.age;
            if is_same {
                first.coefficient ^= again.coefficient;
            }
            is_same
        });
        self.terms.retain(|term| term.coefficient != 0);
    }

    /// Takes the unknown of this age out; its coefficient, if it was there.
    pub fn remove(&mut self, age: u64) -> Option<u8> {
        let place = self.place(age)?;
        Some(self.terms.remove(place).coefficient)
    }

    /// By how much `other` must be multiplied so that this equation plus the product lacks the
    /// unknown of this age; none if it lacks it already, or `other` does.
    pub fn times_to_cancel(&self, other: &Equation<Id>, age: u64) -> Option<u8> {
        let here = self.terms[self.place(age)?].coefficient;
        let there = other.terms[other.place(age)?].coefficient;
        let inverse = gf256::inverse(there).expect("no term has the coefficient zero");
        Some(gf256::multiply(here, inverse))
    }

    /// Adds the terms of another equation times a coefficient, not its sum.
    pub fn add_terms_times(&mut self, other: &Equation<Id>, times: u8) {
        self.merged.clear();
        let mut ours = self.terms.iter().copied().peekable();
        for term in &other.terms {
            while let Some(before) = ours.next_if(|ours| ours.age < term.age) {
                self.merged.push(before);
            }
            let same = ours.next_if(|ours| ours.age == term.age);
            let coefficient =
                gf256::multiply(term.coefficient, times) ^ same.map_or(0, |same| same.coefficient);
            if coefficient != 0 {
                self.merged.push(Term { coefficient, ..*term });
            }
        }
        self.merged.extend(ours);
        mem::swap(&mut self.terms, &mut self.merged);
    }

    /// The age of the first unknown.
    pub fn lead(&self) -> u64 {
        self.terms.first().map_or(u64::MAX, |term| term.age)
    }

    /// True if the unknown of this age is in it.
    pub fn has(&self, age: u64) -> bool {
        self.place(age).is_some()
    }

    fn place(&self, age: u64) -> Option<usize> {
        self.terms.binary_search_by_key(&age, |term| term.age).ok()
    }
}
