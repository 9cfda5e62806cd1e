//! Carrying out the requests of a handler.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{Copies, GroupId, Instant, Lane, Membership, NodeId};
use paceline_proto::host::{Carrier, Encode, Encoded, ServicePlace};
use paceline_proto::parts::link_share::Path;

use super::datagrams::{Content, Datagram};
use super::link::Queued;
use super::peers::Proof;
use super::{Deadline, Driver};
use crate::counters;
use crate::record::{GROUP_BYTES, HEADER_BYTES, Header, LENGTH_BYTES, ServiceNumber};
use crate::streams::outgoing::{NotifiedState, Phase};
use crate::streams::queue::WriteQueue;

impl Driver {
    pub(super) fn change_membership(
        &mut self,
        (service, number): (ServicePlace, ServiceNumber),
        group: GroupId,
        membership: Membership,
    ) {
        let is_change = match membership {
            Membership::Joined => self.groups.insert((service, group)),
            Membership::Left => self.groups.remove(&(service, group)),
        };
        let Some(native) = self.multicast.as_mut().filter(|_| is_change) else { return };
        let changed = match membership {
            Membership::Joined => native.join(number, group),
            Membership::Left => native.leave(number, group),
        };
        if let Err(error) = changed {
            tracing::error!(group = group.0, %error, "cannot join or leave an address");
            self.chassis.counters.add(counters::MULTICAST_MEMBERSHIP_FAILED, 1);
        }
    }

    /// Leaves all groups of a service that has ended.
    pub(super) fn leave_groups(&mut self, (service, number): (ServicePlace, ServiceNumber)) {
        let joined: Vec<GroupId> =
            self.groups.iter().filter(|(of, _)| *of == service).map(|&(_, group)| group).collect();
        for group in joined {
            self.change_membership((service, number), group, Membership::Left);
        }
    }

    pub(super) fn send_multicast(&mut self, to: SocketAddr, record: &[u8]) {
        if self.peers.take_strangers() {
            for place in 0..self.peers.len() {
                match self.peers.at(place).proof {
                    Proof::Proven => self.introduce(place),
                    // It is introduced once it is proven.
                    Proof::Hinted => self.ask_for_proof(place),
                }
            }
            self.datagrams.queue.data.fence();
        }
        self.queue_copy(to, record);
    }

    /// Lists the places of the nodes to which a service's group messages are copied: the other
    /// hosts that it watches, or all known nodes if it watches none itself.
    fn list_receivers(&mut self, service: ServicePlace, receivers: &mut Vec<usize>) {
        let me = self.config.node;
        match self.detector.listed(service) {
            Some(nodes) => {
                let (now, ready) = (self.chassis.now, &self.chassis.ready);
                let place = |&node: &NodeId| self.peers.place_or_recall(node, now, ready);
                receivers.extend(nodes.iter().filter_map(place));
            }
            None => {
                let known = 0..self.peers.len();
                receivers.extend(known.filter(|&place| self.peers.at(place).node != me));
            }
        }
    }

    /// Sends a message of a service to a node.
    pub(super) fn send_message(
        &mut self,
        (to, lane): (NodeId, Lane),
        service: ServiceNumber,
        message: &dyn Encode,
    ) {
        let (now, ready) = (self.chassis.now, &self.chassis.ready);
        let Some(place) = self.peers.place_or_recall(to, now, ready) else {
            self.chassis.counters.add(counters::SEND_UNKNOWN_MEMBER, 1);
            return;
        };
        let copies = self.chassis.draw(place, lane);
        match lane {
            Lane::Stream => self.send_stream((place, service), message, copies),
            Lane::Datagram => {
                let bytes = message.wire_len();
                if HEADER_BYTES + bytes > self.config.record_bytes_in_datagram_max() {
                    self.chassis.counters.add(counters::DATAGRAM_UNSENDABLE, 1);
                    return;
                }
                let content = Content::Message { service, message, bytes };
                self.send_datagram(place, content, copies);
            }
        }
    }

