use std::sync::Arc;

use bytes::Bytes;
use paceline_proto::core::{Lane, NodeId};
use paceline_proto::graphshare::{
    EditFault, EditOutcome, GraphMessage, GraphPlan, Holding, OpenRequest, OwnRow, PartChunk,
    PartPosition, TransferReply, VertexChange, VertexTransfer,
};
use paceline_proto::walk::{
    Barrier, Chance, Ended, Head, Kind, Length, Message, NOWHERE, Node2Vec, Stop, Trail, Traveller,
    Vertex, Walker,
};

use super::{Draw, Source};

/// A vertex: mostly one that there is.
fn vertex(source: &mut Source<'_>) -> Vertex {
    let vertices = source.known.vertices;
    match source.rng.below(8) {
        0 => source.half(),
        1 => vertices,
        _ => source.rng.below(vertices),
    }
}

fn node(source: &mut Source<'_>) -> NodeId {
    source.member().node
}

fn plan(source: &mut Source<'_>) -> u64 {
    if source.rng.chance(0.3) { source.word() } else { source.known.plan }
}

fn trail(source: &mut Source<'_>) -> Trail {
    source.one_of(&[Trail::None, Trail::Vertices, Trail::Versions])
}

/// Steps that were taken: few, since paths tell of each.
fn steps(source: &mut Source<'_>) -> u32 {
    source.rng.below(6)
}

fn path(source: &mut Source<'_>, trail: Trail, steps: u32) -> Vec<Vertex> {
    (0..trail.words() * steps as usize).map(|_| vertex(source)).collect()
}

fn kind(source: &mut Source<'_>) -> Kind {
    match source.rng.below(5) {
        0 => Kind::Uniform,
        1 => Kind::Weighted,
        2 => {
            let (p, q) = (source.one_of(&[0.05, 1.0, 20.0]), source.one_of(&[0.05, 1.0, 20.0]));
            Kind::Node2Vec(Node2Vec::new(p, q).expect("both are in range"))
        }
        3 => {
            let labels = source.rng.below(3) as usize + 1;
            Kind::Metapath(Arc::from(&[0, 1, 200][..labels]))
        }
        _ => Kind::Restart(Chance::from_parts(source.word())),
    }
}

fn walkers(source: &mut Source<'_>) -> Message {
    let head = Head {
        home: node(source),
        job: source.word(),
        plan: plan(source),
        kind: kind(source),
        trail: trail(source),
    };
    let traveller = |source: &mut Source<'_>| {
        let steps = steps(source);
        let steps_left = match source.rng.below(3) {
            0 => source.known.steps_max.min(Length::STEPS_MAX - steps),
            _ => source.rng.below(20),
        };
        let is_node2vec = matches!(head.kind, Kind::Node2Vec(_));
        let only = |is_told: bool, vertex: Vertex| if is_told { vertex } else { NOWHERE };
        let walker = Walker {
            source: only(matches!(head.kind, Kind::Restart(_)), vertex(source)),
            at: vertex(source),
            previous: only(is_node2vec, vertex(source)),
            candidate: only(is_node2vec, vertex(source)),
            steps,
            steps_left,
            state: source.rng.next_u64(),
        };
        let drawn = if is_node2vec && head.trail == Trail::Versions { source.half() } else { 0 };
        Traveller {
            token: source.word(),
            walker,
            path: path(source, head.trail, steps),
            drawn,
            is_marked: source.flag(),
            detours: source.rng.below(64) as u8,
        }
    };
    let count = 1 + source.rng.below(3);
    let walkers = (0..count).map(|_| traveller(source)).collect();
    Message::Walkers { head: Arc::new(head), walkers }
}

fn ended(source: &mut Source<'_>) -> Message {
    let trail = trail(source);
    let walk = |source: &mut Source<'_>| {
        let steps = steps(source);
        Ended {
            token: source.word(),
            at: vertex(source),
            steps,
            stop: if source.flag() { Stop::Length } else { Stop::DeadEnd },
            is_marked: source.flag(),
            path: path(source, trail, steps),
        }
    };
    let count = 1 + source.rng.below(3);
    let walks = (0..count).map(|_| walk(source)).collect();
    Message::Ended { job: source.word(), trail, walks }
}

fn position(source: &mut Source<'_>) -> PartPosition {
    PartPosition { vertex: vertex(source), edge: source.half() }
}

fn open(source: &mut Source<'_>) -> GraphMessage {
    let servers = 1 + source.rng.below(4);
    let plan = GraphPlan {
        id: source.word(),
        vertices: source.half(),
        is_weighted: source.flag(),
        is_labelled: source.flag(),
        servers: (0..servers).map(|_| (node(source), Bytes::new())).collect(),
        pass: None,
    };
    GraphMessage::Open(OpenRequest { plan, replaces: source.flag() })
}

fn chunk(source: &mut Source<'_>) -> PartChunk {
    let edges = source.rng.below(4) as usize;
    let (is_weighted, is_labelled) = (source.flag(), source.flag());
    let weights = if is_weighted { edges } else { 0 };
    let labels = if is_labelled { edges } else { 0 };
    PartChunk {
        from: position(source),
        owners: source.some(4, |source| source.half() as u16),
        degrees: source.some(4, Source::half),
        is_cut: source.flag(),
        moved: source.some(2, |source| (vertex(source), source.half())),
        targets: (0..edges).map(|_| vertex(source)).collect(),
        weights: (0..weights).map(|_| weight(source)).collect(),
        labels: (0..labels).map(|_| source.half() as u8).collect(),
    }
}

