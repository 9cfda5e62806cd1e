//! Messages between servers of walks, and their encoding.

use std::fmt;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use smallvec::SmallVec;

use super::barrier::Barrier;
use super::chance::{Chance, Length};
use super::kind::{Kind, Node2Vec};
use super::walker::{NOWHERE, Walker};
use crate::core::field::Field;
use crate::core::{
    DecodeError, NodeId, Payload, Wire, split, take_u8, take_u16, take_u32, take_u64,
};
use crate::graphshare::{BundleConfig, GRAPH_MESSAGE_BYTES_MAX, GraphMessage, Vertex};

/// Most bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Most turns of a walker in a row that bring it no step, on its way to the edges that it needs.
pub const DETOURS_MAX: u8 = 63;

/// The fields that all walkers of a job share.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The node that generates the walkers and gets their results.
    pub home: NodeId,
    /// The job, among those of its home: drawn at random.
    pub job: u64,
    /// The plan by which servers have the graph's vertices; 0 if they had them from the start.
    pub plan: u64,
    /// How they choose.
    pub kind: Kind,
    /// What they carry of their way.
    pub trail: Trail,
}

impl Traveller {
    /// None: what every walker takes at least.
    pub(super) const NONE: Traveller = Traveller {
        token: 0,
        walker: Walker {
            source: NOWHERE,
            at: NOWHERE,
            previous: NOWHERE,
            candidate: NOWHERE,
            steps: 0,
            steps_left: 0,
            state: 0,
        },
        path: Vec::new(),
        drawn: 0,
        is_marked: false,
        detours: 0,
    };
}

/// What a walk brings home of its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trail {
    /// Only where it ends.
    None,
    /// The vertices that it came to. 4 bytes a step.
    #[default]
    Vertices,
    /// These, and for each the version of the row that the step was taken from. 8 bytes a step.
    Versions,
}

impl Trail {
    /// Numbers of 4 bytes that a step adds to a path.
    pub fn words(self) -> usize {
        match self {
            Trail::None => 0,
            Trail::Vertices => 1,
            Trail::Versions => 2,
        }
    }

    /// The vertices of a path, and their versions.
    pub(super) fn read(self, mut path: Vec<Vertex>) -> (Vec<Vertex>, Vec<u32>) {
        if self != Trail::Versions {
            return (path, Vec::new());
        }
        let versions = path.chunks_exact(2).map(|pair| pair[1]).collect();
        for step in 0..path.len() / 2 {
            path[step] = path[2 * step];
        }
        path.truncate(path.len() / 2);
        (path, versions)
    }

    fn take(bytes: &mut Bytes) -> Result<Trail, DecodeError> {
        match take_u8(bytes)? {
            0 => Ok(Trail::None),
            1 => Ok(Trail::Vertices),
            2 => Ok(Trail::Versions),
            other => Err(DecodeError::OutOfRange { field: "trail", value: other.into() }),
        }
    }
}

/// A walker between servers, with all that its home wants to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Traveller {
    /// Its home's name for this attempt at the walk.
    pub token: u64,
    /// The walk itself.
    pub walker: Walker,
    /// The vertices after its source, as its job's [`Trail`] says: each followed by a version, if
    /// those are wanted.
    pub path: Vec<Vertex>,
    /// The version of the row that its latest edge was drawn from, if its job wants versions.
    pub drawn: u32,
    /// Whether a queue that it entered was to be slowed down.
    pub is_marked: bool,
    /// Turns without a step, since the last one.
    pub detours: u8,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has all its steps.
    Length,
    /// No edge led on.
    DeadEnd,
}

/// A walk that has ended, on its way home.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Its home's name for this attempt at the walk.
    pub token: u64,
    /// Where it ended.
    pub at: Vertex,
    /// Steps that it took.
    pub steps: u32,
    /// Why it ended.
    pub stop: Stop,
    /// Whether a queue that it entered was to be slowed down.
    pub is_marked: bool,
    /// Its path, as a [`Traveller`]'s.
    pub path: Vec<Vertex>,
}

/// A message between servers.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Walkers of one job that go on where this message goes.
    Walkers {
        /// Their job.
        head: Arc<Head>,
        /// At least one.
        walkers: SmallVec<[Traveller; 1]>,
    },
    /// Walks of one job that have ended; to its home.
    Ended {
        /// The job.
        job: u64,
        /// What they carry of their way.
        trail: Trail,
        /// At least one.
        walks: SmallVec<[Ended; 1]>,
    },
    /// Something about the graph of this plan.
    Graph(u64, Box<GraphMessage>),
    /// Something about the barrier between two supersteps.
    Barrier(Barrier),
}

