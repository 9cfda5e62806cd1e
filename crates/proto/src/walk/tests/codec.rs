//! Messages in bytes: what survives, what is refused, and the very bytes.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::message::{DETOURS_MAX, MESSAGE_BYTES_MAX};
use super::*;
use crate::core::laws::{self, hex};
use crate::core::{DecodeError, NodeId, decode_exact, encode_to_bytes};

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Uniform),
        Just(Kind::Weighted),
        (0.01..100.0, 0.01..100.0)
            .prop_map(|(p, q)| Kind::Node2Vec(Node2Vec::new(p, q).expect("in range"))),
        prop::collection::vec(any::<u8>(), 1..256)
            .prop_map(|labels| Kind::Metapath(Arc::from(labels))),
        any::<u64>().prop_map(|parts| Kind::Restart(Chance::from_parts(parts))),
    ]
}

fn trail() -> impl Strategy<Value = Trail> {
    prop_oneof![Just(Trail::None), Just(Trail::Vertices), Just(Trail::Versions)]
}

fn path(trail: Trail, steps: u32) -> impl Strategy<Value = Vec<Vertex>> {
    let count = trail.words() * steps as usize;
    prop::collection::vec(any::<u32>(), count..=count)
}

/// A walker as it is after decoding: fields that its kind does not need are not encoded.
fn traveller(kind: Kind, trail: Trail) -> impl Strategy<Value = Traveller> {
    let is_node2vec_with_versions = matches!(kind, Kind::Node2Vec(_)) && trail == Trail::Versions;
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>());
    let walker = (numbers, 0..40u32, 0..Length::STEPS_MAX - 40);
    let walker = walker.prop_map(move |((at, source, previous, candidate, state), steps, left)| {
        let only = |is_told: bool, vertex| if is_told { vertex } else { NOWHERE };
        let (is_restart, is_node2vec) =
            (matches!(kind, Kind::Restart(_)), matches!(kind, Kind::Node2Vec(_)));
        Walker {
            source: only(is_restart, source),
            at,
            previous: only(is_node2vec, previous),
            candidate: only(is_node2vec, candidate),
            steps,
            steps_left: left,
            state,
        }
    });
    (walker, any::<u64>(), any::<u32>(), any::<bool>(), 0..=DETOURS_MAX).prop_flat_map(
        move |(walker, token, drawn, is_marked, detours)| {
            let drawn = if is_node2vec_with_versions { drawn } else { 0 };
            path(trail, walker.steps).prop_map(move |path| Traveller {
                token,
                walker,
                path,
                drawn,
                is_marked,
                detours,
            })
        },
    )
}

