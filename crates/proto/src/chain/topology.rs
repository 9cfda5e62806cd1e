use std::fmt;
use std::str::FromStr;

use crate::core::field::fields;

fields! {
    /// How a broadcast spreads. Members are counted from the origin, which is position 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Topology as "topology" {
        /// The origin sends to each member itself: N - 1 transmissions from one link.
        0 => Unicast,
        /// Each member forwards to its successor.
        1 => Chain,
        /// In round k every member that has the block sends it 2^k positions on.
        2 => Tree,
        /// Blocks travel a hypercube, one dimension a round: depth of the tree, rate of the chain.
        3 => Pipeline,
    }
}

impl Topology {
    /// All of them, in wire order.
    pub const ALL: [Topology; 4] =
        [Topology::Unicast, Topology::Chain, Topology::Tree, Topology::Pipeline];

    /// Its name in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Topology::Unicast => "unicast",
            Topology::Chain => "chain",
            Topology::Tree => "tree",
            Topology::Pipeline => "pipeline",
        }
    }

    /// Rounds until `blocks` blocks of one origin are with all of `members`, by the closed form. A
    /// round is the time to send one block on one link.
    pub fn rounds(self, members: usize, blocks: u64) -> u64 {
        let (n, x) = (members as u64, blocks);
        if n < 2 || x == 0 {
            return 0;
        }
        let log_floor = u64::from(n.ilog2());
        let log_ceil = log_floor + u64::from(!n.is_power_of_two());
        match self {
            Topology::Unicast => x * (n - 1),
            Topology::Chain => x + n - 2,
            Topology::Tree => x * log_ceil,
            Topology::Pipeline if n.is_power_of_two() => x + log_floor - 1,
            Topology::Pipeline => x + log_floor,
        }
    }

    /// The positions to which the member at `position` of `members` sends every block it has, in
    /// order. None for the pipeline, where the receiver depends on the block.
    pub fn children(self, position: usize, members: usize) -> Children {
        let none = Children { position, offset: 1, end: 0, spacing: Spacing::Even };
        match self {
            Topology::Unicast if position == 0 => Children { end: members, ..none },
            Topology::Unicast | Topology::Pipeline => none,
            Topology::Chain => Children { end: members.min(position + 2), ..none },
            Topology::Tree => {
                let offset = (position + 1).next_power_of_two();
                Children { offset, end: members, spacing: Spacing::Doubling, ..none }
            }
        }
    }

    /// How often a member at `position` sends a block, one at least. In a pipeline about once.
    pub(super) fn copies(self, position: usize, members: usize) -> usize {
        match self {
            Topology::Unicast => members.saturating_sub(1).max(1),
            Topology::Chain | Topology::Pipeline => 1,
            Topology::Tree => self.children(position, members).count().max(1),
        }
    }
}

/// The positions a member sends to; made by [`Topology::children`].
#[derive(Clone, Copy, Debug)]
pub struct Children {
    position: usize,
    offset: usize,
    end: usize,
    spacing: Spacing,
}

#[derive(Clone, Copy, Debug)]
enum Spacing {
    Even,
    Doubling,
}

impl Iterator for Children {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let child = self.position + self.offset;
        if child >= self.end {
            return None;
        }
        self.offset = match self.spacing {
            Spacing::Even => self.offset + 1,
            Spacing::Doubling => self.offset * 2,
        };
        Some(child)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Topology {
    type Err = String;
    fn from_str(name: &str) -> Result<Topology, String> {
        let known = Topology::ALL.into_iter().find(|topology| topology.name() == name);
        known.ok_or_else(|| format!("unknown topology `{name}`: unicast, chain, tree or pipeline"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_has_one_parent_in_chain_tree_and_unicast() {
        for topology in [Topology::Unicast, Topology::Chain, Topology::Tree] {
            for members in 1..70 {
                let mut reached = Vec::new();
                (0..members)
                    .for_each(|position| reached.extend(topology.children(position, members)));
                reached.sort_unstable();
                assert_eq!(reached, (1..members).collect::<Vec<_>>(), "{topology} of {members}");
            }
        }
    }

    #[test]
    fn rounds_are_those_of_the_published_example() {
        assert_eq!(Topology::Unicast.rounds(4, 2), 6);
        assert_eq!(Topology::Chain.rounds(4, 2), 4);
        assert_eq!(Topology::Unicast.rounds(10, 10), 90);
        assert_eq!(Topology::Chain.rounds(10, 10), 18);
        assert_eq!(Topology::Pipeline.rounds(64, 100), 105);
        assert_eq!(Topology::Tree.rounds(64, 100), 600);
    }
}
