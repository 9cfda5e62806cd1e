//! Closed forms of recovery times by request, for comparison with the runs of Slingshot's rivals.

use std::time::Duration;

use paceline_baselines::srm::{Distance, Reports, Timers};

use super::{Settings, Setup, Spacing};

/// The time by which SRM with fixed timers and one distance d has brought back a share of what was
/// lost, counted from when it would have arrived; none for SRM of other kinds.
///
/// The sender's next packet reveals the loss. The first member that misses the packet sends a
/// request after a time in [C1 d, (C1 + C2) d], and the first of the others sends a repair after
/// one in [D1 d, (D1 + D2) d]. Both cross the network once. The model omits lost requests and
/// repairs.
pub(super) fn srm_time(settings: &Settings, share: f64) -> Option<Duration> {
    let Setup::Srm(config) = &settings.setup else { return None };
    let (Distance::Fixed(d), Timers::Fixed(factors)) = (config.distance(), config.timers()) else {
        return None;
    };
    if config.reports() != Reports::Own {
        return None;
    }
    let conditions = &settings.conditions;
    let (others, p) = (f64::from(settings.plan.nodes) - 2.0, conditions.loss);
    // P(no request within the fraction u of C2 d): neither this member nor any other has asked.
    // Each other member misses the packet with probability p.
    let waits = |u: f64| (1.0 - u) * (1.0 - p * u).powf(others);
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if waits(middle) > 1.0 - share { low = middle } else { high = middle }
    }
    let first_answer = 1.0 / (others * (1.0 - p) + 2.0);
    let spread = factors.c1 + factors.c2 * low + factors.d1 + factors.d2 * first_answer;
    let gap = f64::from(settings.plan.senders) / settings.plan.packets_per_second;
    let ways = 2.0 * conditions.latency.as_secs_f64();
    Some(Duration::from_secs_f64(gap + spread * d.as_secs_f64() + ways))
}

/// The mean time to recover a lost packet when packets name what their senders hold; `None` if
/// packets name nothing, or no other member sends.
///
/// The next packet that another member sends after it got the lost one reveals the loss. Request
/// and answer each cross the network once; a lost request or answer is retried.
pub(super) fn digest_mean(settings: &Settings) -> Option<Duration> {
    let Setup::Nak(config) = &settings.setup else { return None };
    if config.digest_names() == 0 || settings.plan.senders < 3 {
        return None;
    }
    let (p, senders) = (settings.conditions.loss, f64::from(settings.plan.senders));
    let latency = settings.conditions.latency.as_secs_f64();
    let between = 1.0 / settings.plan.packets_per_second;
    // Packets of members that have it and are neither this one nor its sender, that arrive.
    let useful = (1.0 - p) * (1.0 - p) * (senders - 2.0) / (senders - 1.0);
    // Of senders with phases of their own some send before the packet has come to them.
    let has_phases = matches!(settings.plan.spacing, Spacing::Phases { .. });
    let too_soon = if has_phases { latency } else { 0.0 };
    let again = config.retry_after().as_secs_f64() * (1.0 / ((1.0 - p) * (1.0 - p)) - 1.0);
    Some(Duration::from_secs_f64(between / useful + too_soon + 2.0 * latency + again))
}

/// The time by which gossip has brought back a share of what was lost; none for other protocols.
///
/// Each of the `n - 1` others gossips to this member once in a round with the probability
/// `fanout / (n - 1)`, at a time that is uniform over the round; the digest, the solicitation and
/// the retransmission go the way once each. An exchange of which one gets lost is left out, and
/// so are the limits of a round.
pub(super) fn gossip_time(settings: &Settings, share: f64) -> Option<Duration> {
    let Setup::Gossip(config) = &settings.setup else { return None };
    let conditions = &settings.conditions;
    let (others, passes) = (f64::from(settings.plan.nodes) - 1.0, 1.0 - conditions.loss);
    // The packet's sender has it; all others but this member have it as they lost it or not.
    let has_it = ((others - 1.0) * passes + 1.0) / others;
    let drawn = (config.fanout() as f64).min(others) / others;
    let hit = drawn * has_it * passes.powi(3);
    // P(not back after `k + u` rounds) = ((1 - hit)^k (1 - u hit))^others.
    let left = (1.0 - share).ln() / others;
    let whole = (left / (1.0 - hit).ln()).floor();
    // `1 - hit` is 0 between two members without loss, and its logarithm infinite.
    let part = (1.0 - left.exp() / (1.0 - hit).powf(whole)) / hit;
    let rounds = config.gossip_every().as_secs_f64() * (whole + part);
    Duration::try_from_secs_f64(rounds + 3.0 * conditions.latency.as_secs_f64()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::CATALOG;

    fn settings(name: &str, sets: &[&str]) -> Settings {
        let scenario = CATALOG.load(name).unwrap().with_sets(sets).unwrap().resolve();
        Settings::read(&scenario.unwrap()).unwrap()
    }

    #[test]
    fn srm_waits_for_the_next_packet_and_its_timers() {
        let ms = |sets: &[&str], share| {
            srm_time(&settings("slingshot/srm", sets), share).unwrap().as_secs_f64() * 1e3
        };
        assert!((ms(&[], 0.0) - 3_080.0).abs() < 5.0);
        assert!((ms(&[], 1.0) - 5_080.0).abs() < 5.0);
        let near = ["distance=75us"];
        assert!((ms(&near, 0.5) - 64.4).abs() < 0.1, "{}", ms(&near, 0.5));
        let all = settings("slingshot/srm", &["reports=all"]);
        assert_eq!(srm_time(&all, 0.5), None);
        assert_eq!(srm_time(&settings("slingshot/nak", &[]), 0.5), None);
    }

    #[test]
    fn digests_take_a_packet_and_a_round_trip() {
        let mean = |sets: &[&str]| digest_mean(&settings("slingshot/digest-pull", sets));
        let drawn = mean(&[]).unwrap().as_secs_f64() * 1e3;
        assert!((drawn - 1.30).abs() < 0.02, "{drawn}");
        assert!(mean(&["spacing=even"]).unwrap() < mean(&[]).unwrap());
        assert_eq!(mean(&["senders=2"]), None);
        assert_eq!(digest_mean(&settings("slingshot/nak", &[])), None);
    }

    #[test]
    fn gossip_takes_rounds() {
        let ms = |sets: &[&str], share| {
            let time = gossip_time(&settings("slingshot/gossip", sets), share);
            time.unwrap().as_secs_f64() * 1e3
        };
        // At one digest a round on average: ln 2 of a round, a little more for what gets lost.
        assert!((70.0..75.0).contains(&ms(&[], 0.5)), "{}", ms(&[], 0.5));
        let ratio = (ms(&["fanout=2"], 0.5) - 0.225) / (ms(&[], 0.5) - 0.225);
        assert!((0.48..0.52).contains(&ratio), "{ratio}");
        // Two members: the other one gossips to this one in each round.
        let of_two = ms(&["topology.nodes=2", "receive_loss=0"], 0.5);
        assert!((of_two - 50.225).abs() < 0.01, "{of_two}");
        assert_eq!(gossip_time(&settings("slingshot/nak", &[]), 0.5), None);
    }
}
