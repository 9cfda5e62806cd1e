use std::num::NonZeroU16;

use bytes::BufMut;

use super::join::JoinRates;
use super::label::PathLabel;
use super::tlv;

/// The fields of a packet for one hop, outside of its signature.
///
/// Source: NDNLPv2; the fields from 900 on are ours, in the range that others skip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Rates of the path, lowered by each forwarder that Data passes.
    pub stamps: Stamps,
    /// The path: in Data the one that it came, in an Interest the one to take.
    pub label: PathLabel,
    /// The rate that one more flow would get at each hop of that path. In Data.
    pub join_rates: JoinRates,
    /// Which of the two classes an Interest, and the Data for it, belongs to.
    pub class: Class,
    /// The congestion mark; 0 if unmarked. Values above 255 count as 255.
    pub congestion_mark: u8,
    /// The round trip that the consumer measured, microseconds. In Interests.
    pub round_trip_micros: Option<u32>,
    /// True if an Interest without a path label discovers paths: forwarders send it to a next hop
    /// at random, whatever the strategy of its prefix says.
    pub discovers: bool,
    /// The token that the sender of an Interest wants back with the answer.
    pub token: Option<Token>,
}

/// The PIT token: 1 to 32 bytes that only its sender interprets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Token(Box<[u8]>);

impl Token {
    /// Most bytes.
    pub const BYTES_MAX: usize = 32;

    /// These bytes, if there are neither none nor too many.
    pub fn new(bytes: &[u8]) -> Option<Token> {
        (1..=Token::BYTES_MAX).contains(&bytes.len()).then(|| Token(bytes.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Type numbers of the fields.
#[allow(missing_docs, reason = "each is named as in the specification")]
pub mod field {
    pub const LP_PACKET: u32 = 0x64;
    pub const FRAGMENT: u32 = 0x50;
    pub const SEQUENCE: u32 = 0x51;
    pub const FRAG_INDEX: u32 = 0x52;
    pub const FRAG_COUNT: u32 = 0x53;
    pub const PIT_TOKEN: u32 = 0x62;
    pub const NACK: u32 = 0x0320;
    pub const NACK_REASON: u32 = 0x0321;
    pub const CONGESTION_MARK: u32 = 0x0340;
    pub const PRIMARY_STAMP: u32 = 900;
    pub const SECONDARY_STAMP: u32 = 904;
    pub const CLASS: u32 = 908;
    pub const PATH_LABEL: u32 = 912;
    pub const ROUND_TRIP: u32 = 916;
    pub const JOIN_RATES: u32 = 920;
    pub const DISCOVERY: u32 = 924;
}

/// The least rates at which the forwarders of a path let a flow send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// Of the primary class, bit/s. [`Stamps::NONE`] until a forwarder stamps a rate.
    pub primary_bits_per_second: u64,
    /// Of the secondary class, the same.
    pub secondary_bits_per_second: u64,
}

impl Stamps {
    /// No forwarder has stamped a rate: above all rates, and not encoded.
    pub const NONE: u64 = u64::MAX;

    /// Lowers both to these, where they are above.
    pub fn lower_to(&mut self, other: Stamps) {
        let lower = |mine: &mut u64, other: u64| *mine = (*mine).min(other);
        lower(&mut self.primary_bits_per_second, other.primary_bits_per_second);
        lower(&mut self.secondary_bits_per_second, other.secondary_bits_per_second);
    }

    /// The rate of the primary class, bit/s, if one was stamped.
    pub fn primary(&self) -> Option<u64> {
        Some(self.primary_bits_per_second).filter(|&rate| rate != Stamps::NONE)
    }

    /// The rate of the secondary class, bit/s, if one was stamped.
    pub fn secondary(&self) -> Option<u64> {
        Some(self.secondary_bits_per_second).filter(|&rate| rate != Stamps::NONE)
    }
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps { primary_bits_per_second: Stamps::NONE, secondary_bits_per_second: Stamps::NONE }
    }
}

/// The class of an Interest, which determines its priority.
///
/// Source: MIRCC, slide 14.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// At the rate of a flow's best path.
    #[default]
    Primary,
    /// The rest that the primary class leaves. Waits behind it and is dropped before it.
    Secondary,
}

/// Why a forwarder refuses an Interest.
///
/// Source: NDNLPv2, "Network NACK".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NackReason {
    /// The link has no room. Number 50.
    Congestion,
    /// The nonce was seen before. Number 100.
    Duplicate,
    /// No next hop leads there. Number 150.
    NoRoute,
    /// Any other number; 0 if the Nack gives no reason.
    Other(u64),
}

