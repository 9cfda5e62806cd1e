//! Named data at a fair rate. A forwarder passes on Interests and Data, and its links grant each
//! flow a rate. Consumers send at that rate, over one path or several.
//!
//! Source: Mahdian, Arianfar, Gibson, Oran, *MIRCC: Multipath-aware ICN Rate-based Congestion
//! Control*, ACM ICN 2016 (its slides; the paper's text was not at hand).
//!
//! [`Forwarder`] is the state machine of every node. Interests go from consumers towards producers;
//! a node keeps each in a table until its Data comes back the same way. Each face, the link to a
//! neighbour, has a [shaper](ShapedRates) that lets as many Interests leave as the link has room
//! for their Data, and a [rate controller](RateController) that stamps on Data what a flow may
//! send.

mod application;
mod arrivals;
mod back;
mod choice;
mod config;
mod controller;
pub mod counters;
mod face;
mod face_id;
mod fib;
mod flow;
mod forward;
mod interface;
mod link;
mod mark;
mod next_hop;
mod nonces;
mod pit;
mod reassembly;
mod round_trip;
mod shaper;
mod store;
mod strategy;
mod unanswered;
mod undecodable;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;
use std::time::Duration;

use bytes::Bytes;

use crate::core::{Context, DecodeError, Instant, Lane, NodeId, PeerState, Protocol, Rng, Wire};
use crate::ndn::{Body, NackReason, Packet};
use crate::parts::deadline::Deadline;
use application::Local;
use face::{Face, Faces, Held};
use face_id::NextHop;
use fib::Fib;
use flow::{Actions, Flow};
use forward::Passage;
use nonces::Nonces;
use pit::{Due, Pit};
use reassembly::Added;
use store::Store;

pub use application::SEGMENT_BYTES_MAX;
pub use config::{Config, FaceConfig};
pub use controller::{
    Algorithm, Controller, ControllerConfig, Interval, Mircc, RateController, Rcp,
};
pub use face::FaceCounts;
pub use face_id::FaceId;
pub use interface::{
    Command, Event, FaceReport, Fetch, FetchError, FlowCounts, FlowReport, Multipath, Object, Pace,
    PathReport, Question, Report, Setup, Timer,
};
pub use pit::PENDING_NAME_BYTES_MAX;
pub use shaper::{ShapedRates, ShaperConfig};
pub use strategy::Strategy;
pub use undecodable::Undecodable;

/// A node that forwards Interests and Data, and fetches and publishes for its application.
///
/// Its neighbours are its faces. It has no state for a flow that is not its own.
pub struct Forwarder {
    setup: Setup,
    faces: Faces,
    pit: Pit,
    fib: Fib,
    store: Store,
    nonces: Nonces,
    objects: BTreeMap<Bytes, Object>,
    flows: BTreeMap<u64, Flow>,
    /// When each was asked, and the nonce of its Interest.
    questions: BTreeMap<u64, (Instant, u32)>,
    /// Answers to this node's own Interests, which a handler looks at last.
    local: VecDeque<Local>,
    local_timer: Deadline,
    pending_timer: Deadline,
    due: Vec<Due>,
    actions: Actions,
}

type Cx<'a, 'b> = &'a mut Context<'b, Forwarder>;

/// How long Data may be away until it counts as overdue, where the round trip is unknown.
const OVERDUE_GUESS: Duration = Duration::from_secs(1);
/// The shortest such time.
const OVERDUE_MIN: Duration = Duration::from_millis(250);

impl Forwarder {
    /// A node that begins like this.
    pub fn new(setup: Setup, config: &Config) -> Forwarder {
        // Replaced with keys of the node's own when it starts.
        let mut rng = Rng::new(0, 0);
        Forwarder {
            setup,
            faces: Faces::default(),
            pit: Pit::new(&mut rng),
            fib: Fib::default(),
            store: Store::new(config.store_bytes_max),
            nonces: Nonces::default(),
            objects: BTreeMap::new(),
            flows: BTreeMap::new(),
            questions: BTreeMap::new(),
            local: VecDeque::new(),
            local_timer: Deadline::UNARMED,
            pending_timer: Deadline::UNARMED,
            due: Vec::new(),
            actions: Actions::default(),
        }
    }

