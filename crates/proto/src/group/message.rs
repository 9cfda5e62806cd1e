//! What members of a group send to each other, and its form in bytes.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::direct::Direct;
use crate::chain;
use crate::core::{
    DecodeError, Member, NodeId, Payload, ViewId, Wire, split, take_u8, take_u16, take_u32,
    take_u64,
};

/// Most members of a group.
pub const MEMBERS_MAX: usize = 1024;
/// Longest address of a member, bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// A member and where its driver reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Who.
    pub member: Member,
    /// What it drew before it asked to join. Only the members that let it in know it: an
    /// [`Message::Install`] with it comes from them.
    pub token: u64,
    /// What a driver makes of it, at most [`ADDRESS_BYTES_MAX`] bytes; empty in the simulator.
    pub address: Bytes,
}

/// The number of an attempt to agree: attempts of one proposer are told apart by the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// Counts up.
    pub round: u32,
    /// Who proposes.
    pub proposer: NodeId,
}

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

/// A view that may follow the present one, and how the present one ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The ballot at which it was first made: its name.
    pub made_at: Ballot,
    /// It was adopted from an earlier ballot, at which it may have been decided.
    pub is_adopted: bool,
    /// Ranks, in the old view, of those that take part: they end the old view together.
    pub kept: Vec<u32>,
    /// The new view's members, oldest first.
    pub next: Vec<Contact>,
    /// How the old view ends, by origin's rank.
    pub cuts: Vec<Cut>,
}

/// What a member has received of one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The origin's rank.
    pub origin: u32,
    /// The origin's incarnation.
    pub incarnation: u64,
    /// All blocks from this on and below `end` are here. Those before it were freed, as all members
    /// have them.
    pub first: u64,
    /// All blocks below this have come here.
    pub end: u64,
}

/// Why a node may not join at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A member that is alive has the same node id.
    #[error("a member that is alive has the same id")]
    IdInUse,
    /// The group has as many members as it may have, or too many wait.
    #[error("the group is full")]
    Full,
    /// The group went on without the node because the link between it and a member was dead. It
    /// has to wait, and the link has to be seen to work.
    #[error("the link to member {peer} was dead, and has not been seen to work since")]
    LinkDead {
        /// The member at the other end.
        peer: NodeId,
    },
}

impl Refusal {
    fn wire_len(self) -> usize {
        match self {
            Refusal::IdInUse | Refusal::Full => 1,
            Refusal::LinkDead { .. } => 5,
        }
    }

