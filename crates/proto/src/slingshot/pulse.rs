//! What a sender and its receivers tell each other of the rate.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::seq::check_seq;
use crate::core::field::{Field, Summed, fields};
use crate::core::{DecodeError, GroupId, Payload, Rng, ViewId, split, take_u8};

/// Most receivers whose round-trip times a [`Pulse`] names.
pub(crate) const ROUND_TRIPS_MAX: usize = 16;
/// Bytes of each.
const ROUND_TRIP_BYTES: usize = 6;
/// The value of [`Pulse::limiting`] for none.
pub const NO_RANK: u32 = u32::MAX;

/// Round-trip times of receivers, each with the receiver's rank. Held as on the wire, so that
/// receiving them costs no memory.
///
/// ```text
/// count 1, each: rank 2  microseconds 4
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundTrips(Bytes);

impl RoundTrips {
    /// Bytes of this number of them.
    pub const fn bytes(count: usize) -> usize {
        1 + ROUND_TRIP_BYTES * count
    }

    /// Each rank and its time, microseconds.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u16, u32)> + '_ {
        self.0[1..].chunks_exact(ROUND_TRIP_BYTES).map(|mut one| (one.get_u16(), one.get_u32()))
    }
}

impl Field for RoundTrips {
    const BYTES_MIN: usize = 1;

    #[inline]
    fn bytes(times: &RoundTrips) -> usize {
        times.0.len()
    }

    #[inline]
    fn put<'a>(times: &'a RoundTrips, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_slice(&times.0);
        None
    }

    fn take(bytes: &mut Bytes, name: &'static str) -> Result<RoundTrips, DecodeError> {
        let mut rest = bytes.clone();
        let count = usize::from(take_u8(&mut rest)?);
        if count > ROUND_TRIPS_MAX {
            return Err(DecodeError::OutOfRange { field: name, value: count as u64 });
        }
        split(&mut rest, ROUND_TRIP_BYTES * count)?;
        Ok(RoundTrips(bytes.split_to(RoundTrips::bytes(count))))
    }

    fn any(rng: &mut Rng) -> RoundTrips {
        let mut times = RoundTripsBuilder::default();
        let count = rng.below(1 + ROUND_TRIPS_MAX as u32);
        times.build((0..count).map(|_| (u16::any(rng), u32::any(rng))))
    }

    fn layout(name: &str) -> String {
        format!("{name} 1, (rank 2, round_trip_us 4) each")
    }
}

/// Builds lists of round-trip times. It reuses its memory once messages with earlier lists are
/// dropped.
#[derive(Debug, Default)]
pub struct RoundTripsBuilder(BytesMut);

impl RoundTripsBuilder {
    /// The first 16 of these ranks and times, microseconds.
    pub fn build(&mut self, times: impl Iterator<Item = (u16, u32)>) -> RoundTrips {
        let buffer = &mut self.0;
        buffer.reserve(RoundTrips::bytes(ROUND_TRIPS_MAX));
        buffer.put_u8(0);
        for (count, (rank, micros)) in (1..).zip(times.take(ROUND_TRIPS_MAX)) {
            buffer[0] = count;
            buffer.put_u16(rank);
            buffer.put_u32(micros);
        }
        RoundTrips(buffer.split().freeze())
    }
}

fields! {
    /// From a sender to its group, about once a round-trip time while it sends: the allowed rate,
    /// and what its receivers need to measure and to report theirs. Source: RFC 4654, section
    /// 2.2.1, where data packets carry the same.
    ///
    /// The checksum (CRC-32) covers the fields before it but the tag.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Pulse {
        /// The group.
        pub group: GroupId,
        /// The sender's incarnation.
        pub incarnation: u64,
        /// The view in which receivers have the ranks that this names.
        pub view: ViewId,
        /// The sender's clock, microseconds; it wraps.
        pub stamp_us: u32,
        /// The number of its next packet.
        pub next: u64 where check_seq,
        /// The feedback round. Counts up from any number, and wraps.
        pub round: u32,
        /// The allowed rate, bytes a second.
        pub allowed: u32 where check_rate,
        /// The largest round-trip time of the group, microseconds.
        pub round_trip_max_us: u32 where check_round_trip,
        /// The rank of the current limiting receiver, or [`NO_RANK`].
        pub limiting: u32 where check_rank,
        /// True in slow start.
        pub is_slow_start: bool,
        /// The lowest rate that was reported in this round, bytes a second: the suppression rate.
        /// `u32::MAX` if none was.
        pub suppression: u32 where check_rate,
        /// Round-trip times of the receivers that reported last.
        pub round_trips: RoundTrips,
    }
}

