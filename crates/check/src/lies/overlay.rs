use std::sync::Arc;

use bytes::Bytes;
use paceline_proto::core::{Lane, NodeId};
use paceline_proto::overlay::{
    Addresses, Answer, Body, CopyAnswer, Expect, Found, Key, KoordeWalk, Leg, Message, NodeStat,
    Purpose, PutAnswer, PutIfAnswer, PutIfItem, PutItem, Record, Route, ScanAnswer, Segment, Side,
    Stamp, Successor, TableQuery, Target, Version, Walk,
};

use super::{Draw, Source};

/// What a message carries of its way, in the form of the overlay's algorithm.
fn walk(source: &mut Source<'_>) -> Walk {
    match source.known.algorithm.first_walk() {
        Walk::None => Walk::None,
        Walk::Leg(_) => Walk::Leg(if source.flag() { Leg::Way } else { Leg::Last }),
        Walk::Koorde(_) => Walk::Koorde(match source.rng.below(3) {
            0 => KoordeWalk::Start,
            1 => KoordeWalk::Last,
            _ => {
                let left = source.one_of(&[0, 1, 2, 5, 63, 64]);
                let prefix = source.word().checked_shr(64 - u32::from(left)).unwrap_or(0);
                let side = if source.flag() { Side::Ahead } else { Side::Behind };
                KoordeWalk::Imaginary { prefix, left, side }
            }
        }),
    }
}

/// A key that is read by others, or near one, or none of theirs.
fn key(source: &mut Source<'_>) -> Key {
    let known = source.known.keys.len() as u32;
    let known = (known > 0).then(|| source.known.keys[source.rng.below(known) as usize]);
    match (source.rng.below(6), known) {
        (0, _) => Key::ZERO,
        (1, _) => Key::from_bytes([255; Key::BYTES]),
        (2, Some(known)) => {
            let mut bytes = known.to_bytes();
            bytes[Key::BYTES - 1] ^= 1;
            Key::from_bytes(bytes)
        }
        (3.., Some(known)) => known,
        _ => own_key(source),
    }
}

/// A key under which only strangers write; members write under any.
fn own_key(source: &mut Source<'_>) -> Key {
    if source.is_member && !source.known.keys.is_empty() && source.flag() {
        return source.known.keys[source.rng.below(source.known.keys.len() as u32) as usize];
    }
    let number = source.rng.below(8) as u8;
    Key::of(&[b"a stranger's"[..].as_ref(), &[number]].concat())
}

fn ascending(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn keys(source: &mut Source<'_>) -> Vec<Key> {
    let mut keys = source.some(8, key);
    keys.push(key(source));
    ascending(keys)
}

fn own_keys(source: &mut Source<'_>) -> Vec<Key> {
    ascending(source.some(4, own_key))
}

fn targets(source: &mut Source<'_>) -> Arc<[Target]> {
    let keys = keys(source);
    keys.into_iter().map(|key| Target { key, walk: walk(source) }).collect()
}

fn purpose(source: &mut Source<'_>) -> Purpose {
    match source.rng.below(4) {
        0 => Purpose::Locate,
        1 => Purpose::Get,
        2 => Purpose::Upkeep,
        _ => Purpose::Send(Arc::new(source.payload())),
    }
}

fn version(source: &mut Source<'_>) -> Version {
    Version { count: source.word(), by: source.member().node.0 }
}

fn stamp(source: &mut Source<'_>) -> Stamp {
    let version = version(source);
    Stamp { version, writer: source.member().node.0, write: source.word() }
}

fn answer(source: &mut Source<'_>) -> Answer {
    let plain = [
        Answer::Here,
        Answer::Delivered,
        Answer::Absent,
        Answer::Later,
        Answer::Again,
        Answer::NoRoute,
        Answer::Busy,
        Answer::Unsettled,
    ];
    match source.rng.below(9) {
        8 => Answer::Found { version: version(source), value: source.payload() },
        place => plain[place as usize].clone(),
    }
}

fn range(source: &mut Source<'_>) -> Option<Box<(Key, Key)>> {
    source.flag().then(|| Box::new((key(source), key(source))))
}

fn node(source: &mut Source<'_>) -> NodeId {
    source.member().node
}

fn found(source: &mut Source<'_>) -> Found {
    let mut found = Found {
        exchange: source.half(),
        segments: Vec::new(),
        ended: Vec::new(),
        nodes: Vec::new(),
        walks: Vec::new(),
        range: range(source),
    };
    for _ in 0..source.rng.below(4) {
        let segment =
            Segment { targets: 1 + source.rng.below(3) as u16, nodes: source.rng.below(4) as u8 };
        for _ in 0..segment.targets {
            match segment.nodes {
                0 => found.ended.push(answer(source)),
                _ => found.walks.push(walk(source)),
            }
        }
        (0..segment.nodes).for_each(|_| found.nodes.push(node(source)));
        found.segments.push(segment);
    }
    found
}

fn put_answer(source: &mut Source<'_>) -> PutAnswer {
    let copies = source.half() as u8;
    source.one_of(&[
        PutAnswer::Stored(copies),
        PutAnswer::Elsewhere,
        PutAnswer::TooLarge,
        PutAnswer::OverQuota,
        PutAnswer::Unreplicated,
        PutAnswer::Superseded,
        PutAnswer::Busy,
        PutAnswer::Unsettled,
        PutAnswer::Short(copies),
    ])
}

fn put_if_answer(source: &mut Source<'_>) -> PutIfAnswer {
    let (version, copies) = (version(source), source.half() as u8);
    source.one_of(&[
        PutIfAnswer::Stored { version, copies },
        PutIfAnswer::Short { version, copies },
        PutIfAnswer::Differs(version),
        PutIfAnswer::Absent,
        PutIfAnswer::Elsewhere,
        PutIfAnswer::TooLarge,
        PutIfAnswer::OverQuota,
        PutIfAnswer::Unreplicated,
        PutIfAnswer::Busy,
        PutIfAnswer::Unsettled,
        PutIfAnswer::Conflict,
    ])
}

fn copy_answer(source: &mut Source<'_>) -> CopyAnswer {
    let newer = CopyAnswer::Newer(stamp(source));
    source.one_of(&[CopyAnswer::Held, newer, CopyAnswer::OverQuota, CopyAnswer::Far])
}

/// Records that no honest node asks for.
fn records(source: &mut Source<'_>) -> Vec<Record> {
    let record = |source: &mut Source<'_>, key| Record {
        key,
        stamp: stamp(source),
        lifetime_ms: source.half(),
        value: source.flag().then(|| source.payload()),
    };
    own_keys(source).into_iter().map(|key| record(source, key)).collect()
}

