//! One service of hosts that run several, as the application and the checkers of that service see
//! it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Counters, GroupId, Instant, Lane, NodeId, Protocol, ServiceNumber};
use paceline_proto::host::{self, Host, HostInput, Mailbox, Message, Submitted, Typed};
use paceline_proto::parts::link_share::Path;

use crate::fault::Fault;
use crate::observer::{Input, Observer, Reply};
use crate::sim::Sim;

/// A protocol in which a [`Host`] can be found: itself, or what wraps it.
pub trait HostNode:
    Protocol<
        Message = Message,
        Timer = host::Timer,
        Command = host::Command,
        Event = host::Event,
        Shared = (),
    >
{
    /// The host.
    fn host(&self) -> &Host;
}

impl HostNode for Host {
    fn host(&self) -> &Host {
        self
    }
}

/// The nodes of a run, for reading, as their protocol or as one of their services.
pub trait Nodes<P: Protocol> {
    /// The present.
    fn now(&self) -> Instant;

    /// What the nodes share.
    fn shared(&self) -> &P::Shared;

    /// The protocol of a node.
    fn node(&self, node: NodeId) -> &P;

    /// True unless the node crashed and was not restarted.
    fn is_alive(&self, node: NodeId) -> bool;
}

impl<P: Protocol> Nodes<P> for Sim<'_, P> {
    fn now(&self) -> Instant {
        Sim::now(self)
    }

    fn shared(&self) -> &P::Shared {
        Sim::shared(self)
    }

    fn node(&self, node: NodeId) -> &P {
        Sim::node(self, node)
    }

    fn is_alive(&self, node: NodeId) -> bool {
        Sim::is_alive(self, node)
    }
}

/// Shows an observer of a protocol what concerns one service of a run of hosts, and gives that
/// service what the observer submits.
///
/// It sees what an observer of a run of that protocol alone would see, but for two things:
/// [`Observer::on_membership`] is not called, and [`Input::Drained`] is shown also where the
/// backlog has not yet fallen as far as the service wants. Every host must run the service.
pub struct OfService<P: Protocol, O> {
    service: ServiceNumber,
    shared: Arc<P::Shared>,
    /// The observer.
    pub observer: O,
    reply: Reply<P>,
    // Submitted while another service's command was to be handled first, each with its node.
    unsubmitted: VecDeque<(NodeId, P::Command)>,
    // Wakes that the observer requested: node, time, and the number of the request.
    wakes: BTreeSet<(NodeId, Instant, u64)>,
    wakes_asked: u64,
    counters: Counters,
    // Nodes that are down.
    down: BTreeSet<NodeId>,
}

impl<P: Protocol + 'static, O: Observer<P>> OfService<P, O> {
    /// Shows `observer` the service of this number.
    pub fn new(service: ServiceNumber, shared: Arc<P::Shared>, observer: O) -> OfService<P, O> {
        OfService {
            service,
            shared,
            observer,
            reply: Reply::default(),
            unsubmitted: VecDeque::new(),
            wakes: BTreeSet::new(),
            wakes_asked: 0,
            counters: Counters::default(),
            down: BTreeSet::new(),
        }
    }

    /// The nodes of a run as this service.
    pub fn nodes<'s, 'a, H: HostNode>(&self, sim: &'s Sim<'a, H>) -> ServiceNodes<'s, 'a, H, P> {
        ServiceNodes { sim, service: self.service, shared: Arc::clone(&self.shared) }
    }

    /// What this service has counted at all nodes.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Calls [`Observer::on_wake`] for a node at this time.
    pub fn wake_at<H: HostNode>(&mut self, sim: &mut Sim<'_, H>, at: Instant, node: NodeId) {
        let at = at.max(sim.now());
        self.expect_wake(at, node);
        sim.wake_at(at, node);
    }

    fn expect_wake(&mut self, at: Instant, node: NodeId) {
        self.wakes_asked += 1;
        self.wakes.insert((node, at, self.wakes_asked));
    }

    /// Wakes of a node that are due until `until`.
    fn wakes_due(&self, node: NodeId, until: Instant) -> Vec<(NodeId, Instant, u64)> {
        let due = (node, Instant::ZERO, 0)..=(node, until, u64::MAX);
        self.wakes.range(due).copied().collect()
    }

    fn machine<'a>(&self, host: &'a Host) -> &'a Typed<P, Mailbox<P>> {
        machine(host, self.service)
    }

    fn decode(&self, message: &Message) -> Option<P::Message> {
        let is_mine = message.service == self.service;
        is_mine.then(|| P::decode(&self.shared, message.content.bytes()).ok())?
    }

    /// Shows a message that the service has just sent.
    fn show_send(&mut self, at: Instant, from: NodeId, path: Path, message: &Message) {
        let Some(decoded) = self.decode(message) else { return };
        match (path.to, message.group) {
            (Some(to), _) => self.observer.on_send(at, from, to, path.lane, &decoded),
            (None, Some(group)) => self.observer.on_send_group(at, from, group, &decoded),
            (None, None) => {}
        }
    }

    /// Passes on what the observer wants done, for a call or wake of this node.
    fn pass_on<H: HostNode>(&mut self, at: Instant, node: NodeId, reply: &mut Reply<H>) {
        let service = self.service;
        let command = |command: P::Command| host::Command::new(service, command);
        for (after, node, wanted) in self.reply.commands.drain(..) {
            reply.command(after, node, command(wanted));
        }
        for (after, node) in std::mem::take(&mut self.reply.wakes) {
            self.expect_wake(at + after, node);
            reply.wake(after, node);
        }
        if std::mem::take(&mut self.reply.is_stop_wanted) {
            reply.stop();
        }
        self.unsubmitted.extend(self.reply.submit.take().map(|wanted| (node, wanted)));
        while let Some((submitter, wanted)) = self.unsubmitted.pop_front() {
            if submitter != node {
                // That node's calls are over: it crashed, or a command takes this way as well.
                reply.command(Duration::ZERO, submitter, command(wanted));
            } else if reply.submit.is_none() {
                reply.submit(command(wanted));
            } else {
                return self.unsubmitted.push_front((submitter, wanted));
            }
        }
    }
}

