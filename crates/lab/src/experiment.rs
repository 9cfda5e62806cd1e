//! An experiment: a scenario is read, runs in either world, and is judged.

use std::time::Instant as WallClock;

use paceline_sim::Observer;

use crate::LabError;
use crate::figure::Figure;
use crate::run::{RunResult, WorldKind};
use crate::scenario::Scenario;
use crate::world::{
    self, HostedService, Outcome, Prepared, Service, Trial, World, run_on_sockets, simulate,
};

/// A service of which scenarios can be run and judged.
pub trait Experiment: Service {
    /// What only the simulator sees of a run; `()` for nothing.
    type Watch: Observer<Self::Protocol> + 'static;
    /// What a run measured.
    type Measured;

    /// Reads a scenario to run it in this world.
    ///
    /// # Errors
    /// If a key or value is wrong, or the scenario needs the other world.
    fn prepare(scenario: &Scenario, seed: u64, world: WorldKind) -> Result<Self, LabError>;

    /// A watch that has seen nothing yet.
    fn watch(&self) -> Self::Watch;

    /// What a run measured that has ended. There is a watch in the simulator only.
    ///
    /// # Errors
    /// If the protocol broke a promise.
    fn judge(
        self,
        trial: &Trial<'_>,
        outcome: Outcome,
        watch: Option<Self::Watch>,
    ) -> Result<Self::Measured, LabError>;

    /// What a run gives, but for figures and the time that it took.
    fn result(trial: &Trial<'_>, measured: &Self::Measured) -> Result<RunResult, LabError>;

    /// The figures that the scenario asks for.
    fn figures(trial: &Trial<'_>, measured: &Self::Measured) -> Result<Vec<Figure>, LabError>;

    /// Runs it in the simulator.
    ///
    /// # Errors
    /// If the trace cannot be written, or the protocol broke a promise.
    fn measure_simulated(self, trial: &Trial<'_>) -> Result<Self::Measured, LabError> {
        let mut watch = self.watch();
        let (service, outcome) = simulate(self, trial, &mut watch)?;
        service.judge(trial, outcome, Some(watch))
    }

    /// Runs it on sockets.
    ///
    /// # Errors
    /// If nodes cannot be started or end early, or the protocol broke a promise.
    fn measure_on_sockets(self, trial: &Trial<'_>) -> Result<Self::Measured, LabError> {
        let (service, outcome) = run_on_sockets(self, trial)?;
        service.judge(trial, outcome, None)
    }

    /// Reads a scenario and runs it, in whichever world the trial is for.
    ///
    /// # Errors
    /// Those of [`Experiment::prepare`] and of the world.
    fn measure(trial: &Trial<'_>) -> Result<Self::Measured, LabError> {
        let service = Self::prepare(trial.scenario, trial.seed, trial.kind())?;
        match trial.world {
            World::Simulator { .. } => service.measure_simulated(trial),
            World::Loopback { .. } | World::Processes(_) => service.measure_on_sockets(trial),
        }
    }

    /// Reads the scenario of one of several services on the same nodes, in the simulator.
    ///
    /// # Errors
    /// Those of [`Experiment::prepare`].
    fn hosted(scenario: &Scenario, seed: u64) -> Result<Box<dyn HostedService + '_>, LabError> {
        let service = Self::prepare(scenario, seed, WorldKind::Sim)?;
        let watch = service.watch();
        Ok(world::hosted(scenario, service, watch, |service: Self, trial, outcome, watch| {
            judged::<Self>(trial, &service.judge(trial, outcome, Some(watch))?)
        }))
    }

    /// The same, judged: what `paceline run` keeps.
    ///
    /// # Errors
    /// Those of [`Experiment::measure`].
    fn run(trial: &Trial<'_>) -> Result<RunResult, LabError> {
        let started = WallClock::now();
        let mut result = judged::<Self>(trial, &Self::measure(trial)?)?;
        result.wall_s = started.elapsed().as_secs_f64();
        Ok(result)
    }

    /// Runs one node of a scenario as the parent process says.
    ///
    /// # Errors
    /// The errors that are also reported to the parent.
    fn serve(prepared: Prepared) -> Result<(), LabError> {
        let service = Self::prepare(prepared.scenario(), prepared.seed(), WorldKind::Sockets);
        world::serve(prepared, service)
    }
}

/// What a run gives that measured this.
fn judged<E: Experiment>(trial: &Trial<'_>, measured: &E::Measured) -> Result<RunResult, LabError> {
    let result = E::result(trial, measured)?;
    Ok(with_figures(result, trial, E::figures(trial, measured)?))
}

/// A result with figures, each of which says of which run it is.
pub fn with_figures(mut result: RunResult, trial: &Trial<'_>, figures: Vec<Figure>) -> RunResult {
    let of_run = |f: Figure| f.with_run(&trial.scenario.name, trial.seed, &result);
    result.figures = figures.into_iter().map(of_run).collect();
    result
}
