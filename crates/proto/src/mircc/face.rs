//! A face: the link to one neighbour, and what is measured at it.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use super::arrivals::Arrivals;
use super::config::{Config, FaceConfig};
use super::controller::{Controller, Interval, RateController};
use super::face_id::FaceId;
use super::link::Link;
use super::mark::Marker;
use super::pit::{Asker, EntryId, Passing};
use super::reassembly::Reassembly;
use super::shaper::{Rank, Shaper, Sizes};
use super::unanswered::UnansweredInterests;
use super::undecodable::Undecodable;
use crate::core::{Instant, NodeId};
use crate::ndn::{Body, Class, Packet, Stamps};
use crate::parts::deadline::Deadline;
use crate::parts::slots::Slots;
use crate::parts::token_bucket::time_for;

/// The round-trip time assumed for a face's flows while none is known.
const ROUND_TRIP_GUESS: Duration = Duration::from_millis(50);
/// The longest round trip that is believed.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);
/// The least rate that is believed of a neighbour's stamp, bit/s: a Data in some seconds.
const STAMP_MIN: u64 = 1_000;
/// How much of the longest round trip is forgotten with each interval in which none is as long.
const ROUND_TRIP_FADES: u32 = 8;
/// Weight of one Interest in the share of those that were answered.
const ANSWERED_WEIGHT: f64 = 1.0 / 64.0;
/// Interests that a neighbour may have pending however few of them are answered.
const PENDING_MIN: f64 = 16.0;
/// A small table grants a neighbour this part of its share, if that is less: unanswered Interests
/// would fill it otherwise.
const PENDING_SHARE_MIN: f64 = 0.25;

/// An Interest that waits for its turn.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) entry: EntryId,
    pub(super) packet: Box<Packet>,
    /// Its bytes on the link.
    pub(super) bytes: usize,
}

impl Held {
    /// True unless a later Interest of its entry has taken its place at this face.
    pub(super) fn is_of(&self, face: FaceId, passing: &Passing) -> bool {
        let Body::Interest(interest) = &self.packet.body else { return false };
        passing.face == face && passing.is_waiting && passing.nonce == interest.nonce
    }
}

/// Counts of the packets of a face.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceCounts {
    /// Interests from the neighbour.
    pub interests_in: u64,
    /// Interests to it.
    pub interests_out: u64,
    /// Data from it.
    pub data_in: u64,
    /// Data to it.
    pub data_out: u64,
    /// Negative acknowledgements from it.
    pub nacks_in: u64,
    /// Negative acknowledgements to it.
    pub nacks_out: u64,
    /// Bytes of all these from it, as the link counts them.
    pub bytes_in: u64,
    /// Bytes of all these to it.
    pub bytes_out: u64,
    /// Packets that found no room in the queue to it.
    pub dropped: u64,
    /// Interests that found no room among those that wait to leave.
    pub refused: u64,
}

/// The rate of the link from a neighbour, and how it is shared.
#[derive(Debug)]
pub(super) struct Control {
    controller: Controller,
    capacity: f64,
    round_trip_min: Duration,
    data_min: f64,
    // The interval that is being measured.
    since: Instant,
    primary: Arrivals,
    secondary: Arrivals,
    other_way_bits: f64,
    longest: Duration,
    // Results of earlier ones.
    round_trip: Option<Duration>,
    observed_in: f64,
    demand: f64,
}

#[derive(Debug)]
pub(super) struct Face {
    pub(super) peer: NodeId,
    /// The face's number in path labels.
    pub(super) label: NonZeroU16,
    pub(super) link: Link<Box<Packet>>,
    pub(super) shaper: Shaper<Held>,
    pub(super) control: Option<Control>,
    /// When the interval of the control ends.
    pub(super) interval_timer: Deadline,
    pub(super) sizes: Sizes,
    pub(super) marker: Marker,
    pub(super) counts: FaceCounts,
    /// Entries of the table that the neighbour asked for first.
    pub(super) pending: usize,
    /// Bytes of memory that these take.
    pub(super) pending_bytes: usize,
    /// Mean time from an Interest to its Data, at this face.
    pub(super) upstream: Option<Duration>,
    /// Unanswered Interests at this face, by the neighbour that sent them.
    pub(super) unanswered: UnansweredInterests,
    /// Incomplete packets from the neighbour.
    pub(super) reassembly: Reassembly,
    /// Packets from the neighbour that could not be decoded.
    pub(super) undecodable: Undecodable,
    answered: f64,
}

