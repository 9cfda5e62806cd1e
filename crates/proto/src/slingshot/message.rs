use std::fmt;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::pulse::{Pulse, Report};
use super::seq::check_seq;
use crate::core::Rng;
use crate::core::field::{
    ChecksumBefore, ChecksumBehind, Field, Summed, any_that, fields, messages,
};
use crate::core::{DecodeError, GroupId, Payload, ViewId, mix, split, take_u8, take_u32};
use crate::parts::fec::Coded;

/// Most packets that a message names.
pub(super) const NAMES_MAX: usize = 128;
/// Bytes before the payload of a [`Supply`] on the wire.
pub(super) const SUPPLY_HEAD_BYTES: usize = 5 + Supply::BYTES_MIN;
/// Most bytes of a packet, whose length repairs add up in two bytes.
const PAYLOAD_BYTES_MAX: usize = u16::MAX as usize;

/// What a packet carries of what the application sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// A message.
    #[default]
    Whole,
    /// A part of a message that needs several packets: a [`Fragment`](super::Fragment).
    Fragment,
}

impl Framing {
    /// The highest bit of a number on the wire, which no number needs.
    const FRAGMENT: u64 = 1 << 63;

    /// A packet's number and its framing in 8 bytes, as they are sent and in its checksum.
    fn mark(self, seq: u64) -> u64 {
        match self {
            Framing::Whole => seq,
            Framing::Fragment => seq | Framing::FRAGMENT,
        }
    }

    /// The reverse of [`Framing::mark`].
    fn unmark(marked: u64) -> (Framing, u64) {
        match marked & Framing::FRAGMENT {
            0 => (Framing::Whole, marked),
            _ => (Framing::Fragment, marked & !Framing::FRAGMENT),
        }
    }

    /// The [`checksum`] of a packet of this framing.
    pub fn checksum(self, group: GroupId, incarnation: u64, seq: u64, payload: &Payload) -> u32 {
        checksum(group, incarnation, self.mark(seq), payload)
    }

    /// The framing of a packet that was computed from repairs: that with this checksum, if either
    /// has it. Repairs name a packet by its checksum, so they carry the framing at no cost.
    pub(super) fn of_recovered(
        (group, incarnation, seq): (GroupId, u64, u64),
        payload: &Payload,
        named: u32,
    ) -> Option<Framing> {
        [Framing::Whole, Framing::Fragment]
            .into_iter()
            .find(|framing| framing.checksum(group, incarnation, seq, payload) == named)
    }
}

/// The checksum of a packet: of its name and its bytes. It goes with the packet, and with each
/// repair that names it, to distinguish the packet from any other of the same name.
///
/// CRC-32, scrambled: the CRCs of packets add up as the packets do, so that by itself it would not
/// notice a sum of the wrong ones.
pub fn checksum(group: GroupId, incarnation: u64, seq: u64, payload: &Payload) -> u32 {
    let mut name = [0u8; 20];
    <(GroupId, u64, u64)>::put(&(group, incarnation, seq), &mut &mut name[..]);
    mix(u64::from(payload.checksum_after(&name))) as u32
}

/// A packet on its way from its sender to all members of a group.
///
/// ```text
///  0 tag 1 = 0    1 group 4    5 incarnation 8    13 seq 8    21 checksum 4    25 payload ...
/// ```
///
/// The highest bit of `seq` on the wire is the framing: 1 for a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The group.
    pub group: GroupId,
    /// The sender's incarnation.
    pub incarnation: u64,
    /// The packet's number among those of its sender to this group: 0, 1, 2, ...
    pub seq: u64,
    /// Whether the payload is a message or a part of one.
    pub framing: Framing,
    /// See [`checksum`]. It covers the framing.
    pub checksum: u32,
    /// What the application sent; of a fragment behind its head.
    pub payload: Payload,
}

impl Data {
    /// Bytes before the payload.
    pub const HEAD_BYTES: usize = 1 + Data::BYTES_MIN;

    fn computed_checksum(&self) -> u32 {
        self.framing.checksum(self.group, self.incarnation, self.seq, &self.payload)
    }
}

/// Written out, because two fields share eight bytes.
impl Field for Data {
    const BYTES_MIN: usize = 24;
    const HAS_PAYLOAD: bool = true;

    #[inline]
    fn bytes(data: &Data) -> usize {
        Data::BYTES_MIN + data.payload.len()
    }

