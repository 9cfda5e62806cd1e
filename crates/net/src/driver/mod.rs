//! The driver of a node with records: streams, datagrams, groups.
//!
//! A turn serves the sources that woke, each up to a bounded share, fires the timers that are due,
//! and flushes the queues.

mod carry;
mod claim;
mod claims;
mod datagrams;
mod descriptions;
mod faults;
mod link;
mod memory;
mod peers;
mod proofs;
mod sealed;
mod strangers;
mod streams;
mod verification;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use paceline_proto::core::{Backlog, Counters, GroupId, Instant, Member, NodeId, PeerState, mix};
use paceline_proto::host::{Call, HostDetector, Machine, ServicePlace};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::carry::Carrying;
use self::datagrams::{Content, Datagram};
use self::link::Link;
use self::peers::{PeerTable, Trust};
use self::proofs::Proofs;
use crate::chassis::deadlines::Deadlines;
use crate::chassis::ends::{Control, DriverEnds, Stopped};
use crate::chassis::ready::Source;
use crate::chassis::services::ServiceEnds;
use crate::chassis::{Chassis, Controls, Drive};
use crate::config::{Exposure, NodeConfig};
use crate::datagrams::Datagrams;
use crate::datagrams::arrivals::{Arrived, Ask};
use crate::datagrams::multicast::{MulticastSocket, Way};
use crate::emulate::{EmulateChange, ReceiveLoss};
use crate::handshakes::Handshakes;
use crate::nonces::{Nonce, Nonces};
use crate::record::{Header, Kind, Refusal, ServiceNumber, Session};
use crate::roster::Roster;
use crate::stats::{Held, WarnLimit};
use crate::streams::incoming::{Incoming, ReadCause, Unfinished};
use crate::streams::pool::ReadPool;
use crate::tally::Tally;

/// Least time between two reads of the UDP socket, while its arrivals do not signal.
const DATAGRAMS_EVERY: Duration = Duration::from_millis(2);
/// How often the log says that nothing is encrypted.
const PLAINTEXT_EVERY: Duration = Duration::from_secs(3600);
/// Rounds in a turn of writing and of notifying the protocol.
const FLUSH_ROUNDS_MAX: usize = 8;
/// Timers fired in a turn.
const TIMERS_MAX: usize = 256;

/// An order of the application to the driver.
pub enum Order {
    /// Start a service.
    Start(ServiceEnds),
    /// Addresses at which a service looks for members.
    Seek(ServiceNumber, Vec<SocketAddr>),
    /// The weight of a service on the link.
    Weigh(ServiceNumber, u32),
    /// Other faults.
    Emulate(EmulateChange),
}

/// Something that has a deadline.
enum Deadline {
    /// The timer in this slot of a service.
    Timer { service: ServicePlace, slot: u32 },
    /// The next attempt to dial a peer, unless `attempt` is no longer the latest.
    Redial { place: usize, attempt: u64 },
    /// The end of an attempt to dial a peer.
    Greeting { place: usize, attempt: u64 },
    /// The end of the wait for a Hello on an accepted stream.
    HalfOpen { slot: usize, number: u64 },
    /// A record of an accepted stream is still incomplete.
    Unfinished { slot: usize, of: Unfinished },
    /// A message on a stream was held back until now.
    Release { place: usize },
    /// A datagram was held back until now: the receiver's place, and its record.
    Datagram { place: usize, record: Bytes },
    /// The listener failed and may be tried again.
    Accept,
    /// Sought addresses that have not answered are asked again.
    Seek,
    /// Open proofs of addresses are due for a look.
    Proofs,
    /// Something of the failure detector is due.
    Detector,
    /// The link takes the next message.
    Link,
    /// The log says again that nothing is encrypted.
    Plaintext,
    /// The end of a graceful stop.
    Stop,
}

/// Services learn something about a peer.
struct Notice {
    call: Call,
    /// `None` for all.
    to: Option<Vec<ServicePlace>>,
}

impl Notice {
    /// For all services.
    fn all(node: NodeId, state: PeerState) -> Notice {
        Notice { call: Call::Peer(node, state), to: None }
    }
}

/// An address at which services look for a member.
struct Sought {
    address: SocketAddr,
    services: Vec<ServicePlace>,
}

/// A node's sockets and its services.
pub(crate) struct Driver {
    chassis: Chassis,
    controls: Controls<Order>,
    config: NodeConfig,
    header: Header,
    /// Our Hello as the first record of a stream.
    hello: Bytes,
    session: Session,
    nonces: Nonces,
    proofs: Proofs,

