//! Forwarding strategies: the next hops that an Interest without a path label takes.
//!
//! An Interest with a path label goes where the label says, and one that
//! [discovers paths](crate::ndn::Header::discovers) goes to a next hop at random; both are MIRCC's.
//! All others, which is what stock NDN clients send, go by the strategy of their prefix.
//!
//! Each next hop of a prefix has a record of its own: a neighbour may answer for one prefix and not
//! for another. A hop is *down* once an Interest became overdue there and nothing of the prefix
//! came from it since that Interest left. A hop that is down is used only where no other is left,
//! and is probed with copies of Interests that another hop answers, at intervals that double.
//!
//! Source: best-route, multicast and ASF of NFD (*NFD Developer's Guide*, section 5).
//! NFD tries another next hop when the consumer sends again; here the forwarder does so itself as
//! well, once Data is overdue or a hop refused.

use std::time::Duration;

use smallvec::SmallVec;

use super::face_id::NextHop;
use super::round_trip::RoundTrip;
use crate::core::Instant;

/// The choice of a next hop for an Interest that has no path label and discovers no paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The next hop of the lowest cost that is not down; the others are for fail-over. The default.
    #[default]
    BestRoute,
    /// All next hops at once that are not down: the first Data counts. Costs the Data of each hop.
    /// Where all are down each has its turn.
    Multicast,
    /// The next hop with the shortest smoothed round trip that is not down. Hops that are not in
    /// use are measured every 5 s with a copy of an Interest.
    Adaptive,
}

/// A next hop of a prefix, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    /// Lower is preferred.
    pub(super) cost: u32,
    pub(super) next: NextHop,
    pub(super) health: Health,
}

/// The record of a next hop, for its prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    answered_at: Option<Instant>,
    sent_at: Option<Instant>,
    round_trip: RoundTrip,
    down: Option<Down>,
    // The hash of the name of the last probe, and when it was sent; none once it was answered.
    probe: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, Debug)]
struct Down {
    probe_at: Instant,
    backoff: Duration,
}

/// Time until a hop that is down is probed for the first time; doubles with each probe.
const PROBE_AFTER: Duration = Duration::from_secs(1);
/// The longest time between two probes.
const PROBE_AFTER_MAX: Duration = Duration::from_secs(16);
/// How often the adaptive strategy measures a hop that it does not use.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// A hop must be faster by this part of the round trip to be used instead of the present one.
const SWITCH_PART: u32 = 10;

impl Health {
    /// Data of the prefix came from the hop. Returns true if it was down.
    pub(super) fn note_answer(&mut self, now: Instant, round_trip: Option<Duration>) -> bool {
        self.answered_at = Some(now);
        if let Some(sample) = round_trip {
            self.round_trip.note(sample);
        }
        self.probe = None;
        self.down.take().is_some()
    }

    /// An Interest that left for the hop at `left_at`, for a name of this hash, is overdue. Returns
    /// true if the hop is now down and was not before. Data that comes all the same is as good as
    /// the answer to a probe.
    pub(super) fn note_overdue(&mut self, now: Instant, hash: u64, left_at: Instant) -> bool {
        if self.has_answered_since(left_at) || self.down.is_some() {
            return false;
        }
        self.down = Some(Down { probe_at: now + PROBE_AFTER, backoff: PROBE_AFTER });
        self.probe = Some((hash, left_at));
        true
    }

    /// True if the probe that is out was for the name of this hash; says how long ago it left.
    pub(super) fn probed(&self, now: Instant, hash: u64) -> Option<Duration> {
        self.probe.filter(|&(of, _)| of == hash).map(|(_, sent_at)| now.since(sent_at))
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.is_some()
    }

    /// The smoothed round trip, once one was measured.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.mean()
    }

    fn has_answered_since(&self, at: Instant) -> bool {
        self.answered_at.is_some_and(|answered_at| answered_at >= at)
    }

    fn note_probe(&mut self, now: Instant, hash: u64) {
        // An unanswered measurement is the only sign that a hop which is not in use is dead.
        if let Some((hash, sent_at)) = self.probe {
            self.note_overdue(now, hash, sent_at);
        }
        if let Some(down) = &mut self.down {
            down.probe_at = now + down.backoff;
            down.backoff = (down.backoff * 2).min(PROBE_AFTER_MAX);
        }
        self.probe = Some((hash, now));
        self.sent_at = Some(now);
    }
}

