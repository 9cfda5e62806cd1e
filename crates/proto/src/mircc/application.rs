//! This node's own application: what it fetches, asks, publishes and answers.

use std::fmt::Write;

use super::counters;
use super::face_id::{FaceId, NextHop};
use super::flow::{Actions, Flow, Taken};
use super::forward::{Passage, has_keyword, is_trace};
use super::interface::{Command, Event, Object, Question, Timer};
use super::pit::{Asker, Asking, EntryId, LIFETIME_MAX, Selectors};
use super::{Cx, Forwarder};
use crate::core::{Instant, Payload};
use crate::ndn::{Body, Class, Data, Header, Interest, Meta, NackReason, Name, Packet, Signer};

/// Bytes of content in a segment at most.
pub const SEGMENT_BYTES_MAX: usize = 8_000;
/// Answers to this node's own Interests that one call handles.
const LOCAL_MAX: usize = 64;
/// Questions that may be open.
const QUESTIONS_MAX: usize = 4_096;
/// The keyword of names that any node with the object answers.
const PING: &str = "ping";

/// A packet for one of this node's own flows.
pub(super) enum Local {
    Data { flow: u64, packet: Box<Packet>, bytes: usize },
    Nack { flow: u64, header: Header, reason: NackReason, interest: Interest },
}

impl Forwarder {
    /// Does what the application asks for.
    pub(super) fn handle_application(&mut self, cx: Cx<'_, '_>, command: Command) {
        match command {
            Command::Publish(object) => {
                if !(1..=SEGMENT_BYTES_MAX).contains(&object.segment_bytes) {
                    return cx.count(counters::OBJECT_REFUSED, 1);
                }
                self.fib.add(object.name.clone(), NextHop::Application, 0);
                self.objects.insert(object.name.prefix_bytes().clone(), object);
            }
            Command::Unpublish(name) => {
                self.objects.remove(name.prefix_bytes());
                self.fib.remove(&name, NextHop::Application);
            }
            Command::Serve(prefix) => self.fib.add(prefix, NextHop::Application, 0),
            Command::Unserve(prefix) => self.fib.remove(&prefix, NextHop::Application),
            Command::Answer(data) => self.answer(cx, data),
            Command::Refuse(interest, reason) => self.refuse_asked(cx, &interest, reason),
            Command::Ask(question) => self.ask_question(cx, *question),
            Command::Fetch(fetch) => {
                let flow = fetch.flow;
                self.flows.insert(flow, Flow::new(cx.now, fetch, cx.shared));
                self.drive(cx, flow, |flow, cx, actions| {
                    flow.start(cx.now, cx.shared, cx.rng, actions);
                });
            }
            Command::Consumed { flow, segments } => self.drive(cx, flow, |flow, cx, actions| {
                flow.consumed(cx.now, segments, cx.shared, cx.rng, actions);
            }),
            Command::Stop { flow } => {
                self.flows.remove(&flow);
            }
            Command::AddFace(..)
            | Command::RemoveFace(_)
            | Command::AddRoute { .. }
            | Command::RemoveRoute { .. }
            | Command::SetStrategy { .. }
            | Command::Report(_) => unreachable!("these are the forwarder's"),
        }
    }

