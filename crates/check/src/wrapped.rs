use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use paceline_proto::core::{
    Context, DecodeError, NodeId, Outbox, PeerState, Protocol, View, WatchNews,
};
use paceline_proto::host::Host;
use paceline_sim::HostNode;

use crate::clock::Clock;

/// What is done to a node: to what goes in and to what comes out.
///
/// What a hook writes into its context leaves as if the node had written it.
pub trait Tamper<P: Protocol>: Any {
    /// The node starts. False if the node is not to see it.
    fn starts(&mut self, _node: &mut P, _cx: &mut Context<'_, P>) -> bool {
        true
    }

    /// A message comes. In whose name the node is to see it; `None` if it is refused.
    fn name(&mut self, _cx: &mut Context<'_, P>, from: NodeId) -> Option<NodeId> {
        Some(from)
    }

    /// A message comes. How often the node is to see it.
    fn admits(
        &mut self,
        _node: &mut P,
        _cx: &mut Context<'_, P>,
        _from: NodeId,
        _message: &mut P::Message,
    ) -> usize {
        1
    }

    /// A timer fires. False if the node is not to see it.
    fn fires(&mut self, _node: &mut P, _cx: &mut Context<'_, P>, _timer: P::Timer) -> bool {
        true
    }

    /// The application asks for something. False if the node is not to see it.
    fn commands(
        &mut self,
        _node: &mut P,
        _cx: &mut Context<'_, P>,
        _command: &mut P::Command,
    ) -> bool {
        true
    }

    /// The driver has news of a peer, a view, a backlog or bytes that are no message. False if the
    /// node is not to hear any.
    fn hears(&self) -> bool {
        true
    }

    /// The node handled a call and has written into the context what it wants done.
    fn tamper(&mut self, _node: &mut P, _cx: &mut Context<'_, P>) {}

    /// The node shows a checker something of its state, of a type that the checker knows.
    fn shows(&self, _node: &P, _shown: &mut dyn Any) {}

    /// What the node says of its [admission](Protocol::admission).
    fn admission(&self, node: &P) -> usize {
        node.admission()
    }
}

/// A node with something around it that tampers with what goes in and what comes out; or a node
/// that is left alone.
///
/// What tampers is no parameter of the type, so that the simulator of a wrapped protocol is
/// compiled once, not for each kind of bug, stranger or rogue.
pub struct Wrapped<P: Protocol> {
    node: P,
    tamper: Option<Box<dyn Tamper<P>>>,
    shared: Option<P::Shared>,
    clock: Option<Clock>,
    incarnation: Option<u64>,
    outbox: Outbox<P>,
}

impl<P: Protocol + 'static> Wrapped<P> {
    /// A node that is left alone.
    pub fn alone(node: P) -> Wrapped<P> {
        let outbox = Outbox::default();
        Wrapped { node, tamper: None, shared: None, clock: None, incarnation: None, outbox }
    }

    /// A node, and what tampers with it, if anything does.
    pub fn new(node: P, tamper: Option<impl Tamper<P>>) -> Wrapped<P> {
        let tamper = tamper.map(|tamper| Box::new(tamper) as Box<dyn Tamper<P>>);
        Wrapped { tamper, ..Wrapped::alone(node) }
    }

    /// The node uses this shared configuration, whichever the other nodes use.
    #[must_use]
    pub fn with_shared(self, shared: P::Shared) -> Wrapped<P> {
        Wrapped { shared: Some(shared), ..self }
    }