    fn send_stream(
        &mut self,
        (place, service): (usize, ServiceNumber),
        message: &dyn Encode,
        copies: Copies,
    ) {
        let record_bytes = WriteQueue::record_bytes(message);
        if record_bytes - LENGTH_BYTES > self.config.record_bytes_max {
            tracing::error!(record_bytes, "a message is longer than `record_bytes_max`");
            self.chassis.counters.add(counters::STREAM_UNSENDABLE, 1);
            return;
        }
        let outgoing = &mut self.peers.at(place).outgoing;
        if outgoing.notified_state == NotifiedState::Down {
            self.chassis.counters.add(counters::STREAM_DISCARDED, 1);
            if let Phase::Idle = outgoing.phase {
                self.dial(place);
            }
            return;
        }
        if self.peers.at(place).proof == Proof::Hinted
            && !self.may_queue_unproven(place, record_bytes)
        {
            self.chassis.counters.add(counters::PROOF_DROPPED, 1);
            return self.lose_unproven(place);
        }
        let outgoing = &mut self.peers.at(place).outgoing;
        if outgoing.queued_bytes() + record_bytes > self.config.stream_queue_bytes_max {
            self.chassis.counters.add(counters::STREAM_QUEUE_OVERFLOW, 1);
            return self.lose_outgoing(place);
        }
        if let Phase::Idle = outgoing.phase {
            self.dial(place);
        }
        let until = match copies {
            Copies::One(delay) | Copies::Two(delay, _) => self.chassis.now + delay,
            // The model never loses on a stream.
            Copies::None => self.chassis.now,
        };
        let outgoing = &mut self.peers.at(place).outgoing;
        if until > self.chassis.now || !outgoing.held.is_empty() {
            let until = outgoing.hold(until, service, Encoded::new(message));
            self.deadlines.set(until, Deadline::Release { place });
        } else {
            self.queue_stream((place, service), message);
        }
    }

    fn queue_stream(&mut self, (place, service): (usize, ServiceNumber), message: &dyn Encode) {
        self.chassis.traffic.stream_messages_out += 1;
        self.peers.at(place).outgoing.push(Header { service, ..self.header }, message);
        self.peers.list_flush(place);
    }

    /// Queues the held-back messages whose time has come.
    pub(super) fn release(&mut self, place: usize) {
        while let Some((service, message)) = self.peers.at(place).outgoing.release(self.chassis.now)
        {
            self.queue_stream((place, service), &message);
        }
        self.peers.list_flush(place);
    }

    pub(super) fn send_datagram(&mut self, place: usize, content: Content<'_>, copies: Copies) {
        match copies {
            Copies::None => self.chassis.counters.add(counters::EMULATED_LOSS, 1),
            Copies::One(delay) if delay.is_zero() => {
                self.queue_datagram(&Datagram { place, content });
            }
            Copies::One(delay) => {
                let record = self.held_record(content);
                self.send_record_after(place, record, delay);
            }
            Copies::Two(first, second) => {
                self.chassis.counters.add(counters::EMULATED_DUPLICATE, 1);
                let record = self.held_record(content);
                self.send_record_after(place, record.clone(), first);
                self.send_record_after(place, record, second);
            }
        }
    }

    fn send_record_after(&mut self, place: usize, record: Bytes, delay: Duration) {
        if delay.is_zero() {
            return self.queue_datagram(&Datagram { place, content: Content::Record(record) });
        }
        let at = round_to_grain(self.chassis.now + delay, delay);
        self.deadlines.set_in_order(at, Deadline::Datagram { place, record });
    }

    pub(super) fn disconnect(&mut self, peer: NodeId) {
        let Some(place) = self.peers.place(peer) else {
            return;
        };
        self.chassis.counters.add(counters::STREAM_DISCONNECTED, 1);
        self.close_incoming_of(place);
        self.break_outgoing(place);
    }
}

/// A driver while it carries out the requests of a service.
pub(super) struct Carrying<'a> {
    pub(super) driver: &'a mut Driver,
    pub(super) service: ServicePlace,
    /// The number of the service.
    pub(super) number: ServiceNumber,
}

