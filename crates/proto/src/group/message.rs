//! Messages between members of a group, and their encoding.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::correlated::{Correlated, Correlation};
use super::direct::Direct;
use crate::chain;
use crate::core::field::{Address, List, ToEnd, fields, messages};
use crate::core::{ADDRESS_BYTES_MAX, DecodeError, Member, NodeId, ViewId};

/// Most members of a group.
pub const MEMBERS_MAX: usize = 1024;
/// Most hosts that a group may be created by: of [`Expect`](super::Expect), and of a list in a
/// [`Message::Gather`].
pub const EXPECT_MAX: usize = 64;

fields! {
    /// A member and where its driver reaches it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Contact {
        /// Who.
        pub member: Member,
        /// The incarnation of the host that it is a part of, if that has a failure detector; else
        /// 0.
        pub host: u64,
        /// What it drew before it asked to join. Only the members that let it in know it: an
        /// [`Message::Install`] with it comes from them.
        pub token: u64,
        /// What a driver makes of it, at most [`ADDRESS_BYTES_MAX`] bytes; empty in the simulator.
        pub address: Bytes as Address<ADDRESS_BYTES_MAX>,
    }
}

fields! {
    /// The number of an attempt to agree: attempts of one proposer are told apart by the round.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Ballot {
        /// Counts up.
        pub round: u32,
        /// Who proposes.
        pub proposer: NodeId,
    }
}

fields! {
    /// Up to where the survivors of a view deliver one origin's blocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cut {
        /// The origin's rank in the old view.
        pub origin: u32,
        /// The origin's incarnation, as its blocks bear it.
        pub incarnation: u64,
        /// All blocks below this are delivered, none from it on.
        pub end: u64,
        /// The rank of a survivor that has them.
        pub holder: u32,
    }
}

fields! {
    /// A view that may follow the present one, and how the present one ends.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Proposal {
        /// The ballot at which it was first made: its name.
        pub made_at: Ballot,
        /// It was adopted from an earlier ballot, at which it may have been decided.
        pub is_adopted: bool,
        /// Ranks, in the old view, of those that take part: they end the old view together.
        pub kept: Vec<u32> as List<MEMBERS_MAX>,
        /// The new view's members, oldest first.
        pub next: Vec<Contact> as List<MEMBERS_MAX> where check_distinct,
        /// How the old view ends, by origin's rank.
        pub cuts: Vec<Cut> as List<MEMBERS_MAX>,
    }
}

fields! {
    /// What a member has received of one origin.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Received {
        /// The origin's rank.
        pub origin: u32,
        /// The origin's incarnation.
        pub incarnation: u64,
        /// All blocks from this on and below `end` are here. Those before it were freed, as all
        /// members have them.
        pub first: u64,
        /// All blocks below this have come here.
        pub end: u64,
    }
}

fields! {
    /// The number of an attempt to create the group. Attempts of two runs of one host differ by the
    /// incarnation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct FoundingBallot {
        /// Counts up.
        pub round: u32,
        /// The host that makes the attempt.
        pub proposer: Member,
    }
}

fields! {
    /// The group to create: its first view.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Founding {
        /// The name of the view: the ballot at which it was first proposed.
        pub made_at: Ballot,
        /// The members: the host that proposed it first, then by id.
        pub members: Vec<Contact> as List<EXPECT_MAX> where check_distinct,
    }
}

fields! {
    /// Why a node may not join at present.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum Refusal as "refusal" {
        /// A member that is alive has the same node id.
        #[error("another running member has the same id")]
        0 => IdInUse,
        /// The group has as many members as it may have, or too many wait.
        #[error("the group is full")]
        1 => Full,
        /// The group went on without the node because the link between it and a member was dead. It
        /// has to wait, and the link has to be seen to work.
        #[error("the link to member {peer} was dead, and no message has passed it since")]
        2 => LinkDead {
            /// The member at the other end.
            peer: NodeId,
        },
    }
}

