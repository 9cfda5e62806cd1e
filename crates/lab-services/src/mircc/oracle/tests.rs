use paceline_proto::core::Rng;

use super::*;

const NEAR: f64 = 1e-5;

/// The slingshot: link 0 is the joint one, 1 and 2 the branches. Consumer 1 has both.
fn slingshot(rates: [f64; 3], second: Option<usize>) -> Problem {
    let first = Flow::new([vec![0, 1], vec![0, 2]]);
    let flows = std::iter::once(first).chain(second.map(|branch| Flow::new([vec![0, branch]])));
    Problem::new(rates.map(|rate| rate * 0.95).to_vec(), flows.collect()).unwrap()
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64]) {
    let unit = expected.iter().copied().fold(1.0, f64::max);
    let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= NEAR * unit);
    assert!(found.len() == expected.len() && near, "{found:?} instead of {expected:?}");
}

#[test]
fn slingshot_alone_has_its_primary_on_the_wider_branch_and_the_rest_as_secondary() {
    let rates = slingshot([15.0, 12.0, 9.0], None).dual_class(1.0);
    assert!(rates.settled && rates.best == [0]);
    assert_near(&rates.primary, &[11.40]);
    assert_near(&rates.secondary[0], &[0.0, 2.85]);
    assert_near(&rates.totals(), &[14.25]);
    assert_near(&rates.split()[0], &[11.40, 2.85]);

    let rates = slingshot([15.0, 10.0, 10.0], None).dual_class(1.0);
    assert_near(&rates.primary, &[9.50]);
    assert_near(&rates.secondary_totals(), &[4.75]);
}

#[test]
fn slingshot_in_competition_is_halved_whichever_branch_the_second_consumer_has() {
    for rates in [[15.0, 12.0, 9.0], [15.0, 10.0, 10.0]] {
        for branch in [1, 2] {
            let problem = slingshot(rates, Some(branch));
            for switch_gain in [1.0, 1.1] {
                let shares = problem.dual_class(switch_gain);
                assert!(shares.settled);
                assert_near(&shares.primary, &[7.125, 7.125]);
                assert_near(&shares.secondary_totals(), &[0.0, 0.0]);
            }
            let multipath = problem.multipath().unwrap();
            assert_near(&multipath.totals, &[7.125, 7.125]);
            assert!(problem.has_joint_bottlenecks(&multipath));
        }
    }
}

#[test]
fn two_bottlenecks_tell_two_classes_from_max_min_among_totals() {
    let capacities = vec![9.5, 2.85];
    let flows = vec![Flow::new([vec![0], vec![1]]), Flow::new([vec![0]])];
    let problem = Problem::new(capacities, flows).unwrap();
    let multipath = problem.multipath().unwrap();
    assert_near(&multipath.totals, &[6.175, 6.175]);
    assert_near(&multipath.split[0], &[3.325, 2.85]);
    assert!(!problem.has_joint_bottlenecks(&multipath));
    let shares = problem.dual_class(1.0);
    assert_near(&shares.totals(), &[7.6, 4.75]);
    let distance = distance_max(&shares.totals(), &multipath.totals);
    assert!((0.2307..0.2309).contains(&distance), "{distance}");
}

#[test]
fn a_demand_that_is_met_leaves_the_rest_to_others() {
    let flows = vec![Flow::new([vec![0]]).with_demand(1.0), Flow::new([vec![0], vec![1]])];
    let problem = Problem::new(vec![10.0, 2.0], flows).unwrap();
    assert_near(&problem.single_path(&[0, 0]).unwrap(), &[1.0, 9.0]);
    assert_near(&problem.multipath().unwrap().totals, &[1.0, 11.0]);
    assert_near(&problem.dual_class(1.0).totals(), &[1.0, 11.0]);

    // The demand holds for primary and secondary together.
    let flows = vec![Flow::new([vec![0], vec![1]]).with_demand(11.0)];
    let shares = Problem::new(vec![10.0, 2.0], flows).unwrap().dual_class(1.0);
    assert_near(&shares.primary, &[10.0]);
    assert_near(&shares.totals(), &[11.0]);
}

