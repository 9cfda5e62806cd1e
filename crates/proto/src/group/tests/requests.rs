//! Requests to one member: what the caller and the callee do, without a network.

use super::*;
use crate::group::{Answer, RequestFailure, SendFailure, counters};

const SECOND: Duration = Duration::from_secs(1);

/// The other end of the pair: member 1 of the view, block by block.
struct Peer {
    me: Member,
    to: Member,
    number: u64,
}

impl Peer {
    fn new(group: &Group, contacts: &[Contact]) -> Peer {
        Peer { me: contacts[1].member, to: group.member(), number: 0 }
    }

    /// What a message of the peer leads to.
    fn sends(
        &mut self,
        group: &mut Group,
        cx: &mut Context<'_, Group>,
        head: CorrelationId,
        payload: Payload,
    ) -> Vec<Event> {
        let block = Direct {
            view: group.view().id(),
            sender: self.me.incarnation,
            receiver: self.to.incarnation,
            number: self.number,
            index: 0,
            count: 1,
            checksum: 0,
            payload,
        };
        let block = Direct { checksum: block.computed_checksum(), ..block };
        self.number += 1;
        cx.outbox.events.clear();
        let message = Message::Correlated(Correlated::new(head, block));
        group.handle_message(cx, self.me.node, message);
        std::mem::take(&mut cx.outbox.events)
    }
}

/// What a command leads to: events, and the lines of messages to other members.
fn commanded(
    group: &mut Group,
    cx: &mut Context<'_, Group>,
    command: Command,
) -> (Vec<Event>, Vec<String>) {
    cx.outbox.events.clear();
    cx.outbox.sends.clear();
    group.handle_command(cx, command);
    let sends = cx.outbox.sends.drain(..).map(|send| format!("{} {}", send.to, send.message));
    let lines = sends.filter(|line| line.contains("number")).collect();
    (std::mem::take(&mut cx.outbox.events), lines)
}

fn head(correlation: Correlation, id: u64) -> CorrelationId {
    CorrelationId { correlation, id }
}

fn request(to: Member, bytes: u32, ticket: u64) -> Command {
    Command::Request { to, payload: Payload::Zeros(bytes), within: SECOND, ticket }
}

fn failed(ticket: u64, failure: RequestFailure) -> Event {
    Event::RequestFailed { ticket, failure }
}

#[test]
fn a_damaged_head_is_refused() {
    let whole = encode_to_bytes(&Message::Correlated(correlated(Correlation::Reply)));
    for place in 1..14 {
        let mut bytes = whole.to_vec();
        bytes[place] ^= 0x40;
        let expected = match place {
            1 => DecodeError::OutOfRange { field: "correlation", value: 0x41 },
            _ => DecodeError::Checksum,
        };
        assert_eq!(decode_exact::<Message>(Bytes::from(bytes)), Err(expected), "byte {place}");
    }
    for length in 0..whole.len() {
        assert!(decode_exact::<Message>(whole.slice(..length)).is_err(), "cut to {length}");
    }
}

#[test]
fn a_request_ends_once_with_the_reply_of_its_callee() {
    with_member(|group, cx, contacts| {
        let mut peer = Peer::new(group, contacts);
        let (events, lines) = commanded(group, cx, request(peer.me, 5, 7));
        assert_eq!((events, lines), (vec![], vec!["n1 request 7 v3 number 0 (1/1) 5 B".into()]));
        let again = commanded(group, cx, request(peer.me, 5, 7));
        assert_eq!(again, (vec![failed(7, RequestFailure::TicketInUse)], vec![]));
        let (from, payload) = (peer.me, Payload::Zeros(9));
        let reply = head(Correlation::Reply, 7);
        let events = peer.sends(group, cx, reply, payload.clone());
        assert_eq!(events, [Event::Replied { ticket: 7, from, end: 1, payload: payload.clone() }]);
        assert_eq!(group.requests_unanswered(NodeId(1)), 0);
        // Neither a second answer nor one to what was asked of another member.
        assert_eq!(peer.sends(group, cx, reply, payload.clone()), []);
        commanded(group, cx, request(contacts[2].member, 5, 8));
        assert_eq!(peer.sends(group, cx, head(Correlation::Refusal, 8), payload), []);
        assert_eq!(cx.outbox.counters.count(counters::ANSWER_UNASKED.name()), 2);
        assert_eq!(group.requests_unanswered(NodeId(2)), 1);
    });
}