fn weight(source: &mut Source<'_>) -> f32 {
    source.one_of(&[0.0, 1.0, -1.0, f32::MAX, f32::INFINITY])
}

fn change(source: &mut Source<'_>) -> VertexChange {
    match source.rng.below(4) {
        0 => VertexChange::Set {
            to: vertex(source),
            weight: weight(source),
            label: source.half() as u8,
        },
        1 => VertexChange::Cut { to: vertex(source) },
        2 => VertexChange::Clear,
        _ => VertexChange::Move { to: source.half() as u16 },
    }
}

fn outcome(source: &mut Source<'_>) -> EditOutcome {
    match source.rng.below(4) {
        0 => EditOutcome::Done(source.half()),
        1 => EditOutcome::Elsewhere(node(source), source.half()),
        2 => EditOutcome::Busy,
        _ => EditOutcome::Refused(source.one_of(&[
            EditFault::Weight,
            EditFault::Label,
            EditFault::Fixed,
            EditFault::TooLong,
            EditFault::Full,
            EditFault::NoSuchServer,
        ])),
    }
}

fn transfer(source: &mut Source<'_>) -> VertexTransfer {
    let targets: Vec<Vertex> = source.some(4, vertex);
    VertexTransfer {
        vertex: vertex(source),
        epoch: source.half(),
        version: source.half(),
        row: OwnRow::of(&targets, None, None),
    }
}

fn graph_message(source: &mut Source<'_>) -> GraphMessage {
    match source.rng.below(11) {
        0 => open(source),
        1 => GraphMessage::Chunk(chunk(source)),
        2 => GraphMessage::Ask,
        3 => GraphMessage::Who,
        4 => GraphMessage::Here(Bytes::from_static(b"nowhere")),
        5 => GraphMessage::Held(match source.rng.below(4) {
            0 => Holding::Until(position(source)),
            1 => Holding::Whole,
            2 => Holding::Other(source.word()),
            _ => Holding::Refused,
        }),
        6 => {
            let mut edits = source.some(3, |source| (vertex(source), change(source)));
            edits.push((vertex(source), change(source)));
            GraphMessage::Edits(source.word(), edits)
        }
        7 => {
            let mut outcomes = source.some(3, outcome);
            outcomes.push(outcome(source));
            GraphMessage::Edited(source.word(), outcomes)
        }
        8 => GraphMessage::Give(transfer(source)),
        9 => GraphMessage::Received(
            vertex(source),
            match source.rng.below(3) {
                0 => TransferReply::Taken(source.half()),
                1 => TransferReply::Moves(source.half()),
                _ => TransferReply::Refused,
            },
        ),
        _ => {
            let mut places = source.some(3, |source| (vertex(source), node(source), source.half()));
            places.push((vertex(source), node(source), source.half()));
            GraphMessage::Moved(places)
        }
    }
}

fn barrier(source: &mut Source<'_>) -> Barrier {
    let superstep = source.half();
    match source.rng.below(3) {
        0 => Barrier::Ready { superstep, left: source.word() },
        1 => Barrier::Go { superstep },
        _ => Barrier::Sent { superstep, walkers: source.word() },
    }
}

impl Draw for Message {
    fn draw(source: &mut Source<'_>) -> Message {
        match source.rng.below(8) {
            0..2 => walkers(source),
            2..4 => ended(source),
            4..7 => Message::Graph(plan(source), Box::new(graph_message(source))),
            _ => Message::Barrier(barrier(source)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Message::Walkers { .. } => "lie_walk_walkers",
            Message::Ended { .. } => "lie_walk_ended",
            Message::Barrier(Barrier::Ready { .. }) => "lie_walk_ready",
            Message::Barrier(Barrier::Go { .. }) => "lie_walk_go",
            Message::Barrier(Barrier::Sent { .. }) => "lie_walk_sent",
            Message::Graph(_, message) => match &**message {
                GraphMessage::Open(..) => "lie_walk_open",
                GraphMessage::Chunk(_) => "lie_walk_chunk",
                GraphMessage::Ask => "lie_walk_ask",
                GraphMessage::Who => "lie_walk_who",
                GraphMessage::Here(_) => "lie_walk_here",
                GraphMessage::Held(_) => "lie_walk_held",
                GraphMessage::Edits(..) => "lie_walk_edits",
                GraphMessage::Edited(..) => "lie_walk_edited",
                GraphMessage::Give(_) => "lie_walk_give",
                GraphMessage::Received(..) => "lie_walk_received",
                GraphMessage::Moved(_) => "lie_walk_moved",
            },
        }
    }

    fn kinds() -> Vec<&'static str> {
        vec![
            "lie_walk_walkers",
            "lie_walk_ended",
            "lie_walk_ready",
            "lie_walk_go",
            "lie_walk_sent",
            "lie_walk_open",
            "lie_walk_chunk",
            "lie_walk_ask",
            "lie_walk_who",
            "lie_walk_here",
            "lie_walk_held",
            "lie_walk_edits",
            "lie_walk_edited",
            "lie_walk_give",
            "lie_walk_received",
            "lie_walk_moved",
        ]
    }

    fn lane(&self) -> Lane {
        let is_on_stream = match self {
            Message::Walkers { .. } | Message::Ended { .. } => false,
            Message::Barrier(_) => true,
            Message::Graph(_, message) => !matches!(
                **message,
                GraphMessage::Ask
                    | GraphMessage::Who
                    | GraphMessage::Here(_)
                    | GraphMessage::Held(_)
            ),
        };
        if is_on_stream { Lane::Stream } else { Lane::Datagram }
    }
}
