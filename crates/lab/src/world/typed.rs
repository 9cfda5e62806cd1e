//! The code that is compiled for each protocol: commands and events do not leave this file.

use std::cell::{Cell, Ref, RefCell};
use std::fmt::{Debug, Display};
use std::fs::File;
use std::io::BufWriter;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_net::{Bound, Closed, EmulateChange, Events, Node, StartError};
use paceline_proto::core::{Counters, Instant, NodeId, Protocol, View};
use paceline_sim::{Fault as SimFault, Observer, Reply, Sim, Trace};

use super::control::Prepared;
use super::node::{Clock, Hosting, NodeEvents, Order, Pending, RunningNode, Started};
use super::sim::{Simulation, Work, drive};
use super::{
    Answer, Launch, Outcome, Service, Sockets, Start, Trial, Workload, World, lock, node_command,
    run_processes, sim, sockets,
};
use crate::LabError;

/// Runs a service in the simulator, seeing `observer` (a checker, or `()`) along the way, and
/// writes a trace of it to a file if the trial wants one. Gives it back with what it noted.
///
/// # Errors
/// If the trace cannot be written.
pub fn simulate<S: Service>(
    service: S,
    trial: &Trial<'_>,
    observer: &mut dyn Observer<S::Protocol>,
) -> Result<(S, Outcome), LabError> {
    traced(trial, observer, |observer| simulate_seen(service, trial, observer))
}

/// Runs a simulation whose observer also writes a trace, if the trial wants one.
pub(super) fn traced<P: Protocol<Message: Display, Timer: Debug>, T>(
    trial: &Trial<'_>,
    observer: &mut dyn Observer<P>,
    run: impl FnOnce(&mut dyn Observer<P>) -> T,
) -> Result<T, LabError> {
    let World::Simulator { trace: Some(path) } = trial.world else { return Ok(run(observer)) };
    let file = File::create(path).map_err(LabError::write(path))?;
    let mut observers = (Trace::new(BufWriter::new(file)), observer);
    let result = run(&mut observers);
    observers.0.finish().map_err(LabError::write(path))?;
    Ok(result)
}

fn simulate_seen<S: Service>(
    service: S,
    trial: &Trial<'_>,
    observer: &mut dyn Observer<S::Protocol>,
) -> (S, Outcome) {
    let (config, shared) = (sim::config_of(&service, trial), service.shared().clone());
    // The simulator makes protocols, also after a restart, while the applications note.
    let service = Rc::new(RefCell::new(service));
    let made = Rc::clone(&service);
    let sim = Sim::new(config, shared, move |node| made.borrow().protocol(node));
    let applications = Applications::new(&service, &Rc::new(Cell::new(1)));
    let mut simulated = Simulated { sim, observers: (applications, observer) };
    let outcome = drive(&mut simulated, trial);
    drop(simulated);
    let service = Rc::into_inner(service).expect("the simulation is gone");
    (service.into_inner(), outcome)
}

/// Runs a service on sockets, and gives it back with what it noted.
///
/// # Errors
/// If the scenario needs another world, or a node cannot be started or ends early.
pub fn run_on_sockets<S: Service>(
    mut service: S,
    trial: &Trial<'_>,
) -> Result<(S, Outcome), LabError> {
    let outcome = match trial.world {
        World::Processes(launch) => run_processes(&mut service, trial, launch)?,
        World::Loopback { program: Some(program) } => {
            let command = |_| node_command(program);
            let launch = Launch { command: &command, sockets: &|_| Sockets::default() };
            run_processes(&mut service, trial, &launch)?
        }
        _ => {
            let service = Arc::new(Mutex::new(service));
            let outcome = sockets::run(Hosting::new(&service), trial)?;
            let service = Arc::into_inner(service).expect("no task outlives its runtime");
            return Ok((service.into_inner().unwrap_or_else(PoisonError::into_inner), outcome));
        }
    };
    Ok((service, outcome))
}

/// Runs one node of a service as the parent process says, and reports to it, also if the service
/// could not be read.
///
/// # Errors
/// The errors that are also reported to the parent.
pub fn serve<S: Service>(prepared: Prepared, service: Result<S, LabError>) -> Result<(), LabError> {
    prepared.serve(service.map(|service| Hosting::new(&Arc::new(Mutex::new(service)))))
}

struct Simulated<'a, S: Service> {
    sim: Sim<'a, S::Protocol>,
    observers: (Applications<S>, &'a mut dyn Observer<S::Protocol>),
}

