//! Where Interests of a name go: prefixes and their next hops.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::face::FaceId;
use crate::core::mix;
use crate::ndn::Name;

/// Somebody to ask for Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHop {
    /// A neighbour.
    Face(FaceId),
    /// This node's application.
    Application,
}

/// Whom to ask for names with a prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    /// By cost, then in the order in which they were added.
    pub(super) hops: Vec<(u32, NextHop)>,
}

/// Places of the memory of answers.
const REMEMBERED: usize = 64;

/// The forwarding information base: prefixes, of which the longest that fits counts.
#[derive(Debug, Default)]
pub(super) struct Fib {
    // Places in `routes`.
    prefixes: BTreeMap<Name, usize>,
    routes: Vec<Route>,
    // The route of names that were looked up lately: segments of one object have one prefix. The
    // place is chosen by the bytes of the name without its segment.
    remembered: Vec<Option<(Name, usize)>>,
}

impl Fib {
    /// Adds a next hop, or changes its cost.
    pub(super) fn add(&mut self, prefix: Name, hop: NextHop, cost: u32) {
        self.remembered.clear();
        let place = *self.prefixes.entry(prefix.detached()).or_insert_with(|| {
            self.routes.push(Route::default());
            self.routes.len() - 1
        });
        let hops = &mut self.routes[place].hops;
        hops.retain(|&(_, known)| known != hop);
        let place = hops.partition_point(|&(known, _)| known <= cost);
        hops.insert(place, (cost, hop));
    }

    /// Removes a next hop of a prefix.
    pub(super) fn remove(&mut self, prefix: &Name, hop: NextHop) {
        if let Some(&place) = self.prefixes.get(prefix) {
            self.routes[place].hops.retain(|&(_, known)| known != hop);
            self.tidy();
        }
    }

    /// Removes a next hop everywhere.
    pub(super) fn forget(&mut self, hop: NextHop) {
        self.routes.iter_mut().for_each(|route| route.hops.retain(|&(_, known)| known != hop));
        self.tidy();
    }

    /// The route of the longest prefix of this name, and the name without its segment in bytes that
    /// are not those of the packet that it came in.
    pub(super) fn find(&mut self, name: &Name) -> Option<(&Route, &Name)> {
        if self.remembered.is_empty() {
            self.remembered.resize(REMEMBERED, None);
        }
        let bytes = name.prefix_bytes();
        let at = place(bytes);
        let known = self.remembered[at].as_ref().filter(|(held, _)| held.prefix_bytes() == bytes);
        if known.is_none() {
            let shorter = (0..=name.component_count()).rev().map(|count| name.truncated(count));
            let route = shorter.filter_map(|prefix| self.prefixes.get(&prefix)).next();
            self.remembered[at] = Some((name.without_segment().detached(), *route?));
        }
        let (held, route) = self.remembered[at].as_ref()?;
        Some((self.routes.get(*route)?, held))
    }

    /// How many prefixes there are.
    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Forgets prefixes that lead nowhere any more.
    fn tidy(&mut self) {
        self.remembered.clear();
        let mut kept = Vec::new();
        self.prefixes.retain(|_, place| {
            let route = std::mem::take(&mut self.routes[*place]);
            let leads = !route.hops.is_empty();
            if leads {
                *place = kept.len();
                kept.push(route);
            }
            leads
        });
        self.routes = kept;
    }
}

fn place(bytes: &Bytes) -> usize {
    // Not keyed: who finds names that share a place makes us look up, no more.
    let tail = bytes
        .iter()
        .rev()
        .take(8)
        .fold(bytes.len() as u64, |sum, &byte| sum << 8 | u64::from(byte));
    mix(tail) as usize % REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().expect("a name")
    }

    fn hops(fib: &mut Fib, uri: &str) -> Vec<NextHop> {
        let found = fib.find(&name(uri));
        found.into_iter().flat_map(|(route, _)| &route.hops).map(|&(_, hop)| hop).collect()
    }

    #[test]
    fn the_longest_prefix_counts_and_cheaper_hops_come_first() {
        let [a, b, c] = [1, 2, 3].map(|face| NextHop::Face(FaceId { slot: face, generation: 0 }));
        let mut fib = Fib::default();
        fib.add(name("/p"), a, 20);
        fib.add(name("/p"), b, 10);
        fib.add(name("/p/q"), c, 0);
        for _ in 0..2 {
            assert_eq!(hops(&mut fib, "/p/x/seg=7"), [b, a]);
            assert_eq!(hops(&mut fib, "/p/q/seg=7"), [c]);
            assert_eq!(hops(&mut fib, "/pp"), []);
        }
        fib.add(name("/p"), a, 1);
        assert_eq!(hops(&mut fib, "/p/x"), [a, b]);
        fib.add(name("/"), NextHop::Application, 0);
        assert_eq!(hops(&mut fib, "/pp"), [NextHop::Application]);
        fib.forget(c);
        assert_eq!(hops(&mut fib, "/p/q/seg=7"), [a, b]);
        fib.remove(&name("/p"), a);
        fib.remove(&name("/p"), b);
        assert_eq!((hops(&mut fib, "/p/q"), fib.len()), (vec![NextHop::Application], 1));
    }
}
