//! How much of a stream's queue the kernel holds: what the path takes, and a little more.
//!
//! Left to itself the kernel takes megabytes, and most of them stand in the queues of devices,
//! where no protocol can put anything before them. So its send buffer follows the path: rate times
//! (least round trip + d) keep the path busy and add a delay of d.
//!
//! Rate and least round trip are estimated as in BBR (Cardwell et al., CACM 2017), by a windowed
//! maximum and minimum, but they bound the buffer and not the window, under any congestion
//! control. The present round trip serves only to tell that there is no queue at all. To fit the
//! buffer to it, as TCP Vegas does with the window, starves members of a ring: a stream's
//! acknowledgements wait behind the data of its neighbours, and whoever holds less yields more.

use std::io;
use std::time::Duration;

use paceline_proto::core::Instant;
use tokio::net::TcpStream;

use crate::sys::{self, Path};

/// The share of a new stream. A path that takes more gets more within some round trips.
const BYTES_FIRST: u32 = 64 << 10;
/// The least share: about two messages of the usual size, so that one is with the device while
/// the next is written.
const BYTES_MIN: u32 = 16 << 10;
/// The largest: a gigabit over 32 ms, or 100 Mbit over 320 ms.
const BYTES_MAX: u32 = 4 << 20;
/// Least time between two looks at the path.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longest time between two looks at the path of a busy stream.
const LOOK_WITHIN: Duration = Duration::from_millis(500);
/// Least time over which a rate is taken: a device may send ahead of its rate for some
/// milliseconds.
const RATE_OVER: Duration = Duration::from_millis(100);
/// Most time over which a rate is taken: the stream has rested in between.
const RATE_OVER_MAX: Duration = Duration::from_secs(1);
/// How long a rate is remembered, at least; at most it is twice as long.
const RATE_KEPT: Duration = Duration::from_secs(5);
/// Rates taken before a new stream's share is lowered.
const RATES_FIRST: u32 = 5;
/// One of so many rates is taken with a larger share: a stream that got little because its
/// neighbours took much, or because the path was slower, finds out.
const RATES_A_PROBE: u32 = 10;
/// By how much the share is larger then: enough to show, too little for a queue to show.
const PROBE_GAIN: f64 = 1.25;

/// The kernel's share of one stream's queue.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: u32,
    delay: Duration,
    look_at: Instant,
    was_full: bool,
    rate: Rate,
    // Payload of a full segment; 1 until it is known.
    segment_bytes: usize,
    // Bytes written since a packet of the device was last ended.
    packet_bytes: usize,
}

impl Share {
    /// The share of a new stream, which shall add `delay` to the path's own.
    pub(crate) fn new(
        stream: &TcpStream,
        delay: Duration,
        now: Instant,
    ) -> io::Result<Option<Share>> {
        if !sys::KNOWS_PATHS {
            return Ok(None);
        }
        sys::set_send_buffer_bytes(stream, BYTES_FIRST)?;
        Ok(Some(Share::first(delay, now)))
    }

    fn first(delay: Duration, now: Instant) -> Share {
        Share {
            bytes: BYTES_FIRST,
            delay,
            look_at: now + LOOK_EVERY,
            was_full: false,
            rate: Rate::new(now),
            segment_bytes: 1,
            packet_bytes: 0,
        }
    }

    /// The most to write at once: what is left of a packet of the device. That is at most half of
    /// the share, since a write into a buffer that is not full may fill it beyond its size, and
    /// what travels in large pieces arrives, is forwarded and queues in large pieces at every hop
    /// after this one. It is cut into full segments, so that it ends with one.
    pub(crate) fn write_bytes_max(&self) -> usize {
        let half = self.bytes as usize / 2;
        let packet_bytes_max = half - half % self.segment_bytes.min(half);
        match packet_bytes_max.saturating_sub(self.packet_bytes) {
            0 => packet_bytes_max,
            left => left,
        }
    }

    /// Notes what the kernel took of a write that offered this many bytes.
    pub(crate) fn note_write(&mut self, offered: usize, written: usize) {
        if written < offered {
            self.was_full = true;
            self.packet_bytes += written;
        } else if written < self.write_bytes_max() {
            self.packet_bytes += written;
        } else {
            self.packet_bytes = 0;
        }
    }

