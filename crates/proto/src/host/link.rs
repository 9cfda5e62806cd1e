//! The link of a simulated host, as its services share it.
//!
//! What waits at the port can be overtaken by nothing. So a host hands little over: to each node
//! [`PORT_BYTES`] by stream, and of all messages together what the link's rate permits, if the host
//! knows it. The rest waits in the [`LinkShare`]. A host of one service hands
//! over all.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Encode;
use super::message::Message;
use super::{Cx, Event, Submitted, counters, in_network};
use crate::core::{Backlog, Counters, Instant, Lane, NodeId, Outgoing, Overhead, ServiceNumber};
use crate::parts::link_share::{LinkShare, PORT_BYTES, Path, Waiting};
use crate::parts::spans::Spans;

/// Datagrams of one service that wait, in bytes.
const DATAGRAM_BYTES_MAX: usize = 4 << 20;

/// The rate of a host's link, and what a message costs of it.
#[derive(Clone, Copy, Debug)]
pub struct LinkRate {
    /// Bytes a second of all that the host sends.
    pub bytes_per_second: u64,
    /// What framing costs.
    pub overhead: Overhead,
}

/// What the services of a host send.
pub(super) struct HostLink {
    share: LinkShare<Message>,
    rate: Option<LinkRate>,
    // At least two services.
    is_shared: bool,
    // Bytes that were handed over for a stream and may still wait at the port, by node.
    at_port: BTreeMap<NodeId, Spans>,
    /// What the present call of a service counted here.
    pub(super) counted: Counters,
}

impl HostLink {
    pub(super) fn new(rate: Option<LinkRate>) -> HostLink {
        HostLink {
            share: LinkShare::new(rate.map(|rate| rate.bytes_per_second), DATAGRAM_BYTES_MAX),
            rate,
            is_shared: false,
            at_port: BTreeMap::new(),
            counted: Counters::default(),
        }
    }

    /// The host has one more service, of this weight.
    pub(super) fn add_service(&mut self, number: ServiceNumber, weight: u32, services: usize) {
        self.share.set_weight(number, weight);
        self.is_shared = services > 1;
    }

    /// Sends a message of a service, at once or when its turn comes.
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, path: Path, message: Message) {
        if !self.is_shared {
            return hand_over(cx, path, message);
        }
        let bytes = self.charge(path.lane, &message);
        if message.service == ServiceNumber::NODE {
            self.share.charge(cx.now, bytes);
            return hand_over(cx, path, message);
        }
        let is_open = is_open(cx, path);
        if self.share.admit(cx.now, path, bytes, is_open) {
            return self.hand_over(cx, path, message);
        }
        self.counted.add(counters::LINK_WAITED, 1);
        let service = message.service;
        let submitted = Box::new(Submitted { path, message: message.clone() });
        cx.outbox.events.push(Event { service, event: submitted });
        let message = Message { has_waited: true, ..message };
        let dropped = self.share.push(Waiting { service, path, bytes, message });
        self.counted.add(counters::LINK_DROPPED, dropped as u64);
    }

    /// Hands over what the link takes now. Returns the nodes whose streams took something.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>) -> BTreeSet<NodeId> {
        let mut taken = BTreeSet::new();
        while let Some(next) = self.share.pop(cx.now, |path| is_open(cx, path)) {
            let Waiting { path, message, .. } = next;
            taken.extend(path.to.filter(|_| path.lane == Lane::Stream));
            self.hand_over(cx, path, message);
        }
        taken
    }

    /// True if something waits for the stream to this node.
    pub(super) fn waits_for(&self, to: NodeId) -> bool {
        self.share.paths().any(|path| path == Path::stream(to))
    }

    /// Nodes to which something waits by stream that the port does not take now.
    pub(super) fn closed(&self, cx: &Cx<'_>) -> Vec<NodeId> {
        let closed = self.share.paths().filter(|&path| !is_open(cx, path));
        closed.filter_map(|path| path.to).collect()
    }

    /// When the rate permits what waits; `None` if nothing waits for that.
    pub(super) fn wakes_at(&self, cx: &Cx<'_>) -> Option<Instant> {
        let at = self.share.next_at();
        (!self.share.is_empty() && at > cx.now).then_some(at)
    }

    /// The stream to this node broke: what waits for it is lost, as what was on it.
    pub(super) fn break_stream(&mut self, to: NodeId) {
        self.share.discard_path(Path::stream(to));
        self.at_port.remove(&to);
    }

    /// Bytes of a service on their way by stream to a node and not on the link, while `at_port`
    /// bytes wait there for all services.
    pub(super) fn backlog_bytes(
        &self,
        service: ServiceNumber,
        to: NodeId,
        at_port: usize,
    ) -> usize {
        if !self.is_shared {
            return at_port;
        }
        let handed_over = self.at_port.get(&to).map_or(0, |spans| spans.of(service, at_port));
        self.share.waiting_bytes(service, Path::stream(to)) + handed_over
    }

    /// Bytes of a service's datagrams that wait for one receiver, while `at_port` bytes wait there
    /// for all services.
    fn datagram_backlog_bytes(&self, service: ServiceNumber, at_port: usize) -> usize {
        self.share.waiting_datagram_bytes(service).max(at_port)
    }

    fn hand_over(&mut self, cx: &mut Cx<'_>, path: Path, message: Message) {
        if let Path { to: Some(to), lane: Lane::Stream } = path {
            let spans = self.at_port.entry(to).or_default();
            spans.keep_last(cx.backlog_bytes(to));
            spans.push(message.service, Encode::wire_len(&message));
        }
        hand_over(cx, path, message);
    }

    fn charge(&self, lane: Lane, message: &Message) -> usize {
        let bytes = Encode::wire_len(message);
        self.rate.map_or(bytes, |rate| rate.overhead.charge(lane, bytes) as usize)
    }
}

/// True if the port takes a message for this path.
fn is_open(cx: &Cx<'_>, path: Path) -> bool {
    match path {
        Path { to: Some(to), lane: Lane::Stream } => cx.backlog_bytes(to) < PORT_BYTES,
        _ => true,
    }
}

fn hand_over(cx: &mut Cx<'_>, path: Path, message: Message) {
    match (path.to, message.group) {
        (Some(to), _) => cx.send(to, path.lane, message),
        (None, Some(group)) => cx.send_group(in_network(message.service, group), message),
        (None, None) => unreachable!("what goes to no node goes to a group"),
    }
}

/// The backlog of one service, with what the services of its host have sent in the present call.
pub(super) struct OwnBacklog<'a> {
    pub(super) link: &'a HostLink,
    pub(super) service: ServiceNumber,
    pub(super) behind: &'a dyn Backlog,
    pub(super) sends: &'a [Outgoing<Message>],
}

impl Backlog for OwnBacklog<'_> {
    fn backlog_bytes(&self, to: NodeId) -> usize {
        let pending = self.sends.iter().filter(|send| send.to == to && send.lane == Lane::Stream);
        let pending: usize = pending.map(|send| Encode::wire_len(&send.message)).sum();
        let at_port = self.behind.backlog_bytes(to) + pending;
        self.link.backlog_bytes(self.service, to, at_port)
    }

    fn datagram_backlog_bytes(&self) -> usize {
        self.link.datagram_backlog_bytes(self.service, self.behind.datagram_backlog_bytes())
    }
}
