//! The share of a stream's queue that the kernel holds: what the path takes, and a little more.
//!
//! By default the kernel takes megabytes, and most of them wait in the queues of devices, where a
//! protocol can no longer reorder them. So its send buffer follows the path: rate times (least
//! round trip + d) keeps the path busy and adds a delay of d.
//!
//! Rate and least round trip are estimated as in BBR (Cardwell et al., CACM 2017), by a windowed
//! maximum and minimum, but they bound the buffer and not the congestion window, under any
//! congestion control. The present round trip serves only to detect an empty queue. Fitting the
//! buffer to it, as TCP Vegas does with the window, starves members of a ring: a stream's
//! acknowledgements wait behind the data of its neighbours, and the stream with less data in the
//! kernel yields more.

use std::io;
use std::time::Duration;

use paceline_proto::core::Instant;
use tokio::net::TcpStream;

use crate::sys::{self, Path};

/// The share of a new stream. It grows within some round trips if the path takes more.
const BYTES_FIRST: u32 = 64 << 10;
/// The least share: about two messages of the usual size, so that one is with the device while
/// the next is written.
const BYTES_MIN: u32 = 16 << 10;
/// The largest: a gigabit over 32 ms, or 100 Mbit over 320 ms.
const BYTES_MAX: u32 = 4 << 20;
/// The delay is the time that this many bytes take, at most the configured delay and at least a
/// part of it: a larger share saves too few wake-ups for its latency.
const BYTES_A_BATCH: f64 = 108_000.0;
/// The least delay is the configured one divided by this.
const DELAY_PARTS: u32 = 5;
/// Least time between two looks at a share that is full.
const LOOK_LEAST: Duration = Duration::from_micros(100);
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
/// One rate sample in this many is taken with a larger share. So a stream whose share shrank
/// because its neighbours sent much, or because the path was slower, finds that there is more room.
const RATES_A_PROBE: u32 = 10;
/// Factor of the larger share: enough to show more room, too little to cause a queue.
const PROBE_GAIN: f64 = 1.25;

/// The kernel's share of one stream's queue.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: u32,
    // SO_SNDBUF as it was set.
    buffer_bytes: u32,
    delay: Duration,
    look_at: Instant,
    was_full: bool,
    // The last write of this flush was cut short: the kernel signals. It signals once for each
    // refusal, so a flush that writes nothing waits for no signal.
    is_refused: bool,
    rate: Rate,
    // Payload of a full segment; 1 until it is known.
    segment_bytes: usize,
    // Bytes written since a packet of the device was last ended.
    packet_bytes: usize,
    // Bytes that the kernel held at the last look, plus those written since.
    held: usize,
    // Before this the share is not looked at again.
    held_until: Instant,
    refill: Refill,
}

/// When a full share is refilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refill {
    /// Nothing waits, or the kernel signals: the rate is not known yet, or the kernel accepted
    /// nothing for long.
    Signalled,
    /// In any turn from the first instant on, and at the second at the latest.
    Timed(Instant, Instant),
}

