//! A member: what it sends, delivers, refuses and counts.

use super::*;

#[test]
fn a_block_is_delivered_and_forwarded_and_the_last_before_the_origin_stops() {
    let mut bench = Bench::new(4, 2);
    bench.message(1, Message::Data(frame(0, 0, 0)));
    assert_eq!(bench.delivered(), [(0, 0, 10)]);
    assert_eq!(bench.sent(), ["n3: block 0.0 link 0 hops 1"]);
    let mut last = Bench::new(4, 3);
    last.message(2, Message::Data(Frame { hops_left: 0, ..frame(0, 0, 0) }));
    assert_eq!(last.delivered(), [(0, 0, 10)]);
    assert_eq!(last.sent(), [""; 0]);
}

#[test]
fn origin_does_not_deliver_its_own_message_twice() {
    let mut bench = Bench::new(4, 0);
    bench.broadcast(10);
    assert_eq!(bench.delivered(), [(0, 0, 10)]);
    assert_eq!(bench.sent(), ["n1: block 0.0 link 0 hops 2"]);
    let own = signed(Frame { incarnation: INCARNATION, ..frame(0, 0, 0) });
    bench.message(3, Message::Data(own));
    assert_eq!(bench.delivered(), []);
    assert_eq!(bench.sent(), [""; 0]);
    assert_eq!(bench.count("chain_own_frame_returned"), 1);
}

#[test]
fn a_frame_that_does_not_belong_here_is_counted_and_neither_delivered_nor_forwarded() {
    let good = frame(0, 1, 1);
    let foreign_view = ViewId(1);
    let cases = [
        ("chain_foreign_view", Frame { view: foreign_view, ..good.clone() }),
        ("chain_foreign_origin", Frame { origin: 4, ..good.clone() }),
        ("chain_foreign_incarnation", Frame { incarnation: 9, ..good.clone() }),
        ("chain_hops_out_of_range", Frame { hops_left: 4, ..good.clone() }),
        ("chain_block_oversized", Frame { payload: Payload::Zeros(11), ..good.clone() }),
        ("chain_count_out_of_range", Frame { count: 6, ..good.clone() }),
        ("chain_link_gap", Frame { link: 2, ..good.clone() }),
        ("chain_link_duplicate", Frame { link: 0, ..good.clone() }),
        ("chain_duplicate", Frame { seq: 0, ..good.clone() }),
        ("chain_misfit_block", Frame { index: 1, count: 2, ..good.clone() }),
    ];
    for (counter, bad) in cases {
        let mut bench = Bench::new(4, 2);
        bench.message(1, Message::Data(frame(0, 0, 0)));
        bench.sent();
        bench.delivered();
        bench.message(1, Message::Data(signed(bad)));
        assert_eq!(bench.count(counter), 1, "{counter}: {:?}", bench.outbox.counters);
        assert_eq!(bench.delivered(), [], "{counter}");
        let forwarded = bench.sent().iter().filter(|line| line.contains("block")).count();
        // A misfit is only known once the blocks before it have come, often after it was forwarded.
        assert_eq!(forwarded, usize::from(counter == "chain_misfit_block"), "{counter}");
        assert!(bench.outbox.links.disconnects.is_empty(), "{counter}");
    }
}

#[test]
fn a_block_without_hops_left_is_delivered_and_not_forwarded() {
    let mut bench = Bench::new(4, 1);
    bench.message(0, Message::Data(Frame { hops_left: 0, ..frame(0, 0, 0) }));
    assert_eq!(bench.delivered(), [(0, 0, 10)]);
    assert_eq!(bench.sent(), [""; 0]);
    assert_eq!(bench.count("chain_hops_exhausted"), 1);
}

#[test]
fn a_message_from_outside_the_view_is_refused() {
    let mut bench = Bench::new(4, 1);
    bench.message(9, Message::Data(frame(0, 0, 0)));
    assert_eq!(bench.count("chain_foreign_sender"), 1);
    let mut outsider = Bench::new(4, 9);
    outsider.message(0, Message::Data(frame(0, 0, 0)));
    assert_eq!(outsider.count("chain_not_a_member"), 1);
}

