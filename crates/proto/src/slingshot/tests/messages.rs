//! Messages of several packets: cut, paced, put together, late, lost.

use super::*;

/// The message that node `from` sends: its bytes follow from both numbers.
fn message(from: u32, bytes: usize) -> Payload {
    Payload::from(Vec::from_iter((0..bytes).map(|at| (at * 31 + from as usize) as u8)))
}

/// The packets of a message of another node to group 0, from this number on.
fn packets(from: u32, first: u64, bytes: usize, payload_bytes_max: usize) -> Vec<Data> {
    let whole = message(from, bytes);
    let head = Fragment::first(bytes, payload_bytes_max).expect("it needs several");
    let of = |index: u16| {
        let (seq, incarnation) = (first + u64::from(index), 100 + u64::from(from));
        let payload = Fragment { index, ..head }.packet(&whole);
        let framing = Framing::Fragment;
        let checksum = framing.checksum(G, incarnation, seq, &payload);
        Data { group: G, incarnation, seq, framing, checksum, payload }
    };
    (0..head.packets).map(of).collect()
}

/// Four packets of node 1, numbers 0 to 4.
fn four() -> Vec<Data> {
    packets(1, 0, 350, 100)
}

fn payload_of(bench: &Bench) -> Payload {
    let Some(Event::Delivered { payload, .. }) = bench.outbox.events.last() else {
        panic!("{:?}", bench.outbox.events);
    };
    payload.clone()
}

fn orders() -> [Order; 2] {
    [Order::Unordered, Order::Fifo]
}

#[test]
fn a_message_is_delivered_once_it_is_whole_whatever_the_order_of_its_packets() {
    for order in orders() {
        for arrival in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut bench = Bench::new(published(4).with_order(order));
            let packets = four();
            for (number, &at) in arrival.iter().enumerate() {
                assert!(bench.outbox.events.is_empty(), "{order:?} {arrival:?} {number}");
                bench.message(1, Message::Data(packets[at].clone()));
            }
            assert_eq!(payload_of(&bench), message(1, 350), "{order:?} {arrival:?}");
            assert_eq!(bench.told(), ["g0/n1.0..4 direct"]);
            // Again, and a heartbeat: nothing more.
            packets.iter().for_each(|packet| bench.message(1, Message::Data(packet.clone())));
            bench.message(1, heartbeat(1, 4));
            bench.pass(ms(2_000));
            assert!(bench.told().is_empty());
            assert_eq!(bench.count("slingshot_messages"), 1);
            assert_eq!((bench.node.incomplete_bytes(), bench.node.packets_missing()), (0, 0));
        }
    }
}

#[test]
fn a_fragment_is_recovered_by_exclusive_or_with_packets_of_others() {
    for order in orders() {
        let mut bench = Bench::new(published(4).with_order(order));
        let packets = four();
        bench.data(2, 0);
        for at in [0, 1, 3] {
            bench.message(1, Message::Data(packets[at].clone()));
        }
        bench.told();
        bench.now += ms(5);
        bench.message(3, repair_of(&[packets[2].clone(), packet(G, 2, 0), packets[1].clone()], 0));
        assert_eq!(payload_of(&bench), message(1, 350));
        assert_eq!(bench.told(), ["g0/n1.0..4 recovered after 5ms"], "{order:?}");
    }
}

#[test]
fn the_deadline_of_a_message_counts_from_its_first_packet() {
    let mut bench = Bench::new(published(4).with_deadline(ms(100)));
    let packets = four();
    for (at, late) in [(0, 0), (1, 40), (2, 40)] {
        bench.pass(ms(late));
        bench.message(1, Message::Data(packets[at].clone()));
    }
    bench.pass(ms(21));
    bench.message(1, Message::Data(packets[3].clone()));
    assert_eq!(bench.told(), ["g0/n1.0..4 direct, late"]);
    assert_eq!(bench.count("slingshot_late"), 4, "its packets");
}