    listener: TcpListener,
    listener_waker: Waker,
    datagrams: Datagrams,
    datagrams_numbered: u64,
    // While arrivals do not signal: when to read them again.
    datagrams_from: Instant,
    peers: PeerTable,
    // What is sent to others is not for this node.
    groups: BTreeSet<(ServicePlace, GroupId)>,
    // `None` if messages to groups leave as copies only.
    multicast: Option<MulticastSocket>,
    incoming: Vec<Option<Incoming>>,
    accepted: u64,
    // Slots of the busy streams, which signal only after several packets.
    gathering: Vec<usize>,
    // Services whose backlog to a peer has fallen below what they wait for.
    drained: Vec<ServicePlace>,
    // Places of the peers that are sent copies of a group message; empty between calls.
    receivers: Vec<usize>,
    // Places of the streams that wait for room in the kernel without a signal.
    refilling: Vec<usize>,
    pool: ReadPool,
    // The bytes of incomplete records.
    records: Tally,
    deadlines: Deadlines<Deadline>,
    handshakes: Handshakes,
    // The places of peers, by the tags of the sessions that seal messages to them.
    sealed: BTreeMap<u32, usize>,
    // Allocated room for the next datagrams that are opened.
    opened: BytesMut,
    // Allocated room for the next records that are held back.
    held: BytesMut,
    notices: Vec<Notice>,
    link: Link,
    // What the present call of a service has counted there.
    link_counted: Counters,
    detector: HostDetector,
    // When it is polled next.
    detector_wakes: Instant,
    // Addresses at which nodes are sought whose ids are not known yet.
    sought: Vec<Sought>,
    // Nonces of other nodes that this node has repeated: a refusal must carry one of them.
    echoed: VecDeque<Nonce>,

    // Sources to serve once peers are read again.
    put_off: Vec<Source>,
    record_batch: Vec<Arrived>,
    multicast_batch: Vec<Arrived>,
    flush_batch: Vec<usize>,

    seed: u64,
    receive_loss: Option<ReceiveLoss>,
    // An emulated partition cuts off at least one peer.
    is_cut: bool,
    paused_until: Option<Instant>,
    warnings: WarnLimit<{ Refusal::ALL.len() }>,
    // Of services that differ at a peer.
    differ_warnings: WarnLimit<1>,
    // Of handshakes that failed.
    handshake_warnings: WarnLimit<1>,
}

/// The parts of a driver.
pub(crate) struct Parts {
    pub(crate) ends: DriverEnds<Order>,
    /// The first service, if the node is started for it.
    pub(crate) service: Option<ServiceEnds>,
    pub(crate) config: NodeConfig,
    /// Seed of the node's random numbers.
    pub(crate) seed: u64,
    pub(crate) session: Session,
    pub(crate) nonces: Nonces,
    pub(crate) roster: Roster,
    pub(crate) listener: TcpListener,
    pub(crate) udp: std::net::UdpSocket,
    pub(crate) multicast: Way,
}