    /// The state of the node.
    pub fn report(&self) -> Report {
        Report {
            name: self.setup.name.clone(),
            pending: self.pit.len(),
            stored: (self.store.len(), self.store.bytes()),
            routes: self.fib.len(),
            faces: self.faces().collect(),
            flows: self.flows.values().map(Flow::report).collect(),
        }
    }

    /// The state of each face, by neighbour. Allocates nothing.
    pub fn faces(&self) -> impl Iterator<Item = FaceReport> {
        self.faces.iter().map(|(_, face)| FaceReport {
            peer: face.peer,
            label: face.label,
            rates_bits_per_second: face.rates(),
            demand_bits_per_second: face.demand(),
            interests_waiting: face.shaper.len(),
            packets_waiting: face.link.len(),
            bytes_waiting: face.link.queued_bytes(),
            pending: face.pending,
            answered: face.answered(),
            has_deprioritized: face.unanswered.any_deprioritized(),
            counts: face.counts,
            undecodable: face.undecodable,
        })
    }

    /// Bytes of memory that its tables and queues hold; of the packets that wait to leave as
    /// Interests, what they are beside their names.
    pub fn memory_bytes(&self) -> usize {
        let waiting = self.faces.iter().map(|(_, face)| {
            let interests = face.shaper.len() * size_of::<(Held, Packet)>();
            let asked = face.unanswered.memory_bytes();
            face.link.queued_bytes() + interests + asked + face.reassembly.memory_bytes()
        });
        size_of::<Forwarder>()
            + self.pit.memory_bytes()
            + self.nonces.memory_bytes()
            + self.store.bytes()
            + self.faces.len() * size_of::<Face>()
            + waiting.sum::<usize>()
    }

    /// Pending Interests.
    pub fn pending(&self) -> usize {
        self.pit.len()
    }

    fn add_face(&mut self, cx: Cx<'_, '_>, peer: NodeId, face: &FaceConfig) {
        if let Some(known) = self.faces.of(peer) {
            self.remove_face(cx, known);
        }
        // Labels are random, so that a node cannot guess a path that it did not learn.
        let label = loop {
            let drawn = NonZeroU16::new(cx.rng.next_u32() as u16);
            let is_used = |label| self.faces.iter().any(|(_, face)| face.label == label);
            match drawn {
                Some(label) if !is_used(label) => break label,
                _ => {}
            }
        };
        self.faces.add(Face::new(peer, label, face, cx.shared));
    }

    fn remove_face(&mut self, cx: Cx<'_, '_>, id: FaceId) {
        self.fib.forget(NextHop::Face(id));
        let Some(mut face) = self.faces.remove(id) else { return };
        self.faces.iter_mut().for_each(|face| face.unanswered.forget(id));
        // Interests that waited for it are refused; those that came from it run out.
        let lost = face.link.clear() as u64;
        cx.count(counters::LOST_WITH_FACE, lost);
        for held in face.shaper.clear().collect::<Vec<_>>() {
            self.refuse(cx, &held, id, NackReason::NoRoute);
        }
    }

    /// Sets the timer of the pending Interest table, if it is not set.
    fn time_pending(&mut self, cx: Cx<'_, '_>) {
        if !self.pending_timer.is_armed()
            && let Some(at) = self.pit.next_tick(cx.now)
        {
            self.pending_timer.set(cx, at, Timer::Pending);
        }
    }

