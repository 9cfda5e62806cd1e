//! The way of Data and refusals.

use super::*;
use crate::ndn::Stamps;

#[test]
fn data_that_nobody_asked_for_is_dropped() {
    let slow = FaceConfig::of_rate(10_000);
    let any = FaceConfig::default();
    let faces: [(u32, FaceConfig, &[&str]); 3] = [(1, any, &[]), (2, slow, &["/a"]), (3, any, &[])];
    let config = Config { store_bytes_max: 1 << 20, ..Config::default() };
    let mut bench = Bench::new(config, &faces);
    bench.from(2, data("/a/seg=0"));
    bench.from(1, interest("/a/seg=0", 1));
    bench.from(1, interest("/a/seg=1", 2));
    bench.packets();
    // From a neighbour that was not asked, and from one whose Interest still waits to leave.
    bench.from(3, data("/a/seg=0"));
    bench.from(2, data("/a/seg=1"));
    assert_eq!((bench.sent(), bench.count("mircc_unsolicited")), (vec![], 3));
    assert_eq!((bench.node.pending(), bench.node.report().stored.0), (2, 0));
}

#[test]
fn stamps_are_lowered_to_the_face_s_own_and_absurd_ones_mended() {
    let any = FaceConfig::default();
    let config = Config::default;
    let stamps_of = |config: Config, face: FaceConfig, stamps: Stamps| {
        let mut bench = Bench::new(config, &[(1, any, &[]), (2, face, &["/a"])]);
        bench.from(1, interest("/a/seg=0", 1));
        bench.packets();
        let mut packet = data("/a/seg=0");
        packet.header.stamps = stamps;
        bench.from(2, packet);
        let (_, packet) = bench.packets().remove(0);
        (
            packet.header.stamps.primary_bits_per_second,
            packet.header.stamps.secondary_bits_per_second,
        )
    };
    let of = |primary, secondary| Stamps {
        primary_bits_per_second: primary,
        secondary_bits_per_second: secondary,
    };
    let (own, least) = (9_500_000, 10_000);
    assert_eq!(stamps_of(config(), mbit(10), Stamps::default()), (own, least));
    assert_eq!(stamps_of(config(), mbit(10), of(7_000_000, 5_000)), (7_000_000, 5_000));
    assert_eq!(stamps_of(config(), mbit(10), of(u64::MAX - 1, u64::MAX - 1)), (own, least));
    assert_eq!(stamps_of(config(), mbit(10), of(0, 1)), (1_000, 1_000));
    // Where the link's rate is not known nothing is lowered.
    assert_eq!(stamps_of(config(), any, of(0, 9)), (1_000, 1_000));
    assert_eq!(stamps_of(config(), any, of(7_000_000, u64::MAX - 1)), (7_000_000, u64::MAX - 1));
    assert_eq!(stamps_of(config(), any, Stamps::default()), (u64::MAX, u64::MAX));
}

#[test]
fn data_collects_what_one_more_flow_would_get_hop_by_hop() {
    let any = FaceConfig::default();
    let joins_of = |face: FaceConfig, joins: &[Option<u64>]| {
        let mut bench = Bench::new(Config::default(), &[(1, any, &[]), (2, face, &["/a"])]);
        let mut asked = interest("/a/seg=0", 1);
        asked.header.join_rates.push_front(Some(1));
        bench.from(1, asked);
        let (_, asked) = bench.packets().remove(0);
        assert!(asked.header.join_rates.is_empty(), "an Interest has none");
        let mut packet = labelled(data("/a/seg=0"), &[500]);
        joins.iter().rev().for_each(|&rate| packet.header.join_rates.push_front(rate));
        bench.from(2, packet);
        let (_, packet) = bench.packets().remove(0);
        assert_eq!(packet.header.label.len(), 2);
        packet.header.join_rates.hops().collect::<Vec<_>>()
    };
    // 0.95 of 10 Mbit/s, in 16 bits.
    let own = Some(9_494_528);
    let far = Some(6_995_968);
    assert_eq!(joins_of(mbit(10), &[far]), [own, far]);
    assert_eq!(joins_of(any, &[far]), [None, far]);
    // The hop before does not know the field, or lies about its path.
    assert_eq!(joins_of(mbit(10), &[]), [own]);
    assert_eq!(joins_of(mbit(10), &[far, far]), [own]);
}

