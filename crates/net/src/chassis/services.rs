//! The services of a node: their machines, and what each shares with its handles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use paceline_proto::core::{CounterId, Counters, NodeId, ServiceNumber};
use paceline_proto::host::{self, ServicePlace};

use crate::admission::Admission;
use crate::chassis::machine::QueuedMachine;
use crate::departure::Departure;
use crate::description::{Mismatch, PeerMismatch, ServiceDescription};

/// The place of a node's first service.
pub(crate) const FIRST: ServicePlace = host::Services::<()>::FIRST;

/// Most peers of which a service remembers that they do not run it.
const MISMATCHES_MAX: usize = 64;

/// State that a driver shares with the handles of a service.
#[derive(Debug, Default)]
pub(crate) struct ServiceShared {
    pub(crate) admission: Admission,
    // What the protocol has counted, at the end of the last turn that called it.
    counters: Mutex<Counters>,
    // Peers that answered, and do not run the same service.
    mismatches: Mutex<BTreeMap<NodeId, PeerMismatch>>,
    pub(crate) departure: Arc<Departure>,
}

impl ServiceShared {
    /// What the protocol has counted.
    pub(crate) fn counters(&self) -> Counters {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The peers that do not run the same service.
    pub(crate) fn mismatches(&self) -> Vec<PeerMismatch> {
        let known = self.mismatches.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().cloned().collect()
    }

    /// Notes that a peer does not run the same service. That it runs another one of this name says
    /// more than that it runs none.
    pub(crate) fn note_mismatch(&self, news: PeerMismatch) {
        let mut known = self.mismatches.lock().unwrap_or_else(PoisonError::into_inner);
        let says_less = news.mismatch == Mismatch::NotRun && known.contains_key(&news.node);
        if !says_less && (known.len() < MISMATCHES_MAX || known.contains_key(&news.node)) {
            known.insert(news.node, news);
        }
    }

    fn add(&self, counted: &mut Counters) {
        if !counted.is_empty() {
            counted.drain_into(&mut self.counters.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// The driver's end of a service.
pub struct ServiceEnds {
    pub(crate) number: ServiceNumber,
    pub(crate) description: Option<ServiceDescription>,
    pub(crate) machine: Box<dyn QueuedMachine>,
    pub(crate) shared: Arc<ServiceShared>,
}

struct Service {
    number: ServiceNumber,
    // How peers know it.
    description: Option<ServiceDescription>,
    // Absent only during a call, and while its requests are carried out.
    machine: Option<Box<dyn QueuedMachine>>,
    shared: Arc<ServiceShared>,
    inputs_waker: Waker,
    // It is on the list of those that were called.
    is_called: bool,
}

/// The services of a node.
#[derive(Default)]
pub(crate) struct Services {
    table: host::Services<Service>,
    // Those that were called since they were last published.
    called: Vec<ServicePlace>,
}

const NO_CALL: &str = "no call is made while the requests of another are carried out";

impl Services {
    /// Adds a service; `waker` makes the waker of its inputs. Its number is that of no other one.
    pub(crate) fn add(
        &mut self,
        ends: ServiceEnds,
        waker: impl FnOnce(ServicePlace) -> Waker,
    ) -> ServicePlace {
        let ServiceEnds { number, description, machine, shared } = ends;
        let (machine, inputs_waker) = (Some(machine), Waker::noop().clone());
        let is_called = false;
        let service = Service { number, description, machine, shared, inputs_waker, is_called };
        let place = self.table.add(number, service);
        if let Some(service) = self.table.get_mut(place) {
            service.inputs_waker = waker(place);
        }
        place
    }

    /// Ends a service: its handles find it closed. Returns its number.
    pub(crate) fn remove(&mut self, place: ServicePlace) -> Option<ServiceNumber> {
        self.publish();
        self.table.remove(place).map(|(number, _)| number)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The places of all services, by number.
    pub(crate) fn places(&self) -> Vec<ServicePlace> {
        self.table.places().iter().map(|&(_, place)| place).collect()
    }

    /// The place of the service of this number.
    pub(crate) fn find(&self, number: ServiceNumber) -> Option<ServicePlace> {
        self.table.find(number)
    }

    /// How peers know the service of this number.
    pub(crate) fn description(&self, number: ServiceNumber) -> Option<&ServiceDescription> {
        self.table.get(self.find(number)?)?.description.as_ref()
    }

    /// How peers know the services.
    pub(crate) fn descriptions(&self) -> impl Iterator<Item = &ServiceDescription> {
        self.table.iter().filter_map(|service| service.description.as_ref())
    }

    /// Notes that a peer does not run the service of this number.
    pub(crate) fn note_mismatch(&self, number: ServiceNumber, news: PeerMismatch) {
        if let Some(service) = self.find(number).and_then(|place| self.table.get(place)) {
            service.shared.note_mismatch(news);
        }
    }

    /// Takes the machine of a service out for a call, so that the driver is free for its requests;
    /// with it the service's number. `None` if the service has ended.
    pub(crate) fn take(
        &mut self,
        place: ServicePlace,
    ) -> Option<(Box<dyn QueuedMachine>, ServiceNumber)> {
        let service = self.table.get_mut(place)?;
        let taken = (service.machine.take().expect(NO_CALL), service.number);
        self.note_called(place);
        Some(taken)
    }

    fn note_called(&mut self, place: ServicePlace) {
        if let Some(service) = self.table.get_mut(place)
            && !std::mem::replace(&mut service.is_called, true)
        {
            self.called.push(place);
        }
    }

    /// Counts for a service, outside of a call, if it has not ended.
    pub(crate) fn count(&mut self, number: ServiceNumber, counter: CounterId, n: u64) {
        let Some(place) = self.find(number) else { return };
        let Some(machine) = self.machine(place) else { return };
        machine.counters().add(counter, n);
        self.note_called(place);
    }

    /// Puts a machine back after a call.
    pub(crate) fn put(&mut self, place: ServicePlace, machine: Box<dyn QueuedMachine>) {
        if let Some(service) = self.table.get_mut(place) {
            service.machine = Some(machine);
        }
    }

    /// The machine of a service; `None` if the service has ended.
    pub(crate) fn machine(&mut self, place: ServicePlace) -> Option<&mut Box<dyn QueuedMachine>> {
        self.table.get_mut(place).map(|service| service.machine.as_mut().expect(NO_CALL))
    }

    /// Takes up to `at_most` inputs of a service.
    pub(crate) fn poll_inputs(&mut self, place: ServicePlace, at_most: usize) -> Poll<usize> {
        let Some(service) = self.table.get_mut(place) else { return Poll::Pending };
        let cx = &mut TaskContext::from_waker(&service.inputs_waker);
        service.machine.as_mut().expect(NO_CALL).poll_inputs(cx, at_most)
    }

    /// How many commands and views wait for the protocols.
    pub(crate) fn inputs_waiting(&self) -> usize {
        let machines = self.table.iter().filter_map(|service| service.machine.as_ref());
        machines.map(|machine| machine.inputs_waiting()).sum()
    }

    /// Publishes admission and counters of the services that were called.
    pub(crate) fn publish(&mut self) {
        let mut called = std::mem::take(&mut self.called);
        for place in called.drain(..) {
            let Some(service) = self.table.get_mut(place) else { continue };
            service.is_called = false;
            let machine = service.machine.as_mut().expect(NO_CALL);
            service.shared.admission.set_limit(machine.admitted_bytes());
            service.shared.add(machine.counters());
        }
        self.called = called;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Submitters that wait for admission wake, and find the inputs closed.
        self.machine = None;
        self.shared.admission.set_limit(u64::MAX);
        self.shared.departure.note_ended();
    }
}
