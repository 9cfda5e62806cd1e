//! Links that are cut permanently: what the nodes whose mutual links all work still promise.

use std::collections::BTreeSet;

use paceline_proto::core::{Instant, NodeId, Rng};
use paceline_sim::Fault;

/// Counts messages that cut links did not carry.
pub const SEVERED: &str = "sim_severed";

/// Links that carry nothing from a time on until the end of the run.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// When they are cut.
    pub at: Instant,
    /// Each in one direction.
    pub links: BTreeSet<(NodeId, NodeId)>,
    /// A majority of the nodes. All links among them work, in both directions.
    pub core: BTreeSet<NodeId>,
    /// Some node lost its links to or from only some of the others, or in various directions, so
    /// nodes reach different sets of nodes.
    pub is_partial: bool,
}

impl Cuts {
    /// Draws cuts among the first `nodes` nodes; `None` if these are fewer than three.
    ///
    /// A minority loses links to or from all other nodes or some of them: in one direction, the
    /// other, both, or each link in directions of its own.
    pub fn draw(rng: &mut Rng, nodes: u32, at: Instant) -> Option<Cuts> {
        let most = nodes.saturating_sub(1) / 2;
        if most == 0 {
            return None;
        }
        let mut core: BTreeSet<NodeId> = (0..nodes).map(NodeId::from).collect();
        let (mut links, mut is_partial) = (BTreeSet::new(), false);
        let count = if rng.chance(0.5) { 1 } else { 1 + rng.below(most) };
        for _ in 0..count {
            let core_nodes: Vec<NodeId> = core.iter().copied().collect();
            let node = core_nodes[rng.below(core_nodes.len() as u32) as usize];
            core.remove(&node);
            let (share, direction) = (if rng.chance(0.5) { 1.0 } else { rng.unit() }, rng.below(4));
            is_partial |= share < 1.0 || direction == 3;
            // At least one link is cut.
            let first = (node.0 + 1 + u64::from(rng.below(nodes - 1))) % u64::from(nodes);
            for other in (0..nodes).map(NodeId::from).filter(|&other| other != node) {
                if other.0 != first && !rng.chance(share) {
                    continue;
                }
                let direction = if direction == 3 { rng.below(3) } else { direction };
                if direction != 0 {
                    links.insert((node, other));
                }
                if direction != 1 {
                    links.insert((other, node));
                }
            }
        }
        Some(Cuts { at, links, core, is_partial })
    }

    /// The faults that cut the links.
    pub fn faults(&self) -> impl Iterator<Item = (Instant, Fault)> {
        self.links.iter().map(|&(from, to)| (self.at, Fault::Sever(from, to)))
    }

    /// Whether the link from one node to another works.
    pub fn passes(&self, from: NodeId, to: NodeId) -> bool {
        !self.links.contains(&(from, to))
    }

    /// The most of `nodes` between which all links work in both directions; of several such sets
    /// one with the first node.
    pub fn most_linked(&self, nodes: &[NodeId]) -> BTreeSet<NodeId> {
        let mut most = BTreeSet::new();
        // Those of the core first: by them the bound below cuts off nearly all of the search.
        let (core, others): (Vec<_>, Vec<_>) =
            nodes.iter().partition(|node| self.core.contains(node));
        let rest: Vec<NodeId> = core.into_iter().chain(others).collect();
        self.extend_linked(&mut BTreeSet::new(), &rest, nodes.first(), &mut most);
        most
    }

    /// Looks for a larger set than `most` that contains `set` and some of `rest`, each of which is
    /// linked to all of `set`.
    fn extend_linked(
        &self,
        set: &mut BTreeSet<NodeId>,
        rest: &[NodeId],
        first: Option<&NodeId>,
        most: &mut BTreeSet<NodeId>,
    ) {
        let has_first = |set: &BTreeSet<NodeId>| first.is_some_and(|node| set.contains(node));
        if (set.len(), has_first(set)) > (most.len(), has_first(most)) {
            most.clone_from(set);
        }
        for (place, &node) in rest.iter().enumerate() {
            if set.len() + rest.len() - place < most.len() {
                return;
            }
            let is_linked = |&other: &NodeId| self.passes(node, other) && self.passes(other, node);
            let next: Vec<NodeId> = rest[place + 1..].iter().copied().filter(is_linked).collect();
            set.insert(node);
            self.extend_linked(set, &next, first, most);
            set.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_keeps_all_links_among_its_nodes() {
        let (mut one_way, mut partial) = (0, 0);
        for seed in 0..500 {
            let mut rng = Rng::new(seed, 1);
            let nodes = 3 + rng.below(20);
            let cuts = Cuts::draw(&mut rng, nodes, Instant::ZERO).expect("there are three nodes");
            assert!(cuts.core.len() * 2 > nodes as usize, "{cuts:?}");
            let is_core = |node| cuts.core.contains(node);
            assert!(cuts.links.iter().all(|(from, to)| !(is_core(from) && is_core(to))));
            let is_one_way = |&&(from, to): &&(NodeId, NodeId)| cuts.passes(to, from);
            one_way += cuts.links.iter().filter(is_one_way).count();
            partial += usize::from(cuts.links.len() < nodes as usize - 1);
            let all: Vec<NodeId> = (0..nodes).map(NodeId::from).collect();
            let linked = cuts.most_linked(&all);
            assert!(linked.len() >= cuts.core.len(), "{linked:?} of {cuts:?}");
            let has_all = |&a| linked.iter().all(|&b| a == b || cuts.passes(a, b));
            assert!(linked.iter().all(has_all), "{linked:?} of {cuts:?}");
        }
        assert!(one_way > 500 && partial > 100, "{one_way} one way, {partial} partial");
        assert!(Cuts::draw(&mut Rng::new(1, 1), 2, Instant::ZERO).is_none());
    }

    #[test]
    fn of_two_largest_sets_that_is_taken_which_has_the_first_node() {
        let [a, b, c, d] = [0, 1, 2, 3].map(NodeId);
        let links = BTreeSet::from([(a, b), (c, b), (d, a), (d, c)]);
        let cuts = Cuts { at: Instant::ZERO, links, core: BTreeSet::new(), is_partial: true };
        assert_eq!(cuts.most_linked(&[a, b, c, d]), BTreeSet::from([a, c]));
        assert_eq!(cuts.most_linked(&[b, a, c, d]), BTreeSet::from([b, d]));
        assert_eq!(cuts.most_linked(&[]), BTreeSet::new());
    }
}
