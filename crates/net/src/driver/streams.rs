//! Streams: dialling, accepting, greeting, reading, writing, breaking.

use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use paceline_proto::core::{Instant, PeerState};
use paceline_proto::host::Call;
use paceline_seal::SendLane;
use tokio::net::TcpStream;

use super::datagrams::Whose;
use super::peers::{Learned, Proof, Reach};
use super::{Deadline, Driver, Notice};
use crate::chassis::Drive;
use crate::chassis::ready::Source;
use crate::counters;
use crate::handshakes::TLS_HANDSHAKE;
use crate::record::{HEADER_BYTES, Header, Kind, LENGTH_BYTES, Refusal, Session};
use crate::session;
use crate::streams::gather::Gather;
use crate::streams::incoming::{Filled, Incoming, ReadCause, Speaker, Unfinished};
use crate::streams::outgoing::{Flushed, Hello, NotifiedState, Phase, abort_on_close};
use crate::sys;

/// Bytes read from one stream in a turn.
const READ_BYTES_MAX: usize = 256 << 10;
/// Connections accepted in a turn.
const ACCEPTS_MAX: usize = 16;
/// How long a timed-out record waits for a last turn of reading.
const LAST_CALL: Duration = Duration::from_secs(1);
/// Wait after the listener failed, which it does when file descriptors run out.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The first record of a stream, with its length.
pub(super) fn hello_record(header: &Header, body: &[u8]) -> Bytes {
    let mut record = BytesMut::with_capacity(LENGTH_BYTES + HEADER_BYTES + body.len());
    record.put_u32((HEADER_BYTES + body.len()) as u32);
    record.put_slice(&header.encode());
    record.put_slice(body);
    record.freeze()
}

impl Driver {
    /// Starts an attempt to connect to a peer.
    pub(super) fn dial(&mut self, place: usize) {
        let peer = self.peers.at(place);
        if peer.proof == Proof::Hinted {
            peer.outgoing.phase = Phase::Idle;
            return self.want_stream(place);
        }
        if peer.reach == Reach::Cut {
            return self.fail_attempt(place);
        }
        peer.outgoing.dial(peer.addr, &self.config);
        let attempt = peer.outgoing.attempt;
        if self.config.is_open {
            self.introduce(place);
        }
        let deadline = Deadline::Greeting { place, attempt };
        self.deadlines.set(self.chassis.now + self.config.hello_within, deadline);
        self.chassis.again.push(Source::Outgoing(place));
    }

    /// The wait after a failed attempt is over.
    pub(super) fn redial(&mut self, place: usize, attempt: u64) {
        let outgoing = &self.peers.at(place).outgoing;
        if matches!(outgoing.phase, Phase::Waiting) && outgoing.attempt == attempt {
            self.dial(place);
        }
    }

    /// Handles the timeout of an attempt.
    pub(super) fn give_up_attempt(&mut self, place: usize, attempt: u64) {
        let outgoing = &self.peers.at(place).outgoing;
        let opening = matches!(outgoing.phase, Phase::Connecting(_) | Phase::Greeting { .. });
        if opening && outgoing.attempt == attempt {
            if self.holds_peers() {
                // The answer may be in the socket, not read yet.
                let deadline = Deadline::Greeting { place, attempt };
                return self.deadlines.set(self.chassis.now + self.config.hello_within, deadline);
            }
            self.fail_attempt(place);
        }
    }

    pub(super) fn fail_attempt(&mut self, place: usize) {
        self.chassis.counters.add(counters::STREAM_DIAL_FAILED, 1);
        if self.config.is_open {
            // The other side may not know this run yet, and streams do not announce one.
            self.peers.make_stranger(place);
            self.renew_after_failure(place);
        }
        self.schedule_redial(place);
    }

