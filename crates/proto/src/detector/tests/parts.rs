//! The small parts: wire form, configuration, schedule.

use foca::{Header, Message, State};

use super::*;
use crate::core::{DecodeError, NodeId, View};
use crate::detector::identity::Identity;
use crate::detector::packet::{Claim, Ends, Packet};

/// From node 1 to node 2.
const ENDS: Ends = Ends { from: NodeId(1), to: NodeId(2) };

fn identity(node: u32, generation: u32) -> Identity {
    Identity { member: member(node), generation }
}

#[test]
fn every_datagram_reads_back_and_no_other_length_does() {
    let other = identity(3, 4);
    let messages = [
        Message::Ping(7),
        Message::Ack(7),
        Message::PingReq { target: other, probe_number: 1 },
        Message::IndirectPing { origin: other, probe_number: 2 },
        Message::IndirectAck { target: other, probe_number: 3 },
        Message::ForwardedAck { origin: other, probe_number: 255 },
        Message::Announce,
        Message::Feed,
        Message::Gossip,
        Message::TurnUndead,
    ];
    let gossip = messages.map(|message| {
        let has_none = matches!(message, Message::Announce | Message::TurnUndead);
        let claims = [State::Alive, State::Suspect, State::Down];
        let claims = claims.map(|state| Claim::new(other, 9, state));
        let claims = if has_none { Vec::new() } else { claims.to_vec() };
        let (src, dst) = (identity(1, 0), identity(2, u32::MAX));
        Packet::Gossip { header: Header { src, src_incarnation: 5, dst, message }, claims }
    });
    let direct = [
        Packet::Ping { incarnation: u64::MAX, nonce: 1 },
        Packet::Pong { incarnation: 3, nonce: u64::MAX },
    ];
    for packet in gossip.into_iter().chain(direct) {
        let bytes = packet.encode();
        assert_eq!(Packet::decode(&bytes, ENDS).as_ref(), Ok(&packet));
        for len in 0..bytes.len() {
            assert!(Packet::decode(&bytes[..len], ENDS).is_err(), "{packet:?} at {len}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Packet::decode(&longer, ENDS), Err(DecodeError::Trailing(1)));
    }
}

#[test]
fn the_wire_form_is_what_it_was() {
    let header = Header {
        src: identity(1, 2),
        src_incarnation: 3,
        dst: identity(4, 300),
        message: Message::Ping(6),
    };
    let claims = vec![Claim::new(identity(7, 8), 9, State::Suspect)];
    let hex: String =
        Packet::Gossip { header, claims }.encode().iter().map(|b| format!("{b:02x}")).collect();
    let expected = concat!(
        "00",
        "00000000000003e902",
        "0003",
        "00000000000003ecac02",
        "0006",
        "0001",
        "000000000000000700000000000003ef08",
        "000901",
    );
    assert_eq!(hex, expected);
    let ping = Packet::Ping { incarnation: 1, nonce: 2 }.encode();
    assert_eq!(ping[..], [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn a_generation_has_one_form_and_fits_32_bits() {
    for generation in [0, 127, 128, 1 << 14, (1 << 21) - 1, 1 << 28, u32::MAX] {
        let src = identity(1, generation);
        let (dst, message) = (identity(2, 0), Message::Announce);
        let header = Header { src, src_incarnation: 0, dst, message };
        let packet = Packet::Gossip { header, claims: Vec::new() };
        assert_eq!(Packet::decode(&packet.encode(), ENDS), Ok(packet));
    }
    // The source's generation is the 10th byte: zero in two bytes, and more than 32 bits.
    for generation in [&[0x80, 0][..], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0xff; 5]] {
        let bytes = [&[0; 9], generation, &[0; 11], &[6]].concat();
        let result = Packet::decode(&bytes, ENDS);
        let is_it = matches!(result, Err(DecodeError::OutOfRange { field: "generation", .. }));
        assert!(is_it, "{result:?}");
    }
}

#[test]
fn a_configuration_out_of_range_is_refused_by_its_name() {
    assert!(Config::new().build().is_ok());
    let bad = [
        (Config::new().with_probe_every(ms(149)), "probe_every is 149ms"),
        (
            Config::new().with_probe_trip(Duration::ZERO),
            "probe_trip is 0s, expected above 0, at most 1h",
        ),
        (Config::new().with_suspect_for(ms(3_600_001)), "suspect_for is"),
    ];
    for (config, expected) in bad {
        let message = config.build().expect_err(expected).to_string();
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn a_detector_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Detector>();
}

#[test]
fn a_view_is_watched_without_oneself_and_without_doubles() {
    let view = View::roster([2, 0, 1].map(NodeId));
    let me = view.members()[1];
    let config = Config::new().build().expect("within the ranges");
    let (mut detector, mut out) = (Detector::new(config, me, 1), Output::default());
    let mut members = view.members().to_vec();
    members.push(Member { incarnation: 9, ..members[0] });
    detector.watch(Instant::ZERO, &members, &mut out);
    let health = [0, 1, 2, 3].map(|node| detector.health(NodeId(node)));
    assert_eq!(health, [None, Some(Health::Up), Some(Health::Up), None]);
    assert_eq!(out, Output::default());
}
