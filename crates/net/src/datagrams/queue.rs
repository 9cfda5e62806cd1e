//! The send queue of a UDP socket: the host's own datagrams first, then those of its services.

use std::net::SocketAddr;

use bytes::BytesMut;
use paceline_proto::core::Counters;

use crate::datagrams::trains::Trains;
use crate::sys::Part;

/// Whether a datagram waits behind those of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// It does not: the host's own, of its failure detector and about sessions and addresses. They
    /// are short and few, and what they are for depends on when they arrive.
    Control,
    /// It does: a message of a service.
    Data,
}

/// What waits to be sent, each part bounded by itself.
#[derive(Debug)]
pub(crate) struct SendQueue {
    control: Trains,
    /// Messages of services.
    pub(crate) data: Trains,
}

impl SendQueue {
    /// An empty queue. Each part holds at most `queue_bytes_max` bytes, in trains of at most
    /// `length_max` datagrams.
    pub(crate) fn new(queue_bytes_max: usize, length_max: usize) -> SendQueue {
        let empty = || Trains::new(queue_bytes_max, length_max);
        SendQueue { control: empty(), data: empty() }
    }

    /// Queues one datagram of `bytes` bytes, which `write` appends.
    pub(crate) fn push(
        &mut self,
        urgency: Urgency,
        (to, bytes): (SocketAddr, usize),
        counters: &mut Counters,
        write: impl FnOnce(&mut BytesMut),
    ) {
        match urgency {
            Urgency::Control => self.control.push(to, bytes, counters, write),
            Urgency::Data => self.data.push(to, bytes, counters, write),
        }
    }

    /// Brings all datagrams into the form in which they leave ([`Trains::cover`]).
    pub(crate) fn cover(
        &mut self,
        counters: &mut Counters,
        mut cover: impl FnMut(&[u8], &mut BytesMut),
    ) {
        self.control.cover(counters, &mut cover);
        self.data.cover(counters, cover);
    }

    /// The parts of the queue in order, each with at most `segments_max` datagrams.
    pub(crate) fn parts(&self, segments_max: usize) -> impl Iterator<Item = Part<'_>> {
        self.control.parts(segments_max).chain(self.data.parts(segments_max))
    }

    /// Removes the first part, of this many bytes.
    pub(crate) fn remove_part(&mut self, bytes: usize) {
        if self.control.is_empty() {
            self.data.remove_part(bytes);
        } else {
            self.control.remove_part(bytes);
        }
    }

    /// Drops the oldest train, of services if there is one; returns its number of datagrams, 0 if
    /// no train waits.
    pub(crate) fn drop_oldest(&mut self) -> usize {
        match self.data.drop_oldest() {
            0 => self.control.drop_oldest(),
            dropped => dropped,
        }
    }

    /// Bytes that wait.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.control.queued_bytes() + self.data.queued_bytes()
    }

    /// True if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.data.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_own_datagrams_leave_before_those_of_services_and_are_dropped_after_them() {
        let mut queue = SendQueue::new(2000, 64);
        let mut counters = Counters::default();
        let to = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut push = |queue: &mut SendQueue, urgency, port| {
            let write = |out: &mut BytesMut| out.extend_from_slice(&[7; 500]);
            queue.push(urgency, (to(port), 500), &mut counters, write);
        };
        for (urgency, port) in
            [(Urgency::Data, 1), (Urgency::Data, 2), (Urgency::Control, 3), (Urgency::Data, 1)]
        {
            push(&mut queue, urgency, port);
        }
        let order = |queue: &SendQueue| -> Vec<_> {
            queue.parts(64).map(|part| (part.to.port(), part.datagrams())).collect()
        };
        assert_eq!(order(&queue), [(3, 1), (1, 2), (2, 1)]);
        // A flood of one kind drops none of the other.
        (0..9).for_each(|_| push(&mut queue, Urgency::Data, 4));
        assert_eq!((order(&queue)[0], queue.queued_bytes()), ((3, 1), 500 + 4500));
        queue.remove_part(500);
        push(&mut queue, Urgency::Control, 5);
        assert_eq!(order(&queue), [(5, 1), (4, 9)]);
        assert_eq!([queue.drop_oldest(), queue.drop_oldest(), queue.drop_oldest()], [9, 1, 0]);
        assert!(queue.is_empty() && queue.queued_bytes() == 0);
    }
}
