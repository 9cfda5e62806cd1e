use std::time::Duration;

use super::{Code, Conditions, Setting, linear, xor};

/// The share of lost packets that is recovered, by time.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Recovered by the first repairs, by those that the next packet completes that came to their
    /// senders, and so on.
    by_packets: Vec<f64>,
    /// From one packet of the group to the next, seconds.
    packet_seconds: f64,
    /// How many of these packets come to a member.
    received: f64,
    /// From a member to another, seconds.
    latency_seconds: f64,
}

/// What numbers of packets may be off by, being computed.
const NEARLY: f64 = 1e-6;

/// What a setting will do.
pub fn predict(setting: Setting, conditions: &Conditions) -> Prediction {
    let Setting { r, c, code } = setting;
    let packet_seconds = 1.0 / conditions.packets_per_second.max(f64::MIN_POSITIVE);
    let others_share = conditions.others_share();
    let (by_packets, received) = match code {
        // A bin fills up with packets that its owner received.
        Code::Xor => {
            let received = others_share * (1.0 - conditions.loss_in_range());
            (xor::recovered_by_packets(r, c, conditions), received)
        }
        Code::Linear { window } => {
            (linear::recovered_by_packets(r, c, window, conditions), others_share)
        }
    };
    let latency_seconds = conditions.latency.as_secs_f64();
    Prediction { by_packets, packet_seconds, received, latency_seconds }
}

impl Prediction {
    /// The share of lost packets that is recovered in total.
    pub fn recovered(&self) -> f64 {
        self.by_packets.last().copied().unwrap_or(0.0)
    }

    /// The share recovered within this time after the packet would have arrived: P(T <= t).
    pub fn recovered_within(&self, time: Duration) -> f64 {
        let packets = (time.as_secs_f64() - self.latency_seconds) / self.packet_seconds;
        if packets < 0.0 {
            return 0.0;
        }
        // Whole packets of the group, of which on average this many come.
        let received = ((packets + NEARLY).floor() * self.received + NEARLY).min(1e12);
        // `as` stays in range: what is beyond the largest number becomes the largest.
        let whole = received as usize;
        let by = |packet: usize| self.by_packets.get(packet).copied().unwrap_or(self.recovered());
        by(whole) + (by(whole.saturating_add(1)) - by(whole)) * received.fract()
    }

    /// The mean recovery time of the packets that are recovered.
    pub fn mean(&self) -> Duration {
        let mut before = 0.0;
        let mut packets = 0.0;
        for (packet, &share) in self.by_packets.iter().enumerate() {
            packets += packet as f64 * (share - before);
            before = share;
        }
        let packets = packets / self.recovered().max(f64::MIN_POSITIVE) / self.received;
        let mean = packets * self.packet_seconds;
        Duration::try_from_secs_f64(self.latency_seconds + mean).unwrap_or(Duration::MAX)
    }

