//! The parts of a group, without a network.

mod codec;
mod gather;
mod requests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::propose::{Promise, cuts};
use super::{
    Ballot, Command, Config, Contact, Correlated, Correlation, CorrelationId, Cut, Direct, Event,
    Expect, Founding, FoundingBallot, Gather, Group, Message, Proposal, Received, Refusal, Role,
    Timer,
};
use crate::chain::{self, Frame, Topology};
use crate::core::{
    Backlog, Context, DecodeError, Instant, Member, MembershipCommand, NodeId, Outbox, Outgoing,
    Payload, Protocol, Rng, View, ViewId, Wire, decode_exact, encode_to_bytes,
};
use crate::detector;

fn contact(node: u32, address: &'static str) -> Contact {
    Contact {
        member: Member { node: NodeId::from(node), incarnation: u64::from(node) << 40 },
        host: u64::from(node) << 30,
        token: u64::from(node) << 20,
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

fn direct() -> Direct {
    let block = Direct {
        view: ViewId(5),
        sender: 0x0102_0304_0506_0708,
        receiver: 0x1112_1314_1516_1718,
        number: 300,
        index: 1,
        count: 3,
        checksum: 0,
        payload: Payload::Bytes(Bytes::from_static(b"block")),
    };
    Direct { checksum: block.computed_checksum(), ..block }
}

fn correlated(correlation: Correlation) -> Correlated {
    let head = CorrelationId { correlation, id: 0x2122_2324_2526_2728 };
    Correlated::new(head, direct())
}

fn ballot(round: u32, proposer: u32) -> Ballot {
    Ballot { round, proposer: NodeId::from(proposer) }
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
        lengths: chain::Lengths::default(),
        payload: Payload::Bytes(Bytes::from_static(b"block")),
    };
    let frame = Frame { checksum: frame.computed_checksum(), ..frame };
    let ballot = ballot(3, 7);
    let received = vec![Received { origin: 1, incarnation: 8, first: 2, end: 9 }];
    let digest = 0x0102_0304_0506_0708;
    let accepted = Some((ballot, proposal()));
    let founding = FoundingBallot { round: 9, proposer: contact(7, "").member };
    let first = Arc::new(Founding {
        made_at: super::Ballot { round: 9, proposer: NodeId(7) },
        members: vec![contact(7, "c:1"), contact(1, "")],
    });
    vec![
        (
            Message::Chain(chain::Message::LinkAck { view, next: 1 }),
            &[0, 3, 0, 0, 0, 0, 0, 0, 0, 5],
        ),
        (Message::Detector(Bytes::from_static(b"swim")), &[1, b's']),
        (Message::Join(contact(2, "a:1")), &[2, 0, 0, 0, 0, 0, 0, 0, 2]),
        (Message::Refused { token: 7, refusal: Refusal::IdInUse }, &[3, 0, 0, 0, 0, 0, 0, 0, 7, 0]),
        (Message::Refused { token: 7, refusal: Refusal::Full }, &[3, 0, 0, 0, 0, 0, 0, 0, 7, 1]),
        (
            Message::Refused { token: 7, refusal: Refusal::LinkDead { peer: NodeId(9) } },
            &[3, 0, 0, 0, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 0, 0, 0, 9],
        ),
        (Message::Leave { view, incarnation: 9 }, &[4, 0, 0, 0, 0, 0, 0, 0, 5]),
        (
            Message::Prepare { view, digest, ballot },
            &[
                5, 0, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
                7,
            ],
        ),
        (Message::Promise { view, digest, ballot, accepted, received: received.clone() }, &[6]),
        (Message::Promise { view, digest, ballot, accepted: None, received }, &[6]),
        (Message::Accept { view, ballot, proposal: proposal() }, &[7]),
        (Message::Accepted { view, ballot }, &[8]),
        (Message::Rejected { view, promised: ballot }, &[9]),
        (Message::Install { after: view, made_at: ballot, members: vec![contact(1, "")] }, &[10]),
        (Message::Installed { view }, &[11]),
        (Message::Present { view }, &[21, 0, 0, 0, 0, 0, 0, 0, 5]),
        (Message::Fetch { view, origin: 1, from: 2, to: 3 }, &[12]),
        (Message::Flushed(frame), &[13]),
        (Message::Excluded { view }, &[14]),
        (Message::Direct(direct()), &[15, 0, 0, 0, 0, 0, 0, 0, 5]),
        (Message::DirectAck { sender: 1, receiver: 2, received: 9, consumed: 8 }, &[16]),
        (Message::DirectProbe { sender: 1, receiver: 2 }, &[17]),
        (Message::Challenge { token: 1, nonce: 2 }, &[18, 0, 0, 0, 0, 0, 0, 0, 1]),
        (Message::Response { nonce: 2 }, &[19, 0, 0, 0, 0, 0, 0, 0, 2]),
        (
            Message::Unreachable { view, members: vec![2, 0x0103] },
            &[20, 0, 0, 0, 0, 0, 0, 0, 5, 0, 2, 0, 0, 0, 2, 0, 0, 1, 3],
        ),
        (Message::Unreachable { view, members: Vec::new() }, &[20, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0]),
        (
            Message::Gather {
                contact: contact(2, "a:1"),
                expect: 3,
                seen: vec![contact(4, "b:1")],
            },
            &[22, 0, 0, 0, 0, 0, 0, 0, 2],
        ),
        (Message::GatherPrepare { ballot: founding, expect: 3 }, &[23, 0, 0, 0, 9]),
        (
            Message::GatherPromise { ballot: founding, contact: contact(1, ""), accepted: None },
            &[24, 0, 0, 0, 9],
        ),
        (
            Message::GatherPromise {
                ballot: founding,
                contact: contact(1, ""),
                accepted: Some((founding, first.clone())),
            },
            &[24, 0, 0, 0, 9],
        ),
        (Message::GatherAccept { ballot: founding, expect: 3, founding: first }, &[25, 0, 0, 0, 9]),
        (Message::GatherAccepted { ballot: founding }, &[26, 0, 0, 0, 9]),
        (Message::GatherRejected { ballot: founding, promised: founding }, &[27, 0, 0, 0, 9]),
        (Message::Correlated(correlated(Correlation::Request)), &[28, 0, 0x21]),
        (Message::Correlated(correlated(Correlation::Reply)), &[28, 1, 0x21]),
        (Message::Correlated(correlated(Correlation::Refusal)), &[28, 2, 0x21]),
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
        let ends_in_payload =
            matches!(message, Message::Flushed(_) | Message::Direct(_) | Message::Correlated(_));
        if ends_in_payload || matches!(message, Message::Detector(_)) {
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
    let install = [10, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7];
    for (count, expected) in [
        ([0xff, 0xff], DecodeError::OutOfRange { field: "count", value: 0xffff }),
        ([4, 0], DecodeError::Truncated { need: 1024 * 33, have: 0 }),
    ] {
        let bytes = Bytes::from([&install[..], &count].concat());
        assert_eq!(decode_exact::<Message>(bytes), Err(expected));
    }
    assert_eq!(
        decode_exact::<Message>(Bytes::from_static(&[29])),
        Err(DecodeError::UnknownTag(29))
    );
    let unreachable = Bytes::from_static(&[20, 0, 0, 0, 0, 0, 0, 0, 5, 4, 0]);
    assert_eq!(
        decode_exact::<Message>(unreachable),
        Err(DecodeError::Truncated { need: 4096, have: 0 })
    );
}

#[test]
fn a_list_that_names_a_member_twice_is_refused() {
    let twice = vec![contact(7, "a"), contact(8, "b"), contact(7, "c")];
    let install = Message::Install { after: ViewId(3), made_at: ballot(1, 7), members: twice };
    let refused = decode_exact::<Message>(encode_to_bytes(&install));
    assert_eq!(refused, Err(DecodeError::OutOfRange { field: "members", value: 7 }));
}

#[test]
fn a_block_to_one_member_is_encoded_as_it_always_was() {
    let hex = |message: &Message| -> String {
        encode_to_bytes(message).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let expected = [
        "0f 0000000000000005 0102030405060708 1112131415161718 000000000000012c 0001 0003",
        "02faceef 626c6f636b",
    ];
    assert_eq!(hex(&Message::Direct(direct())), expected.concat().replace(' ', ""));
    let ack = Message::DirectAck { sender: 1, receiver: 2, received: 3, consumed: 0x0400 };
    let expected = "10 0000000000000001 0000000000000002 0000000000000003 0000000000000400";
    assert_eq!(hex(&ack), expected.replace(' ', ""));
    let probe = Message::DirectProbe { sender: 1, receiver: 2 };
    assert_eq!(hex(&probe), "11 0000000000000001 0000000000000002".replace(' ', ""));
}

#[test]
fn a_damaged_block_to_one_member_is_refused() {
    let whole = encode_to_bytes(&Message::Direct(direct()));
    for (place, expected) in [
        (8, DecodeError::Checksum),
        (whole.len() - 1, DecodeError::Checksum),
        (34, DecodeError::OutOfRange { field: "index", value: 1 ^ 0x40 }),
        (25, DecodeError::OutOfRange { field: "number", value: 300 | 0x80 << 56 }),
    ] {
        let mut bytes = whole.to_vec();
        bytes[place] ^= if place == 25 { 0x80 } else { 0x40 };
        assert_eq!(decode_exact::<Message>(Bytes::from(bytes)), Err(expected), "byte {place}");
    }
    for length in 0..whole.len() {
        assert!(decode_exact::<Message>(whole.slice(..length)).is_err(), "cut to {length}");
    }
    let longer = Bytes::from([&whole[..], &[0]].concat());
    assert_eq!(decode_exact::<Message>(longer), Err(DecodeError::Checksum));
}

#[test]
fn a_window_of_nothing_is_refused_by_its_name() {
    let config = Config::new(chain::Config::for_groups(), detector::Config::new());
    let refused = config.with_direct_window_bytes(0).build().unwrap_err();
    assert_eq!(refused.to_string(), "direct_window_bytes is 0, expected at least 1");
}

#[test]
fn a_time_after_which_links_are_dead_is_kept_within_its_range() {
    let build = |seconds| {
        let config = Config::new(chain::Config::for_groups(), detector::Config::new());
        config.with_link_dead_after(Duration::from_secs(seconds)).build().map(drop)
    };
    assert_eq!((build(1), build(3600)), (Ok(()), Ok(())));
    for (seconds, said) in [(0, "0s"), (3601, "3601s")] {
        let refused = build(seconds).unwrap_err().to_string();
        assert_eq!(refused, format!("link_dead_after is {said}, expected 1s to 1h"));
    }
}

#[test]
fn a_proposal_that_no_member_can_have_made_is_not_sound() {
    let config = Config::new(chain::Config::for_groups(), detector::Config::default());
    let mut group = Group::new(&config.build().unwrap());
    let contacts: Vec<Contact> = (0..4).map(|node| contact(node, "")).collect();
    group.view = Arc::new(View::new(ViewId(3), contacts.iter().map(|contact| contact.member)));
    group.contacts = contacts.clone();
    let at = ballot(2, 1);
    let next = [&contacts[..3], &[contact(9, "")]].concat();
    let good =
        Proposal { made_at: at, is_adopted: false, kept: vec![0, 1, 2], next, cuts: Vec::new() };
    assert!(group.is_sound(at, &good));
    assert!(group.is_sound(ballot(3, 0), &Proposal { is_adopted: true, ..good.clone() }));
    let cut = Cut { origin: 4, incarnation: 0, end: 1, holder: 0 };
    let two_join = [good.next.clone(), vec![contact(8, "")]].concat();
    let bad = [
        Proposal { made_at: ballot(1, 1), ..good.clone() },
        Proposal { made_at: ballot(4, 1), is_adopted: true, ..good.clone() },
        Proposal { kept: vec![1, 2], ..good.clone() },
        Proposal { kept: vec![0, 0, 1], ..good.clone() },
        Proposal { kept: vec![0, 1, 4], ..good.clone() },
        // A majority of the next view would be nodes that joined.
        Proposal { next: two_join, ..good.clone() },
        Proposal { cuts: vec![cut], ..good.clone() },
    ];
    for proposal in bad {
        assert!(!group.is_sound(at, &proposal), "{proposal:?}");
    }
}

struct NoBacklog;

impl Backlog for NoBacklog {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

/// Calls with a member of view 3, which nodes 0, 1 and 2 are in.
fn with_member(call: impl FnOnce(&mut Group, &mut Context<'_, Group>, &[Contact])) {
    let config = Config::new(chain::Config::for_groups(), detector::Config::default());
    let config = config.build().unwrap();
    let mut group = Group::new(&config);
    let mut cx = Context {
        now: Instant::ZERO,
        node: NodeId(0),
        incarnation: 5,
        host: None,
        shared: &config,
        rng: &mut Rng::new(1, 1),
        outbox: &mut Outbox::default(),
        backlog: &NoBacklog,
        datagram_bytes_max: 1_200,
    };
    group.handle_command(&mut cx, MembershipCommand::Bootstrap { address: Bytes::new() }.into());
    let contacts = [group.me.clone(), contact(1, ""), contact(2, "")];
    group.view = Arc::new(View::new(ViewId(3), contacts.iter().map(|contact| contact.member)));
    group.contacts = contacts.to_vec();
    call(&mut group, &mut cx, &contacts);
}

/// The member accepts that this view is next.
fn accept(group: &mut Group, made_at: Ballot, next: Vec<Contact>) {
    let (kept, cuts) = (vec![0, 1], Vec::new());
    let proposal = Proposal { made_at, is_adopted: false, kept, next, cuts };
    group.acceptor.accepted = Some((made_at, Arc::new(proposal)));
}

#[test]
fn a_view_is_installed_as_it_was_accepted_whatever_the_message_names() {
    with_member(|group, cx, contacts| {
        let (made_at, next) = (ballot(1, 1), contacts[..2].to_vec());
        accept(group, made_at, next.clone());
        let members = [next.clone(), vec![contact(9, "")]].concat();
        let install = Message::Install { after: ViewId(3), made_at, members };
        group.handle_message(cx, NodeId(1), install);
        assert_eq!(group.view().id(), ViewId(4));
        assert_eq!(group.contacts, next);
    });
}

#[test]
fn a_node_that_left_and_is_back_in_the_next_view_does_not_leave_it() {
    for is_back in [true, false] {
        with_member(|group, cx, contacts| {
            let incarnation = contacts[2].member.incarnation;
            let leave = Message::Leave { view: ViewId(3), incarnation };
            group.handle_message(cx, NodeId(2), leave);
            assert_eq!(group.leavers, BTreeSet::from([NodeId(2)]));
            let mut next = contacts.to_vec();
            // It leaves still if a proposal was accepted that does not know of it.
            next[2].member.incarnation += u64::from(is_back);
            let made_at = ballot(1, 1);
            accept(group, made_at, next.clone());
            let install = Message::Install { after: ViewId(3), made_at, members: next };
            group.handle_message(cx, NodeId(1), install);
            assert_eq!(group.view().id(), ViewId(4));
            assert_eq!(group.leavers.len(), usize::from(!is_back));
        });
    }
}

#[test]
fn a_member_that_takes_it_that_the_view_goes_on_is_told_that_it_ends() {
    let view = ViewId(3);
    for is_report in [true, false] {
        with_member(|group, cx, contacts| {
            let incarnation = contacts[2].member.incarnation;
            let probe = Message::Chain(chain::Message::Probe { view, incarnation });
            let report = Message::Unreachable { view, members: vec![1] };
            let question = if is_report { report } else { probe };
            let asks = |group: &mut Group, cx: &mut Context<'_, Group>| {
                cx.outbox.sends.clear();
                group.handle_message(cx, NodeId(2), question.clone());
                let told = |send: &Outgoing<Message>| match &send.message {
                    Message::Rejected { promised, .. } if send.to == NodeId(2) => Some(*promised),
                    _ => None,
                };
                cx.outbox.sends.iter().find_map(told)
            };
            assert_eq!(asks(group, cx), None, "the view goes on");
            let (digest, ballot_of_1) = (group.view().digest(), ballot(4, 1));
            let prepare = Message::Prepare { view, digest, ballot: ballot_of_1 };
            group.handle_message(cx, NodeId(1), prepare);
            assert_eq!(asks(group, cx), Some(ballot(4, 1)), "{question}");
        });
    }
}

#[test]
fn a_view_ends_where_a_member_says_that_it_does_unless_nobody_can_have_proposed_that() {
    let far = (1 << 16) + 1;
    for (from, view, promised, ends) in [
        (2, 3, ballot(4, 1), true),
        (2, 2, ballot(4, 1), false),
        (2, 4, ballot(4, 1), false),
        (9, 3, ballot(4, 1), false),
        (2, 3, ballot(4, 9), false),
        (2, 3, ballot(far, 1), false),
    ] {
        with_member(|group, cx, _| {
            let message = Message::Rejected { view: ViewId(view), promised };
            group.handle_message(cx, NodeId(from), message);
            assert_eq!(group.acceptor.promised, ends.then_some(promised), "{from} {view}");
        });
    }
}

#[test]
fn a_member_of_another_view_with_the_same_number_takes_no_part() {
    with_member(|group, cx, _| {
        let (view, digest) = (ViewId(3), group.view().digest());
        cx.outbox.sends.clear();
        let prepare = Message::Prepare { view, digest: digest ^ 1, ballot: ballot(4, 1) };
        group.handle_message(cx, NodeId(1), prepare);
        let learns = |send: &Outgoing<Message>| {
            let is_ours =
                matches!(&send.message, Message::Promise { digest: it, .. } if *it == digest);
            is_ours && send.to == NodeId(1)
        };
        assert!(cx.outbox.sends.iter().any(learns), "it learns of the other view");
        assert!(!group.is_alive(NodeId(1)));
        let attempted = group.acceptor.attempted.expect("it goes on without that one");
        assert_eq!(group.acceptor.promised, Some(attempted));
        let (accepted, received) = (None, Vec::new());
        let (digest, ballot) = (digest ^ 2, attempted);
        let promise = Message::Promise { view, digest, ballot, accepted, received };
        assert!(group.is_alive(NodeId(2)));
        group.handle_message(cx, NodeId(2), promise);
        assert!(!group.is_alive(NodeId(2)) && !group.has_primary());
        assert_eq!(cx.outbox.counters.count("group_other_view"), 2);
    });
}

#[test]
fn one_member_that_is_believed_down_by_none_cannot_say_that_the_group_went_on() {
    for is_denied in [true, false] {
        with_member(|group, cx, _| {
            // The detector was lied to.
            group.expelled.insert(NodeId(2));
            group.handle_message(cx, NodeId(1), Message::Excluded { view: ViewId(9) });
            assert_eq!(group.role(), Role::Member, "it asks first");
            for _ in 0..30 {
                cx.now += Duration::from_millis(100);
                if is_denied {
                    let present = Message::Present { view: ViewId(3) };
                    group.handle_message(cx, NodeId(2), present);
                    group.handle_message(cx, NodeId(1), Message::Excluded { view: ViewId(9) });
                }
                group.handle_timer(cx, Timer::Group);
            }
            let is_in = group.role() == Role::Member;
            assert_eq!(is_in, is_denied, "whether another member is in the view");
        });
    }
    with_member(|group, cx, _| {
        for node in [1, 2] {
            group.handle_message(cx, NodeId(node), Message::Excluded { view: ViewId(9) });
        }
        assert_eq!(group.role(), Role::Joining, "a quorum is believed at once");
    });
}

#[test]
fn a_view_that_one_member_made_up_is_left_once_the_others_are_heard() {
    with_member(|group, cx, _| {
        group.view = Arc::new(View::new(ViewId(1 << 40), group.view.members().iter().copied()));
        for node in [1, 2] {
            group.handle_message(cx, NodeId(node), Message::Excluded { view: ViewId(7) });
        }
        assert_eq!(group.role(), Role::Member, "they may not have begun it yet");
        group.expelled.extend([1, 2].map(NodeId));
        group.handle_timer(cx, Timer::Group);
        assert!(!group.has_primary());
        for node in [1, 2] {
            assert_eq!(group.role(), Role::Member);
            group.handle_message(cx, NodeId(node), Message::Excluded { view: ViewId(7) });
        }
        assert_eq!(group.role(), Role::Joining);
    });
}

#[test]
fn a_view_ends_where_its_members_can_bring_each_other() {
    let row = |first, end| Received { origin: 1, incarnation: 8, first, end };
    let cut = |rows: &[Option<Received>]| {
        let promise = |row: &Option<Received>| {
            let received = row.iter().copied().collect();
            Promise { accepted: None, received }
        };
        let cuts = cuts(&(0..).zip(rows.iter().map(promise)).collect());
        cuts.first().map(|cut| (cut.end, cut.holder))
    };
    assert_eq!(cut(&[None, None]), None);
    assert_eq!(cut(&[Some(row(0, 0)), None]), Some((0, 0)));
    assert_eq!(cut(&[Some(row(2, 5)), Some(row(3, 9)), Some(row(3, 3))]), Some((9, 1)));
    // What each gives is enough for the next one.
    assert_eq!(cut(&[Some(row(0, 4)), Some(row(3, 6)), Some(row(5, 8))]), Some((8, 2)));
    // The origin falsely called the first blocks stable.
    assert_eq!(cut(&[Some(row(1, 1)), None, None]), None);
    assert_eq!(cut(&[Some(row(6, 8)), Some(row(2, 4)), Some(row(1, 2))]), Some((4, 1)));
}
