//! Why a service of a peer and one of this node do not meet: the two tell each other.
//!
//! A message of a service that a node does not run is answered by its number. The peer then
//! describes its service, and if the node runs another one of that name it describes that.

use bytes::Bytes;
use paceline_proto::core::ServiceNumber;

use super::Driver;
use super::datagrams::may;
use super::peers::{Proof, Reach};
use crate::counters;
use crate::datagrams::queue::Urgency;
use crate::description::{
    Mismatch, PeerMismatch, ServiceDescription, ServiceDifference, ServiceNotice, namesake,
};
use crate::record::{HEADER_BYTES, Header, Kind, Refusal};

impl Driver {
    /// A datagram came for a service that this node does not run: tells its sender, if that is a
    /// peer in its present session.
    pub(super) fn answer_unknown(&mut self, header: &Header) {
        let Some(place) = self.peers.place(header.sender) else { return };
        let session = header.session ^ self.own_tag(place);
        let is_known = self.peers.session(place).is_some_and(|(_, tag)| tag == session);
        if is_known && header.kind == Kind::Message && header.sender != self.config.node {
            self.tell_not_run(place, header.service);
        }
    }

    /// Tells a peer that this node runs no service of this number.
    pub(super) fn tell_not_run(&mut self, place: usize, number: ServiceNumber) {
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        let may_tell = peer.proof == Proof::Proven && peer.reach == Reach::Open;
        if may_tell && may(&mut peer.not_run_after, now) {
            self.queue_notice(place, &ServiceNotice::NotRun(number));
        }
    }

    fn queue_notice(&mut self, place: usize, notice: &ServiceNotice) {
        let body = notice.encode();
        if HEADER_BYTES + body.len() > self.config.record_bytes_in_datagram_max() {
            return;
        }
        // Else the peer may not know this session.
        self.introduce(place);
        let header = Header { kind: Kind::Service, ..self.header_to(place) };
        let addr = self.peers.at(place).addr;
        self.queue_record(Urgency::Control, (addr, header), body.len(), |out| {
            out.extend_from_slice(&body);
        });
    }

    /// Handles what a peer says of a service.
    pub(super) fn take_notice(&mut self, place: usize, body: Bytes) -> Result<(), Refusal> {
        let now = self.chassis.now;
        match ServiceNotice::decode(body)? {
            ServiceNotice::NotRun(number) => {
                let description = self.chassis.services.description(number).cloned();
                self.note_mismatch(place, number, Mismatch::NotRun);
                if let Some(description) = description
                    && may(&mut self.peers.at(place).described_after, now)
                {
                    self.queue_notice(place, &ServiceNotice::Sought(description));
                }
            }
            ServiceNotice::Sought(theirs) => {
                // To compare costs time.
                if !may(&mut self.peers.at(place).described_after, now) {
                    return Ok(());
                }
                let found = namesake(self.chassis.services.descriptions(), &theirs);
                let Some((ours, difference)) = found.map(|(ours, how)| (ours.clone(), how)) else {
                    return Ok(());
                };
                self.count_difference(&difference);
                self.warn_of_difference(place, &ours, &difference);
                self.queue_notice(place, &ServiceNotice::Instead(theirs.number(), ours));
            }
            ServiceNotice::Instead(number, theirs) => {
                let Some(ours) = self.chassis.services.description(number).cloned() else {
                    return Ok(());
                };
                let is_namesake = ours.name == theirs.name;
                if let Some(difference) = ours.difference(&theirs).filter(|_| is_namesake) {
                    // The application learns it, and logs it if it wants to.
                    self.count_difference(&difference);
                    self.note_mismatch(place, number, Mismatch::Differs(difference));
                }
            }
        }
        Ok(())
    }

    fn note_mismatch(&mut self, place: usize, number: ServiceNumber, mismatch: Mismatch) {
        let peer = self.peers.at(place);
        let news = PeerMismatch { node: peer.node, address: peer.addr, mismatch };
        self.chassis.services.note_mismatch(number, news);
    }

    /// Counts that a peer's service of this name differs from this node's.
    fn count_difference(&mut self, difference: &ServiceDifference) {
        let counter = match difference {
            ServiceDifference::Kind { .. } => counters::SERVICE_OTHER_KIND,
            ServiceDifference::Version { .. } => counters::SERVICE_OTHER_VERSION,
            ServiceDifference::Knob { .. } => counters::SERVICE_OTHER_KNOBS,
        };
        self.chassis.counters.add(counter, 1);
    }

    /// Logs, at most once a second, that a peer looks for a service that differs from this node's.
    fn warn_of_difference(
        &mut self,
        place: usize,
        ours: &ServiceDescription,
        difference: &ServiceDifference,
    ) {
        if self.differ_warnings.admits(0, self.chassis.now) {
            let peer = self.peers.at(place);
            let peer = format!("{} at {}", peer.node, peer.addr);
            tracing::warn!(%peer, service = %ours, %difference, "service differs");
        }
    }
}