    fn encode(self, head: &mut BytesMut) {
        match self {
            Refusal::IdInUse => head.put_u8(0),
            Refusal::Full => head.put_u8(1),
            Refusal::LinkDead { peer } => {
                head.put_u8(2);
                head.put_u32(peer.0);
            }
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Refusal, DecodeError> {
        match take_u8(bytes)? {
            0 => Ok(Refusal::IdInUse),
            1 => Ok(Refusal::Full),
            2 => Ok(Refusal::LinkDead { peer: NodeId(take_u32(bytes)?) }),
            value => Err(DecodeError::OutOfRange { field: "refusal", value: value.into() }),
        }
    }
}

/// What members of a group send to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Of the broadcast inside a view.
    Chain(chain::Message),
    /// Of the failure detector.
    Detector(Bytes),
    /// From a node that wants to be a member; members pass it on to the oldest.
    Join(Contact),
    /// The answer, if it is no.
    Refused {
        /// That of the request.
        token: u64,
        /// Why.
        refusal: Refusal,
    },
    /// The answer of the oldest member otherwise: prove that you are where the request says.
    Challenge {
        /// That of the request.
        token: u64,
        /// What to send back.
        nonce: u64,
    },
    /// The answer to a challenge: whoever sends it receives what is sent to its address.
    Response {
        /// That of the challenge.
        nonce: u64,
    },
    /// To all members: the links between the sender and these members make no progress, although
    /// they have something to carry. Repeated as long as that is so.
    Unreachable {
        /// The view.
        view: ViewId,
        /// The members' ranks.
        members: Vec<u32>,
    },
    /// From a member that wants to go, to the oldest and, each time, to another one.
    Leave {
        /// The view it is in.
        view: ViewId,
        /// The incarnation that goes.
        incarnation: u64,
    },
    /// From a proposer: take part in the next attempt to end this view, and in no earlier one.
    Prepare {
        /// The view that ends.
        view: ViewId,
        /// Its digest at the proposer: with another one, it is another view.
        digest: u64,
        /// The attempt.
        ballot: Ballot,
    },
    /// The answer: from now on nothing of the view is sent or received here but by flush.
    Promise {
        /// The view.
        view: ViewId,
        /// Its digest here. With another one than the proposer's nothing is promised.
        digest: u64,
        /// The attempt.
        ballot: Ballot,
        /// What was accepted last, and at which ballot.
        accepted: Option<(Ballot, Arc<Proposal>)>,
        /// What is here of each origin.
        received: Vec<Received>,
    },
    /// From a proposer: flush, then accept.
    Accept {
        /// The view.
        view: ViewId,
        /// The attempt.
        ballot: Ballot,
        /// The proposal.
        proposal: Arc<Proposal>,
    },
    /// The answer, once flushed.
    Accepted {
        /// The view.
        view: ViewId,
        /// The attempt.
        ballot: Ballot,
    },
    /// The answer to an attempt that is behind another, and to a member that takes it that the view
    /// goes on.
    Rejected {
        /// The view.
        view: ViewId,
        /// The ballot that was promised.
        promised: Ballot,
    },
    /// The next view is decided.
    Install {
        /// The view that it follows.
        after: ViewId,
        /// The proposal's name.
        made_at: Ballot,
        /// The members, oldest first.
        members: Vec<Contact>,
    },
    /// The answer; and a question to others, whether it still is the present view.
    Installed {
        /// The view that was installed.
        view: ViewId,
    },
    /// The answer to the question: it is the present view here, and no other was accepted to follow
    /// it.
    Present {
        /// The view.
        view: ViewId,
    },
    /// To a survivor that has them: send me these blocks of the view that ends.
    Fetch {
        /// The view.
        view: ViewId,
        /// The origin's rank.
        origin: u32,
        /// The first block.
        from: u64,
        /// The block after the last.
        to: u64,
    },
    /// The answer, a block at a time, on the stream lane.
    Flushed(chain::Frame),
    /// To a node that takes itself for a member: this view is the present one, and you are not in
    /// it.
    Excluded {
        /// The present view.
        view: ViewId,
    },
    /// A block of a message to this one member, on the stream lane.
    Direct(Direct),
    /// The answer: how far the blocks of this pair have come.
    DirectAck {
        /// The incarnation of the blocks' sender.
        sender: u64,
        /// The incarnation of their receiver.
        receiver: u64,
        /// All blocks below this are here.
        received: u64,
        /// All blocks below this are consumed, or in assembly while nothing else waits for the
        /// application.
        consumed: u64,
    },
    /// From a sender that was told nothing for a while: how far are my blocks? Answered by
    /// [`Message::DirectAck`].
    DirectProbe {
        /// The incarnation of the blocks' sender.
        sender: u64,
        /// The incarnation of their receiver.
        receiver: u64,
    },
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Chain(message) => message.fmt(f),
            Message::Detector(bytes) => write!(f, "detector {} B", bytes.len()),
            Message::Join(contact) => write!(f, "join {}", contact.member.node),
            Message::Refused { refusal, .. } => write!(f, "refused {refusal:?}"),
            Message::Challenge { .. } => f.write_str("challenge"),
            Message::Response { .. } => f.write_str("response"),
            Message::Unreachable { view, members } => write!(f, "unreachable {view} {members:?}"),
            Message::Leave { view, .. } => write!(f, "leave {view}"),
            Message::Prepare { view, ballot, .. } => write!(f, "prepare {view} {ballot}"),
            Message::Promise { view, ballot, accepted, .. } => {
                write!(f, "promise {view} {ballot}")?;
                match accepted {
                    Some((at, _)) => write!(f, ", accepted {at}"),
                    None => Ok(()),
                }
            }
            Message::Accept { view, ballot, proposal } => {
                write!(f, "accept {view} {ballot}: {} members", proposal.next.len())
            }
            Message::Accepted { view, ballot } => write!(f, "accepted {view} {ballot}"),
            Message::Rejected { view, promised } => write!(f, "rejected {view}, {promised}"),
            Message::Install { after, members, .. } => {
                write!(f, "install after {after}: {} members", members.len())
            }
            Message::Installed { view } => write!(f, "installed {view}"),
            Message::Present { view } => write!(f, "present {view}"),
            Message::Fetch { view, origin, from, to } => {
                write!(f, "fetch {view} origin {origin} {from}..{to}")
            }
            Message::Flushed(frame) => {
                write!(f, "flushed {} origin {} seq {}", frame.view, frame.origin, frame.seq)
            }
            Message::Excluded { view } => write!(f, "excluded, {view}"),
            Message::Direct(Direct { view, number, index, count, payload, .. }) => {
                let (part, bytes) = (index + 1, payload.len());
                write!(f, "direct {view} number {number} ({part}/{count}) {bytes} B")
            }
            Message::DirectAck { received, consumed, .. } => {
                write!(f, "direct-ack received {received} consumed {consumed}")
            }
            Message::DirectProbe { .. } => f.write_str("direct-probe"),
        }
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}.{}", self.round, self.proposer)
    }
}