const WALKERS: u8 = 0x71;
const ENDED: u8 = 0x72;
const GRAPH: u8 = 0x73;
const BARRIER: u8 = 0x74;

const UNIFORM: u8 = 0;
const WEIGHTED: u8 = 1;
const NODE2VEC: u8 = 2;
const METAPATH: u8 = 3;
const RESTART: u8 = 4;

const MARKED: u8 = 1;
const DEAD_END: u8 = 2;

/// Bytes of a walker of any kind, without its path.
const WALKER_BYTES: usize = 8 + 1 + 4 + 4 + 4 + 8;
/// Bytes of an ended walk, without its path.
const ENDED_BYTES: usize = 8 + 1 + 4 + 4;

impl Head {
    /// Bytes before the walkers of a bundle.
    pub fn bundle_bytes(&self) -> usize {
        let kind = match &self.kind {
            Kind::Uniform | Kind::Weighted => 0,
            Kind::Node2Vec(_) => 16,
            Kind::Metapath(labels) => 1 + labels.len(),
            Kind::Restart(_) => 8,
        };
        1 + 8 + 8 + 8 + 1 + 1 + kind + 2
    }

    /// Bytes of a walker in a bundle.
    pub fn walker_bytes(&self, walker: &Traveller) -> usize {
        self.fixed_bytes() + 4 * walker.path.len()
    }

    fn fixed_bytes(&self) -> usize {
        let more = match self.kind {
            Kind::Restart(_) => 4,
            Kind::Node2Vec(_) => 8 + if self.trail == Trail::Versions { 4 } else { 0 },
            _ => 0,
        };
        WALKER_BYTES + more
    }

    fn encode(&self, head: &mut BytesMut) {
        head.put_u64(self.home.0);
        head.put_u64(self.job);
        head.put_u64(self.plan);
        head.put_u8(self.trail as u8);
        match &self.kind {
            Kind::Uniform => head.put_u8(UNIFORM),
            Kind::Weighted => head.put_u8(WEIGHTED),
            Kind::Node2Vec(bias) => {
                head.put_u8(NODE2VEC);
                head.put_u64(bias.p().to_bits());
                head.put_u64(bias.q().to_bits());
            }
            Kind::Metapath(labels) => {
                head.put_u8(METAPATH);
                head.put_u8(labels.len() as u8);
                head.put_slice(labels);
            }
            Kind::Restart(back) => {
                head.put_u8(RESTART);
                head.put_u64(back.parts());
            }
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Head, DecodeError> {
        let home = NodeId(take_u64(bytes)?);
        let job = take_u64(bytes)?;
        let plan = take_u64(bytes)?;
        let trail = Trail::take(bytes)?;
        let out_of = |field, value| DecodeError::OutOfRange { field, value };
        let kind = match take_u8(bytes)? {
            UNIFORM => Kind::Uniform,
            WEIGHTED => Kind::Weighted,
            NODE2VEC => {
                let (p, q) = (take_u64(bytes)?, take_u64(bytes)?);
                let bias = Node2Vec::new(f64::from_bits(p), f64::from_bits(q));
                Kind::Node2Vec(bias.map_err(|_| out_of("node2vec", p))?)
            }
            METAPATH => {
                let length = usize::from(take_u8(bytes)?);
                if length == 0 {
                    return Err(out_of("metapath", 0));
                }
                Kind::Metapath(Arc::from(&*split(bytes, length)?))
            }
            RESTART => Kind::Restart(Chance::from_parts(take_u64(bytes)?)),
            other => return Err(DecodeError::UnknownTag(other)),
        };
        Ok(Head { home, job, plan, kind, trail })
    }

    fn encode_walker(&self, traveller: &Traveller, head: &mut BytesMut) {
        let Traveller { token, walker, path, drawn, is_marked, detours } = traveller;
        let detours = (*detours).min(DETOURS_MAX);
        // In one piece: a check of the buffer's room for each number costs more than the number.
        let mut fixed = [0; WALKER_BYTES];
        fixed[..8].copy_from_slice(&token.to_be_bytes());
        fixed[8] = (u8::from(*is_marked) * MARKED) | (detours << 2);
        fixed[9..13].copy_from_slice(&walker.at.to_be_bytes());
        fixed[13..17].copy_from_slice(&walker.steps.to_be_bytes());
        fixed[17..21].copy_from_slice(&walker.steps_left.to_be_bytes());
        fixed[21..].copy_from_slice(&walker.state.to_be_bytes());
        head.put_slice(&fixed);
        match self.kind {
            Kind::Restart(_) => head.put_u32(walker.source),
            Kind::Node2Vec(_) => {
                head.put_u32(walker.previous);
                head.put_u32(walker.candidate);
                // A walker of another kind draws an edge next, which sets it.
                if self.trail == Trail::Versions {
                    head.put_u32(*drawn);
                }
            }
            _ => {}
        }
        path.iter().for_each(|&vertex| head.put_u32(vertex));
    }

    fn decode_walker(&self, bytes: &mut Bytes) -> Result<Traveller, DecodeError> {
        let mut fixed: &[u8] = fixed::<WALKER_BYTES>(bytes)?;
        let token = fixed.get_u64();
        let state = fixed.get_u8();
        let detours = state >> 2;
        let is_marked = flags(state & 3, MARKED)? == MARKED;
        let mut walker = Walker {
            source: NOWHERE,
            at: fixed.get_u32(),
            previous: NOWHERE,
            candidate: NOWHERE,
            steps: fixed.get_u32(),
            steps_left: fixed.get_u32(),
            state: fixed.get_u64(),
        };
        bytes.advance(WALKER_BYTES);
        let all = u64::from(walker.steps) + u64::from(walker.steps_left);
        if all > u64::from(Length::STEPS_MAX) {
            return Err(DecodeError::OutOfRange { field: "steps", value: all });
        }
        let mut drawn = 0;
        match self.kind {
            Kind::Restart(_) => walker.source = take_u32(bytes)?,
            Kind::Node2Vec(_) => {
                walker.previous = take_u32(bytes)?;
                walker.candidate = take_u32(bytes)?;
                if self.trail == Trail::Versions {
                    drawn = take_u32(bytes)?;
                }
            }
            _ => {}
        }
        let path = path(self.trail, walker.steps, bytes)?;
        Ok(Traveller { token, walker, path, drawn, is_marked, detours })
    }
}

/// Bytes before the walks of a message about ended ones.
pub fn ended_head_bytes() -> usize {
    1 + 8 + 1 + 2
}

/// Bytes of paths; zero without iteration if walkers carry none.
fn path_bytes<'a>(trail: Trail, paths: impl Iterator<Item = &'a [Vertex]>) -> usize {
    if trail == Trail::None { 0 } else { paths.map(size_of_val).sum() }
}

impl Ended {
    /// Its bytes in a message.
    pub fn bytes(&self) -> usize {
        ENDED_BYTES + 4 * self.path.len()
    }

