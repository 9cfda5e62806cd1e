//! Oracles of the rates of flows.
//!
//! A [`Problem`] has links with capacities and flows with paths. It has three solutions:
//!
//! | | on which paths | what is fair |
//! |---|---|---|
//! | [`Problem::single_path`] | one chosen path for each flow | max-min among flows |
//! | [`Problem::multipath`] | all paths of each flow | max-min among the flows' totals |
//! | [`Problem::dual_class`] | all, in two classes | primaries of flows, then rests of subflows |
//!
//! MIRCC aims at the last one. With several bottlenecks it is not max-min among totals, so figures
//! show the distance between the two.
//!
//! Rates and capacities are in one unit of the caller's choice. A capacity is what flows may use:
//! the link's rate times eta. The load in the other direction of a link is not modelled.

mod compare;
mod dual;
mod multipath;
mod water;

#[cfg(test)]
mod tests;

use thiserror::Error;

pub use compare::{distance_max, jain_index};
pub use dual::DualClass;
pub use multipath::Allocation;

/// One consumer's transfer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// The ways it can take, each a list of links: indices into the capacities. At least one, and
    /// each with at least one link.
    pub paths: Vec<Vec<usize>>,
    /// The most that the flow wants in total. Default: all it can get.
    pub demand: Option<f64>,
}

impl Flow {
    /// A flow on these paths that wants all it can get.
    pub fn new(paths: impl IntoIterator<Item = Vec<usize>>) -> Flow {
        Flow { paths: paths.into_iter().collect(), demand: None }
    }

    /// The same flow, wanting this much in total.
    pub fn with_demand(mut self, demand: f64) -> Flow {
        self.demand = Some(demand);
        self
    }
}

/// Links, and the flows that share them.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    capacities: Vec<f64>,
    flows: Vec<Flow>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum OracleError {
    /// A capacity is not a rate.
    #[error("link {link} has the capacity {capacity}; it must be a number of zero or more")]
    Capacity {
        /// The link's index.
        link: usize,
        /// What was given.
        capacity: f64,
    },
    /// A demand is not a rate.
    #[error("flow {flow} has the demand {demand}; it must be a number of zero or more")]
    Demand {
        /// The flow's index.
        flow: usize,
        /// What was given.
        demand: f64,
    },
    /// A flow has no path at all, or a path has no link.
    #[error("flow {flow} has no path, or one without a link")]
    NoPath {
        /// The flow's index.
        flow: usize,
    },
    /// A path has a link that is not there, or twice the same one.
    #[error(
        "path {path} of flow {flow} has link {link} twice, or there is no such link among {links}"
    )]
    Path {
        /// The flow's index.
        flow: usize,
        /// The path's index in the flow.
        path: usize,
        /// The link's index.
        link: usize,
        /// How many links there are.
        links: usize,
    },
    /// A choice of paths does not fit the flows.
    #[error("{choices} choices of a path do not fit the paths of {flows} flows")]
    Choice {
        /// How many choices were given.
        choices: usize,
        /// How many flows there are.
        flows: usize,
    },
    /// The linear programs could not be solved: capacities that differ by many orders of magnitude.
    #[error("the linear program has no solution: {0}")]
    Solver(String),
}

impl Problem {
    /// Checks capacities and flows.
    pub fn new(capacities: Vec<f64>, flows: Vec<Flow>) -> Result<Problem, OracleError> {
        let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
        for (link, &capacity) in capacities.iter().enumerate() {
            if !is_rate(capacity) {
                return Err(OracleError::Capacity { link, capacity });
            }
        }
        let links = capacities.len();
        for (index, flow) in flows.iter().enumerate() {
            if let Some(demand) = flow.demand
                && !is_rate(demand)
            {
                return Err(OracleError::Demand { flow: index, demand });
            }
            if flow.paths.is_empty() || flow.paths.iter().any(Vec::is_empty) {
                return Err(OracleError::NoPath { flow: index });
            }
            for (path, route) in flow.paths.iter().enumerate() {
                for (at, &link) in route.iter().enumerate() {
                    if link >= links || route[..at].contains(&link) {
                        return Err(OracleError::Path { flow: index, path, link, links });
                    }
                }
            }
        }
        Ok(Problem { capacities, flows })
    }

    /// What each link can carry.
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// The flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The max-min share of each flow when it takes one path, `choice[flow]`.
    ///
    /// No flow's rate can grow except at the cost of a flow whose rate is no higher: each flow is
    /// at its demand, or has the largest share of some saturated link. Source: Bertsekas and
    /// Gallager, *Data Networks*, 1992, section 6.5.2.
    pub fn single_path(&self, choice: &[usize]) -> Result<Vec<f64>, OracleError> {
        self.check_choice(choice)?;
        Ok(self.primaries(choice))
    }

    /// What each link carries when each path of each flow has this rate.
    pub fn loads(&self, split: &[Vec<f64>]) -> Vec<f64> {
        let mut loads = vec![0.0; self.capacities.len()];
        for (flow, rates) in self.flows.iter().zip(split) {
            for (path, rate) in flow.paths.iter().zip(rates) {
                for &link in path {
                    loads[link] += rate;
                }
            }
        }
        loads
    }

    fn check_choice(&self, choice: &[usize]) -> Result<(), OracleError> {
        let fits = |(flow, &path): (&Flow, &usize)| path < flow.paths.len();
        if choice.len() == self.flows.len() && self.flows.iter().zip(choice).all(fits) {
            Ok(())
        } else {
            Err(OracleError::Choice { choices: choice.len(), flows: self.flows.len() })
        }
    }

    /// The shares of a choice that is known to fit.
    fn primaries(&self, choice: &[usize]) -> Vec<f64> {
        let chosen = self.flows.iter().zip(choice);
        let routes: Vec<&[usize]> = chosen.map(|(flow, &path)| &flow.paths[path][..]).collect();
        let demands = self.flows.iter().map(|flow| flow.demand.unwrap_or(f64::INFINITY));
        water::fill(&self.capacities, &routes, demands.collect())
    }
}
