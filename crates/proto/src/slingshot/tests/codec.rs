//! The encoding: round trips, damaged input, and fixed bytes.

use proptest::prelude::*;

use super::*;
use crate::core::laws::{self, hex};
use crate::core::{DecodeError, Wire, encode_to_bytes};

fn any_list() -> impl Strategy<Value = Vec<Name>> {
    let name = (0u32..6, any::<u16>(), any::<u32>(), any::<u32>()).prop_map(
        |(group, rank, seq, checksum)| Name { group: GroupId(group * 7), rank, seq, checksum },
    );
    prop::collection::vec(name, 1..40)
}

fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    laws::decode(bytes)
}

laws::laws!(Message, laws::any_of::<Message>(), 0u8..9);

proptest! {
    #[test]
    fn names_are_read_as_they_were_written(list in any_list()) {
        let mut names = NamesBuilder::default();
        list.iter().for_each(|name| names.push(*name));
        let bytes = names.bytes();
        let names = names.build();
        prop_assert_eq!(names.len(), list.len());
        prop_assert_eq!(names.iter().collect::<Vec<_>>(), list);
        let message = Message::Ask { view: ViewId(0), names };
        prop_assert_eq!(message.wire_len(), 9 + bytes);
    }

    #[test]
    fn arbitrary_names_are_names_in_their_only_form_or_refused(
        groups in 0u8..4, names in 0u8..6, tail in prop::collection::vec(0u8..3, 0..60)
    ) {
        let at = (usize::from(groups) * 4).min(tail.len());
        let head = [&[2, 0, 0, 0, 0, 0, 0, 0, 0, groups][..], &tail[..at], &[names]].concat();
        let bytes = [&head[..], &tail[at..]].concat();
        if let Ok(message) = decode(&bytes) {
            let Message::Ask { names, .. } = &message else { panic!("{message}") };
            prop_assert_eq!(names.iter().count(), names.len());
            prop_assert_eq!(&encode_to_bytes(&message)[..], &bytes[..]);
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed_in_all_that_leaves_traces(
        data in laws::any_of::<Data>(), repair in laws::any_of::<Repair>(), rank in any::<u16>(),
        pulse in laws::any_of::<Pulse>(), report in laws::any_of::<Report>(),
        place in any::<prop::sample::Index>(), bit in 0u8..8
    ) {
        let Data { group, incarnation, seq, .. } = data;
        for message in [
            Message::Heartbeat(Heartbeat { group, incarnation, next: seq }),
            Message::Supply(Supply { view: repair.view, rank, data: data.clone() }),
            Message::Data(data),
            Message::Repair(repair),
            Message::Pulse(pulse),
            Message::Report(report),
        ] {
            let mut bytes = encode_to_bytes(&message).to_vec();
            let at = 1 + place.index(bytes.len() - 1);
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes).is_err());
        }
    }

    #[test]
    fn the_checksum_of_a_packet_is_not_the_sum_of_those_of_others(
        a in any::<[u8; 16]>(), b in any::<[u8; 16]>(), c in any::<[u8; 16]>()
    ) {
        // For a CRC alone this holds for any three packets of one name, and their sum.
        prop_assume!(a != b && b != c && a != c);
        let of = |bytes: [u8; 16]| checksum(G, 1, 1, &Payload::from(bytes.to_vec()));
        let sum = std::array::from_fn(|i| a[i] ^ b[i] ^ c[i]);
        prop_assert_ne!(of(sum), of(a) ^ of(b) ^ of(c));
    }
}

fn out_of_range(bytes: &[u8], field: &'static str) {
    let refused = decode(bytes);
    let is_field = matches!(refused, Err(DecodeError::OutOfRange { field: f, .. }) if f == field);
    assert!(is_field, "{field}: {refused:?}");
}