impl Driver {
    /// Assembles a driver and starts its service, if it has one; the first turn comes with the
    /// first poll.
    pub(crate) fn start(parts: Parts) -> std::io::Result<Driver> {
        let Parts { config, session, seed, .. } = parts;
        let (mut chassis, controls) = Chassis::new(parts.ends, config.node, seed)?;
        let ready = &chassis.ready;
        let datagrams = Datagrams::new(
            parts.udp,
            (config.common.datagram_queue_bytes_max, config.datagrams_together_max),
            ready.waker(Source::Datagrams),
        )?;
        let header = Header {
            kind: Kind::Message,
            epoch: 0,
            service: ServiceNumber::NODE,
            cluster: config.cluster_tag(),
            sender: config.node,
            session: session.tag(),
            sequence: 0,
        };
        let trust = match config.sealing {
            Some(_) => Trust::Sessions,
            None => Trust::Addresses,
        };
        let mut peers = PeerTable::new(&parts.roster, trust, ready);
        let handshakes = Handshakes::new(config.hello_within, ready.waker(Source::Handshakes));
        let hello = Header { kind: Kind::Hello, ..header };
        if let Some(own) = peers.place(config.node) {
            peers.at(own).session = Some((session, session.tag()));
            peers.introduce(own);
        }
        let waker = ready.waker(Source::Multicast);
        let multicast = parts.multicast.start(header.cluster, waker)?;
        // Each source is polled once, which registers its waker.
        chassis.again.extend([
            Source::Controls,
            Source::Listener,
            Source::Datagrams,
            Source::Multicast,
            Source::Handshakes,
        ]);
        let me = Member { node: config.node, incarnation: session.incarnation() };
        let detector = HostDetector::new(config.detector.clone(), me, mix(seed));
        let mut driver = Driver {
            hello: streams::hello_record(&hello, session.as_bytes()),
            header,
            session,
            nonces: parts.nonces,
            proofs: Proofs::new(),
            listener: parts.listener,
            listener_waker: ready.waker(Source::Listener),
            datagrams,
            datagrams_numbered: 0,
            datagrams_from: Instant::ZERO,
            peers,
            groups: BTreeSet::new(),
            multicast,
            incoming: Vec::new(),
            accepted: 0,
            gathering: Vec::new(),
            drained: Vec::new(),
            receivers: Vec::new(),
            refilling: Vec::new(),
            pool: ReadPool::new(config.stream_read_bytes),
            records: Tally::default(),
            deadlines: Deadlines::new(),
            handshakes,
            sealed: BTreeMap::new(),
            opened: BytesMut::new(),
            held: BytesMut::new(),
            notices: Vec::new(),
            link: Link::new(
                config.link_rate_bits_per_second,
                config.common.datagram_queue_bytes_max,
            ),
            link_counted: Counters::default(),
            detector,
            detector_wakes: Instant::MAX,
            sought: Vec::new(),
            echoed: VecDeque::new(),
            put_off: Vec::new(),
            record_batch: Vec::new(),
            multicast_batch: Vec::new(),
            flush_batch: Vec::new(),
            seed,
            receive_loss: None,
            is_cut: false,
            paused_until: None,
            warnings: WarnLimit::new(),
            differ_warnings: WarnLimit::new(),
            handshake_warnings: WarnLimit::new(),
            config,
            chassis,
            controls,
        };
        if let Some(service) = parts.service {
            driver.start_service(service);
        }
        if driver.config.common.exposure == Exposure::InsecurePlaintext {
            driver.warn_of_plaintext();
        }
        driver.publish();
        Ok(driver)
    }

    /// Logs that nothing is encrypted or authenticated beyond loopback, now and each hour.
    fn warn_of_plaintext(&mut self) {
        let address = self.listener.local_addr().map(|addr| addr.to_string());
        tracing::warn!(
            address = address.unwrap_or_default(),
            "--insecure-plaintext: any host that reaches the port can read and forge messages"
        );
        self.deadlines.set(self.chassis.now + PLAINTEXT_EVERY, Deadline::Plaintext);
    }

    fn serve(&mut self, source: Source) {
        if self.holds_peers() {
            match source {
                Source::Inputs(service) => self.take_inputs(service),
                Source::Controls | Source::Deadline | Source::Events => {}
                Source::Outgoing(place) => {
                    // The backlog still leaves.
                    self.peers.list_flush(place);
                    self.put_off(source);
                }
                _ => self.put_off(source),
            }
            return;
        }
        match source {
            Source::Controls | Source::Deadline | Source::Events => {}
            Source::Inputs(service) => self.take_inputs(service),
            Source::Listener => self.accept(),
            Source::Handshakes => self.take_handshakes(),
            Source::Datagrams => self.receive_datagrams(Ask::IfSignalled),
            Source::Multicast => self.receive_multicast(),
            Source::Outgoing(place) => self.serve_outgoing(place),
            Source::Incoming(slot) => self.serve_incoming(slot, ReadCause::Signal),
        }
    }

    /// True while the driver must not read from peers, since the application does not receive
    /// events.
    fn holds_peers(&mut self) -> bool {
        self.chassis.holds_peers()
    }

    /// Defers a source until peers are read again.
    fn put_off(&mut self, source: Source) {
        if !self.put_off.contains(&source) {
            self.put_off.push(source);
        }
    }

    /// Lists the deferred sources for the next turn, if the application has received enough.
    fn take_up(&mut self) {
        if !self.put_off.is_empty() && !self.holds_peers() {
            self.chassis.again.append(&mut self.put_off);
        }
    }

