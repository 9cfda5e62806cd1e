//! Messages of servers and clients about the graph, and their encoding.

use bytes::{BufMut, Bytes};

use super::graph::Vertex;
use super::part::{EditOutcome, Owners, TransferReply, VertexTransfer};
use super::rows::{OwnRow, VertexChange};
use super::service::PassConfig;
use crate::core::Rng;
use crate::core::field::{Address, Field, List, fields};
use crate::core::{DecodeError, NodeId, Payload, split, take_u8, take_u16, take_u32, take_u64};

/// Most bytes of a message about the graph.
pub const GRAPH_MESSAGE_BYTES_MAX: usize = 896 << 10;
/// Most edits of a message.
pub const EDITS_MAX: usize = 1024;
/// Most vertices in one report.
pub const VERTICES_MAX: usize = 256;
/// Most bytes of a server's address.
pub(super) const ADDRESS_BYTES_MAX: usize = 64;

/// The description of a graph that precedes its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphPlan {
    /// The identifier of the graph and of the assignment of its vertices. Not 0.
    pub id: u64,
    /// How many vertices there are.
    pub vertices: u32,
    /// Whether edges have weights.
    pub is_weighted: bool,
    /// Whether edges have labels.
    pub is_labelled: bool,
    /// The servers, and where each is, in a form that drivers of sockets read; empty elsewhere.
    pub servers: Vec<(NodeId, Bytes)>,
    /// How walkers of this graph pass the servers; none for what each server is set to.
    pub pass: Option<PassConfig>,
}

fields! {
    /// How far a server's part has come.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct PartPosition {
        /// The next vertex.
        pub vertex: Vertex,
        /// The next edge of its row.
        pub edge: u32,
    }
}

/// A piece of a server's part: the owners of the next vertices, and the edges of its own among
/// these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartChunk {
    /// Where it begins.
    pub from: PartPosition,
    /// For each vertex from there on the place of its server.
    pub owners: Vec<u16>,
    /// For each of them that the receiver has, how many of its edges are in this chunk.
    pub degrees: Vec<u32>,
    /// Whether the last row goes on in the next chunk.
    pub is_cut: bool,
    /// Vertices among them that have gone from server to server, and how often.
    pub moved: Vec<(Vertex, u32)>,
    /// Where these edges lead.
    pub targets: Vec<Vertex>,
    /// Their weights, if edges have any; else none.
    pub weights: Vec<f32>,
    /// Their labels, if edges have any; else none.
    pub labels: Vec<u8>,
}

fields! {
    /// What a server has of a plan.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Holding {
        /// Its part up to there.
        0 => Until(position: PartPosition),
        /// All of its part.
        1 => Whole,
        /// Another graph, by its plan; nothing if that is 0.
        2 => Other(plan: u64),
        /// It takes no graphs, or not this one: it is no server, has no room, or the rows are
        /// wrong.
        3 => Refused,
    }
}

/// A client's request to hold a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRequest {
    /// The graph.
    pub plan: GraphPlan,
    /// Whether it may take the place of another.
    pub replaces: bool,
}

/// Servers, and where each is.
type Servers = List<{ Owners::SERVERS_MAX }, 1, (NodeId, Address<ADDRESS_BYTES_MAX>)>;

fields! {
    /// A message of servers and clients about the graph.
    #[derive(Clone, Debug, PartialEq)]
    pub enum GraphMessage {
        /// A client says which graph is to be there; whether in place of another.
        0 => Open(opening: OpenRequest),
        /// A client gives a piece of a part.
        1 => Chunk(chunk: PartChunk),
        /// A client asks what is there.
        2 => Ask,
        /// A server says what it has.
        3 => Held(holding: Holding),
        /// A client wants these changes, in this order. The number is its own, for each server
        /// ascending.
        4 => Edits(batch: u64, edits: Vec<(Vertex, VertexChange)> as List<EDITS_MAX, 1>),
        /// A server says what became of each.
        5 => Edited(batch: u64, outcomes: Vec<EditOutcome> as List<EDITS_MAX, 1>),
        /// A server gives a vertex away.
        6 => Give(transfer: VertexTransfer),
        /// A server says what it did with one.
        7 => Received(vertex: Vertex, reply: TransferReply),
        /// A server says who has vertices that it was taken for the owner of: each with its owner
        /// and how often it has moved.
        8 => Moved(places: Vec<(Vertex, NodeId, u32)> as List<VERTICES_MAX, 1>),
        /// A client asks who is there.
        9 => Who,
        /// A server says where it is, in a form that drivers of sockets read.
        10 => Here(address: Bytes as Address<ADDRESS_BYTES_MAX>),
    }
}

const WEIGHTED: u8 = 1;
const LABELLED: u8 = 2;
const REPLACES: u8 = 4;
const PASS: u8 = 8;
const CUT: u8 = 4;

impl Field for OpenRequest {
    const BYTES_MIN: usize = 8 + 4 + 1 + <Servers as Field<Vec<_>>>::BYTES_MIN;