    #[inline]
    fn put<'a>(data: &'a Data, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_u32(data.group.0);
        head.put_u64(data.incarnation);
        head.put_u64(data.framing.mark(data.seq));
        head.put_u32(data.checksum);
        Some(&data.payload)
    }

    #[inline]
    fn take(bytes: &mut Bytes, _: &'static str) -> Result<Data, DecodeError> {
        let group = GroupId::take(bytes, "group")?;
        let incarnation = u64::take(bytes, "incarnation")?;
        let (framing, seq) = Framing::unmark(u64::take(bytes, "seq")?);
        let checksum = take_u32(bytes)?;
        let payload = Payload::take(bytes, "payload")?;
        check_payload(&payload)?;
        let data = Data { group, incarnation, seq, framing, checksum, payload };
        if data.checksum != data.computed_checksum() {
            return Err(DecodeError::Checksum);
        }
        Ok(data)
    }

    fn any(rng: &mut Rng) -> Data {
        let mut data = Data {
            group: GroupId::any(rng),
            incarnation: u64::any(rng),
            seq: any_that(|| u64::any(rng), check_seq),
            framing: if rng.chance(0.5) { Framing::Whole } else { Framing::Fragment },
            checksum: 0,
            payload: Payload::any(rng),
        };
        data.checksum = data.computed_checksum();
        data
    }

    fn layout(_: &str) -> String {
        "group 4, incarnation 8, seq 8, checksum 4, payload".to_owned()
    }
}

/// For a line of a trace.
impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.framing == Framing::Fragment { " part" } else { "" };
        write!(f, "data {} seq {}{part} {} B", self.group, self.seq, self.payload.len())
    }
}

/// The name of a packet in a repair or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its group.
    pub group: GroupId,
    /// Its sender's rank in the view that the message names.
    pub rank: u16,
    /// The lower half of its number.
    pub seq: u32,
    /// Its [`checksum`]; in a request 0 if it is not known.
    pub checksum: u32,
}

/// Names of packets, in an order that matters. Held as on the wire, so that receiving them costs no
/// memory.
///
/// ```text
/// groups 1, each 4, ascending;  names 1, each: [place of the group 1]  rank 2  seq 4  checksum 4
/// ```
///
/// The place is left out where there is one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Bytes);

impl Names {
    /// Bytes of the names of `names` packets in `groups` groups.
    pub const fn bytes(names: usize, groups: usize) -> usize {
        2 + 4 * groups + names * name_bytes(groups)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.0[1 + 4 * self.groups()])
    }

    /// True if there are none, which no message has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Name> + '_ {
        let groups = self.groups();
        let group = move |place: usize| {
            let mut at = &self.0[1 + 4 * place..];
            GroupId(at.get_u32())
        };
        self.0[2 + 4 * groups..].chunks_exact(name_bytes(groups)).map(move |mut name| {
            let place = if groups > 1 { usize::from(name.get_u8()) } else { 0 };
            Name {
                group: group(place),
                rank: name.get_u16(),
                seq: name.get_u32(),
                checksum: name.get_u32(),
            }
        })
    }

    fn groups(&self) -> usize {
        usize::from(self.0[0])
    }
}

/// The field `names` of a message, though each part of it has its own error.
impl Field for Names {
    const BYTES_MIN: usize = Names::bytes(1, 1);

    #[inline]
    fn bytes(names: &Names) -> usize {
        names.0.len()
    }

    #[inline]
    fn put<'a>(names: &'a Names, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_slice(&names.0);
        None
    }

    fn take(bytes: &mut Bytes, _: &'static str) -> Result<Names, DecodeError> {
        let mut rest = bytes.clone();
        let out_of_range =
            |field, value: usize| Err(DecodeError::OutOfRange { field, value: value as u64 });
        let groups = usize::from(take_u8(&mut rest)?);
        if !(1..=NAMES_MAX).contains(&groups) {
            return out_of_range("groups", groups);
        }
        let mut ids = split(&mut rest, 4 * groups)?;
        let mut before = None;
        while !ids.is_empty() {
            let group = take_u32(&mut ids)?;
            if before.is_some_and(|before| before >= group) {
                return out_of_range("group", group as usize);
            }
            before = Some(group);
        }
        let names = usize::from(take_u8(&mut rest)?);
        if !(groups..=NAMES_MAX).contains(&names) {
            return out_of_range("names", names);
        }
        let name_bytes = name_bytes(groups);
        let named = split(&mut rest, names * name_bytes)?;
        if groups > 1 {
            let mut places = named.chunks_exact(name_bytes).map(|name| usize::from(name[0]));
            if let Some(place) = places.find(|&place| place >= groups) {
                return out_of_range("place", place);
            }
        }
        Ok(Names(bytes.split_to(Names::bytes(names, groups))))
    }

    fn any(rng: &mut Rng) -> Names {
        let mut names = NamesBuilder::default();
        for _ in 0..=rng.below(40) {
            let (group, rank) = (GroupId(7 * rng.below(6)), u16::any(rng));
            names.push(Name { group, rank, seq: u32::any(rng), checksum: u32::any(rng) });
        }
        names.build()
    }

    fn layout(_: &str) -> String {
        "groups 1, group 4 each, names 1, (place 1 if groups > 1, rank 2, seq 4, checksum 4) each"
            .to_owned()
    }
}

