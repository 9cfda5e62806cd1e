//! How a flow finds what is lost, over a link whose answers come, or not, as a test says.

use std::collections::BTreeMap;

use super::*;

const TRIP: Duration = Duration::from_millis(20);

/// What came of a fetch.
struct Fetched {
    counts: FlowCounts,
    /// When each segment was asked for, ms.
    asked: BTreeMap<u64, Vec<f64>>,
    /// When it came, ms.
    came: BTreeMap<u64, f64>,
}

impl Fetched {
    /// The longest time from the first Interest for one of these segments until it came, ms.
    fn longest(&self, segments: impl Iterator<Item = u64>) -> f64 {
        let times = segments.map(|segment| self.came[&segment] - self.asked[&segment][0]);
        times.fold(0.0, f64::max)
    }

    fn asked_again(&self) -> usize {
        self.asked.values().map(|times| times.len() - 1).sum()
    }

    /// Interests taken for lost as they were overtaken, sent as probes, and too late.
    fn found(&self) -> [u64; 3] {
        [self.counts.overtaken, self.counts.probes, self.counts.timeouts]
    }
}

/// An Interest: its segment, how often that was asked for by now, and when, ms.
#[derive(Clone, Copy)]
struct Sent {
    segment: u64,
    tries: usize,
    millis: f64,
}

/// Fetches this many segments. `trip` gives the time until an Interest is answered, `None` if it is
/// lost. With a rate, Mbit/s, each Data is stamped with it.
fn fetched(segments: u64, rate: Option<u64>, trip: impl Fn(Sent) -> Option<Duration>) -> Fetched {
    // Paths are looked for at the beginning only: no later Interest reveals a lost look.
    let config = Config { discover_every: ms(3_600_000), ..Config::default() };
    let mut bench = Bench::new(config, &[(1, FaceConfig::default(), &["/"])]);
    let pace = if rate.is_some() { Pace::Rates } else { Pace::Cubic };
    let multipath = Multipath::Best;
    let fetch = Fetch { segments: Some(segments), pace, multipath, ..Fetch::new(1, name("/o")) };
    let began = bench.now;
    let millis = |at: Instant| at.since(began).as_secs_f64() * 1e3;
    bench.command(Command::Fetch(fetch));
    let mut answers: BTreeMap<(Instant, u64), u64> = BTreeMap::new();
    let (mut asked, mut came) = (BTreeMap::<u64, Vec<f64>>::new(), BTreeMap::new());
    let mut count = 0;
    loop {
        for (_, packet) in bench.packets() {
            let Body::Interest(interest) = packet.body else { panic!("it asks") };
            let segment = interest.name.segment().expect("of a segment");
            let times = asked.entry(segment).or_default();
            times.push(millis(bench.now));
            let sent = Sent { segment, tries: times.len(), millis: millis(bench.now) };
            if let Some(trip) = trip(sent) {
                count += 1;
                answers.insert((bench.now + trip, count), segment);
            }
        }
        for event in bench.outbox.events.drain(..) {
            match event {
                Event::Segment { number, .. } => {
                    came.insert(number, millis(bench.now));
                }
                Event::Fetched { counts, .. } => return Fetched { counts, asked, came },
                event => panic!("{event:?}"),
            }
        }
        let timer = bench.outbox.timers.iter().map(|&(at, _)| at).min();
        let answer = answers.keys().next().map(|&(at, _)| at);
        if answer.is_some_and(|at| timer.is_none_or(|timer| at <= timer)) {
            let ((at, _), segment) = answers.pop_first().expect("there is one");
            bench.pass(at.since(bench.now));
            let packet = data(&format!("/o/seg={segment}"));
            bench.from(
                1,
                match rate {
                    Some(rate) => stamped(labelled(packet, &[500]), rate, 1),
                    None => packet,
                },
            );
        } else {
            bench.pass(timer.expect("it does not wait for ever").since(bench.now));
        }
    }
}

