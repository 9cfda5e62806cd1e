//! The node's link, as its services share it.
//!
//! A node of one service hands every message to the stream or the socket, and the protocol limits
//! what it sends. Where there are several, or the rate of the link is configured, they share it
//! ([`LinkShare`]): to each peer [`PORT_BYTES`] wait in the queue of the stream, as many in that of
//! the socket of datagrams while the kernel takes none, and of all messages together as much leaves
//! as the rate permits. The rest waits for the turn of its service.

use std::net::SocketAddr;

use bytes::Bytes;
use paceline_proto::core::{Backlog, Instant, Lane, NodeId, Overhead, ServiceNumber};
use paceline_proto::host::{Encoded, ServicePlace, counters as host_counters};
use paceline_proto::parts::link_share::{LinkShare, PORT_BYTES, Path, Waiting};

use super::datagrams::Content;
use super::peers::PeerTable;
use super::{Deadline, Driver};
use crate::counters;
use crate::datagrams::Datagrams;
use crate::record::{HEADER_BYTES, LENGTH_BYTES};
use crate::streams::outgoing::NotifiedState;

/// Messages handed over in a row.
const RELEASES_MAX: usize = 1024;

/// A message that waits for the link.
pub(super) enum Queued {
    /// A message to a node.
    Message(Encoded),
    /// A node's copy of the record of a message to a group.
    Copy(Bytes),
    /// The record of a message to a group, and its multicast address.
    Multicast(SocketAddr, Bytes),
}

/// The link of a node.
pub(super) struct Link {
    pub(super) share: LinkShare<Queued>,
    // When the release of what waits is due, if it is.
    wakes_at: Instant,
}

impl Link {
    /// A link of this rate, in bits a second, if it is known.
    pub(super) fn new(bits_per_second: Option<u64>, datagram_bytes_max: usize) -> Link {
        let bytes_per_second = bits_per_second.map(|rate| rate / 8);
        Link { share: LinkShare::new(bytes_per_second, datagram_bytes_max), wakes_at: Instant::MAX }
    }
}

impl Driver {
    /// True if messages may have to wait for their turn.
    fn shares_link(&self) -> bool {
        self.link.share.is_paced() || self.chassis.services.len() > 1
    }

    /// True if a message of this many bytes leaves now. If not the caller has to
    /// [queue](Driver::wait_for_link) it. The node's own messages always leave.
    pub(super) fn admits(&mut self, service: ServiceNumber, path: Path, bytes: usize) -> bool {
        let (now, bytes) = (self.chassis.now, charge(path.lane, bytes));
        let leaves = if !self.shares_link() {
            true
        } else if service == ServiceNumber::NODE {
            self.link.share.charge(now, bytes);
            true
        } else {
            let is_open = match path.lane {
                // While the kernel takes datagrams a turn of the driver gathers any number.
                Lane::Datagram => !self.datagrams.is_held_up(),
                Lane::Stream => is_open(&self.peers, path),
            };
            self.link.share.admit(now, path, bytes, is_open)
        };
        if leaves {
            self.link_counted.add(host_counters::LINK_SENT, bytes as u64);
        }
        leaves
    }

    /// Lets a message wait for the turn of its service.
    pub(super) fn wait_for_link(
        &mut self,
        (service, path): (ServiceNumber, Path),
        bytes: usize,
        message: Queued,
    ) {
        let bytes = charge(path.lane, bytes);
        if let Path { to: Some(to), lane: Lane::Stream } = path
            && self.link.share.waiting_bytes(service, path) + bytes
                > self.config.stream_queue_bytes_max
            && let Some(place) = self.peers.place(to)
        {
            self.chassis.counters.add(counters::STREAM_QUEUE_OVERFLOW, 1);
            return self.lose_outgoing(place);
        }
        self.link_counted.add(host_counters::LINK_WAITED, 1);
        let dropped = self.link.share.push(Waiting { service, path, bytes, message });
        self.link_counted.add(host_counters::LINK_DROPPED, dropped as u64);
    }