/// For a line of a trace: each behind a space.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|name| write!(f, " {}/{}.{}", name.group, name.rank, name.seq))
    }
}

const fn name_bytes(groups: usize) -> usize {
    if groups > 1 { 11 } else { 10 }
}

/// Builds lists of names. It reuses its memory once messages with earlier names are dropped.
#[derive(Debug, Default)]
pub struct NamesBuilder {
    names: Vec<Name>,
    groups: Vec<GroupId>,
    buffer: BytesMut,
}

impl NamesBuilder {
    /// Appends a name.
    pub fn push(&mut self, name: Name) {
        self.names.push(name);
        if let Err(place) = self.groups.binary_search(&name.group) {
            self.groups.insert(place, name.group);
        }
    }

    /// How many have been appended.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if none has been.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Bytes of the names so far.
    pub fn bytes(&self) -> usize {
        Names::bytes(self.names.len(), self.groups.len())
    }

    /// The names, at most 128; back to none.
    pub fn build(&mut self) -> Names {
        debug_assert!((1..=NAMES_MAX).contains(&self.names.len()), "a message names some");
        let groups = self.groups.len();
        self.buffer.reserve(self.bytes());
        self.buffer.put_u8(groups as u8);
        self.groups.iter().for_each(|group| self.buffer.put_u32(group.0));
        self.buffer.put_u8(self.names.len() as u8);
        for name in &self.names {
            if groups > 1 {
                let place = self.groups.binary_search(&name.group);
                self.buffer.put_u8(place.expect("its group was noted") as u8);
            }
            self.buffer.put_u16(name.rank);
            self.buffer.put_u32(name.seq);
            self.buffer.put_u32(name.checksum);
        }
        self.names.clear();
        self.groups.clear();
        Names(self.buffer.split().freeze())
    }
}

fields! {
    /// How long before a repair was sent its member had received the packets in it: the one named
    /// first and the one named last. With it others know when a packet should have come to them,
    /// which reached everybody at about the same time; between the two, packets are taken to have
    /// come evenly.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Ages {
        first: u16,
        last: u16,
    }
}

impl Ages {
    /// Nanoseconds of a unit.
    const UNIT: u64 = 16_000;

    /// Encodes the two ages in units of 16 us; longer ones than 1.05 s count as that.
    pub fn new(first: Duration, last: Duration) -> Ages {
        let units = |age: Duration| {
            u16::try_from(age.as_nanos() / u128::from(Ages::UNIT)).unwrap_or(u16::MAX)
        };
        Ages { first: units(first), last: units(last) }
    }

    /// The age of the packet at `place` among `names` names.
    pub fn at(self, place: usize, names: usize) -> Duration {
        let (first, last) = (u64::from(self.first), u64::from(self.last));
        let steps = names.saturating_sub(1).max(1) as u64;
        let place = (place as u64).min(steps);
        let sum = first * (steps - place) + last * place;
        Duration::from_nanos(sum * Ages::UNIT / steps)
    }
}

fields! {
    /// The sum of some packets.
    ///
    /// ```text
    ///  0 tag 1 = 1    1 view 8      9 seed 4      13 lengths 2    15 ages 2, 2    19 checksum 4
    /// 23 names ...      body ...
    /// ```
    ///
    /// The checksum (CRC-32) covers all other bytes but the tag.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Repair {
        /// The view in which the senders of the packets have the ranks that the names say.
        pub view: ViewId,
        /// Of the packets' coefficients; 0 if all are one.
        pub seed: u32,
        /// The sum of the packets' lengths, each byte by itself.
        pub lengths: u16,
        /// When the packets had come.
        pub ages: Ages,
        /// See above.
        pub checksum: u32 = Repair::computed_checksum,
        /// The packets.
        pub names: Names,
        /// The sum of their bytes.
        pub body: Payload where check_payload,
    }
}

