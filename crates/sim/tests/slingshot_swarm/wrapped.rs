//! A member with something around it that tampers with what goes in and what comes out.

use std::sync::Arc;

use paceline_proto::core::{Context, NodeId, Outbox, PeerState, Protocol, View};
use paceline_proto::slingshot::{Command, Config, Event, Message, Slingshot, Timer};
use paceline_sim::checkers::slingshot::Member;

/// What is done to a member.
pub trait Tamper: Sized {
    /// A message comes. False if the member is not to see it.
    fn admits(&mut self, _from: NodeId, _message: &mut Message) -> bool {
        true
    }

    /// A timer fires. False if the member is not to see it.
    fn fires(&mut self, _timer: Timer) -> bool {
        true
    }

    /// This is what the member wants done.
    fn tamper(&mut self, cx: &mut Context<'_, Wrapped<Self>>, outbox: &mut Outbox<Slingshot>);
}

pub struct Wrapped<T> {
    slingshot: Slingshot,
    tamper: Option<T>,
    outbox: Outbox<Slingshot>,
}

impl<T> Wrapped<T> {
    pub fn new(config: &Config, tamper: Option<T>) -> Wrapped<T> {
        Wrapped { slingshot: Slingshot::new(config), tamper, outbox: Outbox::default() }
    }
}

impl<T: Tamper> Member for Wrapped<T> {
    fn slingshot(&self) -> &Slingshot {
        &self.slingshot
    }
}

impl<T: Tamper> Wrapped<T> {
    fn call(
        &mut self,
        cx: &mut Context<'_, Self>,
        handler: impl FnOnce(&mut Slingshot, &mut Context<'_, Slingshot>),
    ) {
        let mut inner = cx.nest(cx.incarnation, cx.shared, &mut self.outbox, 0);
        handler(&mut self.slingshot, &mut inner);
        if let Some(tamper) = &mut self.tamper {
            tamper.tamper(cx, &mut self.outbox);
        }
        self.outbox.pass_to(cx.outbox, |message| message, |timer| timer);
        cx.outbox.events.append(&mut self.outbox.events);
    }
}

impl<T: Tamper> Protocol for Wrapped<T> {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        self.call(cx, |member, cx| member.handle_start(cx));
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        self.call(cx, |member, cx| member.handle_peer(cx, peer, state));
    }

    fn handle_view(&mut self, cx: &mut Context<'_, Self>, view: &Arc<View>) {
        self.call(cx, |member, cx| member.handle_view(cx, view));
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, mut message: Message) {
        if self.tamper.as_mut().is_none_or(|tamper| tamper.admits(from, &mut message)) {
            self.call(cx, |member, cx| member.handle_message(cx, from, message));
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        if self.tamper.as_mut().is_none_or(|tamper| tamper.fires(timer)) {
            self.call(cx, |member, cx| member.handle_timer(cx, timer));
        }
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        self.call(cx, |member, cx| member.handle_command(cx, command));
    }
}