/// The machine of a host's service.
fn machine<P: Protocol + 'static>(host: &Host, service: ServiceNumber) -> &Typed<P, Mailbox<P>> {
    host.service(service).expect("every host runs the service, with this protocol")
}

/// The nodes of a run of hosts as one of their services.
pub struct ServiceNodes<'s, 'a, H: Protocol, P: Protocol> {
    sim: &'s Sim<'a, H>,
    service: ServiceNumber,
    shared: Arc<P::Shared>,
}

impl<H: HostNode, P: Protocol + 'static> Nodes<P> for ServiceNodes<'_, '_, H, P> {
    fn now(&self) -> Instant {
        self.sim.now()
    }

    fn shared(&self) -> &P::Shared {
        &self.shared
    }

    fn node(&self, node: NodeId) -> &P {
        machine(self.sim.node(node).host(), self.service).protocol()
    }

    fn is_alive(&self, node: NodeId) -> bool {
        self.sim.is_alive(node)
    }
}

impl<H: HostNode, P: Protocol + 'static, O: Observer<P>> Observer<H> for OfService<P, O> {
    fn is_watching(&self) -> bool {
        self.observer.is_watching()
    }

    fn before_call(&mut self, at: Instant, node: NodeId, protocol: &H, input: &Input<'_, H>) {
        let machine = self.machine(protocol.host());
        let mut show = |input: Input<'_, P>| {
            self.observer.before_call(at, node, machine.protocol(), &input);
        };
        match input {
            Input::Start => show(Input::Start),
            Input::Message { from, message } if message.service == self.service => {
                if let Ok(message) = P::decode(&self.shared, message.content.bytes()) {
                    show(Input::Message { from: *from, message: &message });
                }
            }
            Input::Timer(host::Timer::Service { service, slot })
                if protocol.host().number(*service) == Some(self.service) =>
            {
                if let Some(&timer) = machine.timer(*slot) {
                    show(Input::Timer(timer));
                }
            }
            Input::Command(command) if command.service == self.service => match &command.input {
                HostInput::View(view) => show(Input::View(view)),
                HostInput::Command(command) => {
                    if let Some(command) = command.downcast_ref() {
                        show(Input::Command(command));
                    }
                }
            },
            Input::View(view) => show(Input::View(view)),
            Input::Peer { peer, state } => show(Input::Peer { peer: *peer, state: *state }),
            Input::Drained(to) if protocol.host().awaits_drain(self.service, *to) => {
                show(Input::Drained(*to));
            }
            Input::Message { .. } | Input::Timer(_) | Input::Command(_) | Input::Drained(_) => {}
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &host::Event, reply: &mut Reply<H>) {
        if event.service != self.service {
            return;
        }
        if let Some(Submitted { path, message }) = event.event.downcast_ref() {
            self.show_send(at, node, *path, message);
        }
        if let Some(event) = event.event.downcast_ref() {
            self.observer.on_event(at, node, event, &mut self.reply);
            self.pass_on(at, node, reply);
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &Message) {
        if !message.has_waited {
            self.show_send(at, from, Path { to: Some(to), lane }, message);
        }
    }

    fn on_send_group(&mut self, at: Instant, from: NodeId, _: GroupId, message: &Message) {
        if !message.has_waited {
            self.show_send(at, from, Path { to: None, lane: Lane::Datagram }, message);
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &H, reply: &mut Reply<H>) {
        let host = protocol.host();
        if host.was_called(self.service) {
            host.counted(self.service).for_each(|counted| self.counters.merge(counted));
            let machine = self.machine(host);
            self.observer.after_call(at, node, machine.protocol(), &mut self.reply);
        }
        self.pass_on(at, node, reply);
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        match fault {
            Fault::Crash(node) => _ = self.down.insert(*node),
            Fault::Restart(node) if self.down.remove(node) => {
                // No node is woken while it is down.
                self.wakes_due(*node, at).iter().for_each(|wake| _ = self.wakes.remove(wake));
            }
            _ => {}
        }
        self.observer.on_fault(at, fault);
    }

    fn on_wake(&mut self, at: Instant, node: NodeId, protocol: &H, reply: &mut Reply<H>) {
        // A wake of another service's observer is not for this one. A paused node is woken late.
        let Some(wake) = self.wakes_due(node, at).first().copied() else { return };
        self.wakes.remove(&wake);
        let machine = self.machine(protocol.host());
        self.observer.on_wake(at, node, machine.protocol(), &mut self.reply);
        self.pass_on(at, node, reply);
    }
}
