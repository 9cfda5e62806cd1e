//! The formulas against a simulation of the model with the real decoder: one member that loses
//! packets, and others that repair.

use std::collections::VecDeque;

use super::*;
use crate::core::{Payload, Rng};
use crate::parts::fec::{Bounds, Coded, Coefficients, Decoder, Method};

/// Bytes do not matter here, and no packet has any.
const NOTHING: Payload = Payload::Zeros(0);

/// The share recovered of about 10,000 losses, and the mean packets until it is.
fn simulate(setting: Setting, members: u32, loss: f64, seed: u64) -> (f64, f64) {
    let mut rng = Rng::new(seed, 1);
    let method = match setting.code {
        Code::Xor => Method::Peel,
        Code::Linear { .. } => Method::Eliminate,
    };
    let kept = setting.packets_in_repair() as usize;
    let mut decoder = Decoder::new(method, Bounds::default());
    let mut recovered = Vec::new();
    // The last packets of each other member, and how many came since its last repair. The same
    // count at all would make all repair the same packets.
    let count = |rng: &mut Rng| rng.below(u32::from(setting.r));
    let mut others: Vec<(VecDeque<u32>, u32)> =
        (1..members).map(|_| (VecDeque::new(), count(&mut rng))).collect();
    let for_us = f64::from(setting.c) / f64::from(members - 1);

    let packets = (10_000.0 / loss) as u32;
    let mut has = vec![true; packets as usize];
    let (mut losses, mut delays, mut repaired) = (0, 0, 0);
    for packet in 0..packets {
        // No member repairs its own packets, and this member does not lose its own.
        let sender = rng.below(members);
        if sender != 0 && rng.chance(loss) {
            has[packet as usize] = false;
            losses += 1;
        }
        for (other, (last, since)) in (1..).zip(&mut others) {
            if other == sender || rng.chance(loss) {
                continue;
            }
            if last.len() == kept {
                last.pop_front();
            }
            last.push_back(packet);
            *since += 1;
            if *since < u32::from(setting.r) {
                continue;
            }
            *since = 0;
            if !rng.chance(for_us) || rng.chance(loss) {
                continue;
            }
            let coded = Coded { lengths: 0, body: NOTHING };
            let seed = match setting.code {
                Code::Xor => Coefficients::XOR,
                Code::Linear { .. } => rng.next_u32().max(1),
            };
            let known = |id: u32| has[id as usize].then_some(&NOTHING);
            decoder.add_repair(last.make_contiguous(), seed, &coded, known, &mut recovered);
            for (id, _) in recovered.drain(..) {
                has[id as usize] = true;
                delays += packet - id;
                repaired += 1;
            }
        }
    }
    (f64::from(repaired) / f64::from(losses), f64::from(delays) / f64::from(repaired))
}

/// Compares the share to within a given one, and the mean to within 0.15 packets or 7 %.
fn check(setting: Setting, members: u32, loss: f64, within: f64) {
    let (share, packets) = simulate(setting, members, loss, 1);
    // A thousand packets a second and no latency: packets are milliseconds.
    let latency = Duration::ZERO;
    let conditions = Conditions { latency, ..Conditions::new(members, loss, 1_000.0) };
    let prediction = predict(setting, &conditions);
    let (expected, mean) = (prediction.recovered(), prediction.mean().as_secs_f64() * 1e3);
    println!("{setting} {members} {loss} {share:.4} {expected:.4} {packets:.2} {mean:.2}");
    assert!((share - expected).abs() < within, "{setting}: {share:.4}, not {expected:.4}");
    let mean_within = (0.07 * mean).max(0.15);
    assert!((packets - mean).abs() < mean_within, "{setting}: {packets:.2}, not {mean:.2}");
}

#[test]
fn exclusive_ors_recover_what_is_predicted() {
    for (r, c, members, loss) in
        [(8, 3, 64, 0.01), (8, 5, 64, 0.02), (4, 3, 16, 0.01), (14, 5, 64, 0.05)]
    {
        check(Setting { r, c, code: Code::Xor }, members, loss, 0.01);
    }
}

#[test]
fn the_linear_code_recovers_what_is_predicted() {
    for (r, c, members, loss, within) in [
        (8, 3, 64, 0.01, 0.001),
        (8, 2, 64, 0.01, 0.002),
        (8, 1, 64, 0.01, 0.007),
        (8, 2, 64, 0.05, 0.007),
        (4, 1, 16, 0.02, 0.007),
        (8, 3, 64, 0.10, 0.007),
        (8, 2, 64, 0.10, 0.010),
    ] {
        check(Setting { r, c, code: Code::Linear { window: 32 } }, members, loss, within);
    }
}
