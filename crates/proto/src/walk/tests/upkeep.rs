//! What is said of the graph, in bytes: anything that may be said.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::upkeep::FAULTS;
use super::*;
use crate::core::NodeId;

fn node() -> impl Strategy<Value = NodeId> {
    any::<u32>().prop_map(NodeId)
}

fn address() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=64).prop_map(Bytes::from)
}

fn position() -> impl Strategy<Value = Position> {
    (any::<u32>(), any::<u32>()).prop_map(|(vertex, edge)| Position { vertex, edge })
}

fn weight() -> impl Strategy<Value = f32> {
    // What is not a number is not equal to itself, and survives all the same.
    any::<u32>().prop_map(f32::from_bits).prop_filter("a number", |weight| !weight.is_nan())
}

fn row() -> impl Strategy<Value = OwnRow> {
    let edges = vec((any::<u32>(), 0.0..1e6f32, any::<u8>()), 0..20);
    (edges, any::<bool>(), any::<bool>()).prop_map(|(mut edges, is_weighted, is_labelled)| {
        edges.sort_by_key(|edge| edge.0);
        let targets: Vec<u32> = edges.iter().map(|edge| edge.0).collect();
        let weights: Vec<f32> = edges.iter().map(|edge| edge.1).collect();
        let labels: Vec<u8> = edges.iter().map(|edge| edge.2).collect();
        OwnRow::of(&targets, is_weighted.then_some(&*weights), is_labelled.then_some(&*labels))
    })
}

fn chunk() -> impl Strategy<Value = Chunk> {
    let edges = vec((any::<u32>(), weight(), any::<u8>()), 0..20);
    let moved = vec((any::<u32>(), any::<u32>()), 0..20);
    let lists = (vec(any::<u16>(), 0..20), vec(any::<u32>(), 0..20), moved, edges);
    (position(), lists, any::<[bool; 3]>()).prop_map(|(from, lists, [is_cut, weights, labels])| {
        let (owners, degrees, moved, edges) = lists;
        Chunk {
            from,
            owners,
            degrees,
            is_cut,
            moved,
            targets: edges.iter().map(|edge| edge.0).collect(),
            weights: edges.iter().filter(|_| weights).map(|edge| edge.1).collect(),
            labels: edges.iter().filter(|_| labels).map(|edge| edge.2).collect(),
        }
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<u32>(), weight(), any::<u8>()).prop_map(|(to, weight, label)| Change::Set {
            to,
            weight,
            label
        }),
        any::<u32>().prop_map(|to| Change::Cut { to }),
        Just(Change::Clear),
        any::<u16>().prop_map(|to| Change::Move { to }),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u32>().prop_map(Outcome::Done),
        (node(), any::<u32>()).prop_map(|(owner, epoch)| Outcome::Elsewhere(owner, epoch)),
        Just(Outcome::Busy),
        proptest::sample::select(&FAULTS[..]).prop_map(Outcome::Refused),
    ]
}

fn reception() -> impl Strategy<Value = Reception> {
    prop_oneof![
        any::<u32>().prop_map(Reception::Taken),
        any::<u32>().prop_map(Reception::Moves),
        Just(Reception::Refused),
    ]
}

fn pass() -> impl Strategy<Value = PassConfig> {
    let discipline = proptest::sample::select(vec![
        Discipline::TailDrop,
        Discipline::RedDrop,
        Discipline::RedMark,
    ]);
    let numbers = (0..1000usize, 1..1000usize, 1..=1usize << 24, 1..=1024usize, 0..=1_000_000u64);
    (discipline, numbers, 0.0..=1.0, 0.01..=1.0, any::<bool>()).prop_map(
        |(discipline, (min_th, more, limit, walkers_max, micros), max_p, weight, is_gentle)| {
            let max_th = min_th + more;
            let queue = QueueConfig { discipline, min_th, max_th, max_p, weight, is_gentle, limit };
            let deadline = std::time::Duration::from_micros(micros);
            PassConfig { queue, bundle: BundleConfig { walkers_max, deadline } }
        },
    )
}

/// Anything that may be said of a graph.
pub(super) fn upkeep() -> impl Strategy<Value = Upkeep> {
    let servers = vec((node(), address()), 1..6);
    let plan = (any::<[u32; 3]>(), any::<[bool; 3]>(), servers, proptest::option::of(pass()));
    let open = plan.prop_map(|(numbers, [is_weighted, is_labelled, replaces], servers, pass)| {
        let id = u64::from(numbers[0]) << 32 | u64::from(numbers[1]);
        let vertices = numbers[2];
        Upkeep::Open(Plan { id, vertices, is_weighted, is_labelled, servers, pass }, replaces)
    });
    let holding = prop_oneof![
        position().prop_map(Holding::Until),
        Just(Holding::Whole),
        any::<u64>().prop_map(Holding::Other),
        Just(Holding::Refused),
    ];
    let given = (any::<[u32; 3]>(), row()).prop_map(|([vertex, epoch, version], row)| {
        Upkeep::Give(Given { vertex, epoch, version, row })
    });
    let moved = vec((any::<u32>(), node(), any::<u32>()), 1..20).prop_map(Upkeep::Moved);
    prop_oneof![
        open,
        chunk().prop_map(Upkeep::Chunk),
        Just(Upkeep::Ask),
        Just(Upkeep::Who),
        address().prop_map(Upkeep::Here),
        holding.prop_map(Upkeep::Held),
        (any::<u64>(), vec((any::<u32>(), change()), 1..20))
            .prop_map(|(batch, edits)| Upkeep::Edits(batch, edits)),
        (any::<u64>(), vec(outcome(), 1..20))
            .prop_map(|(batch, outcomes)| Upkeep::Edited(batch, outcomes)),
        given,
        (any::<u32>(), reception())
            .prop_map(|(vertex, reception)| Upkeep::Received(vertex, reception)),
        moved,
    ]
}

#[test]
fn ways_to_pass_that_are_out_of_range_are_refused() {
    let servers = vec![(NodeId(0), Bytes::new())];
    let plan = |pass| Plan {
        id: 1,
        vertices: 3,
        is_weighted: false,
        is_labelled: false,
        servers: servers.clone(),
        pass: Some(pass),
    };
    let decoded = |pass: PassConfig| {
        let message = Message::Upkeep(1, Box::new(Upkeep::Open(plan(pass), false)));
        crate::core::decode_exact::<Message>(crate::core::encode_to_bytes(&message))
    };
    let queue = QueueConfig::paper();
    let bundle = BundleConfig::default();
    assert!(decoded(PassConfig { queue, bundle }).is_ok());
    let wrong = [
        PassConfig { queue: QueueConfig { max_p: f64::NAN, ..queue }, bundle },
        PassConfig { queue: QueueConfig { max_p: 1.5, ..queue }, bundle },
        PassConfig { queue: QueueConfig { weight: 0.0, ..queue }, bundle },
        PassConfig { queue: QueueConfig { min_th: 100, ..queue }, bundle },
        PassConfig { queue: QueueConfig { limit: 0, ..queue }, bundle },
        PassConfig { queue, bundle: BundleConfig { walkers_max: 0, ..bundle } },
        PassConfig {
            queue,
            bundle: BundleConfig { deadline: std::time::Duration::from_secs(2), ..bundle },
        },
    ];
    for pass in wrong {
        assert!(decoded(pass).is_err(), "{pass:?}");
    }
}
