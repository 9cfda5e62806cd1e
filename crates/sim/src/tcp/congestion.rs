//! The congestion window of a stream: how it grows with acknowledgements and shrinks with losses.

use std::time::Duration;

use paceline_proto::core::Instant;

/// Payload bytes of a full segment: an Ethernet frame of 1,514 bytes less Ethernet, IPv4 and TCP
/// headers with timestamps (RFC 7323).
pub(crate) const MSS: u64 = 1448;

/// The initial window: ten segments (RFC 6928, section 2).
const INITIAL_BYTES: f64 = 10.0 * MSS as f64;

/// Congestion control of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681, with growth by bytes acknowledged (RFC 3465).
    Reno,
    /// RFC 9438, which Linux has used by default since 2006.
    #[default]
    Cubic,
}

/// CUBIC's constant C, segments per cubic second (RFC 9438, section 5).
const CUBIC_C: f64 = 0.4;
/// CUBIC's multiplicative decrease factor (RFC 9438, section 4.6).
const CUBIC_BETA: f64 = 0.7;

/// A congestion window and its slow-start threshold, bytes.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    congestion: Congestion,
    window: f64,
    threshold: f64,
    cubic: Cubic,
}

/// What CUBIC remembers of the last congestion event; windows in segments.
#[derive(Clone, Copy, Debug, Default)]
struct Cubic {
    // The window before the last reduction, or less by fast convergence.
    max: f64,
    // The window just before the last reduction.
    prior: f64,
    epoch: Option<Epoch>,
}

/// A stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    // Seconds until the window is at `max` again: K.
    regain: f64,
    // What Reno would have by now: W_est.
    reno: f64,
}