fn ended(trail: Trail) -> impl Strategy<Value = Ended> {
    let stop = prop_oneof![Just(Stop::Length), Just(Stop::DeadEnd)];
    (any::<u64>(), any::<u32>(), 0..40u32, stop, any::<bool>()).prop_flat_map(
        move |(token, at, steps, stop, is_marked)| {
            path(trail, steps).prop_map(move |path| Ended {
                token,
                at,
                steps,
                stop,
                is_marked,
                path,
            })
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    let names = (any::<u32>(), any::<u64>(), any::<u64>());
    let walkers = (kind(), trail(), names).prop_flat_map(|(kind, trail, (home, job, plan))| {
        let head = Arc::new(Head { home: NodeId::from(home), job, plan, kind, trail });
        let walkers = traveller(head.kind.clone(), trail);
        prop::collection::vec(walkers, 1..6).prop_map(move |walkers| Message::Walkers {
            head: head.clone(),
            walkers: walkers.into(),
        })
    });
    let ended = (trail(), any::<u64>()).prop_flat_map(|(trail, job)| {
        prop::collection::vec(ended(trail), 1..6).prop_map(move |walks| Message::Ended {
            job,
            trail,
            walks: walks.into(),
        })
    });
    let upkeep = (any::<u64>(), laws::any_of::<GraphMessage>());
    let upkeep = upkeep.prop_map(|(plan, upkeep)| Message::Graph(plan, Box::new(upkeep)));
    let barrier = laws::any_of::<Barrier>().prop_map(Message::Barrier);
    prop_oneof![walkers, ended, upkeep, barrier]
}

laws::laws!(Message, message(), 0x70u8..0x76);

fn head(kind: Kind, trail: Trail) -> Arc<Head> {
    Arc::new(Head { home: NodeId(3), job: 0x0102_0304_0506_0708, plan: 5, kind, trail })
}

fn on_its_way() -> Traveller {
    let walker = Walker {
        source: NOWHERE,
        at: 9,
        previous: NOWHERE,
        candidate: NOWHERE,
        steps: 2,
        steps_left: 5,
        state: 0xaabb_ccdd_eeff_0011,
    };
    Traveller {
        token: 0x1122_3344_5566_7788,
        walker,
        path: vec![],
        drawn: 0,
        is_marked: true,
        detours: 3,
    }
}

fn walkers(head: Arc<Head>, traveller: Traveller) -> Message {
    Message::Walkers { head, walkers: smallvec::smallvec![traveller] }
}

#[test]
fn forms_are_these() {
    let going = on_its_way();
    assert_eq!(
        hex(&walkers(head(Kind::Uniform, Trail::None), going.clone())),
        "71000000000000000301020304050607080000000000000005000000011122334455667788\
         0d000000090000000200000005aabbccddeeff0011"
    );
    let path = Traveller { path: vec![7, 9], is_marked: false, detours: 0, ..going.clone() };
    assert_eq!(
        hex(&walkers(head(Kind::Metapath(Arc::from([1, 2, 1])), Trail::Vertices), path)),
        "7100000000000000030102030405060708000000000000000501030301020100011122334455667788\
         00000000090000000200000005aabbccddeeff00110000000700000009"
    );
    let walker = Walker { previous: 7, candidate: 4, ..going.walker };
    let node2vec = Kind::Node2Vec(Node2Vec::new(0.5, 2.0).unwrap());
    assert_eq!(
        hex(&walkers(head(node2vec, Trail::None), Traveller { walker, ..going.clone() })),
        "7100000000000000030102030405060708000000000000000500023fe00000000000004000000000000000\
         000111223344556677880d000000090000000200000005aabbccddeeff00110000000700000004"
    );
    let walker = Walker { source: 1, ..going.walker };
    let restart = Kind::Restart(Chance::new(0.25).unwrap());
    assert_eq!(
        hex(&walkers(head(restart, Trail::None), Traveller { walker, ..going })),
        "710000000000000003010203040506070800000000000000050004400000000000000000011122334455667788\
         0d000000090000000200000005aabbccddeeff001100000001"
    );
    let walk = Ended {
        token: 0x1122_3344_5566_7788,
        at: 9,
        steps: 1,
        stop: Stop::DeadEnd,
        is_marked: true,
        path: vec![9],
    };
    let ended =
        Message::Ended { job: 0xff, trail: Trail::Vertices, walks: smallvec::smallvec![walk] };
    assert_eq!(
        hex(&ended),
        "7200000000000000ff01000111223344556677880300000009000000010000\
         0009"
    );
}

#[test]
fn forms_of_barriers_are_these() {
    let barrier = |barrier| hex(&Message::Barrier(barrier));
    let ready = Barrier::Ready { superstep: 2, left: 0x0102 };
    assert_eq!(barrier(ready), "7400000000020000000000000102");
    assert_eq!(barrier(Barrier::Go { superstep: 3 }), "740100000003");
    assert_eq!(barrier(Barrier::Sent { superstep: 3, walkers: 9 }), "7402000000030000000000000009");
    let unknown = Bytes::from_static(&[0x74, 3, 0, 0, 0, 1]);
    assert_eq!(decode_exact::<Message>(unknown).unwrap_err(), DecodeError::UnknownTag(3));
}

#[test]
fn each_bad_field_has_its_error() {
    let good = encode_to_bytes(&walkers(head(Kind::Uniform, Trail::None), on_its_way()));
    let with = |place: usize, bytes: &[u8]| {
        let mut changed = good.to_vec();
        changed[place..place + bytes.len()].copy_from_slice(bytes);
        decode_exact::<Message>(Bytes::from(changed)).unwrap_err()
    };
    let out_of_range = |field, value| DecodeError::OutOfRange { field, value };
    assert_eq!(with(0, &[0x70]), DecodeError::UnknownTag(0x70));
    assert_eq!(with(25, &[3]), out_of_range("trail", 3));
    assert_eq!(with(26, &[9]), DecodeError::UnknownTag(9));
    assert_eq!(with(26, &[3, 0]), out_of_range("metapath", 0));
    assert_eq!(with(27, &[0, 0]), out_of_range("count", 0));
    assert_eq!(with(27, &[4, 1]), out_of_range("count", 1025));
    assert_eq!(with(27, &[0, 2]), DecodeError::Truncated { need: 58, have: 29 });
    assert_eq!(with(37, &[2]), out_of_range("flags", 2));
    let steps = u64::from(Length::STEPS_MAX) + 1 + 5;
    assert_eq!(with(42, &(Length::STEPS_MAX + 1).to_be_bytes()), out_of_range("steps", steps));
    let node2vec = Kind::Node2Vec(Node2Vec::new(0.5, 2.0).unwrap());
    let mut absurd = encode_to_bytes(&walkers(head(node2vec, Trail::None), on_its_way())).to_vec();
    absurd[27..35].copy_from_slice(&f64::NAN.to_bits().to_be_bytes());
    let error = decode_exact::<Message>(Bytes::from(absurd)).unwrap_err();
    assert_eq!(error, out_of_range("node2vec", f64::NAN.to_bits()));
    let long = Bytes::from(vec![0x71; MESSAGE_BYTES_MAX + 1]);
    let value = MESSAGE_BYTES_MAX as u64 + 1;
    assert_eq!(decode_exact::<Message>(long).unwrap_err(), out_of_range("message", value));
}