    fn look_at_pending(&mut self, cx: Cx<'_, '_>) {
        if !self.pending_timer.fired(cx.now) {
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        self.pit.tick(cx.now, &mut due);
        for due in due.drain(..) {
            match due {
                Due::Overdue(id) => {
                    self.note_unanswered(cx.now, id);
                    self.judge_overdue(cx, id);
                }
                Due::OverdueAgain(id) => self.judge_overdue(cx, id),
                Due::Expired(id) => self.expire(cx, id),
            }
        }
        self.due = due;
        self.time_pending(cx);
    }

    /// When the Data for an Interest that goes by this face counts as overdue.
    fn overdue_after(&self, face: FaceId) -> Duration {
        let upstream = self.faces.get(face).and_then(|face| face.upstream);
        upstream.map_or(OVERDUE_GUESS, |mean| (mean * 4).max(OVERDUE_MIN))
    }

    fn link_free(&mut self, cx: Cx<'_, '_>, id: FaceId) {
        let Some(face) = self.faces.get_mut(id) else { return };
        while let Some(packet) = face.link.take(cx.now) {
            cx.send(face.peer, Lane::Datagram, packet);
        }
        if let Some(due) = face.link.due() {
            cx.set_timer(due.since(cx.now), Timer::Link(id));
        }
    }

    fn shaper_free(&mut self, cx: Cx<'_, '_>, id: FaceId) {
        loop {
            let Some(face) = self.faces.get_mut(id) else { return };
            let observed = face.observed_in();
            let Some(held) = face.shaper.take(cx.now, &face.sizes, observed) else { break };
            self.leave(cx, id, held);
        }
        if let Some(due) = self.faces.get(id).and_then(|face| face.shaper.due()) {
            cx.set_timer(due.since(cx.now), Timer::Shaper(id));
        }
    }

    /// A packet has come, in one datagram or in several.
    fn take_packet(&mut self, cx: Cx<'_, '_>, face: FaceId, packet: Box<Packet>, bytes: usize) {
        match &packet.body {
            Body::Interest(_) => {
                if let Some(passage) = Passage::new(packet) {
                    self.handle_interest(cx, face, passage, bytes);
                }
            }
            Body::Data(_) => self.handle_data(cx, face, packet, bytes),
            Body::Nack(reason, interest) => {
                self.handle_nack(cx, face, packet.header.clone(), *reason, interest);
            }
            Body::Fragment(_) => self.take_fragment(cx, face, *packet, bytes),
        }
    }

    /// A fragment has come: handles the packet once it is complete.
    fn take_fragment(&mut self, cx: Cx<'_, '_>, id: FaceId, packet: Packet, bytes: usize) {
        let Packet { header, body: Body::Fragment(fragment) } = packet else { return };
        let Some(face) = self.faces.get_mut(id) else { return };
        let added = face.reassembly.add(cx.now, header, &fragment, bytes);
        self.time_reassembly(cx, id);
        let whole = match added {
            Added::Waits => return,
            Added::Duplicate => return cx.count(counters::FRAGMENT_DUPLICATE, 1),
            Added::Refused => return cx.count(counters::FRAGMENT_REFUSED, 1),
            Added::Whole(whole) => whole,
        };
        match Packet::of_fragments(whole.header, whole.nack, &whole.bytes) {
            Ok(packet) => {
                cx.count(counters::REASSEMBLED, 1);
                // An Interest or Data: fragments are not in one another.
                self.take_packet(cx, id, Box::new(packet), whole.link_bytes);
            }
            Err(error) => {
                cx.count(counters::REASSEMBLED_UNDECODABLE, 1);
                self.note_undecodable(id, error);
            }
        }
    }

    fn note_undecodable(&mut self, id: FaceId, error: DecodeError) {
        if let Some(face) = self.faces.get_mut(id) {
            face.undecodable.note(error);
        }
    }

    /// Counts what was dropped, and sets the timer of what is incomplete, if it is not set.
    fn time_reassembly(&mut self, cx: Cx<'_, '_>, id: FaceId) {
        let Some(face) = self.faces.get_mut(id) else { return };
        let dropped = face.reassembly.take_dropped();
        if dropped > 0 {
            cx.count(counters::REASSEMBLY_DROPPED, dropped);
        }
        if let Some(due) = face.reassembly.due() {
            face.reassembly.timer.set(cx, due, Timer::Reassembly(id));
        }
    }

    fn expire_fragments(&mut self, cx: Cx<'_, '_>, id: FaceId) {
        let Some(face) = self.faces.get_mut(id) else { return };
        if !face.reassembly.timer.fired(cx.now) {
            return;
        }
        face.reassembly.expire(cx.now);
        self.time_reassembly(cx, id);
    }

    fn set_rates(&mut self, cx: Cx<'_, '_>, id: FaceId) {
        let Some(face) = self.faces.get_mut(id) else { return };
        if face.interval_timer.fired(cx.now) && face.end_interval(cx.now) {
            let after = face.interval();
            face.interval_timer.set_after(cx, after, Timer::Rates(id));
        }
    }
}

impl Protocol for Forwarder {
    type Message = Box<Packet>;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        self.pit = Pit::new(cx.rng);
        for (peer, face) in std::mem::take(&mut self.setup.faces) {
            self.add_face(cx, peer, &face);
        }
        for (prefix, peer, cost) in std::mem::take(&mut self.setup.routes) {
            self.handle_command(cx, Command::AddRoute { prefix, peer, cost });
        }
        for (prefix, strategy) in std::mem::take(&mut self.setup.strategies) {
            self.handle_command(cx, Command::SetStrategy { prefix, strategy });
        }
        for object in std::mem::take(&mut self.setup.objects) {
            self.handle_command(cx, Command::Publish(object));
        }
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        match (self.faces.of(peer), state) {
            (None, PeerState::Up { .. }) => {
                let stranger = self.setup.stranger;
                self.add_face(cx, peer, &stranger);
            }
            (Some(face), PeerState::Down) => self.remove_face(cx, face),
            _ => {}
        }
        self.take_local(cx);
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, packet: Box<Packet>) {
        let Some(face) = self.faces.of(from) else {
            return cx.count(counters::UNKNOWN_NEIGHBOUR, 1);
        };
        let bytes = packet.wire_len() + cx.shared.frame_bytes;
        if let Some(face) = self.faces.get_mut(face) {
            face.counts.bytes_in += bytes as u64;
        }
        self.take_packet(cx, face, packet, bytes);
        self.take_local(cx);
    }