    /// Looks at the path if it is time, and fits the buffer to it. Raising it wakes the writer.
    ///
    /// A stream that never fills its buffer says nothing about its path.
    pub(crate) fn follow(&mut self, stream: &TcpStream, now: Instant) -> io::Result<()> {
        if !self.was_full || now < self.look_at {
            return Ok(());
        }
        self.was_full = false;
        let path = sys::path(stream)?;
        let fitted = self.fitted(path, now);
        // An eighth is within the noise.
        if fitted.abs_diff(self.bytes) > self.bytes / 8 {
            self.bytes = fitted;
            sys::set_send_buffer_bytes(stream, fitted)?;
        }
        Ok(())
    }

    /// The share that fits the path, seen with a full one.
    fn fitted(&mut self, path: Path, now: Instant) -> u32 {
        // The effect of a change shows after a round trip, and in the mean after two.
        self.look_at = now + (2 * path.trip_smoothed).clamp(LOOK_EVERY, LOOK_WITHIN);
        self.segment_bytes = path.segment_bytes.max(1) as usize;
        self.rate.note(path.acknowledged_bytes, now);
        let mut fitted = self.rate.best() * (path.trip_least + self.delay).as_secs_f64();
        if self.rate.taken % RATES_A_PROBE == RATES_A_PROBE - 1 {
            fitted *= PROBE_GAIN;
        }
        let standing = path.trip_smoothed.saturating_sub(path.trip_least);
        let bytes = if standing < self.delay / 4 {
            // Hardly any queue: the path may take more than it ever got.
            fitted.max(f64::from(self.bytes)) * 2.0
        } else if self.rate.taken >= RATES_FIRST {
            fitted
        } else {
            fitted.max(f64::from(self.bytes))
        };
        (bytes as u32).clamp(BYTES_MIN, BYTES_MAX)
    }
}

/// The best rate of the last seconds.
#[derive(Debug)]
struct Rate {
    // Where the present measurement began.
    since: Instant,
    bytes_then: u64,
    // Bytes a second, in the present period and in the one before.
    best: f64,
    best_before: f64,
    period_until: Instant,
    /// Rates taken so far.
    taken: u32,
}

impl Rate {
    fn new(now: Instant) -> Rate {
        Rate {
            since: now,
            bytes_then: 0,
            best: 0.0,
            best_before: 0.0,
            period_until: now + RATE_KEPT,
            taken: 0,
        }
    }

    fn note(&mut self, bytes: u64, now: Instant) {
        let over = now.since(self.since);
        if over < RATE_OVER {
            return;
        }
        // A stream at rest forgets nothing.
        if now >= self.period_until && over <= RATE_OVER_MAX {
            self.best_before = self.best;
            self.best = 0.0;
            self.period_until = now + RATE_KEPT;
        }
        if over <= RATE_OVER_MAX {
            self.best = self.best.max((bytes - self.bytes_then) as f64 / over.as_secs_f64());
            self.taken = self.taken.wrapping_add(1);
        }
        (self.since, self.bytes_then) = (now, bytes);
    }