#[test]
fn a_refusal_ends_the_entry_once_nobody_else_is_asked() {
    let any = FaceConfig::default();
    let faces: [(u32, FaceConfig, &[&str]); 3] =
        [(1, any, &[]), (2, mbit(10), &["/a"]), (3, any, &["/a"])];
    let mut bench = Bench::new(Config::default(), &faces);
    // Until both were asked.
    let mut number = 0;
    while bench.face(2).counts.interests_out == 0 || bench.face(3).counts.interests_out == 0 {
        number += 1;
        bench.from(1, interest("/a/seg=0", number));
        bench.pass(ms(20));
    }
    let asked = bench.packets();
    let last = |face| asked.iter().rev().find(|(to, _)| *to == face).map(|(_, p)| nonce(p));
    let (second, third) = (last(2).unwrap(), last(3).unwrap());
    // Of an Interest that was not sent there, of another nonce, from another.
    for (from, nonce) in [(3, second), (2, 9_999), (1, second)] {
        bench.from(from, self::nack("/a/seg=0", nonce, NackReason::NoRoute));
    }
    assert_eq!((bench.sent(), bench.count("mircc_unsolicited_nack")), (vec![], 3));
    bench.from(3, self::nack("/a/seg=0", third, NackReason::NoRoute));
    assert_eq!((bench.sent(), bench.node.pending()), (vec![], 1));
    bench.from(2, self::nack("/a/seg=0", second, NackReason::Congestion));
    let sent = bench.packets();
    let stamps = sent[0].1.header.stamps;
    assert_eq!((sent.len(), bench.node.pending()), (1, 0));
    assert!(line(1, &sent[0].1).starts_with("1: nack 50 /a/seg=0"), "{sent:?}");
    assert_eq!((nonce(&sent[0].1), stamps.primary()), (number, Some(9_500_000)));
    // Once is enough.
    bench.from(2, self::nack("/a/seg=0", second, NackReason::Congestion));
    assert_eq!(bench.sent(), Vec::<String>::new());
}

#[test]
fn what_is_stored_is_given_without_the_stamps_it_came_with() {
    let any = FaceConfig::default();
    let config = Config { store_bytes_max: 1 << 20, ..Config::default() };
    let mut bench = Bench::new(config, &[(1, any, &[]), (2, mbit(10), &["/a"]), (3, any, &[])]);
    let mut nonces = 0..;
    let mut ask = |bench: &mut Bench, from: u32, must_be_fresh: bool| {
        let nonce = nonces.next().expect("endless");
        bench.from(from, asking("/a/seg=0", nonce, |ask| ask.must_be_fresh = must_be_fresh));
        bench.pass(ms(10));
        bench.packets()
    };
    // The store keeps it at the second Interest.
    for kept in [0, 1] {
        ask(&mut bench, 1, false);
        bench.from(2, stamped(labelled(data("/a/seg=0"), &[5, 6]), 3, 1));
        let sent = bench.packets();
        assert_eq!(sent[0].1.header.stamps.primary(), Some(3_000_000));
        assert_eq!(sent[0].1.header.label.len(), 3);
        assert_eq!(bench.node.report().stored.0, kept);
    }
    let sent = ask(&mut bench, 3, false);
    assert_eq!((sent.len(), sent[0].0), (1, 3));
    assert_eq!(sent[0].1.header, Header::default());
    assert!(matches!(&sent[0].1.body, Body::Data(data) if data.name() == &name("/a/seg=0")));
    assert_eq!((bench.count("mircc_stored"), bench.node.pending()), (1, 0));
    // It is not fresh.
    assert_eq!(line(2, &ask(&mut bench, 3, true)[0].1), "2: ask /a/seg=0");
}

#[test]
fn data_is_marked_while_it_has_to_wait() {
    let any = FaceConfig::default();
    let slow = FaceConfig::of_rate(100_000);
    let mut bench = Bench::new(Config::default(), &[(1, slow, &[]), (2, any, &["/a"])]);
    for segment in 0..10 {
        let uri = format!("/a/seg={segment}");
        bench.from(1, interest(&uri, segment));
        bench.from(2, data(&uri));
    }
    bench.pass(ms(2_000));
    let marks = bench.packets().into_iter().filter(|(to, _)| *to == 1);
    let marks: Vec<u8> = marks.map(|(_, packet)| packet.header.congestion_mark).collect();
    // The first found nothing before it, the second the link only; then one is marked at once.
    assert_eq!(marks, [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
}
