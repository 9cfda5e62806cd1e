//! Where nodes are: what only drivers of sockets need.
//!
//! What is known here is passed on, and is a hint to the driver, which asks at an address before it
//! sends anything else there. What a node says of itself is not replaced by what others say of it,
//! unless the node does not answer.

use bytes::Bytes;

use super::Router;
use super::message::{Addresses, Body};
use super::node::{Cx, Overlay};
use crate::core::NodeId;

/// Addresses that one message carries.
const ADDRESSES_MAX: usize = 64;

/// Where a node is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whereabouts {
    pub address: Bytes,
    pub source: Source,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The node itself.
    Owner,
    /// Another one.
    Other,
}

impl<R: Router> Overlay<R> {
    /// The addresses of the nodes that a message names, and this node's own. None in the simulator.
    pub(super) fn addresses_for(&self, own: NodeId, body: &Body<R::Walk>) -> Addresses {
        let Some(rest) = self.rest_if_any() else {
            return Addresses::default();
        };
        if rest.address.is_empty() {
            return Addresses::default();
        }
        let mut list = vec![(own, rest.address.clone())];
        let mut add = |node: NodeId| {
            if let Some(known) = rest.addresses.get(&node)
                && list.len() < ADDRESSES_MAX
                && list.iter().all(|(known, _)| *known != node)
            {
                list.push((node, known.address.clone()));
            }
        };
        match body {
            Body::Route(route) => add(route.initiator),
            Body::Found(found) => found.nodes.iter().copied().for_each(add),
            Body::Told { nodes, .. } | Body::Missing { nodes } => {
                nodes.iter().copied().for_each(add)
            }
            Body::Ack { .. } | Body::Result { .. } | Body::Pong { .. } => {
                return Addresses::default();
            }
            _ => {}
        }
        Addresses(Some(list.into()))
    }

    /// Notes what `from` says about where nodes are.
    pub(super) fn note_addresses(
        &mut self,
        cx: &mut Cx<'_, R>,
        from: NodeId,
        addresses: &Addresses,
    ) {
        if addresses.0.is_none() {
            return;
        }
        let (own, max) = (cx.node, cx.shared.addresses_max);
        for (node, address) in addresses.iter().filter(|(node, _)| *node != own) {
            let source = if *node == from { Source::Owner } else { Source::Other };
            let known = &mut self.rest().addresses;
            match known.get_mut(node) {
                Some(known) if known.address == *address => {
                    if source == Source::Owner {
                        known.source = source;
                    }
                    continue;
                }
                Some(known) if known.source == Source::Owner && source == Source::Other => {
                    cx.count("overlay_address_disputed", 1);
                    cx.outbox.contacts.push((*node, address.clone()));
                    continue;
                }
                _ => {}
            }
            if known.len() >= max && !known.contains_key(node) {
                cx.count("overlay_addresses_full", 1);
                let mut contacts = Vec::new();
                self.router.contacts(&mut contacts);
                let known = &mut self.rest().addresses;
                known.retain(|node, _| contacts.contains(node));
                if known.len() >= max {
                    continue;
                }
            }
            let whereabouts = Whereabouts { address: address.clone(), source };
            self.rest().addresses.insert(*node, whereabouts);
            cx.outbox.contacts.push((*node, address.clone()));
        }
    }

    /// The node does not answer: what it said of itself may be outdated.
    pub(super) fn doubt_address(&mut self, node: NodeId) {
        if let Some(known) = self.rest().addresses.get_mut(&node) {
            known.source = Source::Other;
        }
    }
}