const BALLOT_BYTES: usize = 8;
const CONTACT_BYTES_MIN: usize = 4 + 8 + 8 + 1;
const RECEIVED_BYTES: usize = 28;
const CUT_BYTES: usize = 24;

impl Contact {
    fn wire_len(&self) -> usize {
        CONTACT_BYTES_MIN + self.address.len()
    }

    fn encode(&self, head: &mut BytesMut) {
        debug_assert!(self.address.len() <= ADDRESS_BYTES_MAX);
        head.put_u32(self.member.node.0);
        head.put_u64(self.member.incarnation);
        head.put_u64(self.token);
        head.put_u8(self.address.len() as u8);
        head.put_slice(&self.address);
    }

    fn decode(bytes: &mut Bytes) -> Result<Contact, DecodeError> {
        let node = NodeId(take_u32(bytes)?);
        let incarnation = take_u64(bytes)?;
        let token = take_u64(bytes)?;
        let length = take_u8(bytes)?;
        let address = split(bytes, length.into())?;
        // Kept longer than the datagram that it came in.
        let address = Bytes::copy_from_slice(&address);
        Ok(Contact { member: Member { node, incarnation }, token, address })
    }
}

fn put_ballot(head: &mut BytesMut, ballot: Ballot) {
    head.put_u32(ballot.round);
    head.put_u32(ballot.proposer.0);
}

fn take_ballot(bytes: &mut Bytes) -> Result<Ballot, DecodeError> {
    Ok(Ballot { round: take_u32(bytes)?, proposer: NodeId(take_u32(bytes)?) })
}

/// Reads a count and checks that so many items of at least so many bytes may follow.
fn take_count(bytes: &mut Bytes, item_bytes_min: usize) -> Result<usize, DecodeError> {
    let count = usize::from(take_u16(bytes)?);
    if count > MEMBERS_MAX {
        return Err(DecodeError::OutOfRange { field: "count", value: count as u64 });
    }
    let need = count * item_bytes_min;
    if bytes.len() < need {
        return Err(DecodeError::Truncated { need, have: bytes.len() });
    }
    Ok(count)
}