impl Repair {
    /// Bytes before the body of a repair of `names` packets in `groups` groups.
    pub const fn head_bytes(names: usize, groups: usize) -> usize {
        1 + Repair::BYTES_MIN - Names::BYTES_MIN + Names::bytes(names, groups)
    }

    /// A repair, with its checksum.
    pub fn new(view: ViewId, seed: u32, ages: Ages, names: Names, coded: Coded) -> Repair {
        // No packet has more than 65,535 bytes, so that the upper half of the sum is zero.
        let lengths = coded.lengths as u16;
        let mut repair = Repair { view, seed, lengths, ages, checksum: 0, names, body: coded.body };
        repair.checksum = repair.computed_checksum();
        repair
    }

    /// The input of the decoder.
    pub fn coded(&self) -> Coded {
        Coded { lengths: self.lengths.into(), body: self.body.clone() }
    }

    /// The checksum that the fields should have.
    pub fn computed_checksum(&self) -> u32 {
        let mut head = [0u8; 18];
        let fields = (self.view, self.seed, self.lengths, self.ages);
        <(ViewId, u32, u16, Ages)>::put(&fields, &mut &mut head[..]);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head);
        crc.update(&self.names.0);
        self.body.for_each_chunk(|chunk| crc.update(chunk));
        crc.finalize()
    }
}

fields! {
    /// A packet from a member that has it to one that asked for it.
    ///
    /// ```text
    ///  0 tag 1 = 4    1 checksum 4    5 view 8    13 rank 2    15 as `Data` without tag ...
    /// ```
    ///
    /// The checksum (CRC-32) covers view, rank and the packet's own checksum: without it a packet
    /// with a bit of its rank flipped would be a packet of another sender.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Supply {
        /// The view in which the packet's sender has this rank.
        pub view: ViewId,
        /// The packet's sender.
        pub rank: u16,
        /// The packet.
        pub data: Data,
    }
}

impl Summed for Supply {
    fn checksum(&self) -> u32 {
        let mut fields = [0u8; 14];
        let covered = (self.view, self.rank, self.data.checksum);
        <(ViewId, u16, u32)>::put(&covered, &mut &mut fields[..]);
        crc32fast::hash(&fields)
    }
}

/// For a line of a trace.
impl fmt::Display for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Supply { view, rank, data } = self;
        write!(f, "{view}: {}/{rank}.{} {} B", data.group, data.seq, data.payload.len())
    }
}

fields! {
    /// From a silent sender, to a group: the number of packets that it has sent.
    ///
    /// ```text
    ///  0 tag 1 = 3    1 group 4    5 incarnation 8    13 next 8    21 checksum 4
    /// ```
    ///
    /// The checksum (CRC-32) covers the fields before it but the tag.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Heartbeat {
        /// The group.
        pub group: GroupId,
        /// The sender's incarnation.
        pub incarnation: u64,
        /// The number of its next packet.
        pub next: u64 where check_seq,
    }
}

impl Summed for Heartbeat {
    fn checksum(&self) -> u32 {
        let mut fields = [0u8; Heartbeat::BYTES_MIN];
        Heartbeat::put(self, &mut &mut fields[..]);
        crc32fast::hash(&fields)
    }
}

/// For a line of a trace.
impl fmt::Display for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heartbeat {} next {}", self.group, self.next)
    }
}

messages! {
    /// What members send to each other.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// A packet, to a group.
        0 => Data(data: Data) ["{data}"],
        /// A repair, to a member drawn at random.
        1 => Repair(repair: Repair) [
            "repair {} seed {} {} B:{}",
            repair.view, repair.seed, repair.body.len(), repair.names
        ],
        /// To a member that should have these packets: which of them does it have?
        2 => Ask {
            /// The view.
            view: ViewId,
            /// The packets.
            names: Names,
        } ["ask {view}:{names}"],
        /// From a silent sender, to a group.
        3 => Heartbeat(heartbeat: Heartbeat as ChecksumBehind) ["{heartbeat}"],
        /// The answer to a question, a message for each packet.
        4 => Supply(supply: Supply as ChecksumBefore) ["supply {supply}"],
        /// From a sender to its group: its rate, about once a round-trip time while it sends.
        5 => Pulse(pulse: Pulse as ChecksumBehind) ["{pulse}"],
        /// The answer of a receiver.
        6 => Report(report: Report as ChecksumBehind) ["{report}"],
    }
}

fn check_payload(payload: &Payload) -> Result<(), DecodeError> {
    match payload.len() {
        0..=PAYLOAD_BYTES_MAX => Ok(()),
        value => Err(DecodeError::OutOfRange { field: "payload", value: value as u64 }),
    }
}
