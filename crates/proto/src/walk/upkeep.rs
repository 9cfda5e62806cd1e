//! What servers and their clients say to each other of the graph, and its form in bytes.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::config::{BundleConfig, Discipline, PassConfig, QueueConfig};
use super::graph::Vertex;
use super::part::{Given, Outcome, Owners, Reception};
use super::rows::{Change, EditFault, OwnRow};
use crate::core::{DecodeError, NodeId, split, take_u8, take_u16, take_u32, take_u64};

/// Most bytes of a message about the graph.
pub const UPKEEP_BYTES_MAX: usize = 896 << 10;
/// Most edits of a message.
pub const EDITS_MAX: usize = 1024;
/// Most vertices that are told of at once.
pub const VERTICES_MAX: usize = 256;
/// Most bytes of a server's address.
pub(super) const ADDRESS_BYTES_MAX: usize = 64;

/// What there is to know before parts of a graph are given to servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The name of the graph and of who has which vertex: another for other ones. Not 0.
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

/// How far a server's part has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The next vertex.
    pub vertex: Vertex,
    /// The next edge of its row.
    pub edge: u32,
}

/// A piece of a server's part: who has the next vertices, and the edges of those that are its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    /// Where it begins.
    pub from: Position,
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

/// What a server has of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Its part up to there.
    Until(Position),
    /// All of its part.
    Whole,
    /// Another graph, by its plan; nothing if that is 0.
    Other(u64),
    /// It takes no graphs, or not this one: it is no server, has no room, or the rows are wrong.
    Refused,
}

/// Something about the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Upkeep {
    /// A client says which graph is to be there; whether in place of another.
    Open(Plan, bool),
    /// A client gives a piece of a part.
    Chunk(Chunk),
    /// A client asks what is there.
    Ask,
    /// A client asks who is there.
    Who,
    /// A server says where it is, in a form that drivers of sockets read.
    Here(Bytes),
    /// A server says what it has.
    Held(Holding),
    /// A client wants these changes, in this order. The number is its own, for each server
    /// ascending.
    Edits(u64, Vec<(Vertex, Change)>),
    /// A server says what became of each.
    Edited(u64, Vec<Outcome>),
    /// A server gives a vertex away.
    Give(Given),
    /// A server says what it did with one.
    Received(Vertex, Reception),
    /// A server says who has vertices that it was taken for the owner of: each with its owner and
    /// how often it has moved.
    Moved(Vec<(Vertex, NodeId, u32)>),
}

const OPEN: u8 = 0;
const CHUNK: u8 = 1;
const ASK: u8 = 2;
const HELD: u8 = 3;
const EDITS: u8 = 4;
const EDITED: u8 = 5;
const GIVE: u8 = 6;
const RECEIVED: u8 = 7;
const MOVED: u8 = 8;
const WHO: u8 = 9;
const HERE: u8 = 10;

const WEIGHTED: u8 = 1;
const LABELLED: u8 = 2;
const REPLACES: u8 = 4;
const PASS: u8 = 8;
const CUT: u8 = 4;

impl Upkeep {
    /// Its bytes.
    pub fn wire_len(&self) -> usize {
        1 + match self {
            Upkeep::Open(plan, _) => {
                let servers = plan.servers.iter().map(|(_, address)| 5 + address.len());
                let pass = if plan.pass.is_some() { PASS_BYTES } else { 0 };
                8 + 4 + 1 + pass + 2 + servers.sum::<usize>()
            }
            Upkeep::Chunk(chunk) => chunk.wire_len(),
            Upkeep::Ask | Upkeep::Who => 0,
            Upkeep::Here(address) => 1 + address.len(),
            Upkeep::Held(holding) => match holding {
                Holding::Until(_) | Holding::Other(_) => 9,
                Holding::Whole | Holding::Refused => 1,
            },
            Upkeep::Edits(_, edits) => 8 + 2 + edits.iter().map(edit_bytes).sum::<usize>(),
            Upkeep::Edited(_, outcomes) => {
                8 + 2 + outcomes.iter().map(outcome_bytes).sum::<usize>()
            }
            Upkeep::Give(given) => 4 + 4 + 4 + 1 + 4 + given.row.wire_bytes(),
            Upkeep::Received(_, reception) => match reception {
                Reception::Taken(_) | Reception::Moves(_) => 9,
                Reception::Refused => 5,
            },
            Upkeep::Moved(places) => 2 + 12 * places.len(),
        }
    }

