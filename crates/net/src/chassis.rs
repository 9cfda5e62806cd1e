//! What every driver is built on: its protocol, the application's queues, and the task.
//!
//! Each poll of the task is a *turn*: take the sources that woke, let the driver serve them, and
//! publish. A source that has more is put on the list of the next turn, and the task yields in
//! between. A node at rest is not polled at all.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use paceline_proto::core::{Backlog, Context, Counters, Instant, NodeId, Outbox, Rng};
use tokio::sync::{mpsc, oneshot};

use crate::events::EventSender;
use crate::handle::{Common, Control, Ends, Hosted, Input, Stopped};
use crate::ready::{ReadyList, Source};
use crate::stats::{Held, Traffic};

/// Inputs handled in a turn.
const INPUTS_MAX: usize = 128;

/// A driver: what a task runs, turn by turn.
pub(crate) trait Drive: Unpin {
    /// What it drives.
    type Protocol: Hosted;
    /// What the application may tell it.
    type Order;

    /// What it is built on.
    fn chassis(&mut self) -> &mut Chassis<Self::Protocol, Self::Order>;

    /// Calls a handler and carries out what it asked for.
    fn handle(&mut self, call: impl FnOnce(&mut Self::Protocol, &mut Context<'_, Self::Protocol>));

    /// Serves the sources that woke.
    fn turn(&mut self, woken: &mut Vec<Source>);

    /// Sources that the next turn is to serve, whether they wake or not.
    fn again(&mut self) -> &mut Vec<Source>;

    /// True if the next turn is to follow at once.
    fn has_more(&self) -> bool;

    /// Publishes what the application may know.
    fn publish(&mut self);

    /// Begins to stop, or lets one more know when it has.
    fn begin_stop(&mut self, reply: Option<oneshot::Sender<Stopped>>);

    /// True if all that was to be sent is with the kernel.
    fn is_flushed(&mut self) -> bool;

    /// Gives up what is not.
    fn abandon(&mut self) -> Stopped;

    /// Hands the protocol what the application has sent, a turn's share of it.
    fn take_inputs(&mut self) {
        let mut batch = std::mem::take(&mut self.chassis().input_batch);
        let mut taken = 0;
        while taken < INPUTS_MAX {
            match self.chassis().poll_inputs(&mut batch) {
                Poll::Pending => break,
                // Every handle is gone.
                Poll::Ready(0) => {
                    self.begin_stop(None);
                    break;
                }
                Poll::Ready(count) => taken += count,
            }
            for input in batch.drain(..) {
                self.chassis().handled_bytes += input.bytes() as u64;
                self.handle(|protocol, cx| input.call(protocol, cx));
            }
        }
        if taken >= INPUTS_MAX {
            self.again().push(Source::Inputs);
        }
        self.chassis().input_batch = batch;
    }
}

/// A protocol, and what the application has of it.
pub(crate) struct Chassis<P: Hosted, O> {
    protocol: P,
    shared: Arc<P::Shared>,
    node: NodeId,
    incarnation: u64,
    rng: Rng,
    /// What the last handler asked for.
    pub(crate) outbox: Outbox<P>,

    inputs: mpsc::UnboundedReceiver<Input<P>>,
    inputs_waker: Waker,
    input_batch: Vec<Input<P>>,
    handled_bytes: u64,
    controls: mpsc::UnboundedReceiver<Control<O>>,
    controls_waker: Waker,
    events: EventSender<P>,
    common: Arc<Common>,

    /// The list that sources put themselves on.
    pub(crate) ready: Arc<ReadyList>,
    woken: Vec<Source>,
    /// Whether the node is to go on.
    pub(crate) life: Life,
}

/// Whom a driver is built for.
pub(crate) struct Crew<P: Hosted> {
    /// The protocol.
    pub(crate) protocol: P,
    /// What all nodes may read.
    pub(crate) shared: Arc<P::Shared>,
    /// The node as the protocol knows it.
    pub(crate) node: NodeId,
    /// Its incarnation.
    pub(crate) incarnation: u64,
    /// Seed of its random numbers.
    pub(crate) seed: u64,
}

impl<P: Hosted, O> Chassis<P, O> {
    /// A protocol that has not been started.
    pub(crate) fn new(crew: Crew<P>, ends: Ends<P, O>) -> Chassis<P, O> {
        let ready = Arc::new(ReadyList::default());
        ends.events.set_waker(ready.waker(Source::Events));
        Chassis {
            protocol: crew.protocol,
            shared: crew.shared,
            node: crew.node,
            incarnation: crew.incarnation,
            rng: Rng::new(crew.seed, u64::from(crew.node.0)),
            outbox: Outbox::default(),
            inputs: ends.inputs,
            inputs_waker: ready.waker(Source::Inputs),
            input_batch: Vec::new(),
            handled_bytes: 0,
            controls: ends.controls,
            controls_waker: ready.waker(Source::Controls),
            events: ends.events,
            common: ends.common,
            ready,
            woken: Vec::new(),
            life: Life::Running,
        }
    }

    /// Calls a handler, which writes into the outbox.
    pub(crate) fn call(
        &mut self,
        now: Instant,
        backlog: &dyn Backlog,
        datagram_bytes_max: usize,
        call: impl FnOnce(&mut P, &mut Context<'_, P>),
    ) {
        let mut cx = Context {
            now,
            node: self.node,
            incarnation: self.incarnation,
            shared: &*self.shared,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog,
            datagram_bytes_max,
        };
        call(&mut self.protocol, &mut cx);
    }

    /// Passes the events in the outbox on.
    pub(crate) fn tell_events(&mut self, counters: &mut Counters) {
        self.events.send_all(self.outbox.events.drain(..), counters);
    }

    /// True while the driver must not read from peers, because the application has not received
    /// the events that they caused.
    pub(crate) fn holds_peers(&mut self, counters: &mut Counters) -> bool {
        self.events.is_holding(counters)
    }

    /// What the application tells the driver next.
    pub(crate) fn next_control(&mut self) -> Option<Control<O>> {
        let mut cx = TaskContext::from_waker(&self.controls_waker);
        match self.controls.poll_recv(&mut cx) {
            // The end of the inputs is what counts.
            Poll::Ready(None) | Poll::Pending => None,
            Poll::Ready(control) => control,
        }
    }

    /// How many commands and views wait for the protocol.
    pub(crate) fn inputs_waiting(&self) -> usize {
        self.inputs.len()
    }

    fn poll_inputs(&mut self, batch: &mut Vec<Input<P>>) -> Poll<usize> {
        let mut cx = TaskContext::from_waker(&self.inputs_waker);
        self.inputs.poll_recv_many(&mut cx, batch, INPUTS_MAX)
    }

    /// Lets the application know what is admitted, what is held and what was counted.
    pub(crate) fn publish(&mut self, traffic: Traffic, held: Held, counters: &mut Counters) {
        let limit = self.handled_bytes.saturating_add(self.protocol.admission() as u64);
        self.common.admission.set_limit(limit);
        self.common.stats.publish(traffic, held, [&mut self.outbox.counters, counters]);
    }
}

impl<P: Hosted, O> Drop for Chassis<P, O> {
    fn drop(&mut self) {
        // Who waits for admission is let through, to find the inputs closed.
        self.inputs.close();
        self.common.admission.set_limit(u64::MAX);
        self.ready.clear();
    }
}

/// Whether a node is to go on.
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
pub(crate) struct Task<D>(D);

impl<D: Drive + Send + 'static> Task<D> {
    /// Runs the driver in this runtime until its node has stopped.
    pub(crate) fn spawn(driver: D, runtime: &tokio::runtime::Handle) {
        runtime.spawn(async {
            // Fairness is the driver's own: each of its turns is bounded and ends in a yield.
            let ended = tokio::task::unconstrained(Task(driver)).await;
            // The driver is gone by now, and its ports are free.
            ended.tell();
        });
    }
}

impl<D: Drive> Future for Task<D> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Ended> {
        let driver = &mut self.0;
        let mut woken = std::mem::take(&mut driver.chassis().woken);
        woken.append(driver.again());
        driver.chassis().ready.take(cx.waker(), &mut woken);
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

/// A node's end, and who waits to hear of it. To be told once the sockets are closed.
pub(crate) struct Ended {
    stopped: Stopped,
    replies: Vec<oneshot::Sender<Stopped>>,
}

impl Ended {
    /// Tells whoever waits.
    fn tell(self) {
        for reply in self.replies {
            // Whoever asked may have stopped waiting.
            let _ = reply.send(self.stopped);
        }
    }
}
