//! Commands from a node's application, and events to it.

use std::num::NonZeroU16;
use std::ops::Range;
use std::time::Duration;

use crate::core::NodeId;
use crate::core::Payload;
use crate::ndn::{Class, Data, Interest, NackReason, Name, PathLabel, Stamps, Trust, VerifyError};

use super::config::FaceConfig;
use super::face::FaceCounts;
use super::face_id::FaceId;
use super::strategy::Strategy;
use super::undecodable::Undecodable;

/// A node's initial faces, routes and objects. Commands add more.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The node's name in traces.
    pub name: String,
    /// Its neighbours.
    pub faces: Vec<(NodeId, FaceConfig)>,
    /// The settings of faces that open by themselves, on drivers that accept strangers.
    pub stranger: FaceConfig,
    /// Prefixes, and which neighbour leads there at which cost.
    pub routes: Vec<(Name, NodeId, u32)>,
    /// Strategies of prefixes, where they are not [`Strategy::BestRoute`].
    pub strategies: Vec<(Name, Strategy)>,
    /// The objects that it publishes.
    pub objects: Vec<Object>,
}

/// Something to be fetched, in segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name; segment numbers follow it.
    pub name: Name,
    /// Its content.
    pub content: Payload,
    /// Bytes of content in each segment but the last; 1 to 8,000.
    pub segment_bytes: usize,
    /// How long a Data of it is fresh; none for not at all.
    pub freshness: Option<Duration>,
}

impl Object {
    /// How many segments it has; one if it is empty.
    pub fn segments(&self) -> u64 {
        self.content.len().div_ceil(self.segment_bytes).max(1) as u64
    }
}

/// A command of the application to its node.
#[derive(Clone, Debug)]
pub enum Command {
    /// There is a neighbour.
    AddFace(NodeId, FaceConfig),
    /// Removes a neighbour.
    RemoveFace(NodeId),
    /// A neighbour leads to names with a prefix. Among several that do, the prefix's
    /// [strategy](Command::SetStrategy) chooses.
    AddRoute {
        /// The prefix.
        prefix: Name,
        /// The neighbour.
        peer: NodeId,
        /// Lower is preferred.
        cost: u32,
    },
    /// Sets how the next hops of names with a prefix are chosen. The longest prefix counts, whether
    /// it has a route of its own or not. Default [`Strategy::BestRoute`].
    SetStrategy {
        /// The prefix.
        prefix: Name,
        /// The strategy.
        strategy: Strategy,
    },
    /// Removes a route.
    RemoveRoute {
        /// The prefix.
        prefix: Name,
        /// The neighbour.
        peer: NodeId,
    },
    /// Answers Interests for an object's segments from now on.
    Publish(Object),
    /// Stops answering for the object of this name.
    Unpublish(Name),
    /// Asks the application for names with this prefix: [`Event::Asked`].
    Serve(Name),
    /// Stops asking the application for names with this prefix.
    Unserve(Name),
    /// The answer to [`Event::Asked`].
    Answer(Data),
    /// The other answer to [`Event::Asked`]: the application has no Data. Each asker gets a Nack,
    /// unless another next hop is left.
    Refuse(Box<Interest>, NackReason),
    /// Sends one Interest.
    Ask(Box<Question>),
    /// Fetches an object.
    Fetch(Fetch),
    /// The application has consumed this many segments of a flow.
    Consumed {
        /// The flow.
        flow: u64,
        /// How many.
        segments: usize,
    },
    /// Ends a flow, which then sends no further events.
    Stop {
        /// The flow.
        flow: u64,
    },
    /// Asks for [`Event::Report`].
    Report(u64),
}

/// One Interest of the application.
#[derive(Clone, Debug)]
pub struct Question {
    /// Names the question in its answer. An open question with the same number is dropped.
    pub id: u64,
    /// What is asked. Its nonce is drawn when it is sent, and its lifetime is 4 s at most.
    pub interest: Interest,
    /// The path to take; empty to leave the choice to the strategies of forwarders.
    pub path: PathLabel,
    /// True if forwarders choose among next hops at random, to find paths. Default no.
    pub discovers: bool,
    /// The neighbour that it goes to, whatever the routes say; none for what these say.
    pub to: Option<NodeId>,
}

