use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use paceline_proto::chain;
use paceline_proto::core::{Lane, Member, Payload};
use paceline_proto::group::{
    Ballot, Contact, Correlated, Correlation, CorrelationId, Cut, Direct, Founding, FoundingBallot,
    Message, Proposal, Received, Refusal,
};

use super::{Draw, Source};

fn contact(source: &mut Source<'_>) -> Contact {
    Contact { member: source.member(), host: 0, token: source.word(), address: Bytes::new() }
}

fn contacts(source: &mut Source<'_>) -> Vec<Contact> {
    let mut contacts: Vec<Contact> = match source.flag() {
        // All that there are, and perhaps others.
        true => {
            let contact = |&member| Contact { member, host: 0, token: 0, address: Bytes::new() };
            source.known.members.iter().map(contact).collect()
        }
        false => Vec::new(),
    };
    contacts.extend(source.some(3, contact));
    // Decoders refuse a node that is named twice.
    contacts.sort_by_key(|contact| contact.member.node);
    contacts.dedup_by_key(|contact| contact.member.node);
    contacts
}

fn ballot(source: &mut Source<'_>) -> Ballot {
    let round = match source.rng.below(3) {
        0 => u32::MAX - source.rng.below(2),
        1 => source.rng.below(8),
        _ => source.rng.next_u32(),
    };
    let proposer = if source.flag() { source.me.node } else { source.member().node };
    Ballot { round, proposer }
}

fn proposal(source: &mut Source<'_>) -> Arc<Proposal> {
    let cut = |source: &mut Source<'_>| Cut {
        origin: source.rank(),
        // Only a member gets as far as that.
        incarnation: match source.is_member {
            true => source.member().incarnation,
            false => source.word(),
        },
        end: source.word(),
        holder: source.rank(),
    };
    Arc::new(Proposal {
        made_at: ballot(source),
        is_adopted: source.flag(),
        kept: source.some(3, Source::rank),
        next: contacts(source),
        cuts: source.some(3, cut),
    })
}

fn founding_ballot(source: &mut Source<'_>) -> FoundingBallot {
    let ballot = ballot(source);
    let proposer = if source.flag() { source.me } else { source.member() };
    FoundingBallot { round: ballot.round, proposer }
}

fn founding(source: &mut Source<'_>) -> Arc<Founding> {
    Arc::new(Founding { made_at: ballot(source), members: contacts(source) })
}

fn direct(source: &mut Source<'_>) -> Direct {
    let count = 1 + source.rng.below(3) as u16;
    let block = Direct {
        view: source.view(),
        sender: source.word(),
        receiver: source.member().incarnation,
        number: u64::from(source.rng.next_u32()),
        index: source.rng.below(count.into()) as u16,
        count,
        checksum: 0,
        payload: Payload::Bytes(Bytes::from_static(b"a lie")),
    };
    Direct { checksum: block.computed_checksum(), ..block }
}

fn refusal(source: &mut Source<'_>) -> Refusal {
    match source.rng.below(3) {
        0 => Refusal::IdInUse,
        1 => Refusal::Full,
        _ => Refusal::LinkDead { peer: source.member().node },
    }
}

/// What a member tells of the health of others: a datagram of the failure detector. A stranger's
/// is read no further than its source.
fn gossip(source: &mut Source<'_>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    // The record names the ends of a datagram.
    let run = |source: &mut Source<'_>, member: Member, out: &mut BytesMut| {
        out.put_u64(member.incarnation);
        // Seven bits a byte, lowest first.
        match source.rng.below(4) {
            0 => out.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]),
            1 => out.put_u8(1 + source.rng.below(100) as u8),
            _ => out.put_u8(0),
        }
    };
    let identity = |source: &mut Source<'_>, member: Member, out: &mut BytesMut| {
        out.put_u64(member.node.0);
        run(source, member, out);
    };
    let refutations = |source: &mut Source<'_>| source.half() as u16;
    let (me, to) = (source.me, source.honest());
    run(source, me, &mut out);
    out.put_u16(refutations(source));
    run(source, to, &mut out);
    let message = source.one_of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 10]);
    out.put_u8(message);
    if message <= 5 {
        out.put_u8(source.half() as u8);
    }
    if (2..=5).contains(&message) {
        let third = source.member();
        identity(source, third, &mut out);
    }
    // None follow an announcement or a courtesy to the dead.
    if message != 6 && message != 10 {
        let claims = source.rng.below(6) as u16;
        out.put_u16(claims);
        for _ in 0..claims {
            let member = source.member();
            identity(source, member, &mut out);
            out.put_u16(refutations(source));
            out.put_u8(source.rng.below(3) as u8);
        }
    }
    out.freeze()
}

