//! The table of peers: the members of the roster, and those that joined.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};

use super::claim::Claim;
use crate::chassis::ready::{ReadyList, Source};
use crate::record::{AHEAD_MAX, Refusal, Session};
use crate::roster::Roster;
use crate::session::PairSession;
use crate::streams::outgoing::Outgoing;
use crate::streams::queue::Cover;
use crate::tally::Tally;

/// Most peers that are remembered.
const PEERS_MAX: usize = 4096;
/// How long a peer that is gone is remembered, unless its place is needed: as long as a session may
/// lie in the future, so that a start that was refused is not accepted from a peer that was
/// forgotten.
const REMEMBERED_FOR: Duration = AHEAD_MAX;
/// Most addresses kept of peers that gave up their places,
const FORMER_MAX: usize = 1 << 16;
/// and how long they are kept.
const FORMER_FOR: Duration = Duration::from_secs(600);

/// How long records of a session are opened after another one has taken its place.
pub(crate) const FORMER_SESSION_FOR: Duration = Duration::from_secs(3);

/// Whether an emulated partition cuts the peer off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It does not.
    Open,
    /// It does.
    Cut,
}

/// Whether the peer's address is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Another node named the address: a Who must be answered there before anything else is sent.
    Hinted,
    /// The roster names it, or the peer has repeated a nonce that was sent there.
    Proven,
}

/// Whether this node has sent the peer its session by datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Introduction {
    /// Not yet: a Hello goes ahead of the next datagram.
    Due,
    /// Yes. If it was lost the peer asks for it.
    Made,
}

/// The sessions of a node that seals with one peer.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The one that seals.
    pub(crate) present: Option<Box<PairSession>>,
    /// Another that both hosts made at the same time, or the one before: it opens only.
    pub(crate) former: Option<Box<PairSession>>,
    /// The addresses of the handshakes under way that this node has dialled.
    pub(crate) dialled: Vec<SocketAddr>,
    /// Before this no further one is dialled.
    pub(crate) dial_after: Instant,
}

impl Keys {
    /// The session with this tag, if it is in force.
    pub(crate) fn of(&mut self, tag: u32, now: Instant) -> Option<&mut PairSession> {
        self.former.take_if(|former| now.since(former.since) > FORMER_SESSION_FOR);
        let sessions = [&mut self.present, &mut self.former];
        sessions
            .into_iter()
            .flatten()
            .find(|session| session.tag == tag)
            .map(|session| &mut **session)
    }
}

/// A member of the roster, this node included.
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) addr: SocketAddr,
    pub(crate) proof: Proof,
    /// The newest session that the peer has announced, and its tag.
    pub(crate) session: Option<(Session, u32)>,
    /// What seals messages to it and opens those of it.
    pub(crate) keys: Keys,
    pub(crate) reach: Reach,
    pub(crate) outgoing: Outgoing,
    /// The slot of the stream that the peer dialled.
    pub(crate) incoming: Option<usize>,
    introduction: Introduction,
    /// Before this no further Who is sent to the peer.
    pub(crate) who_after: Instant,
    /// Before this no further Who of the peer is answered.
    pub(crate) hello_after: Instant,
    /// Before this no further notice says that this node does not run a service of the peer,
    pub(crate) not_run_after: Instant,
    /// and none describes a service of this node to it.
    pub(crate) described_after: Instant,
    /// When a datagram of its session came last.
    pub(crate) heard_at: Instant,
    /// When this node first learned of the peer.
    known_since: Instant,
    /// Another run's claim to its id.
    pub(crate) claim: Claim,
    /// Before this no further question probes whether it is at its known address.
    pub(crate) probe_after: Instant,
    /// When it was last asked whether it is at a hinted address.
    pub(crate) challenged_at: Instant,
    /// Before this no further question goes to a hinted address.
    pub(crate) ask_after: Instant,
    /// Number of these questions in a row without an answer.
    pub(crate) proofs_failed: u32,
    /// The verification tag that the peer gave to this node, and when: messages to it carry the
    /// tag.
    pub(crate) told_tag: Option<(u32, Instant)>,
    /// The verification tag that the peer's messages must carry, and the peer's address for which
    /// it is valid.
    pub(crate) own_tag: Option<(SocketAddr, u32)>,
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

