//! The fields of messages in bytes: keys, counted lists, values, records.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::message::{
    ADDRESS_BYTES_MAX, Addresses, Answer, CANDIDATES_MAX, CopyAnswer, Found, ITEMS_MAX,
    MESSAGE_BYTES_MAX, Purpose, PutAnswer, PutItem, Record, Segment, Stamp, Target, Version,
};
use super::{Algorithm, Key, Topic, Walk};
use crate::core::{DecodeError, NodeId, Payload, split, take_u8, take_u16, take_u32, take_u64};

/// The length of a value that was removed.
pub(super) const REMOVED: u32 = u32::MAX;
pub(super) const ADDRESSES_MAX: usize = 256;
pub(super) const VERSION_BYTES: usize = 12;
pub(super) const STAMP_BYTES: usize = VERSION_BYTES + 12;
pub(super) const RECORD_BYTES: usize = Key::BYTES + STAMP_BYTES + 8;
pub(super) const ITEM_BYTES: usize = Key::BYTES + 16;

pub(super) fn put_key(head: &mut BytesMut, key: Key) {
    head.put_slice(&key.to_bytes());
}

pub(super) fn take_key(bytes: &mut Bytes) -> Result<Key, DecodeError> {
    let taken = split(bytes, Key::BYTES)?;
    let mut key = [0; Key::BYTES];
    key.copy_from_slice(&taken);
    Ok(Key::from_bytes(key))
}

pub(super) fn out_of_range(field: &'static str, value: impl Into<u64>) -> DecodeError {
    DecodeError::OutOfRange { field, value: value.into() }
}

pub(super) fn take_flag(bytes: &mut Bytes, field: &'static str) -> Result<bool, DecodeError> {
    match take_u8(bytes)? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(out_of_range(field, value)),
    }
}

