use paceline_proto::core::Payload;
use paceline_proto::ndn::{Meta, Signer};

use super::*;

fn plan(segments: Option<u64>, bytes: Option<u64>) -> Plan {
    Plan { name: "/p/f/v=7".parse().unwrap(), segment_bytes: 4, segments, bytes }
}

fn data(number: u64, content: &str, last: u64) -> Data {
    let name = plan(None, None).name.with_segment(number);
    let meta = Meta { final_segment: Some(last), ..Meta::default() };
    Data::new(name, meta, Payload::from(content.as_bytes().to_vec()), &Signer::Digest)
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn open(&self, plan: Plan) -> Part {
        Part::open(&self.out(), plan, true).unwrap()
    }

    fn note(&self, text: &str) {
        std::fs::write(self.0.path().join("out.part.json"), text).unwrap();
    }
}

/// From each first one to before the last one.
fn had(part: &Part) -> Vec<(u64, u64)> {
    part.had().iter().map(|range| (range.start, range.end)).collect()
}

#[test]
fn segments_go_to_their_places_in_any_order_and_once() {
    let place = Place::new();
    let mut part = place.open(plan(None, None));
    for (number, content) in [(1, "EFGH"), (3, "MN"), (0, "ABCD"), (1, "EFGH"), (2, "IJKL")] {
        part.write(number, &data(number, content, 3)).unwrap();
    }
    assert_eq!((had(&part), part.bytes(), part.segments()), (vec![(0, 4)], 14, Some(4)));
    assert_eq!(part.finish(None, || false).unwrap(), Finished::Whole);
    assert_eq!(std::fs::read(place.out()).unwrap(), b"ABCDEFGHIJKLMN");
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 1);
}

#[test]
fn ranges_grow_at_both_ends_and_join() {
    let place = Place::new();
    let mut part = place.open(plan(Some(100), None));
    let mut note = |number| {
        assert!(part.note_had(number) && !part.note_had(number), "{number}");
        had(&part)
    };
    assert_eq!(note(5), [(5, 6)]);
    assert_eq!(note(7), [(5, 6), (7, 8)]);
    assert_eq!(note(4), [(4, 6), (7, 8)]);
    assert_eq!(note(8), [(4, 6), (7, 9)]);
    assert_eq!(note(0), [(0, 1), (4, 6), (7, 9)]);
    assert_eq!(note(6), [(0, 1), (4, 9)]);
}

#[test]
fn what_is_noted_is_taken_up_again() {
    let place = Place::new();
    let mut part = place.open(plan(None, None));
    part.write(3, &data(3, "MN", 3)).unwrap();
    part.write(0, &data(0, "ABCD", 3)).unwrap();
    part.save().unwrap();
    part.write(1, &data(1, "EFGH", 3)).unwrap();
    // As if the process was killed before it noted the last one.
    drop(part);
    let mut part = place.open(plan(None, None));
    assert_eq!((had(&part), part.resumed_bytes()), (vec![(0, 1), (3, 4)], 6));
    assert_eq!(part.plan(), &plan(Some(4), Some(14)), "what was known is known again");
    part.write(1, &data(1, "EFGH", 3)).unwrap();
    part.write(2, &data(2, "IJKL", 3)).unwrap();
    let digest = Sha256::digest(b"ABCDEFGHIJKLMN").into();
    assert_eq!(part.finish(Some(digest), || false).unwrap(), Finished::Whole);
}