#[test]
fn a_message_that_stays_incomplete_is_lost_once_with_the_number_of_packets_that_came() {
    for order in orders() {
        let config = published(4).with_order(order).with_deadline(ms(100));
        let mut bench = Bench::new(config.with_lost_after(ms(100)));
        let packets = four();
        for at in [1, 3] {
            bench.pass(ms(60));
            bench.message(1, Message::Data(packets[at].clone()));
        }
        assert!(bench.told().is_empty() && bench.node.incomplete_bytes() > 200);
        bench.pass(ms(39));
        assert!(bench.told().is_empty());
        bench.pass(ms(1));
        assert_eq!(bench.told(), ["g0/n1.0..4 lost, 2 came"], "{order:?}");
        assert_eq!(bench.node.incomplete_bytes(), 0, "its memory is free");
        // What comes later is not told, whether it was given up itself or not.
        [0, 2].iter().for_each(|&at| bench.message(1, Message::Data(packets[at].clone())));
        bench.data(1, 4);
        assert_eq!(bench.told(), ["g0/n1.4 direct"], "{order:?}");
        bench.pass(ms(2_000));
        assert!(bench.told().is_empty());
        assert_eq!(bench.count("slingshot_messages_lost"), 1);
        assert_eq!(bench.node.packets_missing(), 0);
    }
}

/// The sender crashes: no packet shows that more of them were to come.
#[test]
fn the_beginning_of_a_message_whose_sender_is_silent_is_lost_and_its_memory_freed() {
    for order in orders() {
        let mut bench = Bench::new(published(4).with_order(order));
        four()[..2].iter().for_each(|packet| bench.message(1, Message::Data(packet.clone())));
        bench.pass(ms(500));
        assert_eq!(bench.told(), ["g0/n1.0..4 lost, 2 came"], "{order:?}");
        assert_eq!((bench.node.incomplete_bytes(), bench.node.packets_missing()), (0, 0));
    }
}

#[test]
fn a_message_is_lost_when_its_sender_leaves_the_view_in_the_middle() {
    for order in orders() {
        let mut bench = Bench::new(published(4).with_order(order));
        four()[1..3].iter().for_each(|packet| bench.message(1, Message::Data(packet.clone())));
        bench.view(1, &[(0, INCARNATION), (2, 102), (3, 103)]);
        assert_eq!(bench.told(), ["g0/n1.0..4 lost, 2 came"], "{order:?}");
        bench.pass(ms(2_000));
        assert!(bench.told().is_empty() && bench.node.incomplete_bytes() == 0);
    }
}

#[test]
fn what_began_before_its_sender_was_heard_is_neither_delivered_nor_lost() {
    for order in orders() {
        let mut bench = Bench::new(published(4).with_order(order));
        // The first that is heard is in the middle, and another packet of the rest is lost.
        let packets = packets(1, 40, 550, 100);
        [3, 5].iter().for_each(|&at: &usize| bench.message(1, Message::Data(packets[at].clone())));
        bench.data(1, 46);
        bench.message(1, Message::Data(packets[0].clone()));
        bench.pass(ms(2_000));
        assert_eq!(bench.told(), ["g0/n1.46 direct"], "{order:?}");
        assert_eq!(bench.node.packets_missing(), 0);
        assert_eq!(bench.count("slingshot_fragment_unneeded"), 2);
    }
}

