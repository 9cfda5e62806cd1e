//! Runs that look for a planted bug, and the same runs without it, which must find nothing.

use paceline_check::checkers::group::Host;
use paceline_proto::core::NodeId;
use paceline_proto::group::Config;

use super::Scenario;
use super::boundary::{Case, Stop, Trigger, boundaries};

/// The number of seeds within which a run of the swarm must find a bug.
const SEEDS_MAX: u64 = 1000;

/// A bug, and the rules of which the ledger must find one broken.
pub struct Hunt<F> {
    pub bug: String,
    pub expected: Vec<String>,
    /// A node, with the bug or without.
    pub make: F,
}

impl<P, F> Hunt<F>
where
    P: Host + 'static,
    F: Fn(NodeId, &Config, bool) -> P + Clone + Send + 'static,
{
    /// What a run of one scenario says.
    pub fn verdict(&self, scenario: &Scenario, is_planted: bool) -> Result<(), String> {
        let (make, config) = (self.make.clone(), scenario.config.clone());
        scenario.run(move |node| make(node, &config, is_planted)).map(|_| ())
    }

    /// What was found is what was to be found.
    ///
    /// # Panics
    /// If it is not.
    pub fn assert_expected(&self, place: &str, found: &str) {
        let first = found.lines().next().unwrap_or_default();
        println!("{}: {place}: {first}", self.bug);
        let is_expected = self.expected.iter().any(|rule| first.starts_with(rule));
        assert!(is_expected, "{}, expected {:?}: {found}", self.bug, self.expected);
    }

    /// Runs the seeds of the swarm until one finds the bug. Without it none of them finds anything.
    pub fn in_the_swarm(&self) {
        self.in_the_swarm_of(Scenario::draw);
    }

    /// The same with other runs.
    pub fn in_the_swarm_of(&self, draw: impl Fn(u64) -> Scenario) {
        for seed in 0..SEEDS_MAX {
            let scenario = draw(seed);
            let honest = self.verdict(&scenario, false);
            assert_eq!(honest, Ok(()), "seed {seed} is found guilty without the bug");
            if let Err(found) = self.verdict(&scenario, true) {
                return self.assert_expected(&format!("seed {seed}"), &found);
            }
        }
        panic!("{} went unnoticed in {SEEDS_MAX} seeds", self.bug);
    }

    /// Runs one scenario.
    pub fn in_a_run(&self, scenario: &Scenario) {
        assert_eq!(self.verdict(scenario, false), Ok(()), "without the bug nothing is found");
        let found = self.verdict(scenario, true).expect_err("the bug went unnoticed");
        self.assert_expected("in a run", &found);
    }

    fn run(&self, case: Case, is_planted: bool) -> Result<super::boundary::Ran, String> {
        let make = self.make.clone();
        case.run(move |node, config| make(node, config, is_planted))
    }

    /// A view changes while all send: a member leaves, nothing else happens.
    pub fn in_a_change(&self) {
        let case = Case { seed: 0, trigger: Trigger::Leave, stop: None };
        self.run(case, false).expect("without the bug nothing is found");
        let found = self.run(case, true).expect_err("the bug went unnoticed");
        self.assert_expected("in a change", &found);
    }

    /// Kills or pauses the leader at one message after the other until that finds the bug.
    pub fn at_boundaries(&self, trigger: Trigger, stop: Stop) {
        let mut tried = 0;
        for seed in 0..20 {
            let case = Case { seed, trigger, stop: None };
            let points = boundaries(&self.run(case, false).expect("nothing stops").log);
            for point in points {
                let case = Case { stop: Some((point, stop)), ..case };
                tried += 1;
                let honest = self.run(case, false);
                assert!(honest.is_ok(), "without the bug: {honest:?}");
                if let Err(found) = self.run(case, true) {
                    return self.assert_expected(&format!("{case}, boundary {tried}"), &found);
                }
            }
        }
        panic!("{} went unnoticed at {tried} boundaries", self.bug);
    }
}
