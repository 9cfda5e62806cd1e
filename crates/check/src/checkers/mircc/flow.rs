use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};
use paceline_proto::mircc::{Config, Fetch, FlowCounts, Multipath, Object, Pace};
use paceline_proto::ndn::{Class, Data, PathLabel};

use super::{Broken, Rule};

/// Paths of a flow that are remembered.
const PATHS_MAX: usize = 64;
/// Interests that a flow with a limit may send beyond it, one after another: those that look for
/// paths, and what the limit did not know the size of.
const BEYOND_LIMIT: f64 = 24.0;
/// Interests a second that look whether something was lost.
const LOOKS_PER_SECOND: f64 = 2.0;
/// Round trips of a window in which a flow must not starve.
const WINDOW_TRIPS: u32 = 10;

/// What a backlogged flow is to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// By max-min, bit/s of Data.
    pub bits_per_second: f64,
    /// Its round trip.
    pub round_trip: Duration,
}

/// What a consumer fetches.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) fetch: Fetch,
    /// The number of its object's name.
    pub(super) object: u32,
    /// Another flow of the node fetches, or fetched, the same.
    pub(super) is_shared: bool,
    /// A bit for each delivered segment.
    told: Vec<u64>,
    told_count: u64,
    /// The last rates that came by each path, by the neighbour and the label behind it.
    paths: Vec<(NodeId, PathLabel, (u64, u64))>,
    /// When each lane sent last.
    lanes: [Option<Instant>; 32],
    bytes_min: usize,
    /// Something came without stamps: a window may pace.
    is_windowed: bool,
    /// Interests that its own limit lets it send now.
    allowance: f64,
    allowed_at: Instant,
    /// When Interests were handed to links, of those that have left and are not counted yet.
    handed: BinaryHeap<Reverse<Instant>>,
    share: Option<(Share, Instant)>,
    window_bytes: u64,
}

impl Flow {
    pub(super) fn new(at: Instant, fetch: Fetch, object: u32) -> Flow {
        Flow {
            fetch,
            object,
            is_shared: false,
            told: Vec::new(),
            told_count: 0,
            paths: Vec::new(),
            lanes: [None; 32],
            bytes_min: usize::MAX,
            is_windowed: false,
            allowance: BEYOND_LIMIT,
            allowed_at: at,
            handed: BinaryHeap::new(),
            share: None,
            window_bytes: 0,
        }
    }

    /// From now on it is to have this share.
    pub(super) fn expect(&mut self, at: Instant, share: Share) {
        // Not in the first window.
        self.share = Some((share, at + share.round_trip * WINDOW_TRIPS * 2));
        self.window_bytes = 0;
    }

    /// Notes the delivery of a segment.
    pub(super) fn tell(
        &mut self,
        number: u64,
        (data, bytes): (&Data, usize),
        object: Option<&Object>,
    ) -> Result<(), Broken> {
        let wrong = |what: String| Err((Rule::Content, what));
        let name = self.fetch.name.with_segment(number);
        if *data.name() != name {
            return wrong(format!("delivered {} as {name}", data.name()));
        }
        let Some(object) = object else {
            return wrong(format!(
                "delivered {name}, which has no \
            producer"
            ));
        };
        let begin = usize::try_from(number).ok().and_then(|n| n.checked_mul(object.segment_bytes));
        let begin = begin.filter(|_| number < object.segments());
        let Some(begin) = begin else {
            return wrong(format!(
                "delivered {name}, which does not \
            exist"
            ));
        };
        let end = (begin + object.segment_bytes).min(object.content.len());
        if data.content() != object.content.slice(begin..end) {
            return wrong(format!("delivered {name} with other content than published"));
        }
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.told.len() <= word {
            self.told.resize(word + 1, 0);
        }
        let had = self.fetch.had.iter().any(|range| range.contains(&number));
        if self.told[word] & bit != 0 || had {
            return wrong(format!("delivered {name} a second time"));
        }
        self.told[word] |= bit;
        self.told_count += 1;
        self.bytes_min = self.bytes_min.min(bytes);
        self.window_bytes += bytes as u64;
        Ok(())
    }