impl Face {
    pub(super) fn new(peer: NodeId, label: NonZeroU16, face: &FaceConfig, config: &Config) -> Face {
        let bits = |rate: Option<u64>| rate.map(|rate| rate.max(1) as f64);
        let (out, back) = (bits(face.out_bits_per_second), bits(face.in_bits_per_second));
        // Where only one way is known, the other is no limit.
        let both = back.map(|back| (out.unwrap_or(f64::MAX / 4.0), back));
        Face {
            peer,
            label,
            link: Link::new(out, face.queue_bytes_max, config.catch_up),
            shaper: Shaper::new(both, config.shaper, config.catch_up),
            control: back.map(|capacity| Control::new(config, capacity)),
            interval_timer: Deadline::UNARMED,
            sizes: Sizes::default(),
            marker: Marker::new(config.mark_after),
            counts: FaceCounts::default(),
            pending: 0,
            pending_bytes: 0,
            upstream: None,
            unanswered: UnansweredInterests::default(),
            reassembly: Reassembly::default(),
            undecodable: Undecodable::default(),
            answered: 1.0,
        }
    }

    /// Counts an Interest of this many bytes on the link that will leave by this face. True if the
    /// caller must set a timer for the end of the interval, [`Face::interval`] from now.
    pub(super) fn note_demand(
        &mut self,
        now: Instant,
        class: Class,
        bytes: usize,
        round_trip: Option<Duration>,
    ) -> bool {
        let Some(control) = &mut self.control else { return false };
        let bits = bytes as f64 * 8.0;
        match class {
            Class::Primary => control.primary.note(now, bits),
            Class::Secondary => control.secondary.note(now, bits),
        }
        if let Some(trip) = round_trip {
            control.longest = control.longest.max(trip.min(ROUND_TRIP_MAX));
        }
        let begins = !self.interval_timer.is_armed();
        if begins {
            control.since = now;
        }
        begins
    }

    /// Counts an Interest that came from the neighbour.
    pub(super) fn note_interest_in(&mut self, bytes: usize) {
        self.sizes.note_interest_in(bytes);
        if let Some(control) = &mut self.control {
            control.other_way_bits += bytes as f64 * 8.0;
        }
    }

    /// Ends the interval and sets the rates. False if the face is idle, so that the next Interest
    /// begins an interval.
    pub(super) fn end_interval(&mut self, now: Instant) -> bool {
        let round_trip = self.round_trip();
        let (primary, secondary) = self.shaper.queued_bits();
        let (inflation, data_bits) = (self.sizes.inflation(), self.sizes.data_bits());
        let Some(control) = &mut self.control else { return false };
        let length = now.since(control.since);
        let seconds = length.as_secs_f64().max(1e-9);
        control.observed_in = control.other_way_bits / seconds;
        let seen = Interval {
            length,
            interests_bits_per_second: control.observed_in,
            primary_bits_per_second: control.primary.end(now, length) * inflation,
            secondary_bits_per_second: control.secondary.end(now, length) * inflation,
            primary_queue_bits: primary * inflation,
            secondary_queue_bits: secondary * inflation,
            round_trip,
            data_bits,
        };
        control.controller.update(&seen);
        control.demand = seen.primary_bits_per_second + seen.secondary_bits_per_second;
        control.learn_round_trip();
        let is_idle = control.demand == 0.0 && control.observed_in == 0.0;
        control.other_way_bits = 0.0;
        control.since = now;
        !(is_idle && control.controller.is_at_rest())
    }