    fn take_controls(&mut self) {
        while let Some(control) = self.controls.next() {
            match control {
                Control::Order(Order::Start(ends)) => self.start_service(ends),
                Control::Order(Order::Seek(number, addresses)) => {
                    if let Some(service) = self.chassis.services.find(number) {
                        self.look_for(service, addresses);
                    }
                }
                Control::Order(Order::Weigh(number, weight)) => {
                    self.link.share.set_weight(number, weight);
                }
                Control::Order(Order::Emulate(change)) => self.emulate(change),
                // If it has ended, the caller finds the reply gone.
                Control::Stop(number, reply) => {
                    if let Some(service) = self.chassis.services.find(number) {
                        self.end(service, Some(reply));
                    }
                }
                Control::StopNode(reply) => self.begin_stop(reply),
            }
        }
    }

    fn fire_timers(&mut self) {
        self.chassis.tick();
        // Timers that are set for now fire in the next turn, so that a busy protocol sends,
        // receives and reads the clock in between.
        let number = self.deadlines.number();
        for _ in 0..TIMERS_MAX {
            let Some(deadline) = self.deadlines.take_due_before(self.chassis.now, number) else {
                break;
            };
            match deadline {
                Deadline::Timer { service, slot } => self.handle(service, Call::Timer(slot)),
                Deadline::Redial { place, attempt } => self.redial(place, attempt),
                Deadline::Greeting { place, attempt } => self.give_up_attempt(place, attempt),
                Deadline::HalfOpen { slot, number } => self.give_up_half_open(slot, number),
                Deadline::Unfinished { slot, of } => self.give_up_unfinished(slot, of),
                Deadline::Release { place } => self.release(place),
                Deadline::Datagram { place, record } => {
                    self.queue_datagram(&Datagram { place, content: Content::Record(record) });
                }
                Deadline::Accept => self.chassis.again.push(Source::Listener),
                Deadline::Seek => self.ask_sought(),
                Deadline::Proofs => self.look_at_proofs(),
                Deadline::Detector => self.poll_detector(),
                Deadline::Link => self.wake_link(),
                Deadline::Plaintext => self.warn_of_plaintext(),
                Deadline::Stop => self.chassis.life.end(),
            }
        }
        if self.deadlines.earliest() <= self.chassis.now {
            self.chassis.again.push(Source::Deadline);
        }
    }

    /// Writes the backlogs and notifies the protocol of the results, until nothing is left or the
    /// turn's share is used up.
    fn flush(&mut self) {
        let mut batch = std::mem::take(&mut self.flush_batch);
        let mut has_more = true;
        for _ in 0..FLUSH_ROUNDS_MAX {
            for Notice { call, to } in std::mem::take(&mut self.notices) {
                match to {
                    Some(services) => {
                        services.into_iter().for_each(|service| self.handle(service, call));
                    }
                    None => self.handle_all(call),
                }
            }
            self.peers.take_flushes(&mut batch);
            for place in batch.drain(..) {
                self.flush_outgoing(place);
            }
            let has_released = self.release_link();
            if has_released || !self.notices.is_empty() || self.peers.has_flushes() {
                continue;
            }
            let was_full = self.datagrams.is_full();
            self.flush_datagrams();
            has_more = was_full && !self.datagrams.is_full();
            if !has_more {
                break;
            }
        }
        self.flush_batch = batch;
        if has_more {
            self.flush_datagrams();
            self.resume_link();
        }
    }

    fn flush_datagrams(&mut self) {
        if self.config.sealing.is_some() {
            self.seal_datagrams();
        }
        self.datagrams.flush(&mut self.chassis.traffic, &mut self.chassis.counters);
    }
}

impl Drive for Driver {
    fn chassis(&mut self) -> &mut Chassis {
        &mut self.chassis
    }

    fn with_backlog(&self, service: ServiceNumber, call: &mut dyn FnMut(&dyn Backlog)) {
        call(&self.own_backlog(service));
    }

    fn datagram_bytes_max(&self) -> usize {
        self.config.datagram_message_bytes_max()
    }

    fn host(&self) -> Option<u64> {
        Some(self.session.incarnation())
    }

    fn forget(&mut self, service: (ServicePlace, ServiceNumber)) {
        self.with_detector(|detector, now| detector.end(now, service.0));
        self.leave_groups(service);
        self.link.share.set_weight(service.1, 1);
        for sought in &mut self.sought {
            sought.services.retain(|&seeking| seeking != service.0);
        }
        self.sought.retain(|sought| !sought.services.is_empty());
    }

