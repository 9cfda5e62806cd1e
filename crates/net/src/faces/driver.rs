//! The driver of a node with faces.
//!
//! A turn reads arrivals up to a bounded share, fires the timers that are due, and sends the queue:
//! in trains, many with one call.

use std::collections::VecDeque;
use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{
    Backlog, Copies, CounterId, GroupId, Instant, Lane, LinkFaults, LinkRequests, NodeId, PeerState,
};
use paceline_proto::host::{Call, Carrier, Encode, Encoded, Machine, ServicePlace};
use tokio::sync::oneshot;

use super::LOCAL;
use super::config::FacesConfig;
use super::table::FaceTable;
use super::unproven::NetworkRates;
use crate::chassis::deadlines::Deadlines;
use crate::chassis::ends::{Control, DriverEnds, Stopped};
use crate::chassis::ready::Source;
use crate::chassis::services::{self, ServiceEnds};
use crate::chassis::{Chassis, Controls, Drive};
use crate::counters;
use crate::datagrams::arrivals::{Arrived, Ask, Received};
use crate::datagrams::trains::TRAIN_LENGTH_MAX;
use crate::datagrams::{Datagrams, write};
use crate::emulate::Peers;
use crate::error::FaceError;
use crate::record::ServiceNumber;
use crate::stats::{Held, WarnLimit};
use crate::sys;

/// Datagrams handled in a turn, but for the rest of a batch.
const DATAGRAMS_MAX: usize = 256;
/// Number of waiting commands at which the node stops reading datagrams: an application that
/// answers each Interest by a command would let them grow while more datagrams arrive in a turn
/// than commands are handled.
const INPUTS_WAITING_MAX: usize = 1024;
/// Timers fired in a turn.
const TIMERS_MAX: usize = 256;

/// An order of the application to the driver.
pub enum Order {
    /// Opens a static face.
    Open { addr: SocketAddr, reply: oneshot::Sender<Result<NodeId, FaceError>> },
    /// Closes a face of either opener.
    Close { node: NodeId, reply: oneshot::Sender<bool> },
    /// Changes the emulated faults.
    Emulate { to: Peers, faults: LinkFaults },
}

/// Something that has a deadline.
enum Deadline {
    /// The timer of the protocol in this slot.
    Timer(u32),
    /// An emulated link held a datagram back until now.
    Datagram(Box<(NodeId, Encoded)>),
    /// A face may have been idle for the configured time.
    Idle,
    /// The end of a graceful stop.
    Stop,
}

/// Why a datagram was dropped on arrival. Each reason has a counter of its own.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// It is longer than `datagram_bytes_max`.
    Oversized,
    /// The protocol cannot decode it.
    Undecodable,
    /// Its sender has no face, and none is opened for strangers.
    Unknown,
    /// Its sender has no face and the table is full, or nothing can be sent to it.
    Full,
}

impl Refusal {
    const COUNT: usize = 4;

    const fn counter(self) -> CounterId {
        match self {
            Refusal::Oversized => counters::FACES_OVERSIZED,
            Refusal::Undecodable => counters::FACES_UNDECODABLE,
            Refusal::Unknown => counters::FACES_UNKNOWN,
            Refusal::Full => counters::FACES_FULL,
        }
    }
}

/// Why a datagram to an unproven face was not sent. Each has a counter of its own.
#[derive(Clone, Copy, Debug)]
enum Withheld {
    /// It exceeds three times the bytes received from the face.
    Allowance,
    /// It exceeds the rate of the face's network.
    Rate,
}

impl Withheld {
    const COUNT: usize = 2;

    const fn counter(self) -> CounterId {
        match self {
            Withheld::Allowance => counters::FACES_UNPROVEN_ALLOWANCE,
            Withheld::Rate => counters::FACES_UNPROVEN_RATE,
        }
    }
}

/// Faces have no streams, so no backlog.
struct NoStreams;

impl Backlog for NoStreams {
    fn backlog_bytes(&self, _to: NodeId) -> usize {
        0
    }
}

/// A node's socket, faces and protocol.
pub(super) struct FaceDriver {
    chassis: Chassis,
    controls: Controls<Order>,
    config: FacesConfig,
    datagrams: Datagrams,
    faces: FaceTable,
    unproven_rates: NetworkRates,
    // The socket has signalled, and was not read since.
    has_arrivals: bool,
    // A deadline for the next look at idle faces is set.
    is_idle_watched: bool,
    notices: VecDeque<(NodeId, PeerState)>,
    deadlines: Deadlines<Deadline>,
    batch: Vec<Arrived>,
    warnings: WarnLimit<{ Refusal::COUNT }>,
    withheld_warnings: WarnLimit<{ Withheld::COUNT }>,
}