fn items(source: &mut Source<'_>) -> Arc<[PutItem]> {
    let item = |source: &mut Source<'_>, key| PutItem {
        key,
        lifetime_ms: source.half(),
        after: source.word(),
        value: source.flag().then(|| source.payload()),
    };
    own_keys(source).into_iter().map(|key| item(source, key)).collect()
}

fn places(source: &mut Source<'_>) -> Vec<u16> {
    source.some(4, |source| source.half() as u16)
}

/// The first key and the last, from one key to all.
fn range_of_keys(source: &mut Source<'_>) -> (Key, Key) {
    let (one, other) = (key(source), key(source));
    (one.min(other), one.max(other))
}

/// Now and then one that is well-formed and not the answer to any question.
fn scan_answer(source: &mut Source<'_>) -> ScanAnswer {
    let page = ScanAnswer::Page { until: key(source), is_whole: source.flag() };
    source.one_of(&[page, page, ScanAnswer::Elsewhere, ScanAnswer::Busy, ScanAnswer::Unsettled])
}

fn stat(source: &mut Source<'_>) -> NodeStat {
    NodeStat {
        contacts: source.half(),
        is_settled: source.flag(),
        missing: source.half(),
        values: source.half(),
        removed: source.half(),
        bytes: source.word(),
        neighbours: source.some(8, node),
    }
}

fn query(source: &mut Source<'_>) -> TableQuery {
    match source.rng.below(3) {
        0 => TableQuery::Neighbours,
        1 => TableQuery::Row(source.rng.below(Key::DIGITS) as u8, key(source)),
        _ => TableQuery::Nearest(key(source)),
    }
}

fn body(source: &mut Source<'_>) -> Body {
    let exchange = source.half();
    let is_member = source.flag();
    match source.rng.below(30) {
        0 => Body::Route(Route {
            exchange,
            ttl: source.half() as u8,
            initiator: node(source),
            is_member,
            tag: source.word(),
            purpose: purpose(source),
            targets: targets(source),
        }),
        1 => Body::Ack { exchange },
        2 => {
            let keys = keys(source).into_iter();
            let answers = keys.map(|key| (key, answer(source))).collect();
            Body::Result { tag: source.word(), answers, range: range(source) }
        }
        3 => Body::Find {
            exchange,
            is_member,
            tag: source.word(),
            purpose: purpose(source),
            targets: targets(source),
        },
        4 => Body::Found(Box::new(found(source))),
        5 => Body::Put { exchange, is_member, write: source.word(), items: items(source) },
        6 => Body::PutReply { exchange, answers: source.some(4, put_answer) },
        7 => Body::Copy { exchange, records: records(source).into() },
        8 => Body::CopyReply { exchange, answers: source.some(4, copy_answer) },
        9 => Body::Fetch { exchange, keys: keys(source).into() },
        10 => Body::Fetched { exchange, records: records(source), is_whole: source.flag() },
        11 => {
            let keys = keys(source).into_iter();
            let entries = keys.map(|key| (key, version(source))).collect();
            Body::Summary { exchange, entries }
        }
        12 => Body::SummaryReply {
            exchange,
            lacking: places(source),
            newer: places(source),
            surplus: places(source),
        },
        13 => Body::Ask { exchange, is_member, query: query(source) },
        14 => Body::Answer { exchange, nodes: source.some(8, node) },
        15 => Body::Notify,
        16 => Body::Ping { exchange },
        17 => Body::Pong { exchange },
        18 => Body::NotMember { exchange },
        19 => Body::Goodbye,
        20 => Body::Missing { nodes: source.some(8, node) },
        21 => {
            let plain = items(source);
            let condition = |source: &mut Source<'_>| match source.flag() {
                true => Expect::Absent,
                false => Expect::Version(version(source)),
            };
            let conditional =
                |item: &PutItem| PutIfItem { expect: condition(source), item: item.clone() };
            let items = plain.iter().map(conditional).collect();
            Body::PutIf { exchange, is_member, write: source.word(), items }
        }
        22 => Body::PutIfReply { exchange, answers: source.some(4, put_if_answer) },
        23 => {
            let records = records(source);
            let successor = |record| Successor { base: version(source), record };
            Body::CopyIf { exchange, records: records.into_iter().map(successor).collect() }
        }
        24 => Body::Scan { exchange, is_member, range: range_of_keys(source) },
        25 => Body::ScanReply { exchange, answer: scan_answer(source), records: records(source) },
        26 => Body::List { exchange, range: range_of_keys(source) },
        27 => {
            let keys = keys(source).into_iter();
            let entries = keys.map(|key| (key, version(source))).collect();
            Body::Listed { exchange, until: key(source), entries }
        }
        28 => Body::Stat { exchange, is_member, key: key(source) },
        _ => {
            let until = source.flag().then(|| key(source));
            Body::StatReply { exchange, until, stat: Box::new(stat(source)) }
        }
    }
}

