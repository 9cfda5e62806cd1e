use std::sync::Arc;

use super::{Command, Config, Event, Message, Timer};
use crate::core::{Context, NodeId, Outbox, PeerState, Protocol, Terms, View, WatchNews};
use crate::group::{self, Group};
use crate::slingshot::Slingshot;

type Cx<'a> = Context<'a, Multicast>;

/// A node's part in a group that multicasts in time.
pub struct Multicast {
    group: Group,
    from_group: Outbox<Group>,
    slingshot: Slingshot,
    from_slingshot: Outbox<Slingshot>,
    /// The incarnation of the multicast, and its number among this node's incarnations.
    incarnation: u64,
    life: u32,
}

impl Multicast {
    /// A node outside the group.
    pub fn new(config: &Config) -> Multicast {
        Multicast {
            group: Group::new(&config.group),
            from_group: Outbox::default(),
            slingshot: Slingshot::new(&config.slingshot),
            from_slingshot: Outbox::default(),
            incarnation: 0,
            life: 0,
        }
    }

    /// The node's multicast state.
    pub fn slingshot(&self) -> &Slingshot {
        &self.slingshot
    }

    fn with_group(
        &mut self,
        cx: &mut Cx<'_>,
        call: impl FnOnce(&mut Group, &mut Context<'_, Group>),
    ) {
        let (incarnation, shared) = (cx.incarnation, cx.shared);
        let mut inner =
            cx.nest(incarnation, &shared.group, &mut self.from_group, super::message::TAG_BYTES);
        call(&mut self.group, &mut inner);
        self.from_group.pass_to(cx.outbox, Message::Group, Timer::Group);
        let mut events = std::mem::take(&mut self.from_group.events);
        for event in events.drain(..) {
            self.follow(cx, &event);
            cx.deliver(Event::Group(event));
        }
        self.from_group.events = events;
    }

    /// The multicast follows the group's views.
    fn follow(&mut self, cx: &mut Cx<'_>, event: &group::Event) {
        match event {
            group::Event::View(view) => {
                let incarnation = self.group.member().incarnation;
                if self.incarnation != incarnation {
                    self.incarnation = incarnation;
                    self.life += 1;
                    self.slingshot = Slingshot::new(&cx.shared.slingshot);
                    self.with_slingshot(cx, |slingshot, cx| slingshot.handle_start(cx));
                }
                self.with_slingshot(cx, |slingshot, cx| slingshot.handle_view(cx, view));
            }
            group::Event::Left | group::Event::Excluded => {
                let empty_view = Arc::new(View::new(self.slingshot.view().id(), []));
                self.with_slingshot(cx, |slingshot, cx| slingshot.handle_view(cx, &empty_view));
            }
            _ => {}
        }
    }

    fn with_slingshot(
        &mut self,
        cx: &mut Cx<'_>,
        call: impl FnOnce(&mut Slingshot, &mut Context<'_, Slingshot>),
    ) {
        let (life, shared) = (self.life, cx.shared);
        let mut inner = cx.nest(
            self.incarnation,
            &shared.slingshot,
            &mut self.from_slingshot,
            super::message::TAG_BYTES,
        );
        call(&mut self.slingshot, &mut inner);
        let timer = |timer| Timer::Slingshot { life, timer };
        self.from_slingshot.pass_to(cx.outbox, Message::Slingshot, timer);
        cx.outbox.events.extend(self.from_slingshot.events.drain(..).map(Event::Slingshot));
    }
}

impl Protocol for Multicast {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn terms(config: &Config) -> Terms {
        config.slingshot.terms()
    }

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        self.with_group(cx, |group, cx| group.handle_start(cx));
    }

    fn handle_peer(&mut self, cx: &mut Cx<'_>, peer: NodeId, state: PeerState) {
        self.with_group(cx, |group, cx| group.handle_peer(cx, peer, state));
    }

    fn handle_watched(&mut self, cx: &mut Cx<'_>, node: NodeId, news: WatchNews) {
        self.with_group(cx, |group, cx| group.handle_watched(cx, node, news));
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        match message {
            Message::Group(message) => {
                self.with_group(cx, |group, cx| group.handle_message(cx, from, message));
            }
            Message::Slingshot(message) => {
                self.with_slingshot(cx, |slingshot, cx| {
                    slingshot.handle_message(cx, from, message)
                });
            }
        }
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Group(timer) => self.with_group(cx, |group, cx| group.handle_timer(cx, timer)),
            Timer::Slingshot { life, timer } if life == self.life => {
                self.with_slingshot(cx, |slingshot, cx| slingshot.handle_timer(cx, timer));
            }
            Timer::Slingshot { .. } => {}
        }
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        match command {
            Command::Membership(command) => {
                let command = group::Command::Membership(command);
                self.with_group(cx, |group, cx| group.handle_command(cx, command));
            }
            Command::Gather(command) => {
                let command = group::Command::Gather(command);
                self.with_group(cx, |group, cx| group.handle_command(cx, command));
            }
            Command::Slingshot(command) => {
                self.with_slingshot(cx, |slingshot, cx| slingshot.handle_command(cx, command));
            }
        }
    }

    fn handle_drained(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        self.with_group(cx, |group, cx| group.handle_drained(cx, to));
    }

    /// Messages of one packet that are not paced are sent when their command is handled. Until then
    /// they wait, at most as many bytes as one datagram queue takes. Those that are paced wait
    /// until they have left; so may as many bytes of them, before no more are admitted.
    fn admission(&self) -> usize {
        let queued_bytes = self.slingshot.queued().1;
        ADMITTED_BYTES.saturating_sub(queued_bytes.saturating_sub(ADMITTED_BYTES))
    }

    fn event_bytes(event: &Event) -> usize {
        match event {
            Event::Group(event) => event.bytes(),
            Event::Slingshot(event) => Slingshot::event_bytes(event),
        }
    }

    fn is_departure(event: &Event) -> bool {
        matches!(event, Event::Group(group::Event::Left))
    }
}

/// Bytes that may wait to be handled.
const ADMITTED_BYTES: usize = 1 << 20;
