//! The table of pending Interests is bounded in bytes, names included.

use super::*;

/// A name of `bytes` bytes below `/a`, unlike those of other numbers.
fn long(bytes: usize, number: u32) -> String {
    // The heads of two components take six bytes, and `/a` takes three.
    let number = format!("{number:08}");
    format!("/a/{}/{number}", "x".repeat(bytes - 3 - 6 - number.len()))
}

/// Node 2 leads to `/a`; the others ask.
fn table_of(bytes: usize, askers: &[u32]) -> Bench {
    let any = FaceConfig::default();
    let mut faces: Vec<(u32, FaceConfig, &[&str])> = vec![(2, any, &["/a"])];
    faces.extend(askers.iter().map(|&asker| (asker, any, &[][..])));
    Bench::new(Config { pending_bytes_max: Some(bytes), ..Config::default() }, &faces)
}

#[test]
fn pending_interests_with_long_names_stay_within_their_bytes() {
    const BYTES: usize = 1 << 20;
    let askers = [1, 3, 4, 5];
    let mut bench = table_of(BYTES, &askers);
    for number in 0..1_000 {
        for asker in askers {
            bench.from(asker, interest(&long(2_000, number * 10 + asker), number * 10 + asker));
        }
        bench.packets();
        let held = bench.node.pit.memory_bytes();
        assert!(held <= BYTES, "{held} bytes");
    }
    let pending = bench.node.pending();
    assert!(pending * 2_000 <= BYTES, "{pending} pending");
    assert!(pending * 2_000 >= BYTES / 2, "{pending} pending");
    assert!(bench.node.memory_bytes() >= pending * 2_000);
    let refused = bench.count("mircc_refused_face") + bench.count("mircc_refused_bytes");
    assert_eq!((refused, bench.count("mircc_evicted")), (4_000 - pending as u64, 0));
    // All end, and what they held is free.
    bench.pass(ms(5_000));
    assert_eq!((bench.node.pending(), bench.node.pit.entries_bytes()), (0, 0));
}

#[test]
fn short_names_that_many_ask_for_stay_within_their_bytes() {
    const BYTES: usize = 256 << 10;
    let askers: Vec<u32> = (3..63).collect();
    let mut bench = table_of(BYTES, &askers);
    for number in 0..200 {
        for &asker in &askers {
            let mut packet = interest(&format!("/a/{number}"), number * 100 + asker);
            packet.header.token = Token::new(&[7; Token::BYTES_MAX]);
            bench.from(asker, packet);
        }
        bench.packets();
        // The table's own growth is foreseen, and that of a list of askers as well.
        let held = bench.node.pit.memory_bytes();
        assert!(held <= BYTES, "{held} bytes");
    }
    assert!(bench.node.pit.memory_bytes() >= BYTES / 2, "so much is asked for");
}

#[test]
fn who_holds_few_bytes_takes_from_who_holds_most() {
    // Each may have two fifths, so that three of them fill the table.
    let mut bench = table_of(1 << 20, &[1, 3, 4, 5]);
    for number in 0..1_000 {
        for asker in [1, 3, 5] {
            bench.from(asker, interest(&long(2_000, number * 10 + asker), number * 10 + asker));
        }
    }
    bench.packets();
    let pending = |bench: &Bench| [1, 3, 5].map(|face| bench.face(face).pending).iter().sum();
    let before: usize = pending(&bench);
    assert_eq!(bench.count("mircc_evicted"), 0);
    for number in 20_000..20_020 {
        let asked = long(2_000, number);
        bench.from(4, interest(&asked, number));
        assert!(bench.sent().contains(&format!("2: ask {asked}")), "{number}");
    }
    assert_eq!((bench.count("mircc_evicted"), bench.face(4).pending), (20, 20));
    assert_eq!(pending(&bench), before - 20);
    // The node itself as well.
    let own = long(2_000, 30_000);
    bench.command(Command::Ask(Box::new(question(1, &own))));
    assert!(bench.sent().contains(&format!("2: ask {own}")) && bench.told().is_empty());
}

#[test]
fn a_name_that_is_too_long_is_dropped_and_counted() {
    let mut bench = Bench::plain();
    let longest = name(&long(PENDING_NAME_BYTES_MAX, 1));
    assert_eq!(longest.encoded_len(), PENDING_NAME_BYTES_MAX);
    bench.from(1, Packet::from(Interest::new(longest, 1)));
    assert_eq!(bench.packets().len(), 1);
    bench.from(1, interest(&long(PENDING_NAME_BYTES_MAX + 1, 2), 2));
    assert_eq!((bench.packets().len(), bench.node.pending()), (0, 1));
    assert_eq!(bench.count("mircc_name_too_long"), 1);
    // The application gets the refusal at once.
    let own = long(PENDING_NAME_BYTES_MAX + 1, 3);
    bench.command(Command::Ask(Box::new(question(1, &own))));
    assert_eq!((bench.packets().len(), bench.told()), (0, vec!["question 1: nack 150".to_owned()]));
    assert_eq!(bench.count("mircc_name_too_long"), 2);
}
