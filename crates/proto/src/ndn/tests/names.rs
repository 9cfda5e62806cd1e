//! Names: components, order, prefixes and URIs.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The elements as lists of types and values: what names are by definition.
type Parts = Vec<(u16, Vec<u8>)>;

fn of_parts(parts: &Parts) -> Name {
    parts.iter().fold(Name::root(), |name, (kind, value)| name.component(*kind, value).unwrap())
}

fn parts_of(name: &Name) -> Parts {
    name.components().map(|part| (part.kind(), part.value().to_vec())).collect()
}

/// Few different components, so that names often have some in common.
fn any_part() -> impl Strategy<Value = (u16, Vec<u8>)> {
    prop_oneof![
        (prop_oneof![Just(8), Just(32), Just(50), Just(54), Just(300)], vec(0u8..3, 0..3)),
        (Just(50), prop_oneof![Just(vec![0]), Just(vec![1]), Just(vec![1, 0]), Just(vec![0, 1])]),
        (3u16..=u16::MAX, vec(any::<u8>(), 0..20)),
        (1u16..=2, vec(any::<u8>(), 32)),
    ]
}

pub(super) fn any_name() -> impl Strategy<Value = Name> {
    vec(any_part(), 0..6).prop_map(|parts| of_parts(&parts))
}

fn hash(name: &Name) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn encoded(name: &Name) -> Bytes {
    let mut bytes = Vec::new();
    name.write_element(&mut bytes);
    assert_eq!(bytes.len(), name.element_len());
    bytes.into()
}

fn read(bytes: &Bytes) -> Result<Name, DecodeError> {
    let element = tlv::Reader::new(bytes).element()?.expect("there is one");
    Name::read(bytes, &element)
}

/// The canonical order by its definition: types, then lengths, then values, then the shorter name
/// first.
fn canonical(a: &Parts, b: &Parts) -> Ordering {
    let key = |parts: &Parts| -> Vec<(u16, usize, Vec<u8>)> {
        parts.iter().map(|(kind, value)| (*kind, value.len(), value.clone())).collect()
    };
    key(a).cmp(&key(b))
}

proptest! {
    #[test]
    fn a_name_is_its_components(parts in vec(any_part(), 0..6)) {
        let name = of_parts(&parts);
        prop_assert_eq!(parts_of(&name), parts.clone());
        prop_assert_eq!(name.component_count(), parts.len());
        // The last component, if it is a segment number in the shortest of its four lengths.
        let segment = parts.last().filter(|(kind, _)| *kind == 50).and_then(|(_, value)| {
            let number = value.iter().fold(0u128, |number, &byte| number << 8 | u128::from(byte));
            let len = [1usize, 2, 4, 8].into_iter().find(|len| number >> (8 * len) == 0);
            (len == Some(value.len())).then_some(number as u64)
        });
        prop_assert_eq!(name.segment(), segment);
        for count in 0..=parts.len() + 1 {
            let first = parts[..count.min(parts.len())].to_vec();
            prop_assert_eq!(&name.truncated(count), &of_parts(&first));
        }
    }

    #[test]
    fn names_survive_both_their_forms(name in any_name()) {
        let bytes = encoded(&name);
        prop_assert_eq!(read(&bytes), Ok(name.clone()));
        let uri = name.to_string();
        prop_assert_eq!(uri.parse::<Name>(), Ok(name.clone()), "{}", uri);
        prop_assert_eq!(encoded(&uri.parse().unwrap()), bytes);
        prop_assert_eq!(name.detached(), name);
    }

    #[test]
    fn names_are_in_canonical_order(a in vec(any_part(), 0..4), b in vec(any_part(), 0..4)) {
        let (left, right) = (of_parts(&a), of_parts(&b));
        prop_assert_eq!(left.cmp(&right), canonical(&a, &b));
        prop_assert_eq!(left == right, a == b);
        prop_assert!(left != right || hash(&left) == hash(&right));
        prop_assert_eq!(left.starts_with(&right), a.starts_with(&b));
        prop_assert_eq!(right.is_prefix_of(&left), a.starts_with(&b));
    }

    #[test]
    fn every_prefix_is_one(parts in vec(any_part(), 1..6), count in 0usize..6) {
        let first = parts[..count.min(parts.len())].to_vec();
        let (name, prefix) = (of_parts(&parts), of_parts(&first));
        prop_assert!(name.starts_with(&prefix));
        prop_assert_eq!(name.cmp(&prefix), canonical(&parts, &first));
    }

    #[test]
    fn any_text_is_a_name_or_an_error(uri in "\\PC{0,40}", path in "[/a.%=0-9segvt]{0,20}") {
        for uri in [uri.clone(), format!("/{uri}"), format!("/{path}")] {
            if let Ok(name) = uri.parse::<Name>() {
                prop_assert_eq!(name.to_string().parse::<Name>(), Ok(name));
            }
        }
    }
}

