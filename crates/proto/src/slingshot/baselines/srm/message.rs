use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::core::{
    DecodeError, GroupId, Payload, ViewId, Wire, split, take_u8, take_u16, take_u32, take_u64,
};
use crate::slingshot::message::take_seq;
use crate::slingshot::{Data, Names, Supply};

/// Bytes of a repair before its payload.
pub(super) const REPAIR_HEAD_BYTES: usize = 5 + Supply::HEAD_BYTES;
/// Bytes of a session message that tells of nobody else.
pub(super) const SESSION_BYTES_MIN: usize = 41;
/// Bytes of a [`Reached`].
pub(super) const REACHED_BYTES: usize = 10;
/// Bytes of an [`Echo`].
pub(super) const ECHO_BYTES: usize = 14;
/// Most members that a session message tells of.
const TOLD_MAX: usize = 4096;

/// How far another member got, as the sender of a session message knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The member's rank in the view that the message names.
    pub rank: u16,
    /// The lower half of its incarnation.
    pub life: u32,
    /// The lower half of the number of its last packet.
    pub last: u32,
}

/// The last session message of another member, so that it can tell its distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The member's rank in the view that the message names.
    pub rank: u16,
    /// What its clock showed. Only it can tell what that means.
    pub stamp: u64,
    /// Microseconds since its message came.
    pub held_us: u32,
}

/// What a member says of itself and others, again and again.
///
/// ```text
///  0 tag 1 = 1    1 view 8    9 group 4    13 incarnation 8    21 next 8    29 stamp 8
/// 37 reached 2    39 echoes 2
/// 41 reached, each: rank 2  life 4  last 4    echoes, each: rank 2  stamp 8  held 4
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The view.
    pub view: ViewId,
    /// The group.
    pub group: GroupId,
    /// The sender's incarnation.
    pub incarnation: u64,
    /// The number of its next packet to the group.
    pub next: u64,
    /// What its clock shows, to be echoed.
    pub stamp: u64,
    /// How far other members got.
    pub reached: Vec<Reached>,
    /// When other members were heard.
    pub echoes: Vec<Echo>,
}

impl Session {
    fn decode(bytes: &mut Bytes) -> Result<Session, DecodeError> {
        let view = ViewId(take_u64(bytes)?);
        let group = GroupId(take_u32(bytes)?);
        let incarnation = take_u64(bytes)?;
        let next = take_seq(bytes)?;
        let stamp = take_u64(bytes)?;
        let [reached, echoes] = [take_u16(bytes)?, take_u16(bytes)?].map(usize::from);
        for (field, value) in [("reached", reached), ("echoes", echoes)] {
            if value > TOLD_MAX {
                return Err(DecodeError::OutOfRange { field, value: value as u64 });
            }
        }
        let mut all_reached = split(bytes, reached * REACHED_BYTES)?;
        let mut all_echoes = split(bytes, echoes * ECHO_BYTES)?;
        let reached = (0..reached).map(|_| {
            let (rank, life) = (take_u16(&mut all_reached)?, take_u32(&mut all_reached)?);
            Ok(Reached { rank, life, last: take_u32(&mut all_reached)? })
        });
        let reached = reached.collect::<Result<_, _>>()?;
        let echoes = (0..echoes).map(|_| {
            let (rank, stamp) = (take_u16(&mut all_echoes)?, take_u64(&mut all_echoes)?);
            Ok(Echo { rank, stamp, held_us: take_u32(&mut all_echoes)? })
        });
        let echoes = echoes.collect::<Result<_, _>>()?;
        Ok(Session { view, group, incarnation, next, stamp, reached, echoes })
    }

    fn encode(&self, head: &mut BytesMut) {
        head.put_u64(self.view.0);
        head.put_u32(self.group.0);
        head.put_u64(self.incarnation);
        head.put_u64(self.next);
        head.put_u64(self.stamp);
        head.put_u16(self.reached.len() as u16);
        head.put_u16(self.echoes.len() as u16);
        for reached in &self.reached {
            head.put_u16(reached.rank);
            head.put_u32(reached.life);
            head.put_u32(reached.last);
        }
        for echo in &self.echoes {
            head.put_u16(echo.rank);
            head.put_u64(echo.stamp);
            head.put_u32(echo.held_us);
        }
    }
}

/// What members send to each other: all of it to the whole group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet of its sender.
    Data(Data),
    /// What a member says of itself and others.
    Session(Session),
    /// Who has these packets?
    ///
    /// ```text
    ///  0 tag 1 = 2    1 view 8    9 distance 4    13 names ...
    /// ```
    Request {
        /// The view.
        view: ViewId,
        /// How far who asks is from the sender of the first, in microseconds.
        distance_us: u32,
        /// The packets.
        names: Names,
    },
    /// A packet from whoever has it.
    ///
    /// ```text
    ///  0 tag 1 = 3    1 distance 4    5 view 8    13 rank 2    15 a packet as in `Data` ...
    /// ```
    Repair {
        /// How far who repairs is from who asked, in microseconds.
        distance_us: u32,
        /// The packet.
        supply: Supply,
    },
}

/// A line for a trace: what it is, and its numbers.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Data(data) => data.fmt(f),
            Message::Session(session) => {
                let (reached, echoes) = (session.reached.len(), session.echoes.len());
                let next = session.next;
                write!(
                    f,
                    "session {} next {next}, {reached} reached, {echoes} echoes",
                    session.group
                )
            }
            Message::Request { view, names, .. } => write!(f, "request {view}:{names}"),
            Message::Repair { supply, .. } => write!(f, "repair {supply}"),
        }
    }
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        match self {
            Message::Data(data) => Data::HEAD_BYTES + data.payload.len(),
            Message::Session(session) => {
                let reached = session.reached.len() * REACHED_BYTES;
                SESSION_BYTES_MIN + reached + session.echoes.len() * ECHO_BYTES
            }
            Message::Request { names, .. } => 13 + names.as_bytes().len(),
            Message::Repair { supply, .. } => REPAIR_HEAD_BYTES + supply.data.payload.len(),
        }
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        match self {
            Message::Data(data) => {
                head.put_u8(0);
                data.encode_fixed(head);
                Some(&data.payload)
            }
            Message::Session(session) => {
                head.put_u8(1);
                session.encode(head);
                None
            }
            Message::Request { view, distance_us, names } => {
                head.put_u8(2);
                head.put_u64(view.0);
                head.put_u32(*distance_us);
                head.put_slice(names.as_bytes());
                None
            }
            Message::Repair { distance_us, supply } => {
                head.put_u8(3);
                head.put_u32(*distance_us);
                supply.encode_fixed(head);
                Some(&supply.data.payload)
            }
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        Ok(match take_u8(bytes)? {
            0 => Message::Data(Data::decode(bytes)?),
            1 => Message::Session(Session::decode(bytes)?),
            2 => Message::Request {
                view: ViewId(take_u64(bytes)?),
                distance_us: take_u32(bytes)?,
                names: Names::decode(bytes)?,
            },
            3 => Message::Repair { distance_us: take_u32(bytes)?, supply: Supply::decode(bytes)? },
            tag => return Err(DecodeError::UnknownTag(tag)),
        })
    }
}
