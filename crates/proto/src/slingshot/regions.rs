//! The regions: members that share the same groups with this member.

use std::collections::BTreeMap;

use crate::core::NodeId;

/// Other members that share the same groups with this one: they can use the same repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Places of the groups, ascending.
    pub(super) groups: Vec<u32>,
    /// The members.
    pub(super) members: Vec<NodeId>,
}

/// The regions of a member `me` of `groups`, each given by its place and its members.
///
/// A packet goes to the bin of every region of its group, so no group gets more than
/// `per_group_max` of them: regions of few members that would be too many are taken apart, and
/// their members are put, for each group that they share, into one region of that group alone.
///
/// Cost: sorts all members of all groups.
pub(super) fn regions<'a>(
    me: NodeId,
    groups: impl Iterator<Item = (u32, &'a [NodeId])>,
    per_group_max: usize,
) -> Vec<Region> {
    let mut shared: Vec<(NodeId, u32)> = Vec::new();
    for (place, members) in groups {
        shared.extend(members.iter().filter(|&&node| node != me).map(|&node| (node, place)));
    }
    shared.sort_unstable();
    let mut by_groups: BTreeMap<Vec<u32>, Vec<NodeId>> = BTreeMap::new();
    for of_node in shared.chunk_by(|a, b| a.0 == b.0) {
        let groups: Vec<u32> = of_node.iter().map(|&(_, group)| group).collect();
        by_groups.entry(groups).or_default().push(of_node[0].0);
    }
    let mut candidates: Vec<Region> =
        by_groups.into_iter().map(|(groups, members)| Region { groups, members }).collect();
    // The largest first: they gain most from sharing. The sort is stable.
    candidates.sort_by_key(|region| std::cmp::Reverse(region.members.len()));

    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    let mut alone: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    let mut regions = Vec::new();
    for region in candidates {
        // One place is left for those of this group alone.
        let has_room = |group| counts.get(group).is_none_or(|&count| count + 1 < per_group_max);
        if region.groups.len() > 1 && per_group_max > 1 && region.groups.iter().all(has_room) {
            region.groups.iter().for_each(|&group| *counts.entry(group).or_default() += 1);
            regions.push(region);
        } else {
            for group in region.groups {
                alone.entry(group).or_default().extend(&region.members);
            }
        }
    }
    regions.extend(alone.into_iter().map(|(group, mut members)| {
        members.sort_unstable();
        Region { groups: vec![group], members }
    }));
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(groups: &[&[u32]], per_group_max: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
        let groups: Vec<Vec<NodeId>> =
            groups.iter().map(|group| group.iter().copied().map(NodeId::from).collect()).collect();
        let groups = (0..).zip(&groups).map(|(place, group)| (place, &group[..]));
        let regions = regions(NodeId(0), groups, per_group_max).into_iter();
        regions
            .map(|region| {
                (region.groups, region.members.iter().map(|node| node.index() as u32).collect())
            })
            .collect()
    }

    #[test]
    fn one_group_is_one_region_of_all_others() {
        assert_eq!(of(&[&[0, 1, 2]], 8), [(vec![0], vec![1, 2])]);
        assert_eq!(of(&[&[0]], 8), []);
    }

    #[test]
    fn those_who_share_the_same_groups_are_one_region() {
        let groups: [&[u32]; 3] = [&[0, 1, 2, 3, 4], &[0, 1, 2, 5], &[0, 1, 2, 3]];
        let expected = [
            (vec![0, 1, 2], vec![1, 2]),
            (vec![0, 2], vec![3]),
            (vec![0], vec![4]),
            (vec![1], vec![5]),
        ];
        assert_eq!(of(&groups, 8), expected);
    }

    #[test]
    fn too_many_regions_are_taken_apart_from_the_smallest_on() {
        let groups: [&[u32]; 2] = [&[0, 1, 2, 3, 4, 6], &[0, 1, 2, 3, 5, 6]];
        assert_eq!(
            of(&groups, 2),
            [(vec![0, 1], vec![1, 2, 3, 6]), (vec![0], vec![4]), (vec![1], vec![5])]
        );
        assert_eq!(
            of(&groups, 1),
            [(vec![0], vec![1, 2, 3, 4, 6]), (vec![1], vec![1, 2, 3, 5, 6])]
        );
    }

    /// Whatever the groups, a member has one bin at most for each packet and each other member.
    #[test]
    fn each_member_gets_a_packet_of_each_shared_group_by_one_region() {
        let mut rng = crate::core::Rng::new(5, 5);
        for per_group_max in [1, 2, 3, 8] {
            let groups: Vec<Vec<u32>> = (0..12)
                .map(|_| std::iter::once(0).chain((1..40).filter(|_| rng.chance(0.3))).collect())
                .collect();
            let slices: Vec<&[u32]> = groups.iter().map(Vec::as_slice).collect();
            let regions = of(&slices, per_group_max);
            for (group, members) in (0..).zip(&groups) {
                let here = regions.iter().filter(|(groups, _)| groups.contains(&group));
                assert!(here.clone().count() <= per_group_max, "{per_group_max}");
                let mut reached: Vec<u32> = here.flat_map(|(_, members)| members.clone()).collect();
                reached.sort_unstable();
                assert_eq!(reached[..], members[1..], "{per_group_max}");
            }
        }
    }
}
