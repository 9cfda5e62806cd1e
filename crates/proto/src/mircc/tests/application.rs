//! What the node's own application publishes, serves and asks.

use super::*;

fn object(uri: &str, content: &'static str) -> Object {
    Object { name: name(uri), content: content.into(), segment_bytes: 4, freshness: None }
}

#[test]
fn a_published_object_is_answered_segment_by_segment_as_long_as_it_is() {
    let mut bench = Bench::plain();
    bench.command(Command::Publish(object("/o", "abcdefghij")));
    for (segment, content) in [(2, "ij"), (0, "abcd"), (1, "efgh")] {
        bench.from(1, interest(&format!("/o/seg={segment}"), segment));
        let (to, packet) = bench.packets().remove(0);
        let Body::Data(data) = packet.body else { panic!("{packet:?}") };
        assert_eq!((to, data.content()), (1, Payload::from(content)));
        assert_eq!(data.final_segment(), Some(2));
        assert!(data.verify(&Trust::Digest).is_ok());
        assert_eq!(packet.header, Header::default());
    }
    // A consumer that does not know a segment's number gets the first segment.
    bench.from(1, asking("/o", 7, |interest| interest.can_be_prefix = true));
    assert_eq!(bench.sent(), ["1: data /o/seg=0"]);
    bench.command(Command::Unpublish(name("/o")));
    bench.from(1, interest("/o/seg=0", 9));
    assert_eq!((bench.sent(), bench.node.pending()), (vec!["1: nack 150 /o/seg=0".into()], 0));
}

#[test]
fn an_object_whose_segments_are_too_large_is_not_published() {
    let mut bench = Bench::plain();
    for segment_bytes in [0, SEGMENT_BYTES_MAX + 1] {
        bench.command(Command::Publish(Object { segment_bytes, ..object("/o", "abc") }));
        bench.from(1, interest("/o/seg=0", segment_bytes as u32));
        assert_eq!(bench.sent(), ["1: nack 150 /o/seg=0"]);
    }
    assert_eq!(bench.count("mircc_object_refused"), 2);
}

#[test]
fn who_serves_is_asked_and_may_answer_as_long_as_the_interest_lives() {
    let mut bench = Bench::plain();
    bench.command(Command::Serve(name("/s")));
    bench.from(1, asking("/s/x", 1, |interest| interest.lifetime_ms = Some(900)));
    assert_eq!(bench.told(), ["asked /s/x from n1"]);
    bench.pass(ms(800));
    let Body::Data(answer) = data("/s/x").body else { unreachable!() };
    bench.command(Command::Answer(answer.clone()));
    assert_eq!((bench.sent(), bench.node.pending()), (vec!["1: data /s/x".into()], 0));
    bench.command(Command::Answer(answer.clone()));
    assert_eq!((bench.packets().len(), bench.count("mircc_answer_unasked")), (0, 1));
    bench.from(1, asking("/s/x", 2, |interest| interest.lifetime_ms = Some(900)));
    bench.pass(ms(950));
    bench.command(Command::Answer(answer));
    assert_eq!((bench.packets().len(), bench.count("mircc_answer_unasked")), (0, 2));
    bench.command(Command::Unserve(name("/s")));
    bench.from(1, interest("/s/x", 3));
    assert_eq!(bench.sent(), ["1: nack 150 /s/x"]);
}

#[test]
fn who_serves_may_refuse() {
    let mut bench = Bench::plain();
    bench.command(Command::Serve(name("/s")));
    bench.from(1, interest("/s/x", 1));
    bench.from(3, interest("/s/x", 2));
    let refused = Box::new(Interest::new(name("/s/x"), 0));
    bench.command(Command::Refuse(refused.clone(), NackReason::NoRoute));
    assert_eq!(bench.sent(), ["1: nack 150 /s/x", "3: nack 150 /s/x"]);
    bench.command(Command::Refuse(refused, NackReason::NoRoute));
    assert_eq!((bench.count("mircc_answer_unasked"), bench.packets().len()), (1, 0));
}

#[test]
fn a_question_goes_to_the_neighbour_it_is_for_if_there_is_one() {
    let mut bench = Bench::plain();
    for (id, to) in [(1, 3), (2, 9)] {
        let to = Some(NodeId(to));
        bench.command(Command::Ask(Box::new(Question { to, ..question(id, "/a/1") })));
    }
    assert_eq!(bench.sent(), ["3: ask /a/1"]);
    assert_eq!(bench.told(), ["question 2: nack 150"]);
    assert_eq!(bench.count("mircc_question_without_face"), 1);
}

