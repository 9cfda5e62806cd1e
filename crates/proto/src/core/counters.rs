//! Counters as data: one list declares what a protocol or a driver counts.
//!
//! [`counters!`](crate::counters) turns a list into constants, one for each counter, and a
//! [`CounterSet`] that documentation and reports read. What is not declared cannot be counted.

use std::fmt;

/// A counter as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name in reports and documents: `snake_case`, begins with the protocol's name.
    pub name: &'static str,
    /// What is counted: `messages`, `bytes`.
    pub unit: &'static str,
    /// Which of these are counted.
    pub help: &'static str,
    /// True if nodes that keep to the protocol never cause it: a count shows a fault.
    pub shows_fault: bool,
}

/// The counters of one protocol or driver.
#[derive(Debug)]
pub struct CounterSet {
    /// Whose they are: `chain`.
    pub name: &'static str,
    /// The counters, in the order of their declaration.
    pub counters: &'static [Counter],
}

impl CounterSet {
    /// The counter of this name, if it is declared here.
    pub fn find(&'static self, name: &str) -> Option<CounterId> {
        let at = self.counters.iter().position(|counter| counter.name == name)?;
        Some(CounterId { set: self, at })
    }
}

/// Which counter of which set.
#[derive(Clone, Copy)]
pub struct CounterId {
    set: &'static CounterSet,
    at: usize,
}

impl CounterId {
    /// The counter of this name. For constants: it does not compile without exactly one.
    #[doc(hidden)]
    pub const fn declared(set: &'static CounterSet, name: &str) -> CounterId {
        let (mut found, mut at) = (None, 0);
        while at < set.counters.len() {
            if is_same(set.counters[at].name, name) {
                assert!(found.is_none(), "two counters have one name");
                found = Some(at);
            }
            at += 1;
        }
        CounterId { set, at: found.expect("a constant is made with its declaration") }
    }

    /// What is declared of it.
    pub fn counter(self) -> &'static Counter {
        &self.set.counters[self.at]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.counter().name
    }
}

impl PartialEq for CounterId {
    fn eq(&self, other: &CounterId) -> bool {
        std::ptr::eq(self.set, other.set) && self.at == other.at
    }
}

impl Eq for CounterId {}

impl fmt::Debug for CounterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    one.len() == other.len() && at == one.len()
}

/// Counts of declared counters, kept by the driver: drops, duplicates, resumptions.
///
/// Counters of several sets, such as those of nested protocols and their driver, go together in
/// one. Counters that counted nothing are not listed.
#[derive(Clone, Default)]
pub struct Counters {
    // A node has a handful of sets, in the order in which they first counted.
    sets: Vec<(&'static CounterSet, Box<[u64]>)>,
    // Where the counts above zero are: place of the set, place of the counter. A driver asks after
    // each call whether anything was counted, so that must not take a look at every counter.
    above_zero: Vec<(usize, usize)>,
}

impl Counters {
    /// Adds `n` to the counter.
    pub fn add(&mut self, counter: CounterId, n: u64) {
        if n == 0 {
            return;
        }
        let place = self.place_of(counter.set);
        let count = &mut self.sets[place].1[counter.at];
        if *count == 0 {
            self.above_zero.push((place, counter.at));
        }
        *count = count.saturating_add(n);
    }

    fn place_of(&mut self, set: &'static CounterSet) -> usize {
        let place = self.sets.iter().position(|(known, _)| std::ptr::eq(*known, set));
        place.unwrap_or_else(|| {
            self.sets.push((set, vec![0; set.counters.len()].into()));
            self.sets.len() - 1
        })
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Counters) {
        for (counter, n) in other.counted() {
            self.add(counter, n);
        }
    }

    /// Adds every count to `total` and starts again from zero, without freeing memory.
    pub fn drain_into(&mut self, total: &mut Counters) {
        for (place, at) in self.above_zero.drain(..) {
            let (set, counts) = &mut self.sets[place];
            total.add(CounterId { set, at }, std::mem::take(&mut counts[at]));
        }
    }

    /// The counters that counted something, with their counts.
    fn counted(&self) -> impl Iterator<Item = (CounterId, u64)> {
        self.above_zero.iter().map(|&(place, at)| {
            let (set, counts) = &self.sets[place];
            (CounterId { set, at }, counts[at])
        })
    }

