use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::data::Data;
use super::header::{Class, Header, NackReason, Token, field};
use super::interest::Interest;
use super::join::JoinRates;
use super::label::PathLabel;
use super::tlv::{self, Element, Reader, kind};
use crate::core::{DecodeError, Payload, Wire};

/// The longest packet of NDN, in bytes: `MAX_NDN_PACKET_SIZE` of ndn-cxx.
pub const PACKET_BYTES_MAX: usize = 8_800;

/// The content of one datagram: an Interest, Data, a Nack, or a fragment of one, and its fields for
/// one hop.
///
/// Without the latter it is a bare Interest or Data, as simple clients send and read them.
/// Otherwise it is an LpPacket with one Fragment, the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its fields for one hop.
    pub header: Header,
    /// The packet.
    pub body: Body,
}

/// An Interest, Data, a refusal, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A request.
    Interest(Interest),
    /// An answer.
    Data(Data),
    /// A forwarder's refusal, with the Interest that it refuses.
    Nack(NackReason, Box<Interest>),
    /// A part of one of these, which the sender has split.
    Fragment(Fragment),
}

/// One of the parts into which a sender split a packet that is longer than its link's packets.
///
/// The [header](Packet::header) of the first part, that of index 0, is the one of the whole packet.
/// Source: NDNLPv2, "Indexed Fragmentation".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its number. Those of one packet follow one another.
    pub sequence: u64,
    /// Its place in the packet, from 0.
    pub index: u32,
    /// How many parts the packet has, two or more.
    pub count: u32,
    /// Why the Interest in it is refused, if it is. Counts in the first part.
    pub nack: Option<NackReason>,
    /// The bytes.
    pub bytes: Bytes,
}

impl Fragment {
    /// The number of the packet's first fragment, which names the packet.
    pub fn first(&self) -> u64 {
        self.sequence.wrapping_sub(self.index.into())
    }

    /// Bytes of the fields that only fragments have.
    fn fields_len(&self) -> usize {
        tlv::element_len(field::SEQUENCE, size_of::<u64>())
            + tlv::integer_element_len(field::FRAG_INDEX, self.index.into())
            + tlv::integer_element_len(field::FRAG_COUNT, self.count.into())
    }

    fn write_fields(&self, out: &mut impl BufMut) {
        tlv::put_element(out, field::SEQUENCE, &self.sequence.to_be_bytes());
        tlv::put_integer_element(out, field::FRAG_INDEX, self.index.into());
        tlv::put_integer_element(out, field::FRAG_COUNT, self.count.into());
    }
}

impl Body {
    /// Bytes of the element in the Fragment.
    fn encoded_len(&self) -> usize {
        match self {
            Body::Interest(interest) => interest.encoded_len(),
            Body::Data(data) => data.encoded_len(),
            Body::Nack(_, interest) => interest.encoded_len(),
            Body::Fragment(fragment) => fragment.bytes.len(),
        }
    }

    /// The reason of a refusal.
    fn nack(&self) -> Option<NackReason> {
        match self {
            Body::Nack(reason, _) => Some(*reason),
            Body::Fragment(fragment) => fragment.nack,
            Body::Interest(_) | Body::Data(_) => None,
        }
    }

    /// Writes the element, or returns it.
    fn encode(&self, out: &mut BytesMut) -> Option<&Payload> {
        match self {
            Body::Interest(interest) => interest.write(out),
            Body::Data(data) => return data.encode(out),
            Body::Nack(_, interest) => interest.write(out),
            Body::Fragment(fragment) => out.put_slice(&fragment.bytes),
        }
        None
    }
}

impl From<Interest> for Packet {
    fn from(interest: Interest) -> Packet {
        Packet { header: Header::default(), body: Body::Interest(interest) }
    }
}

impl From<Data> for Packet {
    fn from(data: Data) -> Packet {
        Packet { header: Header::default(), body: Body::Data(data) }
    }
}

impl Packet {
    /// Bytes of the value of an LpPacket around a body of `body_len` bytes; `None` if the body is
    /// sent bare.
    fn value_len(&self, body_len: usize) -> Option<usize> {
        let nack = |reason: NackReason| tlv::element_len(field::NACK, reason.value_len());
        let part = match &self.body {
            Body::Fragment(fragment) => fragment.fields_len(),
            _ => 0,
        };
        let fields = self.header.fields_len() + self.body.nack().map_or(0, nack) + part;
        (fields > 0).then(|| fields + tlv::element_len(field::FRAGMENT, body_len))
    }

