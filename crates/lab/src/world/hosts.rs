//! Several services on the same nodes, in the simulator.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use paceline_proto::core::{Instant, NodeId, Protocol, ServiceNumber, View};
use paceline_proto::detector;
use paceline_proto::host::{Command, HEAD_BYTES_MAX, Host, HostInput};
use paceline_sim::{Codec, Fault as SimFault, Observer, OfService, Sim, SimConfig};

use super::sim::{Simulation, drive};
use super::typed::{Applications, outcome, traced};
use super::{Outcome, Service, Start, Trial, Workload, sim};
use crate::LabError;
use crate::figure::Figure;
use crate::run::{Metric, RunResult, Sample};
use crate::scenario::Scenario;

/// What a run of a service gives, from what the service and what watched it have noted.
type Judge<S, W> = fn(S, &Trial<'_>, Outcome, W) -> Result<RunResult, LabError>;

/// One of several services on the same nodes, whatever its protocol is.
pub trait HostedService {
    /// The scenario as this service reads it.
    fn scenario(&self) -> &Scenario;

    /// The service.
    fn workload(&self) -> Ref<'_, dyn Workload>;

    /// What gives a host this service.
    fn installer(&self) -> Box<dyn Fn(Host, NodeId) -> Host>;

    /// The run ends once no service is left undone: this one counts itself out.
    fn count_out_of(&mut self, undone: &Rc<Cell<usize>>);

    /// Its applications and what watches them.
    fn observer(&mut self) -> &mut dyn Observer<Host>;

    /// Calls the application of a node at this time.
    fn wake(&mut self, sim: &mut Sim<'_, Host>, at: Instant, node: NodeId);

    /// What a node that starts asks for, and how long after.
    fn begin(&self, node: NodeId, start: Start) -> Option<(Duration, Command)>;

    /// What makes a node leave; none where nodes do not leave.
    fn leave(&self) -> Option<Command>;

    /// A view for this service.
    fn view(&self, view: Arc<View>) -> Command;

    /// Notes what the service has counted until now.
    fn note_mark(&mut self);

    /// What the run gives of this service. `outcome` is that of the whole run.
    ///
    /// # Errors
    /// If the protocol broke a promise.
    fn judge(self: Box<Self>, trial: &Trial<'_>, outcome: Outcome) -> Result<RunResult, LabError>;
}

/// A service of hosts that run several.
pub(crate) struct Hosted<'s, S: Service, W> {
    scenario: &'s Scenario,
    number: ServiceNumber,
    service: Rc<RefCell<S>>,
    seen: OfService<S::Protocol, (Applications<S>, W)>,
    judge: Judge<S, W>,
}

/// The service of this scenario, one of several: what watches it in the simulator, and what judges
/// the run.
pub fn hosted<'s, S: Service, W: Observer<S::Protocol> + 'static>(
    scenario: &'s Scenario,
    service: S,
    watch: W,
    judge: fn(S, &Trial<'_>, Outcome, W) -> Result<RunResult, LabError>,
) -> Box<dyn HostedService + 's> {
    let number = ServiceNumber::of(scenario.service, &scenario.name);
    let shared = Arc::clone(service.shared());
    let service = Rc::new(RefCell::new(service));
    let applications = Applications::new(&service, &Rc::default());
    let seen = OfService::new(number, shared, (applications, watch));
    Box::new(Hosted { scenario, number, service, seen, judge })
}

impl<S: Service, W: Observer<S::Protocol> + 'static> Hosted<'_, S, W> {
    fn command(&self, command: <S::Protocol as Protocol>::Command) -> Command {
        Command::new(self.number, command)
    }
}

impl<S: Service, W: Observer<S::Protocol> + 'static> HostedService for Hosted<'_, S, W> {
    fn scenario(&self) -> &Scenario {
        self.scenario
    }

    fn workload(&self) -> Ref<'_, dyn Workload> {
        self.seen.observer.0.workload()
    }

    fn installer(&self) -> Box<dyn Fn(Host, NodeId) -> Host> {
        let (number, service) = (self.number, Rc::clone(&self.service));
        let weight = self.scenario.weight;
        Box::new(move |host, node| {
            let (service, protocol) = (service.borrow(), service.borrow().protocol(node));
            host.with_weighted_service(number, weight, protocol, Arc::clone(service.shared()))
        })
    }

    fn count_out_of(&mut self, undone: &Rc<Cell<usize>>) {
        self.seen.observer.0.count_out_of(undone);
    }

    fn observer(&mut self) -> &mut dyn Observer<Host> {
        &mut self.seen
    }

    fn wake(&mut self, sim: &mut Sim<'_, Host>, at: Instant, node: NodeId) {
        self.seen.wake_at(sim, at, node);
    }

    fn begin(&self, node: NodeId, start: Start) -> Option<(Duration, Command)> {
        let (after, command) = self.seen.observer.0.begin(node, start)?;
        Some((after, self.command(command)))
    }

    fn leave(&self) -> Option<Command> {
        self.seen.observer.0.leave().map(|command| self.command(command))
    }

    fn view(&self, view: Arc<View>) -> Command {
        Command { service: self.number, input: HostInput::View(view) }
    }

    fn note_mark(&mut self) {
        self.seen.observer.0.note_mark(self.seen.counters());
    }

    fn judge(self: Box<Self>, trial: &Trial<'_>, outcome: Outcome) -> Result<RunResult, LabError> {
        let Hosted { scenario, service, seen, judge, .. } = *self;
        let counters = seen.counters().clone();
        let (applications, watch) = seen.observer;
        drop(applications);
        let service = Rc::into_inner(service).expect("the simulation is gone").into_inner();
        let trial = Trial { scenario, ..*trial };
        judge(service, &trial, Outcome { counters, driver_bytes_per_node: None, ..outcome }, watch)
    }
}

/// Runs services on the same nodes in the simulator. What a run gives of each bears its name.
///
/// # Errors
/// If the trace cannot be written, or a protocol broke a promise.
pub fn simulate_hosts(
    mut services: Vec<Box<dyn HostedService + '_>>,
    trial: &Trial<'_>,
) -> Result<RunResult, LabError> {
    let started = WallClock::now();
    let outcome = traced(trial, &mut (), |trace| run(&mut services, trial, trace))??;
    let mut whole = RunResult {
        events: outcome.events,
        digest: outcome.digest.clone(),
        ..RunResult::default()
    };
    let mut counted_by_service = Vec::new();
    for service in services {
        let name = service.scenario().name.clone();
        let judged = service.judge(trial, outcome.clone());
        let result = judged.map_err(|error| match error {
            LabError::Run(problem) => LabError::Run(format!("service `{name}`: {problem}")),
            error => error,
        })?;
        counted_by_service.extend(result.summary.iter().map(|metric| metric.metric.clone()));
        add(&mut whole, &trial.scenario.name, &name, result);
    }
    if outcome.is_stopped {
        whole.summary.push(Metric::new("stopped_early", 1.0, ""));
    }
    whole.summary.extend(outcome.driver_bytes());
    let network = outcome.counters.sorted().into_iter();
    let network = network.filter(|(name, _)| !counted_by_service.iter().any(|known| known == name));
    whole.summary.extend(network.map(|(name, n)| Metric::new(name, n as f64, "")));
    whole.wall_s = started.elapsed().as_secs_f64();
    Ok(whole)
}

/// Adds what a run of this scenario gave of one service.
fn add(whole: &mut RunResult, scenario: &str, name: &str, result: RunResult) {
    let named = |metric: &str| format!("{name}.{metric}");
    let metric = |metric: Metric| Metric { metric: named(&metric.metric).into(), ..metric };
    whole.summary.extend(result.summary.into_iter().map(metric));
    let sample = |sample: Sample| Sample { metric: named(&sample.metric).into(), ..sample };
    whole.series.extend(result.series.into_iter().map(sample));
    let figure = |figure: Figure| Figure { id: named(&figure.id), ..figure };
    let figures = result.figures.into_iter().map(figure);
    whole.figures.extend(figures.map(|figure| Figure { scenario: scenario.to_owned(), ..figure }));
    whole.drawings.extend(result.drawings);
    if let Some(delivered) = result.deliveries {
        let all = whole.deliveries.get_or_insert_default();
        let separator = if all.is_empty() { "" } else { " " };
        all.push_str(&format!("{separator}{}", named(&delivered)));
    }
    whole.starved.extend(result.starved);
    whole.starved.sort_unstable();
    whole.starved.dedup();
}

fn run(
    services: &mut [Box<dyn HostedService + '_>],
    trial: &Trial<'_>,
    trace: &mut dyn Observer<Host>,
) -> Result<Outcome, LabError> {
    let detector = detector(services)?;
    let undone = Rc::new(Cell::new(services.len()));
    services.iter_mut().for_each(|service| service.count_out_of(&undone));
    let installers: Vec<_> = services.iter().map(|service| service.installer()).collect();
    let config = config(services, trial);
    let link = config.network.link_rate();
    let make = move |node| {
        let host = Host::new(detector.clone()).with_link_rate(link);
        installers.iter().fold(host, |host, add| add(host, node))
    };
    let sim = Sim::new(config, Arc::new(()), make);
    let mut simulated = Hosts { sim, services, trace };
    Ok(drive(&mut simulated, trial))
}

/// The configuration of the failure detector that the services of a host share.
fn detector(services: &[Box<dyn HostedService + '_>]) -> Result<detector::Config, LabError> {
    let mut wanted = services.iter().filter_map(|service| {
        let detector = service.workload().detector()?;
        Some((service, detector))
    });
    let Some((_, first)) = wanted.next() else { return Ok(detector::Config::default()) };
    match wanted.find_map(|(service, other)| (other != first).then_some(service)) {
        None => Ok(first),
        Some(other) => {
            let problem = "a host has one failure detector, which another [[service]] configures \
                           otherwise";
            let expected = "`probe_every`, `probe_trip` and `suspect_for` alike in all services";
            Err(other.scenario().protocol().error("kind", problem, expected))
        }
    }
}

fn config(services: &[Box<dyn HostedService + '_>], trial: &Trial<'_>) -> SimConfig {
    let mut codecs = services.iter().map(|service| service.workload().codec());
    let codec = codecs.find(|&codec| codec == Codec::CheckWire);
    let mut config = sim::config(trial);
    config.codec = codec.unwrap_or_default();
    // So that each service has as much as the scenario says.
    config.datagram_bytes_max += HEAD_BYTES_MAX;
    config
}

struct Hosts<'a, 'r, 's> {
    sim: Sim<'a, Host>,
    services: &'r mut [Box<dyn HostedService + 's>],
    trace: &'r mut dyn Observer<Host>,
}

impl Simulation for Hosts<'_, '_, '_> {
    fn services(&self) -> Vec<Ref<'_, dyn Workload>> {
        self.services.iter().map(|service| service.workload()).collect()
    }

    fn install_view(&mut self, service: usize, node: NodeId, view: Arc<View>) {
        self.sim.command_at(Instant::ZERO, node, self.services[service].view(view));
    }

    fn begin(&mut self, at: Instant, node: NodeId, start: Start) {
        for service in &*self.services {
            if let Some((after, command)) = service.begin(node, start) {
                self.sim.command_at(at + after, node, command);
            }
        }
    }

    fn leave(&mut self, at: Instant, node: NodeId) {
        for command in self.services.iter().filter_map(|service| service.leave()) {
            self.sim.command_at(at, node, command);
        }
    }

    fn fault(&mut self, at: Instant, fault: SimFault) {
        self.sim.fault_at(at, fault);
    }

    fn wake(&mut self, service: usize, at: Instant, node: NodeId) {
        self.services[service].wake(&mut self.sim, at, node);
    }

    fn note_mark(&mut self, service: usize) {
        self.services[service].note_mark();
    }

    fn run_until(&mut self, until: Instant) {
        let first: Box<dyn Observer<Host> + '_> = Box::new(&mut *self.trace);
        let mut all = self
            .services
            .iter_mut()
            .fold(first, |all, service| Box::new((all, service.observer())));
        self.sim.run_until(until, &mut *all);
    }

    fn has_events(&self) -> bool {
        self.sim.events_pending() > 0
    }

    fn outcome(&self) -> Outcome {
        outcome(&self.sim)
    }
}