    fn schedule_redial(&mut self, place: usize) {
        let peer = self.peers.at(place);
        let (node, outgoing) = (peer.node, &mut peer.outgoing);
        if self.config.is_open && outgoing.is_hopeless() {
            // It may never come back: the next send tries again.
            let lost_bytes = outgoing.give_up() + self.lose_waiting(node);
            if lost_bytes > 0 {
                self.chassis.counters.add(counters::STREAM_BYTES_LOST, lost_bytes as u64);
                self.notices.push(Notice::all(node, PeerState::Down));
            }
            return;
        }
        let attempt = outgoing.attempt;
        let wait = outgoing.fail(&mut self.chassis.rng);
        self.deadlines.set(self.chassis.now + wait, Deadline::Redial { place, attempt });
    }

    /// Drops the stream to a peer if it is established. An attempt under way continues.
    pub(super) fn break_outgoing(&mut self, place: usize) {
        if let Phase::Established(_) = self.peers.at(place).outgoing.phase {
            self.lose_outgoing(place);
        }
    }

    /// Drops the stream to a peer with its backlog, notifies the protocol, and schedules a redial.
    pub(super) fn lose_outgoing(&mut self, place: usize) {
        let peer = self.peers.at(place);
        let (node, queued) = (peer.node, peer.outgoing.abandon(self.chassis.now));
        let lost_bytes = queued + self.lose_waiting(node);
        tracing::debug!(peer = %node, lost_bytes, "stream broke");
        self.chassis.counters.add(counters::STREAM_BROKEN, 1);
        self.chassis.counters.add(counters::STREAM_BYTES_LOST, lost_bytes as u64);
        self.notices.push(Notice::all(node, PeerState::Down));
        self.schedule_redial(place);
    }

    pub(super) fn serve_outgoing(&mut self, place: usize) {
        let peer = self.peers.at(place);
        if peer.reach == Reach::Cut {
            return;
        }
        match peer.outgoing.phase {
            Phase::Idle | Phase::Waiting => {}
            Phase::Connecting(_) | Phase::Greeting { .. } => self.open_outgoing(place),
            Phase::Established(_) => match peer.outgoing.check_open() {
                Ok(()) => self.peers.list_flush(place),
                Err(_) => self.break_outgoing(place),
            },
        }
    }

    fn open_outgoing(&mut self, place: usize) {
        let Some(hello) = self.stream_hello(place) else { return self.fail_attempt(place) };
        match self.peers.at(place).outgoing.poll_hello(&hello) {
            Poll::Pending => {}
            Poll::Ready(Err(_)) => self.fail_attempt(place),
            Poll::Ready(Ok((record, hello))) => {
                if let Err(refusal) = self.accept_reply(place, record, &hello) {
                    let addr = self.peers.at(place).addr;
                    self.refuse(refusal, &addr);
                    self.fail_attempt(place);
                }
            }
        }
    }

    /// The Hello that opens a stream to a peer; `None` if there is no session with it.
    fn stream_hello(&mut self, place: usize) -> Option<Hello> {
        if self.config.sealing.is_some() {
            return self.sealed_hello(place);
        }
        let header = Header { kind: Kind::Hello, sequence: 0, ..self.header_to(place) };
        Some(Hello { record: hello_record(&header, self.session.as_bytes()), sealed: None })
    }

    /// Checks the acceptor's Hello, which answers this one, and establishes the stream.
    fn accept_reply(
        &mut self,
        place: usize,
        mut record: Bytes,
        hello: &Hello,
    ) -> Result<(), Refusal> {
        let (header, _) = self.decode(&mut record)?;
        if header.sender != self.peers.at(place).node {
            return Err(Refusal::WrongMember);
        }
        if header.sequence != 0 {
            return Err(Refusal::OutOfSequence);
        }
        let lane = match hello.sealed {
            Some(sealed) => Some((self.sealed_reply(place, (&header, &record), sealed)?, sealed.0)),
            None => {
                self.accept_hello(place, &header, &record)?;
                None
            }
        };
        self.establish(place, lane);
        Ok(())
    }

