//! Counts of a node.

use std::sync::{Mutex, PoisonError};

use paceline_proto::core::{Counters, Instant};

/// Traffic through a node's sockets since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of turns in which the driver did something.
    pub turns: u64,
    /// Bytes read from streams, headers included.
    pub stream_bytes_in: u64,
    /// Bytes written to streams, headers included.
    pub stream_bytes_out: u64,
    /// Messages received on streams.
    pub stream_messages_in: u64,
    /// Messages queued for streams.
    pub stream_messages_out: u64,
    /// Read calls on streams.
    pub stream_reads: u64,
    /// Write calls on streams.
    pub stream_writes: u64,
    /// Bytes of datagrams received, record headers included where they exist. A joined node
    /// receives its own multicasts too, which count here.
    pub datagram_bytes_in: u64,
    /// Bytes of datagrams sent, record headers included where there are any.
    pub datagram_bytes_out: u64,
    /// Datagrams received.
    pub datagrams_in: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Messages that joined another one's datagram.
    pub datagram_messages_bundled: u64,
    /// Receive calls on UDP sockets.
    pub datagram_receives: u64,
    /// Send calls on the UDP socket.
    pub datagram_sends: u64,
}

/// Bytes that a node holds at present. Unlike counts they can fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Events that the application has not received and that no credit bounds.
    pub events_bytes: usize,
    /// Incomplete records of accepted streams: the buffers that they are read into.
    pub records_bytes: usize,
    /// Backlogs of the streams to peers.
    pub streams_bytes: usize,
    /// Datagrams that wait for the proof of an address.
    pub proofs_bytes: usize,
    /// Datagrams that wait for the socket.
    pub datagrams_bytes: usize,
    /// Messages that wait for the turn of their service on the link.
    pub link_bytes: usize,
}

impl Held {
    /// The bytes that
    /// [`NodeConfig::with_memory_bytes_max`](crate::NodeConfig::with_memory_bytes_max) bounds: all
    /// but the events.
    pub fn of_peers(&self) -> usize {
        self.records_bytes
            + self.streams_bytes
            + self.proofs_bytes
            + self.datagrams_bytes
            + self.link_bytes
    }
}

/// A snapshot of a node's counts, taken at the end of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Traffic through the sockets.
    pub traffic: Traffic,
    /// Bytes that it holds.
    pub held: Held,
    /// The protocol's counters and the driver's. The driver's begin with `record_`, `stream_`,
    /// `datagram_`, `accept_`, `peer_`, `proof_`, `send_`, `event_`, `memory_`, `group_`,
    /// `multicast_`, `emulated_`, `faces_`, `host_` or `detector_`.
    pub counters: Counters,
}

/// The snapshot that a driver shares with all handles: its own counters, no protocol's.
#[derive(Debug, Default)]
pub(crate) struct SharedStats(Mutex<Stats>);

impl SharedStats {
    /// The driver's side, once a turn.
    pub(crate) fn publish(&self, traffic: Traffic, held: Held, counted: &mut Counters) {
        let mut stats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (stats.traffic, stats.held) = (traffic, held);
        if !counted.is_empty() {
            counted.drain_into(&mut stats.counters);
        }
    }

    /// The snapshot.
    pub(crate) fn snapshot(&self) -> Stats {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Admits one warning a second for each of `KINDS` kinds of refusal, so that a peer cannot fill a
/// log.
#[derive(Debug)]
pub(crate) struct WarnLimit<const KINDS: usize> {
    silent_until: [Instant; KINDS],
}

impl<const KINDS: usize> WarnLimit<KINDS> {
    const EVERY: std::time::Duration = std::time::Duration::from_secs(1);

    /// No warning was written yet.
    pub(crate) fn new() -> Self {
        WarnLimit { silent_until: [Instant::ZERO; KINDS] }
    }

    /// True if a warning about this kind of refusal may be written now.
    pub(crate) fn admits(&mut self, kind: usize, now: Instant) -> bool {
        let silent_until = &mut self.silent_until[kind];
        let admitted = now >= *silent_until;
        if admitted {
            *silent_until = now + Self::EVERY;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_warning_of_a_kind_waits_a_second() {
        let mut limit = WarnLimit::<2>::new();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        assert!(limit.admits(0, at(0)));
        assert!(!limit.admits(0, at(999)));
        assert!(limit.admits(1, at(999)));
        assert!(limit.admits(0, at(1000)));
    }
}
