//! Datagrams: sending, receiving, and identifying the sender.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use paceline_proto::core::{GroupId, Instant, NodeId, take_u32};
use paceline_proto::host::{Call, Encode, ServicePlace};

use super::Driver;
use super::peers::{Proof, Reach};
use crate::bundle::{self, Entries};
use crate::chassis::Drive;
use crate::chassis::ready::Source;
use crate::counters;
use crate::datagrams::arrivals::{Arrived, Ask, Received};
use crate::datagrams::queue::Urgency;
use crate::datagrams::write;
use crate::emulate::ReceiveLoss;
use crate::nonces::Nonce;
use crate::record::{GROUP_BYTES, HEADER_BYTES, Header, Kind, Refusal, ServiceNumber};
use crate::session;

/// Datagrams handled in a turn, but for the rest of a train.
const DATAGRAMS_MAX: usize = 64;
/// Bytes allocated at once for datagrams that are held back.
const HELD_BYTES: usize = 1 << 16;
/// Why a node is refused: its id is in use.
pub(super) const TAKEN_IN_USE: u8 = 0;
/// Reason of a refusal: a later start of the node is known.
pub(super) const TAKEN_LATER: u8 = 1;
/// Least time between two questions to a peer, and between two answers.
const WHO_EVERY: Duration = Duration::from_millis(20);
/// How many repeated nonces of other nodes are remembered.
const ECHOED_MAX: usize = 64;

/// A message that goes by datagram.
pub(super) struct Datagram<'a> {
    /// The receiver's place in the table of peers.
    pub(super) place: usize,
    /// Its content.
    pub(super) content: Content<'a>,
}

/// The content of a datagram.
pub(super) enum Content<'a> {
    /// A message of a service to the peer alone, and its encoded length.
    Message { service: ServiceNumber, message: &'a dyn Encode, bytes: usize },
    /// A record: a message to a group, the same for several peers, or one that is held back.
    Record(Bytes),
}

/// Whose a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The node's own: Hello, Who, Taken, and messages of the failure detector.
    Node,
    /// A message of this service.
    Service(ServicePlace),
    /// A message of a service that this node does not run.
    Unknown,
}

/// The socket at which a record arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Socket {
    /// The node's own.
    Own,
    /// That of its multicast addresses.
    Multicast,
}

/// Whether Hellos that precede a multicast datagram may still wait in the node's own socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hellos {
    /// Perhaps.
    MayWait,
    /// No: they were read in this turn.
    Taken,
}

impl Driver {
    /// Queues a datagram for a peer, behind a Hello if it is the first.
    pub(super) fn queue_datagram(&mut self, datagram: &Datagram<'_>) {
        let Datagram { place, ref content } = *datagram;
        let peer = self.peers.at(place);
        if peer.reach == Reach::Cut {
            self.chassis.counters.add(counters::EMULATED_LOSS, 1);
            return;
        }
        if peer.proof == Proof::Hinted {
            return self.hold_datagram(place, content);
        }
        let addr = peer.addr;
        self.introduce(place);
        match content {
            Content::Message { service, message, bytes } => {
                self.queue_message((place, *service), *message, *bytes);
            }
            Content::Record(record) => {
                let header = self.header_to(place);
                let counters = &mut self.chassis.counters;
                self.datagrams.queue.data.push(addr, record.len(), counters, |out| {
                    let from = out.len();
                    out.extend_from_slice(record);
                    header.write_session(&mut out[from..]);
                });
            }
        }
    }

    /// Queues a message for a peer: in the datagram that waits for it already, if that has room,
    /// else in one of its own. The host's own messages overtake those of services.
    fn queue_message(
        &mut self,
        (place, service): (usize, ServiceNumber),
        message: &dyn Encode,
        bytes: usize,
    ) {
        let addr = self.peers.at(place).addr;
        let urgency = match service {
            ServiceNumber::NODE => Urgency::Control,
            _ => Urgency::Data,
        };
        let joins = urgency == Urgency::Data
            && self.datagrams.queue.data.lengthen(
                addr,
                self.config.record_bytes_in_datagram_max(),
                |record| bundle::growth(record, bytes),
                |out, from| {
                    bundle::add(out, from, (service, bytes), |out| write(message, out));
                },
            );
        if joins {
            self.chassis.traffic.datagram_messages_bundled += 1;
            return;
        }
        let header = Header { service, ..self.header_to(place) };
        self.queue_record(urgency, (addr, header), bytes, |out| write(message, out));
    }