    /// Hands over what the link takes now; false if that is nothing.
    pub(super) fn release_link(&mut self) -> bool {
        let mut has_released = false;
        for _ in 0..RELEASES_MAX {
            if self.link.share.is_empty() {
                return has_released;
            }
            let (now, peers) = (self.chassis.now, &self.peers);
            let takes_datagrams = !self.datagrams.is_full();
            let next = self.link.share.pop(now, |path| match path.lane {
                Lane::Datagram => takes_datagrams,
                Lane::Stream => is_open(peers, path),
            });
            let Some(next) = next else { break };
            has_released = true;
            self.hand_over(next);
        }
        let next_at = self.link.share.next_at();
        if next_at > self.chassis.now {
            self.wake_link_at(next_at);
        }
        has_released
    }

    /// The turn's share is used up: another one goes on, if something waits.
    pub(super) fn resume_link(&mut self) {
        if !self.link.share.is_empty() {
            self.wake_link_at(self.chassis.now);
        }
    }

    fn wake_link_at(&mut self, at: Instant) {
        if self.link.wakes_at > at {
            self.link.wakes_at = at;
            self.deadlines.set(at, Deadline::Link);
        }
    }

    /// The rate permits what waits. The turn releases it.
    pub(super) fn wake_link(&mut self) {
        self.link.wakes_at = Instant::MAX;
    }

    fn hand_over(&mut self, next: Waiting<Queued>) {
        let Waiting { service, path, bytes, message } = next;
        self.chassis.services.count(service, host_counters::LINK_SENT, bytes as u64);
        match (message, path.to) {
            (Queued::Multicast(to, record), _) => self.send_multicast(to, &record),
            (Queued::Message(message), Some(to)) => {
                self.send_message((to, path.lane), service, &message);
            }
            (Queued::Copy(record), Some(to)) => {
                if let Some(place) = self.peers.place(to) {
                    let copies = self.chassis.draw(place, Lane::Datagram);
                    self.send_datagram(place, Content::Record(record), copies);
                }
            }
            (Queued::Message(_) | Queued::Copy(_), None) => {
                unreachable!("only a multicast has no receiver")
            }
        }
    }

    /// The stream to a peer broke: what waits for it is lost, as what was on it. Returns its bytes.
    pub(super) fn lose_waiting(&mut self, to: NodeId) -> usize {
        self.link.share.discard_path(Path::stream(to))
    }

    /// Moves the services whose backlog to a peer has fallen as far as they want into `into`.
    pub(super) fn take_drained(&mut self, place: usize, into: &mut Vec<ServicePlace>) {
        let (is_shared, link) = (self.shares_link(), &self.link.share);
        let peer = self.peers.at(place);
        let path = Path::stream(peer.node);
        peer.outgoing.take_drained(into, |outgoing, number| {
            outgoing.backlog_of(number, is_shared) + link.waiting_bytes(number, path)
        });
    }

    /// The backlogs of one service.
    pub(super) fn own_backlog(&self, service: ServiceNumber) -> impl Backlog {
        let is_shared = self.shares_link();
        let (peers, link, datagrams) = (&self.peers, &self.link.share, &self.datagrams);
        OwnBacklog { peers, link, datagrams, service, is_shared }
    }
}

/// What a record of this many bytes takes of the link, with its frame.
fn charge(lane: Lane, bytes: usize) -> usize {
    let length = if lane == Lane::Stream { LENGTH_BYTES } else { 0 };
    Overhead::Ethernet.charge(lane, length + HEADER_BYTES + bytes) as usize
}

/// True if a message for this stream does not wait behind others. One for a peer that is down does
/// not: it is discarded.
fn is_open(peers: &PeerTable, path: Path) -> bool {
    let Some(outgoing) = path.to.and_then(|to| peers.outgoing(to)) else { return true };
    outgoing.notified_state == NotifiedState::Down || outgoing.queued_bytes() < PORT_BYTES
}

/// What one service has queued.
struct OwnBacklog<'a> {
    peers: &'a PeerTable,
    link: &'a LinkShare<Queued>,
    datagrams: &'a Datagrams,
    service: ServiceNumber,
    is_shared: bool,
}

impl Backlog for OwnBacklog<'_> {
    fn backlog_bytes(&self, to: NodeId) -> usize {
        let outgoing = self.peers.outgoing(to);
        let queued =
            outgoing.map_or(0, |outgoing| outgoing.backlog_of(self.service, self.is_shared));
        queued + self.link.waiting_bytes(self.service, Path::stream(to))
    }

    fn datagram_backlog_bytes(&self) -> usize {
        if self.is_shared {
            self.link.waiting_datagram_bytes(self.service)
        } else {
            self.datagrams.held_bytes()
        }
    }
}