impl Share {
    /// The share of a new stream, which adds `delay` to that of the path.
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
            buffer_bytes: BYTES_FIRST,
            delay,
            look_at: now + LOOK_EVERY,
            was_full: false,
            is_refused: false,
            rate: Rate::new(now),
            segment_bytes: 1,
            packet_bytes: 0,
            held: 0,
            held_until: now,
            refill: Refill::Signalled,
        }
    }

    /// Bytes that may be written now, of `waiting` bytes; `None` if it is too early to look.
    ///
    /// By default the kernel signals whenever a third of its buffer is free, and each signal is a
    /// wake-up. But the rate predicts when there is room: so turns that the node has anyway refill
    /// the share, if they come in time.
    pub(crate) fn room(
        &mut self,
        stream: &TcpStream,
        waiting: usize,
        now: Instant,
    ) -> io::Result<Option<usize>> {
        if waiting == 0 || !self.rate.is_known() {
            return Ok(Some(usize::MAX));
        }
        if now < self.refill_from() {
            return Ok(None);
        }
        if now < self.held_until {
            return Ok(Some(self.room_beside(self.held, waiting, now)));
        }
        self.held_until = now + self.delay / 16;
        let held = sys::unacknowledged_bytes(stream)?;
        Ok(Some(self.room_beside(held, waiting, now)))
    }

    fn room_beside(&mut self, held: usize, waiting: usize, now: Instant) -> usize {
        self.is_refused = false;
        if self.refill_by() <= now && held >= self.held {
            // The kernel accepted nothing in all that time: its buffer is full, and it signals by
            // itself.
            return usize::MAX;
        }
        self.held = held;
        let room = (self.bytes as usize).saturating_sub(held);
        if room >= waiting.min(self.bytes as usize / 4) { room } else { 0 }
    }

    /// Notes the end of a flush: bytes written, and bytes that still wait.
    pub(crate) fn note_flush(&mut self, written: usize, waiting: usize, now: Instant) {
        self.held += written;
        if waiting == 0 || self.is_refused || !self.rate.is_known() {
            self.refill = Refill::Signalled;
            return;
        }
        let (share, quarter) = (self.bytes as usize, self.bytes as usize / 4);
        self.was_full |= self.held >= share - quarter;
        let until = |left: usize| {
            let bytes = self.held.saturating_sub(left);
            now + Duration::from_secs_f64(bytes as f64 / self.rate.best())
        };
        let by = until(quarter).max(now + self.delay / 8).max(now + LOOK_LEAST);
        self.refill = Refill::Timed(until(share - quarter), by);
    }

    /// The earliest instant at which a flush may find room.
    pub(crate) fn refill_from(&self) -> Instant {
        match self.refill {
            Refill::Signalled => Instant::ZERO,
            Refill::Timed(from, _) => from,
        }
    }

    /// The latest instant for the next flush; [`Instant::MAX`] if the kernel signals.
    pub(crate) fn refill_by(&self) -> Instant {
        match self.refill {
            Refill::Signalled => Instant::MAX,
            Refill::Timed(_, by) => by,
        }
    }

    /// The most to write at once: the rest of a packet of the device. It is at most half of the
    /// share, since a write into a buffer that is not full may exceed its size, and large pieces
    /// arrive, are forwarded and queue as large pieces at every later hop. It consists of full
    /// segments.
    pub(crate) fn write_bytes_max(&self) -> usize {
        let half = self.bytes as usize / 2;
        let packet_bytes_max = half - half % self.segment_bytes.min(half);
        match packet_bytes_max.saturating_sub(self.packet_bytes) {
            0 => packet_bytes_max,
            left => left,
        }
    }

    /// Notes the bytes that the kernel accepted of a write that offered this many.
    pub(crate) fn note_write(&mut self, offered: usize, written: usize) {
        self.is_refused = written < offered;
        if written < offered {
            self.was_full = true;
            self.packet_bytes += written;
        } else if written < self.write_bytes_max() {
            self.packet_bytes += written;
        } else {
            self.packet_bytes = 0;
        }
    }

    /// Looks at the path if it is time, and adapts the buffer to it. A larger buffer wakes the
    /// writer.
    ///
    /// A stream that never fills its buffer gives no information about its path.
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
        }
        // With room to spare, or the kernel would signal.
        let buffer_bytes = if self.rate.is_known() { 2 * self.bytes } else { self.bytes };
        if buffer_bytes != self.buffer_bytes {
            self.buffer_bytes = buffer_bytes;
            sys::set_send_buffer_bytes(stream, buffer_bytes)?;
        }
        Ok(())
    }

    /// The delay to add at a rate.
    fn delay_at(&self, rate: f64) -> Duration {
        let batch = Duration::try_from_secs_f64(BYTES_A_BATCH / rate).unwrap_or(self.delay);
        batch.clamp(self.delay / DELAY_PARTS, self.delay)
    }

    /// The share that fits the path, seen with a full one.
    fn fitted(&mut self, path: Path, now: Instant) -> u32 {
        // The effect of a change shows after a round trip, and in the mean after two.
        self.look_at = now + (2 * path.trip_smoothed).clamp(LOOK_EVERY, LOOK_WITHIN);
        self.segment_bytes = path.segment_bytes.max(1) as usize;
        self.rate.note(path.acknowledged_bytes, now);
        let rate = self.rate.best();
        let delay = self.delay_at(rate);
        let mut fitted = rate * (path.trip_least + delay).as_secs_f64();
        if self.rate.taken % RATES_A_PROBE == RATES_A_PROBE - 1 {
            fitted *= PROBE_GAIN;
        }
        let standing = path.trip_smoothed.saturating_sub(path.trip_least);
        let bytes = if standing < delay / 4 {
            // Hardly any queue: the path may take more than the stream has sent so far.
            fitted.max(f64::from(self.bytes)) * 2.0
        } else if self.rate.is_known() {
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
        // A stream at rest keeps its estimates.
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

    fn is_known(&self) -> bool {
        self.taken >= RATES_FIRST
    }

    /// Bytes a second.
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
        // The faster one takes a batch sooner.
        for (rate, wanted) in [(12e6, DELAY), (120e6, Duration::from_micros(900))] {
            let least = Duration::from_micros(20);
            let (bytes, delay) = settled(rate, least);
            let held_for = Duration::from_secs_f64(f64::from(bytes) / rate);
            let near = Duration::from_micros(100);
            assert!(held_for.abs_diff(wanted + least) < near, "{bytes} at {rate}");
            assert!(delay.abs_diff(wanted) < near, "{delay:?}");
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
    fn a_share_is_filled_with_the_turns_that_come_and_at_the_latest_when_a_quarter_is_left() {
        let start = Instant::ZERO + Duration::from_secs(1);
        let mut share = Share::first(DELAY, start);
        share.bytes = 40_000;
        (share.rate.taken, share.rate.best) = (RATES_FIRST, 1e7);
        let ms = Duration::from_millis(1);

        assert_eq!(share.room_beside(0, 100_000, start), 40_000);
        share.note_flush(40_000, 60_000, start);
        assert_eq!((share.refill_from(), share.refill_by()), (start + ms, start + 3 * ms));
        assert!(share.was_full);
        // Turns come: a quarter must be free, unless less waits.
        assert_eq!(share.room_beside(32_000, 60_000, start + ms), 0);
        assert_eq!(share.room_beside(32_000, 5_000, start + ms), 8_000);
        assert_eq!(share.room_beside(28_000, 60_000, start + ms), 12_000);
        share.note_flush(12_000, 48_000, start + ms);
        assert_eq!(share.refill_by(), start + 4 * ms);
        share.note_flush(0, 0, start + 3 * ms);
        assert_eq!((share.refill_from(), share.refill_by()), (Instant::ZERO, Instant::MAX));
    }

    #[test]
    fn a_stream_that_takes_nothing_is_left_to_the_kernels_signal() {
        let mut share = Share::first(DELAY, Instant::ZERO);
        share.bytes = 40_000;
        (share.rate.taken, share.rate.best) = (RATES_FIRST, 1e7);
        share.note_flush(40_000, 60_000, Instant::ZERO);
        let by = share.refill_by();
        assert_eq!(share.room_beside(40_000, 60_000, by), usize::MAX);
        share.note_write(60_000, 20_000);
        share.note_flush(20_000, 40_000, by);
        assert_eq!(share.refill_by(), Instant::MAX, "no deadline: nothing polls a peer at rest");
    }

    #[test]
    fn a_flush_that_finds_no_room_after_the_kernels_signal_is_repeated_by_the_clock() {
        let mut share = Share::first(DELAY, Instant::ZERO);
        share.bytes = 40_000;
        share.note_write(60_000, 50_000);
        share.note_flush(50_000, 60_000, Instant::ZERO);
        assert_eq!(share.refill_by(), Instant::MAX, "refused: the kernel signals");
        // By the time it does, the rate is known, and the share is smaller than what it holds.
        (share.rate.taken, share.rate.best) = (RATES_FIRST, 1e7);
        let now = Instant::ZERO + DELAY;
        assert_eq!(share.room_beside(45_000, 60_000, now), 0);
        share.note_flush(0, 60_000, now);
        assert!(share.refill_by() < now + 5 * DELAY, "no second signal comes");
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
