//! Asking several nodes at once for one key: Kademlia's alpha.
//!
//! Maymounkov and Mazières, *Kademlia*, IPTPS 2002, section 2.3. Each answer triggers the next
//! request, so that up to alpha requests are open; the first answer of a node that is responsible
//! ends the look-up, and later ones are not followed.

use super::exchange::Cause;
use super::message::Purpose;
use super::request::State;
use super::{Cx, Overlay};
use crate::core::NodeId;

impl Overlay {
    /// How many nodes may be asked at once for these targets of a request.
    pub(super) fn parallel(&self, cx: &Cx<'_>, purpose: &Purpose, targets: usize) -> usize {
        let is_alone = targets == 1 && *purpose != Purpose::Upkeep;
        if cx.shared.algorithm.is_parallel() && is_alone { cx.shared.parallel.into() } else { 1 }
    }

    /// The nodes to ask next for the only key of a request: the first ones not asked yet, up to
    /// `parallel` open requests. They count as asked from now on.
    pub(super) fn choose(
        &mut self,
        name: u32,
        parallel: usize,
        nodes: impl Iterator<Item = NodeId>,
    ) -> Vec<NodeId> {
        let room = parallel.saturating_sub(self.questions_open(name));
        let Some(request) = self.state().requests.get_mut(name) else { return Vec::new() };
        let mut chosen: Vec<NodeId> = Vec::new();
        for node in nodes {
            if chosen.len() < room && !request.asked.contains(&node) {
                request.asked.push(node);
                chosen.push(node);
            }
        }
        chosen
    }

    /// Messages of a request that are not answered yet.
    pub(super) fn questions_open(&self, name: u32) -> usize {
        let is_its = |cause: Cause| cause == Cause::Request(name);
        self.exchanges.iter().filter(|(_, exchange)| is_its(exchange.cause)).count()
    }

    /// True if the only key of a request, of whose nodes several were asked, is no longer sought.
    pub(super) fn is_late(&self, name: u32) -> bool {
        let request = self.state_if_any().and_then(|state| state.requests.get(name));
        request.is_none_or(|request| {
            let is_sought = |state: State| matches!(state, State::Seeking | State::Waiting);
            !request.slots.iter().any(|slot| is_sought(slot.state))
        })
    }
}