#[test]
fn a_flow_stays_when_moving_gains_less_than_the_hysteresis() {
    // Three flows on two links, 10 and 10.9: the third has 5.45 on the second against 5.
    let two_ways = || Flow::new([vec![0], vec![1]]);
    let flows = vec![Flow::new([vec![0]]), Flow::new([vec![1]]), two_ways()];
    let problem = Problem::new(vec![10.0, 10.9], flows).unwrap();
    let choices = |switch_gain| -> Vec<usize> {
        let found = problem.dual_class_fixed_points(switch_gain, 10).unwrap();
        found.iter().map(|shares| shares.best[2]).collect()
    };
    assert_eq!(choices(1.0), [1]);
    assert_eq!(choices(1.1), [0, 1]);
    assert!(problem.dual_class_fixed_points(1.0, 1).is_none());
    assert!(!problem.dual_class_on(&[0, 0, 0]).unwrap().settled);
}

#[test]
fn of_equal_paths_the_shorter_is_taken_then_the_first() {
    let flow = Flow::new([vec![0, 1], vec![2], vec![3]]);
    let problem = Problem::new(vec![5.0; 4], vec![flow]).unwrap();
    assert_eq!(problem.dual_class(1.0).best, [1]);
}

#[test]
fn links_without_capacity_carry_nothing() {
    let flows = vec![Flow::new([vec![0], vec![1]]), Flow::new([vec![1]])];
    let problem = Problem::new(vec![0.0, 4.0], flows.clone()).unwrap();
    assert_near(&problem.multipath().unwrap().totals, &[2.0, 2.0]);
    assert_near(&problem.dual_class(1.0).totals(), &[2.0, 2.0]);
    let problem = Problem::new(vec![0.0, 0.0], flows).unwrap();
    assert_eq!(problem.multipath().unwrap().totals, [0.0, 0.0]);
    assert_eq!(problem.dual_class(1.0).totals(), [0.0, 0.0]);
    let no_flows = Problem::new(vec![1.0], Vec::new()).unwrap();
    assert!(no_flows.multipath().unwrap().totals.is_empty());
    assert!(no_flows.dual_class(1.0).totals().is_empty());
}

#[test]
fn what_is_no_problem_is_refused() {
    let refused = |capacities: &[f64], flow: Flow| {
        Problem::new(capacities.to_vec(), vec![flow]).unwrap_err().to_string()
    };
    let flow = || Flow::new([vec![0]]);
    assert_eq!(
        refused(&[-1.0], flow()),
        "link 0 has the capacity -1; it must be a number of zero or more"
    );
    assert!(refused(&[f64::NAN], flow()).contains("NaN"));
    assert!(
        refused(&[1.0], flow().with_demand(f64::INFINITY)).starts_with("flow 0 has the demand")
    );
    assert!(refused(&[1.0], Flow::default()).contains("no path"));
    assert!(refused(&[1.0], Flow::new([vec![]])).contains("no path"));
    assert!(refused(&[1.0], Flow::new([vec![1]])).contains("no such link among 1"));
    assert!(refused(&[1.0], Flow::new([vec![0, 0]])).contains("twice"));
    let problem = Problem::new(vec![1.0], vec![flow()]).unwrap();
    for choice in [&[][..], &[1], &[0, 0]] {
        assert!(matches!(problem.single_path(choice), Err(OracleError::Choice { .. })));
    }
}

