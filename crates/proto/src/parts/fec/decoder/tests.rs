//! The decoder against plain elimination and plain peeling, and its rules one by one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::core::Rng;
use crate::parts::fec::Window;

/// An owner of packets: what it has, and a decoder for the rest.
struct Receiver {
    decoder: Decoder<u32>,
    packets: BTreeMap<u32, Payload>,
    recovered: BTreeSet<u32>,
}

/// A repair on the wire.
#[derive(Clone, Debug)]
struct Repair {
    ids: Vec<u32>,
    seed: u32,
    coded: Coded,
}

impl Receiver {
    fn new(method: Method, bounds: Bounds) -> Receiver {
        let decoder = Decoder::new(method, bounds);
        Receiver { decoder, packets: BTreeMap::new(), recovered: BTreeSet::new() }
    }

    fn repair(&mut self, repair: &Repair) -> Added {
        let mut recovered = Vec::new();
        let known = |id| self.packets.get(&id);
        let Repair { ids, seed, coded } = repair;
        let added = self.decoder.add_repair(ids, *seed, coded, known, &mut recovered);
        self.take(recovered);
        added
    }

    fn packet(&mut self, id: u32, packet: Payload) {
        let mut recovered = Vec::new();
        self.decoder.add_packet(id, &packet, &mut recovered);
        self.packets.insert(id, packet);
        self.take(recovered);
    }

    fn take(&mut self, recovered: Vec<(u32, Payload)>) {
        for (id, packet) in recovered {
            assert_eq!(packet, original(id), "packet {id} is not what was lost");
            assert_eq!(self.packets.insert(id, packet), None, "{id} was there already");
            self.recovered.insert(id);
        }
    }
}

/// The packet of that name. Every fifth is zeros.
fn original(id: u32) -> Payload {
    let mut rng = Rng::new(u64::from(id), 7);
    let len = rng.below(40);
    if id.is_multiple_of(5) {
        return Payload::Zeros(len);
    }
    Payload::from((0..len).map(|_| rng.next_u32() as u8).collect::<Vec<_>>())
}

fn repair(ids: &[u32], seed: u32) -> Repair {
    let mut sum = Sum::default();
    for (&id, coefficient) in ids.iter().zip(Coefficients::new(seed)) {
        sum.add_times(&original(id), coefficient);
    }
    Repair { ids: ids.to_vec(), seed, coded: sum.take_coded() }
}

/// What can be known of `missing` by elimination over a whole matrix, a column for each packet.
fn determined(repairs: &[Repair], missing: &BTreeSet<u32>) -> BTreeSet<u32> {
    let columns: Vec<u32> = missing.iter().copied().collect();
    let mut rows: Vec<Vec<u8>> = repairs
        .iter()
        .map(|repair| {
            let mut row = vec![0; columns.len()];
            for (id, coefficient) in repair.ids.iter().zip(Coefficients::new(repair.seed)) {
                if let Ok(column) = columns.binary_search(id) {
                    row[column] ^= coefficient;
                }
            }
            row
        })
        .collect();
    let mut rank = 0;
    for column in 0..columns.len() {
        let Some(pivot) = (rank..rows.len()).find(|&row| rows[row][column] != 0) else { continue };
        rows.swap(rank, pivot);
        let inverse = gf256::inverse(rows[rank][column]).unwrap();
        rows[rank].iter_mut().for_each(|entry| *entry = gf256::multiply(*entry, inverse));
        let lead = rows[rank].clone();
        for (number, row) in rows.iter_mut().enumerate() {
            let times = row[column];
            if number != rank && times != 0 {
                gf256::multiply_add(row, &lead, times);
            }
        }
        rank += 1;
    }
    let alone = |row: &Vec<u8>| {
        let mut places = (0..row.len()).filter(|&column| row[column] != 0);
        places.next().filter(|_| places.next().is_none())
    };
    rows.iter().filter_map(alone).map(|column| columns[column]).collect()
}

