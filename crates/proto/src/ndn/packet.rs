use std::fmt;

use bytes::{Buf, BufMut, Bytes};

use super::data::Data;
use super::header::{Class, Header, NackReason, Token, field};
use super::interest::Interest;
use super::join::JoinRates;
use super::label::PathLabel;
use super::tlv::{self, Element, Reader, kind};
use crate::core::{DecodeError, Payload, Wire};

/// What is in one datagram: an Interest, Data, or a refusal, and what goes with it for a hop.
///
/// Without the latter it is a bare Interest or Data, as simple clients send and read them.
/// Otherwise it is an LpPacket with one Fragment, the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What goes with it for a hop.
    pub header: Header,
    /// The packet.
    pub body: Body,
}

/// An Interest, Data, or a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A request.
    Interest(Interest),
    /// An answer.
    Data(Data),
    /// A forwarder's refusal, with the Interest that it refuses.
    Nack(NackReason, Box<Interest>),
}

impl Body {
    /// Bytes of the element in the Fragment.
    fn encoded_len(&self) -> usize {
        match self {
            Body::Interest(interest) => interest.encoded_len(),
            Body::Data(data) => data.encoded_len(),
            Body::Nack(_, interest) => interest.encoded_len(),
        }
    }

    /// Writes the element, or returns it.
    fn encode(&self, out: &mut impl BufMut) -> Option<&Payload> {
        match self {
            Body::Interest(interest) => interest.write(out),
            Body::Data(data) => return data.encode(out),
            Body::Nack(_, interest) => interest.write(out),
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
    /// Bytes of the value of an LpPacket around a body of so many; none if it is written bare.
    fn value_len(&self, body_len: usize) -> Option<usize> {
        let nack = match &self.body {
            Body::Nack(reason, _) => tlv::element_len(field::NACK, reason.value_len()),
            _ => 0,
        };
        let fields = self.header.fields_len() + nack;
        (fields > 0).then(|| fields + tlv::element_len(field::FRAGMENT, body_len))
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

    fn encode(&self, head: &mut impl BufMut) -> Option<&Payload> {
        let body_len = self.body.encoded_len();
        if let Some(len) = self.value_len(body_len) {
            tlv::put_head(head, field::LP_PACKET, len);
            self.header.write_token(head);
            if let Body::Nack(reason, _) = &self.body {
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
        let (element, reason) = match outer.kind {
            field::LP_PACKET => read_fields(&outer, &mut header)?,
            _ => (outer, None),
        };
        let body = match (element.kind, reason) {
            (kind::INTEREST, None) => Body::Interest(Interest::read(bytes, &element)?),
            (kind::INTEREST, Some(reason)) => {
                Body::Nack(reason, Box::new(Interest::read(bytes, &element)?))
            }
            (kind::DATA, None) => Body::Data(Data::read(bytes, &element)?),
            (kind::DATA, Some(_)) => return Err(DecodeError::Unexpected(field::NACK.into())),
            (other, _) => return Err(DecodeError::Unexpected(other.into())),
        };
        bytes.advance(end);
        Ok(Packet { header, body })
    }
}

/// Reads the fields of an LpPacket, and returns the element in its Fragment and the reason if that
/// is refused. Fields may come in any order, before the Fragment; the last one of a type counts.
fn read_fields<'a>(
    packet: &Element<'a>,
    header: &mut Header,
) -> Result<(Element<'a>, Option<NackReason>), DecodeError> {
    let mut reason = None;
    let mut token = None;
    let mut reader = Reader::within(packet);
    while let Some(element) = reader.element()? {
        let value = element.value;
        match element.kind {
            field::FRAGMENT => {
                only_one_within(packet, &element)?;
                header.token = token.map(read_token).transpose()?;
                let inside = Reader::within(&element).element()?.ok_or(DecodeError::Idle)?;
                only_one_within(&element, &inside)?;
                return Ok((inside, reason));
            }
            field::SEQUENCE => {}
            field::FRAG_INDEX => fragmented(tlv::integer_field("FragIndex", value)? > 0)?,
            field::FRAG_COUNT => fragmented(tlv::integer_field("FragCount", value)? > 1)?,
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

fn fragmented(is_part: bool) -> Result<(), DecodeError> {
    if is_part { Err(DecodeError::Fragmented) } else { Ok(()) }
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
