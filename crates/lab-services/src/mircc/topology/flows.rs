use paceline_lab::LabError;

use super::graph::{Graph, GraphError};
use super::routes::{Path, Routes, Routing};
use crate::mircc::oracle::{Flow, Problem};

/// What an oracle has to know of a network: one flow for each consumer, in their order, on the
/// paths that its Data can take.
///
/// Each direction of each link is a link of the problem, [`Port::index`](super::Port::index).
/// Interests, a few per cent of their Data's rate, are not counted against the other direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Flows {
    /// Each consumer's paths, in the order of the problem.
    pub paths: Vec<Vec<Path>>,
    /// The capacities, and the flows as lists of links.
    pub problem: Problem,
}

impl Flows {
    /// Finds the paths of each consumer, at most `paths_max` (at least 1), and takes `eta` of each
    /// link's rate as its capacity.
    pub fn new(
        graph: &Graph,
        routing: Routing,
        eta: f64,
        paths_max: usize,
    ) -> Result<Flows, LabError> {
        graph.check()?;
        let paths = graph.consumers().iter().map(|consumer| {
            let routes = Routes::new(graph, &consumer.prefix, routing)?;
            Ok(routes.paths(graph, consumer.node, paths_max.max(1)))
        });
        let paths = paths.collect::<Result<Vec<Vec<Path>>, GraphError>>()?;
        let flow = |paths: &Vec<Path>| {
            let links = |path: &Path| path.ports.iter().map(|port| port.index()).collect();
            Flow::new(paths.iter().map(links).collect::<Vec<_>>())
        };
        let rates = graph.links().iter().flat_map(|link| link.rates);
        let capacities = rates.map(|rate| rate.bits_per_second() as f64 * eta).collect();
        let problem = Problem::new(capacities, paths.iter().map(flow).collect())?;
        Ok(Flows { paths, problem })
    }
}