    /// The delivered segment came by this path, which may be used at these rates; `None` if it was
    /// in the local store.
    pub(super) fn note_path(&mut self, path: Option<(NodeId, PathLabel)>, rates: (u64, u64)) {
        let Some((peer, label)) = path.filter(|_| rates.0 != u64::MAX) else {
            self.is_windowed = true;
            return;
        };
        match self.paths.iter_mut().find(|known| known.0 == peer && known.1 == label) {
            Some(known) => known.2 = rates,
            None => {
                if self.paths.len() == PATHS_MAX {
                    self.paths.remove(0);
                }
                self.paths.push((peer, label, rates));
            }
        }
    }

    /// A lane sends an Interest, or several.
    pub(super) fn check_lane(
        &mut self,
        at: Instant,
        lane: u8,
        (class, peer, label): (Class, NodeId, PathLabel),
        config: &Config,
    ) -> Result<(), Broken> {
        if self.fetch.pace != Pace::Rates || self.is_windowed || self.bytes_min == usize::MAX {
            return Ok(());
        }
        let known = self.paths.iter().find(|known| known.0 == peer && known.1 == label);
        let Some(&(.., (primary, secondary))) = known else { return Ok(()) };
        let rate = match class {
            // It looks for paths, after something that was here.
            Class::Secondary if lane == 0 => return Ok(()),
            // Such a one, too.
            Class::Primary if lane > 0 && self.fetch.multipath != Multipath::Sum => return Ok(()),
            Class::Primary => primary,
            Class::Secondary => secondary,
        };
        let rate = rate.min(self.fetch.bits_per_second_max.unwrap_or(u64::MAX));
        let nanos = self.bytes_min as f64 * 8e9 / rate.max(1) as f64;
        let gap = Duration::from_nanos((nanos.min(3.6e12) * (1.0 - 1e-9)) as u64);
        if lane > 0 && gap >= config.probe_every {
            // It may be one that tries the path, instead of one on the best path.
            return Ok(());
        }
        let last = self.lanes[usize::from(lane) % 32].replace(at);
        let Some(last) = last else { return Ok(()) };
        if at - last + Duration::from_nanos(1) < gap {
            let what = format!(
                "lane {lane} of flow {} sent after {:?} by a path of {rate} bit/s, where a Data \
                 takes {gap:?}",
                self.fetch.flow,
                at - last
            );
            return Err((Rule::Rate, what));
        }
        Ok(())
    }

    /// An Interest leaves, by whatever path, which was handed to a link at `handed_at`. The limit
    /// is one on what is handed to links: behind other packets Interests gather in a queue, and
    /// leave at the rate of the link. All that was handed over before `left_until` has left, so
    /// that links with queues of different lengths do not change the order.
    pub(super) fn check_limit(
        &mut self,
        handed_at: Instant,
        left_until: Instant,
        config: &Config,
    ) -> Result<(), Broken> {
        let Some(limit) = self.fetch.bits_per_second_max else { return Ok(()) };
        // An earlier flow may have left Interests for the same object in a queue.
        if handed_at >= self.allowed_at {
            self.handed.push(Reverse(handed_at));
        }
        let bytes = if self.bytes_min == usize::MAX { 1_200 } else { self.bytes_min };
        let paths = self.paths.len().saturating_sub(1) as f64;
        let per_second = limit as f64 / (bytes as f64 * 8.0)
            + LOOKS_PER_SECOND
            + 1.0 / config.discover_every.as_secs_f64()
            + paths / config.probe_every.as_secs_f64();
        // Those that had to wait for room leave the shaper one after another, too.
        let beyond = BEYOND_LIMIT + config.shaper.queue_max as f64;
        while let Some(&Reverse(at)) = self.handed.peek()
            && at <= left_until
        {
            self.handed.pop();
            let earned = (at - self.allowed_at).as_secs_f64() * per_second;
            self.allowed_at = at;
            self.allowance = (self.allowance + earned).min(beyond) - 1.0;
            if self.allowance < 0.0 {
                let flow = self.fetch.flow;
                return Err((Rule::Rate, format!("flow {flow} asks for more than {limit} bit/s")));
            }
        }
        Ok(())
    }