#[test]
fn figures_of_comparison_are_as_defined() {
    assert_eq!(jain_index(&[3.0, 3.0, 3.0]), 1.0);
    assert_eq!(jain_index(&[4.0, 0.0, 0.0, 0.0]), 0.25);
    assert_eq!(jain_index(&[]), 1.0);
    assert_eq!(distance_max(&[1.0, 1.5], &[1.0, 2.0]), 0.25);
    assert_eq!(distance_max(&[0.0], &[0.0]), 0.0);
    assert_eq!(distance_max(&[0.1], &[0.0]), f64::INFINITY);
    assert_eq!(distance_max(&[1.0], &[1.0, 1.0]), f64::INFINITY);
    assert!(distance_max(&[f64::NAN, 1.0], &[1.0, 1.0]).is_nan());
}

/// A problem of a few links and flows whose paths are any sets of links.
fn drawn(seed: u64, links_max: u32, flows_max: u32, paths_max: u32) -> Problem {
    let rng = &mut Rng::new(seed, 0x0bac);
    let links = 1 + rng.below(links_max) as usize;
    // Whole numbers, some of them equal, make ties and degenerate corners common.
    let capacities = (0..links).map(|_| f64::from(1 + rng.below(20))).collect();
    let flows = (0..1 + rng.below(flows_max)).map(|_| {
        let paths = (0..1 + rng.below(paths_max)).map(|_| {
            let mut path = vec![rng.below(links as u32) as usize];
            for link in 0..links {
                if rng.chance(0.25) && !path.contains(&link) {
                    path.push(link);
                }
            }
            path
        });
        let flow = Flow::new(paths.collect::<Vec<_>>());
        if rng.chance(0.2) { flow.with_demand(f64::from(rng.below(12))) } else { flow }
    });
    let flows = flows.collect();
    Problem::new(capacities, flows).unwrap()
}

fn assert_feasible(problem: &Problem, split: &[Vec<f64>], seed: u64) {
    for (load, capacity) in problem.loads(split).iter().zip(problem.capacities()) {
        assert!(*load <= capacity + NEAR, "seed {seed}: {load} on a link of {capacity}");
    }
    for (flow, rates) in problem.flows().iter().zip(split) {
        let total: f64 = rates.iter().sum();
        assert!(rates.iter().all(|rate| *rate >= 0.0), "seed {seed}: {rates:?}");
        assert!(total <= flow.demand.unwrap_or(f64::INFINITY) + NEAR, "seed {seed}: {total}");
    }
}

/// That each rate is at its demand or has the largest share of a full link: the condition of
/// max-min shares (Bertsekas and Gallager 1992, section 6.5.2).
fn assert_bottlenecks(capacities: &[f64], routes: &[&[usize]], rates: &[f64], demands: &[f64]) {
    let users = |link: usize| (0..routes.len()).filter(move |&other| routes[other].contains(&link));
    for (index, route) in routes.iter().enumerate() {
        let held = |&link: &usize| {
            let load: f64 = users(link).map(|other| rates[other]).sum();
            let most = users(link).map(|other| rates[other]).fold(0.0, f64::max);
            load >= capacities[link] - NEAR && rates[index] >= most - NEAR
        };
        let met = rates[index] >= demands[index] - NEAR;
        assert!(met || route.iter().any(held), "{index} of {rates:?}");
    }
}

#[test]
fn every_single_path_rate_has_a_bottleneck() {
    for seed in 0..2_000 {
        let problem = drawn(seed, 8, 8, 1);
        let choice = vec![0; problem.flows().len()];
        let rates = problem.single_path(&choice).unwrap();
        let split: Vec<Vec<f64>> = rates.iter().map(|&rate| vec![rate]).collect();
        assert_feasible(&problem, &split, seed);
        let routes: Vec<&[usize]> = problem.flows().iter().map(|flow| &flow.paths[0][..]).collect();
        let demands = problem.flows().iter().map(|flow| flow.demand.unwrap_or(f64::INFINITY));
        let demands: Vec<f64> = demands.collect();
        assert_bottlenecks(problem.capacities(), &routes, &rates, &demands);
    }
}

