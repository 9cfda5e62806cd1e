//! Bytes that no detector sent.

use super::*;

/// A detector that watches four others, and some of what they sent it.
fn target() -> (Net, Vec<(NodeId, Bytes)>) {
    let mut net = Net::new(5, 3);
    net.loss = 0.2;
    let mut seen = Vec::new();
    for _ in 0..20_000 {
        net.run_for(ms(1));
        let to_first = net.in_flight.values().filter(|(_, to, _)| *to == 0);
        seen.extend(to_first.map(|(from, _, bytes)| (NodeId::from(*from), bytes.clone())));
    }
    assert!(seen.len() > 30);
    net.loss = 0.0;
    (net, seen)
}

/// The detector still works, and foca knows at most the members that it watches.
fn assert_sound(net: &mut Net) {
    let foca = net.nodes[0].detector.foca.iter_membership_state();
    // Its own earlier names are not among them.
    assert!(foca.count() <= 4);
    net.nodes[0].output.sends.clear();
    net.nodes[0].output.changes.clear();
    let all: Vec<Member> = (0..5).map(member).collect();
    for node in 0..5 {
        net.call(node, |detector, now, out| detector.watch(now, &[], out));
        net.call(node, |detector, now, out| detector.watch(now, &all, out));
    }
    net.run_for(ms(5000));
    net.assert_all_up();
}

fn feed(net: &mut Net, from: NodeId, bytes: &[u8]) {
    let now = net.now;
    let Node { detector, output, .. } = &mut net.nodes[0];
    let before = output.sends.len();
    let _ = detector.receive(now, from, bytes, output);
    assert!(output.sends.len() - before <= 16, "{} datagrams", output.sends.len() - before);
    if output.sends.len() > 1000 {
        output.sends.clear();
        output.changes.clear();
    }
}

#[test]
fn random_bytes_are_refused_and_counted() {
    let (mut net, _) = target();
    let mut rng = Rng::new(1, 1);
    for _ in 0..20_000 {
        let len = rng.below(160) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
        if let Some(tag) = bytes.first_mut() {
            *tag %= 4;
        }
        feed(&mut net, NodeId::from(rng.below(6)), &bytes);
    }
    assert!(net.nodes[0].output.counters.count("detector_malformed") > 15_000);
    feed(&mut net, NodeId(1), &[0; 4000]);
    assert_sound(&mut net);
}

#[test]
fn cut_and_altered_datagrams_do_no_harm() {
    let (mut net, seen) = target();
    let mut rng = Rng::new(2, 1);
    for (from, bytes) in &seen {
        for len in 0..bytes.len() {
            feed(&mut net, *from, &bytes[..len]);
        }
        for _ in 0..100 {
            let mut altered = bytes.to_vec();
            for _ in 0..1 + rng.below(3) {
                let place = rng.below(altered.len() as u32) as usize;
                altered[place] = match rng.below(3) {
                    0 => rng.next_u32() as u8,
                    1 => rng.below(4) as u8,
                    _ => 255,
                };
            }
            feed(&mut net, *from, &altered);
            let now = net.now;
            let Node { detector, output, .. } = &mut net.nodes[0];
            detector.poll(now, output);
        }
        net.now += ms(20);
    }
    assert_sound(&mut net);
}

#[test]
fn what_comes_under_the_own_id_is_not_read() {
    let (mut net, seen) = target();
    for (_, bytes) in &seen {
        feed(&mut net, NodeId(0), bytes);
    }
    let node = &net.nodes[0];
    assert_eq!(node.output.counters.count("detector_forged_source"), seen.len() as u64);
    assert_eq!((&node.output.sends[..], &node.output.changes[..]), (&[][..], &[][..]));
}