#[test]
fn a_question_is_answered_refused_or_its_time_is_over() {
    let mut bench = Bench::plain();
    for (id, uri) in [(1, "/a/1"), (2, "/a/2"), (3, "/a/3"), (4, "/b")] {
        bench.command(Command::Ask(Box::new(question(id, uri))));
    }
    assert_eq!(bench.told(), ["question 4: nack 150"]);
    let asked = bench.packets();
    bench.pass(ms(30));
    bench.from(2, data("/a/1"));
    bench.from(2, nack("/a/2", nonce(&asked[1].1), NackReason::Congestion));
    let Some(Event::Answered { round_trip, path, .. }) = bench.outbox.events.first() else {
        panic!("it is answered")
    };
    assert_eq!((*round_trip, path.len()), (ms(30), 1));
    assert_eq!(bench.told(), ["question 1: /a/1", "question 2: nack 50"]);
    bench.pass(ms(1_020));
    assert_eq!(bench.told(), ["question 3: nothing"]);
    bench.from(2, data("/a/3"));
    assert!(bench.told().is_empty());
}

#[test]
fn the_answer_to_an_earlier_question_of_a_number_is_none_to_the_later_one() {
    let mut bench = Bench::plain();
    bench.command(Command::Ask(Box::new(question(1, "/a/1"))));
    bench.pass(ms(500));
    bench.command(Command::Ask(Box::new(question(1, "/a/2"))));
    bench.from(2, data("/a/1"));
    assert!(bench.told().is_empty());
    bench.command(Command::Ask(Box::new(question(1, "/a/3"))));
    bench.pass(ms(520));
    bench.from(2, data("/a/2"));
    assert!(bench.told().is_empty());
    bench.from(2, data("/a/3"));
    assert_eq!(bench.told(), ["question 1: /a/3"]);
}

#[test]
fn a_question_whose_time_is_over_is_told_even_if_others_still_wait() {
    let mut bench = Bench::plain();
    for (id, uri) in [(1, "/a/1"), (2, "/a/2")] {
        bench.command(Command::Ask(Box::new(question(id, uri))));
        bench.from(1, interest(uri, id as u32));
    }
    bench.pass(ms(2_000));
    let asked = bench.packets();
    bench.from(2, data("/a/1"));
    bench.from(2, nack("/a/2", nonce(&asked[1].1), NackReason::NoRoute));
    assert_eq!(bench.told(), ["question 1: nothing", "question 2: nothing"]);
    assert_eq!(bench.packets().len(), 2);
}

#[test]
fn a_question_that_may_not_leave_is_over_at_once_and_a_trace_answers_itself() {
    let mut bench = Bench::plain();
    let mut last = question(1, "/a/1");
    last.interest.hop_limit = Some(0);
    bench.command(Command::Ask(Box::new(last)));
    assert_eq!(bench.told(), ["question 1: nothing"]);
    let trace = name("/a").keyword("trace").unwrap().with_segment(3);
    let mut ask = Question::new(2, trace.clone());
    ask.interest.hop_limit = Some(0);
    bench.command(Command::Ask(Box::new(ask)));
    assert_eq!(bench.told(), [format!("question 2: {trace}")]);
    assert_eq!((bench.node.pending(), bench.packets().len()), (0, 0));
}

#[test]
fn too_many_questions_are_refused() {
    let config = Config { pending_max: 100, ..Config::default() };
    let mut bench = Bench::new(config, &[(2, FaceConfig::default(), &["/a"])]);
    for id in 0..5_000 {
        bench.command(Command::Ask(Box::new(question(id, &format!("/a/{id}")))));
    }
    assert_eq!((bench.node.pending(), bench.told().len()), (100, 4_900));
}

#[test]
fn what_is_published_here_is_fetched_without_a_packet() {
    let mut bench = Bench::plain();
    let content = Payload::Zeros(1_000);
    bench.command(Command::Publish(Object { content, ..object("/o", "") }));
    bench.command(Command::Fetch(Fetch::new(1, name("/o"))));
    bench.pass(ms(1));
    let told = bench.told();
    assert_eq!(told.len(), 251);
    assert_eq!((told[250].as_str(), bench.packets().len()), ("flow 1: all 250", 0));
}
