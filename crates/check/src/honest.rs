use paceline_proto::core::{GroupId, Instant, Lane, Membership, NodeId, Protocol};
use paceline_sim::{Fault, Input, Observer, Reply};

use crate::Gate;

/// Shows observers what the first nodes of a run do, and not what the strangers after them do.
pub struct Honest<O> {
    /// How many nodes are honest.
    pub nodes: u32,
    /// The observer of the honest nodes.
    pub observer: O,
    /// The observer does not see messages that the gate refuses.
    pub gate: Gate,
}

impl<O> Honest<O> {
    fn of(&mut self, node: NodeId) -> Option<&mut O> {
        (node < NodeId::from(self.nodes)).then_some(&mut self.observer)
    }
}

impl<P: Protocol, O: Observer<P>> Observer<P> for Honest<O> {
    fn before_call(&mut self, at: Instant, node: NodeId, protocol: &P, input: &Input<'_, P>) {
        let is_honest = node < NodeId::from(self.nodes);
        let from = if let Input::Message { from, .. } = input { Some(*from) } else { None };
        if is_honest && self.gate.admits(at, node, from) {
            self.observer.before_call(at, node, protocol, input);
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &P::Event, reply: &mut Reply<P>) {
        if let Some(observer) = self.of(node) {
            observer.on_event(at, node, event, reply);
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &P::Message) {
        if let Some(observer) = self.of(from) {
            observer.on_send(at, from, to, lane, message);
        }
    }

    fn on_send_group(&mut self, at: Instant, from: NodeId, group: GroupId, message: &P::Message) {
        if let Some(observer) = self.of(from) {
            observer.on_send_group(at, from, group, message);
        }
    }

    fn on_membership(&mut self, at: Instant, node: NodeId, group: GroupId, membership: Membership) {
        if let Some(observer) = self.of(node) {
            observer.on_membership(at, node, group, membership);
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        let is_refused = self.gate.ends_refused();
        if let Some(observer) = self.of(node).filter(|_| !is_refused) {
            observer.after_call(at, node, protocol, reply);
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        self.observer.on_fault(at, fault);
    }

    fn on_wake(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        if let Some(observer) = self.of(node) {
            observer.on_wake(at, node, protocol, reply);
        }
    }
}
