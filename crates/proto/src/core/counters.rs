/// Named event counts, kept by the driver: drops, duplicates, resumptions.
///
/// Names are `snake_case`, start with the protocol's name (`chain_duplicate`) and are fixed at
/// compile time, so a peer cannot make new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    counts: Vec<(&'static str, u64)>,
}

impl Counters {
    /// Adds `n` to the counter `name`.
    pub fn add(&mut self, name: &'static str, n: u64) {
        // A name at the same address is the same name; the linker may keep two copies of one.
        let same = |known: &str| std::ptr::eq(known, name);
        let at = self.counts.iter().position(|(known, _)| same(known));
        let at = at.or_else(|| self.counts.iter().position(|(known, _)| *known == name));
        match at.map(|at| &mut self.counts[at]) {
            Some((_, count)) => *count = count.saturating_add(n),
            None => self.counts.push((name, n)),
        }
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Counters) {
        for &(name, n) in &other.counts {
            self.add(name, n);
        }
    }

    /// Adds every count to `total` and starts again from none, without freeing memory.
    pub fn drain_into(&mut self, total: &mut Counters) {
        total.merge(self);
        self.counts.clear();
    }

    /// The count of `name`; 0 if nothing was counted.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|(known, _)| *known == name).map_or(0, |&(_, n)| n)
    }

    /// All counts, sorted by name.
    pub fn sorted(&self) -> Vec<(&'static str, u64)> {
        let mut counts = self.counts.clone();
        counts.sort_unstable();
        counts
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}
