use std::num::NonZeroU16;

use bytes::Bytes;
use paceline_proto::ndn::{
    Body, Class, Data, Fragment, Header, Interest, JoinRates, Meta, NackReason, Name, Packet,
    PathLabel, Signer, Stamps, Token,
};

use super::{Draw, Source};

/// A name that is requested, a segment of it, or a name without a producer.
fn name(source: &mut Source<'_>) -> Name {
    let known = source.known.names.len() as u32;
    let name = source.known.names[source.rng.below(known) as usize].clone();
    match source.rng.below(8) {
        0 => name,
        // To the ledger of a run the greatest number stands for none.
        1 => name.with_segment(source.word().min(u64::MAX - 1)),
        2 => name.truncated(1),
        3 => {
            let bytes = 1 + source.rng.below(8) as usize;
            name.generic(&source.word().to_be_bytes()[..bytes]).expect("not too long")
        }
        _ => name.with_segment(source.rng.below(60).into()),
    }
}

/// Only names under which nothing is published have selectors, and each always the same ones: to a
/// forwarder, the same name with others is another Interest, and to the ledger of a run it is not.
fn interest(source: &mut Source<'_>) -> Interest {
    // With a nonce of an earlier one it would be that one again, which links may do as well.
    let mut interest = Interest::new(name(source), source.rng.next_u32());
    let is_published = interest.name.component_count() == 1 || interest.name.segment().is_some();
    if !is_published && interest.name.component_count() > 2 {
        let is_even = interest.name.encoded_len().is_multiple_of(2);
        (interest.can_be_prefix, interest.must_be_fresh) = (is_even, !is_even);
    }
    interest.lifetime_ms = source.flag().then(|| source.half());
    interest.hop_limit = source.flag().then(|| source.half() as u8);
    interest
}

/// Data with content that no producer published, with a digest signature or a null one.
fn data(source: &mut Source<'_>) -> Data {
    let meta = Meta {
        content_type: source.rng.chance(0.1).then(|| source.word()),
        freshness_ms: source.flag().then(|| source.half()),
        final_segment: source.flag().then(|| source.word()),
    };
    let signer = if source.flag() { Signer::Digest } else { Signer::Null };
    Data::new(name(source), meta, source.payload(), &signer)
}

fn nack(source: &mut Source<'_>) -> NackReason {
    match source.rng.below(4) {
        0 => NackReason::Congestion,
        1 => NackReason::Duplicate,
        2 => NackReason::NoRoute,
        _ => NackReason::of_number(source.word()),
    }
}

fn fragment(source: &mut Source<'_>) -> Fragment {
    let count = match source.rng.below(3) {
        0 => u32::MAX,
        _ => 2 + source.rng.below(3),
    };
    let index = source.rng.below(count.min(4));
    Fragment {
        sequence: source.word(),
        index,
        count,
        nack: source.rng.chance(0.2).then(|| nack(source)),
        bytes: Bytes::from_static(super::LIE).slice(..1 + source.rng.below(39) as usize),
    }
}

fn label(source: &mut Source<'_>) -> PathLabel {
    let hops =
        source.some(12, |source| NonZeroU16::new(source.half() as u16).unwrap_or(NonZeroU16::MIN));
    PathLabel::of_hops(&hops)
}

fn header(source: &mut Source<'_>) -> Header {
    let mut header = Header::default();
    if source.flag() {
        return header;
    }
    header.stamps =
        Stamps { primary_bits_per_second: source.word(), secondary_bits_per_second: source.word() };
    header.label = label(source);
    header.join_rates = JoinRates::EMPTY;
    for _ in 0..source.rng.below(14) {
        header.join_rates.push_front(Some(source.word()));
    }
    header.class = if source.flag() { Class::Primary } else { Class::Secondary };
    header.congestion_mark = source.rng.below(2) as u8;
    header.round_trip_micros = source.flag().then(|| source.half());
    header.discovers = source.flag();
    header.token = source.rng.chance(0.2).then(|| Token::new(b"a lie")).flatten();
    header
}

impl Draw for Packet {
    fn draw(source: &mut Source<'_>) -> Packet {
        let body = match source.rng.below(4) {
            0 => Body::Interest(interest(source)),
            1 => Body::Data(data(source)),
            2 => Body::Nack(nack(source), Box::new(interest(source))),
            _ => Body::Fragment(fragment(source)),
        };
        Packet { header: header(source), body }
    }

    fn kind(&self) -> &'static str {
        match self.body {
            Body::Interest(_) => "lie_ndn_interest",
            Body::Data(_) => "lie_ndn_data",
            Body::Nack(..) => "lie_ndn_nack",
            Body::Fragment(_) => "lie_ndn_fragment",
        }
    }

    fn kinds() -> Vec<&'static str> {
        vec!["lie_ndn_interest", "lie_ndn_data", "lie_ndn_nack", "lie_ndn_fragment"]
    }
}
