//! Sender-based repairs, and repairs of partial bins.

use super::*;

/// Blocks of four packets, and this many repairs of each.
fn blocks(c: usize) -> Config {
    Config::published(roster(4), Rate { r: 4, c })
        .with_repair_by(RepairBy::Sender)
        .with_code(Code::Rlc { window: 4 })
}

#[test]
fn a_sender_repairs_its_own_packets_for_all_others_and_nobody_else_does() {
    let mut bench = Bench::new(blocks(2));
    (0..8).for_each(|seq| bench.data(1, seq));
    assert!(bench.sent().is_empty(), "what came from others is not repaired");
    (0..3).for_each(|_| bench.send("own"));
    assert_eq!(bench.sent().len(), 3);
    bench.send("own");
    let sent = bench.sent();
    assert_eq!(sent.len(), 3, "the packet and two repairs: {sent:?}");
    let repairs = sent.iter().filter(|line| line.starts_with("g0: repair"));
    assert!(repairs.clone().all(|line| line.contains("g0/0.0 g0/0.1 g0/0.2 g0/0.3")), "{sent:?}");
    assert_eq!(repairs.count(), 2);
    assert_eq!(bench.count("slingshot_repairs"), 2 * 3, "one for each member that gets it");
}

#[test]
fn as_many_losses_of_a_block_are_recovered_as_it_has_repairs() {
    for c in 1..4 {
        let mut sender = Bench::new(blocks(c));
        (0..4).for_each(|_| sender.send("block"));
        let sends = sender.outbox.group_sends.drain(..);
        let (data, repairs): (Vec<Message>, Vec<Message>) =
            sends.map(|(_, message)| message).partition(|m| matches!(m, Message::Data(_)));
        assert_eq!((data.len(), repairs.len()), (4, c));
        for lost in [c, c + 1] {
            let mut member = receiver();
            // The first is lost, and so are the last but one.
            for message in data.iter().skip(lost) {
                member.call_from_zero(message.clone());
            }
            repairs.iter().for_each(|repair| member.call_from_zero(repair.clone()));
            let recovered = member.count("slingshot_recovered");
            assert_eq!(recovered, if lost == c { c as u64 } else { 0 }, "{lost} of 4, c = {c}");
        }
    }
}

/// Node 1 of the same group, which has heard node 0 before.
fn receiver() -> Receiver {
    let config = blocks(1).build().expect("within the ranges");
    let mut receiver = Receiver {
        node: Slingshot::new(&config),
        config,
        outbox: Outbox::default(),
        rng: Rng::new(2, 1),
    };
    receiver.call(|node, cx| node.handle_start(cx));
    let beat = Message::Heartbeat(Heartbeat { group: G, incarnation: INCARNATION, next: 4 });
    receiver.call_from_zero(beat);
    receiver
}

struct Receiver {
    config: Config,
    node: Slingshot,
    outbox: Outbox<Slingshot>,
    rng: Rng,
}

impl Receiver {
    fn call(&mut self, handler: impl FnOnce(&mut Slingshot, &mut Context<'_, Slingshot>)) {
        let mut cx = Context {
            now: Instant::ZERO,
            node: NodeId(1),
            incarnation: 101,
            host: None,
            shared: &self.config,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &Holding(0),
            datagram_bytes_max: 1200,
        };
        handler(&mut self.node, &mut cx);
    }

    fn call_from_zero(&mut self, message: Message) {
        self.call(|node, cx| node.handle_message(cx, NodeId(0), message));
    }

    fn count(&self, name: &str) -> u64 {
        self.outbox.counters.count(name)
    }
}

#[test]
fn a_target_and_repairs_by_senders_exclude_each_other() {
    let target = tuner::Target::new(0.9, ms(10), 0.3);
    let error = blocks(1).with_target(Some(target)).build().unwrap_err();
    assert!(error.to_string().contains("no target where senders repair"), "{error}");
}

#[test]
fn scaled_copies_of_partial_bins_keep_the_overhead_at_c_over_r() {
    let copies_of = |partial| {
        let config = Config::published(roster(8), Rate { r: 8, c: 3 })
            .with_flush_after(Some(ms(10)))
            .with_partial_copies(partial);
        let mut bench = Bench::new(config);
        for seq in 0..4_000 {
            bench.data(1, seq);
            bench.pass(ms(5));
        }
        bench.count("slingshot_repairs") as f64 / 4_000.0
    };
    // Two or three packets a bin: each goes out after 10 ms.
    let all = copies_of(PartialCopies::All);
    assert!((0.95..1.55).contains(&all), "{all} repairs a packet");
    let scaled = copies_of(PartialCopies::Scaled);
    assert!((0.355..0.395).contains(&scaled), "{scaled} repairs a packet, 3/8 expected");
}