/// What can be known of `missing` by repairs that miss one packet.
fn peeled(repairs: &[Repair], missing: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut left = missing.clone();
    loop {
        let lacks = |repair: &Repair| {
            let mut lacks = repair.ids.iter().filter(|id| left.contains(id));
            lacks.next().filter(|_| lacks.next().is_none()).copied()
        };
        let Some(id) = repairs.iter().find_map(lacks) else { break };
        left.remove(&id);
    }
    missing.difference(&left).copied().collect()
}

#[derive(Clone, Debug)]
enum Arrival {
    Repair(Repair),
    Packet(u32),
}

/// Packets 0 to 23: the lost ones, the late ones among them, and repairs of some.
fn arrivals() -> impl Strategy<Value = (BTreeSet<u32>, Vec<Arrival>)> {
    let ids = proptest::collection::btree_set(0u32..24, 1..10);
    let repairs = (ids, 0u32..60, any::<u64>()).prop_map(|(ids, seed, order)| {
        // Peers name them in different orders; a third of the repairs are exclusive ors.
        let mut ids: Vec<u32> = ids.into_iter().collect();
        let mut rng = Rng::new(order, 1);
        (1..ids.len()).rev().for_each(|last| ids.swap(last, rng.below(last as u32 + 1) as usize));
        Arrival::Repair(repair(&ids, seed.saturating_sub(20)))
    });
    let late = (0u32..24).prop_map(Arrival::Packet);
    let arrival = prop_oneof![5 => repairs, 1 => late];
    let lost = proptest::collection::btree_set(0u32..24, 0..16);
    (lost, proptest::collection::vec(arrival, 0..30))
}

proptest! {
    #[test]
    fn exactly_what_is_determined_is_recovered((lost, arrivals) in arrivals()) {
        for method in [Method::Peel, Method::Eliminate] {
            let mut receiver = Receiver::new(method, Bounds::default());
            (0..24).filter(|id| !lost.contains(id)).for_each(|id| {
                receiver.packet(id, original(id));
            });
            let (mut repairs, mut missing) = (Vec::new(), lost.clone());
            for arrival in &arrivals {
                match arrival {
                    Arrival::Repair(repair) => {
                        receiver.repair(repair);
                        repairs.push(repair.clone());
                    }
                    Arrival::Packet(id) => {
                        if receiver.packets.contains_key(id) {
                            continue;
                        }
                        receiver.packet(*id, original(*id));
                        missing.remove(id);
                    }
                }
                // A repair counts from the packets that were missing when anything arrived after
                // it, so the oracle sees all of them at every step.
                let expected = match method {
                    Method::Peel => peeled(&repairs, &missing),
                    Method::Eliminate => determined(&repairs, &missing),
                };
                prop_assert_eq!(&receiver.recovered, &expected, "{:?}", method);
            }
            prop_assert_eq!(receiver.decoder.contradictions(), 0);
        }
    }

    #[test]
    fn bounds_hold_and_what_comes_out_is_right((lost, arrivals) in arrivals()) {
        for method in [Method::Peel, Method::Eliminate] {
            let bounds = Bounds { equations_max: 4, unknowns_max: 6, bytes_max: 100 };
            let mut receiver = Receiver::new(method, bounds);
            (0..24).filter(|id| !lost.contains(id)).for_each(|id| {
                receiver.packet(id, original(id));
            });
            for arrival in &arrivals {
                match arrival {
                    Arrival::Repair(repair) => _ = receiver.repair(repair),
                    Arrival::Packet(id) if receiver.packets.contains_key(id) => {}
                    Arrival::Packet(id) => receiver.packet(*id, original(*id)),
                }
                let decoder = &receiver.decoder;
                prop_assert!(decoder.equations() <= 4 && decoder.bytes() <= 100);
                prop_assert!(decoder.ages.len() <= 6);
            }
        }
    }

    #[test]
    fn to_forget_a_packet_loses_nothing_about_others(
        (lost, arrivals) in arrivals(),
        forgotten in 0u32..24,
        when in 0usize..30,
    ) {
        // Without the packet, an equation in which it is says nothing by itself; two of them make
        // one without it. That is what elimination of a column leaves, and so does the decoder.
        let repairs: Vec<Repair> = arrivals
            .iter()
            .filter_map(|arrival| match arrival {
                Arrival::Repair(repair) => Some(repair.clone()),
                Arrival::Packet(_) => None,
            })
            .collect();
        let (before, after) = repairs.split_at(when.min(repairs.len()));
        prop_assume!(!after.iter().any(|repair| repair.ids.contains(&forgotten)));
        let mut receiver = Receiver::new(Method::Eliminate, Bounds::default());
        (0..24).filter(|id| !lost.contains(id)).for_each(|id| {
            receiver.packet(id, original(id));
        });
        before.iter().for_each(|repair| _ = receiver.repair(repair));
        let known_before = receiver.recovered.contains(&forgotten);
        receiver.decoder.forget(forgotten);
        after.iter().for_each(|repair| _ = receiver.repair(repair));
        let mut expected = determined(&repairs, &lost);
        if !known_before {
            expected.remove(&forgotten);
        }
        prop_assert_eq!(&receiver.recovered, &expected);
    }
}