#[test]
fn a_sender_that_goes_beyond_its_credit_is_disconnected() {
    let beyond = [
        ("beyond the window in blocks", Frame { seq: 4, ..frame(0, 0, 0) }),
        ("far beyond it", Frame { seq: u64::MAX / 2, ..frame(0, 0, 0) }),
        ("a stable lag of a window", Frame { seq: 3, stable_lag: 4, ..frame(0, 0, 0) }),
        ("any stable lag", Frame { seq: 3, stable_lag: u32::MAX, ..frame(0, 0, 0) }),
    ];
    for (name, frame) in beyond {
        let mut bench = Bench::new(4, 1);
        bench.message(0, Message::Data(signed(frame)));
        assert_eq!(bench.outbox.links.disconnects, [NodeId(0)], "{name}");
        assert_eq!(bench.count("chain_beyond_credit"), 1, "{name}");
        assert_eq!((bench.delivered(), bench.sent()), (vec![], vec![]), "{name}");
    }
}

#[test]
fn what_a_member_holds_for_an_origin_that_calls_nothing_stable_is_bounded() {
    let mut bench = Bench::with(config(4).with_window_bytes(25), 1);
    for seq in 0..20 {
        let lag = seq as u32;
        bench.message(0, Message::Data(signed(Frame { stable_lag: lag, ..frame(0, seq, seq) })));
        bench.consume(0, seq + 1);
    }
    assert_eq!(bench.delivered().len(), 2);
    assert_eq!(bench.chain.bytes_held(), 20);
    assert_eq!(bench.count("chain_beyond_credit"), 18);
}

#[test]
fn pipelined_messages_that_overlap_make_no_second_schedule() {
    let mut bench = Bench::new(6, 1);
    let pipelined =
        |index, seq| Frame { topology: Topology::Pipeline, index, count: 5, ..frame(0, seq, seq) };
    bench.message(0, Message::Data(signed(pipelined(0, 0))));
    bench.message(0, Message::Data(signed(pipelined(0, 1))));
    assert_eq!(bench.chain.flows[0].transfers.len(), 1);
    assert!(bench.count("chain_misfit_block") > 0);
}

#[test]
fn admission_falls_to_nothing_and_comes_back_with_credit() {
    let mut bench = Bench::new(3, 0);
    assert_eq!(bench.chain.admission(), 30);
    bench.broadcast(40);
    assert_eq!(bench.chain.admission(), 30, "within the window nothing waits");
    bench.broadcast(25);
    assert_eq!(bench.chain.admission(), 0, "one waits, and little leaves: no queue");
    bench.broadcast(50);
    assert_eq!(bench.chain.admission(), 0, "what was admitted is taken whole");
    for from in [1, 2] {
        bench.ack(from, 4, 4);
    }
    assert_eq!(bench.chain.admission(), 0, "the own application is a reader too");
    bench.consume(0, 4);
    assert_eq!(bench.chain.blocks_consumed(), 4);
    assert_eq!(bench.chain.admission(), 0);
    for from in [1, 2] {
        bench.ack(from, 8, 8);
    }
    bench.sent();
    bench.consume(0, 8);
    assert_eq!(bench.chain.messages_waiting(), 0);
    assert_eq!(bench.chain.admission(), 30);
}

