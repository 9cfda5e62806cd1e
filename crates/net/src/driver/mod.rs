//! The one task of a node: a loop over what is ready.
//!
//! Each poll of the task is a *turn*: take the sources that woke, give each a bounded share, fire
//! the timers that are due, write what has gathered, publish. A source that has more is put on the
//! list of the next turn, and the task yields in between. A node at rest is not polled at all.

mod carry;
mod datagrams;
mod faults;
mod strangers;
mod streams;

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{
    Context, Counters, GroupId, Instant, NodeId, Outbox, PeerState, Protocol, Rng, View,
};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use self::datagrams::Datagram;
use crate::Hosted;
use crate::alarm::Alarm;
use crate::arrivals::{Arrived, Ask};
use crate::config::NodeConfig;
use crate::datagram::Datagrams;
use crate::deadlines::{Clock, Deadlines};
use crate::emulate::{EmulateChange, Emulator, ReceiveLoss};
use crate::incoming::{Cue, Incoming};
use crate::multicast::{Native, Way};
use crate::node::{Handles, Stopped};
use crate::peers::PeerTable;
use crate::pool::ReadPool;
use crate::ready::{ReadyList, Source};
use crate::record::{ClusterTag, Header, Kind, Session};
use crate::stats::{Traffic, WarnLimit};

/// Inputs handled in a turn.
const INPUTS_MAX: usize = 128;
/// Least time between two questions for datagrams, while their arrivals do not signal.
const DATAGRAMS_EVERY: Duration = Duration::from_millis(2);
/// Rounds of writing and of telling the protocol about it in a turn.
const FLUSH_ROUNDS_MAX: usize = 8;
/// Timers fired in a turn.
const TIMERS_MAX: usize = 256;

/// What the application sends to the protocol, in order.
pub(crate) enum Input<P: Protocol> {
    /// A command, and the bytes that it was admitted with.
    Command(P::Command, usize),
    /// An installed view.
    View(Arc<View>),
}

/// What the application tells the driver. Heeded even while the node is paused.
pub(crate) enum Control {
    /// Addresses at which members may be found.
    Seeds(Vec<SocketAddr>),
    /// Other faults.
    Emulate(EmulateChange),
    /// Flush and stop.
    Stop(oneshot::Sender<Stopped>),
}

/// Something that has a deadline.
enum Deadline<P: Protocol> {
    /// A timer of the protocol.
    Timer(P::Timer),
    /// The next attempt to dial a peer, unless `attempt` is not the latest any more.
    Redial { place: usize, attempt: u64 },
    /// The end of an attempt to dial a peer.
    Greeting { place: usize, attempt: u64 },
    /// The end of the wait for a Hello on an accepted stream.
    HalfOpen { slot: usize, number: u64 },
    /// A message on a stream was held back until now.
    Release { place: usize },
    /// A datagram was held back until now.
    Datagram(Box<Datagram<P::Message>>),
    /// The listener failed and may be tried again.
    Accept,
    /// Seeds that have not answered are asked again.
    Seeds,
    /// The end of a graceful stop.
    Stop,
}

/// Whether the node is to go on.
enum Life {
    /// It runs.
    Running,
    /// It flushes its streams and then ends.
    Stopping(Vec<oneshot::Sender<Stopped>>),
    /// It ends with this turn.
    Ending(Vec<oneshot::Sender<Stopped>>),
}

/// A node's sockets and its protocol.
pub(crate) struct Driver<P: Hosted> {
    protocol: P,
    shared: Arc<P::Shared>,
    rng: Rng,
    outbox: Outbox<P>,
    config: NodeConfig,
    header: Header,
    incarnation: u64,
    /// Our Hello as the first record of a stream.
    hello: Bytes,
    session: Session,
    clock: Clock,
    now: Instant,

    inputs: mpsc::UnboundedReceiver<Input<P>>,
    controls: mpsc::UnboundedReceiver<Control>,
    events: mpsc::UnboundedSender<P::Event>,
    handles: Arc<Handles>,
    handled_bytes: u64,

    listener: TcpListener,
    datagrams: Datagrams,
    // While arrivals do not signal: when to ask for them again.
    datagrams_from: Instant,
    peers: PeerTable<P::Message>,
    // What is sent to others is not for this node.
    groups: BTreeSet<GroupId>,
    // Nothing where messages to groups leave as copies only.
    multicast: Option<Native>,
    incoming: Vec<Option<Incoming>>,
    accepted: u64,
    // Slots of the busy streams: their packets gather before they signal.
    gathering: Vec<usize>,
    // Places of the streams that wait for room in the kernel, which will not signal.
    refilling: Vec<usize>,
    pool: ReadPool,
    deadlines: Deadlines<Deadline<P>>,
    alarm: Alarm,
    notices: Vec<(NodeId, PeerState)>,
    // Seeds that have not said who they are.
    seeds: Vec<SocketAddr>,
    // Before this no unknown sender is asked or answered.
    stranger_after: Instant,

