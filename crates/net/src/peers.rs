//! What the driver knows of each member of the roster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Backlog, Instant, NodeId, Wire};

use crate::outgoing::Outgoing;
use crate::ready::{ReadyList, Source};
use crate::record::{Refusal, Session};
use crate::roster::Roster;

/// Most peers that are remembered.
const PEERS_MAX: usize = 4096;

/// A node that was heard from within this time is there: another one with its id is refused.
const HEARD_LATELY: Duration = Duration::from_secs(3);

/// Whether an emulated partition cuts the peer off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It does not.
    Open,
    /// It does.
    Cut,
}

/// Whether the peer was told our session by datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Introduction {
    /// Not yet: a Hello goes ahead of the next datagram.
    Due,
    /// Yes. If it was lost the peer asks.
    Made,
}

/// A member of the roster, this node included.
pub(crate) struct Peer<M> {
    pub(crate) node: NodeId,
    pub(crate) addr: SocketAddr,
    /// The newest session that the peer has announced, and its tag.
    pub(crate) session: Option<(Session, u32)>,
    pub(crate) reach: Reach,
    pub(crate) outgoing: Outgoing<M>,
    /// The slot of the stream that the peer dialled.
    pub(crate) incoming: Option<usize>,
    pub(crate) introduction: Introduction,
    /// Before this no further Who is sent to the peer.
    pub(crate) who_after: Instant,
    /// Before this no further Who of the peer is answered.
    pub(crate) hello_after: Instant,
    /// When a datagram of its session came last.
    pub(crate) heard_at: Instant,
    /// On the list of streams to flush.
    pub(crate) listed: Listed,
}

/// Whether a stream is on the list of those to flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// What an announced session says about its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The run that is known.
    Same,
    /// The first run that is known.
    First,
    /// A new run: the member has restarted.
    Restarted,
}

/// All members.
pub(crate) struct PeerTable<M> {
    peers: Vec<Peer<M>>,
    // Sorted by id.
    places: Vec<(NodeId, usize)>,
    to_flush: Vec<usize>,
}

impl<M: Wire> PeerTable<M> {
    /// The members of `roster`, none of them dialled.
    pub(crate) fn new(roster: &Roster, ready: &Arc<ReadyList>) -> PeerTable<M> {
        let mut table = PeerTable { peers: Vec::new(), places: Vec::new(), to_flush: Vec::new() };
        for &(node, addr) in roster.members() {
            table.insert(node, addr, ready);
        }
        table
    }

    fn insert(&mut self, node: NodeId, addr: SocketAddr, ready: &Arc<ReadyList>) -> usize {
        let place = self.peers.len();
        self.peers.push(Peer {
            node,
            addr,
            session: None,
            reach: Reach::Open,
            outgoing: Outgoing::new(ready.waker(Source::Outgoing(place))),
            incoming: None,
            introduction: Introduction::Due,
            who_after: Instant::ZERO,
            hello_after: Instant::ZERO,
            heard_at: Instant::ZERO,
            listed: Listed::No,
        });
        let after = self.places.partition_point(|&(known, _)| known < node);
        self.places.insert(after, (node, place));
        place
    }

    /// The place of a member that may be new; `None` if there is no more room.
    pub(crate) fn place_or_insert(
        &mut self,
        node: NodeId,
        addr: SocketAddr,
        ready: &Arc<ReadyList>,
    ) -> Option<usize> {
        match self.place(node) {
            Some(place) => Some(place),
            None if self.peers.len() >= PEERS_MAX => None,
            None => Some(self.insert(node, addr, ready)),
        }
    }

    /// The place of a member.
    pub(crate) fn place(&self, node: NodeId) -> Option<usize> {
        let found = self.places.binary_search_by_key(&node, |&(known, _)| known);
        found.ok().map(|at| self.places[at].1)
    }

    /// The member at a place.
    pub(crate) fn at(&mut self, place: usize) -> &mut Peer<M> {
        &mut self.peers[place]
    }

    /// All members in roster order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer<M>> {
        self.peers.iter_mut()
    }

    /// How many members there are.
    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Notes that the stream to this member has something to write or a drain to check.
    pub(crate) fn list_flush(&mut self, place: usize) {
        let peer = &mut self.peers[place];
        if peer.listed == Listed::No {
            peer.listed = Listed::Yes;
            self.to_flush.push(place);
        }
    }

    /// Moves the list of streams to flush into `into`.
    pub(crate) fn take_flushes(&mut self, into: &mut Vec<usize>) {
        into.append(&mut self.to_flush);
        for &place in into.iter() {
            self.peers[place].listed = Listed::No;
        }
    }

    /// True if a stream is listed.
    pub(crate) fn has_flushes(&self) -> bool {
        !self.to_flush.is_empty()
    }

    /// True if this session is not the one that is known, of a member that was heard from lately.
    pub(crate) fn is_taken(&self, place: usize, session: u32, now: Instant) -> bool {
        let peer = &self.peers[place];
        let is_other = peer.session.is_some_and(|(_, known)| known != session);
        is_other && peer.heard_at != Instant::ZERO && now.since(peer.heard_at) < HEARD_LATELY
    }

    /// Notes the session that a member announced.
    ///
    /// # Errors
    /// If a newer one is known.
    pub(crate) fn learn(&mut self, place: usize, session: Session) -> Result<Learned, Refusal> {
        let known = &mut self.peers[place].session;
        let learned = match known {
            None => Learned::First,
            Some((known, _)) if *known == session => return Ok(Learned::Same),
            Some((known, _)) if *known > session => return Err(Refusal::OldSession),
            Some(_) => Learned::Restarted,
        };
        *known = Some((session, session.tag()));
        Ok(learned)
    }
}

impl<M: Wire> Backlog for PeerTable<M> {
    fn backlog_bytes(&self, to: NodeId) -> usize {
        self.place(to).map_or(0, |place| self.peers[place].outgoing.queued_bytes())
    }
}