    /// Its share, if a window is over by now. Says when the next one is.
    pub(super) fn check_share(&mut self, at: Instant) -> Result<(), Broken> {
        let Some((share, ends_at)) = &mut self.share else { return Ok(()) };
        let window = share.round_trip * WINDOW_TRIPS;
        while *ends_at <= at {
            *ends_at += window;
            let bits = std::mem::take(&mut self.window_bytes) as f64 * 8.0;
            let least = 0.1 * share.bits_per_second * window.as_secs_f64();
            if bits < least {
                let flow = self.fetch.flow;
                let what = format!("flow {flow} got {bits:.0} bits in {window:?}, not {least:.0}");
                return Err((Rule::Starvation, what));
            }
        }
        Ok(())
    }

    /// Checks a flow that is reported complete.
    pub(super) fn check_complete(
        &self,
        counts: &FlowCounts,
        object: Option<&Object>,
    ) -> Result<(), Broken> {
        let Some(object) = object else {
            return Err((Rule::Content, format!("{} has no producer", self.fetch.name)));
        };
        let segments = object.segments();
        let had = self
            .fetch
            .had
            .iter()
            .map(|range| range.end.min(segments).saturating_sub(range.start.min(segments)));
        let (told, had) = (self.told_count, had.sum::<u64>());
        if told + had != segments || counts.segments != told {
            let what = format!(
                "all of {}: {told} of {segments} segments delivered, {had} present, {} counted",
                self.fetch.name, counts.segments
            );
            return Err((Rule::Content, what));
        }
        Ok(())
    }

    /// Number of delivered segments.
    pub(super) fn told(&self) -> u64 {
        self.told_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// A flow that may ask for 100 Data of 1,200 bytes a second, and what its looks take beside.
    fn limited() -> Flow {
        let name = "/p".parse().expect("a name");
        let fetch = Fetch { bits_per_second_max: Some(960_000), ..Fetch::new(1, name) };
        Flow::new(at(0), fetch, 0)
    }

    #[test]
    fn interests_that_waited_for_a_link_may_leave_faster_than_the_limit() {
        let config = Config::default();
        // One each 10 ms, all of which leave at once after 10 s.
        let mut flow = limited();
        for number in 0..1_000 {
            let next = at((number + 1) * 10);
            assert_eq!(flow.check_limit(at(number * 10), next, &config), Ok(()), "{number}");
        }
        // Faster than that they may not be handed over, however they leave.
        let mut flow = limited();
        let found = (0..1_000).find_map(|number| {
            flow.check_limit(at(number * 5), at((number + 1) * 5), &config).err()
        });
        assert_eq!(found.expect("it asks for twice its limit").0, Rule::Rate);
    }

    #[test]
    fn links_that_let_interests_wait_for_different_times_keep_to_one_limit() {
        let config = Config::default();
        // One each 10 ms, by turns to a link that lets it wait for 5 s and to one that does not.
        let mut flow = limited();
        for number in (1..1_000_u64).step_by(2) {
            let waits = at((number * 10).saturating_sub(5_000));
            assert_eq!(flow.check_limit(at(number * 10), waits, &config), Ok(()), "{number}");
            let Some(number) = number.checked_sub(501) else { continue };
            let next = at((number + 2) * 10);
            assert_eq!(flow.check_limit(at(number * 10), next, &config), Ok(()), "{number}");
        }
        // With two such links it asks for twice its limit.
        let mut flow = limited();
        let found = (0..1_000_u64).find_map(|number| {
            let waits = at((number * 10).saturating_sub(5_000));
            let direct = flow.check_limit(at(number * 10), waits, &config);
            let waited = number
                .checked_sub(500)
                .map(|number| flow.check_limit(at(number * 10), at((number + 1) * 10), &config));
            direct.and(waited.unwrap_or(Ok(()))).err()
        });
        assert_eq!(found.expect("it asks for twice its limit").0, Rule::Rate);
    }
}
