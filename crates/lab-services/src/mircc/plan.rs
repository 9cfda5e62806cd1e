//! The plan of flows: when each begins, what it fetches, and when it is stopped.

use std::time::Duration;

use paceline_proto::core::Rng;

/// A flow of a scenario; its number is its place in the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which consumer of the network fetches.
    pub consumer: usize,
    /// When it begins.
    pub begins: Duration,
    /// When it is stopped; none if it ends with its object.
    pub stops: Option<Duration>,
    /// Segments of its object; none for more than it can fetch.
    pub segments: Option<u64>,
    /// True if it is one of the long ones of a mix.
    pub is_long: bool,
}

/// The flows of a scenario, by their beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The flows.
    pub steps: Vec<Step>,
    /// Segments of objects that are never fetched whole.
    pub segments_max: u64,
    /// Times at which the set of flows changes, the first one included.
    pub changes: Vec<Duration>,
}

/// A mix of short and long flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Time from one arrival to the next.
    pub every: Duration,
    /// Segments of a short flow.
    pub short: u64,
    /// Segments of a long one.
    pub long: u64,
    /// The share of long ones.
    pub long_share: f64,
}

/// The stream from which plans are drawn.
const STREAM: u64 = 0x706c_616e;

impl Plan {
    /// One flow a consumer, from the beginning to the end.
    pub fn steady(consumers: usize) -> Plan {
        let step = |consumer| Step {
            consumer,
            begins: Duration::ZERO,
            stops: None,
            segments: None,
            is_long: true,
        };
        Plan::of((0..consumers).map(step).collect())
    }

    /// One flow a consumer; they arrive one after another, and leave in the same order.
    pub fn arrivals(consumers: usize, every: Duration) -> Plan {
        let step = |consumer| Step {
            consumer,
            begins: every * consumer as u32,
            stops: Some(every * (consumers + consumer) as u32),
            segments: None,
            is_long: true,
        };
        Plan::of((0..consumers).map(step).collect())
    }

    /// The first consumer's flow is there all the time, the others' in the middle third.
    pub fn visit(consumers: usize, every: Duration) -> Plan {
        let step = |consumer| Step {
            consumer,
            begins: if consumer == 0 { Duration::ZERO } else { every },
            stops: (consumer > 0).then_some(every * 2),
            segments: None,
            is_long: true,
        };
        Plan::of((0..consumers).map(step).collect())
    }

    /// Flows at a fixed interval, each at a random consumer, short or long.
    pub fn mix(consumers: usize, mix: &Mix, until: Duration, seed: u64) -> Plan {
        let mut rng = Rng::new(seed, STREAM);
        let count = (until.as_nanos() / mix.every.as_nanos().max(1)) as u32;
        let step = |number| {
            let consumer = rng.below(consumers as u32) as usize;
            let is_long = rng.chance(mix.long_share);
            let segments = Some(if is_long { mix.long } else { mix.short });
            Step { consumer, begins: mix.every * number, stops: None, segments, is_long }
        };
        Plan::of((0..count).map(step).collect())
    }

    /// Each consumer starts `flows` flows in the first second, of sizes drawn from `sizes`.
    pub fn drawn(consumers: usize, flows: usize, sizes: &[u64], seed: u64) -> Plan {
        let mut rng = Rng::new(seed, STREAM);
        let step = |number| {
            let begins = Duration::from_secs(1).mul_f64(rng.unit());
            let segments = sizes.get(rng.below(sizes.len() as u32) as usize).copied();
            Step { consumer: number % consumers, begins, stops: None, segments, is_long: false }
        };
        Plan::of((0..consumers * flows).map(step).collect())
    }

    fn of(steps: Vec<Step>) -> Plan {
        let begins = steps.iter().map(|step| step.begins);
        let mut changes: Vec<Duration> =
            begins.chain(steps.iter().filter_map(|step| step.stops)).collect();
        changes.sort_unstable();
        changes.dedup();
        // As many as a payload of zeros has bytes for.
        Plan { steps, segments_max: 1 << 21, changes }
    }

    /// True if flows end by being stopped, or not at all.
    pub fn is_open_ended(&self) -> bool {
        self.steps.iter().any(|step| step.segments.is_none())
    }

    /// The flows that are there at a time, as far as the plan says.
    pub fn active(&self, at: Duration) -> Vec<usize> {
        let is_there = |step: &Step| step.begins <= at && step.stops.is_none_or(|stops| at < stops);
        let steps = self.steps.iter().enumerate();
        steps.filter(|(_, step)| is_there(step)).map(|(flow, _)| flow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn flows_that_arrive_one_after_another_leave_in_the_same_order() {
        let plan = Plan::arrivals(4, 3 * S);
        let there = |second: u32| plan.active(S * second).len();
        let counts = [0, 3, 6, 9, 12, 15, 18, 21].map(there);
        assert_eq!((counts, plan.changes.len()), ([1, 2, 3, 4, 3, 2, 1, 0], 8));
        assert!(plan.is_open_ended());
    }

    #[test]
    fn a_visit_is_the_middle_third() {
        let plan = Plan::visit(2, 10 * S);
        assert_eq!(
            [5, 15, 25].map(|second| plan.active(S * second)),
            [vec![0], vec![0, 1], vec![0]]
        );
    }

    #[test]
    fn what_is_drawn_depends_on_the_seed_alone() {
        let mix = Mix { every: S / 2, short: 200, long: 20_000, long_share: 0.3 };
        let plan = Plan::mix(5, &mix, 60 * S, 1);
        assert_eq!(plan, Plan::mix(5, &mix, 60 * S, 1));
        assert_ne!(plan, Plan::mix(5, &mix, 60 * S, 2));
        let long = plan.steps.iter().filter(|step| step.is_long).count();
        assert!(plan.steps.len() == 120 && (20..55).contains(&long), "{long}");
        assert!(!plan.is_open_ended());
        let drawn = Plan::drawn(8, 1, &[2_000, 8_000, 30_000], 1);
        assert_eq!(drawn.steps.iter().map(|step| step.consumer).max(), Some(7));
    }
}