impl Draw for Message {
    fn draw(source: &mut Source<'_>) -> Message {
        let (view, ballot) = (source.view(), ballot(source));
        match source.rng.below(29) {
            0 => Message::Chain(chain::Message::draw(source)),
            1 if source.is_member => Message::Detector(gossip(source)),
            1 => Message::Detector(Bytes::from(source.rng.next_u64().to_be_bytes().to_vec())),
            2 => Message::Join(contact(source)),
            3 => Message::Refused { token: source.word(), refusal: refusal(source) },
            4 => Message::Leave { view, incarnation: source.member().incarnation },
            5 => Message::Prepare { view, digest: source.digest(), ballot },
            6 => {
                let accepted = source.flag().then(|| (self::ballot(source), proposal(source)));
                let row = |source: &mut Source<'_>| Received {
                    origin: source.rank(),
                    incarnation: source.word(),
                    first: source.word(),
                    end: source.word(),
                };
                let (digest, received) = (source.digest(), source.some(2, row));
                Message::Promise { view, digest, ballot, accepted, received }
            }
            7 => Message::Accept { view, ballot, proposal: proposal(source) },
            8 => Message::Accepted { view, ballot },
            9 => Message::Rejected { view, promised: ballot },
            10 => Message::Install { after: view, made_at: ballot, members: contacts(source) },
            11 => Message::Installed { view },
            12 => {
                let from = u64::from(source.rng.below(50));
                Message::Fetch { view, origin: source.rank(), from, to: source.word() }
            }
            13 => Message::Flushed(super::chain::frame(source)),
            14 => Message::Excluded { view },
            15 => Message::Direct(direct(source)),
            16 => Message::DirectAck {
                sender: source.member().incarnation,
                receiver: source.word(),
                received: source.word(),
                consumed: source.word(),
            },
            17 => Message::DirectProbe {
                sender: source.word(),
                receiver: source.member().incarnation,
            },
            18 => Message::Challenge { token: source.word(), nonce: source.word() },
            19 => Message::Response { nonce: source.word() },
            20 => Message::Present { view },
            21 => Message::Gather {
                contact: contact(source),
                expect: 2 + source.rng.below(4),
                seen: source.some(3, contact),
            },
            22 => Message::GatherPrepare {
                ballot: founding_ballot(source),
                expect: 2 + source.rng.below(4),
            },
            23 => Message::GatherPromise {
                ballot: founding_ballot(source),
                contact: contact(source),
                accepted: source.flag().then(|| (founding_ballot(source), founding(source))),
            },
            24 => Message::GatherAccept {
                ballot: founding_ballot(source),
                expect: 2 + source.rng.below(4),
                founding: founding(source),
            },
            25 => Message::GatherAccepted { ballot: founding_ballot(source) },
            26 => Message::GatherRejected {
                ballot: founding_ballot(source),
                promised: founding_ballot(source),
            },
            27 => {
                let kinds = [Correlation::Request, Correlation::Reply, Correlation::Refusal];
                let correlation = source.one_of(&kinds);
                let head = CorrelationId { correlation, id: source.word() };
                Message::Correlated(Correlated::new(head, direct(source)))
            }
            _ => Message::Unreachable { view, members: source.some(3, Source::rank) },
        }
    }

    fn draw_alike(&self, source: &mut Source<'_>) -> Option<Message> {
        if let Message::Chain(message) = self {
            return message.draw_alike(source).map(Message::Chain);
        }
        super::draw_alike(self, source)
    }

    fn kind(&self) -> &'static str {
        match self {
            Message::Chain(message) => message.kind(),
            Message::Detector(_) => "lie_group_detector",
            Message::Join(_) => "lie_group_join",
            Message::Refused { .. } => "lie_group_refused",
            Message::Leave { .. } => "lie_group_leave",
            Message::Prepare { .. } => "lie_group_prepare",
            Message::Promise { .. } => "lie_group_promise",
            Message::Accept { .. } => "lie_group_accept",
            Message::Accepted { .. } => "lie_group_accepted",
            Message::Rejected { .. } => "lie_group_rejected",
            Message::Install { .. } => "lie_group_install",
            Message::Installed { .. } => "lie_group_installed",
            Message::Fetch { .. } => "lie_group_fetch",
            Message::Flushed(_) => "lie_group_flushed",
            Message::Excluded { .. } => "lie_group_excluded",
            Message::Direct(_) => "lie_group_direct",
            Message::DirectAck { .. } => "lie_group_direct_ack",
            Message::DirectProbe { .. } => "lie_group_direct_probe",
            Message::Challenge { .. } => "lie_group_challenge",
            Message::Response { .. } => "lie_group_response",
            Message::Unreachable { .. } => "lie_group_unreachable",
            Message::Present { .. } => "lie_group_present",
            Message::Gather { .. } => "lie_group_gather",
            Message::GatherPrepare { .. } => "lie_group_gather_prepare",
            Message::GatherPromise { .. } => "lie_group_gather_promise",
            Message::GatherAccept { .. } => "lie_group_gather_accept",
            Message::GatherAccepted { .. } => "lie_group_gather_accepted",
            Message::GatherRejected { .. } => "lie_group_gather_rejected",
            Message::Correlated(_) => "lie_group_correlated",
        }
    }

    fn kinds() -> Vec<&'static str> {
        let mut kinds = chain::Message::kinds();
        kinds.extend([
            "lie_group_detector",
            "lie_group_join",
            "lie_group_refused",
            "lie_group_leave",
            "lie_group_prepare",
            "lie_group_promise",
            "lie_group_accept",
            "lie_group_accepted",
            "lie_group_rejected",
            "lie_group_install",
            "lie_group_installed",
            "lie_group_fetch",
            "lie_group_flushed",
            "lie_group_excluded",
            "lie_group_direct",
            "lie_group_direct_ack",
            "lie_group_direct_probe",
            "lie_group_challenge",
            "lie_group_response",
            "lie_group_unreachable",
            "lie_group_present",
            "lie_group_gather",
            "lie_group_gather_prepare",
            "lie_group_gather_promise",
            "lie_group_gather_accept",
            "lie_group_gather_accepted",
            "lie_group_gather_rejected",
            "lie_group_correlated",
        ]);
        kinds
    }

    fn lane(&self) -> Lane {
        match self {
            Message::Chain(message) => message.lane(),
            Message::Flushed(_) | Message::Direct(_) | Message::Correlated(_) => Lane::Stream,
            _ => Lane::Datagram,
        }
    }
}