messages! {
    /// What members of a group send to each other.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// Of the broadcast inside a view.
        0 => Chain(message: chain::Message) ["{message}"],
        /// Of the failure detector.
        1 => Detector(bytes: Bytes as ToEnd) ["detector {} B", bytes.len()],
        /// From a node that wants to be a member; members pass it on to the oldest.
        2 => Join(contact: Contact) ["join {}", contact.member.node],
        /// The answer, if it is no.
        3 => Refused {
            /// That of the request.
            token: u64,
            /// Why.
            refusal: Refusal,
        } ["refused {refusal:?}"],
        /// The other reply of the oldest member: a challenge to prove the address in the request.
        18 => Challenge {
            /// That of the request.
            token: u64,
            /// What to send back.
            nonce: u64,
        } ["challenge"],
        /// The reply to a challenge: it proves that the sender receives messages at its address.
        19 => Response {
            /// That of the challenge.
            nonce: u64,
        } ["response"],
        /// To all members: the links between the sender and these members make no progress,
        /// although messages are pending. Repeated while that lasts.
        20 => Unreachable {
            /// The view.
            view: ViewId,
            /// The members' ranks.
            members: Vec<u32> as List<MEMBERS_MAX>,
        } ["unreachable {view} {members:?}"],
        /// From a member that leaves, to the oldest and, each time, to another one.
        4 => Leave {
            /// The view it is in.
            view: ViewId,
            /// The incarnation that goes.
            incarnation: u64,
        } ["leave {view}"],
        /// From a proposer: take part in the next attempt to end this view, and in no earlier one.
        5 => Prepare {
            /// The view that ends.
            view: ViewId,
            /// Its digest at the proposer: with another one, it is another view.
            digest: u64,
            /// The attempt.
            ballot: Ballot,
        } ["prepare {view} {ballot}"],
        /// The answer: from now on nothing of the view is sent or received here but by flush.
        6 => Promise {
            /// The view.
            view: ViewId,
            /// Its digest here. With another one than the proposer's nothing is promised.
            digest: u64,
            /// The attempt.
            ballot: Ballot,
            /// What was accepted last, and at which ballot.
            accepted: Option<(Ballot, Arc<Proposal>)>,
            /// What is here of each origin.
            received: Vec<Received> as List<MEMBERS_MAX>,
        } ["promise {view} {ballot}{}", Accepted(accepted)],
        /// From a proposer: flush, then accept.
        7 => Accept {
            /// The view.
            view: ViewId,
            /// The attempt.
            ballot: Ballot,
            /// The proposal.
            proposal: Arc<Proposal>,
        } ["accept {view} {ballot}: {} members", proposal.next.len()],
        /// The answer, once flushed.
        8 => Accepted {
            /// The view.
            view: ViewId,
            /// The attempt.
            ballot: Ballot,
        } ["accepted {view} {ballot}"],
        /// The reply to an attempt with a lower ballot than another, and to a member that assumes
        /// that the view continues.
        9 => Rejected {
            /// The view.
            view: ViewId,
            /// The ballot that was promised.
            promised: Ballot,
        } ["rejected {view}, {promised}"],
        /// The next view is decided.
        10 => Install {
            /// The view that it follows.
            after: ViewId,
            /// The proposal's name.
            made_at: Ballot,
            /// The members, oldest first.
            members: Vec<Contact> as List<MEMBERS_MAX> where check_distinct,
        } ["install after {after}: {} members", members.len()],
        /// The reply; and a request to others to confirm that it is still the current view.
        11 => Installed {
            /// The view that was installed.
            view: ViewId,
        } ["installed {view}"],
        /// The reply to that request: it is the current view here, and no successor was accepted.
        21 => Present {
            /// The view.
            view: ViewId,
        } ["present {view}"],
        /// To a survivor that has them: send me these blocks of the view that ends.
        12 => Fetch {
            /// The view.
            view: ViewId,
            /// The origin's rank.
            origin: u32,
            /// The first block.
            from: u64,
            /// The block after the last.
            to: u64,
        } ["fetch {view} origin {origin} {from}..{to}"],
        /// The answer, a block at a time, on the stream lane.
        13 => Flushed(frame: chain::Frame) [
            "flushed {} origin {} seq {}",
            frame.view, frame.origin, frame.seq
        ],
        /// To a node that considers itself a member: this is the current view, without the
        /// receiver.
        14 => Excluded {
            /// The present view.
            view: ViewId,
        } ["excluded, {view}"],
        /// A block of a message to this one member, on the stream lane.
        15 => Direct(block: Direct) [
                "direct {} number {} ({}/{}) {} B",
                block.view, block.number, block.index + 1, block.count, block.payload.len()
            ],
        /// The reply: acknowledges the blocks of this pair.
        16 => DirectAck {
            /// The incarnation of the blocks' sender.
            sender: u64,
            /// The incarnation of their receiver.
            receiver: u64,
            /// All blocks below this are here.
            received: u64,
            /// All blocks below this are consumed, or in assembly while nothing else waits for the
            /// application.
            consumed: u64,
        } ["direct-ack received {received} consumed {consumed}"],
        /// From a sender without an acknowledgement for a while: requests one. Answered by
        /// [`Message::DirectAck`].
        17 => DirectProbe {
            /// The incarnation of the blocks' sender.
            sender: u64,
            /// The incarnation of their receiver.
            receiver: u64,
        } ["direct-probe"],
        /// From a host that creates the group with others, to all hosts that it knows, each
        /// `join_every`. A member handles it as [`Message::Join`].
        22 => Gather {
            /// The sender.
            contact: Contact,
            /// Number of hosts that it takes to create the group.
            expect: u32,
            /// Other hosts that want to create the group, as many as fit a datagram.
            seen: Vec<Contact> as List<EXPECT_MAX>,
        } ["gather {} of {expect}, {} seen", contact.member.node, seen.len()],
        /// From a host that proposes to create the group: take part in no earlier attempt.
        23 => GatherPrepare {
            /// The attempt.
            ballot: FoundingBallot,
            /// Number of hosts that it takes to create the group.
            expect: u32,
        } ["gather-prepare {ballot}"],
        /// The reply.
        24 => GatherPromise {
            /// The attempt.
            ballot: FoundingBallot,
            /// The sender.
            contact: Contact,
            /// What the sender accepted last, and at which ballot.
            accepted: Option<(FoundingBallot, Arc<Founding>)>,
        } ["gather-promise {ballot}{}", FoundingAccepted(accepted)],
        /// From a host that has the promises of `expect` hosts: accept this first view.
        25 => GatherAccept {
            /// The attempt.
            ballot: FoundingBallot,
            /// Number of hosts that it takes to create the group.
            expect: u32,
            /// The first view.
            founding: Arc<Founding>,
        } ["gather-accept {ballot}: {} members", founding.members.len()],
        /// The reply. Once `expect` hosts have accepted, the group exists.
        26 => GatherAccepted {
            /// The attempt.
            ballot: FoundingBallot,
        } ["gather-accepted {ballot}"],
        /// The reply to an attempt with a lower ballot than another.
        27 => GatherRejected {
            /// The attempt.
            ballot: FoundingBallot,
            /// The ballot that was promised.
            promised: FoundingBallot,
        } ["gather-rejected {ballot}, {promised}"],
        /// A block of a request to this one member, or of the answer to one, on the stream lane.
        28 => Correlated(message: Correlated) [
            "{} {} {} number {} ({}/{}) {} B", message.head.correlation, message.head.id,
            message.block.view, message.block.number, message.block.index + 1,
            message.block.count, message.block.payload.len()
        ],
    }
}

impl fmt::Display for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Correlation::Request => "request",
            Correlation::Reply => "reply",
            Correlation::Refusal => "refusal",
        })
    }
}

/// The end of a promise's line: the ballot at which something was accepted.
struct Accepted<'a>(&'a Option<(Ballot, Arc<Proposal>)>);

impl fmt::Display for Accepted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |(at, _)| write!(f, ", accepted {at}"))
    }
}

/// The end of the line of a promise to create a group.
struct FoundingAccepted<'a>(&'a Option<(FoundingBallot, Arc<Founding>)>);

impl fmt::Display for FoundingAccepted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |(at, _)| write!(f, ", accepted {at}"))
    }
}

impl fmt::Display for FoundingBallot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}.{}", self.round, self.proposer.node)
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}.{}", self.round, self.proposer)
    }
}

/// A view has each node once, and ranks must mean the same to all.
fn check_distinct(contacts: &[Contact]) -> Result<(), DecodeError> {
    let mut nodes: Vec<u64> = contacts.iter().map(|contact| contact.member.node.0).collect();
    nodes.sort_unstable();
    match nodes.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(DecodeError::OutOfRange { field: "members", value: twice[0] }),
        None => Ok(()),
    }
}