#[test]
fn each_bad_field_has_its_error() {
    let ask = |tail: &[u8]| [&[2u8, 0, 0, 0, 0, 0, 0, 0, 0][..], tail].concat();
    let name = [0u8; 10];
    out_of_range(&ask(&[&[0][..], &name].concat()), "groups");
    out_of_range(&ask(&[&[129][..], &[0; 600]].concat()), "groups");
    out_of_range(&ask(&[&[1, 0, 0, 0, 0, 0][..], &name].concat()), "names");
    out_of_range(&ask(&[&[1, 0, 0, 0, 0, 129][..], &[0; 2000]].concat()), "names");
    let two = [2, 0, 0, 0, 1, 0, 0, 0, 1, 2];
    out_of_range(&ask(&[&two[..], &[0; 22]].concat()), "group");
    let two = [2, 0, 0, 0, 1, 0, 0, 0, 2, 2];
    let places = [&[0][..], &name, &[2], &name].concat();
    out_of_range(&ask(&[&two[..], &places].concat()), "place");
    let mut data = encode_to_bytes(&Message::Data(packet(G, 1, 1))).to_vec();
    data[13] = 0x80;
    assert_eq!(decode(&data), Err(DecodeError::Checksum), "it is no fragment");
    let mut beat = encode_to_bytes(&heartbeat(1, 1)).to_vec();
    beat[13] = 0x80;
    out_of_range(&beat, "seq");
    let long = packet_with(G, 1, 1, Payload::Zeros(65_536));
    out_of_range(&encode_to_bytes(&Message::Data(long)), "payload");
    assert_eq!(decode(&[7]), Err(DecodeError::UnknownTag(7)));
    let [pulse, _] = paced();
    let pulse = encode_to_bytes(&pulse).to_vec();
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = pulse.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    out_of_range(&changed(25, &[0x80]), "seq");
    out_of_range(&changed(37, &[0; 4]), "rate");
    out_of_range(&changed(41, &[0; 4]), "round_trip_max_us");
    out_of_range(&changed(41, &[0xff; 4]), "round_trip_max_us");
    out_of_range(&changed(45, &[0, 1, 0, 0]), "limiting");
    out_of_range(&changed(50, &[0; 4]), "rate");
    out_of_range(&changed(54, &[17]), "round_trips");
    let mut data = encode_to_bytes(&Message::Data(packet(G, 1, 1))).to_vec();
    *data.last_mut().unwrap() ^= 1;
    assert_eq!(decode(&data), Err(DecodeError::Checksum));
}

/// A bit of its tag flipped and a question is as long as a heartbeat; found by seeds, whose members
/// then waited for packets that were never sent.
#[test]
fn a_question_is_no_heartbeat_and_a_packet_of_one_sender_is_not_one_of_another() {
    let mut names = NamesBuilder::default();
    names.push(name_of(&packet(G, 1, 5)));
    let ask = Message::Ask { view: ViewId(0), names: names.build() };
    let mut bytes = encode_to_bytes(&ask).to_vec();
    assert_eq!(bytes.len(), heartbeat(1, 5).wire_len());
    bytes[0] = 3;
    assert_eq!(decode(&bytes), Err(DecodeError::Checksum));
    let supply = Supply { view: ViewId(0), rank: 1, data: packet(G, 1, 5) };
    let mut bytes = encode_to_bytes(&Message::Supply(supply)).to_vec();
    bytes[14] = 2;
    assert_eq!(decode(&bytes), Err(DecodeError::Checksum));
}

#[test]
fn a_packet_of_the_largest_size_fits_all_messages_with_it() {
    let config = Config::published(roster(4), Rate { r: 1, c: 1 }).build().expect("in range");
    let bytes = config.payload_bytes_max(1200) as u32;
    let data = packet_with(G, 1, 5, Payload::Zeros(bytes));
    let supply = Supply { view: ViewId(0), rank: 1, data: data.clone() };
    let messages =
        [Message::Supply(supply), repair_of(std::slice::from_ref(&data), 0), Message::Data(data)];
    assert_eq!(messages.iter().map(Wire::wire_len).max(), Some(1200));
}