#[test]
fn in_order_messages_wait_for_each_other_and_out_of_order_they_do_not() {
    let (a, b) = (packets(1, 0, 350, 100), packets(1, 4, 350, 100));
    let come = |bench: &mut Bench| {
        for packet in a[..3].iter().chain(&b) {
            bench.message(1, Message::Data(packet.clone()));
        }
        bench.data(1, 8);
    };
    let mut bench = Bench::new(published(4));
    come(&mut bench);
    assert_eq!(bench.told(), ["g0/n1.4..8 direct", "g0/n1.8 direct"]);
    bench.message(1, Message::Data(a[3].clone()));
    assert_eq!(bench.told(), ["g0/n1.0..4 direct"]);
    let mut bench = Bench::new(published(4).with_order(Order::Fifo));
    come(&mut bench);
    assert!(bench.told().is_empty());
    bench.message(1, Message::Data(a[3].clone()));
    assert_eq!(bench.told(), ["g0/n1.0..4 direct", "g0/n1.4..8 direct", "g0/n1.8 direct"]);
    let mut bench = Bench::new(published(4).with_order(Order::Fifo));
    come(&mut bench);
    bench.pass(ms(500));
    let told = ["g0/n1.0..4 lost, 3 came", "g0/n1.4..8 direct, late", "g0/n1.8 direct"];
    assert_eq!(bench.told(), told);
    assert_eq!(bench.node.incomplete_bytes(), 0);
}

#[test]
fn fragments_that_contradict_each_other_are_counted_and_dropped() {
    for order in orders() {
        let mut bench = Bench::new(published(4).with_order(order).with_message_bytes_max(5_000));
        let packets = four();
        bench.message(1, Message::Data(packets[1].clone()));
        let mut wrong = vec![
            // Another length, other packets of the same number, an overlap.
            self::packets(1, 0, 351, 100)[2].clone(),
            self::packets(1, 0, 450, 100)[2].clone(),
            self::packets(1, 2, 350, 100)[0].clone(),
            self::packets(1, 3, 350, 100)[0].clone(),
            // Longer than messages may be.
            self::packets(1, 20, 5_001, 100)[0].clone(),
        ];
        let bad = Payload::from(vec![0, 9, 0, 2, 0, 0, 0, 3, 1]);
        for (seq, payload) in [(9, bad), (10, Payload::from("short"))] {
            let framing = Framing::Fragment;
            let checksum = framing.checksum(G, 101, seq, &payload);
            let data = Data { group: G, incarnation: 101, seq, framing, checksum, payload };
            wrong.push(data);
        }
        let count = wrong.len() as u64;
        wrong.into_iter().for_each(|packet| bench.message(1, Message::Data(packet)));
        assert_eq!(bench.count("slingshot_fragment_wrong"), count, "{order:?}");
        [0, 2, 3].iter().for_each(|&at: &usize| {
            bench.message(1, Message::Data(packets[at].clone()));
        });
        assert_eq!(payload_of(&bench), message(1, 350), "{order:?}");
    }
}

#[test]
fn incomplete_messages_take_no_more_room_than_there_is() {
    let config = published(4).with_bytes_max(1 << 16).with_message_bytes_max(1 << 14);
    let mut bench = Bench::new(config);
    let mut first = 0;
    for _ in 0..10 {
        let packets = packets(1, first, 1 << 14, 1_000);
        first += packets.len() as u64;
        // All but the last one.
        for packet in &packets[..packets.len() - 1] {
            bench.message(1, Message::Data(packet.clone()));
            assert!(bench.node.incomplete_bytes() <= 1 << 15, "half is for one sender");
        }
    }
    assert!(bench.count("slingshot_messages_overflowed") >= 8);
    let lost = bench.told();
    assert!(lost.iter().all(|line| line.contains("lost, ")), "{lost:?}");
    bench.pass(ms(2_000));
    assert_eq!(bench.node.incomplete_bytes(), 0);
    assert_eq!(lost.len() + bench.told().len(), 10, "each once");
}

#[test]
fn a_message_counts_as_unread_as_often_as_it_has_packets() {
    let mut bench = Bench::new(published(4).with_unread_max(Some(3)));
    four().into_iter().for_each(|packet| bench.message(1, Message::Data(packet)));
    assert_eq!(bench.told(), ["g0/n1.0..4 direct"], "there was room for one");
    bench.data(1, 4);
    packets(1, 5, 350, 100).into_iter().for_each(|packet| bench.message(1, Message::Data(packet)));
    assert!(bench.told().is_empty());
    bench.command(Command::Consumed { events: 4 });
    assert_eq!(bench.told(), ["overrun 5"]);
}

