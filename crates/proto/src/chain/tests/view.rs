//! Views: what a member does without one, and when another one comes.

use super::*;
use crate::core::Member;

fn view(id: u64, nodes: &[u32]) -> Arc<View> {
    let members =
        nodes.iter().map(|&n| Member { node: NodeId::from(n), incarnation: u64::from(n) + 1 });
    Arc::new(View::new(ViewId(id), members))
}

#[test]
fn a_member_without_a_view_sends_to_each_and_with_one_to_its_successor() {
    let config = config(4).build().unwrap();
    let mut bench = Bench::with(config.clone(), 1);
    bench.chain = Chain::new(&config);
    bench.call(|chain, cx| chain.handle_start(cx));
    bench.broadcast(5);
    let to: Vec<u64> = bench.outbox.sends.iter().map(|send| send.to.0).collect();
    assert_eq!(to, [2, 3, 0]);
    bench.outbox.sends.clear();
    let roster = config.roster().clone();
    bench.call(|chain, cx| chain.handle_view(cx, &roster));
    bench.broadcast(5);
    let to: Vec<u64> = bench.outbox.sends.iter().map(|send| send.to.0).collect();
    assert_eq!(to, [2]);
}

#[test]
fn what_had_not_left_wholly_is_sent_in_the_next_view_and_the_rest_is_not_sent_twice() {
    let mut bench = Bench::new(3, 0);
    // The window holds four blocks: the third message is half sent, the fourth waits.
    [10, 20, 20, 7].into_iter().for_each(|bytes| bench.broadcast(bytes));
    assert_eq!(bench.delivered(), [(0, 0, 10), (0, 1, 20)]);
    bench.outbox.sends.clear();
    let next = view(1, &[0, 1]);
    bench.call(|chain, cx| chain.handle_view(cx, &next));
    let frames = bench.outbox.sends.iter().filter_map(|send| match &send.message {
        Message::Data(frame) => Some((send.to.0, frame.view.0, frame.seq, frame.payload.len())),
        _ => None,
    });
    assert_eq!(frames.collect::<Vec<_>>(), [(1, 1, 0, 10), (1, 1, 1, 10), (1, 1, 2, 7)]);
    assert_eq!(bench.delivered(), [(0, 0, 20), (0, 1, 7)]);
}

#[test]
fn an_older_view_changes_nothing_and_its_frames_are_counted() {
    let mut bench = Bench::new(3, 0);
    let (newer, older) = (view(5, &[0, 1, 2]), view(4, &[0, 1]));
    bench.call(|chain, cx| chain.handle_view(cx, &newer));
    bench.call(|chain, cx| chain.handle_view(cx, &older));
    assert_eq!(bench.chain.view().id(), ViewId(5));
    assert_eq!(bench.outbox.counters.count("chain_stale_view"), 1);
    bench.message(1, Message::Stable { view: ViewId(0), incarnation: 101, stable: 0 });
    assert_eq!(bench.outbox.counters.count("chain_foreign_view"), 1);
}

/// Member `node` of a view 1 of three, which all have installed.
fn in_view(node: u32) -> Bench {
    let mut bench = Bench::new(3, node);
    let first = known_view(1);
    bench.call(|chain, cx| chain.handle_view(cx, &first));
    bench.outbox.sends.clear();
    bench
}

#[test]
fn the_view_says_in_which_incarnation_an_origin_is_heard() {
    let mut bench = in_view(1);
    let of_view = |frame: Frame| signed(Frame { view: ViewId(1), hops_left: 1, ..frame });
    // Another member names an origin that has sent nothing yet.
    let foreign = of_view(Frame { incarnation: 9, ..frame(2, 0, 0) });
    bench.message(0, Message::Data(foreign.clone()));
    bench.call(|chain, cx| assert!(!chain.take_flushed(cx, foreign)));
    assert_eq!(bench.count("chain_foreign_incarnation"), 2);
    bench.message(0, Message::Data(of_view(frame(2, 0, 1))));
    assert_eq!(bench.delivered(), [(2, 0, 10)]);
    let next = of_view(frame(2, 1, 0));
    bench.call(|chain, cx| assert!(chain.take_flushed(cx, next)));
    assert_eq!(bench.delivered(), [(2, 1, 10)]);
}

#[test]
fn a_flushed_block_a_window_ahead_is_refused_and_costs_no_memory() {
    let mut bench = in_view(1);
    for seq in [4, 1 << 40, u64::MAX >> 2] {
        let far = Frame { view: ViewId(1), stable_lag: u32::MAX, ..frame(2, seq, 0) };
        bench.call(|chain, cx| assert!(!chain.take_flushed(cx, signed(far))));
        assert_eq!(bench.chain.bytes_held(), 0);
    }
    let last = Frame { view: ViewId(1), stable_lag: u32::MAX, ..frame(2, 3, 0) };
    bench.call(|chain, cx| assert!(chain.take_flushed(cx, signed(last))));
    assert_eq!(bench.chain.bytes_held(), 10);
}