    fn encode(&self, head: &mut BytesMut) {
        let dead_end = if self.stop == Stop::DeadEnd { DEAD_END } else { 0 };
        let mut fixed = [0; ENDED_BYTES];
        fixed[..8].copy_from_slice(&self.token.to_be_bytes());
        fixed[8] = (u8::from(self.is_marked) * MARKED) | dead_end;
        fixed[9..13].copy_from_slice(&self.at.to_be_bytes());
        fixed[13..].copy_from_slice(&self.steps.to_be_bytes());
        head.put_slice(&fixed);
        self.path.iter().for_each(|&vertex| head.put_u32(vertex));
    }

    fn decode(trail: Trail, bytes: &mut Bytes) -> Result<Ended, DecodeError> {
        let mut fixed: &[u8] = fixed::<ENDED_BYTES>(bytes)?;
        let token = fixed.get_u64();
        let state = flags(fixed.get_u8(), MARKED | DEAD_END)?;
        let (at, steps) = (fixed.get_u32(), fixed.get_u32());
        bytes.advance(ENDED_BYTES);
        if steps > Length::STEPS_MAX {
            return Err(DecodeError::OutOfRange { field: "steps", value: u64::from(steps) });
        }
        Ok(Ended {
            token,
            at,
            steps,
            stop: if state & DEAD_END != 0 { Stop::DeadEnd } else { Stop::Length },
            is_marked: state & MARKED != 0,
            path: path(trail, steps, bytes)?,
        })
    }
}

/// The next `COUNT` bytes, in place: a copy would delay reading numbers until all of it is written.
fn fixed<const COUNT: usize>(bytes: &Bytes) -> Result<&[u8; COUNT], DecodeError> {
    bytes.first_chunk().ok_or(DecodeError::Truncated { need: COUNT, have: bytes.len() })
}

/// The path of a walker that has taken `steps` steps; empty if its trail records none.
fn path(trail: Trail, steps: u32, bytes: &mut Bytes) -> Result<Vec<Vertex>, DecodeError> {
    let words = trail.words() * steps as usize;
    if words == 0 {
        return Ok(Vec::new());
    }
    let path = split(bytes, 4 * words)?;
    let vertex = |four: &[u8]| u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
    Ok(path.chunks_exact(4).map(vertex).collect())
}

/// Bits of which only these may be set.
fn flags(bits: u8, known: u8) -> Result<u8, DecodeError> {
    if bits & !known != 0 {
        return Err(DecodeError::OutOfRange { field: "flags", value: u64::from(bits) });
    }
    Ok(bits)
}

/// How many there are, of this many bytes each at least.
fn count(bytes: &mut Bytes, least: usize) -> Result<usize, DecodeError> {
    let count = usize::from(take_u16(bytes)?);
    if count == 0 || count > BundleConfig::WALKERS_MAX {
        return Err(DecodeError::OutOfRange { field: "count", value: count as u64 });
    }
    if bytes.len() < count * least {
        return Err(DecodeError::Truncated { need: count * least, have: bytes.len() });
    }
    Ok(count)
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        match self {
            Message::Walkers { head, walkers } => {
                let paths = path_bytes(head.trail, walkers.iter().map(|walker| &*walker.path));
                head.bundle_bytes() + walkers.len() * head.fixed_bytes() + paths
            }
            Message::Ended { trail, walks, .. } => {
                let paths = path_bytes(*trail, walks.iter().map(|walk| &*walk.path));
                ended_head_bytes() + walks.len() * ENDED_BYTES + paths
            }
            Message::Graph(_, message) => 1 + 8 + GraphMessage::bytes(message),
            Message::Barrier(barrier) => 1 + Barrier::bytes(barrier),
        }
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        match self {
            Message::Walkers { head: job, walkers } => {
                head.put_u8(WALKERS);
                job.encode(head);
                head.put_u16(walkers.len() as u16);
                walkers.iter().for_each(|walker| job.encode_walker(walker, head));
            }
            Message::Ended { job, trail, walks } => {
                head.put_u8(ENDED);
                head.put_u64(*job);
                head.put_u8(*trail as u8);
                head.put_u16(walks.len() as u16);
                walks.iter().for_each(|walk| walk.encode(head));
            }
            Message::Graph(plan, message) => {
                head.put_u8(GRAPH);
                head.put_u64(*plan);
                GraphMessage::put(message, head);
            }
            Message::Barrier(barrier) => {
                head.put_u8(BARRIER);
                Barrier::put(barrier, head);
            }
        }
        None
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        let tag = take_u8(bytes)?;
        if bytes.len() >= MESSAGE_BYTES_MAX && tag != GRAPH {
            let value = bytes.len() as u64 + 1;
            return Err(DecodeError::OutOfRange { field: "message", value });
        }
        match tag {
            WALKERS => {
                let head = Head::decode(bytes)?;
                let count = count(bytes, head.fixed_bytes())?;
                let mut walkers = SmallVec::with_capacity(count);
                for _ in 0..count {
                    walkers.push(head.decode_walker(bytes)?);
                }
                Ok(Message::Walkers { head: Arc::new(head), walkers })
            }
            ENDED => {
                let job = take_u64(bytes)?;
                let trail = Trail::take(bytes)?;
                let count = count(bytes, ENDED_BYTES)?;
                let mut walks = SmallVec::with_capacity(count);
                for _ in 0..count {
                    walks.push(Ended::decode(trail, bytes)?);
                }
                Ok(Message::Ended { job, trail, walks })
            }
            GRAPH => {
                let plan = take_u64(bytes)?;
                if bytes.len() > GRAPH_MESSAGE_BYTES_MAX {
                    let value = bytes.len() as u64;
                    return Err(DecodeError::OutOfRange { field: "upkeep", value });
                }
                Ok(Message::Graph(plan, Box::new(GraphMessage::take(bytes, "graph")?)))
            }
            BARRIER => Ok(Message::Barrier(Barrier::take(bytes, "barrier")?)),
            other => Err(DecodeError::UnknownTag(other)),
        }
    }
}

impl Message {
    /// How many walkers, or walks that have ended, it carries.
    pub fn walkers(&self) -> usize {
        match self {
            Message::Walkers { walkers, .. } => walkers.len(),
            Message::Ended { walks, .. } => walks.len(),
            Message::Graph(..) | Message::Barrier(_) => 0,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Walkers { head, walkers } => {
                write!(f, "walkers of {}", head.home)?;
                walkers.iter().try_for_each(|traveller| {
                    let Walker { at, steps, .. } = traveller.walker;
                    write!(f, " {:x}@{at}+{steps}", traveller.token)
                })
            }
            Message::Ended { walks, .. } => {
                f.write_str("ended")?;
                walks.iter().try_for_each(|walk| write!(f, " {:x}@{}", walk.token, walk.at))
            }
            Message::Barrier(barrier) => write!(f, "{barrier:?}"),
            Message::Graph(plan, message) => write!(f, "of plan {plan:x}: {}", message.name()),
        }
    }
}