#[test]
fn a_message_is_admitted_once_it_can_leave_at_once() {
    let mut bench = Bench::new(3, 0);
    bench.backlog.0.insert(NodeId(1), 500);
    bench.broadcast(10);
    assert_eq!((bench.delivered().len(), bench.chain.admission()), (0, 0));
    assert_eq!(
        bench.outbox.links.drains.pop(),
        Some((NodeId(1), 250)),
        "half of the hop, told at a quarter"
    );
    bench.backlog.0.insert(NodeId(1), 249);
    bench.call(|chain, cx| chain.handle_drained(cx, NodeId(1)));
    assert_eq!((bench.delivered().len(), bench.chain.admission()), (1, 30));
    // Nothing waits, and still the hop decides.
    bench.backlog.0.insert(NodeId(1), 500);
    bench.consume(0, 1);
    assert_eq!(bench.chain.admission(), 0);
    assert_eq!(bench.outbox.links.drains.pop(), Some((NodeId(1), 250)));
}

#[test]
fn the_queue_takes_what_leaves_within_its_time() {
    let config = config(3)
        .with_block_bytes_max(1000)
        .with_message_bytes_max(1000)
        .with_window_blocks(64)
        .with_window_bytes(64_000)
        .with_queue_bytes(9500)
        .with_queue_time(Duration::from_millis(2));
    let mut bench = Bench::with(config, 0);
    let leave = |bench: &mut Bench, messages| {
        for _ in 0..messages {
            bench.broadcast(1000);
            bench.sent();
        }
    };
    leave(&mut bench, 32);
    assert_eq!(bench.chain.admission(), 8000, "a quarter of what left within 8 ms");
    leave(&mut bench, 16);
    assert_eq!(bench.chain.admission(), 9500, "and no more than its bound");
    bench.backlog.0.insert(NodeId(1), 500);
    bench.broadcast(1000);
    assert_eq!(bench.chain.admission(), 8500);
    bench.now += Duration::from_millis(16);
    bench.consume(0, 1);
    assert_eq!(bench.chain.admission(), 0, "nothing leaves any more");
}

#[test]
fn empty_messages_fill_the_queue_too() {
    let mut bench = Bench::new(3, 0);
    (0..4).for_each(|_| bench.broadcast(0));
    assert_eq!(bench.delivered().len(), 4);
    assert_eq!(bench.chain.admission(), 30);
    (0..30).for_each(|_| bench.broadcast(0));
    assert_eq!((bench.chain.admission(), bench.delivered().len()), (0, 0));
}

#[test]
fn a_reserve_is_filled_by_what_small_messages_take_on_a_hop() {
    let config = config(4)
        .with_block_bytes_max(1000)
        .with_message_bytes_max(1000)
        .with_window_blocks(4096)
        .with_window_bytes(64_000)
        .with_hop_bytes(4000)
        .with_queue_bytes(20_000);
    let mut bench = Bench::with(config, 1);
    bench.broadcast(1);
    bench.sent();
    for seq in 0..30 {
        let payload = Payload::Zeros(1000);
        bench.message(0, Message::Data(signed(Frame { payload, ..frame(0, seq, seq) })));
        bench.sent();
    }
    // The member has missed turns: once a block has left, it asks for the next ones in advance.
    bench.backlog.0.insert(NodeId(2), 2000);
    bench.broadcast(1);
    bench.backlog.0.insert(NodeId(2), 0);
    bench.call(|chain, cx| chain.handle_drained(cx, NodeId(2)));
    bench.backlog.0.insert(NodeId(2), 2000);
    let mut admitted = 0;
    while bench.chain.admission() > 0 && admitted < 20_000 {
        bench.broadcast(1);
        admitted += 1;
    }
    // Half of 26 blocks beyond the lead, and a turn on the hop.
    let reserve = 26 * (Frame::HEAD_BYTES + 1000) / 2;
    // In bundles of 1,000 bytes, of which each takes 65: a byte, and two for its length.
    let bundle = 1000 / 65;
    let most = (reserve + 4096) * bundle / (Frame::HEAD_BYTES + 3 * bundle);
    assert!((most / 2..=most).contains(&admitted), "{admitted} messages of a byte, {most} at most");
}