#[test]
fn segments_of_an_object_share_its_bytes() {
    let object = name("/mircc/file/v=3");
    let first = object.with_segment(0);
    let last = first.with_segment(u64::MAX);
    assert_eq!(last.prefix_bytes().as_ptr(), object.prefix_bytes().as_ptr());
    assert_eq!(last.to_string(), format!("/mircc/file/v=3/seg={}", u64::MAX));
    assert_eq!(last.without_segment(), object);
    assert_eq!(name("/a/seg=1/seg=2").without_segment(), name("/a/seg=1"));
    assert_eq!(name("/a/seg=1/seg=2").without_segment().segment(), Some(1));
    assert_eq!(name("/a/seg=1/b").without_segment(), name("/a/seg=1/b"));
}

#[test]
fn a_segment_number_after_another_counts_in_the_order() {
    let names = ["/a", "/a/seg=1", "/a/seg=1/seg=2", "/a/seg=1/b", "/a/seg=2", "/a/seg=256"];
    let mut sorted = names.map(name);
    sorted.reverse();
    sorted.sort();
    // The types: 8 of `b` is below 50.
    let order = ["/a", "/a/seg=1", "/a/seg=1/b", "/a/seg=1/seg=2", "/a/seg=2", "/a/seg=256"];
    assert_eq!(sorted, order.map(name));
    assert_eq!(name("/a/seg=1").cmp(&name("/a/seg=1/seg=2")), Ordering::Less);
    assert!(name("/a/seg=1/seg=2").starts_with(&name("/a/seg=1")));
    assert!(!name("/a/seg=1/seg=2").starts_with(&name("/a/seg=2")));
}

#[test]
fn a_name_that_was_read_shares_the_datagram_and_a_detached_one_does_not() {
    let bytes = encoded(&name("/mircc/file/seg=7"));
    let shared = read(&bytes).unwrap();
    assert!(bytes.as_ptr_range().contains(&shared.prefix_bytes().as_ptr()));
    assert!(!bytes.as_ptr_range().contains(&shared.detached().prefix_bytes().as_ptr()));
    assert_eq!(shared.detached(), shared);
}

#[test]
fn a_segment_number_that_is_not_shortest_keeps_its_bytes() {
    let long = name("/a/50=%00%07");
    assert_eq!((long.segment(), long.to_string().as_str()), (None, "/a/50=%00%07"));
    assert_ne!(long, name("/a/seg=7"));
    assert_eq!(read(&encoded(&long)), Ok(long));
    assert_eq!(name("/a/50=%07"), name("/a/seg=7"));
}