#[test]
fn with_one_path_each_multipath_and_two_classes_are_water_filling() {
    for seed in 0..500 {
        let problem = drawn(seed, 8, 6, 1);
        let rates = problem.single_path(&vec![0; problem.flows().len()]).unwrap();
        assert_near(&problem.multipath().unwrap().totals, &rates);
        let shares = problem.dual_class(1.0);
        assert_near(&shares.primary, &rates);
        assert_near(&shares.totals(), &rates);
    }
}

#[test]
fn multipath_totals_are_feasible_and_reached_by_their_split() {
    for seed in 0..500 {
        let problem = drawn(seed, 8, 6, 4);
        let allocation = problem.multipath().unwrap();
        assert_feasible(&problem, &allocation.split, seed);
        let sums: Vec<f64> = allocation.split.iter().map(|rates| rates.iter().sum()).collect();
        assert_near(&sums, &allocation.totals);
    }
}

#[test]
fn rates_scale_with_capacities() {
    for seed in 0..200 {
        let problem = drawn(seed, 6, 5, 3);
        let scale = 1e6;
        let capacities = problem.capacities().iter().map(|capacity| capacity * scale).collect();
        let flows = problem
            .flows()
            .iter()
            .map(|flow| Flow { demand: flow.demand.map(|demand| demand * scale), ..flow.clone() });
        let scaled = Problem::new(capacities, flows.collect()).unwrap();
        let back = |rates: &[f64]| rates.iter().map(|rate| rate / scale).collect::<Vec<_>>();
        let (small, large) = (problem.multipath().unwrap(), scaled.multipath().unwrap());
        assert_near(&back(&large.totals), &small.totals);
        let (small, large) = (problem.dual_class(1.0), scaled.dual_class(1.0));
        assert_eq!(small.best, large.best, "seed {seed}");
        assert_near(&back(&large.totals()), &small.totals());
    }
}

/// Calls `visit` with the totals of every feasible split whose rates are multiples of `step`.
fn each_split(problem: &Problem, step: f64, visit: &mut dyn FnMut(&[f64])) {
    fn descend(
        problem: &Problem,
        step: f64,
        at: (usize, usize),
        left: &mut [f64],
        totals: &mut [f64],
        visit: &mut dyn FnMut(&[f64]),
    ) {
        let (flow, path) = at;
        let Some(current) = problem.flows().get(flow) else {
            return visit(totals);
        };
        let Some(links) = current.paths.get(path) else {
            return descend(problem, step, (flow + 1, 0), left, totals, visit);
        };
        let demand = current.demand.unwrap_or(f64::INFINITY);
        let mut steps = 0;
        loop {
            descend(problem, step, (flow, path + 1), left, totals, visit);
            let fits = links.iter().all(|&link| left[link] >= step - NEAR);
            if !fits || totals[flow] + step > demand + NEAR {
                break;
            }
            steps += 1;
            totals[flow] += step;
            links.iter().for_each(|&link| left[link] -= step);
        }
        totals[flow] -= f64::from(steps) * step;
        links.iter().for_each(|&link| left[link] += f64::from(steps) * step);
    }
    let mut left = problem.capacities().to_vec();
    let mut totals = vec![0.0; problem.flows().len()];
    descend(problem, step, (0, 0), &mut left, &mut totals, visit);
}

/// Whether the smallest of `a` is larger than that of `b`, or equal and the next one is..
fn is_fairer(a: &[f64], b: &[f64]) -> bool {
    let sorted = |rates: &[f64]| {
        let mut rates = rates.to_vec();
        rates.sort_by(f64::total_cmp);
        rates
    };
    let (a, b) = (sorted(a), sorted(b));
    let differ = a.iter().zip(&b).find(|(a, b)| (**a - **b).abs() > 1e-4);
    differ.is_some_and(|(a, b)| a > b)
}

