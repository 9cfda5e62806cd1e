//! Messages of a small protocol, and what their declaration generates.

use bytes::Bytes;

use super::{
    Address, ChecksumBefore, ChecksumBehind, Field, Length, List, Summed, ToEnd, Valued,
    error_name, fields, messages,
};
use crate::core::laws::{any_of, decode, documented, hex, laws};
use crate::core::{DecodeError, Member, NodeId, Payload, ViewId, Wire, encode_to_bytes};

fields! {
    /// A block with a checksum.
    #[derive(Clone, Debug, PartialEq)]
    struct Block {
        /// Its number.
        seq: u32 where is_small,
        /// Its place.
        index: u16,
        /// Places.
        count: u16,
        /// The exclusive or of the numbers.
        checksum: u32 = Block::sum,
        /// Its bytes.
        payload: Payload,
    }
    where Block::has_place
}

fn is_small(seq: &u32) -> Result<(), DecodeError> {
    match *seq {
        0..0x8000_0000 => Ok(()),
        value => Err(DecodeError::OutOfRange { field: "seq", value: value.into() }),
    }
}

impl Block {
    fn sum(&self) -> u32 {
        self.seq ^ u32::from(self.index) ^ u32::from(self.count)
    }

    fn has_place(&self) -> Result<(), DecodeError> {
        match self.index < self.count {
            true => Ok(()),
            false => Err(DecodeError::OutOfRange { field: "index", value: self.index.into() }),
        }
    }
}

fields! {
    /// Why not.
    #[derive(Clone, Debug, PartialEq)]
    enum Refusal as "refusal" {
        /// No room.
        0 => Full,
        /// Another is in its place.
        7 => Taken {
            /// Which.
            by: Member,
        },
    }
}

/// A number's complement goes with it.
impl Summed for u32 {
    fn checksum(&self) -> u32 {
        !self
    }
}

fields! {
    /// Up to three bytes, or not even a value.
    #[derive(Clone, Debug, PartialEq)]
    struct Value {
        bytes: Option<Payload> as Length<3> where is_short,
    }
}

/// Draws what has its length, in place of longer ones.
fn is_short(bytes: &Option<Payload>) -> Result<(), DecodeError> {
    match bytes.as_ref().map_or(0, Payload::len) {
        0..=3 => Ok(()),
        value => Err(DecodeError::OutOfRange { field: "bytes", value: value as u64 }),
    }
}

impl Valued for Value {
    fn value(&self) -> Option<&Payload> {
        self.bytes.as_ref()
    }

    fn value_mut(&mut self) -> Option<&mut Payload> {
        self.bytes.as_mut()
    }
}

messages! {
    /// What is sent.
    #[derive(Clone, Debug, PartialEq)]
    enum Note {
        /// Nothing.
        1 => Nothing ["nothing"],
        /// A block.
        2 => Block(block: Block) ["block {}", block.seq],
        /// Members.
        3 => Members {
            /// The view.
            view: ViewId,
            /// It is the last.
            is_last: bool,
            /// Their handles and addresses.
            members: Vec<(NodeId, Bytes)> as Places,
        } ["members of {view}: {}", members.len()],
        /// No.
        4 => Refused {
            /// Why.
            refusal: Option<Refusal>,
        } ["refused {refusal:?}"],
        /// Of another protocol.
        5 => Other(bytes: Bytes as ToEnd) ["{} B", bytes.len()],
        /// A value whose length stands before another field, and values of a list.
        7 => Late {
            /// The values.
            values: Vec<Value> as List<3>,
            /// Where to.
            to: Bytes as Address<4, 2>;
            .. values
        } ["{} values to {to:?}", values.len()],
        /// A small number.
        8 => Small(seq: u32 where is_small) ["small {seq}"],
        /// Numbers with their checksums.
        6 => Sums {
            /// Behind its checksum.
            first: u32 as ChecksumBefore,
            /// Before its checksum.
            last: u32 as ChecksumBehind,
        } ["sums of {first} and {last}"],
    }
}

/// One to three members, each with an address.
type Places = List<3, 1, (NodeId, Address<4>)>;

fn any_note() -> impl proptest::strategy::Strategy<Value = Note> {
    use proptest::strategy::Strategy;
    // What goes on to the end of the message cannot be cut short.
    let has_end = |note: &Note| !matches!(note, Note::Block(_) | Note::Other(_));
    any_of::<Note>().prop_filter("has an end", has_end)
}

laws!(Note, any_note(), 0u8..10);

fn members() -> Note {
    let address = Bytes::from_static(b"ab");
    Note::Members { view: ViewId(2), is_last: true, members: vec![(NodeId(3), address)] }
}

