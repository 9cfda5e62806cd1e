//! Links that are cut for good: what the nodes between which all links work still promise.

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
    /// Some node lost its links to or from some of the others only, or in various directions: nodes
    /// differ about whom they reach.
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
        let mut core: BTreeSet<NodeId> = (0..nodes).map(NodeId).collect();
        let (mut links, mut is_partial) = (BTreeSet::new(), false);
        let count = if rng.chance(0.5) { 1 } else { 1 + rng.below(most) };
        for _ in 0..count {
            let core_nodes: Vec<NodeId> = core.iter().copied().collect();
            let node = core_nodes[rng.below(core_nodes.len() as u32) as usize];
            core.remove(&node);
            let (share, direction) = (if rng.chance(0.5) { 1.0 } else { rng.unit() }, rng.below(4));
            is_partial |= share < 1.0 || direction == 3;
            // At least one link is cut.
            let first = (node.0 + 1 + rng.below(nodes - 1)) % nodes;
            for other in (0..nodes).map(NodeId).filter(|&other| other != node) {
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
        }
        assert!(one_way > 500 && partial > 100, "{one_way} one way, {partial} partial");
        assert!(Cuts::draw(&mut Rng::new(1, 1), 2, Instant::ZERO).is_none());
    }
}
