//! The common base of the drivers: the services, the clock, and the task.
//!
//! Each poll of the task is a *turn*: take the sources that woke, let the driver serve them, and
//! publish. A source that has more is put on the list of the next turn, and the task yields in
//! between. A node at rest is not polled at all.

pub(crate) mod alarm;
pub(crate) mod deadlines;
pub(crate) mod ends;
pub(crate) mod machine;
pub(crate) mod ready;
pub(crate) mod services;

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use paceline_proto::core::{
    Backlog, Copies, Counters, Instant, Lane, LinkFaults, NodeId, Rng, ServiceNumber,
};
use paceline_proto::host::{Call, Io, Machine, ServicePlace};
use tokio::sync::{mpsc, oneshot};

use crate::chassis::alarm::Alarm;
use crate::chassis::deadlines::Clock;
use crate::chassis::ends::{Common, Control, DriverEnds, Stopped};
use crate::chassis::ready::{ReadyList, Source};
use crate::chassis::services::{ServiceEnds, Services};
use crate::emulate::{Emulator, Peers};
use crate::events::EventGate;
use crate::stats::{Held, Traffic};

/// Inputs handled in a turn.
const INPUTS_MAX: usize = 128;

/// A driver, which a task runs turn by turn.
pub(crate) trait Drive: Send {
    /// Its base.
    fn chassis(&mut self) -> &mut Chassis;

    /// Makes a call with the backlogs of a service, of which a handler may ask.
    fn with_backlog(&self, service: ServiceNumber, call: &mut dyn FnMut(&dyn Backlog));

    /// The largest message, in bytes, that a datagram carries.
    fn datagram_bytes_max(&self) -> usize;

    /// The incarnation by which the failure detectors of other hosts know this one, if the driver
    /// has a detector.
    fn host(&self) -> Option<u64>;

    /// Carries out the requests of a service's last call. Calls no handler.
    fn carry_out(&mut self, service: (ServicePlace, ServiceNumber), machine: &mut dyn Machine);

    /// Called once a service has ended.
    fn forget(&mut self, service: (ServicePlace, ServiceNumber));

    /// Calls a handler of a service, unless it has ended, and carries out its requests.
    fn handle(&mut self, service: ServicePlace, call: Call) {
        let now = self.chassis().now;
        let Some((mut machine, number)) = self.chassis().services.take(service) else { return };
        let datagram_bytes_max = self.datagram_bytes_max();
        let host = self.host();
        self.with_backlog(number, &mut |backlog| {
            machine.call(&Io { now, host, backlog, datagram_bytes_max }, call);
        });
        self.carry_out((service, number), &mut *machine);
        self.chassis().services.put(service, machine);
    }

    /// Starts a service.
    fn start_service(&mut self, ends: ServiceEnds) {
        let chassis = self.chassis();
        let ready = &chassis.ready;
        let service = chassis.services.add(ends, |place| ready.waker(Source::Inputs(place)));
        // Polled once, which registers its waker.
        chassis.again.push(Source::Inputs(service));
        self.handle(service, Call::Start);
    }

    /// Ends a service, after the inputs that wait for it; with the last one the node, unless it is
    /// kept. `reply` is notified of the end.
    fn end(&mut self, service: ServicePlace, reply: Option<oneshot::Sender<Stopped>>) {
        let chassis = self.chassis();
        if chassis.kept.strong_count() == 0 && chassis.services.len() <= 1 {
            return self.begin_stop(reply);
        }
        if let Some(machine) = chassis.services.machine(service) {
            machine.close_inputs();
        }
        while let Poll::Ready(count @ 1..) =
            self.chassis().services.poll_inputs(service, INPUTS_MAX)
        {
            (0..count).for_each(|_| self.handle(service, Call::Input));
        }
        let chassis = self.chassis();
        if let Some(number) = chassis.services.remove(service) {
            chassis.common.release(number);
            self.forget((service, number));
        }
        if let Some(reply) = reply {
            // The receiver may have stopped waiting.
            let _ = reply.send(Stopped { abandoned_bytes: 0 });
        }
    }

    /// Calls the same handler of all services.
    fn handle_all(&mut self, call: Call) {
        for service in self.chassis().services.places() {
            self.handle(service, call);
        }
    }

    /// Serves the sources that woke.
    fn turn(&mut self, woken: &mut Vec<Source>);

    /// True if the next turn must follow at once.
    fn has_more(&self) -> bool;

