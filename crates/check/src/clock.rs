//! Clocks with offset and drift.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, Lane, Membership, NodeId, Protocol, Rng};
use paceline_sim::{Fault, Input, Observer, Reply};

/// The clock of a node, in place of the time of the run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What it shows when the run begins.
    offset: Duration,
    /// How fast it goes, in millionths more than 10^6.
    drift_ppm: i64,
}

impl Clock {
    /// A clock that is up to six hours ahead, and gains or loses up to this.
    pub fn draw(rng: &mut Rng, drift_ppm_max: u32) -> Clock {
        let offset = Duration::from_nanos(rng.next_u64() % (6 * 3_600 * 1_000_000_000));
        let drift_ppm = i64::from(rng.below(2 * drift_ppm_max + 1)) - i64::from(drift_ppm_max);
        Clock { offset, drift_ppm }
    }

    fn rate_ppm(self) -> u128 {
        (1_000_000 + self.drift_ppm) as u128
    }

    /// What it shows at this time of the run.
    pub fn shows(self, at: Instant) -> Instant {
        let gone = u128::from(at.as_nanos()) * self.rate_ppm() / 1_000_000;
        Instant::from_nanos(gone as u64) + self.offset
    }

    /// The first time of the run at which it shows this.
    pub fn time(self, shown: Instant) -> Instant {
        let gone = u128::from(shown.as_nanos().saturating_sub(self.offset.as_nanos() as u64));
        let time = (gone * 1_000_000).div_ceil(self.rate_ppm());
        Instant::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// The clocks of a run's nodes, each drawn when the node starts: one that restarts has another, as
/// if its machine had been set meanwhile. By default nodes go by the time of the run.
#[derive(Clone, Debug, Default)]
pub struct Clocks(Option<Arc<Mutex<Drawn>>>);

#[derive(Debug)]
struct Drawn {
    rng: Rng,
    drift_ppm_max: u32,
    clocks: BTreeMap<NodeId, Clock>,
    counts: ClockCounts,
}

/// How many clocks of a run were wrong, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockCounts {
    /// An hour ahead of the run at least.
    pub ahead: u64,
    /// A thousandth too fast or too slow at least.
    pub drifting: u64,
    /// Replaced the clock that their node had before it restarted.
    pub replaced: u64,
}

impl Clocks {
    /// Clocks that gain or lose up to this.
    pub fn new(seed: u64, drift_ppm_max: u32) -> Clocks {
        let (rng, clocks) = (Rng::new(seed, 0xc10c), BTreeMap::new());
        let counts = ClockCounts::default();
        Clocks(Some(Arc::new(Mutex::new(Drawn { rng, drift_ppm_max, clocks, counts }))))
    }

    /// The clock of a node that starts now.
    ///
    /// # Panics
    /// If nodes use the time of the run.
    pub fn draw(&self, node: NodeId) -> Clock {
        let drawn = self.0.as_ref().expect("there are clocks to draw");
        let mut drawn = drawn.lock().expect("no panic under the lock");
        let Drawn { rng, drift_ppm_max, clocks, counts } = &mut *drawn;
        let clock = Clock::draw(rng, *drift_ppm_max);
        counts.ahead += u64::from(clock.offset >= Duration::from_secs(3_600));
        counts.drifting += u64::from(clock.drift_ppm.abs() >= 1_000);
        counts.replaced += u64::from(clocks.insert(node, clock).is_some());
        clock
    }

    /// What the clock of a node shows at this time of the run.
    pub fn shows(&self, node: NodeId, at: Instant) -> Instant {
        let Some(drawn) = &self.0 else { return at };
        let drawn = drawn.lock().expect("no panic under the lock");
        drawn.clocks.get(&node).map_or(at, |clock| clock.shows(at))
    }

    /// How many were wrong so far.
    pub fn counts(&self) -> ClockCounts {
        let drawn = self.0.as_ref().map(|drawn| drawn.lock().expect("no panic under the lock"));
        drawn.map(|drawn| drawn.counts).unwrap_or_default()
    }
}

/// Shows an observer what each node does at the time that the node's clock shows: what a node
/// promises by a length of time it promises by its own clock.
#[derive(Debug)]
pub struct ByClock<O> {
    /// The clocks.
    pub clocks: Clocks,
    /// The observer of the nodes.
    pub observer: O,
}

impl<P: Protocol, O: Observer<P>> Observer<P> for ByClock<O> {
    fn before_call(&mut self, at: Instant, node: NodeId, protocol: &P, input: &Input<'_, P>) {
        self.observer.before_call(self.clocks.shows(node, at), node, protocol, input);
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &P::Event, reply: &mut Reply<P>) {
        self.observer.on_event(self.clocks.shows(node, at), node, event, reply);
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &P::Message) {
        self.observer.on_send(self.clocks.shows(from, at), from, to, lane, message);
    }

    fn on_send_group(&mut self, at: Instant, from: NodeId, group: GroupId, message: &P::Message) {
        self.observer.on_send_group(self.clocks.shows(from, at), from, group, message);
    }

    fn on_membership(&mut self, at: Instant, node: NodeId, group: GroupId, membership: Membership) {
        self.observer.on_membership(self.clocks.shows(node, at), node, group, membership);
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.observer.after_call(self.clocks.shows(node, at), node, protocol, reply);
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        match *fault {
            // It lasts as long as the node's clock says.
            Fault::Pause(node, time) => {
                let [from, until] = [at, at + time].map(|at| self.clocks.shows(node, at));
                self.observer.on_fault(from, &Fault::Pause(node, until - from));
            }
            _ => self.observer.on_fault(at, fault),
        }
    }

    fn on_wake(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.observer.on_wake(self.clocks.shows(node, at), node, protocol, reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_time_from_then_on_and_not_before() {
        let mut rng = Rng::new(3, 4);
        let mut apart = 0;
        for _ in 0..1_000 {
            let clock = Clock::draw(&mut rng, 10_000);
            let at = Instant::from_nanos(rng.next_u64() >> 24);
            let shown = clock.shows(at);
            assert!(clock.time(shown) <= at);
            let later = shown + Duration::from_nanos(u64::from(rng.next_u32()));
            let time = clock.time(later);
            assert!(clock.shows(time) >= later);
            assert!(clock.shows(Instant::from_nanos(time.as_nanos() - 1)) < later);
            apart += u64::from(shown > at + Duration::from_secs(3_600));
        }
        assert!(apart > 500, "{apart} clocks were an hour ahead");
    }
}