    /// How long the interval that begins now is.
    pub(super) fn interval(&self) -> Duration {
        let trip = self.round_trip();
        self.control.as_ref().map_or(trip, |control| control.controller.interval(trip))
    }

    /// The longest round trip of the flows that pass, lately.
    fn round_trip(&self) -> Duration {
        let told = self.control.as_ref().and_then(|control| control.round_trip);
        // A stock client tells none: the way from here is the part of it that is known.
        let trip = told.or(self.upstream).unwrap_or(ROUND_TRIP_GUESS);
        let least = self.control.as_ref().map_or(Duration::ZERO, |control| {
            let carries = time_for(control.data_min * self.sizes.data_bits(), control.capacity);
            control.round_trip_min.max(carries)
        });
        trip.max(least).min(ROUND_TRIP_MAX)
    }

    /// Lowers the rates of a Data that came in by this face to its own. What is below the least
    /// rate that a forwarder may say is raised to it.
    pub(super) fn stamp(&self, stamps: &mut Stamps) {
        let Some(control) = &self.control else {
            stamps.primary_bits_per_second = stamps.primary_bits_per_second.max(STAMP_MIN);
            stamps.secondary_bits_per_second = stamps.secondary_bits_per_second.max(STAMP_MIN);
            return;
        };
        let own = |rate: f64| (rate as u64).max(1);
        let primary = own(control.controller.primary_bits_per_second());
        let secondary = control.controller.secondary_bits_per_second().map_or(1, own);
        let lower = |stamp: u64, own: u64| stamp.max(STAMP_MIN.min(own)).min(own);
        stamps.primary_bits_per_second = lower(stamps.primary_bits_per_second, primary);
        stamps.secondary_bits_per_second = lower(stamps.secondary_bits_per_second, secondary);
    }

    /// The rate that one more flow would get of the link from the neighbour, bit/s; `None` if the
    /// link's rate is unknown.
    pub(super) fn join_rate(&self) -> Option<u64> {
        let controller = &self.control.as_ref()?.controller;
        Some((controller.join_bits_per_second() as u64).max(1))
    }

    /// The rates that this face stamps, bit/s.
    pub(super) fn rates(&self) -> Option<(f64, f64)> {
        let controller = &self.control.as_ref()?.controller;
        let secondary = controller.secondary_bits_per_second().unwrap_or(0.0);
        Some((controller.primary_bits_per_second(), secondary))
    }

    /// Demand for this face in the last interval, bit/s of Data.
    pub(super) fn demand(&self) -> f64 {
        self.control.as_ref().map_or(0.0, |control| control.demand)
    }

    /// Interests that come from the neighbour, bit/s.
    pub(super) fn observed_in(&self) -> f64 {
        self.control.as_ref().map_or(0.0, |control| control.observed_in)
    }

    /// The delay of a packet that would leave now, as an Interest or as a Data.
    pub(super) fn delay(&self) -> Duration {
        let waits = self.shaper.due().map_or(Duration::ZERO, |_| self.shaper_delay());
        waits.max(self.link.delay())
    }

    fn shaper_delay(&self) -> Duration {
        let (primary, secondary) = self.shaper.queued_bits();
        self.shaper.time_for(primary + secondary, &self.sizes, self.observed_in())
    }

    /// Notes that an Interest of the neighbour was answered, or is overdue.
    pub(super) fn note_answered(&mut self, is_answered: bool) {
        self.answered += (f64::from(u8::from(is_answered)) - self.answered) * ANSWERED_WEIGHT;
    }

    /// How many Interests the neighbour may have pending, out of a fair share of the table: the
    /// fewer of its Interests bring Data, the fewer. Source: Afanasyev et al., *Interest flooding
    /// attack and countermeasures in named data networking*, IFIP Networking 2013.
    pub(super) fn pending_max(&self, share: usize) -> usize {
        let share = share as f64;
        let least = PENDING_MIN.min((share * PENDING_SHARE_MIN).ceil());
        (share * self.answered * self.answered).max(least) as usize
    }

