//! Sessions with peers, for a node that seals: when a handshake begins, what its end changes, and
//! what travels under the keys.
//!
//! Hello and Who by datagram prove addresses as they do for other nodes, and change nothing else: a
//! node that has repeated a nonce is dialled for a handshake if something waits for it or its
//! address is sought. Only a handshake makes a peer's address [`Proven`](Proof::Proven), and only
//! what its certificate and greeting say is believed: its id, and the run that it is.
//!
//! Two hosts that dial each other at the same time make two sessions. Both keep the one that the
//! host with the smaller id has dialled, and open records of the other for [`FORMER_SESSION_FOR`].

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use paceline_proto::core::NodeId;
use paceline_seal::identity::UnixTime;
use paceline_seal::{Agreed, STREAM_NONCE_BYTES, SendLane, TAG_BYTES};
use rand::TryRng;
use rand::rngs::SysRng;

use super::peers::{FORMER_SESSION_FOR, Keys, Proof, Reach};
use super::{Driver, streams};
use crate::counters;
use crate::handshakes::{Began, Ended, Failure, Greeting};
use crate::record::{Header, Kind, Refusal, Session};
use crate::session::{self, Dialler, PairSession, StreamNonce};
use crate::streams::incoming::{Incoming, Speaker};
use crate::streams::outgoing::Hello;

/// Least time between two handshakes that are dialled with a peer which has a session, and with one
/// that has none: others may claim its id, and each of them is dialled.
const RENEW_EVERY: Duration = Duration::from_secs(1);
const DIAL_EVERY: Duration = Duration::from_millis(50);
/// A peer from which something was opened within this time has the session.
const HEARD_WITHIN: Duration = Duration::from_millis(500);
/// Handshakes under way with one peer: more addresses than this may claim its id, and each gets one
/// at a time.
const DIALLED_MAX: usize = 4;
/// Bytes allocated at once for datagrams that are opened.
const OPENED_BYTES: usize = 1 << 16;