    ready: Arc<ReadyList>,
    wakers: Wakers,
    woken: Vec<Source>,
    again: Vec<Source>,
    input_batch: Vec<Input<P>>,
    record_batch: Vec<Arrived>,
    multicast_batch: Vec<Arrived>,
    flush_batch: Vec<usize>,

    seed: u64,
    driver_rng: Rng,
    emulator: Option<Box<Emulator>>,
    receive_loss: Option<ReceiveLoss>,
    // An emulated partition cuts somebody off.
    is_cut: bool,
    paused_until: Option<Instant>,
    life: Life,
    traffic: Traffic,
    counters: Counters,
    warnings: WarnLimit,
}

/// The wakers of the sources that there is one of.
struct Wakers {
    inputs: Waker,
    controls: Waker,
    listener: Waker,
}

/// All that a driver is made of.
pub(crate) struct Parts<P: Hosted> {
    pub(crate) protocol: P,
    pub(crate) shared: Arc<P::Shared>,
    pub(crate) config: NodeConfig,
    pub(crate) seed: u64,
    pub(crate) session: Session,
    pub(crate) roster: crate::Roster,
    pub(crate) listener: TcpListener,
    pub(crate) udp: std::net::UdpSocket,
    pub(crate) multicast: Way,
    pub(crate) inputs: mpsc::UnboundedReceiver<Input<P>>,
    pub(crate) controls: mpsc::UnboundedReceiver<Control>,
    pub(crate) events: mpsc::UnboundedSender<P::Event>,
    pub(crate) handles: Arc<Handles>,
}

impl<P: Hosted> Driver<P> {
    /// Assembles a driver and starts the protocol; the first turn comes with the first poll.
    pub(crate) fn start(parts: Parts<P>) -> std::io::Result<Driver<P>> {
        let Parts { config, session, seed, .. } = parts;
        let ready = Arc::new(ReadyList::default());
        let wakers = Wakers {
            inputs: ready.waker(Source::Inputs),
            controls: ready.waker(Source::Controls),
            listener: ready.waker(Source::Listener),
        };
        let datagrams = Datagrams::new(
            parts.udp,
            config.datagram_queue_bytes_max,
            ready.waker(Source::Datagrams),
        )?;
        let header = Header {
            kind: Kind::Message,
            cluster: ClusterTag::of(&config.cluster),
            sender: config.node,
            session: session.tag(),
            sequence: 0,
        };
        let mut peers = PeerTable::new(&parts.roster, &ready);
        if let Some(own) = peers.place(config.node) {
            peers.at(own).session = Some((session, session.tag()));
            peers.introduce(own);
        }
        let waker = ready.waker(Source::Multicast);
        let multicast = parts.multicast.start(header.cluster, waker)?;
        let clock = Clock::start();
        let alarm = Alarm::new(clock, ready.waker(Source::Deadline))?;
        let mut driver = Driver {
            protocol: parts.protocol,
            shared: parts.shared,
            rng: Rng::new(seed, u64::from(config.node.0)),
            outbox: Outbox::default(),
            hello: streams::hello_record(&header, &session),
            header,
            incarnation: session.incarnation(),
            session,
            clock,
            now: clock.now(),
            inputs: parts.inputs,
            controls: parts.controls,
            events: parts.events,
            handles: parts.handles,
            handled_bytes: 0,
            listener: parts.listener,
            datagrams,
            datagrams_from: Instant::ZERO,
            peers,
            groups: BTreeSet::new(),
            multicast,
            incoming: Vec::new(),
            accepted: 0,
            gathering: Vec::new(),
            refilling: Vec::new(),
            pool: ReadPool::new(config.stream_read_bytes),
            deadlines: Deadlines::new(),
            alarm,
            notices: Vec::new(),
            seeds: Vec::new(),
            stranger_after: Instant::ZERO,
            ready,
            wakers,
            woken: Vec::new(),
            // Each source is polled once, which registers its waker.
            again: vec![
                Source::Inputs,
                Source::Controls,
                Source::Listener,
                Source::Datagrams,
                Source::Multicast,
            ],
            input_batch: Vec::new(),
            record_batch: Vec::new(),
            multicast_batch: Vec::new(),
            flush_batch: Vec::new(),
            seed,
            driver_rng: Rng::new(seed, u64::from(config.node.0) | 1 << 32),
            emulator: None,
            receive_loss: None,
            is_cut: false,
            paused_until: None,
            life: Life::Running,
            traffic: Traffic::default(),
            counters: Counters::default(),
            warnings: WarnLimit::default(),
            config,
        };
        driver.handle(|protocol, cx| protocol.handle_start(cx));
        driver.publish();
        Ok(driver)
    }

