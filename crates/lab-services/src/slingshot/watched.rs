//! On sockets the lab cannot observe which packets reach a node. A repair may overtake the packet
//! that it carries, and the application gets the recovered copy: that packet was not lost.

use std::sync::Arc;

use paceline_proto::core::{Context, Counters, GroupId, NodeId, Outbox, PeerState, Protocol, View};
use paceline_proto::slingshot::Command;
use paceline_proto::slingshot::flow::Way;

use super::peer::{Kind, PacketEvent, Timely};

/// A member, and what reaches it from the senders.
pub struct Watched<P: Protocol> {
    member: P,
    outbox: Outbox<P>,
}

/// What a member says, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<E> {
    /// What the member says.
    Member(E),
    /// A packet came from its sender of which the member did not say so.
    Arrived {
        /// The group that it was sent to.
        group: GroupId,
        /// Its sender.
        sender: NodeId,
        /// Its number among those of the sender to the group.
        seq: u64,
    },
}

impl<P: Timely> Watched<P> {
    fn call(
        &mut self,
        cx: &mut Context<'_, Self>,
        handler: impl FnOnce(&mut P, &mut Context<'_, P>),
        arrival: Option<(GroupId, NodeId, u64)>,
    ) {
        let mut inner = cx.nest(cx.incarnation, cx.shared, &mut self.outbox, 0);
        handler(&mut self.member, &mut inner);
        self.outbox.pass_to(cx.outbox, |message| message, |timer| timer);
        if let Some((group, from, seq)) = arrival {
            let says_so = |event: &P::Event| {
                matches!(
                    P::packet_event(event),
                    PacketEvent::Packet { sender, way: Way::Direct, .. } if sender == from
                )
            };
            if !self.outbox.events.iter().any(says_so) {
                cx.deliver(Seen::Arrived { group, sender: from, seq });
            }
        }
        cx.outbox.events.extend(self.outbox.events.drain(..).map(Seen::Member));
    }
}

impl<P: Timely> Protocol for Watched<P> {
    type Message = P::Message;
    type Timer = P::Timer;
    type Command = Command;
    type Event = Seen<P::Event>;
    type Shared = P::Shared;

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        self.call(cx, |member, cx| member.handle_start(cx), None);
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        self.call(cx, |member, cx| member.handle_peer(cx, peer, state), None);
    }

    fn handle_view(&mut self, cx: &mut Context<'_, Self>, view: &Arc<View>) {
        self.call(cx, |member, cx| member.handle_view(cx, view), None);
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: P::Message) {
        let arrival = match P::kind(&message) {
            Kind::Data(group, seq) => Some((group, from, seq)),
            _ => None,
        };
        self.call(cx, |member, cx| member.handle_message(cx, from, message), arrival);
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: P::Timer) {
        self.call(cx, |member, cx| member.handle_timer(cx, timer), None);
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        self.call(cx, |member, cx| member.handle_command(cx, command), None);
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        self.call(cx, |member, cx| member.handle_drained(cx, to), None);
    }

    fn admission(&self) -> usize {
        self.member.admission()
    }
}

impl<P: Timely> Timely for Watched<P> {
    fn member(shared: &P::Shared) -> Watched<P> {
        Watched { member: P::member(shared), outbox: Outbox::default() }
    }

    fn packet_event(event: &Seen<P::Event>) -> PacketEvent<'_> {
        match event {
            Seen::Member(event) => P::packet_event(event),
            Seen::Arrived { group, sender, seq } => {
                PacketEvent::Overtaken { group: *group, sender: *sender, seq: *seq }
            }
        }
    }

    fn kind(message: &P::Message) -> Kind {
        P::kind(message)
    }

    fn repairs_sent(shared: &P::Shared, counters: &Counters, nodes: u32) -> u64 {
        P::repairs_sent(shared, counters, nodes)
    }
}
