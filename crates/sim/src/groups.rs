use std::collections::BTreeMap;

use paceline_proto::core::{GroupId, Membership, NodeId};

/// Which nodes have joined which groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    // Each list is sorted; a group without members has no entry.
    members: BTreeMap<GroupId, Vec<NodeId>>,
}

impl Groups {
    /// A node joins or leaves a group.
    pub(crate) fn set(&mut self, group: GroupId, node: NodeId, membership: Membership) {
        match membership {
            Membership::Joined => {
                let members = self.members.entry(group).or_default();
                if let Err(place) = members.binary_search(&node) {
                    members.insert(place, node);
                }
            }
            Membership::Left => {
                if let Some(members) = self.members.get_mut(&group) {
                    members.retain(|&member| member != node);
                    if members.is_empty() {
                        self.members.remove(&group);
                    }
                }
            }
        }
    }

    /// A node is gone.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.members.retain(|_, members| {
            members.retain(|&member| member != node);
            !members.is_empty()
        });
    }

    /// Puts in place of what `receivers` holds the members of a group but for one node.
    pub(crate) fn list(&self, group: GroupId, but: NodeId, receivers: &mut Vec<NodeId>) {
        receivers.clear();
        let members = self.members.get(&group).into_iter().flatten();
        receivers.extend(members.copied().filter(|&member| member != but));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_listed_once_from_its_joining_to_its_leaving() {
        let mut groups = Groups::default();
        let mut listed = Vec::new();
        for node in [3, 1, 3, 2] {
            groups.set(GroupId(7), NodeId(node), Membership::Joined);
        }
        groups.set(GroupId(8), NodeId(1), Membership::Joined);
        groups.list(GroupId(7), NodeId(2), &mut listed);
        assert_eq!(listed, [NodeId(1), NodeId(3)]);
        groups.set(GroupId(7), NodeId(3), Membership::Left);
        groups.forget(NodeId(1));
        groups.list(GroupId(7), NodeId(9), &mut listed);
        assert_eq!(listed, [NodeId(2)]);
        groups.list(GroupId(8), NodeId(9), &mut listed);
        assert!(listed.is_empty() && groups.members.len() == 1);
    }
}