    /// The packet whose parts are all here: `header` and `nack` are those of the first, `bytes`
    /// what all of them carried.
    ///
    /// # Errors
    /// If the bytes are no Interest or Data, or more than one.
    pub fn of_fragments(
        header: Header,
        nack: Option<NackReason>,
        bytes: &Bytes,
    ) -> Result<Packet, DecodeError> {
        let element = Reader::new(bytes).element()?.ok_or(DecodeError::Idle)?;
        match bytes.len() - element.end() {
            0 => Ok(Packet { header, body: read_body(bytes, &element, nack)? }),
            after => Err(DecodeError::Trailing(after)),
        }
    }
}

impl Wire for Packet {
    fn wire_len(&self) -> usize {
        let body_len = self.body.encoded_len();
        match self.value_len(body_len) {
            None => body_len,
            Some(len) => tlv::element_len(field::LP_PACKET, len),
        }
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        let body_len = self.body.encoded_len();
        if let Some(len) = self.value_len(body_len) {
            tlv::put_head(head, field::LP_PACKET, len);
            if let Body::Fragment(fragment) = &self.body {
                fragment.write_fields(head);
            }
            self.header.write_token(head);
            if let Some(reason) = self.body.nack() {
                tlv::put_head(head, field::NACK, reason.value_len());
                reason.write(head);
            }
            self.header.write_rest(head);
            tlv::put_head(head, field::FRAGMENT, body_len);
        }
        self.body.encode(head)
    }

    #[inline]
    fn decode(bytes: &mut Bytes) -> Result<Packet, DecodeError> {
        let outer = Reader::new(bytes).element()?;
        let outer = outer.ok_or(DecodeError::Truncated { need: 1, have: 0 })?;
        let end = outer.end();
        let mut header = Header::default();
        let body = match outer.kind {
            field::LP_PACKET => read_fields(bytes, &outer, &mut header)?,
            _ => read_body(bytes, &outer, None)?,
        };
        bytes.advance(end);
        Ok(Packet { header, body })
    }
}

/// Reads an Interest or Data, or the former as refused.
fn read_body(
    bytes: &Bytes,
    element: &Element<'_>,
    reason: Option<NackReason>,
) -> Result<Body, DecodeError> {
    match (element.kind, reason) {
        (kind::INTEREST, None) => Ok(Body::Interest(Interest::read(bytes, element)?)),
        (kind::INTEREST, Some(reason)) => {
            Ok(Body::Nack(reason, Box::new(Interest::read(bytes, element)?)))
        }
        (kind::DATA, None) => Ok(Body::Data(Data::read(bytes, element)?)),
        (kind::DATA, Some(_)) => Err(DecodeError::Unexpected(field::NACK.into())),
        (other, _) => Err(DecodeError::Unexpected(other.into())),
    }
}