/// Reads a count and checks that so many items of at least so many bytes may follow.
pub(super) fn take_count(
    bytes: &mut Bytes,
    max: usize,
    item_bytes_min: usize,
) -> Result<usize, DecodeError> {
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
pub(super) fn check_ascending(keys: impl Iterator<Item = Key>) -> Result<(), DecodeError> {
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
pub(super) fn put_values<'a>(
    head: &mut BytesMut,
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
pub(super) fn take_values(bytes: &mut Bytes, lengths: &[u32]) -> Result<Vec<Payload>, DecodeError> {
    let value = |&length: &u32| {
        let length = if length == REMOVED { 0 } else { length as usize };
        Ok(Payload::Bytes(split(bytes, length)?))
    };
    lengths.iter().map(value).collect()
}

pub(super) fn put_length(head: &mut BytesMut, value: Option<&Payload>) {
    head.put_u32(value.map_or(REMOVED, |value| value.len() as u32));
}

pub(super) fn take_length(bytes: &mut Bytes, may_be_removed: bool) -> Result<u32, DecodeError> {
    match take_u32(bytes)? {
        REMOVED if may_be_removed => Ok(REMOVED),
        length if length as usize <= MESSAGE_BYTES_MAX => Ok(length),
        length => Err(out_of_range("value", length)),
    }
}

pub(super) fn put_version(head: &mut BytesMut, version: Version) {
    head.put_u64(version.count);
    head.put_u32(version.by);
}

pub(super) fn take_version(bytes: &mut Bytes) -> Result<Version, DecodeError> {
    Ok(Version { count: take_u64(bytes)?, by: take_u32(bytes)? })
}

pub(super) fn put_stamp(head: &mut BytesMut, stamp: Stamp) {
    put_version(head, stamp.version);
    head.put_u32(stamp.writer);
    head.put_u64(stamp.write);
}

pub(super) fn take_stamp(bytes: &mut Bytes) -> Result<Stamp, DecodeError> {
    Ok(Stamp { version: take_version(bytes)?, writer: take_u32(bytes)?, write: take_u64(bytes)? })
}

pub(super) fn range_len(range: &Option<Box<(Key, Key)>>) -> usize {
    1 + range.as_ref().map_or(0, |_| 2 * Key::BYTES)
}

pub(super) fn put_range(head: &mut BytesMut, range: &Option<Box<(Key, Key)>>) {
    head.put_u8(range.is_some().into());
    if let Some(range) = range {
        put_key(head, range.0);
        put_key(head, range.1);
    }
}

pub(super) fn take_range(bytes: &mut Bytes) -> Result<Option<Box<(Key, Key)>>, DecodeError> {
    if !take_flag(bytes, "range")? {
        return Ok(None);
    }
    Ok(Some(Box::new((take_key(bytes)?, take_key(bytes)?))))
}

pub(super) fn put_nodes(head: &mut BytesMut, nodes: &[NodeId]) {
    nodes.iter().for_each(|node| head.put_u32(node.0));
}

pub(super) fn take_nodes(bytes: &mut Bytes, count: usize) -> Result<Vec<NodeId>, DecodeError> {
    let mut taken = split(bytes, 4 * count)?;
    (0..count).map(|_| Ok(NodeId(take_u32(&mut taken)?))).collect()
}

impl Addresses {
    pub(super) fn wire_len(&self) -> usize {
        match &self.0 {
            None => 0,
            Some(list) => 2 + list.iter().map(|(_, address)| 5 + address.len()).sum::<usize>(),
        }
    }

    pub(super) fn encode(&self, head: &mut BytesMut) {
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

    pub(super) fn decode(bytes: &mut Bytes) -> Result<Addresses, DecodeError> {
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
    pub(super) fn wire_len(&self) -> usize {
        match self {
            Purpose::Send(payload) => 5 + payload.len(),
            Purpose::Locate | Purpose::Get | Purpose::Upkeep => 1,
        }
    }

    pub(super) fn encode(&self, head: &mut BytesMut) {
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

    pub(super) fn payload(&self) -> Option<&Payload> {
        match self {
            Purpose::Send(payload) => Some(payload),
            Purpose::Locate | Purpose::Get | Purpose::Upkeep => None,
        }
    }

    /// The purpose without its payload, and how long that is.
    pub(super) fn decode(bytes: &mut Bytes) -> Result<(Purpose, Option<u32>), DecodeError> {
        match take_u8(bytes)? {
            0 => Ok((Purpose::Locate, None)),
            1 => Ok((Purpose::Get, None)),
            2 => Ok((Purpose::Upkeep, None)),
            3 => Ok((Purpose::Locate, Some(take_length(bytes, false)?))),
            value => Err(out_of_range("purpose", value)),
        }
    }

    pub(super) fn with_payload(
        self,
        bytes: &mut Bytes,
        length: Option<u32>,
    ) -> Result<Purpose, DecodeError> {
        Ok(match length {
            None => self,
            Some(length) => Purpose::Send(Arc::new(Payload::Bytes(split(bytes, length as usize)?))),
        })
    }
}

pub(super) fn targets_len(targets: &[Target]) -> usize {
    2 + targets.iter().map(|target| Key::BYTES + target.walk.wire_len()).sum::<usize>()
}

pub(super) fn put_targets(head: &mut BytesMut, targets: &[Target]) {
    head.put_u16(targets.len() as u16);
    for target in targets {
        put_key(head, target.key);
        target.walk.encode(head);
    }
}

pub(super) fn take_targets(
    algorithm: Algorithm,
    bytes: &mut Bytes,
) -> Result<Arc<[Target]>, DecodeError> {
    let count = take_count(bytes, ITEMS_MAX, Key::BYTES)?;
    if count == 0 {
        return Err(out_of_range("targets", 0u64));
    }
    let target = |bytes: &mut Bytes| -> Result<Target, DecodeError> {
        Ok(Target { key: take_key(bytes)?, walk: Walk::decode(algorithm, bytes)? })
    };
    let targets: Arc<[Target]> = (0..count).map(|_| target(bytes)).collect::<Result<_, _>>()?;
    check_ascending(targets.iter().map(|target| target.key))?;
    Ok(targets)
}

impl Answer {
    pub(super) fn head_len(&self) -> usize {
        match self {
            Answer::Found { .. } => 1 + VERSION_BYTES + 4,
            _ => 1,
        }
    }

    pub(super) fn value(&self) -> Option<&Payload> {
        match self {
            Answer::Found { value, .. } => Some(value),
            _ => None,
        }
    }

    pub(super) fn wire_len(&self) -> usize {
        self.head_len() + self.value().map_or(0, Payload::len)
    }

    pub(super) fn encode(&self, head: &mut BytesMut) {
        head.put_u8(match self {
            Answer::Here => 0,
            Answer::Delivered => 1,
            Answer::Found { .. } => 2,
            Answer::Absent => 3,
            Answer::Later => 4,
            Answer::Again => 5,
            Answer::NoRoute => 6,
            Answer::Busy => 7,
            Answer::Unsettled => 8,
        });
        if let Answer::Found { version, value } = self {
            put_version(head, *version);
            head.put_u32(value.len() as u32);
        }
    }

    /// The answer without its value, whose length is noted.
    pub(super) fn decode(bytes: &mut Bytes, lengths: &mut Vec<u32>) -> Result<Answer, DecodeError> {
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
            8 => Answer::Unsettled,
            value => return Err(out_of_range("answer", value)),
        })
    }
}

pub(super) fn fill_answers<'a>(
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

impl Found {
    pub(super) fn wire_len(&self) -> usize {
        let segments = 3 * self.segments.len();
        let ended = self.ended.iter().map(Answer::wire_len).sum::<usize>();
        let walks = self.walks.iter().map(Walk::wire_len).sum::<usize>();
        4 + 2 + segments + ended + 4 * self.nodes.len() + walks + range_len(&self.range)
    }

    pub(super) fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
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

    pub(super) fn decode(algorithm: Algorithm, bytes: &mut Bytes) -> Result<Found, DecodeError> {
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
                    found.walks.push(Walk::decode(algorithm, bytes)?);
                }
            }
        }
        fill_answers(bytes, &lengths, found.ended.iter_mut())?;
        Ok(found)
    }
}