#[test]
fn two_repairs_of_the_same_two_packets_recover_both_by_elimination_only() {
    let repairs = [repair(&[1, 2, 3], 9), repair(&[1, 2, 3], 10)];
    for (method, expected) in [(Method::Eliminate, 2), (Method::Peel, 0)] {
        let mut receiver = Receiver::new(method, Bounds::default());
        receiver.packet(3, original(3));
        assert_eq!(receiver.repair(&repairs[0]), Added::Used);
        assert_eq!(receiver.recovered.len(), 0);
        assert_eq!(receiver.repair(&repairs[1]), Added::Used);
        assert_eq!(receiver.recovered.len(), expected, "{method:?}");
    }
}

#[test]
fn a_repair_is_told_apart_by_what_it_adds() {
    let bounds = Bounds { unknowns_max: 3, ..Bounds::default() };
    let mut receiver = Receiver::new(Method::Eliminate, bounds);
    receiver.packet(1, original(1));
    assert_eq!(receiver.repair(&repair(&[1], 3)), Added::NothingMissing);
    assert_eq!(receiver.repair(&repair(&[1, 2, 3], 3)), Added::Used);
    assert_eq!(receiver.repair(&repair(&[1, 2, 3], 3)), Added::Redundant);
    assert_eq!(receiver.repair(&repair(&[2, 3, 4, 6], 3)), Added::TooManyMissing);
    assert_eq!(receiver.decoder.equations(), 1);
    // An empty repair, and one that names a packet twice: its two terms cancel.
    assert_eq!(receiver.repair(&repair(&[], 3)), Added::NothingMissing);
    assert_eq!(receiver.repair(&repair(&[7, 7], Coefficients::XOR)), Added::Redundant);
}

#[test]
fn the_oldest_unknown_goes_first() {
    for method in [Method::Peel, Method::Eliminate] {
        let bounds = Bounds { equations_max: 2, ..Bounds::default() };
        let mut receiver = Receiver::new(method, bounds);
        for first in [1, 11, 21] {
            receiver.repair(&repair(&[first, first + 1], 5));
        }
        assert_eq!((receiver.decoder.equations(), receiver.decoder.evicted()), (2, 1));
        for first in [1, 11, 21] {
            receiver.packet(first, original(first));
        }
        let recovered: Vec<u32> = receiver.recovered.iter().copied().collect();
        assert_eq!(recovered, [12, 22], "{method:?}");
    }
}