impl Question {
    /// Asks for the Data of this very name, by any path.
    pub fn new(id: u64, name: Name) -> Question {
        let interest = Interest::new(name, 0);
        Question { id, interest, path: PathLabel::EMPTY, discovers: false, to: None }
    }
}

/// How a flow decides when to send Interests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// At the rates that forwarders stamp. As long as none does, with a window like CUBIC's.
    #[default]
    Rates,
    /// With a window that halves by a congestion mark and grows by one a round trip.
    Aimd,
    /// With a window as RFC 9438 says.
    Cubic,
}

/// A flow's use of several paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multipath {
    /// Primary Interests on the best path, at its rate; secondary ones on each path at the rate
    /// that is left there. The default.
    #[default]
    Dual,
    /// All on the best path, at its rate.
    Best,
    /// On each path at its rate.
    Sum,
}

/// An object to fetch.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Names the flow. Another one with this number ends.
    pub flow: u64,
    /// The object's name, without segment number.
    pub name: Name,
    /// How many segments it has; none if its Data will tell.
    pub segments: Option<u64>,
    /// Segments that the application has already, sorted and without overlaps.
    pub had: Vec<Range<u64>>,
    /// How it decides when to send.
    pub pace: Pace,
    /// What it does with several paths.
    pub multipath: Multipath,
    /// The most that it sends, bit/s of Data; none for no limit.
    pub bits_per_second_max: Option<u64>,
    /// Which signatures are accepted.
    pub trust: Trust,
    /// The most segments delivered and not [consumed](Command::Consumed); `None` for no limit.
    pub unread_max: Option<usize>,
    /// Give up after this time without Data before the flow fails; four times as long while
    /// Interests are refused for congestion.
    pub give_up_after: Duration,
}

impl Fetch {
    /// Fetches an object of unknown length, whose Data must have the digest that they say.
    pub fn new(flow: u64, name: Name) -> Fetch {
        Fetch {
            flow,
            name,
            segments: None,
            had: Vec::new(),
            pace: Pace::default(),
            multipath: Multipath::default(),
            bits_per_second_max: None,
            trust: Trust::Digest,
            unread_max: None,
            give_up_after: Duration::from_secs(15),
        }
    }
}

/// An event of a node for its application.
#[derive(Clone, Debug)]
pub enum Event {
    /// An Interest for a prefix that the application [serves](Command::Serve).
    Asked {
        /// The neighbour that asks; `None` for this node itself.
        from: Option<NodeId>,
        /// Its Interest.
        interest: Box<Interest>,
    },
    /// A segment has come, once, as it was signed.
    Segment {
        /// The flow.
        flow: u64,
        /// Its number.
        number: u64,
        /// The class by which it came.
        class: Class,
        /// The whole Data.
        data: Data,
        /// Its bytes on the link that it came by.
        link_bytes: usize,
        /// The rates of the path that it came by.
        stamps: Stamps,
    },
    /// A flow has all its segments.
    Fetched {
        /// The flow.
        flow: u64,
        /// What it took.
        counts: FlowCounts,
    },
    /// A flow has ended without.
    Failed {
        /// The flow.
        flow: u64,
        /// Why.
        why: FetchError,
        /// What it did until then.
        counts: FlowCounts,
    },
    /// The answer to a [`Question`].
    Answered {
        /// The question.
        id: u64,
        /// The answer.
        data: Data,
        /// The path that it came by.
        path: PathLabel,
        /// The rates of that path.
        stamps: Stamps,
        /// How long it took.
        round_trip: Duration,
    },
    /// No answer will come to a [`Question`].
    Unanswered {
        /// The question.
        id: u64,
        /// A refusal; none if its time is over.
        nack: Option<NackReason>,
    },
    /// The answer to [`Command::Report`].
    Report {
        /// Its number.
        id: u64,
        /// How the node is.
        report: Box<Report>,
    },
}