fn contacts_len(contacts: &[Contact]) -> usize {
    2 + contacts.iter().map(Contact::wire_len).sum::<usize>()
}

fn put_contacts(head: &mut BytesMut, contacts: &[Contact]) {
    head.put_u16(contacts.len() as u16);
    contacts.iter().for_each(|contact| contact.encode(head));
}

fn take_contacts(bytes: &mut Bytes) -> Result<Vec<Contact>, DecodeError> {
    let count = take_count(bytes, CONTACT_BYTES_MIN)?;
    let contacts: Vec<Contact> =
        (0..count).map(|_| Contact::decode(bytes)).collect::<Result<_, _>>()?;
    // A view has each node once, and ranks must mean the same to all.
    let mut nodes: Vec<u32> = contacts.iter().map(|contact| contact.member.node.0).collect();
    nodes.sort_unstable();
    match nodes.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(DecodeError::OutOfRange { field: "members", value: twice[0].into() }),
        None => Ok(contacts),
    }
}

impl Proposal {
    fn wire_len(&self) -> usize {
        BALLOT_BYTES
            + 1
            + 2
            + 4 * self.kept.len()
            + contacts_len(&self.next)
            + 2
            + CUT_BYTES * self.cuts.len()
    }

    fn encode(&self, head: &mut BytesMut) {
        put_ballot(head, self.made_at);
        head.put_u8(self.is_adopted.into());
        head.put_u16(self.kept.len() as u16);
        self.kept.iter().for_each(|&rank| head.put_u32(rank));
        put_contacts(head, &self.next);
        head.put_u16(self.cuts.len() as u16);
        for cut in &self.cuts {
            head.put_u32(cut.origin);
            head.put_u64(cut.incarnation);
            head.put_u64(cut.end);
            head.put_u32(cut.holder);
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Proposal, DecodeError> {
        let made_at = take_ballot(bytes)?;
        let is_adopted = match take_u8(bytes)? {
            0 => false,
            1 => true,
            value => {
                return Err(DecodeError::OutOfRange { field: "adopted", value: value.into() });
            }
        };
        let count = take_count(bytes, 4)?;
        let kept = (0..count).map(|_| take_u32(bytes)).collect::<Result<_, _>>()?;
        let next = take_contacts(bytes)?;
        let count = take_count(bytes, CUT_BYTES)?;
        let cut = |bytes: &mut Bytes| -> Result<Cut, DecodeError> {
            Ok(Cut {
                origin: take_u32(bytes)?,
                incarnation: take_u64(bytes)?,
                end: take_u64(bytes)?,
                holder: take_u32(bytes)?,
            })
        };
        let cuts = (0..count).map(|_| cut(bytes)).collect::<Result<_, _>>()?;
        Ok(Proposal { made_at, is_adopted, kept, next, cuts })
    }
}

impl Wire for Message {
    fn wire_len(&self) -> usize {
        1 + match self {
            Message::Chain(message) => message.wire_len(),
            Message::Detector(bytes) => bytes.len(),
            Message::Join(contact) => contact.wire_len(),
            Message::Refused { refusal, .. } => 8 + refusal.wire_len(),
            Message::Unreachable { members, .. } => 8 + 2 + 4 * members.len(),
            Message::Response { .. } => 8,
            Message::Leave { .. } => 16,
            Message::Accepted { .. } | Message::Rejected { .. } => 8 + BALLOT_BYTES,
            Message::Prepare { .. } => 16 + BALLOT_BYTES,
            Message::Promise { accepted, received, .. } => {
                let accepted =
                    accepted.as_ref().map_or(0, |(_, value)| BALLOT_BYTES + value.wire_len());
                16 + BALLOT_BYTES + 1 + accepted + 2 + RECEIVED_BYTES * received.len()
            }
            Message::Accept { proposal, .. } => 8 + BALLOT_BYTES + proposal.wire_len(),
            Message::Install { members, .. } => 8 + BALLOT_BYTES + contacts_len(members),
            Message::Installed { .. } | Message::Present { .. } | Message::Excluded { .. } => 8,
            Message::Fetch { .. } => 28,
            Message::Flushed(frame) => {
                // A frame's head counts the tag.
                chain::Frame::HEAD_BYTES - 1 + frame.payload.len()
            }
            Message::Direct(block) => Direct::HEAD_BYTES - 1 + block.payload.len(),
            Message::DirectAck { .. } => 32,
            Message::DirectProbe { .. } | Message::Challenge { .. } => 16,
        }
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        match self {
            Message::Chain(message) => {
                head.put_u8(0);
                return message.encode(head);
            }
            Message::Detector(bytes) => {
                head.put_u8(1);
                head.put_slice(bytes);
            }
            Message::Join(contact) => {
                head.put_u8(2);
                contact.encode(head);
            }
            Message::Refused { token, refusal } => {
                head.put_u8(3);
                head.put_u64(*token);
                refusal.encode(head);
            }
            Message::Leave { view, incarnation } => {
                head.put_u8(4);
                head.put_u64(view.0);
                head.put_u64(*incarnation);
            }
            Message::Prepare { view, digest, ballot } => {
                head.put_u8(5);
                head.put_u64(view.0);
                head.put_u64(*digest);
                put_ballot(head, *ballot);
            }
            Message::Promise { view, digest, ballot, accepted, received } => {
                head.put_u8(6);
                head.put_u64(view.0);
                head.put_u64(*digest);
                put_ballot(head, *ballot);
                head.put_u8(accepted.is_some().into());
                if let Some((at, proposal)) = accepted {
                    put_ballot(head, *at);
                    proposal.encode(head);
                }
                head.put_u16(received.len() as u16);
                for row in received {
                    head.put_u32(row.origin);
                    head.put_u64(row.incarnation);
                    head.put_u64(row.first);
                    head.put_u64(row.end);
                }
            }
            Message::Accept { view, ballot, proposal } => {
                head.put_u8(7);
                head.put_u64(view.0);
                put_ballot(head, *ballot);
                proposal.encode(head);
            }
            Message::Accepted { view, ballot } => {
                head.put_u8(8);
                head.put_u64(view.0);
                put_ballot(head, *ballot);
            }
            Message::Rejected { view, promised } => {
                head.put_u8(9);
                head.put_u64(view.0);
                put_ballot(head, *promised);
            }
            Message::Install { after, made_at, members } => {
                head.put_u8(10);
                head.put_u64(after.0);
                put_ballot(head, *made_at);
                put_contacts(head, members);
            }
            Message::Installed { view } => {
                head.put_u8(11);
                head.put_u64(view.0);
            }
            Message::Fetch { view, origin, from, to } => {
                head.put_u8(12);
                head.put_u64(view.0);
                head.put_u32(*origin);
                head.put_u64(*from);
                head.put_u64(*to);
            }
            Message::Flushed(frame) => {
                head.put_u8(13);
                frame.encode(head);
                return Some(&frame.payload);
            }
            Message::Excluded { view } => {
                head.put_u8(14);
                head.put_u64(view.0);
            }
            Message::Direct(block) => {
                head.put_u8(15);
                block.encode(head);
                return Some(&block.payload);
            }
            Message::DirectAck { sender, receiver, received, consumed } => {
                head.put_u8(16);
                [sender, receiver, received, consumed].iter().for_each(|word| head.put_u64(**word));
            }
            Message::DirectProbe { sender, receiver } => {
                head.put_u8(17);
                [sender, receiver].iter().for_each(|word| head.put_u64(**word));
            }
            Message::Challenge { token, nonce } => {
                head.put_u8(18);
                [token, nonce].iter().for_each(|word| head.put_u64(**word));
            }
            Message::Response { nonce } => {
                head.put_u8(19);
                head.put_u64(*nonce);
            }
            Message::Unreachable { view, members } => {
                head.put_u8(20);
                head.put_u64(view.0);
                head.put_u16(members.len() as u16);
                members.iter().for_each(|&rank| head.put_u32(rank));
            }
            Message::Present { view } => {
                head.put_u8(21);
                head.put_u64(view.0);
            }
        }
        None
    }

    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        let tag = take_u8(bytes)?;
        match tag {
            0 => return Ok(Message::Chain(chain::Message::decode(bytes)?)),
            1 => return Ok(Message::Detector(std::mem::take(bytes))),
            2 => return Ok(Message::Join(Contact::decode(bytes)?)),
            3 => {
                let (token, refusal) = (take_u64(bytes)?, Refusal::decode(bytes)?);
                return Ok(Message::Refused { token, refusal });
            }
            13 => return Ok(Message::Flushed(chain::Frame::decode(bytes)?)),
            15 => return Ok(Message::Direct(Direct::decode(bytes)?)),
            16 => {
                return Ok(Message::DirectAck {
                    sender: take_u64(bytes)?,
                    receiver: take_u64(bytes)?,
                    received: take_u64(bytes)?,
                    consumed: take_u64(bytes)?,
                });
            }
            17 => {
                let (sender, receiver) = (take_u64(bytes)?, take_u64(bytes)?);
                return Ok(Message::DirectProbe { sender, receiver });
            }
            18 => {
                let (token, nonce) = (take_u64(bytes)?, take_u64(bytes)?);
                return Ok(Message::Challenge { token, nonce });
            }
            19 => return Ok(Message::Response { nonce: take_u64(bytes)? }),
            4..=12 | 14 | 20 | 21 => {}
            _ => return Err(DecodeError::UnknownTag(tag)),
        }
        let view = ViewId(take_u64(bytes)?);
        Ok(match tag {
            4 => Message::Leave { view, incarnation: take_u64(bytes)? },
            5 => Message::Prepare { view, digest: take_u64(bytes)?, ballot: take_ballot(bytes)? },
            6 => {
                let digest = take_u64(bytes)?;
                let ballot = take_ballot(bytes)?;
                let accepted = match take_u8(bytes)? {
                    0 => None,
                    1 => Some((take_ballot(bytes)?, Arc::new(Proposal::decode(bytes)?))),
                    value => {
                        let value = value.into();
                        return Err(DecodeError::OutOfRange { field: "accepted", value });
                    }
                };
                let count = take_count(bytes, RECEIVED_BYTES)?;
                let row = |bytes: &mut Bytes| -> Result<Received, DecodeError> {
                    Ok(Received {
                        origin: take_u32(bytes)?,
                        incarnation: take_u64(bytes)?,
                        first: take_u64(bytes)?,
                        end: take_u64(bytes)?,
                    })
                };
                let received = (0..count).map(|_| row(bytes)).collect::<Result<_, _>>()?;
                Message::Promise { view, digest, ballot, accepted, received }
            }
            7 => {
                let ballot = take_ballot(bytes)?;
                Message::Accept { view, ballot, proposal: Arc::new(Proposal::decode(bytes)?) }
            }
            8 => Message::Accepted { view, ballot: take_ballot(bytes)? },
            9 => Message::Rejected { view, promised: take_ballot(bytes)? },
            10 => {
                let made_at = take_ballot(bytes)?;
                Message::Install { after: view, made_at, members: take_contacts(bytes)? }
            }
            11 => Message::Installed { view },
            12 => Message::Fetch {
                view,
                origin: take_u32(bytes)?,
                from: take_u64(bytes)?,
                to: take_u64(bytes)?,
            },
            14 => Message::Excluded { view },
            21 => Message::Present { view },
            _ => {
                let count = take_count(bytes, 4)?;
                let members = (0..count).map(|_| take_u32(bytes)).collect::<Result<_, _>>()?;
                Message::Unreachable { view, members }
            }
        })
    }
}