/// The effect of an announced session.
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
pub(crate) struct PeerTable {
    peers: Vec<Peer>,
    // Sorted by id.
    places: Vec<(NodeId, usize)>,
    to_flush: Vec<usize>,
    // The backlogs of all streams.
    queued: Tally,
    // At least one peer may still need our session.
    has_strangers: bool,
    former: Former,
    trust: Trust,
}

/// Why an address is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The roster names it, or its owner repeats a nonce.
    Addresses,
    /// A handshake was made there: the node seals.
    Sessions,
}

/// Last proven addresses of peers that gave up their places: the protocol may still send to them,
/// and does not know the address.
#[derive(Default)]
struct Former {
    // With the time at which each gave up its place.
    addresses: BTreeMap<NodeId, (SocketAddr, Instant)>,
    // In the order of that time. Some have returned since.
    order: VecDeque<(NodeId, Instant)>,
}

impl Former {
    fn insert(&mut self, node: NodeId, addr: SocketAddr, now: Instant) {
        while let Some(&(oldest, at)) = self.order.front()
            && (self.order.len() >= FORMER_MAX || now.since(at) >= FORMER_FOR)
        {
            self.order.pop_front();
            if self.addresses.get(&oldest).is_some_and(|&(_, since)| since == at) {
                self.addresses.remove(&oldest);
            }
        }
        self.order.push_back((node, now));
        self.addresses.insert(node, (addr, now));
    }

    fn take(&mut self, node: NodeId) -> Option<SocketAddr> {
        self.addresses.remove(&node).map(|(addr, _)| addr)
    }
}

impl PeerTable {
    /// The members of `roster`, none of them dialled.
    pub(crate) fn new(roster: &Roster, trust: Trust, ready: &Arc<ReadyList>) -> PeerTable {
        let mut table = PeerTable {
            peers: Vec::new(),
            places: Vec::new(),
            to_flush: Vec::new(),
            queued: Tally::default(),
            has_strangers: false,
            former: Former::default(),
            trust,
        };
        for &(node, addr) in roster.members() {
            let place = table.insert(node, addr, ready);
            if trust == Trust::Addresses {
                table.peers[place].proof = Proof::Proven;
            }
        }
        table
    }

    fn insert(&mut self, node: NodeId, addr: SocketAddr, ready: &Arc<ReadyList>) -> usize {
        let place = self.peers.len();
        self.insert_at(place, node, addr, ready);
        place
    }

    fn insert_at(&mut self, place: usize, node: NodeId, addr: SocketAddr, ready: &Arc<ReadyList>) {
        let waker = match self.peers.get(place) {
            Some(old) => old.outgoing.waker(),
            None => ready.waker(Source::Outgoing(place)),
        };
        let mut peer = Peer {
            node,
            addr,
            proof: Proof::Hinted,
            session: None,
            keys: Keys::default(),
            reach: Reach::Open,
            outgoing: Outgoing::new(self.cover(), self.queued.part(), waker),
            incoming: None,
            introduction: Introduction::Due,
            who_after: Instant::ZERO,
            hello_after: Instant::ZERO,
            not_run_after: Instant::ZERO,
            described_after: Instant::ZERO,
            heard_at: Instant::ZERO,
            known_since: Instant::ZERO,
            claim: Claim::default(),
            probe_after: Instant::ZERO,
            challenged_at: Instant::ZERO,
            ask_after: Instant::ZERO,
            proofs_failed: 0,
            told_tag: None,
            own_tag: None,
            listed: Listed::No,
        };
        match self.peers.get_mut(place) {
            Some(old) => {
                // Deadlines of the old peer's attempts must not apply to the new one.
                peer.outgoing.attempt = old.outgoing.attempt + 1;
                *old = peer;
            }
            None => self.peers.push(peer),
        }
        self.has_strangers = true;
        let after = self.places.partition_point(|&(known, _)| known < node);
        self.places.insert(after, (node, place));
    }

    fn cover(&self) -> Cover {
        match self.trust {
            Trust::Addresses => Cover::Plain,
            Trust::Sessions => Cover::Awaited,
        }
    }