    /// The count of the counter of this name; 0 if nothing was counted.
    pub fn count(&self, name: &str) -> u64 {
        self.counted().find(|(counter, _)| counter.name() == name).map_or(0, |(_, n)| n)
    }

    /// All counters that counted something, sorted by name.
    pub fn sorted(&self) -> Vec<(&'static str, u64)> {
        let mut counts: Vec<_> = self.counted().map(|(counter, n)| (counter.name(), n)).collect();
        counts.sort_unstable();
        counts
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.above_zero.is_empty()
    }
}

impl PartialEq for Counters {
    fn eq(&self, other: &Counters) -> bool {
        self.sorted() == other.sorted()
    }
}

impl Eq for Counters {}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.sorted()).finish()
    }
}

/// Declares the counters of a protocol or a driver: a [`CounterSet`], and a constant for each
/// counter.
///
/// The name is what reports show, in brackets is what is counted, and the documentation says which
/// of these. `; fault` marks what nodes that keep to the protocol never cause.
///
/// ```
/// paceline_proto::counters! {
///     /// What a lamp counts.
///     pub COUNTERS = "lamp" {
///         /// Went out.
///         OUT = "lamp_out", [flames];
///         /// Lit a second time.
///         LIT_TWICE = "lamp_lit_twice", [flames; fault];
///     }
/// }
///
/// let mut counters = paceline_proto::core::Counters::default();
/// counters.add(OUT, 2);
/// assert_eq!(counters.sorted(), [("lamp_out", 2)]);
/// assert!(LIT_TWICE.counter().shows_fault && COUNTERS.counters.len() == 2);
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$set_doc:meta])*
        $vis:vis $set:ident = $of:literal {
            $(
                $(#[doc = $help:literal])+
                $counter:ident = $name:expr, [$unit:ident $(; $fault:ident)?];
            )*
        }
    ) => {
        $(#[$set_doc])*
        $vis static $set: $crate::core::CounterSet = $crate::core::CounterSet {
            name: $of,
            counters: &[$($crate::core::Counter {
                name: $name,
                unit: stringify!($unit),
                help: concat!($($help),+).trim_ascii(),
                shows_fault: $crate::counters!(@shows $($fault)?),
            }),*],
        };
        $(
            $(#[doc = $help])+
            $vis const $counter: $crate::core::CounterId =
                $crate::core::CounterId::declared(&$set, $name);
        )*
    };
    (@shows fault) => { true };
    (@shows) => { false };
}

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        /// What a lamp counts.
        COUNTERS = "lamp" {
            /// Went out,
            /// by itself.
            OUT = "lamp_out", [flames];
            /// Lit a second time.
            LIT_TWICE = "lamp_lit_twice", [flames; fault];
        }
    }

    counters! {
        /// What its owner counts.
        OWNER = "owner" {
            /// Bought.
            OIL = "owner_oil", [bytes];
        }
    }

    #[test]
    fn one_declaration_gives_data_and_constants() {
        let [out, twice] = COUNTERS.counters else { panic!("two counters") };
        assert_eq!((out.name, out.unit, out.help), ("lamp_out", "flames", "Went out, by itself."));
        assert_eq!((out.shows_fault, twice.shows_fault), (false, true));
        assert_eq!(COUNTERS.find("lamp_lit_twice"), Some(LIT_TWICE));
        assert_eq!(COUNTERS.find("owner_oil"), None);
        assert_eq!((LIT_TWICE.counter(), format!("{OIL:?}")), (twice, "owner_oil".to_owned()));
    }

    #[test]
    fn counters_of_several_sets_go_together_and_zeros_are_not_listed() {
        let (mut lamp, mut all) = (Counters::default(), Counters::default());
        lamp.add(OUT, 2);
        lamp.add(LIT_TWICE, 0);
        all.add(OIL, 7);
        lamp.drain_into(&mut all);
        assert!(lamp.is_empty() && lamp == Counters::default());
        assert_eq!(all.sorted(), [("lamp_out", 2), ("owner_oil", 7)]);
        lamp.add(OUT, u64::MAX);
        all.merge(&lamp);
        assert_eq!((all.count("lamp_out"), all.count("lamp_lit_twice")), (u64::MAX, 0));
        let mut other = Counters::default();
        other.add(OUT, u64::MAX);
        assert_ne!(all, other);
        other.add(OIL, 7);
        assert_eq!(all, other);
    }
}