    fn best(&self) -> f64 {
        self.best.max(self.best_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(2);

    /// Follows a path of this rate and least round trip for ten seconds; returns the share and
    /// the delay that it adds.
    fn settled(bytes_per_second: f64, least: Duration) -> (u32, Duration) {
        let mut share = Share::first(DELAY, Instant::ZERO);
        let (mut now, mut acknowledged) = (Instant::ZERO, 0.0);
        let mut settled = (0, Duration::ZERO);
        let mut path = Path {
            trip_smoothed: least,
            trip_least: least,
            segment_bytes: 1448,
            acknowledged_bytes: 0,
        };
        while now < Instant::ZERO + Duration::from_secs(10) {
            let full = f64::from(share.bytes) / bytes_per_second;
            path.trip_smoothed = least.max(Duration::from_secs_f64(full));
            let step = share.look_at - now;
            now = share.look_at;
            let rate = f64::from(share.bytes) / path.trip_smoothed.as_secs_f64();
            acknowledged += rate * step.as_secs_f64();
            path.acknowledged_bytes = acknowledged as u64;
            share.bytes = share.fitted(path, now);
            if share.rate.taken % RATES_A_PROBE == RATES_A_PROBE / 2 {
                // Long after a probe.
                settled = (share.bytes, path.trip_smoothed - least);
            }
        }
        settled
    }

    #[test]
    fn a_short_path_is_kept_busy_with_the_wanted_delay() {
        for rate in [12e6, 120e6] {
            let (bytes, delay) = settled(rate, Duration::from_micros(20));
            assert!((f64::from(bytes) / rate - 2.02e-3).abs() < 0.1e-3, "{bytes} at {rate}");
            assert!(delay.abs_diff(DELAY) < Duration::from_micros(100), "{delay:?}");
        }
    }

    #[test]
    fn a_long_fat_path_is_filled() {
        let (bytes, delay) = settled(12e6, Duration::from_millis(100));
        assert!(f64::from(bytes) >= 1.2e6, "{bytes}");
        assert!(delay <= 2 * DELAY, "{delay:?}");
    }

    #[test]
    fn the_share_stays_within_its_bounds() {
        assert_eq!(settled(1e5, Duration::from_millis(1)).0, BYTES_MIN);
        assert_eq!(settled(1e10, Duration::from_millis(1)).0, BYTES_MAX);
    }

    #[test]
    fn a_queue_of_others_does_not_shrink_the_share_and_a_probe_finds_what_it_hid() {
        let mut share = Share::first(DELAY, Instant::ZERO);
        let mut path = Path {
            trip_smoothed: DELAY,
            trip_least: Duration::ZERO,
            segment_bytes: 1448,
            acknowledged_bytes: 0,
        };
        let mut fitted_after = |taken: u32, bytes: u64| {
            path.acknowledged_bytes += bytes;
            // Acknowledgements wait from the seventh on.
            path.trip_smoothed = if taken < 7 { DELAY } else { 3 * DELAY };
            share.bytes = share.fitted(path, Instant::ZERO + RATE_OVER * taken);
            share.bytes
        };
        for taken in 1..5 {
            assert_eq!(fitted_after(taken, 1_200_000), BYTES_FIRST, "not lowered at once");
        }
        for taken in 5..9 {
            let bytes = if taken < 7 { 1_200_000 } else { 400_000 };
            assert_eq!(fitted_after(taken, bytes), 24_000);
        }
        assert_eq!(fitted_after(9, 400_000), 30_000, "a probe");
        assert_eq!(fitted_after(10, 1_400_000), 28_000, "it found more");
    }

    #[test]
    fn a_rest_is_not_taken_for_a_slow_path() {
        let at = |seconds| Instant::ZERO + Duration::from_secs_f64(seconds);
        let mut rate = Rate::new(at(0.0));
        rate.note(1_000_000, at(0.1));
        assert_eq!(rate.best(), 1e7);
        rate.note(1_100_000, at(60.0));
        assert_eq!(rate.best(), 1e7);
        // Busy again and slower for good.
        for step in 1..=120u32 {
            let bytes = 1_100_000 + 100_000 * u64::from(step);
            rate.note(bytes, at(60.0 + 0.1 * f64::from(step)));
        }
        assert!((rate.best() - 1e6).abs() < 1e3, "{}", rate.best());
    }

    #[test]
    fn packets_are_whole_segments_and_at_most_half_of_the_share() {
        let mut share = Share::first(DELAY, Instant::ZERO);
        (share.bytes, share.segment_bytes) = (20_000, 1448);
        assert_eq!(share.write_bytes_max(), 6 * 1448);
        share.note_write(8000, 8000);
        assert_eq!(share.write_bytes_max(), 6 * 1448 - 8000);
        share.note_write(6 * 1448 - 8000, 6 * 1448 - 8000);
        assert_eq!(share.write_bytes_max(), 6 * 1448);
        assert!(!share.was_full);
        share.note_write(6 * 1448, 1000);
        assert!(share.was_full);
    }
}