#[test]
fn a_message_that_is_too_large_is_rejected_and_not_sent() {
    let mut bench = Bench::new(3, 0);
    bench.broadcast(51);
    let reason = RejectReason::TooLarge { bytes: 51, bytes_max: 50 };
    assert_eq!(bench.outbox.events, [Event::Rejected { reason }]);
    assert_eq!(bench.sent(), [""; 0]);
    let mut outsider = Bench::new(3, 5);
    outsider.broadcast(1);
    let reason = RejectReason::NotAMember;
    assert_eq!(outsider.outbox.events, [Event::Rejected { reason }]);
}

#[test]
fn a_group_of_one_delivers_to_itself_and_needs_nobody() {
    for topology in Topology::ALL {
        let mut bench = Bench::with(config(1).with_topology(Some(topology)), 0);
        for seq in 0..10 {
            bench.broadcast(10);
            assert_eq!(bench.delivered(), [(0, seq, 10)], "{topology}");
            bench.consume(0, seq + 1);
        }
        assert_eq!(bench.sent(), [""; 0]);
        assert!(bench.chain.is_at_rest() && bench.outbox.timers.is_empty());
    }
}

#[test]
fn own_and_forwarded_blocks_wait_while_the_hop_is_half_taken_and_then_take_turns() {
    let mut bench = Bench::new(4, 1);
    bench.backlog.0.insert(NodeId(2), 500);
    bench.broadcast(10);
    assert_eq!(bench.sent(), [""; 0]);
    assert!(bench.outbox.links.drains.contains(&(NodeId(2), 250)), "told when a quarter is taken");
    for seq in 0..3 {
        bench.message(0, Message::Data(Frame { stable_lag: seq as u32, ..frame(0, seq, seq) }));
    }
    bench.broadcast(10);
    bench.outbox.sends.retain(|send| send.to == NodeId(2));
    assert_eq!(bench.sent(), [""; 0]);
    bench.backlog.0.insert(NodeId(2), 249);
    bench.call(|chain, cx| chain.handle_drained(cx, NodeId(2)));
    // Four fill the half, and all of an origin's fit a quantum.
    let expected = [
        "n2: block 0.0 link 0 hops 1",
        "n2: block 0.1 link 1 hops 1",
        "n2: block 0.2 link 2 hops 1",
        "n2: block 1.0 link 3 hops 2",
    ];
    assert_eq!(bench.sent(), expected);
}

#[test]
fn a_member_whose_predecessor_fills_the_hop_is_admitted_and_gets_every_other_turn() {
    let block = 5000;
    let config = config(4)
        .with_block_bytes_max(block)
        .with_message_bytes_max(block)
        .with_window_blocks(64)
        .with_window_bytes(64 * block)
        .with_hop_bytes(2 * block);
    let mut bench = Bench::with(config, 1);
    let mut own = 0;
    let mut sent = Vec::new();
    bench.backlog.0.insert(NodeId(2), block);
    for seq in 0..40 {
        let payload = Payload::Zeros(block as u32);
        bench.message(
            0,
            Message::Data(signed(Frame { payload, stable_lag: seq as u32, ..frame(0, seq, seq) })),
        );
        bench.sent();
        while bench.chain.admission() > 0 {
            bench.broadcast(block as u32);
            own += 1;
        }
        if seq >= 10 {
            // The link takes one block and is full again.
            let call = |chain: &mut Chain, cx: &mut Context<'_, Chain>| {
                chain.handle_drained(cx, NodeId(2));
            };
            bench.backlog.0.insert(NodeId(2), 0);
            bench.call(call);
            bench.backlog.0.insert(NodeId(2), block);
            sent.extend(
                bench.sent().into_iter().map(|line| line["n2: block ".len()..][..1].to_owned()),
            );
        }
    }
    assert!(own > 10, "a member whose hop is full was admitted {own} times in 40");
    let mine = sent.iter().filter(|origin| *origin == "1").count();
    // Half, but for what another may lead by.
    assert!((12..=18).contains(&mine), "of 30 blocks {mine} are own ones: {sent:?}");
}

