//! Where Interests of a name go: prefixes and their next hops.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::face_id::NextHop;
use super::strategy::{Health, Hop, Strategy};
use crate::core::mix;
use crate::ndn::Name;

/// The next hops of names with a prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    /// By cost, then in the order in which they were added.
    pub(super) hops: Vec<Hop>,
}

impl Route {
    /// The hop to this neighbour, or to the application.
    pub(super) fn hop_mut(&mut self, next: NextHop) -> Option<&mut Hop> {
        self.hops.iter_mut().find(|hop| hop.next == next)
    }
}

/// The table's entry for a name.
pub(super) struct Found<'f> {
    pub(super) route: &'f mut Route,
    /// The name without its segment, in bytes that are not those of the packet that it came in.
    pub(super) held: &'f Name,
    pub(super) strategy: Strategy,
}

/// Places of the memory of answers.
const REMEMBERED: usize = 64;

/// The forwarding information base: prefixes, of which the longest that fits counts, and the
/// strategies of prefixes, of which the same is true.
#[derive(Debug, Default)]
pub(super) struct Fib {
    // Places in `routes`.
    prefixes: BTreeMap<Name, usize>,
    routes: Vec<Route>,
    strategies: BTreeMap<Name, Strategy>,
    // The route and strategy of names that were looked up lately: segments of one object have one
    // prefix. The place is chosen by the bytes of the name without its segment.
    remembered: Vec<Option<(Name, usize, Strategy)>>,
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
        let known = hops.iter().position(|known| known.next == hop).map(|place| hops.remove(place));
        let health = known.map(|known| known.health).unwrap_or_default();
        let place = hops.partition_point(|known| known.cost <= cost);
        hops.insert(place, Hop { cost, next: hop, health });
    }

    /// Sets the strategy of names with a prefix.
    pub(super) fn set_strategy(&mut self, prefix: &Name, strategy: Strategy) {
        self.remembered.clear();
        self.strategies.insert(prefix.detached(), strategy);
    }

    /// Removes a next hop of a prefix.
    pub(super) fn remove(&mut self, prefix: &Name, hop: NextHop) {
        if let Some(&place) = self.prefixes.get(prefix) {
            self.routes[place].hops.retain(|known| known.next != hop);
            self.tidy();
        }
    }

    /// Removes a next hop everywhere.
    pub(super) fn forget(&mut self, hop: NextHop) {
        self.routes.iter_mut().for_each(|route| route.hops.retain(|known| known.next != hop));
        self.tidy();
    }

    /// The route of the longest prefix of this name, and its strategy.
    pub(super) fn find(&mut self, name: &Name) -> Option<Found<'_>> {
        if self.remembered.is_empty() {
            self.remembered.resize(REMEMBERED, None);
        }
        let bytes = name.prefix_bytes();
        let at = place(bytes);
        let known = self.remembered[at].as_ref().filter(|(held, ..)| held.prefix_bytes() == bytes);
        if known.is_none() {
            let shorter = || (0..=name.component_count()).rev().map(|count| name.truncated(count));
            let route = *shorter().find_map(|prefix| self.prefixes.get(&prefix))?;
            let strategy = match self.strategies.is_empty() {
                true => None,
                false => shorter().find_map(|prefix| self.strategies.get(&prefix)).copied(),
            };
            let held = name.without_segment().detached();
            self.remembered[at] = Some((held, route, strategy.unwrap_or_default()));
        }
        let (held, route, strategy) = self.remembered[at].as_ref()?;
        Some(Found { route: self.routes.get_mut(*route)?, held, strategy: *strategy })
    }

    /// The record of a next hop for the prefix of this name; none where there is nothing to choose.
    pub(super) fn health(&mut self, name: &Name, next: NextHop) -> Option<&mut Health> {
        let Found { route, .. } = self.find(name).filter(|found| found.route.hops.len() > 1)?;
        route.hop_mut(next).map(|hop| &mut hop.health)
    }

    /// How many prefixes there are.
    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Drops prefixes without a next hop.
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
    // Not keyed: an attacker who finds names with one place only causes more look-ups.
    let tail = bytes
        .iter()
        .rev()
        .take(8)
        .fold(bytes.len() as u64, |sum, &byte| sum << 8 | u64::from(byte));
    mix(tail) as usize % REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::super::face_id::FaceId;
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().expect("a name")
    }

    fn hops(fib: &mut Fib, uri: &str) -> Vec<NextHop> {
        let found = fib.find(&name(uri));
        found.into_iter().flat_map(|found| &found.route.hops).map(|hop| hop.next).collect()
    }

    #[test]
    fn the_strategy_is_that_of_the_longest_prefix_which_may_have_no_route_of_its_own() {
        let mut fib = Fib::default();
        fib.add(name("/p"), NextHop::Application, 0);
        let strategy = |fib: &mut Fib, uri: &str| fib.find(&name(uri)).map(|f| f.strategy);
        assert_eq!(strategy(&mut fib, "/p/v/seg=1"), Some(Strategy::BestRoute));
        fib.set_strategy(&name("/p/v"), Strategy::Multicast);
        fib.set_strategy(&Name::root(), Strategy::Adaptive);
        assert_eq!(strategy(&mut fib, "/p/v/seg=1"), Some(Strategy::Multicast));
        assert_eq!(strategy(&mut fib, "/p/w"), Some(Strategy::Adaptive));
        assert_eq!(strategy(&mut fib, "/q"), None, "there is no route");
    }

    #[test]
    fn the_longest_prefix_counts_and_cheaper_hops_come_first() {
        let [a, b, c] = [1, 2, 3].map(|face| NextHop::Face(FaceId::first(face)));
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