#[test]
fn an_answer_that_nobody_waits_for_takes_no_credit_and_frees_the_bound() {
    with_member(|group, cx, contacts| {
        let mut peer = Peer::new(group, contacts);
        commanded(group, cx, request(peer.me, 5, 1));
        commanded(group, cx, request(peer.me, 5, 2));
        commanded(group, cx, Command::CancelRequest { ticket: 2 });
        group.links.enter(cx.now, contacts.len());
        cx.now = Instant::ZERO + SECOND;
        cx.outbox.events.clear();
        group.handle_timer(cx, Timer::Group);
        assert_eq!(cx.outbox.events, [failed(1, RequestFailure::TimedOut)]);
        assert_eq!(group.requests_unanswered(NodeId(1)), 2);
        for (correlation, ticket) in [(Correlation::Reply, 1), (Correlation::Refusal, 2)] {
            let events = peer.sends(group, cx, head(correlation, ticket), Payload::Zeros(50_000));
            assert_eq!(events, [Event::RequestSettled { ticket }]);
        }
        assert_eq!(group.requests_unanswered(NodeId(1)), 0);
        assert_eq!(group.post.memory_bytes(), 0, "no credit is taken");
        commanded(group, cx, request(peer.me, 5, 3));
        let refused = peer.sends(group, cx, head(Correlation::Refusal, 3), Payload::Zeros(0));
        assert_eq!(refused, [failed(3, RequestFailure::Refused)]);
    });
}

#[test]
fn a_callee_holds_as_many_requests_as_allowed_and_closes_the_stream_of_a_caller_beyond() {
    with_member(|group, cx, contacts| {
        let mut peer = Peer::new(group, contacts);
        let requests_max = cx.shared.requests_max() as u64;
        for id in 0..requests_max {
            let events = peer.sends(group, cx, head(Correlation::Request, id), Payload::Zeros(1));
            assert!(matches!(events[..], [Event::Request { id: of, .. }] if of == id), "{id}");
            let consumed = Command::ConsumedDirect { from: peer.me, end: peer.number };
            commanded(group, cx, consumed);
        }
        assert_eq!(group.requests_held(NodeId(1)), requests_max as usize);
        let reply = |id| Command::Answer {
            to: contacts[1].member,
            id,
            answer: Answer::Reply(Payload::Zeros(3)),
            ticket: 70,
        };
        let (events, lines) = commanded(group, cx, reply(9));
        assert_eq!((events, lines), (vec![], vec!["n1 reply 9 v3 number 0 (1/1) 3 B".into()]));
        let unasked = Event::Undelivered { ticket: 70, failure: SendFailure::Unasked };
        assert_eq!(commanded(group, cx, reply(9)), (vec![unasked], vec![]));
        assert_eq!(
            peer.sends(group, cx, head(Correlation::Request, 9), Payload::Zeros(1)).len(),
            1
        );
        let beyond = head(Correlation::Request, requests_max);
        assert_eq!(peer.sends(group, cx, beyond, Payload::Zeros(1)), []);
        assert_eq!(cx.outbox.counters.count(counters::REQUEST_BEYOND_BOUNDS.name()), 1);
    });
}