impl Driver {
    /// Handles the Hello of a known peer.
    pub(super) fn take_sealed_hello(
        &mut self,
        place: usize,
        from: SocketAddr,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Refusal> {
        let announced = Session::announced(header, body)?;
        let peer = self.peers.at(place);
        let (node, addr) = (peer.node, peer.addr);
        let is_known = peer.session.is_some_and(|(known, _)| known == announced);
        let (is_here, proof) = (addr == from, peer.proof);
        if is_known && is_here && proof == Proof::Proven {
            self.note_answer(from, place);
            return Ok(());
        }
        match self.proven_at(node, from, addr, body) {
            // The host of a session has repeated a nonce here.
            Some(at) if is_known && proof == Proof::Hinted => {
                self.note_proven(place, at, announced);
                self.note_answer(at, place);
            }
            Some(at) if proof == Proof::Proven || self.is_wanted(node, at) => {
                self.begin_handshake(place, at);
            }
            Some(_) => {}
            None => {
                if proof == Proof::Hinted && !is_here {
                    self.move_hint(place, from);
                }
                self.challenge(node, from);
            }
        }
        Ok(())
    }

    /// True if something waits for a peer, or a service seeks a node at this address.
    fn is_wanted(&self, node: NodeId, at: SocketAddr) -> bool {
        self.proofs.is_open(node) || self.is_sought(at)
    }

    /// Dials a peer at this address for a handshake, unless that is under way.
    fn begin_handshake(&mut self, place: usize, at: SocketAddr) {
        let peer = self.peers.at(place);
        // Others who claim its id must not keep it from being dialled where it is known to be.
        let is_proven = peer.proof == Proof::Proven && peer.addr == at;
        let dialled = &peer.keys.dialled;
        if peer.reach == Reach::Cut
            || (self.chassis.now < peer.keys.dial_after && !is_proven)
            || dialled.contains(&at)
            || (dialled.len() >= DIALLED_MAX && !is_proven)
        {
            return;
        }
        let greeting = self.greeting().encode();
        let Some(sealing) = &mut self.config.sealing else { return };
        match sealing.credentials(UnixTime::now()).dial(&greeting) {
            Ok(handshake) => {
                let peer = self.peers.at(place);
                peer.keys.dialled.push(at);
                let every = if peer.keys.present.is_some() { RENEW_EVERY } else { DIAL_EVERY };
                peer.keys.dial_after = self.chassis.now + every;
                let node = peer.node;
                self.proofs.extend(node, self.chassis.now);
                self.handshakes.dial((node, at), handshake);
            }
            Err(error) => tracing::error!(%error, "cannot begin a handshake"),
        }
    }

    fn greeting(&self) -> Greeting {
        let port = self.listener.local_addr().map_or(0, |addr| addr.port());
        Greeting { session: self.session, cluster: self.header.cluster, port }
    }

    /// Answers a handshake on an accepted connection.
    pub(super) fn accept_handshake(&mut self, incoming: Incoming) {
        if !self.handshakes.admits(self.chassis.now, self.config.half_open_max) {
            return self.chassis.counters.add(counters::HANDSHAKE_EVICTED, 1);
        }
        let greeting = self.greeting().encode();
        let Some(sealing) = &mut self.config.sealing else { return };
        match sealing.credentials(UnixTime::now()).accept(&greeting) {
            Ok(handshake) => {
                let (stream, read) = incoming.into_connection();
                self.handshakes.accept(stream, handshake, read);
            }
            Err(error) => tracing::error!(%error, "cannot answer a handshake"),
        }
    }

    /// Handles the handshakes that have ended.
    pub(super) fn take_handshakes(&mut self) {
        while let Some(Ended { began, result }) = self.handshakes.next() {
            if let Began::Dialled { node, addr } = began
                && let Some(place) = self.peers.place(node)
            {
                self.peers.at(place).keys.dialled.retain(|&dialled| dialled != addr);
            }
            let ended = match result {
                Ok(agreed) => self.begin_session(began, &agreed),
                Err(failure) => {
                    self.note_failure(began, &failure);
                    Err(None)
                }
            };
            match ended {
                Ok(()) => self.chassis.counters.add(counters::HANDSHAKE_MADE, 1),
                Err(refusal) => {
                    self.chassis.counters.add(counters::HANDSHAKE_FAILED, 1);
                    // Messages that wait for the peer wait on: it may answer elsewhere.
                    if let Some(refusal) = refusal {
                        self.refuse(refusal, &address(began));
                    }
                }
            }
        }
    }

    fn note_failure(&mut self, began: Began, failure: &Failure) {
        let at = address(began);
        // A peer that is not there is no reason for a warning.
        if let Failure::Handshake(error) = failure {
            if self.handshake_warnings.admits(0, self.chassis.now) {
                tracing::warn!(%at, reason = %error, "handshake failed");
            }
        } else {
            tracing::debug!(%at, reason = %failure, "handshake failed");
        }
    }

    /// Begins the session on which two hosts have agreed.
    fn begin_session(&mut self, began: Began, agreed: &Agreed) -> Result<(), Option<Refusal>> {
        let Some(sealing) = &self.config.sealing else { return Err(None) };
        let (suite, own, now) = (sealing.suite, self.config.node, self.chassis.now);
        let greeting = Greeting::decode(&agreed.greeting).map_err(Some)?;
        if greeting.cluster != self.header.cluster {
            return Err(Some(Refusal::ForeignCluster));
        }
        greeting.session.check_start().map_err(Some)?;
        let node = NodeId(agreed.peer.id.get());
        if node == own {
            self.chassis.counters.add(counters::PEER_HAS_OWN_ID, 1);
            return Err(None);
        }
        let (dialler, addr) = match began {
            Began::Dialled { node: expected, .. } if expected != node => {
                return Err(Some(Refusal::WrongMember));
            }
            Began::Dialled { addr, .. } => (Dialler::Own, addr),
            Began::Accepted { from } => (Dialler::Peer, SocketAddr::new(from.ip(), greeting.port)),
        };
        let place = self.peers.place_or_insert(node, addr, now, &self.chassis.ready);
        let place = place.ok_or(Some(Refusal::UnknownSender))?;
        if self.peers.at(place).reach == Reach::Cut {
            return Err(None);
        }
        let made = PairSession::new((own, dialler), suite, agreed, now).map_err(|error| {
            tracing::error!(%error, "cannot begin a session");
            None
        })?;
        if self.sealed.get(&made.tag).is_some_and(|&other| other != place) {
            // Two peers with one tag of 32 bits: another handshake draws another.
            return Err(None);
        }
        let is_first_of_run =
            self.peers.at(place).session.is_none_or(|(known, _)| known != greeting.session);
        self.note_run(place, greeting.session).map_err(Some)?;
        if is_first_of_run {
            // What the run before it has sealed must not be opened any longer.
            self.forget_keys(place);
        }
        self.keep_session(place, made);
        match dialler {
            Dialler::Own => {
                self.note_proven(place, addr, greeting.session);
                self.note_answer(addr, place);
            }
            // The address from which it dialled is not the one at which it receives.
            Dialler::Peer if self.peers.at(place).proof == Proof::Hinted => {
                let at = self.peers.at(place).addr;
                self.challenge(node, at);
            }
            Dialler::Peer => {}
        }
        Ok(())
    }

    /// Keeps a session of the present run of a peer: it seals from now on, unless both hosts have
    /// made one at the same time and the other is the one to keep.
    fn keep_session(&mut self, place: usize, made: PairSession) {
        let (own, now) = (self.config.node, self.chassis.now);
        let peer = self.peers.at(place);
        let kept = if own < peer.node { Dialler::Own } else { Dialler::Peer };
        let made = Box::new(made);
        let is_crossed = peer.keys.present.as_ref().is_some_and(|present| {
            present.dialler == kept
                && made.dialler != kept
                && now.since(present.since) < FORMER_SESSION_FOR
        });
        if is_crossed {
            peer.keys.former = Some(made);
            return;
        }
        let tag = made.tag;
        peer.keys.former = peer.keys.present.replace(made);
        if let Some(former) = &mut peer.keys.former {
            former.since = now;
            self.sealed.remove(&former.tag);
        }
        self.sealed.insert(tag, place);
        if self.sealed.len() > 2 * self.peers.len() {
            // Of peers that gave up their places.
            let peers = &mut self.peers;
            self.sealed.retain(|&tag, place| {
                let present = &peers.at(*place).keys.present;
                present.as_ref().is_some_and(|session| session.tag == tag)
            });
        }
    }

    /// Forgets the sessions with a peer.
    pub(super) fn forget_keys(&mut self, place: usize) {
        let Keys { present, former, .. } = &mut self.peers.at(place).keys;
        *former = None;
        if let Some(present) = present.take() {
            self.sealed.remove(&present.tag);
        }
    }

    /// Makes another session with a peer that seems to have lost the present one.
    pub(super) fn renew_session(&mut self, place: usize) {
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        let is_heard = now.since(peer.heard_at) < HEARD_WITHIN;
        if peer.proof == Proof::Proven && !is_heard && now >= peer.keys.dial_after {
            let at = peer.addr;
            self.begin_handshake(place, at);
        }
    }

    /// A peer has sent a Who from this address: one without a nonce answers a record that it could
    /// not open.
    pub(super) fn note_sealed_question(&mut self, place: usize, from: SocketAddr, nonce: &[u8]) {
        let peer = self.peers.at(place);
        let node = peer.node;
        if peer.proof == Proof::Hinted {
            self.note_question(node, from);
        } else if nonce.is_empty() && peer.addr == from {
            self.renew_session(place);
        }
    }

    /// Opens a datagram, whose header was split off; its session becomes that of the sender's run.
    pub(super) fn open_datagram(
        &mut self,
        from: SocketAddr,
        header: &mut Header,
        rest: &[u8],
    ) -> Result<Bytes, Refusal> {
        let now = self.chassis.now;
        let Some(place) = self.peers.place(header.sender) else {
            self.ask_for_session(from);
            return Err(Refusal::UnknownSession);
        };
        let peer = self.peers.at(place);
        let Some(session) = peer.keys.of(header.session, now) else {
            self.ask_for_session(from);
            return Err(Refusal::UnknownSession);
        };
        if self.opened.capacity() < rest.len() {
            self.opened = BytesMut::with_capacity(rest.len().max(OPENED_BYTES));
        }
        self.opened.extend_from_slice(rest);
        let mut record = self.opened.split();
        let body_bytes = session.open(header, &mut record)?.len();
        let is_worn = session.is_worn();
        record.truncate(body_bytes);
        if let Some((_, run)) = peer.session {
            header.session = run;
        }
        if is_worn {
            self.renew_session(place);
        }
        Ok(record.freeze())
    }

    /// Tells the sender of a datagram that this node has no session with it: shorter than any
    /// sealed record, and at a limited rate.
    fn ask_for_session(&mut self, from: SocketAddr) {
        if self.proofs.admits_answer(self.chassis.now) {
            self.queue_control(from, Kind::Who, &[]);
        }
    }

    /// Seals the datagrams that wait and are not sealed yet.
    pub(super) fn seal_datagrams(&mut self) {
        let (sealed, peers) = (&self.sealed, &mut self.peers);
        let mut dropped = 0;
        self.datagrams.queue.cover(&mut self.chassis.counters, |datagram, out| {
            if Header::kind_of(datagram).is_some_and(session::is_plain) {
                return out.extend_from_slice(datagram);
            }
            let tag = Header::session_of(datagram);
            let place = sealed.get(&tag);
            let session = place.and_then(|&place| peers.at(place).keys.present.as_deref_mut());
            let Some(session) = session.filter(|session| session.tag == tag) else {
                dropped += 1;
                return;
            };
            out.extend_from_slice(datagram);
            out.resize(datagram.len() + TAG_BYTES, 0);
            session.seal(out);
        });
        self.chassis.counters.add(counters::SESSION_ENDED_DROPPED, dropped);
    }

    /// The Hello that opens a stream to a peer.
    pub(super) fn sealed_hello(&mut self, place: usize) -> Option<Hello> {
        let header = Header { kind: Kind::Hello, sequence: 0, ..self.header_to(place) };
        let session = self.peers.at(place).keys.present.as_ref()?;
        let nonce = stream_nonce()?;
        let record = streams::hello_record(&header, &session.opening(&header, &nonce, None));
        Some(Hello { record, sealed: Some((session.tag, nonce)) })
    }

    /// Checks the peer's answer to this node's Hello of this session and nonce; returns what seals
    /// the stream.
    pub(super) fn sealed_reply(
        &mut self,
        place: usize,
        (header, body): (&Header, &[u8]),
        (tag, nonce): (u32, StreamNonce),
    ) -> Result<SendLane, Refusal> {
        if header.kind != Kind::Hello || header.session != tag {
            return Err(Refusal::UnknownSession);
        }
        let session =
            self.peers.at(place).keys.of(tag, self.chassis.now).ok_or(Refusal::UnknownSession)?;
        let theirs = session.opened(header, body, Some(&nonce)).ok_or(Refusal::Forged)?;
        Ok(session.sending(&nonce, &theirs))
    }

    /// Takes the Hello that opens a sealed stream, and answers it.
    pub(super) fn greet_sealed(
        &mut self,
        place: usize,
        incoming: &mut Incoming,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Refusal> {
        if header.kind != Kind::Hello {
            return Err(Refusal::Malformed);
        }
        let tag = header.session;
        if self.peers.at(place).reach == Reach::Cut {
            // Closed without an answer, which the dialler sees as a failed attempt.
            incoming.speaker = Speaker::Peer { peer: place, session: tag };
            return Ok(());
        }
        let reply = Header { kind: Kind::Hello, sequence: 0, session: tag, ..self.header };
        let session =
            self.peers.at(place).keys.of(tag, self.chassis.now).ok_or(Refusal::UnknownSession)?;
        let theirs = session.opened(header, body, None).ok_or(Refusal::Forged)?;
        let nonce = stream_nonce().ok_or(Refusal::Malformed)?;
        let record = streams::hello_record(&reply, &session.opening(&reply, &nonce, Some(&theirs)));
        incoming.lane = Some(Box::new(session.receiving(&theirs, &nonce)));
        incoming.speaker = Speaker::Opening { peer: place, session: tag };
        // If it is not written whole the dialler gets no whole answer, and tries again.
        let _ = incoming.stream.try_write(&record);
        Ok(())
    }

    /// The first record of a sealed stream was opened: its Hello was not a repeated one.
    pub(super) fn admit_opened(
        &mut self,
        slot: usize,
        incoming: &mut Incoming,
        (place, tag): (usize, u32),
    ) -> Result<(), Refusal> {
        if self.peers.at(place).keys.of(tag, self.chassis.now).is_none() {
            // The peer has restarted meanwhile.
            return Err(Refusal::OldSession);
        }
        // A dialler has one stream: records left in an earlier one are obsolete.
        self.close_incoming_of(place);
        self.peers.at(place).incoming = Some(slot);
        incoming.speaker = Speaker::Peer { peer: place, session: tag };
        Ok(())
    }
}

fn stream_nonce() -> Option<StreamNonce> {
    let mut nonce = [0; STREAM_NONCE_BYTES];
    match SysRng.try_fill_bytes(&mut nonce) {
        Ok(()) => Some(nonce),
        Err(error) => {
            tracing::error!(%error, "no random numbers for a stream");
            None
        }
    }
}

fn address(began: Began) -> SocketAddr {
    match began {
        Began::Dialled { addr, .. } => addr,
        Began::Accepted { from } => from,
    }
}