    pub(super) fn encode(&self, head: &mut BytesMut) {
        match self {
            Upkeep::Open(plan, replaces) => {
                head.put_u8(OPEN);
                head.put_u64(plan.id);
                head.put_u32(plan.vertices);
                let carried = carried(plan.is_weighted, plan.is_labelled);
                let replaces = if *replaces { REPLACES } else { 0 };
                head.put_u8(carried | replaces | if plan.pass.is_some() { PASS } else { 0 });
                if let Some(pass) = &plan.pass {
                    encode_pass(pass, head);
                }
                head.put_u16(plan.servers.len() as u16);
                for (server, address) in &plan.servers {
                    head.put_u32(server.0);
                    encode_address(address, head);
                }
            }
            Upkeep::Chunk(chunk) => {
                head.put_u8(CHUNK);
                chunk.encode(head);
            }
            Upkeep::Ask => head.put_u8(ASK),
            Upkeep::Who => head.put_u8(WHO),
            Upkeep::Here(address) => {
                head.put_u8(HERE);
                encode_address(address, head);
            }
            Upkeep::Held(holding) => {
                head.put_u8(HELD);
                match *holding {
                    Holding::Until(Position { vertex, edge }) => {
                        head.put_u8(0);
                        head.put_u32(vertex);
                        head.put_u32(edge);
                    }
                    Holding::Whole => head.put_u8(1),
                    Holding::Other(plan) => {
                        head.put_u8(2);
                        head.put_u64(plan);
                    }
                    Holding::Refused => head.put_u8(3),
                }
            }
            Upkeep::Edits(batch, edits) => {
                head.put_u8(EDITS);
                head.put_u64(*batch);
                head.put_u16(edits.len() as u16);
                edits.iter().for_each(|edit| encode_edit(edit, head));
            }
            Upkeep::Edited(batch, outcomes) => {
                head.put_u8(EDITED);
                head.put_u64(*batch);
                head.put_u16(outcomes.len() as u16);
                outcomes.iter().for_each(|outcome| encode_outcome(outcome, head));
            }
            Upkeep::Give(Given { vertex, epoch, version, row }) => {
                head.put_u8(GIVE);
                head.put_u32(*vertex);
                head.put_u32(*epoch);
                head.put_u32(*version);
                head.put_u8(carried(row.weights().is_some(), row.labels().is_some()));
                head.put_u32(row.targets().len() as u32);
                let none = (&[][..], &[][..]);
                let weights = row.weights().unwrap_or(none.0);
                encode_edges(row.targets(), weights, row.labels().unwrap_or(none.1), head);
            }
            Upkeep::Received(vertex, reception) => {
                head.put_u8(RECEIVED);
                head.put_u32(*vertex);
                match *reception {
                    Reception::Taken(epoch) => {
                        head.put_u8(0);
                        head.put_u32(epoch);
                    }
                    Reception::Moves(epoch) => {
                        head.put_u8(1);
                        head.put_u32(epoch);
                    }
                    Reception::Refused => head.put_u8(2),
                }
            }
            Upkeep::Moved(places) => {
                head.put_u8(MOVED);
                head.put_u16(places.len() as u16);
                for (vertex, owner, epoch) in places {
                    head.put_u32(*vertex);
                    head.put_u32(owner.0);
                    head.put_u32(*epoch);
                }
            }
        }
    }

