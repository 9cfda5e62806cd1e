//! A member whose reports to its application a planted bug spoils.

use std::sync::Arc;

use paceline_proto::core::{Context, NodeId, Outbox, Payload, PeerState, Protocol, View};
use paceline_proto::slingshot::{Command, Event};

/// What members do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A byte of each delivered packet is another one.
    AlterPayload,
    DeliverTwice,
    /// What comes back after a loss is not delivered.
    DropRecovered,
    /// A delivery is held back until after the next one of the same sender.
    SwapOrder,
}

pub struct Faulty<P: Protocol> {
    member: P,
    outbox: Outbox<P>,
    bug: Option<Bug>,
    kept: Option<Event>,
}

impl<P: Protocol<Command = Command, Event = Event>> Faulty<P> {
    pub fn new(member: P, bug: Option<Bug>) -> Faulty<P> {
        Faulty { member, outbox: Outbox::default(), bug, kept: None }
    }

    pub fn member(&self) -> &P {
        &self.member
    }

    fn call(
        &mut self,
        cx: &mut Context<'_, Self>,
        handler: impl FnOnce(&mut P, &mut Context<'_, P>),
    ) {
        let mut inner = cx.nest(cx.incarnation, cx.shared, &mut self.outbox, 0);
        handler(&mut self.member, &mut inner);
        self.outbox.pass_to(cx.outbox, |message| message, |timer| timer);
        for event in std::mem::take(&mut self.outbox.events) {
            self.tell(cx, event);
        }
    }

    fn tell(&mut self, cx: &mut Context<'_, Self>, mut event: Event) {
        let Event::Delivered { sender, payload, how, .. } = &mut event else {
            return cx.deliver(event);
        };
        match self.bug {
            Some(Bug::AlterPayload) => {
                let mut bytes = payload.to_bytes().to_vec();
                bytes[0] ^= 1;
                *payload = Payload::from(bytes);
            }
            Some(Bug::DeliverTwice) => cx.deliver(event.clone()),
            Some(Bug::DropRecovered) if *how != paceline_proto::slingshot::How::Direct => return,
            Some(Bug::SwapOrder) => match self.kept.take() {
                None => {
                    self.kept = Some(event);
                    return;
                }
                Some(kept) => {
                    let is_same =
                        matches!(&kept, Event::Delivered { sender: of, .. } if of == sender);
                    let (first, second) = if is_same { (event, kept) } else { (kept, event) };
                    cx.deliver(first);
                    return cx.deliver(second);
                }
            },
            _ => {}
        }
        cx.deliver(event);
    }
}

impl<P: Protocol<Command = Command, Event = Event>> Protocol for Faulty<P> {
    type Message = P::Message;
    type Timer = P::Timer;
    type Command = Command;
    type Event = Event;
    type Shared = P::Shared;

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        self.call(cx, |member, cx| member.handle_start(cx));
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        self.call(cx, |member, cx| member.handle_peer(cx, peer, state));
    }

    fn handle_view(&mut self, cx: &mut Context<'_, Self>, view: &Arc<View>) {
        self.call(cx, |member, cx| member.handle_view(cx, view));
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: P::Message) {
        self.call(cx, |member, cx| member.handle_message(cx, from, message));
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: P::Timer) {
        self.call(cx, |member, cx| member.handle_timer(cx, timer));
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        self.call(cx, |member, cx| member.handle_command(cx, command));
    }
}
