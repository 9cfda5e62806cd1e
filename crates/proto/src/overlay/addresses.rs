//! Where nodes are: what only drivers of sockets need.

use super::Router;
use super::message::{Addresses, Body};
use super::node::{Cx, Overlay};
use crate::core::NodeId;

/// Addresses that one message carries.
const ADDRESSES_MAX: usize = 64;

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
            if let Some(address) = rest.addresses.get(&node)
                && list.len() < ADDRESSES_MAX
                && list.iter().all(|(known, _)| *known != node)
            {
                list.push((node, address.clone()));
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

    pub(super) fn note_addresses(&mut self, cx: &mut Cx<'_, R>, addresses: &Addresses) {
        if addresses.0.is_none() {
            return;
        }
        let (own, max) = (cx.node, cx.shared.addresses_max);
        for (node, address) in addresses.iter().filter(|(node, _)| *node != own) {
            let known = &self.rest().addresses;
            if known.get(node) == Some(address) {
                continue;
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
            self.rest().addresses.insert(*node, address.clone());
            cx.outbox.contacts.push((*node, address.clone()));
        }
    }
}
