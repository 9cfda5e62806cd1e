use std::fmt;

use bytes::{BufMut, Bytes};
use paceline_proto::core::Rng;
use paceline_proto::core::field::{Field, fields, messages, take_items};
use paceline_proto::core::{DecodeError, GroupId, Payload, ViewId, take_u16};
use paceline_proto::slingshot::{Data, Heartbeat, Names, Supply};

/// Bytes of a repair before its payload.
pub(super) const REPAIR_HEAD_BYTES: usize = 5 + Supply::BYTES_MIN;
/// Bytes of a session message that reports on no other member.
pub(super) const SESSION_BYTES_MIN: usize = 1 + Session::BYTES_MIN;
/// The maximum number of members that a session message reports on.
const TOLD_MAX: u16 = 4096;

fields! {
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
}

fields! {
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
}

/// The periodic report of a member on itself and others.
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

/// The fields of a session message before its lists.
type Head = (ViewId, Heartbeat, u64);

/// By hand, since both counts stand before both lists.
impl Field for Session {
    const BYTES_MIN: usize = Head::BYTES_MIN + 4;

    #[inline]
    fn bytes(session: &Session) -> usize {
        let reached = Reached::BYTES_MIN * session.reached.len();
        Session::BYTES_MIN + reached + Echo::BYTES_MIN * session.echoes.len()
    }

    fn put<'a>(session: &'a Session, head: &mut impl BufMut) -> Option<&'a Payload> {
        let &Session { view, group, incarnation, next, stamp, .. } = session;
        Head::put(&(view, Heartbeat { group, incarnation, next }, stamp), head);
        head.put_u16(session.reached.len() as u16);
        head.put_u16(session.echoes.len() as u16);
        session.reached.iter().for_each(|reached| _ = Reached::put(reached, head));
        session.echoes.iter().for_each(|echo| _ = Echo::put(echo, head));
        None
    }

    fn take(bytes: &mut Bytes, name: &'static str) -> Result<Session, DecodeError> {
        let (view, Heartbeat { group, incarnation, next }, stamp) = Head::take(bytes, name)?;
        let counts = [("reached", take_u16(bytes)?), ("echoes", take_u16(bytes)?)];
        for (field, count) in counts {
            if count > TOLD_MAX {
                return Err(DecodeError::OutOfRange { field, value: count.into() });
            }
        }
        let [reached, echoes] = counts.map(|(_, count)| usize::from(count));
        let reached = take_items::<_, Reached>(bytes, reached, name)?;
        let echoes = take_items::<_, Echo>(bytes, echoes, name)?;
        Ok(Session { view, group, incarnation, next, stamp, reached, echoes })
    }

    fn any(rng: &mut Rng) -> Session {
        let (view, Heartbeat { group, incarnation, next }, stamp) = Head::any(rng);
        let reached = (0..rng.below(9)).map(|_| Reached::any(rng)).collect();
        let echoes = (0..rng.below(9)).map(|_| Echo::any(rng)).collect();
        Session { view, group, incarnation, next, stamp, reached, echoes }
    }

    fn layout(_: &str) -> String {
        let (reached, echoes) = (Reached::layout("reached"), Echo::layout("echo"));
        let counts = "stamp 8, reached 2, echoes 2";
        format!("view 8, {}, {counts}, ({reached}) each, ({echoes}) each", Heartbeat::layout(""))
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reached, echoes) = (self.reached.len(), self.echoes.len());
        let Session { group, next, .. } = self;
        write!(f, "session {group} next {next}, {reached} reached, {echoes} echoes")
    }
}

messages! {
    /// What members send to each other: all of it to the whole group.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// A packet of its sender.
        0 => Data(data: Data) ["{data}"],
        /// What a member says of itself and others.
        1 => Session(session: Session) ["{session}"],
        /// Who has these packets?
        2 => Request {
            /// The view.
            view: ViewId,
            /// Delay from the requester to the sender of the first packet, in microseconds.
            distance_us: u32,
            /// The packets.
            names: Names,
        } ["request {view}:{names}"],
        /// A repair: a packet from a member that holds it.
        3 => Repair {
            /// Delay from the member that repairs to the requester, in microseconds.
            distance_us: u32,
            /// The packet.
            supply: Supply,
        } ["repair {supply}"],
    }
}
