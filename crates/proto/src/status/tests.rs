use bytes::Bytes;

use super::*;
use crate::core::laws::{self, hex};
use crate::core::{
    Backlog, Counters, DecodeError, Instant, Outbox, Rng, Wire, decode_exact, encode_to_bytes,
};

const ME: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

struct Idle;

impl Backlog for Idle {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

/// Calls one handler; what it sent and delivered, and what it counted.
fn call(
    status: &mut Status,
    handler: impl FnOnce(&mut Status, &mut Context<'_, Status>),
) -> (Vec<(NodeId, Message)>, Vec<Event>, Counters) {
    let mut outbox = Outbox::default();
    let mut cx = Context {
        now: Instant::ZERO,
        node: ME,
        incarnation: 1,
        host: None,
        shared: &(),
        rng: &mut Rng::new(1, 1),
        outbox: &mut outbox,
        backlog: &Idle,
        datagram_bytes_max: 1200,
    };
    handler(status, &mut cx);
    let sends = outbox.sends.into_iter();
    (sends.map(|send| (send.to, send.message)).collect(), outbox.events, outbox.counters)
}

fn receive(status: &mut Status, message: Message) -> (Vec<Event>, Counters) {
    let (sends, events, counters) =
        call(status, |status, cx| status.handle_message(cx, OTHER, message));
    assert_eq!(sends, []);
    (events, counters)
}

fn report() -> Report {
    let count = |name, count| Count { name: Bytes::from_static(name), count };
    let service = ServiceReport {
        kind: Bytes::from_static(b"group"),
        name: Bytes::from_static(b"a"),
        standing: Standing::Member,
        view: 3,
        members: vec![ME, OTHER],
        counts: vec![count(b"x", 5)],
    };
    let address = Bytes::from_static(b"h:1");
    Report { address, omitted: 0, counts: vec![count(b"y", 6)], services: vec![service] }
}

#[test]
fn a_question_goes_to_the_application_and_its_answer_to_who_asked() {
    let mut status = Status::new();
    let (events, _) = receive(&mut status, Message::Ask { number: 7 });
    assert_eq!(events, [Event::Asked { from: OTHER, number: 7 }]);
    let answer = Command::Answer { to: OTHER, number: 7, report: report() };
    let (sends, ..) = call(&mut status, |status, cx| status.handle_command(cx, answer.clone()));
    assert_eq!(sends, [(OTHER, Message::Answer { number: 7, report: report() })]);
    // Once.
    let (sends, ..) = call(&mut status, |status, cx| status.handle_command(cx, answer));
    assert_eq!(sends, []);
}

#[test]
fn questions_that_wait_are_bounded_and_end_with_their_asker() {
    let mut status = Status::new();
    for number in 0..ASKS_MAX as u64 {
        assert_eq!(receive(&mut status, Message::Ask { number }).0.len(), 1);
        // The same again.
        let (events, counters) = receive(&mut status, Message::Ask { number });
        assert_eq!((events.len(), counters.count("status_ask_refused")), (0, 1));
    }
    let (events, counters) = receive(&mut status, Message::Ask { number: 99 });
    assert_eq!((events.len(), counters.count("status_ask_refused")), (0, 1));
    call(&mut status, |status, cx| status.handle_peer(cx, OTHER, PeerState::Down));
    assert_eq!(receive(&mut status, Message::Ask { number: 99 }).0.len(), 1);
}

#[test]
fn a_host_that_asks_asks_whoever_comes_up_and_takes_answers_to_its_question_only() {
    let mut status = Status::new();
    let up = PeerState::Up { incarnation: 4 };
    let (sends, ..) = call(&mut status, |status, cx| status.handle_peer(cx, OTHER, up));
    assert_eq!(sends, [], "it asks nothing");
    call(&mut status, |status, cx| status.handle_command(cx, Command::Ask { number: 8 }));
    let (sends, events, _) = call(&mut status, |status, cx| status.handle_peer(cx, OTHER, up));
    assert_eq!(sends, [(OTHER, Message::Ask { number: 8 })]);
    assert_eq!(events, [Event::Found { host: OTHER }]);
    let (events, counters) = receive(&mut status, Message::Answer { number: 7, report: report() });
    assert_eq!((events.len(), counters.count("status_answer_unasked")), (0, 1));
    // An answer may be lost with its stream.
    let fire = |status: &mut Status| call(status, |status, cx| status.handle_timer(cx, ())).0;
    for _ in 0..2 {
        assert_eq!(fire(&mut status), [(OTHER, Message::Ask { number: 8 })]);
    }
    let (events, _) = receive(&mut status, Message::Answer { number: 8, report: report() });
    assert_eq!(events, [Event::Answered { from: OTHER, report: report() }]);
    assert_eq!(fire(&mut status), []);
    let (events, counters) = receive(&mut status, Message::Answer { number: 8, report: report() });
    assert_eq!((events.len(), counters.count("status_answer_unasked")), (0, 1), "once");
}

#[test]
fn a_report_has_as_many_services_as_it_has_room_for() {
    let mut whole = Report::default();
    let member = ServiceReport { members: vec![ME; MEMBERS_MAX], ..ServiceReport::default() };
    for _ in 0..100 {
        whole.add(member.clone());
    }
    assert!(whole.omitted > 0 && whole.services.len() + whole.omitted as usize == 100);
    assert!(whole.bytes() <= REPORT_BYTES_MAX);
    let message = Message::Answer { number: 1, report: whole.clone() };
    assert_eq!(decode_exact::<Message>(encode_to_bytes(&message)).unwrap(), message);
    whole.services.push(member);
    let long = encode_to_bytes(&Message::Answer { number: 1, report: whole });
    let refused = decode_exact::<Message>(long).unwrap_err();
    assert!(matches!(refused, DecodeError::OutOfRange { field: "report", .. }), "{refused}");
}

#[test]
fn the_encoding_is_what_it_always_was() {
    let ask = Message::Ask { number: 0x55 };
    assert_eq!(hex(&ask), "000000000000000055");
    let answer = Message::Answer { number: 0x55, report: report() };
    let golden = "01 0000000000000055 03 683a31 00000000 0001 01 79 0000000000000006 0001 \
                  05 67726f7570 01 61 02 0000000000000003 0002 0000000000000001 \
                  0000000000000002 0001 01 78 0000000000000005";
    assert_eq!(hex(&answer), golden.replace(' ', ""));
    assert_eq!(encode_to_bytes(&answer).len(), answer.wire_len());
    assert_eq!(answer.to_string(), "answer 85: 1 services");
}

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../docs/protocols/status.md");
    let section = laws::section(page, "## Messages");
    assert_eq!(laws::documented(&Message::rows(), section), [0, 1]);
}

laws::laws!(Message, laws::any_of::<Message>(), 0u8..3);
