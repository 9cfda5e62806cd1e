use super::{OracleError, Problem, water};

/// Rounds after which a search for a fixed point is given up. A flow moves only when it gains, and
/// under max-min shares such moves come to an end; in practice after two or three rounds.
const ROUNDS_MAX: usize = 100;

/// What one flow's gain must exceed to be more than rounding.
const ROUNDING: f64 = 1e-9;

/// Rates in two classes: Mahdian et al. 2016, slide 14.
///
/// The *primary* class of each flow is max-min on one path of the flow, its best subflow. What
/// primaries leave on each link, capacity minus primaries, is the *secondary* pool. It is shared
/// max-min among subflows: each path of each flow is one, the best one too.
#[derive(Clone, Debug, PartialEq)]
pub struct DualClass {
    /// The path on which each flow has its primary: an index into the flow's paths.
    pub best: Vec<usize>,
    /// Each flow's primary rate.
    pub primary: Vec<f64>,
    /// The secondary rate of each path of each flow.
    pub secondary: Vec<Vec<f64>>,
    /// Whether no flow would gain by moving its primary. False only if the search was given up.
    pub settled: bool,
}

impl DualClass {
    /// The secondary rate of each flow, all paths together.
    pub fn secondary_totals(&self) -> Vec<f64> {
        self.secondary.iter().map(|rates| rates.iter().sum()).collect()
    }

    /// Primary and secondary rate of each flow together.
    pub fn totals(&self) -> Vec<f64> {
        let secondary = self.secondary_totals();
        self.primary.iter().zip(secondary).map(|(primary, secondary)| primary + secondary).collect()
    }

    /// The rate of each path of each flow, both classes together.
    pub fn split(&self) -> Vec<Vec<f64>> {
        let mut split = self.secondary.clone();
        for ((rates, &best), primary) in split.iter_mut().zip(&self.best).zip(&self.primary) {
            rates[best] += primary;
        }
        split
    }
}

impl Problem {
    /// The rates of two classes, each flow's primary on the path where it gets most.
    ///
    /// Flows begin on the path whose narrowest link is widest; of equal ones on the one with fewest
    /// links, then on the first. Then they take turns, in their order: a flow moves to the path
    /// where its primary would be largest, all others staying where they are, if that is more than
    /// `switch_gain` times what it has. Of equal paths it stays on its own, else takes the first.
    /// It ends when a whole round moves no flow.
    ///
    /// `switch_gain` is 1 for a flow that moves for any gain, and 1.1 for the consumer's usual
    /// hysteresis of 10 %. What is below 1 counts as 1.
    ///
    /// There may be several fixed points; [`Problem::dual_class_fixed_points`] finds them all.
    pub fn dual_class(&self, switch_gain: f64) -> DualClass {
        let mut best: Vec<usize> =
            (0..self.flows.len()).map(|flow| self.widest_path(flow)).collect();
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            for flow in 0..best.len() {
                if let Some(path) = self.better_path(flow, &best, switch_gain) {
                    best[flow] = path;
                    moved = true;
                }
            }
            if !moved {
                return self.two_classes(best, true);
            }
        }
        self.two_classes(best, false)
    }

    /// The rates of two classes, each flow's primary on the given path.
    pub fn dual_class_on(&self, best: &[usize]) -> Result<DualClass, OracleError> {
        self.check_choice(best)?;
        let settled = self.is_fixed_point(best, 1.0);
        Ok(self.two_classes(best.to_vec(), settled))
    }

    /// All choices of paths from which no flow moves, see [`Problem::dual_class`], in the order of
    /// the choices. None if there are more than `choices_max` choices to look at.
    pub fn dual_class_fixed_points(
        &self,
        switch_gain: f64,
        choices_max: usize,
    ) -> Option<Vec<DualClass>> {
        let choices = self.flows.iter().try_fold(1usize, |product, flow| {
            product.checked_mul(flow.paths.len()).filter(|&product| product <= choices_max)
        })?;
        let mut found = Vec::new();
        let mut choice = vec![0; self.flows.len()];
        for _ in 0..choices {
            if self.is_fixed_point(&choice, switch_gain) {
                found.push(self.two_classes(choice.clone(), true));
            }
            // The next one, as an odometer counts.
            for (path, flow) in choice.iter_mut().zip(&self.flows).rev() {
                *path = (*path + 1) % flow.paths.len();
                if *path != 0 {
                    break;
                }
            }
        }
        Some(found)
    }

    fn is_fixed_point(&self, choice: &[usize], switch_gain: f64) -> bool {
        (0..choice.len()).all(|flow| self.better_path(flow, choice, switch_gain).is_none())
    }

    fn widest_path(&self, flow: usize) -> usize {
        let width = |path: &[usize]| {
            path.iter().map(|&link| self.capacities[link]).fold(f64::INFINITY, f64::min)
        };
        let paths = &self.flows[flow].paths;
        let better = |best: usize, path: usize| {
            let order = width(&paths[path]).total_cmp(&width(&paths[best]));
            let order = order.then(paths[best].len().cmp(&paths[path].len()));
            if order.is_gt() { path } else { best }
        };
        (1..paths.len()).fold(0, better)
    }

    /// Where the flow would move, if anywhere.
    fn better_path(&self, flow: usize, choice: &[usize], switch_gain: f64) -> Option<usize> {
        let paths = self.flows[flow].paths.len();
        if paths == 1 {
            return None;
        }
        let mut trial = choice.to_vec();
        let mut share = |path: usize| {
            trial[flow] = path;
            self.primaries(&trial)[flow]
        };
        let own = share(choice[flow]);
        let enough = own * switch_gain.max(1.0) * (1.0 + ROUNDING);
        let others = (0..paths).filter(|&path| path != choice[flow]);
        let (mut best, mut most) = (None, enough);
        for path in others {
            let rate = share(path);
            if rate > most {
                (best, most) = (Some(path), rate * (1.0 + ROUNDING));
            }
        }
        best
    }

    fn two_classes(&self, best: Vec<usize>, settled: bool) -> DualClass {
        let primary = self.primaries(&best);
        let mut left = self.capacities.clone();
        for ((flow, &path), rate) in self.flows.iter().zip(&best).zip(&primary) {
            // The protocol's rule: the target of the secondary pool is eta C - y_primary.
            flow.paths[path].iter().for_each(|&link| left[link] -= rate);
        }
        // What rounding leaves below zero, or above it on a full link, is nothing.
        for (left, capacity) in left.iter_mut().zip(&self.capacities) {
            if *left < capacity * ROUNDING {
                *left = 0.0;
            }
        }
        // A demand binds a flow's subflows together, as a link that only they cross would.
        let mut routes: Vec<Vec<usize>> = Vec::new();
        for (flow, primary) in self.flows.iter().zip(&primary) {
            let own_link = flow.demand.map(|demand| {
                left.push((demand - primary).max(0.0));
                left.len() - 1
            });
            routes.extend(
                flow.paths.iter().map(|path| path.iter().copied().chain(own_link).collect()),
            );
        }
        let borrowed: Vec<&[usize]> = routes.iter().map(Vec::as_slice).collect();
        let mut rates =
            water::fill(&left, &borrowed, vec![f64::INFINITY; routes.len()]).into_iter();
        let secondary =
            self.flows.iter().map(|flow| rates.by_ref().take(flow.paths.len()).collect()).collect();
        DualClass { best, primary, secondary, settled }
    }
}