/// When an unknown goes, an equation's sum may be added to others', which grow.
#[test]
fn sums_that_grow_with_a_packet_or_without_one_keep_to_the_bounds() {
    let add = |decoder: &mut Decoder<u32>, ids: &[u32], len| {
        let coded = Coded { lengths: len, body: Payload::Zeros(len) };
        decoder.add_repair(ids, Coefficients::XOR, &coded, |_| None, &mut Vec::new());
    };
    // It has missed 1, 2, 3, 5 and 6, in this order, and has no equation.
    let decoder = || {
        let bounds = Bounds { bytes_max: 100, ..Bounds::default() };
        let mut decoder = Decoder::new(Method::Eliminate, bounds);
        add(&mut decoder, &[9, 1, 2, 3, 5, 6], 10);
        decoder.forget(9);
        decoder
    };
    // Without 1, which is long, 5 leads the first equation and is taken out of the second.
    let mut arrived = decoder();
    add(&mut arrived, &[1, 5, 6], 60);
    add(&mut arrived, &[2, 5], 10);
    assert_eq!((arrived.equations(), arrived.bytes()), (2, 70));
    arrived.add_packet(1, &Payload::Zeros(60), &mut Vec::new());
    assert_eq!((arrived.equations(), arrived.bytes(), arrived.evicted()), (1, 60, 1));
    // 5 is taken out of the others with the last equation, which is long.
    let mut given_up = decoder();
    add(&mut given_up, &[1, 5], 10);
    add(&mut given_up, &[2, 5], 10);
    add(&mut given_up, &[3, 5], 60);
    assert_eq!((given_up.equations(), given_up.bytes()), (3, 80));
    given_up.forget(5);
    assert_eq!((given_up.equations(), given_up.bytes(), given_up.evicted()), (1, 60, 1));
}

#[test]
fn a_wrong_sum_recovers_nothing_and_is_counted() {
    for seed in [0, 4] {
        let mut receiver = Receiver::new(Method::Eliminate, Bounds::default());
        let mut wrong = repair(&[1, 2], seed);
        receiver.packet(1, original(1));
        wrong.coded.lengths ^= 0x8000_0000;
        assert_eq!(receiver.repair(&wrong), Added::Used);
        assert_eq!(receiver.decoder.contradictions(), 1);
        assert!(receiver.recovered.is_empty());
        // The right one still does.
        receiver.repair(&repair(&[1, 2], seed));
        assert_eq!(receiver.recovered.len(), 1);
    }
}

#[test]
fn zeros_are_decoded_without_bytes_in_memory() {
    let mut window = Window::new(8);
    let mut sum = Sum::default();
    (0..12u32).for_each(|id| window.push(id, Payload::Zeros(1_000 + id)));
    let ids: Vec<u32> = window.ids().collect();
    assert_eq!(ids, [4, 5, 6, 7, 8, 9, 10, 11]);
    let mut decoder = Decoder::new(Method::Eliminate, Bounds::default());
    let packets: BTreeMap<u32, Payload> =
        (0..8).map(|id| (id, Payload::Zeros(1_000 + id))).collect();
    let mut recovered = Vec::new();
    for seed in 1..=4 {
        window.add_to(&mut sum, seed);
        let coded = sum.take_coded();
        assert!(matches!(coded.body, Payload::Zeros(1_011)));
        decoder.add_repair(&ids, seed, &coded, |id| packets.get(&id), &mut recovered);
        let bytes = if seed < 4 { seed as usize * 1_011 } else { 0 };
        assert_eq!(decoder.bytes(), bytes, "counted, though not held");
    }
    recovered.sort_by_key(|(id, _)| *id);
    let lens: Vec<_> = recovered.iter().map(|(id, packet)| (*id, packet.len())).collect();
    assert_eq!(lens, [(8, 1_008), (9, 1_009), (10, 1_010), (11, 1_011)]);
    assert!(recovered.iter().all(|(_, packet)| matches!(packet, Payload::Zeros(_))));
}
