//! Claims to a known id: a new run proves its address, and replaces the earlier run only once that
//! one is silent.
//!
//! In an open membership a Hello that announces a later session of a peer with a proven address has
//! no effect by itself. The node sends a Who with a nonce to the address that the Hello came from,
//! and only a Hello that repeats the nonce counts. It also sends such a question in answer to a Who
//! from another address than the known one. If the address is not the known one, the node also asks
//! the run at the known address: while that answers, the node refuses the claim.

use std::net::SocketAddr;

use paceline_proto::core::NodeId;

use super::Driver;
use super::claim::Verdict;
use super::datagrams::{TAKEN_IN_USE, TAKEN_LATER, may};
use super::peers::{Peer, Proof};
use crate::counters;
use crate::nonces::NONCE_BYTES;
use crate::record::{Header, Kind, Refusal, SESSION_BYTES, Session};
use crate::streams::outgoing::Phase;

impl Driver {
    /// Handles the Hello of a known peer.
    pub(super) fn take_hello(
        &mut self,
        place: usize,
        from: SocketAddr,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Refusal> {
        if self.config.sealing.is_some() {
            return self.take_sealed_hello(place, from, header, body);
        }
        if self.config.is_open && !self.admit_hello(place, from, header, body)? {
            return Ok(());
        }
        self.accept_hello(place, header, body)?;
        self.note_answer(from, place);
        Ok(())
    }

    /// True if a Hello may be accepted. Moves the peer to its proven address.
    fn admit_hello(
        &mut self,
        place: usize,
        from: SocketAddr,
        header: &Header,
        body: &[u8],
    ) -> Result<bool, Refusal> {
        let session = Session::announced(header, body)?;
        let peer = self.peers.at(place);
        let (addr, proof) = (peer.addr, peer.proof);
        let proven_at = self.proven_at(header.sender, from, addr, body);
        if proof == Proof::Hinted {
            return Ok(self.admit_unproven(place, from, header, body, session, proven_at));
        }
        let is_admitted = self.judge_hello(place, from, body, session, proven_at)?;
        if is_admitted && proven_at == Some(self.peers.at(place).addr) {
            self.note_tag(place, body);
        }
        Ok(is_admitted)
    }

    /// As above, for a peer whose address is proven.
    fn judge_hello(
        &mut self,
        place: usize,
        from: SocketAddr,
        body: &[u8],
        session: Session,
        proven_at: Option<SocketAddr>,
    ) -> Result<bool, Refusal> {
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        let (node, addr) = (peer.node, peer.addr);
        let known = peer.session.map(|(known, _)| known);
        let (is_here, is_proven) = (addr == from, proven_at == Some(from));
        match known {
            None if is_here => return Ok(true),
            Some(known) if known > session && is_proven => {
                self.queue_taken(from, TAKEN_LATER, body);
                return Err(Refusal::OldSession);
            }
            // The known run, from any address: nothing changes.
            Some(known) if known == session && (is_here || !is_proven) => {
                if is_proven {
                    self.peers.at(place).claim.note_answer(now);
                }
                return Ok(true);
            }
            _ if !is_proven => {
                self.challenge(node, from);
                return Ok(false);
            }
            // A node tells its session to any sender of a Who, so a Hello that repeats the known
            // session from another address is judged as well.
            Some(known) if !is_here => match self.judge_claim(place) {
                Verdict::Wait => {
                    self.note_echo(node, from);
                    return Ok(false);
                }
                Verdict::Refused => {
                    self.proofs.close(node);
                    if known == session {
                        return Ok(false);
                    }
                    self.queue_taken(from, TAKEN_IN_USE, body);
                    return Err(Refusal::IdInUse);
                }
                Verdict::Granted => {
                    self.proofs.close(node);
                }
            },
            _ => {}
        }
        self.move_peer(place, from);
        Ok(true)
    }

    /// Refuses the sender of a Hello that repeated a nonce.
    fn queue_taken(&mut self, to: SocketAddr, reason: u8, hello: &[u8]) {
        let nonce = &hello[SESSION_BYTES..][..NONCE_BYTES];
        self.queue_control(to, Kind::Taken, &[&[reason], nonce].concat());
    }

    fn judge_claim(&mut self, place: usize) -> Verdict {
        let now = self.chassis.now;
        let Peer { node, addr, .. } = *self.peers.at(place);
        let peer = self.peers.at(place);
        peer.claim.renew(now);
        let verdict = peer.claim.verdict(peer.heard_at, now);
        if may(&mut peer.probe_after, now) {
            peer.claim.probes += 1;
            self.challenge(node, addr);
        }
        verdict
    }

    /// Asks the node with this id at this address to repeat a nonce. The Who has 32 bytes, fewer
    /// than any Hello that triggers it.
    pub(super) fn challenge(&mut self, node: NodeId, addr: SocketAddr) {
        let nonce = self.nonces.nonce(node, addr, self.chassis.now);
        self.chassis.counters.add(counters::PEER_CHALLENGED, 1);
        self.queue_control(addr, Kind::Who, &nonce);
    }

    /// Moves the peer to this address.
    pub(super) fn move_peer(&mut self, place: usize, addr: SocketAddr) {
        let peer = self.peers.at(place);
        if peer.addr == addr {
            return;
        }
        tracing::debug!(peer = %peer.node, from = %peer.addr, to = %addr, "peer moved");
        peer.addr = addr;
        self.chassis.counters.add(counters::PEER_MOVED, 1);
        match self.peers.at(place).outgoing.phase {
            Phase::Established(_) => self.break_outgoing(place),
            // An attempt to connect to the old address.
            Phase::Connecting(_) | Phase::Greeting { .. } => self.fail_attempt(place),
            Phase::Idle | Phase::Waiting => {}
        }
    }
}
