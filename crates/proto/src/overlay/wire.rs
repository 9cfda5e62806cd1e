//! The form of messages in bytes.
//!
//! A tag, whose top bit says that addresses follow it; the fields; and last the values of all
//! items, of which the last is handed out as the payload.

use std::sync::Arc;

use bytes::{BufMut, Bytes};

use super::message::{
    ADDRESS_BYTES_MAX, Addresses, Answer, Body, CANDIDATES_MAX, CopyAnswer, Found, ITEMS_MAX,
    MESSAGE_BYTES_MAX, Message, NODES_MAX, Purpose, PutAnswer, PutItem, Record, Route, Segment,
    Stamp, Target, Version,
};
use super::{Key, Topic};
use crate::core::{
    DecodeError, NodeId, Payload, Wire, split, take_u8, take_u16, take_u32, take_u64,
};

/// The length of a value that was removed.
const REMOVED: u32 = u32::MAX;
const HAS_ADDRESSES: u8 = 0x80;
const ADDRESSES_MAX: usize = 256;
const VERSION_BYTES: usize = 12;
const STAMP_BYTES: usize = VERSION_BYTES + 12;
const RECORD_BYTES: usize = Key::BYTES + STAMP_BYTES + 8;
const ITEM_BYTES: usize = Key::BYTES + 16;

pub(super) fn put_key(head: &mut impl BufMut, key: Key) {
    head.put_slice(&key.to_bytes());
}

pub(super) fn take_key(bytes: &mut Bytes) -> Result<Key, DecodeError> {
    let taken = split(bytes, Key::BYTES)?;
    let mut key = [0; Key::BYTES];
    key.copy_from_slice(&taken);
    Ok(Key::from_bytes(key))
}

fn out_of_range(field: &'static str, value: impl Into<u64>) -> DecodeError {
    DecodeError::OutOfRange { field, value: value.into() }
}

fn take_flag(bytes: &mut Bytes, field: &'static str) -> Result<bool, DecodeError> {
    match take_u8(bytes)? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(out_of_range(field, value)),
    }
}

/// Reads a count and checks that so many items of at least so many bytes may follow.
fn take_count(bytes: &mut Bytes, max: usize, item_bytes_min: usize) -> Result<usize, DecodeError> {
    let count = usize::from(take_u16(bytes)?);
    if count > max {
        return Err(out_of_range("count", count as u64));
    }
    let need = count * item_bytes_min;
    if bytes.len() < need {
        return Err(DecodeError::Truncated { need, have: bytes.len() });
    }
    Ok(count)
}

/// Lists of keys ascend: one form for one set, and no key twice.
fn check_ascending(keys: impl Iterator<Item = Key>) -> Result<(), DecodeError> {
    let mut before = None;
    for (place, key) in keys.enumerate() {
        if before.is_some_and(|before| before >= key) {
            return Err(out_of_range("order", place as u64));
        }
        before = Some(key);
    }
    Ok(())
}

/// Writes all values but the last, which is returned.
fn put_values<'a>(
    head: &mut impl BufMut,
    values: impl Iterator<Item = &'a Payload>,
) -> Option<&'a Payload> {
    let mut last: Option<&Payload> = None;
    for value in values.filter(|value| !value.is_empty()) {
        if let Some(before) = last.replace(value) {
            before.for_each_chunk(|chunk| head.put_slice(chunk));
        }
    }
    last
}

/// Reads the values whose lengths were read before. A value that is not there stays away.
fn take_values(bytes: &mut Bytes, lengths: &[u32]) -> Result<Vec<Payload>, DecodeError> {
    let value = |&length: &u32| {
        let length = if length == REMOVED { 0 } else { length as usize };
        Ok(Payload::Bytes(split(bytes, length)?))
    };
    lengths.iter().map(value).collect()
}

fn put_length(head: &mut impl BufMut, value: Option<&Payload>) {
    head.put_u32(value.map_or(REMOVED, |value| value.len() as u32));
}

