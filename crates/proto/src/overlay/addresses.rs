//! Where nodes are: what only drivers of sockets need.
//!
//! Known addresses are passed on, and are hints to the driver, which verifies an address before it
//! sends anything else there. The address that a node gives for itself takes precedence over those
//! that others give, unless the node does not answer.
//!
//! A node may restart at another address, and tell only its neighbours. So a member pings the nodes
//! of its table whose own report of an address is old, one per turn of upkeep.

use std::time::Duration;

use bytes::Bytes;

use super::counters;
use super::exchange::Cause;
use super::message::{Addresses, Body};
use super::{Cx, LazyState, Overlay};
use crate::core::{Instant, NodeId};

/// Addresses that one message carries.
const ADDRESSES_MAX: usize = 64;
/// Age from which the address of a node in the table may be out of date.
const FRESH: Duration = Duration::from_secs(10);
/// How long an address is kept after its last report, unless its node is in the table, missing or
/// looked for.
const KEPT: Duration = Duration::from_secs(30);

/// The reported address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whereabouts {
    pub address: Bytes,
    pub source: Source,
    /// When the source last reported it.
    pub said_at: Instant,
}

/// Who reported an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The node itself.
    Owner,
    /// Another one.
    Other,
}

impl Overlay {
    /// The nodes whose addresses are known, and the addresses.
    pub fn addresses(&self) -> impl Iterator<Item = (NodeId, &Bytes)> {
        let known = self.state_if_any().map(|state| &state.addresses);
        known.into_iter().flatten().map(|(&node, known)| (node, &known.address))
    }

    /// The addresses of the nodes that a message names, and this node's own. None if the
    /// application gave this node no address.
    pub(super) fn addresses_for(&self, own: NodeId, body: &Body) -> Addresses {
        let Some(state) = self.state_if_any() else {
            return Addresses::default();
        };
        if state.address.is_empty() {
            return Addresses::default();
        }
        let mut list = vec![(own, state.address.clone())];
        let mut add = |node: NodeId| {
            if let Some(known) = state.addresses.get(&node)
                && list.len() < ADDRESSES_MAX
                && list.iter().all(|(known, _)| *known != node)
            {
                list.push((node, known.address.clone()));
            }
        };
        match body {
            Body::Route(route) => add(route.initiator),
            Body::Found(found) => found.nodes.iter().copied().for_each(add),
            Body::Answer { nodes, .. } | Body::Missing { nodes } => {
                nodes.iter().copied().for_each(add)
            }
            Body::Ack { .. } | Body::Result { .. } => return Addresses::default(),
            _ => {}
        }
        Addresses(Some(list.into()))
    }

    /// Notes the addresses that `from` reports.
    pub(super) fn note_addresses(&mut self, cx: &mut Cx<'_>, from: NodeId, addresses: &Addresses) {
        if addresses.0.is_none() {
            return;
        }
        let (own, max, said_at) = (cx.node, cx.shared.addresses_max, cx.now);
        for (node, address) in addresses.iter().filter(|(node, _)| *node != own) {
            let source = if *node == from { Source::Owner } else { Source::Other };
            let known = &mut self.state().addresses;
            match known.get_mut(node) {
                Some(known) if known.address == *address => {
                    if source == Source::Owner || known.source == Source::Other {
                        (known.source, known.said_at) = (source, said_at);
                    }
                    continue;
                }
                Some(known) if known.source == Source::Owner && source == Source::Other => {
                    cx.count(counters::ADDRESS_DISPUTED, 1);
                    cx.note_address(*node, address);
                    continue;
                }
                _ => {}
            }
            if known.len() >= max && !known.contains_key(node) {
                cx.count(counters::ADDRESSES_FULL, 1);
                let mut contacts = Vec::new();
                self.router.contacts(&mut contacts);
                let known = &mut self.state().addresses;
                known.retain(|node, _| contacts.contains(node));
                if known.len() >= max {
                    continue;
                }
            }
            let whereabouts = Whereabouts { address: address.clone(), source, said_at };
            self.state().addresses.insert(*node, whereabouts);
            cx.note_address(*node, address);
        }
    }

    /// Forgets addresses that are no longer of use, and asks the node of the table whose address
    /// is the most likely to be out of date.
    pub(super) fn review_addresses(&mut self, cx: &mut Cx<'_>, mut table: Vec<NodeId>) {
        let now = cx.now;
        let LazyState { address, addresses, upkeep, .. } =
            self.state.get_or_insert_default().as_mut();
        if address.is_empty() {
            return;
        }
        table.sort_unstable();
        addresses.retain(|node, known| {
            let is_of_use = || {
                table.binary_search(node).is_ok()
                    || self.storage.is_missed(*node)
                    || upkeep.is_looking_for(*node)
            };
            now.since(known.said_at) < KEPT || is_of_use()
        });
        let said_at = |node: &NodeId| match addresses.get(node) {
            Some(known) if known.source == Source::Owner => known.said_at,
            _ => Instant::ZERO,
        };
        let Some(oldest) = table.into_iter().min_by_key(said_at) else { return };
        if now.since(said_at(&oldest)) < FRESH || !self.has_room(cx) {
            return;
        }
        let is_ping = |body: &Body| matches!(body, Body::Ping { .. });
        if !self.exchanges.iter().any(|(_, open)| open.to == oldest && is_ping(&open.body)) {
            cx.count(counters::ADDRESS_ASKED, 1);
            self.ask(cx, oldest, Cause::Table, 0, None, Body::Ping { exchange: 0 });
        }
    }

    /// The node does not answer: the address that it gave for itself may be outdated.
    pub(super) fn doubt_address(&mut self, node: NodeId) {
        if let Some(known) = self.state().addresses.get_mut(&node) {
            known.source = Source::Other;
        }
    }
}