    /// The time within which this share of lost packets is recovered; none if it never is.
    pub fn time_until(&self, share: f64) -> Option<Duration> {
        let packet = self.by_packets.iter().position(|&by_then| by_then >= share)?;
        let packets = (packet as f64 / self.received - NEARLY).ceil();
        let seconds = self.latency_seconds + packets * self.packet_seconds;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The group of the paper's experiments: 64 members, 1,000 packets a second.
    fn group(loss: f64) -> Conditions {
        Conditions { latency: Duration::from_micros(75), ..Conditions::new(64, loss, 1_000.0) }
    }

    fn of(r: u8, c: u8, code: Code, conditions: &Conditions) -> (f64, f64) {
        let prediction = predict(Setting { r, c, code }, conditions);
        (prediction.recovered() * 100.0, prediction.mean().as_secs_f64() * 1e3)
    }

    /// Percent and milliseconds that a simulation of the whole group has measured.
    #[test]
    fn exclusive_ors_are_predicted_as_they_were_simulated() {
        for (r, c, percent, mean_ms) in
            [(8, 3, 93.4, 2.0), (8, 5, 98.6, 1.28), (11, 3, 92.6, 2.9), (15, 4, 95.5, 3.4)]
                .into_iter()
                .chain([(4, 3, 94.1, 0.8)])
        {
            let (recovered, mean) = of(r, c, Code::Xor, &group(0.01));
            assert!((recovered - percent).abs() < 0.7, "({r},{c}): {recovered:.1} %");
            assert!((mean - mean_ms).abs() < 0.1, "({r},{c}): {mean:.2} ms");
        }
        let by = |r, c, ms| {
            let setting = Setting { r, c, code: Code::Xor };
            predict(setting, &group(0.01)).recovered_within(Duration::from_millis(ms))
        };
        assert!((0.912..0.936).contains(&by(8, 3, 10)), "{}", by(8, 3, 10));
        assert!(by(14, 5, 25) > 0.97 && by(14, 5, 10) > 0.93, "{}", by(14, 5, 10));
    }

    #[test]
    fn heavier_loss_is_predicted_too() {
        for (loss, c, percent, within) in [
            (0.02, 3, 92.0, 0.7),
            (0.02, 5, 97.7, 0.7),
            (0.05, 3, 85.5, 0.7),
            (0.05, 5, 95.2, 0.7),
            (0.10, 3, 73.8, 2.0),
            (0.10, 5, 89.5, 2.0),
        ] {
            let (recovered, _) = of(8, c, Code::Xor, &group(loss));
            let differs = recovered - percent;
            assert!(differs.abs() < within, "(8,{c}) at {loss}: {recovered:.1} %");
        }
    }

    #[test]
    fn small_groups_recover_more() {
        let bands = [(4, 98.5, 99.6), (8, 94.8, 96.0), (16, 93.6, 95.1), (1_024, 92.7, 94.1)];
        for (members, low, high) in bands {
            let (recovered, _) = of(8, 3, Code::Xor, &Conditions { members, ..group(0.01) });
            assert!((low..high).contains(&recovered), "{members}: {recovered:.1} %");
        }
    }

    #[test]
    fn the_linear_code_is_predicted_as_it_was_simulated() {
        let code = Code::Linear { window: 32 };
        for (c, percent, mean_ms) in [(3, 100.0, 2.5), (2, 99.9, 4.0)] {
            let (recovered, mean) = of(8, c, code, &group(0.01));
            assert!((recovered - percent).abs() < 0.1, "(8,{c}): {recovered:.2} %");
            assert!((mean - mean_ms).abs() < 0.15, "(8,{c}): {mean:.2} ms");
        }
    }

    #[test]
    fn shares_grow_with_time_up_to_what_is_recovered_at_all() {
        for code in [Code::Xor, Code::Linear { window: 32 }] {
            for (r, c, loss) in [(1, 1, 0.0), (8, 3, 0.01), (16, 16, 0.3), (16, 1, 0.9)] {
                let conditions = group(loss);
                let prediction = predict(Setting { r, c, code }, &conditions);
                let shares = &prediction.by_packets;
                assert!(shares.is_sorted(), "({r},{c}) {code:?} at {loss}: {shares:?}");
                assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
                assert_eq!(prediction.recovered_within(Duration::ZERO), 0.0);
                assert_eq!(prediction.recovered_within(Duration::MAX), prediction.recovered());
                let time = prediction.time_until(prediction.recovered()).expect("it is reached");
                assert_eq!(prediction.recovered_within(time * 2), prediction.recovered());
            }
        }
    }

    #[test]
    fn twice_the_rate_takes_half_the_time() {
        let fast = Conditions { packets_per_second: 2_000.0, ..group(0.01) };
        for code in [Code::Xor, Code::Linear { window: 32 }] {
            let (share, mean) = of(8, 3, code, &group(0.01));
            let (fast_share, fast_mean) = of(8, 3, code, &fast);
            assert_eq!(share, fast_share);
            assert!(((mean - 0.075) / (fast_mean - 0.075) - 2.0).abs() < 1e-4);
        }
    }
}