    /// The rank of an asker's Interest of this class that will leave by this face.
    pub(super) fn rank(&self, now: Instant, asker: Asker, class: Class) -> Rank {
        match asker {
            Asker::Face(asker) if self.unanswered.is_deprioritized(now, asker) => {
                Rank::Deprioritized
            }
            _ => class.into(),
        }
    }

    /// The share of the neighbour's Interests that were answered, lately.
    pub(super) fn answered(&self) -> f64 {
        self.answered
    }
}

impl Control {
    fn new(config: &Config, capacity: f64) -> Control {
        Control {
            controller: Controller::new(&config.controller, capacity),
            capacity,
            round_trip_min: config.controller.round_trip_min,
            data_min: config.controller.round_trip_data_min,
            since: Instant::ZERO,
            primary: Arrivals::default(),
            secondary: Arrivals::default(),
            other_way_bits: 0.0,
            longest: Duration::ZERO,
            round_trip: None,
            observed_in: 0.0,
            demand: 0.0,
        }
    }

    /// The longest, not the mean: with an interval that is a small part of a flow's round trip that
    /// flow does not settle, and with it none.
    fn learn_round_trip(&mut self) {
        let longest = std::mem::take(&mut self.longest);
        if longest.is_zero() {
            return;
        }
        let faded = self.round_trip.map_or(longest, |old| old - old / ROUND_TRIP_FADES);
        self.round_trip = Some(longest.max(faded));
    }
}

/// The faces of a node.
#[derive(Debug, Default)]
pub(super) struct Faces {
    faces: Slots<Box<Face>>,
    // By neighbour.
    ids: BTreeMap<NodeId, FaceId>,
}

impl Faces {
    /// Adds a face; a neighbour has one at most.
    pub(super) fn add(&mut self, face: Face) -> FaceId {
        let peer = face.peer;
        let id = FaceId(self.faces.insert(Box::new(face)));
        self.ids.insert(peer, id);
        id
    }

    /// Removes a face.
    pub(super) fn remove(&mut self, id: FaceId) -> Option<Box<Face>> {
        let face = self.faces.remove(id.0)?;
        self.ids.remove(&face.peer);
        Some(face)
    }

    /// The face to a neighbour.
    pub(super) fn of(&self, peer: NodeId) -> Option<FaceId> {
        self.ids.get(&peer).copied()
    }

    pub(super) fn get(&self, id: FaceId) -> Option<&Face> {
        self.faces.get(id.0).map(|face| &**face)
    }

    pub(super) fn get_mut(&mut self, id: FaceId) -> Option<&mut Face> {
        self.faces.get_mut(id.0).map(|face| &mut **face)
    }

    /// All faces, by neighbour.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FaceId, &Face)> {
        self.ids.values().filter_map(|&id| Some((id, self.get(id)?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Face> {
        self.faces.iter_mut().map(|face| &mut **face)
    }

    pub(super) fn len(&self) -> usize {
        self.faces.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mircc::ControllerConfig;

    fn interval(mbit: u64, controller: ControllerConfig) -> Duration {
        let config = Config { controller, ..Config::default() };
        let face = FaceConfig::of_rate(mbit * 1_000_000);
        let mut face = Face::new(NodeId(1), NonZeroU16::MIN, &face, &config);
        face.upstream = Some(Duration::from_micros(200));
        face.interval()
    }

    #[test]
    fn an_interval_is_a_round_trip_or_as_long_as_some_data_take() {
        let exact = ControllerConfig::default();
        assert_eq!(interval(1, exact), Duration::from_micros(200));
        let coarse = ControllerConfig {
            round_trip_min: Duration::from_millis(10),
            round_trip_data_min: 10.0,
            ..exact
        };
        // Data of 1,200 bytes, until one has passed.
        assert_eq!(interval(1, coarse), Duration::from_millis(96));
        assert_eq!(interval(100, coarse), Duration::from_millis(10));
    }
}