/// Why the forwarder chooses a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The Interest has just come.
    New,
    /// Its consumer has sent it again.
    Again,
    /// A next hop refused it, or its Data is overdue there: only hops are left that did not have
    /// it.
    Failed,
}

/// Next hops that had an Interest, and when it was given to them.
pub(super) type Tried = SmallVec<[(NextHop, Instant); 2]>;

/// The next hops of an Interest.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Those that get the Interest.
    pub(super) asked: SmallVec<[NextHop; 2]>,
    /// Those that get a copy of it, to see whether they answer.
    pub(super) probed: SmallVec<[NextHop; 2]>,
}

impl Chosen {
    /// This one alone.
    pub(super) fn of(hop: NextHop) -> Chosen {
        Chosen { asked: SmallVec::from_iter([hop]), probed: SmallVec::new() }
    }

    /// All of them.
    pub(super) fn hops(&self) -> impl Iterator<Item = NextHop> {
        self.asked.iter().chain(&self.probed).copied()
    }
}

/// What a choice depends on beside the hops.
pub(super) struct Choosing<'a> {
    pub(super) now: Instant,
    pub(super) strategy: Strategy,
    pub(super) occasion: Occasion,
    /// The hash of the name.
    pub(super) hash: u64,
    pub(super) tried: &'a [(NextHop, Instant)],
}

impl Choosing<'_> {
    /// Chooses among hops, which are in the order of their costs, those that `may` be used.
    pub(super) fn choose(&self, hops: &mut [Hop], may: impl Fn(NextHop) -> bool) -> Chosen {
        let mut order: SmallVec<[usize; 4]> =
            (0..hops.len()).filter(|&place| may(hops[place].next)).collect();
        let mut chosen = Chosen::default();
        if self.strategy == Strategy::Adaptive {
            order.sort_by_key(|&place| rank(hops, place));
        }
        if self.strategy == Strategy::Multicast && self.occasion != Occasion::Failed {
            // Where copies of one Interest meet, a node answers the first only. It must not always
            // be the copy by a hop that returns no Data.
            let is_up = |&&place: &&usize| !hops[place].health.is_down();
            let up = order.iter().filter(is_up).map(|&place| hops[place].next);
            chosen.asked.extend(up);
        }
        let mut is_up = !chosen.asked.is_empty();
        if let Some(first) = self.first(hops, &order).filter(|_| !is_up) {
            let Hop { next, health, .. } = &mut hops[first];
            chosen.asked.push(*next);
            health.sent_at = Some(self.now);
            is_up = !health.is_down();
        }
        // With all of them down each has its turn, alone: a copy could be in its way.
        if self.occasion == Occasion::New && is_up {
            for place in order {
                let Hop { next, health, .. } = &mut hops[place];
                if !chosen.asked.contains(next) && self.is_probe_due(health) {
                    health.note_probe(self.now, self.hash);
                    chosen.probed.push(*next);
                }
            }
        }
        chosen
    }

    fn first(&self, hops: &[Hop], order: &[usize]) -> Option<usize> {
        let tried_at = |place: usize| {
            self.tried.iter().find(|(hop, _)| *hop == hops[place].next).map(|&(_, at)| at)
        };
        let health = |place: usize| &hops[place].health;
        // A repeated Interest goes to the same hop again if that hop answers other Interests.
        let answers = |&place: &usize| match tried_at(place) {
            None => true,
            Some(at) => self.occasion == Occasion::Again && health(place).has_answered_since(at),
        };
        let mut places = order.iter().copied();
        let found = places.find(|place| answers(place) && !health(*place).is_down());
        let untried = order.iter().copied().filter(|&place| tried_at(place).is_none());
        // All are down, or had it: each in turn.
        let found = found.or_else(|| untried.min_by_key(|&place| health(place).sent_at));
        found.or_else(|| match self.occasion {
            Occasion::Failed => None,
            _ => order.iter().copied().min_by_key(|&place| tried_at(place)),
        })
    }

    fn is_probe_due(&self, health: &Health) -> bool {
        match (&health.down, self.strategy) {
            (Some(down), _) => down.probe_at <= self.now,
            (None, Strategy::Adaptive) => {
                health.sent_at.is_none_or(|at| at + MEASURE_EVERY <= self.now)
            }
            (None, _) => false,
        }
    }
}