#[test]
fn no_split_of_tiny_problems_is_fairer_than_multipath() {
    let mut compared = 0u64;
    let mut met = 0;
    for seed in 0..300 {
        let rng = &mut Rng::new(seed, 0x71);
        let links = 2 + rng.below(2) as usize;
        let capacities = (0..links).map(|_| f64::from(1 + rng.below(3))).collect();
        let flows = (0..2 + rng.below(2)).map(|_| {
            let mut paths: Vec<Vec<usize>> = Vec::new();
            for _ in 0..1 + rng.below(2) {
                let mut path: Vec<usize> = (0..links).filter(|_| rng.chance(0.4)).collect();
                if path.is_empty() {
                    path.push(rng.below(links as u32) as usize);
                }
                paths.push(path);
            }
            Flow::new(paths)
        });
        let flows = flows.collect();
        let problem = Problem::new(capacities, flows).unwrap();
        let allocation = problem.multipath().unwrap();
        assert_feasible(&problem, &allocation.split, seed);
        let mut reached = false;
        each_split(&problem, 0.5, &mut |totals| {
            compared += 1;
            assert!(
                !is_fairer(totals, &allocation.totals),
                "seed {seed}: {totals:?} is fairer than {:?} in {problem:?}",
                allocation.totals
            );
            reached |= !is_fairer(&allocation.totals, totals);
        });
        met += u32::from(reached);
    }
    // Most of these have their answer on the grid, so that it is not only bounded but found.
    assert!(compared > 10_000 && met > 150, "{compared} splits, {met} answers found");
}

#[test]
fn two_classes_are_feasible_settled_and_leave_no_path_open() {
    for seed in 0..1_000 {
        let problem = drawn(seed, 8, 6, 4);
        let shares = problem.dual_class(1.0);
        assert!(shares.settled, "seed {seed}");
        assert_feasible(&problem, &shares.split(), seed);
        // No flow gains by moving its primary, tried by hand.
        let primary = |choice: &[usize]| problem.single_path(choice).unwrap();
        assert_eq!(primary(&shares.best), shares.primary);
        for (flow, paths) in problem.flows().iter().map(|flow| flow.paths.len()).enumerate() {
            for path in 0..paths {
                let mut moved = shares.best.clone();
                moved[flow] = path;
                let rate = primary(&moved)[flow];
                assert!(rate <= shares.primary[flow] + NEAR, "seed {seed}: flow {flow} gains");
            }
        }
        // Secondaries are max-min among subflows on what primaries leave.
        let mut split = vec![];
        for (flow, &best) in problem.flows().iter().zip(&shares.best) {
            split.push(vec![0.0; flow.paths.len()]);
            let at = split.len() - 1;
            split[at][best] = shares.primary[at];
        }
        let taken = problem.loads(&split);
        let left: Vec<f64> =
            problem.capacities().iter().zip(&taken).map(|(all, taken)| all - taken).collect();
        if problem.flows().iter().all(|flow| flow.demand.is_none()) {
            let routes = problem.flows().iter().flat_map(|flow| flow.paths.iter().map(|p| &p[..]));
            let routes: Vec<&[usize]> = routes.collect();
            let rates: Vec<f64> = shares.secondary.concat();
            assert_bottlenecks(&left, &routes, &rates, &vec![f64::INFINITY; rates.len()]);
        }
    }
}

#[test]
fn the_search_ends_in_one_of_the_fixed_points() {
    let mut several = 0;
    for seed in 0..300 {
        let problem = drawn(seed, 6, 4, 3);
        for switch_gain in [1.0, 1.1] {
            let points = problem.dual_class_fixed_points(switch_gain, 1_000).unwrap();
            let found = problem.dual_class(switch_gain);
            assert!(points.contains(&found), "seed {seed}, gain {switch_gain}");
            several += u32::from(points.len() > 1);
        }
    }
    assert!(several > 0);
}
