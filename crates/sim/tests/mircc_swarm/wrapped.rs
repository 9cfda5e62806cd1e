//! A node with something around it that tampers with what goes in and what comes out.

use paceline_proto::core::{Context, NodeId, Outbox, PeerState, Protocol};
use paceline_proto::mircc::{Command, Config, Event, Forwarder, Setup, Timer};
use paceline_proto::ndn::Packet;
use paceline_sim::checkers::mircc::Node;

/// What is done to a node.
pub trait Tamper: Sized {
    /// A packet comes. False if the node is not to see it.
    fn admits(&mut self, _cx: &mut Context<'_, Wrapped<Self>>, _: NodeId, _: &mut Packet) -> bool {
        true
    }

    /// The application asks for something.
    fn commands(&mut self, _command: &mut Command) {}

    /// A timer fires. False if the node is not to see it.
    fn fires(&mut self, _timer: Timer) -> bool {
        true
    }

    /// This is what the node wants done.
    fn tamper(&mut self, cx: &mut Context<'_, Wrapped<Self>>, outbox: &mut Outbox<Forwarder>);
}

pub struct Wrapped<T> {
    forwarder: Forwarder,
    /// What the node goes by, whatever the others do.
    config: Config,
    tamper: Option<T>,
    outbox: Outbox<Forwarder>,
}

impl<T> Wrapped<T> {
    pub fn new(setup: Setup, config: &Config, tamper: Option<T>) -> Wrapped<T> {
        let forwarder = Forwarder::new(setup, config);
        Wrapped { forwarder, config: config.clone(), tamper, outbox: Outbox::default() }
    }
}

impl<T: Tamper> Node for Wrapped<T> {
    fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }
}

impl<T: Tamper> Wrapped<T> {
    fn call(
        &mut self,
        cx: &mut Context<'_, Self>,
        handler: impl FnOnce(&mut Forwarder, &mut Context<'_, Forwarder>),
    ) {
        let mut inner = cx.nest(cx.incarnation, &self.config, &mut self.outbox, 0);
        handler(&mut self.forwarder, &mut inner);
        if let Some(tamper) = &mut self.tamper {
            tamper.tamper(cx, &mut self.outbox);
        }
        self.outbox.pass_to(cx.outbox, |message| message, |timer| timer);
        cx.outbox.events.append(&mut self.outbox.events);
    }
}

impl<T: Tamper> Protocol for Wrapped<T> {
    type Message = Box<Packet>;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        self.call(cx, |node, cx| node.handle_start(cx));
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        self.call(cx, |node, cx| node.handle_peer(cx, peer, state));
    }

    fn handle_message(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        mut message: Box<Packet>,
    ) {
        let tamper = self.tamper.as_mut();
        if tamper.is_none_or(|tamper| tamper.admits(cx, from, &mut message)) {
            self.call(cx, |node, cx| node.handle_message(cx, from, message));
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        if self.tamper.as_mut().is_none_or(|tamper| tamper.fires(timer)) {
            self.call(cx, |node, cx| node.handle_timer(cx, timer));
        }
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, mut command: Command) {
        if let Some(tamper) = &mut self.tamper {
            tamper.commands(&mut command);
        }
        self.call(cx, |node, cx| node.handle_command(cx, command));
    }
}