impl Carrier for Carrying<'_> {
    fn send(&mut self, to: NodeId, lane: Lane, message: &dyn Encode) {
        let (driver, path) = (&mut *self.driver, Path { to: Some(to), lane });
        if driver.admits(self.number, path, message.wire_len()) {
            driver.send_message((to, lane), self.number, message);
        } else {
            let queued = Queued::Message(Encoded::new(message));
            driver.wait_for_link((self.number, path), message.wire_len(), queued);
        }
    }

    /// Sends a message to a group: once with IP multicast, else a copy to each other member of
    /// the service, or to each known node if it has a fixed roster. Who has not joined the group
    /// drops it.
    fn send_group(&mut self, group: GroupId, message: &dyn Encode) {
        let driver = &mut *self.driver;
        let record_bytes = HEADER_BYTES + GROUP_BYTES + message.wire_len();
        if record_bytes > driver.config.record_bytes_in_datagram_max() {
            driver.chassis.counters.add(counters::DATAGRAM_UNSENDABLE, 1);
            return;
        }
        let record = driver.group_record(self.number, group, message);
        // Each emulated link does something else to its copy.
        let is_emulated = driver.is_cut || driver.chassis.is_emulating();
        if let Some(native) = driver.multicast.as_ref().filter(|_| !is_emulated) {
            let to = native.address(self.number, group);
            let (path, bytes) = (Path { to: None, lane: Lane::Datagram }, record.len());
            if driver.admits(self.number, path, bytes) {
                return driver.send_multicast(to, &record);
            }
            let queued = Queued::Multicast(to, record);
            return driver.wait_for_link((self.number, path), bytes, queued);
        }
        let mut receivers = std::mem::take(&mut driver.receivers);
        driver.list_receivers(self.service, &mut receivers);
        for place in receivers.drain(..) {
            self.send_copy(place, &record);
        }
        self.driver.receivers = receivers;
    }

    fn end_sends(&mut self) {
        self.driver.keep_within_memory();
    }

    fn arm(&mut self, at: Instant, slot: u32) {
        self.driver.deadlines.set(at, Deadline::Timer { service: self.service, slot });
    }
}

impl Carrying<'_> {
    /// Sends a copy of a group's message to a peer.
    fn send_copy(&mut self, place: usize, record: &Bytes) {
        let driver = &mut *self.driver;
        if !driver.is_group_copy_due(place) {
            driver.chassis.counters.add(counters::PROOF_DROPPED, 1);
            return;
        }
        let path = Path { to: Some(driver.peers.at(place).node), lane: Lane::Datagram };
        if driver.admits(self.number, path, record.len()) {
            let copies = driver.chassis.draw(place, Lane::Datagram);
            driver.send_datagram(place, Content::Record(record.clone()), copies);
        } else {
            driver.wait_for_link((self.number, path), record.len(), Queued::Copy(record.clone()));
        }
    }
}

/// The instant at which a message held back for `delay` leaves: later by less than a 256th of that,
/// so that messages of about the same time leave together.
fn round_to_grain(at: Instant, delay: Duration) -> Instant {
    let grain = 1 << (delay.as_nanos() / 256).max(1).ilog2().min(32);
    Instant::from_nanos(at.as_nanos().div_ceil(grain).saturating_mul(grain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_leaves_together_and_not_much_later() {
        let at =
            |delay: Duration| round_to_grain(Instant::from_nanos(1_000_000_001), delay).as_nanos();
        assert_eq!(at(Duration::from_nanos(1)), 1_000_000_001);
        for millis in [1, 50, 1000] {
            let delay = Duration::from_millis(millis);
            let later = at(delay) - 1_000_000_001;
            assert!(later < delay.as_nanos() as u64 / 256, "{later}");
        }
        let delay = Duration::from_millis(50);
        let times = (0..1000).map(|place| round_to_grain(Instant::from_nanos(place * 1000), delay));
        let different: std::collections::BTreeSet<Instant> = times.collect();
        assert_eq!(different.len(), 9, "a millisecond in parts of 131 us");
    }
}
