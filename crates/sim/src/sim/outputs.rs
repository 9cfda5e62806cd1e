//! Executes the outputs of handler calls.

use std::time::Duration;

use paceline_proto::core::{
    Counters, GroupId, Instant, Lane, NodeId, Protocol, Wire, encode_to_bytes,
};

use super::{ArmedTimer, Codec, Drain, Event, FaultSupport, Life, Place, Sim};
use crate::counters;
use crate::network::{Arrivals, Multicast, NextQueued, Queued, Sent, To};
use crate::observer::{Input, Observer};
use crate::tcp::Delivered;

impl<P: Protocol> Sim<'_, P> {
    pub(super) fn carry_out(&mut self, node: NodeId, observer: &mut dyn Observer<P>) {
        // Each list is taken out only if there is something in it, and put back with its capacity.
        if !self.outbox.links.memberships.is_empty() {
            let mut memberships = std::mem::take(&mut self.outbox.links.memberships);
            for (group, membership) in memberships.drain(..) {
                observer.on_membership(self.now, node, group, membership);
                self.groups.set(group, node, membership);
            }
            self.outbox.links.memberships = memberships;
        }
        let count = self.outbox.sends.len() + self.outbox.group_sends.len();
        assert!(count <= self.config.sends_per_call_max, "{count} sends by one call at {node}");
        if !self.outbox.group_sends.is_empty() {
            let mut sends = std::mem::take(&mut self.outbox.group_sends);
            for (group, message) in sends.drain(..) {
                observer.on_send_group(self.now, node, group, &message);
                self.send_group(node, group, message);
            }
            self.outbox.group_sends = sends;
        }
        if !self.outbox.sends.is_empty() {
            let mut sends = std::mem::take(&mut self.outbox.sends);
            for send in sends.drain(..) {
                if self.is_observed {
                    observer.on_send(self.now, node, send.to, send.lane, &send.message);
                }
                self.send(node, send.to, send.lane, send.message);
            }
            self.outbox.sends = sends;
        }
        if !self.outbox.timers.is_empty() {
            let incarnation = self.nodes[node.index()].starts;
            let mut timers = std::mem::take(&mut self.outbox.timers);
            for (at, timer) in timers.drain(..) {
                self.push_timer(at, ArmedTimer { node: Place::of(node), incarnation, timer });
            }
            self.outbox.timers = timers;
        }
        if !self.outbox.events.is_empty() {
            let mut events = std::mem::take(&mut self.outbox.events);
            for event in events.drain(..) {
                self.fold(6, node, 0);
                if self.is_observed {
                    observer.on_event(self.now, node, &event, &mut self.reply);
                }
            }
            self.outbox.events = events;
        }
        if !self.outbox.links.drains.is_empty() {
            let mut drains = std::mem::take(&mut self.outbox.links.drains);
            for (to, below_bytes) in drains.drain(..) {
                let look_at = Instant::MAX;
                // A backlog is never below nothing.
                let wanted = Drain { below_bytes: below_bytes.max(1), look_at };
                self.drains.entry((node, to)).or_insert(wanted).below_bytes = wanted.below_bytes;
                self.watch_drain(node, to);
            }
            self.outbox.links.drains = drains;
        }
        // Where a node is, the simulator knows.
        self.outbox.links.contacts.clear();
        for peer in std::mem::take(&mut self.outbox.links.disconnects) {
            self.counters.add(counters::DISCONNECTED, 1);
            if self.config.faults == FaultSupport::Any {
                self.reset(peer, node, Duration::from_secs(1));
            }
        }
        if !self.outbox.counters.is_empty() {
            self.outbox.counters.drain_into(&mut self.counters);
        }
    }

    /// True if the node crashes in this call: of what it asked for only that is left which is
    /// carried out before.
    pub(super) fn cut_short(&mut self, node: NodeId) -> bool {
        let Some(&(sends, tells)) = self.amid.get(&node) else { return false };
        let outbox = &mut self.outbox;
        if outbox.group_sends.len() + outbox.sends.len() <= sends {
            return false;
        }
        outbox.group_sends.truncate(sends);
        outbox.sends.truncate(sends - outbox.group_sends.len());
        outbox.timers.clear();
        outbox.links.drains.clear();
        outbox.counters = Counters::default();
        if !tells {
            outbox.events.clear();
        }
        true
    }

    pub(super) fn take_replies(&mut self, node: NodeId, observer: &mut dyn Observer<P>) {
        if !self.is_alive(node) {
            self.reply.submit = None;
        }
        // Looked at first: to take out nothing would move as many bytes as a command has.
        while self.reply.submit.is_some()
            && let Some(command) = self.reply.submit.take()
        {
            self.fold(3, node, 0);
            self.show(node, &Input::Command(&command), observer);
            self.call_once(node, observer, |protocol, cx| protocol.handle_command(cx, command));
        }
        if !self.reply.commands.is_empty() {
            let mut commands = std::mem::take(&mut self.reply.commands);
            for (after, node, command) in commands.drain(..) {
                let command = Box::new(command);
                self.push(self.now + after, Event::Command { node, command });
            }
            self.reply.commands = commands;
        }
        while let Some((after, node)) = self.reply.wakes.pop() {
            self.push(self.now + after, Event::Wake { node });
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, lane: Lane, message: P::Message) {
        if to.index() >= self.nodes.len() {
            return self.counters.add(counters::UNKNOWN_DESTINATION, 1);
        }
        let bytes = message.wire_len();
        if lane == Lane::Datagram && bytes > self.config.datagram_bytes_max {
            return self.counters.add(counters::DATAGRAM_OVERSIZED, 1);
        }
        let message = self.through_codec(message);
        let queued = Queued { to: To::Node(to), lane, message, bytes };
        let sent = self.network.send(self.now, from, to, queued);
        self.dispatch(from, to, lane, bytes, sent);
    }

    fn send_group(&mut self, from: NodeId, group: GroupId, message: P::Message) {
        let bytes = message.wire_len();
        if bytes > self.config.datagram_bytes_max {
            return self.counters.add(counters::DATAGRAM_OVERSIZED, 1);
        }
        let lane = Lane::Datagram;
        let message = self.through_codec(message);
        if self.network.config.multicast == Multicast::FanOut {
            let mut receivers = std::mem::take(&mut self.receivers);
            self.groups.list(group, from, &mut receivers);
            for &to in &receivers {
                let queued = Queued { to: To::Node(to), lane, message: message.clone(), bytes };
                let sent = self.network.send(self.now, from, to, queued);
                self.dispatch(from, to, lane, bytes, sent);
            }
            self.receivers = receivers;
            return;
        }
        let queued = Queued { to: To::Group(group), lane, message, bytes };
        match self.network.wait(self.now, from, queued) {
            Ok(Some(at)) => self.push(at, Event::PortFree { node: from }),
            Ok(None) => {}
            Err(queued) => self.multicast(from, group, queued.message, bytes),
        }
    }

    /// Puts a message on the way to all members of a group. Each has its own loss and delay.
    fn multicast(&mut self, from: NodeId, group: GroupId, message: P::Message, bytes: usize) {
        let leaves = self.network.leave_for_group(self.now, from, bytes);
        let mut receivers = std::mem::take(&mut self.receivers);
        self.groups.list(group, from, &mut receivers);
        for &to in &receivers {
            match self.network.reach_member(from, to, bytes, leaves) {
                Ok(arrivals) => {
                    self.arrive(from, to, Lane::Datagram, arrivals, bytes, message.clone());
                }
                Err(counter) => self.counters.add(counter, 1),
            }
        }
        self.receivers = receivers;
    }

    pub(super) fn dispatch(
        &mut self,
        from: NodeId,
        to: NodeId,
        lane: Lane,
        bytes: usize,
        sent: Sent<P::Message>,
    ) {
        match sent {
            Sent::Arrives(at, message) => self.arrive(from, to, lane, at, bytes, message),
            Sent::Waits { port_free: Some(at) } => self.push(at, Event::PortFree { node: from }),
            Sent::Stalls(why) if why == counters::SEVERED => self.counters.add(why, 1),
            Sent::Waits { port_free: None } | Sent::Stalls(_) => {}
            Sent::Dropped(counter) => self.counters.add(counter, 1),
        }
    }

    fn arrive(
        &mut self,
        from: NodeId,
        to: NodeId,
        lane: Lane,
        at: Arrivals,
        bytes: usize,
        message: P::Message,
    ) {
        let bytes = bytes as u32;
        let incarnation = self.nodes[from.index()].starts;
        let stream = match lane {
            Lane::Stream => self.network.stream_epoch(from, to),
            Lane::Datagram => 0,
        };
        let (from, to) = (Place::of(from), Place::of(to));
        let [first, second] = at;
        if let Some(at) = second {
            let message = message.clone();
            self.push(at, Event::Arrive { from, to, lane, incarnation, stream, bytes, message });
        }
        if let Some(at) = first {
            self.push(at, Event::Arrive { from, to, lane, incarnation, stream, bytes, message });
        }
    }

    fn through_codec(&self, message: P::Message) -> P::Message {
        if self.config.codec == Codec::Typed {
            return message;
        }
        let bytes = encode_to_bytes(&message);
        assert_eq!(bytes.len(), message.wire_len(), "wire_len is not what encode wrote");
        let decoded = P::decode(&self.shared, bytes.clone()).expect("what was encoded decodes");
        assert_eq!(encode_to_bytes(&decoded), bytes, "the encoding is not canonical");
        decoded
    }

    pub(super) fn port_free(&mut self, node: NodeId, observer: &mut dyn Observer<P>) {
        loop {
            match self.network.next_queued(self.now, node) {
                NextQueued::Later(at) => return self.push(at, Event::PortFree { node }),
                NextQueued::Nothing => return,
                NextQueued::Packet(to) => {
                    self.take_from_streams();
                    self.check_drained(node, to, observer);
                }
                NextQueued::Message(queued) => match queued.to {
                    To::Node(to) => {
                        let (lane, bytes) = (queued.lane, queued.bytes);
                        let sent = self.network.transmit(self.now, node, to, queued);
                        self.dispatch(node, to, lane, bytes, sent);
                        self.check_drained(node, to, observer);
                    }
                    To::Group(group) => {
                        self.multicast(node, group, queued.message, queued.bytes);
                    }
                },
            }
        }
    }

    /// Takes from streams that behave as TCP what is due, what has come, and what they counted.
    pub(super) fn take_from_streams(&mut self) {
        let Some(tcp) = self.network.tcp_mut() else { return };
        let mut due = std::mem::take(&mut tcp.due);
        let mut starts = std::mem::take(&mut tcp.starts);
        let mut delivered = std::mem::take(&mut tcp.delivered);
        for (counter, times) in tcp.counted.drain(..) {
            self.counters.add(counter, times);
        }
        for (at, slot) in due.drain(..) {
            self.push(at, Event::Packet { slot });
        }
        for node in starts.drain(..) {
            self.push(self.network.port_free_at(node), Event::PortFree { node });
        }
        for Delivered { from, to, message, bytes } in delivered.drain(..) {
            self.arrive(from, to, Lane::Stream, [Some(self.now), None], bytes, message);
        }
        // Each list is put back with its capacity.
        if let Some(tcp) = self.network.tcp_mut() {
            (tcp.due, tcp.starts, tcp.delivered) = (due, starts, delivered);
        }
    }

    /// Sees to it that a drain request is looked at when its time may have come.
    pub(super) fn watch_drain(&mut self, node: NodeId, to: NodeId) {
        let Some(&Drain { below_bytes, look_at }) = self.drains.get(&(node, to)) else {
            return;
        };
        let at = if self.network.backlog_bytes(self.now, node, to) < below_bytes {
            self.now
        } else if let Some(at) = self.network.drains_at(node, to, below_bytes) {
            at.max(self.now + Duration::from_nanos(1))
        } else {
            return;
        };
        if at < look_at {
            self.drains.insert((node, to), Drain { below_bytes, look_at: at });
            self.push(at, Event::Drained { node, to });
        }
    }

    /// The time has come at which a backlog was to have fallen; more may have been sent since.
    pub(super) fn look_at_drain(
        &mut self,
        node: NodeId,
        to: NodeId,
        observer: &mut dyn Observer<P>,
    ) {
        if let Some(drain) = self.drains.get_mut(&(node, to))
            && drain.look_at <= self.now
        {
            drain.look_at = Instant::MAX;
        }
        self.check_drained(node, to, observer);
        self.watch_drain(node, to);
    }

    fn check_drained(&mut self, node: NodeId, to: NodeId, observer: &mut dyn Observer<P>) {
        let Some(&Drain { below_bytes, .. }) = self.drains.get(&(node, to)) else {
            return;
        };
        if self.network.backlog_bytes(self.now, node, to) >= below_bytes {
            return;
        }
        match self.nodes[node.index()].life {
            Life::Crashed => return,
            Life::Paused => return self.hold(node, Event::Drained { node, to }),
            Life::Running => {}
        }
        self.drains.remove(&(node, to));
        self.fold(7, node, to.0);
        self.show(node, &Input::Drained(to), observer);
        self.call(node, observer, |protocol, cx| protocol.handle_drained(cx, to));
    }
}
