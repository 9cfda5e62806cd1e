//! Packets that come in several datagrams.

use super::*;
use crate::core::{Wire, encode_to_bytes};

/// The packet in fragments of at most this many bytes, as ndnd sends it: fields for the hop go with
/// each fragment.
fn split(packet: &Packet, first: u64, len: usize) -> Vec<Packet> {
    let bare = Packet { header: Header::default(), body: packet.body.clone() };
    let bytes = encode_to_bytes(&bare);
    let parts: Vec<_> = bytes.chunks(len).collect();
    let count = parts.len() as u32;
    let part = |(index, part): (u32, &&[u8])| {
        let sequence = first + u64::from(index);
        let bytes = bytes::Bytes::copy_from_slice(part);
        let fragment = Fragment { sequence, index, count, nack: None, bytes };
        Packet { header: packet.header.clone(), body: Body::Fragment(fragment) }
    };
    (0..count).zip(&parts).map(part).collect()
}

#[test]
fn data_in_fragments_goes_on_whole_once_the_last_one_is_here() {
    let mut bench = Bench::plain();
    bench.from(1, interest("/a/seg=0", 1));
    bench.sent();
    let whole = stamped(labelled(data("/a/seg=0"), &[600]), 8, 1);
    let mut parts = split(&whole, 77, 300);
    assert!(parts.len() > 3);
    let bytes: usize = parts.iter().map(|part| part.wire_len() + 42).sum();
    parts.reverse();
    let last = parts.pop().expect("there are some");
    for part in parts {
        bench.from(2, part.clone());
        bench.from(2, part);
        assert!(bench.sent().is_empty());
    }
    bench.from(2, last);
    let sent = bench.packets();
    assert_eq!((sent.len(), sent[0].0, &sent[0].1.body), (1, 1, &whole.body));
    // What was said for the hop goes with the first fragment.
    assert_eq!(sent[0].1.header.label.len(), 2);
    assert_eq!(sent[0].1.header.stamps.primary(), Some(8_000_000));
    assert_eq!(bench.face(2).counts.data_in, 1);
    assert!(bench.face(2).counts.bytes_in > bytes as u64, "those that came twice count too");
    assert_eq!((bench.count("mircc_reassembled"), bench.count("mircc_unsolicited")), (1, 0));
    assert!(bench.count("mircc_fragment_duplicate") > 2);
    assert_eq!(bench.node.pending(), 0);
}

#[test]
fn an_interest_in_fragments_is_one_and_a_nack_in_fragments_is_one() {
    let mut bench = Bench::plain();
    for part in split(&interest("/a/long/name/seg=0", 1), 1, 10) {
        bench.from(1, part);
    }
    assert_eq!(bench.sent(), ["2: ask /a/long/name/seg=0"]);
    for mut part in split(&interest("/a/long/name/seg=0", 1), 1, 10) {
        if let Body::Fragment(fragment) = &mut part.body {
            fragment.nack = Some(NackReason::NoRoute);
        }
        bench.from(2, part);
    }
    let label = bench.face(2).label;
    assert_eq!(bench.sent(), [format!("1: nack 150 /a/long/name/seg=0 by {label}")]);
}

#[test]
fn a_packet_that_lacks_a_fragment_leaves_nothing_behind() {
    let mut bench = Bench::plain();
    let before = bench.node.memory_bytes();
    let parts = split(&data("/a/seg=0"), 5, 300);
    for part in &parts[1..] {
        bench.from(2, part.clone());
    }
    assert!(bench.node.memory_bytes() > before + 600);
    bench.pass(ms(499));
    assert_eq!(bench.count("mircc_reassembly_dropped"), 0);
    bench.pass(ms(2));
    assert_eq!((bench.count("mircc_reassembly_dropped"), bench.node.memory_bytes()), (1, before));
    bench.from(2, parts[0].clone());
    assert_eq!(bench.count("mircc_reassembled"), 0);
    bench.pass(ms(501));
    assert_eq!(bench.node.memory_bytes(), before);
    assert!(bench.outbox.timers.is_empty(), "nothing is left to wait for");
}

#[test]
fn fragments_of_neighbours_are_not_mixed_and_those_of_no_packet_are_counted() {
    let mut bench = Bench::plain();
    bench.from(1, interest("/a/seg=0", 1));
    bench.sent();
    let parts = split(&data("/a/seg=0"), 5, 600);
    bench.from(2, parts[0].clone());
    bench.from(3, parts[1].clone());
    assert!(bench.sent().is_empty());
    bench.from(2, parts[1].clone());
    assert_eq!(bench.sent().len(), 1);
    let mut odd = parts[0].clone();
    if let Body::Fragment(fragment) = &mut odd.body {
        (fragment.count, fragment.sequence) = (65, 900);
    }
    bench.from(2, odd);
    assert_eq!(bench.count("mircc_fragment_refused"), 1);
    // Two halves that are no packet together.
    for mut part in parts {
        if let Body::Fragment(fragment) = &mut part.body {
            fragment.bytes = vec![0xff; 10].into();
        }
        bench.from(2, part);
    }
    assert_eq!(bench.count("mircc_reassembled_undecodable"), 1);
}
