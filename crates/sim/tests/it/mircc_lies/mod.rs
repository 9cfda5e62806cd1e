//! NDN datagrams with false length fields.

use bytes::Bytes;
use paceline_proto::core::{Payload, Rng, encode_to_bytes};
use paceline_proto::ndn::tlv::kind;
use paceline_proto::ndn::{
    Body, Class, Data, Header, Interest, Meta, NackReason, Name, Packet, PathLabel, Signer, field,
};

/// Numbers that are lengths of nothing, or that few readers expect.
const HUGE: [&[u8]; 6] = [
    &[255; 9],
    &[255, 127, 255, 255, 255, 255, 255, 255, 255],
    &[255, 0, 0, 0, 1, 0, 0, 0, 0],
    &[254, 255, 255, 255, 255],
    &[253, 255, 255],
    &[253, 0, 1],
];

/// A datagram of an Interest, Data or refusal of this name, of which some lengths are false.
pub fn lying(rng: &mut Rng, name: Name) -> Bytes {
    let packet = honest(rng, name);
    let mut bytes = encode_to_bytes(&packet).to_vec();
    for _ in 0..1 + rng.below(3) {
        let mut places = Vec::new();
        lengths(&bytes, 0, bytes.len(), &mut places);
        let Some(&place) = places.get(rng.below(places.len().max(1) as u32) as usize) else {
            break;
        };
        match rng.below(6) {
            0 => bytes[place] = bytes[place].wrapping_add(1),
            1 => bytes[place] = bytes[place].wrapping_sub(1),
            2 => bytes[place] = 0,
            3 => bytes[place] = rng.next_u32() as u8,
            4 => {
                let huge = HUGE[rng.below(HUGE.len() as u32) as usize];
                bytes.splice(place..=place, huge.iter().copied());
            }
            // True of the whole, but not of what is there of it.
            _ => bytes.truncate(1 + rng.below(bytes.len() as u32) as usize),
        }
    }
    bytes.into()
}

/// With all fields that go with a packet for a hop, or with none.
fn honest(rng: &mut Rng, name: Name) -> Packet {
    let mut header = Header::default();
    if rng.chance(0.7) {
        header.stamps.primary_bits_per_second = rng.next_u64();
        header.stamps.secondary_bits_per_second = rng.next_u64();
        header.round_trip_micros = Some(rng.next_u32());
        header.congestion_mark = 1;
        header.class = Class::Secondary;
        let hop = std::num::NonZeroU16::MIN;
        header.label = PathLabel::of_hops(&[hop; PathLabel::HOPS_MAX]);
        (0..rng.below(14)).for_each(|_| header.join_rates.push_front(Some(rng.next_u64())));
    }
    let mut interest = Interest::new(name.clone(), rng.next_u32());
    interest.can_be_prefix = rng.chance(0.2);
    interest.hop_limit = rng.chance(0.2).then_some(7);
    let body = match rng.below(3) {
        0 => Body::Interest(interest),
        1 => Body::Nack(NackReason::NoRoute, Box::new(interest)),
        _ => {
            let meta = Meta { final_segment: Some(rng.next_u64() >> 8), ..Meta::default() };
            let content = Payload::Zeros(rng.below(1_000));
            Body::Data(Data::new(name, meta, content, &Signer::Digest))
        }
    };
    Packet { header, body }
}

/// Where the lengths of elements begin, as far as they are true.
fn lengths(bytes: &[u8], mut at: usize, end: usize, places: &mut Vec<usize>) {
    while at < end {
        let Some((of, first)) = number(bytes, at) else { return };
        let Some((len, inside)) = number(bytes, first) else { return };
        places.push(first);
        let Some(after) = inside.checked_add(len as usize).filter(|&after| after <= end) else {
            return;
        };
        let holds_others = [field::LP_PACKET, field::FRAGMENT, field::NACK];
        let holds_more = [kind::INTEREST, kind::DATA, kind::NAME, kind::META_INFO];
        if holds_others.iter().chain(&holds_more).any(|&kind| u64::from(kind) == of) {
            lengths(bytes, inside, after, places);
        }
        at = after;
    }
}

/// A variable-size number, and where what follows it begins.
fn number(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let size = match *bytes.get(at)? {
        253 => 2,
        254 => 4,
        255 => 8,
        small => return Some((small.into(), at + 1)),
    };
    let digits = bytes.get(at + 1..at + 1 + size)?;
    let value = digits.iter().fold(0, |value, &digit| value << 8 | u64::from(digit));
    Some((value, at + 1 + size))
}
