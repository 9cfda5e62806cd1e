//! One member, driven by hand, whatever its protocol.

use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::field::Field;
use paceline_proto::core::{
    Backlog, Context, GroupId, Instant, Member, NodeId, Outbox, Payload, Protocol, Rng, View,
    ViewId,
};
use paceline_proto::slingshot::{
    Command, Data, Event, Framing, How, Name, Names, NamesBuilder, Supply, checksum,
};
use proptest::prelude::*;

/// The incarnation of the member under test; that of node i is `100 + i`.
pub(super) const INCARNATION: u64 = 7;
pub(super) const G: GroupId = GroupId(0);

struct NoBacklog;

impl Backlog for NoBacklog {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn roster(members: u32) -> View {
    View::roster((0..members).map(NodeId::from))
}

/// The packet that node `from` sends under this number: its length and bytes follow from both.
pub(super) fn packet(group: GroupId, from: u32, seq: u64) -> Data {
    let bytes = 3 + (from as usize * 7).wrapping_add((seq as usize).wrapping_mul(5)) % 40;
    let payload = Payload::from(vec![(from as u8) << 4 ^ seq as u8 ^ group.0 as u8; bytes]);
    let incarnation = 100 + u64::from(from);
    let checksum = checksum(group, incarnation, seq, &payload);
    Data { group, incarnation, seq, framing: Framing::Whole, checksum, payload }
}

/// Node 0 and what surrounds it.
pub(super) struct Bench<P: Protocol> {
    pub(super) config: P::Shared,
    pub(super) node: P,
    pub(super) outbox: Outbox<P>,
    pub(super) rng: Rng,
    pub(super) now: Instant,
}

impl<P> Bench<P>
where
    P: Protocol<Command = Command, Event = Event, Message: Display>,
{
    pub(super) fn new(config: P::Shared, node: P) -> Bench<P> {
        let (outbox, rng, now) = (Outbox::default(), Rng::new(1, 1), Instant::ZERO);
        let mut bench = Bench { config, node, outbox, rng, now };
        bench.call(|node, cx| node.handle_start(cx));
        bench
    }

    fn call(&mut self, handler: impl FnOnce(&mut P, &mut Context<'_, P>)) {
        let mut cx = Context {
            now: self.now,
            node: NodeId(0),
            incarnation: INCARNATION,
            host: None,
            shared: &self.config,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &NoBacklog,
            datagram_bytes_max: 1200,
        };
        handler(&mut self.node, &mut cx);
    }

    pub(super) fn message(&mut self, from: u32, message: P::Message) {
        self.call(|node, cx| node.handle_message(cx, NodeId::from(from), message));
    }

    pub(super) fn command(&mut self, command: Command) {
        self.call(|node, cx| node.handle_command(cx, command));
    }

    pub(super) fn view(&mut self, id: u64, members: &[(u32, u64)]) {
        let members = members
            .iter()
            .map(|&(node, incarnation)| Member { node: NodeId::from(node), incarnation });
        let view = Arc::new(View::new(ViewId(id), members));
        self.call(|node, cx| node.handle_view(cx, &view));
    }

    /// Fires all timers that are due until this much time has passed.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let timers = &self.outbox.timers;
            let next = (0..timers.len()).min_by_key(|&place| timers[place].0);
            let Some(place) = next.filter(|&place| timers[place].0 <= until) else { break };
            let (at, timer) = self.outbox.timers.remove(place);
            self.now = self.now.max(at);
            self.call(|node, cx| node.handle_timer(cx, timer));
        }
        self.now = until;
    }

    /// Messages sent since the last call, one line each; those to groups first.
    pub(super) fn sent(&mut self) -> Vec<String> {
        let groups = self.outbox.group_sends.drain(..);
        let to_groups = groups.map(|(group, message)| format!("{group}: {message}"));
        let mut sent: Vec<String> = to_groups.collect();
        let sends = self.outbox.sends.drain(..);
        sent.extend(sends.map(|send| format!("{}: {}", send.to, send.message)));
        sent
    }

    /// Events since the last call, one line each.
    pub(super) fn told(&mut self) -> Vec<String> {
        let line = |event: Event| match event {
            Event::Delivered { group, sender, seq, payload, how, .. } => {
                assert_eq!(payload, packet(group, sender.index() as u32, seq).payload);
                match how {
                    How::Direct => format!("{sender}.{seq} direct"),
                    How::Recovered { .. } => format!("{sender}.{seq} recovered"),
                    How::Pulled { after } => format!("{sender}.{seq} pulled after {after:?}"),
                }
            }
            Event::Lost { sender, first, end, .. } => format!("{sender}.{first}..{end} lost"),
            Event::Overrun { packets } => format!("overrun {packets}"),
            Event::Tuned { .. } => unreachable!("only a member with a target reports it"),
            Event::Slow { .. } => unreachable!("only a sender with congestion control reports it"),
            Event::Sent { ticket, seq } => format!("sent {ticket} as {seq}"),
            Event::Rejected { ticket, reason } => format!("rejected {ticket}: {reason}"),
        };
        self.outbox.events.drain(..).map(line).collect()
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        self.outbox.counters.count(name)
    }
}

/// Messages, or parts of them, as their declaration draws them.
pub(super) fn any_of<M: Field + Debug>() -> impl Strategy<Value = M> {
    any::<u64>().prop_map(|seed| M::any(&mut Rng::new(seed, 0)))
}

pub(super) fn any_data() -> impl Strategy<Value = Data> {
    let payload = prop::collection::vec(any::<u8>(), 0..200).prop_map(Payload::from);
    (0u32..2, 0u64..110, 0..40u64, payload).prop_map(|(group, incarnation, seq, payload)| {
        let group = GroupId(group);
        let checksum = checksum(group, incarnation, seq, &payload);
        Data { group, incarnation, seq, framing: Framing::Whole, checksum, payload }
    })
}

pub(super) fn any_names() -> impl Strategy<Value = Names> {
    let name =
        (0u32..2, 0u16..5, 0u32..40, any::<u32>()).prop_map(|(group, rank, seq, checksum)| Name {
            group: GroupId(group),
            rank,
            seq,
            checksum,
        });
    prop::collection::vec(name, 1..40).prop_map(|list| {
        let mut names = NamesBuilder::default();
        list.iter().for_each(|name| names.push(*name));
        names.build()
    })
}

pub(super) fn any_supply() -> impl Strategy<Value = Supply> {
    (0u64..2, 0u16..5, any_data()).prop_map(|(view, rank, data)| Supply {
        view: ViewId(view),
        rank,
        data,
    })
}

/// The laws that the encoding of every baseline's messages keeps, as property tests: a strategy of
/// messages, and how many tags are known.
macro_rules! codec_laws {
    ($any_message:expr, $tags:expr) => {
        proptest! {
            #[test]
            fn every_message_survives_its_encoding(message in $any_message) {
                laws::survives(&message)?;
            }

            #[test]
            fn a_message_cut_short_or_too_long_is_refused(message in $any_message) {
                laws::ends_where_it_ends(&message)?;
            }

            #[test]
            fn arbitrary_bytes_are_a_message_in_its_only_form_or_refused(
                tag in 0u8..$tags + 1, tail in prop::collection::vec(any::<u8>(), 0..120)
            ) {
                laws::has_one_form::<Message>(&[&[tag][..], &tail].concat())?;
            }
        }

        #[test]
        fn an_unknown_tag_is_refused() {
            let refused = laws::decode::<Message>(&[$tags]);
            assert_eq!(refused, Err(DecodeError::UnknownTag($tags)));
        }
    };
}

pub(super) use codec_laws;
