use std::fmt;

use super::{NodeId, mix};

/// The number of a view. View 0 is the roster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewId(pub u64);

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// A member of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The driver's handle.
    pub node: NodeId,
    /// The member's incarnation; 0 where the roster does not know it yet.
    pub incarnation: u64,
}

/// The members of the group, in an order that all of them share: the order is the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    id: ViewId,
    members: Vec<Member>,
    // Sorted by handle; empty where member i is node i, the usual case in the simulator.
    ranks: Vec<(NodeId, u32)>,
}

impl View {
    /// A view of these members, oldest first. A member named twice counts once, at its first place.
    pub fn new(id: ViewId, members: impl IntoIterator<Item = Member>) -> View {
        let members: Vec<Member> = members.into_iter().collect();
        if members.iter().enumerate().all(|(rank, member)| member.node.0 == rank as u64) {
            return View { id, members, ranks: Vec::new() };
        }
        let mut first: Vec<(NodeId, u32)> =
            (0u32..).zip(&members).map(|(i, m)| (m.node, i)).collect();
        first.sort_unstable();
        first.dedup_by_key(|&mut (node, _)| node);
        let mut kept: Vec<u32> = first.iter().map(|&(_, i)| i).collect();
        kept.sort_unstable();
        let members: Vec<Member> = kept.iter().map(|&i| members[i as usize]).collect();
        let mut ranks: Vec<(NodeId, u32)> =
            (0u32..).zip(&members).map(|(r, m)| (m.node, r)).collect();
        ranks.sort_unstable();
        View { id, members, ranks }
    }

    /// View 0: the nodes of a roster in its order, incarnations unknown.
    pub fn roster(nodes: impl IntoIterator<Item = NodeId>) -> View {
        View::new(ViewId(0), nodes.into_iter().map(|node| Member { node, incarnation: 0 }))
    }

    /// The view's number.
    pub fn id(&self) -> ViewId {
        self.id
    }

    /// A number of the view's members, in their order: of views with one number, two that differ in
    /// a member have different digests but for one case in 2^64.
    pub fn digest(&self) -> u64 {
        self.members.iter().fold(mix(self.id.0), |digest, member| {
            mix(mix(digest ^ member.node.0) ^ member.incarnation)
        })
    }

    /// The members in rank order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member of this rank.
    pub fn node(&self, rank: usize) -> NodeId {
        self.members[rank].node
    }

    /// The rank of a node: its place in the ring.
    pub fn rank(&self, node: NodeId) -> Option<usize> {
        if self.ranks.is_empty() {
            return (node.0 < self.members.len() as u64).then_some(node.index());
        }
        let place = self.ranks.binary_search_by_key(&node, |&(known, _)| known).ok()?;
        Some(self.ranks[place].1 as usize)
    }

    /// True if this member is in the view, in this incarnation.
    pub fn contains(&self, member: Member) -> bool {
        self.rank(member.node).is_some_and(|rank| self.members[rank] == member)
    }

    /// The rank that follows `rank` on the ring.
    pub fn successor(&self, rank: usize) -> usize {
        if rank + 1 == self.members.len() { 0 } else { rank + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_given_order_and_a_second_mention_is_ignored() {
        let view = View::roster([5, 3, 9, 3].map(NodeId));
        assert_eq!(view.len(), 3);
        assert_eq!([5, 3, 9, 4].map(|n| view.rank(NodeId(n))), [Some(0), Some(1), Some(2), None]);
        assert_eq!(view.successor(2), 0);
        let dense = View::roster((0..4).map(NodeId));
        assert_eq!(dense.rank(NodeId(3)), Some(3));
        assert_eq!(dense.rank(NodeId(4)), None);
    }
}