/// A view of three whose incarnations are those of the bench: 7 is the member under test.
fn known_view(id: u64) -> Arc<View> {
    let incarnations = [INCARNATION, 101, 102];
    let members = (0u32..).zip(incarnations);
    let members = members.map(|(n, incarnation)| Member { node: NodeId::from(n), incarnation });
    Arc::new(View::new(ViewId(id), members))
}

fn unconsumed(bench: &mut Bench) -> Vec<String> {
    bench.sent().into_iter().filter(|line| line.contains("unconsumed")).collect()
}

#[test]
fn what_a_member_did_not_consume_it_tells_the_origin_in_the_next_view() {
    let mut bench = in_view(0);
    for seq in 0..3 {
        let frame = Frame { view: ViewId(1), ..frame(1, seq, seq) };
        bench.message(2, Message::Data(signed(frame)));
    }
    bench.consume(1, 1);
    bench.outbox.sends.clear();
    let next = known_view(2);
    bench.call(|chain, cx| chain.handle_view(cx, &next));
    assert_eq!(unconsumed(&mut bench), ["n1: unconsumed 2 20"]);
    let probe = Message::Probe { view: ViewId(2), incarnation: 101 };
    bench.message(1, probe);
    assert_eq!(unconsumed(&mut bench), ["n1: unconsumed 2 20"], "asked, it says so again");
    // A quarter of the window is worth a message.
    bench.call(|chain, cx| chain.consumed_in(cx, ViewId(1), NodeId(1), 2));
    assert_eq!(unconsumed(&mut bench), ["n1: unconsumed 1 10"]);
    // A report for a later message covers this one too.
    bench.call(|chain, cx| chain.consumed_in(cx, ViewId(2), NodeId(1), 0));
    assert_eq!(unconsumed(&mut bench), ["n1: unconsumed 0 0"]);
    bench.call(|chain, cx| chain.consumed_in(cx, ViewId(1), NodeId(1), 3));
    assert_eq!(unconsumed(&mut bench), [] as [&str; 0]);
}

#[test]
fn a_member_to_which_nothing_of_an_origin_came_owes_it_nothing() {
    let mut bench = in_view(0);
    let next = known_view(2);
    bench.call(|chain, cx| chain.handle_view(cx, &next));
    assert_eq!(unconsumed(&mut bench), [] as [&str; 0]);
    let probe = |incarnation| Message::Probe { view: ViewId(2), incarnation };
    bench.message(1, probe(100));
    assert_eq!(unconsumed(&mut bench), [] as [&str; 0], "asked by an earlier start");
    bench.message(1, probe(101));
    assert_eq!(unconsumed(&mut bench), ["n1: unconsumed 0 0"]);
}

#[test]
fn an_origin_sends_nothing_before_it_knows_what_it_is_owed_and_no_more_than_the_rest_of_a_window() {
    let mut bench = in_view(0);
    // All but the last block are consumed by one, none by the other; this one has read all.
    (0..4).for_each(|_| bench.broadcast(10));
    let ack = |received, consumed| Message::Ack {
        view: ViewId(1),
        incarnation: INCARNATION,
        received,
        consumed,
    };
    bench.message(1, ack(4, 4));
    bench.message(2, ack(4, 0));
    bench.consume(0, 4);
    let next = known_view(2);
    bench.call(|chain, cx| chain.handle_view(cx, &next));
    (0..4).for_each(|_| bench.broadcast(10));
    let blocks = |bench: &mut Bench| {
        let sent = bench.sent();
        sent.iter().filter(|line| line.contains("block")).cloned().collect::<Vec<_>>()
    };
    bench.outbox.sends.retain(|send| send.message.view() == ViewId(2));
    assert_eq!(blocks(&mut bench), [] as [&str; 0]);
    let (_, members) = bench.chain.held_back_by().expect("the window is closed");
    assert_eq!(members.collect::<Vec<_>>(), [NodeId(2)]);
    while bench.fire() != Timer::Probe {}
    assert!(bench.sent().contains(&"n2: probe".to_string()), "should the news have got lost");
    let unconsumed = |incarnation, blocks| Message::Unconsumed {
        view: ViewId(2),
        incarnation,
        blocks,
        bytes: 10 * blocks,
    };
    bench.message(2, unconsumed(INCARNATION + 1, 0));
    assert_eq!(blocks(&mut bench), [] as [&str; 0], "meant for an earlier start");
    bench.message(2, unconsumed(INCARNATION, 2));
    assert_eq!(blocks(&mut bench).len(), 2);
    bench.message(2, unconsumed(INCARNATION, 4));
    bench.message(2, unconsumed(INCARNATION, 1));
    assert_eq!(blocks(&mut bench).len(), 1, "it only falls, whatever the order");
}