fn take_length(bytes: &mut Bytes, may_be_removed: bool) -> Result<u32, DecodeError> {
    match take_u32(bytes)? {
        REMOVED if may_be_removed => Ok(REMOVED),
        length if length as usize <= MESSAGE_BYTES_MAX => Ok(length),
        length => Err(out_of_range("value", length)),
    }
}

fn put_version(head: &mut impl BufMut, version: Version) {
    head.put_u64(version.count);
    head.put_u32(version.by);
}

fn take_version(bytes: &mut Bytes) -> Result<Version, DecodeError> {
    Ok(Version { count: take_u64(bytes)?, by: take_u32(bytes)? })
}

fn put_stamp(head: &mut impl BufMut, stamp: Stamp) {
    put_version(head, stamp.version);
    head.put_u32(stamp.writer);
    head.put_u64(stamp.write);
}

fn take_stamp(bytes: &mut Bytes) -> Result<Stamp, DecodeError> {
    Ok(Stamp { version: take_version(bytes)?, writer: take_u32(bytes)?, write: take_u64(bytes)? })
}

fn range_len(range: &Option<Box<(Key, Key)>>) -> usize {
    1 + range.as_ref().map_or(0, |_| 2 * Key::BYTES)
}

fn put_range(head: &mut impl BufMut, range: &Option<Box<(Key, Key)>>) {
    head.put_u8(range.is_some().into());
    if let Some(range) = range {
        put_key(head, range.0);
        put_key(head, range.1);
    }
}

fn take_range(bytes: &mut Bytes) -> Result<Option<Box<(Key, Key)>>, DecodeError> {
    if !take_flag(bytes, "range")? {
        return Ok(None);
    }
    Ok(Some(Box::new((take_key(bytes)?, take_key(bytes)?))))
}

fn put_nodes(head: &mut impl BufMut, nodes: &[NodeId]) {
    nodes.iter().for_each(|node| head.put_u32(node.0));
}

fn take_nodes(bytes: &mut Bytes, count: usize) -> Result<Vec<NodeId>, DecodeError> {
    let mut taken = split(bytes, 4 * count)?;
    (0..count).map(|_| Ok(NodeId(take_u32(&mut taken)?))).collect()
}

impl Addresses {
    fn wire_len(&self) -> usize {
        match &self.0 {
            None => 0,
            Some(list) => 2 + list.iter().map(|(_, address)| 5 + address.len()).sum::<usize>(),
        }
    }

