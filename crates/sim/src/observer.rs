//! Observers of a run: the application, and every checker.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, Lane, Membership, NodeId, PeerState, Protocol, View};

use crate::fault::Fault;

/// The input of a handler call.
pub enum Input<'a, P: Protocol> {
    /// The node starts or restarts.
    Start,
    /// A message arrived.
    Message {
        /// Its sender.
        from: NodeId,
        /// The message.
        message: &'a P::Message,
    },
    /// A timer fired.
    Timer(P::Timer),
    /// The application asks for something.
    Command(&'a P::Command),
    /// A view is installed.
    View(&'a Arc<View>),
    /// News of a peer.
    Peer {
        /// The peer.
        peer: NodeId,
        /// What became of it.
        state: PeerState,
    },
    /// The backlog to this node has fallen.
    Drained(NodeId),
}

/// Sees what a run does and may answer with commands: the application, and every checker.
///
/// All methods default to nothing, so an observer writes only what it cares for.
pub trait Observer<P: Protocol> {
    /// False if all other methods do nothing, so that a run calls none of those that belong to each
    /// handler call and each message. Default true.
    fn is_watching(&self) -> bool {
        true
    }

    /// A handler of this node is about to be called.
    fn before_call(&mut self, _at: Instant, _node: NodeId, _protocol: &P, _input: &Input<'_, P>) {}

    /// A node emitted an event to its application.
    fn on_event(&mut self, _at: Instant, _node: NodeId, _event: &P::Event, _reply: &mut Reply<P>) {}

    /// A node handed a message to the network.
    fn on_send(
        &mut self,
        _at: Instant,
        _from: NodeId,
        _to: NodeId,
        _lane: Lane,
        _message: &P::Message,
    ) {
    }

    /// A node handed a message for a group to the network, which makes the copies.
    fn on_send_group(
        &mut self,
        _at: Instant,
        _from: NodeId,
        _group: GroupId,
        _message: &P::Message,
    ) {
    }

    /// A node joins or leaves a group.
    fn on_membership(
        &mut self,
        _at: Instant,
        _node: NodeId,
        _group: GroupId,
        _membership: Membership,
    ) {
    }

    /// A handler of this node returned; its outputs are on their way.
    fn after_call(&mut self, _at: Instant, _node: NodeId, _protocol: &P, _reply: &mut Reply<P>) {}

    /// A fault takes effect.
    fn on_fault(&mut self, _at: Instant, _fault: &Fault) {}

    /// The time that [`Reply::wake`] asked for has come.
    fn on_wake(&mut self, _at: Instant, _node: NodeId, _protocol: &P, _reply: &mut Reply<P>) {}
}

/// The observer that sees nothing.
impl<P: Protocol> Observer<P> for () {
    fn is_watching(&self) -> bool {
        false
    }
}

/// The methods of an observer that shows all it sees to others, in this order.
macro_rules! show_to {
    ($self:ident => $($other:expr),+) => {
        fn is_watching(&$self) -> bool {
            $($other.is_watching())||+
        }

        fn before_call(
            &mut $self,
            at: Instant,
            node: NodeId,
            protocol: &P,
            input: &Input<'_, P>,
        ) {
            $($other.before_call(at, node, protocol, input);)+
        }

        fn on_event(&mut $self, at: Instant, node: NodeId, event: &P::Event, reply: &mut Reply<P>) {
            $($other.on_event(at, node, event, reply);)+
        }

        fn on_send(
            &mut $self,
            at: Instant,
            from: NodeId,
            to: NodeId,
            lane: Lane,
            message: &P::Message,
        ) {
            $($other.on_send(at, from, to, lane, message);)+
        }

        fn on_send_group(
            &mut $self,
            at: Instant,
            from: NodeId,
            group: GroupId,
            message: &P::Message,
        ) {
            $($other.on_send_group(at, from, group, message);)+
        }

        fn on_membership(
            &mut $self,
            at: Instant,
            node: NodeId,
            group: GroupId,
            membership: Membership,
        ) {
            $($other.on_membership(at, node, group, membership);)+
        }

        fn after_call(&mut $self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
            $($other.after_call(at, node, protocol, reply);)+
        }

        fn on_fault(&mut $self, at: Instant, fault: &Fault) {
            $($other.on_fault(at, fault);)+
        }

        fn on_wake(&mut $self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
            $($other.on_wake(at, node, protocol, reply);)+
        }
    };
}

impl<P: Protocol, O: Observer<P> + ?Sized> Observer<P> for &mut O {
    show_to!(self => (**self));
}

impl<P: Protocol, O: Observer<P> + ?Sized> Observer<P> for Box<O> {
    show_to!(self => (**self));
}

impl<P: Protocol, A: Observer<P>, B: Observer<P>> Observer<P> for (A, B) {
    show_to!(self => self.0, self.1);
}

/// What an observer wants done.
pub struct Reply<P: Protocol> {
    pub(crate) commands: Vec<(Duration, NodeId, P::Command)>,
    pub(crate) wakes: Vec<(Duration, NodeId)>,
    pub(crate) submit: Option<P::Command>,
    pub(crate) is_stop_wanted: bool,
}

impl<P: Protocol> Default for Reply<P> {
    fn default() -> Self {
        Reply { commands: Vec::new(), wakes: Vec::new(), submit: None, is_stop_wanted: false }
    }
}

impl<P: Protocol> Reply<P> {
    /// Gives a node a command after this time.
    pub fn command(&mut self, after: Duration, node: NodeId, command: P::Command) {
        self.commands.push((after, node, command));
    }

    /// Gives the node of the present `after_call` or `on_wake` a command at once: an application
    /// that saw room and uses it. `after_call` follows, so a loop of submits is one of calls.
    pub fn submit(&mut self, command: P::Command) {
        debug_assert!(self.submit.is_none(), "one submit a call");
        self.submit = Some(command);
    }

    /// Calls [`Observer::on_wake`] for a node after this time.
    pub fn wake(&mut self, after: Duration, node: NodeId) {
        self.wakes.push((after, node));
    }

    /// Ends [`Sim::run_until`](crate::Sim::run_until) after the present event.
    pub fn stop(&mut self) {
        self.is_stop_wanted = true;
    }
}
