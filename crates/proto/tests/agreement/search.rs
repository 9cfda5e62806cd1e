//! All orders of the steps of a world, up to a length.
//!
//! The machines cannot be copied, so an execution that branches is run again from its start.
//! Orders that differ only in steps at different nodes are the same execution and are run once
//! (sleep sets: Godefroid, *Partial-Order Methods for the Verification of Concurrent Systems*,
//! 1996).

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use paceline_proto::core::NodeId;
use paceline_proto::group::Config;

use super::world::{Bug, FIRST, MEMBERS, NODES, Start, Step, World};

/// How far the search goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Steps of all kinds.
    pub steps: usize,
    /// Times that time passes,
    pub passes: usize,
    /// that a node crashes,
    pub crashes: usize,
    /// that a member is cut off,
    pub cuts: usize,
    /// that a member leaves.
    pub leaves: usize,
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Executions, no two of which are the same but for order.
    pub executions: u64,
    /// Steps in all of them, each counted once.
    pub steps: u64,
    /// Executions with a crash, with a member cut off, with one that leaves,
    pub crashes: u64,
    pub cuts: u64,
    pub leaves: u64,
    /// and views that anybody installed after the first, in all executions together.
    pub views: u64,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.executions += other.executions;
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.cuts += other.cuts;
        self.leaves += other.leaves;
        self.views += other.views;
    }
}

/// An execution that breaks a promise.
#[derive(Debug)]
pub struct Broken {
    pub what: String,
    pub path: Vec<Step>,
}

/// Where an execution goes on, and what was tried there already.
struct Branch {
    path: Vec<Step>,
    asleep: BTreeSet<Step>,
}

pub struct Search<'a> {
    pub config: &'a Config,
    pub bug: Option<Bug>,
    pub start: Start,
    /// The member that lacks a broadcast.
    pub lacks: NodeId,
    pub bounds: Bounds,
}

impl Search<'_> {
    /// Runs all executions on all processors, or as many as it takes to find one that breaks a
    /// promise.
    pub fn run(&self) -> Result<Seen, Broken> {
        // The first steps make branches enough for all processors.
        let (mut branches, mut seen) = (Vec::new(), Seen::default());
        let root = Branch { path: Vec::new(), asleep: BTreeSet::new() };
        self.explore(self.world(&[])?, root, self.bounds.steps.min(3), &mut seen, &mut |branch| {
            branches.push(branch);
        })?;
        let seen = Mutex::new(seen);
        let (branches, broken) = (Mutex::new(branches), Mutex::new(None));
        let work = || {
            let mut mine = Seen::default();
            while broken.lock().expect("no panic under the lock").is_none() {
                let branch = branches.lock().expect("no panic under the lock").pop();
                let Some(branch) = branch else { break };
                let explored = self.world(&branch.path).and_then(|world| {
                    let steps = self.bounds.steps;
                    self.explore(world, branch, steps, &mut mine, &mut |_| ())
                });
                if let Err(found) = explored {
                    *broken.lock().expect("no panic under the lock") = Some(found);
                }
            }
            seen.lock().expect("no panic under the lock").add(mine);
        };
        thread::scope(|scope| {
            (0..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| {
                scope.spawn(work);
            });
        });
        match broken.into_inner().expect("no panic") {
            Some(broken) => Err(broken),
            None => Ok(seen.into_inner().expect("no panic")),
        }
    }

    fn world(&self, path: &[Step]) -> Result<World<'_>, Broken> {
        let mut world = World::new(self.config, self.bug, self.start, self.lacks);
        for (place, &step) in path.iter().enumerate() {
            let path = || path[..=place].to_vec();
            world.take(step).map_err(|what| Broken { what, path: path() })?;
        }
        Ok(world)
    }

    /// Goes on from a world in every way. At `until` steps the branch is handed to `later`, unless
    /// that is where executions end.
    fn explore(
        &self,
        world: World<'_>,
        branch: Branch,
        until: usize,
        seen: &mut Seen,
        later: &mut impl FnMut(Branch),
    ) -> Result<(), Broken> {
        let Branch { path, mut asleep } = branch;
        if path.len() == self.bounds.steps {
            return self.end(world, path, seen);
        }
        if path.len() == until {
            later(Branch { path, asleep });
            return Ok(());
        }
        let mut steps = self.steps(&world, &path);
        if steps.is_empty() {
            return self.end(world, path, seen);
        }
        steps.retain(|step| !asleep.contains(step));
        let (mut world, count) = (Some(world), steps.len());
        for (place, step) in steps.into_iter().enumerate() {
            let here = if place + 1 == count { world.take() } else { None };
            let mut here = here.map_or_else(|| self.world(&path), Ok)?;
            let path = [&path[..], &[step]].concat();
            seen.steps += 1;
            here.take(step).map_err(|what| Broken { what, path: path.clone() })?;
            let stay = |other: &&Step| other.commutes_with(step);
            let branch = Branch { path, asleep: asleep.iter().filter(stay).copied().collect() };
            self.explore(here, branch, until, seen, later)?;
            asleep.insert(step);
        }
        Ok(())
    }

    /// The steps that are possible, within the bounds.
    fn steps(&self, world: &World<'_>, path: &[Step]) -> Vec<Step> {
        let count = |is: fn(&Step) -> bool| path.iter().filter(|step| is(step)).count();
        let bounds = &self.bounds;
        let passes = count(|step| matches!(step, Step::Pass));
        let may_pass = passes < bounds.passes;
        let mut steps: Vec<Step> =
            world.steps().filter(|step| may_pass || *step != Step::Pass).collect();
        if count(|step| matches!(step, Step::Crash(_))) < bounds.crashes {
            let nodes = (0..NODES).map(NodeId::from).filter(|&node| world.is_up(node));
            steps.extend(nodes.map(Step::Crash));
        }
        let members = || (0..MEMBERS).map(NodeId::from).filter(|&node| world.is_member(node));
        if count(|step| matches!(step, Step::CutOff(_))) < bounds.cuts {
            steps.extend(members().filter(|&node| !world.is_cut_off(node)).map(Step::CutOff));
        }
        if count(|step| matches!(step, Step::Leave(_))) < bounds.leaves {
            steps.extend(members().map(Step::Leave));
        }
        steps
    }

    /// An execution is over: what is still under way arrives late in some, and is lost in others.
    fn end(&self, mut world: World<'_>, path: Vec<Step>, seen: &mut Seen) -> Result<(), Broken> {
        seen.executions += 1;
        let has = |is: fn(&Step) -> bool| u64::from(path.iter().any(is));
        seen.crashes += has(|step| matches!(step, Step::Crash(_)));
        seen.cuts += has(|step| matches!(step, Step::CutOff(_)));
        seen.leaves += has(|step| matches!(step, Step::Leave(_)));
        seen.views += world.ledger.last_view().0 - FIRST;
        world.heal(seen.executions.is_multiple_of(2)).map_err(|what| Broken { what, path })
    }
}