    /// The place of a member that may be new, whose address is a hint. A new member replaces a peer
    /// that has been gone for long. In a full table it replaces a gone peer with no proven address,
    /// else the one that has been gone for longest. `None` if no peer can be replaced.
    pub(crate) fn place_or_insert(
        &mut self,
        node: NodeId,
        addr: SocketAddr,
        now: Instant,
        ready: &Arc<ReadyList>,
    ) -> Option<usize> {
        if let Some(place) = self.place(node) {
            return Some(place);
        }
        // Place 0 is this node's own, where no roster names others.
        let gone = || {
            (1..self.peers.len()).filter(|&place| {
                let peer = &self.peers[place];
                peer.incoming.is_none() && peer.outgoing.is_idle() && peer.listed == Listed::No
            })
        };
        let order = |&place: &usize| {
            let peer = &self.peers[place];
            (peer.proof == Proof::Proven, peer.heard_at)
        };
        let is_long_gone = |&place: &usize| {
            let peer = &self.peers[place];
            now.since(peer.heard_at.max(peer.known_since)) > REMEMBERED_FOR
        };
        let is_full = self.peers.len() >= PEERS_MAX;
        let place = gone().filter(is_long_gone).min_by_key(order);
        let place = place.or_else(|| gone().min_by_key(order).filter(|_| is_full));
        let place = match place {
            Some(place) => {
                self.forget(place, now);
                self.insert_at(place, node, addr, ready);
                place
            }
            None if is_full => return None,
            None => self.insert(node, addr, ready),
        };
        self.peers[place].known_since = now;
        Some(place)
    }

    /// The place of a peer to which the driver sends. A peer that gave up its place gets one again,
    /// and must prove its address again.
    pub(crate) fn place_or_recall(
        &mut self,
        node: NodeId,
        now: Instant,
        ready: &Arc<ReadyList>,
    ) -> Option<usize> {
        self.place(node).or_else(|| {
            let addr = self.former.take(node)?;
            self.place_or_insert(node, addr, now, ready)
        })
    }

    fn forget(&mut self, place: usize, now: Instant) {
        let Peer { node, addr, proof, .. } = self.peers[place];
        if proof == Proof::Proven {
            self.former.insert(node, addr, now);
        }
        self.places.retain(|&(known, _)| known != node);
    }

    /// The place of a member.
    pub(crate) fn place(&self, node: NodeId) -> Option<usize> {
        let found = self.places.binary_search_by_key(&node, |&(known, _)| known);
        found.ok().map(|at| self.places[at].1)
    }

    /// The member at a place.
    pub(crate) fn at(&mut self, place: usize) -> &mut Peer {
        &mut self.peers[place]
    }

    /// The stream to a member.
    pub(crate) fn outgoing(&self, node: NodeId) -> Option<&Outgoing> {
        self.place(node).map(|place| &self.peers[place].outgoing)
    }

    /// The newest session that a member has announced, and its tag.
    pub(crate) fn session(&self, place: usize) -> Option<(Session, u32)> {
        self.peers[place].session
    }