impl<S: Service> Simulation for Simulated<'_, S> {
    fn services(&self) -> Vec<Ref<'_, dyn Workload>> {
        vec![self.observers.0.workload()]
    }

    fn install_view(&mut self, _: usize, node: NodeId, view: Arc<View>) {
        self.sim.view_at(Instant::ZERO, node, view);
    }

    fn begin(&mut self, at: Instant, node: NodeId, start: Start) {
        if let Some((after, command)) = self.observers.0.begin(node, start) {
            self.sim.command_at(at + after, node, command);
        }
    }

    fn leave(&mut self, at: Instant, node: NodeId) {
        if let Some(command) = self.observers.0.leave() {
            self.sim.command_at(at, node, command);
        }
    }

    fn fault(&mut self, at: Instant, fault: SimFault) {
        self.sim.fault_at(at, fault);
    }

    fn wake(&mut self, _: usize, at: Instant, node: NodeId) {
        self.sim.wake_at(at, node);
    }

    fn note_mark(&mut self, _: usize) {
        self.observers.0.note_mark(self.sim.counters());
    }

    fn run_until(&mut self, until: Instant) {
        self.sim.run_until(until, &mut self.observers);
    }

    fn has_events(&self) -> bool {
        self.sim.events_pending() > 0
    }

    fn outcome(&self) -> Outcome {
        outcome(&self.sim)
    }
}

/// How a simulation went until now.
pub(super) fn outcome<P: Protocol>(sim: &Sim<'_, P>) -> Outcome {
    Outcome {
        is_stopped: false,
        ended: sim.now(),
        events: sim.events_handled(),
        digest: Some(sim.digest().to_string()),
        counters: sim.counters().clone(),
        driver_bytes_per_node: Some(sim.driver_bytes_per_node()),
        cpu: None,
    }
}

/// The applications of all nodes: they submit what is due as they find room.
pub(super) struct Applications<S: Service> {
    service: Rc<RefCell<S>>,
    work: Work,
    answers: Vec<Answer<S>>,
    // How many services of the run are not done; the run ends when none is left.
    undone: Rc<Cell<usize>>,
    is_done: bool,
}

impl<S: Service> Applications<S> {
    /// The applications of this service, one of those that are not done yet.
    pub(super) fn new(service: &Rc<RefCell<S>>, undone: &Rc<Cell<usize>>) -> Applications<S> {
        let work = Work::of_all(&*service.borrow());
        let (service, undone) = (Rc::clone(service), Rc::clone(undone));
        Applications { service, work, answers: Vec::new(), undone, is_done: false }
    }

    /// It is one of the services that these count.
    pub(super) fn count_out_of(&mut self, undone: &Rc<Cell<usize>>) {
        self.undone = Rc::clone(undone);
    }

    pub(super) fn workload(&self) -> Ref<'_, dyn Workload> {
        Ref::map(self.service.borrow(), |service| service as &dyn Workload)
    }

    pub(super) fn begin(&self, node: NodeId, start: Start) -> Option<Answer<S>> {
        self.service.borrow().begin(node, start)
    }

    pub(super) fn leave(&self) -> Option<<S::Protocol as Protocol>::Command> {
        self.service.borrow().leave()
    }

    pub(super) fn note_mark(&self, counters: &Counters) {
        self.service.borrow_mut().note_mark(counters);
    }

    fn pump(
        &mut self,
        at: Instant,
        node: NodeId,
        protocol: &S::Protocol,
        reply: &mut Reply<S::Protocol>,
    ) {
        let Some(number) = self.work.number_due(node, at) else { return };
        let mut service = self.service.borrow_mut();
        if service.is_ready(node) && protocol.admission() > 0 {
            reply.submit(service.submit(at, node, number));
            if let Some(next) = self.work.submitted(&*service, node).filter(|&next| next > at) {
                reply.wake(next - at, node);
            }
        }
    }
}