    fn encode(&self, head: &mut impl BufMut) {
        let Some(list) = &self.0 else {
            return;
        };
        debug_assert!((1..=ADDRESSES_MAX).contains(&list.len()));
        head.put_u16(list.len() as u16);
        for (node, address) in list.iter() {
            debug_assert!((1..=ADDRESS_BYTES_MAX).contains(&address.len()));
            head.put_u32(node.0);
            head.put_u8(address.len() as u8);
            head.put_slice(address);
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Addresses, DecodeError> {
        let count = take_count(bytes, ADDRESSES_MAX, 6)?;
        if count == 0 {
            return Err(out_of_range("addresses", 0u64));
        }
        let address = |bytes: &mut Bytes| -> Result<(NodeId, Bytes), DecodeError> {
            let node = NodeId(take_u32(bytes)?);
            let length = take_u8(bytes)?;
            if length == 0 {
                return Err(out_of_range("address", 0u64));
            }
            // Kept longer than the datagram that it came in.
            Ok((node, Bytes::copy_from_slice(&split(bytes, length.into())?)))
        };
        let list: Result<Arc<[_]>, _> = (0..count).map(|_| address(bytes)).collect();
        Ok(Addresses(Some(list?)))
    }
}

impl Purpose {
    fn wire_len(&self) -> usize {
        match self {
            Purpose::Send(payload) => 5 + payload.len(),
            Purpose::Locate | Purpose::Get | Purpose::Upkeep => 1,
        }
    }

    fn encode(&self, head: &mut impl BufMut) {
        match self {
            Purpose::Locate => head.put_u8(0),
            Purpose::Get => head.put_u8(1),
            Purpose::Upkeep => head.put_u8(2),
            Purpose::Send(payload) => {
                head.put_u8(3);
                head.put_u32(payload.len() as u32);
            }
        }
    }

    fn payload(&self) -> Option<&Payload> {
        match self {
            Purpose::Send(payload) => Some(payload),
            Purpose::Locate | Purpose::Get | Purpose::Upkeep => None,
        }
    }

    /// The purpose without its payload, and how long that is.
    fn decode(bytes: &mut Bytes) -> Result<(Purpose, Option<u32>), DecodeError> {
        match take_u8(bytes)? {
            0 => Ok((Purpose::Locate, None)),
            1 => Ok((Purpose::Get, None)),
            2 => Ok((Purpose::Upkeep, None)),
            3 => Ok((Purpose::Locate, Some(take_length(bytes, false)?))),
            value => Err(out_of_range("purpose", value)),
        }
    }

    fn with_payload(self, bytes: &mut Bytes, length: Option<u32>) -> Result<Purpose, DecodeError> {
        Ok(match length {
            None => self,
            Some(length) => Purpose::Send(Arc::new(Payload::Bytes(split(bytes, length as usize)?))),
        })
    }
}

fn targets_len<W: Wire>(targets: &[Target<W>]) -> usize {
    2 + targets.iter().map(|target| Key::BYTES + target.walk.wire_len()).sum::<usize>()
}

fn put_targets<W: Wire>(head: &mut impl BufMut, targets: &[Target<W>]) {
    head.put_u16(targets.len() as u16);
    for target in targets {
        put_key(head, target.key);
        target.walk.encode(head);
    }
}

fn take_targets<W: Wire>(bytes: &mut Bytes) -> Result<Arc<[Target<W>]>, DecodeError> {
    let count = take_count(bytes, ITEMS_MAX, Key::BYTES)?;
    if count == 0 {
        return Err(out_of_range("targets", 0u64));
    }
    let target = |bytes: &mut Bytes| -> Result<Target<W>, DecodeError> {
        Ok(Target { key: take_key(bytes)?, walk: W::decode(bytes)? })
    };
    let targets: Arc<[Target<W>]> = (0..count).map(|_| target(bytes)).collect::<Result<_, _>>()?;
    check_ascending(targets.iter().map(|target| target.key))?;
    Ok(targets)
}

impl Answer {
    fn head_len(&self) -> usize {
        match self {
            Answer::Found { .. } => 1 + VERSION_BYTES + 4,
            _ => 1,
        }
    }

    fn value(&self) -> Option<&Payload> {
        match self {
            Answer::Found { value, .. } => Some(value),
            _ => None,
        }
    }

    pub(super) fn wire_len(&self) -> usize {
        self.head_len() + self.value().map_or(0, Payload::len)
    }

    fn encode(&self, head: &mut impl BufMut) {
        head.put_u8(match self {
            Answer::Here => 0,
            Answer::Delivered => 1,
            Answer::Found { .. } => 2,
            Answer::Absent => 3,
            Answer::Later => 4,
            Answer::Again => 5,
            Answer::NoRoute => 6,
            Answer::Busy => 7,
        });
        if let Answer::Found { version, value } = self {
            put_version(head, *version);
            head.put_u32(value.len() as u32);
        }
    }

    /// The answer without its value, whose length is noted.
    fn decode(bytes: &mut Bytes, lengths: &mut Vec<u32>) -> Result<Answer, DecodeError> {
        Ok(match take_u8(bytes)? {
            0 => Answer::Here,
            1 => Answer::Delivered,
            2 => {
                let version = take_version(bytes)?;
                lengths.push(take_length(bytes, false)?);
                Answer::Found { version, value: Payload::Zeros(0) }
            }
            3 => Answer::Absent,
            4 => Answer::Later,
            5 => Answer::Again,
            6 => Answer::NoRoute,
            7 => Answer::Busy,
            value => return Err(out_of_range("answer", value)),
        })
    }
}

fn fill_answers<'a>(
    bytes: &mut Bytes,
    lengths: &[u32],
    answers: impl Iterator<Item = &'a mut Answer>,
) -> Result<(), DecodeError> {
    let mut values = take_values(bytes, lengths)?.into_iter();
    for answer in answers {
        if let Answer::Found { value, .. } = answer {
            *value = values.next().expect("a length for each value found");
        }
    }
    Ok(())
}

impl<W: Wire> Found<W> {
    fn wire_len(&self) -> usize {
        let segments = 3 * self.segments.len();
        let ended = self.ended.iter().map(Answer::wire_len).sum::<usize>();
        let walks = self.walks.iter().map(W::wire_len).sum::<usize>();
        4 + 2 + segments + ended + 4 * self.nodes.len() + walks + range_len(&self.range)
    }