    /// A message to a group as a record, the same for all members.
    pub(super) fn group_record(
        &mut self,
        service: ServiceNumber,
        group: GroupId,
        message: &dyn Encode,
    ) -> Bytes {
        let header = Header { kind: Kind::Group, service, ..self.header };
        self.record(header, GROUP_BYTES + message.wire_len(), |out| {
            out.extend_from_slice(&group.0.to_be_bytes());
            write(message, out);
        })
    }

    /// The content of a datagram as a record to be held back: encoded bytes take less room than the
    /// message, and many records share one allocation.
    pub(super) fn held_record(&mut self, content: Content<'_>) -> Bytes {
        let (service, message, bytes) = match content {
            Content::Message { service, message, bytes } => {
                (service, message, HEADER_BYTES + bytes)
            }
            Content::Record(record) => return record,
        };
        if self.held.capacity() < bytes {
            self.held = BytesMut::with_capacity(bytes.max(HELD_BYTES));
        }
        let header = self.number(Header { service, ..self.header }).encode();
        self.held.extend_from_slice(&header);
        write(message, &mut self.held);
        debug_assert_eq!(self.held.len(), bytes, "`wire_len` is exact");
        self.held.split().freeze()
    }

    /// A record whose body of `bytes` bytes `write` appends.
    pub(super) fn record(
        &mut self,
        header: Header,
        bytes: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> Bytes {
        let mut record = BytesMut::with_capacity(HEADER_BYTES + bytes);
        record.extend_from_slice(&self.number(header).encode());
        write(&mut record);
        debug_assert_eq!(record.len(), HEADER_BYTES + bytes, "`wire_len` is exact");
        record.freeze()
    }

    /// Queues a record whose body of `bytes` bytes `write` appends.
    pub(super) fn queue_record(
        &mut self,
        urgency: Urgency,
        (to, header): (SocketAddr, Header),
        bytes: usize,
        write: impl FnOnce(&mut BytesMut),
    ) {
        let header = self.number(header).encode();
        let (to, counters) = ((to, HEADER_BYTES + bytes), &mut self.chassis.counters);
        self.datagrams.queue.push(urgency, to, counters, |out| {
            out.extend_from_slice(&header);
            write(out);
        });
    }

    /// Queues a copy of a record.
    pub(super) fn queue_copy(&mut self, to: SocketAddr, record: &[u8]) {
        let counters = &mut self.chassis.counters;
        self.datagrams.queue.data.push(to, record.len(), counters, |out| {
            out.extend_from_slice(record);
        });
    }

    fn number(&mut self, header: Header) -> Header {
        let sequence = self.datagrams_numbered;
        self.datagrams_numbered += 1;
        Header { sequence, ..header }
    }

    /// Sends a Hello to a peer that has not had one.
    pub(super) fn introduce(&mut self, place: usize) {
        if self.peers.introduce(place) {
            let addr = self.peers.at(place).addr;
            self.queue_introduction(addr);
        }
    }

    /// Queues a Hello that answers no question.
    pub(super) fn queue_introduction(&mut self, to: SocketAddr) {
        let session = *self.session.as_bytes();
        self.queue_control(to, Kind::Hello, &session);
    }

    /// Queues the Hello that answers a Who of this node. If the Who had a nonce, the Hello repeats
    /// it and carries the node's verification tag.
    pub(super) fn queue_hello(&mut self, node: NodeId, to: SocketAddr, nonce: &[u8]) {
        let Ok(nonce) = Nonce::try_from(nonce) else {
            return self.queue_introduction(to);
        };
        if self.echoed.len() >= ECHOED_MAX {
            self.echoed.pop_front();
        }
        self.echoed.push_back(nonce);
        let tag = self.nonces.verification_tag(node, to).to_be_bytes();
        let body = [&self.session.as_bytes()[..], &nonce, &tag].concat();
        self.queue_control(to, Kind::Hello, &body);
    }

    pub(super) fn queue_control(&mut self, addr: SocketAddr, kind: Kind, body: &[u8]) {
        let header = Header { kind, ..self.header };
        self.queue_record(Urgency::Control, (addr, header), body.len(), |out| {
            out.extend_from_slice(body);
        });
    }

    pub(super) fn receive_datagrams(&mut self, ask: Ask) {
        let mut batch = std::mem::take(&mut self.record_batch);
        if ask == Ask::Now {
            // Datagrams left by an earlier turn are older than those in the socket.
            while let Some(arrived) = batch.pop() {
                self.take_arrived(arrived);
            }
        }
        let mut handled = 0;
        while handled < DATAGRAMS_MAX {
            let mut received = Received::More;
            if batch.is_empty() {
                let arrivals = &mut self.datagrams.arrivals;
                received = arrivals.receive(ask, &mut self.chassis.traffic, &mut batch);
                // The batch is popped from its end, so the oldest must be last.
                batch.reverse();
                // A failed call counts as well, so that a broken socket cannot hold the turn.
                handled += usize::from(batch.is_empty());
            }
            // A batch may hold hundreds: what exceeds a turn's share is left for the next turn,
            // unless the caller needs all of it now.
            while (handled < DATAGRAMS_MAX || ask == Ask::Now)
                && let Some(arrived) = batch.pop()
            {
                handled += arrived.datagrams();
                self.take_arrived(arrived);
            }
            if received == Received::Blocked && batch.is_empty() {
                handled = 0;
                break;
            }
        }
        if handled >= DATAGRAMS_MAX {
            self.chassis.again.push(Source::Datagrams);
        }
        self.record_batch = batch;
    }

    fn take_arrived(&mut self, arrived: Arrived) {
        let from = arrived.from;
        for record in arrived {
            self.chassis.tick();
            if let Err((refusal, from)) = self.take_datagram(from, record) {
                self.refuse(refusal, &from);
            }
        }
    }

    pub(super) fn receive_multicast(&mut self) {
        let mut batch = std::mem::take(&mut self.multicast_batch);
        self.chassis.tick();
        let mut handled = 0;
        let mut hellos = Hellos::MayWait;
        while handled < DATAGRAMS_MAX {
            let Some(native) = &mut self.multicast else { break };
            let received =
                native.arrivals.receive(Ask::IfSignalled, &mut self.chassis.traffic, &mut batch);
            handled += batch.iter().map(Arrived::datagrams).sum::<usize>().max(1);
            for arrived in batch.drain(..) {
                let (from, to) = (arrived.from, arrived.to);
                for record in arrived {
                    if let Err((refusal, from)) = self.take_multicast(from, to, record, &mut hellos)
                    {
                        self.refuse(refusal, &from);
                    }
                }
            }
            if received == Received::Blocked {
                handled = 0;
                break;
            }
        }
        if handled >= DATAGRAMS_MAX {
            self.chassis.again.push(Source::Multicast);
        }
        self.multicast_batch = batch;
    }

    /// Handles datagrams of the multicast socket: messages to groups and nothing else.
    fn take_multicast(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
        mut record: Bytes,
        hellos: &mut Hellos,
    ) -> Result<(), (Refusal, String)> {
        let is_ours = |to: IpAddr| self.multicast.as_ref().is_some_and(|native| native.has(to));
        if !to.is_none_or(is_ours) {
            // Any host can send to this port.
            self.chassis.counters.add(counters::MULTICAST_NOT_ADDRESSED, 1);
            return Ok(());
        }
        let unnamed = |refusal| (refusal, from.to_string());
        let (header, whose) = self.decode(&mut record).map_err(unnamed)?;
        if header.kind != Kind::Group {
            return Err((Refusal::Malformed, format!("{} at {from}", header.sender)));
        }
        if header.sender == self.config.node {
            let is_own = header.session == self.header.session;
            self.chassis
                .counters
                .add(if is_own { counters::MULTICAST_OWN } else { counters::PEER_HAS_OWN_ID }, 1);
            return Ok(());
        }
        if *hellos == Hellos::MayWait && !self.knows(&header) {
            // Its Hello left before it, for the other socket.
            *hellos = Hellos::Taken;
            self.receive_datagrams(Ask::Now);
        }
        self.take_decoded(from, (header, whose), record, Socket::Multicast)
    }

    fn knows(&self, header: &Header) -> bool {
        self.peers.place(header.sender).is_some_and(|place| {
            self.peers.session(place).is_some_and(|(_, tag)| tag == header.session)
        })
    }

    fn take_datagram(
        &mut self,
        from: SocketAddr,
        mut record: Bytes,
    ) -> Result<(), (Refusal, String)> {
        let unnamed = |refusal| (refusal, from.to_string());
        let (mut header, whose) = self.decode(&mut record).map_err(unnamed)?;
        if self.config.sealing.is_some() && !session::is_plain(header.kind) {
            let opened = self.open_datagram(from, &mut header, &record);
            let named = |refusal| (refusal, format!("{} at {from}", header.sender));
            record = opened.map_err(named)?;
        }
        self.take_decoded(from, (header, whose), record, Socket::Own)
    }

    /// Splits the header off the front of a record, and finds out whose it is.
    pub(super) fn decode<B>(&self, record: &mut B) -> Result<(Header, Whose), Refusal>
    where
        B: Buf + Deref<Target = [u8]>,
    {
        let header = Header::decode(record, self.header.cluster)?;
        let is_sealed = self.config.sealing.is_some() && !session::is_plain(header.kind);
        if header.epoch != 0 && !is_sealed {
            return Err(Refusal::ForeignEpoch);
        }
        if header.kind.number(header.service) != header.service {
            return Err(Refusal::UnknownService);
        }
        let whose = match header.kind {
            Kind::Message => self.whose(header.service),
            Kind::Group => {
                let service = self.chassis.services.find(header.service);
                service.map_or(Whose::Unknown, Whose::Service)
            }
            Kind::Hello | Kind::Who | Kind::Taken | Kind::Bundle | Kind::Service => Whose::Node,
        };
        Ok((header, whose))
    }

    fn whose(&self, number: ServiceNumber) -> Whose {
        if number == ServiceNumber::NODE {
            return Whose::Node;
        }
        self.chassis.services.find(number).map_or(Whose::Unknown, Whose::Service)
    }

    /// Decodes a message from a peer and hands it to its service.
    pub(super) fn take_body(
        &mut self,
        service: ServicePlace,
        from: NodeId,
        body: Bytes,
    ) -> Result<(), Refusal> {
        if let Some(machine) = self.chassis.services.machine(service) {
            machine.decode(body).map_err(|_| Refusal::Undecodable)?;
            self.handle(service, Call::Message(from));
        }
        Ok(())
    }

    fn take_decoded(
        &mut self,
        from: SocketAddr,
        (mut header, whose): (Header, Whose),
        record: Bytes,
        socket: Socket,
    ) -> Result<(), (Refusal, String)> {
        let named = |refusal| (refusal, format!("{} at {from}", header.sender));
        if whose == Whose::Unknown {
            if socket == Socket::Own {
                self.answer_unknown(&header);
            }
            let ServiceNumber(service) = header.service;
            let sent = format!("{} at {from} to service {service:08x}", header.sender);
            return Err((Refusal::UnknownService, sent));
        }
        let place = match self.peers.place(header.sender) {
            Some(place) if header.sender != self.config.node => place,
            _ if self.config.is_open => {
                return self.take_from_stranger(from, &header, &record).map_err(named);
            }
            Some(place) => place,
            None => return Err(named(Refusal::UnknownSender)),
        };
        if self.peers.at(place).reach == Reach::Cut {
            self.chassis.counters.add(counters::EMULATED_LOSS, 1);
            return Ok(());
        }
        match header.kind {
            Kind::Message | Kind::Group | Kind::Bundle | Kind::Service => {
                if socket == Socket::Own && self.config.sealing.is_none() {
                    header.session ^= self.own_tag(place);
                }
                self.take_message((place, whose), from, &header, record).map_err(named)
            }
            Kind::Hello => self.take_hello(place, from, &header, &record).map_err(named),
            Kind::Who => {
                self.answer_who(place, from, &header, &record);
                Ok(())
            }
            Kind::Taken => {
                self.note_taken(&record);
                Ok(())
            }
        }
    }

    fn take_message(
        &mut self,
        (place, whose): (usize, Whose),
        from: SocketAddr,
        header: &Header,
        mut body: Bytes,
    ) -> Result<(), Refusal> {
        let peer = self.peers.at(place);
        if peer.session.is_none_or(|(_, tag)| tag != header.session) {
            let addr = peer.addr;
            if may(&mut peer.who_after, self.chassis.now) {
                if self.config.is_open {
                    self.challenge(header.sender, from);
                } else {
                    // Our question and the peer's answer go to the roster's address, never to the
                    // sender's, so that a forged sender gains nothing.
                    self.queue_control(addr, Kind::Who, &[]);
                }
            }
            self.chassis.counters.add(Refusal::UnknownSession.counter(), 1);
            return Ok(());
        }
        let now = self.chassis.now;
        self.peers.at(place).heard_at = now;
        if header.kind == Kind::Group
            && let Whose::Service(service) = whose
        {
            let group = take_u32(&mut body).map_err(|_| Refusal::Malformed)?;
            if !self.groups.contains(&(service, GroupId(group))) {
                self.chassis.counters.add(counters::GROUP_NOT_JOINED, 1);
                return Ok(());
            }
        }
        match header.kind {
            Kind::Bundle => {}
            Kind::Service => return self.take_notice(place, body),
            _ => return self.take_addressed(header.sender, whose, body),
        }
        for entry in Entries::of(body) {
            let (number, message) = entry?;
            if let Err(refusal) = self.take_addressed(header.sender, self.whose(number), message) {
                // The messages behind it may be of other services.
                let ServiceNumber(service) = number;
                if refusal == Refusal::UnknownService {
                    self.tell_not_run(place, number);
                }
                let sent = format_args!("{} at {from} to service {service:08x}", header.sender);
                self.refuse(refusal, &sent);
            }
        }
        Ok(())
    }

    /// Hands a message of a known peer to its addressee.
    fn take_addressed(&mut self, from: NodeId, whose: Whose, body: Bytes) -> Result<(), Refusal> {
        if self.receive_loss.as_mut().is_some_and(ReceiveLoss::loses_next) {
            self.chassis.counters.add(counters::EMULATED_RECEIVE_LOSS, 1);
            return Ok(());
        }
        match whose {
            Whose::Service(service) => self.take_body(service, from, body),
            Whose::Node => self.receive_detector(from, body),
            Whose::Unknown => Err(Refusal::UnknownService),
        }
    }

    /// Answers a peer's Who with a Hello, at its proven address. If it has none, the Hello goes to
    /// the source of the Who; it is at most twice as long. If the Who came from another address
    /// than the proven one, this node also sends a question there: a new run of the peer does not
    /// receive the Hello, and its answer to the question begins a claim.
    fn answer_who(&mut self, place: usize, from: SocketAddr, header: &Header, nonce: &[u8]) {
        let now = self.chassis.now;
        let peer = self.peers.at(place);
        let is_proven = peer.proof == Proof::Proven;
        let addr = if is_proven { peer.addr } else { from };
        if may(&mut peer.hello_after, now) {
            self.queue_hello(header.sender, addr, nonce);
        }
        if !self.config.is_open {
            return;
        }
        if self.config.sealing.is_some() {
            self.note_sealed_question(place, from, nonce);
        } else if !is_proven {
            self.note_question(header.sender, from);
        } else if addr == from {
            self.renew_tag(place, header);
        } else if may(&mut self.peers.at(place).who_after, now) {
            self.challenge(header.sender, from);
        }
    }

    /// Counts a refused record, and logs at most one warning a second for each kind.
    pub(super) fn refuse(&mut self, refusal: Refusal, from: &dyn Display) {
        self.chassis.counters.add(refusal.counter(), 1);
        if self.warnings.admits(refusal as usize, self.chassis.now) {
            tracing::warn!(%from, reason = refusal.counter().name(), "record refused");
        }
    }
}

/// True at most once in [`WHO_EVERY`].
pub(super) fn may(after: &mut Instant, now: Instant) -> bool {
    let allowed = now >= *after;
    if allowed {
        *after = now + WHO_EVERY;
    }
    allowed
}
