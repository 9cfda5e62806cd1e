//! The form of messages in bytes.
//!
//! A tag, whose top bit says that addresses follow it; the fields; and last the values of all
//! items, of which the last is handed out as the payload.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::fields::*;
use super::message::{
    Addresses, Answer, Body, CopyAnswer, Found, ITEMS_MAX, MISSING_MAX, Message, NODES_MAX,
    Purpose, PutAnswer, PutItem, Record, Route, Version,
};
use super::{Algorithm, Key};
use crate::core::{DecodeError, NodeId, Payload, Wire, take_u8, take_u32, take_u64};

const HAS_ADDRESSES: u8 = 0x80;

impl Wire for Message {
    fn wire_len(&self) -> usize {
        let body = match &self.body {
            Body::Route(route) => {
                4 + 1 + 4 + 1 + 8 + route.purpose.wire_len() + targets_len(&route.targets)
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
                4 + 1 + 8 + 2 + items.iter().map(PutItem::wire_len).sum::<usize>()
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
            Body::Missing { nodes } => 2 + 4 * nodes.len(),
            Body::Notify | Body::Goodbye => 0,
        };
        1 + self.addresses.wire_len() + body
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        let flag = if self.addresses.0.is_some() { HAS_ADDRESSES } else { 0 };
        head.put_u8(tag_of(&self.body) | flag);
        self.addresses.encode(head);
        match &self.body {
            Body::Route(route) => {
                head.put_u32(route.exchange);
                head.put_u8(route.ttl);
                head.put_u32(route.initiator.0);
                head.put_u8(route.is_member.into());
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
            Body::Put { exchange, is_member, write, items } => {
                head.put_u32(*exchange);
                head.put_u8((*is_member).into());
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
                    head.put_u8(answer.copies());
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
            Body::Missing { nodes } => {
                head.put_u16(nodes.len() as u16);
                put_nodes(head, nodes);
            }
            Body::Notify | Body::Goodbye => {}
        }
        None
    }

    /// Reads walks as those of [`Algorithm::default`]; [`Message::decode_for`] reads others.
    fn decode(bytes: &mut Bytes) -> Result<Message, DecodeError> {
        decode(Algorithm::default(), bytes)
    }
}

impl Message {
    /// Decodes one message of an overlay with this algorithm and refuses bytes left over. Walks
    /// have the form of [`Algorithm::first_walk`], of which the bytes say nothing.
    pub fn decode_for(algorithm: Algorithm, mut bytes: Bytes) -> Result<Message, DecodeError> {
        let message = decode(algorithm, &mut bytes)?;
        if bytes.is_empty() { Ok(message) } else { Err(DecodeError::Trailing(bytes.len())) }
    }
}

fn decode(algorithm: Algorithm, bytes: &mut Bytes) -> Result<Message, DecodeError> {
    let tag = take_u8(bytes)?;
    let addresses = match tag & HAS_ADDRESSES {
        0 => Addresses::default(),
        _ => Addresses::decode(bytes)?,
    };
    Ok(Message { body: decode_body(algorithm, tag & !HAS_ADDRESSES, bytes)?, addresses })
}

fn tag_of(body: &Body) -> u8 {
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
        Body::Missing { .. } => 20,
    }
}

fn decode_body(algorithm: Algorithm, tag: u8, bytes: &mut Bytes) -> Result<Body, DecodeError> {
    Ok(match tag {
        0 => {
            let (exchange, ttl) = (take_u32(bytes)?, take_u8(bytes)?);
            let initiator = NodeId(take_u32(bytes)?);
            let (is_member, tag) = (take_flag(bytes, "member")?, take_u64(bytes)?);
            let (purpose, length) = Purpose::decode(bytes)?;
            let targets = take_targets(algorithm, bytes)?;
            let purpose = purpose.with_payload(bytes, length)?;
            Body::Route(Route { exchange, ttl, initiator, is_member, tag, purpose, targets })
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
            let targets = take_targets(algorithm, bytes)?;
            let purpose = purpose.with_payload(bytes, length)?;
            Body::Find { exchange, is_member, tag, purpose, targets }
        }
        4 => Body::Found(Box::new(Found::decode(algorithm, bytes)?)),
        5 => {
            let (exchange, is_member) = (take_u32(bytes)?, take_flag(bytes, "member")?);
            Body::Put { exchange, is_member, write: take_u64(bytes)?, items: take_items(bytes)? }
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
        20 => {
            let count = take_count(bytes, MISSING_MAX, 4)?;
            Body::Missing { nodes: take_nodes(bytes, count)? }
        }
        _ => return Err(DecodeError::UnknownTag(tag)),
    })
}
