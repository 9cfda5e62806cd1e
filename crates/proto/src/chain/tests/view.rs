//! Views: what a member does without one, and when another one comes.

use super::*;
use crate::core::Member;

fn view(id: u64, nodes: &[u32]) -> Arc<View> {
    let members = nodes.iter().map(|&n| Member { node: NodeId(n), incarnation: u64::from(n) + 1 });
    Arc::new(View::new(ViewId(id), members))
}

#[test]
fn a_member_without_a_view_sends_to_each_and_with_one_to_its_successor() {
    let config = config(4).build().unwrap();
    let mut bench = Bench::with(config.clone(), 1);
    bench.chain = Chain::new(&config);
    bench.call(|chain, cx| chain.handle_start(cx));
    bench.broadcast(5);
    let to: Vec<u32> = bench.outbox.sends.iter().map(|send| send.to.0).collect();
    assert_eq!(to, [2, 3, 0]);
    bench.outbox.sends.clear();
    let roster = config.roster().clone();
    bench.call(|chain, cx| chain.handle_view(cx, &roster));
    bench.broadcast(5);
    let to: Vec<u32> = bench.outbox.sends.iter().map(|send| send.to.0).collect();
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
    assert_eq!(bench.delivered(), [(0, 0, 20), (0, 2, 7)]);
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