/// The parts of a driver.
pub(super) struct Parts {
    pub(super) ends: DriverEnds<Order>,
    pub(super) service: ServiceEnds,
    pub(super) config: FacesConfig,
    /// Seed of the node's random numbers.
    pub(super) seed: u64,
    pub(super) udp: std::net::UdpSocket,
    pub(super) table: FaceTable,
}

/// A node with faces has one service: packets name none.
const SERVICE: ServicePlace = services::FIRST;

impl FaceDriver {
    /// Assembles a driver and starts the protocol; the first turn comes with the first poll.
    pub(super) fn start(parts: Parts) -> std::io::Result<FaceDriver> {
        let config = parts.config;
        let (mut chassis, controls) = Chassis::new(parts.ends, LOCAL, parts.seed)?;
        let ready = &chassis.ready;
        let waker = ready.waker(Source::Datagrams);
        let limits = (config.common.datagram_queue_bytes_max, TRAIN_LENGTH_MAX);
        let datagrams = Datagrams::new(parts.udp, limits, waker)?;
        // A packet of the protocol may be longer than a link's.
        sys::allow_fragments(datagrams.arrivals.socket().0)?;
        let unproven_rates = NetworkRates::new(config.unproven_bytes_per_second);
        // Each source is polled once, which registers its waker.
        chassis.again.extend([Source::Controls, Source::Datagrams]);
        let mut driver = FaceDriver {
            chassis,
            controls,
            config,
            datagrams,
            faces: parts.table,
            unproven_rates,
            has_arrivals: false,
            is_idle_watched: false,
            notices: VecDeque::new(),
            deadlines: Deadlines::new(),
            batch: Vec::new(),
            warnings: WarnLimit::new(),
            withheld_warnings: WarnLimit::new(),
        };
        driver.start_service(parts.service);
        driver.publish();
        Ok(driver)
    }

    fn take_controls(&mut self) {
        while let Some(control) = self.controls.next() {
            match control {
                Control::Order(Order::Open { addr, reply }) => {
                    let opened = self.faces.open(addr, self.chassis.now);
                    if let Ok((node, true)) = opened {
                        self.notify_protocol(node, PeerState::Up { incarnation: 0 });
                    }
                    // The receiver may have stopped waiting.
                    let _ = reply.send(opened.map(|(node, _)| node));
                }
                Control::Order(Order::Close { node, reply }) => {
                    let was_open = self.faces.remove(node);
                    if was_open {
                        self.note_closed(node);
                        self.handle_notices();
                    }
                    let _ = reply.send(was_open);
                }
                Control::Order(Order::Emulate { to, faults }) => self.set_faults(to, faults),
                Control::Stop(_, reply) => self.begin_stop(Some(reply)),
                Control::StopNode(reply) => self.begin_stop(reply),
            }
        }
    }

    fn receive(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        let mut handled = 0;
        while handled < DATAGRAMS_MAX {
            let arrivals = &mut self.datagrams.arrivals;
            let received =
                arrivals.receive(Ask::IfSignalled, &mut self.chassis.traffic, &mut batch);
            self.chassis.tick();
            // A failed call counts as well, so that a broken socket cannot hold the turn.
            handled += batch.iter().map(Arrived::datagrams).sum::<usize>().max(1);
            for arrived in batch.drain(..) {
                self.take_train(arrived);
            }
            if received == Received::Blocked {
                handled = 0;
                break;
            }
        }
        if handled >= DATAGRAMS_MAX {
            self.chassis.again.push(Source::Datagrams);
        }
        self.batch = batch;
    }

    /// Handles a train of datagrams from one sender.
    fn take_train(&mut self, train: Arrived) {
        let addr = train.from;
        let mut face = self.faces.hear(addr, self.chassis.now);
        for datagram in train {
            // The protocol may have closed the face while it handled the datagram before.
            if !self.notices.is_empty() {
                self.handle_notices();
                face = self.faces.hear(addr, self.chassis.now);
            }
            match self.take_datagram(addr, face, datagram) {
                Ok(node) => face = Some(node),
                Err(refusal) => self.refuse(refusal, &addr),
            }
        }
        self.handle_notices();
    }

    fn take_datagram(
        &mut self,
        addr: SocketAddr,
        face: Option<NodeId>,
        datagram: Bytes,
    ) -> Result<NodeId, Refusal> {
        if face.is_none() && !self.config.accepts_unknown {
            return Err(Refusal::Unknown);
        }
        if datagram.len() > self.config.datagram_bytes_max {
            return Err(Refusal::Oversized);
        }
        let bytes = datagram.len();
        if let Some(node) = face {
            self.faces.credit(node, bytes);
        }
        // Decoded first: an invalid message opens no face.
        let machine = self.chassis.services.machine(SERVICE);
        let machine = machine.expect("a node with faces keeps its service");
        if let Err(error) = machine.decode(datagram) {
            if let Some(node) = face {
                self.handle(SERVICE, Call::Undecodable(node, error));
            }
            return Err(Refusal::Undecodable);
        }
        let node = match face {
            Some(node) => node,
            None => {
                let node = self.let_in(addr)?;
                self.faces.credit(node, bytes);
                node
            }
        };
        self.handle(SERVICE, Call::Message(node));
        Ok(node)
    }