/// Reads the fields of an LpPacket and what is in its Fragment. Fields may come in any order,
/// before the Fragment; the last one of a type counts.
fn read_fields(
    bytes: &Bytes,
    packet: &Element<'_>,
    header: &mut Header,
) -> Result<Body, DecodeError> {
    let mut reason = None;
    let mut token = None;
    let (mut sequence, mut index, mut count) = (None, 0, 1);
    let mut reader = Reader::within(packet);
    while let Some(element) = reader.element()? {
        let value = element.value;
        match element.kind {
            field::FRAGMENT => {
                only_one_within(packet, &element)?;
                header.token = token.map(read_token).transpose()?;
                if index >= count {
                    return Err(DecodeError::OutOfRange {
                        field: "FragIndex",
                        value: index.into(),
                    });
                }
                if count > 1 {
                    let sequence = sequence.ok_or(DecodeError::Missing("Sequence"))?;
                    if value.is_empty() {
                        return Err(DecodeError::Idle);
                    }
                    let bytes = bytes.slice(element.range());
                    let nack = reason;
                    return Ok(Body::Fragment(Fragment { sequence, index, count, nack, bytes }));
                }
                let inside = Reader::within(&element).element()?.ok_or(DecodeError::Idle)?;
                only_one_within(&element, &inside)?;
                return read_body(bytes, &inside, reason);
            }
            field::SEQUENCE => sequence = Some(tlv::integer_field("Sequence", value)?),
            field::FRAG_INDEX => index = read_small("FragIndex", value)?,
            field::FRAG_COUNT => count = read_small("FragCount", value)?,
            field::PIT_TOKEN => token = Some(value),
            field::NACK => reason = Some(read_reason(&element)?),
            field::CONGESTION_MARK => {
                let mark = tlv::integer_field("CongestionMark", value)?;
                header.congestion_mark = u8::try_from(mark).unwrap_or(u8::MAX);
            }
            field::PRIMARY_STAMP => {
                header.stamps.primary_bits_per_second = tlv::integer_field("primary stamp", value)?;
            }
            field::SECONDARY_STAMP => {
                let stamp = tlv::integer_field("secondary stamp", value)?;
                header.stamps.secondary_bits_per_second = stamp;
            }
            field::CLASS => match tlv::integer_field("class", value)? {
                0 => header.class = Class::Primary,
                1 => header.class = Class::Secondary,
                value => return Err(DecodeError::OutOfRange { field: "class", value }),
            },
            field::PATH_LABEL => header.label = PathLabel::read(value)?,
            field::ROUND_TRIP => {
                let micros = tlv::integer_field("round trip", value)?;
                header.round_trip_micros = Some(u32::try_from(micros).unwrap_or(u32::MAX));
            }
            field::JOIN_RATES => header.join_rates = JoinRates::read(value)?,
            field::DISCOVERY if value.is_empty() => header.discovers = true,
            field::DISCOVERY => {
                let value = value.len() as u64;
                return Err(DecodeError::OutOfRange { field: "discovery", value });
            }
            // The range of fields that may be skipped. All that are assigned and mean nothing
            // here are in it: NonDiscovery, CachePolicy, IncomingFaceId, NextHopFaceId, Ack,
            // TxSequence, PrefixAnnouncement.
            800..=959 if element.kind & 3 == 0 => {}
            other => return Err(DecodeError::Unexpected(other.into())),
        }
    }
    Err(DecodeError::Idle)
}

/// Refuses what follows an element that is the last one in another.
fn only_one_within(outer: &Element<'_>, last: &Element<'_>) -> Result<(), DecodeError> {
    match outer.end() - last.end() {
        0 => Ok(()),
        after => Err(DecodeError::Trailing(after)),
    }
}

fn read_reason(nack: &Element<'_>) -> Result<NackReason, DecodeError> {
    let mut reader = Reader::within(nack);
    let mut reason = NackReason::Other(0);
    while let Some(element) = reader.element()? {
        if element.kind == field::NACK_REASON {
            let number = tlv::integer_field("NackReason", element.value)?;
            reason = NackReason::of_number(number);
        } else {
            tlv::skip(element.kind)?;
        }
    }
    Ok(reason)
}

fn read_token(value: &[u8]) -> Result<Token, DecodeError> {
    let value_len = value.len() as u64;
    Token::new(value).ok_or(DecodeError::OutOfRange { field: "PitToken", value: value_len })
}

/// An integer of at most 32 bits.
fn read_small(field: &'static str, value: &[u8]) -> Result<u32, DecodeError> {
    let value = tlv::integer_field(field, value)?;
    u32::try_from(value).map_err(|_| DecodeError::OutOfRange { field, value })
}

/// For a line of a trace.
impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Body::Interest(interest) => {
                write!(f, "interest {} nonce {:08x}", interest.name, interest.nonce)?;
            }
            Body::Data(data) => write!(f, "data {} {} B", data.name(), data.content().len())?,
            Body::Nack(reason, interest) => {
                write!(
                    f,
                    "nack {} {} nonce {:08x}",
                    reason.number(),
                    interest.name,
                    interest.nonce
                )?;
            }
            Body::Fragment(Fragment { sequence, index, count, bytes, .. }) => {
                let part = index + 1;
                write!(f, "fragment {sequence} {part}/{count} {} B", bytes.len())?;
            }
        }
        let header = &self.header;
        if let Class::Secondary = header.class {
            f.write_str(" secondary")?;
        }
        if header.discovers {
            f.write_str(" discovers")?;
        }
        if let Some(rate) = header.stamps.primary() {
            write!(f, " primary {rate} bit/s")?;
        }
        if let Some(rate) = header.stamps.secondary() {
            write!(f, " secondary {rate} bit/s")?;
        }
        if !header.label.is_empty() {
            write!(f, " path {}", header.label)?;
        }
        if header.congestion_mark > 0 {
            write!(f, " mark {}", header.congestion_mark)?;
        }
        Ok(())
    }
}
