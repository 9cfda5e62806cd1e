//! A server with something around it that tampers with what goes in and what comes out.

use paceline_proto::core::{Context, NodeId, Outbox, Protocol};
use paceline_proto::walk::{Command, Event, Message, Server, Timer};
use paceline_sim::checkers::walk::Node;

/// What is done to a server.
pub trait Tamper: Sized {
    /// A message comes. How often the server is to see it.
    fn admits(&mut self, _from: NodeId, _message: &mut Message) -> usize {
        1
    }

    /// The application asks for something. False if the server is not to see it.
    fn commands(&mut self, _command: &mut Command) -> bool {
        true
    }

    /// A timer fires. False if the server is not to see it.
    fn fires(&mut self, _timer: Timer) -> bool {
        true
    }

    /// This is what the server wants done.
    fn tamper(&mut self, cx: &mut Context<'_, Wrapped<Self>>, outbox: &mut Outbox<Server>);
}

pub struct Wrapped<T> {
    server: Server,
    tamper: Option<T>,
    outbox: Outbox<Server>,
}

impl<T> Wrapped<T> {
    pub fn new(server: Server, tamper: Option<T>) -> Wrapped<T> {
        Wrapped { server, tamper, outbox: Outbox::default() }
    }
}

impl<T: Tamper> Node for Wrapped<T> {
    fn server(&self) -> &Server {
        &self.server
    }
}

impl<T: Tamper> Wrapped<T> {
    fn call(
        &mut self,
        cx: &mut Context<'_, Self>,
        handler: impl FnOnce(&mut Server, &mut Context<'_, Server>),
    ) {
        let mut inner = cx.nest(cx.incarnation, &(), &mut self.outbox, 0);
        handler(&mut self.server, &mut inner);
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
    type Shared = ();

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, mut message: Message) {
        let times = self.tamper.as_mut().map_or(1, |tamper| tamper.admits(from, &mut message));
        for _ in 0..times {
            let message = message.clone();
            self.call(cx, |server, cx| server.handle_message(cx, from, message));
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        if self.tamper.as_mut().is_none_or(|tamper| tamper.fires(timer)) {
            self.call(cx, |server, cx| server.handle_timer(cx, timer));
        }
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, mut command: Command) {
        if self.tamper.as_mut().is_none_or(|tamper| tamper.commands(&mut command)) {
            self.call(cx, |server, cx| server.handle_command(cx, command));
        }
    }
}