    fn let_in(&mut self, addr: SocketAddr) -> Result<NodeId, Refusal> {
        if !self.faces.can_answer(addr) {
            return Err(Refusal::Full);
        }
        let after = self.config.face_yields_after;
        if self.faces.is_full()
            && let Some(yields) = self.faces.yields_to(addr, self.chassis.now, after)
        {
            self.chassis.counters.add(counters::FACES_YIELDED, 1);
            self.close(yields);
            self.handle_notices();
        }
        let node = self.faces.let_in(addr, self.chassis.now).ok_or(Refusal::Full)?;
        self.chassis.counters.add(counters::FACES_OPENED, 1);
        if !self.is_idle_watched {
            self.is_idle_watched = true;
            self.deadlines.set(self.chassis.now + self.config.face_idle_after, Deadline::Idle);
        }
        self.notify_protocol(node, PeerState::Up { incarnation: 0 });
        Ok(node)
    }

    /// Closes a face that a stranger opened. Calls no handler.
    fn close(&mut self, node: NodeId) {
        if self.faces.close(node) {
            self.note_closed(node);
        }
    }

    fn note_closed(&mut self, node: NodeId) {
        self.chassis.counters.add(counters::FACES_CLOSED, 1);
        self.chassis.forget_faults(node.index());
        self.notices.push_back((node, PeerState::Down));
    }

    fn close_idle(&mut self) {
        let (idle, again_at) = self.faces.idle(self.chassis.now, self.config.face_idle_after);
        for node in idle {
            self.close(node);
        }
        self.handle_notices();
        self.is_idle_watched = self.faces.has_strangers();
        if self.is_idle_watched {
            self.deadlines.set(again_at, Deadline::Idle);
        }
    }

    fn notify_protocol(&mut self, node: NodeId, state: PeerState) {
        self.handle(SERVICE, Call::Peer(node, state));
    }

    fn handle_notices(&mut self) {
        // This loop ends: a face closes once, and the protocol's reaction opens none.
        while let Some((node, state)) = self.notices.pop_front() {
            self.notify_protocol(node, state);
        }
    }

    /// Counts a dropped datagram, and logs at most one warning a second for each reason.
    fn refuse(&mut self, refusal: Refusal, from: &dyn Display) {
        self.chassis.counters.add(refusal.counter(), 1);
        if self.warnings.admits(refusal as usize, self.chassis.now) {
            tracing::warn!(%from, reason = refusal.counter().name(), "datagram refused");
        }
    }

    fn fire_timers(&mut self) {
        self.chassis.tick();
        for _ in 0..TIMERS_MAX {
            let Some(deadline) = self.deadlines.take_due(self.chassis.now) else {
                return;
            };
            match deadline {
                Deadline::Timer(slot) => self.handle(SERVICE, Call::Timer(slot)),
                Deadline::Datagram(held) => self.queue(held.0, &held.1),
                Deadline::Idle => self.close_idle(),
                Deadline::Stop => self.chassis.life.end(),
            }
        }
        self.chassis.again.push(Source::Deadline);
    }

    fn note_unsupported(&mut self, requests: usize) {
        debug_assert!(false, "a protocol on faces has no groups, streams or contacts");
        self.chassis.counters.add(counters::FACES_UNSUPPORTED, requests as u64);
    }

    fn queue_after(&mut self, delay: Duration, to: NodeId, message: &dyn Encode) {
        if delay.is_zero() {
            self.queue(to, message);
        } else {
            let held = Deadline::Datagram(Box::new((to, Encoded::new(message))));
            self.deadlines.set(self.chassis.now + delay, held);
        }
    }

    fn queue(&mut self, to: NodeId, message: &dyn Encode) {
        let Some((addr, allowance)) = self.faces.way_to(to) else {
            self.chassis.counters.add(counters::SEND_UNKNOWN_FACE, 1);
            return;
        };
        let bytes = message.wire_len();
        if bytes == 0 || bytes > self.config.datagram_bytes_max {
            self.chassis.counters.add(counters::DATAGRAM_UNSENDABLE, 1);
            return;
        }
        if let Some(allowance) = allowance {
            let ip = addr.ip();
            if !allowance.covers(ip, bytes) {
                return self.withhold(Withheld::Allowance, addr);
            }
            if !self.unproven_rates.admit(ip, bytes, self.chassis.now) {
                return self.withhold(Withheld::Rate, addr);
            }
            allowance.spend(ip, bytes);
        }
        self.datagrams
            .queue
            .data
            .push(addr, bytes, &mut self.chassis.counters, |out| write(message, out));
    }

