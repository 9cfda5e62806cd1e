//! A hop that breaks and resumes, as a transcript.

use super::super::watch::HopProgress;
use super::*;

/// Member 1 of three with blocks 0 to 2 of member 0 on its hop to member 2.
fn loaded() -> Bench {
    let mut bench = Bench::with(config(3).with_ack_blocks(1).with_resync_after(ACK_AFTER), 1);
    for seq in 0..3 {
        bench.message(0, Message::Data(Frame { stable_lag: seq as u32, ..frame(0, seq, seq) }));
    }
    bench.outbox.sends.retain(|send| send.to == NodeId(2));
    let expected = [
        "n2: block 0.0 link 0 hops 1",
        "n2: block 0.1 link 1 hops 1",
        "n2: block 0.2 link 2 hops 1",
    ];
    assert_eq!(bench.sent(), expected);
    bench
}

fn resume(next: u64) -> Message {
    Message::Resume { view: ViewId(0), next }
}

#[test]
fn a_broken_hop_resumes_where_its_receiver_says() {
    let mut bench = loaded();
    bench.peer(2, PeerState::Down);
    bench.message(0, Message::Data(Frame { stable_lag: 3, ..frame(0, 3, 3) }));
    bench.outbox.sends.retain(|send| send.to == NodeId(2));
    assert_eq!(bench.sent(), [""; 0], "block 3 waits");
    bench.peer(2, UP);
    assert_eq!(bench.sent(), ["n2: resync 3"]);
    bench.message(2, resume(1));
    let expected = [
        "n2: block 0.1 link 1 hops 1",
        "n2: block 0.2 link 2 hops 1",
        "n2: block 0.3 link 3 hops 1",
    ];
    assert_eq!(bench.sent(), expected);
    bench.message(2, resume(1));
    assert_eq!(bench.sent(), [""; 0], "a second answer to one question");
    assert_eq!((bench.count("chain_hop_resumed"), bench.count("chain_resent")), (1, 2));
}

#[test]
fn what_became_stable_meanwhile_is_skipped() {
    let mut bench = loaded();
    bench.peer(2, PeerState::Down);
    bench.peer(2, UP);
    bench.sent();
    bench.message(0, Message::Stable { view: ViewId(0), incarnation: 100, stable: 2 });
    bench.message(2, resume(0));
    assert_eq!(bench.sent(), ["n2: skip 0", "n2: skip 1", "n2: block 0.2 link 2 hops 1"]);
}

#[test]
fn the_question_is_asked_again_until_it_is_answered() {
    let mut bench = loaded();
    bench.outbox.timers.clear();
    bench.peer(2, PeerState::Down);
    bench.peer(2, UP);
    assert_eq!(bench.sent(), ["n2: resync 3"]);
    for _ in 0..3 {
        assert_eq!(bench.fire(), Timer::Resync);
        assert_eq!(bench.sent(), ["n2: resync 3"]);
    }
    bench.message(2, resume(3));
    assert_eq!(bench.fire(), Timer::Resync);
    assert!(bench.sent().is_empty() && bench.outbox.timers.is_empty());
}

#[test]
fn a_hop_that_breaks_while_it_resumes_resumes_again() {
    let mut bench = loaded();
    bench.peer(2, PeerState::Down);
    bench.peer(2, UP);
    bench.peer(2, PeerState::Down);
    bench.sent();
    bench.message(2, resume(1));
    assert_eq!(bench.sent(), [""; 0], "the answer came too late for its stream");
    bench.peer(2, UP);
    assert_eq!(bench.sent(), ["n2: resync 3"]);
    bench.message(2, resume(2));
    assert_eq!(bench.sent(), ["n2: block 0.2 link 2 hops 1"]);
}

#[test]
fn a_hop_first_used_while_its_stream_was_down_resumes_too() {
    let mut bench = Bench::new(3, 1);
    bench.peer(2, PeerState::Down);
    bench.broadcast(10);
    assert_eq!(bench.sent(), ["n2: block 1.0 link 0 hops 1"], "which the driver discards");
    bench.peer(2, UP);
    assert_eq!(bench.sent(), ["n2: resync 1"]);
    bench.message(2, resume(0));
    assert_eq!(bench.sent(), ["n2: block 1.0 link 0 hops 1"]);
}

#[test]
fn own_blocks_wait_while_the_hop_is_down() {
    let mut bench = loaded();
    bench.peer(2, PeerState::Down);
    bench.broadcast(10);
    bench.peer(2, UP);
    assert_eq!(bench.sent(), ["n2: resync 3"]);
    bench.message(2, resume(3));
    assert_eq!(bench.sent(), ["n2: block 1.0 link 3 hops 1"]);
}

#[test]
fn a_hop_is_due_while_the_driver_takes_no_own_message_for_it() {
    let mut bench = Bench::new(3, 0);
    let progress = |bench: &Bench, peer: u32| {
        let backlog = bench.backlog.backlog_bytes(NodeId::from(peer));
        bench.chain.hop_progress(&bench.config, NodeId::from(peer), backlog)
    };
    bench.backlog.0.insert(NodeId(1), 500);
    assert_eq!(progress(&bench, 1), None, "nothing waits");
    bench.broadcast(10);
    assert_eq!(bench.sent(), [""; 0], "half of what a hop may have waits at the driver");
    let due = HopProgress { acknowledged: 0, unacknowledged: 0, is_open: true };
    assert_eq!((progress(&bench, 1), progress(&bench, 2)), (Some(due), None));
    bench.backlog.0.insert(NodeId(1), 499);
    assert_eq!(progress(&bench, 1), None, "one block more is taken");
}

#[test]
fn answers_out_of_range_are_counted_and_change_nothing() {
    let mut bench = loaded();
    bench.peer(2, PeerState::Down);
    bench.peer(2, UP);
    bench.sent();
    bench.message(2, resume(4));
    bench.message(2, resume(u64::MAX));
    assert_eq!(bench.count("chain_resume_out_of_range"), 2);
    bench.message(2, Message::LinkAck { view: ViewId(0), next: 4 });
    assert_eq!(bench.count("chain_ack_out_of_range"), 1);
    assert_eq!(bench.sent(), [""; 0]);
    bench.message(0, resume(1));
    assert_eq!(bench.sent(), [""; 0], "there is no hop to that peer");
    bench.message(2, resume(2));
    assert_eq!(bench.sent(), ["n2: block 0.2 link 2 hops 1"]);
}

#[test]
fn the_receiver_of_a_hop_says_what_it_expects_and_refuses_a_sender_that_went_back() {
    let mut bench = loaded();
    bench.message(0, Message::Resync { view: ViewId(0), next: 5 });
    assert_eq!(bench.sent(), ["n0: resume 3"]);
    bench.message(0, Message::Resync { view: ViewId(0), next: 2 });
    assert_eq!(bench.count("chain_resync_out_of_range"), 1);
    bench.message(0, Message::Skip { view: ViewId(0), link: 3 });
    assert_eq!(bench.sent(), ["n0: link-ack 4"]);
    bench.message(0, Message::Skip { view: ViewId(0), link: u64::MAX });
    assert_eq!((bench.count("chain_skipped"), bench.count("chain_link_gap")), (1, 1));
}
