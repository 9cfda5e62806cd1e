//! Nodes that no roster names: found at sought addresses, or learned by a protocol.

use std::net::SocketAddr;
use std::time::Duration;

use paceline_proto::core::PeerState;
use paceline_proto::host::{Call, ServicePlace};

use super::datagrams::TAKEN_LATER;
use super::peers::Proof;
use super::{Deadline, Driver, Notice, Sought};
use crate::counters;
use crate::record::{Header, Kind, Refusal, Session};

/// How often a sought address that has not answered is asked.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Addresses sought at once.
const SOUGHT_MAX: usize = 64;

impl Driver {
    /// Begins to look for members at these addresses, for a service.
    pub(super) fn look_for(&mut self, service: ServicePlace, addresses: Vec<SocketAddr>) {
        let is_idle = self.sought.is_empty();
        for address in addresses {
            let known = self.sought.iter_mut().find(|sought| sought.address == address);
            if let Some(sought) = known {
                if !sought.services.contains(&service) {
                    sought.services.push(service);
                }
            } else if self.sought.len() < SOUGHT_MAX {
                self.sought.push(Sought { address, services: vec![service] });
            }
        }
        if is_idle {
            self.ask_sought();
        }
    }

    /// True if a service looks for a member at this address.
    pub(super) fn is_sought(&self, address: SocketAddr) -> bool {
        self.sought.iter().any(|sought| sought.address == address)
    }

    pub(super) fn ask_sought(&mut self) {
        let addresses: Vec<_> = self.sought.iter().map(|sought| sought.address).collect();
        for address in addresses {
            self.queue_introduction(address);
            // Its id is not known yet: the nonce is for this node's id, which no other node has.
            let nonce = self.nonces.nonce(self.config.node, address, self.chassis.now);
            self.queue_control(address, Kind::Who, &nonce);
        }
        if !self.sought.is_empty() {
            self.deadlines.set(self.chassis.now + ASK_EVERY, Deadline::Seek);
        }
    }

    /// Handles a Hello from this address: if it is sought and the node's address there is proven,
    /// the services that seek it learn the node's id.
    pub(super) fn note_answer(&mut self, from: SocketAddr, place: usize) {
        let Some(at) = self.sought.iter().position(|sought| sought.address == from) else { return };
        if self.peers.at(place).proof == Proof::Hinted {
            return;
        }
        let to = Some(self.sought.swap_remove(at).services);
        let peer = self.peers.at(place);
        let incarnation = peer.session.map_or(0, |(session, _)| session.incarnation());
        let call = Call::Peer(peer.node, PeerState::Up { incarnation });
        self.notices.push(Notice { call, to });
    }

    /// A datagram came from a node that is not known, or that has this node's own id.
    pub(super) fn take_from_stranger(
        &mut self,
        from: SocketAddr,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Refusal> {
        if header.sender == self.config.node {
            if header.session != self.header.session {
                self.chassis.counters.add(counters::PEER_HAS_OWN_ID, 1);
            }
            // This node found itself, under another of its addresses.
            let is_own = header.session == self.header.session;
            self.sought.retain(|sought| sought.address != from || !is_own);
            return Ok(());
        }
        match header.kind {
            Kind::Hello => {
                Session::announced(header, body)?;
                let place = self.peers.place_or_insert(
                    header.sender,
                    from,
                    self.chassis.now,
                    &self.chassis.ready,
                );
                let place = place.ok_or(Refusal::UnknownSender)?;
                self.take_hello(place, from, header, body)?;
            }
            Kind::Taken => self.note_taken(body),
            // An address that this node asked, which asks for a proof of this node's address.
            Kind::Who if self.is_sought(from) => self.queue_hello(header.sender, from, body),
            // One short answer to one short question, at a limited rate.
            Kind::Who | Kind::Message | Kind::Group | Kind::Bundle | Kind::Service
                if !self.proofs.admits_answer(self.chassis.now) =>
            {
                self.chassis.counters.add(counters::STRANGER_UNANSWERED, 1);
            }
            Kind::Who => self.queue_hello(header.sender, from, body),
            Kind::Message | Kind::Group | Kind::Bundle | Kind::Service => {
                self.chassis.counters.add(Refusal::UnknownSession.counter(), 1);
                self.queue_control(from, Kind::Who, &[]);
            }
        }
        Ok(())
    }

    /// Handles a refusal of this node by another one.
    pub(super) fn note_taken(&mut self, body: &[u8]) {
        // Only a node that was answered knows the nonce.
        let counter = match body.split_first() {
            Some((_, nonce)) if self.echoed.iter().all(|echoed| echoed != nonce) => {
                counters::TAKEN_UNASKED
            }
            Some((&TAKEN_LATER, _)) => counters::PEER_LATER_START_KNOWN,
            Some(_) => counters::PEER_ID_TAKEN,
            None => counters::TAKEN_UNASKED,
        };
        self.chassis.counters.add(counter, 1);
    }
}