impl<S: Service> Observer<S::Protocol> for Applications<S> {
    fn on_event(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &<S::Protocol as Protocol>::Event,
        reply: &mut Reply<S::Protocol>,
    ) {
        let mut service = self.service.borrow_mut();
        service.observe(at, node, event, &mut self.answers);
        for (after, command) in self.answers.drain(..) {
            reply.command(after, node, command);
        }
        if service.is_done() {
            if !std::mem::replace(&mut self.is_done, true) {
                self.undone.set(self.undone.get() - 1);
            }
            if self.undone.get() == 0 {
                reply.stop();
            }
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &SimFault) {
        if let SimFault::Restart(node) = fault {
            self.work.restarted(&*self.service.borrow(), *node, at);
        }
    }

    fn after_call(
        &mut self,
        at: Instant,
        node: NodeId,
        protocol: &S::Protocol,
        reply: &mut Reply<S::Protocol>,
    ) {
        self.pump(at, node, protocol, reply);
    }

    fn on_wake(
        &mut self,
        at: Instant,
        node: NodeId,
        protocol: &S::Protocol,
        reply: &mut Reply<S::Protocol>,
    ) {
        self.pump(at, node, protocol, reply);
    }
}

impl Hosting {
    pub(super) fn new<S: Service>(service: &Arc<Mutex<S>>) -> Hosting {
        let typed = Arc::clone(service);
        let start = move |id, bound: Bound, roster| -> Result<Started, StartError> {
            let (protocol, shared) = {
                let service = lock(&typed);
                (service.protocol(id), service.shared().clone())
            };
            let (node, events) = bound.start(roster, protocol, shared)?;
            let service = Arc::clone(&typed);
            let node = TypedNode { service, id, node };
            let (batch, answers) = (Vec::with_capacity(EVENTS_TOGETHER), Vec::new());
            let events = TypedEvents { node: node.clone(), events, batch, answers };
            Ok((Arc::new(node), Box::new(events)))
        };
        Hosting { service: Arc::clone(service) as Arc<Mutex<dyn Workload>>, start: Box::new(start) }
    }
}

/// Events that are taken from the node together.
const EVENTS_TOGETHER: usize = 256;

struct TypedNode<S: Service> {
    service: Arc<Mutex<S>>,
    id: NodeId,
    node: Node<S::Protocol>,
}

impl<S: Service> Clone for TypedNode<S> {
    fn clone(&self) -> Self {
        TypedNode { service: self.service.clone(), id: self.id, node: self.node.clone() }
    }
}

impl<S: Service> TypedNode<S> {
    fn order(&self, command: <S::Protocol as Protocol>::Command) -> Order {
        let node = self.node.clone();
        Box::new(move || node.command(command))
    }
}

impl<S: Service> RunningNode for TypedNode<S> {
    fn begin(&self, start: Start) -> Option<(Duration, Order)> {
        let (after, command) = lock(&self.service).begin(self.id, start)?;
        Some((after, self.order(command)))
    }

    fn leave(&self) -> Option<Order> {
        let command = lock(&self.service).leave()?;
        Some(self.order(command))
    }

    fn submit(&self, clock: Clock, number: u64, bytes: usize) -> Pending<'_, Result<(), Closed>> {
        let make = move || {
            let now = clock.now();
            lock(&self.service).submit(now, self.id, number)
        };
        Box::pin(self.node.submit_with(bytes, make))
    }

    fn install_view(&self, view: Arc<View>) -> Result<(), Closed> {
        self.node.install_view(view)
    }

    fn emulate(&self, change: EmulateChange) -> Result<(), Closed> {
        self.node.emulate(change)
    }

    fn counters(&self) -> Counters {
        self.node.stats().counters
    }

    fn datagram_receive_bytes(&self) -> usize {
        self.node.datagram_receive_bytes()
    }

    fn stop(&self) -> Pending<'_, ()> {
        Box::pin(async {
            let _ = self.node.stop().await;
        })
    }
}

struct TypedEvents<S: Service> {
    node: TypedNode<S>,
    events: Events<S::Protocol>,
    batch: Vec<<S::Protocol as Protocol>::Event>,
    // The next one is the last.
    answers: Vec<Answer<S>>,
}

impl<S: Service> NodeEvents for TypedEvents<S> {
    fn note(&mut self, clock: Clock) -> Pending<'_, Option<bool>> {
        Box::pin(async move {
            if self.events.recv_many(&mut self.batch, EVENTS_TOGETHER).await == 0 {
                return None;
            }
            let id = self.node.id;
            let mut service = lock(&self.node.service);
            for event in self.batch.drain(..) {
                let now = clock.now();
                service.observe(now, id, &event, &mut self.answers);
            }
            self.answers.reverse();
            Some(service.is_done_at(id))
        })
    }

    fn answer_after(&self) -> Option<Duration> {
        self.answers.last().map(|(after, _)| *after)
    }

    fn answer(&mut self) -> Result<(), Closed> {
        match self.answers.pop() {
            Some((_, command)) => self.node.node.command(command),
            None => Ok(()),
        }
    }
}
