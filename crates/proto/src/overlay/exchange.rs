use super::message::Body;
use crate::core::{Instant, NodeId};
use crate::parts::slots::{SlotKey, Slots};

/// Values under the numbers that they have in messages: the generation in the upper 16 bits, the
/// place in the lower. At most 65,535 are in at once.
pub(super) type Numbered<T> = Slots<T, u32>;

impl SlotKey for u32 {
    const GENERATION_BITS: u32 = 16;

    fn new(place: u32, generation: u32) -> u32 {
        debug_assert!(place < 0xffff, "callers keep to their bounds");
        generation << 16 | place
    }

    fn place(self) -> u32 {
        self & 0xffff
    }

    fn generation(self) -> u32 {
        self >> 16
    }
}

/// A message whose answer is awaited.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// The node that must answer.
    pub to: NodeId,
    /// How often it was sent.
    pub sends: u8,
    /// How many nodes were tried before this one.
    pub tries: u8,
    /// When it was sent first.
    pub sent_at: Instant,
    /// When it counts as unanswered.
    pub due_at: Instant,
    /// What the answer is for.
    pub cause: Cause,
    /// The message.
    pub body: Body,
    /// What a look-up that asks hop by hop needs to go on.
    pub trail: Option<Box<Trail>>,
}

/// True of the messages that an answer can be for.
pub(super) type IsQuestion = fn(&Body) -> bool;

impl Body {
    /// The number of the exchange that this message answers, and which messages it can answer;
    /// `None` if it is no answer. Any message may be answered by [`Body::NotMember`].
    pub(super) fn answer_to(&self) -> Option<(u32, IsQuestion)> {
        let (number, fits): (u32, IsQuestion) = match self {
            Body::Ack { exchange } => (*exchange, |body| matches!(body, Body::Route(_))),
            Body::Found(found) => (found.exchange, |body| matches!(body, Body::Find { .. })),
            Body::PutReply { exchange, .. } => (*exchange, |body| matches!(body, Body::Put { .. })),
            Body::PutIfReply { exchange, .. } => {
                (*exchange, |body| matches!(body, Body::PutIf { .. }))
            }
            Body::CopyReply { exchange, .. } => {
                (*exchange, |body| matches!(body, Body::Copy { .. } | Body::CopyIf { .. }))
            }
            Body::Fetched { exchange, .. } => {
                (*exchange, |body| matches!(body, Body::Fetch { .. }))
            }
            Body::SummaryReply { exchange, .. } => {
                (*exchange, |body| matches!(body, Body::Summary { .. }))
            }
            Body::Answer { exchange, .. } => (*exchange, |body| matches!(body, Body::Ask { .. })),
            Body::Pong { exchange } => (*exchange, |body| matches!(body, Body::Ping { .. })),
            Body::ScanReply { exchange, .. } => {
                (*exchange, |body| matches!(body, Body::Scan { .. }))
            }
            Body::Listed { exchange, .. } => (*exchange, |body| matches!(body, Body::List { .. })),
            Body::StatReply { exchange, .. } => {
                (*exchange, |body| matches!(body, Body::Stat { .. }))
            }
            _ => return None,
        };
        Some((number, fits))
    }
}

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A bundle of another, or an own one: it is in the message.
    Relay {
        /// The node that handed it over; this node itself if it began here.
        from: NodeId,
    },
    /// A request of this node, by its name.
    Request(u32),
    /// A job done for others, by its name.
    Job(u32),
    /// Replicas compare what they hold.
    Sync,
    /// The table.
    Table,
    /// Whether a node that was given up answers again.
    Lost,
    /// The node whose place in the table another may have if there is no answer.
    Ping(NodeId),
}

/// Where a look-up has been.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail {
    /// Hops made, this one included.
    pub hops: u8,
    /// The node that named the others.
    pub named_by: Option<NodeId>,
    /// Other nodes that may be asked for the same targets.
    pub others: Vec<NodeId>,
}
