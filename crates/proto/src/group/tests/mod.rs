//! The parts of a group, without a network.

use std::sync::Arc;

use bytes::Bytes;

use super::{Ballot, Contact, Cut, Message, Proposal, Received, Refusal};
use crate::chain::{self, Frame, Topology};
use crate::core::{
    DecodeError, Member, NodeId, Payload, ViewId, Wire, decode_exact, encode_to_bytes,
};

fn contact(node: u32, address: &'static str) -> Contact {
    Contact {
        member: Member { node: NodeId(node), incarnation: u64::from(node) << 40 },
        address: Bytes::from_static(address.as_bytes()),
    }
}

fn proposal() -> Arc<Proposal> {
    Arc::new(Proposal {
        made_at: ballot(3, 7),
        is_adopted: true,
        kept: vec![0, 2],
        next: vec![contact(7, "10.0.0.7:7946"), contact(9, "")],
        cuts: vec![Cut { origin: 2, incarnation: 77, end: 1 << 33, holder: 0 }],
    })
}

fn ballot(round: u32, proposer: u32) -> Ballot {
    Ballot { round, proposer: NodeId(proposer) }
}

/// One message of each kind, and its first bytes.
fn messages() -> Vec<(Message, &'static [u8])> {
    let view = ViewId(5);
    let frame = Frame {
        view,
        origin: 1,
        incarnation: 4,
        seq: 6,
        index: 0,
        count: 1,
        topology: Topology::Chain,
        checksum: 0,
        stable_lag: 0,
        link: 0,
        hops_left: 1,
        payload: Payload::Bytes(Bytes::from_static(b"block")),
    };
    let frame = Frame { checksum: frame.computed_checksum(), ..frame };
    let ballot = ballot(3, 7);
    let received = vec![Received { origin: 1, incarnation: 8, end: 9 }];
    let accepted = Some((ballot, proposal()));
    vec![
        (
            Message::Chain(chain::Message::LinkAck { view, next: 1 }),
            &[0, 3, 0, 0, 0, 0, 0, 0, 0, 5],
        ),
        (Message::Detector(Bytes::from_static(b"swim")), &[1, b's']),
        (Message::Join(contact(2, "a:1")), &[2, 0, 0, 0, 2]),
        (Message::Refused { refusal: Refusal::IdInUse }, &[3, 0]),
        (Message::Refused { refusal: Refusal::Full }, &[3, 1]),
        (Message::Leave { view, incarnation: 9 }, &[4, 0, 0, 0, 0, 0, 0, 0, 5]),
        (Message::Prepare { view, ballot }, &[5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 7]),
        (Message::Promise { view, ballot, accepted, received: received.clone() }, &[6]),
        (Message::Promise { view, ballot, accepted: None, received }, &[6]),
        (Message::Accept { view, ballot, proposal: proposal() }, &[7]),
        (Message::Accepted { view, ballot }, &[8]),
        (Message::Rejected { view, promised: ballot }, &[9]),
        (Message::Install { after: view, made_at: ballot, members: vec![contact(1, "")] }, &[10]),
        (Message::Installed { view }, &[11]),
        (Message::Fetch { view, origin: 1, from: 2, to: 3 }, &[12]),
        (Message::Flushed(frame), &[13]),
        (Message::Excluded { view }, &[14]),
    ]
}

#[test]
fn every_message_survives_its_encoding_which_is_as_long_as_it_says() {
    for (message, start) in messages() {
        let bytes = encode_to_bytes(&message);
        assert_eq!(bytes.len(), message.wire_len(), "{message}");
        assert!(bytes.starts_with(start), "{message}: {bytes:?}");
        assert_eq!(decode_exact::<Message>(bytes).as_ref(), Ok(&message), "{message}");
    }
}

#[test]
fn a_message_that_was_cut_short_or_goes_on_is_refused() {
    for (message, _) in messages() {
        let bytes = encode_to_bytes(&message);
        // These take whatever follows; the broadcast's checksum sees to its own.
        if matches!(message, Message::Detector(_) | Message::Flushed(_)) {
            continue;
        }
        for length in 0..bytes.len() {
            let cut = decode_exact::<Message>(bytes.slice(..length));
            assert!(cut.is_err(), "{message} cut to {length}");
        }
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        assert_eq!(decode_exact::<Message>(longer), Err(DecodeError::Trailing(1)), "{message}");
    }
}

#[test]
fn counts_that_promise_more_than_there_is_cost_no_memory() {
    let install = [10, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 7];
    for (count, expected) in [
        ([0xff, 0xff], DecodeError::OutOfRange { field: "count", value: 0xffff }),
        ([4, 0], DecodeError::Truncated { need: 1024 * 13, have: 0 }),
    ] {
        let bytes = Bytes::from([&install[..], &count].concat());
        assert_eq!(decode_exact::<Message>(bytes), Err(expected));
    }
    assert_eq!(
        decode_exact::<Message>(Bytes::from_static(&[15])),
        Err(DecodeError::UnknownTag(15))
    );
}