    /// Calls a handler and carries out what it asked for.
    fn handle(&mut self, call: impl FnOnce(&mut P, &mut Context<'_, P>)) {
        let mut cx = Context {
            now: self.now,
            node: self.config.node,
            incarnation: self.incarnation,
            shared: &*self.shared,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &self.peers,
            datagram_bytes_max: self.config.datagram_message_bytes_max(),
        };
        call(&mut self.protocol, &mut cx);
        self.carry_out();
    }

    fn turn(&mut self, woken: &mut Vec<Source>) {
        self.traffic.turns += 1;
        self.now = self.clock.now();
        if woken.contains(&Source::Controls) {
            self.take_controls();
        }
        if woken.contains(&Source::Deadline) {
            self.alarm.acknowledge();
        }
        if let Some(until) = self.paused_until {
            if self.now < until {
                self.again.append(woken);
                return self.alarm.set(until);
            }
            self.paused_until = None;
        }
        for source in woken.drain(..) {
            self.serve(source);
        }
        if !self.datagrams.arrivals.is_signalling() && self.now >= self.datagrams_from {
            self.datagrams_from = self.now + DATAGRAMS_EVERY;
            self.receive_datagrams(Ask::IfSignalled);
            self.receive_multicast();
        }
        self.serve_gathering();
        self.fire_timers();
        self.list_refills();
        self.flush();
        // While a stream gathers there is a turn in time, so that a datagram need not make one.
        let is_wanted = self.gathering.is_empty();
        if self.datagrams.arrivals.signal(is_wanted) {
            self.again.push(Source::Datagrams);
        }
        if self.multicast.as_mut().is_some_and(|native| native.arrivals.signal(is_wanted)) {
            self.again.push(Source::Multicast);
        }
        let streams = self.gathering_until().min(self.refill_by());
        self.alarm.set(self.deadlines.earliest().min(streams));
    }

    fn serve(&mut self, source: Source) {
        match source {
            Source::Controls | Source::Deadline => {}
            Source::Inputs => self.take_inputs(),
            Source::Listener => self.accept(),
            Source::Datagrams => self.receive_datagrams(Ask::IfSignalled),
            Source::Multicast => self.receive_multicast(),
            Source::Outgoing(place) => self.serve_outgoing(place),
            Source::Incoming(slot) => self.serve_incoming(slot, Cue::Signal),
        }
    }

    fn take_inputs(&mut self) {
        let mut batch = std::mem::take(&mut self.input_batch);
        let mut cx = TaskContext::from_waker(&self.wakers.inputs);
        let mut taken = 0;
        while taken < INPUTS_MAX {
            match self.inputs.poll_recv_many(&mut cx, &mut batch, INPUTS_MAX) {
                Poll::Pending => break,
                // Every handle is gone.
                Poll::Ready(0) => {
                    self.begin_stop(None);
                    break;
                }
                Poll::Ready(count) => taken += count,
            }
            for input in batch.drain(..) {
                match input {
                    Input::Command(command, bytes) => {
                        self.handled_bytes += bytes as u64;
                        self.handle(|protocol, cx| protocol.handle_command(cx, command));
                    }
                    Input::View(view) => {
                        self.handle(|protocol, cx| protocol.handle_view(cx, &view));
                    }
                }
            }
            cx = TaskContext::from_waker(&self.wakers.inputs);
        }
        if taken >= INPUTS_MAX {
            self.again.push(Source::Inputs);
        }
        self.input_batch = batch;
    }

    fn take_controls(&mut self) {
        loop {
            let mut cx = TaskContext::from_waker(&self.wakers.controls);
            match self.controls.poll_recv(&mut cx) {
                Poll::Ready(Some(Control::Seeds(seeds))) => self.look_for(seeds),
                Poll::Ready(Some(Control::Emulate(change))) => self.emulate(change),
                Poll::Ready(Some(Control::Stop(reply))) => self.begin_stop(Some(reply)),
                // The end of the inputs is what counts.
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }

    fn begin_stop(&mut self, reply: Option<oneshot::Sender<Stopped>>) {
        self.paused_until = None;
        match &mut self.life {
            Life::Stopping(replies) | Life::Ending(replies) => replies.extend(reply),
            Life::Running => {
                self.life = Life::Stopping(reply.into_iter().collect());
                self.deadlines.set(self.now + self.config.stop_within, Deadline::Stop);
            }
        }
    }

    fn fire_timers(&mut self) {
        self.now = self.clock.now();
        for _ in 0..TIMERS_MAX {
            let Some(deadline) = self.deadlines.take_due(self.now) else {
                return;
            };
            match deadline {
                Deadline::Timer(timer) => {
                    self.handle(|protocol, cx| protocol.handle_timer(cx, timer));
                }
                Deadline::Redial { place, attempt } => self.redial(place, attempt),
                Deadline::Greeting { place, attempt } => self.give_up_attempt(place, attempt),
                Deadline::HalfOpen { slot, number } => self.give_up_half_open(slot, number),
                Deadline::Release { place } => self.release(place),
                Deadline::Datagram(datagram) => self.queue_datagram(&datagram),
                Deadline::Accept => self.again.push(Source::Listener),
                Deadline::Seeds => self.ask_seeds(),
                Deadline::Stop => self.end(),
            }
        }
        self.again.push(Source::Deadline);
    }

    /// Writes what has gathered and tells the protocol what came of it, until nothing is left or
    /// the turn's share is used up.
    fn flush(&mut self) {
        let mut batch = std::mem::take(&mut self.flush_batch);
        for _ in 0..FLUSH_ROUNDS_MAX {
            for (node, state) in std::mem::take(&mut self.notices) {
                self.handle(|protocol, cx| protocol.handle_peer(cx, node, state));
            }
            self.peers.take_flushes(&mut batch);
            for place in batch.drain(..) {
                self.flush_outgoing(place);
            }
            if self.notices.is_empty() && !self.peers.has_flushes() {
                break;
            }
        }
        self.flush_batch = batch;
        self.datagrams.flush(&mut self.traffic, &mut self.counters);
    }

    fn publish(&mut self) {
        let limit = self.handled_bytes.saturating_add(self.protocol.admission() as u64);
        self.handles.admission.set_limit(limit);
        let counters = [&mut self.outbox.counters, &mut self.counters];
        self.handles.stats.publish(self.traffic, counters);
    }

    /// Ends a stop: with this turn the node is gone.
    fn end(&mut self) {
        if let Life::Stopping(replies) = &mut self.life {
            self.life = Life::Ending(std::mem::take(replies));
        }
    }

    /// True if all that was to be sent is with the kernel.
    fn is_flushed(&mut self) -> bool {
        let mut peers = self.peers.iter_mut();
        self.datagrams.is_empty()
            && self.inputs.is_empty()
            && peers.all(|peer| peer.outgoing.queued_bytes() == 0)
    }

    fn close(&mut self) -> Ended {
        let peers = self.peers.iter_mut();
        let abandoned_bytes = peers.map(|peer| peer.outgoing.abandon(self.now)).sum();
        let replies = match &mut self.life {
            Life::Running => Vec::new(),
            Life::Stopping(replies) | Life::Ending(replies) => std::mem::take(replies),
        };
        Ended { stopped: Stopped { abandoned_bytes }, replies }
    }
}

/// A node's end, and who waits to hear of it. To be told once the sockets are closed.
pub(crate) struct Ended {
    stopped: Stopped,
    replies: Vec<oneshot::Sender<Stopped>>,
}

impl Ended {
    /// Tells whoever waits.
    pub(crate) fn tell(self) {
        for reply in self.replies {
            // Whoever asked may have stopped waiting.
            let _ = reply.send(self.stopped);
        }
    }
}

impl<P: Hosted> Unpin for Driver<P> {}

impl<P: Hosted> Future for Driver<P> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Ended> {
        let driver = &mut *self;
        let mut woken = std::mem::take(&mut driver.woken);
        woken.append(&mut driver.again);
        driver.ready.take(cx.waker(), &mut woken);
        driver.turn(&mut woken);
        woken.clear();
        driver.woken = woken;
        driver.publish();
        if matches!(driver.life, Life::Stopping(_)) && driver.is_flushed() {
            driver.end();
        }
        if matches!(driver.life, Life::Ending(_)) {
            return Poll::Ready(driver.close());
        }
        let more =
            !driver.again.is_empty() || !driver.notices.is_empty() || driver.peers.has_flushes();
        if more && driver.paused_until.is_none() {
            // Unlike a plain wake-up this lets the runtime look at the sockets first, so that a
            // busy stream does not hide a datagram or a deadline for more than a turn.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
        }
        Poll::Pending
    }
}

impl<P: Hosted> Drop for Driver<P> {
    fn drop(&mut self) {
        // Who waits for admission is let through, to find the inputs closed.
        self.inputs.close();
        self.handles.admission.set_limit(u64::MAX);
        self.ready.clear();
    }
}
