//! The content of a workload's messages, by which a receiver identifies a message and detects
//! damage.

use bytes::{BufMut, Bytes, BytesMut};
use paceline_proto::core::{Instant, NodeId, Payload, mix};

/// The content of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Origin, number and time of acceptance, then bytes that depend on origin and number. Checked
    /// by every receiver.
    Numbered,
    /// Zeros: no memory in the simulator, nothing to check but the length.
    Zeros,
}

/// Origin 4 (a scenario has fewer nodes), number 8, nanoseconds at acceptance 8.
const HEAD_BYTES: usize = 20;
const FILLER_BYTES: usize = 1 << 12;

/// Makes and checks messages of one size.
#[derive(Debug)]
pub struct Messages {
    content: Content,
    bytes: usize,
    // Twice the same pseudo-random bytes, so that a slice from any offset does not wrap.
    filler: Vec<u8>,
}

/// What a receiver reads out of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When the origin's member accepted it; none if the message does not say.
    pub accepted: Option<Instant>,
    /// Whether it is what the origin's `number`-th message must be.
    pub verdict: Verdict,
}

/// Whether a message is what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Intact,
    /// It is not.
    Damaged,
}

impl Messages {
    /// Messages of this many bytes.
    pub fn new(content: Content, bytes: usize) -> Messages {
        let words = (0..FILLER_BYTES as u64 / 8).map(|word| mix(word ^ 0x70ac_e11e).to_be_bytes());
        let filler: Vec<u8> = match content {
            Content::Numbered => words.flatten().collect::<Vec<u8>>().repeat(2),
            Content::Zeros => Vec::new(),
        };
        Messages { content, bytes, filler }
    }

    /// The `number`-th message of a node, accepted at this time.
    pub fn make(&self, origin: NodeId, number: u64, at: Instant) -> Payload {
        if self.content == Content::Zeros {
            return Payload::Zeros(self.bytes as u32);
        }
        let mut message = BytesMut::with_capacity(self.bytes.max(HEAD_BYTES));
        message.put_u32(origin.0 as u32);
        message.put_u64(number);
        message.put_u64(at.as_nanos());
        self.fill(origin, number, |piece| message.extend_from_slice(piece));
        message.truncate(self.bytes);
        Payload::Bytes(message.freeze())
    }

    /// Which of its origin's messages this one says it is; none if it does not say.
    pub fn number(&self, payload: &Payload) -> Option<u64> {
        if self.content == Content::Zeros || payload.len() < 12 {
            return None;
        }
        let bytes = payload.to_bytes();
        Some(u64::from_be_bytes(bytes[4..12].try_into().expect("eight bytes")))
    }

    /// Reads what should be the `number`-th message of a node.
    pub fn read(&self, origin: NodeId, number: u64, payload: &Payload) -> Reading {
        let damaged = Reading { accepted: None, verdict: Verdict::Damaged };
        if payload.len() != self.bytes {
            return damaged;
        }
        if self.content == Content::Zeros {
            let is_zero = *payload == Payload::Zeros(self.bytes as u32);
            return if is_zero { Reading { verdict: Verdict::Intact, ..damaged } } else { damaged };
        }
        let bytes = payload.to_bytes();
        let mut head = [0u8; HEAD_BYTES];
        let known = bytes.len().min(HEAD_BYTES);
        head[..known].copy_from_slice(&bytes[..known]);
        let mut expected = [0u8; 12];
        expected[..4].copy_from_slice(&(origin.0 as u32).to_be_bytes());
        expected[4..].copy_from_slice(&number.to_be_bytes());
        let is_intact = head[..known.min(12)] == expected[..known.min(12)]
            && self.is_filled(origin, number, &bytes.slice(known..));
        let accepted = (known == HEAD_BYTES).then(|| {
            let nanos = head[12..].try_into().expect("eight bytes");
            Instant::from_nanos(u64::from_be_bytes(nanos))
        });
        let verdict = if is_intact { Verdict::Intact } else { Verdict::Damaged };
        Reading { accepted, verdict }
    }

    /// Gives the filler of a message in pieces.
    fn fill(&self, origin: NodeId, number: u64, mut piece: impl FnMut(&[u8])) {
        let mut offset = mix(origin.0 << 40 ^ number) as usize % FILLER_BYTES;
        let mut left = self.bytes.saturating_sub(HEAD_BYTES);
        while left > 0 {
            let len = left.min(FILLER_BYTES);
            piece(&self.filler[offset..offset + len]);
            left -= len;
            offset = (offset + 1) % FILLER_BYTES;
        }
    }

    fn is_filled(&self, origin: NodeId, number: u64, filler: &Bytes) -> bool {
        let (mut place, mut is_filled) = (0, true);
        self.fill(origin, number, |piece| {
            is_filled &= filler.get(place..place + piece.len()) == Some(piece);
            place += piece.len();
        });
        is_filled && place == filler.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_origin_and_number_and_damage_shows() {
        for bytes in [0, 5, 20, 21, 8000, 200_000] {
            let messages = Messages::new(Content::Numbered, bytes);
            let at = Instant::from_nanos(77);
            let payload = messages.make(NodeId(3), 9, at);
            let reading = messages.read(NodeId(3), 9, &payload);
            assert_eq!(reading.verdict, Verdict::Intact, "{bytes}");
            assert_eq!(reading.accepted, (bytes >= HEAD_BYTES).then_some(at));
            if bytes >= 20 {
                assert_eq!(messages.read(NodeId(3), 8, &payload).verdict, Verdict::Damaged);
                assert_eq!(messages.read(NodeId(2), 9, &payload).verdict, Verdict::Damaged);
            }
            if bytes > HEAD_BYTES {
                let mut changed = payload.to_bytes().to_vec();
                *changed.last_mut().unwrap() ^= 1;
                let reading = messages.read(NodeId(3), 9, &changed.into());
                assert_eq!(reading.verdict, Verdict::Damaged);
            }
        }
    }
}
