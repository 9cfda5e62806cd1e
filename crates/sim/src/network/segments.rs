//! Streams that behave as TCP, on the ports of a star.

use paceline_proto::core::{Copies, Instant, Lane, NodeId, Wire};

use super::config::charge_segment;
use super::{Network, NextQueued, Queued, To, has_room};
use crate::counters;
use crate::tcp::{MSS, Outgoing, Tcp, Turn};

impl<M: Wire> Network<M> {
    /// Takes a message into its stream, or lets a datagram wait for its node's port. Says when to
    /// call [`Network::next_queued`], if nothing does yet.
    pub(super) fn submit(
        &mut self,
        now: Instant,
        from: NodeId,
        queued: Queued<M>,
    ) -> Option<Instant> {
        let tcp = self.tcp.as_mut().expect("streams behave as TCP");
        match (queued.lane, queued.to) {
            (Lane::Stream, To::Node(to)) => tcp.write(from, to, queued.message, queued.bytes),
            _ => tcp.wait(from, queued),
        }
        // Only this node's port has something more to do.
        tcp.starts.pop().map(|node| self.ports[node.index()].sends_until.max(now))
    }

    /// The free port of `from` sends the next packet, or gives the datagram whose turn it is.
    pub(super) fn next_packet(&mut self, now: Instant, from: NodeId) -> NextQueued<M> {
        let tcp = self.tcp.as_mut().expect("streams behave as TCP");
        match tcp.next_turn(now, from) {
            None => NextQueued::Nothing,
            Some(Turn::Message(queued)) => NextQueued::Message(queued),
            Some(Turn::Packet(outgoing)) => {
                self.put_out(now, from, outgoing);
                NextQueued::Packet(outgoing.to)
            }
        }
    }

    /// Puts a packet on its way through both ports. What happens to single messages of a link
    /// happens to packets here: loss, copies, reordering.
    fn put_out(&mut self, now: Instant, from: NodeId, outgoing: Outgoing) {
        let Outgoing { to, payload_bytes, packet } = outgoing;
        let wire_bytes = charge_segment(self.config.overhead, payload_bytes);
        let leaves = self.ports[from.index()].sends_until.max(now);
        let airtime = self.airtime(wire_bytes);
        self.ports[from.index()].sends_until = leaves + airtime;
        let copies = self.draw(from, to, Lane::Datagram);
        let start = leaves.max(self.ports[to.index()].receives_until);
        let rate = self.config.rate_bits_per_second;
        // Up to the time of a full segment, so that flows do not fall into step: Floyd and
        // Jacobson, *On Traffic Phase Effects in Packet-Switched Gateways*, 1992, section 4.
        let processing_max = self.airtime(charge_segment(self.config.overhead, MSS));
        let tcp = self.tcp.as_mut().expect("streams behave as TCP");
        if !has_room(tcp.config.port_bytes_max, rate, start - leaves, wire_bytes) {
            return tcp.counted.push((counters::PORT_FULL, 1));
        }
        let delays = match copies {
            Err(reason) => return tcp.counted.push((reason, 1)),
            Ok(Copies::None) => [None, None],
            Ok(Copies::One(delay)) => [Some(delay), None],
            Ok(Copies::Two(first, second)) => [Some(first), Some(second)],
        };
        let arrival = start + airtime;
        self.ports[to.index()].receives_until = arrival;
        let processing = processing_max.mul_f64(tcp.rng.unit());
        let seen = (arrival + processing).max(tcp.seen_until[to.index()]);
        tcp.seen_until[to.index()] = seen;
        if delays == [None; 2] {
            tcp.counted.push((counters::LOST, 1));
        }
        for delay in delays.into_iter().flatten() {
            tcp.schedule(seen + delay, packet);
        }
    }

    /// The time of a packet or timer has come; its number came from [`Tcp::due`].
    pub(crate) fn handle_packet(&mut self, now: Instant, slot: u32) {
        self.tcp.as_mut().expect("streams behave as TCP").handle(now, slot);
    }

    /// When the port of a node is free.
    pub(crate) fn port_free_at(&self, node: NodeId) -> Instant {
        self.ports[node.index()].sends_until
    }

    /// The streams, where they behave as TCP.
    pub(crate) fn tcp_mut(&mut self) -> Option<&mut Tcp<M, Queued<M>>> {
        self.tcp.as_mut()
    }
}
