//! A phase of the bench: its measurements and its requirements.

use std::time::Instant;

use paceline_netlab::{PortTraffic, Traffic};
use serde::Serialize;

use super::processes::Sample;
use super::{E1, E3, E4, FetchPlan};

/// What was measured in a phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseRow {
    /// `alone`, `shared` or `after`.
    pub phase: &'static str,
    /// Seconds measured.
    pub seconds: f64,
    /// Traffic to the consumers' node, Mbit/s of Ethernet bytes at its shaped port. Loopback has no
    /// such port: there, Data that the consumers counted, frame headers included.
    pub mbit: f64,
    /// What left E4 and E3, Mbit/s of Ethernet bytes at their shaped ports; null on loopback, and
    /// where there is no such node.
    pub branches_mbit: [Option<f64>; 2],
    /// What the consumers' node sent, Interests for the most part, Mbit/s of Ethernet bytes; null
    /// on loopback.
    pub asked_mbit: Option<f64>,
    /// Frames that shapers dropped, both ways.
    pub dropped: u64,
    /// What the links hold for these consumers.
    pub links_mbit: f64,
    /// The least of it that is no miss.
    pub least_mbit: f64,
    /// The consumers that there were.
    pub consumers: Vec<ConsumerRow>,
    /// How far the consumer with the least of its share is behind the one with the most, as a part
    /// of that; null where there is one consumer.
    pub apart: Option<f64>,
    /// The requirements that were missed, a line each.
    pub missed: Vec<String>,
}

/// What was measured of a consumer in a phase.
#[derive(Clone, Debug, Serialize)]
pub struct ConsumerRow {
    /// `C1` or `C2`.
    pub consumer: &'static str,
    /// Its Data, Mbit/s of Ethernet bytes, as it counted them.
    pub mbit: f64,
    /// Of the file, Mbit/s.
    pub goodput_mbit: f64,
    /// The share of its Data that secondary Interests brought.
    pub secondary: f64,
    /// What links hold for it.
    pub links_mbit: f64,
    /// Interests that nothing came for in time.
    pub timeouts: u64,
    /// Interests that were refused.
    pub nacks: u64,
}

/// What passed a port in a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Carried {
    received_mbit: f64,
    sent_mbit: f64,
    dropped: u64,
}

impl Carried {
    pub(super) fn new(before: PortTraffic, after: PortTraffic) -> Carried {
        let rate = |before: (Instant, Traffic), after: (Instant, Traffic)| {
            let seconds = (after.0 - before.0).as_secs_f64().max(1e-9);
            (after.1.bytes - before.1.bytes) as f64 * 8e-6 / seconds
        };
        let dropped = |port: PortTraffic| port.received.1.dropped + port.sent.1.dropped;
        Carried {
            received_mbit: rate(before.received, after.received),
            sent_mbit: rate(before.sent, after.sent),
            dropped: dropped(after) - dropped(before),
        }
    }
}

/// The measurements, before they are compared with the requirements.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) seconds: f64,
    /// By node; none on loopback.
    pub(super) ports: Vec<Option<Carried>>,
    /// By consumer; `None` with too few samples.
    pub(super) consumers: Vec<Option<Sample>>,
}

/// Holds a phase against what links hold for its consumers, bit/s.
pub(super) fn judge(
    phase: &'static str,
    measured: &Measured,
    expected: &[f64],
    plan: &FetchPlan,
) -> PhaseRow {
    let consumers: Vec<ConsumerRow> = measured
        .consumers
        .iter()
        .zip(expected)
        .zip(["C1", "C2"])
        .map(|((sample, expected), name)| consumer(name, sample.unwrap_or_default(), *expected))
        .collect();
    let port = |node: usize| measured.ports.get(node).copied().flatten();
    let counted = consumers.iter().map(|consumer| consumer.mbit).sum();
    let mbit = port(E1).map_or(counted, |port| port.received_mbit);
    let links_mbit = expected.iter().sum::<f64>() / 1e6;
    let least_mbit = plan.least * links_mbit;
    let shares = || consumers.iter().map(|consumer| consumer.mbit / consumer.links_mbit);
    let most = shares().fold(0.0, f64::max);
    let fewest = shares().fold(f64::INFINITY, f64::min);
    let behind = if most > 0.0 { 1.0 - fewest / most } else { 1.0 };
    let apart = (consumers.len() > 1).then_some(behind);

    let mut missed = Vec::new();
    if mbit < least_mbit {
        missed.push(format!("{mbit:.2} Mbit/s, below the minimum of {least_mbit:.2}"));
    }
    if let Some(apart) = apart.filter(|&apart| apart > plan.apart) {
        let (apart, most) = (apart * 100.0, plan.apart * 100.0);
        missed.push(format!("rates of consumers differ by {apart:.1} %, more than {most:.0} %"));
    }
    PhaseRow {
        phase,
        seconds: measured.seconds,
        mbit,
        branches_mbit: [E4, E3].map(|node| port(node).map(|port| port.sent_mbit)),
        asked_mbit: port(E1).map(|port| port.sent_mbit),
        dropped: measured.ports.iter().flatten().map(|port| port.dropped).sum(),
        links_mbit,
        least_mbit,
        consumers,
        apart,
        missed,
    }
}