#[test]
fn stable_is_announced_at_rest_once_and_repeated_to_a_member_that_asks() {
    let mut bench = Bench::new(3, 0);
    bench.broadcast(20);
    bench.sent();
    bench.ack(1, 2, 2);
    bench.ack(2, 2, 2);
    assert!(bench.chain.is_at_rest(), "all have it");
    assert_eq!(bench.fire(), Timer::Ack);
    assert_eq!(bench.sent(), ["n1: stable 2", "n2: stable 2"]);
    assert!(bench.outbox.timers.is_empty(), "idle costs nothing");
    bench.ack(2, 2, 2);
    assert_eq!(bench.sent(), ["n2: stable 2"]);
    assert!(bench.outbox.timers.is_empty());
}

#[test]
fn small_blocks_are_acknowledged_by_sixteens_and_large_ones_as_configured() {
    let acks_for = |bytes: u32, blocks: u64| {
        let config = config(4)
            .with_block_bytes_max(1000)
            .with_message_bytes_max(1000)
            .with_window_blocks(64)
            .with_window_bytes(64_000)
            .with_ack_blocks(1);
        let mut bench = Bench::with(config, 3);
        for seq in 0..blocks {
            let payload = Payload::Zeros(bytes);
            let block = Frame { payload, hops_left: 0, ..frame(0, seq, seq) };
            bench.message(2, Message::Data(signed(block)));
        }
        bench.sent()
    };
    assert_eq!(acks_for(1, 15), [""; 0]);
    assert_eq!(acks_for(1, 16), ["n2: link-ack 16", "n0: ack 16 0"]);
    assert_eq!(acks_for(500, 4), ["n0: ack 2 0", "n0: ack 4 0"]);
    assert_eq!(acks_for(1000, 2), ["n0: ack 1 0", "n0: ack 2 0"]);
}