    fn bytes(OpenRequest { plan, .. }: &OpenRequest) -> usize {
        let pass = plan.pass.as_ref().map_or(0, PassConfig::bytes);
        8 + 4 + 1 + pass + Servers::bytes(&plan.servers)
    }

    fn put<'a>(opening: &'a OpenRequest, head: &mut impl BufMut) -> Option<&'a Payload> {
        let OpenRequest { plan, replaces } = opening;
        head.put_u64(plan.id);
        head.put_u32(plan.vertices);
        let carried = carried(plan.is_weighted, plan.is_labelled);
        let replaces = if *replaces { REPLACES } else { 0 };
        head.put_u8(carried | replaces | if plan.pass.is_some() { PASS } else { 0 });
        if let Some(pass) = &plan.pass {
            PassConfig::put(pass, head);
        }
        Servers::put(&plan.servers, head)
    }

    fn take(bytes: &mut Bytes, _: &'static str) -> Result<OpenRequest, DecodeError> {
        let (id, vertices, flags) = (take_u64(bytes)?, take_u32(bytes)?, take_u8(bytes)?);
        if flags > WEIGHTED | LABELLED | REPLACES | PASS {
            return Err(out_of("flags", flags.into()));
        }
        let pass = (flags & PASS != 0).then(|| PassConfig::take(bytes, "pass")).transpose()?;
        let servers = Servers::take(bytes, "address")?;
        let (is_weighted, is_labelled) = (flags & WEIGHTED != 0, flags & LABELLED != 0);
        let plan = GraphPlan { id, vertices, is_weighted, is_labelled, servers, pass };
        Ok(OpenRequest { plan, replaces: flags & REPLACES != 0 })
    }

    fn any(rng: &mut Rng) -> OpenRequest {
        let plan = GraphPlan {
            id: u64::any(rng),
            vertices: u32::any(rng),
            is_weighted: bool::any(rng),
            is_labelled: bool::any(rng),
            servers: Servers::any(rng),
            pass: bool::any(rng).then(|| PassConfig::any(rng)),
        };
        OpenRequest { plan, replaces: bool::any(rng) }
    }
}

/// A vertex and its row: what the row carries, the count of its edges, and the edges.
impl Field for VertexTransfer {
    const BYTES_MIN: usize = 4 + 4 + 4 + 1 + 4;

    fn bytes(transfer: &VertexTransfer) -> usize {
        VertexTransfer::BYTES_MIN + transfer.row.wire_bytes()
    }

    fn put<'a>(transfer: &'a VertexTransfer, head: &mut impl BufMut) -> Option<&'a Payload> {
        let VertexTransfer { vertex, epoch, version, row } = transfer;
        head.put_u32(*vertex);
        head.put_u32(*epoch);
        head.put_u32(*version);
        head.put_u8(carried(row.weights().is_some(), row.labels().is_some()));
        head.put_u32(row.targets().len() as u32);
        let (weights, labels) = (row.weights().unwrap_or(&[]), row.labels().unwrap_or(&[]));
        encode_edges(row.targets(), weights, labels, head);
        None
    }

    fn take(bytes: &mut Bytes, _: &'static str) -> Result<VertexTransfer, DecodeError> {
        let (vertex, epoch, version) = (take_u32(bytes)?, take_u32(bytes)?, take_u32(bytes)?);
        let (is_weighted, is_labelled) = decode_carried(take_u8(bytes)?)?;
        let edges = take_u32(bytes)? as usize;
        let (targets, weights, labels) = decode_edges(bytes, edges, is_weighted, is_labelled)?;
        let (weights, labels) = (is_weighted.then_some(&*weights), is_labelled.then_some(&*labels));
        let row = OwnRow::of(&targets, weights, labels);
        Ok(VertexTransfer { vertex, epoch, version, row })
    }

    fn any(rng: &mut Rng) -> VertexTransfer {
        let (mut targets, weights, labels) = any_edges(rng);
        targets.sort_unstable();
        let (weights, labels) =
            (bool::any(rng).then_some(&*weights), bool::any(rng).then_some(&*labels));
        let row = OwnRow::of(&targets, weights, labels);
        VertexTransfer { vertex: u32::any(rng), epoch: u32::any(rng), version: u32::any(rng), row }
    }
}

/// All counts, then all lists.
impl Field for PartChunk {
    const BYTES_MIN: usize = 8 + 2 + 2 + 2 + 4 + 1;

    fn bytes(chunk: &PartChunk) -> usize {
        let lists = 2 * chunk.owners.len() + 4 * chunk.degrees.len() + 8 * chunk.moved.len();
        let edges = 4 * (chunk.targets.len() + chunk.weights.len()) + chunk.labels.len();
        PartChunk::BYTES_MIN + lists + edges
    }