    fn carry_out(
        &mut self,
        (service, number): (ServicePlace, ServiceNumber),
        machine: &mut dyn Machine,
    ) {
        if machine.links().is_empty() {
            machine.carry_out(&mut Carrying { driver: self, service, number });
            return self.link_counted.drain_into(machine.counters());
        }
        for (node, address) in machine.links().contacts.drain(..) {
            self.learn_address(node, &address);
        }
        for (group, membership) in machine.links().memberships.drain(..) {
            self.change_membership((service, number), group, membership);
        }
        machine.carry_out(&mut Carrying { driver: self, service, number });
        self.link_counted.drain_into(machine.counters());
        for (to, below_bytes) in machine.links().drains.drain(..) {
            if let Some(place) = self.peers.place(to) {
                self.peers.at(place).outgoing.await_drain((service, number), below_bytes);
                self.peers.list_flush(place);
            }
        }
        while let Some(peer) = machine.links().disconnects.pop() {
            self.disconnect(peer);
        }
        let links = machine.links();
        if let Some(list) = links.watch.take() {
            self.with_detector(|detector, now| detector.watch(now, (service, number), &list));
        }
        for node in links.probes.drain(..) {
            self.with_detector(|detector, now| detector.probe(now, node));
        }
    }

    fn turn(&mut self, woken: &mut Vec<Source>) {
        if woken.contains(&Source::Controls) {
            self.take_controls();
        }
        if let Some(until) = self.paused_until {
            if self.chassis.now < until {
                self.chassis.again.append(woken);
                return self.chassis.alarm.set(until);
            }
            self.paused_until = None;
        }
        for source in woken.drain(..) {
            self.serve(source);
        }
        if self.holds_peers() {
            // Sockets that do not signal must be read then.
            self.put_off(Source::Datagrams);
            self.put_off(Source::Multicast);
        } else if !self.datagrams.arrivals.is_signalling()
            && self.chassis.now >= self.datagrams_from
        {
            self.datagrams_from = self.chassis.now + DATAGRAMS_EVERY;
            self.receive_datagrams(Ask::IfSignalled);
            self.receive_multicast();
        }
        if !self.holds_peers() {
            self.serve_gathering();
        }
        self.fire_timers();
        self.list_refills();
        self.flush();
        self.take_up();
        // While a busy stream gathers, its deadlines cause turns, so a datagram need not signal.
        let is_wanted = self.gathering.is_empty();
        if self.datagrams.arrivals.signal(is_wanted) {
            self.chassis.again.push(Source::Datagrams);
        }
        if self.multicast.as_mut().is_some_and(|native| native.arrivals.signal(is_wanted)) {
            self.chassis.again.push(Source::Multicast);
        }
        if self.chassis.again.contains(&Source::Deadline) {
            // The next turn follows at once, and sets it.
            return;
        }
        let gathering = if self.holds_peers() { Instant::MAX } else { self.gathering_until() };
        let streams = gathering.min(self.refill_by());
        self.chassis.alarm.set(self.deadlines.earliest().min(streams));
    }

    fn has_more(&self) -> bool {
        let more =
            !self.chassis.again.is_empty() || !self.notices.is_empty() || self.peers.has_flushes();
        more && self.paused_until.is_none()
    }

    fn held(&self) -> Held {
        Held {
            events_bytes: 0,
            records_bytes: self.records.bytes(),
            streams_bytes: self.peers.queued_bytes(),
            proofs_bytes: self.proofs.datagram_bytes(),
            datagrams_bytes: self.datagrams.queue.queued_bytes(),
            link_bytes: self.link.share.queued_bytes(),
        }
    }

    fn begin_stop(&mut self, reply: Option<oneshot::Sender<Stopped>>) {
        self.paused_until = None;
        if self.chassis.life.begin_stop(reply) {
            self.deadlines.set(self.chassis.now + self.config.common.stop_within, Deadline::Stop);
        }
    }

    fn is_flushed(&mut self) -> bool {
        let mut peers = self.peers.iter_mut();
        self.datagrams.queue.is_empty()
            && self.link.share.is_empty()
            && self.chassis.services.inputs_waiting() == 0
            && peers.all(|peer| peer.outgoing.queued_bytes() == 0)
    }

    fn abandon(&mut self) -> Stopped {
        let peers = self.peers.iter_mut();
        let queued: usize = peers.map(|peer| peer.outgoing.abandon(self.chassis.now)).sum();
        Stopped { abandoned_bytes: queued + self.link.share.queued_bytes() }
    }
}