/// Why a flow ended before its object was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Nothing came for as long as it may.
    #[error("no more Data arrived")]
    Silent,
    /// Forwarders know no way to the name.
    #[error("no route leads to the name")]
    NoRoute,
    /// Data came that is not signed as it must be.
    #[error("the signature failed verification: {0}")]
    Unverified(VerifyError),
}

/// A flow's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Segments delivered to the application.
    pub segments: u64,
    /// Their bytes of content.
    pub content_bytes: u64,
    /// Bytes of their Data on the link, by primary Interests.
    pub primary_bytes: u64,
    /// Bytes of their Data on the link, by secondary Interests.
    pub secondary_bytes: u64,
    /// Interests sent.
    pub interests: u64,
    /// Interests that nothing came for in time.
    pub timeouts: u64,
    /// Interests taken for lost since later ones by the same path were answered.
    pub overtaken: u64,
    /// Interests sent again after a silence, to see whether others are lost.
    pub probes: u64,
    /// Interests that were refused.
    pub nacks: u64,
    /// Data that came twice.
    pub duplicates: u64,
    /// Data that carried a congestion mark.
    pub marks: u64,
    /// Data that was not signed as it must be.
    pub unverified: u64,
    /// How often another path became the best.
    pub switches: u64,
}

/// The state of a node.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// Interests pending.
    pub pending: usize,
    /// Data stored for others, and their bytes.
    pub stored: (usize, usize),
    /// Prefixes with a next hop.
    pub routes: usize,
    /// Its faces, by neighbour.
    pub faces: Vec<FaceReport>,
    /// Its flows.
    pub flows: Vec<FlowReport>,
}

/// The state of a face.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceReport {
    /// The neighbour.
    pub peer: NodeId,
    /// Its number in path labels; a new one each time the face is added.
    pub label: NonZeroU16,
    /// The rates that are stamped, bit/s; none where the link's rate is not known.
    pub rates_bits_per_second: Option<(f64, f64)>,
    /// The demand of Interests by this face in the last interval, bit/s of Data.
    pub demand_bits_per_second: f64,
    /// Interests that wait to leave.
    pub interests_waiting: usize,
    /// Packets that wait for the link.
    pub packets_waiting: usize,
    /// Their bytes.
    pub bytes_waiting: usize,
    /// Pending Interests that the neighbour asked for.
    pub pending: usize,
    /// The share of the neighbour's Interests that were answered, lately.
    pub answered: f64,
    /// Whether some neighbour's Interests mostly remain unanswered at this face, so that its
    /// Interests wait behind all others there.
    pub has_deprioritized: bool,
    /// What passed.
    pub counts: FaceCounts,
    /// What came and could not be decoded.
    pub undecodable: Undecodable,
}

/// The state of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowReport {
    /// The flow.
    pub flow: u64,
    /// What it counted.
    pub counts: FlowCounts,
    /// How many segments its object has, once that is known.
    pub segments: Option<u64>,
    /// Its round trip.
    pub round_trip: Option<Duration>,
    /// Its paths.
    pub paths: Vec<PathReport>,
}

/// The state of a flow's path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathReport {
    /// Its label.
    pub label: PathLabel,
    /// True if primary Interests take it.
    pub is_best: bool,
    /// The rates it was stamped with last, bit/s.
    pub stamps: Stamps,
    /// Its round trip.
    pub round_trip: Option<Duration>,
}

/// A timer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The link of a face is free.
    Link(FaceId),
    /// The next Interest may leave by a face.
    Shaper(FaceId),
    /// The rates of a face are due for an update.
    Rates(FaceId),
    /// A packet of which fragments came by a face may be incomplete for too long.
    Reassembly(FaceId),
    /// Pending Interests are due for a check.
    Pending,
    /// Answers to this node's own Interests wait.
    Local,
    /// A flow's lane may send.
    Lane {
        /// The flow.
        flow: u64,
        /// The lane.
        lane: u8,
        /// Tells it from an earlier timer of the lane.
        number: u16,
    },
    /// A flow is due to look for lost segments.
    Resend(u64),
    /// A flow is due to look for paths.
    Discover(u64),
}