    pub(super) fn decode(bytes: &mut Bytes) -> Result<Upkeep, DecodeError> {
        if bytes.len() > UPKEEP_BYTES_MAX {
            return Err(out_of("upkeep", bytes.len() as u64));
        }
        Ok(match take_u8(bytes)? {
            OPEN => {
                let (id, vertices, flags) = (take_u64(bytes)?, take_u32(bytes)?, take_u8(bytes)?);
                if flags > WEIGHTED | LABELLED | REPLACES | PASS {
                    return Err(out_of("flags", flags.into()));
                }
                let pass = (flags & PASS != 0).then(|| decode_pass(bytes)).transpose()?;
                let count = count(bytes, Owners::SERVERS_MAX, 5)?;
                let server = |_| Ok((NodeId(take_u32(bytes)?), decode_address(bytes)?));
                let servers = (0..count).map(server).collect::<Result<_, DecodeError>>()?;
                let (is_weighted, is_labelled) = (flags & WEIGHTED != 0, flags & LABELLED != 0);
                let plan = Plan { id, vertices, is_weighted, is_labelled, servers, pass };
                Upkeep::Open(plan, flags & REPLACES != 0)
            }
            CHUNK => Upkeep::Chunk(Chunk::decode(bytes)?),
            ASK => Upkeep::Ask,
            WHO => Upkeep::Who,
            HERE => Upkeep::Here(decode_address(bytes)?),
            HELD => Upkeep::Held(match take_u8(bytes)? {
                0 => Holding::Until(Position { vertex: take_u32(bytes)?, edge: take_u32(bytes)? }),
                1 => Holding::Whole,
                2 => Holding::Other(take_u64(bytes)?),
                3 => Holding::Refused,
                other => return Err(DecodeError::UnknownTag(other)),
            }),
            EDITS => {
                let batch = take_u64(bytes)?;
                let count = count(bytes, EDITS_MAX, 5)?;
                let edits = (0..count).map(|_| decode_edit(bytes));
                Upkeep::Edits(batch, edits.collect::<Result<_, _>>()?)
            }
            EDITED => {
                let batch = take_u64(bytes)?;
                let count = count(bytes, EDITS_MAX, 1)?;
                let outcomes = (0..count).map(|_| decode_outcome(bytes));
                Upkeep::Edited(batch, outcomes.collect::<Result<_, _>>()?)
            }
            GIVE => {
                let (vertex, epoch, version) =
                    (take_u32(bytes)?, take_u32(bytes)?, take_u32(bytes)?);
                let (is_weighted, is_labelled) = decode_carried(take_u8(bytes)?)?;
                let edges = take_u32(bytes)? as usize;
                let (targets, weights, labels) =
                    decode_edges(bytes, edges, is_weighted, is_labelled)?;
                let row = OwnRow::of(
                    &targets,
                    is_weighted.then_some(&*weights),
                    is_labelled.then_some(&*labels),
                );
                Upkeep::Give(Given { vertex, epoch, version, row })
            }
            RECEIVED => {
                let vertex = take_u32(bytes)?;
                let reception = match take_u8(bytes)? {
                    0 => Reception::Taken(take_u32(bytes)?),
                    1 => Reception::Moves(take_u32(bytes)?),
                    2 => Reception::Refused,
                    other => return Err(DecodeError::UnknownTag(other)),
                };
                Upkeep::Received(vertex, reception)
            }
            MOVED => {
                let count = count(bytes, VERTICES_MAX, 12)?;
                let place = |_| Ok((take_u32(bytes)?, NodeId(take_u32(bytes)?), take_u32(bytes)?));
                Upkeep::Moved((0..count).map(place).collect::<Result<_, DecodeError>>()?)
            }
            other => return Err(DecodeError::UnknownTag(other)),
        })
    }
}

impl Chunk {
    /// Bytes of a chunk without vertices and edges.
    const HEAD_BYTES: usize = 8 + 2 + 2 + 2 + 4 + 1;

    fn wire_len(&self) -> usize {
        let lists = 2 * self.owners.len() + 4 * self.degrees.len() + 8 * self.moved.len();
        let edges = 4 * (self.targets.len() + self.weights.len()) + self.labels.len();
        Chunk::HEAD_BYTES + lists + edges
    }

    fn encode(&self, head: &mut BytesMut) {
        head.put_u32(self.from.vertex);
        head.put_u32(self.from.edge);
        head.put_u16(self.owners.len() as u16);
        head.put_u16(self.degrees.len() as u16);
        head.put_u16(self.moved.len() as u16);
        head.put_u32(self.targets.len() as u32);
        let carried = carried(!self.weights.is_empty(), !self.labels.is_empty());
        head.put_u8(carried | if self.is_cut { CUT } else { 0 });
        self.owners.iter().for_each(|&owner| head.put_u16(owner));
        self.degrees.iter().for_each(|&degree| head.put_u32(degree));
        for (vertex, epoch) in &self.moved {
            head.put_u32(*vertex);
            head.put_u32(*epoch);
        }
        encode_edges(&self.targets, &self.weights, &self.labels, head);
    }

