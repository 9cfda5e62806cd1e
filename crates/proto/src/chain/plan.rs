use std::fmt;

use super::Topology;

/// The goal of a broadcast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// Bytes a second. The default.
    #[default]
    Throughput,
    /// This one message soon.
    Latency,
}

/// A topology and why it was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The topology to use.
    pub topology: Topology,
    /// Why.
    pub reason: Reason,
}

/// Why the planner chose a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The sender asked for it.
    Asked,
    /// No view is installed, so the ring is not agreed upon.
    NoView,
    /// At most two members: there is one hop, whatever the topology.
    FewMembers,
    /// A small urgent message: the fewest hops one after another.
    Urgent,
    /// Few blocks wait: the chain's N - 2 extra rounds outweigh what it saves.
    FewBlocks,
    /// Enough blocks wait to keep every link of the chain busy.
    ManyBlocks,
    /// One object of many blocks to many members: the chain's rate at logarithmic depth.
    LargeObject,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Asked => "the sender asked for it",
            Reason::NoView => "no view is installed yet",
            Reason::FewMembers => "between two members all topologies are the same",
            Reason::Urgent => "urgent and small: fewest consecutive hops",
            Reason::FewBlocks => "too few blocks wait to fill the chain",
            Reason::ManyBlocks => "enough blocks wait to keep every hop of the chain busy",
            Reason::LargeObject => {
                "a large object to many members: the chain's rate, logarithmic depth"
            }
        })
    }
}

/// Chooses a topology for a message of `message_blocks` blocks when `waiting_blocks` (its own
/// included) wait at this origin in a view of `members`.
///
/// Tree and chain take X ceil(log2 N) and X + N - 2 rounds for X blocks, so the chain wins once
/// X > (N - 2) / (ceil(log2 N) - 1). The pipeline beats both for one large object, but its blocks
/// arrive out of order, so it is chosen only where the gain is large: N >= 16 and at least 2 N
/// blocks.
pub fn plan(
    members: usize,
    message_blocks: usize,
    waiting_blocks: usize,
    urgency: Urgency,
) -> Plan {
    let with = |topology, reason| Plan { topology, reason };
    let log_ceil = members.next_power_of_two().ilog2() as usize;
    if urgency == Urgency::Latency && message_blocks == 1 {
        // Sending to each takes N - 1 rounds, the tree ceil(log2 N): equal up to three members.
        return with(if members <= 3 { Topology::Unicast } else { Topology::Tree }, Reason::Urgent);
    }
    if members <= 2 {
        return with(Topology::Chain, Reason::FewMembers);
    }
    if members >= 16 && message_blocks >= 2 * members {
        return with(Topology::Pipeline, Reason::LargeObject);
    }
    if waiting_blocks.max(message_blocks) * (log_ceil - 1) > members - 2 {
        return with(Topology::Chain, Reason::ManyBlocks);
    }
    with(Topology::Tree, Reason::FewBlocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_never_worse_in_rounds_than_tree_or_chain() {
        for members in 2..100 {
            for blocks in 1..300 {
                let plan = plan(members, blocks, blocks, Urgency::Throughput);
                let rounds = plan.topology.rounds(members, blocks as u64);
                let best = [Topology::Tree, Topology::Chain]
                    .map(|topology| topology.rounds(members, blocks as u64));
                assert!(
                    rounds <= best[0].min(best[1]),
                    "{members} members, {blocks} blocks: {plan:?}"
                );
            }
        }
    }

    #[test]
    fn an_urgent_small_message_takes_the_tree_and_a_large_object_the_pipeline() {
        assert_eq!(plan(10, 1, 50, Urgency::Latency).topology, Topology::Tree);
        assert_eq!(plan(3, 1, 1, Urgency::Latency).topology, Topology::Unicast);
        assert_eq!(plan(64, 200, 200, Urgency::Throughput).topology, Topology::Pipeline);
        assert_eq!(plan(4, 1, 100, Urgency::Throughput).topology, Topology::Chain);
    }
}
