//! Nodes that crash or leave and come back under their id at another address.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{Context, Instant, NodeId, Protocol, Rng};
use paceline_proto::group::{Group, Role};
use paceline_proto::overlay::Overlay;

use crate::Tamper;

/// A node that moves: it crashes, and its next incarnation joins at another address.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The node.
    pub node: NodeId,
    /// When it leaves, if it does before it crashes.
    pub leaves_at: Option<Instant>,
    /// When it crashes,
    pub crashes_at: Instant,
    /// and when it starts and joins.
    pub joins_at: Instant,
}

impl Move {
    /// Draws one to four moves of these nodes, one after the other, that begin after `from` and end
    /// before `until`. A node that leaves has up to `leave_within` for it.
    pub fn draw(
        rng: &mut Rng,
        nodes: &[NodeId],
        (from, until): (Instant, Instant),
        leave_within: Duration,
    ) -> Vec<Move> {
        let count = if nodes.is_empty() { 0 } else { 1 + rng.below(4) };
        let slot = until.since(from) / count.max(1);
        let one = |number| {
            let node = nodes[rng.below(nodes.len() as u32) as usize];
            let begins_at = from + slot * number + slot.mul_f64(0.3 * rng.unit());
            let leaves = rng.chance(0.4);
            let leaving = if leaves { leave_within.min(slot / 4) } else { Duration::ZERO };
            let crashes_at = begins_at + leaving;
            let joins_at = crashes_at + Duration::from_nanos(1) + slot.mul_f64(0.4 * rng.unit());
            Move { node, leaves_at: leaves.then_some(begins_at), crashes_at, joins_at }
        };
        (0..count).map(one).collect()
    }
}

/// The addresses of nodes: each incarnation has one of its own.
#[derive(Debug, Default)]
pub struct Addresses {
    incarnations: BTreeMap<NodeId, u32>,
    newest: BTreeMap<NodeId, Bytes>,
}

impl Addresses {
    /// The node crashes: its next incarnation has another address.
    pub fn crash(&mut self, node: NodeId) {
        *self.incarnations.entry(node).or_default() += 1;
        self.newest.remove(&node);
    }

    /// The node joins; at which address.
    pub fn join(&mut self, node: NodeId) -> Bytes {
        let incarnation = self.incarnations.get(&node).copied().unwrap_or_default();
        let address = Bytes::from(format!("{node} moved {incarnation} times"));
        self.newest.insert(node, address.clone());
        address
    }
}

/// A protocol whose nodes hold addresses of others.
pub trait HoldsAddresses: Protocol {
    /// The addresses by which the node reaches others.
    fn held(&self) -> Vec<(NodeId, Bytes)>;
}

impl HoldsAddresses for Group {
    fn held(&self) -> Vec<(NodeId, Bytes)> {
        if self.role() == Role::Outside {
            return Vec::new();
        }
        self.addresses().map(|(node, address)| (node, address.clone())).collect()
    }
}

/// The addresses of the nodes in its table. It sends to another node only after a message has
/// named that node again.
impl HoldsAddresses for Overlay {
    fn held(&self) -> Vec<(NodeId, Bytes)> {
        let mut table = Vec::new();
        self.router().contacts(&mut table);
        let held = self.addresses().filter(|(node, _)| table.contains(node));
        held.map(|(node, address)| (node, address.clone())).collect()
    }
}

/// What is seen of addresses once they should be right.
#[derive(Clone)]
pub struct Whereabouts {
    /// When they should.
    from: Instant,
    newest: Arc<BTreeMap<NodeId, Bytes>>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    held: BTreeMap<NodeId, Vec<(NodeId, Bytes)>>,
    hints: Option<String>,
}

impl Whereabouts {
    /// From this time on nodes are to hold these addresses and pass on no other.
    pub fn new(from: Instant, addresses: &Addresses) -> Whereabouts {
        let newest = Arc::new(addresses.newest.clone());
        Whereabouts { from, newest, seen: Arc::default() }
    }

    fn is_stale(&self, node: NodeId, address: &Bytes) -> bool {
        self.newest.get(&node).is_some_and(|newest| newest != address)
    }

    /// How many addresses the nodes hold in the end of others that have moved.
    ///
    /// # Errors
    /// If one of them is not the newest, or another one was passed to a driver in the end.
    pub fn moved_held(&self) -> Result<u64, String> {
        let seen = self.seen.lock().expect("no panic under the lock");
        if let Some(hint) = &seen.hints {
            return Err(hint.clone());
        }
        let mut moved = 0;
        for (holder, held) in &seen.held {
            for (node, address) in held.iter().filter(|(node, _)| self.newest.contains_key(node)) {
                if self.is_stale(*node, address) {
                    return Err(format!("{holder} holds for {node}: {address:?}"));
                }
                moved += u64::from(node != holder && !address.ends_with(b" 0 times"));
            }
        }
        Ok(moved)
    }
}

impl<P: HoldsAddresses> Tamper<P> for Whereabouts {
    fn tamper(&mut self, node: &mut P, cx: &mut Context<'_, P>) {
        if cx.now < self.from {
            return;
        }
        let mut seen = self.seen.lock().expect("no panic under the lock");
        seen.held.insert(cx.node, node.held());
        let stale =
            cx.outbox.links.contacts.iter().find(|(node, address)| self.is_stale(*node, address));
        if let Some((node, address)) = stale {
            let (at, holder) = (cx.now, cx.node);
            seen.hints.get_or_insert_with(|| format!("{at}: {holder} hints {node}: {address:?}"));
        }
    }
}
