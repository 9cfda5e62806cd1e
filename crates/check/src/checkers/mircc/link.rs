use std::collections::VecDeque;
use std::time::Duration;

use paceline_proto::core::Instant;
use paceline_proto::mircc::{Config, FaceConfig, FaceReport};
use paceline_proto::ndn::{Class, PACKET_BYTES_MAX, Stamps};

use super::measure::LinkUse;
use super::{Broken, LIFETIME_MAX, Rule};

/// Sizes that a face takes for given until it has seen some, bytes.
const INTEREST_BYTES: usize = 100;
const DATA_BYTES: usize = 1_200;
/// The least stamp that a forwarder takes for true, bit/s.
const STAMP_MIN: u64 = 1_000;

/// A face of a node, and the link behind it.
#[derive(Debug)]
pub(super) struct Link {
    face: FaceConfig,
    /// From when on the link out is free.
    free_at: Instant,
    packets_out: u64,
    bytes_out: u64,
    packets_in: u64,
    bytes_in: u64,
    /// The last Interest that came straight from the shaper, and its bytes.
    interest: Option<(Instant, usize)>,
    /// The last secondary one of these.
    secondary: Option<Instant>,
    interest_bytes_max: usize,
    data_bytes_min: usize,
    /// As the face said last.
    rates: Option<(f64, f64)>,
    /// Until when a neighbour was deprioritized, whose primary Interests wait behind secondary
    /// ones, as long as they live.
    deprioritized_until: Option<Instant>,
    /// When the node handed over each packet that waits for the link, in the order in which they
    /// leave.
    waiting: VecDeque<Instant>,
    pub(super) used: Option<LinkUse>,
}

/// A packet that leaves.
pub(super) struct Leaving {
    pub(super) at: Instant,
    pub(super) bytes: usize,
    /// True if it did not wait for the link.
    pub(super) is_direct: bool,
}

impl Link {
    pub(super) fn new(face: FaceConfig) -> Link {
        Link {
            face,
            free_at: Instant::ZERO,
            packets_out: 0,
            bytes_out: 0,
            packets_in: 0,
            bytes_in: 0,
            interest: None,
            secondary: None,
            interest_bytes_max: INTEREST_BYTES,
            data_bytes_min: DATA_BYTES,
            rates: None,
            deprioritized_until: None,
            waiting: VecDeque::new(),
            used: None,
        }
    }

    /// How long a packet may wait for the link at most.
    pub(super) fn wait_max(&self) -> Duration {
        let rate = self.face.out_bits_per_second;
        rate.map_or(Duration::ZERO, |rate| {
            let bits = (self.face.queue_bytes_max + PACKET_BYTES_MAX) as u64 * 8;
            Duration::from_nanos(bits.saturating_mul(1_000_000_000) / rate.max(1))
        })
    }

