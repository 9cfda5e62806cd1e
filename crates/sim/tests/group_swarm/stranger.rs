//! A node that is no member and sends well-formed messages that are false.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::chain::{self, Frame, Topology};
use paceline_proto::core::{
    Context, Lane, Member, NodeId, Outbox, Payload, PeerState, Protocol, Rng, View, ViewId,
};
use paceline_proto::group::{
    Ballot, Command, Config, Contact, Cut, Direct, Event, Group, Message, Proposal, Received,
    Refusal, Timer,
};
use paceline_sim::checkers::group::Host;

/// Counts the messages that strangers send.
pub const LIES: &str = "stranger_lies";

/// What strangers know of the group: what any node is told that asks. Views and incarnations, but
/// nothing that only members are sent.
#[derive(Debug, Default)]
struct Known {
    view: u64,
    members: Vec<Member>,
}

/// A node of the group, or a stranger.
pub struct Node {
    group: Group,
    outbox: Outbox<Group>,
    known: Arc<Mutex<Known>>,
    // Time between two lies of a stranger; none for a node of the group.
    lies_every: Option<Duration>,
}

/// Makes nodes of which those from `nodes` on are strangers.
pub fn nodes(
    config: &Config,
    nodes: u32,
    lies_every: Duration,
) -> impl FnMut(NodeId) -> Node + Send + 'static {
    let config = config.clone();
    let known = Arc::new(Mutex::new(Known::default()));
    move |node| Node {
        group: Group::new(&config),
        outbox: Outbox::default(),
        known: known.clone(),
        lies_every: (node.0 >= nodes).then_some(lies_every),
    }
}

impl Host for Node {
    fn group(&self) -> &Group {
        &self.group
    }
}

impl Node {
    fn call(
        &mut self,
        cx: &mut Context<'_, Node>,
        handler: impl FnOnce(&mut Group, &mut Context<'_, Group>),
    ) {
        let (incarnation, shared) = (cx.incarnation, cx.shared);
        handler(&mut self.group, &mut cx.nest(incarnation, shared, &mut self.outbox, 0));
        self.outbox.pass_to(cx.outbox, |message| message, |timer| timer);
        self.outbox.events.drain(..).for_each(|event| cx.deliver(event));
        let (me, view) = (self.group.member(), self.group.view().id().0);
        let mut known = self.known.lock().expect("no panic under the lock");
        known.view = known.view.max(view);
        match known.members.iter_mut().find(|member| member.node == me.node) {
            Some(member) => *member = me,
            None => known.members.push(me),
        }
    }

    fn lie(&mut self, cx: &mut Context<'_, Node>) {
        let known = self.known.lock().expect("no panic under the lock");
        if !known.members.is_empty() {
            let to = known.members[cx.rng.below(known.members.len() as u32) as usize].node;
            let (me, incarnation) = (cx.node, cx.incarnation);
            let mut draw = Draw { rng: &mut *cx.rng, known: &known, me, incarnation };
            let message = draw.message();
            let lane = match message {
                Message::Chain(chain::Message::Data(_))
                | Message::Flushed(_)
                | Message::Direct(_) => Lane::Stream,
                _ => Lane::Datagram,
            };
            cx.count(LIES, 1);
            cx.send(to, lane, message);
        }
        drop(known);
        if let Some(every) = self.lies_every {
            cx.set_timer(every, Timer::Group);
        }
    }
}

/// Draws messages, with fields that are true, nearly true, or extreme.
struct Draw<'a> {
    rng: &'a mut Rng,
    known: &'a Known,
    me: NodeId,
    incarnation: u64,
}