#[test]
fn a_note_of_something_else_or_of_nonsense_is_not_believed() {
    let place = Place::new();
    let taken = |note: &str, plan: Plan| {
        std::fs::write(place.0.path().join("out.part"), [0; 14]).unwrap();
        place.note(note);
        place.open(plan).had().len()
    };
    let note = |name: &str, size: u64, had: &str| {
        format!(
            r#"{{"format":1,"name":"{name}","segment_bytes":{size},"segments":4,"bytes":14,
                "had":{had}}}"#
        )
    };
    let right = note("/p/f/v=7", 4, "[[0,1],[2,4]]");
    assert_eq!(taken(&right, plan(None, None)), 2);
    assert_eq!(taken(&right, plan(Some(4), Some(14))), 2);
    for (what, note) in [
        ("another version", note("/p/f/v=8", 4, "[[0,1]]")),
        ("other segments", note("/p/f/v=7", 5, "[[0,1]]")),
        ("an empty range", note("/p/f/v=7", 4, "[[1,1]]")),
        ("a range of less than nothing", note("/p/f/v=7", 4, "[[2,1]]")),
        ("ranges in no order", note("/p/f/v=7", 4, "[[2,3],[0,1]]")),
        ("ranges that touch", note("/p/f/v=7", 4, "[[0,1],[1,2]]")),
        ("beyond the last segment", note("/p/f/v=7", 4, "[[0,5]]")),
        ("beyond all numbers", note("/p/f/v=7", 4, "[[0,18446744073709551615]]")),
        ("another format", right.replace("\"format\":1", "\"format\":2")),
        ("no note", "{".to_owned()),
    ] {
        assert_eq!(taken(&note, plan(None, None)), 0, "{what}");
    }
    assert_eq!(taken(&right, plan(Some(5), None)), 0, "another number of segments");
    place.note(&right);
    std::fs::write(place.0.path().join("out.part"), [0; 13]).unwrap();
    assert_eq!(place.open(plan(None, None)).had().len(), 0, "less is there than is noted");
}

#[test]
fn segments_of_other_lengths_than_their_places_have_are_refused() {
    let place = Place::new();
    let mut part = place.open(plan(Some(3), Some(9)));
    for (number, content) in
        [(0, "ABC"), (1, "ABCDE"), (1, ""), (2, "AB"), (2, ""), (2, "ABCDE"), (3, "ABCD")]
    {
        let refused = part.write(number, &data(number, content, 2)).unwrap_err();
        assert!(matches!(refused, FetchError::Uneven { .. }), "{number} {content}: {refused}");
    }
    let far = part.write(u64::MAX / 2, &data(u64::MAX / 2, "ABCD", 2)).unwrap_err();
    assert!(matches!(far, FetchError::Uneven { .. }), "{far}");
    assert_eq!((part.had().len(), part.bytes()), (0, 0));
}

#[test]
fn a_wrong_digest_leaves_nothing_and_the_file_that_was_there() {
    let place = Place::new();
    std::fs::write(place.out(), "before").unwrap();
    let mut part = place.open(plan(Some(1), None));
    part.write(0, &data(0, "AB", 0)).unwrap();
    assert_eq!(part.finish(Some([0; 32]), || false).unwrap(), Finished::OtherDigest);
    assert_eq!(std::fs::read(place.out()).unwrap(), b"before");
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 1);
}

#[test]
fn a_digest_that_is_stopped_leaves_all_that_has_come() {
    let place = Place::new();
    let mut part = place.open(plan(Some(1), None));
    part.write(0, &data(0, "AB", 0)).unwrap();
    assert_eq!(part.finish(Some([0; 32]), || true).unwrap(), Finished::Stopped);
    assert!(!place.out().exists());
    assert_eq!(had(&place.open(plan(Some(1), None))), [(0, 1)]);
}

#[test]
fn one_writes_at_a_time_and_a_finished_file_is_not_opened_again() {
    let place = Place::new();
    let mut part = place.open(plan(Some(1), None));
    let busy = Part::open(&place.out(), plan(Some(1), None), true).unwrap_err();
    assert!(matches!(busy, PartError::Busy(_)), "{busy:?}");
    part.write(0, &data(0, "AB", 0)).unwrap();
    assert_eq!(part.finish(None, || false).unwrap(), Finished::Whole);
    let next = place.open(plan(Some(1), None));
    assert_eq!((next.had().len(), std::fs::read(place.out()).unwrap()), (0, b"AB".to_vec()));
}
