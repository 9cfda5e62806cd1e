//! Clients: nodes that send requests to members and are not members.
//!
//! A client forwards nothing and stores nothing, and no table names it. It begins each bundle at
//! some member that it has heard from. Iteratively it asks that one and then each further hop;
//! recursively it hands the bundle over, and results come straight to it.

use std::sync::Arc;

use bytes::Bytes;

use super::Key;
use super::command::{Event, Role};
use super::counters;
use super::message::Target;
use super::record::Answer;
use super::{Cx, Overlay};
use crate::core::NodeId;

impl Overlay {
    /// True if the node asks members without being one.
    pub fn is_client(&self) -> bool {
        self.role == Role::Client
    }

    pub(super) fn visit(&mut self, cx: &mut Cx<'_>, address: Bytes) {
        if self.role != Role::Outside {
            return cx.count(counters::ALREADY_IN, 1);
        }
        self.role = Role::Client;
        self.state().address = address;
    }

    /// The driver found a member.
    pub(super) fn add_guide(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let guides = &mut self.state().guides;
        if guides.contains(&node) {
            return;
        }
        guides.push(node);
        if guides.len() == 1 {
            cx.deliver(Event::Joined);
        }
    }

    /// The member where a bundle begins: drawn from all known members, to spread the load.
    pub(super) fn guide(&mut self, cx: &mut Cx<'_>) -> Option<NodeId> {
        if let Some(node) = self.any_contact(cx) {
            return Some(node);
        }
        let guides = &self.state().guides;
        guides.get(cx.rng.below(guides.len().max(1) as u32) as usize).copied()
    }

    /// No member is known that could be asked.
    pub(super) fn no_guide(&mut self, cx: &mut Cx<'_>, tag: u64, targets: &Arc<[Target]>) {
        let answers: Vec<(Key, Answer)> =
            targets.iter().map(|target| (target.key, Answer::NoRoute)).collect();
        self.receive_answers(cx, cx.node, tag, answers, None);
    }
}