    /// Lets records flow to a peer that has answered this node's Hello.
    fn establish(&mut self, place: usize, lane: Option<(SendLane, u32)>) {
        let peer = self.peers.at(place);
        let Some((session, tag)) = peer.session else { return };
        if let Some((lane, tag)) = lane {
            peer.outgoing.queue.seal_with(lane, tag);
        }
        let (node, was) = (peer.node, peer.outgoing.notified_state);
        peer.outgoing.establish(tag, self.chassis.now, &self.config);
        if was == NotifiedState::Down {
            let incarnation = session.incarnation();
            self.notices.push(Notice::all(node, PeerState::Up { incarnation }));
        }
        // Registers for the peer's close, and flushes.
        self.chassis.again.push(Source::Outgoing(place));
        self.peers.list_flush(place);
    }

    /// Checks a Hello of a member and notes its session.
    pub(super) fn accept_hello(
        &mut self,
        place: usize,
        header: &Header,
        body: &[u8],
    ) -> Result<Session, Refusal> {
        let session = Session::announced(header, body)?;
        self.note_run(place, session)?;
        Ok(session)
    }

    /// Notes the session of a run of a peer.
    ///
    /// # Errors
    /// If a newer one is known.
    pub(super) fn note_run(&mut self, place: usize, session: Session) -> Result<(), Refusal> {
        if self.peers.learn(place, session)? == Learned::Restarted {
            // Messages of the old run must not be delivered any longer, and messages to it do not
            // arrive.
            self.chassis.counters.add(counters::PEER_RESTARTED, 1);
            self.peers.make_stranger(place);
            self.close_incoming_of(place);
            if let Phase::Established(link) = &self.peers.at(place).outgoing.phase
                && link.session != session.tag()
            {
                self.break_outgoing(place);
            }
        }
        Ok(())
    }

    pub(super) fn flush_outgoing(&mut self, place: usize) {
        let peer = self.peers.at(place);
        if peer.reach == Reach::Cut {
            return;
        }
        // A service whose backlog is as low as it asked for already adds to this same write.
        self.tell_drained(place);
        let peer = self.peers.at(place);
        let flushed = peer.outgoing.flush(self.chassis.now, &mut self.chassis.traffic);
        if peer.outgoing.refill_by() != Instant::MAX && !self.refilling.contains(&place) {
            self.refilling.push(place);
        }
        match flushed {
            Ok(Flushed::Settled) => {}
            Ok(Flushed::More) => self.chassis.again.push(Source::Outgoing(place)),
            Err(_) => return self.break_outgoing(place),
        }
        self.tell_drained(place);
    }

    /// Calls the services whose backlog to a peer has fallen as far as they wait for.
    fn tell_drained(&mut self, place: usize) {
        let node = self.peers.at(place).node;
        let mut drained = std::mem::take(&mut self.drained);
        self.take_drained(place, &mut drained);
        for service in drained.drain(..) {
            self.handle(service, Call::Drained(node));
        }
        self.drained = drained;
    }

    /// Lists the streams that wait for room in the kernel and should have it by now.
    pub(super) fn list_refills(&mut self) {
        for at in (0..self.refilling.len()).rev() {
            let place = self.refilling[at];
            let outgoing = &self.peers.at(place).outgoing;
            if outgoing.refill_by() == Instant::MAX {
                self.refilling.swap_remove(at);
            } else if outgoing.refill_from() <= self.chassis.now {
                self.peers.list_flush(place);
            }
        }
    }