    fn decode(bytes: &mut Bytes) -> Result<Chunk, DecodeError> {
        let from = Position { vertex: take_u32(bytes)?, edge: take_u32(bytes)? };
        let (owners, degrees) = (take_u16(bytes)? as usize, take_u16(bytes)? as usize);
        let moved = take_u16(bytes)? as usize;
        let edges = take_u32(bytes)? as usize;
        let flags = take_u8(bytes)?;
        let (is_weighted, is_labelled) = decode_carried(flags & !CUT)?;
        // Without edges nobody can tell whether they would carry something.
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
        Ok(Chunk { from, owners, degrees, is_cut, moved, targets, weights, labels })
    }
}

fn out_of(field: &'static str, value: u64) -> DecodeError {
    DecodeError::OutOfRange { field, value }
}

/// How many there are, at most so many, of this many bytes each at least.
fn count(bytes: &mut Bytes, most: usize, least: usize) -> Result<usize, DecodeError> {
    let count = usize::from(take_u16(bytes)?);
    if count == 0 || count > most {
        return Err(out_of("count", count as u64));
    }
    if bytes.len() < count * least {
        return Err(DecodeError::Truncated { need: count * least, have: bytes.len() });
    }
    Ok(count)
}

/// Disciplines, each by its place in a message.
const DISCIPLINES: [Discipline; 3] =
    [Discipline::TailDrop, Discipline::RedDrop, Discipline::RedMark];

/// Bytes of how walkers pass.
const PASS_BYTES: usize = 1 + 4 + 4 + 8 + 8 + 1 + 4 + 2 + 4;

fn encode_pass(PassConfig { queue, bundle }: &PassConfig, head: &mut BytesMut) {
    let place = DISCIPLINES.iter().position(|other| *other == queue.discipline);
    head.put_u8(place.expect("all disciplines are listed") as u8);
    head.put_u32(queue.min_th as u32);
    head.put_u32(queue.max_th as u32);
    head.put_u64(queue.max_p.to_bits());
    head.put_u64(queue.weight.to_bits());
    head.put_u8(queue.is_gentle.into());
    head.put_u32(queue.limit as u32);
    head.put_u16(bundle.walkers_max as u16);
    head.put_u32(bundle.deadline.as_micros() as u32);
}

/// How walkers are to pass. What is out of range is refused here, so that no server is set to it.
fn decode_pass(bytes: &mut Bytes) -> Result<PassConfig, DecodeError> {
    let place = take_u8(bytes)?;
    let discipline = DISCIPLINES.get(usize::from(place));
    let discipline = *discipline.ok_or_else(|| out_of("discipline", place.into()))?;
    let (min_th, max_th) = (take_u32(bytes)? as usize, take_u32(bytes)? as usize);
    let (max_p, weight) = (f64::from_bits(take_u64(bytes)?), f64::from_bits(take_u64(bytes)?));
    let gentle = take_u8(bytes)?;
    if gentle > 1 {
        return Err(out_of("gentle", gentle.into()));
    }
    let limit = take_u32(bytes)? as usize;
    let queue =
        QueueConfig { discipline, min_th, max_th, max_p, weight, is_gentle: gentle == 1, limit };
    let walkers_max = take_u16(bytes)?.into();
    let deadline = Duration::from_micros(take_u32(bytes)?.into());
    let pass = PassConfig { queue, bundle: BundleConfig { walkers_max, deadline } };
    pass.check().map_err(|error| out_of(error.knob(), 0))?;
    Ok(pass)
}

fn encode_address(address: &Bytes, head: &mut BytesMut) {
    head.put_u8(address.len() as u8);
    head.put_slice(address);
}