fn sent_packets(bench: &mut Bench) -> Vec<Data> {
    let packet = |(_, message)| match message {
        Message::Data(data) => Some(data),
        _ => None,
    };
    bench.outbox.group_sends.drain(..).filter_map(packet).collect()
}

#[test]
fn a_message_leaves_whole_at_its_rate_and_what_follows_to_its_group_waits() {
    // 1,000 bytes a millisecond, of which 2 ms' worth and one packet may leave at once.
    let config = Config { heartbeat_after: None, ..Config::new(roster(4)) };
    let config = config.with_message_bytes_per_second(1_000_000).with_message_bytes_max(50_000);
    let mut bench = Bench::new(config);
    let whole = message(0, 30_000);
    let (group, ticket) = (G, 7);
    bench.command(Command::Multicast { group, payload: whole.clone(), ticket });
    bench.command(Command::Multicast { group, payload: Payload::from("after"), ticket: 8 });
    assert_eq!(bench.told(), ["sent 7 as 0"]);
    let mut sent = sent_packets(&mut bench);
    assert_eq!(sent.len(), 2, "2 ms' worth and one");
    let wire = |sent: &[Data]| sent.iter().map(|data| data.payload.len() + 25).sum::<usize>();
    for millis in 1..=30 {
        bench.pass(ms(1));
        sent.extend(sent_packets(&mut bench));
        let bytes = wire(&sent);
        assert!(bytes <= 1_000 * (millis + 2) + 1_200, "{bytes} after {millis} ms");
        assert!(bytes >= (1_000 * millis).min(30_000), "{bytes} after {millis} ms");
    }
    bench.pass(ms(2));
    sent.extend(sent_packets(&mut bench));
    assert_eq!(bench.told(), ["sent 8 as 28"]);
    let last = sent.pop().expect("the message that waited");
    assert_eq!((last.seq, last.framing, last.payload), (28, Framing::Whole, "after".into()));
    let parts: Vec<Payload> =
        sent.iter().map(|data| data.payload.slice(8..data.payload.len())).collect();
    assert_eq!(Payload::concat(&parts), whole);
    assert!(sent.iter().map(|data| data.seq).eq(0..28));
    assert_eq!((bench.node.queued(), bench.count("slingshot_messages_sent")), ((0, 0), 1));
    // Alone again, a message of one packet leaves at once.
    bench.send("at once");
    assert_eq!(sent_packets(&mut bench).len(), 1);
}

#[test]
fn a_message_that_is_too_long_or_does_not_fit_the_queue_is_refused_whole() {
    let config = published(4).with_bytes_max(1 << 16).with_message_bytes_per_second(400_000);
    let mut bench = Bench::new(config.with_deadline(ms(200)));
    let limit = bench.config.message_bytes_limit(1200);
    assert_eq!(limit, 16_384, "a quarter of `bytes_max`");
    let send = |bench: &mut Bench, bytes: usize| {
        let payload = message(0, bytes);
        bench.command(Command::Multicast { group: G, payload, ticket: 1 });
    };
    send(&mut bench, limit + 1);
    let too_large = "rejected 1: message of 16385 bytes, at most 16384 are allowed";
    assert_eq!(bench.told(), [too_large]);
    (0..5).for_each(|_| send(&mut bench, limit));
    let full = "rejected 1: 65536 bytes wait to be sent, at most 65536 may";
    assert_eq!(bench.told(), ["sent 1 as 0", full]);
    // The time at this rate is a bound as well, and a packet always fits.
    let slow = Config::new(roster(4)).with_message_bytes_per_second(100_000);
    let packet = slow.payload_bytes_max(1200);
    assert!((18_000..20_000).contains(&slow.message_bytes_limit(1200)));
    assert_eq!(slow.with_message_bytes_max(1).message_bytes_limit(1200), packet);
}

