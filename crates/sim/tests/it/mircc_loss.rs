//! A link that loses everything for a moment: how long a fetch over it stalls.

use crate::mircc_net;

use std::collections::BTreeMap;
use std::time::Duration;

use mircc_net::{Net, at, with};
use paceline_proto::core::{Instant, LinkFaults, Loss, NodeId};
use paceline_proto::mircc::{Config, Event, FlowCounts, Forwarder, Multipath, Pace};
use paceline_sim::{Fault, Observer, Reply};

/// When the link begins to lose all, and for how long.
const BEGINS: f64 = 3.0;
const BURST: f64 = 0.025;
const ROUND_TRIP_MS: f64 = 20.0;

/// What came when.
#[derive(Default)]
struct Recorder {
    segments: BTreeMap<u64, Instant>,
    ended: Option<FlowCounts>,
}

impl Observer<Forwarder> for Recorder {
    fn on_event(&mut self, at: Instant, _: NodeId, event: &Event, _: &mut Reply<Forwarder>) {
        match event {
            Event::Segment { number, .. } => _ = self.segments.insert(*number, at),
            Event::Fetched { counts, .. } => self.ended = Some(*counts),
            _ => {}
        }
    }
}

impl Recorder {
    /// The longest time in which nothing came, ms.
    fn silence_ms(&self) -> f64 {
        let mut times: Vec<Instant> = self.segments.values().copied().collect();
        times.sort_unstable();
        let steps = times.windows(2).map(|pair| pair[1].since(pair[0]));
        steps.max().unwrap_or_default().as_secs_f64() * 1e3
    }

    /// The longest time that a segment came after one that follows it in the object, ms.
    fn gap_ms(&self) -> f64 {
        let mut earliest_after = Instant::from_nanos(u64::MAX);
        let mut longest = Duration::ZERO;
        for &came_at in self.segments.values().rev() {
            earliest_after = earliest_after.min(came_at);
            longest = longest.max(came_at.since(earliest_after));
        }
        longest.as_secs_f64() * 1e3
    }
}

/// A fetch over a link of 20 Mbit/s that loses all both ways for 25 ms.
fn fetched(pace: Pace, segments: usize) -> (Recorder, FlowCounts) {
    fetched_with(pace, segments, BURST)
}

/// The same with a burst of losses of this many seconds.
fn fetched_with(pace: Pace, segments: usize, burst: f64) -> (Recorder, FlowCounts) {
    let mut net = Net::default();
    let [consumer, left, producer] = ["consumer", "left", "producer"].map(|name| net.node(name));
    net.link(consumer, left, 100e6, 1.0);
    net.link(left, producer, 20e6, ROUND_TRIP_MS / 2.0 - 1.0);
    net.route("/", consumer, left);
    net.route("/", left, producer);
    net.publish(producer, "/o", segments);
    let mut sim = net.start(1, Config::default());
    let lossy = LinkFaults { loss: Loss::Independent(1.0), ..LinkFaults::default() };
    for (time, link) in [(BEGINS, lossy), (BEGINS + burst, LinkFaults::default())] {
        for (from, to) in [(left, producer), (producer, left)] {
            let fault = Fault::Link { from: Some(vec![from]), to: Some(vec![to]), link };
            sim.fault_at(at(time), fault);
        }
    }
    sim.command_at(at(0.0), consumer, with(1, "/o", pace, Multipath::Best));
    let mut recorded = Recorder::default();
    sim.run_until(at(30.0), &mut recorded);
    let counts = recorded.ended.expect("it is fetched");
    println!(
        "{pace:?}: silent for {:.1} ms, a gap of {:.1} ms, {counts:?}",
        recorded.silence_ms(),
        recorded.gap_ms()
    );
    assert_eq!(recorded.segments.len(), segments);
    (recorded, counts)
}

#[test]
fn a_burst_of_losses_costs_about_two_round_trips_and_no_time_out() {
    let (rates, counts) = fetched(Pace::Rates, 20_000);
    assert_eq!(counts.timeouts, 0);
    // What is lost is missed a round trip after the burst; then it is asked for once more.
    assert!(rates.silence_ms() < 1e3 * BURST + ROUND_TRIP_MS + 5.0);
    for pace in [Pace::Cubic, Pace::Aimd] {
        let (window, counts) = fetched(pace, 20_000);
        assert_eq!(counts.timeouts, 0, "{pace:?}");
        let silence = window.silence_ms();
        assert!(silence < 1e3 * BURST + 2.0 * ROUND_TRIP_MS, "{pace:?}: {silence} ms");
    }
}

#[test]
fn a_fetch_whose_last_segments_are_lost_ends_soon_after() {
    // 20 Mbit/s for 3 s: of some of these the last segments are under way when all is lost.
    let mut probes = 0;
    for segments in (6_360..=6_460).step_by(20) {
        let (recorded, counts) = fetched(Pace::Rates, segments);
        assert_eq!(counts.timeouts, 0, "{counts:?}");
        probes += counts.probes;
        let (without, _) = fetched_with(Pace::Rates, segments, 0.0);
        let [last, without] =
            [recorded, without].map(|recorded| recorded.segments.into_values().max());
        let later = last.expect("all came").since(without.expect("all came")).as_secs_f64() * 1e3;
        assert!(later < 1e3 * BURST + 4.0 * ROUND_TRIP_MS, "{later} ms");
    }
    assert!(probes > 0, "no tail is lost");
}