    /// The node, its wrapper and their timers use this clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Wrapped<P> {
        Wrapped { clock: Some(clock), ..self }
    }

    /// The node has this incarnation in each of its lives.
    #[must_use]
    pub fn with_incarnation(self, incarnation: u64) -> Wrapped<P> {
        Wrapped { incarnation: Some(incarnation), ..self }
    }

    /// The node.
    pub fn node(&self) -> &P {
        &self.node
    }

    /// What tampers with it, if it is a `T`.
    pub fn tamper<T: Tamper<P>>(&self) -> Option<&T> {
        let tamper: &dyn Any = self.tamper.as_deref()?;
        tamper.downcast_ref()
    }

    /// What the node shows a checker, after it was tampered with.
    pub(crate) fn shown<S: Any>(&self, mut shown: S) -> S {
        if let Some(tamper) = &self.tamper {
            tamper.shows(&self.node, &mut shown);
        }
        shown
    }

    /// Calls with the context of the node, and passes on what that writes.
    fn with<A>(
        &mut self,
        cx: &mut Context<'_, Self>,
        call: impl FnOnce(&mut P, Option<&mut dyn Tamper<P>>, &mut Context<'_, P>) -> A,
    ) -> A {
        let shared = self.shared.as_ref().unwrap_or(cx.shared);
        let incarnation = self.incarnation.unwrap_or(cx.incarnation);
        let mut inner = cx.nest(incarnation, shared, &mut self.outbox, 0);
        if let Some(clock) = self.clock {
            inner.now = clock.shows(inner.now);
        }
        let answer = call(&mut self.node, self.tamper.as_deref_mut(), &mut inner);
        if let Some(clock) = self.clock {
            self.outbox.timers.iter_mut().for_each(|(at, _)| *at = clock.time(*at));
        }
        self.outbox.pass_to(cx.outbox, |message| message, |timer| timer);
        cx.outbox.events.append(&mut self.outbox.events);
        answer
    }

    /// The node handles something; what it wants done is tampered with.
    fn handle(
        &mut self,
        cx: &mut Context<'_, Self>,
        handler: impl FnOnce(&mut P, &mut Context<'_, P>),
    ) {
        self.with(cx, |node, tamper, cx| {
            handler(node, cx);
            if let Some(tamper) = tamper {
                tamper.tamper(node, cx);
            }
        });
    }

    fn hears(&self) -> bool {
        self.tamper.as_ref().is_none_or(|tamper| tamper.hears())
    }
}

impl<P: Protocol + 'static> Protocol for Wrapped<P> {
    type Message = P::Message;
    type Timer = P::Timer;
    type Command = P::Command;
    type Event = P::Event;
    type Shared = P::Shared;

    fn decode(shared: &P::Shared, bytes: Bytes) -> Result<P::Message, DecodeError> {
        P::decode(shared, bytes)
    }

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        let sees =
            self.with(cx, |node, tamper, cx| tamper.is_none_or(|tamper| tamper.starts(node, cx)));
        if sees {
            self.handle(cx, |node, cx| node.handle_start(cx));
        }
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        if self.hears() {
            self.handle(cx, |node, cx| node.handle_peer(cx, peer, state));
        }
    }

    fn handle_watched(&mut self, cx: &mut Context<'_, Self>, node: NodeId, news: WatchNews) {
        if self.hears() {
            self.handle(cx, |inner, cx| inner.handle_watched(cx, node, news));
        }
    }

    fn handle_view(&mut self, cx: &mut Context<'_, Self>, view: &Arc<View>) {
        if self.hears() {
            self.handle(cx, |node, cx| node.handle_view(cx, view));
        }
    }

    fn handle_message(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        mut message: P::Message,
    ) {
        let name = self.with(cx, |_, tamper, cx| match tamper {
            Some(tamper) => tamper.name(cx, from),
            None => Some(from),
        });
        let Some(from) = name else { return };
        let times = self.with(cx, |node, tamper, cx| {
            tamper.map_or(1, |tamper| tamper.admits(node, cx, from, &mut message))
        });
        for _ in 1..times {
            let message = message.clone();
            self.handle(cx, |node, cx| node.handle_message(cx, from, message));
        }
        if times > 0 {
            self.handle(cx, |node, cx| node.handle_message(cx, from, message));
        }
    }

    fn handle_undecodable(&mut self, cx: &mut Context<'_, Self>, from: NodeId, error: DecodeError) {
        if self.hears() {
            self.handle(cx, |node, cx| node.handle_undecodable(cx, from, error));
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: P::Timer) {
        let sees = self
            .with(cx, |node, tamper, cx| tamper.is_none_or(|tamper| tamper.fires(node, cx, timer)));
        if sees {
            self.handle(cx, |node, cx| node.handle_timer(cx, timer));
        }
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, mut command: P::Command) {
        let sees = self.with(cx, |node, tamper, cx| {
            tamper.is_none_or(|tamper| tamper.commands(node, cx, &mut command))
        });
        if sees {
            self.handle(cx, |node, cx| node.handle_command(cx, command));
        }
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        if self.hears() {
            self.handle(cx, |node, cx| node.handle_drained(cx, to));
        }
    }

    fn admission(&self) -> usize {
        match &self.tamper {
            Some(tamper) => tamper.admission(&self.node),
            None => self.node.admission(),
        }
    }
}

impl HostNode for Wrapped<Host> {
    fn host(&self) -> &Host {
        self.node()
    }
}