#[test]
fn a_caller_sends_no_more_than_the_callee_may_leave_unanswered() {
    let full = RequestFailure::NotSent(SendFailure::Full);
    with_member(|group, cx, contacts| {
        let to = contacts[1].member;
        for ticket in 0..cx.shared.requests_max() as u64 {
            assert_eq!(commanded(group, cx, request(to, 0, ticket)).0, []);
        }
        let refused = commanded(group, cx, request(to, 0, 1000));
        assert_eq!(refused, (vec![failed(1000, full)], vec![]));
    });
    with_member(|group, cx, contacts| {
        let (one, other) = (contacts[1].member, contacts[2].member);
        let bytes_max = cx.shared.requests_bytes_max() as u32;
        // One request may be longer than the bound, while it is alone.
        assert_eq!(commanded(group, cx, request(one, bytes_max + 1, 1)).0, []);
        assert_eq!(commanded(group, cx, request(one, 1, 2)).0, [failed(2, full)]);
        assert_eq!(commanded(group, cx, request(other, bytes_max - 1, 3)).0, []);
        assert_eq!(commanded(group, cx, request(other, 1, 4)).0, []);
        assert_eq!(commanded(group, cx, request(other, 1, 5)).0, [failed(5, full)]);
        // Messages of the application have a window of their own.
        let message = Command::SendTo { to: one, payload: Payload::Zeros(1), ticket: 6 };
        assert_eq!(commanded(group, cx, message).0, []);
    });
}

#[test]
fn a_view_without_a_member_ends_the_requests_to_it_and_those_from_it() {
    with_member(|group, cx, contacts| {
        let mut peer = Peer::new(group, contacts);
        let other = contacts[2].member;
        for (to, ticket) in [(peer.me, 1), (other, 2), (peer.me, 3)] {
            commanded(group, cx, request(to, 5, ticket));
        }
        commanded(group, cx, Command::CancelRequest { ticket: 3 });
        peer.sends(group, cx, head(Correlation::Request, 4), Payload::Zeros(1));
        cx.outbox.events.clear();
        let made_at = ballot(1, 1);
        let next = vec![contacts[0].clone(), contacts[2].clone()];
        accept(group, made_at, next.clone());
        let install = Message::Install { after: ViewId(3), made_at, members: next };
        group.handle_message(cx, NodeId(2), install);
        let ended = cx.outbox.events.iter().filter(|event| !matches!(event, Event::View(_)));
        let expected = [failed(1, RequestFailure::Departed), Event::RequestSettled { ticket: 3 }];
        assert_eq!(ended.cloned().collect::<Vec<_>>(), expected);
        assert_eq!(group.requests_held(NodeId(1)), 0);
        let (to, answer) = (peer.me, Answer::Reply(Payload::Zeros(1)));
        let late = commanded(group, cx, Command::Answer { to, id: 4, answer, ticket: 5 });
        let gone = Event::Undelivered { ticket: 5, failure: SendFailure::NotInView };
        assert_eq!(late, (vec![gone], vec![]));
        let (events, _) = commanded(group, cx, request(peer.me, 5, 6));
        assert_eq!(events, [failed(6, RequestFailure::NotSent(SendFailure::NotInView))]);
    });
}

#[test]
fn a_member_may_ask_itself() {
    with_member(|group, cx, _| {
        let (me, payload) = (group.member(), Payload::Zeros(5));
        let (events, lines) = commanded(group, cx, request(me, 5, 1));
        let view = ViewId(3);
        let asked = Event::Request { view, from: me, id: 1, end: 0, payload: payload.clone() };
        assert_eq!((events, lines), (vec![asked], vec![]));
        let answer = Answer::Reply(payload.clone());
        let (events, lines) =
            commanded(group, cx, Command::Answer { to: me, id: 1, answer, ticket: 2 });
        let replied = Event::Replied { ticket: 1, from: me, end: 0, payload };
        assert_eq!((events, lines), (vec![Event::Received { ticket: 2 }, replied], vec![]));
        assert_eq!((group.requests_held(me.node), group.requests_unanswered(me.node)), (0, 0));
    });
}