    fn handle_undecodable(&mut self, _: &mut Context<'_, Self>, from: NodeId, error: DecodeError) {
        if let Some(face) = self.faces.of(from) {
            self.note_undecodable(face, error);
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Link(face) => self.link_free(cx, face),
            Timer::Shaper(face) => self.shaper_free(cx, face),
            Timer::Rates(face) => self.set_rates(cx, face),
            Timer::Reassembly(face) => self.expire_fragments(cx, face),
            Timer::Pending => self.look_at_pending(cx),
            Timer::Local => {
                self.local_timer.fired(cx.now);
            }
            Timer::Lane { flow, lane, number } => self.drive(cx, flow, |flow, cx, actions| {
                flow.handle_lane(cx.now, (lane, number), cx.shared, cx.rng, actions);
            }),
            Timer::Resend(flow) => self.drive(cx, flow, |flow, cx, actions| {
                flow.resend(cx.now, cx.shared, cx.rng, actions);
            }),
            Timer::Discover(flow) => self.drive(cx, flow, |flow, cx, actions| {
                flow.handle_discover(cx.now, cx.shared, cx.rng, actions);
            }),
        }
        self.take_local(cx);
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::AddFace(peer, face) => self.add_face(cx, peer, &face),
            Command::RemoveFace(peer) => {
                if let Some(face) = self.faces.of(peer) {
                    self.remove_face(cx, face);
                }
            }
            Command::AddRoute { prefix, peer, cost } => match self.faces.of(peer) {
                Some(face) => self.fib.add(prefix, NextHop::Face(face), cost),
                None => cx.count(counters::ROUTE_WITHOUT_FACE, 1),
            },
            Command::RemoveRoute { prefix, peer } => {
                if let Some(face) = self.faces.of(peer) {
                    self.fib.remove(&prefix, NextHop::Face(face));
                }
            }
            Command::SetStrategy { prefix, strategy } => self.fib.set_strategy(&prefix, strategy),
            Command::Report(id) => {
                let report = Box::new(self.report());
                cx.deliver(Event::Report { id, report });
            }
            other => self.handle_application(cx, other),
        }
        self.take_local(cx);
    }

    fn event_bytes(event: &Event) -> usize {
        match event {
            // Its parts lie in the datagram that it came in, which they keep.
            Event::Asked { interest, .. } => size_of::<Event>() + interest.encoded_len(),
            // The credit of a flow bounds its segments; the rest answers commands.
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