#[test]
fn who_leaves_in_the_middle_of_a_message_uses_none_of_its_numbers_again() {
    let config = Config::new(roster(3)).with_groups([(G, None)]);
    let mut bench = Bench::new(config.with_message_bytes_per_second(1_000_000));
    let payload = message(0, 30_000);
    bench.command(Command::Multicast { group: G, payload, ticket: 7 });
    let begun = sent_packets(&mut bench);
    bench.told();
    let set = |bench: &mut Bench, nodes: &[u32]| {
        let members: Arc<[NodeId]> = nodes.iter().copied().map(NodeId::from).collect();
        bench.command(Command::Members { group: G, members });
    };
    set(&mut bench, &[1, 2]);
    assert_eq!(bench.told(), ["rejected 7: this node is not a member of g0"]);
    assert_eq!(bench.node.queued(), (0, 0));
    bench.pass(ms(50));
    assert!(sent_packets(&mut bench).is_empty());
    for forgets in [false, true] {
        if forgets {
            set(&mut bench, &[]);
        }
        set(&mut bench, &[0, 1, 2]);
        bench.send("again");
        let end = u64::from(Fragment::read(0, &begun[0].payload).unwrap().packets);
        let seqs: Vec<u64> = sent_packets(&mut bench).iter().map(|data| data.seq).collect();
        assert_eq!(seqs, [end + u64::from(forgets)]);
    }
}

/// One byte at each side of every boundary, and the sizes of the issue.
#[test]
fn messages_of_all_sizes_come_as_they_were_sent() {
    let config = Config { heartbeat_after: None, ..Config::new(roster(2)) };
    let packet = config.payload_bytes_max(1200);
    let part = packet - Fragment::HEAD_BYTES;
    let sizes = [0, 1, packet, packet + 1, 2 * part, 2 * part + 1, 1 << 16, 1 << 20];
    let mut sender = Bench::new(config.clone().with_message_bytes_per_second(u32::MAX));
    let mut receiver = Bench::new(Config::new(roster(2)));
    for bytes in sizes {
        let payload = message(0, bytes);
        sender.command(Command::multicast(payload.clone()));
        let mut sent = sent_packets(&mut sender);
        while sender.node.queued().0 > 0 {
            sender.fire();
            sent.extend(sent_packets(&mut sender));
        }
        assert_eq!(sent.len(), if bytes <= packet { 1 } else { bytes.div_ceil(part) }, "{bytes}");
        for data in sent {
            receiver.message(1, Message::Data(data));
        }
        assert_eq!(payload_of(&receiver), payload, "{bytes}");
        receiver.outbox.events.clear();
        receiver.outbox.sends.clear();
    }
}

#[test]
fn packets_wait_while_the_host_holds_more_than_may_leave_at_once() {
    let config = Config { heartbeat_after: None, ..Config::new(roster(4)) };
    let config = config.with_message_bytes_per_second(1_000_000).with_message_bytes_max(50_000);
    let mut bench = Bench::new(config);
    bench.held = 10_000;
    bench.command(Command::multicast(message(0, 30_000)));
    bench.pass(ms(50));
    assert_eq!((sent_packets(&mut bench).len(), bench.count("slingshot_held_up")), (0, 51));
    // 2 ms' worth and a packet, which is a little shorter than a datagram.
    bench.held = 3_200;
    bench.pass(ms(10));
    assert_eq!(sent_packets(&mut bench).len(), 0);
    bench.held = 3_100;
    bench.pass(ms(1));
    assert_eq!(sent_packets(&mut bench).len(), 2, "not what it would have sent by now");
    bench.held = 0;
    bench.pass(ms(40));
    assert_eq!((bench.node.queued(), bench.count("slingshot_messages_sent")), ((0, 0), 1));
    // A message of one packet without a rate leaves whatever is there.
    bench.held = 10_000;
    sent_packets(&mut bench);
    bench.send("at once");
    assert_eq!(sent_packets(&mut bench).len(), 1);
}