fn late(values: [Option<&'static str>; 3]) -> Note {
    let values = values.map(|bytes| Value { bytes: bytes.map(Payload::from) });
    Note::Late { values: values.into(), to: Bytes::from_static(b"xy") }
}

#[test]
fn fields_follow_their_tag_in_the_order_of_the_declaration() {
    let block = Block { seq: 1, index: 2, count: 3, checksum: 0, payload: Payload::from("xy") };
    let taken = Refusal::Taken { by: Member { node: NodeId(5), incarnation: 6 } };
    let golden = [
        (Note::Nothing, "01"),
        (Note::Block(block), "02 00000001 0002 0003 00000000 7879"),
        (members(), "03 0000000000000002 01 0001 0000000000000003 02 6162"),
        (Note::Refused { refusal: None }, "04 00"),
        (Note::Refused { refusal: Some(Refusal::Full) }, "04 01 00"),
        (Note::Refused { refusal: Some(taken) }, "04 01 07 0000000000000005 0000000000000006"),
        (Note::Other(Bytes::from_static(&[8, 9])), "05 0809"),
        (late([Some("ab"), None, Some("c")]), "07 0003 00000002 ffffffff 00000001 02 7879 6162 63"),
        (late([None, Some("ab"), Some("")]), "07 0003 ffffffff 00000002 00000000 02 7879 6162"),
        (Note::Small(9), "08 00000009"),
        (Note::Sums { first: 1, last: 2 }, "06 fffffffe 00000001 00000002 fffffffd"),
    ];
    for (note, bytes) in golden {
        assert_eq!(hex(&note), bytes.replace(' ', ""), "{note}");
        assert_eq!(note.wire_len(), encode_to_bytes(&note).len(), "{note}");
    }
}

#[test]
fn each_bad_field_has_its_error() {
    let out_of_range = |field, value| DecodeError::OutOfRange { field, value };
    let note = |bytes: &[u8]| decode::<Note>(bytes).unwrap_err();
    assert_eq!(note(&[]), DecodeError::Truncated { need: 1, have: 0 });
    assert_eq!(note(&[0]), DecodeError::UnknownTag(0));
    assert_eq!(note(&[1, 0]), DecodeError::Trailing(1));
    assert_eq!(note(&[4, 2]), out_of_range("refusal", 2));
    assert_eq!(note(&[4, 1, 1]), out_of_range("refusal", 1));
    let block = |bytes: &[u8]| note(&[&[2][..], bytes].concat());
    // A field is checked before the next one is read, all of them before the checksum.
    assert_eq!(block(&[0x80, 0, 0, 0]), out_of_range("seq", 0x8000_0000));
    assert_eq!(block(&[0, 0, 0, 1, 0, 3, 0, 3, 9, 9, 9, 9]), out_of_range("index", 3));
    assert_eq!(block(&[0, 0, 0, 1, 0, 2, 0, 3, 0, 0, 0, 1]), DecodeError::Checksum);
    let members = |bytes: &[u8]| note(&[&[3, 0, 0, 0, 0, 0, 0, 0, 2][..], bytes].concat());
    assert_eq!(members(&[2]), out_of_range("last", 2));
    assert_eq!(members(&[1, 0, 0]), out_of_range("count", 0));
    assert_eq!(members(&[1, 0, 4]), out_of_range("count", 4));
    assert_eq!(members(&[1, 0, 2, 0, 0]), DecodeError::Truncated { need: 18, have: 2 });
    assert_eq!(members(&[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 5]), out_of_range("members", 5));
    assert_eq!(note(&[7, 0, 1, 0, 0, 0, 4]), out_of_range("bytes", 4));
    assert_eq!(note(&[7, 0, 0, 1]), out_of_range("to", 1));
    let values = [7, 0, 1, 0, 0, 0, 3, 2, 8, 9, 1, 2];
    assert_eq!(note(&values), DecodeError::Truncated { need: 3, have: 2 });
    assert_eq!(note(&[8, 0x80, 0, 0, 0]), out_of_range("seq", 0x8000_0000));
    let first = [6, 255, 255, 255, 254, 0, 0, 0];
    assert_eq!(note(&[&first[..], &[2]].concat()), DecodeError::Checksum);
    let last = [&first[..], &[1, 0, 0, 0, 2, 255, 255, 255]].concat();
    assert_eq!(note(&last), DecodeError::Truncated { need: 4, have: 3 });
    assert_eq!(note(&[&last[..], &[0]].concat()), DecodeError::Checksum);
}

#[test]
fn a_flag_is_called_by_what_it_says() {
    assert_eq!(error_name("is_last"), "last");
    assert_eq!(error_name("island"), "island");
}

#[test]
fn a_line_of_a_trace_has_the_fields_in_scope() {
    assert_eq!(members().to_string(), "members of v2: 1");
    assert_eq!(Note::Nothing.to_string(), "nothing");
    assert_eq!(Note::Refused { refusal: None }.to_string(), "refused None");
}

const TABLE: &str = "
| tag | message | fields | bytes |
|---|---|---|---|
| 1 | `Nothing` | | 1 |
| 2 | `Block` | the block above | 13 and more |
| 3 | `Members` | view 8, last 1, count 2, \
    members (members 8, members length 1, members) each | 21 |
| 7 | `Late` | count 2, bytes length 4 each, to length 1, to, values of values | 6 |
| 6 | `Sums` | checksum 4, first 4, last 4, checksum 4 | 17 |
";

#[test]
fn a_table_of_the_documentation_is_read_and_compared() {
    assert_eq!(documented(&Note::rows(), TABLE), [1, 2, 3, 7, 6]);
}

#[test]
#[should_panic = "last 1"]
fn a_table_that_leaves_out_a_field_is_noticed() {
    documented(&Note::rows(), &TABLE.replace("last 1, ", ""));
}

#[test]
fn the_least_length_is_that_of_the_shortest_variant() {
    assert_eq!(Refusal::BYTES_MIN, 1);
    assert_eq!(<Option<Refusal>>::BYTES_MIN, 1);
    assert_eq!(Block::BYTES_MIN, 12);
    assert_eq!(<(u8, ViewId)>::BYTES_MIN, 9);
}