/// The adaptive strategy's preference for a hop: its time to answer, in nanoseconds. The hop in use
/// has an advantage, so that two hops of nearly equal times do not alternate.
fn rank(hops: &[Hop], place: usize) -> u64 {
    let last = hops.iter().filter_map(|hop| hop.health.sent_at).max();
    let health = &hops[place].health;
    let Some(mean) = health.round_trip() else { return u64::MAX };
    let is_used = health.sent_at.is_some() && health.sent_at == last;
    let mean = if is_used { mean - mean / SWITCH_PART } else { mean };
    u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::face_id::FaceId;
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn hop(slot: u32) -> NextHop {
        NextHop::Face(FaceId::first(slot))
    }

    fn hops(count: u32) -> Vec<Hop> {
        let hop = |slot| Hop { cost: slot, next: hop(slot), health: Health::default() };
        (0..count).map(hop).collect()
    }

    fn choose(
        hops: &mut [Hop],
        (millis, strategy, occasion): (u64, Strategy, Occasion),
        tried: &[(NextHop, Instant)],
    ) -> Vec<NextHop> {
        let choosing = Choosing { now: at(millis), strategy, occasion, hash: 7, tried };
        choosing.choose(hops, |_| true).hops().collect()
    }

    const BEST: Strategy = Strategy::BestRoute;

    #[test]
    fn a_hop_is_down_only_if_it_was_silent_since_the_overdue_interest_left() {
        let mut hops = hops(2);
        hops[0].health.note_answer(at(20), None);
        assert!(!hops[0].health.note_overdue(at(1_010), 1, at(10)));
        assert!(hops[0].health.note_overdue(at(1_030), 1, at(30)));
        assert!(!hops[0].health.note_overdue(at(1_040), 1, at(40)), "it is down already");
        assert_eq!(choose(&mut hops, (1_050, BEST, Occasion::New), &[]), [hop(1)]);
        assert!(hops[0].health.note_answer(at(1_060), None));
        assert_eq!(choose(&mut hops, (1_070, BEST, Occasion::New), &[]), [hop(0)]);
    }

    #[test]
    fn a_hop_that_is_down_is_probed_ever_more_rarely() {
        let mut hops = hops(2);
        hops[0].health.note_overdue(at(0), 1, at(0));
        let seconds = (0..400).filter(|tenth| {
            let chosen = choose(&mut hops, (tenth * 100, BEST, Occasion::New), &[]);
            assert_eq!(chosen[0], hop(1));
            chosen.len() == 2
        });
        assert_eq!(seconds.collect::<Vec<_>>(), [10, 20, 40, 80, 160, 320]);
    }

    #[test]
    fn after_a_failure_each_hop_is_tried_once_and_hops_that_are_down_last() {
        let mut hops = hops(3);
        hops[1].health.note_overdue(at(0), 1, at(0));
        let failed = |hops: &mut [Hop], tried: &[u32]| {
            let tried: Vec<_> = tried.iter().map(|&slot| (hop(slot), at(1))).collect();
            choose(hops, (10, BEST, Occasion::Failed), &tried)
        };
        assert_eq!(failed(&mut hops, &[0]), [hop(2)]);
        assert_eq!(failed(&mut hops, &[0, 2]), [hop(1)]);
        assert_eq!(failed(&mut hops, &[0, 1, 2]), []);
    }

    #[test]
    fn a_consumer_that_sends_again_gets_the_same_hop_if_that_answers_and_else_another() {
        let mut hops = hops(2);
        let tried = [(hop(0), at(10))];
        assert_eq!(choose(&mut hops, (50, BEST, Occasion::Again), &tried), [hop(1)]);
        hops[0].health.note_answer(at(20), None);
        assert_eq!(choose(&mut hops, (50, BEST, Occasion::Again), &tried), [hop(0)]);
        // With none left that is known to answer, the one that had it longest ago.
        let tried = [(hop(0), at(30)), (hop(1), at(25))];
        assert_eq!(choose(&mut hops, (50, BEST, Occasion::Again), &tried), [hop(1)]);
    }

    #[test]
    fn with_all_hops_down_each_has_its_turn() {
        let mut hops = hops(2);
        hops.iter_mut().for_each(|hop| _ = hop.health.note_overdue(at(0), 1, at(0)));
        let turns = [1, 2, 3_000, 4_000]
            .map(|millis| choose(&mut hops, (millis, BEST, Occasion::New), &[]));
        assert_eq!(turns, [[hop(0)], [hop(1)], [hop(0)], [hop(1)]]);
    }

    #[test]
    fn multicast_takes_all_hops_that_are_not_down_and_has_the_others_left_after_a_failure() {
        let mut hops = hops(3);
        let new = |hops: &mut [Hop], millis| {
            choose(hops, (millis, Strategy::Multicast, Occasion::New), &[])
        };
        assert_eq!(new(&mut hops, 0), [hop(0), hop(1), hop(2)]);
        hops[1].health.note_overdue(at(0), 1, at(0));
        assert_eq!(new(&mut hops, 1), [hop(0), hop(2)]);
        // A probe.
        assert_eq!(new(&mut hops, 1_000), [hop(0), hop(2), hop(1)]);
        let failed = |hops: &mut [Hop], tried: &[u32]| {
            let tried: Vec<_> = tried.iter().map(|&slot| (hop(slot), at(1))).collect();
            choose(hops, (1_010, Strategy::Multicast, Occasion::Failed), &tried)
        };
        assert_eq!(failed(&mut hops, &[0, 2]), [hop(1)]);
        assert_eq!(failed(&mut hops, &[0, 1, 2]), []);
        // With all of them down each has its turn, those first that had none.
        hops.iter_mut().for_each(|hop| _ = hop.health.note_overdue(at(0), 1, at(0)));
        let turns = [20_000, 40_000, 60_000, 80_000].map(|millis| new(&mut hops, millis));
        assert_eq!(turns, [[hop(0)], [hop(2)], [hop(1)], [hop(0)]]);
    }

    #[test]
    fn the_adaptive_strategy_measures_all_hops_and_uses_the_fastest() {
        let mut hops = hops(3);
        let adaptive = |hops: &mut [Hop], millis| {
            choose(hops, (millis, Strategy::Adaptive, Occasion::New), &[])
        };
        assert_eq!(adaptive(&mut hops, 0), [hop(0), hop(1), hop(2)]);
        for (hop, millis) in hops.iter_mut().zip([30, 10, 9]) {
            hop.health.note_answer(at(millis), Some(Duration::from_millis(millis)));
        }
        assert_eq!(adaptive(&mut hops, 100), [hop(2)]);
        // A tenth is no reason to move.
        hops[1].health.note_answer(at(110), Some(Duration::from_millis(6)));
        hops[1].health.note_answer(at(120), Some(Duration::from_millis(6)));
        assert_eq!(adaptive(&mut hops, 200), [hop(2)]);
        (0..20).for_each(|_| _ = hops[1].health.note_answer(at(210), Some(at(4).since(at(0)))));
        assert_eq!(adaptive(&mut hops, 300), [hop(1)]);
        // After 5 s the others are measured again; one that did not answer is down by then.
        assert_eq!(adaptive(&mut hops, 5_300), [hop(1), hop(2), hop(0)]);
        hops[2].health.note_answer(at(5_310), Some(Duration::from_millis(9)));
        assert_eq!(adaptive(&mut hops, 10_400), [hop(1), hop(2), hop(0)]);
        assert!(hops[0].health.is_down() && !hops[2].health.is_down());
    }
}