impl Window {
    /// The window of a new stream.
    pub(crate) fn new(congestion: Congestion) -> Window {
        Window {
            congestion,
            window: INITIAL_BYTES,
            threshold: f64::INFINITY,
            cubic: Cubic::default(),
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn bytes(&self) -> u64 {
        self.window as u64
    }

    /// True below the slow-start threshold.
    pub(crate) fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// New data was acknowledged while the window limited the sender. `segments_max` bounds the
    /// growth in slow start: 2 in general, so that delayed acknowledgements double the window every
    /// round trip, and 1 after a time-out (RFC 3465, section 2.3).
    pub(crate) fn grow(&mut self, acked: u64, segments_max: u64, now: Instant, trip: Duration) {
        if self.is_slow_start() {
            // RFC 5681, equation 2, with L of RFC 3465.
            self.window += acked.min(segments_max * MSS) as f64;
            return;
        }
        match self.congestion {
            // RFC 5681, equation 3, by bytes: a segment for each window acknowledged.
            Congestion::Reno => self.window += MSS as f64 * acked as f64 / self.window,
            Congestion::Cubic => self.grow_cubic(acked, now, trip),
        }
    }

    fn grow_cubic(&mut self, acked: u64, now: Instant, trip: Duration) {
        let mss = MSS as f64;
        let (window, acked) = (self.window / mss, acked as f64 / mss);
        let cubic = &mut self.cubic;
        let epoch = cubic.epoch.get_or_insert_with(|| {
            cubic.max = cubic.max.max(window);
            // RFC 9438, figure 2.
            let regain = cube_root((cubic.max - window) / CUBIC_C);
            Epoch { began: now, regain, reno: window }
        });
        let seconds = (now - epoch.began).as_secs_f64();
        // RFC 9438, figure 1.
        let at = |seconds: f64| {
            let past = seconds - epoch.regain;
            CUBIC_C * past * past * past + cubic.max
        };
        // RFC 9438, section 4.3: alpha, until the window before the reduction is reached again.
        let alpha = match epoch.reno < cubic.prior {
            true => 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA),
            false => 1.0,
        };
        let reno = epoch.reno + alpha * acked / window;
        let grown = if at(seconds) < reno {
            reno.max(window)
        } else {
            // RFC 9438, sections 4.2, 4.4 and 4.5.
            let target = at(seconds + trip.as_secs_f64()).clamp(window, 1.5 * window);
            window + (target - window) * acked / window
        };
        epoch.reno = reno;
        self.window = grown * mss;
    }

    /// A loss was found by acknowledgements, with this many bytes in flight.
    pub(crate) fn on_loss(&mut self, flight: u64) {
        self.reduce(flight);
        self.window = self.threshold;
    }

    /// The retransmission timer expired. Only the first expiry for the same data lowers the
    /// threshold (RFC 5681, section 3.1).
    pub(crate) fn on_time_out(&mut self, flight: u64, is_first: bool) {
        if is_first {
            self.reduce(flight);
        }
        // RFC 5681, section 3.1: the loss window is one segment.
        self.window = MSS as f64;
    }

    /// The stream was idle for longer than its retransmission time-out: it starts again from the
    /// initial window at most (RFC 5681, section 4.1).
    pub(crate) fn restart(&mut self) {
        self.window = self.window.min(INITIAL_BYTES);
        self.cubic.epoch = None;
    }

    fn reduce(&mut self, flight: u64) {
        let least = 2.0 * MSS as f64;
        self.threshold = match self.congestion {
            // RFC 5681, equation 4.
            Congestion::Reno => (flight as f64 / 2.0).max(least),
            Congestion::Cubic => {
                let window = self.window / MSS as f64;
                // Fast convergence: RFC 9438, section 4.7.
                self.cubic.max = match window < self.cubic.max {
                    true => window * (1.0 + CUBIC_BETA) / 2.0,
                    false => window,
                };
                self.cubic.prior = window;
                self.cubic.epoch = None;
                // RFC 9438, figure 5.
                (flight as f64 * CUBIC_BETA).max(least)
            }
        };
    }
}

/// The cube root of a number that is not negative, by Newton's method: the standard library's may
/// differ from platform to platform in its last bits.
fn cube_root(number: f64) -> f64 {
    if number <= 0.0 {
        return 0.0;
    }
    let mut root = number.max(1.0);
    for _ in 0..128 {
        let next = (2.0 * root + number / (root * root)) / 3.0;
        if next >= root {
            break;
        }
        root = next;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(1);

    /// Acknowledges a whole window in pairs of segments.
    fn one_round(window: &mut Window, now: Instant) {
        let mut left = window.bytes();
        while left >= 2 * MSS {
            window.grow(2 * MSS, 2, now, TRIP);
            left -= 2 * MSS;
        }
    }

    #[test]
    fn slow_start_doubles_the_window_every_round_trip() {
        for congestion in [Congestion::Reno, Congestion::Cubic] {
            let mut window = Window::new(congestion);
            for round in 1..=5 {
                one_round(&mut window, Instant::ZERO);
                assert_eq!(window.bytes(), (10 * MSS) << round, "{congestion:?}");
            }
        }
    }

    #[test]
    fn reno_halves_the_flight_at_a_loss_and_then_adds_a_segment_a_round_trip() {
        let mut window = Window::new(Congestion::Reno);
        window.on_loss(40 * MSS);
        assert_eq!((window.bytes(), window.is_slow_start()), (20 * MSS, false));
        for round in 1..=10 {
            let before = window.window;
            one_round(&mut window, Instant::ZERO);
            let grown = (window.window - before) / MSS as f64;
            assert!((0.85..=1.0).contains(&grown), "{grown} segments in round {round}");
        }
    }

    #[test]
    fn a_time_out_leaves_one_segment_and_a_second_one_does_not_lower_the_threshold_again() {
        let mut window = Window::new(Congestion::Reno);
        window.on_time_out(40 * MSS, true);
        assert_eq!((window.bytes(), window.threshold as u64), (MSS, 20 * MSS));
        window.on_time_out(MSS, false);
        assert_eq!((window.bytes(), window.threshold as u64), (MSS, 20 * MSS));
        // RFC 5681: never below two segments.
        window.on_time_out(MSS, true);
        assert_eq!(window.threshold as u64, 2 * MSS);
    }

    #[test]
    fn cubic_keeps_seven_tenths_and_regains_the_old_window_after_k_seconds() {
        let mut window = Window::new(Congestion::Cubic);
        window.window = 1000.0 * MSS as f64;
        window.on_loss(1000 * MSS);
        assert!((window.window / MSS as f64 - 700.0).abs() < 1e-6, "{}", window.window);
        // K = cbrt(1000 x 0.3 / 0.4) = 9.09 s. Acknowledged at a round trip of 100 ms.
        let trip = Duration::from_millis(100);
        let mut now = Instant::ZERO;
        let mut regained = None;
        for _ in 0..120 {
            for _ in 0..window.bytes() / MSS {
                window.grow(MSS, 2, now, trip);
            }
            if window.bytes() >= 995 * MSS && regained.is_none() {
                regained = Some(now.as_secs_f64());
            }
            now += trip;
        }
        let regained = regained.expect("the window grows");
        assert!((6.0..9.5).contains(&regained), "{regained}");
        assert!(window.bytes() > 1000 * MSS, "beyond K it grows on: {}", window.bytes() / MSS);
    }

    #[test]
    fn cubic_grows_no_slower_than_reno_where_round_trips_are_short() {
        let mut cubic = Window::new(Congestion::Cubic);
        cubic.on_loss(20 * MSS);
        assert_eq!(cubic.bytes(), 14 * MSS);
        let mut now = Instant::ZERO;
        for _ in 0..20 {
            one_round(&mut cubic, now);
            now += TRIP;
        }
        // 20 rounds of alpha = 0.53 segments, then of one: RFC 9438, section 4.3.
        assert!(cubic.bytes() >= 22 * MSS, "{}", cubic.bytes() as f64 / MSS as f64);
    }

    #[test]
    fn cube_roots_are_right() {
        for number in [0.0, 1e-6, 0.125, 1.0, 27.0, 1000.0, 1e9] {
            let root = cube_root(number);
            assert!((root * root * root - number).abs() <= 1e-9 * number.max(1e-6), "{number}");
        }
    }
}