    fn encode(&self, head: &mut impl BufMut) -> Option<&Payload> {
        head.put_u32(self.exchange);
        put_range(head, &self.range);
        head.put_u16(self.segments.len() as u16);
        let (mut ended, mut nodes) = (&self.ended[..], &self.nodes[..]);
        let mut walks = &self.walks[..];
        for segment in &self.segments {
            head.put_u16(segment.targets);
            head.put_u8(segment.nodes);
            let count = usize::from(segment.targets);
            if segment.nodes == 0 {
                let (these, rest) = ended.split_at(count);
                these.iter().for_each(|answer| answer.encode(head));
                ended = rest;
            } else {
                let (these, rest) = nodes.split_at(segment.nodes.into());
                put_nodes(head, these);
                nodes = rest;
                let (these, rest) = walks.split_at(count);
                these.iter().for_each(|walk| {
                    walk.encode(head);
                });
                walks = rest;
            }
        }
        put_values(head, self.ended.iter().filter_map(Answer::value))
    }

    fn decode(bytes: &mut Bytes) -> Result<Found<W>, DecodeError> {
        let exchange = take_u32(bytes)?;
        let range = take_range(bytes)?;
        let count = take_count(bytes, ITEMS_MAX, 3)?;
        let mut found = Found {
            exchange,
            segments: Vec::with_capacity(count),
            ended: Vec::new(),
            nodes: Vec::new(),
            walks: Vec::new(),
            range,
        };
        let (mut total, mut lengths) = (0, Vec::new());
        for _ in 0..count {
            let (targets, nodes) = (take_u16(bytes)?, take_u8(bytes)?);
            total += usize::from(targets);
            if targets == 0 || total > ITEMS_MAX {
                return Err(out_of_range("targets", targets));
            }
            if usize::from(nodes) > CANDIDATES_MAX {
                return Err(out_of_range("nodes", nodes));
            }
            found.segments.push(Segment { targets, nodes });
            if nodes == 0 {
                for _ in 0..targets {
                    found.ended.push(Answer::decode(bytes, &mut lengths)?);
                }
            } else {
                found.nodes.extend(take_nodes(bytes, nodes.into())?);
                for _ in 0..targets {
                    found.walks.push(W::decode(bytes)?);
                }
            }
        }
        fill_answers(bytes, &lengths, found.ended.iter_mut())?;
        Ok(found)
    }
}

fn put_record(head: &mut impl BufMut, record: &Record) {
    put_key(head, record.key);
    put_stamp(head, record.stamp);
    head.put_u32(record.lifetime_ms);
    put_length(head, record.value.as_ref());
}

impl Record {
    pub(super) fn wire_len(&self) -> usize {
        RECORD_BYTES + self.value.as_ref().map_or(0, Payload::len)
    }
}

impl PutItem {
    pub(super) fn wire_len(&self) -> usize {
        ITEM_BYTES + self.value.as_ref().map_or(0, Payload::len)
    }
}

fn take_records(bytes: &mut Bytes) -> Result<Vec<Record>, DecodeError> {
    let count = take_count(bytes, ITEMS_MAX, RECORD_BYTES)?;
    let (mut records, mut lengths) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let (key, stamp, lifetime_ms) = (take_key(bytes)?, take_stamp(bytes)?, take_u32(bytes)?);
        lengths.push(take_length(bytes, true)?);
        records.push(Record { key, stamp, lifetime_ms, value: None });
    }
    check_ascending(records.iter().map(|record| record.key))?;
    let values = take_values(bytes, &lengths)?;
    for ((record, value), length) in records.iter_mut().zip(values).zip(lengths) {
        record.value = (length != REMOVED).then_some(value);
    }
    Ok(records)
}