#[test]
fn acknowledgements_are_due_after_so_many_blocks_or_so_much_time_and_reminders_back_off() {
    let mut bench = Bench::new(4, 3);
    bench.message(2, Message::Data(Frame { hops_left: 0, ..frame(0, 0, 0) }));
    assert_eq!(bench.sent(), [""; 0], "soon");
    bench.message(2, Message::Data(Frame { hops_left: 0, ..frame(0, 1, 1) }));
    assert_eq!(bench.sent(), ["n2: link-ack 2", "n0: ack 2 0"]);
    bench.consume(0, 1);
    assert_eq!(bench.fire(), Timer::Ack);
    assert_eq!(bench.now, Instant::ZERO + ACK_AFTER);
    assert_eq!(bench.sent(), ["n0: ack 2 1"]);
    let mut pauses = Vec::new();
    let mut last = bench.now;
    while pauses.len() < 9 {
        bench.fire();
        if bench.sent() == ["n0: ack 2 1"] {
            pauses.push(bench.now.since(last).as_millis());
            last = bench.now;
        }
    }
    assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
    let stable = Message::Stable { view: ViewId(0), incarnation: 100, stable: 2 };
    bench.message(0, stable);
    assert!(bench.chain.is_at_rest());
    while !bench.outbox.timers.is_empty() {
        bench.fire();
    }
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn an_origin_whose_window_is_closed_asks_for_credit_that_got_lost() {
    let mut bench = Bench::new(3, 0);
    bench.broadcast(40);
    bench.ack(1, 4, 4);
    bench.ack(2, 4, 0);
    bench.consume(0, 4);
    bench.fire();
    bench.sent();
    bench.broadcast(10);
    assert_eq!(bench.sent(), [""; 0]);
    // Member 2 has freed the blocks; its credit of 4 was sent once and got lost.
    assert_eq!(bench.fire(), Timer::Probe);
    assert_eq!(bench.sent(), ["n2: probe"]);
    assert_eq!(bench.fire(), Timer::Probe);
    assert_eq!(bench.sent(), ["n2: probe"]);
    bench.ack(2, 4, 4);
    assert_eq!(bench.sent(), ["n2: stable 4", "n1: block 0.4 link 4 hops 1"]);
    while !bench.outbox.timers.is_empty() {
        bench.fire();
    }
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn a_probe_is_answered_with_what_is_here() {
    let mut bench = Bench::new(3, 1);
    let probe = Message::Probe { view: ViewId(0), incarnation: 100 };
    bench.message(0, probe.clone());
    assert_eq!(bench.sent(), [""; 0], "nothing has come yet");
    bench.message(0, Message::Data(frame(0, 0, 0)));
    bench.consume(0, 1);
    bench.sent();
    bench.message(0, probe);
    assert_eq!(bench.sent(), ["n0: ack 1 1"]);
    bench.message(0, Message::Probe { view: ViewId(0), incarnation: 9 });
    assert_eq!(bench.count("chain_foreign_incarnation"), 1);
}

#[test]
fn a_member_learns_and_passes_on_what_is_stable_in_the_same_frame() {
    let mut bench = Bench::new(4, 1);
    bench.message(0, Message::Data(frame(0, 0, 0)));
    bench.message(0, Message::Data(Frame { stable_lag: 0, ..frame(0, 1, 1) }));
    assert_eq!(bench.chain.origins().collect::<Vec<_>>(), [(0, 1, 2)]);
    let lags: Vec<u32> = bench
        .outbox
        .sends
        .iter()
        .filter_map(|send| match &send.message {
            Message::Data(frame) => Some(frame.stable_lag),
            _ => None,
        })
        .collect();
    assert_eq!(lags, [0, 0]);
}

#[test]
fn acknowledgements_of_what_was_never_sent_change_nothing() {
    let mut bench = Bench::new(3, 0);
    bench.broadcast(10);
    for (received, consumed) in [(2, 0), (u64::MAX, 0), (0, 1), (u64::MAX, u64::MAX)] {
        bench.ack(1, received, consumed);
    }
    assert_eq!(bench.count("chain_ack_out_of_range"), 4);
    assert_eq!((bench.chain.blocks_stable(), bench.chain.blocks_consumed()), (0, 0));
    let message = Message::Ack { view: ViewId(0), incarnation: 9, received: 1, consumed: 1 };
    bench.message(1, message);
    assert_eq!(bench.count("chain_foreign_incarnation"), 1);
    let stable = Message::Stable { view: ViewId(0), incarnation: 100, stable: u64::MAX };
    bench.message(1, stable);
    assert_eq!(bench.chain.bytes_held(), 10);
}

/// Member 0 of a ring of three, with room for bundles of up to 1,000 bytes.
fn bundling() -> Bench {
    let config = config(3)
        .with_block_bytes_max(2000)
        .with_message_bytes_max(4000)
        .with_window_blocks(64)
        .with_window_bytes(8000)
        .with_hop_bytes(4000)
        .with_queue_bytes(4000);
    Bench::with(config, 0)
}

/// What left: the lengths of the messages of each block, and its own.
fn blocks(bench: &mut Bench) -> Vec<(Vec<u16>, usize)> {
    let blocks = bench.outbox.sends.drain(..).filter_map(|send| match send.message {
        Message::Data(frame) => {
            assert_eq!(frame.checksum, frame.computed_checksum());
            let lengths = frame.lengths.several().unwrap_or_default();
            Some((lengths.to_vec(), frame.payload.len()))
        }
        _ => None,
    });
    blocks.collect()
}

#[test]
fn small_messages_share_a_block_while_the_hop_is_busy() {
    let mut bench = bundling();
    bench.broadcast(100);
    assert_eq!(blocks(&mut bench), [(vec![], 100)], "an idle hop takes it at once");
    bench.backlog.0.insert(NodeId(1), 300);
    for bytes in [100, 0, 300] {
        bench.broadcast(bytes);
    }
    assert_eq!(blocks(&mut bench), []);
    assert_eq!(bench.outbox.links.drains.last(), Some(&(NodeId(1), 250)));
    bench.backlog.0.insert(NodeId(1), 250);
    bench.call(|chain, cx| chain.handle_drained(cx, NodeId(1)));
    assert_eq!(blocks(&mut bench), [(vec![100, 0, 300], 400)]);
    assert_eq!(bench.delivered(), [(0, 0, 100), (0, 1, 100), (0, 2, 0), (0, 3, 300)]);
    assert_eq!(bench.count("chain_bundled"), 3);
    // Two blocks, of which the second has four times 64 bytes more in the window, less one.
    assert_eq!((bench.chain.blocks_sent(), bench.chain.bytes_in_flight()), (2, 500 + 3 * 64));
    // It is consumed with the last of its messages.
    bench.ack(1, 2, 2);
    bench.ack(2, 2, 2);
    bench.consume(0, 1);
    assert_eq!(bench.chain.blocks_consumed(), 1);
    bench.consume(0, 2);
    assert_eq!((bench.chain.blocks_consumed(), bench.chain.messages_stable()), (2, 4));
}

#[test]
fn a_full_bundle_does_not_wait_and_a_long_message_shares_no_block() {
    let mut bench = bundling();
    bench.broadcast(1);
    assert_eq!(blocks(&mut bench), [(vec![], 1)]);
    bench.backlog.0.insert(NodeId(1), 300);
    // Of 1,000 bytes each takes 264 here.
    (0..4).for_each(|_| bench.broadcast(200));
    assert_eq!(blocks(&mut bench), [(vec![200; 3], 600)]);
    bench.broadcast(3000);
    assert_eq!(blocks(&mut bench), [(vec![], 200), (vec![], 2000)]);
    bench.call(|chain, cx| chain.handle_drained(cx, NodeId(1)));
    assert_eq!(blocks(&mut bench), [(vec![], 1000)]);
    bench.broadcast(1500);
    assert_eq!(blocks(&mut bench), [(vec![], 1500)], "it fills a bundle by itself");
    assert_eq!(bench.count("chain_bundled"), 3);
}

#[test]
fn messages_of_other_topologies_and_of_a_pipeline_share_no_block() {
    let mut bench = bundling();
    let to_both = Some(Topology::Unicast);
    let (payload, urgency) = (Payload::Zeros(1), Urgency::Throughput);
    let command = Command::Broadcast { payload, topology: to_both, urgency };
    bench.call(|chain, cx| chain.handle_command(cx, command));
    assert_eq!(blocks(&mut bench).len(), 2);
    bench.backlog.0.insert(NodeId(1), 300);
    bench.backlog.0.insert(NodeId(2), 300);
    let topologies = [
        Topology::Chain,
        Topology::Chain,
        Topology::Unicast,
        Topology::Unicast,
        Topology::Pipeline,
        Topology::Pipeline,
    ];
    for topology in topologies {
        let (payload, urgency) = (Payload::Zeros(10), Urgency::Throughput);
        let command = Command::Broadcast { payload, topology: Some(topology), urgency };
        bench.call(|chain, cx| chain.handle_command(cx, command));
    }
    bench.backlog.0.clear();
    bench.call(|chain, cx| chain.handle_drained(cx, NodeId(1)));
    bench.call(|chain, cx| chain.handle_drained(cx, NodeId(2)));
    // One by the chain, one to each member, and two by the pipeline.
    let pairs = vec![(vec![10, 10], 20); 3];
    let singles = vec![(vec![], 10); 2];
    assert_eq!(blocks(&mut bench), [pairs, singles].concat());
}

#[test]
fn nothing_waits_for_company_beside_blocks_of_others() {
    let mut bench = bundling();
    bench.message(2, Message::Data(frame(2, 0, 0)));
    bench.broadcast(100);
    assert_eq!(blocks(&mut bench), [(vec![], 10), (vec![], 100)]);
    bench.backlog.0.insert(NodeId(1), 300);
    bench.broadcast(100);
    assert_eq!(blocks(&mut bench), [(vec![], 100)]);
}