    /// The latest instant for the next write to any stream that waits for room.
    pub(super) fn refill_by(&mut self) -> Instant {
        let mut earliest = Instant::MAX;
        for at in 0..self.refilling.len() {
            let place = self.refilling[at];
            earliest = earliest.min(self.peers.at(place).outgoing.refill_by());
        }
        earliest
    }

    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            let mut cx = TaskContext::from_waker(&self.listener_waker);
            match self.listener.poll_accept(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Ok((stream, _))) => self.add_incoming(stream),
                Poll::Ready(Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    self.chassis.counters.add(counters::ACCEPT_FAILED, 1);
                    self.deadlines.set(self.chassis.now + ACCEPT_AGAIN, Deadline::Accept);
                    return;
                }
            }
        }
        self.chassis.again.push(Source::Listener);
    }

    fn add_incoming(&mut self, stream: TcpStream) {
        self.evict_half_open();
        let free = self.incoming.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.incoming.push(None);
            self.incoming.len() - 1
        });
        let number = self.accepted;
        self.accepted += 1;
        let waker = self.chassis.ready.waker(Source::Incoming(slot));
        let delay =
            if sys::KNOWS_PATHS { self.config.stream_delay * 2 / 3 } else { Duration::ZERO };
        let gather = Gather::new(delay, self.chassis.now);
        let held = self.records.part();
        self.incoming[slot] = Some(Incoming::new(stream, number, gather, held, waker));
        let deadline = Deadline::HalfOpen { slot, number };
        self.deadlines.set(self.chassis.now + self.config.hello_within, deadline);
        self.chassis.again.push(Source::Incoming(slot));
    }

    /// Makes room among the streams that have not said Hello.
    fn evict_half_open(&mut self) {
        let half_open = |incoming: &&Incoming| incoming.speaker.is_half_open();
        let waiting = self.incoming.iter().flatten().filter(half_open);
        if waiting.clone().count() < self.config.half_open_max {
            return;
        }
        let oldest = waiting.map(|incoming| incoming.number).min();
        for slot in &mut self.incoming {
            if slot.as_ref().map(|incoming| incoming.number) == oldest {
                *slot = None;
                self.chassis.counters.add(counters::ACCEPT_EVICTED, 1);
            }
        }
    }

    /// Handles the timeout of an accepted stream without a Hello.
    pub(super) fn give_up_half_open(&mut self, slot: usize, number: u64) {
        let waits =
            |incoming: &Incoming| incoming.number == number && incoming.speaker.is_half_open();
        if self.incoming[slot].as_ref().is_some_and(waits) {
            if self.holds_peers() {
                // The Hello may be in the socket, not read yet.
                let deadline = Deadline::HalfOpen { slot, number };
                return self.deadlines.set(self.chassis.now + self.config.hello_within, deadline);
            }
            self.incoming[slot] = None;
            self.chassis.counters.add(counters::ACCEPT_TIMED_OUT, 1);
        }
    }

    /// Handles the timeout of an incomplete record with this number. A node that was itself
    /// suspended reads first what has come meanwhile.
    pub(super) fn give_up_unfinished(&mut self, slot: usize, of: Unfinished) {
        let is_held = self.holds_peers();
        let Some(incoming) = self.incoming[slot].as_mut() else { return };
        if incoming.number != of.number {
            return;
        }
        let is_cut = incoming
            .speaker
            .peer()
            .is_some_and(|(peer, _)| self.peers.at(peer).reach == Reach::Cut);
        if !incoming.has_unfinished() {
            incoming.is_watched = false;
            return;
        }
        if incoming.sequence != of.sequence || is_cut || is_held {
            return self.watch_unfinished(slot, false);
        }
        if !of.is_last_call {
            self.chassis.again.push(Source::Incoming(slot));
            return self.watch_unfinished(slot, true);
        }
        self.chassis.counters.add(counters::RECORD_TIMED_OUT, 1);
        self.close_incoming(slot);
    }

    fn watch_unfinished(&mut self, slot: usize, is_last_call: bool) {
        let Some(incoming) = self.incoming[slot].as_mut() else { return };
        incoming.is_watched = true;
        let (number, sequence) = (incoming.number, incoming.sequence);
        let after = match is_last_call {
            true => LAST_CALL.min(self.config.record_within),
            false => self.config.record_within,
        };
        let of = Unfinished { number, sequence, is_last_call };
        self.deadlines.set(self.chassis.now + after, Deadline::Unfinished { slot, of });
    }

    /// Closes the stream that a peer dialled, if there is one.
    pub(super) fn close_incoming_of(&mut self, place: usize) {
        if let Some(slot) = self.peers.at(place).incoming.take() {
            self.incoming[slot] = None;
        }
    }

    /// Aborts the streams with a peer, both ways.
    pub(super) fn reset(&mut self, place: usize) {
        let peer = self.peers.at(place);
        peer.outgoing.set_abortive();
        if let Some(incoming) = peer.incoming.and_then(|slot| self.incoming[slot].as_ref()) {
            abort_on_close(&incoming.stream);
        }
        self.close_incoming_of(place);
        self.break_outgoing(place);
    }

    /// Reads the busy streams that have gathered for long enough without a signal.
    pub(super) fn serve_gathering(&mut self) {
        for at in (0..self.gathering.len()).rev() {
            let slot = self.gathering[at];
            let until = self.incoming[slot].as_ref().map_or(Instant::MAX, Incoming::gathers_until);
            if until == Instant::MAX {
                self.gathering.swap_remove(at);
            } else if until <= self.chassis.now {
                self.gathering.swap_remove(at);
                self.serve_incoming(slot, ReadCause::Deadline);
            }
        }
    }

    /// When the first of the busy streams must be read without a signal.
    pub(super) fn gathering_until(&self) -> Instant {
        let streams = self.gathering.iter().filter_map(|&slot| self.incoming[slot].as_ref());
        streams.map(Incoming::gathers_until).min().unwrap_or(Instant::MAX)
    }

    pub(super) fn serve_incoming(&mut self, slot: usize, cause: ReadCause) {
        let Some(mut incoming) = self.incoming.get_mut(slot).and_then(Option::take) else {
            return;
        };
        if let Some((peer, _)) = incoming.speaker.peer()
            && self.peers.at(peer).reach == Reach::Cut
        {
            incoming.note_read(0, cause, self.chassis.now);
            self.incoming[slot] = Some(incoming);
            return;
        }
        self.chassis.tick();
        let before = self.chassis.traffic.stream_bytes_in;
        let result = self.read_incoming(slot, &mut incoming, cause);
        incoming.settle(&mut self.pool);
        let read = self.chassis.traffic.stream_bytes_in - before;
        incoming.note_read(read as usize, cause, self.chassis.now);
        if incoming.gathers_until() != Instant::MAX && !self.gathering.contains(&slot) {
            self.gathering.push(slot);
        }
        // The protocol, or a later session of the peer, may have closed it meanwhile.
        let stands = match incoming.speaker {
            Speaker::Unknown | Speaker::Opening { .. } => true,
            Speaker::Peer { peer, .. } => self.peers.at(peer).incoming == Some(slot),
        };
        match result {
            Ok(Filled::Closed) => {}
            Ok(Filled::Handshake) => return self.accept_handshake(incoming),
            Ok(_) if stands => {
                incoming.note_unfinished(self.chassis.now);
                let is_new = incoming.has_unfinished() && !incoming.is_watched;
                self.incoming[slot] = Some(incoming);
                if is_new {
                    self.watch_unfinished(slot, false);
                }
                return self.keep_within_memory();
            }
            Ok(_) => return,
            Err(refusal) => match incoming.stream.peer_addr() {
                Ok(addr) => self.refuse(refusal, &addr),
                Err(_) => self.refuse(refusal, &"a closed stream"),
            },
        }
        if let (true, Speaker::Peer { peer, .. }) = (stands, incoming.speaker) {
            self.peers.at(peer).incoming = None;
        }
    }

    fn read_incoming(
        &mut self,
        slot: usize,
        incoming: &mut Incoming,
        mut cause: ReadCause,
    ) -> Result<Filled, Refusal> {
        let mut read = 0;
        loop {
            match incoming.fill(cause, &mut self.pool, &mut self.chassis.traffic) {
                Filled::Bytes(bytes) => read += bytes,
                end => return Ok(end),
            }
            cause = ReadCause::Signal;
            let is_first = self.config.sealing.is_some() && incoming.sequence == 0;
            if is_first && incoming.first_byte() == Some(TLS_HANDSHAKE) {
                return Ok(Filled::Handshake);
            }
            while let Some(record) = incoming.next_record(self.config.record_bytes_max)? {
                self.take_record(slot, incoming, record)?;
                if let Speaker::Peer { peer, .. } = incoming.speaker
                    && self.peers.at(peer).incoming != Some(slot)
                {
                    return Ok(Filled::Closed);
                }
            }
            incoming.settle(&mut self.pool);
            if read >= READ_BYTES_MAX {
                self.chassis.again.push(Source::Incoming(slot));
                return Ok(Filled::Bytes(read));
            }
        }
    }

    fn take_record(
        &mut self,
        slot: usize,
        incoming: &mut Incoming,
        record: BytesMut,
    ) -> Result<(), Refusal> {
        let (header, whose, record) = self.read_record(incoming, record)?;
        incoming.sequence += 1;
        let Some((peer, session)) = incoming.speaker.peer() else {
            return self.greet(slot, incoming, &header, &record);
        };
        let node = self.peers.at(peer).node;
        let fits =
            header.kind == Kind::Message && header.sender == node && header.session == session;
        if !fits {
            return Err(Refusal::Malformed);
        }
        if incoming.speaker.is_half_open() {
            self.admit_opened(slot, incoming, (peer, session))?;
        }
        self.chassis.traffic.stream_messages_in += 1;
        let Whose::Service(service) = whose else {
            // The stream carries the records of other services as well.
            self.chassis.counters.add(Refusal::UnknownService.counter(), 1);
            self.tell_not_run(peer, header.service);
            return Ok(());
        };
        self.take_body(service, node, record)
    }

    /// Splits the header off a record, and opens what is sealed.
    fn read_record(
        &mut self,
        incoming: &mut Incoming,
        mut record: BytesMut,
    ) -> Result<(Header, Whose, Bytes), Refusal> {
        let Some(lane) = &mut incoming.lane else {
            let mut record = record.freeze();
            let (header, whose) = self.decode(&mut record)?;
            if header.sequence != incoming.sequence {
                return Err(Refusal::OutOfSequence);
            }
            return Ok((header, whose, record));
        };
        let (header, whose) = self.decode(&mut record)?;
        let body_bytes = session::open(lane, &header, &mut record)?.len();
        record.truncate(body_bytes);
        Ok((header, whose, record.freeze()))
    }

    /// Takes the dialler's Hello and answers with ours.
    fn greet(
        &mut self,
        slot: usize,
        incoming: &mut Incoming,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Refusal> {
        let place = self.peers.place(header.sender).ok_or(Refusal::UnknownSender)?;
        if self.config.sealing.is_some() {
            return self.greet_sealed(place, incoming, header, body);
        }
        let header = &Header { session: header.session ^ self.own_tag(place), ..*header };
        incoming.speaker = Speaker::Peer { peer: place, session: header.session };
        if self.peers.at(place).reach == Reach::Cut {
            // Closed without an answer, which the dialler sees as a failed attempt.
            return Ok(());
        }
        if self.config.is_open {
            // A new run must announce itself by datagram, to get a nonce and its tag.
            let session = Session::from_body(body).ok_or(Refusal::Malformed)?;
            let known = self.peers.session(place).map(|(known, _)| known);
            if known.is_some_and(|known| known > session) {
                return Err(Refusal::OldSession);
            }
            if session.tag() != header.session || known.is_some_and(|known| known != session) {
                return Err(Refusal::UnknownSession);
            }
        }
        self.accept_hello(place, header, body)?;
        // A dialler has one stream: records left in an earlier one are obsolete.
        self.close_incoming_of(place);
        let written = incoming.stream.try_write(&self.hello);
        if written.is_ok_and(|bytes| bytes == self.hello.len()) {
            self.peers.at(place).incoming = Some(slot);
        }
        Ok(())
    }
}