impl Pulse {
    /// Bytes of one with this number of round-trip times, with tag and checksum.
    pub const fn wire_bytes(round_trips: usize) -> usize {
        1 + Pulse::BYTES_MIN - 1 + RoundTrips::bytes(round_trips) + 4
    }
}

impl Summed for Pulse {
    fn checksum(&self) -> u32 {
        let mut fields = [0u8; Pulse::BYTES_MIN - 1 + RoundTrips::bytes(ROUND_TRIPS_MAX)];
        let bytes = Pulse::bytes(self);
        Pulse::put(self, &mut &mut fields[..]);
        crc32fast::hash(&fields[..bytes])
    }
}

/// For a line of a trace.
impl fmt::Display for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pulse { group, round, allowed, round_trip_max_us, limiting, .. } = self;
        write!(f, "pulse {group} round {round} {allowed} B/s {round_trip_max_us} us limiting ")?;
        match *limiting {
            NO_RANK => write!(f, "none")?,
            rank => write!(f, "{rank}")?,
        }
        if self.is_slow_start { write!(f, " slow start") } else { Ok(()) }
    }
}

fields! {
    /// From a receiver to a sender: the answer to a [`Pulse`]. Source: RFC 4654, section 2.2.2.
    ///
    /// The checksum (CRC-32) covers the fields before it but the tag.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Report {
        /// The group.
        pub group: GroupId,
        /// The sender's incarnation.
        pub incarnation: u64,
        /// The stamp of the latest `Pulse`.
        pub stamp_us: u32,
        /// How long ago that came, microseconds.
        pub held_us: u32,
        /// Its round.
        pub round: u32,
        /// The loss event rate in units of 2^-32, rounded up; 0 if nothing was lost so far.
        pub loss: u32,
        /// The rate at which packets come from the sender, bytes a second.
        pub received: u32,
        /// The rate that the receiver wants, bytes a second, above 0.
        pub wanted: u32,
        /// True if nothing was lost so far.
        pub is_lossless: bool,
        /// True if the receiver is one of those that a sender with `follow = "tagged"` follows.
        pub is_followed: bool,
    }
}

impl Summed for Report {
    fn checksum(&self) -> u32 {
        let mut fields = [0u8; Report::BYTES_MIN];
        Report::put(self, &mut &mut fields[..]);
        crc32fast::hash(&fields)
    }
}

/// For a line of a trace.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { group, round, received, wanted, .. } = self;
        let loss = f64::from(self.loss) / f64::from(u32::MAX);
        write!(f, "report {group} round {round} loss {loss:.6} {received} B/s wants {wanted} B/s")
    }
}

/// Refuses a rate of zero.
fn check_rate(&rate: &u32) -> Result<(), DecodeError> {
    in_range(rate > 0, "rate", rate)
}

/// Refuses a time of zero, and one above a minute.
fn check_round_trip(&micros: &u32) -> Result<(), DecodeError> {
    in_range((1..=60_000_000).contains(&micros), "round_trip_max_us", micros)
}

fn check_rank(&rank: &u32) -> Result<(), DecodeError> {
    in_range(rank == NO_RANK || rank <= u32::from(u16::MAX), "limiting", rank)
}

fn in_range(holds: bool, field: &'static str, value: u32) -> Result<(), DecodeError> {
    if holds { Ok(()) } else { Err(DecodeError::OutOfRange { field, value: value.into() }) }
}
