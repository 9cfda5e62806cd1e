use std::collections::BTreeMap;
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, NodeId, Payload};
use paceline_proto::slingshot::{Data, Framing};

use super::packets::Source;
use super::{Broken, Rule};

/// Bytes of the head of a fragment: its index 2, packets of the message 2, bytes of the message 4.
const HEAD_BYTES: usize = 8;
/// What may leave at once, beyond a packet.
const BURST: Duration = Duration::from_millis(2);

/// A message that its sender cut into several packets.
#[derive(Debug)]
struct Cut {
    end: u64,
    parts: Vec<Payload>,
    whole: Option<Payload>,
}

/// All messages of several packets of a run.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// By the sender, and the number of the first packet.
    cut: BTreeMap<(Source, u64), Cut>,
    /// What applications asked to send, until it was sent.
    asked: BTreeMap<(GroupId, NodeId), Vec<Payload>>,
    /// When the packets that a sender has sent could all have left at its rate.
    paced: BTreeMap<NodeId, Instant>,
}

impl Messages {
    /// An application asks to send this.
    pub(super) fn ask(&mut self, group: GroupId, node: NodeId, payload: &Payload) {
        self.asked.entry((group, node)).or_default().push(payload.clone());
    }

    /// A packet leaves its sender.
    pub(super) fn send(&mut self, from: NodeId, data: &Data) -> Result<(), Broken> {
        if data.framing == Framing::Whole {
            return Ok(());
        }
        let name = format!("{}/{from}.{}", data.group, data.seq);
        let bytes = data.payload.to_bytes();
        let field = |at: usize, len: usize| {
            bytes.get(at..at + len).map(|field| field.iter().fold(0, |n, &b| n << 8 | u64::from(b)))
        };
        let (Some(index), Some(packets)) = (field(0, 2), field(2, 2)) else {
            return Err((Rule::Integrity, format!("sent {name}, a fragment without a head")));
        };
        let first = data.seq.wrapping_sub(index);
        let source = (data.group, from, data.incarnation);
        let end = first.wrapping_add(packets);
        let new = || Cut { end, parts: Vec::new(), whole: None };
        let cut = self.cut.entry((source, first)).or_insert_with(new);
        if cut.end != end || cut.parts.len() as u64 != index {
            return Err((Rule::Integrity, format!("sent {name}, which does not follow")));
        }
        cut.parts.push(data.payload.slice(HEAD_BYTES..data.payload.len()));
        if cut.parts.len() as u64 == packets {
            let whole = Payload::concat(&std::mem::take(&mut cut.parts));
            let asked = self.asked.entry((data.group, from)).or_default();
            let Some(at) = asked.iter().position(|asked| *asked == whole) else {
                let what = format!("sent a message that ends with {name} and was not asked for");
                return Err((Rule::Integrity, what));
            };
            asked.swap_remove(at);
            cut.whole = Some(whole);
        }
        Ok(())
    }

    /// Checks that the packets of a sender's messages leave no faster than they may.
    pub(super) fn check_pace(
        &mut self,
        at: Instant,
        from: NodeId,
        data: &Data,
        per_second: u32,
    ) -> Result<(), Broken> {
        if data.framing == Framing::Whole {
            return Ok(());
        }
        let paced = self.paced.entry(from).or_default();
        // A nanosecond for each of a burst is rounded.
        if paced.since(at) > BURST + Duration::from_micros(1) {
            let what = format!("sent {}/{from}.{} too soon", data.group, data.seq);
            return Err((Rule::Pace, what));
        }
        let bytes = Data::HEAD_BYTES + data.payload.len();
        let takes = Duration::from_secs_f64(bytes as f64 / f64::from(per_second));
        *paced = (*paced).max(at) + takes;
        Ok(())
    }

    /// A node has started again.
    pub(super) fn restart(&mut self, node: NodeId) {
        self.paced.remove(&node);
    }

    /// The first number and the end of the message that this packet is of.
    pub(super) fn of(&self, source: Source, seq: u64) -> Option<(u64, u64)> {
        let before = self.cut.range((source, 0)..=(source, seq)).next_back();
        before.map(|(&(_, first), cut)| (first, cut.end)).filter(|&(_, end)| seq < end)
    }

    /// The messages with packets among these numbers: the first number and the end of each.
    pub(super) fn among(&self, source: Source, first: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.of(source, first).map_or(first, |(first, _)| first);
        let range = self.cut.range((source, before)..(source, end.max(before)));
        range.map(|(&(_, first), cut)| (first, cut.end)).collect()
    }

    /// The message with this first packet, and the number of its packets, if it was sent whole.
    pub(super) fn whole(&self, source: Source, first: u64) -> Option<(u64, &Payload)> {
        let cut = self.cut.get(&(source, first))?;
        Some((cut.end - first, cut.whole.as_ref()?))
    }
}
