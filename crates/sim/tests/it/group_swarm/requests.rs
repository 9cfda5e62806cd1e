//! The requests that the applications of a swarm make, and how they answer them.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline_check::checkers::group::Host;
use paceline_proto::core::{Instant, Member, NodeId, Payload, Rng, View};
use paceline_proto::group::{
    Answer, Command, Event, Quorum, RequestFailure, SendFailure, Tally, Verdict,
};
use paceline_sim::Reply;

/// None is made later than this.
const UNTIL: Duration = Duration::from_secs(20);

/// A reply for which there was no room is tried again after this time.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Draws requests with each view, to single members and to all, and answers.
pub struct Requests {
    rng: Rng,
    number: u64,
    // By the number of each request to all: its outcomes, and the requests that it is made of.
    tallies: BTreeMap<u64, (Tally<()>, Vec<u64>)>,
    // The request to all that a request is part of.
    parts: BTreeMap<u64, u64>,
    // By ticket: the answers, which are given again while there is no room for them.
    answers: BTreeMap<u64, Command>,
    /// Requests to all members that met their quorum, and that missed it.
    pub quorums: [u64; 2],
}

impl Requests {
    pub fn new(seed: u64) -> Requests {
        Requests {
            rng: Rng::new(seed, 0x4e9),
            // Apart from the tickets of messages.
            number: 1 << 32,
            tallies: BTreeMap::new(),
            parts: BTreeMap::new(),
            answers: BTreeMap::new(),
            quorums: [0; 2],
        }
    }

    pub fn on_event<P: Host>(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &Event,
        reply: &mut Reply<P>,
    ) {
        match event {
            Event::View(view) if at < Instant::ZERO + UNTIL => {
                self.ask_some(node, view, reply);
                if self.rng.chance(0.5) {
                    self.ask_all(node, view, reply);
                }
            }
            Event::Request { from, id, .. } => self.answer(node, *from, *id, reply),
            Event::Replied { ticket, from, .. } => {
                self.note(node, *ticket, *from, Ok(()), reply);
            }
            Event::RequestFailed { ticket, failure } => {
                self.note_failure(node, *ticket, *failure, reply);
            }
            Event::Undelivered { ticket, failure: SendFailure::Full } => {
                if let Some(answer) = self.answers.get(ticket) {
                    reply.command(AGAIN_AFTER, node, answer.clone());
                }
            }
            _ => {}
        }
    }

    /// Many to one member, more than the bounds at times; or a few to some.
    fn ask_some<P: Host>(&mut self, node: NodeId, view: &View, reply: &mut Reply<P>) {
        let is_burst = self.rng.chance(0.3);
        let count = 1 + self.rng.below(if is_burst { 14 } else { 4 });
        let after = u64::from(self.rng.below(2000));
        let mut rank = self.rng.below(view.len() as u32);
        for _ in 0..count {
            let when = if is_burst { after } else { u64::from(self.rng.below(2000)) };
            if !is_burst {
                rank = self.rng.below(view.len() as u32);
            }
            let (after, to) = (Duration::from_millis(when), view.members()[rank as usize]);
            let (ticket, command) = self.request(to);
            reply.command(after, node, command);
            if self.rng.chance(0.1) {
                let later = after + Duration::from_micros(u64::from(self.rng.below(50_000)));
                reply.command(later, node, Command::CancelRequest { ticket });
            }
        }
    }

    /// The same request to all members, until a quorum has replied.
    fn ask_all<P: Host>(&mut self, node: NodeId, view: &View, reply: &mut Reply<P>) {
        let after = Duration::from_millis(u64::from(self.rng.below(2000)));
        let quorum = match self.rng.below(4) {
            0 => Quorum::First,
            1 => Quorum::All,
            2 => Quorum::Count(1 + self.rng.below(view.len() as u32) as usize),
            _ => Quorum::Majority,
        };
        let (of, mut tickets) = (self.number, Vec::new());
        for &member in view.members() {
            let (ticket, command) = self.request(member);
            reply.command(after, node, command);
            self.parts.insert(ticket, of);
            tickets.push(ticket);
        }
        self.tallies.insert(of, (Tally::new(view, quorum), tickets));
    }

    fn request(&mut self, to: Member) -> (u64, Command) {
        self.number += 1;
        let ticket = self.number;
        let bytes = [16, 100, 4000, 9000][self.rng.below(4) as usize];
        let within = [20, 200, 1000, 5000][self.rng.below(4) as usize];
        let within = Duration::from_millis(within);
        let payload = content(ticket, to, bytes);
        (ticket, Command::Request { to, payload, within, ticket })
    }

    /// Most are answered, at once or after a while; some never.
    fn answer<P: Host>(&mut self, node: NodeId, from: Member, id: u64, reply: &mut Reply<P>) {
        let after = [0, 1000, 30_000, 400_000][self.rng.below(4) as usize];
        let after = Duration::from_micros(u64::from(self.rng.below(after + 1)));
        self.number += 1;
        let bytes = [16, 100, 9000, 20_000][self.rng.below(4) as usize];
        let answer = match self.rng.below(20) {
            0 => return,
            1 | 2 => Answer::Refusal,
            // From all members another reply.
            _ => Answer::Reply(content(id ^ node.0 << 48, from, bytes)),
        };
        let answer = Command::Answer { to: from, id, answer, ticket: self.number };
        self.answers.insert(self.number, answer.clone());
        reply.command(after, node, answer);
    }

    fn note_failure<P: Host>(
        &mut self,
        node: NodeId,
        ticket: u64,
        failure: RequestFailure,
        reply: &mut Reply<P>,
    ) {
        let Some(of) = self.parts.get(&ticket) else { return };
        // Requests were made in the order of the members.
        let member = self.tallies.get(of).and_then(|(tally, tickets)| {
            let rank = tickets.iter().position(|part| *part == ticket)?;
            tally.clone().into_outcomes().get(rank).map(|(member, _)| *member)
        });
        if let Some(member) = member {
            self.note(node, ticket, member, Err(failure), reply);
        }
    }

    /// A part of a request to all has ended. Once that is over, the other parts are cancelled.
    fn note<P: Host>(
        &mut self,
        node: NodeId,
        ticket: u64,
        member: Member,
        outcome: Result<(), RequestFailure>,
        reply: &mut Reply<P>,
    ) {
        let Some(of) = self.parts.remove(&ticket) else { return };
        let Some((tally, tickets)) = self.tallies.get_mut(&of) else { return };
        tally.note(member, outcome);
        let place = match tally.verdict() {
            Verdict::Open => return,
            Verdict::Met => 0,
            Verdict::Missed => 1,
        };
        self.quorums[place] += 1;
        for ticket in tickets.drain(..).filter(|ticket| self.parts.remove(ticket).is_some()) {
            reply.command(Duration::ZERO, node, Command::CancelRequest { ticket });
        }
        self.tallies.remove(&of);
    }
}

/// A request or a reply that no other equals.
fn content(number: u64, to: Member, bytes: usize) -> Payload {
    let mut content = Vec::with_capacity(bytes.max(16));
    content.extend_from_slice(&number.to_be_bytes());
    content.extend_from_slice(&to.node.0.to_be_bytes());
    content.resize(bytes.max(16), to.node.0 as u8);
    Payload::from(content)
}
