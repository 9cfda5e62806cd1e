//! Faults and commands of the swarms with churn: groups and overlays.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use paceline_check::moves::{Addresses, Move};
use paceline_proto::core::{Instant, MembershipCommand, NodeId};
use paceline_proto::{group, overlay};
use paceline_sim::Fault;

use crate::{group_swarm, overlay_swarm};

/// What happens to a node in a swarm.
pub trait Act {
    fn fault_of(&self) -> Option<&Fault>;
    fn leaver_of(&self) -> Option<NodeId>;
    /// If a node joins: its address, which is still to be filled in.
    fn address_of(&mut self) -> Option<(NodeId, &mut Bytes)>;
    fn fault(fault: Fault) -> Self;
    fn leave(node: NodeId) -> Self;
    fn join(node: NodeId, seeds: Vec<u32>) -> Self;
}

macro_rules! impl_act {
    ($swarm:ident, $protocol:ident) => {
        impl Act for $swarm::Act {
            fn fault_of(&self) -> Option<&Fault> {
                if let Self::Fault(fault) = self { Some(fault) } else { None }
            }

            fn leaver_of(&self) -> Option<NodeId> {
                match self {
                    Self::Command(
                        node,
                        $protocol::Command::Membership(MembershipCommand::Leave),
                    ) => Some(*node),
                    _ => None,
                }
            }

            fn address_of(&mut self) -> Option<(NodeId, &mut Bytes)> {
                use MembershipCommand::{Bootstrap, Join};
                match self {
                    Self::Command(
                        node,
                        $protocol::Command::Membership(
                            Bootstrap { address } | Join { address, .. },
                        ),
                    ) => Some((*node, address)),
                    _ => None,
                }
            }

            fn fault(fault: Fault) -> Self {
                Self::Fault(fault)
            }

            fn leave(node: NodeId) -> Self {
                Self::Command(node, MembershipCommand::Leave.into())
            }

            fn join(node: NodeId, seeds: Vec<u32>) -> Self {
                Self::Command(node, $swarm::join(seeds))
            }
        }
    };
}

impl_act!(group_swarm, group);
impl_act!(overlay_swarm, overlay);

/// Adds the moves to what happens among `nodes` nodes, and gives each incarnation its address.
pub fn with_moves<A: Act>(acts: &mut Vec<(Instant, A)>, nodes: u32, moves: Vec<Move>) -> Addresses {
    for Move { node, leaves_at, crashes_at, joins_at } in moves {
        let others = (0..nodes).filter(|&other| NodeId::from(other) != node).collect();
        acts.extend(leaves_at.map(|at| (at, A::leave(node))));
        acts.push((crashes_at, A::fault(Fault::Crash(node))));
        acts.push((joins_at, A::fault(Fault::Restart(node))));
        acts.push((joins_at, A::join(node, others)));
    }
    acts.sort_by_key(|&(at, _)| at);
    let mut addresses = Addresses::default();
    for (_, act) in acts {
        if let Some(Fault::Crash(node)) = act.fault_of() {
            addresses.crash(*node);
        } else if let Some((node, address)) = act.address_of() {
            *address = addresses.join(node);
        }
    }
    addresses
}

/// Lets a node crash permanently at this time.
pub fn crash_for_good<A: Act>(acts: &mut Vec<(Instant, A)>, node: NodeId, when: Instant) {
    acts.retain_mut(|(at, act)| {
        let is_restart = act.fault_of() == Some(&Fault::Restart(node));
        let joins = act.address_of().is_some_and(|(joiner, _)| joiner == node);
        *at < when || !(is_restart || joins)
    });
    acts.push((when, A::fault(Fault::Crash(node))));
}

/// The nodes that crash or leave permanently, and when they are gone. A node that leaves is gone
/// `leave_within` after its command to leave.
pub fn gone<A: Act>(
    acts: &mut [(Instant, A)],
    leave_within: Duration,
) -> BTreeMap<NodeId, Instant> {
    acts.sort_by_key(|&(at, _)| at);
    let mut gone = BTreeMap::new();
    for (at, act) in acts {
        if let Some(node) = act.leaver_of() {
            gone.entry(node).or_insert(*at + leave_within);
        } else if let Some((node, _)) = act.address_of() {
            gone.remove(&node);
        }
        match act.fault_of() {
            Some(Fault::Crash(node)) => _ = gone.insert(*node, *at),
            Some(Fault::Restart(node)) => _ = gone.remove(node),
            _ => {}
        }
    }
    gone
}