fn take_items(bytes: &mut Bytes) -> Result<Arc<[PutItem]>, DecodeError> {
    let count = take_count(bytes, ITEMS_MAX, ITEM_BYTES)?;
    let (mut items, mut lengths) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let (key, lifetime_ms, after) = (take_key(bytes)?, take_u32(bytes)?, take_u64(bytes)?);
        lengths.push(take_length(bytes, true)?);
        items.push(PutItem { key, lifetime_ms, after, value: None });
    }
    check_ascending(items.iter().map(|item| item.key))?;
    let values = take_values(bytes, &lengths)?;
    for ((item, value), length) in items.iter_mut().zip(values).zip(lengths) {
        item.value = (length != REMOVED).then_some(value);
    }
    Ok(items.into())
}

impl PutAnswer {
    fn code(self) -> u8 {
        match self {
            PutAnswer::Stored(_) => 0,
            PutAnswer::Elsewhere => 1,
            PutAnswer::TooLarge => 2,
            PutAnswer::OverQuota => 3,
            PutAnswer::Unreplicated => 4,
            PutAnswer::Superseded => 5,
            PutAnswer::Busy => 6,
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<PutAnswer, DecodeError> {
        let (code, copies) = (take_u8(bytes)?, take_u8(bytes)?);
        if code != 0 && copies != 0 {
            return Err(out_of_range("copies", copies));
        }
        Ok(match code {
            0 => PutAnswer::Stored(copies),
            1 => PutAnswer::Elsewhere,
            2 => PutAnswer::TooLarge,
            3 => PutAnswer::OverQuota,
            4 => PutAnswer::Unreplicated,
            5 => PutAnswer::Superseded,
            6 => PutAnswer::Busy,
            value => return Err(out_of_range("put answer", value)),
        })
    }
}

impl CopyAnswer {
    fn wire_len(&self) -> usize {
        match self {
            CopyAnswer::Newer(_) => 1 + STAMP_BYTES,
            _ => 1,
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<CopyAnswer, DecodeError> {
        Ok(match take_u8(bytes)? {
            0 => CopyAnswer::Held,
            1 => CopyAnswer::Newer(take_stamp(bytes)?),
            2 => CopyAnswer::OverQuota,
            3 => CopyAnswer::Far,
            value => return Err(out_of_range("copy answer", value)),
        })
    }
}

fn topic_len(topic: &Topic) -> usize {
    1 + match topic {
        Topic::Neighbours => 0,
        Topic::Row(..) => 1 + Key::BYTES,
        Topic::Nearest(_) => Key::BYTES,
    }
}

fn put_topic(head: &mut impl BufMut, topic: &Topic) {
    match topic {
        Topic::Neighbours => head.put_u8(0),
        Topic::Row(row, key) => {
            head.put_u8(1);
            head.put_u8(*row);
            put_key(head, *key);
        }
        Topic::Nearest(key) => {
            head.put_u8(2);
            put_key(head, *key);
        }
    }
}

fn take_topic(bytes: &mut Bytes) -> Result<Topic, DecodeError> {
    Ok(match take_u8(bytes)? {
        0 => Topic::Neighbours,
        1 => {
            let row = take_u8(bytes)?;
            if u32::from(row) >= Key::DIGITS {
                return Err(out_of_range("row", row));
            }
            Topic::Row(row, take_key(bytes)?)
        }
        2 => Topic::Nearest(take_key(bytes)?),
        value => return Err(out_of_range("topic", value)),
    })
}

fn put_places(head: &mut impl BufMut, places: &[u16]) {
    head.put_u16(places.len() as u16);
    places.iter().for_each(|&place| head.put_u16(place));
}

fn take_places(bytes: &mut Bytes) -> Result<Vec<u16>, DecodeError> {
    let count = take_count(bytes, ITEMS_MAX, 2)?;
    (0..count).map(|_| take_u16(bytes)).collect()
}

impl<W: Wire> Wire for Message<W> {
    fn wire_len(&self) -> usize {
        let body = match &self.body {
            Body::Route(route) => {
                4 + 1 + 4 + 8 + route.purpose.wire_len() + targets_len(&route.targets)
            }
            Body::Result { answers, range, .. } => {
                let answers = answers.iter().map(|(_, answer)| Key::BYTES + answer.wire_len());
                8 + 2 + answers.sum::<usize>() + range_len(range)
            }
            Body::Find { purpose, targets, .. } => {
                4 + 1 + 8 + purpose.wire_len() + targets_len(targets)
            }
            Body::Found(found) => found.wire_len(),
            Body::Put { items, .. } => {
                4 + 8 + 2 + items.iter().map(PutItem::wire_len).sum::<usize>()
            }
            Body::PutReply { answers, .. } => 4 + 2 + 2 * answers.len(),
            Body::Copy { records, .. } => {
                4 + 2 + records.iter().map(Record::wire_len).sum::<usize>()
            }
            Body::CopyReply { answers, .. } => {
                4 + 2 + answers.iter().map(CopyAnswer::wire_len).sum::<usize>()
            }
            Body::Fetch { keys, .. } => 4 + 2 + Key::BYTES * keys.len(),
            Body::Fetched { records, .. } => {
                4 + 1 + 2 + records.iter().map(Record::wire_len).sum::<usize>()
            }
            Body::Summary { entries, .. } => 4 + 2 + (Key::BYTES + VERSION_BYTES) * entries.len(),
            Body::SummaryReply { lacking, newer, surplus, .. } => {
                4 + 6 + 2 * (lacking.len() + newer.len() + surplus.len())
            }
            Body::Ask { topic, .. } => 4 + 1 + topic_len(topic),
            Body::Told { nodes, .. } => 4 + 2 + 4 * nodes.len(),
            Body::Ack { .. } | Body::Ping { .. } | Body::Pong { .. } | Body::NotMember { .. } => 4,
            Body::Notify | Body::Goodbye => 0,
        };
        1 + self.addresses.wire_len() + body
    }

    fn encode(&self, head: &mut impl BufMut) -> Option<&Payload> {
        let flag = if self.addresses.0.is_some() { HAS_ADDRESSES } else { 0 };
        head.put_u8(tag_of(&self.body) | flag);
        self.addresses.encode(head);
        match &self.body {
            Body::Route(route) => {
                head.put_u32(route.exchange);
                head.put_u8(route.ttl);
                head.put_u32(route.initiator.0);
                head.put_u64(route.tag);
                route.purpose.encode(head);
                put_targets(head, &route.targets);
                return route.purpose.payload();
            }
            Body::Result { tag, answers, range } => {
                head.put_u64(*tag);
                put_range(head, range);
                head.put_u16(answers.len() as u16);
                for (key, answer) in answers {
                    put_key(head, *key);
                    answer.encode(head);
                }
                return put_values(head, answers.iter().filter_map(|(_, answer)| answer.value()));
            }
            Body::Find { exchange, is_member, tag, purpose, targets } => {
                head.put_u32(*exchange);
                head.put_u8((*is_member).into());
                head.put_u64(*tag);
                purpose.encode(head);
                put_targets(head, targets);
                return purpose.payload();
            }
            Body::Found(found) => return found.encode(head),
            Body::Put { exchange, write, items } => {
                head.put_u32(*exchange);
                head.put_u64(*write);
                head.put_u16(items.len() as u16);
                for item in items.iter() {
                    put_key(head, item.key);
                    head.put_u32(item.lifetime_ms);
                    head.put_u64(item.after);
                    put_length(head, item.value.as_ref());
                }
                return put_values(head, items.iter().filter_map(|item| item.value.as_ref()));
            }
            Body::PutReply { exchange, answers } => {
                head.put_u32(*exchange);
                head.put_u16(answers.len() as u16);
                for answer in answers {
                    head.put_u8(answer.code());
                    head.put_u8(if let PutAnswer::Stored(copies) = answer { *copies } else { 0 });
                }
            }
            Body::Copy { exchange, records } => {
                head.put_u32(*exchange);
                head.put_u16(records.len() as u16);
                records.iter().for_each(|record| put_record(head, record));
                return put_values(head, records.iter().filter_map(|it| it.value.as_ref()));
            }
            Body::CopyReply { exchange, answers } => {
                head.put_u32(*exchange);
                head.put_u16(answers.len() as u16);
                for answer in answers {
                    match answer {
                        CopyAnswer::Held => head.put_u8(0),
                        CopyAnswer::Newer(stamp) => {
                            head.put_u8(1);
                            put_stamp(head, *stamp);
                        }
                        CopyAnswer::OverQuota => head.put_u8(2),
                        CopyAnswer::Far => head.put_u8(3),
                    }
                }
            }
            Body::Fetch { exchange, keys } => {
                head.put_u32(*exchange);
                head.put_u16(keys.len() as u16);
                keys.iter().for_each(|&key| put_key(head, key));
            }
            Body::Fetched { exchange, records, is_whole } => {
                head.put_u32(*exchange);
                head.put_u8((*is_whole).into());
                head.put_u16(records.len() as u16);
                records.iter().for_each(|record| put_record(head, record));
                return put_values(head, records.iter().filter_map(|it| it.value.as_ref()));
            }
            Body::Summary { exchange, entries } => {
                head.put_u32(*exchange);
                head.put_u16(entries.len() as u16);
                for &(key, version) in entries.iter() {
                    put_key(head, key);
                    put_version(head, version);
                }
            }
            Body::SummaryReply { exchange, lacking, newer, surplus } => {
                head.put_u32(*exchange);
                put_places(head, lacking);
                put_places(head, newer);
                put_places(head, surplus);
            }
            Body::Ask { exchange, is_member, topic } => {
                head.put_u32(*exchange);
                head.put_u8((*is_member).into());
                put_topic(head, topic);
            }
            Body::Told { exchange, nodes } => {
                head.put_u32(*exchange);
                head.put_u16(nodes.len() as u16);
                put_nodes(head, nodes);
            }
            Body::Ack { exchange }
            | Body::Ping { exchange }
            | Body::Pong { exchange }
            | Body::NotMember { exchange } => head.put_u32(*exchange),
            Body::Notify | Body::Goodbye => {}
        }
        None
    }

    fn decode(bytes: &mut Bytes) -> Result<Message<W>, DecodeError> {
        let tag = take_u8(bytes)?;
        let addresses = match tag & HAS_ADDRESSES {
            0 => Addresses::default(),
            _ => Addresses::decode(bytes)?,
        };
        Ok(Message { body: decode_body(tag & !HAS_ADDRESSES, bytes)?, addresses })
    }
}

fn tag_of<W>(body: &Body<W>) -> u8 {
    match body {
        Body::Route(_) => 0,
        Body::Ack { .. } => 1,
        Body::Result { .. } => 2,
        Body::Find { .. } => 3,
        Body::Found(_) => 4,
        Body::Put { .. } => 5,
        Body::PutReply { .. } => 6,
        Body::Copy { .. } => 7,
        Body::CopyReply { .. } => 8,
        Body::Fetch { .. } => 9,
        Body::Fetched { .. } => 10,
        Body::Summary { .. } => 11,
        Body::SummaryReply { .. } => 12,
        Body::Ask { .. } => 13,
        Body::Told { .. } => 14,
        Body::Notify => 15,
        Body::Ping { .. } => 16,
        Body::Pong { .. } => 17,
        Body::NotMember { .. } => 18,
        Body::Goodbye => 19,
    }
}

fn decode_body<W: Wire>(tag: u8, bytes: &mut Bytes) -> Result<Body<W>, DecodeError> {
    Ok(match tag {
        0 => {
            let (exchange, ttl) = (take_u32(bytes)?, take_u8(bytes)?);
            let (initiator, tag) = (NodeId(take_u32(bytes)?), take_u64(bytes)?);
            let (purpose, length) = Purpose::decode(bytes)?;
            let targets = take_targets(bytes)?;
            let purpose = purpose.with_payload(bytes, length)?;
            Body::Route(Route { exchange, ttl, initiator, tag, purpose, targets })
        }
        1 => Body::Ack { exchange: take_u32(bytes)? },
        2 => {
            let tag = take_u64(bytes)?;
            let range = take_range(bytes)?;
            let count = take_count(bytes, ITEMS_MAX, Key::BYTES + 1)?;
            let (mut answers, mut lengths) = (Vec::with_capacity(count), Vec::new());
            for _ in 0..count {
                answers.push((take_key(bytes)?, Answer::decode(bytes, &mut lengths)?));
            }
            fill_answers(bytes, &lengths, answers.iter_mut().map(|(_, answer)| answer))?;
            Body::Result { tag, answers, range }
        }
        3 => {
            let (exchange, is_member) = (take_u32(bytes)?, take_flag(bytes, "member")?);
            let tag = take_u64(bytes)?;
            let (purpose, length) = Purpose::decode(bytes)?;
            let targets = take_targets(bytes)?;
            let purpose = purpose.with_payload(bytes, length)?;
            Body::Find { exchange, is_member, tag, purpose, targets }
        }
        4 => Body::Found(Box::new(Found::decode(bytes)?)),
        5 => {
            let (exchange, write) = (take_u32(bytes)?, take_u64(bytes)?);
            Body::Put { exchange, write, items: take_items(bytes)? }
        }
        6 => {
            let exchange = take_u32(bytes)?;
            let count = take_count(bytes, ITEMS_MAX, 2)?;
            let answers = (0..count).map(|_| PutAnswer::decode(bytes)).collect::<Result<_, _>>()?;
            Body::PutReply { exchange, answers }
        }
        7 => Body::Copy { exchange: take_u32(bytes)?, records: take_records(bytes)?.into() },
        8 => {
            let exchange = take_u32(bytes)?;
            let count = take_count(bytes, ITEMS_MAX, 1)?;
            let answers = (0..count).map(|_| CopyAnswer::decode(bytes));
            Body::CopyReply { exchange, answers: answers.collect::<Result<_, _>>()? }
        }
        9 => {
            let exchange = take_u32(bytes)?;
            let count = take_count(bytes, ITEMS_MAX, Key::BYTES)?;
            let keys: Arc<[Key]> = (0..count).map(|_| take_key(bytes)).collect::<Result<_, _>>()?;
            check_ascending(keys.iter().copied())?;
            Body::Fetch { exchange, keys }
        }
        10 => {
            let (exchange, is_whole) = (take_u32(bytes)?, take_flag(bytes, "whole")?);
            Body::Fetched { exchange, records: take_records(bytes)?, is_whole }
        }
        11 => {
            let exchange = take_u32(bytes)?;
            let count = take_count(bytes, ITEMS_MAX, Key::BYTES + VERSION_BYTES)?;
            let entry = |bytes: &mut Bytes| -> Result<_, DecodeError> {
                Ok((take_key(bytes)?, take_version(bytes)?))
            };
            let entries: Arc<[(Key, Version)]> =
                (0..count).map(|_| entry(bytes)).collect::<Result<_, _>>()?;
            check_ascending(entries.iter().map(|&(key, _)| key))?;
            Body::Summary { exchange, entries }
        }
        12 => {
            let exchange = take_u32(bytes)?;
            let (lacking, newer) = (take_places(bytes)?, take_places(bytes)?);
            Body::SummaryReply { exchange, lacking, newer, surplus: take_places(bytes)? }
        }
        13 => {
            let (exchange, is_member) = (take_u32(bytes)?, take_flag(bytes, "member")?);
            Body::Ask { exchange, is_member, topic: take_topic(bytes)? }
        }
        14 => {
            let exchange = take_u32(bytes)?;
            let count = take_count(bytes, NODES_MAX, 4)?;
            Body::Told { exchange, nodes: take_nodes(bytes, count)? }
        }
        15 => Body::Notify,
        16 => Body::Ping { exchange: take_u32(bytes)? },
        17 => Body::Pong { exchange: take_u32(bytes)? },
        18 => Body::NotMember { exchange: take_u32(bytes)? },
        19 => Body::Goodbye,
        _ => return Err(DecodeError::UnknownTag(tag)),
    })
}