impl Draw for Message {
    fn draw(source: &mut Source<'_>) -> Message {
        let body = body(source);
        let address = |source: &mut Source<'_>| (node(source), Bytes::from_static(b"nowhere"));
        let addresses = source.rng.chance(0.1).then(|| {
            let mut addresses = source.some(3, address);
            addresses.push(address(source));
            addresses.into()
        });
        Message { body, addresses: Addresses(addresses) }
    }

    fn kind(&self) -> &'static str {
        match &self.body {
            Body::Route(_) => "lie_overlay_route",
            Body::Ack { .. } => "lie_overlay_ack",
            Body::Result { .. } => "lie_overlay_result",
            Body::Find { .. } => "lie_overlay_find",
            Body::Found(_) => "lie_overlay_found",
            Body::Put { .. } => "lie_overlay_put",
            Body::PutReply { .. } => "lie_overlay_put_reply",
            Body::Copy { .. } => "lie_overlay_copy",
            Body::CopyReply { .. } => "lie_overlay_copy_reply",
            Body::Fetch { .. } => "lie_overlay_fetch",
            Body::Fetched { .. } => "lie_overlay_fetched",
            Body::Summary { .. } => "lie_overlay_summary",
            Body::SummaryReply { .. } => "lie_overlay_summary_reply",
            Body::Ask { .. } => "lie_overlay_ask",
            Body::Answer { .. } => "lie_overlay_told",
            Body::Notify => "lie_overlay_notify",
            Body::Ping { .. } => "lie_overlay_ping",
            Body::Pong { .. } => "lie_overlay_pong",
            Body::NotMember { .. } => "lie_overlay_not_member",
            Body::Goodbye => "lie_overlay_goodbye",
            Body::Missing { .. } => "lie_overlay_missing",
            Body::PutIf { .. } => "lie_overlay_put_if",
            Body::PutIfReply { .. } => "lie_overlay_put_if_reply",
            Body::CopyIf { .. } => "lie_overlay_copy_if",
            Body::Scan { .. } => "lie_overlay_scan",
            Body::ScanReply { .. } => "lie_overlay_scan_reply",
            Body::List { .. } => "lie_overlay_list",
            Body::Listed { .. } => "lie_overlay_listed",
            Body::Stat { .. } => "lie_overlay_stat",
            Body::StatReply { .. } => "lie_overlay_stat_reply",
        }
    }

    fn kinds() -> Vec<&'static str> {
        vec![
            "lie_overlay_route",
            "lie_overlay_ack",
            "lie_overlay_result",
            "lie_overlay_find",
            "lie_overlay_found",
            "lie_overlay_put",
            "lie_overlay_put_reply",
            "lie_overlay_copy",
            "lie_overlay_copy_reply",
            "lie_overlay_fetch",
            "lie_overlay_fetched",
            "lie_overlay_summary",
            "lie_overlay_summary_reply",
            "lie_overlay_ask",
            "lie_overlay_told",
            "lie_overlay_notify",
            "lie_overlay_ping",
            "lie_overlay_pong",
            "lie_overlay_not_member",
            "lie_overlay_goodbye",
            "lie_overlay_missing",
            "lie_overlay_put_if",
            "lie_overlay_put_if_reply",
            "lie_overlay_copy_if",
            "lie_overlay_scan",
            "lie_overlay_scan_reply",
            "lie_overlay_list",
            "lie_overlay_listed",
            "lie_overlay_stat",
            "lie_overlay_stat_reply",
        ]
    }

    fn lane(&self) -> Lane {
        Lane::Datagram
    }
}
