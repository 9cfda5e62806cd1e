//! The encoding of messages about the graph.

use bytes::Bytes;

use super::*;
use crate::core::NodeId;
use crate::core::laws::hex;
use crate::graphshare::{
    EditFault, EditOutcome, GraphPlan, Holding, OpenRequest, OwnRow, PartChunk, PartPosition,
    TransferReply, VertexChange, VertexTransfer,
};

#[test]
fn ways_to_pass_that_are_out_of_range_are_refused() {
    let servers = vec![(NodeId(0), Bytes::new())];
    let plan = |pass| GraphPlan {
        id: 1,
        vertices: 3,
        is_weighted: false,
        is_labelled: false,
        servers: servers.clone(),
        pass: Some(pass),
    };
    let decoded = |pass: PassConfig| {
        let message = Message::Graph(
            1,
            Box::new(GraphMessage::Open(OpenRequest { plan: plan(pass), replaces: false })),
        );
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

/// GraphMessage messages about the graph of plan 1.
fn said() -> Vec<GraphMessage> {
    let position = PartPosition { vertex: 2, edge: 3 };
    let queue = QueueConfig::paper();
    let plan = GraphPlan {
        id: 1,
        vertices: 300,
        is_weighted: true,
        is_labelled: false,
        servers: vec![(NodeId(4), Bytes::from_static(b"here")), (NodeId(5), Bytes::new())],
        pass: Some(PassConfig { queue, bundle: BundleConfig::default() }),
    };
    let chunk = PartChunk {
        from: position,
        owners: vec![0, 1],
        degrees: vec![2],
        is_cut: true,
        moved: vec![(6, 7)],
        targets: vec![8, 9],
        weights: vec![0.5, 2.0],
        labels: vec![10, 11],
    };
    let row = OwnRow::of(&[8, 9], None, Some(&[10, 11]));
    let edits = vec![
        (1, VertexChange::Set { to: 2, weight: 0.5, label: 3 }),
        (4, VertexChange::Cut { to: 5 }),
        (6, VertexChange::Clear),
        (7, VertexChange::Move { to: 8 }),
    ];
    let outcomes = vec![
        EditOutcome::Done(1),
        EditOutcome::Elsewhere(NodeId(2), 3),
        EditOutcome::Busy,
        EditOutcome::Refused(EditFault::NoSuchServer),
    ];
    vec![
        GraphMessage::Open(OpenRequest { plan: plan.clone(), replaces: true }),
        GraphMessage::Open(OpenRequest { plan: GraphPlan { pass: None, ..plan }, replaces: false }),
        GraphMessage::Chunk(chunk),
        GraphMessage::Ask,
        GraphMessage::Who,
        GraphMessage::Here(Bytes::from_static(b"here")),
        GraphMessage::Held(Holding::Until(position)),
        GraphMessage::Held(Holding::Whole),
        GraphMessage::Held(Holding::Other(4)),
        GraphMessage::Held(Holding::Refused),
        GraphMessage::Edits(1, edits),
        GraphMessage::Edited(1, outcomes),
        GraphMessage::Give(VertexTransfer { vertex: 1, epoch: 2, version: 3, row }),
        GraphMessage::Received(1, TransferReply::Taken(2)),
        GraphMessage::Received(1, TransferReply::Moves(2)),
        GraphMessage::Received(1, TransferReply::Refused),
        GraphMessage::Moved(vec![(1, NodeId(2), 3)]),
    ]
}

#[test]
fn the_encoding_is_what_it_always_was() {
    let forms: Vec<String> = said().into_iter().map(|upkeep| hex(&of_plan(upkeep))).collect();
    assert_eq!(forms, GOLDEN.map(|form| format!("730000000000000001{}", form.replace(' ', ""))));
}

fn of_plan(upkeep: GraphMessage) -> Message {
    Message::Graph(1, Box::new(upkeep))
}

const GOLDEN: [&str; 17] = [
    "0000000000000000010000012c0d0100000005000000643fb999999999999a3ff000000000000000000000 \
     640400000000c8000200000000000000040468657265000000000000000500",
    "0000000000000000010000012c01000200000000000000040468657265000000000000000500",
    "01000000020000000300020001000100000002070000000100000002000000060000000700000008000000 \
     093f000000400000000a0b",
    "02",
    "09",
    "0a0468657265",
    "03000000000200000003",
    "0301",
    "03020000000000000004",
    "0303",
    "04000000000000000100040000000100000000023f00000003000000040100000005000000060200000007 \
     030008",
    "0500000000000000010004000000000101000000000000000200000003020305",
    "06000000010000000200000003020000000200000008000000090a0b",
    "07000000010000000002",
    "07000000010100000002",
    "070000000102",
    "08000100000001000000000000000200000003",
];
