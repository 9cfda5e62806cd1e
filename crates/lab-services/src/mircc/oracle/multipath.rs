use microlp::{ComparisonOp, OptimizationDirection, Variable};

use super::{OracleError, Problem};

/// How far two rates may be apart and still be equal, as a share of the largest capacity. The
/// solver meets each constraint within a tenth of it.
const TOLERANCE: f64 = 1e-6;

/// Totals of flows that have several paths, and one way to reach them.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// The rate of each flow, all paths together.
    pub totals: Vec<f64>,
    /// The rate of each path of each flow. There may be other ways to reach the same totals: this
    /// one crosses the fewest links, each counted with the rate that crosses it.
    pub split: Vec<Vec<f64>>,
}

/// Where a flow stands while the level rises.
#[derive(Clone, Copy, PartialEq)]
enum Standing {
    Rising,
    /// It cannot exceed this rate without taking from a flow whose rate is no higher.
    Settled(f64),
}

impl Problem {
    /// Max-min among the totals of flows that may use all their paths: the smallest total is as
    /// large as it can be, then the second smallest, and so on. The totals are unique.
    ///
    /// Progressive filling by linear programs: the level that all rising flows can have together
    /// goes up as far as it can, and those that could not go further alone stay there. It takes at
    /// most n^2 / 2 programs for n flows. Source: Radunovic and Le Boudec, *A Unified Framework for
    /// Max-Min and Min-Max Fairness With Applications*, IEEE/ACM ToN 15(5), 2007. Exact to about a
    /// millionth of the largest capacity.
    pub fn multipath(&self) -> Result<Allocation, OracleError> {
        let used = self.flows.iter().flat_map(|flow| flow.paths.iter().flatten());
        let unit = used.map(|&link| self.capacities[link]).fold(0.0, f64::max);
        if unit == 0.0 {
            let split: Vec<_> = self.flows.iter().map(|flow| vec![0.0; flow.paths.len()]).collect();
            return Ok(Allocation { totals: vec![0.0; self.flows.len()], split });
        }
        let mut standings = vec![Standing::Rising; self.flows.len()];
        while standings.contains(&Standing::Rising) {
            self.raise(unit, &mut standings)?;
        }
        let cost = |flow: usize, path: usize| self.flows[flow].paths[path].len() as f64;
        let mut program = Program::new(self, unit, OptimizationDirection::Minimize, cost);
        program.hold(&standings, 0.0);
        let (_, mut split) = program.solve()?;
        let rounding = TOLERANCE / 10.0;
        let rate = |rate: f64| if rate < rounding { 0.0 } else { rate * unit };
        split.iter_mut().flatten().for_each(|scaled| *scaled = rate(*scaled));
        // What the solver's tolerance put above a capacity is taken from all alike.
        let loads = self.loads(&split);
        let over = loads.iter().zip(&self.capacities).filter(|(load, _)| **load > 0.0);
        let over = over.map(|(load, capacity)| load / capacity.max(load * (1.0 - TOLERANCE)));
        let factor = over.fold(1.0, f64::max);
        split.iter_mut().flatten().for_each(|rate| *rate /= factor);
        let totals = split.iter().map(|rates| rates.iter().sum()).collect();
        Ok(Allocation { totals, split })
    }

    /// Whether each flow is held by one link that all its paths share: then max-min among totals is
    /// water filling on these links, and one class on one path is not far from it.
    ///
    /// A flow is held by a link that is full in `allocation` and where no other flow has more in
    /// total, or by its own demand.
    pub fn has_joint_bottlenecks(&self, allocation: &Allocation) -> bool {
        let loads = self.loads(&allocation.split);
        let totals = &allocation.totals;
        let unit = self.capacities.iter().copied().fold(0.0, f64::max);
        let near = unit * TOLERANCE * 10.0;
        let crosses = |flow: usize, link: usize| {
            let paths = self.flows[flow].paths.iter().zip(&allocation.split[flow]);
            paths.filter(|(path, _)| path.contains(&link)).any(|(_, rate)| *rate > near)
        };
        self.flows.iter().enumerate().all(|(index, flow)| {
            let total = totals[index];
            let mut shared = flow.paths[0]
                .iter()
                .filter(|link| flow.paths.iter().all(|path| path.contains(link)));
            flow.demand.is_some_and(|demand| total >= demand - near)
                || shared.any(|&link| {
                    let full = loads[link] >= self.capacities[link] - near;
                    let mut others = (0..self.flows.len()).filter(|&other| crosses(other, link));
                    full && others.all(|other| totals[other] <= total + near)
                })
        })
    }