#[test]
fn uris_are_read_as_python_ndn_reads_them() {
    for (uri, hex) in [
        ("/", "0700"),
        ("/a", "0703080161"),
        ("/a%20b/32=metadata", "070f080361206220086d65746164617461"),
        ("/a/seg=0/seg=300", "070a0801613201003202012c"),
        (
            "/v=1/t=1600000000000000/seq=65536/off=4294967296",
            "071d36010138080005af3107a400003a040001000034080000000100000000",
        ),
        ("/65535=x", "0705fdffff0178"),
        ("/253=x", "0705fd00fd0178"),
    ] {
        let found: String = encoded(&name(uri)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((found.as_str(), name(uri).to_string().as_str()), (hex, uri));
    }
    let digest = "ab".repeat(32);
    for (word, kind) in [("sha256digest", "01"), ("params-sha256", "02")] {
        let uri = format!("/{word}={digest}");
        assert_eq!(encoded(&name(&uri)), unhex(&format!("0722{kind}20{digest}")));
        assert_eq!(name(&uri).to_string(), uri);
    }
}

#[test]
fn forms_of_a_uri_that_mean_the_same_are_the_same() {
    for (uri, same) in [
        ("ndn:/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("/8=a/08=b", "/a/b"),
        ("/%61", "/a"),
        ("/%2f%2F", "/%2F%2F"),
        ("/50=%07", "/seg=7"),
        ("/seg=007", "/seg=7"),
        ("/é", "/%C3%A9"),
    ] {
        assert_eq!((name(uri), name(uri).to_string().as_str()), (name(same), same));
    }
    // Only dots: three more than there are.
    assert_eq!(parts_of(&name("/...")), [(8, vec![])]);
    assert_eq!(parts_of(&name("/....")), [(8, vec![b'.'])]);
    assert_eq!(parts_of(&name("/32=.....")), [(32, vec![b'.', b'.'])]);
    assert_eq!(parts_of(&name("/..a")), [(8, b"..a".to_vec())]);
}

#[test]
fn text_that_is_no_name_is_refused_with_its_reason() {
    let digits = "0".repeat(63);
    for (uri, error) in [
        ("", NameError::Relative),
        ("a/b", NameError::Relative),
        ("ndn:a", NameError::Relative),
        ("//", NameError::Empty),
        ("/a//b", NameError::Empty),
        ("/.", NameError::Empty),
        ("/a/..", NameError::Empty),
        ("/8=", NameError::Empty),
        ("/%", NameError::Percent),
        ("/%4", NameError::Percent),
        ("/%4g", NameError::Percent),
        ("/%+4", NameError::Percent),
        ("/seg=", NameError::Number),
        ("/seg=x", NameError::Number),
        ("/seg=+1", NameError::Number),
        ("/v=18446744073709551616", NameError::Number),
        ("/0=a", NameError::Kind),
        ("/65536=a", NameError::Kind),
        ("/=a", NameError::Kind),
        ("/+8=a", NameError::Kind),
        ("/word=a", NameError::Kind),
        (&format!("/sha256digest={digits}"), NameError::Digest),
        (&format!("/sha256digest={digits}g"), NameError::Digest),
        ("/1=short", NameError::Component(1)),
    ] {
        assert_eq!(uri.parse::<Name>(), Err(error), "{uri}");
    }
}

#[test]
fn names_have_bounds() {
    let many = "/a".repeat(NAME_COMPONENTS_MAX);
    assert_eq!(name(&many).component_count(), NAME_COMPONENTS_MAX);
    assert_eq!(format!("{many}/b").parse::<Name>(), Err(NameError::TooManyComponents));
    // There is always room for a segment number.
    let segment = name(&many).with_segment(1);
    assert_eq!(read(&encoded(&segment)), Ok(segment.clone()));
    assert_eq!(segment.generic(b"b"), Err(NameError::TooManyComponents));
    assert_eq!(name(&many).component(50, &[1]), Ok(segment));

    // A type and a length of three bytes before it.
    let long = vec![0; NAME_BYTES_MAX - 4];
    let longest = Name::root().generic(&long).unwrap().with_segment(u64::MAX);
    assert_eq!(read(&encoded(&longest)), Ok(longest.clone()));
    assert_eq!(longest.generic(b""), Err(NameError::TooLong));
    assert_eq!(Name::root().generic(&vec![0; NAME_BYTES_MAX - 3]), Err(NameError::TooLong));
    assert_eq!(Name::root().component(0, b"a"), Err(NameError::Component(0)));
}

#[test]
fn names_that_are_read_have_the_same_bounds() {
    let component = element(tlv::kind::GENERIC, b"a");
    let with = |count: usize| read(&element(7, &component.repeat(count)).into());
    assert_eq!(with(64).map(|name| name.component_count()), Ok(64));
    let field = "components of a name";
    assert_eq!(with(65), Err(DecodeError::OutOfRange { field, value: 65 }));
    assert_eq!(with(4_000), Err(DecodeError::OutOfRange { field, value: 66 }));
    let long = element(7, &element(8, &vec![0; NAME_BYTES_MAX - 3]));
    let field = "bytes of a name";
    assert_eq!(read(&long.into()), Err(DecodeError::OutOfRange { field, value: 8_193 }));
    let field = "component type";
    for kind in [0x1_0000, 0xffff_ffff] {
        let value = u64::from(kind);
        let named = element(7, &element(kind, b"a"));
        assert_eq!(read(&named.into()), Err(DecodeError::OutOfRange { field, value }));
    }
    let field = "bytes of a digest";
    let short = element(7, &element(1, &[0; 31]));
    assert_eq!(read(&short.into()), Err(DecodeError::OutOfRange { field, value: 31 }));
}

#[test]
fn a_digest_of_whole_data_is_seen_only_where_it_is_a_component() {
    let plain = name("/a/b");
    let digest = [0xab; 32];
    let asked = plain.component(1, &digest).unwrap();
    assert_eq!(asked.implicit_digest(), Some((plain.clone(), digest)));
    assert_eq!(plain.implicit_digest(), None);
    assert_eq!(asked.with_segment(1).implicit_digest(), None);
    // The same bytes within a longer component.
    let disguised = [&[1, 32][..], &digest].concat();
    assert_eq!(plain.generic(&disguised).unwrap().implicit_digest(), None);
    let after_segment = name("/a/seg=3").component(1, &digest).unwrap();
    assert_eq!(after_segment.implicit_digest(), Some((name("/a/seg=3"), digest)));
}