    /// The bytes that the node holds for its peers.
    fn held(&self) -> Held;

    /// Begins to stop; a further caller is notified of the same end.
    fn begin_stop(&mut self, reply: Option<oneshot::Sender<Stopped>>);

    /// True if the kernel has all that the node had to send.
    fn is_flushed(&mut self) -> bool;

    /// Drops the rest.
    fn abandon(&mut self) -> Stopped;

    /// Publishes admission, counts and held bytes to the application.
    fn publish(&mut self) {
        let held = self.held();
        self.chassis().publish(held);
    }

    /// Hands the application's inputs to a service, a turn's share of them.
    fn take_inputs(&mut self, service: ServicePlace) {
        let mut taken = 0;
        while taken < INPUTS_MAX {
            match self.chassis().services.poll_inputs(service, INPUTS_MAX) {
                Poll::Pending => return,
                // Every handle is gone.
                Poll::Ready(0) => return self.end(service, None),
                Poll::Ready(count) => {
                    taken += count;
                    (0..count).for_each(|_| self.handle(service, Call::Input));
                }
            }
        }
        self.chassis().again.push(Source::Inputs(service));
    }
}

/// The base of a driver: its services, the clock, emulated faults, counts.
pub(crate) struct Chassis {
    /// The services.
    pub(crate) services: Services,
    // There while the node must stay without a service.
    kept: Weak<()>,
    gate: EventGate,
    common: Arc<Common>,

    /// The list that sources put themselves on.
    pub(crate) ready: Arc<ReadyList>,
    woken: Vec<Source>,
    /// Sources that the next turn serves, whether they wake or not.
    pub(crate) again: Vec<Source>,
    /// Whether the node continues.
    pub(crate) life: Life,

    clock: Clock,
    /// The time of the latest [`tick`](Chassis::tick).
    pub(crate) now: Instant,
    /// Wakes the driver for its earliest deadline.
    pub(crate) alarm: Alarm,
    /// Random numbers of the driver, apart from those of the protocol.
    pub(crate) rng: Rng,
    emulator: Option<Box<Emulator>>,
    /// Traffic through the sockets.
    pub(crate) traffic: Traffic,
    /// The driver's counters.
    pub(crate) counters: Counters,
}

/// Orders of the application to a driver whose orders are `O`.
pub(crate) struct Controls<O> {
    controls: mpsc::UnboundedReceiver<Control<O>>,
    waker: Waker,
    is_closed: bool,
}

impl<O> Controls<O> {
    /// The next of them.
    pub(crate) fn next(&mut self) -> Option<Control<O>> {
        match self.controls.poll_recv(&mut TaskContext::from_waker(&self.waker)) {
            Poll::Pending => None,
            // Every handle is gone.
            Poll::Ready(None) => {
                (!std::mem::replace(&mut self.is_closed, true)).then_some(Control::StopNode(None))
            }
            Poll::Ready(control) => control,
        }
    }
}

impl Chassis {
    /// A chassis without services, and the application's orders to its driver. `seed` is that of
    /// the node's random numbers.
    pub(crate) fn new<O>(
        ends: DriverEnds<O>,
        node: NodeId,
        seed: u64,
    ) -> io::Result<(Chassis, Controls<O>)> {
        let ready = Arc::new(ReadyList::default());
        ends.gate.set_waker(ready.waker(Source::Events));
        let waker = ready.waker(Source::Controls);
        let controls = Controls { controls: ends.controls, waker, is_closed: false };
        let clock = Clock::start();
        let alarm = Alarm::new(clock, ready.waker(Source::Deadline))?;
        let chassis = Chassis {
            services: Services::default(),
            kept: ends.kept,
            gate: ends.gate,
            common: ends.common,
            ready,
            woken: Vec::new(),
            again: Vec::new(),
            life: Life::Running,
            clock,
            now: clock.now(),
            alarm,
            rng: Rng::new(seed, node.0 ^ 1 << 63),
            emulator: None,
            traffic: Traffic::default(),
            counters: Counters::default(),
        };
        Ok((chassis, controls))
    }

    /// Reads the clock.
    pub(crate) fn tick(&mut self) {
        self.now = self.clock.now();
    }

    fn begin_turn(&mut self, woken: &[Source]) {
        self.traffic.turns += 1;
        self.tick();
        if woken.contains(&Source::Deadline) {
            self.alarm.acknowledge();
        }
    }