    /// When the node handed over the packet that waits longest; none if none waits.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.waiting.front().copied()
    }

    pub(super) fn queue_bytes_max(&self) -> usize {
        self.face.queue_bytes_max
    }

    pub(super) fn note_arrival(&mut self, bytes: usize) {
        self.packets_in += 1;
        self.note_fragment(bytes);
    }

    /// A part of a packet came, which counts as one only once it is whole.
    pub(super) fn note_fragment(&mut self, bytes: usize) {
        self.bytes_in += bytes as u64;
    }

    pub(super) fn note_data(&mut self, bytes: usize) {
        self.data_bytes_min = self.data_bytes_min.min(bytes);
    }

    /// A packet leaves. Returns when the node handed it over.
    pub(super) fn send(&mut self, leaving: &Leaving) -> Result<Instant, Broken> {
        let &Leaving { at, bytes, is_direct } = leaving;
        let waited_since = if is_direct { None } else { self.waiting.pop_front() };
        let handed_at = waited_since.unwrap_or(at);
        self.packets_out += 1;
        self.bytes_out += bytes as u64;
        let Some(rate) = self.face.out_bits_per_second else { return Ok(handed_at) };
        if at < self.free_at {
            let early = self.free_at - at;
            return Err((
                Rule::Link,
                format!("{bytes} bytes left {early:?} before the link was free"),
            ));
        }
        // Each gap may have been cut to whole nanoseconds.
        let nanos = (bytes as u64 * 8_000_000_000 / rate.max(1)).saturating_sub(1);
        self.free_at = at + Duration::from_nanos(nanos);
        Ok(handed_at)
    }

    /// An Interest leaves, which arrived at the node at `came_at` if another node sent it.
    pub(super) fn send_interest(
        &mut self,
        leaving: &Leaving,
        (class, came_at): (Class, Option<Instant>),
        config: &Config,
    ) -> Result<(), Broken> {
        let &Leaving { at, bytes, is_direct } = leaving;
        if let (Class::Primary, Some(came_at), Some(secondary)) = (class, came_at, self.secondary)
            && came_at < secondary
            && self.deprioritized_until.is_none_or(|until| until + LIFETIME_MAX < came_at)
        {
            let what = format!(
                "a secondary Interest left at {secondary}, a primary one of {came_at} at {at}"
            );
            return Err((Rule::Priority, what));
        }
        if let Some(capacity) = self.face.in_bits_per_second.filter(|_| is_direct) {
            if let Some((last, bytes)) = self.interest {
                let inflation = self.data_bytes_min as f64 / self.interest_bytes_max as f64;
                let rate = capacity.max(1) as f64 * config.shaper.headroom / inflation.max(1.01);
                let gap = Duration::from_nanos((bytes as f64 * 8e9 / rate * (1.0 - 1e-9)) as u64);
                if at - last + Duration::from_nanos(2) < gap {
                    let what =
                        format!("Interests left {:?} apart, their Data need {gap:?}", at - last);
                    return Err((Rule::Link, what));
                }
            }
            self.interest = Some((at, bytes));
            if class == Class::Secondary {
                self.secondary = Some(at);
            }
        }
        self.interest_bytes_max = self.interest_bytes_max.max(bytes);
        Ok(())
    }

    /// The most that Data may be stamped with that came in by this face with these stamps.
    pub(super) fn bound(&self, stamps: Stamps) -> (u64, u64) {
        let (primary, secondary) = match (self.rates, self.face.in_bits_per_second) {
            (Some((primary, secondary)), Some(_)) => {
                ((primary as u64).max(1), (secondary as u64).max(1))
            }
            (None, Some(capacity)) => (capacity.max(1), capacity.max(1)),
            (_, None) => (u64::MAX, u64::MAX),
        };
        let lower = |stamp: u64, own: u64| stamp.max(STAMP_MIN.min(own)).min(own);
        (
            lower(stamps.primary_bits_per_second, primary),
            lower(stamps.secondary_bits_per_second, secondary),
        )
    }

    /// The face as it says it is.
    pub(super) fn check(
        &mut self,
        at: Instant,
        face: &FaceReport,
        config: &Config,
    ) -> Result<(), Broken> {
        if face.has_deprioritized {
            self.deprioritized_until = Some(at);
        }
        self.waiting.resize(face.packets_waiting, at);
        let counts = &face.counts;
        let link = |is_kept: bool, what: &dyn Fn() -> String| {
            if is_kept { Ok(()) } else { Err((Rule::Link, what())) }
        };
        let handed = counts.interests_out + counts.data_out + counts.nacks_out;
        let gone = self.packets_out + face.packets_waiting as u64 + counts.dropped;
        link(handed == gone, &|| {
            let (left, waiting) = (self.packets_out, face.packets_waiting);
            format!(
                "{handed} packets for {}: {left} left, {waiting} wait, {} were dropped",
                face.peer, counts.dropped
            )
        })?;
        let waiting = face.bytes_waiting as u64;
        link(counts.bytes_out == self.bytes_out + waiting, &|| {
            let (handed, left) = (counts.bytes_out, self.bytes_out);
            format!("{handed} bytes for {}: {left} left, {waiting} wait", face.peer)
        })?;
        link(face.bytes_waiting <= self.face.queue_bytes_max, &|| {
            format!("{waiting} bytes wait for {}", face.peer)
        })?;
        link(face.interests_waiting <= config.shaper.queue_max, &|| {
            format!("{} Interests wait for {}", face.interests_waiting, face.peer)
        })?;
        let came = counts.interests_in + counts.data_in + counts.nacks_in;
        if (came, counts.bytes_in) != (self.packets_in, self.bytes_in) {
            let what = format!(
                "{} packets and {} bytes came from {}, {came} and {} were counted",
                self.packets_in, self.bytes_in, face.peer, counts.bytes_in
            );
            return Err((Rule::Counts, what));
        }
        self.rates = face.rates_bits_per_second;
        let Some((primary, secondary)) = face.rates_bits_per_second else { return Ok(()) };
        let capacity = self.face.in_bits_per_second.unwrap_or(0).max(1) as f64;
        // Zero: the controller has no such class.
        let is_in = |rate: f64, least: f64| rate.is_finite() && rate >= least && rate <= capacity;
        if !is_in(primary, f64::MIN_POSITIVE) || !is_in(secondary, 0.0) {
            let what = format!("rates {primary} and {secondary} on a link of {capacity}");
            return Err((Rule::Rate, what));
        }
        Ok(())
    }
}