    /// All members in roster order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.peers.iter_mut()
    }

    /// Bytes that wait for the streams to all members.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued.bytes()
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

    /// True if a peer may need our session. Clears the mark until the next such peer.
    pub(crate) fn take_strangers(&mut self) -> bool {
        std::mem::take(&mut self.has_strangers)
    }

    /// Notes that the peer learns our session. True if it did not know it before.
    pub(crate) fn introduce(&mut self, place: usize) -> bool {
        let introduction = &mut self.peers[place].introduction;
        std::mem::replace(introduction, Introduction::Made) == Introduction::Due
    }

    /// Notes that the peer has restarted and does not know our session.
    pub(crate) fn make_stranger(&mut self, place: usize) {
        self.peers[place].introduction = Introduction::Due;
        self.has_strangers = true;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_former_peers_were_is_forgotten_in_time_but_for_those_that_came_back() {
        let addr = |port: u32| SocketAddr::from(([127, 0, 0, 1], port as u16));
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        let mut former = Former::default();
        former.insert(NodeId(1), addr(1), at(0));
        former.insert(NodeId(2), addr(2), at(1));
        former.insert(NodeId(3), addr(3), at(2));
        assert_eq!((former.take(NodeId(1)), former.take(NodeId(1))), (Some(addr(1)), None));
        former.insert(NodeId(1), addr(4), at(500));
        // The first stay of node 1 is over, and the only one of node 2.
        former.insert(NodeId(5), addr(5), at(601));
        assert_eq!((former.addresses.len(), former.order.len()), (3, 3));
        assert_eq!((former.take(NodeId(2)), former.take(NodeId(1))), (None, Some(addr(4))));
    }

    #[test]
    fn a_full_table_evicts_the_peer_that_is_gone_for_longest() {
        let ready = Arc::new(ReadyList::default());
        let addr = |port: u32| SocketAddr::from(([127, 0, 0, 1], port as u16));
        let own = Roster::new([(NodeId(0), addr(1))]).unwrap();
        let mut table: PeerTable = PeerTable::new(&own, Trust::Addresses, &ready);
        for node in 1..PEERS_MAX as u32 {
            let place = table
                .place_or_insert(NodeId::from(node), addr(node), Instant::ZERO, &ready)
                .unwrap();
            table.at(place).heard_at = Instant::from_nanos(u64::from(10_000 - node));
        }
        // The last one was heard of first, but a stream of it stands.
        table.at(PEERS_MAX - 1).incoming = Some(0);
        let place = table.place_or_insert(NodeId(70_000), addr(7), Instant::ZERO, &ready);
        assert_eq!(place, Some(PEERS_MAX - 2));
        assert_eq!(table.place(NodeId::from(PEERS_MAX as u32 - 2)), None);
        assert_eq!(table.place(NodeId(70_000)), place);
        assert_eq!((table.len(), table.place(NodeId(0))), (PEERS_MAX, Some(0)));
        for place in 1..PEERS_MAX {
            table.at(place).incoming = Some(0);
        }
        assert_eq!(table.place_or_insert(NodeId(70_001), addr(8), Instant::ZERO, &ready), None);
    }

    #[test]
    fn a_peer_that_is_gone_for_long_gives_its_place_to_a_new_one() {
        let ready = Arc::new(ReadyList::default());
        let addr = |port: u32| SocketAddr::from(([127, 0, 0, 1], port as u16));
        let own = Roster::new([(NodeId(0), addr(1))]).unwrap();
        let mut table: PeerTable = PeerTable::new(&own, Trust::Addresses, &ready);
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let insert = |table: &mut PeerTable, node: u32, seconds| {
            table.place_or_insert(NodeId::from(node), addr(node), at(seconds), &ready).unwrap()
        };
        assert_eq!([1, 2, 3].map(|node| insert(&mut table, node, 0)), [1, 2, 3]);
        table.at(1).heard_at = at(100);
        table.at(2).incoming = Some(0);
        // The first was heard of later, a stream of the second stands.
        assert_eq!(insert(&mut table, 4, 300), 4);
        assert_eq!(insert(&mut table, 5, 301), 3);
        assert_eq!((table.place(NodeId(3)), table.place(NodeId(5))), (None, Some(3)));
        // The fourth and the fifth were never heard from, but they are new.
        assert_eq!(insert(&mut table, 6, 401), 1);
        assert_eq!(insert(&mut table, 7, 402), 5);
        assert_eq!(table.len(), 6);
        // Those that have proven nothing go first.
        table.at(1).proof = Proof::Proven;
        assert_eq!([8, 9, 10, 11].map(|node| insert(&mut table, node, 1400)), [3, 4, 5, 1]);
        // Only what was proven is sent to again, and where it was.
        let recall =
            |table: &mut PeerTable, node| table.place_or_recall(NodeId(node), at(1400), &ready);
        assert_eq!(recall(&mut table, 5), None);
        let place = recall(&mut table, 6).expect("it was proven");
        assert_eq!((table.at(place).addr, table.at(place).proof), (addr(6), Proof::Hinted));
        assert_eq!(recall(&mut table, 6), Some(place));
    }
}
