use std::collections::{BTreeMap, VecDeque};

use paceline_proto::core::{Instant, NodeId};

/// Stream bytes that wait for the links of a mesh: those of messages whose first bit has not left.
/// Datagrams occupy a link too, but are no backlog of a stream.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    streams: BTreeMap<(NodeId, NodeId), Stream>,
    // Streams for which nothing waits any more are forgotten once there are more than this.
    streams_max: usize,
}

/// The messages of one stream that waited when they were sent. Counts of bytes run on from its
/// first one.
#[derive(Debug, Default)]
struct Stream {
    // When each begins to leave, and all bytes up to its end; oldest first.
    messages: VecDeque<(Instant, u64)>,
    left: u64,
    accepted: u64,
}

const STREAMS_MIN: usize = 64;

impl Waiting {
    /// A message is accepted that begins to leave later, at `start`, and after all before it.
    pub(super) fn push(
        &mut self,
        now: Instant,
        from: NodeId,
        to: NodeId,
        start: Instant,
        bytes: usize,
    ) {
        if self.streams.len() > self.streams_max {
            let waits = |stream: &Stream| stream.messages.back().is_some_and(|last| last.0 > now);
            self.streams.retain(|_, stream| waits(stream));
            self.streams_max = (2 * self.streams.len()).max(STREAMS_MIN);
        }
        let stream = self.streams.entry((from, to)).or_default();
        while let Some(&(_, end)) = stream.messages.front().filter(|first| first.0 <= now) {
            stream.left = end;
            stream.messages.pop_front();
        }
        stream.accepted += bytes as u64;
        stream.messages.push_back((start, stream.accepted));
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self, now: Instant, from: NodeId, to: NodeId) -> usize {
        let Some(stream) = self.streams.get(&(from, to)) else { return 0 };
        let gone = stream.messages.partition_point(|&(start, _)| start <= now);
        let left = gone.checked_sub(1).map_or(stream.left, |last| stream.messages[last].1);
        (stream.accepted - left) as usize
    }

    /// The instant from which less than this many bytes wait, if nothing is added.
    pub(super) fn falls_below(&self, from: NodeId, to: NodeId, bytes: usize) -> Option<Instant> {
        let stream = self.streams.get(&(from, to))?;
        let stays = |&(_, end): &(Instant, u64)| stream.accepted - end >= bytes.max(1) as u64;
        let first = stream.messages.partition_point(stays);
        stream.messages.get(first).map(|&(start, _)| start)
    }

    /// A stream broke, or its sender is gone: nothing waits for it.
    pub(super) fn forget(&mut self, is_gone: impl Fn(NodeId, NodeId) -> bool) {
        self.streams.retain(|&(from, to), _| !is_gone(from, to));
    }

    /// Bytes of memory it holds.
    pub(super) fn memory_bytes(&self) -> usize {
        let messages: usize = self.streams.values().map(|stream| stream.messages.capacity()).sum();
        let stream = size_of::<((NodeId, NodeId), Stream)>();
        self.streams.len() * stream + messages * size_of::<(Instant, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_message_waits_until_its_first_bit_leaves() {
        let mut waiting = Waiting::default();
        (1..=4).for_each(|i| waiting.push(at(0), A, B, at(100 * i), 10));
        let bytes = |waiting: &Waiting, nanos| waiting.bytes(at(nanos), A, B);
        assert_eq!((bytes(&waiting, 0), bytes(&waiting, 99), bytes(&waiting, 100)), (40, 40, 30));
        waiting.push(at(250), A, B, at(500), 7);
        assert_eq!((bytes(&waiting, 250), bytes(&waiting, 400), bytes(&waiting, 500)), (27, 7, 0));
        assert_eq!(waiting.bytes(at(250), B, A), 0);
    }

    #[test]
    fn it_falls_below_a_bound_when_enough_messages_began_to_leave() {
        let mut waiting = Waiting::default();
        (1..=4).for_each(|i| waiting.push(at(0), A, B, at(100 * i), 10));
        for (below, nanos) in [(41, 100), (31, 100), (30, 200), (11, 300), (10, 400), (0, 400)] {
            let falls = waiting.falls_below(A, B, below);
            assert_eq!(falls, Some(at(nanos)), "below {below}");
        }
        assert_eq!(waiting.falls_below(B, A, 1), None);
    }

    #[test]
    fn streams_for_which_nothing_waits_take_no_room() {
        let mut waiting = Waiting::default();
        for step in 0..10_000 {
            waiting.push(at(step), NodeId(step), B, at(step + 20), 10);
        }
        assert!(waiting.streams.len() <= 2 * STREAMS_MIN, "{}", waiting.streams.len());
        assert_eq!(waiting.bytes(at(9_999), NodeId(9_999), B), 10);
        waiting.forget(|from, _| from == NodeId(9_999));
        assert_eq!(waiting.bytes(at(9_999), NodeId(9_999), B), 0);
    }
}