/// The two messages of congestion control.
fn paced() -> [Message; 2] {
    let pulse = Pulse {
        group: GroupId(3),
        incarnation: 102,
        view: ViewId(1),
        stamp_us: 0x0102_0304,
        next: 300,
        round: 5,
        allowed: 1_000_000,
        round_trip_max_us: 20_000,
        limiting: 6,
        is_slow_start: true,
        suppression: u32::MAX,
        round_trips: RoundTripsBuilder::default().build([(6, 10_000), (7, 20_000)].into_iter()),
    };
    let report = Report {
        group: GroupId(3),
        incarnation: 102,
        stamp_us: 0x0102_0304,
        held_us: 250,
        round: 5,
        loss: 0x0080_0000,
        received: 900_000,
        wanted: 1_200_000,
        is_lossless: false,
        is_followed: true,
    };
    [Message::Pulse(pulse), Message::Report(report)]
}

#[test]
fn the_messages_of_congestion_control_are_what_they_always_were() {
    for (message, expected) in paced().iter().zip(PACED) {
        assert_eq!(hex(message), expected.replace(' ', ""), "{message}");
    }
}

const PACED: [&str; 2] = [
    "05 00000003 0000000000000066 0000000000000001 01020304 000000000000012c 00000005 000f4240 \
     00004e20 00000006 01 ffffffff 02 000600002710 000700004e20 70011ce6",
    "06 00000003 0000000000000066 01020304 000000fa 00000005 00800000 000dbba0 00124f80 00 01 \
     e03a2d7a",
];

#[test]
fn the_encoding_is_what_it_always_was() {
    let payload = Payload::from("packet");
    let data = |group, seq| packet_with(GroupId(group), 2, seq, payload.clone());
    let golden = [
        (Message::Data(data(3, 300)), GOLDEN[0]),
        (repair_of(&[data(3, 300), data(3, 301), packet(GroupId(3), 2, 1)], 0), GOLDEN[1]),
        (repair_of(&[data(3, 300), data(4, 0x0102_0304)], 5), GOLDEN[2]),
        (heartbeat(2, 0x0102), GOLDEN[3]),
        (Message::Supply(Supply { view: ViewId(1), rank: 6, data: data(3, 300) }), GOLDEN[4]),
        (
            Message::Ask {
                view: ViewId(0x0a),
                names: {
                    let mut names = NamesBuilder::default();
                    names.push(Name { group: G, rank: 0x0b, seq: 0x0c, checksum: 0x0d });
                    names.build()
                },
            },
            GOLDEN[5],
        ),
    ];
    for (message, expected) in golden {
        assert_eq!(hex(&message), expected.replace(' ', ""), "{message}");
    }
}

const GOLDEN: [&str; 6] = [
    "00 00000003 0000000000000066 000000000000012c b795028a 7061636b6574",
    "01 0000000000000000 00000000 0016 0000 0000 3a52b949 01 00000003 03 00020000012cb795028a \
     00020000012dc9671ff0 00020000000180 63c14e 22222222222222222222222222222222222222222222",
    "01 0000000000000000 00000005 00e1 0000 0000 e8034527 02 00000003 00000004 02 \
     00 00020000012cb795028a 01 000201020304 86b475f4 74174829a9ca",
    "03 00000000 0000000000000066 0000000000000102 d7b933ce",
    "04 bcaa8357 0000000000000001 0006 00000003 0000000000000066 000000000000012c b795028a \
     7061636b6574",
    "02 000000000000000a 01 00000000 01 000b 0000000c 0000000d",
];

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../../docs/protocols/slingshot.md");
    let section = laws::section(page, "### Messages");
    assert_eq!(laws::documented(&Message::rows(), section), Vec::from_iter(0..=6));
}