    /// Changes the emulated faults. `place` finds the number by which the driver knows a peer, if
    /// it is known.
    pub(crate) fn change_faults(
        &mut self,
        to: Peers,
        faults: LinkFaults,
        place: impl FnOnce(NodeId) -> Option<usize>,
    ) {
        Emulator::change(&mut self.emulator, &mut self.rng, (to, faults), place);
    }

    /// Forgets the emulated faults of a peer that does not return.
    pub(crate) fn forget_faults(&mut self, place: usize) {
        if let Some(emulator) = &mut self.emulator {
            emulator.forget(place);
        }
    }

    /// True while links are emulated.
    pub(crate) fn is_emulating(&self) -> bool {
        self.emulator.is_some()
    }

    /// The fate of the next message to a peer.
    pub(crate) fn draw(&mut self, place: usize, lane: Lane) -> Copies {
        match &mut self.emulator {
            Some(emulator) => emulator.draw(place, lane),
            None => Copies::One(Duration::ZERO),
        }
    }

    /// True while the driver must not read from peers, because the application has not received
    /// the events that they caused.
    pub(crate) fn holds_peers(&mut self) -> bool {
        self.gate.is_holding(&mut self.counters)
    }

    /// Publishes admission, held bytes and counts to the application.
    fn publish(&mut self, held: Held) {
        self.services.publish();
        self.common.stats.publish(self.traffic, held, &mut self.counters);
    }
}

impl Drop for Chassis {
    fn drop(&mut self) {
        self.ready.clear();
    }
}

/// Whether a node continues.
pub(crate) enum Life {
    /// It runs.
    Running,
    /// It flushes what it has to send and then ends.
    Stopping(Vec<oneshot::Sender<Stopped>>),
    /// It ends with this turn.
    Ending(Vec<oneshot::Sender<Stopped>>),
}

impl Life {
    /// Begins to stop; true if it ran until now.
    pub(crate) fn begin_stop(&mut self, reply: Option<oneshot::Sender<Stopped>>) -> bool {
        match self {
            Life::Stopping(replies) | Life::Ending(replies) => {
                replies.extend(reply);
                false
            }
            Life::Running => {
                *self = Life::Stopping(reply.into_iter().collect());
                true
            }
        }
    }

    /// Ends a stop: with this turn the node is gone.
    pub(crate) fn end(&mut self) {
        if let Life::Stopping(replies) = self {
            *self = Life::Ending(std::mem::take(replies));
        }
    }
}

/// A driver as a task.
pub(crate) struct Task(Box<dyn Drive>);

impl Task {
    /// Runs the driver in this runtime until its node has stopped.
    pub(crate) fn spawn(driver: Box<dyn Drive>, runtime: &tokio::runtime::Handle) {
        runtime.spawn(async {
            // The driver is fair by itself: each of its turns is bounded and ends in a yield.
            let ended = tokio::task::unconstrained(Task(driver)).await;
            // The driver is gone by now, and its ports are free.
            ended.notify();
        });
    }
}

impl Future for Task {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Ended> {
        let driver = &mut *self.0;
        let chassis = driver.chassis();
        let mut woken = std::mem::take(&mut chassis.woken);
        woken.append(&mut chassis.again);
        chassis.ready.take(cx.waker(), &mut woken);
        chassis.begin_turn(&woken);
        driver.turn(&mut woken);
        woken.clear();
        driver.chassis().woken = woken;
        driver.publish();
        if matches!(driver.chassis().life, Life::Stopping(_)) && driver.is_flushed() {
            driver.chassis().life.end();
        }
        if let Life::Ending(replies) = &mut driver.chassis().life {
            let replies = std::mem::take(replies);
            return Poll::Ready(Ended { stopped: driver.abandon(), replies });
        }
        if driver.has_more() {
            // Unlike a plain wake-up this lets the runtime look at the sockets first, so that a
            // busy stream does not hide a datagram or a deadline for more than a turn.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
        }
        Poll::Pending
    }
}

/// A node's end, and the receivers to notify of it once the sockets are closed.
pub(crate) struct Ended {
    stopped: Stopped,
    replies: Vec<oneshot::Sender<Stopped>>,
}

impl Ended {
    /// Notifies all who wait for the end.
    fn notify(self) {
        for reply in self.replies {
            // The receiver may have stopped waiting.
            let _ = reply.send(self.stopped);
        }
    }
}