#[test]
fn a_gap_is_asked_for_again_as_soon_as_three_later_interests_are_answered() {
    for rate in [None, Some(20)] {
        let lost = 2_500..2_520;
        let is_lost = |sent: Sent| sent.tries == 1 && lost.contains(&sent.segment);
        let trip = |sent| (!is_lost(sent)).then_some(TRIP);
        let fetched = fetched(3_000, rate, trip);
        assert_eq!(fetched.found(), [20, 0, 0], "{rate:?}");
        assert_eq!(fetched.asked_again(), 20, "{rate:?}");
        // A round trip until later ones are answered, one for the second Interest, and what it
        // waits for: a place in the window, or its turn by the rate.
        let longest = fetched.longest(lost.clone());
        let wait = if rate.is_some() { 0.46 * 21.0 } else { 20.0 };
        assert!(longest < 40.0 + wait + 1.0, "{rate:?}: {longest} ms");
    }
}

#[test]
fn a_lost_tail_is_probed_after_a_silence_and_the_rest_found_by_that() {
    for rate in [None, Some(20)] {
        let lost = 2_990..3_000;
        let is_lost = |sent: Sent| sent.tries == 1 && lost.contains(&sent.segment);
        let trip = |sent| (!is_lost(sent)).then_some(TRIP);
        let fetched = fetched(3_000, rate, trip);
        let [overtaken, probes, timeouts] = fetched.found();
        assert_eq!((overtaken, probes, timeouts), (9, 1, 0), "{rate:?}");
        assert_eq!(fetched.asked_again(), 10, "{rate:?}");
        // The silence, the probe's round trip, and that of the others.
        let longest = fetched.longest(lost.clone());
        assert!(longest < 4.0 * 20.0 + 0.46 * 20.0, "{rate:?}: {longest} ms");
    }
}

#[test]
fn a_window_that_is_lost_as_a_whole_is_found_by_a_probe_and_not_by_time_outs() {
    // All that leaves in two round trips is lost, the first probe among it.
    let is_lost = |sent: Sent| (95.0..135.0).contains(&sent.millis);
    let fetched = fetched(1_000, None, |sent| (!is_lost(sent)).then_some(TRIP));
    let [overtaken, probes, timeouts] = fetched.found();
    assert!(overtaken > 50 && probes == 2, "{:?}", fetched.found());
    assert_eq!(timeouts, 0);
    assert_eq!(fetched.asked_again() as u64, overtaken + probes);
}

#[test]
fn answers_out_of_order_by_fewer_than_three_places_are_no_reason_to_ask_again() {
    // One Interest in eight is answered after this many that left later.
    let run = |places: f64| {
        let late = Duration::from_secs_f64((places * 0.46 + 0.1) / 1e3);
        fetched(1_000, Some(20), move |sent| {
            let is_late = sent.segment > 200 && sent.segment.is_multiple_of(8);
            Some(if is_late { TRIP + late } else { TRIP })
        })
    };
    let fetched = run(2.0);
    assert_eq!((fetched.found(), fetched.asked_again()), ([0, 0, 0], 0));
    let fetched = run(4.0);
    assert!(fetched.counts.overtaken > 50, "{:?}", fetched.found());
}

#[test]
fn a_link_that_stands_still_and_goes_on_costs_its_probes_only() {
    for rate in [None, Some(20)] {
        let fetched = fetched(1_000, rate, |sent| {
            let comes = sent.millis + 20.0;
            let comes = if (95.0..155.0).contains(&comes) { 155.0 } else { comes };
            Some(Duration::from_secs_f64((comes - sent.millis) / 1e3))
        });
        let [overtaken, probes, timeouts] = fetched.found();
        assert_eq!((overtaken, timeouts), (0, 0), "{rate:?}");
        assert!(probes <= 2, "{rate:?}: {probes}");
        assert_eq!(fetched.asked_again() as u64, probes, "{rate:?}");
    }
}

#[test]
fn no_segment_is_asked_for_twice_within_the_time_that_forwarders_take_for_a_copy() {
    // Each fifth Interest is lost, over a link of a fraction of a millisecond.
    let is_lost = |sent: Sent| sent.tries <= 2 && sent.segment.is_multiple_of(5);
    let trip = |sent| (!is_lost(sent)).then_some(ms(1) / 4);
    let fetched = fetched(2_000, None, trip);
    let gaps = fetched.asked.values().flat_map(|times| times.windows(2).map(|w| w[1] - w[0]));
    let least = gaps.fold(f64::INFINITY, f64::min);
    assert!((10.0..20.0).contains(&least), "{least} ms");
}
