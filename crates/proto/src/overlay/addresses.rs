//! Where nodes are: what only drivers of sockets need.
//!
//! What is known here is passed on, and is a hint to the driver, which asks at an address before it
//! sends anything else there. What a node says of itself is not replaced by what others say of it,
//! unless the node does not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::Router;
use super::message::{Addresses, Body};
use super::node::{Cx, Overlay, Rest};
use crate::core::{Instant, NodeId};

/// Addresses that one message carries.
const ADDRESSES_MAX: usize = 64;
/// An address that no message names for so long is forgotten, unless its node is in the table or
/// is looked for: guests come and go.
const NAMED_WITHIN: Duration = Duration::from_secs(300);
/// How often a node looks for such addresses.
const FORGET_EVERY: Duration = Duration::from_secs(30);

/// The addresses that a node knows.
#[derive(Debug, Default)]
pub(super) struct AddressBook {
    known: BTreeMap<NodeId, Whereabouts>,
    forget_at: Instant,
}

impl AddressBook {
    /// Where the node is said to be.
    pub(super) fn get(&self, node: NodeId) -> Option<&Bytes> {
        self.known.get(&node).map(|known| &known.address)
    }
}

/// Where a node is said to be.
#[derive(Debug)]
struct Whereabouts {
    address: Bytes,
    source: Source,
    named_at: Instant,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
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
            if let Some(address) = rest.addresses.get(node)
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
        let (own, max, now) = (cx.node, cx.shared.addresses_max, cx.now);
        for (node, address) in addresses.iter().filter(|(node, _)| *node != own) {
            let source = if *node == from { Source::Owner } else { Source::Other };
            let known = &mut self.rest().addresses.known;
            match known.get_mut(node) {
                Some(known) if known.address == *address => {
                    known.named_at = now;
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
                self.keep_addresses(now, Duration::ZERO);
                if self.rest().addresses.known.len() >= max {
                    continue;
                }
            }
            let whereabouts = Whereabouts { address: address.clone(), source, named_at: now };
            self.rest().addresses.known.insert(*node, whereabouts);
            cx.outbox.contacts.push((*node, address.clone()));
        }
    }

    /// The node does not answer: what it said of itself may be outdated.
    pub(super) fn doubt_address(&mut self, node: NodeId) {
        if let Some(known) = self.rest().addresses.known.get_mut(&node) {
            known.source = Source::Other;
        }
    }

    /// Forgets addresses that nobody has named for long, if it is time to.
    pub(super) fn forget_addresses(&mut self, cx: &Cx<'_, R>) {
        let book = &mut self.rest().addresses;
        if book.known.is_empty() || cx.now < book.forget_at {
            return;
        }
        book.forget_at = cx.now + FORGET_EVERY;
        self.keep_addresses(cx.now, NAMED_WITHIN);
    }

    /// Keeps addresses that were named within this time, and those of nodes that are in the table
    /// or looked for.
    fn keep_addresses(&mut self, now: Instant, named_within: Duration) {
        let mut contacts = Vec::new();
        self.router.contacts(&mut contacts);
        contacts.sort_unstable();
        let Rest { addresses, losses, upkeep, .. } = self.rest();
        addresses.known.retain(|node, known| {
            now.since(known.named_at) < named_within
                || contacts.binary_search(node).is_ok()
                || losses.contains(*node)
                || upkeep.is_looking_for(*node)
        });
    }
}
