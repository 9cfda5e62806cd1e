//! Windows: what consumers use where no rates are stamped.

use std::time::Duration;

use crate::core::Instant;

/// Interests under way at the start.
const FIRST: f64 = 2.0;
/// CUBIC's constants. Source: RFC 9438, section 4.
const CUBIC_SCALE: f64 = 0.4;
const CUBIC_SHRINK: f64 = 0.7;
/// AIMD's factor.
const AIMD_SHRINK: f64 = 0.5;

/// How a window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// By one a round trip; halved by a mark or a loss.
    Aimd,
    /// As RFC 9438 says.
    Cubic,
}

/// How many Interests may be under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    growth: Growth,
    size: f64,
    threshold: f64,
    // Of CUBIC: the size before the last decrease, and when growth after it began.
    before: f64,
    since: Option<Instant>,
    began_at: Instant,
    shrunk_at: Option<Instant>,
}

impl Window {
    pub(super) fn new(now: Instant, growth: Growth) -> Window {
        Window {
            growth,
            size: FIRST,
            threshold: f64::INFINITY,
            before: 0.0,
            since: None,
            began_at: now,
            shrunk_at: None,
        }
    }

    /// Interests that may be under way.
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// A Data came without a mark.
    pub(super) fn grow(&mut self, now: Instant, round_trip: Duration) {
        if self.size < self.threshold {
            self.size += 1.0;
            return;
        }
        match self.growth {
            Growth::Aimd => self.size += 1.0 / self.size,
            Growth::Cubic => {
                let since = *self.since.get_or_insert(now);
                let away = (now.since(since) + round_trip).as_secs_f64() - self.turn();
                let target = self.before + CUBIC_SCALE * away * away * away;
                // Where TCP of old would grow faster, so does this.
                let step = ((target - self.size) / self.size).clamp(0.0, 0.5);
                self.size += step.max(0.5 / self.size);
            }
        }
    }

    /// A mark, a loss or a refusal: the window shrinks, once a round trip.
    pub(super) fn shrink(&mut self, now: Instant, round_trip: Duration) {
        if self.shrunk_at.is_some_and(|at| now < at + round_trip) {
            return;
        }
        self.shrunk_at = Some(now);
        self.before = self.size;
        self.since = None;
        let factor = match self.growth {
            Growth::Aimd => AIMD_SHRINK,
            Growth::Cubic => CUBIC_SHRINK,
        };
        self.size = (self.size * factor).max(FIRST);
        self.threshold = self.size;
    }

    /// The window shrinks for the loss of an Interest that left at `left_at`. One that left before
    /// the window began, or shrank last, says nothing about its present size. Source: RFC 9002,
    /// section 7.3.2.
    pub(super) fn shrink_for(&mut self, now: Instant, round_trip: Duration, left_at: Instant) {
        if left_at > self.shrunk_at.unwrap_or(self.began_at) {
            self.shrink(now, round_trip);
        }
    }

    // K of RFC 9438: how long it takes to be back at the size before the decrease.
    fn turn(&self) -> f64 {
        cube_root(self.before * (1.0 - CUBIC_SHRINK) / CUBIC_SCALE)
    }
}

/// By Newton's method: the library's may differ in its last bit from machine to machine.
fn cube_root(value: f64) -> f64 {
    let mut root = value.max(1.0);
    for _ in 0..64 {
        root = (2.0 * root + value / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cube_root_is_one() {
        for value in [1e-6, 0.3, 1.0, 27.0, 1e6, 1e12] {
            assert!((cube_root(value).powi(3) / value - 1.0).abs() < 1e-9, "{value}");
        }
    }

    const TRIP: Duration = Duration::from_millis(20);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_window_doubles_each_round_trip_until_the_first_sign_and_shrinks_once() {
        for (growth, left) in [(Growth::Aimd, 32), (Growth::Cubic, 44)] {
            let mut window = Window::new(at(0), growth);
            (0..62).for_each(|_| window.grow(at(1), TRIP));
            assert_eq!(window.size(), 64);
            (0..5).for_each(|step| window.shrink(at(100 + step), TRIP));
            assert_eq!(window.size(), left, "{growth:?}");
        }
    }

    #[test]
    fn after_that_aimd_adds_one_a_round_trip() {
        let mut window = Window::new(at(0), Growth::Aimd);
        (0..62).for_each(|_| window.grow(at(1), TRIP));
        window.shrink(at(100), TRIP);
        (0..32).for_each(|_| window.grow(at(200), TRIP));
        assert!((window.size - 33.0).abs() < 0.02, "{}", window.size);
    }

    #[test]
    fn cubic_is_back_where_it_was_after_its_time_and_then_goes_beyond() {
        let mut window = Window::new(at(0), Growth::Cubic);
        (0..998).for_each(|_| window.grow(at(1), TRIP));
        window.shrink(at(1_000), TRIP);
        let back_after = (window.turn() * 1000.0) as u64;
        let mut sizes = Vec::new();
        for millis in 0..2 * back_after {
            (0..40).for_each(|_| window.grow(at(1_000 + millis), TRIP));
            sizes.push(window.size);
        }
        let reached = sizes[back_after as usize];
        // A little more: where AIMD would have grown, so has this.
        assert!((950.0..1_100.0).contains(&reached), "{reached}");
        assert!(*sizes.last().unwrap() > 1_200.0);
    }
}