impl Draw<'_> {
    fn word(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => u64::from(self.rng.below(4)),
            1 => u64::MAX - u64::from(self.rng.below(2)),
            _ => self.rng.next_u64(),
        }
    }

    fn view(&mut self) -> ViewId {
        ViewId(match self.rng.below(8) {
            0 => self.word(),
            1 => self.known.view.saturating_sub(1),
            2 => self.known.view + 1,
            3 => self.known.view + 2 + u64::from(self.rng.below(1000)),
            _ => self.known.view,
        })
    }

    fn member(&mut self) -> Member {
        let true_one = self.known.members[self.rng.below(self.known.members.len() as u32) as usize];
        match self.rng.below(5) {
            0 => Member { node: self.me, incarnation: self.incarnation },
            1 => Member { node: NodeId(self.rng.next_u32()), incarnation: self.word() },
            2 => Member { incarnation: self.word(), ..true_one },
            _ => true_one,
        }
    }

    fn rank(&mut self) -> u32 {
        if self.rng.chance(0.1) { self.rng.next_u32() } else { self.rng.below(8) }
    }

    fn contact(&mut self) -> Contact {
        Contact { member: self.member(), token: self.word(), address: Bytes::new() }
    }

    fn contacts(&mut self) -> Vec<Contact> {
        let mut contacts: Vec<Contact> = match self.rng.chance(0.5) {
            // All that there are, and perhaps others.
            true => {
                let contact = |&member| Contact { member, token: 0, address: Bytes::new() };
                self.known.members.iter().map(contact).collect()
            }
            false => Vec::new(),
        };
        for _ in 0..self.rng.below(4) {
            contacts.push(self.contact());
        }
        // Decoders refuse a node that is named twice.
        contacts.sort_by_key(|contact| contact.member.node);
        contacts.dedup_by_key(|contact| contact.member.node);
        contacts
    }

    fn ballot(&mut self) -> Ballot {
        let round = match self.rng.below(3) {
            0 => u32::MAX - self.rng.below(2),
            1 => self.rng.below(8),
            _ => self.rng.next_u32(),
        };
        let proposer = if self.rng.chance(0.5) { self.me } else { self.member().node };
        Ballot { round, proposer }
    }

    fn proposal(&mut self) -> Arc<Proposal> {
        let cut = |draw: &mut Self| Cut {
            origin: draw.rank(),
            incarnation: draw.word(),
            end: draw.word(),
            holder: draw.rank(),
        };
        Arc::new(Proposal {
            made_at: self.ballot(),
            is_adopted: self.rng.chance(0.5),
            kept: (0..self.rng.below(4)).map(|_| self.rank()).collect(),
            next: self.contacts(),
            cuts: (0..self.rng.below(4)).map(|_| cut(self)).collect(),
        })
    }

    fn frame(&mut self) -> Frame {
        let count = 1 + self.rng.below(3) as u16;
        let index = self.rng.below(count.into()) as u16;
        let frame = Frame {
            view: self.view(),
            origin: self.rank(),
            incarnation: self.member().incarnation,
            seq: u64::from(index) + (self.word() >> 2),
            index,
            count,
            topology: Topology::ALL[self.rng.below(4) as usize],
            checksum: 0,
            stable_lag: self.rng.below(40),
            link: self.word(),
            hops_left: self.rng.below(8),
            payload: Payload::Bytes(Bytes::from_static(b"a lie")),
        };
        Frame { checksum: frame.computed_checksum(), ..frame }
    }

    fn chain(&mut self) -> chain::Message {
        let (view, incarnation) = (self.view(), self.member().incarnation);
        match self.rng.below(8) {
            0 => chain::Message::Ack {
                view,
                incarnation,
                received: self.word(),
                consumed: self.word(),
            },
            1 => chain::Message::Stable { view, incarnation, stable: self.word() },
            2 => chain::Message::LinkAck { view, next: self.word() },
            3 => chain::Message::Resync { view, next: self.word() },
            4 => chain::Message::Resume { view, next: self.word() },
            5 => chain::Message::Probe { view, incarnation },
            6 => {
                chain::Message::Owed { view, incarnation, blocks: self.word(), bytes: self.word() }
            }
            _ => chain::Message::Data(self.frame()),
        }
    }

    fn direct(&mut self) -> Direct {
        let count = 1 + self.rng.below(3) as u16;
        let block = Direct {
            view: self.view(),
            sender: self.word(),
            receiver: self.member().incarnation,
            number: u64::from(self.rng.next_u32()),
            index: self.rng.below(count.into()) as u16,
            count,
            checksum: 0,
            payload: Payload::Bytes(Bytes::from_static(b"a lie")),
        };
        Direct { checksum: block.computed_checksum(), ..block }
    }

    fn message(&mut self) -> Message {
        let (view, ballot) = (self.view(), self.ballot());
        match self.rng.below(21) {
            0 => Message::Chain(self.chain()),
            1 => Message::Detector(Bytes::from(self.rng.next_u64().to_be_bytes().to_vec())),
            2 => Message::Join(self.contact()),
            3 => Message::Refused { token: self.word(), refusal: Refusal::IdInUse },
            4 => Message::Leave { view, incarnation: self.member().incarnation },
            5 => Message::Prepare { view, ballot },
            6 => {
                let accepted = self.rng.chance(0.5).then(|| (self.ballot(), self.proposal()));
                let row = |draw: &mut Self| Received {
                    origin: draw.rank(),
                    incarnation: draw.word(),
                    end: draw.word(),
                };
                let received = (0..self.rng.below(3)).map(|_| row(self)).collect();
                Message::Promise { view, ballot, accepted, received }
            }
            7 => Message::Accept { view, ballot, proposal: self.proposal() },
            8 => Message::Accepted { view, ballot },
            9 => Message::Rejected { view, promised: ballot },
            10 => Message::Install { after: view, made_at: ballot, members: self.contacts() },
            11 => Message::Installed { view },
            12 => {
                let from = u64::from(self.rng.below(50));
                Message::Fetch { view, origin: self.rank(), from, to: self.word() }
            }
            13 => Message::Flushed(self.frame()),
            14 => Message::Excluded { view },
            15 => Message::Direct(self.direct()),
            16 => Message::DirectAck {
                sender: self.member().incarnation,
                receiver: self.word(),
                received: self.word(),
                consumed: self.word(),
            },
            17 => Message::DirectProbe { sender: self.word(), receiver: self.member().incarnation },
            18 => Message::Challenge { token: self.word(), nonce: self.word() },
            19 => Message::Response { nonce: self.word() },
            _ => {
                let members = (0..self.rng.below(4)).map(|_| self.rank()).collect();
                Message::Unreachable { view, members }
            }
        }
    }
}

impl Protocol for Node {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        match self.lies_every {
            Some(every) => cx.set_timer(every, Timer::Group),
            None => self.call(cx, |group, cx| group.handle_start(cx)),
        }
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        if self.lies_every.is_none() {
            self.call(cx, |group, cx| group.handle_peer(cx, peer, state));
        }
    }

    fn handle_view(&mut self, cx: &mut Context<'_, Self>, view: &Arc<View>) {
        if self.lies_every.is_none() {
            self.call(cx, |group, cx| group.handle_view(cx, view));
        }
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if self.lies_every.is_none() {
            self.call(cx, |group, cx| group.handle_message(cx, from, message));
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match self.lies_every {
            Some(_) => self.lie(cx),
            None => self.call(cx, |group, cx| group.handle_timer(cx, timer)),
        }
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        self.call(cx, |group, cx| group.handle_command(cx, command));
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        if self.lies_every.is_none() {
            self.call(cx, |group, cx| group.handle_drained(cx, to));
        }
    }

    fn admission(&self) -> usize {
        self.group.admission()
    }
}
