//! How much of a stream's queue the kernel holds: what the path takes, and a little more.
//!
//! Left to itself the kernel takes megabytes, and most of them stand in the queues of devices,
//! where no protocol can put anything before them. So its send buffer follows the path: by
//! Little's law a full buffer of B bytes that are acknowledged after a round trip R drains at
//! B / R, and B (R0 + d) / R bytes keep the path, of least round trip R0, busy with a delay of d.
//! The idea is that of TCP Vegas (Brakmo & Peterson 1995), applied to the buffer and not to the
//! window: it needs no help of the congestion control and works with any.

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

/// The kernel's share of one stream's queue.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: u32,
    delay: Duration,
    look_at: Instant,
    was_full: bool,
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
        Ok(Some(Share {
            bytes: BYTES_FIRST,
            delay,
            look_at: now + LOOK_EVERY,
            was_full: false,
            segment_bytes: 1,
            packet_bytes: 0,
        }))
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
        self.segment_bytes = path.segment_bytes.max(1) as usize;
        // The effect of a change shows after a round trip, and in the mean after two.
        self.look_at = now + LOOK_EVERY.max(2 * path.trip_smoothed);
        let fitted = fitted(self.bytes, path, self.delay);
        // An eighth is within the noise.
        if fitted.abs_diff(self.bytes) > self.bytes / 8 {
            self.bytes = fitted;
            sys::set_send_buffer_bytes(stream, fitted)?;
        }
        Ok(())
    }
}

/// The share that fits a path with these round trips, seen with a full share of `bytes` bytes.
fn fitted(bytes: u32, path: Path, delay: Duration) -> u32 {
    let smoothed = path.trip_smoothed.as_secs_f64().max(1e-6);
    let standing = path.trip_smoothed.saturating_sub(path.trip_least);
    let factor = if standing < delay / 2 {
        // Hardly any queue: the path may take any amount more, and a long one would else be
        // filled by steps of d / R.
        2.0
    } else {
        ((path.trip_least + delay).as_secs_f64() / smoothed).clamp(0.5, 2.0)
    };
    ((f64::from(bytes) * factor) as u32).clamp(BYTES_MIN, BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows a path of this rate and least round trip until the share stays; returns it and
    /// the delay that it adds.
    fn settled(bytes_per_second: f64, least: Duration) -> (u32, Duration) {
        let (mut bytes, delay) = (BYTES_FIRST, Duration::from_millis(3));
        let mut path = Path { trip_smoothed: least, trip_least: least, segment_bytes: 1448 };
        for _ in 0..100 {
            let full = Duration::from_secs_f64(f64::from(bytes) / bytes_per_second);
            path.trip_smoothed = full.max(least);
            bytes = fitted(bytes, path, delay);
        }
        (bytes, path.trip_smoothed - least)
    }

    #[test]
    fn a_short_path_is_kept_busy_with_the_wanted_delay() {
        for rate in [12e6, 120e6] {
            let (bytes, delay) = settled(rate, Duration::from_micros(20));
            assert!((f64::from(bytes) / rate - 3.02e-3).abs() < 0.1e-3, "{bytes} at {rate}");
            assert!(delay.abs_diff(Duration::from_millis(3)) < Duration::from_micros(100));
        }
    }

    #[test]
    fn a_long_fat_path_is_filled() {
        let (bytes, delay) = settled(12e6, Duration::from_millis(100));
        assert!(f64::from(bytes) >= 1.2e6, "{bytes}");
        assert!(delay <= Duration::from_millis(4), "{delay:?}");
    }

    #[test]
    fn packets_are_whole_segments_and_at_most_half_of_the_share() {
        let mut share = Share {
            bytes: 20_000,
            delay: Duration::ZERO,
            look_at: Instant::ZERO,
            was_full: false,
            segment_bytes: 1448,
            packet_bytes: 0,
        };
        assert_eq!(share.write_bytes_max(), 6 * 1448);
        share.note_write(8000, 8000);
        assert_eq!(share.write_bytes_max(), 6 * 1448 - 8000);
        share.note_write(6 * 1448 - 8000, 6 * 1448 - 8000);
        assert_eq!(share.write_bytes_max(), 6 * 1448);
        assert!(!share.was_full);
        share.note_write(6 * 1448, 1000);
        assert!(share.was_full);
    }

    #[test]
    fn the_share_stays_within_its_bounds() {
        assert_eq!(settled(1e5, Duration::from_millis(1)).0, BYTES_MIN);
        assert_eq!(settled(1e10, Duration::from_millis(1)).0, BYTES_MAX);
    }
}