impl NackReason {
    /// The reason with this number.
    pub fn of_number(number: u64) -> NackReason {
        match number {
            50 => NackReason::Congestion,
            100 => NackReason::Duplicate,
            150 => NackReason::NoRoute,
            other => NackReason::Other(other),
        }
    }

    /// Its number.
    pub fn number(self) -> u64 {
        match self {
            NackReason::Congestion => 50,
            NackReason::Duplicate => 100,
            NackReason::NoRoute => 150,
            NackReason::Other(number) => number,
        }
    }

    /// Bytes of the value of the Nack field.
    pub(super) fn value_len(self) -> usize {
        match self.number() {
            0 => 0,
            number => tlv::integer_element_len(field::NACK_REASON, number),
        }
    }

    /// Writes that value.
    pub(super) fn write(self, out: &mut impl BufMut) {
        match self.number() {
            0 => {}
            number => tlv::put_integer_element(out, field::NACK_REASON, number),
        }
    }
}

impl Header {
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.fields_len() == 0
    }

    /// Adds the hop over which Data came back, and what one more flow would get there, bit/s; none
    /// where the hop knows no rate. Rates for hops that the path does not have are dropped: they
    /// would be taken for those of others.
    pub fn add_hop(&mut self, hop: NonZeroU16, join_bits_per_second: Option<u64>) {
        if self.join_rates.len() > self.label.len() {
            self.join_rates = JoinRates::EMPTY;
        }
        self.label.push_front(hop);
        self.join_rates.push_front(join_bits_per_second);
    }

    /// Bytes of the fields.
    pub(super) fn fields_len(&self) -> usize {
        let integer = |kind: u32, value: Option<u64>| {
            value.map_or(0, |value| tlv::integer_element_len(kind, value))
        };
        let token = |token: &Token| tlv::element_len(field::PIT_TOKEN, token.0.len());
        self.token.as_ref().map_or(0, token)
            + integer(field::CONGESTION_MARK, self.mark())
            + integer(field::PRIMARY_STAMP, self.stamps.primary())
            + integer(field::SECONDARY_STAMP, self.stamps.secondary())
            + integer(field::CLASS, self.class_number())
            + if self.label.is_empty() {
                0
            } else {
                tlv::element_len(field::PATH_LABEL, 2 * self.label.len())
            }
            + integer(field::ROUND_TRIP, self.round_trip_micros.map(u64::from))
            + match self.join_rates.len() {
                0 => 0,
                hops => tlv::element_len(field::JOIN_RATES, 2 * hops),
            }
            + if self.discovers { tlv::element_len(field::DISCOVERY, 0) } else { 0 }
    }

    /// Writes the fields that stand before a Nack.
    pub(super) fn write_token(&self, out: &mut impl BufMut) {
        if let Some(token) = &self.token {
            tlv::put_element(out, field::PIT_TOKEN, &token.0);
        }
    }

    /// Writes those that stand behind it.
    pub(super) fn write_rest(&self, out: &mut impl BufMut) {
        let mut integer = |kind: u32, value: Option<u64>| {
            if let Some(value) = value {
                tlv::put_integer_element(out, kind, value);
            }
        };
        integer(field::CONGESTION_MARK, self.mark());
        integer(field::PRIMARY_STAMP, self.stamps.primary());
        integer(field::SECONDARY_STAMP, self.stamps.secondary());
        integer(field::CLASS, self.class_number());
        if !self.label.is_empty() {
            tlv::put_head(out, field::PATH_LABEL, 2 * self.label.len());
            self.label.write(out);
        }
        if let Some(micros) = self.round_trip_micros {
            tlv::put_integer_element(out, field::ROUND_TRIP, micros.into());
        }
        if !self.join_rates.is_empty() {
            tlv::put_head(out, field::JOIN_RATES, 2 * self.join_rates.len());
            self.join_rates.write(out);
        }
        if self.discovers {
            tlv::put_element(out, field::DISCOVERY, &[]);
        }
    }

    fn mark(&self) -> Option<u64> {
        Some(u64::from(self.congestion_mark)).filter(|&mark| mark > 0)
    }

    fn class_number(&self) -> Option<u64> {
        match self.class {
            Class::Primary => None,
            Class::Secondary => Some(1),
        }
    }
}