pub(super) fn put_record(head: &mut BytesMut, record: &Record) {
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

pub(super) fn take_records(bytes: &mut Bytes) -> Result<Vec<Record>, DecodeError> {
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

pub(super) fn take_items(bytes: &mut Bytes) -> Result<Arc<[PutItem]>, DecodeError> {
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
    pub(super) fn code(self) -> u8 {
        match self {
            PutAnswer::Stored(_) => 0,
            PutAnswer::Elsewhere => 1,
            PutAnswer::TooLarge => 2,
            PutAnswer::OverQuota => 3,
            PutAnswer::Unreplicated => 4,
            PutAnswer::Superseded => 5,
            PutAnswer::Busy => 6,
            PutAnswer::Unsettled => 7,
            PutAnswer::Short(_) => 8,
        }
    }

    /// On how many nodes the item is written.
    pub(super) fn copies(self) -> u8 {
        match self {
            PutAnswer::Stored(copies) | PutAnswer::Short(copies) => copies,
            _ => 0,
        }
    }

    pub(super) fn decode(bytes: &mut Bytes) -> Result<PutAnswer, DecodeError> {
        let (code, copies) = (take_u8(bytes)?, take_u8(bytes)?);
        if !matches!(code, 0 | 8) && copies != 0 {
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
            7 => PutAnswer::Unsettled,
            8 => PutAnswer::Short(copies),
            value => return Err(out_of_range("put answer", value)),
        })
    }
}

impl CopyAnswer {
    pub(super) fn wire_len(&self) -> usize {
        match self {
            CopyAnswer::Newer(_) => 1 + STAMP_BYTES,
            _ => 1,
        }
    }

    pub(super) fn decode(bytes: &mut Bytes) -> Result<CopyAnswer, DecodeError> {
        Ok(match take_u8(bytes)? {
            0 => CopyAnswer::Held,
            1 => CopyAnswer::Newer(take_stamp(bytes)?),
            2 => CopyAnswer::OverQuota,
            3 => CopyAnswer::Far,
            value => return Err(out_of_range("copy answer", value)),
        })
    }
}

pub(super) fn topic_len(topic: &Topic) -> usize {
    1 + match topic {
        Topic::Neighbours => 0,
        Topic::Row(..) => 1 + Key::BYTES,
        Topic::Nearest(_) => Key::BYTES,
    }
}

pub(super) fn put_topic(head: &mut BytesMut, topic: &Topic) {
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

pub(super) fn take_topic(bytes: &mut Bytes) -> Result<Topic, DecodeError> {
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

pub(super) fn put_places(head: &mut BytesMut, places: &[u16]) {
    head.put_u16(places.len() as u16);
    places.iter().for_each(|&place| head.put_u16(place));
}

pub(super) fn take_places(bytes: &mut Bytes) -> Result<Vec<u16>, DecodeError> {
    let count = take_count(bytes, ITEMS_MAX, 2)?;
    (0..count).map(|_| take_u16(bytes)).collect()
}
