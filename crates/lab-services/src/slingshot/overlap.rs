//! Which members are in which of several overlapping groups.

use std::sync::Arc;

use paceline_proto::core::{GroupId, NodeId, Rng};

/// The members of each group of a run, and the groups of each member.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlap {
    // By group, sorted.
    members: Vec<Arc<[NodeId]>>,
    // By node, sorted: never empty, since all nodes are in group 0.
    groups: Vec<Vec<u32>>,
}

impl Overlap {
    /// `groups` groups: group 0 of all nodes, the others of `group_size` nodes each, drawn from
    /// the seed.
    pub fn drawn(nodes: u32, groups: u32, group_size: u32, seed: u64) -> Overlap {
        let mut rng = Rng::new(seed, 0x6709_0075);
        let mut order: Vec<NodeId> = (0..nodes).map(NodeId::from).collect();
        let mut draw = |group: u32| -> Arc<[NodeId]> {
            if group == 0 {
                return (0..nodes).map(NodeId::from).collect();
            }
            let size = group_size.min(nodes) as usize;
            for chosen in 0..size {
                let other = chosen + rng.below((order.len() - chosen) as u32) as usize;
                order.swap(chosen, other);
            }
            let mut members = order[..size].to_vec();
            members.sort_unstable();
            members.into()
        };
        let members: Vec<Arc<[NodeId]>> = (0..groups).map(&mut draw).collect();
        let mut of_nodes = vec![Vec::new(); nodes as usize];
        for (group, members) in (0..).zip(&members) {
            members.iter().for_each(|node| of_nodes[node.index()].push(group));
        }
        Overlap { members, groups: of_nodes }
    }

    /// The groups, as a protocol is configured with them.
    pub fn configured(&self) -> impl Iterator<Item = (GroupId, Option<Arc<[NodeId]>>)> + '_ {
        (0..).zip(&self.members).map(|(group, members)| (GroupId(group), Some(members.clone())))
    }

    /// How many groups a node is in, on average.
    pub fn groups_per_node(&self) -> f64 {
        self.groups.iter().map(Vec::len).sum::<usize>() as f64 / self.groups.len() as f64
    }

    /// The group of a sender's packet of this number: it sends to its groups in turn.
    pub(super) fn group(&self, sender: NodeId, number: u64) -> GroupId {
        let own = &self.groups[sender.index()];
        GroupId(own[(number % own.len() as u64) as usize])
    }

    /// The number among all packets of a sender of its `seq`-th to a group.
    pub(super) fn number(&self, group: GroupId, sender: NodeId, seq: u64) -> Option<u64> {
        let own = self.groups.get(sender.index())?;
        let place = own.binary_search(&group.0).ok()? as u64;
        seq.checked_mul(own.len() as u64)?.checked_add(place)
    }

    /// The members of a group.
    pub(super) fn members(&self, group: GroupId) -> &[NodeId] {
        self.members.get(group.0 as usize).map_or(&[], |members| members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_in_some_group_and_numbers_are_found_again() {
        let overlap = Overlap::drawn(10, 7, 4, 3);
        assert_eq!(overlap.members(GroupId(0)).len(), 10);
        assert!((1..7).all(|group| overlap.members(GroupId(group)).len() == 4));
        assert!((overlap.groups_per_node() - (10.0 + 6.0 * 4.0) / 10.0).abs() < 1e-9);
        for sender in (0..10).map(NodeId) {
            let mut seqs = [0u64; 7];
            for number in 0..50 {
                let group = overlap.group(sender, number);
                assert!(overlap.members(group).binary_search(&sender).is_ok());
                let seq = &mut seqs[group.0 as usize];
                assert_eq!(overlap.number(group, sender, *seq), Some(number));
                *seq += 1;
            }
        }
        assert_eq!(overlap.number(GroupId(9), NodeId(0), 0), None);
    }
}