    /// Raises the level as far as it goes and settles at least one flow there.
    fn raise(&self, unit: f64, standings: &mut [Standing]) -> Result<(), OracleError> {
        let mut program = Program::new(self, unit, OptimizationDirection::Maximize, |_, _| 0.0);
        program.raise_level(standings);
        let (level, _) = program.solve()?;
        let rising: Vec<usize> =
            (0..standings.len()).filter(|&flow| standings[flow] == Standing::Rising).collect();
        // Most flows that can rise further do so in the program for all.
        let highest = |wanted: &dyn Fn(usize) -> bool| {
            let gain = |flow: usize, _: usize| if wanted(flow) { 1.0 } else { 0.0 };
            let mut program = Program::new(self, unit, OptimizationDirection::Maximize, gain);
            program.hold(standings, level);
            program.solve()
        };
        let total = |split: &[Vec<f64>], flow: usize| split[flow].iter().sum::<f64>();
        let (_, together) = highest(&|flow| rising.contains(&flow))?;
        let mut held = Vec::new();
        for &flow in rising.iter().filter(|&&flow| total(&together, flow) <= level + TOLERANCE) {
            let (_, alone) = highest(&|other| other == flow)?;
            held.push((total(&alone, flow), flow));
        }
        // One of them cannot rise, or the level would have. Rounding must not hide it.
        let lowest = held.iter().map(|&(rate, _)| rate).fold(f64::INFINITY, f64::min);
        if !lowest.is_finite() {
            let flows = rising.len();
            let problem = format!("all of {flows} flows could get more than {}", level * unit);
            return Err(OracleError::Solver(problem));
        }
        for (rate, flow) in held {
            if rate <= (level + TOLERANCE).max(lowest) {
                standings[flow] = Standing::Settled(level);
            }
        }
        Ok(())
    }
}

/// A linear program over the rates of all paths, in units of the largest capacity.
struct Program<'a> {
    problem: &'a Problem,
    program: microlp::Problem,
    rates: Vec<Vec<Variable>>,
}

impl<'a> Program<'a> {
    /// With the constraints of capacity and demand, and this coefficient for each flow's path.
    fn new(
        problem: &'a Problem,
        unit: f64,
        direction: OptimizationDirection,
        objective: impl Fn(usize, usize) -> f64,
    ) -> Program<'a> {
        let mut program = microlp::Problem::new(direction);
        let mut rates: Vec<Vec<Variable>> = Vec::new();
        let mut crossing = vec![Vec::new(); problem.capacities.len()];
        for (index, flow) in problem.flows.iter().enumerate() {
            let mut variables = Vec::new();
            for (path, links) in flow.paths.iter().enumerate() {
                let variable = program.add_var(objective(index, path), (0.0, f64::INFINITY));
                links.iter().for_each(|&link| crossing[link].push((variable, 1.0)));
                variables.push(variable);
            }
            // A demand far above what the links carry says nothing, and would hurt the precision.
            let reach: f64 = flow.paths.len() as f64;
            if let Some(demand) = flow.demand.map(|demand| demand / unit)
                && demand < reach
            {
                program.add_constraint(sum(&variables), ComparisonOp::Le, demand);
            }
            rates.push(variables);
        }
        for (users, capacity) in crossing.into_iter().zip(&problem.capacities) {
            if !users.is_empty() {
                program.add_constraint(users, ComparisonOp::Le, capacity / unit);
            }
        }
        Program { problem, program, rates }
    }

    /// Gives rising flows at least `level`, and settled ones what they have.
    fn hold(&mut self, standings: &[Standing], level: f64) {
        for (variables, standing) in self.rates.iter().zip(standings) {
            let least = match standing {
                Standing::Rising => level,
                Standing::Settled(rate) => *rate,
            };
            self.program.add_constraint(sum(variables), ComparisonOp::Ge, least);
        }
    }

    /// Makes the objective the level that all rising flows reach together.
    fn raise_level(&mut self, standings: &[Standing]) {
        let level = self.program.add_var(1.0, (0.0, f64::INFINITY));
        for (variables, standing) in self.rates.iter().zip(standings) {
            let mut terms = sum(variables);
            let least = match standing {
                Standing::Rising => {
                    terms.push((level, -1.0));
                    0.0
                }
                Standing::Settled(rate) => *rate,
            };
            self.program.add_constraint(terms, ComparisonOp::Ge, least);
        }
    }

    /// The objective and the rate of each path.
    fn solve(self) -> Result<(f64, Vec<Vec<f64>>), OracleError> {
        let failed = |problem: String| OracleError::Solver(problem);
        let outcome = self.program.solve().map_err(|error| failed(error.to_string()))?;
        let Some(solution) = outcome.solution() else {
            let flows = self.problem.flows.len();
            return Err(failed(format!("the solver failed on {flows} flows")));
        };
        let of_flow = |variables: &Vec<Variable>| -> Vec<f64> {
            variables.iter().map(|&variable| solution.var_value(variable)).collect()
        };
        Ok((solution.objective(), self.rates.iter().map(of_flow).collect()))
    }
}

fn sum(variables: &[Variable]) -> Vec<(Variable, f64)> {
    variables.iter().map(|&variable| (variable, 1.0)).collect()
}