    /// Lets a flow act, and carries out what it wants.
    pub(super) fn drive(
        &mut self,
        cx: Cx<'_, '_>,
        id: u64,
        act: impl FnOnce(&mut Flow, Cx<'_, '_>, &mut Actions),
    ) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let mut actions = std::mem::take(&mut self.actions);
        let moves = flow.counts().switches;
        act(flow, cx, &mut actions);
        let moves = flow.counts().switches - moves;
        if moves > 0 {
            cx.count(counters::MOVES, moves);
        }
        if flow.is_complete() {
            let counts = flow.counts();
            self.flows.remove(&id);
            cx.deliver(Event::Fetched { flow: id, counts });
        } else if let Some(why) = flow.failed() {
            let counts = flow.counts();
            self.flows.remove(&id);
            cx.deliver(Event::Failed { flow: id, why, counts });
        }
        for (at, timer) in actions.timers.drain(..) {
            cx.set_timer(at.since(cx.now), timer);
        }
        let mut interests = std::mem::take(&mut actions.interests);
        self.actions = actions;
        for (header, interest) in interests.drain(..) {
            let asking = Asking {
                asker: Asker::Flow(id),
                nonce: interest.nonce,
                class: header.class,
                token: None,
                expires_at: cx.now + interest.lifetime().min(LIFETIME_MAX),
            };
            self.send(cx, asking, header, interest, None);
        }
        self.actions.interests = interests;
    }

    /// Handles what came for this node's own flows. An object that is published here is fetched
    /// without a message, so the work of one call is bounded.
    pub(super) fn take_local(&mut self, cx: Cx<'_, '_>) {
        for _ in 0..LOCAL_MAX {
            match self.local.pop_front() {
                None => return,
                Some(Local::Data { flow, packet, bytes }) => {
                    let Packet { header, body: Body::Data(data) } = *packet else { continue };
                    self.drive(cx, flow, |flow, cx, actions| {
                        let came = (&header, &data, bytes);
                        let taken = flow.handle_data(cx.now, came, cx.shared, cx.rng, actions);
                        if let Taken::Segment(number) = taken {
                            let (flow, class) = (flow.id(), header.class);
                            cx.deliver(Event::Segment {
                                flow,
                                number,
                                class,
                                data,
                                link_bytes: bytes,
                                stamps: header.stamps,
                            });
                        }
                    });
                }
                Some(Local::Nack { flow, header, reason, interest }) => {
                    self.drive(cx, flow, |flow, cx, actions| {
                        let nack = (&header, reason, &interest);
                        flow.handle_nack(cx.now, nack, cx.shared, actions);
                    });
                }
            }
        }
        if !self.local.is_empty() {
            self.local_timer.set(cx, cx.now, Timer::Local);
        }
    }

    fn ask_question(&mut self, cx: Cx<'_, '_>, question: Question) {
        if self.questions.len() >= QUESTIONS_MAX {
            cx.count(counters::QUESTIONS_FULL, 1);
            let nack = Some(NackReason::Congestion);
            return cx.deliver(Event::Unanswered { id: question.id, nack });
        }
        let Question { id, mut interest, path, discovers, to } = question;
        let to = match to.map(|peer| self.faces.of(peer)) {
            Some(None) => {
                cx.count(counters::QUESTION_WITHOUT_FACE, 1);
                let nack = Some(NackReason::NoRoute);
                return cx.deliver(Event::Unanswered { id, nack });
            }
            Some(face) => face,
            None => None,
        };
        interest.nonce = cx.rng.next_u32();
        let lifetime = interest.lifetime().min(LIFETIME_MAX);
        interest.lifetime_ms = Some(lifetime.as_millis() as u32);
        let asking = Asking {
            asker: Asker::Question(id),
            nonce: interest.nonce,
            class: Class::Primary,
            token: None,
            expires_at: cx.now + lifetime,
        };
        self.questions.insert(id, (cx.now, interest.nonce));
        let header = Header { label: path, discovers, ..Header::default() };
        self.send(cx, asking, header, interest, to);
    }

    fn send(
        &mut self,
        cx: Cx<'_, '_>,
        asking: Asking,
        header: Header,
        interest: Interest,
        to: Option<FaceId>,
    ) {
        let packet = Box::new(Packet { header, body: Body::Interest(interest) });
        if let Some(passage) = Passage::new(packet) {
            self.ask(cx, asking, passage.to(to));
        }
    }

    /// The answer to a question has come.
    pub(super) fn answered(&mut self, cx: Cx<'_, '_>, (id, nonce): (u64, u32), packet: &Packet) {
        let Packet { header, body: Body::Data(data) } = packet else { return };
        if let Some(asked_at) = self.close_question(id, nonce) {
            cx.deliver(Event::Answered {
                id,
                data: data.clone(),
                path: header.label,
                stamps: header.stamps,
                round_trip: cx.now.since(asked_at),
            });
        }
    }

    /// No answer will come to a question.
    pub(super) fn unanswered(
        &mut self,
        cx: Cx<'_, '_>,
        (id, nonce): (u64, u32),
        nack: Option<NackReason>,
    ) {
        if self.close_question(id, nonce).is_some() {
            cx.deliver(Event::Unanswered { id, nack });
        }
    }

    /// Ends a question and says when it was asked; none if another one has its number by now.
    fn close_question(&mut self, id: u64, nonce: u32) -> Option<Instant> {
        let &(asked_at, asked) = self.questions.get(&id)?;
        (asked == nonce).then(|| {
            self.questions.remove(&id);
            asked_at
        })
    }

    /// The lifetime of an asker's Interest has ended. Flows and neighbours have timers of their
    /// own.
    pub(super) fn tell_expired(&mut self, cx: Cx<'_, '_>, asking: &Asking) {
        if let Asker::Question(id) = asking.asker {
            self.unanswered(cx, (id, asking.nonce), None);
        }
    }

    /// An Interest has reached a node that answers for its name.
    pub(super) fn ask_application(&mut self, cx: Cx<'_, '_>, id: EntryId, interest: Interest) {
        let expires_at = cx.now + interest.lifetime().min(LIFETIME_MAX);
        self.pit.schedule(id, expires_at, expires_at);
        let from = self.pit.get(id).and_then(|entry| match entry.asking.last()?.asker {
            Asker::Face(face) => self.faces.get(face).map(|face| face.peer),
            Asker::Flow(_) | Asker::Question(_) => None,
        });
        let Interest { name, can_be_prefix, .. } = &interest;
        if let Some(data) = self.segment_of(name, *can_be_prefix, &cx.shared.signer) {
            return self.answer(cx, data);
        }
        if is_trace(name) || has_keyword(name, PING) {
            return self.answer_trace(cx, name);
        }
        let expires_at = self
            .pit
            .get(id)
            .and_then(|entry| entry.asking.iter().map(|asking| asking.expires_at).max());
        if let Some(expires_at) = expires_at {
            self.pit.schedule(id, expires_at, expires_at);
        }
        cx.deliver(Event::Asked { from, interest: Box::new(interest) });
    }

    /// The application has no answer: all askers get a Nack, unless another next hop is left.
    fn refuse_asked(&mut self, cx: Cx<'_, '_>, interest: &Interest, reason: NackReason) {
        let &Interest { can_be_prefix, must_be_fresh, .. } = interest;
        let selectors = Selectors { can_be_prefix, must_be_fresh };
        let id = self.pit.find(self.pit.hashed(&interest.name), selectors);
        let Some(id) = id else { return cx.count(counters::ANSWER_UNASKED, 1) };
        let is_last = self.pit.get(id).is_some_and(|entry| entry.passing.is_empty());
        if is_last && !self.fail_over(cx, id, Some((NextHop::Application, interest.nonce))) {
            self.end_with_nack(cx, id, reason, &Header::default());
        }
    }

    /// The application's answer: to all that asked.
    fn answer(&mut self, cx: Cx<'_, '_>, data: Data) {
        let ids = self.pit.matching(data.name());
        if ids.is_empty() {
            return cx.count(counters::ANSWER_UNASKED, 1);
        }
        let bytes = data.encoded_len() + cx.shared.frame_bytes;
        self.satisfy(cx, &ids, Box::new(Packet::from(data)), bytes);
    }

    /// The Data of a published object's segment.
    fn segment_of(&self, name: &Name, can_be_prefix: bool, signer: &Signer) -> Option<Data> {
        let object = self.objects.get(name.prefix_bytes())?;
        let number = name.segment().or(can_be_prefix.then_some(0))?;
        let last = object.segments() - 1;
        if number > last {
            return None;
        }
        let Object { content, segment_bytes, freshness, .. } = object;
        let begin = number as usize * segment_bytes;
        let end = (begin + segment_bytes).min(content.len());
        let meta = Meta {
            content_type: None,
            freshness_ms: freshness.map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
            final_segment: Some(last),
        };
        // The asker's own name where it is complete: names that share bytes compare fast.
        let name = if name.segment().is_some() { name } else { &object.name };
        Some(Data::new(name.with_segment(number), meta, content.slice(begin..end), signer))
    }

    /// Answers an Interest that asks what node it has reached, and how that is.
    pub(super) fn answer_trace(&mut self, cx: Cx<'_, '_>, name: &Name) {
        let meta = Meta { content_type: None, freshness_ms: None, final_segment: None };
        let content = Payload::from(self.describe().into_bytes());
        // The consumer knows none of this node's keys.
        self.answer(cx, Data::new(name.clone(), meta, content, &Signer::Digest));
    }

    /// Describes the node in lines of text, as the answer to a trace.
    fn describe(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "node {}", self.setup.name);
        let _ = writeln!(text, "pending {}", self.pit.len());
        let _ = writeln!(text, "stored {} {}", self.store.len(), self.store.bytes());
        for (_, face) in self.faces.iter().take(16) {
            if let Some((primary, secondary)) = face.rates() {
                let waiting = face.shaper.len();
                let _ = writeln!(
                    text,
                    "face {} rates {primary:.0} {secondary:.0} waiting {waiting}",
                    face.label
                );
            }
        }
        text
    }
}