    /// Counts a withheld datagram, and logs at most one warning a second for each reason.
    fn withhold(&mut self, why: Withheld, to: SocketAddr) {
        self.chassis.counters.add(why.counter(), 1);
        if self.withheld_warnings.admits(why as usize, self.chassis.now) {
            let reason = why.counter().name();
            tracing::warn!(%to, reason, "datagram to an unproven face withheld");
        }
    }

    fn set_faults(&mut self, to: Peers, faults: LinkFaults) {
        let place = |node: NodeId| self.faces.addr(node).map(|_| node.index());
        self.chassis.change_faults(to, faults, place);
    }
}

impl Carrier for FaceDriver {
    fn send(&mut self, to: NodeId, lane: Lane, message: &dyn Encode) {
        if lane == Lane::Stream {
            return self.note_unsupported(1);
        }
        match self.chassis.draw(to.index(), lane) {
            Copies::None => self.chassis.counters.add(counters::EMULATED_LOSS, 1),
            Copies::One(delay) => self.queue_after(delay, to, message),
            Copies::Two(first, second) => {
                self.chassis.counters.add(counters::EMULATED_DUPLICATE, 1);
                self.queue_after(first, to, message);
                self.queue_after(second, to, message);
            }
        }
    }

    fn send_group(&mut self, _group: GroupId, _message: &dyn Encode) {
        self.note_unsupported(1);
    }

    fn end_sends(&mut self) {}

    fn arm(&mut self, at: Instant, slot: u32) {
        self.deadlines.set(at, Deadline::Timer(slot));
    }
}

impl Drive for FaceDriver {
    fn chassis(&mut self) -> &mut Chassis {
        &mut self.chassis
    }

    fn forget(&mut self, _: (ServicePlace, ServiceNumber)) {}

    fn with_backlog(&self, _: ServiceNumber, call: &mut dyn FnMut(&dyn Backlog)) {
        call(&NoStreams);
    }

    fn datagram_bytes_max(&self) -> usize {
        self.config.datagram_bytes_max
    }

    fn host(&self) -> Option<u64> {
        None
    }

    fn carry_out(&mut self, _: (ServicePlace, ServiceNumber), machine: &mut dyn Machine) {
        machine.carry_out(self);
        let links = machine.links();
        if links.is_empty() {
            return;
        }
        let LinkRequests { memberships, drains, contacts, disconnects, watch, probes } =
            std::mem::take(links);
        let watches = usize::from(watch.is_some()) + probes.len();
        let unsupported = memberships.len() + drains.len() + contacts.len() + watches;
        if unsupported > 0 {
            self.note_unsupported(unsupported);
        }
        for node in disconnects.into_iter().rev() {
            self.close(node);
        }
    }

    fn turn(&mut self, woken: &mut Vec<Source>) {
        // Faces open before commands that may name them.
        if woken.contains(&Source::Controls) {
            self.take_controls();
        }
        self.has_arrivals |= woken.contains(&Source::Datagrams);
        // Waiting commands cause another turn at once, which looks at arrivals again.
        let is_behind = self.chassis.services.inputs_waiting() >= INPUTS_WAITING_MAX;
        if self.has_arrivals && !is_behind && !self.chassis.holds_peers() {
            self.has_arrivals = false;
            self.receive();
        }
        if woken.contains(&Source::Inputs(SERVICE)) {
            self.take_inputs(SERVICE);
        }
        self.fire_timers();
        self.handle_notices();
        self.datagrams.flush(&mut self.chassis.traffic, &mut self.chassis.counters);
        self.chassis.alarm.set(self.deadlines.earliest());
    }

    fn has_more(&self) -> bool {
        !self.chassis.again.is_empty()
    }

    fn held(&self) -> Held {
        Held { datagrams_bytes: self.datagrams.queue.queued_bytes(), ..Held::default() }
    }

    fn begin_stop(&mut self, reply: Option<oneshot::Sender<Stopped>>) {
        if self.chassis.life.begin_stop(reply) {
            self.deadlines.set(self.chassis.now + self.config.common.stop_within, Deadline::Stop);
        }
    }

    fn is_flushed(&mut self) -> bool {
        self.datagrams.queue.is_empty() && self.chassis.services.inputs_waiting() == 0
    }

    fn abandon(&mut self) -> Stopped {
        // Lost datagrams are not counted: any may be lost.
        Stopped { abandoned_bytes: 0 }
    }
}