fn decode_address(bytes: &mut Bytes) -> Result<Bytes, DecodeError> {
    let length = usize::from(take_u8(bytes)?);
    if length > ADDRESS_BYTES_MAX {
        return Err(out_of("address", length as u64));
    }
    // Its own copy: a slice would keep the whole read buffer.
    Ok(Bytes::copy_from_slice(&split(bytes, length)?))
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

fn encode_edges(targets: &[Vertex], weights: &[f32], labels: &[u8], head: &mut BytesMut) {
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

/// Bytes of an edit.
pub(super) fn edit_bytes((_, change): &(Vertex, Change)) -> usize {
    4 + 1
        + match change {
            Change::Set { .. } => 9,
            Change::Cut { .. } => 4,
            Change::Clear => 0,
            Change::Move { .. } => 2,
        }
}

fn encode_edit((vertex, change): &(Vertex, Change), head: &mut BytesMut) {
    head.put_u32(*vertex);
    match *change {
        Change::Set { to, weight, label } => {
            head.put_u8(0);
            head.put_u32(to);
            head.put_u32(weight.to_bits());
            head.put_u8(label);
        }
        Change::Cut { to } => {
            head.put_u8(1);
            head.put_u32(to);
        }
        Change::Clear => head.put_u8(2),
        Change::Move { to } => {
            head.put_u8(3);
            head.put_u16(to);
        }
    }
}

fn decode_edit(bytes: &mut Bytes) -> Result<(Vertex, Change), DecodeError> {
    let vertex = take_u32(bytes)?;
    let change = match take_u8(bytes)? {
        0 => Change::Set {
            to: take_u32(bytes)?,
            weight: f32::from_bits(take_u32(bytes)?),
            label: take_u8(bytes)?,
        },
        1 => Change::Cut { to: take_u32(bytes)? },
        2 => Change::Clear,
        3 => Change::Move { to: take_u16(bytes)? },
        other => return Err(DecodeError::UnknownTag(other)),
    };
    Ok((vertex, change))
}

/// Why edits cannot be, each by its place in a message.
pub(super) const FAULTS: [EditFault; 6] = [
    EditFault::Weight,
    EditFault::Label,
    EditFault::Fixed,
    EditFault::TooLong,
    EditFault::Full,
    EditFault::NoSuchServer,
];

fn outcome_bytes(outcome: &Outcome) -> usize {
    1 + match outcome {
        Outcome::Done(_) => 4,
        Outcome::Elsewhere(..) => 8,
        Outcome::Busy => 0,
        Outcome::Refused(_) => 1,
    }
}

fn encode_outcome(outcome: &Outcome, head: &mut BytesMut) {
    match outcome {
        Outcome::Done(version) => {
            head.put_u8(0);
            head.put_u32(*version);
        }
        Outcome::Elsewhere(owner, epoch) => {
            head.put_u8(1);
            head.put_u32(owner.0);
            head.put_u32(*epoch);
        }
        Outcome::Busy => head.put_u8(2),
        Outcome::Refused(fault) => {
            head.put_u8(3);
            let place = FAULTS.iter().position(|other| other == fault);
            head.put_u8(place.expect("all faults are listed") as u8);
        }
    }
}

fn decode_outcome(bytes: &mut Bytes) -> Result<Outcome, DecodeError> {
    Ok(match take_u8(bytes)? {
        0 => Outcome::Done(take_u32(bytes)?),
        1 => Outcome::Elsewhere(NodeId(take_u32(bytes)?), take_u32(bytes)?),
        2 => Outcome::Busy,
        3 => {
            let place = take_u8(bytes)?;
            let fault = FAULTS.get(usize::from(place));
            Outcome::Refused(*fault.ok_or_else(|| out_of("fault", place.into()))?)
        }
        other => return Err(DecodeError::UnknownTag(other)),
    })
}

impl Upkeep {
    /// What it is, in a word.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Upkeep::Open(..) => "open",
            Upkeep::Chunk(_) => "chunk",
            Upkeep::Ask => "ask",
            Upkeep::Who => "who",
            Upkeep::Here(_) => "here",
            Upkeep::Held(_) => "held",
            Upkeep::Edits(..) => "edits",
            Upkeep::Edited(..) => "edited",
            Upkeep::Give(_) => "give",
            Upkeep::Received(..) => "received",
            Upkeep::Moved(_) => "moved",
        }
    }
}