    fn put<'a>(chunk: &'a PartChunk, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u32(chunk.from.vertex);
        head.put_u32(chunk.from.edge);
        head.put_u16(chunk.owners.len() as u16);
        head.put_u16(chunk.degrees.len() as u16);
        head.put_u16(chunk.moved.len() as u16);
        head.put_u32(chunk.targets.len() as u32);
        let carried = carried(!chunk.weights.is_empty(), !chunk.labels.is_empty());
        head.put_u8(carried | if chunk.is_cut { CUT } else { 0 });
        chunk.owners.iter().for_each(|&owner| head.put_u16(owner));
        chunk.degrees.iter().for_each(|&degree| head.put_u32(degree));
        for (vertex, epoch) in &chunk.moved {
            head.put_u32(*vertex);
            head.put_u32(*epoch);
        }
        encode_edges(&chunk.targets, &chunk.weights, &chunk.labels, head);
        None
    }

    fn take(bytes: &mut Bytes, _: &'static str) -> Result<PartChunk, DecodeError> {
        let from = PartPosition { vertex: take_u32(bytes)?, edge: take_u32(bytes)? };
        let (owners, degrees) = (take_u16(bytes)? as usize, take_u16(bytes)? as usize);
        let moved = take_u16(bytes)? as usize;
        let edges = take_u32(bytes)? as usize;
        let flags = take_u8(bytes)?;
        let (is_weighted, is_labelled) = decode_carried(flags & !CUT)?;
        // Without edges the flags carry no meaning, so only zero is canonical.
        if edges == 0 && flags & !CUT != 0 {
            return Err(out_of("flags", flags.into()));
        }
        let owners = split(bytes, 2 * owners)?;
        let owners = owners.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let owners = owners.collect();
        let degrees = words(&split(bytes, 4 * degrees)?).collect();
        let moved: Vec<u32> = words(&split(bytes, 8 * moved)?).collect();
        let moved = moved.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let (targets, weights, labels) = decode_edges(bytes, edges, is_weighted, is_labelled)?;
        let is_cut = flags & CUT != 0;
        Ok(PartChunk { from, owners, degrees, is_cut, moved, targets, weights, labels })
    }

    fn any(rng: &mut Rng) -> PartChunk {
        let (targets, mut weights, mut labels) = any_edges(rng);
        if bool::any(rng) {
            weights.clear();
        }
        if bool::any(rng) {
            labels.clear();
        }
        PartChunk {
            from: PartPosition::any(rng),
            owners: List::<20>::any(rng),
            degrees: List::<20>::any(rng),
            is_cut: bool::any(rng),
            moved: List::<20>::any(rng),
            targets,
            weights,
            labels,
        }
    }
}

fn any_edges(rng: &mut Rng) -> Edges {
    let edges: Vec<(Vertex, f32, u8)> = (0..rng.below(20))
        .map(|_| (u32::any(rng), (rng.unit() * 1e6) as f32, u8::any(rng)))
        .collect();
    (
        edges.iter().map(|edge| edge.0).collect(),
        edges.iter().map(|edge| edge.1).collect(),
        edges.iter().map(|edge| edge.2).collect(),
    )
}

fn out_of(field: &'static str, value: u64) -> DecodeError {
    DecodeError::OutOfRange { field, value }
}

fn carried(is_weighted: bool, is_labelled: bool) -> u8 {
    (if is_weighted { WEIGHTED } else { 0 }) | if is_labelled { LABELLED } else { 0 }
}

fn decode_carried(flags: u8) -> Result<(bool, bool), DecodeError> {
    if flags > WEIGHTED | LABELLED {
        return Err(out_of("flags", flags.into()));
    }
    Ok((flags & WEIGHTED != 0, flags & LABELLED != 0))
}

fn encode_edges(targets: &[Vertex], weights: &[f32], labels: &[u8], head: &mut impl BufMut) {
    targets.iter().for_each(|&target| head.put_u32(target));
    weights.iter().for_each(|weight| head.put_u32(weight.to_bits()));
    head.put_slice(labels);
}

type Edges = (Vec<Vertex>, Vec<f32>, Vec<u8>);

fn decode_edges(
    bytes: &mut Bytes,
    edges: usize,
    is_weighted: bool,
    is_labelled: bool,
) -> Result<Edges, DecodeError> {
    let each = 4 + if is_weighted { 4 } else { 0 } + usize::from(is_labelled);
    if bytes.len() / each < edges {
        return Err(DecodeError::Truncated { need: edges.saturating_mul(each), have: bytes.len() });
    }
    let targets = words(&split(bytes, 4 * edges)?).collect();
    let weights = match is_weighted {
        true => words(&split(bytes, 4 * edges)?).map(f32::from_bits).collect(),
        false => Vec::new(),
    };
    let labels = if is_labelled { split(bytes, edges)?.to_vec() } else { Vec::new() };
    Ok((targets, weights, labels))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

impl GraphMessage {
    /// What it is, in a word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            GraphMessage::Open(..) => "open",
            GraphMessage::Chunk(_) => "chunk",
            GraphMessage::Ask => "ask",
            GraphMessage::Who => "who",
            GraphMessage::Here(_) => "here",
            GraphMessage::Held(_) => "held",
            GraphMessage::Edits(..) => "edits",
            GraphMessage::Edited(..) => "edited",
            GraphMessage::Give(_) => "give",
            GraphMessage::Received(..) => "received",
            GraphMessage::Moved(_) => "moved",
        }
    }
}
