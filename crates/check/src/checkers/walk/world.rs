use std::sync::Arc;

use paceline_proto::core::NodeId;
use paceline_proto::walk::{
    Graph, Job, Kind, Length, NOWHERE, Owners, Step, Stop, Trail, Vertex, Walk, Walker,
};

use super::{Broken, Rule};

/// Turns that a walk in memory may take for each of its steps: more than any rejected candidates.
const TURNS_MAX: usize = 10_000;

/// The reference for walks: the whole graph, and the owner of each part.
#[derive(Clone, Debug)]
pub struct World {
    graph: Arc<Graph>,
    owners: Arc<Owners>,
    /// In the order of the rows.
    weights: Option<Arc<[f32]>>,
}

impl World {
    /// This graph with these owners. `weights`: of its edges, in the order of the rows, if it was
    /// built with any.
    pub fn new(graph: Arc<Graph>, owners: Arc<Owners>, weights: Option<Arc<[f32]>>) -> World {
        World { graph, owners, weights }
    }

    pub(super) fn is_labelled(&self) -> bool {
        self.graph.is_labelled()
    }

    pub(super) fn vertices(&self) -> u32 {
        self.graph.vertices()
    }

    pub(super) fn owner(&self, vertex: Vertex) -> Option<NodeId> {
        self.owners.owner(vertex)
    }

    /// Where the `step`-th step of a walk of this kind may go from a vertex, restarts aside.
    fn ways<'a>(
        &'a self,
        kind: &'a Kind,
        step: usize,
        from: Vertex,
    ) -> impl Iterator<Item = Vertex> + 'a {
        let offsets = self.graph.offsets();
        let edges = offsets[from as usize] as usize..offsets[from as usize + 1] as usize;
        edges
            .filter(move |&edge| self.fits(kind, step, edge))
            .map(|edge| self.graph.targets()[edge])
    }

    fn fits(&self, kind: &Kind, step: usize, edge: usize) -> bool {
        match kind {
            Kind::Uniform | Kind::Restart(_) => true,
            Kind::Weighted | Kind::Node2Vec(_) => {
                self.weights.as_ref().is_none_or(|weights| weights[edge] > 0.0)
            }
            Kind::Metapath(labels) => {
                let wanted = labels[step % labels.len()];
                self.graph.labels().is_some_and(|of| of[edge] == wanted)
            }
        }
    }

    /// Compares a reported walk with the legal steps and with the reference walk.
    pub(super) fn check(&self, job: &Job, walk: &Walk) -> Result<(), Broken> {
        self.check_legal(job, walk)
            .map_err(|what| (Rule::Legality, format!("walk {}: {what}", walk.walk)))?;
        let (path, stop) = self.in_memory(job, walk.walk, walk.source);
        let end = path.last().copied().unwrap_or(walk.source);
        let is_same = (walk.end, walk.steps as usize, walk.stop) == (end, path.len(), stop)
            && (job.trail == Trail::None || walk.path == path);
        if !is_same {
            let Walk { walk, source, end, steps, stop: why, path: told, .. } = walk;
            let what = format!(
                "walk {walk} from {source} goes {told:?}, {steps} steps to {end} ({why:?}); in \
                 memory {path:?} ({stop:?})"
            );
            return Err((Rule::Reference, what));
        }
        Ok(())
    }

    fn check_legal(&self, job: &Job, walk: &Walk) -> Result<(), String> {
        let Walk { source, end, steps, stop, path, .. } = walk;
        if job.trail == Trail::None {
            if !path.is_empty() {
                return Err("a path that no job asked for".into());
            }
        } else {
            if path.len() != *steps as usize {
                return Err(format!("{} vertices for {steps} steps", path.len()));
            }
            if path.last().unwrap_or(source) != end {
                return Err(format!("ends at {end}, its path elsewhere: {path:?}"));
            }
            self.check_steps(&job.kind, *source, path)?;
        }
        let drawn = Walker::new(job.seed, walk.walk, *source, job.length).steps_left;
        let most = match job.length {
            Length::Steps(steps) | Length::Geometric { steps_max: steps, .. } => steps,
        };
        match stop {
            Stop::Length if *steps == drawn && drawn <= most => Ok(()),
            Stop::Length => Err(format!("ends after {steps} steps of {drawn}")),
            Stop::DeadEnd if *steps >= drawn => Err(format!("{steps} steps where {drawn} are due")),
            Stop::DeadEnd if matches!(job.kind, Kind::Restart(_)) => {
                Err("a dead end, and walks restart from those".into())
            }
            Stop::DeadEnd => match self.ways(&job.kind, *steps as usize, *end).next() {
                Some(way) => Err(format!("{end} is no dead end: {way} is next")),
                None => Ok(()),
            },
        }
    }

    fn check_steps(&self, kind: &Kind, source: Vertex, path: &[Vertex]) -> Result<(), String> {
        let mut from = source;
        for (step, &to) in path.iter().enumerate() {
            let goes_back = matches!(kind, Kind::Restart(_)) && to == source;
            if !goes_back && !self.ways(kind, step, from).any(|way| way == to) {
                return Err(format!("step {step} from {from} to {to} is along no edge that fits"));
            }
            from = to;
        }
        Ok(())
    }

    /// The walk as it goes where the whole graph is at hand.
    fn in_memory(&self, job: &Job, walk: u64, source: Vertex) -> (Vec<Vertex>, Stop) {
        let mut walker = Walker::new(job.seed, walk, source, job.length);
        let mut path = Vec::new();
        let mut turns = TURNS_MAX * (walker.steps_left as usize + 1);
        loop {
            match job.kind.step(&mut walker, &*self.graph) {
                Step::To(vertex) => path.push(vertex),
                Step::Need(_) => {
                    turns -= 1;
                    assert!(turns > 0, "a walk in memory goes on");
                }
                Step::Done => return (path, Stop::Length),
                Step::DeadEnd => return (path, Stop::DeadEnd),
            }
        }
    }

    /// Steps `from ..` of a walk that keeps its path were taken at this node: it has the edges of
    /// each vertex that was left. node2vec may settle a step where the vertex before is.
    pub(super) fn check_here(
        &self,
        node: NodeId,
        kind: &Kind,
        (source, path): (Vertex, &[Vertex]),
        from: usize,
    ) -> Result<(), Broken> {
        let at = |step: usize| if step == 0 { source } else { path[step - 1] };
        let has = |vertex| vertex == NOWHERE || self.owner(vertex) == Some(node);
        for step in from..path.len() {
            let settles = matches!(kind, Kind::Node2Vec(_)) && step > 0 && has(at(step - 1));
            if !has(at(step)) && !settles {
                let (vertex, owner) = (at(step), self.owner(at(step)));
                let what = format!("takes a step from {vertex}, which is {owner:?}'s");
                return Err((Rule::Legality, what));
            }
        }
        Ok(())
    }

    /// A walker in the queue of a node is one that it can let go on.
    pub(super) fn check_queued(
        &self,
        node: NodeId,
        kind: &Kind,
        walker: &Walker,
    ) -> Result<(), Broken> {
        let has = |vertex| self.owner(vertex) == Some(node);
        if has(walker.at) || matches!(kind, Kind::Node2Vec(_)) && has(walker.previous) {
            return Ok(());
        }
        let (at, owner) = (walker.at, self.owner(walker.at));
        Err((Rule::Legality, format!("serves a walker at {at}, which is {owner:?}'s")))
    }
}