fn consumer(name: &'static str, sample: Sample, expected: f64) -> ConsumerRow {
    let seconds = sample.seconds.max(1e-9);
    let link_bytes = sample.link_bytes as f64;
    ConsumerRow {
        consumer: name,
        mbit: link_bytes * 8e-6 / seconds,
        goodput_mbit: sample.content_bytes as f64 * 8e-6 / seconds,
        secondary: sample.secondary_bytes as f64 / link_bytes.max(1.0),
        links_mbit: expected / 1e6,
        timeouts: sample.timeouts,
        nacks: sample.nacks,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{FetchPlace, expected};
    use super::*;
    use paceline_lab::scenario::Rate;
    use paceline_lab_services::mircc::topology::Branch;

    fn plan() -> FetchPlan {
        let mbit = |rate: u64| Rate::from_bits_per_second(rate * 1_000_000);
        FetchPlan {
            place: FetchPlace::Netns,
            joint: mbit(15),
            left: mbit(12),
            right: mbit(9),
            second: Branch::Left,
            single: mbit(100),
            duration: Duration::from_secs(10),
            settle: Duration::from_secs(5),
            segment_bytes: 1_000,
            least: 0.9,
            apart: 0.1,
        }
    }

    /// Ten seconds with these rates, Mbit/s: at the port of the consumers' node, and as each
    /// consumer counted.
    fn measured(port: Option<f64>, consumers: &[f64]) -> Measured {
        let port = port.map(|received_mbit| Carried { received_mbit, sent_mbit: 1.0, dropped: 0 });
        let sample = |mbit: &f64| {
            let link_bytes = (mbit * 10.0 / 8e-6) as u64;
            Some(Sample { seconds: 10.0, link_bytes, ..Sample::default() })
        };
        let consumers = consumers.iter().map(sample).collect();
        Measured { seconds: 10.0, ports: vec![port, None, None, None], consumers }
    }

    #[test]
    fn what_links_hold_is_what_the_oracle_says_wherever_the_second_file_is() {
        for second in [Branch::Left, Branch::Right] {
            let expected = expected(&FetchPlan { second, ..plan() }).unwrap();
            assert!((expected.alone - 15e6).abs() < 1.0, "{}", expected.alone);
            assert!(expected.shared.iter().all(|share| (share - 7.5e6).abs() < 1.0));
        }
    }

    #[test]
    fn a_phase_misses_if_too_little_comes_or_one_consumer_has_too_much_of_it() {
        let missed = |port, consumers: &[f64], expected: &[f64]| {
            judge("shared", &measured(port, consumers), expected, &plan()).missed
        };
        assert!(missed(Some(13.51), &[13.4], &[15e6]).is_empty(), "the port counts");
        assert!(
            missed(Some(13.49), &[13.6], &[15e6])[0]
                .starts_with("13.49 Mbit/s, below the minimum of")
        );
        assert!(missed(None, &[13.6], &[15e6]).is_empty(), "without one the consumers do");
        let both = [7.5e6, 7.5e6];
        assert!(missed(Some(14.0), &[7.3, 6.7], &both).is_empty());
        assert_eq!(
            missed(Some(14.0), &[7.4, 6.6], &both),
            ["rates of consumers differ by 10.8 %, more than 10 %"]
        );
        assert!(missed(Some(14.0), &[9.6, 4.8], &[10e6, 5e6]).is_empty(), "of what is theirs");
        assert_eq!(missed(Some(14.0), &[0.0, 0.0], &both).len(), 1);
    }

    #[test]
    fn a_port_carries_the_difference_of_what_it_counted() {
        let start = Instant::now();
        let traffic = |second, bytes, dropped| {
            (start + Duration::from_secs(second), Traffic { bytes, packets: 0, dropped })
        };
        let before = PortTraffic { received: traffic(0, 1_000_000, 1), sent: traffic(1, 0, 0) };
        let after =
            PortTraffic { received: traffic(2, 3_500_000, 3), sent: traffic(3, 250_000, 1) };
        let carried = Carried::new(before, after);
        assert_eq!(carried, Carried { received_mbit: 10.0, sent_mbit: 1.0, dropped: 3 });
    }
}
